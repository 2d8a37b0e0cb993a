"""Values with a bound on how far legal implementations may differ in them (rule R5).

A value and its `error` E say: whatever order a backend reduces in, whether it contracts `a*b + c`
to one rounding, and whichever library its functions come from, its value lies within E of the
interpreter's. Each operation passes on the errors of its operands, and adds one rounding for the
interpreter and one for the backend. E is infinite where nothing is known: a sum that may
overflow in some order, a gather at a place that may differ.

Two exceptions keep bounds sharp. Where an operation gives NaN or an infinity, E is 0 if every
implementation must give the same, otherwise infinite. Values on a `DyadicGrid` of multiples of a
power of two, small enough that their type represents all of them exactly, are computed without any
rounding: whole numbers in floats stay exact. E = 0 says nothing about the sign of a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from tc.dtypes import BOOL, FLOAT16, FLOAT32, Array, DType
from tc.semantics.reference.arithmetic import PLAIN

ZERO: Array = np.zeros(())
"""The error of what is exact everywhere; known errors of 0 here and there are no ZERO."""

SLACK = 2.0**-20  # relative; above all roundings that computing a bound itself makes


@dataclass(frozen=True, slots=True)
class DyadicGrid:
    """Where the error is 0, values are finite multiples of 2**exponent up to a magnitude."""

    exponent: int
    magnitude: float


BOOLEAN = DyadicGrid(0, 1.0)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Values, float64 bounds of their errors (broadcasting to the values), and their grid."""

    value: Array
    error: Array = field(default_factory=lambda: ZERO)
    grid: DyadicGrid | None = None

    @property
    def is_exact(self) -> bool:
        return self.error is ZERO

    @property
    def may_differ(self) -> Array:
        return self.error > 0

    @property
    def certain_nan(self) -> Array:
        return np.asarray(np.isnan(self.value) & (self.error == 0))


@dataclass(frozen=True, slots=True)
class Allowance:
    """What implementations may do that those of tc do not: compute floats with no more than the
    precision and the range of `computed`; compute with whole numbers otherwise than as the text
    says, so that sums of them are rounded, too (`rounds_whole`); and have functions that are
    several times as far off as `Builtin.ulps`, and some more."""

    computed: DType | None = None
    rounds_whole: bool = False
    times_ulps: float = 1.0
    more_ulps: float = 0.0


NOTHING = Allowance()
"""What tc's own implementations may do."""

_ALLOWED: ContextVar[Allowance] = ContextVar("allowed", default=NOTHING)  # is frozen


@contextmanager
def allowing(allowance: Allowance) -> Iterator[None]:
    """Bounds of what an allowance says."""
    token = _ALLOWED.set(allowance)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def allowed_ulps(ulps: float) -> float:
    """How far a function may be off that tc has within `ulps`; exact ones are exact."""
    allowance = _ALLOWED.get()
    return allowance.times_ulps * ulps + allowance.more_ulps if ulps else 0.0


def _digits(dtype: DType) -> int:
    coarser = _ALLOWED.get().computed
    digits = dtype.format.digits
    return digits if coarser is None else min(coarser.format.digits, digits)


def roundoff(dtype: DType) -> float:
    """Twice the unit roundoff of a float type: the interpreter rounds, and a backend does."""
    return math.ldexp(1.0, 1 - _digits(dtype)) * (1 + SLACK)


def largest(dtype: DType) -> float:
    """The largest number of a type, and of that which may be computed with."""
    coarser = _ALLOWED.get().computed
    own = dtype.format.largest
    return own if coarser is None else min(coarser.format.largest, own)


def tiny(dtype: DType) -> float:
    """The spacing of subnormal numbers: what two roundings near 0 differ by at most."""
    coarser = _ALLOWED.get().computed
    own = dtype.format.smallest_subnormal
    return own if coarser is None else max(coarser.format.smallest_subnormal, own)


def ulp(magnitude: Array, dtype: DType) -> Array:
    """The spacing of a float type's numbers at (float64) magnitudes; NaN counts as infinite."""
    exponent = np.frexp(np.maximum(magnitude, tiny(dtype)))[1] - _digits(dtype)
    spacing = np.maximum(np.ldexp(1.0, exponent), tiny(dtype))
    return np.where(np.isfinite(magnitude), spacing, np.inf)


def widened(array: Array) -> Array:
    return array.astype(np.float64, copy=False)


def grid_of(array: Array) -> DyadicGrid | None:
    """The grid of an array; None where it has a NaN or infinity or is too fine to matter."""
    if array.dtype == np.bool_:
        return BOOLEAN
    if array.size == 0:
        return DyadicGrid(0, 0.0)
    if _ALLOWED.get().rounds_whole and array.dtype.kind == "f":
        return None
    if array.dtype.kind != "f":
        return DyadicGrid(0, float(max(abs(int(array.min())), abs(int(array.max())))))
    grid = DyadicGrid(1 << 20, 0.0)
    for chunk in np.nditer(array, flags=["external_loop", "buffered"]):
        grid = _merged(grid, np.asarray(chunk, np.float64))
        if not grid.magnitude <= math.ldexp(1.0, min(grid.exponent + 54, 1023)):
            return None
    return grid if grid.magnitude else DyadicGrid(0, 0.0)


