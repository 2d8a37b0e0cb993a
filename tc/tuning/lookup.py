"""Plans that were tuned before, found again where a program is compiled for new sizes.

The tuning database is looked at once for each specialisation: plans for just such a call come
first, then those of the nearest sizes, and then the chooser, as ever. A plan from there is one as a
user gives it: it is checked in the same way, and one that cannot be done is passed over. Where
there is no database, nothing of it is loaded.

`TunedOptions` are options that say: search for a plan when new sizes are met, and remember it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tc.device import Device
from tc.errors import BackendError, InputError, TCError, is_strict, render
from tc.gpu import Gpu
from tc.options import Options, options_from
from tc.pipeline import StageResult
from tc.process.call_sites import warn
from tc.process.uninterrupted import load
from tc.runtime.fallback import Request, is_fault
from tc.semantics.program import ShapedProgram
from tc.tuning import database_file
from tc.tuning.database_file import default_path, reading

if TYPE_CHECKING:
    from tc.tuning.known_plans import StoredPlan

T = TypeVar("T")

VARIABLE = "TC_TUNE"
"""The environment variable that turns lookup off, by 0."""

PATIENCE_SECONDS = 1.0
"""Seconds to wait for another process that has locked the file."""

MAX_PLANS = 3
"""The number of plans that are tried: each plan that cannot be done costs time."""

_WARNED: set[Path] = set()
"""The files of which a warning has said that they cannot be read."""


def is_on() -> bool:
    """Whether plans are looked up."""
    return os.environ.get(VARIABLE) != "0"


def with_tuned_plan(
    make: Callable[[Options], T],
    request: Request,
    shaped: ShapedProgram,
    device: Device | Gpu,
    *,
    database: Path | None = None,
) -> StageResult[T]:
    """What `make` makes with the first plan of the database that can be done, or with the options
    of the request, whose own plan goes first. Errors are those of `make` for these options."""
    told: list[str] = []
    path = _file(request, database)
    if path is not None:
        for found in _known(path, request, shaped, device, told):
            if found.options is not None and found.options.plan is None:
                told.append(f"From {path}: {found.why}.")
                break
            try:
                if found.options is None:
                    raise BackendError(found.fault)
                options = _within(found.options, request.options, device)
                value = make(options)
            except Exception as error:
                if not isinstance(error, BackendError) and (is_strict() or not is_fault(error)):
                    raise
                cause = error.cause if isinstance(error, TCError) else repr(error)
                told.append(f"Passed over in {path}: {found.why}. It cannot be done: {cause}")
                continue
            return StageResult(value, options, (*told, f"From {path}: {found.why}."))
    return StageResult(make(request.options), request.options, tuple(told))


def _within(options: Options, own: Options, device: Device | Gpu) -> Options:
    """Options of the database with no more threads than the caller's own have."""
    most = load("tc.tuning.machines").base_of(own, device).threads
    threads = options.threads
    if threads is None or (most is not None and threads > most):
        threads = own.threads
    return replace(options, threads=threads)


def is_tuned(
    request: Request, shaped: ShapedProgram, device: Device | Gpu, database: Path | None
) -> bool:
    """Whether a search for just such a call has ended."""
    path = _file(request, database)
    return path is not None and any(
        found.is_exact for found in _known(path, request, shaped, device, [])
    )


def _file(request: Request, database: Path | None) -> Path | None:
    """The file to look at, if there is one that may be read and nothing says otherwise."""
    if request.options.plan is not None or not is_on():
        return None
    path = database or default_path()
    return path if path is not None and os.path.exists(path) else None


