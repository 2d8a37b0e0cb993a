"""The settings of numba, which decide how regions are compiled and on how many threads they run.

numba takes a large part of the time that a first call spends on imports, and most kernels need
LLVM alone. So numba is imported only where something tells it what to do, or where it is needed;
elsewhere its defaults hold.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tc.process.processors import WITHOUT_AVX
from tc.process.uninterrupted import load

DEFAULTS: Mapping[str, Any] = {
    "BOUNDSCHECK": None, "CPU_FEATURES": None, "CPU_NAME": None, "DEBUGINFO_DEFAULT": 0,
    "ENABLE_AVX": True, "LOOP_VECTORIZE": 1, "OPT": 3, "SLP_VECTORIZE": 0,
}  # fmt: skip
"""What numba takes where it is told nothing."""

_FILE = ".numba_config.yaml"


def config() -> Any:
    """The configuration of numba; None where numba is not imported, and has its defaults."""
    found = getattr(sys.modules.get("numba"), "config", None)
    return load("numba").config if found is None and _is_told() else found


def setting(name: str) -> Any:
    """A setting of `DEFAULTS` as it is now."""
    found = config()
    return DEFAULTS[name] if found is None else getattr(found, name, DEFAULTS[name])


@cache
def _is_told() -> bool:
    """Whether variables or a file tell numba something, or it has no vectors of AVX by default."""
    if any(name.startswith("NUMBA_") for name in os.environ) or Path(_FILE).exists():
        return True
    return str(load("llvmlite.binding").get_host_cpu_name()) in WITHOUT_AVX


def features() -> str:
    """The features of LLVM to compile for, as LLVM takes them; "" where it does not tell."""
    told = setting("CPU_FEATURES")
    if told is not None:
        return str(told)
    try:
        found = load("llvmlite.binding").get_host_cpu_features()
    except RuntimeError:
        return ""
    if not setting("ENABLE_AVX"):
        found.update({name: False for name in found if name.startswith("avx")})
    return str(found.flatten())
