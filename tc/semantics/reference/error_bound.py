"""The bound of R5: how far results of one program and the same inputs may legally differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tc.dtypes import Array
from tc.semantics.program import ShapedProgram
from tc.semantics.reference import uncertain, uncertain_operators, uncertain_reductions
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.instance_blocks import Pick
from tc.semantics.reference.interpreter import MEMORY_LIMIT_BYTES, execute
from tc.semantics.reference.uncertain import (
    BOOLEAN,
    NOTHING,
    ZERO,
    Allowance,
    Uncertain,
    grid_of,
    joined,
    widened,
)


def error_bound(
    shaped: ShapedProgram,
    arrays: Mapping[str, Array],
    initial: Mapping[str, Array],
    *,
    memory_limit: int = MEMORY_LIMIT_BYTES,
    tf32: bool = False,
    allowance: Allowance = NOTHING,
) -> dict[str, Array]:
    """How far a legal implementation's outputs may be from the interpreter's, per element.

    Takes what `interpret` takes, and walks the program as it does, with the same partial sums.
    The bounds are float64 arrays of the outputs' shapes: 0 where every implementation gives the
    same, infinite where the inputs admit any value (a sum that overflows in some order, a
    comparison of rounded values that decides which element is read). They grow with the number
    of terms and their magnitudes, and cover any order of a reduction, sums of products that are
    factored (infinite where factoring may overflow, or the sum is NaN or infinite), contraction of
    `a*b + c` to one rounding, and functions within the `ulps` of tc.builtins. With `tf32`, they
    cover that both factors of each product of float32 are rounded to tf32, by up to 2**-11 of the
    factor; they cover what an `allowance` says. Raises AccessError as `interpret` does.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> total = "def total(float(N) x) -> (y) { y +=! x(i) }"
    >>> shaped = infer_ranges(check(parse(Source(total))), {"x": (3,)}, {})
    >>> def bound_of(*x):
    ...     return error_bound(shaped, {"x": np.array(x, np.float32)}, {})["y"].item()
    >>> bound_of(1, 2, 3)  # whole numbers are summed without rounding
    0.0
    >>> 6e-7 < bound_of(1.1, 2.2, 3.3) < 4e-6
    True
    >>> bound_of(3e38, 3e38, -3e38)  # overflows in some orders
    inf
    """
    arithmetic = BoundedOfTf32() if tf32 else Bounded()
    with uncertain.allowing(allowance):
        outputs = execute(shaped, arrays, initial, arithmetic, memory_limit)
    return {
        name: np.zeros(output.value.shape) if output.is_exact else output.error
        for name, output in outputs.items()
    }


class Bounded:
    """Values with errors: an `Arithmetic[Uncertain, Reduction]`."""

    def exact(self, array: Array) -> Uncertain:
        return Uncertain(array, ZERO, grid_of(array))

    def array(self, value: Uncertain) -> Array:
        return value.value

    def read(
        self,
        tensor: Uncertain,
        pick: Pick,
        subscripts: Sequence[Uncertain],
        outside: Array | None,
    ) -> Uncertain:
        value = pick(tensor.value)
        error = ZERO if tensor.is_exact else pick(tensor.error)
        if outside is not None:
            error = np.where(outside, np.inf, error)
        for subscript in subscripts:
            if not subscript.is_exact:
                error = np.where(subscript.may_differ, np.inf, error)
        return Uncertain(value, error, tensor.grid)

    def write(self, tensor: Uncertain, pick: Pick, value: Uncertain) -> Uncertain:
        pick(tensor.value)[...] = value.value
        error = tensor.error
        if not (tensor.is_exact and value.is_exact):
            if tensor.is_exact:
                error = np.zeros(tensor.value.shape)
            pick(error)[...] = value.error
        return Uncertain(tensor.value, error, joined(tensor.grid, value.grid))

    negate = staticmethod(uncertain.negate)
    binary = staticmethod(uncertain_operators.binary)
    compare = staticmethod(uncertain.compare)
    logical = staticmethod(uncertain.logical)
    select = staticmethod(uncertain.select)
    call = staticmethod(uncertain_operators.call)
    convert = staticmethod(uncertain.convert)
    bits = staticmethod(uncertain_operators.bits)
    start = staticmethod(uncertain_reductions.start)
    accumulate = staticmethod(uncertain_reductions.accumulate)
    redistribute = staticmethod(uncertain_reductions.redistribute)
    finish = staticmethod(uncertain_reductions.finish)

    def copied(self, value: Uncertain) -> Uncertain:
        error = ZERO if value.is_exact else np.array(value.error)
        return Uncertain(np.array(value.value), error, value.grid)

    def unsure(self, value: Uncertain) -> Array | None:
        if value.is_exact or not (unsure := value.may_differ).any():
            return None
        return np.asarray(unsure)

    def unknown(self, value: Uncertain, where: Array | None = None) -> Uncertain:
        error = np.full(value.value.shape, np.inf)
        if where is not None:
            error = np.where(where, error, value.error)
        return Uncertain(value.value, error)

    def assign(
        self, tensor: Uncertain, place: tuple[Array, ...], picked: Array, value: Uncertain
    ) -> Uncertain:
        PLAIN.assign(tensor.value, place, picked, value.value)
        error = tensor.error
        if not (tensor.is_exact and value.is_exact):
            if tensor.is_exact:
                error = np.zeros(tensor.value.shape)
            PLAIN.assign(error, place, picked, value.error)
        return Uncertain(tensor.value, error, joined(tensor.grid, value.grid))

    def rivals(self, op: str, term: Uncertain, best: Uncertain) -> Uncertain | None:
        if term.is_exact and best.is_exact:
            return None
        sign = 1.0 if op == "max" else -1.0
        reach = sign * widened(term.value) + term.error
        least = sign * widened(best.value) - best.error
        may_be = (reach >= least) | np.isnan(reach) | np.isnan(least)
        return Uncertain(may_be.astype(np.int64), ZERO, None)

    def chosen(self, term: Uncertain, best: Uncertain, rivals: Array | None) -> Uncertain:
        value = PLAIN.chosen(term.value, best.value, None)
        error = ZERO if rivals is None else np.where(rivals > 1, 1.0, 0.0)
        return Uncertain(value, error, BOOLEAN)


class BoundedOfTf32(Bounded):
    """Where factors of products of float32 may be rounded to tf32."""

    binary = staticmethod(uncertain_operators.binary_of_tf32)
    redistribute = staticmethod(uncertain_reductions.redistribute_of_tf32)
