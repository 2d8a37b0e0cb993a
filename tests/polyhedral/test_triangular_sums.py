"""Sums of products under a diagonal in strips: against masks of numpy, and what strips they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.rewrite.triangular_sums import sum_by_strips
from tc.semantics.program import ShapedProgram
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.pipeline import checked

LIMITS = Thresholds(mirrored=4)

ELEMENTS = (
    "def f(float(N,K) A, float(M,K) B) -> (C) {{ C(i,j) {op} {test} ? A(i,k) * B(j,k) : {e} }}"
)
TERMS = "def f(float(N,K) A, float(K,M) B) -> (C) {{ C(i,j) {op} {test} ? A(i,k) * B(k,j) : {e} }}"
NEUTRAL = {"+=!": 0.0, "max=!": -np.inf, "min=!": np.inf}
REDUCED = {"+=!": np.sum, "max=!": np.max, "min=!": np.min}
COMPARED = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def strips(text: str, **shapes: tuple[int, ...]) -> ShapedProgram:
    return sum_by_strips(infer_ranges(checked(text), shapes, {}), LIMITS)


def instances(program: ShapedProgram, *, guarded: bool) -> int:
    """The instances of statements with a condition, or of the sums without."""
    return sum(
        int(np.prod([r.extent for r in each.ranges.values()]))
        for each in program.statements
        if each.statement.reduction and ("?" in each.statement.text) == guarded
    )


@pytest.mark.parametrize("test", ["j <= i", "j > i", "i >= j + 3", "j - i < 20"])
@pytest.mark.parametrize("text", [ELEMENTS, TERMS])
def test_most_is_without_a_condition(text: str, test: str) -> None:
    """Of a large triangle in four strips: what is left is five eighths, of which a half at most is
    at the diagonal, in blocks of which a half is for nothing."""
    test = test.replace("j", "k") if text is TERMS else test
    made = strips(text.format(op="+=!", test=test, e=0), A=(1024, 1024), B=(1024, 1024))
    whole = 1024**3
    assert 0.3 * whole < instances(made, guarded=False) < 0.5 * whole
    assert 0.15 * whole < instances(made, guarded=True) < 0.35 * whole


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        # a few products; sums along a triangle alone, or prefixes; what goes on from other values
        (ELEMENTS.format(op="+=!", test="j <= i", e=0), {"A": (40, 30), "B": (40, 30)}),
        (
            "def f(float(N,N) A, float(N) x) -> (y) { y(i) +=! j <= i ? A(i,j) * x(j) : 0 }",
            {"A": (2000, 2000), "x": (2000,)},
        ),
        (
            "def f(float(N) x, float(N) y) -> (o) { o(i) +=! x(j) * y(j) where j in 0:i+1 }",
            {"x": (4000,), "y": (4000,)},
        ),
        (ELEMENTS.format(op="+=!", test="j <= i", e=1), {"A": (400, 400), "B": (400, 400)}),
        (ELEMENTS.format(op="+=!", test="j <= 2 * i", e=0), {"A": (400, 400), "B": (400, 400)}),
    ],
)
def test_others_stay(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    shaped = infer_ranges(checked(text), shapes, {})
    assert sum_by_strips(shaped, LIMITS) is shaped


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_against_masks(backend: str, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from([*REDUCED]))
    compare = data.draw(st.sampled_from([*COMPARED]))
    apart = data.draw(st.integers(-90, 90))
    n, m, k = (data.draw(st.integers(65, 200)) for _ in range(3))
    is_sum = data.draw(st.booleans())
    both = data.draw(st.sampled_from(["", " && k > 3", " && A(i,k) > 0"]))
    sign, size = "+" if apart >= 0 else "-", abs(apart)
    other = "k" if is_sum else "j"
    test = f"{other} {compare} i {sign} {size}{both}"
    text = (TERMS if is_sum else ELEMENTS).format(op=op, test=test, e="inf()")
    text = text.replace("inf()", {"+=!": "0", "max=!": "-inf()", "min=!": "inf()"}[op])
    text = text.replace(" }", f" where i in 0:{n}, j in 0:{m}, k in 0:{k} }}")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    A = rng.integers(-9, 9, (n, k)).astype(np.float32)
    B = rng.integers(-9, 9, (k, m) if is_sum else (m, k)).astype(np.float32)
    i, j, t = np.ogrid[:n, :m, :k]
    mask = COMPARED[compare](t if is_sum else j, i + apart) & np.ones((n, m, k), bool)
    if "k >" in both:
        mask = mask & (t > 3)
    if "A(" in both:
        mask = mask & (A[:, None, :] > 0)
    terms = A[:, None, :] * (B.T if is_sum else B)[None]
    due = REDUCED[op](np.where(mask, terms, np.float32(NEUTRAL[op])), axis=2)
    np.testing.assert_array_equal(tc.compile(text, backend=backend)(A, B), due)


WIDE = tc.Device(vector_bits=512, vector_registers=32, l1=48 << 10, l2=2 << 20, threads=2)


@pytest.mark.parametrize(
    "text", [ELEMENTS.format(op="+=!", test="j <= i", e=0), "C(i,j) +=! A(i,k) * A(j,k)"]
)
def test_strips_of_sizes_that_vary(text: str) -> None:
    """One template serves all sizes that have as many strips; the last one is of any length. (With
    vectors of other lengths there may be two, for rows of odd lengths.)"""
    if text.startswith("C"):
        text = f"def f(float(N,K) A) -> (C) {{ {text} }}"
    sizes = {name: 700 for name in "NMK" if f"{name}," in text or f",{name}" in text}
    guards = str(tc.explain(text, **sizes, dynamic=True, stage="sizes", device=WIDE))
    assert "pinned" not in guards
    function = tc.compile(text, dynamic=True)
    rng = np.random.default_rng(1)
    for n in (700, 699, 650, 515, 768, 30, 1):
        A, B = (rng.integers(-5, 5, (n, 20)).astype(np.float32) for _ in range(2))
        due = np.tril(A @ B.T) if "B" in text else A @ A.T
        np.testing.assert_array_equal(function(A, B) if "B" in text else function(A), due)
