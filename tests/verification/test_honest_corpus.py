"""The corpus of honest kernels, each beside the interpreter."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import as_tuple, assert_computes
from tests.verification.corpus import Honest

ROOMS = {"numba": "honest_numba", "torch": "honest_torch", "jax": "honest_jax"}
LEAST = {"numba": 25, "torch": 25, "jax": 20}

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch and JAX themselves use


def kernels_of(library: str) -> tuple[Honest, ...]:
    return importlib.import_module(f"tests.verification.{ROOMS[library]}").KERNELS


def cases() -> list[Any]:
    """A kernel with its library; without the library one case, which says so."""
    found = []
    for library in ROOMS:
        if find_spec(library) is None:
            found.append(pytest.param(library, None, id=library))
        else:
            found += [
                pytest.param(library, kernel, id=f"{library}-{kernel.name}")
                for kernel in kernels_of(library)
            ]
    return found


def as_integers(value: Any) -> Any:
    """Floats rounded to small integers, which meet in ties; other values as they are."""
    is_float = np.asarray(value).dtype.kind == "f"
    return np.rint(2 * value) if is_float and isinstance(value, np.ndarray) else value


def with_odd_values(value: Any) -> Any:
    """Arrays of floats in which some are NaN, infinities and zeros."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    rng = np.random.default_rng(value.size)
    odd = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], value.dtype), value.shape)
    return np.where(rng.random(value.shape) < 0.2, odd, value)


def called(kernel: Honest, inputs: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    """The results as arrays of numpy; fails where the kernel changes an input."""
    if kernel.like == "torch":
        import torch

        given = [torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in inputs]
    elif kernel.like == "jax":
        import jax.numpy as jnp

        given = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
    else:
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    if kernel.writes:
        expected = as_tuple(tc.interpret(kernel.text, inputs))
        found = tuple(np.full_like(value, 77) for value in expected)
        assert kernel.kernel(*given, *found) is None
    else:
        found = as_tuple(kernel.kernel(*given))
    for value, before in zip(given, inputs, strict=True):
        np.testing.assert_array_equal(np.asarray(value), before)
    return tuple(np.asarray(value) for value in found)


@pytest.mark.parametrize("library", ROOMS)
def test_there_are_enough_kernels(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    kernels = kernels_of(library)
    assert len({kernel.name for kernel in kernels}) == len(kernels) >= LEAST[library]


@pytest.mark.drawn(24)
@pytest.mark.parametrize(("library", "kernel"), cases())
def test_a_kernel_computes_what_its_text_says(library: str, kernel: Honest) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    for seed in (1, 2):
        drawn = kernel.make(np.random.default_rng(seed))
        for vary in (as_integers, with_odd_values, lambda value: value):
            inputs = tuple(map(vary, drawn))
            found = called(kernel, inputs)
            wanted = as_tuple(tc.interpret(kernel.text, inputs))
            assert [x.dtype for x in found] == [np.asarray(x).dtype for x in wanted]
            assert_computes(kernel.text, inputs, found, wanted)
