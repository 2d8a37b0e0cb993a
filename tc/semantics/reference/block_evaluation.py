"""The walk over an expression: its values over one block of instances, whatever they are made of.

`active` is the mask of the instances that evaluate the expression: `?:`, `&&` and `||` evaluate
an operand only where it counts (Y6). All operands are computed over the whole block, but what
an inactive instance computes is never used, and cannot fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

import numpy as np

from tc.dtypes import Array, DType
from tc.errors import AccessError, InternalError
from tc.semantics import program as p
from tc.semantics.faults import division_error, read_error, write_error
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.arithmetic import Arithmetic
from tc.semantics.reference.instance_blocks import Block, gather_pick, strided_form

V = TypeVar("V")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class FailedInstance:
    """The first instance of a block, as a position in it, at which a read or division fails;
    for a read, `subscripts` is the place. Where the place that is written fails, `expr` is the name
    of the target."""

    position: tuple[int, ...]
    expr: p.Read | p.Binary | str
    subscripts: tuple[int, ...]


@dataclass(frozen=True)
class BlockEvaluation(Generic[V, A]):
    """What evaluating over one block needs. Faults are collected, since a later subexpression
    may fail at an earlier instance."""

    shaped: p.ShapedProgram
    statement: p.Statement
    arithmetic: Arithmetic[V, A]
    tensors: Mapping[str, V]
    block: Block
    faults: list[FailedInstance] = field(default_factory=list)

    def constant(self, value: int | float | bool, dtype: DType) -> V:
        ones = (1,) * len(self.block.shape)
        return self.arithmetic.exact(np.full(ones, value, dtype.numpy))


def evaluate_block(evaluation: BlockEvaluation[V, A]) -> V:
    """The right-hand side of a statement over a block, axes in the order of its variables.

    Raises the AccessError of the block's first failing instance (G7, Y4).
    """
    value = evaluate(evaluation.statement.rhs, evaluation, None)
    raise_faults(evaluation)
    return value


def raise_faults(evaluation: BlockEvaluation[V, A]) -> None:
    """Raises the AccessError of the block's first failing instance, if one fails."""
    if evaluation.faults:
        raise _error(evaluation, min(evaluation.faults, key=lambda fault: fault.position))


def evaluate(expr: p.Expr, evaluation: BlockEvaluation[V, A], active: Array | None) -> V:
    """An expression over a block; where `active` (None: everywhere), failures are recorded."""
    arithmetic = evaluation.arithmetic
    match expr:
        case p.Literal(value=value, dtype=dtype):
            return evaluation.constant(value, dtype)
        case p.Size(name=name, dtype=dtype):
            return evaluation.constant(evaluation.shaped.sizes[name], dtype)
        case p.Extent(tensor=tensor, axis=axis, dtype=dtype):
            return evaluation.constant(evaluation.shaped.shapes[tensor][axis], dtype)
        case p.Index():
            return arithmetic.exact(evaluation.block.values(expr.name).astype(expr.dtype.numpy))
        case p.Read():
            return _read(expr, evaluation, active)
        case p.Unary(operand=operand, dtype=dtype):
            return arithmetic.negate(evaluate(operand, evaluation, active), dtype)
        case p.Binary(op=op, left=left, right=right, dtype=dtype):
            dividend = evaluate(left, evaluation, active)
            divisor = evaluate(right, evaluation, active)
            if op in ("/", "%") and not dtype.is_float:
                record(expr, evaluation, arithmetic.array(divisor) == 0, active, ())
            return arithmetic.binary(op, dividend, divisor, dtype)
        case p.Compare(op=op, left=left, right=right):
            return arithmetic.compare(
                op, evaluate(left, evaluation, active), evaluate(right, evaluation, active)
            )
        case p.Logical(op=op, operands=operands):
            return _logical(op, operands, evaluation, active)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            test = evaluate(condition, evaluation, active)
            holds = arithmetic.array(test)
            return arithmetic.select(
                test,
                evaluate(then, evaluation, both(active, holds)),
                evaluate(otherwise, evaluation, both(active, ~holds)),
            )
        case p.Call(function=function, args=args, dtype=dtype):
            values = [evaluate(arg, evaluation, active) for arg in args]
            return arithmetic.call(function, values, dtype)
        case p.Convert(operand=operand, dtype=dtype):
            return arithmetic.convert(evaluate(operand, evaluation, active), operand.dtype, dtype)
        case p.Bits(operand=operand, dtype=dtype):
            source = operand.dtype
            # bits of NaN are not held where numpy has no such type
            is_given = source.is_in_numpy and _is_given(operand, evaluation.shaped)
            return arithmetic.bits(evaluate(operand, evaluation, active), source, dtype, is_given)
        case p.Check(dtype=dtype):
            return evaluation.constant(0, dtype)
        case _:
            _unknown(expr)


