"""Affine forms, against their values at the points of small boxes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping

from hypothesis import assume, event, given
from hypothesis import strategies as st

from tc.affine.forms import Form, decide, divisor_of, split, text_of
from tc.affine.intervals import Box

NAMES = ("i", "j", "k")
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

numbers = st.integers(-9, 9)
factors = st.sampled_from((-32, -3, -2, -1, 1, 2, 3, 4, 8, 32))
forms = st.builds(
    Form, st.integers(-40, 40), st.dictionaries(st.sampled_from(NAMES), factors, max_size=3)
)
intervals = st.tuples(numbers, st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))
boxes = st.fixed_dictionaries(dict.fromkeys(NAMES, intervals))


def points(box: Box[str]) -> Iterator[dict[str, int]]:
    for values in itertools.product(*(range(low, high + 1) for low, high in box.values())):
        yield dict(zip(box, values, strict=True))


def value(form: Form[str, int], point: Mapping[str, int]) -> int:
    """The value of a form, by its text."""
    return int(eval(text_of(form), {"__builtins__": {}}, dict(point)))


@given(forms, forms, numbers, st.fixed_dictionaries(dict.fromkeys(NAMES, numbers)))
def test_arithmetic(a: Form[str, int], b: Form[str, int], c: int, at: dict[str, int]) -> None:
    x, y = value(a, at), value(b, at)
    assert (a.at(at), b.at(at)) == (x, y)
    assert value(a + b, at) == x + y
    assert value(a - b, at) == x - y
    assert value(a.plus(b, c), at) == x + c * y
    assert value(a.times(c), at) == c * x
    assert value(a.shifted(c), at) == x + c
    assert value(a.without("i"), at) == value(a, {**at, "i": 0})
    for made in (a + b, a - b, a.plus(b, c), a.times(c), a - a):
        assert 0 not in made.terms.values()


@given(forms, st.fixed_dictionaries(dict.fromkeys(NAMES, forms)), boxes)
def test_substitution(a: Form[str, int], by: dict[str, Form[str, int]], box: Box[str]) -> None:
    at = next(points(box))
    inside = {name: value(form, at) for name, form in by.items()}
    assert value(a.substituted(by), at) == value(a, inside)


@given(forms, boxes)
def test_the_interval_is_that_of_the_values(a: Form[str, int], box: Box[str]) -> None:
    found = [value(a, point) for point in points(box)]
    assert a.interval(box) == (min(found), max(found))


@given(st.sampled_from(sorted(COMPARISONS)), forms, boxes)
def test_what_is_decided(op: str, a: Form[str, int], box: Box[str]) -> None:
    """Always, never, or not known; never unknown where it is an order and all values agree."""
    found = {COMPARISONS[op](value(a, point), 0) for point in points(box)}
    decided = decide(op, a, box)
    event(f"{op} {decided}")
    assert decided is None or found == {decided}
    if op not in ("==", "!="):
        assert decided is not None or len(found) == 2


@given(forms, st.sampled_from((2, 3, 4, 8, 32)), boxes)
def test_quotients_and_remainders(a: Form[str, int], by: int, box: Box[str]) -> None:
    parts = split(a, by, box)
    event(f"split: {parts is not None}")
    assume(parts is not None)
    assert parts is not None
    for point in points(box):
        assert tuple(value(part, point) for part in parts) == divmod(value(a, point), by)


@given(forms)
def test_the_divisor_divides(a: Form[str, int]) -> None:
    divisor = divisor_of(a)
    assert all(divisor and c % divisor == 0 for c in a.terms.values())
    assert bool(divisor) == bool(a.terms)
