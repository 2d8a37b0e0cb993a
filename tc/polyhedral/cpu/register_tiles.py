"""Choosing the register tile of a nest: which loop is the vectors', which are unrolled.

The model counts, for one step of the main statement's reduction over a tile of `rows` x `vectors`
vectors, the vector operations and the loads that they need; a tile is as good as its time per
useful element. Strided and gathered vectors count as many loads as they take, unless the operand
is packed, whose cost is shared by all uses of the packed elements. Times are in slots (`costs`).
Vectors of half the width take half a slot on narrow units, but as many instructions: they are of
use where they waste fewer lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, prod

from tc.device import Device
from tc.kernel.passes.demanded_lanes import MIN_VECTOR_BITS
from tc.kernel.passes.stores import MAX_INTERLEAVED
from tc.options import MappingOptions
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.cpu.analysis import ParallelNest, places
from tc.polyhedral.cpu.costs import (
    MAX_ROWS,
    SHORT,
    TileCosts,
    TileOperand,
    TileShape,
    device_of,
    is_alone,
    is_streamed,
    operand,
    staged_size,
    vectors_of,
)
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access

MIN_VECTORS_BEFORE_SHORT = 4
"""Vectors of a row from which the last one alone is made shorter."""

MAX_VECTORS = 8
"""How many vectors of a row are tried."""

COMBINED = 2
"""The partial sums of so many vectors of a tile with columns are combined in the time of one."""

FEW_TILES = 4
"""Tiles for each thread of which one more or less is weighed: of as many it is a fifth."""

MAX_COLUMNS = 8
"""Columns of a tile, at most."""

MOST_REGROUPED = 512
"""Steps of a sum up to which a target is staged for another loop than the rows': of longer sums
scattered stores are a small part."""


@dataclass(frozen=True)
class RegisterTile:
    """`rows` iterations of the member `row` times `vectors` vectors of `lanes` along the member
    `vector`.

    `reduced`: `vector` is a member of a reduction; such a tile may have `columns` iterations of the
    member `column`, for each row. The reads `packed` are to be packed, the reads
    `blocked` to be transposed block by block; a block has as many rows as a vector has lanes.
    The target is staged `along` a member, of which the stage has all iterations.
    """

    vector: Member
    lanes: int
    vectors: int
    row: Member | None
    rows: int
    column: Member | None
    columns: int
    reduced: bool
    packed: tuple[Access, ...]
    blocked: tuple[Access, ...]
    along: Member | None = field(compare=False)
    cost: float


def choose_tile(
    nest: ParallelNest,
    draft: Draft,
    options: MappingOptions,
    costs: TileCosts,
    written: frozenset[str],
    elsewhere: frozenset[str],
    buffer_slots: Callable[[RegisterTile], tuple[float, float]],
    *,
    shared: bool,
) -> RegisterTile | None:
    """The cheapest register tile, or the one that the decisions of the draft leave; None where
    nothing can be a vector. Threads may have `shared` the tiles.

    Tensors `written` by the cluster are not packed, nor tensors that other nests of the cluster
    read, `elsewhere`, where these may need another order. `buffer_slots` are those for each useful
    element of a step in which rows are packed, and those in which lines are fetched.
    """
    device = device_of(draft, options)
    threads = device.threads if shared and options.parallel else 1
    search = _Search(nest, device, options, costs, written, elsewhere, threads)
    candidates = list(search.candidates())
    best = _best(candidates, nest, costs, buffer_slots)
    if best is None or not draft.target.decider.searches:
        return best
    if options.pack is None:
        unpacked = replace(search, options=replace(options, pack=False))
        candidates += unpacked.candidates()
    return _decided(candidates, best, partial(draft.decide, statements=nest.names))


def _best(
    candidates: list[RegisterTile],
    nest: ParallelNest,
    costs: TileCosts,
    buffer_slots: Callable[[RegisterTile], tuple[float, float]],
) -> RegisterTile | None:
    """The cheapest tile, of those that are cheapest for a loop of vectors and a loop of rows, with
    what is packed in the order of rows and the lines that are fetched; the one that is cheapest
    without the lines, unless they make a clear difference."""
    best, own, least, seen = None, inf, inf, set[object]()
    for tile in sorted(candidates, key=lambda t: t.cost):
        members = (tile.vector, tile.row, tile.column)
        loops = (tile.lanes, *(m and m.name for m in members))
        if tile.cost < least and loops not in seen:
            packing, lines = buffer_slots(tile)
            cost = tile.cost + packing
            factor = 1.0 if best is None or cost < own else costs.lines_factor
            if (cost + lines) * factor < least:
                best, own, least = tile, cost, cost + lines
        seen.add(loops)
    alike = [t for t in candidates if best is not None and _is_alike(t, best, costs.tie_factor)]

    def preferred(tile: RegisterTile) -> tuple[bool, int, float]:
        is_whole = nest.extent(tile.vector) % (tile.lanes * tile.vectors) == 0
        return is_whole, tile.vectors, -tile.cost

    return max(alike, key=preferred, default=None)


def _decided(
    candidates: list[RegisterTile], best: RegisterTile, decide: Callable[..., str]
) -> RegisterTile | None:
    """The tile that is left when one property of tiles after the other has been decided. The
    default of each decision is the property of the best tile that is left."""
    vectors = {f"{t.vector.name} in {t.lanes}": (t.vector, t.lanes) for t in candidates}
    own = f"{best.vector.name} in {best.lanes}"
    found = decide("vectors along", default=own, alternatives=lambda: (*vectors, "none"))
    if found == "none":
        return None
    left = [t for t in candidates if (t.vector, t.lanes) == vectors[found]]
    questions: tuple[tuple[str, Callable[[RegisterTile], str]], ...] = (
        ("rows along", lambda t: t.row.name if t.row is not None and t.rows > 1 else "none"),
        ("columns", lambda t: "none" if t.column is None else f"{t.columns} {t.column.name}"),
        ("packed", lambda t: ", ".join(sorted({a.tensor for a in t.packed})) or "none"),
        ("vectors of a row", lambda t: str(t.vectors)),
        ("rows", lambda t: str(t.rows)),
    )
    for question, answer in questions:
        default = best if best in left else min(left, key=lambda t: t.cost)
        values = tuple(dict.fromkeys(map(answer, left)))
        found = decide(question, default=answer(default), alternatives=partial(iter, values))
        left = [t for t in left if answer(t) == found]
    return best if best in left else min(left, key=lambda t: t.cost)


def _is_alike(one: RegisterTile, best: RegisterTile, factor: float) -> bool:
    """Whether a tile is another shape of the best, at nearly the same cost."""
    size = best.rows * best.vectors
    if one.cost > best.cost * factor or one.rows * one.vectors != size:
        return False
    return replace(one, rows=best.rows, vectors=best.vectors, cost=best.cost) == best


@dataclass(frozen=True)
class _Search:
    """The register tiles of one nest, and what they cost."""

    nest: ParallelNest
    device: Device
    options: MappingOptions
    costs: TileCosts
    written: frozenset[str]
    elsewhere: frozenset[str]
    threads: int

    def candidates(self) -> Iterator[RegisterTile]:
        nest = self.nest
        widest = self.device.lanes(nest.element * 8)
        if widest == 1:
            return
        tiled = [m for m in nest.members if nest.variable(m) is not None and not nest.is_tested(m)]
        reduced = (m for m in nest.main.reduction if not nest.is_tested(m))
        for vector in (*filter(self._runs_along, tiled), *reduced):
            extent = nest.extent(vector)
            for lanes in _lane_counts(extent, widest) if extent > 1 else ():
                for row in (None, *(m for m in tiled if m != vector)):
                    yield from self._tiles(vector, lanes, row)
                    in_steps = self.options.reduction_tile is not None
                    for column in () if row is None or vector in tiled or in_steps else tiled:
                        if row and column != row and self._has_dimensions(row, column):
                            for columns in _column_counts(column, nest.extent(column)):
                                yield from self._tiles(vector, lanes, row, column, columns)

    def _has_dimensions(self, *members: Member) -> bool:
        """Whether the target has a dimension for each of some members alone: each iteration of them
        has accumulators of its own."""
        forms = [set(s.terms) for s in self.nest.main.statement.write.subscripts if s is not None]
        return all({self.nest.variable(member)} in forms for member in members)

    def _runs_along(self, member: Member) -> bool:
        """Whether all items move with a member."""
        return all(member.values[i.statement.name].variable for i in self.nest.items)

    def _tiles(
        self,
        vector: Member,
        lanes: int,
        row: Member | None,
        column: Member | None = None,
        columns: int = 1,
    ) -> Iterator[RegisterTile]:
        """The tiles of some lanes along a member, with rows along another, and some columns along a
        third."""
        options, model = self.options, _Model(self, vector, lanes, row, column, columns)
        blocked, accumulates = model.blocked, self.nest.main.statement.accumulates
        budget = max(self.device.vector_registers - 2, 2)
        if model.span < model.breadth and model.packed_bytes > self.device.l2 * 3 // 4:
            return  # no cache would hold what is packed until the last tile of columns has read it
        for vectors in _choices(options.vectors, MAX_VECTORS if column is None else 1):
            if vectors > 1 and (vectors - 1) * lanes >= model.width and options.vectors is None:
                break
            if not _splits(vector, vectors * lanes):
                continue
            for rows in _choices(options.rows, MAX_ROWS) if row is not None else (1,):
                if rows > model.height or (rows * model.span + 1) * vectors > budget:
                    break
                if (row is not None and not _splits(row, rows)) or (blocked and rows != lanes):
                    continue
                pays = model.row_tiling_pays if accumulates else model.shares_rows(rows)
                if rows > 1 and not (blocked or pays):
                    continue  # nothing is used again
                yield model.tile(rows, vectors)

    def operands(self, shape: TileShape) -> list[TileOperand]:
        may_pack = self.options.pack is not False
        return [
            operand(
                a,
                shape,
                self.costs,
                may_pack=may_pack
                and a.tensor not in self.written | self.elsewhere
                and self._reads_alike(a.tensor, shape),
                unwritten=may_pack and is_alone(a, self.nest) and a.tensor not in self.written,
            )
            for a in self.nest.main.statement.reads
            if a.site >= 0
        ]

    def _reads_alike(self, tensor: str, shape: TileShape) -> bool:
        """Whether one order of a tensor suits all that read it: along a reduction, the tiles of one
        sum are not those of another."""
        users = self.nest.users(tensor)
        own = len(users) == 1 or shape.v not in self.nest.main.statement.reduction
        return own and len(places(tensor, users, self.nest.members)) == 1


class _Model:
    """Costs of tiles of some lanes along a member, with rows along another. The terms that the size
    of a tile does not change are computed once."""

    def __init__(
        self,
        search: _Search,
        vector: Member,
        lanes: int,
        row: Member | None,
        column: Member | None,
        columns: int,
    ) -> None:
        nest, device = search.nest, search.device
        self.nest, self.device, self.costs = nest, device, search.costs
        self.vector, self.lanes, self.row, self.column = vector, lanes, row, column
        self.reduced = vector not in nest.members
        cycles = device.passes(device.vector_bits)
        share = device.passes(lanes * nest.element * 8) / cycles
        u = None if row is None else nest.variable(row)
        self.shape = TileShape(nest, device, nest.variable(vector), u, lanes, share, cycles)
        self.reads = search.operands(self.shape)
        self.streamed = sum(is_streamed(r.access, self.shape) for r in self.reads)
        self.width = nest.extent(vector)
        self.height = 1 if row is None else nest.extent(row)
        self.span, self.breadth = columns, 1 if column is None else nest.extent(column)
        # of rows and columns, the loop that moves the least stands inside
        reads = [r.access for r in self.reads if self.span < self.breadth]
        self.streamed_inside = min(reads, key=self._size, default=None)
        self.depth = prod(map(nest.extent, nest.main.reduction))
        self.threads = search.threads
        own = (vector, row, column)
        self.others = prod(nest.extent(m) for m in nest.members if m not in own)
        self.packed = tuple(r.access for r in self.reads if r.packing_slots and not r.blocked)
        self.blocked = tuple(r.access for r in self.reads if r.blocked)
        self.packing = sum(r.packing_slots for r in self.reads)
        self.panel = self.depth * self.shape.vector_bytes  # bytes, of one vector
        # where rows of the target are staged, a long reduction runs in one piece
        along, across = (nest.info.stride(nest.main.statement.write, x) for x in (self.shape.v, u))
        self.staged = along not in (0, 1) and across == 1
        # a processor begins what follows a short sum, and the next sum, before the sum ends
        waits = self.depth > SHORT or len(nest.items) <= 2
        self.row_tiling_pays = waits or any(r.serves_rows for r in self.reads)
        self.latency = 0.0
        if nest.main.statement.accumulates:
            # along a reduction accumulators wait for cycles: much of what is read comes from afar
            self.latency = device.fma_latency / (1 if self.reduced else cycles)

    def tile(self, rows: int, vectors: int) -> RegisterTile:
        """A tile with its cost, in slots for each useful element of a step."""
        costs, device, lanes, width = self.costs, self.device, self.lanes, vectors * self.lanes
        accumulators = rows * vectors * self.span
        free = device.vector_registers - accumulators - vectors
        loads = loading = fetched = 0.0
        held = min((read.kept_rows for read in self.reads), default=inf)
        crowded = self.span > 1 and rows + self.span > held
        for read in self.reads:
            columns = self.span if self._moves_with_columns(read.access) else 1
            count = vectors_of(read, rows, vectors, free) * columns
            loads += read.loads * count
            loading += read.loading_slots * count
            if crowded or read.rows[rows - 1] > read.kept_rows:
                fetched += device.line * count
            kept = read.reuse_distance_bytes * (
                read.rows[rows - 1] * columns
                if self.reduced
                else vectors
                if read.along and not read.across
                else 1
            )
            if read.access == self.streamed_inside:
                kept = max(kept, self._size(read.access))
            if kept > device.l1 and (columns == self.span or self.span < self.breadth):
                far = device.l2_bytes_per_cycle / device.read_rate(kept) if self.reduced else 1.0
                is_apart = read.fetched_bytes > device.line and kept > device.l2
                if is_apart and self.width < costs.packing_reads * width:
                    far = costs.unprefetched_factor  # else, rows are packed
                fetched += read.fetched_bytes * -(-count // read.neighbours) * far
        storing = 0.0
        if rows > 1 and not (self.blocked or self.nest.main.statement.accumulates):
            part = self._shared_part(rows)
            loads, loading = loads * part, loading * part
            storing = self._split_lines(rows, vectors) * costs.split_line_cycles
        operations = accumulators * max(1, len(self.reads) - 1)
        plain = not (self.reduced or self.packed)
        part = _computed(self.width, vectors, self.shape) if plain else 1.0
        busy = max(operations * part * self.shape.share, loading) / device.fma_per_cycle
        busy = max(busy, fetched / device.l2_bytes_per_cycle / self.shape.cycles, storing)
        work = max(busy, self.latency) + costs.issue_slots * (loads + operations)
        along = self._staged_along(rows, vectors)
        store = 0.0 if self.reduced else self._store_cost(along) / max(self.depth, 1)
        work += (
            self.packing + store
        ) * accumulators + self.streamed * costs.stream_switch_slots * rows
        if self.reduced:
            sums = rows if self.column is None else max(1.0, rows * self.span / COMBINED)
            work += costs.combining_slots * sums / max(1.0, self.depth / width)
        useful = accumulators * lanes * _fullness(self.width, width)
        cost = work / (useful * _fullness(self.height, rows) * _fullness(self.breadth, self.span))
        panels = 1 if self.reduced else -(-self.width // width)
        cost += self._refetch_cost(vectors) * (panels - 1)
        if self.width % width and not self.packed:
            gathers = any(r.gathered for r in self.reads)
            cost *= costs.masked_gather_factor if gathers else costs.masked_factor
        if self.staged and self.packed and self.panel * vectors > device.l2 // 2:
            cost *= costs.spilled_factor
        tiles = panels * -(-self.height // rows) * -(-self.breadth // self.span) * self.others
        if tiles < FEW_TILES * self.threads:  # else, no thread has much more to do than another
            cost *= -(-tiles // self.threads) * self.threads / tiles
        return RegisterTile(
            self.vector,
            lanes,
            vectors,
            self.row,
            rows,
            self.column,
            self.span,
            self.reduced,
            self.packed,
            self.blocked,
            along,
            cost,
        )

    def shares_rows(self, rows: int) -> bool:
        """Whether rows of a tile of a stencil read what other rows of the tile read. Registers hold
        what one row reads, and the first cache, of which a page has one line for each set, holds
        the lines of all rows of tensors that are read side by side."""
        if self.row is None or self.nest.main.reduction:
            return False
        lines = {line for row in self._windows[:rows] for line, _ in row}
        fits = len(lines) <= self.device.l1 // self.device.page
        fits &= len(self._windows[0]) < self.device.vector_registers
        return fits and self._shared_part(rows) < 1.0

    def _split_lines(self, rows: int, vectors: int) -> float:
        """The lines that stores of some rows of a tile wait for, one after the other: where
        vectors are as long as a line, a store goes to two, and where the first cache has not the
        second one, the next store is of another row. Temporaries stay in the cache."""
        device, write, scop = self.device, self.nest.main.statement.write, self.nest.info.scop
        near = write.tensor in scop.shaped.program.temporaries
        near |= prod(scop.shape(write.tensor)) * self.nest.element <= device.l1
        if near or device.vector_bits // 8 < device.line or self.shape.cycles > 1:
            return 0.0
        return rows * (vectors * self.shape.vector_bytes / device.line + 1)

    def _shared_part(self, rows: int) -> float:
        """The part of the vectors read by some rows of a stencil that is left where each is loaded
        once."""
        found = {vector for row in self._windows[:rows] for vector in row}
        return len(found) / (rows * len(self._windows[0])) if found else 1.0

    @cached_property
    def _windows(self) -> list[set[tuple[object, object]]]:
        """The vectors that each row of a tile reads, each behind the row of a tensor that has the
        vector. What has no linear form, is read under a condition, or is the same in all rows,
        counts for each row of the tile anew."""
        u, v = self.shape.u or "", self.shape.v
        found: list[set[tuple[object, object]]] = [set() for _ in range(MAX_ROWS)]
        for access in (read.access for read in self.reads):
            forms = [form for form in access.subscripts if form is not None]
            is_plain = len(forms) == len(access.subscripts) and not access.guarded
            moves = self.nest.info.uses(access, u)
            for n, row in enumerate(found):
                places = [
                    (f.constant + n * f.terms.get(u, 0), *sorted(f.terms.items())) for f in forms
                ]
                own = (access.site, n)
                if is_plain and moves:
                    across = tuple(
                        at for at, f in zip(places, forms, strict=True) if v not in f.terms
                    )
                    row.add(((access.tensor, across), tuple(places)))
                else:
                    row.add((own if moves else (), own))
        return found

    def _size(self, access: Access) -> int:
        """The bytes of the tensor that an access reads."""
        return prod(self.nest.info.scop.shape(access.tensor)) * self.nest.element

    @property
    def packed_bytes(self) -> int:
        """The bytes of all that is packed."""
        return sum(map(self._size, {a.tensor: a for a in self.packed}.values()))

    def _moves_with_columns(self, access: Access) -> bool:
        return self.column is not None and self.nest.uses(access, self.column)

    def _refetch_cost(self, vectors: int) -> float:
        """The slots of an instance in which a core reads once more what none of its caches holds,
        as each panel of the vector's member does; reads that move with that member are not
        counted."""
        device, part = self.device, 1.0
        if self.packed and not self.staged:  # a long reduction is cut into steps
            part = min(1.0, device.l2 / 4 / (self.panel * vectors))
        sizes = [size for size in self._reread if size * part > device.l2]
        cycles = sum(size / device.read_rate(size) for size in sizes)
        return cycles / self.shape.cycles / self.nest.main.instances

    @cached_property
    def _reread(self) -> list[int]:
        """The bytes of each read that does not move with the vector."""
        shaped, found = self.nest.info.scop.shaped, []
        for access in self.nest.main.statement.reads:
            if access in self.packed or self.nest.uses(access, self.vector) or access.site < 0:
                continue
            dtype = shaped.program.tensors[access.tensor].dtype
            found.append(prod(shaped.shapes[access.tensor]) * dtype.bytes)
        return found

    def _store_cost(self, along: Member | None) -> float:
        """Slots for storing a vector of each target, which is staged `along` a member."""
        total, info, shape, main = 0.0, self.nest.info, self.shape, self.nest.main.statement
        for item in self.nest.items:
            write = item.statement.write
            step = info.stride(write, self.vector.values[item.statement.name].variable)
            staged = along is not None and write.tensor == main.write.tensor
            scattered = (
                self.costs.staged_slots * shape.share
                if staged and along == self.row
                else self.costs.regrouped_slots * shape.share
                if staged
                else self.costs.scattered_slots * shape.lanes
            )
            if not staged and self._is_interleaved(write.tensor, step):
                scattered *= self.costs.interleaved_factor
            total += shape.share if step in (0, 1) else scattered
        return total / len(self.nest.items)

    def _is_interleaved(self, tensor: str, step: int | None) -> bool:
        """Whether statements of the nest store the elements between those of a vector, too."""
        if step is None or not 1 < step <= MAX_INTERLEAVED:
            return False
        writes = (item.statement.write for item in self.nest.items)
        return len({write.places for write in writes if write.tensor == tensor}) == step

    def _staged_along(self, rows: int, vectors: int) -> Member | None:
        """The member along which the target of the main statement is contiguous, if not along the
        vectors', and of which a staged target has all iterations; None where nothing is staged, or
        the stage does not fit. That is the rows' member, or another one where sums are short and
        the panels, which are packed or of which no iteration uses another one's, stay in the cache
        for all iterations."""
        nest, main, width = self.nest, self.nest.main.statement, vectors * self.lanes
        if self.reduced or not main.accumulates or nest.stride(main.write, self.vector) == 1:
            return None
        others = (m for m in nest.members if m != self.vector)
        along = next((m for m in others if nest.stride(main.write, m) == 1), None)
        if along is None:
            return None
        height, held = nest.extent(along) * (1 if along == self.row else rows), 0.0
        if along != self.row:
            reads = [read.access for read in self.reads]
            again = reads if all(nest.uses(a, along) for a in reads) else self.packed
            times = nest.extent(along) if any(nest.uses(a, along) for a in again) else 1
            held = inf if self.depth > MOST_REGROUPED else times * self.panel * vectors
        fits = held <= self.device.l2 * 3 // 4 and width * height * 4 <= staged_size(self.device)
        return along if fits else None


def _lane_counts(extent: int, widest: int) -> Iterator[int]:
    lanes = widest
    while lanes > 4 and lanes // 2 >= extent:
        lanes //= 2
    yield lanes
    if lanes > 4 and extent % lanes:
        yield lanes // 2


def _computed(extent: int, vectors: int, shape: TileShape) -> float:
    """The part of a tile's work on vectors that is left where half of the last vector of a tile, as
    long as the row, goes nowhere (demanded lanes), so that this vector takes fewer passes. Rows of
    few vectors are as well off with vectors of half the width."""
    bits, last = shape.vector_bytes * 8, extent - (vectors - 1) * shape.lanes
    if (
        vectors < MIN_VECTORS_BEFORE_SHORT
        or not 0 < last <= shape.lanes // 2
        or bits // 2 < MIN_VECTOR_BITS
    ):
        return 1.0
    passes = shape.device.passes
    return (vectors - 1 + passes(bits // 2) / passes(bits)) / vectors


def _splits(member: Member, size: int) -> bool:
    """Whether tiles of a size split a member: a point member evenly."""
    return member.span is None or (member.span // member.step) % size == 0


def _column_counts(member: Member, extent: int) -> Iterator[int]:
    """All iterations of a loop, or, of more than a tile may have, even parts."""
    parts = -(-extent // MAX_COLUMNS)
    found = {-(-extent // n) for n in (parts, parts + 1)}
    return (n for n in sorted(found if parts > 1 else {extent}) if n > 1 and _splits(member, n))


def _choices(wanted: int | None, most: int) -> Sequence[int]:
    return range(1, most + 1) if wanted is None else (wanted,)


def _fullness(extent: int, tile: int) -> float:
    return extent / (-(-extent // tile) * tile)
