"""How errors pass through + - * / % min max and the built-in functions (rule R5)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tc.builtins import BIT_FUNCTIONS, BUILTINS
from tc.builtins.operators import ON_BITS
from tc.dtypes import FLOAT32, FLOAT64, Array, DType
from tc.semantics.reference import uncertain
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.uncertain import (
    SLACK,
    ZERO,
    DyadicGrid,
    Uncertain,
    roundoff,
    tiny,
    widened,
)

_WITH_POLES = frozenset(
    ("log", "log2", "log10", "log1p", "logb", "atanh", "erfinv", "erfcinv", "normcdfinv")
)
"""Functions whose infinite values at finite arguments are poles, never overflows."""

_SEES_SIGN_OF_ZERO = frozenset(("atan2", "copysign", "fdivide"))
_KEEPS_GRID = frozenset(("abs", "fabs", "fmax", "fmin"))
_MAKES_WHOLE = frozenset(("ceil", "floor", "round", "trunc"))


def binary(op: str, left: Uncertain, right: Uncertain, dtype: DType) -> Uncertain:
    """An operation of tc.semantics.program.Binary on uncertain operands."""
    value = np.asarray(PLAIN.binary(op, left.value, right.value, dtype))
    grid = _grid(op, left, right, dtype)
    if op in ("min", "max"):
        return Uncertain(value, _extremum_error(op, left, right, value), grid)
    if op in ON_BITS:
        return Uncertain(value, _bits_error(left, right, dtype), grid)
    if not dtype.is_float:
        return Uncertain(value, _integer_error(op, left, right, value, dtype), grid)
    if grid is not None:
        return Uncertain(value, ZERO, grid)
    return Uncertain(value, _FLOAT_ERRORS[op](left, right, value, dtype))


def binary_of_tf32(op: str, left: Uncertain, right: Uncertain, dtype: DType) -> Uncertain:
    """As `binary`, where factors of float32 may be rounded to tf32, and numbers below 2**-126 may
    be 0 in their products and in sums of these."""
    if op != "*" or dtype != FLOAT32:
        return binary(op, left, right, dtype)
    one, other = map(uncertain.as_factor_of_tf32, (left, right))
    found = binary(op, one, other, dtype)
    lost = np.where(found.error > 0, found.error + 2 * uncertain.TF32_STEP, found.error)
    zeros = _any((side.value == 0) & (side.error == 0) for side in (one, other))
    is_zero = zeros & (one.error < np.inf) & (other.error < np.inf) & (found.value == 0)
    return Uncertain(found.value, np.where(is_zero, 0.0, lost))


def _grid(op: str, left: Uncertain, right: Uncertain, dtype: DType) -> DyadicGrid | None:
    """The grid of a result that is exact because its type holds every value of the grid."""
    a, b = left.grid, right.grid
    if a is None or b is None:
        return None
    if op in ("min", "max"):
        return uncertain.joined(a, b)
    if op in ON_BITS:
        return DyadicGrid(0, 2.0**dtype.bits)
    if not (left.is_exact and right.is_exact):
        return None
    grid: DyadicGrid | None
    match op:
        case "+" | "-":
            grid = DyadicGrid(min(a.exponent, b.exponent), a.magnitude + b.magnitude)
        case "*":
            grid = DyadicGrid(a.exponent + b.exponent, a.magnitude * b.magnitude)
        case "/" if dtype.is_float:
            grid = _quotient_grid(a, right.value)
        case "/":
            grid = DyadicGrid(0, a.magnitude)
        case _:
            is_zero = dtype.is_float and not np.all(right.value)
            grid = None if is_zero else DyadicGrid(min(a.exponent, b.exponent), b.magnitude)
    return grid and uncertain.exact_grid(grid, dtype)


def _quotient_grid(dividend: DyadicGrid, divisor: Array) -> DyadicGrid | None:
    """Dividing by one power of two is exact."""
    if divisor.size != 1:
        return None
    fraction, exponent = math.frexp(float(divisor.item()))
    if abs(fraction) != 0.5:
        return None
    return DyadicGrid(
        dividend.exponent - exponent + 1, math.ldexp(dividend.magnitude, 1 - exponent)
    )


# --- operators on floats ------------------------------------------------------------------------


def _certain(left: Uncertain, right: Uncertain, special: Array) -> Array:
    """Where a result is special whatever the errors, if they are known, or a NaN is an operand."""
    known = (left.error < np.inf) & (right.error < np.inf)
    return (known & special) | left.certain_nan | right.certain_nan


def _sum_error(left: Uncertain, right: Uncertain, value: Array, dtype: DType) -> Array:
    def certain() -> Array:
        return _certain(left, right, ~(np.isfinite(left.value) & np.isfinite(right.value)))

    spread = left.error + right.error
    return uncertain.result_error(value, spread, dtype, relative=roundoff(dtype), certain=certain)


def _product_error(left: Uncertain, right: Uncertain, value: Array, dtype: DType) -> Array:
    def certain() -> Array:
        special = np.isinf(left.value) & _has_sign(right)
        return _certain(left, right, special | (np.isinf(right.value) & _has_sign(left)))

    spread = _product_spread(left, right)
    u, eta = roundoff(dtype), tiny(dtype)
    return uncertain.result_error(value, spread, dtype, relative=u, absolute=eta, certain=certain)


def _product_spread(left: Uncertain, right: Uncertain) -> Array:
    """|x y - a b| for x and y within the errors of a and b."""
    spread = ZERO
    if not left.is_exact:
        spread = spread + left.error * (np.abs(widened(right.value)) + right.error)
    if not right.is_exact:
        spread = spread + right.error * np.abs(widened(left.value))
    return spread


def _has_sign(operand: Uncertain) -> Array:
    """Where no error changes the sign (a known 0 counts: times an infinity it is NaN)."""
    return _any((np.abs(widened(operand.value)) > operand.error, operand.error == 0))


def _quotient_error(left: Uncertain, right: Uncertain, value: Array, dtype: DType) -> Array:
    def certain() -> Array:
        nan = (np.isinf(left.value) & np.isinf(right.value)) | (
            (left.value == 0) & (left.error == 0) & (right.value == 0) & (right.error == 0)
        )
        # x / 0 is infinite, but the sign of the zero is not known
        return _certain(left, right, nan | (np.isinf(left.value) & (divisor > right.error)))

    divisor = np.abs(widened(right.value))
    spread = ZERO
    if not (left.is_exact and right.is_exact):
        room = (divisor - right.error) * (1 - SLACK)
        moved = left.error + np.abs(widened(value)) * (1 + SLACK) * right.error
        bounded = moved / np.where(room > 0, room, 1.0)
        spread = np.where(room > 0, bounded, np.inf)
        spread = np.where(np.isinf(divisor) & (moved < np.inf), 0.0, spread)
    u, eta = roundoff(dtype), tiny(dtype)
    return uncertain.result_error(value, spread, dtype, relative=u, absolute=eta, certain=certain)


def _modulo_error(left: Uncertain, right: Uncertain, value: Array, dtype: DType) -> Array:
    """x - n y for n = floor(x / y): n stays where errors do not bring x / y to a whole number."""

    def certain() -> Array:
        exact = (left.error == 0) & (right.error == 0)
        return _any((exact, left.certain_nan, right.certain_nan))

    divisor = np.abs(widened(right.value))
    spread = ZERO
    if not (left.is_exact and right.is_exact):
        room = (divisor - right.error) * (1 - SLACK)
        quotient = np.abs(widened(left.value)) / divisor
        moved = (left.error + quotient * right.error) / np.where(room > 0, room, 1.0)
        nearest = np.abs(quotient - np.rint(quotient))
        stays = (room > 0) & (nearest > moved * (1 + SLACK) + 2.0**-50 * quotient)
        shifted = left.error + (quotient + 1) * (1 + SLACK) * right.error
        full = divisor + right.error  # results of either lie on one side of 0, below |y|
        spread = np.where(stays, np.minimum(shifted, full), full)
        spread = np.where((left.error == 0) & (right.error == 0), 0.0, spread)
        # a divisor that may be 0, or an unknown dividend, may give NaN
        known = (room > 0) & (left.error < np.inf)
        spread = np.where(known, spread, np.where(spread == 0, 0.0, np.inf))
    u = roundoff(dtype)
    # the quotient's sign decides whether y is added to a remainder of rounded size up to |y|
    rounding = np.where(np.isfinite(divisor), u * (divisor + right.error), 0.0)
    return uncertain.result_error(
        value, spread + rounding, dtype, relative=u, absolute=tiny(dtype), certain=certain
    )


_FLOAT_ERRORS: dict[str, Callable[[Uncertain, Uncertain, Array, DType], Array]] = {
    "+": _sum_error,
    "-": _sum_error,
    "*": _product_error,
    "/": _quotient_error,
    "%": _modulo_error,
}


# --- operators on integers, minimum and maximum -------------------------------------------------


def _integer_error(op: str, left: Uncertain, right: Uncertain, value: Array, dtype: DType) -> Array:
    """0 for exact operands, as integers round nothing; a division by 0 gives any value (Y4)."""
    if op in ("/", "%"):
        return _integer_division_error(op, left, right)
    if left.is_exact and right.is_exact:
        return ZERO
    spread = _product_spread(left, right) if op == "*" else left.error + right.error
    # an error may be infinite beside a factor 0
    spread = np.where(np.isnan(spread), np.inf, spread) * (1 + SLACK)
    return uncertain.within_integers(value, spread, dtype)


def _bits_error(left: Uncertain, right: Uncertain, dtype: DType) -> Array:
    """0 for exact operands; others may have any other bits."""
    if left.is_exact and right.is_exact:
        return ZERO
    moved = (left.error > 0) | (right.error > 0)
    return np.where(moved, 1.0 if dtype.kind == "bool" else np.inf, 0.0)


def _integer_division_error(op: str, left: Uncertain, right: Uncertain) -> Array:
    is_zero = right.value == 0
    if left.is_exact and right.is_exact:
        return np.where(is_zero, np.inf, 0.0) if is_zero.any() else ZERO
    divisor = np.abs(widened(right.value))
    safe = np.where(is_zero, 1.0, divisor)
    spread = left.error / safe + 1.0 if op == "/" else divisor
    exact = (left.error == 0) & (right.error == 0)
    spread = np.where(right.error == 0, np.where(exact, 0.0, spread), np.inf)
    return np.where(is_zero, np.inf, spread * (1 + SLACK))


def _extremum_error(op: str, left: Uncertain, right: Uncertain, value: Array) -> Array:
    """The winner's error where errors cannot change the winner, otherwise the greater one."""
    if left.is_exact and right.is_exact:
        return ZERO
    a, b = widened(left.value), widened(right.value)
    apart = (a - b) * (1 if op == "max" else -1)
    margin = (left.error + right.error) * (1 + SLACK) + 2.0**-52 * (np.abs(a) + np.abs(b))
    margin = np.where(np.isinf(a) | np.isinf(b), left.error + right.error, margin)
    error = np.where(apart > margin, left.error, np.maximum(left.error, right.error))
    error = np.where(-apart > margin, right.error, error)
    if value.dtype.kind == "f":
        certain = left.certain_nan | right.certain_nan
        infinite = np.isinf(value) & (error < np.inf)
        error = np.where(certain | infinite, 0.0, error)
    return error


