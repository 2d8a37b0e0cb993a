"""What a repeated call on a GPU costs the processor: `python -m bench.gpu_overhead`.

The driver does nothing, so that what is left is tc and the library of the arrays. It needs no GPU:
torch's tensors lie in the processor's memory then and pose as CUDA's. Where there is a GPU they are
CUDA's, CuPy's arrays join them, and calls that do launch are timed beside the launch alone.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from tabulate import tabulate

import tc
from bench.cpu_machine import git, installed
from bench.timing import machine, once, seconds_of_rounds
from tc.backends import cuda, cuda_driver, nvrtc
from tc.backends.base import KernelText
from tc.backends.cuda_driver import Launcher, OpenedDriver
from tc.backends.geometry import LaunchGeometry
from tc.runtime.arrays import _family_of_type
from tc.runtime.arrays.torch_private import private_parts

INPUTS = (1, 3, 8)
LENGTH = 256
GOAL = 10e-6
"""Seconds, beside the driver's launch."""

OWN = "of an input, by the array's own Python"

Times = Mapping[str, float]
"""Seconds of a call by kind of call: the number of inputs, and where the output comes from."""

ROUNDS = 15
BATCH = 100
"""Launches that fit the queue of a GPU, so that no launch waits for an earlier one to end."""

NOWHERE: AbstractContextManager[None] = contextlib.nullcontext()


class IdleDriver:
    """Implements `CudaDriver` by one device that does no work."""

    name = "idle"
    cooperates = True

    def count(self) -> int:
        return 1

    def version(self) -> tuple[int, int]:
        return 99, 0

    def gpu(self, number: int) -> tc.Gpu:  # noqa: ARG002
        return tc.Gpu()

    def title(self, number: int) -> str:  # noqa: ARG002
        return "no GPU"

    def current(self) -> int | None:
        return 0

    def on(self, number: int) -> AbstractContextManager[None]:  # noqa: ARG002
        return NOWHERE

    def load(self, cubin: bytes) -> Any:  # noqa: ARG002
        return None

    def launcher(
        self,
        module: Any,  # noqa: ARG002
        geometry: LaunchGeometry,  # noqa: ARG002
        parameters: int,  # noqa: ARG002
    ) -> Launcher:
        return lambda arguments, stream: None  # noqa: ARG005

    def registers(self, module: Any, function: str) -> int:  # noqa: ARG002
        return 0

    def blocks_at_once(self, module: Any, geometry: LaunchGeometry) -> int:  # noqa: ARG002
        return 2**30

    def allocate(self, size: int) -> Any:  # noqa: ARG002
        return SimpleNamespace(address=4096)

    def copy_in(self, address: int, source: int, size: int, stream: int) -> None: ...

    def copy_out(self, target: int, address: int, size: int, stream: int) -> None: ...

    def fill(self, address: int, content: bytes, stream: int) -> None: ...

    def order(self, stream: int, other: int) -> None: ...

    def wait(self, stream: int) -> None: ...


@contextlib.contextmanager
def idle_driver() -> Iterator[None]:
    """Has calls on CUDA's arrays go to a driver that does nothing, in this process."""

    def nothing(text: KernelText, arch: str) -> bytes:  # noqa: ARG001
        return b""

    driver = IdleDriver()
    opened = OpenedDriver(driver, os.getpid(), driver.version())
    with (
        patch.object(cuda_driver.OPENED, "made", [opened]),
        patch.object(nvrtc, "version", lambda: "0.0"),
        patch.object(nvrtc, "architectures", lambda: (tc.Gpu().arch,)),
        patch.object(cuda, "compile_text", nothing),
    ):
        yield


