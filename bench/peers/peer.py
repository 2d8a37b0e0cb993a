"""What a peer offers: for each family of kernels one or several forms, the best of which counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bench.cpu_kernels.kernel import Case

Run = Callable[[], Any]
"""Computes a case once, to the end. Returns the outputs, or None where it filled the case's."""

Form = Callable[[Case], Run]


class Peer(Protocol):
    """A library in this process; made after the environment and the threads are set."""

    def forms(self, family: str) -> Mapping[str, Form]:
        """By name all that are worth trying; none where the library has no such computation."""

    def version(self) -> str: ...


class Forms:
    """A table of forms, filled by decorated functions.

    >>> forms = Forms()
    >>> @forms.of("tmm")
    ... def product(case): ...
    >>> list(forms["tmm"]), list(forms["lut1"])
    (['product'], [])
    """

    def __init__(self) -> None:
        self._table: dict[str, dict[str, Callable[..., Any]]] = {}

    def of(self, *families: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            for family in families:
                self._table.setdefault(family, {})[function.__name__] = function
            return function

        return add

    def __getitem__(self, family: str) -> Mapping[str, Callable[..., Any]]:
        return self._table.get(family, {})

    def families(self) -> list[str]:
        return sorted(self._table)
