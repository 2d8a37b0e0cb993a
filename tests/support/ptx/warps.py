"""Instructions of a whole warp: exchanges between lanes, fragments of matrices, their products. The
tables of lanes are those of the PTX manual, sections of ldmatrix, mma.m16n8k16 and mma.m16n8k8."""

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


IN_A_WORD = {"f16": 2, "bf16": 2, "tf32": 1}
"""The factors of a matrix product in a register, by their type."""


def multiplied(kind: str, a: Array, b: Array, c: Array) -> Array:
    """mma.m16n8k16 of halves, mma.m16n8k8 of tf32: the registers of A (warps, 4, 32), B (warps, 2,
    32) and C (warps, 4, 32), which is float, as is the result. What hardware rounds between the
    products is not said: here sums of doubles are rounded once."""
    warps, count = len(a), IN_A_WORD[kind]
    steps = 4 * count  # of a register of all lanes
    left, right = np.zeros((warps, 16, 2 * steps)), np.zeros((warps, 2 * steps, 8))
    total = np.zeros((warps, 16, 8))
    own = count * (LANES % 4)[:, None] + np.arange(count)
    for register in range(4):
        row, half = ROW + 8 * (register % 2), register // 2
        left[:, row[:, None], own + steps * half] = _numbers(a[:, register], kind)
        total[:, ROW + 8 * half, PAIR + register % 2] = c[:, register]
    for register in range(2):
        right[:, own + steps * register, ROW[:, None]] = _numbers(b[:, register], kind)
    product = (left @ right + total).astype(np.float32)
    return np.stack([product[:, ROW + 8 * (r // 2), PAIR + r % 2] for r in range(4)], axis=1)


def _numbers(words: Array, kind: str) -> Array:
    """The numbers in words, along a last axis, the lowest first."""
    if kind == "tf32":
        return _unrounded_refused(words)[..., None].view(np.float32)
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    return halves.view(np.float16) if kind == "f16" else from_bf16(halves)


def _unrounded_refused(words: Array) -> Array:
    """Words that hold numbers of tf32; Fault where one has bits that tf32 does not have."""
    is_finite = np.isfinite(np.ascontiguousarray(words).view(np.float32))
    if (wrong := is_finite & (words & np.uint32(0x1FFF) != 0)).any():
        raise Fault("a factor is not rounded to tf32", int(wrong.nonzero()[-1][0]))
    return np.ascontiguousarray(words)
