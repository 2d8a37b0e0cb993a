"""Programs that nobody has seen, for GPUs: drawn by a seed, checked, and modelled without a GPU.

Of five programs two are contractions (`bench.suites.drawn`), three are of `bench.broad`, each at
most once, at sizes that fill a GPU; of a quarter all sizes are primes. A text that a program has at
tiny sizes is run on the machine for PTX, and has to compute what the interpreter does. Its time at
the sizes that were drawn, by the model, stands over the *limit*: what the operations and bytes of
the program take at least, and one launch.

The regret of a program is the time of the plan that tc chooses over that of the best of some plans
that the tuner's search finds, all by the model.
"""

from __future__ import annotations

import json
import math
import random
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench.broad_programs.program import DTYPES, product
from bench.broad_programs.program import Program as DrawnProgram
from bench.broad_programs.table import PROGRAMS
from bench.cpu_report import geometric_mean
from bench.gpu_launches import ARCH, MODELLED, counts_of, roofline
from bench.gpu_machines import MACHINES, RESULTS
from bench.suites.contraction import Contraction
from bench.suites.drawn import drawn_contractions
from tc.backends.cuda import CudaBackend
from tc.backends.geometry import LaunchText
from tc.errors import TCError
from tc.runtime.sizes import resolve_sizes
from tc.semantics.program import Program
from tc.semantics.work import program_work
from tc.tuning.problem import Problem
from tc.tuning.search import FAILED, search_named
from tc.tuning.space import SearchSpace
from tests.support.bounds import as_tuple, difference
from tests.support.pipeline import as_arrays, as_buffers
from tests.support.ptx.machine import PtxError
from tests.support.ptx.texts import run_text

COUNT, CANDIDATES = 40, 12
"""Programs, and plans of each for its regret."""
WORK = (4, 8)
"""How many times the work of a program of `bench.broad`, which is for processors, the least and the
most work for a GPU is."""
LARGE, LARGER = 100, 4
"""Sizes from which on the greatest one that may be drawn is so many times as large for a GPU."""
PRIMES = 0.25
"""The share of programs all of whose sizes are primes."""
MEAN, MOST, REGRET = 2.2, 6.0, 1.25
"""The bars: the geometric mean of times over limits, the greatest, and the mean regret."""
TYPES = ("float", "float", "float", "double")


@dataclass(frozen=True)
class Unseen:
    """A program at sizes: the shapes of its inputs, numbers for those of rank 0, below which number
    the integers of some inputs are, and, at tiny sizes, arrays."""

    name: str
    text: str
    inputs: Mapping[str, Any]
    below: Mapping[str, int]
    little: Sequence[Any]


def unseen(count: int, seed: int) -> list[Unseen]:
    """
    >>> some = [one.name for one in unseen(5, seed=3)]
    >>> some[:2] == [one.name for one in unseen(2, seed=3)], len(set(some))
    (True, 5)
    """
    contractions = iter(drawn_contractions(count, seed, TYPES))
    chance = random.Random(seed)
    others = iter(chance.sample(sorted(PROGRAMS), len(PROGRAMS)))
    found = []
    for number in range(count):
        primes = random.Random(f"{seed} {number}").random() < PRIMES
        if number % 5 in (0, 3):
            found.append(_of_contraction(next(contractions), primes=primes))
        else:
            found.append(_of_program(PROGRAMS[next(others)], seed, primes=primes))
    return found


def prime(number: int) -> int:
    """The greatest prime that is no greater; numbers below two stay.

    >>> [prime(number) for number in (1, 2, 9, 97, 100)]
    [1, 2, 7, 97, 97]
    """
    while any(number % other == 0 for other in range(2, math.isqrt(number) + 1)):
        number -= 1
    return number


def _of_contraction(drawn: Contraction, *, primes: bool) -> Unseen:
    sizes = {i: prime(n) if primes else n for i, n in drawn.sizes.items()}
    found = replace(drawn, sizes=sizes)
    small = {i: min(n, 5 + number) for number, (i, n) in enumerate(sorted(sizes.items()))}
    shapes = {
        name: tuple(sizes[i] for i in indices)
        for name, indices in (("A_", drawn.left), ("B_", drawn.right))
    }
    told = " ".join(f"{i}{n}" for i, n in sorted(sizes.items()))
    little = found.operands(np.random.default_rng(0), small)
    return Unseen(f"{found.einsum} {found.type} {told}", found.text, shapes, {}, little)


