"""Chains of stencils and of what is computed element by element, on images: beside Halide's, with
what each of its auto-schedulers finds (`bench.peers.halide_images`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import tc
from bench.cpu_kernels.kernel import Kernel
from bench.suites.compiled_texts import TEXTS, elements_beyond
from bench.suites.record import Record, clock, one_thread, timed
from bench.timing import timer_of

MARGINS = {"blur": 2, "unsharp": 4, "harris": 4, "bilateral": 4, "edges": 6, "detail": 9}
"""By how many rows and columns a result is smaller than the image."""
COLOURED = ("unsharp", "harris")
SIZES = ((2048, 2048), (1536, 2560))
SMALL = (37, 61)
SUITE = "images"
LARGEST_DIFFERENCE = 1e-3
"""Of results of Halide, whose elements are of the size of 1, from those of tc."""
MOST_DIFFERENT = 1e-5
"""The part of the elements that may differ by more: where a chain compares two values that are
equal but for rounding, either result is right. Of edges 1536 x 2560, one element is such."""


def has_halide() -> bool:
    return importlib.util.find_spec("halide") is not None


def title(name: str, size: tuple[int, int]) -> str:
    """
    >>> title("blur", (1536, 2560))
    'blur 1536x2560'
    """
    return f"{name} {'x'.join(map(str, size))}"


def kernel_of(name: str, height: int, width: int) -> Kernel:
    """A chain at the size of an image.

    >>> kernel_of("harris", 20, 30).outputs
    {'o': (16, 26)}
    """
    text = (TEXTS / "images" / f"{name}.tc").read_text(encoding="utf-8")
    shape = (3, height, width) if name in COLOURED else (height, width)
    result = tuple(size - MARGINS[name] for size in shape[-2:])
    if name == "unsharp":
        result = (3, *result)
    return Kernel(
        name=name,
        family=name,
        text=text,
        shapes={"x": shape},
        outputs={"o": result},
        reference=lambda x: np.asarray(tc.interpret(text, x)),
        flops=0,
        terms=0,
        low=0.1,
    )


def measured(name: str, size: tuple[int, int], budget: float) -> Record:
    """The times of tc and of Halide under each of its auto-schedulers."""
    from bench.peers.halide_peer import HalidePeer

    little = kernel_of(name, *SMALL).case()
    text = little.kernel.text
    function = tc.compile(text)
    wanted, bound = tc.interpret(text, *little.inputs), tc.error_bound(text, *little.inputs)
    beyond = elements_beyond(function(*little.inputs), wanted, bound)
    case = kernel_of(name, *size).case()
    (output,) = case.outputs
    runs: dict[str, Callable[[], Any]] = {"tc": lambda: function(*case.inputs, outputs=found)}
    found = function(*case.inputs)
    notes: dict[str, str] = {}
    for scheduler, form in HalidePeer(1 if one_thread() else 2, tuned=False).forms(name).items():
        try:
            run = form(case)
            run()
        except Exception as error:
            # Adams2019 has harris fill its rolling rows from before the image, which Halide refuses
            notes[scheduler] = f"{error}".strip().splitlines()[0][:120]
            continue
        if np.mean(~(np.abs(output - found) <= LARGEST_DIFFERENCE)) > MOST_DIFFERENT:
            notes[scheduler] = "differs from tc's result"
            continue
        runs[f"halide {scheduler}"] = run
    seconds, least = timed({n: timer_of(run, clock()) for n, run in runs.items()}, budget)
    return Record(SUITE, title(name, size), "", seconds, least, beyond, notes)
