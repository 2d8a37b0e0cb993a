"""Conversions and built-in functions on the values of traced regions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from tc.backends.numba.traced_code import llvm_type
from tc.backends.numba.traced_values import (
    Operand,
    TracedValue,
    as_value,
    extract,
    intrinsic,
    select,
    shuffle,
)
from tc.device import converts_halves
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, UINT16, UINT32, UINT64, DType
from tc.process import numba_settings
from tc.process.uninterrupted import load

NATIVE = {
    "abs": "fabs", "ceil": "ceil", "copysign": "copysign", "fabs": "fabs", "floor": "floor",
    "fma": "fma", "fmax": "maxnum", "fmin": "minnum", "rint": "rint", "round": "round",
    "sqrt": "sqrt", "trunc": "trunc", "popc": "ctpop", "clz": "ctlz",
}  # fmt: skip
"""The functions of `tc.builtins` that are an intrinsic of LLVM, on scalars and vectors alike."""

EXPONENTS = {"logb": ("getexp",), "scaleb": ("scalef",), "significand": ("getmant", "11")}
"""The instructions of AVX-512 for exponents, with their constants: getmant's wants fractions from
3/4 to 3/2, and NaN for negative numbers."""

_ROUNDING = "4"


def native(function: str, *operands: Operand) -> TracedValue:
    """A function of `NATIVE` on operands of one type; numbers among the operands take that type."""
    first = next(operand for operand in operands if isinstance(operand, TracedValue))
    values = [as_value(first.code, operand, first.dtype) for operand in operands]
    if function == "abs" and not first.dtype.is_float:
        return first if first.dtype.kind == "uint" else intrinsic("abs", first, flags="false")
    if function == "clz":  # of a 0, the bits of the type
        return intrinsic("ctlz", first, flags="false")
    return intrinsic(NATIVE[function], *values)


def call(function: Any, *operands: Operand) -> TracedValue:
    """A function of `math` on scalars, as regions without vectors compute it."""
    first = next(operand for operand in operands if isinstance(operand, TracedValue))
    values = [as_value(first.code, operand, first.dtype) for operand in operands]
    compiled = _compiled(function, first.dtype, len(values))
    code, kind = first.code, llvm_type(first.dtype)
    code.link(compiled._library)
    pairs = [value.operand for value in values]
    instruction = code.call(f'"{compiled.native_name}"', kind, *pairs)
    return TracedValue(code, code.pure(instruction), first.dtype)


@cache
def _compiled(function: Any, dtype: DType, arity: int) -> Any:
    """The function for a type as a C function to link to."""
    numba = load("numba")  # which kernels without such functions do not need
    kind = getattr(numba.types, dtype.name)
    formula = [lambda x: function(x), lambda x, y: function(x, y)]
    formula += [lambda x, y, z: function(x, y, z), lambda x, y, z, w: function(x, y, z, w)]
    return numba.cfunc(kind(*[kind] * arity), error_model="numpy")(formula[arity - 1])


# --- exponents --------------------------------------------------------------------------------


def on_exponents(function: str, *values: TracedValue) -> TracedValue:
    """One of `EXPONENTS` on vectors: the instruction, on as many registers as they fill."""
    first, lanes = values[0], values[0].dtype.lanes
    if not _has_exponents():
        return _by_lanes(function, values)
    least, most = 128 // first.dtype.bits, 512 // first.dtype.bits
    if lanes > most:
        halves = range(lanes // 2), range(lanes // 2, lanes)
        low, high = (
            on_exponents(function, *(shuffle(value, value, half) for value in values))
            for half in halves
        )
        return _joined(low, high)
    whole = max(least, 1 << (lanes - 1).bit_length())
    padded = [*range(lanes), *[-1] * (whole - lanes)]
    found = _instruction(function, [shuffle(value, value, padded) for value in values])
    return shuffle(found, found, range(lanes))


def _joined(low: TracedValue, high: TracedValue) -> TracedValue:
    """The lanes of both; the second may have one more."""
    count, more = low.dtype.lanes, high.dtype.lanes
    widened = shuffle(low, low, [*range(count), *[-1] * (more - count)])
    return shuffle(widened, high, [*range(count), *range(more, 2 * more)])


def _instruction(function: str, values: Sequence[TracedValue]) -> TracedValue:
    """The instruction on vectors that are a register: without a mask, rounding as ever."""
    name, *immediate = EXPONENTS[function]
    code, dtype = values[0].code, values[0].dtype
    width, kind = dtype.lanes * dtype.bits, llvm_type(dtype)
    operands = [value.operand for value in values]
    operands += [("i32", number) for number in immediate]
    mask = f"i{max(8, dtype.lanes)}"
    operands += [(kind, "zeroinitializer"), (mask, "-1")]
    if width == 512:
        operands.append(("i32", _ROUNDING))
    suffix = f"{'ps' if dtype.bits == 32 else 'pd'}.{width}"
    instruction = code.call(f"llvm.x86.avx512.mask.{name}.{suffix}", kind, *operands)
    return TracedValue(code, code.pure(instruction), dtype)


def _by_lanes(function: str, values: Sequence[TracedValue]) -> TracedValue:
    """By the function on scalars, where numba may not use the instructions."""
    code, dtype = values[0].code, values[0].dtype
    kind, text = llvm_type(dtype), "poison"
    of_scalars = getattr(load("tc.backends.numba.math"), function)
    for lane in range(dtype.lanes):
        one = call(of_scalars, *(extract(value, lane) for value in values))
        pair = " ".join(one.operand)
        text = code.pure(f"insertelement {kind} {text}, {pair}, i64 {lane}")
    return TracedValue(code, text, dtype)


def _has_exponents() -> bool:
    """Whether LLVM may use them: numba's configuration can forbid what the processor has."""
    allowed = numba_settings.features().split(",")
    return "+avx512f" in allowed and "+avx512vl" in allowed


