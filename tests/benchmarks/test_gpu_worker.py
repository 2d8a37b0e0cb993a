"""The process of `bench.gpu` that has the GPU, on the processor: bounds are within rule R5, what is
right is timed, and what is wrong, or breaks, never is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from bench import gpu, gpu_constants, gpu_counters, gpu_device, gpu_worker
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls
from bench.cpu_kernels import pointwise as ps
from bench.cpu_kernels.kernel import Kernel
from bench.gpu import GpuProcess
from bench.gpu_constants import Probe, probes, ring, stream
from bench.gpu_device import GpuDevice, NoGpu, Timed
from bench.gpu_kernels import KERNELS, PAPER, SUMS, bounds_of, magnitudes
from bench.gpu_limits import FMA_TEXT, copy_rate, fma_run, half_rate
from bench.gpu_overhead import IdleDriver, idle_driver
from bench.gpu_worker import GpuCase, GpuSession, GpuTiming, forms_of, worse
from bench.peers.process import PeerError
from tc.backends import nvrtc
from tests.support.fake_gpu import FakeClock, FakeTorch, TickingClock

LONG = 600
TMM = cs.tmm(5, 8, 16)
SMALL = (
    cs.tmm(7, 9, 11),
    cs.tbmm(3, 7, 9, 5),
    cs.sgemm(9, 11, 13),
    cs.half_product(8, 21, 7),
    ls.gconv(2, 3, 4, 5, 7, 8),
    ls.lut1(40, 9, 6, 5),
    ls.lut2(40, 9, 6, 5),
    ls.mlp1(6, 21, 8),
    ls.mlp3(6, 33, 17, 9, 3),
    ls.conv2d(2, 3, 7, 8, 5),
    ps.softmax(3, 40),
    ps.layernorm(3, 40),
    ps.groupnorm(2, 3, 2, 5, 4),
    ps.transpose4d(2, 3, 4, 5),
)


# --- kernels and bounds -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_bounds_are_within_the_rule(kernel: Kernel) -> None:
    """They allow no more than R5, and what float32 gives, which is added up in another order."""
    case = kernel.case()
    outputs = case.outputs if kernel.updates else None
    allowed = tc.error_bound(kernel.text, list(case.inputs), outputs=outputs)
    found = tc.interpret(kernel.text, list(case.inputs), outputs=outputs)
    results = found if isinstance(found, tuple) else (found,)
    rules = allowed if isinstance(allowed, tuple) else (allowed,)
    for value, bound, rule, expected in zip(
        results, bounds_of(case), rules, case.expected(), strict=True
    ):
        assert (bound <= rule * (1 + 1e-12)).all()
        assert (np.abs(value - expected) <= bound).all()


def test_small_kernels_are_of_every_family() -> None:
    families = {kernel.family for kernel in KERNELS.values()}
    assert {kernel.family for kernel in SMALL} == families
    assert families > SUMS


def test_magnitudes_of_an_update_take_its_initial_values() -> None:
    case = cs.sgemm(2, 3, 2).case()
    _, _, a, b = case.inputs
    (found,) = magnitudes(case)
    first, second = np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))
    initial = np.abs(np.asarray(case.initial[0], np.float64))
    np.testing.assert_allclose(found, 0.5 * initial + 1.5 * (first @ second))


def test_options_of_the_paper_are_of_kernels() -> None:
    assert set(PAPER) < set(KERNELS)
    texts = {name: KERNELS[name].family for name in PAPER}
    assert [*texts.values()] == ["tmm", "tbmm", "gconv", "lut1", "lut2", "tmm", "mlp1", "mlp3"]


@pytest.mark.skipif(
    not nvrtc.is_installed(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc"
)
def test_the_kernel_of_the_limit_has_nothing_but_registers() -> None:
    (usage,) = nvrtc.usage_in(nvrtc.compiled(FMA_TEXT, "sm_90").log).values()
    assert (usage.spills, usage.stack) == (0, 0)
    assert usage.registers <= 32  # 2048 threads at a time


# --- the worker -------------------------------------------------------------------------------


@pytest.fixture
def device(torch: Any) -> Iterator[GpuDevice]:
    """The processor, by a clock that goes on by itself."""
    enabled = torch.is_grad_enabled()
    yield GpuDevice(torch, "cpu", TickingClock(), flushed=64)
    torch.set_grad_enabled(enabled)


@pytest.fixture
def session(device: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuSession:
    monkeypatch.setattr(gpu_worker, "KERNELS", {k.name: k for k in (*SMALL, TMM)})
    return GpuSession(device, lambda _: None, backend="numba")


ASKED: Mapping[str, Any] = {"skip": (), "runs": 12, "longest": 1e9}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_tc_and_torch_are_right_and_timed(session: GpuSession, kernel: Kernel) -> None:
    for peer in ("tc", "torch"):
        timing = GpuTiming.read(session.measure(kernel.name, peer, **ASKED))
        assert (timing.reason, timing.failures) == ("", {})
        assert timing.events is not None
        assert timing.clock is not None
        assert timing.events.runs == timing.clock.runs == 12
        assert timing.error is not None
        assert 0 <= timing.error <= 1
        assert timing.form


def test_forms_of_the_paper_have_their_options(device: GpuDevice) -> None:
    case = GpuCase(TMM, device)
    assert forms_of("paper", case, "numba") == {}
    case.kernel = replace(TMM, name="tmm 128x32x256")
    assert [*forms_of("paper", case, "numba")] == ["tmm", "tmm, manual"]
    with pytest.raises(ValueError, match="no peer 'jax'; there are tc, paper, torch, compile"):
        forms_of("jax", case, "numba")


def forms(**runs: Callable[[GpuCase], Any]) -> Callable[..., Any]:
    """Takes the place of `forms_of`."""

    def of(_peer: str, case: GpuCase, _backend: str) -> Any:
        return {name: (lambda run=run: lambda: run(case)) for name, run in runs.items()}

    return of


def right(case: GpuCase) -> Any:
    return case.inputs[0] @ case.inputs[1].t()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda case: right(case) * 1.001, r"wrong: [\d.e+]+ times the bound"),
        (lambda case: right(case)[:, :-1], "wrong: inf times the bound"),
        (lambda case: right(case).double(), "wrong: inf times the bound"),
        (lambda _: None, "wrong: nan times the bound"),
    ],
    ids=["values", "shape", "dtype", "nothing written"],
)
def test_wrong_results_have_no_time(
    wrong: Callable[[GpuCase], Any],
    said: str,
    session: GpuSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_worker, "forms_of", forms(bad=wrong))
    timing = GpuTiming.read(session.measure(TMM.name, "torch", **ASKED))
    assert timing.events is None
    assert timing.clock is None
    assert re.fullmatch(f"bad: {said}", timing.reason)


def test_a_wrong_form_gives_way_to_a_right_one(
    session: GpuSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: GpuCase) -> Any:
        raise ValueError("cannot\nbe built")

    given = forms(bad=lambda case: right(case) + 1, broken=broken, good=right)
    monkeypatch.setattr(gpu_worker, "forms_of", given)
    timing = GpuTiming.read(session.measure(TMM.name, "torch", **ASKED))
    assert (timing.form, timing.reason) == ("good", "")
    assert timing.failures["broken"] == "ValueError: cannot be built"
    assert timing.failures["bad"].startswith("wrong: ")
    skipped = session.measure(TMM.name, "torch", **{**ASKED, "skip": ["bad", "broken", "good"]})
    assert skipped["reason"] == "not offered"


def test_what_goes_wrong_later_is_found(
    session: GpuSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that is right in the first runs, and wrong after the timing."""
    calls: list[None] = []

    def spoilt(case: GpuCase) -> Any:
        calls.append(None)
        return right(case) + (1 if len(calls) > 40 else 0)

    monkeypatch.setattr(gpu_worker, "forms_of", forms(late=spoilt))
    timing = GpuTiming.read(session.measure(TMM.name, "torch", **ASKED))
    assert timing.events is None
    assert timing.reason.startswith("wrong after timing: ")


