"""Every operation of the error bound is sound (R5): values that the operands' errors admit give
results within the result's error. Operands are drawn at random, zeros of either sign, NaNs,
infinities, subnormals and huge values among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tc.builtins import BUILTINS
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, DType
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.error_bound import Bounded
from tc.semantics.reference.uncertain import ZERO, Uncertain, grid_of
from tests.support.bounds import is_within

COUNT = 4000
FLOATS = (FLOAT32, FLOAT64)
INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)
BOUNDED = Bounded()


def draw(rng: np.random.Generator, dtype: DType, kind: str) -> Uncertain:
    """Operands: "exact" without errors, "whole" small whole numbers, "rounded" with errors."""
    value = _values(rng, dtype, kind)
    if kind != "rounded":
        return Uncertain(value, ZERO, grid_of(value))
    error = np.abs(value.astype(np.float64)) * 10.0 ** rng.integers(-17, 2, COUNT)
    if dtype.is_float:
        # what has an error was rounded, so the error is no less than half a unit
        with np.errstate(all="ignore"):
            error = np.maximum(error, 0.5 * np.spacing(np.abs(value)).astype(np.float64))
    else:
        error = np.trunc(np.minimum(error, 2.0**20))
    if dtype == BOOL:
        error = (rng.random(COUNT) < 0.5).astype(np.float64)
    error = np.where(rng.random(COUNT) < 0.3, 0.0, error)
    error = np.where(rng.random(COUNT) < 0.05, np.inf, error)
    return Uncertain(value, possible(value, error, dtype))


def possible(value: np.ndarray, error: np.ndarray, dtype: DType) -> np.ndarray:
    """Errors as the bound makes them: infinite where values would overflow or wrap around."""
    with np.errstate(all="ignore"):
        reach = np.abs(value.astype(np.float64)) + error
    limit = float(np.finfo(dtype.name).max) if dtype.is_float else 2.0**62
    error = np.where((reach > limit) | np.isnan(reach), np.where(error > 0, np.inf, 0.0), error)
    special = ~np.isfinite(value.astype(np.float64))
    error = np.where(special & (error > 0), np.inf, error)
    if dtype.is_integer:
        info = np.iinfo(dtype.name)
        exact = value.astype(np.float64)
        inside = (exact - error > float(info.min)) & (exact + error < float(info.max))
        error = np.where(inside | (error == 0), error, np.inf)
    return error


def _values(rng: np.random.Generator, dtype: DType, kind: str) -> np.ndarray:
    if dtype == BOOL:
        return rng.random(COUNT) < 0.5
    if kind == "whole":
        low = 0 if dtype.kind == "uint" else -9
        return rng.integers(low, 10, COUNT).astype(dtype.numpy)
    if dtype.is_integer:
        info = np.iinfo(dtype.name)
        small = rng.integers(max(info.min, -9), 10, COUNT).astype(dtype.numpy)
        wide = rng.integers(info.min, info.max, COUNT, dtype=dtype.numpy, endpoint=True)
        return np.where(rng.random(COUNT) < 0.5, small, wide)
    normal = rng.standard_normal(COUNT)
    with np.errstate(all="ignore"):
        scaled = normal * 10.0 ** rng.integers(-46, 39, COUNT)
        whole = rng.integers(-9, 10, COUNT)
        special = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], COUNT)
        choice = rng.random(COUNT)
        value = np.select([choice < 0.5, choice < 0.7, choice < 0.9], [normal, whole, scaled])
        return np.where(choice < 0.9, value, special).astype(dtype.numpy)


def admitted(rng: np.random.Generator, operand: Uncertain, dtype: DType) -> np.ndarray:
    """A value that another implementation may have where the interpreter has the operand's."""
    value, error = operand.value, np.broadcast_to(operand.error, operand.value.shape)
    step = rng.choice([-1.0, -0.9, -0.1, 0.0, 0.1, 0.9, 1.0], COUNT)
    with np.errstate(all="ignore"):
        if dtype == BOOL:
            return np.where(error > 0, rng.random(COUNT) < 0.5, value)
        moved = (value.astype(np.float64) + step * np.where(error < np.inf, error, 0.0)).astype(
            dtype.numpy
        )
        if dtype.is_float:
            apart = np.abs(moved.astype(np.float64) - value.astype(np.float64))
            moved = np.where((apart <= error) & (step != 0), moved, value)
            sign = rng.choice([-1.0, 1.0], COUNT).astype(dtype.numpy)
            moved = np.where(moved == 0, np.copysign(moved, sign), moved)
        else:
            moved = np.where((error > 0) & (np.abs(value.astype(np.float64)) < 2**52), moved, value)
    return np.where(error == np.inf, _values(rng, dtype, "exact"), moved).astype(dtype.numpy)


