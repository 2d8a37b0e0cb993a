"""Plain contractions by a library call: what matches, the line that runs, and its results (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.library import match_contraction
from tests.support.bounds import assert_computes
from tests.support.pipeline import checked, shaped

MM = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
BATCHED = "def f(float(B,M,K) X, float(B,K,N) Y) -> (C) { C(b,i,j) +=! X(b,i,k) * Y(b,k,j) }"
CHOSEN = tc.Options(match_library=True)

MATCHING: dict[str, tuple[str, tuple[tuple[int, ...], ...], str]] = {
    "matmul": (MM, ((5, 7), (7, 3)), "np.matmul(A, B, out=C)"),
    "transposed operands": (
        "def f(double(K,M) A, double(N,K) B) -> (C) { C(i,j) +=! A(k,i) * B(j,k) }",
        ((7, 5), (3, 7)),
        "np.matmul(A.transpose(1, 0), B.transpose(1, 0), out=C)",
    ),
    "columns before rows": (
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(j,i) +=! A(i,k) * B(k,j) }",
        ((5, 7), (7, 3)),
        "np.matmul(A, B, out=C.transpose(1, 0))",
    ),
    "batched": (BATCHED, ((4, 5, 7), (4, 7, 3)), "np.matmul(X, Y, out=C)"),
    "two batch dimensions, apart in the result": (
        "def f(float(A,B,I,K) X, float(B,K,J,A) Y) -> (C) { C(a,i,b,j) +=! X(a,b,i,k) * Y(b,k,j,a)"
        " }",
        ((2, 3, 5, 7), (3, 7, 4, 2)),
        "np.matmul(X, np.ascontiguousarray(Y.transpose(3, 0, 1, 2)), out=C.transpose(0, 2, 1, 3))",
    ),
    "batch innermost": (
        "def f(float(M,K,B) X, float(K,N,B) Y) -> (C) { C(i,j,b) +=! X(i,k,b) * Y(k,j,b) }",
        ((5, 7, 4), (7, 3, 4)),
        "np.copyto(C.transpose(2, 0, 1), np.matmul(np.ascontiguousarray(X.transpose(2, 0, 1)), "
        "np.ascontiguousarray(Y.transpose(2, 0, 1))))",
    ),
    "several rows": (
        "def f(float(A,B,K) X, float(K,N) Y) -> (C) { C(a,b,j) +=! X(a,b,k) * Y(k,j) }",
        ((3, 4, 7), (7, 5)),
        "np.matmul(X.reshape(12, 7), Y, out=C.reshape(12, 5))",
    ),
    "rows around columns": (
        "def f(float(A,B,K) X, float(K,N) Y) -> (C) { C(a,j,b) +=! X(a,b,k) * Y(k,j) }",
        ((3, 4, 7), (7, 5)),
        "np.copyto(C.transpose(0, 2, 1), np.matmul(X.reshape(12, 7), Y).reshape(3, 4, 5))",
    ),
    "several reductions, as the larger operand has them": (
        "def f(float(M,K,L) X, float(L,K,N) Y) -> (C) { C(i,j) +=! X(i,k,l) * Y(l,k,j) }",
        ((3, 4, 7), (7, 4, 50)),
        "np.matmul(np.ascontiguousarray(X.transpose(0, 2, 1).reshape(3, 28)), Y.reshape(28, 50), "
        "out=C)",
    ),
    "matrix and vector": (
        "def f(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }",
        ((5, 7), (7,)),
        "np.matmul(A, x.reshape(7, 1), out=y.reshape(5, 1))",
    ),
    "two dimensions and a vector": (
        "def f(float(A,B,K) X, float(K) x) -> (y) { y(a,b) +=! X(a,b,k) * x(k) }",
        ((3, 4, 7), (7,)),
        "np.matmul(X.reshape(12, 7), x.reshape(7, 1), out=y.reshape(12, 1))",
    ),
    "scalar product": (
        "def f(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(k) }",
        ((99,), (99,)),
        "np.matmul(x.reshape(1, 99), y.reshape(99, 1), out=s.reshape(1, 1))",
    ),
    "one tensor twice": (
        "def f(float(M,K) A) -> (C) { C(i,j) +=! A(i,k) * A(j,k) }",
        ((5, 7),),
        "np.matmul(A, A.transpose(1, 0), out=C)",
    ),
    "an empty reduction": (MM, ((5, 0), (0, 3)), "np.matmul(A, B, out=C)"),
    "an empty result": (MM, ((0, 7), (7, 3)), "np.matmul(A, B, out=C)"),
    "names that are none in Python": (
        "def f(float(M,K) 2a, float(K,N) lambda) -> (np) { np(i,j) +=! 2a(i,k) * lambda(k,j) }",
        ((5, 7), (7, 3)),
        "np.matmul(left, right, out=target)",
    ),
    "an input that nothing reads": (
        "def f(float(M,K) A, float(Q) q, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        ((5, 7), (2,), (7, 3)),
        "np.matmul(A, B, out=C)",
    ),
}

OTHERS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "half": (MM.replace("float", "half"), ((5, 7), (7, 3))),
    "integers": (MM.replace("float", "int"), ((5, 7), (7, 3))),
    "two types": (MM.replace("float(M", "double(M"), ((5, 7), (7, 3))),
    "a wider result": (MM.replace("(C)", "(double(M,N) C)"), ((5, 7), (7, 3))),
    "three operands": (
        "def f(float(M,K) A, float(K,N) B, float(K) d) -> (C) {"
        " C(i,j) +=! A(i,k) * B(k,j) * d(k) }",
        ((5, 7), (7, 3), (7,)),
    ),
    "an epilogue": (
        "def f(float(M,K) A, float(K,N) B) -> (C) {"
        " C(i,j) +=! A(i,k) * B(k,j)  C(i,j) = fmax(C(i,j), 0) }",
        ((5, 7), (7, 3)),
    ),
    "another operator": (MM.replace("+=!", "max=!"), ((5, 7), (7, 3))),
    "a sum of operands": (MM.replace("*", "+"), ((5, 7), (7, 3))),
    "no reduction": (
        "def f(float(M) a, float(N) b) -> (C) { C(i,j) = a(i) * b(j) }",
        ((5,), (3,)),
    ),
    "a reduction in one operand": (
        "def f(float(M,K) A, float(M,L) B) -> (c) { c(i) +=! A(i,k) * B(i,l) }",
        ((5, 7), (5, 3)),
    ),
    "a diagonal": (
        "def f(float(K,K) A, float(K,N) B) -> (c) { c(j) +=! A(k,k) * B(k,j) }",
        ((7, 7), (7, 3)),
    ),
    "a part": (MM.replace(" }", " where k in 1:6 }"), ((5, 7), (7, 3))),
    "a sum that only counts": (MM.replace(" }", " where n in 0:2 }"), ((5, 7), (7, 3))),
    "a convolution": (
        "def f(float(C,W) x, float(C,KW) k) -> (o) { o(w) +=! x(c,w+kw) * k(c,kw) }",
        ((3, 9), (3, 3)),
    ),
    "a lookup": (
        "def f(float(E,D) T, int(K) at, float(K,N) B) -> (C) { C(d,j) +=! T(at(k),d) * B(k,j) }",
        ((4, 5), (7,), (7, 3)),
    ),
}


def arrays(text: str, shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    """Values that are read nowhere as an index out of bounds: below 3."""
    program = checked(text)
    rng = np.random.default_rng(0)
    return [
        (3 * rng.random(shape)).astype(program.tensors[name].dtype.numpy)
        for name, shape in zip(program.inputs, shapes, strict=True)
    ]


def check(text: str, inputs: list[np.ndarray], result: Any) -> None:
    expected, bound = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    difference = abs(result.astype(np.float64) - expected.astype(np.float64))
    assert (difference <= bound).all()


@pytest.mark.parametrize("backend", ["c", "numba"])
@pytest.mark.parametrize("name", MATCHING)
def test_what_matches(name: str, backend: str) -> None:
    text, shapes, source = MATCHING[name]
    inputs = arrays(text, shapes)
    f = tc.compile(text, backend=backend, options=CHOSEN)
    assert f.source(*inputs) == source
    check(text, inputs, f(*inputs))


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not(name: str) -> None:
    text, shapes = OTHERS[name]
    inputs = arrays(text, shapes)
    f = tc.compile(text, options=CHOSEN)
    assert f.source(*inputs) == tc.compile(text).source(*inputs)
    check(text, inputs, f(*inputs))


def test_never_by_default() -> None:
    inputs = arrays(MM, ((5, 7), (7, 3)))
    assert not tc.Options().match_library
    for backend in ("c", "numba"):
        assert "matmul" not in tc.compile(MM, backend=backend).source(*inputs)


def test_other_backends_never(evaluating: Any) -> None:
    inputs = arrays(MM, ((5, 7), (7, 3)))
    check(MM, inputs, tc.compile(MM, backend="evaluate", options=CHOSEN)(*inputs))
    assert len(evaluating.loaded) == 1


STRIDED = {
    "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "rows apart": lambda a: np.hstack([a, a])[:, : a.shape[1]],
    "transposed": lambda a: np.array(a, order="F"),
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
    "one value": lambda a: np.broadcast_to(a[0, 0], a.shape),
    "odd bytes": lambda a: np.array(
        [(v, 0) for v in a.ravel()], [("v", "f4"), ("", "i1")]
    )["v"].reshape(a.shape),
}  # fmt: skip
COPIED = {"every second", "backwards", "repeated", "one value"}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("name", STRIDED)
def test_strided_inputs(name: str) -> None:
    a, b = arrays(MM, ((5, 7), (7, 3)))
    strided = [STRIDED[name](a), STRIDED[name](b)]
    f = tc.compile(MM, options=CHOSEN)
    if name != "odd bytes":
        assert f.source(*strided).count("np.ascontiguousarray") == 2 * (name in COPIED)
    check(MM, [np.ascontiguousarray(s) for s in strided], f(*strided))


def test_a_strided_stack() -> None:
    x, y = arrays(BATCHED, ((4, 5, 7), (4, 7, 3)))
    x = np.repeat(x, 2, 0)[::2]
    y = np.broadcast_to(y[:1], y.shape)
    f = tc.compile(BATCHED, options=CHOSEN)
    assert f.source(x, y) == "np.matmul(X, Y, out=C)"
    check(BATCHED, [x, y], f(x, y))


@pytest.mark.parametrize("name", MATCHING)
def test_outputs_given(name: str) -> None:
    text, shapes, _ = MATCHING[name]
    inputs = arrays(text, shapes)
    f = tc.compile(text, options=CHOSEN)
    out = np.full_like(f(*inputs), np.nan)
    assert f(*inputs, outputs=out) is out
    check(text, inputs, out)


def test_a_sum_that_continues() -> None:
    text = MM.replace("+=!", "+=")
    inputs = arrays(text, ((5, 7), (7, 3)))
    f = tc.compile(text, options=CHOSEN)
    with pytest.warns(tc.TCWarning, match="R3"):
        fresh = f(*inputs)
    out = np.ones_like(fresh)
    f(*inputs, outputs=out)
    assert_computes(text, inputs, out, inputs[0] @ inputs[1] + 1.0, outputs=np.ones_like(fresh))
    program = checked(text)
    shape = shaped(program, dict(zip(program.inputs, inputs, strict=True)))
    assert match_contraction(shape, frozenset()) is not None
    assert match_contraction(shape, frozenset({"C"})) is None


def test_nothing_to_add_keeps_what_is_there() -> None:
    text = MM.replace("+=!", "+=")
    inputs = arrays(text, ((5, 0), (0, 3)))
    f = tc.compile(text, options=CHOSEN)
    with pytest.warns(tc.TCWarning, match="R3"):
        assert (f(*inputs) == 0).all()
    out = np.ones((5, 3), np.float32)
    f(*inputs, outputs=out)
    assert (out == 1).all()


def test_infinities_warn_nobody() -> None:
    a = np.full((4, 4), np.inf, np.float32)
    b = np.array([[1, -1, 0, 3e38]] * 4, np.float32)
    big = np.full((4, 4), 3e38, np.float32)
    f = tc.compile(MM, options=CHOSEN)
    np.testing.assert_array_equal(f(a, b)[0], [np.inf, -np.inf, np.nan, np.inf])
    assert np.isinf(f(big, big)).all()
