"""Hypothesis strategies that generate kernels with vectors, and the arrays for them.

All that a kernel computes is specified to the bit, so that every backend must agree with
`tc.kernel.evaluate`: sums over lanes are of integers, floats become integers where they are in
range, and the sign of a zero decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
    Call,
    Cast,
    Compare,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Reduce,
    Select,
    Set,
    Shuffle,
    Stmt,
    Store,
    Unary,
    Var,
)
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import Array, input_like
from tests.support.lanewise import first, ramp, splat

RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
ROWS, EXTENT = 3, 100
"""Every input is of this shape; i runs over the rows."""


@dataclass(frozen=True)
class Generated:
    kernel: Kernel
    arrays: dict[str, Array] = field(repr=False)


@dataclass
class _Scope:
    """What is drawn so far: inputs by type, and locals by type."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    lanes: int
    arrays: dict[str, Array] = field(default_factory=dict)
    locals: dict[DType, list[str]] = field(default_factory=dict)
    count: int = 0

    def choose(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, greatest: int) -> int:
        return int(self.draw(st.integers(least, greatest)))

    def fresh(self, dtype: DType) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.locals.setdefault(dtype, []).append(name)
        return name


@st.composite
def vector_kernels(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Generated:
    """Kernels of one loop over rows, with locals, a branch and masked stores."""
    scope = _Scope(draw, draw(st.sampled_from((2, 4, 8, 16, 32))))
    scope.arrays["p"] = np.random.default_rng(0).integers(0, EXTENT, (ROWS, EXTENT))
    at = f"at{scope.lanes}"
    body: list[Stmt] = [Let(at, _indices(scope))]
    if scope.number(0, 1):
        change = Set(at, _indices(scope))
        body.append(scope.choose(change, If(Compare("<", I, integer(1)), (change,))))
    for _ in range(scope.number(0, 3)):
        value = _vector(scope, scope.choose(*_TYPES), 2)
        body.append(Let(scope.fresh(value.dtype), value))
    for dtype, names in list(scope.locals.items()):
        if scope.number(0, 1):
            change = Set(names[0], _vector(scope, dtype.scalar, 2))
            some = Reduce("max", _vector(scope, BOOL, 1), BOOL)
            body.append(scope.choose(change, If(some, (change,)), loop("j", 2, change)))
    outputs = []
    for number in range(scope.number(1, 4)):
        dtype = scope.choose(*_TYPES, FLOAT16)
        outputs.append(dense(f"o{number}", dtype, (ROWS, EXTENT), "output"))
        body.append(_store(scope, f"o{number}", dtype))
    inputs = [input_like(name, array) for name, array in scope.arrays.items()]
    initial = frozenset(o.name for o in outputs)
    region = (loop("i", ROWS, *body),)
    return Generated(Kernel("k", (*inputs, *outputs), (region,), initial=initial), scope.arrays)


_TYPES = (BOOL, *(d for d in DTYPES.values() if d.is_integer), FLOAT32, FLOAT64, FLOAT32)


def _store(scope: _Scope, name: str, dtype: DType) -> Store:
    value = _vector(scope, FLOAT32 if dtype == FLOAT16 else dtype, 3)
    if dtype == FLOAT16:
        value = Cast(value, FLOAT16.vector(scope.lanes))
    mask = _vector(scope, BOOL, 1) if scope.number(0, 1) else None
    return Store(
        name, (I, ramp(scope.number(0, 4), scope.choose(1, 2, 3), scope.lanes)), value, mask
    )


# --- expressions ------------------------------------------------------------------------------


def _vector(scope: _Scope, dtype: DType, depth: int) -> Expr:
    """A vector of elements of a type."""
    vector = dtype.vector(scope.lanes)
    leaves = [_load, _load, _constant]
    if scope.locals.get(vector):
        leaves.append(
            lambda s, d, _: Var(s.choose(*s.locals[d.vector(s.lanes)]), d.vector(s.lanes))
        )
    if depth == 0:
        return scope.choose(*leaves)(scope, dtype, depth)  # type: ignore[no-any-return]
    kind = _bool if dtype == BOOL else _real if dtype.is_float else _integer
    return scope.choose(*leaves, kind, kind, _any, _any)(scope, dtype, depth - 1)  # type: ignore[no-any-return]


def _local(scope: _Scope, dtype: DType, _: int) -> Expr:
    vector = dtype.vector(scope.lanes)
    return Var(scope.choose(*scope.locals[vector]), vector)


def _constant(scope: _Scope, dtype: DType, _: int) -> Expr:
    value = scope.choose(0, 1, 5, 100)
    if dtype == BOOL:
        return splat(value > 1, dtype, scope.lanes)
    return splat(float(value) if dtype.is_float else value, dtype, scope.lanes)


def _load(scope: _Scope, dtype: DType, _: int) -> Expr:
    """In one of many layouts, masked or not."""
    stored = scope.choose(dtype, FLOAT16) if dtype == FLOAT32 else dtype
    name = f"a_{stored}{scope.choose('', 't')}"
    if name not in scope.arrays:
        numbers = _numbers(stored)
        scope.arrays[name] = np.asfortranarray(numbers) if name.endswith("t") else numbers
    lanes = scope.lanes
    index = scope.choose(_indices(scope), Var(f"at{lanes}", INT64.vector(lanes)))
    shift = Binary("+", I, integer(scope.number(0, 3)), INT64)
    mask = scope.choose(None, None, first(shift, lanes), first(scope.number(0, lanes), lanes))
    load = Load(name, (I, index), stored.vector(lanes), mask)
    return Cast(load, FLOAT32.vector(lanes)) if stored == FLOAT16 else load


def _indices(scope: _Scope) -> Expr:
    """Any that are in bounds."""
    lanes, vector = scope.lanes, INT64.vector(scope.lanes)
    place = Load("p", (I, ramp(0, 1, lanes)), vector)
    shift = Binary("+", I, integer(scope.number(0, 3)), INT64)
    choice: Expr = scope.choose(
        ramp(shift, scope.choose(1, 1, 1, 2, 3), lanes),
        ramp(EXTENT - 1, -1, lanes),
        place,
        Broadcast(shift, vector),
        Binary("/", place, splat(3, INT64, lanes), vector),
    )
    return choice


def _numbers(dtype: DType) -> Array:
    rng = np.random.default_rng(DTYPES[dtype.name].bits)
    if dtype == BOOL:
        return rng.integers(0, 2, (ROWS, EXTENT)).astype(bool)
    if dtype.is_float:
        numbers = rng.standard_normal((ROWS, EXTENT)) * 10.0 ** rng.integers(-3, 4, (ROWS, EXTENT))
        numbers[:, ::7] = [[np.inf], [np.nan], [3.0]]
        return numbers.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wide = rng.integers(info.min, info.max, (ROWS, EXTENT), dtype.numpy, endpoint=True)
    wide[:, ::3] %= 9
    return wide


def _any(scope: _Scope, dtype: DType, depth: int) -> Expr:
    """Nodes that there are for all types."""
    vector = dtype.vector(scope.lanes)
    match scope.choose("select", "select scalar", "shuffle", "reduce", "cast", "minmax"):
        case "select":
            sides = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
            return Select(_vector(scope, BOOL, depth), *sides, vector)
        case "select scalar":
            sides = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
            return Select(Compare("<", I, integer(1)), *sides, vector)
        case "shuffle":
            lanes = [scope.number(0, 2 * scope.lanes - 1) for _ in range(scope.lanes)]
            sides = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
            return Shuffle(*sides, tuple(lanes), vector)
        case "reduce":
            ops = ("min", "max", "+", "*") if dtype.is_integer else ("min", "max")
            return Broadcast(
                Reduce(scope.choose(*ops), _vector(scope, dtype, depth), dtype), vector
            )
        case "cast":
            return _cast(scope, dtype, depth)
        case _:
            sides = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
            return Binary(scope.choose("min", "max"), *sides, vector)


def _cast(scope: _Scope, dtype: DType, depth: int) -> Expr:
    source = scope.choose(*_TYPES)
    value, vector = _vector(scope, source, depth), dtype.vector(scope.lanes)
    if source.is_float and dtype.is_integer:
        small = Call("abs", (value,), value.dtype)
        fits = Compare("<", small, splat(100.0, source, scope.lanes), BOOL.vector(scope.lanes))
        value = Select(fits, small, splat(0.0, source, scope.lanes), value.dtype)
    return Cast(value, vector)


def _bool(scope: _Scope, dtype: DType, depth: int) -> Expr:
    vector = dtype.vector(scope.lanes)
    match scope.choose("compare", "compare", "not", "and", "or", "ramp"):
        case "compare":
            source = scope.choose(*_TYPES)
            sides = _vector(scope, source, depth), _vector(scope, source, depth)
            return Compare(scope.choose(*RELATIONS), *sides, vector)
        case "not":
            return Logical("!", (_vector(scope, BOOL, depth),), vector)
        case "ramp":
            step = scope.choose(0, 1, -2, 10**9)
            sides = ramp(I, step, scope.lanes), splat(scope.number(-1, 9), INT64, scope.lanes)
            return Compare(scope.choose(*RELATIONS), *sides, vector)
        case op:
            operands = _vector(scope, BOOL, depth), _vector(scope, BOOL, depth)
            return Logical("&&" if op == "and" else "||", operands, vector)


def _integer(scope: _Scope, dtype: DType, depth: int) -> Expr:
    vector = dtype.vector(scope.lanes)
    left, right = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
    match scope.choose("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "neg", "abs", "bits"):
        case "neg":
            return Unary("-", left, vector)
        case "abs":
            return Call("abs", (left,), vector)
        case "bits":
            other = {"i": f"u{dtype.name}", "u": dtype.name[1:]}[dtype.name[0]]
            return Bits(_vector(scope, DTYPES[other], depth), vector)
        case "/" | "%" as op:
            odd = Binary("|", right, splat(1, dtype, scope.lanes), vector)
            return Binary(op, left, odd, vector)
        case "<<" | ">>" as op:
            count = splat(dtype.bits - 1, dtype, scope.lanes)
            return Binary(op, left, Binary("&", right, count, vector), vector)
        case op:
            return Binary(op, left, right, vector)


def _real(scope: _Scope, dtype: DType, depth: int) -> Expr:
    vector = dtype.vector(scope.lanes)
    left, right = _vector(scope, dtype, depth), _vector(scope, dtype, depth)
    match scope.choose("+", "-", "*", "/", "neg", "function", "sqrt"):
        case "neg":
            return Unary("-", left, vector)
        case "/":
            return Binary("/", left, splat(3.0, dtype, scope.lanes), vector)
        case "function":
            return Call(scope.choose("fabs", "floor", "ceil", "trunc", "round"), (left,), vector)
        case "sqrt":
            return Call("sqrt", (Call("fabs", (left,), vector),), vector)
        case op:
            return Binary(op, left, right, vector)
