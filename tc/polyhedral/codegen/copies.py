"""Copying promoted tiles: from memory, or the buffer around, to their buffer and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod

import numpy as np

from tc.affine.forms import Form, LinearForm, constant_form
from tc.affine.intervals import surely
from tc.dtypes import INT64, encoded
from tc.extents.sizes import is_tracked
from tc.kernel import ir
from tc.kernel.folding import (
    binary,
    bits_of,
    cast,
    compare,
    constant,
    integer,
    logical_and,
    of_bits,
    of_form,
    select,
)
from tc.kernel.ir import Expr, For, If, LaunchIndex, Let, Load, Stmt, Store, Var
from tc.kernel.verify import COPIED_BYTES
from tc.plan import ASYNC, REGISTER, SHARED, THREAD
from tc.polyhedral.codegen.context import EmitScope, KernelContext, PlacedTile, guarded
from tc.polyhedral.codegen.copying_threads import copied_along, thread_digits
from tc.polyhedral.codegen.expressions import Scope, StatementBuilder, lower_expression
from tc.polyhedral.codegen.launches import numbered
from tc.polyhedral.footprint import Box, whole
from tc.polyhedral.schedule import ArrayTile, Axis
from tc.polyhedral.scop.scop import Gather, HalfOpen
from tc.semantics import program as p

MAX_UNROLLED_VECTORS = 5
"""Vectors in a row of a tile up to which the row is copied without a loop: only those at its ends
then have tests of their own."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """Part of the axis at `axis`: begin + step * loop variable is added to its index."""

    axis: int
    step: int
    extent: int
    mark: str
    begin: int = 0


def fetch(placed: PlacedTile, state: EmitScope) -> tuple[Stmt, ...]:
    """Fills the buffer of a tile; elements outside of its limits get its fill, or 0."""
    if placed.tile.copy.through == ASYNC:
        return _by_all_threads(
            placed, state, partial(_copied_async, placed), placed.tile.copy.lanes
        )

    if placed.tile.as_stored:
        return _by_all_threads(
            placed, state, partial(_copied_as_stored, placed), placed.tile.copy.lanes
        )

    def body(
        inner: EmitScope, element: tuple[LinearForm, ...], indices: tuple[Expr, ...]
    ) -> tuple[Stmt, ...]:
        tile = placed.tile
        around = inner.outside(placed)
        dtype = inner.kernel.dtype(tile.tensor).computed
        before, value = _source(tile.tensor, element, around)
        value = cast(value, dtype)
        tests = list(around.within(element, tile.tensor, _limits(tile, around)))
        outside = constant(0 if tile.copy.fill is None else tile.copy.fill, dtype)
        if tests and before:
            found = (*before, Store(tile.buffer, indices, value))
            otherwise = (Store(tile.buffer, indices, outside),)
            return (If(reduce(logical_and, tests), found, otherwise),)
        if tests:
            value = select(reduce(logical_and, tests), value, outside)
        return (*before, Store(tile.buffer, indices, value))

    return _copy(placed, state, body, along_memory=True)


def _copied_async(
    placed: PlacedTile,
    state: EmitScope,
    element: tuple[LinearForm, ...],
    indices: tuple[Expr, ...],
) -> tuple[Stmt, ...]:
    """Begins to copy neighbours, the first of which is an element: all of them at once where their
    places, and the limits of what is copied, are multiples of their number."""
    tile, kernel = placed.tile, state.kernel
    limits = tile.limits or whole(tile.tensor, kernel.scop)
    count = _at_once(placed, element, limits, state)
    if count * kernel.dtype(tile.tensor).bytes < min(COPIED_BYTES):
        return _copied_as_stored(placed, state, element, indices)
    copies: list[Stmt] = []
    for by in range(0, tile.copy.lanes, count):
        first = (*element[:-1], element[-1].shifted(by)) if by else element
        place = _beside(indices, by)
        tests = list(state.outside(placed).within(first, tile.tensor, limits))
        test = reduce(logical_and, tests) if tests else None
        copy = ir.CopyAsync(
            tile.buffer, place, tile.tensor, tuple(map(of_form, first)), count, test
        )
        if test is None or not tile.copy.fill:
            copies.append(copy)
            continue
        outside = _stored_fill(placed, kernel)
        filled = tuple(Store(tile.buffer, _beside(place, n), outside) for n in range(count))
        copies.append(If(test, (replace(copy, condition=None),), filled))
    return tuple(copies)


def _copied_as_stored(
    placed: PlacedTile,
    state: EmitScope,
    element: tuple[LinearForm, ...],
    indices: tuple[Expr, ...],
) -> tuple[Stmt, ...]:
    """Copies neighbours, the first of which is an element, as they are stored: with one test for
    all of them where their places, and the limits, are multiples of their number."""
    tile, kernel = placed.tile, state.kernel
    around = state.outside(placed)
    limits, lanes = _limits(tile, around), tile.copy.lanes
    own_limits = limits or whole(tile.tensor, kernel.scop)
    is_one = around.innermost(tile.tensor) is None
    is_one = is_one and _at_once(placed, element, own_limits, state) == lanes
    held, fill = tile.held_type(kernel.dtype(tile.tensor)), _stored_fill(placed, kernel)
    copies, fills, tests = list[Stmt](), list[Stmt](), list[Expr]()
    for n in range(lanes):
        own = (*element[:-1], element[-1].shifted(n)) if n else element
        place = _beside(indices, n)
        value = bits_of(cast(around.load(tile.tensor, own), held))
        tests = list(around.within(element if is_one else own, tile.tensor, limits))
        if tests and not is_one:
            value = select(reduce(logical_and, tests), value, bits_of(fill))
        copies.append(Store(tile.buffer, place, of_bits(value, held)))
        fills.append(Store(tile.buffer, place, fill))
    if tests and is_one:
        return (If(reduce(logical_and, tests), tuple(copies), tuple(fills)),)
    return tuple(copies)


def _beside(indices: tuple[Expr, ...], by: int) -> tuple[Expr, ...]:
    return (*indices[:-1], binary("+", indices[-1], integer(by), {})) if by else indices


def _stored_fill(placed: PlacedTile, kernel: KernelContext) -> Expr:
    """What lies in a tile beyond the limits, as it is stored."""
    fill, dtype = placed.tile.copy.fill or 0, kernel.dtype(placed.tile.tensor)
    if dtype.is_storage:
        bits = encoded(np.array(fill), dtype).view(dtype.unsigned.numpy)
        return of_bits(constant(int(bits), dtype.unsigned), dtype)
    return constant(fill, dtype)


def _at_once(
    placed: PlacedTile,
    element: tuple[LinearForm, ...],
    limits: tuple[HalfOpen, ...],
    state: EmitScope,
) -> int:
    """How many neighbours in memory are copied at once, as it is proven that all are within the
    limits, or none, and that both ends are at multiples of their number."""
    tile = placed.tile
    buffer = state.kernel.buffers[tile.tensor]
    count = tile.copy.lanes if buffer.strides[-1:] == (1,) else 1
    address = constant_form(0)
    for form, stride in zip(element, buffer.strides, strict=True):
        address = address.plus(form, stride)
    numbers = [*address.terms.values(), address.constant]
    if element:
        numbers += [*element[-1].terms.values(), element[-1].constant, *limits[-1]]
        numbers += tile.shape[-1:]
    while count > 1 and any(number % count for number in numbers):
        count //= 2
    return count


def _source(
    tensor: str, element: tuple[LinearForm, ...], around: EmitScope
) -> tuple[tuple[Stmt, ...], Expr]:
    """An element that is fetched, and the statements that must run before the fetch."""
    gather = around.kernel.scop.gathers.get(tensor)
    if gather is not None and around.innermost(tensor) is None:
        return gathered(gather, element, around)
    return (), around.load(tensor, element)


def _limits(tile: ArrayTile, around: EmitScope) -> tuple[HalfOpen, ...] | None:
    """The limits of what is fetched: a tile around that was not fetched holds nothing beyond the
    tensor."""
    outer = around.innermost(tile.tensor)
    if tile.limits is not None or outer is None or outer.tile.fetch:
        return tile.limits
    return whole(tile.tensor, around.kernel.scop)


def write_back(placed: PlacedTile, state: EmitScope) -> tuple[Stmt, ...]:
    """Writes the elements of a tile that are within its limits."""

    def body(
        inner: EmitScope, element: tuple[LinearForm, ...], indices: tuple[Expr, ...]
    ) -> tuple[Stmt, ...]:
        tile = placed.tile
        around = inner.outside(placed)
        value: Expr = Load(tile.buffer, indices, inner.kernel.dtype(tile.tensor).computed)
        value = cast(value, around.element_dtype(tile.tensor))
        store = Store(*around.place(tile.tensor, element), value)
        return guarded(around.within(element, tile.tensor, tile.limits), (store,))

    return _in_lines(placed, state) if placed.tile.copy.lines else _copy(placed, state, body)


Body = Callable[[EmitScope, "tuple[LinearForm, ...]", "tuple[Expr, ...]"], "tuple[Stmt, ...]"]


def _copy(
    placed: PlacedTile, state: EmitScope, body: Body, *, along_memory: bool = False
) -> tuple[Stmt, ...]:
    """Blocks that are transposed run along the memory around, or along the buffer; all threads of
    a block fill its tiles."""
    if placed.tile.scope == SHARED:
        return _by_all_threads(placed, state, body)
    nests = _nests(placed.tile, _contiguous_axis(placed, state), along_memory)
    return tuple(stmt for loops in nests for stmt in _nest(loops, placed, state, body))


def _by_all_threads(
    placed: PlacedTile, state: EmitScope, body: Body, lanes: int = 1
) -> tuple[Stmt, ...]:
    """The axis that is contiguous in memory along the threads' x, the others, the last first, along
    y and z; or along digits of the numbers of all threads, where these take fewer turns. Each
    thread takes as many turns as others, with a test in the last where it is not full. A thread
    copies `lanes` neighbours along the last axis, of which the body gets the first."""
    launch = state.kernel.launch
    assert launch is not None
    layout = placed.tile.layout
    if lanes > 1:
        layout = (*layout[:-1], replace(layout[-1], size=layout[-1].size // lanes))
    free = [index for index in reversed(launch.along(THREAD)) if index.count > 1]
    for index in free:
        state = state.bound(index.var, 0, index.count - 1)
    rows = _contiguous_axis(placed, state)
    along = copied_along(layout, rows)
    bytes_at_once = lanes * state.kernel.dtype(placed.tile.tensor).bytes
    widths = thread_digits(layout, rows, tuple(index.count for index in free), bytes_at_once)
    numbers: tuple[Stmt, ...] = ()
    outer: list[Expr] = []
    if widths is not None:
        numbers, outer, free, state = numbered(free, widths, state)
    positions = [constant_form(0)] * len(layout)
    loops: list[tuple[str, int]] = []
    lets: list[Stmt] = []
    inner: list[Expr] = []
    for axis in along:
        size = layout[axis].size
        own = free.pop(0) if free else LaunchIndex("", 1)
        turns = -(-size // own.count)
        name = own.var
        if turns > 1:
            name = state.kernel.names.fresh("c0", INT64)
            loops.append((name, turns))
            state = state.bound(name, 0, turns - 1)
            positions[axis] = Form(0, {own.var: 1, name: own.count} if own.var else {name: 1})
        else:
            positions[axis] = Form(0, {name: 1})
        if turns > 1 and size % own.count:
            name = state.kernel.names.fresh("c0", INT64)
            lets.append(Let(name, of_form(positions[axis])))
            positions[axis] = Form(0, {name: 1})
        if turns * own.count > size:
            (inner if turns > 1 else outer).append(
                compare("<", Var(name, INT64), integer(size), {})
            )
            state = state.bound(name, 0, size - 1)
    outer += [compare("==", Var(index.var, INT64), integer(0), {}) for index in free]
    if lanes > 1:
        positions[-1] = positions[-1].times(lanes)
    indices = _indices(positions)
    if placed.tile.copy.stages > 1:
        indices = (integer(0), *indices)
    copied = body(state, _element(placed.box, layout, positions), indices)
    stmts = (*lets, *guarded(inner, copied))
    for name, turns in loops:
        mark = "unroll" if placed.tile.copy.unroll else ""
        stmts = (For(name, integer(0), integer(turns), stmts, mark=mark),)
    return *numbers, *guarded(outer, stmts)


def _in_lines(placed: PlacedTile, state: EmitScope) -> tuple[Stmt, ...]:
    """Writes back a tile laid out as its tensor is: a stretch of memory for each place in the
    outer dimensions. The first dimension of a stretch ends with the tensor, or with the tile; of
    the others the tile holds all."""
    tile, kernel = placed.tile, state.kernel
    shape = kernel.scop.shaped.shapes[tile.tensor]
    names = [None if n == 1 else kernel.names.fresh("c0", INT64) for n in tile.sizes]
    positions = [constant_form(0) if n is None else Form(0, {n: 1}) for n in names]
    first = _first_of_stretch(tile.sizes, shape)
    starts = [*positions[:first], *(constant_form(0) for _ in shape[first:])]
    for name, size in zip(names, tile.sizes, strict=True):
        state = state if name is None else state.bound(name, 0, size - 1)
    around = state.outside(placed)
    value = Load(tile.buffer, _indices(positions), kernel.dtype(tile.tensor))
    element = _element(placed.box, tile.layout, positions)
    stmt: Stmt = Store(*around.place(tile.tensor, element), value)
    for d in reversed(range(len(shape))):
        name = names[d]
        end: Expr = integer(tile.sizes[d])
        if d == first:
            left = constant_form(shape[d]) - placed.box.offsets[d]
            end = binary("min", end, of_form(left), state.bounds)
        if name is not None:
            stmt = For(name, integer(0), end, (stmt,), mark="lines" if d == first else "")
        if d == first:
            begin = _element(placed.box, tile.layout, starts)
            stmt = guarded(around.within(begin, tile.tensor), (stmt,))[0]
    return (stmt,)


def _first_of_stretch(sizes: Sequence[int], shape: Sequence[int]) -> int:
    """The first dimension of a stretch of memory that a box of these sizes holds.

    >>> _first_of_stretch((1, 16, 5), (9, 99, 5)), _first_of_stretch((16, 64), (99, 80))
    (1, 1)
    """
    first = len(shape) - 1
    while first and sizes[first] == shape[first] and prod(sizes[:first]) > 1:
        first -= 1
    return first


def _contiguous_axis(placed: PlacedTile, state: EmitScope) -> int:
    """The axis along which the memory around the tile is contiguous; -1 if none is."""
    tile, kernel = placed.tile, state.kernel
    around = state.outside(placed).innermost(tile.tensor)
    gather = kernel.scop.gathers.get(tile.tensor)
    if around is not None:
        return axis_along(tile.layout, contiguous_in(around.tile))
    if gather is not None:
        return axis_along(tile.layout, contiguous_dimension(gather, placed.box, state))
    strides = kernel.buffers[tile.tensor].strides
    return axis_along(tile.layout, contiguous_along(strides, tile.sizes))


def contiguous_in(tile: ArrayTile) -> int:
    """The dimension along which the buffer of a tile is contiguous; -1 if none is."""
    return tile.layout[-1].dimension if tile.layout and tile.layout[-1].step == 1 else -1


def contiguous_along(strides: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """The dimension along which a box of such sizes is contiguous in memory; -1 if none is."""
    found = [d for d, s in enumerate(strides) if s == 1 and sizes[d] > 1]
    return found[-1] if found else -1


def axis_along(layout: tuple[Axis, ...], dimension: int) -> int:
    """The axis along which a buffer has each element of a dimension; -1 if none has."""
    axes = enumerate(layout)
    return next((a for a, x in axes if x.dimension == dimension and x.step == 1), -1)


def _nests(tile: ArrayTile, rows: int, along_memory: bool) -> list[list[_Loop]]:
    """The loop nests of a copy. Registers: straight-line code. Where the memory is contiguous
    along another axis than the buffer: blocks that are transposed in registers."""
    last = len(tile.layout) - 1
    if last < 0:
        return [[]]
    lanes = tile.copy.lanes
    if tile.scope == REGISTER or rows in (-1, last) or lanes == 1:
        mark = "unroll" if tile.scope == REGISTER else ""
        outer = [_Loop(a, 1, x.size, mark) for a, x in enumerate(tile.layout[:-1])]
        few = (
            "unroll" if surely(tile.layout[last].size, "<", MAX_UNROLLED_VECTORS * lanes) else mark
        )
        return [[*outer, *chunk] for chunk in _chunks(last, tile.layout[last], lanes, few)]
    outer = [_Loop(a, 1, x.size, "") for a, x in enumerate(tile.layout) if a not in (rows, last)]
    nests = []
    for across in _chunks(rows, tile.layout[rows], lanes, ""):
        for along in _chunks(last, tile.layout[last], lanes, ""):
            places = [*across[:-1], *along[:-1]]
            if along_memory:  # the hardware prefetcher follows each of these rows
                places = [*along[:-1], *across[:-1]]
            nests.append([*outer, *places, *_block(across[-1], along[-1])])
    return nests


def _block(across: _Loop, along: _Loop) -> tuple[_Loop, _Loop]:
    """Two loops around a block to transpose; a block of one row is a vector."""
    extents = across.extent, along.extent
    if any(is_tracked(extent) or extent == 1 for extent in extents):
        return across, along
    return replace(across, mark="transpose"), replace(along, mark="")


def _chunks(number: int, axis: Axis, lanes: int, mark: str) -> list[list[_Loop]]:
    """An axis in chunks of `lanes`, each the last loop of its nest; the rest apart, of which it may
    not be known when compiling how long it is."""
    full, rest = divmod(axis.size, lanes)
    chunks = []
    if not surely(full, "==", 0):
        chunk = _Loop(number, 1, lanes, "vector" if lanes > 1 else mark)
        chunks.append([_Loop(number, lanes, full, mark), chunk])
    if not surely(rest, "==", 0):
        along = "" if is_tracked(rest) else "vector"
        place = _Loop(number, 0, 1, "", begin=full * lanes)
        chunks.append([place, _Loop(number, 1, rest, along)])
    return chunks


def _nest(
    loops: Sequence[_Loop], placed: PlacedTile, state: EmitScope, body: Body
) -> tuple[Stmt, ...]:
    """The loops around the body, which gets the element and the indices in the buffer."""
    layout = placed.tile.layout
    positions = [constant_form(0)] * len(layout)
    names: list[str | None] = []
    for loop in loops:
        positions[loop.axis] = positions[loop.axis].shifted(loop.begin)
        if surely(loop.extent, "==", 1):
            names.append(None)
        else:
            name = state.kernel.names.fresh("c0", INT64)
            state = state.bound(name, 0, loop.extent - 1)
            positions[loop.axis] = positions[loop.axis] + Form(0, {name: loop.step})
            names.append(name)
    stmts = body(state, _element(placed.box, layout, positions), _indices(positions))
    for loop, opened in zip(reversed(loops), reversed(names), strict=True):
        if opened is not None:
            stmts = (For(opened, integer(0), integer(loop.extent), stmts, mark=loop.mark),)
    return stmts


def _element(
    box: Box, layout: tuple[Axis, ...], positions: Sequence[LinearForm]
) -> tuple[LinearForm, ...]:
    element = list(box.offsets)
    for axis, position in zip(layout, positions, strict=True):
        element[axis.dimension] = element[axis.dimension].plus(position, axis.step)
    return tuple(element)


def _indices(positions: Sequence[LinearForm]) -> tuple[Expr, ...]:
    return tuple(map(of_form, positions))


# --- what is gathered -------------------------------------------------------------------------


def gathered(
    gather: Gather, element: tuple[LinearForm, ...], state: EmitScope
) -> tuple[tuple[Stmt, ...], Expr]:
    """An element, in the type of computation, read from memory; and what must run before."""
    kernel = state.kernel
    places = {
        own.name: of_form(form.times(own.step).shifted(own.first))
        for own, form in zip(gather.dimensions, element, strict=True)
    }
    scope = Scope(
        kernel.scop.shaped,
        0,
        places,
        frozenset(),
        kernel.names,
        dict(state.bounds),
        kernel.sites,
        lambda _expr, _block: None,
        lambda _read: None,
    )
    block = StatementBuilder(scope)
    value = lower_expression(gather.value, block)
    return tuple(block.stmts), value


def contiguous_dimension(gather: Gather, found: Box, state: EmitScope) -> int:
    """The dimension of a box of what is gathered along which memory is contiguous: that of the
    tensor itself or, if its places come from others, of one of these; -1 if none is."""
    numbers = {own.name: number for number, own in enumerate(gather.dimensions)}
    for read in p.walk(gather.value):
        if isinstance(read, p.Read):
            strides = state.kernel.buffers[read.tensor].strides
            for subscript, stride in zip(read.subscripts, strides, strict=True):
                if stride == 1 and isinstance(subscript, p.Index):
                    number = numbers[subscript.name]
                    if found.sizes[number] > 1:
                        return number
    return -1
