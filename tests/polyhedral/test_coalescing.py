"""Coalescing: which dimensions become one and which do not, and that no element is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tc.errors import TCError
from tc.polyhedral.rewrite.coalescing import coalesce
from tc.semantics.program import Extent, ShapedProgram, walk
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked, shaped
from tests.support.rewrites import (
    assert_consistent,
    assert_same_results,
    changed_of_table,
    runnable,
)

GROUPNORM = """
def f(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta) -> (O, s, q) {
  s(n,g) +=! I(n,g,d,h,w)
  q(n,g) +=! I(n,g,d,h,w) * I(n,g,d,h,w)
  O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - s(n,g) / (D*H*W))
      * rsqrt(q(n,g) / (D*H*W) - s(n,g) * s(n,g) / (D*H*W) / (D*H*W) + 1e-5) + beta(g,d)
}
"""


def program(text: str, **shapes: tuple[int, ...]) -> ShapedProgram:
    of = checked(text)
    arrays = {n: np.zeros(s, of.tensors[n].dtype.numpy) for n, s in shapes.items()}
    return shaped(of, arrays)


def merged(text: str, **shapes: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
    """The shapes after merging."""
    result, _ = coalesce(program(text, **shapes), {})
    assert_consistent(result)
    return result.shapes


# --- what is merged ---------------------------------------------------------------------------

MERGED: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]] = {
    "pointwise in four dimensions": (
        "def f(float(N,C,H,W) x) -> (y) { y(n,c,h,w) = fmax(x(n,c,h,w), 0) }",
        {"x": (2, 3, 4, 5)},
        {"x": (120,), "y": (120,)},
    ),
    "pointwise over several statements": (
        "def f(float(N,H,W) x) -> (z)"
        " { t(a,b,c) = x(a,b,c) * 2  u(p,q,r) = t(p,q,r)  z(i,j,k) = u(i,j,k) - x(i,j,k) }",
        {"x": (2, 3, 4)},
        {"x": (24,), "t": (24,), "u": (24,), "z": (24,)},
    ),
    "group norm": (
        GROUPNORM,
        {"I": (2, 3, 2, 4, 5), "gamma": (3, 2), "beta": (3, 2)},
        {"I": (2, 3, 2, 20), "gamma": (3, 2), "O": (2, 3, 2, 20), "s": (2, 3)},
    ),
    "sums over all": (
        "def f(float(N,H,W) x) -> (s, m) { s +=! x(n,h,w)  m(n) max=! x(n,h,w) }",
        {"x": (2, 3, 4)},
        {"x": (2, 12), "s": (), "m": (2,)},
    ),
    "a factor per row": (
        "def f(float(N,H,W) x, float(N) s) -> (y) { y(n,h,w) = s(n) * x(n,h,w) }",
        {"x": (2, 3, 4), "s": (2,)},
        {"x": (2, 12), "y": (2, 12)},
    ),
    "moved together": (
        "def f(float(A,B,C) x) -> (y) { y(c,a,b) = x(a,b,c) }",
        {"x": (2, 3, 4)},
        {"x": (6, 4), "y": (4, 6)},
    ),
    "two pairs in one tensor": (
        "def f(float(A,B,C,D) x) -> (y) { y(c,d,a,b) = x(a,b,c,d) }",
        {"x": (2, 3, 4, 5)},
        {"x": (6, 20), "y": (20, 6)},
    ),
    "contraction over two": (
        "def f(float(M,A,B) x, float(A,B,K) y) -> (z) { z(m,k) +=! x(m,a,b) * y(a,b,k) }",
        {"x": (2, 3, 4), "y": (3, 4, 5)},
        {"x": (2, 12), "y": (12, 5), "z": (2, 5)},
    ),
    "windows leave what they do not touch": (
        "def f(float(N,C,H,W) x) -> (y)"
        " { y(n,c,h,w) max=! x(n,c,h+p,w+q) where p in 0:2, q in 0:2 }",
        {"x": (2, 3, 6, 5)},
        {"x": (6, 6, 5), "y": (6, 5, 4)},
    ),
    "the same pair read twice": (
        "def f(float(H,W) x) -> (y) { y(h,w,k,l) = x(h,w) * x(k,l) }",
        {"x": (2, 3)},
        {"x": (6,), "y": (6, 6)},
    ),
    "part of the first dimension": (
        "def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) where h in 1:H-1 }",
        {"x": (5, 3)},
        {"x": (15,), "y": (12,)},
    ),
    "extents of 1 and 0": (
        "def f(float(N,H,W) x) -> (y) { y(n,h,w) = x(n,h,w) }",
        {"x": (1, 0, 1)},
        {"x": (0,), "y": (0,)},
    ),
    "gathers are moved by others": (
        "def f(float(N,H,W) x, int8(A,B) i) -> (y, z) { y(n,h,w) = x(n,h,w)  z(a,b) = i(a,b) + 1 }",
        {"x": (2, 3, 4), "i": (2, 2)},
        {"x": (24,), "i": (4,), "y": (24,), "z": (4,)},
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_merged(name: str) -> None:
    text, shapes, expected = MERGED[name]
    found = merged(text, **shapes)
    assert {tensor: found[tensor] for tensor in expected} == expected


@pytest.mark.parametrize("name", MERGED)
def test_merged_results(name: str) -> None:
    text, shapes, _ = MERGED[name]
    rng = np.random.default_rng(3)
    of = checked(text)
    original, arrays = shaped_with(
        text,
        {n: rng.normal(size=s).astype(of.tensors[n].dtype.numpy) for n, s in shapes.items()},
    )
    assert_same_results(original, coalesce(original, {})[0], arrays)


KEPT: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "transposition": (
        "def f(float(A,B,C,D) x) -> (y) { y(d,c,b,a) = x(a,b,c,d) }",
        {"x": (2, 3, 4, 5)},
    ),
    "matrix product": (
        "def f(float(I,K) x, float(K,J) y) -> (z) { z(i,j) +=! x(i,k) * y(k,j) }",
        {"x": (2, 3), "y": (3, 4)},
    ),
    "another order in another statement": (
        "def f(float(H,W) x) -> (y, z) { y(h,w) = x(h,w)  z(w,h) = y(h,w) }",
        {"x": (2, 3)},
    ),
    "a constant row, far away": (
        "def f(float(H,W) x) -> (y, z, r) { y(h,w) = x(h,w)  z(h,w) = y(h,w)  r(w) = z(1,w) }",
        {"x": (2, 3)},
    ),
    "a variable in a condition": (
        "def f(float(H,W) x) -> (y) { y(h,w) = h < 1 ? 0 : x(h,w) }",
        {"x": (2, 3)},
    ),
    "a variable as a number": (
        "def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) * w }",
        {"x": (2, 3)},
    ),
    "a variable with an offset": (
        "def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) + x(h,w+1) }",
        {"x": (2, 3)},
    ),
    "a variable alone": (
        "def f(float(H,W) x, float(W) b) -> (y) { y(h,w) = x(h,w) + b(w) }",
        {"x": (2, 3), "b": (3,)},
    ),
    "part of the second dimension": (
        "def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) where w in 0:W-1 }",
        {"x": (2, 3)},
    ),
    "a second dimension from 1": (
        "def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) where w in 1:W }",
        {"x": (2, 3)},
    ),
    "a smaller tensor": (
        "def f(float(H,W) x, float(H,V) y) -> (z) { z(h,w) = x(h,w) + y(h,w) }",
        {"x": (2, 3), "y": (2, 4)},
    ),
    "a diagonal": (
        "def f(float(H,H) x) -> (y) { y(h) = x(h,h) }",
        {"x": (3, 3)},
    ),
    "reduced apart": (
        "def f(float(H,W) x) -> (y) { y(h) +=! x(h,w) }",
        {"x": (2, 3)},
    ),
    "joined along the last dimension": (
        "def f(float(N,A) x, float(N,B) y) -> (z) { z = concat(x, y) }",
        {"x": (2, 3), "y": (2, 4)},
    ),
    "padded": (
        "def f(float(H,W) x) -> (y) { y(h,w) = pad(x(h,w), 0) where h in 0:H, w in 0:W+1 }",
        {"x": (2, 3)},
    ),
    "checks tell the values of variables": (
        "def f(int(H,W) i, float(N) x) -> (y) { y(h,w) = x(i(h,w)) }",
        {"i": (2, 3), "x": (4,)},
    ),
    "only one dimension": (
        "def f(float(W) x) -> (y) { y(w) = x(w) }",
        {"x": (4,)},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    text, shapes = KEPT[name]
    original = program(text, **shapes)
    result, strides = coalesce(original, {})
    assert result is original
    assert strides == {}


def test_a_check_elsewhere_keeps_what_it_touches_alone() -> None:
    text = (
        "def f(int(H,W) i, float(N) x, float(H,W) u) -> (y, v)"
        " { y(h,w) = x(i(h,w))  v(h,w) = u(h,w) }"
    )
    shapes = merged(text, i=(2, 3), x=(4,), u=(2, 3))
    assert shapes["i"] == shapes["y"] == (2, 3)
    assert shapes["u"] == shapes["v"] == (6,)


# --- strides ----------------------------------------------------------------------------------

COPY3 = "def f(float(A,B,C) x) -> (y) { y(a,b,c) = x(a,b,c) }"


@pytest.mark.parametrize(
    ("shape", "strides", "merged_shape", "merged_strides"),
    [
        ((2, 3, 4), (12, 4, 1), (24,), None),
        ((2, 3, 4), (24, 4, 1), (2, 12), (24, 1)),
        ((2, 3, 4), (24, 8, 2), (24,), (2,)),
        ((2, 3, 4), (12, 1, 3), (2, 3, 4), (12, 1, 3)),
        ((2, 3, 4), (15, 5, 1), (6, 4), (5, 1)),
        ((2, 3, 4), (-12, -4, -1), (24,), (-1,)),
        ((2, 3, 4), (0, 0, 0), (24,), (0,)),
        ((2, 3, 4), (0, 0, 1), (6, 4), (0, 1)),
        ((2, 1, 4), (9, 4, 1), (2, 4), (9, 1)),
        ((2, 4, 1), (8, 2, 1), (8,), (2,)),
        ((1, 4, 1), (4, 2, 1), (4,), (2,)),
    ],
)
def test_strides(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    merged_shape: tuple[int, ...],
    merged_strides: tuple[int, ...] | None,
) -> None:
    result, found = coalesce(program(COPY3, x=shape), {"x": strides})
    assert result.shapes["x"] == merged_shape
    assert result.shapes["y"] == merged_shape
    assert found.get("x") == merged_strides
    base = np.arange(100, dtype=np.float32)
    step = base.itemsize

    def view(of_shape: tuple[int, ...], of_strides: tuple[int, ...]) -> Any:
        in_bytes = tuple(step * s for s in of_strides)
        return np.lib.stride_tricks.as_strided(base[50:], of_shape, in_bytes)

    if merged_strides:
        before, after = view(shape, strides), view(merged_shape, merged_strides)
        assert before.ravel().tolist() == after.ravel().tolist()


def test_strides_of_one_input_keep_the_dimensions_of_all() -> None:
    text = "def f(float(A,B) x, float(A,B) u) -> (y, z) { y(a,b) = x(a,b) + 1  z(a,b) = u(a,b) }"
    result, strides = coalesce(program(text, x=(2, 3), u=(2, 3)), {"x": (1, 2)})
    assert dict(result.shapes) == {"x": (2, 3), "u": (6,), "y": (2, 3), "z": (6,)}
    assert strides == {"x": (1, 2)}


# --- the rest of the program ------------------------------------------------------------------


def test_variables_have_readable_names_of_their_own() -> None:
    text = "def f(float(h_w,W) x) -> (y) { y(h,w) = x(h,w) }"
    result, _ = coalesce(program(text, x=(2, 3)), {})
    (statement,) = result.program.statements
    assert statement.variables == statement.outer == ("h_w_2",)
    assert result.statements[0].ranges["h_w_2"].extent == 6


def test_ranges_are_products_and_what_settled_them_is_gone() -> None:
    original = program("def f(float(H,W) x) -> (y) { y(h,w) = x(h,w) where h in 1:H }", x=(4, 3))
    result, _ = coalesce(original, {})
    bounds = result.statements[0].ranges["h_w"]
    assert (bounds.begin, bounds.end) == (3, 12)
    assert result.program.statements[0].where == ()
    assert [size.extents for size in original.program.sizes.values()] != [(), ()]
    assert [size.extents for size in result.program.sizes.values()] == [(), ()]


def test_extents_of_merged_tensors_are_numbers() -> None:
    text = "def f(float(N,H,W) x) -> (y) { y(n,h,w) = x(n,h,w) * x.1 where n in 0:x.0 }"
    original, arrays = shaped_with(text, {"x": np.ones((2, 3, 4), np.float32)})
    result, _ = coalesce(original, {})
    assert result.shapes["x"] == (24,)
    extents = [n for s in result.program.statements for n in walk(s.rhs) if isinstance(n, Extent)]
    assert extents == []
    assert interpret(result, {"x": arrays["x"].reshape(24)}, {})["y"].tolist() == [3.0] * 24


def test_rule_R3_continues_from_the_caller() -> None:
    text = "def f(float(N,H,W) x) -> (y) { y(h,w) += x(n,h,w) }"
    rng = np.random.default_rng(1)
    original, arrays = shaped_with(text, {"x": rng.normal(size=(2, 3, 4)).astype(np.float32)})
    result, _ = coalesce(original, {})
    assert result.shapes["y"] == (12,)
    start = rng.normal(size=(3, 4)).astype(np.float32)
    assert_same_results(original, result, arrays, {"y": start})


# --- results ----------------------------------------------------------------------------------


def test_table_of_programs() -> None:
    changed = changed_of_table(lambda program: coalesce(program, {})[0])
    assert changed == ["maxpool2x2", "embedding_backward"]


@settings(suppress_health_check=list(HealthCheck))
@given(calls())
def test_generated_programs(case: Call) -> None:
    original, arrays = runnable(case)
    result, _ = coalesce(original, {})
    event("kept" if result is original else "merged")
    if result is not original:
        assert_same_results(original, result, arrays)


@st.composite
def layered(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Statements over tensors whose dimensions are mostly in one order, so that many merge."""
    names = "abcde"[: draw(st.integers(2, 5))]
    extents = {v: draw(st.sampled_from((0, 1, 2, 3, 3))) for v in names}
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))

    def some_of(of: str) -> str:
        begin = draw(st.integers(0, max(len(of) - 1, 0)))
        chosen = of[: draw(st.integers(begin, len(of)))] if draw(st.booleans()) else of[begin:]
        return "".join(draw(st.permutations(chosen))) if draw(st.integers(0, 5)) == 0 else chosen

    tensors, params, inputs = {}, [], {}
    for position in range(draw(st.integers(1, 3))):
        dims = names if position == 0 else some_of(names)
        tensors[f"X{position}"] = dims
        params.append(f"int32({','.join(v.upper() for v in dims)}) X{position}")
        shape = [extents[v] for v in dims]
        inputs[f"X{position}"] = rng.integers(-9, 9, shape).astype(np.int32)
    body = []
    for position in range(draw(st.integers(1, 4))):
        read = draw(st.lists(st.sampled_from(sorted(tensors)), min_size=1, max_size=3))
        terms = [f"{t}({','.join(tensors[t])})" if tensors[t] else t for t in read]
        variables = "".join(dict.fromkeys("".join(tensors[t] for t in read)))
        left = variables if draw(st.booleans()) else some_of(variables)
        op = "=" if len(left) == len(variables) else "+=!"
        if draw(st.integers(0, 7)) == 0 and variables:
            terms.append(draw(st.sampled_from(variables)))
        where = ""
        if draw(st.integers(0, 7)) == 0 and variables and extents[variables[0]] > 1:
            where = f" where {variables[0]} in 1:{variables[0].upper()}"
        body.append(f"O{position}({','.join(left)}) {op} {' * '.join(terms)}{where}")
        if not left:
            body[-1] = body[-1].replace("()", "", 1)
        tensors[f"O{position}"] = left
    outputs = ", ".join(t for t in tensors if t.startswith("O"))
    return f"def f({', '.join(params)}) -> ({outputs}) {{ {'  '.join(body)} }}", inputs


@settings(suppress_health_check=list(HealthCheck))
@given(layered())
def test_generated_layers(case: tuple[str, dict[str, Any]]) -> None:
    text, inputs = case
    try:
        original, arrays = shaped_with(text, inputs)
    except TCError as error:
        event(type(error).__name__)
        return
    result, _ = coalesce(original, {})
    assume(result is not original)
    event("merged")
    assert_same_results(original, result, arrays)
