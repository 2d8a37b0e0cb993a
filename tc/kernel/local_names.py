"""New names for the variables that passes make."""

from __future__ import annotations

from itertools import count

from tc.kernel.ir import Kernel
from tc.kernel.walk import declared, every_statement


class LocalNames:
    """All names of a kernel, and those given since: each new one is unlike all of these, so that
    a variable may stand in any block, with any type.

    >>> names = LocalNames(Kernel("k", (), ()))
    >>> names.fresh("t"), names.fresh("t"), names.fresh("t")
    ('t', 't_1', 't_2')
    """

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {buffer.name for buffer in kernel.buffers}
        self._taken |= {name for s in every_statement(kernel) for name in declared(s)}
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """The name itself, if that is new, or with a number."""
        if name not in self._taken:
            self._taken.add(name)
            return name
        numbers = count(self._next.get(name, 1))
        number = next(n for n in numbers if f"{name}_{n}" not in self._taken)
        self._next[name] = number + 1
        self._taken.add(f"{name}_{number}")
        return f"{name}_{number}"
