"""Honest kernels: functions of JAX, some under its transformations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verification.corpus import Corpus, Honest

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp, lax = jax.numpy, jax.lax
"""On processors JAX takes numbers below the least normal one for 0, also in comparisons."""

kernels = Corpus("jax")
computes = kernels.computes


# --- contractions -----------------------------------------------------------------------------


@computes("def matmul(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
@jax.jit
def matmul(A, B):
    return A @ B


@computes("def heads(float(B,Q,H,D) q, float(B,K,H,D) k) -> (s) {"
          " s(b,h,i,j) +=! q(b,i,h,d) * k(b,j,h,d) }")  # fmt: skip
def heads(q, k):
    return jnp.einsum("bihd,bjhd->bhij", q, k)


@computes("def dots(float(N,D) x, float(N,D) y) -> (o) { o(n) +=! x(n,d) * y(n,d) }")
def dots(x, y):
    return jax.vmap(jnp.dot)(x, y)


@computes("def half_matmul(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
def half_matmul(A, B):
    return jnp.matmul(A, B, preferred_element_type="float32").astype("float16")


@computes("""
def int8_matmul(int8(M,K) A, int8(K,N) B) -> (C) {
  C(i,j) +=! int(A(i,k)) * int(B(k,j))
}""")
@jax.jit
def int8_matmul(A, B):
    return lax.dot(A, B, preferred_element_type="int32")


@computes("def kron(float(I,J) a, float(K,L) b) -> (o) { o(i,k,j,l) = a(i,j) * b(k,l) }")
def kron(a, b):
    return a[:, None, :, None] * b[None, :, None, :]


@computes("def lower(float(N,N) L, float(N) x) -> (y) { y(i) +=! L(i,j) * x(j) where j in 0:i+1 }")
@jax.jit
def lower(L, x):
    return jnp.tril(L * x).sum(1)


# --- convolutions, windows and stencils -------------------------------------------------------


@computes(
    "def conv2d(float(N,C,H,W) x, float(M,C,KH,KW) w) -> (o) {"
    " o(n,m,i,j) +=! x(n,c,i+p,j+q) * w(m,c,p,q) }",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def conv2d(x, w):
    return lax.conv(x, w, (1, 1), "VALID")


@computes(
    """
def conv_nhwc(float(N,H,W,C) x, float(KH,KW,C,M) w) -> (o) {
  o(n,i,j,m) +=! pad(x(n, 2*i + p - 1, 2*j + q - 1, c), 0) * w(p,q,c,m)
    where i in 0:(H + 2 - KH) / 2 + 1, j in 0:(W + 2 - KW) / 2 + 1
}""",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def conv_nhwc(x, w):
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(padded, w, (2, 2), "VALID", dimension_numbers=layout)


@computes(
    "def max_pool(float(N,C,H,W) x) -> (o) {"
    " o(n,c,h,w) max=! x(n,c,2*h+i,2*w+j) where i in 0:3, j in 0:3 }",
    H=(3, 7), W=(3, 7),
)  # fmt: skip
def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "VALID")


@computes("def window_sums(float(N) x) -> (o) { o(i) +=! x(i+k) where k in 0:3 }", N=(3, 8))
@jax.jit
def window_sums(x):
    return lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID")


@computes(
    """
