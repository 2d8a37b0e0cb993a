"""Loops marked "unroll" as straight-line code: a copy of the body for each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.kernel.folding import Interval, integer, interval, is_constant
from tc.kernel.ir import (
    Comment,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    statements,
    unknown_node,
    walk,
)
from tc.kernel.lanes import range_of
from tc.kernel.names import LocalNames
from tc.kernel.rebuild import Substitution

LIMIT = 4096


def unroll(kernel: Kernel, *, limit: int = LIMIT) -> Kernel:
    """The kernel without loops marked "unroll", the arithmetic of their variables folded.

    A nest of such loops becomes `limit` statements at most; where it would be more, inner loops
    are unrolled and outer ones stay: what is reused most lies innermost.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.ir import Binary, Buffer
    >>> from tc.kernel.printer import to_text
    >>> i = Var("i", INT64)
    >>> body = Store("o", (i,), Binary("*", i, i, INT64))
    >>> print(to_text(unroll(Kernel(
    ...     "squares",
    ...     (Buffer("o", INT64, (3,), (1,), "output"),),
    ...     ((For("i", Const(0, INT64), Const(3, INT64), (body,), mark="unroll"),),),
    ... ))))
    kernel squares
      output o: int64[3]
    region
      o[0] = 0
      o[1] = 1
      o[2] = 4
    """
    assigned = {stmt.var for r in kernel.regions for stmt in statements(r) if isinstance(stmt, Set)}
    copier = _Copier(LocalNames(kernel), assigned, limit)
    substitution = Substitution()
    regions = tuple(
        tuple(copier.block(region, _Scope({}, {}, substitution.afresh()), is_copy=False))
        for region in kernel.regions
    )
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


@dataclass(frozen=True)
class _Scope:
    """What the copies of a block see: values for variables, the bounds of others, and the locals
    that they have in common, by id of the value."""

    values: Mapping[str, Expr]
    bounds: dict[str, Interval]
    substitution: Substitution
    common: dict[int, tuple[Expr, Var]] = field(default_factory=dict)

    def __call__(self, expr: Expr) -> Expr:
        return self.substitution.apply(expr, self.values, self.bounds)

    def having(self, var: str, value: Expr) -> _Scope:
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
    integers: dict[int, Const] = field(default_factory=dict)

    def block(self, stmts: tuple[Stmt, ...], scope: _Scope, *, is_copy: bool) -> list[Stmt]:
        """The statements with variables replaced, also locals that are constant; in a copy of a
        body, which shares a block with others, locals get new names."""
        out: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Store(buffer=buffer, mask=None):
                    indices = tuple(map(scope, stmt.indices))
                    out.append(Store(buffer, indices, scope(stmt.value)))
                case Store():
                    out += _masked_store(stmt, scope)
                case Let(var=var, value=value):
                    new = scope(value)
                    known = self.known(new, scope) if var not in self.assigned else None
                    if known is not None:
                        scope = scope.having(var, known)
                        continue
                    name = self.names.fresh(var) if is_copy else var
                    if new.dtype.is_integer and var not in self.assigned:
                        scope.bounds[name] = interval(new, scope.bounds)
                    if name != var:
                        scope = scope.having(var, Var(name, new.dtype))
                    if var in self.assigned:
                        self.assigned.add(name)
                    elif self.is_steady(new):
                        scope.common[id(new)] = new, Var(name, new.dtype)
                    out.append(Let(name, new))
                case Set(var=var, value=value):
                    own = scope.values.get(var)
                    name = own.name if isinstance(own, Var) else var
                    out.append(Set(name, scope(value)))
                case For():
                    out += self.loop(stmt, scope)
                case If():
                    out += self.branch(stmt, scope)
                case Prefetch(buffer=buffer, indices=indices):
                    out.append(Prefetch(buffer, tuple(map(scope, indices))))
                case Fail(site=site, values=values):
                    out.append(Fail(site, tuple(map(scope, values))))
                case Comment():
                    out.append(stmt)
                case _:
                    raise unknown_node(stmt)
        return out

    def known(self, value: Expr, scope: _Scope) -> Expr | None:
        """What may stand for a local with this value: the constant, or the local of another copy
        of the same body."""
        if isinstance(value, Const):
            return value
        found = scope.common.get(id(value))
        return None if found is None else found[1]

    def is_steady(self, value: Expr) -> bool:
        """Whether the value would be the same later."""
        return not any(
            isinstance(node, Load) or (isinstance(node, Var) and node.name in self.assigned)
            for node in walk(value)
        )

    def loop(self, stmt: For, scope: _Scope) -> list[Stmt]:
        var = stmt.var
        begin, end = scope(stmt.begin), scope(stmt.end)
        match begin, end:
            case Const(value=first), Const(value=last) if last <= first:
                return []
            case Const(value=first), Const(value=last) if stmt.mark == "unroll":
                if unrolled_size(stmt, self.sizes) <= self.limit:
                    return [
                        copied
                        for i in range(int(first), int(last))
                        for copied in self.block(
                            stmt.body, scope.having(var, self.integer(i)), is_copy=True
                        )
                    ]
        limits = range_of(begin, end, scope.bounds)
        body = tuple(self.block(stmt.body, scope.inside({var: limits}), is_copy=False))
        mark = "" if stmt.mark == "unroll" else stmt.mark
        return [For(var, begin, end, body, stmt.parallel, mark)] if body else []

    def integer(self, value: int) -> Const:
        """Always the same object, as `Substitution` needs."""
        return self.integers.setdefault(value, integer(value))

    def branch(self, stmt: If, scope: _Scope) -> list[Stmt]:
        condition = scope(stmt.condition)
        if isinstance(condition, Const):
            taken = stmt.then if condition.value else stmt.otherwise
            return self.block(taken, scope, is_copy=True)
        then, otherwise = (
            tuple(self.block(b, scope.inside({}), is_copy=False))
            for b in (stmt.then, stmt.otherwise)
        )
        return [If(condition, then, otherwise)] if then or otherwise else []


def unrolled_size(stmt: Stmt, known: dict[int, int]) -> int:
    """The statements that one becomes when all marked loops in it are unrolled; `known` keeps that
    by the identity of the statement.

    >>> from tc.dtypes import BOOL, INT64
    >>> stmt = Comment("two")
    >>> loop = For("i", Const(0, INT64), Const(3, INT64), (stmt, stmt), mark="unroll")
    >>> unrolled_size(loop, {}), unrolled_size(If(Const(True, BOOL), (loop,)), {})
    (6, 7)
    """
    size = known.get(id(stmt))
    if size is None:
        size = known[id(stmt)] = _size(stmt, known)
    return size


def _size(stmt: Stmt, known: dict[int, int]) -> int:
    def total(stmts: tuple[Stmt, ...]) -> int:
        return sum(unrolled_size(each, known) for each in stmts)

    match stmt:
        case For(begin=Const(value=first), end=Const(value=last), body=body, mark="unroll"):
            return total(body) * max(0, int(last) - int(first))
        case For(body=body):
            return 1 + total(body)
        case If(then=then, otherwise=otherwise):
            return 1 + total(then) + total(otherwise)
        case _:
            return 1


def _masked_store(stmt: Store, scope: _Scope) -> list[Stmt]:
    assert stmt.mask is not None
    mask = scope(stmt.mask)
    if is_constant(mask, False):
        return []
    indices, value = tuple(map(scope, stmt.indices)), scope(stmt.value)
    return [Store(stmt.buffer, indices, value, None if is_constant(mask, True) else mask)]
