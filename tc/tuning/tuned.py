"""Options that say: search for a plan when new sizes are met, and remember it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tc.errors import BackendError, InputError
from tc.options import Options, options_from
from tc.process.uninterrupted import load


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
