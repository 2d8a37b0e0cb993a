"""Halide's sums of products: an algorithm each, and a register tile by hand."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Case, copied
from bench.peers.halide_language import (
    LANES,
    Algorithm,
    Tiles,
    algorithm,
    defined,
    domain,
    fitting,
    image,
    summed,
    variables,
)

ROWS: Tiles = ((8, 2),)
MORE_ROWS: Tiles = ((12, 2), (6, 4), (4, 4))
TURNED: Tiles = ((8, 2, 1),)
MORE_TURNED: Tiles = ((8, 2, 0), (12, 2, 1), (6, 4, 0))
"""Rows and vectors of the register tile; with the last number 1, panels are copied from
contiguous vectors to strided ones."""


def tile_product(
    out: Any,
    total: Any,
    extents: tuple[int, int],
    tile: tuple[int, ...],
    packed: Any = None,
    depth: int = 0,
) -> Any:
    """A register tile of rows and vectors for `out[j, i, ...]`, its sums in `total`, parallel
    over what is outermost; `packed[j, k]`, of that depth, is copied once per panel of columns.
    Returns the loop over panels."""
    (j, i, *outer), (width, height), (rows, vectors) = out.args(), extents, tile[:2]
    columns, rows = fitting(vectors * LANES, width), min(rows, height)
    lanes = min(LANES, columns)
    jo, io, ji, ii, ko, ki = variables("jo io ji ii ko ki")
    out.split(j, jo, ji, columns).split(i, io, ii, rows)
    out.reorder(ji, ii, io, jo, *outer).vectorize(ji, lanes).unroll(ji).unroll(ii)
    out.parallel(outer[-1] if outer else jo)
    tj, ti = total.args()[:2]
    total.compute_at(out, io).vectorize(tj, lanes).unroll(tj).unroll(ti)
    update = total.update()
    update.reorder(tj, ti, *total.rvars(0)).vectorize(tj, lanes).unroll(tj).unroll(ti)
    if packed is not None:
        pj, pk = packed.args()
        packed.compute_at(out, jo)
        if tile[2:] == (1,):
            packed.split(pk, ko, ki, fitting(LANES, depth)).reorder(ki, pj, ko)
            packed.vectorize(ki).unroll(pj)
        else:
            packed.vectorize(pj, lanes).unroll(pj)
    return jo


@algorithm("tmm", tiles=TURNED, more=MORE_TURNED)
def product(case: Case) -> Algorithm:
    a, b = map(image, case.inputs)
    (m, depth), n = case.inputs[0].shape, len(case.inputs[1])
    j, i, q = variables("j i q")
    r = domain(depth)
    packed = defined("packed", [j, q], b[q, j])
    total = summed("total", [j, i], a[r.x, i] * packed[j, r.x])
    out = defined("out", [j, i], total[j, i])
    return Algorithm([out], lambda *tile: tile_product(out, total, (n, m), tile, packed, depth))


@algorithm("tbmm", tiles=((13, 2),), more=((13, 1), (9, 2), (26, 1)))
def batched(case: Case) -> Algorithm:
    x, y = map(image, case.inputs)
    (_, n, m), k = case.inputs[0].shape, case.inputs[1].shape[1]
    j, i, b, q = variables("j i b q")
    r = domain(m)
    packed = defined("packed", [j, q, b], y[q, j, b])
    total = summed("total", [j, i, b], x[r.x, i, b] * packed[j, r.x, b])
    out = defined("out", [j, i, b], total[j, i, b])

    def schedule(*tile: int) -> None:
        tile_product(out, total, (k, n), tile)
        packed.compute_at(out, b).vectorize(j, fitting(LANES, k))

    return Algorithm([out], schedule)


@algorithm("bmm_rev", tiles=((12, 1),), more=((8, 2), (8, 4)))
def reversed_batch(case: Case) -> Algorithm:
    x, y = map(image, case.inputs)
    (m, k, batch), n = case.inputs[0].shape, len(case.inputs[1])
    j, i, b, q, bo, bi = variables("j i b q bo bi")
    r = domain(k)
    left = defined("left", [q, i, b], x[b, q, i])
    right = defined("right", [j, q, b], y[q, b, j])
    total = summed("total", [j, i, b], left[r.x, i, b] * right[j, r.x, b])
    out = defined("out", [j, i, b], total[j, i, b])

    def schedule(*tile: int) -> None:
        tile_product(out, total, (n, m), tile)
        lanes = fitting(LANES, batch)
        out.split(b, bo, bi, lanes).parallel(bo)
        left.compute_at(out, bo).reorder(b, q, i).vectorize(b, lanes)
        right.compute_at(out, bi).vectorize(j, fitting(LANES, n))

    return Algorithm([out], schedule)


@algorithm("outer_product", tiles=ROWS, more=MORE_ROWS)
def outer(case: Case) -> Algorithm:
    a, b = map(image, case.inputs)
    (_, q_, r_), t_ = case.inputs[0].shape, case.inputs[1].shape[2]
    t, q, s, p = variables("t q s p")
    r = domain(r_)
    total = summed("total", [t, q, s, p], a[r.x, q, p] * b[t, r.x, s])
    out = defined("out", [t, q, s, p], total[t, q, s, p])
    return Algorithm([out], lambda *tile: tile_product(out, total, (t_, q_), tile))


@algorithm("mttkrp", tiles=((8, 2),), more=((12, 2), (16, 1)))
def mttkrp(case: Case) -> Algorithm:
    a, b, c = map(image, case.inputs)
    (_, depth, length), rank = case.inputs[0].shape, case.inputs[1].shape[1]
    j, k, i = variables("j k i")
    r, s = domain(length), domain(depth)
    total = summed("total", [j, k, i], a[r.x, k, i] * c[j, r.x])
    inner = defined("inner", [j, k, i], total[j, k, i])
    result = summed("result", [j, i], inner[j, s.x, i] * b[j, s.x])
    out = defined("out", [j, i], result[j, i])

    def schedule(rows: int, vectors: int) -> None:
        lanes, columns = fitting(LANES, rank), fitting(vectors * LANES, rank)
        rows = fitting(rows, depth)
        jo, ko, ji, ki = variables("jo ko ji ki")
        panel, lane = variables("panel lane")
        out.split(j, panel, lane, lanes).vectorize(lane).parallel(i)
        result.compute_at(out, panel).vectorize(j, lanes)
        result.update().reorder(j, s.x).vectorize(j, lanes)
        inner.compute_at(out, i).split(j, jo, ji, columns).split(k, ko, ki, rows)
        inner.reorder(ji, ki, ko, jo).vectorize(ji, lanes).unroll(ji).unroll(ki)
        total.compute_at(inner, ko).vectorize(j, lanes).unroll(j).unroll(k)
        update = total.update().reorder(j, k, r.x)
        update.vectorize(j, lanes).unroll(j).unroll(k)

    return Algorithm([out], schedule)


@algorithm("l2diff", tiles=TURNED, more=MORE_TURNED)
def differences(case: Case) -> Algorithm:
    a, b = map(image, case.inputs)
    (m, depth), n = case.inputs[0].shape, len(case.inputs[1])
    j, i, q = variables("j i q")
    r = domain(depth)
    packed = defined("packed", [j, q], b[q, j])
    difference = a[r.x, i] - packed[j, r.x]
    total = summed("total", [j, i], difference * difference)
    out = defined("out", [j, i], total[j, i])
    return Algorithm([out], lambda *tile: tile_product(out, total, (n, m), tile, packed, depth))


@algorithm("l2gemm", tiles=TURNED, more=MORE_TURNED)
def expanded(case: Case) -> Algorithm:
    a, b = map(image, case.inputs)
    (m, depth), n = case.inputs[0].shape, len(case.inputs[1])
    j, i, q = variables("j i q")
    r = domain(depth)
    left = summed("left", [i], a[r.x, i] * a[r.x, i])
    packed = defined("packed", [j, q], b[q, j])
    right = summed("right", [j], packed[j, r.x] * packed[j, r.x])
    total = summed("total", [j, i], a[r.x, i] * packed[j, r.x])
    out = defined("out", [j, i], left[i] + right[j] - 2 * total[j, i])

    def schedule(*tile: int) -> None:
        jo = tile_product(out, total, (n, m), tile, packed, depth)
        lanes = fitting(LANES, n)
        right.compute_at(out, jo).vectorize(j, lanes)
        right.update().reorder(j, r.x).vectorize(j, lanes)
        left.compute_root().update().atomic().vectorize(r.x, fitting(LANES, depth))

    return Algorithm([out], schedule)


@algorithm("sgemm", tiles=ROWS, more=MORE_ROWS)
def product_added(case: Case) -> Algorithm:
    """Reads a copy of C: shifted tiles compute some elements twice."""
    alpha, beta = map(hl.f32, case.inputs[:2])
    a, b = map(image, case.inputs[2:])
    initial = copied(case.outputs[0])
    before = image(initial)
    (m, depth), n = case.inputs[2].shape, case.inputs[3].shape[1]
    j, i, q = variables("j i q")
    r = domain(depth)
    packed = defined("packed", [j, q], b[j, q])
    total = summed("total", [j, i], a[r.x, i] * packed[j, r.x])
    out = defined("out", [j, i], beta * before[j, i] + alpha * total[j, i])

    def schedule(*tile: int) -> None:
        tile_product(out, total, (n, m), tile, packed, depth)

    return Algorithm([out], schedule, kept=(initial,))


@algorithm("mlp1", "mlp3", tiles=TURNED, more=MORE_TURNED)
def layers(case: Case) -> Algorithm:
    x, *parameters = case.inputs
    source, rows = image(x), len(x)
    outputs, steps = [], []
    for number, (weights, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
        w, b = image(weights), image(bias)
        j, i, q = variables("j i q")
        r = domain(weights.shape[1])
        packed = defined(f"packed{number}", [j, q], w[q, j])
        total = summed(f"total{number}", [j, i], source[r.x, i] * packed[j, r.x])
        out = defined(f"out{number}", [j, i], hl.max(total[j, i] + b[j], hl.f32(0)))
        steps.append((out, total, (len(weights), rows), packed, weights.shape[1]))
        outputs.append(out)
        source = out

    def schedule(*tile: int) -> None:
        for out, total, extents, packed, depth in steps:
            out.compute_root()
            tile_product(out, total, extents, tile, packed, depth)

    return Algorithm(outputs, schedule)
