"""What instructions compute: functions of arrays, which have one element for each thread."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.support.ptx.memory import Array
from tests.support.ptx.parse import TYPES, Instruction

F64 = np.dtype(np.float64)
Computes = Callable[..., Array]

# --- rounding ---------------------------------------------------------------------------------


def odd_sum(a: Array, b: Array) -> Array:
    """The sum of doubles; one that is not exact becomes the neighbour whose last bit is one, so
    that rounding it again, to a shorter type, is as if it were rounded once."""
    total = np.asarray(a + b)
    back = total - a
    error = (a - (total - back)) + (b - back)
    if not error.any():
        return total
    bits = total.view(np.int64)
    inexact = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    toward_zero = (error < 0) == (total > 0)
    return np.asarray(bits + np.where(inexact, np.where(toward_zero, -1, 1), 0)).view(F64)


def rounded(exact: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Doubles of `odd_sum` as numbers of a shorter type: toward zero (rz), -infinity (rm) or
    infinity (rp)."""
    result = exact.astype(dtype)
    down = exact > 0 if mode == "rz" else mode == "rm"
    beyond = np.where(down, result > exact, result < exact)
    limit = np.where(down, -np.inf, np.inf).astype(dtype)
    return np.where(beyond, np.nextafter(result, limit), result)


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """x * y + z, rounded once. (Of doubles, what the product and the sum lost is added to the sum,
    which may miss the last bit.)"""
    product = np.asarray(x.astype(F64) * y)
    if x.dtype != F64:
        total = product + z
        if (np.asarray(total).view(np.int64) & 0x0FFFFFFF).all():
            return total.astype(x.dtype)  # not in the middle of two numbers, even subnormal ones
        return odd_sum(product, z.astype(F64)).astype(x.dtype)
    (high_x, low_x), (high_y, low_y) = _halves(x), _halves(y)
    lost = ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y
    total = product + z
    back = total - product
    exact = total + ((product - (total - back)) + (z - back) + lost)
    return np.where(np.isfinite(exact), exact, total)


def _halves(x: Array) -> tuple[Array, Array]:
    """A double as a sum of two of at most 26 bits (Dekker)."""
    high = x * 134217729.0
    high = high - (high - x)
    return high, x - high


def approximate(function: Computes) -> Computes:
    """A function of floats that hardware approximates is rounded once here."""
    return lambda x: function(x.astype(F64)).astype(x.dtype)


