"""Nests marked "lines" become stores of whole lines; what is copied, and to where, stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT16, UINT8, DType
from tc.kernel.folding import integer
from tc.kernel.ir import Const, Kernel, Load, Stmt, Store
from tc.kernel.passes.copies import combine_writes
from tc.kernel.printer import to_text
from tests.kernel.marked import all_statements, loops, run
from tests.support.build import add, dense, loop, times, var

I, J, R = var("i"), var("j"), var("r")  # noqa: E741


def kernel_of(
    rows: int,
    width: int,
    first: int = 0,
    *more: Stmt,
    dtype: DType = FLOAT32,
    pitch: int | None = None,
    order: tuple[str, str] = ("i", "j"),
) -> Kernel:
    """Copies 3 tiles of `rows` rows, filled from an input, to the rows from `first` on, and runs
    more statements after each."""
    row = add(times(R, rows), I)
    fill = Store("s", (I, J), Load("a", (row, J), dtype))
    copy = Store("o", (add(row, integer(first)), J), Load("s", (I, J), dtype))
    sizes = {"i": rows, "j": width}
    outer, inner = order
    body = (
        loop("i", rows, loop("j", width, fill)),
        loop(outer, sizes[outer], loop(inner, sizes[inner], copy), mark="lines"),
    )
    buffers = (
        dense("a", dtype, (3 * rows, width), "input"),
        dense("o", dtype, (first + 3 * rows, pitch or width), "output"),
        dense("s", dtype, (rows, width), "scratch"),
    )
    regions = ((loop("r", 3, *body, *more),),)
    return Kernel("k", buffers, regions, initial=frozenset(("o",)))


def changed(kernel: Kernel, lanes_bits: int = 512) -> Kernel:
    """The kernel after `combine_writes`: it has no marks "lines", and must give equal results."""
    found = combine_writes(kernel, lanes_bits=lanes_bits)
    assert not any(getattr(s, "mark", "") == "lines" for s in all_statements(found))
    (failure, before), (other, after) = run(kernel), run(found)
    assert failure is None
    assert other is None
    np.testing.assert_array_equal(after["o"].ravel(), before["o"].ravel())
    return found


def widths(kernel: Kernel) -> set[int]:
    """The lanes of what is stored to the output."""
    stores = (s for s in all_statements(kernel) if isinstance(s, Store) and s.buffer == "o")
    return {s.value.dtype.lanes for s in stores}


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize(("rows", "width"), [(9, 7), (4, 16), (1, 3), (2, 5), (5, 33), (1, 64)])
def test_wherever_stretches_start(rows: int, width: int, first: int) -> None:
    """Even where a stretch has no whole line, or ends in the line in which it starts."""
    assert widths(changed(kernel_of(rows, width, first))) == {1, 16}


@pytest.mark.parametrize("dtype", [UINT8, INT16, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("bits", [128, 256, 512, 1024])
def test_vectors_fill_a_line(dtype: DType, bits: int) -> None:
    found = changed(kernel_of(9, 23, 1, dtype=dtype), bits)
    lanes = min(bits // 8, 64) // dtype.bytes
    assert widths(found) == {1, lanes}
    stores = [s for s in all_statements(found) if isinstance(s, Store) and s.value.dtype.lanes > 1]
    assert len(stores) * lanes * dtype.bytes == 64
    assert [b.shape for b in found.buffers if b.name != "a"] == [(28 * 23,), (9 * 23,)]


def test_whole_lines_start_at_lines() -> None:
    text = to_text(changed(kernel_of(9, 7, 1)))
    assert "let first: int64 = (start + 15) / 16" in text
    assert "let place: int64 = (first + line) * 16\n" in text
    assert "o[place:place + 16] = s[place - start:place - start + 16]" in text


WHATEVER = loop("i", 1, Store("o", (I, I), Const(7.0, FLOAT32)))
READ_LATER = loop("i", 1, Store("a2", (I,), Load("s", (I, I), FLOAT32)))


@pytest.mark.parametrize(
    "kernel",
    [
        kernel_of(9, 7, pitch=8),
        kernel_of(9, 7, order=("j", "i")),
        kernel_of(9, 7, 0, WHATEVER),
        kernel_of(9, 7, dtype=BOOL),
    ],
    ids=["rows apart", "columns", "other stores", "bool"],
)
def test_other_nests_stay_loops(kernel: Kernel) -> None:
    found = changed(kernel)
    assert loops(found) == loops(kernel)
    assert found.buffers == kernel.buffers


def test_a_source_that_others_read_stays() -> None:
    kernel = kernel_of(9, 7, 0, READ_LATER)
    a, o, s = kernel.buffers
    kernel = replace(kernel, buffers=(a, o, dense("a2", FLOAT32, (1,), "output"), s))
    assert loops(changed(kernel)) == loops(kernel)


def test_without_vectors_they_stay_loops() -> None:
    kernel = kernel_of(9, 7)
    assert loops(changed(kernel, 0)) == loops(kernel)
