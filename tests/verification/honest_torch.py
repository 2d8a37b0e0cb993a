"""Honest kernels: functions and modules of PyTorch, some compiled by torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.verification.corpus import Corpus, Honest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F, nn = torch.nn.functional, torch.nn
"""Left out are functions that differ for some inputs: layer_norm rounds means of integers that are
exact, scaled_dot_product_attention has 0 in rows of -inf, gelu takes a coarse erf, and convolutions
of tensors without channels have other shapes (so these texts have three)."""

kernels = Corpus("torch")
computes = kernels.computes


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compile makes of a function, at the first call: that imports a lot."""
    made = functools.cache(lambda: torch.compile(function, dynamic=True))

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        return made()(*inputs)

    return call


# --- contractions -----------------------------------------------------------------------------


@computes("def matmul(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
def matmul(A, B):
    return A @ B


@computes("def bmm(float(B,M,K) x, float(B,K,N) y) -> (o) { o(b,m,n) +=! x(b,m,k) * y(b,k,n) }")
def bmm(x, y):
    return torch.bmm(x, y)


@computes("def half_matmul(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
def half_matmul(A, B):
    return A @ B


@computes("""
def int8_matmul(int8(M,K) A, int8(N,K) B) -> (C) {
  C(i,j) +=! int(A(i,k)) * int(B(j,k))
}""")
def int8_matmul(A, B):
    return A.int() @ B.int().T


@computes("def bilinear(float(B,I) x, float(O,I,J) W, float(B,J) y) -> (o) {"
          " o(b,k) +=! x(b,i) * W(k,i,j) * y(b,j) }")  # fmt: skip
def bilinear(x, W, y):
    return torch.einsum("bi,kij,bj->bk", x, W, y)


class Linear(nn.Module):  # type: ignore[misc, name-defined]
    """A layer that takes its weights as inputs."""

    def forward(self, x: Any, w: Any, bias: Any) -> Any:
        return F.relu(F.linear(x, w, bias))


computes("""
def linear_relu(float(N,I) x, float(O,I) w, float(O) bias) -> (y) {
  s(n,o) +=! x(n,i) * w(o,i)
  y(n,o) = max(s(n,o) + bias(o), 0)
}""")(Linear())


@computes("""
def attention(float(B,Q,D) q, float(B,K,D) k, float(B,K,E) v) -> (o) {
  s(b,i,j) +=! q(b,i,d) * k(b,j,d)
  z(b,i,j) = s(b,i,j) / sqrt(float(D))
  m(b,i) max=! z(b,i,j)
  e(b,i,j) = exp(z(b,i,j) - m(b,i))
  t(b,i) +=! e(b,i,j)
  p(b,i,j) = e(b,i,j) / t(b,i)
  o(b,i,c) +=! p(b,i,j) * v(b,j,c)
}""")
def attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[2] ** 0.5, 2)
    return weights @ v


@computes("def lower(float(N,N) L, float(N) x) -> (y) { y(i) +=! L(i,j) * x(j) where j in 0:i+1 }")
def lower(L, x):
    return torch.tril(L * x).sum(1)


@computes("def distances(double(N,D) x, double(M,D) y) -> (d) {"
          " s(n,m) +=! (x(n,k) - y(m,k)) * (x(n,k) - y(m,k))  d(n,m) = sqrt(s(n,m)) }")  # fmt: skip
def distances(x, y):
    return (x[:, None] - y[None]).square().sum(2).sqrt()


# --- convolutions and pools -------------------------------------------------------------------


@computes(
    "def conv2d(float(N,3,H,W) x, float(M,3,KH,KW) w) -> (o) {"
    " o(n,m,i,j) +=! x(n,c,i+p,j+q) * w(m,c,p,q) }",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def conv2d(x, w):
    return F.conv2d(x, w)


@computes(
    """
def strided_conv2d(float(N,3,H,W) x, float(M,3,KH,KW) w, float(M) bias) -> (o) {
  s(n,m,i,j) +=! pad(x(n, c, 2*i + p - 1, 2*j + q - 1), 0) * w(m,c,p,q)
    where i in 0:(H + 2 - KH) / 2 + 1, j in 0:(W + 2 - KW) / 2 + 1
  o(n,m,i,j) = s(n,m,i,j) + bias(m)
}""",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def strided_conv2d(x, w, bias):
    return F.conv2d(F.pad(x, (1, 1, 1, 1)), w, bias, stride=2)


@computes(
    "def unfolded_conv2d(float(N,C,H,W) x, float(M,C,KH,KW) w) -> (o) {"
    " o(n,m,i,j) +=! x(n,c,i+p,j+q) * w(m,c,p,q) }",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def unfolded_conv2d(x, w):
    (N, _, H, W), (M, _, KH, KW) = x.shape, w.shape
    columns = F.unfold(x, (KH, KW))
    return (w.reshape(M, -1) @ columns).reshape(N, M, H - KH + 1, W - KW + 1)


@computes(
    "def depthwise(float(N,C,H,W) x, float(C,KH,KW) w) -> (o) {"
    " o(n,c,i,j) +=! x(n,c,i+p,j+q) * w(c,p,q) }",
    H=(4, 7), W=(4, 7), KH=(1, 3), KW=(1, 3),
)  # fmt: skip
def depthwise(x, w):
    return F.conv2d(x, w[:, None], groups=x.shape[1])


@computes(
    "def dilated(float(N,3,T) x, float(M,3,K) w) -> (o) { o(n,m,t) +=! x(n,c,t+2*k) * w(m,c,k) }",
    T=(7, 9), K=(1, 3),
)  # fmt: skip
def dilated(x, w):
    return F.conv1d(x, w, dilation=2)


@computes(
    """
def max_pool(float(N,C,H,W) x) -> (o) {
  o(n,c,h,w) max=! pad(x(n, c, 2*h + i - 1, 2*w + j - 1), -inf())
    where i in 0:3, j in 0:3, h in 0:(H - 1) / 2 + 1, w in 0:(W - 1) / 2 + 1
}""",
    H=(3, 7), W=(3, 7),
)  # fmt: skip
def max_pool(x):
    return F.max_pool2d(x, 3, stride=2, padding=1)


@computes(
    """
def avg_pool(float(N,C,H,W) x) -> (o) {
  s(n,c,h,w) +=! x(n, c, 2*h + i, 2*w + j) where i in 0:2, j in 0:2
  o(n,c,h,w) = s(n,c,h,w) / 4
}""",
    H=(3, 7), W=(3, 7),
)  # fmt: skip
def avg_pool(x):
    return F.avg_pool2d(x, 2)


@computes("def upsampled(float(N,C,H,W) x) -> (o) {"
          " o(n,c,h,w) = x(n,c,h/2,w/2) where h in 0:2*H, w in 0:2*W }")  # fmt: skip
def upsampled(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


# --- reductions and norms ---------------------------------------------------------------------


@computes("""
def softmax(float(N,D) x) -> (o) {
  m(n) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(n))
  s(n) +=! e(n,d)
  o(n,d) = e(n,d) / s(n)
}""")
def softmax(x):
    return F.softmax(x, 1)


@computes("""
def logsumexp(float(N,D) x) -> (o) {
  m(n) max=! x(n,d)
  c(n) = fabs(m(n)) == inf() ? 0 : m(n)
  s(n) +=! exp(x(n,d) - c(n))
  o(n) = c(n) + log(s(n))
}""")
def logsumexp(x):
    return torch.logsumexp(x, 1)


@computes(
    """
def cross_entropy(float(N,C) x, int(N) t) -> (loss) {
  m(n) max=! x(n,c)
  s(n) +=! exp(x(n,c) - m(n))
  p(n,c) = x(n,c) - m(n) - log(s(n))
  l +=! -p(n,t(n))
  loss = l / N
}""",
    t="C",
)
def cross_entropy(x, t):
    return F.cross_entropy(x, t.long())


@computes("""
def layer_norm(float(N,D) x, float(D) g, float(D) b) -> (o) {
  s(n) +=! x(n,d)
  v(n) +=! (x(n,d) - s(n) / D) * (x(n,d) - s(n) / D)
  o(n,d) = (x(n,d) - s(n) / D) / sqrt(v(n) / D + 1e-5) * g(d) + b(d)
}""")
def layer_norm(x, g, b):
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * g + b


@computes("""
def moments(double(N,D) x) -> (mean, variance) {
  s(n) +=! x(n,d)
  mean(n) = s(n) / D
  v(n) +=! (x(n,d) - mean(n)) * (x(n,d) - mean(n))
  variance(n) = v(n) / D
}""")
def moments(x):
    mean = x.mean(1)
    return mean, (x - mean[:, None]).square().mean(1)


@computes("def largest(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }")
def largest(x):
    m, at = torch.max(x, 1)
    return m, at.int()


@computes("def argmin(float(N) x) -> (at) { m, at min=! x(i), i }")
def argmin(x):
    return x.argmin().int()


@computes("def ranges(int(N,D) x) -> (r) { lo(n) min=! x(n,d)  hi(n) max=! x(n,d)"
          "  r(n) = hi(n) - lo(n) }")  # fmt: skip
def ranges(x):
    return x.amax(1) - x.amin(1)


@computes("def any_positive(float(N,D) x) -> (o) { o(n) max=! x(n,d) > 0 }")
def any_positive(x):
    return (x > 0).any(1)


@computes("def product(float(N,D) x) -> (p) { p(n) *=! x(n,d) }")
def product(x):
    return x.prod(1)


@computes("def cumsum(float(B,T) x) -> (o) { o(b,t) +=! x(b,s) where s in 0:t+1 }")
def cumsum(x):
    return x.cumsum(1)


# --- gathers and scatters ---------------------------------------------------------------------


@computes("def embedding(int(B,L) I, float(V,D) W) -> (o) { o(b,l,d) = W(I(b,l),d) }", I="V")
def embedding(index, W):
    return F.embedding(index, W)


@computes("def bags(int(B,L) I, float(V,D) W) -> (o) { o(b,d) +=! W(I(b,l),d) }", I="V")
def bags(index, W):
    return F.embedding_bag(index, W, mode="sum")


@computes("def gather(float(N,M) x, int(N,K) I) -> (o) { o(n,k) = x(n,I(n,k)) }", I="M")
def gather(x, index):
    return torch.gather(x, 1, index.long())


@computes("def points(float(N,M) x, int(K) I, int(K) J) -> (o) { o(k) = x(I(k),J(k)) }",
          I="N", J="M")  # fmt: skip
def points(x, index, J):
    return x[index, J]


@computes("def index_add(int(N) I, float(N,D) u) -> (o) { o(I(n),d) +=! u(n,d) where o.0 = 10 }",
          I=10)  # fmt: skip
def index_add(index, u):
    return u.new_zeros(10, u.shape[1]).index_add_(0, index, u)


@computes("def scatter(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = 10 }", I=10)
def scatter(index, x):
    return x.new_zeros(10).scatter_add_(0, index.long(), x)


@computes("def one_hot(int(N) I) -> (o) { o(n,I(n)) = 1.0 where o.1 = 10 }", I=10)
def one_hot(index):
    return F.one_hot(index.long(), 10).float()


@computes("""
def means(int(N) I, float(N) x) -> (o) {
  s(I(n)), c(I(n)) +=! x(n), 1 where s.0 = 6, c.0 = 6
  o(k) = c(k) > 0 ? s(k) / float(c(k)) : 0
}""", I=6)  # fmt: skip
def means(index, x):
    s = x.new_zeros(6).index_add_(0, index, x)
    c = torch.bincount(index, minlength=6)
    return torch.where(c > 0, s / c, 0)


@computes("def rolled(float(N,M) x, int k) -> (o) { o(i,j) = x((i + k) % N, j) where i in 0:N }")
def rolled(x, k):
    return torch.roll(x, -k, 0)


# --- element-wise functions -------------------------------------------------------------------


class Gate(nn.Module):  # type: ignore[misc, name-defined]
    """SwiGLU's product."""

    def forward(self, x: Any, gate: Any) -> Any:
        return F.silu(gate) * x


computes("def swiglu(float(N,D) x, float(N,D) gate) -> (o) {"
         " o(n,d) = gate(n,d) / (1 + exp(-gate(n,d))) * x(n,d) }")(Gate())  # fmt: skip


@computes("def clipped(float(N) x, float lo, float hi) -> (o) { o(i) = min(max(x(i), lo), hi) }")
def clipped(x, lo, hi):
    return x.clamp(lo, hi)


@computes("def chosen(float(N,M) x, float(M) y, bool(N,M) c) -> (o) {"
          " o(i,j) = c(i,j) ? x(i,j) : y(j) }")  # fmt: skip
def chosen(x, y, c):
    return torch.where(c, x, y)


@computes("def floored(int(N) a) -> (q, r) { q(i) = a(i) / 7  r(i) = a(i) % 7 }")
def floored(a):
    return torch.div(a, 7, rounding_mode="floor"), a % 7


# --- compiled ---------------------------------------------------------------------------------


@computes("def gelu(float(N,D) x, float(D) bias) -> (o) {"
          " y(n,d) = x(n,d) + bias(d)"
          "  o(n,d) = 0.5 * y(n,d) * (1 + tanh(0.7978845608028654 *"
          " (y(n,d) + 0.044715 * y(n,d) * y(n,d) * y(n,d)))) }")  # fmt: skip
@compiled
def gelu(x, bias):
    return F.gelu(x + bias, approximate="tanh")


@computes("""
def rms_norm(float(N,D) x, float(D) w) -> (o) {
  s(n) +=! x(n,d) * x(n,d)
  o(n,d) = x(n,d) * rsqrt(s(n) / D + 1e-6) * w(d)
}""")
@compiled
def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * w


@computes("def squared_error(float(N,D) x, float(N,D) y) -> (loss) {"
          " s +=! (x(n,d) - y(n,d)) * (x(n,d) - y(n,d))  loss = s / N / D }")  # fmt: skip
@compiled
def squared_error(x, y):
    return (x - y).square().sum() / x.shape[0] / x.shape[1]


KERNELS: tuple[Honest, ...] = tuple(kernels)
