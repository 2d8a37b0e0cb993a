"""Views of schedule trees that explanations show: the tree of the text, and trees without some of
what they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tc.polyhedral.schedule import (
    SERIAL,
    ArrayTile,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
    unknown_tree,
)
from tc.polyhedral.scop.scop import Scop


def members(node: Node) -> Iterator[Member]:
    """The members of the bands of a tree, outermost first."""
    match node:
        case Leaf():
            return
        case Sequence(children=children):
            for child in children:
                yield from members(child)
        case Band(members=own, child=child):
            yield from own
            yield from members(child)
        case Promotion(child=child) | Expansion(child=child):
            yield from members(child)
        case _:
            raise unknown_tree(node)


def text_order(scop: Scop) -> Node:
    """The tree of the text as it stands: each statement in loops of its own, one after another."""
    nodes: list[Node] = []
    for s in scop.statements:
        own = tuple(Member(v, {s.name: Value(v)}, False) for v in s.variables)
        nodes.append(Band(own, False, Leaf(s.name)) if own else Leaf(s.name))
    return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))


def promoted_tiles(node: Node) -> Iterator[ArrayTile]:
    """The tiles that a tree promotes, outermost first."""
    match node:
        case Leaf():
            return
        case Sequence(children=children):
            for child in children:
                yield from promoted_tiles(child)
        case Promotion(tiles=tiles, child=child):
            yield from tiles
            yield from promoted_tiles(child)
        case Band(child=child) | Expansion(child=child):
            yield from promoted_tiles(child)
        case _:
            raise unknown_tree(node)


def serial(node: Node) -> Node:
    """The tree without roles."""

    def plain(band: Band) -> Band:
        return replace(band, members=tuple(replace(m, role=SERIAL) for m in band.members))

    return _rebuilt(node, lambda n: plain(n) if isinstance(n, Band) else n)


def without_buffers(node: Node) -> Node:
    """The tree without promotions and partial accumulators."""
    return _rebuilt(node, lambda n: n.child if isinstance(n, Promotion | Expansion) else n)


def _rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    match node:
        case Leaf():
            return change(node)
        case Sequence(children=children):
            return change(Sequence(tuple(_rebuilt(c, change) for c in children)))
        case Band(child=child) | Promotion(child=child) | Expansion(child=child):
            return change(replace(node, child=_rebuilt(child, change)))
        case _:
            raise unknown_tree(node)
