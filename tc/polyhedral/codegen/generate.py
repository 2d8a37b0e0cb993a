"""From a schedule tree to a kernel: loops, guards, copies; marks say what becomes of a loop.

The kernel is scalar. Loops of members with a role are marked, and promoted tiles are buffers of
role "scratch" or "register"; the passes of `tc.kernel` make vectors and locals of these.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tc.affine.forms import Form, LinearForm, constant_form
from tc.affine.intervals import surely
from tc.dtypes import INT64
from tc.errors import is_strict
from tc.kernel import ir
from tc.kernel.folding import binary, cast, compare, integer, is_number, of_form
from tc.kernel.ir import Expr, For, Load, Stmt, Store, Var
from tc.kernel.matrix_products import F16, TF32
from tc.kernel.verify import verify
from tc.kernel.walk import loaded_in, stored_in
from tc.plan import (
    BLOCK,
    MMA,
    MMA_TF32,
    PACKED,
    PARALLEL,
    REGISTER,
    SCRATCH,
    SERIAL,
    SHARED,
    THREAD,
    UNROLL,
    VECTOR,
)
from tc.polyhedral import schedule
from tc.polyhedral.codegen.context import (
    EmitScope,
    KernelContext,
    LoweringError,
    NameSupply,
    Number,
    PlacedTile,
    PrivateAccumulators,
    guarded,
)
from tc.polyhedral.codegen.copies import fetch, write_back
from tc.polyhedral.codegen.exchanges import ThreadExchange, first_of
from tc.polyhedral.codegen.expressions import identity
from tc.polyhedral.codegen.instances import lower_leaf, runs_on
from tc.polyhedral.codegen.launches import (
    bound_member,
    entered,
    has_barrier,
    launch_of,
    launch_sizes,
    pinned,
)
from tc.polyhedral.codegen.thread_sums import combined_axes, thread_digits
from tc.polyhedral.footprint import (
    Box,
    Position,
    box,
    contains,
    digits_of,
    enter,
    repeats,
    start,
    trips_of,
    whole,
)
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Sync,
    own_of_threads,
)
from tc.polyhedral.scop.scop import Scop, ScopStatement

MAX_LOOPS = 8
"""A nest has no more loops: Python nests 20 blocks at most, of two nests and what is in them."""

_MARKS = {UNROLL: "unroll", VECTOR: "vector", MMA: F16.mark, MMA_TF32: TF32.mark}


def lower_schedule(
    scop: Scop,
    tree: Node,
    strides: Mapping[str, tuple[int, ...]],
    *,
    check: bool,
    launches: bool = False,
) -> ir.Kernel:
    """The kernel that runs the statements in the order of the tree, a region for each part of
    its outermost sequence: with `launches`, one launch each.

    `strides` gives the strides, in elements, of inputs that are not row-major; with `check`,
    reads and divisions that are not proven safe are tested (G7). Raises LoweringError.
    """
    program = scop.shaped.program
    indices = (name for statement in program.statements for name in statement.variables)
    names = NameSupply(program.tensors, indices)
    context = KernelContext(scop, names, check)
    context.buffers.update((b.name, b) for b in _arguments(scop, strides))
    positions = {s.name: start(s) for s in scop.statements}
    regions: list[tuple[Stmt, ...]] = []
    for part in schedule.in_order(tree):
        state = EmitScope(context, positions)
        regions += [_launched(part, state)] if launches else _regions(part, state)
    roles = ("input", "output", "temporary", *ir.PRIVATE)
    used = _touched(regions)
    kept = [b for b in context.buffers.values() if b.role != "temporary" or b.name in used]
    buffers = sorted(kept, key=lambda b: roles.index(b.role))
    kernel = ir.Kernel(
        program.name, tuple(buffers), tuple(regions), tuple(context.sites.values()), scop.initial
    )
    if is_strict():  # else what passes make of the kernel is verified
        verify(kernel)
    return kernel


def _touched(regions: list[tuple[Stmt, ...]]) -> set[str]:
    """The buffers that are read or written; temporaries may all be held by others."""
    stmts = [stmt for region in regions for stmt in ir.statements(region)]
    return {*stored_in(tuple(stmts)), *loaded_in(tuple(stmts))}


def _arguments(scop: Scop, strides: Mapping[str, tuple[int, ...]]) -> Iterator[ir.Buffer]:
    program = scop.shaped.program
    for name in (*program.inputs, *program.outputs, *program.temporaries):
        tensor, shape = program.tensors[name], scop.shaped.shapes[name]
        given = strides.get(name) if tensor.role == "input" else None
        own = ir.row_major(shape) if given is None else given
        yield ir.Buffer(name, tensor.dtype, shape, own, tensor.role)


def _regions(node: Node, state: EmitScope) -> Iterator[tuple[Stmt, ...]]:
    """The regions of one part of the program: one that packs shared operands, then the loops."""
    kernel = state.kernel
    if isinstance(node, Promotion) and node.is_packed:
        for placed in _place(node, state):
            kernel.names.start_region()
            state = state.inside(placed)
            note = ir.Comment(f"{placed.tile.tensor} packed")
            for copy in fetch(placed, state):
                if isinstance(copy, For) and not copy.mark:
                    copy = replace(copy, parallel=True)
                yield note, copy
        yield from _regions(node.child, state)
        return
    kernel.names.start_region()
    yield (*_comments(node, kernel.scop), *_lower(node, state, outermost=True))


def _launched(part: Node, state: EmitScope) -> tuple[Stmt, ...]:
    """The region of a part that is one launch."""
    kernel = state.kernel
    kernel.names.start_region()
    launch = kernel.launch = launch_of(part, kernel.scop, kernel.names)
    body = _lower(part, entered(launch, replace(state, block=state.positions)))
    return (*_comments(part, kernel.scop), ir.Grid(launch.along(BLOCK), launch.along(THREAD), body))


def _comments(node: Node, scop: Scop) -> tuple[ir.Comment, ...]:
    """The text of the statements below a node."""
    statements = (scop.statement(name) for name in schedule.leaves(node))
    return tuple(map(ir.Comment, dict.fromkeys(_comment(s, scop) for s in statements)))


def _comment(statement: ScopStatement, scop: Scop) -> str:
    if statement.kind == "zero":
        return f"{statement.write.tensor} is 0 where nothing writes it"
    source = scop.shaped.program.statements[statement.position]
    lines = source.span.text.split("\n")
    return " ".join(" ".join(line.split("#")[0] for line in lines).split())


def _lower(node: Node, state: EmitScope, *, outermost: bool = False) -> tuple[Stmt, ...]:
    launch = state.kernel.launch
    if launch is None:
        return _node(node, state, outermost=outermost)
    tests, state = pinned(node, state)
    return guarded(tests, _node(node, state, outermost=outermost))


def _node(node: Node, state: EmitScope, *, outermost: bool) -> tuple[Stmt, ...]:
    match node:
        case Leaf(statement=name):
            stmts = lower_leaf(state.kernel.scop.statement(name), state)
            return guarded(state.pins.get(name, ()), stmts)
        case Sequence(children=children):
            return tuple(stmt for child in children for stmt in _lower(child, state))
        case Promotion(child=child):
            placed = _place(node, state)
            for p in placed:
                state = state.inside(p)
            before = [s for p in placed if p.tile.fetch for s in _by_threads(p, fetch, state)]
            if any(isinstance(s, ir.CopyAsync) for s in ir.statements(tuple(before))):
                before += [ir.Commit(), ir.Wait()]
            after = [
                stmt
                for p in placed
                if p.tile.write_back
                for stmt in guarded(
                    first_of(p.replicated, state), _by_threads(p, write_back, state)
                )
            ]
            return (*before, *_lower(child, state), *after)
        case Expansion():
            return _expand(node, state)
        case Sync(scope=scope):
            return (ir.Barrier(scope),)
        case Band(members=members, child=child):
            return _band(members, child, state, outermost=outermost)
        case _:
            raise schedule.unknown_tree(node)


def _by_threads(
    placed: PlacedTile, copy: Callable[[PlacedTile, EmitScope], tuple[Stmt, ...]], state: EmitScope
) -> tuple[Stmt, ...]:
    """A copy, where the block has work; of what is a thread's own only where the thread has."""
    if placed.tile.scope == SHARED:
        return guarded(state.tests(BLOCK), copy(placed, state))
    tests = list(state.tests(BLOCK, THREAD))
    for axis, count in placed.threads.items():
        assert state.kernel.launch is not None
        index = state.kernel.launch.indices[THREAD, axis]
        if count < index.count and axis not in placed.replicated:
            tests.append(compare("<", Var(index.var, INT64), integer(count), {}))
            state = state.bound(index.var, 0, count - 1)
    return guarded(tests, copy(placed, state))


