"""The texts of all kernels, a file each: `python -m bench.texts FOLDER`.

A change that is to leave kernels as they are is checked by two folders, one written before the
change and one after it: `diff -r BEFORE AFTER` shows each text that differs. The kernels are those
of `bench.cpu` and of the table of programs, for every backend that has texts, with devices that
this machine does not decide; beside them stand the texts of gradients, of tangents and of their
kernels of C.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tc
from bench.cpu_kernels.table import BY_NAME
from tests.support.programs import CASES

CPU = tc.Device(
    vector_bits=512,
    unit_bits=256,
    vector_registers=32,
    exponents=True,
    l2=1 << 20,
    l3=32 << 20,
    threads=2,
)
GPU = tc.Gpu.named("sm_90")
DEVICES: Mapping[str, tc.Device | tc.Gpu] = {"c": CPU, "numba": CPU, "cuda": GPU, "opencl": GPU}


@dataclass(frozen=True)
class Subject:
    """A program at one set of sizes: its text, its def, and the shapes of arrays or the values of
    scalars by name."""

    name: str
    text: str
    entry: str | None
    given: Mapping[str, Any]


def subjects() -> Iterator[Subject]:
    """The kernels of `bench.cpu`, then the table of programs."""
    for kernel in BY_NAME.values():
        given = {**kernel.shapes, **kernel.scalars}
        yield Subject(f"bench {kernel.name}", kernel.text, None, given)
    for case in CASES:
        arrays = case.inputs(np.random.default_rng(0))
        yield Subject(f"program {case.name}", case.text, case.def_name, arrays)


def text_of(subject: Subject, backend: str) -> str:
    """The code, or the error that says why there is none."""
    given, device = dict(subject.given), DEVICES[backend]
    try:
        return str(
            tc.emit(subject.text, given, entry=subject.entry, backend=backend, device=device)
        )
    except tc.TCError as error:
        return f"{type(error).__name__}: {error}\n"


def derivative_of(subject: Subject, transform: Callable[..., str]) -> str:
    """The text of a derivative, or the error that says why there is none."""
    try:
        return str(transform(subject.text, entry=subject.entry))
    except tc.TCError as error:
        return f"{type(error).__name__}: {error}\n"


def _write(folder: Path, subject: Subject) -> None:
    warnings.simplefilter("ignore")
    texts = {backend: text_of(subject, backend) for backend in DEVICES}
    for name, transform in {"grad": tc.grad, "jvp": tc.jvp}.items():
        texts[name] = derivative_of(subject, transform)
    if not any("Error:" in texts[name] for name in ("c", "grad")):
        texts["grad c"] = text_of(gradient_of(subject, texts["grad"]), "c")
    for what, text in texts.items():
        name = f"{subject.name} {what}.txt".replace("/", "_").replace(" ", "_")
        (folder / name).write_text(text, encoding="utf-8")


def gradient_of(subject: Subject, text: str) -> Subject:
    """A gradient at the sizes of its program. Its inputs are some of those of the program, saved
    outputs, values of outputs before the call (`O_0`) and weights of outputs (`d_O`)."""
    made = tc.compile(subject.text, entry=subject.entry, backend="interpret")
    shapes = {name: info.shape for name, info in made.infer(dict(subject.given)).items()}
    beside = {f: shape for name, shape in shapes.items() for f in (f"d_{name}", f"{name}_0")}
    every = {**beside, **shapes, **subject.given}
    wanted = tc.compile(text, backend="interpret").program.inputs
    return Subject(subject.name, text, None, {name: every[name] for name in wanted})


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    every = list(subjects())
    with ProcessPoolExecutor() as pool:
        list(pool.map(_write, [folder] * len(every), every))
    print(f"{len(every)} programs after {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
