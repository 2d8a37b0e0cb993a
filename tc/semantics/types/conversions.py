"""From resolved expressions to typed ones: every conversion explicit (Y1, Y2, Y8, Y9, G9).

Each type has a type it is computed in: half in FLOAT32 (Y8), weak integers in INT64, weak floats
in FLOAT64, or FLOAT32 where they meet half (Y1). In index mode, which holds in subscripts, where
bounds and conditions of affine form, all integers are INT64 (Y9).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tc.builtins import BIT_FUNCTIONS
from tc.builtins.operators import ON_BITS, SHIFTS
from tc.dtypes import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    Type,
    Weak,
    fits,
    is_lossy_mix,
    join,
    promote,
    wrap,
)
from tc.errors import CheckError, InternalError
from tc.semantics import program as p
from tc.semantics.resolved import is_use
from tc.semantics.suggest import one_line
from tc.semantics.types import bits
from tc.semantics.types.type_inference import Constants, Memo, constant, type_of
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
        return self if self.weak_float == dtype else _changed(self, "weak_float", dtype)

    def as_index(self) -> Mode:
        return self if self.index else _changed(self.with_weak_float(FLOAT64), "index", True)

    def as_whole(self) -> Mode:
        return self if self.whole else _changed(self.as_index(), "whole", True)


@cache
def _changed(mode: Mode, field: str, value: DType | bool) -> Mode:
    """The mode with another value of a field: there are few modes, and expressions change theirs
    often."""
    return replace(mode, **{field: value})  # type: ignore[arg-type]


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
    return found.computed


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
    return p.Literal(float(value) if dtype.is_float else value, dtype.computed, span=span)


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


VALUE = Mode()
INDEX = Mode(index=True)


def lower_to(expr: p.Expr, want: Type, mode: Mode, cx: LoweringContext) -> p.Expr:
    """The expression, converted to the type that `want` is computed in.

    A weak expression takes `want` where that is a DType: literals are folded and must fit it
    (Y1), all else is computed in its weak type and then converted once.
    """
    found = cx.type(expr)
    if isinstance(want, Weak):
        target = mode.weak_float if want is Weak.FLOAT else INT64
        if want is Weak.FLOAT:
            warn_of_share(expr, cx)
        return convert(lower(expr, mode, cx), target)
    if mode.index and want.is_integer:
        return convert(lower(expr, mode, cx), INT64)
    if not isinstance(found, Weak):
        return convert(lower(expr, mode, cx), want.computed)
    value = folded(expr, cx)
    if value is not None:
        return literal(_as_met(value, want, expr), want, expr.span, mode)
    match expr:
        case p.Binary(op="<<", left=left) if want.is_integer and _fits(left, want, cx):
            return _shift(expr, want, mode, cx)
        case p.Select(padded=False):
            return p.Select(
                condition(expr.condition, mode, cx),
                lower_to(expr.then, want, mode, cx),
                lower_to(expr.otherwise, want, mode, cx),
                want.computed,
                span=expr.span,
            )
        case p.Unary(operand=bound) if is_use(expr):
            return lower_to(bound, want, mode, cx)
        case _:
            if want.is_float:
                warn_of_share(expr, cx)
            weak_mode = mode.with_weak_float(FLOAT32 if want.is_storage else FLOAT64)
            return convert(lower(expr, weak_mode, cx), want.computed)


def lower_index(expr: p.Expr, mode: Mode, cx: LoweringContext, what: str) -> p.Expr:
    """An integer expression in INT64 (Y9); raises CheckError for bool and floats (Y2)."""
    found = cx.type(expr)
    if not is_integer_type(found):
        text = one_line(expr.span, "x")
        shown = "a floating value" if found is Weak.FLOAT else f"{found}"
        note = ", and only integers subscript" if what == "the subscript" else ""
        condition = found == BOOL and what == "the bound"
        raise CheckError(
            f"{what} '{one_line(expr.span)}' is {shown}{note}",
            rule="Y2" if found == BOOL else "Y9",
            span=expr.span,
            paste=None if condition else f"int32({text})",
            idiom="begin:end, with a number each; a condition is a choice on the right side, "
            "c ? x : 0"
            if condition
            else None,
        )
    return convert(lower(expr, mode.as_whole(), cx), INT64)


def is_integer_type(dtype: Type) -> bool:
    """Whether values of a type may subscript: integers, weak ones included, but not bool."""
    return dtype is not Weak.FLOAT if isinstance(dtype, Weak) else dtype.is_integer


def lower(expr: p.Expr, mode: Mode, cx: LoweringContext) -> p.Expr:
    """The typed expression, in the type in which an expression of its type is computed: float32 for
    float16, for example (`own_dtype`)."""
    cx.room[0] -= 1
    if cx.room[0] < 0:
        raise too_large(expr.span)
    span, found = expr.span, cx.type(expr)
    if isinstance(expr, p.Binary | p.Unary) and isinstance(found, Weak) and not is_use(expr):
        constant = folded(expr, cx)
        if constant is not None:
            return literal(constant, own_dtype(found, mode), span, mode)
    if bits.is_of_bits(expr):
        return _of_bits(expr, mode, cx)  # type: ignore[arg-type]  # a Binary or Unary
    match expr:
        case p.Literal(value=value):
            return literal(value, own_dtype(found, mode), span, mode)
        case p.Read(tensor=tensor):
            if mode.index and tensor in cx.scalars:
                cx.static.add(tensor)
            return convert(lower_read(expr, mode, cx), own_dtype(cx.tensors[tensor], mode))
        case p.Index(name=name):
            return p.Index(name, span=span)
        case p.Binary():
            return _binary(expr, mode, cx)
        case p.Call(function=function) if function in BIT_FUNCTIONS:
            return _of_integer(expr, mode, cx)
        case p.Bits():
            return _bits(expr, mode, cx)
        case p.Call():
            args = []
            for arg in expr.args:
                args.append(lower_to(arg, found, mode, cx))
            return p.Call(expr.function, tuple(args), own_dtype(found, mode), span=span)
        case p.Unary(operand=bound) if is_use(expr):
            return lower(bound, mode, cx)
        case p.Unary():
            operand = lower_to(expr.operand, found, mode, cx)
            if expr.op == "+":
                return operand
            return p.Unary("-", operand, own_dtype(found, mode), span=span)
        case p.Size(name=name):
            return p.Size(name, span=span)
        case p.Extent(tensor=tensor, axis=axis):
            return p.Extent(tensor, axis, span=span)
        case p.Select(padded=True):
            return _pad(expr, mode, cx)
        case p.Select():
            if not mode.index:
                warn_of_mix(cx.type(expr.then), cx.type(expr.otherwise), "? :", span, cx)
            return p.Select(
                condition(expr.condition, mode, cx),
                lower_to(expr.then, found, mode, cx),
                lower_to(expr.otherwise, found, mode, cx),
                own_dtype(found, mode),
                span=span,
            )
        case p.Compare():
            return _compare(expr, mode, cx)
        case p.Logical(op=op, operands=several):
            parts = []
            for part in several:
                parts.append(condition(part, mode, cx))
            return p.Logical(op, tuple(parts), span=span)
        case p.Convert():
            return _cast(expr, mode, cx)
        case p.Check():
            raise InternalError("a text has no checks")


def condition(expr: p.Expr, mode: Mode, cx: LoweringContext) -> p.Expr:
    """The truth of an expression, BOOL: nonzero is true (Y2). Affine forms count in INT64 (Y9)."""
    if not mode.index and is_affine_form(expr, cx.scalars):
        mode = mode.as_index()
    return convert(lower(expr, mode.with_weak_float(FLOAT64), cx), BOOL)


def lower_read(expr: p.Read, mode: Mode, cx: LoweringContext) -> p.Read:
    """The read of one element, in the tensor's own type."""
    subscripts = []
    for subscript in expr.subscripts:
        subscripts.append(lower_index(subscript, mode, cx, "the subscript"))
    return p.Read(
        expr.tensor,
        tuple(subscripts),
        cx.tensors[expr.tensor],
        next(cx.sites),
        mode.bare_only,
        mode.late,
        span=expr.span,
    )


