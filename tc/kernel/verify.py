"""The rules that a well-formed kernel keeps, checked after each pass that makes one.

`_expression_rules`, `_statement_rules` and `_buffer_rules` are the list: pairs of what must hold
and what to say where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.affine.intervals import COMPARISONS
from tc.builtins import FUNCTIONS
from tc.builtins.operators import ARITHMETIC, BITWISE, ON_BITS
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType, fits
from tc.errors import InternalError
from tc.extents.sizes import is_tracked
from tc.kernel import ir
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS
from tc.kernel.matrix_products import PRODUCT_OF_MARK, PRODUCTS, MatrixProduct
from tc.kernel.printer import PrintedNode, node_text
from tc.kernel.rebuild import Names
from tc.kernel.walk import accumulates, declared, launched, loaded_in, stored_in

Rules: TypeAlias = "Iterable[tuple[Any, ...]]"
"""What must hold, the text for where it does not, and what stands in the braces of the text."""

_ROLES = {"input": 0, "output": 1, "temporary": 2, "sizes": 3, **dict.fromkeys(ir.PRIVATE, 4)}
_STORED = "{} stands only directly below a cast to float32, or is the cast of a store"
_MARKS = ("", "unroll", "vector", "transpose", "lines", *PRODUCT_OF_MARK)
_NO_WHOLE_WARPS = f"the threads of a block are no whole warps of {ir.WARP}"
_NO_LOCAL = "what threads exchange is not the whole value of a local"
COPIED_BYTES = (4, 8, 16)
"""What one instruction copies to shared memory (PTX ISA, cp.async)."""
_EXCHANGING = (2, 4, 8, 16, ir.WARP)


@dataclass(frozen=True)
class _Block:
    """A well-formed block, what was known `around` it, and what it says of the whole kernel: the
    types of its names and the counts of values of its Fails."""

    stmts: tuple[ir.Stmt, ...]
    around: tuple[Any, ...]
    says: Mapping[str | int, DType | int]


@dataclass
class Verified:
    """Expressions and blocks that were found well formed in kernels of the same buffers and sites,
    by identity: what a pass has left alone need not be looked at again. Beside an expression are
    the variables in it."""

    kernel: tuple[Any, ...] = ()
    expressions: dict[int, tuple[ir.Expr, tuple[ir.Var, ...]]] = field(default_factory=dict)
    blocks: dict[int, _Block] = field(default_factory=dict)

    def start(self, kernel: ir.Kernel) -> None:
        """Forgets all where a kernel has other buffers or sites than the one before."""
        if self.kernel != (own := (kernel.buffers, kernel.sites)):
            self.kernel = own
            self.expressions.clear()
            self.blocks.clear()


def verify(kernel: ir.Kernel, verified: Verified | None = None) -> None:
    """Raises InternalError, naming the node and the rule, unless the kernel is well formed;
    `verified` remembers what was looked at, for the next kernel.

    >>> verify(ir.Kernel("empty", (), ()))
    """
    names = [b.name for b in kernel.buffers]
    for buffer in kernel.buffers:
        _check(kernel, f"buffer {buffer.name}", _buffer_rules(buffer, names))
    roles = [_ROLES[b.role] for b in kernel.buffers]
    _check(kernel, "buffers", [(roles == sorted(roles), "they are out of calling order")])
    strangers = sorted(kernel.initial - {b.name for b in kernel.buffers if b.role == "output"})
    _check(kernel, "initial", [(not strangers, "{} are no outputs", strangers)])
    for number, site in enumerate(kernel.sites):
        known = site.kind in ir.SITE_KINDS
        _check(kernel, f"site {number}", [(known, "unknown kind '{}'", site.kind)])
    verified = verified or Verified()
    verified.start(kernel)
    scope = _Scope(kernel, verified)
    for region in kernel.regions:
        _check(kernel, "region", _region_rules(region, scope.buffers))
        _check_block(region, scope)


class _Scope(Names):
    """What the check of a kernel knows at the statement that it has come to: the visible names, and
    what statements before say of the whole kernel: the types of names, and the counts of values of
    the Fails of a site."""

    def __init__(self, kernel: ir.Kernel, verified: Verified) -> None:
        super().__init__()
        self.kernel = kernel
        self.buffers = {b.name: b for b in kernel.buffers}
        self.verified = verified
        self.said: dict[str | int, DType | int] = {}
        self.says: dict[str | int, DType | int] = {}

    def declare(self, name: str, dtype: DType) -> None:
        self.say(name, dtype)
        super().declare(name, dtype)

    def say(self, what: str | int, value: DType | int) -> bool:
        """Notes what the block says of a name or site. Returns whether this is what was said of it
        before, if anything was."""
        self.says[what] = value
        return self.said.setdefault(what, value) == value

    @property
    def around(self) -> tuple[Any, ...]:
        """All that the rules of a block ask of what is around it."""
        loops = ((declared(x), *(ask(x) for ask in _ASKED_OF_LOOPS)) for x in self.loops)
        return tuple(self.dtypes.items()), tuple(self.depths.values()), tuple(loops)

    def is_inside(self, is_meant: Callable[[ir.For | ir.Grid], bool]) -> bool:
        """Whether some loop or grid around is one that is meant."""
        return any(map(is_meant, self.loops))

    def may_set(self, name: str) -> bool:
        """Whether a name is that of a local which may be set here: none from outside of the grid or
        parallel loop around, nor of the vector loop but for the one that this loop accumulates."""
        if name not in self.dtypes or self.is_inside(lambda loop: name in declared(loop)):
            return False
        return not any(map(_has_own_locals, self.loops_since(name)))


def _is_grid(loop: ir.For | ir.Grid) -> bool:
    return isinstance(loop, ir.Grid)


def _is_parallel(loop: ir.For | ir.Grid) -> bool:
    return isinstance(loop, ir.For) and loop.parallel


def _is_vector(loop: ir.For | ir.Grid) -> bool:
    return isinstance(loop, ir.For) and loop.mark == "vector"


def _has_own_locals(loop: ir.For | ir.Grid) -> bool:
    """Whether the body of a loop or grid may not set locals from outside of it."""
    if isinstance(loop, ir.Grid) or loop.parallel:
        return True
    return loop.mark == "vector" and not accumulates(loop)


def _has_whole_warps(loop: ir.For | ir.Grid) -> bool:
    return isinstance(loop, ir.Grid) and launched(loop.threads) % ir.WARP == 0


_ASKED_OF_LOOPS = (_is_grid, _is_parallel, _is_vector, _has_own_locals, _has_whole_warps)


def _check(kernel: ir.Kernel, node: PrintedNode, rules: Rules) -> None:
    for rule in rules:
        if not rule[0]:
            reason = rule[1].format(*rule[2:])
            text = f"kernel {kernel.name} is ill-formed: in '{node_text(node)}': {reason}"
            raise InternalError(text)


def _check_block(block: tuple[ir.Stmt, ...], scope: _Scope) -> None:
    """Checks a block, unless it has been found well formed within the same around it."""
    blocks, around = scope.verified.blocks, scope.around
    known = blocks.get(id(block))
    if (
        known is not None
        and known.around == around
        and all(scope.say(*said) for said in known.says.items())
    ):
        return
    before, scope.says = scope.says, {}
    with scope.block():
        for stmt in block:
            _check(scope.kernel, stmt, _statement_rules(stmt, scope))
            for expr in ir.own_expressions(stmt):
                stored = isinstance(stmt, ir.Store) and expr is stmt.value
                stored = stored and isinstance(expr, ir.Cast | ir.Bits)
                stored = stored or isinstance(stmt, ir.WarpMultiply)
                for var in _variables(expr, scope, stored=stored):
                    if scope.dtypes.get(var.name) != var.dtype:
                        _check(scope.kernel, var, _variable_rules(var, scope))
            for inner in ir.blocks(stmt):
                with scope.inside(stmt):
                    _check_block(inner, scope)
            scope.learn(stmt)
    blocks[id(block)] = _Block(block, around, scope.says)
    scope.says = before | scope.says


def _variables(expr: ir.Expr, scope: _Scope, *, stored: bool = False) -> tuple[ir.Var, ...]:
    """The variables of an expression that is well formed but for these. `stored`: it stands where
    types of storage are allowed. Expressions share their parts; each is looked at once."""
    known = scope.verified.expressions.get(id(expr))
    if known is not None:
        return known[1]
    _check(scope.kernel, expr, _expression_rules(expr, scope, stored=stored))
    widens = isinstance(expr, ir.Cast) and expr.dtype.scalar == FLOAT32
    moves = isinstance(expr, ir.Bits) and expr.dtype.kind == "uint"
    found = {expr.name: expr} if isinstance(expr, ir.Var) else {}
    for child in ir.children(expr):
        for var in _variables(
            child,
            scope,
            stored=(widens and isinstance(child, ir.Load | ir.Cast | ir.Bits))
            or (moves and isinstance(child, ir.Load | ir.Cast)),
        ):
            other = found.setdefault(var.name, var)
            if other is not var and other.dtype != var.dtype:
                rule = False, "'{}' is {} and {}", var.name, other.dtype, var.dtype
                _check(scope.kernel, expr, [rule])
    variables = tuple(found.values())
    if not stored:
        scope.verified.expressions[id(expr)] = expr, variables
    return variables


def _variable_rules(var: ir.Var, scope: _Scope) -> Rules:
    yield var.name in scope.dtypes, "'{}' is not declared here", var.name
    own = scope.dtypes[var.name]
    yield own == var.dtype, "'{}' is {}, not {}", var.name, own, var.dtype


def _buffer_rules(buffer: ir.Buffer, names: list[str]) -> Rules:
    yield names.count(buffer.name) == 1, "two buffers have this name"
    yield buffer.role in _ROLES, "unknown role '{}'", buffer.role
    yield buffer.dtype.lanes == 1, "its elements are vectors"
    local = buffer.role == "register" and buffer.dtype.is_storage
    yield not local, "registers hold no {}, as locals do not", buffer.dtype
    yield len(buffer.shape) == len(buffer.strides), "the strides are not one per dimension"
    yield all(extent >= 0 for extent in buffer.shape), "an extent is negative"
    staged = buffer.stages == 1 or (buffer.role == "shared" and len(buffer.shape) > 0)
    yield staged and buffer.stages >= 1, "{} stages", buffer.stages
    fits = buffer.stages in (1, *buffer.shape[:1])
    yield fits, "{} stages, and not along the first dimension", buffer.stages
    dense = buffer.role == "input" or buffer.strides == ir.row_major(buffer.shape)
    yield dense, "only inputs are not row-major"


def _statement_rules(stmt: ir.Stmt, scope: _Scope) -> Rules:
    if not isinstance(stmt, ir.Let | ir.Set):
        own = any(isinstance(expr, ir.WarpReduce) for expr in ir.own_expressions(stmt))
        yield not own, _NO_LOCAL
    match stmt:
        case ir.For(var=var, begin=begin, end=end, parallel=parallel):
            yield from _declaration_rules(var, INT64, scope)
            yield begin.dtype == INT64 and end.dtype == INT64, "the bounds are not int64"
            yield not (parallel and scope.is_inside(_is_parallel)), "a parallel loop inside another"
            yield from _mark_rules(stmt, scope)
            own = not parallel and stmt.mark in ("", "unroll", *PRODUCT_OF_MARK)
            reason = "a loop of threads is parallel, or marked for vectors"
            yield own or not scope.is_inside(_is_grid), reason
        case ir.If(condition=condition):
            yield condition.dtype == BOOL, "the condition is {}, not bool", condition.dtype
        case ir.Let(var=var, value=value):
            yield from _declaration_rules(var, value.dtype, scope)
            yield from _exchange_rules(value, scope)
        case ir.Set(var=var, value=value):
            yield from _exchange_rules(value, scope)
            yield var in scope.dtypes, "'{}' is not declared here", var
            yield scope.may_set(var), "'{}' is no local that may be set here", var
            yield value.dtype == scope.dtypes[var], "'{}' is {}", var, scope.dtypes[var]
        case ir.Store(buffer=name, indices=indices, value=value, mask=mask):
            yield from _access_rules(name, indices, mask, value.dtype.lanes, scope)
            buffer = scope.buffers[name]
            yield buffer.role not in ("input", "sizes"), "'{}' is an input", name
            same = value.dtype.scalar == buffer.dtype
            yield same, "'{}' is {}, not {}", name, buffer.dtype, value.dtype
            if stmt.non_temporal:
                yield value.dtype.lanes > 1 and mask is None, "no whole vector is non-temporal"
                passed = buffer.role in ("output", "temporary")
                yield passed, "'{}' is private, and non-temporal", name
        case ir.Atomic():
            yield from _atomic_rules(stmt, scope)
        case ir.Prefetch(buffer=name, indices=indices):
            yield from _access_rules(name, indices, None, stmt.lanes, scope)
            private = scope.buffers[name].role in ir.PRIVATE
            yield not private, "'{}' is private, and prefetched", name
        case ir.Fail(site=number, values=values):
            yield from _fail_rules(number, values, scope)
        case ir.Comment(text=text):
            yield "\n" not in text, "a comment has one line"
        case ir.Grid():
            yield from _grid_rules(stmt, scope)
        case ir.CopyAsync():
            yield from _copy_rules(stmt, scope)
        case ir.Commit() | ir.Wait():
            yield scope.is_inside(_is_grid), "it is in no grid"
            if isinstance(stmt, ir.Wait):
                yield stmt.left >= 0, "{} groups are left", stmt.left
        case ir.WarpMultiply():
            yield from _multiply_rules(stmt, scope)
        case ir.Barrier(scope=whose):
            yield whose in (ir.BLOCK, ir.GRID), "unknown scope '{}'", whose
            yield scope.is_inside(_is_grid), "it is in no grid"
        case _:
            raise ir.unknown_node(stmt)


def _atomic_rules(stmt: ir.Atomic, scope: _Scope) -> Rules:
    yield scope.is_inside(_is_grid), "it is in no grid"
    yield from _access_rules(stmt.buffer, stmt.indices, None, 1, scope)
    buffer, dtype = scope.buffers[stmt.buffer], stmt.value.dtype
    met = ("output", "temporary", "shared")
    yield buffer.role in met, "threads do not meet in '{}'", buffer.name
    yield dtype == buffer.dtype, "'{}' is {}, not {}", buffer.name, buffer.dtype, dtype
    yield dtype.is_integer and dtype.bits in (32, 64), "elements are {}", dtype
    yield stmt.op in ir.ATOMICS, "unknown operator '{}'", stmt.op
    is_one = scope.say(f"atomics of {buffer.name}", ir.ATOMICS.index(stmt.op))
    yield is_one, "'{}' is updated by another operation, too", buffer.name


def _copy_rules(copy: ir.CopyAsync, scope: _Scope) -> Rules:
    yield scope.is_inside(_is_grid), "it is in no grid"
    yield from _access_rules(copy.buffer, copy.indices, None, 1, scope)
    yield from _access_rules(copy.source, copy.source_indices, None, 1, scope)
    to, source = scope.buffers[copy.buffer], scope.buffers[copy.source]
    yield to.role == "shared", "'{}' is not shared", to.name
    yield source.role not in ir.PRIVATE, "'{}' is private, and copied", source.name
    yield to.dtype == source.dtype, "'{}' is {}, not {}", to.name, to.dtype, source.dtype
    yield to.dtype.bytes in (2, 4, 8), "elements of {} bytes are copied", to.dtype.bytes
    size = copy.count * to.dtype.bytes
    yield size in COPIED_BYTES, "{} bytes are copied at once", size
    along = copy.count == 1 or source.strides[-1:] == (1,)
    yield along, "the last dimension of '{}' has no neighbours in memory", source.name
    condition = copy.condition
    is_test = condition is None or condition.dtype == BOOL
    yield is_test, "the condition is {}, not bool", condition and condition.dtype


def _exchange_rules(value: ir.Expr, scope: _Scope) -> Rules:
    """Of the value of a local, which threads of a warp may compute together."""
    if isinstance(value, ir.WarpReduce):
        yield scope.is_inside(_is_grid), "it is in no grid"
        yield scope.is_inside(_has_whole_warps), _NO_WHOLE_WARPS


def _multiply_rules(stmt: ir.WarpMultiply, scope: _Scope) -> Rules:
    yield scope.is_inside(_is_grid), "it is in no grid"
    yield scope.is_inside(_has_whole_warps), _NO_WHOLE_WARPS
    yield stmt.factors in PRODUCTS, "no product is called '{}'", stmt.factors
    results, dtype = len(stmt.left) * len(stmt.right) * ir.RESULTS, stmt.product.dtype
    yield results == len(stmt.sums) > 0, "{} sums of {} results", len(stmt.sums), results
    yield len(set(stmt.sums)) == results, "two of its sums are one local"
    for name in stmt.sums:
        yield scope.dtypes.get(name) == FLOAT32, "'{}' is no local of float32", name
        yield scope.may_set(name), "'{}' is no local that may be set here", name
    for tiles, axes in ((stmt.left, stmt.left_axes), (stmt.right, stmt.right_axes)):
        for tile in tiles:
            plain = isinstance(tile, ir.Load) and tile.mask is None and tile.dtype == dtype
            yield plain, "'{}' is no element of {}", node_text(tile), dtype
            yield from _tile_rules(scope.buffers.get(tile.buffer), axes, stmt.product)  # type: ignore[union-attr]


def _tile_rules(buffer: ir.Buffer | None, axes: tuple[int, ...], product: MatrixProduct) -> Rules:
    yield buffer is not None and buffer.role == "shared", "a tile is in no shared memory"
    if buffer is not None:
        last = len(buffer.shape) - 1
        inside = len(axes) == 2 and axes[0] != axes[1] and all(0 <= axis <= last for axis in axes)
        yield inside and last in axes, "no tile of '{}' has the axes {}", buffer.name, axes
        odd = [step for step in buffer.strides[:-1] if step % product.line]
        yield not odd, "lines of '{}' are {} elements apart", buffer.name, odd


def _region_rules(region: tuple[ir.Stmt, ...], buffers: Mapping[str, ir.Buffer]) -> Rules:
    """What holds of launches: where there is a grid, there is nothing else."""
    grids = sum(isinstance(stmt, ir.Grid) for stmt in ir.statements(region))
    rest = [stmt for stmt in region if not isinstance(stmt, ir.Comment)]
    alone = grids == 1 and len(rest) == 1 and isinstance(rest[0], ir.Grid)
    yield grids == 0 or alone, "a grid does not stand alone in its region"
    shared = {name for name, buffer in buffers.items() if buffer.role == "shared"}
    if grids == 0 and shared:
        used = shared & (stored_in(region) | loaded_in(region))
        yield not used, "{} are shared, and used outside of a grid", sorted(used)


def _grid_rules(grid: ir.Grid, scope: _Scope) -> Rules:
    for indices, kind in ((grid.blocks, "blocks"), (grid.threads, "threads")):
        yield len(indices) <= 3, "{} dimensions of {}", len(indices), kind
        for index in indices:
            yield from _declaration_rules(index.var, INT64, scope)
            yield index.count >= 1, "{} {} along '{}'", index.count, kind, index.var
    names = [index.var for index in grid.blocks + grid.threads]
    yield len(set(names)) == len(names), "two of its indices have one name"
    inner = (s for stmt in grid.body for s in ir.statements(ir.inner_statements(stmt)))
    deep = any(isinstance(s, ir.Barrier) and s.scope == ir.GRID for s in inner)
    yield not deep, "a barrier of the grid in a loop or condition, which some blocks may not meet"


def _mark_rules(loop: ir.For, scope: _Scope) -> Rules:
    yield loop.mark in _MARKS, "unknown mark '{}'", loop.mark
    if loop.mark not in ("", "lines"):
        yield _is_counted(loop), "the bounds of a loop marked '{}' are not constant", loop.mark
    vector = loop.mark == "vector"
    yield not (vector and scope.is_inside(_is_vector)), "a vector loop inside another"
    if loop.mark == "transpose":
        match loop.body:
            case (ir.For(mark="", parallel=False, body=body) as inner,) if _is_copy(body):
                yield _is_counted(inner), "the inner bounds of a transpose are not constant"
            case _:
                yield False, "a transpose is not two loops around one store of one load"


def _is_copy(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a body is one Store of one Load, but for a test, a Cast, and a fill; or of the fill
    alone, where the test is known to fail."""
    match body:
        case (ir.If(then=(ir.Store() as store,), otherwise=()),):
            return _is_copy((store,))
        case (ir.Store(value=ir.Cast(operand=value)),) | (ir.Store(value=value),):
            match value:
                case ir.Select(then=ir.Load() | ir.Cast(operand=ir.Load()), otherwise=ir.Const()):
                    return True
                case ir.Logical(op="&&", operands=(_, ir.Load())):  # `condition ? load : false`
                    return True
                case _:
                    return isinstance(value, ir.Load | ir.Const)
        case _:
            return False


