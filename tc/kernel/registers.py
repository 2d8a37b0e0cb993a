"""Buffers of role "register" as locals, one for each element or group of lanes."""

from __future__ import annotations

from tc.kernel.cells import Cell, Survey, first_element
from tc.kernel.folding import constant, logical_and, select
from tc.kernel.ir import (
    Buffer,
    Comment,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Reduce,
    Select,
    Set,
    Shuffle,
    Stmt,
    Store,
    Var,
    children,
    unknown_node,
)
from tc.kernel.names import LocalNames
from tc.kernel.rebuild import rebuild


def registers(kernel: Kernel) -> Kernel:
    """The kernel without registers: those whose indices are constant (but for the last, which may
    be all lanes of an aligned vector) become locals, the others scratch.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.ir import Binary, Const
    >>> from tc.kernel.printer import to_text
    >>> zero, two = Const(0, INT64), Const(2.0, FLOAT32)
    >>> r = Load("r", (zero,), FLOAT32)
    >>> print(to_text(registers(Kernel(
    ...     "f",
    ...     tuple(Buffer(*b) for b in (
    ...         ("o", FLOAT32, (1,), (1,), "output"), ("r", FLOAT32, (1,), (1,), "register"))),
    ...     ((Store("r", (zero,), two), Store("o", (zero,), Binary("*", r, r, FLOAT32))),),
    ... ))))
    kernel f
      output o: float32[1]
    region
      let r_0: float32 = 2.0f
      o[0] = r_0 * r_0
    """
    if all(buffer.role != "register" for buffer in kernel.buffers):
        return kernel
    survey = Survey(kernel)
    rewriter = _Rewriter(survey, LocalNames(kernel))
    regions = tuple(tuple(rewriter.scope(region)) for region in kernel.regions)
    buffers = tuple(map(_as_scratch, (b for b in kernel.buffers if b.name not in survey.fit)))
    return Kernel(kernel.name, buffers, regions, kernel.sites, kernel.initial)


def _as_scratch(buffer: Buffer) -> Buffer:
    if buffer.role != "register":
        return buffer
    return Buffer(buffer.name, buffer.dtype, buffer.shape, buffer.strides, "scratch")


class _Rewriter:
    """Writes the kernel anew; `masks`, where expressions have them, are conditions on the lanes
    that matter: a load of a local under one of them is the local."""

    def __init__(self, survey: Survey, names: LocalNames) -> None:
        self.survey = survey
        self.names = names
        self.locals: dict[Cell, Var] = {}
        self.blocks = 0
        self.scopes = 0

    # --- statements -------------------------------------------------------------------------

    def scope(self, stmts: tuple[Stmt, ...]) -> list[Stmt]:
        number, self.scopes = self.scopes, self.scopes + 1
        return self.block(stmts, number)

    def block(self, stmts: tuple[Stmt, ...], scope: int) -> list[Stmt]:
        places = self.survey.places[self.blocks]
        self.blocks += 1
        out: list[Stmt] = []
        for position, stmt in enumerate(stmts):
            new = self.stmt(stmt, scope)
            for cell in places.get(position, ()):
                own = self.local(cell)
                if isinstance(new, Set) and new.var == own.name and self.is_written_by(stmt, cell):
                    new = Let(own.name, new.value)
                else:
                    out.append(Let(own.name, constant(0, own.dtype)))
            out.append(new)
        return out

    def is_written_by(self, stmt: Stmt, cell: Cell) -> bool:
        """Whether a statement gives the cell a value without a look at the one before."""
        touch = self.survey.touches(stmt, cell[0]).get(cell)
        return touch is not None and touch.is_written

    def stmt(self, stmt: Stmt, scope: int) -> Stmt:
        match stmt:
            case For(var=var, begin=begin, end=end, body=body, parallel=parallel, mark=mark):
                first, last = self.expr(begin, scope), self.expr(end, scope)
                inner = self.scope(body) if parallel else self.block(body, scope)
                return For(var, first, last, tuple(inner), parallel, mark)
            case If(condition=condition, then=then, otherwise=otherwise):
                test = self.expr(condition, scope)
                yes = tuple(self.block(then, scope))
                return If(test, yes, tuple(self.block(otherwise, scope)))
        if not self.survey.accesses[id(stmt)]:
            return stmt
        match stmt:
            case Let(var=var, value=value):
                return Let(var, self.expr(value, scope))
            case Set(var=var, value=value):
                return Set(var, self.expr(value, scope))
            case Store():
                return self.store(stmt, scope)
            case Prefetch(buffer=buffer, indices=indices):
                return Prefetch(buffer, tuple(self.expr(index, scope) for index in indices))
            case Fail(site=site, values=values):
                return Fail(site, tuple(self.expr(value, scope) for value in values))
            case Comment():
                return stmt
            case _:
                raise unknown_node(stmt)

    def store(self, stmt: Store, scope: int) -> Stmt:
        mask = None if stmt.mask is None else self.expr(stmt.mask, scope)
        value = self.expr(stmt.value, scope, () if stmt.mask is None else (stmt.mask,))
        if stmt.buffer not in self.survey.fit:
            indices = tuple(self.expr(index, scope) for index in stmt.indices)
            return Store(stmt.buffer, indices, value, mask)
        cell = self.cell(stmt, scope)
        own = self.local(cell)
        if mask is not None and cell not in self.survey.steady:
            value = select(mask, value, own)
        return Set(own.name, value)

    # --- expressions ------------------------------------------------------------------------

    def cell(self, access: Load | Store, scope: int) -> Cell:
        first = first_element(access)
        assert first is not None
        return scope, access.buffer, first

    def local(self, cell: Cell) -> Var:
        known = self.locals.get(cell)
        if known is None:
            _, buffer, first = cell
            lanes = self.survey.lanes[cell]
            parts = (*first[:-1], first[-1] // lanes) if first else ()
            name = self.names.fresh("_".join([buffer, *map(str, parts)]))
            known = self.locals[cell] = Var(name, self.survey.fit[buffer].vector(lanes))
        return known

    def expr(self, expr: Expr, scope: int, masks: tuple[Expr, ...] = ()) -> Expr:
        if not self.survey.loads(expr):
            return expr
        match expr:
            case Load(buffer=buffer, mask=mask) if buffer in self.survey.fit:
                own = self.local(self.cell(expr, scope))
                if mask is None or mask in masks:
                    return own
                return select(self.expr(mask, scope), own, constant(0, own.dtype))
            case Load(mask=mask):
                inner: tuple[Expr, ...] = () if mask is None else (mask,)
                new = [self.expr(index, scope, inner) for index in expr.indices]
                if mask is not None:
                    new.append(self.expr(mask, scope))
            case Reduce() | Shuffle():
                new = [self.expr(operand, scope) for operand in children(expr)]
            case Select(condition=condition, then=then, otherwise=otherwise):
                both = [logical_and(m, condition) for m in masks if m.dtype == condition.dtype]
                inner = (*masks, condition, *both) if condition.dtype.lanes > 1 else masks
                new = [self.expr(condition, scope, masks), self.expr(then, scope, inner)]
                new.append(self.expr(otherwise, scope, masks))
            case _:
                new = [self.expr(operand, scope, masks) for operand in children(expr)]
        return rebuild(expr, new, {})
