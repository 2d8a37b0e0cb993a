"""The barriers of the table's programs: without any of them, threads are in each other's way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Barrier, Kernel, Stmt, statements
from tc.kernel.rebuild import map_blocks
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import in_order, leaves
from tests.support.lowering import trace_lowering
from tests.support.paper import KERNELS
from tests.support.pipeline import as_arrays, as_buffers, checked, shaped
from tests.support.programs import CASES, Case
from tests.test_programs import copies, fresh

BY_NAME = {case.name: case for case in CASES}
TABLE = [
    *((case, tc.Options()) for case in CASES),
    *((BY_NAME[kernel.name], kernel.options) for kernel in KERNELS.values()),
]
NAMES = [*BY_NAME, *(f"{name} of the paper" for name in KERNELS)]


@dataclass(frozen=True)
class Launches:
    """A program of the table on a GPU, with its arrays."""

    lowering: Lowering
    inputs: dict[str, Any]
    outputs: dict[str, Any]

    def run(self, kernel: Kernel) -> None:
        held = {name: array.copy() for name, array in {**self.inputs, **self.outputs}.items()}
        with np.errstate(all="ignore"):
            evaluate(kernel, as_buffers(kernel, held))


def launches(case: Case, options: tc.Options) -> Launches:
    inputs, outputs = fresh(case)
    program = checked(case.text, case.def_name)
    arrays = {n: np.array(a, order="C") for n, a in as_arrays(program, inputs).items()}
    shape = shaped(program, arrays)
    given = copies(outputs) or {}
    lowering = trace_lowering(
        shape, {}, initial=frozenset(given), check=False, options=options, device=tc.Gpu()
    )
    for name in program.outputs:
        given.setdefault(name, np.ones(shape.shapes[name], program.tensors[name].dtype.numpy))
    return Launches(lowering, arrays, given)


def without_each(kernel: Kernel) -> Iterator[tuple[int, Kernel]]:
    """Copies of the kernel, each without one of its barriers, with the number of the region of the
    barrier."""
    for place, region in enumerate(kernel.regions):
        barriers = [stmt for stmt in statements(region) if isinstance(stmt, Barrier)]
        for number in range(len(barriers)):
            left = [number]
            regions = list(kernel.regions)
            regions[place] = without(region, left)
            yield place, replace(kernel, regions=tuple(regions))


def without(body: tuple[Stmt, ...], left: list[int]) -> tuple[Stmt, ...]:
    """The statements without one barrier: the one with `left[0]` barriers before it."""
    kept = []
    for stmt in body:
        if isinstance(stmt, Barrier):
            left[0] -= 1
            if left[0] == -1:
                continue
        kept.append(map_blocks(stmt, lambda inner: without(inner, left)))
    return tuple(kept)


def may_accesses(lowering: Lowering, place: int) -> list[str]:
    """What statements of a part may read, or may not: at places that other tensors hold, or where
    a condition says so."""
    part = in_order(lowering.mapped.tree)[place]
    reads = [a for name in leaves(part) for a in lowering.scop.statement(name).reads]
    return [a.tensor for a in reads if a.guarded or None in a.subscripts]


MAY_ACCESSES = {
    "1LUT": ["LUT1"],
    "2LUT": ["LUT1", "LUT2"],
    "prodModel": ["LUT1", "LUT2"],
    "1LUT of the paper": ["LUT1"],
    "2LUT of the paper": ["LUT1", "LUT2"],
}
"""For which a barrier stands that these inputs do not need: each thread reads of the rows that are
gathered just what it has copied, which is not known, as they may lie in memory in any order."""


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("number", range(len(TABLE)), ids=NAMES)
def test_each_barrier_is_needed(number: int) -> None:
    found = launches(*TABLE[number])
    found.run(found.lowering.kernel)
    reasons: set[str] = set()
    for place, kernel in without_each(found.lowering.kernel):
        fault = fault_of(found, kernel)
        asked = [] if fault else may_accesses(found.lowering, place)
        assert asked or "with no barrier between" in fault
        reasons.update(asked)
    assert sorted(reasons) == MAY_ACCESSES.get(NAMES[number], [])


def fault_of(found: Launches, kernel: Kernel) -> str:
    try:
        found.run(kernel)
    except InternalError as error:
        return error.cause
    return ""


def test_the_table_has_barriers() -> None:
    kernels = [launches(case, options).lowering.kernel for case, options in TABLE]
    assert sum(1 for kernel in kernels for _ in without_each(kernel)) > 50
