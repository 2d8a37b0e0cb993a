"""Edits of schedule trees: tilings, which keep a tree legal, and random edits, which may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import strategies as st

from tc.plan import PARALLEL, SERIAL, UNROLL, VECTOR, Reorder, Sink, Tile
from tc.polyhedral.actions.loop_actions import apply_reorder, apply_sink, apply_tile
from tc.polyhedral.actions.loops import map_bands, name_of
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, Value, nodes, tile
from tc.polyhedral.scop.scop import Scop

Edit = Callable[[Node], Node]


def tiled(tree: Node, size: int) -> Node:
    """Every permutable band in tiles: first the loops over tiles, then those in them."""
    for band in [node for node in nodes(tree) if isinstance(node, Band) and node.permutable]:
        if all(m.span is None or m.span % (m.step * size) == 0 for m in band.members):
            for member in band.members:
                tree = apply_tile(tree, Tile(_called(member), (size,))).tree
            outer, inner = zip(*(tile(m, size) for m in band.members), strict=True)
            tree = apply_reorder(tree, Reorder(tuple(map(_called, (*outer, *inner)))))
    return map_bands(tree, _careful)


def _careful(band: Band) -> Node:
    """A band and those below it, permutable only where no member has dependences: a point loop
    cannot be outside of its tiles' loop."""
    safe = band.permutable and all(m.coincident for m in band.members)
    return replace(band, permutable=safe, child=map_bands(band.child, _careful))


def sunk(tree: Node) -> Node:
    """The coincident points at the end of each band as the innermost loops of all statements that
    they run (Vasilache et al. 2018, section 5.3)."""
    for band in [node for node in nodes(tree) if isinstance(node, Band)][::-1]:
        points = [m for m in band.members if m.span is not None]
        if points and all(m.coincident for m in points):
            tree = apply_sink(tree, Sink(tuple(map(_called, points))))
    return tree


def _called(member: Member) -> str:
    """The name of a loop by a variable of one of its statements, which no other has."""
    statement = next(n for n, value in member.values.items() if value.variable is not None)
    return name_of(member, statement)


# --- random edits -------------------------------------------------------------------------------


@st.composite
def edited(draw: st.DrawFn, tree: Node, scop: Scop) -> Node:
    """The tree after one to three random edits, each of one node."""
    for _ in range(draw(st.integers(1, 3))):
        nodes = [(node, put) for node, put in places(tree) if not isinstance(node, Leaf)]
        if not nodes:
            return tree
        node, put = draw(st.sampled_from(nodes))
        tree = put(_edited_node(draw, node, scop))
    return tree


def places(node: Node, put: Edit = lambda new: new) -> Iterator[tuple[Node, Edit]]:
    """Every node of a tree, with a function from another node to the tree with it in this place."""
    yield node, put
    match node:
        case Band(child=child):
            yield from places(child, lambda new, put=put, node=node: put(replace(node, child=new)))
        case Sequence(children=children):
            for i, child in enumerate(children):

                def put_child(new: Node, i: int = i) -> Node:
                    return put(Sequence((*children[:i], new, *children[i + 1 :])))

                yield from places(child, put_child)


def _edited_node(draw: st.DrawFn, node: Node, scop: Scop) -> Node:
    match node:
        case Sequence(children=children) if len(children) > 1:
            place = draw(st.integers(0, len(children) - 2))
            pair = children[place], children[place + 1]
            new: tuple[Node, ...] = pair[::-1]
            if all(isinstance(c, Band) for c in pair) and draw(st.booleans()):
                new = (_fused(*pair, scop),)
            joined = (*children[:place], *new, *children[place + 2 :])
            return Sequence(joined) if len(joined) > 1 else joined[0]
        case Band(members=members):
            place = draw(st.integers(0, len(members) - 1))
            member = members[place]
            kind = draw(st.sampled_from(("coincident", "role", "permute", "shift", "swap", "tile")))
            match kind:
                case "coincident":
                    member = replace(member, coincident=not member.coincident)
                case "role":
                    role = draw(st.sampled_from((SERIAL, PARALLEL, VECTOR, UNROLL)))
                    member = replace(member, role=role)
                case "shift":
                    member = _shifted(draw, member, scop)
                case "tile" if member.span is None:
                    outer, inner = tile(member, draw(st.integers(2, 3)))
                    return replace(
                        node, members=(*members[:place], outer, inner, *members[place + 1 :])
                    )
                case "permute":
                    return replace(
                        node, permutable=True, members=tuple(draw(st.permutations(members)))
                    )
                case "swap" if isinstance(node.child, Band):
                    return replace(node.child, child=replace(node, child=node.child.child))
            return replace(node, members=(*members[:place], member, *members[place + 1 :]))
        case _:
            return node


def _shifted(draw: st.DrawFn, member: Member, scop: Scop) -> Member:
    name = draw(st.sampled_from(sorted(member.values)))
    value = member.values[name]
    moved = Value(value.variable, value.offset + draw(st.sampled_from((-1, 1))))
    values = {**member.values, name: moved}
    return replace(member, values=values, origin=_least(values, scop))


def _least(values: dict[str, Value], scop: Scop) -> int:
    return min(
        v.offset + (scop.statement(n).ranges[v.variable][0] if v.variable else 0)
        for n, v in values.items()
    )


def _fused(first: Node, second: Node, scop: Scop) -> Node:
    """Two bands as one of their first members, what is left of them in sequence inside."""
    assert isinstance(first, Band)
    assert isinstance(second, Band)
    values = {**first.members[0].values, **second.members[0].values}
    member = replace(first.members[0], values=values, origin=_least(values, scop))
    rest = Sequence((_without_first(first), _without_first(second)))
    return Band((member,), True, rest)


def _without_first(band: Band) -> Node:
    return replace(band, members=band.members[1:]) if len(band.members) > 1 else band.child
