"""Applying actions, and whole plans, to schedule trees.

`apply` does one action, whatever comes of it. `apply_plan` does the actions of all parts and checks
the tree: the order against the dependences, the digits of loops, the roles of loops, and what
threads write back. A tree that passes the checks is right; every other tree is refused, with the
first action that makes the tree wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from tc import plan as plans
from tc.errors import BackendError, InternalError
from tc.plan import shortened
from tc.polyhedral import schedule
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.loop_actions import (
    apply_bind,
    apply_fuse,
    apply_reorder,
    apply_separate,
    apply_sink,
    apply_split,
    apply_tile,
    unclaimed,
)
from tc.polyhedral.actions.loops import Edit, misplaced_digit, name_of
from tc.polyhedral.actions.nearest import Refused, blamed, nearest
from tc.polyhedral.actions.promote import apply_promote
from tc.polyhedral.codegen.context import LoweringError
from tc.polyhedral.codegen.thread_sums import combined_axes, combines
from tc.polyhedral.footprint import repeats, trips_of
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import respects
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import Band, Expansion, Leaf, Member, Node, Promotion, to_text
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Target

MOST_DEPTH = 64
"""Loops and buffers inside of each other for which code is made, at most."""

Generate: TypeAlias = "Callable[[Node], object]"
"""Makes the kernel of a tree; LoweringError where it has none."""


def apply(tree: Node, action: plans.Action, info: AccessInfo, target: Target) -> Node:
    """The tree of a part after one action; BackendError where that makes no sense there."""
    return edit(tree, action, info, target).tree


def edit(tree: Node, action: plans.Action, info: AccessInfo, target: Target) -> Edit:
    """The tree of a part after one action, with the loops that it made; BackendError where that
    makes no sense there."""
    match action:
        case plans.Tile():
            found = apply_tile(tree, action)
        case plans.Reorder():
            found = Edit(apply_reorder(tree, action))
        case plans.Sink():
            found = Edit(apply_sink(tree, action))
        case plans.Separate():
            found = Edit(apply_separate(tree, action))
        case plans.Fuse():
            found = Edit(apply_fuse(tree, action))
        case plans.Split():
            found = Edit(apply_split(tree, action, info.scop))
        case plans.Promote():
            found = Edit(apply_promote(tree, action, info, target))
        case plans.Bind():
            found = apply_bind(tree, action, target)
        case plans.Scatter():
            found = Edit(tree)  # it has decided which statements there are
        case _:
            raise InternalError(f"unknown action {action!r}")
    deep = schedule.depth(found.tree)
    if deep > MOST_DEPTH:
        raise BackendError(f"{deep} loops and buffers inside of each other; {MOST_DEPTH} can be")
    return found


def apply_plan(
    nodes: Collection[Node],
    plan: plans.Plan,
    info: AccessInfo,
    dependences: Dependences,
    target: Target,
    generate: Generate = lambda _: None,
) -> Node:
    """The tree after all actions of a plan. `nodes` are those of the parts of the plan, in order.

    Raises BackendError with the action that cannot be done, that no dependence allows, or of whose
    tree `generate` makes no kernel. The repair of the error is a near plan that works.
    """

    def attempt(actions: list[tuple[plans.Action, ...]]) -> Node | Refused:
        done = []
        for number, (node, some) in enumerate(zip(nodes, actions, strict=True)):
            for place, action in enumerate(some):
                try:
                    node = apply(node, action, info, target)
                except BackendError as error:
                    return Refused(error.cause, (number, place))
            done.append(target.finish(node, dependences))
        whole = target.joined(tuple(done))
        reason = fault(whole, dependences, target)
        if reason is not None:  # the order may be right, and what is said of it no longer
            whole = unclaimed(whole)
            reason = fault(whole, dependences, target)
            if reason is not None:
                return Refused(reason)
        try:
            generate(whole)
        except LoweringError as error:
            return Refused(str(error))
        return whole

    wanted = [part.actions for part in plan.parts]
    found = attempt(wanted)
    if not isinstance(found, Refused):
        return found
    number, place, reason = blamed(found, wanted, attempt)
    working = nearest(
        nodes, wanted, attempt, partial(apply, info=info, target=target), info, target
    )
    parts = (plans.Part(p.statements, some) for p, some in zip(plan.parts, working, strict=True))
    part = plan.parts[number]
    raise BackendError(
        f"action {place + 1} of the part {', '.join(part.statements)}, "
        f"{shortened(plans.action_text(part.actions[place]), 200)}: {reason}",
        repair=plans.Plan(tuple(parts)).to_json(),
    )


# --- what every tree keeps ----------------------------------------------------------------------


def fault(tree: Node, dependences: Dependences, target: Target) -> str | None:
    """Why a tree may not be run; None where it may."""
    scop = dependences.scop
    roles = (why for part in schedule.in_order(tree) for why in _faults_of_roles(part, target))
    return (
        misplaced_digit(tree)
        or next(roles, None)
        or next(_faults_of_splits(tree, scop), None)
        or next(_faults_of_checks(tree, scop), None)
        or respects(tree, dependences)
        or promotion_fault(tree, scop)
        or (launch_fault(tree, dependences) if target.launches else None)
        or next(filter(None, (target.refusal(p, scop) for p in schedule.in_order(tree))), None)
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
    for node in schedule.nodes(part):
        if not isinstance(node, Band):
            continue
        leading = node is outermost
        for number, member in enumerate(node.members):
            leading = leading and member.role == plans.PARALLEL
            name = name_of(member)
            if member.role == plans.PARALLEL and not leading:
                yield f"the loop {name} is not among the outermost, which alone threads can share"
            if member.role == plans.VECTOR:
                lanes = None if member.span is None else member.span // member.step
                if lanes is None or lanes & (lanes - 1) or lanes > target.lanes:
                    yield (
                        f"the loop {name} cannot be the lanes of a vector: it has "
                        f"{'an end of its own' if lanes is None else f'{lanes} iterations'}, and "
                        f"vectors have 2, 4, ... or {target.lanes} lanes"
                    )
                if number + 1 < len(node.members) or not isinstance(node.child, Leaf):
                    yield f"the loop {name} cannot be the lanes of a vector: it is not innermost"


def _faults_of_splits(tree: Node, scop: Scop) -> Iterator[str]:
    """Reductions whose accumulators do not follow their loops: loops that are gone since, and lanes
    of vectors that share one accumulator."""
    splits = [node for node in schedule.nodes(tree) if isinstance(node, Expansion)]
    inside = schedule.members_below(tree)
    for node in splits:
        below = schedule.members_below(node)[node.statement]
        for digit in node.digits:
            alike = [m for m in inside[node.statement] if _digit(m) == _digit(digit)]
            if len(alike) != 1 or alike[0] not in below or alike[0].span != digit.span:
                gone = f"the loop {name_of(digit)}, by which {node.statement} is split"
                yield f"{gone}, is not there any more"
        yield from _faults_of_thread_sums(node, inside[node.statement], splits, scop)
    for name, around in inside.items():
        statement = scop.statement(name)
        split = {_digit(d) for node in splits if node.statement == name for d in node.digits}
        for member in around if statement.accumulates else ():
            reduced = member.values[name].variable in statement.reduction
            if member.role == plans.VECTOR and reduced and _digit(member) not in split:
                yield (
                    f"the lanes of {name_of(member)} would add to one element: {name} needs an "
                    "accumulator for each, by a split"
                )


def _faults_of_thread_sums(
    node: Expansion, around: Iterable[Member], splits: list[Expansion], scop: Scop
) -> Iterator[str]:
    """Accumulators that threads combine where they have none, as their statement runs in some
    iterations only of a loop around, or whose target is accumulators again."""
    name = node.statement
    if not combines(node):
        return
    if sum(other.statement == name for other in splits) > 1:
        yield f"{name} is split twice, and threads combine its accumulators once"
    below, axes = schedule.members_below(node)[name], combined_axes(node)
    for member in around:
        shares = member.role == plans.THREAD and member.axis in axes
        if shares and _digit(member) not in {_digit(d) for d in node.digits}:
            yield (
                f"threads along {member.axis} combine the accumulators of {name}, and some of them "
                f"run other iterations of {name_of(member)}"
            )
        trips = trips_of(member, map(scop.statement, member.values))
        if member not in below and member.values[name].variable is None and repeats(trips):
            yield (
                f"threads combine the accumulators of {name} in each iteration of "
                f"{name_of(member)}, and {name} runs in one of these"
            )


def _faults_of_checks(tree: Node, scop: Scop) -> Iterator[str]:
    """Statements in one region with the check that they wait for: only later regions do not run
    once it fails (W3)."""
    for part in schedule.in_order(tree):
        names = [*dict.fromkeys(schedule.leaves(part))]
        for statement in map(scop.statement, names):
            for check in statement.waits_for:
                updates = (w for w in map(scop.statement, names) if w.kind == "update")
                found = next((w.name for w in updates if w.write.tensor == check.tensor), None)
                if found is not None:
                    yield (
                        f"{statement.name} goes through ranges that {found} checks, and would be "
                        "in one region with it, which does not end where the check fails"
                    )


def _digit(member: Member) -> tuple[str, int]:
    return member.name, member.step
