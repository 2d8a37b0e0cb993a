"""Scalar types, weak types, and how they promote (rules T3, Y1, Y2, Y8)."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
"""An array of numpy, of any type and rank."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The numbers of a float type: `digits` of the significand, with the first, and the exponents
    of the least and of the largest normal numbers, `least` and `most`. A type that is not
    `infinite` has one number more in place of infinities, and of all NaNs but one: what is beyond
    its largest number is rounded to that.

    >>> FLOAT16.format.largest, FLOAT16.format.smallest_normal == 2.0**-14
    (65504.0, True)
    >>> [FORMATS[f"float8_{name}"].largest for name in ("e4m3fn", "e5m2")]
    [448.0, 57344.0]
    """

    digits: int
    least: int
    most: int
    infinite: bool = True

    @property
    def largest(self) -> float:
        return (2.0 - (1 if self.infinite else 2) * self.epsilon) * 2.0**self.most

    @property
    def rounded_up(self) -> int:
        """The least number that is rounded beyond the largest: half a step more than that. No
        double holds that of doubles."""
        step = 1 << (self.most - self.digits + 1)
        return (1 << (self.most + 1)) - (step if self.infinite else 2 * step) + step // 2

    @property
    def numbers(self) -> int:
        """The number of finite numbers that are not negative, whose bits count up from 0."""
        return ((self.most - self.least + 2) << (self.digits - 1)) - (not self.infinite)

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
    "bfloat16": FloatFormat(8, -126, 127),
    "float8_e4m3fn": FloatFormat(4, -6, 8, infinite=False),
    "float8_e5m2": FloatFormat(3, -14, 15),
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
        """The type of numpy's arrays of it; of bits, where numpy has no such numbers (`encoded`).

        >>> FLOAT16.numpy, BFLOAT16.numpy
        (dtype('float16'), dtype([('bfloat16', 'V2')]))
        """
        return _NUMPY[self.name]

    @property
    def is_in_numpy(self) -> bool:
        """Whether numpy itself has numbers of the type."""
        return self.name not in _ENCODED

    @property
    def held(self) -> np.dtype[np.generic]:
        """The type of numpy that represents all values of the type, and computes with them."""
        return _NUMPY[self.name if self.is_in_numpy else "float32"]

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
    def is_read_as_float32(self) -> bool:
        """Whether what is read of a tensor of the type is a float32 to the rules of types (Y8)."""
        return self.bits < 16 and self.kind == "float"

    def holds(self, other: DType) -> bool:
        """Whether a float type represents all values of another.

        >>> FLOAT16.holds(FLOAT8_E5M2), FLOAT16.holds(BFLOAT16), FLOAT32.holds(BFLOAT16)
        (True, False, True)
        """
        own, its = self.format, other.format
        small = own.least - own.digits <= its.least - its.digits
        return own.digits >= its.digits and small and own.most >= its.most

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

BFLOAT16 = dtype_of("bfloat16", "float", 16)
FLOAT8_E4M3FN, FLOAT8_E5M2 = (dtype_of(f"float8_{n}", "float", 8) for n in ("e4m3fn", "e5m2"))

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64,
        BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2,
    )
}  # fmt: skip

_ENCODED = frozenset(d.name for d in (BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2))
"""The types that numpy does not have."""

_NUMPY: dict[str, np.dtype[Any]] = {
    # nothing but bits, and unlike any other: numpy computes nothing with them by mistake
    name: np.dtype([(name, f"V{dtype.bytes}")] if name in _ENCODED else name)
    for name, dtype in DTYPES.items()
}

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
    """The common type of two operands in arithmetic (Y1, Y2); bool counts as int32, and a float of
    8 bits as float32. `floating`
    is the type of a floating literal beside an integer, float32 unless another one is given.

    >>> promote(INT8, UINT8), promote(FLOAT16, INT64), promote(Weak.SIZE, INT8)
    (DType(name='int16', kind='int', bits=16), DType(name='float16', kind='float', bits=16), \
DType(name='int32', kind='int', bits=32))
    """
    left, right = arithmetic(left), arithmetic(right)
    if isinstance(left, Weak) and isinstance(right, Weak):
        order = (Weak.LITERAL, Weak.SIZE, Weak.FLOAT)
        return max(left, right, key=order.index)
    if isinstance(left, Weak):
        return _promote_weak(left, right, floating)  # type: ignore[arg-type]  # both weak is above
    if isinstance(right, Weak):
        return _promote_weak(right, left, floating)
    return _promote_concrete(left, right)


def arithmetic(dtype: Type) -> Type:
    """The type as which a value counts in arithmetic (Y2, Y8)."""
    if isinstance(dtype, Weak):
        return dtype
    return INT32 if dtype == BOOL else FLOAT32 if dtype.is_read_as_float32 else dtype


def join(left: Type, right: Type, floating: DType | None = None) -> Type:
    """The common type where values meet without arithmetic: bool with bool stays bool (Y2), a float
    of 8 bits with its like or a number what it is (Y8)."""
    if left == right and isinstance(left, DType):
        return left
    for one, other in ((left, right), (right, left)):
        if isinstance(one, DType) and one.is_read_as_float32 and isinstance(other, Weak):
            return one
    return promote(left, right, floating)


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
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


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
    if left.is_float and right.is_float and left.bits == right.bits and left != right:
        return FLOAT32  # neither half nor bfloat16 holds the other
    if left.kind == right.kind:
        return left if left.bits >= right.bits else right
    if left.is_float or right.is_float:
        return left if left.is_float else right
    signed, unsigned = (left, right) if left.kind == "int" else (right, left)
    bits = max(signed.bits, 2 * unsigned.bits)
    return DTYPES[f"int{min(bits, 64)}"]


# --- floats that numpy does not have, as bits --------------------------------------------------


@cache
def _magnitudes(name: str) -> Array:
    """The finite numbers of a type that are not negative, by their bits."""
    kind = FORMATS[name]
    exponents, fractions = np.divmod(np.arange(kind.numbers), 1 << (kind.digits - 1))
    fractions = fractions + np.where(exponents > 0, 1 << (kind.digits - 1), 0)
    found: Array = np.ldexp(fractions, np.maximum(exponents, 1) + kind.least - kind.digits)
    return found


@cache
def _values(name: str) -> Array:
    """All numbers of a type by their bits, as float32."""
    finite, half = _magnitudes(name), 1 << (DTYPES[name].bits - 1)
    values = np.full(2 * half, np.nan, np.float32)
    for first, sign in ((0, 1), (half, -1)):
        values[first : first + len(finite)] = sign * finite
        if FORMATS[name].infinite:
            values[first + len(finite)] = sign * np.inf
    return values


def decoded(array: Array, dtype: DType) -> Array:
    """The values of an array of a type that numpy does not have, as float32; any other array as it
    is."""
    if dtype.is_in_numpy:
        return array
    return np.asarray(_values(dtype.name)[array.view(dtype.unsigned.numpy)])


def encoded(values: Array, dtype: DType) -> Array:
    """Numbers as an array of the type, rounded to nearest, ties to even; of a type that numpy does
    not have, as its bits, by way of float32.

    >>> encoded(np.float32([1.0, -2.0, np.inf]), BFLOAT16).view(np.uint16).tolist()
    [16256, 49152, 32640]
    """
    if dtype.is_in_numpy:
        return values.astype(dtype.numpy)
    return _bits(values, dtype).view(dtype.numpy)


def as_array(values: Array, dtype: DType) -> Array:
    """Values that the type has, in the type of numpy that holds them, as an array of the type."""
    return values if dtype.is_in_numpy else encoded(values, dtype)


def rounded(values: Array, dtype: DType) -> Array:
    """Numbers rounded to a type, in the type of numpy that holds its values (`DType.held`).

    >>> rounded(np.float32([1.01, 500.0]), FLOAT8_E4M3FN).tolist()
    [1.0, 448.0]
    """
    if dtype.is_in_numpy:
        return values.astype(dtype.numpy)
    return np.asarray(_values(dtype.name)[_bits(values, dtype)])


def _bits(values: Array, dtype: DType) -> Array:
    """The bits of numbers, rounded first to float32, then to a type that numpy does not have."""
    kind, finite = dtype.format, _magnitudes(dtype.name)
    with np.errstate(all="ignore"):
        single = np.asarray(values).astype(np.float32)
        size = np.abs(single).astype(np.float64)
    # where rounding turns: half way between neighbours, the one behind the largest included
    turns = np.append((finite[1:] + finite[:-1]) / 2, float(kind.rounded_up))
    below = np.searchsorted(turns, size)
    is_tie = (below < len(turns)) & (size == turns[np.minimum(below, len(turns) - 1)])
    found = below + (is_tie & (below % 2 == 1))
    if not kind.infinite:
        found = np.minimum(found, len(finite) - 1)
    sign = 1 << (dtype.bits - 1)
    # of NaNs that with the first bit of the fraction, or the only one
    nan = kind.numbers | (1 << (kind.digits - 2) if kind.infinite else 0)
    found = np.where(np.isnan(single), nan, found) | np.where(np.signbit(single), sign, 0)
    return np.asarray(found, dtype.unsigned.numpy)
