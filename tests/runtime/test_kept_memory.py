"""Memory of large results that is used again."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tc
from tc.runtime.arrays import address
from tc.runtime.arrays.kept_memory import KEPT, MAPPED_BYTES, UNIT_BYTES, KeptMemory
from tests.support.processes import ended_well, run_python, told

TEXT = "def f(float(N) a) -> (b) { b(i) = a(i) + 1 }"
SIZE = MAPPED_BYTES // 4


@pytest.fixture(autouse=True)
def _none_is_kept() -> Iterator[None]:
    KEPT.blocks.clear()
    yield
    KEPT.blocks.clear()


def test_results_are_written_where_earlier_ones_were() -> None:
    function, ones = tc.compile(TEXT), np.ones(SIZE, np.float32)
    places = set()
    for n in range(5):  # the first calls and those of the entry that is made for them
        result = function(ones * n)
        places.add(address(result))
        assert (result == n + 1).all()
        result = None
    assert len(places) == 1
    small = function(ones[:1000])
    assert not isinstance(small.base, np.ndarray)


HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "a part": lambda array: array[5:9],
    "a reshaped part": lambda array: array.reshape(2, -1)[1:, ::7],
    "a memoryview": memoryview,
    "an address": lambda array: array.ctypes.data_as(__import__("ctypes").c_void_p),
    "DLPack": lambda array: np.from_dlpack(array),
    "bytes of a part": lambda array: array[1:].view(np.uint8),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_somebody_holds_is_left_alone(holder: str) -> None:
    function, ones = tc.compile(TEXT), np.ones(SIZE, np.float32)
    first = function(ones)
    place, held = address(first), HOLDERS[holder](first)
    del first
    second = function(ones)
    assert address(second) != place
    del held
    assert address(function(ones)) == place


def test_memory_that_a_tensor_of_torch_holds() -> None:
    torch = pytest.importorskip("torch")
    function, ones = tc.compile(TEXT), torch.ones(SIZE)
    first = function(ones)
    view = first.view(2, -1)[1]
    place = first.data_ptr()
    del first
    second = function(ones * 2)
    assert second.data_ptr() != place
    assert bool((view == 2).all())
    del view
    assert function(ones).data_ptr() == place


def test_a_loop_takes_two_blocks() -> None:
    function, value = tc.compile(TEXT), np.zeros(SIZE, np.float32)
    places = set()
    for _ in range(6):
        value = function(value)
        places.add(address(value))
    assert (value == 6).all()
    assert len(places) == 2


def test_what_is_kept_has_a_limit() -> None:
    """The memory that was given back first goes first; more than the limit is not kept at all."""
    kept = KeptMemory(3 * UNIT_BYTES)
    arrays = [kept.block(size * UNIT_BYTES) for size in (1, 2, 1)]
    while arrays:
        arrays.pop(0)
    assert [block.nbytes // UNIT_BYTES for block in kept.blocks.values()] == [2, 1]
    kept.block(4 * UNIT_BYTES)
    assert not kept.blocks
    kept.block(1)
    assert kept.block(2 * UNIT_BYTES).nbytes == 2 * UNIT_BYTES
    assert [block.nbytes // UNIT_BYTES for block in kept.blocks.values()] == [1, 2]


def test_without_memory_what_is_kept_goes() -> None:
    kept = KeptMemory(4 * UNIT_BYTES)
    kept.block(UNIT_BYTES)
    real, asked = np.empty, []

    def scarce(size: int, dtype: Any) -> np.ndarray:
        asked.append(size)
        if kept.blocks:
            raise MemoryError
        return real(size, dtype)

    with mock.patch.object(np, "empty", scarce):
        assert kept.block(2 * UNIT_BYTES).nbytes == 2 * UNIT_BYTES
    assert asked == [2 * UNIT_BYTES] * 2


def test_no_two_threads_have_one_block() -> None:
    kept, failures = KeptMemory(3 * UNIT_BYTES), []

    def work(number: int) -> None:
        for turn in range(300):
            block = kept.block(UNIT_BYTES)
            block[:: UNIT_BYTES // 8] = number * 16 + turn % 16
            if not (block[:: UNIT_BYTES // 8] == number * 16 + turn % 16).all():
                failures.append((number, turn))
            del block

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(kept.blocks) <= 3


FORKING = """
import os, numpy as np, tc
from tc.runtime.arrays.kept_memory import KEPT
function = tc.compile("def f(float(N) a) -> (b) { b(i) = a(i) + 1 }")
ones = np.ones(9 << 20, np.float32)
function(ones)
assert len(KEPT.blocks) == 1
child = os.fork()
result = function(ones * (1 if child else 2))
if not child:
    os._exit(int((result != 3).any()))
assert os.waitpid(child, 0)[1] == 0
assert (result == 2).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this platform")
def test_a_fork_has_blocks_of_its_own() -> None:
    done = run_python(FORKING)
    assert ended_well(done), told(done)


def test_blocks_come_back_while_one_is_looked_for() -> None:
    """The collector of garbage may end arrays at any step that makes an object."""
    kept, before = KeptMemory(1 << 40), gc.get_threshold()
    blocks = [kept.block(UNIT_BYTES) for _ in range(400)]
    del blocks
    cycle: list[Any] = [kept.block(UNIT_BYTES)]
    cycle.append(cycle)
    pairs = [(n, n) for n in range(5000)]  # no pair is left over that a dictionary could use again
    gc.set_threshold(50)
    try:
        del cycle
        kept.block(2 * UNIT_BYTES)
        gc.collect()
    finally:
        gc.set_threshold(*before)
    assert len(kept.blocks) == 401
    assert len(pairs) == 5000
