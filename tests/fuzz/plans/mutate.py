"""Plans with something changed: an action dropped, repeated, moved, or one of its numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tc.plan import AXES, SCATTERS, Action, Part, Plan
from tests.fuzz.plans.draw import Drawer

FACTORS = (1, 2, 3, 4, 5, 8, 16, 32)

Change = Callable[[random.Random, "list[Part]", Drawer], None]


def mutated(rng: random.Random, plan: Plan, drawer: Drawer) -> Plan:
    """A plan after one to three changes; the plan of which it comes has a part."""
    parts = list(plan.parts)
    changes = dict(_CHANGES)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        if parts:
            rng.choices(list(changes), list(changes.values()))[0](rng, parts, drawer)
    return Plan(tuple(parts))


def _pick(rng: random.Random, parts: list[Part]) -> tuple[int, list[Action], int] | None:
    """A part that has actions, these, and the place of one."""
    having = [n for n, part in enumerate(parts) if part.actions]
    if not having:
        return None
    number = rng.choice(having)
    actions = list(parts[number].actions)
    return number, actions, rng.randrange(len(actions))


def _put(parts: list[Part], number: int, actions: list[Action]) -> None:
    parts[number] = replace(parts[number], actions=tuple(actions))


def _drop(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        del actions[at]
        _put(parts, number, actions)


def _drop_tail(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        _put(parts, number, actions[:at])


def _duplicate(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        actions.insert(rng.randint(0, len(actions)), actions[at])
        _put(parts, number, actions)


def _swap(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        other = rng.randrange(len(actions))
        actions[at], actions[other] = actions[other], actions[at]
        _put(parts, number, actions)


def _field(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        actions[at] = _changed(rng, actions[at], actions, drawer)
        _put(parts, number, actions)


def _insert(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:
    """New actions, drawn from the tree as it is there."""
    number = rng.randrange(len(parts))
    actions = parts[number].actions
    at = rng.choice((len(actions), rng.randint(0, len(actions))))
    place = _place(parts, number, drawer)
    if place is not None:
        new = drawer.actions(*place, actions[:at], most=3)
        _put(parts, number, [*actions[:at], *new, *actions[at:]])


def _place(parts: list[Part], number: int, drawer: Drawer) -> tuple[int, int] | None:
    """Where the nodes of a part begin, and how many they are."""
    from tc.polyhedral.schedule import leaves

    statements = list(parts[number].statements)
    for first in range(len(drawer.nodes)):
        for several in range(1, len(drawer.nodes) - first + 1):
            group = drawer.nodes[first : first + several]
            if [n for node in group for n in leaves(node)] == statements:
                return first, several
    return None


def _move(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    """An action goes to another part."""
    found = _pick(rng, parts)
    if found:
        number, actions, at = found
        action = actions.pop(at)
        _put(parts, number, actions)
        other = rng.randrange(len(parts))
        there = list(parts[other].actions)
        there.insert(rng.randint(0, len(there)), action)
        _put(parts, other, there)


def _merge(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    """Neighbouring parts become one."""
    if len(parts) > 1:
        at = rng.randrange(len(parts) - 1)
        first, second = parts[at : at + 2]
        actions = (*first.actions, *second.actions)
        parts[at : at + 2] = [Part((*first.statements, *second.statements), actions)]


def _leave_out(rng: random.Random, parts: list[Part], drawer: Drawer) -> None:  # noqa: ARG001
    del parts[rng.randrange(len(parts))]


_CHANGES: dict[Change, int] = {
    _drop: 6,
    _drop_tail: 2,
    _duplicate: 2,
    _swap: 3,
    _field: 10,
    _insert: 8,
    _move: 1,
    _merge: 2,
    _leave_out: 1,
}


# --- fields -------------------------------------------------------------------------------------


def _changed(rng: random.Random, action: Action, others: list[Action], drawer: Drawer) -> Action:
    """An action with another value in one field."""
    name = rng.choice([f.name for f in fields(action)])
    old = getattr(action, name)
    new: Any = old
    match name:
        case "sizes":
            at = rng.randrange(len(old)) if old else 0
            size = rng.choice((*FACTORS, old[at] * 2 if old else 1, max(1, old[at] // 2)))
            new = (*old[:at], size, *old[at + 1 :])
        case "role":
            new = rng.choice(drawer.made.target.roles)
        case "form":
            new = rng.choice(SCATTERS)
        case "axis":
            new = rng.choice((*AXES, None))
        case "count" | "pitch":
            new = rng.choice((*FACTORS, None))
        case "scope":
            new = rng.choice(drawer.made.target.scopes).name
        case "lanes" | "align":
            new = rng.choice(FACTORS)
        case "padded" | "lines" | "unroll" | "as_stored":
            new = not old
        case "axes":
            new = _axes(rng, old)
        case "loops" | "statements":
            new = tuple(rng.sample(old, rng.randint(0, len(old))))
        case "loop" | "inside":
            pairs = [(getattr(a, "loop", None), getattr(a, "inside", None)) for a in others]
            known = [n for pair in pairs for n in pair if n is not None]
            new = rng.choice([*known, *(m for m in (None,) if name == "inside")] or [old])
        case "tensor":
            scop = drawer.made.first.scop
            new = rng.choice([a.tensor for s in scop.statements for a in s.promotable])
        case "statement":
            new = rng.choice(drawer.made.first.scop.statements).name
    return replace(action, **{name: new})


def _axes(rng: random.Random, old: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not old:
        return tuple((d, 1) for d in rng.sample((0, 1), 2))
    kind = rng.random()
    axes = list(old)
    at = rng.randrange(len(axes))
    if kind < 0.4:
        axes[at] = (axes[at][0], rng.choice(FACTORS))
    elif kind < 0.7:
        rng.shuffle(axes)
    elif kind < 0.85:
        del axes[at]
    else:
        axes.insert(at, (axes[at][0], rng.choice(FACTORS)))
    return tuple(axes)
