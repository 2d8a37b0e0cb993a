"""Whether a schedule tree runs each instance once, in an order that all dependences allow.

`respects` walks each dependence down the path that its two statements share. At a member, the
digits of sink and source are compared: mostly they are equal in all pairs, which the relation
tells at once, and the walk goes on; otherwise isl keeps the pairs that are equal so far, and none
may go backward. At the sequence where the paths part, the source must come first. What the tree
claims is checked on the same walk: coincident members, permutable bands, and roles.

Every tree is checked before it is used, so that a pass that breaks one is an internal error and
never a wrong number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc import sets
from tc.errors import InternalError
from tc.plan import AXES, BLOCK, MMA, MMA_TF32, PARALLEL, SERIAL, THREAD, UNROLL, VECTOR
from tc.polyhedral import schedule
from tc.polyhedral.instance_pairs import InstancePair
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Sequence,
    leaves,
    members_below,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import SINK, SOURCE, Relation
from tc.polyhedral.scop.scop import Scop, ScopStatement

Path: TypeAlias = "tuple[Step, ...]"

SplitDigit: TypeAlias = "tuple[str, str, int]"
"""A statement, and the name and the step of a digit of its reduction."""


@dataclass(frozen=True, slots=True)
class Step:
    """A place on the way to a leaf: the member of a band, or the child of a sequence, of that
    number. Two paths share a step where it is of the very same node."""

    node: Node
    place: int


def respects(tree: Node, dependences: Dependences, *, expanded: bool = False) -> str | None:
    """Why a tree may not be run: a reason with two instances, or None where it may.

    A member with the role "parallel", "block", "thread" or "vector" must be coincident, but the
    lanes of a vector may also share a relaxed reduction, as may with `expanded` the iterations of a
    parallel loop: each then needs an accumulator of its own. An unrolled loop keeps its order and
    needs nothing, and neither do threads that run the digits of a split reduction.
    """
    fault = coverage_fault(tree, dependences.scop)
    if fault is not None:
        return fault
    paths, split = dict(_paths(tree, ())), _split_digits(tree)
    for dependence in dependences.all:
        walk = _Walk(dependence, paths, expanded=expanded, split=split)
        try:
            fault = walk.fault()
        except sets.TooComplex:
            fault = (
                f"the dependence of {dependence.sink} on {dependence.source} through "
                f"{dependence.tensor} is too complex to be checked"
            )
        if fault is not None:
            return fault
    return _expansion_fault(tree, dependences)


def check_schedule(tree: Node, dependences: Dependences) -> None:
    """Raises InternalError, with the tree, where `respects` finds a reason."""
    reason = respects(tree, dependences)
    if reason is not None:
        raise InternalError(f"a schedule is not legal: {reason}\n{to_text(tree, '  ')}")


def annotated(tree: Node, dependences: Dependences) -> Node:
    """The tree with its flags computed anew: which members are coincident, which bands
    permutable. The order that it gives must be legal; roles are kept."""
    differing: set[tuple[int, int]] = set()
    backward: set[int] = set()
    paths = dict(_paths(tree, ()))
    for dependence in dependences.all:
        walk = _Walk(dependence, paths, expanded=True)
        for band, member in walk.common:
            differs, goes_back = walk.at(band, member)
            if differs:
                differing.add((id(band), id(member)))
            if goes_back and not dependence.relaxed:
                backward.add(id(band))

    def flagged(node: Node) -> Node:
        below = schedule.map_children(node, flagged)
        if not isinstance(below, Band):
            return below
        members = (replace(m, coincident=(id(node), id(m)) not in differing) for m in below.members)
        return Band(tuple(members), id(node) not in backward, below.child)

    return flagged(tree)


# --- the walk ---------------------------------------------------------------------------------


def _paths(node: Node, path: Path) -> Iterator[tuple[str, Path]]:
    """The statements of a tree with the steps that lead to each."""
    if isinstance(node, Leaf):
        yield node.statement, path
    own = tuple(Step(node, i) for i in range(len(node.members))) if isinstance(node, Band) else ()
    for place, child in enumerate(schedule.children(node)):
        here = (Step(node, place),) if isinstance(node, Sequence) else own
        yield from _paths(child, path + here)


class _Walk:
    """One dependence on its way down the tree.

    `common` are the members that its statements share, `parting` the places of the source and
    the sink in the sequence where their paths part. `passed` are the members so far whose digits
    are not surely equal, `outside` those of them outside of the band that was entered last. `split`
    has the digits of reductions with accumulators apart.
    """

    def __init__(
        self,
        dependence: Dependence,
        paths: Mapping[str, Path],
        *,
        expanded: bool,
        split: frozenset[SplitDigit] = frozenset(),
    ) -> None:
        self.dependence = dependence
        self.split = split
        self.relation: Relation = dependence.relation
        self.expanded = expanded
        self.common, self.parting = _common(paths[dependence.source], paths[dependence.sink])
        self.passed: list[Member] = []
        self.band: Band | None = None
        self.outside: list[Member] = []

    def fault(self) -> str | None:
        relaxed = self.dependence.relaxed
        claimed = [self._is_claimed(member) for _, member in self.common]
        if relaxed and not any(claimed):
            return None
        for (band, member), is_claimed in zip(self.common, claimed, strict=True):
            if self._surely_equal(member):
                continue
            self._enter(band)
            if is_claimed:
                pair = self._pairs(self.passed, member, "!=")
                if pair is not None:
                    what = "coincident" if member.coincident else f"fit to be {member.role}"
                    if relaxed and member.role == THREAD and not member.coincident:
                        what += f", which needs a split of {self.dependence.sink}"
                    return f"{self._shown(pair)} in two iterations of [{member}], said to be {what}"
            if not relaxed:
                pair = self._pairs(self.passed, member, ">")
                if pair is not None:
                    return f"{self._shown(pair)} in the wrong order along [{member}]"
                pair = self._swapped(band, member)
                if pair is not None:
                    return (
                        f"{self._shown(pair)} in the wrong order along [{member}] once it is the "
                        "outermost of its band, said to be permutable"
                    )
            self.passed.append(member)
        return None if relaxed else self._fault_at_parting()

    def at(self, band: Band, member: Member) -> tuple[bool, bool]:
        """Whether some pairs differ at a member, and whether some go backward in its band; the
        members of `common` are asked for in order."""
        if self._surely_equal(member):
            return False, False
        self._enter(band)
        differs = self._pairs(self.passed, member, "!=") is not None
        goes_back = self._pairs(self.outside, member, ">") is not None
        self.passed.append(member)
        return differs, goes_back

    def _fault_at_parting(self) -> str | None:
        source, sink = self.parting
        if source < sink:
            return None
        pair = self.relation.example(self._equal(self.passed))
        return None if pair is None else f"{self._shown(pair)} in the wrong order of a sequence"

    def _swapped(self, band: Band, member: Member) -> InstancePair | None:
        """Two instances that go backward in a member of a permutable band."""
        if len(self.outside) == len(self.passed) or not band.permutable:
            return None
        return self._pairs(self.outside, member, ">")

    def _is_claimed(self, member: Member) -> bool:
        relaxed = self.dependence.relaxed
        return (
            member.coincident
            or member.role == BLOCK
            or (member.role == THREAD and not (relaxed and self._is_split(member)))
            or (member.role == VECTOR and not relaxed)
            or (member.role == PARALLEL and not (relaxed and self.expanded))
        )

    def _is_split(self, member: Member) -> bool:
        """Whether the dependence is that of a reduction on itself which has an accumulator for each
        iteration of a member."""
        source, sink = self.dependence.source, self.dependence.sink
        return source == sink and (source, member.name, member.step) in self.split

    def _surely_equal(self, member: Member) -> bool:
        source, sink = (
            member.values[name] for name in (self.dependence.source, self.dependence.sink)
        )
        return self.relation.shift(source, sink) == 0

    def _enter(self, band: Band) -> None:
        if band is not self.band:
            self.band, self.outside = band, list(self.passed)

    def _pairs(self, outside: list[Member], member: Member, op: str) -> InstancePair | None:
        """Two instances, equal in the members outside, whose digits compare so."""
        points = self._equal(outside)
        with sets.bounded():
            digits = (self._digit(side, member) for side in (SOURCE, SINK))
            points = points.intersect(sets.compare(op, *digits))
        return self.relation.example(points)

    def _equal(self, members: Iterable[Member]) -> sets.Points:
        points = self.relation.points
        with sets.bounded():
            for member in members:
                digits = (self._digit(side, member) for side in (SOURCE, SINK))
                points = points.intersect(sets.compare("==", *digits))
            return points

    def _digit(self, side: int, member: Member) -> sets.Function:
        name = self.dependence.sink if side == SINK else self.dependence.source
        space = self.relation.space
        value = self.relation.function(side, member.values[name])
        digit = sets.subtract(value, space.constant(member.origin))
        if member.span is not None:
            digit = sets.remainder(space, digit, member.span)
        return digit if member.step == 1 else sets.floor_divide(space, digit, member.step)

    def _shown(self, pair: InstancePair) -> str:
        source, sink = pair
        first = instance_label(self.dependence.source, source)
        second = instance_label(self.dependence.sink, sink)
        return f"{first} and {second}, which touch one element of {self.dependence.tensor}, run"


def _split_digits(tree: Node) -> frozenset[SplitDigit]:
    """The digits of all reductions that have accumulators apart."""
    return frozenset(
        (node.statement, digit.name, digit.step)
        for node in schedule.nodes(tree)
        if isinstance(node, Expansion)
        for digit in node.digits
    )


def _common(first: Path, second: Path) -> tuple[list[tuple[Band, Member]], tuple[int, int]]:
    """The members that two paths share, and the places where they part."""
    shared: list[tuple[Band, Member]] = []
    for a, b in zip(first, second, strict=False):
        if a.node is not b.node or a.place != b.place:
            return shared, (a.place, b.place)
        if isinstance(a.node, Band):
            shared.append((a.node, a.node.members[a.place]))
    return shared, (0, 0)


def instance_label(statement: str, point: Mapping[str, int]) -> str:
    """An instance as messages show it."""
    return f"{statement}({', '.join(f'{name}={value}' for name, value in point.items())})"


def _expansion_fault(tree: Node, dependences: Dependences) -> str | None:
    """Why accumulators may not stand apart from their tensor: another statement touches it."""
    for node in schedule.nodes(tree):
        if not isinstance(node, Expansion):
            continue
        tensor = dependences.scop.statement(node.statement).write.tensor
        for other in schedule.leaves(node.child):
            touched = {a.tensor for a in dependences.scop.statement(other).accesses}
            if other != node.statement and tensor in touched:
                return f"{other} touches {tensor} while {node.statement} accumulates apart from it"
    return None


# --- each instance exactly once ---------------------------------------------------------------

ROLES = (SERIAL, PARALLEL, UNROLL, VECTOR, BLOCK, THREAD, MMA, MMA_TF32)


def coverage_fault(tree: Node, scop: Scop) -> str | None:
    """Why a tree does not run each instance exactly once, None where it does."""
    statements = {s.name: s for s in scop.statements}
    found = Counter(leaves(tree))
    for name in (*statements, *found):
        if found[name] != 1 or name not in statements:
            where = "" if name in statements else ", which the scop does not have"
            return f"{name} has {found[name]} leaves{where}"
    faults = (_members_fault(statements[name], m) for name, m in members_below(tree).items())
    return next(filter(None, faults), None)


def _members_fault(statement: ScopStatement, members: tuple[Member, ...]) -> str | None:
    digits: dict[str, list[Member]] = {name: [] for name in statement.variables}
    for member in members:
        value = member.values.get(statement.name)
        if value is None:
            return f"[{member}] gives {statement.name} no value"
        if not _is_well_formed(member):
            return f"[{member}] is no digit: its step, span or role makes no sense"
        if value.variable is None:
            least = value.offset
        elif value.variable in digits:
            digits[value.variable].append(member)
            least = statement.ranges[value.variable][0] + value.offset
        else:
            return f"[{member}] runs along {value.variable}, which {statement.name} does not have"
        if least < member.origin:
            return f"[{member}] begins after {statement.name} does, at {least}"
    faults = (_digits_fault(statement, name, found) for name, found in digits.items())
    return next(filter(None, faults), None)


def _is_well_formed(member: Member) -> bool:
    span = member.span
    is_digit = member.step >= 1 and (span is None or (span > 0 and span % member.step == 0))
    if member.role in (BLOCK, THREAD):
        is_bound = member.axis in AXES and (member.count is None or member.count >= 1)
    else:
        is_bound = member.axis is None and member.count is None
    return is_digit and member.role in ROLES and is_bound


def _digits_fault(statement: ScopStatement, variable: str, digits: list[Member]) -> str | None:
    """Why the digits do not make up the values of a variable; one that has a single value needs
    none."""
    begin, end = statement.ranges[variable]
    if not digits:
        if end - begin <= 1:
            return None
        return f"no member runs along {variable} of {statement.name}"
    starts = {m.values[statement.name].offset - m.origin for m in digits}
    if len(starts) > 1:
        return f"the digits of {variable} of {statement.name} have different origins"
    largest = end - 1 + starts.pop()
    moving = sorted((m for m in digits if m.span != m.step), key=lambda m: m.step, reverse=True)
    spans = [m.span if m.span is not None else largest + 1 for m in moving]
    steps = [m.step for m in moving]
    if largest == 0 or (steps and spans[0] > largest and spans[1:] + [1] == steps):
        return None
    listed = ", ".join(f"[{m}]" for m in digits)
    return f"the digits {listed} do not make up {variable} of {statement.name}"
