"""Sums in the order of what they read: which are, and that results stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tc.api import explain
from tc.device import Device
from tc.polyhedral.cpu.cpu_target import cpu_target
from tc.polyhedral.rewrite.coalescing import coalesce
from tc.polyhedral.rewrite.read_order import sum_in_read_order
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import ShapedProgram
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.interpreting import shaped_with
from tests.support.rewrites import (
    assert_consistent,
    assert_same_results,
    changed_of_table,
    runnable,
    texts,
)

LIMITS = Thresholds(read_steps=8, read_row=64)
EACH = Thresholds(read_steps=1, read_row=1 << 20)
"""By which each sum is in the order of what it reads."""


def program(text: str, **shapes: tuple[int, ...]) -> tuple[ShapedProgram, dict[str, Any]]:
    rng = np.random.default_rng(3)
    return shaped_with(text, {n: rng.normal(size=s).astype("f") for n, s in shapes.items()})


TRANSPOSED = "def f(float(K) a, float(K,C,D) B) -> (O) { O(d,c) +=! a(k) * B(k,c,d) }"

ORDERED: dict[str, tuple[str, dict[str, tuple[int, ...]], list[str]]] = {
    "transposed": (
        TRANSPOSED,
        {"a": (9,), "B": (9, 4, 5)},
        ["S0.sum: O.s0(c, d) +=! a(k) * B(k, c, d)", "S0: O(d, c) = O.s0(c, d)"],
    ),
    "a dimension between": (
        "def f(float(C,K,D,E) B) -> (O) { O(d,c,e) max=! B(c,k,d,e) }",
        {"B": (2, 9, 4, 5)},
        ["S0.sum: O.s0(c, d, e) max=! B(c, k, d, e)", "S0: O(d, c, e) = O.s0(c, d, e)"],
    ),
    "what was there": (
        "def f(float(K,C,D) B, float(C,K) a) -> (O) { O(d,c) += a(c,k) * B(k,c,d) }",
        {"a": (4, 9), "B": (9, 4, 5)},
        ["S0.sum: O.s0(c, d) +=! a(c, k) * B(k, c, d)", "S0: O(d, c) += O.s0(c, d)"],
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered(name: str) -> None:
    text, shapes, expected = ORDERED[name]
    original, arrays = program(text, **shapes)
    found = sum_in_read_order(original, LIMITS)
    assert texts(found) == expected
    initial = {"O": np.ones(original.shapes["O"], np.float32)} if "+= " in text else {}
    assert_same_results(original, found, arrays, initial)
    merged, _ = coalesce(found, {}, lightly_read=True)
    assert_same_results(original, merged, arrays, initial)


KEPT = {
    "short sums": (TRANSPOSED, {"a": (7,), "B": (7, 4, 5)}),
    "long rows": (TRANSPOSED, {"a": (9,), "B": (9, 4, 16)}),
    "the order of the result": (
        "def f(float(K,C,D) B) -> (O) { O(c,d) +=! B(k,c,d) }",
        {"B": (9, 4, 5)},
    ),
    "a row that lies so in the result": (
        "def f(float(K,C,D,E) B) -> (O) { O(d,e,c) +=! B(k,c,d,e) }",
        {"B": (9, 4, 5, 3)},
    ),
    "steps between neighbours": (
        "def f(float(C,K,D) B) -> (O) { O(d,c) +=! B(c,k,d) }",
        {"B": (4, 9, 5)},
    ),
    "sums along rows": (
        "def f(float(D,C,K) B) -> (O) { O(c,d) +=! B(d,c,k) }",
        {"B": (4, 5, 9)},
    ),
    "no tensor with all": (
        "def f(float(K,C) A, float(K,D) B) -> (O) { O(d,c) +=! A(k,c) * B(k,d) }",
        {"A": (9, 4), "B": (9, 5)},
    ),
    "other places": (
        "def f(float(K,C,D) B) -> (O) { O(d,c) +=! B(k,c+1,d) where c in 0:3 }",
        {"B": (9, 4, 5)},
    ),
    "places behind the first": (
        "def f(float(K,C,D) B) -> (O) { O(d,c) +=! B(k,c,d) where c in 1:4 }",
        {"B": (9, 4, 5)},
    ),
    "no sum": ("def f(float(C,D) B) -> (O) { O(d,c) = B(c,d) }", {"B": (4, 5)}),
    "no elements": (TRANSPOSED, {"a": (9,), "B": (9, 0, 5)}),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    text, shapes = KEPT[name]
    original, _ = program(text, **shapes)
    assert sum_in_read_order(original, LIMITS) is original


def test_without_limits_nothing_changes() -> None:
    original, _ = program(TRANSPOSED, a=(9,), B=(9, 4, 5))
    assert sum_in_read_order(original, Thresholds()) is original


def test_rows_are_bytes() -> None:
    """Of eight numbers, those of float are less than a line of 64 bytes, those of double a line."""
    for element, is_short in (("float", True), ("double", False)):
        text = TRANSPOSED.replace("float", element)
        dtype = np.float32 if element == "float" else np.float64
        original, _ = shaped_with(text, {"a": np.ones(9, dtype), "B": np.ones((9, 4, 8), dtype)})
        assert (sum_in_read_order(original, LIMITS) is not original) == is_short


# --- copies that read in another order ----------------------------------------------------------


def merged(text: str, **shapes: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
    """The shapes after merging."""
    original, arrays = program(text, **shapes)
    found, _ = coalesce(original, {}, lightly_read=True)
    if found is not original:
        assert_consistent(found)
        assert_same_results(original, found, arrays)
    return found.shapes


COPIED = "def f(float(K,C,D) B) -> (O) { T(c,d) +=! B(k,c,d)  O(d,c) = T(c,d) }"


def test_copies_read_at_places_in_what_is_merged() -> None:
    assert merged(COPIED, B=(8, 4, 5)) == {"B": (8, 20), "T": (20,), "O": (5, 4)}


def test_copies_of_three_dimensions() -> None:
    text = "def f(float(K,C,D,E) B) -> (O) { T(c,d,e) +=! B(k,c,d,e)  O(e,d,c) = T(c,d,e) }"
    assert merged(text, B=(8, 4, 5, 3)) == {"B": (8, 60), "T": (60,), "O": (3, 5, 4)}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (COPIED, 7),  # the sum is not much longer than the copy
        (COPIED.replace("= T(c,d)", "= 2 * T(c,d)"), 8),  # shares loops with the sum
        (COPIED.replace("O(d,c) = ", "O(d) +=! "), 8),
        (COPIED.replace("-> (O)", "-> (O, T)"), 8),  # callers see T
    ],
)
def test_what_is_not_lightly_read(text: str, steps: int) -> None:
    original, _ = program(text, B=(steps, 4, 5))
    assert coalesce(original, {}, lightly_read=True)[0] is original


def test_only_where_wanted() -> None:
    original, _ = program(COPIED, B=(8, 4, 5))
    assert coalesce(original, {})[0] is original


# --- in the whole pipeline ----------------------------------------------------------------------

DEVICE = Device(vector_bits=512, vector_registers=32, l1=48 << 10, l2=1 << 20, threads=2)


def mapped(text: str, **sizes: int) -> str:
    return str(explain(text, sizes, device=DEVICE, stage="mapping"))


def test_plans_have_long_rows() -> None:
    """On one line of memory are several rows of B, and three of five vectors would be empty."""
    found = mapped(TRANSPOSED, K=40, C=300, D=5)
    assert "vectors of 16 along c_d" in found
    assert "vectors of 16 along d" in mapped(TRANSPOSED, K=40, C=300, D=16)


def test_limits_of_processors() -> None:
    limits = cpu_target(DEVICE).rewriting
    assert (limits.read_steps, limits.read_row) == (32, 64)
    assert "along c_d" not in mapped(TRANSPOSED, K=31, C=300, D=5)


# --- results ------------------------------------------------------------------------------------


def both(shaped: ShapedProgram) -> ShapedProgram:
    return coalesce(sum_in_read_order(shaped, EACH), {}, lightly_read=True)[0]


def test_table_of_programs() -> None:
    assert changed_of_table(lambda shaped: sum_in_read_order(shaped, EACH)) == []


@settings(suppress_health_check=list(HealthCheck))
@given(calls())
def test_generated_programs(case: Call) -> None:
    original, arrays = runnable(case)
    result = both(original)
    event("kept" if result is original else "changed")
    if result is not original:
        assert_same_results(original, result, arrays)


@st.composite
def sums(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A sum over some dimensions of a tensor, times another one, to a result in any order, and what
    is made of that."""
    names = "abcde"[: draw(st.integers(3, 5))]
    extents = {v: draw(st.integers(1, 5)) for v in names}
    element, dtype = draw(st.sampled_from((("float", "f"), ("double", "d"), ("half", "e"))))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    reduced = draw(st.sets(st.sampled_from(names), min_size=1, max_size=2))
    read = draw(st.permutations(names))
    factor = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    left = draw(st.permutations([v for v in names if v not in reduced]))
    op = draw(st.sampled_from(("+=!", "max=!", "min=!")))
    factor_text = f" * Y({','.join(factor)})" if draw(st.booleans()) else ""
    body = f"O({','.join(left)}) {op} X({','.join(read)}){factor_text}"
    outputs = "O"
    if draw(st.booleans()):
        order = draw(st.permutations(left))
        body += f" P({','.join(order)}) = O({','.join(left)})" + draw(st.sampled_from(("", " + 1")))
        outputs = draw(st.sampled_from(("P", "O, P")))
    inputs = {
        name: rng.integers(-3, 4, [extents[v] for v in dims]).astype(dtype)
        for name, dims in (("X", read), ("Y", factor))
    }
    params = ", ".join(
        f"{element}({','.join(v.upper() for v in dims)}) {name}"
        for name, dims in (("X", read), ("Y", factor))
    )
    return f"def f({params}) -> ({outputs}) {{ {body} }}", inputs


@settings(suppress_health_check=list(HealthCheck))
@given(sums())
def test_generated_sums(case: tuple[str, dict[str, Any]]) -> None:
    original, arrays = shaped_with(*case)
    result = both(original)
    event("kept" if result is original else "changed")
    if result is not original:
        assert_same_results(original, result, arrays)
