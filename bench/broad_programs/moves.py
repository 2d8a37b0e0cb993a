"""What moves elements: transposes, gathers, and subscripts with `/` and `%`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import torch
from bench.broad_programs.program import ELEMENTS, Program

ZERO = np.float32(0)
BLOCK = 32


def transposed(x):
    o = np.empty((x.shape[1], x.shape[0]), x.dtype)
    for strip in prange((x.shape[1] + BLOCK - 1) // BLOCK):
        for first in range(0, x.shape[0], BLOCK):
            for j in range(strip * BLOCK, min((strip + 1) * BLOCK, x.shape[1])):
                for i in range(first, min(first + BLOCK, x.shape[0])):
                    o[j, i] = x[i, j]
    return o


def transposed_and_added(x, y):
    o = np.empty(y.shape, np.float32)
    for strip in prange((y.shape[0] + BLOCK - 1) // BLOCK):
        for first in range(0, y.shape[1], BLOCK):
            for j in range(strip * BLOCK, min((strip + 1) * BLOCK, y.shape[0])):
                for i in range(first, min(first + BLOCK, y.shape[1])):
                    o[j, i] = y[j, i] + x[i, j]
    return o


def reversed_3d(x):
    o = np.empty((x.shape[2], x.shape[1], x.shape[0]), np.float32)
    for c in prange(x.shape[2]):
        for b in range(x.shape[1]):
            for a in range(x.shape[0]):
                o[c, b, a] = x[a, b, c]
    return o


def outer_swapped(x):
    o = np.empty((x.shape[1], x.shape[0], x.shape[2]), np.float32)
    for b in prange(x.shape[1]):
        for a in range(x.shape[0]):
            for c in range(x.shape[2]):
                o[b, a, c] = x[a, b, c]
    return o


def rotated(x):
    o = np.empty((x.shape[1], x.shape[2], x.shape[0]), np.float32)
    for b in prange(x.shape[1]):
        for c in range(x.shape[2]):
            for a in range(x.shape[0]):
                o[b, c, a] = x[a, b, c]
    return o


def channels_last(x):
    o = np.empty((x.shape[0], x.shape[2], x.shape[3], x.shape[1]), np.float32)
    for nh in prange(x.shape[0] * x.shape[2]):
        n, h = nh // x.shape[2], nh % x.shape[2]
        for w in range(x.shape[3]):
            for c in range(x.shape[1]):
                o[n, h, w, c] = x[n, c, h, w]
    return o


def channels_first(x):
    o = np.empty((x.shape[0], x.shape[3], x.shape[1], x.shape[2]), np.float32)
    for nc in prange(x.shape[0] * x.shape[3]):
        n, c = nc // x.shape[3], nc % x.shape[3]
        for h in range(x.shape[1]):
            for w in range(x.shape[2]):
                o[n, c, h, w] = x[n, h, w, c]
    return o


def reversed_4d(x):
    o = np.empty((x.shape[3], x.shape[2], x.shape[1], x.shape[0]), np.float32)
    for d in prange(x.shape[3]):
        for c in range(x.shape[2]):
            for b in range(x.shape[1]):
                for a in range(x.shape[0]):
                    o[d, c, b, a] = x[a, b, c, d]
    return o


IMAGE = {"N": (1, 32), "C": (3, 200), "H": (7, 150), "W": (7, 150)}

TRANSPOSES = (
    Program(
        "transposes", "matrix", "def f(float(M,N) X) -> (O) { O(j,i) = X(i,j) }",
        {"M": (100, 6000), "N": (100, 6000)}, "M N", lambda x: x.t().contiguous(), transposed,
        ELEMENTS,
    ),
    Program(
        "transposes", "bytes", "def f(byte(M,N) X) -> (O) { O(j,i) = X(i,j) }",
        {"M": (200, 6000), "N": (200, 6000)}, "M N", lambda x: x.t().contiguous(), transposed,
        ELEMENTS,
    ),
    Program(
        "transposes", "matrix added",
        "def f(float(M,N) X, float(N,M) Y) -> (O) { O(j,i) = Y(j,i) + X(i,j) }",
        {"M": (100, 5000), "N": (100, 5000)}, "M N", lambda x, y: y + x.t(), transposed_and_added,
        ELEMENTS,
    ),
    Program(
        "transposes", "outer two", "def f(float(A,B,C) X) -> (O) { O(b,a,c) = X(a,b,c) }",
        {"A": (5, 500), "B": (5, 500), "C": (5, 300)}, "A B C",
        lambda x: x.transpose(0, 1).contiguous(), outer_swapped, ELEMENTS,
    ),
    Program(
        "transposes", "reversed", "def f(float(A,B,C) X) -> (O) { O(c,b,a) = X(a,b,c) }",
        {"A": (10, 500), "B": (10, 500), "C": (10, 500)}, "A B C",
        lambda x: x.permute(2, 1, 0).contiguous(), reversed_3d, ELEMENTS,
    ),
    Program(
        "transposes", "rotated", "def f(float(A,B,C) X) -> (O) { O(b,c,a) = X(a,b,c) }",
        {"A": (10, 500), "B": (10, 500), "C": (10, 500)}, "A B C",
        lambda x: x.permute(1, 2, 0).contiguous(), rotated, ELEMENTS,
    ),
    Program(
        "transposes", "channels last", "def f(float(N,C,H,W) X) -> (O) { O(n,h,w,c) = X(n,c,h,w) }",
        IMAGE, "N C H W", lambda x: x.permute(0, 2, 3, 1).contiguous(), channels_last, ELEMENTS,
    ),
    Program(
        "transposes", "channels first",
        "def f(float(N,H,W,C) X) -> (O) { O(n,c,h,w) = X(n,h,w,c) }",
        IMAGE, "N C H W", lambda x: x.permute(0, 3, 1, 2).contiguous(), channels_first, ELEMENTS,
    ),
    Program(
        "transposes", "reversed 4d", "def f(float(A,B,C,D) X) -> (O) { O(d,c,b,a) = X(a,b,c,d) }",
        {"A": (4, 100), "B": (4, 100), "C": (4, 100), "D": (4, 100)}, "A B C D",
        lambda x: x.permute(3, 2, 1, 0).contiguous(), reversed_4d, ELEMENTS,
    ),
)  # fmt: skip


def taken(x, i):
    o = np.empty(i.shape[0], np.float32)
    for n in prange(i.shape[0]):
        o[n] = x[i[n]]
    return o


def rows_taken(t, i):
    o = np.empty((i.shape[0], t.shape[1]), np.float32)
    for n in prange(i.shape[0]):
        for d in range(t.shape[1]):
            o[n, d] = t[i[n], d]
    return o


def bags(t, i):
    o = np.zeros((i.shape[0], t.shape[1]), np.float32)
    for b in prange(i.shape[0]):
        for k in range(i.shape[1]):
            row = i[b, k]
            for d in range(t.shape[1]):
                o[b, d] += t[row, d]
    return o


def weighted_bags(t, i, w):
    o = np.zeros((i.shape[0], t.shape[1]), np.float32)
    for b in prange(i.shape[0]):
        for k in range(i.shape[1]):
            row, weight = i[b, k], w[b, k]
            for d in range(t.shape[1]):
                o[b, d] += weight * t[row, d]
    return o


def sparse_by_vector(v, i, x):
    y = np.empty(v.shape[0], np.float32)
    for n in prange(v.shape[0]):
        total = ZERO
        for k in range(v.shape[1]):
            total += v[n, k] * x[i[n, k]]
        y[n] = total
    return y


def along_rows(x, i):
    o = np.empty(i.shape, np.float32)
    for n in prange(i.shape[0]):
        for k in range(i.shape[1]):
            o[n, k] = x[n, i[n, k]]
    return o


def columns_taken(x, i):
    o = np.empty((x.shape[0], i.shape[0]), np.float32)
    for n in prange(x.shape[0]):
        for k in range(i.shape[0]):
            o[n, k] = x[n, i[k]]
    return o


def pixels(x, r, c):
    o = np.empty(r.shape[0], np.float32)
    for n in prange(r.shape[0]):
        o[n] = x[r[n], c[n]]
    return o


def neighbours(x, i):
    o = np.empty((i.shape[0], x.shape[1]), np.float32)
    for n in prange(i.shape[0]):
        for d in range(x.shape[1]):
            most = x[i[n, 0], d]
            for k in range(1, i.shape[1]):
                most = max(most, x[i[n, k], d])
            o[n, d] = most
    return o


GATHERS = (
    Program(
        "gathers", "vector", "def f(float(N) X, int(M) I) -> (O) { O(m) = X(I(m)) }",
        {"N": (1000, 2000000), "M": (200000, 4000000)}, "M",
        lambda x, i: x[i], taken, (2e5, 4e6), selects={"I": "N"},
    ),
    Program(
        "gathers", "rows", "def f(float(E,D) T, int(M) I) -> (O) { O(m,d) = T(I(m),d) }",
        {"E": (1000, 100000), "D": (8, 200), "M": (1000, 100000)}, "M D",
        lambda t, i: t[i], rows_taken, ELEMENTS, selects={"I": "E"},
    ),
    Program(
        "gathers", "bags", "def f(float(E,D) T, int(B,K) I) -> (O) { O(b,d) +=! T(I(b,k),d) }",
        {"E": (1000, 100000), "D": (8, 200), "B": (50, 3000), "K": (3, 60)}, "B K D",
        lambda t, i: t[i].sum(1), bags, ELEMENTS, selects={"I": "E"},
    ),
    Program(
        "gathers", "weighted bags",
        "def f(float(E,D) T, int(B,K) I, float(B,K) w) -> (O) "
        "{ O(b,d) +=! w(b,k) * T(I(b,k),d) }",
        {"E": (1000, 100000), "D": (8, 200), "B": (50, 3000), "K": (3, 60)}, "B K D",
        lambda t, i, w: torch.einsum("bk,bkd->bd", w, t[i]), weighted_bags, ELEMENTS,
        selects={"I": "E"},
    ),
    Program(
        "gathers", "sparse rows by vector",
        "def f(float(M,K) V, int(M,K) I, float(N) x) -> (y) { y(m) +=! V(m,k) * x(I(m,k)) }",
        {"M": (3000, 200000), "K": (3, 40), "N": (1000, 200000)}, "M K",
        lambda v, i, x: (v * x[i]).sum(1), sparse_by_vector, (2e5, 4e6), selects={"I": "N"},
    ),
    Program(
        "gathers", "sparse rows by matrix",
        "def f(float(N,D) X, int(M,K) I, float(M,K) V) -> (Y) "
        "{ Y(m,d) +=! V(m,k) * X(I(m,k),d) }",
        {"M": (300, 20000), "K": (3, 20), "N": (300, 20000), "D": (5, 64)}, "M K D",
        lambda x, i, v: (v[:, :, None] * x[i]).sum(1), weighted_bags, ELEMENTS,
        selects={"I": "N"},
    ),
    Program(
        "gathers", "along rows", "def f(float(M,N) X, int(M,K) I) -> (O) { O(m,k) = X(m,I(m,k)) }",
        {"M": (100, 5000), "N": (50, 3000), "K": (20, 2000)}, "M K",
        lambda x, i: x.gather(1, i.long()), along_rows, (2e5, 4e6), selects={"I": "N"},
    ),
    Program(
        "gathers", "columns", "def f(float(M,N) X, int(K) I) -> (O) { O(m,k) = X(m,I(k)) }",
        {"M": (100, 5000), "N": (50, 3000), "K": (20, 2000)}, "M K",
        lambda x, i: x.index_select(1, i), columns_taken, (2e5, 4e6), selects={"I": "N"},
    ),
    Program(
        "gathers", "pixels",
        "def f(float(H,W) X, int(M) R, int(M) C) -> (O) { O(m) = X(R(m),C(m)) }",
        {"H": (100, 2000), "W": (100, 2000), "M": (200000, 4000000)}, "M",
        lambda x, r, c: x[r, c], pixels, (2e5, 4e6), selects={"R": "H", "C": "W"},
    ),
    Program(
        "gathers", "most of neighbours",
        "def f(float(N,D) X, int(M,K) I) -> (O) { O(m,d) max=! X(I(m,k),d) }",
        {"M": (300, 20000), "K": (3, 20), "N": (300, 20000), "D": (5, 64)}, "M K D",
        lambda x, i: x[i].amax(1), neighbours, ELEMENTS, selects={"I": "N"},
    ),
)  # fmt: skip


def grouped_queries(q, k):
    o = np.empty((q.shape[0], q.shape[1], q.shape[2], k.shape[2]), np.float32)
    group = q.shape[1] // k.shape[1]
    for bh in prange(q.shape[0] * q.shape[1]):
        b, h = bh // q.shape[1], bh % q.shape[1]
        for t in range(q.shape[2]):
            for u in range(k.shape[2]):
                total = ZERO
                for d in range(q.shape[3]):
                    total += q[b, h, t, d] * k[b, h // group, u, d]
                o[b, h, t, u] = total
    return o


def kronecker(x, y):
    o = np.empty((x.shape[0] * y.shape[0], x.shape[1] * y.shape[1]), np.float32)
    for a in prange(x.shape[0]):
        for c in range(y.shape[0]):
            for b in range(x.shape[1]):
                for d in range(y.shape[1]):
                    o[a * y.shape[0] + c, b * y.shape[1] + d] = x[a, b] * y[c, d]
    return o


def half_rotated(x, c, s):
    o = np.empty_like(x)
    half = x.shape[2] // 2
    for b in prange(x.shape[0]):
        for t in range(x.shape[1]):
            for d in range(half):
                o[b, t, d] = x[b, t, d] * c[t, d] - x[b, t, d + half] * s[t, d]
                o[b, t, d + half] = x[b, t, d + half] * c[t, d + half] + x[b, t, d] * s[t, d + half]
    return o


def torch_rotated(x, c, s):
    low, high = x.chunk(2, -1)
    return x * c + torch.cat((-high, low), -1) * s


def shuffled_pixels(x):
    r = 2
    channels = x.shape[1] // (r * r)
    o = np.empty((x.shape[0], channels, x.shape[2] * r, x.shape[3] * r), np.float32)
    for nc in prange(x.shape[0] * channels):
        n, c = nc // channels, nc % channels
        for h in range(o.shape[2]):
            for w in range(o.shape[3]):
                o[n, c, h, w] = x[n, c * r * r + (h % r) * r + w % r, h // r, w // r]
    return o


def enlarged(x):
    o = np.empty((x.shape[0], x.shape[1] * 2, x.shape[2] * 2), np.float32)
    for n in prange(x.shape[0]):
        for h in range(o.shape[1]):
            for w in range(o.shape[2]):
                o[n, h, w] = x[n, h // 2, w // 2]
    return o


def shuffled_channels(x):
    o = np.empty_like(x)
    groups = 3
    depth = x.shape[1] // groups
    for n in prange(x.shape[0]):
        for c in range(x.shape[1]):
            for p in range(x.shape[2]):
                o[n, c, p] = x[n, (c % groups) * depth + c // groups, p]
    return o


def rolled(x):
    o = np.empty_like(x)
    rows, columns = x.shape
    for i in prange(rows):
        for j in range(columns):
            o[i, j] = x[(i + 3) % rows, (j + 5) % columns]
    return o


def cyclic(x, w):
    o = np.zeros_like(x)
    for i in prange(x.shape[0]):
        for k in range(w.shape[0]):
            for j in range(x.shape[1]):
                o[i, j] += w[k] * x[i, (j + k) % x.shape[1]]
    return o


SUBSCRIPTS = (
    Program(
        "subscripts", "grouped queries",
        "def f(float(B,H,T,D) Q, float(B,G,U,D) K) -> (S) "
        "{ S(b,h,t,u) +=! Q(b,h,t,d) * K(b,h/(H/G),u,d) }",
        {"B": (1, 3), "G": (2, 4), "T": (20, 300), "U": (20, 400), "D": (16, 128)},
        "B G T U D 3",
        lambda q, k: q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(2, 3),
        grouped_queries, derived={"H": "G 3"},
    ),
    Program(
        "subscripts", "kronecker",
        """
        def f(float(A,B) x, float(C,D) y) -> (z) {
          z(i,j) = x(i / C, j / D) * y(i % C, j % D) where i in 0:A*C, j in 0:B*D
        }""",
        {"A": (3, 100), "B": (3, 100), "C": (3, 100), "D": (3, 100)}, "A B C D",
        lambda x, y: torch.kron(x, y), kronecker, ELEMENTS,
    ),
    Program(
        "subscripts", "rotation by half",
        """
        def f(float(B,T,D) x, float(T,D) c, float(T,D) s) -> (o) {
          o(b,t,d) = x(b,t,d) * c(t,d)
                   + (d < D / 2 ? -x(b,t,(d + D / 2) % D) : x(b,t,(d + D / 2) % D)) * s(t,d)
        }""",
        {"B": (2, 60), "T": (50, 2000), "E": (16, 64)}, "B T E 2",
        torch_rotated, half_rotated, ELEMENTS, derived={"D": "E 2"},
    ),
    Program(
        "subscripts", "pixel shuffle",
        """
        def f(float(N,C,H,W) X) -> (O) {
          O(n,c,h,w) = X(n, c * 4 + (h % 2) * 2 + w % 2, h / 2, w / 2)
            where c in 0:C/4, h in 0:H*2, w in 0:W*2
        }""",
        {"N": (1, 16), "E": (2, 40), "H": (10, 200), "W": (10, 200)}, "N E H W 4",
        lambda x: torch.nn.functional.pixel_shuffle(x, 2), shuffled_pixels, ELEMENTS,
        derived={"C": "E 4"},
    ),
    Program(
        "subscripts", "enlarged",
        "def f(float(N,H,W) X) -> (O) "
        "{ O(n,h,w) = X(n, h / 2, w / 2) where h in 0:H*2, w in 0:W*2 }",
        {"N": (1, 200), "H": (10, 400), "W": (10, 400)}, "N H W 4",
        lambda x: torch.nn.functional.interpolate(x[None], scale_factor=2)[0], enlarged, ELEMENTS,
    ),
    Program(
        "subscripts", "channel shuffle",
        "def f(float(N,C,P) X) -> (O) { O(n,c,p) = X(n, (c % 3) * (C / 3) + c / 3, p) "
        "where c in 0:C }",
        {"N": (1, 30), "E": (3, 60), "P": (50, 5000)}, "N E P 3",
        lambda x: x.reshape(len(x), 3, -1, x.shape[2]).transpose(1, 2).reshape(x.shape),
        shuffled_channels, ELEMENTS, derived={"C": "E 3"},
    ),
    Program(
        "subscripts", "rolled",
        "def f(float(M,N) X) -> (O) { O(i,j) = X((i + 3) % M, (j + 5) % N) "
        "where i in 0:M, j in 0:N }",
        {"M": (100, 5000), "N": (100, 5000)}, "M N",
        lambda x: x.roll((-3, -5), (0, 1)), rolled, ELEMENTS,
    ),
    Program(
        "subscripts", "cyclic filter",
        "def f(float(M,N) X, float(K) w) -> (O) { O(i,j) +=! w(k) * X(i, (j + k) % N) "
        "where j in 0:N }",
        {"M": (50, 2000), "N": (100, 3000), "K": (3, 9)}, "M N K",
        lambda x, w: sum(w[k] * x.roll(-k, 1) for k in range(len(w))), cyclic, (1e6, 4e7),
    ),
)  # fmt: skip


PROGRAMS = (*TRANSPOSES, *GATHERS, *SUBSCRIPTS)
