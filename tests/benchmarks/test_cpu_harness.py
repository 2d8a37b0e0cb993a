"""The harness of `bench.cpu`: what it makes of timings, and of peers that fail, lie or hang."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import cpu, cpu_machine
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels.kernel import Case, Kernel
from bench.cpu_kernels.table import LISTED, PRIME
from bench.cpu_limits import Limits, Machine
from bench.cpu_measure import Settings, Timing, measure, references
from bench.cpu_report import cells, failures_text, padding, row_of, summary
from bench.peers.peer import Form, Run
from bench.peers.process import PeerError, PeerProcess
from bench.peers.worker import Session

LONG = 600  # seconds, for what takes one, on a machine that has other work as well
LIMITS = Limits(100e9, (1000, 10**9), (10e9, 10e9), (10e9, 10e9))
KERNEL = cs.tmm(4, 8, 16)


def timings(**seconds: float | None) -> dict[str, Timing]:
    return {
        name: Timing(reason="absent") if time is None else Timing(time, time / 2)
        for name, time in seconds.items()
    }


def test_medians_over_runs() -> None:
    runs = [timings(numpy=2.0, jax=3.0, tc=1.0), timings(numpy=4.0, jax=3.0, tc=1.0)]
    row = row_of(KERNEL, [*runs, timings(numpy=8.0, jax=9.0, tc=4.0)], LIMITS)
    assert row.seconds == {"numpy": 4.0, "jax": 3.0, "tc": 1.0}
    assert row.ratio == 3.0  # of the times that stand beside it
    assert row.fastest == "jax"


def test_least_times_on_request() -> None:
    assert row_of(KERNEL, [timings(numpy=4.0)], LIMITS, least=True).seconds == {"numpy": 2.0}


def test_a_failed_peer_is_named_with_its_reason() -> None:
    row = row_of(KERNEL, [timings(numpy=2.0, jax=None, tc=None)], LIMITS)
    assert row.ratio is None
    assert cells(row, ["numpy", "jax"])[-2:] == ["2 s", "-"]
    assert "tmm 4x8x16: jax: absent" in failures_text([row])
    assert "no ratio: tmm" in summary([row_of(LISTED[0], [timings(tc=None)], LIMITS)])


def test_least_time_is_the_larger_of_flops_and_bytes() -> None:
    assert LIMITS.seconds(flops=10**11, read=1, written=1) == 1.0
    assert LIMITS.seconds(flops=1, read=10**9, written=10**9) == pytest.approx(0.2)


def test_summary_tells_groups_apart_and_names_the_slow() -> None:
    rows = [
        row_of(LISTED[0], [timings(jax=2.0, tc=1.0)], LIMITS),
        row_of(LISTED[1], [timings(jax=0.5, tc=1.0)], LIMITS),
        row_of(PRIME[0], [timings(jax=3.0, tc=1.0)], LIMITS),
    ]
    text = summary(rows)
    assert "listed: geometric mean 1.000 over 2 kernels, least 0.50" in text
    assert f"under 0.95: {LISTED[1].name} 0.50" in text
    assert "prime: geometric mean 3.000" in text


def test_padding_is_compared_per_output() -> None:
    plain, padded = (
        next(k for k in LISTED if k.family == family) for family in ("conv2d", "conv2d_pad")
    )
    more = padded.bytes_written / plain.bytes_written
    rows = [row_of(plain, [timings(tc=1.0)], LIMITS), row_of(padded, [timings(tc=more)], LIMITS)]
    assert padding(rows) == [
        "conv2d with padding: 1.00 of the time per output (asked: 1.1 at most)"
    ]


def test_limits_are_measured() -> None:
    machine = Machine(1)
    assert machine.peak(budget=0.001, rounds=1) > 1e8
    for name in ("read", "copy", "copy_nt"):
        assert machine.bandwidth(name, 2**16, budget=0.001, rounds=1) > 1e6


class Fake:
    """A peer with three forms: one is right, one is wrong, and one cannot be built."""

    def version(self) -> str:
        return "fake 1"

    def forms(self, family: str) -> Mapping[str, Form]:  # noqa: ARG002
        return {"wrong": self._wrong, "broken": self._broken, "right": self._right}

    def _right(self, case: Case) -> Run:
        def run() -> None:
            time.sleep(0.002)
            np.matmul(case.inputs[0], case.inputs[1].T, out=case.outputs[0])

        return run

    def _wrong(self, case: Case) -> Run:
        return lambda: case.outputs[0].fill(0)

    def _broken(self, case: Case) -> Run:
        raise ValueError(f"cannot build {case.kernel.family}")


def test_only_right_forms_are_timed(tmp_path: Path) -> None:
    said: list[str] = []
    session = Session(Fake(), said.append)
    assert session.prepare(KERNEL, skip=())["built"] == ["wrong", "right"]
    chosen = session.choose(**references(KERNEL, tmp_path))
    assert chosen["form"] == "right"
    assert chosen["error"] <= 1
    assert chosen["failures"]["broken"] == "ValueError: cannot build tmm"
    assert chosen["failures"]["wrong"].startswith("wrong: ")
    assert min(session.sample(0.01)["samples"]) >= 0.002
    assert session.check(**references(KERNEL, tmp_path))["error"] <= 1
    assert said[:3] == ["wrong", "broken", "right"]


@pytest.fixture
def numpy_process() -> Iterator[PeerProcess]:
    process = PeerProcess("numpy", 2)
    yield process
    process.end()


def test_a_process_measures_a_kernel(numpy_process: PeerProcess, tmp_path: Path) -> None:
    settings = Settings(rounds=2, build_limit=LONG)
    timing = measure(LISTED[0], [numpy_process], settings, tmp_path)["numpy"]
    assert timing.reason == ""
    assert timing.form == "product"
    assert timing.seconds is not None
    assert timing.low is not None
    assert 0 < timing.low <= timing.seconds
    assert timing.samples == 2
    assert timing.error is not None
    assert timing.error <= 1
    assert numpy_process.version.startswith("numpy")


def test_a_process_that_hangs_is_ended_and_started_anew(
    numpy_process: PeerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stays stopped, as between questions, and so never answers."""
    numpy_process.ask("drop", LONG)
    send = PeerProcess._signal
    with monkeypatch.context() as patch:
        patch.setattr(PeerProcess, "_signal", lambda self, n: n == signal.SIGCONT or send(self, n))
        with pytest.raises(PeerError, match="no answer within 0 s") as caught:
            numpy_process.ask("prepare", 0.1, kernel="sgemm 2048x2048x2048", skip=[])
    assert caught.value.at == ""
    assert numpy_process.ask("drop", LONG) == {}


