"""The tuning database: every measurement, and the plans that were fastest.

A file of SQLite, one for each user, or at a path. Programs are kept without their names, so what
was measured of one serves all that are written alike (`tc.tuning.canonical`). Any number of
processes may use a file at once; a measurement stands in it whole or not at all, whenever a process
is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tc.device import Device
from tc.errors import InputError, TCError, render
from tc.gpu import Gpu
from tc.options import Options
from tc.pipeline import shape_program
from tc.process.call_sites import warn
from tc.process.uninterrupted import uninterrupted
from tc.semantics.program import ShapedProgram
from tc.tuning.canonical import CanonicalCall, Names, as_json, canonical_call
from tc.tuning.database_file import (
    VARIABLE,
    damage_of,
    default_path,
    reading,
    shrink,
    writing,
)
from tc.tuning.known_plans import StoredPlan, known_plans, readable, stored_plans
from tc.tuning.machines import PlanKey, base_of, device_value, versions
from tc.tuning.problem import Problem, Trial
from tc.tuning.rows import (
    check_measured,
    is_time,
    number_of,
    shapes_of,
    strides_of,
    value_of,
)

if TYPE_CHECKING:
    from sqlite3 import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A trial, with its time, its device, and its search. `confirmed`: the trial was measured once
    more, in turn with the plan that it should replace; options without a plan are the choice of tc
    itself, where nothing replaced that choice. `device` and `versions` are values of JSON, `base`
    are the options that all candidates of the search had in common (`tc.tuning.machines`)."""

    problem: Problem
    trial: Trial
    device: dict[str, Any]
    versions: dict[str, str]
    at: float
    base: Options = field(default_factory=Options)
    search: str = ""
    seed: int | None = None
    confirmed: bool = False


