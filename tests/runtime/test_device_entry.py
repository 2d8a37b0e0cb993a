"""Repeated calls with arrays on a device: right, in order, without waiting or allocating."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.runtime import arrays
from tc.runtime.entries.device_entry import DeviceEntry
from tests.support.on_devices import library_of
from tests.support.stand_in import ALLOCATED, DeviceVector, StandInDriver, stand_in
from tests.support.threads import run_at_once

__all__ = ["stand_in"]

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
SCALED = "def f(float(N) x, float a, double b) -> (y) { y(i) = a * x(i) + float(b) }"
PARTS = "def f(float(N) x) -> (y, z) { t +=! x(i)  y(i) = t * x(i)  z +=! y(i) }"
RNG = np.random.default_rng(5)


def vector(*shape: int, **how: Any) -> DeviceVector:
    return DeviceVector(RNG.integers(-4, 5, shape).astype(np.float32), **how)


def served(function: tc.Compiled, *inputs: Any, outputs: Any = None) -> Any:
    """The result of a call, which the entry has to serve."""
    assert isinstance(function._entry, DeviceEntry)
    found = function._entry.serve(inputs, outputs)
    assert found is not None
    return found


def warm(function: tc.Compiled, *inputs: Any, outputs: Any = None) -> None:
    for _ in range(2):
        function(*inputs, outputs=outputs)


def test_a_repeated_call_launches_and_nothing_else(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    warm(function, vector(3, 4), vector(4, 5))
    stand_in.calls.clear()
    ALLOCATED.clear()
    a, b = vector(3, 4), vector(4, 5)
    np.testing.assert_array_equal(served(function, a, b).values, a.values @ b.values)
    assert stand_in.calls == [("on", 0), ("launch", "mm_0", 0)]
    assert [((3, 5), np.float32)] == ALLOCATED


def test_entries_follow_streams_and_libraries(
    stand_in: StandInDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls with others make an entry for these: arrays of one shape share their code."""
    arrays._family_of_type.cache_clear()
    cupy = library_of("cupy", monkeypatch)
    function = tc.compile(PARTS, backend="cuda", options=tc.Options.preset("naive"))
    for make in (
        lambda: vector(6, stream=3),
        lambda: vector(6, stream=7),
        lambda: cupy.put(vector(6).values, 0),
        lambda: vector(6),
    ):
        warm(function, make())
        x = make()
        found = served(function, x)
        assert type(found.y) is type(x)
        np.testing.assert_array_equal(found.y.values, x.values.sum() * x.values)
    assert stand_in.names().count("load") == 1
    arrays._family_of_type.cache_clear()


def test_temporaries_are_kept_for_a_stream(stand_in: StandInDriver) -> None:
    function = tc.compile(PARTS, backend="cuda", options=tc.Options.preset("naive"))
    warm(function, vector(6, stream=3))
    stand_in.calls.clear()
    ALLOCATED.clear()
    x = vector(6, stream=3)
    found = served(function, x)
    total = x.values.sum()
    np.testing.assert_array_equal(found.y.values, total * x.values)
    assert found.z.values == total * total
    assert {call[2] for call in stand_in.calls if call[0] == "launch"} == {3}
    assert set(stand_in.names()) == {"on", "launch", "order"}
    assert stand_in.calls[-1] == ("order", 0, 3)  # results are expected on the default stream
    assert [((6,), np.float32), ((), np.float32)] == ALLOCATED


def test_frames_of_streams_are_apart(stand_in: StandInDriver) -> None:
    """A call on another stream does not get temporaries that one still uses."""
    function = tc.compile(PARTS, backend="cuda", options=tc.Options.preset("naive"))
    for stream in (3, 4, 3, 4):
        function(vector(6, stream=stream))
    (special,) = function._specialiser.made.values()
    frames = special.frames.by_stream
    assert {*frames} == {3, 4}
    assert frames[3][0].temporaries != frames[4][0].temporaries
    assert "wait" not in stand_in.names()


def test_numbers_are_written_when_they_change(stand_in: StandInDriver) -> None:
    function = tc.compile(SCALED, backend="cuda")
    x = vector(5)
    warm(function, x, 2.0, 3.0)
    for a, b, fills in [(2.0, 3.0, 0), (5, 3.0, 1), (5, 0.5, 1), (1.0, np.float64(7), 2)]:
        stand_in.calls.clear()
        found = served(function, x, a, b)
        np.testing.assert_array_equal(found.values, np.float32(a) * x.values + np.float32(b))
        assert stand_in.names().count("fill") == fills


