"""Inputs that are drawn: the program can run on them."""

from __future__ import annotations

import numpy as np
import pytest

from tc.pipeline import check_module, parse_source, shape_program
from tc.runtime.sizes import CallSizes
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.interpreter import interpret
from tc.source import Source
from tc.tuning.measuring.inputs import KINDS, POSITIVE, SIGNED, WHOLE, drawn_inputs, places_read


def shaped_of(text: str, **shapes: tuple[int, ...]) -> ShapedProgram:
    program = check_module(parse_source(Source(text)), None)
    return shape_program(program, CallSizes(shapes, {}))


@pytest.mark.parametrize(
    ("subscript", "limits"),
    [
        ("at(i)", (0, 9)),
        ("at(i) + 3", (-3, 6)),
        ("2 * at(i) - 1", (1, 5)),
        ("4 - at(i)", (-5, 4)),
        ("at(i) - i", (39, 9)),  # none does for all i
        ("int64(at(i)) + k", (0, 7)),
    ],
)
def test_places_to_read_at(subscript: str, limits: tuple[int, int]) -> None:
    text = f"def g(float(N) x, int(M) at) -> (y) {{ y(i) +=! x({subscript}) * k where k in 0:3 }}"
    assert places_read(shaped_of(text, x=(10,), at=(40,))) == {"at": limits}


def test_the_strictest_of_several_reads_counts() -> None:
    text = """def g(float(N) x, float(N,K) T, int(M) at) -> (y) {
        y(i,k) = T(at(i), k) + x(at(i) + 2) + x(at(i) - 1)
    }"""
    shaped = shaped_of(text, x=(10,), T=(10, 4), at=(200,))
    assert places_read(shaped) == {"at": (1, 7)}
    at = drawn_inputs(shaped, SIGNED, 0)["at"]
    assert set(at.tolist()) == set(range(1, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_bags_can_be_interpreted(kind: str) -> None:
    text = "def bag(float(V,D) T, uint8(B,L) at) -> (y) { y(b,d) +=! T(at(b,l), d) }"
    shaped = shaped_of(text, T=(300, 4), at=(5, 9))
    inputs = drawn_inputs(shaped, kind, 1)
    expected = inputs["T"][inputs["at"]].sum(1, dtype=np.float64)
    found = interpret(shaped, inputs, {})["y"]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_kinds_of_numbers() -> None:
    text = """def f(float(N) a, half(N) b, int8(N) c, bool(N) d, double s) -> (y) {
        y(i) = a(i) + b(i) + c(i) + (d(i) ? s : 0)
    }"""
    shaped = shaped_of(text, a=(400,), b=(400,), c=(400,), d=(400,), s=())
    signed, positive, whole = (drawn_inputs(shaped, kind, 0) for kind in (SIGNED, POSITIVE, WHOLE))
    for name in ("a", "b"):
        assert set(np.sign(signed[name]).tolist()) == {-1, 1}
        assert np.abs(signed[name]).min() >= 0.25
        assert positive[name].min() >= 0.25
        assert set(whole[name].tolist()) == {-2, -1, 1, 2}
    assert [a.dtype for a in signed.values()] == ["float32", "float16", "int8", "bool", "float64"]
    assert set(signed["c"].tolist()) == {1, 2, 3, 4}
    assert set(signed["d"].tolist()) == {False, True}
    assert signed["s"].shape == ()


def test_a_seed_draws_the_same() -> None:
    shaped = shaped_of("def f(float(N) a) -> (y) { y(i) = a(i) }", a=(40,))
    first, again, other = (drawn_inputs(shaped, SIGNED, seed)["a"] for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