def _binary(expr: p.Binary, mode: Mode, cx: LoweringContext) -> p.Expr:
    found = cx.type(expr)
    dtype = own_dtype(found, mode)
    if not mode.index:
        warn_of_mix(cx.type(expr.left), cx.type(expr.right), expr.op, expr.span, cx)
    left = lower_to(expr.left, found, mode, cx)
    right = lower_to(expr.right, found, mode, cx)
    divides = expr.op in ("/", "%") and dtype.is_integer
    return p.Binary(expr.op, left, right, dtype, next(cx.sites) if divides else -1, span=expr.span)


def _as_met(value: int | float, dtype: DType, expr: p.Expr) -> int | float:
    """The value of literals in the type that they meet: `~` gives the bits of that type (Y11)."""
    if not isinstance(value, int) or value >= 0 or dtype.kind != "uint":
        return value
    return bits.as_unsigned(value, dtype, complemented=bits.complements(expr))


def _fits(expr: p.Expr, dtype: DType, cx: LoweringContext) -> bool:
    """Whether an expression is of literals alone, and a type holds its value."""
    value = folded(expr, cx)
    return isinstance(value, int) and fits(value, dtype)


def _of_bits(expr: p.Binary | p.Unary, mode: Mode, cx: LoweringContext) -> p.Expr:
    """An operator on bits (Y11): `~x` is `x ^ -1`, and of bools `&` is `min` and `|` is `max`."""
    types = tuple(map(cx.type, p.children(expr)))
    count = folded(p.children(expr)[-1], cx)
    found, span = cx.type(expr), expr.span
    dtype = own_dtype(found, mode)
    bits.check_operator(expr, types, count, dtype)
    if isinstance(expr, p.Unary):
        operand = lower_to(expr.operand, found, mode, cx)
        ones = p.Literal(wrap(-1, dtype), dtype, span=span)
        return p.Binary("^", operand, ones, dtype, span=span)
    if mode.index and (other := bits.arithmetic_of(expr.op, count)) is not None:
        op, number = other
        site = -1 if op == "*" else next(cx.sites)
        by = p.Literal(number, dtype, span=expr.right.span)
        return p.Binary(op, lower_to(expr.left, found, mode, cx), by, dtype, site, span=span)
    if expr.op in SHIFTS:
        return _shift(expr, found, mode, cx)
    if not mode.index:
        warn_of_mix(types[0], types[1], expr.op, span, cx)
    left, right = lower_to(expr.left, found, mode, cx), lower_to(expr.right, found, mode, cx)
    if found != BOOL:
        return p.Binary(expr.op, left, right, dtype, span=span)
    if expr.op == "^":
        return p.Compare("!=", left, right, span=span)
    return p.Binary(_OF_BOOLS[expr.op], left, right, BOOL, span=span)


