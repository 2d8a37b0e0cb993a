"""Texts that take addresses to be multiples of 16 bytes, and calls with arrays elsewhere."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc
from tc.backends.clike.cuda_dialect import cuda_for
from tc.backends.clike.printer import print_kernel
from tc.backends.cuda import CudaText
from tests.support.ptx.texts import ptx_of, run_text
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in

__all__ = ["stand_in"]

PAIRS = "def pairs(float(N,M) a) -> (o) { o(i,j) = 2 * a(i,j) }"
FOURS = [
    {"tile": "j", "sizes": [4]},
    {"bind": "i", "role": "block", "axis": "x"},
    {"bind": "j div 4", "role": "thread", "axis": "x"},
    {"bind": "j mod 4", "role": "unroll"},
]


def text_of(rows: int, columns: int, dtype: type = np.float32) -> CudaText:
    plan = tc.Plan.from_json(
        str({"version": 1, "parts": [{"statements": ["S0"], "actions": FOURS}]}).replace("'", '"')
    )
    options = tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False))
    program = PAIRS if dtype is np.float32 else PAIRS.replace("float", "double")
    zeros = np.zeros((rows, columns), dtype)
    found = tc.emit(program, [zeros], backend="cuda", device=tc.Gpu(), options=options)
    assert isinstance(found, CudaText)
    return found


WIDTHS = [(16, np.float32, 4), (10, np.float32, 2), (9, np.float32, 1), (6, np.float64, 2)]


@pytest.mark.parametrize(("columns", "dtype", "lanes"), WIDTHS)
def test_threads_access_several_neighbours_at_once(columns: int, dtype: type, lanes: int) -> None:
    """As many as rows begin at multiples of; and one where any address is allowed."""
    text = text_of(3, columns, dtype)
    ptx = ptx_of(text.source)
    found = {int(n) for n in re.findall(r"st\.global\.v(\d)", ptx)} or {1}
    assert max(found) == lanes
    size = lanes * np.dtype(dtype).itemsize
    assert (f"at multiples of {size} bytes: a, o" in text.source) == (lanes > 1)
    plain = print_kernel(text.kernel, cuda_for(tc.Gpu(), aligned=False))
    assert "multiples" not in plain
    assert "aligned(" not in plain.replace("__align__(", "")
    assert not re.search(r"st\.global\.v\d", ptx_of(plain))
    values = np.arange(3 * columns, dtype=dtype).reshape(3, columns)
    for own in (ptx, ptx_of(plain)):
        _, arrays = run_text(text, {"a": values}, own)
        np.testing.assert_array_equal(arrays["o"], 2 * values)


def test_nothing_beyond_an_array_is_read() -> None:
    """Three neighbours are no four: there is no fourth."""
    text = "def rows(float(N) a) -> (o) { o(i) +=! a(j) where i in 0:4 }"
    values = np.arange(7, dtype=np.float32)
    naive = tc.Options.preset("naive")
    for options in (tc.Options(), naive):
        found = tc.emit(text, [values], backend="cuda", device=tc.Gpu(), options=options)
        assert isinstance(found, CudaText)
        assert "multiples of 16 bytes: o" in found.source
        _, arrays = run_text(found, {"a": values})
        np.testing.assert_array_equal(arrays["o"], np.full(4, 21, np.float32))


def shifted(values: np.ndarray, start: int) -> np.ndarray:
    """Values at an address that is so many bytes above a multiple of 16."""
    raw = np.zeros(values.nbytes + 32, np.uint8)
    first = -raw.ctypes.data % 16 + start
    found = raw[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    found[...] = values
    assert found.ctypes.data % 16 == start
    return found


@pytest.mark.parametrize("start", [0, 4, 8, 12])
def test_calls_choose_the_text_by_addresses(stand_in: StandInDriver, start: int) -> None:
    """The second text is made for the first call that needs it, and serves all such calls."""
    f = tc.compile(PAIRS, backend="cuda")
    values = np.arange(48, dtype=np.float32).reshape(3, 16)
    for which in (0, start, 0, start):
        out = DeviceVector(shifted(np.zeros_like(values), 0))
        f(DeviceVector(shifted(values, which)), outputs={"o": out})
        np.testing.assert_array_equal(out.values, 2 * values)
        out = DeviceVector(shifted(np.zeros_like(values), which))
        f(DeviceVector(shifted(values, 0)), outputs={"o": out})
        np.testing.assert_array_equal(out.values, 2 * values)
    sources = [cubin.decode() for cubin in stand_in.kernels]
    assert stand_in.names().count("load") == len(sources) == (1 if start == 0 else 2)
    assert ["assume_aligned" in source for source in sources] == [True, False][: len(sources)]


def test_any_address_where_rows_are_odd(stand_in: StandInDriver) -> None:
    f = tc.compile("def f(float(N,M) a) -> (o) { o(j,i) = a(i,j) }", backend="cuda")
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    for start in (0, 4):
        out = DeviceVector(np.zeros((5, 3), np.float32))
        f(DeviceVector(shifted(values, start)), outputs={"o": out})
        np.testing.assert_array_equal(out.values, values.T)
    assert stand_in.names().count("load") == 1
