"""The survey before scalar replacement: which elements of registers may be locals, and where these
must be declared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from tc.kernel import ir
from tc.kernel.walk import assigned, declared, is_steady, iterations, names_in

Cell: TypeAlias = "tuple[int, str, tuple[int, ...]]"
"""What becomes one local: a scope, a buffer, and the indices of the first element.

A scope is a region or the body of a grid or parallel loop: registers are unwritten at its start and
its end, so cells of different scopes have nothing in common. Scopes and blocks have numbers, in the
order in which a walk through the kernel meets them."""


@dataclass(slots=True)
class CellUse:
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


class RegisterSurvey:
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
            if opens_scope(stmt):
                self._count_scope(ir.inner_statements(stmt))
            else:
                self._count(ir.inner_statements(stmt), scope)

    def loads(self, expr: ir.Expr) -> tuple[_Access, ...]:
        """Those of registers in an expression, in order; expressions may be shared."""
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
    ) -> dict[Cell, CellUse]:
        """How a block uses cells, but for those that it declares: the innermost block around all
        uses, if the first of these gives a value, else the outermost, as the value may be that of
        an earlier iteration."""
        places: dict[int, list[Cell]] = {}
        self.places.append(places)
        touches: dict[Cell, CellUse] = {}
        for position, stmt in enumerate(stmts):
            self._depths |= dict.fromkeys(declared(stmt), depth)
            for cell, touch in self._inside(stmt, scope, depth).items():
                known = touches.setdefault(cell, CellUse(0, touch.is_written, position))
                known.count += touch.count
        for cell, touch in list(touches.items()):
            has_all = touch.count == self._totals[cell]
            if (has_all and self._is_settled(cell, touch, depth)) or is_outermost:
                places.setdefault(touch.position, []).append(cell)
                del touches[cell]
        return touches

    def _is_settled(self, cell: Cell, touch: CellUse, depth: int) -> bool:
        """Whether no value is older than the block, which has all uses of the cell."""
        mask = self._masks[cell] if cell in self.steady else None
        names = names_in(mask) if mask is not None else ()
        changes = any(self._depths[name] >= depth for name in names)
        if names and (changes or not touch.is_written):
            self.steady.discard(cell)
            touch.is_written = False
        return touch.is_written

    def _inside(self, stmt: ir.Stmt, scope: int, depth: int) -> dict[Cell, CellUse]:
        own = self.touches(stmt, scope)
        match stmt:
            case ir.For(body=body) | ir.Grid(body=body) if opens_scope(stmt):
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
                    _join(own, {cell: CellUse(count, is_written)}, is_certain=True)
        return own

    def touches(self, stmt: ir.Stmt, scope: int) -> dict[Cell, CellUse]:
        """How the expressions of a statement, and itself if it is a store, use cells."""
        found: dict[Cell, CellUse] = {}
        for access in self.accesses[id(stmt)]:
            if access.buffer in self.fit:
                assert access.first is not None
                cell = scope, access.buffer, access.first
                is_whole = access.is_store and (access.mask is None or cell in self.steady)
                found.setdefault(cell, CellUse(0, is_whole)).count += 1
        return found


def _join(own: dict[Cell, CellUse], inner: dict[Cell, CellUse], *, is_certain: bool) -> None:
    for cell, touch in inner.items():
        first = CellUse(0, touch.is_written and is_certain)
        own.setdefault(cell, first).count += touch.count


def _access(node: ir.Load | ir.Store, lanes: int) -> _Access:
    return _Access(node.buffer, first_element(node), lanes, node.mask, isinstance(node, ir.Store))


def opens_scope(stmt: ir.Stmt) -> bool:
    """Whether what is in a statement has registers of its own."""
    return isinstance(stmt, ir.Grid) or (isinstance(stmt, ir.For) and stmt.parallel)


def first_element(access: ir.Load | ir.Store) -> tuple[int, ...] | None:
    """The constant indices of the first lane, if the lanes are an aligned group of a row.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> row, lanes = ir.Const(2, INT64), ir.Ramp(ir.Const(8, INT64), 1, INT64.vector(4))
    >>> first_element(ir.Load("r", (row, lanes), FLOAT32.vector(4)))
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
