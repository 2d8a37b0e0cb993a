"""Random kernels of blocks and threads: as one thread after the other runs them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.errors import InternalError
from tc.kernel import grids
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure, Kernel
from tc.kernel.verify import verify
from tests.kernel.grid_strategies import tame_grids, wild_grids
from tests.kernel.marked import Array, inputs
from tests.kernel.one_by_one import Refused, one_by_one

AT_ONCE = st.sampled_from([1, 5, 1024])
"""About how many threads run at once: some blocks, or each by itself."""


def evaluated(kernel: Kernel, arrays: dict[str, Array], at_once: int) -> Failure | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grids, "_LANES", at_once)
        return evaluate(kernel, arrays)


@given(kernel=tame_grids(), at_once=AT_ONCE, seed=st.integers(0, 9))
def test_results_are_those_of_one_thread_after_the_other(
    kernel: Kernel, at_once: int, seed: int
) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    assert evaluated(kernel, ours, at_once) == one_by_one(kernel, others, seed)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, others[name])


@given(kernel=wild_grids(), at_once=AT_ONCE, seed=st.integers(0, 9))
def test_the_same_kernels_are_refused(kernel: Kernel, at_once: int, seed: int) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    reason = ""
    try:
        evaluated(kernel, ours, at_once)
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
