"""Moves: what planners weigh, a tensor that is held in a buffer while some statements run.

Processors and GPUs weigh alike. Without the buffer, each access of the tensor goes to the memory in
which the tensor lies; with it, only the copies between that memory and the buffer do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tc.plan import REGISTER, Promote
from tc.polyhedral.promotion import Footprint, transfer


@dataclass(frozen=True)
class Move:
    """A promotion that a planner may do, `what` its decision calls it, and what it costs.

    In each iteration of the loops around, the buffer holds `counts` elements along the dimensions
    of the tensor. The costs are accesses of memory beyond the buffer in such an iteration, `before`
    the move and `after` it, of which each begins when the one before has ended.
    """

    what: str
    action: Promote
    counts: tuple[int, ...]
    before: float
    after: float

    @property
    def pays(self) -> bool:
        """Whether there are fewer accesses after the move.

        >>> held = Promote("A", "scratch")
        >>> [Move("A in a buffer", held, (n,), before=64, after=n).pays for n in (8, 64)]
        [True, False]
        """
        return self.after < self.before


def held_target(what: str, action: Promote, below: Footprint) -> Move | None:
    """The move of a tensor that statements below write; None where what they touch has no fixed
    size or place, or may not be copied. A statement that accumulates reads its target, too. What is
    written in the buffer before it is read there is not copied to the buffer."""
    tensor = action.tensor
    found = below.box(tensor)
    moved = None if found is None else transfer(tensor, below)
    if found is None or moved is None or isinstance(moved, str):
        return None
    before = 0
    for s in below.users(tensor):
        is_read = s.accumulates or any(a.tensor == tensor for a in s.reads)
        before += below.instances(s) * (is_read + (s.write.tensor == tensor))
    copies = moved.fetch + moved.write_back
    counts = found.held if action.scope == REGISTER else found.counts
    return Move(what, action, counts, before, prod(counts) * copies)
