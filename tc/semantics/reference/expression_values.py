"""The walk over an expression: its values over one block, whatever they are made of.

`active` is the mask of the instances that evaluate the expression: `?:`, `&&` and `||` evaluate
an operand only where it counts (Y6). All operands are computed over the whole block, but what
an inactive instance computes is never used, and cannot fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

import numpy as np

from tc.dtypes import DType
from tc.errors import AccessError, InternalError
from tc.semantics.faults import division_error, read_error
from tc.semantics.program import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Extent,
    Index,
    Literal,
    Logical,
    Read,
    Select,
    ShapedProgram,
    Size,
    Statement,
    Unary,
)
from tc.semantics.reference.arithmetic import Arithmetic
from tc.semantics.reference.element_views import Array, gather_pick, linear, strided_pick
from tc.semantics.reference.instance_blocks import Block

V = TypeVar("V")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Fault:
    """The first instance of a block, as a position in it, at which a read or division fails;
    for a read, `subscripts` is the place."""

    position: tuple[int, ...]
    expr: Read | Binary
    subscripts: tuple[int, ...]


@dataclass(frozen=True)
class Frame(Generic[V, A]):
    """What evaluating over one block needs. Faults are collected, since a later subexpression
    may fail at an earlier instance."""

    shaped: ShapedProgram
    statement: Statement
    arithmetic: Arithmetic[V, A]
    tensors: Mapping[str, V]
    block: Block
    faults: list[Fault] = field(default_factory=list)

    def constant(self, value: int | float | bool, dtype: DType) -> V:
        ones = (1,) * len(self.block.shape)
        return self.arithmetic.exact(np.full(ones, value, dtype.numpy))


def evaluate_block(frame: Frame[V, A]) -> V:
    """The right-hand side of a statement over a block, axes in the order of its variables.

    Raises the AccessError of the block's first failing instance (G7, Y4).
    """
    value = evaluate(frame.statement.rhs, frame, None)
    if frame.faults:
        raise _error(frame, min(frame.faults, key=lambda fault: fault.position))
    return value


def evaluate(expr: Expr, frame: Frame[V, A], active: Array | None) -> V:
    """An expression over a block; where `active` (None: everywhere), failures are recorded."""
    arithmetic = frame.arithmetic
    match expr:
        case Literal(value=value, dtype=dtype):
            return frame.constant(value, dtype)
        case Size(name=name, dtype=dtype):
            return frame.constant(frame.shaped.sizes[name], dtype)
        case Extent(tensor=tensor, axis=axis, dtype=dtype):
            return frame.constant(frame.shaped.shapes[tensor][axis], dtype)
        case Index():
            return arithmetic.exact(_index_values(expr, frame.block))
        case Read():
            return _read(expr, frame, active)
        case Unary(operand=operand, dtype=dtype):
            return arithmetic.negate(evaluate(operand, frame, active), dtype)
        case Binary(op=op, left=left, right=right, dtype=dtype):
            dividend = evaluate(left, frame, active)
            divisor = evaluate(right, frame, active)
            if op in ("/", "%") and not dtype.is_float:
                _record(expr, frame, arithmetic.array(divisor) == 0, active, ())
            return arithmetic.binary(op, dividend, divisor, dtype)
        case Compare(op=op, left=left, right=right):
            return arithmetic.compare(
                op, evaluate(left, frame, active), evaluate(right, frame, active)
            )
        case Logical(op=op, operands=operands):
            return _logical(op, operands, frame, active)
        case Select(condition=condition, then=then, otherwise=otherwise):
            test = evaluate(condition, frame, active)
            holds = arithmetic.array(test)
            return arithmetic.select(
                test,
                evaluate(then, frame, _both(active, holds)),
                evaluate(otherwise, frame, _both(active, ~holds)),
            )
        case Call(function=function, args=args, dtype=dtype):
            values = [evaluate(arg, frame, active) for arg in args]
            return arithmetic.call(function, values, dtype)
        case Convert(operand=operand, dtype=dtype):
            return arithmetic.convert(evaluate(operand, frame, active), operand.dtype, dtype)
        case _:
            _unknown(expr)


def _index_values(index: Index, block: Block) -> Array:
    axis = block.axis(index.name)
    begin, extent = block.begins[axis], block.shape[axis]
    shape = [1] * len(block.shape)
    shape[axis] = extent
    return np.arange(begin, begin + extent).astype(index.dtype.numpy).reshape(shape)


def _read(read: Read, frame: Frame[V, A], active: Array | None) -> V:
    """A view where the subscripts are affine and stay in the tensor over the whole block;
    otherwise a gather, each place checked (G7) and the inactive ones moved into the tensor."""
    tensor, shape = frame.tensors[read.tensor], frame.shaped.shapes[read.tensor]
    forms = [linear(subscript, frame.shaped) for subscript in read.subscripts]
    affine = [form for form in forms if form is not None]
    if len(affine) == len(forms):
        pick = strided_pick(affine, shape, frame.block)
        if pick is not None:
            return frame.arithmetic.read(tensor, pick, (), None)
    values = [evaluate(subscript, frame, active) for subscript in read.subscripts]
    places = [frame.arithmetic.array(value) for value in values]
    outside = _outside(places, shape)
    if outside is not None:
        _record(read, frame, outside, active, places)
        places = [np.clip(p, 0, max(n, 1) - 1) for p, n in zip(places, shape, strict=True)]
    return frame.arithmetic.read(tensor, gather_pick(places, shape), values, outside)


def _outside(places: Sequence[Array], shape: Sequence[int]) -> Array | None:
    """Which places lie outside a tensor of this shape; None where none does."""
    outside: Array | None = None
    for place, extent in zip(places, shape, strict=True):
        if place.size and (place.min() < 0 or place.max() >= extent):
            here = (place < 0) | (place >= extent)
            outside = here if outside is None else outside | here
    return outside


def _logical(op: str, operands: tuple[Expr, ...], frame: Frame[V, A], active: Array | None) -> V:
    first = evaluate(operands[0], frame, active)
    if op == "!":
        return frame.arithmetic.logical(op, (first,))
    decides = frame.arithmetic.array(first)
    guard = decides if op == "&&" else ~decides
    second = evaluate(operands[1], frame, _both(active, guard))
    return frame.arithmetic.logical(op, (first, second))


def _both(active: Array | None, guard: Array) -> Array:
    return guard if active is None else active & guard


def _record(
    expr: Read | Binary,
    frame: Frame[V, A],
    failing: Array,
    active: Array | None,
    places: Sequence[Array],
) -> None:
    """Notes the first active instance of the block at which a read or division fails."""
    failing = _both(active, failing)
    if not failing.any():
        return
    block = frame.block.shape
    # along an axis that the failure does not depend on, its first instance is the first of all
    position = np.unravel_index(int(failing.argmax()), failing.shape)
    spread = (np.broadcast_to(place, block) for place in places)
    subscripts = tuple(int(place[position]) for place in spread)
    frame.faults.append(Fault(tuple(int(p) for p in position), expr, subscripts))


def _error(frame: Frame[V, A], fault: Fault) -> AccessError:
    indices = frame.block.point(fault.position)
    match fault.expr:
        case Read(tensor=tensor):
            shape = frame.shaped.shapes[tensor]
            return read_error(frame.statement, fault.expr, indices, fault.subscripts, shape)
        case Binary():
            return division_error(frame.statement, fault.expr, indices)


def _unknown(expr: NoReturn) -> NoReturn:
    raise InternalError(f"the interpreter knows no node {type(expr).__name__}")
