"""Kernels for many sizes: constants, shapes and strides that are tracked (`tc.extents`).

Until the last step a tracked size is a Const like any other. Then `with_parameters` puts a local in
the place of each, which every region loads from the buffer SIZES of int64: what stands in it at a
call are the values of the polynomials of `Kernel.sizes`, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tc.affine.intervals import surely
from tc.dtypes import INT64, DType
from tc.extents.sizes import Size, at_hint, is_tracked
from tc.kernel import ir
from tc.kernel.folding import binary, broadcast, cast, integer
from tc.kernel.scratch import scratch_layout

SIZES = "sizes."
"""The name of the buffer, which no tensor has."""

N = TypeVar("N")


def with_numbers(node: N, number_of: Callable[[Size], int]) -> N:
    """A kernel, or a part of one, with numbers in the place of tracked sizes."""
    made: N = _with_numbers(node, number_of)
    return made


def _with_numbers(node: Any, number_of: Callable[[Size], int]) -> Any:
    kind: Any = type(node)
    if kind is Size:
        return number_of(node)
    if kind is tuple:
        new = tuple([_with_numbers(each, number_of) for each in node])
        return node if all(map(_is, node, new)) else new
    if kind in _LEAVES or not is_dataclass(kind):
        return node
    changes = {}
    for each in fields(node):
        old = getattr(node, each.name)
        new = _with_numbers(old, number_of)
        if new is not old:
            changes[each.name] = new
    return replace(node, **changes) if changes else node


_LEAVES = (str, int, float, bool, type(None), frozenset, DType, ir.Comment, ir.Site)


def _is(one: object, other: object) -> bool:
    return one is other


def sizes_in(node: Any) -> dict[str, Size]:
    """The tracked sizes of a kernel, or of a part of one, by the texts of their polynomials."""
    found: dict[str, Size] = {}

    def note(size: Size) -> int:
        found.setdefault(str(size), size)
        return 0

    _with_numbers(node, note)
    return found


def at_sizes(kernel: ir.Kernel, sizes: Mapping[str, int]) -> ir.Kernel:
    """The kernel that one of `with_parameters` is at dynamic sizes, by their names: its statements
    are the same, and what stands in its buffer SIZES are the numbers of its `sizes`."""

    def value(size: Size) -> int:
        return size.polynomial.value(sizes)

    buffers, numbers = with_numbers((kernel.buffers, kernel.sizes), value)
    return replace(kernel, buffers=buffers, sizes=numbers)


def values_of_parameters(kernel: ir.Kernel) -> dict[str, int]:
    """The locals that the regions load from SIZES, with what it holds, or holds at the hints."""
    return {_local(place): at_hint(size) for place, size in enumerate(kernel.sizes)}


def _local(place: int) -> str:
    return f"{SIZES}{place}"


# --- parameters ---------------------------------------------------------------------------------


def with_parameters(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel whose tracked constants and strides are loaded from the buffer SIZES; the very
    same where there are none. Elements of buffers with tracked strides have one index then."""
    flat = {
        buffer.name: buffer.strides
        for buffer in kernel.buffers
        if any(map(is_tracked, buffer.strides))
    }
    kernel = replace(kernel, buffers=tuple(map(_private_pinned, kernel.buffers)))
    numbers = _Parameters(flat)
    regions = tuple(numbers.region(region) for region in kernel.regions)
    buffers = [_flat(b) if b.name in flat else b for b in kernel.buffers]
    layout = scratch_layout(replace(kernel, buffers=tuple(buffers)))
    for size in (*layout.starts.values(), layout.size):
        if is_tracked(size):
            numbers.value(size)
    if numbers.sizes:
        passed = sum(b.role not in ir.PRIVATE for b in buffers)
        buffers.insert(passed, ir.Buffer(SIZES, INT64, (len(numbers.sizes),), (1,), "sizes"))
    sizes = tuple(numbers.sizes.values())
    return replace(kernel, buffers=tuple(buffers), regions=regions, sizes=sizes)


