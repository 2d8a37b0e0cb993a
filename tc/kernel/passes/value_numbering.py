"""Value numbering: locals with one value become one local, and checks of one condition one check.
What unrolling has copied is the same in each copy."""

from __future__ import annotations

from collections.abc import Iterable

from tc.kernel import ir, rebuild
from tc.kernel.walk import assigned, read_names


class ValueNumbers:
    """The numbers of expressions, as long as their variables and memory stay as they are.

    >>> from tc.dtypes import FLOAT32
    >>> numbers = ValueNumbers()
    >>> [numbers.of(ir.Const(value, FLOAT32)) for value in (0.0, -0.0, 0.0)]  # for Python all equal
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[ir.Expr, int]] = {}  # by id of the expression, which is kept
        self._known: dict[tuple[object, ...], int] = {}

    def of(self, expr: ir.Expr) -> int:
        found = self._seen.get(id(expr))
        if found is None:
            parts = tuple([self.of(child) for child in ir.children(expr)])
            key = (type(expr), expr.dtype.name, expr.dtype.lanes, *_own(expr), *parts)
            found = self._seen[id(expr)] = expr, self._known.setdefault(key, len(self._known))
        return found[1]


def _own(expr: ir.Expr) -> tuple[object, ...]:
    """What an expression is, but for its type and its operands."""
    match expr:
        case ir.Const(value=value):
            return (repr(value),)  # 0.0 is not -0.0, nor is 1 True
        case ir.Var(name=name) | ir.Call(function=name):
            return (name,)
        case ir.Load(buffer=buffer, mask=mask):
            return (buffer, mask is None)
        case ir.Ramp(step=step):
            return (step,)
        case ir.Shuffle(lanes=lanes):
            return (lanes,)
        case _:
            return (getattr(expr, "op", ""),)


def number_values(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without locals that hold what an earlier one of the same or an outer block does,
    and without checks that repeat an earlier one: the first failure is recorded, and a later one
    on the same condition is not.

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
    numbering = _Numbering(changing)
    return rebuild.map_regions(kernel, lambda region: numbering.block(region, {}, {}, set()))


class _Numbering:
    """`changing` are locals and buffers."""

    def __init__(self, changing: frozenset[str]) -> None:
        self.changing = changing
        self.number = ValueNumbers().of

    def block(
        self,
        block: rebuild.Stmts,
        known: dict[int, ir.Var],
        names: dict[str, ir.Expr],
        checked: set[int],
    ) -> rebuild.Stmts:
        """The block; `known` are locals by their values, `names` what stands for merged ones, and
        `checked` the conditions of checks. No name is declared again within its block."""
        known, names, checked = dict(known), dict(names), set(checked)

        def new(expr: ir.Expr) -> ir.Expr:
            return rebuild.substitute(expr, names, {}) if names else expr

        def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
            inside = rebuild.map_blocks(
                stmt, lambda inner: self.block(inner, known, names, checked)
            )
            made = rebuild.map_expressions(inside, new)
            match made:
                case ir.Let(var=var, value=value) if var not in self.changing:
                    key = self.number(value)
                    if key in known:
                        names[var] = known[key]
                        return ()
                    if self.keeps(value):
                        known[key] = ir.Var(var, made.dtype)
                case ir.If(condition=condition, then=then, otherwise=()) if _is_check(then):
                    key = self.number(condition)
                    if key in checked:
                        return ()
                    if self.keeps(condition):
                        checked.add(key)
            return (made,)

        return rebuild.map_statements(block, each)

    def keeps(self, expr: ir.Expr) -> bool:
        """Whether an expression always has the same value."""
        return self.changing.isdisjoint(read_names(expr))


def _is_check(block: rebuild.Stmts) -> bool:
    """Whether a block records a failure, and does nothing else."""
    return bool(block) and all(isinstance(stmt, ir.Fail) for stmt in block)
