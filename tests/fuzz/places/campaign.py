"""Judges drawn cases: the interpreter and the backends against what the rules say."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import tc
from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.execute import Run, evaluated
from tests.fuzz.places import generate
from tests.fuzz.places.arithmetic import numpy_name
from tests.fuzz.places.brute_force import ENTRY
from tests.fuzz.places.generate import Case
from tests.fuzz.places.on_gpus import evaluated_on_gpu, options_of, target_of
from tests.fuzz.places.outcomes import Array, Outcome
from tests.fuzz.places.trees import number_of
from tests.support.bounds import difference
from tests.support.campaigns import Campaign, Finding

ON_GPUS = ("cuda", "opencl")
"""Backends that test what data decide only if asked (S2, G7)."""

DYNAMIC = "dynamic"
"""Code for sizes that vary (numba), by templates where these serve the sizes."""

GPUS = "gpus"
"""Drawn GPUs and options, on the machine of blocks and threads, with nothing checked: for programs
in which nothing fails."""


class PlaceCampaign(Campaign):
    """Runs cases on each backend; of findings alike, the shortest text is kept."""

    def __init__(
        self, seed: int, backends: tuple[str, ...] = ("interpret",), log: Path | None = None
    ) -> None:
        super().__init__(seed, log)
        self.backends = backends
        self.repeat = (
            f"python -m tests.fuzz.places --seed {seed} --backends {','.join(backends)}"
            " --count 1 --start"
        )
        self.shortest: dict[str, Finding] = {}

    def judge(self, number: int) -> int:
        case = generate.case(self.seed, number, self._count_open)
        self.counts.update(f"drawn: {feature}" for feature in case.features)
        for backend in self.backends:
            self.judge_on(number, case, backend)
        return 1

    def _count_open(self, why: str) -> None:
        self.counts[f"open: {why}"] += 1

    def judge_on(self, number: int, case: Case, backend: str) -> None:
        if backend == GPUS and any(outcome.arrays is None for _, outcome in case.outcomes):
            return
        initial = {name: array.copy() for name, array in case.initial.items()}
        found = run(case, backend, initial)
        if isinstance(found, tc.BackendError):
            self.counts[f"{backend}: not compiled: {found.cause[:60]}"] += 1
            return
        said = unlike(case, found)
        if isinstance(found, Exception) and backend == "interpret":
            touched = [n for n in initial if not is_same(initial[n], case.initial[n])]
            said = said or (f"touched {touched} before an error" if touched else "")
        if not said:
            how = type(found).__name__ if isinstance(found, Exception) else "ran"
            self.counts[f"{backend}: {how}"] += 1
            self.count_reading(case, found)
            return
        signature = f"{backend}: {signature_of(said, found, case)}"
        self.counts[f"{backend}: WRONG"] += 1
        text = f"{said}\n{script(case, backend)}"
        self.find(said.splitlines()[0][:80], number, text, signature)
        known = self.shortest.get(signature)
        if known is None or len(case.text) < len(known.text):
            self.shortest[signature] = Finding(said, number, case.text, signature)
            if known is not None:
                print(f"\n--- {number}: shorter: {text}", flush=True)

    def count_reading(self, case: Case, found: Any) -> None:
        if len(case.outcomes) > 1:
            for reading, outcome in case.outcomes:
                if not unlike(replace(case, outcomes=((reading, outcome),)), found):
                    self.counts[f"read as: {reading}"] += 1


def run(case: Case, backend: str, initial: Mapping[str, Array]) -> Any:
    """The outputs by name, or the exception."""
    given = dict(case.inputs)
    outputs = dict(initial) or None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                if backend == "evaluate":
                    given |= defaults(case)
                    return evaluated(Run(case.text, {}, {}, 0, backend), given, outputs)
                if backend == GPUS:
                    given |= defaults(case)
                    seed = crc32(case.text.encode())
                    target = target_of(seed)
                    options = options_of(seed, target.device)
                    return evaluated_on_gpu(case.text, given, outputs, target, options, ENTRY)
                check = True if backend in ON_GPUS and not by_default(case) else None
                varies, kind = backend == DYNAMIC, "numba" if backend == DYNAMIC else backend
                function = tc.compile(
                    case.text, entry=ENTRY, backend=kind, check=check, dynamic=varies
                )
                found = function(**given, outputs=outputs)
                results = found if isinstance(found, tuple) else (found,)
                return dict(zip(function.program.outputs, results, strict=True))
    except Exception as error:
        return error


def defaults(case: Case) -> dict[str, Array]:
    """The inputs that the call leaves out (E5): the evaluator of kernels takes all."""
    entry = next(d for d in parse(Source(case.text)).defs if d.name.text == ENTRY)
    return {
        p.name.text: np.array(number_of(p.default), numpy_name(p.type.spelling))
        for p in entry.params
        if p.default is not None and p.name.text not in case.inputs
    }


def by_default(case: Case) -> bool:
    """Whether a program runs on GPUs as it does by default, which checks places alone: every other
    one in which nothing fails."""
    is_legal = all(outcome.arrays is not None for _, outcome in case.outcomes)
    return is_legal and len(case.text) % 2 == 0


def unlike(case: Case, found: Any) -> str:
    """Where what was found is not what the rules say, by any reading of them; "" where it is."""
    said = [differs(case, outcome, found) for _, outcome in case.outcomes]
    return "" if "" in said else said[0]


def differs(case: Case, outcome: Outcome, found: Any) -> str:
    if isinstance(found, Exception):
        kind = type(found).__name__
        if kind in outcome.classes or is_stricter(found, case):
            return ""
        wanted = "arrays" if outcome.arrays is not None else outcome.rule
        return f"{kind} for {wanted}: {found}"
    if outcome.arrays is None:
        return f"accepted, for {outcome.rule} ({', '.join(sorted(outcome.classes))})"
    for name, want in outcome.arrays.items():
        got = np.asarray(found[name])
        said = difference(got, want, 0.0 if outcome.exact else bound_of(case, name))
        if said:
            return f"wrong {name}: {said}\ngot  {got.tolist()}\nwant {want.tolist()}"
    return ""


def is_stricter(found: Exception, case: Case) -> bool:
    """Whether tc refuses what it says it refuses: a name that only bounds of ranges mention, which
    is rather a size that is misspelt; self-reads of instances that data rule out (P1: a guard that
    data decide counts as true)."""
    if not isinstance(found, tc.TCError):
        return False
    if found.rule == "G8":
        return "nor another index variable" in found.cause
    return found.rule in ("P1", "S6") and bool(case.features & {"ragged", "condition"})


def bound_of(case: Case, name: str) -> Any:
    """What orders of computation may change (R5)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = {n: a.copy() for n, a in case.initial.items()} or None
        bounds = tc.error_bound(case.text, dict(case.inputs), entry=ENTRY, outputs=outputs)
    return 2 * (getattr(bounds, name) if isinstance(bounds, tuple) else bounds)


