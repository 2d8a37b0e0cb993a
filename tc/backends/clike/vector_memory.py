"""Where vectors lie in memory: loads and stores in C."""

from __future__ import annotations

from collections.abc import Iterator

from tc.backends.clike.dialect import ATOM, Context, Printed
from tc.backends.clike.masks import mask_text
from tc.backends.clike.memory_helpers import near_name
from tc.backends.clike.scalars import element_text, text_of
from tc.backends.clike.types import c_type, memory_type
from tc.dtypes import INT64, UINT64, DType
from tc.kernel.analysis.lane_offsets import LaneOffsets
from tc.kernel.folding import binary, cast
from tc.kernel.ir import Binary, Const, Expr, Load, Prefetch, Ramp, Store


def load_printed(load: Load, context: Context) -> Printed:
    """The elements as they are in memory."""
    dtype = memory_type(load.dtype)
    place = context.place(load.buffer, load.indices, dtype.lanes)
    first, step = _first(load, place, context), _step(place)
    masks = _masks(load.mask, dtype, context)
    near = None if step is None else near_name(step, dtype, masked=bool(masks))
    if near is not None:
        return f"{near}({', '.join((f'&{first}', *masks))})", ATOM
    if step == 1:
        family, operands = "load", [f"&{first}"]
    elif step is None or masks:
        family, operands = "gather", [f"&{first}", _distances(place, context)]
    elif step == 0:
        family, operands = "broadcast", [first]
    else:
        family, operands = "load_strided", [f"&{first}", str(step)]
    return _call(family, dtype, operands, masks), ATOM


def store_text(store: Store, value: str, context: Context) -> str:
    """The call that stores a vector, given the text of what is kept in memory."""
    dtype = memory_type(store.value.dtype)
    place = context.place(store.buffer, store.indices, dtype.lanes)
    first, step = f"&{_first(store, place, context)}", _step(place)
    masks = _masks(store.mask, dtype, context)
    if step == 1:
        return _call("store", dtype, [first], masks, value)
    if step is None or masks:
        return _call("scatter", dtype, [first, _distances(place, context)], masks, value)
    return _call("store_strided", dtype, [first, str(step)], masks, value)


def _masks(mask: Expr | None, dtype: DType, context: Context) -> list[str]:
    return [] if mask is None else [mask_text(mask, dtype.bits, context)]


def _call(family: str, dtype: DType, where: list[str], masks: list[str], *stored: str) -> str:
    name = f"tc_{family}{'_masked' if masks else ''}_{c_type(dtype)}"
    return f"{name}({', '.join((*where, *masks, *stored))})"


def prefetch_lines(stmt: Prefetch, context: Context) -> Iterator[str]:
    """Calls with addresses that are computed unsigned, as they may be anywhere; nothing for
    places without a pattern."""
    place = context.place(stmt.buffer, stmt.indices, stmt.lanes)
    size = memory_type(context.buffers[stmt.buffer].dtype).bytes
    if place.vectors.terms:
        return
    offset: Expr = _unsigned(place.scalars.constant * size)
    for term, factor in place.scalars.terms.items():
        product = binary("*", cast(term, UINT64), _unsigned(factor * size), {})
        offset = binary("+", product, offset, {})
    base = f"(uintptr_t){context.names.buffers[stmt.buffer]}"
    first = f"{base} + (uintptr_t)({text_of(offset, context)})"
    if stmt.lanes == 1:
        yield f"tc_prefetch({first});"
        return
    yield "{"
    yield f"    uintptr_t tc_first = {first};"
    for distance in place.distances:
        sign = "-" if distance < 0 else "+"
        yield f"    tc_prefetch(tc_first{f' {sign} {abs(distance) * size}' if distance else ''});"
    yield "}"


def _unsigned(value: int) -> Const:
    return Const(value % (1 << 64), UINT64)


def _first(access: Load | Store, place: LaneOffsets, context: Context) -> str:
    """The element from which the distances count."""
    terms, one = place.scalars.terms, Const(1, INT64)
    indices, factors = (*terms, one), (*terms.values(), place.scalars.constant)
    return element_text(access.buffer, indices, factors, context)


def _step(place: LaneOffsets) -> int | None:
    """The elements from each lane to the next, None where they differ."""
    step = place.distances[1]
    is_even = place.distances == [step * lane for lane in range(len(place.distances))]
    return step if is_even and not place.vectors.terms else None


def _distances(place: LaneOffsets, context: Context) -> str:
    """Of all lanes, from the first element, as a vector."""
    vector, total = INT64.vector(len(place.distances)), None
    for index, factor in place.vectors.terms.items():
        term = index if factor == 1 else Binary("*", index, Const(factor, vector), vector)
        total = term if total is None else Binary("+", total, term, vector)
    common: Expr = Ramp(Const(0, INT64), place.distances[1], vector)
    if total is not None:
        common = Binary("+", total, common, vector) if place.distances[1] else total
    return text_of(common, context)
