"""What loaded code is: a kernel, or a whole program, that a call can run.

    CompiledKernel.run(addresses) -> Failure | None

Backends make it (`tc.backends.base`); the path of a call knows no more of it than stands here.

Two things on that path are machine code of tc's own, written in LLVM's language: the guard
(`guards_llvm`, whose twin is `guards`) and the thread pool (`thread_pool_llvm`, whose twin is
`thread_pool`). What they assume of Python, of numpy and of the system is the page
`spec/native_calls.md`. What both assume is asked here; the rest is asked beside each text. Where it
is not known to hold, the twins run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tc.kernel.ir import Failure, Kernel
from tc.semantics.program import ShapedProgram

WORD_BYTES = 8
"""The bytes of a word of machine code: an address, or an int64."""

VARIABLE = "TC_NATIVE_CALLS"
"""The environment variable: "0" for the twins."""


def is_allowed(machines: Container[str]) -> bool:
    """Whether machine code for these processors may be used here: on Linux, with a CPython of 64
    bits that has its lock (no free-threaded one), unless the user has switched it off."""
    return (
        os.environ.get(VARIABLE, "").strip() != "0"
        and sys.platform == "linux"
        and platform.machine() in machines
        and sys.implementation.name == "cpython"
        and struct.calcsize("P") == 8
        and has_lock()
    )


def has_lock() -> bool:
    """Whether one thread at a time runs Python here, whatever is imported later."""
    free_threaded = "t" in getattr(sys, "abiflags", "")
    return not free_threaded and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


FAST_CALL = 0x80
"""METH_FASTCALL: the arguments come as the address of objects, and their number."""


def python_function(method: int, of: int, keeps: object = None) -> Callable[..., Any]:
    """The machine code of a PyMethodDef at this address as a function of Python, which passes it a
    number of its own, and keeps something alive, in the place of its module. The PyMethodDef has to
    last for as long."""
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )
    make: Any = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Callable[..., Any] = make(method, of, keeps)
    return function


def python_method(definition: str, name: str, function: str) -> str:
    """The PyMethodDef `definition` of a `python_function` as LLVM text: the function is called
    `name` in Python, and `function` in LLVM. Functions of Python refer to the PyMethodDef to their
    end."""
    return f"""@{definition}_name = internal constant [{len(name) + 1} x i8] c"{name}\\00"
; Python's PyMethodDef: name, function, flags, documentation
@{definition} = global {{ ptr, ptr, i32, ptr }}
    {{ ptr @{definition}_name, ptr @{function}, i32 {FAST_CALL}, ptr null }}"""


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


class TemplateKernel(CompiledKernel, Protocol):
    """A kernel for many sizes."""

    def at_sizes(self, sizes: Mapping[str, int]) -> CompiledKernel:
        """The same code for dynamic sizes, by their names: a kernel that takes arrays of just these
        sizes, and behind them the array of its `sizes`."""
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


def direct_call(arguments: str) -> str:
    """Lines of LLVM text that run the %function of a `Direct` and define %failed; `arguments` is
    the aggregate with the arguments of the function, and where they stand in it."""
    places = range(len(PERFORM._argtypes_))
    lines = [f"  %a{i} = extractvalue {arguments}, {i}" for i in places]
    passed = ", ".join(f"i64 %a{i}" for i in places)
    return "\n".join([*lines, f"  %failed = call i64 %function({passed})"])


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
