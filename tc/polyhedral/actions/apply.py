"""Applying actions, and whole plans, to schedule trees.

`apply` does one action, whatever comes of it. `apply_plan` does those of all parts and checks the
tree: the order against the dependences, the digits of loops, their roles, and what threads write
back. A tree that passes is right; every other is refused, by the first action that makes it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tc.errors import BackendError, InternalError
from tc.plan import (
    PACKED,
    PARALLEL,
    VECTOR,
    Action,
    Bind,
    Fuse,
    Part,
    Plan,
    Promote,
    Reorder,
    Separate,
    Sink,
    Split,
    Tile,
    action_text,
)
from tc.plan_fields import shortened
from tc.polyhedral.actions.loops import name_of, sequence_of
from tc.polyhedral.actions.nearest import blamed, nearest
from tc.polyhedral.actions.order import (
    apply_fuse,
    apply_reorder,
    apply_separate,
    apply_sink,
    apply_tile,
)
from tc.polyhedral.actions.promote import apply_promote
from tc.polyhedral.actions.roles import apply_bind, apply_split
from tc.polyhedral.facts import Facts
from tc.polyhedral.legality import respects
from tc.polyhedral.promotion import members_below, race
from tc.polyhedral.schedule import (
    Band,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    depth,
    leaves,
    nodes,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.target import Target

MOST_DEPTH = 64
"""Of loops and buffers inside of each other, for which code is made."""


def apply(tree: Node, action: Action, facts: Facts, target: Target) -> Node:
    """The tree of a part after one action; BackendError where that makes no sense there."""
    found = _applied(tree, action, facts, target)
    deep = depth(found)
    if deep > MOST_DEPTH:
        raise BackendError(f"{deep} loops and buffers inside of each other; {MOST_DEPTH} can be")
    return found


def _applied(tree: Node, action: Action, facts: Facts, target: Target) -> Node:
    match action:
        case Tile():
            return apply_tile(tree, action)
        case Reorder():
            return apply_reorder(tree, action)
        case Sink():
            return apply_sink(tree, action)
        case Separate():
            return apply_separate(tree, action)
        case Fuse():
            return apply_fuse(tree, action)
        case Split():
            return apply_split(tree, action, facts.scop)
        case Promote():
            return apply_promote(tree, action, facts, target)
        case Bind():
            return apply_bind(tree, action, target)
        case _:
            raise InternalError(f"unknown action {action!r}")


def apply_plan(
    tree: Node, plan: Plan, facts: Facts, dependences: Dependences, target: Target
) -> Node:
    """The tree with all actions of a plan done; its parts are all those of the tree, in order.

    Raises BackendError with the action that cannot be done, or that no dependence allows; its
    repair is the plan without what does not work.
    """
    nodes = grouped(tree, plan)

    def attempt(actions: list[tuple[Action, ...]]) -> Node | tuple[int, int, str] | str:
        """The tree after some of the actions; or where one cannot be done, and why; or why the
        tree is not legal."""
        done = []
        for number, (node, some) in enumerate(zip(nodes, actions, strict=True)):
            for place, action in enumerate(some):
                try:
                    node = apply(node, action, facts, target)
                except BackendError as error:
                    return number, place, error.cause
            done.append(node)
        whole = done[0] if len(done) == 1 else Sequence(tuple(done))
        return fault(whole, dependences, target) or whole

    wanted = [part.actions for part in plan.parts]
    found = attempt(wanted)
    if isinstance(found, Node):
        return found
    number, place, reason = blamed(found, wanted, attempt)
    working = nearest(
        nodes, wanted, attempt, partial(apply, facts=facts, target=target), facts, target
    )
    parts = (Part(p.statements, some) for p, some in zip(plan.parts, working, strict=True))
    part = plan.parts[number]
    raise BackendError(
        f"action {place + 1} of the part {', '.join(part.statements)}, "
        f"{shortened(action_text(part.actions[place]), 200)}: {reason}",
        repair=Plan(tuple(parts)).to_json(),
    )


def grouped(tree: Node, plan: Plan) -> list[Node]:
    """The parts of a tree that a plan names, which are all of its outermost sequence, in order."""
    children_left = list(tree.children if isinstance(tree, Sequence) else (tree,))
    nodes = []
    for part in plan.parts:
        own: list[Node] = []
        while children_left and [n for c in own for n in leaves(c)] != list(part.statements):
            own.append(children_left.pop(0))
        if [n for c in own for n in leaves(c)] != list(part.statements):
            raise InternalError(f"the plan's part {part.statements} is no part of the program")
        nodes.append(own[0] if len(own) == 1 else sequence_of(own))
    return nodes


# --- what every tree keeps ----------------------------------------------------------------------


def fault(tree: Node, dependences: Dependences, target: Target) -> str | None:
    """Why a tree may not be run; None where it may."""
    found = next(_faults_of_loops(tree, target), None)
    return found or respects(tree, dependences) or race(tree, dependences.scop)


def check_mapped(tree: Node, dependences: Dependences, target: Target) -> None:
    """Raises InternalError, with the tree, where `fault` finds a reason."""
    reason = fault(tree, dependences, target)
    if reason is not None:
        raise InternalError(f"a mapped schedule is not legal: {reason}\n{to_text(tree, '  ')}")


def _faults_of_loops(tree: Node, target: Target) -> Iterator[str]:
    for statement, inside in members_below(tree).items():
        last: dict[str, Member] = {}
        for member in inside:
            variable = member.values[statement].variable
            if variable is None:
                continue
            before = last.get(variable)
            if member.span is not None and (before is None or before.step != member.span):
                where = "outside of the tiles that it divides"
                yield f"the loop {name_of(member)} of {statement} is {where}"
            if member.span is None and before is not None:
                yield f"the loop {name_of(member)} of {statement} is inside of its own tiles"
            last[variable] = member
    for part in tree.children if isinstance(tree, Sequence) else (tree,):
        yield from _faults_of_roles(part, target)


def _faults_of_roles(part: Node, target: Target) -> Iterator[str]:
    outermost = part
    while isinstance(outermost, Promotion) and all(t.scope == PACKED for t in outermost.tiles):
        outermost = outermost.child
    for node in nodes(part):
        own = node.members if isinstance(node, Band) else ()
        leading = node is outermost
        for number, member in enumerate(own):
            leading = leading and member.role == PARALLEL
            name = name_of(member)
            if member.role == PARALLEL and not leading:
                yield f"the loop {name} is not among the outermost, which alone threads can share"
            if member.role == VECTOR:
                lanes = None if member.span is None else member.span // member.step
                if lanes is None or lanes & (lanes - 1) or lanes > target.lanes:
                    yield (
                        f"the loop {name} cannot be the lanes of a vector: it has "
                        f"{'an end of its own' if lanes is None else f'{lanes} iterations'}, and "
                        f"vectors have 2, 4, ... or {target.lanes} lanes"
                    )
                inner = node.child if isinstance(node, Band) else None
                if number + 1 < len(own) or not isinstance(inner, Leaf):
                    yield f"the loop {name} cannot be the lanes of a vector: it is not innermost"