# --- bands ------------------------------------------------------------------------------------


def _band(
    members: tuple[Member, ...], child: Node, state: EmitScope, *, outermost: bool
) -> tuple[Stmt, ...]:
    if not members:
        return _lower(child, state)
    names = list(schedule.leaves(child))
    if members[0].axis is not None:
        return _bound(members[0], members[1:], child, state)
    shared = 0
    if outermost:
        shared = next((i for i, m in enumerate(members) if m.role != PARALLEL), len(members))
    together = shared if shared > 1 else _surplus(members, names, state)
    if together > 1:
        return _joined(members[:together], members[together:], child, state, parallel=shared > 1)
    member, rest = members[0], members[1:]
    trip = _trips(member, names, state)
    loop, inner = _inside(member, names, trip, state)
    if loop is None:
        return _band(rest, child, inner, outermost=outermost)
    end: Expr = integer(trip)
    if member.role == SERIAL:
        end, bounded = _bounded(member, names, trip, state, inner)
        varies = not is_number(end, trip)
        if (varies and has_barrier(child)) or (state.varying and runs_on(member, names, inner)):
            end = integer(trip)  # all threads, and all blocks, run what holds a barrier as often
        else:
            inner = bounded
    body = _band(rest, child, inner, outermost=False)
    parallel = member.role == PARALLEL and outermost
    return (For(loop, integer(0), end, body, parallel, _MARKS.get(member.role, "")),)


