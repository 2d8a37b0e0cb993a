"""Vectors of a kernel in C, by the extensions of GCC and Clang and the functions in
`vector_helpers`. Those of bool are in `masks`, loads and stores in `vector_memory`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tc.backends.clike.dialect import (
    ATOM,
    CHOICE,
    OR,
    UNARY,
    Context,
    Printed,
    operand_levels,
)
from tc.backends.clike.lane_helpers import shuffle_name
from tc.backends.clike.masks import bits_of, mask_at_least, mask_printed, mask_text
from tc.backends.clike.scalars import at_least, bare, function_name, ring, text_of
from tc.backends.clike.types import c_type, mask_type, memory_type
from tc.backends.clike.vector_memory import load_printed, store_text
from tc.builtins.operators import LEVEL
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, DType, dtype_of
from tc.kernel import ir
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS

_RING = ("+", "-", "*", "<<")
_OF_BOOLS = {"min": "all", "&": "all", "max": "any", "|": "any", "^": "odd"}
_REDUCTIONS = {
    "+": "sum",
    "*": "product",
    "min": "least",
    "max": "greatest",
    "&": "and",
    "|": "or",
    "^": "xor",
}


def vector_text(expr: ir.Expr, context: Context) -> Printed:
    """The text of a vector, or of a Reduce of a vector."""
    dtype = expr.dtype
    if isinstance(expr, ir.Reduce):
        return _reduce(expr, context)
    if dtype.scalar == BOOL:
        return mask_printed(expr, bits_of(expr, context), context)
    match expr:
        case ir.Const(value=value):
            return _broadcast(ir.Const(value, dtype.scalar), dtype, context)
        case ir.Broadcast(operand=operand):
            return _broadcast(operand, dtype, context)
        case ir.Var(name=name):
            return context.names.variables[name], ATOM
        case ir.Load():
            return load_printed(expr, context)
        case ir.Ramp(base=base, step=step):
            return f"tc_ramp_{c_type(dtype)}({bare(base, context)}, {step})", ATOM
        case ir.Unary(operand=operand) if dtype.kind == "int":
            return f"({c_type(dtype)})-{_unsigned(operand, context)}", UNARY
        case ir.Unary(operand=operand):
            text = at_least(operand, UNARY, context)
            return f"-({text})" if text.startswith("-") else f"-{text}", UNARY
        case ir.Binary():
            return _binary(expr, context)
        case ir.Select():
            return _select(expr, context)
        case ir.Call(function="abs", args=(arg,)) if dtype.kind == "uint":
            return vector_text(arg, context)
        case ir.Call(function=function, args=args):
            if dtype.is_float and function not in EXPONENT_FUNCTIONS:
                function_name(expr, context)  # refuses those that C lacks
            return _apply(function, dtype, args, context)
        case ir.Cast():
            return _cast(expr, context)
        case ir.Bits(operand=operand):
            return f"({c_type(dtype)}){at_least(operand, UNARY, context)}", UNARY
        case ir.Shuffle(left=left, right=right, lanes=lanes):
            name = shuffle_name(memory_type(left.dtype), lanes)
            return f"{name}({text_of(left, context)}, {text_of(right, context)})", ATOM
        case _:
            raise ir.unknown_node(expr)  # type: ignore[arg-type]  # those that are only bool


def _apply(family: str, dtype: DType, args: Iterable[ir.Expr], context: Context) -> Printed:
    texts = ", ".join(text_of(arg, context) for arg in args)
    return f"tc_{family}_{c_type(dtype)}({texts})", ATOM


def _broadcast(operand: ir.Expr, dtype: DType, context: Context) -> Printed:
    if isinstance(operand, ir.Const) and str(operand.value) in ("0", "0.0"):
        return f"({c_type(dtype)}){{0}}", ATOM
    return f"tc_broadcast_{c_type(dtype)}({bare(operand, context)})", ATOM


# --- arithmetic -------------------------------------------------------------------------------


def _binary(expr: ir.Binary, context: Context) -> Printed:
    op, dtype, operands = expr.op, expr.dtype, (expr.left, expr.right)
    if op in ("min", "max"):
        return _apply(op, dtype, operands, context)
    if op == "%" or (op == "/" and dtype.is_integer):
        return _apply("div" if op == "/" else "mod", dtype, operands, context)
    if dtype.kind == "int" and op in _RING:  # which may leave the type
        text, _ = ring(expr, _RING, partial(_unsigned, context=context))
        return f"({c_type(dtype)})({text})", UNARY
    levels = zip(operands, operand_levels(op), strict=True)
    texts = (at_least(operand, level, context) for operand, level in levels)
    return f" {op} ".join(texts), LEVEL[op]


def _unsigned(expr: ir.Expr, context: Context) -> str:
    dtype = expr.dtype
    unsigned = dtype_of(f"uint{dtype.bits}", "uint", dtype.bits, dtype.lanes)
    match expr:
        case ir.Const(value=value) if value >= 0:
            return at_least(ir.Const(value, unsigned), UNARY, context)
        case _:
            return f"({c_type(unsigned)}){at_least(expr, UNARY, context)}"


def _select(expr: ir.Select, context: Context) -> Printed:
    condition, then, otherwise, dtype = expr.condition, expr.then, expr.otherwise, expr.dtype
    if condition.dtype.lanes == 1:
        chosen = at_least(then, OR, context), at_least(otherwise, CHOICE, context)
        return f"{at_least(condition, OR, context)} ? {chosen[0]} : {chosen[1]}", CHOICE
    mask = mask_text(condition, dtype.bits, context)
    texts = text_of(then, context), text_of(otherwise, context)
    return f"tc_select_{c_type(dtype)}({mask}, {', '.join(texts)})", ATOM


def _reduce(expr: ir.Reduce, context: Context) -> Printed:
    operand, dtype = expr.operand, expr.dtype
    if dtype == BOOL:
        bits = bits_of(operand, context)
        family = _OF_BOOLS[expr.op]
        mask = mask_type(bits, operand.dtype.lanes)
        return f"tc_{family}_{mask}({mask_text(operand, bits, context)})", ATOM
    return _apply(_REDUCTIONS[expr.op], operand.dtype, (operand,), context)


def _cast(expr: ir.Cast, context: Context) -> Printed:
    operand, target = expr.operand, expr.dtype
    source, name = operand.dtype, c_type(target)
    if source == target:
        return vector_text(operand, context)
    if source.scalar == BOOL:
        return _number(operand, target, context)
    if source.scalar == FLOAT16:
        if target.scalar == FLOAT32:
            return f"tc_from_half_{name}({text_of(operand, context)})", ATOM
        return _cast(ir.Cast(ir.Cast(operand, FLOAT32.vector(target.lanes)), target), context)
    if target.scalar == FLOAT16:
        if source.is_integer:
            operand = ir.Cast(operand, FLOAT64.vector(target.lanes))
        return _apply("to_half", operand.dtype, (operand,), context)
    if source.is_float and target.is_integer:
        return f"tc_to_{name}_{source.name}({text_of(operand, context)})", ATOM
    if source.is_integer and target.is_integer and source.bits == target.bits:
        return f"({name}){at_least(operand, UNARY, context)}", UNARY
    return f"__builtin_convertvector({text_of(operand, context)}, {name})", ATOM


def _number(mask: ir.Expr, target: DType, context: Context) -> Printed:
    """1 where a mask is true, 0 elsewhere, in another type."""
    if target.scalar == FLOAT16:
        return _cast(ir.Cast(ir.Cast(mask, FLOAT32.vector(target.lanes)), target), context)
    text = mask_at_least(mask, target.bits, UNARY, context)
    if target.is_float:
        return f"__builtin_convertvector(-{text}, {c_type(target)})", ATOM
    return f"-{text}" if target.kind == "int" else f"({c_type(target)})-{text}", UNARY


# --- statements -------------------------------------------------------------------------------


def vector_store_text(store: ir.Store, context: Context) -> str:
    value, dtype = store.value, store.value.dtype
    if dtype.scalar == BOOL:
        return store_text(store, _number(value, memory_type(dtype), context)[0], context)
    return store_text(store, text_of(value, context), context)


def local_type_text(let: ir.Let, context: Context) -> str:
    if let.var in context.masks:
        return c_type(mask_type(context.masks[let.var], let.dtype.lanes))
    return c_type(let.dtype)


def local_value(name: str, value: ir.Expr, context: Context) -> str:
    if name in context.masks:
        return mask_text(value, context.masks[name], context)
    return bare(value, context)
