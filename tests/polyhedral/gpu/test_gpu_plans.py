"""Plans of GPUs written by hand: right on the machine of blocks and threads, which checks bounds,
races and barriers, at sizes that fill tiles and at sizes that do not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import BackendError
from tests.support.bounds import assert_within
from tests.support.pipeline import evaluate_kernel

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
CONV = """def conv(float(C,H,W) a, float(F,C,KH,KW) w) -> (o) {
  o(f,h,v) +=! a(c,h+p,v+q) * w(f,c,p,q)
}"""
LAYERS = """def layers(float(B,N) x, float(M,N) v, float(K,M) w) -> (y, z) {
  y(b,m) +=! x(b,n) * v(m,n)
  y(b,m) = fmaxf(y(b,m), 0)
  z(b,k) +=! y(b,m) * w(k,m)
}"""
TRANSPOSE = "def transpose(float(N,M) a) -> (o) { o(j,i) = a(i,j) }"
EDGES = """def edges(float(N) a, float(K) w) -> (o) {
  o(i) +=! pad(a(i + k - 2), 0) * w(k) where i in 0:N, k in 0:5
}"""
LATE = "def late(float(N) a) -> (o) { o(i) = 2 * a(i) where i in 3:N }"
SUM = "def sum(float(N,M) a) -> (o) { o(i) max=! a(i,j) }"
ONE = ["S0.init", "S0"]


@dataclass(frozen=True)
class ByHand:
    """A program, the shapes of its inputs at some sizes, and the actions on its parts."""

    text: str
    shapes: tuple[dict[str, tuple[int, ...]], ...]
    parts: tuple[tuple[list[str], list[Any]], ...]

    def options(self) -> tc.Options:
        parts = [{"statements": names, "actions": found} for names, found in self.parts]
        plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
        schedule = tc.ScheduleOptions(fusion="max", rewrite=False)
        return tc.Options(plan=plan, schedule=schedule)


def bind(loop: str, role: str, axis: str, count: int | None = None) -> dict[str, Any]:
    action = {"bind": loop, "role": role, "axis": axis}
    return action if count is None else {**action, "count": count}


def shared(tensor: str, inside: str, **more: Any) -> dict[str, Any]:
    return {"promote": tensor, "scope": "shared", "inside": inside, "statements": ["S0"], **more}


def tmm(*actions: Any) -> ByHand:
    sizes = ((32, 16, 32), (37, 19, 50), (5, 40, 3), (1, 1, 1))
    shapes = tuple({"A": (m, k), "B": (n, k)} for m, k, n in sizes)
    return ByHand(TMM, shapes, ((ONE, list(actions)),))


TILES = (
    {"tile": "m", "sizes": [16, 4]},
    {"tile": "n", "sizes": [8]},
    {"tile": "k", "sizes": [8]},
)
BLOCKS = (bind("m div 16", "block", "y"), bind("n div 8", "block", "x"))
ORDER = ["m div 16", "n div 8", "m mod 4", "m mod 16 div 4", "n mod 8"]

PLANS = {
    "one thread": tmm(),
    "a thread owns every fourth row": tmm(
        *TILES,
        {"reorder": ["m div 16", "n div 8", "m mod 4", "n mod 8", "m mod 16 div 4"]},
        *BLOCKS,
        bind("m mod 4", "thread", "y"),
        bind("n mod 8", "thread", "x"),
        {"sink": ["m mod 16 div 4"]},
        {"bind": "m mod 16 div 4", "role": "unroll"},
        {"promote": "C", "scope": "register", "inside": "n mod 8"},
        shared("A", "k div 8", pitch=9),
        shared("B", "k div 8", pitch=9, unroll=True),
    ),
    "a thread owns four rows in a row": tmm(
        *TILES,
        {"reorder": ["m div 16", "n div 8", "m mod 16 div 4", "n mod 8", "m mod 4"]},
        *BLOCKS,
        bind("m mod 16 div 4", "thread", "y"),
        bind("n mod 8", "thread", "x"),
        {"sink": ["m mod 4"]},
        {"promote": "C", "scope": "register", "inside": "n mod 8"},
        shared("A", "n mod 8"),
    ),
    "threads take turns within a tile": tmm(
        *TILES,
        {"reorder": ["m div 16", "n div 8", "n mod 8", "m mod 16 div 4", "m mod 4"]},
        *BLOCKS,
        bind("n mod 8", "thread", "x", 3),
        {"promote": "C", "scope": "register", "inside": "n mod 8"},
        shared("A", "k div 8"),
        shared("B", "k div 8"),
    ),
    "few blocks take turns": tmm(
        *TILES[:2],
        {"reorder": ["m div 16", "n div 8", "n mod 8", "m mod 16 div 4", "m mod 4"]},
        bind("m div 16", "block", "y", 2),
        bind("n div 8", "block", "x", 3),
        bind("n mod 8", "thread", "x"),
        bind("m mod 4", "thread", "y", 3),
        {"promote": "B", "scope": "shared", "inside": "n div 8", "axes": [[1, 1], [0, 1]]},
    ),
    "whole loops by threads, z too": ByHand(
        CONV,
        ({"a": (3, 9, 14), "w": (5, 3, 3, 2)}, {"a": (1, 4, 4), "w": (2, 1, 4, 4)}),
        ((ONE, [
            {"reorder": ["f", "h", "v"]},
            {"tile": "f", "sizes": [2]},
            {"reorder": ["f div 2", "h", "v", "f mod 2"]},
            bind("f div 2", "block", "x"),
            bind("h", "thread", "z", 4),
            bind("v", "thread", "y", 5),
            bind("f mod 2", "thread", "x"),
            {"promote": "o", "scope": "register", "inside": "f mod 2"},
            {"promote": "w", "scope": "shared", "inside": "f div 2"},
            {"promote": "a", "scope": "shared", "inside": "c", "statements": ["S0"]},
        ]),),
    ),
    "layers of one block a row": ByHand(
        LAYERS,
        (
            {"x": (3, 9), "v": (7, 9), "w": (20, 7)},
            {"x": (1, 1), "v": (1, 1), "w": (1, 1)},
            {"x": (2, 3), "v": (40, 3), "w": (2, 40)},
        ),
        ((["S0.init", "S0", "S1", "S2.init", "S2"], [
            bind("b", "block", "x"),
            bind("S0.m", "thread", "x"),
            bind("S2.k", "thread", "x", 16),
        ]),),
    ),
    "a transpose by way of shared memory": ByHand(
        TRANSPOSE,
        ({"a": (16, 16)}, {"a": (5, 19)}),
        ((["S0"], [
            {"tile": "j", "sizes": [8]},
            {"tile": "i", "sizes": [8, 2]},
            {"reorder": ["j div 8", "i div 8", "j mod 8", "i mod 2", "i mod 8 div 2"]},
            bind("j div 8", "block", "y"),
            bind("i div 8", "block", "x"),
            bind("j mod 8", "thread", "x"),
            bind("i mod 2", "thread", "y"),
            {"promote": "a", "scope": "shared", "inside": "i div 8", "pitch": 9},
        ]),),
    ),
    "padding in the tile": ByHand(
        EDGES,
        ({"a": (20,), "w": (5,)}, {"a": (7,), "w": (5,)}),
        ((ONE, [
            {"tile": "i", "sizes": [8]},
            bind("i div 8", "block", "x"),
            bind("i mod 8", "thread", "x"),
            {"promote": "o", "scope": "register", "inside": "i mod 8"},
            {"promote": "a", "scope": "shared", "inside": "i div 8", "padded": True},
        ]),),
    ),
    "what nobody writes stays 0": ByHand(
        LATE,
        ({"a": (20,)}, {"a": (5,)}),
        ((["o.zero", "S0"], [
            {"tile": "i0", "sizes": [4]},
            bind("i0 div 4", "block", "x"),
            bind("i0 mod 4", "thread", "x"),
            {"promote": "o", "scope": "register", "inside": "i0 mod 4"},
        ]),),
    ),
    "no sum: steps beyond the end have a test": ByHand(
        SUM,
        ({"a": (9, 13)}, {"a": (4, 4)}),
        ((ONE, [
            {"tile": "i", "sizes": [4]},
            {"tile": "j", "sizes": [4]},
            bind("i div 4", "block", "x"),
            bind("i mod 4", "thread", "x"),
            {"promote": "o", "scope": "register", "inside": "i mod 4"},
            shared("a", "j div 4"),
        ]),),
    ),
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("gpu", [tc.Gpu(), tc.Gpu(threads=64, shared=8 << 10)], ids=["", "small"])
@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str, gpu: tc.Gpu) -> None:
    plan = PLANS[name]
    for shapes in plan.shapes:
        rng = np.random.default_rng(7)
        inputs = {n: rng.standard_normal(s).astype(np.float32) - 2 for n, s in shapes.items()}
        expected = tc.interpret(plan.text, inputs)
        bounds = tc.error_bound(plan.text, inputs)
        results = evaluate_kernel(plan.text, inputs, device=gpu, options=plan.options())
        for result, value, bound in zip(
            results.values(), tuples(expected), tuples(bounds), strict=True
        ):
            assert_within(result, value, bound)


def tuples(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


REFUSED = {
    "2048 threads in a block, where the GPU can have 1024 ": tmm(
        bind("m", "thread", "x"), bind("n", "thread", "x")
    ),
    "a loop of role 'thread' has an axis: x, y, z": tmm({"bind": "m", "role": "thread"}),
    "a loop of role 'unroll' has no axis and no count": tmm(
        {"bind": "m", "role": "unroll", "axis": "x"}
    ),
    "2048 threads in a block, where the GPU can have 1024": tmm(
        bind("m", "thread", "x"), bind("n", "thread", "y")
    ),
    "no role 'parallel' on this target; there are serial, unroll, block, thread": tmm(
        {"bind": "m", "role": "parallel"}
    ),
    "C cannot lie in C_acc there: each thread that runs n would write its own": tmm(
        bind("n", "thread", "x", 3), {"promote": "C", "scope": "register", "inside": "m"}
    ),
    "C cannot be promoted inside of m: 2 elements would be copied where 1 are touched": tmm(
        bind("m", "thread", "x"),
        {"promote": "C", "scope": "register", "inside": "m", "axes": [[0, 2], [0, 1], [1, 1]]},
    ),
    "it is written in turns: fewer threads than iterations run n": tmm(
        bind("n", "thread", "x", 3), {"promote": "C", "scope": "shared", "inside": "n"}
    ),
    "a pitch of 1 has no room for 2 elements": tmm(
        bind("n", "thread", "x"), {"promote": "A", "scope": "shared", "inside": "n", "pitch": 1}
    ),
    "threads of a GPU copy element by element, but for what is copied to shared memory through "
    "async copies, or as it is stored: no lanes, no lines": tmm(
        bind("n", "thread", "x"), {"promote": "A", "scope": "shared", "inside": "n", "lanes": 4}
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    """With the reason, and a plan that can be done as repair."""
    inputs = {"A": np.ones((32, 2), np.float32), "B": np.ones((64, 2), np.float32)}
    with pytest.raises(BackendError) as caught:
        evaluate_kernel(TMM, inputs, device=tc.Gpu(), options=REFUSED[reason].options())
    assert reason.rstrip() in caught.value.cause
    repaired = tc.Options(plan=tc.Plan.from_json(caught.value.repair or ""))
    (result,) = evaluate_kernel(TMM, inputs, device=tc.Gpu(), options=repaired).values()
    np.testing.assert_array_equal(result, np.full((32, 64), 2, np.float32))
