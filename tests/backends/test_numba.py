"""Kernels on numba: every operation in every type against numpy, and how they are run."""

from __future__ import annotations

import gc
import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest

from tc.backends import numba_cpu, registry
from tc.backends.numba_cpu import NumbaBackend
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from tc.kernel.estimate import estimate
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
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
)
from tests.support.kernels import (
    Array,
    I,
    address,
    dense,
    elementwise,
    fresh,
    input_like,
    integer,
    load,
    loop,
    matmul,
    run,
)

BACKEND = NumbaBackend()
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
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


def check(found: Array, expected: Array, what: object) -> None:
    assert found.dtype == expected.dtype, what
    np.testing.assert_array_equal(found, expected, err_msg=str(what), strict=True)
    zeros = expected == 0
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


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


@pytest.mark.parametrize("source", [d for d in DTYPES.values() if d != FLOAT16], ids=str)
def test_casts(source: DType) -> None:
    """Each type to each other; out of range from a float gives any value, without a trap."""
    x = samples(source)
    a = Load("a", (I,), source)
    targets = [d for d in DTYPES.values() if d not in (source, FLOAT16)]
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


# --- laziness and memory ----------------------------------------------------------------------


def test_only_the_branch_taken_is_evaluated() -> None:
    """Rule Y6: reads far outside of memory stand behind each kind of guard."""
    x = np.arange(8, dtype=np.float32)
    inside = Compare("<", I, integer(8))
    far = Binary("*", I, integer(1 << 40), INT64)
    wild = Load("a", (Binary("+", far, integer(-(1 << 60)), INT64),), FLOAT32)
    near = Load("a", (I,), FLOAT32)
    big = Compare(">", wild, Const(0.0, FLOAT32))
    outputs = (dense("s", FLOAT32, (8,), "output"), dense("c", BOOL, (8,), "output"))
    never = Compare("<", near, Const(-1.0, FLOAT32))  # known only when it runs
    body: tuple[Stmt, ...] = (
        Store("s", (I,), Select(never, wild, near, FLOAT32)),
        Store("c", (I,), Logical("&&", (inside, Logical("||", (Logical("!", (never,)), big))))),
        If(Logical("&&", (never, big)), (Store("s", (I,), wild),)),
    )
    kernel = Kernel("k", (input_like("a", x), *outputs), ((loop("i", 8, *body, parallel=True),),))
    _, arrays = run(load(BACKEND, kernel), {"a": x})
    check(arrays["s"], x, "select")
    assert arrays["c"].all()


@pytest.mark.parametrize("extent", [1, 5, 64])
def test_layouts_of_inputs(extent: int) -> None:
    """Rule N2: reversed, broadcast and transposed inputs are read in place."""
    base = np.arange(4 * extent, dtype=np.float64).reshape(4, extent)
    views = {
        "reversed": base[::-1, ::-1],
        "every second": base[::2],
        "broadcast": np.broadcast_to(base[1], (3, extent)),
        "transposed": np.ascontiguousarray(base.T).T,
    }
    j = Var("j", INT64)
    for name, view in views.items():
        rows = view.shape[0]
        body = loop("j", extent, Store("o", (I, j), Load("a", (I, j), FLOAT64)))
        buffers = (input_like("a", view), dense("o", FLOAT64, (rows, extent), "output"))
        kernel = Kernel("k", buffers, ((loop("i", rows, body, parallel=True),),))
        _, arrays = run(load(BACKEND, kernel), {"a": view})
        check(arrays["o"], np.ascontiguousarray(view), name)


def test_locals_regions_and_temporaries() -> None:
    """Let, Set and If, a value handed from region to region, and bounds from a Let."""
    x = np.arange(12, dtype=np.int32).reshape(3, 4) - 5
    j = Var("j", INT64)
    total = Var("total", INT32)
    cell = Load("a", (I, j), INT32)
    body = (
        Let("total", Const(0, INT32)),
        For(
            "j",
            integer(0),
            Binary("+", I, integer(2), INT64),
            (
                If(
                    Compare("<", cell, Const(0, INT32)),
                    (Set("total", Binary("-", total, cell, INT32)),),
                    (Set("total", Binary("+", total, cell, INT32)),),
                ),
            ),
        ),
        Store("t", (I,), total),
    )
    extent = Let("n", Cast(Load("n0", (), INT32), INT64))
    copy = Store("o", (I,), Binary("*", Load("t", (I,), INT32), Const(2, INT32), INT32))
    kernel = Kernel(
        "k",
        (
            input_like("a", x),
            Buffer("n0", INT32, (), (), "input"),
            dense("o", INT32, (3,), "output"),
            dense("t", INT32, (3,), "temporary"),
        ),
        (
            (loop("i", 3, *body, parallel=True),),
            (extent, For("i", integer(0), Var("n", INT64), (copy,), parallel=True)),
        ),
    )
    _, arrays = run(load(BACKEND, kernel), {"a": x, "n0": np.array(3, np.int32)})
    assert arrays["o"].tolist() == [2 * int(np.abs(x[i, : i + 2]).sum()) for i in range(3)]


