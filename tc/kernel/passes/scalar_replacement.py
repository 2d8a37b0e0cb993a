"""Scalar replacement: buffers of role "register" as locals, one for each group of lanes."""

from __future__ import annotations

from dataclasses import replace

from tc.kernel import ir, rebuild
from tc.kernel.analysis.register_survey import Cell, RegisterSurvey, first_element, opens_scope
from tc.kernel.folding import constant, logical_and, select
from tc.kernel.local_names import LocalNames


def replace_by_scalars(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without registers: those whose indices are constant (but for the last, which may
    be all lanes of an aligned vector) become locals, the others scratch.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> zero, two = ir.Const(0, INT64), ir.Const(2.0, FLOAT32)
    >>> r = ir.Load("r", (zero,), FLOAT32)
    >>> print(to_text(replace_by_scalars(ir.Kernel(
    ...     "f",
    ...     tuple(ir.Buffer(*b) for b in (
    ...         ("o", FLOAT32, (1,), (1,), "output"), ("r", FLOAT32, (1,), (1,), "register"))),
    ...     ((ir.Store("r", (zero,), two), ir.Store("o", (zero,), ir.Binary("*", r, r, FLOAT32))),),
    ... ))))
    kernel f
      output o: float32[1]
    region
      let r_0: float32 = 2.0f
      o[0] = r_0 * r_0
    """
    if all(buffer.role != "register" for buffer in kernel.buffers):
        return kernel
    survey = RegisterSurvey(kernel)
    rewriter = _Rewriter(survey, LocalNames(kernel))
    new = rebuild.map_regions(kernel, rewriter.scope)
    left = (buffer for buffer in kernel.buffers if buffer.name not in survey.fit)
    buffers = tuple(replace(b, role="scratch") if b.role == "register" else b for b in left)
    return rebuild.changed(new, buffers=buffers)


class _Rewriter:
    """Writes the kernel anew; `masks`, where expressions have them, are conditions on the lanes
    that matter: a load of a local under one of them is the local."""

    def __init__(self, survey: RegisterSurvey, names: LocalNames) -> None:
        self.survey = survey
        self.names = names
        self.locals: dict[Cell, ir.Var] = {}
        self.blocks = 0
        self.scopes = 0

    # --- statements -------------------------------------------------------------------------

    def scope(self, stmts: rebuild.Stmts) -> rebuild.Stmts:
        number, self.scopes = self.scopes, self.scopes + 1
        return self.block(stmts, number)

    def block(self, stmts: rebuild.Stmts, scope: int) -> rebuild.Stmts:
        places = self.survey.places[self.blocks]
        self.blocks += 1
        out: list[ir.Stmt] = []
        for position, stmt in enumerate(stmts):
            new = self.stmt(stmt, scope)
            for cell in places.get(position, ()):
                own = self.local(cell)
                if (
                    isinstance(new, ir.Set)
                    and new.var == own.name
                    and self.is_written_by(stmt, cell)
                ):
                    new = ir.Let(own.name, new.value)
                else:
                    out.append(ir.Let(own.name, constant(0, own.dtype)))
            out.append(new)
        return rebuild.same_or(stmts, out)

    def is_written_by(self, stmt: ir.Stmt, cell: Cell) -> bool:
        """Whether a statement gives the cell a value without a look at the one before."""
        touch = self.survey.touches(stmt, cell[0]).get(cell)
        return touch is not None and touch.is_written

    def stmt(self, stmt: ir.Stmt, scope: int) -> ir.Stmt:
        new = stmt
        if self.survey.accesses[id(stmt)]:
            if isinstance(stmt, ir.Store):
                return self.store(stmt, scope)
            new = rebuild.map_expressions(stmt, lambda expr: self.expr(expr, scope))
        if opens_scope(stmt):
            return rebuild.map_blocks(new, self.scope)
        return rebuild.map_blocks(new, lambda block: self.block(block, scope))

    def store(self, stmt: ir.Store, scope: int) -> ir.Stmt:
        mask = None if stmt.mask is None else self.expr(stmt.mask, scope)
        value = self.expr(stmt.value, scope, () if stmt.mask is None else (stmt.mask,))
        if stmt.buffer not in self.survey.fit:
            indices = tuple(self.expr(index, scope) for index in stmt.indices)
            return rebuild.changed(stmt, indices=indices, value=value, mask=mask)
        cell = self.cell(stmt, scope)
        own = self.local(cell)
        if mask is not None and cell not in self.survey.steady:
            value = select(mask, value, own)
        return ir.Set(own.name, value)

    # --- expressions ------------------------------------------------------------------------

    def cell(self, access: ir.Load | ir.Store, scope: int) -> Cell:
        first = first_element(access)
        assert first is not None
        return scope, access.buffer, first

    def local(self, cell: Cell) -> ir.Var:
        known = self.locals.get(cell)
        if known is None:
            _, buffer, first = cell
            lanes = self.survey.lanes[cell]
            parts = (*first[:-1], first[-1] // lanes) if first else ()
            name = self.names.fresh("_".join([buffer, *map(str, parts)]))
            known = self.locals[cell] = ir.Var(name, self.survey.fit[buffer].vector(lanes))
        return known

    def expr(self, expr: ir.Expr, scope: int, masks: tuple[ir.Expr, ...] = ()) -> ir.Expr:
        if not self.survey.loads(expr):
            return expr
        match expr:
            case ir.Load(buffer=buffer, mask=mask) if buffer in self.survey.fit:
                own = self.local(self.cell(expr, scope))
                if mask is None or mask in masks:
                    return own
                return select(self.expr(mask, scope), own, constant(0, own.dtype))
            case ir.Load(mask=mask):
                inner: tuple[ir.Expr, ...] = () if mask is None else (mask,)
                new = [self.expr(index, scope, inner) for index in expr.indices]
                if mask is not None:
                    new.append(self.expr(mask, scope))
            case ir.Reduce() | ir.Shuffle():
                new = [self.expr(operand, scope) for operand in ir.children(expr)]
            case ir.Select(condition=condition, then=then, otherwise=otherwise):
                both = [logical_and(m, condition) for m in masks if m.dtype == condition.dtype]
                inner = (*masks, condition, *both) if condition.dtype.lanes > 1 else masks
                new = [self.expr(condition, scope, masks), self.expr(then, scope, inner)]
                new.append(self.expr(otherwise, scope, masks))
            case _:
                new = [self.expr(operand, scope, masks) for operand in ir.children(expr)]
        return rebuild.rebuild(expr, new, {})
