"""The libraries behind `CudaDriver`: on stubs with the signatures of their released versions, and
on the driver of this machine, where there is one."""

from __future__ import annotations

import ctypes
import gc
import importlib
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import tc
from tc.backends import cuda_driver, nvrtc
from tc.backends.cuda_driver import CudaDriver, DriverError
from tc.backends.geometry import LaunchGeometry
from tc.errors import BackendError
from tests.support.stub_cuda import Launch, Machine, bindings
from tests.support.stub_pycuda import Stub
from tests.support.threads import run_at_once

ADAPTERS = {
    "cuda-bindings": ("tc.backends.cuda_bindings_driver", "CudaBindingsDriver"),
    "PyCUDA": ("tc.backends.pycuda_driver", "PyCudaDriver"),
}
TOLD = """
extern "C" __global__ void told(
    unsigned long long* a, unsigned long long b, unsigned long long c)
{
    a[0] = (unsigned long long)a; a[1] = b; a[2] = c;
}
"""
GEOMETRY = LaunchGeometry("told", (1, 1, 1), (1, 1, 1))


@dataclass
class Case:
    """A driver, the machine that is a stub beneath it, and a cubin that has the function "told"."""

    driver: CudaDriver
    machine: Machine | None
    cubin: bytes
    stub: Stub | None = None

    @property
    def last(self) -> int:
        return self.driver.count() - 1


def stubbed(name: str, monkeypatch: pytest.MonkeyPatch) -> Case:
    machine = Machine()
    module, driver = ADAPTERS[name]
    stub = Stub(machine)
    modules = bindings(machine) if name == "cuda-bindings" else stub.modules()
    if name == "cuda-bindings":
        package: Any = type(sys)("cuda")
        package.bindings = modules["cuda.bindings"]
        modules = {"cuda": package, **modules}
    for each, found in modules.items():
        monkeypatch.setitem(sys.modules, each, found)
    monkeypatch.setitem(sys.modules, module, None)  # what it is afterwards is that of before
    del sys.modules[module]
    loaded: Any = importlib.import_module(module)
    monkeypatch.setattr(loaded, "_driver_library", stub.library, raising=False)
    return Case(getattr(loaded, driver)(), machine, b"a cubin", stub)


def real(name: str) -> Case:
    module, driver = ADAPTERS[name]
    try:
        found: CudaDriver = getattr(importlib.import_module(module), driver)()
        if not found.count():
            pytest.skip("no GPU: there is none")
        cubin = nvrtc.compiled(TOLD, found.gpu(0).arch).cubin
    except (ImportError, OSError, DriverError, BackendError) as error:
        pytest.skip(f"no GPU: {error}")
    return Case(found, None, cubin)


@pytest.fixture(params=[f"{name}, {where}" for name in ADAPTERS for where in ("stub", "GPU")])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    name, where = request.param.split(", ")
    return stubbed(name, monkeypatch) if where == "stub" else real(name)


@pytest.fixture(params=ADAPTERS)
def stub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    found = stubbed(request.param, monkeypatch)
    found.driver.count()
    return found


@pytest.fixture
def memory(case: Case) -> Iterator[Any]:
    case.driver.count()
    with case.driver.on(0):
        yield case.driver.allocate(64)


def words(driver: CudaDriver, address: int, count: int) -> list[int]:
    found = (ctypes.c_uint64 * count)()
    driver.copy_out(ctypes.addressof(found), address, 8 * count, 0)
    return [*found]


