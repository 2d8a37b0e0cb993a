"""Locals with one value become one local: what unrolling has copied is the same in each copy."""

from __future__ import annotations

from tc.kernel.exact import Exact, exact
from tc.kernel.ir import (
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    statements,
    walk,
)
from tc.kernel.rebuild import substitute


def merge(kernel: Kernel) -> Kernel:
    """The kernel without locals that hold what an earlier one of the same or an outer block does.

    Only values that cannot change count: of locals that no Set changes, and of inputs.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.ir import Binary, Buffer, Const
    >>> from tc.kernel.printer import to_text
    >>> def twice(name):
    ...     return Let(name, Binary("*", Var("i", INT64), Const(2, INT64), INT64))
    >>> i = Let("i", Const(7, INT64))
    >>> store = Store("o", (), Binary("+", Var("a", INT64), Var("b", INT64), INT64))
    >>> buffers = (Buffer("o", INT64, (), (), "output"),)
    >>> print(to_text(merge(Kernel("k", buffers, ((i, twice("a"), twice("b"), store),)))))
    kernel k
      output o: int64[]
    region
      let i: int64 = 7
      let a: int64 = i * 2
      o[] = a + a
    """
    assigned = frozenset(
        s.var for region in kernel.regions for s in statements(region) if isinstance(s, Set)
    )
    inputs = frozenset(b.name for b in kernel.buffers if b.role == "input")
    merging = _Merging(assigned, inputs)
    regions = tuple(merging.block(region, {}, {}) for region in kernel.regions)
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


class _Merging:
    def __init__(self, assigned: frozenset[str], inputs: frozenset[str]) -> None:
        self.assigned = assigned
        self.inputs = inputs

    def block(
        self, stmts: tuple[Stmt, ...], known: dict[Exact, Var], names: dict[str, Expr]
    ) -> tuple[Stmt, ...]:
        """The block; `known` are locals by their values, `names` what stands for merged ones. No
        name in either is declared again within its block."""
        known, names = dict(known), dict(names)
        out: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Let(var=var, value=value) if var not in self.assigned:
                    value = substitute(value, names, {})
                    key = exact(value)
                    if key in known:
                        names[var] = known[key]
                        continue
                    out.append(Let(var, value))
                    if self.lasts(value):
                        known[key] = Var(var, value.dtype)
                case _:
                    out.append(self.stmt(stmt, known, names))
        return tuple(out)

    def lasts(self, value: Expr) -> bool:
        return not any(
            (isinstance(e, Var) and e.name in self.assigned)
            or (isinstance(e, Load) and e.buffer not in self.inputs)
            for e in walk(value)
        )

    def stmt(self, stmt: Stmt, known: dict[Exact, Var], names: dict[str, Expr]) -> Stmt:
        def new(expr: Expr) -> Expr:
            return substitute(expr, names, {}) if names else expr

        match stmt:
            case Let(var=var, value=value):
                return Let(var, new(value))
            case Set(var=var, value=value):
                return Set(var, new(value))
            case Store(buffer=buffer, indices=indices, value=value, mask=mask):
                places = tuple(map(new, indices))
                return Store(buffer, places, new(value), None if mask is None else new(mask))
            case Prefetch(buffer=buffer, indices=indices):
                return Prefetch(buffer, tuple(map(new, indices)))
            case Fail(site=site, values=values):
                return Fail(site, tuple(map(new, values)))
            case If(condition=condition, then=then, otherwise=otherwise):
                yes, no = (self.block(b, known, names) for b in (then, otherwise))
                return If(new(condition), yes, no)
            case For(var=var, begin=begin, end=end, parallel=parallel, mark=mark):
                body = self.block(stmt.body, known, names)
                return For(var, new(begin), new(end), body, parallel, mark)
            case _:
                return stmt