def _of_program(program: DrawnProgram, seed: int, *, primes: bool) -> Unseen:
    low, high = program.within
    ranges = {
        name: (first, last * LARGER if last >= LARGE else last)
        for name, (first, last) in program.sizes.items()
    }
    work = (low * WORK[0], high * WORK[1])
    sizes = replace(program, sizes=ranges, within=work).drawn(seed).sizes
    if primes:
        own = {name: prime(sizes[name]) for name in program.sizes}
        derived = {name: product(factors, own) for name, factors in program.derived.items()}
        sizes = {**sizes, **own, **derived}
    inputs = {
        name: program.scalars[name]
        if dims is None
        else tuple(product(dim, sizes) for dim in dims.split(","))
        for _, dims, name in program.parameters
    }
    below = {name: product(factors, sizes) for name, factors in program.selects.items()}
    told = " ".join(f"{name}{size}" for name, size in sizes.items())
    little = program.tiny(seed).case().inputs
    return Unseen(f"{program.key} {told}", program.text, inputs, below, little)


# --- right, and how fast ------------------------------------------------------------------------


def fault_of(one: Unseen) -> str:
    """What is wrong with the results of a program at tiny sizes, on the machine for PTX; "" where
    nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        trace = tc.explain(one.text, *one.little, backend="cuda", device=tc.Gpu.named(ARCH)).trace
        expected = as_tuple(tc.interpret(one.text, one.little))
        bounds = as_tuple(tc.error_bound(one.text, one.little))
    assert trace is not None
    assert isinstance(trace.text, LaunchText)
    arrays = dict(
        as_arrays(trace.program, dict(zip(trace.program.inputs, one.little, strict=True)))
    )
    for name, value in zip(trace.program.outputs, expected, strict=True):
        poison = np.nan if np.asarray(value).dtype.kind == "f" else 99
        arrays[name] = np.full_like(value, poison)
    try:
        failure, found = run_text(trace.text, as_buffers(trace.text.kernel, arrays))
    except PtxError as error:
        return str(error)
    if failure is not None:
        return str(failure)
    for name, value, bound in zip(trace.program.outputs, expected, bounds, strict=True):
        if said := difference(found[name].reshape(np.shape(value)), np.asarray(value), bound):
            return f"{name}: {said}"
    return ""


def text_of(one: Unseen, options: tc.Options | None = None) -> tuple[LaunchText, float]:
    """The text of a program, and the least seconds for it: its operations, as written or as tc
    rewrites it, whatever is less, its bytes, and one launch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        trace = tc.explain(
            one.text, one.inputs, backend="cuda", device=tc.Gpu.named(ARCH), options=options
        ).trace
    assert trace is not None
    assert isinstance(trace.text, LaunchText)
    work = program_work(trace.shaped)
    operations = min(work.operations, program_work(trace.lowering.shaped).operations)
    types = {tensor.dtype for tensor in trace.program.tensors.values()}
    times = 2 if any(dtype.numpy == DTYPES["double"] for dtype in types) else 1
    least = roofline(times * operations, work.bytes)
    return trace.text, least + MACHINES[MODELLED].launch_seconds


def model_of(one: Unseen, text: LaunchText) -> list[dict[str, Any]]:
    machine = MACHINES[MODELLED]
    return counts_of(text, machine.gpu, machine, one.below)


def seconds_of(launches: Sequence[Mapping[str, Any]]) -> float:
    return 1e-6 * sum(launch["model"]["us"] for launch in launches)


def drawn_row(one: Unseen) -> dict[str, Any]:
    """A record of one program; what fails is told in it."""
    row: dict[str, Any] = {"program": one.name, "fault": fault_of(one)}
    text, least = text_of(one)
    row["limit us"] = round(1e6 * least, 2)
    try:
        launches = model_of(one, text)
    except PtxError as error:  # a thread that has more to do than anybody waits for
        return row | {"fault": row["fault"] or str(error), "over limit": None, "launches": []}
    told = (
        {
            "function": launch["function"], "blocks": launch["blocks"],
            "threads": launch["threads"], "registers": launch["registers"],
            "us": launch["model"]["us"],
        }
        for launch in launches
    )  # fmt: skip
    seconds = seconds_of(launches)
    return row | {
        "model us": round(1e6 * seconds, 1),
        "over limit": round(seconds / least, 2),
        "launches": list(told),
    }


# --- regret -------------------------------------------------------------------------------------


class _Sm90(CudaBackend):
    """Texts for the GPU that is modelled."""

    def device(self) -> tc.Gpu:
        return tc.Gpu.named(ARCH)


