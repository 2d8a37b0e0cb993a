"""`bench.gpu_overhead` times repeated calls, and puts back every function that it replaces."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tc
from bench import gpu_overhead
from bench.gpu_overhead import (
    IdleDriver,
    Library,
    empty,
    idle_driver,
    launching,
    measured,
    posing,
    table,
)
from tc.backends import cuda_driver
from tc.backends.cuda_driver import CudaDriver
from tc.runtime.arrays.torch_private import private_parts
from tc.runtime.entries.device_entry import DeviceEntry

NAMES = {"1 input", "3 inputs", "8 inputs"}


def test_the_driver_has_the_protocol() -> None:
    for name, member in inspect.getmembers(CudaDriver):
        if name.startswith("_"):
            continue
        own = getattr(IdleDriver, name)
        if not isinstance(member, property):
            assert [*inspect.signature(own).parameters] == [*inspect.signature(member).parameters]


def test_calls_are_served_and_run_nothing() -> None:
    with idle_driver():
        function = tc.compile(gpu_overhead.text_of(2), backend="cuda")
        x, y = empty((5,), np.float32), empty((5,), np.float32)
        y.values[...] = 7
        for _ in range(2):
            assert function(x, x, outputs=y) is y
        assert isinstance(function._entry, DeviceEntry)
        assert function._entry.serve((x, x), y) is y
        np.testing.assert_array_equal(y.values, np.full(5, 7, np.float32))
    assert not isinstance(_driver(), IdleDriver)


def _driver() -> Any:
    return next((opened.driver for opened in cuda_driver.OPENED.made), None)


def test_tensors_that_pose() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(6)
    with idle_driver():
        function = tc.compile(gpu_overhead.text_of(1), backend="cuda")
        with posing(torch):
            assert x.is_cuda
            for _ in range(2):
                assert function(x).shape == x.shape
            assert isinstance(function._entry, DeviceEntry)
            assert function._entry.serve((x,), None).dtype == torch.float32
    assert (x.is_cuda, x.is_cpu, x.get_device()) == (False, True, -1)
    assert private_parts(torch).cuda_stream is None or torch.cuda.is_available()
    np.testing.assert_array_equal(tc.compile(gpu_overhead.text_of(1))(x).numpy(), x.numpy())


def test_a_column_for_each_library() -> None:
    library = Library("plain", lambda: empty((gpu_overhead.LENGTH,), np.float32))
    (times,) = measured([library], budget=0.01).values()
    calls = NAMES | {f"{name}, outputs=" for name in NAMES}
    shares = {"an input", "a new output instead of one given", "the rest"}
    assert {*times} == calls | shares | {gpu_overhead.OWN}
    assert min(times[name] for name in calls | {gpu_overhead.OWN}) > 0


def test_calls_beside_their_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of each, with the arguments of the call."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    launched: list[tuple[Any, Any]] = []
    monkeypatch.setattr(IdleDriver, "launcher", lambda *_: lambda *given: launched.append(given))
    waits: list[None] = []
    with idle_driver(), posing(torch):
        library = Library("torch", lambda: torch.ones(gpu_overhead.LENGTH))
        times = launching(library, lambda: waits.append(None), 0)
    batches = 2 * gpu_overhead.ROUNDS
    assert len(waits) == 2 * batches
    assert len(launched) == 3 + 2 * batches * gpu_overhead.BATCH
    assert len({tuple(arguments) for arguments, _ in launched}) == 1
    assert times["3 inputs, outputs=, launched"] > times["the launch alone"] > 0


def test_what_is_beyond_the_goal_is_marked() -> None:
    text = table({"torch": {"1 input": 9.994e-6, "3 inputs": 10.1e-6}, "cupy": {"1 input": 2e-6}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert rows[0] == ["us", "torch", "cupy"]
    assert rows[2:] == [["1 input", "9.99", "2.00"], ["3 inputs", "10.10 !", "-"]]
