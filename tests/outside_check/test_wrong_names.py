"""Texts of derivatives whose index variables would be named like tensors (0.9)."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.gradient.campaign import assert_transposed
from tests.gradient.differences import cotangents, forward

SQUARE = "def f(float(N) i, float(M) z) -> (y) { y(n) = i(n) * i(n) where n in 0:N }"


def test_an_input_without_gradient_beside_a_tensor_named_i() -> None:
    """0.9: `d_z(i) = 0` was refused, as i is a tensor."""
    i, z, d = (np.array(v, np.float32) for v in ([1, -2, 3], [5, 6], [1, 10, 100]))
    found = tc.compile(tc.grad(SQUARE))(i, z, d)
    np.testing.assert_array_equal(found.d_i, 2 * d * i)
    np.testing.assert_array_equal(found.d_z, [0, 0])


PROGRAMS = {
    "no gradient": SQUARE.replace("float", "double"),
    "an index of a called def": """
def h(double(M) A) -> (o) { o(i) = A(i) * A(i) }
def f(double(N) i, double(N) z) -> (y) { t = h(i)  y(n) = t(n) * z(n) }""",
    "a size of a called def": """
def h(double(j) A) -> (o) { o(i) = A(i) * A(i) where i in 0:j }
def f(double(N) j, double(N) z) -> (y) { t = h(j)  y(k) = t(k) * z(k) }""",
    "versions": """
def f(double(N) i, double(N) z) -> (y) {
  y(n) = i(n) * z(n)
  y(n) = y(n) * y(n) where n in 1:N
  y(n) += i(n) where n in 2:N
}""",
    "parts": "def f(double(N) i, double(N) x) -> (y) { y(n) = i(n) * x(n+1) where n in 0:N-1 }",
    "a stride": "def f(double(N) x, double(N) p) -> (y) { y(n) = x(2*n+1) * p(n/2) }",
    "of the caller": "def f(double(N) i, double(N) j) -> (k) { k(n) = i(n) * k(n) }",
    "joined": "def f(double(N) i, double(N) j) -> (k) { k = concat(i, j) }",
    "products": "def f(double(N) q, double(N) i) -> (p) { p *=! q(n) * i(n) }",
    "maxima": "def f(double(N) k, double(N,M) i) -> (p) { p(n) max=! i(n,m) * k(n) }",
    "attention": """
def f(double(B,N,D) i, double(B,M,D) j, double(B,M,E) k) -> (n) {
  p(b,x,y) +=! i(b,x,d) * j(b,y,d)
  m(b,x) max=! p(b,x,y)
  q(b,x,y) = exp(p(b,x,y) - m(b,x))
  l(b,x) +=! q(b,x,y)
  n(b,x,e) +=! q(b,x,y) * k(b,y,e) / l(b,x)
}""",
}
SIZES = {"N": 3, "M": 2, "B": 2, "D": 2, "E": 2}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("save", ["outputs", "none"])
def test_first_and_second_derivatives(name: str, save: str) -> None:
    """0.9: the gradient is the transpose of the tangents, and has a gradient itself."""
    text = PROGRAMS[name].strip()
    program = tc.compile(text, entry="f").program
    numbers = np.random.default_rng(3)
    known = {}
    for tensor in program.inputs:
        shape = tuple(SIZES[d.name] for d in program.tensors[tensor].shape)
        known[tensor] = numbers.uniform(-1, 1, shape)
    known |= {f"{n}_0": numbers.uniform(-1, 1, 3) for n in program.needs_initial}
    results = forward(text, known, "f")
    weights = cotangents(results, numbers)
    gradient = tc.grad(text, entry="f", save=save)
    full = {**known, **results, **weights}
    assert_transposed(text, gradient, known, weights, "f")
    both = tc.vjp(text, entry="f")
    saved = forward(both.forward, known)
    of_saved = forward(both.backward, {**known, **saved, **weights})
    for found, wanted in zip(of_saved.values(), forward(gradient, full).values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    if save == "none":
        again = cotangents(forward(gradient, full), numbers)
        assert_transposed(gradient, tc.grad(gradient, save="none"), full, again, None)


@pytest.mark.parametrize("kind", ["float", "half"])
def test_a_tangent_has_the_type_of_what_it_is_of(kind: str) -> None:
    """Next door to 0.9: the tangent of a gradient in which types meet was refused."""
    text = f"def f(double(N) a, {kind}(N) b) -> (y) {{ y(n) = a(n) * b(n) * b(n) }}"
    tangent = tc.jvp(tc.grad(text, "b"), ("a", "b"))
    program = tc.compile(tangent).program
    assert program.tensors["t_d_b"].dtype == program.tensors["b"].dtype
    dtype = np.float32 if kind == "float" else np.float16
    one, two = np.full(2, 1.0), np.full(2, 2, dtype)
    found = tc.interpret(tangent, {"a": one, "b": two, "d_y": one, "t_a": one, "t_b": two})
    made = dict(zip(program.outputs, found, strict=True))
    # d_b = 2 a b d_y: along (1, 2), at a = 1 and b = 2
    np.testing.assert_array_equal(made["t_d_b"], 2 * 2 + 2 * 2)
