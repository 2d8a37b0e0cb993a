"""Loop nests: making them, with loops that have one iteration left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tc.dtypes import INT64
from tc.kernel.folding import binary, integer
from tc.kernel.ir import Expr, For, Let, Stmt, Var
from tc.polyhedral.naming import Names

MAX_LOOPS = 8
"""A nest has no more loops: Python nests 20 blocks at most, of two nests and what is in them."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop to be: `name` from `begin`, `extent` times."""

    name: str
    begin: int
    extent: int

    @property
    def index(self) -> Expr:
        """What the body sees: the variable, or a constant if there is one iteration or none."""
        return Var(self.name, INT64) if self.extent > 1 else integer(self.begin)


def nest(
    loops: Sequence[Loop], body: tuple[Stmt, ...], names: Names, *, parallel: bool = False
) -> tuple[Stmt, ...]:
    """The body in the loops, the first outermost (and, if asked, parallel).

    >>> nest([Loop("i", 0, 1)], (), Names([], []))
    ()
    """
    wanted = [loop for loop in loops if loop.extent > 1]
    joined, single = _split(wanted)
    for loop in reversed(single):
        body = (_for(loop, body, parallel=parallel and not joined and loop is single[0]),)
    if joined:
        whole = Loop(names.fresh("n0", INT64), 0, math.prod(loop.extent for loop in joined))
        body = (_for(whole, (*_indices(whole, joined), *body), parallel=parallel),)
    return body


def _split(loops: list[Loop]) -> tuple[list[Loop], list[Loop]]:
    """The outermost loops, which become one if there are too many, and the others."""
    count = len(loops) - MAX_LOOPS + 1
    return (loops[:count], loops[count:]) if count > 1 else ([], loops)


def _for(loop: Loop, body: tuple[Stmt, ...], *, parallel: bool) -> For:
    begin, end = integer(loop.begin), integer(loop.begin + loop.extent)
    return For(loop.name, begin, end, body, parallel)


def _indices(whole: Loop, joined: list[Loop]) -> list[Let]:
    """Each index of loops joined in one, row-major."""
    lets: list[Let] = []
    for position, loop in enumerate(joined):
        step = math.prod(inner.extent for inner in joined[position + 1 :])
        count: Expr = binary("/", whole.index, integer(step))
        if position > 0:
            count = binary("%", count, integer(loop.extent))
        lets.append(Let(loop.name, binary("+", count, integer(loop.begin))))
    return lets
