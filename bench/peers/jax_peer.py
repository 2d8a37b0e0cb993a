"""JAX: the same expressions under `jax.jit`, each call waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from bench.cpu_kernels.kernel import Case
from bench.peers.peer import Form, Forms, Run

FORMS = Forms()
"""Functions of the inputs, for `updates` with the outputs before them."""
KEYED = Forms()
"""Functions of the number of rows that keys select, which shapes depend on, and of the inputs."""


class JaxPeer:
    def forms(self, family: str) -> Mapping[str, Form]:
        plain = {name: jitted(function) for name, function in FORMS[family].items()}
        return {**plain, **{n: jitted(f, keyed=True) for n, f in KEYED[family].items()}}

    def version(self) -> str:
        return f"jax {jax.__version__}"


def jitted(function: Callable[..., Any], *, keyed: bool = False) -> Form:
    def form(case: Case) -> Run:
        values = [*(case.outputs if case.kernel.updates else ()), *case.inputs]
        inputs = [jnp.array(x) for x in values]
        compiled = jax.jit(partial(function, case.kernel.rows) if keyed else function)
        return lambda: jax.block_until_ready(compiled(*inputs))

    return form


@FORMS.of("tmm")
def product(a: Array, b: Array) -> Array:
    return a @ b.T


@FORMS.of("tbmm")
def batched(x: Array, y: Array) -> Array:
    return jnp.einsum("bnm,bkm->bnk", x, y)


@FORMS.of("bmm_rev")
def reversed_batch(x: Array, y: Array) -> Array:
    return jnp.einsum("mkb,nbk->bmn", x, y)


@FORMS.of("outer_product")
def broadcast(a: Array, b: Array) -> Array:
    return jnp.einsum("pqr,srt->psqt", a, b)


@FORMS.of("mttkrp")
def mttkrp_factored(a: Array, b: Array, c: Array) -> Array:
    return ((a @ c) * b).sum(1)


@FORMS.of("mttkrp")
def mttkrp_one_product(a: Array, b: Array, c: Array) -> Array:
    both = (b[:, None] * c[None]).reshape(-1, b.shape[1])
    return a.reshape(a.shape[0], -1) @ both


@FORMS.of("l2diff")
def differences(a: Array, b: Array) -> Array:
    return jnp.square(a[:, None] - b[None]).sum(2)


@FORMS.of("l2gemm")
def expanded(a: Array, b: Array) -> Array:
    return jnp.square(a).sum(1)[:, None] + jnp.square(b).sum(1) - 2 * a @ b.T


@FORMS.of("sgemm")
def product_added(c: Array, alpha: Array, beta: Array, a: Array, b: Array) -> Array:
    return beta * c + alpha * (a @ b)


def convolved(i: Array, w: Array, padding: int = 0, groups: int = 1) -> Array:
    edges = [(padding, padding)] * 2
    names = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(
        i, w, (1, 1), edges, dimension_numbers=names, feature_group_count=groups
    )


def in_channels_last(i: Array, w: Array, padding: int = 0, groups: int = 1) -> Array:
    edges = [(padding, padding)] * 2
    names = ("NHWC", "HWIO", "NHWC")
    result = lax.conv_general_dilated(
        i.transpose(0, 2, 3, 1),
        w.transpose(2, 3, 1, 0),
        (1, 1),
        edges,
        dimension_numbers=names,
        feature_group_count=groups,
    )
    return result.transpose(0, 3, 1, 2)


@FORMS.of("conv2d")
def conv(i: Array, w: Array) -> Array:
    return convolved(i, w)


@FORMS.of("conv2d")
def conv_channels_last(i: Array, w: Array) -> Array:
    return in_channels_last(i, w)


@FORMS.of("conv2d_pad")
def conv_pad(i: Array, w: Array) -> Array:
    return convolved(i, w, padding=1)


@FORMS.of("conv2d_pad")
def conv_pad_channels_last(i: Array, w: Array) -> Array:
    return in_channels_last(i, w, padding=1)


@FORMS.of("gconv")
def grouped(i: Array, w: Array, b: Array) -> Array:
    return with_groups(convolved, i, w, b)


@FORMS.of("gconv")
def grouped_channels_last(i: Array, w: Array, b: Array) -> Array:
    return with_groups(in_channels_last, i, w, b)


@FORMS.of("gconv")
def grouped_taps(i: Array, w: Array, b: Array) -> Array:
    """Nine batched matrix products, summed."""
    h, v = i.shape[3] - 2, i.shape[4] - 2
    taps = [
        jnp.einsum("ngchw,gfc->ngfhw", i[..., y : y + h, x : x + v], w[..., y, x])
        for y in range(3)
        for x in range(3)
    ]
    return sum(taps) + b[..., None, None]


def with_groups(convolve: Callable[..., Array], i: Array, w: Array, b: Array) -> Array:
    n, g, c, h, v = i.shape
    f = w.shape[1]
    flat = convolve(i.reshape(n, g * c, h, v), w.reshape(g * f, c, 3, 3), groups=g)
    return flat.reshape(n, g, f, h - 2, v - 2) + b[..., None, None]


@FORMS.of("maxpool")
def pooled(x: Array) -> Array:
    window = (1, 1, 2, 2)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


@FORMS.of("maxpool")
def four_slices(x: Array) -> Array:
    h, w = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    rows = jnp.maximum(x[:, :, 0:h:2], x[:, :, 1:h:2])
    return jnp.maximum(rows[..., 0:w:2], rows[..., 1:w:2])


@FORMS.of("lut1")
def one_table(table: Array, rows: Array) -> Array:
    return table.at[rows].get(mode="promise_in_bounds").sum(1)


@FORMS.of("lut2")
def two_tables(t1: Array, i1: Array, t2: Array, i2: Array) -> tuple[Array, ...]:
    return one_table(t1, i1), one_table(t2, i2)


@FORMS.of("mlp1", "mlp3")
def layers(x: Array, *parameters: Array) -> tuple[Array, ...]:
    results = []
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        x = jax.nn.relu(x @ w.T + b)
        results.append(x)
    return tuple(results)


@FORMS.of("softmax")
def softmax(x: Array) -> Array:
    return jax.nn.softmax(x, axis=1)


def normalised(x: Array, axes: tuple[int, ...], eps: Array) -> Array:
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + eps)


@FORMS.of("layernorm")
def layernorm(x: Array, gamma: Array, beta: Array, eps: Array) -> Array:
    return normalised(x, (1,), eps) * gamma + beta


@FORMS.of("groupnorm")
def groupnorm(x: Array, gamma: Array, beta: Array, eps: Array) -> Array:
    scaled = normalised(x, (2, 3, 4), eps)
    return scaled * gamma[..., None, None] + beta[..., None, None]


@FORMS.of("moments")
def moments(x: Array) -> tuple[Array, ...]:
    mean = x.mean(1)
    return mean, jnp.square(x - mean[:, None]).mean(1)


@FORMS.of("moments")
def moments_two_sums(x: Array) -> tuple[Array, ...]:
    mean = x.mean(1)
    return mean, jnp.square(x).mean(1) - jnp.square(mean)


@FORMS.of("transpose4d")
def swapped(x: Array) -> Array:
    return x.transpose(0, 2, 1, 3)


@FORMS.of("to_channels_last")
def channels_moved(x: Array) -> Array:
    return x.transpose(0, 2, 3, 1)


@FORMS.of("sum_log")
def sum_log(x: Array, y: Array) -> Array:
    return jnp.sum(x * jnp.log(y).T)


@FORMS.of("sum_log")
def sum_log_transposed(x: Array, y: Array) -> Array:
    return jnp.sum(x.T * jnp.log(y))


@FORMS.of("cumulative_rows")
def running_sums(x: Array) -> Array:
    return lax.cumsum(x, axis=1)


@FORMS.of("cumulative_sum")
def running_sum(x: Array) -> Array:
    return lax.cumsum(x)


@KEYED.of("scatter", "scatter_rows", "embedding_backward")
def summed_by_segments(rows: int, keys: Array, x: Array) -> Array:
    flat = x.reshape(-1, *x.shape[keys.ndim :])
    return jax.ops.segment_sum(flat, keys.ravel(), rows, mode="promise_in_bounds")


@KEYED.of("scatter", "scatter_rows", "embedding_backward")
def added_at(rows: int, keys: Array, x: Array) -> Array:
    zeros = jnp.zeros((rows, *x.shape[keys.ndim :]), x.dtype)
    return zeros.at[keys].add(x, mode="promise_in_bounds")


@KEYED.of("segment_softmax")
def softmax_of_segments(rows: int, keys: Array, s: Array, in_order: bool = False) -> Array:
    options: Any = {"indices_are_sorted": in_order, "mode": "promise_in_bounds"}
    weights = jnp.exp(s - jax.ops.segment_max(s, keys, rows, **options)[keys])
    return weights / jax.ops.segment_sum(weights, keys, rows, **options)[keys]


@KEYED.of("segment_softmax_sorted")
def softmax_of_sorted_segments(rows: int, keys: Array, s: Array) -> Array:
    return softmax_of_segments(rows, keys, s, in_order=True)
