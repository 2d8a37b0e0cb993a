"""The reference interpreter: the meaning of a shaped program, in plain numpy.

Statements run one after the other. Each is computed block by block over its iteration space;
within a block, every operation is one numpy operation on arrays with an axis per variable.
Reductions run in any order (R5): here, block after block, from the identity or from what the
target holds (R2, R3).

`evaluate` is the walk over an expression: its values over one block, whatever they are made of.
`active` is the mask of the instances that evaluate the expression: `?:`, `&&` and `||` evaluate
an operand only where it counts (Y6). All operands are computed over the whole block, but what
an inactive instance computes is never used, and cannot fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

import numpy as np

from tc.dtypes import Array, DType, as_array, decoded
from tc.errors import AccessError, InternalError
from tc.semantics import program as p
from tc.semantics.factors import redistributed
from tc.semantics.faults import division_error, read_error
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.reference.arithmetic import PLAIN, Arithmetic
from tc.semantics.reference.instance_blocks import (
    InstanceBlock,
    choose_extents,
    gather_pick,
    strided_form,
    strided_pick,
    target_pick,
    target_variables,
    tiles,
)

V = TypeVar("V")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class FailedInstance:
    """The first instance of a block, as a position in it, at which a read or division fails;
    for a read, `subscripts` is the place."""

    position: tuple[int, ...]
    expr: p.Read | p.Binary
    subscripts: tuple[int, ...]


@dataclass(frozen=True)
class BlockEvaluation(Generic[V, A]):
    """What evaluating over one block needs. Faults are collected, since a later subexpression
    may fail at an earlier instance."""

    shaped: p.ShapedProgram
    statement: p.Statement
    arithmetic: Arithmetic[V, A]
    tensors: Mapping[str, V]
    block: InstanceBlock
    faults: list[FailedInstance] = field(default_factory=list)

    def constant(self, value: int | float | bool, dtype: DType) -> V:
        ones = (1,) * len(self.block.shape)
        return self.arithmetic.exact(np.full(ones, value, dtype.numpy))


def evaluate_block(evaluation: BlockEvaluation[V, A]) -> V:
    """The right-hand side of a statement over a block, axes in the order of its variables.

    Raises the AccessError of the block's first failing instance (G7, Y4).
    """
    value = evaluate(evaluation.statement.rhs, evaluation, None)
    if evaluation.faults:
        raise _error(evaluation, min(evaluation.faults, key=lambda fault: fault.position))
    return value


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
            return arithmetic.exact(_index_values(expr, evaluation.block))
        case p.Read():
            return _read(expr, evaluation, active)
        case p.Unary(operand=operand, dtype=dtype):
            return arithmetic.negate(evaluate(operand, evaluation, active), dtype)
        case p.Binary(op=op, left=left, right=right, dtype=dtype):
            dividend = evaluate(left, evaluation, active)
            divisor = evaluate(right, evaluation, active)
            if op in ("/", "%") and not dtype.is_float:
                _record(expr, evaluation, arithmetic.array(divisor) == 0, active, ())
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
                evaluate(then, evaluation, _both(active, holds)),
                evaluate(otherwise, evaluation, _both(active, ~holds)),
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
        case _:
            _unknown(expr)


def _is_given(expr: p.Expr, shaped: ShapedProgram) -> bool:
    """Whether a value is an element of an input, or a literal."""
    is_input = isinstance(expr, p.Read) and expr.tensor in shaped.program.inputs
    return is_input or isinstance(expr, p.Literal)


def _index_values(index: p.Index, block: InstanceBlock) -> Array:
    axis = block.axis(index.name)
    begin, extent = block.begins[axis], block.shape[axis]
    shape = [1] * len(block.shape)
    shape[axis] = extent
    return np.arange(begin, begin + extent).astype(index.dtype.numpy).reshape(shape)


def _read(read: p.Read, evaluation: BlockEvaluation[V, A], active: Array | None) -> V:
    """A view where the subscripts are affine and stay in the tensor over the whole block;
    otherwise a gather, each place checked (G7) and the inactive ones moved into the tensor."""
    tensor, shape = evaluation.tensors[read.tensor], evaluation.shaped.shapes[read.tensor]
    forms = [strided_form(subscript, evaluation.shaped) for subscript in read.subscripts]
    known = [form for form in forms if form is not None]
    if len(known) == len(forms):
        pick = strided_pick(known, shape, evaluation.block)
        if pick is not None:
            return evaluation.arithmetic.read(tensor, pick, (), None)
    values = [evaluate(subscript, evaluation, active) for subscript in read.subscripts]
    places = [evaluation.arithmetic.array(value) for value in values]
    outside = _outside(places, shape)
    if outside is not None:
        _record(read, evaluation, outside, active, places)
        places = [np.clip(k, 0, max(n, 1) - 1) for k, n in zip(places, shape, strict=True)]
    return evaluation.arithmetic.read(tensor, gather_pick(places, shape), values, outside)


def _outside(places: Sequence[Array], shape: Sequence[int]) -> Array | None:
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
    second = evaluate(operands[1], evaluation, _both(active, guard))
    return evaluation.arithmetic.logical(op, (first, second))


def _both(active: Array | None, guard: Array) -> Array:
    return guard if active is None else active & guard


def _record(
    expr: p.Read | p.Binary,
    evaluation: BlockEvaluation[V, A],
    failing: Array,
    active: Array | None,
    places: Sequence[Array],
) -> None:
    """Notes the first active instance of the block at which a read or division fails."""
    failing = _both(active, failing)
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


def _unknown(expr: NoReturn) -> NoReturn:
    raise InternalError(f"the interpreter knows no node {type(expr).__name__}")


MEMORY_LIMIT_BYTES = 256 << 20


def interpret(
    shaped: ShapedProgram,
    arrays: Mapping[str, Array],
    initial: Mapping[str, Array],
    *,
    memory_limit: int = MEMORY_LIMIT_BYTES,
) -> dict[str, Array]:
    """The outputs of a program by name: fresh row-major arrays.

    `arrays` holds the inputs by name, of the declared types and the shapes of `shaped`, in any
    layout (rank 0: arrays of rank 0); `initial` what the caller passed for some of the outputs
    (R3, R4). Neither is written to. Raises AccessError for the first instance of a statement
    that reads outside a tensor (G7) or divides an integer by zero (Y4).

    `memory_limit` bounds, in bytes, what is used beside inputs, outputs and temporaries; as the
    smallest block is one instance, a few kilobytes are needed in any case. The results are the
    same bits in every run with the same arguments.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"
    >>> shaped = infer_ranges(check(parse(Source(mv))), {"A": (2, 3), "x": (3,)}, {})
    >>> arrays = {"A": np.ones((2, 3), np.float32), "x": np.arange(3, dtype=np.float32)}
    >>> interpret(shaped, arrays, {})["y"].tolist()
    [3.0, 3.0]
    """
    tensors = shaped.program.tensors
    found = execute(shaped, arrays, initial, PLAIN, memory_limit)
    return {name: as_array(array, tensors[name].dtype) for name, array in found.items()}


def execute(
    shaped: ShapedProgram,
    arrays: Mapping[str, Array],
    initial: Mapping[str, Array],
    arithmetic: Arithmetic[V, A],
    memory_limit: int,
) -> dict[str, V]:
    """The outputs of a program, computed with any arithmetic. Elements of types that numpy does not
    have are held as float32 (`DType.held`)."""
    program = shaped.program

    def held(name: str) -> Array:
        return decoded(arrays[name], program.tensors[name].dtype)

    tensors = {name: arithmetic.exact(held(name)) for name in program.inputs}
    for name in (*program.outputs, *program.temporaries):
        tensors[name] = arithmetic.exact(_fresh(shaped, name, initial))
    with np.errstate(all="ignore"):
        for statement in shaped.statements:
            _run(statement, shaped, tensors, initial, arithmetic, memory_limit)
    return {name: tensors[name] for name in program.outputs}


def _fresh(shaped: ShapedProgram, name: str, initial: Mapping[str, Array]) -> Array:
    """A copy of what the caller passed, otherwise zeros: what no statement writes stays (G4)."""
    dtype = shaped.program.tensors[name].dtype
    if name in initial:
        return np.array(decoded(initial[name], dtype), order="C", copy=True)
    return np.zeros(shaped.shapes[name], dtype.held)


def _run(
    shaped_statement: ShapedStatement,
    shaped: ShapedProgram,
    tensors: dict[str, V],
    initial: Mapping[str, Array],
    arithmetic: Arithmetic[V, A],
    memory_limit: int,
) -> None:
    """Runs one statement.

    Blocks may be written at once, although the whole right-hand side is read before (P1): no
    instance reads what another one writes.
    """
    statement = shaped_statement.statement
    continues = not statement.starts_fresh(initial)
    if shaped_statement.is_empty and continues:
        return  # without instances nothing is reached, and so nothing touched
    extents = choose_extents(
        shaped_statement, memory_limit, lexicographic=bool(shaped_statement.checked)
    )
    dtype = shaped.program.tensors[statement.target].dtype
    factors = redistributed(shaped_statement)
    for outer in tiles(target_variables(shaped_statement), shaped_statement, extents):
        pick = target_pick(statement.subscripts, shaped, outer)

        def over(block: InstanceBlock) -> BlockEvaluation[V, A]:
            return BlockEvaluation(shaped, statement, arithmetic, tensors, block)

        if statement.op == "=":
            value = evaluate_block(over(outer))
        else:
            start = None
            if continues:
                start = arithmetic.read(tensors[statement.target], pick, (), None)
                start = arithmetic.convert(start, dtype, dtype.computed)
            reduction = arithmetic.start(statement.op, start, outer.shape, dtype.computed)
            for inner in tiles(statement.reduction, shaped_statement, extents):
                block = outer + inner
                term = evaluate_block(over(block))
                reduction = arithmetic.accumulate(reduction, term, block.shape)
                if factors:
                    values = (evaluate(factor, over(block), None) for factor in factors)
                    reduction = arithmetic.redistribute(reduction, values, term, block.shape)
            value = arithmetic.finish(reduction)
        if dtype.is_storage:  # computed in float32 over the whole statement, rounded once (Y8)
            value = arithmetic.convert(value, dtype.computed, dtype)
        tensors[statement.target] = arithmetic.write(tensors[statement.target], pick, value)
