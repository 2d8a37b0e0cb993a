"""CUDA's driver by PyCUDA, on the primary contexts that other libraries use, too.

PyCUDA launches only on streams of its own. Work for another stream runs on the default stream, and
events keep the two in order. Events, the current context and the names of errors come from the
driver's own library, which PyCUDA has loaded.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pycuda
from pycuda import driver

from tc.backends.cuda_driver import DriverError, Launcher, gpu_of, memsets
from tc.backends.geometry import LaunchGeometry
from tc.errors import BackendError
from tc.gpu import Gpu

_OLDEST = (2022, 1)
_LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_DEFAULT = (0, 1)  # handles of the default stream
_WITHOUT_TIMES = 2  # of events
_CODES = range(1, 1000)
_COOPERATIVE_LAUNCH = 95  # of which PyCUDA does not have the name


class PyCudaDriver:
    """Implements `CudaDriver`. PyCUDA keeps a stack of contexts for each thread, and frees an
    object only while the context that the object was made in is on top of the stack."""

    cooperates = False

    def __init__(self) -> None:
        if pycuda.VERSION < _OLDEST:
            raise ImportError(f"PyCUDA {pycuda.VERSION_TEXT} is older than {_OLDEST[0]}")
        self.name = f"PyCUDA {pycuda.VERSION_TEXT}"
        self._library = _driver_library()
        self._contexts: dict[int, Any] = {}
        self._numbers: dict[int | None, int] = {}  # of devices, by the handles of their contexts
        self._lock = threading.Lock()
        self.process = os.getpid()
        self._names: dict[str, str] = {}  # of errors, by what the driver says of them

    def count(self) -> int:
        self._called(driver.init)
        return int(self._called(driver.Device.count))

    def version(self) -> tuple[int, int]:
        number = int(self._called(driver.get_driver_version))
        return number // 1000, number % 1000 // 10

    def gpu(self, number: int) -> Gpu:
        device, names = self._called(driver.Device, number), driver.device_attribute

        def attribute(name: str) -> int:
            known = getattr(names, name, None)
            wanted = names(_COOPERATIVE_LAUNCH) if known is None else known
            return int(self._called(device.get_attribute, wanted))

        return gpu_of(attribute)

    def title(self, number: int) -> str:
        return str(self._called(self._called(driver.Device, number).name))

    def current(self) -> int | None:
        return self._numbers.get(self._handle())

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        before = self._handle()
        self._called(self._context(number).push)
        try:
            yield
        finally:
            self._called(driver.Context.pop)
            if self._handle() != before:  # what other libraries set is not in PyCUDA's stack
                self._library.cuCtxSetCurrent(ctypes.c_void_p(before))

    def load(self, cubin: bytes) -> _Module:
        with self._here() as number:
            return _Module(self, number, self._called(driver.module_from_buffer, cubin))

    def launcher(self, module: _Module, geometry: LaunchGeometry, parameters: int) -> Launcher:
        if geometry.cooperative:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "PyCUDA has no cooperative launches")
        name, dynamic, called = geometry.function, geometry.dynamic, self._called
        function = self._function(module, name)
        if dynamic:
            wanted = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            called(function.set_attribute, wanted, dynamic)
        function.prepare("P" * parameters)
        sizes = (geometry.grid, geometry.block, None)

        def start(arguments: Sequence[int]) -> None:
            call = module.functions[name].prepared_async_call
            called(call, *sizes, *arguments, shared_size=dynamic)

        def launch(arguments: Sequence[int], stream: int) -> None:
            if stream in _DEFAULT:
                start(arguments)
            else:
                with self._in_line(stream):
                    start(arguments)

        return launch

    def registers(self, module: _Module, function: str) -> int:
        found = self._function(module, function)
        return int(self._called(found.get_attribute, driver.function_attribute.NUM_REGS))

    def blocks_at_once(self, module: Any, geometry: LaunchGeometry) -> int:  # noqa: ARG002
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "PyCUDA does not tell")

    def allocate(self, size: int) -> _Memory:
        with self._here() as number:
            return _Memory(self, number, self._called(driver.mem_alloc, size))

    def copy_in(self, address: int, source: int, size: int, stream: int) -> None:
        with self._in_line(stream):
            self._called(driver.memcpy_htod, address, (ctypes.c_char * size).from_address(source))

    def copy_out(self, target: int, address: int, size: int, stream: int) -> None:
        with self._in_line(stream):
            self._called(driver.memcpy_dtoh, (ctypes.c_char * size).from_address(target), address)

    def fill(self, address: int, content: bytes, stream: int) -> None:
        with self._in_line(stream):
            for width, *given in memsets(address, content):
                self._called(getattr(driver, f"memset_d{8 * width}_async"), *given)

    def order(self, stream: int, other: int) -> None:
        if stream in _DEFAULT and other in _DEFAULT:
            return
        event = ctypes.c_void_p()
        self._asked("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_WITHOUT_TIMES))
        try:
            self._asked("cuEventRecord", event, ctypes.c_void_p(other))
            self._asked("cuStreamWaitEvent", ctypes.c_void_p(stream), event, ctypes.c_uint(0))
        finally:
            self._library.cuEventDestroy_v2(event)

    def wait(self, stream: int) -> None:
        self._asked("cuStreamSynchronize", ctypes.c_void_p(stream))

    @contextmanager
    def _in_line(self, stream: int) -> Iterator[None]:
        """What runs on the default stream meanwhile runs in order with all else of this one."""
        if stream in _DEFAULT:
            yield
            return
        capturing = ctypes.c_int()
        self._asked("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(capturing))
        if capturing.value:
            raise BackendError(
                "this stream is being captured to a graph, and PyCUDA launches on the default "
                "stream, which cannot be; cuda.core's cuda-bindings can do it",
                repair='pip uninstall pycuda; pip install "tensor-comprehensions[cuda]"',
            )
        self.order(0, stream)
        yield
        self.order(stream, 0)

    @contextmanager
    def _here(self) -> Iterator[int]:
        """The current device, on top of PyCUDA's stack."""
        number = self.current()
        if number is None:
            raise DriverError("CUDA_ERROR_INVALID_CONTEXT", "no device is current")
        with self.on(number):
            yield number

    def _handle(self) -> int | None:
        """The handle of the current context of this thread, whoever has made the context
        current."""
        found = ctypes.c_void_p()
        self._library.cuCtxGetCurrent(ctypes.byref(found))
        return found.value

    def _context(self, number: int) -> Any:
        """The primary context of a device, which this process keeps."""
        with self._lock:
            if number not in self._contexts:
                device = self._called(driver.Device, number)
                self._contexts[number] = context = self._called(device.retain_primary_context)
                _keep(context)
                self._numbers[context.handle] = number
            return self._contexts[number]

    def _function(self, module: _Module, name: str) -> Any:
        if name not in module.functions:
            module.functions[name] = self._called(module.loaded.get_function, name)
        return module.functions[name]

    def _called(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """What a function of PyCUDA gives."""
        try:
            return function(*arguments, **named)
        except driver.Error as error:  # "cuMemAlloc failed: out of memory"
            said = str(error).partition(" failed: ")[2] or str(error)
            fits = [text for text in self._error_names() if said.startswith(text)]
            text = max(fits, key=len, default=said)
            name = self._error_names().get(text, "CUDA_ERROR_UNKNOWN")
            raise DriverError(name, said) from error

    def _asked(self, function: str, *arguments: Any) -> None:
        """Has the driver's library do what PyCUDA has no function for."""
        status = getattr(self._library, function)(*arguments)
        if status:
            raise DriverError(self._told("Name", status), self._told("String", status))

    def _error_names(self) -> dict[str, str]:
        if not self._names:
            self._names |= {self._told("String", c): self._told("Name", c) for c in _CODES}
        return self._names

    def _told(self, what: str, code: int) -> str:
        found = ctypes.c_char_p()
        getattr(self._library, f"cuGetError{what}")(code, ctypes.byref(found))
        return (found.value or b"CUDA_ERROR_UNKNOWN").decode(errors="replace")


def _keep(owned: Any) -> None:
    """Has an object of PyCUDA live until the process ends. Destroying a context would detach it,
    which is not PyCUDA's alone; and in a forked child nothing of the parent's can be given back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))


def _driver_library() -> Any:
    return ctypes.CDLL(_LIBRARY)


class _Module:
    """A loaded module and its functions, unloaded when it goes, but not in a forked child."""

    def __init__(self, owner: PyCudaDriver, number: int, loaded: Any) -> None:
        self._driver, self._number, self.loaded = owner, number, loaded
        self.functions: dict[str, Any] = {}

    def __del__(self) -> None:
        if os.getpid() != self._driver.process:
            _keep(self.loaded)
            return
        with suppress(DriverError), self._driver.on(self._number):
            self.functions.clear()
            self.loaded = None


class _Memory:
    """Memory of a device, freed when it goes."""

    def __init__(self, owner: PyCudaDriver, number: int, allocation: Any) -> None:
        self._driver, self._number, self._allocation = owner, number, allocation
        self.address = int(allocation)

    def __del__(self) -> None:
        with suppress(DriverError), self._driver.on(self._number):
            self._allocation.free()
