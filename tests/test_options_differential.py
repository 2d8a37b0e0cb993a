"""Generated programs under generated options, for generated processors: the kernel agrees with
the interpreter (R5) on the machine that checks bounds and races, and so do the backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.device import host
from tc.kernel.evaluate import evaluate
from tc.polyhedral.lowering import lower
from tests.support.option_strategies import devices, options
from tests.support.pipeline import as_arrays, as_buffers, checked, shaped
from tests.support.program_strategies import Generated, programs
from tests.test_differential import compare, outcome

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@given(case=programs(), data=st.data())
@settings(suppress_health_check=QUIET, deadline=None, max_examples=150)
def test_evaluated_kernels(case: Generated, data: st.DataObject) -> None:
    device = data.draw(devices())
    chosen = data.draw(options(device))

    def run() -> tuple[Any, ...]:
        program = checked(case.text)
        arrays = {n: np.array(a, order="C") for n, a in as_arrays(program, case.inputs).items()}
        shape = shaped(program, arrays)
        for name in program.outputs:
            arrays[name] = np.empty(shape.shapes[name], program.tensors[name].dtype.numpy)
        kernel = lower(shape, {}, initial=frozenset(), check=True, options=chosen, device=device)
        if evaluate(kernel, as_buffers(kernel, arrays)) is not None:
            raise tc.AccessError("the kernel recorded a failure")
        return tuple(arrays[name] for name in program.outputs)

    expected = outcome(lambda: tc.interpret(case.text, case.inputs))
    compare(case, expected, outcome(run))


@pytest.mark.parametrize("backend", ["numba", "c"])
@given(case=programs(), data=st.data())
@settings(suppress_health_check=QUIET, deadline=None, max_examples=15)
def test_backends(backend: str, case: Generated, data: st.DataObject) -> None:
    chosen = data.draw(options(host()))
    expected = outcome(lambda: tc.interpret(case.text, case.inputs))

    def run() -> Any:
        return tc.compile(case.text, backend=backend, options=chosen)(**case.inputs)

    compare(case, expected, outcome(run))
