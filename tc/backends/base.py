"""What a backend is: it prints a kernel as text, and makes that text run.

    Kernel --emit--> KernelText --load--> CompiledKernel --run(addresses)--> Failure | None

`emit` needs no compiler and no device, so that texts can be read, tested and stored anywhere;
`load` may need both. What loaded code is stands in `tc.runtime.loaded`. A backend that runs
programs without a kernel is a `ShapedBackend`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from tc.device import Device
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.loaded import CompiledKernel, ProgramRunner
from tc.source import as_html

LANGUAGES = {"numba": "python", "c": "c", "cuda": "cuda", "opencl": "c"}
"""The languages of the backends' texts, by their names in Pygments."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel in a backend's language; `str` is the text.

    `kernel` is the loop program, `source` its text, `backend` the name of the backend that
    printed the text.
    """

    kernel: Kernel = field(repr=False)
    backend: str
    source: str

    def __str__(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        return as_html(self.source, LANGUAGES.get(self.backend))


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def checks_by_default(self) -> bool: ...

    def usable(self) -> str | None:
        """None where it works on this machine, or the reason why it does not."""
        ...


@runtime_checkable
class Backend(_Named, Protocol):
    """A way to run kernels; `checks_by_default` says whether `check=None` means checked (G7)."""

    def device(self) -> Device | Gpu:
        """For what it compiles where nobody says."""
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
class TemplateBackend(Backend, Protocol):
    """A backend whose kernels may be for many sizes: what it loads is a `TemplateKernel`."""

    @property
    def many_sizes(self) -> bool: ...


@runtime_checkable
class GpuBackend(Backend, Protocol):
    """A backend whose device is a GPU: it takes kernels whose regions are launches.

    `kinds` are those of the places where it takes the arrays of a call, beside the processor's
    memory. `place` is for which it loads kernels, None for the place that it chooses itself, to
    run them on arrays of the processor."""

    def check(self) -> None:
        """Raises BackendError, with a repair that works here, where the backend does not work on
        this machine."""
        ...

    @property
    def kinds(self) -> frozenset[str]: ...

    @property
    def place(self) -> DeviceLocation | None: ...

    def at(self, place: DeviceLocation) -> GpuBackend:
        """The same for a place of the caller's; BackendError for one that cannot be used."""
        ...

    def device(self) -> Gpu: ...

    def emit(
        self, kernel: Kernel, options: object | None = None, gpu: Gpu | None = None
    ) -> KernelText:
        """As backends do; `gpu` is what the kernel was lowered for, None for the default one."""
        ...


@runtime_checkable
class ShapedBackend(_Named, ProgramRunner, Protocol):
    """A backend that runs the shaped program itself: the interpreter, always checked."""


AnyBackend: TypeAlias = Backend | ShapedBackend
