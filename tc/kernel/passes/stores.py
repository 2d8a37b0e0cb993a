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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, inf, prod

from tc.device import LINE
from tc.dtypes import BOOL, FLOAT16, INT64
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import divisor, lane_offsets
from tc.kernel.folding import binary, cast, constant, integer, ramp
from tc.kernel.passes.lanes import interleaved_lanes
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_regions,
    map_statements,
    same_or,
)
from tc.kernel.walk import (
    assigned,
    every_statement,
    iterations,
    loads_in,
    names_in,
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
    """The kernel with stores of every n-th element joined, and then hints at those that need no
    place in caches of `cache` bytes."""
    return store_past_caches(interleave_stores(kernel), cache)


# --- interleaving -----------------------------------------------------------------------------


def interleave_stores(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with stores of every second, third or fourth element joined where a block has
    those of the elements between, too. Values are computed where they were; the stores stand where
    the last of them did.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> x8, lanes = FLOAT32.vector(8), INT64.vector(8)
    >>> even, odd = (ir.Ramp(ir.Const(n, INT64), 2, lanes) for n in (0, 1))
    >>> block = (ir.Store("o", (even,), ir.Var("x", x8)), ir.Store("o", (odd,), ir.Var("y", x8)))
    >>> lets = tuple(ir.Let(n, ir.Const(1.0, x8)) for n in "xy")
    >>> buffers = (ir.Buffer("o", FLOAT32, (16,), (1,), "output"),)
    >>> print(to_text(interleave_stores(ir.Kernel("f", buffers, ((*lets, *block),)))))
    kernel f
      output o: float32[16]
    region
      let x: float32x8 = float32x8(1.0)
      let y: float32x8 = float32x8(1.0)
      o[0:8] = shuffle(x, y, [0, 8, 1, 9, 2, 10, 3, 11])
      o[8:16] = shuffle(x, y, [4, 12, 5, 13, 6, 14, 7, 15])
    """
    flat = _flattened(kernel, _rows_apart(kernel))
    joined = _joined(flat)
    if flat is not kernel:
        useful = {n for n in _rows_apart(kernel) if _stores_to(n, joined) < _stores_to(n, flat)}
        if useful != _rows_apart(kernel):
            joined = _joined(_flattened(kernel, useful))
    return joined


def _joined(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with stores joined whose lanes move along the last dimension of a buffer."""
    scope = Scope(assigned(kernel))
    change = _Interleaver(kernel, LocalNames(kernel), scope).with_whole
    return map_regions(kernel, lambda region: scope.map_inside_out(region, change))


def _rows_apart(kernel: ir.Kernel) -> set[str]:
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
    return found - others


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


def _flattened(kernel: ir.Kernel, names: Collection[str]) -> ir.Kernel:
    """The kernel in which some buffers, which are only stored to, have one dimension."""
    if not names:
        return kernel
    buffers = {b.name: b for b in kernel.buffers}

    def block(stmts: Stmts) -> Stmts:
        return map_statements(stmts, lambda stmt: (flat(stmt),))

    def flat(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.Store) or stmt.buffer not in names:
            return map_blocks(stmt, block)
        buffer = buffers[stmt.buffer]
        firsts = [index.base if isinstance(index, ir.Ramp) else index for index in stmt.indices]
        total, step = flat_index(firsts, buffer.strides), _flat_step(stmt, buffer)
        place = ramp(total, step, stmt.value.dtype.lanes) if step else total
        return changed(stmt, indices=(place,))

    return flat_buffers(map_regions(kernel, block), names)


def flat_buffers(kernel: ir.Kernel, names: Collection[str]) -> ir.Kernel:
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


def _stores_to(name: str, kernel: ir.Kernel) -> int:
    """The lanes' steps of all stores to a buffer, added up: less where stores were joined."""
    [buffer] = [b for b in kernel.buffers if b.name == name]
    stores = (s for s in every_statement(kernel) if isinstance(s, ir.Store) and s.buffer == name)
    return sum(_flat_step(store, buffer) or 0 for store in stores)


@dataclass(frozen=True)
class _Row:
    """Stores of the elements of one row, `step` apart: `others` are the subscripts beside that of
    the lanes, `terms` what is variable in that."""

    buffer: str
    others: tuple[ir.Expr | None, ...]
    terms: frozenset[tuple[ir.Expr, int]]
    step: int
    lanes: int


@dataclass(frozen=True)
class _Part:
    """A store of a row at a position of its block, whose first element is at `first`, but for
    `terms`."""

    position: int
    first: int
    axis: int
    store: ir.Store


@dataclass(frozen=True)
class _Interleaver:
    kernel: ir.Kernel
    names: LocalNames
    scope: Scope

    def with_whole(self, stmts: Stmts) -> Stmts:
        rows: dict[_Row, list[_Part]] = defaultdict(list)
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, ir.Store) and stmt.value.dtype.lanes > 1:
                self._add(position, stmt, rows)
        groups = [
            group
            for row, parts in rows.items()
            for group in _complete(parts, row.step)
            if self._may_move(group, stmts)
        ]
        if not groups:
            return stmts
        instead: dict[int, Iterable[ir.Stmt]] = {}
        for group in groups:
            instead |= self._instead(group)
        return tuple(new for place, stmt in enumerate(stmts) for new in instead.get(place, (stmt,)))

    def _add(self, position: int, store: ir.Store, rows: Mapping[_Row, list[_Part]]) -> None:
        """Notes a store of every n-th element."""
        axes = [axis for axis, index in enumerate(store.indices) if index.dtype.lanes > 1]
        where = store.indices if store.mask is None else (*store.indices, store.mask)
        is_fixed = not any(names_in(e) & self.scope.assigned for e in where)
        is_fixed = is_fixed and not any(isinstance(n, ir.Load) for e in where for n in ir.walk(e))
        if len(axes) != 1 or store.value.dtype.scalar == BOOL or not is_fixed:
            return
        [axis] = axes
        lanes = store.value.dtype.lanes
        place = lane_offsets((store.indices[axis],), (1,), lanes, self.scope.lets)
        step = place.distances[1] - place.distances[0]
        if (
            place.vectors.terms
            or not 2 <= step <= MAX_INTERLEAVED
            or place.distances != [step * lane for lane in range(lanes)]
            or self.kernel.buffer(store.buffer).strides[axis] != 1
        ):
            return
        others = tuple(None if a == axis else index for a, index in enumerate(store.indices))
        terms = frozenset(place.scalars.terms.items())
        row = _Row(store.buffer, others, terms, step, lanes)
        rows[row].append(_Part(position, place.scalars.constant, axis, store))

    def _may_move(self, group: Sequence[_Part], stmts: Stmts) -> bool:
        """Whether nothing between the first and the last of some stores reads or writes what they
        write."""
        own = {part.position for part in group}
        name = group[0].store.buffer
        for position in range(min(own), max(own)):
            stmt = stmts[position]
            if any(load.buffer == name for load in loads_in((stmt,))):
                return False
            for other in ir.statements((stmt,)) if position not in own else ():
                if isinstance(other, ir.Store) and other.buffer == name:
                    apart = other is stmt and all(
                        self._are_apart(part.store, other) for part in group
                    )
                    if not apart:
                        return False
        return True

    def _are_apart(self, one: ir.Store, other: ir.Store) -> bool:
        """Whether two stores to one buffer surely write different elements: those at different
        places of some dimension."""
        for pair in zip(one.indices, other.indices, strict=True):
            places = [
                lane_offsets((index,), (1,), index.dtype.lanes, self.scope.lets) for index in pair
            ]
            first, second = places
            if (
                first.vectors.terms
                or second.vectors.terms
                or first.scalars.terms != second.scalars.terms
            ):
                continue
            values = [{place.scalars.constant + d for d in place.distances} for place in places]
            if values[0].isdisjoint(values[1]):
                return True
        return False

    def _instead(self, group: Sequence[_Part]) -> dict[int, Iterable[ir.Stmt]]:
        """What stands for each of the stores of a group."""
        last = max(part.position for part in group)
        found: dict[int, Iterable[ir.Stmt]] = {}
        values: list[ir.Expr] = []
        behind: list[ir.Stmt] = []
        for part in group:
            value = part.store.value
            if isinstance(value, ir.Cast) and value.dtype.scalar == FLOAT16:
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
        return {**found, last: (*behind, *_stores(group[0], values, masks))}


def _complete(parts: Iterable[_Part], step: int) -> Iterator[tuple[_Part, ...]]:
    """Stores of `step` elements next to each other, in this order."""
    left = {part.first: part for part in parts}  # of two at one place the last one
    for first in sorted(left):
        wanted = [left.get(first + n) for n in range(step)]
        found = tuple(part for part in wanted if part is not None)
        if len(found) == step:
            yield found
            for part in found:
                del left[part.first]


def _stores(
    first: _Part, values: Sequence[ir.Expr], masks: Sequence[ir.Expr | None]
) -> Iterator[ir.Store]:
    """Whole vectors, of all of some parts, from the first element on."""
    store, lanes, axis = first.store, first.store.value.dtype.lanes, first.axis
    wholes: Sequence[ir.Expr | None] = [None] * len(values)
    if any(mask is not None for mask in masks):
        every = constant(True, BOOL.vector(lanes))
        wholes = _interleaved([every if mask is None else mask for mask in masks])
    base = store.indices[axis]
    assert isinstance(base, ir.Ramp)
    for number, (value, mask) in enumerate(zip(_interleaved(values), wholes, strict=True)):
        place = ramp(binary("+", base.base, integer(number * lanes)), 1, lanes)
        indices = (*store.indices[:axis], place, *store.indices[axis + 1 :])
        yield changed(store, indices=indices, value=cast(value, store.value.dtype), mask=mask)


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
            picks = [
                (place, 1) if source == which else (place if which == 1 else lane, 0)
                for lane, (place, source) in enumerate(places)
            ]
            merged = _shuffled(merged, vectors[which], picks)
        found.append(merged)
    return found


def _shuffled(left: ir.Expr, right: ir.Expr, picks: Sequence[tuple[int, int]]) -> ir.Expr:
    """The lanes, of the left or of the right vector, that are picked."""
    count = left.dtype.lanes
    return ir.Shuffle(left, right, tuple(p + side * count for p, side in picks), left.dtype)


# --- non-temporal stores ----------------------------------------------------------------------


def store_past_caches(kernel: ir.Kernel, cache: int) -> ir.Kernel:
    """The kernel with hints at the stores that need no place in caches of `cache` bytes (0: the
    number is not known, and there are no hints).

    These store whole vectors to an output that the kernel never reads, no element twice as far
    as the loops around show it, and fill lines in short succession if the output starts with one;
    and the memory that their region touches nearly fills the caches or is larger.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import statement_lines
    >>> row, two = ir.Var("i", INT64), ir.Const(2, INT64)
    >>> place = row, ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(16))
    >>> copy = ir.Store("o", place, ir.Load("a", place, FLOAT32.vector(16)))
    >>> buffers = tuple(
    ...     ir.Buffer(name, FLOAT32, (2, 16), (16, 1), role)
    ...     for name, role in (("a", "input"), ("o", "output"))
    ... )
    >>> kernel = ir.Kernel("f", buffers, ((ir.For("i", ir.Const(0, INT64), two, (copy,)),),))
    >>> for cache in (293, 292):
    ...     print(*list(statement_lines(store_past_caches(kernel, cache).regions[0][0]))[1:])
      o[i, 0:16] = a[i, 0:16]
      stream o[i, 0:16] = a[i, 0:16]
    """
    if not cache or sum(b.bytes for b in kernel.arguments) <= PART_OF_CACHES * cache:
        return kernel
    return map_regions(kernel, lambda region: _with_streams(region, kernel, cache))


def _with_streams(
    region: tuple[ir.Stmt, ...], kernel: ir.Kernel, cache: int
) -> tuple[ir.Stmt, ...]:
    used = _loaded(region) | stored_in(region)
    touched = sum(buffer.bytes for buffer in kernel.arguments if buffer.name in used)
    if touched <= PART_OF_CACHES * cache:
        return region
    outputs = {name: kernel.buffer(name) for name in _unread(region, kernel)}
    large = {name: b for name, b in outputs.items() if b.bytes * OUTPUT_SHARE_DIVISOR >= touched}
    scope = Scope()
    return scope.map_inside_out(region, _LineMarker(large, scope).marked)


def _unread(region: tuple[ir.Stmt, ...], kernel: ir.Kernel) -> frozenset[str]:
    """The outputs that this region alone writes, but for a few elements, and that nothing reads."""
    read = {name for other in kernel.regions for name in _loaded(other)}
    others = [stmt for other in kernel.regions if other is not region for stmt in other]
    elsewhere = _stored_bytes(others, 1)
    few = {b.name for b in kernel.buffers if elsewhere[b.name] * OTHER_WRITES_DIVISOR <= b.bytes}
    outputs = {b.name for b in kernel.buffers if b.role == "output"}
    return frozenset((outputs & stored_in(region) & few) - read)


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


def _loaded(region: tuple[ir.Stmt, ...]) -> set[str]:
    return {load.buffer for load in loads_in(region)}


@dataclass(frozen=True)
class _LineRow:
    """Where stores of a block lie that differ in a constant only: `terms` are pairs of a variable
    part of the offset and its factor. `step` is by how many bytes the innermost loop moves them,
    and `start` divides the bytes from the start of the output to where this loop starts."""

    buffer: str
    terms: frozenset[tuple[ir.Expr, int]]
    step: int
    start: int


@dataclass(frozen=True)
class _Stretch:
    """Bytes of a row that the store at a position of its block writes."""

    first: int
    end: int
    position: int


@dataclass(frozen=True)
class _LineMarker:
    """`outputs` are those to mark stores of, by their names."""

    outputs: Mapping[str, ir.Buffer]
    scope: Scope

    def marked(self, stmts: Stmts) -> Stmts:
        made = list(stmts)
        rows: dict[_LineRow, list[_Stretch]] = defaultdict(list)
        for position, stmt in enumerate(stmts):
            placed = self.placed(stmt, position) if isinstance(stmt, ir.Store) else None
            if placed is not None:
                rows[placed[0]].append(placed[1])
        for row, stretches in rows.items():
            for position in _filling(row, stretches):
                store = made[position]
                assert isinstance(store, ir.Store)
                made[position] = changed(store, non_temporal=True)
        return same_or(stmts, made)

    def placed(self, store: ir.Store, position: int) -> tuple[_LineRow, _Stretch] | None:
        """What a store writes, if that is a contiguous vector, and another one in each iteration
        of the loops around."""
        lanes, element = store.value.dtype.lanes, store.value.dtype.bytes
        size = lanes * element
        if store.buffer not in self.outputs or store.mask is not None:
            return None
        if size < MIN_VECTOR_BYTES or size & (size - 1):
            return None
        loops = [loop.var for loop in self.scope.loops if isinstance(loop, ir.For)]
        if not self.scope.loop_variables(store.indices).issuperset(loops):
            return None
        strides, lets = self.outputs[store.buffer].strides, self.scope.lets
        place = lane_offsets(store.indices, strides, lanes, lets)
        if place.vectors.terms or place.distances != list(range(lanes)):
            return None
        terms = {term: factor * element for term, factor in place.scalars.terms.items()}
        innermost = ir.Var(loops[-1], INT64) if loops else None
        others = (term for term in terms if term != innermost)
        start = gcd(*(terms[term] * divisor(term, lets) for term in others))
        step = terms.get(innermost, 0) if innermost else 0
        row = _LineRow(store.buffer, frozenset(terms.items()), step, start)
        first = place.scalars.constant * element
        return row, _Stretch(first, first + size, position)


def _filling(row: _LineRow, stretches: list[_Stretch]) -> Iterator[int]:
    """The positions of the stores that fill lines together, or together with the next iteration
    of the innermost loop; none if two write the same element."""
    stretches = sorted(stretches, key=lambda stretch: stretch.first)
    if any(following.first < before.end for before, following in pairwise(stretches)):
        return
    while stretches:
        count = 1
        while count < len(stretches) and stretches[count].first == stretches[count - 1].end:
            count += 1
        run, stretches = stretches[:count], stretches[count:]
        size, first = run[-1].end - run[0].first, gcd(row.start, run[0].first)
        alone = size % LINE == 0 and gcd(first, row.step) % LINE == 0
        if alone or (size == row.step and first % LINE == 0):
            yield from (stretch.position for stretch in run)
