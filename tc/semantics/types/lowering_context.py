"""The context in which expressions are lowered, their literals, and warnings (Y1, Y2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tc.dtypes import (
    BOOL,
    DTYPES,
    FLOAT64,
    INT64,
    DType,
    Type,
    Weak,
    compute_dtype,
    fits,
    is_lossy_mix,
    wrap,
)
from tc.errors import CheckError
from tc.semantics import program as p
from tc.semantics.resolved import is_use
from tc.semantics.suggest import one_line
from tc.semantics.types.constants import Constants, constant
from tc.semantics.types.type_inference import Memo, type_of
from tc.source import Span

MAX_STATEMENT_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Mode:
    """How an expression stands in its surroundings; `weak_float` is the type in which weak
    floating values are computed, `bare_only` and `late` go to the reads (G9); `whole`: a value
    must be an integer here, in a subscript or a bound."""

    index: bool = False
    weak_float: DType = FLOAT64
    bare_only: bool = False
    late: bool = False
    whole: bool = False

    def with_weak_float(self, dtype: DType) -> Mode:
        return self if self.weak_float == dtype else replace(self, weak_float=dtype)

    def as_index(self) -> Mode:
        return self if self.index else replace(self, index=True, weak_float=FLOAT64)

    def as_whole(self) -> Mode:
        return self if self.whole else replace(self.as_index(), whole=True)


@dataclass(frozen=True, slots=True)
class LoweringContext:
    """What is known while one statement is lowered, and what is found.

    `scalars` are the integer rank 0 inputs of the entry; those met in index mode are added to
    `static`. `sites` numbers the reads and integer divisions of the program. `room` holds one
    number, the nodes that the statement may still have.
    """

    tensors: Mapping[str, DType]
    types: Memo
    scalars: frozenset[str]
    sites: Iterator[int]
    static: set[str]
    warnings: list[p.ProgramWarning]
    constants: Constants = field(default_factory=dict)
    room: list[int] = field(default_factory=lambda: [MAX_STATEMENT_NODES])

    def type(self, expr: p.Expr) -> Type:
        """The type of a node; every tensor has one by now."""
        found = type_of(expr, self.tensors, self.types)
        assert found is not None
        return found

    def warn(self, rule: str, message: str, span: Span, repair: str) -> None:
        self.warnings.append(p.ProgramWarning(rule, message, span, repair))


def own_dtype(found: Type, mode: Mode) -> DType:
    """The type in which an expression of a type is computed."""
    if found is Weak.FLOAT:
        return mode.weak_float
    if isinstance(found, Weak) or (mode.index and found.is_integer):
        return INT64
    return compute_dtype(found)


def convert(expr: p.Expr, dtype: DType) -> p.Expr:
    """The expression in another type; literals change theirs where the value stays."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, p.Literal) and dtype.is_float and not isinstance(expr.value, bool):
        return p.Literal(float(expr.value), dtype, span=expr.span)
    return p.Convert(expr, dtype, span=expr.span)


def wrapped(value: int, dtype: DType) -> int | float | bool:
    """A whole number cast to a type: integers wrap around, floats round (Y4)."""
    if dtype == BOOL:
        return value != 0
    if dtype.is_float:
        return float(value) if fits(value, FLOAT64) else float("inf") * (1 if value > 0 else -1)
    return wrap(value, dtype)


def literal(value: int | float, dtype: DType, span: Span, mode: Mode) -> p.Expr:
    """A literal of a type; CheckError where the value does not fit the type (Y1)."""
    if not fits(value, dtype):
        paste = _roomier(value, span, mode)
        raise CheckError(
            f"the literal {shown(value)} does not fit {dtype}, the type that it takes here",
            rule="Y1",
            span=span,
            paste=paste,
            repair=None if paste else "write a number of at most 9223372036854775807",
        )
    return p.Literal(float(value) if dtype.is_float else value, compute_dtype(dtype), span=span)


def _roomier(value: int | float, span: Span, mode: Mode) -> str | None:
    if mode.whole and isinstance(value, int):  # no cast to a float may stand there
        return None
    for dtype in ("int32", "int64", "uint64") if isinstance(value, int) else ("float32",):
        if fits(value, DTYPES[dtype]):
            return f"{dtype}({one_line(span, 'x')})"
    return f"float64({one_line(span, 'x')})"


def shown(value: int | float) -> str:
    """A number as messages print it; a huge integer as "of about 2**400"."""
    if isinstance(value, int) and value.bit_length() > 130:
        return f"of about 2**{value.bit_length() - 1}"
    return repr(value)


def folded(expr: p.Expr, cx: LoweringContext) -> int | float | None:
    """The value of an expression of literals alone, with Y1's warning where it loses a rest."""
    value = constant(expr, cx.constants)
    if value is None or isinstance(expr, p.Literal):
        return value
    stack: list[p.Expr] = [expr]
    seen = {id(expr)}
    while stack:
        node = stack.pop()
        if isinstance(node, p.Binary) and node.op == "/":
            _warn_of_truncation(node, cx)
        for operand in p.children(node):
            if id(operand) not in seen:
                seen.add(id(operand))
                stack.append(operand)
    return value


