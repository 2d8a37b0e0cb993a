"""Tiles that guards leave out: loops of launches end and begin where these tell, and where what is
known does not allow that, they stay; the same bits in any case."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.dtypes import FLOAT32, INT64
from tc.kernel.folding import TRUE, binary, constant, integer, logical_and, select
from tc.kernel.ir import (
    Compare,
    Expr,
    Kernel,
    Let,
    Load,
    Select,
    Stmt,
    Store,
    Var,
    expressions,
    walk,
)
from tc.kernel.passes.guarded_tiles import skip_guarded_tiles
from tests.kernel.grids import B0, BARRIER, T0, grid, launches
from tests.kernel.marked import all_statements, assert_same, lines
from tests.support.bounds import as_tuple, assert_computes
from tests.support.build import add, dense, loop, times, var
from tests.support.pipeline import checked
from tests.support.ptx.texts import run_text

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
BLOCKS, THREADS, OWN, TILES, STEPS = 4, 3, 2, 6, 4
ROWS, DEPTH = BLOCKS * THREADS * OWN, TILES * STEPS
ZERO = constant(0, FLOAT32)
ROW = add(times(add(times(B0, OWN), var("c")), THREADS), T0)
STEP = add(times(var("k"), STEPS), var("r"))
TOTAL = Load("p", (var("c"),), FLOAT32)


A_TILE = add(times(var("c"), THREADS), T0)
NEAR = Load("s", (A_TILE, var("r")), FLOAT32)


def sums(
    guard: Expr,
    *,
    start: Expr = ZERO,
    otherwise: Expr = ZERO,
    term: Expr = NEAR,
    before: tuple[Stmt, ...] = (),
    beside: tuple[Stmt, ...] = (),
    turns: int = 1,
) -> Kernel:
    """Each of four blocks has the sums of six rows, each of its threads of two: of steps of `a`, a
    tile of which all threads copy to shared memory."""
    store: Stmt = Store("p", (var("c"),), binary("+", TOTAL, select(guard, term, otherwise)))
    copy: Stmt = Store("s", (A_TILE, var("r")), Load("a", (ROW, STEP), FLOAT32))
    for name, count in (("c", OWN), ("r", STEPS)):
        store = loop(name, count, store, mark="unroll")
        copy = loop(name, count, copy, mark="unroll")
    tiles: Stmt = loop("k", TILES, copy, BARRIER, store, *beside, BARRIER)
    tiles = tiles if turns == 1 else loop("u", turns, tiles)
    begun = loop("c", OWN, Store("p", (var("c"),), start), mark="unroll")
    done = loop("c", OWN, Store("o", (ROW,), TOTAL), mark="unroll")
    launch = grid((BLOCKS,), (THREADS,), begun, *before, tiles, done)
    buffers = (
        dense("a", FLOAT32, (ROWS, DEPTH), "input"),
        dense("n", INT64, (ROWS,), "input"),
        dense("o", FLOAT32, (ROWS,), "output"),
        dense("q", FLOAT32, (ROWS,), "output"),
        dense("s", FLOAT32, (OWN * THREADS, STEPS), "shared"),
        dense("p", FLOAT32, (OWN,), "register"),
    )
    clear = loop("c", OWN, Store("q", (ROW,), ZERO), mark="unroll")
    launch = replace(launch, body=(clear, *launch.body))
    return launches(launch, buffers=buffers)


def compared(left: Expr, op: str, right: Expr) -> Compare:
    return Compare(op, left, right)


BELOW = compared(STEP, "<=", ROW)
ABOVE = compared(STEP, ">", ROW)
FIXED = compared(ROW, "<", times(add(T0, integer(1)), 9))


def test_below_a_diagonal() -> None:
    found = assert_same(sums(BELOW), skip_guarded_tiles)
    assert [line.strip() for line in lines(found)][5:] == [
        "let edge: int64 = (b0 * 6 + 5) / 4 + 1",
        "for k in 0:edge",
        "unroll for r in 0:4",
        "unroll for c in 0:2",
        "s[c * 3 + t0, r] = a[(b0 * 2 + c) * 3 + t0, k * 4 + r]",
        "barrier",
        "if k < (b0 * 6 - 3) / 4 + 1",
        "unroll for r in 0:4",
        "unroll for c in 0:2",
        "p[c] = p[c] + s[c * 3 + t0, r]",
        "else",
        "unroll for r in 0:4",
        "unroll for c in 0:2",
        "let s_1: float32 = s[c * 3 + t0, r]",
        "if k * 4 + r <= (b0 * 2 + c) * 3 + t0",
        "p[c] = p[c] + s_1",
        "barrier",
        "unroll for c in 0:2",
        "o[(b0 * 2 + c) * 3 + t0] = p[c]",
    ]


def test_above_a_diagonal() -> None:
    found = assert_same(sums(ABOVE), skip_guarded_tiles)
    assert "  for k in edge:6" in lines(found)
    assert "    if k >= (b0 * 6 + 9) / 4" in lines(found)


def test_between_diagonals() -> None:
    band = logical_and(
        compared(STEP, "<=", add(ROW, integer(3))), compared(ROW, "<", add(STEP, integer(5)))
    )
    found = assert_same(sums(band), skip_guarded_tiles)
    assert "  for k in edge:edge_1" in lines(found)


def test_a_guard_of_a_sum_is_tested_once_behind_it() -> None:
    found = assert_same(sums(FIXED), skip_guarded_tiles)
    stores = [s for s in all_statements(found) if isinstance(s, Store) and s.buffer == "p"]
    assert not any(isinstance(e, Compare) for s in stores[:2] for e in expressions(s))
    (behind,) = stores[2:]
    assert behind.value == select(FIXED, TOTAL, ZERO)


def test_a_guard_of_some_terms_of_an_element_stays() -> None:
    """The same in each turn of a loop over tiles, but not of all terms of a tile."""
    guard = compared(var("r"), "<=", T0)
    assert_same(sums(guard), skip_guarded_tiles)
    assert_same(sums(logical_and(guard, FIXED)), skip_guarded_tiles)


def test_few_tests_where_there_is_room_for_few_statements() -> None:
    """What is read before tests takes more statements than the tests in the terms."""
    found = assert_same(sums(BELOW), lambda kernel: skip_guarded_tiles(kernel, limit=24))
    assert any("let s_1" in line for line in lines(found))
    found = assert_same(sums(BELOW), lambda kernel: skip_guarded_tiles(kernel, limit=23))
    assert not any("let s_1" in line for line in lines(found))


OF_A_THREAD = Let("x", binary("+", T0, integer(7)))
OF_THE_LOOP = Store("q", (T0,), ZERO)
FIRST = Load("p", (integer(0),), FLOAT32)
ANOTHER_SUM = Store("p", (integer(0),), binary("+", FIRST, Load("s", (T0, T0), FLOAT32)))
STAY: dict[str, tuple[Expr, dict[str, Any]]] = {
    "a sum that may be -0": (BELOW, {"start": constant(-0.0, FLOAT32)}),
    "terms that are not 0 else": (BELOW, {"otherwise": constant(1, FLOAT32)}),
    "ends of tensors": (compared(STEP, "<", integer(DEPTH - 1)), {}),
    "what is read": (compared(STEP, "<", Load("n", (B0,), INT64)), {}),
    "what a thread knows": (compared(STEP, "<", Var("x", INT64)), {"before": (OF_A_THREAD,)}),
    "what others read": (BELOW, {"beside": (OF_THE_LOOP,)}),
    "what is summed beside": (BELOW, {"beside": (ANOTHER_SUM,)}),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    guard, how = STAY[name]
    kernel = sums(guard, **how)
    assert skip_guarded_tiles(kernel) is kernel


FAR = Load("s", (add(A_TILE, integer(-1)), var("r")), FLOAT32)
GUARDED: dict[str, tuple[Expr, dict[str, Any]]] = {
    "reads beyond the ends of a buffer": (
        compared(B0, "<", add(B0, times(T0, 5))),
        {"term": FAR},
    ),
    "remainders by 0": (
        compared(ROW, "<=", times(T0, 5)),
        {"term": Load("s", (T0, binary("%", integer(5), T0)), FLOAT32)},
    ),
    "memory that others may write": (FIXED, {"term": Load("a", (ROW, STEP), FLOAT32)}),
    "a start that is not 0": (FIXED, {"start": constant(3, FLOAT32)}),
    "a sum that goes on": (FIXED, {"turns": 2}),
}


@pytest.mark.parametrize("name", GUARDED)
def test_guards_that_stay_in_terms(name: str) -> None:
    guard, how = GUARDED[name]
    found = assert_same(sums(guard, **how), skip_guarded_tiles)
    assert any(guard in walk(e) for s in all_statements(found) for e in expressions(s))
    assert not any(
        isinstance(s, Store) and isinstance(s.value, Select) for s in all_statements(found)
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(60))
def test_any_guards(seed: int) -> None:
    rng = random.Random(seed)
    guard: Expr = TRUE
    for _ in range(rng.choice((1, 1, 2, 3))):
        terms = [B0, T0, var("c"), var("k"), var("r"), STEP, ROW]
        sides = []
        for _ in range(2):
            some = (times(rng.choice(terms), rng.choice((-2, -1, 1, 1, 2, 3))) for _ in range(2))
            sides.append(add(*some, integer(rng.randint(-9, 9))))
        guard = logical_and(guard, compared(sides[0], rng.choice(("<", "<=", ">", ">=")), sides[1]))
    assert_same(sums(guard, turns=rng.choice((1, 1, 2))), skip_guarded_tiles)


PROGRAMS = {
    "lower product": "def f(float(N,N) A, float(N,M) B) -> (C) "
    "{ C(i,j) +=! k <= i ? A(i,k) * B(k,j) : 0 }",
    "upper product": "def f(float(N,N) A, float(N,M) B) -> (C) "
    "{ C(i,j) +=! k >= i ? A(i,k) * B(k,j) : 0 }",
    "scores": "def f(float(N,M) A, float(N,M) B) -> (C) "
    "{ C(i,j) +=! j <= i ? A(i,k) * B(j,k) : 0 }",
    "band": "def f(double(N,N) A, double(N,M) B) -> (C) "
    "{ C(i,j) +=! k <= i + 2 && i <= k + 5 ? A(i,k) * B(k,j) : 0 }",
    "rows before": "def f(float(N,M) A) -> (o) { o(i) +=! j <= i ? A(j,d) : 0 where i in 0:N }",
    "squares": "def f(float(N,N) A) -> (o) { o(i) +=! j > i ? A(i,j) * A(i,j) : 0 }",
}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "B" in PROGRAMS[name]])
def test_tiles_of_programs(name: str) -> None:
    """Beyond the ends of tensors buffers hold zeros, which need no tests either."""
    sizes = {"N": 486, "M": 300}
    text = str(tc.emit(PROGRAMS[name], sizes, backend="cuda", device=tc.Gpu.named("sm_90")))
    assert "edge" in text
    assert "< 486 ?" not in text


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sizes", [(67, 19), (31, 150), (7, 5), (2, 6)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_the_machine(name: str, sizes: tuple[int, int]) -> None:
    """Also with infinities where guards fail, which are in no sum."""
    text, program = PROGRAMS[name], checked(PROGRAMS[name])
    rng, extents = np.random.default_rng(0), dict(zip("NM", sizes, strict=True))
    inputs = {}
    for each in program.inputs:
        tensor = program.tensors[each]
        shape = [extents[d.name] for d in tensor.shape]
        inputs[each] = rng.normal(size=shape).astype(tensor.dtype.numpy)
    if name == "lower product":
        inputs["A"][np.triu_indices(sizes[0], 1)] = np.inf
    if name == "scores":
        inputs["B"][-1] = np.inf
    arrays = list(inputs.values())
    emitted = tc.emit(text, arrays, backend="cuda", device=tc.Gpu.named("sm_90"))
    failure, found = run_text(emitted, inputs)
    assert failure is None
    expected = as_tuple(tc.interpret(text, arrays))
    outputs = zip(program.outputs, expected, strict=True)
    assert_computes(text, arrays, tuple(found[o].reshape(e.shape) for o, e in outputs))