def bits(operand: Uncertain, source: DType, target: DType, is_given: bool) -> Uncertain:
    """The bits of a value. They may be any where the value is not exact, and, but where the value
    is given, also those of NaN and of a 0, whose sign no error tells."""
    value = PLAIN.bits(operand.value, source, target, is_given)
    unsure = np.asarray(operand.error > 0)
    if not target.is_float and not is_given:
        unsure = unsure | np.isnan(operand.value) | (operand.value == 0)
    grid = None if target.is_float else DyadicGrid(0, 2.0**target.bits)
    return Uncertain(value, np.where(unsure, np.inf, 0.0) if unsure.any() else ZERO, grid)


# --- functions ----------------------------------------------------------------------------------


def call(function: str, args: Sequence[Uncertain], dtype: DType) -> Uncertain:
    """A built-in function: how far it spreads the arguments' errors (tc.builtins), plus units in
    the last place for the interpreter's and the backend's library."""
    value = PLAIN.call(function, [arg.value for arg in args], dtype)
    grid = _function_grid(function, args, value)
    if function in BIT_FUNCTIONS:
        unsure = np.where(args[0].error > 0, float(dtype.bits), 0.0)
        return Uncertain(value, unsure if unsure.any() else ZERO, DyadicGrid(0, dtype.bits))
    if not dtype.is_float:  # abs
        return Uncertain(value, uncertain.within_integers(value, args[0].error, dtype), grid)
    exact = all(arg.is_exact for arg in args)
    builtin = BUILTINS[function]
    if exact and builtin.ulps == 0 and function not in _SEES_SIGN_OF_ZERO:
        return Uncertain(value, ZERO, grid)
    spread = _function_spread(function, args)
    if not exact:
        # outside the domain all is NaN, but errors may reach across the domain
        outside = np.isnan(value) & ~_any(arg.certain_nan for arg in args)
        spread = np.where(outside & _any(arg.may_differ for arg in args), np.inf, spread)

    def certain() -> Array:
        special = _any(~np.isfinite(arg.value) for arg in args)
        exact = (spread == 0) & (np.isnan(value) | special | (function in _WITH_POLES))
        return _any((exact, _overflows(function, args, value, spread, dtype)))

    reach = np.abs(widened(value)) + spread
    rounding = ZERO
    # nextafter is exact, but its steps in the type are longer than those its spread is told in
    ulps = 1.0 if function == "nextafter" and not exact else builtin.ulps
    ulps = uncertain.allowed_ulps(ulps)
    if ulps:
        absolute = builtin.absolute * dtype.format.epsilon
        rounding = 2 * (1 + SLACK) * (ulps * uncertain.ulp(reach, dtype) + absolute)
    error = uncertain.result_error(value, spread + rounding, dtype, relative=0.0, certain=certain)
    return Uncertain(value, error, grid)


