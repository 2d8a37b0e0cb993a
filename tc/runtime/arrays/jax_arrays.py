"""Jax's arrays as arguments and results; jax is never imported here.

Jax has streams of its own and says of none. So arguments on a GPU are waited for, and so is the
call: jax may give the memory of an argument away as soon as nobody holds the array.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tc.dtypes import DTYPES
from tc.runtime.arrays.cuda_arrays import view_of_interface
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation, on_device
from tc.runtime.arrays.encoded_arrays import ENCODED, user_dtype
from tc.runtime.arrays.family import DeviceOps, Family, Refusal, first_line

JAX_ALIGNMENT_BYTES = 64
"""Arrays of a lower alignment are copied by jax."""

ADAPTER = "tc.jax.primitive"
"""What serves calls with tracers."""

_CUDA_DEVICE, _PINNED = 2, 3  # of DLPack
_NUMBERS = "biuf"


def jax_family(jax: Any) -> Family:
    # without it, jax makes float32 of float64, whatever was computed
    wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

    def view(array: Any) -> Any:
        try:
            # asked first: other questions to a deleted array may kill the process
            deleted = array.is_deleted()
            others = () if deleted else [d for d in array.devices() if d.platform != "cpu"]
            if not deleted and not others:
                return np.asarray(array)
            if len(others) == 1 and others[0].platform in ("gpu", "cuda"):
                kind, number = map(int, array.__dlpack_device__())
                if kind == _PINNED:
                    return np.asarray(array)
                if kind == _CUDA_DEVICE:
                    return _on_gpu(array, number)
        except Refusal:
            raise
        except Exception as error:
            raise Refusal(f"cannot be read: {first_line(error)}") from error
        if deleted:
            raise Refusal("has been deleted, or donated to a function of jax")
        raise Refusal(f"lies on {', '.join(sorted(map(str, others)))}", _TO_HOST)

    def target(_array: Any) -> np.ndarray:
        raise Refusal(
            "is an array of jax, which nothing may write to", "leave outputs= out, or use numpy"
        )

    def wrap(array: Any, _like: Any) -> Any:
        with wide(True) if array.dtype.itemsize == 8 else contextlib.nullcontext():
            dtype = ENCODED.get(array.dtype) if isinstance(array, np.ndarray) else None
            if dtype is None:
                return jax.numpy.from_dlpack(array)
            unsigned = jax.numpy.from_dlpack(array.view(dtype.unsigned.numpy))
            return jax.lax.bitcast_convert_type(unsigned, user_dtype(array.dtype))

    devices = DeviceOps(
        None,
        adopt=wrap,
        convert="jax.device_put({name}, {first}.device)",
        move="jax.device_put({name}, {first}.device)",
    )
    cast = '{name}.astype("{dtype}")'
    convert = "jax.numpy.asarray({name})"
    return Family(
        "jax",
        view,
        target,
        wrap,
        view,
        cast,
        convert,
        JAX_ALIGNMENT_BYTES,
        to_host=_TO_HOST,
        devices=devices,
    )


_TO_HOST = 'jax.device_put({name}, jax.devices("cpu")[0])'


def traced_by_jax() -> Refusal:
    """The error about an object that stands for an array while jax records operations."""
    return Refusal(
        "is traced by jax (jit, grad or vmap), so that it has no values yet",
        "call the function outside of jax.jit, jax.grad and jax.vmap",
        ADAPTER,
    )


def _on_gpu(array: Any, number: int) -> DeviceArray:
    dtype, place = np.dtype(array.dtype), DeviceLocation(CUDA, number)
    known = DTYPES.get(dtype.name)
    if known is not None and not known.is_in_numpy:  # the interface has no word for these
        array.block_until_ready()
        address = array.unsafe_buffer_pointer()
        return on_device(array, known.numpy, array.shape, None, address, place, writable=False)
    if dtype.kind not in _NUMBERS:  # the interface has no word for some; nobody reads them
        strides = (0,) * array.ndim
        return DeviceArray(dtype, array.shape, strides, 0, place, False, array)
    array.block_until_ready()
    return view_of_interface(array, number)
