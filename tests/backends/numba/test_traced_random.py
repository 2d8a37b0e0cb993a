"""Random programs in regions with vectors on numba."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, DType
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
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
    Reduce,
    Select,
    Set,
    Stmt,
    Store,
    Unary,
    Var,
)
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import Array
from tests.support.vectors import check, plus, ramp, times

SCRATCH = dense("s", INT64, (4,), "scratch")


class Programs:
    """Random programs over vectors and scalars of a few types."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.count = 0
        self.dtypes = (FLOAT32, INT32, INT64, INT8, FLOAT64, BOOL)

    def kernel(self) -> Kernel:
        inputs = [dense(f"a{n}", d, (32,), "input") for n, d in enumerate(self.dtypes)]
        outputs = [dense(f"o{n}", d, (96,), "output") for n, d in enumerate(self.dtypes)]
        names = tuple(b.name for b in outputs)
        body = self.block({}, 3)
        return Kernel(
            "k", (*inputs, *outputs, SCRATCH), ((loop("i", 3, *body),),), (), frozenset(names)
        )

    def inputs(self) -> dict[str, Array]:
        rng = np.random.default_rng(self.pick.randrange(1 << 30))
        found: dict[str, Array] = {}
        for n, dtype in enumerate(self.dtypes):
            values = rng.integers(-5, 6, 32)
            found[f"a{n}"] = (values > 0 if dtype == BOOL else values).astype(dtype.numpy)
        return found

    def block(self, scope: dict[str, DType], depth: int) -> tuple[Stmt, ...]:
        scope = dict(scope)
        return tuple(self.stmt(scope, depth) for _ in range(self.pick.randrange(2, 5)))

    def stmt(self, scope: dict[str, DType], depth: int) -> Stmt:
        kind = self.pick.choice(["let", "let", "set", "store", "store", "if", "for"])
        if kind == "let" or (kind == "set" and not scope):
            value = self.expr(self.dtype(), scope, 3)
            self.count += 1
            scope[f"x{self.count}"] = value.dtype
            return Let(f"x{self.count}", value)
        if kind == "set":
            name = self.pick.choice(sorted(scope))
            return Set(name, self.expr(scope[name], scope, 3))
        if kind == "store" or depth == 0:
            dtype = self.dtype()
            place = times(I, 32)
            place = plus(place, self.pick.randrange(16)) if dtype.lanes > 1 else place
            value = self.expr(dtype, scope, 3)
            name = f"o{self.dtypes.index(dtype.scalar)}"
            mask = self.expr(BOOL.vector(dtype.lanes), scope, 2) if dtype.lanes > 1 else None
            step = self.pick.choice([1, 1, 2, -1]) if dtype.lanes < 16 else 1
            place = plus(place, 15) if step < 0 else place
            return Store(name, (ramp(place, dtype.lanes, step),), value, mask)
        if kind == "if":
            condition = self.expr(BOOL, scope, 2)
            return If(condition, self.block(scope, depth - 1), self.block(scope, depth - 1))
        self.count += 1
        return For(
            f"l{self.count}",
            integer(0),
            integer(self.pick.randrange(4)),
            self.block(scope, depth - 1),
        )

    def dtype(self) -> DType:
        return self.pick.choice(self.dtypes).vector(self.pick.choice([1, 4, 16]))

    def expr(self, dtype: DType, scope: dict[str, DType], depth: int) -> Expr:
        found = [name for name, own in scope.items() if own == dtype]
        if found and self.pick.random() < 0.4:
            return Var(self.pick.choice(sorted(found)), dtype)
        if depth == 0 or self.pick.random() < 0.1:
            return self.leaf(dtype, scope)
        scalar, lanes = dtype.scalar, dtype.lanes

        def part(other: DType = dtype) -> Expr:
            return self.expr(other, scope, depth - 1)

        mask = BOOL.vector(lanes)
        choices = ["select", "cast", "extremum"]
        choices += (
            ["logical", "compare"] if scalar == BOOL else ["arithmetic", "arithmetic", "minus"]
        )
        choices += ["broadcast"] if lanes > 1 else ["reduce"]
        choices += ["bits"] if scalar in (INT32, FLOAT32) else []
        match self.pick.choice(choices):
            case "select":
                return Select(
                    part(mask if self.pick.random() < 0.5 else BOOL), part(), part(), dtype
                )
            case "cast":
                other = self.pick.choice([d for d in self.dtypes if not d.is_float])
                return part() if other == scalar else Cast(part(other.vector(lanes)), dtype)
            case "extremum":
                return Binary(self.pick.choice(["min", "max"]), part(), part(), dtype)
            case "logical":
                return Logical(self.pick.choice(["&&", "||"]), (part(), part()), dtype)
            case "compare":
                side = self.pick.choice(self.dtypes).vector(lanes)
                op = self.pick.choice(["==", "!=", "<", "<=", ">", ">="])
                return Compare(op, part(side), part(side), dtype)
            case "arithmetic":
                ops = ["+", "-", "*"] if scalar.is_float else ["+", "-", "*", "&", "|", "^"]
                op = self.pick.choice(ops)
                if not scalar.is_float and self.pick.random() < 0.3:
                    positive = Const(self.pick.randrange(1, 9), dtype)
                    return Binary(self.pick.choice(["/", "%"]), part(), positive, dtype)
                return Binary(op, part(), part(), dtype)
            case "minus":
                return Unary("-", part(), dtype)
            case "broadcast":
                return Broadcast(part(scalar), dtype)
            case "reduce":
                return Reduce(self.pick.choice(["min", "max"]), part(scalar.vector(4)), dtype)
            case _:
                other = (FLOAT32 if scalar == INT32 else INT32).vector(lanes)
                if scalar == INT32:
                    return Bits(Call("fabs", (part(other),), other), dtype)
                return Cast(Bits(Call("fabs", (part(dtype),), dtype), other), dtype)

    def leaf(self, dtype: DType, scope: dict[str, DType]) -> Expr:
        n, lanes = self.dtypes.index(dtype.scalar), dtype.lanes
        if self.pick.random() < 0.3:
            value = self.pick.randrange(-3, 4)
            if dtype.scalar == BOOL:
                return Const(value > 0, dtype)
            return Const(float(value) if dtype.is_float else value, dtype)
        if lanes == 1:
            return Load(f"a{n}", (plus(I, self.pick.randrange(16)),), dtype)
        step = self.pick.choice([1, 1, 2, 3, -1]) if lanes == 4 else self.pick.choice([1, 1, -1])
        base = plus(I, self.pick.randrange(10) + (15 if step < 0 else 0))
        mask = self.expr(BOOL.vector(lanes), scope, 1) if self.pick.random() < 0.3 else None
        return Load(f"a{n}", (ramp(base, lanes, step),), dtype, mask)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    programs = Programs(seed)
    check(programs.kernel(), programs.inputs())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 200))
def test_more_random_programs(first: int) -> None:
    for seed in range(first, first + 200):
        programs = Programs(seed)
        check(programs.kernel(), programs.inputs())
