"""Promotion: a tile of a tensor is held in a buffer while some statements run.

A reference group is all accesses to one tensor below a node of a schedule tree; it can be promoted
if a box of fixed size that moves with the loops around holds all that they touch. What must be
copied, and what may not be, follows from the tree and the accesses alone; where a tile lies, how
its buffer is laid out and how it is copied is for others to say (`tc.plan.Promote`).
(Vasilache et al. 2018, arXiv:1802.04730, section 5.3.)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import prod

from tc.affine.forms import Form, constant_form
from tc.affine.intervals import surely
from tc.plan import ASYNC, BLOCK, PARALLEL, REGISTER, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.codegen.thread_sums import Axes, Replicas, replicas_of
from tc.polyhedral.footprint import (
    Box,
    Digits,
    Position,
    Steps,
    box,
    contains,
    digits_of,
    enter,
    repeats,
    start,
    taken,
    trips_of,
    whole,
)
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Expansion,
    Member,
    Node,
    Promotion,
    own_of_threads,
)
from tc.polyhedral.scop.scop import Access, HalfOpen, Scop, ScopStatement, all_written, subtract


@dataclass(frozen=True, slots=True)
class EnclosingLoop:
    """A member around a place, and the statements below its band."""

    member: Member
    statements: tuple[str, ...]


def loops_of(node: Node) -> tuple[EnclosingLoop, ...]:
    """The members of a band, each with the statements that it runs; none of another node."""
    if not isinstance(node, Band):
        return ()
    names = tuple(schedule.leaves(node))
    return tuple(EnclosingLoop(member, names) for member in node.members)


@dataclass(frozen=True)
class Footprint:
    """What the statements below a place touch: `around` are the loops around it, outermost first,
    `inside` the members between it and each leaf. Of what threads share, the loops around whose
    iterations these are count as inside; they are the loops `shared`. Of what each thread has for
    itself, the loops inside of which a thread has one iteration count as around; they are the loops
    `own` of each statement."""

    scop: Scop
    around: tuple[EnclosingLoop, ...]
    inside: Mapping[str, tuple[Member, ...]]
    shared: tuple[EnclosingLoop, ...] = ()
    own: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)

    def of(self, scope: str) -> Footprint:
        """What a tile in a memory scope holds: where threads share it, what all of them touch; in
        registers, what each of them touches."""
        if scope == REGISTER:
            outside = {
                name: [loop.member for loop in self.around if name in loop.statements]
                for name in self.inside
            }
            fixed = {
                name: tuple(m for m in own_of_threads((*outside[name], *members)) if m in members)
                for name, members in self.inside.items()
            }
            left = {
                name: tuple(m for m in members if m not in fixed[name])
                for name, members in self.inside.items()
            }
            return replace(self, inside=left, own=fixed)
        if scope != SHARED:
            return self
        own = tuple(loop for loop in self.around if loop.member.role == THREAD)
        inside = {
            name: (*(loop.member for loop in own if name in loop.statements), *members)
            for name, members in self.inside.items()
        }
        around = tuple(loop for loop in self.around if loop.member.role != THREAD)
        return Footprint(self.scop, around, inside, own)

    def users(self, tensor: str) -> list[ScopStatement]:
        """The statements below that touch a tensor, in text order."""
        return [s for s in self.scop.users(tensor) if s.name in self.inside]

    def box(self, tensor: str, *, tails: bool = False) -> Box | None:
        """The box of what is touched of a tensor; None if it has no fixed size or place. With
        `tails`, of what lies beyond the ends of ranges, too, where tiles below are not full."""
        accesses = []
        for s in self.users(tensor):
            position = self.position(s)
            if tails:
                position = {v: self._with_tails(v, d, s) for v, d in position.items()}
            accesses += [(a, position) for a in s.promotable if a.tensor == tensor]
        return box(accesses)

    def position(self, statement: ScopStatement) -> Position:
        """Where the walk that makes the loops will stand at the place."""
        position: Position = start(statement)
        for number, loop in enumerate(self.around):
            member = loop.member
            trips = self.trips(loop)
            form = Form(0, {_digit(number): 1} if repeats(trips) else {})
            position = enter(position, member, statement.name, form, trips)
        for member in self.own.get(statement.name, ()):
            trips = self.threads(member)
            form = Form(0, {_number(member): 1} if repeats(trips) else {})
            position = enter(position, member, statement.name, form, trips)
        return position

    def threads(self, member: Member) -> int:
        """How many threads run a loop of which each has one iteration."""
        names = [name for name, members in self.own.items() if member in members]
        return trips_of(member, map(self.scop.statement, names))

    def trips(self, loop: EnclosingLoop) -> int:
        """How many iterations a loop around has."""
        statements = map(self.scop.statement, loop.statements)
        return trips_of(loop.member, statements)

    def instances(self, statement: ScopStatement) -> int:
        """How often a statement runs below the place, as often as in whole tiles."""
        return prod(
            min(trips_of(m, [statement]), m.span // m.step if m.span else 1 << 62)
            for m in self.inside[statement.name]
        )

    def _with_tails(self, variable: str, digits: Digits, statement: ScopStatement) -> Digits:
        """The values of a variable with those of whole tiles: from where the first begins."""
        for member in self.inside[statement.name]:
            value = member.values[statement.name]
            if value.variable != variable or member.span is not None or member.step == 1:
                continue
            names = [n for n, inside in self.inside.items() if member in inside]
            tiles = trips_of(member, map(self.scop.statement, names))
            first = constant_form(member.origin - value.offset)
            return replace(digits, base=first, extent=tiles * member.step)
        return digits

    def runs_always(self, statement: ScopStatement) -> bool:
        """Whether a statement runs in each iteration of the loops around."""
        for loop in self.around:
            member = loop.member
            if member.span is not None:
                continue
            begin, end = _values(member, statement)
            first, last = begin // member.step, (end - 1) // member.step
            if not (surely(first, "<=", 0) and surely(last, ">=", self.trips(loop) - 1)):
                return False
        return True

    def runs_with_others(self, statement: ScopStatement) -> bool:
        """Whether a statement runs wherever any does in the loops around, and all their blocks and
        threads have some."""
        for loop in self.around:
            spans = [_values(loop.member, self.scop.statement(name)) for name in loop.statements]
            begin, end = min(b for b, _ in spans), max(e for _, e in spans)
            if _values(loop.member, statement) != (begin, end):
                return False
            step = loop.member.step
            digits = (end - 1) // step - begin // step + 1
            if loop.member.axis is not None and digits < self.trips(loop):
                return False
        return True

    def writes_first(self, tensor: str, touched: tuple[HalfOpen, ...]) -> bool:
        """Whether in each iteration of the loops around, statements write all of `touched` that
        lies in the box, before any reads it."""
        found = self.box(tensor)
        if found is None:
            return False
        needed = tuple(
            (begin, end) if offset.terms else _common((begin, end), offset.constant, size)
            for offset, size, (begin, end) in zip(found.offsets, found.sizes, touched, strict=True)
        )
        left = [needed]
        for s in takewhile(lambda s: all(a.tensor != tensor for a in s.reads), self.users(tensor)):
            if s.write.tensor == tensor and not self._is_pinned(s):
                left = subtract(left, self._written(s, found))
        return not any(all(begin < end for begin, end in piece) for piece in left)

    def _written(self, statement: ScopStatement, around: Box) -> tuple[HalfOpen, ...]:
        """What of its target a statement writes in each iteration of the loops around: in
        dimensions in which the box moves with these, nothing if it does not write all of that."""
        position = self.position(statement)
        own = box([(statement.write, position)])
        assert own is not None
        written = []
        for d, bounds in enumerate(statement.write.bounds):
            offset, size = own.offsets[d], own.sizes[d]
            is_whole = (offset, own.digits[d]) == (around.offsets[d], around.digits[d])
            is_dense = len(own.digits[d]) <= 1 and own.steps[d] <= max(around.steps[d], 1)
            if _has_gaps(statement.write, d, position) or not (is_whole or is_dense):
                written.append((0, 0))  # it leaves some out
            elif not offset.terms:
                written.append(_common(bounds, offset.constant, size))
            elif (offset, size) == (around.offsets[d], around.sizes[d]):
                written.append(bounds)
            else:
                written.append((0, 0))
        return tuple(written)

    def _is_pinned(self, statement: ScopStatement) -> bool:
        """Whether a statement runs in one iteration only of a loop around."""
        return any(
            loop.member.values[statement.name].variable is None and repeats(self.trips(loop))
            for loop in self.around
        )


def _values(member: Member, statement: ScopStatement) -> HalfOpen:
    """The values of a statement of which a member is a digit, from the member's origin on."""
    value = member.values[statement.name]
    begin, end = (0, 1) if value.variable is None else statement.ranges[value.variable]
    shift = value.offset - member.origin
    return begin + shift, end + shift


