"""PyCUDA for a machine with GPUs that are none, with the signatures of the released versions and
the rules of its contexts: what it makes belongs to the context on top of its own stack, and may go
only while that is there. What it asks of the driver's own library is here, too."""

# ruff: noqa: ARG001, ARG002 (names and parameters are those of the released versions)

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from tests.support.stub_cuda import ATTRIBUTES, STATUS, Fault, Launch, Machine, filled


class device_attribute(int):
    """As Boost's: a class of integers, of which the known ones have names."""


class function_attribute(int):
    NUM_REGS: Any
    MAX_DYNAMIC_SHARED_SIZE_BYTES: Any


for _name, (_number, _) in ATTRIBUTES.items():
    if _name != "COOPERATIVE_LAUNCH":
        setattr(device_attribute, _name, device_attribute(_number))
function_attribute.NUM_REGS = function_attribute(4)
function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES = function_attribute(8)
_VALUES = dict(ATTRIBUTES.values())


class Error(Exception):
    pass


class LogicError(Error):
    pass


class Stub:
    """The two modules, and the driver's library."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.local = threading.local()
        self.capturing = False

    @property
    def stack(self) -> list[int]:
        """Of PyCUDA's contexts in this thread."""
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        stack: list[int] = self.local.stack
        return stack

    def owner(self) -> int:
        if not self.stack:
            raise LogicError(
                "explicit_context_dependent failed: invalid device context - no currently active "
                "context?"
            )
        return self.stack[-1]

    def modules(self) -> Mapping[str, ModuleType]:
        stub, machine = self, self.machine

        def told(name: str, *arguments: Any) -> None:
            try:
                machine.told(name, *arguments)
            except Fault as fault:
                raise LogicError(f"{name} failed: {STATUS[fault.name][1]}") from None

        class Device:
            def __init__(self, ordinal: int) -> None:
                told("Device", ordinal)
                self.ordinal = ordinal

            @staticmethod
            def count() -> int:
                told("cuDeviceGetCount")
                return machine.devices

            def name(self) -> str:
                return f"Stub {self.ordinal}"

            def get_attribute(self, attr: Any) -> int:
                assert type(attr) is device_attribute
                return _VALUES[int(attr)]

            def retain_primary_context(self) -> Context:
                told("retain_primary_context", self.ordinal)
                return Context(100 + self.ordinal)

        class Context:
            def __init__(self, handle: int) -> None:
                self.handle = handle

            def push(self) -> None:
                told("push", self.handle)
                if stub.stack:
                    machine.contexts.pop()
                machine.contexts.append(self.handle)
                stub.stack.append(self.handle)

            @staticmethod
            def pop() -> None:
                told("pop")
                machine.contexts.pop()
                stub.stack.pop()
                if stub.stack:
                    machine.contexts.append(stub.stack[-1])

        class Owned:
            """What belongs to a context."""

            def __init__(self) -> None:
                self.context = stub.owner()

            def __del__(self) -> None:
                if getattr(self, "context", None) is not None:
                    self.check()

            def check(self) -> None:
                if not stub.stack or stub.stack[-1] != self.context:
                    machine.calls.append(("left behind", type(self).__name__))

        class Module(Owned):
            def get_function(self, name: str) -> Function:
                told("get_function", name)
                if name == "absent":
                    raise LogicError("cuModuleGetFunction failed: named symbol not found")
                return Function(self, name)

        class Function:
            def __init__(self, module: Module, name: str) -> None:
                self.module, self.name = module, name

            def get_attribute(self, attr: Any) -> int:
                assert type(attr) is function_attribute
                told("get_attribute", self.name, int(attr))
                return 40

            def set_attribute(self, attr: Any, value: int) -> None:
                assert type(attr) is function_attribute
                told("set_attribute", self.name, int(attr), value)

            def prepare(self, arg_types: str, texrefs: Any = None) -> Function:
                self.arg_format = arg_types
                return self

            def prepared_async_call(
                self,
                grid: tuple[int, ...],
                block: tuple[int, ...],
                stream: Any,
                *args: int,
                **kwargs: int,
            ) -> None:
                assert isinstance(block, tuple)
                assert stream is None
                assert {*kwargs} <= {"shared_size"}
                assert self.arg_format == "P" * len(args)
                told("cuLaunchKernel", self.name)
                machine.launch(
                    Launch(self.name, grid, block, kwargs.get("shared_size", 0), 0, args)
                )

        class DeviceAllocation(Owned):
            def __init__(self, address: int) -> None:
                super().__init__()
                self.address = address

            def __int__(self) -> int:
                return self.address

            def free(self) -> None:
                self.check()
                del machine.memory[self.address]
                self.context = None  # type: ignore[assignment]

        def module_from_buffer(
            buffer: Any, options: Any = (), message_handler: Any = None
        ) -> Module:
            told("cuModuleLoadDataEx", bytes(memoryview(buffer)))
            return Module()

        def mem_alloc(bytes: int) -> DeviceAllocation:
            told("cuMemAlloc", bytes)
            return DeviceAllocation(machine.allocate(bytes))

        def memcpy_htod(dest: int, src: Any) -> None:
            content = bytes(memoryview(src).cast("B"))
            told("cuMemcpyHtoD", dest, content)
            ctypes.memmove(dest, content, len(content))

        def memcpy_dtoh(dest: Any, src: int) -> None:
            told("cuMemcpyDtoH", src)
            memory = memoryview(dest).cast("B")
            memory[:] = (ctypes.c_char * len(memory)).from_address(src).raw

        def memset(name: str, kind: Any) -> Callable[..., None]:
            def work(dest: int, data: int, size: int, stream: Any = None) -> None:
                assert stream is None
                told(name, dest, data, size)
                filled(dest, data, size, kind)

            return work

        def init(flags: int = 0) -> None:
            told("cuInit", flags)

        def get_driver_version() -> int:
            return 13000

        package: Any
        driver: Any
        package, driver = ModuleType("pycuda"), ModuleType("pycuda.driver")
        package.VERSION, package.VERSION_TEXT, package.driver = (2026, 1), "2026.1", driver
        driver.memset_d8_async = memset("cuMemsetD8Async", ctypes.c_uint8)
        driver.memset_d16_async = memset("cuMemsetD16Async", ctypes.c_uint16)
        driver.memset_d32_async = memset("cuMemsetD32Async", ctypes.c_uint32)
        for each in (
            Device, Context, Error, LogicError, device_attribute, function_attribute, init,
            get_driver_version, module_from_buffer, mem_alloc, memcpy_htod, memcpy_dtoh,
        ):  # fmt: skip
            setattr(driver, each.__name__, each)
        return {"pycuda": package, "pycuda.driver": driver}

    def library(self) -> Any:
        """What `ctypes` has for libcuda."""
        return _Library(self)


