"""What the machine can do at most: FMA peak of the vector registers, and bandwidth by data size.

Run as a program it prints both as JSON; the harness runs it in a process of its own.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import ctypes
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

SIZES = tuple(int(2**15 * 2 ** (step / 2)) for step in range(28))
"""Bytes in all threads together at which bandwidth is measured: 32 KiB to 370 MB."""

ACCUMULATORS = 24
UNROLLED = 8


@dataclass(frozen=True)
class Limits:
    """FLOP/s over all threads, and bytes per second at each of `sizes`. `copy` counts what is
    read and what is written.

    >>> limits = Limits(100e9, (1000, 100_000), (4e9, 1e9), (2e9, 1e9))
    >>> limits.seconds(flops=10**9, read=500, written=500)
    0.01
    >>> limits.seconds(flops=0, read=1000, written=0)
    2.5e-07
    >>> round(limits.seconds(flops=0, read=500, written=500), 12)
    5e-07
    """

    flops: float
    sizes: tuple[int, ...]
    read: tuple[float, ...]
    copy: tuple[float, ...]

    def seconds(self, *, flops: int, read: int, written: int) -> float:
        """The least time for `flops` operations and for bytes `read` and `written`, at the
        bandwidth for their sum: as many bytes as possible are copied, the rest is read, or written
        at the rate of copying."""
        reading = interpolate(self.sizes, self.read, read + written)
        copying = interpolate(self.sizes, self.copy, read + written)
        copied = 2 * min(read, written)
        moving = copied / copying + max(read - written, 0) / reading
        return max(flops / self.flops, moving + max(written - read, 0) / copying)

    def best(self, other: Limits) -> Limits:
        """The higher of both, size by size."""
        return Limits(
            max(self.flops, other.flops),
            self.sizes,
            tuple(map(max, self.read, other.read)),
            tuple(map(max, self.copy, other.copy)),
        )


def interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear in log x between neighbours, constant outside.

    >>> interpolate((1, 4), (10.0, 20.0), 2), interpolate((1, 4), (10.0, 20.0), 9)
    (15.0, 20.0)
    """
    right = bisect.bisect_left(xs, x)
    if right == 0:
        return ys[0]
    if right == len(xs):
        return ys[-1]
    part = math.log(x / xs[right - 1]) / math.log(xs[right] / xs[right - 1])
    return ys[right - 1] + part * (ys[right] - ys[right - 1])


def lanes() -> int:
    """Lanes of float32 in the host's widest vector register."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx") else 4


def fma_text(width: int) -> str:
    """LLVM IR of a function that runs `n` times as many fused multiply-adds as accumulators."""
    vector = f"<{width} x float>"
    names = range(ACCUMULATORS)
    phis = "\n".join(
        f"  %a{i} = phi {vector} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in names
    )
    steps = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{width}f32({vector} %x, {vector} %y, {vector} %a{i})"
        for i in names
    )
    stores = "\n".join(
        f"  %p{i} = getelementptr {vector}, ptr %out, i64 {i}\n"
        f"  store {vector} %b{i}, ptr %p{i}, align 4"
        for i in names
    )
    return f"""
declare {vector} @llvm.fma.v{width}f32({vector}, {vector}, {vector})
define void @fma(ptr %out, i64 %n) {{
entry:
  %x = load {vector}, ptr %out, align 4
  %q = getelementptr {vector}, ptr %out, i64 1
  %y = load {vector}, ptr %q, align 4
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{stores}
  ret void
}}
"""


def stream_text(width: int, name: str) -> str:
    """LLVM IR of `read`, `copy` or `copy_nt`: `n` passes over `count` blocks of vectors."""
    vector = f"<{width} x float>"
    marked = ", !nontemporal !0" if name == "copy_nt" else ""
    body, sums = [], []
    for i in range(UNROLLED):
        body += [
            f"  %s{i} = getelementptr {vector}, ptr %from, i64 %at",
            f"  %f{i} = getelementptr {vector}, ptr %s{i}, i64 {i}",
            f"  %v{i} = load {vector}, ptr %f{i}, align 64",
        ]
        if name == "read":
            body += [f"  %b{i} = fadd {vector} %a{i}, %v{i}"]
            sums += [f"  %a{i} = phi {vector} [ zeroinitializer, %pass ], [ %b{i}, %loop ]"]
        else:
            body += [
                f"  %t{i} = getelementptr {vector}, ptr %to, i64 %at",
                f"  %g{i} = getelementptr {vector}, ptr %t{i}, i64 {i}",
                f"  store {vector} %v{i}, ptr %g{i}, align 64{marked}",
            ]
    kept = [
        f"  %h{i} = getelementptr {vector}, ptr %to, i64 {i}\n"
        f"  store {vector} %b{i}, ptr %h{i}, align 64"
        for i in range(UNROLLED if name == "read" else 0)
    ]
    newline = "\n"
    return f"""
