"""Random kernels of blocks and threads: as one thread after the other runs them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Kernel
from tc.kernel.verify import verify
from tests.kernel.grid_strategies import tame_grids, wild_grids
from tests.kernel.marked import inputs
from tests.kernel.one_by_one import Refused, one_by_one


@given(tame_grids(), st.integers(0, 9))
def test_results_are_those_of_one_thread_after_the_other(kernel: Kernel, seed: int) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    assert evaluate(kernel, ours) == one_by_one(kernel, others, seed)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, others[name])


@given(wild_grids(), st.integers(0, 9))
def test_the_same_kernels_are_refused(kernel: Kernel, seed: int) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    reason = ""
    try:
        evaluate(kernel, ours)
    except InternalError as error:
        reason = error.cause
    try:
        one_by_one(kernel, others, seed)
    except Refused:
        assert reason
        return
    assert not reason
    for name, array in ours.items():
        np.testing.assert_array_equal(array, others[name])
