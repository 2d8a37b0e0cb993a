"""Every operation on numba, in every type, against numpy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tc.backends.numba.backend import NumbaBackend
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from tc.kernel.ir import Binary, Cast, Compare, Const, Expr, Load, Logical, Unary
from tests.support.build import I, integer
from tests.support.exact import check
from tests.support.kernels import Array, elementwise, load, run

BACKEND = NumbaBackend()
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
COMPUTED = [d for d in DTYPES.values() if not d.is_storage]
FLOATS = [FLOAT32, FLOAT64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 1e-40, 7e4, 1e30, np.inf, -np.inf, np.nan]
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def samples(dtype: DType) -> Array:
    """Values at which things go wrong."""
    if dtype.is_float:
        return np.array(SPECIAL).astype(dtype.numpy)
    if dtype == BOOL:
        return np.array([False, True])
    least, greatest = np.iinfo(dtype.name).min, np.iinfo(dtype.name).max
    wanted = {0, 1, 2, 3, 7, -1, -2, -7, least, least + 1, greatest, greatest - 1, greatest // 2}
    return np.array(sorted(v for v in wanted if least <= v <= greatest), dtype.numpy)


def pairs(dtype: DType) -> tuple[Array, Array]:
    left, right = np.meshgrid(samples(dtype), samples(dtype), indexing="ij")
    return left.ravel(), right.ravel()


def compute(exprs: Sequence[Expr], **inputs: Array) -> list[Array]:
    """The value of each expression over all elements of inputs of one length."""
    extent = len(next(iter(inputs.values())))
    kernel = elementwise(exprs, inputs, extent)
    failure, arrays = run(load(BACKEND, kernel), inputs)
    assert failure is None
    return [arrays[f"o{n}"] for n in range(len(exprs))]


def wrapped(values: Sequence[int], dtype: DType) -> Array:
    """Python's integers, of any size, as numbers of a type."""
    bits = np.array([v % (1 << dtype.bits) for v in values], np.uint64)
    return bits.astype(f"uint{dtype.bits}").view(dtype.numpy)


# --- arithmetic (Y2, Y4, Y5) ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_and_divide_downward(dtype: DType) -> None:
    """Rule Y4, against Python's integers of any size."""
    x, y = pairs(dtype)
    a, b = Load("a", (I,), dtype), Load("b", (I,), dtype)
    three, least = Const(3, dtype), Const(int(np.iinfo(dtype.name).min), dtype)

    def op(name: str, left: Expr, right: Expr) -> Binary:
        return Binary(name, left, right, dtype)

    table: list[tuple[Expr, Callable[[int, int], int]]] = [
        (op("+", a, b), operator.add),
        (op("-", a, b), operator.sub),
        (op("*", a, b), operator.mul),
        (Unary("-", a, dtype), lambda p, _: -p),
        (op("+", Unary("-", a, dtype), b), lambda p, q: q - p),
        (op("-", op("*", a, op("*", b, a)), op("-", b, three)), lambda p, q: p * q * p - q + 3),
        (op("-", three, op("-", a, least)), lambda p, _: 3 - p + int(least.value)),
        (op("/", a, three), lambda p, _: p // 3),
        (op("%", a, three), lambda p, _: p % 3),
        (op("/", op("+", a, b), three), lambda p, q: to(p + q) // 3),
        (op("/", a, b), lambda p, q: p // q),
        (op("%", a, b), lambda p, q: p % q),
        (op("min", a, b), min),
        (op("max", a, b), max),
    ]

    def to(value: int) -> int:
        return int(wrapped([value], dtype)[0])

    found = compute([expr for expr, _ in table], a=x, b=y)
    for (expr, formula), values in zip(table, found, strict=True):
        divides = expr in (op("/", a, b), op("%", a, b))
        keep = y != 0 if divides else np.full(x.shape, True)  # by zero: any value, but no trap
        kept = zip(x[keep].tolist(), y[keep].tolist(), strict=True)
        check(values[keep], wrapped([formula(p, q) for p, q in kept], dtype), expr)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, BOOL], ids=str)
def test_comparisons(dtype: DType) -> None:
    x, y = pairs(dtype)
    a, b = Load("a", (I,), dtype), Load("b", (I,), dtype)
    exprs = [Compare(op, a, b) for op in RELATIONS]
    for formula, values in zip(RELATIONS.values(), compute(exprs, a=x, b=y), strict=True):
        check(values, np.asarray(formula(x, y)), formula)


def test_comparison_of_what_wraps() -> None:
    """A compiler that takes signed overflow to be impossible makes this false."""
    x = np.array([np.iinfo(np.int64).max, 5])
    a = Load("a", (I,), INT64)
    (found,) = compute([Compare("<", Binary("+", a, integer(1), INT64), a)], a=x)
    check(found, np.array([True, False]), "a + 1 < a")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_is_ieee(dtype: DType) -> None:
    """Rules Y4 and Y5: exact to the bit, NaN and signed zeros included."""
    x, y = pairs(dtype)
    a, b = Load("a", (I,), dtype), Load("b", (I,), dtype)
    formulas: dict[str, Callable[[Any, Any], Any]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "%": np.remainder,
        "min": np.minimum,
        "max": np.maximum,
    }
    exprs: list[Expr] = [Binary(op, a, b, dtype) for op in formulas]
    found = compute([*exprs, Unary("-", a, dtype)], a=x, b=y)
    with np.errstate(all="ignore"):
        for (op, formula), values in zip(formulas.items(), found, strict=False):
            if op in ("min", "max"):  # of zeros of either sign, any
                np.testing.assert_array_equal(values, formula(x, y))
            else:
                check(values, formula(x, y), op)
    check(found[-1], -x, "-")


def test_nothing_is_contracted_or_reordered() -> None:
    """a * b + c rounds twice, wherever an element stands in a vector."""
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal(1003).astype(np.float32) for _ in range(3))
    a, b, c = (Load(n, (I,), FLOAT32) for n in "abc")
    product = Binary("*", a, b, FLOAT32)
    (found,) = compute([Binary("+", product, c, FLOAT32)], a=x, b=y, c=z)
    check(found, x * y + z, "a * b + c")


