"""The kernels of the paper at its sizes, with its mapping options (Vasilache et al. 2018,
arXiv:1802.04730, figure 5 and appendix A.4), and what each computes, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from tests.support.programs import TEXTS

Arrays = Mapping[str, Any]
Formula = Callable[[Arrays], tuple[Any, ...]]
ROWS = 10_000
"""Of the lookup tables."""


@dataclass(frozen=True)
class PaperKernel:
    """`formula` gives the outputs from the inputs and, from their absolute values, what the
    magnitudes of all terms add up to; `terms` are the most that one element has."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    gpu: tc.GpuOptions
    formula: Formula
    terms: int
    fusion: str = "auto"
    entry: str | None = None

    @property
    def text(self) -> str:
        return (TEXTS / f"{self.name}.tc").read_text(encoding="utf-8")

    @property
    def options(self) -> tc.Options:
        """Tiles name the loops of the text, which is not rewritten for that."""
        schedule = tc.ScheduleOptions(fusion=self.fusion, rewrite=False)
        return tc.Options(schedule=schedule, gpu=self.gpu)

    def inputs(self) -> dict[str, Any]:
        rng = np.random.default_rng(len(self.name))
        return {name: self._input(rng, name, shape) for name, shape in self.shapes.items()}

    def _input(self, rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
        if name.startswith("I") and name[1:] and "LUT" in self.name:
            return rng.integers(0, ROWS, shape).astype(np.int32)
        return rng.standard_normal(shape, np.float32)

    def expected(self, inputs: Arrays) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The outputs in float64, and the largest error of float32: each of `terms` operations
        rounds a number that is at most the sum of the magnitudes of all terms (R5)."""
        exact = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}
        sums = self.formula({n: np.abs(a) for n, a in exact.items()})
        bounds = (2 * (self.terms + 4) * np.finfo(np.float32).eps * s for s in sums)
        return self.formula(exact), tuple(bounds)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _layer(x: Any, w: Any, b: Any) -> Any:
    return _relu(x @ w.T + b)


def _mlp3(a: Arrays) -> tuple[Any, ...]:
    first = _layer(a["O1"], a["W2"], a["B2"])
    second = _layer(first, a["W3"], a["B3"])
    return first, second, _layer(second, a["W4"], a["B4"])


def _gconv(a: Arrays) -> tuple[Any, ...]:
    kh, kw = a["W"].shape[-2:]
    windows = np.lib.stride_tricks.sliding_window_view(a["I"], (kh, kw), axis=(-2, -1))
    columns = np.moveaxis(windows, 2, 4)  # n, g, h, w, c, kh, kw
    n, g, h, w = columns.shape[:4]
    weights = a["W"].reshape(g, a["W"].shape[1], -1)
    products = columns.reshape(n, g, h * w, -1) @ weights.swapaxes(1, 2)[None]
    return (products.swapaxes(2, 3).reshape(n, g, -1, h, w) + a["B"][None, :, :, None, None],)


def _tmm(a: Arrays) -> tuple[Any, ...]:
    return (a["A"] @ a["B"].T,)


def _tbmm(a: Arrays) -> tuple[Any, ...]:
    return (a["X"] @ a["Y"].swapaxes(1, 2),)


TMM = {"A": (128, 32), "B": (256, 32)}
TBMM = {"X": (500, 26, 72), "Y": (500, 26, 72)}
GCONV = {"I": (32, 32, 32, 7, 7), "W": (32, 32, 32, 3, 3), "B": (32, 32)}
LUT = {"LUT1": (ROWS, 64), "I1": (128, 50)}
LAYERS = {
    "O1": (128, 128), "W2": (64, 128), "B2": (64,), "W3": (32, 64), "B3": (32,), "W4": (2, 32),
    "B4": (2,),
}  # fmt: skip
LOOKUP = tc.GpuOptions(
    tile=(4, 32), threads=(1, 32), blocks=(100, 100), shared=True, private=True, unroll=1024,
    unroll_copies=True,
)  # fmt: skip

KERNELS = {
    "tmm": PaperKernel(
        "tmm",
        TMM,
        tc.GpuOptions(
            tile=(4, 32), threads=(1, 32), blocks=(64, 128), shared=True, private=True, unroll=4,
            unroll_copies=False,
        ),
        _tmm,
        32,
    ),
    "tmm, manual": PaperKernel(
        "tmm",
        TMM,
        tc.GpuOptions(
            tile=(32, 32, 32), threads=(32, 32), blocks=(4, 8), shared=True, private=True,
            unroll=256, unroll_copies=True,
        ),
        _tmm,
        32,
    ),
    "tbmm": PaperKernel(
        "tbmm",
        TBMM,
        tc.GpuOptions(
            tile=(1,), threads=(7, 26), blocks=(72, 16, 1), shared=True, private=True, unroll=128,
            unroll_copies=True,
        ),
        _tbmm,
        72,
    ),
    "tbmm, manual": PaperKernel(
        "tbmm",
        TBMM,
        tc.GpuOptions(
            tile=(1,), threads=(128,), blocks=(500,), shared=True, private=True, unroll=1024,
            unroll_copies=False,
        ),
        _tbmm,
        72,
    ),
    "gconv": PaperKernel(
        "gconv",
        GCONV,
        tc.GpuOptions(
            tile=(1, 1), threads=(8, 7, 7), blocks=(32, 32, 3), shared=True, private=False,
            unroll=256, unroll_copies=True,
        ),
        _gconv,
        289,
    ),
    "gconv, manual": PaperKernel(
        "gconv",
        GCONV,
        tc.GpuOptions(
            tile=(1, 1, 1), threads=(4, 8, 4), blocks=(32, 32), shared=True, private=False,
            unroll=1, unroll_copies=True,
        ),
        _gconv,
        289,
    ),
    "1LUT": PaperKernel("1LUT", LUT, LOOKUP, lambda a: (a["LUT1"][a["I1"]].sum(1),), 50),
    "2LUT": PaperKernel(
        "2LUT",
        {**LUT, "LUT2": (ROWS, 64), "I2": (128, 50)},
        LOOKUP,
        lambda a: (a["LUT1"][a["I1"]].sum(1), a["LUT2"][a["I2"]].sum(1)),
        50,
    ),
    "C3": PaperKernel(
        "C3",
        {"I": (128, 1024), "W": (1000, 1024)},
        tc.GpuOptions(
            tile=(32, 32, 32), threads=(4, 32), blocks=(128, 128), shared=True, private=True,
            unroll=128, unroll_copies=True,
        ),
        lambda a: (a["I"] @ a["W"].T,),
        1024,
    ),
    "MLP1": PaperKernel(
        "MLP1",
        {"I": (128, 1128), "W1": (128, 1128), "B1": (128,)},
        tc.GpuOptions(
            tile=(16, 16, 128), threads=(16, 16), blocks=(32, 32), shared=True, private=True,
            unroll=1, unroll_copies=False,
        ),
        lambda a: (_layer(a["I"], a["W1"], a["B1"]),),
        1129,
    ),
    "MLP3": PaperKernel(
        "MLP3",
        LAYERS,
        tc.GpuOptions(tile=(1,), threads=(128,), blocks=(128,), single_kernel=True),
        _mlp3,
        129 + 65 + 33,
        "max",
    ),
}  # fmt: skip