def test_an_unknown_kernel_is_an_answer_not_a_death(numpy_process: PeerProcess) -> None:
    with pytest.raises(PeerError, match="no such"):
        numpy_process.ask("prepare", LONG, kernel="no such", skip=[])
    assert numpy_process.ask("drop", LONG) == {}


def test_a_peer_that_cannot_start_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.process.environment", lambda *_: {"PATH": "/nowhere"})
    process = PeerProcess("no-such-peer", 2)
    with pytest.raises(PeerError) as first:
        process.ask("drop", LONG)
    with pytest.raises(PeerError) as second:
        process.ask("drop", LONG)
    assert first.value.reason == second.value.reason == process.missing


def fixed(kernel: Kernel, peers: object, *_: object) -> dict[str, Timing]:  # noqa: ARG001
    return timings(numpy=2e-3, tc=1e-3)


def test_results_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    patched: dict[str, Callable[..., Any]] = {
        "measure": fixed,
        "measured_limits": lambda *_: LIMITS,
    }
    for name, function in patched.items():
        monkeypatch.setattr(cpu, name, function)
    out = tmp_path / "cpu-test"
    cpu.main(["--kernels", "softmax", "--peers", "numpy,tc", "--runs", "3", "--out", str(out)])
    data = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert data["kernels"][0]["ratio"] == 2.0
    assert len(data["kernels"][0]["runs"]) == 3
    assert data["limits"]["flops"] == 100e9
    assert {"processor", "packages", "date", "commit"} <= set(data["machine"])
    assert "| softmax 512x4096" in out.with_suffix(".md").read_text(encoding="utf-8")
    assert "geometric mean 2.000" in capsys.readouterr().out


def test_unknown_peers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu.arguments_of(["--peers", "nunpy"])
    assert "no peer nunpy" in capsys.readouterr().err


def test_machine_is_described() -> None:
    described = cpu_machine.describe(("numpy",), 2)
    assert np.__version__ in cpu_machine.one_line(described)
    assert described["processor"]["model name"]
