"""A kernel as text, for `explain`, snapshots and error messages; nothing parses it back.

Constants show their type: `3` is int64, `0.5` float64, `0.5f` float32, `int8(3)` any other.
`float32x16(x)` has x in all of its lanes, be it a constant or not. Lanes at consecutive elements
are a slice: `a[i, j:j + 16]`, those at every second `a[i, j:j + 32:2]`; other ramps are functions
of base and step. `a[i, j:j + 16 if m]` touches only the lanes where m is true. `stream a[...] = x`
is a store that needs no place in the caches (`Store.non_temporal`), `prefetch a[...]` a hint.
`blocks b in 0:2 of threads t in 0:4` is a launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from tc.builtins.operators import ATOM_LEVEL, LEVEL, UNARY_LEVEL, bracketed
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tc.kernel import ir
from tc.kernel.matrix_products import F16

PrintedNode: TypeAlias = ir.Expr | ir.Stmt | str
"""What an error is about; a string names what is no node."""

_CHOICE, _LOGICAL = LEVEL["?:"], LEVEL["||"]


def to_text(kernel: ir.Kernel) -> str:
    """The text of a whole kernel, one statement a line.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> i = ir.Var("i", INT64)
    >>> twice = ir.Binary("*", ir.Const(2.0, FLOAT32), ir.Load("a", (i,), FLOAT32), FLOAT32)
    >>> body = ir.Store("o", (i,), twice)
    >>> print(to_text(ir.Kernel(
    ...     "double",
    ...     (
    ...         ir.Buffer("a", FLOAT32, (4,), (2,), "input"),
    ...         ir.Buffer("o", FLOAT32, (4,), (1,), "output"),
    ...     ),
    ...     ((ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (body,), parallel=True),),),
    ... )))
    kernel double
      input a: float32[4] strides (2)
      output o: float32[4]
    region
      parallel for i in 0:4
        o[i] = 2.0f * a[i]
    """
    lines = [f"kernel {kernel.name}"]
    lines += [f"  {_buffer(buffer, kernel)}" for buffer in kernel.buffers]
    lines += [f"  {_site(number, site)}" for number, site in enumerate(kernel.sites)]
    for region in kernel.regions:
        lines.append("region")
        lines += [f"  {line}" for stmt in region for line in statement_lines(stmt)]
    return "\n".join(lines)


def statement_lines(stmt: ir.Stmt) -> Iterator[str]:
    """The lines of a statement and of those in it, indented by two spaces a level."""
    match stmt:
        case ir.For(var=var, begin=begin, end=end, body=body, parallel=parallel, mark=mark):
            kind = " ".join([*(["parallel"] if parallel else []), *([mark] if mark else []), "for"])
            yield f"{kind} {var} in {expression_text(begin)}:{expression_text(end)}"
            yield from _block(body)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            yield f"if {expression_text(condition)}"
            yield from _block(then)
            if otherwise:
                yield "else"
                yield from _block(otherwise)
        case ir.Let(var=var, value=value):
            yield f"let {var}: {value.dtype} = {expression_text(value)}"
        case ir.Set(var=var, value=value):
            yield f"{var} = {expression_text(value)}"
        case ir.Store(buffer=buffer, indices=indices, value=value, mask=mask, non_temporal=past):
            kind = "stream " if past else ""
            yield f"{kind}{_element(buffer, indices, mask)} = {expression_text(value)}"
        case ir.Atomic(buffer=buffer, indices=indices, op=op, value=value):
            yield f"atomic {_element(buffer, indices, None)} {op}= {expression_text(value)}"
        case ir.Prefetch(buffer=buffer, indices=indices):
            yield f"prefetch {_element(buffer, indices, None)}"
        case ir.Fail(site=site, values=values):
            yield f"fail {site} ({_list(values)})"
        case ir.Comment(text=text):
            yield f"# {text}"
        case ir.Grid(blocks=blocks, threads=threads, body=body):
            yield f"{_launch('block', blocks)} of {_launch('thread', threads)}"
            yield from _block(body)
        case ir.CopyAsync(count=count, condition=condition):
            many = f"{count} of " if count > 1 else ""
            test = "" if condition is None else f" if {expression_text(condition)}"
            source = _element(stmt.source, stmt.source_indices, None)
            yield f"copy {_element(stmt.buffer, stmt.indices, None)} = {many}{source}{test}"
        case ir.Commit():
            yield "commit"
        case ir.Wait(left=left):
            yield f"wait for all but {left}" if left else "wait for all"
        case ir.WarpMultiply(sums=sums, left=left, right=right, factors=factors):
            tiles = f"{_list(left)} by rows of {_list(right)}"
            kind = "" if factors == F16.name else f" as {factors}"
            yield f"{', '.join(sums)} += products{kind} of rows of {tiles}"
        case ir.Barrier(scope=scope):
            yield "barrier" if scope == ir.BLOCK else f"barrier of the {scope}"
        case _:
            raise ir.unknown_node(stmt)


def _launch(kind: str, indices: tuple[ir.LaunchIndex, ...]) -> str:
    ranges = [f"{index.var} in 0:{index.count}" for index in indices]
    return f"{kind}s {', '.join(ranges)}" if ranges else f"one {kind}"


def expression_text(expr: ir.Expr) -> str:
    """An expression in one line, with no more parentheses than it needs.

    >>> i = ir.Var("i", INT64)
    >>> expression_text(ir.Binary("*", ir.Binary("+", i, ir.Const(1, INT64), INT64), i, INT64))
    '(i + 1) * i'
    """
    return _expression(expr)[0]


def node_text(node: PrintedNode) -> str:
    """A node in one line: of a statement its first.

    >>> node_text(ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (), mark="unroll"))
    'unroll for i in 0:4'
    """
    if isinstance(node, str):
        return node
    return next(statement_lines(node)) if isinstance(node, ir.Stmt) else expression_text(node)


def _expression(expr: ir.Expr) -> tuple[str, int]:
    match expr:
        case ir.Const():
            return _constant(expr), ATOM_LEVEL
        case ir.Var(name=name):
            return name, ATOM_LEVEL
        case ir.Load(buffer=buffer, indices=indices, mask=mask):
            return _element(buffer, indices, mask), ATOM_LEVEL
        case ir.Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({_list((left, right))})", ATOM_LEVEL
        case ir.Call(function=function, args=args):
            return f"{function}({_list(args)})", ATOM_LEVEL
        case ir.Cast(operand=operand, dtype=dtype) | ir.Broadcast(operand=operand, dtype=dtype):
            return f"{dtype}({expression_text(operand)})", ATOM_LEVEL
        case ir.Bits(operand=operand, dtype=dtype):
            return f"{dtype}.bits({expression_text(operand)})", ATOM_LEVEL
        case ir.Ramp(base=base, step=step, dtype=dtype):
            return f"{dtype}.ramp({expression_text(base)}, {step})", ATOM_LEVEL
        case ir.Reduce(op=op, operand=operand):
            return f"reduce({op}, {expression_text(operand)})", ATOM_LEVEL
        case ir.WarpReduce(op=op, operand=operand, lanes=lanes):
            return f"warp_reduce({op}, {expression_text(operand)}, {lanes})", ATOM_LEVEL
        case ir.Shuffle(left=left, right=right, lanes=lanes):
            return f"shuffle({_list((left, right))}, {list(lanes)})", ATOM_LEVEL
        case ir.Unary(op=op, operand=operand) | ir.Logical(op="!" as op, operands=(operand,)):
            return f"{op}{_at_least(operand, ATOM_LEVEL)}", UNARY_LEVEL
        case ir.Binary(op=op, left=left, right=right) | ir.Compare(op=op, left=left, right=right):
            return _infix(op, left, right)
        case ir.Logical(op=op, operands=(left, right)):
            return _infix(op, left, right)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            test, chosen = (_at_least(part, _LOGICAL) for part in (condition, then))
            return f"{test} ? {chosen} : {expression_text(otherwise)}", _CHOICE
        case ir.Logical(op=op, operands=operands):
            return f"{op}({_list(operands)})", ATOM_LEVEL
        case _:
            raise ir.unknown_node(expr)


def _element(buffer: str, indices: tuple[ir.Expr, ...], mask: ir.Expr | None) -> str:
    condition = "" if mask is None else f" if {expression_text(mask)}"
    return f"{buffer}[{', '.join(map(_subscript, indices))}{condition}]"


def _subscript(index: ir.Expr) -> str:
    """An index, that of lanes as a slice."""
    if not isinstance(index, ir.Ramp) or index.step == 0:
        return expression_text(index)
    step = "" if index.step == 1 else f":{index.step}"
    end = _shifted(index.base, index.step * index.dtype.lanes)
    return f"{_at_least(index.base, _LOGICAL)}:{_at_least(end, _LOGICAL)}{step}"


def _shifted(expr: ir.Expr, distance: int) -> ir.Expr:
    match expr:
        case ir.Const(value=value):
            return ir.Const(value + distance, expr.dtype)
        case ir.Binary(op="+", left=left, right=ir.Const(value=value) as offset):
            return ir.Binary("+", left, ir.Const(value + distance, offset.dtype), expr.dtype)
        case _ if distance < 0:
            return ir.Binary("-", expr, ir.Const(-distance, expr.dtype), expr.dtype)
        case _:
            return ir.Binary("+", expr, ir.Const(distance, expr.dtype), expr.dtype)


def _infix(op: str, left: ir.Expr, right: ir.Expr) -> tuple[str, int]:
    level = LEVEL.get(op, _CHOICE)
    return f"{_at_least(left, level)} {op} {_at_least(right, level + 1)}", level


def _at_least(expr: ir.Expr, level: int) -> str:
    return bracketed(_expression(expr), level)


def _constant(const: ir.Const) -> str:
    text = str(const.value).lower()
    if const.dtype in (INT64, FLOAT64, BOOL):
        return text
    if const.dtype == FLOAT32:
        return f"{text}f" if math.isfinite(const.value) else f"float32({text})"
    return f"{const.dtype}({text})"


def _list(exprs: tuple[ir.Expr, ...]) -> str:
    return ", ".join(map(expression_text, exprs))


def _block(stmts: tuple[ir.Stmt, ...]) -> Iterator[str]:
    return (f"  {line}" for stmt in stmts for line in statement_lines(stmt))


def _buffer(buffer: ir.Buffer, kernel: ir.Kernel) -> str:
    text = f"{buffer.role} {buffer.name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
    if buffer.strides != ir.row_major(buffer.shape):
        text += f" strides ({', '.join(map(str, buffer.strides))})"
    return f"{text} initial" if buffer.name in kernel.initial else text


def _site(number: int, site: ir.Site) -> str:
    where = f"of S{site.statement} at ({', '.join(site.variables)})"
    return f"site {number}: {site.kind} {site.expression} {where}"
