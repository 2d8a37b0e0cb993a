"""Vector expressions with Python's operators: the language in which formulas are written.

A number among the operands takes the type of the other. Floats are FLOAT32 or FLOAT64 lanes;
integers are the unsigned type of the same width, so that shifts are logical and everything wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tc.dtypes import BOOL, FLOAT32, FLOAT64, UINT32, UINT64, DType
from tc.kernel import ir
from tc.kernel.folding import constant


@dataclass(frozen=True, slots=True)
class Format:
    """A floating type by its bits."""

    dtype: DType
    integer: DType
    fraction: int  # bits
    bias: int  # the exponent field of 1.0

    @property
    def whole(self) -> float:
        """Adding this number rounds to a whole one, even where that is negative, and leaves it
        in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.dtype.bits - 1)

    def bits_of(self, value: float) -> int:
        return int(np.array(value, self.dtype.numpy).view(self.integer.numpy))


FORMATS = {
    FLOAT32: Format(FLOAT32, UINT32, 23, 127),
    FLOAT64: Format(FLOAT64, UINT64, 52, 1023),
}


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A vector expression; comparisons but == make BOOL lanes, which & | ~ combine."""

    expr: ir.Expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype.scalar]

    # --- arithmetic -------------------------------------------------------------------------

    def __add__(self, other: VectorOperand) -> Vector:
        return self._binary("+", other)

    def __sub__(self, other: VectorOperand) -> Vector:
        return self._binary("-", other)

    def __mul__(self, other: VectorOperand) -> Vector:
        return self._binary("*", other)

    def __truediv__(self, other: VectorOperand) -> Vector:
        return self._binary("/", other)

    def __radd__(self, other: float) -> Vector:
        return self._number(other)._binary("+", self)

    def __rsub__(self, other: float) -> Vector:
        return self._number(other)._binary("-", self)

    def __rmul__(self, other: float) -> Vector:
        return self._number(other)._binary("*", self)

    def __rtruediv__(self, other: float) -> Vector:
        return self._number(other)._binary("/", self)

    def __neg__(self) -> Vector:
        return Vector(ir.Unary("-", self.expr, self.dtype))

    def __lshift__(self, count: int) -> Vector:
        return self._binary("<<", count)

    def __rshift__(self, count: int) -> Vector:
        return self._binary(">>", count)

    def __and__(self, other: VectorOperand) -> Vector:
        return self._logical("&&", other) if self._is_bool else self._binary("&", other)

    def __or__(self, other: VectorOperand) -> Vector:
        return self._logical("||", other) if self._is_bool else self._binary("|", other)

    def __xor__(self, other: VectorOperand) -> Vector:
        return self._binary("^", other)

    def __invert__(self) -> Vector:
        return Vector(ir.Logical("!", (self.expr,), self.dtype))

    # --- comparisons ------------------------------------------------------------------------

    def __lt__(self, other: VectorOperand) -> Vector:
        return self._compare("<", other)

    def __le__(self, other: VectorOperand) -> Vector:
        return self._compare("<=", other)

    def __gt__(self, other: VectorOperand) -> Vector:
        return self._compare(">", other)

    def __ge__(self, other: VectorOperand) -> Vector:
        return self._compare(">=", other)

    def equals(self, other: VectorOperand) -> Vector:
        return self._compare("==", other)

    def differs(self, other: VectorOperand) -> Vector:
        return self._compare("!=", other)

    @property
    def is_nan(self) -> Vector:
        return self._compare("!=", self)

    # --- conversions ------------------------------------------------------------------------

    @property
    def bits(self) -> Vector:
        """The bits of floats."""
        return Vector(ir.Bits(self.expr, self.format.integer.vector(self.dtype.lanes)))

    @property
    def as_float(self) -> Vector:
        """The floats of bits."""
        scalar = FLOAT32 if self.dtype.bits == 32 else FLOAT64
        return Vector(ir.Bits(self.expr, scalar.vector(self.dtype.lanes)))

    def cast(self, scalar: DType) -> Vector:
        return Vector(ir.Cast(self.expr, scalar.vector(self.dtype.lanes)))

    def constant(self, value: float) -> Vector:
        """A number in all lanes, of this type."""
        return self._number(value)

    # --- functions --------------------------------------------------------------------------

    def at_most(self, limit: float) -> Vector:
        """The lesser of the two; NaN stays NaN. In this form it is one instruction."""
        bound = self._number(limit)
        return select(bound < self, bound, self)

    def at_least(self, limit: float) -> Vector:
        bound = self._number(limit)
        return select(bound > self, bound, self)

    def copysign(self, sign: VectorOperand) -> Vector:
        return self._call("copysign", self._number(sign))

    def __abs__(self) -> Vector:
        return self._call("fabs")

    def sqrt(self) -> Vector:
        return self._call("sqrt")

    def floor(self) -> Vector:
        return self._call("floor")

    def trunc(self) -> Vector:
        return self._call("trunc")

    def scaleb(self, exponent: Vector) -> Vector:
        """Times 2 to that power; see `tc.kernel.math.exponents`."""
        return self._call("scaleb", exponent)

    def logb(self) -> Vector:
        return self._call("logb")

    def significand(self) -> Vector:
        return self._call("significand")

    # --- making nodes -----------------------------------------------------------------------

    @property
    def _is_bool(self) -> bool:
        return self.dtype.scalar == BOOL

    def _number(self, value: VectorOperand) -> Vector:
        return value if isinstance(value, Vector) else Vector(constant(value, self.dtype))

    def _binary(self, op: str, other: VectorOperand) -> Vector:
        return Vector(ir.Binary(op, self.expr, self._number(other).expr, self.dtype))

    def _compare(self, op: str, other: VectorOperand) -> Vector:
        dtype = BOOL.vector(self.dtype.lanes)
        return Vector(ir.Compare(op, self.expr, self._number(other).expr, dtype))

    def _logical(self, op: str, other: VectorOperand) -> Vector:
        return Vector(ir.Logical(op, (self.expr, self._number(other).expr), self.dtype))

    def _call(self, function: str, *others: Vector) -> Vector:
        args = (self.expr, *(other.expr for other in others))
        return Vector(ir.Call(function, args, self.dtype))


VectorOperand: TypeAlias = "Vector | float"
"""A number counts for all lanes."""


@dataclass(frozen=True, slots=True)
class Rare:
    """`value` is right but in the lanes where `is_rare`, few and seldom, which are computed one
    by one."""

    value: Vector
    is_rare: Vector


def fma(x: Vector, y: VectorOperand, z: VectorOperand) -> Vector:
    """x * y + z, rounded once."""
    return x._call("fma", x._number(y), x._number(z))


def select(condition: Vector, then: VectorOperand, otherwise: VectorOperand) -> Vector:
    """Lane by lane; one of the two values is no number."""
    typed = then if isinstance(then, Vector) else otherwise
    assert isinstance(typed, Vector)
    values = typed._number(then).expr, typed._number(otherwise).expr
    return Vector(ir.Select(condition.expr, *values, typed.dtype))


def horner(x: Vector, coefficients: Sequence[float]) -> Vector:
    """The polynomial with these coefficients, that of x**0 first: the fewest operations."""
    *rest, last = coefficients
    total: VectorOperand = last
    for coefficient in reversed(rest):
        total = fma(x, total, coefficient)
    return x._number(total)


def polynomial(x: Vector, coefficients: Sequence[float]) -> Vector:
    """As `horner`, but if it is long by two polynomials in x * x: one operation more, half the
    waiting for results."""
    if len(coefficients) < _LONG:
        return horner(x, coefficients)
    square = x * x
    return fma(x, horner(square, coefficients[1::2]), horner(square, coefficients[::2]))


_LONG = 12
