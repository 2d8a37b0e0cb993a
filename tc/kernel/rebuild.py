"""The same kernel with something else in it: what the passes over kernels are made of.

`map_regions`, `map_statements`, `map_blocks`, `map_expressions` and `map_operands` go one level
down each, `map_each` goes to all statements; `changed` gives a node other fields. What they leave
alone is the very same object, so that `is` tells whether a pass changed anything, and no field can
be lost on the way. A `Scope` goes all the way down, and knows at each statement what the loops and
locals around it say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from operator import is_
from typing import Any, TypeAlias, TypeVar

from tc.affine.intervals import Interval
from tc.dtypes import INT64, DType
from tc.kernel import ir
from tc.kernel.folding import (
    binary,
    broadcast,
    cast,
    compare,
    constant,
    is_constant,
    logical_and,
    logical_not,
    logical_or,
    negation,
    ramp,
    select,
    splat,
)
from tc.kernel.intervals import Bounds, interval, launch_intervals, loop_interval
from tc.kernel.ir import Kernel
from tc.kernel.walk import declared, every_statement, is_small, is_steady, names_in

Stmts: TypeAlias = tuple[ir.Stmt, ...]
MAX_VALUE_NODES = 80
"""Nodes of an index that stands in the place of a local, or is computed a second time."""

N = TypeVar("N", bound=ir.Stmt | ir.Kernel)
T = TypeVar("T")


# --- statements -------------------------------------------------------------------------------


def changed(node: N, **fields: Any) -> N:
    """The node with other fields; the very same where it has them already.

    >>> from tc.dtypes import INT64
    >>> loop = ir.For("i", constant(0, INT64), constant(9, INT64), (), parallel=True)
    >>> changed(loop, body=(), mark="") is loop, changed(loop, mark="unroll").parallel
    (True, True)
    """
    for name, value in fields.items():
        if getattr(node, name) is not value:
            return replace(node, **fields)
    return node


def same_or(old: tuple[T, ...], new: Iterable[T]) -> tuple[T, ...]:
    """The old tuple where the new one has the same objects, else the new one."""
    made = tuple(new)
    return old if len(made) == len(old) and unchanged(old, made) else made


def map_regions(kernel: ir.Kernel, change: Callable[[Stmts], Stmts]) -> ir.Kernel:
    """The kernel with each region changed."""
    return changed(kernel, regions=same_or(kernel.regions, map(change, kernel.regions)))


def map_statements(block: Stmts, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> Stmts:
    """The block with what a function makes of each of its statements, in order.

    >>> block = ir.Comment("a"), ir.Comment("b")
    >>> map_statements(block, lambda stmt: (stmt,)) is block
    True
    >>> map_statements(block, lambda stmt: (stmt, stmt) if stmt.text == "b" else ())
    (Comment(text='b'), Comment(text='b'))
    """
    return same_or(block, (made for stmt in block for made in change(stmt)))


def map_each(block: Stmts, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> Stmts:
    """The block with what a function makes of each statement, at any depth: of those in the blocks
    of a statement first, then of the statement with the new blocks."""
    return map_statements(
        block, lambda stmt: change(map_blocks(stmt, lambda inner: map_each(inner, change)))
    )


def map_blocks(stmt: ir.Stmt, change: Callable[[Stmts], Stmts]) -> ir.Stmt:
    """The statement with the blocks in it changed: the body of a loop, both parts of a branch."""
    match stmt:
        case ir.For(body=body) | ir.Grid(body=body):
            return changed(stmt, body=change(body))
        case ir.If(then=then, otherwise=otherwise):
            return changed(stmt, then=change(then), otherwise=change(otherwise))
        case _:
            return stmt


def map_expressions(stmt: ir.Stmt, change: Callable[[ir.Expr], ir.Expr]) -> ir.Stmt:
    """The statement with its own expressions changed, whole; the blocks in it stay. A mask comes
    first, as everything else is under it.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import node_text
    >>> store = ir.Store("o", (ir.Var("i", INT64),), constant(2.0, FLOAT32))
    >>> node_text(map_expressions(store, lambda e: substitute(e, {"i": constant(3, INT64)}, {})))
    'o[3] = 2.0f'
    """
    match stmt:
        case ir.Let(value=value) | ir.Set(value=value):
            new = change(value)
            return stmt if new is value else type(stmt)(stmt.var, new)
        case ir.Store(indices=indices, value=value, mask=mask):
            test = None if mask is None else change(mask)
            places, new = same_or(indices, map(change, indices)), change(value)
            if new is value and test is mask and places is indices:
                return stmt
            return ir.Store(stmt.buffer, places, new, test, stmt.non_temporal)
        case ir.Atomic(indices=indices, value=value):
            places = same_or(indices, map(change, indices))
            return changed(stmt, indices=places, value=change(value))
        case ir.For(begin=begin, end=end):
            return changed(stmt, begin=change(begin), end=change(end))
        case ir.If(condition=condition):
            return changed(stmt, condition=change(condition))
        case ir.Prefetch(indices=indices):
            return changed(stmt, indices=same_or(indices, map(change, indices)))
        case ir.Fail(values=values):
            return changed(stmt, values=same_or(values, map(change, values)))
        case ir.WarpMultiply(left=left, right=right):
            one, other = (same_or(tiles, map(change, tiles)) for tiles in (left, right))
            return changed(stmt, left=one, right=other)
        case ir.CopyAsync(indices=indices, source_indices=source, condition=condition):
            test = None if condition is None else change(condition)
            return changed(
                stmt,
                indices=same_or(indices, map(change, indices)),
                source_indices=same_or(source, map(change, source)),
                condition=None if isinstance(test, ir.Const) and test.value else test,
            )
        case ir.Comment() | ir.Grid() | ir.Barrier() | ir.Commit() | ir.Wait():
            return stmt
        case _:
            raise ir.unknown_node(stmt)


# --- what is known at a statement -------------------------------------------------------------


class Names:
    """The variables that a walk through a kernel has met and that are visible where it is, with
    their types and the `depths` of loops around their declarations, and the loops and grids around,
    outermost first."""

    def __init__(self) -> None:
        self.loops: list[ir.For | ir.Grid] = []
        self.dtypes: dict[str, DType] = {}
        self.depths: dict[str, int] = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """Forgets, at the end of a block, the variables that the block declares."""
        count = len(self.dtypes)
        try:
            yield
        finally:
            while len(self.dtypes) > count:
                self.forget(next(reversed(self.dtypes)))

    @contextmanager
    def inside(self, stmt: ir.Stmt) -> Iterator[None]:
        """In the blocks of a statement, whose variables are declared there."""
        with self.block():
            if not isinstance(stmt, ir.For | ir.Grid):
                yield
                return
            self.loops.append(stmt)
            try:
                self.enter(stmt)
                yield
            finally:
                self.loops.pop()

    def enter(self, stmt: ir.For | ir.Grid) -> None:
        """Declares the variables of a loop or grid."""
        for name in declared(stmt):
            self.declare(name, INT64)

    def learn(self, stmt: ir.Stmt) -> None:
        """Notes the variables that a statement declares for the statements behind it."""
        if isinstance(stmt, ir.Let):
            self.declare(stmt.var, stmt.dtype)

    def declare(self, name: str, dtype: DType) -> None:
        self.dtypes[name] = dtype
        self.depths[name] = len(self.loops)

    def forget(self, name: str) -> None:
        del self.dtypes[name], self.depths[name]

    def loops_since(self, name: str) -> list[ir.For | ir.Grid]:
        """The loops and grids between the declaration of a variable and the walk's place."""
        return self.loops[self.depths[name] :]


