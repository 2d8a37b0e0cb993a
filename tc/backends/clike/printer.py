"""Kernels as C: one function, plain loops, readable enough to be taken along.

The text is C99, with the vectors of GCC and Clang where the kernel has any. It has no undefined
behaviour where the kernel has a meaning, and compiles without a warning. Expressions are in
`expressions`; what differs between C-like languages is a `Dialect`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tc.backends.clike.expressions import Context, Dialect, bare, compared, element, text_of
from tc.backends.clike.guarded_loads import PRAGMA, guards_loads
from tc.backends.clike.helpers import helper_texts
from tc.backends.clike.instructions import HEADER
from tc.backends.clike.masks import bits_of_local
from tc.backends.clike.names import LIBRARY, Names
from tc.backends.clike.types import C_TYPES, VECTOR_PRAGMA, c_type, typedef_texts
from tc.backends.clike.vector_memory import prefetch_lines
from tc.backends.clike.vectors import local_type, local_value, vector_store_text, vector_text
from tc.backends.intervals import interval, loop_interval
from tc.backends.scratch import ALIGNMENT, ScratchLayout, scratch_layout
from tc.dtypes import BOOL, INT64, UINT8
from tc.kernel.ir import (
    Binary,
    Buffer,
    Comment,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    row_major,
    statements,
    unknown_node,
    walk,
)
from tc.kernel.places import remembered

C99 = Dialect(
    includes=(
        ("#include <math.h>", rf"\b(INFINITY|NAN|({'|'.join(LIBRARY)})f?\()"),
        ("#include <stdbool.h>", r"\b(bool|true|false)\b"),
        ("#include <stdint.h>", r"\w_t\b"),
        (HEADER, r"\b_mm\d*_"),
    ),
    function="void",
    pointer="{type}* restrict {name}",
    suffix="f",
    native={},
    vector=vector_text,
)
_MOST_UNROLLED = 64


def print_kernel(kernel: Kernel, dialect: Dialect = C99) -> str:
    """The text of a kernel; equal kernels give equal texts. BackendError for functions that only
    scipy has (Y7).

    The function takes a pointer for each argument in order, where the kernel can fail one to
    `status`: int64 numbers, 0 at first, that receive site + 1 and the values of the first
    failure; and where it has scratch buffers one to `workspace`: the bytes of `scratch_of`, which
    no other call uses at the same time.
    """
    names = Names.of(kernel)
    context = Context(names, {b.name: b for b in kernel.buffers}, dialect, _assigned(kernel), {})
    body = [line for lines in _regions(kernel, context) for line in lines]
    signature = _signature(kernel, context)
    code = "\n".join(_code(line) for line in body)
    body = [*_declarations(kernel, names, code), *body]
    helpers = helper_texts("\n".join(body))
    text = _uncommented("\n".join((*helpers, *signature, *body)))
    vectors = typedef_texts(text)
    text = "\n".join((*vectors, text))
    includes = [line for line, used in dialect.includes if re.search(used, text)]
    extensions = [VECTOR_PRAGMA, *vectors] if vectors else []
    guards = [PRAGMA] if guards_loads(kernel) else []
    parts = map("\n".join, (_head(kernel, names), guards, includes, extensions))
    function = "\n".join((*signature, "{", *body, "}"))
    return "\n\n".join((*(part for part in parts if part), *helpers, function)) + "\n"


def scratch_of(kernel: Kernel) -> ScratchLayout:
    """Where the scratch buffers lie in the workspace of a call. Registers are locals."""
    scratch = tuple(b for b in kernel.buffers if b.role == "scratch")
    return scratch_layout(Kernel(kernel.name, scratch, ()))


def values_of_fails(kernel: Kernel) -> dict[int, int]:
    """How many values the Fails of each site record."""
    found = (s for region in kernel.regions for s in statements(region))
    return {s.site: len(s.values) for s in found if isinstance(s, Fail)}


# --- around the loops -------------------------------------------------------------------------


def _head(kernel: Kernel, names: Names) -> Iterator[str]:
    yield f"// {_plain(kernel.name)}"
    for buffer in kernel.buffers:
        spelling = names.buffers[buffer.name]
        name = buffer.name if buffer.name == spelling else f"{buffer.name} (here {spelling})"
        text = f"//   {buffer.role} {buffer.dtype}({', '.join(map(str, buffer.shape))}) {name}"
        if buffer.strides != row_major(buffer.shape):
            text += f", strides ({', '.join(map(str, buffer.strides))})"
        yield _plain(text)
    if size := scratch_of(kernel).size:
        yield f"//   workspace of {size} bytes, aligned to {ALIGNMENT}"


def _declarations(kernel: Kernel, names: Names, code: str) -> Iterator[str]:
    """Buffers that the caller does not pass, and the arguments that nothing names."""
    starts, words = scratch_of(kernel).starts, set(re.findall(r"\w+", code))
    for buffer in kernel.buffers:
        name, type_ = names.buffers[buffer.name], _element_type(buffer)
        is_used = name in words
        if buffer.role not in ("scratch", "register"):
            yield from () if is_used else (f"    (void){name};",)
        elif is_used and buffer.role == "scratch":
            place = f"workspace + {starts[buffer.name]}"
            yield f"    {type_}* restrict {name} = ({type_}*)({place});"
        elif is_used:
            yield f"    {type_} {name}[{max(1, math.prod(buffer.shape))}];"
            if not re.search(rf"\b{name}\b(?!\[[^]]*\] [-+*/]?= )", code):
                yield f"    (void){name};"
    if starts and not any(names.buffers[name] in words for name in starts):
        yield "    (void)workspace;"


def _signature(kernel: Kernel, context: Context) -> list[str]:
    pointer = context.dialect.pointer
    parameters = [
        pointer.format(type=_element_type(b), name=context.names.buffers[b.name])
        for b in kernel.arguments
    ]
    if values_of_fails(kernel):
        parameters.append(pointer.format(type=C_TYPES[INT64], name="status"))
    if scratch_of(kernel).size:
        parameters.append(pointer.format(type="unsigned char", name="workspace"))
    start = f"{context.dialect.function} {context.names.function}("
    line = f"{start}{', '.join(parameters) or 'void'})"
    if len(line) <= 96:
        return [line]
    return [start, *(f"    {p}," for p in parameters[:-1]), f"    {parameters[-1]})"]


def _element_type(buffer: Buffer) -> str:
    const = "const " if buffer.role == "input" else ""
    return const + C_TYPES[UINT8 if buffer.dtype == BOOL else buffer.dtype]


def _regions(kernel: Kernel, context: Context) -> Iterator[list[str]]:
    """The lines of each region; one that declares locals gets a block for them."""
    for number, region in enumerate(kernel.regions):
        lines = list(_block(region, context))
        if any(isinstance(s, Let) for s in region) and len(kernel.regions) > 1:
            lines = ["    {", *(f"    {line}" for line in lines), "    }"]
        yield ["", *lines] if number and lines else lines


def _assigned(kernel: Kernel) -> frozenset[str]:
    found = (s for region in kernel.regions for s in statements(region))
    return frozenset(s.var for s in found if isinstance(s, Set))


def _plain(text: str) -> str:
    """One line of a comment: nothing that ends it, joins it to the next or reorders it."""
    visible = "".join(c if c.isprintable() else "?" for c in text).replace("\\", "/")
    return re.sub(r"\?{2,}", "?", visible)


def _code(line: str) -> str:
    return line.partition("//")[0]


def _uncommented(text: str) -> str:
    return "\n".join(map(_code, text.split("\n")))


# --- statements -------------------------------------------------------------------------------


def _block(stmts: tuple[Stmt, ...], context: Context) -> Iterator[str]:
    """The indented lines of a block. Locals that nothing reads are named once, so that compilers
    do not warn."""
    lines: list[str] = []
    for number, stmt in enumerate(stmts, 1):
        if isinstance(stmt, Let) and stmt.dtype.scalar == BOOL and stmt.dtype.lanes > 1:
            context = context.masking(stmt.var, bits_of_local(stmt, stmts[number:], context))
        lines += _statement(stmt, context)
        if isinstance(stmt, Let) and _is_bounded(stmt, context):
            context = context.knowing(stmt.var, interval(stmt.value, context.known))
        if (
            isinstance(stmt, Let)
            and stmt.var not in context.assigned
            and remembered(stmt.value, context.assigned)
        ):
            context = context.remembering(stmt.var, stmt.value)
    code = "\n".join(map(_code, lines))
    for local in (context.names.variables[s.var] for s in stmts if isinstance(s, Let)):
        if not re.search(rf"\b{local}\b(?! [-+*/]?= )", code):
            lines.append(f"(void){local};")
    yield from (f"    {line}" if line else "" for line in lines)


def _is_bounded(let: Let, context: Context) -> bool:
    dtype = let.dtype
    return not dtype.is_float and dtype.lanes == 1 and let.var not in context.assigned


def _statement(stmt: Stmt, context: Context) -> Iterator[str]:
    variables = context.names.variables
    match stmt:
        case For():
            yield from _for(stmt, context)
        case If(condition=condition, then=then, otherwise=otherwise):
            yield f"if ({text_of(condition, context)}) {{"
            yield from _block(then, context)
            if otherwise:
                yield "} else {"
                yield from _block(otherwise, context)
            yield "}"
        case Let(var=var, value=value):
            type_ = c_type(local_type(stmt, context))
            yield f"{type_} {variables[var]} = {local_value(var, value, context)};"
        case Set(var=var, value=value):
            yield from _set(var, value, context)
        case Store(value=value) if value.dtype.lanes > 1:
            yield f"{vector_store_text(stmt, context)};"
        case Store(buffer=buffer, indices=indices, value=value):
            place = element(buffer, indices, context)
            yield _assignment(place, Load(buffer, indices, value.dtype), value, context)
        case Prefetch():
            yield from prefetch_lines(stmt, context)
        case Fail(site=site, values=values):
            yield "if (status[0] == 0) {"
            yield f"    status[0] = {site + 1};"
            for k, value in enumerate(values, 1):
                yield f"    status[{k}] = {bare(value, context)};"
            yield "}"
        case Comment(text=text):
            yield from (f"// {_plain(line)}".rstrip() for line in text.splitlines())
        case _:
            raise unknown_node(stmt)


def _set(var: str, value: Expr, context: Context) -> Iterator[str]:
    name = context.names.variables[var]
    if var in context.masks:
        line = f"{name} = {local_value(var, value, context)};"
    else:
        line = _assignment(name, Var(var, value.dtype), value, context)
    if line != f"{name} = {name};":  # of which compilers warn
        yield line


def _assignment(place: str, old: Expr, value: Expr, context: Context) -> str:
    """`place = value;`, or `place op= ...;` where the value starts from the old one."""
    match value:
        case Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right, dtype=dtype) if (
            left == old and dtype.is_float
        ):
            return f"{place} {op}= {bare(right, context)};"
        case _:
            return f"{place} = {bare(value, context)};"


def _for(stmt: For, context: Context) -> Iterator[str]:
    var, type_ = context.names.variables[stmt.var], C_TYPES[INT64]
    end = compared(stmt.end, context)
    inner = context.knowing(stmt.var, loop_interval(stmt, context.known))
    changes = any(
        isinstance(e, Load) or (isinstance(e, Var) and e.name in context.assigned)
        for e in walk(stmt.end)
    )
    start = f"{type_} {var} = {bare(stmt.begin, context)}"
    if changes:  # the loop must not see that its body changes its end
        start, end = f"{start}, tc_end = {end}", "tc_end"
    if stmt.mark == "unroll" and isinstance(stmt.begin, Const) and isinstance(stmt.end, Const):
        count = int(stmt.end.value) - int(stmt.begin.value)
        if 1 < count <= _MOST_UNROLLED:
            yield f"#pragma GCC unroll {count}"
    yield f"for ({start}; {var} < {end}; {var}++) {{"
    yield from _block(stmt.body, inner)
    yield "}"
