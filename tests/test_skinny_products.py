"""Products of matrices of which one has a few rows or columns, in all layouts, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc

EPS = {"float": float(np.finfo(np.float32).eps), "double": float(np.finfo(np.float64).eps)}


@settings(max_examples=30, deadline=None)
@given(
    few=st.integers(1, 9),
    many=st.sampled_from([1, 7, 16, 33, 70]),
    depth=st.sampled_from([1, 15, 16, 65, 200, 515]),
    transposed=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    exchanged=st.booleans(),
    dtype=st.sampled_from(["float", "double"]),
    threads=st.sampled_from([1, 2]),
    backend=st.sampled_from(["numba", "c"]),
)
def test_products(
    few: int,
    many: int,
    depth: int,
    transposed: tuple[bool, bool, bool],
    exchanged: bool,
    dtype: str,
    threads: int,
    backend: str,
) -> None:
    m, n = (few, many) if exchanged else (many, few)
    left, right, out = transposed
    x, a = ("float(K,M)", "k,i") if left else ("float(M,K)", "i,k")
    y, b = ("float(N,K)", "j,k") if right else ("float(K,N)", "k,j")
    text = f"def mm({x} A, {y} B) -> (C) {{ C({'j,i' if out else 'i,j'}) +=! A({a}) * B({b}) }}"
    rng = np.random.default_rng(depth)
    first, second = rng.standard_normal((m, depth)), rng.standard_normal((depth, n))
    kind = np.float32 if dtype == "float" else np.float64
    first, second = first.astype(kind), second.astype(kind)
    function = tc.define(
        text.replace("float", dtype), backend=backend, options=tc.Options(threads=threads)
    ).mm
    found = function(
        np.ascontiguousarray(first.T if left else first),
        np.ascontiguousarray(second.T if right else second),
    )
    wide = [np.asarray(each, np.longdouble) for each in (first, second)]
    bound = (depth + 2) * EPS[dtype] * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert np.all(np.abs((found.T if out else found) - wide[0] @ wide[1]) <= bound)


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 8])
def test_bits_do_not_depend_on_threads(columns: int) -> None:
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    rng = np.random.default_rng(columns)
    a = rng.standard_normal((99, 515), np.float32)
    b = rng.standard_normal((515, columns), np.float32)
    found = [tc.define(text, options=tc.Options(threads=n)).mm(a, b) for n in (1, 2)]
    assert found[0].tobytes() == found[1].tobytes()
