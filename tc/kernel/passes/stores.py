"""Stores: which lanes of which stores make whole vectors, and which of these make whole lines.

*Interleaving.* Where `o[2*i]` and `o[2*i + 1]` are stored next to each other, each as a vector
along i, the first lanes of both are one vector of `o`, the last ones another: a few shuffles, and
two stores instead of one for each lane.

*Non-temporal stores.* A usual store first reads the line that it changes, and what it writes
displaces something from the caches. Both are in vain where whole lines are written and the caches
cannot hold them until they are read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, inf, prod

from tc.device import LINE_BYTES
from tc.dtypes import BOOL, INT64
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import LaneOffsets, divisor, lane_offsets
from tc.kernel.folding import binary, cast, constant, integer, ramp
from tc.kernel.passes.lanes import interleaved_lanes
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_each,
    map_regions,
    same_or,
)
from tc.kernel.walk import (
    assigned,
    every_statement,
    is_steady,
    iterations,
    loaded_in,
    stored_in,
)

MAX_INTERLEAVED = 4
"""Vectors that are interleaved, at most."""

MIN_VECTOR_BYTES = 32
"""Bytes of a vector: so few of them fill a line that they do it in short succession."""

PART_OF_CACHES = 7 / 8
"""What a region touches is more than this part of what the caches hold, which also keep other
memory, and other programs'. Measured, the region takes less time from about 3/4 on, and with a
kernel that reads the output next, which then comes from memory, from about 7/8 on."""

OUTPUT_SHARE_DIVISOR = 8
"""The output is no less than this part of it: a smaller one is little work for the memory."""

OTHER_WRITES_DIVISOR = 16
"""Other regions write no more than this part of the output, such as the rows at its edges."""


def store_whole_lines(kernel: ir.Kernel, cache: int) -> ir.Kernel:
    """The kernel with stores of every second, third or fourth element joined where a block has
    those of the elements between, too, and with hints at the stores that need no place in caches of
    `cache` bytes (0: the number is not known, and there are no hints).

    Values of joined stores are computed where they were; the stores stand where the last of them
    did. Those past the caches store whole vectors to an output that the kernel never reads, no
    element twice as far as the loops around show it, and fill lines in short succession if the
    output starts with one; and the memory that their region touches nearly fills the caches or is
    larger.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import statement_lines, to_text
    >>> x8, lanes = FLOAT32.vector(8), INT64.vector(8)
    >>> even, odd = (ir.Ramp(ir.Const(n, INT64), 2, lanes) for n in (0, 1))
    >>> block = (ir.Store("o", (even,), ir.Var("x", x8)), ir.Store("o", (odd,), ir.Var("y", x8)))
    >>> lets = tuple(ir.Let(n, ir.Const(1.0, x8)) for n in "xy")
    >>> buffers = (ir.Buffer("o", FLOAT32, (16,), (1,), "output"),)
    >>> print(to_text(store_whole_lines(ir.Kernel("f", buffers, ((*lets, *block),)), 0)))
    kernel f
      output o: float32[16]
    region
      let x: float32x8 = float32x8(1.0)
      let y: float32x8 = float32x8(1.0)
      o[0:8] = shuffle(x, y, [0, 8, 1, 9, 2, 10, 3, 11])
      o[8:16] = shuffle(x, y, [4, 12, 5, 13, 6, 14, 7, 15])

    >>> row, two = ir.Var("i", INT64), ir.Const(2, INT64)
    >>> place = row, ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(16))
    >>> copy = ir.Store("o", place, ir.Load("a", place, FLOAT32.vector(16)))
    >>> buffers = tuple(
    ...     ir.Buffer(name, FLOAT32, (2, 16), (16, 1), role)
    ...     for name, role in (("a", "input"), ("o", "output"))
    ... )
    >>> kernel = ir.Kernel("f", buffers, ((ir.For("i", ir.Const(0, INT64), two, (copy,)),),))
    >>> for cache in (293, 292):
    ...     print(*list(statement_lines(store_whole_lines(kernel, cache).regions[0][0]))[1:])
      o[i, 0:16] = a[i, 0:16]
      stream o[i, 0:16] = a[i, 0:16]
    """
    names, flat, scope = LocalNames(kernel), _rows_apart(kernel), Scope(assigned(kernel))
    joined: set[str] = set()
    read = frozenset[str]().union(*map(loaded_in, kernel.regions if cache else ()))

    def region_of(region: Stmts) -> Stmts:
        past = _past_caches(region, kernel, read, cache)
        stores = _Stores(kernel, names, scope, flat, past, joined)
        return scope.map_inside_out(region, lambda block: stores.past_caches(stores.joint(block)))

    made = map_regions(kernel, region_of)
    return _flattened(made, flat & joined)


# --- stores of a block ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Placed:
    """A store of a vector, at a position of its block: its lanes lie `step` elements apart in
    memory, the first one `first` elements and those of `terms`, which vary, from the start."""

    position: int
    store: ir.Store
    first: int
    terms: frozenset[tuple[ir.Expr, int]]
    step: int

    @property
    def lanes(self) -> int:
        return self.store.value.dtype.lanes

    @property
    def axis(self) -> int:
        """The dimension of the first subscript that is not the same in all lanes."""
        return next(a for a, index in enumerate(self.store.indices) if index.dtype.lanes > 1)


@dataclass(frozen=True)
class _Stores:
    """The stores of blocks. Buffers in `flat` may become ones of one dimension, and buffers in
    `past` are stored to past the caches where lines are filled; `joined` has the buffers of which
    stores were joined."""

    kernel: ir.Kernel
    names: LocalNames
    scope: Scope
    flat: AbstractSet[str]
    past: AbstractSet[str]
    joined: set[str]

    def placed(self, stmts: Stmts) -> Iterator[_Placed]:
        """The stores of vectors in a block whose lanes are equally far from each other."""
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, ir.Store) and (lanes := stmt.value.dtype.lanes) > 1:
                place = self.offsets(stmt)
                step = place.distances[1] - place.distances[0]
                steps = [step * lane for lane in range(lanes)]
                if not place.vectors.terms and place.distances == steps:
                    first, terms = place.scalars.constant, place.scalars.terms
                    yield _Placed(position, stmt, first, frozenset(terms.items()), step)

    def offsets(self, store: ir.Store) -> LaneOffsets:
        """Where a store writes in memory; where stores were joined, it may have one subscript."""
        strides = self.kernel.buffer(store.buffer).strides
        strides = strides if len(store.indices) == len(strides) else (1,)
        return lane_offsets(store.indices, strides, store.value.dtype.lanes, self.scope.lets)

    # --- interleaving -----------------------------------------------------------------------

    def joint(self, stmts: Stmts) -> Stmts:
        """The block with stores of whole vectors in the place of those of every n-th element."""
        rows: dict[Hashable, list[_Placed]] = defaultdict(list)
        for part in self.placed(stmts):
            if self.is_interleaved(part):
                indices, name = part.store.indices, part.store.buffer
                others = (*indices[: part.axis], *indices[part.axis + 1 :])
                across = () if name in self.flat else others
                rows[name, part.terms, part.step, part.lanes, across].append(part)
        groups = (group for parts in rows.values() for group in _complete(parts))
        instead: dict[int, Iterable[ir.Stmt]] = {}
        for group in groups:
            if self.may_move(group, stmts):
                self.joined.add(group[0].store.buffer)
                instead |= self.instead(group)
        return same_or(
            stmts, (new for place, stmt in enumerate(stmts) for new in instead.get(place, (stmt,)))
        )

    def is_interleaved(self, part: _Placed) -> bool:
        """Whether a store, of every n-th element, may stand elsewhere in its block."""
        store = part.store
        [*others, index] = sorted(store.indices, key=lambda index: index.dtype.lanes)
        if not isinstance(index, ir.Ramp) or any(other.dtype.lanes > 1 for other in others):
            return False
        is_along = store.buffer in self.flat or index.step == part.step
        where = store.indices if store.mask is None else (*store.indices, store.mask)
        is_fixed = all(is_steady(e, self.scope.assigned.__contains__) for e in where)
        is_apart = 2 <= part.step <= MAX_INTERLEAVED
        return is_apart and is_along and is_fixed and store.value.dtype.scalar != BOOL

    def may_move(self, group: Sequence[_Placed], stmts: Stmts) -> bool:
        """Whether nothing between the first and the last of some stores reads or writes what they
        write."""
        own = {part.position for part in group}
        name = group[0].store.buffer
        for position in range(min(own), max(own)):
            stmt = stmts[position]
            if name in loaded_in((stmt,)):
                return False
            for other in ir.statements((stmt,)) if position not in own else ():
                if not isinstance(other, ir.Store) or other.buffer != name:
                    continue
                if other is not stmt or not all(self.are_apart(p.store, other) for p in group):
                    return False
        return True

    def are_apart(self, one: ir.Store, other: ir.Store) -> bool:
        """Whether two stores to one buffer surely write different elements: those at different
        places of some dimension, or of a buffer of one dimension."""
        pairs = [
            [lane_offsets((index,), (1,), index.dtype.lanes, self.scope.lets) for index in pair]
            for pair in zip(one.indices, other.indices, strict=True)
        ]
        if one.buffer in self.flat:
            pairs = [[self.offsets(one), self.offsets(other)]]
        return any(map(_are_disjoint, *zip(*pairs, strict=True)))

    def instead(self, group: Sequence[_Placed]) -> dict[int, Iterable[ir.Stmt]]:
        """What stands for each of the stores of a group."""
        last = max(part.position for part in group)
        found: dict[int, Iterable[ir.Stmt]] = {}
        values: list[ir.Expr] = []
        behind: list[ir.Stmt] = []
        for part in group:
            value = part.store.value
            if isinstance(value, ir.Cast) and value.dtype.is_storage:
                value = value.operand
            if not isinstance(value, ir.Var) or value.name in self.scope.assigned:
                let = ir.Let(self.names.fresh("part"), value)
                value = ir.Var(let.var, let.dtype)
                if part.position == last:
                    behind.append(let)
                else:
                    found[part.position] = (let,)
            found.setdefault(part.position, ())
            values.append(value)
        masks = [part.store.mask for part in group]
        return {**found, last: (*behind, *self.whole(group[0], values, masks))}

    def whole(
        self, part: _Placed, values: Sequence[ir.Expr], masks: Sequence[ir.Expr | None]
    ) -> Iterator[ir.Store]:
        """Stores of whole vectors, of all of some values, from the first element of a part on."""
        store, lanes, axis = part.store, part.lanes, part.axis
        wholes: Sequence[ir.Expr | None] = [None] * len(values)
        if any(mask is not None for mask in masks):
            every = constant(True, BOOL.vector(lanes))
            wholes = _interleaved([every if mask is None else mask for mask in masks])
        before, after = store.indices[:axis], store.indices[axis + 1 :]
        begin = first_lane(store.indices[axis])
        if store.buffer in self.flat:
            strides = self.kernel.buffer(store.buffer).strides
            begin, before, after = flat_index((*before, begin, *after), strides), (), ()
        for number, (value, mask) in enumerate(zip(_interleaved(values), wholes, strict=True)):
            place = ramp(binary("+", begin, integer(number * lanes)), 1, lanes)
            value = cast(value, store.value.dtype)
            yield changed(store, indices=(*before, place, *after), value=value, mask=mask)

    # --- non-temporal stores ----------------------------------------------------------------

    def past_caches(self, stmts: Stmts) -> Stmts:
        """The block with hints at stores that fill lines, of contiguous vectors, another one in
        each iteration of the loops around."""
        rows: dict[Hashable, list[_Placed]] = defaultdict(list)
        loops = [loop.var for loop in self.scope.loops if isinstance(loop, ir.For)]
        for part in self.placed(stmts) if self.past else ():
            store, size = part.store, part.store.value.dtype.bytes * part.lanes
            if (
                store.buffer in self.past
                and store.mask is None
                and part.step == 1
                and size >= MIN_VECTOR_BYTES
                and not size & (size - 1)
                and self.scope.loop_variables(store.indices).issuperset(loops)
            ):
                rows[store.buffer, part.terms].append(part)
        made = list(stmts)
        for parts in rows.values():
            for part in self.filling(parts, loops):
                made[part.position] = changed(part.store, non_temporal=True)
        return same_or(stmts, made)

    def filling(self, parts: list[_Placed], loops: Sequence[str]) -> Iterator[_Placed]:
        """The stores of a row that fill lines together, or together with the next iteration of the
        innermost loop; none if two write the same element."""
        parts = sorted(parts, key=lambda part: part.first)
        if any(following.first < one.first + one.lanes for one, following in pairwise(parts)):
            return
        terms, line = dict(parts[0].terms), LINE_BYTES // parts[0].store.value.dtype.bytes
        step = terms.pop(ir.Var(loops[-1], INT64), 0) if loops else 0
        start = gcd(*(factor * divisor(term, self.scope.lets) for term, factor in terms.items()))
        while parts:
            count = 1
            while count < len(parts) and (
                parts[count].first == parts[count - 1].first + parts[count].lanes
            ):
                count += 1
            run, parts = parts[:count], parts[count:]
            size, first = run[-1].first + run[-1].lanes - run[0].first, gcd(start, run[0].first)
            alone = size % line == 0 and gcd(first, step) % line == 0
            if alone or (size == step and first % line == 0):
                yield from run


def _are_disjoint(one: LaneOffsets, other: LaneOffsets) -> bool:
    """Whether two vectors of places surely have none in common."""
    if one.vectors.terms or other.vectors.terms or one.scalars.terms != other.scalars.terms:
        return False
    first, second = ({p.scalars.constant + d for d in p.distances} for p in (one, other))
    return first.isdisjoint(second)


def _complete(parts: Sequence[_Placed]) -> Iterator[tuple[_Placed, ...]]:
    """Stores of `step` elements next to each other, in this order."""
    step = parts[0].step
    left = {part.first: part for part in parts}  # of two at one place the last one
    for first in sorted(left):
        found = tuple(left[first + n] for n in range(step) if first + n in left)
        if first in left and len(found) == step:
            yield found
            for part in found:
                del left[part.first]


# --- shuffles ---------------------------------------------------------------------------------


def _interleaved(vectors: Sequence[ir.Expr]) -> list[ir.Expr]:
    """First the first lanes of all vectors, then their second lanes, and so on, as vectors; of an
    even number in two steps, which take fewer shuffles."""
    count, lanes = len(vectors), vectors[0].dtype.lanes
    if count == 1:
        return list(vectors)
    if count % 2 == 0:
        halves = [_interleaved(vectors[::2]), _interleaved(vectors[1::2])]
        return [
            ir.Shuffle(one, other, order, one.dtype)
            for one, other in zip(*halves, strict=True)
            for order in interleaved_lanes(lanes, lanes, 1)
        ]
    found = []
    for number in range(count):
        places = [divmod(number * lanes + lane, count) for lane in range(lanes)]
        merged = vectors[0]
        for which in range(1, count):
            order = tuple(
                place + lanes if source == which else place if which == 1 else lane
                for lane, (place, source) in enumerate(places)
            )
            merged = ir.Shuffle(merged, vectors[which], order, merged.dtype)
        found.append(merged)
    return found


# --- buffers of one dimension -----------------------------------------------------------------


def _rows_apart(kernel: ir.Kernel) -> frozenset[str]:
    """The buffers that are stored to along another dimension than the last, a few elements apart,
    as `o[i, 0]` and `o[i, 1]` are, and that nothing reads: with one dimension they are `o[2*i]` and
    `o[2*i + 1]`."""
    found: set[str] = set()
    others: set[str] = set()
    buffers = {b.name: b for b in kernel.buffers}
    for stmt in every_statement(kernel):
        others |= {e.buffer for e in ir.expressions(stmt) if isinstance(e, ir.Load)}
        if isinstance(stmt, ir.Prefetch):
            others.add(stmt.buffer)
        if not isinstance(stmt, ir.Store):
            continue
        buffer, step = buffers[stmt.buffer], _flat_step(stmt, buffers[stmt.buffer])
        if step is None or buffer.strides != ir.row_major(buffer.shape):
            others.add(stmt.buffer)
        elif 2 <= step <= MAX_INTERLEAVED and stmt.indices[-1].dtype.lanes == 1:
            found.add(stmt.buffer)
    return frozenset(found - others)


def _flat_step(store: ir.Store, buffer: ir.Buffer) -> int | None:
    """How many elements lie from lane to lane of a store, 0 for one lane; None where that is not
    the same for all lanes, as far as its indices show."""
    wide = [
        (index, stride)
        for index, stride in zip(store.indices, buffer.strides, strict=True)
        if index.dtype.lanes > 1
    ]
    match wide:
        case []:
            return 0
        case [(ir.Ramp(step=step), stride)]:
            return step * stride
        case _:
            return None


def _flattened(kernel: ir.Kernel, names: AbstractSet[str]) -> ir.Kernel:
    """The kernel in which some buffers, which are only stored to, have one dimension; some of the
    stores have one subscript already."""

    def each(stmt: ir.Stmt) -> tuple[ir.Stmt]:
        if not isinstance(stmt, ir.Store) or stmt.buffer not in names:
            return (stmt,)
        buffer = kernel.buffer(stmt.buffer)
        if len(stmt.indices) < len(buffer.shape):
            return (stmt,)
        total = flat_index(list(map(first_lane, stmt.indices)), buffer.strides)
        step = _flat_step(stmt, buffer)
        place = ramp(total, step, stmt.value.dtype.lanes) if step else total
        return (changed(stmt, indices=(place,)),)

    made = map_regions(kernel, lambda region: map_each(region, each)) if names else kernel
    return flat_buffers(made, names)


def first_lane(index: ir.Expr) -> ir.Expr:
    """The first lane of a ramp, or the scalar."""
    return index.base if isinstance(index, ir.Ramp) else index


def flat_buffers(kernel: ir.Kernel, names: AbstractSet[str]) -> ir.Kernel:
    """The kernel whose buffers of these names have one dimension."""
    made = (
        replace(b, shape=(prod(b.shape),), strides=(1,)) if b.name in names else b
        for b in kernel.buffers
    )
    return changed(kernel, buffers=same_or(kernel.buffers, made))


def flat_index(indices: Sequence[ir.Expr], strides: Sequence[int]) -> ir.Expr:
    """The offset of an element."""
    total: ir.Expr = integer(0)
    for index, stride in zip(indices, strides, strict=True):
        total = binary("+", total, binary("*", index, integer(stride)))
    return total


# --- what is stored past the caches -----------------------------------------------------------


def _past_caches(
    region: Stmts, kernel: ir.Kernel, read: frozenset[str], cache: int
) -> frozenset[str]:
    """The outputs of a region that caches of `cache` bytes need not keep, of a kernel that has
    `read` some buffers."""
    if not cache:
        return frozenset()
    used = loaded_in(region) | stored_in(region)
    touched = sum(buffer.bytes for buffer in kernel.arguments if buffer.name in used)
    if touched <= PART_OF_CACHES * cache:
        return frozenset()
    outputs = map(kernel.buffer, _written_here(region, kernel) - read)
    return frozenset(b.name for b in outputs if b.bytes * OUTPUT_SHARE_DIVISOR >= touched)


def _written_here(region: Stmts, kernel: ir.Kernel) -> frozenset[str]:
    """The outputs that this region alone writes, but for a few elements."""
    others = [stmt for other in kernel.regions if other is not region for stmt in other]
    elsewhere = _stored_bytes(others, 1)
    few = {b.name for b in kernel.buffers if elsewhere[b.name] * OTHER_WRITES_DIVISOR <= b.bytes}
    outputs = {b.name for b in kernel.buffers if b.role == "output"}
    return frozenset(outputs & stored_in(region) & few)


def _stored_bytes(stmts: Iterable[ir.Stmt], times: float) -> dict[str, float]:
    """The bytes of each buffer that the stores in statements write, which run `times` times."""
    found: dict[str, float] = defaultdict(float)
    for stmt in stmts:
        if isinstance(stmt, ir.Store):
            found[stmt.buffer] += times * stmt.value.dtype.lanes * stmt.value.dtype.bytes
        own = (len(iterations(stmt)) or inf) if isinstance(stmt, ir.For) else 1
        for name, size in _stored_bytes(ir.inner_statements(stmt), times * own).items():
            found[name] += size
    return found
