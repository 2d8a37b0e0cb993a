"""Vector expressions with Python's operators: the language in which formulas are written.

A number among the operands takes the type of the other. Floats are FLOAT32 or FLOAT64 lanes;
integers are the unsigned type of the same width, so that shifts are logical and everything wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


VectorOperation: TypeAlias = "Callable[[Vector, VectorOperand], Vector]"


def _arithmetic(op: str, of_bools: str = "") -> VectorOperation:
    def made(self: Vector, other: VectorOperand) -> Vector:
        operands = self.expr, self.constant(other).expr
        if self.dtype.scalar == BOOL:
            return Vector(ir.Logical(of_bools, operands, self.dtype))
        return Vector(ir.Binary(op, *operands, self.dtype))

    return made


def _reversed(op: str) -> VectorOperation:
    """For a number on the left."""
    return lambda self, number: _arithmetic(op)(self.constant(number), self)


def _comparison(op: str) -> VectorOperation:
    def made(self: Vector, other: VectorOperand) -> Vector:
        dtype = BOOL.vector(self.dtype.lanes)
        return Vector(ir.Compare(op, self.expr, self.constant(other).expr, dtype))

    return made


def _function(name: str) -> Callable[..., Vector]:
    def made(self: Vector, *others: VectorOperand) -> Vector:
        args = (self.expr, *(self.constant(other).expr for other in others))
        return Vector(ir.Call(name, args, self.dtype))

    return made


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

    __add__, __radd__ = _arithmetic("+"), _reversed("+")
    __sub__, __rsub__ = _arithmetic("-"), _reversed("-")
    __mul__, __rmul__ = _arithmetic("*"), _reversed("*")
    __truediv__, __rtruediv__ = _arithmetic("/"), _reversed("/")
    __lshift__, __rshift__, __xor__ = _arithmetic("<<"), _arithmetic(">>"), _arithmetic("^")
    __and__, __or__ = _arithmetic("&", "&&"), _arithmetic("|", "||")
    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("<", "<=", ">", ">="))
    equals, differs = _comparison("=="), _comparison("!=")

    def __neg__(self) -> Vector:
        return Vector(ir.Unary("-", self.expr, self.dtype))

    def __invert__(self) -> Vector:
        return Vector(ir.Logical("!", (self.expr,), self.dtype))

    @property
    def is_nan(self) -> Vector:
        return self.differs(self)

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

    def constant(self, value: VectorOperand) -> Vector:
        """A number in all lanes, of this type; a vector as it is."""
        return value if isinstance(value, Vector) else Vector(constant(value, self.dtype))

    # --- functions --------------------------------------------------------------------------

    def at_most(self, limit: float) -> Vector:
        """The lesser of this value and a limit, in one instruction; NaN stays NaN."""
        bound = self.constant(limit)
        return select(bound < self, bound, self)

    def at_least(self, limit: float) -> Vector:
        bound = self.constant(limit)
        return select(bound > self, bound, self)

    __abs__, copysign = _function("fabs"), _function("copysign")
    sqrt, floor, trunc = _function("sqrt"), _function("floor"), _function("trunc")
    # see `tc.kernel.math.exponents`
    scaleb, logb, significand = _function("scaleb"), _function("logb"), _function("significand")


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
    return _function("fma")(x, y, z)


def select(condition: Vector, then: VectorOperand, otherwise: VectorOperand) -> Vector:
    """Lane by lane; one of the two values is no number."""
    typed = then if isinstance(then, Vector) else otherwise
    assert isinstance(typed, Vector)
    values = typed.constant(then).expr, typed.constant(otherwise).expr
    return Vector(ir.Select(condition.expr, *values, typed.dtype))


def horner(x: Vector, coefficients: Sequence[float]) -> Vector:
    """The polynomial with these coefficients, that of x**0 first: the fewest operations."""
    *rest, last = coefficients
    total: VectorOperand = last
    for coefficient in reversed(rest):
        total = fma(x, total, coefficient)
    return x.constant(total)


def polynomial(x: Vector, coefficients: Sequence[float]) -> Vector:
    """As `horner`, but if it is long by two polynomials in x * x: one operation more, half the
    waiting for results."""
    if len(coefficients) < _LONG:
        return horner(x, coefficients)
    square = x * x
    return fma(x, horner(square, coefficients[1::2]), horner(square, coefficients[::2]))


_LONG = 12
