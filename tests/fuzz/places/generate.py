"""Programs whose statements have places, conditions, dependent and ragged ranges, and several
targets, drawn in all combinations, with inputs and with what the rules say of them.

All ranges and shapes are decided first, and the text is written so that range inference has to
find them. Whether the program is an error, and which, is not decided here: `brute_force` says it.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.places.brute_force import execute, types_of
from tests.fuzz.places.draft import Array, Draft, Redraw
from tests.fuzz.places.draw_domains import Forced
from tests.fuzz.places.draw_statements import StatementDraft
from tests.fuzz.places.outcomes import READINGS, Open, Outcome, Reading


@dataclass(frozen=True)
class Case:
    """A program, a call of it, and what the rules say: an outcome for each reading of them."""

    text: str
    inputs: dict[str, Array]
    initial: dict[str, Array]
    ranges: tuple[dict[str, tuple[int, int]], ...]
    outcomes: tuple[tuple[Reading, Outcome], ...]
    features: frozenset[str]


# --- a case -----------------------------------------------------------------------------------


def case(seed: int, number: int, opened: Callable[[str], None] = lambda _: None) -> Case:
    """Case `number` of a sequence; `opened` is told of each draft that the rules leave open."""
    for attempt in itertools.count():
        try:
            return drawn(random.Random(f"{seed}/{number}/{attempt}"))
        except Redraw:
            continue
        except Open as why:
            opened(str(why))
    raise AssertionError


def drawn(rng: random.Random) -> Case:
    draft = Draft(rng)
    lefts: list[Forced | None] = [None] * rng.choice((1, 1, 1, 2, 2, 3))
    if draft.chance(0.4):
        lefts = [*first_lefts(rng), None][: max(2, len(lefts))]
    for forced in lefts:
        kept = draft.snapshot()
        for attempt in range(30):
            try:
                if forced is not None and draft.statements:
                    name = draft.statements[-1].partition(" ")[0].partition("(")[0]
                    forced = replace(forced, targets=(name,))
                StatementDraft(draft, forced).build()
                break
            except Redraw:
                draft.restore(kept)
                kept = draft.snapshot()
                if attempt == 29:
                    raise
    return settled(draft)


def first_lefts(rng: random.Random) -> list[Forced]:
    """Left sides of first statements: of one that fills a tensor of some size, or of two that
    write slices of one (S8)."""
    n, m = rng.choice((1, 2, 3, 5, 7)), rng.choice((2, 3, 5))
    form = rng.choice((0, 0, 0, 1, 2, 3))
    if form == 0:
        rank = rng.choice((1, 1, 2))
        spans = tuple(zip("ij", (0, 0), (rng.choice((5, 7)), m), strict=True))[:rank]
        return [Forced(tuple("ij"[:rank]), spans, slices=True)]
    if form == 1:
        cut = rng.randint(0, n)
        return [
            Forced(("i",), (("i", 0, cut),), slices=True),
            Forced(("i",), (("i", cut, n),), slices=True),
        ]
    places = [str(c) for c in rng.sample(range(4), 2)]
    if form == 2:
        return [Forced((c, "i"), (("i", 0, n),)) for c in places]
    return [Forced(("i", c), (("i", 0, n),)) for c in places]


def settled(draft: Draft) -> Case:
    rng = draft.rng
    outputs = [n for n, t in draft.tensors.items() if not t.is_input]
    last = draft.statements[-1]
    returned = [
        n
        for n in outputs
        if draft.chance(0.8)
        or n in draft.needs_initial
        or n in draft.declared
        or re.match(rf"{n}\b", last)
    ]
    inputs = {p.name: p.array for p in draft.params}
    plain = text_of(draft, returned, draft.fixed)
    types = types_of(parse(Source(plain)).defs, inputs, draft.ranges)
    text = text_of(draft, returned, {n: types[n] for n in returned if n in draft.declared})
    defs = parse(Source(text)).defs
    initial: dict[str, Array] = {}
    continues = {n for n in returned if draft.chance(0.2)}
    for name in returned:
        if name in draft.needs_initial or name in continues:
            shape = draft.tensors[name].shape
            flat = [rng.randint(0, 3) for _ in range(int(np.prod(shape)))]
            if types[name] == "bool":
                flat = [x % 2 for x in flat]
            initial[name] = np.array(flat, types[name]).reshape(shape)
    outcomes: list[tuple[Reading, Outcome]] = []
    for reading in READINGS:
        if any(
            all(getattr(reading, n) == getattr(other, n) for n in outcome.decided_by)
            for other, outcome in outcomes
        ):
            continue
        outcome = execute(defs, inputs, draft.ranges, initial, reading)
        if not any(same(outcome, other) for _, other in outcomes):
            outcomes.append((reading, outcome))
    return Case(
        text, inputs, initial, tuple(draft.ranges), tuple(outcomes), frozenset(draft.features)
    )


def same(a: Outcome, b: Outcome) -> bool:
    if a.arrays is None or b.arrays is None:
        return a.arrays is b.arrays and a.classes == b.classes
    return all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for x, y in zip(a.arrays.values(), b.arrays.values(), strict=True)
    )


SPELLED = {"float32": "float", "float64": "double", "int32": "int"}


def text_of(draft: Draft, returned: list[str], declared: Mapping[str, str]) -> str:
    params = ", ".join(
        f"{p.type}({', '.join(p.dims)}) {p.name}" if p.dims else f"{p.type} {p.name}"
        for p in draft.params
    )
    results = []
    for name in returned:
        if name not in declared:
            results.append(name)
            continue
        shape = draft.tensors[name].shape
        dims = ", ".join(
            next((n for n, value in draft.sizes.items() if value == size), str(size))
            for size in shape
        )
        spelled = SPELLED.get(declared[name], declared[name])
        results.append(f"{spelled}({dims}) {name}" if shape else f"{spelled} {name}")
    body = "\n".join(f"  {s}" for s in draft.statements)
    return f"def f({params}) -> ({', '.join(results)}) {{\n{body}\n}}"
