"""Ranges that are derived for all sizes: those of inference at each size."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

import tc
from tc.api import _program
from tc.frontend.parser import parse
from tc.gradient.symbolic_ranges import _equal_sizes, _shapes
from tc.semantics.check.checker import check
from tc.semantics.program import Program
from tc.semantics.ranges.derived_ranges import DerivedRanges, derive_ranges
from tc.semantics.ranges.range_inference import RangeInference
from tc.semantics.ranges.symbolic import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Source
from tests.fuzz.legal import Call
from tests.fuzz.strategies import SEEDS, calls, disturbed_calls

ATTEMPTS = 24


def derived_of(text: str) -> DerivedRanges | None:
    return derive_ranges(RangeInference.of(check(parse(Source(text)))))


DERIVED = {
    "convolution with a stride": (
        "def f(float(H) a, float(K) b) -> (o) { o(i) +=! a(2*i + k) * b(k) }",
        {"i": ("0", "(H - K) / 2 + 1"), "k": ("0", "K")},
    ),
    "the lesser of two": (
        "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i) * b(i + 1) }",
        {"i": ("0", "min(N, M - 1)")},
    ),
    "where clauses": (
        "def f(float(N) a) -> (o) { o +=! a(i + j) where i in 1:N / 2, j in N - 2:3 }",
        {"i": ("1", "N / 2"), "j": ("N - 2", "3")},
    ),
    "a falling subscript": (
        "def f(float(N) a, float(K) b) -> (o) { o(i) +=! a(N - 1 - i - k) * b(k) }",
        {"i": ("0", "N - K + 1"), "k": ("0", "K")},
    ),
    "data that decide nothing": (
        "def f(float(N,M) a, int(K) b) -> (o) { o(i, j) = a(b(i), j) }",
        {"i": ("0", "K"), "j": ("0", "M")},
    ),
    "a quotient": (
        "def f(float(N) a) -> (o) { o(i) = a(i / 3) }",
        {"i": ("0", "3 * N")},
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_expressions_of_ranges(name: str) -> None:
    text, wanted = DERIVED[name]
    found = derived_of(text)
    assert found is not None
    ranges = {v: tuple(map(to_text, ends)) for v, ends in found.ranges["S0"].items()}
    assert ranges == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "o(i) = a(min(i, 1))",
        "o(i) = a(i + i % 2)",
        "o(i) +=! a(i + k / 2 - k / 3) where k in 0:7",
        "o(i) = a(s * i)",
        "o(i) = a((N - M) * i)",
        "o(i) = a(i / s)",
        "o +=! a(i) where i in 0:N / M",
        "o(i) = a(0)",
    ],
)
def test_what_sizes_decide_has_no_derivation(statement: str) -> None:
    assert derived_of(f"def f(int s, float(N) a, float(M) b) -> (o) {{ {statement} }}") is None


def test_conditions_say_where_ranges_are_those() -> None:
    """A kernel longer than the image, and one of which nothing is left."""
    found = derived_of("def f(float(M) a, float(N) b) -> (o) { o(i) +=! a(i + k) * b(k) }")
    assert found is not None
    assert not found.lacks({"M": 5, "N": 5}, {})
    assert found.lacks({"M": 4, "N": 5}, {}) == 1
    assert found.lacks({"M": 3, "N": 7}, {}) == 4


def assert_as_inferred(program: Program, seed: int) -> None:
    """At each of some sizes at which no statement is empty, the conditions hold, unless a shape is
    another; the derived ranges and shapes are those that inference has there."""
    inference = RangeInference.of(program)
    derived = derive_ranges(inference)
    if derived is None:
        return
    numbers, equal = random.Random(seed), _equal_sizes(program)
    for attempt in range(ATTEMPTS):
        largest = (3, 6, 12, 24)[attempt % 4]
        drawn = {name: numbers.randint(1, largest) for name in program.sizes}
        sizes = {name: drawn[equal.get(name, name)] for name in drawn}
        scalars = {name: numbers.randint(-2, 4) for name in sorted(program.static_scalars)}
        try:
            shaped = inference.at(_shapes(program, program.inputs, sizes, scalars), scalars)
        except (tc.InputError, tc.RangeError):
            continue
        if any(s.is_empty for s in shaped.statements):
            continue
        known = KnownSizes(shaped.sizes, {}, scalars)
        if derived.lacks(shaped.sizes, scalars):  # as a later statement makes a tensor larger (S8)
            shapes = {n: tuple(evaluate(d, known) for d in s) for n, s in derived.shapes.items()}
            assert any(shapes[name] != shape for name, shape in shaped.shapes.items())
            continue
        for each in shaped.statements:
            for variable, found in each.ranges.items():
                ends = derived.ranges[each.statement.name][variable]
                assert [evaluate(end, known) for end in ends] == [found.begin, found.end]
        for name, shape in shaped.shapes.items():
            assert tuple(evaluate(dim, known) for dim in derived.shapes[name]) == shape


@given(calls(), SEEDS)
def test_derived_ranges_are_those_of_each_size(call: Call, seed: int) -> None:
    """rules G1 to G5, D4"""
    assert_as_inferred(_program(call.text, "f"), seed)


@given(disturbed_calls(), SEEDS)
def test_derived_ranges_of_programs_that_are_disturbed(call: Call, seed: int) -> None:
    """rules G1 to G5, D4: legal or not"""
    try:
        program = _program(call.text, "f")
    except tc.TCError:
        return
    assert_as_inferred(program, seed)