def _private_pinned(buffer: ir.Buffer) -> ir.Buffer:
    """The buffer, of one size for all calls where it is registers or of a block of threads."""
    if buffer.role not in ("register", "shared") or not sizes_in(buffer):
        return buffer
    return with_numbers(buffer, int)


def _flat(buffer: ir.Buffer) -> ir.Buffer:
    """A buffer whose elements are told by their offsets, which are at least 0."""
    elements: Any = 1
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        elements = elements + (extent - 1) * stride
    if any(surely(extent, "==", 0) for extent in buffer.shape):
        elements = 0
    return replace(buffer, shape=(elements,), strides=(1,))


class _Parameters:
    """The tracked sizes that were met, by the texts of their polynomials, and those that a region
    uses."""

    def __init__(self, flat: Mapping[str, tuple[int, ...]]) -> None:
        self.flat = flat
        self.sizes: dict[str, Size] = {}
        self.used: dict[int, None] = {}

    def region(self, region: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        self.used = {}
        changed = self.of(region)
        lets = [
            ir.Let(_local(place), ir.Load(SIZES, (integer(place),), INT64))
            for place in sorted(self.used)
        ]
        return (*lets, *changed) if lets else region

    def value(self, size: Size) -> ir.Expr:
        self.sizes.setdefault(str(size), size)
        place = list(self.sizes).index(str(size))
        self.used[place] = None
        return ir.Var(_local(place), INT64)

    def of(self, node: Any) -> Any:
        """A node with expressions for its tracked sizes."""
        kind: Any = type(node)
        if kind is tuple:
            new = tuple([self.of(each) for each in node])
            return node if all(map(_is, node, new)) else new
        if kind in _LEAVES or not is_dataclass(kind):
            return node
        if kind is ir.Const:
            if not is_tracked(node.value):
                return node
            scalar = cast(self.value(node.value), node.dtype.scalar)
            return broadcast(scalar, node.dtype.lanes)
        changes = {}
        for each in fields(node):
            old = getattr(node, each.name)
            new = self.of(old)
            if new is not old:
                changes[each.name] = new
        places = _PLACES.get(type(node), ())
        for buffer, indices in places:
            strides = self.flat.get(getattr(node, buffer))
            if strides is not None:
                changes[indices] = (
                    self.offset(changes.get(indices, getattr(node, indices)), strides),
                )
        return replace(node, **changes) if changes else node

    def offset(self, indices: tuple[ir.Expr, ...], strides: tuple[int, ...]) -> ir.Expr:
        """The offset of an element, or of the elements of all lanes."""
        lanes = max((index.dtype.lanes for index in indices), default=1)
        total: ir.Expr | None = None
        for index, stride in zip(indices, strides, strict=True):
            step = self.value(stride) if is_tracked(stride) else integer(stride)
            term = binary("*", index, broadcast(step, index.dtype.lanes), {})
            if term.dtype.lanes < lanes:
                term = broadcast(term, lanes)
            total = term if total is None else binary("+", total, term, {})
        return integer(0) if total is None else total


_PLACES: Mapping[type, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys((ir.Load, ir.Store, ir.Prefetch), (("buffer", "indices"),)),
}


def number_text(number: int, kernel: ir.Kernel, sizes: str) -> str:
    """A number of a text; one that is tracked as an element of the array that `sizes` names."""
    if not is_tracked(number):
        return str(number)
    return f"{sizes}[{[str(size) for size in kernel.sizes].index(str(number))}]"


def is_narrow(buffer: ir.Buffer) -> bool:
    """Whether offsets of elements surely fit in 32 bits."""
    axes = zip(buffer.shape, buffer.strides, strict=True)
    return surely(sum(abs(stride) * (extent - 1) for extent, stride in axes), "<", 1 << 31)