def _is_counted(loop: ir.For) -> bool:
    return isinstance(loop.begin, ir.Const) and isinstance(loop.end, ir.Const)


def _expression_rules(expr: ir.Expr, scope: _Scope, *, stored: bool) -> Rules:
    """Of an expression but for its operands; `stored` allows types of storage."""
    dtype = expr.dtype
    lanes, scalar = dtype.lanes, dtype.scalar
    yield lanes >= 1, "{} lanes", lanes
    match expr:
        case ir.Const(value=value):
            yield _is_representable(value, scalar), "{!r} is no {}", value, scalar
        case ir.Var():
            pass  # see `_variable_rules`
        case ir.Load(buffer=name, indices=indices, mask=mask):
            yield from _access_rules(name, indices, mask, lanes, scope)
            own = scope.buffers[name].dtype
            yield own == scalar, "'{}' is {}, not {}", name, own, dtype
        case ir.Unary(op=op, operand=operand):
            yield op == "-", "unknown operator '{}'", op
            yield scalar != BOOL, "arithmetic on bool"
            yield from _same_types((operand,), dtype)
        case ir.Binary(op=op, left=left, right=right):
            yield op in ARITHMETIC or op in ON_BITS, "unknown operator '{}'", op
            yield scalar != BOOL or op in ir.OF_BOOL, "arithmetic on bool"
            yield not scalar.is_float or op not in ON_BITS, "'{}' on {}", op, dtype
            yield from _same_types((left, right), dtype)
        case ir.Compare(op=op, left=left, right=right):
            yield op in COMPARISONS, "unknown operator '{}'", op
            yield scalar == BOOL, "a comparison is bool"
            same = left.dtype == right.dtype
            yield same, "the operands are {} and {}", left.dtype, right.dtype
            yield from _same_lanes(left, lanes)
        case ir.Logical(op=op, operands=operands):
            yield op in ("&&", "||", "!"), "unknown operator '{}'", op
            yield len(operands) == (1 if op == "!" else 2), "{} operands", len(operands)
            yield scalar == BOOL, "a logical operation is bool"
            yield from _same_types(operands, dtype)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            known = condition.dtype in (BOOL, BOOL.vector(lanes))
            yield known, "the condition is {}, not {}", condition.dtype, BOOL.vector(lanes)
            yield from _same_types((then, otherwise), dtype)
        case ir.Call(function=function, args=args):
            table = EXPONENT_FUNCTIONS if function in EXPONENT_FUNCTIONS else FUNCTIONS
            yield function in table, "unknown function '{}'", function
            arity = table[function].arity
            yield len(args) == arity, "{} arguments instead of {}", len(args), arity
            yield lanes > 1 or table is FUNCTIONS, "'{}' is for vectors", function
            rule = table[function].rule if table is FUNCTIONS else "float"
            of_floats = rule != "bits" and scalar in (FLOAT32, FLOAT64)
            computes = of_floats or (rule != "float" and dtype.is_integer)
            yield computes, "'{}' does not compute in {}", function, dtype
            yield from _same_types(args, dtype)
        case ir.Cast(operand=operand):
            yield from _same_lanes(operand, lanes)
        case ir.Bits(operand=operand):
            yield from _same_lanes(operand, lanes)
            yield BOOL not in (scalar, operand.dtype.scalar), "the bits of a bool"
            yield (
                operand.dtype.bits == dtype.bits,
                "{} and {} differ in width",
                operand.dtype,
                dtype,
            )
        case ir.Broadcast() | ir.Ramp() | ir.Reduce() | ir.Shuffle():
            yield from _lane_rules(expr)
        case ir.WarpReduce(op=op, operand=operand, lanes=threads):
            yield op in ir.REDUCTIONS, "'{}' is no reduction", op
            yield not scalar.is_float or op not in BITWISE, "'{}' on {}", op, dtype
            yield scalar != BOOL or op in ir.OF_BOOL, "arithmetic on bool"
            yield lanes == 1, "the threads of a warp have no vectors"
            yield threads in _EXCHANGING, "{} threads exchange values", threads
            yield from _same_types((operand,), dtype)
        case _:
            raise ir.unknown_node(expr)
    yield stored or not scalar.is_storage, _STORED, scalar
    inner = any(isinstance(operand, ir.WarpReduce) for operand in ir.children(expr))
    yield not inner, _NO_LOCAL


