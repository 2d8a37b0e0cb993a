"""All programs, by name."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from bench.broad_programs import grids, losses, moves, networks, products, sums
from bench.broad_programs.program import Program

FILES = (products, sums, moves, grids, networks, losses)
PROGRAMS: Mapping[str, Program] = {p.key: p for file in FILES for p in file.PROGRAMS}
FAMILIES = tuple(dict.fromkeys(program.family for program in PROGRAMS.values()))


def select(families: Sequence[str], words: Sequence[str]) -> list[Program]:
    """The programs of some families (of all for none) with one of the words in their name.
    ValueError for what is no family, and for a word that is in no name.

    >>> [program.name for program in select(["sums"], ["columns"])]
    ['sum of columns', 'most of columns']
    >>> select(["sum"], [])
    Traceback (most recent call last):
        ...
    ValueError: no family 'sum'; there are thin, batched, types, ...
    """
    for family in families:
        if family not in FAMILIES:
            raise ValueError(f"no family {family!r}; there are {', '.join(FAMILIES)}")
    for word in words:
        if not any(word in name for name in PROGRAMS):
            raise ValueError(f"no program with {word!r} in its name")
    return [
        program
        for name, program in PROGRAMS.items()
        if (not families or program.family in families)
        and (not words or any(word in name for word in words))
    ]


def some_of_each(programs: Sequence[Program], count: int, seed: int) -> list[Program]:
    """`count` programs of each family as a seed draws them, in the order that they had.

    >>> drawn = some_of_each(select(["sums", "thin"], []), 2, seed=7)
    >>> [program.family for program in drawn]
    ['thin', 'thin', 'sums', 'sums']
    >>> drawn == some_of_each(select(["sums", "thin"], []), 2, seed=7)
    True
    """
    generator = random.Random(seed)
    kept = set()
    for family in FAMILIES:
        own = [program.key for program in programs if program.family == family]
        kept.update(generator.sample(own, min(count, len(own))))
    return [program for program in programs if program.key in kept]
