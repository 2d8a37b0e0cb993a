"""Edits of schedule trees: tilings that keep them legal, and random ones that may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import strategies as st

from tc.plan import PARALLEL, SERIAL, UNROLL, VECTOR
from tc.polyhedral.schedule import (
    Band,
    Leaf,
    Member,
    Node,
    Sequence,
    Value,
    leaves,
    tile,
)
from tc.polyhedral.scop.scop import Scop

Edit = Callable[[Node], Node]


def tiled(node: Node, size: int) -> Node:
    """Every permutable band as a band of tiles and a band of points in them."""
    match node:
        case Band(members=members, permutable=True, child=child) if all(
            m.span is None or m.span % (m.step * size) == 0 for m in members
        ):
            outer, inner = zip(*(tile(m, size) for m in members), strict=True)
            points = Band(
                tuple(replace(m, name=f"{m.name}_") for m in inner), True, tiled(child, size)
            )
            return Band(tuple(outer), True, points)
        case Band(child=child):
            return replace(node, child=tiled(child, size))
        case Sequence(children=children):
            return Sequence(tuple(tiled(c, size) for c in children))
        case _:
            return node


def sunk(node: Node) -> Node:
    """Bands of coincident points moved below everything inside of them (Vasilache et al. 2018,
    section 5.3)."""
    match node:
        case Band(members=members, child=child) if all(
            m.coincident and m.span is not None for m in members
        ):
            return _below(sunk(child), members)
        case Band(child=child):
            return replace(node, child=sunk(child))
        case Sequence(children=children):
            return Sequence(tuple(map(sunk, children)))
        case _:
            return node


def _below(node: Node, members: tuple[Member, ...]) -> Node:
    match node:
        case Band(child=child):
            return replace(node, child=_below(child, members))
        case Sequence(children=children):
            return Sequence(tuple(_below(c, members) for c in children))
        case _:
            (name,) = leaves(node)
            own = tuple(replace(m, values={name: m.values[name]}) for m in members)
            return Band(own, True, node)


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
    """Every node with what puts another in its place."""
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
