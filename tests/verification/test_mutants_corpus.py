"""The kernels with mutants: they are right, and each mutant is wrong."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numba
import numpy as np
import pytest

import tc
from tests.support.bounds import as_tuple, assert_within, difference
from tests.verification.mutants import KINDS, MUTATED, Mutant, Mutated

pytestmark = [
    pytest.mark.filterwarnings("ignore::tc.TCWarning"),
    pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning"),
]
each_kernel = pytest.mark.parametrize("mutated", MUTATED, ids=lambda mutated: mutated.name)


def test_shape_of_the_corpus() -> None:
    assert len(MUTATED) == len({mutated.name for mutated in MUTATED}) == 25
    assert {len(mutated.mutants) for mutated in MUTATED} == {8}
    assert {mutant.kind for mutated in MUTATED for mutant in mutated.mutants} == set(KINDS)


@each_kernel
def test_pieces_occur_once(mutated: Mutated) -> None:
    assert all(mutated.source.count(mutant.old) == 1 for mutant in mutated.mutants)
    assert len({(mutant.old, mutant.new) for mutant in mutated.mutants}) == 8


@pytest.mark.drawn(6)
@each_kernel
def test_kernels_are_right(mutated: Mutated) -> None:
    kernel = mutated.honest()
    rng = np.random.default_rng(2026)
    for sample in mutated.samples:
        inputs = made(sample, rng)
        kept = [np.copy(array) for array in inputs]
        results = as_tuple(kernel(*inputs))
        for array, copy in zip(inputs, kept, strict=True):
            assert_within(array, copy)
        for found, wanted, bound in judged(mutated.text, kept, results):
            assert_within(found, wanted, bound)


@pytest.mark.drawn(6)
@each_kernel
def test_kernels_are_pickled_by_value(mutated: Mutated) -> None:
    cloudpickle = numba.cloudpickle
    inputs = made(mutated.samples[0], np.random.default_rng(0))
    state = next(n for n, mutant in enumerate(mutated.mutants) if mutant.kind != "race")
    for kernel in (mutated.honest(), mutated.wrong(state)):
        again = cloudpickle.loads(cloudpickle.dumps(kernel))
        assert len(as_tuple(again(*inputs))) == len(as_tuple(kernel(*inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
@each_kernel
def test_mutants_are_wrong(mutated: Mutated, number: int) -> None:
    mutant = mutated.mutants[number]
    kernel = mutated.wrong(number)
    if not mutant.witness:
        assert mutant.kind == "race"
        kernel(*made(mutated.samples[0], np.random.default_rng(0)))
        return
    assert any(wrong_calls(mutated, mutant, kernel))


def wrong_calls(mutated: Mutated, mutant: Mutant, kernel: Callable[..., Any]) -> Iterator[bool]:
    """Whether each of some calls is wrong: two with different data, the second again, and the
    arrays of the first with the data of the second."""
    rng = np.random.default_rng(2026)
    first, second = made(mutant.witness, rng), made(mutant.witness, rng)
    yield is_wrong(mutated.text, mutant, kernel, first)
    if mutant.kind != "state":
        return
    yield is_wrong(mutated.text, mutant, kernel, second)
    yield is_wrong(mutated.text, mutant, kernel, second)
    for array, other in zip(first, second, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = other
    yield is_wrong(mutated.text, mutant, kernel, first)


def is_wrong(text: str, mutant: Mutant, kernel: Callable[..., Any], inputs: Sequence[Any]) -> bool:
    kept = [np.copy(array) for array in inputs]
    if mutant.kind == "uninitialised":
        kernel(*inputs)  # so that it is compiled
        litter()
    results = as_tuple(kernel(*inputs))
    changed = any(difference(a, b) for a, b in zip(inputs, kept, strict=True))
    return changed or any(difference(*each) for each in judged(text, kept, results))


def judged(text: str, inputs: Sequence[Any], results: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    """Results with those of the interpreter and the bounds of their errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = as_tuple(tc.interpret(text, list(inputs)))
        bounds = as_tuple(tc.error_bound(text, list(inputs)))
    return list(zip(results, wanted, bounds, strict=True))


def made(expression: str, rng: np.random.Generator) -> tuple[Any, ...]:
    inputs: tuple[Any, ...] = eval(expression, {"np": np, "rng": rng})
    return inputs


def litter() -> None:
    """Memory that is freed here, of the sizes of small arrays, is full of large numbers."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    sizes = [size for size in range(16, 1025, 8) for _ in range(7)]
    arrays = [np.full(size, 0x6B, np.uint8) for size in sizes]
    places = [libc.malloc(size) for size in sizes]
    for place, size in zip(places, sizes, strict=True):
        libc.memset(place, 0x6B, size)
        libc.free(place)
    del arrays