def is_same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def signature_of(said: str, found: Any, case: Case) -> str:
    """What findings of one cause have in common, as far as one can tell from outside."""
    first = said.splitlines()[0]
    if isinstance(found, tc.InternalError):
        lines = [line for line in str(found).splitlines() if line.startswith("# ")]
        cause = re.sub(r"'[^']*'|\w*\d\w*|\s+", " ", found.cause)
        return f"internal {cause[:60]} {' '.join(lines[-4:])}"
    if isinstance(found, tc.TCError):
        text = re.sub(r"'[^']*'|\b\w*\d\w*\b|\([^()]*\)|\{[^{}]*\}", "_", found.cause)
        text = "" if found.rule in ("S2", "S5", "G7") else text
        wanted = first.partition(" for ")[2].partition(":")[0]
        return f"{type(found).__name__} {found.rule} for {wanted}: {text[:60]}"
    if isinstance(found, Exception):
        return f"{type(found).__name__} {re.sub(r'[(].*|[0-9]+', '_', str(found))[:60]}"
    if said.startswith("accepted"):
        return first.partition(":")[0]
    what = re.sub(r"\d+|wrong \w+", "", first)[:30]
    kinds = ("several targets", "ragged", "dependent", "data place", "affine place", "self-read")
    return f"wrong {what} {', '.join(sorted(case.features & set(kinds)))}"


def script(case: Case, backend: str) -> str:
    """A program of Python that shows the finding."""

    def written(array: Array) -> str:
        shape = "" if array.ndim == 1 and array.size else f".reshape({array.shape})"
        return f"numpy.array({array.reshape(-1).tolist()}, {str(array.dtype)!r}){shape}"

    lines = ["import numpy, tc", "nan, inf = numpy.nan, numpy.inf", f'text = """{case.text}"""']
    lines += [f"{name} = {written(array)}" for name, array in case.inputs.items()]
    named = ", ".join(f"{name}={name}" for name in case.inputs)
    if case.initial:
        pairs = ", ".join(f"{n!r}: {written(a)}" for n, a in case.initial.items())
        named = f"{named}, outputs={{{pairs}}}".removeprefix(", ")
    lines.append(f"print(tc.compile(text, entry={ENTRY!r}, backend={backend!r})({named}))")
    lines.append(f"# ranges {[dict(r) for r in case.ranges]}")
    for reading, outcome in case.outcomes:
        arrays = outcome.arrays and {n: a.tolist() for n, a in outcome.arrays.items()}
        lines.append(f"# by {reading}: {outcome.rule or arrays} {sorted(outcome.classes)}")
    return "\n".join(lines)
