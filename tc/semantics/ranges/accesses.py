"""The accesses of a statement: each subscript with its variables, and the guards before it.

A guard is a condition that decides whether an expression is evaluated at all (Y6): that of a
`?:`, or the left operand of `&&` or `||`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tc.semantics import program as p
from tc.semantics.affine import Guard
from tc.semantics.suggest import one_line
from tc.source import Span


@dataclass(frozen=True, slots=True)
class SubscriptAccess:
    """One subscript of a read, of a `where exists`, or of the left side.

    `variables` are those written in the subscript, `boundable` those of them that occur not only
    under % (G2). `read` is None for the left side.
    `number` counts the accesses of the statement, the left side first.
    """

    number: int
    tensor: str
    axis: int
    subscript: p.Expr
    span: Span
    read: p.Read | None
    variables: tuple[str, ...]
    boundable: frozenset[str]

    def others(self, variable: str) -> tuple[str, ...]:
        return tuple(name for name in self.variables if name != variable)

    @property
    def is_bare(self) -> bool:
        return isinstance(self.subscript, p.Index)

    @property
    def is_made(self) -> bool:
        """Whether the left side stands for `concat`, and not in the text."""
        index = self.subscript
        return self.read is None and isinstance(index, p.Index) and index.span.text != index.name

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
    divisions: tuple[Division, ...]
    tensors: frozenset[str]
    """Tensors other than the target whose shapes the statement needs (G3)."""
    sizes: frozenset[str]
    all: tuple[SubscriptAccess, ...]
    """With those of `where exists`, last."""


def accesses_of(statement: p.Statement) -> Accesses:
    """The accesses, integer divisions and needed shapes of a statement."""
    reads: list[GuardedRead] = []
    divisions: list[Division] = []
    needed: list[p.Expr] = []
    everything: list[SubscriptAccess] = []

    def accesses(
        tensor: str, subscripts: tuple[p.Expr, ...], span: Span, read: p.Read | None
    ) -> tuple[SubscriptAccess, ...]:
        first = len(everything)
        for axis, subscript in enumerate(subscripts):
            names, boundable = p.index_names(subscript), frozenset(_outside_remainders(subscript))
            everything.append(
                SubscriptAccess(first + axis, tensor, axis, subscript, span, read, names, boundable)
            )
        return tuple(everything[first:])

    written = accesses(statement.target, statement.subscripts, _target_span(statement), None)
    for node, guards in _evaluated(statement.rhs, ()):
        needed.append(node)
        match node:
            case p.Read():
                found = accesses(node.tensor, node.subscripts, node.span, node)
                reads.append(GuardedRead(node, found, guards))
            case p.Binary(op=("/" | "%"), dtype=dtype) if dtype.is_integer:
                divisions.append(Division(node, guards))
    for node in (n for read in statement.exists for n in p.walk(read)):
        needed.append(node)
        if isinstance(node, p.Read):
            accesses(node.tensor, node.subscripts, node.span, node)
    for clause in statement.where:
        needed += (*p.walk(clause.begin), *p.walk(clause.end))
    tensors = {n.tensor for n in needed if isinstance(n, p.Read | p.Extent)}
    return Accesses(
        written,
        tuple(reads),
        tuple(divisions),
        frozenset(tensors - {statement.target}),
        frozenset(n.name for n in needed if isinstance(n, p.Size)),
        tuple(everything),
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


def _outside_remainders(expr: p.Expr) -> Iterator[str]:
    if isinstance(expr, p.Index):
        yield expr.name
    elif not (isinstance(expr, p.Binary) and expr.op == "%"):
        for child in p.children(expr):
            yield from _outside_remainders(child)
