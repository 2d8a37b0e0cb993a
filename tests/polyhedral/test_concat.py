"""Concatenation as kernels: its offsets are extents, which joined dimensions must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.polyhedral.rewrite.coalescing import coalesce
from tc.semantics.reference.interpreter import interpret
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.rewrites import assert_consistent, run_kernel

EXTENTS = (2, 3, 2)


def concat(rank: int, parts: int) -> tuple[str, dict[str, Any]]:
    """A program that joins `parts` tensors of rank `rank`, and inputs for the program."""
    rng = np.random.default_rng(10 * rank + parts)
    outer = "ABC"[: rank - 1]
    names = [f"x{n}" for n in range(parts)]
    params = ", ".join(f"float({','.join((*outer, f'L{n}'))}) x{n}" for n in range(parts))
    text = f"def f({params}) -> (o) {{ o = concat({', '.join(names)}) }}"
    shapes = [(*EXTENTS[: rank - 1], n + 1) for n in range(parts)]
    arrays = {n: rng.normal(size=s).astype("f4") for n, s in zip(names, shapes, strict=True)}
    return text, arrays


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("given", [False, True])
def test_rule_N4_any_rank(rank: int, parts: int, given: bool) -> None:
    text, arrays = concat(rank, parts)
    shaped, inputs = shaped_with(text, arrays)
    want = np.concatenate(list(arrays.values()), -1)
    initial = {"o": np.full(want.shape, 7, "f4")} if given else {}
    merged, _ = coalesce(shaped, {})
    assert (merged is shaped) == (rank < 3)
    assert_consistent(merged)
    assert len(merged.shapes["o"]) == min(rank, 2)
    assert_within(run_kernel(shaped, inputs, initial)["o"].reshape(want.shape), want)


def test_rule_N4_what_is_joined_is_used_on_and_written_again() -> None:
    text = """
    def f(float(A,B,C) x, float(A,B,D) y) -> (o, s) {
      t = concat(x, y)
      o = concat(t, x)
      s(a,b) +=! t(a,b,c)
      o(a,b,c) += 1 where c in 1:x.2
    }"""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5))
    x, y = x.astype("f4"), y.astype("f4")
    shaped, arrays = shaped_with(text, {"x": x, "y": y})
    found = run_kernel(shaped, arrays, {})
    want = np.concatenate([x, y, x], -1)
    want[..., 1:4] += 1
    assert_within(found["o"].reshape(want.shape), want)
    sums = np.concatenate([x, y], -1).astype("f8").sum(-1)
    assert_within(found["s"].reshape(2, 3), sums.astype("f4"), 1e-5 * np.ones((2, 3)))
    assert_within(interpret(shaped, arrays, {})["o"], want)