class Scope(Names):
    """Names with what is known of their values: `bounds` of integers, `values` with which locals
    were declared, and `lets`, those of INT64 that these locals keep, as nothing in them changes.
    `assigned` are the locals that a Set changes.

    >>> from tc.kernel.folding import binary
    >>> i, four = ir.Var("i", INT64), constant(4, INT64)
    >>> scope, let = Scope(), ir.Let("x", binary("*", i, four))
    >>> def change(stmt):
    ...     print(type(stmt).__name__, scope.bounds)
    ...     return (scope.map_inside(stmt, change),)
    >>> loop = ir.For("i", constant(0, INT64), four, (let, ir.Comment("behind")))
    >>> scope.map((loop,), change) == (loop,)
    For {}
    Let {'i': (0, 3)}
    Comment {'i': (0, 3), 'x': (0, 12)}
    True
    """

    def __init__(self, assigned: AbstractSet[str] = frozenset()) -> None:
        super().__init__()
        self.assigned = assigned
        self.bounds: dict[str, Interval] = {}
        self.values: dict[str, ir.Expr] = {}
        self.lets: dict[str, ir.Expr] = {}

    def map(self, block: Stmts, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> Stmts:
        """`map_statements`, while the scope is at the statement that is changed."""

        def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
            made = tuple(change(stmt))
            self.learn(stmt)
            return made

        with self.block():
            return map_statements(block, each)

    def map_inside(self, stmt: ir.Stmt, change: Callable[[ir.Stmt], Iterable[ir.Stmt]]) -> ir.Stmt:
        """The statement with those of the blocks in it changed."""
        if not ir.blocks(stmt):
            return stmt
        with self.inside(stmt):
            return map_blocks(stmt, lambda block: self.map(block, change))

    def map_inside_out(self, block: Stmts, change: Callable[[Stmts], Stmts]) -> Stmts:
        """The block changed as a whole, behind the blocks in it, while the scope is at its end."""
        made: list[ir.Stmt] = []
        with self.block():
            for stmt in block:
                if ir.blocks(stmt):
                    with self.inside(stmt):
                        stmt = map_blocks(stmt, lambda inner: self.map_inside_out(inner, change))
                made.append(stmt)
                self.learn(stmt)
            return change(same_or(block, made))

    def enter(self, stmt: ir.For | ir.Grid) -> None:
        super().enter(stmt)
        if isinstance(stmt, ir.For):
            self.bounds[stmt.var] = loop_interval(stmt.begin, stmt.end, self.bounds)
        else:
            self.bounds |= launch_intervals(stmt)

    def learn(self, stmt: ir.Stmt) -> None:
        super().learn(stmt)
        if isinstance(stmt, ir.Let):
            self.values[stmt.var] = stmt.value
            if stmt.var not in self.assigned and stmt.dtype.is_integer:
                self.bounds[stmt.var] = interval(stmt.value, self.bounds)
                if stmt.dtype.scalar == INT64 and is_steady(stmt.value, self.assigned.__contains__):
                    self.lets[stmt.var] = stmt.value

    def forget(self, name: str) -> None:
        super().forget(name)
        for known in (self.bounds, self.values, self.lets):
            known.pop(name, None)

    def in_loop_variables(self, expr: ir.Expr) -> ir.Expr:
        """The expression with values in the place of scalar locals that keep them, where these are
        of at most `MAX_VALUE_NODES` nodes: each local may double those of the one before."""
        known = [n for n in names_in(expr) if n in self.lets and self.dtypes[n] == INT64]
        found = {name: self.in_loop_variables(self.lets[name]) for name in known}
        small = {name: value for name, value in found.items() if is_small(value, MAX_VALUE_NODES)}
        return substitute(expr, small, {}) if small else expr

    def loop_variables(self, exprs: Iterable[ir.Expr]) -> frozenset[str]:
        """The variables of loops that expressions depend on, by themselves or by the values with
        which locals were declared."""
        found: set[str] = set()
        waiting = [name for expr in exprs for name in names_in(expr)]
        while waiting:
            name = waiting.pop()
            if name in self.values:
                waiting += names_in(self.values[name])
            elif name in self.dtypes:
                found.add(name)
        return frozenset(found)


# --- expressions ------------------------------------------------------------------------------


def map_operands(
    expr: ir.Expr, change: Callable[[ir.Expr], ir.Expr], bounds: Bounds | None = None
) -> ir.Expr:
    """The expression with its operands changed, folded."""
    old = ir.children(expr)
    new = [change(operand) for operand in old]
    return expr if unchanged(old, new) else rebuild(expr, new, bounds or {})


def substitute(expr: ir.Expr, values: Mapping[str, ir.Expr], bounds: Bounds) -> ir.Expr:
    """The expression with variables replaced, folded; the very same where none occurs.

    >>> from tc.dtypes import BOOL, INT64
    >>> from tc.kernel.printer import expression_text
    >>> load = ir.Load("a", (ir.Binary("+", ir.Var("i", INT64), ir.Var("j", INT64), INT64),), BOOL)
    >>> lanes = ramp(constant(3, INT64), 1, 4)
    >>> expression_text(substitute(load, {"j": lanes}, {}))
    'a[i + 3:i + 7]'
    """
    if isinstance(expr, ir.Var):
        return values.get(expr.name, expr)
    if isinstance(expr, ir.Const):
        return expr
    return map_operands(expr, lambda operand: substitute(operand, values, bounds), bounds)


class Substitution:
    """`substitute` in the expressions of one kernel for many values of the same few variables:
    what was done for the same values (the same objects) is not done again, so results share their
    parts. The bounds of a variable must not change meanwhile."""

    def __init__(self, names: dict[int, tuple[str, ...]] | None = None) -> None:
        self._names = {} if names is None else names
        self._known: dict[tuple[int, ...], tuple[Sequence[ir.Expr], ir.Expr]] = {}

    def afresh(self) -> Substitution:
        """For a place with other bounds."""
        return Substitution(self._names)

    def apply(self, expr: ir.Expr, values: Mapping[str, ir.Expr], bounds: Bounds) -> ir.Expr:
        if isinstance(expr, ir.Var):
            return values.get(expr.name, expr)
        if isinstance(expr, ir.Const):
            return expr
        given = [values[name] for name in self.names(expr) if name in values]
        if not given:
            return expr
        key = (id(expr), *map(id, given))
        known = self._known.get(key)
        if known is None:
            new = [self.apply(operand, values, bounds) for operand in ir.children(expr)]
            known = self._known[key] = given, rebuild(expr, new, bounds)
        return known[1]

    def names(self, expr: ir.Expr) -> tuple[str, ...]:
        """The variables in an expression."""
        if isinstance(expr, ir.Var):
            return (expr.name,)
        if isinstance(expr, ir.Const):
            return ()
        known = self._names.get(id(expr))
        if known is None:
            found = dict.fromkeys(n for child in ir.children(expr) for n in self.names(child))
            known = self._names[id(expr)] = tuple(found)
        return known


def unchanged(old: Sequence[object], new: Sequence[object]) -> bool:
    """Whether all are the same objects."""
    return all(map(is_, old, new))


def rebuild(expr: ir.Expr, operands: Sequence[ir.Expr], bounds: Bounds) -> ir.Expr:
    """The node on other operands (in the order of `children`), folded. Where some of them are
    vectors, so is the result, and the other operands are broadcast."""
    match expr:
        case ir.Load():
            return _load(expr, operands)
        case ir.Select():
            condition, then, otherwise = operands
            lanes = max(o.dtype.lanes for o in operands)
            return select(condition, widened(then, lanes), widened(otherwise, lanes))
        case ir.Broadcast(dtype=dtype):
            return broadcast(operands[0], dtype.lanes)
        case ir.Ramp(step=step, dtype=dtype):
            return ramp(operands[0], step, dtype.lanes)
        case ir.Reduce(op=op, dtype=dtype):
            return ir.Reduce(op, operands[0], dtype)
        case ir.WarpReduce(op=op, lanes=threads, dtype=dtype):
            return ir.WarpReduce(op, operands[0], threads, dtype)
        case ir.Shuffle(lanes=order, dtype=dtype):
            return ir.Shuffle(operands[0], operands[1], order, dtype)
        case ir.Const() | ir.Var():
            return expr
    lanes = max(o.dtype.lanes for o in operands)
    same = [widened(o, lanes) for o in operands]
    match expr:
        case ir.Binary(op=op):
            return binary(op, same[0], same[1], bounds)
        case ir.Unary():
            return negation(same[0])
        case ir.Compare(op=op):
            return compare(op, same[0], same[1], bounds)
        case ir.Logical(op="!"):
            return logical_not(same[0])
        case ir.Logical(op="&&"):
            return logical_and(same[0], same[1])
        case ir.Logical():
            return logical_or(same[0], same[1])
        case ir.Cast(dtype=dtype):
            return cast(same[0], _of_lanes(dtype, lanes))
        case ir.Call(function=function, dtype=dtype):
            return ir.Call(function, tuple(same), _of_lanes(dtype, lanes))
        case ir.Bits(dtype=dtype):
            return ir.Bits(same[0], _of_lanes(dtype, lanes))
        case _:
            raise ir.unknown_node(expr)


def widened(expr: ir.Expr, lanes: int) -> ir.Expr:
    """A vector of that many lanes: the expression, if it is one, else its broadcast."""
    return expr if expr.dtype.lanes == lanes else broadcast(expr, lanes)


def uniform(expr: ir.Expr) -> ir.Expr:
    """The scalar in all lanes of a vector, if its form shows one; else the expression."""
    return expr if expr.dtype.lanes == 1 else splat(expr) or expr


def _of_lanes(dtype: DType, lanes: int) -> DType:
    return dtype if dtype.lanes == lanes else dtype.vector(lanes)


def _load(expr: ir.Load, operands: Sequence[ir.Expr]) -> ir.Expr:
    count = len(expr.indices)
    mask = operands[count] if count < len(operands) else None
    lanes = max((o.dtype.lanes for o in operands), default=1)
    dtype = _of_lanes(expr.dtype, lanes)
    return masked_load(expr.buffer, tuple(operands[:count]), dtype, mask)


def masked_load(
    buffer: str, indices: tuple[ir.Expr, ...], dtype: DType, mask: ir.Expr | None
) -> ir.Expr:
    """A load, with no mask where that is true, and 0 where it is false. A load of one element for
    all lanes is a scalar's.

    >>> from tc.dtypes import BOOL
    >>> masked_load("a", (), BOOL, None)
    Load(buffer='a', indices=(), dtype=DType(name='bool', kind='bool', bits=1), mask=None)
    """
    if mask is None or is_constant(mask, True):
        places = tuple(map(uniform, indices))
        if dtype.lanes == 1 or any(place.dtype.lanes > 1 for place in places):
            return ir.Load(buffer, indices, dtype)
        return broadcast(ir.Load(buffer, places, dtype.scalar), dtype.lanes)
    if is_constant(mask, False) and not dtype.is_storage:
        return constant(0, dtype)
    return ir.Load(buffer, indices, dtype, mask)


class LocalNames:
    """All names of a kernel, and those given since: each new one is unlike all of these, so that
    a variable may stand in any block, with any type.

    >>> names = LocalNames(Kernel("k", (), ()))
    >>> names.fresh("t"), names.fresh("t"), names.fresh("t")
    ('t', 't_1', 't_2')
    """

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {buffer.name for buffer in kernel.buffers}
        self._taken |= {name for s in every_statement(kernel) for name in declared(s)}
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """The name itself, if that is new, or with a number."""
        if name not in self._taken:
            self._taken.add(name)
            return name
        numbers = count(self._next.get(name, 1))
        number = next(n for n in numbers if f"{name}_{n}" not in self._taken)
        self._next[name] = number + 1
        self._taken.add(f"{name}_{number}")
        return f"{name}_{number}"
