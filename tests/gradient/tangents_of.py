"""Tangents by tc.jvp, which is the transpose of tc.grad."""

from __future__ import annotations

from typing import Any

import numpy as np

import tc
from tc.api import _program
from tests.gradient.differences import Arrays, forward


def directions(text: str, known: Arrays, entry: str | None = None) -> dict[str, Any]:
    """A tangent for each floating input, those that the caller gives in outputs too."""
    program = _program(text, entry)
    numbers = np.random.default_rng(7)
    given = [f"{n}_0" for n in program.needs_initial if program.tensors[n].dtype.is_float]
    floating = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    shapes = {n: np.shape(known[n]) for n in (*floating, *given)}
    types = {n: program.tensors[n if n in floating else n[:-2]].dtype.name for n in shapes}
    return {f"t_{n}": numbers.uniform(-1, 1, s).astype(types[n]) for n, s in shapes.items()}


def tangents(text: str, known: Arrays, given: Arrays, entry: str | None = None) -> dict[str, Any]:
    """The tangents of the outputs by the derived text, whose other results are the program's."""
    wrt = [name.removeprefix("t_") for name in given]
    found = forward(tc.jvp(text, wrt, entry=entry), {**known, **given})
    for name, value in forward(text, known, entry).items():
        np.testing.assert_array_equal(found.pop(name), value)
    return found


def assert_transposed(
    text: str, known: Arrays, weights: Arrays, gradients: Arrays, entry: str | None = None
) -> None:
    """<g, J t> = <J' g, t>, for the gradients d_A of all floating inputs and the weights d_O."""
    given = directions(text, known, entry)
    found = tangents(text, known, given, entry)
    forwards = sum(np.sum(weights[f"d_{n[2:]}"] * value) for n, value in found.items())
    terms = [np.sum(gradients[f"d_{n[2:]}"] * value) for n, value in given.items()]
    assert abs(forwards - sum(terms)) <= 1e-10 * max(1, *map(abs, terms))
