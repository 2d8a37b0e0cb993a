"""The backend `opencl`: memory of calls, threads, forks, and what devices lack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import opencl_device
from tc.backends.base import KernelText
from tc.backends.opencl import OpenCLBackend
from tc.backends.opencl_device import INSTALL, OpenCLDevice
from tc.backends.opencl_kernel import OpenCLKernel
from tc.dtypes import FLOAT32, FLOAT64
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Binary, Kernel, Load, Store
from tc.process.uninterrupted import Lazy
from tests.kernel.grids import T0, T1, grid, launches, tmm
from tests.kernel.marked import Array
from tests.support.build import add, dense, times
from tests.support.grid_cases import GRIDS, failing, much_shared
from tests.support.kernels import load, run
from tests.support.opencl import on_pocl
from tests.support.processes import ended_well, run_python, told
from tests.support.threads import run_at_once

BACKEND = OpenCLBackend()


def arrays_of(kernel: Kernel, given: dict[str, Array]) -> dict[str, Array]:
    """The inputs with outputs that hold something."""
    outputs = [b for b in kernel.arguments if b.role != "input"]
    return {**given, **{b.name: np.full(b.shape, 3, b.dtype.numpy) for b in outputs}}


def opened() -> OpenCLDevice:
    return opencl_device.opencl_device()


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(GRIDS)), ids=[case.name for case in GRIDS])
@on_pocl
def test_results_with_copies(number: int) -> None:
    """As on devices with memory of their own."""
    assert opened().shares_memory
    case = GRIDS[number]
    given = case.inputs(np.random.default_rng(number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenCLDevice, "shares_memory", property(lambda _device: False))
        _, found = run(load(BACKEND, case.kernel), arrays_of(case.kernel, given))
    for name, expected in case.formula(given).items():
        np.testing.assert_array_equal(found[name], expected)


@on_pocl
def test_outputs_that_begin_with_values() -> None:
    """They are given to the device too, where it has memory of its own."""
    value = Load("o", (T0,), FLOAT32)
    launch = grid((), (4,), Store("o", (T0,), Binary("+", value, value, FLOAT32)))
    buffers = (dense("o", FLOAT32, (8,), "output"),)
    kernel = Kernel("k", buffers, ((launch,),), initial=frozenset(("o",)))
    for shares in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OpenCLDevice, "shares_memory", property(lambda _device, s=shares: s))
            o = np.arange(8, dtype=np.float32)
            run(load(BACKEND, kernel), {"o": o})
        assert o.tolist() == [0, 2, 4, 6, 4, 5, 6, 7]


@pytest.mark.parametrize("offset", [0, 4, 12, 60])
@on_pocl
def test_arrays_may_begin_anywhere(offset: int) -> None:
    """At any multiple of their element; what lies around them stays as it is."""
    case = next(case for case in GRIDS if case.name == "guarded")
    given = {"a": np.zeros(100 + offset, np.float32)[offset:]}
    memory = np.full(1024, 7, np.uint8)
    start = -memory.ctypes.data % 128 + offset
    out = memory[start : start + 400].view(np.float32)
    run(load(BACKEND, case.kernel), {**given, "o": out})
    assert out.tolist() == [1.0] * 100
    assert (np.delete(memory, range(start, start + 400)) == 7).all()


@on_pocl
def test_memory_of_a_call_serves_the_next() -> None:
    case = next(case for case in GRIDS if case.name == "two_launches")
    compiled = load(BACKEND, case.kernel)
    assert isinstance(compiled, OpenCLKernel)
    for seed in range(3):
        given = case.inputs(np.random.default_rng(seed))
        _, found = run(compiled, arrays_of(case.kernel, given))
        np.testing.assert_array_equal(found["o"], case.formula(given)["o"])
        assert len(compiled.calls.idle) == 1


@on_pocl
def test_blocks_of_two_threads() -> None:
    """PoCL 3 would make a loop that never ends."""
    text = "def f(float(E,D) L, int(B,K) I) -> (O) { O(i,j) +=! L(I(i,k),j) }"
    rng = np.random.default_rng(0)
    table = rng.integers(-9, 10, (17, 17)).astype(np.float32)
    rows = rng.integers(0, 17, (1, 33)).astype(np.int32)
    options = tc.Options(gpu=tc.GpuOptions(threads=(2,)))
    found = tc.compile(text, backend="opencl", options=options)(table, rows)
    np.testing.assert_array_equal(found, table[rows].sum(axis=1))


# --- threads and forks --------------------------------------------------------------------------


@on_pocl
def test_threads_share_a_kernel() -> None:
    """Each call has its own arguments and its own record of failures."""
    product, checked = load(BACKEND, tmm()), load(BACKEND, failing())

    def multiply(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(10):
            a, b = (random.integers(-9, 10, (n, 32)).astype(np.float32) for n in (128, 256))
            _, found = run(product, {"A": a, "B": b, "C": np.zeros((128, 256), np.float32)})
            np.testing.assert_array_equal(found["C"], a @ b.T)

    def check(seed: int) -> None:
        places = np.zeros(40, np.int64)
        places[seed] = -seed
        given = {"a": np.zeros(5, np.float32), "p": places}
        for _ in range(10):
            failure, _ = run(checked, arrays_of(checked.kernel, given))
            assert failure is not None
            assert failure.values == (seed, -seed)

    run_at_once(partial(work, seed) for seed in range(1, 5) for work in (multiply, check))


FORKS = """
import os, sys
import numpy as np
from tc.backends.opencl import OpenCLBackend
from tc.errors import BackendError
from tc.gpu import Gpu
from tests.kernel.grids import tmm
from tests.support.kernels import run
from tests.support.opencl import name_the_processor

