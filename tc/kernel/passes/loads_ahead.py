"""Loads ahead: what threads copy to shared memory is loaded before any of it is stored.

A thread that copies several elements one after the other waits for each of them where a test stands
around the copy, as compilers do not move loads across branches. All loads first, and then the
stores, are waited for together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tc.kernel import ir
from tc.kernel.folding import bits_of, constant, of_bits, select
from tc.kernel.rebuild import LocalNames, Stmts, map_blocks, map_regions, same_or
from tc.kernel.walk import loads_in

MOST_BYTES_AHEAD = 64
"""Bytes that a thread loads before it stores the first: they take registers."""


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
    """Copies that follow each other: the `loads`, to locals that take so many `bytes` of registers,
    and locals that hold their places; and the `stores`, of so many `copies`."""

    loads: list[ir.Stmt] = field(default_factory=list)
    stores: list[ir.Stmt] = field(default_factory=list)
    original: list[ir.Stmt] = field(default_factory=list)
    copies: int = 0
    bytes: int = 0

    def ended(self) -> list[ir.Stmt]:
        found = [*self.loads, *self.stores] if self.copies > 1 else self.original
        self.loads, self.stores, self.original, self.copies, self.bytes = [], [], [], 0, 0
        return found

    def add(self, copy: _Copies, names: LocalNames) -> None:
        self.original.append(copy.stmt)
        self.copies += len(copy.stores)
        self.bytes += copy.bytes
        locals_ = [names.fresh(next(loads_in((store,))).buffer) for store in copy.stores]
        values = [bits_of(store.value) for store in copy.stores]
        late = [
            replace(store, value=of_bits(ir.Var(local, value.dtype), store.value.dtype))
            for store, local, value in zip(copy.stores, locals_, values, strict=True)
        ]
        if copy.fills:  # one test for all of them
            fills = [bits_of(fill.value) for fill in copy.fills]
            self.loads += [ir.Let(n, fill) for n, fill in zip(locals_, fills, strict=True)]
            sets = [ir.Set(n, value) for n, value in zip(locals_, values, strict=True)]
            assert copy.guard is not None
            self.loads.append(ir.If(copy.guard, tuple(sets)))
            self.stores += late
        elif copy.guard is not None:
            (local,), (value,), (store,) = locals_, values, late
            value = select(copy.guard, value, constant(0, value.dtype))
            self.loads.append(ir.Let(local, value))
            self.stores.append(ir.If(copy.guard, (store,)))
        else:
            self.loads += [ir.Let(n, value) for n, value in zip(locals_, values, strict=True)]
            self.stores += late


@dataclass(frozen=True)
class _Copies:
    """A statement that stores in shared memory what is loaded from other memory, where the `guard`
    holds, if there is one, and else the `fills`, if there are any."""

    stmt: ir.Stmt
    guard: ir.Expr | None
    stores: tuple[ir.Store, ...]
    fills: tuple[ir.Store, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(store.value.dtype.bytes for store in self.stores)


def _ahead(block: Stmts, shared: frozenset[str], names: LocalNames) -> Stmts:
    found: list[ir.Stmt] = []
    run = _Run()
    for stmt in block:
        if run.original and isinstance(stmt, ir.Let) and not any(loads_in((stmt,))):
            run.loads.append(stmt)
            run.original.append(stmt)
            continue
        copy = _copies_of(stmt, shared)
        if copy is None or run.bytes + copy.bytes > MOST_BYTES_AHEAD:
            found += run.ended()
        if copy is None:
            found.append(stmt)
        else:
            run.add(copy, names)
    return same_or(block, [*found, *run.ended()])


def _copies_of(stmt: ir.Stmt, shared: frozenset[str]) -> _Copies | None:
    """The copies to shared memory from other memory that a statement is, if it is some."""
    if isinstance(stmt, ir.Store):
        return _Copies(stmt, None, (stmt,)) if _is_copy(stmt, None, shared) else None
    if not isinstance(stmt, ir.If) or len(stmt.then) not in (1, len(stmt.otherwise)):
        return None
    if not stmt.then:  # nothing is left of it
        return None
    stores = [
        s for s in stmt.then if isinstance(s, ir.Store) and _is_copy(s, stmt.condition, shared)
    ]
    fills = [s for s in stmt.otherwise if isinstance(s, ir.Store) and not any(loads_in((s,)))]
    places = [[(s.buffer, s.indices) for s in each] for each in (stores, fills)]
    if len(stores) < len(stmt.then) or len(fills) < len(stmt.otherwise):
        return None
    if fills and places[0] != places[1]:
        return None
    return _Copies(stmt, stmt.condition, tuple(stores), tuple(fills))


def _is_copy(store: ir.Store, guard: ir.Expr | None, shared: frozenset[str]) -> bool:
    """Whether a store to shared memory is of what is loaded from other memory."""
    loads = [load.buffer for load in loads_in((store,))]
    others = [*loads, *(load.buffer for load in _loads(guard))]
    return store.buffer in shared and bool(loads) and shared.isdisjoint(others)


def _loads(expr: ir.Expr | None) -> list[ir.Load]:
    return [] if expr is None else [*loads_in((ir.Let("", expr),))]
