"""One mistake: the text as written, the text as meant, and the repair that the error offers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erf, gamma

HEADER = (
    "float(N) x, float(N) y, float(N) p, float(N) q, int(N) n, int(N) m, float(N,M) A, "
    "float(M,K) B, float(N,M) C, float(M) v, float(M) x2, float(L) w, float s, int n2"
)


class Row(NamedTuple):
    """`intent` is an expression of numpy over `INPUTS` and the sizes, and `said` the repair that
    is offered. Where nothing is, `intent` is None and `said` the idiom or the advice."""

    written: str
    intent: str | None
    said: str

    @property
    def program(self) -> str:
        return f"def f({HEADER}) -> (o) {{\n  {self.written}\n}}"


def _matrix(rows: int, columns: int, factor: int) -> np.ndarray:
    """Whole numbers from -4 to 4, of which no row has its least or greatest twice."""
    values = np.arange(rows * columns).reshape(rows, columns) * factor % 9 - 4
    return values.astype(np.float32)


INPUTS = {
    "x": np.float32([0.5, -1.5, 2.0, -0.25, 1.5, 3.0]),
    "y": np.float32([1, -2, 0.5, 3, -1, 0.25]),
    "p": np.float32([0.5, 1.5, 2, 1, 3, 0.75]),
    "q": np.float32([np.nan, np.inf, -np.inf, 0, 1, -2]),
    "n": np.int32([3, 0, 5, 1, 2, 4]),
    "m": np.int32([-7, 5, -1, 3, 8, -4]),
    "A": _matrix(6, 4, 5),
    "B": _matrix(4, 3, 7),
    "C": _matrix(6, 4, 2),
    "v": np.float32([1, -2, 3, 0.5]),
    "x2": np.float32([1, 2, -3, 0.5]),
    "w": np.float32([2, -1]),
    "s": np.float32(1.5),
    "n2": 2,
}


def expected(intent: str) -> np.ndarray:
    """The value of an intent."""
    names = {**INPUTS, "N": 6, "M": 4, "K": 3, "L": 2, "np": np, "erf": erf, "gamma": gamma}
    with np.errstate(all="ignore"):
        return np.asarray(eval(intent, names))
