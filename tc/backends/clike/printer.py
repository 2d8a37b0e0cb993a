"""Kernels in C-like languages: plain loops, readable enough to be taken along.

The text has no undefined behaviour where the kernel has a meaning, and compiles without a warning.
Expressions are in `scalars`; what differs between languages is a `Dialect`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tc.backends.clike.async_copies import copy_lines, group_lines
from tc.backends.clike.dialect import Context, Dialect
from tc.backends.clike.grid_text import (
    ARRIVALS,
    array,
    barrier_line,
    chosen_beside_stored,
    exchanged,
    geometry_of,
    grid_of,
    has_grid_barrier,
    number_lines,
    shared_lines,
    statements_of,
)
from tc.backends.clike.helpers import helper_texts
from tc.backends.clike.scalars import bare, compared, element, text_of, vector_printer
from tc.backends.geometry import WIDE_BYTES, LaunchGeometry, origin, wide_bytes
from tc.backends.printing import (
    Speller,
    Spellings,
    buffer_lines,
    in_a_comment,
    no_launches,
    used_buffers,
    values_of_fails,
    words,
)
from tc.dtypes import BOOL, INT64, UINT8, UINT32
from tc.errors import BackendError, InternalError
from tc.kernel import ir
from tc.kernel.rebuild import Scope
from tc.kernel.scratch import ALIGNMENT_BYTES, ScratchLayout, scratch_layout
from tc.kernel.sizes import SIZES, number_text
from tc.kernel.walk import assigned_in, checks_ranges, is_steady

_MAX_UNROLLED = 64
_PREFIX = "v_"
_LOWEST = "tc_lowest_"


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """One function of a text: the regions that the function runs, as the threads of a `grid` if
    there is one, and the buffers to which it gets pointers, in order. Behind these come a pointer
    to `status` if `fails`, to `workspace` if `workspace`, and to the word by which blocks wait for
    each other if `waits` (see `LaunchText`). A pointer is to element (0, ..., 0), in a grid to the
    lowest element in memory. Pointers of `shared_pointers` are not declared `restrict`."""

    name: str
    regions: tuple[tuple[ir.Stmt, ...], ...]
    arguments: tuple[ir.Buffer, ...]
    fails: bool
    workspace: bool = False
    waits: bool = False
    grid: ir.Grid | None = None
    shared_pointers: frozenset[str] = frozenset()


def print_kernel(kernel: ir.Kernel, dialect: Dialect) -> str:
    """The text of a kernel; equal kernels give equal texts. BackendError for functions that only
    scipy has (Y7), for vectors and launches where the dialect has none, where it has nothing but
    launches for other regions, and for what is nested too deeply.

    It has the functions of `functions_of`, to be run one after the other. `status` are int64
    numbers, 0 at first, that receive site + 1 and the values of the first failure (of any thread);
    `workspace` has the bytes of `workspace_of`, and no other call uses it at the same time.
    """
    try:
        return _text(kernel, dialect)
    except RecursionError as error:
        raise BackendError(
            f"an expression of '{kernel.name}' is nested too deeply to be printed",
            repair="split the expression into several statements",
        ) from error


def _text(kernel: ir.Kernel, dialect: Dialect) -> str:
    names = spell(kernel, dialect)
    buffers = {b.name: b for b in kernel.buffers}
    functions = []
    for function in functions_of(kernel, dialect):
        changing = assigned_in(stmt for region in function.regions for stmt in region)
        context = Context(names, buffers, Scope(changing), dialect=dialect)
        if function.grid is not None:
            context.scope.enter(function.grid)
        functions.append((_signature(function, context), _body(kernel, function, context)))
    helpers = helper_texts("\n".join(line for _, body in functions for line in body), dialect)
    lines = "\n".join((*helpers, *(line for parts in functions for part in parts for line in part)))
    code = "\n".join(map(_code, lines.split("\n")))
    comment = "\n".join(_comment(kernel, names, dialect))
    texts = ("\n".join((*head, "{", *body, "}")) for head, body in functions)
    return "\n\n".join((comment, *dialect.preamble(kernel, code), *helpers, *texts)) + "\n"


def functions_of(kernel: ir.Kernel, dialect: Dialect) -> tuple[KernelFunction, ...]:
    """The functions of the kernel's text, in the order in which they are to be run."""
    names = spell(kernel, dialect).functions
    if dialect.launch is not None:
        launches = [(region, grid_of(region, kernel, dialect)) for region in kernel.regions]
        return tuple(
            _function_of(name, region, grid, kernel)
            for name, (region, grid) in zip(names, launches, strict=True)
            if grid is not None
        )
    fails = bool(values_of_fails(*kernel.regions))
    workspace = workspace_of(kernel).size > 0
    return (KernelFunction(names[0], kernel.regions, kernel.arguments, fails, workspace),)


