"""Libraries with arrays on CUDA devices, whose memory is that of the processor: what tc asks of
CuPy, numba.cuda, torch, jax, and of libraries with DLPack alone."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tc.runtime.arrays.torch_private import private_parts

CUDA, CUDA_HOST, METAL, MANAGED = 2, 3, 8, 13
"""Types of devices, as DLPack numbers them."""

# --- capsules ---------------------------------------------------------------------------------

_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_VOID = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_OLD, _NEW = b"dltensor", b"dltensor_versioned"


_KEPT: list[Any] = []
"""Functions that capsules may still call."""


class Capsules:
    """Makes capsules of numpy's arrays say that these lie on a device; counts how often each is
    given back."""

    def __init__(self) -> None:
        self.made = 0
        self.returned: list[int] = []

    def of(
        self,
        values: np.ndarray,
        device: tuple[int, int],
        version: tuple[int, int] | None,
        **fields: int,
    ) -> Any:
        """With other values in some fields: `code`, `bits` and `lanes` of the type, `major`, the
        version, or `offset`, bytes that the data begin earlier."""
        capsule = values.__dlpack__(max_version=version)
        at = _POINTER(capsule, _OLD if version is None else _NEW)
        # data, device type, device number, ...; before that a version, a context and a deleter,
        # or behind it a context and a deleter
        tensor, deleter = (at, at + 56) if version is None else (at + 32, at + 16)
        (ctypes.c_int32 * 2).from_address(tensor + 8)[:] = device
        for name, value in fields.items():
            kind, place = {
                "code": (ctypes.c_uint8, tensor + 20),
                "bits": (ctypes.c_uint8, tensor + 21),
                "lanes": (ctypes.c_uint16, tensor + 22),
                "major": (ctypes.c_uint32, at),
                "offset": (ctypes.c_uint64, tensor + 40),
            }[name]
            kind.from_address(place).value = value
        data = ctypes.c_uint64.from_address(tensor)
        data.value -= fields.get("offset", 0)
        word = ctypes.c_void_p.from_address(deleter)
        number, original = self.made, _VOID(word.value or 0)

        def give_back(pointer: int) -> None:
            self.returned.append(number)
            original(pointer)

        callback = _VOID(give_back)
        word.value = ctypes.cast(callback, ctypes.c_void_p).value
        _KEPT.append(callback)
        self.made += 1
        return capsule


class ByDlpack:
    """An array of a library with DLPack alone. It has `streams`, those it was asked for."""

    capsules = Capsules()
    versions = True

    def __init__(self, values: Any, device: tuple[int, int] = (CUDA, 0)) -> None:
        self.values, self.device, self.streams = np.asarray(values), device, []  # type: ignore[var-annotated]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.streams.append(stream)
        version = max_version if self.versions else None
        return self.capsules.of(self.values, self.device, version)


class ByOldDlpack(ByDlpack):
    """The same from before there were versions."""

    versions = False

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class ByArrayApi(ByDlpack):
    """The same with a namespace, as the array API standard has it."""

    def __array_namespace__(self) -> Any:
        return ArrayApi


class ArrayApi:
    bool, uint8, uint32 = np.bool_, np.uint8, np.uint32
    int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
    float16, float32, float64 = np.float16, np.float32, np.float64

    @staticmethod
    def empty(shape: tuple[int, ...], *, dtype: Any, device: Any) -> ByArrayApi:
        return ByArrayApi(np.empty(shape, dtype), device)

    @staticmethod
    def from_dlpack(array: Any) -> ByArrayApi:
        return ByArrayApi(on_host(array), tuple(array.__dlpack_device__()))


class Adopted(ByDlpack):
    """The same of a library that makes arrays of others' memory only: `library` is its module."""

    __module__ = "adopting"


class Adopting(ModuleType):
    """That library."""

    def __init__(self) -> None:
        super().__init__("adopting")

    def from_dlpack(self, lent: Any) -> Adopted:
        return Adopted(on_host(lent), lent.__dlpack_device__())


def on_host(array: Any, stream: int = 7) -> np.ndarray:
    """A numpy array on the memory of an array that claims to be on a device."""
    capsule = array.__dlpack__(stream=stream)
    (ctypes.c_int32 * 2).from_address(_POINTER(capsule, _OLD) + 8)[:] = (1, 0)

    class Told:
        def __dlpack__(self, **_options: Any) -> Any:
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    return np.from_dlpack(Told())


# --- CuPy -------------------------------------------------------------------------------------


class CupyDevice:
    """Of CuPy: a device is made current for a thread by `with`."""

    local = threading.local()

    def __init__(self, number: int) -> None:
        self.id = number

    @classmethod
    def current(cls) -> int:
        return getattr(cls.local, "stack", [0])[-1]

    def __enter__(self) -> CupyDevice:
        self.local.stack = [*getattr(self.local, "stack", [0]), self.id]
        return self

    def __exit__(self, *_: Any) -> None:
        self.local.stack = self.local.stack[:-1]


