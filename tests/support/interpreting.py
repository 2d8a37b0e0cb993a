"""From text and arguments to the interpreter's results and bounds, without the API above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tc
from tc.frontend.parser import parse
from tc.semantics.check.checker import check
from tc.semantics.program import ShapedProgram
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import MEMORY_LIMIT_BYTES, interpret
from tc.source import Source

Arrays = Mapping[str, Any]


def interpreted(text: str) -> tc.Compiled:
    """A function whose kernels need not be compiled, for tests that make many functions."""
    return tc.compile(text, backend="interpret")


def shaped_with(
    text: str, inputs: Arrays, entry: str | None = None
) -> tuple[ShapedProgram, dict[str, Any]]:
    """The shaped program of a text and its inputs as arrays; lists and numbers take the declared
    type, arrays are passed as they are."""
    program = check(parse(Source(text)), entry)
    arrays = {
        name: inputs[name]
        if isinstance(inputs[name], np.ndarray)
        else np.asarray(inputs[name], program.tensors[name].dtype.numpy)
        for name in program.inputs
    }
    shapes = {name: array.shape for name, array in arrays.items()}
    scalars = {name: int(arrays[name]) for name in program.static_scalars}
    return infer_ranges(program, shapes, scalars), arrays


def run(
    text: str, outputs: Arrays | None = None, memory_limit: int = MEMORY_LIMIT_BYTES, **inputs: Any
) -> Any:
    """The outputs of a program: one array, or a tuple in return order."""
    shaped, arrays = shaped_with(text, inputs)
    results = interpret(shaped, arrays, outputs or {}, memory_limit=memory_limit)
    values = tuple(results[name] for name in shaped.program.outputs)
    return values[0] if len(values) == 1 else values


def bound(
    text: str, outputs: Arrays | None = None, memory_limit: int = MEMORY_LIMIT_BYTES, **inputs: Any
) -> Any:
    """The error bounds of a program's outputs, in the form that `run` gives."""
    shaped, arrays = shaped_with(text, inputs)
    results = error_bound(shaped, arrays, outputs or {}, memory_limit=memory_limit)
    values = tuple(results[name] for name in shaped.program.outputs)
    return values[0] if len(values) == 1 else values