class TestDriver:
    """What holds on any driver."""

    def test_devices(self, case: Case) -> None:
        assert case.driver.count() >= 1
        assert case.driver.version() >= (12, 0)
        found = case.driver.gpu(case.last)
        assert found.arch.startswith("sm_")
        assert found.gflops > 100
        assert found.gbytes > 10
        assert case.driver.title(0)

    def test_the_current_device_is_restored(self, case: Case) -> None:
        case.driver.count()
        assert case.driver.current() is None
        with case.driver.on(0):
            assert case.driver.current() == 0
            with case.driver.on(case.last):
                assert case.driver.current() == case.last
            assert case.driver.current() == 0
            with pytest.raises(ZeroDivisionError), case.driver.on(case.last):
                raise ZeroDivisionError
            assert case.driver.current() == 0
        assert case.driver.current() is None

    def test_each_thread_has_a_current_device(self, case: Case) -> None:
        case.driver.count()
        seen = []
        with case.driver.on(0):
            thread = threading.Thread(target=lambda: seen.append(case.driver.current()))
            thread.start()
            thread.join()
        assert seen == [None]

    @pytest.mark.parametrize("stream", [0, 1])  # both are the default one
    def test_memory_is_filled_and_copied(self, case: Case, memory: Any, stream: int) -> None:
        case.driver.fill(memory.address, bytes(64), stream)
        for place, content in ((0, b"\1"), (2, b"\2\3"), (4, b"\4\5\6\7"), (8, b"abcdefgh")):
            case.driver.fill(memory.address + place, content, stream)
        given = ctypes.create_string_buffer(b"ijklmnop", 8)
        case.driver.copy_in(memory.address + 16, ctypes.addressof(given), 8, stream)
        given[0:8] = b"overhaul"  # which comes too late
        found = ctypes.create_string_buffer(64)
        case.driver.copy_out(ctypes.addressof(found), memory.address, 64, stream)
        assert found.raw == b"\1\0\2\3\4\5\6\7abcdefghijklmnop" + bytes(40)

    def test_a_function_gets_its_arguments(self, case: Case, memory: Any) -> None:
        launch = case.driver.launcher(case.driver.load(case.cubin), GEOMETRY, 3)
        for told in ([memory.address, 2**64 - 1, 0], [memory.address + 8, 7, 2**63]):
            launch(told, 0)
            assert words(case.driver, told[0], 3) == told

    def test_threads_launch_at_the_same_time(self, case: Case, memory: Any) -> None:
        launch = case.driver.launcher(case.driver.load(case.cubin), GEOMETRY, 3)

        def work(number: int) -> None:
            with case.driver.on(0):
                own = case.driver.allocate(24)
                for turn in range(100):
                    told = [own.address, number, turn]
                    launch(told, 0)
                    assert words(case.driver, own.address, 3) == told
                del own

        run_at_once(partial(work, number) for number in range(4))
        assert words(case.driver, memory.address, 1)

    def test_streams_wait_for_each_other(self, case: Case, memory: Any) -> None:
        case.driver.fill(memory.address, b"\7", 0)
        case.driver.order(0, 1)
        case.driver.wait(0)
        assert words(case.driver, memory.address, 1)[0] & 255 == 7

    def test_what_a_function_uses(self, case: Case, memory: Any) -> None:
        module = case.driver.load(case.cubin)
        case.driver.launcher(module, GEOMETRY, 3)
        assert 0 < case.driver.registers(module, "told") <= 255
        if case.driver.cooperates:
            assert case.driver.blocks_at_once(module, GEOMETRY) >= case.driver.gpu(0).processors
        assert memory.address % 8 == 0

    def test_a_function_that_is_not_there(self, case: Case, memory: Any) -> None:
        absent = LaunchGeometry("absent", (1, 1, 1), (1, 1, 1))
        module = case.driver.load(case.cubin)
        with pytest.raises(DriverError) as caught:
            case.driver.launcher(module, absent, 1)
        assert str(caught.value) == "CUDA_ERROR_NOT_FOUND: named symbol not found"
        case.driver.launcher(module, GEOMETRY, 3)([memory.address, 1, 2], 0)
        assert words(case.driver, memory.address, 3) == [memory.address, 1, 2]


