"""A kernel as text, for `explain`, snapshots and error messages; nothing parses it back.

Constants show their type: `3` is int64, `0.5` float64, `0.5f` float32, `int8(3)` any other.
`float32x16(x)` has x in all of its lanes, be it a constant or not. Lanes at consecutive elements
are a slice: `a[i, j:j + 16]`, those at every second `a[i, j:j + 32:2]`; other ramps are functions
of base and step. `a[i, j:j + 16 if m]` touches only the lanes where m is true. `stream a[...] = x`
is a store that needs no place in the caches (`Store.non_temporal`), `prefetch a[...]` a hint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
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
    Prefetch,
    Ramp,
    Reduce,
    Select,
    Set,
    Shuffle,
    Site,
    Stmt,
    Store,
    Unary,
    Var,
    row_major,
    unknown_node,
)

PrintedNode: TypeAlias = Expr | Stmt | str
"""What an error is about; a string names what is no node."""

_LEVELS = (
    ("?:",),
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LEVEL = {op: level for level, ops in enumerate(_LEVELS) for op in ops}
_UNARY = len(_LEVELS)
_ATOM = _UNARY + 1


def to_text(kernel: Kernel) -> str:
    """The text of a whole kernel, one statement a line.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> i = Var("i", INT64)
    >>> body = Store("o", (i,), Binary("*", Const(2.0, FLOAT32), Load("a", (i,), FLOAT32), FLOAT32))
    >>> print(to_text(Kernel(
    ...     "double",
    ...     (Buffer("a", FLOAT32, (4,), (2,), "input"), Buffer("o", FLOAT32, (4,), (1,), "output")),
    ...     ((For("i", Const(0, INT64), Const(4, INT64), (body,), parallel=True),),),
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


def statement_lines(stmt: Stmt) -> Iterator[str]:
    """The lines of a statement and of those in it, indented by two spaces a level."""
    match stmt:
        case For(var=var, begin=begin, end=end, body=body, parallel=parallel, mark=mark):
            kind = " ".join([*(["parallel"] if parallel else []), *([mark] if mark else []), "for"])
            yield f"{kind} {var} in {expression_text(begin)}:{expression_text(end)}"
            yield from _block(body)
        case If(condition=condition, then=then, otherwise=otherwise):
            yield f"if {expression_text(condition)}"
            yield from _block(then)
            if otherwise:
                yield "else"
                yield from _block(otherwise)
        case Let(var=var, value=value):
            yield f"let {var}: {value.dtype} = {expression_text(value)}"
        case Set(var=var, value=value):
            yield f"{var} = {expression_text(value)}"
        case Store(buffer=buffer, indices=indices, value=value, mask=mask, non_temporal=past):
            kind = "stream " if past else ""
            yield f"{kind}{_element(buffer, indices, mask)} = {expression_text(value)}"
        case Prefetch(buffer=buffer, indices=indices):
            yield f"prefetch {_element(buffer, indices, None)}"
        case Fail(site=site, values=values):
            yield f"fail {site} ({_list(values)})"
        case Comment(text=text):
            yield f"# {text}"
        case _:
            raise unknown_node(stmt)


def expression_text(expr: Expr) -> str:
    """An expression in one line, with no more parentheses than it needs.

    >>> i = Var("i", INT64)
    >>> expression_text(Binary("*", Binary("+", i, Const(1, INT64), INT64), i, INT64))
    '(i + 1) * i'
    """
    return _expression(expr)[0]


def node_text(node: PrintedNode) -> str:
    """A node in one line: of a statement its first.

    >>> node_text(For("i", Const(0, INT64), Const(4, INT64), (), mark="unroll"))
    'unroll for i in 0:4'
    """
    match node:
        case str():
            return node
        case For() | If() | Let() | Set() | Store() | Prefetch() | Fail() | Comment():
            return next(statement_lines(node))
        case _:
            return expression_text(node)


def _expression(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const():
            return _constant(expr), _ATOM
        case Var(name=name):
            return name, _ATOM
        case Load(buffer=buffer, indices=indices, mask=mask):
            return _element(buffer, indices, mask), _ATOM
        case Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({_list((left, right))})", _ATOM
        case Call(function=function, args=args):
            return f"{function}({_list(args)})", _ATOM
        case Cast(operand=operand, dtype=dtype) | Broadcast(operand=operand, dtype=dtype):
            return f"{dtype}({expression_text(operand)})", _ATOM
        case Bits(operand=operand, dtype=dtype):
            return f"{dtype}.bits({expression_text(operand)})", _ATOM
        case Ramp(base=base, step=step, dtype=dtype):
            return f"{dtype}.ramp({expression_text(base)}, {step})", _ATOM
        case Reduce(op=op, operand=operand):
            return f"reduce({op}, {expression_text(operand)})", _ATOM
        case Shuffle(left=left, right=right, lanes=lanes):
            return f"shuffle({_list((left, right))}, {list(lanes)})", _ATOM
        case Unary(op=op, operand=operand) | Logical(op="!" as op, operands=(operand,)):
            return f"{op}{_at_least(operand, _ATOM)}", _UNARY
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return _infix(op, left, right)
        case Logical(op=op, operands=(left, right)):
            return _infix(op, left, right)
        case Select(condition=condition, then=then, otherwise=otherwise):
            parts = _at_least(condition, 1), _at_least(then, 1), _at_least(otherwise, 0)
            return "{} ? {} : {}".format(*parts), 0
        case Logical(op=op, operands=operands):
            return f"{op}({_list(operands)})", _ATOM
        case _:
            raise unknown_node(expr)


def _element(buffer: str, indices: tuple[Expr, ...], mask: Expr | None) -> str:
    condition = "" if mask is None else f" if {expression_text(mask)}"
    return f"{buffer}[{', '.join(map(_subscript, indices))}{condition}]"


def _subscript(index: Expr) -> str:
    """An index, that of lanes as a slice."""
    if not isinstance(index, Ramp) or index.step == 0:
        return expression_text(index)
    step = "" if index.step == 1 else f":{index.step}"
    end = _shifted(index.base, index.step * index.dtype.lanes)
    return f"{_at_least(index.base, 1)}:{_at_least(end, 1)}{step}"


def _shifted(expr: Expr, distance: int) -> Expr:
    match expr:
        case Const(value=value):
            return Const(value + distance, expr.dtype)
        case Binary(op="+", left=left, right=Const(value=value) as offset):
            return Binary("+", left, Const(value + distance, offset.dtype), expr.dtype)
        case _ if distance < 0:
            return Binary("-", expr, Const(-distance, expr.dtype), expr.dtype)
        case _:
            return Binary("+", expr, Const(distance, expr.dtype), expr.dtype)


def _infix(op: str, left: Expr, right: Expr) -> tuple[str, int]:
    level = _LEVEL.get(op, 0)
    return f"{_at_least(left, level)} {op} {_at_least(right, level + 1)}", level


def _at_least(expr: Expr, level: int) -> str:
    text, own = _expression(expr)
    return text if own >= level else f"({text})"


def _constant(const: Const) -> str:
    text = str(const.value).lower()
    if const.dtype in (INT64, FLOAT64, BOOL):
        return text
    if const.dtype == FLOAT32:
        return f"{text}f" if math.isfinite(const.value) else f"float32({text})"
    return f"{const.dtype}({text})"


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(map(expression_text, exprs))


def _block(stmts: tuple[Stmt, ...]) -> Iterator[str]:
    return (f"  {line}" for stmt in stmts for line in statement_lines(stmt))


def _buffer(buffer: Buffer, kernel: Kernel) -> str:
    text = f"{buffer.role} {buffer.name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
    if buffer.strides != row_major(buffer.shape):
        text += f" strides ({', '.join(map(str, buffer.strides))})"
    return f"{text} initial" if buffer.name in kernel.initial else text


def _site(number: int, site: Site) -> str:
    where = f"of S{site.statement} at ({', '.join(site.variables)})"
    return f"site {number}: {site.kind} {site.expression} {where}"
