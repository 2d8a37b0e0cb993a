"""Loads ahead: what threads copy to shared memory is loaded before any of it is stored.

A thread that copies several elements one after the other waits for each of them where a test stands
around the copy, as compilers do not move loads across branches. All loads first, and then the
stores, are waited for together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tc.kernel import ir
from tc.kernel.folding import constant, select
from tc.kernel.rebuild import LocalNames, Stmts, map_blocks, map_regions, same_or
from tc.kernel.walk import loads_in

MOST_AHEAD = 16
"""Elements that a thread loads before it stores the first: each takes a register."""


def load_ahead(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel in which copies to shared memory that follow each other load first.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> i = ir.Var("i", INT64)
    >>> copies = [ir.Store("s", (constant(n, INT64),), ir.Load("a", (i,), FLOAT32)) for n in (0, 1)]
    >>> guarded = ir.If(ir.Compare("<", i, constant(9, INT64)), (copies[1],))
    >>> a, s = (ir.Buffer(n, FLOAT32, (9,), (1,), r) for n, r in (("a", "input"), ("s", "shared")))
    >>> print(to_text(load_ahead(ir.Kernel("f", (a, s), ((copies[0], guarded),)))))
    kernel f
      input a: float32[9]
      shared s: float32[9]
    region
      let a_2: float32 = a[i]
      let a_3: float32 = i < 9 ? a[i] : 0.0f
      s[0] = a_2
      if i < 9
        s[1] = a_3
    """
    shared = frozenset(b.name for b in kernel.buffers if b.role == "shared")
    if not shared:
        return kernel
    names = LocalNames(kernel)

    def each(block: Stmts) -> Stmts:
        inside = same_or(block, (map_blocks(stmt, each) for stmt in block))
        return _ahead(inside, shared, names)

    return map_regions(kernel, each)


@dataclass
class _Run:
    """Copies that follow each other: the `loads`, to locals, and locals that hold their places; and
    the `stores`."""

    loads: list[ir.Stmt] = field(default_factory=list)
    stores: list[ir.Stmt] = field(default_factory=list)
    original: list[ir.Stmt] = field(default_factory=list)

    def ended(self) -> list[ir.Stmt]:
        found = [*self.loads, *self.stores] if len(self.stores) > 1 else self.original
        self.loads, self.stores, self.original = [], [], []
        return found


def _ahead(block: Stmts, shared: frozenset[str], names: LocalNames) -> Stmts:
    found: list[ir.Stmt] = []
    run = _Run()
    for stmt in block:
        if run.original and isinstance(stmt, ir.Let) and not any(loads_in((stmt,))):
            run.loads.append(stmt)
            run.original.append(stmt)
            continue
        guard, store = _copy_of(stmt, shared)
        if store is None or len(run.stores) == MOST_AHEAD:
            found += run.ended()
        if store is None:
            found.append(stmt)
            continue
        value = store.value
        if guard is not None:
            value = select(guard, value, constant(0, value.dtype))
        local = names.fresh(next(loads_in((store,))).buffer)
        run.loads.append(ir.Let(local, value))
        late: ir.Stmt = replace(store, value=ir.Var(local, value.dtype))
        run.stores.append(late if guard is None else ir.If(guard, (late,)))
        run.original.append(stmt)
    return same_or(block, [*found, *run.ended()])


def _copy_of(stmt: ir.Stmt, shared: frozenset[str]) -> tuple[ir.Expr | None, ir.Store | None]:
    """The store to shared memory of what is loaded from other memory, if a statement is one, and
    the condition around it."""
    guard = None
    if isinstance(stmt, ir.If) and len(stmt.then) == 1 and not stmt.otherwise:
        guard, stmt = stmt.condition, stmt.then[0]
    if not isinstance(stmt, ir.Store) or stmt.buffer not in shared:
        return None, None
    loads = [load.buffer for load in loads_in((stmt,))]
    others = [*loads, *(load.buffer for load in _loads(guard))]
    return (guard, stmt) if loads and shared.isdisjoint(others) else (None, None)


def _loads(expr: ir.Expr | None) -> list[ir.Load]:
    return [] if expr is None else [*loads_in((ir.Let("", expr),))]
