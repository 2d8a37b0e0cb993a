"""Machine code of regions: compiled together, kept on disk as an object file, loaded by LLVM.

Most kernels need LLVM alone. Those that call functions of `math`, which numba types and lowers,
become one library of numba, of which the object file is taken; only for them numba's compiler is
set up, which takes some 0.3 s in each process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import registry
from numba.core.codegen import JITCodeLibrary, get_host_cpu_features
from numba.core.compiler_lock import global_compiler_lock

from tc.backends.numba.traced_code import Code
from tc.backends.numba.tracing import VectorRegion
from tc.errors import InternalError
from tc.process.forks import step
from tc.process.uninterrupted import load as load_module
from tc.runtime import cache as disk
from tc.runtime.object_files import (
    LoadedCode,
    MachineTarget,
    ObjectFile,
    all_found,
    compile_modules,
    free_passes,
    is_whole,
    keep_masks,
    load_object,
    parse_module,
)

_CONFIG = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML", "CPU_NAME", "CPU_FEATURES",
    "ENABLE_AVX", "BOUNDSCHECK", "DEBUGINFO_DEFAULT",
)  # fmt: skip
"""The settings of numba's configuration that decide the machine code."""

_NUMBERS = itertools.count()  # as numba keeps all its libraries, their symbols must differ


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
        compiled = compile_regions(name, regions())
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


def compile_regions(name: str, regions: Sequence[VectorRegion]) -> ObjectFile:
    """The regions as C functions of four int64, in one file."""
    codes = [region.traced(f"tc_region_{next(_NUMBERS)}") for region in regions]
    symbols = [code.name for code in codes]
    if any(code.libraries for code in codes):
        return ObjectFile(_compiled_by_numba(name, codes), tuple(symbols))
    return compile_modules([code.module() for code in codes], symbols, _target())


def load(file: ObjectFile) -> LoadedCode | None:
    """The machine code in memory, or None where something that it calls is not found."""
    if not all_found(file):
        _make_known()
        if all_found(file) is False:
            return None
    return load_object(file)


def _compiled_by_numba(name: str, codes: Sequence[Code]) -> bytes:
    with step(), global_compiler_lock:
        library = _Library(registry.cpu_target.target_context.codegen(), name)
        for code in codes:
            for linked in code.libraries:
                library.add_linking_library(linked)
            library.add_llvm_module(parse_module(code.module()))
        library.finalize()
    return library.content


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba is untyped
    """A library of numba of which only the object file is wanted: it is not put into numba's
    engine, which never frees any."""

    content = b""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(_Passes(codegen), name)
        keep_masks()

    def _optimize_functions(self, ll_module: Any) -> None:
        super()._optimize_functions(ll_module)
        self._codegen.free()

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        self._codegen.free()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self.content = self._codegen._tm.emit_object(self._final_module)
        self._finalized = True


class _Passes:
    """Numba's code generator, with the passes that it has made since they were last freed."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen
        self._made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def _module_pass_manager(self, **options: Any) -> Any:
        return self._kept(self._codegen._module_pass_manager(**options))

    def _function_pass_manager(self, **options: Any) -> Any:
        return self._kept(self._codegen._function_pass_manager(**options))

    def _kept(self, made: tuple[Any, Any]) -> tuple[Any, Any]:
        self._made.append(made[0])
        return made

    def free(self) -> None:
        while self._made:
            free_passes(self._made.pop())


def _make_known() -> None:
    """Registers all functions that machine code made by numba may call."""
    load_module("tc.backends.numba.scipy_functions")
    with step(), global_compiler_lock:
        registry.cpu_target.target_context.refresh()


@cache
def _host() -> tuple[str, ...]:
    """What besides the source decides the machine code: the processor and the compilers."""
    config = [repr(getattr(numba.config, name, None)) for name in _CONFIG]
    target, triple = _target(), llvm.get_process_triple()
    return numba.__version__, llvmlite.__version__, triple, repr(target), *config


def _target() -> MachineTarget:
    """The processor as numba sees it."""
    config = numba.config
    return MachineTarget(
        llvm.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME,
        get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES,
        int(config.OPT),
        bool(config.LOOP_VECTORIZE),
        bool(config.SLP_VECTORIZE),
    )