def _is_given(expr: p.Expr, shaped: ShapedProgram) -> bool:
    """Whether a value is an element of an input, or a literal."""
    is_input = isinstance(expr, p.Read) and expr.tensor in shaped.program.inputs
    return is_input or isinstance(expr, p.Literal)


def _read(read: p.Read, evaluation: BlockEvaluation[V, A], active: Array | None) -> V:
    """A view where the subscripts are affine and stay in the tensor over the whole block;
    otherwise a gather, each place checked (G7) and the inactive ones moved into the tensor."""
    tensor, shape = evaluation.tensors[read.tensor], evaluation.shaped.shapes[read.tensor]
    forms = [strided_form(subscript, evaluation.shaped) for subscript in read.subscripts]
    known = [form for form in forms if form is not None]
    if len(known) == len(forms):
        pick = evaluation.block.strided(known, shape)
        if pick is not None:
            return evaluation.arithmetic.read(tensor, pick, (), None)
    values = [evaluate(subscript, evaluation, active) for subscript in read.subscripts]
    places = [evaluation.arithmetic.array(value) for value in values]
    outside = outside_of(places, shape)
    if outside is not None:
        record(read, evaluation, outside, active, places)
        places = [np.clip(k, 0, max(n, 1) - 1) for k, n in zip(places, shape, strict=True)]
    return evaluation.arithmetic.read(tensor, gather_pick(places, shape), values, outside)


def outside_of(places: Sequence[Array], shape: Sequence[int]) -> Array | None:
    """Which places lie outside a tensor of this shape; None where none does."""
    outside: Array | None = None
    for place, extent in zip(places, shape, strict=True):
        if place.size and (place.min() < 0 or place.max() >= extent):
            here = (place < 0) | (place >= extent)
            outside = here if outside is None else outside | here
    return outside


def _logical(
    op: str, operands: tuple[p.Expr, ...], evaluation: BlockEvaluation[V, A], active: Array | None
) -> V:
    first = evaluate(operands[0], evaluation, active)
    if op == "!":
        return evaluation.arithmetic.logical(op, (first,))
    decides = evaluation.arithmetic.array(first)
    guard = decides if op == "&&" else ~decides
    second = evaluate(operands[1], evaluation, both(active, guard))
    return evaluation.arithmetic.logical(op, (first, second))


def both(active: Array | None, guard: Array) -> Array:
    return guard if active is None else active & guard


def record(
    expr: p.Read | p.Binary | str,
    evaluation: BlockEvaluation[V, A],
    failing: Array,
    active: Array | None,
    places: Sequence[Array],
) -> None:
    """Notes the first active instance of the block at which a read or division fails."""
    failing = both(active, failing)
    if not failing.any():
        return
    block = evaluation.block.shape
    # along an axis that the failure does not depend on, its first instance is the first of all
    position = np.unravel_index(int(failing.argmax()), failing.shape)
    spread = (np.broadcast_to(place, block) for place in places)
    subscripts = tuple(int(place[position]) for place in spread)
    evaluation.faults.append(FailedInstance(tuple(map(int, position)), expr, subscripts))


def _error(evaluation: BlockEvaluation[V, A], fault: FailedInstance) -> AccessError:
    indices = evaluation.block.point(fault.position)
    match fault.expr:
        case p.Read(tensor=tensor):
            shape = evaluation.shaped.shapes[tensor]
            return read_error(evaluation.statement, fault.expr, indices, fault.subscripts, shape)
        case p.Binary():
            return division_error(evaluation.statement, fault.expr, indices)
        case str() as target:
            shape = evaluation.shaped.shapes[target]
            place = fault.subscripts
            return write_error(evaluation.statement, target, indices, place, shape)


def _unknown(expr: NoReturn) -> NoReturn:
    raise InternalError(f"the interpreter knows no node {type(expr).__name__}")
