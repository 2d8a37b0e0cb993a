"""Arithmetic on intervals, against all numbers in them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.affine.intervals import (
    Interval,
    around,
    closed,
    compared,
    contains,
    is_empty,
    operation,
    scaled,
)

OPERATIONS: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    # a count out of range shifts everything out (Y11)
    ">>": lambda a, b: a >> b if b >= 0 else -(a < 0),
    "<<": operator.lshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
BY_NAME = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

intervals = st.tuples(st.integers(-9, 9), st.integers(0, 7)).map(lambda pair: (pair[0], sum(pair)))


def numbers(interval: Interval) -> range:
    return range(interval[0], interval[1] + 1)


@pytest.mark.parametrize("op", OPERATIONS)
@given(left=intervals, right=intervals)
def test_results_are_inside(op: str, left: Interval, right: Interval) -> None:
    found = operation(op, left, right)
    least = {"/": 1, "%": 1, "<<": 0}.get(op)
    if least is not None and right[0] < least:
        assert found is None  # some of these operations have no result, or one rounded otherwise
        return
    if found is not None:
        pairs = itertools.product(numbers(left), numbers(right))
        assert all(found[0] <= OPERATIONS[op](a, b) <= found[1] for a, b in pairs)
    if op in ("+", "-", "*", "min", "max"):
        results = [OPERATIONS[op](a, b) for a in numbers(left) for b in numbers(right)]
        assert found == (min(results), max(results))


@pytest.mark.parametrize("op", COMPARISONS)
@given(left=intervals, right=intervals)
def test_comparisons(op: str, left: Interval, right: Interval) -> None:
    compare = getattr(operator, BY_NAME[op])
    found = {compare(a, b) for a in numbers(left) for b in numbers(right)}
    decided = compared(op, left, right)
    assert decided is None if len(found) == 2 else found == {decided}


@given(intervals, intervals, st.integers(-5, 5))
def test_hulls_and_multiples(one: Interval, other: Interval, factor: int) -> None:
    both = around(one, other)
    assert contains(both, one)
    assert contains(both, other)
    assert both == (min(one + other), max(one + other))
    assert contains(one, other) == (set(numbers(other)) <= set(numbers(one)))
    multiples = [factor * n for n in numbers(one)]
    assert scaled(one, factor) == (min(multiples), max(multiples))


@given(st.dictionaries(st.sampled_from("ijk"), st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
def test_half_open_ranges(ranges: dict[str, tuple[int, int]]) -> None:
    box = closed(ranges)
    assert {n: list(numbers(i)) for n, i in box.items()} == {
        n: list(range(*r)) for n, r in ranges.items()
    }
    assert is_empty(box) == any(not range(*r) for r in ranges.values())
