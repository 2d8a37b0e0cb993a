"""Faults at each call of CUDA's driver, in first and in repeated calls, on arrays of a device and
of the processor: a TCError that tells of it, nothing left behind, and the next call is right."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.cuda_driver import DriverError
from tests.support.device_libraries import CUDA, Adopted, Adopting
from tests.support.stand_in import DeviceVector, StandInDriver, use

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")

X = np.arange(6, dtype=np.float32)
A, B = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 2), np.float32)
PLACES = np.array([4, 0, 2], np.int32)
NAIVE = tc.Options.preset("naive")


@dataclass(frozen=True)
class Case:
    """A program with its arrays and numbers, its results by numpy, and the requests to the driver
    that only its first call makes."""

    text: str
    given: tuple[Any, ...]
    results: tuple[Any, ...]
    how: Mapping[str, Any] = field(default_factory=dict)
    asks: tuple[str, ...] = ()

    def function(self) -> tc.Compiled:
        return tc.compile(self.text, backend="cuda", **self.how)


CASES = {
    "one launch": Case(
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        (A, B),
        (A @ B,),
    ),
    "temporaries": Case(
        "def f(float(N) x) -> (y, z) { t +=! x(i)  y(i) = t * x(i)  z +=! y(i) }",
        (X,),
        (15 * X, np.float32(225)),
        {"options": NAIVE},
    ),
    "numbers": Case(
        "def f(float(N) x, float a, double b) -> (y) { y(i) = a * x(i) + float(b) }",
        (X, 2.0, 3.0),
        (2 * X + 3,),
    ),
    "checked": Case(
        "def f(float(N) x, int(M) p) -> (y) { y(i) = x(p(i)) }",
        (X, PLACES),
        (X[PLACES],),
        {"check": True},
        asks=("copy_out", "fill"),
    ),
    "blocks that wait": Case(
        "def f(float(N) x) -> (y) { t +=! x(i)  y(i) = t * x(i) }",
        (np.tile(X, 90),),
        (90 * 15 * np.tile(X, 90),),
        {"options": tc.Options(gpu=tc.GpuOptions(single_kernel=True))},
        asks=("blocks_at_once", "fill"),
    ),
}
WHERES: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "device": (lambda array: DeviceVector(array, stream=3), {"order"}),
    "processor": (lambda array: array, {"allocate", "copy_in", "copy_out"}),
    "memory of the driver's": (lambda array: Adopted(array, (CUDA, 0)), {"allocate"}),
}
"""Where arrays lie, and what calls with them ask of the driver."""
REPEATED = 4


@dataclass
class Calls:
    """Calls of one function with a driver."""

    case: Case
    place: Callable[[Any], Any]
    driver: StandInDriver
    function: tc.Compiled = field(init=False)

    def __post_init__(self) -> None:
        self.function = self.case.function()

    def call(self) -> int:
        """A call with new arrays, whose results are right; how often it calls the driver."""
        before = len(self.driver.calls)
        given = [self.place(each) if np.ndim(each) else each for each in self.case.given]
        found = self.function(*given)
        results = found if isinstance(found, tuple) else (found,)
        for result, expected in zip(results, self.case.results, strict=True):
            np.testing.assert_array_equal(getattr(result, "values", result), expected)
        return len(self.driver.calls) - before

    def fail(self, at: int) -> None:
        """A call that meets a fault when it has called the driver so often; the next is right."""
        fault = DriverError("CUDA_ERROR_UNKNOWN", "unknown error")
        self.driver.faults_at[len(self.driver.calls) + at] = fault
        with pytest.raises(tc.TCError) as caught:
            self.call()
        assert self.driver.faults_at == {}
        assert "CUDA_ERROR_UNKNOWN: unknown error" in caught.value.cause
        assert "CUDA device 0" in caught.value.cause
        assert caught.value.repair
        assert self.driver.current() is None
        self.call()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("name", CASES)
def test_each_call_of_the_driver(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adopting", Adopting())
    place, asks = WHERES[where]

    def fresh() -> Calls:
        driver = StandInDriver()
        use(driver, monkeypatch)
        return Calls(CASES[name], place, driver)

    calls = fresh()
    first = calls.call()
    asked = {*calls.driver.names()}
    assert {
        "gpu",
        "on",
        "load",
        "launcher",
        "registers",
        "launch",
        *calls.case.asks,
        *asks,
    } <= asked
    for at in range(first):
        calls = fresh()
        calls.fail(at)
    repeated = [calls.call() for _ in range(REPEATED)][-1]
    assert 0 < repeated < first
    for at in range(repeated):
        calls.fail(at)
        assert calls.call() == repeated
    driver = calls.driver
    del calls
    gc.collect()
    assert driver.live == set()
