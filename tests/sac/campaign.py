"""`python -m tests.sac.campaign --programs N --seed S`: generated programs of SaC, each on the
reference, by its lowered def interpreted and compiled, desugared, and by its shape function.

A finding is a value, shape or type that numpy does not give, an error of another rule than is due,
an exception that is no TCError, a call that the reference serves in place of compiled code, or a
program that takes more than a minute. It is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np

import tc
import tc.sac
from tc.sac.function import Function
from tc.sac.text.format import format_source
from tc.sac.text.parser import parse
from tests.support.sac_typed_programs import Program, Unsettled, drawn

NAME = "tests.sac.campaign"
SECONDS = 60
MOST_DEPTH = 8


class Finding(AssertionError):
    """What is wrong with a program."""


class _Hang(BaseException):
    pass


def program_of(seed: int) -> Program:
    """The program of a seed. Raises Unsettled where its value is not settled by the rules."""
    random = Random(seed)
    return drawn(random, random.randint(1, MOST_DEPTH))


def keywords(program: Program) -> dict[str, Any]:
    return {} if program.entry is None else {"entry": program.entry}


@contextmanager
def fallbacks() -> Iterator[list[tc.TCError]]:
    """The errors for which the reference serves a call, while the context lasts."""
    found: list[tc.TCError] = []
    serve = Function._by_reference

    def noted(self: Function, given: Any, outputs: Any, error: tc.TCError) -> Any:
        result = serve(self, given, outputs, error)
        found.append(error)
        return result

    Function._by_reference = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Function._by_reference = serve  # type: ignore[method-assign]


def by_backend(program: Program, backend: str) -> Any:
    return tc.sac.compile(program.text, backend=backend, **keywords(program))(program.inputs)


def desugared(program: Program) -> Any:
    text = tc.sac.desugar(program.text, **keywords(program))
    if "->" in text or "..." in text:
        raise Finding(f"the desugared text has a comprehension or dots: {text}")
    if parse(tc.Source(format_source(tc.Source(text)))) != parse(tc.Source(text)):
        raise Finding("the layout of the desugared text has another tree")
    return tc.sac.interpret(text, program.inputs, **keywords(program))


def lowered_alone(program: Program) -> Any:
    """The results of the lowered def by tc's own interpreter."""
    function = tc.sac.compile(program.text, **keywords(program))
    compiled = function.lowered(program.inputs)
    return tc.interpret(compiled.text, program.inputs)


RUNS: Mapping[str, Callable[[Program], Any]] = {
    "reference": lambda p: tc.sac.interpret(p.text, p.inputs, **keywords(p)),
    "interpret": lambda p: by_backend(p, "interpret"),
    "numba": lambda p: by_backend(p, "numba"),
    "c": lambda p: by_backend(p, "c"),
    "opencl": lambda p: by_backend(p, "opencl"),
    "desugared": desugared,
    "desugared by numba": lambda p: by_backend(
        Program(tc.sac.desugar(p.text, **keywords(p)), p.entry, p.inputs), "numba"
    ),
}


def assert_due(program: Program, found: Any) -> None:
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(program.due):
        raise Finding(f"{len(results)} results, due {len(program.due)}")
    for result, due in zip(map(np.asarray, results), program.due, strict=True):
        if (result.shape, result.dtype) != (due.shape, due.dtype):
            raise Finding(f"{result.dtype}{result.shape}, due {due.dtype}{due.shape}")
        if not np.array_equal(result, due):
            raise Finding(f"{result.tolist()}, due {due.tolist()}")


LEFT_TO_THE_REFERENCE = ("C8", "G6", "G7", "C26")
"""Rules of what no def has, so that the reference serves: a fault in a branch, a variable or an
element that data leave out; an index that is computed in uint64."""


OF_DATA = ("C8", "C9", "C12", "Y4")
"""Rules of faults of data: a program may have several, of which any may be told."""


def check_run(program: Program, run: str) -> str:
    """What came of a run: "right" or "refused"; Finding for what is not due."""
    with fallbacks() as served, _no_longer_than(SECONDS):
        try:
            found = RUNS[run](program)
        except tc.TCError as error:
            if isinstance(error, tc.InternalError):
                raise Finding(f"an internal error: {error}") from error
            is_one_of_several = bool(program.faults) and error.rule in OF_DATA
            if error.rule not in program.faults and not is_one_of_several:
                raise Finding(f"refused: {error}") from error
            return "refused"
    if served and run != "opencl" and served[0].rule not in LEFT_TO_THE_REFERENCE:
        raise Finding(f"served by the reference: {served[0]}")
    if not program.faults:
        assert_due(program, found)
    if served:
        return "by the reference"
    return "right" if not program.faults else "not refused"  # C10: what is not needed is open


