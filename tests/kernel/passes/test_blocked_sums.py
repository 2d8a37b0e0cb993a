"""Which sums are added up in blocks, and that these are the same sums (R5)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from tc.kernel import ir
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary
from tc.kernel.passes.blocked_sums import BLOCK, GROUP, sum_in_blocks
from tc.kernel.verify import verify
from tests.support.build import dense, integer, loop

K, J = ir.Var("k", INT64), ir.Var("j", INT64)


def add(name: str, term: ir.Expr) -> ir.Set:
    return ir.Set(name, ir.Binary("+", ir.Var(name, term.dtype), term, term.dtype))


def kernel_of(count: int, inner: int, dtype: DType, *, even: bool, fused: bool) -> ir.Kernel:
    """Sums over (k, j) of a, into x where k is even or `even` is false, else into y, and counts
    into an integer: all of `count` times `inner` terms."""
    term = ir.Load("a", (K, J), dtype)
    one = ir.Const(1.0, dtype)
    step: ir.Stmt = add("x", term)
    if fused:
        step = ir.Set("x", ir.Call("fma", (term, one, ir.Var("x", dtype)), dtype))
    if even:
        is_even = ir.Compare("==", ir.Binary("%", K, integer(2), INT64), integer(0), BOOL)
        step = ir.If(is_even, (step,), (add("y", term),))
    body = loop("j", inner, step, add("n", integer(1)))
    start = (ir.Let(name, ir.Const(0.5, dtype)) for name in "xy")
    outputs = (ir.Store("o", (integer(n),), ir.Var("xy"[n], dtype)) for n in range(2))
    stmts = (
        *start,
        ir.Let("n", integer(0)),
        loop("k", count, body),
        *outputs,
        ir.Store("p", (), ir.Var("n", INT64)),
    )
    buffers = (
        dense("a", dtype, (count, inner), "input"),
        dense("o", dtype, (2,), "output"),
        dense("p", INT64, (), "output"),
    )
    return ir.Kernel("f", buffers, (stmts,))


@settings(max_examples=40)
@given(
    count=st.integers(0, 3 * BLOCK),
    inner=st.sampled_from([1, 2, 3, 9, 63, 64, 65, 127, 128, 130, 255, 256, 300]),
    dtype=st.sampled_from([FLOAT32, FLOAT64]),
    even=st.booleans(),
    fused=st.booleans(),
)
def test_sums_are_the_same(count: int, inner: int, dtype: DType, even: bool, fused: bool) -> None:
    """Of whole numbers, whose sums are exact in any order; a tail of a block has its own length. A
    long loop in one that never runs is in blocks, too."""
    count = min(count, 2_000 // inner)
    kernel = kernel_of(count, inner, dtype, even=even, fused=fused)
    new = sum_in_blocks(kernel)
    verify(new)
    assert (new is not kernel) == (max(count, 1) * inner >= 2 * BLOCK)
    a = (np.arange(count * inner).reshape(count, inner) % 7).astype(dtype.numpy)
    outputs = {"o": np.empty(2, dtype.numpy), "p": np.empty((), np.int64)}
    evaluate(new, {"a": a, **outputs})
    first, second = (a[::2].sum(), a[1::2].sum()) if even else (a.sum(), 0)
    assert outputs["o"].tolist() == [first + 0.5, second + 0.5]
    assert outputs["p"] == count * inner


@pytest.mark.parametrize("size", [1000, 1024, 2064, 3000])
def test_the_last_of_the_steps_that_a_sum_is_cut_into_is_shorter(size: int) -> None:
    """Sums of up to 1024 terms whose number depends on a loop around are in blocks, too."""
    i, step = ir.Var("i", INT64), 1024
    left = binary("-", integer(size), binary("*", i, integer(step)))
    place = binary("+", binary("*", i, integer(step)), K)
    term = add("x", ir.Load("a", (place,), FLOAT32))
    inner = ir.For("k", integer(0), binary("min", integer(step), left), (term,))
    total = ir.Store("o", (i,), ir.Var("x", FLOAT32))
    body = (ir.Let("x", ir.Const(0.5, FLOAT32)), inner, total)
    steps = -(-size // step)
    buffers = dense("a", FLOAT32, (size,), "input"), dense("o", FLOAT32, (steps,), "output")
    kernel = ir.Kernel("f", buffers, ((loop("i", steps, *body),),))
    new = sum_in_blocks(kernel)
    verify(new)
    assert new is not kernel
    a, o = (np.arange(size) % 7).astype(np.float32), np.empty(steps, np.float32)
    evaluate(new, {"a": a, "o": o})
    assert o.tolist() == [a[n * step : (n + 1) * step].sum() + 0.5 for n in range(steps)]


def depths(block: tuple[ir.Stmt, ...], held: dict[str, int]) -> dict[str, int]:
    """How many additions of floats stand one above the other in what each local holds after a
    block. A loop whose end is `min(begin + n, ...)` runs n times."""
    held = {**held}
    for stmt in block:
        match stmt:
            case ir.Let(var=var, value=value) | ir.Set(var=var, value=value):
                names = [e.name for e in ir.walk(value) if isinstance(e, ir.Var)]
                below = max((held.get(name, 0) for name in names), default=0)
                held[var] = below + (isinstance(stmt, ir.Set) and value.dtype.is_float)
            case ir.For(body=body):
                once = depths(body, held)
                twice = depths(body, once)
                more = count_of(stmt) - 1
                held |= {name: once[name] + more * (twice[name] - once[name]) for name in once}
    return held


def count_of(loop: ir.For) -> int:
    match loop.end:
        case ir.Const(value=end) if isinstance(loop.begin, ir.Const):
            return int(end) - int(loop.begin.value)
        case ir.Binary(op="min", left=ir.Binary(op="+", right=ir.Const(value=count))):
            return int(count)
    raise AssertionError("a loop of another kind")


@pytest.mark.parametrize("inner", [1, 2, 63, 64, 65, 128, 200, 255, 256, 1000])
@pytest.mark.parametrize("count", [1, 2, 100, 1000])
def test_no_sum_is_deep(count: int, inner: int) -> None:
    """However the terms are shared out among two loops."""
    kernel = kernel_of(count, inner, FLOAT32, even=False, fused=False)
    assert depths(kernel.regions[0], {})["x"] == count * inner
    deepest = 4 * BLOCK + 2 * GROUP + count * inner // (BLOCK * GROUP) + 8
    assert depths(sum_in_blocks(kernel).regions[0], {})["x"] <= deepest


def test_a_sum_that_continues_one_in_memory_is_added_once() -> None:
    """As the steps of each panel of packed operands do: however many, they add up what they have
    first."""
    first = ir.Store("o", (), ir.Const(0.5, FLOAT32))
    start = ir.Let("x", ir.Load("o", (), FLOAT32))
    end = ir.Store("o", (), ir.Var("x", FLOAT32))
    term = add("x", ir.Load("a", (K,), FLOAT32))
    buffers = dense("a", FLOAT32, (600,), "input"), dense("o", FLOAT32, (), "output")
    kernel = ir.Kernel("f", buffers, ((first, start, loop("k", 600, term), end),))
    new = sum_in_blocks(kernel)
    verify(new)
    assert depths(new.regions[0], {})["x"] == BLOCK + 5 + 1
    changes = [s for s in ir.statements(new.regions[0]) if isinstance(s, ir.Set) and s.var == "x"]
    assert len(changes) == 1
    assert changes[0] in new.regions[0]
    a, o = (np.arange(600) % 7).astype(np.float32), np.empty((), np.float32)
    evaluate(new, {"a": a, "o": o})
    assert o == a.sum() + 0.5


def changed(*body: ir.Stmt, dtype: DType = FLOAT32, parallel: bool = False) -> bool:
    start = (ir.Let(name, ir.Const(0, dtype)) for name in "xy")
    stmts = (*start, ir.For("k", integer(0), integer(10 * BLOCK), body, parallel))
    kernel = ir.Kernel("f", (), (stmts,))
    return sum_in_blocks(kernel) is not kernel


X, TERM = ir.Var("x", FLOAT32), ir.Load("a", (K,), FLOAT32)


def test_what_is_no_sum_stays() -> None:
    """Integers, products and maxima; sums of which a step reads more than the step before, or that
    something else reads; and what the iterations of a parallel loop have for themselves."""
    assert changed(add("x", TERM))
    assert changed(add("x", TERM), add("x", TERM), add("y", TERM))
    assert not changed(add("x", ir.Load("a", (K,), INT64)), dtype=INT64)
    for op in ("*", "max", "-"):
        assert not changed(ir.Set("x", ir.Binary(op, X, TERM, FLOAT32)))
    assert not changed(add("x", ir.Binary("*", X, TERM, FLOAT32)))
    assert not changed(add("x", TERM), ir.Store("o", (K,), X))
    assert not changed(add("x", TERM), ir.Set("x", TERM))
    assert not changed(ir.Let("z", TERM), add("z", TERM))
    assert not changed(add("x", TERM), parallel=True)


@pytest.mark.parametrize("text", [
    "def f(float(N) a) -> (o) { o +=! a(i) }",
    "def f(float(N) a) -> (o) { o(j) +=! a(i) where j in 0:3 }",
    "def f(float(N) a) -> (o) { o(j,k) +=! a(i) * 1 where j in 0:5, k in 0:40 }",
])  # fmt: skip
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_the_error_of_long_sums(text: str, backend: str) -> None:
    """Of equal terms, whose sequential sum in float32 is off by far more."""
    a = np.full(100_000, 0.1, np.float32)
    found = tc.compile(text, backend=backend)(a)
    exact = math.fsum(a.astype(float))
    one_by_one = np.add.accumulate(a)[-1]
    assert abs(one_by_one - exact) > 0.5
    assert np.abs(np.asarray(found, float) - exact).max() < 0.02


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_the_error_of_products_of_long_rows(rows: int, backend: str) -> None:
    """It is well below that of blocks whose sums are added one after the other, both where the
    steps are cut into panels and where they are not."""
    numbers, steps = np.random.default_rng(rows), 20_000
    a = numbers.standard_normal((rows, steps)).astype(np.float32)
    b = numbers.standard_normal((steps, 64)).astype(np.float32)
    exact = a.astype(float) @ b.astype(float)
    total = np.zeros_like(exact, np.float32)
    for begin in range(0, steps, BLOCK):
        block = np.zeros_like(total)
        for k in range(begin, min(begin + BLOCK, steps)):
            block = (block + np.outer(a[:, k].astype(float), b[k])).astype(np.float32)
        total += block
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    found = tc.compile(text, backend=backend)(a, b)
    assert np.std(found - exact) < 0.85 * np.std(total - exact)
