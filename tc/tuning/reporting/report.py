"""What a search has found, in lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tc.tuning.reporting.progress import milliseconds
from tc.tuning.tuner import TuningResult

_REASONS = 6
_MAX_CHARACTERS = 110  # characters of a reason


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
    for kind, count in ranked[:_REASONS]:
        yield f"{count:>10}  {_short(told[kind])}"
    if others := sum(count for _, count in ranked[_REASONS:]):
        yield f"{others:>10}  for other reasons"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."


def _timed(seconds: tuple[float, ...]) -> str:
    """The median, and the range around it.

    >>> _timed((0.001, 0.002, 0.009))
    '2 ms (1 ms to 9 ms)'
    """
    ordered = sorted(seconds)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return f"{milliseconds(middle)} ({milliseconds(ordered[0])} to {milliseconds(ordered[-1])})"
