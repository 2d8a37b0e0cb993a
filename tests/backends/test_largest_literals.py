"""The largest numbers of floating types, written with the digits that a type has (Y1)."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C

BACKENDS = ["numba", NEEDS_C, "interpret"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("spelling", "dtype", "written"),
    [
        ("float", np.float32, "3.4028235e38"),  # as numpy and C print it, and beyond it
        ("float", np.float32, "3.40282356e38"),
        ("half", np.float16, "65504"),
        ("half", np.float16, "6.551e4"),
        ("double", np.float64, "1.7976931348623157e308"),
    ],
)
def test_the_largest_number(
    spelling: str, dtype: type[np.floating], written: str, backend: str
) -> None:
    text = f"def f({spelling}(N) a, {spelling} s) -> (o, p) {{"
    text += f" o(i) max=! pad(a(i + k), -{written}) where i in 0:N, k in 1:20  p = s }}"
    a = np.arange(19).astype(dtype)
    o, p = tc.compile(text, backend=backend)(a, float(written))
    largest = np.finfo(dtype).max
    assert np.array_equal(o, [*[18] * 18, -largest])
    assert p == largest


@pytest.mark.parametrize(
    ("spelling", "written"), [("float", "3.4028236e38"), ("half", "65520"), ("half", "1e5")]
)
def test_beyond_it(spelling: str, written: str) -> None:
    with pytest.raises(tc.CheckError, match="does not fit"):
        tc.compile(f"def f({spelling}(N) a) -> (o) {{ o(i) = a(i) + {written} }}")
    with pytest.raises(tc.InputError, match="cannot hold"):
        tc.interpret(f"def f({spelling} a) -> (o) {{ o = a }}", [float(written)])
