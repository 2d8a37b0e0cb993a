"""Reports of a search: while it goes on, one line of a terminal (the best so far, the median, what
failed, how many candidates a second, and the time left); at its end, lines of what it has found;
and as a picture, each candidate a dot, and the best so far over time."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tc.errors import BackendError, InputError
from tc.files import whole_file
from tc.plan import shortened
from tc.process.uninterrupted import load
from tc.tuning.problem import Trial
from tc.tuning.tuner import Budget, Told, TuningResult

_MAX_REASONS = 6
_MAX_REASON_CHARACTERS = 110  # characters of a reason


def report(result: TuningResult) -> str:
    """The default, the best, and the candidates that failed, by reason."""
    return "\n".join(_lines(result))


def _lines(result: TuningResult) -> Iterator[str]:
    if not result.default.seconds:
        yield str(result)
        return
    yield f"default     {_timed(result.default.seconds)}"
    if result.best.options == result.default.options:
        yield "best        the default: no candidate was faster beyond noise"
    else:
        times = f"{result.speedup:.2f} times as fast"
        yield f"best        {_timed(result.best.seconds)}: {times}"
    ended = ", until it was interrupted" if result.interrupted else ""
    seconds = f" in {result.moments[-1].seconds:.1f} s" if result.moments else ""
    yield f"candidates  {len(result.trials)}{seconds}, {result.failed}{ended}"
    yield from failures(result)


def failures(result: TuningResult) -> Iterator[str]:
    """The reasons for which candidates failed, the most frequent first. Those whose first lines
    differ in numbers alone are one, told by the first."""
    told: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for trial in result.failures:
        reason = " ".join(str(trial.failure).split())
        kind = re.sub(r"-?\d[\d.e+-]*", "0", str(trial.failure).partition("\n")[0])
        counts[kind] += 1
        told.setdefault(kind, reason)
    ranked = counts.most_common()
    for kind, count in ranked[:_MAX_REASONS]:
        yield f"{count:>10}  {shortened(told[kind], _MAX_REASON_CHARACTERS)}"
    if others := sum(count for _, count in ranked[_MAX_REASONS:]):
        yield f"{others:>10}  for other reasons"


def _timed(seconds: tuple[float, ...]) -> str:
    """The median, and the range around it.

    >>> _timed((0.001, 0.002, 0.009))
    '2 ms (1 ms to 9 ms)'
    """
    ordered = sorted(seconds)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return f"{milliseconds(middle)} ({milliseconds(ordered[0])} to {milliseconds(ordered[-1])})"


_LINE_SECONDS = 5.0
"""Seconds between plain lines."""

_BAR_CHARACTERS = 24


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.00123456), milliseconds(12.0), milliseconds(float("inf"))
    ('1.23 ms', '1.2e+04 ms', 'none')
    """
    return f"{1e3 * seconds:.3g} ms" if seconds < math.inf else "none"


@dataclass
class Standing:
    """The result of a search within `budget` so far, since the time `begin`."""

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    found: TuningResult | None = None
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.clock()

    @property
    def share(self) -> float:
        """The part of the budget that is spent, from 0 to 1."""
        spent = (self.clock() - self.begin) / self.budget.seconds
        return min(max(spent, self._tried / self.budget.candidates), 1.0)

    def __str__(self) -> str:
        if self.found is None:
            return "measuring what tc chooses itself"
        words = [f"best {milliseconds(self.found.best.time)} ({self.found.speedup:.2f} x)"]
        words += [f"median {milliseconds(self.found.median)}"]
        words += [f"{self._tried} tried, {len(self.found.failures)} failed"]
        if self._tried:
            words.append(f"{self._rate:.2g}/s")
        return ", ".join([*words, self._left()])

    @property
    def _tried(self) -> int:
        return 0 if self.found is None else len(self.found.trials)

    @property
    def _rate(self) -> float:
        return self._tried / max(self.clock() - self.begin, 1e-9)

    def _left(self) -> str:
        left = self.budget.seconds - (self.clock() - self.begin)
        if self._tried:
            left = min(left, (self.budget.candidates - self._tried) / self._rate)
        if left == math.inf:
            return f"{self.budget.candidates:g} in all"
        minutes, seconds = divmod(math.ceil(max(left, 0)), 60)
        return f"{minutes}:{seconds:02} left"


def progress(
    budget: Budget, shown: bool | None = None, stream: TextIO | None = None
) -> AbstractContextManager[Told]:
    """What a search is told to call, which shows how it stands on the standard error; `shown`: None
    does so on a terminal. A bar where `rich` is installed, else lines."""
    stream = stream or sys.stderr
    if not (bool(getattr(stream, "isatty", bool)()) if shown is None else shown):
        return contextlib.nullcontext(lambda _: None)
    standing = Standing(budget)
    try:
        load("rich.live")
    except ImportError:
        return _table_lines(standing, stream)
    return _bar(standing, stream)


@contextlib.contextmanager
def _table_lines(standing: Standing, stream: TextIO) -> Iterator[Told]:
    last = -math.inf
    best = None

    def told(found: TuningResult) -> None:
        nonlocal last, best
        standing.found = found
        now = standing.clock()
        if now - last >= _LINE_SECONDS or found.best.options != best:
            last, best = now, found.best.options
            print(f"tune: {standing}", file=stream, flush=True)

    print(f"tune: {standing}", file=stream, flush=True)
    yield told


class _Line:
    """A bar and words, as rich asks for them again and again."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing

    def __rich__(self) -> object:
        bars, tables, texts = (load(f"rich.{name}") for name in ("progress_bar", "table", "text"))
        line = tables.Table.grid(padding=(0, 1))
        bar = bars.ProgressBar(total=1.0, completed=self.standing.share, width=_BAR_CHARACTERS)
        line.add_row(bar, texts.Text(str(self.standing)))
        return line


@contextlib.contextmanager
def _bar(standing: Standing, stream: TextIO) -> Iterator[Told]:
    def told(found: TuningResult) -> None:
        standing.found = found

    console = load("rich.console").Console(file=stream)
    with load("rich.live").Live(_Line(standing), console=console, transient=True):
        yield told


_PICTURE_INCHES = (8.0, 4.5)  # inches
_DOTS_PER_INCH = 150  # an inch
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
    figure = load("matplotlib.figure").Figure(
        _PICTURE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained"
    )
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
