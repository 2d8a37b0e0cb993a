"""What all examples of SaC do: check a function against numpy at several shapes, and time both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tc.sac

Call = Callable[..., Any]


def text_beside(script: str) -> str:
    """The text of SaC that stands beside a script."""
    return Path(script).with_suffix(".sac").read_text(encoding="utf-8")


def check(text: str, entry: str, cases: Iterable[Sequence[Any]], with_numpy: Call) -> None:
    """Compares a function with numpy in double precision, under the program's own error bound, for
    the inputs of each case; raises SystemExit where an error is beyond its bound."""
    function = tc.sac.compile(text, entry=entry)
    part = 0.0
    for given in cases:
        results = several(function(*given))
        exact = several(with_numpy(*map(widened, given)))
        bounds = several(tc.sac.error_bound(text, *given, entry=entry))
        for result, want, bound in zip(results, exact, bounds, strict=True):
            error = np.abs(np.asarray(result, np.float64) - want)
            if result.shape != want.shape or not (error <= bound).all():
                raise SystemExit(f"{entry}: an error of {error.max():.3g} is beyond the bound")
            part = max(part, largest(error, np.asarray(bound)))
    print(f"{entry}: right, the largest error is {part:.2g} of its bound")


def compare_times(title: str, own: Call, others: dict[str, Call]) -> None:
    """Prints how long a call takes beside others; the least of a few calls of each counts."""
    mine = best(own)
    for name, other in others.items():
        theirs = best(other)
        print(
            f"{title}: tc {1e3 * mine:.3g} ms, {name} {1e3 * theirs:.3g} ms: "
            f"{theirs / mine:.1f} times as fast"
        )


def several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def widened(value: Any) -> Any:
    """Floats in double precision; integers as they are."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_float else value


def largest(error: np.ndarray, bound: np.ndarray) -> float:
    """The largest part of its bound that an error takes; 0 where all is exact."""
    parts = np.divide(error, bound, out=np.zeros_like(error), where=bound > 0)
    return float(parts.max(initial=0.0))


def best(call: Call, rounds: int = 5) -> float:
    """The least seconds of a few calls, after one that may compile."""
    call()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
