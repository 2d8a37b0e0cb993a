"""Plans under other names: a plan that was found for one program serves a program that is written
alike.

A plan serves other sizes too: no tile is larger there than what it is a tile of (`fitted`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from tc.errors import BackendError
from tc.plan import VECTOR, Action, Bind, Part, Plan, Promote, Separate, Split, Tile
from tc.polyhedral.actions.loops import LoopName, loop_name
from tc.semantics.program import ShapedProgram
from tc.tuning.canonical import Names

_STATEMENT = re.compile(r"S(\d+)(\..+)?")
_ZERO = ".zero"
_MADE = re.compile(r"(.+)(\.[a-z]\d+)")
"""The name of a temporary of a rewrite: the name of a tensor, then a kind and a number."""

_NUMBERED = re.compile(r"(.*?)(_?\d+)")
"""A name that was taken, with a number."""

_MAX_PARTS = 64
"""Of a name that tc has joined: variables have underscores, too."""


def with_loops(action: Action, changed: Callable[[LoopName], LoopName]) -> Action:
    """An action whose loops are called otherwise; BackendError where it names none."""
    found: dict[str, Any] = {}
    for item in fields(action):
        value = getattr(action, item.name)
        if item.name in ("loop", "inside") and value is not None:
            found[item.name] = str(changed(loop_name(value)))
        elif item.name == "loops":
            found[item.name] = tuple(str(changed(loop_name(name))) for name in value)
    made: Action = replace(action, **found)
    return made


def renamed(plan: Plan, old: Names, new: Names) -> Plan:
    """A plan for a program that calls things as `old` says, for one that calls them as `new` does,
    and is otherwise the same.

    A loop is called after a variable of the first statement that it runs, so of a name that several
    statements have the first one in the part tells what it becomes. Where that is not what was
    meant, as variables of two statements were swapped, the plan may not apply.

    >>> old, new = Names(("A", "o"), (("i", "j"),)), Names(("x", "y"), (("k", "i"),))
    >>> plan = Plan.from_json('{"version": 1, "parts": [{"statements": ["S0"], "actions": ['
    ...                       '{"tile": "j", "sizes": [8]}, {"bind": "S0.i", "role": "unroll"},'
    ...                       '{"promote": "o", "scope": "register", "inside": "i_j div 8"}]}]}')
    >>> print(renamed(plan, old, new))
    {"version": 1, "parts": [
     {"statements": ["S0"], "actions": [
      {"tile": "i", "sizes": [8]},
      {"bind": "S0.k", "role": "unroll"},
      {"promote": "y", "scope": "register", "inside": "k_i div 8"}
     ]}
    ]}
    """
    if old == new:
        return plan
    renaming = _Renaming(old, new)
    return Plan(tuple(map(renaming.part, plan.parts)))


def variables_of(statements: Iterable[str], names: Names) -> Mapping[str, int]:
    """The variables that loops around some statements are called after, each with the number of the
    first statement that has it."""
    found: dict[str, int] = {}
    for statement in statements:
        number = number_of(statement)
        if number is not None and number < len(names.variables):
            for variable in names.variables[number]:
                found.setdefault(variable, number)
    return found


def number_of(statement: str) -> int | None:
    """The number, in the program, of the statement of which a statement is, or was made.

    >>> number_of("S2.init"), number_of("y.zero")
    (2, None)
    """
    match = _STATEMENT.fullmatch(statement)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class _Renaming:
    """What names become."""

    old: Names
    new: Names

    @property
    def tensors(self) -> Mapping[str, str]:
        return dict(zip(self.old.tensors, self.new.tensors, strict=True))

    def part(self, part: Part) -> Part:
        firsts = variables_of(part.statements, self.old)
        variables = {v: self._of_statement(number)[v] for v, number in firsts.items()}
        return Part(
            tuple(map(self.statement, part.statements)),
            tuple(self.action(action, variables) for action in part.actions),
        )

    def action(self, action: Action, variables: Mapping[str, str]) -> Action:
        def loop(name: LoopName) -> LoopName:
            if name.statement is None:
                return replace(name, name=_joined(name.name, variables))
            number = number_of(name.statement)
            own = {} if number is None else self._of_statement(number)
            called = _joined(name.name, own)
            return replace(name, statement=self.statement(name.statement), name=called)

        found = with_loops(action, loop)
        match found:
            case Promote(tensor=tensor, statements=names):
                named = tuple(map(self.statement, names))
                return replace(found, tensor=self.tensor(tensor), statements=named)
            case Separate(statements=names):
                return replace(found, statements=tuple(map(self.statement, names)))
            case Split(statement=name):
                return replace(found, statement=self.statement(name))
        return found

    def statement(self, name: str) -> str:
        """Statements have no names of the program's, but those that fill a tensor with zeros."""
        if name.endswith(_ZERO):
            return self.tensor(name.removesuffix(_ZERO)) + _ZERO
        return name

    def tensor(self, name: str) -> str:
        tensors = self.tensors
        if name in tensors:
            return tensors[name]
        if made := _MADE.fullmatch(name):
            return self.tensor(made[1]) + made[2]
        known = "|".join(map(re.escape, sorted(tensors, key=len, reverse=True)))
        # of what is gathered, all tensors
        return re.sub(rf"(?<![\w.#])({known})(?=\()", lambda found: tensors[found[1]], name)

    def _of_statement(self, number: int) -> Mapping[str, str]:
        if number >= len(self.old.variables):
            raise BackendError(f"there is no statement S{number}")
        return dict(zip(self.old.variables[number], self.new.variables[number], strict=True))


def _joined(name: str, variables: Mapping[str, str]) -> str:
    """What a variable becomes, or one that was joined of several (`h_w`), or numbered, as its name
    was taken (`i2`); others are of tc's own making."""
    parts = split_name(name, variables)
    if parts is None:
        return name
    return "_".join(variables[part] for part in parts.variables) + parts.number


@dataclass(frozen=True, slots=True)
class SplitName:
    """The variables that a loop is called after, and the number behind them, if there is one."""

    variables: tuple[str, ...]
    number: str = ""


def split_name(name: str, known: Mapping[str, object]) -> SplitName | None:
    """The variables of the program, of those known, of which tc has made a name; None where there
    are none.

    >>> known = {"h": 0, "w": 0, "h_w": 0}
    >>> [split_name(name, known).variables for name in ("h_w", "h_w_h", "w2")]
    [('h_w',), ('h_w', 'h'), ('w',)]
    """
    parts = name.split("_")

    @cache
    def split(first: int) -> tuple[str, ...] | None:
        """From a part on."""
        for end in range(len(parts), first, -1):
            one = "_".join(parts[first:end])
            rest = split(end) if one in known and end < len(parts) else ()
            if one in known and rest is not None:
                return (one, *rest)
        return None

    found = split(0) if len(parts) <= _MAX_PARTS else None
    if found is not None:
        return SplitName(found)
    numbered = _NUMBERED.fullmatch(name)
    before = split_name(numbered[1], known) if numbered else None
    return replace(before, number=before.number + numbered[2]) if before and numbered else None


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
