"""numpy, and scipy for sparse rows and triangles, writing into given arrays and kept buffers
wherever they can."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import scipy
from scipy.linalg import blas

from bench.cpu_kernels.kernel import Array, Case, aligned_empty, copied
from bench.peers.peer import Form, Forms, Run

FORMS = Forms()


class NumpyPeer:
    def forms(self, family: str) -> Mapping[str, Form]:
        return FORMS[family]

    def version(self) -> str:
        return f"numpy {np.__version__}"


@FORMS.of("tmm")
def product(case: Case) -> Run:
    (a, b), (c,) = case.inputs, case.outputs
    return lambda: np.matmul(a, b.T, out=c)


@FORMS.of("tbmm")
def batched_product(case: Case) -> Run:
    (x, y), (z,) = case.inputs, case.outputs
    return lambda: np.matmul(x, y.transpose(0, 2, 1), out=z)


@FORMS.of("bmm_rev")
def batched_copies(case: Case) -> Run:
    (x, y), (z,) = case.inputs, case.outputs
    (m, k, b), n = x.shape, len(y)
    left, right = aligned_empty((b, m, k)), aligned_empty((b, n, k))

    def run() -> Array:
        np.copyto(left, x.transpose(2, 0, 1))
        np.copyto(right, y.transpose(1, 0, 2))
        return np.matmul(left, right.transpose(0, 2, 1), out=z)

    return run


@FORMS.of("outer_product")
def broadcast_product(case: Case) -> Run:
    (a, b), (o,) = case.inputs, case.outputs
    return lambda: np.matmul(a[:, None], b[None], out=o)


@FORMS.of("outer_product")
def outer_one_product(case: Case) -> Run:
    (a, b), (o,) = case.inputs, case.outputs
    (p, q, r), (s, _, t) = a.shape, b.shape
    right, flat = aligned_empty((r, s, t)), aligned_empty((p * q, s * t))

    def run() -> Array:
        np.copyto(right, b.transpose(1, 0, 2))
        np.matmul(a.reshape(p * q, r), right.reshape(r, s * t), out=flat)
        np.copyto(o, flat.reshape(p, q, s, t).transpose(0, 2, 1, 3))
        return o

    return run


@FORMS.of("mttkrp")
def mttkrp_factored(case: Case) -> Run:
    (a, b, c), (d,) = case.inputs, case.outputs
    (i, k, depth), r = a.shape, b.shape[1]
    t = aligned_empty((i, k, r))

    def run() -> Array:
        np.matmul(a.reshape(i * k, depth), c, out=t.reshape(i * k, r))
        np.multiply(t, b, out=t)
        return np.sum(t, axis=1, out=d)

    return run


@FORMS.of("mttkrp")
def mttkrp_one_product(case: Case) -> Run:
    (a, b, c), (d,) = case.inputs, case.outputs
    (i, k, depth), r = a.shape, b.shape[1]
    both = aligned_empty((k, depth, r))

    def run() -> Array:
        np.multiply(b[:, None], c[None], out=both)
        return np.matmul(a.reshape(i, k * depth), both.reshape(k * depth, r), out=d)

    return run


@FORMS.of("l2diff")
def row_by_row(case: Case) -> Run:
    (a, b), (o,) = case.inputs, case.outputs
    difference = aligned_empty(b.shape)

    def run() -> Array:
        for row, results in zip(a, o, strict=True):
            np.subtract(b, row, out=difference)
            np.vecdot(difference, difference, out=results)
        return o

    return run


@FORMS.of("l2gemm")
def expanded(case: Case) -> Run:
    (a, b), (o,) = case.inputs, case.outputs
    scaled = aligned_empty(a.shape)

    def run() -> Array:
        np.multiply(a, np.float32(-2), out=scaled)
        np.matmul(scaled, b.T, out=o)
        np.add(o, np.vecdot(a, a)[:, None], out=o)
        return np.add(o, np.vecdot(b, b), out=o)

    return run


@FORMS.of("sgemm")
def product_added(case: Case) -> Run:
    (alpha, beta, a, b), (c,) = case.inputs, case.outputs
    scaled, t = aligned_empty(a.shape), aligned_empty(c.shape)

    def run() -> Array:
        np.multiply(a, np.float32(alpha), out=scaled)
        np.matmul(scaled, b, out=t)
        np.multiply(c, np.float32(beta), out=c)
        return np.add(c, t, out=c)

    return run


def columns_product(i: Array, w: Array, o: Array, bias: Array | None = None) -> Run:
    """Convolution as one matrix product per image and group: arrays are n,g,c,h,w and g,f,c,3,3."""
    n, g, c = i.shape[:3]
    f, h, v = o.shape[2:]
    columns = aligned_empty((n, g, c, 3, 3, h, v))
    windows = np.lib.stride_tricks.sliding_window_view(i, (h, v), axis=(-2, -1))
    flat = w.reshape(g, f, c * 9)
    out = o.reshape(n, g, f, h * v)

    def run() -> Array:
        np.copyto(columns, windows)
        np.matmul(flat, columns.reshape(n, g, c * 9, h * v), out=out)
        return o if bias is None else np.add(o, bias[..., None, None], out=o)

    return run


@FORMS.of("gconv")
def grouped_columns(case: Case) -> Run:
    (i, w, bias), (o,) = case.inputs, case.outputs
    return columns_product(i, w, o, bias)


@FORMS.of("conv2d")
def columns(case: Case) -> Run:
    (i, w), (o,) = case.inputs, case.outputs
    convolve = columns_product(i[:, None], w[None], o[:, None])
    return lambda: convolve()[:, 0]


@FORMS.of("conv2d_pad")
def padded_columns(case: Case) -> Run:
    (i, w), (o,) = case.inputs, case.outputs
    n, c, h, v = i.shape
    wide = aligned_empty((n, c, h + 2, v + 2))
    wide[...] = 0
    convolve = columns_product(wide[:, None], w[None], o[:, None])

    def run() -> Array:
        wide[:, :, 1:-1, 1:-1] = i
        return convolve()[:, 0]

    return run


@FORMS.of("maxpool")
def four_slices(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    h, w = o.shape[2:]
    parts = [x[..., i : i + 2 * h : 2, j : j + 2 * w : 2] for i in (0, 1) for j in (0, 1)]

    def run() -> Array:
        np.maximum(parts[0], parts[1], out=o)
        np.maximum(o, parts[2], out=o)
        return np.maximum(o, parts[3], out=o)

    return run


@FORMS.of("lut1", "lut2")
def rows_taken(case: Case) -> Run:
    tables, rows = case.inputs[::2], case.inputs[1::2]
    taken = aligned_empty((*rows[0].shape, tables[0].shape[1]))

    def run() -> tuple[Array, ...]:
        for table, chosen, output in zip(tables, rows, case.outputs, strict=True):
            np.take(table, chosen, axis=0, out=taken, mode="clip")
            np.sum(taken, axis=1, out=output)
        return case.outputs

    return run


@FORMS.of("mlp1", "mlp3")
def layers(case: Case) -> Run:
    x, *parameters = case.inputs
    inputs = (x, *case.outputs)
    steps = list(zip(inputs[:-1], parameters[::2], parameters[1::2], case.outputs, strict=True))

    def run() -> tuple[Array, ...]:
        for source, w, b, o in steps:
            np.matmul(source, w.T, out=o)
            np.add(o, b, out=o)
            np.maximum(o, 0, out=o)
        return case.outputs

    return run


@FORMS.of("softmax")
def softmax_by_blocks(case: Case) -> Run:
    """Block by block of rows, so that later steps find the data in cache."""
    (x,), (o,) = case.inputs, case.outputs

    def run() -> Array:
        for begin in range(0, len(x), 16):
            block, out = x[begin : begin + 16], o[begin : begin + 16]
            np.subtract(block, block.max(1, keepdims=True), out=out)
            np.exp(out, out=out)
            np.divide(out, out.sum(1, keepdims=True), out=out)
        return o

    return run


@FORMS.of("layernorm")
def layernorm_by_blocks(case: Case) -> Run:
    (x, gamma, beta, eps), (o,) = case.inputs, case.outputs

    def run() -> Array:
        for begin in range(0, len(x), 64):
            block, out = x[begin : begin + 64], o[begin : begin + 64]
            np.subtract(block, block.mean(1, keepdims=True), out=out)
            variance = np.vecdot(out, out)[:, None] / np.float32(x.shape[1])
            np.multiply(out, 1 / np.sqrt(variance + np.float32(eps)), out=out)
            np.multiply(out, gamma, out=out)
            np.add(out, beta, out=out)
        return o

    return run


@FORMS.of("groupnorm")
def groupnorm_by_images(case: Case) -> Run:
    (x, gamma, beta, eps), (o,) = case.inputs, case.outputs
    count = np.float32(np.prod(x.shape[2:]))

    def run() -> Array:
        for image, out in zip(x, o, strict=True):
            np.subtract(image, image.mean((1, 2, 3), keepdims=True), out=out)
            flat = out.reshape(len(out), -1)
            scale = 1 / np.sqrt(np.vecdot(flat, flat) / count + np.float32(eps))
            np.multiply(out, (scale[:, None] * gamma)[..., None, None], out=out)
            np.add(out, beta[..., None, None], out=out)
        return o

    return run


@FORMS.of("moments")
def moments(case: Case) -> Run:
    (x,), (mean, variance) = case.inputs, case.outputs

    def run() -> tuple[Array, ...]:
        for begin in range(0, len(x), 64):
            block = x[begin : begin + 64]
            np.mean(block, axis=1, out=mean[begin : begin + 64])
            centred = block - mean[begin : begin + 64, None]
            np.vecdot(centred, centred, out=variance[begin : begin + 64])
        np.divide(variance, np.float32(x.shape[1]), out=variance)
        return mean, variance

    return run


@FORMS.of("transpose4d")
def swapped(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    return lambda: np.copyto(o, x.transpose(0, 2, 1, 3))


@FORMS.of("to_channels_last")
def channels_moved(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    return lambda: np.copyto(o, x.transpose(0, 2, 3, 1))


@FORMS.of("sum_log")
def log_then_product(case: Case) -> Run:
    x, y = case.inputs
    logs, products = aligned_empty(y.shape), aligned_empty(x.shape)

    def run() -> Array:
        np.log(y, out=logs)
        np.multiply(x, logs.T, out=products)
        return np.sum(products)

    return run


@FORMS.of("sum_log")
def log_then_einsum(case: Case) -> Run:
    x, y = case.inputs
    logs = aligned_empty(y.shape)

    def run() -> Array:
        np.log(y, out=logs)
        return np.einsum("ij,ji->", x, logs)

    return run


@FORMS.of("cumulative_rows")
def running_sums(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    return lambda: np.cumsum(x, axis=1, out=o)


@FORMS.of("cumulative_sum")
def running_sum(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    return lambda: np.cumsum(x, out=o)


@FORMS.of("integral_image")
def two_running_sums(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs
    down = aligned_empty(x.shape)

    def run() -> Array:
        np.cumsum(x, axis=0, out=down)
        return np.cumsum(down, axis=1, out=o)

    return run


@FORMS.of("integral_image")
def running_sums_then_rows_added(case: Case) -> Run:
    (x,), (o,) = case.inputs, case.outputs

    def run() -> Array:
        np.cumsum(x, axis=1, out=o)
        for above, row in pairwise(o):
            np.add(above, row, out=row)
        return o

    return run


def places(keys: Array) -> Array:
    """Keys of the type that numpy indexes with, made before a run: it would copy others."""
    return copied(keys.astype(np.intp))


@FORMS.of("histogram")
def counted(case: Case) -> Run:
    keys, k = places(case.inputs[0]), case.kernel.rows
    return lambda: np.bincount(keys, minlength=k)


@FORMS.of("scatter")
def counted_by_weights(case: Case) -> Run:
    keys, x, k = places(case.inputs[0]), case.inputs[1], case.kernel.rows
    return lambda: np.bincount(keys, x, minlength=k)


@FORMS.of("scatter", "scatter_rows", "embedding_backward")
def added_at(case: Case) -> Run:
    keys, x, (h,) = places(case.inputs[0]), case.inputs[1], case.outputs

    def run() -> Array:
        h.fill(0)
        np.add.at(h, keys, x)
        return h

    return run


@FORMS.of("csr_matrix")
def sparse_product(case: Case) -> Run:
    row, col, v, b = case.inputs
    matrix = scipy.sparse.csr_array((v, col, row), shape=(len(row) - 1, len(b)))
    return lambda: matrix @ b


@FORMS.of("segment_softmax", "segment_softmax_sorted")
def extremes_and_sums_at(case: Case) -> Run:
    keys, s, (o,) = places(case.inputs[0]), case.inputs[1], case.outputs
    m, z = aligned_empty((case.kernel.rows,)), aligned_empty((case.kernel.rows,))

    def run() -> Array:
        m.fill(-np.inf)
        np.maximum.at(m, keys, s)
        np.exp(np.subtract(s, m[keys], out=o), out=o)
        z.fill(0)
        np.add.at(z, keys, o)
        return np.divide(o, z[keys], out=o)

    return run


@FORMS.of("greatest")
def place_then_value(case: Case) -> Run:
    (x,), (m, at) = case.inputs, case.outputs
    rows, found = np.arange(len(x)), np.empty(len(x), np.intp)

    def run() -> tuple[Array, ...]:
        np.argmax(x, axis=1, out=found)
        np.copyto(m, x[rows, found])
        np.copyto(at, found, casting="same_kind")
        return m, at

    return run


@FORMS.of("lower_product")
def triangle_by_blas(case: Case) -> Run:
    """In the order of Fortran, the lower half of the matrix is the upper half of its transpose."""
    (a, x), (y,) = case.inputs, case.outputs

    def run() -> Array:
        np.copyto(y, x)
        return blas.strmv(a.T, y, trans=1, overwrite_x=1)

    return run


@FORMS.of("lower_product")
def triangle_by_blocks(case: Case) -> Run:
    (a, x), (y,) = case.inputs, case.outputs

    def run() -> Array:
        for begin in range(0, len(x), 128):
            rows, end = slice(begin, begin + 128), min(begin + 128, len(x))
            np.matmul(a[rows, :begin], x[:begin], out=y[rows])
            np.add(y[rows], np.tril(a[rows, begin:end]) @ x[rows], out=y[rows])
        return y

    return run


@FORMS.of("syrk_lower")
def half_by_blas(case: Case) -> Run:
    """Blas writes one half; the zeros of the other are a part of the result."""
    (a,), (c,) = case.inputs, case.outputs

    def run() -> Array:
        c.fill(0)
        return blas.ssyrk(1.0, a.T, c=c.T, trans=1, overwrite_c=1).T

    return run


@FORMS.of("syrk_lower")
def product_cut(case: Case) -> Run:
    """numpy itself calls syrk for a matrix and its transpose."""
    (a,), (c,) = case.inputs, case.outputs

    def run() -> Array:
        np.matmul(a, a.T, out=c)
        return np.tril(c)

    return run
