"""What all examples do: check a program against numpy, and time both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tc


def compare(
    title: str,
    text: str,
    inputs: Callable[[int], Sequence[Any]],
    with_numpy: Callable[..., Any],
    *,
    small: int,
    large: int,
) -> None:
    """Checks at the small size against numpy in double precision, under the program's own error
    bound; times at the large one, where numpy has the same types as tc."""
    function = tc.compile(text)
    given = inputs(small)
    exact = with_numpy(*(widened(a) for a in given))
    bound = tc.error_bound(text, given)
    error = np.abs(np.asarray(function(*given), np.float64) - exact)
    if not (error <= bound).all():
        raise SystemExit(f"{title}: an error of {error.max():.3g} is beyond the bound")
    given = inputs(large)
    own, other = best(lambda: function(*given)), best(lambda: with_numpy(*given))
    print(title)
    print(f"  right: the largest error is {largest(error, bound):.2g} of its bound")
    print(f"  tc {1e3 * own:.3g} ms, numpy {1e3 * other:.3g} ms: {other / own:.1f} times as fast")


def widened(value: Any) -> Any:
    """Floats in double precision; integers as they are, as they may be places."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_float else value


def largest(error: np.ndarray, bound: np.ndarray) -> float:
    """The largest part of its bound that an error takes; 0 where all is exact."""
    parts = np.divide(error, bound, out=np.zeros_like(error), where=bound > 0)
    return float(parts.max(initial=0.0))


def best(call: Callable[[], Any], rounds: int = 5) -> float:
    """The least seconds of a few calls, after one that may compile."""
    call()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
