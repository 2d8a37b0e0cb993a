"""Scalar expressions of a kernel in a C-like language, each of exactly its type.

Integers that may leave their type are computed unsigned, and divisions and conversions that could
trap or be undefined go through helpers. What differs between languages is in their `Dialect`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tc.affine import intervals
from tc.backends.clike.dialect import (
    AND,
    ATOM,
    CHOICE,
    EQUAL,
    OR,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    Context,
    Printed,
    VectorPrinter,
    operand_levels,
)
from tc.backends.clike.warp_helpers import warp_reduction
from tc.backends.printing import plus
from tc.builtins import BIT_FUNCTIONS, BUILTINS
from tc.builtins.operators import LEVEL
from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT64, UINT32, UINT64, DType, limits
from tc.errors import BackendError
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.intervals import interval

_RING = ("+", "-", "*")
_OF_BOOLS = {"min": "&&", "&": "&&", "max": "||", "|": "||", "^": "!="}
_FUNCTIONS = {"min": "min", "max": "max", "/": "div", "%": "mod"}


def text_of(expr: ir.Expr, context: Context) -> str:
    return _expression(expr, context)[0]


def at_least(expr: ir.Expr, level: int, context: Context) -> str:
    text, own = _expression(expr, context)
    return text if own >= level else f"({text})"


def bare(expr: ir.Expr, context: Context) -> str:
    """The text of an expression whose place fixes the type, so that constants are written without a
    type."""
    return _bare_at_least(expr, CHOICE, context)


def compared(expr: ir.Expr, context: Context) -> str:
    """The text as an operand of a comparison."""
    return _bare_at_least(expr, SUM, context)


def _bare_at_least(expr: ir.Expr, level: int, context: Context) -> str:
    if isinstance(expr, ir.Const) and expr.dtype in (INT64, UINT64) and abs(expr.value) < 2**31:
        text = str(int(expr.value))
        return text if expr.value >= 0 or level <= UNARY else f"({text})"
    return at_least(expr, level, context)


def _infix(op: str, left: ir.Expr, right: ir.Expr, context: Context) -> Printed:
    """An infix operation. An operand that is no constant fixes the type of a constant beside it,
    but not the type of a shifted constant."""
    level, least = LEVEL[op], operand_levels(op)
    first = at_least if isinstance(right, ir.Const) or level == SHIFT else _bare_at_least
    texts = first(left, least[0], context), _bare_at_least(right, least[1], context)
    if op == "||":  # compilers doubt a && b || c
        texts = _grouped(left, texts[0], context), _grouped(right, texts[1], context)
    return f" {op} ".join(texts), level


def _grouped(side: ir.Expr, text: str, context: Context) -> str:
    return f"({text})" if _expression(side, context)[1] == AND else text


def _expression(expr: ir.Expr, context: Context) -> Printed:
    """The text, of exactly the expression's type or a narrower one that C widens to int, and the
    precedence of its outermost operator."""
    if expr.dtype.lanes > 1 or isinstance(expr, ir.Reduce):
        return vector_printer(context).expression(expr, context)
    match expr:
        case ir.Const():
            return _constant(expr, context)
        case ir.Var(name=name):
            return context.names.variables[name], ATOM
        case ir.Load(buffer=buffer, indices=indices, dtype=dtype):
            text = element(buffer, indices, context)
            # the caller's bytes may be others than 0 and 1, of which C's bool knows nothing
            return (f"{text} != 0", EQUAL) if dtype == BOOL else (text, ATOM)
        case ir.Unary():
            return _negation(expr, context)
        case ir.Binary():
            return _binary(expr, context)
        case ir.Compare():
            return _compare(expr, context)
        case ir.Logical(op="!", operands=(operand,)):
            return f"!{at_least(operand, ATOM, context)}", UNARY
        case ir.Logical(op=op, operands=(left, right)):
            return _infix(op, left, right, context)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            test = at_least(condition, OR, context)
            first = at_least if isinstance(otherwise, ir.Const) else _bare_at_least
            chosen = first(then, OR, context), _bare_at_least(otherwise, CHOICE, context)
            return f"{test} ? {chosen[0]} : {chosen[1]}", CHOICE
        case ir.Call():
            return _call(expr, context)
        case ir.Cast():
            return _cast(expr, context)
        case ir.WarpReduce(op=op, operand=operand, lanes=lanes, dtype=dtype):
            return _apply(warp_reduction(op, dtype, lanes), (operand,), context)
        case ir.Bits():
            return _bits(expr, context)
        case _:
            raise ir.unknown_node(expr)  # type: ignore[arg-type]  # Logical of three operands


def vector_printer(context: Context) -> VectorPrinter:
    """How vectors are printed; BackendError where they are not."""
    dialect = context.dialect
    if dialect.vectors is None:
        raise BackendError(
            f"vectors are not printed in {dialect.name}",
            repair="lower the kernel without vectors, as by the preset 'naive'",
        )
    return dialect.vectors


def _apply(function: str, args: Iterable[ir.Expr], context: Context) -> Printed:
    return f"{function}({', '.join(bare(arg, context) for arg in args)})", ATOM


def _negation(expr: ir.Unary, context: Context) -> Printed:
    dtype, operand = expr.dtype, expr.operand
    if dtype.is_float or interval(operand, context.scope.bounds)[0] > limits(dtype)[0]:
        text = at_least(operand, UNARY, context)
        if dtype.is_float or dtype.kind == "int":
            return f"-({text})" if text.startswith("-") else f"-{text}", UNARY
    return f"({context.types[dtype]})(0 - {_unsigned(operand, dtype, context)})", UNARY


def _binary(expr: ir.Binary, context: Context) -> Printed:
    op, dtype, operands = expr.op, expr.dtype, (expr.left, expr.right)
    if dtype == BOOL:
        return _infix(_OF_BOOLS[op], *operands, context)
    if op in _FUNCTIONS and not _is_division_of_c(expr, context):
        return _apply(f"tc_{_FUNCTIONS[op]}_{dtype}", operands, context)
    is_plain = dtype.is_float or dtype in (UINT32, UINT64) or op not in ("<<", *_RING)
    if is_plain or (op in _RING and _is_within_type(expr, context)):
        return _infix(op, *operands, context)
    if op == "<<":
        count = _bare_at_least(expr.right, UNARY, context)
        text = f"{_unsigned(expr.left, dtype, context)} << {count}"
    else:
        text, _ = ring(expr, _RING, lambda term: _unsigned(term, dtype, context))
    return f"({context.types[dtype]})({text})", UNARY


def _is_division_of_c(expr: ir.Binary, context: Context) -> bool:
    """Whether the operator of C divides as the kernel does."""
    if expr.dtype.is_float or expr.op not in ("/", "%"):
        return expr.op == "/"
    is_positive = isinstance(expr.right, ir.Const) and expr.right.value > 0
    return is_positive and interval(expr.left, context.scope.bounds)[0] >= 0


def _is_within_type(expr: ir.Binary, context: Context) -> bool:
    """Whether a sum, difference or product does not leave its type."""
    sides = (interval(side, context.scope.bounds) for side in (expr.left, expr.right))
    found = intervals.operation(expr.op, *sides)
    return found is not None and intervals.contains(limits(expr.dtype), found)


def ring(expr: ir.Expr, ops: Sequence[str], unsigned: Callable[[ir.Expr], str]) -> Printed:
    """Operations on what `unsigned` prints in the unsigned type, whose low bits are the value."""
    if not (isinstance(expr, ir.Binary) and expr.op in ops):
        return unsigned(expr), UNARY
    texts = []
    for side, least in zip((expr.left, expr.right), operand_levels(expr.op), strict=True):
        text, own = ring(side, ops, unsigned)
        texts.append(text if own >= least else f"({text})")
    return f" {expr.op} ".join(texts), LEVEL[expr.op]


def _unsigned(expr: ir.Expr, dtype: DType, context: Context) -> str:
    """An integer in the unsigned type in which `dtype` is computed; C widens narrow ones to int,
    where products could overflow."""
    target = UINT64 if dtype.bits == 64 else UINT32
    if isinstance(expr, ir.Const) and expr.value >= 0:
        return _constant(ir.Const(expr.value, target), context)[0]
    return f"({context.types[target]}){_bare_at_least(expr, UNARY, context)}"


def _compare(expr: ir.Compare, context: Context) -> Printed:
    """A comparison; compilers warn of those whose result the types alone decide."""
    op, left, right = expr.op, expr.left, expr.right
    if not left.dtype.is_float:
        if left == right:
            return str(op in ("==", "<=", ">=")).lower(), ATOM
        if (known := intervals.compared(op, interval(left, {}), interval(right, {}))) is not None:
            return str(known).lower(), ATOM
    return _infix(op, left, right, context)


def _call(expr: ir.Call, context: Context) -> Printed:
    dtype = expr.dtype
    if not dtype.is_float:
        if dtype.kind == "int" or expr.function in BIT_FUNCTIONS:
            return _apply(f"tc_{expr.function}_{dtype}", expr.args, context)
        return _expression(expr.args[0], context)
    return _apply(function_name(expr, context), expr.args, context)


def function_name(expr: ir.Call, context: Context) -> str:
    """The name of the function that computes one element of a call."""
    builtin, dialect = BUILTINS[expr.function], context.dialect
    name = dialect.native.get(builtin.name, builtin.c)
    suffix = "f" if name.startswith("tc_") else dialect.suffix  # our helpers have names of C
    return name + (suffix if expr.dtype.scalar == FLOAT32 else "")


def _bits(expr: ir.Bits, context: Context) -> Printed:
    source, target = expr.operand.dtype, expr.dtype
    if source.is_storage or target.is_storage:  # the text knows the bits
        return _expression(expr.operand, context)
    if source.is_float != target.is_float:
        return _apply(f"tc_bits_{target}_of_{source}", (expr.operand,), context)
    return _cast(ir.Cast(expr.operand, target), context)


def _cast(expr: ir.Cast, context: Context) -> Printed:
    operand, source, target = expr.operand, expr.operand.dtype, expr.dtype
    if source == target:
        return _expression(operand, context)
    if source == FLOAT16:
        if target == FLOAT32:
            return _apply("tc_float_of_half", (operand,), context)
        return _cast(ir.Cast(ir.Cast(operand, FLOAT32), target), context)
    if target == BOOL:
        zero = ir.Const(0.0 if source.is_float else 0, source)
        return _compare(ir.Compare("!=", operand, zero), context)
    if target == FLOAT16:
        exact = "float" if source == FLOAT32 else "double"
        return _apply(f"tc_half_of_{exact}", (operand,), context)
    if source.is_float and target.is_integer:
        return _apply(f"tc_to_{target}", (operand,), context)
    return f"({context.types[target]}){_bare_at_least(operand, UNARY, context)}", UNARY


def _constant(const: ir.Const, context: Context) -> Printed:
    """A constant of exactly its type."""
    value, dtype = const.value, const.dtype
    if dtype == BOOL:
        return str(bool(value)).lower(), ATOM
    if dtype.is_float:
        text = _float_text(float(value), dtype, context)
    else:
        text = context.dialect.integer(int(value), dtype)
    return text, UNARY if text.startswith("-") else ATOM


def _float_text(value: float, dtype: DType, context: Context) -> str:
    """The shortest decimal that reads as this number."""
    if math.isnan(value):
        return context.dialect.nan(dtype)
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}{context.dialect.infinity(dtype)}"
    text = str(np.float32(value)) if dtype == FLOAT32 else repr(value)
    if not set(text) & set(".e"):
        text += ".0"
    return text + ("f" if dtype == FLOAT32 else "")


def element(buffer: str, indices: tuple[ir.Expr, ...], context: Context) -> str:
    """An element; of arrays of threads and blocks, which are declared, at each of its indices."""
    declared = context.dialect.launch is not None and context.buffers[buffer].role in ir.PRIVATE
    if declared and indices:
        name = context.names.buffers[buffer]
        return name + "".join(f"[{bare(index, context)}]" for index in indices)
    found = context.buffers[buffer]
    if context.dialect.aligned and found.dtype.is_storage:
        return f"{context.names.buffers[buffer]}[{_in_groups(indices, found.strides, context)}]"
    return element_text(buffer, indices, found.strides, context)


_GROUP = 8
"""Halves that one instruction reads or writes at most."""


def _in_groups(indices: Sequence[ir.Expr], strides: Sequence[int], context: Context) -> str:
    """The place of a half: the number of a group of neighbours, and the place in the group, where
    places follow each other in groups: `(i * 32 + j) * 8 + 1`. So compilers see how groups are
    aligned, and read a group at once."""
    form = lane_offsets(indices, strides, 1, {}).scalars
    size = math.gcd(_GROUP, *form.terms.values())
    if size == 1 or not form.terms:
        return sum_text(indices, strides, context)
    whole, rest = divmod(form.constant, size)
    terms = [*form.terms, ir.Const(whole, INT64)]
    factors = [*(factor // size for factor in form.terms.values()), 1]
    plain = len(form.terms) == 1 and factors[0] == 1 and not whole
    group = sum_text(terms, factors, context)
    return plus(f"{group if plain else f'({group})'} * {size}", rest)


def element_text(
    buffer: str, indices: Sequence[ir.Expr], strides: Sequence[int], context: Context
) -> str:
    """The element of a buffer at a sum of indices, each times its stride."""
    return f"{context.names.buffers[buffer]}[{sum_text(indices, strides, context)}]"


def sum_text(terms: Sequence[ir.Expr], factors: Sequence[int], context: Context) -> str:
    """The sum of int64 terms, each times its factor, that is known not to overflow:
    `i * 32 + j + 4` for the terms (i, j, 1) and the factors (32, 1, 4)."""
    text, rest = "", 0
    for term, factor in zip(terms, factors, strict=True):
        if isinstance(term, ir.Const):
            rest += int(term.value) * factor
        elif factor:
            printed = at_least(term, SUM if factor == 1 else PRODUCT, context)
            if abs(factor) != 1:
                printed += f" * {abs(factor) if text else factor}"
            elif factor == -1 and not text:
                printed = f"-{at_least(term, ATOM, context)}"
            text = f"{text} {'-' if factor < 0 else '+'} {printed}" if text else printed
    return plus(text, rest)
