"""Loops of a schedule tree by the names that a plan gives them, and places inside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from tc.errors import BackendError
from tc.plan import THREAD
from tc.polyhedral.footprint import FreeDigit, without
from tc.polyhedral.promotion import EnclosingLoop, loops_of
from tc.polyhedral.schedule import (
    Band,
    Leaf,
    Member,
    Node,
    Sync,
    band_of,
    children,
    leaves,
    map_children,
    map_nodes,
    members,
    members_below,
    sequence_of,
)


class Edit(NamedTuple):
    """A tree after an action, and the loops that the action made, outermost first: those of the
    first place in the tree, where it made some in several. A loop is a handle: whatever other
    actions do, it is found in the tree by the digit that it is."""

    tree: Node
    loops: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopName:
    """What a plan calls a loop (see `tc.plan`), taken apart: the digit of `name`, which is the
    member's or, with a statement, that of its variable."""

    statement: str | None
    name: str
    span: int | None
    step: int

    @classmethod
    def of(cls, member: Member, statement: str | None = None) -> LoopName:
        """The name of a member; with a statement, by its variable there, if it has one."""
        variable = None if statement is None else member.values[statement].variable
        if variable is None:
            return cls(None, member.name, member.span, member.step)
        return cls(statement, variable, member.span, member.step)

    def __str__(self) -> str:
        text = self.name if self.statement is None else f"{self.statement}.{self.name}"
        text += "" if self.span is None else f" mod {self.span}"
        return text if self.step == 1 else f"{text} div {self.step}"

    def fits(self, member: Member) -> bool:
        """Whether a member is called so; of a whole loop, `i mod 8` of 8 iterations is not `i`."""
        if (member.span, member.step) != (self.span, self.step):
            return False
        if self.statement is None:
            return member.name == self.name
        value = member.values.get(self.statement)
        return value is not None and value.variable == self.name


def loop_name(text: str) -> LoopName:
    """What a plan's text for a loop says; BackendError where it names none. Trees show loops that
    begin elsewhere than at 0 as `(i-3) div 8`, which is `i div 8`.

    >>> str(loop_name("S0.init.i mod 32 div 8")), str(loop_name("(i-3) div 8"))
    ('S0.init.i mod 32 div 8', 'i div 8')
    """
    rest, step = _number_after(text, " div ")
    rest, span = _number_after(rest, " mod ")
    statement, dot, name = rest.rpartition(".")
    if name.startswith("(") and name.endswith(")"):
        shown, _, shift = name[1:-1].replace("+", "-").partition("-")
        name = shown if shift.isdecimal() else ""
    is_named = name.replace("_", "a").isalnum() and bool(statement) == bool(dot)
    if not is_named or any(map(str.isspace, statement)):
        raise BackendError(
            f"{text!r} does not name a loop: loops are called i, i div 32, i mod 32, "
            "i mod 32 div 8, or S0.i after a variable of a statement"
        )
    return LoopName(statement or None, name, span, step or 1)


def _number_after(text: str, word: str) -> tuple[str, int | None]:
    """What stands before a word, and the number that follows it; all of the text, and None, where
    no such number ends it."""
    before, _, number = text.rpartition(word)
    is_number = number.isdecimal() and not number.startswith("0")
    return (before, int(number)) if before and is_number else (text, None)


def name_of(member: Member, statement: str | None = None) -> str:
    """What a plan calls a member; with a statement, by its variable there.

    >>> from tc.polyhedral.schedule import Value, tile
    >>> name_of(tile(Member("i", {"S": Value("r")}, True), 8)[1], "S")
    'S.r mod 8'
    """
    return str(LoopName.of(member, statement))


def on_the_way(node: Node, loop: LoopName) -> bool:
    """Whether a loop of that name may stand in a tree, as it runs its statement."""
    return loop.statement is None or loop.statement in leaves(node)


def no_such_loop(loop: LoopName | str, node: Node) -> BackendError:
    """The error for a loop that is not in a tree: those that are."""
    there = ", ".join(dict.fromkeys(map(name_of, members(node)))) or "none"
    part = ", ".join(dict.fromkeys(leaves(node)))
    return BackendError(f"no loop {str(loop)!r} in {part}; the loops there are {there}")


def check_statements(names: Iterable[str], node: Node) -> None:
    """BackendError where a statement is not in a tree."""
    there = dict.fromkeys(leaves(node))
    for name in names:
        if name not in there:
            raise BackendError(f"no statement {name!r} here; there are {', '.join(there)}")


def map_bands(node: Node, change: Callable[[Band], Node | None]) -> Node:
    """The tree with bands replaced, from the root down, where `change` gives another node; what is
    given is not entered."""
    changed = change(node) if isinstance(node, Band) else None
    if changed is not None:
        return changed
    return map_children(node, lambda child: map_bands(child, change))


