"""Calls with tracers of jax: bound as those with arrays are, and left to the primitive."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tc.errors import InputError
from tc.function import Compiled, issue_warnings
from tc.jax.primitive import kept, run
from tc.jax.result_types import traced_number, warnings_of
from tc.jax.unstable import Tracer
from tc.runtime.arguments import NUMBERS, Parameter, fault, read_number, view_of
from tc.runtime.arrays.family import type_name
from tc.runtime.outputs import check_initial
from tc.semantics.program import ProgramWarning


def call(function: Compiled, inputs: tuple[Any, ...], outputs: Any, refused: InputError) -> Any:
    """The results of a call that the usual way has refused, for this reason, as jax traces it."""
    if outputs is not None:
        raise InputError(
            f"{refused.cause}: what jax traces is written to no array of outputs=",
            rule="R4",
            span=refused.span,
            repair=function._signature.call_text(),
        )
    check_initial(function.program, frozenset())
    numbers, operands = [], []
    pairs = zip(function._signature.inputs, inputs, strict=True)
    for place, (parameter, value) in enumerate(pairs):
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            number = read_number(parameter, value)
            if parameter.static or not _has_type(number.dtype):
                numbers.append((place, number.item()))
            else:
                operands.append(number)
            continue
        if not isinstance(value, jax.Array):
            raise _of_another_kind(function, place, inputs)
        if parameter.static:
            if isinstance(value, Tracer):
                raise traced_number(parameter)
            numbers.append((place, int(value)))
            continue
        operands.append(_adapted(parameter, value))
    told: set[ProgramWarning] = kept(function, "told", set)
    found = [w for w in warnings_of(function, numbers, operands) if w not in told]
    told.update(found)
    issue_warnings(found)
    results = run(function, tuple(numbers), operands)
    return results[0] if function._result_type is None else function._result_type(*results)


def _adapted(parameter: Parameter, value: Any) -> Any:
    """A number of Python's that jax traces, whose type is not more than its kind, in the type of
    the parameter, where there is one of that kind."""
    wanted = parameter.numpy
    if value.ndim or value.dtype == wanted or not getattr(value, "weak_type", False):
        return value
    fits = wanted.kind == "f" or (wanted.kind in "iu" and value.dtype.kind in "iu")
    return jax.lax.convert_element_type(value, wanted) if fits and _has_type(wanted) else value


def _has_type(dtype: np.dtype[Any]) -> bool:
    """Whether jax has arrays of a type as it is set up now."""
    return bool(jax.dtypes.canonicalize_dtype(dtype) == dtype)


def _of_another_kind(function: Compiled, place: int, inputs: tuple[Any, ...]) -> InputError:
    """The error about an array of another library, or what is none."""
    parameters = function._signature.inputs
    if isinstance(inputs[place], list | tuple | range):
        cause = f"is of {type_name(type(inputs[place]))}, which is no array, beside arrays of jax"
        raise fault(parameters[place], cause, 'jax.numpy.asarray({name}, "{dtype}")')
    family, _ = view_of(parameters[place], inputs[place])
    first = next(at for at, value in enumerate(inputs) if isinstance(value, jax.Array))
    return fault(
        parameters[place],
        f"is an array of {family.name}, but {parameters[first].name} is one of jax: the arrays of "
        "a call are of one kind",
        "jax.numpy.asarray({name})",
    )
