"""A backend whose kernels do what is asked, and what options tell them besides: its faults.

Where it is loaded, time is what its kernels say that they take, and passes with nothing else: what
is measured does not depend on the machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.backends.base import KernelText
from tc.device import Device
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure, Kernel
from tc.options import MappingOptions, Options

Arrays = dict[str, np.ndarray[Any, Any]]

SECONDS = 0.002
"""Of a call where nothing else is said."""


def hang(_: Arrays) -> None:
    while True:
        pass


def allocate(_: Arrays) -> None:
    kept = []
    while True:
        kept.append(np.ones(1 << 20))


def talk(_: Arrays) -> None:
    while True:
        os.write(1, b"hello\n" * 1000)


def write_behind(arrays: Arrays) -> None:
    y = arrays["y"]
    ctypes.memset(y.ctypes.data + y.nbytes, 1, 1)


def write_before(arrays: Arrays) -> None:
    ctypes.memset(arrays["y"].ctypes.data - 1, 1, 1)


def read_far_behind(arrays: Arrays) -> None:
    x = arrays["x"]
    ctypes.string_at(x.ctypes.data + x.nbytes + (1 << 19), 1)


def write_input(arrays: Arrays) -> None:
    ctypes.memset(arrays["x"].ctypes.data, 1, 1)


def be_wrong(arrays: Arrays) -> None:
    arrays["y"].flat[-1] += 1


def be_turned(arrays: Arrays) -> None:
    arrays["y"][...] = arrays["y"][::-1].copy()


def forget_one(arrays: Arrays) -> None:
    arrays["y"].flat[0] = np.float32(np.nan)


def be_wrong_later(arrays: Arrays) -> None:
    CALLS.append(1)
    if len(CALLS) > 10:
        be_wrong(arrays)


def be_fast_and_wrong_later(arrays: Arrays) -> None:
    """Faster than all others; wrong where calls follow each other with no check for long."""
    CLOCK.now -= int(0.9e9 * SECONDS)
    CALLS.append(1)
    if len(CALLS) > 80:
        be_wrong(arrays)


def end_process(_: Arrays) -> None:
    os._exit(3)


def end_politely(_: Arrays) -> None:
    raise SystemExit(0)


def be_killed(_: Arrays) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_server(_: Arrays) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1)


def raise_error(_: Arrays) -> None:
    raise ValueError("no such luck")


def fork_and_stay(_: Arrays) -> None:
    if os.fork() == 0:
        time.sleep(600)


def be_slow(_: Arrays) -> None:
    CLOCK.now += int(19e9 * SECONDS)


def be_fast(_: Arrays) -> None:
    CLOCK.now -= int(0.5e9 * SECONDS)


def be_alike(_: Arrays) -> None:
    """Takes turns in being faster and slower than others."""
    CALLS.append(1)
    CLOCK.now += int((-1) ** len(CALLS) * 0.3e9 * SECONDS)


def move_clock(_: Arrays) -> None:
    """The time of day, as when somebody sets it, and no other."""
    time.time = lambda: 0.0
    time.time_ns = lambda: 0


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


CLOCK = Clock()


CALLS: list[int] = []
WELL = [be_fast, be_slow, be_alike, move_clock]
FAULTS = [
    *(hang, allocate, talk, write_behind, write_before, read_far_behind, write_input, be_wrong),
    *(
        be_turned,
        forget_one,
        be_wrong_later,
        be_fast_and_wrong_later,
        end_process,
        end_politely,
        be_killed,
        kill_server,
        raise_error,
    ),
    fork_and_stay,
]
"""What a kernel may do. Numbers below stand for them in options: those of compiling are behind."""


def while_compiling(what: str, again: int = 0) -> Options:
    """Options whose kernel does `what` when the kernel is loaded; another `again` makes another
    kernel."""
    return _numbered(_COMPILING + 1 + _NAMES.index(what), again)


def while_running(what: str, again: int = 0) -> Options:
    """Options whose kernel does `what` when the kernel is called."""
    return _numbered(1 + _NAMES.index(what), again)


def what_it_does(options: Options) -> str | None:
    """The name of what a kernel with these options does besides; None for nothing."""
    number = (options.mapping.unroll - 4096) % _AGAIN % _COMPILING
    return _NAMES[number - 1] if number > 0 else None


_COMPILING, _AGAIN = 1000, 10_000


def _numbered(number: int, again: int) -> Options:
    return Options(mapping=MappingOptions(unroll=4096 + number + again * _AGAIN))


_ALL: list[Callable[[Arrays], None]] = [*FAULTS, *WELL]
_NAMES = [each.__name__ for each in _ALL]


@dataclass(frozen=True)
class FaultyBackend:
    name: str = "faulty"
    checks_by_default: bool = True

    def usable(self) -> str | None:
        return None

    def device(self) -> Device:
        return Device(vector_bits=0)

    def emit(self, kernel: Kernel, options: Any = None) -> KernelText:
        return KernelText(kernel, self.name, str(options.mapping.unroll - 4096))

    def load(self, text: KernelText) -> FaultyKernel:
        time.perf_counter_ns = CLOCK
        number = int(text.source) % _AGAIN
        if number > _COMPILING:
            _ALL[number - _COMPILING - 1]({})
            number = 0
        return FaultyKernel(text.kernel, text.source, _ALL[number - 1] if number > 0 else None)


@dataclass(frozen=True)
class FaultyKernel:
    kernel: Kernel
    source: str
    fault: Callable[[Arrays], None] | None
    made: list[int] = field(default_factory=list)

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        arrays = {
            b.name: np.frombuffer((ctypes.c_char * b.bytes).from_address(place), b.dtype.numpy)
            for b, place in zip(self.kernel.arguments, addresses, strict=True)
        }
        failure = evaluate(self.kernel, arrays)
        CLOCK.now += int(1e9 * SECONDS)
        if self.fault is not None:
            self.fault(arrays)
        return failure
