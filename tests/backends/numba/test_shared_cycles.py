"""From which work on a region is shared: its operations and bytes, against what a device says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.backends.numba.backend import MIN_SAVED_CYCLES, RegionWork
from tc.device import Device
from tc.dtypes import FLOAT32, INT64
from tc.kernel import ir

DEVICE = Device(
    vector_bits=512,
    l1=32 << 10,
    l2=1 << 20,
    l3=8 << 20,
    l2_bytes_per_cycle=32.0,
    l3_bytes_per_cycle=16.0,
    memory_bytes_per_cycle=4.0,
    fma_per_cycle=2,
    threads=2,
)


def doubled(n: int, lanes: int, products: int = 1, *, parallel: bool = True) -> ir.Kernel:
    """o[i] = 2 * ... * 2 * a[i], in vectors of some lanes."""
    i, kind = ir.Var("i", INT64), FLOAT32.vector(lanes)
    start = ir.Binary("*", i, ir.Const(lanes, INT64), INT64)
    place: ir.Expr = start if lanes == 1 else ir.Ramp(start, 1, INT64.vector(lanes))
    value: ir.Expr = ir.Load("a", (place,), kind)
    for _ in range(products):
        value = ir.Binary("*", ir.Const(2.0, kind), value, kind)
    end = ir.Const(n // lanes, INT64)
    body = (ir.Store("o", (place,), value),)
    loop = ir.For("i", ir.Const(0, INT64), end, body, parallel=parallel)
    buffers = (
        ir.Buffer("a", FLOAT32, (n,), (1,), "input"),
        ir.Buffer("o", FLOAT32, (n,), (1,), "output"),
    )
    return ir.Kernel("doubled", buffers, ((loop,),))


def shared_cycles(kernel: ir.Kernel, device: Device) -> int:
    return RegionWork.of(kernel.regions[0]).shared_cycles(kernel, device)


@pytest.mark.parametrize(
    ("n", "lanes", "products", "cycles"),
    [
        (1 << 16, 16, 1, (1 << 19) // 32),  # 512 KiB, in the second cache
        (1 << 18, 16, 1, (1 << 21) // 16),  # 2 MiB, in the third
        (1 << 21, 16, 1, (1 << 24) // 4),  # 16 MiB, from memory
        (1 << 16, 1, 1, (1 << 16) // 2),  # two scalars in a cycle
        (1 << 16, 16, 64, (1 << 22) // 32),  # two vectors of 16 in a cycle
    ],
)
def test_cycles_of_one_thread(n: int, lanes: int, products: int, cycles: int) -> None:
    assert shared_cycles(doubled(n, lanes, products), DEVICE) == cycles


def test_one_thread_reads_one_of_the_third_caches() -> None:
    several = replace(DEVICE, l3_caches=4)
    assert shared_cycles(doubled(1 << 21, 16), several) == (1 << 24) // 4


def test_narrow_units_take_vectors_in_passes() -> None:
    narrow = Device(
        vector_bits=512, unit_bits=256, l2=1 << 20, l2_bytes_per_cycle=32.0, fma_per_cycle=2
    )
    assert shared_cycles(doubled(1 << 16, 16, 64), narrow) == (1 << 22) // 16


def test_what_saves_little_or_has_no_parts_is_not_shared() -> None:
    least = 2 * MIN_SAVED_CYCLES * 32 // 8  # elements; 8 bytes each, 32 in a cycle
    assert shared_cycles(doubled(least, 16), DEVICE) == 2 * MIN_SAVED_CYCLES
    assert shared_cycles(doubled(least - 16, 16), DEVICE) == 0
    assert shared_cycles(doubled(1 << 18, 16, parallel=False), DEVICE) == 0
