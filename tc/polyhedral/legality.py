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

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc import sets
from tc.errors import InternalError
from tc.plan import PARALLEL, VECTOR
from tc.polyhedral.coverage import coverage_fault
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Sequence,
    children,
    leaves,
    nodes,
    to_text,
    with_children,
)
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import SINK, SOURCE, Relation

Path: TypeAlias = "tuple[Step, ...]"
InstancePair: TypeAlias = tuple[dict[str, int], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Step:
    """A place on the way to a leaf: a member of a band, or a child of a sequence.

    `node` numbers the node, `place` the member in its band or the child in its sequence; two paths
    share a step where both agree.
    """

    node: int
    place: int
    band: Band | None
    member: Member | None


def respects(tree: Node, dependences: Dependences, *, expanded: bool = False) -> str | None:
    """Why a tree may not be run: a reason with two instances, or None where it may.

    A member with the role "parallel" or "vector" must be coincident, but the lanes of a vector may
    also share a relaxed reduction, as may with `expanded` the iterations of a parallel loop: each
    then needs an accumulator of its own. An unrolled loop keeps its order and needs nothing.
    """
    fault = coverage_fault(tree, dependences.scop)
    if fault is not None:
        return fault
    paths = dict(_paths(tree, (), itertools.count()))
    for dependence in dependences.all:
        walk = _Walk(dependence, paths, expanded=expanded)
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
    paths = dict(_paths(tree, (), itertools.count()))
    for dependence in dependences.all:
        walk = _Walk(dependence, paths, expanded=True)
        for step, member in walk.common:
            differs, goes_back = walk.at(step, member)
            if differs:
                differing.add((step.node, step.place))
            if goes_back and not dependence.relaxed:
                backward.add(step.node)
    return _flagged(tree, itertools.count(), differing, backward)


# --- the walk ---------------------------------------------------------------------------------


def _paths(node: Node, path: Path, numbers: Iterator[int]) -> Iterator[tuple[str, Path]]:
    """The statements of a tree with the steps that lead to each; nodes are numbered in the order
    of a walk from the root."""
    number = next(numbers)
    if isinstance(node, Leaf):
        yield node.statement, path
    for place, child in enumerate(children(node)):
        yield from _paths(child, path + _steps(node, number, place), numbers)


def _steps(node: Node, number: int, place: int) -> Path:
    """Those from a node to one of its children."""
    match node:
        case Band(members=members):
            return tuple(Step(number, i, node, member) for i, member in enumerate(members))
        case Sequence():
            return (Step(number, place, None, None),)
        case _:
            return ()


def _flagged(
    node: Node,
    numbers: Iterator[int],
    differing: Container[tuple[int, int]],
    backward: Container[int],
) -> Node:
    number = next(numbers)
    below = (_flagged(child, numbers, differing, backward) for child in children(node))
    new = with_children(node, tuple(below))
    if not isinstance(new, Band):
        return new
    marked = tuple(
        replace(member, coincident=(number, place) not in differing)
        for place, member in enumerate(new.members)
    )
    return Band(marked, number not in backward, new.child)


class _Walk:
    """One dependence on its way down the tree.

    `common` are the members that its statements share, `parting` the places of the source and
    the sink in the sequence where their paths part. `passed` are the members so far whose digits
    are not surely equal, `outside` those of them outside of the band that was entered last.
    """

    def __init__(
        self, dependence: Dependence, paths: Mapping[str, Path], *, expanded: bool
    ) -> None:
        self.dependence = dependence
        self.relation: Relation = dependence.relation
        self.expanded = expanded
        self.common, self.parting = _common(paths[dependence.source], paths[dependence.sink])
        self.passed: list[Member] = []
        self.band = -1
        self.outside: list[Member] = []

    def fault(self) -> str | None:
        relaxed = self.dependence.relaxed
        claimed = [self._is_claimed(member) for _, member in self.common]
        if relaxed and not any(claimed):
            return None
        for (step, member), is_claimed in zip(self.common, claimed, strict=True):
            if self._surely_equal(member):
                continue
            self._enter(step)
            if is_claimed:
                pair = self._pairs(self.passed, member, "!=")
                if pair is not None:
                    what = "coincident" if member.coincident else f"fit to be {member.role}"
                    return f"{self._shown(pair)} in two iterations of [{member}], said to be {what}"
            if not relaxed:
                pair = self._pairs(self.passed, member, ">")
                if pair is not None:
                    return f"{self._shown(pair)} in the wrong order along [{member}]"
                pair = self._swapped(step, member)
                if pair is not None:
                    return (
                        f"{self._shown(pair)} in the wrong order along [{member}] once it is the "
                        "outermost of its band, said to be permutable"
                    )
            self.passed.append(member)
        return None if relaxed else self._fault_at_parting()

    def at(self, step: Step, member: Member) -> tuple[bool, bool]:
        """Whether some pairs differ at a member, and whether some go backward in its band; the
        members of `common` are asked for in order."""
        if self._surely_equal(member):
            return False, False
        self._enter(step)
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

    def _swapped(self, step: Step, member: Member) -> InstancePair | None:
        """Two instances that go backward in a member of a permutable band."""
        is_first = len(self.outside) == len(self.passed)
        if is_first or step.band is None or not step.band.permutable:
            return None
        return self._pairs(self.outside, member, ">")

    def _is_claimed(self, member: Member) -> bool:
        return member.coincident or self._needs_coincidence(member)

    def _needs_coincidence(self, member: Member) -> bool:
        if member.role == VECTOR:
            return not self.dependence.relaxed
        return member.role == PARALLEL and not (self.dependence.relaxed and self.expanded)

    def _surely_equal(self, member: Member) -> bool:
        source, sink = (
            member.values[name] for name in (self.dependence.source, self.dependence.sink)
        )
        return self.relation.shift(source, sink) == 0

    def _enter(self, step: Step) -> None:
        if step.node != self.band:
            self.band, self.outside = step.node, list(self.passed)

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
        first = _instance(self.dependence.source, source)
        second = _instance(self.dependence.sink, sink)
        return f"{first} and {second}, which touch one element of {self.dependence.tensor}, run"


def _common(first: Path, second: Path) -> tuple[tuple[tuple[Step, Member], ...], tuple[int, int]]:
    """The members that two paths share, and the places where they part."""
    shared: list[tuple[Step, Member]] = []
    for a, b in zip(first, second, strict=False):
        if (a.node, a.place) != (b.node, b.place):
            return tuple(shared), (a.place, b.place)
        if a.member is not None:
            shared.append((a, a.member))
    return tuple(shared), (0, 0)


def _instance(statement: str, point: Mapping[str, int]) -> str:
    return f"{statement}({', '.join(f'{name}={value}' for name, value in point.items())})"


def _expansion_fault(tree: Node, dependences: Dependences) -> str | None:
    """Why accumulators may not stand apart from their tensor: another statement touches it."""
    for node in nodes(tree):
        if not isinstance(node, Expansion):
            continue
        tensor = dependences.scop.statement(node.statement).write.tensor
        for other in leaves(node.child):
            touched = {a.tensor for a in dependences.scop.statement(other).accesses}
            if other != node.statement and tensor in touched:
                return f"{other} touches {tensor} while {node.statement} accumulates apart from it"
    return None