def test_empty_ranges_and_buffers() -> None:
    body = Store("o", (I,), Load("a", (I,), FLOAT32))
    empty = np.zeros((0,), np.float32)
    buffers = (input_like("a", empty), dense("o", FLOAT32, (0,), "output"))
    backwards = For("i", integer(3), integer(-3), (body,), parallel=True)
    kernel = Kernel("k", buffers, ((loop("i", 0, body, parallel=True),), (backwards,), ()))
    compiled = load(BACKEND, kernel)
    assert compiled.run([0, 0]) is None


# --- failures (G7) ----------------------------------------------------------------------------


def gather(extent: int, parallel_work: int = 1) -> Kernel:
    """o(i) = a(p(i)), and 7 where p(i) is outside, after `parallel_work` rounds of additions."""
    place = Load("p", (I,), INT64)
    outside = Logical(
        "||", (Compare("<", place, integer(0)), Compare(">=", place, integer(extent)))
    )
    value = Var("value", FLOAT64)
    work = loop("w", parallel_work, Set("value", Binary("+", value, Const(0.5, FLOAT64), FLOAT64)))
    body = (
        Let("value", Const(0.0, FLOAT64)),
        work,
        If(
            outside,
            (Fail(0, (I, place)), Set("value", Const(7.0, FLOAT64))),
            (Set("value", Load("a", (place,), FLOAT64)),),
        ),
        Store("o", (I,), value),
    )
    divided = If(Compare("==", I, integer(extent - 1)), (Fail(1, (I,)),))
    return Kernel(
        "gather",
        (
            dense("a", FLOAT64, (extent,), "input"),
            dense("p", INT64, (extent,), "input"),
            dense("o", FLOAT64, (extent,), "output"),
        ),
        ((loop("i", extent, *body, parallel=True),), (loop("i", extent, divided, parallel=True),)),
        (Site("read", 0, 0, ("i",)), Site("division", 1, 1, ("i",))),
    )


def test_first_failure_in_the_order_of_the_loops() -> None:
    """Rule G7: the same failure on any number of threads, and none left for the next call."""
    extent = 300
    kernel = gather(extent, parallel_work=1000)
    assert estimate(kernel).flops > 1 << 16
    compiled = load(BACKEND, kernel)
    places = np.arange(extent)
    places[[120, 121, 299]] = [-5, 300, 1 << 60]
    given = {"a": np.ones(extent), "p": places}
    for threads in (None, 1, 2, 7):
        failure, _ = run(compiled, given, threads)
        assert failure == Failure(0, (120, -5))
    places[:] = 3
    for threads in (None, 1):
        failure, arrays = run(compiled, given, threads)
        assert failure == Failure(1, (extent - 1,))  # of the second region, with one value
        assert (arrays["o"] == 1.0).all()
    assert failure == evaluate(kernel, fresh(kernel, given))


# --- how kernels are run ----------------------------------------------------------------------


def test_same_bits_whatever_the_threads() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    compiled = load(BACKEND, matmul(96, 96, 96))
    results = [
        run(compiled, {"A": a, "B": b}, threads)[1]["C"] for threads in (1, 2, 3, None, None)
    ]
    for one, other in itertools.pairwise(results):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(results[0], a @ b, atol=1e-4)


class Recorder:
    """Stands for numba's threads; notes the number of parts, and says that nothing has run."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def launch(self, *args: int, **_: bool) -> bool:
        self.parts.append(args[-1])
        return False


def test_threads_only_where_they_pay_and_never_more(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(numba_cpu, "LAUNCHER", recorder)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 6)
    given = {"A": np.ones((96, 96), np.float32), "B": np.ones((96, 96), np.float32)}
    large = load(BACKEND, matmul(96, 96, 96))
    for threads in (None, 1, 2, 100):
        _, arrays = run(large, given, threads)  # what is declined runs serially
        assert (arrays["C"] == 96).all()
    assert recorder.parts == [6, 2, 6]
    run(load(BACKEND, matmul(4, 4, 4)), {n: a[:4, :4].copy() for n, a in given.items()})
    assert len(recorder.parts) == 3


def test_parts_cover_a_loop_once() -> None:
    """Each number of parts of each extent, also more parts than iterations."""
    for extent in (1, 2, 7):
        o = dense("o", INT64, (extent,), "output")
        once = Store("o", (I,), Binary("+", Load("o", (I,), INT64), integer(1), INT64))
        kernel = Kernel("k", (o,), ((loop("i", extent, once, parallel=True),),))
        function = BACKEND.load(BACKEND.emit(kernel)).regions[0].function
        for parts in range(1, 10):
            counts = np.zeros(extent, np.int64)
            arguments = np.array([address(counts)])
            for part in range(parts):
                function(address(arguments), 0, part, parts)
            assert (counts == 1).all()


def test_kernels_can_be_collected() -> None:
    compiled = load(BACKEND, matmul(2, 3, 4))
    kernel = weakref.ref(compiled)
    owner = weakref.ref(compiled.regions[0].owner)  # type: ignore[attr-defined]  # of numba
    del compiled
    gc.collect()
    assert kernel() is None
    assert owner() is None


def test_a_kernel_without_helpers_imports_none() -> None:
    """numba_math needs scipy, whose import would add to the first call of every program."""
    assert "numba_math" not in str(BACKEND.emit(matmul(2, 3, 4)))


def test_the_registry_knows_it() -> None:
    backend = registry.get("numba")
    assert isinstance(backend, NumbaBackend)
    assert backend.usable() is None
    assert backend.checks_by_default
    assert "numba" in sys.modules
