"""Buffers of traced regions: loads and stores of scalars and vectors, none past an end.

Offsets count elements from element (0, ..., 0) of a buffer and may be negative. The lanes of a
vector lie at constant distances from one offset where they can: then a few loads of what lies
between the first and the last of them give them all. Other vectors are gathered and scattered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tc.backends.numba.traced_code import Code, constant, llvm_type, memory_type, suffix
from tc.backends.numba.traced_functions import cast
from tc.backends.numba.traced_values import (
    Operand,
    TracedValue,
    as_value,
    broadcast,
    pattern,
    shuffle,
)
from tc.dtypes import BOOL, INT32, INT64, UINT8, DType
from tc.kernel.scratch import ALIGNMENT_BYTES
from tc.process import numba_settings

_MAX_WINDOW_LOADS = 6
"""The most loads of whole vectors that stand for one gather: more are slower than the gather."""


@dataclass(frozen=True, slots=True)
class TracedPointer:
    """The elements of a buffer from address `base` on.

    Accesses of pointers of different `kind` never meet. `wide`: some offsets do not fit in 32 bits.
    """

    code: Code
    base: str
    dtype: DType
    kind: str
    wide: bool = False

    def __getitem__(self, offset: Operand) -> TracedValue:
        return load(self, offset, 1)

    def __setitem__(self, offset: Operand, value: Operand) -> None:
        store(self, offset, as_value(self.code, value, self.dtype))


def address(pointer: TracedPointer, offset: Operand) -> str:
    """The address of an element. The constant part of its offset is added last: it becomes a
    part of the instruction that accesses the memory."""
    place, code = as_value(pointer.code, offset, INT64), pointer.code
    element, result = memory_type(pointer.dtype), pointer.base
    if place.base:
        result = code.pure(f"getelementptr {element}, ptr {result}, i64 {place.base}")
    if place.addend:
        result = code.pure(f"getelementptr {element}, ptr {result}, i64 {place.addend}")
    return result


# --- loads ------------------------------------------------------------------------------------


def load(
    pointer: TracedPointer,
    offset: Operand,
    lanes: int | Sequence[int],
    mask: TracedValue | None = None,
    *,
    aligned: bool = False,
) -> TracedValue:
    """Loads `lanes` elements from an offset on, or the elements at these distances from the offset.

    Lanes that the mask leaves out read nothing and are 0. `aligned`: the address is a multiple
    of `ALIGNMENT_BYTES`, or of the bytes loaded if these are fewer.
    """
    places = range(lanes) if isinstance(lanes, int) else lanes
    count, first, last = len(places), min(places), max(places)
    start, code = as_value(pointer.code, offset, INT64), pointer.code
    if list(places) == list(range(count)):
        return _load_contiguous(pointer, start, count, mask, aligned=aligned)
    if mask is None and first == last:
        return broadcast(load(pointer, start + first, 1), count)
    is_near = last - first < _MAX_WINDOW_LOADS * count
    if is_near and (mask is None or len({*places}) == count):
        return _load_windows(pointer, start, places, mask)
    if list(places) == list(range(0, -count, -1)):
        backward = None if mask is None else _reverse(mask)
        return _reverse(_load_contiguous(pointer, start + first, count, backward))
    return gather(pointer, start, pattern(code, places, INT64), mask)


def _load_windows(
    pointer: TracedPointer,
    start: TracedValue,
    places: Sequence[int],
    mask: TracedValue | None = None,
) -> TracedValue:
    """The elements of contiguous loads, of which the last ends with the last of them. With a mask,
    which is for places that differ, nothing of what lies between is read."""
    first, last = min(places), max(places)
    width = min(len(places), last - first + 1)
    owners = [(place - first) // width for place in places]
    merged: TracedValue | None = None
    found: list[int] = []  # the lanes of `merged` that hold the elements, -1 where none does yet
    for number in sorted(set(owners)):
        begin = min(first + number * width, last + 1 - width)
        inside = [p - begin if o == number else -1 for p, o in zip(places, owners, strict=True)]
        wanted = None if mask is None else _moved(mask, inside, width)
        window = _load_contiguous(pointer, start + begin, width, wanted)
        if merged is None:
            merged, found = window, inside
        else:
            pairs = zip(found, inside, strict=True)
            both = [old if new < 0 else merged.dtype.lanes + new for old, new in pairs]
            merged, found = shuffle(merged, window, both), list(range(len(places)))
    assert merged is not None
    return shuffle(merged, merged, found)


def _moved(mask: TracedValue, places: Sequence[int], lanes: int) -> TracedValue:
    """A mask of `lanes` lanes, with lane k of `mask` at `places[k]` (-1: nowhere) and false
    elsewhere."""
    nothing = broadcast(as_value(mask.code, False, BOOL), mask.dtype.lanes)
    lane_of = {place: lane for lane, place in enumerate(places) if place >= 0}
    return shuffle(mask, nothing, [lane_of.get(n, mask.dtype.lanes) for n in range(lanes)])


def _reverse(value: TracedValue) -> TracedValue:
    return shuffle(value, value, range(value.dtype.lanes - 1, -1, -1))


def _load_contiguous(
    pointer: TracedPointer,
    start: TracedValue,
    lanes: int,
    mask: TracedValue | None = None,
    *,
    aligned: bool = False,
) -> TracedValue:
    code, dtype, place = pointer.code, pointer.dtype.vector(lanes), address(pointer, start)
    alignment = _alignment(dtype, aligned=aligned)
    if mask is None:
        instruction = f"load {memory_type(dtype)}, ptr {place}, align {alignment}"
    else:
        if dtype.bits in (32, 64) and _takes_nothing_for_all():
            mask = _obscured(mask, INT64 if dtype.bits == 64 else INT32)
        instruction = _masked(code, "load", dtype, place, mask, alignment)
    return _from_memory(code, code.read(instruction + code.apart(pointer.kind), lanes), dtype)


def _takes_nothing_for_all() -> bool:
    """Whether LLVM may read a whole register of which it knows that the mask leaves out all lanes.

    LLVM 22 does for AVX2 without AVX-512, where the mask is one condition for all lanes and a
    constant for each: instructions have no longer a mask, or LLVM ends the process as it finds no
    size for the memory that they read."""
    allowed = numba_settings.features().split(",")
    return "+avx2" in allowed and "+avx512f" not in allowed


def _obscured(mask: TracedValue, dtype: DType) -> TracedValue:
    """The same mask, of no lane of which LLVM can know that it is left out."""
    code, lanes, kind = mask.code, mask.dtype.lanes, llvm_type(dtype)
    least = TracedValue(code, code.pure(f'call {kind} asm "", "=r,0"({kind} -1)'), dtype)
    return mask | (pattern(code, range(lanes), dtype) < broadcast(least, lanes))


def gather(
    pointer: TracedPointer, offset: Operand, distances: TracedValue, mask: TracedValue | None = None
) -> TracedValue:
    """The elements at distances from an offset that are known only when the region runs."""
    code, dtype = pointer.code, pointer.dtype.vector(distances.dtype.lanes)
    places = _addresses(pointer, offset, distances)
    instruction = _masked(code, "gather", dtype, places, mask, dtype.bytes)
    return _from_memory(code, code.define(instruction + code.apart(pointer.kind)), dtype)


def prefetch(pointer: TracedPointer, offset: Operand, distances: Sequence[int]) -> None:
    """Asks for the lines of elements at distances from an offset, wherever that lies: addresses
    wrap around, and what is at none that may be read is left alone."""
    start, code = as_value(pointer.code, offset, INT64), pointer.code
    for distance in distances:
        place = address(pointer, start + distance)
        read, near, data = ("i32", "0"), ("i32", "3"), ("i32", "1")
        code.emit(code.call("llvm.prefetch.p0", "void", ("ptr", place), read, near, data))


# --- stores -----------------------------------------------------------------------------------


def store(
    pointer: TracedPointer,
    offset: Operand,
    value: TracedValue,
    mask: TracedValue | None = None,
    *,
    lanes: Sequence[int] = (),
    aligned: bool = False,
) -> None:
    """Writes the lanes one behind the other, or at constant distances from an offset; see
    `load`."""
    count, start = value.dtype.lanes, as_value(pointer.code, offset, INT64)
    if not lanes or list(lanes) == list(range(count)):
        _store_contiguous(pointer, start, value, mask, aligned=aligned)
    elif list(lanes) == list(range(0, -count, -1)):
        backward = None if mask is None else _reverse(mask)
        _store_contiguous(pointer, start + lanes[-1], _reverse(value), backward)
    else:
        scatter(pointer, start, pattern(pointer.code, lanes, INT64), value, mask)


def _store_contiguous(
    pointer: TracedPointer,
    start: TracedValue,
    value: TracedValue,
    mask: TracedValue | None,
    *,
    aligned: bool = False,
) -> None:
    code, dtype, place = pointer.code, value.dtype, address(pointer, start)
    text, alignment = _to_memory(value), _alignment(dtype, aligned=aligned)
    if mask is None:
        instruction = f"store {memory_type(dtype)} {text}, ptr {place}, align {alignment}"
    else:
        instruction = _masked(code, "store", dtype, place, mask, alignment, text)
    code.emit(instruction + code.apart(pointer.kind))


def stream(pointer: TracedPointer, offset: Operand, value: TracedValue) -> None:
    """Stores as `store` does, but past the caches where the buffer is aligned to `ALIGNMENT_BYTES`:
    the offset is a multiple of these bytes, or of the bytes stored if these are fewer."""
    code, dtype = pointer.code, value.dtype
    start = code.pure(f"ptrtoint ptr {pointer.base} to i64")
    low = code.pure(f"and i64 {start}, {ALIGNMENT_BYTES - 1}")
    whole = code.pure(f"icmp eq i64 {low}, 0")
    place, text = address(pointer, offset), _to_memory(value)
    plain = f"store {memory_type(dtype)} {text}, ptr {place}, align"
    past, usual, end = (code.label(hint) for hint in ("past", "usual", "stored"))
    code.emit(f"br i1 {whole}, label %{past}, label %{usual}")
    code.start(past)
    aligned = _alignment(dtype, aligned=True)
    code.emit(f"{plain} {aligned}{code.past_caches()}{code.apart(pointer.kind)}")
    code.jump(end)
    code.start(usual)
    code.emit(f"{plain} {dtype.bytes}{code.apart(pointer.kind)}")
    code.jump(end)
    code.start(end)


def scatter(
    pointer: TracedPointer,
    offset: Operand,
    distances: TracedValue,
    value: TracedValue,
    mask: TracedValue | None = None,
) -> None:
    """Writes the lanes at distances from an offset that are known only when the region runs."""
    code, dtype = pointer.code, value.dtype
    text, places = _to_memory(value), _addresses(pointer, offset, distances)
    instruction = _masked(code, "scatter", dtype, places, mask, dtype.bytes, text)
    code.emit(instruction + code.apart(pointer.kind))


# --- what both need ---------------------------------------------------------------------------


def _addresses(pointer: TracedPointer, offset: Operand, distances: TracedValue) -> str:
    """The addresses of the lanes; of 32 bits each where they suffice, as twice as many of those
    are gathered at once."""
    code, lanes = pointer.code, distances.dtype.lanes
    start, base = as_value(code, offset, INT64), pointer.base
    if not pointer.wide:
        distances = cast(distances, INT32)
        if start.number != 0:
            distances = distances + broadcast(cast(start, INT32), lanes)
    else:
        base = address(pointer, start)
    kind, text = distances.operand
    element = memory_type(pointer.dtype)
    return code.pure(f"getelementptr {element}, ptr {base}, {kind} {text}")


def _masked(
    code: Code,
    verb: str,
    dtype: DType,
    place: str,
    mask: TracedValue | None,
    alignment: int,
    stored: str | None = None,
) -> str:
    """The instruction on the lanes of a mask, at one address or at an address for each lane."""
    kind, lanes = memory_type(dtype), dtype.lanes
    several = verb in ("gather", "scatter")
    name = f"llvm.masked.{verb}.{suffix(_in_memory(dtype))}.{f'v{lanes}' if several else ''}p0"
    where = (f"<{lanes} x ptr>" if several else "ptr", place)
    which = BOOL.vector(lanes)
    chosen = llvm_type(which), constant(True, which) if mask is None else mask.text
    rest = where, ("i32", str(alignment)), chosen
    if stored is None:
        return code.call(name, kind, *rest, (kind, "zeroinitializer"))
    return code.call(name, "void", (kind, stored), *rest)


def _alignment(dtype: DType, *, aligned: bool) -> int:
    size = dtype.bytes * dtype.lanes
    return min(ALIGNMENT_BYTES, size & -size) if aligned else dtype.bytes


def _in_memory(dtype: DType) -> DType:
    return UINT8.vector(dtype.lanes) if dtype.kind == "bool" else dtype


def _from_memory(code: Code, text: str, dtype: DType) -> TracedValue:
    found = TracedValue(code, text, _in_memory(dtype))
    return found != 0 if dtype.kind == "bool" else found


def _to_memory(value: TracedValue) -> str:
    return cast(value, UINT8).text if value.dtype.kind == "bool" else value.text
