"""What operations make of the values of their operands: the arithmetic of `evaluate`, for one
thread and for many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tc.affine.intervals import COMPARISONS
from tc.builtins import FUNCTIONS
from tc.builtins.operators import SHIFTS, UFUNCS
from tc.dtypes import BOOL, decoded, encoded
from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS
from tc.kernel.printer import PrintedNode, node_text

Evaluated: TypeAlias = Any
"""A numpy scalar of the type of the node that gave it, or an array: of the lanes of a vector, or of
one element for each thread. numpy's stubs know no better union."""

Environment: TypeAlias = "Mapping[str, list[Evaluated]]"
"""The values of variables by name, each in a cell, so that inner blocks can set it."""

_BINARY: Mapping[str, Callable[[Evaluated, Evaluated], Evaluated]] = {**UFUNCS, **SHIFTS}
_LOGICAL = {"!": np.logical_not, "&&": np.logical_and, "||": np.logical_or}


def broken_promise(kernel: ir.Kernel, node: PrintedNode, reason: str) -> InternalError:
    """The error to raise where a kernel breaks its rules."""
    text = f"kernel {kernel.name} breaks a promise: in '{node_text(node)}': {reason}"
    return InternalError(text)


def operands_fault(expr: ir.Binary, left: Evaluated, right: Evaluated) -> str | None:
    """Why an operation is not defined on these operands, if so."""
    if left.dtype != right.dtype or left.dtype != expr.dtype.numpy:
        return f"operands {left.dtype} and {right.dtype}"
    if expr.dtype.scalar == BOOL and expr.op not in ir.OF_BOOL:
        return "arithmetic on bool"
    if expr.op in SHIFTS and not ((right >= 0) & (right < expr.dtype.bits)).all():
        return "shifts by too many bits"
    return None


def store_fault(value: Evaluated, buffer: ir.Buffer) -> str | None:
    """Why a value may not be stored in a buffer, if so."""
    if value.dtype != buffer.dtype.numpy:
        return f"stores {value.dtype} in {buffer.dtype.numpy}"
    return "stores in an input" if buffer.role in ("input", "sizes") else None


def operation(expr: ir.Expr, operands: Sequence[Evaluated]) -> Evaluated:
    """What a node that reads no variable and no memory makes of its operands, where it evaluates
    all of them.

    >>> from tc.dtypes import INT8
    >>> one = ir.Const(1, INT8)
    >>> with np.errstate(all="ignore"):
    ...     print(operation(ir.Binary("+", one, one, INT8), [np.int8(127), np.int8(1)]))
    -128
    """
    match expr:
        case ir.Binary(op="/"):
            left, right = operands
            return left // right if expr.dtype.is_integer else left / right
        case ir.Binary(op=op):
            return _BINARY[op](*operands)
        case ir.Const(value=constant, dtype=dtype):
            number = dtype.numpy.type(constant)
            return number if dtype.lanes == 1 else np.full(dtype.lanes, number)
        case ir.Compare(op=op):
            return np.bool_(COMPARISONS[op](*operands))
        case ir.Select():
            condition, then, otherwise = operands
            return np.asarray(np.where(condition, then, otherwise))[()]
        case ir.Logical(op=op):
            return _LOGICAL[op](*operands)
        case ir.Call(function=function, dtype=dtype):
            known = EXPONENT_FUNCTIONS if function in EXPONENT_FUNCTIONS else FUNCTIONS
            return np.asarray(known[function].numpy(*operands)).astype(dtype.numpy)[()]
        case ir.Broadcast(dtype=dtype):
            return np.full(dtype.lanes, operands[0])
        case ir.Shuffle(lanes=lanes):
            return np.concatenate(operands)[list(lanes)]
        case ir.Var() | ir.Load() | ir.WarpReduce():
            raise InternalError(f"'{node_text(expr)}' is more than its operands")
        case _:
            return _of_one(expr, operands[0])


@cache
def _steps(step: int, lanes: int) -> Evaluated:
    """From the first lane of a Ramp to each of its lanes."""
    return np.int64(step) * np.arange(lanes)


def _of_one(
    expr: ir.Unary | ir.Cast | ir.Bits | ir.Ramp | ir.Reduce, operand: Evaluated
) -> Evaluated:
    match expr:
        case ir.Unary():
            return -operand
        case ir.Cast(operand=source, dtype=dtype):
            return encoded(decoded(operand, source.dtype.scalar), dtype.scalar)[()]
        case ir.Bits(dtype=dtype):
            return operand.view(dtype.numpy)
        case ir.Ramp(step=step, dtype=dtype):
            return operand + _steps(step, dtype.lanes)
        case ir.Reduce(op=op, dtype=dtype):
            return UFUNCS[op].reduce(operand, dtype=dtype.numpy)
        case _:
            raise ir.unknown_node(expr)
