"""What is gathered, in shared memory: tiles of T(I(i,k), j), filled by all threads of a block.

A thread that gathers waits for the place, then for the element; all threads together fetch many of
both at once. So what is gathered is promoted where elements are used again, as of any tensor; and
where the steps of a reduction gather one after the other, with places that several threads use,
whether its elements are used again or not, and whether its reads are coalesced or not.
(Vasilache et al. 2018, arXiv:1802.04730, section 5.5.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod

from tc.polyhedral.facts import Facts
from tc.polyhedral.footprint import Box
from tc.polyhedral.promotion import Footprint
from tc.polyhedral.scop.scop import Gather, ScopStatement
from tc.semantics import program as p


def gathered_boxes(
    statements: Sequence[ScopStatement],
    below: Footprint,
    facts: Facts,
    instances: Callable[[ScopStatement], int],
) -> Iterator[tuple[str, Box]]:
    """What some statements gather that would better lie in shared memory, with what a block touches
    of it; `instances` tells how often each of them runs there, tails of tiles counted."""
    for name in dict.fromkeys(a.tensor for s in statements for a in s.gathers):
        gather, found = facts.scop.gathers[name], below.box(name)
        if found is None or (facts.check and gather.is_checked):
            continue
        users = [s for s in statements for a in s.gathers if a.tensor == name]
        times = sum(map(instances, users))
        counts = (below.box(name, tails=True) or found).counts
        places = prod(counts[d] for d in _dimensions_of_places(gather))
        if times > prod(counts) or (times > places and any(s.accumulates for s in users)):
            yield name, found


def _dimensions_of_places(gather: Gather) -> set[int]:
    """The dimensions along which the tensors are read that hold places."""
    inside = (
        index
        for subscript in gather.value.subscripts
        for read in p.walk(subscript)
        if isinstance(read, p.Read)
        for index in p.index_names(read)
    )
    numbers = {own.name: number for number, own in enumerate(gather.dimensions)}
    return {numbers[name] for name in inside}


def without_places(
    found: Mapping[str, Box],
    held: Collection[str],
    statements: Sequence[ScopStatement],
    facts: Facts,
) -> dict[str, Box]:
    """What was found but for what statements read only for places of what is held."""
    places = {
        read.site
        for s in statements
        for access in s.gathers
        if access.tensor in held
        for subscript in facts.reads[access.site].subscripts
        for read in p.walk(subscript)
        if isinstance(read, p.Read)
    }
    return {
        tensor: box
        for tensor, box in found.items()
        if not places.issuperset(
            a.site for s in statements for a in s.promotable if a.tensor == tensor
        )
    }
