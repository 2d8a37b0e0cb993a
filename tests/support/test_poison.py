"""Poisoned memory is what calls get, each time, and reads of it are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import call_memory
from tc.runtime import specialisation
from tests.support.poison import HUGE, LOW, NAN, forget_memory, poisoned

CHAIN = """def f(float(N,K) A, float(M,K) B) -> (u) {
  t(i,j) +=! A(i,k) * B(j,k)
  u(i,j) +=! t(i,r) * B(j,r)
}"""


def test_bytes() -> None:
    for kind in ("f2", "f4", "f8"):
        assert np.isnan(np.frombuffer(bytes([NAN] * 8), kind)).all()
    assert np.frombuffer(bytes([HUGE] * 4), np.float32) > 1e38
    assert np.frombuffer(bytes([HUGE] * 4), np.int32) > 2e9
    assert np.frombuffer(bytes([LOW] * 4), np.int32) < -2e9


@pytest.mark.parametrize("byte", [NAN, HUGE, LOW])
def test_what_is_allocated_is_full_of_a_byte(byte: int) -> None:
    usual = specialisation.empty, call_memory.empty
    with poisoned(byte):
        for empty in (specialisation.empty, call_memory.empty):
            array = empty((3, 5), np.dtype(np.float32), 64)
            assert array.ctypes.data % 64 == 0
            assert array.tobytes() == bytes([byte] * 60)
    assert usual == (specialisation.empty, call_memory.empty)


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_memory_of_earlier_calls_is_forgotten(backend: str) -> None:
    a = np.ones((8, 8), np.float32)
    function = tc.compile(CHAIN, backend=backend)
    for byte in (NAN, HUGE):
        with poisoned(byte):
            np.testing.assert_array_equal(function(a, a), np.full((8, 8), 64, np.float32))
        (special,) = function._specialiser.made.values()
        assert kept(special)
        forget_memory(function)
        assert not kept(special)


def kept(special: Any) -> list[Any]:
    runner = special.runner
    return [*special.temporaries.spare.idle, *runner.memory.idle]
