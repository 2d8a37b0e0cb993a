"""The accesses of a statement: each subscript with its variables, and the guards before it.

A guard is a condition that decides whether an expression is evaluated at all (Y6): that of a
`?:`, or the left operand of `&&` or `||`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tc.semantics import program as p
from tc.semantics.suggest import one_line
from tc.source import Span

Guard: TypeAlias = tuple[p.Expr, bool]
"""A condition and the value that it has where the guarded expression is evaluated."""


@dataclass(frozen=True, slots=True)
class SubscriptAccess:
    """One subscript of a read, of a `where exists`, or of the left side.

    `variables` are those written in the subscript, `boundable` those of them that occur not only
    under % (G2). `read` is None for the left side; `inferring_only` marks `where exists` (T5).
    `number` counts the accesses of the statement, the left side first.
    """

    number: int
    tensor: str
    axis: int
    subscript: p.Expr
    span: Span
    read: p.Read | None
    inferring_only: bool
    variables: tuple[str, ...]
    boundable: frozenset[str]

    @property
    def is_bare(self) -> bool:
        return isinstance(self.subscript, p.Index)

    @property
    def is_made(self) -> bool:
        """Whether the left side stands for `concat`, and not in the text."""
        subscript = self.subscript
        return (
            self.read is None
            and isinstance(subscript, p.Index)
            and subscript.span.text != (subscript.name)
        )

    @property
    def constrains(self) -> bool:
        """Whether it may take part in rounds: reads inside pad do so where bare (G9)."""
        return self.read is None or not self.read.bare_only or self.is_bare

    @property
    def text(self) -> str:
        return self.span.line

    @property
    def at_zero(self) -> str | None:
        """The read with 0 as this subscript, as text: how what has one element along a dimension
        is read by all; None for the left side."""
        if self.read is None:
            return None
        written = [one_line(subscript.span) for subscript in self.read.subscripts]
        written[self.axis] = "0"
        return f"{self.tensor}({','.join(written)})"


@dataclass(frozen=True, slots=True)
class GuardedRead:
    """A read with its subscripts (none at rank 0), evaluated where all guards have their value."""

    read: p.Read
    accesses: tuple[SubscriptAccess, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """An integer division and its guards."""

    node: p.Binary
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Accesses:
    """All accesses of a statement: the left side first, then in text order."""

    written: tuple[SubscriptAccess, ...]
    reads: tuple[GuardedRead, ...]
    exists: tuple[SubscriptAccess, ...]
    divisions: tuple[Division, ...]
    tensors: frozenset[str]
    """Tensors other than the target whose shapes the statement needs (G3)."""
    sizes: frozenset[str]
    all: tuple[SubscriptAccess, ...]


def accesses_of(statement: p.Statement) -> Accesses:
    """The accesses, integer divisions and needed shapes of a statement."""
    reads: list[GuardedRead] = []
    divisions: list[Division] = []
    needed: list[p.Expr] = []
    written = tuple(_subscripts(statement.subscripts, statement.target, _target_span(statement)))
    everything = list(written)
    for node, guards in _evaluated(statement.rhs, ()):
        match node:
            case p.Read() | p.Extent() | p.Size():
                needed.append(node)
        match node:
            case p.Read():
                accesses = tuple(_read(node, len(everything), False))
                everything += accesses
                reads.append(GuardedRead(node, accesses, guards))
            case p.Binary(op=("/" | "%"), dtype=dtype) if dtype.is_integer:
                divisions.append(Division(node, guards))
    exists: list[SubscriptAccess] = []
    for node in (n for read in statement.exists for n in p.walk(read)):
        needed.append(node)
        if isinstance(node, p.Read):
            exists += _read(node, len(everything) + len(exists), True)
    for clause in statement.where:
        needed += (*p.walk(clause.begin), *p.walk(clause.end))
    tensors = {n.tensor for n in needed if isinstance(n, p.Read | p.Extent)}
    return Accesses(
        written,
        tuple(reads),
        tuple(exists),
        tuple(divisions),
        frozenset(tensors - {statement.target}),
        frozenset(n.name for n in needed if isinstance(n, p.Size)),
        (*everything, *exists),
    )


def _evaluated(
    expr: p.Expr, guards: tuple[Guard, ...]
) -> Iterator[tuple[p.Expr, tuple[Guard, ...]]]:
    """The expression and all below it, in text order, each with the guards before it."""
    yield expr, guards
    match expr:
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            yield from _evaluated(condition, guards)
            yield from _evaluated(then, (*guards, (condition, True)))
            yield from _evaluated(otherwise, (*guards, (condition, False)))
        case p.Logical(op=("&&" | "||") as op, operands=(left, right)):
            yield from _evaluated(left, guards)
            yield from _evaluated(right, (*guards, (left, op == "&&")))
        case _:
            for child in p.children(expr):
                yield from _evaluated(child, guards)


def facts(guards: tuple[Guard, ...]) -> Iterator[Guard]:
    """The guards taken apart: conditions whose conjunction they are."""
    for condition, value in guards:
        match condition:
            case p.Logical(op="!", operands=(operand,)):
                yield from facts(((operand, not value),))
            case p.Logical(op=op, operands=operands) if op == ("&&" if value else "||"):
                yield from facts(tuple((operand, value) for operand in operands))
            case _:
                yield condition, value


def _target_span(statement: p.Statement) -> Span:
    """The left side without the operator: up to the last parenthesis of the subscripts."""
    spans = [s.span for s in statement.subscripts if s.span.source == statement.span.source]
    start = statement.span.start
    end = max((s.end for s in spans if start <= s.start < statement.span.end), default=start)
    closing = statement.span.source.text.find(")", end, statement.span.end)
    return statement.span if closing < 0 else Span(statement.span.source, start, closing + 1)


def _read(read: p.Read, first: int, inferring_only: bool) -> Iterator[SubscriptAccess]:
    return _subscripts(read.subscripts, read.tensor, read.span, first, read, inferring_only)


def _subscripts(
    subscripts: tuple[p.Expr, ...],
    tensor: str,
    span: Span,
    first: int = 0,
    read: p.Read | None = None,
    inferring_only: bool = False,
) -> Iterator[SubscriptAccess]:
    for axis, subscript in enumerate(subscripts):
        variables, boundable = _variables(subscript)
        yield SubscriptAccess(
            first + axis, tensor, axis, subscript, span, read, inferring_only, variables, boundable
        )


def _variables(expr: p.Expr) -> tuple[tuple[str, ...], frozenset[str]]:
    if isinstance(expr, p.Index):
        return (expr.name,), frozenset((expr.name,))
    names = tuple(dict.fromkeys(n.name for n in p.walk(expr) if isinstance(n, p.Index)))
    return names, frozenset(_outside_remainders(expr))


def _outside_remainders(expr: p.Expr) -> Iterator[str]:
    if isinstance(expr, p.Index):
        yield expr.name
    elif not (isinstance(expr, p.Binary) and expr.op == "%"):
        for child in p.children(expr):
            yield from _outside_remainders(child)
