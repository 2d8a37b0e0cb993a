"""What each launch of a text does: counted in two of its blocks, and modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import tc
from bench.gpu_counts import Memory, block_counts
from bench.gpu_machines import MACHINES
from bench.gpu_model import modelled
from bench.multiprocessor import Machine
from tc.backends import nvrtc, sass
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import functions_of
from tc.backends.geometry import LaunchText
from tc.kernel.ir import Buffer
from tests.support.ptx.machine import Launch
from tests.support.ptx.parse import parse

ARCH, MODELLED = "sm_90", "H200"


def roofline(operations: float, moved: float, machine: Machine = MACHINES[MODELLED]) -> float:
    """The least seconds, without any launch, for so many operations in float32 and bytes of memory:
    a multiprocessor begins 128 multiply-adds in a cycle.

    >>> gpu = MACHINES[MODELLED]
    >>> roofline(2 * 128 * gpu.gpu.processors * gpu.clock_hz, 0), roofline(0, gpu.memory_rate)
    (1.0, 1.0)
    """
    peak = 2 * 128 * machine.gpu.processors * machine.clock_hz
    return max(operations / peak, moved / machine.memory_rate)


def counts_of(
    text: LaunchText,
    gpu: tc.Gpu,
    machine: Machine | None = None,
    places: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """The counts of each launch of a text, and what the model says of it if there is nvdisasm.
    Inputs of `places` hold integers below these numbers, drawn by a seed; all others hold
    zeros."""
    compiled = nvrtc.compiled(str(text), gpu.arch, lines=True)
    usage, functions = nvrtc.usage_in(compiled.log), parse(compiled.ptx)
    code = sass.disassembled(compiled.cubin) if sass.is_installed() else {}
    memory = Memory()
    addresses = {
        b.name: placed(b, memory, (places or {}).get(b.name, 1)) for b in text.kernel.arguments
    }
    failures = memory.add("failures", np.zeros(8, np.int64))
    rows = []
    for function, geometry in zip(functions_of(text.kernel, CUDA), text.launches, strict=True):
        arguments = [addresses[buffer.name] for buffer in function.arguments]
        arguments += [failures] * function.fails
        one, used = functions[geometry.function], usage[geometry.function]
        fitting = gpu.blocks_at_once(geometry.threads, geometry.shared, used.registers)
        row: dict[str, Any] = {
            "function": geometry.function,
            "blocks": geometry.blocks,
            "threads": geometry.threads,
            **asdict(used),
            "shared bytes": geometry.shared,
            "blocks that fit a multiprocessor": fitting // gpu.processors,
        }
        rows.append(row)
        x, y, z = geometry.grid
        blocks = {"interior block": (x // 2, y // 2, z // 2), "last block": (x - 1, y - 1, z - 1)}
        if own := code.get(geometry.function):
            row |= hottest_loop(own)
        if own and machine is not None:
            model = modelled(one, own, used, geometry, arguments, memory, machine)
            row["model"] = {
                "us": round(1e6 * model.seconds, 1),
                "instructions per warp": round(model.instructions),
                **{k: round(v, 2) for k, v in asdict(model.found).items() if isinstance(v, float)},
            }
            row["model"]["cycles"] = round(model.found.cycles)
            row["interior block"] = model.counts.as_json()
            if blocks.pop("interior block") == blocks["last block"]:
                row["last block"] = row["interior block"]
                continue
        for name, number in blocks.items():
            launch = Launch(one, geometry.grid, geometry.block, arguments, memory, geometry.dynamic)
            row[name] = block_counts(launch, number, memory).as_json()
    return rows


def placed(buffer: Buffer, memory: Memory, below: int) -> int:
    """The address of a buffer of integers below a number: of zeros, where that is 1."""
    dtype = np.dtype(buffer.dtype.numpy)
    elements = int(np.prod(buffer.shape, dtype=np.int64))
    if below > 1:
        drawn = np.random.default_rng(1).integers(0, below, elements)
        return memory.add(buffer.name, drawn.astype(dtype))
    return memory.add_zeros(buffer.name, max(1, elements) * dtype.itemsize)


def hottest_loop(code: Sequence[sass.Instruction]) -> dict[str, Any]:
    loop = sass.hottest(code)
    return {
        "hottest loop": dict(sorted(loop.counts.items(), key=lambda kv: (-kv[1], kv[0]))),
        "share of FFMA": round(loop.share("FFMA"), 3),
        "share of HMMA": round(loop.share("HMMA"), 3),
    }
