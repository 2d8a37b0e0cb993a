"""A search under way, as one line of a terminal: the best so far, the median, what failed, how many
candidates a second, and the time left."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TextIO

from tc.process.uninterrupted import load
from tc.tuning.tuner import Budget, Told, TuningResult

_PLAIN = 5.0
"""Seconds between plain lines."""

_WIDTH = 24


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
        return _lines(standing, stream)
    return _bar(standing, stream)


@contextlib.contextmanager
def _lines(standing: Standing, stream: TextIO) -> Iterator[Told]:
    last = -math.inf
    best = None

    def told(found: TuningResult) -> None:
        nonlocal last, best
        standing.found = found
        now = standing.clock()
        if now - last >= _PLAIN or found.best.options != best:
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
        bar = bars.ProgressBar(total=1.0, completed=self.standing.share, width=_WIDTH)
        line.add_row(bar, texts.Text(str(self.standing)))
        return line


@contextlib.contextmanager
def _bar(standing: Standing, stream: TextIO) -> Iterator[Told]:
    def told(found: TuningResult) -> None:
        standing.found = found

    console = load("rich.console").Console(file=stream)
    with load("rich.live").Live(_Line(standing), console=console, transient=True):
        yield told
