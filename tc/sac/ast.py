"""The syntax tree of SaC's notation (C1): what the text says, before any name or shape is known.

Trees are immutable. Spans do not take part in comparison, so a tree that is printed and parsed
again equals the first one.

    Module    ::= Definition* | Body
    Body      ::= Statement* Expr*
    Statement ::= Assign | If
    Expr      ::= Number | Bool | Name | Row | Select | Call | Cast | Unary | Binary | Conditional
                | Comprehension | WithLoop
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tc.source import Source, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


# --- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal. `text` is as written, suffix included (C2); `value` is an int or a float."""

    text: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Bool(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An identifier: an input, a parameter, a variable, an index, a size of a declared type."""

    text: str


@dataclass(frozen=True, slots=True)
class Row(Node):
    """`[a, b]`: an array of rows of one shape; `[]` is an empty integer vector (C7)."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Dot(Node):
    """`.`: one axis of a pattern or a selection, or an edge of the result as a bound (C17)."""


@dataclass(frozen=True, slots=True)
class Dots(Node):
    """`...`: any number of axes of a pattern or a selection."""


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`a[iv]`, `a[i, j]`, `a[i, ., j]`, `a[..., i]` (C8). One item that is an expression may be an
    index vector; of several, each is a scalar."""

    array: Expr
    items: tuple[Expr | Dot | Dots, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(a, b)`: a built-in function (C9), or one that the text defines."""

    function: Name
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`float(x)`; `spelling` is as written (T3)."""

    spelling: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is "-" or "!"."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`op` is one of + - * / % == != < <= > >= && || ++."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class VectorPattern(Node):
    """`iv` before an arrow or between bounds: an index vector of any length."""

    name: Name


@dataclass(frozen=True, slots=True)
class ScalarPattern(Node):
    """`[i, ., k]` before an arrow, or `[i, k]` between bounds: scalar indices and, in a pattern,
    dots (C3, C19)."""

    entries: tuple[Name | Dot | Dots, ...]

    @property
    def names(self) -> tuple[Name, ...]:
        """The indices without the dots."""
        return tuple(entry for entry in self.entries if isinstance(entry, Name))


Pattern: TypeAlias = VectorPattern | ScalarPattern


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """A side of a generator: `value` relates to the index by `<` if it is `strict`, else by `<=`.

    A lower bound that is strict, `l < i`, begins at `l + 1`; an upper one that is not, `i <= u`,
    ends at `u + 1` (C14)."""

    value: Expr | Dot
    strict: bool


@dataclass(frozen=True, slots=True)
class Generator(Node):
    """`lower <= index < upper`, of which one bound may be missing, but in with-loops."""

    lower: Bound | None
    index: Pattern
    upper: Bound | None


@dataclass(frozen=True, slots=True)
class Part(Node):
    """`pattern -> body | generator`: one partition of a comprehension."""

    pattern: Pattern
    body: Expr
    generator: Generator | None


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`{ part; part }` (C11)."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class LoopPart(Node):
    """`(lower <= index < upper) { statements } : body;` of a with-loop (C21)."""

    generator: Generator
    statements: tuple[Statement, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Genarray(Node):
    """`genarray(shape, default)` of a with-loop."""

    shape: Expr
    default: Expr


@dataclass(frozen=True, slots=True)
class Modarray(Node):
    """`modarray(array)` of a with-loop."""

    array: Expr


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """`fold(op, neutral)` of a with-loop; `op` is one of + * min max && ||."""

    op: str
    neutral: Expr


@dataclass(frozen=True, slots=True)
class WithLoop(Node):
    """`with { parts } : operation` (C21)."""

    parts: tuple[LoopPart, ...]
    operation: Genarray | Modarray | Fold


Expr: TypeAlias = (
    Number
    | Bool
    | Name
    | Row
    | Select
    | Call
    | Cast
    | Unary
    | Binary
    | Conditional
    | Comprehension
    | WithLoop
)


# --- statements and definitions -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`a, b = f(x);` or `a += x;`. `op` is "" of a plain one, else one of + - * / % and the target
    is one name."""

    targets: tuple[Name, ...]
    op: str
    value: Expr

    @property
    def whole_value(self) -> Expr:
        """What the targets are set to: `a + x` for `a += x`."""
        if not self.op:
            return self.value
        return Binary(self.op, self.targets[0], self.value, span=self.value.span)


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if (condition) { then } else { otherwise }` (C10); `otherwise` is empty without an `else`,
    and holds one If for `else if`."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement: TypeAlias = Assign | If


@dataclass(frozen=True, slots=True)
class Size(Node):
    """One entry between the brackets of a type (C6).

    `.` is any size: `count` and `name` are None. `3` and `n` are a size: `count` is the number, or
    the name of the size. `d:shp` is `count` axes whose sizes are the vector `name`; `2:shp` two."""

    count: int | Name | None
    name: Name | None


@dataclass(frozen=True, slots=True)
class Type(Node):
    """`float[n, .]`. `element` is the spelling (T3); `sizes` is "*" (any shape), "+" (no scalar),
    or the entries in order, none for a scalar."""

    element: str
    sizes: str | tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    type: Type
    name: Name


@dataclass(frozen=True, slots=True)
class Body(Node):
    """Statements, and the results behind them: one for a text that is an expression."""

    statements: tuple[Statement, ...]
    results: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Definition(Node):
    """`float[*] f(float[*] x) { ... return e; }`."""

    types: tuple[Type, ...]
    name: Name
    parameters: tuple[Parameter, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class Module:
    """A text: its definitions, or its statements and one expression (C1). A text of definitions has
    no `body`."""

    source: Source = field(compare=False, repr=False)
    definitions: tuple[Definition, ...]
    body: Body | None
