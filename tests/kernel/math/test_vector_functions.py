"""Vector formulas: how exact they are, over the whole range of their types, and the pass that
puts them into kernels."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tc
from tc.builtins import BUILTINS
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Reduce,
    Set,
    Stmt,
    Store,
    Var,
    children,
    statements,
    walk,
)
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS
from tc.kernel.math.forms import FORMS
from tc.kernel.pass_manager import Pass, PassContext, run_passes
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.passes.vector_functions import (
    NATIVE,
    PLAIN,
    expand_vector_functions,
    has_vector_form,
)
from tc.kernel.verify import verify
from tests.support import precise
from tests.support.build import dense, integer, loop
from tests.support.formulas import apply, errors, exact, points
from tests.support.kernels import Array
from tests.support.vectors import compile_kernel, run

TYPES = (np.float32, np.float64)
TOPS: dict[str, tuple[float, float]] = {
    "cosh": (92.0, 712.0), "erf": (5.0, 7.0), "erfc": (11.0, 28.0), "exp": (105.0, 750.0),
    "exp10": (46.0, 325.0), "exp2": (151.0, 1080.0), "expm1": (105.0, 750.0),
    "normcdf": (15.0, 39.0), "sinh": (92.0, 712.0), "tanh": (12.0, 22.0),
}  # fmt: skip
"""Up to where something happens."""
COMMON_LIMITS = {"cos": (1e5, 1e9), "sin": (1e5, 1e9), "tan": (1e5, 1e9)}


def ids(value: Any) -> str:
    return getattr(value, "__name__", str(value))


def bits_of(dtype: Any) -> int:
    return 8 * int(np.dtype(dtype).itemsize)


def check(function: str, *args: Array, exponents: bool = False) -> None:
    found = apply(function, *args, exponents=exponents)
    value, slack = exact(function, *args)
    error = errors(found, value)
    worst = int(error.argmax())
    bound = FORMS[function].ulps(bits_of(found.dtype)) + slack
    message = f"{error[worst]} ulps at {[arg[worst] for arg in args]}: {found[worst]}"
    assert error[worst] <= max(bound, 0.5), message


# --- exactness --------------------------------------------------------------------------------


UNARY = [name for name in FORMS if BUILTINS[name].arity == 1]
SHORT = [name for name in UNARY if FORMS[name].short]
VARIANTS = [*((name, False) for name in UNARY), *((name, True) for name in SHORT)]
"""Functions by their formulas for vectors without instructions for exponents, and with them."""
OTHERS = [name for name in FORMS if BUILTINS[name].arity > 1]


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
@pytest.mark.parametrize(("function", "exponents"), VARIANTS)
def test_functions_of_one_argument(function: str, exponents: bool, dtype: Any) -> None:
    top = TOPS.get(function, (30.0, 30.0))[dtype is np.float64]
    args = points(dtype, 3000, top, seed=1)
    if function in COMMON_LIMITS:  # the rare lanes are tested below
        limit = COMMON_LIMITS[function][dtype is np.float64]
        args = args[~(np.abs(args) > limit)]
        quarters = np.arange(1, 2000) * (np.pi / 2)
        args = np.concatenate([args, np.geomspace(1.0, limit, 3000), quarters]).astype(dtype)
    check(function, args, exponents=exponents)


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
@pytest.mark.parametrize("function", OTHERS)
def test_functions_of_several_arguments(function: str, dtype: Any) -> None:
    arity = BUILTINS[function].arity
    args = [points(dtype, 600, 30.0, seed) for seed in range(arity)]
    special = points(dtype, 0, 2.5, seed=9)[: 30 if arity == 2 else 8]
    for n, column in enumerate(zip(*itertools.product(special, repeat=arity), strict=True)):
        args[n] = np.concatenate([args[n], np.array(column, dtype)])
    if function == "fmod":
        with np.errstate(all="ignore"):
            is_common = np.abs(args[0] / args[1]) < 2.0 ** np.finfo(dtype).nmant
        args = [arg[is_common & np.isfinite(args[1])] for arg in args]
    check(function, *args)


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
def test_powers_of_all_sizes(dtype: Any) -> None:
    rng, most = np.random.default_rng(3), float(np.log(np.finfo(dtype).max))
    sizes = np.exp(rng.uniform(-most, most, 20_000))
    exponents = rng.uniform(-1.05, 1.05, 20_000) * most / np.abs(np.log(sizes))
    near = 1 + rng.uniform(0.1, 1, 20_000) * 2.0 ** rng.uniform(-20, -3, 20_000)
    large = rng.uniform(-1, 1, 20_000) * most / np.log(near)
    x = np.concatenate([sizes, near]).astype(dtype)
    check("pow", x, np.concatenate([exponents, large]).astype(dtype))
    check("pow", np.concatenate([-x, -x]), np.repeat(np.array([3.0, -2.0], dtype), len(x)))


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.0, float("nan")])
@pytest.mark.parametrize("dtype", TYPES, ids=ids)
def test_constant_powers(exponent: float, dtype: Any) -> None:
    most = float(np.log(np.finfo(dtype).max))
    sizes = np.exp(np.random.default_rng(4).uniform(-1, 1, 4000) * most / max(0.9 * exponent, 1))
    x = np.concatenate([points(dtype, 200, 30.0, seed=4), sizes.astype(dtype)])
    scalar, lanes = (FLOAT32 if dtype is np.float32 else FLOAT64), len(x)
    vector, every = scalar.vector(lanes), Ramp(integer(0), 1, INT64.vector(lanes))
    call = Call("pow", (Load("x", (every,), vector), Const(exponent, vector)), vector)
    found = np.zeros_like(x)
    buffers = (dense("x", scalar, (lanes,), "input"), dense("o", scalar, (lanes,), "output"))
    kernel = expand_vector_functions(Kernel("k", buffers, ((Store("o", (every,), call),),)))
    verify(kernel)
    evaluate(kernel, {"x": x, "o": found})
    value, slack = exact("pow", x, np.full_like(x, exponent))
    assert errors(found, value).max() <= FORMS["pow"].ulps(bits_of(dtype)) + slack


@pytest.mark.parametrize("function", ["erf", "erfc", "normcdf"])
def test_error_functions_against_series(function: str) -> None:
    """numpy has no wide versions of these."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-6, 6, 60), rng.uniform(-1.2, 1.2, 60), [26.0, -37.0]])
    x = x[x > -6] if function == "erfc" else x[np.abs(x) < 30]
    for argument, found in zip(x, apply(function, x), strict=True):
        wanted = getattr(precise, function)(Decimal(float(argument)))
        error = precise.in_ulps(found, wanted, np.float64)
        assert error <= FORMS[function].ulps64, argument


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
@pytest.mark.parametrize("exponents", [False, True])
@pytest.mark.parametrize("function", ["log", "log2", "log10"])
def test_logarithms_where_terms_cancel(function: str, exponents: bool, dtype: Any) -> None:
    """Just below 3/4, where k is -1 and log(1 + r) is largest."""
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(0.7, 0.75, 20_000), rng.uniform(0.74, 0.75, 20_000)])
    check(function, x.astype(dtype), exponents=exponents)