_OF_BOOLS = {"&": "min", "|": "max"}
"""The operators on bits of bools, by those that are the same of 0 and 1."""


def _shift(expr: p.Binary, want: Type, mode: Mode, cx: LoweringContext) -> p.Expr:
    """A shift in the type of its left side, or in `want`, which a weak one takes."""
    types = cx.type(expr.left), cx.type(expr.right)
    count = folded(expr.right, cx)
    bits.check_operator(expr, types, count, own_dtype(types[0], mode))
    dtype = own_dtype(want, mode)
    left = lower_to(expr.left, want, mode, cx)
    if isinstance(count, int):
        right: p.Expr = p.Literal(count, dtype, span=expr.right.span)
    else:
        right = lower_to(expr.right, types[1], mode, cx)
    return p.Binary(expr.op, left, right, dtype, span=expr.span)


def _of_integer(expr: p.Call, mode: Mode, cx: LoweringContext) -> p.Expr:
    """`popc` and `clz`, of the bits of their argument's type also in subscripts, as int32 (Y12)."""
    (arg,) = expr.args
    found = cx.type(arg)
    bits.check_function(expr, found)
    value = folded(arg, cx)
    dtype = found if isinstance(found, DType) else INT32
    if isinstance(value, int) and not fits(value, INT32):
        dtype = INT64
    counted = p.Call(expr.function, (lower_to(arg, dtype, VALUE, cx),), dtype, span=expr.span)
    return convert(convert(counted, INT32), own_dtype(INT32, mode))


