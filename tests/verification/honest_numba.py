"""Honest kernels: loops compiled by numba, and functions of numpy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange

from tests.verification.corpus import Corpus, Honest, permutation, rows

kernels = Corpus("numpy")
computes = kernels.computes
njit: Any = numba.njit(error_model="numpy")
parallel: Any = numba.njit(error_model="numpy", parallel=True)

LARGEST = np.int32(2**31 - 1)
"""The place that a maximum of no terms has."""


# --- contractions -----------------------------------------------------------------------------


@computes("def matmul(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
@njit
def matmul(A, B):
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            for j in range(B.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


@computes("def matvec(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }")
@parallel
def matvec(A, x):
    y = np.empty(A.shape[0], np.float32)
    for i in prange(A.shape[0]):
        total = np.float32(0)
        for k in range(A.shape[1]):
            total += A[i, k] * x[k]
        y[i] = total
    return y


@computes(
    "def double_matmul(double(M,K) A, double(N,K) B) -> (C) { C(i,j) +=! A(i,k) * B(j,k) }",
    writes=True,
)
@njit
def double_matmul(A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            C[i, j] = 0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[j, k]


@computes(
    "def matmul_by_4(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    bound={"K": 4},
)
@njit
def matmul_by_4(A, B):
    C = np.empty((A.shape[0], B.shape[1]), np.float32)
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j] + A[i, 3] * B[3, j]
    return C


@computes("""
def int8_matmul(int8(M,K) A, int8(K,N) B) -> (C) {
  C(i,j) +=! int(A(i,k)) * int(B(k,j))
}""")
@njit
def int8_matmul(A, B):
    C = np.zeros((A.shape[0], B.shape[1]), np.int32)
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += np.int32(A[i, k]) * np.int32(B[k, j])
    return C


@computes("def min_plus(float(I,K) A, float(K,J) B) -> (D) { D(i,j) min=! A(i,k) + B(k,j) }")
@parallel
def min_plus(A, B):
    D = np.full((A.shape[0], B.shape[1]), np.inf, np.float32)
    for i in prange(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                D[i, j] = np.minimum(D[i, j], A[i, k] + B[k, j])
    return D


@computes("def diagonals(float(B,N,N) A) -> (t) { t(b) +=! A(b,i,i) }")
@njit
def diagonals(A):
    t = np.zeros(A.shape[0], np.float32)
    for b in range(A.shape[0]):
        for i in range(A.shape[1]):
            t[b] += A[b, i, i]
    return t


# --- stencils and convolutions ----------------------------------------------------------------


@computes(
    """
def conv2d(float(N,C,H,W) x, float(M,C,KH,KW) w) -> (o) {
  o(n,m,i,j) +=! pad(x(n, c, 2*i + p - 1, 2*j + q - 1), 0) * w(m,c,p,q)
    where i in 0:(H + 2 - KH) / 2 + 1, j in 0:(W + 2 - KW) / 2 + 1
}""",
    H=(3, 7), W=(3, 7), KH=(1, 3), KW=(1, 3), N=(1, 2), C=(1, 3), M=(1, 3),
)  # fmt: skip
@parallel
def conv2d(x, w):
    N, C, H, W = x.shape
    M, _, KH, KW = w.shape
    o = np.zeros((N, M, (H + 2 - KH) // 2 + 1, (W + 2 - KW) // 2 + 1), np.float32)
    for n in prange(N):
        for m in range(M):
            for i in range(o.shape[2]):
                for j in range(o.shape[3]):
                    for c in range(C):
                        for p in range(KH):
                            for q in range(KW):
                                h, v = 2 * i + p - 1, 2 * j + q - 1
                                inside = 0 <= h < H and 0 <= v < W
                                value = x[n, c, h, v] if inside else np.float32(0)
                                o[n, m, i, j] += value * w[m, c, p, q]
    return o


@computes(
    """
def conv1d(float(C,T) x, float(M,C,K) w, float(M) bias) -> (o) {
  s(m,t) +=! x(c, t + 3*k) * w(m,c,k)
  o(m,t) = s(m,t) + bias(m)
}""",
    T=(8, 12), K=(1, 3),
)  # fmt: skip
@njit
def conv1d(x, w, bias):
    span = x.shape[1] - 3 * (w.shape[2] - 1)
    o = np.empty((w.shape[0], span), np.float32)
    for m in range(o.shape[0]):
        for t in range(span):
            total = np.float32(0)
            for c in range(x.shape[0]):
                for k in range(w.shape[2]):
                    total += x[c, t + 3 * k] * w[m, c, k]
            o[m, t] = total + bias[m]
    return o


@computes(
    """
