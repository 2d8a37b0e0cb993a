"""Generated programs: gradients, tangents against central differences, batches against a loop."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import tc
from tc.api import _program
from tc.gradient.batching import batched_outputs
from tc.gradient.reverse_mode import derivation
from tc.gradient.terms import rebuilt
from tc.semantics.program import Binary, Expr, Program, Read, Statement, WhereRange
from tests.fuzz.legal import Call
from tests.fuzz.strategies import SEEDS, calls
from tests.gradient import campaign, options_campaign
from tests.gradient.differences import Arrays, along, forward
from tests.gradient.pairs import as_double
from tests.gradient.tangents_of import tangents
from tests.support.campaigns import Passed

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning", "ignore::RuntimeWarning")
ENTRY = "f"
BATCH = 3


def apart(call: Call, text: str, numbers: np.random.Generator) -> dict[str, Any]:
    """The inputs in the types of the text; floats of a size, moved so that none are equal."""
    tensors = _program(text, ENTRY).tensors
    known = {}
    for name, value in call.args().items():
        if not tensors[name].dtype.is_in_numpy:
            reject()  # numpy does not compute in it
        known[name] = np.asarray(value).astype(tensors[name].dtype.name)
        if tensors[name].dtype.is_float:
            small = np.clip(np.nan_to_num(known[name]), -3, 3)
            known[name] = (small + numbers.uniform(-0.2, 0.2, small.shape)).astype(small.dtype)
    return known


def checked(text: str) -> Program:
    """The checked program; Hypothesis rejects the few texts that are no program."""
    try:
        return _program(text, ENTRY)
    except tc.TCError:
        reject()


def is_run(text: str, known: Arrays) -> bool:
    try:
        forward(text, known, ENTRY)
    except tc.TCError:  # reads that only the data decide
        return False
    return True


@settings(max_examples=settings().max_examples // 4)
@given(calls())
def test_the_text_of_a_gradient_is_that_of_its_program(call: Call) -> None:
    """What is derived is handed over checked: its text, parsed and checked, is the same program."""
    checked(call.text)
    for save in ("outputs", "none"):
        with contextlib.suppress(tc.GradError):
            made = derivation(call.text, None, ENTRY, (), "split", save, None).backward("grad")
            again = _program(made.layout, None)
            for name in ("tensors", "inputs", "outputs", "temporaries", "sizes", "equalities"):
                assert getattr(made.program, name) == getattr(again, name)
            assert unnumbered(made.program) == unnumbered(again)


def unnumbered(program: Program) -> list[Statement]:
    """The statements, without the numbers by which reads and divisions are told apart."""

    def plain(expr: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            match node:
                case Read(site=site, subscripts=subscripts) if site:
                    return replace(node, site=0, subscripts=tuple(map(plain, subscripts)))
                case Binary(site=site, left=left, right=right) if site >= 0:
                    return replace(node, site=-1, left=plain(left), right=plain(right))
            return None

        return rebuilt(expr, change)

    def bounded(clause: WhereRange) -> WhereRange:
        return replace(clause, begin=plain(clause.begin), end=plain(clause.end))

    return [
        replace(
            s,
            rhs=plain(s.rhs),
            subscripts=tuple(map(plain, s.subscripts)),
            where=tuple(map(bounded, s.where)),
        )
        for s in program.statements
    ]


@given(calls(), SEEDS)
def test_tangents_are_those_of_differences(call: Call, seed: int) -> None:
    text, numbers = as_double(call.text), np.random.default_rng(seed)
    program = checked(text)
    known = apart(call, text, numbers)
    floating = [name for name in program.inputs if program.tensors[name].dtype.is_float]
    wrt = [name for name in floating if numbers.random() < 0.7] or floating[:1]
    assume(wrt and is_run(text, known))
    direction = {f"t_{name}": numbers.uniform(-1, 1, known[name].shape) for name in wrt}
    try:
        found = tangents(text, known, direction, ENTRY)
    except tc.GradError as error:
        if error.rule != "D10":  # which refuses bits of an input
            raise
        reject()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted, near = (along(text, known, direction, ENTRY, step) for step in (1e-4, 3e-5))
        except tc.TCError:
            reject()
    results = forward(text, known, ENTRY)
    for (name, value), like in zip(found.items(), wanted, strict=True):
        assert value.shape == wanted[like].shape
        size = 1 + np.abs(wanted[like]) + np.abs(results[like[2:]])
        is_smooth = np.abs(wanted[like] - near[like]) < 1e-6 * size
        error = np.abs(value - wanted[like])[is_smooth]
        assert np.all(error < 2e-5 * size[is_smooth]), (name, tc.jvp(text, wrt, entry=ENTRY))


@given(calls(), SEEDS, st.data())
def test_a_batch_is_a_loop(call: Call, seed: int, data: st.DataObject) -> None:
    text, numbers = as_double(call.text), np.random.default_rng(seed)
    program = checked(text)
    known = apart(call, text, numbers)
    free = [name for name in program.inputs if name not in program.static_scalars]
    assume(free)
    names = data.draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
    axes = {name: int(numbers.integers(0, known[name].ndim + 1)) for name in names}
    each = [known, *({**known} for _ in range(BATCH - 1))]
    for element in each[1:]:
        for name in names:
            flat = numbers.permutation(known[name].reshape(-1))
            element[name] = flat.reshape(known[name].shape)
    assume(all(is_run(text, element) for element in each))
    whole = {**known}
    for name, axis in axes.items():
        whole[name] = np.stack([element[name] for element in each], axis)
    found = forward(tc.batch(text, axes, entry=ENTRY), whole)
    loop = [forward(text, element, ENTRY) for element in each]
    batched = batched_outputs(text, axes, entry=ENTRY)
    for name, value in found.items():
        alone = [one[name] for one in loop]
        wanted = np.stack(alone) if name in batched else alone[0]
        assert value.dtype == wanted.dtype
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9, err_msg=name)


@settings(max_examples=8)
@given(SEEDS)
def test_gradients_are_the_transposes_of_tangents(seed: int) -> None:
    """With inputs apart and at ties and kinks; there is `python -m tests.gradient.campaign`."""
    assert_gradients(seed % 10**6, "-")


@pytest.mark.parametrize("start", [0, 4])
def test_what_is_asked_of_derivatives(start: int) -> None:
    """What is saved, ties, batches, options and devices: the first of
    `python -m tests.gradient.options_campaign`."""
    told: set[str] = set()
    for number in range(start, start + 4):
        with np.errstate(all="ignore"), contextlib.suppress(Passed):
            told |= set(options_campaign.judge(campaign.case_of(7, number), number))
    assert told >= {"saved: all", "saved: none", "first of ties", "compiled gradient", "batch"}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["d", "b", "2"])
def test_gradients_of_many(part: str) -> None:
    """Tangents by differences, bounds of compiled gradients, and second derivatives."""
    for seed in range(60):
        assert_gradients(seed, part)


def assert_gradients(seed: int, part: str) -> None:
    with np.errstate(all="ignore"), contextlib.suppress(Passed):
        list(campaign.judge(campaign.case_of(17, seed), seed, part))