def flushed(x: Array) -> Array:
    """Zero in the place of subnormal numbers."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(np.zeros_like(x), x), x)


def from_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


# --- conversions ------------------------------------------------------------------------------

WHOLE: Mapping[str, Computes] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def converted(x: Array, dtype: np.dtype[Any], modifiers: frozenset[str]) -> Array:
    """As cvt does."""
    for name in modifiers & WHOLE.keys():
        x = WHOLE[name](x)
    if x.dtype.kind == "f" and dtype.kind != "f":
        return _clamped(x, dtype)
    if "sat" in modifiers:
        low, high = (0, 1) if dtype.kind == "f" else _common_bounds(x.dtype, dtype)
        x = np.fmin(np.fmax(x, x.dtype.type(low)), x.dtype.type(high))
    for mode in modifiers & {"rz", "rm", "rp"}:
        return rounded(x.astype(F64), dtype, mode)
    return x.astype(dtype)


def to_tf32(x: Array) -> Array:
    """The bits of float32 rounded to 11 binary digits, ties away from 0; NaN has all bits."""
    fraction, exponent = np.frexp(np.where(np.isfinite(x), x, 0).astype(F64))
    digits = np.minimum(11, exponent + 136)  # numbers below 2**-126 are multiples of 2**-136
    whole = np.trunc(np.ldexp(fraction, digits) + np.copysign(0.5, fraction))
    with np.errstate(over="ignore"):
        found = np.ldexp(whole, exponent - digits).astype(np.float32)
    bits = np.where(np.isfinite(x), found, x).astype(np.float32).view(np.uint32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), bits)


def _clamped(x: Array, dtype: np.dtype[Any]) -> Array:
    """Whole numbers as integers: the nearest that there is. NaN is 0 where neither type has 64
    bits, else the highest bit alone."""
    bounds, wide = np.iinfo(dtype), x.astype(F64)
    low, high = wide <= float(bounds.min), wide >= float(bounds.max)
    has_none = x.dtype != F64 and bounds.bits < 64
    of_nan = np.uint64(0 if has_none else 1 << bounds.bits - 1).astype(dtype)
    inside = np.where(low | high | np.isnan(wide), 0, wide).astype(dtype)
    inside = np.where(low, dtype.type(bounds.min), np.where(high, dtype.type(bounds.max), inside))
    return np.where(np.isnan(wide), of_nan, inside)


def _common_bounds(a: np.dtype[Any], b: np.dtype[Any]) -> tuple[int, int]:
    one, other = np.iinfo(a), np.iinfo(b)
    return max(one.min, other.min), min(one.max, other.max)


# --- operations -------------------------------------------------------------------------------

COMPARISONS: Mapping[str, Computes] = {
    "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "ne": lambda x, y: (x < y) | (x > y), "num": lambda x, y: (x == x) & (y == y),
    "equ": lambda x, y: ~((x < y) | (x > y)), "neu": operator.ne, "ltu": lambda x, y: ~(x >= y),
    "leu": lambda x, y: ~(x > y), "gtu": lambda x, y: ~(x <= y), "geu": lambda x, y: ~(x < y),
    "nan": lambda x, y: (x != x) | (y != y),
}  # fmt: skip
"""Those of floating-point numbers that end in u hold for NaN, too."""


def extreme(choose: Computes, of_equal: Computes) -> Computes:
    """The greater or the lesser of two; equal floating-point numbers differ in the sign of zero at
    most, which is a bit. A number comes before NaN."""

    def chosen(x: Array, y: Array) -> Array:
        if x.dtype.kind != "f":
            return choose(x, y)
        x, y = (a.copy() for a in np.broadcast_arrays(x, y))
        bits = f"u{x.itemsize}"
        return np.where(x == y, of_equal(x.view(bits), y.view(bits)).view(x.dtype), choose(x, y))

    return chosen


def or_nan(choose: Computes) -> Computes:
    return lambda x, y: np.where((x != x) | (y != y), x.dtype.type(np.nan), choose(x, y))


def divided(x: Array, y: Array) -> Array:
    """Integers toward zero; PTX does not say what one divided by zero is."""
    if x.dtype.kind == "f":
        return x / y
    safe = np.where(y == 0, y.dtype.type(1), y)
    quotient = x // safe
    return quotient + ((quotient * safe != x) & ((x < 0) != (safe < 0))).astype(x.dtype)


def inserted(field: Array, into: Array, start: Array, length: Array) -> Array:
    """A field of bits in the place of others (bfi)."""
    start, length = ((v & np.uint32(255)).astype(field.dtype) for v in (start, length))
    mask = ~(~field.dtype.type(0) << length) << start
    return into & ~mask | field << start & mask


def permuted(x: Array, y: Array, selector: Array) -> Array:
    """Four bytes of eight, or their signs (prmt)."""
    both, result = x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32), np.uint64(0)
    for byte in range(4):
        control = (selector >> np.uint32(4 * byte)).astype(np.uint64)
        value = both >> (control & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = (value >> np.uint64(7)) * np.uint64(255)
        value = np.where(control & np.uint64(8), sign, value)
        result = result | value << np.uint64(8 * byte)
    return result.astype(np.uint32)


def set_bits(x: Array) -> Array:
    bits = np.unpackbits(np.atleast_1d(x)[:, None].view(np.uint8), axis=1)
    return bits.sum(axis=1, dtype=np.uint32).reshape(np.shape(x))


def leading_zeros(x: Array) -> Array:
    words = [8 * x.dtype.itemsize - int(word).bit_length() for word in np.ravel(x)]
    return np.uint32(words).reshape(np.shape(x))


def funnel(*, left: bool) -> Computes:
    """32 bits of the second word above the first, shifted by a count modulo 32 (shf)."""

    def compute(low: Array, high: Array, count: Array) -> Array:
        both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        count = count.astype(np.uint64) & np.uint64(31)
        moved = both << count >> np.uint64(32) if left else both >> count
        return moved.astype(np.uint32)

    return compute


def dot_of_bytes(x: Array, y: Array, z: Array) -> Array:
    """A sum of four products (dp4a)."""
    kind = f"{z.dtype.kind}1"
    rows = (np.atleast_1d(a)[:, None].view(kind).astype(np.int64) for a in (x, y))
    return np.asarray(operator.mul(*rows).sum(axis=1) + z).astype(z.dtype)


BINARY: Mapping[str, Computes] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divided,
    "rem": lambda x, y: x - divided(x, y) * y, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "min": extreme(np.fmin, np.bitwise_or),
    "max": extreme(np.fmax, np.bitwise_and), "copysign": lambda x, y: np.copysign(y, x),
}  # fmt: skip
UNARY: Mapping[str, Computes] = {
    "neg": operator.neg, "abs": np.abs, "not": operator.invert, "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x, "rsqrt": approximate(lambda x: 1 / np.sqrt(x)),
    "ex2": approximate(np.exp2), "lg2": approximate(np.log2), "sin": approximate(np.sin),
    "cos": approximate(np.cos), "tanh": approximate(np.tanh),
}  # fmt: skip
DIRECTED: Mapping[str, Computes] = {
    "add": odd_sum, "sub": lambda x, y: odd_sum(x, -y), "mul": operator.mul,
    "fma": lambda x, y, z: odd_sum(x * y, z),
}  # fmt: skip
"""Of doubles that hold floats, what is then rounded in a direction."""


def longer(x: Array) -> Array:
    return x.astype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")


def high_product(x: Array, y: Array) -> Array:
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.asarray(product >> 8 * x.dtype.itemsize).astype(x.dtype)


def shifted(shift: Computes) -> Computes:
    return lambda x, k: shift(x, np.minimum(k, 64).astype(x.dtype))


SIGNATURES: Mapping[str, tuple[Computes, str, str]] = {
    **{name: (compute, "t", "t t") for name, compute in BINARY.items()},
    **{name: (compute, "t", "t") for name, compute in UNARY.items()},
    "fma": (multiply_add, "t", "t t t"),
    "mul.wide": (lambda x, y: longer(x) * longer(y), "w", "t t"),
    "mad.wide": (lambda x, y, z: longer(x) * longer(y) + z, "w", "t t w"),
    "mul.hi": (high_product, "t", "t t"),
    "mad.lo": (lambda x, y, z: x * y + z, "t", "t t t"),
    "shl": (shifted(operator.lshift), "t", "t u32"),
    "shr": (shifted(operator.rshift), "t", "t u32"),
    "shf.l": (funnel(left=True), "u32", "u32 u32 u32"),
    "shf.r": (funnel(left=False), "u32", "u32 u32 u32"),
    "popc": (set_bits, "u32", "t"),
    "clz": (leading_zeros, "u32", "t"),
    "selp": (lambda x, y, p: np.where(p, x, y), "t", "t t pred"),
    "bfi": (inserted, "t", "t t u32 u32"),
    "prmt": (permuted, "u32", "u32 u32 u32"),
    "dp4a.u32.u32": (dot_of_bytes, "t", "u32 u32 t"),
    "dp4a.s32.s32": (dot_of_bytes, "t", "u32 u32 t"),
}
"""What is computed, the type of the result and those of the sources, where t is the instruction's
type and w the one that is twice as long."""

_BOOLEAN: Mapping[str, Computes] = {name: BINARY[name] for name in ("and", "or", "xor")}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_KNOWN = {*TYPES, *WHOLE, *COMPARISONS, *_BOOLEAN, *_UNSIGNED} | set(
    "rn rz rm rp lo hi wide approx full ftz sat NaN b32 l r wrap".split()  # noqa: SIM905
)


def meaning(i: Instruction) -> tuple[Computes, str, list[str]]:
    """What an instruction computes, the type of its result, and those of its sources; KeyError for
    an unknown one."""
    t, modifiers = i.type, frozenset(i.modifiers)
    if i.name == "cvt" and i.modifiers == ("rna", "tf32", "f32"):
        return to_tf32, "b32", [t]
    if not modifiers <= _KNOWN or t not in TYPES:
        raise KeyError(i.text)
    if i.name == "cvt":
        target = i.modifiers[-2]
        return lambda x: converted(x, TYPES[target], modifiers), target, [t]
    if i.name == "setp":
        return _comparison(i)
    name = "fma" if i.name == "mad" and t.startswith("f") else i.name
    keys = (f"{name}.{i.modifiers[0]}", ".".join((name, *i.modifiers)))
    compute, *types = SIGNATURES[next((key for key in keys if key in SIGNATURES), name)]
    names = {"t": t, "w": f"{t[0]}{2 * int(t[1:])}"} if t[1:].isdigit() else {"t": t}
    result, *sources = (names.get(word, word) for word in " ".join(types).split())
    if "NaN" in modifiers:
        compute = or_nan(compute)
    for mode in modifiers & {"rz", "rm", "rp"}:
        if t != "f32":
            raise KeyError(i.text)
        compute = directed(DIRECTED[name], TYPES[t], mode)
    if "ftz" in modifiers:
        compute = with_flushed(compute)
    if "sat" in modifiers:
        whole = compute
        compute = lambda *given: converted(whole(*given), TYPES[result], modifiers)  # noqa: E731
    return compute, result, sources


def _comparison(i: Instruction) -> tuple[Computes, str, list[str]]:
    first, second = i.modifiers[:2]
    if "ftz" in i.modifiers:
        raise KeyError(i.text)
    compare, t = COMPARISONS[_UNSIGNED.get(first, first)], i.type
    if second in _BOOLEAN:
        join = _BOOLEAN[second]
        return lambda x, y, p: join(compare(x, y), p), "pred", [t, t, "pred"]
    return compare, "pred", [t, t]


def directed(exact: Computes, dtype: np.dtype[Any], mode: str) -> Computes:
    return lambda *given: rounded(exact(*(x.astype(F64) for x in given)), dtype, mode)


def with_flushed(compute: Computes) -> Computes:
    return lambda *given: flushed(compute(*(flushed(x) for x in given)))
