"""Bfloat16 and floats of 8 bits: all values, and how numbers are rounded, wherever programs run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import nvrtc
from tc.backends.geometry import LaunchText
from tc.dtypes import DTYPES, decoded, encoded
from tests.support import narrow_floats as narrow
from tests.support.opencl import on_pocl
from tests.support.ptx.texts import run_text

Array = np.ndarray[Any, Any]
BACKENDS = ("interpret", "numba", "c")
COUNT = 1 << 20
READ = "def read({0}(N) x) -> (y) {{ y(i) = float(x(i)) }}"
ROUND = "def round(float(N) x) -> (y) {{ y(i) = float({0}(x(i))) }}"
STORE = "def store(float(N) x) -> (y) {{ t(i) = {0}(x(i))  y(i) = float(t(N-1-i)) }}"
CHOSEN = "def chosen(float(N) x) -> (y) {{ y(i) = x(i) < 0 ? float({0}(x(i))) : x(i) }}"

needs_nvrtc = pytest.mark.skipif(not nvrtc.is_installed(), reason="NVRTC is not installed")


def all_bits(name: str) -> Array:
    """All values, as tc has them."""
    dtype = DTYPES[name]
    return np.arange(1 << dtype.bits).astype(dtype.unsigned.numpy).view(dtype.numpy)


def assert_same(found: Any, expected: Array) -> None:
    """The same numbers, with the signs of zeros; NaN is NaN."""
    found = np.asarray(found)
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", narrow.NAMES)
def test_definitions(name: str) -> None:
    dtype, values = DTYPES[name], narrow.values(name)
    assert_same(decoded(all_bits(name), dtype), values)
    numbers = narrow.drawn(name, 1000)
    rounded = np.array([narrow.nearest(name, float(x)) for x in numbers], np.float32)
    assert_same(decoded(encoded(numbers, dtype), dtype), rounded)
    again = encoded(values, dtype).view(dtype.unsigned.numpy)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(again[known], np.arange(1 << dtype.bits)[known])
    finite = np.unique(np.abs(values[np.isfinite(values)]).astype(np.float64))
    form = dtype.format
    assert (form.largest, form.smallest_subnormal) == (finite[-1], finite[1])
    assert form.numbers == len(finite)
    assert 1 + form.epsilon == finite[np.searchsorted(finite, 1.0) + 1]


@pytest.mark.parametrize("name", narrow.NAMES)
def test_as_torch_rounds(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    dtype, numbers = DTYPES[name], narrow.drawn(name, COUNT)
    expected = narrow.rounded_by_torch(torch, name, numbers)
    assert_same(decoded(encoded(numbers, dtype), dtype), expected)
    bits = torch.arange(1 << dtype.bits).to(getattr(torch, f"uint{dtype.bits}"))
    assert_same(narrow.values(name), bits.view(getattr(torch, name)).float().numpy())


@pytest.mark.parametrize("name", narrow.NAMES)
def test_as_ml_dtypes_rounds(name: str) -> None:
    pytest.importorskip("jax", reason="jax is not installed")  # which comes with it
    package = narrow.loaded_ml_dtypes()
    kind = np.dtype(getattr(package, name))
    dtype, numbers = DTYPES[name], narrow.drawn(name, COUNT)
    with np.errstate(all="ignore"):
        expected = numbers.astype(kind).astype(np.float32)
    if name == "float8_e4m3fn":  # of what is beyond the largest number it makes NaN
        expected = np.where(np.abs(numbers) > 448, np.copysign(np.float32(448), numbers), expected)
    assert_same(decoded(encoded(numbers, dtype), dtype), expected)
    assert_same(narrow.values(name), all_bits(name).view(kind).astype(np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", narrow.NAMES)
def test_all_values_are_read(name: str, backend: str) -> None:
    for bits in (all_bits(name), all_bits(name)[::-1], all_bits(name)[: 3 * 7]):
        found = tc.compile(READ.format(name), backend=backend)(bits)
        assert_same(found, decoded(bits, DTYPES[name]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", [ROUND, STORE, CHOSEN])
@pytest.mark.parametrize("name", narrow.NAMES)
def test_numbers_are_rounded(name: str, text: str, backend: str) -> None:
    dtype, numbers = DTYPES[name], narrow.drawn(name, COUNT // 8)
    expected = decoded(encoded(numbers, dtype), dtype)
    if text is STORE:
        expected = expected[::-1]
    if text is CHOSEN:
        expected = np.where(numbers < 0, expected, numbers)
    for part in (slice(None), slice(0, 13)):  # vectors, and what is less than one
        wanted = expected[part] if text is not STORE else expected[::-1][part][::-1]
        assert_same(tc.compile(text.format(name), backend=backend)(numbers[part]), wanted)


@pytest.mark.parametrize("kind", ["double", "int", "int64", "uint8"])
@pytest.mark.parametrize("name", narrow.NAMES)
def test_all_go_by_way_of_float32(name: str, kind: str) -> None:
    """As torch and ml_dtypes convert: 1 + 2**-8 + 2**-40 is 1 in bfloat16."""
    rng, dtype = np.random.default_rng(1), DTYPES[name]
    if kind == "double":
        numbers = np.append(rng.standard_normal(4000) * 300, 1 + 2.0**-8 + 2.0**-40)
    else:
        whole = np.iinfo({"int": "int32"}.get(kind, kind))
        numbers = rng.integers(whole.min, whole.max, 4000, whole.dtype, endpoint=True)
    expected = decoded(encoded(numbers.astype(np.float32), dtype), dtype)
    text = f"def f({kind}(N) x) -> (y) {{ y(i) = float({name}(x(i))) }}"
    for backend in BACKENDS:
        assert_same(tc.compile(text, backend=backend)(numbers), expected)
    assert not tc.error_bound(text, [numbers]).any()


@pytest.mark.parametrize("name", narrow.NAMES)
@on_pocl
def test_opencl(name: str) -> None:
    dtype, numbers = DTYPES[name], narrow.drawn(name, 1 << 12)
    found = tc.compile(READ.format(name), backend="opencl")(all_bits(name))
    assert_same(found, narrow.values(name))
    for text in (ROUND, CHOSEN):
        found = tc.compile(text.format(name), backend="opencl")(numbers)
        expected = decoded(encoded(numbers, dtype), dtype)
        if text is CHOSEN:
            expected = np.where(numbers < 0, expected, numbers)
        assert_same(found, expected)


@needs_nvrtc
@pytest.mark.parametrize("name", narrow.NAMES)
def test_text_of_cuda(name: str) -> None:
    """By the machine of PTX: what NVRTC makes of the text."""
    dtype, numbers = DTYPES[name], narrow.drawn(name, 200)
    bits = all_bits(name)[:: 1 if dtype.bits == 8 else 37].copy()
    failure, found = run_text(on_gpu(READ.format(name), x=bits), {"x": bits})
    assert failure is None
    assert_same(found["y"], decoded(bits, dtype))
    _, found = run_text(on_gpu(ROUND.format(name), x=numbers), {"x": numbers})
    assert_same(found["y"], decoded(encoded(numbers, dtype), dtype))


def on_gpu(text: str, **inputs: Array) -> LaunchText:
    emitted = tc.emit(text, **inputs, backend="cuda")
    assert isinstance(emitted, LaunchText)
    return emitted


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", narrow.NAMES)
def test_bits_of_what_is_rounded(name: str, backend: str) -> None:
    text = f"""def coded(float(N) x) -> (y, z) {{
      y(i) = bits({name}(x(i)))
      z(i) = x(i) < 1 ? bits({name}(2 * x(i))) : bits({name}(0.5))
    }}"""
    x = narrow.drawn(name, 200)
    x = x[~np.isnan(x)]
    found, expected = tc.compile(text, backend=backend)(x), tc.interpret(text, [x])
    assert found.y.dtype == DTYPES[name].unsigned.numpy
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
