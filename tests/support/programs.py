"""The table of programs: each text of tests/programs with inputs and an independent formula.

A formula takes the inputs as float64 (or integer) arrays by name and returns the outputs in
order, computed by numpy without tc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.places import PLACES, Place

TEXTS = Path(__file__).parent.parent / "programs"
Arrays = Mapping[str, Any]
Formula = Callable[[Arrays], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """One program at one set of sizes. `inputs` makes the arguments by name from a generator;
    `outputs` likewise what the caller passes as outputs= (R3, R4), if anything."""

    name: str
    inputs: Callable[[np.random.Generator], dict[str, Any]]
    formula: Formula
    outputs: Callable[[np.random.Generator], dict[str, Any]] | None = None
    entry: str | None = None

    @property
    def text(self) -> str:
        return (TEXTS / f"{self.name}.tc").read_text(encoding="utf-8")

    @property
    def def_name(self) -> str:
        return self.entry or self.text.split("def ")[-1].split("(")[0]


def normal(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], dict[str, Any]]:
    """float32 inputs of these shapes."""

    def make(rng: np.random.Generator) -> dict[str, Any]:
        return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    return make


def windows(a: Any, kh: int, kw: int, sh: int = 1, sw: int = 1) -> Any:
    """a(..., h*sh+i, w*sw+j) as [..., h, w, i, j]."""
    view = np.lib.stride_tricks.sliding_window_view(a, (kh, kw), axis=(-2, -1))
    return view[..., ::sh, ::sw, :, :]


def conv(i: Any, w: Any, sh: int = 1, sw: int = 1) -> Any:
    return np.einsum("nchwij,mcij->nmhw", windows(i, *w.shape[-2:], sh, sw), w)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def layer(x: Any, w: Any, b: Any) -> Any:
    return relu(x @ w.T + b)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _gather_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "X": rng.standard_normal(11).astype(np.float32),
        "I": rng.integers(0, 11, (3, 5)).astype(np.int32),
    }


def _lut_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "LUT1": rng.standard_normal((13, 6)).astype(np.float32),
        "I1": rng.integers(0, 13, (5, 7)).astype(np.int32),
        "LUT2": rng.standard_normal((9, 6)).astype(np.float32),
        "I2": rng.integers(0, 9, (5, 3)).astype(np.int32),
    }


def _one_lut_inputs(rng: np.random.Generator) -> dict[str, Any]:
    both = _lut_inputs(rng)
    return {"LUT1": both["LUT1"], "I1": both["I1"]}


def _model_inputs(rng: np.random.Generator) -> dict[str, Any]:
    shapes: dict[str, tuple[int, ...]] = {
        "I3": (5, 8), "W": (10, 8), "W1": (7, 22), "B1": (7,), "W2": (6, 7), "B2": (6,),
        "W3": (4, 6), "B3": (4,), "W4": (2, 4), "B4": (2,),
    }  # fmt: skip
    return {**_lut_inputs(rng), **normal(**shapes)(rng)}


def _model(a: Arrays) -> tuple[Any, ...]:
    c1 = a["LUT1"][a["I1"]].sum(1)
    c2 = a["LUT2"][a["I2"]].sum(1)
    c3 = a["I3"] @ a["W"].T
    i = np.concatenate([c1, c2, c3], axis=-1)
    o1 = layer(i, a["W1"], a["B1"])
    return (c1, c2, c3, i, o1, *_mlp3({**a, "O1": o1}))


def _mlp3(a: Arrays) -> tuple[Any, ...]:
    o2 = layer(a["O1"], a["W2"], a["B2"])
    o3 = layer(o2, a["W3"], a["B3"])
    return o2, o3, layer(o3, a["W4"], a["B4"])


def _sconv_inputs(rng: np.random.Generator) -> dict[str, Any]:
    arrays = normal(I=(2, 3, 9, 8), W=(4, 3, 3, 2), B=(4,))(rng)
    return {"sh": 2, "sw": 3, **arrays}


def _layernorm(a: Arrays) -> tuple[Any, ...]:
    centred = a["I"] - a["I"].mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True)
    return (centred / np.sqrt(variance + a["eps"]) * a["gamma"] + a["beta"],)


def _wrap_inputs(rng: np.random.Generator) -> dict[str, Any]:
    a = np.array([-128, -128, 127, 100, -7, 7, 0, 5], np.int8)
    b = np.array([-1, 1, 127, 2, 2, -2, 3, 0], np.int8)
    return {"a": a, "b": b, "u": rng.integers(0, 2**32, 8, dtype=np.uint32)}


def _wrap(x: Arrays) -> tuple[Any, ...]:
    pairs = list(zip(x["a"].tolist(), x["b"].tolist(), strict=True))

    def signed(values: list[int], bits: int = 8) -> Any:
        half = 1 << (bits - 1)
        return np.array([(v + half) % (2 * half) - half for v in values])

    v = np.array([(u * u - 1) % 2**32 for u in x["u"].tolist()])
    return (
        signed([a + b for a, b in pairs]),
        signed([a * b for a, b in pairs]),
        signed([a // b if b else a for a, b in pairs]),
        signed([a % b if b else a for a, b in pairs]),
        v,
    )


def _half_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "A": rng.standard_normal((3, 17)).astype(np.float16),
        "B": rng.standard_normal((4, 17)).astype(np.float16),
        "s": np.float16(0.37),
    }


def _bools(rng: np.random.Generator) -> dict[str, Any]:
    return {"a": rng.random(9) < 0.5, "b": rng.random(9) < 0.5}


def _stencil(x: Arrays) -> tuple[Any, ...]:
    a = x["A"]
    b = a[:, :-2] - 2 * a[:, 1:-1] + a[:, 2:]
    d = np.zeros((a.shape[0], 5))
    d[:, 1:5] = b[:, 2:6] - b[:, 1:5]
    return b, d


def _blur(x: Arrays) -> tuple[Any, ...]:
    edged = np.pad(x["a"], 1, mode="edge")
    return ((edged[:-2] + edged[1:-1] + edged[2:]) / 3,)


def _lazy(x: Arrays) -> tuple[Any, ...]:
    n = len(x["I"])
    return (np.array([x["I"][r] if 0 <= r < n else 0.0 for r in x["R"].tolist()]),)


def _attention(x: Arrays) -> tuple[Any, ...]:
    p = softmax(np.einsum("btd,bud->btu", x["Q"], x["K"]) / math.sqrt(x["Q"].shape[-1]))
    return (np.einsum("btu,bue->bte", p, x["V"]),)


def _hash_inputs(rng: np.random.Generator) -> dict[str, Any]:
    words = rng.integers(0, 2**32, (5, 9), dtype=np.uint32)
    return {"a": words, "seed": np.uint32(0x9E3779B9)}


def _hash(a: Arrays) -> tuple[Any, ...]:
    mask, results = 2**32 - 1, []
    for row in a["a"].tolist():
        joined = 0
        for k, word in enumerate(row):
            m = ((word ^ int(a["seed"])) * 0x85EBCA6B) & mask
            x = ((m ^ (m >> 13)) * 0xC2B2AE35 + ((m << k % 8 | m >> (32 - k % 8)) & mask)) & mask
            joined ^= x ^ (x >> 16)
        results.append(joined)
    return np.uint32(results), np.bitwise_and.reduce(np.uint32(results))


def _int4_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "x": rng.standard_normal((3, 14)).astype(np.float32),
        "w": rng.integers(-128, 128, (5, 7)).astype(np.int8),
        "scale": rng.standard_normal(5).astype(np.float32),
    }


def _int4_layer(a: Arrays) -> tuple[Any, ...]:
    whole = a["w"].astype(int)
    low, high = (whole + 8) % 16 - 8, whole // 16
    q = np.stack((low, high), -1).reshape(len(whole), -1)
    return (a["x"] @ q.T * a["scale"],)


def _word_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "w": rng.integers(0, 2**64, 12, dtype=np.uint64),
        "s": np.int16([0, 1, -1, 5, 12, 20, 19, 31, -32768, 32767, 300, 4]),
    }


def _word_bits(a: Arrays) -> tuple[Any, ...]:
    words, shorts = a["w"].tolist(), a["s"].tolist()
    bits = np.array([[w >> b & 1 for b in range(64)] for w in words], bool)
    ones = [w.bit_count() + (~s & 0xFFFF).bit_count() for w, s in zip(words, shorts, strict=True)]
    lead = [
        16 - (s & 0xFFFF).bit_length() - (64 - (w >> (s & 31)).bit_length())
        for w, s in zip(words, shorts, strict=True)
    ]
    left = [s << (s - 4) if 0 <= s - 4 < 16 else 0 for s in shorts]
    right = [s >> s if 0 <= s < 16 else -(s < 0) for s in shorts]
    moved = [((x | y) + 2**15) % 2**16 - 2**15 for x, y in zip(left, right, strict=True)]
    parity = bits.sum(1) % 2 == 1
    return bits, ones, lead, moved, parity, np.bitwise_or.reduce(a["s"]), (a["s"] % 4 == 3).any()


def _float_bits_inputs(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal(11) * 10.0 ** rng.integers(-20, 20, 11)
    return {"x": x.astype(np.float32), "h": rng.standard_normal(11).astype(np.float16), "d": x}


def _float_bits(a: Arrays) -> tuple[Any, ...]:
    x, h, d = a["x"].astype(np.float32), a["h"].astype(np.float16), a["d"]
    return (
        (np.abs(x).view(np.uint32) | 1).view(np.float32).astype(np.float64),
        (h.view(np.uint16) ^ 1).view(np.float16).astype(np.float64),
        (d.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64),
        np.signbit(x) == np.signbit(h),
        np.frexp(x)[1] - 1,
    )


def _usual(place: Place) -> Callable[[np.random.Generator], dict[str, Any]]:
    return lambda rng: place.inputs(rng, place.values.usual)


CASES: tuple[Case, ...] = (
    Case("mv", normal(A=(5, 7), x=(7,)), lambda a: (a["A"] @ a["x"],)),
    Case("mv_init", normal(A=(5, 1), B=(1,)), lambda a: (a["A"] @ a["B"],)),
    Case("mm", normal(A=(4, 37), B=(37, 6)), lambda a: (a["A"] @ a["B"],)),
    Case(
        "sgemm",
        lambda rng: {"a": 1.5, "b": -0.25, **normal(A=(4, 5), B=(5, 6))(rng)},
        lambda a: (a["b"] * a["C"] + a["a"] * (a["A"] @ a["B"]),),
        outputs=normal(C=(4, 6)),
    ),
    Case(
        "fcrelu",
        normal(**{"in": (3, 5), "weight": (4, 5), "bias": (4,)}),
        lambda a: (layer(a["in"], a["weight"], a["bias"]),),
    ),
    Case("conv1d", normal(I=(19,), K=(4,)), lambda a: (np.correlate(a["I"], a["K"]),)),
    Case(
        "conv2d",
        normal(**{"in": (2, 3, 8, 7), "weight": (4, 3, 3, 2)}),
        lambda a: (conv(a["in"], a["weight"]),),
    ),
    Case(
        "conv_relu",
        normal(I=(2, 3, 6, 7), F=(5, 3, 3, 3), B=(5,)),
        lambda a: (relu(conv(a["I"], a["F"]) + a["B"][:, None, None]),),
    ),
    Case(
        "conv_pad",
        normal(I=(2, 3, 5, 6), F=(2, 3, 3, 3)),
        lambda a: (conv(np.pad(a["I"], ((0, 0), (0, 0), (1, 1), (1, 1))), a["F"]),),
    ),
    Case(
        "maxpool2x2",
        normal(**{"in": (2, 3, 6, 9)}),
        lambda a: (windows(a["in"], 2, 2, 2, 2).max((-1, -2)),),
    ),
    Case("gather", _gather_inputs, lambda a: (a["X"][a["I"]],)),
    Case(
        "sconv2d",
        _sconv_inputs,
        lambda a: (conv(a["I"], a["W"], 2, 3) + a["B"][:, None, None],),
    ),
    Case(
        "softmax",
        normal(I=(4, 33)),
        lambda a: (softmax(a["I"]), np.exp(a["I"]).sum(1)),
    ),
    Case("stable_softmax", normal(I=(4, 33)), lambda a: (softmax(a["I"]),)),
    Case(
        "layernorm",
        lambda rng: {**normal(I=(3, 40), gamma=(40,), beta=(40,))(rng), "eps": 1e-5},
        _layernorm,
    ),
    Case(
        "outerProductMM",
        normal(A=(2, 3, 5), B=(4, 5, 6)),
        lambda a: (np.einsum("pqr,srt->psqt", a["A"], a["B"]),),
    ),
    Case("tmm", normal(A=(6, 32), B=(7, 32)), lambda a: (a["A"] @ a["B"].T,)),
    Case(
        "tbmm",
        normal(X=(3, 4, 9), Y=(3, 5, 9)),
        lambda a: (np.einsum("bnm,bkm->bnk", a["X"], a["Y"]),),
    ),
    Case(
        "gconv",
        normal(I=(2, 3, 4, 6, 6), W=(3, 5, 4, 3, 3), B=(3, 5)),
        lambda a: (
            np.einsum("ngchwij,gfcij->ngfhw", windows(a["I"], 3, 3), a["W"])
            + a["B"][:, :, None, None],
        ),
    ),
    Case("1LUT", _one_lut_inputs, lambda a: (a["LUT1"][a["I1"]].sum(1),)),
    Case(
        "2LUT",
        _lut_inputs,
        lambda a: (a["LUT1"][a["I1"]].sum(1), a["LUT2"][a["I2"]].sum(1)),
    ),
    Case("C3", normal(I=(4, 11), W=(5, 11)), lambda a: (a["I"] @ a["W"].T,)),
    Case(
        "MLP1",
        normal(I=(4, 11), W1=(5, 11), B1=(5,)),
        lambda a: (layer(a["I"], a["W1"], a["B1"]),),
    ),
    Case(
        "MLP3",
        normal(O1=(3, 8), W2=(7, 8), B2=(7,), W3=(5, 7), B3=(5,), W4=(2, 5), B4=(2,)),
        _mlp3,
    ),
    Case("prodModel", _model_inputs, _model, entry="prodModel"),
    Case(
        "outer_sum",
        lambda rng: {"A": rng.standard_normal((4, 6)), "r": rng.standard_normal(4)},
        lambda a: (a["A"].sum(), (a["A"] * a["r"][:, None]).max(1), a["A"].min(0)),
    ),
    Case(
        "downsample",
        normal(I=(7, 8)),
        lambda a: (a["I"][:6].reshape(3, 2, 4, 2).mean((1, 3)),),
    ),
    Case("stencil", normal(A=(2, 12)), _stencil),
    Case(
        "histogram",
        lambda rng: {
            "bin": rng.integers(-2, 10, 40).astype(np.int32),
            "w": rng.integers(0, 255, 40).astype(np.uint8),
        },
        lambda a: (np.array([a["w"][a["bin"] == b].sum() for b in range(8)]),),
    ),
    Case(
        "half_dot",
        _half_inputs,
        lambda a: ((a["A"] @ a["B"].T).astype(np.float16).astype(np.float64) * a["s"] + 0.5,),
    ),
    Case("wrap", _wrap_inputs, _wrap),
    Case(
        "lazy",
        lambda rng: {
            "I": rng.standard_normal(6).astype(np.float32),
            "R": np.array([0, 5, -1, 6, 2**31 - 1, -(2**31), 3], np.int32),
        },
        _lazy,
    ),
    Case("blur_edges", normal(a=(7,)), _blur),
    Case(
        "reverse_bool",
        _bools,
        lambda x: (
            x["a"][::-1] & ~x["b"],
            x["a"].any(),
            x["b"].all(),
            (x["a"] == x["b"]).sum(),
        ),
    ),
    Case("hash_words", _hash_inputs, _hash),
    Case("int4_layer", _int4_inputs, _int4_layer),
    Case("word_bits", _word_inputs, _word_bits),
    Case("float_bits", _float_bits_inputs, _float_bits),
    Case(
        "repeated_sums",
        normal(X=(5, 7), G=(1, 6), W=(4, 6)),
        lambda a: (a["X"].sum(1) ** 2 / 7, a["W"] @ a["G"][0]),
    ),
    Case(
        "kronecker",
        lambda rng: {"x": rng.standard_normal((2, 3)), "y": rng.standard_normal((4, 2))},
        lambda a: (np.kron(a["x"], a["y"]),),
    ),
    Case(
        "annotated",
        lambda rng: {
            "A": rng.integers(-128, 128, (3, 20)).astype(np.int8),
            "B": rng.integers(-128, 128, (20, 4)).astype(np.int8),
        },
        lambda a: (a["A"].astype(np.int64) @ a["B"].astype(np.int64),),
    ),
    Case(
        "attention",
        normal(Q=(2, 3, 8), K=(2, 5, 8), V=(2, 5, 4)),
        _attention,
    ),
    *(Case(place.name, _usual(place), place.formula, place.outputs) for place in PLACES),
)


def exact(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as the formulas take them: floats widened to float64."""
    return {
        name: np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else a
        for name, a in arrays.items()
    }