def laplacian(float(N,M) a) -> (o) {
  o(i,j) = a(i,j+1) + a(i+2,j+1) + a(i+1,j) + a(i+1,j+2) - 4 * a(i+1,j+1)
}""",
    N=(3, 7), M=(3, 7),
)  # fmt: skip
@jax.jit
def laplacian(a):
    around = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    return around - 4 * a[1:-1, 1:-1]


# --- reductions -------------------------------------------------------------------------------


@computes("def cumsum(float(B,T) x) -> (o) { o(b,t) +=! x(b,s) where s in 0:t+1 }")
def cumsum(x):
    return jnp.cumsum(x, 1)


@computes("def running_max(float(N) x) -> (o) { o(i) max=! x(j) where j in 0:i+1 }")
def running_max(x):
    return lax.cummax(x)


@computes("def behind(float(N) x) -> (o) { o(i) +=! x(j) where j in i:N, i in 0:N }")
@jax.jit
def behind(x):
    def step(total, value):
        return total + value, total + value

    return lax.scan(step, jnp.float32(0), x, reverse=True)[1]


@computes("def largest(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }")
def largest(x):
    return x.max(1), x.argmax(1)


@computes("def all_in(int(N,D) x, int most) -> (o) { o(n) min=! x(n,d) < most }")
def all_in(x, most):
    return jnp.all(x < most, 1)


@computes("""
def softmax(float(N,D) x) -> (o) {
  m(n) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(n))
  s(n) +=! e(n,d)
  o(n,d) = e(n,d) / s(n)
}""")
def softmax(x):
    return jax.nn.softmax(x, axis=1)


@computes("""
def logsumexp(float(N,D) x) -> (o) {
  m(n) max=! x(n,d)
  c(n) = fabs(m(n)) == inf() ? 0 : m(n)
  s(n) +=! exp(x(n,d) - c(n))
  o(n) = c(n) + log(s(n))
}""")
def logsumexp(x):
    return jax.nn.logsumexp(x, axis=1)


@computes("""
def layer_norm(float(N,D) x, float(D) g, float(D) b) -> (o) {
  s(n) +=! x(n,d)
  v(n) +=! (x(n,d) - s(n) / D) * (x(n,d) - s(n) / D)
  o(n,d) = (x(n,d) - s(n) / D) / sqrt(v(n) / D + 1e-5) * g(d) + b(d)
}""")
def layer_norm(x, g, b):
    def of_row(row):
        centred = row - row.mean()
        return centred / jnp.sqrt(jnp.square(centred).mean() + 1e-5) * g + b

    return jax.vmap(of_row)(x)


# --- gathers and scatters ---------------------------------------------------------------------


@computes("def segments(int(N) k, float(N,D) x) -> (o) { o(k(n),d) +=! x(n,d) where o.0 = 7 }",
          k=7)  # fmt: skip
def segments(k, x):
    return jax.ops.segment_sum(x, k, num_segments=7)


@computes("def largest_by_key(int(N) k, float(N) x) -> (o) {"
          " o(k(n)) max=! x(n) where o.0 = 5 }", k=5)  # fmt: skip
def largest_by_key(k, x):
    return jax.ops.segment_max(x, k, num_segments=5)


@computes("def counts(int(N) I, int(N) J) -> (h) {"
          " h(I(n),J(n)) +=! 1 where h.0 = 4, h.1 = 5 }", I=4, J=5)  # fmt: skip
@jax.jit
def counts(index, J):
    return jnp.zeros((4, 5), "int32").at[index, J].add(1)


@computes("def picked(float(N,M) x, int(N,K) I) -> (o) { o(n,k) = x(n,I(n,k)) }", I="M")
def picked(x, index):
    return jnp.take_along_axis(x, index, 1)


@computes("def mixed(int(E) at, float(E) v, float(C) x, int(E) to) -> (y) {"
          " y(to(e)) +=! v(e) * x(at(e)) where y.0 = 8 }", at="C", to=8)  # fmt: skip
@jax.jit
def mixed(at, v, x, to):
    return jnp.zeros(8, "float32").at[to].add(v * x[at])


# --- element-wise functions -------------------------------------------------------------------


@computes("def gelu(float(N,D) x, float(D) bias) -> (o) {"
          " y(n,d) = x(n,d) + bias(d)"
          "  o(n,d) = 0.5 * y(n,d) * (1 + tanh(0.7978845608 *"
          " (y(n,d) + 0.044715 * y(n,d) * y(n,d) * y(n,d)))) }")  # fmt: skip
@jax.jit
def gelu(x, bias):
    y = x + bias
    return 0.5 * y * (1 + jnp.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


@computes("""
def huber(float(N) x, float(N) y, float d) -> (loss) {
  e(i) = fabs(x(i) - y(i))
  s +=! e(i) <= d ? 0.5 * e(i) * e(i) : d * (e(i) - 0.5 * d)
  loss = s / N
}""")
def huber(x, y, d):
    e = jnp.abs(x - y)
    return jnp.where(e <= d, 0.5 * e * e, d * (e - 0.5 * d)).sum() / x.size


@computes("def flipped(float(N,M) x) -> (o) { o(j,i) = x(N-1-i,j) }")
def flipped(x):
    return x[::-1].T


@computes("def bits_apart(uint32(N) a, uint32(N) b) -> (o) { o(i) = popc(a(i) ^ b(i)) }",
          a=2**32, b=2**32)  # fmt: skip
@jax.jit
def bits_apart(a, b):
    return lax.population_count(a ^ b).astype("int32")


KERNELS: tuple[Honest, ...] = tuple(kernels)
