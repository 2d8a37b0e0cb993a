"""What a schedule tree does, by brute force: the instances in the order in which it runs them, the
elements that each touches, and whether order and flags are right.

Independent of `tc.polyhedral.scop.dependences` and of isl: elements come from evaluating the
subscripts of the program, guards included, and the order from the definition of a member's digit.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from tc.plan import PARALLEL, VECTOR
from tc.polyhedral.schedule import Band, Expansion, Leaf, Member, Node, Promotion, Sequence
from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.semantics.program import Expr, Read, walk
from tc.semantics.ranges.accesses import accesses_of
from tc.semantics.size_values import KnownSizes, evaluate

Element: TypeAlias = tuple[str, tuple[int, ...]]
Key: TypeAlias = tuple[int, ...]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Touch:
    """An element that an instance touches; `key` is the place of the instance in the tree."""

    statement: str
    key: Key
    element: Element
    writes: bool


@dataclass(frozen=True)
class Claim:
    """A member that is at `depth` in the keys of the statements below, and those keys' prefix."""

    band: Band
    place: int
    prefix: int  # the depth of the first member of the band
    statements: frozenset[str]

    @property
    def member(self) -> Member:
        return self.band.members[self.place]

    @property
    def depth(self) -> int:
        return self.prefix + self.place


def instances(tree: Node, scop: Scop) -> list[tuple[Key, str, dict[str, int]]]:
    """All instances with their keys, in the order of execution."""
    found = []
    for name, steps in _paths(tree, ()):
        statement = scop.statement(name)
        for point in points(statement):
            found.append((tuple(_key(steps, name, point)), name, point))
    return sorted(found, key=lambda run: run[0])


def points(statement: ScopStatement) -> Iterator[dict[str, int]]:
    ranges = (range(*statement.ranges[v]) for v in statement.variables)
    for values in itertools.product(*ranges):
        yield dict(zip(statement.variables, values, strict=True))


def faults(tree: Node, scop: Scop) -> list[str]:
    """What is wrong with a tree: instances left out or run together, pairs in the wrong order,
    wrong flags and roles."""
    runs = instances(tree, scop)
    wanted = {(s.name, tuple(p.values())) for s in scop.statements for p in points(s)}
    ran = [(name, tuple(point.values())) for _, name, point in runs]
    if len(ran) != len(wanted) or set(ran) != wanted:
        return ["instances left out or repeated"]
    if len({key for key, _, _ in runs}) != len(runs):
        return ["instances run together"]
    touches = [
        replace(touch, key=key)
        for key, name, point in runs
        for touch in touches_of(scop, name, point)
    ]
    result = list(_order_faults(touches, scop))
    for claim in _claims(tree, 0):
        result += _claim_faults(claim, touches, scop)
    return result


# --- the order of execution ---------------------------------------------------------------------


def _paths(
    node: Node, steps: tuple[Member | int, ...]
) -> Iterator[tuple[str, tuple[Member | int, ...]]]:
    match node:
        case Leaf(statement=name):
            yield name, steps
        case Band(members=members, child=child):
            yield from _paths(child, steps + members)
        case Sequence(children=children):
            for place, child in enumerate(children):
                yield from _paths(child, (*steps, place))
        case Promotion(child=child) | Expansion(child=child):
            yield from _paths(child, steps)


def _key(steps: tuple[Member | int, ...], name: str, point: Mapping[str, int]) -> Iterator[int]:
    for step in steps:
        yield step if isinstance(step, int) else digit(step, name, point)


def digit(member: Member, name: str, point: Mapping[str, int]) -> int:
    value = member.values[name]
    number = value.offset + (point[value.variable] if value.variable else 0) - member.origin
    if member.span is not None:
        number %= member.span
    return number // member.step


# --- the elements touched -----------------------------------------------------------------------


