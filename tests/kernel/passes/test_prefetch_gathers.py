"""Which loops get hints, for which elements: each condition alone decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT8, INT32, INT64, UINT64, DType
from tc.kernel.analysis.estimate import estimate
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Prefetch,
    Ramp,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Var,
    statements,
)
from tc.kernel.passes.contraction import contract
from tc.kernel.passes.prefetch import GATHER_DISTANCE as DISTANCE
from tc.kernel.passes.prefetch import MAX_GATHERED_LINES as MAX_LINES
from tc.kernel.passes.prefetch import MIN_ITERATIONS, prefetch
from tc.kernel.passes.vector_functions import expand_vector_functions
from tc.kernel.printer import expression_text, statement_lines
from tc.kernel.verify import verify
from tc.kernel.walk import has_prefetches
from tests.kernel.marked import finish
from tests.support.build import I, dense, integer, loop
from tests.support.vectors import plus, ramp, times

K, T = Var("k", INT64), Var("t", INT64)
ROWS, BAGS, LENGTH, COLUMNS = 100, 5, 20, 64
CHECKED = Logical("&&", (Compare(">=", T, integer(0)), Compare("<", T, integer(ROWS))))


def index(*at: Expr, dtype: DType = INT32, name: str = "n") -> Expr:
    return Cast(Load(name, at, dtype), INT64)


def row(at: Expr, first: int = 0, lanes: int = 16, mask: Expr | None = None) -> Load:
    place = (at, ramp(integer(first), lanes))
    return Load("x", place, FLOAT32.vector(lanes) if lanes > 1 else FLOAT32, mask)


def add(term: Expr) -> Set:
    total = Var(f"s{term.dtype.lanes}", term.dtype)
    return Set(total.name, Binary("+", total, term, term.dtype))


def kernel_of(*bodies: Stmt, dtype: DType = INT32, columns: int = COLUMNS) -> Kernel:
    """`s16` and `s1` are totals for the statements of a bag `i`."""
    totals = [Let(f"s{n}", Const(0.0, FLOAT32.vector(n) if n > 1 else FLOAT32)) for n in (16, 1)]
    end = (
        Store("o", (I, ramp(integer(0), 16)), Var("s16", FLOAT32.vector(16))),
        Store("p", (I,), Var("s1", FLOAT32)),
    )
    buffers = (
        dense("x", FLOAT32, (ROWS, columns), "input"),
        dense("n", dtype, (BAGS, LENGTH), "input"),
        dense("o", FLOAT32, (BAGS, 16), "output"),
        dense("p", FLOAT32, (BAGS,), "output"),
        dense("u", INT32, (BAGS, LENGTH), "temporary"),
    )
    bags = loop("i", BAGS, *totals, *bodies, *end, parallel=True)
    return Kernel("k", buffers, ((bags,),), (Site("read", 0, 0, ("i",)),))


def hints(kernel: Kernel, cache: int = 1000) -> list[str]:
    """The hints; all else stays."""
    verify(kernel)
    found = prefetch(kernel, cache, line=64, page=4096)
    verify(found)
    assert has_prefetches(found) is any(isinstance(s, Prefetch) for s in inside(found))
    assert [s for s in lines(found) if not s.startswith("prefetch")] == lines(kernel)
    assert estimate(found) == estimate(kernel)
    return [line.removeprefix("prefetch ") for line in lines(found) if line.startswith("prefetch")]


def inside(kernel: Kernel) -> Sequence[Stmt]:
    return [stmt for region in kernel.regions for stmt in statements(region)]


def lines(kernel: Kernel) -> list[str]:
    texts = [line for region in kernel.regions for s in region for line in statement_lines(s)]
    return [line.strip() for line in texts]


NEXT = "k >= 12 ? min(i + 1, 4) : i, k >= 12 ? k - 12 : k + 8"
"""The place of the index eight iterations later."""


def gather(*body: Stmt, length: int = LENGTH, name: str = "k") -> For:
    return loop(name, length, *body)


SUM = gather(Let("t", index(I, K)), add(row(T)))


def test_a_row() -> None:
    assert hints(kernel_of(SUM)) == [f"x[int64(n[{NEXT}]), 0:30:15]"]
    assert not has_prefetches(kernel_of(SUM))


def test_results_stay() -> None:
    kernel = kernel_of(gather(Let("t", index(I, K)), add(row(T)), add(row(T, 48))))
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "x": rng.random((ROWS, COLUMNS), np.float32),
        "n": rng.integers(0, ROWS, (BAGS, LENGTH)).astype(np.int32),
    }
    results = []
    for each in kernel, prefetch(kernel, 1, line=64, page=4096):
        outputs = {"o": np.zeros((BAGS, 16), np.float32), "p": np.zeros(BAGS, np.float32)}
        assert evaluate(each, {**arrays, **outputs}) is None
        results.append(outputs["o"])
    np.testing.assert_array_equal(results[0], results[1])
    assert results[0].any()


def test_only_buffers_larger_than_the_cache() -> None:
    size = ROWS * COLUMNS * 4
    assert hints(kernel_of(SUM), size - 1)
    assert not hints(kernel_of(SUM), size)
    assert not hints(kernel_of(SUM), 0)  # nothing is known of the cache
    kernel = kernel_of(SUM)
    repeated = replace(kernel.buffer("x"), strides=(0, 1))
    kernel = replace(kernel, buffers=(repeated, *kernel.buffers[1:]))
    assert not hints(kernel, COLUMNS * 4)
    assert hints(kernel, COLUMNS * 4 - 1)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([(0, 16), (16, 16), (32, 16), (48, 16)], ["0:64:16", "63"]),
        ([(48, 16), (0, 16), (32, 16), (16, 16)], ["0:64:16", "63"]),
        ([(0, 4), (4, 4), (8, 4), (12, 4)], ["0:30:15"]),
        ([(0, 8), (8, 8), (16, 8), (24, 8)], ["0:32:16", "31"]),
        ([(3, 1)], ["3"]),
        ([(3, 1), (4, 1), (5, 1)], ["3:7:2"]),
        ([(3, 1), (40, 1)], ["3:77:37"]),
        ([(0, 16), (0, 16)], ["0:30:15"]),
        ([(0, 16), (48, 16)], ["0:96:48", "63"]),
    ],
)
def test_one_hint_a_line(loads: list[tuple[int, int]], expected: list[str]) -> None:
    """And one at the last element: where a row starts within a line, it ends in one more."""
    lets = [Let(f"v{n}", row(T, *load)) for n, load in enumerate(loads)]
    kernel = kernel_of(gather(Let("t", index(I, K)), *lets))
    assert hints(kernel) == [f"x[int64(n[{NEXT}]), {columns}]" for columns in expected]


def test_no_more_than_a_few_lines() -> None:
    for count in MAX_LINES, MAX_LINES + 1:
        loads = [Let(f"v{n}", row(T, 16 * n)) for n in range(count)]
        kernel = kernel_of(gather(Let("t", index(I, K)), *loads), columns=16 * MAX_LINES + 16)
        assert bool(hints(kernel)) is (count == MAX_LINES)
    kernel = kernel_of(SUM)  # as many lines as lanes
    turned = replace(kernel.buffer("x"), strides=(1, ROWS))
    assert not hints(replace(kernel, buffers=(turned, *kernel.buffers[1:])))


def test_a_mask_hides_no_line() -> None:
    mask = Compare("<", Ramp(integer(48), 1, INT64.vector(16)), ramp_of(61), BOOL.vector(16))
    lets = [Let("v", row(T, 32)), Let("w", row(T, 48, 16, mask))]
    kernel = kernel_of(gather(Let("t", index(I, K)), *lets), columns=61)
    assert hints(kernel) == [f"x[int64(n[{NEXT}]), {at}]" for at in ("32:64:16", "63")]


def ramp_of(value: int) -> Expr:
    return Const(value, INT64.vector(16))


@pytest.mark.parametrize("dtype", [INT8, UINT64, INT64])
def test_types_of_indices(dtype: DType) -> None:
    value = Load("n", (I, K), dtype) if dtype == INT64 else index(I, K, dtype=dtype)
    (hint,) = hints(kernel_of(gather(Let("t", value), add(row(T))), dtype=dtype))
    place = f"n[{NEXT}]" if dtype == INT64 else f"int64(n[{NEXT}])"
    assert hint == f"x[{place}, 0:30:15]"


def test_arithmetic_on_indices() -> None:
    value = plus(times(index(I, K), 2), 1)
    (hint,) = hints(kernel_of(gather(Let("t", value), add(row(T)))))
    assert hint == f"x[int64(n[{NEXT}]) * 2 + 1, 0:30:15]"
    (hint,) = hints(kernel_of(gather(add(row(plus(index(I, K), K))))))  # no local at all
    assert hint == f"x[int64(n[{NEXT}]) + (k >= 12 ? k - 12 : k + 8), 0:30:15]"


def test_several_gathered_dimensions() -> None:
    load = Load("x", (T, index(I, K)), FLOAT32)
    (hint,) = hints(kernel_of(gather(Let("t", index(I, K)), add(load))))
    assert hint == f"x[int64(n[{NEXT}]), int64(n[{NEXT}])]"


def test_checks_are_left_out_and_choices_are_not() -> None:
    safe, lets = Var("c", BOOL), (Let("t", index(I, K)), Let("c", CHECKED))
    chosen = add(row(Select(safe, T, integer(0), INT64)))
    failing = If(Logical("!", (safe,)), (Fail(0, (I, T)),))
    (hint,) = hints(kernel_of(gather(*lets, failing, chosen)))
    assert hint == f"x[int64(n[{NEXT}]), 0:30:15]"
    (hint,) = hints(kernel_of(gather(*lets, chosen)))
    assert " ? int64(n[" in hint
    # a choice between loads: the other may be out of bounds
    other = Select(safe, index(I, T), integer(0), INT64)
    (hint,) = hints(kernel_of(gather(*lets, failing, add(row(other)))))
    assert "? int64(n[i, int64(n[" in hint
    assert hint.endswith(" : 0, 0:30:15]")


def test_an_index_that_is_gathered_itself() -> None:
    """What is loaded for the hint is in bounds, as it is for the access."""
    safe = Compare("<", T, integer(LENGTH))
    inner = Let("r", index(I, Select(safe, T, integer(0), INT64)))
    (hint,) = hints(kernel_of(gather(Let("t", index(I, K)), inner, add(row(Var("r", INT64))))))
    first = f"int64(n[{NEXT}])"
    bag = "k >= 12 ? min(i + 1, 4) : i"
    assert hint == f"x[int64(n[{bag}, {first} < 20 ? {first} : 0]), 0:30:15]"


def test_only_places_that_are_loaded() -> None:
    assert not hints(kernel_of(gather(add(row(K)))))
    fixed = Let("t", index(I, integer(3)))
    assert not hints(kernel_of(gather(fixed, add(row(T)))))
    along = Load("x", (T, K), FLOAT32)
    assert not hints(kernel_of(gather(fixed, add(along))))
    assert not hints(kernel_of(gather(Let("t", index(I, K)), add(row(integer(3))))))


def test_lanes_anywhere_have_no_hint() -> None:
    lanes = Cast(Load("n", (I, ramp(integer(0), 16)), INT32.vector(16)), INT64.vector(16))
    load = Load("x", (lanes, K), FLOAT32.vector(16))
    assert not hints(kernel_of(gather(add(load))))


def test_the_number_of_iterations() -> None:
    for length, expected in ((DISTANCE, True), (DISTANCE - 1, False)):
        body = gather(Let("t", index(I, K)), add(row(T)), length=length)
        assert bool(hints(kernel_of(body))) is expected
    long = For("k", integer(0), plus(I, 1), SUM.body)  # not known
    assert not hints(kernel_of(long))
    for length, expected in (
        (MIN_ITERATIONS, True),
        (MIN_ITERATIONS - 1, False),
    ):  # with no loop around
        body = gather(Let("t", index(integer(0), K)), *(add(row(T)),), length=length)
        kernel = kernel_of(If(Compare("<", I, integer(2)), (body,)))
        assert bool(hints(kernel)) is expected


def test_only_loops_around_no_others() -> None:
    inner = loop("j", 4, add(Load("x", (T, plus(times(Var("j", INT64), 16), 0)), FLOAT32)))
    assert not hints(kernel_of(gather(Let("t", index(I, K)), inner)))


def test_the_end_of_the_loop_without_one_around() -> None:
    stmts = Let("t", index(integer(0), K)), Store("p", (integer(0),), row(T, 7, 1))
    kernel = replace(kernel_of(SUM), regions=((loop("k", LENGTH, *stmts),),))
    assert hints(kernel) == ["x[int64(n[0, min(k + 8, 19)]), 7]"]
    parallel = loop("k", LENGTH, stmts[0], Let("v", row(T, 7, 1)), parallel=True)
    assert len(hints(replace(kernel, regions=((parallel,),)))) == 1


def test_a_loop_in_a_branch_does_not_go_on_in_the_next_iteration() -> None:
    """It may not run there."""
    kernel = kernel_of(If(Compare("<", I, integer(2)), (SUM,)))
    assert hints(kernel) == ["x[int64(n[i, min(k + 8, 19)]), 0:30:15]"]


def test_what_the_iteration_around_computes_is_its_own() -> None:
    other = Let("b", Binary("/", I, integer(2), INT64))
    body = gather(Let("t", index(Var("b", INT64), K)), add(row(T)))
    assert hints(kernel_of(other, body)) == ["x[int64(n[b, min(k + 8, 19)]), 0:30:15]"]


def test_indices_that_change_meanwhile() -> None:
    place = index(I, K, name="u")
    written = Store("u", (I, K), Const(1, INT32))
    first = loop("l", LENGTH, Store("u", (I, Var("l", INT64)), Const(1, INT32)))
    body = gather(Let("t", place), add(row(T)))
    assert hints(kernel_of(first, body)) == ["x[int64(u[i, min(k + 8, 19)]), 0:30:15]"]
    assert not hints(kernel_of(gather(written, Let("t", place), add(row(T)))))
    moving = Set("b", plus(Var("b", INT64), 1))
    started = Let("b", integer(0))
    steps = gather(moving, Let("t", plus(index(I, K), Var("b", INT64))), add(row(T)))
    assert not hints(kernel_of(started, steps))


def test_accesses_that_may_not_happen() -> None:
    """Their indices may be out of bounds."""
    some = Compare("<", K, integer(5))
    lazy = Select(some, row(index(I, K), 0, 1), Const(0.0, FLOAT32), FLOAT32)
    assert not hints(kernel_of(gather(add(lazy))))
    assert not hints(kernel_of(gather(If(some, (Let("t", index(I, K)), add(row(T)))))))


def test_no_endless_indices() -> None:
    steps: list[Stmt] = [Let("t0", index(I, K))]
    for n in range(40):
        last = Var(f"t{n}", INT64)
        steps.append(Let(f"t{n + 1}", Binary("min", last, last, INT64)))
    assert not hints(kernel_of(gather(*steps, add(row(Var("t40", INT64))))))


def test_two_tables() -> None:
    other = loop("l", LENGTH, Let("t", index(I, Var("l", INT64))), add(row(T)))
    found = hints(kernel_of(SUM, other))
    assert found == [f"x[int64(n[{text}]), 0:30:15]" for text in (NEXT, NEXT.replace("k", "l"))]


def test_what_a_hint_names_may_be_anywhere() -> None:
    """The definition evaluates the index, and reads nothing there."""
    far = Prefetch("x", (Binary("*", index(I, integer(0)), integer(1 << 62), INT64), integer(-5)))
    kernel = kernel_of(far)
    verify(kernel)
    arrays = {
        "x": np.zeros((ROWS, COLUMNS), np.float32),
        "n": np.ones((BAGS, LENGTH), np.int32),
        "o": np.ones((BAGS, 16), np.float32),
        "p": np.ones(BAGS, np.float32),
    }
    assert evaluate(kernel, arrays) is None
    outside = Prefetch("x", (index(I, integer(LENGTH)), integer(0)))
    with pytest.raises(Exception, match="is outside of shape") as caught:
        evaluate(kernel_of(outside), arrays)
    assert expression_text(index(I, integer(LENGTH))).removeprefix("int64(")[:-1] in str(caught)


def test_every_pass_keeps_hints() -> None:
    """Hints survive unrolling, vectorising, and the replacing of locals."""
    twice = Let("a", times(I, 2)), Let("b", times(I, 2))
    place = plus(index(I, K), plus(Var("b", INT64), 0))
    hint = Prefetch("x", (place, Binary("+", Var("j", INT64), Load("r", (K,), INT64), INT64)))
    register = Store("r", (K,), K)
    for mark, expected in (("unroll", 8), ("vector", 2)):
        inner = For("j", integer(0), integer(4), (hint,), mark=mark)
        outer = For("k", integer(0), integer(2), (register, inner), mark="unroll")
        kernel = kernel_of(*twice, add(Cast(Var("a", INT64), FLOAT32)), outer)
        buffers = (*kernel.buffers, Buffer("r", INT64, (2,), (1,), "register"))
        found = finish(replace(kernel, buffers=buffers), lanes_bits=256)
        found = expand_vector_functions(contract(found))
        verify(found)
        texts = [line for line in lines(found) if line.startswith("prefetch")]
        assert len(texts) == expected
        assert not any("b" in text for text in texts)  # merged with `a`
        assert ("r_0:r_0 + 4" in texts[0]) is (mark == "vector")


def test_buffers_are_as_declared() -> None:
    kernel = kernel_of(SUM)
    scratch = Buffer("w", FLOAT32, (4,), (1,), "scratch")
    kernel = replace(kernel, buffers=(*kernel.buffers, scratch))
    for stmt, reason in (
        (Prefetch("w", (integer(0),)), "'w' is private, and prefetched"),
        (Prefetch("q", (integer(0),)), "unknown buffer 'q'"),
        (Prefetch("x", (integer(0),)), "1 indices for rank 2"),
        (Prefetch("p", (Const(0, INT32),)), "an index is not int64"),
    ):
        with pytest.raises(Exception, match=reason):
            verify(replace(kernel, regions=((stmt,),)))
