"""What the processor of this machine can do, as far as LLVM knows."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import lru_cache

from llvmlite import binding

_WIDE = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_ARM = ("aarch64", "arm64")


def vector_bits() -> int:
    """The width of the vectors to compute with, 0 where nothing is known of the machine."""
    return vector_bits_of(platform.machine().lower(), _features())


def has_fma() -> bool:
    """Whether x * y + z rounded once is an instruction, and not a slow function."""
    return platform.machine().lower() in _ARM or _features().get("fma", False)


def converts_halves() -> bool:
    """Whether float16 to float32 and back is an instruction."""
    return platform.machine().lower() in _ARM or _features().get("f16c", False)


def vector_bits_of(machine: str, features: Mapping[str, bool]) -> int:
    """The width for a kind of machine with these features of LLVM.

    >>> vector_bits_of("x86_64", {"sse2": True, "avx2": True, "fma": True})
    256
    >>> vector_bits_of("aarch64", {}), vector_bits_of("riscv64", {})
    (128, 0)
    """
    if all(features.get(name, False) for name in _WIDE):
        return 512
    if features.get("avx2", False) and features.get("fma", False):
        return 256
    return 128 if machine in _ARM or features.get("sse2", False) else 0


@lru_cache(maxsize=1)
def _features() -> Mapping[str, bool]:
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM does not tell on this kind of machine
        return {}
