"""What was tuned, and measurements of it, for tests of the tuning database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tc
from tc.backends import registry
from tc.backends.base import Backend
from tc.pipeline import check_module, parse_source
from tc.runtime.sizes import resolve_sizes
from tc.source import Source
from tc.tuning.database import Measurement
from tc.tuning.problem import Problem, Trial
from tests.support.bounds import assert_computes

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SIZES = {"M": 64, "K": 48, "N": 40}
DEVICE = tc.Device(vector_bits=256, threads=2)


def operands(m: int = 64, k: int = 48, n: int = 40) -> tuple[Any, Any]:
    """Inputs of `MM`."""
    rng = np.random.default_rng(0)
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


def assert_multiplies(function: tc.Compiled, *inputs: Any) -> None:
    """Fails unless the results of a function are those of `MM`."""
    assert_computes(MM, inputs, function(*inputs))


def problem_of(
    text: str = MM,
    inputs_or_sizes: object = SIZES,
    *,
    entry: str | None = None,
    backend: str = "numba",
    check: bool = True,
    given: frozenset[str] = frozenset(),
) -> Problem:
    program = check_module(parse_source(Source(text)), entry)
    found = registry.get(backend)
    assert isinstance(found, Backend)
    sizes = resolve_sizes(program, inputs_or_sizes)
    return Problem.of(program, sizes, found, check=check, given=given)


def tiled(text: str, *sizes: int) -> tc.Options:
    """A plan that tiles a loop of the first statement of a program by these sizes, and no more."""
    actions = [tc.plan.Tile(text, sizes)]
    return tc.Options(plan=tc.Plan([tc.plan.Part(["S0.init", "S0"], actions)]))


def measurement_of(
    problem: Problem | None = None,
    options: tc.Options | None = None,
    *seconds: float,
    failure: str | None = None,
    device: Mapping[str, Any] | None = None,
    **how: Any,
) -> Measurement:
    from tc.tuning.machines import device_value

    found = {"search": "random", "seed": 7, "at": 1.7e9, "versions": {"tc": "0.1.0"}, **how}
    return Measurement(
        problem=problem or problem_of(),
        trial=Trial(options or tiled("i", 8), seconds, failure),
        device=dict(device or device_value(DEVICE, "numba")),
        **found,
    )
