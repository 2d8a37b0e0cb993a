"""Code generators: from a kernel to text, and from text to a callable.

The package can be called: `tc.backends()` names the backends that are usable on this machine.

>>> import tc
>>> "interpret" in tc.backends()
True
"""

from __future__ import annotations

import sys
from types import ModuleType

from tc.backends.registry import usable_names


class _CallablePackage(ModuleType):
    def __call__(self) -> tuple[str, ...]:
        return usable_names()


sys.modules[__name__].__class__ = _CallablePackage