def _lane_rules(expr: ir.Broadcast | ir.Ramp | ir.Reduce | ir.Shuffle) -> Rules:
    """Of the nodes that do not work lane by lane."""
    dtype = expr.dtype
    match expr:
        case ir.Broadcast(operand=operand):
            yield dtype.lanes > 1, "{} is no vector", dtype
            yield from _same_types((operand,), dtype.scalar)
        case ir.Ramp(base=base, step=step):
            yield dtype.lanes > 1 and dtype.scalar == INT64, "{} is no vector of int64", dtype
            yield type(step) is int and fits(step, INT64), "the step {!r} is no int64", step
            yield from _same_types((base,), INT64)
        case ir.Reduce(op=op, operand=operand):
            yield op in ir.REDUCTIONS, "'{}' is no reduction", op
            yield not dtype.is_float or op not in BITWISE, "'{}' on {}", op, dtype
            yield dtype != BOOL or op in ir.OF_BOOL, "arithmetic on bool"
            yield operand.dtype.lanes > 1, "{} is no vector", operand.dtype
            yield (
                operand.dtype.scalar == dtype,
                "the operand is {}, not of {}",
                operand.dtype,
                dtype,
            )
        case ir.Shuffle(left=left, right=right, lanes=lanes):
            same = left.dtype == right.dtype
            yield same, "the operands are {} and {}", left.dtype, right.dtype
            yield left.dtype.lanes > 1 and len(lanes) > 1, "a shuffle of scalars"
            inside = all(0 <= lane < 2 * left.dtype.lanes for lane in lanes)
            yield inside, "a lane is not below {}", 2 * left.dtype.lanes
            made = left.dtype.vector(len(lanes))
            yield made == dtype, "the result is {}, not {}", made, dtype
        case _:
            raise ir.unknown_node(expr)


