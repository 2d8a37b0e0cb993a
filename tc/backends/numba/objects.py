"""Machine code of regions: compiled together, kept on disk as an object file, loaded by LLVM.

Most kernels need LLVM alone. Those that call functions of `math` are linked with what numba makes
of these; only for them numba's compiler is set up, which takes some 0.3 s in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from tc.backends.numba.tracing import VectorRegion
from tc.errors import InternalError
from tc.process import numba_settings
from tc.process.forks import step
from tc.process.uninterrupted import load as load_module
from tc.runtime import cache as disk
from tc.runtime.object_files import (
    LoadedCode,
    MachineTarget,
    ObjectFile,
    all_found,
    compile_modules,
    is_whole,
    load_object,
)


def machine_code(
    name: str, source: str, count: int, regions: Callable[[], Sequence[VectorRegion]]
) -> LoadedCode:
    """The `count` regions of a source, compiled, or as found on disk.

    `regions` gives them as functions to trace. It is called only where they must be compiled: what
    decides the code stands in `source`, in tc or in `_host`.
    """
    with step():
        key = disk.digest("object", source, *_host())
        stored = disk.get(key)
        if stored is not None:
            file = object_of(stored)
            code = None if file is None else load(file)
            if code is not None and len(code.addresses) == count:
                return code
            disk.remove(key)
        compiled = compile_regions(regions())
        code = load(compiled)
        if code is None:
            raise InternalError(f"{name} calls a function that is nowhere")
        disk.put(key, bytes_of(compiled))
        return code


_KIND = "object"


def bytes_of(file: ObjectFile) -> bytes:
    """An object file as it is kept (`cache.packed`)."""
    return disk.packed(_KIND, {"functions": file.functions}, file.content)


def object_of(stored: bytes) -> ObjectFile | None:
    """The object file that was kept; None where the bytes have not the form that `bytes_of`
    writes."""
    found = disk.unpacked(_KIND, stored)
    if found is None:
        return None
    functions = found[0].get("functions")
    if not isinstance(functions, list) or not all(isinstance(name, str) for name in functions):
        return None
    file = ObjectFile(found[1], tuple(functions))
    return file if is_whole(file) else None


def compile_regions(regions: Sequence[VectorRegion]) -> ObjectFile:
    """The regions as C functions of four int64, in one file."""
    codes = [region.traced(f"tc_region_{number}") for number, region in enumerate(regions)]
    called = {library: None for code in codes for library in code.libraries}
    functions: list[str] = []
    if called:
        with step(), _compiler_lock():
            functions = [str(library._get_module_for_linking()) for library in called]
    texts = [code.module() for code in codes]  # first: what nothing calls yet is not linked
    return compile_modules([*texts, *functions], [code.name for code in codes], _target())


def load(file: ObjectFile) -> LoadedCode | None:
    """The machine code in memory, or None where something that it calls is not found."""
    if not all_found(file):
        _make_known()
        if all_found(file) is False:
            return None
    return load_object(file)


def _make_known() -> None:
    """Registers all functions that machine code made by numba may call."""
    load_module("tc.backends.numba.scipy_functions")
    with step(), _compiler_lock():
        load_module("numba.core.registry").cpu_target.target_context.refresh()


def _compiler_lock() -> Any:
    return load_module("numba.core.compiler_lock").global_compiler_lock


@cache
def _host() -> tuple[str, ...]:
    """What besides the source decides the machine code: the processor and the compilers."""
    of_functions = [repr(numba_settings.setting(n)) for n in ("BOUNDSCHECK", "DEBUGINFO_DEFAULT")]
    target, triple = _target(), llvm.get_process_triple()
    return version("numba"), llvmlite.__version__, triple, repr(target), *of_functions


def _target() -> MachineTarget:
    """The processor as numba sees it."""
    name = numba_settings.setting("CPU_NAME")
    return MachineTarget(
        llvm.get_host_cpu_name() if name is None else name,
        numba_settings.features(),
        int(numba_settings.setting("OPT")),
        bool(numba_settings.setting("LOOP_VECTORIZE")),
        bool(numba_settings.setting("SLP_VECTORIZE")),
    )
