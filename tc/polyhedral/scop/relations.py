"""Pairs of instances that touch one element, for the concrete sizes of one call.

A `Relation` holds all pairs (s, t) of instances of two statements for which two accesses give the
same element. Each dimension of the tensor gives an equation between linear forms over boxes. Most
say that two variables are equal up to a constant, or that one is a constant: these are solved by
substitution, exactly and in microseconds. What is left (`O(h)` and `I(h + kh)`) goes to isl when a
question depends on it; most programs never load isl.

Variables are named by side and name: (SOURCE, "i") is i of the first statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tc import sets
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.scop import Access, HalfOpen, ScopStatement
from tc.semantics.affine import LinearForm

SOURCE, SINK = 0, 1
QUOTA = 2_000_000
"""isl operations that one relation may spend, about half a second; most need some hundreds."""

Key: TypeAlias = tuple[int, str]
Coefficients: TypeAlias = dict[Key, int]


class Empty(Exception):
    """No pair exists."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """low <= constant + sum of factor * variable < high, over solved variables."""

    form: Coefficients
    constant: int
    low: int
    high: int


@dataclass
class Relation:
    """See the head of this file; `relate` makes them.

    The variables range over `boxes`. Each is a constant or a root plus an offset (`solved`); the
    roots have `ranges` of their own, within the boxes, and meet the constraints `rest`, which tie
    them in ways that only isl tells.
    """

    boxes: dict[Key, HalfOpen]
    ranges: dict[Key, HalfOpen]
    solved: dict[Key, tuple[Key | None, int]]
    rest: tuple[Constraint, ...]
    _shifts: dict[tuple[Value, Value], int | None] = field(default_factory=dict)

    def shift(self, source: Value, sink: Value) -> int | None:
        """sink - source, where that is one number for all pairs; None where it is not, or where
        isl cannot tell."""
        key = source, sink
        if key not in self._shifts:
            self._shifts[key] = self._shift(self.value(SOURCE, source), self.value(SINK, sink))
        return self._shifts[key]

    def value(self, side: int, value: Value) -> tuple[Key | None, int]:
        """The root of a value, None for a constant, and what is added to it."""
        if value.variable is None:
            return None, value.offset
        root, offset = self.solved[side, value.variable]
        return root, offset + value.offset

    @cached_property
    def space(self) -> sets.Space:
        """An isl space of all variables; those of the sink are primed."""
        return sets.Space(tuple(variable_text(key) for key in self.solved), QUOTA)

    @cached_property
    def points(self) -> sets.Points:
        """The pairs as a set of isl."""
        with sets.bounded():
            points = self.space.box({variable_text(key): box for key, box in self.boxes.items()})
            for low, terms, high in self.conditions():
                function = self._function(terms, 0)
                for op, bound in ((">=", low), ("<", high)):
                    points = points.intersect(
                        sets.compare(op, function, self.space.constant(bound))
                    )
            return points

    def conditions(self) -> Iterator[tuple[int, dict[str, int], int]]:
        """The relation as low <= sum of factor * variable < high, apart from the boxes; variables
        as `variable_text` names them."""
        for key, (root, offset) in self.solved.items():
            if root is not None and root != key:
                yield offset, {variable_text(key): 1, variable_text(root): -1}, offset + 1
            elif root is None or self.ranges[root] != self.boxes[root]:
                begin, end = self._bounds(key)
                yield begin, {variable_text(key): 1}, end
        for constraint in self.rest:
            form = {variable_text(key): factor for key, factor in constraint.form.items()}
            yield constraint.low - constraint.constant, form, constraint.high - constraint.constant

    def function(self, side: int, value: Value) -> sets.Function:
        """A value of an instance as a function on `space`."""
        offset = self.space.constant(value.offset)
        if value.variable is None:
            return offset
        return sets.add(self.space.variable(variable_text((side, value.variable))), offset)

    def example(self, points: sets.Points) -> tuple[dict[str, int], dict[str, int]] | None:
        """The first pair of some of `points`: the instance of the source and that of the sink."""
        with sets.bounded():
            found = sets.point(points, self.space)
        if found is None:
            return None
        pair: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for side, name in self.solved:
            pair[side][name] = found[variable_text((side, name))]
        return pair

    def _shift(self, source: tuple[Key | None, int], sink: tuple[Key | None, int]) -> int | None:
        (a, a_offset), (b, b_offset) = source, sink
        if a == b:
            return b_offset - a_offset
        if a is None or b is None or not self._are_tied(a, b):
            return None
        try:
            with sets.bounded():
                if self.points.is_empty():
                    return None
                terms = {variable_text(b): 1, variable_text(a): -1}
                difference = self._function(terms, b_offset - a_offset)
                low = sets.smallest_value(self.points, difference)
                return low if low == sets.largest_value(self.points, difference) else None
        except sets.TooComplex:
            return None

    def _are_tied(self, a: Key, b: Key) -> bool:
        """Whether constraints, through whatever variables, tie two roots."""
        reached, todo = {a}, [a]
        while todo:
            root = todo.pop()
            for constraint in self.rest:
                if root in constraint.form:
                    todo += constraint.form.keys() - reached
                    reached |= constraint.form.keys()
        return b in reached

    def _bounds(self, key: Key) -> HalfOpen:
        root, offset = self.solved[key]
        begin, end = (0, 1) if root is None else self.ranges[root]
        return begin + offset, end + offset

    def _function(self, terms: Mapping[str, int], constant: int) -> sets.Function:
        total = self.space.constant(constant)
        for name, factor in terms.items():
            total = sets.add(total, sets.scale(self.space, self.space.variable(name), factor))
        return total


def relate(
    source: ScopStatement, first: Access, sink: ScopStatement, second: Access
) -> Relation | None:
    """The relation of two accesses to one tensor; None where it is found to be empty.

    A relation without pairs may be returned where only isl could tell.
    """
    ranges = {(SOURCE, v): r for v, r in source.ranges.items()}
    ranges |= {(SINK, v): r for v, r in sink.ranges.items()}
    solver = _Solver(ranges)
    try:
        return solver.solve(_constraints(first, second))
    except Empty:
        return None


def _constraints(first: Access, second: Access) -> Iterator[Constraint]:
    dimensions = zip(first.subscripts, second.subscripts, first.bounds, second.bounds, strict=True)
    for a, b, (a_begin, a_end), (b_begin, b_end) in dimensions:
        if max(a_begin, b_begin) >= min(a_end, b_end):
            raise Empty
        if a is not None and b is not None:
            form = _form(a, SOURCE) | _form(b, SINK, -1)
            yield Constraint(form, a.constant - b.constant, 0, 1)
        elif a is not None:
            yield Constraint(_form(a, SOURCE), a.constant, b_begin, b_end)
        elif b is not None:
            yield Constraint(_form(b, SINK), b.constant, a_begin, a_end)


def _form(linear: LinearForm, side: int, sign: int = 1) -> Coefficients:
    return {(side, name): sign * factor for name, factor in linear.terms.items() if factor}


class _Solver:
    """Substitutes until nothing moves; raises Empty where nothing is left."""

    def __init__(self, ranges: dict[Key, HalfOpen]) -> None:
        self.boxes = ranges
        self.ranges = dict(ranges)
        self.solved: dict[Key, tuple[Key | None, int]] = {}
        for key, (begin, end) in ranges.items():
            if begin >= end:
                raise Empty
            self.solved[key] = (None, begin) if end - begin == 1 else (key, 0)

    def solve(self, constraints: Iterable[Constraint]) -> Relation:
        pending, before = list(constraints), -1
        while len(pending) != before:
            before = len(pending)
            pending = [constraint for constraint in pending if not self._apply(constraint)]
        rest = [self._substituted(constraint) for constraint in pending]
        for constraint in rest:
            self._check(constraint)
        roots = {root for root, _ in self.solved.values() if root is not None}
        ranges = {root: self.ranges[root] for root in roots}
        return Relation(self.boxes, ranges, self.solved, tuple(c for c in rest if c.form))

    def _apply(self, constraint: Constraint) -> bool:
        """Whether a constraint was turned into a substitution or is always met."""
        simple = self._substituted(constraint)
        form, constant, least, largest = simple.form, simple.constant, simple.low, simple.high - 1
        low, high = self._interval(simple)
        if high < least or low > largest:
            raise Empty
        if least <= low and high <= largest:
            return True
        if len(form) == 1:
            ((root, factor),) = form.items()
            if factor < 0:
                factor, constant, least, largest = -factor, -constant, -largest, -least
            self._narrow(root, -((constant - least) // factor), (largest - constant) // factor + 1)
            return True
        if least == largest and len(form) == 2 and sum(form.values()) == 0:
            (a, factor), (b, _) = form.items()
            offset, remainder = divmod(least - constant, factor)
            if remainder:
                raise Empty
            self._join(a, b, offset)
            return True
        return False

    def _narrow(self, root: Key, begin: int, end: int) -> None:
        low, high = self.ranges[root]
        low, high = max(low, begin), min(high, end)
        if low >= high:
            raise Empty
        self.ranges[root] = low, high
        if high - low == 1:
            self._replace(root, None, low)

    def _join(self, a: Key, b: Key, offset: int) -> None:
        """a = b + offset."""
        begin, end = self.ranges[a]
        self._replace(a, b, offset)
        self._narrow(b, begin - offset, end - offset)

    def _replace(self, root: Key, by: Key | None, offset: int) -> None:
        for key, (other, plus) in self.solved.items():
            if other == root:
                self.solved[key] = (by, plus + offset)

    def _substituted(self, constraint: Constraint) -> Constraint:
        form: Coefficients = {}
        constant = constraint.constant
        for key, factor in constraint.form.items():
            root, offset = self.solved[key]
            constant += factor * offset
            if root is not None:
                form[root] = form.get(root, 0) + factor
        form = {root: factor for root, factor in form.items() if factor}
        return Constraint(form, constant, constraint.low, constraint.high)

    def _interval(self, constraint: Constraint) -> HalfOpen:
        """Least and greatest value of the form."""
        low = high = constraint.constant
        for root, factor in constraint.form.items():
            begin, end = self.ranges[root]
            low += min(factor * begin, factor * (end - 1))
            high += max(factor * begin, factor * (end - 1))
        return low, high

    def _check(self, constraint: Constraint) -> None:
        """Raises Empty where no multiple of the factors' divisor solves the constraint."""
        divisor, constant = math.gcd(*constraint.form.values()), constraint.constant
        if divisor and -((constant - constraint.low) // divisor) > (
            (constraint.high - 1 - constant) // divisor
        ):
            raise Empty


def instance_text(name: str, statement: ScopStatement, prime: str = "") -> str:
    """Instances as isl is given them, by positions: names may be what it does not read."""
    return f"{name}[{', '.join(f'v{i}{prime}' for i in range(len(statement.variables)))}]"


def box_text(statement: ScopStatement, prime: str = "") -> str:
    """The domain of a statement, with the variables of `instance_text`."""
    ranges = (statement.ranges[v] for v in statement.variables)
    bounds = [f"{begin} <= v{i}{prime} < {end}" for i, (begin, end) in enumerate(ranges)]
    return " and ".join(bounds) or "true"


def variable_text(key: Key) -> str:
    """A variable as isl's spaces name it: those of the sink are primed."""
    side, name = key
    return name if side == SOURCE else f"{name}'"
