"""Grids in C-like languages: each is a function, which all threads of all blocks run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tc.backends.clike.dialect import Context, Dialect, LaunchWords
from tc.backends.geometry import LaunchGeometry, axes_of, extents, shared_layout
from tc.backends.printing import no_launches
from tc.dtypes import INT64
from tc.errors import BackendError
from tc.kernel import ir
from tc.kernel.walk import loaded_in, loads_in, stored_in

_ARENA = "tc_arena"

ARRIVALS = "tc_arrivals"
"""The argument by which blocks wait for each other."""


def grid_of(region: tuple[ir.Stmt, ...], kernel: ir.Kernel, dialect: Dialect) -> ir.Grid | None:
    """The launch of a region, None for an empty region; BackendError for a region that is no
    launch."""
    match [stmt for stmt in region if not isinstance(stmt, ir.Comment)]:
        case []:
            return None
        case [ir.Grid() as grid]:
            return grid
        case _:
            raise BackendError(
                f"{dialect.name} has launches of blocks and threads alone, and '{kernel.name}' "
                "has loops beside them",
                repair='tc.compile(source, backend="numba"), or "c"',
            )


def statements_of(region: tuple[ir.Stmt, ...], grid: ir.Grid) -> tuple[ir.Stmt, ...]:
    """The statements of each thread, among the statements of the region around the grid."""
    at = region.index(grid)
    return (*region[:at], *grid.body, *region[at + 1 :])


def geometry_of(
    function: str, grid: ir.Grid, kernel: ir.Kernel, words: LaunchWords
) -> LaunchGeometry:
    _, size = shared_layout(_shared_buffers(grid, kernel))
    dynamic = size if _is_beyond_static(size, words) else 0
    blocks, threads = extents(grid.blocks), extents(grid.threads)
    return LaunchGeometry(function, blocks, threads, size, dynamic, has_grid_barrier(grid))


def has_grid_barrier(grid: ir.Grid) -> bool:
    """Whether all blocks wait for each other."""
    return any(isinstance(stmt, ir.Barrier) and stmt.scope == ir.GRID for stmt in grid.body)


def barrier_line(barrier: ir.Barrier, dialect: Dialect) -> str:
    """The statement where threads wait; BackendError where the language has none for them."""
    if dialect.launch is None:
        raise no_launches(dialect.name)
    if barrier.scope == ir.BLOCK:
        return dialect.launch.barrier
    if dialect.launch.grid_barrier is None:
        raise BackendError(
            f"{dialect.name} has no barrier where all blocks of a launch wait for each other",
            repair='GpuOptions(single_kernel=False), or backend="cuda"',
        )
    return dialect.launch.grid_barrier.format(word=ARRIVALS)


def exchanged(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers that threads of a block may read after others have written them. A pointer to
    one must not be said to be the only one: compilers would then keep what a thread has read before
    a barrier."""
    if not any(isinstance(stmt, ir.Barrier) for stmt in ir.statements(stmts)):
        return frozenset()
    return stored_in(stmts) & loaded_in(stmts)


def chosen_beside_stored(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers that a launch only reads, in a choice between such a read and a read of a buffer
    that the launch also writes: `e` in `c ? e[8] : o[j]`.

    NVRTC 13.0 and 13.5 make one load of the two, from a chosen pointer. If the pointer to `e` is
    declared `restrict`, the joint load is a load from constant memory, for `o` too: it finds the
    values of `o` before the launch, and moves above the store and the barrier between. Only loads
    of one type are joined."""
    stored = stored_in(stmts)
    found: set[str] = set()
    for one, other in _choices(stmts):
        for here, there in ((one, other), (other, one)):
            types = {load.dtype.scalar for load in there if load.buffer in stored}
            found |= {load.buffer for load in here if load.dtype.scalar in types}
    return frozenset(found) - stored


def _choices(stmts: tuple[ir.Stmt, ...]) -> Iterator[tuple[list[ir.Load], list[ir.Load]]]:
    """The loads on both sides of each choice, of an expression or among statements."""
    for stmt in ir.statements(stmts):
        if isinstance(stmt, ir.If):
            yield [*loads_in(stmt.then)], [*loads_in(stmt.otherwise)]
        for expr in ir.expressions(stmt):
            if isinstance(expr, ir.Select):
                sides = (ir.walk(side) for side in (expr.then, expr.otherwise))
                one, other = ([n for n in side if isinstance(n, ir.Load)] for side in sides)
                yield one, other


def number_lines(grid: ir.Grid, used: set[str], context: Context) -> Iterator[str]:
    """The numbers of the block and of the thread, as far as something names them."""
    words = _words(context)
    for indices, number in ((grid.blocks, words.block), (grid.threads, words.thread)):
        for axis, index in reversed(axes_of(indices)):
            name = context.names.variables[index.var]
            if name in used:
                yield f"const {context.types[INT64]} {name} = {number(axis)};"


def shared_lines(
    grid: ir.Grid, kernel: ir.Kernel, types: Mapping[str, str], context: Context
) -> Iterator[str]:
    """The arrays of a block, whose elements have the given types."""
    words = _words(context)
    buffers, names = _shared_buffers(grid, kernel), context.names.buffers
    starts, size = shared_layout(buffers)
    if _is_beyond_static(size, words):
        yield f"{words.arena} {_ARENA}[];"
        for buffer in buffers:
            name, type_ = names[buffer.name], types[buffer.name]
            start, row = (
                starts[buffer.name],
                array("", buffer.shape[1:]) if buffer.shape[1:] else "",
            )
            pointer, cast = f"{type_}* const {name}", f"({type_}*)"
            if row:
                pointer, cast = f"{type_} (* const {name}){row}", f"({type_} (*){row})"
            yield f"{pointer} = {cast}({_ARENA} + {start});"
        return
    for buffer in buffers:
        yield f"{words.shared} {types[buffer.name]} {array(names[buffer.name], buffer.shape)};"


def array(name: str, shape: tuple[int, ...]) -> str:
    """The declaration of an array, without its type.

    >>> array("a", (4, 33)), array("b", ()), array("c", (0, 2))
    ('a[4][33]', 'b[1]', 'c[1][2]')
    """
    return name + "".join(f"[{max(1, extent)}]" for extent in shape or (1,))


def _words(context: Context) -> LaunchWords:
    words = context.dialect.launch
    if words is None:
        raise no_launches(context.dialect.name)
    return words


def _is_beyond_static(size: int, words: LaunchWords) -> bool:
    return words.most_static is not None and size > words.most_static


def _shared_buffers(grid: ir.Grid, kernel: ir.Kernel) -> tuple[ir.Buffer, ...]:
    named = stored_in(grid.body) | loaded_in(grid.body)
    return tuple(b for b in kernel.buffers if b.role == "shared" and b.name in named)
