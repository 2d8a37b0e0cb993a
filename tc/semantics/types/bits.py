"""Operators and functions on bits: what they take, and the errors of others (Y11, Y12)."""

from __future__ import annotations

from tc.builtins import BIT_FUNCTIONS, name_of_bits
from tc.builtins.operators import BITWISE, ON_BITS, SHIFTS
from tc.dtypes import BOOL, FLOAT32, DType, Type, Weak
from tc.errors import CheckError
from tc.semantics import program as p
from tc.semantics.suggest import one_line
from tc.source import Edit, Span

COMPLEMENT = "~"

_OF_CONDITIONS = {"&": "&&", "|": "||", "^": "!="}


def is_of_bits(expr: p.Expr) -> bool:
    """Whether an expression is an operator on bits."""
    if isinstance(expr, p.Binary):
        return expr.op in ON_BITS
    return isinstance(expr, p.Unary) and expr.op == COMPLEMENT


def as_unsigned(value: int, dtype: DType, *, complemented: bool) -> int:
    """A literal as it meets an unsigned type: what `~` made negative has the bits of the type, so
    that `x & ~15` of a uint8 is `x & 240`.

    >>> from tc.dtypes import UINT8
    >>> as_unsigned(~15, UINT8, complemented=True), as_unsigned(-16, UINT8, complemented=False)
    (240, -16)
    """
    if complemented and dtype.kind == "uint" and -(1 << dtype.bits) <= value < 0:
        return value + (1 << dtype.bits)
    return value


def complements(expr: p.Expr) -> bool:
    """Whether a `~` stands in an expression of literals."""
    return any(isinstance(node, p.Unary) and node.op == COMPLEMENT for node in p.walk(expr))


def arithmetic_of(op: str, right: int | float | None) -> tuple[str, int] | None:
    """The operator and the number that compute the same of integers: `i >> 2` is `i / 4`, `i << 2`
    is `i * 4`, and `i & 3` is `i % 4`, whatever the sign of i.

    >>> arithmetic_of(">>", 2), arithmetic_of("&", 3), arithmetic_of("&", 5)
    (('/', 4), ('%', 4), None)
    """
    if not isinstance(right, int):
        return None
    if op in SHIFTS and 0 <= right < 63:
        return "/" if op == ">>" else "*", 1 << right
    if op == "&" and right > 0 and right & (right + 1) == 0 and right < 1 << 62:
        return "%", right + 1
    return None


# --- operators --------------------------------------------------------------------------------


def check_operator(
    expr: p.Binary | p.Unary, types: tuple[Type, ...], count: int | float | None, dtype: DType
) -> None:
    """Raise CheckError where an operator on bits does not take operands of these types; `count` is
    the value of a count of literals alone, and `dtype` the type that is shifted."""
    operands = p.children(expr)
    if isinstance(expr, p.Unary):
        _check_complement(expr, types[0])
        return
    for operand, found in zip(operands, types, strict=True):
        if is_floating(found):
            raise _of_float(expr, operand, found, types)
    if expr.op in SHIFTS:
        for operand, found in zip(operands, types, strict=True):
            if found == BOOL:
                raise _of_bool(expr.op, operand)
        _check_count(expr, types[0], count, dtype)
    elif BOOL in types and types[0] != types[1]:
        raise _mixed(expr, types)


def is_floating(found: Type) -> bool:
    return found is Weak.FLOAT if isinstance(found, Weak) else found.is_float


def said(found: Type) -> str:
    """A type in words of a message."""
    words = {Weak.FLOAT: "a floating value", Weak.LITERAL: "a whole number"}
    return words.get(found, "an integer") if isinstance(found, Weak) else str(found)


def _check_complement(expr: p.Unary, found: Type) -> None:
    text = one_line(expr.operand.span, "x")
    if found == BOOL:
        raise CheckError(
            f"'~' is of integers, and '{text}' is bool; a condition is negated by '!'",
            rule="Y11",
            span=expr.span,
            edits=(Edit(Span(expr.span.source, expr.span.start, expr.span.start + 1), "!"),),
        )
    if is_floating(found):
        raise CheckError(
            f"'~' is of integers, and '{text}' is {said(found)}",
            rule="Y11",
            span=expr.span,
            idiom=f"~bits({text}), for the bits; -{text}, for the negative",
        )