# --- conversions ------------------------------------------------------------------------------


def cast(value: TracedValue, scalar: DType) -> TracedValue:
    """The value in another type, lane by lane; see `tc.kernel.ir.Cast`."""
    source, target = value.dtype.scalar, scalar.vector(value.dtype.lanes)
    if source == scalar:
        return value
    if scalar == BOOL:
        return value != (0.0 if source.is_float else 0)
    if source == FLOAT16:
        return cast(_from_half(value), scalar)
    if scalar == FLOAT16:
        return _to_half(value if source.is_float else cast(value, FLOAT32))
    if source.is_float and scalar.is_integer:
        found = _converted("fptosi" if scalar.kind == "int" else "fptoui", value, target)
        # LLVM leaves open what becomes of values out of range, even that they are one value
        return TracedValue(found.code, found.code.pure(f"freeze {' '.join(found.operand)}"), target)
    return _converted(_conversion(source, scalar), value, target)


def bits(value: TracedValue, scalar: DType) -> TracedValue:
    """The bits of the value, read as another type of the same width."""
    return _converted("bitcast", value, scalar.vector(value.dtype.lanes))


def _conversion(source: DType, target: DType) -> str:
    widens = target.bits > source.bits
    if source.is_float:
        return "fpext" if widens else "fptrunc"
    if target.is_float:
        return "sitofp" if source.kind == "int" else "uitofp"
    if widens:
        return "sext" if source.kind == "int" else "zext"
    return "trunc"


def _converted(word: str, value: TracedValue, target: DType) -> TracedValue:
    kind, text = value.operand
    wanted = llvm_type(target)
    if kind == wanted:
        return TracedValue(value.code, text, target)
    return TracedValue(value.code, value.code.pure(f"{word} {kind} {text} to {wanted}"), target)


# --- half, by its bits where the machine cannot convert it ------------------------------------


def _from_half(value: TracedValue) -> TracedValue:
    if converts_halves():
        return _through_half(value, FLOAT32, "bitcast", "fpext")
    half = cast(bits(value, UINT16), UINT32)
    # the exponent of a half, put into a float32, is 112 too small; 2**112 mends it
    found = bits(bits((half & 0x7FFF) << 13, FLOAT32) * 2.0**112, UINT32)
    special = (half & 0x7C00) == 0x7C00  # infinite or NaN
    found = select(special, found | 0x7F800000, found)
    return bits(found | ((half & 0x8000) << 16), FLOAT32)


def _to_half(value: TracedValue) -> TracedValue:
    """The nearest half, the even one of two. float64 does not go by way of float32, which would
    round twice."""
    if value.dtype.scalar == FLOAT64:
        return _rounded_to_half(value, UINT64, 52, "=dQ")
    if converts_halves():
        return _through_half(value, FLOAT16, "fptrunc", "bitcast")
    return _rounded_to_half(value, UINT32, 23, "=fI")


def _through_half(value: TracedValue, target: DType, first: str, second: str) -> TracedValue:
    """Two conversions, with LLVM's own half between them."""
    lanes, code = value.dtype.lanes, value.code
    half, result = "half" if lanes == 1 else f"<{lanes} x half>", target.vector(lanes)
    between = code.pure(f"{first} {' '.join(value.operand)} to {half}")
    return TracedValue(code, code.pure(f"{second} {half} {between} to {llvm_type(result)}"), result)


def _rounded_to_half(value: TracedValue, whole: DType, fraction: int, formats: str) -> TracedValue:
    """The bits of a float rounded to half. `whole` is the integer type as wide as the float,
    `fraction` the number of its bits that hold the fraction."""

    def of(number: float) -> int:
        packed = struct.pack(formats[:2], number)
        return int(struct.unpack(formats[0] + formats[2], packed)[0])

    given, drop = bits(value, whole), fraction - 10
    size = given & ((1 << (whole.bits - 1)) - 1)
    # adding this number rounds to multiples of 2**-24, the least half
    magic = 2.0 ** (fraction - 24)
    tiny = bits(bits(size, value.dtype.scalar) + magic, whole) - of(magic)
    # rounds to 10 bits, then lowers the exponent
    odd = (size >> drop) & 1
    lowered = size + odd + ((1 << (drop - 1)) - 1) - (of(2.0**-14) - (1 << fraction))
    half = select(size < of(2.0**-14), tiny, lowered >> drop)
    half = select(size >= of(65520.0), 0x7C00, half)
    half = select(size > of(float("inf")), 0x7E00, half)
    found = cast(half | (given >> (whole.bits - 16)) & 0x8000, UINT16)
    return bits(found, FLOAT16)
