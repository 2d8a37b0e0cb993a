"""Exchanges between threads through shared memory, for languages without exchanges in a warp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tc.dtypes import INT64, DType
from tc.kernel import ir, rebuild
from tc.kernel.folding import binary, integer
from tc.kernel.rebuild import LocalNames
from tc.kernel.walk import every_statement, launched


def exchange_in_shared_memory(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without WarpReduce: each thread of a block stores its value in shared memory, all
    wait, and each combines what the threads of its group have stored, in the order of a WarpReduce;
    then all wait again, as the memory serves for all exchanges of values of one type.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> t = ir.Var("t", INT64)
    >>> value = ir.WarpReduce("+", ir.Load("a", (t,), FLOAT32), 2, FLOAT32)
    >>> body = ir.Let("s", value), ir.Store("a", (t,), ir.Var("s", FLOAT32))
    >>> grid = ir.Grid((), (ir.LaunchIndex("t", 32),), body)
    >>> a = ir.Buffer("a", FLOAT32, (32,), (1,), "output")
    >>> kernel = ir.Kernel("pairs", (a,), ((grid,),), initial=frozenset({"a"}))
    >>> print(to_text(exchange_in_shared_memory(kernel)))
    kernel pairs
      output a: float32[32] initial
      shared exchange_float32: float32[32]
    region
      one block of threads t in 0:32
        exchange_float32[t] = a[t]
        barrier
        let first: int64 = t - t % 2
        let s: float32 = exchange_float32[first] + exchange_float32[first + 1]
        barrier
        a[t] = s
    """
    grids = [stmt for stmt in every_statement(kernel) if isinstance(stmt, ir.Grid)]
    if not any(map(_exchanges, grids)):
        return kernel
    changing = _Changing(LocalNames(kernel), max(map(_threads, grids)))
    new = rebuild.map_regions(kernel, lambda region: rebuild.map_statements(region, changing.grid))
    return rebuild.changed(new, buffers=(*kernel.buffers, *changing.buffers.values()))


def _exchanges(grid: ir.Grid) -> bool:
    return any(
        isinstance(stmt, ir.Let | ir.Set) and isinstance(stmt.value, ir.WarpReduce)
        for stmt in ir.statements(grid.body)
    )


def thread_number(grid: ir.Grid) -> ir.Expr:
    """The number of a thread in its block, x counting fastest."""
    number: ir.Expr = integer(0)
    for index in grid.threads:
        own = ir.Var(index.var, INT64)
        number = binary("+", binary("*", number, integer(index.count)), own)
    return number


def _threads(grid: ir.Grid) -> int:
    return launched(grid.threads)


@dataclass
class _Changing:
    """The buffers of `threads` elements that the new kernel needs, by type."""

    names: LocalNames
    threads: int
    buffers: dict[DType, ir.Buffer] = field(default_factory=dict)

    def grid(self, stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if not isinstance(stmt, ir.Grid):
            return (stmt,)
        number = thread_number(stmt)

        def each(inner: ir.Stmt) -> Iterable[ir.Stmt]:
            if isinstance(inner, ir.Let | ir.Set) and isinstance(inner.value, ir.WarpReduce):
                return self.exchanged(inner, inner.value, number)
            return (inner,)

        return (rebuild.changed(stmt, body=rebuild.map_each(stmt.body, each)),)

    def exchanged(
        self, stmt: ir.Let | ir.Set, value: ir.WarpReduce, number: ir.Expr
    ) -> Iterator[ir.Stmt]:
        buffer = self.buffer(value.dtype).name
        first = ir.Var(self.names.fresh("first"), INT64)
        parts: list[ir.Expr] = [
            ir.Load(buffer, (binary("+", first, integer(lane)),), value.dtype)
            for lane in range(value.lanes)
        ]
        while (half := len(parts) // 2) > 0:
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [binary(value.op, left, right) for left, right in pairs]
        yield ir.Store(buffer, (number,), value.operand)
        yield ir.Barrier()
        yield ir.Let(first.name, binary("-", number, binary("%", number, integer(value.lanes))))
        yield rebuild.changed(stmt, value=parts[0])
        yield ir.Barrier()

    def buffer(self, dtype: DType) -> ir.Buffer:
        if dtype not in self.buffers:
            name = self.names.fresh(f"exchange_{dtype}")
            self.buffers[dtype] = ir.Buffer(name, dtype, (self.threads,), (1,), "shared")
        return self.buffers[dtype]
