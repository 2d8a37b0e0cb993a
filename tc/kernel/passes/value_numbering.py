"""Value numbering: locals with one value become one local. What unrolling has copied is the same in
each copy."""

from __future__ import annotations

from collections.abc import Iterable

from tc.kernel import ir, rebuild
from tc.kernel.analysis.value_numbers import ValueNumbers
from tc.kernel.walk import assigned, read_names


def number_values(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without locals that hold what an earlier one of the same or an outer block does.

    Only values that cannot change count: of locals that no Set changes, and of inputs.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.printer import to_text
    >>> def twice(name):
    ...     return ir.Let(name, ir.Binary("*", ir.Var("i", INT64), ir.Const(2, INT64), INT64))
    >>> i = ir.Let("i", ir.Const(7, INT64))
    >>> store = ir.Store("o", (), ir.Binary("+", ir.Var("a", INT64), ir.Var("b", INT64), INT64))
    >>> buffers = (ir.Buffer("o", INT64, (), (), "output"),)
    >>> stmts = i, twice("a"), twice("b"), store
    >>> print(to_text(number_values(ir.Kernel("k", buffers, (stmts,)))))
    kernel k
      output o: int64[]
    region
      let i: int64 = 7
      let a: int64 = i * 2
      o[] = a + a
    """
    changing = assigned(kernel) | {b.name for b in kernel.buffers if b.role != "input"}
    merging = _Merging(changing)
    return rebuild.map_regions(kernel, lambda region: merging.block(region, {}, {}))


class _Merging:
    """`changing` are locals and buffers."""

    def __init__(self, changing: frozenset[str]) -> None:
        self.changing = changing
        self.number = ValueNumbers().of

    def block(
        self, block: rebuild.Stmts, known: dict[int, ir.Var], names: dict[str, ir.Expr]
    ) -> rebuild.Stmts:
        """The block; `known` are locals by their values, `names` what stands for merged ones. No
        name in either is declared again within its block."""
        known, names = dict(known), dict(names)

        def new(expr: ir.Expr) -> ir.Expr:
            return rebuild.substitute(expr, names, {}) if names else expr

        def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
            inside = rebuild.map_blocks(stmt, lambda inner: self.block(inner, known, names))
            made = rebuild.map_expressions(inside, new)
            if isinstance(made, ir.Let) and made.var not in self.changing:
                key = self.number(made.value)
                if key in known:
                    names[made.var] = known[key]
                    return ()
                if self.changing.isdisjoint(read_names(made.value)):
                    known[key] = ir.Var(made.var, made.dtype)
            return (made,)

        return rebuild.map_statements(block, each)