class CupyArray:
    """CuPy's ndarray."""

    __module__ = "cupy"

    def __init__(self, values: Any, device: int | None = None) -> None:
        self.values = np.asarray(values)
        self.number = CupyDevice.current() if device is None else device

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)
    strides = property(lambda self: self.values.strides)
    device = property(lambda self: CupyDevice(self.number))

    @property
    def data(self) -> Any:
        pointer = self.values.ctypes.data if self.values.size else 0
        return SimpleNamespace(ptr=pointer, device_id=self.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.values.__array_interface__, "version": 3, "stream": 1}

    def get(self) -> np.ndarray:
        return self.values.copy()

    def copy(self) -> CupyArray:
        return CupyArray(self.values.copy())

    def astype(self, dtype: Any) -> CupyArray:
        return CupyArray(self.values.astype(dtype), self.number)


class Cupy(ModuleType):
    """CuPy: `streams` are the current streams of devices, `capturing` those that record."""

    ndarray = CupyArray

    def __init__(self) -> None:
        super().__init__("cupy")
        self.streams: dict[int, int] = {}
        self.capturing: set[int] = set()
        self.allocated: list[Any] = []
        self.short = False
        self.cuda = SimpleNamespace(
            Device=CupyDevice,
            get_current_stream=self._stream,
            runtime=SimpleNamespace(is_hip=False),
        )

    def _stream(self, number: int) -> Any:
        pointer = self.streams.get(number, 0)
        return SimpleNamespace(ptr=pointer, is_capturing=lambda: pointer in self.capturing)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> CupyArray:
        if self.short:
            raise MemoryError("Out of memory allocating 24 bytes")
        self.allocated.append((shape, np.dtype(dtype), CupyDevice.current()))
        return CupyArray(np.full(shape, 77, dtype))

    def asarray(self, values: Any) -> CupyArray:
        values = getattr(values, "values", values)
        return CupyArray(np.array(values))


# --- numba.cuda ---------------------------------------------------------------------------------


