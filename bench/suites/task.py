"""What the benchmark runs: one program of one suite."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from bench.cpu import words
from bench.suites import drawn, images, kernelbench, npbench, products, tccg
from bench.suites.apart import measured_apart
from bench.suites.contraction import Contraction, Peers, einsum_peers, measured, product_peers
from bench.suites.record import Record


@dataclass(frozen=True)
class Task:
    """A program by its suite and its name there; `run` measures the program, in turns of so many
    seconds together."""

    suite: str
    name: str
    run: Callable[[float], Record]


def tasks(roots: Mapping[str, Path], chosen: argparse.Namespace) -> Iterator[Task]:
    """All that the arguments ask for, in order."""
    if chosen.contractions:
        yield from of_drawn(chosen)
    if chosen.products:
        yield from of_products(chosen)
    if chosen.images:
        yield from of_images(chosen)
    if "tccg" in roots:
        yield from of_tccg(roots["tccg"], chosen)
    if "npbench" in roots:
        yield from of_npbench(roots["npbench"], chosen)
    if "kernelbench" in roots:
        yield from of_kernelbench(roots["kernelbench"], chosen)


def of_tccg(root: Path, chosen: argparse.Namespace) -> Iterator[Task]:
    for layout in words(chosen.layout):
        for mib in map(float, words(chosen.mib)):
            for group, equation in tccg.equations(root):
                contraction = tccg.contraction_of(group, equation, mib, layout)
                yield _contraction(f"TCCG {mib:g} MiB {layout}", equation, contraction)


def of_drawn(chosen: argparse.Namespace) -> Iterator[Task]:
    types = words(chosen.types)
    kind = "" if types == ["float", "double"] else f" {chosen.types}"
    suite = f"contractions{kind} seed {chosen.seed}"
    found = drawn.drawn_contractions(chosen.contractions, chosen.seed, types)
    for number, contraction in enumerate(found):
        yield _contraction(suite, f"{number} {contraction.einsum}", contraction)


def of_products(chosen: argparse.Namespace) -> Iterator[Task]:
    del chosen
    for name, contraction in products.products().items():
        yield _contraction("products", name, contraction, product_peers)


def of_images(chosen: argparse.Namespace) -> Iterator[Task]:
    del chosen
    if not images.has_halide():
        print("--images: Halide is not installed (pip install halide), and nothing is measured")
        return
    for name, size in product(images.MARGINS, images.SIZES):
        yield Task(images.SUITE, images.title(name, size), partial(images.measured, name, size))


def of_npbench(root: Path, chosen: argparse.Namespace) -> Iterator[Task]:
    names = npbench.ALL if chosen.recurrences else npbench.PROGRAMS
    for preset in words(chosen.presets):
        for name in npbench.offered(root, names):
            suite = npbench.suite_of(name, preset)
            yield _apart("npbench", root, name, preset, suite, name, words(chosen.without))


def of_kernelbench(root: Path, chosen: argparse.Namespace) -> Iterator[Task]:
    for name, path in kernelbench.paths(root).items():
        title = kernelbench.title(path)
        suite = kernelbench.SUITE
        yield _apart("kernelbench", root, name, "", suite, title, words(chosen.without))


def _apart(
    kind: str,
    root: Path,
    name: str,
    setting: str,
    suite: str,
    title: str,
    without: Sequence[str],
) -> Task:
    return Task(
        suite,
        title,
        lambda budget: measured_apart(kind, root, name, setting, budget, suite, title, without),
    )


def _contraction(
    suite: str, name: str, contraction: Contraction, peers: Peers = einsum_peers
) -> Task:
    return Task(
        suite, name, lambda budget: measured(contraction, suite, name, budget=budget, peers=peers)
    )
