"""Scheduling strategies: from dependences to a schedule tree.

"max", "min" and "preserve3coincident" fuse as `tc.polyhedral.strategies.clusters` says, and their
trees are legal by construction: shared members have equal values in every dependence within them,
and all else keeps text order. "isl" asks isl's own scheduler, and falls back to "max" with a
TCWarning. Nothing is skewed or reversed.

    band [i *, j *] permutable        the columns of a cluster, in the order of the left-hand
      sequence                        variables of its first statement
        S0.init
        band [k] permutable           the reduction of a statement
          S0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tc.errors import BackendError, TCError, render
from tc.polyhedral.legality import annotated, respects
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, Value, leaves, sequence_of
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.polyhedral.strategies.clusters import MAX, MIN, PRESERVE, Accept, Cluster, Column, Fusion
from tc.polyhedral.strategies.isl import isl_tree
from tc.process.call_sites import warn
from tc.runtime import cache

ISL = "isl"
STRATEGIES = (MAX, MIN, PRESERVE, ISL)
SECONDS = 5.0
"""How long isl's scheduler may take."""


def schedule(
    scop: Scop,
    dependences: Dependences,
    strategy: str = MAX,
    *,
    accept: Accept | None = None,
    share_reductions: bool = False,
    seconds: float = SECONDS,
) -> Node:
    """The schedule tree of a scop by a strategy (`STRATEGIES`).

    `accept(first, second, columns)` may veto a merge of two neighbouring clusters on the columns
    that they would share; the start, updates and epilogue of one tensor are not asked about. With
    `share_reductions`, a reduction inside of a shared loop may run in one loop with what computes
    its terms, and with reductions over the same elements. "isl" ignores both, and may take
    `seconds`.

    Every variable of a statement has a member, also where it has a single value.
    """
    if strategy not in STRATEGIES:
        raise BackendError(
            f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}", repair=f'"{MAX}"'
        )
    if strategy == ISL:
        found = isl_tree(dependences, seconds)
        if not isinstance(found, str):
            hoisted = hoist(found)
            is_legal = respects(hoisted, dependences) is None
            return annotated(hoisted, dependences) if is_legal else found
        cache.note_chance()  # with more time it may succeed
        cause = f'isl\'s scheduler was asked for, but {found}; the strategy "{MAX}" is used'
        warn(render("warning", TCError(cause, repair=f'ScheduleOptions(fusion="{MAX}")')))
        strategy = MAX
    fusion = Fusion(scop, dependences, strategy, accept)
    nodes = _Builder(fusion, share_reductions).nodes(
        [s.name for s in scop.statements], {s.name: () for s in scop.statements}, (), frozenset()
    )
    return nodes[0] if len(nodes) == 1 else Sequence(nodes)