class _Library:
    def __init__(self, stub: Stub) -> None:
        self.stub, self.machine = stub, stub.machine

    def _told(self, name: str, *arguments: Any) -> int:
        values = [getattr(argument, "value", None) for argument in arguments]
        try:
            self.machine.told(name, *values)
        except Fault as fault:
            return STATUS[fault.name][0]
        return 0

    def cuCtxGetCurrent(self, pctx: Any) -> int:
        pctx._obj.value = self.machine.contexts[-1] if self.machine.contexts else None
        return 0

    def cuCtxSetCurrent(self, ctx: Any) -> int:
        self.machine.contexts[-1:] = [ctx.value] if ctx.value else []
        return self._told("cuCtxSetCurrent", ctx)

    def cuEventCreate(self, phEvent: Any, Flags: Any) -> int:
        phEvent._obj.value = 3000 + Flags.value
        return self._told("cuEventCreate", Flags)

    def cuEventRecord(self, hEvent: Any, hStream: Any) -> int:
        return self._told("cuEventRecord", hEvent, hStream)

    def cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: Any) -> int:
        return self._told("cuStreamWaitEvent", hStream, hEvent, Flags)

    def cuEventDestroy_v2(self, hEvent: Any) -> int:
        return self._told("cuEventDestroy", hEvent)

    def cuStreamSynchronize(self, hStream: Any) -> int:
        return self._told("cuStreamSynchronize", hStream)

    def cuStreamIsCapturing(self, hStream: Any, captureStatus: Any) -> int:
        captureStatus._obj.value = int(self.stub.capturing)
        return self._told("cuStreamIsCapturing", hStream)

    def cuGetErrorName(self, error: int, pStr: Any) -> int:
        found = [name for name, (number, _) in STATUS.items() if number == error]
        pStr._obj.value = found[0].encode() if found else None
        return 0 if found else 1

    def cuGetErrorString(self, error: int, pStr: Any) -> int:
        found = [text for number, text in STATUS.values() if number == error]
        pStr._obj.value = found[0].encode() if found else None
        return 0 if found else 1
