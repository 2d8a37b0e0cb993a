"""Matrix products that are thin or flat, batched, transposed, and of other types than float."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import torch
from bench.broad_programs.program import ELEMENTS, Program

ZERO = np.float32(0)
STRIP = 256
"""The columns to which one thread adds rows at a time."""
READ = (4e5, 2e7)
"""Elements of a matrix that is read once."""


def row_by_matrix(x, w):
    y = np.zeros(w.shape[1], np.float32)
    for strip in prange((w.shape[1] + STRIP - 1) // STRIP):
        first, last = strip * STRIP, min((strip + 1) * STRIP, w.shape[1])
        for k in range(w.shape[0]):
            for n in range(first, last):
                y[n] += x[k] * w[k, n]
    return y


def matrix_by_column(w, x):
    y = np.empty(w.shape[0], np.float32)
    for n in prange(w.shape[0]):
        total = ZERO
        for k in range(w.shape[1]):
            total += w[n, k] * x[k]
        y[n] = total
    return y


def dots(a, b):
    c = np.empty((a.shape[0], b.shape[0]), np.float32)
    for j in prange(b.shape[0]):
        for i in range(a.shape[0]):
            total = ZERO
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k]
            c[i, j] = total
    return c


def rows_added(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for i in prange(a.shape[0]):
        for k in range(a.shape[1]):
            scale = a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += scale * b[k, j]
    return c


def one_column(a, b):
    c = np.empty((a.shape[0], 1), np.float32)
    for i in prange(a.shape[0]):
        total = ZERO
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, 0]
        c[i, 0] = total
    return c


def strips_added(a, b):
    """Few rows: threads share the columns."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for strip in prange((b.shape[1] + STRIP - 1) // STRIP):
        first, last = strip * STRIP, min((strip + 1) * STRIP, b.shape[1])
        for k in range(a.shape[1]):
            for i in range(a.shape[0]):
                scale = a[i, k]
                for j in range(first, last):
                    c[i, j] += scale * b[k, j]
    return c


def deep_sums(a, b):
    """Each thread adds up a part of the depth in a tile of its own."""
    parts = 8
    depth = a.shape[0]
    partial = np.zeros((parts, a.shape[1], b.shape[1]), np.float32)
    for part in prange(parts):
        for k in range(part * depth // parts, (part + 1) * depth // parts):
            for i in range(a.shape[1]):
                for j in range(b.shape[1]):
                    partial[part, i, j] += a[k, i] * b[k, j]
    return partial.sum(0)


THIN = (
    Program(
        "thin", "row by matrix",
        "def f(float(K) x, float(K,N) W) -> (y) { y(n) +=! x(k) * W(k,n) }",
        {"K": (100, 5000), "N": (100, 5000)}, "K N",
        lambda x, w: x @ w, row_by_matrix, READ,
    ),
    Program(
        "thin", "matrix by column",
        "def f(float(N,K) W, float(K) x) -> (y) { y(n) +=! W(n,k) * x(k) }",
        {"K": (100, 5000), "N": (100, 5000)}, "K N",
        lambda w, x: w @ x, matrix_by_column, READ,
    ),
    Program(
        "thin", "layer of one row",
        "def f(float(M,K) X, float(N,K) W) -> (Y) { Y(m,n) +=! X(m,k) * W(n,k) }",
        {"M": (1, 1), "K": (100, 5000), "N": (100, 5000)}, "K N",
        lambda x, w: x @ w.t(), dots, READ,
    ),
    Program(
        "thin", "layer of few rows",
        "def f(float(M,K) X, float(N,K) W) -> (Y) { Y(m,n) +=! X(m,k) * W(n,k) }",
        {"M": (2, 9), "K": (200, 3000), "N": (200, 3000)}, "M K N",
        lambda x, w: x @ w.t(), dots, (1e6, 8e7),
    ),
    Program(
        "thin", "few rows",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (2, 9), "K": (200, 3000), "N": (200, 3000)}, "M K N",
        lambda a, b: a @ b, strips_added, (1e6, 8e7),
    ),
    Program(
        "thin", "few columns",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (500, 40000), "K": (30, 1000), "N": (2, 9)}, "M K N",
        lambda a, b: a @ b, rows_added, (1e6, 8e7),
    ),
    Program(
        "thin", "one column",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (500, 40000), "K": (30, 1000), "N": (1, 1)}, "M K",
        lambda a, b: a @ b, one_column, READ,
    ),
    Program(
        "thin", "shallow",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (150, 3000), "K": (8, 20), "N": (150, 3000)}, "M K N",
        lambda a, b: a @ b, rows_added, (4e6, 1e8),
    ),
    Program(
        "thin", "small by tall",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (3000, 100000), "K": (12, 70), "N": (12, 70)}, "M K N",
        lambda a, b: a @ b, rows_added, (4e6, 2e8),
    ),
    Program(
        "thin", "deep",
        "def f(float(K,M) A, float(K,N) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }",
        {"M": (6, 50), "K": (5000, 200000), "N": (6, 50)}, "M K N",
        lambda a, b: a.t() @ b, deep_sums, (4e6, 2e8),
    ),
)  # fmt: skip


