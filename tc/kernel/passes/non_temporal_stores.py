"""Non-temporal stores: those of large outputs that need no place in the caches.

A usual store first reads the line that it changes, and what it writes displaces something from
the caches. Both are in vain where whole lines are written and the caches cannot hold them until
they are read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, inf

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import divisor, lane_offsets
from tc.kernel.rebuild import Scope, Stmts, changed, map_blocks, map_regions, same_or
from tc.kernel.walk import iterations, loads_in, stored_in

MIN_VECTOR_BYTES = 32
"""Bytes of a vector: so few of them fill a line that they do it in short succession."""

CACHES = 7 / 8
"""What a region touches is more than this part of what the caches hold, which also keep other
memory, and other programs'. Measured, the region takes less time from about 3/4 on, and with a
kernel that reads the output next, which then comes from memory, from about 7/8 on."""

SHARE = 8
"""The output is no less than this part of it: a smaller one is little work for the memory."""

OTHER_WRITES_DIVISOR = 16
"""Other regions write no more than this part of the output, such as the rows at its edges."""


def store_past_caches(kernel: ir.Kernel, cache: int) -> ir.Kernel:
    """The kernel with hints at the stores that need no place in caches of so many bytes (0: it is
    not known how many, and there are no hints).

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
    if not cache or sum(b.bytes for b in kernel.arguments) <= CACHES * cache:
        return kernel
    return map_regions(kernel, lambda region: _with_streams(region, kernel, cache))


def _with_streams(
    region: tuple[ir.Stmt, ...], kernel: ir.Kernel, cache: int
) -> tuple[ir.Stmt, ...]:
    used = _loaded(region) | stored_in(region)
    touched = sum(buffer.bytes for buffer in kernel.arguments if buffer.name in used)
    if touched <= CACHES * cache:
        return region
    outputs = {name: kernel.buffer(name) for name in _unread(region, kernel)}
    large = {name: b for name, b in outputs.items() if b.bytes * SHARE >= touched}
    return _Marker(large, Scope()).marked(region)


# --- buffers ----------------------------------------------------------------------------------


def _unread(region: tuple[ir.Stmt, ...], kernel: ir.Kernel) -> frozenset[str]:
    """The outputs that this region alone writes, but for a few elements, and that nothing reads."""
    read = {name for other in kernel.regions for name in _loaded(other)}
    others = [stmt for other in kernel.regions if other is not region for stmt in other]
    elsewhere = _stored_bytes(others, 1)
    few = {b.name for b in kernel.buffers if elsewhere[b.name] * OTHER_WRITES_DIVISOR <= b.bytes}
    outputs = {b.name for b in kernel.buffers if b.role == "output"}
    return frozenset((outputs & stored_in(region) & few) - read)


def _stored_bytes(stmts: Iterable[ir.Stmt], times: float) -> dict[str, float]:
    """How many bytes of each buffer the stores in statements write that run so many times."""
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


# --- stores -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
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
class _Marker:
    """`outputs` are those to mark stores of, by their names."""

    outputs: Mapping[str, ir.Buffer]
    scope: Scope

    def marked(self, stmts: Stmts) -> Stmts:
        made: list[ir.Stmt] = []
        rows: dict[_Row, list[_Stretch]] = defaultdict(list)
        with self.scope.block():
            for position, stmt in enumerate(stmts):
                with self.scope.inside(stmt):
                    made.append(map_blocks(stmt, self.marked))
                self.scope.learn(stmt)
                placed = self.placed(stmt, position) if isinstance(stmt, ir.Store) else None
                if placed is not None:
                    rows[placed[0]].append(placed[1])
        for row, stretches in rows.items():
            for position in _filling(row, stretches):
                store = made[position]
                assert isinstance(store, ir.Store)
                made[position] = changed(store, non_temporal=True)
        return same_or(stmts, made)

    def placed(self, store: ir.Store, position: int) -> tuple[_Row, _Stretch] | None:
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
        if place.vectors or place.distances != list(range(lanes)):
            return None
        terms = {term: factor * element for term, factor in place.scalars.items()}
        innermost = ir.Var(loops[-1], INT64) if loops else None
        others = (term for term in terms if term != innermost)
        start = gcd(*(terms[term] * divisor(term, lets) for term in others))
        step = terms.get(innermost, 0) if innermost else 0
        row = _Row(store.buffer, frozenset(terms.items()), step, start)
        first = place.constant * element
        return row, _Stretch(first, first + size, position)


def _filling(row: _Row, stretches: list[_Stretch]) -> Iterator[int]:
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
