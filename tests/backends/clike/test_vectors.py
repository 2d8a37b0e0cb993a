"""Vectors in C: every node in every type against `evaluate`."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

from tc.backends.clike import backend as c_backend
from tc.backends.clike.backend import CBackend
from tc.builtins import BUILTINS
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
from tc.errors import BackendError
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Kernel,
    Load,
    Logical,
    Reduce,
    Select,
    Shuffle,
    Store,
    Unary,
)
from tests.support.build import I, dense, integer, loop
from tests.support.exponents import exponent_pairs
from tests.support.kernels import Array, input_like
from tests.support.lanewise import check, first, lanewise, ramp, run, splat, taken

BACKEND = CBackend()
pytestmark = pytest.mark.skipif(BACKEND.usable() is not None, reason=str(BACKEND.usable()))


@pytest.fixture(autouse=True)
def _strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text of these tests makes the compiler warn."""
    strict = ("-pedantic", "-Wall", "-Wextra", "-Werror")
    monkeypatch.setattr(c_backend, "FLAGS", (*c_backend.FLAGS, *strict))
    monkeypatch.setattr(c_backend, "VECTOR_FLAGS", ())  # Clang knows them not


FLOATS = (FLOAT32, FLOAT64)
INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)
COMPUTED = tuple(d for d in DTYPES.values() if d.is_in_numpy)
NUMBERS = (*INTEGERS, *FLOATS)
RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
BLOCKS = 8


def samples(dtype: DType, size: int, seed: int = 0) -> Array:
    """Numbers of all sizes, special ones among them."""
    rng = np.random.default_rng(seed)
    if dtype == BOOL:
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_float:
        special = [0.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 1e-40, -3e38, 7.0, 2.0**31]
        values = rng.standard_normal(size) * 10.0 ** rng.integers(-6, 7, size)
        values[rng.permutation(size)[: len(special)]] = special[:size]
        with np.errstate(over="ignore"):
            return values.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    values = rng.integers(info.min, info.max, size, dtype.numpy, endpoint=True)
    special = [0, 1, info.max, info.min, 2, 7]
    values[rng.permutation(size)[: len(special)]] = special[:size]
    return values


def pair(dtype: DType, lanes: int) -> tuple[dict[str, Array], Load, Load]:
    """Inputs a and b, some of whose elements are equal, and a block of each."""
    a, b = (samples(dtype, BLOCKS * lanes, seed) for seed in (1, 2))
    b[::5] = a[::5]
    return {"a": a, "b": b}, taken("a", dtype, lanes), taken("b", dtype, lanes)


def both(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, left.dtype)


def compared(op: str, left: Expr, right: Expr) -> Compare:
    return Compare(op, left, right, BOOL.vector(left.dtype.lanes))


# --- lane by lane -----------------------------------------------------------------------------


# all types in vectors of 16, and some shorter and longer than those of any machine
SHAPES = [
    *((dtype, 16) for dtype in NUMBERS),
    *((DTYPES[name], lanes) for name in ("int8", "uint16", "float64") for lanes in (2, 64)),
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "lanes"), SHAPES, ids=str)
def test_arithmetic(dtype: DType, lanes: int) -> None:
    given, a, b = pair(dtype, lanes)
    ops = ["+", "-", "*", "min", "max", *(("/",) if dtype.is_float else ("&", "|", "^"))]
    exprs: list[Expr] = [both(op, a, b) for op in ops]
    exprs += [Unary("-", a, a.dtype), Unary("-", Unary("-", b, b.dtype), b.dtype)]
    exprs += [both("-", both("*", a, b), both("+", b, splat(1, dtype, lanes)))]
    exprs += [both("*", Broadcast(Load("a", (I,), dtype), a.dtype), a)]
    exprs += [Call("abs", (a,), a.dtype)]
    check(BACKEND, lanewise([cast_constants(e) for e in exprs], given, lanes), given)


