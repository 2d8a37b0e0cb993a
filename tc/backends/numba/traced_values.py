"""Values of traced regions: Python's operators on them write LLVM's instructions.

A value is a scalar or a vector of a `DType`; the operands of an operator have one type, but for a
number, which takes the type of the other. Results are those that `tc.kernel.ir` states: integers
wrap around and never trap, floats are IEEE, minima and maxima propagate NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tc.backends.numba.traced_code import Code, constant, constants, llvm_type, suffix
from tc.dtypes import BOOL, INT64, DType
from tc.errors import InternalError

_ORDERED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_ORDERS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl"}


Operation: TypeAlias = "Callable[[TracedValue, Operand], TracedValue]"


def _operators(op: str) -> tuple[Operation, Operation]:
    """The methods of an operator of Python, with a value on the left and on the right."""
    return (lambda self, other: binary(op, self, other)), lambda self, other: binary(
        op, other, self
    )


def _relation(op: str) -> Operation:
    return lambda self, other: compare(op, self, other)


@dataclass(frozen=True, slots=True, eq=False)
class TracedValue:
    """A value known when the region runs: `base` in LLVM's text, plus `addend`.

    The addend is that of int64 scalars, so that sums of indices and constants meet in one place,
    the address; a constant of that type has no base. `uniform` is the number that all lanes are,
    where that is known.
    """

    code: Code
    base: str
    dtype: DType
    addend: int = 0
    uniform: float | None = None

    @property
    def text(self) -> str:
        """The whole value as an operand."""
        if not self.base:
            return str(_wrap(self.addend))
        if not self.addend:
            return self.base
        return self.code.pure(f"add i64 {self.base}, {_wrap(self.addend)}")

    @property
    def operand(self) -> tuple[str, str]:
        return llvm_type(self.dtype), self.text

    @property
    def number(self) -> float | None:
        """The number in all lanes, None where it is not known yet."""
        return self.uniform if self.base else _wrap(self.addend)

    def __bool__(self) -> bool:
        raise InternalError("a value that is known only when the region runs decides its code")

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __truediv__, __rtruediv__ = _operators("/")
    __floordiv__, __rfloordiv__ = _operators("//")
    __mod__, __rmod__ = _operators("%")
    __and__, __rand__ = _operators("&")
    __or__, __ror__ = _operators("|")
    __xor__, __rxor__ = _operators("^")
    __lshift__, __rlshift__ = _operators("<<")
    __rshift__, __rrshift__ = _operators(">>")

    def __neg__(self) -> TracedValue:
        if self.dtype.is_float:
            kind, text = self.operand
            return TracedValue(self.code, self.code.pure(f"fneg {kind} {text}"), self.dtype)
        return binary("-", 0, self)

    def __invert__(self) -> TracedValue:
        return binary("^", self, True if self.dtype.kind == "bool" else -1)

    __eq__ = _relation("==")  # type: ignore[assignment]  # a value, as in numpy
    __ne__ = _relation("!=")  # type: ignore[assignment]
    __lt__ = _relation("<")
    __le__ = _relation("<=")
    __gt__ = _relation(">")
    __ge__ = _relation(">=")

    __hash__ = None  # type: ignore[assignment]  # as == gives no truth


Operand: TypeAlias = TracedValue | int | float
"""A value, or a number that takes the type of the value beside it."""


def known(code: Code, value: float, dtype: DType) -> TracedValue:
    """A constant, in all lanes of its type."""
    if dtype == INT64:
        return TracedValue(code, "", INT64, int(value))
    return TracedValue(code, constant(value, dtype), dtype, uniform=value)


def as_value(code: Code, operand: Operand, dtype: DType) -> TracedValue:
    if isinstance(operand, TracedValue):
        if operand.dtype != dtype:
            raise InternalError(f"a traced operand is {operand.dtype}, not {dtype}")
        return operand
    return known(code, operand, dtype)


def _meet(left: Operand, right: Operand) -> tuple[TracedValue, TracedValue]:
    """Both operands in their one type."""
    typed = left if isinstance(left, TracedValue) else right
    if not isinstance(typed, TracedValue):
        raise InternalError("a traced operation on two numbers")
    code, dtype = typed.code, typed.dtype
    return as_value(code, left, dtype), as_value(code, right, dtype)


def _wrap(value: int) -> int:
    """An integer in the range of int64."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


# --- operators --------------------------------------------------------------------------------


def compare(op: str, left: Operand, right: Operand) -> TracedValue:
    a, b = _meet(left, right)
    kind, text = a.operand
    if a.dtype.is_float:
        word = f"fcmp {_ORDERED[op]}"
    else:
        sign = "" if op in ("==", "!=") else "s" if a.dtype.kind == "int" else "u"
        word = f"icmp {sign}{_ORDERS[op]}"
    result = a.code.pure(f"{word} {kind} {text}, {b.text}")
    return TracedValue(a.code, result, BOOL.vector(a.dtype.lanes))


