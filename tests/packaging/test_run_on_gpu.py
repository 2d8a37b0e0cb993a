"""`tools.run_on_gpu`, with a driver that stands in for CUDA's, and a script for its processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from bench.gpu_device import NoGpu
from bench.gpu_overhead import posing
from tc.backends.cuda_driver import DriverError
from tests.support.programs import CASES
from tests.support.stand_in import StandInDriver, stand_in
from tools import run_on_gpu
from tools.run_on_gpu import CALLED, EMITTED, Library, check_call, check_text, main, names, run_here

__all__ = ["stand_in"]

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
SGEMM = "sgemm: emitted, default"


@pytest.mark.parametrize("way", EMITTED)
@pytest.mark.usefixtures("stand_in")
def test_texts(way: str) -> None:
    for program in ("sgemm", "prodModel", "downsample"):
        check_text(f"{program}: {way}", "cuda")


def test_a_program_of_the_paper(stand_in: StandInDriver) -> None:
    check_text("tmm: emitted, paper", "cuda")
    assert stand_in.names().count("launch") == 1


@contextmanager
def torch_library(patch: pytest.MonkeyPatch) -> Iterator[None]:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    patch.setitem(run_on_gpu.CALLED, "called, torch", lambda: run_on_gpu.torch_library("cpu"))
    with posing(torch):
        yield


@pytest.mark.usefixtures("stand_in")
def test_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch_library(monkeypatch):
        for library in ("torch", "numpy"):
            for program in ("sgemm", "prodModel", "downsample"):
                check_call(f"{program}: called, {library}", "cuda")


@pytest.mark.parametrize("check", [check_text, check_call])
def test_wrong_results_are_found(
    check: Any, stand_in: StandInDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a launch that does nothing, the output holds values that no program gives."""
    monkeypatch.setattr(stand_in, "launcher", lambda *_: lambda *_: None)
    name = SGEMM if check is check_text else "tmm: called, numpy"
    with pytest.raises(AssertionError, match="elements are out of bounds"):
        check(name, "cuda")


def test_outputs_that_are_read_are_new_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def thrice(call: Any) -> Any:
        for _ in range(3):
            seen.append(call().copy())
        return seen[-1]

    monkeypatch.setitem(CALLED, "called, numpy", lambda: Library(np.copy, np.asarray, thrice))
    check_call("sgemm: called, numpy", "numba")
    assert (seen[0] == seen[1]).all()
    assert (seen[1] == seen[2]).all()


def test_the_first_failure_ends_a_process(
    stand_in: StandInDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.faults["launch"] = DriverError("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal address")
    chosen = [SGEMM, "tmm: emitted, default"]
    assert not run_here(chosen, "cuda")
    said = capsys.readouterr().out
    assert said.startswith(f"FAILED {SGEMM}\nTraceback")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal address" in said
    assert "tmm" not in said
    assert run_here(chosen, "cuda")
    assert capsys.readouterr().out == f"ok {SGEMM}\nok tmm: emitted, default\n"


PROCESS = """
import os, sys
for name in sys.argv[1:]:
    if name in {bad!r}: print("FAILED", name); sys.exit(1)
    if name in {deadly!r}: os._exit(9)
    if ":" in name: print("ok", name, flush=True)
"""


def pretend(patch: pytest.MonkeyPatch, *, bad: set[str], deadly: set[str]) -> None:
    text = PROCESS.format(bad=bad, deadly=deadly)
    patch.setattr(run_on_gpu, "COMMAND", (sys.executable, "-c", text))


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_on_gpu, "count_gpus", lambda: 1)


def test_no_gpu_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> int:
        raise NoGpu("no driver of CUDA: libcuda.so.1: cannot open")

    pretend(monkeypatch, bad={*names()}, deadly=set())
    monkeypatch.setattr(run_on_gpu, "count_gpus", none)
    assert main([]) == 0
    assert capsys.readouterr().out == (
        "There is no GPU here (no driver of CUDA: libcuda.so.1: cannot open), so nothing is run.\n"
    )
    assert main(["--backend", "opencl", "--most", "1", SGEMM]) == 1  # which may run anywhere


@pytest.mark.usefixtures("one_gpu")
def test_others_go_on_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, deadly = "tmm: emitted, naive", "tbmm: emitted, default"
    pretend(monkeypatch, bad={bad}, deadly={deadly})
    assert main(["emitted"]) == 1
    said = capsys.readouterr().out.splitlines()
    chosen = [name for name in names() if "emitted" in name]
    assert [line for line in said if line.startswith("ok ")] == [
        f"ok {name}" for name in chosen if name not in (bad, deadly)
    ]
    told = [f"  not {name}" for name in chosen if name in (bad, deadly)]
    assert said[-3:] == [f"{len(chosen) - 2} of {len(chosen)} are right", *told]


@pytest.mark.usefixtures("one_gpu")
def test_it_ends_with_many_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, bad={*names()}, deadly=set())
    assert main(["--most", "2", "called, numpy"]) == 1
    said = capsys.readouterr().out
    assert said.count("-- so much for") == 2
    assert said.count("not tried: ") == len(CASES) - 2
    assert f"\n0 of {len(CASES)} are right\n" in said


@pytest.mark.usefixtures("one_gpu")
def test_all_is_right(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pretend(monkeypatch, bad=set(), deadly=set())
    assert main([]) == 0
    count = len(names())
    assert count > len(CASES) * (len(EMITTED) + len(CALLED) - 1) + len(run_on_gpu.KERNELS)
    assert capsys.readouterr().out.endswith(f"{count} of {count} are right\n")


def test_no_such_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sofmax"])
    assert "there is nothing of such a name" in capsys.readouterr().err
