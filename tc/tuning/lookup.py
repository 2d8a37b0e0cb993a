"""Plans that were tuned before, found again where a program is compiled for new sizes.

The tuning database is looked at once for each specialisation: plans for just such a call come
first, then those of the nearest sizes, and then the chooser, as ever. A plan from there is one as a
user gives it: it is checked in the same way, and one that cannot be done is passed over. Where
there is no database, nothing of it is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tc.device import Device
from tc.errors import BackendError, InputError, TCError, is_strict, render
from tc.gpu import Gpu
from tc.options import Options
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