def _warn_of_truncation(expr: p.Binary, cx: LoweringContext) -> None:
    """Warn where a division of whole literals loses its rest: `1/2` is 0 (Y1)."""
    left, right = constant(expr.left, cx.constants), constant(expr.right, cx.constants)
    if isinstance(left, int) and isinstance(right, int) and left % right:
        text = one_line(expr.span)
        cx.warn(
            "Y1",
            f"'{text}' is {shown(left // right)}: a division of whole numbers is a whole number",
            expr.span,
            f"{shown(left)}.0 / {shown(right)}",
        )


def warn_of_share(expr: p.Expr, cx: LoweringContext) -> None:
    """Warn where a number is divided by a size and the quotient becomes a float: `1/N` is 0
    wherever N is more than 1 (Y1)."""
    while isinstance(expr, p.Unary) and is_use(expr):
        expr = expr.operand
    if not isinstance(expr, p.Binary) or expr.op != "/" or cx.type(expr) is Weak.FLOAT:
        return
    left = constant(expr.left, cx.constants)
    if not isinstance(left, int) or left == 0 or not _is_product_of_sizes(expr.right):
        return
    text, divisor = one_line(expr.span), one_line(expr.right.span, "N")
    if isinstance(expr.right, p.Binary):
        divisor = f"({divisor})"
    limit = f"beyond {divisor} = {left}" if left > 0 else f"unless {divisor} divides {left}"
    cx.warn(
        "Y1",
        f"'{text}' is a division of whole numbers, which rounds down: it is "
        f"{0 if left > 0 else -1} {limit}",
        expr.span,
        f"{shown(left)}.0 / {divisor}",
    )


def _is_product_of_sizes(expr: p.Expr) -> bool:
    """Whether an expression is a product of sizes."""
    if isinstance(expr, p.Binary) and expr.op == "*":
        return _is_product_of_sizes(expr.left) and _is_product_of_sizes(expr.right)
    return isinstance(expr, p.Size | p.Extent)


def warn_of_mix(left: Type, right: Type, op: str, span: Span, cx: LoweringContext) -> None:
    """Warn where uint64 meets a signed type, since no type holds both (Y2)."""
    if is_lossy_mix(left, right):
        cx.warn(
            "Y2",
            f"'{op}' of {left} and {right} is computed in int64, which does not hold all uint64",
            span,
            f"cast one side to the type of the other: {left}(...)",
        )


def warn_of_negation(value: p.Expr, cx: LoweringContext) -> None:
    """Warn where `o(i) =! x(i)` assigns a negation: it looks like `+=!` and `!=` (T4)."""
    text, start = value.span.source.text, value.span.start
    is_negation = isinstance(value, p.Logical) and value.op == "!"
    if not is_negation or text[start - 1] != "=" or not text[start + 1].isspace():
        return
    inside = one_line(value.span, "!x").removeprefix("!").strip()
    cx.warn(
        "T4",
        f"'=! {inside}' assigns whether {inside} is 0: '=!' is no operator",
        Span(value.span.source, start - 1, value.span.end),
        f"= !{inside}, if that is meant, or = {inside}",
    )


def warn_of_chain(expr: p.Compare, cx: LoweringContext) -> None:
    """Warn where a comparison without parentheses compares the outcome of another: `0 < x < 2`
    is true for all x, as in C (T4, Y2)."""
    left = expr.left
    equalities = {"==", "!="}
    if not isinstance(left, p.Compare) or left.span.start != expr.span.start:
        return
    if (expr.op in equalities) != (left.op in equalities) or cx.type(expr.right) == BOOL:
        return
    source, start = expr.span.source, expr.span.start
    first_end = source.text.find(left.op, left.left.span.end)
    last_start = source.text.find(expr.op, left.span.end) + len(expr.op)
    first, middle, last = (  # as they are written, with the parentheses around them
        one_line(Span(source, begin, end)).strip()
        for begin, end in (
            (start, first_end),
            (first_end + len(left.op), left.span.end),
            (last_start, expr.span.end),
        )
    )
    cx.warn(
        "Y2",
        f"'{one_line(expr.span)}' compares '{last}' with what '{one_line(left.span)}' is, "
        "which is 0 or 1",
        expr.span,
        f"{first} {left.op} {middle} && {middle} {expr.op} {last}",
    )


def too_large(span: Span) -> CheckError:
    return CheckError(
        f"the statement has more than {MAX_STATEMENT_NODES} operations once its bindings and pads "
        "are written out",
        rule="T5",
        span=span,
        repair="give an intermediate result a statement of its own: t(i) = ...",
    )
