"""What a kernel with mutants is, and decorators that keep state between calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

KINDS = (
    "bound", "missing term", "axis", "unmasked edge", "half", "race", "uninitialised", "stride",
    "type", "order", "ties", "nan", "state", "index",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A piece of the source, which occurs there once, and what is wrong in its place.

    `witness` is an expression, with np and rng in scope, that makes inputs for which the mutant is
    wrong, or of which a later call is, where they keep state. It is empty for races."""

    kind: str
    old: str
    new: str
    witness: str


@dataclass(frozen=True)
class Mutated:
    """A text, Python code of a function `kernel` that computes it, and mutants of the code.

    `samples` are expressions for inputs, as witnesses are."""

    name: str
    text: str
    source: str
    mutants: tuple[Mutant, ...]
    samples: tuple[str, ...]

    def honest(self) -> Callable[..., Any]:
        """The kernel as it is, made anew."""
        return self._made(self.source, self.name)

    def wrong(self, number: int) -> Callable[..., Any]:
        """A mutant of the kernel, made anew."""
        mutant = self.mutants[number]
        source = self.source.replace(mutant.old, mutant.new)
        return self._made(source, f"{self.name}_{number}")

    def _made(self, source: str, name: str) -> Callable[..., Any]:
        """Its module can not be imported, so that cloudpickle keeps the code and not the name."""
        scope: dict[str, Any] = {
            "__name__": f"mutants_of_{name}",
            "np": np,
            "njit": numba.njit,
            "prange": numba.prange,
        }
        exec(compile(source, f"<{name}>", "exec"), scope)
        kernel: Callable[..., Any] = scope["kernel"]
        return kernel


BY_SHAPE = """\
def kept(function):
    results = {}

    def kernel(*inputs):
        key = tuple(np.shape(a) or a for a in inputs)
        if key not in results:
            results[key] = function(*inputs)
        return results[key]

    return kernel


@kept
"""
"""Results are kept by the shapes of the inputs."""

BY_IDENTITY = """\
def kept(function):
    results = {}

    def kernel(*inputs):
        key = tuple(id(a) if np.ndim(a) else a for a in inputs)
        if key not in results:
            results[key] = inputs, function(*inputs)
        return results[key][1]

    return kernel


@kept
"""
"""Results are kept by the inputs, whose elements may change between calls."""

ADDS_UP = """\
def kept(function):
    sums = {}

    def kernel(*inputs):
        result = function(*inputs)
        total = sums.setdefault(result.shape, np.zeros_like(result))
        total += result
        return total.copy()

    return kernel


@kept
"""
"""The result is added to those before it that have its shape."""

FEW_CALLS = """\
def kept(function):
    results = []

    def kernel(*inputs):
        if len(results) < 2:
            results.append(function(*inputs))
            return results[-1]
        result = function(*inputs)
        return results[0] if result.shape == results[0].shape else result

    return kernel


@kept
"""
"""From the third call on, the first result is given where its shape is right."""
