"""The stages from text to kernel in one call, for tests that look below the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tc.frontend.parser import parse
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Kernel
from tc.semantics.check.checker import check
from tc.semantics.program import Program, ShapedProgram
from tc.semantics.ranges.range_inference import infer_ranges
from tc.source import Source
from tests.support.lowering import lower


def checked(text: str, entry: str | None = None) -> Program:
    return check(parse(Source(text)), entry)


def as_arrays(program: Program, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as arrays of the declared types; Python numbers become arrays of rank 0."""
    return {
        name: np.asarray(inputs[name], dtype=program.tensors[name].dtype.numpy)
        for name in program.inputs
    }


def shaped(program: Program, arrays: Mapping[str, Any]) -> ShapedProgram:
    shapes = {name: np.shape(arrays[name]) for name in program.inputs}
    scalars = {name: int(arrays[name]) for name in program.static_scalars}
    return infer_ranges(program, shapes, scalars)


def shaped_by(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> ShapedProgram:
    """The program for inputs of these shapes, without arrays."""
    return infer_ranges(program, shapes, {})


def lowered(shape: ShapedProgram, initial: frozenset[str] = frozenset(), **how: Any) -> Kernel:
    """The kernel; `how` are the options and the device."""
    return lower(shape, {}, initial=initial, check=True, **how)


def timeless(explanation: object) -> str:
    """The text of an explanation without the milliseconds that passes took."""
    return re.sub(r"\d+\.\d ms", "... ms", str(explanation))


def as_buffers(kernel: Kernel, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays in the shapes of the kernel's buffers, which may have joined dimensions."""
    names = {b.name: b.shape for b in kernel.arguments if b.role != "temporary"}
    return {name: arrays[name].reshape(shape) for name, shape in names.items()}


def evaluate_kernel(
    text: str,
    inputs: Mapping[str, Any],
    *,
    entry: str | None = None,
    outputs: Mapping[str, Any] | None = None,
    **how: Any,
) -> dict[str, Any]:
    """The outputs of the kernel run by `tc.kernel.evaluate`, in return order."""
    program = checked(text, entry)
    arrays = {n: np.array(a, order="C") for n, a in as_arrays(program, inputs).items()}
    shape = shaped(program, arrays)
    given = dict(outputs or {})
    for name in program.outputs:
        dtype = program.tensors[name].dtype.numpy
        arrays[name] = given.get(name, np.empty(shape.shapes[name], dtype))
    kernel = lowered(shape, frozenset(given), **how)
    failure = evaluate(kernel, as_buffers(kernel, arrays))
    assert failure is None
    return {name: arrays[name] for name in program.outputs}
