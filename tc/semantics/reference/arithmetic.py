"""What the operations of the language compute, on whole arrays at once.

The interpreter walks an expression the same way whatever it computes with: an `Arithmetic` is
the set of rules, from operation to result, that it applies. `Plain` computes values; the error
bound's arithmetic (`uncertain`) computes each value with a bound of its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from tc.affine.intervals import COMPARISONS
from tc.builtins import FUNCTIONS, identity
from tc.builtins.operators import SHIFTS, UFUNCS, shifted_arrays
from tc.dtypes import BOOL, Array, DType, as_array, rounded
from tc.semantics.reference.folds import Fold
from tc.semantics.reference.instance_blocks import Pick

V = TypeVar("V")  # a value over a block, and a whole tensor: arrays and what belongs to them
A = TypeVar("A")  # a reduction under way


class Arithmetic(Protocol[V, A]):
    """How to compute with values V. Operands have been converted to one type already."""

    def exact(self, array: Array, /) -> V:
        """A value that every implementation has exactly: a constant, an index, an argument."""

    def array(self, value: V, /) -> Array:
        """The plain values."""

    def read(self, tensor: V, pick: Pick, subscripts: Sequence[V], outside: Array | None, /) -> V:
        """Elements of a tensor; `outside` marks those that do not exist, if there are any."""

    def write(self, tensor: V, pick: Pick, value: V, /) -> V:
        """The tensor with a value stored at a place; its arrays are written to in place."""

    def negate(self, operand: V, dtype: DType, /) -> V: ...

    def binary(self, op: str, left: V, right: V, dtype: DType, /) -> V: ...

    def compare(self, op: str, left: V, right: V, /) -> V: ...

    def logical(self, op: str, operands: Sequence[V], /) -> V: ...

    def select(self, condition: V, then: V, otherwise: V, /) -> V: ...

    def call(self, function: str, args: Sequence[V], dtype: DType, /) -> V: ...

    def convert(self, operand: V, source: DType, target: DType, /) -> V: ...

    def bits(self, operand: V, source: DType, target: DType, is_given: bool, /) -> V:
        """The bits of values as another type; `is_given`: they are elements of an input, or a
        literal, which nothing has computed."""

    def start(self, op: str, value: V | None, shape: Sequence[int], dtype: DType, /) -> A:
        """A reduction that begins at a value, or at the operator's identity (None)."""

    def accumulate(self, reduction: A, term: V, fold: Fold, /) -> A:
        """Takes in the terms of a block."""

    def redistribute(self, reduction: A, factors: Iterable[V], term: V, fold: Fold, /) -> A:
        """Notes that the block's terms, just taken in, may be computed through other products of
        these factors, and other sums (R5)."""

    def finish(self, reduction: A, /) -> V: ...

    def copied(self, value: V, /) -> V:
        """The value in memory of its own."""

    def unsure(self, value: V, /) -> Array | None:
        """Where other implementations may have another value; None where none may."""

    def unknown(self, value: V, where: Array | None = None, /) -> V:
        """The value, of which nothing is known to others (where a mask holds, if one is given)."""

    def assign(self, tensor: V, place: tuple[Array, ...], picked: Array, value: V, /) -> V:
        """The tensor with the values of a block, of which a mask of its shape picks some, stored at
        the places of these, one array for each dimension; its arrays are written to in place."""

    def rivals(self, op: str, term: V, best: V, /) -> V | None:
        """How many elements (0 or 1 for each) may be the least or greatest as `best` is; None where
        no rounding can change which is."""

    def chosen(self, term: V, best: V, rivals: Array | None, /) -> V:
        """Whether a term is `best`, both NaN included; `rivals` counts the terms that may be."""


LOGICAL: Mapping[str, np.ufunc] = {
    "!": np.logical_not,
    "&&": np.logical_and,
    "||": np.logical_or,
}


class Plain:
    """Values alone: numpy arrays of the computed type (an `Arithmetic[Array, Reduction]`)."""

    def exact(self, array: Array) -> Array:
        return array

    def array(self, value: Array) -> Array:
        return value

    def read(
        self, tensor: Array, pick: Pick, _subscripts: Sequence[Array], _outside: Array | None
    ) -> Array:
        return pick(tensor)

    def write(self, tensor: Array, pick: Pick, value: Array) -> Array:
        pick(tensor)[...] = value
        return tensor

    def negate(self, operand: Array, _dtype: DType) -> Array:
        return np.negative(operand)

    def binary(self, op: str, left: Array, right: Array, dtype: DType) -> Array:
        if op in ("/", "%") and not dtype.is_float:
            divisor = np.where(right == 0, np.ones((), right.dtype), right)
            return (np.floor_divide if op == "/" else np.remainder)(left, divisor)
        if op in SHIFTS:
            return np.asarray(shifted_arrays(op, left, right))
        return np.asarray(UFUNCS[op](left, right))

    def compare(self, op: str, left: Array, right: Array) -> Array:
        return np.asarray(COMPARISONS[op](left, right))

    def logical(self, op: str, operands: Sequence[Array]) -> Array:
        return np.asarray(LOGICAL[op](*operands))

    def select(self, condition: Array, then: Array, otherwise: Array) -> Array:
        return np.where(condition, then, otherwise)

    def call(self, function: str, args: Sequence[Array], _dtype: DType) -> Array:
        return np.asarray(FUNCTIONS[function].numpy(*args))

    def convert(self, operand: Array, _source: DType, target: DType) -> Array:
        if target == BOOL:
            return np.not_equal(operand, 0)
        return rounded(operand, target)

    def bits(self, operand: Array, source: DType, target: DType, _is_given: bool) -> Array:
        stored = as_array(operand, source)
        viewed = np.ascontiguousarray(stored).view(target.numpy)
        return np.asarray(viewed.reshape(operand.shape))

    def start(
        self, op: str, value: Array | None, shape: Sequence[int], dtype: DType
    ) -> tuple[str, Array]:
        return op, np.full(shape, identity(op, dtype), dtype.numpy) if value is None else value

    def accumulate(
        self, reduction: tuple[str, Array], term: Array, fold: Fold
    ) -> tuple[str, Array]:
        op, total = reduction
        return op, fold.into(op, total, term)

    def redistribute(
        self,
        reduction: tuple[str, Array],
        _factors: Iterable[Array],
        _term: Array,
        _fold: Fold,
    ) -> tuple[str, Array]:
        return reduction

    def finish(self, reduction: tuple[str, Array]) -> Array:
        return reduction[1]

    def copied(self, value: Array) -> Array:
        return np.array(value)

    def unsure(self, _value: Array) -> None:
        return None

    def unknown(self, value: Array, _where: Array | None = None) -> Array:
        return value

    def assign(self, tensor: Array, place: tuple[Array, ...], picked: Array, value: Array) -> Array:
        values = np.broadcast_to(value, picked.shape)[picked]
        if values.size:
            tensor[place] = values if place else values[-1]
        return tensor

    def rivals(self, _op: str, _term: Array, _best: Array) -> None:
        return None

    def chosen(self, term: Array, best: Array, _rivals: Array | None) -> Array:
        same = np.asarray(term == best)
        if term.dtype.kind == "f":
            same = same | (np.isnan(term) & np.isnan(best))
        return same


PLAIN = Plain()
