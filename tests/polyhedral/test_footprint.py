"""Digits of a variable fixed in any order, and the boxes around what is touched below."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tc.affine.forms import Form, constant_form
from tc.errors import InternalError
from tc.polyhedral.footprint import (
    Box,
    Digits,
    FreeDigit,
    Steps,
    box,
    contains,
    enter,
    span,
    steps_of,
    without,
)
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
        assert found == {min(found) + value for value in sums(digits.digits)}
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


BOXES: list[tuple[list[dict[str, int]], int, Steps]] = [
    ([{"i": 1}], 5, ((8, 4),)),
    ([{"i": 1, "": 8}, {"i": 1}], 5, ((8, 5),)),
    ([{"i": 1, "": 3}, {"i": 1}], 5, ((1, 28),)),
    ([{"i": 2, "j": 1}], 10, ((16, 4), (1, 3))),
    ([{"i": 2, "j": 1, "": 2}, {"i": 2, "j": 1}], 10, ((16, 4), (1, 5))),
    ([{"i": 2, "j": 1, "": -13}, {"i": 2, "j": 1}], -3, ((1, 64),)),
    ([{"i": 2, "j": 1, "": -14}, {"i": 2, "j": 1}], -4, ((1, 65),)),
    ([{"i": 2, "j": 1}, {"j": 1, "": 42}], 10, ((16, 4), (1, 3))),
    ([{"i": 1, "j": 3}], 5, ((8, 4), (3, 3))),
    ([{"i": 1, "j": 5}], 5, ((1, 35),)),
    ([{"i": -1, "": 40}], 11, ((8, 4),)),
    ([{"i": -2, "j": 1}], -58, ((16, 4), (1, 3))),
    ([{"k": 1}], 7, ()),
    ([{"k": 1}, {"k": 1, "": 6}], 7, ((6, 2),)),
]
"""Subscripts of one dimension, their constants under "", and offset and digits of the box."""


@pytest.mark.parametrize(("subscripts", "offset", "digits"), BOXES)
def test_boxes_of_every_eighth_element(
    subscripts: list[dict[str, int]], offset: int, digits: Steps
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
    found = box((access, position) for access in accesses)
    assert found == Box((constant_form(offset),), (digits,))


# --- digits of sets of numbers ----------------------------------------------------------------


def sums(digits: Iterable[tuple[int, int]]) -> set[int]:
    """All sums of digits."""
    ranges = [range(0, step * count, step) for step, count in digits]
    return {sum(parts) for parts in itertools.product(*ranges)}


some_digits = st.lists(st.tuples(st.integers(1, 24), st.integers(1, 5)), max_size=4)


@given(some_digits)
def test_digits_that_do_not_carry(digits: list[tuple[int, int]]) -> None:
    found, is_all = steps_of(digits)
    assert sums(found) == sums(digits) if is_all else sums(found) > sums(digits)
    assert span(found) == span(digits)
    assert len(sums(found)) == math.prod(count for _, count in found)
    for place, (step, _) in enumerate(found):
        assert step >= span(found[place + 1 :])
    apart = math.gcd(*(step for step, _ in found))
    assert all(step % (apart or 1) == 0 for step, _ in digits)


@given(some_digits, some_digits, st.integers(0, 30))
def test_digits_that_contain_others(
    digits: list[tuple[int, int]], others: list[tuple[int, int]], shift: int
) -> None:
    outer, inner = steps_of(digits)[0], steps_of(others)[0]
    shifted = {value + shift for value in sums(inner)}
    if contains(outer, inner, shift):
        assert shifted <= sums(outer)
    assert contains(outer, outer)
    some = tuple((step, max(1, count - 1)) for step, count in outer)
    assert contains(outer, some)
    assert contains(outer, some, sum(step for step, count in outer if count > 1))


@given(some_digits, some_digits, st.integers(-30, 30))
@example([(1, 2), (3, 3)], [(1, 2), (3, 2)], 1)
def test_boxes_of_several_digits(
    digits: list[tuple[int, int]], others: list[tuple[int, int]], apart: int
) -> None:
    """A box has the elements of both accesses, and no more where one has all of the other's."""
    position, accesses, expected = {}, [], []
    for name, own, constant in (("i", digits, 0), ("j", others, apart)):
        terms = {f"{name}{place}": step for place, (step, _) in enumerate(own)}
        for place, (_, count) in enumerate(own):
            position[f"{name}{place}"] = Digits(constant_form(0), count, (0, count), exact=True)
        accesses.append(Access("a", (Form(constant, terms),), ((-99, 999),)))
        expected.append({value + constant for value in sums(own)})
    found = box((access, position) for access in accesses)
    assert found is not None
    (offset,), (held,) = found.offsets, found.digits
    elements = {offset.constant + value for value in sums(held)}
    assert elements >= expected[0] | expected[1]
    assert min(elements) == min(expected[0] | expected[1])
    assert max(elements) == max(expected[0] | expected[1])
    assert held == steps_of(held)[0]
