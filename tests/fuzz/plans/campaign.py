"""Many plans for many programs, one after another, and what was found in them.

`python -m tests.fuzz.plans --plans N --seed S`: what fails is shrunk, and written as a file.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz import files, generate
from tests.fuzz.execute import Verdict, run_of
from tests.fuzz.gpu import random_gpu
from tests.fuzz.model import Case
from tests.fuzz.plans.shrink import shrink
from tests.fuzz.strategies import instances
from tests.fuzz.workers import ROOT, Worker

SECONDS = 60.0
"""The longest time of one plan: most plans take a second or less, and a plan that takes longer than
this hangs."""

PER_PROGRAM = 4
MOST_INSTANCES = 700
FAILURES = (
    "wrong", "broken", "internal", "chosen is refused", "bad repair", "no repair", "json", "hang",
    "died",
)  # fmt: skip


class PlanCampaign:
    """Draws and judges plans, keeps one shrunk plan of each way to fail, and counts.

    `compiled_every` says which share is compiled and run, by backend. `gpus`: the plans are for
    GPUs.
    """

    def __init__(
        self,
        *,
        seed: int,
        tree: Path = ROOT,
        log: Path | None = None,
        found: Path | None = None,
        shrinks: bool = True,
        seconds: float = SECONDS,
        compiled_every: dict[str, int] | None = None,
        repairs_every: int = 3,
        gpus: bool = False,
    ) -> None:
        self.seed, self.log, self.found, self.shrinks = seed, log, found, shrinks
        self.worker = Worker(tree, seconds=seconds)
        self.compiled_every = {"numba": 1, "c": 3} if compiled_every is None else compiled_every
        self.repairs_every, self.gpus = repairs_every, gpus
        self.counts: Counter[tuple[str, str]] = Counter()
        self.reasons: Counter[str] = Counter()
        self.failures: dict[str, tuple[str, int]] = {}
        self.number = 0
        self.program = 0

    def run(self, plans: int, end: float = float("inf")) -> None:
        """So many plans more."""
        last = self.number + plans
        while self.number < last and time.monotonic() < end:
            case = self._next_case()
            for again in range(PER_PROGRAM):
                seed = f"{self.seed}/{self.program}/{again}"
                if self.number >= last or not self._one(case, seed):
                    break

    def _next_case(self) -> str:
        while True:
            self.program += 1
            case = generate.case(self.seed, self.program, ("evaluate",))
            if not case.refused and not case.helper and instances(case) <= MOST_INSTANCES:
                case = self._on_a_device(case)
                return case.to_json()

    def _on_a_device(self, case: Case) -> Case:
        rng = random.Random(f"{self.seed}/{self.program}")
        if self.gpus:
            return replace(case, device=random_gpu(rng))
        device = case.device if "vector_bits" in case.device else generate.random_device(rng)
        return replace(case, device={n: v for n, v in device.items() if n != "tune"})

    def _one(self, case: str, seed: str) -> bool:
        """Draws and judges a plan; False if the program takes none."""
        self._note({"draw": seed, "case": json.loads(case)})
        drawn = self.worker.ask("draw a plan", {"case": case, "seed": seed})
        if drawn.kind == "skipped":
            return False
        self.number += 1
        if drawn.failed and drawn.kind not in ("random", "mutated", "chosen"):
            self._failed(case, "", seed, drawn, [])
            return True
        backends = [b for b, every in self.compiled_every.items() if self.number % every == 0]
        self._note({"number": self.number, "plan": json.loads(drawn.detail), "on": backends})
        verdict = self.judge(case, drawn.detail, backends, self.number % self.repairs_every == 0)
        if (drawn.kind, verdict.kind) == ("chosen", "refused"):
            verdict = replace(verdict, kind="chosen is refused")
        self.counts[drawn.kind, verdict.kind] += 1
        self._note({"number": self.number, "kind": verdict.kind, "detail": verdict.detail[:600]})
        if verdict.kind == "refused":
            self.reasons[reason_of(verdict.detail)] += 1
        if verdict.kind in FAILURES:
            self._failed(case, drawn.detail, seed, verdict, backends)
        return True

    def judge(self, case: str, plan: str, backends: list[str], check_repair: bool) -> Verdict:
        question = {"case": case, "plan": plan, "backends": backends, "check_repair": check_repair}
        return self.worker.ask("judge a plan", question)

    def _failed(
        self, case: str, plan: str, seed: str, verdict: Verdict, backends: list[str]
    ) -> None:
        signature = signature_of(verdict)
        first, times = self.failures.get(signature, (seed, 0))
        self.failures[signature] = first, times + 1
        if times:
            return
        print(f"\n{seed}: {verdict.kind}: {verdict.detail[:500]}", flush=True)
        if self.shrinks and plan:

            def fails(case: str, plan: str) -> bool:
                found = self.judge(case, plan, backends, "repair" in verdict.kind)
                return signature_of(found) == signature

            case, plan = shrink(case, plan, fails)
        smaller = Case.from_json(case)
        print(f"{smaller.text}options {smaller.options} device {smaller.device}")
        print(plan, flush=True)
        if self.found is not None:
            self.found.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^a-z0-9]+", "_", f"{verdict.kind}_{seed}".lower())
            note = f"{verdict.kind}: {verdict.detail}"
            (self.found / f"{name}.tc").write_text(files.write(run_of(smaller), note))
            (self.found / f"{name}.json").write_text(plan)
            (self.found / f"{name}.case").write_text(case)

    def _note(self, entry: dict[str, Any]) -> None:
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                log.write(json.dumps(entry) + "\n")

    def summary(self) -> str:
        lines = [f"{self.number} plans for {self.program} programs"]
        for (origin, kind), number in sorted(self.counts.items()):
            lines.append(f"  {number:6d} {origin:8} {kind}")
        lines += [f"  {number:6d} refused: {text}" for text, number in self.reasons.most_common(40)]
        for signature, (first, times) in self.failures.items():
            lines.append(f"first at {first}, {times} times: {signature}")
        return "\n".join(lines)

    def close(self) -> None:
        self.worker.close()


def reason_of(text: str) -> str:
    """The form of a reason, without names and numbers."""
    text = re.sub(r"^action \d+ of the part .*?\}: ", "", text, count=1)
    text = re.sub(r"'[^']*'|\[[^\]]*\]|\{[^{}]*\}", "_", text)
    return re.sub(r"\b(\w*\d\w*|[a-zA-Z])\b", "_", text)[:90]


def signature_of(verdict: Verdict) -> str:
    """A text that is equal for failures of one cause."""
    if verdict.kind == "wrong":
        return "wrong"
    text = (verdict.detail.splitlines() or [""])[0]
    if verdict.kind == "broken":
        text = text.rpartition(":")[2]
    text = re.sub(r"'[^']*'|\[[^\]]*\]|\([^()]*\)|\{[^{}]*\}", "_", text)
    return f"{verdict.kind} {re.sub(r'[0-9]+', '_', text)[:70]}"
