"""The rules that a well-formed kernel keeps, checked after each pass that makes one.

`_expression_rules`, `_statement_rules` and `_buffer_rules` are the list: pairs of what must hold
and what to say where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tc.builtins import BUILTINS
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, DType, fits
from tc.errors import InternalError
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
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
    Unary,
    Var,
    children,
    row_major,
    unknown_node,
)
from tc.kernel.printer import expression_text, statement_lines

Rules: TypeAlias = "Iterator[tuple[bool, str]]"

_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "min", "max"))
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_ROLES = ("input", "output", "temporary")


def verify(kernel: Kernel) -> None:
    """Raises InternalError, naming the node and the rule, unless the kernel is well formed.

    >>> verify(Kernel("empty", (), ()))
    """
    names = [b.name for b in kernel.buffers]
    for buffer in kernel.buffers:
        _check(kernel, f"buffer {buffer.name}", _buffer_rules(buffer, names))
    roles = [_ROLES.index(b.role) for b in kernel.buffers]
    _check(kernel, "buffers", iter([(roles == sorted(roles), "they are out of calling order")]))
    strangers = sorted(kernel.initial - {b.name for b in kernel.buffers if b.role == "output"})
    _check(kernel, "initial", iter([(not strangers, f"{strangers} are no outputs")]))
    for number, site in enumerate(kernel.sites):
        known = site.kind in ("read", "division")
        _check(kernel, f"site {number}", iter([(known, f"unknown kind '{site.kind}'")]))
    shared = _Shared(kernel, {b.name: b for b in kernel.buffers})
    for region in kernel.regions:
        _check_block(region, _Scope(shared))


@dataclass(frozen=True)
class _Shared:
    """What holds for the whole kernel; the dicts grow as its names and Fails are met."""

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    dtypes: dict[str, DType] = field(default_factory=dict)
    fail_counts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Scope:
    """The names that a block sees: loop variables, locals, and which of the locals it may set
    (none from outside of the parallel loop that it stands in)."""

    shared: _Shared
    visible: Mapping[str, DType] = field(default_factory=dict)
    settable: frozenset[str] = frozenset()
    in_parallel: bool = False

    def declare(self, name: str, dtype: DType, *, settable: bool) -> _Scope:
        self.shared.dtypes.setdefault(name, dtype)
        return replace(
            self,
            visible={**self.visible, name: dtype},
            settable=self.settable | {name} if settable else self.settable,
        )


def _check(kernel: Kernel, node: Expr | Stmt | str, rules: Rules) -> None:
    for holds, reason in rules:
        if not holds:
            text = f"kernel {kernel.name} is ill-formed: in '{_title(node)}': {reason}"
            raise InternalError(text)


def _check_block(stmts: tuple[Stmt, ...], scope: _Scope) -> None:
    for stmt in stmts:
        _check(scope.shared.kernel, stmt, _statement_rules(stmt, scope))
        match stmt:
            case For(var=var, begin=begin, end=end, body=body, parallel=parallel):
                _check_all((begin, end), scope)
                inner = scope.declare(var, INT64, settable=False)
                if parallel:
                    inner = replace(inner, in_parallel=True, settable=frozenset())
                _check_block(body, inner)
            case If(condition=condition, then=then, otherwise=otherwise):
                _check_expr(condition, scope)
                _check_block(then, scope)
                _check_block(otherwise, scope)
            case Let(var=var, value=value):
                _check_expr(value, scope)
                scope = scope.declare(var, value.dtype, settable=True)
            case Set(value=value):
                _check_expr(value, scope)
            case Store(indices=indices, value=value):
                _check_all(indices, scope)
                _check_expr(value, scope, half=isinstance(value, Cast))
            case Fail(values=values):
                _check_all(values, scope)
            case Comment():
                pass
            case _:
                raise unknown_node(stmt)


def _check_all(exprs: tuple[Expr, ...], scope: _Scope) -> None:
    for expr in exprs:
        _check_expr(expr, scope)


def _check_expr(expr: Expr, scope: _Scope, *, half: bool = False) -> None:
    """`half`: the expression stands where a FLOAT16 is allowed."""
    _check(scope.shared.kernel, expr, _expression_rules(expr, scope))
    allowed = half or expr.dtype != FLOAT16
    reason = "float16 stands only directly below a cast to float32, or is the cast of a store"
    _check(scope.shared.kernel, expr, iter([(allowed, reason)]))
    widens = isinstance(expr, Cast) and expr.dtype == FLOAT32
    for child in children(expr):
        _check_expr(child, scope, half=widens and isinstance(child, Load | Cast))


def _buffer_rules(buffer: Buffer, names: list[str]) -> Rules:
    yield names.count(buffer.name) == 1, "two buffers have this name"
    yield buffer.role in _ROLES, f"unknown role '{buffer.role}'"
    yield len(buffer.shape) == len(buffer.strides), "the strides are not one per dimension"
    yield all(extent >= 0 for extent in buffer.shape), "an extent is negative"
    dense = buffer.role == "input" or buffer.strides == row_major(buffer.shape)
    yield dense, "outputs and temporaries are row-major"


def _statement_rules(stmt: Stmt, scope: _Scope) -> Rules:
    match stmt:
        case For(var=var, begin=begin, end=end, parallel=parallel):
            yield from _declaration_rules(var, INT64, scope)
            yield begin.dtype == INT64 and end.dtype == INT64, "the bounds are not int64"
            yield not (parallel and scope.in_parallel), "a parallel loop inside another"
        case If(condition=condition):
            yield condition.dtype == BOOL, f"the condition is {condition.dtype}, not bool"
        case Let(var=var, value=value):
            yield from _declaration_rules(var, value.dtype, scope)
        case Set(var=var, value=value):
            yield var in scope.visible, f"'{var}' is not declared here"
            yield var in scope.settable, f"'{var}' is no local that may be set here"
            yield value.dtype == scope.visible[var], f"'{var}' is {scope.visible[var]}"
        case Store(buffer=name, indices=indices, value=value):
            yield from _access_rules(name, indices, scope)
            buffer = scope.shared.buffers[name]
            yield buffer.role != "input", f"'{name}' is an input"
            yield value.dtype == buffer.dtype, f"'{name}' is {buffer.dtype}, not {value.dtype}"
        case Fail(site=number, values=values):
            yield from _fail_rules(number, values, scope)
        case Comment(text=text):
            yield "\n" not in text, "a comment has one line"
        case _:
            raise unknown_node(stmt)


def _expression_rules(expr: Expr, scope: _Scope) -> Rules:
    dtype = expr.dtype
    match expr:
        case Const(value=value):
            yield _is_representable(value, dtype), f"{value!r} is no {dtype}"
        case Var(name=name):
            yield name in scope.visible, f"'{name}' is not declared here"
            yield scope.visible[name] == dtype, f"'{name}' is {scope.visible[name]}, not {dtype}"
        case Load(buffer=name, indices=indices):
            yield from _access_rules(name, indices, scope)
            own = scope.shared.buffers[name].dtype
            yield own == dtype, f"'{name}' is {own}, not {dtype}"
        case Unary(op=op, operand=operand):
            yield op == "-", f"unknown operator '{op}'"
            yield dtype != BOOL, "arithmetic on bool"
            yield from _same_types((operand,), dtype)
        case Binary(op=op, left=left, right=right):
            yield op in _ARITHMETIC, f"unknown operator '{op}'"
            yield dtype != BOOL or op in ("min", "max"), "arithmetic on bool"
            yield from _same_types((left, right), dtype)
        case Compare(op=op, left=left, right=right):
            yield op in _RELATIONS, f"unknown operator '{op}'"
            yield dtype == BOOL, "a comparison is bool"
            yield left.dtype == right.dtype, f"the operands are {left.dtype} and {right.dtype}"
        case Logical(op=op, operands=operands):
            yield op in ("&&", "||", "!"), f"unknown operator '{op}'"
            yield len(operands) == (1 if op == "!" else 2), f"{len(operands)} operands"
            yield dtype == BOOL, "a logical operation is bool"
            yield from _same_types(operands, BOOL)
        case Select(condition=condition, then=then, otherwise=otherwise):
            yield condition.dtype == BOOL, f"the condition is {condition.dtype}, not bool"
            yield from _same_types((then, otherwise), dtype)
        case Call(function=function, args=args):
            yield function in BUILTINS, f"unknown function '{function}'"
            arity = BUILTINS[function].arity
            yield len(args) == arity, f"{len(args)} arguments instead of {arity}"
            real = dtype in (FLOAT32, FLOAT64) or (
                BUILTINS[function].rule == "keep" and dtype.is_integer
            )
            yield real, f"'{function}' does not compute in {dtype}"
            yield from _same_types(args, dtype)
        case Cast():
            pass
        case _:
            raise unknown_node(expr)


def _declaration_rules(name: str, dtype: DType, scope: _Scope) -> Rules:
    yield name not in scope.visible, f"'{name}' shadows a name of an enclosing block"
    yield name not in scope.shared.buffers, f"'{name}' is a buffer"
    other = scope.shared.dtypes.get(name, dtype)
    yield other == dtype, f"'{name}' is {other} elsewhere in the kernel, {dtype} here"


def _access_rules(name: str, indices: tuple[Expr, ...], scope: _Scope) -> Rules:
    yield name in scope.shared.buffers, f"unknown buffer '{name}'"
    rank = len(scope.shared.buffers[name].shape)
    yield len(indices) == rank, f"{len(indices)} indices for rank {rank}"
    yield all(index.dtype == INT64 for index in indices), "an index is not int64"


def _fail_rules(number: int, values: tuple[Expr, ...], scope: _Scope) -> Rules:
    sites = scope.shared.kernel.sites
    yield 0 <= number < len(sites), f"unknown site {number}"
    site, count = sites[number], len(values)
    names = len(site.variables)
    fits = count == names if site.kind == "division" else count > names
    yield fits, f"{count} values for the {site.kind} of ({', '.join(site.variables)})"
    known = scope.shared.fail_counts.setdefault(number, count)
    yield count == known, f"{count} values where another Fail of the site has {known}"
    yield all(value.dtype == INT64 for value in values), "a value is not int64"


def _same_types(operands: tuple[Expr, ...], dtype: DType) -> Rules:
    for operand in operands:
        yield operand.dtype == dtype, f"an operand is {operand.dtype}, not {dtype}"


def _is_representable(value: float, dtype: DType) -> bool:
    if dtype == BOOL:
        return isinstance(value, bool)
    if dtype.is_integer:
        return type(value) is int and fits(value, dtype)
    if dtype == FLOAT16 or type(value) is not float:
        return False
    with np.errstate(over="ignore"):
        return value != value or dtype == FLOAT64 or float(np.float32(value)) == value


def _title(node: Expr | Stmt | str) -> str:
    match node:
        case str():
            return node
        case For() | If() | Let() | Set() | Store() | Fail() | Comment():
            return next(statement_lines(node))
        case _:
            return expression_text(node)
