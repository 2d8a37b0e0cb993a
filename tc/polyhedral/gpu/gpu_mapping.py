"""Choosing a plan for GPUs: which loops blocks and threads run, what is tiled, and why.

The coincident loops of a part's outermost band are tiled; the loops over tiles go to blocks. In
each branch below, the innermost coincident loops go to threads; what of them threads do not take
sinks below reductions, so that operands and accumulators are used again.
(Vasilache et al. 2018, arXiv:1802.04730, sections 5.3 and 5.4.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import prod
from typing import Any

from tc.gpu import Gpu
from tc.options import GpuOptions
from tc.plan import AXES, BLOCK, REGISTER, SERIAL, THREAD, UNROLL, Bind, Sink
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import MOST_ORDERED, Draft
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.gpu.costs import TileOfSums, cost_of, reduction_of
from tc.polyhedral.gpu.gpu_promotion import Promoter, shared_bytes
from tc.polyhedral.gpu.matrix_tiles import (
    NO_MATRICES,
    TileOfMatrices,
    cheapest_sum,
    matrix_sums,
    warp_tiles,
)
from tc.polyhedral.gpu.resident_blocks import blocks_too_many, fewer_blocks
from tc.polyhedral.gpu.row_sums import map_rows, rows_of
from tc.polyhedral.gpu.tensor_cores import factors_of, mma_fault
from tc.polyhedral.gpu.thread_tiles import best_tile
from tc.polyhedral.gpu.warp_sectors import across_last, order_for_lanes
from tc.polyhedral.launch_legality import grid_barrier_positions
from tc.polyhedral.schedule import (
    Band,
    Member,
    Node,
    Sequence,
    in_order,
    leading_coincident,
    leaves,
    members_below,
    nodes,
    sequence_of,
)
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.polyhedral.target import PartPlan, Target

THREADS, EDGE = 256, 32
"""Threads of a block, and iterations of a tile along a loop, where options say nothing."""

MAX_TILE_ITERATIONS = 1024
"""Iterations of a tile along a loop beyond which none is tried."""


def choose(
    tree: Node, info: AccessInfo, dependences: Dependences, target: Target, options: GpuOptions
) -> Iterator[PartPlan]:
    """Plans for the parts of a tree: each is a launch, but those that run in one block, one after
    the other, are one launch, and with `single_kernel` all are."""
    parts = in_order(tree)
    if options.single_kernel and parts:
        parts = (sequence_of(parts),)
    else:
        parts = tuple(_of_one_block(parts, info.scop))
    for part in parts:
        mapper = _mapped(part, Draft(part, info, target), options, dependences)
        room, taken = mapper.gpu.shared, shared_bytes(mapper.draft.tree, info.scop)
        if taken > room and not mapper.no_rows:
            told = f"{taken} bytes of shared memory for sums of threads, where a block has {room}"
            mapper = _mapped(part, Draft(part, info, target), options, dependences, no_rows=told)
        if options.single_kernel and mapper.gpu.cooperative:
            mapper = _at_once(part, mapper, dependences)
        yield mapper.draft.chosen()


def _of_one_block(parts: tuple[Node, ...], scop: Scop) -> Iterator[Node]:
    """The parts, where neighbours that no more than one block can run are one."""

    def is_of_one_block(part: Node) -> bool:
        members, _ = leading_coincident(part)
        statements = list(map(scop.statement, leaves(part)))
        return all(trips_of(member, statements) == 1 for member in members)

    for alone, group in groupby(parts, is_of_one_block):
        found = tuple(group)
        if alone and len(found) > 1:
            yield sequence_of(found)
        else:
            yield from found


def _mapped(
    part: Node,
    draft: Draft,
    options: GpuOptions,
    dependences: Dependences,
    limits: Mapping[str, int] | None = None,
    no_rows: str = "",
) -> _Mapper:
    mapper = _Mapper(draft, options, dependences, limits or {}, no_rows)
    if no_rows:
        draft.notes.append(f"{', '.join(leaves(part))}: threads share no rows: {no_rows}.")
    mapper.map(part)
    return mapper


def _at_once(part: Node, first: _Mapper, dependences: Dependences) -> _Mapper:
    """The mapping of a part; where its blocks must wait for each other, a mapping to so few blocks
    that all of them run at a time."""
    info, mapper, room = first.draft.info, first, None
    while found := blocks_too_many(mapper.draft.tree, info.scop, mapper.gpu):
        if not mapper.waiting(dependences):
            return mapper
        room = found[1] if room is None else min(found[1], room - 1)
        limits = fewer_blocks(first.draft.tree, info.scop, room)
        draft = Draft(part, info, first.draft.target)
        mapper = _mapped(part, draft, first.options, dependences, limits, first.no_rows)
    if waiting := mapper.waiting(dependences):
        names = "; ".join(", ".join(leaves(child)) for child in waiting)
        mapper.draft.notes.append(f"All blocks wait for each other before: {names}.")
    return mapper


def has_coincident(node: Node, scop: Scop) -> bool:
    """Whether a loop of several iterations below is coincident."""
    for band in nodes(node):
        if isinstance(band, Band):
            statements = list(map(scop.statement, leaves(band)))
            if any(m.coincident and trips_of(m, statements) > 1 for m in band.members):
                return True
    return False


@dataclass
class _Mapper:
    """Maps one part to no more blocks along an axis than `limits` say; threads share rows, unless
    `no_rows` tells why not. The part has so many `threads` along each axis so far. What is being
    mapped has sums that end where data say (`by_data`): no two threads go through the same terms,
    so that they can share none of these in memory of the block."""

    draft: Draft
    options: GpuOptions
    dependences: Dependences
    limits: Mapping[str, int]
    no_rows: str
    threads: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AXES, 1))
    by_data: bool = False

    @property
    def gpu(self) -> Gpu:
        gpu = self.draft.target.device
        assert isinstance(gpu, Gpu)
        return gpu

    def waiting(self, dependences: Dependences) -> list[Node]:
        """The children of the part before which all blocks must wait for each other."""
        tree = self.draft.tree
        if not isinstance(tree, Sequence):
            return []
        return [tree.children[number] for number in grid_barrier_positions(tree, dependences)]

    def map(self, part: Node) -> None:
        """Maps the outermost band of each child to blocks, and the loops inside to threads."""
        for node in in_order(part):
            members, inside = leading_coincident(node)
            names = tuple(leaves(node))
            info = self.draft.info
            self.by_data = any(info.rows(info.scop.statement(name)) for name in names)
            if self._rows(members, inside, names):
                continue
            if not members:
                self.draft.notes.append(f"{', '.join(names)}: no loop is parallel; one thread.")
                self._promote(inside, names, (), None, None)
                continue
            deeper = has_coincident(inside, self.draft.info.scop)
            if not deeper:
                members = self._along_memory(members, inside, names)
            members = self.draft.decide_order("order of blocks", members, names)
            self.draft.order(members, names)  # the last ones are along x and y
            if not (deeper or self.by_data) and self._by_warps(members, inside, names):
                continue
            found = None if deeper or self.by_data else self._tile_of_sums(members, inside)
            sizes = self._tile_sizes(members, names, found, deeper=deeper)
            outer, points = self.draft.tiled(members, sizes, names)
            outer = self._most_tiles_first(outer, points, names)
            self._blocks(outer, names)
            if deeper:
                for branch in in_order(inside):
                    self._threads_below(branch, (*outer, *points))
                told = self._promoter(outer, None).hold_met(names)
                self.draft.notes += [f"{', '.join(names)}: {note}." for note in told]
                continue
            wanted = None
            if found is not None:
                wanted, points = self._in_order(found, members, sizes, points, names)
            tiles = self.options.tile
            self._threads(
                points, inside, names, outer, tiles and tiles[len(members) :], wanted, found
            )

    def _along_memory(
        self, members: tuple[Member, ...], inside: Node, names: tuple[str, ...]
    ) -> tuple[Member, ...]:
        """Parallel loops, where options leave their order to tc and blocks have no tile of
        operands: last are those that threads along x are to run, so that a warp touches few sectors
        of memory. So it is with sums that are stored along another loop than they read. Of what
        sums nothing, the loop along which it reads is the last but one, so that tiles of what is
        turned around have whole sectors."""
        given = (self.options.tile, self.options.blocks, self.options.threads)
        statements = [self.draft.info.scop.statement(name) for name in names]
        if given != (None, None, None) or any(s.gathers for s in statements):
            return members
        has_sum = any(s.accumulates and s.reduction for s in statements)
        if not has_sum:
            return across_last(members, statements, self.draft.info)
        if not self.by_data and self._tile_of_sums(members, inside) is not None:
            return members
        return order_for_lanes(members, statements, self.draft.info, self.gpu.warp)

    def _by_warps(self, members: tuple[Member, ...], inside: Node, names: tuple[str, ...]) -> bool:
        """Maps a sum of products to tensor cores, where there are any for its type and options
        leave the tile to tc; whether there is such a sum."""
        given = (self.options.tile, self.options.blocks, self.options.threads)
        allowed = self.options.shared is not False and self.options.private is not False
        is_alone = len(in_order(self.draft.tree)) == 1
        if given != (None, None, None) or not allowed or not is_alone:
            return False
        found = self._matrices(members, inside, names)
        if found is None:
            return False
        before, notes, threads = self.draft.state, list(self.draft.notes), dict(self.threads)
        digits = found.digits(members, names, self.draft)
        for own in self._sunk(digits.own, names):
            self.draft.do(Bind(own, UNROLL))
        self._unroll(digits.own, names)
        self._blocks(digits.outer, names)
        told = []
        along = [*((warp, "z") for warp in digits.warps), *zip(digits.lanes, "yx", strict=True)]
        for loop, axis in along:
            count = self.draft.trips(loop, names)
            self.threads[axis] *= count
            told.append(self._bind(loop, THREAD, axis, count, names))
        around = (*digits.outer, *digits.warps, *digits.lanes)
        promoter = self._promoter(around, digits.lanes[1], matrices=found)
        told += promoter.promote(inside, names)
        scop = self.draft.info.scop
        reason = mma_fault(self.draft.tree, scop)
        if shared_bytes(self.draft.tree, scop) > self.gpu.shared:
            reason = "tensor cores have no operands: they do not fit into shared memory"
        if reason is None:
            self.draft.notes.append(f"{', '.join(names)}: {found}; {', '.join(told)}.")
            return True
        self.draft.restore(before)
        self.draft.notes = [*notes, f"{found.sum.statement}: {reason}."]
        self.threads = threads
        return False

    def _matrices(
        self, members: tuple[Member, ...], inside: Node, names: tuple[str, ...]
    ) -> TileOfMatrices | None:
        """The tile for the statement inside of parallel loops whose products tensor cores add up;
        None where there is none, or they take longer."""
        info, room = self.draft.info, self.draft.target.room(REGISTER) or 0
        for branch in in_order(inside):
            own = tuple(leaves(branch))
            if not isinstance(branch, Band) or len(own) > 1:
                continue
            statement = info.scop.statement(own[0])
            factors = factors_of(statement, info.scop)
            if factors is None or factors.product.mark not in self.draft.target.roles:
                continue
            every = matrix_sums(statement, members, branch.members, info)
            found = cheapest_sum(every, self.gpu, room)
            if found is None:
                self.draft.notes.append(f"{own[0]}: {NO_MATRICES}.")
                continue
            pays = self._pays(found, statement, members, branch.members)
            if not pays:
                self.draft.notes.append(
                    f"{own[0]}: tensor cores would take longer for its products."
                )
            if self.draft.decide_whether("tensor cores", names, default=pays):
                others = partial(warp_tiles, found.sum, self.gpu, room)
                tile = self.draft.decide("tile of warps", names, found.tile, others)
                return replace(found, tile=tile)
        return None

    def _pays(
        self,
        found: TileOfMatrices,
        statement: ScopStatement,
        members: tuple[Member, ...],
        steps: tuple[Member, ...],
    ) -> bool:
        """Whether tensor cores take less time for a sum than threads: they do, unless each tile has
        few steps, as of a window or of a part of a sum."""
        if found.sum.outer_steps == 1 and not found.sum.is_part:
            return True
        info, room = self.draft.info, self.draft.target.room(REGISTER) or 0
        reduction = reduction_of(statement, members, steps, info)
        tile = reduction and best_tile(reduction, self.gpu, room)
        cost = reduction and tile and cost_of(tile, reduction, self.gpu, room)
        return not cost or found.cycles < cost.cycles

    def _tile_of_sums(self, members: tuple[Member, ...], inside: Node) -> TileOfSums | None:
        """The tile for the statement inside of parallel loops that sums most, where options leave
        it to tc; None where none sums."""
        if self.options.tile is not None or self.options.threads is not None:
            return None
        info, found = self.draft.info, []
        bands = (branch for branch in in_order(inside) if isinstance(branch, Band))
        for name, steps in ((n, b.members) for b in bands for n in leaves(b)):
            statement, below = info.scop.statement(name), members_below(inside)[name]
            if statement.accumulates and below == steps:
                reduction = reduction_of(statement, members, steps, info)
                if reduction is not None and reduction.reads_again:
                    found.append((prod(reduction.extents), name, reduction))
        if not found:
            return None
        _, name, reduction = max(found, key=lambda each: each[0])
        room = self.draft.target.room(REGISTER) or 0
        tile = best_tile(reduction, self.gpu, room, beside=tuple(self.threads.values()))
        variables = tuple(member.values[name].variable for member in members)
        return None if tile is None else TileOfSums(name, variables, reduction, tile)

    def _in_order(
        self,
        found: TileOfSums,
        members: tuple[Member, ...],
        sizes: list[int],
        points: tuple[Member, ...],
        names: tuple[str, ...],
    ) -> tuple[tuple[int, ...], tuple[Member, ...]]:
        """How many threads run each of the last loops in a tile, and these loops in order: those of
        threads last, along x what has neighbours in memory."""
        whole = (n for n, m in enumerate(members) if sizes[n] >= self.draft.trips(m, names))
        loops = sorted({*whole, *(n for n, size in enumerate(sizes) if size > 1)})
        threads, place = found.tile.threads, found.reduction.by_stride.index
        pairs = sorted(
            zip(loops, points, strict=True),
            key=lambda pair: (threads[pair[0]] > 1, -place(pair[0])),
        )
        wanted = tuple(threads[loop] for loop, _ in pairs if threads[loop] > 1)
        return wanted, tuple(point for _, point in pairs)

    def _most_tiles_first(
        self, outer: tuple[Member, ...], points: tuple[Member, ...], names: tuple[str, ...]
    ) -> tuple[Member, ...]:
        """Loops over tiles; where blocks have numbers along fewer axes, those with the fewest tiles
        last."""
        if len(outer) <= len(AXES) or self.options.blocks is not None:
            return outer
        by_trips = sorted(outer, key=lambda m: self.draft.trips(m, names), reverse=True)
        first = by_trips[: len(AXES)]
        ordered = (*(m for m in outer if m in first), *(m for m in outer if m not in first))
        self.draft.order((*ordered, *points), names)
        return ordered

    def _rows(self, members: tuple[Member, ...], inside: Node, names: tuple[str, ...]) -> bool:
        """Maps rows whose reductions threads share, where options say nothing else; whether there
        are such rows."""
        given = (self.options.tile, self.options.blocks, self.options.threads)
        rows = None
        is_free = given == (None, None, None) and self.options.private is not False
        if is_free and not self.no_rows:
            rows = rows_of(members, inside, self.draft, self.gpu, self.threads)
        if rows is None or not self.draft.decide_whether("rows by threads", names):
            return False
        before, notes, threads = self.draft.state, list(self.draft.notes), dict(self.threads)
        outer, points = self.draft.tiled(rows.loops, rows.together, names)
        outer = self._most_tiles_first(outer, points, names)
        self._blocks(outer, names)
        axis, own = "y" if rows.axis == "x" else "x", 1
        for point in points:
            count = self.draft.trips(point, names)
            self._bind(point, THREAD, axis, count, names)
            own *= count
        self.threads[axis] = max(self.threads[axis], own)
        self.threads[rows.axis] = max(self.threads[rows.axis], rows.width)
        around = (*outer, *points)
        told = map_rows(rows, around[-1] if around else None, self.draft)
        self.draft.notes.append(f"{', '.join(told)}.")
        if shared_bytes(self.draft.tree, self.draft.info.scop) <= self.gpu.shared:
            return True
        self.draft.restore(before)
        self.draft.notes, self.threads = notes, threads
        return False

    # --- blocks -----------------------------------------------------------------------------

    def _tile_sizes(
        self,
        members: tuple[Member, ...],
        names: tuple[str, ...],
        found: TileOfSums | None,
        *,
        deeper: bool,
    ) -> list[int]:
        """The iterations of a tile along each coincident member of the outermost band."""
        extents = [self.draft.trips(member, names) for member in members]
        if self.options.tile is not None:
            given = self.options.tile[: len(members)]
            return [*given, *extents[len(given) :]]
        if found is not None:
            sizes = list(found.tile.sizes)
        elif deeper or prod(self._wanted_threads(len(members))) == 1:
            sizes = [1] * len(members)
        elif len(members) == 1:
            sizes = [min(extents[0], prod(self._wanted_threads(1)))]
        else:
            sizes = [*[1] * (len(members) - 2), *(min(extent, EDGE) for extent in extents[-2:])]
            if self.by_data:
                along = (1, *self._wanted_threads(2))[-2:]
                sizes[-2:] = map(min, extents[-2:], along)
            elif any(self.draft.info.scop.statement(name).accumulates for name in names):
                sizes[-2] = self._rows_of_a_block(sizes, extents)
        return [
            self.draft.decide(
                f"tile of {self.draft.name(member, names)}", names, size, partial(_sizes, extent)
            )
            for member, size, extent in zip(members, sizes, extents, strict=True)
        ]

    def _rows_of_a_block(self, sizes: list[int], extents: list[int]) -> int:
        """How many iterations of the last loop but one a tile has, so that all multiprocessors have
        blocks, as each result takes many steps."""
        rows = sizes[-2]
        others = zip((*sizes[:-2], sizes[-1]), (*extents[:-2], extents[-1]), strict=True)
        blocks = prod(-(-extent // size) for size, extent in others)
        while rows > 1 and blocks * -(-extents[-2] // rows) < self.gpu.processors:
            rows //= 2
        return rows

    def _wanted_threads(self, loops: int) -> tuple[int, ...]:
        """How many threads there may be along each of the innermost loops, outermost first, beside
        the threads of other loops of the part."""
        if self.options.threads is not None:
            return self.options.threads[-loops:]
        along_x, along_y, along_z = self.threads.values()
        most = max(min(THREADS, self.gpu.threads), prod(self.threads.values())) // along_z
        edge = most if loops == 1 else max(EDGE, along_x)
        x = min(edge, most // along_y, self.gpu.thread_limits[0])
        if loops == 1:
            return (x,)
        return (min(most // max(x, along_x), self.gpu.thread_limits[1]), x)

    def _blocks(self, outer: tuple[Member, ...], names: tuple[str, ...]) -> None:
        given = self.options.blocks
        most = len(AXES) if given is None else len(given)
        mapped = outer[:most]
        told = []
        for place, member in enumerate(mapped):
            axis = AXES[len(mapped) - 1 - place]
            limit = self.gpu.grid_limits[AXES.index(axis)]
            limit = min(limit, self.limits.get(axis, limit))
            count = limit if given is None else min(given[place], limit)
            if given is None and not self.limits:
                count = self._blocks_along(member, axis, count, names)
            told.append(self._bind(member, BLOCK, axis, count, names))
        if told:
            self.draft.notes.append(f"{', '.join(names)}: {', '.join(told)}.")

    def _blocks_along(self, member: Member, axis: str, most: int, names: tuple[str, ...]) -> int:
        """How many blocks there are along an axis: one for each tile, or fewer that take turns."""
        trips = self.draft.trips(member, names)
        fewer = (2**n for n in range(16) if 2**n < min(trips, most))
        found = self.draft.decide(f"blocks along {axis}", names, 0, lambda: fewer)
        return found or most

    def _bind(
        self, member: Member, role: str, axis: str, count: int, names: tuple[str, ...]
    ) -> str:
        """Binds a loop to at most `count` blocks or threads. Returns a note."""
        trips = self.draft.trips(member, names)
        loop = self.draft.name(member, names)
        if min(count, trips) > 1:
            self.draft.bind([member], role, names, axis, count if count < trips else None)
        turns = -(-trips // count)
        taken = f" in {turns} turns" if turns > 1 else ""
        number = min(count, trips)
        runners = f"one {role}" if number == 1 else f"{number} {role}s"
        return f"{loop} is run by {runners} along {axis}{taken}"

    # --- threads ----------------------------------------------------------------------------

    def _threads_below(self, node: Node, around: tuple[Member, ...]) -> None:
        """Maps the innermost coincident loops of a branch to threads."""
        members, inside = leading_coincident(node)
        names = tuple(leaves(node))
        if members and not has_coincident(inside, self.draft.info.scop):
            self._threads(members, inside, names, around)
        elif has_coincident(node, self.draft.info.scop):
            below = (*around, *members)
            if not members and isinstance(node, Band):  # iterations that depend on each other
                below, inside = (*around, *node.members), node.child
            for branch in in_order(inside):
                self._threads_below(branch, below)
        else:
            self._promote(node, names, around, None, None)

    def _threads(
        self,
        points: tuple[Member, ...],
        inside: Node,
        names: tuple[str, ...],
        around: tuple[Member, ...],
        sizes: tuple[int, ...] | None = None,
        wanted: tuple[int, ...] | None = None,
        found: TileOfSums | None = None,
    ) -> None:
        """Maps the innermost of some loops to threads, as many as are `wanted`; the loops that are
        left sink."""
        most = 2 if self.options.threads is None else len(AXES)
        points = self._points(points, names)
        if wanted is None:
            wanted = self._wanted_threads(min(len(points), most))
        if self.options.threads is None and self.draft.target.decider.searches:
            wanted = self._threads_along(points, wanted, names)
        own = points[max(0, len(points) - len(wanted)) :]
        serial = list(points[: len(points) - len(own)])
        threads: list[tuple[Member, int]] = []
        for member, limit in zip(own, wanted[len(wanted) - len(own) :], strict=True):
            trips = self.draft.trips(member, names)
            count = self._fitting(limit, trips, member)
            bound = member
            if count == 1:
                serial.append(member)
            elif count < trips and (member.span is None or trips % count == 0):
                inside_thread, bound = self._shared_out(member, count, names, found)
                serial += inside_thread
            threads.append((bound, count))
        bound_members = tuple(member for member, count in threads if count > 1)
        self.draft.order((*bound_members, *serial), names)
        told = []
        for place, (member, count) in enumerate(threads):
            if count > 1:
                axis = AXES[len(threads) - 1 - place]
                self.threads[axis] = max(self.threads[axis], count)
                told.append(self._bind(member, THREAD, axis, count, names))
        if serial:
            for loop in self._sunk(tuple(serial), names):
                self.draft.do(Bind(loop, UNROLL))
            self._unroll(tuple(serial), names)
        if told:
            self.draft.notes.append(f"{', '.join(names)}: {', '.join(told)}.")
        lane = threads[-1][0] if threads and threads[-1][1] > 1 else None
        self._promote(inside, names, (*around, *bound_members), lane, sizes, found)

    def _shared_out(
        self, member: Member, count: int, names: tuple[str, ...], found: TileOfSums | None
    ) -> tuple[tuple[Member, ...], Member]:
        """A loop as loops that each thread runs for itself, and the loop that so many threads run:
        next to each other are iterations of neighbours or, where they read neighbours in memory,
        or the same, of one thread."""
        together = 1
        if found is not None:
            together = found.neighbours(member, -(-self.draft.trips(member, names) // count))
        sizes = (count * together, *[together] * (together > 1))
        trips = self.draft.trips(member, names)
        loops = self.draft.tile(member, tuple(size for size in sizes if size < trips), names)
        bound = loops[-2] if together > 1 else loops[-1]
        return tuple(loop for loop in loops if loop is not bound), bound

    def _points(self, points: tuple[Member, ...], names: tuple[str, ...]) -> tuple[Member, ...]:
        """The loops inside of a tile, that of the threads along x last."""
        if not 1 < len(points) <= MOST_ORDERED:
            return points
        named = {self.draft.name(m, names): m for m in points}
        last = self.draft.decide("threads along x run", names, [*named][-1], lambda: iter(named))
        return (*(m for name, m in named.items() if name != last), named[last])

    def _threads_along(
        self, points: tuple[Member, ...], wanted: tuple[int, ...], names: tuple[str, ...]
    ) -> tuple[int, ...]:
        """The threads for the innermost loops, at most three, as was decided for one loop after the
        other, the loop along x first."""
        wanted = (*[1] * (min(len(points), len(AXES)) - len(wanted)), *wanted)
        own = points[len(points) - len(wanted) :]
        found: list[int] = []
        for axis, member, default in zip(AXES, reversed(own), reversed(wanted), strict=False):
            trips = self.draft.trips(member, names)
            left = [n for other, n in self.threads.items() if other not in AXES[: len(found) + 1]]
            taken = prod(max(n, self.threads[a]) for a, n in zip(AXES, found, strict=False))
            room = min(self.gpu.threads // (taken * prod(left)), trips)
            most = max(1, min(room, self.gpu.thread_limits[AXES.index(axis)]))
            default = self._fitting(min(default, most), trips, member)
            sizes = (n for n in _sizes(trips) if n <= most and (not member.span or trips % n == 0))
            what = f"threads along {axis}"
            found.append(self.draft.decide(what, names, default, partial(iter, tuple(sizes))))
        return tuple(reversed(found))

    def _sunk(self, members: tuple[Member, ...], names: tuple[str, ...]) -> tuple[str, ...]:
        """Makes loops the innermost ones; loops of one band sink together. Returns the names that
        the loops had before."""
        loops = self.draft.names(members, names)
        bands = [node.members for node in nodes(self.draft.tree) if isinstance(node, Band)]
        if any(all(member in own for member in members) for own in bands):
            self.draft.do(Sink(loops))
        else:
            for loop in loops:
                self.draft.do(Sink((loop,)))
        return loops

    def _unroll(self, members: tuple[Member, ...], names: tuple[str, ...]) -> None:
        """Unrolls loops that have sunk to several places, where each place has another name."""
        digits = {(member.name, member.step, member.span) for member in members}
        for band in nodes(self.draft.tree):
            own = tuple(leaves(band))
            if isinstance(band, Band) and set(own) <= set(names):
                for member in band.members:
                    is_one = (member.name, member.step, member.span) in digits
                    if is_one and member.role == SERIAL:
                        self.draft.do(Bind(self.draft.name(member, own), UNROLL))

    def _fitting(self, limit: int, trips: int, member: Member) -> int:
        """How many threads run a loop. Where tc chooses, the number divides the iterations of a
        tile."""
        count = min(limit, trips)
        if self.options.threads is None and member.span is not None:
            count = next(n for n in range(count, 0, -1) if trips % n == 0)
        return count

    def _promoter(
        self,
        around: tuple[Member, ...],
        lane: Member | None,
        **others: Any,
    ) -> Promoter:
        options = replace(self.options, shared=False) if self.by_data else self.options
        return Promoter(self.draft, options, self.dependences, around, lane, **others)

    def _promote(
        self,
        inside: Node,
        names: tuple[str, ...],
        around: tuple[Member, ...],
        lane: Member | None,
        sizes: tuple[int, ...] | None,
        found: TileOfSums | None = None,
    ) -> None:
        told = self._promoter(around, lane, sizes=sizes, found=found).promote(inside, names)
        if told:
            self.draft.notes.append(f"{', '.join(names)}: {', '.join(told)}.")


def _sizes(extent: int) -> list[int]:
    """Sizes of tiles of a loop: powers of two, and sizes that make a few tiles of the loop.

    >>> _sizes(20)
    [1, 2, 3, 4, 5, 7, 8, 10, 16, 20]
    """
    most = min(extent, MAX_TILE_ITERATIONS)
    divisors = {-(-extent // parts) for parts in range(1, 9)}
    return sorted({2**n for n in range(11)}.union(divisors).intersection(range(1, most + 1)))
