"""What a call with torch's tensors costs beside what it computes: `python -m bench.torch_calls`.

A product of 8 x 8 matrices by one thread takes next to no time, so that what is left is the way to
it. "direct" is what one would write by hand: `torch.empty`, `data_ptr` and a call of the C code
that `tc.emit` prints, by ctypes. Times are of the thread, the least of many batches of calls: other
work of the machine does not count. `--save` writes the tables into `bench/results`.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

import tc
import tc.torch
from bench.cpu_machine import describe, git, short_name
from bench.timing import machine

SIZE = 8
TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CHAIN = 20
BATCH, BATCHES = 100, 150
RESULTS = Path(__file__).parent / "results"

Runs = Mapping[str, Callable[[], object]]


def operands(**how: Any) -> tuple[Any, Any]:
    return tuple(torch.rand(SIZE, SIZE, **how) for _ in range(2))  # type: ignore[return-value]


def by_hand(folder: Path) -> Callable[[Any, Any], Any]:
    """The product by C code, as one would call it without tc."""
    options = tc.Options.preset("naive")
    text = tc.emit(TEXT, dict.fromkeys("MKN", SIZE), options=options)
    source, library = folder / "mm.c", folder / "mm.so"
    source.write_text(str(text), encoding="utf-8")
    compiler = shutil.which("cc") or "gcc"
    build = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(build, check=True)
    kernel = ctypes.CDLL(str(library)).mm
    kernel.argtypes, kernel.restype = (ctypes.c_void_p,) * 3, None

    def direct(a: Any, b: Any) -> Any:
        c = torch.empty(SIZE, SIZE)
        kernel(a.data_ptr(), b.data_ptr(), c.data_ptr())
        return c

    return direct


class Direct(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """The same with a gradient that is written by hand."""

    product: Callable[[Any, Any], Any]

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return Direct.product(a, b)

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        a, b = ctx.saved_tensors
        return cotangent @ b.T, a.T @ cotangent


def functions() -> dict[str, tc.Compiled]:
    options = tc.Options(threads=1)
    return {name: tc.compile(TEXT, backend=name, options=options) for name in ("numba", "c")}


def eager(direct: Callable[[Any, Any], Any]) -> Runs:
    """Calls without gradients."""
    a, b = operands()
    out = torch.empty(SIZE, SIZE)
    runs: dict[str, Callable[[], object]] = {
        "direct": lambda: direct(a, b),
        "torch.mm": lambda: torch.mm(a, b),
    }
    for name, f in functions().items():
        runs[f"tc, {name}"] = lambda f=f: f(a, b)
    for name, f in functions().items():
        runs[f"tc, {name}, outputs="] = lambda f=f: f(a, b, outputs=out)
    for name, f in functions().items():
        runs[f"tc::run, {name}"] = lambda f=f: torch.ops.tc.run([a, b], f.text, "mm", f._how)
    return runs


def recording() -> Runs:
    """Calls of which gradients are recorded, without `backward`."""
    a, b = operands(requires_grad=True)
    runs: dict[str, Callable[[], object]] = {
        "by hand": lambda: Direct.apply(a, b),
        "torch.mm": lambda: torch.mm(a, b),
    }
    for name, f in functions().items():
        runs[f"tc, {name}"] = lambda f=f: f(a, b)
    return runs


def both() -> Runs:
    """Calls and their `backward`, to two leaves."""
    a, b = operands(requires_grad=True)
    cotangent = torch.ones(SIZE, SIZE)

    def run(product: Callable[[Any, Any], Any]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(product(a, b), (a, b), cotangent)

    runs = {"by hand": run(Direct.apply), "torch.mm": run(torch.mm)}
    return runs | {f"tc, {name}": run(f) for name, f in functions().items()}


def compiled() -> Runs:
    """Graphs of twenty calls, each of the result of the one before."""
    a, b = operands()

    def chain(product: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def run(a: Any, b: Any) -> Any:
            for _ in range(CHAIN):
                a = product(a, b)
            return a

        return torch.compile(run, fullgraph=True)  # type: ignore[no-any-return]

    runs: dict[str, Callable[[], object]] = {}
    for name, product in {"torch.mm": torch.mm, "tc, numba": functions()["numba"]}.items():
        graph = chain(product)
        runs[name] = lambda graph=graph: graph(a, b)
    return runs


def least(run: Callable[[], object]) -> float:
    """Seconds of a call: the thread's own, of the fastest of many batches."""
    for _ in range(5):
        run()
    return min(timeit.repeat(run, timer=time.thread_time, number=BATCH, repeat=BATCHES)) / BATCH


def table(title: str, runs: Runs, *, base: str | None, calls: int = 1) -> str:
    """Microseconds of a call, and how many more than those of `base`."""
    found = {name: least(run) for name, run in runs.items()}
    rows = []
    for name, seconds in found.items():
        row: list[Any] = [name, 1e6 * seconds / calls]
        if base is not None:
            row.append(1e6 * (seconds - found[base]) / calls)
        rows.append(row)
    headers = ["call", "us"] + [f"us over {base}"] * (base is not None)
    text = tabulate(rows, headers, floatfmt=".1f", tablefmt="github", disable_numparse=[0])
    return f"## {title}\n\n{text}\n"


def report() -> str:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        direct = by_hand(Path(folder))
        Direct.product = staticmethod(direct)
        parts = [
            f"# Calls with torch's tensors\n\n{machine()}, torch {torch.__version__}, commit "
            f"{git('rev-parse', '--short', 'HEAD')}. A product of {SIZE} x {SIZE} float32 on one "
            "thread.\n",
            table("Eager", eager(direct), base="direct"),
            table("Recording gradients", recording(), base="by hand"),
            table("With backward", both(), base="by hand"),
            table(f"Per call in a compiled graph of {CHAIN}", compiled(), base=None, calls=CHAIN),
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write into {RESULTS.name}")
    given = parser.parse_args()
    text = report()
    print(text)
    if given.save:
        name = f"torch_calls-{short_name(describe((), 1))}.md"
        (RESULTS / name).write_text(text, encoding="utf-8")
