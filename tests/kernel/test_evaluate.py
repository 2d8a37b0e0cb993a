"""The executable definition: what nodes mean, and the promises whose breach it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import (
    BOOL,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DType,
)
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Unary,
    Var,
    row_major,
)
from tests.support.build import I, integer

NAN, INF = float("nan"), float("inf")


def value_of(expr: Expr) -> Any:
    kernel = Kernel("k", (Buffer("o", expr.dtype, (), (), "output"),), ((Store("o", (), expr),),))
    out = np.zeros((), expr.dtype.numpy)
    assert evaluate(kernel, {"o": out}) is None
    return out[()]


def run(
    *stmts: Stmt,
    shape: tuple[int, ...] = (4,),
    sites: tuple[Site, ...] = (),
    **inputs: np.ndarray[Any, Any],
) -> tuple[Failure | None, np.ndarray[Any, Any]]:
    """Runs one region over inputs, an int64 output `o` and a temporary `t` of one shape."""
    dtypes = {a.dtype.name: DTYPES[a.dtype.name] for a in inputs.values()}
    kernel = Kernel(
        "k",
        (
            *(
                Buffer(n, dtypes[a.dtype.name], a.shape, row_major(a.shape), "input")
                for n, a in inputs.items()
            ),
            Buffer("o", INT64, shape, row_major(shape), "output"),
            Buffer("t", INT64, shape, row_major(shape), "temporary"),
        ),
        (stmts,),
        sites,
    )
    out = np.full(shape, -99, np.int64)
    return evaluate(kernel, {**inputs, "o": out}), out


def broken(*stmts: Stmt, **options: Any) -> str:
    with pytest.raises(InternalError) as caught:
        run(*stmts, **options)
    prefix = "kernel k breaks a promise: in "
    assert caught.value.cause.startswith(prefix)
    return caught.value.cause.removeprefix(prefix)


def loop(*body: Stmt, end: int = 4, parallel: bool = True) -> For:
    return For("i", integer(0), integer(end), body, parallel)


# --- expressions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "a", "b", "dtype", "expected"),
    [
        ("+", 127, 1, INT8, -128),  # integers wrap around (Y4)
        ("-", 0, 1, UINT8, 255),
        ("*", 2**62, 4, INT64, 0),
        ("*", 2**31 - 1, 2, INT32, -2),
        ("+", 2**64 - 1, 2, UINT64, 1),
        ("/", -7, 2, INT32, -4),  # toward minus infinity (Y4)
        ("%", -7, 2, INT32, 1),
        ("%", 7, -2, INT32, -1),
        ("/", 7.0, 2.0, FLOAT32, 3.5),
        ("/", 1.0, 0.0, FLOAT64, INF),
        ("%", -5.5, 2.0, FLOAT64, 0.5),
        ("%", 5.5, -2.0, FLOAT32, -0.5),
        ("min", -3, 2, INT8, -3),
        ("max", -3, 2, INT8, 2),
        ("min", True, False, BOOL, False),
        ("max", True, False, BOOL, True),
    ],
)
def test_binary(op: str, a: float, b: float, dtype: DType, expected: float) -> None:
    result = value_of(Binary(op, Const(a, dtype), Const(b, dtype), dtype))
    assert result == expected
    assert result.dtype == dtype.numpy


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("pair", [(NAN, 1.0), (1.0, NAN)])
def test_min_and_max_propagate_nan(op: str, pair: tuple[float, float]) -> None:  # Y5
    left, right = (Const(x, FLOAT64) for x in pair)
    assert np.isnan(value_of(Binary(op, left, right, FLOAT64)))


@pytest.mark.parametrize(("op", "wrapped"), [("/", -128), ("%", 0)])
def test_integer_division_never_traps(op: str, wrapped: int) -> None:
    """A quotient that is too large wraps around (Y4). One by zero is any value of the type: where
    code is checked, the division is not reached."""
    assert value_of(Binary(op, Const(-128, INT8), Const(-1, INT8), INT8)) == wrapped
    by_zero = value_of(Binary(op, Const(1, INT8), Const(0, INT8), INT8))
    assert (by_zero.shape, by_zero.dtype) == ((), np.int8)


def test_float32_rounds_each_operation() -> None:
    big, one = Const(2.0**24, FLOAT32), Const(1.0, FLOAT32)
    total = Binary("+", Binary("+", big, one, FLOAT32), one, FLOAT32)
    assert value_of(total) == 2.0**24


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (300, INT32, UINT8, 44),
        (-1, INT32, UINT64, 2**64 - 1),
        (200, UINT8, INT8, -56),
        (-2.9, FLOAT64, INT32, -2),  # truncates
        (0.5, FLOAT32, BOOL, True),  # nonzero is true
        (NAN, FLOAT32, BOOL, True),
        (0, INT8, BOOL, False),
        (True, BOOL, FLOAT32, 1.0),
        (2**24 + 1, INT32, FLOAT32, 2.0**24),
    ],
)
def test_cast(value: float, source: DType, target: DType, expected: float) -> None:
    result = value_of(Cast(Const(value, source), target))
    assert result == expected
    assert result.dtype == target.numpy


@pytest.mark.parametrize("value", [NAN, INF, 1e30])
def test_cast_out_of_range_never_traps(value: float) -> None:
    """The result is any value of the type (Y4)."""
    result = value_of(Cast(Const(value, FLOAT64), INT32))
    assert (result.shape, result.dtype) == ((), np.int32)


def test_half_rounds_to_nearest_even_once() -> None:  # Y8
    exact = 1.0 + 2.0**-11  # halfway between two halves: to the even one
    half = Cast(Cast(Const(exact, FLOAT32), FLOAT16), FLOAT32)
    assert value_of(half) == 1.0
    above = 1.0 + 2.0**-11 + 2.0**-30  # from float64 directly, not through float32
    assert value_of(Cast(Cast(Const(above, FLOAT64), FLOAT16), FLOAT32)) == 1.0 + 2.0**-10


def test_unary() -> None:
    assert value_of(Unary("-", Const(-128, INT8), INT8)) == -128
    assert np.signbit(value_of(Unary("-", Const(0.0, FLOAT32), FLOAT32)))


@pytest.mark.parametrize("op", ["==", "<", "<=", ">", ">="])
def test_nan_compares_false(op: str) -> None:
    assert not value_of(Compare(op, Const(NAN, FLOAT32), Const(NAN, FLOAT32)))
    assert value_of(Compare("!=", Const(NAN, FLOAT32), Const(NAN, FLOAT32)))


def test_call_is_the_builtin_in_its_type() -> None:
    result = value_of(Call("exp", (Const(1.0, FLOAT32),), FLOAT32))
    assert result == pytest.approx(2.7182817, rel=1e-6)
    assert result.dtype == np.float32
    assert value_of(Call("abs", (Const(-3, INT8),), INT8)) == 3


WRONG_LOAD = Compare("==", Load("a", (integer(9),), INT64), integer(0))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Logical("&&", (Const(False, BOOL), WRONG_LOAD)), 0),
        (Logical("||", (Const(True, BOOL), WRONG_LOAD)), 1),
        (Select(Const(True, BOOL), Const(True, BOOL), WRONG_LOAD, BOOL), 1),
        (Select(Const(False, BOOL), WRONG_LOAD, Const(False, BOOL), BOOL), 0),
    ],
)
def test_lazy(expr: Expr, expected: int) -> None:  # Y6
    a = np.zeros(2, np.int64)
    stored = Store("o", (integer(0),), Cast(expr, INT64))
    failure, out = run(stored, shape=(1,), a=a)
    assert failure is None
    assert out.tolist() == [expected]


@pytest.mark.parametrize(
    "expr",
    [
        Logical("&&", (Const(True, BOOL), WRONG_LOAD)),
        Logical("||", (Const(False, BOOL), WRONG_LOAD)),
        Select(Const(False, BOOL), Const(True, BOOL), WRONG_LOAD, BOOL),
    ],
)
def test_path_taken_is_checked(expr: Expr) -> None:
    stored = Store("o", (integer(0),), Cast(expr, INT64))
    text = broken(stored, shape=(1,), a=np.zeros(2, np.int64))
    assert text == "'a[9]': a[9] is outside of shape [2]"


# --- statements -------------------------------------------------------------------------------


def test_strides_of_the_array_are_used() -> None:
    a = np.arange(8)[::-2]
    _, out = run(loop(Store("o", (I,), Load("a", (I,), INT64))), a=a)
    assert out.tolist() == [7, 5, 3, 1]


def test_locals_and_reduction() -> None:
    inner = For("j", integer(0), I, (Set("x", Binary("+", Var("x", INT64), I, INT64)),))
    _, out = run(loop(Let("x", integer(0)), inner, Store("o", (I,), Var("x", INT64))))
    assert out.tolist() == [0, 1, 4, 9]


def test_first_failure_is_kept_and_execution_goes_on() -> None:
    site = Site("division", 0, 0, ("i",))
    is_odd = Compare("==", Binary("%", I, integer(2), INT64), integer(1))
    body = If(is_odd, (Fail(0, (I,)), Store("o", (I,), integer(0))), (Store("o", (I,), I),))
    failure, out = run(loop(body), sites=(site,))
    assert failure == Failure(0, (1,))
    assert out.tolist() == [0, 0, 2, 0]


def test_initial_output_is_readable_and_need_not_be_written() -> None:
    kernel = Kernel(
        "k",
        (Buffer("o", INT64, (2,), (1,), "output"),),
        ((Store("o", (integer(0),), Load("o", (integer(1),), INT64)),),),
        initial=frozenset(("o",)),
    )
    out = np.array([1, 2])
    assert evaluate(kernel, {"o": out}) is None
    assert out.tolist() == [2, 2]


# --- broken promises --------------------------------------------------------------------------


def test_out_of_bounds_store() -> None:
    text = broken(loop(Store("o", (Binary("-", I, integer(1), INT64),), I)))
    assert text == "'o[i - 1] = i': o[-1] is outside of shape [4]"


def test_wrong_number_of_indices() -> None:
    assert "o[0, 0] is outside of shape [4]" in broken(
        Store("o", (integer(0), integer(0)), integer(0))
    )


@pytest.mark.parametrize("name", ["o", "t"])
def test_read_before_write(name: str) -> None:
    text = broken(loop(Store("o", (I,), Load(name, (integer(2),), INT64))))
    assert text == f"'{name}[2]': reads {name}[2] before any write"


def test_what_drops_its_unwritten_elements_may_read_them() -> None:
    """They are NaN, so that no use of them goes unnoticed."""
    local = Buffer("t", FLOAT32, (2,), (1,), "scratch", drops_unwritten=True)
    kernel = Kernel(
        "k",
        (Buffer("o", FLOAT32, (2,), (1,), "output"), local),
        (
            (
                Store("t", (integer(0),), Const(2.0, FLOAT32)),
                Store("o", (integer(0),), Load("t", (integer(0),), FLOAT32)),
                Store("o", (integer(1),), Load("t", (integer(1),), FLOAT32)),
            ),
        ),
    )
    out = np.zeros(2, np.float32)
    assert evaluate(kernel, {"o": out}) is None
    assert out[0] == 2
    assert np.isnan(out[1])


def test_output_not_written() -> None:
    assert broken(loop(Store("o", (I,), I), end=3)) == "'o[3]': this element is never written"


@pytest.mark.parametrize(
    "body",
    [
        (Store("o", (integer(0),), I),),  # all write one element
        (Store("t", (I,), I), Store("o", (I,), Load("t", (integer(0),), INT64))),
        (
            Store("t", (Binary("-", integer(3), I, INT64),), I),
            Store("o", (I,), Load("t", (integer(3),), INT64)),
        ),
    ],
)
def test_race(body: tuple[Stmt, ...]) -> None:
    assert "another iteration" in broken(loop(*body))


def test_write_after_read_by_another_iteration_is_a_race() -> None:
    fill = loop(Store("t", (I,), I))
    reads = Store("o", (I,), Load("t", (integer(3),), INT64))
    last = If(Compare("==", I, integer(3)), (Store("t", (I,), I),))
    assert "race at t[3]" in broken(fill, loop(reads, last))


def test_no_race_between_loops_or_in_a_sequential_one() -> None:
    fill = loop(Store("t", (I,), I))
    reads = loop(Store("o", (I,), Load("t", (Binary("-", integer(3), I, INT64),), INT64)))
    _, out = run(fill, reads)
    assert out.tolist() == [3, 2, 1, 0]
    swap = loop(
        Store("t", (integer(0),), I), Store("o", (I,), Load("t", (integer(0),), INT64)),
        parallel=False,
    )  # fmt: skip
    _, out = run(swap)
    assert out.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("stmt", "reason"),
    [
        (loop(loop()), "a parallel loop inside another"),
        (Store("a", (integer(0),), integer(1)), "stores in an input"),
        (Store("o", (integer(0),), Const(1.0, FLOAT64)), "stores float64 in int64"),
        (Let("x", Var("y", INT64)), "it is not declared here"),
        (Let("x", Binary("+", integer(1), Const(1, INT32), INT64)), "operands int64 and int32"),
        (Let("x", Binary("+", Const(True, BOOL), Const(True, BOOL), BOOL)), "arithmetic on bool"),
    ],
)
def test_malformed(stmt: Stmt, reason: str) -> None:
    assert reason in broken(stmt, a=np.zeros(2, np.int64))


@pytest.mark.parametrize("array", [np.zeros(3, np.int64), np.zeros(4, np.int32), None])
def test_array_does_not_fit(array: np.ndarray[Any, Any] | None) -> None:
    kernel = Kernel("k", (Buffer("o", INT64, (4,), (1,), "output"),), ())
    with pytest.raises(InternalError, match="in 'buffer o': the array is"):
        evaluate(kernel, {} if array is None else {"o": array})
