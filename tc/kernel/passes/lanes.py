"""Expressions of one iteration as expressions of all lanes: the inner part of `vectorize`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.affine.intervals import Interval
from tc.dtypes import BOOL, INT64, DType
from tc.kernel import ir, rebuild
from tc.kernel.folding import (
    cast,
    compare,
    constant,
    integer,
    is_constant,
    logical_and,
    logical_not,
    ramp,
    select,
)
from tc.kernel.intervals import Bounds, interval, is_in_bounds, loop_interval
from tc.kernel.rebuild import LocalNames
from tc.kernel.walk import assigned, is_steady

Supports: TypeAlias = "Callable[[ir.Call], bool]"
"""Whether a function has a form for vectors; the call is one on vectors."""

_MAX_REPEATED = 12
"""Conditions of more nodes get a local before they become masks."""


class NotVectorizable(Exception):
    """The loop cannot become vectors."""


@dataclass(frozen=True)
class VectorContext:
    """What holds for the whole kernel; `assigned` are the locals that a Set changes."""

    supports: Supports
    names: LocalNames
    buffers: Mapping[str, ir.Buffer]
    assigned: frozenset[str]

    @classmethod
    def of(cls, kernel: ir.Kernel, supports: Supports = lambda _: True) -> VectorContext:
        buffers = {buffer.name: buffer for buffer in kernel.buffers}
        return cls(supports, LocalNames(kernel), buffers, assigned(kernel))


@dataclass(frozen=True, slots=True)
class ActiveLanes:
    """Which lanes take part: those of `mask` (None: all) if the scalar `guard` (None: true)
    holds. `full` is both, and the mask of the tail, in one. `first`: the first lane is certainly
    in the mask, so what all lanes have in common is done by some iteration."""

    mask: ir.Expr | None
    guard: ir.Expr | None
    full: ir.Expr | None
    first: bool = True


class Lanes:
    """The lanes of one loop.

    `values` gives what loop variable and locals have become. `bounds` knows the new names, and
    `firsts` the old ones, with the values that they have in the first lane. Statements that must
    run before an expression are added to the list `out` that comes with it.
    """

    def __init__(
        self,
        context: VectorContext,
        var: str,
        begin: int,
        extent: int,
        bounds: Bounds,
        count: int | None = None,
    ) -> None:
        self.context = context
        self.count = power_of_two(extent) if count is None else count
        self.values: dict[str, ir.Expr] = {var: ramp(integer(begin), 1, self.count)}
        self.bounds: dict[str, Interval] = dict(bounds)
        self.firsts: dict[str, Interval] = {**bounds, var: (begin, begin)}
        self.assigned = set(context.assigned)
        self.declared: dict[str, ir.Expr] = {}
        self.tail: ir.Expr | None = None
        if extent < self.count:
            last = constant(extent, INT64.vector(self.count))
            self.tail = compare("<", ramp(integer(0), 1, self.count), last, {})

    def declare(self, var: str, old: ir.Expr, new: ir.Expr) -> ir.Let:
        """The declaration of a local whose first value was `old` and is now `new`."""
        is_vector = new.dtype.lanes > 1
        name = self.context.names.fresh(f"{var}x{self.count}" if is_vector else var)
        self.values[var] = ir.Var(name, new.dtype)
        if var in self.context.assigned:
            self.assigned.add(name)
        elif new.dtype.is_integer:
            if is_steady(new, self.assigned.__contains__):
                self.declared[name] = new
            self.bounds[name] = interval(new, self.bounds)
            self.firsts[var] = interval(old, self.firsts)
        return ir.Let(name, new)

    def declare_loop(
        self, var: str, old: tuple[ir.Expr, ir.Expr], new: tuple[ir.Expr, ir.Expr]
    ) -> None:
        """A loop, with its bounds, that stays one."""
        self.values.pop(var, None)
        self.firsts[var] = loop_interval(*old, self.firsts)
        self.bounds[var] = loop_interval(*new, self.bounds)

    def first(self, value: ir.Expr) -> ir.Expr:
        """The first lane of a value of a Fail: where all iterations fail, the first is recorded."""
        match value:
            case ir.Ramp(base=first) | ir.Broadcast(operand=first):
                return first
            case ir.Var(name=name) if value.dtype.lanes > 1 and name in self.declared:
                return self.first(self.declared[name])
            case _ if value.dtype.lanes > 1:
                raise NotVectorizable
            case _:
                return value

    def varies(self, expr: ir.Expr) -> bool:
        """Whether it may have different values in the lanes."""
        if isinstance(expr, ir.Var):
            value = self.values.get(expr.name)
            return value is not None and value.dtype.lanes > 1
        return any(map(self.varies, ir.children(expr)))

    def expr(self, expr: ir.Expr, active: ActiveLanes, out: list[ir.Stmt]) -> ir.Expr:
        """The expression of all lanes: a scalar where it is the same in all, else a vector."""
        if expr.dtype.lanes > 1:
            raise NotVectorizable
        match expr:
            case ir.Const():
                return expr
            case ir.Var(name=name):
                return self.values.get(name, expr)
            case ir.Load():
                return self.load(expr, active, out)
            case ir.Cast(operand=ir.Load(dtype=dtype) as stored, dtype=wide) if dtype.is_storage:
                return self.load(stored, active, out, cast_to=wide)
            case ir.Logical(op="&&" | "||" as op, operands=(left, right)) if self.varies(expr):
                first = self.expr(left, active, out)
                if reads(right):
                    first = self.bound(first, out)
                    active = self.narrowed(active, left, first, op == "&&")
                new = [first, self.expr(right, active, out)]
            case ir.Select(condition=condition, then=then, otherwise=otherwise) if self.varies(
                expr
            ):
                return self.select(condition, then, otherwise, active, out)
            case _:
                new = [self.expr(operand, active, out) for operand in ir.children(expr)]
        if rebuild.unchanged(ir.children(expr), new):
            return expr
        result = rebuild.rebuild(expr, new, self.bounds)
        if (
            isinstance(result, ir.Call)
            and result.dtype.lanes > 1
            and not self.context.supports(result)
        ):
            raise NotVectorizable
        return result

    def select(
        self,
        condition: ir.Expr,
        then: ir.Expr,
        otherwise: ir.Expr,
        active: ActiveLanes,
        out: list[ir.Stmt],
    ) -> ir.Expr:
        test = self.expr(condition, active, out)
        if reads(then) or reads(otherwise):
            test = self.bound(test, out)
        branches = []
        for operand, other, is_then in ((then, otherwise, True), (otherwise, then, False)):
            inside = self.narrowed(active, condition, test, is_then) if reads(operand) else active
            branch = self.expr(operand, inside, out)
            if is_zero(other) and _is_masked_by(branch, inside.full):
                return branch
            branches.append(branch)
        lanes = max(part.dtype.lanes for part in (test, *branches))
        return select(test, *(rebuild.widened(branch, lanes) for branch in branches))

    def load(
        self, expr: ir.Load, active: ActiveLanes, out: list[ir.Stmt], cast_to: DType | None = None
    ) -> ir.Expr:
        """A load, or the cast of one: loads of types of storage have no constant 0."""
        new = (self.expr(index, active, out) for index in expr.indices)
        indices = tuple(map(rebuild.uniform, new))
        lanes = max((index.dtype.lanes for index in indices), default=1)
        dtype = expr.dtype.vector(lanes)
        if lanes > 1:
            mask = active.full
            found = rebuild.masked_load(expr.buffer, indices, dtype, mask)
            return found if cast_to is None else cast(found, cast_to.vector(lanes))
        load: ir.Expr = (
            expr
            if rebuild.unchanged(expr.indices, indices)
            else ir.Load(expr.buffer, indices, dtype)
        )
        if cast_to is not None:
            load = ir.Cast(load, cast_to)
        certain = self.certain(active)
        if certain is None or self.is_safe(expr.buffer, indices):
            return load
        return select(certain, load, constant(0, load.dtype))

    def certain(self, active: ActiveLanes) -> ir.Expr | None:
        """The scalar condition that some lane takes part; None where that is certain."""
        if active.mask is None or active.first:
            return active.guard
        assert active.full is not None
        return ir.Reduce("max", active.full, BOOL)

    def is_safe(self, buffer: str, indices: tuple[ir.Expr, ...]) -> bool:
        """Whether an element may be read even if no iteration reads it."""
        array = self.context.buffers[buffer]
        return array.role == "input" and is_in_bounds(indices, array.shape, self.bounds)

    # --- masks ------------------------------------------------------------------------------

    def narrowed(
        self, active: ActiveLanes, condition: ir.Expr, test: ir.Expr, is_then: bool
    ) -> ActiveLanes:
        """The lanes left where `test`, made of `condition`, holds (or does not)."""
        test = test if is_then else logical_not(test)
        if is_constant(test, True):
            return active
        full = both(active.full, rebuild.widened(test, self.count)) if self.count > 1 else None
        if test.dtype.lanes == 1:
            return replace(active, guard=both(active.guard, test), full=full)
        first = active.first and decided(condition, self.firsts) is is_then
        return ActiveLanes(both(active.mask, test), active.guard, full, first)

    def bound(self, test: ir.Expr, out: list[ir.Stmt]) -> ir.Expr:
        """A condition that may stand several times, also after memory has changed."""
        for count, node in enumerate(ir.walk(test)):
            is_settable = isinstance(node, ir.Var) and node.name in self.assigned
            if count >= _MAX_REPEATED or is_settable or isinstance(node, ir.Load | ir.Call):
                name = self.context.names.fresh(f"m{test.dtype.lanes}")
                out.append(ir.Let(name, test))
                return ir.Var(name, test.dtype)
        return test


def both(one: ir.Expr | None, other: ir.Expr | None) -> ir.Expr | None:
    """Two conditions in one; None is one that holds."""
    if one is None or one == other:
        return other
    return one if other is None else logical_and(one, other)


def _is_masked_by(expr: ir.Expr, mask: ir.Expr | None) -> bool:
    """Whether it is 0 in the lanes where the mask (None: none) is false."""
    match expr:
        case ir.Load(mask=own):
            while own is not mask and isinstance(own, ir.Logical) and own.op == "&&":
                own = own.operands[0]
            return own is not None and own is mask
        case ir.Cast(operand=ir.Load() as load):
            return _is_masked_by(load, mask)
        case _:
            return False


def is_zero(expr: ir.Expr) -> bool:
    """Whether it is the constant of all bits zero.

    >>> from tc.dtypes import FLOAT32
    >>> is_zero(ir.Const(0.0, FLOAT32)), is_zero(ir.Const(-0.0, FLOAT32))
    (True, False)
    """
    return isinstance(expr, ir.Const) and expr.value == 0 and math.copysign(1, expr.value) > 0


def reads(expr: ir.Expr) -> bool:
    """Whether it reads memory."""
    return any(isinstance(node, ir.Load) for node in ir.walk(expr))


def decided(condition: ir.Expr, bounds: Bounds) -> bool | None:
    """What a scalar condition is for all values within the bounds, None if that is not known.

    >>> decided(ir.Compare("<", ir.Var("i", INT64), ir.Const(4, INT64)), {"i": (0, 3)})
    True
    """
    match condition:
        case ir.Const(value=value):
            return bool(value)
        case ir.Compare(op=op, left=left, right=right) if left.dtype.is_integer:
            folded = compare(op, left, right, bounds)
            return bool(folded.value) if isinstance(folded, ir.Const) else None
        case ir.Logical(op="!", operands=(operand,)):
            known = decided(operand, bounds)
            return None if known is None else not known
        case ir.Logical(op=op, operands=operands):
            found = [decided(operand, bounds) for operand in operands]
            absorbing = op == "||"
            if absorbing in found:
                return absorbing
            return None if None in found else not absorbing
        case _:
            return None


def power_of_two(extent: int) -> int:
    """The least that is not less than a positive number.

    >>> power_of_two(1), power_of_two(13)
    (1, 16)
    """
    return 1 << (extent - 1).bit_length()


def interleaved_lanes(
    size: int, section: int, group: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups of lanes of two vectors in turn: the first halves of all sections, and the second.

    >>> interleaved_lanes(8, 4, 1)
    ((0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15))
    """
    halves = []
    for half in range(2):
        lanes: list[int] = []
        for start in range(0, size, section):
            begin = start + half * section // 2
            for g in range(begin, begin + section // 2, group):
                lanes += [*range(g, g + group), *range(size + g, size + g + group)]
        halves.append(tuple(lanes))
    return halves[0], halves[1]