def batched_rows(x, y):
    z = np.zeros((x.shape[0], x.shape[1], y.shape[2]), np.float32)
    for b in prange(x.shape[0]):
        for i in range(x.shape[1]):
            for k in range(x.shape[2]):
                scale = x[b, i, k]
                for j in range(y.shape[2]):
                    z[b, i, j] += scale * y[b, k, j]
    return z


def batch_innermost(x, y):
    z = np.zeros((x.shape[0], y.shape[1], x.shape[2]), np.float32)
    for i in prange(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(y.shape[1]):
                for b in range(x.shape[2]):
                    z[i, j, b] += x[i, k, b] * y[k, j, b]
    return z


def shared_right(x, w):
    z = np.zeros((x.shape[0], x.shape[1], w.shape[1]), np.float32)
    for b in prange(x.shape[0]):
        for i in range(x.shape[1]):
            for k in range(x.shape[2]):
                scale = x[b, i, k]
                for j in range(w.shape[1]):
                    z[b, i, j] += scale * w[k, j]
    return z


def batched_left_transposed(a, b):
    c = np.zeros((a.shape[0], a.shape[2], b.shape[2]), np.float32)
    for n in prange(a.shape[0]):
        for k in range(a.shape[1]):
            for i in range(a.shape[2]):
                scale = a[n, k, i]
                for j in range(b.shape[2]):
                    c[n, i, j] += scale * b[n, k, j]
    return c


def both_transposed(a, b):
    c = np.zeros((a.shape[1], b.shape[0]), np.float32)
    for i in prange(a.shape[1]):
        for j in range(b.shape[0]):
            total = ZERO
            for k in range(a.shape[0]):
                total += a[k, i] * b[j, k]
            c[i, j] = total
    return c


def heads_between(q, k):
    s = np.empty((q.shape[0], q.shape[2], q.shape[1], k.shape[1]), np.float32)
    for bh in prange(q.shape[0] * q.shape[2]):
        b, h = bh // q.shape[2], bh % q.shape[2]
        for t in range(q.shape[1]):
            for u in range(k.shape[1]):
                total = ZERO
                for d in range(q.shape[3]):
                    total += q[b, t, h, d] * k[b, u, h, d]
                s[b, h, t, u] = total
    return s


BATCHED = (
    Program(
        "batched", "many small",
        "def f(float(B,N,K) X, float(B,K,M) Y) -> (Z) { Z(b,i,j) +=! X(b,i,k) * Y(b,k,j) }",
        {"B": (300, 20000), "N": (3, 17), "K": (3, 17), "M": (3, 17)}, "B N K M",
        lambda x, y: x @ y, batched_rows, (1e6, 5e7),
    ),
    Program(
        "batched", "batched",
        "def f(float(B,N,K) X, float(B,K,M) Y) -> (Z) { Z(b,i,j) +=! X(b,i,k) * Y(b,k,j) }",
        {"B": (5, 200), "N": (20, 200), "K": (20, 200), "M": (20, 200)}, "B N K M",
        lambda x, y: x @ y, batched_rows,
    ),
    Program(
        "batched", "batch innermost",
        "def f(float(N,K,B) X, float(K,M,B) Y) -> (Z) { Z(i,j,b) +=! X(i,k,b) * Y(k,j,b) }",
        {"B": (30, 2000), "N": (5, 60), "K": (5, 60), "M": (5, 60)}, "B N K M",
        lambda x, y: (x.permute(2, 0, 1) @ y.permute(2, 0, 1)).permute(1, 2, 0), batch_innermost,
        (4e6, 1e8),
    ),
    Program(
        "batched", "shared right",
        "def f(float(B,N,K) X, float(K,M) W) -> (Z) { Z(b,i,j) +=! X(b,i,k) * W(k,j) }",
        {"B": (5, 100), "N": (10, 200), "K": (20, 300), "M": (20, 300)}, "B N K M",
        lambda x, w: x @ w, shared_right,
    ),
    Program(
        "batched", "left transposed",
        "def f(float(B,K,N) A, float(B,K,M) C) -> (Z) { Z(b,i,j) +=! A(b,k,i) * C(b,k,j) }",
        {"B": (5, 100), "N": (20, 200), "K": (20, 200), "M": (20, 200)}, "B N K M",
        lambda a, c: a.transpose(1, 2) @ c, batched_left_transposed,
    ),
    Program(
        "batched", "both transposed",
        "def f(float(K,N) A, float(M,K) B) -> (C) { C(i,j) +=! A(k,i) * B(j,k) }",
        {"N": (60, 900), "K": (60, 900), "M": (60, 900)}, "N K M",
        lambda a, b: a.t() @ b.t(), both_transposed,
    ),
    Program(
        "batched", "heads between",
        "def f(float(B,T,H,D) Q, float(B,U,H,D) K) -> (S) "
        "{ S(b,h,t,u) +=! Q(b,t,h,d) * K(b,u,h,d) }",
        {"B": (1, 4), "T": (30, 400), "U": (30, 400), "H": (2, 12), "D": (16, 128)}, "B T U H D",
        lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1), heads_between,
    ),
)  # fmt: skip


