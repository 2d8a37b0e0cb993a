"""Plans at other sizes: no tile is larger than what it is a tile of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from tc.plan import VECTOR, Action, Bind, Part, Plan, Tile
from tc.polyhedral.actions.loops import LoopName, loop_name
from tc.semantics.program import ShapedProgram
from tc.tuning.canonical import Names
from tc.tuning.plan_names import split_name, variables_of, with_loops


class Run(NamedTuple):
    """What a loop runs along, a variable of a statement or several joined, and how many values
    these have."""

    statement: int
    variables: tuple[str, ...]
    extent: int


FindRun: TypeAlias = "Callable[[Part, LoopName], Run | None]"
"""What a loop of a part runs along; None where that is not known."""


def fitted(plan: Plan, run: FindRun) -> Plan:
    """The plan with tiles that are no larger than loops are at these sizes, and all names of loops
    to match. The sizes of tiles still divide each other, and lanes stay powers of two.

    >>> plan = Plan.from_json('{"version": 1, "parts": [{"statements": ["S0"], "actions": ['
    ...                       '{"tile": "i", "sizes": [64, 8]}, {"tile": "j", "sizes": [32]},'
    ...                       '{"bind": "i mod 8", "role": "vector"},'
    ...                       '{"bind": "S0.i mod 64 div 8", "role": "unroll"}]}]}')
    >>> print(fitted(plan, lambda part, loop: Run(0, (loop.name,), 20)))
    {"version": 1, "parts": [
     {"statements": ["S0"], "actions": [
      {"tile": "i", "sizes": [16, 8]},
      {"tile": "j", "sizes": [20]},
      {"bind": "i mod 8", "role": "vector"},
      {"bind": "S0.i mod 16 div 8", "role": "unroll"}
     ]}
    ]}
    """
    return Plan(tuple(_fitted(part, run) for part in plan.parts))


def runs_of(shaped: ShapedProgram) -> FindRun:
    """The runs of the loops of a program at its sizes."""
    names = Names.of(shaped.program)

    def run(part: Part, loop: LoopName) -> Run | None:
        own = part.statements if loop.statement is None else (loop.statement,)
        firsts = variables_of(own, names)
        split = split_name(loop.name, firsts)
        if split is None:
            return None
        number = firsts[split.variables[0]]
        ranges = shaped.statements[number].ranges
        extent = 1
        for variable in split.variables:
            extent *= ranges[variable].extent
        return Run(number, split.variables, extent)

    return run


def _fitted(part: Part, run: FindRun) -> Part:
    tiles = _Tiles(part, run)
    return Part(part.statements, tuple(map(tiles.action, part.actions)))


class _Tiles:
    """The sizes of the tiles of a part, in iterations of the loop that was tiled, and what they
    become."""

    def __init__(self, part: Part, run: FindRun) -> None:
        self._part, self._run = part, run
        sizes: dict[Run, set[int]] = {}
        lanes: dict[Run, set[int]] = {}
        for action in part.actions:
            if isinstance(action, Tile):
                loop = loop_name(action.loop)
                own = run(part, loop)
                if own is not None:
                    made = (loop.step * size for size in action.sizes)
                    sizes.setdefault(own, {loop.step}).update(made)
            elif isinstance(action, Bind) and action.role == VECTOR:
                loop = loop_name(action.loop)
                own = run(part, loop)
                if own is not None and loop.span is not None:
                    lanes.setdefault(own, set()).add(loop.span)
        self._new = {
            own: dict(_smaller(found, own.extent, lanes.get(own, set())))
            for own, found in sizes.items()
        }

    def action(self, action: Action) -> Action:
        found = with_loops(action, self._loop)
        if isinstance(action, Tile) and isinstance(found, Tile):
            loop = loop_name(action.loop)
            new = self._sizes(loop, {loop.step * size for size in action.sizes})
            step = new.get(loop.step, loop.step)
            made = (loop.step * size for size in action.sizes)
            return replace(found, sizes=tuple(new.get(size, size) // step for size in made))
        return found

    def _loop(self, loop: LoopName) -> LoopName:
        new = self._sizes(loop, {loop.step, loop.span or loop.step})
        span = None if loop.span is None else new.get(loop.span, loop.span)
        return replace(loop, span=span, step=new.get(loop.step, loop.step))

    def _sizes(self, loop: LoopName, known: set[int]) -> Mapping[int, int]:
        """The new sizes of the tiles of a loop by the old ones; the loop may have been tiled by its
        name in another statement."""
        own = self._run(self._part, loop)
        if own is None or own in self._new:
            return self._new.get(own, {}) if own is not None else {}
        alike = (n for r, n in self._new.items() if r.extent == own.extent and known <= n.keys())
        return next(alike, {})


def _smaller(sizes: set[int], extent: int, lanes: set[int]) -> Iterator[tuple[int, int]]:
    """The sizes of tiles for an extent: each is the largest multiple of the size inside of it that
    is no more than the extent."""
    inner = 1
    for size in sorted({*sizes, 1}):
        new = size
        if size > extent:
            new = max(extent // inner, 1) * inner
            if size in lanes:
                new = max(1 << (max(extent, 1).bit_length() - 1), inner)
        yield size, new
        inner = new
