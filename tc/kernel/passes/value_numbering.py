"""Value numbering: what has one value is one local, and is computed once.

*Locals.* What unrolling has copied is the same in each copy: of two locals with one value one is
left, and of two checks of one condition the first.

*Common subexpressions.* What straight-line code reads or computes several times becomes a local,
and so does a call that is the same in every iteration of a loop, before it. That is less code to
print and to compile, and easier to read. Compilers do the same with plain arithmetic, but cannot
with functions that they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tc.kernel import ir, rebuild
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


def number_values(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel where what has one value is one local: first locals and checks, then calls in
    loops, then all that a block computes."""
    numbers = ValueNumbers()
    kernel = hoist_invariant_calls(merge_locals(kernel, numbers), numbers)
    return eliminate_common_subexpressions(kernel, numbers)


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
        case ir.WarpReduce(op=op, lanes=threads):
            return (op, threads)
        case _:
            return (getattr(expr, "op", ""),)


# --- locals and checks ------------------------------------------------------------------------


def merge_locals(kernel: ir.Kernel, numbers: ValueNumbers | None = None) -> ir.Kernel:
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
    >>> print(to_text(merge_locals(ir.Kernel("k", buffers, (stmts,)))))
    kernel k
      output o: int64[]
    region
      let i: int64 = 7
      let a: int64 = i * 2
      o[] = a + a
    """
    changing = assigned(kernel) | {b.name for b in kernel.buffers if b.role != "input"}
    merging = _Merging(changing, (numbers or ValueNumbers()).of)
    return rebuild.map_regions(kernel, lambda region: merging.block(region, {}, {}, set()))


@dataclass(frozen=True, slots=True)
class _Merging:
    """`changing` are locals and buffers."""

    changing: frozenset[str]
    number: Callable[[ir.Expr], int]

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


# --- calls in loops ---------------------------------------------------------------------------


def hoist_invariant_calls(kernel: ir.Kernel, numbers: ValueNumbers | None = None) -> ir.Kernel:
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
    number = (numbers or ValueNumbers()).of

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.For) and not stmt.parallel and iterations(stmt):
            return _hoisted(stmt, names, met, number)
        return (stmt,)

    return rebuild.map_regions(kernel, lambda region: rebuild.map_each(region, each))


def _hoisted(
    loop: ir.For, names: LocalNames, met: frozenset[str], number: Callable[[ir.Expr], int]
) -> Iterator[ir.Stmt]:
    inside = tuple(ir.statements(loop.body))
    changing = {loop.var, *(s.var for s in inside if isinstance(s, ir.Let | ir.Set | ir.For))}
    changing |= changed_in(inside, met)
    found: dict[int, tuple[ir.Var, ir.Expr]] = {}

    def replaced(expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Call) and changing.isdisjoint(read_names(expr)):
            key = number(expr)
            if key not in found:
                found[key] = ir.Var(names.fresh(expr.function), expr.dtype), expr
            return found[key][0]
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


# --- common subexpressions --------------------------------------------------------------------


def eliminate_common_subexpressions(
    kernel: ir.Kernel, numbers: ValueNumbers | None = None
) -> ir.Kernel:
    """The kernel with locals for loads, calls and masks that stand several times in a block.

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
    sharing = _Sharing(kernel, (numbers or ValueNumbers()).of)
    return rebuild.map_regions(kernel, lambda region: sharing.block(region, {}))


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
    def __init__(self, kernel: ir.Kernel, number: Callable[[ir.Expr], int]) -> None:
        self.names = LocalNames(kernel)
        self.assigned = assigned(kernel)
        self.met = visible_across_barrier(kernel)
        self.number = number
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
            return not dtype.is_storage
        case ir.Broadcast(operand=operand) | ir.Cast(operand=operand):
            return isinstance(operand, ir.Load) and not expr.dtype.is_storage
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