def _merged(grid: DyadicGrid, chunk: Array) -> DyadicGrid:
    """The grid with more values; a magnitude of NaN or infinity for values that have no grid."""
    magnitude = float(np.abs(chunk).max())
    values = chunk[chunk != 0]
    if not math.isfinite(magnitude) or not values.size:
        return DyadicGrid(
            grid.exponent, max(grid.magnitude, magnitude) if magnitude == 0 else magnitude
        )
    fraction, exponents = np.frexp(values)
    digits = np.ldexp(fraction, 53).astype(np.int64)
    lowest = np.frexp(widened(digits & -digits))[1] - 1
    exponent = int((exponents - 53 + lowest).min())
    return DyadicGrid(min(grid.exponent, exponent), max(grid.magnitude, magnitude))


def represents_exactly(dtype: DType, grid: DyadicGrid) -> bool:
    """Whether a type represents all values of a grid, so that computing them rounds nothing."""
    if not dtype.is_float:
        return True
    digits = _digits(dtype)
    finest = int(math.log2(tiny(dtype)))
    return (
        grid.exponent >= finest
        and grid.magnitude <= largest(dtype)
        and grid.magnitude <= math.ldexp(1.0, min(grid.exponent + digits, 1023))
    )


def capped(grid: DyadicGrid, dtype: DType) -> DyadicGrid:
    """The grid after integers have wrapped around."""
    return grid if dtype.is_float else DyadicGrid(0, min(grid.magnitude, 2.0**dtype.bits))


def exact_grid(grid: DyadicGrid, dtype: DType) -> DyadicGrid | None:
    """The grid of results, None where their type does not represent all of its values exactly."""
    return capped(grid, dtype) if represents_exactly(dtype, grid) else None


def joined(*grids: DyadicGrid | None) -> DyadicGrid | None:
    """A grid for values of any of several."""
    known = [grid for grid in grids if grid is not None]
    if len(known) < len(grids):
        return None
    return DyadicGrid(min(g.exponent for g in known), max(g.magnitude for g in known))


TF32_UNIT, TF32_LARGEST, TF32_STEP = 2.0**-11, (2 - 2.0**-11) * 2.0**127, 2.0**-126
"""Of numbers rounded to tf32: what of them is rounded away at most, from where on they are
infinite, and below which they may count as 0."""


def as_factor_of_tf32(operand: Uncertain) -> Uncertain:
    """A float32 that may be rounded to tf32 before it is multiplied."""
    magnitude = np.abs(widened(operand.value))
    reach = magnitude + operand.error
    rounded = operand.error + TF32_UNIT * (1 + SLACK) * reach + TF32_STEP
    error = np.where(reach < TF32_LARGEST, rounded, np.inf)
    is_kept = (operand.error == 0) & ((magnitude == 0) | ~np.isfinite(magnitude))
    return Uncertain(operand.value, np.where(is_kept, 0.0, error))


def result_error(
    value: Array,
    spread: Array,
    dtype: DType,
    *,
    relative: float,
    absolute: float = 0.0,
    certain: Callable[[], Array] | None = None,
) -> Array:
    """The error of an operation's result, given how far its operands' errors spread it.

    Adds the roundings, relative and absolute; infinite where a result may overflow. A NaN or
    infinity has the error 0 where `certain` says that every implementation gives it.
    """
    magnitude = np.abs(widened(value))
    error = spread + relative * (magnitude + spread) + absolute
    reach = magnitude + error
    if reach.max() <= largest(dtype):
        return error
    error = np.where(reach <= largest(dtype), error, np.inf)
    if certain is None:
        return error
    return np.where(~np.isfinite(value) & certain(), 0.0, error)


def within_integers(value: Array, error: Array, dtype: DType) -> Array:
    """Errors of integers: infinite where values that differ by them may have wrapped around."""
    limits = np.iinfo(dtype.name)
    exact = widened(value)
    inside = (exact - error > float(limits.min)) & (exact + error < float(limits.max))
    return np.where((error == 0) | inside, error, np.inf)


def compare(op: str, left: Uncertain, right: Uncertain) -> Uncertain:
    """A comparison; the error is 1 where the operands' errors may flip the result."""
    value = PLAIN.compare(op, left.value, right.value)
    if left.is_exact and right.is_exact:
        return Uncertain(value, ZERO, BOOLEAN)
    a, b = widened(left.value), widened(right.value)
    total = left.error + right.error
    margin = total * (1 + SLACK) + 2.0**-52 * (np.abs(a) + np.abs(b))
    flips = (total > 0) & ~(np.abs(a - b) > margin)
    for operand in (left, right):
        if operand.value.dtype.kind == "f":
            flips &= ~operand.certain_nan
            # beside an infinity the margin is infinite too, but no finite error reaches it
            flips &= ~(np.isinf(operand.value) & (total < np.inf) & (a != b))
    return Uncertain(value, np.where(flips, 1.0, 0.0), BOOLEAN)


