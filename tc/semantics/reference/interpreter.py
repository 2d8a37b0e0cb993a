"""The reference interpreter: the meaning of a shaped program, in plain numpy.

Statements run one after the other. Each is computed block by block over its iteration space;
within a block, every operation is one numpy operation on arrays with an axis per variable.
Reductions run in any order (R5): here, block after block, from the identity or from what the
target holds (R2, R3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from tc.dtypes import Array, as_array, decoded
from tc.semantics.factors import redistributed
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.reference.arithmetic import PLAIN, Arithmetic
from tc.semantics.reference.block_evaluation import BlockEvaluation, evaluate, evaluate_block
from tc.semantics.reference.folds import BoxFold
from tc.semantics.reference.instance_blocks import (
    InstanceBlock,
    choose_extents,
    target_pick,
    target_variables,
    tiles,
)
from tc.semantics.reference.placed_statements import PlacedStatement

V = TypeVar("V")
A = TypeVar("A")

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
    if not statement.is_plain:
        PlacedStatement(shaped_statement, shaped, tensors, initial, arithmetic, memory_limit).run()
        return
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
                fold = BoxFold(block.shape, len(outer.shape))
                reduction = arithmetic.accumulate(reduction, term, fold)
                if factors:
                    values = (evaluate(factor, over(block), None) for factor in factors)
                    reduction = arithmetic.redistribute(reduction, values, term, fold)
            value = arithmetic.finish(reduction)
        if dtype.is_storage:  # computed in float32 over the whole statement, rounded once (Y8)
            value = arithmetic.convert(value, dtype.computed, dtype)
        tensors[statement.target] = arithmetic.write(tensors[statement.target], pick, value)