def _any(masks: Iterable[Array]) -> Array:
    return functools.reduce(np.logical_or, masks)


def _function_spread(function: str, args: Sequence[Uncertain]) -> Array:
    values = np.broadcast_arrays(*(widened(arg.value) for arg in args))
    errors = [np.broadcast_to(arg.error, values[0].shape) for arg in args]
    if function in _SEES_SIGN_OF_ZERO:
        unsure = float(np.finfo(np.float64).smallest_subnormal)
        errors = [
            np.where(v == 0, np.maximum(e, unsure), e) for v, e in zip(values, errors, strict=True)
        ]
    elif all(arg.is_exact for arg in args):
        return ZERO
    unknown = np.isinf(np.maximum.reduce(errors))
    # an error that float64 would lose beside its value is widened to the next number
    known = tuple(
        np.where((error > 0) & ~unknown, np.maximum(error, np.spacing(np.abs(v))), 0.0)
        for v, error in zip(values, errors, strict=True)
    )
    spread = BUILTINS[function].spread(tuple(values), known) * (1 + SLACK)
    return np.where(unknown | np.isnan(spread), np.inf, spread)


def _overflows(
    function: str, args: Sequence[Uncertain], value: Array, spread: Array, dtype: DType
) -> Array:
    """Where float32 is infinite because the result, known from float64, is far too large."""
    if dtype != FLOAT32:
        return np.zeros((), np.bool_)
    exact = np.abs(PLAIN.call(function, [widened(arg.value) for arg in args], FLOAT64))
    known = np.isinf(value) & (exact < np.inf)
    return np.logical_and(known, exact - spread > uncertain.largest(dtype) * 1.001)


def _function_grid(function: str, args: Sequence[Uncertain], value: Array) -> DyadicGrid | None:
    grid = uncertain.joined(*(arg.grid for arg in args))
    if grid is None or not np.isfinite(value).all():
        return None
    if function in _MAKES_WHOLE:
        return DyadicGrid(max(grid.exponent, 0), math.ceil(grid.magnitude))
    return grid if function in _KEEPS_GRID else None
