"""Products of matrices by the threads of a warp: loops of sums become statements, and back.

A loop over some steps of sums of products of halves, or of floats that may be rounded, is a
WarpMultiply where its threads have the results that the hardware gives them, and both operands are
in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tc.affine.forms import Form, divisor_of
from tc.dtypes import FLOAT32, INT64, UINT32, DType
from tc.kernel import ir, rebuild
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, integer, of_form
from tc.kernel.matrix_products import KEPT, PRODUCT_OF_MARK, ROUNDED_UP, MatrixProduct
from tc.kernel.passes.exchanges import thread_number
from tc.kernel.rebuild import LocalNames, Stmts, same_or
from tc.kernel.walk import assigned_in, declared, iterations, names_in

ROW_THREADS, COLUMN_THREADS = 8, 4
"""How many threads of a warp have rows of their own of a left tile, and of a right tile."""

_Places = Form[ir.Expr, int]


def multiply_by_warps(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with a WarpMultiply in the place of each loop with the mark of a product that is
    one; of others the mark is dropped. The threads along x and y are COLUMN_THREADS and
    ROW_THREADS."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}

    def launch(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if not isinstance(stmt, ir.Grid):
            return (stmt,)
        lane = _Lane.of(stmt)

        def changed(block: Stmts, *, together: bool) -> Stmts:
            return same_or(block, (each(inner, together) for inner in block))

        def each(inner: ir.Stmt, together: bool) -> ir.Stmt:
            if isinstance(inner, ir.For) and inner.mark in PRODUCT_OF_MARK:
                found = _multiplied(inner, lane, buffers) if lane and together else None
                return replace(inner, mark="") if found is None else found
            alike = lane is not None and all(map(lane.is_alike, ir.own_expressions(inner)))
            return rebuild.map_blocks(inner, lambda b: changed(b, together=together and alike))

        return (rebuild.changed(stmt, body=changed(stmt.body, together=True)),)

    return rebuild.map_regions(kernel, lambda region: rebuild.map_statements(region, launch))


@dataclass(frozen=True)
class _Lane:
    """The threads along x and y of a grid, a warp, and the `varying` locals, which may differ
    between threads of a warp: as they follow from these numbers or from memory, or are changed,
    which a condition may do for some threads alone."""

    x: ir.Var
    y: ir.Var
    varying: frozenset[str]

    @classmethod
    def of(cls, grid: ir.Grid) -> _Lane | None:
        if [index.count for index in grid.threads[-2:]] != [ROW_THREADS, COLUMN_THREADS]:
            return None
        y, x = (ir.Var(index.var, INT64) for index in grid.threads[-2:])
        varying = {x.name, y.name, *assigned_in(grid.body)}
        known = 0
        while known < len(varying):
            known = len(varying)
            for stmt in ir.statements(grid.body):
                exprs = [*ir.expressions(stmt)]
                loads = any(isinstance(expr, ir.Load) for expr in exprs)
                if loads or any(varying & names_in(expr) for expr in ir.own_expressions(stmt)):
                    varying.update(declared(stmt))
        return cls(x, y, frozenset(varying))

    def is_alike(self, expr: ir.Expr) -> bool:
        """Whether an expression certainly has one value in all threads of a warp."""
        loads = any(isinstance(node, ir.Load) for node in ir.walk(expr))
        return not loads and self.varying.isdisjoint(names_in(expr))


@dataclass(frozen=True)
class _Tile:
    """A tile without the number of its first row: the `places` of the first element, and the
    dimensions of rows and of steps."""

    buffer: str
    dtype: DType
    places: tuple[_Places, ...]
    axes: tuple[int, int]

    def at(self, row: int) -> ir.Load:
        """The tile whose first row is so many rows on."""
        own = enumerate(self.places)
        forms = (form.shifted(row) if n == self.axes[0] else form for n, form in own)
        return ir.Load(self.buffer, tuple(map(of_form, forms)), self.dtype)


def _multiplied(
    loop: ir.For, lane: _Lane, buffers: Mapping[str, ir.Buffer]
) -> ir.WarpMultiply | None:
    """The statement that a loop is, if it is one."""
    known: dict[str, ir.Expr] = {}
    sums: dict[tuple[int, int], str] = {}
    tiles: list[tuple[_Tile, _Tile]] = []
    made_of = PRODUCT_OF_MARK[loop.mark]
    if iterations(loop) != range(made_of.steps):
        return None
    for stmt in loop.body:
        match stmt:
            case ir.Let(var=var, value=value):
                known[var] = value
            case ir.Set(
                var=var,
                value=ir.Binary(
                    op="+", left=ir.Var(name=old), right=ir.Binary(op="*", left=a, right=b)
                ),
            ) if var == old:
                one, other = (_operand(side, loop, lane, known, buffers) for side in (a, b))
                if one is not None and other is not None and not one[2]:
                    one, other = other, one
                if one is None or other is None or not one[2] or other[2]:
                    return None
                tiles.append((one[0], other[0]))
                if (one[1], other[1]) in sums:
                    return None
                sums[one[1], other[1]] = var
            case _:
                return None
    if not tiles or any(pair != tiles[0] for pair in tiles) or len({*sums.values()}) < len(sums):
        return None
    left, right = tiles[0]
    rows = _pairs({row for row, _ in sums}, ir.LEFT_ROWS // 2)
    columns = _pairs({column for _, column in sums}, 1)
    if not rows or not columns or len(sums) < ir.RESULTS * len(rows) * len(columns):
        return None
    for tile, found in ((left, rows), (right, columns)):
        if not _is_aligned(tile, found, buffers, made_of.line):
            return None
    return ir.WarpMultiply(
        tuple(
            sums[row + shift, column + next_]
            for row, column in product(rows, columns)
            for shift, next_ in product((0, ir.LEFT_ROWS // 2), (0, 1))
        ),
        tuple(map(left.at, rows)),
        tuple(map(right.at, columns)),
        left.axes,
        right.axes,
        made_of.name,
    )


def _operand(
    expr: ir.Expr,
    loop: ir.For,
    lane: _Lane,
    known: Mapping[str, ir.Expr],
    buffers: Mapping[str, ir.Buffer],
) -> tuple[_Tile, int, bool] | None:
    """The tile that a thread reads, the number of the row without that of the thread, and whether
    it is a left tile; None for what is read in another way."""
    if isinstance(expr, ir.Var):
        expr = known.get(expr.name, expr)
    load = expr.operand if isinstance(expr, ir.Cast) else expr
    if not isinstance(load, ir.Load) or load.dtype != PRODUCT_OF_MARK[loop.mark].dtype:
        return None
    if buffers[load.buffer].role != "shared":
        return None
    step = ir.Var(loop.var, INT64)
    places: list[_Places] = []
    axes: dict[str, int] = {}
    number, is_left = 0, False
    for axis, index in enumerate(load.indices):
        form = lane_offsets((rebuild.substitute(index, known, {}),), (1,), 1, {}).scalars
        own = {v: c for v, c in form.terms.items() if v in (step, lane.x, lane.y)}
        rest = Form(form.constant, {v: c for v, c in form.terms.items() if v not in own})
        if not all(map(lane.is_alike, rest.terms)) or any(
            loop.var in names_in(v) for v in rest.terms
        ):
            return None
        if own == {step: 1}:
            axes["steps"] = axis
        elif own in ({lane.y: 1}, {lane.x: 2}):
            axes["rows"], is_left = axis, lane.y in own
            number, rest = rest.constant, Form(0, rest.terms)
        elif own:
            return None
        places.append(rest)
    if len(axes) < 2 or len(load.indices) - 1 not in axes.values():
        return None
    tile = _Tile(load.buffer, load.dtype, tuple(places), (axes["rows"], axes["steps"]))
    return tile, number, is_left


def _pairs(numbers: set[int], apart: int) -> tuple[int, ...]:
    """The first numbers of pairs that are so far apart, of which a set consists; none where it does
    not.

    >>> _pairs({0, 1, 8, 9}, 1), _pairs({0, 16, 8, 24}, 8), _pairs({0, 1, 2}, 1)
    ((0, 8), (0, 16), ())
    """
    left, firsts = sorted(numbers), []
    while left:
        first = left.pop(0)
        if first + apart not in left:
            return ()
        left.remove(first + apart)
        firsts.append(first)
    return tuple(firsts)


def _is_aligned(
    tile: _Tile, rows: Sequence[int], buffers: Mapping[str, ir.Buffer], line: int
) -> bool:
    """Whether the lines of a tile, at some first rows, begin at multiples of `line` elements."""
    last = len(tile.places) - 1
    form = tile.places[-1]
    numbers = [divisor_of(form), *buffers[tile.buffer].strides[:-1]]
    shifts = rows if tile.axes[0] == last else (0,)
    numbers += (form.constant + shift for shift in shifts)
    return not any(number % line for number in numbers)


# --- without such hardware ----------------------------------------------------------------------


def multiply_by_threads(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without WarpMultiply: each thread adds up its results itself."""
    names = LocalNames(kernel)

    def launch(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if not isinstance(stmt, ir.Grid):
            return (stmt,)
        lane = binary("%", thread_number(stmt), integer(ir.WARP))

        def each(inner: ir.Stmt) -> Iterable[ir.Stmt]:
            return _apart(inner, lane, names) if isinstance(inner, ir.WarpMultiply) else (inner,)

        return (rebuild.changed(stmt, body=rebuild.map_each(stmt.body, each)),)

    return rebuild.map_regions(kernel, lambda region: rebuild.map_statements(region, launch))


def _apart(stmt: ir.WarpMultiply, lane: ir.Expr, names: LocalNames) -> Iterator[ir.Stmt]:
    step = ir.Var(names.fresh("step"), INT64)
    row = binary("/", lane, integer(COLUMN_THREADS))
    column = binary("*", binary("%", lane, integer(COLUMN_THREADS)), integer(2))
    rows = [binary("+", row, integer(shift)) for shift in (0, ir.LEFT_ROWS // 2)]
    columns = [binary("+", column, integer(shift)) for shift in (0, 1)]
    body: list[ir.Stmt] = []
    sides = ((stmt.left, stmt.left_axes, rows), (stmt.right, stmt.right_axes, columns))
    held: list[list[list[ir.Expr]]] = []
    for tiles, axes, own in sides:
        held.append([])
        for tile in tiles:
            assert isinstance(tile, ir.Load)
            held[-1].append([])
            for number in own:
                indices = [*tile.indices]
                indices[axes[0]] = binary("+", indices[axes[0]], number)
                indices[axes[1]] = binary("+", indices[axes[1]], step)
                local = ir.Var(names.fresh(tile.buffer), FLOAT32)
                element = replace(tile, indices=tuple(indices))
                body += _factor(local.name, element, stmt.product, names)
                held[-1][-1].append(local)
    left, right = held
    pairs = (pair for a, b in product(left, right) for pair in product(a, b))
    for name, (a, b) in zip(stmt.sums, pairs, strict=True):
        new = ir.Binary("+", ir.Var(name, FLOAT32), ir.Binary("*", a, b, FLOAT32), FLOAT32)
        body.append(ir.Set(name, new))
    yield ir.For(step.name, integer(0), integer(stmt.product.steps), tuple(body))


def _factor(
    name: str, element: ir.Load, made_of: MatrixProduct, names: LocalNames
) -> Iterator[ir.Stmt]:
    """Declares a local that is what a product multiplies of an element."""
    if not made_of.rounds:
        yield ir.Let(name, ir.Cast(element, FLOAT32))
        return
    read = ir.Var(names.fresh(element.buffer), FLOAT32)
    yield ir.Let(read.name, element)
    half, kept = (ir.Const(bits, UINT32) for bits in (ROUNDED_UP, KEPT))
    carried = ir.Binary("+", ir.Bits(read, UINT32), half, UINT32)
    rounded = ir.Bits(ir.Binary("&", carried, kept, UINT32), FLOAT32)
    magnitude = ir.Call("fabs", (read,), FLOAT32)
    is_finite = ir.Compare("<", magnitude, ir.Const(float("inf"), FLOAT32))
    yield ir.Let(name, ir.Select(is_finite, rounded, read, FLOAT32))
