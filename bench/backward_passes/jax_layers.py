"""The layers in JAX, which is imported when one of them runs."""

from __future__ import annotations

from typing import Any

from bench.broad_programs.lazy_torch import LazyModule

Array = Any
jax = LazyModule("jax")
jnp = LazyModule("jax.numpy")
lax = LazyModule("jax.lax")
NAMES = ("NCHW", "OIHW", "NCHW")


def matmul(a: Array, b: Array) -> Array:
    return a @ b


def batched(x: Array, y: Array) -> Array:
    return x @ y


def conv2d(x: Array, k: Array, stride: int = 1, edge: int = 0) -> Array:
    return lax.conv_general_dilated(
        x, k, (stride, stride), [(edge, edge)] * 2, dimension_numbers=NAMES
    )


def conv2d_strided(x: Array, k: Array) -> Array:
    return conv2d(x, k, stride=2)


def conv2d_padded(x: Array, k: Array) -> Array:
    return conv2d(x, k, edge=1)


def mlp3(x: Array, *parameters: Array) -> tuple[Array, ...]:
    results = []
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        x = jax.nn.relu(x @ w.T + b)
        results.append(x)
    return tuple(results)


def softmax(x: Array) -> Array:
    return jax.nn.softmax(x, axis=1)


def normalised(x: Array, axes: tuple[int, ...], eps: Array) -> Array:
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + eps)


def layernorm(x: Array, gamma: Array, beta: Array, eps: Array) -> Array:
    return normalised(x, (1,), eps) * gamma + beta


def groupnorm(x: Array, gamma: Array, beta: Array, eps: Array) -> Array:
    return normalised(x, (2, 3, 4), eps) * gamma[..., None, None] + beta[..., None, None]


def embedding(table: Array, rows: Array) -> Array:
    return table[rows]


def maxpool(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("btd,bsd->bts", q, k) / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v
