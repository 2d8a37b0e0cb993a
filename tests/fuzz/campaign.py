"""Judges many cases of one sequence, one after another, and keeps the failures."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz import files, generate
from tests.fuzz.execute import Verdict, run_of
from tests.fuzz.model import Case, walk
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import ROOT, SECONDS, Workers

WIDE_EVERY = 12
"""One of `WIDE_EVERY` cases is compiled for vectors of 512 bits, too; of cases with && or ||,
half."""

ON_GPUS = ("cuda", "opencl")


class Campaign:
    """Runs cases, keeps one shrunk program of each way to fail, and counts."""

    def __init__(
        self,
        *,
        seed: int,
        tree: Path = ROOT,
        backends: tuple[str, ...] = ("numba", "c", "evaluate"),
        log: Path | None = None,
        found: Path | None = None,
        shrinks: bool = True,
        seconds: float = SECONDS,
    ) -> None:
        self.seed, self.backends, self.shrinks = seed, backends, shrinks
        self.log, self.found = log, found
        self.workers = Workers(tree, seconds)
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, tuple[int, int]] = {}
        self.seconds = 0.0

    def run(self, indices: Iterable[int], end: float = float("inf")) -> None:
        for index in indices:
            if time.monotonic() > end:
                break
            case = generate.case(self.seed, index, self.backends)
            if case.backend in ON_GPUS:
                case = with_gpu_options(case, random.Random(f"{self.seed}/{index}/GPU"))
            self.judge(index, case)
            if "numba" in self.backends and not case.refused and is_wide(index, case):
                self.judge(index, generate.for_wide_vectors(case))

    def judge(self, index: int, case: Case) -> Verdict:
        started = time.monotonic()
        self._note({"index": index, "begun": True, "case": json.loads(case.to_json())})
        verdict = self.workers.judge(case)
        took = time.monotonic() - started
        self.seconds += took
        self.counts[f"{verdict.kind} ({case.compile_for or case.backend})"] += 1
        self._note(
            {
                "index": index,
                "kind": verdict.kind,
                "rule": verdict.rule,
                "detail": verdict.detail[:600] if verdict.failed else "",
                "backend": case.compile_for or case.backend,
                "seconds": round(took, 3),
            }
        )
        if verdict.failed:
            self._failed(index, case, verdict)
        return verdict

    def _failed(self, index: int, case: Case, verdict: Verdict) -> None:
        signature = signature_of(verdict, case)
        first, times = self.failures.get(signature, (index, 0))
        self.failures[signature] = first, times + 1
        if times:
            return
        print(f"\n{index}: {verdict.kind} on {case.backend}: {verdict.detail[:300]}\n{case.text}")
        print(f"options {json.dumps(case.options)} device {json.dumps(case.device)}", flush=True)
        if self.found is None:
            return
        if self.shrinks:
            case = shrink(case, verdict, self.workers)
            print(f"shrunk:\n{case.text}", flush=True)
        self.found.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z]+", "_", f"{verdict.kind}_{case.backend}".lower())
        path = self.found / f"{name}_{self.seed}_{index}.tc"
        path.write_text(files.write(run_of(case), f"{verdict.kind}: {verdict.detail}"))

    def _note(self, entry: dict[str, Any]) -> None:
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                log.write(json.dumps(entry) + "\n")

    def summary(self) -> str:
        lines = [f"{sum(self.counts.values())} runs in {self.seconds:.0f} s"]
        lines += [f"  {number:6d} {kind}" for kind, number in self.counts.most_common()]
        for signature, (first, times) in sorted(self.failures.items(), key=lambda x: x[1]):
            lines.append(f"first at {first}, {times} times: {signature}")
        return "\n".join(lines)

    def close(self) -> None:
        self.workers.close()


def signature_of(verdict: Verdict, case: Case) -> str:
    """What failures of one cause have in common, as far as one can tell from outside."""
    text = verdict.detail.splitlines()[0] if verdict.detail else ""
    if verdict.kind in ("wrong", "oracle"):
        text = "" if verdict.kind == "wrong" else re.sub(r".*(by interpret|is|has).*", r"\1", text)
    text = re.sub(r"'[^']*'|\b\w*\d\w*\b|\([^()]*\)|\{[^{}]*\}", "_", text)
    return f"{verdict.kind} {case.compile_for or case.backend} {verdict.rule} {text[:90]}".strip()


def with_gpu_options(case: Case, rng: random.Random) -> Case:
    """The case with options for GPUs, most of which every GPU has room for, on the one at hand."""
    from tc import Options
    from tests.fuzz.gpu import random_gpu_options

    options = Options(gpu=random_gpu_options(rng))
    return replace(case, device={}, options=json.loads(options.to_json()))


def is_wide(index: int, case: Case) -> bool:
    joined = any(
        e[:2] in (("bin", "&&"), ("bin", "||")) for s in case.statements for e in walk(s.rhs)
    )
    return index % (2 if joined else WIDE_EVERY) == 0