def _known(
    path: Path, request: Request, shaped: ShapedProgram, device: Device | Gpu, told: list[str]
) -> Iterator[StoredPlan]:
    """The plans to try. A file that cannot be read has none, and what cannot be read in one is
    passed over: a TCWarning says so, once for each file."""
    known_plans, machines = load("tc.tuning.known_plans"), load("tc.tuning.machines")
    call = load("tc.tuning.canonical").canonical_call(request, shaped)

    def pass_over(error: InputError) -> None:
        told.append(f"Passed over in {path}: what cannot be read ({error.cause}).")
        _warn("plans that were tuned are passed over", path, database_file.damage_of(path, error))

    try:
        key = machines.PlanKey.of(call, device, request.options)
        with reading(path, patience=PATIENCE_SECONDS) as connection:
            found = known_plans.known_plans(
                connection, key, pass_over, most=MAX_PLANS, confirmed_only=True
            )
    except InputError as error:
        told.append(f"Nothing is looked up in the tuning database: {error.cause}.")
        _warn("plans that were tuned are not looked up", path, error)
        return iter(())
    plans: Iterator[StoredPlan] = known_plans.stored_plans(found, shaped, pass_over)
    return plans


def _warn(what: str, path: Path, error: InputError) -> None:
    if path not in _WARNED:
        _WARNED.add(path)
        warn(render("tune", TCError(f"{what}, as {error.cause}", repair=error.repair)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedOptions:
    """What `tc.tuned` gives: how a function searches at the first call with new sizes; `options` is
    what its candidates have in common."""

    options: Options
    search: str
    seed: int
    budget: tuple[float | None, int | None]
    database: Path | None

    def search_for(self, problem: Any, backend: Any) -> Any:
        """The result of a search, which is kept. TCError where there can be none."""
        tuner = load("tc.tuning.tuner")
        database = tuner.TuningDatabase(self.database)
        database.check()
        seconds, candidates = self.budget
        return tuner.tune(
            problem,
            backend,
            base=self.options,
            search=self.search,
            seed=self.seed,
            budget=tuner.Budget(max_seconds=seconds, max_candidates=candidates),
            database=database,
        )


def tuned(
    *,
    max_seconds: float | None = 60.0,
    max_candidates: int | None = None,
    search: str = "guided",
    seed: int = 0,
    options: Options | None = None,
    database: str | os.PathLike[str] | None = None,
) -> TunedOptions:
    """Options for `tc.compile` and `tc.define`: a function tunes itself.

    At the first call with new sizes the function asks the tuning database; where no search for
    these sizes has ended, `tc.autotune` runs with this budget, on drawn values, and its result is
    kept for this process and all later ones. Ctrl-C ends the search, keeps the trials, and raises
    KeyboardInterrupt. With `TC_TUNE=0` nothing is looked up, and nothing tuned. Raises InputError
    for a wrong budget, BackendError for unknown searches, and for options that have a plan already.

    >>> import tc
    >>> tc.compile("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", options=tc.tuned(max_seconds=5))
    <tc f(float32(N) x) -> (y), backend numba>
    >>> tc.tuned(search="annealing")
    Traceback (most recent call last):
    tc.errors.BackendError: BackendError: no search 'annealing'; there are 'genetic', 'guided', ...
    repair: search="guided"
    """
    tuner = load("tc.tuning.tuner")
    tuner.Budget(max_seconds=max_seconds, max_candidates=max_candidates)
    tuner.check_search(search)
    tuner.check_seed(seed)
    path, own = database_path(database), options_from(options)
    if own.plan is not None:
        raise BackendError("options= has a plan already: tuning looks for one", repair="plan=None")
    return TunedOptions(
        options=own,
        search=search,
        seed=seed,
        budget=(max_seconds, max_candidates),
        database=None if path is None else path.absolute(),
    )


def database_path(database: object) -> Path | None:
    """The file that a `database=` names, None for the user's; InputError for what names none."""
    if database is None:
        return None
    if not isinstance(database, str | os.PathLike) or not os.fspath(database):
        raise InputError(
            f"database={database!r}: it is the path of a file, or None",
            repair='database="tuned.db"',
        )
    return Path(database)
