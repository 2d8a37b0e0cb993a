"""The accesses of a statement: each subscript with its variables, and the guards before it.

A guard is a condition that decides whether an expression is evaluated at all (Y6): that of a
`?:`, or the left operand of `&&` or `||`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.builtins.operators import MIRRORED, NEGATED
from tc.dtypes import INT64, limits
from tc.semantics import program as p
from tc.semantics.affine import Guard
from tc.semantics.dependent_ranges import HIGH, LOW, dependent, domain_guards, ends_of
from tc.semantics.suggest import one_line
from tc.source import Span


@dataclass(frozen=True, slots=True)
class SubscriptAccess:
    """One subscript of a read, of a `where exists`, or of the left side.

    `variables` are those written in the subscript, `boundable` those of them that occur not only
    under % (G2). `read` is None for the left side.
    `number` counts the accesses of the statement, the left side first.

    `side` is "" for a subscript of the text. An access in a variable whose range depends on others
    stands in the rounds as two accesses in those others (W2): LOW, where the subscript is least,
    which must not be below 0, and HIGH, where it is greatest, which must be below the extent; then
    `is_bare_in_text` tells of the subscript of the text.
    """

    number: int
    tensor: str
    axis: int
    subscript: p.Expr
    span: Span
    read: p.Read | None
    variables: tuple[str, ...]
    boundable: frozenset[str]
    side: str = ""
    is_bare_in_text: bool = False

    def others(self, variable: str) -> tuple[str, ...]:
        return tuple(name for name in self.variables if name != variable)

    @property
    def is_bare(self) -> bool:
        return isinstance(self.subscript, p.Index) and not self.side

    @property
    def is_made(self) -> bool:
        """Whether the left side stands for `concat`, and not in the text."""
        index = self.subscript
        return self.read is None and isinstance(index, p.Index) and index.span.text != index.name

    @property
    def constrains(self) -> bool:
        """Whether it may take part in rounds: reads inside pad do so where bare (G9)."""
        is_bare = self.is_bare or self.is_bare_in_text
        return self.read is None or not self.read.bare_only or is_bare

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


Comparison: TypeAlias = tuple[str, p.Expr]
"""An operator, and an expression of which the value of another is on the left side."""


@dataclass(frozen=True, slots=True)
class GuardedRead:
    """A read with its subscripts (none at rank 0), evaluated where all guards have their value.

    No guard is a conjunction. `comparisons` are, for each subscript, what the guards say of its
    value.
    """

    read: p.Read
    accesses: tuple[SubscriptAccess, ...]
    guards: tuple[Guard, ...]
    comparisons: tuple[tuple[Comparison, ...], ...]


@dataclass(frozen=True, slots=True)
class Division:
    """An integer division, its guards, none of them a conjunction, and what these say of the value
    of the divisor."""

    node: p.Binary
    guards: tuple[Guard, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Accesses:
    """All accesses of a statement: the left side first, then in text order.

    `guards` are those before the statement's instances: its dependent ranges and conditions, none
    a conjunction; `comparisons` are what they say of each subscript in `written`.
    """

    written: tuple[SubscriptAccess, ...]
    guards: tuple[Guard, ...]
    comparisons: tuple[tuple[Comparison, ...], ...]
    reads: tuple[GuardedRead, ...]
    divisions: tuple[Division, ...]
    tensors: frozenset[str]
    """Tensors other than the target whose shapes the statement needs (G3)."""
    sizes: frozenset[str]
    all: tuple[SubscriptAccess, ...]
    """With those of `where exists`, last, and with two for each in a dependent variable."""

    def with_clauses_of(self, statement: p.Statement) -> Accesses:
        """The accesses of a statement of which those at hand are, but for its `where`."""
        tensors, sizes = _needed(statement)
        return replace(self, tensors=tensors, sizes=sizes)


def accesses_of(statement: p.Statement) -> Accesses:
    """The accesses, integer divisions and needed shapes of a statement."""
    reads: list[GuardedRead] = []
    divisions: list[Division] = []
    everything: list[SubscriptAccess] = []

    def accesses(
        tensor: str, subscripts: tuple[p.Expr, ...], span: Span, read: p.Read | None
    ) -> tuple[SubscriptAccess, ...]:
        first = len(everything)
        for axis, subscript in enumerate(subscripts):
            names, boundable = _names(subscript)
            everything.append(
                SubscriptAccess(first + axis, tensor, axis, subscript, span, read, names, boundable)
            )
        return tuple(everything[first:])

    def add(expr: p.Expr, before: tuple[Guard, ...]) -> None:
        for node, conditions in _evaluated(expr, before):
            match node:
                case p.Read():
                    found = accesses(node.tensor, node.subscripts, node.span, node)
                    guards = tuple(_conjuncts(conditions))
                    said = tuple(_comparisons(subscript, guards) for subscript in node.subscripts)
                    reads.append(GuardedRead(node, found, guards, said))
                case p.Binary(op=("/" | "%"), dtype=dtype) if dtype.is_integer:
                    guards = tuple(_conjuncts(conditions))
                    divisions.append(Division(node, guards, _comparisons(node.right, guards)))

    place = _target_span(statement)
    written = tuple(
        access
        for target in statement.targets
        for access in accesses(target, statement.subscripts, place, None)
    )
    for clause in statement.where:
        upstream = domain_guards(statement, set(clause.depends_on))
        for bound in (clause.begin, clause.end) if clause.kind != p.SIZES else ():
            add(bound, upstream)
    domain = domain_guards(statement)
    for test in statement.conditions:
        add(test, domain)
        domain = (*domain, (test, True))
    for subscript in statement.subscripts:
        add(subscript, domain)
    for value in statement.values:
        add(value, domain)
    for node in (n for read in statement.exists for n in p.walk(read)):
        if isinstance(node, p.Read):
            accesses(node.tensor, node.subscripts, node.span, node)
    tensors, sizes = _needed(statement)
    guards = tuple(_conjuncts(domain))
    return Accesses(
        written,
        guards,
        tuple(_comparisons(access.subscript, guards) for access in written),
        tuple(reads),
        tuple(divisions),
        tensors,
        sizes,
        _in_rounds(statement, everything),
    )


def _in_rounds(statement: p.Statement, found: list[SubscriptAccess]) -> tuple[SubscriptAccess, ...]:
    """The accesses as they bound ranges: those in dependent variables at the ends of these."""
    open_ = dependent(statement).keys()
    if not open_:
        return tuple(found)
    result: list[SubscriptAccess] = []
    number = len(found)
    for access in found:
        if not open_ & set(access.variables):
            result.append(access)
            continue
        for side in (LOW, HIGH):
            subscript = ends_of(access.subscript, statement, side)
            if subscript is not None:
                names, boundable = _names(subscript)
                result.append(
                    replace(
                        access,
                        number=number,
                        subscript=subscript,
                        variables=names,
                        boundable=boundable,
                        side=side,
                        is_bare_in_text=access.is_bare,
                    )
                )
                number += 1
    return tuple(result)


def _names(subscript: p.Expr) -> tuple[tuple[str, ...], frozenset[str]]:
    return p.index_names(subscript), frozenset(_outside_remainders(subscript))


def _needed(statement: p.Statement) -> tuple[frozenset[str], frozenset[str]]:
    """The tensors other than the targets whose shapes a statement needs, and the sizes."""
    nodes = [n for expr in statement.expressions for n in p.walk(expr)]
    tensors = {n.tensor for n in nodes if isinstance(n, p.Read | p.Extent)}
    sizes = {n.name for n in nodes if isinstance(n, p.Size)}
    return frozenset(tensors - {*statement.targets}), frozenset(sizes)


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


def _conjuncts(guards: tuple[Guard, ...]) -> Iterator[Guard]:
    """The guards taken apart: conditions whose conjunction they are."""
    for condition, value in guards:
        match condition:
            case p.Logical(op="!", operands=(operand,)):
                yield from _conjuncts(((operand, not value),))
            case p.Logical(op=op, operands=operands) if op == ("&&" if value else "||"):
                yield from _conjuncts(tuple((operand, value) for operand in operands))
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


def _comparisons(expr: p.Expr, guards: tuple[Guard, ...]) -> tuple[Comparison, ...]:
    """What guards say of the value of one expression."""
    same = _unconverted(expr) if guards else ()
    found: list[Comparison] = []
    for condition, value in guards:
        match condition:
            case p.Compare(op=op, left=left, right=right):
                op = op if value else NEGATED[op]
                sides = ((op, left, right), (MIRRORED[op], right, left))
                found += [(op, other) for op, side, other in sides if _unconverted(side) == same]
            case p.Convert(operand=operand) if _unconverted(operand) == same:
                zero = p.Literal(0, INT64, span=operand.span)
                found.append(("!=" if value else "==", zero))
    return tuple(found)


def _unconverted(expr: p.Expr) -> tuple[object, ...]:
    """What identifies the value of an expression: its form below conversions that keep every
    value, whatever the sites in it."""
    while isinstance(expr, p.Convert) and expr.operand.dtype.is_integer and expr.dtype.is_integer:
        (low, high), (least, largest) = limits(expr.operand.dtype), limits(expr.dtype)
        if low < least or high > largest:
            break
        expr = expr.operand
    return _form(expr)


def _form(expr: p.Expr) -> tuple[object, ...]:
    own = (getattr(expr, name, None) for name in _IDENTIFYING)
    return (type(expr), *own, *map(_form, p.children(expr)))


_IDENTIFYING = ("dtype", "op", "function", "tensor", "name", "axis", "value")
