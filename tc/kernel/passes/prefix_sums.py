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
from tc.kernel.analysis.guard_ranges import less
from tc.kernel.folding import binary, compare, integer, is_constant, logical_and, select
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
        inside = {**bounds, loop.var: _values(loop, bounds)}
        if moves == [False, True] and _rises(inner.end, loop.var):
            last = _at(inner.end, loop.var, binary("-", var, integer(1)))
            first = _at(inner.end, loop.var, binary("-", loop.begin, integer(1)))
            begin = last
            if interval(first, bounds)[1] > interval(inner.begin, inside)[0]:
                is_first = compare("==", var, loop.begin, inside)
                begin = select(is_first, inner.begin, last)
            elif interval(first, bounds)[1] < interval(inner.begin, inside)[0]:
                begin = binary("max", inner.begin, last, inside)
            more = replace(inner, begin=begin)
            if _is_one(inner.end, _at(inner.end, loop.var, loop.begin), inner.begin):
                return (*before, replace(loop, body=(*_one(more, -1, inside), *after)))
            return (*before, replace(loop, body=(more, *after)))
        if moves == [True, False] and _rises(inner.begin, loop.var):
            final = binary("-", loop.end, integer(1))
            beyond = _at(inner.begin, loop.var, binary("+", var, integer(1)))
            end = select(compare("==", var, final, {}), inner.end, beyond)
            new: Stmts = (replace(inner, end=end),)
            if _is_one(inner.begin, inner.end, _at(inner.begin, loop.var, final)):
                new = _one(replace(inner, end=end), 0, inside)
            name = self.names.fresh(loop.var)
            own = ir.Let(loop.var, binary("-", final, ir.Var(name, INT64)))
            count = binary("-", loop.end, loop.begin)
            turned = replace(loop, var=name, begin=integer(0), end=count, body=(own, *new, *after))
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


def _is_one(moving: ir.Expr, end: ir.Expr, begin: ir.Expr) -> bool:
    """Whether iterations have at most one term more than the one before: that is how far the end
    that moves goes, and the first iteration has no more between `begin` and `end`."""
    count = binary("-", end, begin)
    is_step = not any(isinstance(e, ir.Binary) and e.op == "*" for e in ir.walk(moving))
    return is_step and isinstance(count, ir.Const) and count.value <= 1


def _one(loop: ir.For, place: int, bounds: Bounds) -> Stmts:
    """A loop of at most one iteration as what it does if there is one: the last one, by `place` -1,
    or the first, 0."""
    value = loop.begin if place == 0 else binary("-", loop.end, integer(1))
    term = (ir.Let(loop.var, value), *loop.body)
    condition = _less(loop.begin, loop.end, bounds)
    return term if is_constant(condition, True) else (ir.If(condition, term),)


def _less(one: ir.Expr, other: ir.Expr, bounds: Bounds) -> ir.Expr:
    match one, other:
        case ir.Binary(op="max", left=left, right=right), _:
            return logical_and(_less(left, other, bounds), _less(right, other, bounds))
        case _, ir.Select(condition=condition, then=then, otherwise=otherwise):
            return select(condition, _less(one, then, bounds), _less(one, otherwise, bounds))
        case ir.Select(condition=condition, then=then, otherwise=otherwise), _:
            return select(condition, _less(then, other, bounds), _less(otherwise, other, bounds))
    return less(one, other, bounds)


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