def _bits(expr: p.Bits, mode: Mode, cx: LoweringContext) -> p.Expr:
    """The bits of a value, or the float that has some bits (Y12)."""
    found, want = cx.type(expr.operand), cx.type(expr)
    bits.check_bits(expr, found)
    assert isinstance(want, DType)
    if want.is_float:
        source = found if isinstance(found, DType) else want.unsigned
    else:
        source = found if isinstance(found, DType) else FLOAT32
    operand = lower_to(expr.operand, source, VALUE, cx)
    if source.is_storage:
        operand = _as_stored(operand, source)
    return convert(p.Bits(operand, want, span=expr.span), own_dtype(want, mode))


def _as_stored(operand: p.Expr, dtype: DType) -> p.Expr:
    """A value of a type of storage, computed in float32, as that type has it."""
    if isinstance(operand, p.Convert) and operand.operand.dtype == dtype:
        return operand.operand
    return p.Convert(operand, dtype, span=operand.span)


def _compare(expr: p.Compare, mode: Mode, cx: LoweringContext) -> p.Expr:
    left, right = cx.type(expr.left), cx.type(expr.right)
    common = (join if expr.op in ("==", "!=") else promote)(left, right)
    if not mode.index and is_affine_form(expr, cx.scalars):
        mode = mode.as_index()
    if not mode.index:
        warn_of_mix(left, right, expr.op, expr.span, cx)
    warn_of_chain(expr, cx)
    mode = mode.with_weak_float(FLOAT64)
    return p.Compare(
        expr.op,
        lower_to(expr.left, common, mode, cx),
        lower_to(expr.right, common, mode, cx),
        span=expr.span,
    )


def _cast(expr: p.Convert, mode: Mode, cx: LoweringContext) -> p.Expr:
    """A cast: a weak value is converted directly, without the check that it fits (Y1)."""
    dtype = expr.dtype
    value = folded(expr.operand, cx)
    if isinstance(value, int) and not fits(value, INT64):
        cast: p.Expr = p.Literal(wrapped(value, dtype), dtype.computed, span=expr.span)
        if dtype.is_storage:
            cast = p.Convert(cast, dtype, written=True, span=expr.span)
    else:
        operand = lower(expr.operand, mode.with_weak_float(FLOAT64), cx)
        cast = operand
        if operand.dtype != dtype:
            cast = p.Convert(operand, dtype, written=True, span=expr.span)
    return convert(cast, own_dtype(dtype, mode))


def _pad(expr: p.Select, mode: Mode, cx: LoweringContext) -> p.Expr:
    """`pad(e, v)`: a Select on whether the reads that e makes are in bounds (G9)."""
    found = cx.type(expr)
    inner, outer = _changed(mode, "bare_only", True), _changed(mode, "late", True)
    if not mode.index:
        warn_of_mix(cx.type(expr.then), cx.type(expr.otherwise), "pad", expr.span, cx)
    return p.Select(
        _in_bounds(expr.then, inner, cx) or p.Literal(True, BOOL, span=expr.then.span),
        lower_to(expr.then, found, inner, cx),
        lower_to(expr.otherwise, found, outer, cx),
        own_dtype(found, mode),
        padded=True,
        span=expr.span,
    )


