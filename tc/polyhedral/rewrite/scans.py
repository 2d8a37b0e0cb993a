"""Prefixes for devices whose threads all work at once: chunks are summed, then what stands before
each chunk, then each element goes on from there through the terms of its own chunk.

    o(i) +=! j <= i ? x(j) : 0        becomes
    o.chunk(c) +=! x(64 * c + e)
    o.before(c) +=! b < c ? o.chunk(b) : 0
    o(i) = o.before((i + 1) / 64)
    o(i) += e < (i + 1) % 64 ? x((i + 1) / 64 * 64 + e) : 0

Where there are many chunks, what stands before each is found likewise. No block waits for another
but between launches, so that the order of the sums does not depend on time (X3).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tc.extents.sizes import is_tracked
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.prefix_factors import Prefix, prefix_of
from tc.polyhedral.rewrite.rewriting import Rewriting, unused_name
from tc.polyhedral.rewrite.thresholds import ScanCosts, Thresholds
from tc.semantics import program as p
from tc.semantics.dependent_ranges import substituted
from tc.semantics.size_values import KnownSizes


def scan(shaped: p.ShapedProgram, limits: Thresholds) -> p.ShapedProgram:
    """The program with long prefixes in chunks, as `limits.scans` says; the very same where there
    are none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N) x) -> (o) { o(i) +=! j <= i ? x(j) : 0.0 where i in 0:N }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"x": (12,)}, {})
    >>> limits = Thresholds(scans=ScanCosts(terms=0, chunk=4))
    >>> for each in scan(shaped, limits).statements: print(each.statement.text)
    o.chunk(c) +=! x(c * 4 + e)
    o.before(c) +=! b < c ? o.chunk(b) : 0.0
    o(i) = o.before((i + 1) / 4)
    o(i) += e < (i + 1) % 4 ? x((i + 1) / 4 * 4 + e) : 0.0
    """
    if limits.scans is None or any(
        map(is_tracked, (n for shape in shaped.shapes.values() for n in shape))
    ):
        return shaped
    rewriting = Rewriting(shaped, "scanned")
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    costs = limits.scans
    return rewriting.program(lambda old: _scanned(old, known, costs, rewriting))


def _scanned(
    old: p.ShapedStatement, known: KnownSizes, costs: ScanCosts, rewriting: Rewriting
) -> list[p.ShapedStatement] | None:
    found = None if old.checked or old.is_empty else prefix_of(old, known)
    if found is None or old.ranges[found.reduced].extent < costs.least * costs.chunk:
        return None
    if any(old.ranges[v].begin < 0 for v in old.statement.outer):
        return None
    if prod(old.ranges[v].extent for v in old.statement.variables) < costs.terms:
        return None
    if rewriting.dtype(old.statement.target) != found.rhs.dtype:  # it would be rounded twice (Y8)
        return None
    made = _Chunks(found, costs, rewriting).statements()
    sums = _scanned(made[1], known, costs, rewriting)  # of many chunks
    return [*made[:1], *(sums or made[1:2]), *made[2:]]


class _Chunks:
    """The statements of one prefix in chunks."""

    def __init__(self, found: Prefix, costs: ScanCosts, rewriting: Rewriting) -> None:
        self.found, self.old, self.rewriting = found, found.old, rewriting
        self.of = Expressions(self.old.statement.span)
        own = self.old.ranges[found.reduced]
        self.length, self.chunk = own.extent, costs.chunk
        self.chunks = -(-self.length // self.chunk)
        program = rewriting.shaped.program
        taken = {*self.old.statement.variables, *program.tensors, *program.sizes}
        self.c, self.b, self.e = (unused_name(name, taken) for name in "cbe")
        used = {name for e in (found.rhs.then, *found.tests) for name in p.index_names(e)}
        outer = [v for v in self.old.statement.outer if v != found.outer]
        self.batch = [v for v in outer if v in used]
        self.others = [v for v in self.old.statement.reduction if v != found.reduced]

    def statements(self) -> list[p.ShapedStatement]:
        """The sums of chunks, what stands before each of them, and two that go on from there."""
        of, old, statement = self.of, self.old, self.old.statement
        dtype, op = self.found.rhs.dtype, statement.op
        lead = tuple(map(of.index, self.batch))
        shape = tuple(old.ranges[v].end for v in self.batch)
        ranges = {v: old.ranges[v] for v in self.batch}
        others = {v: old.ranges[v] for v in self.others}
        c, b, e = map(of.index, (self.c, self.b, self.e))
        inside = {self.e: p.Range(0, self.chunk), **others}
        target = statement.target
        totals = self.rewriting.temporary(f"{target}.chunk", dtype, (*shape, self.chunks), of.span)
        number, has_rest = of.plus_all(of.times(c, self.chunk), e), self.length % self.chunk > 0
        made = [
            self.rewriting.made(
                old, "chunk", totals, (*lead, c), self._term(number, (), ends=has_rest),
                {**ranges, self.c: p.Range(0, self.chunks), **inside},
                op=op, reduced=tuple(inside),
            )
        ]  # fmt: skip
        before = self.rewriting.temporary(
            f"{target}.before", dtype, (*shape, self.chunks + 1), of.span
        )
        is_before = of.compare(">" if self.found.is_suffix else "<", b, c)
        total = self.rewriting.read(totals, (*lead, b), of.span)
        made.append(
            self.rewriting.made(
                old, "before", before, (*lead, c), of.select(is_before, total, self._neutral),
                {**ranges, self.c: p.Range(0, self.chunks + 1), self.b: p.Range(0, self.chunks)},
                op=op, reduced=(self.b,),
            )
        )  # fmt: skip
        edge = self._edge()
        part, own = of.digits(edge, (self.chunks + 1, self.chunk))
        around = self.rewriting.read(before, (*lead, part), of.span)
        made.append(self._begun(around))
        place = of.plus_all(of.times(part, self.chunk), e)
        is_own = of.compare(">=" if self.found.is_suffix else "<", e, own)
        last = replace(
            statement,
            variables=(*statement.outer, *inside),
            rhs=self.rewriting.again(self._term(place, (is_own,), ends=self.found.is_suffix)),
            init=False,
            continues="written",
        )
        all_ranges = {**old.ranges, **inside}
        made.append(self.rewriting.changed(last, {v: all_ranges[v] for v in last.variables}, old))
        return made

    @property
    def _neutral(self) -> p.Expr:
        return self.of.identity(self.old.statement.op, self.found.rhs.dtype)

    def _begun(self, around: p.Expr) -> p.ShapedStatement:
        """The elements with what stands before their chunks."""
        statement = self.old.statement
        first = replace(
            statement,
            name=f"{statement.name}.begun",
            variables=statement.outer,
            rhs=self.rewriting.again(around),
            op="=" if statement.init else statement.op,
            init=False,
        )
        ranges = {v: self.old.ranges[v] for v in statement.outer}
        return self.rewriting.changed(first, ranges, self.old)

    def _edge(self) -> p.Expr:
        """The place from 0 where the terms of an element end, or begin, within those that there
        are."""
        of, own = self.of, self.old.ranges[self.found.reduced]
        shift = self.found.shift - own.begin
        outer = self.old.ranges[self.found.outer]
        low, high = outer.begin + shift, outer.end - 1 + shift
        edge = of.plus(of.index(self.found.outer), shift)
        if low < 0:
            edge = of.binary("max", edge, of.number(0))
        return of.binary("min", edge, of.number(self.length)) if high > self.length else edge

    def _term(self, number: p.Expr, tests: tuple[p.Expr, ...], *, ends: bool) -> p.Expr:
        """The term with a number, where tests hold, and none of a number that is too large, where
        there may be such (`ends`)."""
        of, found = self.of, self.found
        if ends:
            tests = (*tests, of.compare("<", number, of.number(self.length)))
        value = of.plus(number, self.old.ranges[found.reduced].begin)
        own = (substituted(test, found.reduced, value) for test in found.tests)
        condition = conjunction((*tests, *own))
        then = substituted(found.rhs.then, found.reduced, value)
        return then if condition is None else of.select(condition, then, self._neutral)