def _digit(number: int) -> str:
    """What forms of a footprint call the digit of a loop around, by its place; names of loops may
    come again."""
    return f"loop {number}"


def _number(member: Member) -> str:
    """What forms of a footprint call the number of the thread that runs an iteration."""
    return f"thread {member.axis}"


def touches(statement: ScopStatement, tensor: str) -> bool:
    return any(a.tensor == tensor for a in statement.promotable)


def is_rounded_between(tensor: str, users: Iterable[ScopStatement], scop: Scop) -> bool:
    """Whether statements of the program give each other values that are rounded on the way (Y8),
    which a buffer in the type of computation would not do."""
    dtype = scop.dtype(tensor)
    return dtype.is_storage and len({s.position for s in users}) > 1


def _common(bounds: HalfOpen, begin: int, size: int) -> HalfOpen:
    return max(bounds[0], begin), min(bounds[1], begin + size)


# --- what is copied -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Transfer:
    """Which elements of a tile are copied: those within `limits` (as `ArrayTile` has them). They
    are fetched unless the statements within surely write each before it is read, and written back
    where they are written, and anything after may read them."""

    fetch: bool
    write_back: bool
    limits: tuple[HalfOpen, ...] | None


def transfer(tensor: str, below: Footprint) -> Transfer | str:
    """What must be copied for a tile; the reason where it would copy what it must not: elements
    that no statement below touches, which others may write meanwhile, or that nobody has
    written yet."""
    users, scop = below.users(tensor), below.scop
    bounds = [a.bounds for s in users for a in s.promotable if a.tensor == tensor]
    touched, everything = _hull(bounds), whole(tensor, scop)
    if all(s.write.tensor != tensor for s in users):
        is_defined = _is_defined(tensor, everything, users[0], scop, touched)
        return Transfer(True, False, None if is_defined else touched)
    if touched not in bounds:
        return "what its statements touch is no box"
    fetch = not below.writes_first(tensor, touched)
    if fetch and not _is_defined(tensor, touched, users[0], scop):
        return "some of it may be read before anything is written there"
    write_back = fetch or _is_needed_later(tensor, below.inside, scop)
    return Transfer(fetch, write_back, None if touched == everything else touched)