def check(result: Uncertain, other: np.ndarray, *operands: object) -> None:
    error = np.broadcast_to(result.error, result.value.shape)
    assert not np.isnan(error).any()
    assert (error >= 0).all()
    with np.errstate(all="ignore"):
        bad = ~is_within(other, result.value, error)
    if bad.any():
        at = int(bad.argmax())
        seen = [
            (o.value[at], np.broadcast_to(o.error, o.value.shape)[at])
            if isinstance(o, Uncertain)
            else np.asarray(o)[at]
            for o in operands
        ]
        raise AssertionError(
            f"{int(bad.sum())} bad: {result.value[at]!r} within {error[at]!r}, other"
            f" {other[at]!r}; operands {seen}"
        )


def kinds(dtype: DType) -> Sequence[str]:
    return ("rounded",) if dtype == BOOL else ("exact", "whole", "rounded")


def binary_cases() -> list[tuple[str, DType]]:
    cases = [(op, d) for op in "+-*/%" for d in (*FLOATS, *INTEGERS)]
    return cases + [(op, d) for op in ("min", "max") for d in (*FLOATS, *INTEGERS, BOOL)]


@pytest.mark.parametrize(("op", "dtype"), binary_cases(), ids=str)
def test_binary(op: str, dtype: DType) -> None:
    rng = np.random.default_rng(dtype.bits)
    for first in kinds(dtype):
        for second in kinds(dtype):
            a, b = draw(rng, dtype, first), draw(rng, dtype, second)
            with np.errstate(all="ignore"):
                result = BOUNDED.binary(op, a, b, dtype)
                x, y = admitted(rng, a, dtype), admitted(rng, b, dtype)
                check(result, PLAIN.binary(op, x, y, dtype), a, b, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_contraction_to_one_rounding(dtype: DType) -> None:
    """a * b + c may be rounded once; float32 in float64 shows the difference."""
    rng = np.random.default_rng(3)
    for kind in ("exact", "whole", "rounded"):
        a, b, c = (draw(rng, dtype, kind) for _ in range(3))
        with np.errstate(all="ignore"):
            product = BOUNDED.binary("*", a, b, dtype)
            x, y, z = (admitted(rng, o, dtype) for o in (a, b, c))
            for op, sign in (("+", 1), ("-", -1)):
                result = BOUNDED.binary(op, product, c, dtype)
                fused = np.asarray(BUILTINS["fma"].numpy(x, y, (sign * z).astype(dtype.numpy)))
                check(result, fused, a, b, c, x, y, z)


@pytest.mark.parametrize("dtype", [*FLOATS, INTEGERS[0], INTEGERS[-1], BOOL], ids=str)
def test_comparison(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    for kind in kinds(dtype):
        a, b = draw(rng, dtype, kind), draw(rng, dtype, kind)
        near = np.where(rng.random(COUNT) < 0.5, a.value, b.value)
        errors = (np.maximum(a.error, b.error),) if kind == "rounded" else ()
        b = Uncertain(near, *(possible(near, error, dtype) for error in errors))
        for op in ("==", "!=", "<", "<=", ">", ">="):
            with np.errstate(all="ignore"):
                result = BOUNDED.compare(op, a, b)
                x, y = admitted(rng, a, dtype), admitted(rng, b, dtype)
                check(result, PLAIN.compare(op, x, y), a, b, x, y)


def test_logical() -> None:
    rng = np.random.default_rng(5)
    a, b = draw(rng, BOOL, "rounded"), draw(rng, BOOL, "rounded")
    for op, operands in (("&&", (a, b)), ("||", (a, b)), ("!", (a,))):
        others = [admitted(rng, o, BOOL) for o in operands]
        result = BOUNDED.logical(op, operands)
        check(result, PLAIN.logical(op, others), *operands, *others)
        may = np.broadcast_to(result.error, result.value.shape) > 0
        assert may.mean() < 0.8  # a certain operand that decides leaves no doubt


@pytest.mark.parametrize("dtype", [FLOAT32, INTEGERS[0], BOOL], ids=str)
def test_select(dtype: DType) -> None:
    rng = np.random.default_rng(6)
    c, a, b = draw(rng, BOOL, "rounded"), draw(rng, dtype, "rounded"), draw(rng, dtype, "rounded")
    with np.errstate(all="ignore"):
        result = BOUNDED.select(c, a, b)
        x, y, z = admitted(rng, c, BOOL), admitted(rng, a, dtype), admitted(rng, b, dtype)
        check(result, np.where(x, y, z), c, a, b, x, y, z)


def conversions() -> list[tuple[DType, DType]]:
    sources = (BOOL, *INTEGERS, FLOAT16, *FLOATS)
    return [(s, t) for s in sources for t in (*sources,) if s != t]


@pytest.mark.parametrize(("source", "target"), conversions(), ids=str)
def test_conversion(source: DType, target: DType) -> None:
    rng = np.random.default_rng(7)
    for kind in kinds(source):
        a = draw(rng, source, kind)
        with np.errstate(all="ignore"):
            result = BOUNDED.convert(a, source, target)
            x = admitted(rng, a, source)
            check(result, PLAIN.convert(x, source, target), a, x)
            if target == FLOAT16 and source != FLOAT32:  # rounded twice is legal
                check(result, x.astype(np.float32).astype(np.float16), a, x)


@pytest.mark.parametrize("function", BUILTINS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_function(function: str, dtype: DType) -> None:
    builtin = BUILTINS[function]
    rng = np.random.default_rng(8)
    for kind in ("exact", "whole", "rounded"):
        args = [draw(rng, dtype, kind) for _ in range(builtin.arity)]
        if "bessel" in builtin.doc.lower():  # the table vouches for |x| <= 1000
            with np.errstate(all="ignore"):
                args = [Uncertain(np.fmod(a.value, 500), a.error) for a in args]
        with np.errstate(all="ignore"):
            result = BOUNDED.call(function, args, dtype)
            others = [admitted(rng, a, dtype) for a in args]
            other = PLAIN.call(function, others, dtype)
            if builtin.ulps:
                units = rng.choice([-1.0, 0.0, 1.0], COUNT) * builtin.ulps
                perturbed = (other + units * np.spacing(np.abs(other))).astype(dtype.numpy)
                other = np.where(np.isfinite(perturbed), perturbed, other)
            check(result, other, *args, *others)


def test_bounds_are_not_vacuous() -> None:
    """What is exact has error 0, and ordinary operations have errors near the roundings."""
    rng = np.random.default_rng(9)
    a = Uncertain(rng.standard_normal(COUNT).astype(np.float32))
    whole = draw(rng, FLOAT32, "whole")
    assert BOUNDED.binary("*", whole, whole, FLOAT32).is_exact
    assert BOUNDED.binary("min", a, a, FLOAT32).is_exact
    assert BOUNDED.convert(a, FLOAT32, FLOAT16).is_exact
    half = BOUNDED.exact(np.full(1, 0.5, np.float32))
    assert BOUNDED.binary("*", whole, half, FLOAT32).is_exact
    assert BOUNDED.binary("/", whole, BOUNDED.exact(np.full(1, 4, np.float32)), FLOAT32).is_exact
    for op in "+*":
        result = BOUNDED.binary(op, a, Uncertain(a.value[::-1]), FLOAT32)
        assert (result.error <= 1.001 * 2.0**-23 * np.abs(result.value) + 1e-44).all()
    exponential = BOUNDED.call("exp", [a], FLOAT32)
    ulps = 2 * BUILTINS["exp"].ulps * 1.001 * np.spacing(exponential.value)
    assert (exponential.error <= ulps).all()