define void @{name}(ptr %to, ptr %from, i64 %count, i64 %n) {{
entry:
  br label %pass
pass:
  %round = phi i64 [ 0, %entry ], [ %later, %ended ]
  br label %loop
loop:
  %k = phi i64 [ 0, %pass ], [ %next, %loop ]
{newline.join(sums)}
  %at = mul i64 %k, {UNROLLED}
{newline.join(body)}
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %ended
ended:
{newline.join(kept)}
  call void asm sideeffect "", "~{{memory}}"()
  %later = add i64 %round, 1
  %again = icmp slt i64 %later, %n
  br i1 %again, label %pass, label %done
done:
  ret void
}}
"""


def hurry(process: int, niceness: int) -> None:
    """Gives a process group and its scheduling session a niceness, where that is allowed."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, process, niceness)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(str(niceness), encoding="ascii")


class Machine:
    """The measured loops as compiled functions, called on several threads at once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lanes = lanes()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = {**llvm.get_host_cpu_features(), "prefer-256-bit": False}
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=",".join(("+" if on else "-") + f for f, on in features.items()),
            opt=3,
            jit=True,
        )
        texts = [stream_text(self.lanes, name) for name in ("read", "copy", "copy_nt")]
        text = fma_text(self.lanes) + "".join(texts) + "\n!0 = !{i32 1}\n"
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
        self._engine.finalize_object()

    def function(self, name: str) -> Callable[..., None]:
        arguments = [ctypes.c_void_p, ctypes.c_int64] if name == "fma" else None
        arguments = arguments or [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2
        kind = ctypes.CFUNCTYPE(None, *arguments)
        called: Callable[..., None] = kind(self._engine.get_function_address(name))
        return called

    def together(self, runs: Sequence[Callable[[], None]]) -> float:
        """Seconds from a common start to the last end."""
        gate = threading.Barrier(len(runs))
        times: list[tuple[float, float]] = []

        def work(run: Callable[[], None]) -> None:
            gate.wait()
            begin = time.perf_counter()
            run()
            times.append((begin, time.perf_counter()))

        workers = [threading.Thread(target=work, args=(run,)) for run in runs]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(end for _, end in times) - min(begin for begin, _ in times)

    def peak(self, budget: float = 0.04, rounds: int = 5) -> float:
        fma = self.function("fma")
        spaces = [np.full(ACCUMULATORS * 16, 1e-3, np.float32) for _ in range(self.threads)]
        n = int(budget * 3e9 / ACCUMULATORS)
        runs = [lambda a=space.ctypes.data: fma(a, n) for space in spaces]
        best = min(self.together(runs) for _ in range(rounds))
        return 2 * self.lanes * ACCUMULATORS * n * self.threads / best

    def bandwidth(self, name: str, size: int, budget: float = 0.02, rounds: int = 3) -> float:
        """Bytes per second read, or read and written, with `size` bytes in use in all."""
        function = self.function(name)
        block = 4 * self.lanes * UNROLLED
        arrays = 1 if name == "read" else 2
        count = max(1, size // (self.threads * arrays * block))
        spaces = [
            [aligned(max(count * block, block)) for _ in range(2 if arrays == 2 else 1)]
            for _ in range(self.threads)
        ]
        sinks = [aligned(block) for _ in range(self.threads)]
        moved = count * block * arrays
        passes = max(1, int(budget * 40e9 / moved))
        runs = []
        for space, sink in zip(spaces, sinks, strict=True):
            source, to = space[0].ctypes.data, (space[1] if arrays == 2 else sink).ctypes.data
            runs.append(lambda to=to, source=source: function(to, source, count, passes))
        best = min(self.together(runs) for _ in range(rounds))
        return moved * passes * self.threads / best


def aligned(size: int) -> Any:
    """Bytes at an address that is a multiple of 64, all touched."""
    whole = np.zeros(size + 64, np.uint8)
    whole[:] = 0
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def measure(threads: int, sizes: Sequence[int] = SIZES) -> Limits:
    machine = Machine(threads)
    copy = [max(machine.bandwidth(name, s) for name in ("copy", "copy_nt")) for s in sizes]
    read = [machine.bandwidth("read", s) for s in sizes]
    return Limits(machine.peak(), tuple(sizes), tuple(read), tuple(copy))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--step", type=int, default=1, help="measure one size in this many")
    parser.add_argument("--niceness", type=int, default=0)
    chosen = parser.parse_args()
    hurry(os.getpid(), chosen.niceness)
    print(json.dumps(asdict(measure(chosen.threads, SIZES[:: chosen.step]))))


if __name__ == "__main__":
    main()