def test_a_lost_device_ends_the_answer(
    session: GpuSession, device: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a lost device is of no more use, so another process has to go on."""

    def lost() -> None:
        raise RuntimeError("an illegal memory access")

    def breaking(_: GpuCase) -> Any:
        monkeypatch.setattr(device, "wait", lost)
        raise RuntimeError("launch failed")

    monkeypatch.setattr(gpu_worker, "forms_of", forms(bad=breaking, good=right))
    with pytest.raises(RuntimeError, match="an illegal memory access"):
        session.measure(TMM.name, "torch", **ASKED)


def test_each_form_is_named_before_its_turn(
    device: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_worker, "KERNELS", {TMM.name: TMM})
    said: list[str] = []
    monkeypatch.setattr(gpu_worker, "forms_of", forms(one=right, two=right))
    GpuSession(device, said.append).measure(TMM.name, "torch", **ASKED)
    assert said[:3] == ["", "one", "two"]
    assert said[3] in ("one", "two")


def test_nan_is_the_worst() -> None:
    assert math.isnan(worse(math.nan, math.inf))
    assert worse(0.1, 0.2) == 0.2


def test_operations_of_the_limit_are_those_of_its_kernel(
    device: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each thread of each block, and the launch has the array and the stream."""
    launched: list[Any] = []
    monkeypatch.setattr(
        IdleDriver, "launcher", lambda *given: lambda *a: launched.append((given, a))
    )
    with idle_driver():
        monkeypatch.setattr(nvrtc, "compiled", lambda *_: SimpleNamespace(cubin=b""))
        run, flops = fma_run(device)
    run()
    (((_, _, geometry, parameters), (arguments, stream)),) = launched
    blocks = geometry.grid[0] * geometry.grid[1] * geometry.grid[2]
    assert flops == blocks * geometry.threads * FMA_TEXT.count("fmaf") * 4096 * 2
    assert (len(arguments), parameters, stream) == (1, 1, 0)
    assert f"k < {4096};" in FMA_TEXT


def test_rates(device: GpuDevice) -> None:
    """By the clock that ticks, a run between two events takes 10 us, with that of the second."""
    assert copy_rate(device, 1000) == pytest.approx(2 * 1000 / 1e-5)
    assert half_rate(device, 8) == pytest.approx(2 * 8**3 / 1e-5)


def test_the_process_says_what_there_is(torch: Any) -> None:
    """Of its GPU, or why there is none."""
    process = GpuProcess()
    try:
        if torch.cuda.is_available():
            found = process.ask("describe", LONG)
            assert found["gpu"] == torch.cuda.get_device_name(0)
        else:
            with pytest.raises(PeerError, match=r"CUDA|NVIDIA"):
                process.ask("describe", LONG)
            assert process.missing
    finally:
        process.end()


# --- `bench.gpu_constants` and `bench.gpu_counters`: texts that compile, rings that reach every
# line, and what is printed where there is no GPU.


needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_installed(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc"
)


@pytest.mark.drawn(3)
@needs_nvrtc
@pytest.mark.parametrize("probe", [*probes()], ids=lambda p: p.name)
def test_probes_compile(probe: Probe) -> None:
    """Without a warning, and for threads that one block may have."""
    assert "warning" not in nvrtc.compiler_log(probe.text, "sm_90").lower()
    assert probe.threads <= 1024


@needs_nvrtc
def test_streams_compile() -> None:
    assert "warning" not in nvrtc.compiler_log(stream(2**24, 3), "sm_90").lower()


def test_a_ring_reaches_every_line() -> None:
    places = ring(128 * 1000, np.random.default_rng(3)).view(np.int32)
    at, seen = 0, set()
    while at not in seen:
        seen.add(at)
        at = int(places[at // 4])
    assert seen == set(range(0, 128 * 1000, 128))


@pytest.mark.parametrize("module", [gpu_constants, gpu_counters], ids=lambda m: m.__name__)
def test_without_a_gpu(
    module: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> int:
        raise NoGpu("no driver")

    monkeypatch.setattr(module, "count_gpus", none)
    assert module.main([]) == 0
    assert capsys.readouterr().out.startswith("There is no GPU here (no driver), so nothing is ")


def test_launches_are_told_apart_by_their_order() -> None:
    """Two kernels whose functions have one name, the first with two launches; a number that the
    profiler could not count is left out."""
    printed = """==PROF== Connected
counted: ["mm 2x2", "tc", "defaults", 2]
counted: ["mm 3x3", "paper", "tmm", 1]
"ID","Kernel Name","smsp__inst_executed.sum","launch__grid_size"
"","","inst",""
"0","mm_0","1,024","8"
"1","mm_1","n/a","9"
"2","mm_0","5","10"
"""
    found = gpu_counters.counted(printed)
    assert [(f["kernel"], f["by"], f["function"]) for f in found] == [
        ("mm 2x2", "tc", "mm_0"),
        ("mm 2x2", "tc", "mm_1"),
        ("mm 3x3", "paper", "mm_0"),
    ]
    assert [f.get("instructions") for f in found] == [1024.0, None, 5.0]
    assert [f["blocks"] for f in found] == [8.0, 9.0, 10.0]


# --- How `bench.gpu` times, by a clock that stands in for a GPU's, and what it does without a GPU.


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
