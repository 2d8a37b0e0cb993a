"""Whether some pairs of instances that touch one element meet conditions on the loops around them.

Conditions are equations and inequalities between digits of members. Mostly arithmetic tells: two
digits are equal in all pairs of a relation, or one of a few pairs tried is an example. isl is asked
what these leave open.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tc import sets
from tc.affine.forms import Form, variable_form
from tc.affine.intervals import contains
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.relations import SOURCE, Key, Relation

InstancePair: TypeAlias = tuple[dict[str, int], dict[str, int]]

MOST_TRIES = 200
"""Pairs that are tried, some microseconds each."""

_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Digit:
    """A number of an instance of one side: a value, and what is done to it, one after the other:
    ("mod", n) or ("div", n)."""

    side: int
    value: Value
    steps: tuple[tuple[str, int], ...] = ()

    def of(self, number: int) -> int:
        """The digit, where the value is known."""
        for step, by in self.steps:
            number = number % by if step == "mod" else number // by
        return number


@dataclass(frozen=True, slots=True)
class Condition:
    """A form of digits compared with 0 by == != or >."""

    op: str
    form: Form[Digit, int]

    @property
    def is_true(self) -> bool:
        """Whether a condition without terms is true."""
        return _HOLDS[self.op](self.form.constant, 0)


def compared(op: str, left: Digit, right: Digit, constant: int = 0) -> Condition:
    """left op right + constant."""
    return Condition(op, Form(-constant, {left: 1}) - variable_form(right))


def find(relation: Relation, conditions: Iterable[Condition]) -> InstancePair | None:
    """A pair of a relation that meets conditions; None where none does. Raises sets.TooComplex."""
    left = []
    for condition in conditions:
        simple = _simplified(condition, relation)
        if simple.form.terms:
            left.append(simple)
        elif not simple.is_true:
            return None
    found = next(_tried(relation, left), None)
    if found is not None or not (left or relation.rest):
        return found
    points = relation.points
    with sets.bounded():
        zero = relation.space.constant(0)
        for condition in left:
            total = relation.space.constant(condition.form.constant)
            for digit, factor in condition.form.terms.items():
                own = sets.scale(relation.space, _function(digit, relation), factor)
                total = sets.add(total, own)
            points = points.intersect(sets.compare(condition.op, total, zero))
    return relation.example(points)


def _function(digit: Digit, relation: Relation) -> sets.Function:
    function = relation.function(digit.side, digit.value)
    for step, by in digit.steps:
        change = sets.remainder if step == "mod" else sets.floor_divide
        function = change(relation.space, function, by)
    return function


def _simplified(condition: Condition, relation: Relation) -> Condition:
    """The condition without digits that are constants, and pairs that are equal in all pairs."""
    terms: dict[Digit, int] = {}
    constant = condition.form.constant
    for digit, factor in condition.form.terms.items():
        root, offset = relation.value(digit.side, digit.value)
        if root is None:
            constant += factor * digit.of(offset)
            continue
        for other, other_factor in terms.items():
            shift = _apart(other, digit, relation) if other_factor == -factor else None
            if shift is not None:
                constant += factor * shift
                del terms[other]
                break
        else:
            terms[digit] = factor
    return Condition(condition.op, Form(constant, terms))


def _apart(first: Digit, second: Digit, relation: Relation) -> int | None:
    """second - first, where that is known to be one number for all pairs."""
    if first.side == second.side or first.steps != second.steps:
        return None
    source, sink = (first, second) if first.side == SOURCE else (second, first)
    shift = relation.shift(source.value, sink.value)
    if shift is None or (shift and first.steps):
        return None
    return shift if first.side == SOURCE else -shift


# --- examples -------------------------------------------------------------------------------------


def _tried(relation: Relation, conditions: list[Condition]) -> Iterator[InstancePair]:
    """Examples among pairs near the corners of a relation."""
    for roots in itertools.islice(_assignments(relation, conditions), MOST_TRIES):
        values = {
            key: offset if root is None else roots[root] + offset
            for key, (root, offset) in relation.solved.items()
        }
        if all(_meets(condition, values) for condition in conditions) and all(
            contains(c.inside, (c.form.at(roots),) * 2) for c in relation.rest
        ):
            pair: InstancePair = ({}, {})
            for (side, name), value in values.items():
                pair[side][name] = value
            yield pair


def _assignments(relation: Relation, conditions: list[Condition]) -> Iterator[dict[Key, int]]:
    """Values for the roots: the least, but for up to two of them; those of the sink move first."""
    ranges = sorted(relation.ranges.items(), key=lambda item: (-item[0][0], item[0][1]))
    least = {root: low for root, (low, _) in ranges}
    steps: dict[Key, set[int]] = {root: {1} for root in least}
    for condition in conditions:
        for digit in condition.form.terms:
            root, _ = relation.value(digit.side, digit.value)
            if root is not None:
                steps[root].update(by for _, by in digit.steps)
    others: list[tuple[Key, list[int]]] = []
    for root, (low, high) in ranges:
        near = {low + step for step in steps[root]} | {high - 1}
        others.append((root, sorted(value for value in near if low < value < high)))
    yield least
    for root, values in others:
        for value in values:
            yield {**least, root: value}
    for (a, first), (b, second) in itertools.combinations(others, 2):
        for x, y in itertools.product(first, second):
            yield {**least, a: x, b: y}


def _meets(condition: Condition, values: Mapping[Key, int]) -> bool:
    digits = {}
    for digit in condition.form.terms:
        value = digit.value
        number = 0 if value.variable is None else values[digit.side, value.variable]
        digits[digit] = digit.of(number + value.offset)
    return _HOLDS[condition.op](condition.form.at(digits), 0)
