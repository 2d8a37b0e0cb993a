"""Instructions of a whole warp: exchanges between lanes, fragments of matrices, their products. The
tables of lanes are those of the PTX manual, sections of ldmatrix and mma.m16n8k16."""

from __future__ import annotations

import numpy as np

from tests.support.ptx.arithmetic import from_bf16
from tests.support.ptx.memory import Array, Fault

LANES = np.arange(32)
ROW, PAIR = LANES // 4, 2 * (LANES % 4)
"""Of a fragment of 8 x 8 elements, the row of a lane and the first of its two columns."""


def shuffled(
    mode: str, values: Array, operand: Array, clamp: Array, threads: Array
) -> tuple[Array, Array]:
    """What shfl.sync gives each thread, and whether it is of another lane that is in range."""
    lane, distance = threads % 32, operand.astype(np.int64) % 32
    segment, bound = clamp.astype(np.int64) >> 8 & 31, clamp.astype(np.int64) & 31
    first = lane & segment
    last = first | bound & ~segment
    source = {
        "up": lane - distance, "down": lane + distance, "bfly": lane ^ distance,
        "idx": first | distance & ~segment,
    }[mode]  # fmt: skip
    inside = source >= last if mode == "up" else source <= last
    wanted = threads - lane + np.where(inside, source, lane)
    at = np.minimum(np.searchsorted(threads, wanted), len(threads) - 1)
    if (threads[at] != wanted).any():
        first_bad = int((threads[at] != wanted).argmax())
        raise Fault("it reads of a lane that takes no part", int(threads[first_bad]))
    return values[at], inside


def fragments(rows: Array, count: int, transposed: bool) -> Array:
    """ldmatrix: of `count` matrices of each warp, 8 rows of 8 halves one after the other, for each
    lane two halves as a word: (warps, count, 32)."""
    matrices = rows.reshape(-1, count, 8, 8)
    if transposed:
        matrices = matrices.swapaxes(2, 3)
    halves = matrices[:, :, ROW[:, None], PAIR[:, None] + np.arange(2)]
    return np.ascontiguousarray(halves).view(np.uint32)[..., 0]


def multiplied(kind: str, a: Array, b: Array, c: Array) -> Array:
    """mma.m16n8k16: the registers of A (warps, 4, 32), B (warps, 2, 32) and C (warps, 4, 32), which
    is float, as is the result. What hardware rounds between the products is not said: here sums of
    doubles are rounded once."""
    warps = len(a)
    left, right = np.zeros((warps, 16, 16)), np.zeros((warps, 16, 8))
    total = np.zeros((warps, 16, 8))
    for register in range(4):
        row, half = ROW + 8 * (register % 2), register // 2
        left[:, row[:, None], PAIR[:, None] + 8 * half + np.arange(2)] = _two(a[:, register], kind)
        total[:, ROW + 8 * half, PAIR + register % 2] = c[:, register]
    for register in range(2):
        k = PAIR[:, None] + 8 * register + np.arange(2)
        right[:, k, ROW[:, None]] = _two(b[:, register], kind)
    product = (left @ right + total).astype(np.float32)
    return np.stack([product[:, ROW + 8 * (r // 2), PAIR + r % 2] for r in range(4)], axis=1)


def _two(words: Array, kind: str) -> Array:
    """The lower and the upper number of words, along a last axis."""
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    return halves.view(np.float16) if kind == "f16" else from_bf16(halves)
