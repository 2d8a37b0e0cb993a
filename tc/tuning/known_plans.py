"""The plans that the tuning database has for a call: plans of the sizes of the call, then of the
nearest sizes; with the names of the call, and at its sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tc.errors import BackendError, InputError
from tc.options import Options
from tc.semantics.program import ShapedProgram
from tc.semantics.work import scaled
from tc.tuning.canonical import CanonicalCall, Names, as_json
from tc.tuning.machines import PlanKey
from tc.tuning.plan_names import fitted, renamed, runs_of
from tc.tuning.rows import READABLE, Shapes, Strides, number_of, shapes_of, strides_of, value_of

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_SIZE_RATIO = 4
"""How many times larger or smaller than that of a call an extent may be, so that plans are tried at
it: further away the chooser knows better."""

MAX_PLANS = 16
"""Plans of the sizes of a call, and other sizes, that are looked at."""


class StoredPlan(NamedTuple):
    """Options of the database with a whole plan; `why` says where the options come from. Options
    without a plan are what tc chooses itself. Where this tc cannot read the options, they are None
    and `fault` says why."""

    options: Options | None
    why: str
    is_exact: bool = True
    fault: str = ""


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A row of the database: a plan that was measured. `shapes` are the shapes of the inputs,
    `measured` is the number of plans that were measured with this one. `is_exact`: the plan was
    measured for the same call."""

    is_exact: bool
    shapes: Shapes
    names: str
    options: str
    seconds: float
    measured: int
    at: float

    def why(self, shaped: ShapedProgram) -> str:
        plans = "the only plan" if self.measured == 1 else f"the fastest of {self.measured} plans"
        if _is_choice(self.options):
            plans = f"what tc chooses itself, {plans}"
        taken = f"{scaled(self.seconds)}s on {time.strftime('%Y-%m-%d', time.gmtime(self.at))}"
        if self.is_exact:
            return f"{plans} measured for these sizes: {taken}"
        shapes = zip(shaped.program.inputs, self.shapes, strict=True)
        told = ", ".join(f"{name}({', '.join(map(str, shape))})" for name, shape in shapes if shape)
        return f"{plans} measured for {told}, the nearest sizes that were tuned: {taken} there"


def _is_choice(options: str) -> bool:
    """Whether options, as JSON, have no plan."""
    return options.endswith('"plan": null}')


_FASTEST = """
    SELECT names, text, coalesce(sum(confirmed * time) / sum(confirmed), avg(time)) AS seconds,
        max(at), max(confirmed) AS is_confirmed
    FROM trials JOIN problems ON problems.id = trials.problem JOIN texts ON texts.id = options
    WHERE trials.problem IN ({numbers}) AND device = ? AND base IS ? {which} AND ({readable})
    GROUP BY trials.problem, options HAVING count(*) = count(time)
    ORDER BY is_confirmed DESC, seconds, options
"""
"""The plans that never failed; plans that were measured once more, in turn with another plan, come
first."""

_CONFIRMED = """
    AND options IN (SELECT options FROM trials INDEXED BY verdicts
        WHERE problem IN ({numbers}) AND device = ? AND base IS ? AND confirmed)
"""

_DAMAGED = """
    SELECT count(*) FROM trials
    WHERE problem IN ({numbers}) AND device = ? AND base IS ? {which} AND NOT ({readable})
"""

_MEASURED = """
    SELECT count(DISTINCT options) FROM trials
    WHERE problem IN ({numbers}) AND device = ? AND base IS ? AND time NOTNULL
"""

_EXACT = """
    SELECT id, given = ? FROM problems
    WHERE program = ? AND backend = ? AND checked = ? AND scalars = ? AND shapes = ? AND strides = ?
"""

_OTHERS = """
    SELECT id, given = ?, shapes, strides FROM problems
    WHERE program = ? AND backend = ? AND checked = ? AND scalars = ?
        AND NOT (shapes = ? AND strides = ?) AND {which}
"""

_WITH_TRIALS = """
    EXISTS (SELECT 1 FROM trials
        WHERE trials.problem = problems.id AND device = ? AND base IS ? AND time NOTNULL)
"""

_WITH_CONFIRMED = """
    EXISTS (SELECT 1 FROM trials INDEXED BY verdicts
        WHERE trials.problem = problems.id AND device = ? AND base IS ? AND confirmed)
"""


def known_plans(
    connection: Connection,
    key: PlanKey,
    passed_over: Callable[[InputError], None],
    *,
    most: int = MAX_PLANS,
    confirmed_only: bool = False,
) -> list[KnownPlan]:
    """The plans for a call on a device, that which should be fastest first: of calls just like it,
    then the fastest of each other size, the nearest first. Which outputs a caller passes seldom
    matters to a plan: those measured with the same come first among equals. Only plans that were
    confirmed: no other sizes where there is one for these. Each row that cannot be read is told to
    `passed_over`."""
    call = key.call
    device, base = _number(connection, key.device), None
    if key.base is not None:
        base = _number(connection, key.base)
        if base is None:
            return []
    if device is None:
        return []
    take = _Taken(connection, device, base, confirmed_only, passed_over)
    own = (as_json(call.given), call.program, call.backend, call.check)
    scalars, shapes, strides = map(as_json, (call.scalars, call.shapes, call.strides))
    exact = connection.execute(_EXACT, (*own, scalars, shapes, strides)).fetchall()
    found: list[KnownPlan] = []
    for same in (True, False):
        numbers = [number for number, is_same in exact if is_same == same]
        found += take.plans(numbers, call.shapes, is_exact=True)
    found = found[:most]
    if found and confirmed_only:
        return found
    sql = _OTHERS.format(which=_WITH_CONFIRMED if confirmed_only else _WITH_TRIALS)
    wanted = (*own, scalars, shapes, strides, device, base)
    others = connection.execute(sql, wanted).fetchall()
    for there, numbers in islice(_nearest(call, others, passed_over), most - len(found)):
        found += take.plans(numbers, there, is_exact=False)[:1]
    return found


