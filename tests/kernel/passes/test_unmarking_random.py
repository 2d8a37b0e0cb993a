"""Finished kernels do what the marked ones do: random nests, every width of vectors."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tc.kernel.ir import Kernel
from tc.kernel.pass_manager import PassContext, trace_passes
from tests.kernel.marked import UNMARKING, assert_same, finish, loops, run
from tests.kernel.marked_strategies import marked_kernels


@given(
    made=marked_kernels(),
    bits=st.sampled_from([128, 256, 512]),
    limit=st.sampled_from([4096, 4096, 12]),
)
def test_finished_kernels_give_the_same(
    made: tuple[Kernel, tuple[str, ...]], bits: int, limit: int
) -> None:
    kernel, lanes = made
    finished = assert_same(kernel, partial(finish, lanes_bits=bits, unroll_limit=limit))
    assert not set(loops(finished)) & set(lanes)
    if limit == 4096:
        assert not any(buffer.role == "register" for buffer in finished.buffers)


@given(made=marked_kernels())
def test_without_vectors(made: tuple[Kernel, tuple[str, ...]]) -> None:
    assert_same(made[0], partial(finish, lanes_bits=0))


@pytest.mark.slow
@settings(max_examples=3000)
@given(made=marked_kernels())
def test_every_stage_gives_the_same(made: tuple[Kernel, tuple[str, ...]]) -> None:
    kernel, _ = made
    failure, outputs = run(kernel)
    for result in trace_passes(kernel, PassContext(lanes_bits=512, fma=True), UNMARKING):
        other, found = run(result.kernel)
        assert other == failure
        for name, output in outputs.items():
            assert found[name].tobytes() == output.tobytes()
