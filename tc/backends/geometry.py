"""The launches of the functions of a text for GPUs, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.backends.base import KernelText
from tc.backends.printing import product_text
from tc.gpu import bytes_in_shared
from tc.kernel.ir import Buffer, Kernel, LaunchIndex
from tc.plan import AXES

Extents: TypeAlias = tuple[int, int, int]
"""How many blocks or threads there are along x, y and z."""


@dataclass(frozen=True, slots=True)
class LaunchGeometry:
    """One launch of a function: `grid` blocks of `block` threads. Each block has `shared` bytes of
    memory, of which the launch must ask for `dynamic`; the text declares the others. Where it is
    `cooperative`, all blocks must run at once, as they wait for each other.

    >>> print(LaunchGeometry("mm_0", (8, 32, 1), (32, 1, 1), 4752))
    mm_0: 8 x 32 x 1 blocks of 32 x 1 x 1 threads (x, y, z), 4752 bytes of shared memory
    """

    function: str
    grid: Extents
    block: Extents
    shared: int = 0
    dynamic: int = 0
    cooperative: bool = False

    def __str__(self) -> str:
        shared = f", {self.shared} bytes of shared memory" if self.shared else ""
        threads = f"{product_text(self.block)} threads (x, y, z)"
        at_once = ", all at once" if self.cooperative else ""
        return f"{self.function}: {product_text(self.grid)} blocks of {threads}{shared}{at_once}"

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)


@dataclass(frozen=True, slots=True)
class LaunchText(KernelText):
    """A kernel for GPUs: its functions are launched in the order of `launches`. In CUDA C++, arrays
    lie at multiples of their `wide_bytes`.

    The function of a cooperative launch has a last argument, behind the record of failures if it
    has one: a pointer to a word of 32 bits in the memory of the device, where its blocks count who
    waits. It is 0 at first, and needs nothing between launches, of which one at a time may use it;
    after one that was broken off it must be 0 again.
    """

    launches: tuple[LaunchGeometry, ...] = field(default=(), kw_only=True)


def axes_of(indices: Sequence[LaunchIndex]) -> tuple[tuple[str, LaunchIndex], ...]:
    """The dimensions of blocks or threads with their axes: the last is x."""
    return tuple(zip(AXES, reversed(indices), strict=False))


def extents(indices: Sequence[LaunchIndex]) -> Extents:
    """The counts of dimensions, which are listed outermost first.

    >>> extents((LaunchIndex("b0", 8), LaunchIndex("b1", 32)))
    (32, 8, 1)
    """
    x, y, z = (*(index.count for _, index in axes_of(indices)), 1, 1, 1)[:3]
    return x, y, z


def shared_layout(buffers: Iterable[Buffer]) -> tuple[Mapping[str, int], int]:
    """The bytes at which arrays start in the shared memory of a block, and how many it has.

    >>> from tc.dtypes import FLOAT32
    >>> a, b = (Buffer(name, FLOAT32, (5,), (1,), "shared") for name in "ab")
    >>> shared_layout((a, b))
    ({'a': 0, 'b': 32}, 64)
    """
    starts, size = {}, 0
    for buffer in buffers:
        starts[buffer.name] = size
        size += bytes_in_shared(math.prod(buffer.shape) * buffer.dtype.bytes)
    return starts, size


def origin(buffer: Buffer) -> int:
    """How many elements lie before element (0, ..., 0) in memory: strides may be negative.

    >>> from tc.dtypes import FLOAT32
    >>> origin(Buffer("a", FLOAT32, (4, 3), (-3, 1), "input"))
    9
    """
    steps = zip(buffer.shape, buffer.strides, strict=True)
    return sum((1 - extent) * stride for extent, stride in steps if extent and stride < 0)


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """The memory of a buffer, from its lowest to its highest element: `start` bytes before element
    (0, ..., 0), `size` bytes, none if it has no elements."""

    start: int
    size: int

    @staticmethod
    def of(buffer: Buffer) -> MemorySpan:
        steps = zip(buffer.shape, buffer.strides, strict=True)
        last = sum((extent - 1) * abs(stride) for extent, stride in steps)
        size = 0 if 0 in buffer.shape else (last + 1) * buffer.dtype.bytes
        return MemorySpan(origin(buffer) * buffer.dtype.bytes, size)


WIDE_BYTES = (16, 8)
"""What a thread can read or write at once, at multiples of as many bytes."""


def wide_bytes(buffer: Buffer) -> int:
    """How many bytes threads may access at once, as far as shape and strides say, if the first
    element lies at a multiple of as many: rows begin at multiples of 8 bytes and of two elements;
    and what lies beside an element, up to a multiple of these bytes, is in the array, as compilers
    read it, too. 1 where these are single elements.

    >>> from tc.dtypes import FLOAT32
    >>> [wide_bytes(Buffer("a", FLOAT32, (5, n), (n, 1), "input")) for n in (1, 5, 6, 8)]
    [1, 1, 8, 16]
    """
    item = buffer.dtype.bytes
    strides = [s for n, s in zip(buffer.shape, buffer.strides, strict=True) if n != 1]
    rows = [stride for stride in strides if stride != 1]
    most = max(2, min(WIDE_BYTES) // item)
    if 1 not in strides or any(stride <= 0 or stride % most for stride in rows):
        return 1
    size = MemorySpan.of(buffer).size
    return next((n for n in WIDE_BYTES if size and size % n == 0 and n // item > 1), 1)


def has_contents(buffer: Buffer, kernel: Kernel) -> bool:
    """Whether an argument holds something before a call."""
    return buffer.role == "input" or buffer.name in kernel.initial


def copied_bytes(kernel: Kernel) -> tuple[int, int]:
    """How many bytes are copied to a device for a call, and back, if arrays lie elsewhere."""
    sizes = [(buffer, MemorySpan.of(buffer).size) for buffer in kernel.arguments]
    there = sum(size for buffer, size in sizes if has_contents(buffer, kernel))
    return there, sum(size for buffer, size in sizes if buffer.role == "output")
