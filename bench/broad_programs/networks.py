"""Attention and normalisations."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
from numba import prange

from bench.broad_programs.lazy_torch import F
from bench.broad_programs.program import ELEMENTS, FUNCTIONS, Program

ZERO = np.float32(0)
ONE = np.float32(1)
EPS = 1e-5


def attention(q, k, v):
    o = np.zeros((q.shape[0], q.shape[1], v.shape[2]), np.float32)
    scale = ONE / math.sqrt(np.float32(q.shape[2]))
    for bt in prange(q.shape[0] * q.shape[1]):
        b, t = bt // q.shape[1], bt % q.shape[1]
        s = np.empty(k.shape[1], np.float32)
        most = np.float32(-np.inf)
        for u in range(k.shape[1]):
            total = ZERO
            for d in range(q.shape[2]):
                total += q[b, t, d] * k[b, u, d]
            s[u] = total * scale
            most = max(most, s[u])
        whole = ZERO
        for u in range(k.shape[1]):
            s[u] = math.exp(s[u] - most)
            whole += s[u]
        for u in range(k.shape[1]):
            weight = s[u] / whole
            for e in range(v.shape[2]):
                o[b, t, e] += weight * v[b, u, e]
    return o


def one_query(q, k, v):
    o = np.zeros((q.shape[0], v.shape[2]), np.float32)
    scale = ONE / math.sqrt(np.float32(q.shape[1]))
    for h in prange(q.shape[0]):
        s = np.empty(k.shape[1], np.float32)
        most = np.float32(-np.inf)
        for u in range(k.shape[1]):
            total = ZERO
            for d in range(q.shape[1]):
                total += q[h, d] * k[h, u, d]
            s[u] = total * scale
            most = max(most, s[u])
        whole = ZERO
        for u in range(k.shape[1]):
            s[u] = math.exp(s[u] - most)
            whole += s[u]
        for u in range(k.shape[1]):
            weight = s[u] / whole
            for e in range(v.shape[2]):
                o[h, e] += weight * v[h, u, e]
    return o


def causal_attention(q, k, v):
    o = np.zeros(q.shape, np.float32)
    scale = ONE / math.sqrt(np.float32(q.shape[2]))
    for ht in prange(q.shape[0] * q.shape[1]):
        h, t = ht // q.shape[1], ht % q.shape[1]
        s = np.empty(t + 1, np.float32)
        most = np.float32(-np.inf)
        for u in range(t + 1):
            total = ZERO
            for d in range(q.shape[2]):
                total += q[h, t, d] * k[h, u, d]
            s[u] = total * scale
            most = max(most, s[u])
        whole = ZERO
        for u in range(t + 1):
            s[u] = math.exp(s[u] - most)
            whole += s[u]
        for u in range(t + 1):
            weight = s[u] / whole
            for e in range(v.shape[2]):
                o[h, t, e] += weight * v[h, u, e]
    return o


def linear_attention(q, k, v):
    o = np.zeros((q.shape[0], q.shape[1], v.shape[2]), np.float32)
    for b in prange(q.shape[0]):
        state = np.zeros((q.shape[2], v.shape[2]), np.float32)
        for u in range(k.shape[1]):
            for d in range(q.shape[2]):
                for e in range(v.shape[2]):
                    state[d, e] += k[b, u, d] * v[b, u, e]
        for t in range(q.shape[1]):
            for d in range(q.shape[2]):
                for e in range(v.shape[2]):
                    o[b, t, e] += q[b, t, d] * state[d, e]
    return o


ATTENTION = (
    Program(
        "attention", "heads",
        """
        def f(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
          s(b,t,u) +=! Q(b,t,d) * K(b,u,d) / sqrt(D)
          m(b,t) max=! s(b,t,u)
          p(b,t,u) = exp(s(b,t,u) - m(b,t))
          z(b,t) +=! p(b,t,u)
          O(b,t,e) +=! p(b,t,u) * V(b,u,e) / z(b,t)
        }""",
        {"B": (2, 24), "T": (30, 500), "S": (30, 500), "D": (16, 128), "E": (16, 128)}, "B T S D 2",
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0], attention,
        (4e6, 2e8),
    ),
    Program(
        "attention", "one query",
        """
        def f(float(H,D) q, float(H,S,D) K, float(H,S,E) V) -> (O) {
          s(h,u) +=! q(h,d) * K(h,u,d) / sqrt(D)
          m(h) max=! s(h,u)
          p(h,u) = exp(s(h,u) - m(h))
          z(h) +=! p(h,u)
          O(h,e) +=! p(h,u) * V(h,u,e) / z(h)
        }""",
        {"H": (4, 64), "S": (100, 4000), "D": (32, 128), "E": (32, 128)}, "H S D 2",
        lambda q, k, v: F.scaled_dot_product_attention(q[None, :, None], k[None], v[None])[0, :, 0],
        one_query, (4e5, 2e7),
    ),
    Program(
        "attention", "causal",
        """
        def f(float(H,T,D) Q, float(H,T,D) K, float(H,T,D) V) -> (O) {
          s(h,t,u) +=! Q(h,t,d) * K(h,u,d)
          x(h,t,u) = u <= t ? s(h,t,u) / sqrt(float(D)) : -1e30
          m(h,t) max=! x(h,t,u)
          p(h,t,u) = exp(x(h,t,u) - m(h,t))
          z(h,t) +=! p(h,t,u)
          O(h,t,e) +=! p(h,t,u) * V(h,u,e) / z(h,t)
        }""",
        {"H": (2, 24), "T": (50, 600), "D": (16, 128)}, "H T T D 2",
        lambda q, k, v: F.scaled_dot_product_attention(
            q[None], k[None], v[None], is_causal=True
        )[0],
        causal_attention, (4e6, 2e8),
    ),
    Program(
        "attention", "linear",
        """
        def f(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
          state(b,d,e) +=! K(b,u,d) * V(b,u,e)
          O(b,t,e) +=! Q(b,t,d) * state(b,d,e)
        }""",
        {"B": (2, 24), "T": (50, 1000), "S": (50, 1000), "D": (16, 100), "E": (16, 100)},
        "B S D E 2", lambda q, k, v: q @ (k.transpose(1, 2) @ v), linear_attention,
    ),
)  # fmt: skip


def softmax(x):
    o = np.empty_like(x)
    for n in prange(x.shape[0]):
        most = x[n, 0]
        for d in range(x.shape[1]):
            most = max(most, x[n, d])
        total = ZERO
        for d in range(x.shape[1]):
            e = math.exp(x[n, d] - most)
            o[n, d] = e
            total += e
        scale = ONE / total
        for d in range(x.shape[1]):
            o[n, d] *= scale
    return o


def log_softmax(x):
    o = np.empty_like(x)
    for n in prange(x.shape[0]):
        most = x[n, 0]
        for d in range(x.shape[1]):
            most = max(most, x[n, d])
        total = ZERO
        for d in range(x.shape[1]):
            total += math.exp(x[n, d] - most)
        shift = most + math.log(total)
        for d in range(x.shape[1]):
            o[n, d] = x[n, d] - shift
    return o


def column_softmax(x):
    """Threads share the columns in strips."""
    o = np.empty_like(x)
    strip = 64
    for part in prange((x.shape[1] + strip - 1) // strip):
        first, last = part * strip, min((part + 1) * strip, x.shape[1])
        most = np.full(last - first, -np.inf, np.float32)
        total = np.zeros(last - first, np.float32)
        for n in range(x.shape[0]):
            for d in range(first, last):
                most[d - first] = max(most[d - first], x[n, d])
        for n in range(x.shape[0]):
            for d in range(first, last):
                o[n, d] = math.exp(x[n, d] - most[d - first])
                total[d - first] += o[n, d]
        for n in range(x.shape[0]):
            for d in range(first, last):
                o[n, d] /= total[d - first]
    return o


def layernorm(x, gamma, beta, eps):
    o = np.empty_like(x)
    count = np.float32(x.shape[1])
    for n in prange(x.shape[0]):
        total = ZERO
        for d in range(x.shape[1]):
            total += x[n, d]
        mean = total / count
        spread = ZERO
        for d in range(x.shape[1]):
            spread += (x[n, d] - mean) * (x[n, d] - mean)
        scale = ONE / math.sqrt(spread / count + np.float32(eps))
        for d in range(x.shape[1]):
            o[n, d] = (x[n, d] - mean) * scale * gamma[d] + beta[d]
    return o


def rmsnorm(x, gamma, eps):
    o = np.empty_like(x)
    count = np.float32(x.shape[1])
    for n in prange(x.shape[0]):
        total = ZERO
        for d in range(x.shape[1]):
            total += x[n, d] * x[n, d]
        scale = ONE / math.sqrt(total / count + np.float32(eps))
        for d in range(x.shape[1]):
            o[n, d] = x[n, d] * scale * gamma[d]
    return o


def batchnorm(x, mean, var, gamma, beta, eps):
    o = np.empty_like(x)
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        scale = gamma[c] / math.sqrt(var[c] + np.float32(eps))
        shift = beta[c] - mean[c] * scale
        for p in range(x.shape[2]):
            o[n, c, p] = x[n, c, p] * scale + shift
    return o


def instancenorm(x, eps):
    o = np.empty_like(x)
    count = np.float32(x.shape[2])
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        total = ZERO
        for p in range(x.shape[2]):
            total += x[n, c, p]
        mean = total / count
        spread = ZERO
        for p in range(x.shape[2]):
            spread += (x[n, c, p] - mean) * (x[n, c, p] - mean)
        scale = ONE / math.sqrt(spread / count + np.float32(eps))
        for p in range(x.shape[2]):
            o[n, c, p] = (x[n, c, p] - mean) * scale
    return o


def standardised_columns(x, eps):
    strip = 64
    o = np.empty_like(x)
    count = np.float32(x.shape[0])
    for part in prange((x.shape[1] + strip - 1) // strip):
        first, last = part * strip, min((part + 1) * strip, x.shape[1])
        mean = np.zeros(last - first, np.float32)
        spread = np.zeros(last - first, np.float32)
        for n in range(x.shape[0]):
            for d in range(first, last):
                mean[d - first] += x[n, d] / count
        for n in range(x.shape[0]):
            for d in range(first, last):
                difference = x[n, d] - mean[d - first]
                spread[d - first] += difference * difference / count
        for n in range(x.shape[0]):
            for d in range(first, last):
                scale = ONE / math.sqrt(spread[d - first] + np.float32(eps))
                o[n, d] = (x[n, d] - mean[d - first]) * scale
    return o


ROWS = {"N": (50, 5000), "D": (50, 5000)}

NORMS = (
    Program(
        "norms", "softmax",
        """
        def f(float(N,D) X) -> (O) {
          m(n) max=! X(n,d)
          e(n,d) = exp(X(n,d) - m(n))
          z(n) +=! e(n,d)
          O(n,d) = e(n,d) / z(n)
        }""",
        ROWS, "N D", lambda x: x.softmax(1), softmax, FUNCTIONS, values=(-4, 4),
    ),
    Program(
        "norms", "logarithm of softmax",
        """
        def f(float(N,D) X) -> (O) {
          m(n) max=! X(n,d)
          z(n) +=! exp(X(n,d) - m(n))
          O(n,d) = X(n,d) - m(n) - log(z(n))
        }""",
        ROWS, "N D", lambda x: x.log_softmax(1), log_softmax, FUNCTIONS, values=(-4, 4),
    ),
    Program(
        "norms", "softmax of columns",
        """
        def f(float(N,D) X) -> (O) {
          m(d) max=! X(n,d)
          e(n,d) = exp(X(n,d) - m(d))
          z(d) +=! e(n,d)
          O(n,d) = e(n,d) / z(d)
        }""",
        ROWS, "N D", lambda x: x.softmax(0), column_softmax, FUNCTIONS, values=(-4, 4),
    ),
    Program(
        "norms", "layernorm",
        """
        def f(float(N,D) X, float(D) gamma, float(D) beta, float eps) -> (O) {
          mean(n) +=! X(n,d) / D
          var(n) +=! (X(n,d) - mean(n)) * (X(n,d) - mean(n)) / D
          O(n,d) = (X(n,d) - mean(n)) * rsqrt(var(n) + eps) * gamma(d) + beta(d)
        }""",
        ROWS, "N D", lambda x, g, b, eps: F.layer_norm(x, g.shape, g, b, eps), layernorm, ELEMENTS,
        scalars={"eps": EPS},
    ),
    Program(
        "norms", "rmsnorm",
        """
        def f(float(N,D) X, float(D) gamma, float eps) -> (O) {
          s(n) +=! X(n,d) * X(n,d)
          O(n,d) = X(n,d) * rsqrt(s(n) / D + eps) * gamma(d)
        }""",
        ROWS, "N D", lambda x, g, eps: F.rms_norm(x, g.shape, g, eps), rmsnorm, ELEMENTS,
        scalars={"eps": EPS},
    ),
    Program(
        "norms", "batchnorm",
        """
        def f(float(N,C,P) X, float(C) mean, float(C) var, float(C) gamma, float(C) beta, float eps)
        -> (O) { O(n,c,p) = (X(n,c,p) - mean(c)) * rsqrt(var(c) + eps) * gamma(c) + beta(c) }""",
        {"N": (1, 32), "C": (8, 300), "P": (49, 5000)}, "N C P",
        lambda x, m, v, g, b, eps: F.batch_norm(x, m, v, g, b, False, 0.1, eps), batchnorm,
        ELEMENTS, ranges={"var": (0.1, 1)}, scalars={"eps": EPS},
    ),
    Program(
        "norms", "instancenorm",
        """
        def f(float(N,C,P) X, float eps) -> (O) {
          mean(n,c) +=! X(n,c,p) / P
          var(n,c) +=! (X(n,c,p) - mean(n,c)) * (X(n,c,p) - mean(n,c)) / P
          O(n,c,p) = (X(n,c,p) - mean(n,c)) * rsqrt(var(n,c) + eps)
        }""",
        {"N": (1, 32), "C": (8, 300), "P": (49, 5000)}, "N C P",
        lambda x, eps: F.instance_norm(x, eps=eps), instancenorm, ELEMENTS, scalars={"eps": EPS},
    ),
    Program(
        "norms", "columns standardised",
        """
        def f(float(N,D) X, float eps) -> (O) {
          mean(d) +=! X(n,d) / N
          var(d) +=! (X(n,d) - mean(d)) * (X(n,d) - mean(d)) / N
          O(n,d) = (X(n,d) - mean(d)) * rsqrt(var(d) + eps)
        }""",
        ROWS, "N D",
        lambda x, eps: (x - x.mean(0)) * (x.var(0, unbiased=False) + eps).rsqrt(),
        standardised_columns, ELEMENTS, scalars={"eps": EPS},
    ),
)  # fmt: skip


PROGRAMS = (*ATTENTION, *NORMS)