class TestWhatIsHandedOn:
    """Arguments, as the stubs get them."""

    def test_a_gpu_is_made_of_its_attributes(self, stub: Case) -> None:
        found, sheet = stub.driver.gpu(1), tc.Gpu.named("sm_90")
        assert found == sheet
        assert found.gflops == pytest.approx(sheet.gflops, rel=0.01)
        assert found.gbytes == pytest.approx(sheet.gbytes, rel=0.01)
        assert (stub.driver.title(1), stub.driver.version()) == ("Stub 1", (13, 0))

    def test_a_launch(self, stub: Case) -> None:
        geometry = LaunchGeometry("f_0", (8, 32, 2), (32, 4, 1), 60_000, 60_000)
        with stub.driver.on(1):
            launch = stub.driver.launcher(stub.driver.load(stub.cubin), geometry, 3)
            launch((1, 2**63, 3), 0)
        assert machine(stub).launches == [
            Launch("f_0", (8, 32, 2), (32, 4, 1), 60_000, 0, (1, 2**63, 3))
        ]

    def test_much_shared_memory_is_asked_for(self, stub: Case) -> None:
        large = LaunchGeometry("f_0", (1, 1, 1), (1, 1, 1), 60_000, 60_000)
        small = LaunchGeometry("f_1", (1, 1, 1), (1, 1, 1), 48 << 10, 0)
        with stub.driver.on(1):
            module = stub.driver.load(stub.cubin)
            for geometry in (large, small):
                stub.driver.launcher(module, geometry, 1)
        asked = [
            *machine(stub).called("cuKernelSetAttribute"),
            *machine(stub).called("set_attribute"),
        ]
        assert asked in ([(8, 60_000, "f_0", 1)], [("f_0", 8, 60_000)])

    def test_what_fails_is_told_with_its_name(self, stub: Case) -> None:
        driver, found = stub.driver, machine(stub)

        def faulty(name: str, work: Any) -> None:
            before = [*found.contexts]
            names = {call[0] for call in found.calls}
            found.faults[name] = "CUDA_ERROR_ILLEGAL_ADDRESS"
            with pytest.raises(DriverError) as caught:
                work()
            assert name not in found.faults, names
            assert caught.value.code == "CUDA_ERROR_ILLEGAL_ADDRESS"
            assert caught.value.text == "an illegal memory access was encountered"
            assert found.contexts == before

        pycuda = not driver.cooperates
        faulty("cuInit", driver.count)
        faulty("cuDeviceGetCount", driver.count)
        faulty("Device" if pycuda else "cuDeviceGet", lambda: driver.gpu(0))
        with driver.on(0):
            memory = driver.allocate(24)
            at = memory.address
            module = driver.load(stub.cubin)
            load = "cuModuleLoadDataEx" if pycuda else "cuLibraryLoadData"
            find = "get_function" if pycuda else "cuLibraryGetKernel"
            copies = ("cuMemcpyHtoD", "cuMemcpyDtoH")
            to_device, to_host = copies if pycuda else [f"{copy}Async" for copy in copies]
            launch = driver.launcher(module, GEOMETRY, 3)
            host = ctypes.create_string_buffer(8)
            there = ctypes.addressof(host)
            faulty(load, lambda: driver.load(stub.cubin))
            faulty(find, lambda: driver.launcher(module, LaunchGeometry("f", *2 * [(1, 1, 1)]), 3))
            faulty("cuLaunchKernel", lambda: launch((at, 1, 2), 0))
            faulty("cuMemAlloc", lambda: driver.allocate(8))
            faulty(to_device, lambda: driver.copy_in(at, there, 8, 0))
            faulty(to_host, lambda: driver.copy_out(there, at, 8, 0))
            for bits, content in ((8, b"\0\0\0"), (8, b"\1"), (16, b"ab"), (32, b"abcdefgh")):
                faulty(
                    f"cuMemsetD{bits}Async",
                    lambda content=content: driver.fill(at, content, 0),
                )
            faulty("cuStreamSynchronize", lambda: driver.wait(0))
            for name in ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"):
                faulty(name, lambda: driver.order(5, 0))
            launch((at, 1, 2), 0)
            del memory
        assert found.memory == {}

    def test_a_stream_waits_by_an_event(self, stub: Case) -> None:
        with stub.driver.on(0):
            machine(stub).calls.clear()
            stub.driver.order(5, 6)
        events = [call for call in machine(stub).calls if "Event" in call[0]]
        assert events == [
            ("cuEventCreate", 2),
            ("cuEventRecord", 3002, 6),
            ("cuStreamWaitEvent", 5, 3002, 0),
            ("cuEventDestroy", 3002),
        ]

    def test_what_goes_in_another_thread(self, stub: Case) -> None:
        with stub.driver.on(1):
            module = stub.driver.load(stub.cubin)
            held = [module, stub.driver.launcher(module, GEOMETRY, 3), stub.driver.allocate(8)]
        del module
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        gc.collect()
        assert machine(stub).memory == {}
        assert machine(stub).called("left behind") == []
        if stub.driver.cooperates:
            assert machine(stub).called("cuLibraryUnload") == [(1000,)]

    def test_what_goes_in_a_forked_child(self, stub: Case) -> None:
        """A module of the parent's stays loaded there: its driver must not be asked in a child."""
        with stub.driver.on(0):
            module = stub.driver.load(stub.cubin)
        driver: Any = stub.driver
        driver.process = -1  # of the parent
        before = len(machine(stub).calls)
        del module
        gc.collect()
        assert machine(stub).calls[before:] == []


def machine(case: Case) -> Machine:
    assert case.machine is not None
    return case.machine


def test_the_stub_has_the_signatures_of_cuda_bindings() -> None:
    """The first line of a function's documentation tells its parameters, some with their types."""
    released = pytest.importorskip("cuda.bindings.driver", reason="no cuda-bindings")
    stub: Any = bindings(Machine())["cuda.bindings.driver"]
    names = [name for name in vars(stub) if re.match("cu[A-Z]", name)]
    assert "cuLaunchKernel" in names
    for name in names:
        documented = getattr(released, name).__doc__.partition("\n")[0]
        told = re.fullmatch(rf"{name}\((.*)\)", documented)
        assert told is not None, documented
        parameters = [each.partition(":")[0].split()[-1].lstrip("*") for each in split(told[1])]
        assert [*inspect.signature(getattr(stub, name)).parameters] == parameters