def _surplus(members: tuple[Member, ...], names: list[str], state: EmitScope) -> int:
    """How many leading members must become one loop, as a nest has no more than MAX_LOOPS."""
    several = [i for i, m in enumerate(members) if repeats(_trips(m, names, state))]
    if len(several) <= MAX_LOOPS or members[0].role != SERIAL or state.kernel.launch is not None:
        return 0
    return several[len(several) - MAX_LOOPS] + 1


def _joined(
    together: tuple[Member, ...],
    rest: tuple[Member, ...],
    child: Node,
    state: EmitScope,
    *,
    parallel: bool,
) -> tuple[Stmt, ...]:
    """Several members as one loop, of which threads get equal parts."""
    names = list(schedule.leaves(child))
    trips = [_trips(member, names, state) for member in together]
    several = [place for place, trip in enumerate(trips) if repeats(trip)]
    if len(several) < 2:
        first = several[0] if several else len(together)
        for member in together[:first]:
            _, state = _inside(member, names, 1, state)
        others = tuple(replace(member, role=SERIAL) for member in together[first + 1 :])
        inner = (*together[first : first + 1], *others, *rest)
        return _band(inner, child, state, outermost=parallel and bool(several))
    joined = state.kernel.names.fresh("n0", INT64)
    lets: list[Stmt] = []
    for position, (member, trip) in enumerate(zip(together, trips, strict=True)):
        loop, state = _inside(member, names, trip, state)
        if loop is None:
            continue
        value: Expr = binary("/", Var(joined, INT64), integer(math.prod(trips[position + 1 :])))
        if position > several[0]:
            value = binary("%", value, integer(trip))
        lets.append(ir.Let(loop, value))
    body = _band(rest, child, state, outermost=False)
    total = math.prod(trips)
    return (For(joined, integer(0), integer(total), (*lets, *body), parallel),)


def _trips(member: Member, names: list[str], state: EmitScope) -> int:
    return trips_of(member, map(state.kernel.scop.statement, names))


def _inside(
    member: Member, names: list[str], trips: int, state: EmitScope
) -> tuple[str | None, EmitScope]:
    """The variable of a member's loop, if it has several iterations, and the state in these."""
    loop: str | None = None
    digit = constant_form(0)
    if not surely(trips, "==", 1):
        is_digit = member.span is not None or member.step > 1
        loop = state.kernel.names.fresh(f"{member.name}0" if is_digit else member.name, INT64)
        state, digit = state.bound(loop, 0, trips - 1), Form(0, {loop: 1})
    return loop, _within(member, names, trips, digit, state)


def _bound(
    member: Member, rest: tuple[Member, ...], child: Node, state: EmitScope
) -> tuple[Stmt, ...]:
    """A band whose first member blocks or threads run."""
    names, launch = list(schedule.leaves(child)), state.kernel.launch
    if launch is None or member.axis is None:
        raise LoweringError(f"the loop {member} is of a launch, and there is none")
    trips, node = _trips(member, names, state), schedule.band_of(rest, False, child)
    inside = launch_sizes(node, state.kernel.scop).get((member.role, member.axis), 1)
    turns = bound_member(member, trips, inside, state)
    inner = _within(member, names, trips, turns.digit, turns.state)
    return turns.around(_lower(node, inner))


