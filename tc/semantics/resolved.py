"""Statements with their names resolved and their calls inlined, before any type is known.

Between the syntax tree and the Program: every name is what it means (a size, an extent, an index
variable, a tensor under its name in the program), but the types of temporaries and of unannotated
outputs are still open. `flatten` makes it and `type_program` and `lower_statement` read it.

    Flat      ::= FlatTensor* SizeDef* Equality* FlatStatement*
    Resolved  ::= Number | Size | Extent | Index | Read | Unary | Binary | Compare | Logical
                | Conditional | Cast | Function | Pad | BindingUse
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.dtypes import DType
from tc.semantics.program import Equality, Expr, ProgramWarning, SizeDef
from tc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    value: int | float


@dataclass(frozen=True, slots=True, eq=False)
class Size(Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Extent(Node):
    tensor: str
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Read(Node):
    tensor: str
    subscripts: tuple[Resolved, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    """`op` is "-" or "+"; "!" is a Logical."""

    op: str
    operand: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """`op` is one of + - * / % min max."""

    op: str
    left: Resolved
    right: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Node):
    op: str
    left: Resolved
    right: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Logical(Node):
    """`op` is "&&" or "||" with two operands, or "!" with one."""

    op: str
    operands: tuple[Resolved, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    condition: Resolved
    then: Resolved
    otherwise: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    dtype: DType
    operand: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Function(Node):
    """A function of tc.builtins by its canonical name; `keeps` where its type is its argument's
    (`abs`), otherwise it computes in a floating type (Y2)."""

    name: str
    keeps: bool
    args: tuple[Resolved, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pad(Node):
    """`pad(inside, outside)` (G9)."""

    inside: Resolved
    outside: Resolved


@dataclass(frozen=True, slots=True, eq=False)
class BindingUse(Node):
    """A use of a binding of the where clause: its value stands here (T5). Uses share the value,
    so what is resolved is a graph, and grows no faster than the text."""

    value: Resolved
    height: int


Resolved: TypeAlias = (
    Number | Size | Extent | Index | Read | Unary | Binary | Compare | Logical | Conditional | Cast
    | Function | Pad | BindingUse
)  # fmt: skip


def operands(expr: Resolved) -> tuple[Resolved, ...]:
    """The direct operands, in text order; subscripts count."""
    match expr:
        case Read(subscripts=subscripts):
            return subscripts
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Unary(operand=operand) | Cast(operand=operand):
            return (operand,)
        case Logical(operands=several) | Function(args=several):
            return several
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Pad(inside=inside, outside=outside):
            return (inside, outside)
        case BindingUse(value=value):
            return (value,)
        case _:
            return ()


def height(expr: Resolved) -> int:
    """How deep the tree is where bindings are substituted; a leaf counts 0."""
    if isinstance(expr, BindingUse):
        return expr.height
    return max((1 + height(operand) for operand in operands(expr)), default=0)


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """A tensor of the program; `declared` is its element type where the text states it, with the
    place that does."""

    name: str
    rank: int
    role: str  # "input", "output" or "temporary"
    declared: DType | None
    declared_at: Span | None
    shape: tuple[Expr, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class FlatRange:
    variable: str
    begin: Resolved
    end: Resolved
    span: Span


@dataclass(frozen=True, slots=True)
class FlatStatement:
    """A statement of the entry or of an inlined def; fields as those of program.Statement.

    `calls` are the call statements that lead here from the entry, outermost first. `target_text`
    is the target as the text names it.
    """

    target: str
    target_text: str
    subscripts: tuple[Resolved, ...]
    outer: tuple[str, ...]
    variables: Mapping[str, Span]
    op: str
    init: bool
    continues: str
    rhs: Resolved
    where: tuple[FlatRange, ...]
    exists: tuple[Read, ...]
    reads: frozenset[str]  # the tensors that the right-hand side reads
    span: Span
    calls: tuple[Span, ...]


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
