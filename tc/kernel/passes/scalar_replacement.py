"""Scalar replacement: buffers of role "register" as locals, one for each group of lanes.

A survey comes first: which elements of registers may be locals, and where these must be declared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.kernel import ir, rebuild
from tc.kernel.folding import constant, logical_and, select
from tc.kernel.rebuild import LocalNames
from tc.kernel.walk import assigned, declared, is_steady, iterations, names_in

Cell: TypeAlias = "tuple[int, str, tuple[int, ...]]"
"""What becomes one local: a scope, a buffer, and the indices of the first element.

A scope is a region or the body of a grid or parallel loop: registers are unwritten at its start and
its end, so cells of different scopes have nothing in common. Scopes and blocks have numbers, in the
order in which a walk through the kernel meets them."""


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
    survey = _Survey(kernel)
    rewriter = _Rewriter(survey, LocalNames(kernel))
    new = rebuild.map_regions(kernel, rewriter.scope)
    left = (buffer for buffer in kernel.buffers if buffer.name not in survey.fit)
    buffers = tuple(replace(b, role="scratch") if b.role == "register" else b for b in left)
    return rebuild.changed(new, buffers=buffers)


class _Rewriter:
    """Writes the kernel anew; `masks`, where expressions have them, are conditions on the lanes
    that matter: a load of a local under one of them is the local."""

    def __init__(self, survey: _Survey, names: LocalNames) -> None:
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
        if _opens_scope(stmt):
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
        first = _first_element(access)
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


# --- the survey -------------------------------------------------------------------------------


@dataclass(slots=True)
class _CellUse:
    """How statements use a cell: `is_written`: the first that does gives it a value, whatever it
    held before. `position` is that statement's in its block."""

    count: int
    is_written: bool
    position: int = 0


@dataclass(frozen=True, slots=True)
class _Access:
    """One load or store; `first` is None where the indices are not constant."""

    buffer: str
    first: tuple[int, ...] | None
    lanes: int
    mask: ir.Expr | None
    is_store: bool