backend = OpenCLBackend()

def load():
    name_the_processor()
    return backend.load(text)

def multiply(compiled):
    a, b = np.ones((128, 32), np.float32), np.ones((256, 32), np.float32)
    _, found = run(compiled, {"A": a, "B": b, "C": np.zeros((128, 256), np.float32)})
    return found["C"].sum(dtype=int)

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)

def fails(work):
    try:
        print(work())
    except BackendError as error:
        print(error)

text = backend.emit(tmm())
print(backend.usable(), flush=True)
in_child(lambda: print(multiply(load())))
compiled = load()
print(multiply(compiled), flush=True)
in_child(lambda: fails(lambda: multiply(compiled)))
in_child(lambda: fails(lambda: backend.load(text)))
plain = Gpu(cooperative=False, tensor_cores=False, wide_atomics=False)
in_child(lambda: print(backend.usable(), backend.device() == plain))
print(multiply(compiled))
"""

FORKED = (
    "this process was forked from one that has used OpenCL, and the threads of OpenCL's driver "
    "are not in it"
)


@on_pocl
def test_forks() -> None:
    """A child may use OpenCL if its parent has not yet, but for a look at what there is; else it is
    told, and does not wait."""
    done = run_python(FORKS, flags=["-W", "ignore"], limit=120)
    assert ended_well(done), told(done)
    total = str(128 * 256 * 32)
    refused = (
        f"BackendError: {FORKED}\n"
        'repair: multiprocessing.get_context("spawn"), or use backend="numba"'
    )
    lines = ("None", total, total, refused, refused, f"{FORKED} True", total)
    assert done.stdout == "".join(f"{line}\n" for line in lines)


# --- devices ----------------------------------------------------------------------------------


class FakeError(Exception):
    pass


def fake(*devices: SimpleNamespace, platforms: int = 1) -> Any:
    """A pyopencl that finds these devices."""

    def get_devices() -> list[SimpleNamespace]:
        if not devices:
            raise FakeError("DEVICE_NOT_FOUND")
        return list(devices)

    def get_platforms() -> list[SimpleNamespace]:
        if not platforms:
            raise FakeError("PLATFORM_NOT_FOUND_KHR")
        return [SimpleNamespace(name="Pretended", get_devices=get_devices)] * platforms

    return SimpleNamespace(
        Error=FakeError,
        device_type=SimpleNamespace(CPU=2, GPU=4),
        get_platforms=get_platforms,
        Context=lambda chosen: ("context", chosen),
    )


def device(name: str = "small", **properties: Any) -> SimpleNamespace:
    usual = {
        "type": 4,
        "max_work_group_size": 256,
        "max_work_item_sizes": [256, 256, 32],
        "local_mem_size": 32 << 10,
        "max_mem_alloc_size": 1 << 20,
        "double_fp_config": 0,
    }
    return SimpleNamespace(name=name, **{**usual, **properties})


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """A function that makes `import pyopencl` give another library."""

    def use(library: Any) -> None:
        monkeypatch.setattr(opencl_device, "_OPENED", Lazy(opencl_device._open))
        monkeypatch.setitem(sys.modules, "pyopencl", library)

    return use


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (None, "pyopencl cannot be imported: import of pyopencl halted; None in sys.modules"),
        (fake(platforms=0), "there is no OpenCL driver"),
        (fake(platforms=2), "there is no OpenCL device (drivers: Pretended, Pretended)"),
    ],
)
def test_without_a_device(found: Callable[[Any], None], library: Any, reason: str) -> None:
    """Texts are emitted all the same."""
    found(library)
    assert BACKEND.usable() == (reason if "device" not in reason else None)
    assert BACKEND.device() == Gpu(cooperative=False, tensor_cores=False, wide_atomics=False)
    with pytest.raises(BackendError) as caught:
        BACKEND.load(BACKEND.emit(tmm()))
    assert str(caught.value) == f"BackendError: {reason}\nrepair: {INSTALL}"


def test_a_gpu_is_preferred(found: Callable[[Any], None]) -> None:
    found(fake(device("processor", type=2), device(), device("other")))
    assert BACKEND.usable() is None
    assert str(opened()) == "small"
    assert not opened().shares_memory
    found(fake(device("processor", type=2)))
    assert opened().shares_memory


def test_limits_of_a_device(found: Callable[[Any], None]) -> None:
    """They are never above those of other texts, which would differ from device to device."""
    found(fake(device()))
    assert BACKEND.device() == Gpu(
        threads=256,
        thread_limits=(256, 256, 32),
        shared=32 << 10,
        cooperative=False,
        tensor_cores=False,
        wide_atomics=False,
    )
    large = {"max_work_group_size": 4096, "max_work_item_sizes": [4096] * 3}
    found(fake(device(**large, local_mem_size=2 << 20)))
    assert BACKEND.device() == Gpu(cooperative=False, tensor_cores=False, wide_atomics=False)


def doubled() -> Kernel:
    store = Store("o", (T0,), Load("a", (T0,), FLOAT64))
    buffers = dense("a", FLOAT64, (4,), "input"), dense("o", FLOAT64, (4,), "output")
    return launches(grid((), (4,), store), buffers=buffers)


def wide(*threads: int) -> Kernel:
    at = T0 if len(threads) == 1 else add(times(T0, threads[1]), T1)
    count = int(np.prod(threads))
    store = Store("o", (at,), Load("a", (at,), FLOAT32))
    buffers = dense("a", FLOAT32, (count,), "input"), dense("o", FLOAT32, (count,), "output")
    return launches(grid((), threads, store), buffers=buffers)


def large() -> Kernel:
    store = Store("o", (T0,), Load("a", (T0, T0), FLOAT32))
    buffers = dense("a", FLOAT32, (1 << 10, 1 << 10), "input"), dense("o", FLOAT32, (4,), "output")
    return launches(grid((), (4,), store), buffers=buffers)


@pytest.mark.parametrize(
    ("kernel", "cause", "repair"),
    [
        (
            doubled(),
            "'k' computes with doubles, which the OpenCL device small does not have",
            'use float in the program, or use backend="numba"',
        ),
        (
            wide(257),
            "'k' has blocks of 257 x 1 x 1 threads (x, y, z), and the OpenCL device small has at "
            "most 256, and 256 x 256 x 32 along x, y and z",
            "tc.GpuOptions(threads=(1, 1, 256))",
        ),
        (
            wide(300, 1),
            "'k' has blocks of 1 x 300 x 1 threads (x, y, z), and the OpenCL device small has at "
            "most 256, and 256 x 256 x 32 along x, y and z",
            "tc.GpuOptions(threads=(1, 256, 1))",
        ),
        (
            much_shared(),
            "'k' has 64112 bytes of shared memory, and the OpenCL device small has at most 32768",
            "tc.GpuOptions(shared=False)",
        ),
        (
            large(),
            "'a' of 'k' has 4194304 bytes, and the OpenCL device small takes at most 1048576 at "
            "once",
            'use backend="numba"',
        ),
    ],
)
def test_more_than_a_device_has(
    found: Callable[[Any], None], kernel: Kernel, cause: str, repair: str
) -> None:
    found(fake(device()))
    with pytest.raises(BackendError) as caught:
        BACKEND.load(BACKEND.emit(kernel))
    assert str(caught.value) == f"BackendError: {cause}\nrepair: {repair}"


@on_pocl
def test_a_build_that_fails() -> None:
    text = BACKEND.emit(tmm())
    broken = KernelText(text.kernel, text.backend, text.source.replace("float", "floatt", 1) + "}")
    with pytest.raises(BackendError) as caught:
        BACKEND.load(broken)
    first, *rest = caught.value.cause.splitlines()
    options = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
    assert first == f"the OpenCL device {opened()} cannot build 'k' ({options}):"
    assert any("extraneous closing brace" in line for line in rest)
    assert len(rest) <= 12
    assert caught.value.repair == 'use backend="numba"'
