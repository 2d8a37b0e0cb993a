"""Where the terms of a block go in a reduction: all points of some axes into one element, or each
instance into the element that it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tc.builtins.operators import UFUNCS
from tc.dtypes import Array


class Fold(Protocol):
    """How the terms of one block are taken into a reduction over elements of a target."""

    @property
    def count(self) -> int:
        """The most terms that one element gets from the block."""

    def into(self, op: str, total: Array, terms: Array) -> Array:
        """`total`, which has an element for each of the target, or one for all, with the terms
        taken in by an operator; an array of the target's shape may be changed in place."""


@dataclass(frozen=True, slots=True)
class BoxFold:
    """The axes of a block behind the first `kept` are reduced; along axes where a term has length 1
    the term is repeated."""

    shape: tuple[int, ...]
    kept: int

    @property
    def count(self) -> int:
        return math.prod(self.shape[self.kept :])

    def into(self, op: str, total: Array, terms: Array) -> Array:
        spread = np.broadcast_to(terms, self.shape)
        axes = tuple(range(self.kept, len(self.shape)))
        reduced = UFUNCS[op].reduce(spread, axis=axes, dtype=terms.dtype)
        return np.asarray(UFUNCS[op](total, reduced))


class PlaceFold:
    """Each instance of a block goes to the place that it names in the target, if it exists.

    `places` have one array for each dimension of the target, which broadcast to the block's shape,
    and lie inside of the target; `exists` (None: all) broadcasts, too. The last `spread` axes of
    the block are dimensions `axes` of the target, each a range from `begins`: along them terms are
    taken in as rows.
    """

    def __init__(
        self,
        target: Sequence[int],
        places: Sequence[Array],
        exists: Array | None,
        block: Sequence[int],
        axes: Sequence[int] = (),
        begins: Sequence[int] = (),
    ) -> None:
        self.target = tuple(target)
        self.axes = tuple(axes)
        self._block = tuple(block)
        kept = len(block) - len(axes)
        self._lead, self._rows = self._block[:kept], self._block[kept:]
        others = [axis for axis in range(len(target)) if axis not in axes]
        flat: Array = np.zeros((1,) * kept, np.int64)
        for axis in others:
            place = places[axis].reshape(places[axis].shape[:kept])
            flat = flat * target[axis] + place
        flat = np.broadcast_to(flat, self._lead).reshape(-1)
        self._picked: Array | None = None
        if exists is not None:
            mask = np.broadcast_to(exists.reshape(exists.shape[:kept]), self._lead).reshape(-1)
            self._picked = np.flatnonzero(mask)
            flat = flat[self._picked]
        self._order: Array | None = None
        if flat.size and (flat[1:] < flat[:-1]).any():
            self._order = np.argsort(flat, kind="stable")
            flat = flat[self._order]
        is_first = np.ones(flat.size, np.bool_)
        is_first[1:] = flat[1:] != flat[:-1]
        self._starts = np.flatnonzero(is_first)
        counts = np.diff(np.append(self._starts, flat.size))
        self.count = int(counts.max()) if counts.size else 0
        unique = flat[self._starts]
        where = np.unravel_index(unique, [target[axis] for axis in others]) if others else ()
        self._is_empty = not unique.size or 0 in self._block
        self._places = self._index(where, others, begins)

    def _index(
        self, where: Sequence[Array], others: Sequence[int], begins: Sequence[int]
    ) -> tuple[Any, ...]:
        """The places in the target that get terms, one row of them each, as an index: with the
        rows' dimensions behind the places."""
        ends = [1] * len(self._rows)
        index: list[Any] = [None] * len(self.target)
        for axis, place in zip(others, where, strict=True):
            index[axis] = place.reshape(-1, *ends)
        for position, (axis, begin) in enumerate(zip(self.axes, begins, strict=True)):
            shape = [1] * (len(self._rows) + 1)
            shape[position + 1] = self._rows[position]
            index[axis] = np.arange(begin, begin + self._rows[position]).reshape(shape)
        return tuple(index)

    def _terms(self, array: Array) -> Array:
        """The terms that exist, in the order of their places, with the rows' axes behind."""
        spread = np.broadcast_to(array, self._block).reshape(-1, *self._rows)
        if self._picked is not None:
            spread = spread[self._picked]
        return spread if self._order is None else spread[self._order]

    def into(self, op: str, total: Array, terms: Array) -> Array:
        if total.shape != self.target or not self.target:
            total = np.array(np.broadcast_to(total, self.target))
        if self._is_empty:
            return total
        reduced = UFUNCS[op].reduceat(self._terms(terms), self._starts, axis=0, dtype=terms.dtype)
        held = total[self._places].reshape(reduced.shape)
        total[self._places] = UFUNCS[op](held, reduced).reshape(total[self._places].shape)
        return total

    def mark(self, mask: Array) -> None:
        """Sets a mask of the target's shape where an instance goes."""
        if not self._is_empty:
            mask[self._places] = True
