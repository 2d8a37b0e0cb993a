"""Launches that choose between a buffer that they only read and one that they write: the pointer to
the first is not said to be the only one, since NVRTC then reads both as constant memory."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.backends.clike.grid_text import chosen_beside_stored
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from tc.kernel.ir import Const, Expr, If, Load, Select, Set, Stmt, Store, Var

ROWS = """
def f(float(W) a, float(N) b, float(K) d, float(M) e) -> (o2, o4) {
  o(w,i) = (i < 5 ? 1 : b(i - 5)) + a(w) where i in 0:7
  o2(w) = o(w, 0)
  o4(i,m) = d(i) <= 0 ? e(8) : o(m + 3, 6) where i in 1:K, m in 2:12
}"""
"""Found by generated programs on an H200: `o` was read before it was written."""

SIZES = {"W": 40, "N": 2, "K": 3, "M": 9}


def load(buffer: str, dtype: DType = FLOAT32) -> Load:
    return Load(buffer, (Const(0, INT64),), dtype)


def store(buffer: str, value: Expr) -> Store:
    return Store(buffer, (Const(0, INT64),), value)


CONDITION = Var("c", BOOL)


def select(one: Expr, other: Expr) -> Select:
    return Select(CONDITION, one, other, one.dtype)


ZERO = Const(0.0, FLOAT32)


@pytest.mark.parametrize(
    ("stmts", "expected"),
    [
        ((store("o", ZERO), store("p", select(load("e"), load("o")))), {"e"}),
        ((store("o", ZERO), store("p", select(load("o"), load("e")))), {"e"}),
        ((If(CONDITION, (Set("x", load("e")),), (Set("x", load("o")),)), store("o", ZERO)), {"e"}),
        ((store("o", select(load("e"), select(load("d"), load("o")))),), {"d", "e"}),
        # nothing of both kinds is chosen from
        ((store("o", select(load("e"), load("d"))),), set()),
        ((store("o", ZERO), store("p", select(load("e"), load("o", FLOAT64)))), set()),
        ((store("o", ZERO), store("p", load("e")), store("q", load("o"))), set()),
        ((If(CONDITION, (Set("x", load("e")),)), store("o", load("o"))), set()),
        ((store("o", ZERO), store("o", select(load("o"), load("o")))), set()),
    ],
)  # fmt: skip
def test_which_buffers(stmts: tuple[Stmt, ...], expected: set[str]) -> None:
    assert chosen_beside_stored(stmts) == expected


def test_their_pointers_in_texts() -> None:
    """Beside a choice between `e` and `o`, of which a row is written before each is read."""
    options = tc.Options(gpu=tc.GpuOptions(tile=(32,), threads=(1, 8, 16), shared=False))
    text = tc.emit(ROWS, SIZES, backend="cuda", options=options).source
    launch = text[text.index("f_0(") : text.index("{", text.index("f_0("))]
    assert "float* o" in launch, "the launch that the rule is about"
    assert "const float* e" in launch
    assert "const float* __restrict__ d" in launch


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_what_that_program_means(backend: str) -> None:
    a, b = np.arange(40, dtype=np.float32), np.float32([5, 7])
    d, e = np.float32([1, 1, -1]), np.full(9, 3, np.float32)
    _, o4 = tc.compile(ROWS, backend=backend)(a, b, d, e)
    expected = np.zeros((3, 12), np.float32)
    expected[1, 2:] = 7 + a[5:15]
    expected[2, 2:] = 3
    np.testing.assert_array_equal(o4, expected)
