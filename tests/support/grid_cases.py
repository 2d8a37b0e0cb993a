"""Kernels of blocks and threads by hand, each with inputs and an independent formula.

Values are small whole numbers, so that sums and products of floats are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, DType
from tc.kernel.folding import binary, integer, negation
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Select,
    Set,
    Site,
    Store,
    Var,
    WarpReduce,
)
from tc.kernel.rebuild import changed
from tests.kernel.grids import B0, B1, BARRIER, GRID_BARRIER, T0, T1, equal, grid, launches, tmm
from tests.kernel.marked import Array
from tests.support.build import add, dense, less, loop, times, var

ZERO, ONE = integer(0), integer(1)
Formula = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class GridCase:
    """`inputs` makes the arrays by name; `formula` the outputs from them."""

    name: str
    kernel: Kernel
    inputs: Callable[[np.random.Generator], dict[str, Array]]
    formula: Formula

    def __str__(self) -> str:
        return self.name


def load(name: str, *indices: Expr, dtype: DType = FLOAT32) -> Load:
    return Load(name, indices, dtype)


def plus(left: Expr, right: Expr) -> Binary:
    return Binary("+", left, right, left.dtype)


def whole(dtype: str = "float32", **shapes: tuple[int, ...]) -> Any:
    """Small whole numbers."""

    def make(rng: np.random.Generator) -> dict[str, Array]:
        return {name: rng.integers(-9, 10, shape).astype(dtype) for name, shape in shapes.items()}

    return make


def guarded() -> Kernel:
    """o = 2 a + 1 for 100 elements: 4 blocks of 32 threads, the last of which has 4 with work."""
    n = var("n")
    body = (
        Let("n", add(times(B0, 32), T0)),
        If(less(n, 100), (Store("o", (n,), plus(plus(load("a", n), load("a", n)), ONE_F)),)),
    )
    buffers = dense("a", FLOAT32, (100,), "input"), dense("o", FLOAT32, (100,), "output")
    return launches(grid((4,), (32,), *body), buffers=buffers)


ONE_F = Const(1.0, FLOAT32)


def block_sums() -> Kernel:
    """The sums of rows of 16, by halves in shared memory."""
    half = var("half")
    total = plus(load("s", T0), load("s", add(T0, half)))
    body = (
        Store("s", (T0,), load("a", B0, T0)),
        BARRIER,
        loop(
            "i",
            4,
            Let("half", Binary(">>", integer(8), var("i"), INT64)),
            If(Compare("<", T0, half), (Store("s", (T0,), total),)),
            BARRIER,
        ),
        If(equal(T0, ZERO), (Store("o", (B0,), load("s", ZERO)),)),
    )
    buffers = (
        dense("a", FLOAT32, (5, 16), "input"),
        dense("o", FLOAT32, (5,), "output"),
        dense("s", FLOAT32, (16,), "shared"),
    )
    return launches(grid((5,), (16,), *body), buffers=buffers)


def exchanged() -> Kernel:
    """Threads pass values through memory that all see; each reads one place three times, and what
    another has written meanwhile."""
    first = load("w", B0, ZERO)
    body = (
        Store("w", (B0, T0), load("a", B0, T0)),
        BARRIER,
        Let("x", first),
        BARRIER,
        If(equal(T0, integer(3)), (Store("w", (B0, ZERO), plus(load("w", B0, T0), ONE_F)),)),
        BARRIER,
        Let("y", first),
        BARRIER,
        If(equal(T0, integer(7)), (Store("w", (B0, ZERO), ONE_F),)),
        BARRIER,
        Store("o", (B0, T0, ZERO), Var("x", FLOAT32)),
        Store("o", (B0, T0, ONE), Var("y", FLOAT32)),
        Store("o", (B0, T0, integer(2)), first),
    )
    buffers = (
        dense("a", FLOAT32, (3, 8), "input"),
        dense("o", FLOAT32, (3, 8, 3), "output"),
        dense("w", FLOAT32, (3, 8), "temporary"),
    )
    return launches(grid((3,), (8,), *body), buffers=buffers)


def exchanged_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a = arrays["a"]
    columns = np.stack([a[:, 0], a[:, 3] + 1, np.ones(3)], -1)
    return {"o": np.broadcast_to(columns[:, None], (3, 8, 3))}


def reversed_input() -> Kernel:
    """Elements from the end, each other row backwards, and one for a whole row."""
    total = plus(load("a", B0, T0), load("z", B0, T0))
    buffers = (
        Buffer("a", FLOAT32, (4, 5), (-22, -2), "input"),
        Buffer("z", FLOAT32, (4, 5), (1, 0), "input"),
        dense("o", FLOAT32, (4, 5), "output"),
    )
    return launches(grid((4,), (5,), Store("o", (B0, T0), total)), buffers=buffers)


def reversed_arrays(rng: np.random.Generator) -> dict[str, Array]:
    a, z = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((8, 11), (4, 1)))
    return {"a": a[::-2, ::-2][:, :5], "z": np.broadcast_to(z, (4, 5))}


def halves() -> Kernel:
    """Half precision in all memory, computed as float32 and rounded."""
    h = Cast(load("s", T0, dtype=FLOAT16), FLOAT32)
    value = Binary("/", plus(h, ONE_F), Const(3.0, FLOAT32), FLOAT32)
    body = (
        Store("s", (T0,), Cast(Cast(load("a", B0, T0, dtype=FLOAT16), FLOAT32), FLOAT16)),
        BARRIER,
        Store("o", (B0, T0), Cast(value, FLOAT16)),
    )
    buffers = (
        dense("a", FLOAT16, (2, 9), "input"),
        dense("o", FLOAT16, (2, 9), "output"),
        dense("s", FLOAT16, (9,), "shared"),
    )
    return launches(grid((2,), (9,), *body), buffers=buffers)


def halves_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    exact = arrays["a"].astype(np.float32) + np.float32(1)
    return {"o": (exact / np.float32(3)).astype(np.float16)}


def two_launches() -> Kernel:
    """Products, then their sums: what one launch writes the next reads."""
    product = Binary("*", load("a", T0), load("a", B0), FLOAT32)
    total = plus(Var("x", FLOAT32), load("w", B0, var("i")))
    first = grid((6,), (6,), Store("w", (B0, T0), product))
    second = grid(
        (6,),
        (),
        Let("x", Const(0.0, FLOAT32)),
        loop("i", 6, Set("x", total)),
        Store("o", (B0,), Var("x", FLOAT32)),
    )
    buffers = (
        dense("a", FLOAT32, (6,), "input"),
        dense("o", FLOAT32, (6,), "output"),
        dense("w", FLOAT32, (6, 6), "temporary"),
    )
    return launches(first, second, buffers=buffers)


def much_shared() -> Kernel:
    """64 KB of shared memory in two arrays, the second behind an odd number of elements."""
    body = (
        loop("i", 129, Store("s", (T0, var("i")), plus(load("a", T0), Cast(var("i"), FLOAT32)))),
        Store("u", (T0,), Cast(Compare("<", load("a", T0), Const(0.0, FLOAT32)), BOOL)),
        BARRIER,
        Store("o", (T0,), load("s", add(integer(123), negation(T0)), T0)),
        Store("p", (T0,), load("u", add(integer(123), negation(T0)), dtype=BOOL)),
    )
    buffers = (
        dense("a", FLOAT32, (124,), "input"),
        dense("o", FLOAT32, (124,), "output"),
        dense("p", BOOL, (124,), "output"),
        dense("s", FLOAT32, (124, 129), "shared"),
        dense("u", BOOL, (125,), "shared"),
    )
    return launches(grid((), (124,), *body), buffers=buffers)


def much_shared_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a = arrays["a"]
    return {"o": a[::-1] + np.arange(124), "p": a[::-1] < 0}


def three_axes() -> Kernel:
    """The numbers of blocks and threads along all axes, as digits."""
    names = ("b0", "b1", "b2", "t0", "t1", "t2")
    counts = (2, 3, 4, 5, 6, 7)
    indices = tuple(LaunchIndex(name, count) for name, count in zip(names, counts, strict=True))
    value: Expr = ZERO
    for name in names:
        value = add(times(value, 10), var(name))
    store = Store("o", tuple(var(name) for name in names), value)
    return Kernel(
        "axes",
        (dense("o", INT64, counts, "output"),),
        ((Comment("x is the last"), Grid(indices[:3], indices[3:], (store,))),),
    )


def three_axes_formula(_arrays: Mapping[str, Any]) -> dict[str, Any]:
    digits = np.indices((2, 3, 4, 5, 6, 7))
    return {"o": sum(digit * 10 ** (5 - n) for n, digit in enumerate(digits))}


def private_arrays() -> Kernel:
    """A table of 3 x 4 for each thread, in registers and in scratch memory, across a barrier."""
    i, j = var("i"), var("j")
    value = plus(load("a", add(times(T0, 3), i)), load("a", j))
    back = plus(load("r", i, j), Cast(load("c", j, i, dtype=INT8), FLOAT32))
    store = Store("r", (i, j), value), Store("c", (j, i), Cast(add(i, times(j, 7)), INT8))
    body = (
        loop("i", 3, loop("j", 4, *store)),
        BARRIER,
        loop("i", 3, loop("j", 4, Store("o", (T0, i, j), back))),
    )
    buffers = (
        dense("a", FLOAT32, (24,), "input"),
        dense("o", FLOAT32, (8, 3, 4), "output"),
        dense("r", FLOAT32, (3, 4), "register"),
        dense("c", INT8, (4, 3), "scratch"),
    )
    return launches(grid((), (8,), *body), buffers=buffers)


def private_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a = arrays["a"]
    i, j = np.indices((3, 4))
    return {"o": a.reshape(8, 3, 1) + a[:4] + i + 7 * j}


def greatest() -> Kernel:
    """The greatest and least of rows, from infinities on; NaN where there is one."""
    regions = []
    for dtype in (FLOAT32, FLOAT64):
        kind = "f" if dtype == FLOAT32 else "d"
        steps = []
        for n, op in enumerate(("max", "min")):
            name = f"{op}{kind}"
            term = Cast(load("a", T0, var("i")), dtype)
            start = Const(float("-inf") if op == "max" else float("inf"), dtype)
            turn = Set(name, Binary(op, Var(name, dtype), term, dtype))
            out = Store(f"o{kind}", (T0, integer(n)), Var(name, dtype))
            steps += [Let(name, start), loop("i", 6, turn), out]
        odd = Select(
            equal(T0, ZERO),
            Const(float("nan"), dtype),
            Const(float(dtype.numpy.type(0.1)), dtype),
            dtype,
        )
        regions.append(grid((), (4,), *steps, Store(f"o{kind}", (T0, integer(2)), odd)))
    buffers = (
        dense("a", FLOAT32, (4, 6), "input"),
        dense("of", FLOAT32, (4, 3), "output"),
        dense("od", FLOAT64, (4, 3), "output"),
    )
    return launches(*regions, buffers=buffers)


def with_nan(rng: np.random.Generator) -> dict[str, Array]:
    a = rng.integers(-9, 10, (4, 6)).astype(np.float32)
    a[1, 4], a[2, 0], a[3] = np.nan, np.inf, -np.inf
    return {"a": a}


def greatest_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a = arrays["a"]
    found = {}
    for name, dtype in (("of", np.float32), ("od", np.float64)):
        odd = np.full(4, 0.1, dtype)
        odd[0] = np.nan
        found[name] = np.stack([a.max(1).astype(dtype), a.min(1).astype(dtype), odd], -1)
    return found


def odd_names() -> Kernel:
    """Buffers, numbers and locals that are called like words of the languages."""
    block, thread, value = var("threadIdx"), var("get_local_id"), var("__syncthreads")
    at = add(times(block, 3), thread)
    body = (
        Store("barrier", (thread,), load("float", at, dtype=INT64)),
        BARRIER,
        Let("__syncthreads", load("barrier", add(integer(2), negation(thread)), dtype=INT64)),
        Store("half", (at,), add(value, load("kernel", at, dtype=INT64))),
    )
    launch = Grid((LaunchIndex("threadIdx", 2),), (LaunchIndex("get_local_id", 3),), body)
    buffers = (
        dense("float", INT64, (6,), "input"),
        Buffer("kernel", INT64, (6,), (-1,), "input"),
        dense("half", INT64, (6,), "output"),
        dense("barrier", INT64, (3,), "shared"),
    )
    return Kernel("main", buffers, ((launch,),))


def odd_arrays(rng: np.random.Generator) -> dict[str, Array]:
    first, second = rng.integers(-9, 10, (2, 6))
    return {"float": first, "kernel": second[::-1]}


def odd_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {"half": arrays["float"].reshape(2, 3)[:, ::-1].ravel() + arrays["kernel"]}


def failing() -> Kernel:
    """o = a(p), 7 where p is outside, which two sites tell of; a launch without any follows."""
    n = add(times(B0, 8), T0)
    place = load("p", n, dtype=INT64)
    low, high = Compare("<", place, ZERO), Compare(">=", place, integer(5))
    value = Var("value", FLOAT32)
    body = (
        Let("value", Const(7.0, FLOAT32)),
        If(
            low,
            (Fail(0, (n, place)),),
            (If(high, (Fail(1, (n,)),), (Set("value", load("a", place)),)),),
        ),
        BARRIER,
        Store("o", (n,), value),
    )
    buffers = (
        dense("a", FLOAT32, (5,), "input"),
        dense("p", INT64, (40,), "input"),
        dense("o", FLOAT32, (40,), "output"),
        dense("q", FLOAT32, (40,), "output"),
    )
    doubled = Store("q", (T0,), plus(load("o", T0), load("o", T0)))
    sites = (Site("read", 0, 0, ("i",)), Site("division", 0, 1, ("i",)))
    return launches(grid((5,), (8,), *body), grid((), (40,), doubled), buffers=buffers, sites=sites)


def divided() -> Kernel:
    """Integers divided downward, in two dimensions that are listed outermost first."""
    a, b = load("a", B0, B1, dtype=INT64), load("b", T0, T1, dtype=INT64)
    value = add(times(binary("/", a, b), 100), binary("%", a, b))
    buffers = (
        dense("a", INT64, (2, 3), "input"),
        dense("b", INT64, (4, 5), "input"),
        dense("o", INT64, (2, 3, 4, 5), "output"),
    )
    return launches(grid((2, 3), (4, 5), Store("o", (B0, B1, T0, T1), value)), buffers=buffers)


def divisors(rng: np.random.Generator) -> dict[str, Array]:
    b = rng.integers(1, 9, (4, 5)) * rng.choice([-1, 1], (4, 5))
    return {"a": rng.integers(-99, 99, (2, 3)), "b": b}


def divided_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a, b = arrays["a"][:, :, None, None], arrays["b"]
    return {"o": a // b * 100 + a % b}


def warps() -> Kernel:
    """Sums of groups of 8 threads, products of 2, extrema of whole warps (one has a NaN), and of
    small integers; and one whole block that takes another way."""
    x = load("a", B0, T0)
    small = Cast(load("c", B0, T0, dtype=INT64), INT8)
    kinds = (("+", x, 8), ("*", x, 2), ("min", x, 32), ("max", x, 32), ("+", small, 16))
    body = []
    for n, (op, value, lanes) in enumerate(kinds):
        name, dtype = f"x{n}", value.dtype
        body.append(Let(name, WarpReduce(op, value, lanes, dtype)))
        body.append(Store("o", (B0, T0, integer(n)), Cast(Var(name, dtype), FLOAT32)))
    late = Var("late", FLOAT32)
    again = Set("late", WarpReduce("max", plus(late, ONE_F), 32, FLOAT32))
    body += [
        Let("late", x),
        If(equal(B0, ONE), (again,)),
        Store("o", (B0, T0, integer(5)), late),
    ]
    buffers = (
        dense("a", FLOAT32, (3, 64), "input"),
        dense("c", INT64, (3, 64), "input"),
        dense("o", FLOAT32, (3, 64, 6), "output"),
    )
    return launches(grid((3,), (64,), *body), buffers=buffers)


def warp_arrays(rng: np.random.Generator) -> dict[str, Array]:
    a = rng.integers(-9, 10, (3, 64)).astype(np.float32)
    a[1, 40] = np.nan
    return {"a": a, "c": rng.integers(-128, 128, (3, 64))}


def warps_formula(arrays: Mapping[str, Any]) -> dict[str, Any]:
    a, c = arrays["a"], arrays["c"]

    def of_groups(ufunc: np.ufunc, values: Array, lanes: int) -> Array:
        return np.repeat(ufunc.reduce(values.reshape(3, -1, lanes), axis=2), lanes, axis=1)

    late = a.copy()
    late[1] = np.repeat(a[1].reshape(2, 32).max(1) + 1, 32)
    found = (
        of_groups(np.add, a, 8),
        of_groups(np.multiply, a, 2),
        of_groups(np.minimum, a, 32),
        of_groups(np.maximum, a, 32),
        of_groups(np.add, c, 16).astype(np.int8),
        late,
    )
    return {"o": np.stack(found, -1).astype(np.float32)}


GRIDS = (
    GridCase("warps", warps(), warp_arrays, warps_formula),
    GridCase("tmm", tmm(), whole(A=(128, 32), B=(256, 32)), lambda x: {"C": x["A"] @ x["B"].T}),
    GridCase("guarded", guarded(), whole(a=(100,)), lambda x: {"o": 2 * x["a"] + 1}),
    GridCase("block_sums", block_sums(), whole(a=(5, 16)), lambda x: {"o": x["a"].sum(1)}),
    GridCase("exchanged", exchanged(), whole(a=(3, 8)), exchanged_formula),
    GridCase("reversed_input", reversed_input(), reversed_arrays, lambda x: {"o": x["a"] + x["z"]}),
    GridCase("halves", halves(), whole("float16", a=(2, 9)), halves_formula),
    GridCase("two_launches", two_launches(), whole(a=(6,)), lambda x: {"o": x["a"] * x["a"].sum()}),
    GridCase("much_shared", much_shared(), whole(a=(124,)), much_shared_formula),
    GridCase("three_axes", three_axes(), whole(), three_axes_formula),
    GridCase("private_arrays", private_arrays(), whole(a=(24,)), private_formula),
    GridCase("greatest", greatest(), with_nan, greatest_formula),
    GridCase("odd_names", odd_names(), odd_arrays, odd_formula),
    GridCase("divided", divided(), divisors, divided_formula),
)


def largest_of_all() -> Kernel:
    """Elements plus the largest sum of a row: blocks read behind a barrier of the grid what others
    have written, and write behind the next what others have read; each has kept its own."""
    total, most, first = Var("total", FLOAT32), Var("most", FLOAT32), equal(T0, ZERO)
    larger = Binary("max", most, load("w", var("j")), FLOAT32)
    body = (
        Store("s", (T0,), load("a", B0, T0)),
        BARRIER,
        Let("total", Const(0.0, FLOAT32)),
        loop("i", 8, Set("total", plus(total, load("s", var("i"))))),
        If(first, (Store("w", (B0,), total),)),
        GRID_BARRIER,
        Let("most", total),
        loop("j", 6, Set("most", larger)),
        GRID_BARRIER,
        If(first, (Store("w", (add(integer(5), negation(B0)),), most),)),
        GRID_BARRIER,
        Store("o", (B0, T0), plus(load("s", T0), load("w", B0))),
    )
    buffers = (
        dense("a", FLOAT32, (6, 8), "input"),
        dense("o", FLOAT32, (6, 8), "output"),
        dense("w", FLOAT32, (6,), "temporary"),
        dense("s", FLOAT32, (8,), "shared"),
    )
    return launches(grid((6,), (8,), *body), buffers=buffers)


def failing_at_once() -> Kernel:
    """One launch in which checks fail and blocks wait for each other."""
    made = failing()
    (first,), second = made.regions
    assert isinstance(first, Grid)
    return changed(made, regions=((replace(first, body=(*first.body, GRID_BARRIER)),), second))


AT_ONCE = (
    GridCase(
        "largest_of_all",
        largest_of_all(),
        whole(a=(6, 8)),
        lambda x: {"o": x["a"] + x["a"].sum(1).max()},
    ),
)
"""Kernels whose blocks wait for each other."""
