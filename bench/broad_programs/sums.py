"""Sums of every shape, and sums of products of three factors and more."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: E741

from __future__ import annotations

import math

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import torch
from bench.broad_programs.program import ELEMENTS, Program

ZERO = np.float32(0)
PARTS = 64


def sum_all(x):
    flat = x.reshape(-1)
    total = ZERO
    for n in prange(flat.shape[0]):
        total += flat[n]
    return np.float32(total)


def squares(x):
    flat = x.reshape(-1)
    total = ZERO
    for n in prange(flat.shape[0]):
        total += flat[n] * flat[n]
    return np.float32(math.sqrt(total))


def dot(x, y):
    total = ZERO
    for n in prange(x.shape[0]):
        total += x[n] * y[n]
    return np.float32(total)


def columns(x):
    """Parts of the rows in parallel, each into a row of its own."""
    partial = np.zeros((PARTS, x.shape[1]), np.float32)
    for part in prange(PARTS):
        for i in range(part * x.shape[0] // PARTS, (part + 1) * x.shape[0] // PARTS):
            for j in range(x.shape[1]):
                partial[part, j] += x[i, j]
    return partial.sum(0)


def columns_most(x):
    partial = np.full((PARTS, x.shape[1]), -np.inf, np.float32)
    for part in prange(PARTS):
        for i in range(part * x.shape[0] // PARTS, (part + 1) * x.shape[0] // PARTS):
            for j in range(x.shape[1]):
                partial[part, j] = max(partial[part, j], x[i, j])
    o = partial[0].copy()
    for part in range(1, PARTS):
        for j in range(x.shape[1]):
            o[j] = max(o[j], partial[part, j])
    return o


def long_rows(x):
    o = np.empty(x.shape[0], np.float32)
    for i in prange(x.shape[0]):
        total = ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        o[i] = total
    return o


def middle(x):
    o = np.zeros((x.shape[0], x.shape[2]), np.float32)
    for a in prange(x.shape[0]):
        for b in range(x.shape[1]):
            for c in range(x.shape[2]):
                o[a, c] += x[a, b, c]
    return o


def channel_moments(x):
    """Per channel of a batch of images: threads share the channels."""
    mean, var = np.empty(x.shape[1], np.float32), np.empty(x.shape[1], np.float32)
    count = np.float32(x.shape[0] * x.shape[2] * x.shape[3])
    for c in prange(x.shape[1]):
        total, square = ZERO, ZERO
        for n in range(x.shape[0]):
            for h in range(x.shape[2]):
                for w in range(x.shape[3]):
                    total += x[n, c, h, w]
                    square += x[n, c, h, w] * x[n, c, h, w]
        mean[c] = total / count
        var[c] = square / count - mean[c] * mean[c]
    return mean, var


def two_outer(x):
    o = np.zeros(x.shape[2], np.float32)
    partial = np.zeros((x.shape[0], x.shape[2]), np.float32)
    for a in prange(x.shape[0]):
        for b in range(x.shape[1]):
            for c in range(x.shape[2]):
                partial[a, c] += x[a, b, c]
    for a in range(x.shape[0]):
        for c in range(x.shape[2]):
            o[c] += partial[a, c]
    return o


def least_and_most(x):
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for n in prange(x.shape[0]):
        low = min(low, x[n])
        high = max(high, x[n])
    return np.float32(low), np.float32(high)


SUMS = (
    Program(
        "sums", "sum of columns",
        "def f(float(M,N) X) -> (o) { o(j) +=! X(i,j) }",
        {"M": (100, 50000), "N": (20, 5000)}, "M N",
        lambda x: x.sum(0), columns, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "most of columns",
        "def f(float(M,N) X) -> (o) { o(j) max=! X(i,j) }",
        {"M": (100, 50000), "N": (20, 5000)}, "M N",
        lambda x: x.amax(0), columns_most, ELEMENTS,
    ),
    Program(
        "sums", "sum of all",
        "def f(float(A,B,C) X) -> (o) { o +=! X(a,b,c) }",
        {"A": (5, 500), "B": (5, 500), "C": (5, 500)}, "A B C",
        lambda x: x.sum(), sum_all, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "norm of all",
        "def f(float(M,N) X) -> (o) { s +=! X(i,j) * X(i,j)  o = sqrt(s) }",
        {"M": (50, 5000), "N": (50, 5000)}, "M N",
        lambda x: x.square().sum().sqrt(), squares, ELEMENTS,
    ),
    Program(
        "sums", "dot",
        "def f(float(N) x, float(N) y) -> (o) { o +=! x(i) * y(i) }",
        {"N": (200000, 8000000)}, "N",
        lambda x, y: x @ y, dot, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "least and most",
        "def f(float(N) x) -> (low, high) { low min=! x(i)  high max=! x(i) }",
        {"N": (300000, 8000000)}, "N",
        lambda x: (x.amin(), x.amax()), least_and_most, ELEMENTS,
    ),
    Program(
        "sums", "long rows",
        "def f(float(M,N) X) -> (o) { o(i) +=! X(i,j) }",
        {"M": (2, 100), "N": (10000, 100000)}, "M N",
        lambda x: x.sum(1), long_rows, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "middle",
        "def f(float(A,B,C) X) -> (o) { o(a,c) +=! X(a,b,c) }",
        {"A": (5, 500), "B": (5, 500), "C": (5, 500)}, "A B C",
        lambda x: x.sum(1), middle, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "two outer",
        "def f(float(A,B,C) X) -> (o) { o(c) +=! X(a,b,c) }",
        {"A": (10, 300), "B": (10, 300), "C": (10, 500)}, "A B C",
        lambda x: x.sum((0, 1)), two_outer, ELEMENTS, values=(0, 1),
    ),
    Program(
        "sums", "moments of channels",
        """
        def f(float(N,C,H,W) X) -> (mean, var) {
          mean(c) +=! X(n,c,h,w) / (N * H * W)
          var(c) +=! (X(n,c,h,w) - mean(c)) * (X(n,c,h,w) - mean(c)) / (N * H * W)
        }""",
        {"N": (2, 32), "C": (3, 130), "H": (7, 120), "W": (7, 120)}, "N C H W",
        lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)), channel_moments, ELEMENTS,
        values=(0, 1),
    ),
)  # fmt: skip


def bilinear(x, w, z):
    y = np.empty((x.shape[0], w.shape[0]), np.float32)
    for o in prange(w.shape[0]):
        for b in range(x.shape[0]):
            total = ZERO
            for i in range(w.shape[1]):
                inner = ZERO
                for j in range(w.shape[2]):
                    inner += w[o, i, j] * z[b, j]
                total += x[b, i] * inner
            y[b, o] = total
    return y


def quadratic(x, a):
    y = np.empty(x.shape[0], np.float32)
    for b in prange(x.shape[0]):
        total = ZERO
        for i in range(a.shape[0]):
            inner = ZERO
            for j in range(a.shape[1]):
                inner += a[i, j] * x[b, j]
            total += x[b, i] * inner
        y[b] = total
    return y


def from_factors(a, b, c):
    o = np.zeros((a.shape[0], b.shape[0], c.shape[0]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(c.shape[0]):
                total = ZERO
                for r in range(a.shape[1]):
                    total += a[i, r] * b[j, r] * c[k, r]
                o[i, j, k] = total
    return o


def mttkrp(t, b, c):
    d = np.zeros((t.shape[0], b.shape[1]), np.float32)
    for i in prange(t.shape[0]):
        row = np.empty(b.shape[1], np.float32)
        for k in range(t.shape[1]):
            row[:] = ZERO
            for l in range(t.shape[2]):
                scale = t[i, k, l]
                for r in range(b.shape[1]):
                    row[r] += scale * c[l, r]
            for r in range(b.shape[1]):
                d[i, r] += row[r] * b[k, r]
    return d


def scaled_product(a, s, b):
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in prange(a.shape[0]):
        for k in range(a.shape[1]):
            scale = a[i, k] * s[k]
            for j in range(b.shape[1]):
                c[i, j] += scale * b[k, j]
    return c


def similarity(a, b):
    norms = np.empty(b.shape[0], np.float32)
    o = np.empty((a.shape[0], b.shape[0]), np.float32)
    for j in prange(b.shape[0]):
        total = ZERO
        for k in range(b.shape[1]):
            total += b[j, k] * b[j, k]
        norms[j] = np.float32(1) / math.sqrt(total)
    for i in prange(a.shape[0]):
        own = ZERO
        for k in range(a.shape[1]):
            own += a[i, k] * a[i, k]
        scale = np.float32(1) / math.sqrt(own)
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k]
            o[i, j] = total * scale * norms[j]
    return o


def distances(a, b, w):
    o = np.empty((a.shape[0], b.shape[0]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                difference = a[i, k] - b[j, k]
                total += w[k] * difference * difference
            o[i, j] = total
    return o


def core(g, a, b):
    o = np.zeros((a.shape[0], b.shape[0], g.shape[2]), np.float32)
    half = np.zeros((a.shape[0], g.shape[1], g.shape[2]), np.float32)
    for i in prange(a.shape[0]):
        for p in range(g.shape[0]):
            for q in range(g.shape[1]):
                for k in range(g.shape[2]):
                    half[i, q, k] += a[i, p] * g[p, q, k]
        for j in range(b.shape[0]):
            for q in range(g.shape[1]):
                for k in range(g.shape[2]):
                    o[i, j, k] += b[j, q] * half[i, q, k]
    return o


SHARED = (
    Program(
        "shared", "bilinear",
        "def f(float(B,I) x1, float(O,I,J) W, float(B,J) x2) -> (y) "
        "{ y(b,o) +=! x1(b,i) * W(o,i,j) * x2(b,j) }",
        {"B": (4, 150), "O": (10, 150), "I": (10, 150), "J": (10, 150)}, "B O I J",
        lambda x, w, z: torch.nn.functional.bilinear(x, z, w), bilinear,
    ),
    Program(
        "shared", "quadratic form",
        "def f(float(B,N) x, float(N,N) A) -> (y) { y(b) +=! x(b,i) * A(i,j) * x(b,j) }",
        {"B": (20, 3000), "N": (30, 500)}, "B N N",
        lambda x, a: ((x @ a) * x).sum(1), quadratic,
    ),
    Program(
        "shared", "tensor of factors",
        "def f(float(I,R) A, float(J,R) B, float(K,R) C) -> (O) "
        "{ O(i,j,k) +=! A(i,r) * B(j,r) * C(k,r) }",
        {"I": (10, 200), "J": (10, 200), "K": (10, 200), "R": (4, 40)}, "I J K R",
        lambda a, b, c: (a[:, None] * b).reshape(-1, a.shape[1]).matmul(c.t())
        .reshape(len(a), len(b), len(c)),
        from_factors, (4e6, 1e8),
    ),
    Program(
        "shared", "mttkrp",
        "def f(float(I,K,L) T, float(K,R) B, float(L,R) C) -> (D) "
        "{ D(i,r) +=! T(i,k,l) * B(k,r) * C(l,r) }",
        {"I": (20, 300), "K": (10, 200), "L": (10, 200), "R": (8, 100)}, "I K L R",
        lambda t, b, c: ((t @ c) * b).sum(1), mttkrp,
    ),
    Program(
        "shared", "scaled depth",
        "def f(float(M,K) A, float(K) s, float(K,N) B) -> (C) "
        "{ C(i,j) +=! A(i,k) * s(k) * B(k,j) }",
        {"M": (50, 500), "K": (50, 500), "N": (50, 500)}, "M K N",
        lambda a, s, b: (a * s) @ b, scaled_product,
    ),
    Program(
        "shared", "cosine similarity",
        """
        def f(float(M,K) A, float(N,K) B) -> (O) {
          a(i) +=! A(i,k) * A(i,k)
          b(j) +=! B(j,k) * B(j,k)
          p(i,j) +=! A(i,k) * B(j,k)
          O(i,j) = p(i,j) * rsqrt(a(i)) * rsqrt(b(j))
        }""",
        {"M": (50, 500), "K": (50, 500), "N": (50, 500)}, "M K N",
        lambda a, b: (a @ b.t()) * a.square().sum(1).rsqrt()[:, None] * b.square().sum(1).rsqrt(),
        similarity,
    ),
    Program(
        "shared", "weighted distances",
        "def f(float(M,K) A, float(N,K) B, float(K) w) -> (O) "
        "{ O(i,j) +=! w(k) * (A(i,k) - B(j,k)) * (A(i,k) - B(j,k)) }",
        {"M": (30, 300), "K": (20, 200), "N": (30, 300)}, "M K N",
        lambda a, b, w: ((a[:, None] - b).square() * w).sum(2), distances, (1e6, 2e7),
        ranges={"w": (0, 1)},
    ),
    Program(
        "shared", "core of a tensor",
        "def f(float(P,Q,K) G, float(I,P) A, float(J,Q) B) -> (O) "
        "{ O(i,j,k) +=! G(p,q,k) * A(i,p) * B(j,q) }",
        {"P": (4, 30), "Q": (4, 30), "K": (10, 150), "I": (10, 150), "J": (10, 150)}, "I J K Q 2",
        lambda g, a, b: torch.einsum("pqk,ip,jq->ijk", g, a, b), core,
    ),
)  # fmt: skip


PROGRAMS = (*SUMS, *SHARED)