def _function_of(
    name: str, region: tuple[ir.Stmt, ...], grid: ir.Grid, kernel: ir.Kernel
) -> KernelFunction:
    """The function that all threads of a grid run."""
    used = used_buffers(region)
    arguments = tuple(b for b in kernel.arguments if b.name in used)
    fails = bool(values_of_fails(region))
    return KernelFunction(
        name,
        (statements_of(region, grid),),
        arguments,
        fails,
        waits=has_grid_barrier(grid),
        grid=grid,
        shared_pointers=exchanged(grid.body) | chosen_beside_stored(grid.body),
    )


def launches_of(kernel: ir.Kernel, dialect: Dialect) -> tuple[LaunchGeometry, ...]:
    """The launches of the kernel's text, in order; none in a dialect that has none."""
    words, functions = dialect.launch, functions_of(kernel, dialect)
    if words is None:
        return ()
    return tuple(
        geometry_of(f.name, f.grid, kernel, words) for f in functions if f.grid is not None
    )


def workspace_of(kernel: ir.Kernel) -> ScratchLayout:
    """Where the scratch buffers lie in the workspace of a call. Registers are locals."""
    scratch = tuple(b for b in kernel.buffers if b.role == "scratch")
    return scratch_layout(ir.Kernel(kernel.name, scratch, ()))


# --- names ------------------------------------------------------------------------------------


def spell(kernel: ir.Kernel, dialect: Dialect) -> Spellings:
    reserved = dialect.reserved
    speller = Speller(lambda name: plain_name(name, reserved.words, reserved.forms))
    numbers = [""] if dialect.launch is None else [f"_{n}" for n in range(len(kernel.regions))]
    functions = tuple(
        speller.unique(plain_name(kernel.name + number, reserved.functions, reserved.forms))
        for number in numbers
    )
    return Spellings(functions, speller.buffers(kernel), speller.variables(kernel))


def plain_name(name: str, reserved: frozenset[str], forms: re.Pattern[str]) -> str:
    """A name like `name` that is not reserved.

    >>> plain_name("2LUT", frozenset(), re.compile("tc_.*"))
    'v_2LUT'
    >>> plain_name("float", frozenset({"float"}), re.compile("tc_.*"))
    'v_float'
    """
    plain = words(name)
    clashes = plain in reserved or forms.fullmatch(plain) is not None
    return _PREFIX + plain if clashes or not plain or plain[0].isdigit() else plain


# --- around the loops -------------------------------------------------------------------------


def _comment(kernel: ir.Kernel, names: Spellings, dialect: Dialect) -> Iterator[str]:
    yield from (f"// {line}" for line in buffer_lines(kernel, names))
    if dialect.launch is None and (size := workspace_of(kernel).size):
        yield f"//   workspace of {size} bytes, aligned to {ALIGNMENT_BYTES}"
    for size in WIDE_BYTES if dialect.aligned else ():
        wide = [names.buffers[b.name] for b in kernel.arguments if wide_bytes(b) == size]
        if wide:
            yield f"//   at multiples of {size} bytes: {', '.join(wide)}"
    for launch in launches_of(kernel, dialect):
        yield f"//   {launch}"


def _body(kernel: ir.Kernel, function: KernelFunction, context: Context) -> list[str]:
    lines = list(_regions(kernel, function, context))
    code = "\n".join(map(_code, lines))
    start = _declarations(kernel, function, code, context)
    return [*(f"    {line}" for line in start), *lines]


