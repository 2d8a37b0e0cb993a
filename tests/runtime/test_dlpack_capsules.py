"""Capsules of DLPack: taken over once, given back once, whatever they hold."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.dtypes import DTYPES
from tc.runtime.arrays import dlpack_capsule, family_of
from tc.runtime.arrays.dlpack_capsule import LentArray, TakenTensor, take_over
from tc.runtime.arrays.family import Refusal
from tests.support.device_libraries import (
    CUDA,
    CUDA_HOST,
    MANAGED,
    METAL,
    Adopting,
    ByDlpack,
    ByOldDlpack,
    Capsules,
    on_host,
)
from tests.support.on_devices import Library, use
from tests.support.stand_in import StandInDriver, StandInMemory, stand_in

__all__ = ["stand_in", "use"]

ONE = "def one(float(N) x) -> (o) { o(i) = 2 * x(i) }"
VERSIONS = [None, (1, 0)]


def taken(values: np.ndarray, version: Any) -> TakenTensor:
    return take_over(Capsules().of(values, (CUDA, 1), version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "values",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(40, dtype=np.int64).reshape(5, 8)[::-2, 1::3],
        np.array(True),
        np.ones((2, 0, 3), np.complex128),
        np.arange(6, dtype=np.uint16)[::-1],
        np.float16([1, 2]),
    ],
)
def test_what_a_capsule_says(values: np.ndarray, version: Any) -> None:
    found = taken(values, version)
    assert (found.dtype, found.shape, found.device) == (values.dtype, values.shape, (CUDA, 1))
    assert found.address == values.ctypes.data
    assert found.strides in (values.strides, None if values.flags.c_contiguous else ())
    assert not found.read_only


@pytest.mark.parametrize("version", VERSIONS)
def test_data_at_an_offset(version: Any) -> None:
    """Only the sum of both has a meaning."""
    values = np.arange(3, dtype=np.float32)
    assert take_over(Capsules().of(values, (CUDA, 0), version, offset=256)).address == (
        values.ctypes.data
    )


def test_only_new_capsules_tell_of_what_may_be_read_only() -> None:
    values = np.ones(3, np.float32)
    values.flags.writeable = False
    assert taken(values, (1, 0)).read_only


@pytest.mark.parametrize("version", VERSIONS)
def test_a_capsule_is_given_back_once(version: Any) -> None:
    capsules = Capsules()
    capsule = capsules.of(np.ones(3), (CUDA, 0), version)
    held = take_over(capsule)
    with pytest.raises(Refusal) as caught:
        take_over(capsule)
    assert caught.value.cause == "gives no capsule of DLPack that is still to be taken over"
    del capsule
    assert capsules.returned == []
    del held
    assert capsules.returned == [0]


@pytest.mark.parametrize("other", [None, 3, np.ones(3)])
def test_what_is_no_capsule(other: object) -> None:
    with pytest.raises(Refusal):
        take_over(other)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("code", "bits", "lanes", "name"),
    [
        (4, 32, 1, "bfloat32"),
        (4, 16, 2, "bfloat16, 2 at a time"),
        (9, 8, 1, "number 9 with 8 bits"),
        (2, 32, 4, "float32, 4 at a time"),
        (0, 4, 1, "int4"),
        (2, 24, 1, "float24"),
    ],
)
def test_types_that_numpy_does_not_know(
    code: int, bits: int, lanes: int, name: str, version: Any
) -> None:
    capsules = Capsules()
    fields = {"code": code, "bits": bits, "lanes": lanes}
    capsule = capsules.of(np.ones(3, np.float32), (CUDA, 0), version, **fields)
    with pytest.raises(Refusal) as caught:
        take_over(capsule)
    assert caught.value.cause == f"has dtype {name}, which tc does not know"
    del caught
    assert capsules.returned == [0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("code", "bits", "name"),
    [(4, 16, "bfloat16"), (10, 8, "float8_e4m3fn"), (12, 8, "float8_e5m2")],
)
def test_types_that_numpy_does_not_have(code: int, bits: int, name: str, version: Any) -> None:
    capsule = Capsules().of(np.ones(3, f"u{bits // 8}"), (CUDA, 0), version, code=code, bits=bits)
    held = take_over(capsule)
    assert held.dtype == DTYPES[name].numpy
    lent = LentArray(SimpleNamespace(address=held.address), (3,), held.dtype, 1)
    again = take_over(lent.__dlpack__())
    assert (again.dtype, again.shape, again.device) == (held.dtype, (3,), (CUDA, 1))


def test_a_newer_dlpack_is_refused() -> None:
    capsules = Capsules()
    capsule = capsules.of(np.ones(3), (CUDA, 0), (1, 0), major=2)
    with pytest.raises(Refusal) as caught:
        take_over(capsule)
    assert caught.value.cause == "gives a capsule of DLPack 2, which is newer than 1"
    del caught
    assert capsules.returned == [0]


# --- calls ----------------------------------------------------------------------------------


@pytest.fixture
def capsules(monkeypatch: pytest.MonkeyPatch) -> Capsules:
    counted = Capsules()
    monkeypatch.setattr(ByDlpack, "capsules", counted)
    return counted


@pytest.mark.parametrize("kind", [ByDlpack, ByOldDlpack])
@pytest.mark.parametrize("device", [(CUDA, 1), (MANAGED, 1)])
def test_calls_give_capsules_back(
    kind: Callable[..., Any], device: Any, stand_in: StandInDriver, capsules: Capsules
) -> None:
    one, x = tc.compile(ONE, backend="cuda"), kind(np.arange(3, dtype=np.float32), device)
    for count in (2, 4, 6):
        o = kind(np.zeros(3, np.float32), device)
        assert one(x, outputs=o) is o
        assert o.values.tolist() == [0, 2, 4]
        assert (capsules.made, len(capsules.returned)) == (count, count)
    assert x.streams == [1, 1, 1]  # as the array API names the default stream
    assert {call[2] for call in stand_in.calls if call[0] == "launch"} == {0}


@pytest.mark.usefixtures("stand_in")
def test_refused_calls_give_capsules_back(capsules: Capsules) -> None:
    one = tc.compile(ONE, backend="cuda")
    read_only = np.zeros(3, np.float32)
    read_only.flags.writeable = False
    x = ByDlpack(np.ones(3, np.float32))
    for given, output, message in [
        (ByDlpack(np.ones(3)), None, "has dtype float64"),
        (ByDlpack(np.ones((3, 1), np.float32)), None, "has rank 2"),
        (ByDlpack(np.ones(3, np.float32), (METAL, 2)), None, "lies on a device of tests: Metal 2"),
        (x, None, "tc does not know how tests makes such an array on a device"),
        (x, x, "shares memory with the input x"),
        (x, ByDlpack(read_only), "is read-only"),
        (x, ByDlpack(np.ones(3, np.float32), (CUDA, 1)), "o lies on CUDA device 1, but x on CUDA"),
    ]:
        with pytest.raises(tc.InputError, match=message) as caught:
            one(given, outputs=output)
        del caught
        assert len(capsules.returned) == capsules.made


@pytest.mark.filterwarnings("ignore:.*copies 12 bytes")
@pytest.mark.usefixtures("stand_in")
def test_pinned_memory_is_the_processors() -> None:
    """Of a library that takes results by DLPack."""

    class Pinned(ByDlpack):
        def __array_namespace__(self) -> Any:
            return Pinned

        @staticmethod
        def from_dlpack(array: Any) -> Any:
            return Pinned(np.from_dlpack(array), (CUDA_HOST, 0))

    x = Pinned(np.arange(3, dtype=np.float32), (CUDA_HOST, 0))
    for backend in ("numba", "cuda"):
        found = tc.compile(ONE, backend=backend)(x)
        assert found.values.tolist() == [0, 2, 4]


@pytest.mark.usefixtures("stand_in")
def test_what_asking_raises() -> None:
    class Broken(ByDlpack):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no memory of mine")

    with pytest.raises(tc.InputError) as caught:
        tc.compile(ONE, backend="cuda")(Broken(np.ones(3, np.float32)))
    expected = "one: x cannot be read through DLPack: BufferError: no memory of mine"
    assert caught.value.cause == expected


# --- memory that is lent ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adopting", "jax"])
def test_results_of_libraries_that_only_adopt(
    name: str, use: Callable[[str], Library], stand_in: StandInDriver
) -> None:
    """Their memory goes when they do."""
    library = use(name)
    text = "def f(float(N) x) -> (t, o, n) { t +=! x(i)  o(i) = t * x(i)  n(i) = int64(x(i)) }"
    f = tc.compile(text, backend="cuda", options=tc.Options.preset("naive"))
    x = np.arange(5, dtype=np.float32)
    array = library.put(x, 0)
    t, o, n = f(array)
    assert (library.get(t), library.get(t).shape) == (10, ())
    np.testing.assert_array_equal(library.get(o), 10 * x)
    np.testing.assert_array_equal(library.get(n), np.arange(5))
    assert stand_in.names()[-1] == "wait"
    del t, o, n
    f._specialiser.made.clear()
    f._last = f._entry = None
    assert dlpack_capsule._LENT == {}
    assert stand_in.live == set()


def test_lent_memory_that_nobody_takes(stand_in: StandInDriver) -> None:
    lent = dlpack_capsule.LentArray(StandInMemory(stand_in, 24), (2, 3), np.dtype(np.float32), 1)
    assert lent.__dlpack_device__() == (CUDA, 1)
    capsule = lent.__dlpack__(stream=7)
    assert len(dlpack_capsule._LENT) == 1
    del capsule
    assert dlpack_capsule._LENT == {}
    held = take_over(lent.__dlpack__())
    found = held.address, held.shape, held.strides, held.dtype, held.device, held.read_only
    assert found == (lent.address, (2, 3), None, np.float32, (CUDA, 1), False)
    del lent
    assert len(stand_in.live) == 1
    del held
    assert stand_in.live == set()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float64])
def test_types_of_lent_memory(dtype: Any, stand_in: StandInDriver) -> None:
    memory = StandInMemory(stand_in, 64)
    ctypes.memset(memory.address, 1, 64)
    array = on_host(dlpack_capsule.LentArray(memory, (2, 2), np.dtype(dtype), 0))
    expected = np.frombuffer(bytes([1] * 64), dtype)[:4].reshape(2, 2)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, expected)


def test_capsules_of_adopted_arrays(use: Callable[[str], Library]) -> None:
    library = use("adopting")
    assert isinstance(library.module, Adopting)
    array = library.put(np.ones(3, np.float32), 1)
    assert family_of(array).devices.new is None
