"""Kernels as C: one function, plain loops, readable enough to be taken along (seeds 004).

The text has no undefined behaviour where the kernel has a meaning: integers that may leave their
type are computed unsigned, and conversions and divisions that could trap go through helpers. It
compiles without a warning. What differs between C-like languages is in a `Dialect`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tc.backends.c_helpers import C_TYPES, helper_texts
from tc.backends.c_names import Names
from tc.backends.intervals import Interval, interval, loop_interval, type_interval
from tc.builtins import BUILTINS
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
from tc.errors import BackendError
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
    row_major,
    unknown_node,
    walk,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a C-like language does in its own way.

    `includes` are header lines, each with a pattern of the texts that need it. `pointer` is the
    declaration of a buffer from "type" (with const, if any) and "name". `suffix` ends the names
    of float functions. `native` are functions of the table that the language has itself.
    """

    includes: tuple[tuple[str, str], ...]
    function: str
    pointer: str
    suffix: str
    native: Mapping[str, str]


C99 = Dialect(
    includes=(
        ("#include <math.h>", r"INFINITY|NAN|\b[a-z][a-z0-9]*\("),
        ("#include <stdbool.h>", r"\b(bool|true|false)\b"),
        ("#include <stdint.h>", r"\w_t\b"),
    ),
    function="void",
    pointer="{type}* restrict {name}",
    suffix="f",
    native={},
)

# precedence, loosest first
_CHOICE, _OR, _AND, _EQUAL, _RELATION, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)
_LEVELS = {
    "||": _OR, "&&": _AND, "==": _EQUAL, "!=": _EQUAL, "<": _RELATION, "<=": _RELATION,
    ">": _RELATION, ">=": _RELATION, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT,
    "%": _PRODUCT,
}  # fmt: skip
_RING = ("+", "-", "*")


def print_kernel(kernel: Kernel, dialect: Dialect = C99) -> str:
    """The text of a kernel; equal kernels give equal texts. BackendError for functions that only
    scipy has (Y7).

    The function takes a pointer for each buffer in order and, where the kernel can fail, a last
    one to `status`: int64 numbers, 0 at first, that receive site + 1 and the values of the first
    failure.
    """
    names = Names.of(kernel)
    context = _Context(names, {b.name: b for b in kernel.buffers}, dialect, _assigned(kernel), {})
    body = [line for lines in _regions(kernel, context) for line in lines]
    signature = _signature(kernel, context)
    code = "\n".join(_code(line) for line in body)
    unused = [name for name in names.buffers.values() if not re.search(rf"\b{name}\b", code)]
    body = [*(f"    (void){name};" for name in unused), *body]
    helpers = helper_texts("\n".join(body))
    text = "\n".join((*helpers, *signature, *body))
    includes = [line for line, used in dialect.includes if re.search(used, _uncommented(text))]
    parts = ["\n".join(_head(kernel, names)), "\n".join(includes), *helpers]
    function = "\n".join((*signature, "{", *body, "}"))
    return "\n\n".join((*(part for part in parts if part), function)) + "\n"


# --- around the loops -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context:
    """`assigned` are the locals that a Set changes, `known` bounds on other variables."""

    names: Names
    buffers: Mapping[str, Buffer]
    dialect: Dialect
    assigned: frozenset[str]
    known: Mapping[str, Interval]

    def knowing(self, name: str, bounds: Interval) -> _Context:
        return replace(self, known={**self.known, name: bounds})


def _head(kernel: Kernel, names: Names) -> Iterator[str]:
    yield f"// {_plain(kernel.name)}"
    for buffer in kernel.buffers:
        spelling = names.buffers[buffer.name]
        name = buffer.name if buffer.name == spelling else f"{buffer.name} (here {spelling})"
        text = f"//   {buffer.role} {buffer.dtype}({', '.join(map(str, buffer.shape))}) {name}"
        if buffer.strides != row_major(buffer.shape):
            text += f", strides ({', '.join(map(str, buffer.strides))})"
        yield _plain(text)


