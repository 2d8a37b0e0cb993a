"""Digits of a variable fixed in any order, and the boxes around what is touched below."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.affine.forms import Form, constant_form
from tc.errors import InternalError
from tc.polyhedral.footprint import Box, Digits, FreeDigit, box, enter, without
from tc.polyhedral.schedule import Member, Value
from tc.polyhedral.scop.scop import Access


def values(digits: Digits) -> set[int]:
    """The values that a variable takes, in its limits or beyond."""
    ranges = []
    for free in digits.free:
        count = math.ceil(digits.extent / free.step) if free.end is None else free.end // free.step
        ranges.append([free.step * number for number in range(count)])
    return {digits.base.constant + sum(parts) for parts in itertools.product(*ranges)}


def digit(member: Member, value: int) -> int:
    own = value + member.values["S"].offset - member.origin
    return (own if member.span is None else own % member.span) // member.step


@st.composite
def members_of(draw: st.DrawFn) -> tuple[Digits, list[Member]]:
    """A variable, and its digits in any order."""
    begin, offset = draw(st.integers(0, 5)), draw(st.integers(-2, 2))
    end = begin + draw(st.integers(1, 40))
    steps = [1]
    for _ in range(draw(st.integers(0, 3))):
        steps.append(steps[-1] * draw(st.integers(1, 5)))
    origin = begin + offset - draw(st.integers(0, 3))
    ends = [*steps[1:], None]
    members = [
        Member("i", {"S": Value("i", offset)}, True, origin, step, span)
        for step, span in zip(steps, ends, strict=True)
    ]
    start = Digits(constant_form(begin), end - begin, (begin, end), exact=True)
    return start, draw(st.permutations(members))


@given(members_of(), st.data())
def test_digits_in_any_order(case: tuple[Digits, list[Member]], data: st.DataObject) -> None:
    """The footprint is compared with all values of the variable, one by one."""
    digits, members = case
    begin, end = digits.limits
    left = set(range(begin, end))
    for member in members:
        trips = 1 + max(digit(member, value) for value in range(begin, end))
        if member.span is not None:
            trips = member.span // member.step
        number = data.draw(st.integers(0, trips - 1))
        position = enter({"i": digits}, member, "S", constant_form(number), trips)
        digits = position["i"]
        left = {value for value in left if digit(member, value) == number}
        found = values(digits)
        assert left <= found
        assert max(found) - min(found) + 1 == digits.span
        assert min(found) == digits.base.constant
        assert all((value - min(found)) % (digits.step or 1) == 0 for value in found)
        assert digits.step or len(found) == 1
        if digits.exact:
            assert left == found
    assert len(values(digits)) == 1


def test_no_digit_twice() -> None:
    start = Digits(constant_form(0), 40, (0, 40), exact=True)
    tile, point = (
        Member("i", {"S": Value("i")}, True, step=step, span=span)
        for step, span in ((8, None), (1, 8))
    )
    inside = enter({"i": start}, point, "S", constant_form(3), 8)
    assert inside["i"].free == (FreeDigit(8),)
    with pytest.raises(InternalError) as caught:
        enter(inside, point, "S", constant_form(3), 8)
    assert str(caught.value) == "InternalError: i mod 8 * of S is no digit of what is left of it"
    assert enter(inside, tile, "S", constant_form(2), 5)["i"].base == constant_form(19)


def test_digits_that_are_free() -> None:
    assert without((FreeDigit(1),), 1, None) == ()
    assert without((FreeDigit(1),), 4, 4) == (FreeDigit(1),)
    assert without((FreeDigit(8), FreeDigit(1, 2)), 2, 8) is None
    assert without((FreeDigit(8), FreeDigit(1, 2)), 1, 2) == (FreeDigit(8),)


BOXES: list[tuple[list[dict[str, int]], tuple[int, int, int]]] = [
    ([{"i": 1}], (5, 25, 8)),
    ([{"i": 1, "": 8}, {"i": 1}], (5, 33, 8)),
    ([{"i": 1, "": 3}, {"i": 1}], (5, 28, 1)),
    ([{"i": 2, "j": 1}], (10, 51, 1)),
    ([{"i": -1, "": 40}], (11, 25, 8)),
    ([{"k": 1}], (7, 1, 0)),
    ([{"k": 1}, {"k": 1, "": 6}], (7, 7, 6)),
]
"""Subscripts of one dimension, their constants under "", and offset, size and step of the box."""


@pytest.mark.parametrize(("subscripts", "expected"), BOXES)
def test_boxes_of_every_eighth_element(
    subscripts: list[dict[str, int]], expected: tuple[int, int, int]
) -> None:
    """i is 5, 13, 21 or 29, j is 0, 1 or 2, and k is 7."""
    position = {
        "i": Digits(constant_form(5), 32, (0, 32), exact=True, free=(FreeDigit(8, 32),)),
        "j": Digits(constant_form(0), 3, (0, 3), exact=True),
        "k": Digits(constant_form(7), 9, (0, 9), exact=True, free=()),
    }
    accesses = [
        Access("a", (Form(s.get("", 0), {n: c for n, c in s.items() if n}),), ((0, 99),))
        for s in subscripts
    ]
    offset, size, step = expected
    found = box((access, position) for access in accesses)
    assert found == Box((constant_form(offset),), (size,), (step,))
