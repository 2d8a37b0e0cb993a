"""Judges many cases of one sequence, one after another, and keeps the failures."""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import replace
from pathlib import Path

from tests.fuzz import files, generate
from tests.fuzz.execute import Verdict, run_of
from tests.fuzz.model import Case, walk
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import ROOT, SECONDS, Workers
from tests.support.campaigns import Campaign

WIDE_EVERY = 12
"""One of `WIDE_EVERY` cases is compiled for vectors of 512 bits, too; of cases with && or ||,
half."""

ON_GPUS = ("cuda", "opencl")


class ProgramCampaign(Campaign):
    """Runs generated programs, and writes one shrunk program of each way to fail to `found`."""

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
        super().__init__(seed, log)
        self.backends, self.shrinks, self.found = backends, shrinks, found
        self.repeat = (
            f"python -m tests.fuzz --seed {seed} --backends {','.join(backends)} --count 1 --start"
        )
        self.workers = Workers(tree, seconds)

    def judge(self, number: int) -> int:
        case = generate.case(self.seed, number, self.backends)
        if case.backend in ON_GPUS:
            case = with_gpu_options(case, random.Random(f"{self.seed}/{number}/GPU"))
        self.judge_case(number, case)
        if "numba" in self.backends and not case.refused and is_wide(number, case):
            self.judge_case(number, generate.for_wide_vectors(case))
        return 1

    def judge_case(self, index: int, case: Case) -> Verdict:
        started = time.monotonic()
        self.note({"index": index, "begun": True, "case": json.loads(case.to_json())})
        verdict = self.workers.judge(case)
        took = time.monotonic() - started
        self.counts[f"{verdict.kind} ({case.compile_for or case.backend})"] += 1
        self.note(
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
        options = f"options {json.dumps(case.options)} device {json.dumps(case.device)}"
        text = f"on {case.backend}: {verdict.detail[:300]}\n{case.text}\n{options}"
        if not self.find(verdict.kind, index, text, signature_of(verdict, case)):
            return
        if self.found is None:
            return
        if self.shrinks:
            case = shrink(case, verdict, self.workers)
            print(f"shrunk:\n{case.text}", flush=True)
        self.found.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z]+", "_", f"{verdict.kind}_{case.backend}".lower())
        path = self.found / f"{name}_{self.seed}_{index}.tc"
        path.write_text(files.write(run_of(case), f"{verdict.kind}: {verdict.detail}"))

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

    options = Options(gpu=random_gpu_options(rng, may_round=case.backend != "opencl"))
    return replace(case, device={}, options=json.loads(options.to_json()))


def is_wide(index: int, case: Case) -> bool:
    joined = any(
        e[:2] in (("bin", "&&"), ("bin", "||")) for s in case.statements for e in walk(s.rhs)
    )
    return index % (2 if joined else WIDE_EVERY) == 0
