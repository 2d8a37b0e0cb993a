"""Schedule trees of launches: by hand, mapped at random, and with barriers taken away."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tc.errors import BackendError
from tc.gpu import Gpu
from tc.plan import AXES, BLOCK, REGISTER, SERIAL, SHARED, THREAD, Promote
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import apply
from tc.polyhedral.actions.loops import misplaced_digit, name_of
from tc.polyhedral.gpu.barriers import place_barriers
from tc.polyhedral.gpu.gpu_target import gpu_target
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import respects
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import (
    ArrayTile,
    Axis,
    Band,
    Leaf,
    Member,
    Node,
    Sequence,
    Sync,
    Value,
    in_order,
    leaves,
    map_children,
    members,
    nodes,
    sequence_of,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop


def member(
    name: str,
    *names: str,
    step: int = 1,
    span: int | None = None,
    role: str = SERIAL,
    axis: str | None = None,
    count: int | None = None,
    coincident: bool = True,
    **pins: int,
) -> Member:
    """A digit of the variable `name` of some statements; others are pinned, with _ for a dot."""
    values = {statement: Value(name) for statement in names}
    values |= {statement.replace("_", "."): Value(None, at) for statement, at in pins.items()}
    return Member(name, values, coincident, 0, step, span, role, axis, count)


def promoted(tensor: str, scope: str, *sizes: int, copied: str = "in") -> ArrayTile:
    """A tile that is copied in, out, or both; its buffer lies as the tensor does."""
    layout = tuple(Axis(d, 1, size) for d, size in enumerate(sizes))
    name = f"{tensor}_{scope}"
    return ArrayTile(tensor, name, scope, sizes, layout, "in" in copied, "out" in copied)


def threads(name: str, *statements: str, **how: int) -> Node:
    """Statements one after the other, a thread for each value of a variable."""
    own = member(name, *statements, role=THREAD, axis="x", **how)
    return Band((own,), True, sequence_of(map(Leaf, statements)))


def text_with_barriers(tree: Node, dependences: Dependences) -> str:
    """A part with its barriers, as text; the same where it has them already. It may be one launch,
    and without any of them it may not."""
    assert respects(tree, dependences) is None
    placed = place_barriers(tree, dependences)
    assert list(members(placed)) == list(members(tree))
    assert list(leaves(placed)) == list(leaves(tree))
    assert place_barriers(placed, dependences) == placed
    assert launch_fault(Sequence((placed,)), dependences) is None
    for less in without_each_barrier(placed):
        assert "with no barrier between" in str(launch_fault(Sequence((less,)), dependences))
    return to_text(placed)


# --- at random ------------------------------------------------------------------------------------


def mapped(tree: Node, scop: Scop, rng: random.Random) -> Node:
    """A tree with some coincident loops bound, and some tensors promoted, at random."""
    roles = rng.choice(((THREAD,), (THREAD, THREAD, BLOCK)))
    tree = _bound(tree, roles, frozenset(), rng)
    for _ in range(rng.choice((0, 1, 2, 4)) if in_order(tree) else 0):
        tree = _promoted(tree, scop, rng)
    return tree


def _bound(
    node: Node, roles: tuple[str, ...], taken: frozenset[tuple[str, str]], rng: random.Random
) -> Node:
    """A node with loops bound to axes that no loop around is bound to."""
    if not isinstance(node, Band):
        return map_children(node, lambda child: _bound(child, roles, taken, rng))
    found: list[Member] = []
    for member in node.members:
        free = [(r, a) for r in roles for a in AXES[:2] if (r, a) not in taken]
        if member.coincident and free and rng.random() < 0.6:
            role, axis = rng.choice(free)
            count = rng.choice((None, None, 1, 2, 3))
            member = replace(member, role=role, axis=axis, count=count)
            taken |= {(role, axis)}
        found.append(member)
    return replace(node, members=tuple(found), child=_bound(node.child, roles, taken, rng))


def _promoted(tree: Node, scop: Scop, rng: random.Random) -> Node:
    """A tree with a tensor promoted inside of some loop, where that can be done."""
    parts = list(in_order(tree))
    number = rng.randrange(len(parts))
    part = parts[number]
    names = list(leaves(part))
    tensor = rng.choice(sorted({a.tensor for n in names for a in scop.statement(n).accesses}))
    loops = [None, *map(name_of, members(part))]
    action = Promote(
        tensor,
        rng.choice((SHARED, SHARED, REGISTER)),
        rng.choice(loops),
        tuple(rng.sample(names, rng.randrange(len(names)))),
    )
    try:
        parts[number] = apply(part, action, AccessInfo(scop, {}, False), gpu_target(Gpu()))
    except BackendError:
        return tree
    found = sequence_of(parts) if len(parts) > 1 else parts[0]
    return tree if misplaced_digit(found) or promotion_fault(found, scop) else found


def without_each_barrier(tree: Node) -> Iterator[Node]:
    """Copies of the tree, each without one of its barriers."""
    for number in range(sum(isinstance(node, Sync) for node in nodes(tree))):
        yield _without(tree, [number])


def _without(node: Node, left: list[int]) -> Node:
    """The node without one barrier: the one with `left[0]` barriers before it."""
    if not isinstance(node, Sequence):
        return map_children(node, lambda child: _without(child, left))
    kept = []
    for child in node.children:
        if not isinstance(child, Sync):
            kept.append(_without(child, left))
            continue
        left[0] -= 1
        if left[0] != -1:
            kept.append(child)
    return Sequence(tuple(kept))
