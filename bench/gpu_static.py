"""What texts for GPUs do, counted without a GPU: `python -m bench.gpu_static [NAME ...]`.

For each launch of the kernels of `bench.gpu`: registers, spills and stack, blocks that there are
and that fit on a multiprocessor, the hottest loop in machine code by kinds of instructions, and
what one block in the middle and the last block execute and access, on the machine for PTX.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import tc
from bench.gpu_kernels import KERNELS
from tc.backends import nvrtc, sass
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import functions_of
from tc.backends.geometry import LaunchGeometry, LaunchText
from tests.support.ptx.machine import Block, Launch
from tests.support.ptx.memory import GlobalMemory
from tests.support.ptx.parse import Function, Instruction, parse

ARCH = "sm_90"
SECTOR_BYTES, BANKS, BANK_BYTES = 32, 32, 4
"""NVIDIA's programming guide: global memory is read in sectors, shared memory lies in banks."""


@dataclass
class Accesses:
    """Warps that accessed a memory, and in how many parts: sectors of 32 bytes, or wavefronts of
    shared memory; `least` are the parts that the bytes would need if they lay side by side."""

    warps: int = 0
    parts: int = 0
    least: int = 0

    @property
    def over_least(self) -> float:
        return self.parts / self.least if self.least else 1.0