def _within(
    member: Member, names: list[str], trips: int, digit: LinearForm, state: EmitScope
) -> EmitScope:
    """The state in an iteration of a member, whose digit is known."""
    positions = {n: enter(state.positions[n], member, n, digit, trips) for n in names}
    block = state.block
    if block and member.role != THREAD:
        block = {**block, **{n: enter(block[n], member, n, digit, trips) for n in names}}
    loops = {**state.loops, (member.name, member.step): digit}
    pins = dict(state.pins)
    for name in names if repeats(trips) else ():
        value = member.values[name]
        if value.variable is None:
            own = value.offset - member.origin
            own = (own if member.span is None else own % member.span) // member.step
            test = compare("==", of_form(digit), integer(own), {})
            pins[name] = (*pins.get(name, ()), test)
    every = {**state.positions, **positions}
    return replace(state, positions=every, block=block, loops=loops, pins=pins)


def _bounded(
    member: Member, names: list[str], trip: int, state: EmitScope, inner: EmitScope
) -> tuple[Expr, EmitScope]:
    """The end of a serial loop, less where a tile is not full, if all statements agree."""
    tails = []
    for name in names:
        value = member.values[name]
        if value.variable is None:
            return integer(trip), inner
        digits = state.positions[name][value.variable]
        after = inner.positions[name][value.variable]
        tails.append((constant_form(digits.limits[1]) - digits.base, digits.exact, after))
    room, exact, _ = tails[0]
    if exact or member.span is None or any(other != room for other, _, _ in tails):
        runs_all = member.span is None and member.step == 1  # just the values of the statements
        for own, _, after in tails:
            runs_all = runs_all and own == constant_form(trip) and after.span == 1
        return integer(trip), _exact(member, names, inner) if runs_all else inner
    if member.step > 1:
        room = room.shifted(member.step - 1)
    low, _ = room.interval(state.bounds)
    if surely(low, ">=", trip * member.step):
        return integer(trip), inner
    left = of_form(room)
    if member.step > 1:
        left = binary("/", left, integer(member.step))
    end = binary("min", integer(trip), left)
    # the end keeps all of them below their limits; some may have to begin later
    begun = all(a.base.interval(inner.bounds)[0] >= a.limits[0] for _, _, a in tails)
    return end, _exact(member, names, inner) if member.step == 1 and begun else inner


def _exact(member: Member, names: list[str], state: EmitScope) -> EmitScope:
    positions = dict(state.positions)
    for name in names:
        variable = member.values[name].variable
        if variable is not None:
            digits = replace(positions[name][variable], exact=True)
            positions[name] = {**positions[name], variable: digits}
    return replace(state, positions=positions)


# --- promoted tiles and expanded reductions ---------------------------------------------------


def _place(node: Promotion, state: EmitScope) -> list[PlacedTile]:
    kernel, placed = state.kernel, []
    inside = set(schedule.leaves(node))
    for tile in node.tiles:
        positions = state.block if tile.scope == SHARED else state.positions
        threads: Mapping[str, int] = {}
        if tile.scope == REGISTER and kernel.launch is not None:
            positions, threads = _of_each_thread(node, tile.tensor, state)
        accesses = [
            (access, positions[s.name])
            for s in kernel.scop.users(tile.tensor)
            if s.name in inside
            for access in s.promotable
            if access.tensor == tile.tensor
        ]
        found, held = box(accesses), digits_of(tile)
        before = tile.before or (0,) * len(held)
        if found is None or not all(map(contains, held, found.digits, before)):
            has = "no fixed size or place" if found is None else f"the sizes {found.sizes}"
            raise LoweringError(
                f"the tile {tile.sizes} of {tile.tensor} does not hold what is touched, which has "
                f"{has}"
            )
        offsets = tuple(o.shifted(-by) for o, by in zip(found.offsets, before, strict=True))
        found = Box(offsets, held)
        dtype = tile.held_type(kernel.dtype(tile.tensor))
        local = tile.scope == SCRATCH and not tile.fetch and not tile.write_back
        local = local or (tile.scope != PACKED and _has_tails(tile, found, state))
        stages = tile.copy.stages
        name = kernel.add_buffer(
            tile.buffer, tile.scope, dtype, tile.shape, local=local, stages=stages
        )
        own = kernel.launch.replicas.tiles if kernel.launch is not None else {}
        replicated = own.get((id(node), tile.tensor), frozenset())
        placed.append(PlacedTile(replace(tile, buffer=name), found, replicated, threads))
    return placed


