"""Arrays of element types that numpy itself does not have, such as bfloat16.

Within tc their elements are bits (`DType.numpy`). Users have arrays of the package ml_dtypes, which
gives numpy such types, and results are of those where it is loaded; tc never loads it.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from tc.dtypes import DTYPES, DType, decoded
from tc.errors import BackendError
from tc.runtime.arrays.device_array import DeviceArray

ENCODED = {dtype.numpy: dtype for dtype in DTYPES.values() if not dtype.is_in_numpy}
"""The types that numpy does not have, by the types of their bits."""


def as_bits(array: Any) -> Any:
    """An array of a type of ml_dtypes as an array on the same memory of the type that tc has for
    it; any other array as it is."""
    dtype = array.dtype
    known = DTYPES.get(dtype.name) if dtype.isbuiltin == _REGISTERED else None
    if known is None or known.is_in_numpy:
        return array
    return (
        replace(array, dtype=known.numpy) if type(array) is DeviceArray else array.view(known.numpy)
    )


_REGISTERED = 2
"""What `isbuiltin` is of types that packages add to numpy."""


def numbers(array: np.ndarray) -> np.ndarray:
    """The values of an array, in a type with which numpy computes."""
    dtype = ENCODED.get(array.dtype)
    return array if dtype is None else decoded(array, dtype)


def user_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that users have for the arrays of a type: that of ml_dtypes for bits, where it is
    loaded, else the type itself."""
    known = ENCODED.get(dtype)
    module = sys.modules.get("ml_dtypes") if known is not None else None
    found = None if known is None else getattr(module, known.name, None)
    return dtype if found is None else np.dtype(found)


def as_users(array: Any) -> Any:
    """An array as users have it: as ml_dtypes has it, where its elements are bits."""
    dtype = user_dtype(array.dtype)
    return array if dtype is array.dtype else array.view(dtype)


def check_users_have(name: str, dtype: DType, function: str) -> None:
    """BackendError where a result is to be an array of numpy, which has none of its type."""
    if dtype.is_in_numpy or user_dtype(dtype.numpy) is not dtype.numpy:
        return
    is_there = importlib.util.find_spec("ml_dtypes") is not None
    raise BackendError(
        f"{function}: the result {name} is {dtype}, of which numpy has no arrays unless the "
        f"package ml_dtypes is {'imported' if is_there else 'installed and imported'}",
        rule="Y3",
        repair="import ml_dtypes" if is_there else "pip install ml_dtypes, then import ml_dtypes",
        idiom=f"float32(...) around what {name} is given; or tensors of torch as inputs, whose "
        "results are such tensors",
    )
