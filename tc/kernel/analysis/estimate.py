"""What a kernel costs at least: arithmetic operations, and bytes that must cross the memory bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.builtins.operators import ARITHMETIC
from tc.dtypes import INT64
from tc.extents.sizes import as_integer, at_hint
from tc.kernel import ir
from tc.kernel.walk import launched


@dataclass(frozen=True, slots=True)
class Estimate:
    """`flops` counts each arithmetic operation and each function as one (fma as two), whatever its
    type, but for subscripts and comparisons of int64; a vector counts as its lanes. A loop whose
    bounds depend on outer loops is counted as in the middle of these: half of a square for a
    triangle. `loaded` and `stored` are the compulsory bytes: each element that a kernel touches
    moves once, and what it has written itself is not loaded. Scratch, registers and shared memory
    are near: they do not count. Both branches of a condition count, and all lanes, masked or not;
    hints do not.
    """

    flops: int
    loaded: int
    stored: int

    @property
    def bytes(self) -> int:
        return self.loaded + self.stored

    @property
    def intensity(self) -> float:
        """The arithmetic intensity: flops per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def estimate(kernel: ir.Kernel) -> Estimate:
    """The counts of a whole kernel.

    >>> from tc.dtypes import FLOAT32
    >>> i = ir.Var("i", INT64)
    >>> twice = ir.Binary("*", ir.Const(2.0, FLOAT32), ir.Load("a", (i,), FLOAT32), FLOAT32)
    >>> body = ir.Store("o", (i,), twice)
    >>> estimate(ir.Kernel(
    ...     "double",
    ...     (
    ...         ir.Buffer("a", FLOAT32, (4,), (2,), "input"),
    ...         ir.Buffer("o", FLOAT32, (4,), (1,), "output"),
    ...     ),
    ...     ((ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (body,), parallel=True),),),
    ... ))
    Estimate(flops=4, loaded=16, stored=16)
    """
    counts = _Counts()
    for region in kernel.regions:
        _count_block(region, 1, {}, counts)
    loaded = sum(_bytes(kernel.buffer(name), times) for name, times in counts.loads.items())
    stored = sum(_bytes(kernel.buffer(name), times) for name, times in counts.stores.items())
    return Estimate(counts.flops, loaded, stored)


@dataclass
class _Counts:
    """`loads` leaves out buffers that the kernel had stored to before."""

    flops: int = 0
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)


def _bytes(buffer: ir.Buffer, times: int) -> int:
    """At most its elements that differ: along a stride of 0 there is one."""
    if buffer.role in ir.PRIVATE:
        return 0
    return min(buffer.bytes, times * buffer.dtype.bytes)


def _count_block(
    stmts: tuple[ir.Stmt, ...], times: int, values: Mapping[str, int], counts: _Counts
) -> None:
    for stmt in stmts:
        inner, repeated = values, times
        match stmt:
            case ir.For(var=var, begin=begin, end=end):
                first, after = bound_value(begin, values), bound_value(end, values)
                inner = {**values, var: first + max(0, after - first - 1) // 2}
                repeated = times * max(0, after - first)
            case ir.Grid(blocks=blocks, threads=threads):
                inner = {**values, **{i.var: (i.count - 1) // 2 for i in (*blocks, *threads)}}
                repeated = times * launched(blocks) * launched(threads)
            case ir.Let(var=var, value=value):
                _count(value, times, counts)
                if value.dtype == INT64:
                    values = {**values, var: bound_value(value, values)}
            case ir.If(condition=value) | ir.Set(value=value):
                _count(value, times, counts)
            case ir.Store(buffer=buffer, indices=indices, value=value, mask=mask):
                _count(value, times, counts)
                for expr in indices if mask is None else (*indices, mask):
                    _count(expr, times, counts, is_subscript=True)
                counts.stores[buffer] += times * value.dtype.lanes
            case ir.CopyAsync(source=source, count=count):
                for expr in ir.own_expressions(stmt):
                    _count(expr, times, counts, is_subscript=True)
                counts.loads[source] += times * count
            case ir.WarpMultiply(sums=sums, product=product):
                counts.flops += 2 * times * len(sums) * product.steps
        _count_block(ir.inner_statements(stmt), repeated, inner, counts)


def _count(expr: ir.Expr, times: int, counts: _Counts, *, is_subscript: bool = False) -> None:
    """Of what subscripts and comparisons of int64 are made of, only loads count."""
    lanes = expr.dtype.lanes
    match expr:
        case ir.Load(buffer=buffer):
            is_subscript = True
            if not counts.stores[buffer]:
                counts.loads[buffer] += times * lanes
        case ir.Ramp():
            is_subscript = True
        case ir.Compare(left=left) if left.dtype.scalar == INT64:
            is_subscript = True
        case ir.Unary() | ir.Binary() | ir.Call() if not is_subscript:
            is_fma = isinstance(expr, ir.Call) and expr.function == "fma"
            counts.flops += times * lanes * (2 if is_fma else 1)
        case ir.Reduce(operand=operand) if not is_subscript:
            counts.flops += times * (operand.dtype.lanes - 1)
    for child in ir.children(expr):
        _count(child, times, counts, is_subscript=is_subscript)


def bound_value(expr: ir.Expr, values: Mapping[str, int]) -> int:
    """That of a loop's bound, where variables have these values, and others 0. Of a choice it is
    the mean: iterations that begin at both ends in turns are in the middle of both.

    >>> i = ir.Var("i", INT64)
    >>> bound_value(ir.Binary("+", i, ir.Const(1, INT64), INT64), {"i": 5})
    6
    """
    match expr:
        case ir.Const(value=value):
            return at_hint(as_integer(value))
        case ir.Var(name=name):
            return values.get(name, 0)
        case ir.Binary(op=op, left=left, right=right):
            a, b = bound_value(left, values), bound_value(right, values)
            if op in ARITHMETIC and (b or op not in ("/", "%")):
                return int(ARITHMETIC[op](a, b))
        case ir.Select(then=then, otherwise=otherwise):
            return (bound_value(then, values) + bound_value(otherwise, values)) // 2
    return 0
