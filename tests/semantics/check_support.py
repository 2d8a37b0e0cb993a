"""Short forms of checked programs, to compare by eye with what a test expects."""

from __future__ import annotations

from collections.abc import Sequence

from tc.dtypes import DType
from tc.semantics.program import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Extent,
    Index,
    Literal,
    Logical,
    Program,
    Read,
    Select,
    Size,
    Statement,
    Unary,
)


def short(dtype: DType) -> str:
    """`f32`, `i8`, `u64`, `bool`."""
    return dtype.name if dtype.kind == "bool" else f"{dtype.kind[0]}{dtype.bits}"


def show(expr: Expr) -> str:
    """A typed expression as text: literals with their type, conversions as `f32(x)`, with `!`
    where the text has a cast, reads marked `?` where bare only and `~` where late."""
    match expr:
        case Literal(value=value, dtype=dtype):
            return f"{value}:{short(dtype)}"
        case Size(name=name) | Index(name=name):
            return name
        case Extent(tensor=tensor, axis=axis):
            return f"{tensor}.{axis}"
        case Read(tensor=tensor, subscripts=subscripts):
            marks = "?" * expr.bare_only + "~" * expr.late
            return f"{tensor}{marks}({several(subscripts)})"
        case Unary(op=op, operand=operand):
            return f"{op}{show(operand)}"
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case Logical(op="!", operands=(operand,)):
            return f"!{show(operand)}"
        case Logical(op=op, operands=operands):
            return f"({f' {op} '.join(map(show, operands))})"
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"({show(condition)} ? {show(then)} : {show(otherwise)})"
        case Call(function=function, args=args):
            return f"{function}({several(args)})"
        case Convert(operand=operand, dtype=dtype, written=written):
            return f"{short(dtype)}{'!' * written}({show(operand)})"
    raise AssertionError(expr)


def several(exprs: Sequence[Expr]) -> str:
    return ", ".join(map(show, exprs))


def show_statement(statement: Statement) -> str:
    """`O(i) +! rhs where k in 0:3 (reduces k)`, with `continues` in brackets."""
    op = statement.op + "!" * statement.init
    text = f"{statement.target}({several(statement.subscripts)}) {op} {show(statement.rhs)}"
    if statement.where:
        ranges = (f"{w.variable} in {show(w.begin)}:{show(w.end)}" for w in statement.where)
        text += f" where {', '.join(ranges)}"
    if statement.reduction:
        text += f" over {', '.join(statement.reduction)}"
    return text + (f" [{statement.continues}]" if statement.continues else "")


def show_program(program: Program) -> list[str]:
    return [show_statement(statement) for statement in program.statements]
