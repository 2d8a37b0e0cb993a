"""Plain loops under numba, as an engineer writes them: parallel outside, contiguous inside."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba import prange

from bench.cpu_kernels.kernel import Case
from bench.peers.peer import Form, Forms, Run

LOOPS = Forms()
"""Functions of all inputs, then all outputs."""
ZERO = np.float32(0)

F = Callable[..., Any]


class NumbaPeer:
    def __init__(self, threads: int) -> None:
        numba.set_num_threads(threads)

    def forms(self, family: str) -> Mapping[str, Form]:
        return {name: looped(function) for name, function in LOOPS[family].items()}

    def version(self) -> str:
        return f"numba {numba.__version__}"


def looped(function: F) -> Form:
    def form(case: Case) -> Run:
        narrow = [np.float32(x) if isinstance(x, float) else x for x in case.inputs]
        arrays = (*narrow, *case.outputs)
        return lambda: function(*arrays)

    return form


def loops(*families: str) -> Callable[[F], F]:
    compiled = numba.njit(parallel=True, fastmath=True, error_model="numpy")

    def add(function: F) -> F:
        LOOPS.of(*families)(compiled(function))
        return function

    return add


@loops("tmm")
def product_dots(a, b, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k]
            c[i, j] = total


@loops("tbmm")
def batched_dots(x, y, z):
    for b in prange(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(y.shape[1]):
                total = ZERO
                for k in range(x.shape[2]):
                    total += x[b, i, k] * y[b, j, k]
                z[b, i, j] = total


@loops("bmm_rev")
def reversed_dots(x, y, z):
    for b in prange(z.shape[0]):
        for i in range(z.shape[1]):
            for j in range(z.shape[2]):
                total = ZERO
                for k in range(x.shape[1]):
                    total += x[i, k, b] * y[j, b, k]
                z[b, i, j] = total


@loops("bmm_rev")
def reversed_rows(x, y, z):
    """Copies one matrix at a time, then adds scaled rows."""
    for b in prange(z.shape[0]):
        right = np.empty((x.shape[1], z.shape[2]), np.float32)
        for j in range(z.shape[2]):
            for k in range(x.shape[1]):
                right[k, j] = y[j, b, k]
        for i in range(z.shape[1]):
            z[b, i, :] = ZERO
            for k in range(x.shape[1]):
                scale = x[i, k, b]
                for j in range(z.shape[2]):
                    z[b, i, j] += scale * right[k, j]


@loops("outer_product")
def outer_rows(a, b, o):
    for p in prange(a.shape[0]):
        for s in range(b.shape[0]):
            for q in range(a.shape[1]):
                o[p, s, q, :] = ZERO
                for r in range(a.shape[2]):
                    scale = a[p, q, r]
                    for t in range(b.shape[2]):
                        o[p, s, q, t] += scale * b[s, r, t]


@loops("mttkrp")
def mttkrp_rows(a, b, c, d):
    for i in prange(a.shape[0]):
        t = np.empty(c.shape[1], np.float32)
        d[i, :] = ZERO
        for k in range(a.shape[1]):
            t[:] = ZERO
            for l in range(a.shape[2]):  # noqa: E741
                scale = a[i, k, l]
                for r in range(c.shape[1]):
                    t[r] += scale * c[l, r]
            for r in range(c.shape[1]):
                d[i, r] += t[r] * b[k, r]


@loops("l2diff")
def differences(a, b, o):
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                difference = a[i, k] - b[j, k]
                total += difference * difference
            o[i, j] = total


@loops("l2gemm")
def expanded(a, b, o):
    squares = np.empty(b.shape[0], np.float32)
    for j in prange(b.shape[0]):
        total = ZERO
        for k in range(b.shape[1]):
            total += b[j, k] * b[j, k]
        squares[j] = total
    for i in prange(a.shape[0]):
        own = ZERO
        for k in range(a.shape[1]):
            own += a[i, k] * a[i, k]
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k]
            o[i, j] = own + squares[j] - 2 * total


@loops("sgemm")
def rows_added(alpha, beta, a, b, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            scale = alpha * a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += scale * b[k, j]


@loops("conv2d")
def conv(i, w, o):
    for nf in prange(o.shape[0] * o.shape[1]):
        n, f = nf // o.shape[1], nf % o.shape[1]
        o[n, f] = ZERO
        for c in range(i.shape[1]):
            for h in range(o.shape[2]):
                for x in range(o.shape[3]):
                    total = ZERO
                    for kh in range(3):
                        for kw in range(3):
                            total += i[n, c, h + kh, x + kw] * w[f, c, kh, kw]
                    o[n, f, h, x] += total


@loops("conv2d_pad")
def conv_pad(i, w, o):
    """Copies a padded plane at a time, shared by all filters."""
    height, width = i.shape[2], i.shape[3]
    for n in prange(o.shape[0]):
        wide = np.zeros((height + 2, width + 2), np.float32)
        o[n] = ZERO
        for c in range(i.shape[1]):
            wide[1:-1, 1:-1] = i[n, c]
            for f in range(o.shape[1]):
                for h in range(height):
                    for x in range(width):
                        total = ZERO
                        for kh in range(3):
                            for kw in range(3):
                                total += wide[h + kh, x + kw] * w[f, c, kh, kw]
                        o[n, f, h, x] += total


@loops("gconv")
def grouped(i, w, b, o):
    groups = o.shape[1]
    for ng in prange(o.shape[0] * groups):
        n, g = ng // groups, ng % groups
        for f in range(o.shape[2]):
            o[n, g, f] = b[g, f]
            for c in range(i.shape[2]):
                for h in range(o.shape[3]):
                    for x in range(o.shape[4]):
                        total = ZERO
                        for kh in range(3):
                            for kw in range(3):
                                total += i[n, g, c, h + kh, x + kw] * w[g, f, c, kh, kw]
                        o[n, g, f, h, x] += total


@loops("maxpool")
def pooled(x, o):
    for n in prange(o.shape[0]):
        for c in range(o.shape[1]):
            for h in range(o.shape[2]):
                for w in range(o.shape[3]):
                    o[n, c, h, w] = max(
                        max(x[n, c, 2 * h, 2 * w], x[n, c, 2 * h, 2 * w + 1]),
                        max(x[n, c, 2 * h + 1, 2 * w], x[n, c, 2 * h + 1, 2 * w + 1]),
                    )


@loops("lut1")
def one_table(table, rows, o):
    for b in prange(o.shape[0]):
        o[b, :] = ZERO
        for k in range(rows.shape[1]):
            row = rows[b, k]
            for d in range(o.shape[1]):
                o[b, d] += table[row, d]


@loops("lut2")
def two_tables(t1, i1, t2, i2, o1, o2):
    for b in prange(o1.shape[0]):
        o1[b, :] = ZERO
        o2[b, :] = ZERO
        for k in range(i1.shape[1]):
            row = i1[b, k]
            for d in range(o1.shape[1]):
                o1[b, d] += t1[row, d]
        for k in range(i2.shape[1]):
            row = i2[b, k]
            for d in range(o2.shape[1]):
                o2[b, d] += t2[row, d]


@loops("mlp1")
def one_layer(x, w, bias, o):
    for i in prange(o.shape[0]):
        for j in range(o.shape[1]):
            total = bias[j]
            for k in range(x.shape[1]):
                total += x[i, k] * w[j, k]
            o[i, j] = max(total, ZERO)


@numba.njit(fastmath=True, error_model="numpy")
def dense(x, w, bias, o):
    for j in range(o.shape[0]):
        total = bias[j]
        for k in range(x.shape[0]):
            total += x[k] * w[j, k]
        o[j] = max(total, ZERO)


@loops("mlp3")
def three_layers(x, w2, b2, w3, b3, w4, b4, o2, o3, o4):
    for i in prange(x.shape[0]):
        dense(x[i], w2, b2, o2[i])
        dense(o2[i], w3, b3, o3[i])
        dense(o3[i], w4, b4, o4[i])


@loops("softmax")
def softmax(x, o):
    for n in prange(x.shape[0]):
        top = x[n, 0]
        for d in range(x.shape[1]):
            top = max(top, x[n, d])
        total = ZERO
        for d in range(x.shape[1]):
            e = math.exp(x[n, d] - top)
            o[n, d] = e
            total += e
        scale = np.float32(1) / total
        for d in range(x.shape[1]):
            o[n, d] *= scale


@loops("layernorm")
def layernorm(x, gamma, beta, eps, o):
    count = np.float32(x.shape[1])
    for n in prange(x.shape[0]):
        total = ZERO
        for d in range(x.shape[1]):
            total += x[n, d]
        mean = total / count
        spread = ZERO
        for d in range(x.shape[1]):
            spread += (x[n, d] - mean) * (x[n, d] - mean)
        scale = np.float32(1) / math.sqrt(spread / count + eps)
        for d in range(x.shape[1]):
            o[n, d] = (x[n, d] - mean) * scale * gamma[d] + beta[d]


@loops("groupnorm")
def groupnorm(x, gamma, beta, eps, o):
    groups, depth = x.shape[1], x.shape[2]
    plane = x.shape[3] * x.shape[4]
    flat, out = x.reshape(-1, depth, plane), o.reshape(-1, depth, plane)
    count = np.float32(depth * plane)
    for ng in prange(flat.shape[0]):
        total = ZERO
        for d in range(depth):
            for p in range(plane):
                total += flat[ng, d, p]
        mean = total / count
        spread = ZERO
        for d in range(depth):
            for p in range(plane):
                spread += (flat[ng, d, p] - mean) * (flat[ng, d, p] - mean)
        scale = np.float32(1) / math.sqrt(spread / count + eps)
        for d in range(depth):
            factor = scale * gamma[ng % groups, d]
            shift = beta[ng % groups, d] - mean * factor
            for p in range(plane):
                out[ng, d, p] = flat[ng, d, p] * factor + shift


@loops("moments")
def moments(x, mean, variance):
    count = np.float32(x.shape[1])
    for n in prange(x.shape[0]):
        total, squares = ZERO, ZERO
        for d in range(x.shape[1]):
            total += x[n, d]
            squares += x[n, d] * x[n, d]
        mean[n] = total / count
        variance[n] = squares / count - mean[n] * mean[n]


@loops("transpose4d")
def swapped(x, o):
    for a in prange(o.shape[0]):
        for c in range(o.shape[1]):
            for b in range(o.shape[2]):
                for d in range(o.shape[3]):
                    o[a, c, b, d] = x[a, b, c, d]


@loops("to_channels_last")
def channels_moved(x, o):
    for n in prange(o.shape[0]):
        for h in range(o.shape[1]):
            for w in range(o.shape[2]):
                for c in range(o.shape[3]):
                    o[n, h, w, c] = x[n, c, h, w]


@loops("to_channels_last")
def channels_moved_by_blocks(x, o):
    block = 16
    for n in prange(o.shape[0]):
        for h in range(o.shape[1]):
            for start in range(0, o.shape[2], block):
                stop = min(start + block, o.shape[2])
                for first in range(0, o.shape[3], block):
                    last = min(first + block, o.shape[3])
                    for w in range(start, stop):
                        for c in range(first, last):
                            o[n, h, w, c] = x[n, c, h, w]


@loops("sum_log")
def sum_log(x, y, s):
    total = ZERO
    for j in prange(y.shape[0]):
        row = ZERO
        for i in range(y.shape[1]):
            row += x[i, j] * math.log(y[j, i])
        total += row
    s[()] = total


@loops("integral_image")
def running_sums_then_columns(x, o):
    height, width, block = x.shape[0], x.shape[1], 256
    for i in prange(height):
        total = ZERO
        for j in range(width):
            total += x[i, j]
            o[i, j] = total
    for part in prange((width + block - 1) // block):
        stop = min((part + 1) * block, width)
        for i in range(1, height):
            for j in range(part * block, stop):
                o[i, j] += o[i - 1, j]


@loops("integral_image")
def one_pass(x, o):
    """On one thread: each row is one running sum, added to the row above."""
    o[0, :] = ZERO
    for i in range(x.shape[0]):
        above = max(i - 1, 0)
        total = ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
            o[i, j] = o[above, j] + total
