"""The picture of README shows what was recorded and what the compiler prints; the gallery shows
what the operators of the examples compute."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure

from docs import gallery, pictures

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


def test_paths_of_the_gallery_are_the_shortest() -> None:
    shown = gallery.tropical()
    free, lengths = ~shown["walls"], shown["steps from the corner"]
    known = {(0, 0): 0}
    queue = [(0, 0)]
    for y, x in queue:  # breadth first
        for place in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            inside = all(0 <= at < len(free) for at in place)
            if inside and free[place] and place not in known:
                known[place] = known[y, x] + 1
                queue.append(place)
    assert {place: int(lengths[place]) for place in known} == known
    assert np.isnan(lengths).sum() == (~free).sum() == free.size - len(known)


def test_the_swirl_of_the_gallery_is_a_gather() -> None:
    """Its lengths of steps are those of the angle, and outside there is 0."""
    shown = gallery.deformable()
    size = gallery.SIZE
    y, x = np.mgrid[:size, :size] - size / 2
    turn = 2.2 * np.exp(-(x**2 + y**2) / 50**2)
    row = (y + size / 2 + shown["offsets dy"]).astype(int)
    column = (x + size / 2 + np.round(x * (np.cos(turn) - 1) - y * np.sin(turn))).astype(int)
    inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
    expected = np.where(inside, shown["picture"][row % size, column % size], 0)
    np.testing.assert_array_equal(shown["read there"], expected)


@pytest.mark.parametrize("name", gallery.GALLERY)
def test_the_gallery_has_each_picture(name: str) -> None:
    page = (ROOT / "docs/pages/gallery.md").read_text("utf-8")
    assert f"(pictures/{name}.png)\n\n<!-- text of {name} -->" in page
    assert (gallery.PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert gallery.text_of(name).startswith("def ")