def binary(op: str, left: Operand, right: Operand) -> TracedValue:
    """The result of a Python operator."""
    a, b = _meet(left, right)
    if a.dtype == INT64 and (folded := _folded(op, a, b)) is not None:
        return folded
    match op:
        case "//":
            return _floor_divide(a, b)
        case "%":
            return _float_modulo(a, b) if a.dtype.is_float else _modulo(a, b)
        case ">>":
            return _plain("ashr" if a.dtype.kind == "int" else "lshr", a, b)
        case _:
            return _plain((_FLOAT if a.dtype.is_float else _INTEGER)[op], a, b)


def _folded(op: str, a: TracedValue, b: TracedValue) -> TracedValue | None:
    """Sums and products of int64 scalars with what is constant in them kept apart."""
    left, right = (None if v.base else v.addend for v in (a, b))
    match op:
        case "+" if left is not None or right is not None:
            return TracedValue(a.code, a.base or b.base, INT64, a.addend + b.addend)
        case "+":
            base = a.code.pure(f"add i64 {a.base}, {b.base}")
            return TracedValue(a.code, base, INT64, a.addend + b.addend)
        case "-" if right is not None:
            return TracedValue(a.code, a.base, INT64, a.addend - right)
        case "*" if left is not None and right is None:
            return _folded(op, b, a)
        case "*" if right is not None:
            base = a.base if right == 1 or not a.base else a.code.pure(f"mul i64 {a.base}, {right}")
            return TracedValue(a.code, base if right else "", INT64, a.addend * right)
    return None


def _plain(word: str, a: TracedValue, b: TracedValue) -> TracedValue:
    kind, text = a.operand
    return TracedValue(a.code, a.code.pure(f"{word} {kind} {text}, {b.text}"), a.dtype)


def select(condition: TracedValue, then: Operand, otherwise: Operand) -> TracedValue:
    """`then` where the condition is true, without laziness; the condition may be a scalar."""
    a, b = _meet(then, otherwise)
    operands = (condition.operand, a.operand, b.operand)
    text = ", ".join(map(" ".join, operands))
    return TracedValue(a.code, a.code.pure(f"select {text}"), a.dtype)


def intrinsic(name: str, *operands: TracedValue, flags: str = "") -> TracedValue:
    """The result of an intrinsic of LLVM on operands of one type."""
    first = operands[0]
    pairs = [operand.operand for operand in operands]
    extra = [("i1", flags)] if flags else []
    kind = llvm_type(first.dtype)
    instruction = first.code.call(f"llvm.{name}.{suffix(first.dtype)}", kind, *pairs, *extra)
    return TracedValue(first.code, first.code.pure(instruction), first.dtype)


# --- division ---------------------------------------------------------------------------------


def _floor_divide(a: TracedValue, b: TracedValue) -> TracedValue:
    """Toward minus infinity: 0 for b = 0, and wrapping around for b = -1 (Y4)."""
    if b.number is not None and b.number > 0:
        return _divide_by_constant(a, b, int(b.number))
    if a.dtype.kind == "uint":
        return select(b == 0, 0, _plain("udiv", a, _without(b, 0)))
    quotient = _rounded_down(a, _without(_without(b, 0), -1))
    return select(b == 0, 0, select(b == -1, -a, quotient))


def _modulo(a: TracedValue, b: TracedValue) -> TracedValue:
    """With the sign of b; 0 for b = 0 (Y4)."""
    if b.number is not None and b.number > 0:
        number = int(b.number)
        if number & (number - 1) == 0:
            return a & (number - 1)
        return a - _divide_by_constant(a, b, number) * b
    if a.dtype.kind == "uint":
        return select(b == 0, 0, _plain("urem", a, _without(b, 0)))
    divisor = _without(_without(b, 0), -1)
    rest = a - _rounded_down(a, divisor) * divisor
    return select((b == 0) | (b == -1), 0, rest)


def _divide_by_constant(a: TracedValue, b: TracedValue, number: int) -> TracedValue:
    if number & (number - 1) == 0:
        return a >> (number.bit_length() - 1)
    return _plain("udiv", a, b) if a.dtype.kind == "uint" else _rounded_down(a, b)


def _rounded_down(a: TracedValue, b: TracedValue) -> TracedValue:
    """The quotient rounded down: the quotient of LLVM, which is rounded toward zero, less 1 where
    rounding toward zero went up."""
    quotient = _plain("sdiv", a, b)
    rest = a - quotient * b
    upward = (rest != 0) & ((rest ^ b) < 0)
    return select(upward, quotient - 1, quotient)


def _without(divisor: TracedValue, number: int) -> TracedValue:
    """The divisor, with 1 in place of `number`."""
    return select(divisor == number, 1, divisor)


def _float_modulo(a: TracedValue, b: TracedValue) -> TracedValue:
    rest = _plain("frem", a, b)
    signed = intrinsic("copysign", rest, b)
    return select(rest == 0.0, signed, select((b < 0.0) ^ (rest < 0.0), rest + b, rest))


