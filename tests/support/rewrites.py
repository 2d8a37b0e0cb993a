"""Rewritten programs beside the originals: interpreted, lowered and evaluated, compared (R5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import event, reject

from tc.errors import TCError
from tc.kernel.evaluate import evaluate
from tc.polyhedral import lowering
from tc.polyhedral.rewrite.boxes import as_boxes
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import Binary, Read, ShapedProgram, index_names, walk
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.lowering import lower
from tests.support.programs import CASES

Arrays = Mapping[str, Any]
NOTHING: Arrays = {}


def texts(shaped: ShapedProgram) -> list[str]:
    """The statements with their names."""
    return [f"{s.name}: {s.text}" for s in shaped.program.statements]


def texts_with_ranges(shaped: ShapedProgram) -> list[str]:
    """The statements with their names, and the ranges of their variables."""
    return [
        f"{s.statement.name}: {s.statement.text} "
        + ", ".join(f"{v} in {r.begin}:{r.end}" for v, r in s.ranges.items())
        for s in shaped.statements
    ]


def assert_same_results(
    original: ShapedProgram,
    rewritten: ShapedProgram,
    arrays: Arrays,
    initial: Arrays = NOTHING,
) -> None:
    """Fails unless the rewritten program, interpreted and as a kernel, stays within the bound of
    the original. Its tensors may have other shapes with the same elements."""
    assert_consistent(rewritten)
    expected = interpret(original, arrays, initial)
    bounds = error_bound(original, arrays, initial)
    own = reshaped(rewritten, arrays)
    start = {n: a.copy() for n, a in reshaped(rewritten, initial).items()}
    runs = [run_kernel(rewritten, own, start)]
    subscripts = (s for each in rewritten.program.statements for s in each.subscripts)
    if all(len(index_names(subscript)) < 2 for subscript in subscripts):  # as on a left side
        runs.append(interpret(rewritten, own, start))
    for results in runs:
        for name, want in expected.items():
            assert_within(results[name].reshape(want.shape), want, bounds[name])


def changed_of_table(rewrite: Callable[[ShapedProgram], ShapedProgram]) -> list[str]:
    """The names of the programs of the table that a rewrite changes, as boxes; fails unless their
    results stay within the bounds of the texts."""
    changed = []
    for case in CASES:
        rng = np.random.default_rng(5)
        program, arrays = shaped_with(case.text, case.inputs(rng), case.def_name)
        outputs = case.outputs(rng) if case.outputs else {}
        boxes = as_boxes(program, frozenset(outputs), check=False)
        found = rewrite(boxes)
        if found is not boxes:
            changed.append(case.name)
            assert_same_results(program, found, arrays, outputs)
    return changed


def runnable(case: Call) -> tuple[ShapedProgram, dict[str, Any]]:
    """A generated program, shaped, and its inputs; Hypothesis rejects a program that is refused."""
    try:
        program, arrays = shaped_with(case.text, case.inputs)
        interpret(program, arrays, {})
    except TCError as error:
        event(type(error).__name__)
        reject()
    return program, arrays


def reshaped(shaped: ShapedProgram, arrays: Arrays) -> dict[str, Any]:
    return {name: np.reshape(array, shaped.shapes[name]) for name, array in arrays.items()}


def run_kernel(
    shaped: ShapedProgram, arrays: Arrays, initial: Arrays, rewriting: Thresholds | None = None
) -> dict[str, Any]:
    """The outputs of the lowered program; lowering may merge more dimensions. Its statements are
    boxes, whose places are those of rewrites, and start nothing beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "as_boxes", lambda boxes, *_, **__: boxes)
        kernel = lower(shaped, {}, initial=frozenset(initial), check=True, rewriting=rewriting)
    buffers = {b.name: np.full(b.shape, 77, b.dtype.numpy) for b in kernel.buffers}
    for name, array in (*arrays.items(), *initial.items()):
        buffers[name][...] = np.reshape(array, buffers[name].shape)
    assert evaluate(kernel, buffers) is None
    return {name: buffers[name] for name in shaped.program.outputs}


def assert_consistent(shaped: ShapedProgram) -> None:
    """Fails unless what the parts of a shaped program say of each other agrees."""
    program = shaped.program
    assert tuple(s.statement for s in shaped.statements) == program.statements
    assert set(program.tensors) == {*program.inputs, *program.outputs, *program.temporaries}
    assert set(program.tensors) == set(shaped.shapes)
    for name, tensor in program.tensors.items():
        assert tensor.name == name
        assert tensor.rank == len(shaped.shapes[name])
        assert tensor.shape is None or tensor.rank == len(tensor.shape)
    names = [s.name for s in program.statements]
    assert len(set(names)) == len(names)
    sites = [
        (type(node), node.site)
        for statement in program.statements
        for node in walk(statement.rhs)
        if isinstance(node, Read) or (isinstance(node, Binary) and node.site >= 0)
    ]
    assert len(set(sites)) == len(sites)
    for shaped_statement in shaped.statements:
        statement = shaped_statement.statement
        assert set(shaped_statement.ranges) == set(statement.variables)
        assert not set(statement.variables) & set(program.tensors)
        for node in walk(statement.rhs):
            if isinstance(node, Read):
                assert len(node.subscripts) == program.tensors[node.tensor].rank
        assert len(statement.subscripts) == program.tensors[statement.target].rank
