"""Which plans the tuning database has for a call: of its sizes, or of the nearest; under its names,
and at its sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from tc.errors import BackendError
from tc.options import Options
from tc.semantics.program import ShapedProgram
from tc.semantics.work import scaled
from tc.tuning.canonical import CanonicalCall, Names, as_json
from tc.tuning.plan_names import renamed
from tc.tuning.plan_sizes import fitted, runs_of

if TYPE_CHECKING:
    from sqlite3 import Connection

FARTHEST = 4
"""How many times larger or smaller than that of a call an extent may be, so that plans are tried at
it: further away the chooser knows better."""

MOST = 16
"""Plans of the sizes of a call, and other sizes, that are looked at."""


class Remembered(NamedTuple):
    """Options with a whole plan, and where they come from, in words."""

    options: Options
    why: str


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan that was measured, as it stands in the database; `shapes` are those of the inputs,
    `measured` is how many plans were measured with it. `is_exact`: for just such a call."""

    is_exact: bool
    shapes: tuple[tuple[int, ...], ...]
    names: str
    options: str
    seconds: float
    measured: int
    at: float

    def why(self, shaped: ShapedProgram) -> str:
        plans = "the only plan" if self.measured == 1 else f"the fastest of {self.measured} plans"
        taken = f"{scaled(self.seconds)}s on {time.strftime('%Y-%m-%d', time.gmtime(self.at))}"
        if self.is_exact:
            return f"{plans} measured for these sizes: {taken}"
        shapes = zip(shaped.program.inputs, self.shapes, strict=True)
        told = ", ".join(f"{name}({', '.join(map(str, shape))})" for name, shape in shapes if shape)
        return f"{plans} measured for {told}, the nearest sizes that were tuned: {taken} there"


_FASTEST = """
    SELECT names, text, coalesce(sum(confirmed * time) / sum(confirmed), avg(time)) AS seconds,
        max(at)
    FROM trials JOIN problems ON problems.id = trials.problem JOIN texts ON texts.id = options
    WHERE trials.problem IN ({}) AND device = ?
    GROUP BY trials.problem, options HAVING count(*) = count(time)
    ORDER BY max(confirmed) DESC, seconds, options
"""
"""Plans that never failed: those that were measured once more, in turn with another, come first."""

_PROBLEMS = """
    SELECT id, scalars, shapes, strides FROM problems
    WHERE program = ? AND backend = ? AND checked = ? AND given = ? AND EXISTS
        (SELECT 1 FROM trials WHERE problems.id = trials.problem AND device = ? AND time NOTNULL)
"""


def known_plans(connection: Connection, call: CanonicalCall, device: str) -> list[KnownPlan]:
    """The plans for a call on a device, that which should be fastest first: of calls just like it,
    then the fastest of each other size, the nearest first."""
    row = connection.execute("SELECT id FROM texts WHERE text = ?", (device,)).fetchone()
    if row is None:
        return []
    (device_id,) = row
    key = (call.program, call.backend, call.check, as_json(call.given), device_id)
    exact: list[int] = []
    others: dict[tuple[float, str, str], list[int]] = {}
    for number, scalars, shapes, strides in connection.execute(_PROBLEMS, key):
        if scalars != as_json(call.scalars):
            continue
        if (shapes, strides) == (as_json(call.shapes), as_json(call.strides)):
            exact.append(number)
        elif (far := _distance(call, json.loads(shapes), json.loads(strides))) is not None:
            others.setdefault((far, shapes, strides), []).append(number)
    found = list(_plans(connection, exact, device_id, call.shapes, is_exact=True))[:MOST]
    for (_, shapes, _), numbers in sorted(others.items())[: MOST - len(found)]:
        at = tuple(map(tuple, json.loads(shapes)))
        found += list(_plans(connection, numbers, device_id, at, is_exact=False))[:1]
    return found


def _plans(
    connection: Connection,
    problems: list[int],
    device: int,
    shapes: tuple[tuple[int, ...], ...],
    *,
    is_exact: bool,
) -> Iterator[KnownPlan]:
    sql = _FASTEST.format(", ".join("?" * len(problems)))
    rows = connection.execute(sql, (*problems, device)).fetchall()
    for names, options, seconds, at in rows:
        yield KnownPlan(is_exact, shapes, names, options, seconds, len(rows), at)


def _distance(
    call: CanonicalCall,
    shapes: list[list[int]],
    strides: list[tuple[int, list[int]]],
) -> float | None:
    """How far the extents of inputs are from those of a call, the sum of the logarithms of their
    ratios; None where they are too far, or lie in memory otherwise."""
    if _orders(strides) != _orders(call.strides) or len(shapes) != len(call.shapes):
        return None
    total = 0.0
    for ours, theirs in zip(call.shapes, shapes, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            if one != other:
                if 0 in (one, other) or not 1 / FARTHEST <= one / other <= FARTHEST:
                    return None
                total += abs(log2(one / other))
    return total


def _orders(strides: Iterable[tuple[int, Iterable[int]]]) -> dict[int, list[int]]:
    """In which order the dimensions of inputs that are not row-major lie in memory."""
    return {
        place: sorted(range(len(own)), key=lambda d: (-own[d], d))
        for place, own in ((place, list(steps)) for place, steps in strides)
    }


def remembered(known: Iterable[KnownPlan], shaped: ShapedProgram) -> Iterator[Remembered]:
    """Plans under the names of a program, and at its sizes. Whether they can be done is for the
    compiler to find; what it cannot read is passed over."""
    names = Names.of(shaped.program)
    for found in known:
        try:
            options = Options.from_json(found.options)
            if options.plan is None:
                continue
            plan = renamed(options.plan, Names.from_json(found.names), names)
            if not found.is_exact:
                plan = fitted(plan, runs_of(shaped))
            yield Remembered(replace(options, plan=plan), found.why(shaped))
        except BackendError:  # a plan of another version of tc
            continue
