"""Whether the path of a call uses machine code of its own, or the plain Python that defines it.

Two things on that path are written in LLVM's language: the guard (`guards_llvm`, whose twin is
`guards`) and the thread pool (`thread_pool_llvm`, whose twin is `thread_pool`). What they assume of
Python, of numpy and of the system is the page `spec/native_calls.md`. What both assume is asked
here; the rest is asked beside each text. Where it is not known to hold, the twins run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Container
from typing import Any

WORD_BYTES = 8
"""The bytes of a word of machine code: an address, or an int64."""

VARIABLE = "TC_NATIVE_CALLS"
"""The environment variable: "0" for the twins."""


def is_allowed(machines: Container[str]) -> bool:
    """Whether machine code for these processors may be used here: on Linux, with a CPython of 64
    bits that has its lock (no free-threaded one), unless the user has switched it off."""
    return (
        os.environ.get(VARIABLE, "").strip() != "0"
        and sys.platform == "linux"
        and platform.machine() in machines
        and sys.implementation.name == "cpython"
        and struct.calcsize("P") == 8
        and has_lock()
    )


def has_lock() -> bool:
    """Whether one thread at a time runs Python here, whatever is imported later."""
    free_threaded = "t" in getattr(sys, "abiflags", "")
    return not free_threaded and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


FAST_CALL = 0x80
"""METH_FASTCALL: the arguments come as the address of objects, and their number."""


def python_function(method: int, of: int, keeps: object = None) -> Callable[..., Any]:
    """The machine code of a PyMethodDef at this address as a function of Python, which passes it a
    number of its own, and keeps something alive, in the place of its module. The PyMethodDef has to
    last for as long."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Callable[..., Any] = make(method, of, keeps)
    return function
