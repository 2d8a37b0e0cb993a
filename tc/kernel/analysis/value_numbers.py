"""Numbers of values: equal for expressions that give the same bits."""

from __future__ import annotations

from tc.kernel import ir


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