def _hull(bounds: Sequence[tuple[HalfOpen, ...]]) -> tuple[HalfOpen, ...]:
    return tuple(
        (min(begin for begin, _ in axis), max(end for _, end in axis))
        for axis in zip(*bounds, strict=True)
    )


def _is_defined(
    tensor: str,
    elements: tuple[HalfOpen, ...],
    first: ScopStatement,
    scop: Scop,
    touched: tuple[HalfOpen, ...] | None = None,
) -> bool:
    """Whether elements hold values before a statement: the caller's, or those of statements before
    it. Statements of which it needs nothing, as they write nothing of what is `touched`, may run
    after it."""
    program = scop.shaped.program
    if tensor in scop.gathers or tensor in scop.initial or program.tensors[tensor].role == "input":
        return True
    before = takewhile(lambda s: s is not first, scop.users(tensor))
    writes = [s.write for s in before if s.write.tensor == tensor]
    return all_written(elements, [w for w in writes if _overlap(w.bounds, touched or elements)])


def _overlap(one: tuple[HalfOpen, ...], other: tuple[HalfOpen, ...]) -> bool:
    return all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(one, other, strict=True))


def _is_needed_later(tensor: str, own: Container[str], scop: Scop) -> bool:
    """Whether a tensor is an output, or touched by statements other than those named."""
    if scop.shaped.program.tensors[tensor].role == "output":
        return True
    return any(s.name not in own for s in scop.users(tensor))


