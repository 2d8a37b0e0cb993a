"""Actions that say what becomes of loops: bind, and split for reductions."""

from __future__ import annotations

from dataclasses import replace

from tc.errors import BackendError
from tc.plan import AXES, BLOCK, THREAD, Bind, Split
from tc.polyhedral.actions.loops import (
    Edit,
    loop_name,
    map_members,
    no_such_loop,
    place_inside,
)
from tc.polyhedral.schedule import Expansion, Member, Node, members_below
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Target


def apply_bind(tree: Node, action: Bind, target: Target) -> Edit:
    """The tree with a role for a loop, and the loop that has it."""
    if action.role not in target.roles:
        names = ", ".join(target.roles)
        raise BackendError(f"no role {action.role!r} on this target; there are {names}")
    launched = action.role in (BLOCK, THREAD)
    if launched and action.axis not in AXES:
        raise BackendError(f"a loop of role {action.role!r} has an axis: {', '.join(AXES)}")
    if not launched and (action.axis is not None or action.count is not None):
        raise BackendError(f"a loop of role {action.role!r} has no axis and no count")

    def bound(member: Member) -> tuple[Member, ...]:
        return (replace(member, role=action.role, axis=action.axis, count=action.count),)

    return map_members(tree, action.loop, bound)


def apply_split(tree: Node, action: Split, scop: Scop) -> Node:
    """The tree with an accumulator for each iteration of some loops of a reduction."""
    inside = None if action.inside is None else loop_name(action.inside)
    place = place_inside(tree, inside, (action.statement,))
    statement = scop.statement(action.statement)
    below = members_below(place.node)[action.statement]
    digits = []
    for text in action.loops:
        loop = loop_name(text)
        found = next((m for m in below if loop.fits(m)), None)
        if found is None:
            raise no_such_loop(text, place.node)
        if found.span is None or found.values[statement.name].variable not in statement.reduction:
            raise BackendError(
                f"{text} is no loop inside of tiles of the reduction of {statement.name}"
            )
        digits.append(found)
    if not digits or not statement.accumulates:
        raise BackendError(
            f"{statement.name} has no reduction along {', '.join(action.loops) or 'no loops'}"
        )
    buffer = f"{statement.write.tensor}_partial"
    return place.put(Expansion(statement.name, buffer, tuple(digits), place.node))
