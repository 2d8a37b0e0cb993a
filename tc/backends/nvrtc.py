"""NVIDIA's compiler for CUDA as a library: it needs no GPU, and says what functions will use."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata

from tc.backends.clike.cuda_dialect import FLAGS
from tc.errors import BackendError
from tc.process.forks import step
from tc.process.uninterrupted import Lazy
from tc.wording import last_lines

_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_LIBRARY = re.compile(r"libnvrtc\.so\.\d+|nvrtc64_\d+_\d+\.dll")
_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a thread of a function uses: registers, bytes that it spills for lack of these (as they
    are stored and loaded), and bytes of its stack, where arrays lie that are not in registers."""

    registers: int
    spills: int
    stack: int


def is_installed() -> bool:
    """Whether there is an NVRTC to compile with."""
    return _LOADED() is not None


@dataclass(frozen=True, slots=True)
class CompiledText:
    """A text that was compiled: the `cubin` to load, the `ptx` of which it was made, and what the
    compilers said."""

    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    log: str


def compiler_log(source: str, arch: str) -> str:
    """What NVRTC and ptxas say of a text that they compile for an architecture, such as "sm_90";
    BackendError where they fail, and without NVRTC."""
    return compiled(source, arch).log


@lru_cache(maxsize=256)
def compiled(source: str, arch: str, lines: bool = False) -> CompiledText:
    """A text compiled for an architecture; BackendError as above. With `lines`, what is compiled
    says of which lines of the text its instructions are, and has the same instructions."""
    library = _library()
    with step():
        return _compiled(library, source, arch, lines)


def version() -> str:
    """The version of NVRTC; BackendError without NVRTC."""
    major, minor = _version(_library())
    return f"{major}.{minor}"


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def architectures() -> tuple[str, ...]:
    """The architectures that NVRTC compiles for, the oldest first; BackendError without NVRTC."""
    library, count = _library(), ctypes.c_int()
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(found)
    return tuple(f"sm_{number}" for number in sorted(found))


def _library() -> ctypes.CDLL:
    library = _LOADED()
    if library is None:
        raise BackendError(
            "there is no NVRTC",
            repair=f'pip install {_PACKAGES[0]}; backend="opencl" or "numba" needs none',
        )
    return library


def usage_in(log: str) -> Mapping[str, Usage]:
    """What functions use, by their names.

    >>> usage_in('''ptxas info    : Compiling entry function 'mm_0' for 'sm_90'
    ... ptxas info    : Function properties for mm_0
    ... ptxas         .     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
    ... ptxas info    : Used 40 registers, used 1 barriers, 132 bytes smem''')
    {'mm_0': Usage(registers=40, spills=12, stack=0)}
    """
    return {
        found["name"]: Usage(
            int(found["registers"]), int(found["stores"]) + int(found["loads"]), int(found["stack"])
        )
        for found in _FUNCTION.finditer(log)
    }


def _log_flags(version: tuple[int, int]) -> tuple[str, ...]:
    """What an NVRTC of that version needs to write its log each time.

    Since 12.9, NVRTC finds the cubin of a text that was compiled before in the driver's cache
    (section "Caching" of its manual), where there is a driver, and the log is then empty.

    >>> _log_flags((12, 8)), _log_flags((13, 0))
    ((), ('--no-cache',))
    """
    return ("--no-cache",) if version >= (12, 9) else ()


def _compiled(library: ctypes.CDLL, source: str, arch: str, lines: bool) -> CompiledText:
    chosen = (f"--gpu-architecture={arch}", *FLAGS, *(("--generate-line-info",) if lines else ()))
    options = (*chosen, *_log_flags(_version(library)))
    program = ctypes.c_void_p()
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        status = library.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, cubin)
        library.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value + 1)
        library.nvrtcGetPTX(program, ptx)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    text = log.value.decode(errors="replace")
    if status != 0:
        raise BackendError(
            f"NVRTC failed with status {status} ({' '.join(chosen)}):\n{last_lines(text)}",
            repair="choose an architecture that it knows, such as sm_90, or pip install --upgrade "
            + _PACKAGES[0],
        )
    return CompiledText(cubin.raw, ptx.value.decode(), text)


def _load() -> ctypes.CDLL | None:
    for package in _PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if _LIBRARY.fullmatch(file.name):
                return ctypes.CDLL(str(file.locate()))
    return None


_LOADED = Lazy(_load)
