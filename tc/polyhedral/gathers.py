"""Gathered reads: those of a tensor at places that other tensors hold, as T(I(i,k), j).

Such a read finds elements of a tensor that nothing holds, d0, d1, d2 -> T(I(d0, d1), d2): each
linear part of its subscripts is a dimension, and equal parts are one. Of this one a tile may be
promoted as of any other, copied by the read itself. The read must not reach what the program does
not read: another element of I may be no place in T.
(Vasilache et al. 2018, arXiv:1802.04730, section 5.5.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import gcd

from tc.affine.forms import Form, LinearForm
from tc.affine.intervals import Box, closed
from tc.polyhedral.rewrite.rewriting import unused_name
from tc.polyhedral.scop.scop import (
    Access,
    Gather,
    GatherDimension,
    HalfOpen,
    Scop,
    ScopStatement,
    subtract,
)
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.ranges.preconditions import is_exact
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes

_NOT_ALL = "in between are elements that the program does not read, at places that may be none"


def with_gathers(scop: Scop) -> Scop:
    """The scop with what its statements gather."""
    known = KnownSizes(scop.shaped.sizes, scop.shaped.shapes, scop.shaped.scalars)
    groups: dict[p.Read, list[_GatheredRead]] = {}
    for statement in scop.statements:
        for read in _gathered_reads(statement, scop, known):
            groups.setdefault(read.value, []).append(read)
    gathers: dict[str, Gather] = {}
    accesses: dict[str, list[Access]] = {}
    for value, reads in groups.items():
        name = unused_name(to_text(value), gathers)
        gathers[name] = _gather(value, reads)
        for read in reads if gathers[name].fault is None else ():
            if not read.guarded:
                own = accesses.setdefault(read.statement.name, [])
                own.append(_access(name, gathers[name], read))
    if not gathers:
        return scop
    statements = (
        replace(s, gathers=tuple(accesses[s.name])) if s.name in accesses else s
        for s in scop.statements
    )
    return replace(scop, statements=tuple(statements), gathers=gathers)


@dataclass(frozen=True)
class _GatheredRead:
    """A read of a statement at places that tensors hold: `value` is it with names for its linear
    parts, which are `forms`."""

    statement: ScopStatement
    site: int
    guarded: bool
    is_checked: bool
    value: p.Read
    forms: tuple[LinearForm, ...]

    def reach(self, dimension: int) -> HalfOpen:
        """The values of a linear part."""
        low, high = self.forms[dimension].interval(closed(self.statement.ranges))
        return low, high + 1


def _gathered_reads(
    statement: ScopStatement, scop: Scop, known: KnownSizes
) -> Iterator[_GatheredRead]:
    """The gathered reads of a statement whose subscripts have a linear part."""
    indirect = {a.site: a for a in statement.reads if a.site >= 0 and None in a.subscripts}
    if not indirect:
        return
    source = scop.shaped.statements[statement.position]
    for expr in p.walk(source.statement.rhs):
        if not isinstance(expr, p.Read) or expr.site not in indirect:
            continue
        naming = _Naming(known, closed(statement.ranges))
        value = naming.read(expr)
        if naming.forms and any(isinstance(e, p.Read) for s in value.subscripts for e in p.walk(s)):
            sites = {getattr(e, "site", -1) for e in p.walk(expr)}
            yield _GatheredRead(
                statement,
                expr.site,
                indirect[expr.site].guarded,
                not source.checked.isdisjoint(sites),
                value,
                tuple(naming.forms),
            )


@dataclass
class _Naming:
    """Gives names to the linear parts of expressions, the same to equal ones."""

    known: KnownSizes
    box: Box[str]
    forms: list[LinearForm] = field(default_factory=list)

    def read(self, read: p.Read) -> p.Read:
        """A read with names in its subscripts, and nothing of where it stands."""
        named = tuple(map(self._named, read.subscripts))
        return replace(read, subscripts=named, site=-1, bare_only=False, late=False)

    def _named(self, expr: p.Expr) -> p.Expr:
        form = linear_form(expr, self.known)
        if form is not None and is_exact(expr, self.known, self.box):
            if not form.terms:
                return p.Literal(form.constant, expr.dtype, span=expr.span)
            if form not in self.forms:
                self.forms.append(form)
            return p.Index(f"d{self.forms.index(form)}", expr.dtype, span=expr.span)
        if isinstance(expr, p.Read):
            return self.read(expr)
        named = p.with_children(expr, tuple(map(self._named, p.children(expr))))
        return replace(named, site=-1) if isinstance(named, p.Binary) else named


# --- which elements there are -------------------------------------------------------------------


def _gather(value: p.Read, reads: Sequence[_GatheredRead]) -> Gather:
    """What some reads gather, whose values are the same."""
    certain = [read for read in reads if not read.guarded]
    is_checked = any(read.is_checked for read in certain)
    if not certain or _has_branches(value):
        return Gather(value, (), is_checked, "a branch of ?:, && or || may leave it out")
    dimensions = tuple(_dimension(number, certain) for number in range(len(certain[0].forms)))
    return Gather(value, dimensions, is_checked, _fault(value, dimensions, certain))


def _has_branches(value: p.Read) -> bool:
    """Whether some of the reads at whose values a read is made are in branches (Y6)."""
    branches = (
        branch
        for expr in p.walk(value)
        if isinstance(expr, p.Select | p.Logical)
        for branch in p.children(expr)[1:]
    )
    return any(isinstance(e, p.Read) for branch in branches for e in p.walk(branch))


def _dimension(number: int, reads: Sequence[_GatheredRead]) -> GatherDimension:
    reaches = [read.reach(number) for read in reads]
    first, end = min(begin for begin, _ in reaches), max(end for _, end in reaches)
    factors = chain.from_iterable(read.forms[number].terms.values() for read in reads)
    step = gcd(*factors, *(begin - first for begin, _ in reaches))
    return GatherDimension(f"d{number}", first, step, (end - 1 - first) // step + 1)


def _fault(
    value: p.Read, dimensions: Sequence[GatherDimension], reads: Sequence[_GatheredRead]
) -> str | None:
    """Why not all elements are read, as the linear parts of some subscript do not take all values
    with each other; None where they do."""
    for subscript in value.subscripts:
        names = p.index_names(subscript)
        used = [number for number, own in enumerate(dimensions) if own.name in names]
        left: list[tuple[HalfOpen, ...]] = [tuple((0, dimensions[n].extent) for n in used)]
        for read in reads:
            if not _takes_all(read, used, dimensions):
                return _NOT_ALL
            left = subtract(left, _places(read, used, dimensions))
        if any(True for _ in left):
            return _NOT_ALL
    return None


def _takes_all(
    read: _GatheredRead, used: Sequence[int], dimensions: Sequence[GatherDimension]
) -> bool:
    """Whether linear parts of a read take all places within their reach, each with each."""
    for a, b in combinations(used, 2):
        if not read.forms[a].terms.keys().isdisjoint(read.forms[b].terms):
            return False
    for number in used:
        reach = dimensions[number].step
        terms = read.forms[number].terms
        for name in sorted(terms, key=lambda name: abs(terms[name])):
            begin, end = read.statement.ranges[name]
            if end - begin > 1 and abs(terms[name]) > reach:
                return False
            reach += abs(terms[name]) * (end - begin - 1)
    return True


def _places(
    read: _GatheredRead, used: Sequence[int], dimensions: Sequence[GatherDimension]
) -> tuple[HalfOpen, ...]:
    """The places of a read along some dimensions."""
    found = []
    for number in used:
        own, (begin, end) = dimensions[number], read.reach(number)
        found.append(((begin - own.first) // own.step, (end - 1 - own.first) // own.step + 1))
    return tuple(found)


def _access(name: str, gather: Gather, read: _GatheredRead) -> Access:
    """A read as an access to what is gathered."""
    forms = []
    for form, own in zip(read.forms, gather.dimensions, strict=True):
        terms = {variable: factor // own.step for variable, factor in form.terms.items()}
        forms.append(Form((form.constant - own.first) // own.step, terms))
    used = range(len(forms))
    return Access(name, tuple(forms), _places(read, used, gather.dimensions), site=read.site)