def _in_bounds(expr: p.Expr, mode: Mode, cx: LoweringContext) -> p.Expr | None:
    """Whether all reads that evaluating an expression makes are in bounds; None if always.

    The conditions stand in the order of evaluation, so that a read in a later one (of a gather)
    is reached only where those before it hold.
    """
    span = expr.span
    if isinstance(expr, p.Select) and expr.padded:
        outside = _in_bounds(expr.otherwise, mode, cx)
        inside = _in_bounds(expr.then, mode, cx) if outside is not None else None
        if outside is None or inside is None:
            return None
        return p.Logical("||", (inside, outside), span=span)
    guards = []
    for operand in p.children(expr):
        guards.append(_in_bounds(operand, mode, cx))
    match expr:
        case p.Read():
            for axis, subscript in enumerate(expr.subscripts):
                guards += _inside(expr, axis, subscript, mode, cx)
        case p.Logical(op="&&" | "||", operands=(left, _)) if guards[1] is not None:
            test = condition(left, mode, cx)
            skips = p.Logical("!", (test,), span=span) if expr.op == "&&" else test
            guards[1] = p.Logical("||", (skips, guards[1]), span=span)
        case p.Select() if guards[1] is not None or guards[2] is not None:
            true = p.Literal(True, BOOL, span=span)
            test = condition(expr.condition, mode, cx)
            then, otherwise = guards[1] or true, guards[2] or true
            guards[1:] = [p.Select(test, then, otherwise, BOOL, span=span)]
    return _all(guards, span)


def _inside(
    read: p.Read, axis: int, subscript: p.Expr, mode: Mode, cx: LoweringContext
) -> tuple[p.Expr, p.Expr]:
    """The conditions `0 <= subscript` and `subscript < extent` for one dimension of a read."""
    span = read.span
    low, high = (lower_index(subscript, mode, cx, "the subscript") for _ in range(2))
    zero = p.Literal(0, INT64, span=span)
    end = p.Extent(read.tensor, axis, span=span)
    return p.Compare("<=", zero, low, span=span), p.Compare("<", high, end, span=span)


def _all(guards: list[p.Expr | None], span: Span) -> p.Expr | None:
    result: p.Expr | None = None
    for guard in guards:
        if guard is not None:
            result = guard if result is None else p.Logical("&&", (result, guard), span=span)
    return result


# --- index mode -------------------------------------------------------------------------------


def is_affine_form(expr: p.Expr, scalars: Container[str]) -> bool:
    """Whether an expression is built as affine conditions are.

    That is from whole literals, index variables, sizes, extents and the integer rank 0 inputs
    `scalars`, with + - * / % min max, `?:`, comparisons, && || ! and integer casts, where one
    factor of a product, and each divisor, is free of index variables; and with operators on bits,
    where they are arithmetic (Y11) or free of index variables.
    """
    return _degree(expr, scalars, {}) is not None


def _degree(expr: p.Expr, scalars: Container[str], memo: dict[int, int | None]) -> int | None:
    """1 where index variables occur, 0 where none does, None where the form is not affine."""
    match expr:
        case p.Index():
            return 1
        case p.Literal(value=int()) | p.Size() | p.Extent():
            return 0
        case p.Read(tensor=tensor):
            return 0 if tensor in scalars else None
        case p.Unary(operand=value) if is_use(expr):
            if id(value) not in memo:
                memo[id(value)] = _degree(value, scalars, memo)
            return memo[id(value)]
        case p.Convert(dtype=dtype) if not dtype.is_integer:
            return None
        case p.Binary(op=op, left=left, right=right) if op in ON_BITS:
            number = right.value if isinstance(right, p.Literal) else None
            if bits.arithmetic_of(op, number) is not None:
                return _degree(left, scalars, memo)
            both = [_degree(operand, scalars, memo) for operand in (left, right)]
            return 0 if both == [0, 0] else None
        case p.Unary(op=bits.COMPLEMENT, operand=operand):
            return 0 if _degree(operand, scalars, memo) == 0 else None
        case p.Bits() | p.Literal() | p.Call() | p.Select(padded=True):
            return None
    degree = 0
    for operand in p.children(expr):
        found = _degree(operand, scalars, memo)
        if found is None:
            return None
        if isinstance(expr, p.Binary) and found and degree and expr.op == "*":
            return None
        degree = max(degree, found)
    if isinstance(expr, p.Binary) and expr.op in ("/", "%") and found:
        return None
    return degree
