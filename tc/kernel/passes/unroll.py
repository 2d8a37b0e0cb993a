"""Unrolling: loops marked "unroll" as straight-line code, a copy of the body for each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.affine.intervals import Interval
from tc.kernel import ir, rebuild
from tc.kernel.folding import integer, is_constant
from tc.kernel.intervals import interval, launch_intervals, loop_interval
from tc.kernel.local_names import LocalNames
from tc.kernel.pass_manager import UNROLL_LIMIT
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
        kernel, lambda region: copier.block(region, _Scope({}, {}, substitution.afresh()))
    )


@dataclass(frozen=True)
class _Scope:
    """What the copies of a block see: values for variables, the bounds of others, and the locals
    that they have in common, by id of the value."""

    values: Mapping[str, ir.Expr]
    bounds: dict[str, Interval]
    substitution: rebuild.Substitution
    common: dict[int, tuple[ir.Expr, ir.Var]] = field(default_factory=dict)

    def __call__(self, expr: ir.Expr) -> ir.Expr:
        return self.substitution.apply(expr, self.values, self.bounds)

    def having(self, var: str, value: ir.Expr) -> _Scope:
        values = {**self.values, var: value}
        return _Scope(values, self.bounds, self.substitution, self.common)

    def inside(self, limits: Mapping[str, Interval]) -> _Scope:
        """The scope of a block in this one, with the limits of its loop variable."""
        return _Scope(self.values, {**self.bounds, **limits}, self.substitution.afresh())


@dataclass(frozen=True)
class _Copier:
    names: LocalNames
    assigned: set[str]  # the locals that a Set changes, by old and new names
    limit: int
    sizes: dict[int, int] = field(default_factory=dict)  # by id of the statement
    integers: dict[int, ir.Const] = field(default_factory=dict)

    def block(self, block: rebuild.Stmts, scope: _Scope) -> rebuild.Stmts:
        return rebuild.same_or(block, self.statements(block, scope, is_copy=False))

    def statements(self, stmts: rebuild.Stmts, scope: _Scope, *, is_copy: bool) -> list[ir.Stmt]:
        """The statements with variables replaced, also locals that are constant; in a copy of a
        body, which shares a block with others, locals get new names."""
        out: list[ir.Stmt] = []
        for stmt in stmts:
            match stmt:
                case ir.Store(mask=mask) if mask is not None:
                    test = scope(mask)
                    if not is_constant(test, False):
                        whole = (
                            rebuild.changed(stmt, mask=None) if is_constant(test, True) else stmt
                        )
                        out.append(rebuild.map_expressions(whole, scope))
                case ir.Let(var=var, value=value):
                    new = scope(value)
                    known = self.known(new, scope) if var not in self.assigned else None
                    if known is not None:
                        scope = scope.having(var, known)
                        continue
                    name = self.names.fresh(var) if is_copy else var
                    if new.dtype.is_integer and var not in self.assigned:
                        scope.bounds[name] = interval(new, scope.bounds)
                    if name != var:
                        scope = scope.having(var, ir.Var(name, new.dtype))
                    if var in self.assigned:
                        self.assigned.add(name)
                    elif is_steady(new, self.assigned.__contains__):
                        scope.common[id(new)] = new, ir.Var(name, new.dtype)
                    out.append(rebuild.changed(stmt, var=name, value=new))
                case ir.Set(var=var, value=value):
                    own = scope.values.get(var)
                    name = own.name if isinstance(own, ir.Var) else var
                    out.append(rebuild.changed(stmt, var=name, value=scope(value)))
                case ir.For():
                    out += self.loop(stmt, scope)
                case ir.If():
                    out += self.branch(stmt, scope)
                case ir.Grid():
                    out.append(self.grid(stmt, scope))
                case _:
                    out.append(rebuild.map_expressions(stmt, scope))
        return out

    def known(self, value: ir.Expr, scope: _Scope) -> ir.Expr | None:
        """What may stand for a local with this value: the constant, or the local of another copy
        of the same body."""
        if isinstance(value, ir.Const):
            return value
        found = scope.common.get(id(value))
        return None if found is None else found[1]

    def loop(self, stmt: ir.For, scope: _Scope) -> list[ir.Stmt]:
        var = stmt.var
        begin, end = scope(stmt.begin), scope(stmt.end)
        match begin, end:
            case ir.Const(value=first), ir.Const(value=last) if last <= first:
                return []
            case ir.Const(value=first), ir.Const(value=last) if stmt.mark == "unroll":
                if unrolled_size(stmt, self.sizes) <= self.limit:
                    return [
                        copied
                        for i in range(int(first), int(last))
                        for copied in self.statements(
                            stmt.body, scope.having(var, self.integer(i)), is_copy=True
                        )
                    ]
        limits = loop_interval(begin, end, scope.bounds)
        body = self.block(stmt.body, scope.inside({var: limits}))
        mark = "" if stmt.mark == "unroll" else stmt.mark
        return [rebuild.changed(stmt, begin=begin, end=end, body=body, mark=mark)] if body else []

    def grid(self, stmt: ir.Grid, scope: _Scope) -> ir.Grid:
        """The number of the only block, or thread, along a dimension is 0."""
        inside = scope.inside(launch_intervals(stmt))
        for var, limits in launch_intervals(stmt).items():
            if limits == (0, 0):
                inside = inside.having(var, self.integer(0))
        return rebuild.changed(stmt, body=self.block(stmt.body, inside))

    def integer(self, value: int) -> ir.Const:
        """Always the same object, as `Substitution` needs."""
        return self.integers.setdefault(value, integer(value))

    def branch(self, stmt: ir.If, scope: _Scope) -> list[ir.Stmt]:
        condition = scope(stmt.condition)
        if isinstance(condition, ir.Const):
            taken = stmt.then if condition.value else stmt.otherwise
            return self.statements(taken, scope, is_copy=True)
        then, otherwise = (self.block(b, scope.inside({})) for b in (stmt.then, stmt.otherwise))
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