@dataclass
class BlockCounts:
    """An `Observer` of one block. `instructions` are those of PTX that its warps execute together,
    `touched` the sectors of global memory that it accesses at all."""

    function: Function
    warps: int
    instructions: int = 0
    barriers: int = 0
    accesses: dict[str, Accesses] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)

    def executed(self, pc: int, threads: Any) -> None:
        active = len(np.unique(threads // 32))
        self.instructions += active
        self.barriers += self.function.code[pc].name in ("bar", "barrier") and active == self.warps

    def accessed(self, i: Instruction, space: str, at: Any, size: int, by: Any) -> None:
        if space == "shared":
            parts, least = wavefronts(at, size, by)
        elif space in ("", "global"):
            parts, least = sectors(at, size, by)
            self.touched.update(np.unique(at // SECTOR_BYTES).tolist())
        else:
            return
        kind = "loads" if i.name == "ld" else "stores" if i.name == "st" else i.name
        row = self.accesses.setdefault(f"{space or 'global'} {kind}, {8 * size} bits", Accesses())
        row.warps += len(np.unique(by // 32))
        row.parts += parts
        row.least += least

    @property
    def touched_bytes(self) -> int:
        return len(self.touched) * SECTOR_BYTES

    def as_json(self) -> Mapping[str, Any]:
        return {
            "instructions per warp": self.instructions / self.warps,
            "barriers": self.barriers,
            "bytes first touched": self.touched_bytes,
            "accesses": {name: asdict(row) for name, row in sorted(self.accesses.items())},
        }


def sectors(at: Any, size: int, threads: Any) -> tuple[int, int]:
    """The sectors that warps access, and the least that these bytes take.

    >>> lanes = np.arange(32)
    >>> sectors(4 * lanes, 4, lanes), sectors(128 * lanes, 4, lanes), sectors(0 * lanes, 4, lanes)
    ((4, 4), (32, 4), (1, 1))
    """
    warp = threads // 32 << 52
    ends = (at // SECTOR_BYTES, (at + size - 1) // SECTOR_BYTES)
    parts = len(np.unique(np.concatenate([warp | end for end in ends])))
    _, elements = np.unique(np.unique(warp | at) >> 52, return_counts=True)
    return parts, int(np.ceil(elements * size / SECTOR_BYTES).sum())


def wavefronts(at: Any, size: int, threads: Any) -> tuple[int, int]:
    """In how many turns shared memory serves warps, where a turn has a word of each bank for lanes
    whose accesses have 128 bytes together; and the least that these words take. Where all lanes
    access one address, a turn is for twice as many (an H200's counters of MLP3 say so).

    >>> lanes = np.arange(32)
    >>> wavefronts(4 * lanes, 4, lanes), wavefronts(128 * lanes, 4, lanes)
    ((1, 1), (32, 1))
    >>> wavefronts(16 * lanes, 16, lanes), wavefronts(0 * lanes, 16, lanes)
    ((4, 4), (2, 1))
    """
    words = max(1, size // BANK_BYTES)
    starts = np.flatnonzero(np.diff(threads // 32, prepend=-1))
    lowest, highest = np.minimum.reduceat(at, starts), np.maximum.reduceat(at, starts)
    together = np.repeat(lowest == highest, np.diff(starts, append=len(at)))
    lanes = np.where(together, 2, 1) * 32 // words
    group = threads // 32 * words + threads % 32 // lanes
    word = (at // BANK_BYTES)[:, None] + np.arange(words)
    distinct = np.unique((group[:, None] << 40 | word).ravel())
    conflicts = Counter(zip((distinct >> 40).tolist(), (distinct % BANKS).tolist(), strict=True))
    turns: dict[int, int] = {}
    for (of_group, _), count in conflicts.items():
        turns[of_group] = max(count, turns.get(of_group, 0))
    _, of_warps = np.unique(
        np.unique((threads[:, None] // 32 << 40 | word).ravel()) >> 40, return_counts=True
    )
    return sum(turns.values()), int(np.ceil(of_warps / BANKS).sum())


def counts_of(text: LaunchText, inputs: Mapping[str, Any], gpu: tc.Gpu) -> list[Mapping[str, Any]]:
    """The counts of each launch of a text, whose inputs are given as arrays of the buffers."""
    compiled = nvrtc.compiled(str(text), ARCH)
    usage, functions = nvrtc.usage_in(compiled.log), parse(compiled.ptx)
    code = sass.disassembled(compiled.cubin) if sass.is_installed() else {}
    memory = GlobalMemory()
    addresses = {
        b.name: memory.add(b.name, inputs.get(b.name, np.zeros(b.shape, b.dtype.numpy)))
        for b in text.kernel.arguments
    }
    rows = []
    for function, geometry in zip(functions_of(text.kernel, CUDA), text.launches, strict=True):
        arguments = [addresses[buffer.name] for buffer in function.arguments]
        arguments += [memory.add("failures", np.zeros(8, np.int64))] * function.fails
        one, used = functions[geometry.function], usage[geometry.function]
        fitting = gpu.blocks_at_once(geometry.threads, geometry.shared, used.registers)
        row: dict[str, Any] = {
            "function": geometry.function,
            "blocks": geometry.blocks,
            "threads": geometry.threads,
            "registers": used.registers,
            "spills": used.spills,
            "stack": used.stack,
            "shared bytes": geometry.shared,
            "blocks that fit a multiprocessor": fitting // gpu.processors,
        }
        if geometry.function in code:
            loop = sass.hottest(code[geometry.function])
            row["hottest loop"] = dict(sorted(loop.counts.items(), key=lambda kv: -kv[1]))
            row["share of FFMA"] = round(loop.share("FFMA"), 3)
            row["share of HMMA"] = round(loop.share("HMMA"), 3)
        for name, number in blocks_of(geometry).items():
            observer = BlockCounts(one, -(-geometry.threads // 32))
            launch = Launch(
                one, geometry.grid, geometry.block, arguments, memory, geometry.dynamic, observer
            )
            block = Block(launch)
            block.run(number, [block.everyone])
            row[name] = observer.as_json()
        rows.append(row)
    return rows


def blocks_of(geometry: LaunchGeometry) -> Mapping[str, tuple[int, int, int]]:
    x, y, z = geometry.grid
    return {"interior block": (x // 2, y // 2, z // 2), "last block": (x - 1, y - 1, z - 1)}


def kernel_counts(name: str) -> list[Mapping[str, Any]]:
    kernel, gpu = KERNELS[name], tc.Gpu.named(ARCH)
    zeros = {n: np.zeros(shape, kernel.dtype) for n, shape in kernel.shapes.items()}
    return counts_of(tc.emit(kernel.text, zeros, backend="cuda", device=gpu), {}, gpu)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of kernels; else all")
    chosen = parser.parse_args(given)
    if not nvrtc.is_installed():
        print("NVRTC is missing: pip install nvidia-cuda-nvrtc")
        return 1
    if not sass.is_installed():
        print("nvdisasm is missing, so there is no machine code: pip install nvidia-cuda-nvdisasm")
    for name in KERNELS:
        if not chosen.names or any(word in name for word in chosen.names):
            print(json.dumps({"kernel": name, "launches": kernel_counts(name)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