def jacobi(float(N,M) a) -> (o) {
  o(i,j) = 0.25 * (a(i,j+1) + a(i+2,j+1) + a(i+1,j) + a(i+1,j+2))
}""",
    writes=True,
    N=(3, 7),
    M=(3, 7),
)
@njit
def jacobi(a, o):
    for i in range(a.shape[0] - 2):
        for j in range(a.shape[1] - 2):
            around = a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2]
            o[i, j] = np.float32(0.25) * around


@computes(
    "def near(float(N) x) -> (o) { o(i) +=! x(j) where j in max(i-1,0):min(i+2,N), i in 0:N }"
)
@njit
def near(x):
    o = np.zeros(x.size, np.float32)
    for i in range(x.size):
        for j in range(max(i - 1, 0), min(i + 2, x.size)):
            o[i] += x[j]
    return o


@computes(
    """
def interior(float(N,M) a) -> (o) {
  o(i,j) = a(i,j)  o(i,j) = a(i+1,j) - 2 * a(i,j) + a(i-1,j) where i in 1:a.0-1
}""",
    N=(2, 6),
)
def interior(a):
    o = a.copy()
    o[1:-1] = a[2:] - 2 * a[1:-1] + a[:-2]
    return o


@computes("def edges(float(N) x) -> (o) { o(i) = pad(x(i-1), x(i)) + pad(x(i+1), -1) }")
@njit
def edges(x):
    o = np.empty_like(x)
    for i in range(x.size):
        before = x[i - 1] if i > 0 else x[i]
        o[i] = before + (x[i + 1] if i + 1 < x.size else np.float32(-1))
    return o


@computes("def max_pool(float(C,H,W) x) -> (o) {"
          " o(c,h,w) max=! x(c, 2*h+i, 2*w+j) where i in 0:2, j in 0:2 }",
          H=(2, 7), W=(2, 7))  # fmt: skip
@njit
def max_pool(x):
    C, H, W = x.shape
    o = np.full((C, H // 2, W // 2), -np.inf, np.float32)
    for c in range(C):
        for h in range(H // 2):
            for w in range(W // 2):
                for i in range(2):
                    for j in range(2):
                        v = x[c, 2 * h + i, 2 * w + j]
                        if v > o[c, h, w] or v != v:
                            o[c, h, w] = v
    return o


# --- rows, ranges and triangles ---------------------------------------------------------------


@computes(
    """
def spmv(int(R) row, int(E) col, float(E) v, float(C) x) -> (y) {
  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
}""",
    E=(0, 12), col="C", row=rows("E"),
)  # fmt: skip
@parallel
def spmv(row, col, v, x):
    y = np.zeros(row.size - 1, np.float32)
    for r in prange(row.size - 1):
        for e in range(row[r], row[r + 1]):
            y[r] += v[e] * x[col[e]]
    return y


@computes(
    """
