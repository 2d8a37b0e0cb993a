"""Halide's normalisations, transpositions, and the sum over transposed data."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Case
from bench.peers.halide_language import (
    LANES,
    Algorithm,
    algorithm,
    defined,
    domain,
    element,
    fitting,
    image,
    row_reduced,
    summed,
    variables,
)


@algorithm("softmax", tiles=((64,),), more=((32,),))
def softmax(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    d, n = variables("d n")
    r = domain(case.inputs[0].shape[1])
    top = hl.Func("top")
    top[n] = hl.f32(-3e38)
    top[n] = hl.max(top[n], source[r.x, n])
    power = defined("power", [d, n], hl.exp(source[d, n] - top[n]))
    total = summed("total", [n], power[r.x, n])
    scale = defined("scale", [n], hl.f32(1) / total[n])
    out = defined("out", [d, n], power[d, n] * scale[n])

    def schedule(width: int) -> None:
        out.parallel(n, fitting(4, len(case.outputs[0]))).vectorize(d, LANES)
        power.compute_at(out, n).vectorize(d, LANES)
        scale.compute_at(out, n)
        row_reduced(top, (out, n), width)
        row_reduced(total, (out, n), width)

    return Algorithm([out], schedule)


def spread(source: Any, mean: Any, r: Any) -> Any:
    """The sum of squared distances from the mean; the last dimension is the row."""
    (n,) = mean.args()
    distance = element(source, *(r[i] for i in range(r.dimensions())), n) - mean[n]
    return summed("spread", [n], distance * distance)


@algorithm("layernorm", tiles=((64,),), more=((32,),))
def layernorm(case: Case) -> Algorithm:
    source, gamma, beta = map(image, case.inputs[:3])
    count = case.inputs[0].shape[1]
    d, n = variables("d n")
    r = domain(count)
    total = summed("total", [n], source[r.x, n])
    mean = defined("mean", [n], total[n] / count)
    squares = spread(source, mean, r)
    scale = defined("scale", [n], hl.f32(1) / hl.sqrt(squares[n] / count + hl.f32(case.inputs[3])))
    value = (source[d, n] - mean[n]) * scale[n] * gamma[d] + beta[d]
    out = defined("out", [d, n], value)

    def schedule(width: int) -> None:
        out.parallel(n, fitting(16, len(case.outputs[0]))).vectorize(d, LANES)
        mean.compute_at(out, n)
        scale.compute_at(out, n)
        row_reduced(total, (out, n), width)
        row_reduced(squares, (out, n), width)

    return Algorithm([out], schedule)


@algorithm("groupnorm", tiles=((64,),), more=((32,),))
def groupnorm(case: Case) -> Algorithm:
    depth, plane = case.inputs[0].shape[2], case.inputs[0][0, 0, 0].size
    source = image(case.inputs[0].reshape(-1, depth, plane))
    gamma, beta = image(case.inputs[1].reshape(-1)), image(case.inputs[2].reshape(-1))
    groups, count = case.inputs[0].shape[1], depth * plane
    p, d, m = variables("p d m")
    r = domain(plane, depth)
    total = summed("total", [m], source[r.x, r.y, m])
    mean = defined("mean", [m], total[m] / count)
    squares = spread(source, mean, r)
    scale = defined("scale", [m], hl.f32(1) / hl.sqrt(squares[m] / count + hl.f32(case.inputs[3])))
    channel = (m % groups) * depth + d
    value = (source[p, d, m] - mean[m]) * (scale[m] * gamma[channel]) + beta[channel]
    out = defined("out", [p, d, m], value)

    def schedule(width: int) -> None:
        out.parallel(m).vectorize(p, LANES)
        mean.compute_at(out, m)
        scale.compute_at(out, m)
        row_reduced(total, (out, m), width)
        row_reduced(squares, (out, m), width)

    return Algorithm([out], schedule, (case.outputs[0].reshape(-1, depth, plane),))


@algorithm("moments", tiles=((64,),), more=((128,),))
def moments(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    count = case.inputs[0].shape[1]
    (n,) = variables("n")
    r = domain(count)
    sums = hl.Func("sums")
    sums[n] = (hl.f32(0), hl.f32(0))
    value = source[r.x, n]
    sums[n] = (sums[n][0] + value, sums[n][1] + value * value)
    mean = sums[n][0] / count
    out = hl.Func("out")
    out[n] = (mean, sums[n][1] / count - mean * mean)

    def schedule(width: int) -> None:
        out.parallel(n, fitting(16, len(case.outputs[0])))
        row_reduced(sums, (out, n), width)

    return Algorithm([out], schedule)


@algorithm("transpose4d", tiles=((1,),), more=((4,),))
def swapped(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    d, b, c, a, task = variables("d b c a task")
    out = defined("out", [d, b, c, a], source[d, c, b, a])

    def schedule(rows: int) -> None:
        outer, planes, across, width = case.outputs[0].shape
        out.vectorize(d, fitting(LANES, width)).unroll(b, fitting(rows, across))
        out.fuse(c, a, task).parallel(task, fitting(16, outer * planes))

    return Algorithm([out], schedule)


@algorithm("to_channels_last", tiles=((16, 1),), more=((16, 0), (8, 1)))
def channels_moved(case: Case) -> Algorithm:
    source = image(case.inputs[0])
    c, w, h, n, task = variables("c w h n task")
    block = defined("block", [w, c, h, n], source[w, h, c, n])
    out = defined("out", [c, w, h, n], block[w, c, h, n])

    def schedule(size: int, staged: int) -> None:
        co, wo, ci, wi = variables("co wo ci wi")
        out.split(c, co, ci, size).split(w, wo, wi, size).reorder(ci, wi, co, wo)
        tasks = case.outputs[0].shape[0] * case.outputs[0].shape[1]
        out.vectorize(ci).unroll(wi).fuse(h, n, task).parallel(task, fitting(8, tasks))
        if staged:
            block.compute_at(out, co).vectorize(w, size).unroll(c)

    return Algorithm([out], schedule)


@algorithm("sum_log", tiles=((1,),), more=((0,),))
def sum_log(case: Case) -> Algorithm:
    x, y = map(image, case.inputs)
    m, n = case.inputs[0].shape
    i, j = variables("i j")
    logs = defined("logs", [i, j], hl.log(y[i, j]))
    r = domain(m, n)
    out = hl.Func("out")
    out[()] = hl.f32(0)
    out[()] += x[r.y, r.x] * logs[r.x, r.y]

    def schedule(transposed: int) -> None:
        lane, task = variables("lane task")
        inside, outside = hl.RVar("inside"), hl.RVar("outside")
        split = out.update().split(r.y, outside, inside, LANES)
        partial = split.rfactor([(inside, lane), (outside, task)])
        partial.compute_root().vectorize(lane).parallel(task)
        partial.update().reorder(lane, r.x, task).vectorize(lane).parallel(task)
        logs.compute_at(partial, task).vectorize(i, LANES)
        if transposed:
            logs.reorder_storage(j, i)

    return Algorithm([out], schedule)