def test_numbers_and_arrays_of_rank_0_take_turns(stand_in: StandInDriver) -> None:
    """Memory of a frame for numbers is that of its own input, however many others are numbers."""
    function = tc.compile(SCALED, backend="cuda")
    x, a, b = vector(5), DeviceVector(np.float32(2)), DeviceVector(np.float64(3))
    for given in [(2.0, 3.0), (a, 3.0), (2.0, b), (a, b), (2.0, 3.0), (a, 3.0), (a, 3.0)] * 2:
        found = function(x, *given)
        np.testing.assert_array_equal(found.values, 2 * x.values + 3)
    assert stand_in.names().count("on") > 0


@pytest.mark.parametrize(
    "other",
    [
        lambda: vector(3, 5),
        lambda: DeviceVector(RNG.random((3, 4))),
        lambda: DeviceVector(np.asfortranarray(vector(3, 4).values)),
        lambda: vector(3, 4, stream=9),
        lambda: np.zeros((3, 4), np.float32),
        lambda: 3.0,
    ],
    ids=["shape", "dtype", "strides", "stream", "place", "a number"],
)
@pytest.mark.usefixtures("stand_in")
def test_other_looks_are_not_served(other: Callable[[], Any]) -> None:
    function = tc.compile(MM, backend="cuda")
    a, b = vector(3, 4), vector(4, 5)
    warm(function, a, b)
    entry = function._entry
    assert isinstance(entry, DeviceEntry)
    assert entry.serve((other(), b), None) is None
    assert entry.serve((a,), None) is None
    assert entry.serve((a, b), vector(3, 5)) is None


def test_another_device_is_not_served(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    warm(function, vector(3, 4), vector(4, 5))
    stand_in.calls.clear()
    output = vector(3, 5, device=1)
    a, b = vector(3, 4, device=1), vector(4, 5, device=1)
    function(a, b, outputs=output)
    np.testing.assert_array_equal(output.values, a.values @ b.values)
    assert ("load", 1) in stand_in.calls


@pytest.mark.usefixtures("stand_in")
def test_outputs_that_are_given() -> None:
    function = tc.compile(MM, backend="cuda")
    a, b, c = vector(4, 4), vector(4, 4), vector(4, 4)
    warm(function, a, b, outputs=c)
    assert served(function, a, b, outputs=c) is c
    np.testing.assert_array_equal(c.values, a.values @ b.values)
    assert served(function, a, b, outputs=[c]) is c
    entry = function._entry
    assert isinstance(entry, DeviceEntry)
    assert entry.serve((a, b), None) is None
    assert entry.serve((a, b), a) is None
    assert entry.serve((a, b), [c, c]) is None
    read_only = vector(4, 4, read_only=True)
    assert entry.serve((a, b), read_only) is None
    both = vector(2, 4, 4)
    upper, lower = (DeviceVector(both.values[n]) for n in (0, 1))
    assert served(function, upper, b, outputs=lower) is lower
    rows = vector(7, 4)
    first, second = DeviceVector(rows.values[:4]), DeviceVector(rows.values[3:])
    assert entry.serve((first, b), second) is None
    with pytest.raises(tc.InputError, match="shares memory with the input A"):
        function(first, b, outputs=second)


def test_what_a_check_finds(stand_in: StandInDriver) -> None:
    text = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
    function = tc.compile(text, backend="cuda", check=True)
    x, at = vector(5), DeviceVector(np.array([0, 4, 2], np.int32))
    warm(function, x, at)
    wrong = DeviceVector(np.array([0, 5, 2], np.int32))
    for _ in range(2):
        with pytest.raises(tc.AccessError, match=r"x\(at\(i\)\).*5") as caught:
            function(x, wrong)
        assert caught.value.rule == "G7"
        np.testing.assert_array_equal(served(function, x, at).values, x.values[[0, 4, 2]])
    assert "copy_out" in stand_in.names()


def test_many_threads_on_streams(stand_in: StandInDriver) -> None:
    """No two calls have the same temporaries at once, and each is right."""
    function = tc.compile(PARTS, backend="cuda", options=tc.Options.preset("naive"))
    function(vector(6))

    def use(stream: int) -> None:
        rng = np.random.default_rng(stream)
        for _ in range(40):
            values = rng.integers(-4, 5, 6).astype(np.float32)
            found = function(DeviceVector(values, stream=1 + stream % 3))
            np.testing.assert_array_equal(found.y.values, values.sum() * values)

    run_at_once(partial(use, n) for n in range(6))
    assert "wait" not in stand_in.names()
