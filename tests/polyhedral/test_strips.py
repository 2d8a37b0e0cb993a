"""Transposes of outputs too large for the caches, of sizes that no tile divides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tc.device import Device
from tc.dtypes import DTYPES
from tc.kernel.evaluate import evaluate
from tc.kernel.walk import has_non_temporal_stores
from tc.options import MappingOptions, Options
from tc.polyhedral.lowering import Lowering
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked

SMALL = Device(vector_bits=512, vector_registers=32, l1=4 << 10, l2=64 << 10, l3=1 << 10, threads=2)
"""A buffer has a quarter of l2, so shapes of a few thousand elements have several."""

PERMUTED = {
    "rows": ("O(b,a) = I(a,b)", (1, 0)),
    "last": ("O(a,c,b) = I(a,b,c)", (0, 2, 1)),
    "around": ("O(c,a,b) = I(a,b,c)", (2, 0, 1)),
    "reversed": ("O(c,b,a) = I(a,b,c)", (2, 1, 0)),
}
CTYPES = {
    "bool": "bool", "uint8": "uint8", "int16": "int16", "float16": "half", "float32": "float",
    "float64": "double",
}  # fmt: skip


def trace(
    body: str,
    shape: tuple[int, ...],
    dtype: str = "float32",
    device: Device = SMALL,
    options: Options | None = None,
) -> Lowering:
    sizes = ",".join("ABC"[: len(shape)])
    text = f"def f({CTYPES[dtype]}({sizes}) I) -> (O) {{ {body} }}"
    shaped = infer_ranges(checked(text), {"I": shape}, {})
    return trace_lowering(
        shaped, {}, initial=frozenset(), check=True, options=options, device=device
    )


def is_buffered(lowering: Lowering) -> bool:
    return any(b.name == "O_lines" for b in lowering.kernel.buffers)


OF_EACH_SIZE = ("uint8", "float16", "float32", "float64")


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        *(("rows", (37, 301), dtype) for dtype in CTYPES),
        *(("rows", (1100, 19), dtype) for dtype in OF_EACH_SIZE),
        *(("last", (3, 21, 133), dtype) for dtype in OF_EACH_SIZE),
        *(("last", (2, 530, 5), dtype) for dtype in OF_EACH_SIZE),
        *(("around", (7, 41, 37), dtype) for dtype in OF_EACH_SIZE),
        *(("reversed", (530, 3, 21), dtype) for dtype in OF_EACH_SIZE),
        *(("reversed", (1030, 5, 3), dtype) for dtype in OF_EACH_SIZE),
    ],
)
def test_what_they_compute(name: str, shape: tuple[int, ...], dtype: str) -> None:
    body, order = PERMUTED[name]
    lowering = trace(body, shape, dtype)
    values = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 99, shape)
    x = values.astype(DTYPES[dtype].numpy)
    wanted = x.transpose(order)
    buffers = {b.name: b for b in lowering.kernel.buffers}
    arrays = {"I": x.reshape(buffers["I"].shape), "O": np.full(buffers["O"].shape, 7, x.dtype)}
    assert evaluate(lowering.kernel, arrays) is None
    np.testing.assert_array_equal(arrays["O"].reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((37, 301), True), ((48, 301), False), ((1100, 19), True), ((3, 37), False)],
)
def test_when_parts_of_the_target_have_a_buffer(shape: tuple[int, ...], wanted: bool) -> None:
    """Where its rows are not whole lines, and there are enough of them."""
    lowering = trace("O(b,a) = I(a,b)", shape)
    assert is_buffered(lowering) is wanted
    assert has_non_temporal_stores(lowering.kernel) is (wanted or shape[0] % 16 == 0)


def test_of_what_the_caches_hold_there_is_none() -> None:
    large = replace(SMALL, l3=1 << 20)
    unknown = replace(SMALL, l3=0)
    for device in (large, unknown):
        assert not is_buffered(trace("O(b,a) = I(a,b)", (37, 301), device=device))


@pytest.mark.parametrize("bits", [128, 256])
def test_narrow_vectors_are_not_streamed_so_there_is_none(bits: int) -> None:
    options = Options(mapping=MappingOptions(vector_bits=bits))
    for lowering in (
        trace("O(b,a) = I(a,b)", (301, 257), device=replace(SMALL, vector_bits=bits)),
        trace("O(b,a) = I(a,b)", (301, 257), options=options),
    ):
        assert is_buffered(lowering) is has_non_temporal_stores(lowering.kernel) is (bits > 128)


@pytest.mark.parametrize(
    "body",
    [
        "O(b,a) = I(a,b) where a in 1:A",
        "T(b,a) = I(a,b) O(b,a) = T(b,a) * T(b,0)",
    ],
)
def test_targets_that_are_not_written_at_once_have_none(body: str) -> None:
    assert not is_buffered(trace(body, (37, 301)))


def test_a_buffer_has_its_part_of_the_second_cache() -> None:
    for l2 in (256 << 10, 1 << 20):
        lowering = trace("O(b,a) = I(a,b)", (1100, 2000), device=replace(SMALL, l2=l2))
        (held,) = (b for b in lowering.kernel.buffers if b.name == "O_lines")
        assert l2 // 16 <= held.bytes <= l2 // 4
