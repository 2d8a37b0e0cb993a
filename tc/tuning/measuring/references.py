"""What candidates are compared with: inputs, drawn from a seed such that the program can run on
them; results of the interpreter, and their bounds (R5)."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.dtypes import BOOL, Array, DType, encoded
from tc.errors import AccessError, InputError
from tc.runtime.arrays.encoded_arrays import numbers
from tc.semantics import program as p
from tc.semantics.index_values import IndexValues, index_values
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tc.tuning.measuring import shared_arrays
from tc.tuning.measuring.shared_arrays import ArrayPlace
from tc.tuning.problem import Problem

SIGNED, POSITIVE, WHOLE, ZEROS = "signed", "positive", "whole", "zeros"
KINDS = (SIGNED, POSITIVE, ZEROS)
"""What floats are: of either sign and not near zero, or positive, for logarithms and roots; all
zeros, where places to read at are computed in ways that nothing is known of. `WHOLE` ones are
small, so that sums and products of them are exact."""


def drawn_inputs(
    shaped: p.ShapedProgram, kind: str, seed: int, names: tuple[str, ...] | None = None
) -> dict[str, Array]:
    """Arrays for the inputs of a program, or for some of its tensors. Integers that are read to
    read, write or end elsewhere stay within what is there."""
    rng = np.random.default_rng(seed)
    limits = index_values(shaped)
    arrays = {}
    for name in shaped.program.inputs if names is None else names:
        dtype, shape = shaped.program.tensors[name].dtype, shaped.shapes[name]
        if name in shaped.scalars:
            arrays[name] = np.array(shaped.scalars[name], dtype.numpy)
        else:
            arrays[name] = _drawn_input(kind, dtype, shape, limits.get(name), rng)
    return arrays


def _drawn_input(
    kind: str,
    dtype: DType,
    shape: tuple[int, ...],
    limits: IndexValues | None,
    rng: np.random.Generator,
) -> Array:
    if dtype == BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if kind == ZEROS:
        return np.zeros(shape, dtype.numpy)
    if dtype.is_integer:
        return (limits or IndexValues(1, 4)).drawn(shape, dtype, rng)
    if kind == WHOLE:
        return encoded(rng.integers(1, 2, shape, endpoint=True) * _signs(shape, rng), dtype)
    values = rng.random(shape, np.float32) * np.float32(0.75) + np.float32(0.25)
    if kind == SIGNED:
        values = values * _signs(shape, rng)
    return encoded(np.asarray(values), dtype)


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return np.asarray(rng.integers(0, 1, shape, np.int8, endpoint=True) * 2 - 1, np.float32)


_MAX_ODD_SHARE = 0.1
"""The share of results that are no numbers, or may be anything, from which other inputs are tried:
they tell nothing of a candidate."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Inputs, and what outputs have to be, each element within its bound; `given` is what outputs
    hold before. All lie in shared memory."""

    inputs: Mapping[str, ArrayPlace]
    given: Mapping[str, ArrayPlace]
    expected: Mapping[str, ArrayPlace]
    bounds: Mapping[str, ArrayPlace]


@dataclass(frozen=True, slots=True)
class _Values:
    inputs: Mapping[str, Array]
    given: Mapping[str, Array]
    expected: Mapping[str, Array] = field(default_factory=dict)
    bounds: Mapping[str, Array] = field(default_factory=dict)

    @property
    def odd(self) -> float:
        """The largest share of elements of an output that tell nothing."""
        shares = [
            float(np.mean(~np.isfinite(numbers(value)) | np.isinf(self.bounds[name])))
            for name, value in self.expected.items()
            if value.size
        ]
        return max(shares, default=0.0)

    @property
    def tells_little(self) -> bool:
        """Whether a candidate may be wrong in ways that do not show: it may take one element for
        another where all elements of an input are equal, and anything is right where results are
        no numbers."""
        several = (array for array in self.inputs.values() if array.size > 1)
        return self.odd > _MAX_ODD_SHARE or any(bool((a == a.flat[0]).all()) for a in several)


def prepare(
    problem: Problem,
    seed: int,
    memory: int,
    real: Mapping[str, ArrayPlace] | None,
    tf32: bool = False,
) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    """Draws inputs, unless there are `real` ones, and computes what comes of them: a task. Real
    inputs that tell little, as all ones do, have drawn ones behind them. Raises AccessError where
    the program itself fails on real inputs, InputError where it fails on all that were drawn. With
    `tf32`, candidates may round factors (`GpuOptions.tf32`)."""
    shaped = problem.shaped()
    if real is None:
        found = [_drawn(problem, shaped, seed, tf32)]
    else:
        given = drawn_inputs(shaped, KINDS[0], seed, problem.given)
        found = [_computed(shaped, _Values(shared_arrays.read(memory, real), given), tf32)]
        if found[0].tells_little:
            with contextlib.suppress(InputError):  # it may be for such inputs alone
                found.append(_drawn(problem, shaped, seed, tf32))
    return {}, [pickle.dumps(_kept(memory, values)) for values in found]


def _kept(memory: int, values: _Values) -> Reference:
    """All arrays in the memory that processes share."""
    arrays = (values.inputs, values.given, values.expected, values.bounds)
    return Reference(*(shared_arrays.write(memory, each) for each in arrays))


def _drawn(problem: Problem, shaped: ShapedProgram, seed: int, tf32: bool) -> _Values:
    """Drawn inputs, of the kind whose results tell the most about wrong code."""
    found: list[_Values] = []
    failure: AccessError | None = None
    for kind in KINDS:
        inputs = drawn_inputs(shaped, kind, seed)
        inputs = {name: _as_laid_out(problem, name, array) for name, array in inputs.items()}
        given = drawn_inputs(shaped, kind, seed + 1, problem.given)
        try:
            found.append(_computed(shaped, _Values(inputs, given), tf32))
        except AccessError as error:
            failure = error
            continue
        if found[-1].odd <= _MAX_ODD_SHARE:
            break
    if not found:
        raise InputError(
            f"{problem.entry} fails on all inputs that tc draws: "
            f"{'' if failure is None else failure.cause}",
            repair="pass the inputs that it is for",
        )
    return min(found, key=lambda values: values.odd)


def _as_laid_out(problem: Problem, name: str, array: Array) -> Array:
    """The values as an array with the strides of the problem holds them: elements that share their
    memory are equal."""
    strides = dict(problem.strides).get(name)
    if strides is None or array.ndim == 0 or array.size == 0:
        return array
    reach = [(extent - 1) * step for extent, step in zip(array.shape, strides, strict=True)]
    start = -sum(min(step, 0) for step in reach)
    size = start + sum(max(step, 0) for step in reach) + array.itemsize
    view = np.ndarray(array.shape, array.dtype, bytearray(size), start, strides)
    view[...] = array
    return np.ascontiguousarray(view)


def _computed(shaped: ShapedProgram, values: _Values, tf32: bool) -> _Values:
    """With the interpreter's results, and their bounds."""
    given = (shaped, values.inputs, values.given)
    bounds = error_bound(*given, tf32=tf32)
    return _Values(values.inputs, values.given, interpret(*given), bounds)
