"""Shared memory as its banks serve a warp: 32 of them, each with a word of 32 bits at a time.

In a wavefront each bank gives one word, to all lanes that ask for it. A warp whose lanes read
several words each is served in as many groups of lanes as lanes have words; where lanes share
addresses in pairs, of neighbours or of those two apart, a group is twice as large.
(NVIDIA, CUDA C++ Programming Guide, "Shared Memory"; bench/results/gpu-constants-nvidia-h200.json,
wavefronts by pattern.)
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TypeAlias

BANKS = 32

Lanes: TypeAlias = "tuple[tuple[int, int], ...]"
"""The loops that threads run, the fastest first: how many threads there are, and by how many words
the next one is further on."""


def odd_pitch(count: int, together: int) -> int | None:
    """The room for a row of shared memory, of which so many elements are read together, so that
    columns lie in different banks: an odd number of such groups. None where a row has that already.

    >>> odd_pitch(32, 1), odd_pitch(33, 1), odd_pitch(16, 4), odd_pitch(18, 4)
    (33, None, 20, 20)
    """
    groups = -(-count // together)
    pitch = (groups + (groups % 2 == 0)) * together
    return None if pitch == count else pitch


def places_of(lanes: Lanes, warp: int) -> tuple[int, ...]:
    """The words at which the lanes of a warp are.

    >>> places_of(((2, 1), (3, 10)), 32)
    (0, 1, 10, 11, 20, 21)
    """
    found = []
    for number in range(min(warp, prod(count for count, _ in lanes))):
        place = 0
        for count, stride in lanes:
            number, digit = divmod(number, count)
            place += digit * stride
        found.append(place)
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def wavefronts(lanes: Lanes, words: int, warp: int) -> int:
    """How many wavefronts a warp takes, each lane of which reads so many neighbouring words.

    >>> [wavefronts(((32, stride),), 1, 32) for stride in (0, 1, 2, 32, 33)]
    [1, 1, 2, 32, 1]
    >>> wavefronts(((32, 4),), 4, 32), wavefronts(((2, 0), (16, 4)), 4, 32)
    (4, 2)
    """
    places = places_of(lanes, warp)
    pairs = any(
        all(place == places[n ^ distance] for n, place in enumerate(places) if n ^ distance < n)
        for distance in (1, 2)
    )
    size = max(1, (2 if pairs else 1) * warp // words)
    total = 0
    for first in range(0, len(places), size):
        asked = {at + word for at in places[first : first + size] for word in range(words)}
        banks = [0] * BANKS
        for word in asked:
            banks[word % BANKS] += 1
        total += max(banks)
    return total
