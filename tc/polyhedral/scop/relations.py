"""Pairs of instances that touch one element, for the concrete sizes of one call.

A `Relation` holds all pairs (s, t) of instances of two statements for which two accesses give the
same element. Each dimension of the tensor gives an equation between linear forms over boxes. Most
say that two variables are equal up to a constant, or that one is a constant: these are solved by
substitution, exactly and in microseconds. What is left (`O(h)` and `I(h + kh)`) goes to isl when a
question depends on it; most programs never load isl.

Variables are named by side and name: (SOURCE, "i") is i of the first statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tc import sets
from tc.affine.forms import Form, LinearForm, divisor_of
from tc.affine.intervals import Interval, closed, contains
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.scop import Access, HalfOpen, ScopStatement

SOURCE, SINK = 0, 1
QUOTA = 2_000_000
"""isl operations that one relation may spend, about half a second; most need some hundreds."""

Key: TypeAlias = tuple[int, str]


class Empty(Exception):
    """No pair exists."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The value of a form of solved variables is within an interval."""

    form: Form[Key, int]
    inside: Interval


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
            boxes = closed({variable_text(key): box for key, box in self.boxes.items()})
            points = self.space.box(boxes)
            for form, (low, high) in self.conditions():
                function = self.space.function(form)
                for op, bound in ((">=", low), ("<=", high)):
                    points = points.intersect(
                        sets.compare(op, function, self.space.constant(bound))
                    )
            return points

    def conditions(self) -> Iterator[tuple[Form[str, int], Interval]]:
        """The relation as forms and the intervals of their values, apart from the boxes; variables
        as `variable_text` names them."""
        for key, (root, offset) in self.solved.items():
            name = variable_text(key)
            if root is not None and root != key:
                yield Form(0, {name: 1, variable_text(root): -1}), (offset, offset)
            elif root is None or self.ranges[root] != self.boxes[root]:
                begin, end = self._bounds(key)
                yield Form(0, {name: 1}), (begin, end - 1)
        for constraint in self.rest:
            low, high = constraint.inside
            constant = constraint.form.constant
            form = constraint.form.shifted(-constant).renamed(variable_text)
            yield form, (low - constant, high - constant)

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
                form = Form(b_offset - a_offset, {variable_text(b): 1, variable_text(a): -1})
                difference = self.space.function(form)
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
                terms = constraint.form.terms
                if root in terms:
                    todo += terms.keys() - reached
                    reached |= terms.keys()
        return b in reached

    def _bounds(self, key: Key) -> HalfOpen:
        root, offset = self.solved[key]
        begin, end = (0, 1) if root is None else self.ranges[root]
        return begin + offset, end + offset


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
            yield Constraint(_on_side(a, SOURCE) - _on_side(b, SINK), (0, 0))
        elif a is not None:
            yield Constraint(_on_side(a, SOURCE), (b_begin, b_end - 1))
        elif b is not None:
            yield Constraint(_on_side(b, SINK), (a_begin, a_end - 1))


def _on_side(form: LinearForm, side: int) -> Form[Key, int]:
    return form.renamed(lambda name: (side, name))


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
        return Relation(self.boxes, ranges, self.solved, tuple(c for c in rest if c.form.terms))

    def _apply(self, constraint: Constraint) -> bool:
        """Whether a constraint was turned into a substitution or is always met."""
        simple = self._substituted(constraint)
        form, (least, largest) = simple.form, simple.inside
        low, high = form.interval(closed(self.ranges))
        if high < least or low > largest:
            raise Empty
        if not form.terms or contains(simple.inside, (low, high)):
            return True
        if len(form.terms) == 1:
            ((root, factor),) = form.terms.items()
            first, last = least - form.constant, largest - form.constant
            if factor < 0:
                factor, first, last = -factor, -last, -first
            self._narrow(root, -(-first // factor), last // factor + 1)
            return True
        if least == largest and len(form.terms) == 2 and sum(form.terms.values()) == 0:
            (a, factor), (b, _) = form.terms.items()
            offset, remainder = divmod(least - form.constant, factor)
            if remainder:
                raise Empty
            self._join(a, b, offset)
            return True
        if least == largest and (digits := self._digits(form.shifted(-least))) is not None:
            self._join(*digits, 0)
            return self._apply(constraint)
        return False

    def _digits(self, form: Form[Key, int]) -> tuple[Key, Key] | None:
        """The two roots with the largest factors, which are equal where the form is 0: all else is
        less than one of these factors, as `8 * i + k = 8 * j + l` with k and l from 0 to 7."""
        most = max(map(abs, form.terms.values()))
        large = [key for key, factor in form.terms.items() if abs(factor) == most]
        if len(large) != 2 or form.terms[large[0]] + form.terms[large[1]]:
            return None
        left = Form(form.constant, {k: f for k, f in form.terms.items() if k not in large})
        low, high = left.interval(closed(self.ranges))
        return (large[0], large[1]) if -most < low and high < most else None

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
        values = {
            key: Form(offset, {} if root is None else {root: 1})
            for key, (root, offset) in self.solved.items()
            if key in constraint.form.terms
        }
        return Constraint(constraint.form.substituted(values), constraint.inside)

    def _check(self, constraint: Constraint) -> None:
        """Raises Empty where no multiple of the factors' divisor solves the constraint."""
        divisor, constant = divisor_of(constraint.form), constraint.form.constant
        low, high = constraint.inside
        if divisor and -((constant - low) // divisor) > (high - constant) // divisor:
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
