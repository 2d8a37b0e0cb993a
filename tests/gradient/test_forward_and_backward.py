"""tc.vjp: a program that also returns the values that its gradient reads, and the gradient (D17,
D18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tests.gradient.differences import cotangents, forward
from tests.gradient.pairs import Pair, arrays, as_double
from tests.gradient.pairs_of_rules import PAIRS
from tests.gradient.test_versions import CHANGED, known_of
from tests.support.bounds import assert_computes


def assert_same(text: str, known: dict[str, Any]) -> None:
    """The outputs are those of the program, and the gradients those of tc.grad."""
    made = tc.vjp(text)
    first, second = (_program(part, None) for part in (made.forward, made.backward))
    for part in (made.forward, made.backward):
        assert format_source(tc.Source(part)) == part
    outputs = forward(text, known)
    found = forward(made.forward, known)
    assert list(found) == [*outputs, *(n for n in made.saved if n not in outputs)]
    for name, value in outputs.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    assert {*second.inputs} <= {*first.inputs, *made.saved, *(f"d_{n}" for n in outputs)}
    assert [n for n in second.inputs if n in made.saved] == [*made.saved]
    given = cotangents(outputs, np.random.default_rng(3))
    gradients = forward(made.backward, {**known, **found, **given})
    derived = tc.grad(text, save="none")
    wanted = forward(derived, {**known, **given})
    for value, like in zip(gradients.values(), wanted.values(), strict=True):
        np.testing.assert_allclose(value, like, rtol=1e-12, atol=1e-12)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_pairs_forward_and_backward(pair: Pair) -> None:
    numbers = np.random.default_rng(1)
    known = arrays(pair.inputs, numbers)
    known |= {f"{n}_0": numbers.random(shape) for n, shape in pair.outputs.items()}
    assert_same(as_double(pair.forward), known)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHANGED)
def test_versions_forward_and_backward(name: str) -> None:
    text = as_double(CHANGED[name])
    assert_same(text, known_of(text))


MLP = """def mlp(float(B,I) x, float(H,I) v, float(O,H) w) -> (y) {
  t(b,h) +=! x(b,i) * v(h,i)
  t(b,h) = max(t(b,h), 0)
  y(b,o) +=! t(b,h) * w(o,h)
}"""


def test_what_is_overwritten_is_saved_and_not_computed_again() -> None:
    made = tc.vjp(MLP)
    assert made.saved == ("t_1", "t")
    assert "v(h, i)" in made.forward
    assert made.backward.count("+=! x(b, i)") == 0
    assert tc.vjp(MLP, save="outputs").saved == ()
    assert "t_1(b, h) +=! x(b, i) * v(h, i)" in tc.vjp(MLP, save="outputs").backward


@pytest.mark.parametrize("backend", sorted({*tc.backends()} - {"opencl"}))
def test_every_backend_takes_both(backend: str) -> None:
    made = tc.vjp(MLP)
    numbers = np.random.default_rng(2)
    x, v, w = (numbers.integers(-4, 5, s).astype("float32") for s in ((3, 4), (5, 4), (2, 5)))
    y, *saved = tc.compile(made.forward, backend=backend)(x, v, w)
    d_y = numbers.integers(-4, 5, y.shape).astype("float32")
    found = tc.compile(made.backward, backend=backend)(x, v, w, *saved, d_y)
    before = x.astype("float64") @ v.T
    d_t = np.where(before > 0, d_y @ w, 0)
    wanted = (d_t @ v, d_t.T @ x, d_y.T @ np.maximum(before, 0))
    assert_computes(made.backward, [x, v, w, *saved, d_y], found, wanted)


def test_the_backward_has_a_gradient() -> None:
    """D18: the program of a framework's double backward."""
    made = tc.vjp("def f(double(N) A) -> (O) { t(i) = sin(A(i))  O(i) = t(i) * t(i) * t(i) }")
    known = {"A": np.array([0.3, 1.2]), "d_O": np.array([1.0, 2.0])}
    known["t"] = np.sin(known["A"])
    again = tc.grad(made.backward, "d_O")
    found = forward(again, {**known, "d_d_A": np.array([1.0, 3.0])})
    slope = 3 * known["t"] ** 2 * np.cos(known["A"])
    np.testing.assert_allclose(found["d_d_O"], [1.0, 3.0] * slope)


def test_types_of_what_is_saved_are_those_of_the_program() -> None:
    """Y3: an earlier version is held as what the tensor becomes later."""
    text = """def f(int(N,K) A, int64(N) B, double(N) x) -> (o, O) {
      t(i) +=! A(i,k)
      o +=! t(i) * x(i)
      t(i) = t(i) + B(i)
      O(i) = x(i) * t(i)
    }"""
    made = tc.vjp(text)
    program = _program(made.forward, None)
    assert made.saved == ("t_1", "t")
    assert {program.tensors[n].dtype.name for n in made.saved} == {"int64"}
    known = {"A": np.full((2, 4), 2**30, "int32"), "B": np.array([1, 2]), "x": np.array([1.0, 2.0])}
    assert forward(made.forward, known)["t_1"][0] == 2**32


def test_a_concat_stays_one() -> None:
    text = "def f(float(N,P) A, float(N,Q) B) -> (O) { C(n,i) = 2 * B(n,i)  O = concat(A, C) }"
    made = tc.vjp(text)
    assert "  O = concat(A, C)\n" in made.forward
    assert [line.strip() for line in made.backward.splitlines()[2:-1]] == [
        "d_C(i0, x) = d_O(i0, P + x) where x in 0:Q",
        "d_A(i0, i1) = d_O(i0, i1) where i1 in 0:P",
        "d_B(n, i) = d_C(n, i) * 2",
    ]


def test_options_are_those_that_there_are() -> None:
    with pytest.raises(tc.GradError) as caught:
        tc.vjp(MLP, save="inputs")
    assert caught.value.repair == "save='outputs'"
