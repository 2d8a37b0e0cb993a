"""The texts of tc that stand for programs of the suites, a file of defs for each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tc

TEXTS = Path(__file__).parent / "texts"

Make = Callable[[str, str], Any]
"""Makes a function of a text and the name of a def."""


def compiled(text: str, entry: str) -> Any:
    return tc.compile(text, entry=entry)


class Functions:
    """The defs of a file as attributes; each is made when it is first asked for.

    >>> Functions("npbench", "mvt").mvt
    <tc mvt(float64(N) y1, float64(N) y2, float64(N, N) A) -> (x1, x2), backend numba>
    """

    def __init__(self, suite: str, name: str, make: Make = compiled) -> None:
        self._text = (TEXTS / suite / f"{name}.tc").read_text(encoding="utf-8")
        self._make = make

    def __getattr__(self, entry: str) -> Any:
        function = self._make(self._text, entry)
        setattr(self, entry, function)
        return function


class Compared:
    """Makes functions whose first calls are compared with the interpreter under `tc.error_bound`,
    and counts the elements that are beyond."""

    CALLS = 2

    def __init__(self) -> None:
        self.beyond = 0

    def __call__(self, text: str, entry: str) -> Callable[..., Any]:
        function = tc.compile(text, entry=entry)
        left = self.CALLS

        def call(*inputs: Any, outputs: Any = None) -> Any:
            nonlocal left
            given = {} if outputs is None else {"outputs": outputs}
            if left <= 0:
                return function(*inputs, **given)
            left -= 1
            wanted = tc.interpret(text, *copy.deepcopy(inputs), entry=entry, **copy.deepcopy(given))
            bound = tc.error_bound(
                text, *copy.deepcopy(inputs), entry=entry, **copy.deepcopy(given)
            )
            found = function(*inputs, **given)
            self.beyond += elements_beyond(found, wanted, bound)
            return found

        return call


def elements_beyond(found: Any, wanted: Any, bound: Any) -> int:
    """How many elements of results are further from the wanted ones than the bound; of the same
    NaN and the same infinities none.

    >>> elements_beyond(np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, np.nan]), 0.1)
    1
    """
    if isinstance(wanted, tuple):
        triples = zip(found, wanted, bound, strict=True)
        return sum(elements_beyond(*triple) for triple in triples)
    found, wanted = np.asarray(found), np.asarray(wanted)
    with np.errstate(invalid="ignore"):
        near = abs(found.astype(np.float64) - wanted.astype(np.float64)) <= bound
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return int(np.count_nonzero(~(near | same)))
