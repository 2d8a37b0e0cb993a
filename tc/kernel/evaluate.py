"""The executable definition of the kernel IR: a slow machine that tests every promise.

It runs a kernel on numpy scalars, one node at a time. What a kernel promises and compiled code
takes for granted (indices in bounds, parallel iterations that do not meet, elements written
before they are read, outputs written whole) is checked here, so that a pass which breaks a
promise fails on any machine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.builtins import BUILTINS
from tc.dtypes import BOOL
from tc.errors import InternalError
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    Failure,
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
    unknown_node,
)
from tc.kernel.printer import expression_text, statement_lines

Scalar: TypeAlias = Any
"""A numpy scalar of the type of the node that gave it; numpy's stubs know no better union."""

_BINARY: Mapping[str, Callable[[Scalar, Scalar], Scalar]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
}
_COMPARE: Mapping[str, Callable[[Scalar, Scalar], Scalar]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(kernel: Kernel, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Failure | None:
    """Runs a kernel on arrays by buffer name, writing outputs (and temporaries) in place.

    Temporaries may be left out. Outputs in `kernel.initial` hold values on entry; elements of
    others, and of temporaries, must be written before they are read, and those of outputs before
    the end. Parallel loops run in order, but an element that one iteration writes and another
    touches is a race. Returns the first failed check, in sequential order. Raises InternalError
    where the kernel breaks a promise, or an array is not what its buffer says.

    >>> from tc.dtypes import INT64
    >>> one = Const(1, INT64)
    >>> kernel = Kernel("f", (Buffer("o", INT64, (), (), "output"),), ((Store("o", (), one),),))
    >>> o = np.zeros((), np.int64)
    >>> evaluate(kernel, {"o": o}), int(o)
    (None, 1)
    """
    machine = _Machine(kernel)
    for buffer in kernel.buffers:
        machine.add(buffer, arrays)
    with np.errstate(all="ignore"):
        for region in kernel.regions:
            machine.run(region, {})
    for buffer in kernel.buffers:
        missing = ~machine.written[buffer.name]
        if buffer.role == "output" and missing.any():
            index = tuple(int(axis[0]) for axis in np.nonzero(missing))
            raise machine.broken(f"{buffer.name}{list(index)}", "this element is never written")
    return machine.failure


@dataclass
class _Machine:
    """The state of one run: memory, what of it is written, and who touched it in the parallel
    loop now running: the iteration that wrote, and the first that read."""

    kernel: Kernel
    memory: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    written: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    failure: Failure | None = None
    iteration: int | None = None
    writers: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)
    readers: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    def add(self, buffer: Buffer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        array = arrays.get(buffer.name)
        if array is None and buffer.role == "temporary":
            array = np.zeros(buffer.shape, buffer.dtype.numpy)
        if array is None or array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            found = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise self.broken(f"buffer {buffer.name}", f"the array is {found}")
        self.buffers[buffer.name] = buffer
        self.memory[buffer.name] = array
        given = buffer.role == "input" or buffer.name in self.kernel.initial
        self.written[buffer.name] = np.full(buffer.shape, given)

    def broken(self, node: str, reason: str) -> InternalError:
        return InternalError(f"kernel {self.kernel.name} breaks a promise: in '{node}': {reason}")

    # --- statements -------------------------------------------------------------------------

    def run(self, stmts: tuple[Stmt, ...], outer: Mapping[str, list[Scalar]]) -> None:
        """Runs a block. A variable is a cell, so that inner blocks can set it; a new block has
        a new mapping, so that its own variables end with it."""
        scope = dict(outer)
        for stmt in stmts:
            match stmt:
                case For():
                    self.run_for(stmt, scope)
                case If(condition=condition, then=then, otherwise=otherwise):
                    self.run(then if self.value(condition, scope) else otherwise, scope)
                case Let(var=var, value=value):
                    scope[var] = [self.value(value, scope)]
                case Set(var=var, value=value):
                    scope[var][0] = self.value(value, scope)
                case Store():
                    self.store(stmt, scope)
                case Fail(site=site, values=values):
                    found = tuple(int(self.value(value, scope)) for value in values)
                    self.failure = self.failure or Failure(site, found)
                case Comment():
                    pass
                case _:
                    raise unknown_node(stmt)

    def run_for(self, loop: For, scope: Mapping[str, list[Scalar]]) -> None:
        begin, end = int(self.value(loop.begin, scope)), int(self.value(loop.end, scope))
        if loop.parallel and self.iteration is not None:
            raise self.broken(next(statement_lines(loop)), "a parallel loop inside another")
        for i in range(begin, end):
            if loop.parallel:
                self.iteration = i - begin
            self.run(loop.body, {**scope, loop.var: [np.int64(i)]})
        if loop.parallel:
            self.iteration = None
            self.writers.clear()
            self.readers.clear()

    def store(self, stmt: Store, scope: Mapping[str, list[Scalar]]) -> None:
        node = next(statement_lines(stmt))
        place = self.place(stmt.buffer, stmt.indices, scope, node)
        value = self.value(stmt.value, scope)
        if value.dtype != self.memory[stmt.buffer].dtype:
            raise self.broken(node, f"stores {value.dtype} in {self.memory[stmt.buffer].dtype}")
        if self.buffers[stmt.buffer].role == "input":
            raise self.broken(node, "stores in an input")
        if self.iteration is not None:
            key = (stmt.buffer, place)
            writer = self.writers.setdefault(key, self.iteration)
            reader = self.readers.get(key, self.iteration)
            if not writer == reader == self.iteration:
                text = f"race at {stmt.buffer}{list(place)}: another iteration uses it"
                raise self.broken(node, text)
        self.memory[stmt.buffer][place] = value
        self.written[stmt.buffer][place] = True

    # --- expressions ------------------------------------------------------------------------

    def value(self, expr: Expr, scope: Mapping[str, list[Scalar]]) -> Scalar:
        match expr:
            case Const(value=constant, dtype=dtype):
                return dtype.numpy.type(constant)
            case Var(name=name):
                if name not in scope:
                    raise self.broken(name, "it is not declared here")
                return scope[name][0]
            case Load():
                return self.load(expr, scope)
            case Unary(operand=operand):
                return -self.value(operand, scope)
            case Binary(op=op, left=left, right=right):
                return self.binary(op, self.value(left, scope), self.value(right, scope), expr)
            case Compare(op=op, left=left, right=right):
                return np.bool_(_COMPARE[op](self.value(left, scope), self.value(right, scope)))
            case Logical(op="!", operands=(operand,)):
                return np.logical_not(self.value(operand, scope))
            case Logical(op=op, operands=(left, right)):
                first = self.value(left, scope)
                return self.value(right, scope) if bool(first) == (op == "&&") else first
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition, scope) else otherwise, scope)
            case Call(function=function, args=args, dtype=dtype):
                result = BUILTINS[function].numpy(*(self.value(arg, scope) for arg in args))
                return np.asarray(result).astype(dtype.numpy)[()]
            case Cast(operand=operand, dtype=dtype):
                return self.value(operand, scope).astype(dtype.numpy)
            case Logical():
                raise self.broken(expression_text(expr), "wrong number of operands")
            case _:
                raise unknown_node(expr)

    def binary(self, op: str, left: Scalar, right: Scalar, expr: Binary) -> Scalar:
        if left.dtype != right.dtype or left.dtype != expr.dtype.numpy:
            raise self.broken(expression_text(expr), f"operands {left.dtype} and {right.dtype}")
        if expr.dtype == BOOL and op not in ("min", "max"):
            raise self.broken(expression_text(expr), "arithmetic on bool")
        if op == "/":
            return left // right if expr.dtype.is_integer else left / right
        return _BINARY[op](left, right)

    def load(self, expr: Load, scope: Mapping[str, list[Scalar]]) -> Scalar:
        place = self.place(expr.buffer, expr.indices, scope, expr)
        if not self.written[expr.buffer][place]:
            text = f"reads {expr.buffer}{list(place)} before any write"
            raise self.broken(expression_text(expr), text)
        if self.iteration is not None:
            key = (expr.buffer, place)
            if self.writers.get(key, self.iteration) != self.iteration:
                text = f"race at {expr.buffer}{list(place)}: another iteration writes it"
                raise self.broken(expression_text(expr), text)
            self.readers.setdefault(key, self.iteration)
        return self.memory[expr.buffer][place]

    def place(
        self,
        name: str,
        indices: tuple[Expr, ...],
        scope: Mapping[str, list[Scalar]],
        node: Load | str,
    ) -> tuple[int, ...]:
        place = tuple(int(self.value(index, scope)) for index in indices)
        shape = self.buffers[name].shape
        inside = len(place) == len(shape) and all(
            0 <= i < n for i, n in zip(place, shape, strict=True)
        )
        if not inside:
            text = node if isinstance(node, str) else expression_text(node)
            raise self.broken(text, f"{name}{list(place)} is outside of shape {list(shape)}")
        return place
