"""Halide's chains of stencils and of what is computed element by element, on images; schedules are
left to its auto-schedulers."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Case
from bench.peers.halide_language import Algorithm, algorithm, defined, image, variables


def _left(*_: int) -> None:
    """No schedule by hand."""


def _image_of(case: Case) -> tuple[Any, Any, Any]:
    """The input, and the variables of columns and rows."""
    x, y = variables("x y")
    return image(case.inputs[0]), x, y


def _gray(source: Any, x: Any, y: Any) -> Any:
    r, g, b = (source[x, y, c] for c in range(3))
    return defined("gray", [x, y], hl.f32(0.299) * r + hl.f32(0.587) * g + hl.f32(0.114) * b)


def _weighted(name: str, source: Any, at: tuple[Any, Any], weights: Any, step: Any) -> Any:
    """A sum of elements `step` apart, each by a weight."""
    x, y = at
    dx, dy = step
    terms = (hl.f32(w) * source[x + n * dx, y + n * dy] for n, w in enumerate(weights))
    return defined(name, [x, y], _sum(terms))


def _sum(terms: Any) -> Any:
    first, *others = terms
    for term in others:
        first = first + term
    return first


def _slopes(source: Any, x: Any, y: Any, scale: float) -> tuple[Any, Any]:
    """Sobel's differences along columns and rows."""

    def slope(name: str, dx: int, dy: int) -> Any:
        def difference(n: int) -> Any:  # across the direction, at the place n
            return source[x + 2 * dx + n * dy, y + 2 * dy + n * dx] - source[x + n * dy, y + n * dx]

        value = difference(0) + hl.f32(2) * difference(1) + difference(2)
        return defined(name, [x, y], value * hl.f32(scale))

    return slope("gx", 1, 0), slope("gy", 0, 1)


@algorithm("blur", tiles=())
def blur(case: Case) -> Algorithm:
    source, x, y = _image_of(case)
    h = _weighted("h", source, (x, y), [1 / 3] * 3, (1, 0))
    return Algorithm([_weighted("o", h, (x, y), [1 / 3] * 3, (0, 1))], _left)


@algorithm("unsharp", tiles=())
def unsharp(case: Case) -> Algorithm:
    source, x, y = _image_of(case)
    c = hl.Var("c")
    gray = _gray(source, x, y)
    weights = [0.06, 0.24, 0.4, 0.24, 0.06]
    v = _weighted("v", gray, (x, y), weights, (0, 1))
    h = _weighted("h", v, (x, y), weights, (1, 0))
    sharp = defined("sharp", [x, y], hl.f32(2) * gray[x + 2, y + 2] - h[x, y])
    ratio = defined("ratio", [x, y], sharp[x, y] / gray[x + 2, y + 2])
    return Algorithm([defined("o", [x, y, c], ratio[x, y] * source[x + 2, y + 2, c])], _left)


@algorithm("harris", tiles=())
def harris(case: Case) -> Algorithm:
    source, x, y = _image_of(case)
    gx, gy = _slopes(_gray(source, x, y), x, y, 1 / 12)
    products = (("xx", gx, gx), ("yy", gy, gy), ("xy", gx, gy))
    sums = []
    for name, one, other in products:
        product = defined(name, [x, y], one[x, y] * other[x, y])
        near = _sum(product[x + dx, y + dy] for dy in range(3) for dx in range(3))
        sums.append(defined(f"s{name}", [x, y], near))
    xx, yy, xy = sums
    det = defined("det", [x, y], xx[x, y] * yy[x, y] - xy[x, y] * xy[x, y])
    trace = defined("trace", [x, y], xx[x, y] + yy[x, y])
    value = det[x, y] - hl.f32(0.04) * trace[x, y] * trace[x, y]
    return Algorithm([defined("o", [x, y], value)], _left)


@algorithm("bilateral", tiles=())
def bilateral(case: Case) -> Algorithm:
    source, x, y = _image_of(case)

    def smoothed(name: str, of: Any, dx: int, dy: int) -> Any:
        places = [of[x + n * dx, y + n * dy] for n in range(5)]
        middle = places.pop(2)
        weights = []
        for n, (scale, place) in enumerate(zip([0.4, 0.8, 0.8, 0.4], places, strict=True)):
            apart = place - middle
            value = hl.f32(scale) * hl.exp(hl.f32(-8) * apart * apart)
            weights.append(defined(f"{name}{n}", [x, y], value)[x, y])
        total = middle + _sum(w * place for w, place in zip(weights, places, strict=True))
        return defined(name, [x, y], total / (hl.f32(1) + _sum(weights)))

    return Algorithm([smoothed("o", smoothed("h", source, 1, 0), 0, 1)], _left)


@algorithm("edges", tiles=())
def edges(case: Case) -> Algorithm:
    source, x, y = _image_of(case)
    weights = [0.25, 0.5, 0.25]
    v = _weighted("v", source, (x, y), weights, (0, 1))
    gx, gy = _slopes(_weighted("s", v, (x, y), weights, (1, 0)), x, y, 1.0)
    m = defined("m", [x, y], hl.sqrt(gx[x, y] * gx[x, y] + gy[x, y] * gy[x, y]))
    ax = defined("ax", [x, y], hl.abs(gx[x, y]))
    ay = defined("ay", [x, y], hl.abs(gy[x, y]))

    def larger(dx: int, dy: int) -> Any:
        """Of two neighbours on both sides."""
        return hl.max(m[x + 1 + dx, y + 1 + dy], m[x + 1 - dx, y + 1 - dy])

    one, other = ax[x + 1, y + 1], ay[x + 1, y + 1]
    is_falling = gx[x + 1, y + 1] * gy[x + 1, y + 1] > 0
    rest = defined("rest", [x, y], hl.select(is_falling, larger(1, 1), larger(1, -1)))
    limit = hl.f32(0.4142)
    steep = hl.select(one < limit * other, larger(0, 1), rest[x, y])
    around = defined("around", [x, y], hl.select(other < limit * one, larger(1, 0), steep))
    middle = m[x + 1, y + 1]
    value = hl.select(middle >= around[x, y], middle, hl.f32(0))
    return Algorithm([defined("o", [x, y], value)], _left)


@algorithm("detail", tiles=())
def detail(case: Case) -> Algorithm:
    source, x, y = _image_of(case)
    weights = [0.125, 0.375, 0.375, 0.125]
    a = _weighted("a", source, (x, y), weights, (0, 1))
    b = _weighted("b", a, (x, y), weights, (1, 0))
    c = _weighted("c", b, (x, y), weights, (0, 2))
    d = _weighted("d", c, (x, y), weights, (2, 0))
    fine = defined("fine", [x, y], source[x + 5, y + 5] - b[x + 3, y + 3])
    coarse = defined("coarse", [x, y], b[x + 3, y + 3] - d[x, y])

    def remapped(name: str, of: Any, gain: float, width: float) -> Any:
        near = hl.exp(hl.f32(-width) * of[x, y] * of[x, y])
        return defined(name, [x, y], of[x, y] * (hl.f32(1) + hl.f32(gain) * near))

    more, some = remapped("more", fine, 2, 40), remapped("some", coarse, 1, 10)
    return Algorithm([defined("o", [x, y], d[x, y] + some[x, y] + more[x, y])], _left)