def logical(op: str, operands: Sequence[Uncertain]) -> Uncertain:
    value = PLAIN.logical(op, [operand.value for operand in operands])
    if all(operand.is_exact for operand in operands):
        return Uncertain(value, ZERO, BOOLEAN)
    if op == "!":
        return Uncertain(value, operands[0].error, BOOLEAN)
    first, second = operands
    # an operand counts where the other does not decide, or may turn out not to
    decisive = op == "||"
    first_counts = (second.value != decisive) | second.may_differ
    second_counts = (first.value != decisive) | first.may_differ
    flips = (first.may_differ & first_counts) | (second.may_differ & second_counts)
    return Uncertain(value, np.where(flips, 1.0, 0.0), BOOLEAN)


def select(condition: Uncertain, then: Uncertain, otherwise: Uncertain) -> Uncertain:
    """A branch; where the condition may flip, the branches' difference is part of the error."""
    value = PLAIN.select(condition.value, then.value, otherwise.value)
    grid = joined(then.grid, otherwise.grid)
    error = ZERO
    if not (then.is_exact and otherwise.is_exact):
        error = np.where(condition.value, then.error, otherwise.error)
    if not condition.is_exact:
        a, b = widened(then.value), widened(otherwise.value)
        apart = np.where(then.value == otherwise.value, 0.0, np.abs(a - b) * (1 + SLACK))
        apart = np.where(np.isnan(apart), np.inf, apart)
        either = apart + np.maximum(then.error, otherwise.error)
        error = np.where(condition.may_differ, either, error)
    return Uncertain(value, error if error.any() else ZERO, grid)


def convert(operand: Uncertain, source: DType, target: DType) -> Uncertain:
    if source == target:
        return operand
    if not target.is_in_numpy and source != FLOAT32:  # by way of that (Y8)
        return convert(convert(operand, source, FLOAT32), FLOAT32, target)
    value = PLAIN.convert(operand.value, source, target)
    if target == BOOL:
        if operand.is_exact:
            return Uncertain(value, ZERO, BOOLEAN)
        flips = operand.may_differ & ~(np.abs(widened(operand.value)) > operand.error)
        return Uncertain(value, np.where(flips, 1.0, 0.0), BOOLEAN)
    if target.is_float:
        return _to_float(operand, value, source, target)
    if source.is_float:
        return _float_to_integer(operand, value, target)
    grid = operand.grid and capped(operand.grid, target)
    if operand.is_exact:
        return Uncertain(value, ZERO, grid)
    wraps = within_integers(operand.value, operand.error, target)
    return Uncertain(value, np.where(widened(operand.value) == value, wraps, np.inf), grid)


def _to_float(operand: Uncertain, value: Array, source: DType, target: DType) -> Uncertain:
    """Conversions are correctly rounded, so the same operand gives the same result; only what
    goes to half may be rounded to float32 on the way."""
    if operand.is_exact and operand.grid is not None and represents_exactly(target, operand.grid):
        return Uncertain(value, operand.error, operand.grid)
    if (source.is_float and target.holds(source)) or source == BOOL:
        return Uncertain(value, operand.error, operand.grid)
    is_double_rounded = target == FLOAT16 and source.bits > 11 and source.name != "float32"
    if operand.is_exact and not is_double_rounded:
        return Uncertain(value)
    exact = widened(operand.value)
    reach = np.abs(exact) + operand.error
    error = operand.error + ulp(reach * (1 + SLACK), target) * (1 + SLACK)
    may_round = (operand.error > 0) | (is_double_rounded & (widened(value) != exact))
    error = np.where(may_round & (reach + error > largest(target)), np.inf, error)
    return Uncertain(value, np.where(may_round & ~np.isnan(exact), error, operand.error))


def _float_to_integer(operand: Uncertain, value: Array, target: DType) -> Uncertain:
    """Truncation; out of range, or NaN, it gives any value (Y4)."""
    limits = np.iinfo(target.name)
    below, above = float(limits.min), 2.0 ** (target.bits - (target.kind == "int"))
    exact = widened(operand.value)
    low = high = np.trunc(exact)
    if not operand.is_exact:
        moved = operand.error > 0
        low = np.where(moved, np.trunc(np.nextafter(exact - operand.error, -np.inf)), low)
        high = np.where(moved, np.trunc(np.nextafter(exact + operand.error, np.inf)), high)
    inside = (low >= below) & (high < above)
    if operand.is_exact and inside.all():
        return Uncertain(value, ZERO, DyadicGrid(0, float(np.abs(exact).max())))
    middle = np.trunc(exact)
    error = np.where(inside, np.maximum(high - middle, middle - low), np.inf)
    return Uncertain(value, error, DyadicGrid(0, 2.0**target.bits))


def negate(operand: Uncertain, dtype: DType) -> Uncertain:
    value = PLAIN.negate(operand.value, dtype)
    grid = operand.grid and capped(operand.grid, dtype)
    if dtype.kind == "uint" and grid is not None:
        grid = DyadicGrid(0, 2.0**dtype.bits)
    if operand.is_exact or dtype.is_float:
        return Uncertain(value, operand.error, grid)
    return Uncertain(value, within_integers(value, operand.error, dtype), grid)
