"""Statements with their names resolved and their calls inlined, before any type is known.

Between the syntax tree and the Program: every name is what it means (a size, an extent, an index
variable, a tensor under its name in the program), but the types of temporaries and of unannotated
outputs are still open. `flatten` makes it and `type_program` and `lower_statement` read it.

    Flat      ::= FlatTensor* SizeDef* Equality* FlatStatement*

Expressions are those of `tc.semantics.program` with `OPEN` where a type will stand, and with two
forms that typing removes: a use of a binding (`use_of`), and `pad` without its condition
(`pad_of`). Uses share the value of their binding, so an expression is a graph, which grows no
faster than the text: what is known of its nodes is kept by their identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.dtypes import BOOL, DType, dtype_of
from tc.semantics.program import (
    Equality,
    Expr,
    Literal,
    ProgramWarning,
    Read,
    Select,
    SizeDef,
    Unary,
    children,
)
from tc.source import Span

OPEN = dtype_of("open", "open", 0)
"""Stands for a type that is not known yet."""

USE = "use"
"""The operator of a use of a binding."""


def use_of(value: Expr, span: Span) -> Unary:
    """A use, at `span`, of a binding of the where clause: its value stands here (T5)."""
    return Unary(USE, value, OPEN, span=span)


def is_use(expr: Expr) -> bool:
    """Whether an expression is a use of a binding."""
    return isinstance(expr, Unary) and expr.op == USE


def pad_of(inside: Expr, outside: Expr, span: Span) -> Select:
    """`pad(inside, outside)` (G9): what decides between them follows from the reads in `inside`."""
    unknown = Literal(True, BOOL, span=inside.span)
    return Select(unknown, inside, outside, OPEN, padded=True, span=span)


def height(expr: Expr, of_bindings: Mapping[int, int]) -> int:
    """How deep the tree is where bindings are substituted; a leaf counts 0. `of_bindings` has the
    heights of the values of bindings, by identity."""
    if isinstance(expr, Unary) and is_use(expr):
        return of_bindings[id(expr.operand)]
    found = 0
    for operand in children(expr):
        found = max(found, 1 + height(operand, of_bindings))
    return found


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """A tensor of the program; `declared` is its element type where the text states one, with the
    place in the text."""

    name: str
    rank: int
    role: str  # "input", "output" or "temporary"
    declared: DType | None
    declared_at: Span | None
    shape: tuple[Expr, ...] | None
    span: Span
    default: int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class FlatRange:
    variable: str
    begin: Expr
    end: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FlatSize:
    target: str
    axis: int
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FlatCompanion:
    """One more target of a statement, and its value."""

    target: str
    target_text: str
    rhs: Expr
    continues: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a statement says of one of its targets; `op` is "=" for what the first value of a
    minimum or maximum chooses (V1)."""

    target: str
    target_text: str
    op: str
    rhs: Expr


@dataclass(frozen=True, slots=True)
class FlatStatement:
    """A statement of the entry or of an inlined def; fields as those of program.Statement.

    `calls` are the call statements that lead here from the entry, outermost first. `target_text`
    is the target as the text names it.
    """

    target: str
    target_text: str
    subscripts: tuple[Expr, ...]
    outer: tuple[str, ...]
    variables: Mapping[str, Span]
    op: str
    init: bool
    continues: str
    rhs: Expr
    where: tuple[FlatRange, ...]
    exists: tuple[Read, ...]
    reads: frozenset[str]  # the tensors that the right-hand sides read
    span: Span
    calls: tuple[Span, ...]
    conditions: tuple[Expr, ...] = ()
    companions: tuple[FlatCompanion, ...] = ()
    sizes: tuple[FlatSize, ...] = ()

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """What the statement says of each of its targets, in text order."""
        op = "=" if self.op in ("min", "max") else self.op
        first = Definition(self.target, self.target_text, self.op, self.rhs)
        rest = (Definition(c.target, c.target_text, op, c.rhs) for c in self.companions)
        return (first, *rest)


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor given to a parameter of an inlined def, whose element type must agree (Y3)."""

    tensor: str
    text: str
    parameter: str
    callee: str
    declared: DType
    rank: int
    span: Span
    parameter_span: Span
    calls: tuple[Span, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Flat:
    """A def with the defs it calls inlined; fields as those of program.Program."""

    tensors: Mapping[str, FlatTensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    temporaries: tuple[str, ...]
    sizes: Mapping[str, SizeDef]
    equalities: tuple[Equality, ...]
    statements: tuple[FlatStatement, ...]
    arguments: tuple[Argument, ...]
    needs_initial: Mapping[str, Span]
    warnings: tuple[ProgramWarning, ...]
