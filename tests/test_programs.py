"""Every program of the table on every backend, against its independent numpy formula (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.options import PRESETS
from tests.support.bounds import assert_within
from tests.support.guarded import allocator, at_edge_or_not, copy_at_edge
from tests.support.opencl import on_pocl
from tests.support.pipeline import evaluate_kernel
from tests.support.poison import NAN, poisoned
from tests.support.programs import CASES, TEXTS, Case, exact

ISL = tc.Options(schedule=tc.ScheduleOptions(fusion="isl", seconds=2.0))
BACKENDS = ("interpret", "numba", "c")


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def fresh(case: Case) -> tuple[dict[str, Any], dict[str, Any] | None]:
    rng = np.random.default_rng(len(case.name))
    inputs = case.inputs(rng)
    return inputs, case.outputs(rng) if case.outputs else None


def copies(outputs: dict[str, Any] | None) -> dict[str, Any] | None:
    return outputs and {name: array.copy() for name, array in outputs.items()}


def expected_and_bounds(case: Case) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    inputs, outputs = fresh(case)
    expected = case.formula(exact({**inputs, **(outputs or {})}))
    bounds = tc.error_bound(case.text, inputs, entry=case.def_name, outputs=copies(outputs))
    return expected, as_tuple(bounds)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_program(case: Case, backend: str) -> None:
    check_program(case, backend)


@pytest.mark.parametrize("preset", ["default", "naive"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@on_pocl
def test_program_on_opencl(case: Case, preset: str) -> None:
    """With tests of reads in the naive kernels, which are off by default (G7)."""
    if preset == "naive":
        check_program(case, "opencl", options=PRESETS[preset], check=True)
    else:
        check_program(case, "opencl")


def check_program(case: Case, backend: str, **how: Any) -> None:
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    compiled = tc.compile(case.text, entry=case.def_name, backend=backend, **how)
    results = as_tuple(compiled(**inputs, outputs=copies(outputs)))
    assert len(results) == len(expected)
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)
    if backend != "interpret":
        for edge in ("ends", "begins"):
            for found, result in zip(at_edges(compiled, case, edge), results, strict=True):
                np.testing.assert_array_equal(found, result)


def at_edges(compiled: tc.Compiled, case: Case, edge: str) -> list[Any]:
    """The results where all memory ends at a page that nobody may touch, or begins after one. (A
    touch ends the process; `test_guard_pages.py` has larger arrays, in processes of their own.)"""
    inputs, outputs = fresh(case)
    shapes = compiled.infer(**inputs)
    given = {name: copy_at_edge(value, edge) for name, value in inputs.items()}
    targets = [at_edge_or_not(info.shape, info.dtype, edge) for info in shapes.values()]
    for target, start in zip(targets, (outputs or {}).values(), strict=False):
        target[...] = start
    with poisoned(NAN, allocator(edge)):
        compiled(**given, outputs=targets)
    return targets


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernel_evaluated(case: Case) -> None:
    """The lowered kernel itself, on the machine that checks bounds and races."""
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    results = evaluate_kernel(case.text, inputs, entry=case.def_name, outputs=copies(outputs))
    for result, value, bound in zip(results.values(), expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("preset", [*PRESETS, "isl"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_presets(case: Case, preset: str) -> None:
    """Every preset, and isl's own scheduler; the evaluated kernel, for narrow vectors."""
    options = PRESETS.get(preset, ISL)
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    results = evaluate_kernel(
        case.text,
        inputs,
        entry=case.def_name,
        outputs=copies(outputs),
        options=options,
        device=Device(vector_bits=128),
    )
    for result, value, bound in zip(results.values(), expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


def test_every_text_has_a_case() -> None:
    assert {p.stem for p in TEXTS.glob("*.tc")} == {case.name for case in CASES}
