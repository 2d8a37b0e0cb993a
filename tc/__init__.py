"""Tensor Comprehensions: operators in index notation, interpreted and compiled.

>>> import numpy as np
>>> import tc
>>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
>>> tc.interpret(mv, [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
array([3., 3.], dtype=float32)

Public names are loaded when first used, so that `import tc` is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tc.api import (
        Definitions,
        backends,
        compile,
        define,
        emit,
        error_bound,
        explain,
        interpret,
    )
    from tc.backends.base import KernelText
    from tc.compiled import Compiled, TensorInfo
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
    from tc.options import Options
    from tc.source import Source

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "BackendError",
    "CheckError",
    "Compiled",
    "Definitions",
    "InputError",
    "InternalError",
    "KernelText",
    "Options",
    "ParseError",
    "RangeError",
    "Source",
    "TCError",
    "TCWarning",
    "TensorInfo",
    "backends",
    "compile",
    "define",
    "emit",
    "error_bound",
    "explain",
    "interpret",
]

_HOMES = {
    "tc.api": ("Definitions", "compile", "define", "emit", "error_bound", "interpret"),
    "tc.backends.base": ("KernelText",),
    "tc.compiled": ("Compiled", "TensorInfo"),
    "tc.errors": tuple(name for name in __all__ if name.endswith(("Error", "Warning"))),
    "tc.options": ("Options",),
    "tc.source": ("Source",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

_FUNCTIONS_AND_MODULES = ("backends", "explain")


class _CallableModule(ModuleType):
    """A submodule whose name is also that of a function of `tc.api`: it can be called as such.

    >>> import tc.backends
    >>> "interpret" in tc.backends()
    True
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        function = getattr(import_module("tc.api"), self.__name__.rpartition(".")[2])
        return function(*args, **named)


class _Package(ModuleType):
    """This package; Python sets a submodule as its attribute when that is imported first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FUNCTIONS_AND_MODULES and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS_AND_MODULES:
        return import_module(f"tc.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tc' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
