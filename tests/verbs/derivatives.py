"""Derivatives and batches, in float64 through the interpreter: against central differences, which
know nothing of how they are derived, and against a loop over the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tests.gradient.differences import Arrays, along_directions, cotangents, forward
from tests.gradient.pairs import as_double
from tests.gradient.table import distinct_inputs, in_double
from tests.gradient.tangents_of import assert_transposed, directions
from tests.gradient.test_batching import assert_loop
from tests.gradient.test_forward_mode import assert_derivatives
from tests.jax.layers import in_64_bits
from tests.support.bounds import as_tuple
from tests.support.programs import Case

CLOSE = 2e-6
"""The error of differences."""

APART, FEW = 1e-3, 64
"""At most so many values are moved so far apart."""


def known_of(case: Case) -> dict[str, Any]:
    """The inputs by name in float64, with no ties; what outputs hold before, C, is C_0 (R4)."""
    outputs = case.outputs(np.random.default_rng(4)) if case.outputs else {}
    known = distinct_inputs(case)
    for name, value in known.items():
        if value.dtype.kind == "f" and 1 < value.size <= FEW:  # an order that no step changes
            order = np.argsort(np.argsort(value, axis=None)).reshape(value.shape)
            known[name] = value + APART * order
    return {**known, **{f"{n}_0": in_double(v) for n, v in outputs.items()}}


def floating(text: str, entry: str | None = None) -> list[str]:
    """The names of the values that a program is derived by: floating inputs, and old contents of
    outputs."""
    program = _program(text, entry)
    names = [*program.inputs, *program.needs_initial]
    given = [n for n in names if program.tensors[n].dtype.is_float]
    return [n if n in program.inputs else f"{n}_0" for n in given]


def named(found: Arrays, text: str, entry: str | None) -> Arrays:
    """The gradients of a program, which come in the order of what it is derived by, as d_A each:
    where a text has a d_A already, its own gradient calls that otherwise."""
    return dict(zip((f"d_{n}" for n in floating(text, entry)), found.values(), strict=True))


def weights_of(text: str, known: Arrays, entry: str | None) -> tuple[Arrays, Arrays]:
    """The outputs, and a cotangent of each."""
    outputs = forward(text, known, entry)
    return outputs, cotangents(outputs, np.random.default_rng(2))


def assert_slopes(
    text: str, known: Arrays, given: Arrays, gradients: Arrays, entry: str | None
) -> None:
    """Gradients, named d_A, are the slopes along random directions."""
    for difference, slope in along_directions(text, known, given, gradients, entry):
        if np.isfinite(difference):
            assert slope == pytest.approx(difference, rel=CLOSE, abs=CLOSE)


def grad(case: Case) -> None:
    text, known = as_double(case.text), known_of(case)
    derived = tc.grad(text, entry=case.entry)
    outputs, given = weights_of(text, known, case.entry)
    gradients = named(forward(derived, {**known, **outputs, **given}), text, case.entry)
    assert_transposed(text, known, given, gradients, case.entry)
    assert_slopes(text, known, given, gradients, case.entry)


def vjp(case: Case) -> None:
    text, known = as_double(case.text), known_of(case)
    made = tc.vjp(text, entry=case.entry)
    outputs, given = weights_of(text, known, case.entry)
    found = forward(made.forward, known)
    assert list(found) == [*outputs, *(n for n in made.saved if n not in outputs)]
    for name, value in outputs.items():
        np.testing.assert_array_equal(found[name], value)
    backward = forward(made.backward, {**known, **found, **given})
    gradients = named(backward, text, case.entry)
    assert_slopes(text, known, given, gradients, case.entry)


def jvp(case: Case) -> None:
    text, known = as_double(case.text), known_of(case)
    given = directions(text, known, case.entry)
    if not given:
        tc.jvp(text, entry=case.entry)
    assert_derivatives(text, known, given, case.entry)


def second_order(case: Case) -> None:
    """The gradient of the gradient, by the inputs and by the cotangents. The first one computes
    outputs itself: at one that is given, as 0 is of a rectifier, it may have a kink."""
    text, known = as_double(case.text), known_of(case)
    derived = tc.grad(text, entry=case.entry, save="none")
    _, given = weights_of(text, known, case.entry)
    again = tc.grad(derived)
    all_known = {**known, **given}
    results, weights = weights_of(derived, all_known, None)
    gradients = named(forward(again, {**all_known, **results, **weights}), derived, None)
    assert_slopes(derived, all_known, weights, gradients, None)


def batch(case: Case) -> None:
    """All inputs that may be batched, each alone, and each along its last dimension."""
    text, known = as_double(case.text), known_of(case)
    program = _program(text, case.entry)
    names = [name for name in program.inputs if name not in program.static_scalars]
    assert_loop(text, known, dict.fromkeys(names, 0), case.entry)
    for name in names[:4]:
        assert_loop(text, known, {name: 0}, case.entry)
        assert_loop(text, known, {name: np.ndim(known[name])}, case.entry)


def grad_in_torch(case: Case) -> None:
    """`backward` of a call with tensors that require gradients."""
    import torch

    text, known = as_double(case.text), known_of(case)
    program = _program(text, case.entry)
    function = tc.compile(text, entry=case.entry, backend="interpret")
    _, given = weights_of(text, known, case.entry)
    tensors: dict[str, Any] = {}
    for name in program.inputs:
        is_static, is_float = name in program.static_scalars, program.tensors[name].dtype.is_float
        value = known[name]
        tensors[name] = value.item() if is_static else torch.tensor(value, requires_grad=is_float)
    held = {name: torch.from_numpy(known[f"{name}_0"]) for name in program.needs_initial}
    found = function(**tensors, outputs=held or None)
    results = dict(zip(program.outputs, as_tuple(found), strict=True))
    terms = [
        (value * torch.from_numpy(np.asarray(given.get(f"d_{name}", 0.0)))).sum()
        for name, value in results.items()
    ]
    sum(terms[1:], terms[0]).backward()
    gradients = {f"d_{n}": tensors[n].grad.numpy() for n in floating(text, case.entry)}
    assert_slopes(text, known, given, gradients, case.entry)


def grad_in_jax(case: Case) -> None:
    """jax.grad of a sum of what a call gives, with the weights of its outputs."""
    import jax

    text, known = as_double(case.text), known_of(case)
    program = _program(text, case.entry)
    function = tc.compile(text, entry=case.entry, backend="interpret")
    _, given = weights_of(text, known, case.entry)
    names = [n for n in program.inputs if program.tensors[n].dtype.is_float]

    def weighted(derived: dict[str, Any], others: dict[str, Any]) -> Any:
        held = {name: known[f"{name}_0"] for name in program.needs_initial}
        found = as_tuple(function(**derived, **others, outputs=held or None))
        results = dict(zip(program.outputs, found, strict=True))
        return sum((results[n[2:]] * weight).sum() for n, weight in given.items())

    with in_64_bits(jax):
        arrays: dict[str, Any] = {}
        for name in program.inputs:
            value = known[name]
            is_static = name in program.static_scalars
            arrays[name] = value.item() if is_static else jax.numpy.asarray(value)
        derived = {name: arrays.pop(name) for name in names or [*arrays]}
        found = jax.grad(weighted)(derived, arrays)
    gradients = {f"d_{name}": np.asarray(value) for name, value in found.items()}
    assert_slopes(text, known, given, gradients, case.entry)