# --- the lesser and the greater ---------------------------------------------------------------


def extremum(op: str, left: Operand, right: Operand) -> TracedValue:
    """The lesser ("min") or the greater ("max") of two values, NaN where either is (Y5)."""
    a, b = _meet(left, right)
    if a.dtype.kind == "bool":
        return a & b if op == "min" else a | b
    if not a.dtype.is_float:
        return intrinsic(f"{'s' if a.dtype.kind == 'int' else 'u'}{op}", a, b)
    if _is_no_nan(a):
        return _ordered_extremum(op, a, b)
    if _is_no_nan(b):
        return _ordered_extremum(op, b, a)
    # b is tested for NaN, as in reductions a is the sum so far, on which the next step waits;
    # with b itself instead of a constant, LLVM joins both tests and takes an instruction more
    return select(compare("!=", b, b), math.nan, _ordered_extremum(op, b, a))


def _ordered_extremum(op: str, a: TracedValue, b: TracedValue) -> TracedValue:
    """b where either is NaN: x86 has this in one instruction."""
    return select(a < b if op == "min" else a > b, a, b)


def _is_no_nan(value: TracedValue) -> bool:
    return value.number is not None and not math.isnan(value.number)


# --- lanes ------------------------------------------------------------------------------------


def broadcast(value: TracedValue, lanes: int) -> TracedValue:
    """A vector whose lanes all are the scalar."""
    dtype = value.dtype.vector(lanes)
    if value.number is not None or lanes == 1:
        return value if lanes == 1 else known(value.code, value.number or 0, dtype)
    kind, code = llvm_type(dtype), value.code
    first = code.pure(f"insertelement {kind} poison, {' '.join(value.operand)}, i64 0")
    places = f"<{lanes} x i32> zeroinitializer"
    return TracedValue(
        code, code.pure(f"shufflevector {kind} {first}, {kind} poison, {places}"), dtype
    )


def pattern(code: Code, values: Sequence[float], dtype: DType) -> TracedValue:
    return TracedValue(
        code, constants(values, dtype.vector(len(values))), dtype.vector(len(values))
    )


def shuffle(left: TracedValue, right: TracedValue, lanes: Sequence[int]) -> TracedValue:
    """Lane l is lane `lanes[l]` of both vectors, one behind the other; -1 is any value."""
    code, dtype, count = left.code, left.dtype.scalar.vector(len(lanes)), left.dtype.lanes
    if list(lanes) == list(range(count)):
        return left
    if len(lanes) == 1:
        return extract(left, lanes[0]) if lanes[0] < count else extract(right, lanes[0] - count)
    places = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
    vectors = f"{' '.join(left.operand)}, {' '.join(right.operand)}"
    instruction = f"shufflevector {vectors}, <{len(lanes)} x i32> <{places}>"
    return TracedValue(code, code.pure(instruction), dtype)


def extract(value: TracedValue, lane: int) -> TracedValue:
    if value.dtype.lanes == 1:
        return value
    text = f"extractelement {' '.join(value.operand)}, i64 {lane}"
    return TracedValue(value.code, value.code.pure(text), value.dtype.scalar)


def reduce(op: str, value: TracedValue) -> TracedValue:
    """The lanes combined by + * min max: halves of the vector with each other, until one is
    left.

    Of four integers, neighbours come first: x86's code generator turns a sum that ends with them
    into one of bytes, where all are known to fit, as truths do, and if it finds that out late, it
    ends the process over a vector of eight bytes.
    """
    if value.dtype.kind == "bool" and op in ("min", "max"):
        return _any_or_all(op, value)
    rest: TracedValue | None = None
    while (lanes := value.dtype.lanes) > 1:
        if lanes == 4 and value.dtype.is_integer:
            value = _combine(op, shuffle(value, value, (0, 2)), shuffle(value, value, (1, 3)))
            continue
        if lanes % 2:
            last = extract(value, lanes - 1)
            rest = last if rest is None else _combine(op, rest, last)
        half = lanes // 2
        low, high = tuple(range(half)), tuple(range(half, 2 * half))
        value = _combine(op, shuffle(value, value, low), shuffle(value, value, high))
    return value if rest is None else _combine(op, value, rest)


def _any_or_all(op: str, value: TracedValue) -> TracedValue:
    """Whether any ("max") or all ("min") lanes are true, which processors see at once."""
    code, kind = value.code, llvm_type(value.dtype)
    word = "or" if op == "max" else "and"
    name = f"llvm.vector.reduce.{word}.v{value.dtype.lanes}i1"
    return TracedValue(code, code.pure(code.call(name, "i1", (kind, value.text))), BOOL)


def _combine(op: str, left: TracedValue, right: TracedValue) -> TracedValue:
    return extremum(op, left, right) if op in ("min", "max") else binary(op, left, right)
