"""The harness of `bench.gpu`, with a stand-in for the process that has the GPU: what is measured
again and what is not, what is left out, and the tables."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from bench import gpu, gpu_overhead
from bench.gpu_device import Timed
from bench.gpu_kernels import KERNELS
from bench.gpu_limits import GpuLimits
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
from bench.gpu_report import EXPLAINED, Record, details, failures, overview
from bench.gpu_worker import GpuTiming
from bench.peers.process import PeerError
from tc.backends import cuda_driver
from tc.backends.cuda_driver import CudaDriver
from tc.runtime.arrays.torch_private import private_parts
from tc.runtime.entries.device_entry import DeviceEntry

RESULTS = Path(__file__).parents[2] / "bench" / "results"
MACHINE = {
    "gpu": "GPU 1", "capability": "9.0", "processors": 3, "gpu_memory_gb": 8, "l2_mb": 16,
    "driver": "580.1", "cuda": "13.0", "torch": "2.11", "nvrtc": "13.0", "tc_driver": "cuda.core 1",
    "python": "3.12.3", "date": "2026-11-23T00:00:00", "commit": "abc", "changed_files": 0,
}  # fmt: skip
LIMITS = {"flops": 1e12, "half_flops": 4e12, "copy": 1e12}
KERNEL = "tmm 128x1024x1024"


@dataclass
class FakeProcess:
    """Answers as the worker does; `answers` are what measuring gives, the last one for ever."""

    machine: Mapping[str, Any] = field(default_factory=lambda: MACHINE)
    answers: list[Any] = field(default_factory=lambda: [timing()])
    asked: list[Any] = field(default_factory=list)
    ended: int = 0

    def ask(self, do: str, limit: float, **values: Any) -> Mapping[str, Any]:
        if do == "describe":
            return self.machine
        if do == "limits":
            return LIMITS
        self.asked.append((values["kernel"], values["peer"], tuple(values["skip"]), limit))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return asdict(answer)

    def end(self) -> None:
        self.ended += 1

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(kernel, peer) for kernel, peer, _, _ in self.asked]


def timing(seconds: float = 1e-3, **fields: Any) -> GpuTiming:
    timed = Timed(1000, seconds / 2, seconds, 2 * seconds)
    return GpuTiming(timed, replace(timed, p50=3 * seconds), "good", 0.5, 0.25, **fields)


def run(
    process: FakeProcess,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    status: int = 0,
) -> FakeProcess:
    """One run of the harness; the process with the questions that the harness asked."""
    process.asked.clear()
    monkeypatch.setattr(gpu, "count_gpus", lambda: 1)
    monkeypatch.setattr(gpu, "GpuProcess", lambda: process)
    monkeypatch.setattr(gpu.cpu_machine, "describe", lambda *_: {"commit": "git's"})
    given = ["--kernels", "tmm 128x1024,softmax", "--peers", "tc,torch", "--out", str(out)]
    assert gpu.main([*given, *arguments]) == status
    return process


STEPS = [(name, peer) for name in (KERNEL, "softmax 512x4096") for peer in ("tc", "torch")]


def test_a_second_run_has_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "gpu.json"
    assert run(FakeProcess(), out, monkeypatch).steps == STEPS
    text = out.read_text(encoding="utf-8")
    again = run(FakeProcess(), out, monkeypatch)
    assert again.steps == []
    assert out.read_text(encoding="utf-8") == text
    assert run(FakeProcess(), out, monkeypatch, "--kernels", "half").steps == [
        ("half 2048x2048x2048", "tc"),
        ("half 2048x2048x2048", "torch"),
    ]
    assert len(Record.read(out).timings) == 3


def test_each_result_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "gpu.json"
    stopped = FakeProcess(answers=[timing(), timing(), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        run(stopped, out, monkeypatch)
    assert stopped.ended == 1
    assert {*Record.read(out).timings} == {KERNEL}
    assert run(FakeProcess(), out, monkeypatch).steps == STEPS[2:]
    record = Record.read(out)
    assert [record.timings[kernel][peer][0] for kernel, peer in STEPS] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ({"commit": "abd"}, [STEPS[0], STEPS[2]]),
        ({"torch": "2.12"}, STEPS),
        ({"gpu": "GPU 2"}, STEPS),
        ({"date": "2027-01-01T00:00:00"}, []),
    ],
    ids=["tc's code", "torch", "the GPU", "the day"],
)
def test_what_has_changed_is_measured_again(
    changed: dict[str, str],
    steps: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "gpu.json"
    run(FakeProcess(), out, monkeypatch)
    assert run(FakeProcess({**MACHINE, **changed}), out, monkeypatch).steps == steps


def test_what_failed_is_measured_again_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "gpu.json"
    failed = GpuTiming(reason="defaults: wrong: 3 times the bound")
    run(FakeProcess(answers=[failed, timing()]), out, monkeypatch)
    assert run(FakeProcess(), out, monkeypatch).steps == []
    assert run(FakeProcess(), out, monkeypatch, "--again").steps == STEPS[:1]


def test_the_time_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not begun, or broken off by the end of the time, is left for another run."""
    out, now = tmp_path / "gpu.json", [0.0]
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])

    class Slow(FakeProcess):
        def ask(self, do: str, limit: float, **values: Any) -> Mapping[str, Any]:
            now[0] += 30 if do == "measure" else 0
            if do == "measure" and limit < 30:
                super().ask(do, limit, **values)
                raise PeerError("no answer within 10 s", "defaults")
            return super().ask(do, limit, **values)

    slow = run(Slow(), out, monkeypatch, "--seconds", "70", status=3)
    assert [(kernel, peer, limit) for kernel, peer, _, limit in slow.asked] == [
        (*STEPS[0], 70),
        (*STEPS[1], 40),
        (*STEPS[2], 10),
    ]
    now[0] = 0.0
    assert run(FakeProcess(), out, monkeypatch).steps == STEPS[2:]


