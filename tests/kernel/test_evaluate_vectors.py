"""The executable definition of vectors, private buffers and marked loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT8, INT32, INT64, UINT32, DType
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Ramp,
    Reduce,
    Select,
    Set,
    Shuffle,
    Stmt,
    Store,
    Unary,
    Var,
)
from tc.kernel.verify import verify
from tests.support.build import integer

LANES = 4
F4, I4, B4 = FLOAT32.vector(LANES), INT64.vector(LANES), BOOL.vector(LANES)
ROLES = ("output", "temporary", "scratch", "register")
NAN = float("nan")


def ramp(base: int = 0, step: int = 1) -> Ramp:
    return Ramp(integer(base), step, I4)


def below(limit: int) -> Compare:
    """A mask of the first lanes."""
    return Compare("<", ramp(), Const(limit, I4), B4)


def run(*stmts: Stmt, regions: tuple[tuple[Stmt, ...], ...] = ()) -> list[int]:
    """Runs statements over an input a(8) = 10..17, an output o(4), and buffers t, s, r(8) that
    are a temporary, scratch and a register, all int64; returns the output."""
    shapes = {"a": 8, "o": LANES, "t": 8, "s": 8, "r": 8}
    kernel = Kernel(
        "k",
        tuple(
            Buffer(name, INT64, (size,), (1,), role)
            for (name, size), role in zip(shapes.items(), ("input", *ROLES), strict=True)
        ),
        regions or (stmts,),
    )
    verify(kernel)
    out = np.full(LANES, -99)
    assert evaluate(kernel, {"a": np.arange(10, 18), "o": out}) is None
    result: list[int] = out.tolist()
    return result


def broken(*stmts: Stmt, regions: tuple[tuple[Stmt, ...], ...] = ()) -> str:
    with pytest.raises(InternalError) as caught:
        run(*stmts, regions=regions)
    prefix = "kernel k breaks a promise: in "
    assert caught.value.cause.startswith(prefix)
    return caught.value.cause.removeprefix(prefix)


def lanes_of(expr: Expr) -> np.ndarray[Any, Any]:
    """What a vector (or scalar) expression without loads gives."""
    dtype, lanes = expr.dtype.scalar, expr.dtype.lanes
    index = integer(0) if lanes == 1 else Ramp(integer(0), 1, INT64.vector(lanes))
    buffers = (Buffer("o", dtype, (lanes,), (1,), "output"),)
    kernel = Kernel("k", buffers, ((Store("o", (index,), expr),),))
    verify(kernel)
    out = np.zeros(lanes, dtype.numpy)
    assert evaluate(kernel, {"o": out}) is None
    return out


def load(index: Expr, mask: Expr | None = None, name: str = "a") -> Load:
    return Load(name, (index,), INT64.vector(index.dtype.lanes), mask)


def store(value: Expr, mask: Expr | None = None, name: str = "o") -> Store:
    return Store(name, (ramp(),), value, mask)


# --- expressions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Const(3, I4), [3, 3, 3, 3]),
        (ramp(5, -2), [5, 3, 1, -1]),
        (Broadcast(integer(7), I4), [7, 7, 7, 7]),
        (Unary("-", ramp(), I4), [0, -1, -2, -3]),
        (Binary("*", ramp(1), ramp(1), I4), [1, 4, 9, 16]),
        (Binary("/", ramp(-2), Const(2, I4), I4), [-1, -1, 0, 0]),
        (Binary("%", ramp(-2), Const(3, I4), I4), [1, 2, 0, 1]),
        (Binary("max", ramp(), Const(2, I4), I4), [2, 2, 2, 3]),
        (Binary("&", ramp(4), Const(5, I4), I4), [4, 5, 4, 5]),
        (Binary("|", ramp(), Const(1, I4), I4), [1, 1, 3, 3]),
        (Binary("^", ramp(), Const(1, I4), I4), [1, 0, 3, 2]),
        (Binary("<<", Const(3, I4), ramp(), I4), [3, 6, 12, 24]),
        (Binary(">>", Const(-8, I4), ramp(), I4), [-8, -4, -2, -1]),
        (Binary(">>", Const(2**32 - 8, UINT32), Const(28, UINT32), UINT32), [15]),
        (Call("abs", (ramp(-2),), I4), [2, 1, 0, 1]),
        (below(2), [True, True, False, False]),
        (Logical("!", (below(2),), B4), [False, False, True, True]),
        (Logical("&&", (below(3), Logical("!", (below(1),), B4)), B4), [False, True, True, False]),
        (Logical("||", (below(1), below(2)), B4), [True, True, False, False]),
        (Select(below(2), ramp(), Const(9, I4), I4), [0, 1, 9, 9]),
        (Select(Const(False, BOOL), ramp(), Const(9, I4), I4), [9, 9, 9, 9]),
        (Cast(ramp(127), INT8.vector(LANES)), [127, -128, -127, -126]),
        (Bits(Const(1.0, F4), INT32.vector(LANES)), [0x3F800000] * 4),
        (Bits(Const(0x7F800000, INT32), FLOAT32), [float("inf")]),
        (Reduce("+", ramp(1), INT64), [10]),
        (Reduce("*", ramp(1), INT64), [24]),
        (Reduce("+", Const(100, INT8.vector(2)), INT8), [-56]),
        (Reduce("min", ramp(-3), INT64), [-3]),
        (Reduce("max", below(1), BOOL), [True]),
        (Reduce("min", below(1), BOOL), [False]),
        (Shuffle(ramp(), ramp(10), (0, 4, 3, 7), I4), [0, 10, 3, 13]),
        (Shuffle(ramp(), ramp(10), (5, 5), INT64.vector(2)), [11, 11]),
    ],
)
def test_lane_by_lane(expr: Expr, expected: list[float]) -> None:
    found = lanes_of(expr)
    assert found.tolist() == expected
    assert found.dtype == expr.dtype.numpy


@pytest.mark.parametrize("op", ["min", "max"])
def test_reduction_propagates_nan(op: str) -> None:
    one_nan = Select(below(1), Const(NAN, F4), Const(1.0, F4), F4)
    assert np.isnan(lanes_of(Reduce(op, one_nan, FLOAT32))).all()


def test_half_vector_rounds_to_nearest_even() -> None:
    exact = Const(1.0 + 2.0**-11, F4)
    assert lanes_of(Cast(Cast(exact, FLOAT16.vector(LANES)), F4)).tolist() == [1.0] * 4


@pytest.mark.parametrize("dtype", [INT32, I4])
@pytest.mark.parametrize("distance", [-1, 64])
def test_shift_by_too_much(dtype: DType, distance: int) -> None:
    shift = Binary("<<", Const(1, dtype), Const(distance, dtype), dtype)
    with pytest.raises(InternalError, match="shifts by too many bits"):
        lanes_of(shift)


def test_any_number_of_lanes() -> None:
    many = INT64.vector(100_003)
    assert lanes_of(Reduce("+", Ramp(integer(0), 1, many), INT64)) == 100_003 * 100_002 // 2


@pytest.mark.parametrize(
    "expr",
    [
        Select(Const(True, BOOL), Const(0, I4), load(ramp(5)), I4),
        Cast(Logical("||", (Const(True, B4), Cast(load(ramp(5)), B4)), B4), I4),
    ],
)
def test_nothing_is_lazy_in_a_vector(expr: Expr) -> None:
    assert broken(store(expr)) == "'a[5:9]': a[8] is outside of shape [8]"


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "mask", "expected"),
    [
        (ramp(4), None, [14, 15, 16, 17]),
        (ramp(7, -2), None, [17, 15, 13, 11]),
        (ramp(3, 0), None, [13, 13, 13, 13]),
        (ramp(6), below(2), [16, 17, 0, 0]),  # lanes out of bounds read nothing and give 0
        (ramp(100), below(0), [0, 0, 0, 0]),
        (Binary("*", ramp(), ramp(), I4), below(3), [10, 11, 14, 0]),
    ],
)
def test_load(index: Expr, mask: Expr | None, expected: list[int]) -> None:
    assert run(store(load(index, mask))) == expected


def test_scalar_indices_count_for_all_lanes() -> None:
    buffers = (
        Buffer("a", INT64, (2, 4), (4, 1), "input"),
        Buffer("o", INT64, (4, 2), (2, 1), "output"),
    )
    row = Load("a", (integer(1), ramp()), I4)
    stmts = tuple(Store("o", (ramp(), integer(j)), row) for j in (0, 1))
    out = np.zeros((4, 2), np.int64)
    evaluate(Kernel("k", buffers, (stmts,)), {"a": np.arange(8).reshape(2, 4), "o": out})
    assert out.tolist() == [[4, 4], [5, 5], [6, 6], [7, 7]]


def test_masked_store_writes_its_lanes_only() -> None:
    later = Logical("!", (below(3),), B4)
    assert run(store(ramp(), below(3)), store(Const(9, I4), later)) == [0, 1, 2, 9]
    assert broken(store(ramp(), below(3))) == "'o[3]': this element is never written"


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (store(load(ramp(6))), "'a[6:10]': a[8] is outside of shape [8]"),
        (Store("o", (ramp(1),), ramp()), "o[4] is outside of shape [4]"),
        (store(load(ramp(-1), below(1))), "a[-1] is outside of shape [8]"),
        (store(load(ramp(), name="t")), "'t[0:4]': reads t[0] before any write"),
        (Store("o", (ramp(1, 0),), ramp()), "two lanes write one element"),
    ],
)
def test_broken_access(stmt: Stmt, text: str) -> None:
    assert text in broken(stmt)


def test_read_before_write_names_the_lane() -> None:
    text = broken(store(ramp(), below(2), name="t"), store(load(ramp(), below(3), name="t")))
    assert "reads t[2] before any write" in text


# --- private buffers --------------------------------------------------------------------------


def loop(*body: Stmt, parallel: bool = False, mark: str = "") -> For:
    return For("i", integer(0), integer(LANES), body, parallel, mark)


I = Var("i", INT64)  # noqa: E741


@pytest.mark.parametrize("name", ["s", "r"])
def test_private_buffers_take_no_part_in_races(name: str) -> None:
    use = (Store(name, (integer(0),), I), Store("o", (I,), load(integer(0), name=name)))
    assert run(loop(*use, parallel=True)) == [0, 1, 2, 3]
    shared = (Store("t", (integer(0),), I), Store("o", (I,), load(integer(0), name="t")))
    assert "race at t[0]" in broken(loop(*shared, parallel=True))


@pytest.mark.parametrize("name", ["s", "r"])
def test_private_buffers_end_with_the_iteration_and_the_region(name: str) -> None:
    fill = Store(name, (integer(0),), I)
    first = If(Compare("==", I, integer(0)), (fill,))
    use = Store("o", (I,), load(integer(0), name=name))
    unwritten = f"'{name}[0]': reads {name}[0] before any write"
    assert run(loop(first, use)) == [0, 0, 0, 0]
    assert broken(loop(first, use, parallel=True)) == unwritten
    assert broken(loop(fill, parallel=True), loop(use)) == unwritten
    assert broken(loop(fill), loop(use, parallel=True)) == unwritten
    assert broken(regions=((loop(fill),), (loop(use),))) == unwritten


def test_registers_are_in_bounds() -> None:
    assert "r[8] is outside of shape [8]" in broken(Store("r", (integer(8),), integer(0)))


# --- marked loops -----------------------------------------------------------------------------


def test_marks_do_not_change_what_a_kernel_means() -> None:
    body = Store("o", (I,), Binary("*", I, I, INT64))
    for mark in ("", "unroll", "vector"):
        assert run(loop(body, mark=mark)) == [0, 1, 4, 9]


@pytest.mark.parametrize("name", ["t", "s", "r"])
def test_iterations_of_a_vector_loop_do_not_meet(name: str) -> None:
    body = (Store(name, (integer(0),), I), Store("o", (I,), load(integer(0), name=name)))
    assert run(loop(*body, mark="unroll")) == [0, 1, 2, 3]
    assert f"race at {name}[0]: another iteration" in broken(loop(*body, mark="vector"))


def test_vector_loop_inside_a_parallel_one() -> None:
    own = Binary("+", integer(0), Var("j", INT64), INT64)
    inner = For("j", integer(0), integer(2), (Store("s", (own,), I),), mark="vector")
    use = Store("o", (I,), load(integer(1), name="s"))
    assert run(loop(inner, use, parallel=True)) == [0, 1, 2, 3]


def test_vector_loop_accumulates() -> None:
    x = Var("x", INT64)
    add = loop(Set("x", Binary("+", x, load(I), INT64)), mark="vector")
    first = load(integer(0), name="t")
    add_in_place = Store("t", (integer(0),), Binary("max", first, load(I), INT64))
    stmts = (
        Let("x", integer(0)),
        add,
        Store("t", (integer(0),), integer(0)),
        loop(add_in_place, mark="vector"),
        store(Broadcast(Binary("+", x, first, INT64), I4)),
    )
    assert run(*stmts) == [10 + 11 + 12 + 13 + 13] * 4
    more = (add_in_place, Store("t", (integer(1),), integer(0)))
    assert "race at t[0]" in broken(*stmts[2:3], loop(*more, mark="vector"))
