"""Actions that tile loops and change their order: tile, reorder, sink, separate, fuse."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, takewhile

from tc.errors import BackendError
from tc.plan import SERIAL, Fuse, Reorder, Separate, Sink, Tile
from tc.plan_fields import MOST
from tc.polyhedral.actions.loops import (
    LoopName,
    band_of,
    check_statements,
    loop_name,
    map_bands,
    map_members,
    name_of,
    on_the_way,
    sequence_of,
)
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    children,
    leaves,
    tile,
    unknown_tree,
    with_children,
)


def apply_tile(tree: Node, action: Tile) -> Node:
    """The tree with a loop in tiles, and tiles of these."""
    if not action.sizes:
        raise BackendError(f"no sizes to tile {action.loop} by", repair='"sizes": [32]')
    for outer, inner in pairwise(action.sizes):
        if outer % inner:
            raise BackendError(
                f"tiles of {inner} do not divide those of {outer} iterations of {action.loop}",
                repair=f'"sizes": [{inner * max(1, outer // inner)}, {inner}]',
            )

    def tiled(member: Member) -> tuple[Member, ...]:
        step = member.step * action.sizes[0]
        if step > MOST:
            raise BackendError(
                f"tiles of {step} iterations of {member.name} are more than any loop has: it is at "
                f"most {MOST}",
                repair=f'"sizes": [{max(1, MOST // member.step)}]',
            )
        trips = None if member.span is None else member.span // member.step
        if trips is not None and trips % action.sizes[0]:
            raise BackendError(
                f"tiles of {action.sizes[0]} do not divide the {trips} iterations of {action.loop}",
                repair=f'"sizes": [{_divisor(trips, action.sizes[0])}]',
            )
        found, rest = [], replace(member, role=SERIAL)
        for size in action.sizes:
            outer, rest = tile(rest, size)
            found.append(outer)
        return (*found, rest)

    return map_members(tree, action.loop, tiled)


def _divisor(trips: int, size: int) -> int:
    """The largest divisor of a number that is no larger than a size."""
    return next(n for n in range(min(trips, size), 0, -1) if trips % n == 0)


def apply_reorder(tree: Node, action: Reorder) -> Node:
    """The tree with loops of one nest, bands directly inside of each other, in another order."""
    loops = _distinct(action.loops)
    found = 0

    def reordered(band: Band) -> Node | None:
        nonlocal found
        chain, members, child = _chain(band)
        if not all(on_the_way(band, loop) for loop in loops):
            return None
        places = [_place(loop, members) for loop in loops]
        if None in places:
            return None
        found += 1
        moved = [members[place] for place in places if place is not None]
        result = list(members)
        for place, member in zip(sorted(p for p in places if p is not None), moved, strict=True):
            result[place] = member
        if len(chain) > 1 or not all(m.coincident for m in moved):
            # coincident meant: where the loops before are equal; these are others now
            result = [replace(m, coincident=False) if m in moved else m for m in result]
        permutable = len(chain) == 1 and band.permutable
        return Band(tuple(result), permutable, map_bands(child, reordered))

    result = map_bands(tree, reordered)
    if not found:
        _check_known(action.loops, tree)
        raise BackendError(
            f"{', '.join(action.loops)} are not loops of one nest: between them something else "
            "begins or runs",
            repair=f'{{"reorder": {_listed(_nest_around(tree, loops[0]))}}}',
        )
    return result


def _nest_around(tree: Node, loop: LoopName) -> list[str]:
    """The names of the nest in which a loop stands."""
    names: list[str] = []

    def look(band: Band) -> Node | None:
        _, members, _ = _chain(band)
        if not names and _place(loop, members) is not None:
            names.extend(map(name_of, members))
        return None

    map_bands(tree, look)
    return names


def _listed(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _chain(band: Band) -> tuple[list[Band], list[Member], Node]:
    """Bands directly inside of each other: they, all of their members, and what is inside."""
    bands, members = [band], list(band.members)
    while isinstance(bands[-1].child, Band):
        bands.append(bands[-1].child)
        members += bands[-1].members
    return bands, members, bands[-1].child


def _place(loop: LoopName, members: list[Member]) -> int | None:
    return next((i for i, member in enumerate(members) if loop.fits(member)), None)


def _distinct(names: tuple[str, ...]) -> list[LoopName]:
    if not names:
        raise BackendError("no loops are named", repair='["i", "j"]')
    if len(set(names)) < len(names):
        raise BackendError(
            f"a loop is named twice in {', '.join(names)}",
            repair=_listed(list(dict.fromkeys(names))),
        )
    return list(map(loop_name, names))


def _check_known(names: tuple[str, ...], tree: Node) -> None:
    """BackendError for the first loop that is nowhere in the tree."""
    for name in names:
        map_members(tree, name, lambda member: (member,))


def apply_sink(tree: Node, action: Sink) -> Node:
    """The tree with loops as the innermost ones around each statement that they run."""
    loops = _distinct(action.loops)
    found = False

    def sunk(band: Band) -> Node | None:
        nonlocal found
        if not all(on_the_way(band, loop) for loop in loops):
            return None
        places = [_place(loop, list(band.members)) for loop in loops]
        if None in places:
            return None
        found = True
        moved = tuple(band.members[place] for place in places if place is not None)
        rest = tuple(m for m in band.members if m not in moved)
        below = _below(band.child, moved, action)
        if not all(m.coincident for m in moved):
            below = unclaimed(below)
            rest = tuple(replace(m, coincident=False) for m in rest)
        return band_of(rest, band.permutable, below)

    result = map_bands(tree, sunk)
    if not found:
        _check_known(action.loops, tree)
        raise BackendError(
            f"{', '.join(action.loops)} are not loops of one band",
            repair=f'{{"sink": {_listed([action.loops[0]])}}}',
        )
    return result


def unclaimed(node: Node) -> Node:
    """The tree without what was known of its bands: coincident members, permutable ones."""
    if isinstance(node, Band):
        own = tuple(replace(m, coincident=False) for m in node.members)
        node = Band(own, False, node.child)
    return with_children(node, tuple(map(unclaimed, children(node))))


def _below(node: Node, members: tuple[Member, ...], action: Sink) -> Node:
    match node:
        case Leaf(statement=name):
            own = tuple(m for m in members if m.values[name].variable is not None)
            return band_of(own, True, node)
        case Sequence():
            return with_children(node, tuple(_below(c, members, action) for c in children(node)))
        case Band(members=inner, permutable=permutable, child=Leaf(statement=name) as leaf) if all(
            m.span is not None for m in inner
        ):
            own = tuple(m for m in members if m.values[name].variable is not None)
            return Band((*inner, *own), permutable, leaf)
        case Band(child=child):
            return replace(node, child=_below(child, members, action))
        case Promotion() | Expansion():
            raise BackendError(
                f"{', '.join(action.loops)} cannot move into the place of a buffer: loops sink "
                "before tensors are promoted and reductions split",
                repair='{"sink": ...} before {"promote": ...}',
            )
        case _:
            raise unknown_tree(node)


def apply_separate(tree: Node, action: Separate) -> Node:
    """The tree with loops of their own for some statements that follow each other."""
    loops = _distinct(action.loops)
    check_statements(action.statements, tree)
    wanted = set(action.statements)
    found = False

    def separated(band: Band) -> Node | None:
        nonlocal found
        if not wanted <= set(leaves(band)):
            return None
        last = band.members[-len(loops) :]
        if len(last) < len(loops) or not all(map(LoopName.fits, loops, last)):
            return None
        parts = band.child.children if isinstance(band.child, Sequence) else (band.child,)
        before = tuple(takewhile(lambda c: not wanted & set(leaves(c)), parts))
        own = tuple(takewhile(lambda c: wanted & set(leaves(c)), parts[len(before) :]))
        after = parts[len(before) + len(own) :]
        if {n for child in own for n in leaves(child)} != wanted:
            return None
        found = True
        groups = [sequence_of(group) for group in (before, own, after) if group]
        apart = [_around(last, band.permutable, group) for group in groups]
        return band_of(band.members[: -len(loops)], band.permutable, sequence_of(apart))

    result = map_bands(tree, separated)
    if not found:
        _check_known(action.loops, tree)
        raise BackendError(
            f"{', '.join(action.loops)} are not the innermost loops around "
            f"{', '.join(action.statements)} and their neighbours",
            repair=f'{{"reorder": {_listed([*_nest_around(tree, loops[0])])}}}',
        )
    return result


def _around(members: tuple[Member, ...], permutable: bool, node: Node) -> Node:
    """Loops around a node; not those in which all of its statements run once."""
    names = list(leaves(node))
    own = tuple(m for m in members if any(m.values[n].variable is not None for n in names))
    return band_of(own, permutable, node)


def apply_fuse(tree: Node, action: Fuse) -> Node:
    """The tree with the outermost loops of neighbours as one."""
    loops = _distinct(action.loops)
    if len(loops) < 2:
        raise BackendError("one loop cannot be fused", repair='{"fuse": ["S0.i", "S1.i"]}')
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
        return with_children(node, tuple(map(fused, parts)))

    result = fused(tree)
    if not found:
        _check_known(action.loops, tree)
        raise BackendError(
            f"{', '.join(action.loops)} are not the outermost loops of neighbours, in their order",
            repair='{"fuse": ["S0.i", "S1.i"]}',
        )
    return result


def _begins_with(node: Node, loop: LoopName) -> bool:
    return isinstance(node, Band) and on_the_way(node, loop) and loop.fits(node.members[0])


def _fused(bands: tuple[Band, ...]) -> Node:
    firsts = [band.members[0] for band in bands]
    if len({(m.span, m.step) for m in firsts}) > 1 or len({m.origin for m in firsts}) > 1:
        names = ", ".join(map(str, firsts))
        raise BackendError(f"the loops {names} do not count alike", repair="tile them afterwards")
    values = {name: value for m in firsts for name, value in m.values.items()}
    member = replace(firsts[0], values=values, coincident=False, role=SERIAL)
    rest = [band_of(band.members[1:], band.permutable, band.child) for band in bands]
    return Band((member,), False, sequence_of(rest))
