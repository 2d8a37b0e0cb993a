"""What a backend is: it prints a kernel as text, and makes that text run.

    Kernel --emit--> KernelText --load--> CompiledKernel --run(addresses)--> Failure | None

`emit` needs no compiler and no device, so that texts can be read, tested and stored anywhere;
`load` may need both. A backend that runs programs without a kernel is a `ShapedBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from tc.kernel.ir import Failure, Kernel
from tc.semantics.program import ShapedProgram


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel in a backend's language; `str` is the text.

    `backend` is the name of the backend that printed it.
    """

    kernel: Kernel = field(repr=False)
    backend: str
    source: str

    def __str__(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.source)}</pre>"


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


@runtime_checkable
class Backend(Protocol):
    """A way to run kernels; `checks_by_default` says whether `check=None` means checked (G7)."""

    @property
    def name(self) -> str: ...

    @property
    def checks_by_default(self) -> bool: ...

    def usable(self) -> str | None:
        """None where `load` can work on this machine, or the reason why it cannot."""
        ...

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:
        """The kernel in the backend's language; BackendError for what it cannot express.

        `options` are the `tc.options.Options` that the kernel was lowered with, None for the
        defaults.
        """
        ...

    def load(self, text: KernelText) -> CompiledKernel:
        """Compiles the text; BackendError, with the repair, where the tools fail."""
        ...


@runtime_checkable
class ShapedBackend(Protocol):
    """A backend that runs the shaped program itself: the interpreter, always checked."""

    @property
    def name(self) -> str: ...

    @property
    def checks_by_default(self) -> bool: ...

    def usable(self) -> str | None: ...

    def run_shaped(
        self,
        shaped: ShapedProgram,
        arrays: Mapping[str, np.ndarray],
        initial: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The outputs, fresh and row-major, from inputs by name; `initial` holds the current
        contents of those outputs that the caller passed (R3, R4). Neither is written to."""
        ...


AnyBackend: TypeAlias = Backend | ShapedBackend