def tile_fault(tile: ArrayTile, below: Footprint) -> str | None:
    """Why a tile cannot hold what the statements below touch, copied as it says; None where it
    can. What is asked of loops is asked anew of each tree: other actions may have changed them."""
    tensor = tile.tensor
    exact, moved = below.box(tensor), transfer(tensor, below)
    if exact is None:
        return "what is touched has no fixed size or place there"
    if isinstance(moved, str):
        return moved
    before, held = tile.before or (0,) * len(exact.sizes), digits_of(tile)
    for own, begin, size in zip(exact.sizes, before, tile.sizes, strict=True):
        if own + begin > size:
            return f"{own + begin} elements are touched where the tile has {size}"
    if moved.fetch > tile.fetch or moved.write_back > tile.write_back:
        return "loops around it were changed after it was promoted, and it must be copied otherwise"
    if tile.write_back and moved.limits != tile.limits:
        return "loops around it were changed after it was promoted, and others have its elements"
    for s in below.users(tensor):
        if s.write.tensor == tensor and _reaches_others(s.write, below.position(s)):
            return "its last elements are of other iterations where the tiles of loops are not full"
        dimensions = range(len(tile.sizes) if s.write.tensor == tensor and tile.write_back else 0)
        if any(_has_gaps(s.write, d, below.position(s), exact.digits[d]) for d in dimensions):
            return "elements between those touched would be copied, and other iterations write them"
    if not all(map(contains, held, exact.digits, before)):
        return "elements between those of the tile are touched"
    made_around = _is_written_around(tensor, below)
    if (tile.write_back or made_around) and any(map(_has_between, held, exact.digits)):
        return "elements between those touched would be copied, and others write them"
    shape = below.scop.shape(tensor)
    for offset, own, begin, size, extent in zip(
        exact.offsets, exact.sizes, before, tile.sizes, shape, strict=True
    ):
        first = offset.constant - begin
        if offset.terms:
            is_larger = own < size
        else:  # what is beyond the limits is not copied
            is_larger = made_around and (
                max(0, first) < offset.constant or min(extent, first + size) > offset.constant + own
            )
        if is_larger and (tile.write_back or made_around):
            return (
                f"{size} elements would be copied where {own} are touched, and others write them: "
                "its axes and its alignment make it larger"
            )
    if tile.copy.lines:
        return _fault_of_lines(tile, exact, below)
    if made_around and tile.fetch and not all(map(below.runs_with_others, below.users(tensor))):
        return "others write it in the loops around, where its own statements do not always run"
    taken = next((loop for loop in below.shared if _is_written_in_turns(tensor, loop, below)), None)
    if taken is not None:
        return f"it is written in turns: fewer threads than iterations run {taken.member.name}"
    local = not tile.fetch and not tile.write_back and tile.scope != REGISTER
    if local and not all(map(below.runs_always, below.users(tensor))):
        # beyond a range, where others run, what nobody wrote would be read
        return "its statements do not all run in each iteration of the loops around"
    return None


def _fault_of_copies(tile: ArrayTile, below: Footprint, alike: Axes) -> str | None:
    """Why blocks, or threads, may not have a tile each: it is written, and several would write it
    back, or only some of them have what was written. Threads along the axes `alike` have all."""
    if all(s.write.tensor != tile.tensor for s in below.users(tile.tensor)):
        return None
    moved, users = _moved_by(tile, below), below.users(tile.tensor)
    if tile.scope != SHARED and any(s.meets and s.write.tensor == tile.tensor for s in users):
        return "threads meet in it, each of which would have its own"
    bound = [
        {m.axis for m in below.own.get(s.name, ()) if below.threads(m) > 1 and _number(m) in moved}
        for s in users
    ]
    apart = frozenset.intersection(*map(frozenset, bound))
    for members in (*below.inside.values(), *below.own.values()):
        for member in members:
            of_threads = member.role == THREAD and tile.scope != SHARED
            if member.role == BLOCK or (of_threads and member.axis not in alike | apart):
                return f"each {member.role} that runs {member.name} would write its own"
    return None


def _has_gaps(write: Access, dimension: int, position: Position, held: Steps | None = None) -> bool:
    """Whether what is written is not all that its digits say, as of `q*2 + r*3`, whose digit has
    a step of 1; or has several digits, and others than what is `held`."""
    form = write.subscripts[dimension]
    own, is_all = taken(form or constant_form(0), position)
    return not is_all or (held is not None and len(own) > 1 and own != held)


def _has_between(held: Steps, exact: Steps) -> bool:
    """Whether a tile holds elements between those that are touched."""
    if len(held) > 1 or len(exact) > 1:
        return not contains(exact, held)
    return bool(exact) and exact[0][0] > held[0][0]


