"""SaC's notation beside numba's loops, numpy and texts of tc: `python -m bench.sac --seed 33`.

Each program runs at three sizes that the seed draws. All take one thread; times are of the
processor that the thread takes, so that other work of the machine counts little, in rounds that
alternate; medians. `--save` writes the tables into `bench/results`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
import tc.sac
from bench.cpu_machine import describe, one_line, short_name
from bench.sac_cases import CASES, EXAMPLES, Case, example
from bench.timing import seconds_of_rounds, with_one_thread

RESULTS = Path(__file__).parent / "results"
ONE = tc.Options(threads=1)
SIZES = 3


def compiled(text: str, entry: str) -> Any:
    return tc.sac.compile(text, entry=entry, options=ONE)


def shapes_of(inputs: tuple[Any, ...]) -> str:
    return " ".join("x".join(map(str, np.shape(a))) for a in inputs if np.ndim(a))


def agree(case: Case, found: Any, wanted: Any) -> None:
    """Raises SystemExit where two results differ by more than rounding."""
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for one, other in pairs:
        if one.shape != other.shape or not np.allclose(one, other, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"{case.name}: results differ")


def measured(runs: dict[str, Callable[[], object]], budget: float) -> dict[str, float]:
    """Median seconds of the processor for each run."""
    samples = seconds_of_rounds(runs, budget=budget, rounds=9, clock=time.thread_time)
    return {name: statistics.median(values) for name, values in samples.items()}


def steady(seed: int, budget: float) -> list[list[Any]]:
    """A row for each program and size: the times, and those of others over that of SaC's."""
    rows = []
    for place, case in enumerate(CASES):
        for draw in range(SIZES):
            inputs = case.inputs(np.random.default_rng((seed, place, draw)))
            function = compiled(case.text, case.entry)
            runs: dict[str, Callable[[], object]] = {
                "sac": lambda f=function, i=inputs: f(*i),
                "numba": lambda i=inputs, c=case: c.loops(*i),
                "numpy": lambda i=inputs, c=case: c.with_numpy(*i),
            }
            if case.text_of_tc:
                text = tc.compile(case.text_of_tc, options=ONE)
                runs["tc"] = lambda f=text, i=inputs: f(*i)
            wanted = case.with_numpy(*inputs)
            for run in runs.values():
                agree(case, run(), wanted)
            times = measured(runs, budget)
            others = [times.get(name) for name in ("numba", "numpy", "tc")]
            ratios = [t and t / times["sac"] for t in others]
            row = [case.name, shapes_of(inputs), 1e3 * times["sac"]]
            rows.append([*row, *(t and 1e3 * t for t in others), *ratios])
            print(row, ratios, file=sys.stderr, flush=True)
    return rows


def means(rows: list[list[Any]]) -> list[list[Any]]:
    """Geometric means, and the least with its program, of the three ratios."""
    found = []
    for name, column in (("numba", 6), ("numpy", 7), ("numpy, without products", 7), ("tc", 8)):
        products = ("matrix product, dots", "attention")
        kept = [r for r in rows if r[column] and ("without" not in name or r[0] not in products)]
        mean = statistics.geometric_mean(r[column] for r in kept)
        least = min(kept, key=lambda r: r[column])
        under = sum(r[column] < 1 for r in kept)
        found.append([name, len(kept), mean, least[column], f"{least[0]} {least[1]}", under])
    return found


def first_calls(seed: int) -> list[list[Any]]:
    """Milliseconds of the first call: SaC's text, and the text of tc, with nothing on disk. Times
    are of the whole process, as compilers run in threads of their own."""
    rows = []
    tc.cache.disable()
    for place, case in enumerate(CASES):
        if not case.text_of_tc:
            continue
        times: dict[str, list[float]] = {"sac": [], "tc": []}
        for draw in range(100, 106):  # other sizes each time, as equal ones are compiled already
            inputs = case.inputs(np.random.default_rng((seed, place, draw)))
            for name in ("sac", "tc"):
                begin = time.process_time()
                if name == "sac":
                    compiled(case.text, case.entry)(*inputs)
                else:
                    tc.compile(case.text_of_tc, options=ONE)(*inputs)
                times[name].append(time.process_time() - begin)
        own, other = (1e3 * statistics.median(times[name][1:]) for name in ("sac", "tc"))
        rows.append([case.name, own, other, own - 1.15 * other])
    tc.cache.enable()
    return rows


def lowering_of_the_network() -> list[list[Any]]:
    rng = np.random.default_rng(0)
    shapes = (100, 28, 28), (6, 5, 5), (6,), (12, 6, 5, 5), (12,), (10, 12, 1, 4, 4), (10,)
    inputs = [rng.random(shape, np.float32) for shape in shapes]
    times: dict[str, list[float]] = {"front end": [], "lowering": []}
    for _ in range(9):
        begin = time.process_time()
        function = compiled(example("cnn"), "digits")
        middle = time.process_time()
        function.lowered(*inputs)
        times["front end"].append(middle - begin)
        times["lowering"].append(time.process_time() - middle)
    return [[name, 1e3 * statistics.median(values)] for name, values in times.items()]


def chain(count: int) -> str:
    steps = "".join(f"  a{n + 1} = relaxation(a{n});\n" for n in range(count))
    return f"{example('relaxation')}\nfloat[*] chain(float[*] a0) {{\n{steps}  return a{count};\n}}"


def chains() -> list[list[Any]]:
    """Milliseconds of lowering a chain of relaxations, and seconds of its first call."""
    rows = []
    a = np.random.default_rng(0).random((200, 300), np.float32)
    tc.cache.disable()
    for count in (1, 2, 4, 8, 16, 32, 64):
        begin = time.process_time()
        function = compiled(chain(count), "chain")
        function.lowered(a)
        middle = time.process_time()
        result = function(a)
        end = time.process_time()
        wanted = a
        for _ in range(count):
            wanted = CASES[0].with_numpy(wanted)
        assert np.allclose(result, wanted, rtol=1e-4)
        rows.append([count, 1e3 * (middle - begin), end - middle])
    tc.cache.enable()
    return rows


