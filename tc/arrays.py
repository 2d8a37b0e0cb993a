"""Arguments of any library in, results of its kind out.

Every array library is a `Family`: how one of its arrays becomes a numpy view without a copy, and
how a numpy array becomes one of its own. Frameworks are found by the type of an argument and are
never imported here: an array of theirs exists only where they are loaded already.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

DLPACK_CPU = 1
DLPACK_DEVICES = {
    2: "CUDA", 3: "CUDA host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 11: "ROCm host",
    13: "CUDA managed", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon", 17: "MAIA", 18: "Trainium",
}  # fmt: skip
JAX_ALIGNMENT = 64
"""Below this alignment jax copies what it is given."""


class Refusal(Exception):
    """An argument is no array that tc can read or write; the caller adds the parameter's name.

    `cause` continues "A ...", `repair` has "{name}" where the parameter's name belongs.
    """

    def __init__(self, cause: str, repair: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.repair = repair


@dataclass(frozen=True, slots=True)
class Family:
    """The arrays of one library.

    `view` gives a numpy array on the same memory, `target` one that may be written to, and both
    raise `Refusal`; `wrap` makes a fresh row-major numpy array, aligned to `alignment` bytes, an
    array like its second argument; `touch` tells the library that an array is being written to;
    `cast` is how its users write a change of dtype, `convert` how they take over an array, and
    `fresh` how they make one.
    """

    name: str
    view: Callable[[Any], np.ndarray]
    target: Callable[[Any], np.ndarray]
    wrap: Callable[[np.ndarray, Any], Any]
    touch: Callable[[Any], None]
    cast: str = "{name}.astype(np.{dtype})"
    convert: str | None = "np.asarray({name})"
    alignment: int = 1
    fresh: str = "np.empty({shape}, np.{dtype})"


def same_family(left: Family, right: Family) -> bool:
    return left is right or left.name == right.name


def family_of(array: object) -> Family:
    """The family of an array; `Refusal` where there is none for its type."""
    return _family_of_type(type(array))  # type: ignore[arg-type]  # types can be hashed


@lru_cache(maxsize=256)
def _family_of_type(kind: type) -> Family:
    if kind in (np.ndarray, np.memmap):
        return NUMPY
    if issubclass(kind, np.ma.MaskedArray):
        raise Refusal("is a masked array, and its mask would be lost", "{name}.filled(0)")
    if issubclass(kind, np.ndarray):
        raise Refusal(
            f"is of {_type_name(kind)}, a subclass of numpy's arrays that may mean more than its "
            "numbers",
            "np.asarray({name})",
        )
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and issubclass(kind, getattr(torch, "Tensor", ())):
        return _torch_family(torch, kind)
    if jax is not None and hasattr(jax, "Array"):
        if issubclass(kind, jax.core.Tracer):
            raise Refusal(
                "is traced by jax (jit, grad or vmap), so that it has no values yet",
                "call the function outside of jax.jit, jax.grad and jax.vmap",
            )
        if issubclass(kind, jax.Array):
            return _jax_family(jax)
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return _dlpack_family(kind)
    raise Refusal(f"is of {_type_name(kind)}, which is no array", "np.asarray({name}, np.{dtype})")


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 1) -> np.ndarray:
    """A row-major array with no particular contents, aligned to so many bytes."""
    if alignment <= dtype.itemsize:
        return np.empty(shape, dtype)
    length = math.prod(shape) * dtype.itemsize
    raw = np.empty(length + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + length].view(dtype).reshape(shape)


def overlaps(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays have an element in common; where that is hard to decide, yes."""
    if not np.may_share_memory(left, right):
        return False
    try:
        return np.shares_memory(left, right, max_work=10_000)  # type: ignore[arg-type]  # any integer
    except np.exceptions.TooHardError:
        return True


