"""All that is recorded: programs at fixed sizes, options, processors, and what tc makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import tc
from bench.cpu_kernels.kernel import Kernel
from bench.cpu_kernels.table import BY_NAME
from tc import pipeline
from tc.backends import registry
from tc.options import PRESETS
from tc.polyhedral.schedule import to_text
from tc.runtime.sizes import resolve_sizes
from tc.source import Source
from tests.fuzz import files
from tests.fuzz.execute import Arrays, options_of
from tests.fuzz.model import ENTRY
from tests.support.lowering import trace_lowering
from tests.support.programs import CASES, TEXTS, Case

BACKENDS = ("c", "numba")
_WIDE = {"vector_registers": 32, "exponents": True}
DEVICES: Mapping[str, tc.Device] = {
    "avx512": tc.Device(
        vector_bits=512, l1=48 << 10, l2=2 << 20, l3=32 << 20, l3_caches=1, threads=8, **_WIDE
    ),
    "zen4": tc.Device(
        vector_bits=512, unit_bits=256, l1=32 << 10, l2=1 << 20, l3=32 << 20, l3_caches=2,
        l2_bytes_per_cycle=24.0,
        threads=2, **_WIDE,
    ),
    "avx2": tc.Device(
        vector_bits=256, l1=32 << 10, l2=256 << 10, l3=8 << 20, l3_caches=1, threads=4
    ),
    "sse2": tc.Device(
        vector_bits=128, fma=False, l1=32 << 10, l2=512 << 10, l3=0, l3_caches=1, threads=1
    ),
}  # fmt: skip
"""Every field that a choice depends on is given, or a default of the class."""

Inputs = Mapping[str, Any]
Texts = Mapping[str, str]

UNCHECKED = "unchecked"
COLUMNS = "columns"
OPTIONS: Mapping[str, tc.Options] = {"default": tc.Options(), **PRESETS}
"""By the names that stand in the record. `UNCHECKED` and `COLUMNS` are the defaults without checks,
and for inputs in column-major order."""


@dataclass(frozen=True)
class Subject:
    """A program at fixed sizes: its text, the inputs or their shapes, and by name the options that
    it is compiled with. `trees`: the mapped trees are recorded, too."""

    name: str
    text: str
    entry: str | None
    inputs: Callable[[], Inputs]
    options: Mapping[str, tc.Options]
    trees: bool = False

    def texts(self) -> Iterator[tuple[str, Texts]]:
        """Under "NAME DEVICE OPTIONS" the texts of each backend and "tree", or why tc refuses."""
        module = pipeline.parse_source(Source(self.text, self.name))
        program = pipeline.check_module(module, self.entry)
        inputs = self.inputs()
        plain, columns = (_shaped(program, given) for given in (inputs, _by_columns(inputs)))
        for device, options in product(DEVICES, self.options):
            shaped, strides = columns if options == COLUMNS else plain
            chosen = self.options[options]
            try:
                lowering = trace_lowering(
                    shaped,
                    strides,
                    initial=frozenset(program.needs_initial),
                    check=options != UNCHECKED,
                    options=chosen,
                    device=DEVICES[device],
                )
                texts = {b: str(registry.get(b).emit(lowering.kernel, chosen)) for b in BACKENDS}
            except tc.BackendError as refusal:
                texts = dict.fromkeys(BACKENDS, str(refusal))
            else:
                texts |= {"tree": to_text(lowering.mapped.tree)} if self.trees else {}
            yield f"{self.name} {device} {options}", texts


def _shaped(program: Any, inputs: Inputs) -> tuple[Any, Any]:
    sizes = resolve_sizes(program, inputs)
    shaped = pipeline.shape_program(program, sizes)
    return shaped, pipeline.element_strides(shaped, sizes)


def _by_columns(inputs: Inputs) -> Inputs:
    return {
        name: np.asfortranarray(value) if isinstance(value, np.ndarray) and value.ndim else value
        for name, value in inputs.items()
    }


def _of_case(case: Case) -> Subject:
    def inputs() -> Inputs:
        return case.inputs(np.random.default_rng(len(case.name)))

    options = {**OPTIONS, UNCHECKED: tc.Options(), COLUMNS: tc.Options()}
    return Subject(case.name, case.text, case.def_name, inputs, options)


def _of_found(path: Path) -> Subject:
    run = files.read(path)
    options = {**OPTIONS, UNCHECKED: tc.Options()}
    if run.options:
        own = options_of(run, tc)
        options["own"] = replace(own, schedule=replace(own.schedule, seconds=300.0))
    name = f"found/{path.stem}"
    return Subject(name, run.text, ENTRY, lambda: Arrays(run).guarded()[0], options)


def _of_kernel(kernel: Kernel) -> Subject:
    shapes = {n: kernel.scalars.get(n, shape) for n, shape in kernel.shapes.items()}
    name = f"bench/{kernel.name.replace(' ', '_')}"
    return Subject(name, kernel.text, None, lambda: shapes, OPTIONS, trees=True)


_FOUND = sorted((TEXTS / "found").glob("*.tc"))
_ALL = (*map(_of_case, CASES), *map(_of_found, _FOUND), *map(_of_kernel, BY_NAME.values()))
SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in _ALL}