def int8_product(a, b, s, t):
    c = np.empty((a.shape[0], b.shape[0]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = np.int32(0)
            for k in range(a.shape[1]):
                total += np.int32(a[i, k]) * np.int32(b[j, k])
            c[i, j] = np.float32(total) * s[i] * t[j]
    return c


def int8_weights(x, w, s):
    y = np.empty((x.shape[0], w.shape[0]), np.float32)
    for n in prange(w.shape[0]):
        for b in range(x.shape[0]):
            total = ZERO
            for k in range(w.shape[1]):
                total += x[b, k] * np.float32(w[n, k])
            y[b, n] = total * s[n]
    return y


def complex_product(ar, ai, br, bi):
    cr = np.zeros((ar.shape[0], br.shape[1]), np.float32)
    ci = np.zeros((ar.shape[0], br.shape[1]), np.float32)
    for i in prange(ar.shape[0]):
        for k in range(ar.shape[1]):
            re, im = ar[i, k], ai[i, k]
            for j in range(br.shape[1]):
                cr[i, j] += re * br[k, j] - im * bi[k, j]
                ci[i, j] += re * bi[k, j] + im * br[k, j]
    return cr, ci


def complex_pairs(a, b):
    c = np.empty_like(a)
    for n in prange(a.shape[0]):
        c[n, 0] = a[n, 0] * b[n, 0] - a[n, 1] * b[n, 1]
        c[n, 1] = a[n, 0] * b[n, 1] + a[n, 1] * b[n, 0]
    return c


def byte_image(x, mean, scale):
    o = np.empty((x.shape[0], x.shape[3], x.shape[1], x.shape[2]), np.float32)
    for nc in prange(x.shape[0] * x.shape[3]):
        n, c = nc // x.shape[3], nc % x.shape[3]
        for h in range(x.shape[1]):
            for w in range(x.shape[2]):
                o[n, c, h, w] = (np.float32(x[n, h, w, c]) - mean[c]) * scale[c]
    return o


def double_by_column(w, x):
    y = np.empty(w.shape[0])
    for n in prange(w.shape[0]):
        total = 0.0
        for k in range(w.shape[1]):
            total += w[n, k] * x[k]
        y[n] = total
    return y


TYPES = (
    Program(
        "types", "doubles",
        "def f(double(M,K) A, double(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (60, 600), "K": (60, 600), "N": (60, 600)}, "M K N",
        lambda a, b: a @ b, rows_added,
    ),
    Program(
        "types", "double matrix by column",
        "def f(double(N,K) W, double(K) x) -> (y) { y(n) +=! W(n,k) * x(k) }",
        {"K": (100, 4000), "N": (100, 4000)}, "K N",
        lambda w, x: w @ x, double_by_column, READ,
    ),
    Program(
        "types", "halves",
        "def f(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": (60, 600), "K": (60, 600), "N": (60, 600)}, "M K N",
        lambda a, b: a @ b, None,
    ),
    Program(
        "types", "half activation",
        "def f(half(M,N) X, half(N) b) -> (Y) { Y(i,j) = max(X(i,j) + b(j), 0) }",
        {"M": (100, 5000), "N": (100, 5000)}, "M N",
        lambda x, b: (x + b).clamp(min=0), None, ELEMENTS,
    ),
    Program(
        "types", "int8 with scales",
        """
        def f(int8(M,K) A, int8(N,K) B, float(M) s, float(N) t) -> (C) {
          acc(i,j) +=! int32(A(i,k)) * int32(B(j,k))
          C(i,j) = float(acc(i,j)) * s(i) * t(j)
        }""",
        {"M": (30, 500), "K": (60, 1000), "N": (60, 600)}, "M K N",
        lambda a, b, s, t: (a.to(s.dtype) @ b.to(s.dtype).t()) * s[:, None] * t, int8_product,
    ),
    Program(
        "types", "int8 weights",
        """
        def f(float(B,K) X, int8(N,K) W, float(N) s) -> (Y) {
          sum(b,n) +=! X(b,k) * float(W(n,k))
          Y(b,n) = sum(b,n) * s(n)
        }""",
        {"B": (1, 8), "K": (200, 3000), "N": (200, 3000)}, "B K N",
        lambda x, w, s: (x @ w.to(x.dtype).t()) * s, int8_weights, (1e6, 5e7),
    ),
    Program(
        "types", "complex product",
        """
        def f(float(M,K) Ar, float(M,K) Ai, float(K,N) Br, float(K,N) Bi) -> (Cr, Ci) {
          Cr(i,j) +=! Ar(i,k) * Br(k,j) - Ai(i,k) * Bi(k,j)
          Ci(i,j) +=! Ar(i,k) * Bi(k,j) + Ai(i,k) * Br(k,j)
        }""",
        {"M": (40, 400), "K": (40, 400), "N": (40, 400)}, "M K N 4",
        lambda ar, ai, br, bi: (ar @ br - ai @ bi, ar @ bi + ai @ br), complex_product,
    ),
    Program(
        "types", "complex pairs",
        """
        def f(float(N,2) a, float(N,2) b) -> (c) {
          c(n,p) = p == 0 ? a(n,0) * b(n,0) - a(n,1) * b(n,1)
                          : a(n,0) * b(n,1) + a(n,1) * b(n,0) where p in 0:2
        }""",
        {"N": (100000, 4000000)}, "N 2",
        lambda a, b: torch.stack(
            (a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]), 1
        ),
        complex_pairs, ELEMENTS,
    ),
    Program(
        "types", "image of bytes",
        """
        def f(byte(N,H,W,C) x, float(C) mean, float(C) scale) -> (O) {
          O(n,c,h,w) = (float(x(n,h,w,c)) - mean(c)) * scale(c)
        }""",
        {"N": (1, 16), "H": (60, 500), "W": (60, 500), "C": (3, 4)}, "N H W C",
        lambda x, m, s: (x.permute(0, 3, 1, 2).to(m.dtype) - m[:, None, None]) * s[:, None, None],
        byte_image, ELEMENTS,
    ),
)  # fmt: skip


PROGRAMS = (*THIN, *BATCHED, *TYPES)