def map_members(node: Node, text: str, change: Callable[[Member], tuple[Member, ...]]) -> Edit:
    """The tree with other members in the place of those of a name, and those in the first place;
    BackendError if none has the name."""
    loop, made = loop_name(text), tuple[Member, ...]()

    def changed(node: Node) -> Node:
        if not isinstance(node, Band) or not on_the_way(node, loop):
            return node
        if not any(map(loop.fits, node.members)):
            return node
        nonlocal made
        new = [change(member) if loop.fits(member) else (member,) for member in node.members]
        made = made or next(n for n, m in zip(new, node.members, strict=True) if loop.fits(m))
        return replace(node, members=tuple(chain.from_iterable(new)))

    result = map_nodes(node, changed)
    if result is node:
        raise no_such_loop(text, node)
    return Edit(result, made)


def misplaced_digit(tree: Node) -> str | None:
    """Why the loops of a tree are no digits: one is outside of the tiles that it divides. Those of
    threads may be, as they make no loop."""
    for statement, inside in members_below(tree).items():
        free: dict[str, tuple[FreeDigit, ...]] = {}
        for member in inside:
            variable = member.values[statement].variable
            if variable is None or member.step == member.span:  # which is always 0
                continue
            before = free.get(variable, (FreeDigit(1),))
            after = without(before, member.step, member.span)
            above = before[0].end if before else 1
            if after is None and member.span is None:
                return f"the loop {name_of(member)} of {statement} is inside of its own tiles"
            if after is None or (member.role != THREAD and member.span != above):
                where = "outside of the tiles that it divides"
                return f"the loop {name_of(member)} of {statement} is {where}"
            free[variable] = after
    return None


# --- places -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreePlace:
    """A place in a tree: just above `node`, below the loops `around`, outermost first; `put` gives
    the tree with another node there."""

    node: Node
    around: tuple[EnclosingLoop, ...]
    put: Callable[[Node], Node]

    def child_place(self, number: int) -> TreePlace:
        """The place of a child of the node."""
        node, child = self.node, children(self.node)[number]

        def put(new: Node) -> Node:
            return self.put(map_children(node, lambda c: new if c is child else c))

        return TreePlace(child, (*self.around, *loops_of(node)), put)

    def around_some(self, statements: set[str]) -> TreePlace | None:
        """The place of the child, or of several that follow each other, that run statements; None
        where these are all."""
        found = children(self.node)
        some = [i for i, child in enumerate(found) if statements & set(leaves(child))]
        first, last = some[0], some[-1] + 1
        if len(some) == 1:
            return self.child_place(first)

        def put(new: Node) -> Node:
            return self.put(sequence_of((*found[:first], new, *found[last:])))

        alone = last - first < len(found)
        return TreePlace(sequence_of(found[first:last]), self.around, put) if alone else None

    def inside(self, member: int) -> TreePlace:
        """The place just inside of a member of the node, a band."""
        band = self.node
        assert isinstance(band, Band)
        before, after = band.members[: member + 1], band.members[member + 1 :]

        def put(new: Node) -> Node:
            return self.put(replace(band, members=before, child=new))

        rest = band_of(after, band.permutable, band.child)
        return TreePlace(rest, (*self.around, *loops_of(band)[: member + 1]), put)


def place_inside(tree: Node, inside: LoopName | None, statements: tuple[str, ...]) -> TreePlace:
    """The place just inside of a loop (None: around the whole tree), on the way to statements, if
    any are named: then only these run below.

    Raises BackendError for names that do not exist, a loop that stands in several places, and a
    place where other statements run, too.
    """
    check_statements(statements, tree)
    wanted = set(statements)
    found = [TreePlace(tree, (), lambda new: new)]
    if inside is not None:
        every = list(_inside(found[0], inside))
        found = [place for place in every if wanted <= set(leaves(place.node))]
        if not found:
            raise no_such_loop(inside, tree)
    if len(found) > 1:
        names = [", ".join(leaves(place.node)) for place in found]
        raise BackendError(
            f"{str(inside)!r} is {len(found)} loops: around {'; around '.join(names)}"
        )
    place = found[0]
    while wanted and wanted != set(leaves(place.node)):
        inner = None if isinstance(place.node, Band) else place.around_some(wanted)
        if inner is None:
            others = ", ".join(n for n in leaves(place.node) if n not in wanted)
            where = "outside of all loops" if inside is None else f"inside of {inside}"
            raise BackendError(f"{where}, {others} runs together with {', '.join(statements)}")
        place = inner
    return place


def _inside(place: TreePlace, loop: LoopName) -> Iterator[TreePlace]:
    """The places just inside of loops of a name."""
    node = place.node
    if isinstance(node, Band) and on_the_way(node, loop):
        for number, member in enumerate(node.members):
            if loop.fits(member):
                yield place.inside(number)
    for number, child in enumerate(children(node)):
        if not isinstance(child, Leaf | Sync):
            yield from _inside(place.child_place(number), loop)