def _declaration_rules(name: str, dtype: DType, scope: _Scope) -> Rules:
    yield name not in scope.dtypes, "'{}' shadows a name of an enclosing block", name
    yield name not in scope.buffers, "'{}' is a buffer", name
    other = scope.said.get(name, dtype)
    yield other == dtype, "'{}' is {} elsewhere in the kernel, {} here", name, other, dtype


def _access_rules(
    name: str, indices: tuple[ir.Expr, ...], mask: ir.Expr | None, lanes: int, scope: _Scope
) -> Rules:
    yield name in scope.buffers, "unknown buffer '{}'", name
    rank = len(scope.buffers[name].shape)
    yield len(indices) == rank, "{} indices for rank {}", len(indices), rank
    found = {index.dtype for index in indices}
    yield found <= {INT64, INT64.vector(lanes)}, "an index is not {}", _either(INT64, lanes)
    yield lanes == 1 or INT64.vector(lanes) in found, "a vector at scalar indices"
    if mask is not None:
        yield lanes > 1, "a mask on a scalar"
        yield mask.dtype == BOOL.vector(lanes), "the mask is {}", mask.dtype


def _either(dtype: DType, lanes: int) -> str:
    return str(dtype) if lanes == 1 else f"{dtype} or {dtype.vector(lanes)}"


