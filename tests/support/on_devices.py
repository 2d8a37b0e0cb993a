"""The arrays of each library on devices, for tests that run over all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tc.runtime import arrays
from tests.support.device_libraries import (
    Adopted,
    Adopting,
    ByArrayApi,
    ByDlpack,
    Cupy,
    CupyArray,
    JaxOnDevice,
    NumbaArray,
    NumbaCuda,
    TorchOnDevices,
)
from tests.support.stand_in import DeviceVector


@dataclass(frozen=True)
class Library:
    """A library with arrays on devices: `put` makes one of values on the device of that number, on
    their memory unless it `copies`; `get` has its values, also on their memory. `module` is what
    stands for the library itself; one that `makes` no arrays has to be given outputs."""

    name: str
    module: Any
    put: Callable[[np.ndarray, int], Any]
    get: Callable[[Any], np.ndarray] = lambda array: array.values
    copies: bool = False
    makes: bool = True


NAMES = ("cupy", "numba", "torch", "jax", "interface", "dlpack", "array api", "adopting")


def library_of(name: str, patch: pytest.MonkeyPatch) -> Library:
    """A library by its name, there until the patch is taken back."""
    if name == "cupy":
        patch.setitem(sys.modules, "cupy", cupy := Cupy())
        return Library(name, cupy, CupyArray)
    if name == "numba":
        patch.setitem(sys.modules, "numba.cuda", cuda := NumbaCuda())
        return Library(name, cuda, NumbaArray)
    if name == "torch":
        return _torch(patch)
    if name == "jax":
        return _jax(patch)
    if name == "interface":
        return Library(name, None, lambda values, device: DeviceVector(values, device=device))
    if name == "adopting":
        patch.setitem(sys.modules, "adopting", adopting := Adopting())
        return Library(name, adopting, lambda a, n: Adopted(a, (2, n)))
    kind = {"dlpack": ByDlpack, "array api": ByArrayApi}[name]
    return Library(name, None, lambda a, n: kind(a, (2, n)), makes=name != "dlpack")


def _torch(patch: pytest.MonkeyPatch) -> Library:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pretended = TorchOnDevices(torch, patch)

    def put(values: np.ndarray, number: int) -> Any:
        return pretended.put(torch.from_numpy(values), number)

    return Library("torch", pretended, put, lambda t: t.detach().numpy())


def _jax(patch: pytest.MonkeyPatch) -> Library:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    pretended = JaxOnDevice(jax, patch)

    def put(values: np.ndarray, number: int) -> Any:
        pretended.number = number
        return pretended.array(values)

    return Library("jax", pretended, put, pretended.values, copies=True)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Library]]:
    """A function from the name of a library to the library, for one test; tc forgets the library
    afterwards."""
    arrays._family_of_type.cache_clear()
    yield lambda name: library_of(name, monkeypatch)
    arrays._family_of_type.cache_clear()