def regret_row(one: Unseen, plans: int, seed: int) -> dict[str, Any]:
    """A record of the search for the plan that is fastest by the model."""
    backend = _Sm90()
    program = tc.compile(one.text).program
    given = {
        name: np.broadcast_to(np.zeros((), DTYPES[_kind(program, name)]), value)
        if isinstance(value, tuple)
        else value
        for name, value in one.inputs.items()
    }
    sizes = replace(resolve_sizes(program, given), strides={})
    problem = Problem.of(program, sizes, backend, check=False)
    search = search_named("guided", SearchSpace(problem, backend), seed)
    chosen, failed = FAILED, 0
    for number in range(plans + 1):
        candidate = search.ask()
        if candidate is None:
            break
        try:
            seconds = seconds_of(model_of(one, text_of(one, candidate.options)[0]))
        except (TCError, PtxError) as error:
            print(f"failed: {error}", flush=True)
            seconds, failed = FAILED, failed + 1
        search.tell(candidate, seconds)
        chosen = seconds if number == 0 else chosen
    best = search.best
    assert best is not None
    least = search.times[best.digest]
    return {
        "program": one.name,
        "tried": len(search.times),
        "failed": failed,
        "chosen us": round(1e6 * chosen, 1),
        "best us": round(1e6 * least, 1),
        "regret": round(chosen / least, 2),
        "point": best.point,
    }


# --- reports ------------------------------------------------------------------------------------


def drawn_report(rows: Sequence[Mapping[str, Any]]) -> str:
    """The programs, the farthest from their limits first.

    >>> row = {"program": "p", "fault": "", "limit us": 2.0, "model us": 4.0, "over limit": 2.0}
    >>> print(drawn_report([{**row, "launches": []}]).splitlines()[-1])
    Geometric mean 2.00 (bar 2.2), greatest 2.00; over 6.0: 0 of 1; wrong or not ended: 0.
    """
    ended = [row for row in rows if row["over limit"] is not None]
    slowest = sorted(ended, key=lambda row: -row["over limit"])
    lines = [
        (
            row["program"], f"{row['limit us']:.2f}", row.get("model us", "-"),
            row["over limit"] or "-",
            ", ".join(
                f"{one['blocks']} x {one['threads']}: {one['us']}" for one in row["launches"]
            ),
            row["fault"].partition("\n")[0],
        )
        for row in (*(row for row in rows if row["over limit"] is None), *slowest)
    ]  # fmt: skip
    heads = ["program", "limit, us", "model, us", "over limit", "blocks x threads: us", "fault"]
    over = [row["over limit"] for row in ended]
    beyond = len(rows) - len(ended) + sum(each > MOST for each in over)
    table = tabulate(lines, heads, tablefmt="github", disable_numparse=True)
    return f"""{table}

Geometric mean {geometric_mean(over):.2f} (bar {MEAN}), greatest {max(over):.2f}; over {MOST}: \
{beyond} of {len(rows)}; wrong or not ended: {sum(bool(row["fault"]) for row in rows)}."""


def regret_report(rows: Sequence[Mapping[str, Any]]) -> str:
    """The programs, those with the greatest regret first.

    >>> row = {"program": "p", "tried": 9, "failed": 0, "chosen us": 3.0, "best us": 2.0}
    >>> print(regret_report([{**row, "regret": 1.5, "point": {}}]).splitlines()[-1])
    Mean 1.50 (bar 1.25).
    """
    lines = [
        (
            row["program"], row["chosen us"], row["best us"], f"{row['regret']:.2f}", row["tried"],
            "; ".join(f"{name} = {value}" for name, value in sorted(row["point"].items())),
        )
        for row in sorted(rows, key=lambda row: -row["regret"])
    ]  # fmt: skip
    heads = ["program", "chosen, us", "best, us", "regret", "plans", "the best one"]
    mean = math.fsum(row["regret"] for row in rows) / len(rows)
    table = tabulate(lines, heads, tablefmt="github", disable_numparse=True)
    return f"{table}\n\nMean {mean:.2f} (bar {REGRET})."


def drawn(seed: str, count: int = COUNT) -> str:
    """Models programs that a seed, a hexadecimal number, draws. Returns the report."""
    rows = []
    for row in map(drawn_row, unseen(count, int(seed, 16))):
        rows.append(row)
        print(row["over limit"], row["program"], row["fault"], flush=True)
    return _written(f"gpu-drawn-{ARCH}-{seed}", rows, drawn_report(rows))


def regrets(seed: str, count: int = COUNT // 2, plans: int = CANDIDATES) -> str:
    """The regrets of programs that a seed draws. Returns the report."""
    rows = []
    for number, one in enumerate(unseen(count, int(seed, 16))):
        begin = time.perf_counter()
        try:
            rows.append(regret_row(one, plans, number))
        except PtxError as error:
            print(f"{one.name}: {error}", flush=True)
            continue
        took = time.perf_counter() - begin
        print(f"{rows[-1]['regret']:7.2f} {one.name} ({took:.0f} s)", flush=True)
    return _written(f"gpu-regret-{ARCH}-{seed}", rows, regret_report(rows))


def _written(name: str, rows: Sequence[Mapping[str, Any]], report: str) -> str:
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(report + "\n")
    return report


def _kind(program: Program, name: str) -> str:
    return next(k for k, v in DTYPES.items() if v == program.tensors[name].dtype.numpy)