def _signature(kernel: Kernel, context: _Context) -> list[str]:
    pointer = context.dialect.pointer
    parameters = [
        pointer.format(
            type=("const " if b.role == "input" else "") + C_TYPES[b.dtype],
            name=context.names.buffers[b.name],
        )
        for b in kernel.buffers
    ]
    if any(isinstance(s, Fail) for region in kernel.regions for s in _statements(region)):
        parameters.append(pointer.format(type=C_TYPES[INT64], name="status"))
    start = f"{context.dialect.function} {context.names.function}("
    line = f"{start}{', '.join(parameters) or 'void'})"
    if len(line) <= 96:
        return [line]
    return [start, *(f"    {p}," for p in parameters[:-1]), f"    {parameters[-1]})"]


def _regions(kernel: Kernel, context: _Context) -> Iterator[list[str]]:
    """The lines of each region; one that declares locals gets a block for them."""
    for number, region in enumerate(kernel.regions):
        lines = list(_block(region, context))
        if any(isinstance(s, Let) for s in region) and len(kernel.regions) > 1:
            lines = ["    {", *(f"    {line}" for line in lines), "    }"]
        yield ["", *lines] if number and lines else lines


def _statements(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, For):
            yield from _statements(stmt.body)
        elif isinstance(stmt, If):
            yield from _statements(stmt.then)
            yield from _statements(stmt.otherwise)


def _assigned(kernel: Kernel) -> frozenset[str]:
    found = (s for region in kernel.regions for s in _statements(region))
    return frozenset(s.var for s in found if isinstance(s, Set))