def _of_float(expr: p.Binary, operand: p.Expr, found: Type, types: tuple[Type, ...]) -> CheckError:
    left, right = p.children(expr)
    text, op = one_line(operand.span, "x"), expr.op
    cause = f"'{op}' is of integers, and '{text}' is {said(found)}"
    paste = idiom = None
    edits: tuple[Edit, ...] = ()
    factor = right.value if isinstance(right, p.Literal) else None
    if op in _OF_CONDITIONS and BOOL in types:
        cause += f"; conditions are joined by '{_OF_CONDITIONS[op]}'"
        edits = (Edit(_operator(expr), _OF_CONDITIONS[op]),)
    elif op in SHIFTS and operand is left and isinstance(factor, int) and 0 <= factor < 63:
        base = text if _is_leaf(left) else f"({text})"
        paste = f"{base} {'*' if op == '<<' else '/'} {2**factor}"
        if op == ">>":
            paste += ".0"
    elif op == "^" and operand is left:
        idiom = f"pow({text}, {one_line(right.span, 'y')}), for a power; bits({text}), for the bits"
    else:
        idiom = f"int({text}), for its whole part; bits({text}), for its bits"
    return CheckError(cause, rule="Y11", span=expr.span, paste=paste, idiom=idiom, edits=edits)


def _is_leaf(expr: p.Expr) -> bool:
    return isinstance(expr, p.Read | p.Literal | p.Call | p.Convert | p.Bits | p.Index | p.Size)


def _of_bool(op: str, operand: p.Expr) -> CheckError:
    text = one_line(operand.span, "x")
    return CheckError(
        f"'{op}' is of integers, and '{text}' is bool",
        rule="Y11",
        span=operand.span,
        paste=f"int({text})",
    )


def _check_count(expr: p.Binary, shifted: Type, count: int | float | None, dtype: DType) -> None:
    """Raise for a count of literals that shifts everything out."""
    bits = dtype.bits
    if not isinstance(count, int) or 0 <= count < bits:
        return
    left, text = one_line(expr.left.span, "x"), one_line(expr.span)
    if not _is_leaf(expr.left):
        left = f"({left})"
    paste, repair = None, f"a count of 0 to {bits - 1}"
    if count < 0 and -count < bits:
        cause = f"'{text}' shifts by {count} bits, and counts are not negative"
        paste = f"{left} {'<<' if expr.op == '>>' else '>>'} {-count}"
    else:
        cause = f"'{text}' shifts by {count} bits, and {dtype} has {bits}"
        if bits <= count < 64 and not isinstance(shifted, Weak):
            wide = next(width for width in (16, 32, 64) if width > count)
            paste = f"{shifted.kind}{wide}({one_line(expr.left.span, 'x')}) {expr.op} {count}"
    raise CheckError(
        cause, rule="Y11", span=expr.span, paste=paste, repair=None if paste else repair
    )


def _mixed(expr: p.Binary, types: tuple[Type, ...]) -> CheckError:
    """The error for `& | ^` of a bool with an integer."""
    left, right = p.children(expr)
    condition, other = (left, right) if types[0] == BOOL else (right, left)
    number = types[1] if types[0] == BOOL else types[0]
    cause = (
        f"'{expr.op}' takes integers, or conditions: '{one_line(condition.span, 'c')}' is bool, "
        f"and '{one_line(other.span, 'x')}' is {said(number)}"
    )
    regrouped = _regrouped(expr, condition)
    if regrouped is not None:
        cause += f"; '{expr.op}' binds less than '{getattr(condition, 'op', '==')}', as in C"
        return CheckError(cause, rule="Y11", span=expr.span, paste=regrouped)
    edits = (Edit(_operator(expr), _OF_CONDITIONS[expr.op]),)
    if expr.op == "^":
        edits = (Edit(condition.span, f"int({one_line(condition.span, 'c')})"),)
    return CheckError(cause, rule="Y11", span=expr.span, edits=edits)


