"""Programs that a seed draws for GPUs: right on the machine for PTX, and what is made of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import gpu_drawn
from bench.gpu_drawn import Unseen, drawn_report, drawn_row, fault_of, regret_report, unseen
from tc.backends import sass

SEED = 0xA297CD2F
COUNT = 80
RESULTS = sorted(gpu_drawn.RESULTS.glob("gpu-drawn-*.json"))
REGRETS = sorted(gpu_drawn.RESULTS.glob("gpu-regret-*.json"))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("number", range(COUNT))
def test_texts_at_tiny_sizes(number: int) -> None:
    one = unseen(COUNT, SEED)[number]
    assert fault_of(one) == "", one.text


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gpu_drawn.tc.interpret
    monkeypatch.setattr(gpu_drawn.tc, "interpret", lambda *given: 1 + real(*given))
    assert "out of bounds" in fault_of(unseen(1, SEED)[0])


def test_a_record_of_a_program() -> None:
    """A copy of 2**22 numbers: twice as many bytes, at the rate of memory, and a launch."""
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    text = "def f(float(N) x) -> (y) { y(i) = x(i) }"
    little = [gpu_drawn.np.ones(7, gpu_drawn.np.float32)]
    row = drawn_row(Unseen("copy", text, {"x": (1 << 22,)}, {}, little))
    rate = gpu_drawn.MACHINES[gpu_drawn.MODELLED].memory_rate
    assert row["limit us"] == pytest.approx(1 + 1e6 * (8 << 22) / rate, abs=0.01)
    assert (row["fault"], len(row["launches"])) == ("", 1)
    assert 0.9 < row["over limit"] < 1.5  # what is written may stay in the second cache


@pytest.mark.parametrize("path", RESULTS + REGRETS, ids=lambda path: path.stem)
def test_tables_are_those_of_the_recorded_data(path: Path) -> None:
    report = drawn_report if path in RESULTS else regret_report
    made = report(json.loads(path.read_text(encoding="utf-8")))
    assert made + "\n" == path.with_suffix(".md").read_text(encoding="utf-8")
