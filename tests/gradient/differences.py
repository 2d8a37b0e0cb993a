"""Gradients by central differences, in float64, through the reference interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import tc
from tc.api import _program

Arrays = Mapping[str, Any]


def forward(text: str, inputs: Arrays, entry: str | None = None) -> dict[str, Any]:
    """The results of a program by name; what the caller gives in an output C is C_0 (R4)."""
    program = _program(text, entry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = {n: np.array(inputs[f"{n}_0"]) for n in program.needs_initial}
        known = {n: inputs[n] for n in program.inputs}
        found = tc.interpret(text, known, entry=entry, outputs=held or None)
    names = program.outputs
    return dict(zip(names, [found] if len(names) == 1 else found, strict=True))


def cotangents(outputs: Arrays, numbers: np.random.Generator) -> dict[str, Any]:
    return {
        f"d_{name}": numbers.uniform(-1, 1, np.shape(value))
        for name, value in outputs.items()
        if np.asarray(value).dtype.kind == "f"
    }


def along_directions(
    text: str, inputs: Arrays, given: Arrays, gradients: Arrays, entry: str | None = None
) -> list[tuple[float, float]]:
    """Pairs of slopes along random directions: by differences, and by the gradients, which are
    named d_A for an input A."""
    numbers = np.random.default_rng(5)
    pairs = []
    for name, gradient in gradients.items():
        wrt = name.removeprefix("d_")
        direction = numbers.uniform(-1, 1, np.shape(inputs[wrt]))
        slope = _slope(text, inputs, given, wrt, direction, entry)
        pairs.append((slope, float(np.sum(direction * gradient))))
    return pairs


def _slope(
    text: str, inputs: Arrays, given: Arrays, wrt: str, direction: Any, entry: str | None
) -> float:
    """By Richardson's extrapolation of central differences, of error h**4."""

    def central(step: float) -> float:
        values = []
        for sign in (1, -1):
            moved = {**inputs, wrt: inputs[wrt] + sign * step * direction}
            found = forward(text, moved, entry)
            values.append(sum(np.sum(found[n[2:]] * d) for n, d in given.items()))
        return float((values[0] - values[1]) / (2 * step))

    return (4 * central(5e-5) - central(1e-4)) / 3


def along(
    text: str, inputs: Arrays, direction: Arrays, entry: str | None = None, step: float = 1e-4
) -> dict[str, Any]:
    """The derivatives of the floating outputs along a direction, by Richardson's extrapolation of
    central differences; `direction` has a tangent t_A for an input A."""

    def central(step: float) -> dict[str, Any]:
        moved = []
        for sign in (1, -1):
            added = {n[2:]: inputs[n[2:]] + sign * step * d for n, d in direction.items()}
            moved.append(forward(text, {**inputs, **added}, entry))
        right, left = moved
        floating = [n for n, v in right.items() if np.asarray(v).dtype.kind == "f"]
        return {n: (right[n] - left[n]) / (2 * step) for n in floating}

    coarse, fine = central(step), central(step / 2)
    return {f"t_{name}": (4 * fine[name] - coarse[name]) / 3 for name in fine}
