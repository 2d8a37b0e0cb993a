"""Rows whose reductions threads share: softmax, norms, sums along an axis, greatest elements.

Where each element of the outermost parallel loops, a *row*, needs reductions over elements that
only this row reads, a row is too much for one thread: reads of neighbouring threads lie far from
each other, and there may be fewer rows than threads. So some threads share the row: all loops along
it are in tiles of as many iterations as there are threads, accumulators stand apart and are
combined, and what a row has one of is in registers of all these threads. Short rows share a warp or
a block. Where neighbouring rows lie side by side in memory, as in sums along columns, threads along
x run rows, those of several loops where one has too few, and those along y share the reduction.
(Harris, "Optimizing Parallel Reduction in CUDA", 2007, has the steps within a block.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tc.gpu import Gpu
from tc.plan import AXES, REGISTER, THREAD, UNROLL, Bind, Promote, Split
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.footprint import repeats, trips_of
from tc.polyhedral.gpu.gpu_promotion import register_bytes
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import Band, Leaf, Member, Node, in_order, leaves, tiles
from tc.polyhedral.scop.scop import Access, ScopStatement

SHORTEST = 8
"""Elements of a row from which on threads share it."""

EACH, LEAST = 16, 4
"""Elements of a row for each thread: where there are rows enough for all multiprocessors, and
where there are few."""

BUSY = 1024
"""Threads of a multiprocessor that keep memory busy."""

BLOCK_THREADS = 128
"""Threads of a block in which several rows are together."""

WARP = 32
"""Threads along a row beyond which more do not matter, where neighbours in memory are elsewhere."""

COLUMNS, MOST_COLUMNS = 32, 64
"""Neighbouring rows that threads along x run, about, and at most."""

FEWEST_COLUMNS = 8
"""Neighbours in memory that are rows, from which on threads along x run these: a sector of 32
bytes holds as many floats."""

IDLE = 0.2
"""The part of the threads along a loop that may be idle in the last block without a better
number of them being looked for."""

MOST_UNROLLED = 32
"""Turns of a thread along a row that are straight-line code."""

MOST_HELD = 96
"""Registers of a thread for elements of its row."""


@dataclass(frozen=True)
class Branch:
    """Loops inside of a row, and the statements that they run: `sums`, or what is done to each
    element, or (without loops) once in a row. Threads share the loop `shared`."""

    names: tuple[str, ...]
    loops: tuple[Member, ...]
    shared: Member | None
    sums: bool


@dataclass(frozen=True)
class Rows:
    """Rows that threads share: `width` threads along the `axis` each; of each loop of the rows so
    many iterations are `together` in one block."""

    loops: tuple[Member, ...]
    branches: tuple[Branch, ...]
    axis: str
    width: int
    together: tuple[int, ...]


def rows_of(
    members: tuple[Member, ...],
    inside: Node,
    draft: Draft,
    gpu: Gpu,
    threads: Mapping[str, int],
) -> Rows | None:
    """The rows of a band, whose parallel loops are `members`; None where no reductions are along
    rows, or one thread is enough for each. Other loops of the launch are run by so many `threads`
    along each axis."""
    info, names = draft.info, tuple(leaves(inside))
    rows = tuple(m for m in members if draft.trips(m, names) > 1)
    for columns in ((), _columns(rows, names, info)):
        branches = [_branch(node, rows, columns, info) for node in in_order(inside)]
        found = tuple(branch for branch in branches if branch is not None)
        sums = [branch for branch in found if branch.sums]
        if len(found) == len(branches) and sums:
            rows_found = _shared(members, found, columns, draft, gpu)
            return rows_found if rows_found is None else _fitting(rows_found, threads, gpu)
    return None


def _columns(
    rows: tuple[Member, ...], names: tuple[str, ...], info: AccessInfo
) -> tuple[Member, ...]:
    """The loops of rows along which what the first sum reads goes on through memory, that along
    neighbours last, as many as give threads along x enough of them; none where neighbours are in
    one row."""
    for statement in map(info.scop.statement, names):
        for access in _own_reads(statement, rows, info) if statement.accumulates else ():
            values = [row.values[statement.name].variable for row in rows]
            strides = [abs(info.stride(access, v) or 0) for v in values]
            found, run = list[Member](), 1
            while run < COLUMNS and run in strides:
                row = rows[strides.index(run)]
                trips = trips_of(row, [statement])
                if not repeats(trips):  # a part of the rows, along which nothing goes on
                    break
                found.append(row)
                run *= trips
            if found:
                return tuple(reversed(found))
    return ()


def _own_reads(
    statement: ScopStatement, rows: tuple[Member, ...], info: AccessInfo
) -> Iterator[Access]:
    """The reads of what no other row needs: they move with all rows, or with a loop that has other
    ends for each row."""
    own = [row.values[statement.name].variable for row in rows]
    ends = info.rows(statement)
    for access in statement.reads:
        within = [e for e in ends if info.uses(access, e)]
        moved = frozenset[str]().union(*(ends[e] for e in within))
        is_own = all(v in moved or info.uses(access, v) for v in own)
        if access.tensor == statement.write.tensor or not is_own or (ends and not within):
            continue
        if not _is_window(statement, access, own):
            yield access


def _branch(
    node: Node, rows: tuple[Member, ...], columns: tuple[Member, ...], info: AccessInfo
) -> Branch | None:
    """What a child does in a row; None where it is neither a reduction nor done to each element."""
    names, loops = tuple(leaves(node)), list[Member]()
    while isinstance(node, Band):
        loops += node.members
        node = node.child
    if not all(isinstance(child, Leaf) for child in in_order(node)):
        return None
    statements = [info.scop.statement(name) for name in names]
    if not loops:
        return Branch(names, (), None, sums=False)
    sums = all(_reduces(s, loops) for s in statements)
    if sums and (len(names) > 1 or not _is_along(statements[0], rows, loops, columns, info)):
        return None
    if not sums and not all(loop.coincident for loop in loops):
        return None
    if columns:
        shared = max(loops, key=lambda loop: trips_of(loop, statements))
    else:
        shared = _contiguous(statements, rows, loops, info)
    return Branch(names, tuple(loops), shared, sums)


def _reduces(statement: ScopStatement, loops: list[Member]) -> bool:
    variables = [loop.values[statement.name].variable for loop in loops]
    return statement.accumulates and all(v in statement.reduction for v in variables)


def _is_along(
    statement: ScopStatement,
    rows: tuple[Member, ...],
    loops: list[Member],
    columns: tuple[Member, ...],
    info: AccessInfo,
) -> bool:
    """Whether some read moves with all rows, as no other row needs what it reads, and neighbours in
    memory are in one row, or in neighbouring `columns`."""
    for access in _own_reads(statement, rows, info):
        values = (row.values[statement.name].variable for row in rows)
        near = [v for v in values if info.stride(access, v) in (1, -1)]
        if columns:
            if near == [columns[-1].values[statement.name].variable]:
                return True
        elif not near and _stride_one(statement, access, loops, info):
            return True
    return False


def _is_window(statement: ScopStatement, access: Access, rows: Sequence[str | None]) -> bool:
    """Whether neighbouring rows read some of the same elements, as of x(i + k); not where a row
    moves by as much as its steps go through, as of x(64 * i + k)."""
    for form in access.subscripts:
        terms = {} if form is None else form.terms
        passed = sum(
            abs(terms[v]) * (statement.ranges[v][1] - statement.ranges[v][0] - 1)
            for v in statement.reduction
            if v in terms
        )
        if passed and any(v in terms and abs(terms[v]) <= passed for v in rows if v):
            return True
    return False


def _stride_one(
    statement: ScopStatement, access: Access, loops: list[Member], info: AccessInfo
) -> bool:
    variables = [loop.values[statement.name].variable for loop in loops]
    return any(info.stride(access, v) == 1 for v in variables)


def _contiguous(
    statements: list[ScopStatement], rows: tuple[Member, ...], loops: list[Member], info: AccessInfo
) -> Member:
    """The loop along which accesses that move with all rows find neighbours in memory, as these are
    most of what is read, or most accesses do, if that has iterations for several threads; else a
    long one; the last one of several."""

    def preference(loop: Member) -> tuple[int, int]:
        trips = trips_of(loop, statements)
        found = 0
        for s in statements:
            own = [row.values[s.name].variable for row in rows]
            for access in s.accesses:
                if info.stride(access, loop.values[s.name].variable) == 1:
                    found += 1 + len(s.accesses) * all(info.uses(access, v) for v in own)
        is_long = trips >= SHORTEST
        return (found if is_long else -1, 0 if found and is_long else min(trips, WARP))

    return max(reversed(loops), key=preference)


def _shared(
    members: tuple[Member, ...],
    branches: tuple[Branch, ...],
    columns: tuple[Member, ...],
    draft: Draft,
    gpu: Gpu,
) -> Rows | None:
    """How many threads share a row, and how many rows a block; None where one thread does."""
    names = tuple(name for branch in branches for name in branch.names)
    rows = prod(draft.trips(member, names) for member in members)
    lengths = [_length(b.loops, b, draft) for b in branches if b.sums]
    longest = max(_length((b.shared,), b, draft) for b in branches if b.shared is not None)
    length = max(lengths)
    if length < SHORTEST or longest < SHORTEST:
        return None
    enough = gpu.processors * BUSY
    if columns:
        sizes = _columns_of_a_block([draft.trips(loop, names) for loop in columns])
        if rows >= enough or prod(sizes) < FEWEST_COLUMNS:
            return None
        most = min(gpu.threads // prod(sizes), gpu.thread_limits[1])
        width = min(_power(max(length // EACH, enough // rows, 2)), _power(longest), most)
        loops = (*(m for m in members if m not in columns), *columns)
        ones = (1,) * (len(loops) - len(columns))
        return Rows(loops, branches, "y", width, (*ones, *sizes)) if width > 1 else None
    most = min(gpu.threads, gpu.thread_limits[0])
    width = min(max(-(-length // EACH), min(length // LEAST, enough // rows), 1), most)
    width = _even(width, longest, gpu.warp, most)
    together = 1
    if members:
        last = draft.trips(members[-1], names)
        together = max(BLOCK_THREADS // width, 1)
        while together > 1 and together * width > gpu.warp and rows < together * gpu.processors:
            together //= 2
        together = min(together, gpu.thread_limits[1], _power(last))
    ones = (1,) * (len(members) - 1)
    return Rows(members, branches, "x", width, (*ones, together)[: len(members)])


def _length(loops: Sequence[Member], branch: Branch, draft: Draft) -> int:
    """How many iterations some loops have in a row; on average, where data say how many."""
    length = prod(draft.trips(loop, branch.names) for loop in loops)
    for statement in map(draft.info.scop.statement, branch.names):
        for variable, rows in draft.info.rows(statement).items():
            if any(loop.values[statement.name].variable == variable for loop in loops):
                of_rows = (statement.ranges[v] for v in rows)
                length = -(-length // max(prod(end - begin for begin, end in of_rows), 1))
    return length


def _columns_of_a_block(extents: Sequence[int]) -> tuple[int, ...]:
    """How many neighbouring rows of each loop the threads along x of a block run, where the last
    loop is that of neighbours in memory: so that few are idle.

    >>> _columns_of_a_block([300]), _columns_of_a_block([331, 7]), _columns_of_a_block([39])
    ((32,), (5, 7), (39,))
    """
    sizes: tuple[int, ...] = ()
    for extent in reversed(extents):
        before = prod(sizes)
        size, most = -(-COLUMNS // before), min(extent, MOST_COLUMNS // before)

        def idle(tried: int, extent: int = extent) -> int:
            return -extent % tried

        if idle(size) > IDLE * extent:
            size = min(range(min(size, most), most + 1), key=idle)
        sizes = (size, *sizes)
    return sizes


def _fitting(rows: Rows, threads: Mapping[str, int], gpu: Gpu) -> Rows | None:
    """The rows, fewer of them in a block where it would have more threads than it can; None where
    there is no room for one."""
    other = "y" if rows.axis == "x" else "x"
    if rows.width < 2:
        return None
    along, beside = max(threads[rows.axis], rows.width), threads["z"]
    room = min(gpu.threads // (along * beside), gpu.thread_limits[AXES.index(other)])
    if room < max(threads[other], 1):
        return None
    if rows.axis == "y":
        return rows if prod(rows.together) <= room else None
    return replace(rows, together=tuple(min(size, room) for size in rows.together))


def _even(width: int, trips: int, warp: int, most: int) -> int:
    """About so many threads for the iterations of a loop: whole warps of which few threads are idle
    in the last turn; less than a warp where the loop has few iterations, or a block few threads.

    >>> [_even(n, trips, 32, 1024) for n, trips in ((784, 3136), (264, 4096), (4, 10), (3, 37))]
    [800, 256, 16, 32]
    """
    if min(trips, most) < warp:
        return min(_power(trips), most)
    near = (n for n in range(warp, most + 1, warp) if 3 * n >= 2 * width and 2 * n <= 3 * width)
    least = min(-(-max(width, 1) // warp) * warp, -(-trips // warp) * warp, most // warp * warp)

    def idle(threads: int) -> tuple[int, int]:
        return -trips % threads, abs(threads - width)

    return min((*near, least), key=idle)


def _power(number: int) -> int:
    """The least power of two that is no less.

    >>> [_power(number) for number in (1, 3, 8, 9)]
    [1, 4, 8, 16]
    """
    return 1 << max(number - 1, 0).bit_length()


# --- the plan -----------------------------------------------------------------------------------


def map_rows(rows: Rows, inside: Member | None, draft: Draft) -> Iterator[str]:
    """Gives all loops along rows to threads, and puts what a row has one of into registers; the
    innermost loop of rows is `inside`. Gives notes."""
    names = tuple(name for branch in rows.branches for name in branch.names)
    told = []
    for branch in rows.branches:
        if branch.shared is None:
            continue
        loop = draft.name(branch.shared, branch.names)
        turns, own = draft.tile(branch.shared, (rows.width,), branch.names)
        if branch.sums:
            digit = draft.name(own, branch.names)
            place = None if inside is None else draft.name(inside, branch.names)
            draft.do(Split(branch.names[0], (digit,), place))
        draft.bind([own], THREAD, branch.names, rows.axis)
        others = (loop for loop in branch.loops if loop is not branch.shared)
        _unroll((*others, turns), branch, draft)
        told.append(loop)
    yield f"{', '.join(names)}: {rows.width} threads along {rows.axis} share each row"
    for tensor in _of_rows(rows, draft):
        if _held(tensor, inside, names, draft):
            yield f"{tensor} in registers of all these threads"
    for tensor in _of_elements(inside, names, draft):
        if _held(tensor, inside, names, draft):
            yield f"{tensor} in registers, of each thread its own elements"


def _held(tensor: str, inside: Member | None, names: tuple[str, ...], draft: Draft) -> bool:
    """Puts a tensor into registers, where that can be done and there is room."""
    scop = draft.info.scop

    def promoted() -> bool:
        return draft.promote(Promote(tensor, REGISTER), inside, names)

    def fits(done: bool) -> bool:
        has_room = done and register_bytes(draft.tree, scop) <= 4 * MOST_HELD
        return has_room and promotion_fault(draft.tree, scop) is None

    return draft.attempt(promoted, fits) is True


def _of_elements(inside: Member | None, names: tuple[str, ...], draft: Draft) -> Iterator[str]:
    """The tensors of whose elements several statements of a row touch the same, those that the
    statements write first: few for each thread, at places that are known."""
    scop = draft.info.scop
    below = draft.footprint_in(inside, names).of(REGISTER)
    tensors = dict.fromkeys(a.tensor for n in names for a in scop.statement(n).promotable)
    written = {scop.statement(n).write.tensor for n in names}
    held = {tile.tensor for tile in tiles(draft.tree)}
    for tensor in sorted(tensors, key=lambda name: name not in written):
        found = below.box(tensor) if scop.shape(tensor) else None
        users = below.users(tensor)
        few = found is not None and prod(found.held) <= MOST_UNROLLED
        if few and len(users) > 1 and tensor not in held:
            yield tensor


def _unroll(loops: tuple[Member, ...], branch: Branch, draft: Draft) -> None:
    """Makes the turns of a thread along a row straight-line code, where they are few."""
    several = [loop for loop in loops if draft.trips(loop, branch.names) > 1]
    if prod(draft.trips(loop, branch.names) for loop in several) <= MOST_UNROLLED:
        for loop in several:
            draft.do(Bind(draft.name(loop, branch.names), UNROLL))


def _of_rows(rows: Rows, draft: Draft) -> Iterator[str]:
    """The tensors of which the statements of a row write one element."""
    scop = draft.info.scop
    found = dict.fromkeys(
        scop.statement(name).write.tensor
        for branch in rows.branches
        if branch.sums or not branch.loops
        for name in branch.names
    )
    yield from found