@dataclass(frozen=True)
class _Builder:
    """Builds the tree from the root to the leaves."""

    fusion: Fusion
    share_reductions: bool

    def nodes(
        self,
        names: list[str],
        used: Mapping[str, tuple[str, ...]],
        outer: tuple[Column, ...],
        taken: frozenset[str],
    ) -> tuple[Node, ...]:
        """The nodes that run some statements, in order, inside of the columns `outer`.

        `used` are the variables of each statement that the members outside run along, `taken`
        the names of these members.
        """
        shares = self.share_reductions and any(column.extent > 1 for column in outer)
        if shares:
            names = self._starts_first(names, used)
        elif outer:
            names = self._starts_of_walks_first(names, used)
        single = []
        for name in names:
            statement = self.fusion.statements[name]
            wanted = _next_loops(statement, used[name])
            if shares:
                wanted = tuple(v for v in statement.variables if v not in used[name])
            left = tuple(_column(statement, v) for v in wanted)
            single.append(Cluster((name,), left, outer))
        return tuple(
            self._alone(cluster.statements[0], used, taken)
            if len(cluster.statements) == 1 and not any(map(self.fusion.reduces, cluster.columns))
            else self._band(cluster, used, taken)
            for cluster in self.fusion.clusters(single)
        )

    def _alone(self, name: str, used: Mapping[str, tuple[str, ...]], taken: frozenset[str]) -> Node:
        """A statement by itself: a band of its left-hand variables, one of its reduction's."""
        statement = self.fusion.statements[name]
        node: Node = Leaf(name)
        left = [v for v in statement.variables if v not in used[statement.name]]
        names = _fresh(left, taken)
        outer = [v for v in left if v in statement.outer]
        for part in ([v for v in left if v not in outer], outer):
            members = tuple(self._member(names[v], _column(statement, v)) for v in part)
            node = Band(members, True, node) if members else node
        return node

    def _band(
        self, cluster: Cluster, used: Mapping[str, tuple[str, ...]], taken: frozenset[str]
    ) -> Node:
        """A band of the columns that a cluster shares, and in it the statements."""
        first = cluster.statements[0]
        wanted = [c.values[first].variable or "" for c in cluster.columns]
        names = _fresh(wanted, taken)
        members = tuple(
            self._member(names[v], c) for v, c in zip(wanted, cluster.columns, strict=True)
        )
        inside = {
            name: used[name] + tuple(c.values[name].variable or "" for c in cluster.columns)
            for name in cluster.statements
        }
        children = self.nodes(
            list(cluster.statements),
            inside,
            cluster.outer + cluster.columns,
            taken | set(names.values()),
        )
        return Band(members, True, children[0] if len(children) == 1 else Sequence(children))

    def _member(self, name: str, column: Column) -> Member:
        """Shared columns are equal in all dependences but those of reductions along them."""
        is_coincident = column.extent <= 1 or not self.fusion.reduces(column)
        return Member(name, column.values, is_coincident, origin=column.begin)

    def _starts_first(self, names: list[str], used: Mapping[str, tuple[str, ...]]) -> list[str]:
        """The statements with the starts of reductions, where no loop of theirs is left, moved as
        far up as dependences allow: they do not stand between what could share a loop."""
        starts = {
            name
            for name in names
            if self.fusion.statements[name].kind == "init"
            and len(used[name]) == len(self.fusion.statements[name].outer)
        }
        order: list[str] = []
        for name in names:
            place = len(order)
            if name in starts:
                sources = {d.source for d in self.fusion.dependences.into(name)}
                place = max((i + 1 for i, other in enumerate(order) if other in sources), default=0)
                while place < len(order) and order[place] in starts:
                    place += 1
            order.insert(place, name)
        return order

    def _starts_of_walks_first(
        self, names: list[str], used: Mapping[str, tuple[str, ...]]
    ) -> list[str]:
        """The statements with the starts of sums of columns in front, inside of a loop over blocks:
        what starts a temporary may do so at any time before."""
        walks = {name: _walked(self.fusion.statements[name]) for name in names}
        starts = [
            name
            for name, rows in walks.items()
            if rows and rows == used[name] and self.fusion.statements[name].kind == "init"
        ]
        return [*starts, *(name for name in names if name not in starts)]


def _walked(statement: ScopStatement) -> tuple[str, ...]:
    """The variables by which a statement goes over the rows of a matrix: first those that count
    blocks."""
    rows = () if statement.walk is None else statement.walk.variables
    return tuple(v for v in rows if v in statement.variables)


def _next_loops(statement: ScopStatement, used: tuple[str, ...]) -> tuple[str, ...]:
    """The variables whose loops a statement may share next, inside of loops along those that are
    `used`: first blocks, then rows, then what else its target has."""
    left = tuple(v for v in _walked(statement) if v not in used)
    if not used:
        left = tuple(v for v in left if v in statement.outer)
    return left or tuple(v for v in statement.outer if v not in used)


def _column(statement: ScopStatement, variable: str) -> Column:
    begin, end = statement.ranges[variable]
    return Column({statement.name: Value(variable)}, begin, end)


def _fresh(wanted: Iterable[str], taken: frozenset[str]) -> dict[str, str]:
    """Names for loops: none is that of a loop around."""
    found: dict[str, str] = {}
    for name in wanted:
        number, text = 1, name
        while text in taken or text in found.values():
            number, text = number + 1, f"{name}{number}"
        found[name] = text
    return found


# --- statements that run once in a loop ---------------------------------------------------------
#
# isl's scheduler likes to put the start of a reduction at the first iteration of its loop, and what
# follows at the last: `band [i, j, k] / sequence [start, update, relu]`. Before and after the loop
# these statements do as well, and accumulators stay in registers.


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
