"""Kernels as Python functions, one a region, that `tracing` runs once to write LLVM's code.

Everything that the text does to `m` or to a value that `m` gave becomes an instruction: the text
reads as the loops that run, and its loops are written once. Operators work on values of one type,
of which one may be a plain number; they wrap around and never trap.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tc.backends.numba.traced_functions import EXPONENTS, NATIVE
from tc.backends.printing import (
    Speller,
    Spellings,
    TextContext,
    buffer_lines,
    no_launches,
    plus,
    shared_loop,
    used_buffers,
    words,
)
from tc.builtins.operators import ATOM_LEVEL, LEVEL, UNARY_LEVEL, bracketed
from tc.dtypes import BOOL, DTYPES, FLOAT32, DType
from tc.errors import InternalError
from tc.extents.sizes import is_tracked
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import LaneOffsets
from tc.kernel.rebuild import Scope
from tc.kernel.scratch import ALIGNMENT_BYTES, is_private, scratch_layout
from tc.kernel.sizes import SIZES, is_narrow, number_text
from tc.kernel.walk import assigned_in

# precedence of Python's operators, loosest first
_RELATION, _OR, _PRODUCT = (LEVEL[op] for op in ("==", "|", "*"))
_SIGN, _ATOM = UNARY_LEVEL, ATOM_LEVEL

_MAX_NESTED_BLOCKS = 8
"""Nested blocks after which a function begins: Python takes at most 20 nested blocks, and counts
some blocks twice."""

MAX_NAME_LETTERS = 200
"""Letters of a name that are kept: LLVM merges names whose first thousand letters or so agree."""

_ORDERED = sorted(DTYPES.values(), key=lambda d: (d.kind, d.bits))
_OF_NUMPY = ("bool_", *(d.name for d in _ORDERED if d != BOOL and d.is_in_numpy))
_OF_TRACING = tuple(d.name for d in _ORDERED if not d.is_in_numpy)
_MODULES = (
    ("math", ("inf", "nan")),
    ("numpy", _OF_NUMPY),
    ("tc.backends.numba", ("math",)),
    ("tc.backends.numba.tracing", (*_OF_TRACING, "vector_region")),
)
"""What texts import of which modules."""

_RESERVED = frozenset(
    (
        *keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_OF_NUMPY, *_OF_TRACING,
        "REGIONS", "arguments", "deeper", "failure", "first", "inf", "last", "m", "math", "nan",
        "part", "parts", "vector_region",
    )
)  # fmt: skip


def print_kernel(kernel: ir.Kernel) -> str:
    """The text of a kernel, a module that runs as it stands; equal kernels give equal texts."""
    names = _spell(kernel)
    functions = [_region(number, kernel, names) for number in range(len(kernel.regions))]
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
    used, layout, position = used_buffers(region), scratch_layout(kernel), len(kernel.arguments)
    yield "@vector_region"
    yield f"def {names.functions[number]}(m, arguments, failure, part, parts):"
    for place, buffer in enumerate(kernel.buffers):
        if buffer.name not in used and (buffer.role != "sizes" or not is_tracked(layout.size)):
            continue
        dtype = _dtype(buffer.dtype)
        if is_private(buffer):
            size, start = (
                number_text(number, kernel, names.buffers.get(SIZES, ""))
                for number in (layout.size, layout.starts[buffer.name])
            )
            text = f"m.scratch(arguments, {position}, part, {size}, {start}, {dtype})"
        else:
            wide = "" if is_narrow(buffer) else ", wide=True"
            kind = used.get(buffer.name, "read_only")
            text = f"m.{kind}(arguments, {place}, {dtype}{wide})"
        yield f"    {names.buffers[buffer.name]} = {text}"
    buffers = {b.name: b for b in kernel.buffers}
    context = _Context(names, buffers, Scope(assigned_in(region)), shared_loop(region))
    yield from _block(region, context)


def _dtype(dtype: DType) -> str:
    return "bool_" if dtype.scalar == BOOL else dtype.name


# --- statements -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context(TextContext):
    """`shared` is the loop whose iterations are shared, and `depth` counts the blocks around."""

    shared: ir.For | None
    depth: int = 0


def _block(stmts: tuple[ir.Stmt, ...], context: _Context) -> Iterator[str]:
    """The indented lines of a block."""
    context = replace(context, depth=context.depth + 1)
    lines: list[str] = []
    with context.scope.block():
        for stmt in stmts:
            lines += _statement(stmt, context)
            context.scope.learn(stmt)
    if all(line.startswith("#") for line in lines):
        lines.append("pass")
    if context.depth % _MAX_NESTED_BLOCKS == 0:
        lines = ["def deeper():", *(f"    {line}" for line in lines), "deeper()"]
    yield from (f"    {line}" for line in lines)


def _statement(stmt: ir.Stmt, context: _Context) -> Iterator[str]:
    variables = context.names.variables
    match stmt:
        case ir.For(var=var, begin=begin, end=end, body=body):
            bounds = ", ".join(_number_or_text(bound, context) for bound in (begin, end))
            if stmt is context.shared:
                yield f"first, last = m.share({bounds}, part, parts)"
                bounds = "first, last"
            yield f"for {variables[var]} in m.range({bounds}):"
            yield from _block(body, context)
        case ir.If(condition=condition, then=then, otherwise=otherwise, rare=rare):
            yield f"with m.when({_text(condition, context)}{', rare=True' if rare else ''}):"
            yield from _block(then, context)
            if otherwise:
                yield "with m.otherwise():"
                yield from _block(otherwise, context)
        case ir.Let(var=var, value=value):
            text = _text(value, context)
            text = f"m.variable({text})" if var in context.scope.assigned else text
            yield f"{variables[var]} = {text}"
        case ir.Set(var=var, value=value):
            yield f"{variables[var]}.set({_number_or_text(value, context)})"
        case ir.Store():
            yield _store(stmt, context)
        case ir.Prefetch():
            yield _prefetch(stmt, context)
        case ir.Fail(site=site, values=values):
            texts = ", ".join(_number_or_text(value, context) for value in values)
            yield f"m.record(failure, {site}{', ' if texts else ''}{texts})"
        case ir.Comment(text=text):
            yield from (f"# {line}".rstrip() for line in text.splitlines())
        case _ if isinstance(stmt, ir.Grid | ir.OfGrid):
            raise no_launches("numba")
        case _:
            raise ir.unknown_node(stmt)


# --- expressions ------------------------------------------------------------------------------


def _text(expr: ir.Expr, context: _Context) -> str:
    return _expression(expr, context)[0]


def _at_least(expr: ir.Expr, level: int, context: _Context) -> str:
    return bracketed(_expression(expr, context), level)


def _expression(expr: ir.Expr, context: _Context) -> tuple[str, int]:
    """The text and the precedence of its outermost operator."""
    match expr:
        case ir.Const(value=v, dtype=dtype) | ir.Broadcast(operand=ir.Const(value=v), dtype=dtype):
            lanes = f", {dtype.lanes}" if dtype.lanes > 1 else ""
            return f"m.constant({_spelled(v, dtype)}, {_dtype(dtype)}{lanes})", _ATOM
        case ir.Var(name=name):
            spelling = context.names.variables[name]
            return f"{spelling}.value" if name in context.scope.assigned else spelling, _ATOM
        case ir.Load():
            return _load(expr, context), _ATOM
        case ir.Unary(operand=operand):
            return f"-{_at_least(operand, _SIGN, context)}", _SIGN
        case ir.Binary(op="min" | "max" as op, left=left, right=right):
            return f"m.{op}imum({_operands((left, right), context)})", _ATOM
        case ir.Binary(op=op, left=left, right=right):
            whole = op == "/" and not expr.dtype.is_float
            return _infix("//" if whole else op, left, right, context)
        case ir.Compare(op=op, left=left, right=right):
            first, second = _numbers_once((left, right), context)
            return f"{bracketed(first, _OR)} {op} {bracketed(second, _OR)}", _RELATION
        case ir.Logical():
            return _logical(expr, context)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            if expr.dtype.lanes == 1 and (_has_load(then) or _has_load(otherwise)):
                lazy = (f"lambda: {_text(e, context)}" for e in (then, otherwise))
                return f"m.choose({_text(condition, context)}, {', '.join(lazy)})", _ATOM
            branches = _operands((then, otherwise), context)
            return f"m.select({_text(condition, context)}, {branches})", _ATOM
        case ir.Call(function=function, args=args, dtype=dtype):
            if function in NATIVE or (dtype.lanes > 1 and function in EXPONENTS):
                return f"m.{function}({_operands(args, context)})", _ATOM
            if dtype.lanes > 1:
                raise InternalError(f"{function} of vectors is no single instruction")
            return f"m.call(math.{function}, {_operands(args, context)})", _ATOM
        case ir.WarpReduce():
            raise no_launches("numba")
        case _:
            return _conversion(expr, context), _ATOM


def _conversion(
    expr: ir.Cast | ir.Bits | ir.Broadcast | ir.Ramp | ir.Reduce | ir.Shuffle, context: _Context
) -> str:
    match expr:
        case ir.Cast(operand=operand, dtype=dtype):
            return f"m.cast({_text(operand, context)}, {_dtype(dtype)})"
        case ir.Bits(operand=operand, dtype=dtype):
            return f"m.bits({_text(operand, context)}, {_dtype(dtype)})"
        case ir.Broadcast(operand=operand, dtype=dtype):
            return f"m.broadcast({_text(operand, context)}, {dtype.lanes})"
        case ir.Ramp(base=base, step=step, dtype=dtype):
            return f"m.ramp({_number_or_text(base, context)}, {step}, {dtype.lanes})"
        case ir.Reduce(op=op, operand=operand):
            return f'm.reduce("{op}", {_text(operand, context)})'
        case ir.Shuffle(left=left, right=right, lanes=lanes):
            texts = (_text(side, context) for side in (left, right))
            return f"m.shuffle({', '.join(texts)}, {_sequence(lanes)})"
        case _:
            raise ir.unknown_node(expr)


def _logical(expr: ir.Logical, context: _Context) -> tuple[str, int]:
    match expr:
        case ir.Logical(op="!", operands=(operand,)):
            return f"~{_at_least(operand, _SIGN, context)}", _SIGN
        case ir.Logical(op=op, operands=(left, right)) if expr.dtype.lanes == 1 and _has_load(
            right
        ):
            name = "both" if op == "&&" else "either"
            return f"m.{name}({_text(left, context)}, lambda: {_text(right, context)})", _ATOM
        case ir.Logical(op=op, operands=(left, right)):
            return _infix("&" if op == "&&" else "|", left, right, context)
        case _:
            raise InternalError(f"{len(expr.operands)} operands of {expr.op}")


def _has_load(expr: ir.Expr) -> bool:
    """Whether an expression must not be evaluated where it is not needed."""
    return any(isinstance(e, ir.Load) for e in ir.walk(expr))


def _infix(op: str, left: ir.Expr, right: ir.Expr, context: _Context) -> tuple[str, int]:
    level = LEVEL[op]
    first, second = _numbers_once((left, right), context)
    return f"{bracketed(first, level)} {op} {bracketed(second, level + 1)}", level


def _operands(exprs: Sequence[ir.Expr], context: _Context) -> str:
    return ", ".join(text for text, _ in _numbers_once(exprs, context))


def _numbers_once(exprs: Sequence[ir.Expr], context: _Context) -> list[tuple[str, int]]:
    """Operands of one type, constants among them as plain numbers; but one of them is a value."""
    numbers = [_number(expr) for expr in exprs]
    if None not in numbers:
        numbers[0] = None
    return [
        _expression(expr, context) if number is None else number
        for expr, number in zip(exprs, numbers, strict=True)
    ]


def _number(expr: ir.Expr) -> tuple[str, int] | None:
    """A constant as a plain number."""
    constant = expr.operand if isinstance(expr, ir.Broadcast) else expr
    if not isinstance(constant, ir.Const):
        return None
    text = _spelled(constant.value, constant.dtype)
    return text, _SIGN if text.startswith("-") else _ATOM


def _number_or_text(expr: ir.Expr, context: _Context) -> str:
    """An expression where a number is taken for a value of the type that is needed there."""
    number = _number(expr)
    return _text(expr, context) if number is None else number[0]


def _spelled(value: float, dtype: DType) -> str:
    if dtype.scalar == FLOAT32:
        text = str(np.float32(value))  # the shortest that is read as it, by way of a float64
        return text if np.float32(float(text)) == np.float32(value) else repr(float(value))
    if dtype.is_float:
        return repr(float(value))
    return str(bool(value) if dtype.scalar == BOOL else value)


def _sequence(numbers: Sequence[int]) -> str:
    """Integers, as a range where they are one.

    >>> _sequence([0, 2, 4]), _sequence([1, 0, 3]), _sequence([5])
    ('range(0, 6, 2)', '(1, 0, 3)', '(5,)')
    """
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    end = numbers[-1] + step
    if step and list(numbers) == list(range(numbers[0], end, step)):
        bounds = f"{numbers[0]}, {end}" if numbers[0] or step != 1 else f"{end}"
        return f"range({bounds}{f', {step}' if step != 1 else ''})"
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


# --- places in memory -------------------------------------------------------------------------


def _load(expr: ir.Load, context: _Context) -> str:
    name, lanes = context.names.buffers[expr.buffer], expr.dtype.lanes
    place = context.place(expr.buffer, expr.indices, lanes)
    base = _base(place, context)
    if lanes == 1:
        return f"{name}[{base}]"
    mask = "" if expr.mask is None else f", mask={_text(expr.mask, context)}"
    if place.vectors.terms:
        return f"m.gather({name}, {base}, {_distances(place, context)}{mask})"
    aligned = _aligned(expr.buffer, place, context)
    if place.distances == list(range(lanes)):
        return f"m.load({name}, {base}, {lanes}{mask}{aligned})"
    return f"m.load({name}, {base}, {_sequence(place.distances)}{mask})"


def _store(stmt: ir.Store, context: _Context) -> str:
    name, lanes = context.names.buffers[stmt.buffer], stmt.value.dtype.lanes
    place = context.place(stmt.buffer, stmt.indices, lanes)
    base = _base(place, context)
    if lanes == 1:
        return f"{name}[{base}] = {_number_or_text(stmt.value, context)}"
    value = _text(stmt.value, context)
    mask = "" if stmt.mask is None else f", mask={_text(stmt.mask, context)}"
    if place.vectors.terms:
        return f"m.scatter({name}, {base}, {_distances(place, context)}, {value}{mask})"
    if place.distances == list(range(lanes)):
        if stmt.non_temporal and _is_multiple(stmt.buffer, place, context):
            return f"m.stream({name}, {base}, {value})"
        aligned = _aligned(stmt.buffer, place, context)
        return f"m.store({name}, {base}, {value}{mask}{aligned})"
    return f"m.store({name}, {base}, {value}{mask}, lanes={_sequence(place.distances)})"


def _prefetch(stmt: ir.Prefetch, context: _Context) -> str:
    place = context.place(stmt.buffer, stmt.indices, stmt.lanes)
    if place.vectors.terms:
        return "pass  # nothing for places without a pattern"
    name = context.names.buffers[stmt.buffer]
    return f"m.prefetch({name}, {_base(place, context)}, {_sequence(place.distances)})"


def _aligned(buffer: str, place: LaneOffsets, context: _Context) -> str:
    """The argument that says that an access to scratch memory is aligned; empty where that is not
    sure."""
    known = is_private(context.buffers[buffer]) and _is_multiple(buffer, place, context)
    return ", aligned=True" if known else ""


def _is_multiple(buffer: str, place: LaneOffsets, context: _Context) -> bool:
    """Whether the offset of a vector is sure to be a multiple of `ALIGNMENT_BYTES`, or of the bytes
    of the vector if these are fewer."""
    element = context.buffers[buffer].dtype.bytes
    size = min(ALIGNMENT_BYTES, len(place.distances) * element)
    return place.divisor(context.scope.lets) * element % size == 0


def _base(place: LaneOffsets, context: _Context) -> str:
    return _sum(_terms(place.scalars.terms, context), place.scalars.constant)


def _distances(place: LaneOffsets, context: _Context) -> str:
    terms = _terms(place.vectors.terms, context)
    if any(place.distances):
        terms.append((f"m.lanes({_sequence(place.distances)})", False))
    return _sum(terms, 0)


def _terms(factors: Mapping[ir.Expr, int], context: _Context) -> list[tuple[str, bool]]:
    texts = {term: _at_least(term, _PRODUCT, context) for term, factor in factors.items() if factor}
    return [
        (text if abs(factors[term]) == 1 else f"{text} * {abs(factors[term])}", factors[term] < 0)
        for term, text in texts.items()
    ]


def _sum(terms: Sequence[tuple[str, bool]], constant: int) -> str:
    """A sum of terms, each with whether it is subtracted, and a constant."""
    text = ""
    for term, negative in sorted(terms, key=lambda pair: pair[1]):
        if text:
            text += f" {'-' if negative else '+'} {term}"
        else:
            text = f"-({term})" if negative else term
    return plus(text, constant)


# --- names ------------------------------------------------------------------------------------


def _spell(kernel: ir.Kernel) -> Spellings:
    """The names in the text of a kernel.

    >>> _spell(ir.Kernel("2LUT", (), ((), ()))).functions
    ('_2LUT_0', '_2LUT_1')
    """
    speller = Speller(_plain, _RESERVED)
    buffers, variables = speller.buffers(kernel), speller.variables(kernel)
    regions = tuple(speller.spell(f"{kernel.name}_{i}") for i in range(len(kernel.regions)))
    return Spellings(regions, buffers, variables)


def _plain(name: str) -> str:
    plain = words(name)
    return (f"_{plain}" if not plain or plain[0].isdigit() else plain)[:MAX_NAME_LETTERS]