class TuningDatabase:
    """The measurements in the file at `path`, by default the user's; it is made when it is first
    written to."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_path()
        self._warned = False

    @property
    def path(self) -> Path:
        """InputError where there is no place for a file."""
        if self._path is None:
            raise InputError(
                "there is no home directory for the tuning database",
                repair=f"export {VARIABLE}=/var/tmp/tuned.db",
            )
        return self._path

    @property
    def exists(self) -> bool:
        return self._path is not None and self._path.exists()

    def check(self) -> None:
        """InputError for a file that cannot be read."""
        if self.exists:
            with reading(self.path):
                pass

    def record(
        self,
        problem: Problem,
        device: Device | Gpu,
        trial: Trial,
        *,
        base: Options | None = None,
        search: str = "",
        seed: int | None = None,
        confirmed: bool = False,
    ) -> bool:
        """Keeps what was measured just now, by a search that began with the options `base`; whether
        it could. Where not, as the disk is full, says
        so once, by a TCWarning: the search goes on."""
        measurement = Measurement(
            problem=problem,
            trial=trial,
            device=device_value(device, problem.backend),
            versions=versions(problem.backend),
            at=time.time(),
            base=base_of(base or Options(), device),
            search=search,
            seed=seed,
            confirmed=confirmed,
        )
        try:
            uninterrupted(lambda: self.add([measurement]))
        except InputError as error:
            self._warn("what is measured is not kept", error)
            return False
        return True

    def add(self, measurements: Sequence[Measurement]) -> int:
        """Keeps measurements, all or none, and returns how many of them are new. InputError where
        the file cannot be written; that of a program which does not fit its sizes, before."""
        calls = [_shaped_call(measurement.problem)[0] for measurement in measurements]
        with writing(self.path) as connection:
            pairs = zip(measurements, calls, strict=True)
            return sum(_insert(connection, *pair) for pair in pairs)

    def measurements(
        self, passed_over: Callable[[TCError], None] | None = None
    ) -> Iterator[Measurement]:
        """All of them, the first first. One that this tc cannot read is passed over where somebody
        is told so, and else a TCError."""
        with reading(self.path) as connection:
            rows = connection.execute(_ALL).fetchall()
        return _readable(rows, passed_over)

    def best(
        self, problem: Problem, device: Device | Gpu, base: Options | None = None
    ) -> StoredPlan | None:
        """The fastest plan for a problem, of these sizes or of the nearest; None without one."""
        return next(self.plans(problem, device, base), None)

    def plans(
        self, problem: Problem, device: Device | Gpu, base: Options | None = None
    ) -> Iterator[StoredPlan]:
        """Plans for a problem, found by searches that began with the options `base`, that which
        should be fastest first: of these sizes as they were measured, then of others, the nearest
        first, the fastest of each. What cannot be read is passed over, which a TCWarning says."""
        if not self.exists:
            return iter(())
        call, shaped = _shaped_call(problem)
        with reading(self.path) as connection:
            key = PlanKey.of(call, device, base or Options())
            known = known_plans(connection, key, self._pass_over)
        return readable(stored_plans(known, shaped, self._pass_over))

    def prune(self, keep: int) -> tuple[int, int]:
        """Removes measurements that cannot be read, and for each problem, device and options all
        plans but the `keep` fastest ones and the confirmed ones. Returns the numbers of
        measurements removed and left."""
        with writing(self.path) as connection:
            (before,) = connection.execute("SELECT count(*) FROM trials").fetchone()
            _remove_damaged(connection)
            connection.execute(_PRUNE, {"keep": keep})
            for statement in _UNUSED:
                connection.execute(statement)
            (left,) = connection.execute("SELECT count(*) FROM trials").fetchone()
        shrink(self.path)
        return int(before) - int(left), int(left)

    def _pass_over(self, error: InputError) -> None:
        self._warn("what was tuned is passed over in part", damage_of(self.path, error))

    def _warn(self, what: str, error: TCError) -> None:
        if not self._warned:
            self._warned = True
            warn(render("tune", TCError(f"{what}, as {error.cause}", repair=error.repair)))


def _shaped_call(problem: Problem) -> tuple[CanonicalCall, ShapedProgram]:
    """The call of a problem, and its program, shaped for the sizes of the call."""
    request = problem.request()
    shaped = shape_program(request.program, request.sizes)
    return canonical_call(request, shaped), shaped


def _insert(connection: Connection, measurement: Measurement, call: CanonicalCall) -> int:
    """Inserts a measurement and returns the number of new rows: 0 where the measurement is there
    already."""
    trial, base = measurement.trial, measurement.base
    row = {
        "problem": _problem(connection, measurement.problem, call),
        "device": _text(connection, as_json(measurement.device)),
        "versions": _text(connection, as_json(measurement.versions)),
        "base": None if base == Options() else _text(connection, base.to_json()),
        "options": _text(connection, trial.options.to_json()),
        "time": trial.time if trial.failure is None and trial.seconds else None,
        "confirmed": measurement.confirmed,
        "samples": as_json(trial.seconds),
        "failure": trial.failure,
        "at": measurement.at,
        "search": measurement.search,
        "seed": as_json(measurement.seed),
    }
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    done = connection.execute(f"INSERT OR IGNORE INTO trials ({names}) VALUES ({places})", row)
    return done.rowcount


def _problem(connection: Connection, problem: Problem, call: CanonicalCall) -> int:
    row = {
        "program": call.program,
        "backend": call.backend,
        "checked": call.check,
        "given": as_json(call.given),
        "scalars": as_json(call.scalars),
        "shapes": as_json(call.shapes),
        "strides": as_json(call.strides),
        "names": Names.of(problem.program()).to_json(),
    }
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection.execute(
        f"INSERT OR IGNORE INTO problems ({names}, problem) VALUES ({places}, :problem)",
        {**row, "problem": problem.to_json()},
    )
    same = " AND ".join(f"{name} = :{name}" for name in row)
    found = connection.execute(f"SELECT id FROM problems WHERE {same}", row)
    return number_of(found.fetchone())


def _text(connection: Connection, text: str) -> int:
    connection.execute("INSERT OR IGNORE INTO texts (text) VALUES (?)", (text,))
    return number_of(connection.execute("SELECT id FROM texts WHERE text = ?", (text,)).fetchone())


_PRUNE = """
    DELETE FROM trials WHERE (problem, device, ifnull(base, 0), options) NOT IN (
        SELECT problem, device, base, options FROM (
            SELECT problem, device, ifnull(base, 0) AS base, options, row_number() OVER (
                PARTITION BY problem, device, base
                ORDER BY max(confirmed) DESC, avg(time), options
            ) AS place, max(confirmed) AS is_confirmed
            FROM trials GROUP BY problem, device, base, options HAVING count(*) = count(time)
        ) WHERE place <= :keep OR is_confirmed
    )
