"""Prefix sums: reductions of which each has the terms of the one before, and more, as recurrences.

    for i: { s = 0; for j in 0:i+1: s += x[j]; o[i] = s }
        becomes  s = 0; for i: { for j in i:i+1: s += x[j]; o[i] = s }

N terms are added in place of N^2 / 2 (X3). Where it is the beginning that moves, `for j in i:N`,
the outer loop runs backwards. Reductions may be in any order (R5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.folding import binary, compare, integer, select
from tc.kernel.intervals import Bounds, interval
from tc.kernel.passes.deciding_tests import is_plain
from tc.kernel.rebuild import LocalNames, Scope, Stmts, map_regions, substitute
from tc.kernel.walk import assigned, every_statement, names_in


def carry_prefixes(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with recurrences in place of reductions over prefixes.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> i, j = ir.Var("i", INT64), ir.Var("j", INT64)
    >>> held = ir.Load("s", (integer(0),), FLOAT32)
    >>> begin = ir.Store("s", (integer(0),), ir.Const(0.0, FLOAT32))
    >>> term = ir.Store("s", (integer(0),), binary("+", held, ir.Load("x", (j,), FLOAT32)))
    >>> loop = ir.For("j", integer(0), binary("+", i, integer(1)), (term,))
    >>> rows = ir.For("i", integer(0), integer(9), (begin, loop, ir.Store("o", (i,), held)))
    >>> buffers = (ir.Buffer("x", FLOAT32, (9,), (1,), "input"),
    ...            ir.Buffer("o", FLOAT32, (9,), (1,), "output"),
    ...            ir.Buffer("s", FLOAT32, (1,), (1,), "register"))
    >>> print(to_text(carry_prefixes(ir.Kernel("f", buffers, ((rows,),)))))
    kernel f
      input x: float32[9]
      output o: float32[9]
      register s: float32[1]
    region
      s[0] = 0.0f
      for i in 0:9
        let j: int64 = i
        s[0] = s[0] + x[j]
        o[i] = s[0]
    """
    registers = frozenset(b.name for b in kernel.buffers if b.role == "register")
    if not registers:
        return kernel
    carried = _Prefixes(kernel, registers, LocalNames(kernel), Scope(assigned(kernel)))
    return map_regions(kernel, lambda region: carried.scope.map(region, carried.statement))


