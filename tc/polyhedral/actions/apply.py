"""Applying actions, and whole plans, to schedule trees.

`apply` does one action, whatever comes of it. `apply_plan` does those of all parts and checks the
tree: the order against the dependences, the digits of loops, their roles, and what threads write
back. A tree that passes is right; every other is refused, by the first action that makes it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from tc.errors import BackendError, InternalError
from tc.plan import (
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
from tc.polyhedral.actions.loops import misplaced_digit, name_of
from tc.polyhedral.actions.nearest import blamed, nearest
from tc.polyhedral.actions.order import (
    apply_fuse,
    apply_reorder,
    apply_separate,
    apply_sink,
    apply_tile,
    unclaimed,
)
from tc.polyhedral.actions.promote import apply_promote
from tc.polyhedral.actions.roles import apply_bind, apply_split
from tc.polyhedral.codegen.context import NoKernel
from tc.polyhedral.facts import Facts
from tc.polyhedral.legality import respects
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Node,
    Promotion,
    Sequence,
    children,
    depth,
    leaves,
    members_below,
    nodes,
    sequence_of,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Target

MOST_DEPTH = 64
"""Of loops and buffers inside of each other, for which code is made."""

Generate: TypeAlias = "Callable[[Node], object]"
"""Makes the kernel of a tree; NoKernel where it has none."""


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
    tree: Node,
    plan: Plan,
    facts: Facts,
    dependences: Dependences,
    target: Target,
    generate: Generate = lambda _: None,
) -> Node:
    """The tree with all actions of a plan done; its parts are all those of the tree, in order.
    With `generate`, those that it makes no kernel of are refused, too.

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
        reason = fault(whole, dependences, target)
        if reason is not None:  # the order may be right, and what is said of it no longer
            whole = unclaimed(whole)
            reason = fault(whole, dependences, target)
        if reason is not None:
            return reason
        try:
            generate(whole)
        except NoKernel as error:
            return str(error)
        return whole

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
    parts = tree.children if isinstance(tree, Sequence) else (tree,)
    scop = dependences.scop
    return (
        misplaced_digit(tree)
        or next((reason for part in parts for reason in _faults_of_roles(part, target)), None)
        or next(_faults_of_splits(tree, (), scop), None)
        or respects(tree, dependences)
        or promotion_fault(tree, scop)
    )


def check_mapped(tree: Node, dependences: Dependences, target: Target) -> None:
    """Raises InternalError, with the tree, where `fault` finds a reason."""
    reason = fault(tree, dependences, target)
    if reason is not None:
        raise InternalError(f"a mapped schedule is not legal: {reason}\n{to_text(tree, '  ')}")


def _faults_of_roles(part: Node, target: Target) -> Iterator[str]:
    outermost = part
    while isinstance(outermost, Promotion) and outermost.is_packed:
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


def _faults_of_splits(node: Node, around: tuple[Node, ...], scop: Scop) -> Iterator[str]:
    """Reductions whose accumulators do not follow their loops: those that are gone since, and
    lanes of vectors that have one accumulator together."""
    if isinstance(node, Expansion):
        name = node.statement
        below = members_below(node)[name]
        path = [m for n in around if isinstance(n, Band) for m in n.members]
        for digit in node.digits:
            alike = [m for m in (*path, *below) if (m.name, m.step) == (digit.name, digit.step)]
            if len(alike) != 1 or alike[0] not in below or alike[0].span != digit.span:
                yield f"the loop {name_of(digit)}, by which {name} is split, is not there any more"
    if isinstance(node, Band) and isinstance(node.child, Leaf):
        name = node.child.statement
        statement = scop.statement(name)
        splits = [n for n in around if isinstance(n, Expansion) and n.statement == name]
        split = {(digit.name, digit.step) for n in splits for digit in n.digits}
        for member in node.members if statement.accumulates else ():
            reduced = member.values[name].variable in statement.reduction
            if member.role == VECTOR and reduced and (member.name, member.step) not in split:
                yield (
                    f"the lanes of {name_of(member)} would add to one element: {name} needs an "
                    "accumulator for each, by a split"
                )
    for child in children(node):
        yield from _faults_of_splits(child, (*around, node), scop)