def _plain(text: str) -> str:
    """One line of a comment: nothing that ends it, joins it to the next or reorders it."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("\\", "/").replace("??", "?")


def _code(line: str) -> str:
    return line.partition("//")[0]


def _uncommented(text: str) -> str:
    return "\n".join(map(_code, text.split("\n")))


# --- statements -------------------------------------------------------------------------------


def _block(stmts: tuple[Stmt, ...], context: _Context) -> Iterator[str]:
    """The indented lines of a block. Locals that nothing reads are named once, so that compilers
    do not warn."""
    lines: list[str] = []
    for stmt in stmts:
        lines += _statement(stmt, context)
        if isinstance(stmt, Let) and not stmt.dtype.is_float and stmt.var not in context.assigned:
            context = context.knowing(stmt.var, interval(stmt.value, context.known))
    code = "\n".join(map(_code, lines))
    for local in (context.names.variables[s.var] for s in stmts if isinstance(s, Let)):
        if not re.search(rf"\b{local}\b(?! = )", code):
            lines.append(f"(void){local};")
    yield from (f"    {line}" if line else "" for line in lines)


def _statement(stmt: Stmt, context: _Context) -> Iterator[str]:
    variables = context.names.variables
    match stmt:
        case For():
            yield from _for(stmt, context)
        case If(condition=condition, then=then, otherwise=otherwise):
            yield f"if ({_text(condition, context)}) {{"
            yield from _block(then, context)
            if otherwise:
                yield "} else {"
                yield from _block(otherwise, context)
            yield "}"
        case Let(var=var, value=value):
            yield f"{C_TYPES[value.dtype]} {variables[var]} = {_bare(value, context)};"
        case Set(var=var, value=value):
            yield f"{variables[var]} = {_bare(value, context)};"
        case Store(buffer=buffer, indices=indices, value=value):
            yield f"{_element(buffer, indices, context)} = {_bare(value, context)};"
        case Fail(site=site, values=values):
            yield "if (status[0] == 0) {"
            yield f"    status[0] = {site + 1};"
            for k, value in enumerate(values, 1):
                yield f"    status[{k}] = {_bare(value, context)};"
            yield "}"
        case Comment(text=text):
            yield from (f"// {_plain(line)}".rstrip() for line in text.splitlines())
        case _:
            raise unknown_node(stmt)


def _for(stmt: For, context: _Context) -> Iterator[str]:
    var, type_ = context.names.variables[stmt.var], C_TYPES[INT64]
    end = _bare_at_least(stmt.end, _SUM, context)
    inner = context.knowing(stmt.var, loop_interval(stmt, context.known))
    changes = any(
        isinstance(e, Load) or (isinstance(e, Var) and e.name in context.assigned)
        for e in walk(stmt.end)
    )
    start = f"{type_} {var} = {_bare(stmt.begin, context)}"
    if changes:  # the loop must not see that its body changes its end
        start, end = f"{start}, tc_end = {end}", "tc_end"
    yield f"for ({start}; {var} < {end}; {var}++) {{"
    yield from _block(stmt.body, inner)
    yield "}"


# --- expressions ------------------------------------------------------------------------------


def _text(expr: Expr, context: _Context) -> str:
    return _expression(expr, context)[0]


def _at_least(expr: Expr, level: int, context: _Context) -> str:
    text, own = _expression(expr, context)
    return text if own >= level else f"({text})"


def _bare(expr: Expr, context: _Context) -> str:
    return _bare_at_least(expr, _CHOICE, context)


def _bare_at_least(expr: Expr, level: int, context: _Context) -> str:
    """The text where its place fixes the type, so that a constant need not say its own."""
    if isinstance(expr, Const) and expr.dtype in (INT64, UINT64) and abs(expr.value) < 2**31:
        text = str(int(expr.value))
        return text if expr.value >= 0 or level <= _UNARY else f"({text})"
    return _at_least(expr, level, context)


def _pair(op: str, left: Expr, right: Expr, context: _Context) -> tuple[str, int]:
    """An infix operation; at most one of two constants may leave its type to the other."""
    level = _LEVELS[op]
    # compilers doubt comparisons of comparisons without parentheses, and a && b || c
    first = level if op in ("+", "*", "-", "/", "%", "&&", "||") else _SUM
    second = first if op in ("&&", "||") else max(first + 1, level + 1) if level >= _SUM else _SUM
    if op == "||":
        first = second = _EQUAL if _is_logical(left, "&&") or _is_logical(right, "&&") else _OR
    left_text = _at_least(left, first, context)
    if not isinstance(right, Const):
        left_text = _bare_at_least(left, first, context)
    right_text = _bare_at_least(right, second, context)
    return f"{left_text} {op} {right_text}", level


def _is_logical(expr: Expr, op: str) -> bool:
    return isinstance(expr, Logical) and expr.op == op


def _expression(expr: Expr, context: _Context) -> tuple[str, int]:
    """The text, of exactly the expression's type or a narrower one that C widens to int, and the
    precedence of its outermost operator."""
    match expr:
        case Const():
            return _constant(expr)
        case Var(name=name):
            return context.names.variables[name], _ATOM
        case Load(buffer=buffer, indices=indices):
            return _element(buffer, indices, context), _ATOM
        case Unary():
            return _negation(expr, context)
        case Binary():
            return _binary(expr, context)
        case Compare():
            return _compare(expr, context)
        case Logical(op="!", operands=(operand,)):
            return f"!{_at_least(operand, _ATOM, context)}", _UNARY
        case Logical(op=op, operands=(left, right)):
            return _pair(op, left, right, context)
        case Select(condition=condition, then=then, otherwise=otherwise):
            test = _at_least(condition, _OR, context)
            chosen = _at_least(then, _OR, context), _at_least(otherwise, _CHOICE, context)
            return f"{test} ? {chosen[0]} : {chosen[1]}", _CHOICE
        case Call():
            return _call(expr, context)
        case Cast():
            return _cast(expr, context)
        case _:
            raise unknown_node(expr)  # type: ignore[arg-type]  # Logical of three operands


def _apply(function: str, args: Iterable[Expr], context: _Context) -> tuple[str, int]:
    return f"{function}({', '.join(_bare(arg, context) for arg in args)})", _ATOM


def _negation(expr: Unary, context: _Context) -> tuple[str, int]:
    dtype, operand = expr.dtype, expr.operand
    if dtype.is_float or interval(operand, context.known)[0] > type_interval(dtype)[0]:
        text = _at_least(operand, _UNARY, context)
        if dtype.is_float or dtype.kind == "int":
            return f"-({text})" if text.startswith("-") else f"-{text}", _UNARY
    wrapped = f"0 - {_unsigned(operand, _PRODUCT, dtype, context)}"
    return f"({C_TYPES[dtype]})({wrapped})", _UNARY


def _binary(expr: Binary, context: _Context) -> tuple[str, int]:
    op, dtype, operands = expr.op, expr.dtype, (expr.left, expr.right)
    if dtype == BOOL:
        return _pair("&&" if op == "min" else "||", *operands, context)
    if op in ("min", "max"):
        return _apply(f"tc_{op}_{dtype}", operands, context)
    if dtype.is_float:
        return (
            _apply(f"tc_mod_{dtype}", operands, context)
            if op == "%"
            else _pair(op, *operands, context)
        )
    if op in ("/", "%"):
        is_plain = (
            isinstance(expr.right, Const)
            and expr.right.value > 0
            and interval(expr.left, context.known)[0] >= 0
        )
        if is_plain:
            return _pair(op, *operands, context)
        family = "div" if op == "/" else "mod"
        return _apply(f"tc_{family}_{dtype}", operands, context)
    if dtype in (UINT32, UINT64) or _stays(expr, context):
        return _pair(op, *operands, context)
    return f"({C_TYPES[dtype]})({_ring(expr, dtype, context)[0]})", _UNARY


def _stays(expr: Binary, context: _Context) -> bool:
    """Whether a sum, difference or product does not leave its type."""
    (a, b), (c, d) = (interval(side, context.known) for side in (expr.left, expr.right))
    least, greatest = type_interval(expr.dtype)
    match expr.op:
        case "+":
            found = [a + c, b + d]
        case "-":
            found = [a - d, b - c]
        case _:
            found = [x * y for x in (a, b) for y in (c, d)]
    return least <= min(found) and max(found) <= greatest


def _ring(expr: Expr, dtype: DType, context: _Context) -> tuple[str, int]:
    """A sum, difference or product in the unsigned type, whose low bits are the value."""
    if not (isinstance(expr, Binary) and expr.op in _RING):
        return _unsigned(expr, _UNARY, dtype, context), _UNARY
    level = _LEVELS[expr.op]
    texts = []
    for side, least in ((expr.left, level), (expr.right, level + 1)):
        text, own = _ring(side, dtype, context)
        texts.append(text if own >= least else f"({text})")
    return f" {expr.op} ".join(texts), level


def _unsigned(expr: Expr, level: int, dtype: DType, context: _Context) -> str:
    target = UINT64 if dtype.bits == 64 else UINT32
    if isinstance(expr, Const) and expr.value >= 0:
        return _constant(Const(expr.value, target))[0]
    text = f"({C_TYPES[target]}){_bare_at_least(expr, _UNARY, context)}"
    return text if level <= _UNARY else f"({text})"


def _compare(expr: Compare, context: _Context) -> tuple[str, int]:
    """A comparison; compilers warn of those whose result the types alone decide."""
    op, left, right = expr.op, expr.left, expr.right
    if not left.dtype.is_float and (decided := _decided(op, left, right)) is not None:
        return str(decided).lower(), _ATOM
    return _pair(op, left, right, context)


def _decided(op: str, left: Expr, right: Expr) -> bool | None:
    if left == right:
        return op in ("==", "<=", ">=")
    (a, b), (c, d) = interval(left, {}), interval(right, {})
    if b < c:
        return op in ("!=", "<", "<=")
    if d < a:
        return op in ("!=", ">", ">=")
    if (b == c and op in ("<=", ">")) or (a == d and op in (">=", "<")):
        return op in ("<=", ">=")
    return None


def _call(expr: Call, context: _Context) -> tuple[str, int]:
    builtin, dtype = BUILTINS[expr.function], expr.dtype
    if not dtype.is_float:  # abs
        if dtype.kind == "int":
            return _apply(f"tc_abs_{dtype}", expr.args, context)
        return _expression(expr.args[0], context)
    name = context.dialect.native.get(builtin.name, builtin.c)
    if name is None:
        raise BackendError(
            f"'{builtin.name}' is a function of scipy, which C does not have",
            rule="Y7",
            repair='backend="numba" (or backend="interpret")',
        )
    return _apply(name + (context.dialect.suffix if dtype == FLOAT32 else ""), expr.args, context)


def _cast(expr: Cast, context: _Context) -> tuple[str, int]:
    operand, source, target = expr.operand, expr.operand.dtype, expr.dtype
    if source == target:
        return _expression(operand, context)
    if source == FLOAT16:
        widened = _apply("tc_float_of_half", (operand,), context)
        return widened if target == FLOAT32 else _cast(Cast(Cast(operand, FLOAT32), target), context)
    if target == BOOL:
        zero = Const(0.0 if source.is_float else 0, source)
        return _compare(Compare("!=", operand, zero), context)
    if target == FLOAT16:
        exact = "float" if source == FLOAT32 else "double"
        return _apply(f"tc_half_of_{exact}", (operand,), context)
    if source.is_float and target.is_integer:
        return _apply(f"tc_to_{target}", (operand,), context)
    return f"({C_TYPES[target]}){_bare_at_least(operand, _UNARY, context)}", _UNARY


def _constant(const: Const) -> tuple[str, int]:
    """A constant of exactly its type.

    >>> [_constant(Const(v, t))[0] for v, t in ((0.1, FLOAT32), (-2.0, FLOAT64), (3, INT64))]
    ['0.1f', '-2.0', 'INT64_C(3)']
    """
    value, dtype = const.value, const.dtype
    if dtype == BOOL:
        return str(bool(value)).lower(), _ATOM
    if dtype.is_float:
        text = _float_text(float(value), dtype)
    elif value == type_interval(dtype)[0] and dtype in (INT32, INT64):
        text = f"{dtype.name.upper()}_MIN"
    elif dtype in (INT64, UINT64):
        text = f"{'-' if value < 0 else ''}{dtype.name.upper()}_C({abs(value)})"
    else:
        text = f"{value}u" if dtype == UINT32 else str(value)
    return text, _UNARY if text.startswith("-") else _ATOM


def _float_text(value: float, dtype: DType) -> str:
    """The shortest decimal that C reads as this number."""
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    text = str(np.float32(value)) if dtype == FLOAT32 else repr(value)
    if not set(text) & set(".e"):
        text += ".0"
    return text + ("f" if dtype == FLOAT32 else "")


def _element(buffer: str, indices: tuple[Expr, ...], context: _Context) -> str:
    """An element by its offset from element (0, ..., 0), the sum of index * stride. Indices are
    in bounds, so the sum stays in int64."""
    text, rest = "", 0
    for index, stride in zip(indices, context.buffers[buffer].strides, strict=True):
        if isinstance(index, Const):
            rest += int(index.value) * stride
        elif stride != 0:
            sign = "-" if stride < 0 else "+"
            level = _PRODUCT if abs(stride) == 1 and (stride < 0 or text) else _SUM
            term = _at_least(index, level if abs(stride) == 1 else _PRODUCT, context)
            term = term if abs(stride) == 1 else f"{term} * {abs(stride)}"
            first = term if stride > 0 else f"-({term})" if " " in term or "-" in term else f"-{term}"
            text = f"{text} {sign} {term}" if text else first
    if rest or not text:
        text = f"{text} {'-' if rest < 0 else '+'} {abs(rest)}" if text else str(rest)
    return f"{context.names.buffers[buffer]}[{text}]"


