"""Losses and pointwise functions."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import F
from bench.broad_programs.program import ELEMENTS, FUNCTIONS, Program

ZERO = np.float32(0)
ONE = np.float32(1)
ROWS = {"N": (50, 5000), "D": (50, 5000)}


def squared_error(x, y):
    total = ZERO
    for n in prange(x.shape[0]):
        for d in range(x.shape[1]):
            difference = x[n, d] - y[n, d]
            total += difference * difference
    return np.float32(total / (x.shape[0] * x.shape[1]))


def huber(x, y):
    total = ZERO
    for n in prange(x.shape[0]):
        for d in range(x.shape[1]):
            difference = abs(x[n, d] - y[n, d])
            if difference < ONE:
                total += np.float32(0.5) * difference * difference
            else:
                total += difference - np.float32(0.5)
    return np.float32(total / (x.shape[0] * x.shape[1]))


def cross_entropy(x, t):
    total = ZERO
    for n in prange(x.shape[0]):
        most = x[n, 0]
        for c in range(x.shape[1]):
            most = max(most, x[n, c])
        whole = ZERO
        for c in range(x.shape[1]):
            whole += math.exp(x[n, c] - most)
        total += math.log(whole) + most - x[n, t[n]]
    return np.float32(total / x.shape[0])


def binary_entropy(x, y):
    total = ZERO
    for n in prange(x.shape[0]):
        for d in range(x.shape[1]):
            v = x[n, d]
            total += max(v, ZERO) - v * y[n, d] + math.log(ONE + math.exp(-abs(v)))
    return np.float32(total / (x.shape[0] * x.shape[1]))


def divergence(p, q):
    total = ZERO
    for n in prange(p.shape[0]):
        for d in range(p.shape[1]):
            total += p[n, d] * (math.log(p[n, d]) - math.log(q[n, d]))
    return np.float32(total / p.shape[0])


def cosine_loss(x, y):
    total = ZERO
    for n in prange(x.shape[0]):
        xy, xx, yy = ZERO, ZERO, ZERO
        for d in range(x.shape[1]):
            xy += x[n, d] * y[n, d]
            xx += x[n, d] * x[n, d]
            yy += y[n, d] * y[n, d]
        total += ONE - xy / math.sqrt(xx * yy)
    return np.float32(total / x.shape[0])


def triplet(a, p, q):
    total = ZERO
    for n in prange(a.shape[0]):
        near, far = ZERO, ZERO
        for d in range(a.shape[1]):
            near += (a[n, d] - p[n, d]) * (a[n, d] - p[n, d])
            far += (a[n, d] - q[n, d]) * (a[n, d] - q[n, d])
        total += max(near - far + ONE, ZERO)
    return np.float32(total / a.shape[0])


LOSSES = (
    Program(
        "losses", "squared error",
        "def f(float(N,D) X, float(N,D) Y) -> (o) "
        "{ s +=! (X(n,d) - Y(n,d)) * (X(n,d) - Y(n,d))  o = s / (N * D) }",
        ROWS, "N D", lambda x, y: F.mse_loss(x, y), squared_error, ELEMENTS,
    ),
    Program(
        "losses", "huber",
        """
        def f(float(N,D) X, float(N,D) Y) -> (o) {
          s +=! fabs(X(n,d) - Y(n,d)) < 1 ? 0.5 * (X(n,d) - Y(n,d)) * (X(n,d) - Y(n,d))
                                          : fabs(X(n,d) - Y(n,d)) - 0.5
          o = s / (N * D)
        }""",
        ROWS, "N D", lambda x, y: F.huber_loss(x, y), huber, ELEMENTS, ranges={"X": (-3, 3)},
    ),
    Program(
        "losses", "cross entropy",
        """
        def f(float(N,C) X, int(N) t) -> (o) {
          m(n) max=! X(n,c)
          z(n) +=! exp(X(n,c) - m(n))
          s +=! log(z(n)) + m(n) - X(n,t(n))
          o = s / N
        }""",
        {"N": (20, 20000), "C": (10, 20000)}, "N C",
        lambda x, t: F.cross_entropy(x, t.long()), cross_entropy, FUNCTIONS, selects={"t": "C"},
        values=(-4, 4),
    ),
    Program(
        "losses", "binary entropy",
        """
        def f(float(N,D) X, float(N,D) Y) -> (o) {
          s +=! max(X(n,d), 0) - X(n,d) * Y(n,d) + log(1 + exp(-fabs(X(n,d))))
          o = s / (N * D)
        }""",
        ROWS, "N D", lambda x, y: F.binary_cross_entropy_with_logits(x, y), binary_entropy,
        FUNCTIONS, ranges={"X": (-4, 4), "Y": (0, 1)},
    ),
    Program(
        "losses", "divergence",
        """
        def f(float(N,D) P, float(N,D) Q) -> (o) {
          s +=! P(n,d) * (log(P(n,d)) - log(Q(n,d)))
          o = s / N
        }""",
        ROWS, "N D", lambda p, q: (p * (p.log() - q.log())).sum() / len(p), divergence, FUNCTIONS,
        ranges={"P": (0.1, 1), "Q": (0.05, 0.5)},
    ),
    Program(
        "losses", "cosine",
        """
        def f(float(N,D) X, float(N,D) Y) -> (o) {
          xy(n) +=! X(n,d) * Y(n,d)
          xx(n) +=! X(n,d) * X(n,d)
          yy(n) +=! Y(n,d) * Y(n,d)
          s +=! 1 - xy(n) * rsqrt(xx(n) * yy(n))
          o = s / N
        }""",
        ROWS, "N D", lambda x, y: (1 - F.cosine_similarity(x, y)).mean(), cosine_loss, ELEMENTS,
    ),
    Program(
        "losses", "triplet",
        """
        def f(float(N,D) A, float(N,D) P, float(N,D) Q) -> (o) {
          near(n) +=! (A(n,d) - P(n,d)) * (A(n,d) - P(n,d))
          far(n) +=! (A(n,d) - Q(n,d)) * (A(n,d) - Q(n,d))
          s +=! max(near(n) - far(n) + 1, 0)
          o = s / N
        }""",
        ROWS, "N D",
        lambda a, p, q: ((a - p).square().sum(1) - (a - q).square().sum(1) + 1).clamp(min=0).mean(),
        triplet, ELEMENTS,
    ),
)  # fmt: skip


def gelu(x):
    o = np.empty_like(x)
    root = np.float32(math.sqrt(0.5))
    for n in prange(x.shape[0]):
        for d in range(x.shape[1]):
            v = x[n, d]
            o[n, d] = np.float32(0.5) * v * (ONE + math.erf(v * root))
    return o


def gate(x, y):
    o = np.empty_like(x)
    for n in prange(x.shape[0]):
        for d in range(x.shape[1]):
            o[n, d] = x[n, d] / (ONE + math.exp(-x[n, d])) * y[n, d]
    return o


def adam(w, g, m, v):
    nw, nm, nv = np.empty_like(w), np.empty_like(w), np.empty_like(w)
    keep, square = np.float32(0.9), np.float32(0.99)
    for n in prange(w.shape[0]):
        nm[n] = keep * m[n] + (ONE - keep) * g[n]
        nv[n] = square * v[n] + (ONE - square) * g[n] * g[n]
        nw[n] = w[n] - np.float32(0.01) * nm[n] / (math.sqrt(nv[n]) + np.float32(1e-6))
    return nw, nm, nv


def torch_adam(w, g, m, v):
    nm = 0.9 * m + 0.1 * g
    nv = 0.99 * v + 0.01 * g * g
    return w - 0.01 * nm / (nv.sqrt() + 1e-6), nm, nv


def outer_sum(x, y):
    o = np.empty((x.shape[0], y.shape[0]), np.float32)
    for i in prange(x.shape[0]):
        for j in range(y.shape[0]):
            o[i, j] = math.tanh(x[i] + y[j])
    return o


POINTWISE = (
    Program(
        "pointwise", "gelu",
        "def f(float(N,D) X) -> (O) { O(n,d) = 0.5 * X(n,d) * (1 + erf(X(n,d) * sqrt(0.5))) }",
        ROWS, "N D", lambda x: F.gelu(x), gelu, FUNCTIONS, values=(-3, 3),
    ),
    Program(
        "pointwise", "gate",
        "def f(float(N,D) X, float(N,D) Y) -> (O) "
        "{ O(n,d) = X(n,d) / (1 + exp(-X(n,d))) * Y(n,d) }",
        ROWS, "N D", lambda x, y: F.silu(x) * y, gate, FUNCTIONS, values=(-3, 3),
    ),
    Program(
        "pointwise", "adam",
        """
        def f(float(N) w, float(N) g, float(N) m, float(N) v) -> (nw, nm, nv) {
          nm(i) = 0.9 * m(i) + 0.1 * g(i)
          nv(i) = 0.99 * v(i) + 0.01 * g(i) * g(i)
          nw(i) = w(i) - 0.01 * nm(i) / (sqrt(nv(i)) + 1e-6)
        }""",
        {"N": (100000, 4000000)}, "N", torch_adam, adam, ELEMENTS, ranges={"v": (0, 1)},
    ),
    Program(
        "pointwise", "tanh of outer sum",
        "def f(float(M) x, float(N) y) -> (O) { O(i,j) = tanh(x(i) + y(j)) }",
        {"M": (50, 5000), "N": (50, 5000)}, "M N", lambda x, y: (x[:, None] + y).tanh(), outer_sum,
        FUNCTIONS,
    ),
)  # fmt: skip


PROGRAMS = (*LOSSES, *POINTWISE)
