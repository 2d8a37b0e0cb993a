"""The pictures of README and the site, made from stored results and from what the compiler prints:

    python -m docs.pictures

draws all of them into `docs/pages/pictures`. Times are those of `bench/results`; nothing is timed.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from pygments.token import Keyword, Name, Number, Operator

import tc
from tc.frontend.pygments_lexer import TcLexer

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs/pages/pictures"
RESULTS = ROOT / "bench/results/cpu-amd-epyc-25-17-2cores.json"

INK, PALE, OWN, OTHER = "#1f2933", "#6b7785", "#c2410c", "#12645a"
COLOURS = {
    Keyword: "#3b5bdb",
    Keyword.Type: "#3b5bdb",
    Name.Function: "#862e9c",
    Name.Variable: "#00796b",
    Name.Constant: "#6741d9",
    Name.Builtin: "#862e9c",
    Operator.Word: OWN,
    Number: "#b02a37",
}

TEXT = """\
def mm(float(M,K) A, float(K,N) B) -> (C) {
  C(m,n) +=! A(m,k) * B(k,n)
}"""
SIZES = {"M": 128, "K": 1024, "N": 1024}
DEVICE = tc.Device(vector_bits=512, threads=2)
LIBRARIES = (
    ("Halide", ("halide",)),
    ("JAX", ("jax",)),
    ("PyTorch", ("torch", "compile")),
    ("numba loops", ("numba",)),
    ("numpy", ("numpy",)),
)
"""The libraries, with the ways to run a kernel in each, of which the fastest counts."""


def front() -> None:
    """A statement, the kernel that it becomes, and how long other libraries take."""
    figure = Figure(figsize=(13.6, 5.9), dpi=130, facecolor="white")
    left = figure.add_gridspec(1, 1, left=0.015, right=0.42, top=0.93, bottom=0.795)
    right = figure.add_gridspec(1, 1, left=0.455, right=0.995, top=0.93, bottom=0.02)
    below = figure.add_gridspec(1, 1, left=0.095, right=0.42, top=0.635, bottom=0.07)
    panel(figure.add_subplot(left[0]), "you write", coloured_text(TEXT), size=11)
    loops = tc.explain(TEXT, SIZES, device=DEVICE).stages["loops"].split("\n\n", 1)[1]
    title = "tc makes loops: tiles, packed copies, registers, vectors, threads"
    panel(figure.add_subplot(right[0]), title, coloured_loops(loops), size=8.6)
    chart(figure.add_subplot(below[0]))
    figure.savefig(PICTURES / "front.png", metadata={"Software": None})


def panel(axes: Axes, title: str, lines: Sequence[Sequence[tuple[str, str]]], size: float) -> None:
    """Lines of pieces of text with their colours, in a font of one width."""
    axes.set_facecolor("#f6f7f9")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    box = axes.get_window_extent()
    points = box.width / axes.figure.dpi * 72, box.height / axes.figure.dpi * 72
    wide, high = 0.602 * size / points[0], 1.42 * size / points[1]
    for row, pieces in enumerate(lines):
        column = 0
        for piece, colour in pieces:
            axes.text(
                *(size / points[0] + column * wide, 1 - 0.6 * size / points[1] - row * high),
                piece,
                family="DejaVu Sans Mono",
                fontsize=size,
                color=colour,
                transform=axes.transAxes,
                va="top",
                weight="bold" if colour == OWN else "normal",
            )
            column += len(piece)


def coloured_text(text: str) -> list[list[tuple[str, str]]]:
    """The lines of a tensor comprehension, each as pieces with their colours."""
    lines: list[list[tuple[str, str]]] = [[]]
    for _, kind, value in TcLexer().get_tokens_unprocessed(text):
        first, *others = value.split("\n")
        colour = COLOURS.get(kind, INK)
        lines[-1].append((first, colour))
        lines += [[(part, colour)] for part in others]
    return lines


def coloured_loops(text: str) -> list[list[tuple[str, str]]]:
    """The lines of a loop program; words for what runs at once stand out."""
    words = {"parallel": OWN, "vector": OWN, "unroll": OWN, "for": "#3b5bdb", "in": "#3b5bdb"}
    words |= dict.fromkeys(("kernel", "input", "output", "scratch", "register"), "#3b5bdb")
    words |= {"region": "#3b5bdb"}

    def pieces(line: str) -> Iterator[tuple[str, str]]:
        if line.lstrip().startswith("#"):
            yield line, PALE
            return
        for piece in re.findall(r"\w+|\W+", line):
            yield piece, words.get(piece, INK)

    width = 92
    lines = []
    for line in text.rstrip().split("\n"):
        indent = len(line) - len(line.lstrip())
        wrapped = textwrap.wrap(
            *(line, width),
            subsequent_indent=" " * (indent + 4),
            drop_whitespace=True,
            break_long_words=False,
        )
        wrapped[0] = " " * indent + wrapped[0].lstrip()
        lines += [list(pieces(part)) for part in wrapped]
    return lines


def chart(axes: Axes) -> None:
    """The time of each library over that of tc: a dot for each kernel, a bar for their mean."""
    kernels: list[dict[str, Any]] = json.loads(RESULTS.read_text("utf-8"))["kernels"]
    for row, (name, ways) in enumerate(reversed(LIBRARIES)):
        ratios = [
            min(kernel["seconds"][way] for way in ways if way in kernel["seconds"])
            / kernel["seconds"]["tc"]
            for kernel in kernels
            if any(way in kernel["seconds"] for way in ways)
        ]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        axes.barh(row, mean - 1, left=1, height=0.62, color=OTHER, alpha=0.85, zorder=2)
        axes.plot(ratios, [row] * len(ratios), "o", color=INK, alpha=0.35, markersize=3.2, zorder=3)
        axes.text(-0.02, row, name, transform=axes.get_yaxis_transform(), ha="right", va="center")
        axes.text(1.01, row, f"{mean:.1f}", transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(1, color=OWN, linewidth=1.6, zorder=4)
    axes.set_xscale("log")
    axes.set_xlim(0.6, 48)
    axes.set_ylim(-0.6, len(LIBRARIES) - 0.4)
    ticks = [1, 2, 4, 8, 16, 32]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter(["as fast as tc", *(f"{n}x" for n in ticks[1:])]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([])
    axes.tick_params(colors=PALE, length=0, labelsize=9)
    axes.grid(axis="x", color="#e3e7eb", zorder=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(
        f"how long others take: {len(kernels)} kernels, two threads of a Zen 4\n",
        loc="left",
        x=-0.25,
        fontsize=11,
        color=INK,
        fontweight="bold",
    )
    note = "their time over that of tc: dots are kernels, bars and numbers geometric means"
    axes.text(-0.25, 1.03, note, transform=axes.transAxes, fontsize=8.5, color=PALE)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    matplotlib.rcParams["text.hinting"] = "no_hinting"  # letters of one width
    front()
