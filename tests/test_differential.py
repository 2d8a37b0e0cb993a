"""Generated programs: every backend and the evaluated kernel agree with the interpreter (R5)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

import tc
from tc.kernel.evaluate import evaluate
from tests.support.bounds import assert_within
from tests.support.pipeline import as_arrays, as_buffers, checked, lowered, shaped
from tests.support.program_strategies import Generated, programs

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")

Outcome = tuple[Any, ...] | type[tc.TCError]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def outcome(run: Callable[[], Any]) -> Outcome:
    """The results as a tuple, or the class of the TCError; any other exception fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        try:
            result = run()
        except tc.TCError as error:
            return type(error)
    return tuple(result) if isinstance(result, tuple) else (result,)


def run_kernel(case: Generated) -> tuple[Any, ...]:
    program = checked(case.text)
    arrays: dict[str, Any] = {
        n: np.array(a, order="C") for n, a in as_arrays(program, case.inputs).items()
    }
    shape = shaped(program, arrays)
    for name in program.outputs:
        arrays[name] = np.empty(shape.shapes[name], program.tensors[name].dtype.numpy)
    kernel = lowered(shape)
    failure = evaluate(kernel, as_buffers(kernel, arrays))
    if failure is not None:
        raise tc.AccessError("the kernel recorded a failure")
    return tuple(arrays[name] for name in program.outputs)


def strided(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same values in layouts that are not row-major, negative strides among them."""
    return {
        name: np.asfortranarray(a)[..., ::-1].copy(order="F")[..., ::-1] if np.ndim(a) else a
        for name, a in inputs.items()
    }


def compare(case: Generated, expected: Outcome, actual: Outcome) -> None:
    if isinstance(expected, type) or isinstance(actual, type):
        assert expected == actual
        return
    bounds = outcome(lambda: tc.error_bound(case.text, case.inputs))
    assert not isinstance(bounds, type)
    for want, got, bound in zip(expected, actual, bounds, strict=True):
        assert_within(got, want, bound)


def run_differential(case: Generated, backends: tuple[str, ...]) -> None:
    expected = outcome(lambda: tc.interpret(case.text, case.inputs))
    if isinstance(expected, type) and not issubclass(expected, tc.AccessError):
        event(f"rejected: {expected.__name__}")
        for backend in backends:
            assert outcome(lambda b=backend: tc.compile(case.text, backend=b)(**case.inputs)) == (
                expected
            )
        return
    event("failed at run time" if isinstance(expected, type) else "ran")
    compare(case, expected, outcome(lambda: run_kernel(case)))
    compare(case, expected, outcome(lambda: tc.interpret(case.text, strided(case.inputs))))
    for backend in backends:
        compiled = tc.compile(case.text, backend=backend)
        compare(case, expected, outcome(lambda f=compiled: f(**case.inputs)))
        compare(case, expected, outcome(lambda f=compiled: f(**strided(case.inputs))))


@settings(suppress_health_check=QUIET)
@given(programs())
def test_kernel_and_numba(case: Generated) -> None:
    run_differential(case, ("numba",))


@settings(suppress_health_check=QUIET)
@given(programs())
def test_c(case: Generated) -> None:
    run_differential(case, ("c",))


@pytest.mark.slow
@settings(suppress_health_check=QUIET, max_examples=3000)
@given(programs())
def test_all_backends_for_long(case: Generated) -> None:
    run_differential(case, ("numba", "c"))