def touches_of(scop: Scop, name: str, point: dict[str, int]) -> Iterator[Touch]:
    """The touches of an instance, without their keys."""
    statement = scop.statement(name)
    shaped = scop.shaped
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars).at(point)
    if statement.kind == "zero":
        yield Touch(name, (), (statement.write.tensor, tuple(point.values())), True)
        return
    program = shaped.statements[statement.position].statement
    for element in _elements(program.target, program.subscripts, known):
        yield Touch(name, (), element, True)
    if statement.kind == "init":
        return
    guards = {r.read.site: r.guards for r in accesses_of(program).reads}
    for read in walk(program.rhs):
        if not isinstance(read, Read) or read.tensor in shaped.scalars:
            continue
        values = (
            (evaluate(condition, known), wanted) for condition, wanted in guards.get(read.site, ())
        )
        if all(value is None or bool(value) == wanted for value, wanted in values):
            for element in _elements(read.tensor, read.subscripts, known):
                yield Touch(name, (), element, False)


def _elements(tensor: str, subscripts: tuple[Expr, ...], known: KnownSizes) -> Iterator[Element]:
    """The elements that subscripts may name: any in a dimension where only data tell."""
    places = []
    for subscript, extent in zip(subscripts, known.shapes[tensor], strict=True):
        value = evaluate(subscript, known)
        places.append([v for v in range(extent) if value is None or v == value])
    return ((tensor, place) for place in itertools.product(*places))


# --- what is wrong ------------------------------------------------------------------------------


def _order_faults(touches: list[Touch], scop: Scop) -> Iterator[str]:
    """Instances of different statements that touch one element run in text order."""
    for element, group in _grouped(touches, lambda t: t.element).items():
        for first, second in _pairs(group, scop):
            if max(t.key for t in first) > min(t.key for t in second):
                yield f"{first[0].statement} runs after {second[0].statement} on {element}"


def _claim_faults(claim: Claim, touches: list[Touch], scop: Scop) -> Iterator[str]:
    member, below = claim.member, [t for t in touches if t.statement in claim.statements]
    needs_all = member.coincident or member.role == PARALLEL
    if needs_all or member.role == VECTOR:
        for group in _grouped(below, lambda t: (t.element, t.key[: claim.depth])).values():
            parts = [(*first, *second) for first, second in _pairs(group, scop)]
            if needs_all:
                parts += [own for own in _accumulating(group, scop) if own]
            for part in parts:
                if len({t.key[claim.depth] for t in part}) > 1:
                    yield f"[{member}] differs among {sorted({t.statement for t in part})}"
    if claim.band.permutable and claim.place > 0:
        for group in _grouped(below, lambda t: (t.element, t.key[: claim.prefix])).values():
            for first, second in _pairs(group, scop):
                latest = max(t.key[claim.depth] for t in first)
                if latest > min(t.key[claim.depth] for t in second):
                    yield f"[{member}] goes backward in a permutable band"


def _pairs(group: list[Touch], scop: Scop) -> Iterator[tuple[list[Touch], list[Touch]]]:
    """Pairs of touches of one element by two statements, in text order; one of the two writes."""
    by_statement = _grouped(group, lambda t: t.statement)
    order = [s.name for s in scop.statements if s.name in by_statement]
    for first, second in itertools.combinations(order, 2):
        a, b = by_statement[first], by_statement[second]
        writes_a, writes_b = [t for t in a if t.writes], [t for t in b if t.writes]
        if writes_a:
            yield writes_a, b
        if writes_b:
            yield a, writes_b


def _accumulating(group: list[Touch], scop: Scop) -> Iterator[tuple[Touch, ...]]:
    """Groups of writes of one element by one accumulating statement."""
    for name, own in _grouped(group, lambda t: t.statement).items():
        if scop.statement(name).accumulates:
            yield tuple(t for t in own if t.writes)


def _grouped(touches: Iterable[Touch], key: Callable[[Touch], K]) -> dict[K, list[Touch]]:
    groups: dict[K, list[Touch]] = defaultdict(list)
    for touch in touches:
        groups[key(touch)].append(touch)
    return groups


def _claims(node: Node, depth: int) -> Iterator[Claim]:
    match node:
        case Leaf():
            return
        case Band(members=members, child=child):
            below = frozenset(name for name, _ in _paths(child, ()))
            for place in range(len(members)):
                yield Claim(node, place, depth, below)
            yield from _claims(child, depth + len(members))
        case Sequence(children=children):
            for child in children:
                yield from _claims(child, depth + 1)
        case Promotion(child=child) | Expansion(child=child):
            yield from _claims(child, depth)
