"""The stages of the compiler, by name, in order: what `tc.explain` and `tc explain` can show, and
the time that each takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TITLES = {
    "ranges": "what was inferred",
    "rewrite": "the program with fewer operations",
    "scop": "statements as sets",
    "dependences": "what must stay in order",
    "schedule": "the order of instances",
    "plan": "what is done to the loops, as actions",
    "mapping": "tiles, vectors, registers, caches, threads",
    "loops": "the tree as a loop program",
    "passes": "what each pass made of the loop program",
    "kernel": "the loop program as it is printed",
    "estimate": "how fast the program can be",
    "source": "the code",
}
STAGES = tuple(TITLES)

SIZES = "sizes"
"""The stage that a function of dynamic sizes has behind the ranges."""

TITLES_OF_SIZES = {SIZES: "which sizes the code serves"}

SAC_TITLES = {
    "levels": "what of each input a result needs",
    "bounds": "the range of each index, and why",
    "desugared": "the program with with-loops only",
    "def": "the def of tc for these inputs",
}
SAC_STAGES = tuple(SAC_TITLES)
"""What `tc.sac.explain` shows before the stages of the compiler."""


class Stopwatch:
    """Runs stages, and notes the `seconds` that they took, by their names."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, run: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = run()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        return result
