"""Streams of callers: the order of launches, who has what memory, what graphs record."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.runtime.entries.device_entry import DeviceEntry
from tests.support.device_libraries import CudaAPIError, CupyDevice
from tests.support.on_devices import Library, use
from tests.support.stand_in import REFUSED, DeviceVector, StandInDriver, stand_in
from tests.support.threads import run_at_once

__all__ = ["stand_in", "use"]

Use = Callable[[str], Library]

ONE = "def one(float(N) x) -> (o) { o(i) = 2 * x(i) }"
PARTS = "def f(float(N) x) -> (y) { t +=! x(i)  y(i) = t * x(i) }"
SCALED = "def f(float(N) x, float s) -> (y) { t +=! x(i)  y(i) = s * t * x(i) }"
GATHER = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
X = np.arange(6, dtype=np.float32)
PLAIN = tc.Options.preset("naive")


def streams_of(driver: StandInDriver) -> set[Any]:
    """Those of all launches."""
    return {call[2] for call in driver.calls if call[0] == "launch"}


def orders_of(driver: StandInDriver) -> list[tuple[int, int]]:
    return [call[1:] for call in driver.calls if call[0] == "order"]


# --- the stream of a call -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_the_librarys_current_stream(name: str, use: Use, stand_in: StandInDriver) -> None:
    """That of the arrays' device, at every call."""
    library, one = use(name), tc.compile(ONE, backend="cuda")
    arrays = [library.put(X.copy(), number) for number in (0, 1)]
    for first, second in [(0, 0), (7, 9), (8, 9), (7, 0), (7, 0), (7, 0)]:
        library.module.streams.update({0: first, 1: second})
        for array, stream in zip(arrays, (first, second), strict=True):
            stand_in.calls.clear()
            np.testing.assert_array_equal(library.get(one(array)), 2 * X)
            assert streams_of(stand_in) == {stream}
            assert orders_of(stand_in) == []
    assert "wait" not in stand_in.names()


@pytest.mark.parametrize(("told", "stream"), [(None, 0), (1, 0), (2, 2), (77, 77)])
def test_streams_of_the_interface(told: Any, stream: int, stand_in: StandInDriver) -> None:
    """1 is the default stream, 2 that of a thread; results are expected on the default one."""
    one = tc.compile(ONE, backend="cuda")
    for _ in range(4):
        stand_in.calls.clear()
        assert one(DeviceVector(X, stream=told)).values.tolist() == (2 * X).tolist()
        assert streams_of(stand_in) == {stream}
        assert orders_of(stand_in) == ([(0, stream)] if stream else [])


@pytest.mark.usefixtures("stand_in")
def test_stream_0_of_the_interface_is_refused() -> None:
    with pytest.raises(tc.InputError) as caught:
        tc.compile(ONE, backend="cuda")(DeviceVector(X, stream=0))
    assert caught.value.cause == (
        "one: x names stream 0 in its __cuda_array_interface__, which may be the default stream or "
        "one of each thread's own"
    )
    assert caught.value.repair == "give 1 for the default stream, 2 for that of a thread"


def test_arrays_of_several_streams(stand_in: StandInDriver) -> None:
    """The call is in the first one; it waits for the others, and they for it: who has an array on
    another stream may write to it, or read it, right afterwards."""
    text = "def f(float(N) a, float(N) b, float(N) c) -> (o) { o(i) = a(i) + b(i) * c(i) }"
    f = tc.compile(text, backend="cuda")
    a, b, c = (DeviceVector(X + n, stream=stream) for n, stream in enumerate((None, 5, 6)))
    o = DeviceVector(np.zeros(6, np.float32), stream=7)
    for _ in range(3):
        stand_in.calls.clear()
        f(a, b, c, outputs=o)
        np.testing.assert_array_equal(o.values, X + (X + 1) * (X + 2))
        names = [name for name in stand_in.names() if name != "on"]
        assert names[-6:] == ["order", "order", "launch", "order", "order", "order"]
        assert streams_of(stand_in) == {5}
        assert orders_of(stand_in) == [(5, 6), (5, 7), (6, 5), (7, 5), (0, 5)]


def test_results_of_numba_are_on_the_stream_of_the_first_array(
    use: Use, stand_in: StandInDriver
) -> None:
    library = use("numba")
    x = library.put(X, 1)
    x.stream = 5
    found = tc.compile(ONE, backend="cuda")(x)
    assert (found.stream, found.gpu_data.context.device.id) == (5, 1)
    assert streams_of(stand_in) == {5}
    assert library.module.current == 0


# --- memory beside the arrays ---------------------------------------------------------------------


