"""`bench.gpu_constants` and `bench.gpu_counters`: texts that compile, rings that reach every line,
and what is printed where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest

from bench import gpu_constants, gpu_counters
from bench.gpu_constants import Probe, probes, ring, stream
from bench.gpu_device import NoGpu
from tc.backends import nvrtc

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
