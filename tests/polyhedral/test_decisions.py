"""The decisions of the chooser, taken at random: every kernel is right, and every plan is one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.gpu import Gpu
from tc.kernel.evaluate import evaluate
from tc.pipeline import target_of
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.polyhedral.target import Decisions
from tests.support.bounds import assert_within
from tests.support.pipeline import as_arrays, as_buffers, checked, shaped
from tests.support.programs import CASES, Case
from tests.test_programs import copies, expected_and_bounds, fresh

DEVICE = Device(vector_bits=256, vector_registers=16, threads=2)
GPU = Gpu(threads=64, shared=16 << 10)
SOME = [pytest.param(case, DEVICE, id=case.name) for case in CASES]
SOME += [pytest.param(case, GPU, id=f"{case.name} on a GPU") for case in CASES[::3]]


def decided(case: Case, wanted: dict[str, str], **how: Any) -> tuple[Decisions, Lowering]:
    """The program lowered with these decisions."""
    program = checked(case.text, case.def_name)
    inputs, outputs = fresh(case)
    shape = shaped(program, as_arrays(program, inputs))
    decisions = Decisions(wanted)
    target = replace(target_of(how.pop("device", DEVICE)), decider=decisions)
    initial = frozenset(outputs or ())
    return decisions, trace_lowering(shape, {}, target, initial=initial, check=True, **how)


def drawn(case: Case, rng: random.Random, device: Device | Gpu = DEVICE) -> dict[str, str]:
    """Decisions at random, each of those that follow from the others."""
    wanted: dict[str, str] = {}
    for _ in range(3):
        decisions, _ = decided(case, wanted, device=device)
        for name, asked in decisions.asked.items():
            if rng.random() < 0.5:
                wanted.setdefault(name, rng.choice(asked.values))
    return wanted


@pytest.mark.drawn(6)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("case", "device"), SOME)
def test_any_decisions(case: Case, device: Device | Gpu) -> None:
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    _, lowering = decided(case, drawn(case, random.Random(case.name), device), device=device)
    program = checked(case.text, case.def_name)
    arrays = {n: np.array(a, order="C") for n, a in as_arrays(program, inputs).items()}
    given, shapes = copies(outputs) or {}, shaped(program, arrays).shapes
    for name in program.outputs:
        dtype = program.tensors[name].dtype.numpy
        arrays[name] = given.get(name, np.empty(shapes[name], dtype))
    assert evaluate(lowering.kernel, as_buffers(lowering.kernel, arrays)) is None
    for name, value, bound in zip(program.outputs, expected, bounds, strict=True):
        assert_within(arrays[name], np.asarray(value).astype(arrays[name].dtype), bound)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("device", [DEVICE, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("case", CASES[::4], ids=lambda c: c.name)
def test_by_default_nothing_changes(case: Case, device: Device | Gpu) -> None:
    """Asking changes nothing, and the plan of any decisions gives the kernel again."""
    decisions, asked = decided(case, {}, device=device)
    assert all(each.taken == each.values[0] for each in decisions.asked.values())
    inputs, outputs = fresh(case)
    program = checked(case.text, case.def_name)
    shape, initial = shaped(program, as_arrays(program, inputs)), frozenset(outputs or ())
    how: dict[str, Any] = {"initial": initial, "check": True}
    usual = trace_lowering(shape, {}, target_of(device), **how)
    assert usual.kernel == asked.kernel
    _, other = decided(case, drawn(case, random.Random(case.name), device), device=device)
    plan = tc.Options(plan=other.mapped.plan)
    again = trace_lowering(shape, {}, target_of(device), options=plan, **how)
    assert again.kernel == other.kernel


def test_what_is_asked_of_a_contraction() -> None:
    text = "def mm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }"
    program = checked(text)
    inputs = {"X": np.ones((50, 26, 72), np.float32), "Y": np.ones((50, 96, 72), np.float32)}
    decisions = Decisions({})
    target = replace(target_of(DEVICE), decider=decisions)
    trace_lowering(shaped(program, inputs), {}, target, initial=frozenset(), check=True)
    assert [name.split(": ")[1] for name in decisions.asked] == [
        "vectors along",
        "rows along",
        "columns",
        "packed",
        "vectors of a row",
        "rows",
        "rows unrolled",
        "b in a pack",
        "reduction steps",
        "packed for each thread",
        "tiles of b",
        "tiles of k div 32",
        "tiles of n div 2",
        "loops for threads",
    ]


def test_what_is_wanted_and_is_none_is_passed_over() -> None:
    decisions = Decisions({"a": "7", "b": "2"})
    assert decisions.pick("a", 1, lambda: (2, 3)) == 1
    assert decisions.pick("b", 1, lambda: (2, 3)) == 2
    assert decisions.pick("b", 1, lambda: (2, 3)) == 1
    assert [(name, each.taken) for name, each in decisions.asked.items()] == [
        ("a", "1"),
        ("b", "2"),
        ("b (2)", "1"),
    ]
