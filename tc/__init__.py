"""Tensor Comprehensions: operators in index notation, interpreted and compiled.

>>> import numpy as np
>>> import tc
>>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
>>> tc.interpret(mv, [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
array([3., 3.], dtype=float32)

Public names are loaded when first used, so that `import tc` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tc import cache
    from tc.api import (
        Definitions,
        compile,
        define,
        emit,
        error_bound,
        explain,
        interpret,
    )
    from tc.backends.base import KernelText
    from tc.backends.registry import usable_names as backends
    from tc.compiled import Compiled, TensorInfo
    from tc.device import Device
    from tc.errors import (
        AccessError,
        BackendError,
        CheckError,
        InputError,
        InternalError,
        ParseError,
        RangeError,
        TCError,
        TCWarning,
    )
    from tc.options import MappingOptions, Options, ScheduleOptions
    from tc.source import Source

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "BackendError",
    "CheckError",
    "Compiled",
    "Definitions",
    "Device",
    "InputError",
    "InternalError",
    "KernelText",
    "MappingOptions",
    "Options",
    "ParseError",
    "RangeError",
    "ScheduleOptions",
    "Source",
    "TCError",
    "TCWarning",
    "TensorInfo",
    "backends",
    "cache",
    "compile",
    "define",
    "emit",
    "error_bound",
    "explain",
    "interpret",
]

_HOMES = {
    "tc.api": ("Definitions", "compile", "define", "emit", "error_bound", "explain", "interpret"),
    "tc.backends.base": ("KernelText",),
    "tc.compiled": ("Compiled", "TensorInfo"),
    "tc.errors": tuple(name for name in __all__ if name.endswith(("Error", "Warning"))),
    "tc.device": ("Device",),
    "tc.options": ("MappingOptions", "Options", "ScheduleOptions"),
    "tc.source": ("Source",),
}
_MODULES = ("backends", "cache")  # the first can be called
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tc.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tc' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