def _declarations(
    kernel: ir.Kernel, function: KernelFunction, code: str, context: Context
) -> Iterator[str]:
    """Buffers that the caller does not pass, arguments that nothing names, and the numbers of block
    and thread."""
    layout, used = workspace_of(kernel), set(re.findall(r"\w+", code))
    names, grid, dialect = context.names.buffers, function.grid, context.dialect
    if grid is not None:
        yield from _first_elements(function, context)
        types = {b.name: _element_type(b, context) for b in kernel.buffers}
        yield from shared_lines(grid, kernel, types, context)
    for buffer in function.arguments if dialect.aligned else ():
        name = names[buffer.name]
        if grid is not None and name in used and (size := wide_bytes(buffer)) > 1:
            pointer = f"{_element_type(buffer, context)}*"
            yield dialect.aligned.format(name=name, pointer=pointer, bytes=size)
    for buffer in kernel.buffers:
        name, type_ = names[buffer.name], _element_type(buffer, context)
        if name not in used:
            if buffer in function.arguments:
                yield dialect.unused.format(name)
        elif buffer.role == "scratch" and grid is None:
            start = number_text(layout.starts[buffer.name], kernel, names.get(SIZES, ""))
            place = f"workspace + {start}"
            yield f"{type_}* restrict {name} = ({type_}*)({place});"
        elif buffer.role in ir.PRIVATE:
            if buffer.role != "shared":
                shape = (math.prod(buffer.shape),) if grid is None else buffer.shape
                yield f"{type_} {array(name, shape)};"
            if not re.search(rf"\b{name}\b(?!(\[[^]]*\])+ [-+*/]?= )", code):
                yield dialect.unused.format(name)
    if function.workspace and not any(names[name] in used for name in layout.starts):
        yield dialect.unused.format("workspace")
    if grid is not None:
        yield from number_lines(grid, used, context)


def _first_elements(function: KernelFunction, context: Context) -> Iterator[str]:
    """Pointers to element (0, ..., 0) of buffers that are given by another."""
    for buffer in function.arguments:
        if start := origin(buffer):
            name = context.names.buffers[buffer.name]
            pointer = _pointer(buffer, name, function, context)
            yield f"{pointer} = {_LOWEST}{name} + {start};"


def _signature(function: KernelFunction, context: Context) -> list[str]:
    dialect, names = context.dialect, context.names.buffers
    parameters = []
    for buffer in function.arguments:
        start = _LOWEST if function.grid is not None and origin(buffer) else ""
        parameters.append(_pointer(buffer, start + names[buffer.name], function, context))
    if function.fails:
        status = f"{dialect.space}{dialect.types[INT64]}* {dialect.restrict} status"
        parameters.append(status)
    if function.workspace:
        parameters.append(f"unsigned char* {dialect.restrict} workspace")
    if function.waits:
        parameters.append(f"{dialect.space}{dialect.types[UINT32]}* {ARRIVALS}")
    start = f"{dialect.head(function.grid)} {function.name}("
    line = f"{start}{', '.join(parameters) or 'void'})"
    if len(line) <= 96:
        return [line]
    return [start, *(f"    {p}," for p in parameters[:-1]), f"    {parameters[-1]})"]


def _pointer(buffer: ir.Buffer, name: str, function: KernelFunction, context: Context) -> str:
    """The declaration of a pointer to a buffer that the caller passes."""
    dialect = context.dialect
    word = "" if buffer.name in function.shared_pointers else f"{dialect.restrict} "
    return f"{dialect.space}{_element_type(buffer, context)}* {word}{name}"


def _element_type(buffer: ir.Buffer, context: Context) -> str:
    const = "const " if buffer.role in ("input", "sizes") else ""
    return const + context.types[UINT8 if buffer.dtype == BOOL else buffer.dtype]


def _regions(kernel: ir.Kernel, function: KernelFunction, context: Context) -> Iterator[str]:
    """The lines of all regions; one that declares locals gets a block for them. Where ranges that
    data decide are none, nothing may go through them."""
    for number, region in enumerate(function.regions):
        lines = list(_block(region, context))
        if any(isinstance(s, ir.Let) for s in region) and len(function.regions) > 1:
            lines = ["    {", *(f"    {line}" for line in lines), "    }"]
        yield from ["", *lines] if number and lines else lines
        is_last = number + 1 == len(function.regions)
        if function.grid is None and not is_last and checks_ranges(region, kernel):
            yield "    if (status[0]) return;"


_READ = re.compile(r"\b\w+\b(?! [-+*/]?= )")
"""A word of C that is no local to which a statement assigns."""


def _code(line: str) -> str:
    return line.partition("//")[0]


# --- statements -------------------------------------------------------------------------------


def _block(stmts: tuple[ir.Stmt, ...], context: Context) -> Iterator[str]:
    """The indented lines of a block. A local that nothing reads is named once, so that compilers do
    not warn."""
    lines: list[str] = []
    with context.scope.block():
        for number, stmt in enumerate(stmts, 1):
            if isinstance(stmt, ir.Let) and stmt.dtype.scalar == BOOL and stmt.dtype.lanes > 1:
                bits = vector_printer(context).mask_bits(stmt, stmts[number:], context)
                context = context.masking(stmt.var, bits)
            lines += _statement(stmt, context)
            context.scope.learn(stmt)
    read = set(_READ.findall("\n".join(map(_code, lines))))
    for local in (context.names.variables[s.var] for s in stmts if isinstance(s, ir.Let)):
        if local not in read:
            lines.append(context.dialect.unused.format(local))
    yield from (f"    {line}" if line else "" for line in lines)


