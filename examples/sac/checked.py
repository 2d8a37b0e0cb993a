"""What all examples of SaC do: check a function against numpy at several shapes, and time both."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tc.sac

sys.path.append(str(Path(__file__).parents[1]))
from report import best, largest, widened

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