def cast_constants(expr: Expr) -> Expr:
    """The expression; constants that the tests write as integers are floats among floats."""
    match expr:
        case Const(value=value, dtype=dtype) if dtype.is_float:
            return Const(float(value), dtype)
        case Binary(op=op, left=left, right=right, dtype=dtype):
            return Binary(op, cast_constants(left), cast_constants(right), dtype)
        case _:
            return expr


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_division_rounds_downward(dtype: DType) -> None:
    given, a, b = pair(dtype, 16)
    if dtype.is_integer:
        given["b"][given["b"] == 0] = 3
    exprs = [both("%", a, b), *([both("/", a, b)] if dtype.is_integer else [])]
    exprs += [both(e.op, a, splat(dtype.numpy.type(7).item(), dtype, 16)) for e in exprs]
    with np.errstate(all="ignore"):
        check(BACKEND, lanewise(exprs, given, 16), given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_by_zero_does_not_trap(dtype: DType) -> None:
    given, a, _ = pair(dtype, 16)
    zero = splat(0, dtype, 16)
    if dtype.kind == "int":
        given["a"][:] = np.iinfo(dtype.numpy).min
        zero = Binary("-", zero, Binary("&", a, splat(1, dtype, 16), a.dtype), a.dtype)
    run(BACKEND, lanewise([both("/", a, zero), both("%", a, zero)], given, 16), given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts(dtype: DType) -> None:
    """Of vectors, and of scalars, where & | ^ are tested too."""
    given, a, _ = pair(dtype, 16)
    given["n"] = (np.arange(len(given["a"])) % dtype.bits).astype(dtype.numpy)
    n, few = taken("n", dtype, 16), Const(3, dtype)
    x, y, count = (Load(name, (I,), dtype) for name in ("a", "n", "n"))
    exprs = [both(op, *operands) for op in ("<<", ">>") for operands in ((a, n), (x, count))]
    exprs += [both(op, x, y) for op in "&|^"]
    exprs += [both("<<", Const(1, dtype), count), both(">>", both("+", x, y), few)]
    exprs += [both("&", both("<<", x, few), both("|", y, both("^", x, few)))]
    exprs += [both("-", both("&", x, y), both("*", both("|", x, few), y))]
    check(BACKEND, lanewise(exprs, given, 16), given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "lanes"), [(BOOL, 16), *SHAPES], ids=str)
def test_comparisons_and_choices(dtype: DType, lanes: int) -> None:
    given, a, b = pair(dtype, lanes)
    tests = [compared(op, a, b) for op in RELATIONS]
    tests += [compared(op, a, a) for op in ("==", "<")]
    if dtype != BOOL:
        tests.append(compared("<=", a, splat(dtype.numpy.type(1).item(), dtype, lanes)))
    exprs: list[Expr] = [*tests, *(Select(t, a, b, a.dtype) for t in tests)]
    scalar = Compare("<", I, integer(3))
    exprs += [Select(scalar, a, b, a.dtype), Cast(a, BOOL.vector(lanes))]
    check(BACKEND, lanewise(exprs, given, lanes), given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_wide_masks_meet_narrow_ones(dtype: DType) -> None:
    """Comparisons of one width decide between values of another."""
    given, a, b = pair(dtype, 16)
    given["c"] = samples(DTYPES["int8"], BLOCKS * 16)
    c = taken("c", DTYPES["int8"], 16)
    wide, narrow = compared("<", a, b), compared("<", c, splat(0, DTYPES["int8"], 16))
    mixed = Logical("&&", (wide, Logical("!", (narrow,), wide.dtype)), wide.dtype)
    exprs = [Select(m, c, splat(5, DTYPES["int8"], 16), c.dtype) for m in (wide, narrow, mixed)]
    exprs += [Select(m, a, b, a.dtype) for m in (wide, narrow, mixed)]
    exprs += [Cast(m, d.vector(16)) for m in (wide, mixed) for d in COMPUTED]
    check(BACKEND, lanewise(exprs, given, 16), given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("lanes", [2, 16, 64])
def test_bool(lanes: int) -> None:
    given, p, q = pair(BOOL, lanes)
    dtype = p.dtype
    flip = Logical("!", (q,), dtype)
    exprs: list[Expr] = [Logical(op, (p, flip), dtype) for op in ("&&", "||")]
    exprs += [both(op, p, flip) for op in ("min", "max")]
    exprs += [flip, Select(p, q, flip, dtype), Cast(p, dtype), splat(True, BOOL, lanes)]
    exprs += [Broadcast(Load("a", (I,), BOOL), dtype), Select(Load("a", (I,), BOOL), p, q, dtype)]
    exprs += [Shuffle(p, q, tuple(range(1, 2 * lanes, 2)), dtype)]
    exprs += [Reduce(op, p, BOOL) for op in ("min", "max")]
    exprs += [Reduce("max", Compare("<", ramp(I, 1, lanes), splat(4, INT64, lanes), dtype), BOOL)]
    check(BACKEND, lanewise(exprs, given, lanes), given)


def test_bool_arrays_may_hold_any_byte() -> None:
    a = np.array([0, 1, 2, 255] * 4, np.uint8).view(bool)
    p = taken("a", BOOL, 16)
    exprs = [p, Logical("!", (p,), p.dtype), Cast(p, INT32.vector(16))]
    found = run(BACKEND, lanewise(exprs, {"a": a}, 16), {"a": a})
    expected = np.array([False, True, True, True] * 4)
    assert found["o0"].view(np.uint8).tolist() == expected.view(np.uint8).tolist()
    assert found["o1"].tolist() == (~expected).tolist()
    assert found["o2"].tolist() == expected.astype(int).tolist()


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("source", "lanes"), [(BOOL, 16), *SHAPES], ids=str)
def test_casts(source: DType, lanes: int) -> None:
    a = samples(source, BLOCKS * lanes)
    targets = [d for d in COMPUTED if not (source.is_float and d.is_integer)]
    vector = taken("a", source, lanes)
    exprs = [Cast(vector, target.vector(lanes)) for target in targets]
    with np.errstate(over="ignore"):
        check(BACKEND, lanewise(exprs, {"a": a}, lanes), {"a": a})


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_truncate_to_integers(source: DType) -> None:
    """Every value in range, the ends too; others give anything, but do not trap."""
    vector = taken("a", source, 16)
    for target in INTEGERS:
        info = np.iinfo(target.numpy)
        ends = [float(info.min), float(info.max), -0.9, 0.0, 1.9, info.max / 2, info.min / 3]
        ends += [info.min - 0.5, info.max + 0.5, np.nextafter(float(info.max) + 1, 0)]
        a = np.array([*ends, *np.linspace(info.min, info.max, 22)], np.float64).astype(source.numpy)
        whole = np.trunc(a.astype(np.longdouble))
        a[(whole < info.min) | (whole > info.max)] = 1.0
        kernel = lanewise([Cast(vector, target.vector(16))], {"a": a}, 16)
        check(BACKEND, kernel, {"a": a})
        run(BACKEND, kernel, {"a": samples(source, 32)})


def test_halves() -> None:
    """All of them to float32 and back, and the rounding of floats to half."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    wide = Cast(taken("a", FLOAT16, 16), FLOAT32.vector(16))
    check(
        BACKEND, lanewise([wide, Cast(wide, FLOAT16.vector(16))], {"a": halves}, 16), {"a": halves}
    )
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        a = (rng.standard_normal(4096) * 10.0 ** rng.integers(-9, 6, 4096)).astype(dtype.numpy)
        a[:64] = samples(dtype, 64)
        with np.errstate(over="ignore"):
            expr = Cast(taken("a", dtype, 16), FLOAT16.vector(16))
            check(BACKEND, lanewise([expr], {"a": a}, 16), {"a": a})


@pytest.mark.parametrize(("real", "whole"), [(FLOAT32, UINT32), (FLOAT64, UINT64)], ids=str)
def test_bits(real: DType, whole: DType) -> None:
    signed = DTYPES[whole.name[1:]]
    given, a, _ = pair(real, 16)
    given["n"] = given["a"].view(whole.numpy)
    n, x, k = taken("n", whole, 16), Load("a", (I,), real), Load("n", (I,), whole)
    exprs = [Bits(a, d.vector(16)) for d in (whole, signed, real)]
    exprs += [Bits(n, d.vector(16)) for d in (real, signed)]
    exprs += [Bits(x, d) for d in (whole, signed, real)] + [Bits(k, d) for d in (real, signed)]
    check(BACKEND, lanewise(exprs, given, 16), given)


EXACT = ("fabs", "ceil", "floor", "trunc", "round", "sqrt", "copysign", "fma", "fdim", "fmod")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions(dtype: DType) -> None:
    """All of the table, exact where evaluation is."""
    given = {name: samples(dtype, 32, seed) for seed, name in enumerate("abcd")}
    loose = {
        name: np.random.default_rng(1).uniform(0.1, 0.9, 32).astype(dtype.numpy) for name in "abcd"
    }
    for exact, inputs in ((True, given), (False, loose)):
        names = [n for n in BUILTINS if (n in EXACT) == exact]
        calls = [
            Call(
                n, tuple(taken(v, dtype, 16) for v in "abcd"[: BUILTINS[n].arity]), dtype.vector(16)
            )
            for n in names
        ]
        check(BACKEND, lanewise(calls, inputs, 16), inputs, ulps=0 if exact else 64)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("flags", [("-march=native",), ("-mno-avx512f",)], ids=str)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponents(
    dtype: DType, lanes: int, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "x86" in platform.machine():
        monkeypatch.setattr(c_backend, "FLAGS", (*c_backend.FLAGS, *flags))
    x, n = exponent_pairs(dtype, BLOCKS * lanes)
    left, right = taken("a", dtype, lanes), taken("b", dtype, lanes)
    wide = dtype.vector(lanes)
    calls = [Call("scaleb", (left, right), wide)]
    calls += [Call(name, (left,), wide) for name in ("logb", "significand")]
    given = {"a": x, "b": n}
    check(BACKEND, lanewise(calls, given, lanes), given)


def test_lanes_are_a_power_of_two() -> None:
    given = {"a": np.ones(6)}
    with pytest.raises(BackendError, match=r"has vectors of 2, 4, 8, \.\.\. elements, not of 3"):
        BACKEND.emit(lanewise([taken("a", FLOAT64, 3)], given, 3))


# --- across lanes -----------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "lanes"), SHAPES, ids=str)
def test_reductions(dtype: DType, lanes: int) -> None:
    """Of floats whose sums are exact in any order, and of any for min and max."""
    given, a, _ = pair(dtype, lanes)
    exprs: list[Expr] = [Reduce(op, a, dtype) for op in ("min", "max")]
    if dtype.is_float:
        rng = np.random.default_rng(0)
        given["b"] = rng.choice([-2.0, -1.0, 1.0, 0.5, 2.0], BLOCKS * lanes).astype(dtype.numpy)
    exprs += [Reduce(op, taken("b", dtype, lanes), dtype) for op in "+*"]
    check(BACKEND, lanewise(exprs, given, lanes), given)


@pytest.mark.parametrize("dtype", [DTYPES["int8"], DTYPES["uint16"], *FLOATS], ids=str)
def test_shuffles(dtype: DType) -> None:
    given, a, b = pair(dtype, 8)
    rng = np.random.default_rng(0)
    patterns = [tuple(range(4, 12)), (0, 8, 1, 9, 2, 10, 3, 11), (15, 3), (7, 6, 5, 4, 3, 2, 1, 0)]
    patterns += [tuple(range(4)), tuple(range(16)), (2,) * 4]
    patterns += [tuple(rng.integers(0, 16, n).tolist()) for n in (2, 4, 8, 16, 32)]
    exprs = [Shuffle(a, b, lanes, dtype.vector(len(lanes))) for lanes in patterns]
    check(BACKEND, lanewise(exprs, given, 8), given)


def test_broadcasts_and_ramps() -> None:
    given = {"a": samples(INT64, 32)}
    place = Load("a", (I,), INT64)
    exprs: list[Expr] = [ramp(place, step, 16) for step in (0, 1, -3, 2**62)]
    exprs += [Broadcast(place, INT64.vector(16)), splat(-5, INT64, 16), splat(2**63 - 1, INT64, 16)]
    exprs += [Const(v, FLOAT32.vector(16)) for v in (0.0, -0.0, 1.5, float("inf"), float("nan"))]
    arrays = check(BACKEND, lanewise(exprs, given, 16), given)
    assert np.signbit(arrays["o8"]).all()
    assert not np.signbit(arrays["o7"]).any()


@pytest.mark.parametrize("op", RELATIONS)
def test_comparisons_of_ramps(op: str) -> None:
    """Which need not be done in 64 bits, but for indices that may wrap around."""
    given = {"a": samples(INT64, 16 * 12), "x": np.arange(16.0 * 12).astype(np.float32)}
    wraps, two = Load("a", (I,), INT64), splat(2, INT64, 16)
    sides: list[tuple[Expr, Expr]] = [
        (ramp(I, 1, 16), splat(9, INT64, 16)),
        (splat(9, INT64, 16), ramp(I, 1, 16)),
        (ramp(I, 3, 16), ramp(4, 2, 16)),
        (ramp(I, -2, 16), Broadcast(Binary("*", I, integer(-3), INT64), INT64.vector(16))),
        (ramp(0, 10**6, 16), ramp(I, 7, 16)),
        (ramp(0, 10**9, 16), splat(7 * 10**9, INT64, 16)),
        (ramp(0, 2**60, 16), splat(2**62, INT64, 16)) if op != "==" else (ramp(0, 1, 16),) * 2,
        (ramp(wraps, 2**61, 16), splat(0, INT64, 16)),
        (Broadcast(wraps, INT64.vector(16)), ramp(0, 1, 16)),
        (both("-", ramp(I, 2, 16), splat(5, INT64, 16)), both("*", ramp(0, 1, 16), two)),
    ]  # fmt: skip
    tests = [compared(op, *pair_) for pair_ in sides]
    byte = DTYPES["int8"].vector(16)
    exprs: list[Expr] = [*tests, *(Cast(test, byte) for test in tests)]
    x = taken("x", FLOAT32, 16)
    exprs += [Select(test, x, splat(0.0, FLOAT32, 16), x.dtype) for test in tests]
    exprs += [Select(test, Const(3, byte), Const(0, byte), byte) for test in tests]
    check(BACKEND, lanewise(exprs, given, 16), given)


# --- memory -----------------------------------------------------------------------------------


STORED = (BOOL, DTYPES["int16"], FLOAT16, FLOAT32, INT64)
LANES = 8


def places() -> dict[str, tuple[Expr, ...]]:
    """Indices of a buffer of shape (3, 40, 8) and strides (-1, 3, 0, ...), see `accesses`."""
    vector = INT64.vector(LANES)
    gather = Load("p", (ramp(0, 1, LANES),), INT64.vector(LANES))
    zero, two, three = (splat(n, INT64, LANES) for n in (0, 2, 3))
    row = Select(compared("<", gather, three), zero, two, vector)
    return {
        "contiguous": (integer(1), ramp(I, 1, LANES)),
        "shifted": (I, both("+", ramp(2, 1, LANES), Broadcast(I, vector))),
        "apart": (integer(2), ramp(I, 3, LANES)),
        "scaled": (integer(2), both("*", ramp(I, 1, LANES), three)),
        "every second": (I, ramp(I, 2, LANES)),
        "every fourth": (I, ramp(3, 4, LANES)),
        "backward": (integer(0), ramp(30, -1, LANES)),
        "backward by two": (integer(0), ramp(30, -2, LANES)),
        "far apart": (I, ramp(1, 5, LANES)),
        "down": (both("%", ramp(0, 1, LANES), splat(3, INT64, LANES)), ramp(0, 1, LANES)),
        "alike": (I, Broadcast(I, vector)),
        "gathered": (integer(1), gather),
        "both": (row, both("+", gather, ramp(I, 2, LANES))),
    }


def masks() -> dict[str, Expr | None]:
    vector = BOOL.vector(LANES)
    data = Load("m", (ramp(0, 1, LANES),), vector)
    return {
        "all": None,
        "first": first(5, LANES),
        "none": splat(False, BOOL, LANES),
        "by i": first(Binary("+", I, integer(3), INT64), LANES),
        "data": data,
        "mixed": Logical("||", (data, first(1, LANES)), vector),
    }


def memory(dtype: DType) -> dict[str, Array]:
    if dtype == FLOAT16:
        numbers = np.random.default_rng(0).standard_normal(3 * 40).astype(np.float16)
    else:
        numbers = samples(dtype, 3 * 40)
    return {
        "a": numbers.reshape(3, 40),
        "p": np.array([3, 0, 17, 5, 1, 20, 2, 9]),
        "m": np.array([0, 1, 1, 0, 0, 1, 0, 1], bool),
    }


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        *((dtype, "rows") for dtype in STORED),
        *itertools.product((FLOAT16, FLOAT32), ("columns", "reversed", "repeated")),
    ],
    ids=str,
)
def test_loads(dtype: DType, layout: str) -> None:
    given = memory(dtype)
    a = given["a"]
    match layout:
        case "columns":
            given["a"] = np.asfortranarray(a)
        case "reversed":
            given["a"] = a[:, ::-1]
        case "repeated":
            given["a"] = np.broadcast_to(a[1:2], a.shape)
    loads = []
    for indices, mask in itertools.product(places().values(), masks().values()):
        expr: Expr = Load("a", indices, dtype.vector(LANES), mask)
        loads.append(Cast(expr, FLOAT32.vector(LANES)) if dtype == FLOAT16 else expr)
    kernel = accesses(given, loads)
    check(BACKEND, kernel, given)


def accesses(given: dict[str, Array], values: list[Expr]) -> Kernel:
    """o[n, i, :] = values[n], for three i."""
    dtype = values[0].dtype.scalar
    stores = [
        Store("o", (integer(n), I, ramp(0, 1, LANES)), value) for n, value in enumerate(values)
    ]
    inputs = [input_like(name, array) for name, array in given.items()]
    output = dense("o", dtype, (len(values), 3, LANES), "output")
    return Kernel("k", (*inputs, output), ((loop("i", 3, *stores),),))


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_stores(dtype: DType) -> None:
    """Masked lanes are not written: everything around keeps its value."""
    given = memory(dtype)
    wide = FLOAT32 if dtype == FLOAT16 else dtype
    value: Expr = Load("a", (I, ramp(0, 1, LANES)), dtype.vector(LANES))
    value = Cast(value, wide.vector(LANES)) if dtype == FLOAT16 else value
    value = Cast(value, dtype.vector(LANES)) if dtype == FLOAT16 else value
    stores, shape = [], (len(places()), len(masks()), 3, 3, 40)
    for (n, place), (k, mask) in itertools.product(
        enumerate(p for name, p in places().items() if name != "alike"), enumerate(masks().values())
    ):
        stores.append(Store("o", (integer(n), integer(k), I, *place), value, mask))
    for k in range(len(masks())):  # one lane may write what several read
        only = compared("==", ramp(0, 1, LANES), splat(k, INT64, LANES))
        stores.append(
            Store("o", (integer(len(places()) - 1), integer(k), I, *places()["alike"]), value, only)
        )
    inputs = [input_like(name, array) for name, array in given.items()]
    output = dense("o", dtype, shape, "output")
    region = (loop("i", 3, *stores),)
    kernel = Kernel("k", (*inputs, output), (region,), initial=frozenset(("o",)))
    start = np.ones(shape, dtype.numpy)
    check(BACKEND, kernel, {**given, "o": start})
