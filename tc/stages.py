"""The stages of the compiler, by name, in order: what `tc.explain` and `tc explain` can show."""

from __future__ import annotations

TITLES = {
    "ranges": "what was inferred",
    "rewrite": "the same with fewer operations",
    "scop": "statements as sets",
    "dependences": "what must stay in order",
    "schedule": "the order of instances",
    "plan": "what is done to it, as actions",
    "mapping": "tiles, vectors, registers, caches, threads",
    "loops": "the tree as a loop program",
    "passes": "what each pass made of it",
    "kernel": "the loop program as it is printed",
    "estimate": "how fast it can be",
    "source": "the code",
}
STAGES = tuple(TITLES)