def _address_from_interface(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _address_from_object(
    array: np.ndarray,
    *,
    _offset: int = object.__basicsize__,
    _read: Callable[[int], Any] = ctypes.c_size_t.from_address,
) -> int:
    value: int = _read(id(array) + _offset).value
    return value


def _choose_address() -> Callable[[np.ndarray], int]:
    """numpy's own ways to an address take a microsecond per array. Its C interface promises that
    the address is the first field of an array, which takes a fifth of that; whether this Python
    lays out objects so is tried once."""
    if sys.implementation.name != "cpython":
        return _address_from_interface
    probe = np.arange(6.0).reshape(2, 3)
    for array in (probe, probe[1:, ::-1], probe.T, np.empty((0, 2)), np.array(1, np.int8)):
        if _address_from_object(array) != _address_from_interface(array):
            return _address_from_interface
    return _address_from_object


address: Callable[[np.ndarray], int] = _choose_address()
"""The address of element (0, ..., 0) of an array in bytes."""


def _type_name(kind: type) -> str:
    return f"type {kind.__name__}"


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _wrap_numpy(array: np.ndarray, _like: Any) -> np.ndarray:
    return array


def _no_touch(_array: Any) -> None:
    return None


NUMPY = Family("numpy", _same, _same, _wrap_numpy, _no_touch)


# --- torch ------------------------------------------------------------------------------------


def _torch_family(torch: Any, kind: type) -> Family:
    if kind not in (torch.Tensor, torch.nn.Parameter):
        raise Refusal(
            f"is of {_type_name(kind)}, a subclass of torch's tensors",
            "{name}.as_subclass(torch.Tensor)",
        )
    is_functional = getattr(torch, "_is_functional_tensor", lambda _: False)
    increment = torch.autograd.graph.increment_version

    def plain(tensor: Any) -> np.ndarray:
        # a functional tensor has an address, with anything at all behind it
        if is_functional(tensor):
            raise Refusal("has no values: it is traced by torch.func.functionalize")
        array: np.ndarray = (tensor.detach() if tensor.requires_grad else tensor).numpy()
        return array

    def view(tensor: Any) -> np.ndarray:
        try:
            return plain(tensor)
        except Refusal:
            raise
        except Exception as error:
            if _is_lazily_negated(tensor):
                return plain(tensor.detach().resolve_neg())
            raise _torch_refusal(torch, tensor, error) from error

    def target(tensor: Any) -> np.ndarray:
        if tensor.requires_grad:
            raise Refusal(
                "requires a gradient, which would not see that it is overwritten",
                "{name}.detach()",
            )
        try:
            return plain(tensor)
        except Refusal:
            raise
        except Exception as error:
            if _is_lazily_negated(tensor):
                raise Refusal(
                    "is a lazy negation of another tensor", "{name}.resolve_neg()"
                ) from error
            raise _torch_refusal(torch, tensor, error) from error

    def wrap(array: np.ndarray, _like: Any) -> Any:
        return torch.from_numpy(array)

    cast = "{name}.to(torch.{dtype})"

    return Family(
        "torch",
        view,
        target,
        wrap,
        increment,
        cast,
        "torch.as_tensor({name})",
        fresh="torch.empty({shape}, dtype=torch.{dtype})",
    )


def _is_lazily_negated(tensor: Any) -> bool:
    """A real view of a conjugated tensor: the only negation that torch leaves to its readers."""
    return bool(tensor.device.type == "cpu" and not tensor.is_complex() and tensor.is_neg())


def _torch_refusal(torch: Any, tensor: Any, error: Exception) -> Refusal:
    if tensor.device.type == "meta":
        return Refusal("is a meta tensor, which has no values", "torch.empty_like({name}).cpu()")
    if tensor.device.type != "cpu":
        return Refusal(f"lies on device {tensor.device}", "{name}.cpu()")
    if tensor.is_quantized:
        return Refusal("is a quantized tensor", "{name}.dequantize()")
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return Refusal(f"has the layout {layout}, which is not dense", "{name}.to_dense()")
    if isinstance(error, TypeError):
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Refusal(f"has dtype {dtype}, which tc does not know", "{name}.to(torch.{dtype})")
    return Refusal(f"cannot be read: {_first_line(error)}")


# --- jax --------------------------------------------------------------------------------------


def _jax_family(jax: Any) -> Family:
    # without it, jax makes float32 of float64, whatever was computed
    wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

    def view(array: Any) -> np.ndarray:
        try:
            # asked first: other questions to a deleted array may kill the process
            deleted = array.is_deleted()
            others = () if deleted else [d for d in array.devices() if d.platform != "cpu"]
            if not deleted and not others:
                return np.asarray(array)
        except Exception as error:
            raise Refusal(f"cannot be read: {_first_line(error)}") from error
        if deleted:
            raise Refusal("has been deleted, or donated to a function of jax")
        raise Refusal(
            f"lies on {', '.join(sorted(map(str, others)))}",
            'jax.device_put({name}, jax.devices("cpu")[0])',
        )

    def target(_array: Any) -> np.ndarray:
        raise Refusal(
            "is an array of jax, which nothing may write to", "leave outputs= out, or use numpy"
        )

    def wrap(array: np.ndarray, _like: Any) -> Any:
        with wide(True) if array.dtype.itemsize == 8 else contextlib.nullcontext():
            return jax.numpy.from_dlpack(array)

    cast = '{name}.astype("{dtype}")'
    convert = "jax.numpy.asarray({name})"
    return Family("jax", view, target, wrap, _no_touch, cast, convert, JAX_ALIGNMENT)


# --- everything else with __dlpack__ ----------------------------------------------------------


def _dlpack_family(kind: type) -> Family:
    library = kind.__module__.partition(".")[0]
    module = sys.modules.get(library)

    def importer(array: Any) -> Any:
        namespace = array.__array_namespace__() if hasattr(kind, "__array_namespace__") else module
        return getattr(namespace, "from_dlpack", None)

    def view(array: Any) -> np.ndarray:
        try:
            device, number = array.__dlpack_device__()
            on_cpu, can_return = int(device) == DLPACK_CPU, importer(array) is not None
            if on_cpu and can_return:
                return np.from_dlpack(array)
        except Exception as error:
            raise Refusal(f"cannot be read through DLPack: {_first_line(error)}") from error
        if on_cpu:
            raise Refusal(
                f"is of {_type_name(kind)}, and {library} has no from_dlpack for the results",
                "np.from_dlpack({name})",
            )
        name = DLPACK_DEVICES.get(int(device), f"type {int(device)}")
        raise Refusal(f"lies on a device of {library}: {name} {number}", "copy it to the CPU")

    def wrap(array: np.ndarray, like: Any) -> Any:
        return importer(like)(array)

    return Family(library, view, view, wrap, _no_touch, "{name}.astype({dtype})", None)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
