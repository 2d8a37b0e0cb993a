"""Programs with the same in jax.numpy: what they give and their derivatives are known
independently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class JaxLayer:
    """A program in float64, its inputs by their shapes, where a number is an input of integers
    below it of shape (4,), and what jax computes in its place. `twice` is whether second
    differences are compared, `large` whether that takes long."""

    name: str
    text: str
    inputs: tuple[Shape | int, ...]
    same: Callable[..., Any]
    twice: bool = True
    large: bool = False

    def arrays(self, jnp: Any, seed: int = 0) -> list[Any]:
        numbers = np.random.default_rng(seed)
        return [
            jnp.asarray(numbers.integers(0, shape, 4), jnp.int32)
            if isinstance(shape, int)
            else jnp.asarray(numbers.random(shape) + 0.25, jnp.float64)
            for shape in self.inputs
        ]

    @property
    def floating(self) -> tuple[int, ...]:
        return tuple(at for at, shape in enumerate(self.inputs) if not isinstance(shape, int))


def in_64_bits(jax: Any) -> Any:
    """A context in which jax has 64 bits."""
    from jax import experimental

    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else experimental.enable_x64()


def jax_layers(jax: Any) -> list[JaxLayer]:
    """All of them."""
    jnp, lax = jax.numpy, jax.lax
    image = ("NCHW", "OIHW", "NCHW")

    def layernorm(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 0.00001) * g + b

    return [
        JaxLayer(
            "matmul",
            "def mm(double(M,K) A, double(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
            ((3, 4), (4, 2)),
            jnp.matmul,
        ),
        JaxLayer(
            "convolution",
            "def conv(double(N,C,H,W) I, double(M,C,KH,KW) F) -> (O) {"
            " O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * F(m,c,kh,kw) }",
            ((2, 2, 4, 5), (2, 2, 2, 3)),
            lambda x, f: lax.conv_general_dilated(x, f, (1, 1), "VALID", dimension_numbers=image),
            large=True,
        ),
        JaxLayer(
            "strided convolution",
            "def conv(double(N,C,W) I, double(M,C,K) F) -> (O) {"
            " O(n,m,i) +=! I(n,c,2*i+k) * F(m,c,k) }",
            ((2, 2, 7), (2, 2, 3)),
            lambda x, f: lax.conv_general_dilated(
                x, f, (2,), "VALID", dimension_numbers=("NCH", "OIH", "NCH")
            ),
        ),
        JaxLayer(
            "softmax",
            "def softmax(double(N,D) I) -> (O) { m(n) max=! I(n,d)"
            " s(n) +=! exp(I(n,d) - m(n)) O(n,d) = exp(I(n,d) - m(n)) / s(n) }",
            ((2, 3),),
            lambda x: jax.nn.softmax(x, 1),
            large=True,
        ),
        JaxLayer(
            "layernorm",
            "def layernorm(double(N,D) I, double(D) G, double(D) B) -> (O) {"
            " mean(n) +=! I(n,d) / double(D) var(n) +=! (I(n,d) - mean(n)) * (I(n,d) - mean(n))"
            " O(n,d) = (I(n,d) - mean(n)) / sqrt(var(n) / double(D) + 0.00001) * G(d) + B(d) }",
            ((2, 4), (4,), (4,)),
            layernorm,
            large=True,
        ),
        JaxLayer(
            "embedding",
            "def embed(double(V,D) T, int32(N) I) -> (O) { O(n,d) = T(I(n),d) where n in 0:N }",
            ((5, 3), 5),
            lambda table, at: table[at],
        ),
        JaxLayer(
            "maxpool",
            "def pool(double(B,W) I) -> (O) { O(b,i) max=! I(b,2*i+p) where p in 0:2 }",
            ((1, 4),),
            lambda x: x.reshape(1, 2, 2).max(2),
            twice=False,
        ),
        JaxLayer(
            "scaled",
            "def scaled(double a, double(N) x) -> (y) { y(i) = a * x(i) * x(i) }",
            ((), (4,)),
            lambda a, x: a * x * x,
        ),
        JaxLayer(
            "linear",
            "def linear(double(B,I) x, double(O,I) W, double(O) b) -> (y) {"
            " y(n,o) = b(o) y(n,o) += x(n,i) * W(o,i) }",
            ((3, 4), (2, 4), (2,)),
            lambda x, w, b: x @ w.T + b,
        ),
        JaxLayer(
            "gated",
            "def gated(double(N,D) x, double(N,D) g) -> (y) {"
            " y(n,d) = tanh(x(n,d)) * sqrt(g(n,d)) }",
            ((2, 3), (2, 3)),
            lambda x, g: jnp.tanh(x) * jnp.sqrt(g),
        ),
        JaxLayer(
            "norm",
            "def norm(double(N,D) x) -> (y) { s(n) +=! x(n,d) * x(n,d) y(n) = sqrt(s(n)) }",
            ((3, 4),),
            lambda x: jnp.sqrt((x * x).sum(1)),
        ),
        JaxLayer(
            "product",
            "def product(double(N,M) x) -> (p) { p(n) *=! x(n,m) }",
            ((2, 3),),
            lambda x: x.prod(1),
        ),
        JaxLayer(
            "average of neighbours",
            "def pool(double(B,W) x) -> (y) { y(b,i) +=! x(b,2*i+k) / 2 where k in 0:2 }",
            ((2, 6),),
            lambda x: x.reshape(2, 3, 2).mean(2),
        ),
        JaxLayer(
            "two results",
            "def two(double(N,D) x, double(D) w) -> (s, y) {"
            " y(n,d) = x(n,d) * w(d) s(n) +=! y(n,d) * y(n,d) }",
            ((3, 4), (4,)),
            lambda x, w: (((x * w) ** 2).sum(1), x * w),
        ),
        JaxLayer(
            "attention",
            "def attend(double(Q,D) q, double(K,D) k, double(K,E) v) -> (o) {"
            " s(i,j) +=! q(i,d) * k(j,d)  m(i) max=! s(i,j)  z(i) +=! exp(s(i,j) - m(i))"
            " o(i,e) +=! exp(s(i,j) - m(i)) / z(i) * v(j,e) }",
            ((2, 3), (4, 3), (4, 2)),
            lambda q, k, v: jax.nn.softmax(q @ k.T, 1) @ v,
            large=True,
        ),
    ]
