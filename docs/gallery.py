"""The pictures of the gallery: what the operators of `examples/` do to pictures that are made here.

    python -m docs.gallery

runs the texts of the examples, and draws into `docs/pages/pictures`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tc

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs/pages/pictures"
SIZE = 192


def text_of(example: str) -> str:
    """The text of an example, as its script has it between triple quotes."""
    code = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    found = re.search(r'TEXT = """\n(.*?)"""', code, re.DOTALL)
    assert found is not None
    return found[1]


def scene(height: int, width: int) -> np.ndarray:
    """A picture with edges, a slope and a disc."""
    y, x = np.mgrid[:height, :width] / min(height, width)
    picture = 0.25 + 0.35 * x
    picture[(np.sin(14 * x + 6 * y) > 0.2) & (y > 0.55)] = 0.85
    picture[(y - 0.33) ** 2 + (x - 0.35) ** 2 < 0.04] = 0.95
    picture[(abs(y - 0.3) < 0.16) & (abs(x - 0.75) < 0.12)] = 0.08
    return picture.astype(np.float32)


def bilateral() -> Mapping[str, np.ndarray]:
    """Noise goes, edges stay; a mean with the same weights of distance blurs both."""
    rng = np.random.default_rng(0)
    noisy = scene(SIZE + 6, SIZE + 6) + rng.normal(0, 0.12, (SIZE + 6, SIZE + 6)).astype(np.float32)
    place = np.arange(-3, 4, dtype=np.float32)
    near = np.exp(-0.1 * (place[:, None] ** 2 + place**2))
    mean = tc.compile("""
def mean(float(HH,WW) image, float(K,K) near) -> (o) {
  total +=! near(y,x)
  o(h,w) +=! near(y,x) * image(h+y,w+x) / total
}""")
    kept = tc.compile(text_of("bilateral"))(noisy, near)
    return {"with noise": noisy[3:-3, 3:-3], "mean": mean(noisy, near), "bilateral": kept}


def cost_volume() -> Mapping[str, np.ndarray]:
    """How far each pixel has moved: the place of the largest cost, after a mean of neighbours."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, SIZE, SIZE), np.float32)
    y, x = np.mgrid[:SIZE, :SIZE]
    inside = (y - 96) ** 2 + (x - 96) ** 2 < 60**2
    moved = np.where(inside, 3, -2), np.where(inside, -2, 1)  # down and right
    b = a[:, (y - moved[0]) % SIZE, (x - moved[1]) % SIZE]
    cost = tc.compile(text_of("cost_volume"))(a, b)
    near = tc.compile("""
def near(float(Y,X,H,W) cost) -> (o) {
  o(y,x,h,w) +=! pad(cost(y, x, h + i - 2, w + j - 2), 0)
    where i in 0:5, j in 0:5, h in 0:H, w in 0:W
}""")(cost)
    best = near.reshape(49, SIZE, SIZE).argmax(0)
    return {
        "one feature of the first": a[0],
        "moved down by": best // 7 - 3,
        "right by": best % 7 - 3,
    }


def deformable() -> Mapping[str, np.ndarray]:
    """A picture read at places that two tensors say: a swirl."""
    picture = scene(SIZE, SIZE)
    y, x = np.mgrid[:SIZE, :SIZE] - SIZE / 2
    turn = 2.2 * np.exp(-(x**2 + y**2) / 50**2)
    dy = np.round(x * np.sin(turn) + y * (np.cos(turn) - 1)).astype(np.int32)
    dx = np.round(x * (np.cos(turn) - 1) - y * np.sin(turn)).astype(np.int32)
    weights = np.ones((1, 1, 1), np.float32)
    (swirl,) = tc.compile(text_of("deformable"))(picture[None], dy[None], dx[None], weights)
    return {"picture": picture, "offsets dy": dy, "read there": swirl}


def kernel_prediction() -> Mapping[str, np.ndarray]:
    """Each pixel has a kernel of its own: a blur along the rays, the wider the farther outside."""
    picture = scene(SIZE + 12, SIZE + 12)[None]
    y, x = np.mgrid[:SIZE, :SIZE] - SIZE / 2
    distance = np.hypot(y, x) + 1e-3
    places = np.arange(-6, 7)
    along = (y / distance)[..., None, None] * places[:, None]
    along = along + (x / distance)[..., None, None] * places
    across = places[:, None] ** 2 + places**2 - along**2
    reach = (0.05 + 9 * distance / distance.max())[..., None, None]
    kernels = np.exp(-((along / reach) ** 2) - 3 * across)
    kernels /= kernels.sum((2, 3), keepdims=True)
    (blurred,) = tc.compile(text_of("kernel_prediction"))(picture, kernels.astype(np.float32))
    return {
        "picture": picture[0, 6:-6, 6:-6],
        "one plane of weights": kernels[:, :, 6, 2],
        "o": blurred,
    }


def tropical() -> Mapping[str, np.ndarray]:
    """Shortest paths through a field with walls: products of maxima and sums, squared until all
    paths are in them. Costs are negative, so that the maximum is the shortest."""
    side = 24
    free = np.ones((side, side), bool)
    free[6, :18], free[12, 6:], free[18, :18] = False, False, False
    places = np.argwhere(free)
    steps = abs(places[:, None] - places).sum(-1)
    costs = np.where(steps <= 1, -steps, -1e9).astype(np.float32)
    best = tc.compile(text_of("tropical"))
    for _ in range(10):
        costs = best(costs, costs)
    lengths = np.full((side, side), np.nan)
    lengths[free] = -costs[0]
    return {"walls": ~free, "steps of all pairs": -costs, "steps from the corner": lengths}


GALLERY = {
    show.__name__: show
    for show in (bilateral, cost_volume, deformable, kernel_prediction, tropical)
}


def draw(name: str) -> None:
    """Draws the pictures of one example beside each other, into one file."""
    panels = GALLERY[name]()
    figure = Figure(figsize=(9.6, 3.4), dpi=100, facecolor="white")
    for number, (title, values) in enumerate(panels.items()):
        axes = figure.add_axes((0.004 + number * 0.333, 0.01, 0.325, 0.89))
        is_picture = values.dtype == np.float32 and values.max() < 9
        axes.imshow(values, cmap="gray" if is_picture else "viridis", interpolation="nearest")
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    figure.savefig(PICTURES / f"{name}.png", metadata={"Software": None})


if __name__ == "__main__":
    for each in GALLERY:
        draw(each)