def _of_each_thread(
    node: Node, tensor: str, state: EmitScope
) -> tuple[Mapping[str, Position], Mapping[str, int]]:
    """Where the statements below a node stand in a thread, of the loops of which each thread has
    one iteration; and how many threads along each axis run those that touch a tensor."""
    launch, positions, threads = state.kernel.launch, dict(state.positions), dict[str, int]()
    assert launch is not None
    scop, below = state.kernel.scop, schedule.members_below(node)
    users = {s.name for s in scop.users(tensor)}
    for name, members in below.items():
        for member in own_of_threads(members):
            assert member.axis is not None
            key = THREAD, member.axis
            index = launch.indices[key]
            number = Number(Form(0, {index.var: 1}), index.count)
            if index.count > 1 and state.unbound.get(key) != number:
                continue  # a loop around is bound to the axis
            others = (n for n, inside in below.items() if member in inside)
            trips = trips_of(member, map(scop.statement, others))
            digit = Form(0, {index.var: 1}) if repeats(trips) else constant_form(0)
            positions[name] = enter(positions[name], member, name, digit, trips)
            if name in users:
                threads[member.axis] = max(threads.get(member.axis, 1), trips)
    return positions, threads


def _has_tails(tile: ArrayTile, found: Box, state: EmitScope) -> bool:
    """Whether some of a tile may lie beyond what is copied: loops that are not full may leave it
    unwritten, and others, which are vectors or unrolled, compute with it."""
    limits = tile.limits or whole(tile.tensor, state.kernel.scop)
    for offset, size, (begin, end) in zip(found.offsets, tile.sizes, limits, strict=True):
        low, high = offset.interval(state.bounds)
        if not (surely(low, ">=", begin) and surely(high + size, "<=", end)):
            return True
    return False


