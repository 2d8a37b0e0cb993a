"""Whether the arrays of a call have the layout of those of an earlier call, so that the code made
for the earlier call may run on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

ArrayCheck: TypeAlias = Callable[[Any], Any]
"""Returns the pointer to an array of the expected layout, None for any other array."""

CallCheck: TypeAlias = Callable[[Sequence[Any]], list[Any] | None]
"""Returns the pointers to the arrays of a call, None where one of them has another layout."""

OverlapRange: TypeAlias = tuple[int, int, int, int]
"""The places of an output and of another array, and how far from the output's pointer the other
pointer is where the two may share memory: more than the third number of bytes, and less than the
fourth."""


@dataclass(frozen=True, slots=True)
class ArrayLayoutCheck:
    """How a library checks the layouts of its arrays.

    `of_array` takes an array, its view, and whether the array is written to, and returns the check
    of arrays that are to be passed in its place: of the same type, shape, strides and device.
    `of_call` makes of such checks, and of the arrays that they were made of, the check of as many
    arrays, where the library has a faster way than one check after the other. `is_usual` returns
    whether arrays may be computed with now: no tracing, no tangents. `is_plain` returns whether,
    besides, the library's own functions do what they say, and nobody else sees or changes it: no
    transforms, no modes.
    """

    of_array: Callable[[Any, Any, bool], ArrayCheck]
    of_call: Callable[[Sequence[Any], Sequence[ArrayCheck]], CallCheck] | None = None
    is_usual: Callable[[], bool] = lambda: True
    is_plain: Callable[[], bool] = lambda: True

    def of_all(
        self, arrays: Sequence[Any], checks: Sequence[ArrayCheck], *, numbers: bool
    ) -> CallCheck:
        """The check of a call with arrays like these, of a check for each array; `numbers` says
        that some of the checks are of numbers."""
        if numbers or self.of_call is None:
            return one_by_one(checks)
        return self.of_call(arrays, checks)


def one_by_one(checks: Sequence[ArrayCheck]) -> CallCheck:
    """The check of a call that runs the check of each array."""

    def check_all(arrays: Sequence[Any]) -> list[Any] | None:
        pointers = []
        for array, check in zip(arrays, checks, strict=True):
            pointer = check(array)
            if pointer is None:
                return None
            pointers.append(pointer)
        return pointers

    return check_all


def overlap_ranges(spans: Sequence[tuple[int, int, int]], inputs: int) -> tuple[OverlapRange, ...]:
    """The range of overlap of each output with each array before it. `spans` has the places of
    arrays, of the `inputs` inputs first, with the bytes before and behind the pointer of each.

    >>> overlap_ranges([(0, 0, 8), (2, 4, 12)], 2)
    ((2, 0, -12, 12),)
    """
    pairs = [(span, other) for span in spans if span[0] >= inputs for other in spans]
    return tuple(
        (output, place, -(below + behind), above + before)
        for (output, below, above), (place, before, behind) in pairs
        if place < output
    )
