"""A search as a picture: each candidate a dot, and the best so far over time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tc.errors import BackendError, InputError
from tc.files import whole_file
from tc.process.uninterrupted import load
from tc.tuning.problem import Trial
from tc.tuning.tuner import TuningResult

_SIZE = (8.0, 4.5)  # inches
_DOTS = 150  # an inch
_SUFFIXES = (".pdf", ".png", ".svg")


def check_picture(path: Path) -> None:
    """BackendError without matplotlib, InputError for what is no place for a picture."""
    if path.suffix not in _SUFFIXES:
        named = path.with_suffix(".png").name
        raise InputError(
            f"{path}: pictures end in {', '.join(_SUFFIXES)}", repair=f"--plot {named}"
        )
    if not path.parent.is_dir():
        raise InputError(
            f"{path}: there is no directory {path.parent}", repair=f"--plot {path.name}"
        )
    try:
        load("matplotlib")
    except ImportError as error:
        raise BackendError(
            "a picture of a search needs matplotlib, which is not installed",
            repair="pip install matplotlib",
        ) from error


def draw(result: TuningResult, path: Path) -> None:
    """Writes the picture of a search; InputError where it cannot be written."""
    figure = load("matplotlib.figure").Figure(_SIZE, dpi=_DOTS, layout="constrained")
    axes = figure.add_subplot()
    pairs = list(zip(result.moments, result.trials, strict=True))
    ran = [(moment.seconds, 1e3 * t.time) for moment, t in pairs if t.failure is None]
    failed = [moment.seconds for moment, trial in pairs if trial.failure is not None]
    if ran:
        axes.plot(*zip(*ran, strict=True), ".", color="tab:blue", alpha=0.6, label="candidate")
    if failed:
        ends: Any = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(failed, [1.0] * len(failed), "x", color="tab:red", label="failed", **ends)
    if result.default.seconds:
        default = 1e3 * result.default.time
        axes.axhline(default, color="gray", linestyle="--", label=f"default, {default:.3g} ms")
    if result.best.seconds:
        axes.step(*_best_so_far(result), where="post", color="black", label=_label(result))
    axes.set(xlabel="seconds", ylabel="milliseconds of a call", yscale="log")
    axes.set_title(_title(result.problem.entry, result.trials, len(failed)))
    ticker = load("matplotlib.ticker")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(_plain))
    between = _plain if high < 10 * low else _twos_and_fives
    axes.yaxis.set_minor_formatter(ticker.FuncFormatter(between))
    axes.legend(loc="best", fontsize="small")
    try:
        with whole_file(path) as file:
            figure.savefig(file, format=path.suffix.removeprefix("."))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}", repair="--plot tuned.png"
        ) from error


def _best_so_far(result: TuningResult) -> tuple[list[float], list[float]]:
    """Seconds after the beginning, and the milliseconds of the best from then on."""
    times = [result.default.time, *(moment.best for moment in result.moments), result.best.time]
    moments = [0.0, *(moment.seconds for moment in result.moments)]
    return [*moments, moments[-1]], [1e3 * time for time in times]


def _label(result: TuningResult) -> str:
    if result.best.options == result.default.options:
        return "best: the default"
    return f"best, {1e3 * result.best.time:.3g} ms: {result.speedup:.2f} times as fast"


def _title(entry: str, trials: tuple[Trial, ...], failed: int) -> str:
    return f"{entry}: {len(trials)} candidates, {failed} failed"


def _plain(value: float, _place: int) -> str:
    return f"{value:.3g}" if math.isfinite(value) else ""


def _twos_and_fives(value: float, place: int) -> str:
    """A label for two of the nine lines of a decade, so that one decade has more than one.

    >>> [_twos_and_fives(value, 0) for value in (0.02, 0.03, 0.5, 60)]
    ['0.02', '', '0.5', '']
    """
    return _plain(value, place) if f"{value:e}"[0] in "25" else ""