def _statement(stmt: ir.Stmt, context: Context) -> Iterator[str]:
    variables = context.names.variables
    match stmt:
        case ir.For():
            yield from _for(stmt, context)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            yield f"if ({text_of(condition, context)}) {{"
            yield from _block(then, context)
            if otherwise:
                yield "} else {"
                yield from _block(otherwise, context)
            yield "}"
        case ir.Let(var=var, value=value) if value.dtype.lanes > 1:
            vectors = vector_printer(context)
            start = vectors.value(var, value, context)
            yield f"{vectors.type(stmt, context)} {variables[var]} = {start};"
        case ir.Let(var=var, value=value):
            type_ = context.types[value.dtype]
            yield f"{type_} {variables[var]} = {bare(value, context)};"
        case ir.Set(var=var, value=value):
            yield from _set(var, value, context)
        case ir.Store(value=value) if value.dtype.lanes > 1:
            yield f"{vector_printer(context).store(stmt, context)};"
        case ir.Store(buffer=buffer, indices=indices, value=value):
            place = element(buffer, indices, context)
            yield _assignment(place, ir.Load(buffer, indices, value.dtype), value, context)
        case ir.Atomic():
            yield _atomic(stmt, context)
        case ir.Prefetch():
            yield from context.dialect.prefetch(stmt, context)
        case ir.Fail(site=site, values=values):
            yield from context.dialect.fails(site + 1)
            for k, value in enumerate(values, 1):
                yield f"    status[{k}] = {bare(value, context)};"
            yield "}"
        case ir.Comment(text=text):
            yield from (f"// {in_a_comment(line)}".rstrip() for line in text.splitlines())
        case ir.CopyAsync():
            yield from copy_lines(stmt, context)
        case ir.Commit():
            yield from group_lines(None, context)
        case ir.Wait(left=left):
            yield from group_lines(left, context)
        case ir.Barrier():
            yield barrier_line(stmt, context.dialect)
        case ir.WarpMultiply():
            launch = context.dialect.launch
            if launch is None or launch.multiply is None:
                raise InternalError(f"{context.dialect.name} has no products of a warp")
            yield from launch.multiply(stmt, context)
        case ir.Grid():
            raise no_launches(context.dialect.name)
        case _:
            raise ir.unknown_node(stmt)


def _atomic(stmt: ir.Atomic, context: Context) -> str:
    launch = context.dialect.launch
    if launch is None:
        raise no_launches(context.dialect.name)
    buffer = context.buffers[stmt.buffer]
    place = element(stmt.buffer, stmt.indices, context)
    return launch.atomic(stmt.op, buffer, place, bare(stmt.value, context))


def _set(var: str, value: ir.Expr, context: Context) -> Iterator[str]:
    name = context.names.variables[var]
    if var in context.masks:
        line = f"{name} = {vector_printer(context).value(var, value, context)};"
    else:
        line = _assignment(name, ir.Var(var, value.dtype), value, context)
    if line != f"{name} = {name};":  # of which compilers warn
        yield line


def _assignment(place: str, old: ir.Expr, value: ir.Expr, context: Context) -> str:
    """`place = value;`, or `place op= ...;` where the value starts from the old one."""
    match value:
        case ir.Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right, dtype=dtype) if (
            left == old and dtype.is_float
        ):
            return f"{place} {op}= {bare(right, context)};"
        case _:
            return f"{place} = {bare(value, context)};"


def _for(stmt: ir.For, context: Context) -> Iterator[str]:
    dialect = context.dialect
    var, type_ = context.names.variables[stmt.var], dialect.types[INT64]
    start, end = f"{type_} {var} = {bare(stmt.begin, context)}", compared(stmt.end, context)
    if not is_steady(stmt.end, context.scope.assigned.__contains__):
        # the loop must not see that its body changes its end
        start, end = f"{start}, tc_end = {end}", "tc_end"
    match stmt:
        case ir.For(mark="unroll", begin=ir.Const(value=first), end=ir.Const(value=last)):
            if 1 < last - first <= _MAX_UNROLLED and dialect.unroll is not None:
                yield dialect.unroll.format(count=int(last - first))
    yield f"for ({start}; {var} < {end}; {var}++) {{"
    with context.scope.inside(stmt):
        yield from _block(stmt.body, context)
    yield "}"