def multigrid(classes: str) -> list[list[Any]]:
    """NAS MG on one core: seconds, and Gflop/s as the benchmark counts them."""
    sys.path.insert(0, str(EXAMPLES))
    import multigrid as mg  # type: ignore[import-not-found]

    rows = []
    for name in classes:
        size, due = mg.CLASSES[name]
        v, operators = mg.right_side(size), tc.sac.define(mg.TEXT, options=ONE)
        mg.solve(operators, v, 1)
        times, norm = [], 0.0
        for _ in range(5 if name != "A" else 3):
            begin = time.thread_time()
            norm = mg.solve(operators, v)
            times.append(time.thread_time() - begin)
        seconds = statistics.median(times)
        numpy = None
        if name != "A":
            begin = time.thread_time()
            mg.solve(mg.ByNumpy(), v)
            numpy = time.thread_time() - begin
        rate = mg.FLOPS_OF_A_POINT * size**3 * mg.CYCLES / seconds / 1e9
        error = abs(norm - due) / due
        rows.append([name, seconds, rate, error, numpy, numpy and numpy / seconds])
    return rows


def large_attention() -> list[list[Any]]:
    """Attention of (16384, 64) on one core, as the text is and in blocks of 128 queries."""
    rng = np.random.default_rng(0)
    rows = []
    for blocks in (128, 16):
        q = rng.random((blocks, 16384 // blocks, 64), np.float32)
        k, v = rng.random((2, 16384, 64), np.float32)
        function = compiled(example("attention"), "attention")
        function(q, k, v)
        times = []
        for _ in range(3):
            begin = time.thread_time()
            function(q, k, v)
            times.append(time.thread_time() - begin)
        seconds = statistics.median(times)
        rows.append([f"{blocks} blocks", seconds, 4 * 16384**2 * 64 / seconds / 1e9])
    return rows


def training() -> list[list[Any]]:
    """A step of the network, 100 pictures, beside torch: one thread each."""
    sys.path.insert(0, str(EXAMPLES))
    import cnn  # type: ignore[import-not-found]
    import torch

    torch.set_num_threads(1)
    rows = []
    apart = tc.ScheduleOptions(fusion="min")
    for name, options in (
        ("default options", ONE),
        ('fusion="min"', replace(ONE, schedule=apart)),
    ):
        own, other = cnn.compared_with_torch(100, options)
        times = measured({"tc": own, "torch": other}, 4.0)
        rows.append([name, 1e3 * times["tc"], 1e3 * times["torch"], times["torch"] / times["tc"]])
    return rows


# --- tables ---------------------------------------------------------------------------------------

HOW = """All take one thread, on a machine of two cores that others used at the same time: times are
of the processor that the thread took, medians of nine rounds that alternate between the libraries.
The sizes are drawn by the seed. A ratio is the time of the other library over that of SaC's text;
`numba` are loops as one writes them (`bench/sac_cases.py`), `tc` is a text of tc, where there is
one."""

Table = tuple[str, list[str], list[list[Any]]]


def tables(parts: str, seed: int, budget: float) -> list[Table]:
    found: list[Table] = []
    if "s" in parts:
        rows = steady(seed, budget)
        others = ["numba", "numpy", "tc"]
        named = ["than", "rows", "geometric mean", "least", "of", "rows under 1"]
        found.append(("Geometric means of the ratios", named, means(rows)))
        header = ["program", "sizes", "SaC ms", *(f"{n} ms" for n in others)]
        found.append(("All rows", [*header, *(f"{n} ratio" for n in others)], rows))
    if "f" in parts:
        header = ["program", "SaC ms", "tc ms", "SaC - 1.15 tc, ms (at most 30 is due)"]
        found.append(("First calls, nothing on disk", header, first_calls(seed)))
    if "l" in parts:
        found.append(("The network for digits", ["part", "ms"], lowering_of_the_network()))
    if "c" in parts:
        header = ["relaxations", "front end and lowering, ms", "first call, s"]
        found.append(("A chain of relaxations", header, chains()))
    if "m" in parts:
        header = ["class", "s", "Gflop/s", "error of the norm", "numpy s", "ratio"]
        found.append(("NAS MG, one core (SaC: 1.56 Gflop/s a core of an EPYC 7313)", header,
                      multigrid("SWA")))  # fmt: skip
    if "a" in parts:
        header = ["(16384, 64) in", "s", "Gflop/s"]
        found.append(("Attention, one core (SaC: 25 Gflop/s)", header, large_attention()))
    if "t" in parts:
        header = ["tc with", "tc ms", "torch ms", "ratio"]
        found.append(("A step of training, 100 pictures, one thread", header, training()))
    return found


def main() -> None:
    with_one_thread("bench.sac")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--budget", type=float, default=0.4, help="seconds for each run")
    parser.add_argument("--parts", default="sflcmat", help="letters: which tables")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    described = describe(("numpy", "numba", "torch"), 1)
    text = [f"# SaC's notation\n\n{one_line(described)}; seed {given.seed}.\n\n{HOW}"]
    for title, header, rows in tables(given.parts, given.seed, given.budget):
        table = tabulate(rows, header, "github", floatfmt=".3g", missingval="")
        text.append(f"## {title}\n\n{table}")
    page = "\n\n".join(text) + "\n"
    print(page)
    if given.save:
        name = f"sac-{short_name(described)}-seed{given.seed}.md"
        (RESULTS / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
