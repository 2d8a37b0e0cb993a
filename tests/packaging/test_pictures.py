"""The picture of README shows what was recorded and what the compiler prints."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure

from docs import pictures

ROOT = Path(__file__).parents[2]
KERNELS = json.loads((ROOT / "bench/results/cpu-amd-epyc-25-17-2cores.json").read_text("utf-8"))


def test_bars_are_the_means_of_the_recorded_times() -> None:
    axes = Figure().add_subplot()
    pictures.chart(axes)
    texts = [text.get_text() for text in axes.texts]
    ratios = [k["seconds"]["halide"] / k["seconds"]["tc"] for k in KERNELS["kernels"]]
    assert texts[texts.index("Halide") + 1] == f"{geometric_mean(ratios):.1f}"
    fastest = [
        min(k["seconds"]["torch"], k["seconds"]["compile"]) / k["seconds"]["tc"]
        for k in KERNELS["kernels"]
    ]
    assert texts[texts.index("PyTorch") + 1] == f"{geometric_mean(fastest):.1f}"
    assert f"{len(KERNELS['kernels'])} kernels" in axes.get_title("left")


def test_coloured_lines_are_the_lines() -> None:
    lines = pictures.coloured_text(pictures.TEXT)
    assert "\n".join("".join(piece for piece, _ in line) for line in lines) == pictures.TEXT
    loops = "kernel f\n  parallel for i in 0:4\n    # all of it\n    o[i] = x[i] + 1.0f"
    lines = pictures.coloured_loops(loops)
    assert "\n".join("".join(piece for piece, _ in line) for line in lines) == loops
    assert pictures.OWN in {colour for _, colour in lines[1]}
    assert len(lines[2]) == 1


def test_the_picture_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    pictures.front()
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
