"""The features of a kernel for a model of times: how often the kernel does what, counted without a
run."""

from __future__ import annotations

from collections.abc import Mapping
from math import log1p

from tc.kernel import ir
from tc.kernel.analysis.estimate import bound_value
from tc.kernel.walk import launched

NAMES = ("operations", "scalar loads", "vector loads", "gathered loads", "stores", "iterations",
         "branches", "statements", "parallel iterations", "private bytes")  # fmt: skip


def features_of(kernel: ir.Kernel) -> tuple[float, ...]:
    """The logarithm of each count of `NAMES`: instructions as they run, whatever their lanes.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> i = ir.Var("i", INT64)
    >>> load = ir.Load("a", (i,), FLOAT32)
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (ir.Store("o", (i,), load),))
    >>> a, o = (ir.Buffer(n, FLOAT32, (4,), (1,), r) for n, r in (("a", "input"), ("o", "output")))
    >>> found = dict(zip(NAMES, features_of(ir.Kernel("copy", (a, o), ((loop,),)))))
    >>> [round(2.718281828 ** found[name] - 1) for name in ("scalar loads", "stores", "iterations")]
    [4, 4, 4]
    """
    counts = dict.fromkeys(NAMES, 0.0)
    for region in kernel.regions:
        _count(region, 1, 1, {}, counts)
    counts["private bytes"] = sum(b.bytes for b in kernel.buffers if b.role in ir.PRIVATE)
    return tuple(log1p(counts[name]) for name in NAMES)


def _count(
    stmts: tuple[ir.Stmt, ...],
    times: int,
    parallel: int,
    values: Mapping[str, int],
    counts: dict[str, float],
) -> None:
    for stmt in stmts:
        counts["statements"] += 1
        inner, repeated, shared = values, times, parallel
        match stmt:
            case ir.For(var=var, begin=begin, end=end):
                first, last = bound_value(begin, values), bound_value(end, values)
                trips = max(0, last - first)
                inner, repeated = {**values, var: first}, times * trips
                counts["iterations"] += repeated
                if stmt.parallel:
                    shared = parallel * trips
                    counts["parallel iterations"] += shared
            case ir.Grid(blocks=blocks, threads=threads):
                repeated = shared = times * launched(blocks) * launched(threads)
                counts["parallel iterations"] += shared
            case ir.If():
                counts["branches"] += times
            case ir.Store():
                counts["stores"] += times
        for expr in ir.own_expressions(stmt):
            _count_value(expr, times, counts)
        _count(ir.inner_statements(stmt), repeated, shared, inner, counts)


def _count_value(expr: ir.Expr, times: int, counts: dict[str, float]) -> None:
    match expr:
        case ir.Load(indices=indices):
            gathered = any(index.dtype.lanes > 1 and not isinstance(index, ir.Ramp)
                           for index in indices)  # fmt: skip
            kind = "gathered" if gathered else "vector" if expr.dtype.lanes > 1 else "scalar"
            counts[f"{kind} loads"] += times
        case ir.Unary() | ir.Binary() | ir.Call() | ir.Reduce() | ir.Select() | ir.Compare():
            counts["operations"] += times
    for child in ir.children(expr):
        _count_value(child, times, counts)
