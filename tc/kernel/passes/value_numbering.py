"""Value numbering: locals with one value become one local. What unrolling has copied is the same in
each copy."""

from __future__ import annotations

from collections.abc import Iterable

from tc.kernel.analysis.value_numbers import ValueNumbers
from tc.kernel.ir import Expr, Kernel, Let, Load, Stmt, Var, walk
from tc.kernel.rebuild import (
    Stmts,
    map_blocks,
    map_expressions,
    map_regions,
    map_statements,
    substitute,
)
from tc.kernel.walk import assigned


def number_values(kernel: Kernel) -> Kernel:
    """The kernel without locals that hold what an earlier one of the same or an outer block does.

    Only values that cannot change count: of locals that no Set changes, and of inputs.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.ir import Binary, Buffer, Const, Store
    >>> from tc.kernel.printer import to_text
    >>> def twice(name):
    ...     return Let(name, Binary("*", Var("i", INT64), Const(2, INT64), INT64))
    >>> i = Let("i", Const(7, INT64))
    >>> store = Store("o", (), Binary("+", Var("a", INT64), Var("b", INT64), INT64))
    >>> buffers = (Buffer("o", INT64, (), (), "output"),)
    >>> print(to_text(number_values(Kernel("k", buffers, ((i, twice("a"), twice("b"), store),)))))
    kernel k
      output o: int64[]
    region
      let i: int64 = 7
      let a: int64 = i * 2
      o[] = a + a
    """
    inputs = frozenset(b.name for b in kernel.buffers if b.role == "input")
    merging = _Merging(assigned(kernel), inputs)
    return map_regions(kernel, lambda region: merging.block(region, {}, {}))


class _Merging:
    def __init__(self, assigned: frozenset[str], inputs: frozenset[str]) -> None:
        self.assigned = assigned
        self.inputs = inputs
        self.number = ValueNumbers().of

    def block(self, block: Stmts, known: dict[int, Var], names: dict[str, Expr]) -> Stmts:
        """The block; `known` are locals by their values, `names` what stands for merged ones. No
        name in either is declared again within its block."""
        known, names = dict(known), dict(names)

        def new(expr: Expr) -> Expr:
            return substitute(expr, names, {}) if names else expr

        def each(stmt: Stmt) -> Iterable[Stmt]:
            inside = map_blocks(stmt, lambda inner: self.block(inner, known, names))
            made = map_expressions(inside, new)
            if isinstance(made, Let) and made.var not in self.assigned:
                key = self.number(made.value)
                if key in known:
                    names[made.var] = known[key]
                    return ()
                if self.lasts(made.value):
                    known[key] = Var(made.var, made.dtype)
            return (made,)

        return map_statements(block, each)

    def lasts(self, value: Expr) -> bool:
        return not any(
            (isinstance(e, Var) and e.name in self.assigned)
            or (isinstance(e, Load) and e.buffer not in self.inputs)
            for e in walk(value)
        )