def _fail_rules(number: int, values: tuple[ir.Expr, ...], scope: _Scope) -> Rules:
    sites = scope.kernel.sites
    yield 0 <= number < len(sites), "unknown site {}", number
    site, count = sites[number], len(values)
    names = len(site.variables)
    fits = count == names if site.kind == "division" else count > names
    yield fits, "{} values for the {} of ({})", count, site.kind, ", ".join(site.variables)
    same = scope.say(number, count)
    known = scope.said[number]
    yield same, "{} values where another Fail of the site has {}", count, known
    yield all(value.dtype == INT64 for value in values), "a value is not int64"


def _same_types(operands: tuple[ir.Expr, ...], dtype: DType) -> Rules:
    for operand in operands:
        yield operand.dtype == dtype, "an operand is {}, not {}", operand.dtype, dtype


def _same_lanes(operand: ir.Expr, lanes: int) -> Rules:
    found = operand.dtype.lanes
    yield found == lanes, "an operand has {} lanes, not {}", found, lanes


def _is_representable(value: float, dtype: DType) -> bool:
    if dtype == BOOL:
        return isinstance(value, bool)
    if dtype.is_integer:
        return (type(value) is int or is_tracked(value)) and fits(value, dtype)
    if dtype.is_storage or type(value) is not float:
        return False
    with np.errstate(over="ignore"):
        return value != value or dtype == FLOAT64 or float(np.float32(value)) == value
