"""Kernels that are sums of products, and the pairwise distances that come close."""

from __future__ import annotations

import numpy as np

from bench.cpu_kernels.kernel import Array, Kernel, program

BMM_REV = """
def bmm_rev(float(M,K,B) X, float(N,B,K) Y) -> (Z) {
  Z(b,m,n) +=! X(m,k,b) * Y(n,b,k)
}
"""
MTTKRP = """
def mttkrp(float(I,K,L) A, float(K,R) B, float(L,R) C) -> (D) {
  D(i,r) +=! A(i,k,l) * B(k,r) * C(l,r)
}
"""
DISTANCES = """
def l2diff(float(M,D) A, float(N,D) B) -> (O) {
  O(i,j) +=! (A(i,d) - B(j,d)) * (A(i,d) - B(j,d))
}
"""
EXPANDED = """
def l2gemm(float(M,D) A, float(N,D) B) -> (O) {
  a(i) +=! A(i,d) * A(i,d)
  b(j) +=! B(j,d) * B(j,d)
  ab(i,j) +=! A(i,d) * B(j,d)
  O(i,j) = a(i) + b(j) - 2 * ab(i,j)
}
"""

HALF = """
def half_product(half(M,K) A, half(K,N) B) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
}
"""


def tmm(m: int, k: int, n: int) -> Kernel:
    return Kernel(
        name=f"tmm {m}x{k}x{n}",
        family="tmm",
        text=program("tmm"),
        shapes={"A": (m, k), "B": (n, k)},
        outputs={"C": (m, n)},
        reference=lambda a, b: a @ b.T,
        flops=2 * m * k * n,
        terms=k,
    )


def c3(b: int, wx: int, wy: int) -> Kernel:
    return Kernel(
        name=f"c3 {b}x{wx}x{wy}",
        family="tmm",
        text=program("C3"),
        shapes={"I": (b, wx), "W": (wy, wx)},
        outputs={"C3": (b, wy)},
        reference=lambda i, w: i @ w.T,
        flops=2 * b * wx * wy,
        terms=wx,
    )


def tbmm(b: int, n: int, m: int, k: int) -> Kernel:
    return Kernel(
        name=f"tbmm {b}x{n}x{m}x{k}",
        family="tbmm",
        text=program("tbmm"),
        shapes={"X": (b, n, m), "Y": (b, k, m)},
        outputs={"Z": (b, n, k)},
        reference=lambda x, y: x @ y.transpose(0, 2, 1),
        flops=2 * b * n * m * k,
        terms=m,
    )


def bmm_rev(b: int, m: int, k: int, n: int) -> Kernel:
    """Batched products with the batch innermost in one operand and in the middle of the other."""
    return Kernel(
        name=f"bmm_rev {b}x{m}x{k}x{n}",
        family="bmm_rev",
        text=BMM_REV,
        shapes={"X": (m, k, b), "Y": (n, b, k)},
        outputs={"Z": (b, m, n)},
        reference=lambda x, y: x.transpose(2, 0, 1) @ y.transpose(1, 2, 0),
        flops=2 * b * m * k * n,
        terms=k,
    )


def outer_product(p: int, q: int, r: int, s: int, t: int) -> Kernel:
    return Kernel(
        name=f"outerProductMM {p}x{q}x{r}x{s}x{t}",
        family="outer_product",
        text=program("outerProductMM"),
        shapes={"A": (p, q, r), "B": (s, r, t)},
        outputs={"O": (p, s, q, t)},
        reference=lambda a, b: a[:, None] @ b[None],
        flops=2 * p * s * q * t * r,
        terms=r,
    )


def mttkrp(i: int, k: int, l: int, r: int) -> Kernel:  # noqa: E741
    """Counted in its factored form, one matrix product over `l` and a sum over `k`."""
    return Kernel(
        name=f"mttkrp {i}x{k}x{l}x{r}",
        family="mttkrp",
        text=MTTKRP,
        shapes={"A": (i, k, l), "B": (k, r), "C": (l, r)},
        outputs={"D": (i, r)},
        reference=lambda a, b, c: ((a @ c) * b).sum(1),
        flops=2 * i * k * r * (l + 1),
        terms=k * l,
    )


def l2diff(m: int, n: int, d: int) -> Kernel:
    def reference(a: Array, b: Array) -> Array:
        return np.stack([np.square(row - b).sum(1) for row in a])

    return Kernel(
        name=f"l2diff {m}x{n}x{d}",
        family="l2diff",
        text=DISTANCES,
        shapes={"A": (m, d), "B": (n, d)},
        outputs={"O": (m, n)},
        reference=reference,
        flops=3 * m * n * d,
        terms=d,
    )


def l2gemm(m: int, n: int, d: int) -> Kernel:
    def reference(a: Array, b: Array) -> Array:
        return np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T

    return Kernel(
        name=f"l2gemm {m}x{n}x{d}",
        family="l2gemm",
        text=EXPANDED,
        shapes={"A": (m, d), "B": (n, d)},
        outputs={"O": (m, n)},
        reference=reference,
        flops=2 * m * n * d + 2 * (m + n) * d + 3 * m * n,
        terms=d,
    )


def sgemm(n: int, m: int, k: int) -> Kernel:
    """The BLAS function of Figure 1 in Vasilache et al. 2018: C is read and updated in place. With
    `b` below 1 the values stay bounded however often it runs."""
    return Kernel(
        name=f"sgemm {n}x{m}x{k}",
        family="sgemm",
        text=program("sgemm"),
        shapes={"a": (), "b": (), "A": (n, m), "B": (m, k)},
        scalars={"a": 1.5, "b": 0.5},
        outputs={"C": (n, k)},
        updates=True,
        reference=lambda c, a, b, x, y: b * c + a * (x @ y),
        flops=2 * n * m * k,
        terms=m,
    )


def half_product(n: int, m: int, k: int) -> Kernel:
    """Added up in float32, and rounded once (Y8), as libraries do."""
    return Kernel(
        name=f"half {n}x{m}x{k}",
        family="half",
        text=HALF,
        shapes={"A": (n, m), "B": (m, k)},
        outputs={"C": (n, k)},
        reference=lambda a, b: a @ b,
        flops=2 * n * m * k,
        terms=m,
        dtype=np.float16,
    )
