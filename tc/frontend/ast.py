"""The syntax tree: what the text says, before any name or type is known.

Trees are immutable. Spans do not take part in comparison, so a printed and parsed again tree
equals the first one.

    Module  ::= Def*
    Def     ::= def NAME [< Variable* >] (Param*) -> (Return*) { Stmt* }
    Stmt    ::= Comprehension | CallStatement
    Clause  ::= RangeClause | Binding | Exists
    Expr    ::= Number | Name | Dim | Apply | Cast | Unary | Binary | Conditional
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An identifier: a size, a tensor of rank 0, an index variable; the checker decides."""

    text: str


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal. `text` is as written, suffix included; `value` is an int or a float."""

    text: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Dim(Node):
    """`T.1`, the size of dimension 1 of tensor T, counted from 0 (T2)."""

    tensor: Name
    axis: int


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """`f(a, b)`: a tensor read, a built-in function or `pad`; the checker decides."""

    name: Name
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`int32(x)`; `spelling` is as written (T3)."""

    spelling: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is "-", "+", "!" or "~"."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`op` is one of + - * / % == != < <= > >= && || & | ^ << >>."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Expr
    then: Expr
    otherwise: Expr


Expr: TypeAlias = Number | Name | Dim | Apply | Cast | Unary | Binary | Conditional


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in text order."""
    match expr:
        case Apply(args=args):
            return args
        case Cast(operand=operand) | Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, each before its operands, the last operand first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


@dataclass(frozen=True, slots=True)
class RangeClause(Node):
    """`k in begin:end` of a where clause."""

    variable: Name
    begin: Expr
    end: Expr


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """`x = exp` of a where clause (T5)."""

    name: Name
    value: Expr


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """`exists T(i, j)` of a where clause (T5)."""

    read: Apply


Clause: TypeAlias = RangeClause | Binding | Exists


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """`<=> name(args)` after a statement: kept and ignored (T5)."""

    name: Name
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`target(indices) op rhs where clauses`.

    `indices` is None where the target has no parentheses; `o() = x` has `()`. `op` is as
    written: "=", "+=", "*=", "min=", "max=", "&=", "|=", "^=", or a reduction with "!". A call of
    another def by one plain target, `O1 = MLP1(I, W)`, looks like this too, and only the checker
    knows.
    """

    target: Name
    indices: tuple[Name, ...] | None
    op: str
    op_span: Span = field(compare=False, repr=False)
    rhs: Expr
    where: tuple[Clause, ...] = ()
    annotation: Annotation | None = None


@dataclass(frozen=True, slots=True)
class CallStatement(Node):
    """`a, b = f(x, y)` or `(a, b) = f(x, y)`."""

    targets: tuple[Name, ...]
    callee: Name
    args: tuple[Expr, ...]


Statement: TypeAlias = Comprehension | CallStatement


@dataclass(frozen=True, slots=True)
class TensorType(Node):
    """`float(N, 3)`: spelling as written; `dims` is None where there are no parentheses."""

    spelling: str
    dims: tuple[Name | Number, ...] | None


@dataclass(frozen=True, slots=True)
class Param(Node):
    type: TensorType
    name: Name


@dataclass(frozen=True, slots=True)
class Return(Node):
    """A returned name; `type` is None where it is inferred (T4)."""

    type: TensorType | None
    name: Name


@dataclass(frozen=True, slots=True)
class TypeVariable(Node):
    """`T: half | float` of a def's head (T6); `bound` has the spellings as written, and is empty
    where any type will do. Types and casts that name a variable have it as their spelling."""

    name: Name
    bound: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Def(Node):
    """`variables` are the type variables; `variables_span` is their list with its brackets."""

    name: Name
    params: tuple[Param, ...]
    returns: tuple[Return, ...]
    body: tuple[Statement, ...]
    variables: tuple[TypeVariable, ...] = ()
    variables_span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A text: its defs in order. `span.source` is the Source."""

    defs: tuple[Def, ...]
