"""The kernels of "Tensor Comprehensions" (Vasilache et al. 2018, section 7) in SaC's notation:
`python -m bench.sac_kernels`.

The sizes, inputs, expected results and texts of tc are those of `bench.cpu`; each text of SaC here
is what one writes for such a kernel without a look at the text of tc. Rounds alternate between
both, with default options; with `--one-thread` the time of the processor is taken, which others on
the machine change little. `--save` writes the table into `bench/results`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
import tc.sac
from bench.cpu_kernels.kernel import Case, Kernel
from bench.cpu_kernels.table import LISTED
from bench.cpu_machine import describe, one_line, short_name
from bench.timing import once, seconds_of_rounds
from tc.device import host

RESULTS = Path(__file__).parent / "results"
TURN = 0.001
"""Seconds of a text's turn in a round, if a call takes less: many short rounds, as a machine that
others use is slow for a while."""

PRODUCT = """
float[*] product(float[.,.] a, float[.,.] b) { return { [i,j] -> sum(a[i] * b[j]) }; }"""
LOOKUP = """
float[*] lookup(float[.,.] table, int[.,.] rows)
{ return { [i,j] -> sum({ [k] -> table[rows[i,k], j] }) }; }"""
LAYER = """
float[*] layer(float[.,.] x, float[.,.] w, float[.] b)
{ return { [i,j] -> max(sum(x[i] * w[j]) + b[j], 0) }; }"""

TEXTS = {
    "tmm": PRODUCT,
    "tbmm": """
float[*] products(float[.,.,.] x, float[.,.,.] y) { return { [b,i,j] -> sum(x[b,i] * y[b,j]) }; }
""",
    "gconv": """
float[*] gconv(float[.,.,.,.,.] image, float[.,.,.,.,.] w, float[.,.] b) {
  n = take([1], shape(image));
  size = take([-2], shape(image)) - take([-2], shape(w)) + 1;
  return { [n,g,f,y,x] -> b[g,f] + sum({ [c,i,j] -> image[n,g,c,y+i,x+j] * w[g,f,c,i,j] })
         | [n,g,f,y,x] < n ++ shape(b) ++ size };
}""",
    "lut1": LOOKUP,
    "lut2": f"""{LOOKUP}
float[*], float[*] lookups(float[.,.] t1, int[.,.] rows1, float[.,.] t2, int[.,.] rows2)
{{ return (lookup(t1, rows1), lookup(t2, rows2)); }}""",
    "mlp1": LAYER,
    "mlp3": f"""{LAYER}
float[*], float[*], float[*] layers(float[.,.] x, float[.,.] w2, float[.] b2, float[.,.] w3,
                                    float[.] b3, float[.,.] w4, float[.] b4) {{
  o2 = layer(x, w2, b2);
  o3 = layer(o2, w3, b3);
  return (o2, o3, layer(o3, w4, b4));
}}""",
}  # fmt: skip
"""By the families of `bench.cpu`."""

ENTRIES = {"lut2": "lookups", "mlp3": "layers"}
"""Of texts of more than one function."""

KERNELS = [kernel for kernel in LISTED if kernel.family in TEXTS]


def function_of(kernel: Kernel, options: tc.Options | None = None) -> Any:
    """The text of SaC, compiled."""
    text, entry = TEXTS[kernel.family], ENTRIES.get(kernel.family)
    return tc.sac.compile(text, entry=entry, options=options)


def both(
    kernel: Kernel, case: Case, options: tc.Options | None = None
) -> dict[str, Callable[[], object]]:
    """Calls of SaC's text and of tc's on the inputs of a case."""
    runs = {
        "sac": function_of(kernel, options),
        "tc": tc.compile(kernel.text, options=options),
    }
    outputs = list(case.outputs)
    return {name: lambda f=f: f(*case.inputs, outputs=outputs) for name, f in runs.items()}


def agree(kernel: Kernel, case: Case, expected: Sequence[Any]) -> None:
    """Raises SystemExit where what was computed differs from numpy's by more than rounding."""
    for found, wanted in zip(case.outputs, expected, strict=True):
        if not np.abs(found - wanted).max(initial=0) <= kernel.tolerance(wanted):
            raise SystemExit(f"{kernel.name}: results differ")


def compared(
    runs: dict[str, Callable[[], object]],
    budget: float,
    clock: Callable[[], float],
    of_rounds: Callable[[Sequence[float]], float],
) -> list[float]:
    """Milliseconds of both texts, and the ratio."""
    rounds = max(15, int(budget / max(TURN, once(runs["tc"]))))
    samples = seconds_of_rounds(runs, budget=budget, rounds=rounds, clock=clock)
    own, other = (1e3 * of_rounds(samples[name]) for name in ("sac", "tc"))
    return [own, other, own / other]


def measured(
    budget: float, *, one_thread: bool, kernels: Sequence[Kernel] = KERNELS
) -> list[list[Any]]:
    """A row for each kernel."""
    rows = []
    for kernel in kernels:
        case = kernel.case()
        expected = case.expected()
        runs = both(kernel, case, tc.Options(threads=1) if one_thread else None)
        for run in runs.values():
            case.reset()
            run()
            agree(kernel, case, expected)
        if one_thread:
            found = compared(runs, budget, time.thread_time, statistics.median)
        else:
            found = compared(runs, budget, time.perf_counter, min)
        rows.append([kernel.name, *found])
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


HOW = """Both texts run in turn in many short rounds; the ratio is the time of SaC's text over that
of tc's (`bench/cpu_kernels`). """
WITH_ONE_THREAD = "Times are medians of those that the thread took of the processor."
BY_WALL = "Times are the least of all rounds, by the clock on the wall."


def page(described: dict[str, Any], rows: Sequence[Sequence[Any]], *, one_thread: bool) -> str:
    """The table, and the geometric mean of its ratios."""
    table = tabulate(rows, ["kernel", "SaC ms", "tc ms", "ratio"], "github", floatfmt=".4g")
    ratios = [row[3] for row in rows]
    return (
        f"# Kernels of Tensor Comprehensions in SaC's notation\n\n{one_line(described)}; load at "
        f"the start {described['load_at_start']:.1f}.\n\n"
        f"{HOW}{WITH_ONE_THREAD if one_thread else BY_WALL}\n\n{table}\n\n"
        f"Geometric mean of the ratios: {statistics.geometric_mean(ratios):.3f}; the largest: "
        f"{max(ratios):.3f}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each text")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    described = describe(("numpy", "numba"), 1 if given.one_thread else host().threads)
    rows = measured(given.budget, one_thread=given.one_thread)
    text = page(described, rows, one_thread=given.one_thread)
    print(text)
    if given.save:
        name = f"sac-kernels-{short_name(described)}{'-one-thread' if given.one_thread else ''}.md"
        (RESULTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
