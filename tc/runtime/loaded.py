"""What loaded code is: a kernel, or a whole program, that a call can run.

    CompiledKernel.run(addresses) -> Failure | None

Backends make it (`tc.backends.base`); the path of a call knows no more of it than stands here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tc.kernel.ir import Failure, Kernel
from tc.semantics.program import ShapedProgram


class CompiledKernel(Protocol):
    """A kernel ready to run; any number of threads may call `run` at the same time."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def source(self) -> str: ...

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        """Runs the kernel once and returns its first failure, if any (G7); where several
        threads fail at once, the first of any one of them.

        `addresses` are the addresses in bytes of element (0, ..., 0) of the arrays, one for each
        of `kernel.arguments` in order. The caller has checked that each array has the dtype, shape
        and strides of its Buffer and the alignment of its element type, and keeps it alive. An
        address of a buffer without elements is never read. `threads` is the largest number of
        threads to use: None for as many as the backend sees fit; a serial backend ignores it.
        """
        ...


PERFORM = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)
"""The type of the function of a `Direct`."""


@dataclass(frozen=True, slots=True)
class Direct:
    """How machine code runs a kernel, one call at a time.

    The addresses of the buffers, as for `run`, are put at address `addresses`; then the C function
    at address `function` takes the `arguments`, and returns 0, or what is not 0 where a check has
    failed: `take_failure` then says which. `ready` is the address of a word that is 0 while this
    may not be done but by `run`, or 0. `owner` keeps the memory alive.
    """

    function: int
    arguments: tuple[int, int, int, int, int, int, int]
    addresses: int
    ready: int
    take_failure: Callable[[], Failure | None]
    owner: object


@runtime_checkable
class MachineKernel(CompiledKernel, Protocol):
    """A kernel that machine code may run."""

    def direct(self, *, threads: int | None = None) -> Direct | None:
        """A way to run the kernel, apart from all others; None where there is only `run`."""
        ...


class ProgramRunner(Protocol):
    """What runs the shaped program itself, without a kernel: the interpreter."""

    def run_shaped(
        self,
        shaped: ShapedProgram,
        arrays: Mapping[str, np.ndarray],
        initial: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The outputs, fresh and row-major, from inputs by name; `initial` holds the current
        contents of those outputs that the caller passed (R3, R4). Neither is written to."""
        ...