"""

_UNUSED = (
    "DELETE FROM problems WHERE id NOT IN (SELECT problem FROM trials)",
    "DELETE FROM texts WHERE id NOT IN (SELECT device FROM trials UNION SELECT versions FROM trials"
    " UNION SELECT options FROM trials UNION SELECT base FROM trials WHERE base NOTNULL)",
)

_ALL = """
    SELECT problems.problem, options.text, samples, failure, device.text, versions.text, at,
        base.text, search, seed, confirmed, time, names, shapes, strides, trials.id
    FROM trials LEFT JOIN problems ON problems.id = trials.problem
    LEFT JOIN texts AS options ON options.id = trials.options
    LEFT JOIN texts AS base ON base.id = trials.base
    LEFT JOIN texts AS device ON device.id = trials.device
    LEFT JOIN texts AS versions ON versions.id = trials.versions
    ORDER BY trials.id
"""


def _readable(
    rows: Iterable[Sequence[Any]], passed_over: Callable[[TCError], None] | None
) -> Iterator[Measurement]:
    for row in rows:
        try:
            yield _measurement(row)
        except TCError as error:
            if passed_over is None:
                raise
            passed_over(error)


def _measurement(row: Sequence[Any]) -> Measurement:
    """The measurement of a row; TCError for a row of another form than tc writes."""
    problem, options, samples, failure, device, found, at, base, search, seed, confirmed, *_ = row
    for text, what in ((problem, "problem"), (options, "options"), (base or "{}", "base")):
        value_of(text, f'the text of "{what}"')
    values = {
        "seconds": value_of(samples, 'the text of "seconds"'),
        "failure": failure,
        "device": value_of(device, 'the text of "device"'),
        "versions": value_of(found, 'the text of "versions"'),
        "at": at,
        "search": search,
        "seed": value_of(seed, 'the text of "seed"'),
        "confirmed": _FLAGS.get(confirmed) if type(confirmed) is int else None,
    }
    check_measured(values)
    if not isinstance(values["device"], dict):  # its keys are those of its version
        raise InputError('"device" is an object')
    return Measurement(
        problem=Problem.from_json(problem),
        trial=Trial(
            Options.from_json(options),
            tuple(map(float, values.pop("seconds"))),
            values.pop("failure"),
        ),
        base=Options() if base is None else Options.from_json(base),
        **values,
    )


_FLAGS = {0: False, 1: True}


def _remove_damaged(connection: Connection) -> None:
    """Removes the trials that cannot be read, or not in order to find plans."""
    rows = connection.execute(_ALL).fetchall()
    for row in rows:
        seconds, names, shapes, strides, number = row[-5:]
        try:
            measurement = _measurement(row)
            program = measurement.problem.program()
            ranks = [program.tensors[name].rank for name in program.inputs]
            shapes_of(shapes, ranks)
            strides_of(strides, ranks)
            if not Names.from_json(names).are_like(Names.of(program)):
                raise InputError("names: they are not those of the program")
            if (seconds is None) != (measurement.trial.failure is not None) or (
                seconds is not None and not is_time(seconds)
            ):
                raise InputError("time: it is none")
        except TCError:
            connection.execute("DELETE FROM trials WHERE id = ?", (number,))
