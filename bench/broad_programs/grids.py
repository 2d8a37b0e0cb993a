"""Convolutions and pooling, stencils, and triangles."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import F, torch
from bench.broad_programs.program import ELEMENTS, FUNCTIONS, Program

ZERO = np.float32(0)


def average_pooled(x):
    o = np.empty(
        (x.shape[0], x.shape[1], (x.shape[2] - 3) // 2 + 1, (x.shape[3] - 3) // 2 + 1), np.float32
    )
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        for h in range(o.shape[2]):
            for w in range(o.shape[3]):
                total = ZERO
                for kh in range(3):
                    for kw in range(3):
                        total += x[n, c, 2 * h + kh, 2 * w + kw]
                o[n, c, h, w] = total / np.float32(9)
    return o


def most_pooled(x):
    o = np.empty((x.shape[0], x.shape[1], x.shape[2] - 2, x.shape[3] - 2), np.float32)
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        for h in range(o.shape[2]):
            for w in range(o.shape[3]):
                most = x[n, c, h, w]
                for kh in range(3):
                    for kw in range(3):
                        most = max(most, x[n, c, h + kh, w + kw])
                o[n, c, h, w] = most
    return o


def global_pooled(x):
    o = np.empty((x.shape[0], x.shape[1]), np.float32)
    for n in prange(x.shape[0]):
        for c in range(x.shape[1]):
            total = ZERO
            for h in range(x.shape[2]):
                for w in range(x.shape[3]):
                    total += x[n, c, h, w]
            o[n, c] = total / np.float32(x.shape[2] * x.shape[3])
    return o


def depthwise(x, k):
    height, width = x.shape[2], x.shape[3]
    o = np.empty_like(x)
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        wide = np.zeros((height + 2, width + 2), np.float32)
        wide[1:-1, 1:-1] = x[n, c]
        for h in range(height):
            for w in range(width):
                total = ZERO
                for kh in range(3):
                    for kw in range(3):
                        total += wide[h + kh, w + kw] * k[c, kh, kw]
                o[n, c, h, w] = total
    return o


def dilated(x, k):
    o = np.zeros((x.shape[0], k.shape[0], x.shape[2] - 4, x.shape[3] - 4), np.float32)
    for nm in prange(o.shape[0] * o.shape[1]):
        n, m = nm // o.shape[1], nm % o.shape[1]
        for c in range(x.shape[1]):
            for h in range(o.shape[2]):
                for w in range(o.shape[3]):
                    total = ZERO
                    for kh in range(3):
                        for kw in range(3):
                            total += x[n, c, h + 2 * kh, w + 2 * kw] * k[m, c, kh, kw]
                    o[n, m, h, w] += total
    return o


def strided(x, k):
    o = np.zeros(
        (x.shape[0], k.shape[0], (x.shape[2] - 3) // 2 + 1, (x.shape[3] - 3) // 2 + 1), np.float32
    )
    for nm in prange(o.shape[0] * o.shape[1]):
        n, m = nm // o.shape[1], nm % o.shape[1]
        for c in range(x.shape[1]):
            for h in range(o.shape[2]):
                for w in range(o.shape[3]):
                    total = ZERO
                    for kh in range(3):
                        for kw in range(3):
                            total += x[n, c, 2 * h + kh, 2 * w + kw] * k[m, c, kh, kw]
                    o[n, m, h, w] += total
    return o


def turned(x, k):
    """Transposed, stride 2: each input is added to four outputs."""
    o = np.zeros((x.shape[0], k.shape[1], x.shape[2] * 2, x.shape[3] * 2), np.float32)
    for nm in prange(o.shape[0] * o.shape[1]):
        n, m = nm // o.shape[1], nm % o.shape[1]
        for c in range(x.shape[1]):
            for h in range(x.shape[2]):
                for kh in range(2):
                    for w in range(x.shape[3]):
                        for kw in range(2):
                            o[n, m, 2 * h + kh, 2 * w + kw] += x[n, c, h, w] * k[c, m, kh, kw]
    return o


def sequence(x, k):
    o = np.zeros((x.shape[0], k.shape[0], x.shape[2] - k.shape[2] + 1), np.float32)
    for nm in prange(o.shape[0] * o.shape[1]):
        n, m = nm // o.shape[1], nm % o.shape[1]
        for c in range(x.shape[1]):
            for i in range(k.shape[2]):
                scale = k[m, c, i]
                for t in range(o.shape[2]):
                    o[n, m, t] += x[n, c, t + i] * scale
    return o


def pointwise(x, k):
    o = np.zeros((x.shape[0], k.shape[0], x.shape[2]), np.float32)
    for nm in prange(o.shape[0] * o.shape[1]):
        n, m = nm // o.shape[1], nm % o.shape[1]
        for c in range(x.shape[1]):
            for p in range(x.shape[2]):
                o[n, m, p] += x[n, c, p] * k[m, c]
    return o


def channels_last_conv(x, k):
    o = np.zeros((x.shape[0], x.shape[1] - 2, x.shape[2] - 2, k.shape[3]), np.float32)
    for nh in prange(o.shape[0] * o.shape[1]):
        n, h = nh // o.shape[1], nh % o.shape[1]
        for w in range(o.shape[2]):
            for kh in range(3):
                for kw in range(3):
                    for c in range(x.shape[3]):
                        scale = x[n, h + kh, w + kw, c]
                        for m in range(k.shape[3]):
                            o[n, h, w, m] += scale * k[kh, kw, c, m]
    return o


PLANES = {"N": (1, 16), "C": (3, 100), "H": (9, 150), "W": (9, 150)}
LAYER = {"N": (1, 8), "C": (3, 64), "M": (4, 64), "H": (9, 80), "W": (9, 80)}

LAYERS = (
    Program(
        "layers", "average pooling",
        "def f(float(N,C,H,W) X) -> (O) "
        "{ O(n,c,h,w) +=! X(n,c,2*h+kh,2*w+kw) / 9 where kh in 0:3, kw in 0:3 }",
        PLANES, "N C H W", lambda x: F.avg_pool2d(x, 3, 2), average_pooled, ELEMENTS,
    ),
    Program(
        "layers", "most of windows",
        "def f(float(N,C,H,W) X) -> (O) "
        "{ O(n,c,h,w) max=! X(n,c,h+kh,w+kw) where kh in 0:3, kw in 0:3 }",
        PLANES, "N C H W", lambda x: F.max_pool2d(x, 3, 1), most_pooled, ELEMENTS,
    ),
    Program(
        "layers", "global pooling",
        "def f(float(N,C,H,W) X) -> (O) { O(n,c) +=! X(n,c,h,w) / (H * W) }",
        PLANES, "N C H W", lambda x: x.mean((2, 3)), global_pooled, ELEMENTS,
    ),
    Program(
        "layers", "depthwise",
        "def f(float(N,C,H,W) X, float(C,3,3) K) -> (O) "
        "{ O(n,c,h,w) +=! pad(X(n,c,h+kh-1,w+kw-1), 0) * K(c,kh,kw) where h in 0:H, w in 0:W }",
        PLANES, "N C H W 9", lambda x, k: F.conv2d(x, k[:, None], padding=1, groups=len(k)),
        depthwise, (3e6, 1e8),
    ),
    Program(
        "layers", "dilated",
        "def f(float(N,C,H,W) X, float(M,C,3,3) K) -> (O) "
        "{ O(n,m,h,w) +=! X(n,c,h+2*kh,w+2*kw) * K(m,c,kh,kw) }",
        LAYER, "N C M H W 9", lambda x, k: F.conv2d(x, k, dilation=2), dilated,
    ),
    Program(
        "layers", "strided",
        "def f(float(N,C,H,W) X, float(M,C,3,3) K) -> (O) "
        "{ O(n,m,h,w) +=! X(n,c,2*h+kh,2*w+kw) * K(m,c,kh,kw) }",
        LAYER, "N C M H W 2", lambda x, k: F.conv2d(x, k, stride=2), strided,
    ),
    Program(
        "layers", "transposed",
        "def f(float(N,C,H,W) X, float(C,M,2,2) K) -> (O) "
        "{ O(n,m,h,w) +=! X(n,c,h/2,w/2) * K(c,m,h%2,w%2) where h in 0:H*2, w in 0:W*2 }",
        LAYER, "N C M H W 4", lambda x, k: F.conv_transpose2d(x, k, stride=2), turned,
    ),
    Program(
        "layers", "sequence",
        "def f(float(N,C,T) X, float(M,C,K) W) -> (O) { O(n,m,t) +=! X(n,c,t+k) * W(m,c,k) }",
        {"N": (1, 16), "C": (4, 100), "M": (4, 100), "T": (100, 3000), "K": (3, 9)}, "N C M T K",
        lambda x, k: F.conv1d(x, k), sequence,
    ),
    Program(
        "layers", "pointwise",
        "def f(float(N,C,P) X, float(M,C) W) -> (O) { O(n,m,p) +=! X(n,c,p) * W(m,c) }",
        {"N": (1, 16), "C": (8, 200), "M": (8, 200), "P": (49, 5000)}, "N C M P",
        lambda x, k: k @ x, pointwise,
    ),
    Program(
        "layers", "channels last",
        "def f(float(N,H,W,C) X, float(3,3,C,M) K) -> (O) "
        "{ O(n,h,w,m) +=! X(n,h+kh,w+kw,c) * K(kh,kw,c,m) }",
        LAYER, "N C M H W 9",
        lambda x, k: F.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1)).permute(0, 2, 3, 1),
        channels_last_conv,
    ),
)  # fmt: skip


def five_points(x):
    o = np.empty((x.shape[0] - 2, x.shape[1] - 2), np.float32)
    for i in prange(o.shape[0]):
        for j in range(o.shape[1]):
            o[i, j] = (
                x[i, j + 1] + x[i + 1, j] + x[i + 1, j + 2] + x[i + 2, j + 1]
                - np.float32(4) * x[i + 1, j + 1]
            )  # fmt: skip
    return o


def seven_points(x):
    o = np.empty((x.shape[0] - 2, x.shape[1] - 2, x.shape[2] - 2), np.float32)
    for i in prange(o.shape[0]):
        for j in range(o.shape[1]):
            for k in range(o.shape[2]):
                o[i, j, k] = (
                    x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1] + x[i + 1, j, k + 1]
                    + x[i + 1, j + 2, k + 1] + x[i + 1, j + 1, k] + x[i + 1, j + 1, k + 2]
                    - np.float32(6) * x[i + 1, j + 1, k + 1]
                )  # fmt: skip
    return o


def blurred(x):
    third = np.float32(1 / 3)
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    o = np.empty((rows, columns), np.float32)
    for i in prange(rows):
        for j in range(columns):
            total = ZERO
            for k in range(3):
                total += (x[i + k, j] + x[i + k, j + 1] + x[i + k, j + 2]) * third
            o[i, j] = total * third
    return o


def varying(x, c):
    o = np.empty((x.shape[0] - 2, x.shape[1] - 2), np.float32)
    for i in prange(o.shape[0]):
        for j in range(o.shape[1]):
            total = ZERO
            for p in range(3):
                for q in range(3):
                    total += c[p, q, i, j] * x[i + p, j + q]
            o[i, j] = total
    return o


def torch_varying(x, c):
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    return sum(
        c[p, q, :rows, :columns] * x[p : p + rows, q : q + columns]
        for p in range(3)
        for q in range(3)
    )


def wave(u, before, speed):
    rows, columns = u.shape
    o = np.zeros((rows - 1, columns - 1), np.float32)
    for i in prange(1, rows - 1):
        for j in range(1, columns - 1):
            spread = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - np.float32(4) * u[i, j]
            o[i, j] = np.float32(2) * u[i, j] - before[i, j] + speed[i, j] * spread
    return o


def torch_wave(u, before, speed):
    middle = u[1:-1, 1:-1]
    spread = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * middle
    return F.pad(2 * middle - before[1:-1, 1:-1] + speed[1:-1, 1:-1] * spread, (1, 0, 1, 0))


PLANE = {"M": (100, 5000), "N": (100, 5000)}

STENCILS = (
    Program(
        "stencils", "five points",
        "def f(float(M,N) X) -> (O) "
        "{ O(i,j) = X(i,j+1) + X(i+1,j) + X(i+1,j+2) + X(i+2,j+1) - 4 * X(i+1,j+1) }",
        PLANE, "M N",
        lambda x: x[:-2, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] - 4 * x[1:-1, 1:-1],
        five_points, ELEMENTS,
    ),
    Program(
        "stencils", "seven points",
        """
        def f(float(M,N,P) X) -> (O) {
          O(i,j,k) = X(i,j+1,k+1) + X(i+2,j+1,k+1) + X(i+1,j,k+1) + X(i+1,j+2,k+1)
                   + X(i+1,j+1,k) + X(i+1,j+1,k+2) - 6 * X(i+1,j+1,k+1)
        }""",
        {"M": (20, 300), "N": (20, 300), "P": (20, 300)}, "M N P",
        lambda x: x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1]
        + x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:] - 6 * x[1:-1, 1:-1, 1:-1],
        seven_points, ELEMENTS,
    ),
    Program(
        "stencils", "blur in two",
        """
        def f(float(M,N) X) -> (O) {
          rows(i,j) +=! X(i,j+k) / 3 where k in 0:3
          O(i,j) +=! rows(i+k,j) / 3 where k in 0:3
        }""",
        PLANE, "M N", lambda x: F.avg_pool2d(x[None, None], 3, 1)[0, 0], blurred, ELEMENTS,
    ),
    Program(
        "stencils", "varying weights",
        "def f(float(M,N) X, float(3,3,M,N) C) -> (O) "
        "{ O(i,j) +=! C(p,q,i,j) * X(i+p,j+q) where i in 0:M-2, j in 0:N-2 }",
        {"M": (50, 1200), "N": (50, 1200)}, "M N 9", torch_varying, varying, (5e5, 1e7),
    ),
    Program(
        "stencils", "wave",
        """
        def f(float(M,N) u, float(M,N) before, float(M,N) speed) -> (o) {
          o(i,j) = 2 * u(i,j) - before(i,j) + speed(i,j)
            * (u(i-1,j) + u(i+1,j) + u(i,j-1) + u(i,j+1) - 4 * u(i,j)) where i in 1:M-1, j in 1:N-1
        }""",
        PLANE, "M N", torch_wave, wave, ELEMENTS,
    ),
)  # fmt: skip


def causal_scores(q, k):
    rows = q.shape[0]
    s = np.zeros((rows, rows), np.float32)
    for i in prange(rows):
        for j in range(i + 1):
            total = ZERO
            for d in range(q.shape[1]):
                total += q[i, d] * k[j, d]
            s[i, j] = total
    return s


def lower_by_column(a, x):
    y = np.empty(a.shape[0], np.float32)
    for i in prange(a.shape[0]):
        total = ZERO
        for j in range(i + 1):
            total += a[i, j] * x[j]
        y[i] = total
    return y


def lower_product(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in prange(a.shape[0]):
        for k in range(i + 1):
            scale = a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += scale * b[k, j]
    return c


def causal_softmax(x):
    o = np.zeros_like(x)
    for bt in prange(x.shape[0] * x.shape[1]):
        b, t = bt // x.shape[1], bt % x.shape[1]
        most = x[b, t, 0]
        for u in range(t + 1):
            most = max(most, x[b, t, u])
        total = ZERO
        for u in range(t + 1):
            o[b, t, u] = math.exp(x[b, t, u] - most)
            total += o[b, t, u]
        for u in range(t + 1):
            o[b, t, u] /= total
    return o


def torch_causal_softmax(x):
    mask = torch.ones(x.shape[1:], dtype=torch.bool).tril()
    return x.masked_fill(~mask, -torch.inf).softmax(-1)


def pairs_above(x):
    total = ZERO
    for i in prange(x.shape[0]):
        for j in range(i + 1, x.shape[1]):
            total += x[i, j] * x[i, j]
    return np.float32(total)


def lower_part(x):
    o = np.zeros_like(x)
    for i in prange(x.shape[0]):
        for j in range(i + 1):
            o[i, j] = x[i, j]
    return o


TRIANGLES = (
    Program(
        "triangles", "causal scores",
        "def f(float(T,D) Q, float(T,D) K) -> (S) "
        "{ S(i,j) +=! j <= i ? Q(i,d) * K(j,d) : 0 }",
        {"T": (150, 1500), "D": (16, 128)}, "T T D",
        lambda q, k: (q @ k.t()).tril(), causal_scores, (4e6, 1e8),
    ),
    Program(
        "triangles", "matrix by column",
        "def f(float(N,N) A, float(N) x) -> (y) { y(i) +=! j <= i ? A(i,j) * x(j) : 0 }",
        {"N": (500, 4000)}, "N N", lambda a, x: a.tril() @ x, lower_by_column, (4e5, 2e7),
    ),
    Program(
        "triangles", "product",
        "def f(float(N,N) A, float(N,M) B) -> (C) { C(i,j) +=! k <= i ? A(i,k) * B(k,j) : 0 }",
        {"N": (100, 800), "M": (50, 800)}, "N N M", lambda a, b: a.tril() @ b, lower_product,
    ),
    Program(
        "triangles", "causal softmax",
        """
        def f(float(B,T,T) X) -> (O) {
          m(b,t) max=! u <= t ? X(b,t,u) : -1e30
          e(b,t,u) = u <= t ? exp(X(b,t,u) - m(b,t)) : 0
          z(b,t) +=! e(b,t,u)
          O(b,t,u) = e(b,t,u) / z(b,t)
        }""",
        {"B": (1, 40), "T": (40, 1500)}, "B T T", torch_causal_softmax, causal_softmax, FUNCTIONS,
    ),
    Program(
        "triangles", "squares above",
        "def f(float(N,N) X) -> (o) { o +=! j > i ? X(i,j) * X(i,j) : 0 }",
        {"N": (600, 3500)}, "N N", lambda x: x.triu(1).square().sum(), pairs_above, ELEMENTS,
    ),
    Program(
        "triangles", "lower part",
        "def f(float(N,N) X) -> (O) { O(i,j) = j <= i ? X(i,j) : 0 }",
        {"N": (600, 3500)}, "N N", lambda x: x.tril(), lower_part, ELEMENTS,
    ),
)  # fmt: skip


PROGRAMS = (*LAYERS, *STENCILS, *TRIANGLES)
