"""Where the private buffers of a kernel lie in the memory that a backend keeps for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tc.kernel.ir import Buffer, Kernel

ALIGNMENT_BYTES = 64
"""Bytes to which each buffer is aligned, and the memory as a whole must be."""

_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ScratchLayout:
    """`starts` are the bytes at which the buffers start in the share of one part of a parallel
    loop, which has `size` bytes, 0 where there are none; the shares lie one behind the other."""

    starts: Mapping[str, int]
    size: int


def is_private(buffer: Buffer) -> bool:
    """Whether the backend keeps the memory of a buffer, and no call passes it. Registers that are
    left when a kernel is printed are memory like scratch."""
    return buffer.role in ("scratch", "register")


def scratch_layout(kernel: Kernel) -> ScratchLayout:
    """The layout of all private buffers of a kernel. The shares of two parts lie on different
    pages, so that the parts do not wait for each other's writes.

    >>> from tc.dtypes import FLOAT32
    >>> a, b = (Buffer(name, FLOAT32, (5,), (1,), "scratch") for name in "ab")
    >>> scratch_layout(Kernel("f", (a, b), ()))
    ScratchLayout(starts={'a': 0, 'b': 64}, size=4096)
    """
    starts, size = {}, 0
    for buffer in filter(is_private, kernel.buffers):
        starts[buffer.name] = size
        size += _up(math.prod(buffer.shape) * buffer.dtype.bytes, ALIGNMENT_BYTES)
    return ScratchLayout(starts, _up(size, _PAGE_BYTES))


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
