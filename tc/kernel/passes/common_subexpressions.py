"""Common subexpressions: what straight-line code reads or computes several times becomes a local,
and so does a call that is the same in every iteration of a loop, before it.

That is less code to print and to compile, and easier to read. Compilers do the same with plain
arithmetic, but cannot with functions that they do not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tc.dtypes import FLOAT16
from tc.kernel import ir, rebuild
from tc.kernel.passes.value_numbering import ValueNumbers
from tc.kernel.rebuild import LocalNames
from tc.kernel.walk import (
    always_evaluated,
    assigned,
    changed_in,
    evaluated_once,
    iterations,
    read_names,
    visible_across_barrier,
)

Locals: TypeAlias = "dict[int, tuple[ir.Var, frozenset[str]]]"
"""Those that hold an expression, by its number, with the variables and buffers in it."""


def eliminate_common_subexpressions(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with locals for loads, calls and masks that stand several times in a block, and
    for calls that are the same in every iteration of a loop.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.printer import to_text
    >>> two, a = ir.Const(2, INT64), ir.Load("a", (), INT64)
    >>> buffers = ir.Buffer("a", INT64, (), (), "input"), ir.Buffer("o", INT64, (), (), "output")
    >>> square = ir.Store("o", (), ir.Binary("*", a, a, INT64))
    >>> print(to_text(eliminate_common_subexpressions(ir.Kernel("square", buffers, ((square,),)))))
    kernel square
      input a: int64[]
      output o: int64[]
    region
      let a_1: int64 = a[]
      o[] = a_1 * a_1
    """
    kernel = hoist_invariant_calls(kernel)
    sharing = _Sharing(kernel)
    return rebuild.map_regions(kernel, lambda region: sharing.block(region, {}))


