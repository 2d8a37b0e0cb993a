"""From a shaped program to a kernel: statements in text order, each a loop nest.

Left-hand variables are the outer loops, in order, the first of them parallel; reduction
variables are the inner loops, in order of appearance, around one accumulator. Both are free
(000: the order never changes the result), so a later scheduler may choose better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tc.dtypes import BOOL, INT64, DType, compute_dtype
from tc.kernel.ir import (
    Buffer,
    Comment,
    Const,
    Expr,
    Kernel,
    Let,
    Set,
    Site,
    Stmt,
    Store,
    Var,
    row_major,
)
from tc.kernel.verify import verify
from tc.polyhedral.expressions import Block, Scope, load, lower_expression
from tc.polyhedral.fills import starts_fresh, writes, zero_fills
from tc.polyhedral.folding import binary, cast, constant
from tc.polyhedral.loops import Loop, nest
from tc.polyhedral.naming import Names
from tc.semantics.program import Read, ShapedProgram, ShapedStatement, Statement, walk


def lower(
    shaped: ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    *,
    initial: frozenset[str],
    check: bool,
) -> Kernel:
    """The kernel of a program for the sizes of one call: a region or two for each statement.

    `strides` gives the strides, in elements, of inputs that are not row-major; `initial` names
    the outputs whose contents the caller passes (R3, R4); with `check`, reads and divisions that
    are not proven safe are tested (G7).
    """
    program = shaped.program
    indices = (name for statement in program.statements for name in statement.variables)
    names = Names(program.tensors, indices)
    sites: dict[tuple[int, int], Site] = {}
    fills = zero_fills(shaped, initial)
    regions: list[tuple[Stmt, ...]] = []
    for position, statement in enumerate(shaped.statements):
        regions += (_zero_fill(t, shaped, names) for t, first in fills.items() if first == position)
        if writes(statement, initial):
            loop_names = names.start_region(statement.statement.variables)
            scope = _scope(position, shaped, loop_names, names, sites)
            scope = replace(scope, checked=statement.checked if check else frozenset())
            regions.append(_region(statement, scope, loop_names, initial))
    kernel = Kernel(
        program.name,
        tuple(_buffers(shaped, strides)),
        tuple(regions),
        tuple(sites.values()),
        initial & frozenset(program.outputs),
    )
    verify(kernel)
    return kernel


def identity(op: str, dtype: DType) -> Const:
    """The value that a reduction by `op` starts at (R2).

    >>> identity("+", INT64).value, identity("min", BOOL).value
    (0, True)
    """
    match op:
        case "+" | "*":
            return constant(int(op == "*"), dtype)
        case _ if dtype == BOOL:
            return Const(op == "min", BOOL)
        case _ if dtype.is_float:
            return Const(math.inf if op == "min" else -math.inf, dtype)
        case _:
            info = np.iinfo(dtype.numpy.str)
            return Const(int(info.max if op == "min" else info.min), dtype)


def _buffers(shaped: ShapedProgram, strides: Mapping[str, tuple[int, ...]]) -> Iterator[Buffer]:
    program = shaped.program
    for name in (*program.inputs, *program.outputs, *program.temporaries):
        tensor, shape = program.tensors[name], shaped.shapes[name]
        given = strides.get(name) if tensor.role == "input" else None
        own = row_major(shape) if given is None else given
        yield Buffer(name, tensor.dtype, shape, own, tensor.role)


def _zero_fill(tensor: str, shaped: ShapedProgram, names: Names) -> tuple[Stmt, ...]:
    names.start_region(())
    loops = [Loop(names.fresh("i0", INT64), 0, extent) for extent in shaped.shapes[tensor]]
    dtype = shaped.program.tensors[tensor].dtype
    zero = cast(constant(0, compute_dtype(dtype)), dtype)
    body = (Store(tensor, tuple(loop.index for loop in loops), zero),)
    comment = Comment(f"{tensor} is 0 where nothing writes it")
    return (comment, *nest(loops, body, names, parallel=True))


# --- statements -------------------------------------------------------------------------------


def _scope(
    position: int,
    shaped: ShapedProgram,
    loop_names: Mapping[str, str],
    names: Names,
    sites: dict[tuple[int, int], Site],
) -> Scope:
    """The scope of a statement, with the index variables known but no test made."""
    ranges = shaped.statements[position].ranges
    loops = {v: Loop(n, ranges[v].begin, ranges[v].extent) for v, n in loop_names.items()}
    variables = {v: loop.index for v, loop in loops.items()}
    bounds = {loop.name: (loop.begin, loop.begin + loop.extent - 1) for loop in loops.values()}
    return Scope(shaped, position, variables, frozenset(), names, bounds=bounds, sites=sites)


def _region(
    shaped_statement: ShapedStatement,
    scope: Scope,
    loop_names: Mapping[str, str],
    initial: frozenset[str],
) -> tuple[Stmt, ...]:
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    outer, inner = (
        [Loop(loop_names[v], ranges[v].begin, ranges[v].extent) for v in variables]
        for variables in (statement.outer, statement.reduction)
    )
    lets, scalars = _load_scalars(shaped_statement, scope)
    block = Block(replace(scope, scalars=scalars))
    place = tuple(lower_expression(subscript, block) for subscript in statement.subscripts)
    is_fresh = starts_fresh(shaped_statement, initial)
    body: tuple[Stmt, ...]
    if shaped_statement.is_empty:
        dtype = compute_dtype(scope.shaped.program.tensors[statement.target].dtype)
        body = (_store(statement.target, place, identity(statement.op, dtype), scope),)
    elif any(loop.extent > 1 for loop in inner):
        body = _accumulate(statement, place, inner, block, is_fresh=is_fresh)
    else:
        term = lower_expression(statement.rhs, block)
        if statement.op != "=":
            before = None if is_fresh else load(scope, statement.target, place)
            term = _combine(statement.op, before, term)
        body = (*block.stmts, _store(statement.target, place, term, scope))
    return (_comment(statement), *lets, *nest(outer, body, scope.names, parallel=True))


def _accumulate(
    statement: Statement,
    place: tuple[Expr, ...],
    inner: list[Loop],
    block: Block,
    *,
    is_fresh: bool,
) -> tuple[Stmt, ...]:
    """The reduction loops around a local, which is stored once; half accumulates in float32."""
    scope, dtype = block.scope, statement.rhs.dtype
    acc = Var(scope.names.fresh("acc", dtype), dtype)
    start = identity(statement.op, dtype) if is_fresh else load(scope, statement.target, place)
    term = lower_expression(statement.rhs, block)
    step = Set(acc.name, binary(statement.op, acc, term))
    loops = nest(inner, (*block.stmts, step), scope.names)
    return (Let(acc.name, start), *loops, _store(statement.target, place, acc, scope))


def _load_scalars(
    shaped_statement: ShapedStatement, scope: Scope
) -> tuple[tuple[Let, ...], dict[str, Var]]:
    """Locals for the tensors of rank 0 that the statement reads, which is before it writes (P1)."""
    statement, static = shaped_statement.statement, scope.shaped.scalars
    if shaped_statement.is_empty or all(r.extent == 1 for r in shaped_statement.ranges.values()):
        return (), {}
    read = (e.tensor for e in walk(statement.rhs) if isinstance(e, Read) and not e.subscripts)
    lets, scalars = [], {}
    for tensor in dict.fromkeys(read):
        if tensor not in static:
            value = load(scope, tensor, ())
            name = scope.names.fresh(f"{re.sub('[^A-Za-z0-9_]', '_', tensor)}_value", value.dtype)
            lets.append(Let(name, value))
            scalars[tensor] = Var(name, value.dtype)
    return tuple(lets), scalars


def _combine(op: str, before: Expr | None, term: Expr) -> Expr:
    """One step of a reduction; the first drops the identity, but 0.0 + -0.0 is 0.0."""
    if before is None:
        if op != "+" or not term.dtype.is_float:
            return term
        before = identity(op, term.dtype)
    return binary(op, before, term)


def _store(tensor: str, place: tuple[Expr, ...], value: Expr, scope: Scope) -> Store:
    return Store(tensor, place, cast(value, scope.shaped.program.tensors[tensor].dtype))


def _comment(statement: Statement) -> Comment:
    lines: Iterable[str] = statement.span.text.split("\n")
    return Comment(" ".join(" ".join(line.split("#")[0] for line in lines).split()))
