"""Bounds on the distance from the exact result (R5), beside results in fractions; warnings of
bounds that differ (C15)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

RNG = np.random.default_rng(33)
X, W = (RNG.standard_normal(n).astype(np.float32) for n in (40, 5))
M = RNG.standard_normal((6, 7)).astype(np.float32)


def exact(array: Any) -> Any:
    return np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(array)


def dot(x: Any) -> Any:
    return [sum(x * x, Fraction(0))]


def smoothed(x: Any) -> Any:
    return (x[:-2] + x[1:-1] + x[2:]) / 3


def convolved(x: Any, w: Any) -> Any:
    return [sum(x[k : k + len(w)] * w, Fraction(0)) for k in range(len(x) - len(w) + 1)]


def head(n: Any, x: Any) -> Any:
    return [sum(x[: int(n[0])] * 7, Fraction(0))]


PROGRAMS: list[tuple[str, dict[str, Any], Callable[..., Sequence[Any]]]] = [
    ("sum({ [i] -> x[i] * x[i] })", {"x": X}, dot),
    ("{ [i] -> (x[i] + x[i+1] + x[i+2]) / 3f | [i] < shape(x) - 2 }", {"x": X}, smoothed),
    ("{ iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }",
     {"x": X, "w": W}, convolved),
    ("{ [i] -> sum(m[i]) }", {"m": M}, lambda m: [sum(row, Fraction(0)) for row in m]),
    ("sum(7f * take(n, x))", {"n": np.int32([9]), "x": X}, head),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
@pytest.mark.parametrize(("text", "given", "formula"), PROGRAMS)
def test_a_result_lies_within_its_bound(
    text: str, given: dict[str, Any], formula: Callable[..., Any], backend: str
) -> None:
    """Of the reference, too, which sums in another order."""
    due = formula(*(exact(array) for array in given.values()))
    bound = np.atleast_1d(tc.sac.error_bound(text, given))
    assert (bound < 1e-3).all()
    for found in (tc.sac.compile(text, backend=backend)(given), tc.sac.interpret(text, given)):
        distances = [
            abs(Fraction(float(value)) - wanted)
            for value, wanted in zip(np.atleast_1d(found), due, strict=True)
        ]
        assert [k for k, (d, b) in enumerate(zip(distances, bound, strict=True)) if d > b] == []


@pytest.mark.parametrize(("text", "given", "formula"), PROGRAMS[:4])
def test_the_bound_is_that_of_the_lowered_def(
    text: str,
    given: dict[str, Any],
    formula: Callable[..., Any],  # noqa: ARG001
) -> None:
    lowered = tc.sac.compile(text).lowered(given)
    order = {name: given[name] for name in lowered.program.inputs}
    np.testing.assert_array_equal(
        tc.sac.error_bound(text, given), tc.error_bound(lowered.text, *order.values())
    )


A, B = np.zeros(5, np.int32), np.zeros(3, np.int32)
C, D = np.zeros((2, 4), np.int32), np.zeros((2, 3), np.int32)
DIFFER = [
    ("{ [i] -> a[i] + b[i] }", {"a": A, "b": B},
     "'i' is bounded by shape(a)[0] = 5 and by shape(b)[0] = 3, which differ; the lesser one "
     "counts"),
    ("{ iv -> c[iv] + d[iv] }", {"c": C, "d": D},
     "'iv' is bounded by shape(c)[1] = 4 and by shape(d)[1] = 3, which differ; the lesser one "
     "counts"),
    ("{ [i,j] -> c[i,j] * a[j] }", {"c": C, "a": A},
     "'j' is bounded by shape(a)[0] = 5 and by shape(c)[1] = 4, which differ; the lesser one "
     "counts"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "words"), DIFFER)
def test_bounds_that_differ_are_told_once_by_every_verb(
    text: str, given: dict[str, Any], words: str
) -> None:
    """C15."""
    source = tc.Source(text, "sums.sac")
    f = tc.sac.compile(source, backend="interpret")
    for verb in (lambda: tc.sac.interpret(source, given), lambda: f(given)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            verb()
        assert [w.category for w in caught] == [tc.TCWarning]
        told = str(caught[0].message)
        assert words in told
        assert "[C15]" in told
        assert "--> sums.sac:1:3" in told
        assert caught[0].filename == __file__


def test_equal_bounds_are_not_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.sac.interpret("{ [i] -> a[i] + b[i] }", a=A, b=A)
        tc.sac.interpret("{ [i] -> a[i] + b[i] | [i] < [3] }", a=A, b=B)