class _Survey:
    """`fit` has the types of the registers that become locals, and `lanes` the lanes of their
    cells. A cell in `steady` is always used under one mask, which does not change meanwhile, so
    that its other lanes never matter. `places` says before which statements of a block the
    locals must be declared."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.fit = {b.name: b.dtype for b in kernel.buffers if b.role == "register"}
        self.accesses: dict[int, tuple[_Access, ...]] = {}  # by id of statement or expression
        self.lanes: dict[Cell, int] = {}
        self.steady: set[Cell] = set()
        self.places: list[dict[int, list[Cell]]] = []
        self._assigned = assigned(kernel)
        self._totals: Counter[Cell] = Counter()
        self._masks: dict[Cell, ir.Expr | None] = {}
        self._depths: dict[str, int] = {}
        self._scopes = 0
        for region in kernel.regions:
            self._count_scope(region)
        self._leave_out_overlaps()
        self.steady.update(c for c, m in self._masks.items() if m is not None and self._is_pure(m))
        self._scopes = 0
        for region in kernel.regions:
            self._place_scope(region, 0)

    # --- first walk: the cells --------------------------------------------------------------

    def _count_scope(self, stmts: tuple[ir.Stmt, ...]) -> None:
        number, self._scopes = self._scopes, self._scopes + 1
        self._count(stmts, number)

    def _count(self, stmts: tuple[ir.Stmt, ...], scope: int) -> None:
        for stmt in stmts:
            found = [access for expr in ir.own_expressions(stmt) for access in self.loads(expr)]
            if isinstance(stmt, ir.Store) and stmt.buffer in self.fit:
                found.append(_access(stmt, stmt.value.dtype.lanes))
            self.accesses[id(stmt)] = tuple(found)
            for access in found:
                self._add(access, scope)
            if _opens_scope(stmt):
                self._count_scope(ir.inner_statements(stmt))
            else:
                self._count(ir.inner_statements(stmt), scope)

    def loads(self, expr: ir.Expr) -> tuple[_Access, ...]:
        """The accesses to registers in an expression, in order; expressions may be shared."""
        if isinstance(expr, ir.Const | ir.Var):
            return ()
        known = self.accesses.get(id(expr))
        if known is None:
            known = tuple([access for child in ir.children(expr) for access in self.loads(child)])
            if isinstance(expr, ir.Load) and expr.buffer in self.fit:
                known = (*known, _access(expr, expr.dtype.lanes))
            self.accesses[id(expr)] = known
        return known

    def _add(self, access: _Access, scope: int) -> None:
        if access.first is None:
            self.fit.pop(access.buffer, None)
            return
        cell = scope, access.buffer, access.first
        if self.lanes.setdefault(cell, access.lanes) != access.lanes:
            self.fit.pop(access.buffer, None)
        if self._masks.setdefault(cell, access.mask) != access.mask:
            self._masks[cell] = None
        self._totals[cell] += 1

    def _leave_out_overlaps(self) -> None:
        """Cells of one row must not share elements."""
        ends: dict[Cell, int] = {}
        for (scope, buffer, first), lanes in sorted(self.lanes.items()):
            if first:
                row = scope, buffer, first[:-1]
                if first[-1] < ends.get(row, 0):
                    self.fit.pop(buffer, None)
                ends[row] = first[-1] + lanes

    def _is_pure(self, mask: ir.Expr) -> bool:
        calls = any(isinstance(node, ir.Call) for node in ir.walk(mask))
        return not calls and is_steady(mask, self._assigned.__contains__)

    # --- second walk: the declarations ------------------------------------------------------

    def _place_scope(self, stmts: tuple[ir.Stmt, ...], depth: int) -> None:
        number, self._scopes = self._scopes, self._scopes + 1
        self._place(stmts, number, depth, is_outermost=True)

    def _place(
        self, stmts: tuple[ir.Stmt, ...], scope: int, depth: int, *, is_outermost: bool = False
    ) -> dict[Cell, _CellUse]:
        """How a block uses cells, but for those that it declares: the innermost block around all
        uses, if the first of these gives a value, else the outermost, as the value may be that of
        an earlier iteration."""
        places: dict[int, list[Cell]] = {}
        self.places.append(places)
        touches: dict[Cell, _CellUse] = {}
        for position, stmt in enumerate(stmts):
            self._depths |= dict.fromkeys(declared(stmt), depth)
            for cell, touch in self._inside(stmt, scope, depth).items():
                known = touches.setdefault(cell, _CellUse(0, touch.is_written, position))
                known.count += touch.count
        for cell, touch in list(touches.items()):
            has_all = touch.count == self._totals[cell]
            if (has_all and self._is_settled(cell, touch, depth)) or is_outermost:
                places.setdefault(touch.position, []).append(cell)
                del touches[cell]
        return touches

    def _is_settled(self, cell: Cell, touch: _CellUse, depth: int) -> bool:
        """Whether no value is older than the block, which has all uses of the cell."""
        mask = self._masks[cell] if cell in self.steady else None
        names = names_in(mask) if mask is not None else ()
        changes = any(self._depths[name] >= depth for name in names)
        if names and (changes or not touch.is_written):
            self.steady.discard(cell)
            touch.is_written = False
        return touch.is_written

    def _inside(self, stmt: ir.Stmt, scope: int, depth: int) -> dict[Cell, _CellUse]:
        own = self.touches(stmt, scope)
        match stmt:
            case ir.For(body=body) | ir.Grid(body=body) if _opens_scope(stmt):
                self._place_scope(body, depth + 1)
            case ir.For(body=body):
                inner = self._place(body, scope, depth + 1)
                _join(own, inner, is_certain=bool(iterations(stmt)))
            case ir.If(then=then, otherwise=otherwise):
                yes, no = (self._place(b, scope, depth + 1) for b in (then, otherwise))
                for cell in {**yes, **no}:  # in an order that no hash decides
                    parts = [t[cell] for t in (yes, no) if cell in t]
                    is_written = len(parts) == 2 and all(t.is_written for t in parts)
                    count = sum(t.count for t in parts)
                    _join(own, {cell: _CellUse(count, is_written)}, is_certain=True)
        return own

    def touches(self, stmt: ir.Stmt, scope: int) -> dict[Cell, _CellUse]:
        """How the expressions of a statement, and itself if it is a store, use cells."""
        found: dict[Cell, _CellUse] = {}
        for access in self.accesses[id(stmt)]:
            if access.buffer in self.fit:
                assert access.first is not None
                cell = scope, access.buffer, access.first
                is_whole = access.is_store and (access.mask is None or cell in self.steady)
                found.setdefault(cell, _CellUse(0, is_whole)).count += 1
        return found


def _join(own: dict[Cell, _CellUse], inner: dict[Cell, _CellUse], *, is_certain: bool) -> None:
    for cell, touch in inner.items():
        first = _CellUse(0, touch.is_written and is_certain)
        own.setdefault(cell, first).count += touch.count


def _access(node: ir.Load | ir.Store, lanes: int) -> _Access:
    return _Access(node.buffer, _first_element(node), lanes, node.mask, isinstance(node, ir.Store))


def _opens_scope(stmt: ir.Stmt) -> bool:
    """Whether what is in a statement has registers of its own."""
    return isinstance(stmt, ir.Grid) or (isinstance(stmt, ir.For) and stmt.parallel)


def _first_element(access: ir.Load | ir.Store) -> tuple[int, ...] | None:
    """The constant indices of the first lane, if the lanes are an aligned group of a row.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> row, lanes = ir.Const(2, INT64), ir.Ramp(ir.Const(8, INT64), 1, INT64.vector(4))
    >>> _first_element(ir.Load("r", (row, lanes), FLOAT32.vector(4)))
    (2, 8)
    """
    found: list[int] = []
    for position, index in enumerate(access.indices):
        match index:
            case ir.Const(value=value, dtype=dtype) if dtype.lanes == 1:
                found.append(int(value))
            case ir.Ramp(base=ir.Const(value=value), step=1, dtype=dtype) if (
                position == len(access.indices) - 1 and int(value) % dtype.lanes == 0
            ):
                found.append(int(value))
            case _:
                return None
    return tuple(found)
