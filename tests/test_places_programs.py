"""Programs with computed places, dependent ranges, conditions and several targets, at the edges of
what they are made of: no keys, all keys the same, one row, empty rows, no elements."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import tc
from tc.gpu import Gpu
from tc.polyhedral.gpu.gpu_target import GpuTarget, gpu_target
from tests.fuzz.places.on_gpus import evaluated_on_gpu, meeting, sorting
from tests.support.bounds import as_tuple, assert_within
from tests.support.pipeline import evaluate_kernel
from tests.support.places import PLACES, Place
from tests.support.programs import TEXTS, exact

EDGES = [
    pytest.param(place, value, id=f"{place.name}-{edge}")
    for place in PLACES
    for edge, value in place.values.edges.items()
]


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("place", "value"), EDGES)
def test_interpreted_at_an_edge(place: Place, value: Any) -> None:
    assert_right(place, value, tc.interpret)


@pytest.mark.drawn(8)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("place", "value"), EDGES)
def test_kernel_at_an_edge(place: Place, value: Any) -> None:
    """On the machine that checks bounds and races."""
    assert_right(place, value, lambda *a, **how: tuple(evaluate_kernel(*a, **how).values()))


@pytest.mark.drawn(8)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("place", "value"), EDGES)
def test_compiled_at_an_edge(place: Place, value: Any) -> None:
    def call(text: str, inputs: Any, outputs: Any) -> Any:
        return tc.compile(text, backend="numba")(**inputs, outputs=outputs)

    assert_right(place, value, call)


USUAL = [pytest.param(place, place.values.usual, id=f"{place.name}-usual") for place in PLACES]


@pytest.mark.drawn(8)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("place", "value"), [*EDGES, *USUAL])
def test_on_gpus(place: Place, value: Any) -> None:
    """On a machine of blocks and threads, which finds races: with terms that are compared with
    places, sorted, or added by atomic operations, in few blocks and many."""

    def call(target: GpuTarget, text: str, inputs: Any, outputs: Any) -> Any:
        return tuple(evaluated_on_gpu(text, inputs, outputs, target).values())

    plain = gpu_target(Gpu())
    for target in (plain, sorting(plain), *(meeting(sorting(plain), Random(n)) for n in range(4))):
        assert_right(place, value, partial(call, target))


def assert_right(place: Place, value: Any, call: Any) -> None:
    rng = np.random.default_rng(len(place.name))
    inputs = place.inputs(rng, value)
    outputs = place.outputs(rng) if place.outputs else {}
    text = (TEXTS / f"{place.name}.tc").read_text(encoding="utf-8")
    expected = place.formula(exact({**inputs, **outputs}))

    def given() -> dict[str, Any] | None:
        return {name: array.copy() for name, array in outputs.items()} or None

    bounds = as_tuple(tc.error_bound(text, inputs, outputs=given()))
    found = as_tuple(call(text, inputs, outputs=given()))
    for result, wanted, bound in zip(found, expected, bounds, strict=True):
        array = np.asarray(result)
        assert_within(array, np.asarray(wanted).astype(array.dtype), bound)
