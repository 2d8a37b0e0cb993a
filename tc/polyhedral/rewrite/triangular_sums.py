"""Sums of products below or above a diagonal, strip by strip of rows.

Of `C(i,j) +=! j <= i ? A(i,k) * A(j,k) : 0` in strips of rows, all but the last columns of each are
a product of matrices without a condition, which is computed in blocks that caches hold; those to
the right are 0. The same holds where the condition ends the sum, as in the product of a triangle
and a matrix, `C(i,j) +=! k <= i ? A(i,k) * B(k,j) : 0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from tc.affine.forms import Form
from tc.affine.intervals import surely
from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.rewriting import Rewriting, operations_of
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.bounded_sums import prefixes
from tc.semantics.program import Range, ShapedProgram, ShapedStatement
from tc.semantics.selected_sums import conditional_term
from tc.semantics.size_values import KnownSizes


def sum_by_strips(shaped: ShapedProgram, limits: Thresholds) -> ShapedProgram:
    """The program with sums of products under a diagonal in up to `limits.mirrored` strips of rows;
    the very same where there are none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "C(i,j) +=! j <= i ? A(i,k) * A(j,k) : 0 where i in 0:N, j in 0:N"
    >>> source = Source(f"def f(float(N,K) A) -> (C) {{ {text} }}")
    >>> shaped = infer_ranges(check(parse(source)), {"A": (256, 1000)}, {})
    >>> for s in sum_by_strips(shaped, Thresholds(mirrored=2)).statements:
    ...     print(s.statement.text, [(r.begin, r.end) for r in s.ranges.values()])
    C(i, j) +=! j <= i ? A(i, k) * A(j, k) : 0.0 [(0, 128), (0, 128), (0, 1000)]
    C(i, j) = 0.0 [(0, 128), (128, 256)]
    C(i, j) +=! A(i, k) * A(j, k) [(128, 256), (0, 128), (0, 1000)]
    C(i, j) +=! j <= i ? A(i, k) * A(j, k) : 0.0 [(128, 256), (128, 256), (0, 1000)]
    """
    if not limits.mirrored:
        return shaped
    rewriting = Rewriting(shaped, "by strips")
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)

    def each(old: ShapedStatement) -> list[ShapedStatement] | None:
        triangle = _triangle(old, shaped, known)
        return None if triangle is None else triangle.in_strips(rewriting, limits)

    return rewriting.program(each)


@dataclass(frozen=True)
class _Triangle:
    """A sum of terms under the condition that `row + constant` is at least `column`, or, with
    `upper`, at most."""

    old: ShapedStatement
    known: KnownSizes
    row: str
    column: str
    constant: int
    upper: bool

    @property
    def is_sum(self) -> bool:
        """Whether the condition ends the sum; else it says which elements have one."""
        return self.column in self.old.statement.reduction

    def in_strips(self, rewriting: Rewriting, limits: Thresholds) -> list[ShapedStatement] | None:
        ends = self._at_hint().ends(limits)
        if ends is None:
            return None
        ends[-1] = self.old.ranges[self.row].end
        made = [
            each for strip in pairwise(ends) for each in self._strip(Range(*strip), limits.strip)
        ]
        return rewriting.pieces(self.old, made)

    def _at_hint(self) -> _Triangle:
        """Of the sizes of this call alone, by which strips are chosen."""
        ranges = {v: Range(at_hint(r.begin), at_hint(r.end)) for v, r in self.old.ranges.items()}
        old = replace(self.old, ranges=ranges)
        return replace(self, old=old, constant=at_hint(self.constant))

    def ends(self, limits: Thresholds) -> list[int] | None:
        """Where the strips of rows begin, and the last one ends; None where they do not pay."""
        rows = self.old.ranges[self.row]
        lengths = {
            -(-rows.extent // (n * limits.strip)) * limits.strip
            for n in range(2, limits.mirrored + 1)
        }
        found = [
            [*range(rows.begin, rows.end, n), rows.end] for n in sorted(lengths) if n < rows.extent
        ]
        best = min(found, key=lambda ends: self._cost(ends, limits), default=None)
        whole = rows.extent * self.old.ranges[self.column].extent * self._each
        if best is None or limits.order.gain * self._cost(best, limits) > whole:
            return None
        return best

    def _cost(self, ends: list[int], limits: Thresholds) -> float:
        """The operations in strips; half of those at the diagonal take twice as long."""
        pieces = [
            each for strip in pairwise(ends) for each in self._cut(Range(*strip), limits.strip)
        ]
        terms = sum(
            rows.extent * columns.extent for rows, columns, holds in pieces if holds is not False
        )
        return terms * self._each + limits.order.statement * len(pieces)

    @property
    def _each(self) -> int:
        """The operations for each row and column."""
        own = self.row, self.column
        others = prod(r.extent for v, r in self.old.ranges.items() if v not in own)
        return others * max(operations_of(self.old.statement.rhs), 1)

    def _cut(self, rows: Range, near: int) -> Iterator[tuple[Range, Range, bool | None]]:
        """A strip of rows in ranges of columns, with whether the condition holds there; None where
        it does at some places. Those where it holds everywhere are a multiple of `near`, if they
        begin with the first."""
        first, last = rows.begin + self.constant, rows.end - 1 + self.constant
        of_first: bool = not self.upper
        ends = (
            ((first + 1) // near * near, last + 1) if of_first else (first, -(-last // near) * near)
        )
        begin, end = self.old.ranges[self.column].begin, self.old.ranges[self.column].end
        places = [begin, *(min(max(place, begin), end) for place in ends), end]
        for (low, high), holds in zip(
            pairwise(places), (of_first, None, not of_first), strict=True
        ):
            if low < high:
                yield rows, Range(low, high), holds

    def _strip(self, rows: Range, near: int) -> Iterator[tuple[p.Statement, dict[str, Range]]]:
        """The statements of a strip: where the condition ends the sum, the later ones go on from
        the first."""
        statement, is_first = self.old.statement, True
        for _, columns, holds in self._cut(rows, near):
            ranges = {**self.old.ranges, self.row: rows, self.column: columns}
            if holds is False and self.is_sum:
                continue
            new = self._without_tests(ranges) if holds is not False else self._nothing()
            if not is_first and self.is_sum:
                new = replace(new, init=False, continues="written")
            yield new, {v: ranges[v] for v in new.variables}
            is_first = False
        if is_first:
            yield (
                self._nothing(),
                {v: r for v, r in self.old.ranges.items() if v in statement.outer}
                | {self.row: rows},
            )

    def _nothing(self) -> p.Statement:
        """No term: the elements are what a sum starts from."""
        statement = self.old.statement
        rhs = Expressions(statement.rhs.span).identity(statement.op, statement.rhs.dtype)
        return replace(statement, op="=", init=False, variables=statement.outer, rhs=rhs)

    def _without_tests(self, ranges: Mapping[str, Range]) -> p.Statement:
        """The statement without tests that hold everywhere."""
        statement, rhs = self.old.statement, self.old.statement.rhs
        assert isinstance(rhs, p.Select)
        left = [test for test in p.conjuncts(rhs.condition) if not self._holds(test, ranges)]
        condition = conjunction(left)
        new = rhs.then if condition is None else replace(rhs, condition=condition)
        return replace(statement, rhs=new)

    def _holds(self, test: p.Expr, ranges: Mapping[str, Range]) -> bool:
        gap = _gap(test, self.known)
        if gap is None or not gap.terms.keys() <= ranges.keys():
            return False
        ends = ((f, ranges[v]) for v, f in gap.terms.items())
        least = gap.constant + sum(f * (r.begin if f > 0 else r.end - 1) for f, r in ends)
        return surely(least, ">=", 0)


def _triangle(old: ShapedStatement, shaped: ShapedProgram, known: KnownSizes) -> _Triangle | None:
    """The triangle of a sum of products, each of whose operands serves many elements."""
    statement, rhs = old.statement, conditional_term(old.statement)
    if rhs is None or old.checked or old.is_empty or not (statement.is_plain and statement.init):
        return None
    if prefixes(statement, known):  # sums of which each takes one more term than the one before
        return None
    is_rounded = shaped.program.tensors[statement.target].dtype != rhs.dtype
    if is_rounded or not _is_product(old):
        return None
    for test in p.conjuncts(rhs.condition):
        gap = _gap(test, known)
        if gap is None or sorted(gap.terms.values()) != [-1, 1]:
            continue
        row = next((v for v in statement.outer if v in gap.terms), None)
        if row is not None:
            (column,) = gap.terms.keys() - {row}
            upper = gap.terms[row] < 0
            constant = -gap.constant if upper else gap.constant
            return _Triangle(old, known, row, column, constant, upper)
    return None


def _is_product(old: ShapedStatement) -> bool:
    """Whether operands of a sum are read along all values of some variable of the left side."""
    statement = old.statement
    long = {v for v in statement.outer if old.ranges[v].extent > 1}
    reads = [n for n in p.walk(statement.rhs) if isinstance(n, p.Read)]
    used = [{*p.index_names(read)} for read in reads if read.tensor != statement.target]
    moving = [names for names in used if names & {*statement.reduction}]
    return len(used) == len(reads) and len(moving) > 1 and all(long - names for names in moving)


def _gap(test: p.Expr, known: KnownSizes) -> Form[str, int] | None:
    """A form of which a comparison of index variables says that it is at least 0."""
    if not isinstance(test, p.Compare) or test.op not in ("<", "<=", ">", ">="):
        return None
    sides = [test.left, test.right] if test.op in ("<", "<=") else [test.right, test.left]
    small, large = (linear_form(side, known, exact=True) for side in sides)
    if small is None or large is None:
        return None
    return (large - small).shifted(-1 if test.op in ("<", ">") else 0)
