"""Torch's tensors as arguments and results; torch is never imported here.

Tensors are read by their address. `Tensor.numpy()` would do, but forbids torch for good to free or
resize the storage, as sharded training does after each layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tc.dtypes import DTYPES
from tc.runtime.arrays.any_address import BEFORE, MEMORY, array_at
from tc.runtime.arrays.device_array import CUDA, DeviceLocation, on_device
from tc.runtime.arrays.encoded_arrays import ENCODED
from tc.runtime.arrays.family import (
    DeviceOps,
    Family,
    Maker,
    Refusal,
    first_line,
    no_such_type,
    type_name,
)
from tc.runtime.arrays.layout_check import ArrayLayoutCheck
from tc.runtime.arrays.torch_layout_check import layout_check_of, reach
from tc.runtime.arrays.torch_private import marks_of, private_parts, tangents_of, tracing_of

Reader: TypeAlias = Callable[[Any], Any]
"""What gives a numpy array on the memory of a tensor, or a `DeviceArray`."""

NAMES = tuple(DTYPES)
"""The dtypes of tensors that programs have, by the name that torch gives them, too."""

_ANYWHERE = 4096

ADAPTER = "tc.torch.routes"
"""The module that serves calls with tensors of which torch asks for more than numbers."""


def torch_family(torch: Any, kind: type) -> Family:
    """The family of a type of tensors; `Refusal` where it may mean more than its numbers."""
    if kind not in (torch.Tensor, torch.nn.Parameter):
        raise _subclass(kind)

    def wrap(array: np.ndarray, _like: Any) -> Any:
        dtype = ENCODED.get(array.dtype)
        if dtype is None:
            return torch.from_numpy(array)
        integers = array.view(f"i{dtype.bytes}")  # which all versions have
        return torch.from_numpy(integers).view(getattr(torch, dtype.name))

    def resolved(tensor: Any) -> Any:
        held = tensor.detach().resolve_neg()
        array = read(held)
        return array.copy() if isinstance(array, np.ndarray) else array

    def unresolved(_: Any) -> Any:
        raise Refusal("is a lazy negation of another tensor", "{name}.resolve_neg()")

    read, layout_check = _reader(torch, resolved, None), layout_check_of(torch)
    return Family(
        "torch",
        _reader(
            torch,
            resolved,
            "requires a gradient, of which nothing would be learnt here (under torch.no_grad() it "
            "is fine)",
        ),
        _reader(
            torch,
            unresolved,
            "requires a gradient, which would not see that it is overwritten (under "
            "torch.no_grad() the call is fine)",
        ),
        wrap,
        _measure(torch),
        "{name}.to(torch.{dtype})",
        "torch.as_tensor({name})",
        touch=torch.autograd.graph.increment_version,
        layout_check=layout_check,
        maker=_maker(torch),
        fresh="torch.empty({shape}, dtype=torch.{dtype})",
        to_host="{name}.cpu()",
        devices=_on_devices(torch, layout_check),
        mark=marks_of(torch),
    )


def _on_devices(torch: Any, layout_check: ArrayLayoutCheck) -> DeviceOps:
    """The operations of torch on devices: its own allocator, and the stream that the user has
    chosen."""
    names = {dtype: wanted for wanted, dtype in _dtypes(torch).items()}
    raw = private_parts(torch).cuda_stream

    def maker(
        shape: tuple[int, ...], dtype: np.dtype[Any], place: DeviceLocation
    ) -> Callable[[Any], Any]:
        if dtype not in names:
            raise no_such_type("torch", dtype)
        empty, sizes = torch.empty, shape or ((),)  # sizes one by one are faster
        how = {"dtype": names[dtype], "device": torch.device(CUDA, place.number)}

        def make(_like: Any) -> Any:
            try:
                return empty(*sizes, **how)
            except torch.cuda.OutOfMemoryError as error:
                raise MemoryError(str(error)) from error

        return make

    def new(shape: tuple[int, ...], dtype: np.dtype[Any], place: DeviceLocation, like: Any) -> Any:
        return maker(shape, dtype, place)(like)

    def stream(place: DeviceLocation) -> int:
        if raw is not None:
            return int(raw(place.number))
        return int(torch.cuda.current_stream(place.number).cuda_stream)

    def capturing(_place: DeviceLocation) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    return DeviceOps(
        new,
        stream,
        capturing,
        layout_check=layout_check,
        maker=maker,
        pointer=torch.Tensor.data_ptr,
        keeps_recorded=True,
        fresh='torch.empty({shape}, dtype=torch.{dtype}, device="cuda:{device}")',
        convert="torch.as_tensor({name}, device={first}.device)",
        move="{name}.to({first}.device)",
        copy="{name}.clone()",
    )


def _maker(torch: Any) -> Maker:
    """Small results in the processor's memory. Large ones are better numpy's, which asks the system
    for larger pages."""
    names = {dtype: name for name, dtype in _dtypes(torch).items()}
    pointer = torch.Tensor.data_ptr

    def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], tuple[Any, int]]:
        # a method of a tensor has less to read than a function that takes type and device
        new, sizes = torch.empty((), dtype=names[dtype], device="cpu").new_empty, shape or ((),)

        def make() -> tuple[Any, int]:
            tensor = new(*sizes)
            return tensor, pointer(tensor)

        return make

    return maker


def _dtypes(torch: Any) -> dict[Any, np.dtype[Any]]:
    return {getattr(torch, n): DTYPES[n].numpy for n in NAMES if hasattr(torch, n)}


def _measure(torch: Any) -> Reader:
    """Arrays like tensors, on no memory: of them a shape is known before there are values."""
    dtypes = _dtypes(torch)

    def measure(tensor: Any) -> Any:
        try:
            dtype = dtypes[tensor.dtype]
            shape, steps = tuple(tensor.shape), [s * dtype.itemsize for s in tensor.stride()]
            if tensor.is_cuda and torch.version.hip is None:
                place = DeviceLocation(CUDA, tensor.get_device())
                return on_device(tensor, dtype, shape, steps, _ANYWHERE, place)
            return array_at(_ANYWHERE, dtype, shape, steps)
        except Exception as error:
            raise _refusal(torch, tensor, error) from error

    return measure


def _reader(torch: Any, negated: Reader, gradient: str | None) -> Reader:
    """What gives a numpy array on the memory of a tensor, which must outlive it.

    `negated` is for lazy negations; `gradient` is why a tensor that requires one is refused.
    """
    dtypes = _dtypes(torch)
    grad_mode = torch.is_grad_enabled
    is_functional, is_tracing = private_parts(torch).is_functional, tracing_of(torch)
    is_cuda = torch.version.hip is None  # torch for ROCm says "cuda", too
    has_tangent = tangents_of(torch)
    new: Any = np.ndarray

    # this runs before every kernel; why a tensor is refused is found afterwards
    def read(tensor: Any) -> Any:
        try:
            if gradient is not None:
                if tensor.requires_grad and grad_mode():
                    raise _transformed(torch, tensor) or Refusal(
                        gradient, "{name}.detach()", ADAPTER
                    )
                if has_tangent(tensor):
                    raise _tangent(torch, tensor)
            # a functional tensor has an address, with anything at all behind it
            if is_tracing() or is_functional(tensor):
                raise traced_by_torch()
            dtype, shape, start = dtypes[tensor.dtype], tensor.shape, tensor.data_ptr()
            on_host = tensor.is_cpu
            if not on_host and not (is_cuda and tensor.is_cuda):
                raise _refusal(torch, tensor)
            if tensor.is_neg():
                return negated(tensor)
            count, item = tensor.numel(), dtype.itemsize
            if not count and on_host:
                return np.empty(shape, dtype)
            rows = tensor.is_contiguous()
            steps = () if rows else tensor.stride()
            last = count - 1 if rows else sum(map(reach, shape, steps))
            needed = (tensor.storage_offset() + last + 1) * item
            held = tensor.untyped_storage().nbytes()
            if count and (needed > held or not start):
                raise _freed(tensor, needed, held)
            if not on_host:
                place = DeviceLocation(CUDA, tensor.get_device())
                in_bytes = None if rows else [step * item for step in steps]
                return on_device(tensor, dtype, shape, in_bytes, start, place)
            array: np.ndarray
            if rows:
                array = new(shape, dtype, MEMORY, start - BEFORE)
            else:
                in_bytes = [step * item for step in steps]
                array = new(shape, dtype, MEMORY, start - BEFORE, in_bytes)
            return array
        except Refusal:
            raise
        except Exception as error:
            raise _refusal(torch, tensor, error) from error

    return read


# --- why a tensor is refused ------------------------------------------------------------------


def traced_by_torch() -> Refusal:
    """The error about an object that stands for a tensor while torch records operations."""
    return Refusal(
        "is traced by torch, so that it has no values yet",
        "call the function outside of what is traced",
        ADAPTER,
    )


def _subclass(kind: type) -> Refusal:
    match kind.__name__:
        case "FakeTensor" | "FunctionalTensor":
            return traced_by_torch()
        case "NestedTensor":
            return _nested()
        case "UninitializedParameter" | "UninitializedBuffer":
            return Refusal("has no shape yet: run the module it belongs to once before")
        case "DTensor":
            return Refusal("is spread over several processes", "{name}.full_tensor()")
    return Refusal(
        f"is of {type_name(kind)}, a subclass of torch's tensors",
        "{name}.as_subclass(torch.Tensor)",
        ADAPTER,
    )


def _nested() -> Refusal:
    return Refusal(
        "is a nested tensor, whose rows may differ in length",
        "torch.nested.to_padded_tensor({name}, 0.0)",
    )


def _tangent(torch: Any, tensor: Any) -> Refusal:
    return _transformed(torch, tensor) or Refusal(
        "carries a tangent of forward mode, which tc would lose",
        "torch.autograd.forward_ad.unpack_dual({name}).primal",
        ADAPTER,
    )


def _transformed(torch: Any, tensor: Any) -> Refusal | None:
    """The refusal of a tensor that torch.func has wrapped: such a tensor has no memory of its
    own."""
    parts = private_parts(torch)
    if parts.is_transformed(tensor) or parts.is_legacy_batch(tensor):
        return never_served(torch, tensor) or Refusal(
            "is traced by torch.func (grad, vmap or jvp), so that it has no memory of its own",
            "call the function outside of torch.func's transforms",
            ADAPTER,
        )
    return None


def never_served(torch: Any, tensor: Any) -> Refusal | None:
    """Why a tensor is refused that nothing of torch would compute with in its place."""
    if tensor.is_nested:
        return _nested()
    parts = private_parts(torch)
    running = parts.interpreter is not None and parts.interpreter() is not None
    if parts.is_batch(tensor) and not running:
        return Refusal(
            "is a batch that a torch.vmap which has ended has left: outside of it, it has no values"
        )
    return None


def _freed(tensor: Any, needed: int, held: int) -> Refusal:
    if getattr(tensor, "_is_zerotensor", lambda: False)():
        return Refusal("is torch's zero without memory", "{name}.clone()")
    state = "freed" if not held else "shrunk" if needed > held else "freed, at address 0"
    return Refusal(
        f"reaches {needed} bytes into its storage, which holds {held}: it was {state}",
        "{name}.clone(), while its storage is there",
    )


def _refusal(torch: Any, tensor: Any, error: Exception | None = None) -> Refusal:
    transformed = _transformed(torch, tensor)
    if transformed is not None:
        return transformed
    if tensor.device.type == "meta":
        return Refusal(
            "is a meta tensor, which has a shape and no values",
            'load or compute its values first: torch.zeros_like({name}, device="cpu") is of '
            "this shape",
            ADAPTER,
        )
    if tensor.is_nested:
        return _nested()
    if tensor.is_quantized:
        return Refusal("is a quantized tensor", "{name}.dequantize()")
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return Refusal(f"has the layout {layout}, which is not dense", "{name}.to_dense()")
    if not tensor.is_cpu and (not tensor.is_cuda or torch.version.hip is not None):
        name = f"ROCm device {tensor.device.index}" if tensor.is_cuda else f"device {tensor.device}"
        return Refusal(f"lies on {name}", "{name}.cpu()")
    if isinstance(error, KeyError):
        dtype = str(tensor.dtype).removeprefix("torch.")
        real = "{name}.real" if tensor.is_complex() else "{name}"
        return Refusal(f"has dtype {dtype}, which tc does not know", real + ".to(torch.{dtype})")
    return Refusal(f"cannot be read: {first_line(error) if error else 'torch says no more'}")