def _regrouped(expr: p.Binary, condition: p.Expr) -> str | None:
    """`(x & 1) == 0` for `x & 1 == 0`, where the comparison stands without parentheses."""
    if not isinstance(condition, p.Compare) or condition.op not in ("==", "!="):
        return None
    source, start, end = expr.span.source, expr.span.start, expr.span.end
    is_right = condition is expr.right
    outer = expr.span.start if not is_right else _operator(expr).end
    between = source.text[outer : condition.span.start]
    if "(" in between or len(expr.span.line) > 120:
        return None
    place = source.text.find(condition.op, condition.left.span.end)
    first = Span(source, start, place).line.strip()
    last = Span(source, place + len(condition.op), end).line.strip()
    if is_right:
        return f"({first}) {condition.op} {last}"
    return f"{first} {condition.op} ({last})"


def _operator(expr: p.Binary) -> Span:
    """The place of the operator between two operands."""
    source = expr.span.source
    start = source.text.find(expr.op, expr.left.span.end)
    return Span(source, start, start + len(expr.op))


def check_reduction(op: str, found: Type, dtype: DType, span: Span) -> None:
    """Raise where the terms of a reduction `&= |= ^=` into a tensor of a type are neither all
    integers nor all bools."""
    if op not in BITWISE:
        return
    text = one_line(span, "x")
    if is_floating(found) or dtype.is_float:
        what = f"'{text}' is {said(found)}" if is_floating(found) else f"its target is {dtype}"
        raise CheckError(
            f"'{op}=' is of integers or conditions, and {what}",
            rule="Y11",
            span=span,
            idiom=f"bits({text}), for its bits; {text} != 0, for a condition",
        )
    if found == BOOL and dtype != BOOL:
        raise CheckError(
            f"'{op}=' takes integers, or conditions: its target is {dtype}, and '{text}' is bool",
            rule="Y11",
            span=span,
            paste=f"int({text})",
        )


# --- functions --------------------------------------------------------------------------------


def check_function(call: p.Call, found: Type) -> None:
    """Raise where a function of integers does not take a value of a type."""
    name, text = call.function, one_line(call.args[0].span, "x")
    if name not in BIT_FUNCTIONS:
        return
    if found == BOOL or is_floating(found):
        raise CheckError(
            f"'{name}' is of integers, and '{text}' is {said(found)}",
            rule="Y12",
            span=call.args[0].span,
            paste=f"int({text})" if found == BOOL else f"bits({text})",
        )


def type_of_bits(expr: p.Bits, found: Type | None) -> DType | None:
    """The type of the bits of a value, or of the float with some bits; None where it is open."""
    if expr.dtype.is_float:
        return expr.dtype
    if found is None:
        return None
    known = isinstance(found, DType) and found.is_float
    return found.unsigned if known and isinstance(found, DType) else FLOAT32.unsigned


def check_bits(expr: p.Bits, found: Type) -> None:
    """Raise where `bits`, `float32_of` and the like do not take a value of a type."""
    text = one_line(expr.operand.span, "x")
    name = name_of_bits(expr.dtype)
    if not expr.dtype.is_float:
        if is_floating(found):
            return
        is_number = isinstance(expr.operand, p.Literal)
        raise CheckError(
            f"'bits' is of floating values, and '{text}' is {said(found)}",
            rule="Y12",
            span=expr.operand.span if is_number else expr.span,
            paste=f"{text}.0" if is_number else f"float({text})" if found == BOOL else text,
        )
    wanted = expr.dtype.unsigned
    if isinstance(found, Weak) and found is not Weak.FLOAT:
        return
    if isinstance(found, DType) and found.is_integer and found.bits == wanted.bits:
        return
    words = f"'{name}' takes the {wanted.bits} bits of a number, and '{text}' is {said(found)}"
    cast = f"{wanted}({text})"
    if is_floating(found):
        raise CheckError(words, rule="Y12", span=expr.span, paste=f"{name}(bits({text}))")
    raise CheckError(words, rule="Y12", span=expr.operand.span, paste=cast)