def _expand(node: Expansion, state: EmitScope) -> tuple[Stmt, ...]:
    """The identity in all accumulators, the reduction, and their combination with the target."""
    kernel = state.kernel
    statement = kernel.scop.statement(node.statement)
    found = box([(statement.write, state.positions[statement.name])])
    assert found is not None  # the subscripts of what is written are linear
    dtype = kernel.dtype(statement.write.tensor).computed
    axes = combined_axes(node) if kernel.launch is not None else frozenset()
    run = {(m.name, m.step) for m in thread_digits(node)} if axes else set()
    digits = tuple(d for d in node.digits if (d.name, d.step) not in run)
    sizes = tuple(d.span // d.step if d.span else 1 for d in digits)
    extents = (*(axis.size for axis in found.axes), *sizes)
    name = kernel.add_buffer(node.buffer, "register", dtype, extents)
    expanded = PrivateAccumulators(name, found, digits, axes)
    inner = replace(state, expanded={**state.expanded, statement.name: expanded})
    names = [kernel.names.fresh("c0", INT64) for _ in extents]
    filled = Store(name, tuple(map(_index, names, extents)), identity(statement.op, dtype))
    reduced = _lower(node.child, inner)
    combined = _combined(expanded, sizes, statement, state)
    return (
        *_unrolled(names, extents, (filled,), last=_lanes_mark(state)),
        *reduced,
        *(combined if axes else guarded(state.tests(BLOCK, THREAD), combined)),
    )


def _combined(
    expanded: PrivateAccumulators,
    sizes: tuple[int, ...],
    statement: ScopStatement,
    state: EmitScope,
) -> tuple[Stmt, ...]:
    """The accumulators of an expansion, combined: first those of the unrolled digits, lane by lane
    and in pairs, so that few wait for each other; then the lanes with the target. Of digits that
    threads run, each thread has combined its own lanes before the threads combine theirs."""
    kernel, found, op, target = state.kernel, expanded.box, statement.op, statement.write.tensor
    dtype = kernel.dtype(target).computed
    outer = [kernel.names.fresh("c0", INT64) for _ in found.axes]
    extents = [axis.size for axis in found.axes]
    cell = tuple(map(_index, outer, extents))
    for name, extent in zip(outer, extents, strict=True):
        state = state.bound(name, 0, extent - 1)
    *several, lanes = sizes or (1,)
    lane = kernel.names.fresh("c0", INT64)
    stmts: list[Stmt] = []
    last = (_index(lane, lanes),) if sizes else ()
    parts = [
        Load(expanded.buffer, (*cell, *map(integer, digits), *last), dtype)
        for digits in itertools.product(*map(range, several))
    ]
    first: Expr = parts[0]
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        for left, right in zip(parts, parts[half:], strict=False):
            body = (Store(expanded.buffer, left.indices, binary(op, left, right)),)
            stmts += _vector(lane, lanes, body, state)
        parts = parts[:half]
    moved = [constant_form(0) for _ in found.offsets]
    for name, axis in zip(outer, found.axes, strict=True):
        if axis.size > 1:
            moved[axis.dimension] += Form(0, {name: axis.step})
    element = tuple(map(operator.add, found.offsets, moved))
    bounds = statement.write.bounds
    limits = None if bounds == whole(target, kernel.scop) else bounds
    own_tests = _within_ranges(moved, statement, state)
    tests = (*state.within(element, target, limits), *own_tests)
    place, own = state.place(target, element), state.element_dtype(target)
    before = cast(Load(*place, own), dtype)
    if not expanded.combined:
        total = Var(kernel.names.fresh("acc", dtype), dtype)
        final: tuple[Stmt, ...] = (
            ir.Let(total.name, before),
            *_vector(lane, lanes, (ir.Set(total.name, binary(op, total, first)),), state),
            Store(*place, cast(total, own)),
        )
        return _unrolled(outer, extents, (*stmts, *guarded(tests, final)), last="unroll")
    if lanes > 1:
        whole_sum = Var(kernel.names.fresh("acc", dtype), dtype)
        summed = ir.Set(whole_sum.name, binary(op, whole_sum, first))
        stmts.append(ir.Let(whole_sum.name, identity(op, dtype)))
        stmts += _vector(lane, lanes, (summed,), state)
        first = whole_sum
    placed = state.innermost(target)
    runners = expanded.combined - (frozenset() if placed is None else placed.replicated)
    tests = (*state.tests(BLOCK, THREAD), *first_of(runners, state), *tests)
    exchange = ThreadExchange(
        f"{expanded.buffer}_shared", op, dtype, tuple(extents), expanded.combined, state
    )
    given, first = exchange.given(first, cell)
    if exchange.buffer is None:
        final = guarded(tests, (Store(*place, cast(binary(op, before, first), own)),))
        return _unrolled(outer, extents, (*stmts, *given, *final), last="unroll")
    taken, first = exchange.taken(cell)
    final = guarded(tests, (Store(*place, cast(binary(op, before, first), own)),))
    return (
        *_unrolled(outer, extents, (*stmts, *given), last="unroll"),
        ir.Barrier(),
        *_unrolled(outer, extents, (*taken, *final), last="unroll"),
    )


def _within_ranges(
    moved: Iterable[LinearForm], statement: ScopStatement, state: EmitScope
) -> Iterator[Expr]:
    """The tests, those not certain, that accumulators are of elements of the iterations around, so
    many elements from the first: of `q*17 + r`, an `r` of 17 and more is an element of the next
    `q`, with accumulators elsewhere."""
    position = state.positions[statement.name]
    for inside, form in zip(moved, statement.write.subscripts, strict=True):
        terms = {} if form is None else form.terms
        free = [v for v in terms if position[v].counts]
        if len(terms) > 1 and len(free) == 1 and inside.terms:
            (variable,) = free
            steps = {name: step // terms[variable] for name, step in inside.terms.items()}
            value = position[variable].base + Form(0, steps)
            yield from state.between(value, position[variable].limits)


def _index(name: str, extent: int) -> Expr:
    return Var(name, INT64) if extent > 1 else integer(0)


def _lanes_mark(state: EmitScope) -> str:
    """The mark of a loop over accumulators: lanes of a vector, which threads of a GPU have none
    of."""
    return "vector" if state.kernel.launch is None else "unroll"


def _vector(name: str, lanes: int, body: tuple[Stmt, ...], state: EmitScope) -> tuple[Stmt, ...]:
    if lanes == 1:
        return body
    return (For(name, integer(0), integer(lanes), body, mark=_lanes_mark(state)),)


def _unrolled(
    names: list[str], extents: Iterable[int], body: tuple[Stmt, ...], last: str
) -> tuple[Stmt, ...]:
    for position, (name, extent) in reversed(list(enumerate(zip(names, extents, strict=True)))):
        if extent > 1:
            mark = last if position == len(names) - 1 else "unroll"
            body = (For(name, integer(0), integer(extent), body, mark=mark),)
    return body
