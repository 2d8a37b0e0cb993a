"""Views of schedule trees that explanations show: the tree of the text, and trees without some of
what they have."""

from __future__ import annotations

from dataclasses import replace

from tc.plan import SERIAL
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
    map_nodes,
)
from tc.polyhedral.scop.scop import Scop


def text_order(scop: Scop) -> Node:
    """The tree of the text as it stands: each statement in loops of its own, one after another."""
    nodes: list[Node] = []
    for s in scop.statements:
        own = tuple(Member(v, {s.name: Value(v)}, False) for v in s.variables)
        nodes.append(Band(own, False, Leaf(s.name)) if own else Leaf(s.name))
    return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))


def serial(node: Node) -> Node:
    """The tree without roles."""

    def plain(band: Band) -> Band:
        return replace(band, members=tuple(replace(m, role=SERIAL) for m in band.members))

    return map_nodes(node, lambda n: plain(n) if isinstance(n, Band) else n)


def without_buffers(node: Node) -> Node:
    """The tree without promotions and partial accumulators."""
    return map_nodes(node, lambda n: n.child if isinstance(n, Promotion | Expansion) else n)
