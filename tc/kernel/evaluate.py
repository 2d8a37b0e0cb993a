"""The executable definition of the kernel IR: a slow machine that tests every promise.

It runs a kernel on numpy scalars, and on arrays for vectors, one node at a time. What a kernel
promises and compiled code takes for granted (indices in bounds, parallel iterations that do not
meet, elements written before they are read, outputs written whole) is checked here, so that a
pass which breaks a promise fails on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.builtins import BUILTINS
from tc.builtins.operators import BITWISE, COMPARISONS, UFUNCS
from tc.dtypes import BOOL
from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS
from tc.kernel.memory import ElementIndex, Memory, element_text
from tc.kernel.printer import PrintedNode, node_text
from tc.kernel.walk import accumulates

Evaluated: TypeAlias = Any
"""A numpy scalar of the type of the node that gave it, or an array of its lanes; numpy's stubs
know no better union."""

Environment: TypeAlias = "Mapping[str, list[Evaluated]]"

_BINARY: Mapping[str, Callable[[Evaluated, Evaluated], Evaluated]] = {**UFUNCS, **BITWISE}


def evaluate(kernel: ir.Kernel, arrays: Mapping[str, np.ndarray[Any, Any]]) -> ir.Failure | None:
    """Runs a kernel on arrays by buffer name, writing outputs (and temporaries) in place.

    Temporaries may be left out; scratch and registers are. Outputs in `kernel.initial` hold
    values on entry; elements of others, and of temporaries, must be written before they are read,
    and those of outputs before the end. Scratch and registers are unwritten at the start of each
    region and of each iteration of a parallel loop; where a buffer drops what is unwritten, reads
    of that give poison. Parallel loops run in order, but an element
    that one iteration writes and another touches is a race; likewise in loops marked "vector",
    but for the buffer in which they accumulate.

    Returns the first failed check, in sequential order. Raises InternalError where the kernel
    breaks a promise, or an array is not what its buffer says.

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

    def add(self, buffer: ir.Buffer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        is_private = buffer.role in ("scratch", "register")
        array = None if is_private else arrays.get(buffer.name)
        if is_private or (array is None and buffer.role == "temporary"):
            array = np.zeros(buffer.shape, buffer.dtype.numpy)
        if array is None or array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            found = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise self.broken(f"buffer {buffer.name}", f"the array is {found}")
        self.buffers[buffer.name] = buffer
        given = buffer.role == "input" or buffer.name in self.kernel.initial
        self.memory.add(buffer, array, given=given)

    def broken(self, node: PrintedNode, reason: str) -> InternalError:
        text = f"kernel {self.kernel.name} breaks a promise: in '{node_text(node)}': {reason}"
        return InternalError(text)

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
                case ir.Grid() | ir.Barrier():
                    raise self.broken(stmt, "blocks and threads are not run here")
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
        for i in range(begin, end):
            for kind in kinds:
                self.memory.next_iteration(kind)
            self.run(loop.body, {**scope, loop.var: [np.int64(i)]})
        for kind in kinds:
            self.memory.leave(kind)

    def store(self, stmt: ir.Store, scope: Environment) -> None:
        lanes = stmt.value.dtype.lanes
        active, place = self.place(stmt, lanes, scope)
        value = self.value(stmt.value, scope)
        if value.dtype != self.memory.arrays[stmt.buffer].dtype:
            text = f"stores {value.dtype} in {self.memory.arrays[stmt.buffer].dtype}"
            raise self.broken(stmt, text)
        if self.buffers[stmt.buffer].role == "input":
            raise self.broken(stmt, "stores in an input")
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
            case ir.Const(value=constant, dtype=dtype):
                number = dtype.numpy.type(constant)
                return number if dtype.lanes == 1 else np.full(dtype.lanes, number)
            case ir.Var(name=name):
                if name not in scope:
                    raise self.broken(name, "it is not declared here")
                return scope[name][0]
            case ir.Load():
                return self.load(expr, scope)
            case ir.Unary(operand=operand):
                return -self.value(operand, scope)
            case ir.Binary(op=op, left=left, right=right):
                return self.binary(op, self.value(left, scope), self.value(right, scope), expr)
            case ir.Compare(op=op, left=left, right=right):
                result = COMPARISONS[op](self.value(left, scope), self.value(right, scope))
                return result if expr.dtype.lanes > 1 else np.bool_(result)
            case ir.Logical() | ir.Select():
                return self.choice(expr, scope)
            case ir.Call(function=function, args=args, dtype=dtype):
                known = EXPONENT_FUNCTIONS if function in EXPONENT_FUNCTIONS else BUILTINS
                result = known[function].numpy(*(self.value(arg, scope) for arg in args))
                return np.asarray(result).astype(dtype.numpy)[()]
            case ir.Cast(operand=operand, dtype=dtype):
                return self.value(operand, scope).astype(dtype.numpy)
            case ir.Bits(operand=operand, dtype=dtype):
                return self.value(operand, scope).view(dtype.numpy)
            case ir.Broadcast(operand=operand, dtype=dtype):
                return np.full(dtype.lanes, self.value(operand, scope))
            case ir.Ramp(base=base, step=step, dtype=dtype):
                return self.value(base, scope) + np.int64(step) * np.arange(dtype.lanes)
            case ir.Reduce(op=op, operand=operand, dtype=dtype):
                return UFUNCS[op].reduce(self.value(operand, scope), dtype=dtype.numpy)
            case ir.Shuffle(left=left, right=right, lanes=lanes):
                both = np.concatenate([self.value(left, scope), self.value(right, scope)])
                return both[list(lanes)]
            case _:
                raise ir.unknown_node(expr)

    def choice(self, expr: ir.Logical | ir.Select, scope: Environment) -> Evaluated:
        """What is lazy, but not in vectors."""
        is_vector = expr.dtype.lanes > 1
        match expr:
            case ir.Logical(op="!", operands=(operand,)):
                return np.logical_not(self.value(operand, scope))
            case ir.Logical(op=op, operands=(left, right)) if is_vector:
                both = self.value(left, scope), self.value(right, scope)
                return np.logical_and(*both) if op == "&&" else np.logical_or(*both)
            case ir.Logical(op=op, operands=(left, right)):
                first = self.value(left, scope)
                return self.value(right, scope) if bool(first) == (op == "&&") else first
            case ir.Select(condition=condition, then=then, otherwise=otherwise) if is_vector:
                values = [self.value(operand, scope) for operand in (condition, then, otherwise)]
                return np.where(*values)
            case ir.Select(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition, scope) else otherwise, scope)
            case ir.Logical():
                raise self.broken(expr, "wrong number of operands")
            case _:
                raise ir.unknown_node(expr)

    def binary(self, op: str, left: Evaluated, right: Evaluated, expr: ir.Binary) -> Evaluated:
        if left.dtype != right.dtype or left.dtype != expr.dtype.numpy:
            raise self.broken(expr, f"operands {left.dtype} and {right.dtype}")
        if left.shape != right.shape:
            text = f"operands of {left.size} and {right.size} lanes"
            raise self.broken(expr, text)
        if expr.dtype.scalar == BOOL and op not in ("min", "max"):
            raise self.broken(expr, "arithmetic on bool")
        if op in ("<<", ">>") and not ((right >= 0) & (right < expr.dtype.bits)).all():
            raise self.broken(expr, "shifts by too many bits")
        if op == "/":
            return left // right if expr.dtype.is_integer else left / right
        return _BINARY[op](left, right)

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
            every = np.full(lanes, True)
            active = every if access.mask is None else self.value(access.mask, scope)
            place = tuple(np.broadcast_to(axis, lanes)[active] for axis in place)
        outside: Evaluated = len(place) != len(shape)
        for axis, extent in zip(place, shape, strict=False):
            outside = outside | (axis < 0) | (axis >= extent)
        if outside is not False and np.any(outside):
            text = element_text(name, place, outside)
            raise self.broken(access, f"{text} is outside of shape {list(shape)}")
        return active, place


def _accumulated(loop: ir.For) -> frozenset[str]:
    """The buffer that the iterations of a vector loop may share."""
    match loop.body:
        case (ir.Store(buffer=name),) if accumulates(loop):
            return frozenset((name,))
    return frozenset()
