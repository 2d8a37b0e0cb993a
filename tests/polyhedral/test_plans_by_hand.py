"""Plans written by hand for programs of every shape: right on numba and on the machine that checks
bounds and races, under the bound of the program (R5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_within
from tests.support.pipeline import evaluate_kernel

DEVICES = (
    tc.Device(vector_bits=256, vector_registers=16, threads=2),
    tc.Device(vector_bits=128, fma=False, threads=1),
)

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CONV = """def conv(float(C,H,W) a, float(F,C,KH,KW) w) -> (o) {
  o(f,h,v) +=! a(c,h+p,v+q) * w(f,c,p,q)
}"""
SOFTMAX = """def softmax(float(N,M) x) -> (o) {
  m(i) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(i))
  s(i) +=! e(i,j)
  o(i,j) = e(i,j) / s(i)
}"""
TRANSPOSE = "def transpose(float(N,M) a) -> (o) { o(j,i) = a(i,j) }"
SUM = "def sum(float(N,M) a) -> (o) { o(i) +=! a(i,j) }"
STEPS = """def steps(float(N,M) a) -> (c, d) {
  c(i,j) = 2 * a(i,j)
  d(i,j) = c(i,j) + a(i,j)
}"""
EDGES = """def edges(float(N) a, float(K) w) -> (o) {
  o(i) +=! pad(a(i + k - 2), 0) * w(k) where i in 0:N, k in 0:5
}"""
HALVES = "def halves(half(N,M) a) -> (o) { o(i) +=! a(i,k) }"

NEST = ["S0.init", "S0"]


@dataclass(frozen=True)
class ByHand:
    """A program, the shapes of its inputs at two sizes, its parts, and the actions on them."""

    text: str
    shapes: tuple[dict[str, tuple[int, ...]], ...]
    parts: tuple[tuple[list[str], list[Any]], ...]
    fusion: str = "max"

    def options(self) -> tc.Options:
        """No dimensions are joined, so that loops are called as in the text."""
        parts = [{"statements": names, "actions": found} for names, found in self.parts]
        plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
        schedule = tc.ScheduleOptions(fusion=self.fusion, rewrite=False)
        return tc.Options(plan=plan, schedule=schedule)


def matmul(*actions: Any) -> ByHand:
    sizes = ((19, 5, 18), (70, 1, 66), (1, 1, 1))
    shapes = tuple({"A": (m, k), "B": (k, n)} for m, k, n in sizes)
    return ByHand(MM, shapes, ((NEST, list(actions)),))


PLANS = {
    "nothing": matmul(),
    "two levels of tiles": matmul(
        {"tile": "i", "sizes": [64, 8]},
        {"tile": "j", "sizes": [64, 8]},
        {"reorder": ["j div 64", "i mod 64 div 8", "i mod 8"]},
        {"bind": "i div 64", "role": "parallel"},
        {"bind": "j div 64", "role": "parallel"},
    ),
    "tiles of one tile, shared": matmul(
        {"tile": "i", "sizes": [4, 4]},
        {"bind": "i div 4", "role": "parallel"},
        {"bind": "i mod 4 div 4", "role": "parallel"},
        {"bind": "i mod 4", "role": "parallel"},
    ),
    "reorder and sink": matmul(
        {"tile": "i", "sizes": [4]},
        {"tile": "j", "sizes": [8]},
        {"reorder": ["j div 8", "i div 4", "i mod 4", "j mod 8"]},
        {"sink": ["i mod 4", "j mod 8"]},
        {"bind": "i mod 4", "role": "unroll"},
        {"bind": "j mod 8", "role": "vector"},
        {"promote": "C", "scope": "register", "inside": "i div 4"},
        {"bind": "j div 8", "role": "parallel"},
    ),
    "packed": matmul(
        {"tile": "j", "sizes": [8]},
        {"sink": ["j mod 8"]},
        {"bind": "j mod 8", "role": "vector"},
        {"promote": "B", "scope": "temporary", "axes": [[1, 8], [0, 1], [1, 1]], "lanes": 8},
    ),
    "packed in panels of both, columns first": matmul(
        {"tile": "i", "sizes": [6]},
        {"tile": "k", "sizes": [4]},
        {"promote": "A", "scope": "temporary", "axes": [[1, 4], [0, 6], [1, 1], [0, 1]]},
        {"promote": "B", "scope": "scratch", "inside": "i div 6", "axes": [[1, 1], [0, 1]]},
    ),
    "a tile of the result in memory of each thread": matmul(
        {"tile": "i", "sizes": [8]},
        {"bind": "i div 8", "role": "parallel"},
        {"promote": "C", "scope": "scratch", "inside": "i div 8", "axes": [[1, 1], [0, 1]],
         "align": 4},
        {"promote": "A", "scope": "scratch", "inside": "i div 8", "lanes": 4},
    ),
    "convolution": ByHand(
        CONV,
        (
            {"a": (3, 9, 14), "w": (5, 3, 3, 2)},
            {"a": (1, 4, 4), "w": (2, 1, 4, 4)},
        ),
        ((NEST, [
            {"tile": "f", "sizes": [3]},
            {"tile": "v", "sizes": [8]},
            {"reorder": ["h", "v div 8", "f div 3", "f mod 3", "v mod 8"]},
            {"sink": ["f mod 3", "v mod 8"]},
            {"bind": "v mod 8", "role": "vector"},
            {"bind": "q", "role": "unroll"},
            {"promote": "o", "scope": "register", "inside": "f div 3"},
            {"promote": "a", "scope": "scratch", "inside": "h"},
            {"bind": "h", "role": "parallel"},
        ]),),
    ),
    "fused softmax": ByHand(
        SOFTMAX,
        ({"x": (5, 33)}, {"x": (20, 70)}),
        ((["S0.init", "S0", "S1", "S2.init", "S2", "S3"], [
            {"bind": "i", "role": "parallel"},
            {"tile": "S0.j", "sizes": [8]},
            {"split": "S0", "loops": ["S0.j mod 8"], "inside": "S0.i"},
            {"bind": "S0.j mod 8", "role": "vector"},
            {"tile": "S1.j", "sizes": [8]},
            {"bind": "S1.j mod 8", "role": "vector"},
            {"promote": "e", "scope": "scratch", "inside": "i"},
            {"promote": "m", "scope": "scratch", "inside": "i"},
        ]),),
    ),
    "transpose through a buffer": ByHand(
        TRANSPOSE,
        ({"a": (19, 30)}, {"a": (64, 8)}),
        ((["S0"], [
            {"tile": "j", "sizes": [8]},
            {"tile": "i", "sizes": [8]},
            {"reorder": ["j div 8", "i div 8", "j mod 8", "i mod 8"]},
            {"promote": "a", "scope": "scratch", "inside": "i div 8", "axes": [[1, 1], [0, 1]]},
            {"bind": "i mod 8", "role": "vector"},
            {"bind": "j div 8", "role": "parallel"},
        ]),),
    ),
    "a reduction split over lanes and more": ByHand(
        SUM,
        ({"a": (6, 100)}, {"a": (3, 7)}),
        ((NEST, [
            {"tile": "j", "sizes": [32, 8]},
            {"bind": "j mod 32 div 8", "role": "unroll"},
            {"bind": "j mod 8", "role": "vector"},
            {"split": "S0", "loops": ["j mod 32 div 8", "j mod 8"], "inside": "i"},
            {"promote": "o", "scope": "register", "inside": "i"},
        ]),),
    ),
    "sums of halves split": ByHand(
        HALVES,
        ({"a": (6, 100)}, {"a": (3, 7)}),
        (([*NEST, "S0.rounded"], [
            {"tile": "k", "sizes": [4]},
            {"split": "S0", "loops": ["k mod 4"], "inside": "i"},
            {"promote": "o.s0", "scope": "register", "inside": "i"},
        ]),),
    ),
    "two parts fused": ByHand(
        STEPS,
        ({"a": (6, 20)},),
        ((["S0", "S1"], [
            {"fuse": ["S0.i", "S1.i"]},
            {"fuse": ["S0.j", "S1.j"]},
            {"bind": "i", "role": "parallel"},
            {"promote": "c", "scope": "scratch", "inside": "i"},
        ]),),
        "min",
    ),
    "separate": ByHand(
        STEPS,
        ({"a": (6, 20)},),
        ((["S0", "S1"], [
            {"tile": "j", "sizes": [8]},
            {"separate": ["j mod 8"], "statements": ["S1"]},
            {"bind": "S0.j mod 8", "role": "vector"},
            {"bind": "S1.j mod 8", "role": "vector"},
        ]),),
    ),
    "each part on its own": ByHand(
        STEPS,
        ({"a": (6, 20)},),
        ((["S0"], [{"reorder": ["j", "i"]}]), (["S1"], [{"tile": "i", "sizes": [4]}])),
        "min",
    ),
    "padding in a buffer": ByHand(
        EDGES,
        ({"a": (30,), "w": (5,)}, {"a": (2,), "w": (5,)}),
        ((NEST, [
            {"tile": "i", "sizes": [8]},
            {"sink": ["i mod 8"]},
            {"promote": "a", "scope": "scratch", "padded": True},
            {"promote": "o", "scope": "register", "inside": "i div 8"},
            {"bind": "i mod 8", "role": "vector"},
        ]),),
    ),
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str) -> None:
    plan = PLANS[name]
    options = plan.options()
    f = tc.compile(plan.text, options=options)
    for shapes in plan.shapes:
        rng = np.random.default_rng(len(name))
        dtype = np.float16 if "half(" in plan.text else np.float32
        inputs = {n: rng.standard_normal(shape).astype(dtype) for n, shape in shapes.items()}
        expected, bounds = tc.interpret(plan.text, inputs), tc.error_bound(plan.text, inputs)
        if not isinstance(expected, tuple):
            expected, bounds = (expected,), (bounds,)
        found = [f(**inputs)]
        for device in DEVICES:
            values = tuple(
                evaluate_kernel(plan.text, inputs, options=options, device=device).values()
            )
            found.append(values if len(values) > 1 else values[0])
        for results in found:
            results = results if isinstance(results, tuple) else (results,)
            for result, value, bound in zip(results, expected, bounds, strict=True):
                assert_within(result, value, bound)
