"""The programs of `bench.sac`: a text of SaC, the loops that one writes with numba, and numpy.

Texts that are examples are read from `examples/sac`. Sizes are drawn by a generator of a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

EXAMPLES = Path(__file__).parent.parent / "examples" / "sac"

Drawn = Callable[[np.random.Generator], tuple[Any, ...]]


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.sac").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Case:
    """A program: `inputs` draws sizes and values; `loops` is what numba compiles; `text_of_tc` the
    def that one writes in tc, where there is one."""

    name: str
    text: str
    entry: str
    inputs: Drawn
    loops: Callable[..., Any]
    with_numpy: Callable[..., Any]
    text_of_tc: str | None = None


def floats(rng: np.random.Generator, *shape: int) -> Any:
    return rng.random(shape, np.float32)


def doubles(rng: np.random.Generator, *shape: int) -> Any:
    return rng.random(shape)


def between(rng: np.random.Generator, low: int, high: int, count: int = 1) -> list[int]:
    return [int(n) for n in rng.integers(low, high, count)]


def rolled(a: Any, *shift: int) -> Any:
    return np.roll(a, shift, tuple(range(a.ndim)))


NEIGHBOURS = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]

# --- loops ----------------------------------------------------------------------------------------


@numba.njit
def relaxation(a):  # type: ignore[no-untyped-def]
    n, m = a.shape
    result = a.copy()
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            total = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
            result[i, j] = total * np.float32(0.25)
    return result


@numba.njit
def torus(v, u):  # type: ignore[no-untyped-def]
    n, m, o = u.shape
    result = np.empty_like(u)
    w = (-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0)
    for i in range(n):
        for j in range(m):
            for k in range(o):
                total = 0.0
                for a in range(-1, 2):
                    for b in range(-1, 2):
                        for c in range(-1, 2):
                            x = u[(i + a) % n, (j + b) % m, (k + c) % o]
                            total += w[abs(a) + abs(b) + abs(c)] * x
                result[i, j, k] = v[i, j, k] - total
    return result


@numba.njit
def restriction(r):  # type: ignore[no-untyped-def]
    n, m, o = r.shape
    result = np.empty((n // 2, m // 2, o // 2))
    w = (0.5, 0.25, 0.125, 0.0625)
    for i in range(n // 2):
        for j in range(m // 2):
            for k in range(o // 2):
                total = 0.0
                for a in range(3):
                    for b in range(3):
                        for c in range(3):
                            x = r[(2 * i + a) % n, (2 * j + b) % m, (2 * k + c) % o]
                            total += w[abs(a - 1) + abs(b - 1) + abs(c - 1)] * x
                result[i, j, k] = total
    return result


@numba.njit
def prolongation(u, z):  # type: ignore[no-untyped-def]
    n, m, o = z.shape
    result = np.empty_like(u)
    for i in range(2 * n):
        for j in range(2 * m):
            for k in range(2 * o):
                total = 0.0
                for a in range(2):
                    for b in range(2):
                        for c in range(2):
                            x = (i + a - 1) // 2 % n
                            total += z[x, (j + b - 1) // 2 % m, (k + c - 1) // 2 % o]
                result[i, j, k] = u[i, j, k] + 0.125 * total
    return result


@numba.njit
def conv1(x, w):  # type: ignore[no-untyped-def]
    result = np.empty(x.shape[0] - w.shape[0] + 1, np.float32)
    for i in range(result.shape[0]):
        total = np.float32(0)
        for a in range(w.shape[0]):
            total += x[i + a] * w[a]
        result[i] = total
    return result


@numba.njit
def conv2(x, w):  # type: ignore[no-untyped-def]
    n, m = x.shape[0] - w.shape[0] + 1, x.shape[1] - w.shape[1] + 1
    result = np.empty((n, m), np.float32)
    for i in range(n):
        for j in range(m):
            total = np.float32(0)
            for a in range(w.shape[0]):
                for b in range(w.shape[1]):
                    total += x[i + a, j + b] * w[a, b]
            result[i, j] = total
    return result


@numba.njit
def conv3(x, w):  # type: ignore[no-untyped-def]
    n, m = x.shape[0] - w.shape[0] + 1, x.shape[1] - w.shape[1] + 1
    o = x.shape[2] - w.shape[2] + 1
    result = np.empty((n, m, o), np.float32)
    for i in range(n):
        for j in range(m):
            for k in range(o):
                total = np.float32(0)
                for a in range(w.shape[0]):
                    for b in range(w.shape[1]):
                        for c in range(w.shape[2]):
                            total += x[i + a, j + b, k + c] * w[a, b, c]
                result[i, j, k] = total
    return result


@numba.njit
def life(a, born, least):  # type: ignore[no-untyped-def]
    n, m = a.shape
    result = np.empty_like(a)
    for i in range(n):
        for j in range(m):
            count = -a[i, j]
            for x in range(-1, 2):
                for y in range(-1, 2):
                    count += a[(i + x) % n, (j + y) % m]
            alive = count == born or (a[i, j] == 1 and least <= count <= born)
            result[i, j] = 1 if alive else 0
    return result


@numba.njit
def bodies(p, v, m, dt):  # type: ignore[no-untyped-def]
    n = p.shape[0]
    moved, u = np.empty_like(p), np.empty_like(v)
    for i in range(n):
        x = y = z = 0.0
        for j in range(n):
            a, b, c = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
            f = m[j] / (a * a + b * b + c * c + 0.5) ** 1.5
            x, y, z = x + a * f, y + b * f, z + c * f
        u[i, 0], u[i, 1], u[i, 2] = v[i, 0] + x * dt, v[i, 1] + y * dt, v[i, 2] + z * dt
        for k in range(3):
            moved[i, k] = p[i, k] + u[i, k] * dt
    return moved, u


@numba.njit
def blur(image, w):  # type: ignore[no-untyped-def]
    n, m = image.shape
    radius = w.shape[0] // 2
    part, result = np.empty_like(image), np.empty_like(image)
    for i in range(n):
        for j in range(m):
            total = np.float32(0)
            for k in range(w.shape[0]):
                at = abs(i + k - radius)
                total += w[k] * image[min(at, 2 * n - 2 - at), j]
            part[i, j] = total
    for i in range(n):
        for j in range(m):
            total = np.float32(0)
            for k in range(w.shape[0]):
                at = abs(j + k - radius)
                total += w[k] * part[i, min(at, 2 * m - 2 - at)]
            result[i, j] = total
    return result


@numba.njit
def padding(a):  # type: ignore[no-untyped-def]
    n, m = a.shape
    result = np.zeros((n + 2, m + 2), np.float32)
    for i in range(n):
        for j in range(m):
            result[i + 1, j + 1] = a[i, j]
    return result


@numba.njit
def product(a, b):  # type: ignore[no-untyped-def]
    result = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                result[i, j] += a[i, k] * b[k, j]
    return result


@numba.njit
def softmax(x):  # type: ignore[no-untyped-def]
    n, m = x.shape
    result = np.empty_like(x)
    for i in range(n):
        greatest = x[i, 0]
        for j in range(m):
            greatest = max(greatest, x[i, j])
        total = np.float32(0)
        for j in range(m):
            result[i, j] = np.exp(x[i, j] - greatest)
            total += result[i, j]
        for j in range(m):
            result[i, j] /= total
    return result


@numba.njit
def attention(q, keys, values):  # type: ignore[no-untyped-def]
    n, d = keys.shape
    result = np.zeros((q.shape[0], q.shape[1], values.shape[1]), np.float32)
    row = np.empty(n, np.float32)
    for b in range(q.shape[0]):
        for i in range(q.shape[1]):
            greatest = np.float32(-np.inf)
            for j in range(n):
                total = np.float32(0)
                for k in range(d):
                    total += q[b, i, k] * keys[j, k]
                row[j] = total
                greatest = max(greatest, total)
            total = np.float32(0)
            for j in range(n):
                row[j] = np.exp(row[j] - greatest)
                total += row[j]
            for j in range(n):
                weight = row[j] / total
                for k in range(values.shape[1]):
                    result[b, i, k] += weight * values[j, k]
    return result


# --- numpy ----------------------------------------------------------------------------------------


def numpy_relaxation(a: Any) -> Any:
    result = a.copy()
    inner = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    result[1:-1, 1:-1] = inner * np.float32(0.25)
    return result


def numpy_stencil(x: Any, w: tuple[float, ...]) -> Any:
    total = np.zeros_like(x)
    for shift in NEIGHBOURS:
        if weight := w[sum(map(abs, shift))]:
            total += weight * rolled(x, *shift)
    return total


def numpy_torus(v: Any, u: Any) -> Any:
    return v - numpy_stencil(u, (-8 / 3, 0, 1 / 6, 1 / 12))


def numpy_restriction(r: Any) -> Any:
    return numpy_stencil(r, (0.5, 0.25, 0.125, 0.0625))[1::2, 1::2, 1::2].copy()


def numpy_prolongation(u: Any, z: Any) -> Any:
    fine = np.zeros_like(u)
    fine[1::2, 1::2, 1::2] = z
    return u + numpy_stencil(fine, (1, 0.5, 0.25, 0.125))


def numpy_conv(x: Any, w: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    return np.tensordot(windows, w, w.ndim)


def numpy_life(a: Any, born: int, least: int) -> Any:
    n = sum(rolled(a, i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)) - a
    return ((n == born) | ((a == 1) & (least <= n) & (n <= born))).astype(np.int32)


def numpy_bodies(p: Any, v: Any, m: Any, dt: float) -> Any:
    r = p[None, :] - p[:, None]
    u = v + np.einsum("ijk,ij->ik", r, m / ((r * r).sum(axis=2) + 0.5) ** 1.5) * dt
    return p + u * dt, u


def numpy_blur(image: Any, w: Any) -> Any:
    radius, (n, m) = len(w) // 2, image.shape
    wide = np.pad(image, ((radius, radius), (0, 0)), mode="reflect")
    image = sum(weight * wide[k : k + n] for k, weight in enumerate(w))
    wide = np.pad(image, ((0, 0), (radius, radius)), mode="reflect")
    return sum(weight * wide[:, k : k + m] for k, weight in enumerate(w))


def numpy_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numpy_attention(q: Any, keys: Any, values: Any) -> Any:
    return numpy_softmax(q @ keys.T) @ values


# --- programs -------------------------------------------------------------------------------------

CONV = (
    "float[*] conv(float[*] x, float[*] w)\n"
    "{ return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }; }"
)
PADDING = (
    "float[*] padded(float[*] a)\n"
    "{ return { iv -> a[iv-1] | 0*shape(a)+1 <= iv < shape(a)+1; iv -> 0.0 | iv < shape(a)+2 }; }"
)
PRODUCT = (
    "float[*] product(float[.,.] a, float[.,.] b)\n{ return { [i,j] -> sum(a[i,.] * b[.,j]) }; }"
)
RELAXATION_OF_TC = """
def relaxation(float(N,M) a) -> (o) {
  o(i,j) = 1 <= i && i < N - 1 && 1 <= j && j < M - 1
    ? pad((a(i-1,j) + a(i+1,j) + a(i,j-1) + a(i,j+1)) / 4.0, 0) : a(i,j)
}"""
SOFTMAX_OF_TC = """
def softmax(float(N,M) x) -> (o) {
  m(i) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(i))
  s(i) +=! e(i,j)
  o(i,j) = e(i,j) / s(i)
}"""
ATTENTION_OF_TC = """
def attention(float(B,M,K) q, float(N,K) k, float(N,E) v) -> (o) {
  x(b,i,j) +=! q(b,i,c) * k(j,c)
  m(b,i) max=! x(b,i,j)
  e(b,i,j) = exp(x(b,i,j) - m(b,i))
  s(b,i) +=! e(b,i,j)
  a(b,i,j) = e(b,i,j) / s(b,i)
  o(b,i,c) +=! a(b,i,j) * v(j,c)
}"""


def cube(rng: np.random.Generator) -> list[int]:
    return [2 * n for n in between(rng, 16, 56, 3)]


def pair_of_grids(rng: np.random.Generator) -> tuple[Any, ...]:
    shape = cube(rng)
    return doubles(rng, *shape), doubles(rng, *(n // 2 for n in shape))


def two_cubes(rng: np.random.Generator) -> tuple[Any, ...]:
    shape = cube(rng)
    return doubles(rng, *shape), doubles(rng, *shape)


def some_bodies(rng: np.random.Generator) -> tuple[Any, ...]:
    (n,) = between(rng, 200, 1500)
    return doubles(rng, n, 3), doubles(rng, n, 3), doubles(rng, n), 0.01


def some_attention(rng: np.random.Generator) -> tuple[Any, ...]:
    b, m, n, d = (*between(rng, 1, 8), *between(rng, 16, 128), *between(rng, 64, 1024), 64)
    return floats(rng, b, m, d), floats(rng, n, d), floats(rng, n, d)


def two_factors(rng: np.random.Generator) -> tuple[Any, ...]:
    m, k, n = between(rng, 64, 600, 3)
    return floats(rng, m, k), floats(rng, k, n)


CASES = [
    Case("relaxation", example("relaxation"), "relaxation",
         lambda rng: (floats(rng, *between(rng, 200, 1500, 2)),), relaxation, numpy_relaxation,
         RELAXATION_OF_TC),
    Case("torus, 27 points", example("multigrid"), "residual", two_cubes, torus, numpy_torus),
    Case("convolution, rank 1", CONV, "conv",
         lambda rng: (floats(rng, *between(rng, 10_000, 300_000)),
                      floats(rng, *between(rng, 3, 64))),
         conv1, numpy_conv, "def conv(float(N) x, float(K) w) -> (o) { o(i) +=! x(i+a) * w(a) }"),
    Case("convolution, rank 2", CONV, "conv",
         lambda rng: (floats(rng, *between(rng, 100, 800, 2)), floats(rng, *between(rng, 2, 9, 2))),
         conv2, numpy_conv,
         "def conv(float(N,M) x, float(K,L) w) -> (o) { o(i,j) +=! x(i+a,j+b) * w(a,b) }"),
    Case("convolution, rank 3", CONV, "conv",
         lambda rng: (floats(rng, *between(rng, 20, 90, 3)), floats(rng, *between(rng, 2, 5, 3))),
         conv3, numpy_conv,
         "def conv(float(N,M,L) x, float(A,B,C) w) -> (o) "
         "{ o(i,j,k) +=! x(i+a,j+b,k+c) * w(a,b,c) }"),
    Case("life", example("life"), "life",
         lambda rng: (rng.integers(0, 2, between(rng, 100, 1000, 2), np.int32), 3, 2),
         life, numpy_life),
    Case("bodies", example("bodies"), "step", some_bodies, bodies, numpy_bodies),
    Case("blur", example("blur"), "blur",
         lambda rng: (floats(rng, *between(rng, 100, 1000, 2)),
                      floats(rng, 2 * between(rng, 1, 6)[0] + 1)), blur, numpy_blur),
    Case("padding", PADDING, "padded", lambda rng: (floats(rng, *between(rng, 200, 1500, 2)),),
         padding, lambda a: np.pad(a, 1)),
    Case("restriction", example("multigrid"), "coarser", lambda rng: two_cubes(rng)[:1],
         restriction, numpy_restriction),
    Case("prolongation", example("multigrid"), "corrected", pair_of_grids, prolongation,
         numpy_prolongation),
    Case("matrix product, dots", PRODUCT, "product", two_factors, product, np.matmul,
         "def mm(float(M,K) a, float(K,N) b) -> (o) { o(i,j) +=! a(i,k) * b(k,j) }"),
    Case("softmax", example("attention"), "softmax",
         lambda rng: (floats(rng, *between(rng, 50, 1500, 2)),), softmax, numpy_softmax,
         SOFTMAX_OF_TC),
    Case("attention", example("attention"), "attention", some_attention, attention,
         numpy_attention, ATTENTION_OF_TC),
]  # fmt: skip