class NumbaArray:
    """Numba's DeviceNDArray."""

    __module__ = "numba.cuda.cudadrv.devicearray"

    def __init__(self, values: Any, device: int = 0, stream: int = 0) -> None:
        self.values, self.stream = np.asarray(values), stream
        device_of = SimpleNamespace(device=SimpleNamespace(id=device))
        self.gpu_data = SimpleNamespace(context=device_of)

    dtype = property(lambda self: self.values.dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found = self.values.__array_interface__
        keys = ("shape", "typestr", "strides")
        stream = self.stream or None
        data = (found["data"][0] if self.values.size else 0, False)
        return {**{k: found[k] for k in keys}, "data": data, "stream": stream, "version": 3}

    def copy_to_host(self) -> np.ndarray:
        return self.values.copy()


class CudaAPIError(Exception):
    """Numba's, of numba.cuda.cudadrv.driver."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.msg = code, text

    def __str__(self) -> str:
        return f"[{self.code}] {self.msg}"


class NumbaCuda(ModuleType):
    """The module numba.cuda: `current` is its current device."""

    def __init__(self) -> None:
        super().__init__("numba.cuda")
        self.current = 0
        self.short = False
        self.gpus = [self._on(number) for number in range(2)]

    def _on(self, number: int) -> Any:
        module = self

        class Gpu:
            def __enter__(self) -> None:
                self.before, module.current = module.current, number

            def __exit__(self, *_: Any) -> None:
                module.current = self.before

        return Gpu()

    def device_array(self, shape: tuple[int, ...], dtype: Any, stream: int = 0) -> NumbaArray:
        if self.short:
            raise CudaAPIError(2, "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        return NumbaArray(np.empty(shape, dtype), self.current, stream)

    def to_device(self, values: Any) -> NumbaArray:
        return NumbaArray(np.array(getattr(values, "values", values)), self.current)


# --- torch ------------------------------------------------------------------------------------


class TorchOnDevices:
    """Has tensors of torch's processor say that they lie on devices: `put` does, and so does what
    `torch.empty` makes there. `streams` are the current streams, `capturing` those that record."""

    def __init__(self, torch: Any, patch: pytest.MonkeyPatch) -> None:
        self.torch = torch
        self.storages: dict[int, tuple[int, Any]] = {}
        self.streams: dict[int, int] = {}
        self.capturing = False
        self.short = False
        self.allocated: list[Any] = []
        parts = private_parts(torch)
        self._empty, self._make_guards = torch.empty, parts.TensorGuards
        self._to, self._as_tensor = torch.Tensor.to, torch.as_tensor
        kind = torch.Tensor
        patch.setattr(kind, "is_cpu", property(lambda t: self.number(t) is None), raising=False)
        patch.setattr(
            kind, "is_cuda", property(lambda t: self.number(t) is not None), raising=False
        )
        patch.setattr(kind, "get_device", lambda t: self.number(t) or 0)
        patch.setattr(kind, "device", property(self.device), raising=False)
        patch.setattr(kind, "cpu", lambda t: self._to(t, t.dtype, copy=True))
        patch.setattr(kind, "to", lambda t, *where, **options: self.to(t, *where, **options))
        for name in ("clone", "resolve_neg"):
            patch.setattr(kind, name, self._staying(getattr(kind, name)))
        patch.setattr(torch, "as_tensor", self.as_tensor)
        patch.setattr(torch, "empty", self.empty)
        patch.setattr(parts, "TensorGuards", self._guards)
        patch.setattr(parts, "cuda_stream", self._stream)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)

    def put(self, tensor: Any, number: int = 0) -> Any:
        storage = tensor.untyped_storage()
        self.storages[storage._cdata] = number, storage
        return tensor

    def number(self, tensor: Any) -> int | None:
        found = self.storages.get(tensor.untyped_storage()._cdata)
        return None if found is None else found[0]

    def device(self, tensor: Any) -> Any:
        number = self.number(tensor)
        return self.torch.device("cpu" if number is None else f"cuda:{number}")

    def to(self, tensor: Any, *where: Any, **options: Any) -> Any:
        if where and isinstance(where[0], self.torch.device):
            return self.as_tensor(tensor, device=where[0])
        return self._staying(self._to)(tensor, *where, **options)

    def as_tensor(self, values: Any, *, device: Any) -> Any:
        foreign = not isinstance(values, (np.ndarray, self.torch.Tensor))
        held = self._as_tensor(values.values if foreign else values).detach().cpu()
        return held if device.type == "cpu" else self.put(held, device.index)

    def _staying(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What gives a tensor on the device of its first argument."""

        def call(tensor: Any, *more: Any, **options: Any) -> Any:
            number, found = self.number(tensor), function(tensor, *more, **options)
            return found if number is None else self.put(found, number)

        return call

    def _stream(self, number: int) -> int:
        return self.streams.get(number, 0)

    def empty(self, *sizes: Any, dtype: Any, device: Any, **options: Any) -> Any:
        if self.torch.device(device).type != "cuda":
            return self._empty(*sizes, dtype=dtype, device=device, **options)
        if self.short:
            raise self.torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 24 bytes")
        made = self._empty(*sizes, dtype=dtype)
        self.allocated.append((tuple(made.shape), dtype, str(device)))
        return self.put(made, self.torch.device(device).index)

    def _guards(self, *tensors: Any, **dynamic: Any) -> Any:
        """Torch's own, which tell of devices, too."""
        made, numbers = self._make_guards(*tensors, **dynamic), [*map(self.number, tensors)]

        def check(*others: Any) -> bool:
            return bool(made.check(*others)) and [*map(self.number, others)] == numbers

        return SimpleNamespace(check=check)


# --- jax --------------------------------------------------------------------------------------


class JaxDevice:
    platform = "gpu"

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class JaxOnDevice:
    """Has all arrays of jax say that they lie on the GPU of a `number`; `waited` counts those that
    were waited for, and `kind` is what DLPack is told."""

    def __init__(self, jax: Any, patch: pytest.MonkeyPatch) -> None:
        self.jax, self.waited, self.kind, self.number = jax, 0, CUDA, 0
        self.devices = ["gpu:0"]
        array = type(jax.numpy.ones(1))
        pointer = array.unsafe_buffer_pointer
        adopt = jax.numpy.from_dlpack
        wait = array.block_until_ready

        def interface(held: Any) -> dict[str, Any]:
            dtype = np.dtype(held.dtype)
            if dtype.kind not in "biufc":
                raise NotImplementedError("no such type in the interface")
            return {
                "shape": held.shape,
                "typestr": dtype.str,
                "data": (pointer(held), True),
                "version": 2,
            }

        def waiting(held: Any) -> Any:
            self.waited += 1
            return wait(held)

        patch.setattr(array, "devices", lambda _: list(map(JaxDevice, self.devices)))
        patch.setattr(array, "__dlpack_device__", lambda _: (self.kind, self.number))
        patch.setattr(array, "__cuda_array_interface__", property(interface))
        patch.setattr(array, "block_until_ready", waiting)
        patch.setattr(jax.numpy, "from_dlpack", lambda lent: adopt(self._read(lent)))
        self._patch = patch

    @staticmethod
    def _read(lent: Any) -> np.ndarray:
        return lent if isinstance(lent, np.ndarray) else on_host(lent).copy()

    def array(self, values: np.ndarray) -> Any:
        with self.jax.enable_x64(True):
            return self.jax.numpy.array(values)

    def values(self, array: Any) -> np.ndarray:
        return np.asarray(array)
