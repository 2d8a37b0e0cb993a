"""What Halide algorithms are made of, and the table of them by family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Array, Case

LANES = hl.get_host_target().natural_vector_size(hl.Float(32))
Tiles = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Algorithm:
    """Output functions, what schedules them for a tile, the output arrays where their shapes
    differ from the case's, and arrays of its own: Halide's buffers do not keep them."""

    outputs: list[Any]
    schedule: Callable[..., None]
    arrays: tuple[Array, ...] = ()
    kept: tuple[Array, ...] = ()


Builder = Callable[[Case], Algorithm]


@dataclass(frozen=True)
class Entry:
    """A builder, the tiles of its schedule by hand, and those for a search."""

    build: Builder
    tiles: Tiles
    more: Tiles


TABLE: dict[str, Entry] = {}


def algorithm(*families: str, tiles: Tiles, more: Tiles = ()) -> Callable[[Builder], Builder]:
    def add(build: Builder) -> Builder:
        TABLE.update(dict.fromkeys(families, Entry(build, tiles, more)))
        return build

    return add


def image(array: Array) -> Any:
    """A parameter bound to the array; its dimensions count from the innermost."""
    kind = hl.Float(32) if array.dtype.kind == "f" else hl.Int(32)
    parameter = hl.ImageParam(kind, array.ndim)
    parameter.set_host_alignment(64)
    step = 1
    for dimension, extent in enumerate(reversed(array.shape)):
        parameter.dim(dimension).set_bounds(0, extent).set_stride(step)
        parameter.dim(dimension).set_estimate(0, extent)
        step *= extent
    parameter.set(hl.Buffer(array))
    return parameter


def variables(names: str) -> list[Any]:
    return [hl.Var(name) for name in names.split()]


def domain(*extents: int) -> Any:
    return hl.RDom([(0, extent) for extent in extents])


def summed(name: str, dims: list[Any], term: Any, start: Any = None) -> Any:
    """A Func over the dims with one update, which adds the term over its reduction domain."""
    total = hl.Func(name)
    total[tuple(dims)] = hl.f32(0) if start is None else start
    total[tuple(dims)] += term
    return total


def defined(name: str, dims: list[Any], value: Any) -> Any:
    result = hl.Func(name)
    result[tuple(dims)] = value
    return result


def element(source: Any, *at: Any) -> Any:
    return source[at]


def fitting(wanted: int, extent: int) -> int:
    """The tile, halved until it fits.

    >>> fitting(32, 100), fitting(32, 26), fitting(32, 2)
    (32, 16, 2)
    """
    while wanted > extent:
        wanted //= 2
    return max(wanted, 1)


def row_reduced(func: Any, at: tuple[Any, Any], width: int) -> None:
    """Makes the last reduction of a Func over contiguous elements a vector one of `width` lanes;
    all is computed at a loop of a consumer."""
    consumer, loop = at
    u, inside, outside = hl.Var("u"), hl.RVar("inside"), hl.RVar("outside")
    contiguous, *others = func.rvars(0)
    func.compute_at(consumer, loop)
    lanes = min(LANES, width)
    split = func.update().split(contiguous, outside, inside, width)
    partial = split.rfactor([(inside, u)])
    partial.compute_at(consumer, loop).vectorize(u, lanes).unroll(u)
    update = partial.update().reorder(u, outside, *others)
    update.vectorize(u, lanes).unroll(u)
