"""Where an address of CUDA's lies: the driver knows, for arrays that do not tell."""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache
from typing import Any

_NAMES = ("libcuda.so.1", "nvcuda.dll")
_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@cache
def library() -> Any:
    """CUDA's driver, which whoever has made an array has loaded; None where there is none."""
    for name in _NAMES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def device_at(address: int) -> int:
    """The number of the device in whose memory an address lies, the first where nobody knows."""
    driver = library()
    if driver is None or not address:
        return 0
    number = ctypes.c_int(0)
    failed = driver.cuPointerGetAttribute(
        ctypes.byref(number), ctypes.c_int(_ORDINAL), ctypes.c_uint64(address)
    )
    return 0 if failed else number.value