class Plain:
    """An array of which a library tells by `__cuda_array_interface__` alone."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.values = np.empty(shape, dtype)
        self.address = self.values.ctypes.data

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.values.shape,
            "typestr": "<f4",
            "data": (self.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


def empty(shape: tuple[int, ...], dtype: Any) -> Plain:
    """How tc makes arrays of that library: the function is in the module of the type."""
    return Plain(shape, dtype)


@contextlib.contextmanager
def posing(torch: Any) -> Iterator[None]:
    """Makes torch's tensors in the processor's memory pass for CUDA's. Unlike the real ones they
    say where they lie, and on which stream they are used, by Python instead of C, and their
    allocator is malloc."""
    tensor, torch_empty = torch.Tensor, torch.empty

    def empty_like_cuda(*sizes: Any, dtype: Any, device: Any) -> Any:  # noqa: ARG001
        return torch_empty(*sizes, dtype=dtype)

    with (
        patch.object(tensor, "is_cuda", True),
        patch.object(tensor, "is_cpu", False),
        patch.object(tensor, "get_device", lambda _: 0),
        patch.object(torch, "empty", empty_like_cuda),
        patch.object(private_parts(torch), "cuda_stream", lambda _: 0),
        patch.object(torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", lambda: False),
    ):
        _family_of_type.cache_clear()  # what is known of torch is of before
        try:
            yield
        finally:
            _family_of_type.cache_clear()


@dataclass(frozen=True)
class Library:
    """Arrays to call with: how one is made, and what holds meanwhile."""

    name: str
    new: Callable[[], Any]
    where: Callable[[], AbstractContextManager[None]] = lambda: NOWHERE


def libraries() -> list[Library]:
    """Those of this machine."""
    found = [Library("the interface alone", lambda: empty((LENGTH,), np.float32))]
    with contextlib.suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            found.append(Library("torch", lambda: torch.empty(LENGTH, device="cuda")))
            with contextlib.suppress(ImportError):
                import cupy

                found.append(Library("cupy", lambda: cupy.empty(LENGTH, np.float32)))
        else:
            name = "torch, its tensors posing as CUDA's"
            found.append(Library(name, lambda: torch.empty(LENGTH), lambda: posing(torch)))
    return found


def text_of(inputs: int) -> str:
    """
    >>> text_of(2)
    'def f(float(N) x0, float(N) x1) -> (y) { y(i) = x0(i) + x1(i) }'
    """
    names = [f"x{number}" for number in range(inputs)]
    parameters = ", ".join(f"float(N) {name}" for name in names)
    return f"def f({parameters}) -> (y) {{ y(i) = {' + '.join(f'{n}(i)' for n in names)} }}"


def call_samples(library: Library, budget: float) -> dict[str, list[float]]:
    """Processor seconds of repeated calls, with as many inputs as `INPUTS` says, one number a
    round: other work of the machine does not count."""
    runs: dict[str, Callable[[], object]] = {}
    for inputs in INPUTS:
        arrays, given = [library.new() for _ in range(inputs)], library.new()
        fresh, into = (tc.compile(text_of(inputs), backend="cuda") for _ in range(2))
        runs[new_output(inputs)] = lambda f=fresh, xs=arrays: f(*xs)
        runs[given_output(inputs)] = lambda f=into, xs=arrays, y=given: f(*xs, outputs=y)
    with library.where():
        for run in runs.values():
            for _ in range(3):
                run()
        return seconds_of_rounds(runs, budget=budget, rounds=ROUNDS, clock=time.thread_time)


def new_output(inputs: int) -> str:
    return f"{inputs} inputs" if inputs > 1 else "1 input"


def given_output(inputs: int) -> str:
    return f"{new_output(inputs)}, outputs="


def parts(times: Times) -> dict[str, float]:
    """What the differences of times say: of one more input, of making the output or taking the one
    that was given, and of what is left.

    >>> found = parts({"1 input": 4.0, "3 inputs": 6.0, "8 inputs": 11.0,
    ...                "1 input, outputs=": 3.5, "8 inputs, outputs=": 10.5})
    >>> found == {"an input": 1.0, "a new output instead of one given": 0.5, "the rest": 3.0}
    True
    """
    least, most = INPUTS[0], INPUTS[-1]
    of_input = (times[new_output(most)] - times[new_output(least)]) / (most - least)
    made = times[new_output(least)] - times[given_output(least)]
    rest = times[new_output(least)] - least * of_input
    return {"an input": of_input, "a new output instead of one given": made, "the rest": rest}


def launching(library: Library, wait: Callable[[], None], stream: int) -> Times:
    """Of calls that do launch, and of the launch alone; `wait` is for the device to be done."""
    *xs, y = (library.new() for _ in range(4))
    function = tc.compile(text_of(3), backend="cuda")
    for _ in range(3):
        function(*xs, outputs=y)
    (special,) = function._specialiser.made.values()
    kernel: Any = special.runner
    launch, arguments = kernel.steps[0].launch, [x.data_ptr() for x in (*xs, y)]

    def alone() -> None:
        launch(arguments, stream)

    def whole() -> None:
        function(*xs, outputs=y)

    samples: dict[str, list[float]] = {"the launch alone": [], "3 inputs, outputs=, launched": []}
    for _ in range(2 * ROUNDS):
        for name, run in zip(samples, (alone, whole), strict=True):
            wait()
            samples[name].append(once(lambda run=run: [run() for _ in range(BATCH)]) / BATCH)
    return {name: statistics.median(seconds) for name, seconds in samples.items()}


def own_part(library: Library, budget: float) -> Times:
    """The seconds that an array described by Python code spends on its own description in each
    call."""
    array = library.new()
    if not isinstance(array, Plain):
        return {}
    runs = {OWN: lambda: array.__cuda_array_interface__}
    samples = seconds_of_rounds(runs, budget=budget, rounds=ROUNDS, clock=time.thread_time)
    return {OWN: statistics.median(samples[OWN])}


def microseconds(seconds: float) -> str:
    """
    >>> microseconds(4.567e-6)
    '4.57'
    """
    return f"{seconds * 1e6:.2f}"


def table(columns: Mapping[str, Times]) -> str:
    """A row for each time, a column for each library; beyond the goal is marked."""
    rows = list(dict.fromkeys(row for times in columns.values() for row in times))
    lines = [[row, *(_cell(times.get(row)) for times in columns.values())] for row in rows]
    return tabulate(lines, ["us", *columns], tablefmt="github", disable_numparse=True)


def _cell(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return microseconds(seconds) + (" !" if seconds > GOAL else "")


def measured(found: Sequence[Library], budget: float) -> dict[str, Times]:
    """Medians, by library."""
    columns = {}
    with idle_driver():
        for library in found:
            samples = call_samples(library, budget)
            times = {name: statistics.median(seconds) for name, seconds in samples.items()}
            columns[library.name] = {**times, **parts(times), **own_part(library, budget / 10)}
    return columns


def main() -> None:
    found = libraries()
    columns = measured(found, budget=1.5)
    versions = ", ".join(f"{n} {v}" for n, v in installed(("torch", "cupy")).items())
    print(f"{machine()}, {versions}, commit {git('rev-parse', '--short', 'HEAD') or 'unknown'}\n")
    print(table(columns))
    cuda_tensors = next((library for library in found if library.name == "torch"), None)
    if cuda_tensors is not None:
        import torch

        stream = torch.cuda.current_stream().cuda_stream
        print(f"\n{table({'torch': launching(cuda_tensors, torch.cuda.synchronize, stream)})}")
    print(f"\nMedians of {ROUNDS} rounds of processor time; ! is over {GOAL * 1e6:.0f} us.")


if __name__ == "__main__":
    main()
