"""Whether the arrays of a call look as those of an earlier one, and so may go to the same code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Look: TypeAlias = Callable[[Any], Any]
"""The pointer to an array that looks as wanted, None for others."""

LookAtAll: TypeAlias = Callable[[Sequence[Any]], list[Any] | None]
"""The pointers to arrays, None where one of them looks different."""

Reach: TypeAlias = tuple[int, int, int, int]
"""The places of an output and of another array, and how far from the output's pointer the other's
is where they may share memory: more than the one, less than the other number of bytes."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How a library finds out of its arrays what they look like.

    `look` takes an array, its view, and whether it is written to, and gives a function: the pointer
    to an array that has the same look and could be passed in its place, None for any other.
    `together` makes of such functions, and the arrays that they were made of, the same for as many
    arrays, where the library has a faster way to find it out. `is_usual` is whether
    arrays may be computed with now: no tracing, no tangents. `is_plain` is whether, besides, the
    library's own functions do what they say, and nobody else sees or changes it: no transforms, no
    modes.
    """

    look: Callable[[Any, Any, bool], Look]
    together: Callable[[Sequence[Any], Sequence[Look]], LookAtAll] | None = None
    is_usual: Callable[[], bool] = lambda: True
    is_plain: Callable[[], bool] = lambda: True

    def at_all(self, arrays: Sequence[Any], looks: Sequence[Look], *, numbers: bool) -> LookAtAll:
        """One look at arrays, with those at each; some may stand for `numbers`."""
        if numbers or self.together is None:
            return one_by_one(looks)
        return self.together(arrays, looks)


def one_by_one(looks: Sequence[Look]) -> LookAtAll:
    """As `Looks.together`, with one look at each."""

    def look_at_all(arrays: Sequence[Any]) -> list[Any] | None:
        pointers = []
        for array, look in zip(arrays, looks, strict=True):
            pointer = look(array)
            if pointer is None:
                return None
            pointers.append(pointer)
        return pointers

    return look_at_all


def reaches_of(spans: Sequence[tuple[int, int, int]], inputs: int) -> tuple[Reach, ...]:
    """Those of each output with the arrays before it. `spans` are the places of arrays, those of
    outputs behind so many inputs, with the bytes before and behind the pointer.

    >>> reaches_of([(0, 0, 8), (2, 4, 12)], 2)
    ((2, 0, -12, 12),)
    """
    pairs = [(span, other) for span in spans if span[0] >= inputs for other in spans]
    return tuple(
        (output, place, -(below + behind), above + before)
        for (output, below, above), (place, before, behind) in pairs
        if place < output
    )
