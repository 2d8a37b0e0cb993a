"""Actions on loops: tile, reorder, sink, separate and fuse change which loops there are, and their
order; bind and split say what becomes of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise, takewhile

from tc.errors import BackendError
from tc.plan import (
    AXES,
    BLOCK,
    MAX_ACTION_NUMBER,
    MMA,
    MMA_TF32,
    SERIAL,
    THREAD,
    Bind,
    Fuse,
    Reorder,
    Separate,
    Sink,
    Split,
    Tile,
)
from tc.polyhedral.actions.loops import (
    Edit,
    LoopName,
    check_statements,
    loop_name,
    map_bands,
    map_members,
    no_such_loop,
    on_the_way,
    place_inside,
)
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Sequence,
    band_of,
    children,
    in_order,
    leaves,
    map_children,
    map_nodes,
    members_below,
    sequence_of,
    tile,
)
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Target


def apply_tile(tree: Node, action: Tile) -> Edit:
    """The tree with a loop in tiles, and tiles of these; and the loops over and in them."""
    if not action.sizes:
        raise BackendError(f"no sizes to tile {action.loop} by")
    for outer, inner in pairwise(action.sizes):
        if outer % inner:
            raise BackendError(
                f"tiles of {inner} do not divide those of {outer} iterations of {action.loop}"
            )

    def tiled(member: Member) -> tuple[Member, ...]:
        step = member.step * action.sizes[0]
        if step > MAX_ACTION_NUMBER:
            raise BackendError(
                f"tiles of {step} iterations of {member.name} are more than any loop has: it is at "
                f"most {MAX_ACTION_NUMBER}"
            )
        trips = None if member.span is None else member.span // member.step
        if trips is not None and trips % action.sizes[0]:
            raise BackendError(
                f"tiles of {action.sizes[0]} do not divide the {trips} iterations of {action.loop}"
            )
        found, rest = [], replace(member, role=SERIAL)
        for size in action.sizes:
            outer, rest = tile(rest, size)
            found.append(outer)
        return (*found, rest)

    return map_members(tree, action.loop, tiled)


def apply_reorder(tree: Node, action: Reorder) -> Node:
    """The tree with loops of one nest, bands directly inside of each other, in another order."""
    loops = _distinct(action.loops)

    def reordered(band: Band) -> Node | None:
        members, child = list(band.members), band.child
        while isinstance(child, Band):
            members += child.members
            child = child.child
        places = _places(loops, band, members)
        if not places:
            return None
        moved = [members[place] for place in places]
        result = list(members)
        for place, member in zip(sorted(places), moved, strict=True):
            result[place] = member
        is_one = child is band.child
        if not is_one or not all(m.coincident for m in moved):
            # coincident meant: where the loops before are equal; these are others now
            result = [replace(m, coincident=False) if m in moved else m for m in result]
        return Band(tuple(result), is_one and band.permutable, map_bands(child, reordered))

    reason = "are not loops of one nest: between them something else begins or runs"
    return _changed(map_bands(tree, reordered), tree, action.loops, reason)


def _places(loops: Collection[LoopName], band: Band, members: Collection[Member]) -> list[int]:
    """Where loops stand among members of a band and of the bands in it; none where a loop is
    absent."""
    here = [loop for loop in loops if on_the_way(band, loop)]
    found = [next((i for i, m in enumerate(members) if loop.fits(m)), -1) for loop in here]
    return found if len(here) == len(loops) and -1 not in found else []


def _distinct(names: tuple[str, ...]) -> list[LoopName]:
    if not names:
        raise BackendError("no loops are named")
    if len(set(names)) < len(names):
        raise BackendError(f"a loop is named twice in {', '.join(names)}")
    return list(map(loop_name, names))


def _changed(result: Node, tree: Node, names: tuple[str, ...], reason: str) -> Node:
    """The result of an action. Raises BackendError where the result is the very tree: a loop is not
    in the tree, or the loops do not stand as the action needs them to."""
    if result is not tree:
        return result
    for name in names:
        map_members(tree, name, lambda member: (member,))
    raise BackendError(f"{', '.join(names)} {reason}")


def apply_sink(tree: Node, action: Sink) -> Node:
    """The tree with loops as the innermost ones around each of the statements."""
    loops = _distinct(action.loops)

    def sunk(band: Band) -> Node | None:
        places = _places(loops, band, band.members)
        if not places:
            return None
        moved = tuple(band.members[place] for place in places)
        rest = tuple(m for m in band.members if m not in moved)
        below = _below(band.child, moved, action)
        if not all(m.coincident for m in moved):
            below = unclaimed(below)
            rest = tuple(replace(m, coincident=False) for m in rest)
        return band_of(rest, band.permutable, below)

    return _changed(map_bands(tree, sunk), tree, action.loops, "are not loops of one band")


def unclaimed(node: Node) -> Node:
    """The tree with no band called permutable, and no member coincident."""

    def plain(node: Node) -> Node:
        if not isinstance(node, Band):
            return node
        return Band(tuple(replace(m, coincident=False) for m in node.members), False, node.child)

    return map_nodes(node, plain)


def _below(node: Node, members: tuple[Member, ...], action: Sink) -> Node:
    match node:
        case Leaf(statement=name):
            return band_of(_run(members, [name]), True, node)
        case Band(members=inner, permutable=permutable, child=Leaf(statement=name) as leaf) if all(
            m.span is not None for m in inner
        ):
            return Band((*inner, *_run(members, [name])), permutable, leaf)
        case Band() | Sequence():
            return map_children(node, lambda child: _below(child, members, action))
        case _:
            raise BackendError(
                f"{', '.join(action.loops)} cannot move into the place of a buffer: loops sink "
                "before tensors are promoted and reductions split"
            )


def _run(members: tuple[Member, ...], names: Collection[str]) -> tuple[Member, ...]:
    """The members that run along a variable of some of the statements."""
    return tuple(m for m in members if any(m.values[n].variable is not None for n in names))


def apply_separate(tree: Node, action: Separate) -> Node:
    """The tree with loops of their own for some statements that follow each other."""
    loops = _distinct(action.loops)
    check_statements(action.statements, tree)
    wanted = set(action.statements)

    def separated(band: Band) -> Node | None:
        if not wanted <= set(leaves(band)):
            return None
        last = band.members[-len(loops) :]
        if len(last) < len(loops) or not all(map(LoopName.fits, loops, last)):
            return None
        parts = in_order(band.child)
        before = tuple(takewhile(lambda c: not wanted & set(leaves(c)), parts))
        own = tuple(takewhile(lambda c: wanted & set(leaves(c)), parts[len(before) :]))
        after = parts[len(before) + len(own) :]
        if {n for child in own for n in leaves(child)} != wanted:
            return None
        groups = [sequence_of(group) for group in (before, own, after) if group]
        apart = [band_of(_run(last, tuple(leaves(g))), band.permutable, g) for g in groups]
        return band_of(band.members[: -len(loops)], band.permutable, sequence_of(apart))

    where = f"{', '.join(action.statements)} and their neighbours"
    reason = f"are not the innermost loops around {where}"
    return _changed(map_bands(tree, separated), tree, action.loops, reason)


def apply_fuse(tree: Node, action: Fuse) -> Node:
    """The tree with the outermost loops of neighbours as one."""
    loops = _distinct(action.loops)
    if len(loops) < 2:
        raise BackendError("one loop cannot be fused")
    found = False

    def fused(node: Node) -> Node:
        nonlocal found
        parts = children(node)
        for first in range(len(parts) - len(loops) + 1):
            group = parts[first : first + len(loops)]
            if not found and all(map(_begins_with, group, loops)):
                found = True
                one = _fused(tuple(c for c in group if isinstance(c, Band)))
                return sequence_of((*parts[:first], one, *parts[first + len(loops) :]))
        return map_children(node, fused)

    reason = "are not the outermost loops of neighbours, in their order"
    return _changed(fused(tree), tree, action.loops, reason)


def _begins_with(node: Node, loop: LoopName) -> bool:
    return isinstance(node, Band) and on_the_way(node, loop) and loop.fits(node.members[0])


def _fused(bands: tuple[Band, ...]) -> Node:
    firsts = [band.members[0] for band in bands]
    if len({(m.span, m.step, m.origin) for m in firsts}) > 1:
        names = ", ".join(map(str, firsts))
        raise BackendError(f"the loops {names} do not count alike")
    values = {name: value for m in firsts for name, value in m.values.items()}
    member = replace(firsts[0], values=values, coincident=False, role=SERIAL)
    rest = [band_of(band.members[1:], band.permutable, band.child) for band in bands]
    return Band((member,), False, sequence_of(rest))


# --- what becomes of loops -----------------------------------------------------------------------


def apply_bind(tree: Node, action: Bind, target: Target) -> Edit:
    """The tree with a role for a loop, and the loop that has it."""
    if action.role not in target.roles:
        names = ", ".join(target.roles)
        needs = ""
        if action.role == MMA_TF32 and MMA in target.roles:
            needs = ": factors of floats are rounded with GpuOptions(tf32=True) alone"
        raise BackendError(f"no role {action.role!r} on this target{needs}; there are {names}")
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
