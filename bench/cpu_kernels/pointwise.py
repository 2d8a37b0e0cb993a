"""Kernels bound by memory: normalisations, transposition, and a sum over transposed data."""

from __future__ import annotations

import numpy as np

from bench.cpu_kernels.kernel import Array, Kernel, program

EPS = 1e-5
GROUPNORM = """
def groupnorm(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta, float eps) -> (O) {
  mean(n,g) +=! I(n,g,d,h,w) / (D * H * W)
  var(n,g) +=! (I(n,g,d,h,w) - mean(n,g)) * (I(n,g,d,h,w) - mean(n,g)) / (D * H * W)
  O(n,g,d,h,w) = (I(n,g,d,h,w) - mean(n,g)) * rsqrt(var(n,g) + eps) * gamma(g,d) + beta(g,d)
}
"""
MOMENTS = """
def moments(float(N,D) I) -> (mean, var) {
  mean(n) +=! I(n,d) / D
  var(n) +=! (I(n,d) - mean(n)) * (I(n,d) - mean(n)) / D
}
"""
TRANSPOSE = """
def transpose4d(float(A,B,C,D) I) -> (O) {
  O(a,c,b,d) = I(a,b,c,d)
}
"""
TO_CHANNELS_LAST = """
def to_channels_last(float(N,C,H,W) I) -> (O) {
  O(n,h,w,c) = I(n,c,h,w)
}
"""
SUM_LOG = """
def sum_log(float(M,N) X, float(N,M) Y) -> (s) {
  s +=! X(i,j) * log(Y(j,i))
}
"""


def softmax(n: int, d: int) -> Kernel:
    def reference(x: Array) -> Array:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return Kernel(
        name=f"softmax {n}x{d}",
        family="softmax",
        text=program("stable_softmax"),
        shapes={"I": (n, d)},
        outputs={"O": (n, d)},
        reference=reference,
        flops=5 * n * d,
        terms=d,
        low=-4,
        high=4,
    )


def layernorm(n: int, d: int) -> Kernel:
    def reference(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt(x.var(1, keepdims=True) + eps) * gamma + beta

    return Kernel(
        name=f"layernorm {n}x{d}",
        family="layernorm",
        text=program("layernorm"),
        shapes={"I": (n, d), "gamma": (d,), "beta": (d,), "eps": ()},
        scalars={"eps": EPS},
        outputs={"O": (n, d)},
        reference=reference,
        flops=7 * n * d,
        terms=d,
    )


def groupnorm(n: int, g: int, d: int, h: int, w: int) -> Kernel:
    def reference(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
        mean = x.mean((2, 3, 4), keepdims=True)
        scaled = (x - mean) / np.sqrt(x.var((2, 3, 4), keepdims=True) + eps)
        return scaled * gamma[..., None, None] + beta[..., None, None]

    return Kernel(
        name=f"groupnorm {n}x{g}x{d}x{h}x{w}",
        family="groupnorm",
        text=GROUPNORM,
        shapes={"I": (n, g, d, h, w), "gamma": (g, d), "beta": (g, d), "eps": ()},
        scalars={"eps": EPS},
        outputs={"O": (n, g, d, h, w)},
        reference=reference,
        flops=7 * n * g * d * h * w,
        terms=d * h * w,
    )


def moments(n: int, d: int) -> Kernel:
    return Kernel(
        name=f"moments {n}x{d}",
        family="moments",
        text=MOMENTS,
        shapes={"I": (n, d)},
        outputs={"mean": (n,), "var": (n,)},
        reference=lambda x: (x.mean(1), x.var(1)),
        flops=4 * n * d,
        terms=d,
    )


def transpose4d(a: int, b: int, c: int, d: int) -> Kernel:
    return Kernel(
        name=f"transpose4d {a}x{b}x{c}x{d}",
        family="transpose4d",
        text=TRANSPOSE,
        shapes={"I": (a, b, c, d)},
        outputs={"O": (a, c, b, d)},
        reference=lambda x: x.transpose(0, 2, 1, 3),
        flops=0,
        terms=1,
    )


def to_channels_last(n: int, c: int, h: int, w: int) -> Kernel:
    return Kernel(
        name=f"to_channels_last {n}x{c}x{h}x{w}",
        family="to_channels_last",
        text=TO_CHANNELS_LAST,
        shapes={"I": (n, c, h, w)},
        outputs={"O": (n, h, w, c)},
        reference=lambda x: x.transpose(0, 2, 3, 1),
        flops=0,
        terms=1,
    )


def sum_log(m: int, n: int) -> Kernel:
    """Inputs lie from 1 to 3, so that no logarithm is negative, and the terms do not cancel."""
    return Kernel(
        name=f"sum_log {m}x{n}",
        family="sum_log",
        text=SUM_LOG,
        shapes={"X": (m, n), "Y": (n, m)},
        outputs={"s": ()},
        reference=lambda x, y: np.sum(x * np.log(y).T),
        flops=3 * m * n,
        terms=m * n,
        low=1,
        high=3,
    )
