"""The C backend: kernels as C, compiled with the system's compiler and run on one thread."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tc.backends.base import KernelText
from tc.backends.call_memory import CallMemory, FailureRecord
from tc.backends.clike.c import C99
from tc.backends.clike.printer import KernelFunction, functions_of, print_kernel, workspace_of
from tc.backends.clike.types import VECTOR_PRAGMA
from tc.device import Device, host
from tc.errors import BackendError
from tc.extents.sizes import at_hint
from tc.kernel.ir import Failure, Kernel
from tc.kernel.sizes import at_sizes
from tc.process.forks import step
from tc.process.object_pool import ObjectPool
from tc.process.programs import run_program
from tc.runtime.arrays import address
from tc.runtime.specialisation import spare_memory
from tc.wording import last_lines

COMPILERS = ("cc", "gcc", "clang")
# without contraction, which some compilers do by default, results do not depend on the compiler;
# nobody looks at errno and at the flags of exceptions, without which loops become vectors
FLAGS = (
    *("-std=c99", "-O3", "-fPIC", "-shared"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
)
# to save registers for addresses, GCC reads operands of multiply-adds anew for each of them
VECTOR_FLAGS = ("-fno-ivopts",)
NATIVE = "-march=native"  # not every compiler has it for every machine
COMPILE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class CBackend:
    """Implements `Backend`; the texts are described in `printer`."""

    name: str = "c"
    checks_by_default: bool = True
    many_sizes: bool = True

    def usable(self) -> str | None:
        if compiler() is None:
            return f"there is no C compiler (none of {', '.join(COMPILERS)} is on the PATH)"
        return None

    def device(self) -> Device:
        return host()

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:  # noqa: ARG002
        return KernelText(kernel, self.name, print_kernel(kernel, C99))

    def load(self, text: KernelText) -> CKernel:
        found = compiler()
        if found is None:
            raise BackendError(
                f"backend 'c': {self.usable()}",
                repair='install one (Debian: apt install gcc), or use backend="numba"',
            )
        library = _build(found, text.source, _flags(text))
        (printed,) = functions_of(text.kernel, C99)
        function = library[printed.name]
        function.restype = None
        pointers = len(printed.arguments) + printed.fails + printed.workspace
        function.argtypes = [ctypes.c_void_p] * pointers
        private, record = at_hint(workspace_of(text.kernel).size), FailureRecord.of(text.kernel)
        return CKernel(text.kernel, text.source, function, printed, private, record)


@dataclass(frozen=True, eq=False)
class CKernel:
    """Implements `CompiledKernel`; what the function takes behind the arrays is `printed`, with
    `private` bytes of workspace. `memory` keeps what a call needs beside the arrays for later
    calls, and `temporaries` keeps their memory, at whatever sizes of a kernel for many."""

    kernel: Kernel
    source: str
    function: Callable[..., None]
    printed: KernelFunction
    private: int
    record: FailureRecord
    memory: ObjectPool[CallMemory] = field(default_factory=ObjectPool)
    temporaries: ObjectPool[Any] = field(default_factory=spare_memory)

    def at_sizes(self, sizes: Mapping[str, int]) -> CKernel:
        """The same code for the sizes of a call, where the kernel is one for many."""
        kernel = at_sizes(self.kernel, sizes)
        return replace(self, kernel=kernel, private=at_hint(workspace_of(kernel).size))

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        if not (self.printed.fails or self.printed.workspace):
            self.function(*addresses)
            return None
        memory = self.memory.take(self.new_memory)
        memory.reserve(self.private)
        status = (memory.failures,) if self.printed.fails else ()
        workspace = (address(memory.scratch),) if self.printed.workspace else ()
        self.function(*addresses, *status, *workspace)
        failure = memory.take_failure()
        self.memory.give_back(memory)
        return failure

    def new_memory(self) -> CallMemory:
        """What one more call at the same time needs beside the arrays."""
        return CallMemory(len(self.printed.arguments), self.record, self.private, 1)


def compiler() -> str | None:
    """Where the system's compiler is."""
    found = (shutil.which(name) for name in COMPILERS)
    return next((path for path in found if path is not None), None)


def _flags(text: KernelText) -> tuple[str, ...]:
    """The options of the compiler for a kernel, whatever the machine."""
    return (*FLAGS, *(VECTOR_FLAGS if VECTOR_PRAGMA in text.source else ()))


def _build(compiler: str, source: str, flags: Sequence[str]) -> ctypes.CDLL:
    """The text as a loaded library. Its files are in a directory of this call alone, which goes
    once the library is mapped."""
    with contextlib.ExitStack() as stack:
        try:
            with step():
                folder = tempfile.TemporaryDirectory(prefix="tc-", ignore_cleanup_errors=True)
            path = Path(stack.enter_context(folder))
            (path / "kernel.c").write_text(source, encoding="utf-8")
        except OSError as error:
            raise BackendError(
                f"backend 'c': its files cannot be written: {error}",
                repair='set TMPDIR to a folder with space, or use backend="numba"',
            ) from error
        done = _compile(compiler, path, (*flags, NATIVE))
        if done.returncode != 0:
            done = _compile(compiler, path, flags)
        if done.returncode != 0:
            raise BackendError(
                f"backend 'c': {compiler} failed with status {done.returncode}:\n"
                + last_lines(done.stderr),
                repair='repair the compiler, or use backend="numba"',
            )
        try:
            with step():
                return ctypes.CDLL(str(path / "kernel.so"))
        except OSError as error:
            raise BackendError(
                f"backend 'c': what {compiler} made cannot be loaded: {error}",
                repair='set TMPDIR to a folder that may hold programs, or use backend="numba"',
            ) from error


def _compile(compiler: str, path: Path, flags: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [compiler, *flags, "-o", "kernel.so", "kernel.c", "-lm"]
    try:
        return run_program(
            command, seconds=COMPILE_SECONDS, cwd=path, environment={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(
            f"backend 'c': {compiler} cannot be run: {error}",
            repair='repair the compiler, or use backend="numba"',
        ) from error
