"""Many plans for many programs, one after another, and what was found in them.

`python -m tests.fuzz.plans --count N --seed S`: what fails is shrunk, and written as a file.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tc.gpu import Gpu
from tests.fuzz import files, generate
from tests.fuzz.execute import Verdict, run_of
from tests.fuzz.gpu import random_gpu
from tests.fuzz.model import Case
from tests.fuzz.plans.judge import MOST_EVALUATED
from tests.fuzz.plans.programs import planned_case, scattered_case
from tests.fuzz.plans.shrink import shrink
from tests.fuzz.strategies import instances
from tests.fuzz.workers import ROOT, Worker
from tests.support.campaigns import Campaign

SECONDS = 60.0
"""The longest time of one plan: most plans take a second or less, and a plan that takes longer than
this hangs."""

PER_PROGRAM = 4
FAILURES = (
    "wrong", "broken", "internal", "chosen is refused", "bad repair", "no repair", "json", "hang",
    "died",
)  # fmt: skip
ORIGINS = ("random", "mutated", "chosen", "decided")


class PlanCampaign(Campaign):
    """Draws and judges plans for generated programs, and writes one shrunk plan of each way to
    fail to `found`.

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
        super().__init__(seed, log)
        self.found, self.shrinks = found, shrinks
        flags = " --gpus" if gpus else " --backends numba:1,c:1"
        self.repeat = (
            f"python -m tests.fuzz.plans --seed {seed}{flags} --count {PER_PROGRAM} --start"
        )
        self.worker = Worker(tree, seconds=seconds)
        self.compiled_every = {"numba": 1, "c": 3} if compiled_every is None else compiled_every
        self.repairs_every, self.gpus = repairs_every, gpus
        self.reasons: Counter[str] = Counter()

    def judge(self, number: int) -> int:
        """Judges up to `PER_PROGRAM` plans for the program of this number."""
        if number % 5 == 3:
            case = scattered_case(f"{self.seed}/{number}", MOST_EVALUATED)
        elif self.gpus or number % 2 == 0:
            case = generate.case(self.seed, number, ("evaluate",))
            if case.refused or case.helper or instances(case) > MOST_EVALUATED:
                return 0
        else:
            case = planned_case(f"{self.seed}/{number}")
        case = self._on_a_device(case, number)
        for again in range(min(PER_PROGRAM, self.left)):
            if not self._one(case, number, again):
                return again
        return min(PER_PROGRAM, self.left)

    def _on_a_device(self, case: Case, number: int) -> Case:
        rng = random.Random(f"{self.seed}/{number}")
        if self.gpus:
            device = random_gpu(rng)
            rounds = Gpu(**device).multiplies_matrices and rng.random() < 0.3
            own = {} if "preset" in case.options else {"gpu": {"tf32": rounds}}
            return replace(case, device=device, options={**case.options, **own})
        device = case.device if "vector_bits" in case.device else generate.random_device(rng)
        return replace(case, device={n: v for n, v in device.items() if n != "tune"})

    def _one(self, drawn_case: Case, program: int, again: int) -> bool:
        """Draws and judges a plan; False if the program takes none. Programs that are too large
        for `evaluate` are run compiled."""
        case = drawn_case.to_json()
        seed, number = f"{self.seed}/{program}/{again}", self.judged + again + 1
        self.note({"draw": seed, "case": json.loads(case)})
        drawn = self.worker.ask("draw a plan", {"case": case, "seed": seed})
        if drawn.kind == "skipped":
            return False
        if drawn.failed and drawn.kind not in ORIGINS:
            self._failed(case, "", program, again, drawn, [])
            return True
        backends = [b for b, every in self.compiled_every.items() if number % every == 0]
        if instances(drawn_case) > MOST_EVALUATED:
            backends = backends or ["numba"]
        self.note({"number": number, "plan": json.loads(drawn.detail), "on": backends})
        checks_repair = number % self.repairs_every == 0
        verdict = self.judge_plan(case, drawn.detail, backends, checks_repair)
        if (drawn.kind, verdict.kind) == ("chosen", "refused"):
            verdict = replace(verdict, kind="chosen is refused")
        self.counts[f"{drawn.kind}: {verdict.kind}"] += 1
        self.note({"number": number, "kind": verdict.kind, "detail": verdict.detail[:600]})
        if verdict.kind == "refused":
            self.reasons[reason_of(verdict.detail)] += 1
        if verdict.kind in FAILURES:
            self._failed(case, drawn.detail, program, again, verdict, backends)
        return True

    def judge_plan(self, case: str, plan: str, backends: list[str], check_repair: bool) -> Verdict:
        question = {"case": case, "plan": plan, "backends": backends, "check_repair": check_repair}
        return self.worker.ask("judge a plan", question)

    def _failed(
        self,
        case: str,
        plan: str,
        program: int,
        again: int,
        verdict: Verdict,
        backends: list[str],
    ) -> None:
        signature = signature_of(verdict)
        if not self.find(verdict.kind, program, verdict.detail[:500], signature):
            return
        if self.shrinks and plan:

            def fails(case: str, plan: str) -> bool:
                found = self.judge_plan(case, plan, backends, "repair" in verdict.kind)
                return signature_of(found) == signature

            case, plan = shrink(case, plan, fails)
        smaller = Case.from_json(case)
        print(f"{smaller.text}options {smaller.options} device {smaller.device}")
        print(plan, flush=True)
        if self.found is not None:
            self.found.mkdir(parents=True, exist_ok=True)
            name = re.sub(
                r"[^a-z0-9]+", "_", f"{verdict.kind}_{self.seed}_{program}_{again}".lower()
            )
            note = f"{verdict.kind}: {verdict.detail}"
            (self.found / f"{name}.tc").write_text(files.write(run_of(smaller), note))
            (self.found / f"{name}.json").write_text(plan)
            (self.found / f"{name}.case").write_text(case)

    def summary(self) -> str:
        refused = [
            f"  {number:6d} refused: {text}" for text, number in self.reasons.most_common(40)
        ]
        return "\n".join([super().summary(), *refused])

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