def temporaries_of(function: tc.Compiled) -> dict[Any, set[int]]:
    """The addresses of temporaries that are kept, for each stream."""
    return {
        stream: {address for frame in frames for address in frame.temporaries}
        for special in function._specialiser.made.values()
        for stream, frames in special.frames.by_stream.items()
    }


@pytest.mark.parametrize("name", ["cupy", "torch", "numba", "adopting"])
def test_nothing_is_allocated_twice(name: str, use: Use, stand_in: StandInDriver) -> None:
    """Temporaries and memory for numbers come with the first call."""
    library, f = use(name), tc.compile(SCALED, backend="cuda", options=PLAIN)
    x, y = library.put(X.copy(), 1), library.put(np.zeros(6, np.float32), 1)
    made: list[int] = []
    for s in (2.0, 2.0, 3.0, 3.0):
        stand_in.calls.clear()
        f(x, s, outputs=y)
        np.testing.assert_array_equal(library.get(y), s * 15 * X)
        allocated = getattr(library.module, "allocated", None)
        made.append(stand_in.names().count("allocate") if allocated is None else len(allocated))
        if allocated is not None:
            allocated.clear()
    assert made[1:] == [0, 0, 0]
    assert made[0] == (0 if name == "numba" else 2)  # which allocates by itself


def test_threads_on_one_stream_and_on_several(stand_in: StandInDriver) -> None:
    """No two calls at once have the same temporaries: the second would be launched between the
    two launches of the first. Frames that are used at the same time are as many as threads."""
    f = tc.compile(PARTS, backend="cuda", options=PLAIN)
    f(DeviceVector(X))
    using: dict[int, int] = defaultdict(int)
    shared: list[int] = []
    barrier = threading.Barrier(4)
    special = next(iter(f._specialiser.made.values()))
    inner = type(special.runner).enqueue

    def enqueue(kernel: Any, pointers: Any, words: Any, stream: int) -> Any:
        temporary = pointers[-1]
        using[temporary] += 1
        if using[temporary] > 1:
            shared.append(temporary)
        try:
            barrier.wait(20)
            return inner(kernel, pointers, words, stream)
        finally:
            using[temporary] -= 1

    def work(number: int, streams: list[int]) -> None:
        rng = np.random.default_rng(number)
        for turn in range(8):
            values = rng.integers(-4, 5, 6).astype(np.float32)
            found = f(DeviceVector(values, stream=streams[turn % len(streams)])).values
            np.testing.assert_array_equal(found, values.sum() * values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(special.runner), "enqueue", enqueue)
        for streams in ([3], [3, 4], [5, 3, 2, 77]):
            run_at_once(partial(work, n, streams) for n in range(4))
    assert shared == []
    kept = temporaries_of(f)
    addresses = [address for each in kept.values() for address in each]
    assert len(addresses) == len({*addresses})
    assert len(kept[3]) >= 4
    assert "wait" not in stand_in.names()


def test_threads_have_default_streams_of_their_own() -> None:
    """CUDA calls all of them 2: what one thread has put in line there is not in another's."""
    from tc.runtime.device_frames import DeviceFrame, DeviceFrames

    frames, frame = DeviceFrames(), DeviceFrame([], [], None, [], [])
    frames.give_back(2, frame)
    frames.give_back(3, frame)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend((frames.take(2), frames.take(3))))
    thread.start()
    thread.join()
    assert found == [None, frame]
    assert frames.take(2) is frame


@pytest.mark.usefixtures("stand_in")
def test_only_so_many_streams_are_remembered() -> None:
    f = tc.compile(PARTS, backend="cuda", options=PLAIN)
    for stream in range(3, 43):
        f(DeviceVector(X, stream=stream))
    assert [*temporaries_of(f)] == [*range(27, 43)]


# --- graphs -----------------------------------------------------------------------------------


