"""Halide's convolutions, pooling and tables of embeddings."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Case
from bench.peers.halide_language import (
    LANES,
    Algorithm,
    Tiles,
    algorithm,
    defined,
    domain,
    element,
    fitting,
    image,
    summed,
    variables,
)

FILTERS, PIXELS = 1, 0
"""What stands in the lanes of a convolution's tile: filters of packed weights, or a row's pixels.
A tile is lanes, filters, width, height."""


def convolution(case: Case, source: Any, bias: Any = None, wide: Any = None) -> Algorithm:
    """`source[x, y, c, g..., n]` convolved, computed from `wide` where that is a padded copy."""
    weights = image(case.inputs[1])
    x, y, f, n, u, v, c = variables("x y f n u v c")
    g = variables("g") if weights.dimensions() == 5 else []
    taps = domain(3, 3, case.inputs[1].shape[-3])
    packed = defined("packed", [f, u, v, c, *g], element(weights, u, v, c, f, *g))
    read = element(source, x + taps.x, y + taps.y, taps.z, *g, n)
    weight = element(packed, f, taps.x, taps.y, taps.z, *g)
    total = summed("total", [f, x, y, *g, n], read * weight)
    start = element(bias, f, *g) if bias is not None else hl.f32(0)
    value = element(total, f, x, y, *g, n) + start
    out = defined("out", [x, y, f, *g, n], value)
    across, down, among = reversed(case.outputs[0].shape[-3:])

    def schedule(lanes_of: int, filters: int, width: int, height: int) -> None:
        xo, yo, fo, xi, yi, fi, task = variables("xo yo fo xi yi fi task")
        filters = fitting(filters, among)
        width = min(width, across) if lanes_of == FILTERS else fitting(width, across)
        out.split(x, xo, xi, width).split(y, yo, yi, min(height, down)).split(f, fo, fi, filters)
        out.reorder(xi, yi, fi, xo, fo, yo, *g, n).fuse(g[0] if g else yo, n, task).parallel(task)
        lane, size = (f, filters) if lanes_of == FILTERS else (x, width)
        lanes = fitting(LANES, size)
        if lanes_of == FILTERS:
            out.vectorize(xi).unroll(yi)
        else:
            out.vectorize(xi, lanes).unroll(xi).unroll(yi).unroll(fi)
        rest = [w for w in (f, x, y) if w.name() != lane.name()]
        total.compute_at(out, xo).reorder_storage(lane, *rest, *g, n)
        total.reorder(lane, *rest).vectorize(lane, lanes).unroll(lane)
        update = total.update().reorder(lane, *rest, *total.rvars(0))
        update.vectorize(lane, lanes).unroll(lane)
        for var in rest:
            total.unroll(var)
            update.unroll(var)
        packed.compute_root().vectorize(f, fitting(LANES, among))
        if wide is not None:
            wide.compute_at(out, task).vectorize(wide.args()[0], LANES)

    return Algorithm([out], schedule)


CONV: Tiles = ((FILTERS, 32, 8, 1),)
MORE_CONV: Tiles = (
    (FILTERS, 64, 6, 1),
    (FILTERS, 32, 6, 2),
    (FILTERS, 64, 7, 1),
    (PIXELS, 4, 32, 2),
)


@algorithm("conv2d", tiles=CONV, more=MORE_CONV)
def conv(case: Case) -> Algorithm:
    return convolution(case, image(case.inputs[0]))


@algorithm("conv2d_pad", tiles=CONV, more=MORE_CONV)
def conv_pad(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    x, y, c, n = variables("x y c n")
    edged = hl.BoundaryConditions.constant_exterior(source, hl.f32(0))
    wide = defined("wide", [x, y, c, n], edged[x - 1, y - 1, c, n])
    return convolution(case, wide, wide=wide)


@algorithm(
    "gconv",
    tiles=((FILTERS, 16, 4, 6), (PIXELS, 8, 16, 2)),
    more=(
        (FILTERS, 16, 12, 2),
        (FILTERS, 16, 5, 5),
        (FILTERS, 32, 5, 2),
        (FILTERS, 8, 13, 2),
        (PIXELS, 4, 32, 2),
    ),
)
def grouped(case: Case) -> Algorithm:
    return convolution(case, image(case.inputs[0]), image(case.inputs[2]))


@algorithm("maxpool", tiles=((1,),), more=((2,),))
def pooled(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    x, y, c, n, task = variables("x y c n task")
    left = hl.max(source[2 * x, 2 * y, c, n], source[2 * x, 2 * y + 1, c, n])
    right = hl.max(source[2 * x + 1, 2 * y, c, n], source[2 * x + 1, 2 * y + 1, c, n])
    out = defined("out", [x, y, c, n], hl.max(left, right))

    def schedule(rows: int) -> None:
        planes, channels, height, width = case.outputs[0].shape
        out.vectorize(x, fitting(LANES, width)).unroll(y, fitting(rows, height))
        out.fuse(c, n, task).parallel(task, fitting(16, planes * channels))

    return Algorithm([out], schedule)


@algorithm("lut1", "lut2", tiles=((4,),), more=((16,),))
def rows_summed(case: Case) -> Algorithm:
    outputs, steps = [], []
    for number, (table, chosen) in enumerate(zip(case.inputs[::2], case.inputs[1::2], strict=True)):
        values, rows = image(table), image(chosen)
        d, b = variables("d b")
        r = domain(chosen.shape[1])
        row = hl.unsafe_promise_clamped(rows[r.x, b], 0, len(table) - 1)
        total = summed(f"total{number}", [d, b], values[d, row])
        out = defined(f"out{number}", [d, b], total[d, b])
        outputs.append(out)
        steps.append((out, total, d, b, fitting(64, table.shape[1])))

    def schedule(bags: int) -> None:
        for out, total, d, b, columns in steps:
            do, di = variables("do di")
            lanes = fitting(LANES, columns)
            out.compute_root().split(d, do, di, columns).vectorize(di, lanes).unroll(di)
            out.parallel(b, fitting(bags, len(case.outputs[0])))
            total.compute_at(out, do).vectorize(d, lanes).unroll(d)
            update = total.update().reorder(d, *total.rvars(0))
            update.vectorize(d, lanes).unroll(d)

    return Algorithm(outputs, schedule)
