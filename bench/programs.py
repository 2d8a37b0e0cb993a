"""The seeds' kernels at the sizes of the paper (section 7), with the same in plain numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = Path(__file__).parent.parent / "tests" / "programs"
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Kernel:
    """A program of tests/programs at given input shapes. `rows` bounds integer inputs, which are
    indices into tables; `numpy` computes the outputs from the inputs in order."""

    label: str
    program: str
    shapes: Shapes
    numpy: Callable[..., Any]
    flops: int
    rows: int = 0

    @property
    def text(self) -> str:
        return (TEXTS / f"{self.program}.tc").read_text(encoding="utf-8")

    def inputs(self) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        return {
            name: rng.integers(0, self.rows, shape, dtype=np.int32)
            if name.startswith("I") and self.rows
            else rng.standard_normal(shape, dtype=np.float32)
            for name, shape in self.shapes.items()
        }


def _windows(a: Any, kh: int, kw: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(a, (kh, kw), axis=(-2, -1))


def _conv(i: Any, w: Any) -> Any:
    view = _windows(i, *w.shape[-2:])
    columns = np.ascontiguousarray(view.transpose(0, 2, 3, 1, 4, 5))
    n, h, v = columns.shape[:3]
    flat = columns.reshape(n * h * v, -1) @ w.reshape(len(w), -1).T
    return np.ascontiguousarray(flat.reshape(n, h, v, -1).transpose(0, 3, 1, 2))


def _gconv(i: Any, w: Any, b: Any) -> Any:
    return np.stack([_conv(i[:, g], w[g]) for g in range(len(w))], axis=1) + b[..., None, None]


def _layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


def _mlp3(x: Any, *layers: Any) -> tuple[Any, ...]:
    outputs = []
    for w, b in zip(layers[::2], layers[1::2], strict=True):
        x = _layer(x, w, b)
        outputs.append(x)
    return tuple(outputs)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _maxpool(x: Any) -> Any:
    return np.maximum(
        np.maximum(x[..., ::2, ::2], x[..., ::2, 1::2]),
        np.maximum(x[..., 1::2, ::2], x[..., 1::2, 1::2]),
    )


def _tmm(m: int, k: int, n: int) -> Kernel:
    shapes = {"A": (m, k), "B": (n, k)}
    return Kernel(f"tmm {m},{k},{n}", "tmm", shapes, lambda a, b: a @ b.T, 2 * m * n * k)


def _grouped(g: int, c: int, h: int) -> Kernel:
    out = h - 2
    return Kernel(
        f"gconv 32,{g},{c},{c},{h},{h}",
        "gconv",
        {"I": (32, g, c, h, h), "W": (g, c, c, 3, 3), "B": (g, c)},
        _gconv,
        2 * 32 * g * c * c * out * out * 9,
    )


KERNELS: tuple[Kernel, ...] = (
    _tmm(128, 32, 256),
    _tmm(128, 1024, 1024),
    Kernel(
        "tbmm 500,26,72,26",
        "tbmm",
        {"X": (500, 26, 72), "Y": (500, 26, 72)},
        lambda x, y: x @ y.transpose(0, 2, 1),
        2 * 500 * 26 * 26 * 72,
    ),
    _grouped(32, 16, 14),
    _grouped(32, 4, 56),
    Kernel(
        "1LUT",
        "1LUT",
        {"LUT1": (1_000_000, 64), "I1": (128, 50)},
        lambda table, rows: table[rows].sum(1),
        128 * 50 * 64,
        rows=1_000_000,
    ),
    Kernel(
        "C3 128,1024,1000",
        "C3",
        {"I": (128, 1024), "W": (1000, 1024)},
        lambda i, w: i @ w.T,
        2 * 128 * 1024 * 1000,
    ),
    Kernel(
        "MLP1 128,2000,128",
        "MLP1",
        {"I": (128, 2000), "W1": (128, 2000), "B1": (128,)},
        _layer,
        2 * 128 * 2000 * 128,
    ),
    Kernel(
        "MLP3 128-128-64-32-2",
        "MLP3",
        {
            "O1": (128, 128), "W2": (64, 128), "B2": (64,), "W3": (32, 64), "B3": (32,),
            "W4": (2, 32), "B4": (2,),
        },
        _mlp3,
        2 * 128 * (128 * 64 + 64 * 32 + 32 * 2),
    ),
    Kernel(
        "conv2d 8,64,56,56",
        "conv2d",
        {"in": (8, 64, 56, 56), "weight": (64, 64, 3, 3)},
        _conv,
        2 * 8 * 64 * 64 * 54 * 54 * 9,
    ),
    Kernel("maxpool 32,64,112,112", "maxpool2x2", {"in": (32, 64, 112, 112)}, _maxpool, 0),
    Kernel("softmax 512,4096", "stable_softmax", {"I": (512, 4096)}, _softmax, 0),
    Kernel(
        "outerProductMM 64,16,32,32,64",
        "outerProductMM",
        {"A": (64, 16, 32), "B": (32, 32, 64)},
        lambda a, b: np.einsum("pqr,srt->psqt", a, b, optimize=True),
        2 * 64 * 32 * 16 * 64 * 32,
    ),
)  # fmt: skip
