"""Kernels as Python source for numba: one function per region, plain loops over flat buffers.

The text is a module that runs as it stands; `tc.backends.numba.intrinsics` has the few names that
it needs. numba computes int8 to int32 in 64 bits and mixes uint64 with int64 into float64, so
every integer operation stands in a cast to its own type, and so does every constant. Regions with
vectors are another language, of `tc.backends.numba.traced_printer`.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator
from functools import partial

from tc.backends.numba.traced_printer import block_lines, is_vector_region, vector_region_lines
from tc.backends.printing import (
    Speller,
    Spellings,
    TextContext,
    buffer_lines,
    no_launches,
    offset_text,
    shared_loop,
    short,
    used_buffers,
    words,
)
from tc.builtins.operators import ATOM_LEVEL, LEVEL, UNARY_LEVEL, bracketed
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, UINT16, UINT64, DType
from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.intervals import never_overflows
from tc.kernel.rebuild import Scope
from tc.kernel.walk import assigned_in

# precedence of Python's operators, loosest first
_CHOICE, _OR, _AND, _NOT = (LEVEL[op] for op in ("?:", "||", "&&", "not"))
_RELATION, _SUM, _PRODUCT = (LEVEL[op] for op in ("==", "+", "*"))
_SIGN, _ATOM = UNARY_LEVEL, ATOM_LEVEL
_RING = ("+", "-", "*")

_RUNTIME_NAMES = ("read_only", "record", "region", "share", "writable")
_HELPER_NAMES = (
    "floor_divide", "floor_modulo", "from_half", "maximum", "minimum", "to_half", "truncate",
)  # fmt: skip
_NUMPY_NAMES = (
    "bool_", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64",
)  # fmt: skip
_VECTOR_NAMES = ("deeper", "m", "vector_region")
_LOCAL_NAMES = ("arguments", "failure", "part", "parts", "first", "last", "inf", "math", "nan")
MAX_NAME_LETTERS = 200
"""Letters of a name that are kept: LLVM merges names whose first thousand letters or so agree."""

_RESERVED = frozenset(
    (
        *keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_RUNTIME_NAMES, *_HELPER_NAMES,
        *_NUMPY_NAMES, *_LOCAL_NAMES, "REGIONS",
    )
)  # fmt: skip

_MODULES = (
    ("math", ("inf", "nan")),
    ("numpy", _NUMPY_NAMES),
    ("tc.backends.numba", ("math",)),
    ("tc.backends.numba.math", _HELPER_NAMES),
    ("tc.backends.numba.intrinsics", _RUNTIME_NAMES),
    ("tc.backends.numba.tracing", ("vector_region",)),
)
"""What texts import of which modules."""


def print_kernel(kernel: ir.Kernel) -> str:
    """The text of a kernel; equal kernels give equal texts."""
    traced = [is_vector_region(region, kernel) for region in kernel.regions]
    names = _spell(kernel, vectors=any(traced))
    functions = [
        vector_region_lines(i, kernel, names) if vectors else _region(i, kernel, names)
        for i, vectors in enumerate(traced)
    ]
    body = [line for function in functions for line in ("", "", *function)]
    regions = ", ".join(names.functions) + ("," if len(functions) == 1 else "")
    head = (f"# {line}" for line in buffer_lines(kernel, names))
    lines = [*head, *_imports("\n".join(body)), *body]
    return "\n".join((*lines, "", "", f"REGIONS = ({regions})", ""))


# --- the module around the regions ------------------------------------------------------------


def _imports(body: str) -> Iterator[str]:
    """The imports of a text: of all names that modules have to offer, those that occur in the
    text."""
    occurring = set(re.findall(r"(?<![.\w])\w+", body))  # attributes are not imported

    yield ""
    for module, names in _MODULES:
        if used := [name for name in names if name in occurring]:
            yield f"from {module} import {', '.join(used)}"
            if not module.startswith("tc."):
                yield ""


def _region(number: int, kernel: ir.Kernel, names: Spellings) -> Iterator[str]:
    region = kernel.regions[number]
    used = used_buffers(region)
    yield "@region"
    yield f"def {names.functions[number]}(arguments, failure, part, parts):"
    for position, buffer in enumerate(kernel.buffers):
        if buffer.name in used:
            place = f"arguments, {position}, {_storage(buffer.dtype)}"
            yield f"    {names.buffers[buffer.name]} = {used[buffer.name]}({place})"
    buffers = {b.name: b for b in kernel.buffers}
    context = TextContext(names, buffers, shared_loop(region), Scope(assigned_in(region)))
    yield from _block(region, context)


def _storage(dtype: DType) -> str:
    """The type of the elements of a buffer, as a name of numpy."""
    if dtype == BOOL:
        return "bool_"
    return str(UINT16 if dtype == FLOAT16 else dtype)


# --- statements -------------------------------------------------------------------------------


def _block(stmts: tuple[ir.Stmt, ...], context: TextContext) -> Iterator[str]:
    return block_lines(stmts, context, _statement)


def _statement(stmt: ir.Stmt, context: TextContext) -> Iterator[str]:
    variables = context.names.variables
    match stmt:
        case ir.For(var=var, begin=begin, end=end, body=body):
            bounds = _list((begin, end), context)
            if stmt is context.shared:
                yield f"first, last = share({bounds}, part, parts)"
                bounds = "first, last"
            elif isinstance(begin, ir.Const) and begin.value == 0:
                bounds = _text(end, context)
            yield f"for {variables[var]} in range({bounds}):"
            with context.scope.inside(stmt):
                yield from _block(body, context)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            yield f"if {_text(condition, context)}:"
            yield from _block(then, context)
            if otherwise:
                yield "else:"
                yield from _block(otherwise, context)
        case ir.Let(var=var, value=value) | ir.Set(var=var, value=value):
            yield f"{variables[var]} = {_text(value, context)}"
        case ir.Store(buffer=buffer, indices=indices, value=value):
            place = _element(buffer, indices, context)
            yield f"{place} = {_text(value, context)}"
        case ir.Fail(site=site, values=values):
            yield f"record(failure, {_list((ir.Const(site, INT64), *values), context)})"
        case ir.Prefetch():
            return  # numba has no word for it
        case ir.Comment(text=text):
            yield from (f"# {line}".rstrip() for line in text.splitlines())
        case ir.Grid() | ir.Barrier():
            raise no_launches("numba")
        case _:
            raise ir.unknown_node(stmt)


# --- expressions ------------------------------------------------------------------------------


def _text(expr: ir.Expr, context: TextContext) -> str:
    return _expression(expr, context)[0]


def _list(exprs: tuple[ir.Expr, ...], context: TextContext) -> str:
    return ", ".join([_expression(expr, context)[0] for expr in exprs])


def _at_least(expr: ir.Expr, level: int, context: TextContext) -> str:
    return bracketed(_expression(expr, context), level)


def _expression(expr: ir.Expr, context: TextContext) -> tuple[str, int]:
    """The text and the precedence of its outermost operator."""
    match expr:
        case ir.Const():
            return _constant(expr)
        case ir.Var(name=name):
            return context.names.variables[name], _ATOM
        case ir.Load(buffer=buffer, indices=indices):
            return _element(buffer, indices, context), _ATOM
        case ir.Unary(operand=operand, dtype=dtype):
            text = f"-{_at_least(operand, _SIGN, context)}"
            return (text, _SIGN) if _is_exact(dtype) else (f"{dtype}({text})", _ATOM)
        case ir.Binary():
            return _binary(expr, context)
        case ir.Compare(op=op, left=left, right=right):
            sides = (_at_least(side, _SUM, context) for side in (left, right))
            return f" {op} ".join(sides), _RELATION
        case ir.Logical(op="!", operands=(operand,)):
            return f"not {_at_least(operand, _NOT, context)}", _NOT
        case ir.Logical(op=op, operands=operands):
            word, level = ("and", _AND) if op == "&&" else ("or", _OR)
            return f" {word} ".join(_at_least(o, level, context) for o in operands), level
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            chosen = (_at_least(e, _OR, context) for e in (then, condition))
            return f"{' if '.join(chosen)} else {_text(otherwise, context)}", _CHOICE
        case ir.Call(function=function, args=args):
            return f"math.{function}({_list(args, context)})", _ATOM
        case ir.Cast():
            return _cast(expr, context)
        case ir.Bits() | ir.Broadcast() | ir.Ramp() | ir.Reduce() | ir.Shuffle():
            raise InternalError(f"{type(expr).__name__} in a region without vectors")
        case _:
            raise ir.unknown_node(expr)


def _binary(expr: ir.Binary, context: TextContext) -> tuple[str, int]:
    match expr:
        case ir.Binary(op="min" | "max" as op, dtype=dtype) if dtype == BOOL:
            word = "&&" if op == "min" else "||"
            return _expression(ir.Logical(word, (expr.left, expr.right)), context)
        case ir.Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}imum({_list((left, right), context)})", _ATOM
        case ir.Binary(op="/", dtype=dtype, left=left, right=right) if dtype.is_float:
            return _infix("/", left, right, context), _PRODUCT
        case ir.Binary(op="%", dtype=dtype, left=left, right=right) if dtype.is_float:
            return f"floor_modulo({_list((left, right), context)})", _ATOM
        case ir.Binary(op="/" | "%" as op, left=left, right=ir.Const(value=value) as right) if (
            value > 0
        ):
            text = _infix("//" if op == "/" else "%", left, right, context)
            return (text, _PRODUCT) if _is_exact(expr.dtype) else (f"{expr.dtype}({text})", _ATOM)
        case ir.Binary(op="/" | "%" as op, left=left, right=right):
            name = "floor_divide" if op == "/" else "floor_modulo"
            return f"{name}({_list((left, right), context)})", _ATOM
        case ir.Binary(op=op, dtype=dtype):
            if dtype.kind == "int" and not never_overflows(expr, context.scope.bounds):
                return f"{dtype}({_ring(expr, context, unsigned=True)})", _ATOM
            text = _ring(expr, context)
            return (text, LEVEL[op]) if _is_exact(dtype) else (f"{dtype}({text})", _ATOM)


def _is_exact(dtype: DType) -> bool:
    """Whether numba computes + - * on this type in this type."""
    return dtype.is_float or dtype in (INT64, UINT64)


def _ring(expr: ir.Binary, context: TextContext, *, unsigned: bool = False) -> str:
    """A sum or product before the cast to its type. Of sums and products of one type only the
    whole needs a cast, as the low bits of a result depend on the low bits of its terms alone.
    Signed ones that may leave int64 are computed `unsigned`: LLVM knows no signed overflow."""
    level = LEVEL[expr.op]
    texts = []
    for side, least in ((expr.left, level), (expr.right, level + 1)):
        if isinstance(side, ir.Binary) and side.op in _RING:
            text = _ring(side, context, unsigned=unsigned)
            texts.append(bracketed((text, LEVEL[side.op]), least))
        elif unsigned:
            text = str(side.value) if isinstance(side, ir.Const) else _text(side, context)
            texts.append(f"uint64({text})")
        elif isinstance(side, ir.Const) and side.dtype.kind == "int" and side.value >= 0:
            texts.append(str(side.value))
        else:
            texts.append(_at_least(side, least, context))
    return f" {expr.op} ".join(texts)


def _infix(op: str, left: ir.Expr, right: ir.Expr, context: TextContext) -> str:
    return f"{_at_least(left, _PRODUCT, context)} {op} {_at_least(right, _SIGN, context)}"


def _cast(expr: ir.Cast, context: TextContext) -> tuple[str, int]:
    source, target = expr.operand.dtype, expr.dtype
    text = _text(expr.operand, context)
    if source == target:
        return _expression(expr.operand, context)
    if target == BOOL:
        zero = _text(ir.Const(0.0 if source.is_float else 0, source), context)
        return f"{_at_least(expr.operand, _SUM, context)} != {zero}", _RELATION
    if source == FLOAT16:
        return f"from_half({text})", _ATOM
    if target == FLOAT16:
        narrow = source in (FLOAT32, FLOAT64)
        return f"to_half({text})" if narrow else f"to_half(float32({text}))", _ATOM
    if source.is_float and target.is_integer:
        return f"truncate({text}, {target})", _ATOM
    return f"{target}({text})", _ATOM


def _constant(const: ir.Const) -> tuple[str, int]:
    value, dtype = const.value, const.dtype
    if dtype == BOOL:
        return str(bool(value)), _ATOM
    if dtype == INT64:
        return str(value), _ATOM if value >= 0 else _SIGN
    if dtype == FLOAT64:
        text = repr(float(value))
        return text, _SIGN if text.startswith("-") else _ATOM
    return f"{dtype}({short(float(value)) if dtype == FLOAT32 else value})", _ATOM


# --- places in memory -------------------------------------------------------------------------


def _element(buffer: str, indices: tuple[ir.Expr, ...], context: TextContext) -> str:
    strides, levels = context.buffers[buffer].strides, (_SUM, _PRODUCT, _SIGN)
    text = offset_text(indices, strides, partial(_at_least, context=context), levels)
    return f"{context.names.buffers[buffer]}[{text}]"


# --- names ------------------------------------------------------------------------------------


def _spell(kernel: ir.Kernel, *, vectors: bool = False) -> Spellings:
    """The names in the text of a kernel; `vectors` says that some region is traced.

    >>> _spell(ir.Kernel("2LUT", (), ((), ()))).functions
    ('_2LUT_0', '_2LUT_1')
    """
    speller = Speller(_plain, (*_RESERVED, *(_VECTOR_NAMES if vectors else ())))
    buffers, variables = speller.buffers(kernel), speller.variables(kernel)
    regions = tuple(speller.spell(f"{kernel.name}_{i}") for i in range(len(kernel.regions)))
    return Spellings(regions, buffers, variables)


def _plain(name: str) -> str:
    plain = words(name)
    return (f"_{plain}" if not plain or plain[0].isdigit() else plain)[:MAX_NAME_LETTERS]
