"""Common subexpressions: what straight-line code reads or computes several times becomes a local.
That is less code to print and to compile, and easier to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tc.dtypes import FLOAT16
from tc.kernel.analysis.value_numbers import ValueNumbers
from tc.kernel.ir import (
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Stmt,
    Store,
    Var,
    children,
)
from tc.kernel.local_names import LocalNames
from tc.kernel.rebuild import (
    Stmts,
    map_blocks,
    map_expressions,
    map_operands,
    map_regions,
    same_or,
)
from tc.kernel.walk import assigned, own_expressions, stored_in

Locals: TypeAlias = "dict[int, tuple[Var, frozenset[str]]]"
"""Those that hold an expression, by its number, with the variables and buffers in it."""


def eliminate_common_subexpressions(kernel: Kernel) -> Kernel:
    """The kernel with locals for loads, calls and masks that stand several times in a block.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.ir import Binary, Buffer
    >>> from tc.kernel.printer import to_text
    >>> two, a = Const(2, INT64), Load("a", (), INT64)
    >>> buffers = Buffer("a", INT64, (), (), "input"), Buffer("o", INT64, (), (), "output")
    >>> square = Store("o", (), Binary("*", a, a, INT64))
    >>> print(to_text(eliminate_common_subexpressions(Kernel("square", buffers, ((square,),)))))
    kernel square
      input a: int64[]
      output o: int64[]
    region
      let a_1: int64 = a[]
      o[] = a_1 * a_1
    """
    sharing = _Sharing(kernel)
    return map_regions(kernel, lambda region: sharing.block(region, {}))


@dataclass(slots=True)
class _Found:
    """An expression that may become a local: how often it stands in the block, until memory
    that it reads changes; and from which statement on."""

    expr: Expr
    number: int
    position: int
    reads: frozenset[str]
    count: int = 1


class _Sharing:
    def __init__(self, kernel: Kernel) -> None:
        self.names = LocalNames(kernel)
        self.assigned = assigned(kernel)
        self.number = ValueNumbers().of
        self.read: dict[int, frozenset[str]] = {}  # by id of the expression
        self.written: dict[int, frozenset[str]] = {}  # by id of the statement

    # --- one block --------------------------------------------------------------------------

    def block(self, stmts: Stmts, outer: Locals) -> Stmts:
        starting: dict[int, list[_Found]] = {}
        for found in self.repeated(stmts):
            starting.setdefault(found.position, []).append(found)
        out: list[Stmt] = []
        locals_ = dict(outer)
        for position, stmt in enumerate(stmts):
            new: Locals = {}
            for found in starting.get(position, ()):
                if found.number in locals_:
                    continue
                value = self.replaced(found.expr, locals_)
                if isinstance(stmt, Let) and self.is_all_of(stmt, found.number):
                    new[found.number] = Var(stmt.var, stmt.dtype), found.reads
                    continue
                local = Var(self.names.fresh(_name(found.expr)), value.dtype)
                out.append(Let(local.name, value))
                locals_[found.number] = local, found.reads
            out.append(self.stmt(stmt, locals_))
            locals_ = _lasting({**locals_, **new}, self.writes(stmt))
        return same_or(stmts, out)

    def is_all_of(self, let: Let, number: int) -> bool:
        """Whether a local holds the expression anyway."""
        return let.var not in self.assigned and self.number(let.value) == number

    def repeated(self, stmts: tuple[Stmt, ...]) -> list[_Found]:
        """The expressions worth a local, those in others before these."""
        every: list[_Found] = []
        current: dict[int, _Found] = {}
        for position, stmt in enumerate(stmts):
            for expr in _evaluated(stmt):
                self.visit(expr, position, current, every)
            written = self.writes(stmt)
            if written:
                current = {n: f for n, f in current.items() if not f.reads & written}
        return [found for found in every if found.count > 1]

    def visit(
        self, expr: Expr, position: int, current: dict[int, _Found], every: list[_Found]
    ) -> None:
        if isinstance(expr, Const | Var):
            return
        number = self.number(expr)
        known = current.get(number)
        if known is not None:
            known.count += 1
            return
        for child in _always(expr):
            self.visit(child, position, current, every)
        if _is_costly(expr):
            reads = self.reads(expr)
            if reads.isdisjoint(self.assigned):
                current[number] = _Found(expr, number, position, reads)
                every.append(current[number])

    def reads(self, expr: Expr) -> frozenset[str]:
        """The variables and buffers in an expression."""
        match expr:
            case Var(name=name):
                return frozenset((name,))
            case Const():
                return frozenset()
        known = self.read.get(id(expr))
        if known is None:
            known = frozenset().union(*map(self.reads, children(expr)))
            if isinstance(expr, Load):
                known |= {expr.buffer}
            self.read[id(expr)] = known
        return known

    def writes(self, stmt: Stmt) -> frozenset[str]:
        """The buffers that a statement, or one in it, writes."""
        match stmt:
            case Store(buffer=buffer):
                return frozenset((buffer,))
            case For() | If():
                known = self.written.get(id(stmt))
                if known is None:
                    known = self.written[id(stmt)] = stored_in((stmt,))
                return known
            case _:
                return frozenset()

    # --- writing it anew --------------------------------------------------------------------

    def stmt(self, stmt: Stmt, locals_: Locals) -> Stmt:
        if isinstance(stmt, For):
            inner = {} if stmt.parallel else _lasting(locals_, self.writes(stmt))
            return map_blocks(stmt, lambda block: self.block(block, inner))
        if not _evaluated(stmt):
            return stmt
        new = map_expressions(stmt, lambda expr: self.replaced(expr, locals_))
        return map_blocks(new, lambda block: self.block(block, locals_))

    def replaced(self, expr: Expr, locals_: Locals) -> Expr:
        if not locals_ or isinstance(expr, Const | Var):
            return expr
        local = locals_.get(self.number(expr))
        if local is not None:
            return local[0]
        return map_operands(expr, lambda operand: self.replaced(operand, locals_))


def _is_costly(expr: Expr) -> bool:
    match expr:
        case Load(dtype=dtype):
            return dtype.scalar != FLOAT16
        case Broadcast(operand=operand) | Cast(operand=operand):
            return isinstance(operand, Load) and expr.dtype.scalar != FLOAT16
        case Call():
            return True
        case Compare(dtype=dtype):
            return dtype.lanes > 1
        case _:
            return False


def _evaluated(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates once, whatever the blocks in it do."""
    return own_expressions(stmt) if isinstance(stmt, If | Let | Set | Store) else ()


def _always(expr: Expr) -> tuple[Expr, ...]:
    """The operands that are evaluated whenever the expression is."""
    match expr:
        case Select(condition=condition, dtype=dtype) if dtype.lanes == 1:
            return (condition,)
        case Logical(operands=(first, _), dtype=dtype) if dtype.lanes == 1:
            return (first,)
        case _:
            return children(expr)


def _name(expr: Expr) -> str:
    match expr:
        case Load(buffer=buffer):
            return buffer
        case Broadcast(operand=Load(buffer=buffer)) | Cast(operand=Load(buffer=buffer)):
            return buffer
        case Compare(dtype=dtype):
            return f"m{dtype.lanes}"
        case _:
            return "t"


def _lasting(locals_: Locals, written: frozenset[str]) -> Locals:
    """Those that still hold their expressions when these buffers have been written."""
    if not written:
        return locals_
    return {n: known for n, known in locals_.items() if not known[1] & written}
