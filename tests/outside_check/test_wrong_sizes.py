"""Numbers in the place of sizes: what gradients take with symbols they take with numbers (0.10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.gradient.campaign import assert_transposed, with_literals
from tests.gradient.differences import cotangents, forward

SIZES = {"N": 5, "M": 3, "K": 1, "L": 4, "V": 4}
PROGRAMS = (
    "def f(double(N) A, int32(M) at, double(K,L) E) -> (y) { y +=! A(p+2) * E(at(p),p+1) }",
    # the place of a gather is read under a condition that keeps it in bounds
    "def f(double(V) T, int32(N) I) -> (y) { y(n) = n < N-1 ? T(I(n+1)) : 0 where n in 0:N }",
    "def f(double(N) T, int32(N) I) -> (y) {"
    " y(n) = n > 0 && I(n-1) > 0 ? T(I(n-1)) * T(n) : 0 where n in 0:N }",
    "def f(double(N) T, int32(N) I, double(N,N) W) -> (y) { y(n) +=! W(I(n), k+1) * T(I(k)) }",
    "def f(double(N) T, int32(N) I, double(N,N) W) -> (y) {"
    " y(n) +=! pad(W(I(n), k+1), 0) * pad(T(I(k-1)), 0) where k in 0:N }",
    # ranges that are expressions of sizes for some sizes only
    "def f(double(V) A, double(N) B) -> (y) { y(i) +=! A(i+j) * B(2*i+j) where j in 0:2 }",
    "def f(double(N) A, double(M,2) B) -> (y) { y(i) = A(i) * B(i/2, i%2) where i in 0:N }",
    "def f(double(N) A, double(M) B) -> (y) { y(i) = A(i) * B(max(i-3, 0)) }",
)


def inputs(text: str) -> dict[str, Any]:
    numbers, known = np.random.default_rng(0), {}
    program = tc.compile(text).program
    for name in program.inputs:
        tensor = program.tensors[name]
        dims = [getattr(d, "name", None) or d.value for d in tensor.shape or ()]
        shape = tuple(SIZES.get(d, d) for d in dims)
        if tensor.dtype.is_float:
            known[name] = numbers.uniform(0.5, 1.5, shape)
        else:
            known[name] = numbers.integers(0, 1 if name == "at" else 3, shape).astype("int32")
    return known


@pytest.mark.parametrize("text", PROGRAMS)
def test_first_and_second_derivatives_with_numbers_for_sizes(text: str) -> None:
    """0.10: the second order of the first program was refused (D4)."""
    literal = with_literals(text, SIZES)
    known, numbers = inputs(literal), np.random.default_rng(1)
    weights = cotangents(forward(literal, known), numbers)
    gradient = tc.grad(literal, save="none")
    assert_transposed(literal, gradient, known, weights, None)
    full = {**known, **weights}
    again = cotangents(forward(gradient, full), numbers)
    assert_transposed(gradient, tc.grad(gradient, save="none"), full, again, None)


def test_a_gather_is_read_where_its_condition_holds() -> None:
    """Next door to 0.10: `I(n+1) == x && n < N-1` read beyond I."""
    gradient = tc.grad(PROGRAMS[1])
    known = inputs(PROGRAMS[1]) | {"d_y": np.arange(5.0)}
    wanted = np.zeros(4)
    np.add.at(wanted, known["I"][1:], known["d_y"][:4])
    for backend in ("interpret", "numba", "c"):
        function = tc.compile(gradient, backend=backend, check=True)
        given = {"T": np.zeros(4), **known}
        found = function({n: given[n] for n in function.program.inputs})
        np.testing.assert_array_equal(found, wanted)