@dataclass
class _Prefixes:
    kernel: ir.Kernel
    registers: frozenset[str]
    names: LocalNames
    scope: Scope

    def statement(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        new = self.scope.map_inside(stmt, self.statement)
        if is_plain(new):
            yield from self._carried(new)
        else:
            yield new

    def _carried(self, loop: ir.For) -> Stmts:
        """The loop with what each iteration begins with before it, if it is one over prefixes."""
        places = [k for k, s in enumerate(loop.body) if isinstance(s, ir.For) and not s.mark]
        for place in places:
            inner = loop.body[place]
            assert isinstance(inner, ir.For)
            before, after = loop.body[:place], loop.body[place + 1 :]
            if inner.parallel or not self._may_carry(loop.var, before, inner, after):
                continue
            if (found := self._recurrence(loop, before, inner, after)) is not None:
                return found
        return (loop,)

    def _recurrence(self, loop: ir.For, before: Stmts, inner: ir.For, after: Stmts) -> Stmts | None:
        var, bounds = ir.Var(loop.var, INT64), self.scope.bounds
        moves = [loop.var in names_in(end) for end in (inner.begin, inner.end)]
        if moves == [False, True] and _rises(inner.end, loop.var):
            last = _at(inner.end, loop.var, binary("-", var, integer(1)))
            first = _at(inner.end, loop.var, binary("-", loop.begin, integer(1)))
            begin = last
            inside = {**bounds, loop.var: _values(loop, bounds)}
            if interval(first, bounds)[1] > interval(inner.begin, inside)[0]:
                is_first = compare("==", var, loop.begin, inside)
                begin = select(is_first, inner.begin, last)
            elif interval(first, bounds)[1] < interval(inner.begin, inside)[0]:
                begin = binary("max", inner.begin, last, inside)
            at_first = _at(inner.end, loop.var, loop.begin), inner.begin
            more = _added(inner, begin, inner.end, is_one=_is_step(inner.end), first=at_first)
            return (*before, replace(loop, body=(*more, *after)))
        if moves == [True, False] and _rises(inner.begin, loop.var):
            final = binary("-", loop.end, integer(1))
            beyond = _at(inner.begin, loop.var, binary("+", var, integer(1)))
            end = select(compare("==", var, final, {}), inner.end, beyond)
            at_first = inner.end, _at(inner.begin, loop.var, final)
            is_one = _is_step(inner.begin)
            more = _added(inner, inner.begin, end, is_one=is_one, first=at_first)
            name = self.names.fresh(loop.var)
            own = ir.Let(loop.var, binary("-", final, ir.Var(name, INT64)))
            count = binary("-", loop.end, loop.begin)
            turned = replace(loop, var=name, begin=integer(0), end=count, body=(own, *more, *after))
            return (*before, turned)
        return None

    def _may_carry(self, var: str, before: Stmts, inner: ir.For, after: Stmts) -> bool:
        """Whether iterations of a loop over `var` begin alike, add terms that are the same for all
        to what they hold in registers, and only read that then."""
        begun = _written(before)
        held = _written(inner.body)
        if not held or not held <= begun or not begun <= self.registers:
            return False
        starts = [s for s in ir.statements(before) if not isinstance(s, ir.For | ir.Comment)]
        if not all(isinstance(s, ir.Store) and isinstance(s.value, ir.Const) for s in starts):
            return False
        inside = tuple(ir.statements(inner.body))
        if any(var in _names(s) for s in (*ir.statements(before), *inside)):
            return False
        later = _written(after)
        if any(isinstance(s, ir.Fail) for s in inside) or later & (held | _read(inner.body)):
            return False
        return self._is_own(held, (*before, inner, *after))

    def _is_own(self, held: set[str], block: Stmts) -> bool:
        """Whether nothing else reads what some statements hold."""
        own = sum(_reads_of(s, held) for s in ir.statements(block))
        return own == sum(_reads_of(s, held) for s in every_statement(self.kernel))


def _added(
    inner: ir.For,
    begin: ir.Expr,
    end: ir.Expr,
    *,
    is_one: bool,
    first: tuple[ir.Expr, ir.Expr],
) -> Stmts:
    """The terms that one more iteration has: a loop over them, or one term, if any, where no
    iteration has more. `is_one` tells that of all iterations but the first one, of which `first`
    are the end and the begin."""
    count = binary("-", *first)
    if not is_one or not isinstance(count, ir.Const) or count.value > 1:
        return (replace(inner, begin=begin, end=end),)
    term = (ir.Let(inner.var, begin), *inner.body)
    if end == binary("+", begin, integer(1)):
        return term
    return (ir.If(ir.Compare("<", begin, end), term),)


def _is_step(expr: ir.Expr) -> bool:
    """Whether an expression that rises grows by 1 at most where a variable does."""
    return not any(isinstance(e, ir.Binary) and e.op == "*" for e in ir.walk(expr))


def _values(loop: ir.For, bounds: Bounds) -> tuple[int, int]:
    return interval(loop.begin, bounds)[0], interval(loop.end, bounds)[1] - 1


def _at(expr: ir.Expr, var: str, value: ir.Expr) -> ir.Expr:
    return substitute(expr, {var: value}, {})


def _rises(expr: ir.Expr, var: str) -> bool:
    """Whether an expression never falls as a variable grows."""
    if var not in names_in(expr):
        return True
    match expr:
        case ir.Var():
            return True
        case ir.Binary(op="+" | "min" | "max", left=left, right=right):
            return _rises(left, var) and _rises(right, var)
        case ir.Binary(op="-", left=left, right=right):
            return _rises(left, var) and var not in names_in(right)
        case ir.Binary(op="*" | "/", left=left, right=ir.Const(value=factor)):
            return factor > 0 and _rises(left, var)
        case _:
            return False


def _written(block: Stmts) -> set[str]:
    return {s.buffer for s in ir.statements(block) if isinstance(s, ir.Store)}


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    return (e for e in ir.expressions(stmt) if isinstance(e, ir.Load))


def _read(block: Stmts) -> set[str]:
    return {load.buffer for load in chain.from_iterable(map(_loads, ir.statements(block)))}


def _reads_of(stmt: ir.Stmt, buffers: set[str]) -> int:
    return sum(load.buffer in buffers for load in _loads(stmt))


def _names(stmt: ir.Stmt) -> set[str]:
    return {e.name for e in ir.expressions(stmt) if isinstance(e, ir.Var)}
