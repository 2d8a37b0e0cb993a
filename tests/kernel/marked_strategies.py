"""Random kernels with marked loops, registers, guards and reductions, correct by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from tc.builtins import identity
from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT8, INT32, INT64, UINT8, DType
from tc.kernel.folding import cast, constant, integer
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
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
)
from tests.support.build import add, dense, less, loop, times, var

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

ROWS, COLUMNS = 5, 37
INPUTS = (
    dense("a", INT64, (ROWS, COLUMNS), "input"),
    dense("f", FLOAT32, (COLUMNS,), "input"),
    dense("h", FLOAT16, (ROWS, COLUMNS), "input"),
    Buffer("t", INT32, (COLUMNS, ROWS), (1, COLUMNS), "input"),  # transposed
    dense("p", BOOL, (ROWS,), "input"),
)
_SIZES = {b.name: b.shape for b in INPUTS}
_DTYPES = {b.name: b.dtype for b in INPUTS}
_NUMBERS = (INT64, INT32, INT8, UINT8, FLOAT32)


@dataclass
class Scope:
    """What expressions may use: int64 variables with what they are less than, and locals."""

    draw: Draw
    variables: tuple[tuple[Expr, int], ...] = ()
    locals: tuple[Var, ...] = ()
    names: list[str] = field(default_factory=list)

    def fresh(self, prefix: str) -> str:
        """Each name has one number for the whole kernel."""
        self.names.append(prefix)
        return f"{prefix}{len(self.names)}"

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(options))
        return chosen

    def having(self, *variables: tuple[Expr, int]) -> Scope:
        return replace(self, variables=(*self.variables, *variables))

    def with_local(self, local: Var) -> Scope:
        return replace(self, locals=(*self.locals, local))

    # --- expressions ------------------------------------------------------------------------

    def index(self, extent: int, depth: int) -> Expr:
        """In 0:extent."""
        fitting = [v for v, limit in self.variables if limit <= extent]
        kind = self.pick(["variable", "variable", "constant", "wrapped", "gather"])
        if kind == "variable" and fitting:
            return self.pick(fitting)
        if kind == "wrapped" or (kind == "gather" and depth > 0):
            value = self.whole(depth - 1) if kind == "gather" else self.affine()
            return Binary("%", value, integer(extent), INT64)
        return integer(self.draw(st.integers(0, extent - 1)))

    def affine(self) -> Expr:
        total: Expr = integer(self.draw(st.integers(-3, 3)))
        for variable, _ in self.variables:
            factor = self.draw(st.sampled_from([0, 1, 1, 2, -1]))
            total = add(total, times(variable, factor))
        return total

    def whole(self, depth: int) -> Expr:
        return self.number(INT64, depth)

    def load(self, dtype: DType, depth: int) -> Expr:
        name = self.pick(["a", "f", "h", "t"])
        indices = tuple(self.index(extent, depth) for extent in _SIZES[name])
        value: Expr = Load(name, indices, _DTYPES[name])
        return self.converted(Cast(value, FLOAT32) if name == "h" else value, dtype)

    def converted(self, value: Expr, dtype: DType) -> Expr:
        """Floats in inputs are whole and small, those computed may be anything."""
        if value.dtype.is_float and not dtype.is_float:
            value = Select(
                Compare("<", Call("abs", (value,), FLOAT32), Const(100.0, FLOAT32)),
                value,
                Const(7.0, FLOAT32),
                FLOAT32,
            )
        return cast(value, dtype)

    def guarded_load(self, dtype: DType) -> Expr:
        """An element that may be outside of the tensor, read only if it is not."""
        place = self.affine()
        inside = Logical("&&", (Compare(">=", place, integer(0)), less(place, COLUMNS)))
        row = self.index(ROWS, 0)
        value = self.converted(Load("a", (row, place), INT64), dtype)
        if self.draw(st.booleans()):
            return Select(inside, value, self.constant(dtype), dtype)
        return Select(Logical("!", (inside,)), self.constant(dtype), value, dtype)

    def constant(self, dtype: DType) -> Const:
        low = 0 if dtype.kind == "uint" else -3
        return constant(self.draw(st.sampled_from([0, 0, 1, 2, 3, low])), dtype)

    def number(self, dtype: DType, depth: int) -> Expr:
        own = [v for v in self.locals if v.dtype == dtype]
        kinds = ["load", "variable", "constant", "guarded"] + ["local"] * len(own)
        if depth > 0:
            kinds += ["binary"] * 4 + ["select"] * 2 + ["unary", "convert", "call"]
        match self.pick(kinds):
            case "load":
                return self.load(dtype, depth)
            case "guarded":
                return self.guarded_load(dtype)
            case "local":
                return self.pick(own)
            case "binary":
                ops = ["+", "-", "*", "min", "max", *(["/", "%"] if dtype.is_integer else [])]
                op = self.pick(ops)
                left = self.number(dtype, depth - 1)
                right = self.number(dtype, depth - 1)
                if op in "/%":
                    right = constant(self.draw(st.integers(1, 4)), dtype)
                return Binary(op, left, right, dtype)
            case "select":
                parts = self.number(dtype, depth - 1), self.number(dtype, depth - 1)
                return Select(self.test(depth - 1), *parts, dtype)
            case "unary":
                return Unary("-", self.number(dtype, depth - 1), dtype)
            case "convert":
                other = self.pick(_NUMBERS)
                return self.converted(self.number(other, depth - 1), dtype)
            case "call":
                return Call("abs", (self.number(dtype, depth - 1),), dtype)
            case "variable" if self.variables:
                return cast(self.pick(self.variables)[0], dtype)
            case _:
                return self.constant(dtype)

    def test(self, depth: int) -> Expr:
        kinds = ["compare", "affine", "affine", "load"] + (
            ["and", "or", "not"] if depth > 0 else []
        )
        match self.pick(kinds):
            case "and":
                return Logical("&&", (self.test(depth - 1), self.test(depth - 1)))
            case "or":
                return Logical("||", (self.test(depth - 1), self.test(depth - 1)))
            case "not":
                return Logical("!", (self.test(depth - 1),))
            case "affine":
                return less(self.affine(), self.draw(st.integers(-2, COLUMNS)))
            case "load":
                return Load("p", (self.index(ROWS, 0),), BOOL)
            case _:
                op = self.pick(["==", "!=", "<", "<=", ">", ">="])
                dtype = self.pick(_NUMBERS)
                left, right = self.number(dtype, depth), self.number(dtype, depth)
                return Compare(op, left, right)


# --- one nest each ----------------------------------------------------------------------------


@dataclass
class Nest:
    """Statements that write a buffer of their own whole, and the private buffers they need."""

    stmts: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]
    lanes: tuple[str, ...]  # the variables of loops that must become vectors


def body(scope: Scope, place: Sequence[Expr], output: Buffer, depth: int) -> tuple[Stmt, ...]:
    """Statements that compute one element by way of locals that are set under conditions."""
    dtype = output.dtype
    x = Var(scope.fresh("x"), dtype)
    stmts: list[Stmt] = [Let(x.name, scope.number(dtype, depth))]
    inner = scope.with_local(x)
    for _ in range(scope.draw(st.integers(0, 2))):
        set_x = Set(x.name, inner.number(dtype, depth))
        match scope.pick(["set", "if", "else", "loop", "store"]):
            case "set":
                stmts.append(set_x)
            case "if":
                stmts.append(If(inner.test(depth), (set_x,)))
            case "else":
                y = Var(scope.fresh("y"), dtype)
                more = inner.with_local(y)
                yes = (Let(y.name, inner.number(dtype, 1)), Set(x.name, more.number(dtype, 1)))
                stmts.append(If(inner.test(depth), yes, (set_x,)))
            case "loop":
                k = var(scope.fresh("k"))
                step = Set(x.name, inner.having((k, 3)).number(dtype, depth))
                mark = scope.pick(["", "unroll"])
                stmts.append(loop(k.name, 3, step, mark=mark))
            case _:
                stmts.append(If(inner.test(1), (Store(output.name, tuple(place), x),)))
    return (*stmts, Store(output.name, tuple(place), x))


def elementwise(scope: Scope, number: int) -> Nest:
    """o[i, j] of anything, in vectors of j, with tails."""
    dtype = scope.pick(_NUMBERS)
    rows, columns = scope.draw(st.integers(1, ROWS)), scope.draw(st.integers(1, COLUMNS))
    lanes = scope.draw(st.sampled_from([1, 2, 4, 8, 3, 5]))
    output = dense(f"o{number}", dtype, (rows, columns), "output")
    i, j0, l = (var(scope.fresh(n)) for n in ("i", "j", "l"))  # noqa: E741
    column = add(times(j0, lanes), l)
    inner = scope.having((i, rows), (column, columns), (l, lanes))
    stmts = body(inner, (i, column), output, 2)
    if columns % lanes:
        stmts = (If(less(column, columns), stmts),)
    vector = loop(l.name, lanes, *stmts, mark="vector")
    chunks = loop(j0.name, -(-columns // lanes), vector, mark=scope.pick(["", "unroll"]))
    nest = loop(i.name, rows, chunks, mark=scope.pick(["", "unroll"]))
    if scope.draw(st.booleans()):
        nest = For(nest.var, nest.begin, nest.end, nest.body, parallel=True)
    return Nest((nest,), (output,), (l.name,))


def reduction(scope: Scope, number: int) -> Nest:
    """Rows reduced in vectors, into a local or an element."""
    dtype = scope.pick([INT64, INT32, UINT8, FLOAT32])
    op = scope.pick(["+", "min", "max"] if dtype.is_float else ["+", "*", "min", "max"])
    rows = scope.draw(st.integers(1, ROWS))
    lanes = scope.draw(st.sampled_from([1, 2, 4, 8, 7]))
    output = dense(f"o{number}", dtype, (rows,), "output")
    i, c, l = (var(scope.fresh(n)) for n in ("i", "c", "l"))  # noqa: E741
    column = add(times(c, lanes), l)
    inner = scope.having((i, rows), (column, 3 * lanes), (l, lanes))
    term = inner.load(dtype, 0) if dtype.is_float else inner.number(dtype, 1)
    start = Const(identity(op, dtype), dtype)
    place = (i,)
    if scope.draw(st.booleans()):
        x = Var(scope.fresh("x"), dtype)
        fold = Set(x.name, Binary(op, x, term, dtype))
        around: tuple[Stmt, ...] = (Let(x.name, start),)
        after: tuple[Stmt, ...] = (Store(output.name, place, x),)
        chunks = loop(c.name, 3, loop(l.name, lanes, fold, mark="vector"))
        stmts = (*around, chunks, *after)
    else:
        old = Load(output.name, place, dtype)
        store = Store(output.name, place, Binary(op, old, term, dtype))
        chunks = loop(c.name, 3, loop(l.name, lanes, store, mark="vector"))
        stmts = (Store(output.name, place, start), chunks)
    return Nest((loop(i.name, rows, *stmts),), (output,), (l.name,))


def register_tile(scope: Scope, number: int) -> Nest:
    """Accumulators in registers over a serial loop; tails computed too, not stored."""
    dtype = scope.pick([INT64, INT32, FLOAT32])
    height, vectors = scope.draw(st.integers(1, 3)), scope.draw(st.integers(1, 2))
    lanes = scope.draw(st.sampled_from([1, 2, 4, 8, 5]))
    rows, columns = scope.draw(st.integers(1, ROWS)), scope.draw(st.integers(1, COLUMNS))
    output = dense(f"o{number}", dtype, (rows, columns), "output")
    role = scope.pick(["register", "register", "scratch"])
    acc = dense(f"acc{number}", dtype, (height, vectors * lanes), role)
    i0, j0, k = (var(scope.fresh(n)) for n in "ijk")
    is_guarded = scope.draw(st.booleans())
    lane_names: list[str] = []

    def tile(make: Callable[[Expr, Expr, Expr, Expr], Stmt]) -> Stmt:
        ii, jj, l = (var(scope.fresh(n)) for n in ("ii", "jj", "l"))  # noqa: E741
        lane_names.append(l.name)
        i, inside = add(times(i0, height), ii), add(times(jj, lanes), l)
        column = add(times(j0, vectors * lanes), inside)
        stmt = make(i, column, ii, inside)
        if is_guarded:
            stmt = If(less(column, columns), (stmt,))
        vector = loop(l.name, lanes, stmt, mark="vector")
        across = loop(jj.name, vectors, vector, mark="unroll")
        return loop(ii.name, height, across, mark="unroll")

    def total(i: Expr, j: Expr, ii: Expr, inside: Expr) -> Stmt:
        inner = scope.having((k, 3), (Binary("min", i, integer(ROWS - 1), INT64), ROWS))
        row = inner.index(ROWS, 0)
        term = inner.number(dtype, 1) if dtype.is_integer else inner.load(dtype, 0)
        fill = Const(identity("+", dtype), dtype)
        value = inner.converted(Load("a", (row, j), INT64), dtype)
        masked = Select(less(j, COLUMNS), value, fill, dtype)
        row = scope.pick([ii, ii, Binary("%", add(ii, integer(1)), integer(height), INT64)])
        old = Load(acc.name, (row, inside), dtype)
        return Store(
            acc.name, (ii, inside), Binary("+", old, Binary("+", masked, term, dtype), dtype)
        )

    def write(i: Expr, j: Expr, ii: Expr, inside: Expr) -> Stmt:
        store = Store(output.name, (i, j), Load(acc.name, (ii, inside), dtype))
        return If(Logical("&&", (less(i, rows), less(j, columns))), (store,))

    zero = Const(identity("+", dtype), dtype)
    stmts = (
        tile(lambda _i, _j, ii, inside: Store(acc.name, (ii, inside), zero)),
        loop(k.name, 3, tile(total)),
        tile(write),
    )
    nest = loop(
        i0.name, -(-rows // height), loop(j0.name, -(-columns // (vectors * lanes)), *stmts)
    )
    nest = For(nest.var, nest.begin, nest.end, nest.body, scope.draw(st.booleans()))
    return Nest((nest,), (output, acc), tuple(lane_names))


def transposed(scope: Scope, number: int) -> Nest:
    """Blocks of a matrix, turned; with guards and a fill."""
    name = scope.pick(["a", "t", "h"])
    source = next(b for b in INPUTS if b.name == name)
    dtype = FLOAT32 if source.dtype == FLOAT16 else source.dtype
    down, across = scope.draw(st.integers(1, 9)), scope.draw(st.integers(1, 9))
    height, width = source.shape
    output = dense(f"o{number}", dtype, (width, height), "output")
    i0, j0, i, j = (var(scope.fresh(n)) for n in ("i", "j", "ii", "jj"))
    row, column = add(times(i0, down), i), add(times(j0, across), j)
    test = Logical("&&", (less(row, height), less(column, width)))
    load: Expr = Load(name, (row, column), source.dtype)
    value = Cast(load, dtype) if dtype != source.dtype else load
    if scope.draw(st.booleans()):
        value = Select(test, value, scope.constant(dtype), dtype)
    body: Stmt = If(test, (Store(output.name, (column, row), value),))
    first, second = (
        ((i, down), (j, across)) if scope.draw(st.booleans()) else ((j, across), (i, down))
    )
    block = loop(first[0].name, first[1], loop(second[0].name, second[1], body), mark="transpose")
    nest = loop(i0.name, -(-height // down), loop(j0.name, -(-width // across), block))
    return Nest((nest,), (output,), ())


@st.composite
def marked_kernels(draw: Draw) -> tuple[Kernel, tuple[str, ...]]:
    """A kernel, and the loops that no machine with vectors has any more."""
    scope = Scope(draw)
    makers = draw(
        st.lists(
            st.sampled_from([elementwise, reduction, register_tile, transposed]),
            min_size=1,
            max_size=2,
        )
    )
    nests = [make(scope, number) for number, make in enumerate(makers)]
    own = [buffer for nest in nests for buffer in nest.buffers]
    order = ("output", "scratch", "register")
    own.sort(key=lambda b: (b.role != "output", order.index(b.role)))
    regions = tuple(nest.stmts for nest in nests)
    if draw(st.booleans()) and not any(_is_parallel(s) for nest in nests for s in nest.stmts):
        regions = (tuple(stmt for region in regions for stmt in region),)
    lanes = tuple(name for nest in nests for name in nest.lanes)
    return Kernel("k", (*INPUTS, *own), regions), lanes


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.parallel
