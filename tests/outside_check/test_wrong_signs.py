"""Signs of gradients where an output holds a product or quotient under a minus (0.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import as_tuple, assert_computes

BACKENDS = ("interpret", "numba", "c")
NUMBERS = np.random.default_rng(1)
X, W, Z = (NUMBERS.uniform(0.4, 1.6, (3, 4)) for _ in range(3))
D = NUMBERS.uniform(-1, 1, (3, 4))


def gradients(text: str, backend: str, **given: Any) -> dict[str, Any]:
    """The gradients of all inputs, compiled; results are computed by the program itself."""
    function = tc.compile(text, backend=backend)
    outputs = function.program.outputs
    inputs = {n: given[n] for n in function.program.inputs}
    results = function(inputs)
    results = dict(zip(outputs, [results] if len(outputs) == 1 else results, strict=True))
    gradient = tc.compile(tc.grad(text), backend=backend)
    found = gradient({n: {**given, **results}[n] for n in gradient.program.inputs})
    names = gradient.program.outputs
    return dict(zip(names, [found] if len(names) == 1 else found, strict=True))


def assert_gradients(
    text: str, given: dict[str, Any], found: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Fails unless gradients are within the bound of the expected ones, by name."""
    function, derived = tc.compile(text, backend="interpret").program, tc.grad(text)
    results = as_tuple(tc.interpret(text, {n: given[n] for n in function.inputs}))
    known = {**given, **dict(zip(function.outputs, results, strict=True))}
    inputs = {n: known[n] for n in tc.compile(derived).program.inputs}
    assert_computes(derived, inputs, tuple(found.values()), tuple(expected[n] for n in found))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sum_of_quotients_under_a_minus(backend: str) -> None:
    """0.1: d_z was -0.204 where 0.204 is right."""
    text = "def f(double(N) o, double z) -> (y) { y +=! -o(i) / z }"
    o, z = np.array([0.5, 0.25, -0.4]), np.float64(1.3)
    found = gradients(text, backend, o=o, z=z, d_y=np.float64(1))
    expected = {"d_o": np.full(3, -1 / z), "d_z": o.sum() / z**2}
    assert_gradients(text, {"o": o, "z": z, "d_y": np.float64(1)}, found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_product_with_a_function_under_a_minus(backend: str, dtype: str) -> None:
    """0.1: `d_x(i) = ... - d_a(i) * a(i)` was printed where it is added."""
    text = f"def f({dtype}(N) x, {dtype}(N) w) -> (a) {{ a(i) = -exp(x(i)) * w(i) }}"
    assert "d_x(i) = d_a(i) * a(i)" in tc.grad(text)
    kind = np.float32 if dtype == "float" else np.float64
    given = {"x": X[0].astype(kind), "w": W[0].astype(kind), "d_a": D[0].astype(kind)}
    x, w, d_a = (array.astype(np.float64) for array in given.values())
    expected = {"d_x": -d_a * np.exp(x) * w, "d_w": -d_a * np.exp(x)}
    assert_gradients(text, given, gradients(text, backend, **given), expected)


E, S = np.exp(X), np.exp(X).sum(1, keepdims=True)
SOFTMAX = E / S
IN_SOFTMAX = -SOFTMAX * (D - (D * SOFTMAX).sum(1, keepdims=True))
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a minus in the divisor": (
        "a(i,k) = exp(x(i,k)) / -w(i,k)",
        {"x": -D * E / W, "w": D * E / W**2},
    ),
    "two minuses": ("a(i,k) = -(-exp(x(i,k)) * w(i,k))", {"x": D * E * W, "w": D * E}),
    "three": ("a(i,k) = -(-exp(x(i,k)) / -w(i,k))", {"x": -D * E / W, "w": D * E / W**2}),
    "a number": (
        "a(i,k) = -0.5 * exp(x(i,k)) / w(i,k)",
        {"x": -0.5 * D * E / W, "w": 0.5 * D * E / W**2},
    ),
    "a power": (
        "a(i,k) = -pow(x(i,k), 3) / w(i,k)",
        {"x": -3 * D * X**2 / W, "w": D * X**3 / W**2},
    ),
    "a choice": (
        "a(i,k) = -(x(i,k) > 0 ? exp(x(i,k)) : 1) * w(i,k)",
        {"x": -D * E * W, "w": -D * E},
    ),
    "softmax": (
        "t(i,k) = exp(x(i,k)) s(i) +=! t(i,k) a(i,k) = -t(i,k) / s(i)",
        {"x": IN_SOFTMAX},
    ),
    "softmax with the minus in the divisor": (
        "t(i,k) = exp(x(i,k)) s(i) +=! -t(i,k) a(i,k) = t(i,k) / s(i)",
        {"x": IN_SOFTMAX},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_what_an_output_holds(form: str) -> None:
    """0.1: signs in any place of what is stored."""
    body, wanted = FORMS[form]
    declared = "".join(f", double(N,K) {n}" for n in "xw" if n in wanted)[2:]
    text = f"def f({declared}) -> (a) {{ {body} }}"
    found = gradients(text, "interpret", x=X, w=W, d_a=D)
    expected = {f"d_{name}": value for name, value in wanted.items()}
    assert_gradients(text, {"x": X, "w": W, "d_a": D}, found, expected)


@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_whole_numbers_that_derivatives_multiply_are_multiplied_as_reals(mode: str) -> None:
    """Next door to 0.1: `y*y` of atan2's derivative was the product of two bytes."""
    text = "def f(float(N) a, int8(N) b) -> (y) { y(i) = atan2(a(i), b(i)) }"
    a, b = np.array([0.5, -2, 7], np.float32), np.array([100, -90, 12], np.int8)
    wide = b.astype(np.float64)
    wanted = wide / (a.astype(np.float64) ** 2 + wide**2)
    ones = np.ones(3, np.float32)
    if mode == "grad":
        found = gradients(text, "numba", a=a, b=b, d_y=ones)
        assert_gradients(text, {"a": a, "b": b, "d_y": ones}, found, {"d_a": wanted})
    else:
        derived = tc.jvp(text)
        values = np.arctan2(a.astype(np.float64), wide), wanted
        assert_computes(derived, [a, b, ones], tc.compile(derived)(a, b, ones), values)
