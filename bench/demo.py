"""The main job, shown: `make demo`.

A convolution with bias and ReLU, and the production model of Vasilache et al. 2018, on real sizes:
interpreter and compiled function side by side, with the inferred ranges, the largest error beside
its bound, and the times.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench.cpu_kernels.kernel import TEXTS
from bench.timing import machine, medians, milliseconds

CONV_SHAPES = {"I": (4, 16, 57, 61), "F": (32, 16, 3, 3), "B": (32,)}
MODEL_SHAPES = {
    "LUT1": (100_000, 64), "I1": (128, 50), "LUT2": (100_000, 64), "I2": (128, 50),
    "I3": (128, 1024), "W": (1000, 1024), "W1": (128, 1128), "B1": (128,), "W2": (64, 128),
    "B2": (64,), "W3": (32, 64), "B3": (32,), "W4": (2, 32), "B4": (2,),
}  # fmt: skip


def inputs(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(2018)
    return {
        name: rng.integers(0, 100_000, shape, dtype=np.int32)
        if name in ("I1", "I2")
        else (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        for name, shape in shapes.items()
    }


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    result = run()
    return result, time.perf_counter() - begin


def largest(difference: Any) -> float:
    return float(np.max(difference, initial=0.0))


def show(title: str, name: str, entry: str, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Prints a program, what was inferred, errors and times; the row of the last table."""
    text = (TEXTS / f"{name}.tc").read_text(encoding="utf-8")
    arguments = inputs(shapes)
    print(f"\n=== {title}\n\n{text}")
    print(tc.explain(text, arguments, entry=entry, stage="ranges"))

    compiled = tc.compile(text, entry=entry)
    reference, reference_time = timed(lambda: tc.interpret(text, arguments, entry=entry))
    result, first_time = timed(lambda: compiled(**arguments))
    bound = tc.error_bound(text, arguments, entry=entry)
    references, results, bounds = (
        tuple(x) if isinstance(x, tuple) else (x,) for x in (reference, result, bound)
    )
    rows = [
        (output, "x".join(map(str, a.shape)), largest(np.abs(a - b)), largest(limit))
        for output, a, b, limit in zip(
            compiled.program.outputs, references, results, bounds, strict=True
        )
    ]
    print()
    print(tabulate(rows, ("output", "shape", "largest error", "its bound"), floatfmt=".2e"))
    if any(np.any(np.abs(a - b) > c) for a, b, c in zip(references, results, bounds, strict=True)):
        raise SystemExit("the compiled function is outside the error bound")

    ready = tuple(arguments.values())
    given = results if len(results) > 1 else results[0]
    later = medians({"later": lambda: compiled(*ready, outputs=given)})["later"]
    times = (
        ("interpreter (numpy)", milliseconds(reference_time)),
        ("compiled, first call", milliseconds(first_time)),
        ("compiled, later calls", milliseconds(later)),
    )
    print()
    print(tabulate(times, ("run", "time"), disable_numparse=True))
    most = max(error / limit for *_, error, limit in rows)
    return [entry, f"{most:.1%} of its bound", *(time for _, time in times)]


def main() -> None:
    warnings.simplefilter("ignore", tc.TCWarning)
    print(machine())
    rows = [
        show("A convolution with bias and ReLU", "conv_relu", "conv_relu", CONV_SHAPES),
        show("The production model of the paper", "prodModel", "prodModel", MODEL_SHAPES),
    ]
    print("\n=== In short: both are right, and this is how long they take\n")
    heads = ("program", "largest error", "interpreter", "first call", "later calls")
    print(tabulate(rows, heads, disable_numparse=True))


if __name__ == "__main__":
    main()
