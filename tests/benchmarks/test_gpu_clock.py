"""How `bench.gpu` times, by a clock that stands in for a GPU's, and what it does without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench import gpu, gpu_device
from bench.gpu_device import GpuDevice, NoGpu, Timed
from tests.support.fake_gpu import FakeClock, FakeTorch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    monkeypatch.setattr(gpu_device.time, "perf_counter", lambda: made.now)
    return made


def test_percentiles() -> None:
    timed = Timed.of([float(n) for n in reversed(range(1001))])
    assert (timed.runs, timed.p0, timed.p50, timed.p90) == (1001, 0.0, 500.0, 900.0)


def test_events_measure_the_run_alone_and_flush_before_each(clock: FakeClock) -> None:
    seconds = iter([2e-6, 2e-6, *(2e-6 * n for n in range(1, 102))])
    device = GpuDevice(FakeTorch(clock), cuda=clock)
    timed = device.by_events(lambda: clock.enqueue("run", next(seconds)), 101, 1e9)
    assert timed == Timed(101, *(pytest.approx(2e-6 * n) for n in (1, 51, 91)), late=False)
    assert clock.log[-404:] == ["flush", "event", "run", "event"] * 101


def test_a_long_run_is_repeated_less_often(clock: FakeClock) -> None:
    device = GpuDevice(FakeTorch(clock), cuda=clock)
    assert device.by_events(lambda: clock.enqueue("run", 0.0399), 1000, 2.0).runs == 50
    assert device.by_clock(lambda: clock.enqueue("run", 0.1), 1000, 2.0).runs in (19, 20)
    assert device.by_clock(lambda: clock.enqueue("run", 100.0), 1000, 2.0).runs == 10


def test_a_processor_that_is_late_is_told(clock: FakeClock) -> None:
    device = GpuDevice(FakeTorch(clock), cuda=clock)
    timed = device.by_events(lambda: clock.enqueue("run", 1e-6, host=5e-4), 100, 1e9)
    assert timed.late
    assert timed.p50 > 4e-4  # of which 1e-6 are the device's


def test_the_clock_counts_the_call_and_the_end(clock: FakeClock) -> None:
    device = GpuDevice(FakeTorch(clock), cuda=clock)
    timed = device.by_clock(lambda: clock.enqueue("run", 2e-6, host=3e-6), 100, 1e9)
    assert (timed.runs, timed.p50) == (100, pytest.approx(5e-6))
    assert "flush" not in clock.log


def test_no_gpu_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> int:
        raise NoGpu("no driver of CUDA: libcuda.so.1: cannot open")

    monkeypatch.setattr(gpu, "count_gpus", none)
    assert gpu.main([]) == 0
    said = "no driver of CUDA: libcuda.so.1: cannot open"
    assert capsys.readouterr().out == f"There is no GPU here ({said}), so nothing is measured.\n"


@pytest.mark.parametrize(
    ("status", "count", "said"),
    [(100, 0, "CUDA's driver does not start: error 100"), (0, 0, "CUDA's driver sees no GPU")],
)
def test_a_driver_without_a_gpu(
    status: int, count: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_count(reference: Any) -> None:
        reference._obj.value = count

    driver = SimpleNamespace(cuInit=lambda _: status, cuDeviceGetCount=get_count)
    monkeypatch.setattr(gpu_device.ctypes, "CDLL", lambda _: driver)
    with pytest.raises(NoGpu, match=said):
        gpu_device.count_gpus()
