"""Arrays in the memory of a device, as far as tc looks at them: nothing here reads an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.runtime.arrays.family import Refusal

CUDA, OPENCL = "cuda", "opencl"
"""The kinds of places beside the memory of the processor."""


@dataclass(frozen=True, slots=True)
class DeviceLocation:
    """Where memory of a device lies: of kind "cuda", the device `number`; of kind "opencl", the
    `context` of pyopencl, of whose devices that `number` runs kernels.

    >>> print(DeviceLocation("cuda", 1))
    CUDA device 1
    """

    kind: str
    number: int = 0
    context: Any = None

    def __str__(self) -> str:
        if self.kind == CUDA:
            return f"CUDA device {self.number}"
        return f"OpenCL device {self.context.devices[self.number].name.strip()}"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """What tc needs to know of an array on a device, as `on_device` makes it: `strides` in bytes,
    the row-major one along a dimension of at most one element; the `address` of element
    (0, ..., 0) in bytes, in OpenCL from the start of the buffer `memory`. `owner` keeps the memory
    alive. `stream` is the one that last wrote to it, None where that is not known or not asked;
    in OpenCL the queue.

    >>> at = DeviceLocation("cuda")
    >>> array = DeviceArray(np.dtype(np.float32), (2, 3), (12, 4), 256, at, True, None)
    >>> array.ndim, array.row_major, array.span
    (2, True, (256, 280))
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    place: DeviceLocation
    writable: bool
    owner: Any = field(repr=False)
    stream: Any = None
    memory: Any = field(default=None, repr=False)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def pointer(self) -> Any:
        """Where element (0, ..., 0) is, as kernels take it."""
        return self.address if self.place.kind == CUDA else self

    @property
    def row_major(self) -> bool:
        return self.strides == packed(self.shape, self.dtype.itemsize) or 0 in self.shape

    @property
    def aligned(self) -> bool:
        """Whether each element lies at a multiple of its size: GPUs read no others."""
        item = self.dtype.itemsize
        return 0 in self.shape or not any(step % item for step in (self.address, *self.strides))

    @property
    def plain(self) -> bool:
        """Whether kernels may write to it: row-major, aligned and writable."""
        return self.writable and self.row_major and self.aligned

    @property
    def span(self) -> tuple[int, int]:
        """The address of the first byte of the array and the address behind its last byte."""
        if 0 in self.shape:
            return self.address, self.address
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        below, above = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps)
        return self.address + below, self.address + above + self.dtype.itemsize


def packed(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides in bytes of a row-major array with elements of `size` bytes.

    >>> packed((2, 3), 4)
    (12, 4)
    """
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def on_device(
    owner: Any,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    strides: Sequence[int] | None,
    address: int,
    place: DeviceLocation,
    *,
    writable: bool = True,
    stream: Any = None,
    memory: Any = None,
) -> DeviceArray:
    """An array with these fields, row-major without `strides`; `Refusal` for elements without
    memory."""
    sizes = tuple(shape)
    steps = packed(sizes, dtype.itemsize)
    if strides is not None:  # along one element, any will do
        axes = zip(sizes, strides, steps, strict=True)
        steps = tuple(step if size > 1 else normal for size, step, normal in axes)
    if not address and place.kind == CUDA and 0 not in sizes:
        raise Refusal("has no memory: its address is 0")
    return DeviceArray(dtype, sizes, steps, address, place, writable, owner, stream, memory)
