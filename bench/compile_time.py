"""Times of the compiler itself: the front half, the first call, and a later one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tabulate import tabulate

import tc
from bench.cpu_kernels.kernel import TEXTS
from bench.timing import machine, medians, milliseconds
from tc.frontend.parser import parse
from tc.semantics.check.checker import check
from tc.semantics.ranges.range_inference import infer_ranges
from tc.source import Source

ROOT = Path(__file__).parent.parent
MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
FIRST_CALL = """
import sys, time
begin = time.perf_counter()
import tc
imported = time.perf_counter()
import numpy as np
from bench.compile_time import CASES
from tc.backends import registry
tc.compile, registry.get("numba")
ready = time.perf_counter()
text, entry, shapes, tables = CASES[sys.argv[1]]
inputs = [
    np.ones(shape, np.int32 if name in tables else np.float32) for name, shape in shapes.items()
]
start = time.perf_counter()
tc.compile(text, entry=entry)(*inputs)
print(imported - begin, ready - imported, time.perf_counter() - start)
"""
MODEL_SHAPES = {
    "LUT1": (10000, 64), "I1": (128, 50), "LUT2": (10000, 64), "I2": (128, 50),
    "I3": (128, 1024), "W": (1000, 1024), "W1": (128, 1128), "B1": (128,), "W2": (64, 128),
    "B2": (64,), "W3": (32, 64), "B3": (32,), "W4": (2, 32), "B4": (2,),
}  # fmt: skip
MLP3_SHAPES = {
    "O1": (128, 128), "W2": (64, 128), "B2": (64,), "W3": (32, 64), "B3": (32,), "W4": (2, 32),
    "B4": (2,),
}  # fmt: skip


def text(name: str) -> str:
    return (TEXTS / f"{name}.tc").read_text(encoding="utf-8")


CASES = {
    "matmul": (MATMUL, "mm", {"A": (128, 64), "B": (64, 96)}, ()),
    "MLP3": (text("MLP3"), "MLP3", MLP3_SHAPES, ()),
    "prodModel": (text("prodModel"), "prodModel", MODEL_SHAPES, ("I1", "I2")),
}
"""Text, def, shapes of the inputs, and which of them hold indices."""


def front_half() -> dict[str, float]:
    """Seconds of parse, check and ranges for the production model."""
    source = Source(text("prodModel"))
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


def first_calls(name: str, rounds: int = 5) -> dict[str, float]:
    """Seconds of `import tc`, of what its first use imports, and of the call of `tc.compile` and
    the first of its result, in fresh processes: with an empty cache and with a warm one."""
    samples: dict[str, list[float]] = {"import": [], "imports": [], "cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            for state in ("cold", "warm"):
                done = subprocess.run(
                    [sys.executable, "-c", FIRST_CALL, name],
                    capture_output=True,
                    text=True,
                    check=True,
                    cwd=ROOT,
                    env={**os.environ, "XDG_CACHE_HOME": directory},
                )
                seconds = map(float, done.stdout.split())
                for key, value in zip(("import", "imports", state), seconds, strict=True):
                    samples[key].append(value)
    return {key: float(np.median(values)) for key, values in samples.items()}


def later_call() -> float:
    """Seconds of a known call of a kernel so small that all of them are overhead."""
    compiled = tc.compile(MATMUL)
    a, b, c = (np.ones((4, 4), np.float32) for _ in range(3))
    compiled(a, b, outputs=c)
    return medians({"call": lambda: compiled(a, b, outputs=c)})["call"]


def main() -> None:
    front = front_half()
    firsts = {name: first_calls(name) for name in CASES}
    rows = [
        ("prodModel: parse + check + ranges", milliseconds(sum(front.values())), "20 ms"),
        *((f"  {name}", milliseconds(seconds), "") for name, seconds in front.items()),
        ("import tc", milliseconds(firsts["matmul"]["import"]), "500 ms"),
        ("what its first use imports", milliseconds(firsts["matmul"]["imports"]), ""),
        *(
            (f"first call of {name}, {state} cache", milliseconds(first[state]), target)
            for name, first in firsts.items()
            for state, target in (("cold", "1000 ms"), ("warm", "400 ms"))
        ),
        ("later call of a 4x4 matmul, outputs given", milliseconds(later_call()), "20 us"),
    ]
    print(machine())
    print(tabulate(rows, ("what", "median", "target"), disable_numparse=True))


if __name__ == "__main__":
    main()