def test_a_form_that_breaks_the_process_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "gpu.json"
    died = PeerError("the process ended with -11: ", "one")
    hung = PeerError("no answer within 240 s", "two")
    process = FakeProcess(answers=[died, hung, GpuTiming(reason="not offered"), died, died])
    run(process, out, monkeypatch, "--kernels", "half")
    assert [skip for _, _, skip, _ in process.asked] == [(), ("one",), ("one", "two"), (), ("one",)]
    record = Record.read(out).timings["half 2048x2048x2048"]
    why = "one: the process ended with -11: ; two: no answer within 240 s"
    assert record["tc"][1].reason == why
    assert record["torch"][1].reason == "the process ended with -11: "


def test_a_gpu_that_cannot_be_used_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(FakeProcess):
        def ask(self, do: str, limit: float, **_: Any) -> Mapping[str, Any]:  # noqa: ARG002
            raise PeerError("ModuleNotFoundError: No module named 'torch'")

    monkeypatch.setattr(gpu, "count_gpus", lambda: 1)
    monkeypatch.setattr(gpu, "GpuProcess", Broken)
    assert gpu.main([]) == 1
    said = "The GPU cannot be used: ModuleNotFoundError: No module named 'torch'\n"
    assert capsys.readouterr().err == said


def recorded() -> Record:
    """One kernel by all peers: at half of its limit, wrong, late, and without limits."""
    least = GpuLimits(**LIMITS).seconds(KERNELS[KERNEL])
    wrong = GpuTiming(error=3.0, reason="defaults: wrong: 3 times the bound")
    late = timing(failures={"other": "wrong: 2 times the bound"})
    assert late.events is not None
    late.events = replace(late.events, late=True)
    sessions = [{"machine": MACHINE, "limits": limits} for limits in (LIMITS, None)]
    timings = {
        "tc": (0, timing(2 * least)),
        "paper": (0, wrong),
        "torch": (0, late),
        "compile": (1, timing()),
    }
    return Record(sessions, {KERNEL: timings})


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_the_tables() -> None:
    record = recorded()
    head, _, row = rows(overview(record))
    assert head == [
        "kernel",
        *(w for p in ("tc", "paper", "torch", "compile") for w in (p, "of limit")),
    ]
    assert row == [KERNEL, "537 us", "50 %", "wrong", "-", "1 ms *", "27 %", "1 ms", "-"]
    shown = rows(details(record))[2:]
    assert [line[:4] for line in shown] == [
        [KERNEL, "tc", "good", "1000"],
        [KERNEL, "torch", "good", "1000 *"],
        [KERNEL, "compile", "good", "1000"],
    ]
    assert shown[2][4:] == [
        "500 us",
        "1 ms",
        "2 ms",
        "1000",
        "500 us",
        "3 ms",
        "2 ms",
        "0.50 s",
        "0.25",
    ]
    assert failures(record).splitlines() == [
        f"- {KERNEL}: paper: defaults: wrong: 3 times the bound",
        f"- {KERNEL}: torch: other left out: wrong: 2 times the bound",
    ]


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    out, record = tmp_path / "of" / "gpu.json", recorded()
    record.write(out)
    assert Record.read(out) == record
    text = out.with_suffix(".md").read_text(encoding="utf-8")
    assert text.startswith("GPU 1 (compute capability 9.0, 3 processors, 8 GB, L2 16 MB), driver")
    assert EXPLAINED in text
    assert [path.name for path in sorted(out.parent.iterdir())] == ["gpu.json", "gpu.md"]
    before = out.read_text(encoding="utf-8")
    out.with_suffix(".md").unlink()
    assert gpu.main(["--tables-of", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == before
    assert out.with_suffix(".md").read_text(encoding="utf-8") == text


def test_tables_of_the_results_are_those_of_their_data(tmp_path: Path) -> None:
    others = {*RESULTS.glob("gpu-constants-*.json"), *RESULTS.glob("gpu-counters-*.json")}
    others |= {*RESULTS.glob("gpu-static-*.json"), *RESULTS.glob("gpu-drawn-*.json")}
    recorded = {*RESULTS.glob("gpu-*.json")} - others
    assert recorded
    for path in recorded:
        Record.read(path).write(tmp_path / path.name)
        for suffix in (".json", ".md"):
            made = (tmp_path / path.name).with_suffix(suffix).read_text(encoding="utf-8")
            assert made == path.with_suffix(suffix).read_text(encoding="utf-8")


def test_names_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(["--peers", "jax"])
    assert "no peer jax; there are tc, paper, torch, compile" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no kernel 'sofmax'"):
        gpu.main(["--kernels", "sofmax"])


def test_a_commit_that_is_told_stands_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "gpu.json"
    own = {n: v for n, v in MACHINE.items() if n not in ("commit", "changed_files")}
    run(FakeProcess(own), out, monkeypatch, "--commit", "told")
    (session,) = json.loads(out.read_text(encoding="utf-8"))["sessions"]
    assert (session["machine"]["commit"], session["machine"]["changed_files"]) == ("told", 0)


# --- `bench.gpu_overhead` times repeated calls, and puts back every function that it replaces.


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
