"""What code is generated for, as plain data: widths, caches, threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A processor. `vector_bits` is 0 where there are no vectors; caches are in bytes, per core
    (`l3`: in all); `threads` is how many run at the same time. `gflops` (float32, all threads)
    and `gbytes` (per second, from memory) are for estimates only; 0 where nothing is known.

    >>> Device(vector_bits=512).lanes(32), Device(vector_bits=0).lanes(32)
    (16, 1)
    """

    vector_bits: int = 128
    vector_registers: int = 16
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    threads: int = 1
    gflops: float = 0.0
    gbytes: float = 0.0

    def lanes(self, bits: int) -> int:
        """How many elements of so many bits a vector holds; 1 without vectors."""
        return max(1, self.vector_bits // bits)


@cache
def host() -> Device:
    """The processor that runs this process; what cannot be found out has its default."""
    bits = _vector_bits()
    return Device(
        vector_bits=bits,
        vector_registers=32 if bits == 512 else 16,
        l1=_cache_bytes(1, 32 << 10),
        l2=_cache_bytes(2, 512 << 10),
        l3=_cache_bytes(3, 8 << 20),
        threads=_threads(),
    )


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _vector_bits() -> int:
    """The widest vectors of floats with masks and fused multiply-add that the host has."""
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:
        features = {}
    wide = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
    if all(features.get(name) for name in wide):
        return 512
    if features.get("avx2") and features.get("fma"):
        return 256
    return 128 if features.get("sse2") or features.get("neon") else 0


def _cache_bytes(level: int, default: int) -> int:
    """The size of the data cache of a level, as Linux tells it."""
    for index in sorted(_CACHES.glob("index*")) if _CACHES.is_dir() else ():
        try:
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
            found = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        if found == level and kind != "Instruction" and size.endswith("K"):
            return int(size[:-1]) << 10
    return default
