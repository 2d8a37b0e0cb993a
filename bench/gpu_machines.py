"""The GPUs that the model of a multiprocessor knows: one table of constants, with their sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tc
from bench.multiprocessor import Machine

RESULTS = Path(__file__).parent / "results"
MEASURED = RESULTS / "gpu-constants-nvidia-h200.json"
KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Constant:
    """A constant on each GPU, and its source there. The name of a measurement stands for what
    `bench.gpu_constants` measured; one source is for all."""

    h200: float | str
    a6000: float
    rtx3090: float
    sources: str


_VOLTA = "Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018"
_AMPERE = "Abdelkhalik et al., Demystifying the Nvidia Ampere Architecture, 2022 (A100)"
_LATENCY = (
    "GA102: Chips and Cheese, 2021: the second cache is over 100 ns behind the first, memory"
    " about 250 ns away; of these, what suits the published kernels best"
)
_GUIDE = "CUDA C++ Programming Guide, throughput of arithmetic instructions"
_SHEET = "NVIDIA's data sheets"
_FITTED = "fitted to the published kernels"

CONSTANTS: Mapping[str, Constant] = {
    "clock_hz": Constant(
        "clock under load", 1.41e9, 1.695e9,
        f"{_SHEET}: A6000 base clock (siboehm's 30 TFLOP/s are at it), RTX 3090 boost clock",
    ),
    "near_bytes": Constant(256 * KIB, 128 * KIB, 128 * KIB, _SHEET),
    "second_cache_bytes": Constant(50 * MIB, 6 * MIB, 6 * MIB, _SHEET),
    "shared_cycles": Constant("latency LDS.32", 23, 23, _AMPERE),
    "exchange_cycles": Constant("latency SHFL", 23, 23, f"as shared_cycles: {_AMPERE}"),
    "first_cache_cycles": Constant("latency LDG, first cache", 33, 33, _AMPERE),
    "second_cache_cycles": Constant("latency LDG, second cache", 230, 230, _LATENCY),
    "memory_cycles": Constant("latency LDG, memory", 450, 450, _LATENCY),
    "special_cycles": Constant("latency MUFU.EX2", 18, 18, "as on the H200"),
    "constant_cycles": Constant(30, 30, 30, _VOLTA),
    "barrier_cycles": Constant(12, 12, 12, "H200: measured, `latency BAR` at no warps"),
    "barrier_cycles_per_warp": Constant(2, 2, 2, "H200: measured, slope of `latency BAR`"),
    "branch_cycles": Constant(8, 8, 8, _VOLTA),
    "taken_float": Constant(2, 2, 2, f"{_GUIDE}: 128 results a cycle, in two halves of a pipe"),
    "taken_alu": Constant(2, 2, 2, f"{_GUIDE}: 64 results"),
    "taken_special": Constant(8, 8, 8, f"{_GUIDE}: 16 results; measured on the H200, too"),
    "taken_double": Constant(2, 64, 64, f"{_GUIDE}: 64 and 2; measured on the H200, too"),
    "taken_tensor": Constant(
        6.5, 16, 16,
        "H200: Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024:"
        f" mma.sync has 62 % of the peak; others: {_SHEET}. No kernel has tested it",
    ),
    "queue_cycles": Constant(
        12, 12, 12, f"{_FITTED}; 8 to 64 change the order of neighbours among them alone"
    ),
    "access_turns": Constant(
        2, 2, 2, f"{_FITTED}: a read of the first cache takes as many cycles at least"
    ),
    "second_cache_rate": Constant(
        "reads of second cache", 2.4e12, 2.7e12,
        f"20 bytes a cycle and multiprocessor, {_FITTED}",
    ),
    "processor_rate": Constant(64, 64, 64, f"bytes a cycle: {_VOLTA}"),
    "memory_rate": Constant(
        "reads of memory", 0.9 * 768e9, 0.9 * 936e9, f"nine tenths of {_SHEET}"
    ),
    "launch_seconds": Constant(
        1e-6, 0, 0, "H200: an estimate; published times are of many launches in a row"
    ),
}  # fmt: skip

_GA102: dict[str, Any] = {
    "arch": "sm_86", "shared": 99 * KIB, "processor_threads": 1536, "processor_blocks": 16,
    "processor_shared": 100 * KIB,
}  # fmt: skip


def _machine(name: str, column: str, gpu: tc.Gpu) -> Machine:
    measured = json.loads(MEASURED.read_text())["constants"]
    numbers = {}
    for key, constant in CONSTANTS.items():
        number = getattr(constant, column)
        numbers[key] = measured[number]["number"] if isinstance(number, str) else number
    return Machine(name=name, gpu=gpu, **numbers)


MACHINES: Mapping[str, Machine] = {
    "H200": _machine("H200", "h200", tc.Gpu.named("sm_90")),
    "A6000": _machine("A6000", "a6000", tc.Gpu(processors=84, **_GA102)),
    "RTX 3090": _machine("RTX 3090", "rtx3090", tc.Gpu(processors=82, **_GA102)),
}
