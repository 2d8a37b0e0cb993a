"""Kernels of networks: convolutions, pooling, tables of embeddings, fully connected layers."""

from __future__ import annotations

import numpy as np

from bench.cpu_kernels.kernel import Array, Kernel, program


def convolved(i: Array, w: Array) -> Array:
    """
    >>> convolved(np.ones((1, 2, 3, 4)), np.ones((5, 2, 3, 3))).shape
    (1, 5, 1, 2)
    """
    windows = np.lib.stride_tricks.sliding_window_view(i, w.shape[-2:], axis=(-2, -1))
    columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5))
    n, h, v = columns.shape[:3]
    flat = columns.reshape(n * h * v, -1) @ w.reshape(len(w), -1).T
    return flat.reshape(n, h, v, -1).transpose(0, 3, 1, 2)


def conv2d(n: int, c: int, h: int, w: int, f: int) -> Kernel:
    return Kernel(
        name=f"conv2d {n}x{c}x{h}x{w},{f}x{c}x3x3",
        family="conv2d",
        text=program("conv2d"),
        shapes={"in": (n, c, h, w), "weight": (f, c, 3, 3)},
        outputs={"out": (n, f, h - 2, w - 2)},
        reference=convolved,
        flops=2 * n * f * c * (h - 2) * (w - 2) * 9,
        terms=9 * c,
    )


def conv2d_pad(n: int, c: int, h: int, w: int, f: int) -> Kernel:
    edges = ((0, 0), (0, 0), (1, 1), (1, 1))
    return Kernel(
        name=f"conv2d_pad {n}x{c}x{h}x{w},{f}x{c}x3x3",
        family="conv2d_pad",
        text=program("conv_pad"),
        shapes={"I": (n, c, h, w), "F": (f, c, 3, 3)},
        outputs={"O": (n, f, h, w)},
        reference=lambda i, k: convolved(np.pad(i, edges), k),
        flops=2 * n * f * c * h * w * 9,
        terms=9 * c,
    )


def gconv(n: int, g: int, c: int, f: int, h: int, w: int) -> Kernel:
    def reference(i: Array, k: Array, b: Array) -> Array:
        groups = [convolved(i[:, j], k[j]) for j in range(g)]
        return np.stack(groups, axis=1) + b[..., None, None]

    return Kernel(
        name=f"gconv {n}x{g}x{c}x{f}x{h}x{w}",
        family="gconv",
        text=program("gconv"),
        shapes={"I": (n, g, c, h, w), "W": (g, f, c, 3, 3), "B": (g, f)},
        outputs={"O": (n, g, f, h - 2, w - 2)},
        reference=reference,
        flops=2 * n * g * f * c * (h - 2) * (w - 2) * 9,
        terms=9 * c,
    )


def maxpool(b: int, c: int, h: int, w: int) -> Kernel:
    def reference(x: Array) -> Array:
        return x[..., : h // 2 * 2, : w // 2 * 2].reshape(b, c, h // 2, 2, w // 2, 2).max((3, 5))

    return Kernel(
        name=f"maxpool2x2 {b}x{c}x{h}x{w}",
        family="maxpool",
        text=program("maxpool2x2"),
        shapes={"in": (b, c, h, w)},
        outputs={"out": (b, c, h // 2, w // 2)},
        reference=reference,
        flops=3 * b * c * (h // 2) * (w // 2),
        terms=1,
    )


def lut1(e: int, d: int, n: int, b: int) -> Kernel:
    return Kernel(
        name=f"1LUT {e}x{d},{b}x{n}",
        family="lut1",
        text=program("1LUT"),
        shapes={"LUT1": (e, d), "I1": (b, n)},
        outputs={"O1": (b, d)},
        reference=lambda table, rows: table[rows].sum(1),
        flops=b * n * d,
        terms=n,
        rows=e,
        read=4 * b * n * (d + 1),
    )


def lut2(e: int, d: int, n: int, b: int) -> Kernel:
    return Kernel(
        name=f"2LUT {e}x{d},{b}x{n}",
        family="lut2",
        text=program("2LUT"),
        shapes={"LUT1": (e, d), "I1": (b, n), "LUT2": (e, d), "I2": (b, n)},
        outputs={"O1": (b, d), "O2": (b, d)},
        reference=lambda t1, i1, t2, i2: (t1[i1].sum(1), t2[i2].sum(1)),
        flops=2 * b * n * d,
        terms=n,
        rows=e,
        read=8 * b * n * (d + 1),
    )


def layer(x: Array, w: Array, b: Array) -> Array:
    return np.maximum(x @ w.T + b, 0)


def mlp1(b: int, m: int, n: int) -> Kernel:
    return Kernel(
        name=f"MLP1 {b}x{m}x{n}",
        family="mlp1",
        text=program("MLP1"),
        shapes={"I": (b, m), "W1": (n, m), "B1": (n,)},
        outputs={"O1": (b, n)},
        reference=layer,
        flops=2 * b * m * n,
        terms=m,
    )


def mlp3(b: int, n: int, o: int, p: int, q: int) -> Kernel:
    def reference(x: Array, *layers: Array) -> tuple[Array, ...]:
        results: list[Array] = []
        for w, bias in zip(layers[::2], layers[1::2], strict=True):
            x = layer(x, w, bias)
            results.append(x)
        return tuple(results)

    return Kernel(
        name=f"MLP3 {b}x{n}x{o}x{p}x{q}",
        family="mlp3",
        text=program("MLP3"),
        shapes={
            "O1": (b, n), "W2": (o, n), "B2": (o,), "W3": (p, o), "B3": (p,), "W4": (q, p),
            "B4": (q,),
        },
        outputs={"O2": (b, o), "O3": (b, p), "O4": (b, q)},
        reference=reference,
        flops=2 * b * (n * o + o * p + p * q),
        terms=n,
    )  # fmt: skip
