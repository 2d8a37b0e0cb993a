"""Times of the compiler itself: the front half, the first call, and the overhead of later ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from tabulate import tabulate

import tc
from bench.programs import TEXTS
from bench.timing import machine, medians, milliseconds
from tc.backends import registry
from tc.frontend.parser import parse
from tc.semantics.check import check
from tc.semantics.ranges import infer_ranges
from tc.source import Source

ROOT = Path(__file__).parent.parent
MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
FIRST_CALL = f"""
import time, numpy as np
begin = time.perf_counter()
import tc
imported = time.perf_counter()
a = np.ones((128, 64), np.float32); b = np.ones((64, 96), np.float32)
tc.compile({MATMUL!r})(a, b)
print(imported - begin, time.perf_counter() - imported)
"""
MODEL_SHAPES = {
    "LUT1": (10000, 64), "I1": (128, 50), "LUT2": (10000, 64), "I2": (128, 50),
    "I3": (128, 1024), "W": (1000, 1024), "W1": (128, 1128), "B1": (128,), "W2": (64, 128),
    "B2": (64,), "W3": (32, 64), "B3": (32,), "W4": (2, 32), "B4": (2,),
}  # fmt: skip


def front_half() -> dict[str, float]:
    """Seconds of parse, check and ranges for the production model."""
    source = Source((TEXTS / "prodModel.tc").read_text(encoding="utf-8"))
    module = parse(source)
    program = check(module, "prodModel")
    return medians(
        {
            "parse": lambda: parse(source),
            "check": lambda: check(module, "prodModel"),
            "ranges": lambda: infer_ranges(program, MODEL_SHAPES, {}),
        },
        budget=1.0,
    )


def first_call() -> tuple[float, float]:
    """Seconds of `import tc`, and from there to the first result, in a fresh process."""
    samples = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True, cwd=ROOT
        )
        imported, called = done.stdout.split()
        samples.append((float(imported), float(called)))
    imports, calls = zip(*samples, strict=True)
    return float(np.median(imports)), float(np.median(calls))


def overhead() -> dict[str, float]:
    """Seconds of a known call beside the same kernel run with its addresses ready."""
    compiled = tc.compile(MATMUL)
    a, b, c = (np.ones((4, 4), np.float32) for _ in range(3))
    compiled(a, b, outputs=c)
    addresses = [x.ctypes.data for x in (a, b, c)]
    kernel = registry.get("numba").load(tc.emit(MATMUL, [a, b], backend="numba"))
    return medians(
        {
            "call": lambda: compiled(a, b, outputs=c),
            "kernel": lambda: kernel.run(addresses),
        }
    )


def main() -> None:
    front = front_half()
    imported, called = first_call()
    calls = overhead()
    rows = [
        ("prodModel: parse + check + ranges", milliseconds(sum(front.values())), "20 ms"),
        *((f"  {name}", milliseconds(seconds), "") for name, seconds in front.items()),
        ("import tc", milliseconds(imported), "500 ms"),
        ("first call of a matmul, fresh process", milliseconds(called), "2000 ms"),
        (
            "overhead of a later call, outputs given",
            milliseconds(calls["call"] - calls["kernel"]),
            "20 us",
        ),
        ("  the call", milliseconds(calls["call"]), ""),
        ("  the kernel alone", milliseconds(calls["kernel"]), ""),
    ]
    print(machine())
    print(tabulate(rows, ("what", "median", "target"), disable_numparse=True))


if __name__ == "__main__":
    main()
