"""What a kernel costs at least: arithmetic operations, and bytes that must cross the memory bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tc.builtins.operators import ARITHMETIC
from tc.dtypes import INT64
from tc.extents.sizes import as_integer, at_hint
from tc.kernel import ir
from tc.kernel.sizes import values_of_parameters
from tc.kernel.walk import launched, names_in


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
    """The counts of a whole kernel, of one for many sizes at its hints.

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
    return Operations.of(*kernel.regions).estimate(kernel)


@dataclass(slots=True)
class _Counts:
    """`loads` leaves out buffers that were stored to before."""

    flops: int = 0
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)

    def add(self, times: int, more: _Counts) -> None:
        """Adds what runs so many times, behind all that was counted."""
        self.flops += times * more.flops
        for name, number in more.loads.items():
            if not self.stores[name]:
                self.loads[name] += times * number
        for name, number in more.stores.items():
            self.stores[name] += times * number


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A loop or a launch, and what one iteration or thread does."""

    loop: ir.For | ir.Grid
    inner: Operations


@dataclass(frozen=True, slots=True)
class Operations:
    """What statements do, counted once for all sizes that their kernel may load: `items` are, in
    their order, what runs as often as the statements, locals that bounds of loops depend on, and
    loops."""

    items: tuple[_Counts | ir.Let | _Repeated, ...]

    @classmethod
    def of(cls, *blocks: tuple[ir.Stmt, ...]) -> Operations:
        """Those of blocks that run one after the other."""
        stmts = sum(blocks, ())
        return cls(tuple(_items(stmts, _bounding(stmts))))

    def estimate(self, kernel: ir.Kernel) -> Estimate:
        """The counts with the sizes and the buffers of a kernel that has these statements."""
        counts = _Counts()
        _add(self, 1, values_of_parameters(kernel), counts)
        loaded = sum(_bytes(kernel.buffer(name), times) for name, times in counts.loads.items())
        stored = sum(_bytes(kernel.buffer(name), times) for name, times in counts.stores.items())
        return Estimate(counts.flops, loaded, stored)


def _bytes(buffer: ir.Buffer, times: int) -> int:
    """At most its elements that differ: along a stride of 0 there is one."""
    if buffer.role in ir.PRIVATE:
        return 0
    return min(at_hint(buffer.bytes), times * buffer.dtype.bytes)


def _add(operations: Operations, times: int, values: Mapping[str, int], counts: _Counts) -> None:
    for item in operations.items:
        match item:
            case _Counts():
                counts.add(times, item)
            case ir.Let(var=var, value=value):
                values = {**values, var: bound_value(value, values)}
            case _Repeated(loop=ir.For(var=var, begin=begin, end=end)):
                first, after = bound_value(begin, values), bound_value(end, values)
                middle = {**values, var: first + max(0, after - first - 1) // 2}
                _add(item.inner, times * max(0, after - first), middle, counts)
            case _Repeated(loop=ir.Grid(blocks=blocks, threads=threads)):
                middle = {**values, **{i.var: (i.count - 1) // 2 for i in (*blocks, *threads)}}
                _add(item.inner, times * launched(blocks) * launched(threads), middle, counts)


def _bounding(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The locals that bounds of loops depend on."""
    every = list(ir.statements(stmts))
    found: set[str] = set()
    for stmt in every:
        if isinstance(stmt, ir.For):
            found |= names_in(stmt.begin) | names_in(stmt.end)
    for stmt in reversed(every):
        if isinstance(stmt, ir.Let) and stmt.var in found:
            found |= names_in(stmt.value)
    return frozenset(found)


def _items(
    stmts: tuple[ir.Stmt, ...], bounding: frozenset[str]
) -> Iterator[_Counts | ir.Let | _Repeated]:
    """Of locals that are loaded no value is known here."""
    counts = _Counts()
    for stmt in _without_branches(stmts):
        match stmt:
            case ir.For(body=body) | ir.Grid(body=body):
                yield counts
                counts = _Counts()
                yield _Repeated(stmt, Operations(tuple(_items(body, bounding))))
                continue
            case ir.Let(var=var, value=value):
                _count(value, counts)
                if var in bounding and not isinstance(value, ir.Load):
                    yield stmt
            case ir.If(condition=value) | ir.Set(value=value):
                _count(value, counts)
            case ir.Store(buffer=buffer, indices=indices, value=value, mask=mask):
                _count(value, counts)
                for expr in indices if mask is None else (*indices, mask):
                    _count(expr, counts, is_subscript=True)
                counts.stores[buffer] += value.dtype.lanes
            case ir.Atomic(buffer=buffer, indices=indices, value=value):
                _count(value, counts)
                for expr in indices:
                    _count(expr, counts, is_subscript=True)
                counts.add(1, _Counts(loads=Counter({buffer: 1})))
                counts.stores[buffer] += 1
            case ir.CopyAsync(source=source, count=count):
                for expr in ir.own_expressions(stmt):
                    _count(expr, counts, is_subscript=True)
                counts.add(1, _Counts(loads=Counter({source: count})))
            case ir.WarpMultiply(sums=sums, product=product):
                counts.flops += 2 * len(sums) * product.steps
    yield counts


def _without_branches(stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
    """The statements, and behind each branch those of both of its sides."""
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, ir.If):
            yield from _without_branches(ir.inner_statements(stmt))


def _count(expr: ir.Expr, counts: _Counts, *, is_subscript: bool = False) -> None:
    """Of what subscripts and comparisons of int64 are made of, only loads count."""
    lanes = expr.dtype.lanes
    match expr:
        case ir.Load(buffer=buffer):
            is_subscript = True
            if not counts.stores[buffer]:
                counts.loads[buffer] += lanes
        case ir.Ramp():
            is_subscript = True
        case ir.Compare(left=left) if left.dtype.scalar == INT64:
            is_subscript = True
        case ir.Unary() | ir.Binary() | ir.Call() if not is_subscript:
            is_fma = isinstance(expr, ir.Call) and expr.function == "fma"
            counts.flops += lanes * (2 if is_fma else 1)
        case ir.Reduce(operand=operand) if not is_subscript:
            counts.flops += operand.dtype.lanes - 1
    for child in ir.children(expr):
        _count(child, counts, is_subscript=is_subscript)


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
