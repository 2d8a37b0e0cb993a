"""PyTorch, imported only in processes that run formulas: where threads have places, its OpenMP
binds a process to one core, so tc and numba are measured in processes without PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule:
    """A module that is imported when something of it is wanted.

    >>> LazyModule("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module(), name)

    def module(self) -> Any:
        return import_module(self._name)


def load(users: Iterable[ModuleType]) -> None:
    """Gives modules the library itself, as torch.compile wants it."""
    for user in users:
        for name, value in list(vars(user).items()):
            if isinstance(value, LazyModule):
                setattr(user, name, value.module())


torch = LazyModule("torch")
F = LazyModule("torch.nn.functional")