def row_maxima(int(R) row, float(E) v) -> (m, at) {
  m(r), at(r) max=! v(e), e where e in row(r):row(r+1)
}""",
    E=(0, 12),
    row=rows("E"),
)
@njit
def row_maxima(row, v):
    m = np.full(row.size - 1, -np.inf, np.float32)
    at = np.full(row.size - 1, LARGEST, np.int32)
    for r in range(row.size - 1):
        for e in range(row[r], row[r + 1]):
            first = at[r] == LARGEST
            if first or v[e] > m[r] or (v[e] != v[e] and m[r] == m[r]):
                m[r], at[r] = v[e], e
    return m, at


@computes(
    "def totals(float(B,T) x, int(B) n) -> (o) { o(b) +=! x(b,t) where t in 0:n(b) }",
    n=lambda rng, sizes: rng.integers(0, sizes["T"] + 1, sizes["B"]),
)
@njit
def totals(x, n):
    o = np.zeros(x.shape[0], np.float32)
    for b in range(x.shape[0]):
        for t in range(n[b]):
            o[b] += x[b, t]
    return o


@computes("def cumsum(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }")
@njit
def cumsum(x):
    o = np.empty(x.size, np.float32)
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
        o[i] = total
    return o


@computes("def running_max(float(B,T) x) -> (o) { o(b,t) max=! x(b,s) where s in 0:t+1 }")
@njit
def running_max(x):
    o = np.empty(x.shape, np.float32)
    for b in range(x.shape[0]):
        m = np.float32(-np.inf)
        for t in range(x.shape[1]):
            m = np.maximum(m, x[b, t])
            o[b, t] = m
    return o


@computes("def lower(float(N,N) L, float(N) x) -> (y) { y(i) +=! L(i,j) * x(j) where j in 0:i+1 }")
@njit
def lower(L, x):
    y = np.zeros(x.size, np.float32)
    for i in range(x.size):
        for j in range(i + 1):
            y[i] += L[i, j] * x[j]
    return y


@computes("def pairs(float(N,D) x) -> (o) {"
          " o(i,j) max=! fabs(x(i,d) - x(j,d)) where j in 0:i }")  # fmt: skip
@njit
def pairs(x):
    N, D = x.shape
    o = np.zeros((N, max(N - 1, 0)), np.float32)
    for i in range(N):
        for j in range(N - 1):
            o[i, j] = -np.inf
        for j in range(i):
            for d in range(D):
                o[i, j] = np.maximum(o[i, j], np.abs(x[i, d] - x[j, d]))
    return o


# --- places that data decide ------------------------------------------------------------------


@computes("def histogram(int(N) x) -> (h) { h(x(i)) +=! 1 where h.0 = 10 }", x=10)
@njit
def histogram(x):
    h = np.zeros(10, np.int32)
    for i in range(x.size):
        h[x[i]] += 1
    return h


@computes("def add_at(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = 10 }", I=10)
def add_at(index, x):
    h = np.zeros(10, np.float32)
    np.add.at(h, index, x)
    return h


@computes(
    "def bincount(int(N) x, int bins) -> (h) { h(x(i)) +=! 1 where h.0 = bins }",
    x=4,
    bins=lambda rng, _: rng.integers(4, 8),
)
def bincount(x, bins):
    return np.bincount(x, minlength=bins).astype(np.int32)


@computes("def inverse(int(N) p) -> (q) { q(p(i)) = i where q.0 = N }", p=permutation("N"))
@njit
def inverse(p):
    q = np.empty(p.size, np.int32)
    for i in range(p.size):
        q[p[i]] = i
    return q


@computes("def largest_by_key(float(N) x, int(N) k) -> (o) {"
          " o(k(i)) max=! x(i) where o.0 = 4 }", k=4)  # fmt: skip
@njit
def largest_by_key(x, k):
    o = np.full(4, -np.inf, np.float32)
    for i in range(x.size):
        if x[i] > o[k[i]] or x[i] != x[i]:
            o[k[i]] = x[i]
    return o


@computes("""
def keep(float(N) x, float least) -> (out, count) {
  place(i) +=! x(j) > least where j in 0:i, i in 0:N
  out(place(i)) = x(i) where x(i) > least, out.0 = N
  count +=! x(i) > least
}""")
@njit
def keep(x, least):
    out, count = np.zeros(x.size, np.float32), np.zeros((), np.int32)
    bound, kept = np.float32(least), 0
    for i in range(x.size):
        if x[i] > bound:
            out[kept] = x[i]
            kept += 1
    count[()] = kept
    return out, count


# --- reductions -------------------------------------------------------------------------------


@computes("def argmax(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }")
@njit
def argmax(x):
    m = np.full(x.shape[0], -np.inf, np.float32)
    at = np.full(x.shape[0], LARGEST, np.int32)
    for n in range(x.shape[0]):
        for d in range(x.shape[1]):
            v = x[n, d]
            if d == 0 or v > m[n] or (v != v and m[n] == m[n]):
                m[n], at[n] = v, d
    return m, at


@computes("def last_minimum(int(N) x) -> (m, at) { m, at min=! x(i), -i }", N=(3, 9))
@njit
def last_minimum(x):
    m, at = np.empty((), np.int32), np.empty((), np.int32)
    m[()], at[()] = LARGEST, LARGEST
    for i in range(x.size):
        if i == 0 or x[i] <= m[()]:
            m[()], at[()] = x[i], -i
    return m, at


@computes("def product(double(N,M) A) -> (p) { p(j) *=! A(i,j) }")
@njit
def product(A):
    p = np.ones(A.shape[1], np.float64)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            p[j] *= A[i, j]
    return p


@computes("def extremes(float(N) x) -> (lo, hi) { lo min=! x(i)  hi max=! x(i) }")
def extremes(x):
    lo, hi = np.min(x, initial=np.inf), np.max(x, initial=-np.inf)
    return np.asarray(lo), np.asarray(hi)


@computes("""
def softmax(float(N,D) x) -> (o) {
  m(n) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(n))
  s(n) +=! e(n,d)
  o(n,d) = e(n,d) / s(n)
}""")
@parallel
def softmax(x):
    o = np.empty(x.shape, np.float32)
    for n in prange(x.shape[0]):
        m, s = np.float32(-np.inf), np.float32(0)
        for d in range(x.shape[1]):
            m = np.maximum(m, x[n, d])
        for d in range(x.shape[1]):
            o[n, d] = np.exp(x[n, d] - m)
            s += o[n, d]
        for d in range(x.shape[1]):
            o[n, d] /= s
    return o


@computes("""
def layer_norm(float(N,D) x, float(D) g, float(D) b) -> (o) {
  s(n) +=! x(n,d)
  v(n) +=! (x(n,d) - s(n) / D) * (x(n,d) - s(n) / D)
  o(n,d) = (x(n,d) - s(n) / D) / sqrt(v(n) / D + 1e-5) * g(d) + b(d)
}""")
@njit
def layer_norm(x, g, b):
    N, D = x.shape
    o = np.empty((N, D), np.float32)
    for n in range(N):
        mean, variance = np.float32(0), np.float32(0)
        for d in range(D):
            mean += x[n, d]
        mean /= np.float32(D)
        for d in range(D):
            variance += (x[n, d] - mean) * (x[n, d] - mean)
        scale = np.sqrt(variance / np.float32(D) + np.float32(1e-5))
        for d in range(D):
            o[n, d] = (x[n, d] - mean) / scale * g[d] + b[d]
    return o


@computes("def windows(float(N) x, float(K) w) -> (o) { o(i) +=! x(i+k) * w(k) }",
          N=(4, 8), K=(1, 3))  # fmt: skip
def windows(x, w):
    return np.lib.stride_tricks.sliding_window_view(x, w.size) @ w


# --- integers and element-wise functions ------------------------------------------------------


@computes("def table(byte(H,W) image, byte(256) t) -> (o) { o(h,w) = t(image(h,w)) }", t=256)
@njit
def table(image, t):
    o = np.empty(image.shape, np.uint8)
    for h in range(image.shape[0]):
        for w in range(image.shape[1]):
            o[h, w] = t[image[h, w]]
    return o


@computes("def distances(uint32(N,L) a, uint32(M,L) b) -> (d) {"
          " d(n,m) +=! popc(a(n,l) ^ b(m,l)) }", a=2**32, b=2**32)  # fmt: skip
def distances(a, b):
    return np.bitwise_count(a[:, None] ^ b[None]).sum(2, dtype=np.int32)


@computes("def floored(int(N) a) -> (q, r) { q(i) = a(i) / 7  r(i) = a(i) % 7 }")
@njit
def floored(a):
    q, r = np.empty(a.size, np.int32), np.empty(a.size, np.int32)
    for i in range(a.size):
        q[i], r[i] = a[i] // 7, a[i] % 7
    return q, r


@computes("def clipped(int(N) a, int(N) b) -> (o) {"
          " o(i) = int8(min(max(a(i) ^ b(i), -128), 127)) }", a=99)  # fmt: skip
@njit
def clipped(a, b):
    o = np.empty(a.size, np.int8)
    for i in range(a.size):
        o[i] = min(max(a[i] ^ b[i], -128), 127)
    return o


@computes("def parity(int64(N,M) x) -> (o) { o(i) ^=! x(i,j) }")
@njit
def parity(x):
    o = np.zeros(x.shape[0], np.int64)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            o[i] ^= x[i, j]
    return o


@computes("def leaky(float(N,M) x, float slope) -> (o) {"
          " o(i,j) = x(i,j) > 0 ? x(i,j) : slope * x(i,j) }")  # fmt: skip
@njit
def leaky(x, slope):
    o = np.empty(x.shape, np.float32)
    s = np.float32(slope)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            o[i, j] = x[i, j] if x[i, j] > 0 else s * x[i, j]
    return o


@computes("def half_axpy(half(N) x, half(N) y, half a) -> (o) { o(i) = a * x(i) + y(i) }")
def half_axpy(x, y, a):
    scaled = np.float32(np.float16(a)) * x.astype(np.float32)
    return (scaled + y.astype(np.float32)).astype(np.float16)


@computes("""
def between(float(N) x, float least, float most) -> (inside, n) {
  inside(i) = x(i) >= least && x(i) < most
  n +=! inside(i)
}""")
@njit
def between(x, least, most):
    inside, n = np.empty(x.size, np.bool_), np.zeros((), np.int32)
    low, high = np.float32(least), np.float32(most)
    for i in range(x.size):
        inside[i] = x[i] >= low and x[i] < high
        n[()] += inside[i]
    return inside, n


KERNELS: tuple[Honest, ...] = tuple(kernels)