def test_bool_operations() -> None:
    x, y = pairs(BOOL)
    a, b = Load("a", (I,), BOOL), Load("b", (I,), BOOL)
    found = compute(
        [
            Logical("&&", (a, b)),
            Logical("||", (a, b)),
            Logical("!", (a,)),
            Binary("min", a, b, BOOL),
            Binary("max", a, b, BOOL),
            Compare("==", Compare("<", a, b), b),
        ],
        a=x,
        b=y,
    )
    expected = [x & y, x | y, ~x, x & y, x | y, (x < y) == y]
    for values, want in zip(found, expected, strict=True):
        check(values, want, "bool")


def test_bool_arrays_may_hold_any_byte() -> None:
    given = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    kernel = elementwise([Load("a", (I,), BOOL)], {"a": given}, 4)
    _, arrays = run(load(BACKEND, kernel), {"a": given})
    assert arrays["o0"].view(np.uint8).tolist() == [0, 1, 1, 1]


# --- conversions (Y2, Y4, Y8) -----------------------------------------------------------------


@pytest.mark.parametrize(
    "source", [d for d in DTYPES.values() if d.is_in_numpy and d != FLOAT16], ids=str
)
def test_casts(source: DType) -> None:
    """Each type to each other; out of range from a float gives any value, without a trap."""
    x = samples(source)
    a = Load("a", (I,), source)
    targets = [d for d in COMPUTED if d != source]
    with np.errstate(all="ignore"):
        for target, values in zip(
            targets, compute([Cast(a, t) for t in targets], a=x), strict=True
        ):
            expected = x.astype(target.numpy)
            defined = np.full(x.shape, True)
            if source.is_float and target.is_integer:
                info = np.iinfo(target.name)
                whole = np.trunc(x.astype(np.float64))
                defined = (whole >= float(info.min)) & (whole <= float(info.max))
            check(values[defined], expected[defined], target)


def test_large_integers_round_once_to_float32() -> None:
    x = np.array([2**62 + 2**38 + 1, 2**24 + 1, -(2**62) - 2**38 - 1])
    a = Load("a", (I,), INT64)
    (found,) = compute([Cast(a, FLOAT32)], a=x)
    check(found, x.astype(np.float32), "int64 to float32")


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64, INT32], ids=str)
def test_to_half_rounds_to_nearest_even(source: DType) -> None:
    """Rule Y8, at ties, subnormals and overflow."""
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float64))
    between = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(between, np.inf), np.nextafter(between, -np.inf)]
    if source == INT32:
        x = np.array([0, 1, 2047, 2048, 2049, 2050, 2051, 65503, 65519, 65520, 1 << 30, -70000])
    else:
        x = np.concatenate([finite, between, *near, np.array(SPECIAL)])
    x = x.astype(source.numpy)
    a = Load("a", (I,), source)
    (found,) = compute([Cast(a, FLOAT16)], a=x)
    with np.errstate(all="ignore"):
        check(found, x.astype(np.float16), "to half")


def test_all_halves_to_float32_and_back() -> None:
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    wide = Cast(Load("a", (I,), FLOAT16), FLOAT32)
    there, back = compute([wide, Cast(wide, FLOAT16)], a=x)
    check(there, x.astype(np.float32), "from half")
    check(back, x, "to half")
