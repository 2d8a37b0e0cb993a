"""The syntax tree: what the text says, before any name or type is known.

Trees are immutable. Spans do not take part in comparison, so a printed and parsed again tree
equals the first one.

    Module  ::= Def*
    Def     ::= def NAME [< Variable* >] (Param*) -> (Return*) { Stmt* }
    Stmt    ::= Comprehension | CallStatement
    Clause  ::= RangeClause | Binding | Exists | Condition | SizeClause
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
    """`k in begin:end` of a where clause; the bounds may use other index variables and tensors (W2,
    W3)."""

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


@dataclass(frozen=True, slots=True)
class Condition(Node):
    """`test` of a where clause: the instances for which it does not hold do not exist (W1)."""

    test: Expr


@dataclass(frozen=True, slots=True)
class SizeClause(Node):
    """`T.1 = exp` of a where clause: the size of a dimension of a target (S4)."""

    tensor: Name
    axis: int
    value: Expr


Clause: TypeAlias = RangeClause | Binding | Exists | Condition | SizeClause


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """`<=> name(args)` after a statement: kept and ignored (T5)."""

    name: Name
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Target(Node):
    """`T(i, k + 1)` on the left of a statement, a place for each instance (S1).

    `subscripts` is None where the target has no parentheses; `o() = x` has `()`.
    """

    name: Name
    subscripts: tuple[Expr, ...] | None


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`targets op values where clauses`: one value for each target (V1).

    `op` is as written: "=", "+=", "*=", "min=", "max=", "&=", "|=", "^=", or a reduction with "!".
    A call of another def by one plain target, `O1 = MLP1(I, W)`, looks like this too, and only the
    checker knows.
    """

    targets: tuple[Target, ...]
    op: str
    op_span: Span = field(compare=False, repr=False)
    values: tuple[Expr, ...]
    where: tuple[Clause, ...] = ()
    annotation: Annotation | None = None

    @property
    def target(self) -> Name:
        """The first target's name."""
        return self.targets[0].name

    @property
    def indices(self) -> tuple[Expr, ...] | None:
        """The subscripts of the first target."""
        return self.targets[0].subscripts

    @property
    def rhs(self) -> Expr:
        """The first target's value."""
        return self.values[0]

    @property
    def written(self) -> tuple[Name, ...]:
        """The names of all targets."""
        return tuple(target.name for target in self.targets)

    @property
    def index_texts(self) -> list[str]:
        """The subscripts of the first target as the text has them: names where they are bare."""
        return [subscript.span.line for subscript in self.indices or ()]


@dataclass(frozen=True, slots=True)
class CallStatement(Node):
    """`a, b = f(x, y)` or `(a, b) = f(x, y)`."""

    targets: tuple[Name, ...]
    callee: Name
    args: tuple[Expr, ...]

    @property
    def written(self) -> tuple[Name, ...]:
        """The names of all targets."""
        return self.targets


Statement: TypeAlias = Comprehension | CallStatement


def expressions(statement: Statement) -> Iterator[Expr]:
    """The outermost expressions of a statement, in text order."""
    if isinstance(statement, CallStatement):
        yield from statement.args
        return
    for target in statement.targets:
        yield from target.subscripts or ()
    yield from statement.values
    for clause in statement.where:
        match clause:
            case RangeClause(begin=begin, end=end):
                yield from (begin, end)
            case Binding(value=value) | SizeClause(value=value) | Condition(test=value):
                yield value
            case Exists(read=read):
                yield read
    if statement.annotation is not None:
        yield from statement.annotation.args


@dataclass(frozen=True, slots=True)
class TensorType(Node):
    """`float(N, 3)`: spelling as written; `dims` is None where there are no parentheses."""

    spelling: str
    dims: tuple[Name | Number, ...] | None


@dataclass(frozen=True, slots=True)
class Param(Node):
    """`default` is a literal, or one with a sign (E5)."""

    type: TensorType
    name: Name
    default: Expr | None = None


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
