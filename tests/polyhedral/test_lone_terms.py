"""Sums without variables that a condition determines: which go, which stay, and the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.lone_terms import without_lone_terms
from tc.semantics.program import ShapedProgram
from tests.support.interpreting import shaped_with
from tests.support.rewrites import assert_consistent, assert_same_results, changed_of_table
from tests.support.sizes_of_call import shape

HEAD = "def f(float(N) g, float(P,N) w) -> (d)"


def texts(program: ShapedProgram) -> list[str]:
    return [s.text for s in program.program.statements]


def arrays(n: int = 4, p: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(n + p)
    return {
        "g": rng.normal(size=n).astype(np.float32),
        "w": rng.normal(size=(p, n)).astype(np.float32),
    }


REDUCED = {
    "an axis of one element": (
        HEAD + " { d(z) +=! 0 <= z - p && z - p < 1 ? g(i) * w(p,i) : 0 where z in 0:6 }",
        ["d(z) +=! g(i) * w(z, i)"],
    ),
    "bounds the other way round": (
        HEAD + " { d(z) +=! z - p >= 0 && 0 > z - p - 1 ? g(i) * w(p,i) : 0 where z in 0:6 }",
        ["d(z) +=! g(i) * w(z, i)"],
    ),
    "an equation": (
        HEAD + " { d(z) +=! p + 2 == z ? g(i) * w(p,i) : 0 where z in 2:8 }",
        ["d(z) +=! g(i) * w(z - 2, i)"],
    ),
    "backwards, and beyond the range": (
        HEAD + " { d(z) +=! p + z == 7 ? g(i) * w(p,i) : 0 where z in 0:6 }",
        ["d(z) +=! -z + 7 < 6 ? g(i) * w(-z + 7, i) : 0.0"],
    ),
    "twice the other": (
        HEAD + " { d(z) +=! p == 2 * z ? g(i) * w(p,i) : 0 where z in 0:4 }",
        ["d(z) +=! 2 * z < 6 ? g(i) * w(2 * z, i) : 0.0"],
    ),
    "with other conditions, and the variable in values": (
        HEAD + " { d(z) +=! i > z && p == z && p > 2 ? g(i) * float(p) : 0"
        " where z in 0:6, p in 0:6 }",
        ["d(z) +=! i > z && z > 2 ? g(i) * float32(z) : 0.0"],
    ),
    "two of three": (
        HEAD + " { d(z,v) +=! p == z && q == v + p ? g(i) * w(p,q) : 0"
        " where z in 0:2, v in 0:2, p in 0:2, q in 0:4 }",
        ["d(z, v) +=! g(i) * w(z, v + z)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
def test_reduced(name: str) -> None:
    text, expected = REDUCED[name]
    program, given = shaped_with(text, arrays())
    found = without_lone_terms(program)
    assert texts(found) == expected
    assert_consistent(found)
    assert_same_results(program, found, given)


STAYS = {
    "one variable": HEAD + " { d(z) +=! p == z ? w(p,0) : 0 where z in 0:6 }",
    "another value elsewhere": (
        HEAD + " { d(z) +=! p == z ? g(i) * w(p,i) : 1 where z in 0:6, i in 0:4 }"
    ),
    "a maximum": HEAD + " { d(z) max=! p == z ? g(i) * w(p,i) : 0 where z in 0:6 }",
    "a product": HEAD + " { d(z) *=! p == z ? g(i) * w(p,i) : 0 where z in 0:6 }",
    "either": HEAD + " { d(z) +=! p == z || p == 1 ? g(i) * w(p,i) : 0 where z in 0:6 }",
    "two values": (
        HEAD + " { d(z) +=! 0 <= z - p && z - p < 2 ? g(i) * w(p,i) : 0 where z in 0:6 }"
    ),
    "every other one": HEAD + " { d(z) +=! 2 * p == z ? g(i) * w(p,i) : 0 where z in 0:6 }",
    "data": ("def f(float(N) g, int(P) k) -> (d) { d(z) +=! k(p) == z ? g(i) : 0 where z in 0:6 }"),
    "with checks": (
        "def f(float(N) g, int(P) k) -> (d) { d(z) +=! p == z ? g(k(p)) * g(i) : 0 where z in 0:6 }"
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    program = shape(STAYS[name], N=4, P=6)
    assert without_lone_terms(program) is program


def test_table_of_programs() -> None:
    assert "repeated_sums" in changed_of_table(without_lone_terms)


@given(st.integers(-3, 3), st.integers(-2, 2), st.integers(0, 4), st.integers(1, 5))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_same_results(offset: int, factor: int, begin: int, extent: int) -> None:
    text = (
        HEAD + f" {{ d(z) +=! p - ({factor}) * z == {offset} ? g(i) * w(p,i) : 0"
        f" where z in {begin}:{begin + extent} }}"
    )
    program, given = shaped_with(text, arrays(p=5))
    found = without_lone_terms(program)
    assert found is not program
    assert_same_results(program, found, given)


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_gradient_of_a_sum_along_an_axis_of_one_element(backend: str) -> None:
    text = "def f(float(M,K) a, float(O,C) w) -> (r) { r(m,o,z) +=! a(m, z + c) * w(o,c) }"
    gradient = tc.compile(tc.grad(text, ["a"]), backend=backend)
    rng = np.random.default_rng(0)
    a, w, d = (rng.normal(size=s).astype(np.float32) for s in ((7, 5), (3, 5), (7, 3, 1)))
    named = {"a": a, "w": w, "d_r": d}
    found = gradient(*(named[name] for name in gradient.program.inputs))
    np.testing.assert_allclose(found, d[:, :, 0] @ w, rtol=1e-5, atol=1e-6)
    if backend == "interpret":
        return
    told = gradient.explain(*(named[name] for name in gradient.program.inputs))
    assert "d_a(m, x) +=! d_r(m, o, 0) * w(o, x)" in told.stages["rewrite"]