def record(library: Library, *, on: bool) -> None:
    library.module.streams[0] = 9
    library.module.capturing = {9} if on else set()
    if library.name == "torch":
        library.module.capturing = on


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_what_a_graph_records(name: str, use: Use, stand_in: StandInDriver) -> None:
    """A graph holds memory that no other call uses, and writes the numbers anew whenever it
    runs."""
    library, f = use(name), tc.compile(SCALED, backend="cuda", options=PLAIN)
    x = library.put(X.copy(), 0)
    record(library, on=False)
    for _ in range(3):
        f(x, 2.0)
    before = temporaries_of(f)[9]
    launched: list[int] = []
    (special,) = f._specialiser.made.values()
    inner = type(special.runner).enqueue

    def enqueue(kernel: Any, pointers: Any, words: Any, stream: int) -> Any:
        launched.append(pointers[-1])
        return inner(kernel, pointers, words, stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(special.runner), "enqueue", enqueue)
        record(library, on=True)
        for _ in range(3):
            stand_in.calls.clear()
            np.testing.assert_array_equal(library.get(f(x, 2.0)), 30 * X)
            assert stand_in.names().count("fill") == 1
            assert "wait" not in stand_in.names()
        assert not before & {*launched}
        record(library, on=False)
        f(x, 2.0)
        assert launched[-1] in before
    kept = {at for frame in special.frames.recorded for at in frame.temporaries}
    # torch keeps what a graph was recorded with; of CuPy's memory nobody else would
    assert kept == ({*launched[:3]} if name == "cupy" else set())


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_checked_call_cannot_be_recorded_g7(name: str, use: Use, stand_in: StandInDriver) -> None:
    library, g = use(name), tc.compile(GATHER, backend="cuda", check=True)
    x, at = library.put(X.copy(), 0), library.put(np.int32([3, 0]), 0)
    for recording in (False, False, True, True):
        record(library, on=recording)
        stand_in.calls.clear()
        if not recording:
            assert library.get(g(x, at)).tolist() == [3, 0]
            continue
        with pytest.raises(tc.BackendError) as caught:
            g(x, at)
        assert caught.value.cause == (
            "g is checked, so that a call waits for the device, and this stream is being captured "
            "to a graph"
        )
        assert "launch" not in stand_in.names()


# --- devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cupy", "torch", "numba"])
def test_the_current_device_stays(name: str, use: Use, stand_in: StandInDriver) -> None:
    library, f = use(name), tc.compile(PARTS, backend="cuda", options=PLAIN)
    arrays = [library.put(X.copy(), number) for number in (0, 1)]
    with stand_in.on(1):
        for array in arrays * 3:
            np.testing.assert_array_equal(library.get(f(array)), 15 * X)
            assert stand_in.current() == 1
    assert (CupyDevice.current(), stand_in.current()) == (0, None)
    assert isinstance(f._entry, DeviceEntry | None)


@pytest.mark.usefixtures("stand_in")
def test_a_library_that_makes_arrays_elsewhere(stand_in: StandInDriver) -> None:
    """Nothing is launched with them."""
    one = tc.compile(ONE, backend="cuda")
    for _ in range(3):
        with pytest.raises(tc.BackendError) as caught:
            one(DeviceVector(X, device=1))
        assert caught.value.cause == (
            "tests has made an array on CUDA device 0, and the arrays of the call lie on CUDA "
            "device 1"
        )
        assert caught.value.repair == "make that device its current one, or pass outputs="
    y = DeviceVector(X.copy(), device=1)
    with pytest.raises(tc.BackendError) as caught:  # memory for the number
        tc.compile(SCALED, backend="cuda")(DeviceVector(X, device=1), 2.0, outputs=y)
    assert caught.value.repair == "make that device its current one"
    assert "launch" not in stand_in.names()


@pytest.mark.parametrize("name", ["cupy", "torch", "numba"])
def test_a_library_without_memory(name: str, use: Use, stand_in: StandInDriver) -> None:
    """The error has the shapes; the next call works."""
    library, f = use(name), tc.compile(PARTS, backend="cuda", options=PLAIN)
    x = library.put(X.copy(), 0)
    for _ in range(3):
        library.module.short = True
        with pytest.raises(tc.BackendError) as caught:
            f(x)
        assert caught.value.cause == (
            "f: there is not enough memory for y of shape (6,) and dtype float32, "
            "t of shape () and dtype float32"
        )
        library.module.short = False
        np.testing.assert_array_equal(library.get(f(x)), 15 * X)
    assert stand_in.live == set()


OUT_OF_MEMORY = type("MemoryError", (Exception,), {})
"""PyCUDA's own `MemoryError`, which is not Python's."""


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "error",
    [
        OUT_OF_MEMORY("cuMemAlloc failed"),
        CudaAPIError(2, "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 24 bytes"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_library_without_memory(error: Exception) -> None:
    f = tc.compile(PARTS, backend="cuda", options=PLAIN)
    for _ in range(3):
        REFUSED.append(error)
        with pytest.raises(tc.BackendError, match=r"not enough memory for y of shape \(6,\)"):
            f(DeviceVector(X))
        np.testing.assert_array_equal(f(DeviceVector(X)).values, 15 * X)
    REFUSED.append(RuntimeError("an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        f(DeviceVector(X))
    np.testing.assert_array_equal(f(DeviceVector(X)).values, 15 * X)