def _reaches_others(write: Access, position: Position) -> bool:
    """Whether a tile of what is written, whose loops are not full, holds elements of others: of
    `q*4 + r`, an `r` that is too large is one of the next `q`; too large a `q` is beyond all that
    is touched."""
    for form in write.subscripts:
        terms = {} if form is None else form.terms
        most = max(map(abs, terms.values()), default=0)
        if any(abs(c) < most and not position[v].exact for v, c in terms.items()):
            return True
    return False


def _is_written_around(tensor: str, below: Footprint) -> bool:
    """Whether a statement writes a tensor in a loop around, and not below: what is not touched
    there may not be written yet, or be written meanwhile."""
    loops = (*below.around, *below.shared)
    names = {name for loop in loops for name in loop.statements}
    return any(below.scop.statement(n).write.tensor == tensor for n in names - set(below.inside))


def _is_written_in_turns(tensor: str, loop: EnclosingLoop, below: Footprint) -> bool:
    """Whether threads take turns in a loop that writes a tensor: of a tile that they share, each
    turn has written only some."""
    count = loop.member.count
    writes = (below.scop.statement(name).write.tensor for name in loop.statements)
    return count is not None and count < below.trips(loop) and tensor in writes


def _fault_of_lines(tile: ArrayTile, exact: Box, below: Footprint) -> str | None:
    """Why a tile cannot be written back in whole cache lines."""
    dtype = below.scop.dtype(tile.tensor)
    as_tensor = [(axis.dimension, axis.step) for axis in tile.layout]
    if not tile.layout:
        return "a single element has no cache lines"
    if as_tensor != [(d, 1) for d in range(len(tile.sizes))] or tile.sizes != exact.sizes:
        return "cache lines are written from a buffer that is laid out as the tensor is"
    if dtype.is_storage:
        return f"cache lines of {dtype} are not written from a buffer of {dtype.computed}"
    if tile.limits is not None:
        return "cache lines are not written where only some of the tensor is touched"
    return None


# --- tiles of threads ---------------------------------------------------------------------------


def promotion_fault(tree: Node, scop: Scop) -> str | None:
    """Why the promoted tiles of a tree may not be used: one cannot hold what is touched, or the
    iterations of parallel loops would write over each other's elements; None where they may."""
    for part in schedule.in_order(tree):
        for tile in schedule.tiles(part):
            reason = gather_fault(tile.tensor, schedule.leaves(part), scop)
            if reason is not None:
                return f"{tile.tensor} cannot lie in {tile.buffer} there: {reason}"
    faults = (
        fault
        for part in schedule.in_order(tree)
        for fault in _faults(part, (), frozenset(), scop, replicas_of(part, scop))
    )
    return next(faults, None)


def gather_fault(tensor: str, part: Iterable[str], scop: Scop) -> str | None:
    """Why what is gathered may not be held in a part, which has some statements; None where it may,
    and for a tensor."""
    gather = scop.gathers.get(tensor)
    if gather is None:
        return None
    writers = (n for n in part if scop.statement(n).write.tensor in gather.tensors)
    name = next(writers, None)
    if name is not None:
        return f"{name}, of the same part, writes {scop.statement(name).write.tensor}"
    return gather.fault