def check_shapes(program: Program) -> None:
    """The shape function, `infer` and the demands of level S, each beside the shape that is due."""
    if program.faults:
        return
    infos = tc.sac.compile(program.text, **keywords(program)).infer(program.inputs)
    infos = infos if isinstance(infos, tuple) else (infos,)
    shapes = [due.shape for due in program.due]
    if [(info.shape, str(info.dtype)) for info in infos] != [
        (due.shape, str(due.dtype)) for due in program.due
    ]:
        raise Finding(f"infer: {infos}, due {shapes}")
    text = tc.sac.shape_function(program.text, **keywords(program))
    given: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    for name, level in tc.sac.demand(program.text, "S", **keywords(program)).items():
        value = program.inputs[name]
        changed[name] = value if level == "F" else np.zeros_like(value)
        sizes = np.array(value.shape, np.int32)
        if level == "F" and program.entry is None:
            if value.dtype.kind not in "iu":
                return  # a function that is made of an expression takes integers
            is_condition = re.search(rf"bool\[\*\] {name}\b", text)  # of which it takes bools
            given[name] = value.astype("bool" if is_condition else "int32")
        elif level != "N":
            given[name] = {"F": value, "S": sizes, "D": np.int32(value.ndim)}[level]
    function = parse(tc.Source(text)).definitions[-1].name.text
    try:
        found = tc.sac.interpret(text, given, entry=function)
    except tc.TCError as error:
        if program.is_faulty and error.rule in OF_DATA:
            return  # a shape takes the value of a condition whose branches have one shape (C22)
        raise
    found = found if isinstance(found, tuple) else (found,)
    if [tuple(np.asarray(shape).tolist()) for shape in found] != shapes:
        raise Finding(f"the shape function gives {found}, due {shapes}: {text}")
    infos = tc.sac.compile(program.text, **keywords(program)).infer(changed)
    infos = infos if isinstance(infos, tuple) else (infos,)
    if [info.shape for info in infos] != shapes:
        raise Finding("the shape depends on more than level S demands")


def check_demand(program: Program) -> None:
    """What level F does not need may be another array, or have other elements."""
    if program.faults:
        return
    changed = {}
    for name, level in tc.sac.demand(program.text, "F", **keywords(program)).items():
        value = program.inputs[name]
        changed[name] = value if level == "F" else np.zeros_like(value)
    if any(changed[name] is not value for name, value in program.inputs.items()):
        assert_due(program, tc.sac.interpret(program.text, changed, **keywords(program)))


CHECKS: Mapping[str, Callable[[Program], None]] = {"shapes": check_shapes, "demand": check_demand}


@contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _Hang

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except _Hang:
        raise Finding(f"more than {seconds} seconds") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(program: Program, runs: list[str]) -> Iterator[tuple[str, str]]:
    """What came of each run and check; Finding, or another exception, at the first that fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        for run in runs:
            if run in CHECKS:
                with _no_longer_than(SECONDS):
                    CHECKS[run](program)
                yield run, "right"
            else:
                yield run, check_run(program, run)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sac.campaign", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has the next")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument(
        "--runs",
        default="reference:1,interpret:1,numba:1,c:4,desugared:1,desugared by numba:4,shapes:1,"
        "demand:1",
        help="name:every how many programs",
    )
    parser.add_argument("--stop", action="store_true", help="at the first finding")
    chosen = parser.parse_args(arguments)
    every = {r: int(n) for r, _, n in (x.partition(":") for x in chosen.runs.split(","))}
    counts: Counter[str] = Counter()
    end = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    findings = 0
    for number in range(chosen.seed, chosen.seed + chosen.programs):
        if time.monotonic() > end:
            break
        try:
            program = program_of(number)
        except Unsettled as reason:
            counts[f"not settled: {reason}"] += 1
            continue
        counts["programs"] += 1
        for run in (r for r, n in every.items() if number % n == 0):
            try:
                for name, kind in judge(program, [run]):
                    counts[f"{name} {kind}"] += 1
            except Exception as error:
                findings += 1
                told = str(error) if isinstance(error, Finding) else traceback.format_exc()
                command = f"python -m {NAME} --programs 1 --seed {number} --runs '{run}:1'"
                print(f"--- {command}\n{program.text}\n{program.inputs}\n{told[:3000]}", flush=True)
                if chosen.stop:
                    return 1
        if number % 1000 == 999:
            print(number, dict(counts), flush=True)
    print(f"{findings} findings; {dict(counts)}")
    return min(findings, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