def _nearest(
    call: CanonicalCall,
    others: Sequence[tuple[int, int, object, object]],
    passed_over: Callable[[InputError], None],
) -> Iterator[tuple[Shapes, list[int]]]:
    """The shapes of other problems, with the numbers of those that have them, the nearest first."""
    own, ranks = _orders(call.strides), [len(shape) for shape in call.shapes]
    alike: list[tuple[int, int, Shapes, Strides]] = []
    for number, is_same, shapes, strides in others:
        try:
            steps = strides_of(strides, ranks)
            if _orders(steps) == own:
                alike.append((number, is_same, shapes_of(shapes, ranks), steps))
        except InputError as error:
            passed_over(error)
    near: dict[tuple[float, bool, Shapes, Strides], list[int]] = {}
    distances = _distances(call, [shapes for _, _, shapes, _ in alike])
    for (number, is_same, found, steps), far in zip(alike, distances, strict=True):
        if far is not None:
            near.setdefault((far, not is_same, found, steps), []).append(number)
    for (_, _, found, _), numbers in sorted(near.items()):
        yield found, numbers


def _number(connection: Connection, text: str) -> int | None:
    row = connection.execute("SELECT id FROM texts WHERE text = ?", (text,)).fetchone()
    return None if row is None else number_of(row)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A query for plans of problems: for all plans, or for confirmed plans alone."""

    connection: Connection
    device: int
    base: int | None
    confirmed_only: bool
    passed_over: Callable[[InputError], None]

    def plans(self, problems: list[int], shapes: Shapes, *, is_exact: bool) -> list[KnownPlan]:
        """The plans of problems that are alike, the fastest first; the choice of tc itself comes
        after plans that were once confirmed to be faster."""
        if not problems:
            return []
        places = ", ".join("?" * len(problems))
        own = (*problems, self.device, self.base)
        which, given = "", own
        if self.confirmed_only:
            which, given = _CONFIRMED.format(numbers=places), (*own, *own)
        parts = {"numbers": places, "which": which, "readable": READABLE}
        (damaged,) = self.connection.execute(_DAMAGED.format(**parts), given).fetchone()
        if damaged:
            self.passed_over(InputError(f"the numbers of {damaged} trials are none"))
        rows = self.connection.execute(_FASTEST.format(**parts), given).fetchall()
        for row in [row for row in rows if not isinstance(row[1], str)]:
            self.passed_over(InputError("options: no text"))
            rows.remove(row)
        if not rows:
            return []
        sql = _MEASURED.format(numbers=places)
        (measured,) = self.connection.execute(sql, own).fetchone()
        rows.sort(key=lambda row: (-row[4], _is_choice(row[1])))
        measured -= any(_is_choice(row[1]) for row in rows)  # its plan is there, too
        return [
            KnownPlan(is_exact, shapes, names, options, seconds, measured, at)
            for names, options, seconds, at, _ in rows
        ]


def _distances(call: CanonicalCall, shapes: Sequence[Shapes]) -> Iterator[float | None]:
    """How far the extents of inputs are from those of a call, the sum of the logarithms of their
    ratios; None where they are too far. All at once: there may be hundreds."""
    ours = np.array(list(chain.from_iterable(call.shapes)), np.float64)
    theirs = np.empty((len(shapes), len(ours)))
    for row, each in zip(theirs, shapes, strict=True):
        row[:] = list(chain.from_iterable(each))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(theirs == ours, 1.0, theirs / ours)
        steps = np.abs(np.log2(ratios))
    for far, farthest in zip(steps.sum(axis=-1), steps.max(axis=-1, initial=0.0), strict=True):
        yield float(far) if farthest <= log2(MAX_SIZE_RATIO) else None


def _orders(strides: Iterable[tuple[int, Iterable[int]]]) -> dict[int, list[int]]:
    """In which order the dimensions of inputs that are not row-major lie in memory."""
    return {
        place: sorted(range(len(own)), key=lambda d: (-own[d], d))
        for place, own in ((place, list(steps)) for place, steps in strides)
    }


def stored_plans(
    known: Iterable[KnownPlan],
    shaped: ShapedProgram,
    passed_over: Callable[[InputError], None],
) -> Iterator[StoredPlan]:
    """Plans under the names of a program, and at its sizes. Whether they can be done is for the
    compiler to find. Each row that cannot be read is told to `passed_over`."""
    names = Names.of(shaped.program)
    for found in known:
        why = found.why(shaped)
        try:
            value_of(found.options, 'the text of "options"')
            theirs = Names.from_json(found.names)
            if not theirs.are_like(names):
                raise InputError(f"names: {found.names!r:.60} are not those of the program")
        except InputError as error:
            passed_over(error)
            continue
        try:
            options = Options.from_json(found.options)
            plan = options.plan
            if plan is not None:
                plan = renamed(plan, theirs, names)
                if not found.is_exact:
                    plan = fitted(plan, runs_of(shaped))
            yield StoredPlan(replace(options, plan=plan), why, found.is_exact)
        except BackendError as error:  # a plan of another version of tc
            yield StoredPlan(None, why, found.is_exact, error.cause)


def readable(found: Iterable[StoredPlan]) -> Iterator[StoredPlan]:
    """The plans that this tc can read."""
    return (each for each in found if each.options is not None and each.options.plan is not None)
