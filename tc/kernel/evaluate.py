"""The executable definition of the kernel IR: a slow machine that tests every promise.

It runs a kernel on numpy scalars, and on arrays for vectors, one node at a time. What a kernel
promises and compiled code takes for granted (indices in bounds, parallel iterations that do not
meet, elements written before they are read, outputs written whole) is checked here, so that a
pass which breaks a promise fails on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.grids import run_grid
from tc.kernel.memory import ElementIndex, Memory, any_of, element_text
from tc.kernel.operations import (
    Environment,
    Evaluated,
    broken_promise,
    operands_fault,
    operation,
    store_fault,
)
from tc.kernel.printer import PrintedNode
from tc.kernel.walk import accumulates, checks_ranges


def evaluate(kernel: ir.Kernel, arrays: Mapping[str, np.ndarray[Any, Any]]) -> ir.Failure | None:
    """Runs a kernel on arrays by buffer name, writing outputs (and temporaries) in place.

    Temporaries may be left out; private buffers are. Outputs in `kernel.initial` hold values on
    entry; elements of others, and of temporaries, must be written before they are read, and those
    of outputs before the end. Scratch and registers are unwritten at the start of each region and
    of each iteration of a parallel loop; where a buffer drops what is unwritten, reads of that give
    poison. Parallel loops run in order, but an element that one iteration writes and another
    touches is a race; likewise in loops marked "vector", but for the buffer in which they
    accumulate. The blocks and threads of a Grid run as `tc.kernel.grids` says.

    Returns the first failed check, in sequential order; of a launch, that of the first block and
    thread in their order. Raises InternalError where the kernel breaks a promise, or an array is
    not what its buffer says.

    >>> from tc.dtypes import INT64
    >>> one = ir.Const(1, INT64)
    >>> output = ir.Buffer("o", INT64, (), (), "output")
    >>> kernel = ir.Kernel("f", (output,), ((ir.Store("o", (), one),),))
    >>> o = np.zeros((), np.int64)
    >>> evaluate(kernel, {"o": o}), int(o)
    (None, 1)
    """
    machine = _Machine(kernel)
    for buffer in kernel.buffers:
        machine.add(buffer, arrays)
    with np.errstate(all="ignore"):
        for region in kernel.regions:
            machine.memory.forget_private()
            machine.run(region, {})
            is_launched = any(isinstance(stmt, ir.Grid) for stmt in region)
            if machine.failure is not None and checks_ranges(region, kernel) and not is_launched:
                return machine.failure
    for buffer in kernel.buffers:
        missing = ~machine.memory.written[buffer.name]
        if buffer.role == "output" and missing.any():
            index = tuple(int(axis[0]) for axis in np.nonzero(missing))
            raise machine.broken(f"{buffer.name}{list(index)}", "this element is never written")
    return machine.failure


@dataclass
class _Machine:
    """The state of one run."""

    kernel: ir.Kernel
    memory: Memory = field(default_factory=Memory)
    buffers: dict[str, ir.Buffer] = field(default_factory=dict)
    failure: ir.Failure | None = None
    constants: dict[int, Evaluated] = field(default_factory=dict)  # by the ids of nodes

    def add(self, buffer: ir.Buffer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        is_private = buffer.role in ir.PRIVATE
        array = None if is_private else arrays.get(buffer.name)
        if is_private or (array is None and buffer.role == "temporary"):
            array = np.zeros(buffer.shape, buffer.dtype.numpy)
        if array is None or array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            found = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise self.broken(f"buffer {buffer.name}", f"the array is {found}")
        self.buffers[buffer.name] = buffer
        given = buffer.role in ("input", "sizes") or buffer.name in self.kernel.initial
        self.memory.add(buffer, array, given=given)

    def broken(self, node: PrintedNode, reason: str) -> InternalError:
        return broken_promise(self.kernel, node, reason)

    # --- statements -------------------------------------------------------------------------

    def run(self, stmts: tuple[ir.Stmt, ...], outer: Environment) -> None:
        """Runs a block. A variable is a cell, so that inner blocks can set it; a new block has
        a new mapping, so that its own variables end with it."""
        scope = dict(outer)
        for stmt in stmts:
            match stmt:
                case ir.For():
                    self.run_for(stmt, scope)
                case ir.If(condition=condition, then=then, otherwise=otherwise):
                    self.run(then if self.value(condition, scope) else otherwise, scope)
                case ir.Let(var=var, value=value):
                    scope[var] = [self.value(value, scope)]
                case ir.Set(var=var, value=value):
                    scope[var][0] = self.value(value, scope)
                case ir.Store():
                    self.store(stmt, scope)
                case ir.Prefetch(indices=indices):
                    for index in indices:
                        self.value(index, scope)
                case ir.Fail(site=site, values=values):
                    found = tuple(int(self.value(value, scope)) for value in values)
                    self.failure = self.failure or ir.Failure(site, found)
                case ir.Comment():
                    pass
                case ir.Grid():
                    failure = run_grid(stmt, self.kernel, self.memory)
                    self.failure = self.failure or failure
                case _ if isinstance(stmt, ir.OfGrid):
                    raise self.broken(stmt, "it is in no grid")
                case _:
                    raise ir.unknown_node(stmt)

    def run_for(self, loop: ir.For, scope: Environment) -> None:
        begin, end = int(self.value(loop.begin, scope)), int(self.value(loop.end, scope))
        checked = (("parallel", loop.parallel), ("vector", loop.mark == "vector"))
        kinds = [kind for kind, is_of_it in checked if is_of_it]
        for kind in kinds:
            if kind in self.memory.running:
                raise self.broken(loop, f"a {kind} loop inside another")
            self.memory.enter(kind, _accumulated(loop) if kind == "vector" else frozenset())
        inner = dict(scope)
        for i in range(begin, end):
            for kind in kinds:
                self.memory.next_iteration(kind)
            inner[loop.var] = [np.int64(i)]
            self.run(loop.body, inner)
        for kind in kinds:
            self.memory.leave(kind)

    def store(self, stmt: ir.Store, scope: Environment) -> None:
        lanes = stmt.value.dtype.lanes
        active, place = self.place(stmt, lanes, scope)
        value = self.value(stmt.value, scope)
        fault = store_fault(value, self.buffers[stmt.buffer])
        if fault is not None:
            raise self.broken(stmt, fault)
        if lanes > 1:
            value = value[active]
            if len(set(zip(*(axis.tolist() for axis in place), strict=True))) < len(value):
                raise self.broken(stmt, "two lanes write one element")
        reason = self.memory.write(stmt.buffer, place, value)
        if reason:
            raise self.broken(stmt, reason)

    # --- expressions ------------------------------------------------------------------------

    def value(self, expr: ir.Expr, scope: Environment) -> Evaluated:
        match expr:
            case ir.Var(name=name):
                if name not in scope:
                    raise self.broken(name, "it is not declared here")
                return scope[name][0]
            case ir.Load():
                return self.load(expr, scope)
            case ir.Const():
                found = self.constants.get(id(expr))
                if found is None:
                    self.constants[id(expr)] = found = operation(expr, ())
                return found
            case ir.Binary(left=left, right=right):
                return self.binary(expr, self.value(left, scope), self.value(right, scope))
            case ir.Select() | ir.Logical(op="&&" | "||") if expr.dtype.lanes == 1:
                return self.choice(expr, scope)
        return operation(expr, [self.value(operand, scope) for operand in ir.children(expr)])

    def choice(self, expr: ir.Logical | ir.Select, scope: Environment) -> Evaluated:
        """The value of a lazy node, which evaluates one operand first; a vector is never lazy."""
        match expr:
            case ir.Logical(op=op, operands=(left, right)):
                first = self.value(left, scope)
                return self.value(right, scope) if bool(first) == (op == "&&") else first
            case ir.Select(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition, scope) else otherwise, scope)
            case ir.Logical():
                raise self.broken(expr, "wrong number of operands")
            case _:
                raise ir.unknown_node(expr)

    def binary(self, expr: ir.Binary, left: Evaluated, right: Evaluated) -> Evaluated:
        if left.shape != right.shape:
            raise self.broken(expr, f"operands of {left.size} and {right.size} lanes")
        fault = operands_fault(expr, left, right)
        if fault is not None:
            raise self.broken(expr, fault)
        return operation(expr, (left, right))

    def load(self, expr: ir.Load, scope: Environment) -> Evaluated:
        active, place = self.place(expr, expr.dtype.lanes, scope)
        reason = self.memory.read(expr.buffer, place)
        if reason:
            raise self.broken(expr, reason)
        found = self.memory.arrays[expr.buffer][place]
        if expr.dtype.lanes == 1:
            return found
        lanes = np.zeros(expr.dtype.lanes, found.dtype)
        lanes[active] = found
        return lanes

    def place(
        self, access: ir.Load | ir.Store, lanes: int, scope: Environment
    ) -> tuple[Evaluated, ElementIndex]:
        """Which lanes take part, and the elements of these."""
        name, shape = access.buffer, self.buffers[access.buffer].shape
        place = tuple(self.value(index, scope) for index in access.indices)
        active: Evaluated
        if lanes == 1:
            active, place = True, tuple(map(int, place))
        else:
            active = slice(None) if access.mask is None else self.value(access.mask, scope)
            place = tuple(
                (axis if axis.shape == (lanes,) else np.broadcast_to(axis, lanes))[active]
                for axis in place
            )
        outside: Evaluated = np.bool_(len(place) != len(shape))
        for axis, extent in zip(place, shape, strict=False):
            if lanes == 1:
                outside = outside or not 0 <= axis < extent
            else:
                outside = outside | (axis < 0) | (axis >= extent)
        if any_of(np.asarray(outside)):
            text = element_text(name, place, outside)
            raise self.broken(access, f"{text} is outside of shape {list(shape)}")
        return active, place


def _accumulated(loop: ir.For) -> frozenset[str]:
    """The buffer that the iterations of a vector loop may share."""
    match loop.body:
        case (ir.Store(buffer=name),) if accumulates(loop):
            return frozenset((name,))
    return frozenset()