def _faults(
    node: Node,
    around: tuple[EnclosingLoop, ...],
    held: frozenset[str],
    scop: Scop,
    replicas: Replicas,
) -> Iterator[str]:
    """Faults below some loops and promotions of some tensors."""
    if isinstance(node, Promotion):
        own = Footprint(scop, around, schedule.members_below(node))
        for tile in node.tiles:
            below = own.of(tile.scope)
            alike = replicas.tiles.get((id(node), tile.tensor), frozenset())
            reason = tile_fault(tile, below) or _fault_of_copies(tile, below, alike)
            if reason is not None:
                yield f"{tile.tensor} cannot lie in {tile.buffer} there: {reason}"
            if tile.copy.through == ASYNC and tile.tensor in held:
                yield f"{tile.buffer} is filled by async copies, and inside of another buffer"
            if tile.copy.lines and tile.tensor in held:
                yield f"{tile.buffer} is written back in cache lines, and inside of another buffer"
            found = below.box(tile.tensor) if tile.write_back else None
            if found is not None:
                sized = replace(found, digits=digits_of(tile))
                for own_digit, member in _shared_loops(tile, below):
                    if not _is_apart(own_digit, tile.tensor, sized, below):
                        yield (
                            f"two iterations of the {member.role} loop {member.name} would write "
                            f"back tiles of {tile.tensor} that overlap"
                        )
        held = held.union(tile.tensor for tile in node.tiles)
        shared = [tile for tile in node.tiles if tile.scope == SHARED]
        for tile in shared:
            one, other = shared[0].copy, tile.copy
            if (one.stages, one.through) != (other.stages, other.through) and max(
                one.stages, other.stages
            ) > 1:
                yield (
                    f"{shared[0].buffer} has {one.stages} stages through {one.through}, and "
                    f"{tile.buffer}, copied at the same place, {other.stages} through "
                    f"{other.through}"
                )
    if isinstance(node, Expansion):
        below = Footprint(scop, around, schedule.members_below(node))
        reason = _fault_of_accumulators(scop.statement(node.statement), below)
        if reason is not None:
            yield reason
    around = (*around, *loops_of(node))
    for child in schedule.children(node):
        yield from _faults(child, around, held, scop, replicas)


def _fault_of_accumulators(statement: ScopStatement, below: Footprint) -> str | None:
    """Why a statement cannot have an accumulator for each element of a box: some of these elements
    belong to other iterations, and more than one variable decides which."""
    position = below.position(statement)
    for dimension, form in enumerate(statement.write.subscripts):
        free = [] if form is None else [v for v in form.terms if position[v].counts]
        if len(free) > 1 and (
            _has_gaps(statement.write, dimension, position)
            or _reaches_others(statement.write, position)
        ):
            return f"{statement.name} would have accumulators of elements of other iterations"
    return None


def accumulators(
    node: Node, scop: Scop, around: tuple[EnclosingLoop, ...] = ()
) -> Iterator[tuple[Expansion, int]]:
    """The split reductions below some loops, and for how many elements each has accumulators."""
    if isinstance(node, Expansion):
        statement = scop.statement(node.statement)
        position = Footprint(scop, around, schedule.members_below(node)).position(statement)
        found = box([(statement.write, position)])
        assert found is not None  # the subscripts of what is written are linear
        yield node, prod(found.counts)
    around = (*around, *loops_of(node))
    for child in schedule.children(node):
        yield from accumulators(child, scop, around)


def _moved_by(tile: ArrayTile, below: Footprint) -> frozenset[str]:
    """The digits of loops on which the place of a tile depends."""
    found = below.box(tile.tensor)
    offsets = () if found is None else found.offsets
    return frozenset(name for offset in offsets for name in offset.terms)


def _shared_loops(tile: ArrayTile, below: Footprint) -> Iterator[tuple[str, Member]]:
    """The loops around a tile whose iterations several threads, or blocks, run; of the loops of
    which each thread has one iteration, those of statements that use the tile, where its place
    depends on them. Beside a loop is what forms call its digit."""
    for number, loop in enumerate(below.around):
        if loop.member.role in (PARALLEL, BLOCK, THREAD):
            yield _digit(number), loop.member
    terms = _moved_by(tile, below)
    for s in below.users(tile.tensor):
        for member in below.own.get(s.name, ()):
            if _number(member) in terms:
                yield _number(member), member


def _is_apart(own: str, tensor: str, tile: Box, below: Footprint) -> bool:
    """Whether tiles of different iterations of a loop around are disjoint, whatever the others do:
    in some dimension the loops make up the tile's place as digits make up a number, and this is
    one of these digits."""
    trips = {_digit(k): below.trips(loop) for k, loop in enumerate(below.around)}
    users = (s.name for s in below.users(tensor))
    for member in (m for name in users for m in below.own.get(name, ())):
        number = _number(member)
        trips[number] = max(trips.get(number, 1), below.threads(member))
    if surely(trips[own], "==", 1):
        return True
    for offset, held in zip(tile.offsets, tile.digits, strict=True):
        if own not in offset.terms:
            continue
        digits = [(abs(c), trips[name]) for name, c in offset.terms.items()]
        reach, fits = 1, True
        for coefficient, count in sorted((*digits, *held)):
            fits = fits and coefficient >= reach if coefficient >= abs(offset.terms[own]) else True
            reach += coefficient * (count - 1)
        if fits:
            return True
    return False