EVERYWHERE = [("exp", False), ("exp", True), ("log", False), ("log", True), ("tanh", False)]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("function", "exponents"), EVERYWHERE)
def test_a_million_of_all_floats(function: str, exponents: bool) -> None:
    step = 4099
    x = np.arange(0, 2**32, step, dtype=np.int64).astype(np.uint32).view(np.float32)
    check(function, x, exponents=exponents)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "exponents"), EVERYWHERE)
def test_all_floats(function: str, exponents: bool) -> None:
    """Compiled, in vectors of 16 lanes."""
    lanes, count = 16, 2**22
    f16 = FLOAT32.vector(lanes)
    every = Ramp(Binary("*", Var("i", INT64), integer(lanes), INT64), 1, INT64.vector(lanes))
    store = Store("o", (every,), Call(function, (Load("x", (every,), f16),), f16))
    buffers = (dense("x", FLOAT32, (count,), "input"), dense("o", FLOAT32, (count,), "output"))
    body = loop("i", count // lanes, store, parallel=True)
    expanded = expand_vector_functions(Kernel("k", buffers, ((body,),)), exponents=exponents)
    compiled = compile_kernel(expanded)
    worst, found = 0.0, np.zeros(count, np.float32)
    for start in range(0, 2**32, count):
        x = np.arange(start, start + count, dtype=np.int64).astype(np.uint32).view(np.float32)
        run(compiled, {"x": x, "o": found}, threads=None)
        worst = max(worst, errors(found, exact(function, x)[0]).max())
    assert worst <= FORMS[function].ulps32


def test_forms_keep_the_promise_of_the_table() -> None:
    for name, form in FORMS.items():
        for bits in (32, 64):
            assert form.ulps(bits) <= BUILTINS[name].ulps, name


# --- rare lanes -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_large_angles(function: str, dtype: Any) -> None:
    """Lanes with large angles are computed one by one, and the other lanes are unchanged."""
    common = points(dtype, 5, 30.0, seed=6)
    common = common[np.abs(common) < 100.0]
    large = np.exp(np.linspace(21.0, np.log(float(np.finfo(dtype).max)), 40, endpoint=False))
    large = large.astype(dtype)
    mixed = np.concatenate([common, large, -large, np.array([np.inf, -np.inf, np.nan], dtype)])
    expected = BUILTINS[function].numpy(mixed)
    found = apply(function, mixed)
    np.testing.assert_array_equal(found[len(common) :], expected[len(common) :])
    np.testing.assert_array_equal(found[: len(common)], apply(function, common))


@pytest.mark.parametrize("dtype", TYPES, ids=ids)
def test_large_quotients(dtype: Any) -> None:
    x, y = (points(dtype, 60, 30.0, seed) for seed in (7, 8))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    found = apply("fmod", x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


# --- the pass ---------------------------------------------------------------------------------

F4, I4 = FLOAT32.vector(4), INT64.vector(4)
LANES = Ramp(integer(0), 1, I4)
X = Load("x", (LANES,), F4)


def kernel(*stmts: Stmt) -> Kernel:
    return Kernel(
        "k",
        (
            Buffer("x", FLOAT32, (4,), (1,), "input"),
            Buffer("o", FLOAT32, (4,), (1,), "output"),
        ),
        (stmts,),
    )


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, F4)


def expanded(*stmts: Stmt) -> tuple[Stmt, ...]:
    made = expand_vector_functions(kernel(*stmts))
    verify(made)
    return made.regions[0]


def calls_in(stmts: tuple[Stmt, ...]) -> set[str]:
    """The functions that vectors still call."""
    found = set()
    for stmt in statements(stmts):
        for expr in _expressions(stmt):
            for node in walk(expr):
                if isinstance(node, Call) and node.dtype.lanes > 1:
                    found.add(node.function)
    return found


def _expressions(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Let(value=value) | Set(value=value):
            return (value,)
        case Store(indices=indices, value=value, mask=mask):
            return (*indices, value, *(() if mask is None else (mask,)))
        case If(condition=condition):
            return (condition,)
        case For(begin=begin, end=end):
            return (begin, end)
    return ()


@pytest.mark.parametrize("function", sorted(FORMS))
def test_only_native_calls_remain(function: str) -> None:
    args = [X] * BUILTINS[function].arity
    stored = Store("o", (LANES,), call(function, *args))
    assert calls_in(expanded(stored)) <= NATIVE
    (region,) = expand_vector_functions(kernel(stored), exponents=True).regions
    assert calls_in(region) <= NATIVE | {"logb", *EXPONENT_FUNCTIONS}


@pytest.mark.parametrize("function", SHORT)
def test_short_formulas_are_shorter(function: str) -> None:
    def operations(*, exponents: bool) -> int:
        made = expand_vector_functions(
            kernel(Store("o", (LANES,), call(function, X))), exponents=exponents
        )
        exprs = [expr for stmt in made.regions[0] for expr in _expressions(stmt)]
        return sum(1 for expr in exprs for node in walk(expr) if children(node))

    assert operations(exponents=True) < operations(exponents=False)


def test_everywhere_in_a_statement_and_nested() -> None:
    deep = call("exp", call("log", call("exp2", X)))
    total = Call("fmin", (Reduce("+", deep, FLOAT32), Const(1.0, FLOAT32)), FLOAT32)
    stmts = expanded(
        If(
            Const(True, BOOL),
            (Let("t", total), For("i", integer(0), integer(2), (Set("t", total),))),
        ),
        Store("o", (LANES,), deep),
    )
    assert calls_in(stmts) <= NATIVE


def test_what_is_used_twice_is_computed_once() -> None:
    """The argument too, and nothing inside of it."""
    argument = Binary("*", X, X, F4)
    *lets, store = expanded(Store("o", (LANES,), call("exp", argument)))
    values = [let.value for let in lets if isinstance(let, Let)]
    assert len(values) == len(lets)
    loads = [e for value in values for e in walk(value) if isinstance(e, Load)]
    assert loads == [X, X]
    assert isinstance(store, Store)
    count = sum(1 for e in (*values, store.value) for node in walk(e) if children(node))
    assert count < 40


def test_scalars_native_and_unknown_functions_stay() -> None:
    scalar = Load("x", (integer(0),), FLOAT32)
    stmts = (
        Let("a", Call("exp", (scalar,), FLOAT32)),
        Let("b", call("sqrt", X)),
        Let("c", call("lgamma", X)),
    )
    assert expanded(*stmts) == stmts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_formulas_on_scalars(dtype: Any) -> None:
    """One rounding for each operation, also at the ends of the range; no call is left."""
    kind = "float" if dtype == np.float32 else "double"
    text = f"""def f({kind}(N) X, {kind}(N) Y, {kind}(N,4) Z) -> (R, Q, O) {{
      R(i) = rsqrt(X(i))  Q(i) = fdivide(X(i), Y(i))
      O(i,j) = Z(i,j) * rsqrt(X(i))
    }}"""
    tiny = np.finfo(dtype).smallest_subnormal
    special = [0.0, -0.0, tiny, np.finfo(dtype).max, np.inf, -np.inf, np.nan, -1.0, 3.0, 0.1]
    x, y = (
        np.array(values, dtype) for values in zip(*itertools.product(special, special), strict=True)
    )
    z = np.full((len(x), 4), 3, dtype)
    with np.errstate(all="ignore"):
        root, quotient = dtype(1) / np.sqrt(x), x / y
        scaled = z * root[:, None]
    for options in (tc.Options(), tc.Options(mapping=tc.MappingOptions(vector_bits=0))):
        for backend in ("numba", "c"):
            found = tc.compile(text, backend=backend, options=options)(x, y, z)
            for result, wanted in zip(found, (root, quotient, scaled), strict=True):
                np.testing.assert_array_equal(result, wanted)
    scalar = Load("x", (integer(0),), FLOAT32)
    for function in PLAIN:
        one = Call(function, (scalar,) * BUILTINS[function].arity, FLOAT32)
        (made,) = expanded(Let("a", one))
        assert not any(isinstance(node, Call) and node.function in PLAIN
                       for node in walk(_expressions(made)[0]))  # fmt: skip


HINTS = [each for each in PASSES if each.name.startswith(("non-temporal", "prefetch"))]


@pytest.mark.parametrize("hints", HINTS, ids=lambda each: each.name)
def test_what_is_rare_stays_so(hints: Pass) -> None:
    f16, index = FLOAT32.vector(16), Binary("*", Var("i", INT64), integer(16), INT64)
    every = Ramp(index, 1, INT64.vector(16))
    store = Store("o", (every,), Call("sin", (Load("x", (every,), f16),), f16))
    buffers = (dense("x", FLOAT32, (2048,), "input"), dense("o", FLOAT32, (2048,), "output"))
    body = loop("i", 128, store, parallel=True)
    context = PassContext(lanes_bits=512, l2=1024, shared_cache=1024)
    kernel = run_passes(expand_vector_functions(Kernel("k", buffers, ((body,),))), context, [hints])
    assert [s.rare for s in statements(kernel.regions[0]) if isinstance(s, If)] == [True]


def test_calls_share_the_memory_of_rare_lanes() -> None:
    made = expand_vector_functions(
        kernel(Store("o", (LANES,), Binary("+", call("sin", X), call("fmod", X, X), F4)))
    )
    assert [(b.role, b.shape) for b in made.buffers[2:]] == [("scratch", (2, 4))]
    x, out = np.array([1e30, 1.0, np.inf, -0.5], np.float32), np.zeros(4, np.float32)
    evaluate(made, {"x": x, "o": out})
    np.testing.assert_allclose(out[[0, 1, 3]], np.sin(x[[0, 1, 3]], dtype=np.float64), rtol=1e-6)
    assert np.isnan(out[2])


def test_has_vector_form() -> None:
    assert NATIVE.isdisjoint(FORMS)
    for name in BUILTINS:
        known = name in NATIVE or name in FORMS
        assert has_vector_form(name, FLOAT32) == has_vector_form(name, FLOAT64) == known
        assert has_vector_form(name, INT32) == (name == "abs")
        assert has_vector_form(name, FLOAT16) == (name == "abs")
