"""Scalar types, weak types, and how they promote (rules T3, Y1, Y2, Y8)."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
"""An array of numpy, of any type and rank."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The finite numbers of a float type: `digits` of the significand, with the first, and the
    exponents of the least and of the largest normal numbers, `least` and `most`. `steps` is by how
    many steps the largest number is less than 2**(most + 1).

    >>> FLOAT16.format.largest, FLOAT16.format.smallest_normal == 2.0**-14
    (65504.0, True)
    """

    digits: int
    least: int
    most: int
    steps: int = 1

    @property
    def largest(self) -> float:
        return (2.0 - self.steps * self.epsilon) * 2.0**self.most

    @property
    def rounded_up(self) -> int:
        """The least number that is rounded beyond the largest: half a step more than that. No
        double holds that of doubles."""
        step = 1 << (self.most - self.digits + 1)
        return (1 << (self.most + 1)) - self.steps * step + step // 2

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0 ** (1 - self.digits)

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, self.least)

    @property
    def smallest_subnormal(self) -> float:
        return math.ldexp(1.0, self.least + 1 - self.digits)


FORMATS = {
    "float16": FloatFormat(11, -14, 15),
    "float32": FloatFormat(24, -126, 127),
    "float64": FloatFormat(53, -1022, 1023),
}
"""The formats of the float types, by their names."""


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """A scalar type; `kind` is "bool", "uint", "int" or "float".

    In kernels, also a vector of `lanes` elements of such a type; programs know no vectors. Equal
    types are the same object, copies and pickles too, as types are compared often: `dtype_of`
    makes them.

    >>> vector = FLOAT32.vector(16)
    >>> str(vector), vector.bits, vector.scalar == FLOAT32, vector == FLOAT32
    ('float32x16', 32, True, False)
    """

    name: str
    kind: str
    bits: int  # of an element
    lanes: int = field(default=1, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (self.name, self.kind, self.bits, self.lanes)

    def __str__(self) -> str:
        return self.name if self.lanes == 1 else f"{self.name}x{self.lanes}"

    def vector(self, lanes: int) -> DType:
        """The type of a vector of `lanes` elements of this type; for 1 lane, this type."""
        return dtype_of(self.name, self.kind, self.bits, lanes)

    @property
    def scalar(self) -> DType:
        """The type of an element."""
        return self if self.lanes == 1 else self.vector(1)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        return np.dtype(self.name)

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_integer(self) -> bool:
        """Whether the type counts as integer; bool does not (Y2: bool is no subscript)."""
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_storage(self) -> bool:
        """Whether memory holds the type, and nothing is computed in it (Y8): of such floats,
        values are computed in float32, and rounded where they are stored.

        >>> FLOAT16.is_storage, FLOAT32.is_storage, INT8.is_storage
        (True, False, False)
        """
        return self.bits < 32 and self.kind == "float"

    @property
    def computed(self) -> DType:
        """The type in which values of the type are computed: half in float32 (Y8)."""
        return FLOAT32.vector(self.lanes) if self.is_storage else self

    @property
    def unsigned(self) -> DType:
        """The unsigned integers of the same width, and of as many lanes."""
        return dtype_of(f"uint{self.bits}", "uint", self.bits, self.lanes)

    @property
    def format(self) -> FloatFormat:
        """Of a float type."""
        return FORMATS[self.name]


_MADE: dict[tuple[str, str, int, int], DType] = {}


def dtype_of(name: str, kind: str, bits: int, lanes: int = 1) -> DType:
    """The type with these properties, the same object each time, in each thread."""
    key = (name, kind, bits, lanes)
    return _MADE.get(key) or _MADE.setdefault(key, DType(*key))


BOOL = dtype_of("bool", "bool", 1)
UINT8, UINT16, UINT32, UINT64 = (dtype_of(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
INT8, INT16, INT32, INT64 = (dtype_of(f"int{b}", "int", b) for b in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (dtype_of(f"float{b}", "float", b) for b in (16, 32, 64))

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64,
    )
}  # fmt: skip

SPELLINGS: dict[str, DType] = {
    **DTYPES,
    "byte": UINT8,
    "int": INT32,
    "half": FLOAT16,
    "float": FLOAT32,
    "double": FLOAT64,
}
"""Every spelling of a type in the language (T3); the names are reserved words."""


class Weak(enum.Enum):
    """A type that yields to what it meets (Y1).

    `LITERAL` integers adapt to any type; `SIZE` integers (sizes, extents, index variables and
    what is computed with them) never narrow below int32; `FLOAT` adapts to any floating type.
    """

    LITERAL = "literal"
    SIZE = "size"
    FLOAT = "weak float"


Type: TypeAlias = DType | Weak


def promote(left: Type, right: Type, floating: DType | None = None) -> Type:
    """The common type of two operands in arithmetic (Y1, Y2); bool counts as int32. `floating`
    is the type of a floating literal beside an integer, float32 unless another one is given.

    >>> promote(INT8, UINT8), promote(FLOAT16, INT64), promote(Weak.SIZE, INT8)
    (DType(name='int16', kind='int', bits=16), DType(name='float16', kind='float', bits=16), \
DType(name='int32', kind='int', bits=32))
    """
    left, right = (INT32 if t == BOOL else t for t in (left, right))
    if isinstance(left, Weak) and isinstance(right, Weak):
        order = (Weak.LITERAL, Weak.SIZE, Weak.FLOAT)
        return max(left, right, key=order.index)
    if isinstance(left, Weak):
        return _promote_weak(left, right, floating)  # type: ignore[arg-type]  # both weak is above
    if isinstance(right, Weak):
        return _promote_weak(right, left, floating)
    return _promote_concrete(left, right)


def join(left: Type, right: Type, floating: DType | None = None) -> Type:
    """The common type where values meet without arithmetic: bool with bool stays bool (Y2)."""
    return BOOL if left == BOOL and right == BOOL else promote(left, right, floating)


def is_lossy_mix(left: Type, right: Type) -> bool:
    """Whether two operands are uint64 with a signed type, which no type holds (Y2 warns)."""
    return (
        isinstance(left, DType)
        and isinstance(right, DType)
        and UINT64 in (left, right)
        and "int" in (left.kind, right.kind)
    )


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest value of bool or an integer type.

    >>> limits(INT8), limits(UINT16)
    ((-128, 127), (0, 65535))
    """
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def wrap(value: int, dtype: DType) -> int:
    """An integer converted to an integer type: it wraps around.

    >>> wrap(300, INT8), wrap(-1, UINT16)
    (44, 65535)
    """
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def fits(value: float, dtype: DType) -> bool:
    """Whether a literal, with its sign, fits a type (Y1); a float fits where the nearest float of
    the type is finite.

    >>> fits(300, UINT8), fits(-1, UINT8), fits(65504, FLOAT16), fits(70000, FLOAT16)
    (False, False, True, False)
    >>> fits(3.4028235e38, FLOAT32), fits(3.4028236e38, FLOAT32), fits(65505, FLOAT16)
    (True, False, False)
    """
    if dtype.is_float:
        if isinstance(value, int):
            return abs(value) <= dtype.format.largest
        return abs(value) < dtype.format.rounded_up
    if dtype == BOOL:
        return True
    low, high = limits(dtype)
    return low <= value <= high


def _promote_weak(weak: Weak, dtype: DType, floating: DType | None) -> DType:
    if weak is Weak.LITERAL or dtype.is_float:
        return dtype
    if weak is Weak.FLOAT:
        return floating or FLOAT32
    if dtype.bits == 64:  # a size takes a wider operand's type, uint64 too
        return dtype
    return INT64 if dtype == UINT32 else _promote_concrete(INT32, dtype)


def _promote_concrete(left: DType, right: DType) -> DType:
    if left.kind == right.kind:
        return left if left.bits >= right.bits else right
    if left.is_float or right.is_float:
        return left if left.is_float else right
    signed, unsigned = (left, right) if left.kind == "int" else (right, left)
    bits = max(signed.bits, 2 * unsigned.bits)
    return DTYPES[f"int{min(bits, 64)}"]