def hoist_invariant_calls(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with calls whose operands no iteration changes in locals before their loops.

    Only calls that every iteration makes, of loops that have iterations, are moved: a load in one
    stays in bounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> i, x = ir.Var("i", INT64), ir.Load("x", (), FLOAT32)
    >>> store = ir.Store("o", (i,), ir.Call("sqrt", (x,), FLOAT32))
    >>> output = ir.Buffer("o", FLOAT32, (9,), (1,), "output")
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(9, INT64), (store,))
    >>> print(to_text(hoist_invariant_calls(ir.Kernel("roots", (output,), ((loop,),)))))
    kernel roots
      output o: float32[9]
    region
      let sqrt: float32 = sqrt(x[])
      for i in 0:9
        o[i] = sqrt
    """
    names, met = LocalNames(kernel), visible_across_barrier(kernel)

    def block(stmts: rebuild.Stmts) -> rebuild.Stmts:
        return rebuild.map_statements(stmts, each)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = rebuild.map_blocks(stmt, block)
        if isinstance(new, ir.For) and not new.parallel and iterations(new):
            return _hoisted(new, names, met)
        return (new,)

    return rebuild.map_regions(kernel, block)


def _hoisted(loop: ir.For, names: LocalNames, met: frozenset[str]) -> Iterator[ir.Stmt]:
    inside = tuple(ir.statements(loop.body))
    changing = {loop.var, *(s.var for s in inside if isinstance(s, ir.Let | ir.Set | ir.For))}
    changing |= changed_in(inside, met)
    found: dict[int, tuple[ir.Var, ir.Expr]] = {}
    numbers = ValueNumbers()

    def replaced(expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Call) and changing.isdisjoint(read_names(expr)):
            number = numbers.of(expr)
            if number not in found:
                found[number] = ir.Var(names.fresh(expr.function), expr.dtype), expr
            return found[number][0]
        if not isinstance(
            expr, ir.Unary | ir.Binary | ir.Compare | ir.Call | ir.Cast | ir.Broadcast
        ):
            return expr  # what is lazy, or memory, stays
        return rebuild.map_operands(expr, replaced)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        is_straight = isinstance(stmt, ir.Let | ir.Set | ir.Store)
        return (rebuild.map_expressions(stmt, replaced) if is_straight else stmt,)

    body = rebuild.map_statements(loop.body, each)
    yield from (ir.Let(var.name, expr) for var, expr in found.values())
    yield rebuild.changed(loop, body=body)


@dataclass(slots=True)
class _Found:
    """An expression that may become a local: how often it stands in the block, until memory
    that it reads changes; and from which statement on."""

    expr: ir.Expr
    number: int
    position: int
    reads: frozenset[str]
    count: int = 1


class _Sharing:
    def __init__(self, kernel: ir.Kernel) -> None:
        self.names = LocalNames(kernel)
        self.assigned = assigned(kernel)
        self.met = visible_across_barrier(kernel)
        self.number = ValueNumbers().of
        self.written: dict[int, frozenset[str]] = {}  # by id of the statement

    # --- one block --------------------------------------------------------------------------

    def block(self, stmts: rebuild.Stmts, outer: Locals) -> rebuild.Stmts:
        starting: dict[int, list[_Found]] = {}
        for found in self.repeated(stmts):
            starting.setdefault(found.position, []).append(found)
        out: list[ir.Stmt] = []
        locals_ = dict(outer)
        for position, stmt in enumerate(stmts):
            new: Locals = {}
            for found in starting.get(position, ()):
                if found.number in locals_:
                    continue
                value = self.replaced(found.expr, locals_)
                if isinstance(stmt, ir.Let) and self.holds(stmt, found.number):
                    new[found.number] = ir.Var(stmt.var, stmt.dtype), found.reads
                    continue
                local = ir.Var(self.names.fresh(_name(found.expr)), value.dtype)
                out.append(ir.Let(local.name, value))
                locals_[found.number] = local, found.reads
            out.append(self.stmt(stmt, locals_))
            locals_ = _lasting({**locals_, **new}, self.writes(stmt))
        return rebuild.same_or(stmts, out)

    def holds(self, let: ir.Let, number: int) -> bool:
        return let.var not in self.assigned and self.number(let.value) == number

    def repeated(self, stmts: tuple[ir.Stmt, ...]) -> list[_Found]:
        """The expressions worth a local, those in others before these."""
        every: list[_Found] = []
        current: dict[int, _Found] = {}
        for position, stmt in enumerate(stmts):
            for expr in evaluated_once(stmt):
                self.visit(expr, position, current, every)
            if written := self.writes(stmt):
                current = {n: f for n, f in current.items() if not f.reads & written}
        return [found for found in every if found.count > 1]

    def visit(
        self, expr: ir.Expr, position: int, current: dict[int, _Found], every: list[_Found]
    ) -> None:
        if isinstance(expr, ir.Const | ir.Var):
            return
        number = self.number(expr)
        known = current.get(number)
        if known is not None:
            known.count += 1
            return
        for child in always_evaluated(expr):
            self.visit(child, position, current, every)
        if _is_costly(expr):
            reads = frozenset(read_names(expr))
            if reads.isdisjoint(self.assigned):
                current[number] = _Found(expr, number, position, reads)
                every.append(current[number])

    def writes(self, stmt: ir.Stmt) -> frozenset[str]:
        """The buffers that may have changed behind a statement."""
        if id(stmt) not in self.written:
            self.written[id(stmt)] = changed_in((stmt,), self.met)
        return self.written[id(stmt)]

    # --- writing it anew --------------------------------------------------------------------

    def stmt(self, stmt: ir.Stmt, locals_: Locals) -> ir.Stmt:
        if isinstance(stmt, ir.For):
            inner = {} if stmt.parallel else _lasting(locals_, self.writes(stmt))
            return rebuild.map_blocks(stmt, lambda block: self.block(block, inner))
        if isinstance(stmt, ir.Grid):
            return rebuild.map_blocks(stmt, lambda block: self.block(block, {}))
        if not evaluated_once(stmt):
            return stmt
        new = rebuild.map_expressions(stmt, lambda expr: self.replaced(expr, locals_))
        return rebuild.map_blocks(new, lambda block: self.block(block, locals_))

    def replaced(self, expr: ir.Expr, locals_: Locals) -> ir.Expr:
        if not locals_ or isinstance(expr, ir.Const | ir.Var):
            return expr
        local = locals_.get(self.number(expr))
        if local is not None:
            return local[0]
        return rebuild.map_operands(expr, lambda operand: self.replaced(operand, locals_))


def _is_costly(expr: ir.Expr) -> bool:
    match expr:
        case ir.Load(dtype=dtype):
            return dtype.scalar != FLOAT16
        case ir.Broadcast(operand=operand) | ir.Cast(operand=operand):
            return isinstance(operand, ir.Load) and expr.dtype.scalar != FLOAT16
        case ir.Call():
            return True
        case ir.Compare(dtype=dtype):
            return dtype.lanes > 1
        case _:
            return False


def _name(expr: ir.Expr) -> str:
    match expr:
        case ir.Load(buffer=buffer):
            return buffer
        case ir.Broadcast(operand=ir.Load(buffer=buffer)) | ir.Cast(operand=ir.Load(buffer=buffer)):
            return buffer
        case ir.Compare(dtype=dtype):
            return f"m{dtype.lanes}"
        case _:
            return "t"


def _lasting(locals_: Locals, written: frozenset[str]) -> Locals:
    """The locals that still hold their expressions when these buffers have been written."""
    if not written:
        return locals_
    return {n: known for n, known in locals_.items() if not known[1] & written}
