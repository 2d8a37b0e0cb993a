"""Regions with vectors on numba: every node in every type, against the definition of the IR."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from numba import config
from numba.core.codegen import get_host_cpu_features

from tc import cache
from tc.backends.numba.backend import NumbaBackend
from tc.backends.numba.traced_functions import NATIVE
from tc.builtins import BUILTINS
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
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
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Stmt,
    Store,
    Unary,
)
from tests.support.build import I, dense, integer, loop
from tests.support.exponents import exponent_pairs
from tests.support.kernels import Array
from tests.support.vectors import arrays_of, compile_kernel, ramp, results, run, times

BACKEND = NumbaBackend()
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
FLOATS = [FLOAT32, FLOAT64]
ALL = [d for d in DTYPES.values() if d.is_in_numpy and d != FLOAT16]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 1e-40, 7e4, 1e30, np.inf, -np.inf, np.nan, 0.5]
RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
LANES = (1, 4, 16, 3)


@pytest.fixture(autouse=True, scope="module")
def _compiled_anew() -> Iterator[None]:
    """Some tests change what the machine is taken for, of which the cache knows nothing."""
    cache.disable()
    yield
    cache.enable()


def samples(dtype: DType) -> Array:
    """Values at which things go wrong."""
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.array(SPECIAL).astype(dtype.numpy)
    if dtype == BOOL:
        return np.array([False, True])
    least, greatest = np.iinfo(dtype.name).min, np.iinfo(dtype.name).max
    wanted = {0, 1, 2, 3, 7, -1, -2, -7, least, least + 1, greatest, greatest - 1, greatest // 2}
    return np.array(sorted(v for v in wanted if least <= v <= greatest), dtype.numpy)


def pairs(dtype: DType) -> dict[str, Array]:
    """All pairs of samples, in arrays whose length all numbers of lanes divide."""
    left, right = (a.ravel() for a in np.meshgrid(samples(dtype), samples(dtype), indexing="ij"))
    length = -(-left.size // 48) * 48
    return {"a": np.resize(left, length), "b": np.resize(right, length)}


def element(name: str, dtype: DType, lanes: int) -> Expr:
    """The elements of this iteration of `computed`."""
    value = Load(name, (ramp(times(I, lanes), lanes),), dtype.vector(lanes))
    return Cast(value, FLOAT32.vector(lanes)) if dtype == FLOAT16 else value


def const(value: float, dtype: DType, lanes: int) -> Const:
    return Const(value, dtype.vector(lanes))


def built(exprs: Sequence[Expr], inputs: Mapping[str, Array], lanes: int) -> Kernel:
    """o0, o1, ... are the expressions over all elements of inputs of one length; of a scalar one
    each iteration."""
    extent = len(next(iter(inputs.values())))
    buffers = [dense(n, DTYPES[a.dtype.name], a.shape, "input") for n, a in inputs.items()]
    stores: list[Stmt] = []
    for n, expr in enumerate(exprs):
        scalar = expr.dtype.lanes == 1
        length = extent // lanes if scalar else extent
        buffers.append(dense(f"o{n}", expr.dtype.scalar, (length,), "output"))
        stores.append(Store(f"o{n}", (I if scalar else ramp(times(I, lanes), lanes),), expr))
    return Kernel("k", tuple(buffers), ((loop("i", extent // lanes, *stores),),))


def computed(
    exprs: Sequence[Expr], inputs: Mapping[str, Array], lanes: int
) -> tuple[list[Array], list[Array]]:
    """The values of `built` as numba computes them, and as `evaluate` does."""
    found, expected = results(built(exprs, inputs, lanes), inputs)
    names = [f"o{n}" for n in range(len(exprs))]
    return [found[name] for name in names], [expected[name] for name in names]


def ran(exprs: Sequence[Expr], inputs: Mapping[str, Array], lanes: int) -> list[Array]:
    """The values of `built` as numba computes them."""
    kernel = built(exprs, inputs, lanes)
    arrays = arrays_of(kernel, inputs)
    assert run(compile_kernel(kernel), arrays) is None
    return [arrays[f"o{n}"] for n in range(len(exprs))]


def agree(found: Array, expected: Array, what: object, *, signed_zeros: bool = True) -> None:
    assert found.dtype == expected.dtype, what
    np.testing.assert_array_equal(found, expected, err_msg=str(what), strict=True)
    if expected.dtype.kind == "f" and signed_zeros:
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


# --- arithmetic -------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arithmetic(dtype: DType, lanes: int) -> None:
    """Rules Y4 and Y5: every operator in every type."""
    wide, inputs = dtype.vector(lanes), pairs(dtype)
    a, b = element("a", dtype, lanes), element("b", dtype, lanes)
    ops = ["min", "max"] if dtype == BOOL else ["+", "-", "*", "/", "%", "min", "max"]
    exprs: list[Expr] = [Binary(op, a, b, wide) for op in ops]
    exprs += [Compare(op, a, b, BOOL.vector(lanes)) for op in RELATIONS]
    if dtype != BOOL:
        three = const(3.0 if dtype.is_float else 3, dtype, lanes)
        exprs += [Unary("-", a, wide)]
        exprs += [Binary(op, a, three, wide) for op in ops]
        exprs += [Binary(op, three, b, wide) for op in ops]
        exprs += [Binary("-", a, Binary("*", b, Unary("-", a, wide), wide), wide)]
    if dtype.is_integer:
        exprs += [Binary(op, a, const(4, dtype, lanes), wide) for op in ("/", "%")]
        exprs += [Binary(op, a, b, wide) for op in ("&", "|", "^")]
        shift = Binary("&", b, const(7, dtype, lanes), wide)
        exprs += [Binary(op, a, shift, wide) for op in ("<<", ">>")]
    divides = [isinstance(e, Binary) and e.op in ("/", "%") for e in exprs]
    found, expected = computed(exprs, inputs, lanes)
    for expr, division, one, other in zip(exprs, divides, found, expected, strict=True):
        if division and dtype.is_integer:  # by zero: any value, but no trap
            divisor = expr.right if isinstance(expr, Binary) else expr
            keep = inputs["b"] != 0 if divisor == b else np.full(one.shape, True)
            agree(one[keep], other[keep], expr)
        else:
            zeros = not (isinstance(expr, Binary) and expr.op in ("min", "max"))
            agree(one, other, expr, signed_zeros=zeros)


@pytest.mark.parametrize("lanes", LANES)
def test_logical(lanes: int) -> None:
    a, b = (element(name, BOOL, lanes) for name in "ab")
    wide, numbers = BOOL.vector(lanes), FLOAT32.vector(lanes)
    one, two = const(1.0, FLOAT32, lanes), Cast(b, numbers)
    exprs = [
        Logical("&&", (a, b), wide),
        Logical("||", (a, Logical("!", (b,), wide)), wide),
        Logical("&&", (const(True, BOOL, lanes), b), wide),
        Select(a, one, two, numbers),
        Select(a, one, const(2.0, FLOAT32, lanes), numbers),
        Select(Compare("<", I, integer(2)), two, one, numbers),
        Compare("==", Compare("<", a, b, wide), b, wide),
    ]
    for expr, one_, other in zip(exprs, *computed(exprs, pairs(BOOL), lanes), strict=True):
        agree(one_, other, expr)


def test_comparison_of_what_wraps() -> None:
    """A compiler that takes signed overflow to be impossible makes this false."""
    x = np.resize([np.iinfo(np.int64).max, 5], 16)
    a = element("a", INT64, 4)
    more = Binary("+", a, const(1, INT64, 4), INT64.vector(4))
    (found,), _ = computed([Compare("<", more, a, BOOL.vector(4))], {"a": x}, 4)
    agree(found, np.resize([True, False], 16), "a + 1 < a")


@pytest.mark.parametrize("lanes", [1, 16])
def test_nothing_is_contracted_but_fma_is_exact(lanes: int) -> None:
    rng = np.random.default_rng(1)
    inputs = {n: rng.standard_normal(1600).astype(np.float32) for n in "abc"}
    a, b, c = (element(n, FLOAT32, lanes) for n in "abc")
    wide = FLOAT32.vector(lanes)
    apart = Binary("+", Binary("*", a, b, wide), c, wide)
    found, expected = computed([apart, Call("fma", (a, b, c), wide)], inputs, lanes)
    agree(found[0], expected[0], "a * b + c")
    agree(found[1], expected[1], "fma")
    assert (found[0] != found[1]).any()


# --- functions and conversions ----------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 16, 3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_native_functions(dtype: DType, lanes: int) -> None:
    """Exact, or rounded once: no difference from numpy."""
    inputs, wide = pairs(dtype), dtype.vector(lanes)
    args = tuple(element(name, dtype, lanes) for name in "aba")
    names = [name for name in NATIVE if name in BUILTINS and name != "fma"]
    exprs = [Call(name, args[: BUILTINS[name].arity], wide) for name in names]
    found, expected = computed(exprs, inputs, lanes)
    for name, one, other in zip(names, found, expected, strict=True):
        agree(one, other, name, signed_zeros=name not in ("fmin", "fmax"))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 17, 32])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponents(
    dtype: DType, lanes: int, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the instructions where there are any, and as numba's configuration may forbid them."""
    if not allowed:
        features = get_host_cpu_features().replace("+avx512", "-avx512")
        monkeypatch.setattr(config, "CPU_FEATURES", features)
    x, n = exponent_pairs(dtype, 3 * 32 * 17)
    left, right = element("a", dtype, lanes), element("b", dtype, lanes)
    wide = dtype.vector(lanes)
    calls = [Call("scaleb", (left, right), wide)]
    calls += [Call(name, (left,), wide) for name in ("logb", "significand")]
    found, expected = computed(calls, {"a": x, "b": n}, lanes)
    for call, one, other in zip(calls, found, expected, strict=True):
        agree(one, other, call.function, signed_zeros=True)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_abs_of_integers(dtype: DType) -> None:
    a = element("a", dtype, 16)
    found, expected = computed([Call("abs", (a,), dtype.vector(16))], pairs(dtype), 16)
    agree(found[0], expected[0], "abs")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_other_functions_of_scalars_are_those_of_any_region(dtype: DType) -> None:
    """Bit for bit: a region with a vector, and one without."""
    x = np.linspace(0.1, 3.0, 48).astype(dtype.numpy)
    a, two = element("a", dtype, 1), Const(2.0, dtype)
    names = ("exp", "tanh", "log", "erf", "j0", "pow", "hypot", "norm4d")
    exprs: list[Expr] = [Call(n, (a, two, a, two)[: BUILTINS[n].arity], dtype) for n in names]
    plain, _ = computed(exprs, {"a": x}, 1)
    found, _ = computed([*exprs, element("b", dtype, 8)], {"b": x, "a": x[::8].copy()}, 8)
    for name, one, other in zip(names, plain, found, strict=False):
        agree(one[::8], other, name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", [*ALL, FLOAT16], ids=str)
def test_casts(source: DType, lanes: int) -> None:
    """Each type to each other; out of range from a float gives any value, without a trap."""
    x = np.resize(samples(source), 48)
    a = element("a", source, lanes)
    targets = [d for d in DTYPES.values() if d.is_in_numpy and d != source]
    found, expected = computed([Cast(a, t.vector(lanes)) for t in targets], {"a": x}, lanes)
    for target, one, other in zip(targets, found, expected, strict=True):
        defined = np.full(x.shape, True)
        if source.is_float and target.is_integer:
            info, whole = np.iinfo(target.name), np.trunc(x.astype(np.float64))
            defined = (whole >= float(info.min)) & (whole <= float(info.max))
            defined &= whole != float(2**63) if target.bits == 64 else True
        agree(one[defined], other[defined], target)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("native", [True, False])
def test_all_halves(lanes: int, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule Y8, by the instruction and by bits."""
    if not native:
        monkeypatch.setattr("tc.backends.numba.traced_functions.converts_halves", lambda: False)
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    wide = element("h", FLOAT16, lanes)
    there, back = ran([wide, Cast(wide, FLOAT16.vector(lanes))], {"h": halves}, lanes)
    agree(there, halves.astype(np.float32), "from half")
    agree(back, halves, "to half")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_to_half_rounds_to_nearest_even(
    source: DType, native: bool, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr("tc.backends.numba.traced_functions.converts_halves", lambda: False)
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float64))
    between = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(between, np.inf), np.nextafter(between, -np.inf)]
    x = np.concatenate([finite, between, *near, np.array(SPECIAL)])
    x = np.resize(x, -(-x.size // 8) * 8).astype(source.numpy)
    (found,) = ran([Cast(element("a", source, lanes), FLOAT16.vector(lanes))], {"a": x}, lanes)
    with np.errstate(all="ignore"):
        agree(found, x.astype(np.float16), "to half")


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_bits(lanes: int) -> None:
    a, u = element("a", FLOAT32, lanes), element("u", UINT32, lanes)
    d = element("d", FLOAT64, lanes)
    x = np.resize(samples(FLOAT32), 48)
    inputs = {"a": x, "u": x.view(np.uint32), "d": x.astype(np.float64)}
    exprs = [
        Bits(a, INT32.vector(lanes)),
        Bits(u, FLOAT32.vector(lanes)),
        Bits(d, UINT64.vector(lanes)),
        Bits(Binary("&", u, const(0x7FFFFFFF, UINT32, lanes), UINT32.vector(lanes)),
             FLOAT32.vector(lanes)),
    ]  # fmt: skip
    for expr, one, other in zip(exprs, *computed(exprs, inputs, lanes), strict=True):
        agree(one, other, expr)


# --- lanes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [4, 16, 7])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_reduce(dtype: DType, lanes: int) -> None:
    inputs = {"a": np.resize(samples(dtype), 12 * lanes)}
    a = element("a", dtype, lanes)
    ops = ("min", "max") if dtype == BOOL else ("min", "max", "+", "*")
    if dtype.is_float:
        exact = np.resize([1.0, -2.0, 0.5, 4.0, -0.25], 12 * lanes)
        inputs["a"] = exact.astype(dtype.numpy)
    exprs = [Reduce(op, a, dtype) for op in ops]
    for expr, one, other in zip(exprs, *computed(exprs, inputs, lanes), strict=True):
        agree(one, other, expr)


def test_reduced_extrema_propagate_nan() -> None:
    x = np.tile(np.arange(16, dtype=np.float32), 16)
    for lane in range(16):
        x[16 * lane + lane] = np.nan
    a = element("a", FLOAT32, 16)
    found, _ = computed([Reduce(op, a, FLOAT32) for op in ("min", "max")], {"a": x}, 16)
    assert np.isnan(found).all()


def test_shuffle_broadcast_and_ramp() -> None:
    x = np.arange(48, dtype=np.int32)
    a, first = element("a", INT32, 4), Load("a", (times(I, 4),), INT32)
    pick = random.Random(3)
    exprs: list[Expr] = [
        Shuffle(a, a, tuple(pick.randrange(8) for _ in range(4)), INT32.vector(4)) for _ in range(8)
    ]
    exprs += [
        Shuffle(a, Broadcast(first, INT32.vector(4)), (7, 3, 4, 0), INT32.vector(4)),
        Broadcast(first, INT32.vector(4)),
        Broadcast(integer(5), INT64.vector(4)),
        Ramp(times(I, 3), -7, INT64.vector(4)),
        Ramp(I, 0, INT64.vector(4)),
    ]
    found, expected = computed(exprs, {"a": x}, 4)
    for expr, one, other in zip(exprs, found, expected, strict=True):
        agree(one, other, expr)
