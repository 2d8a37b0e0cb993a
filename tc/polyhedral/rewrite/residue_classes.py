"""A statement for each residue class of the variables that it divides by small numbers.

`d(x/2 - p) * k(2*p + x%2)` has quotients that move with every other x: vectors along x are
gathered, and of the terms of a sum over p that end at the kernel's edge some are for nothing. With
`2*x_div + 0` for x it is `d(x_div - p) * k(2*p)`, with `2*x_div + 1` it is `d(x_div - p) *
k(2*p + 1)`: two dense problems, each with the terms that it has. The gradients of strided
convolutions and of pooling, upsampling and pixel shuffles are of this kind, and transposed
convolutions, whose terms have a factor that is 0 unless a remainder is 0 (`zero_factors`). Each
element is computed by one of the classes, from the same terms in the same order, but for those of
sums that start at 0 whose guard fails for all of a class; these add 0. What gives a sum its start
becomes classes as the sum does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from math import prod

from tc.affine.forms import Form, LinearForm, constant_form
from tc.polyhedral.rewrite.rewriting import Rewriting, rewrite, unused_name
from tc.polyhedral.rewrite.simplifying import (
    cut,
    is_walked,
    period_of,
    quotients,
    simplified,
    substituted,
    turning_points,
    values_where,
)
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics import program as p
from tc.semantics.affine import box_of
from tc.semantics.size_values import KnownSizes


def residue_classes(
    old: p.ShapedStatement,
    rewriting: Rewriting,
    known: KnownSizes,
    limits: Thresholds,
    start: p.ShapedStatement | None = None,
    zeros: str | None = None,
) -> list[p.ShapedStatement] | None:
    """The statements of the classes of one that has no checks and reads no element that it writes,
    those of the same ranges next to each other, the largest first; None where no class is of use,
    or there are too many. A sum may go on from a `start` over the same variables and ranges, which
    stores no -0: each class of the sum stands behind that of the start. `zeros` is that of
    `zero_factors.SelectedSum`.

    Periods are at most `limits.residues`. Where sums have few terms, at most `limits.short`, the
    classes are cut to the same ranges, so that they can share loops; longer ones have ranges of
    their own.
    """
    statement = old.statement
    taken = {*statement.variables, *rewriting.shaped.program.tensors}
    work = _Splitting(known, limits, taken, zeros)
    whole = _Part(statement, dict(old.ranges), None if start is None else start.statement)
    parts = work.split(whole, ())
    if not parts or len(parts) > limits.classes or not work.is_of_use:
        return None
    sizes: dict[tuple[tuple[int, int], ...], int] = {}
    for part in parts:
        sizes[part.box] = max(part.instances, sizes.get(part.box, 0))
    parts.sort(key=lambda part: (-sizes[part.box], part.box))
    if start is None:
        return rewriting.pieces(old, [(part.statement, part.ranges) for part in parts])
    starts = rewriting.pieces(start, [(part.begun, part.ranges) for part in parts])
    adding = [(part.statement, part.ranges) for part in parts if part.statement.op == "+"]
    sums = iter(rewriting.pieces(old, adding))
    pairs = zip(parts, starts, strict=True)
    return [s for part, own in pairs for s in (own, *islice(sums, part.statement.op == "+"))]


@dataclass(frozen=True)
class _Part:
    """Some instances of a statement, and of the one that gives it its start, if there is one."""

    statement: p.Statement
    ranges: Mapping[str, p.Range]
    start: p.Statement | None = None

    @property
    def begun(self) -> p.Statement:
        """The statement that gives it its start."""
        assert self.start is not None
        return self.start

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """The ranges of what it writes."""
        return tuple((self.ranges[v].begin, self.ranges[v].end) for v in self.statement.outer)

    def quotients(self, variable: str, known: KnownSizes) -> Iterator[tuple[LinearForm, int]]:
        """As `simplifying.quotients`, of the terms and of the start."""
        for each in (self.statement, self.start):
            if each is not None:
                yield from quotients(each.rhs, variable, known)

    @property
    def instances(self) -> int:
        return prod(r.extent for r in self.ranges.values())

    @property
    def terms(self) -> int:
        """How many terms each element has."""
        return prod(self.ranges[v].extent for v in self.statement.reduction)

    @property
    def adds_from_zero(self) -> bool:
        """Whether it is a sum that starts at 0, or at what is not -0: another 0 makes no
        difference."""
        return self.statement.op == "+" and (self.statement.init or self.start is not None)

    @property
    def is_zero(self) -> bool:
        """Whether it adds 0 to 0."""
        return self.adds_from_zero and p.is_zero(self.statement.rhs)


@dataclass
class _Splitting:
    """Splits one statement; `taken` are names, `zeros` is the tensor of what terms that are 0 add,
    which the start reads. It `is_of_use` where memory is walked along a
    variable that became classes, or where terms of sums are gone."""

    known: KnownSizes
    limits: Thresholds
    taken: set[str]
    zeros: str | None = None
    is_of_use: bool = False

    def split(self, part: _Part, done: tuple[str, ...]) -> list[_Part] | None:
        """The classes of a part, of which some variables are `done` already; None where quotients
        of those are left."""
        statement = part.statement
        for variable in statement.variables:
            period = self._period(part, variable)
            if period is None:
                continue
            outer = unused_name(f"{variable}_div", self.taken)
            if variable in statement.reduction:
                rest = self._only_class(part, variable, outer, period)
                if rest is not None:
                    return self.split(rest, (*done, outer))
                continue
            found: list[_Part] = []
            for each in self._classes(part, variable, outer, period):
                inner = self.split(each, (*done, outer))
                if inner is None or len(found) + len(inner) > self.limits.classes:
                    return None
                found += inner
            return found
        if any(True for v in done for _ in part.quotients(v, self.known)):
            return None
        self.is_of_use |= any(is_walked(statement, v) for v in done)
        return [part]

    def _period(self, part: _Part, variable: str) -> int | None:
        """The period of a variable's quotients, if there are any, and it is short."""
        period = period_of(part.quotients(variable, self.known), variable)
        least = 0 if variable in part.statement.reduction else 2 * period
        is_short = 2 <= period <= self.limits.residues
        return period if is_short and least <= part.ranges[variable].extent else None

    def _classes(self, part: _Part, variable: str, outer: str, period: int) -> Iterator[_Part]:
        """The classes of a left-hand variable, each cut where comparisons of it alone change; where
        sums are short all of them where one of them is."""
        found = [self._class(part, variable, outer, period, r) for r in range(period)]
        wholes = [(each.ranges[outer].begin, each.ranges[outer].end) for each in found]
        ends = [
            cut(whole, turning_points(each.statement.rhs, outer, self.known))
            for each, whole in zip(found, wholes, strict=True)
        ]
        if part.terms <= self.limits.short:
            ends = [cut(whole, chain.from_iterable(ends)) for whole in wholes]
        for each, own in zip(found, ends, strict=True):
            for low, high in pairwise(own):
                ranges = {**each.ranges, outer: p.Range(low, high)}
                yield self._settled(replace(each, ranges=ranges))

    def _only_class(self, part: _Part, variable: str, outer: str, period: int) -> _Part | None:
        """The class of a reduction variable that adds something, where no other does."""
        if not part.adds_from_zero:
            return None
        found = [self._class(part, variable, outer, period, r) for r in range(period)]
        adding = [each for each in found if each.statement.op == "+"]
        if len(adding) > 1:
            return None
        self.is_of_use = True
        return adding[0] if adding else self._zero(part)

    def _class(self, part: _Part, variable: str, outer: str, period: int, residue: int) -> _Part:
        """The part where a variable is `period * outer + residue`."""
        whole, value = part.ranges[variable], Form(residue, {outer: period})
        first, last = (-((residue - end) // period) for end in (whole.begin, whole.end))
        ranges = {outer if v == variable else v: r for v, r in part.ranges.items()}
        ranges[outer] = p.Range(first, last)
        new, start = substituted(part.statement, {variable: value}), part.start
        if start is not None and variable in start.variables:
            start = substituted(start, {variable: value})
        return self._settled(_Part(new, ranges, start))

    def _settled(self, part: _Part) -> _Part:
        """A part without what its ranges decide, and without terms whose guard fails; a variable of
        a sum that has one value left is that value, if it is not the last one."""
        statement, ranges = part.statement, dict(part.ranges)
        if any(ranges[v].extent < 1 for v in statement.outer):
            return part
        if any(r.extent < 1 for r in ranges.values()):
            return self._zero(part) if part.adds_from_zero else part
        box = box_of(ranges, statement.variables)
        rhs, start = simplified(statement.rhs, self.known, box), part.start
        if start is not None:
            start = replace(start, rhs=simplified(start.rhs, self.known, box))
        part = _Part(replace(statement, rhs=rhs), ranges, start)
        for variable in statement.reduction if part.adds_from_zero else ():
            begin, end = self._adding(part, variable)
            if (begin, end) != (ranges[variable].begin, ranges[variable].end):
                self.is_of_use = True
                ranges[variable] = p.Range(begin, max(end, begin))
        if any(r.extent < 1 for r in ranges.values()):
            return self._zero(part)
        rhs = simplified(rhs, self.known, box_of(ranges, statement.variables))
        part = replace(part, statement=replace(statement, rhs=rhs))
        return self._zero(part) if part.is_zero else self._without_single_values(part)

    def _adding(self, part: _Part, variable: str) -> tuple[int, int]:
        """The values of a reduction variable that guards of it alone leave."""
        left, rhs = part.ranges[variable], part.statement.rhs
        begin, end = left.begin, left.end
        if isinstance(rhs, p.Select) and p.is_zero(rhs.otherwise):
            for test in p.conjuncts(rhs.condition):
                found = values_where(test, variable, (begin, end), self.known)
                begin, end = (begin, end) if found is None else found
        return begin, end

    def _without_single_values(self, part: _Part) -> _Part:
        statement = part.statement
        single = [v for v in statement.reduction if part.ranges[v].extent == 1]
        if len(single) == len(statement.reduction):
            single = single[1:]
        if not single:
            return part
        values = {v: constant_form(part.ranges[v].begin) for v in single}
        new = substituted(statement, values)
        ranges = {v: part.ranges[v] for v in new.variables}
        rhs = simplified(new.rhs, self.known, box_of(ranges, new.variables))
        return _Part(replace(new, rhs=rhs), ranges, part.start)

    def _zero(self, part: _Part) -> _Part:
        """A sum that adds nothing to 0, or to its start. What its terms add, all of which are 0, is
        the same for all remainders of the variables that are no classes yet."""
        statement, start = part.statement, part.start
        zero = p.Literal(0, statement.rhs.dtype, span=statement.span)
        new = replace(
            statement, rhs=zero, op="=", init=False, continues="", variables=statement.outer
        )
        if start is not None and self.zeros is not None:
            start = replace(start, rhs=rewrite(start.rhs, lambda n: self._of_any(n, part.ranges)))
        return _Part(new, {v: part.ranges[v] for v in statement.outer}, start)

    def _of_any(self, node: p.Expr, ranges: Mapping[str, p.Range]) -> p.Expr:
        """A read of what terms that are 0 add, for the first of the remainders that a range has all
        of."""
        if not isinstance(node, p.Read) or node.tensor != self.zeros:
            return node
        first: list[p.Expr] = []
        for subscript in node.subscripts:
            match subscript:
                case p.Binary(op="%", left=p.Index(name=v), right=p.Literal(value=period)):
                    is_any = ranges[v].extent >= period
                    zero = p.Literal(0, subscript.dtype, span=node.span)
                    first.append(zero if is_any else subscript)
                case _:
                    first.append(subscript)
        return replace(node, subscripts=tuple(first))
