"""Moving statements out of loops in which they run once.

isl's scheduler likes to put the start of a reduction at the first iteration of its loop, and what
follows at the last: `band [i, j, k] / sequence [start, update, relu]`. Before and after the loop
they do as well, and accumulators stay in registers.
"""

from __future__ import annotations

from tc.polyhedral.schedule import Band, Member, Node, Sequence, leaves, sequence_of


def hoist(node: Node) -> Node:
    """The tree with statements that have one value in the last members of a band before or after
    those loops: legal or not, so the result must be checked.

    >>> from tc.polyhedral.schedule import Leaf, Value, to_text
    >>> k = Member("k", {"S": Value("k"), "S.init": Value(None, 0)}, False)
    >>> print(to_text(hoist(Band((k,), True, Sequence((Leaf("S.init"), Leaf("S")))))))
    sequence
      S.init
      band [k] permutable
        S
    """
    match node:
        case Band(members=members, permutable=permutable, child=child):
            child = hoist(child)
            if not isinstance(child, Sequence) or not members:
                return Band(members, permutable, child)
            first, inside, last = _parts(child, members[-1])
            if not (first or last) or not inside:
                return Band(members, permutable, child)
            loop = Band(members[-1:], permutable, sequence_of(inside))
            parts = sequence_of([*first, loop, *last])
            rest = members[:-1]
            return hoist(Band(rest, permutable, parts)) if rest else parts
        case Sequence(children=children):
            return sequence_of([hoist(child) for child in children])
        case _:
            return node


def _parts(node: Sequence, member: Member) -> tuple[list[Node], list[Node], list[Node]]:
    """The leading children that run once, those that do not, and the trailing ones that do."""
    once = [all(member.values[n].variable is None for n in leaves(c)) for c in node.children]
    start = next((i for i, o in enumerate(once) if not o), len(once))
    end = len(once) - next((i for i, o in enumerate(reversed(once)) if not o), 0)
    children = list(node.children)
    return children[:start], children[start:end], children[end:]
