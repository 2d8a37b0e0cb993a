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
            parts = child.children if isinstance(child, Sequence) and members else ()
            inside = [i for i, part in enumerate(parts) if _runs_along(part, members[-1])]
            if not inside or inside[-1] - inside[0] + 1 == len(parts):
                return Band(members, permutable, child)
            begin, end, rest = inside[0], inside[-1] + 1, members[:-1]
            loop = Band(members[-1:], permutable, sequence_of(parts[begin:end]))
            whole = sequence_of((*parts[:begin], loop, *parts[end:]))
            return hoist(Band(rest, permutable, whole)) if rest else whole
        case Sequence(children=children):
            return sequence_of(map(hoist, children))
        case _:
            return node


def _runs_along(node: Node, member: Member) -> bool:
    return any(member.values[name].variable is not None for name in leaves(node))
