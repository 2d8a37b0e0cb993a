"""The paper's kernels with its mapping options, at its sizes: on PoCL they are right; that of tmm
is the one of appendix A.4.1, whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.opencl import OpenCLBackend
from tc.kernel.ir import Barrier, Grid, statements
from tc.kernel.printer import to_text
from tc.polyhedral.lowering import Lowering
from tests.support.bounds import assert_within
from tests.support.kernels import load, run
from tests.support.lowering import trace_lowering
from tests.support.opencl import on_pocl
from tests.support.paper import KERNELS, PaperKernel
from tests.support.pipeline import checked, shaped_by
from tests.support.work import calls

EXPECTED = Path(__file__).parents[1] / "expected" / "paper"


def lowered(kernel: PaperKernel) -> Lowering:
    shaped = shaped_by(checked(kernel.text), kernel.shapes)
    return trace_lowering(
        shaped, {}, initial=frozenset(), check=False, options=kernel.options, device=tc.Gpu()
    )


@pytest.mark.parametrize("name", KERNELS)
@on_pocl
@pytest.mark.drawn(3)
def test_results(name: str) -> None:
    case = KERNELS[name]
    inputs = case.inputs()
    values, bounds = case.expected(inputs)
    kernel = lowered(case).kernel
    held = {b.name: inputs[b.name].reshape(b.shape) for b in kernel.arguments if b.name in inputs}
    nothing = {
        b.name: np.full(b.shape, np.nan, np.float32) for b in kernel.arguments if b.role != "input"
    }
    failure, found = run(load(OpenCLBackend(), kernel), {**held, **nothing})
    assert failure is None
    for output, value, bound in zip(checked(case.text).outputs, values, bounds, strict=True):
        assert_within(found[output].reshape(value.shape), value.astype(np.float32), bound)


def test_bounds_of_the_table() -> None:
    """They are no wider than a few roundings of each term, and narrower than the results."""
    for case in KERNELS.values():
        for value, bound in zip(*case.expected(case.inputs()), strict=True):
            assert (bound > 0).all()
            assert (bound < 0.05 * np.abs(value).max()).all()


def test_tmm(golden: Callable[[Path, str], None]) -> None:
    """The kernel has its copies, its statements, and one barrier. The paper's two further barriers
    guard nothing, as each block runs one tile, and each thread writes elements of its own."""
    lowering = lowered(KERNELS["tmm"])
    golden(EXPECTED / "tmm.txt", f"{to_text(lowering.marked)}\n\n{to_text(lowering.kernel)}")
    marked = lowering.marked
    shapes = {b.name: b.shape for b in marked.buffers if b.role in ("shared", "register")}
    assert shapes == {"A_shared": (4, 33), "B_shared": (32, 33), "C_acc": (4, 1)}
    (grid,) = (s for region in marked.regions for s in region if isinstance(s, Grid))
    assert [index.count for index in grid.blocks] == [32, 8]
    assert [index.count for index in grid.threads] == [32]
    assert sum(isinstance(s, Barrier) for s in statements(grid.body)) == 1


def test_mlp3_is_one_launch() -> None:
    assert len(lowered(KERNELS["MLP3"]).kernel.regions) == 1


@pytest.mark.parametrize("options", [KERNELS["MLP3"].options, tc.Options()], ids=["paper", "tc"])
def test_work_of_lowering(options: tc.Options) -> None:
    """MLP3 is mapped and lowered in 30 ms, by 100 000 calls; 250 ms would be too much."""
    case = KERNELS["MLP3"]
    shaped = shaped_by(checked(case.text), case.shapes)
    how: dict[str, Any] = {"initial": frozenset(), "check": False, "device": tc.Gpu()}
    assert calls(lambda: trace_lowering(shaped, {}, options=options, **how)) < 300_000
