"""Unrolling: loops marked "unroll" as straight-line code, a copy of the body for each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tc.affine.intervals import surely
from tc.extents.sizes import as_integer, is_tracked
from tc.kernel import ir, rebuild
from tc.kernel.folding import integer, is_constant
from tc.kernel.intervals import launch_intervals
from tc.kernel.pass_manager import UNROLL_LIMIT
from tc.kernel.rebuild import LocalNames
from tc.kernel.walk import assigned, is_steady, iterations


def unroll(kernel: ir.Kernel, *, limit: int = UNROLL_LIMIT) -> ir.Kernel:
    """The kernel without loops marked "unroll", the arithmetic of their variables folded.

    A nest of such loops becomes `limit` statements at most; where it would be more, inner loops
    are unrolled and outer ones stay: what is reused most lies innermost.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.printer import to_text
    >>> i = ir.Var("i", INT64)
    >>> body = ir.Store("o", (i,), ir.Binary("*", i, i, INT64))
    >>> print(to_text(unroll(ir.Kernel(
    ...     "squares",
    ...     (ir.Buffer("o", INT64, (3,), (1,), "output"),),
    ...     ((ir.For("i", ir.Const(0, INT64), ir.Const(3, INT64), (body,), mark="unroll"),),),
    ... ))))
    kernel squares
      output o: int64[3]
    region
      o[0] = 0
      o[1] = 1
      o[2] = 4
    """
    copier = _Copier(LocalNames(kernel), set(assigned(kernel)), limit)
    substitution = rebuild.Substitution()
    return rebuild.map_regions(
        kernel, lambda region: copier.block(region, _Copies(copier.scope, substitution.afresh()))
    )


@dataclass(frozen=True)
class _Copies:
    """What the copies of a block see: values for variables, and the locals that they have in
    common, by id of the value; `scope` knows the bounds of the variables that are left."""

    scope: rebuild.Scope
    substitution: rebuild.Substitution
    values: Mapping[str, ir.Expr] = field(default_factory=dict)
    common: dict[int, tuple[ir.Expr, ir.Var]] = field(default_factory=dict)

    def __call__(self, expr: ir.Expr) -> ir.Expr:
        return self.substitution.apply(expr, self.values, self.scope.bounds)

    def having(self, var: str, value: ir.Expr) -> _Copies:
        return replace(self, values={**self.values, var: value})

    def inside(self) -> _Copies:
        """The copies of a block inside this one, where variables have other bounds."""
        return _Copies(self.scope, self.substitution.afresh(), self.values)


class _Copier:
    def __init__(self, names: LocalNames, assigned: set[str], limit: int) -> None:
        self.names = names
        self.assigned = assigned  # the locals that a Set changes, by old and new names
        self.limit = limit
        self.scope = rebuild.Scope(assigned)
        self.sizes: dict[int, int] = {}  # by id of the statement
        self.integers: dict[int, ir.Const] = {}

    def block(self, block: rebuild.Stmts, copies: _Copies) -> rebuild.Stmts:
        with self.scope.block():
            return rebuild.same_or(block, self.statements(block, copies, is_copy=False))

    def statements(self, stmts: rebuild.Stmts, copies: _Copies, *, is_copy: bool) -> list[ir.Stmt]:
        """The statements with variables replaced, also locals that are constant; in a copy of a
        body, which shares a block with others, locals get new names."""
        out: list[ir.Stmt] = []
        for stmt in stmts:
            match stmt:
                case ir.Store(mask=mask) if mask is not None:
                    test = copies(mask)
                    if not is_constant(test, False):
                        whole = (
                            rebuild.changed(stmt, mask=None) if is_constant(test, True) else stmt
                        )
                        out.append(rebuild.map_expressions(whole, copies))
                case ir.Let(var=var, value=value):
                    new = copies(value)
                    known = self.known(new, copies) if var not in self.assigned else None
                    if known is not None:
                        copies = copies.having(var, known)
                        continue
                    name = self.names.fresh(var) if is_copy else var
                    if name != var:
                        copies = copies.having(var, ir.Var(name, new.dtype))
                    if var in self.assigned:
                        self.assigned.add(name)
                    elif is_steady(new, self.assigned.__contains__):
                        copies.common[id(new)] = new, ir.Var(name, new.dtype)
                    out.append(rebuild.changed(stmt, var=name, value=new))
                    self.scope.learn(out[-1])
                case ir.Set(var=var, value=value):
                    own = copies.values.get(var)
                    name = own.name if isinstance(own, ir.Var) else var
                    out.append(rebuild.changed(stmt, var=name, value=copies(value)))
                case ir.For():
                    out += self.loop(stmt, copies)
                case ir.If():
                    out += self.branch(stmt, copies)
                case ir.Grid():
                    out.append(self.grid(stmt, copies))
                case _:
                    out.append(rebuild.map_expressions(stmt, copies))
        return out

    def known(self, value: ir.Expr, copies: _Copies) -> ir.Expr | None:
        """What may stand for a local with this value: the constant, or the local of another copy
        of the same body."""
        if isinstance(value, ir.Const):
            return value
        found = copies.common.get(id(value))
        return None if found is None else found[1]

    def loop(self, stmt: ir.For, copies: _Copies) -> list[ir.Stmt]:
        var = stmt.var
        begin, end = copies(stmt.begin), copies(stmt.end)
        match begin, end:
            case ir.Const(value=first), ir.Const(value=last) if surely(
                as_integer(last), "<=", as_integer(first)
            ):
                return []
            case ir.Const(value=first), ir.Const(value=last) if stmt.mark == "unroll" and not (
                is_tracked(first) or is_tracked(last)
            ):
                if unrolled_size(stmt, self.sizes) <= self.limit:
                    return [
                        copied
                        for i in range(int(first), int(last))
                        for copied in self.statements(
                            stmt.body, copies.having(var, self.integer(i)), is_copy=True
                        )
                    ]
        mark = "" if stmt.mark == "unroll" else stmt.mark
        new = rebuild.changed(stmt, begin=begin, end=end, mark=mark)
        with self.scope.inside(new):
            body = self.block(stmt.body, copies.inside())
        return [rebuild.changed(new, body=body)] if body else []

    def grid(self, stmt: ir.Grid, copies: _Copies) -> ir.Grid:
        """The number of the only block, or thread, along a dimension is 0."""
        inside = copies.inside()
        for var, limits in launch_intervals(stmt).items():
            if limits == (0, 0):
                inside = inside.having(var, self.integer(0))
        with self.scope.inside(stmt):
            return rebuild.changed(stmt, body=self.block(stmt.body, inside))

    def integer(self, value: int) -> ir.Const:
        """Always the same object, as `Substitution` needs."""
        return self.integers.setdefault(value, integer(value))

    def branch(self, stmt: ir.If, copies: _Copies) -> list[ir.Stmt]:
        condition = copies(stmt.condition)
        if isinstance(condition, ir.Const):
            taken = stmt.then if condition.value else stmt.otherwise
            return self.statements(taken, copies, is_copy=True)
        then, otherwise = (self.block(b, copies.inside()) for b in (stmt.then, stmt.otherwise))
        new = rebuild.changed(stmt, condition=condition, then=then, otherwise=otherwise)
        return [new] if new.then or new.otherwise else []


def unrolled_size(stmt: ir.Stmt, known: dict[int, int]) -> int:
    """The statements that one becomes when all marked loops in it are unrolled; `known` keeps that
    by the identity of the statement.

    >>> from tc.dtypes import BOOL, INT64
    >>> stmt = ir.Comment("two")
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(3, INT64), (stmt, stmt), mark="unroll")
    >>> unrolled_size(loop, {}), unrolled_size(ir.If(ir.Const(True, BOOL), (loop,)), {})
    (6, 7)
    """
    if id(stmt) not in known:
        inside = sum(unrolled_size(each, known) for each in ir.inner_statements(stmt))
        match stmt:
            case ir.For(begin=ir.Const(), end=ir.Const(), mark="unroll"):
                known[id(stmt)] = inside * len(iterations(stmt))
            case _:
                known[id(stmt)] = 1 + inside
    return known[id(stmt)]
