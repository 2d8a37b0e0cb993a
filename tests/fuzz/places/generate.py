"""Programs whose statements have places, conditions, dependent and ragged ranges, and several
targets, drawn in all combinations, with inputs and with what the rules say of them.

All ranges and shapes are decided first, and the text is written so that range inference has to
find them. Whether the program is an error, and which, is not decided here: `brute_force` says it.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import tc
from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.places.brute_force import execute, types_of
from tests.fuzz.places.draft import Array, Draft, Redraw
from tests.fuzz.places.draw_domains import Forced
from tests.fuzz.places.draw_statements import StatementDraft
from tests.fuzz.places.outcomes import READINGS, Open, Outcome, Reading
from tests.fuzz.places.outline import SPELLED, Outline, lines_of, with_default


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


def case(
    seed: int, number: int, opened: Callable[[str], None] = lambda _: None, calls: bool = True
) -> Case:
    """Case `number` of a sequence; `opened` is told of each draft that the rules leave open.
    Without `calls` the text is one def, and all inputs are given."""
    for attempt in itertools.count():
        try:
            return drawn(random.Random(f"{seed}/{number}/{attempt}"), calls)
        except Redraw:
            continue
        except Open as why:
            opened(str(why))
        except tc.ParseError as error:  # of a float, x ^ 2 can only be meant as a power
            opened(f"T4: {error.cause}")
    raise AssertionError


def drawn(rng: random.Random, calls: bool) -> Case:
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
    return settled(draft, calls)


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


def settled(draft: Draft, calls: bool) -> Case:
    rng = draft.rng
    if calls:
        draft.params = [
            with_default(p, rng) if not p.dims and draft.chance(0.4) else p for p in draft.params
        ]
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
    inputs = {p.name: p.array for p in draft.params if not p.default or draft.chance(0.5)}
    plain = text_of(draft, draft.statements, returned, draft.fixed)
    types = types_of(parse(Source(plain)).defs, inputs, draft.ranges)
    initial: dict[str, Array] = {}
    continues = {n for n in returned if draft.chance(0.2)}
    for name in returned:
        if name in draft.needs_initial or name in continues:
            shape = draft.tensors[name].shape
            flat = [rng.randint(0, 3) for _ in range(int(np.prod(shape)))]
            if types[name] == "bool":
                flat = [x % 2 for x in flat]
            initial[name] = np.array(flat, types[name]).reshape(shape)
    outline = Outline(
        rng, draft.params, draft.sizes, {n: t.shape for n, t in draft.tensors.items()}, types,
        set(draft.fixed), list(returned), {*draft.needs_initial, *draft.declared},
        lines_of(plain, draft.statements, draft.ranges),
    )  # fmt: skip
    if calls and draft.chance(0.3):
        found = [outline.draw() for _ in range(rng.choice((1, 2, 3)))]
        draft.features |= {"call"} if any(found) else set()
    if any(p.default for p in draft.params) or "= -" in "".join(outline.defs):
        draft.features.add("default")
    declared = {n: types[n] for n in returned if n in draft.declared}
    entry = text_of(draft, [line.text for line in outline.lines], outline.kept, declared)
    texts = [*outline.defs, entry]
    rng.shuffle(texts)
    text = "\n".join(texts)
    ranges = [dict(r) for line in outline.lines for r in line.ranges]
    outcomes = outcomes_of(text, inputs, ranges, initial)
    return Case(text, inputs, initial, tuple(ranges), outcomes, frozenset(draft.features))


def outcomes_of(
    text: str,
    inputs: Mapping[str, Array],
    ranges: Sequence[Mapping[str, tuple[int, int]]],
    initial: Mapping[str, Array],
) -> tuple[tuple[Reading, Outcome], ...]:
    """What the readings of the rules give, each outcome once."""
    defs = parse(Source(text)).defs
    found: list[tuple[Reading, Outcome]] = []
    for reading in READINGS:
        if any(
            all(getattr(reading, n) == getattr(other, n) for n in outcome.decided_by)
            for other, outcome in found
        ):
            continue
        outcome = execute(defs, inputs, ranges, initial, reading)
        if not any(same(outcome, other) for _, other in found):
            found.append((reading, outcome))
    return tuple(found)


def same(a: Outcome, b: Outcome) -> bool:
    if a.arrays is None or b.arrays is None:
        return a.arrays is b.arrays and a.classes == b.classes
    return all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for x, y in zip(a.arrays.values(), b.arrays.values(), strict=True)
    )


def text_of(
    draft: Draft, statements: Sequence[str], returned: Sequence[str], declared: Mapping[str, str]
) -> str:
    params = ", ".join(p.text for p in draft.params)
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
    body = "\n".join(f"  {s}" for s in statements)
    return f"def f({params}) -> ({', '.join(results)}) {{\n{body}\n}}"