def split(parameters: str) -> list[str]:
    """The parts between commas, but for those in brackets.

    >>> split("code, values: tuple[int, ...], int n")
    ['code', 'values: tuple[int, ...]', 'int n']
    """
    flat = re.sub(r"\[[^]]*\]", lambda found: found[0].replace(",", "\0"), parameters)
    return [each.strip().replace("\0", ",") for each in flat.split(",") if each]


def test_all_blocks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stubbed("cuda-bindings", monkeypatch)
    geometry = LaunchGeometry("f_0", (8, 1, 1), (32, 1, 1), cooperative=True)
    with case.driver.on(1):
        module = case.driver.load(case.cubin)
        case.driver.launcher(module, geometry, 3)((1, 2, 3), 9)
        assert case.driver.blocks_at_once(module, geometry) == 3 * 132
    ((_, *asked),) = machine(case).called("cuOccupancyMaxActiveBlocksPerMultiprocessor")
    assert asked == [32, 0]
    assert machine(case).launches == [
        Launch("f_0", (8, 1, 1), (32, 1, 1), 0, 9, (1, 2, 3), cooperative=True)
    ]


def test_pycuda_does_not_cooperate(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stubbed("PyCUDA", monkeypatch)
    geometry = LaunchGeometry("f_0", (8, 1, 1), (32, 1, 1), cooperative=True)
    with case.driver.on(0), pytest.raises(DriverError) as caught:
        case.driver.launcher(case.driver.load(case.cubin), geometry, 3)
    assert str(caught.value) == "CUDA_ERROR_NOT_SUPPORTED: PyCUDA has no cooperative launches"
    assert not case.driver.cooperates


def test_pycuda_on_the_stream_of_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stubbed("PyCUDA", monkeypatch)
    with case.driver.on(0):
        launch = case.driver.launcher(case.driver.load(case.cubin), GEOMETRY, 3)
        memory = case.driver.allocate(24)
        machine(case).calls.clear()
        launch((memory.address, 1, 2), 77)
        calls = [call for call in machine(case).calls if call[0] != "cuEventDestroy"]
        assert calls == [
            ("cuStreamIsCapturing", 77),
            ("cuEventCreate", 2),
            ("cuEventRecord", 3002, 77),
            ("cuStreamWaitEvent", None, 3002, 0),
            ("cuLaunchKernel", "told"),
            ("cuEventCreate", 2),
            ("cuEventRecord", 3002, None),
            ("cuStreamWaitEvent", 77, 3002, 0),
        ]
        del memory


def test_pycuda_and_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stubbed("PyCUDA", monkeypatch)
    assert case.stub is not None
    with case.driver.on(0):
        launch = case.driver.launcher(case.driver.load(case.cubin), GEOMETRY, 3)
        case.stub.capturing = True
        with pytest.raises(BackendError) as caught:
            launch((1, 2, 3), 77)
    assert machine(case).launches == []
    assert str(caught.value) == (
        "BackendError: this stream is being captured to a graph, and PyCUDA launches on the "
        "default stream, which cannot be; cuda.core's cuda-bindings can do it\n"
        'repair: pip uninstall pycuda; pip install "tensor-comprehensions[cuda]"'
    )


def test_pycuda_leaves_what_another_library_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyCUDA restores the context on top of its own stack, here a context of the user."""
    case = stubbed("PyCUDA", monkeypatch)
    assert case.stub is not None
    case.stub.stack.append(555)
    machine(case).contexts.append(777)
    with case.driver.on(1):
        assert case.driver.current() == 1
    assert machine(case).contexts == [777]


def test_the_context_of_a_user_is_none_of_ours(stub: Case) -> None:
    """A context that is not primary, such as `pycuda.autoinit` makes, belongs to no known
    device."""
    machine(stub).contexts.append(555)
    assert stub.driver.current() is None
    with stub.driver.on(0):
        assert stub.driver.current() == 0
    assert machine(stub).contexts == [555]


def test_pycuda_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver.OPENED, "made", [])
    stubbed("cuda-bindings", monkeypatch)
    stubbed("PyCUDA", monkeypatch)
    assert cuda_driver.opened_driver().driver.name == "PyCUDA 2026.1"


def test_old_pycuda_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver.OPENED, "made", [])
    stubbed("cuda-bindings", monkeypatch)
    stubbed("PyCUDA", monkeypatch)
    monkeypatch.setattr(sys.modules["pycuda"], "VERSION", (2021, 1))
    assert cuda_driver.opened_driver().driver.name == "cuda-bindings 13.5.0"
