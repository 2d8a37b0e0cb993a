"""The range of an integer that data decide, over all values of its indices: a bound within a body
becomes a condition in the range up to its greatest value (C26)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tc.affine.intervals import COMPARISONS
from tc.builtins import BUILTINS
from tc.builtins.operators import UFUNCS
from tc.dtypes import BOOL, Array, DType, Weak
from tc.sac.lowering.terms import Term, walk

_IDENTITY = {"+": 0, "*": 1}


def has_reads(term: Term) -> bool:
    """Whether data take part in a term."""
    return any(node.kind in ("read", "use", "fold") for node in walk([term]))


def range_of(term: Term, inputs: Mapping[str, Any]) -> tuple[int, int]:
    """The least and greatest value of a term over the ranges of its indices; (0, 0) where these
    are empty. Reads that leave their array, as conditions around them may forbid, count as ones of
    the nearest element."""
    order = sorted(term.free, key=lambda i: str(i.data[1]))
    if any(i.data[0].end <= i.data[0].begin for i in order):
        return 0, 0
    with np.errstate(all="ignore"):
        found = _Evaluation(order, inputs).of(term)
    return int(np.min(found)), int(np.max(found))


def beyond(found: tuple[int, int], side: int, limit: int | None) -> int:
    """One end of a range, the least (0) or the greatest (1) value; with a limit, whether the end
    lies below, or above, it."""
    if limit is None:
        return found[side]
    return int(found[0] < limit if side == 0 else found[1] > limit)


class _Evaluation:
    """Values of terms as arrays with one axis per index."""

    def __init__(self, order: list[Term], inputs: Mapping[str, Any]) -> None:
        self.inputs = inputs
        self.values: dict[Term, Array] = {}
        for axis, index in enumerate(order):
            shape = [1] * len(order)
            shape[axis] = -1
            variable = index.data[0]
            self.values[index] = np.arange(variable.begin, variable.end).reshape(shape)

    def of(self, term: Term) -> Array:
        if term not in self.values:
            self.values[term] = self._computed(term)
        return self.values[term]

    def _computed(self, term: Term) -> Array:
        match term.kind:
            case "number":
                return np.asarray(term.data)
            case "use":
                array = term.data
                inner = _Evaluation([], self.inputs)
                inner.values.update(zip(array.variables, map(self.of, term.args), strict=True))
                return inner.of(array.term)
            case "read":
                whole = np.asarray(self.inputs[term.data.name])
                places = [
                    np.clip(self.of(arg), 0, max(size - 1, 0))
                    for arg, size in zip(term.args, whole.shape, strict=True)
                ]
                if 0 in whole.shape:
                    return np.zeros((), whole.dtype)
                return np.asarray(whole[tuple(places)])
            case "fold":
                return self._fold(term)
            case "linear":
                total = np.asarray(term.data.constant)
                for part, factor in zip(term.args, term.data.terms.values(), strict=True):
                    total = total + factor * self.of(part)
                return total
        args = [self.of(arg) for arg in term.args]
        if term.kind == "choice":
            return np.where(args[0] != 0, args[1], args[2])
        if term.kind == "cast":
            return args[0] != 0 if term.data == BOOL else args[0].astype(term.data.numpy)
        if term.kind == "call":
            return np.asarray(BUILTINS[term.data].numpy(*args))
        return self._applied(term, args)

    def _applied(self, term: Term, args: list[Array]) -> Array:
        op = term.data
        if op == "neg":
            return np.negative(args[0])
        if op == "!":
            return np.logical_not(args[0])
        if op in ("&&", "||"):
            return (np.logical_and if op == "&&" else np.logical_or)(args[0], args[1])
        if op in COMPARISONS:
            return np.asarray(COMPARISONS[op](args[0], args[1]))
        floating = term.type is Weak.FLOAT or (isinstance(term.type, DType) and term.type.is_float)
        if op in ("/", "%") and not floating:
            safe = np.where(args[1] == 0, 1, args[1])
            return np.asarray((np.floor_divide if op == "/" else np.remainder)(args[0], safe))
        return np.asarray(UFUNCS[op](args[0], args[1]))

    def _fold(self, term: Term) -> Array:
        op, bound, _ = term.data
        inner = _Evaluation([], self.inputs)
        for index, value in self.values.items():
            if index.kind == "index":
                inner.values[index] = value.reshape(*value.shape, *[1] * len(bound))
        for axis, index in enumerate(bound):
            shape = [1] * len(bound)
            shape[axis] = -1
            variable = index.data[0]
            inner.values[index] = np.arange(variable.begin, variable.end).reshape(shape)
        guard, values = inner.of(term.args[0]), inner.of(term.args[1])
        full = np.broadcast_shapes(
            guard.shape, values.shape, *(v.shape for v in inner.values.values() if v.ndim)
        )
        values, guard = np.broadcast_to(values, full), np.broadcast_to(guard != 0, full)
        axes = tuple(range(len(full) - len(bound), len(full)))
        if op in _IDENTITY:
            return np.asarray(UFUNCS[op].reduce(np.where(guard, values, _IDENTITY[op]), axis=axes))
        extreme = np.iinfo(np.int32).max if op == "min" else np.iinfo(np.int32).min
        return np.asarray(UFUNCS[op].reduce(np.where(guard, values, extreme), axis=axes))
