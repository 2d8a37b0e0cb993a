"""A legal implementation unlike the interpreter (R5), to test that error bounds cover it.

It reduces in shuffled order, contracts float32 products and sums to one rounding where a coin
says so, gives functions that are off by as many units as the table allows, and rounds to half by
way of float32. What it computes in each block is an `Arithmetic`, as the interpreter's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tc.builtins import FUNCTIONS
from tc.builtins.operators import UFUNCS
from tc.dtypes import FLOAT16, FLOAT32, Array, DType
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.folds import BoxFold, Fold
from tc.semantics.reference.instance_blocks import Pick


@dataclass(frozen=True)
class Value:
    """A value, and if it is a float32 product, the product before it was rounded."""

    value: Array
    product: Array | None = None


@dataclass(frozen=True)
class Variant:
    """An `Arithmetic[Value, tuple[str, Array]]` that draws each liberty of R5 at random."""

    rng: np.random.Generator

    def exact(self, array: Array) -> Value:
        return Value(array)

    def array(self, value: Value) -> Array:
        return value.value

    def read(
        self, tensor: Value, pick: Pick, _subscripts: Sequence[Value], _outside: Array | None
    ) -> Value:
        return Value(pick(tensor.value))

    def write(self, tensor: Value, pick: Pick, value: Value) -> Value:
        pick(tensor.value)[...] = value.value
        return tensor

    def negate(self, operand: Value, dtype: DType) -> Value:
        product = None if operand.product is None else -operand.product
        return Value(PLAIN.negate(operand.value, dtype), product)

    def binary(self, op: str, left: Value, right: Value, dtype: DType) -> Value:
        value = np.asarray(PLAIN.binary(op, left.value, right.value, dtype))
        if dtype != FLOAT32 or op not in ("+", "-", "*"):
            return Value(value)
        if op == "*":
            return Value(value, left.value.astype(np.float64) * right.value.astype(np.float64))
        fused = [replace(left, product=None), right]
        if left.product is not None and self.rng.random() < 0.7:
            fused = [left, replace(right, product=None)]
        a, b = (v.value.astype(np.float64) if v.product is None else v.product for v in fused)
        return Value((a + b if op == "+" else a - b).astype(np.float32))

    def compare(self, op: str, left: Value, right: Value) -> Value:
        return Value(PLAIN.compare(op, left.value, right.value))

    def logical(self, op: str, operands: Sequence[Value]) -> Value:
        return Value(PLAIN.logical(op, [operand.value for operand in operands]))

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return Value(PLAIN.select(condition.value, then.value, otherwise.value))

    def call(self, function: str, args: Sequence[Value], dtype: DType) -> Value:
        value = PLAIN.call(function, [arg.value for arg in args], dtype)
        if not FUNCTIONS[function].ulps:
            return Value(value)
        # the reference itself may be off by half a unit, and more where it serves float64
        units = FUNCTIONS[function].ulps * (0.9 if dtype == FLOAT32 else 0.5)
        steps = units * self.rng.uniform(-1, 1, np.shape(value))
        moved = (value + steps * np.spacing(np.abs(value))).astype(dtype.numpy)
        return Value(np.where(np.isfinite(moved), moved, value))

    def convert(self, operand: Value, source: DType, target: DType) -> Value:
        value = operand.value
        if target == FLOAT16 and source.bits > 11:
            value = PLAIN.convert(value, source, FLOAT32)
        return Value(PLAIN.convert(value, source, target))

    def bits(self, operand: Value, source: DType, target: DType, is_given: bool) -> Value:
        return Value(PLAIN.bits(operand.value, source, target, is_given))

    def start(
        self, op: str, value: Value | None, shape: Sequence[int], dtype: DType
    ) -> tuple[str, Array]:
        return PLAIN.start(op, None if value is None else value.value, shape, dtype)

    def accumulate(
        self, reduction: tuple[str, Array], term: Value, fold: Fold
    ) -> tuple[str, Array]:
        op, total = reduction
        if not isinstance(fold, BoxFold):
            return self._placed(op, total, term, fold)
        shape = fold.shape
        terms = np.broadcast_to(term.value, tuple(shape)).reshape(*total.shape, -1)
        order = self.rng.permutation(terms.shape[-1])
        if op == "+" and term.product is not None:
            products = np.broadcast_to(term.product, tuple(shape)).reshape(*total.shape, -1)
            for position in order:
                total = (total.astype(np.float64) + products[..., position]).astype(np.float32)
            return op, total
        shuffled: Any = UFUNCS[op].accumulate(terms[..., order], axis=-1, dtype=terms.dtype)
        return op, np.asarray(UFUNCS[op](shuffled[..., -1], total))

    def redistribute(
        self,
        reduction: tuple[str, Array],
        _factors: Iterable[Value],
        _term: Value,
        _fold: Fold,
    ) -> tuple[str, Array]:
        return reduction

    def _placed(self, op: str, total: Array, term: Value, fold: Fold) -> tuple[str, Array]:
        """Instances that go where they say, in the order in which the interpreter has them."""
        return op, fold.into(op, np.array(total), term.value)

    def copied(self, value: Value) -> Value:
        return Value(np.array(value.value))

    def unsure(self, _value: Value) -> None:
        return None

    def unknown(self, value: Value, _where: Array | None = None) -> Value:
        return value

    def assign(self, tensor: Value, place: tuple[Array, ...], picked: Array, value: Value) -> Value:
        return Value(PLAIN.assign(tensor.value, place, picked, value.value))

    def rivals(self, _op: str, _term: Value, _best: Value) -> None:
        return None

    def chosen(self, term: Value, best: Value, _rivals: Array | None) -> Value:
        return Value(PLAIN.chosen(term.value, best.value, None))

    def finish(self, reduction: tuple[str, Array]) -> Value:
        return Value(reduction[1])
