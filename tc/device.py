"""What code is generated for, as plain data: widths, caches, threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import inf
from pathlib import Path

from tc.errors import BackendError
from tc.process.forks import step
from tc.process.processors import allowed_features, default_threads
from tc.process.processors import available as _available
from tc.process.uninterrupted import load

_PROCESSORS = Path("/sys/devices/system/cpu")
_WIDE = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_ARM = ("aarch64", "arm64")
_CACHES = _PROCESSORS / "cpu0/cache"
_MAX_CLOCK = _PROCESSORS / "cpu0/cpufreq/cpuinfo_max_freq"
_PROCESSOR_INFO = Path("/proc/cpuinfo")

_MAY_BE_ZERO = (
    *("vector_bits", "unit_bits", "vector_registers", "fma", "exponents", "gflops", "gbytes"),
    *("l1", "l2", "l3", "l3_caches"),
)
"""Fields that are 0 where the processor lacks the thing, or nothing is known of it."""

UNIT_BITS = {"znver1": 128, "znver4": 256}
"""Processors, by LLVM's names, whose units are half as wide as their widest vectors."""

L2_BYTES_PER_CYCLE = 48.0
"""Bytes that a core is assumed to read in a cycle from its second cache; half as many where units
are half as wide."""

LINE_BYTES = 64
"""Bytes that caches and memory exchange at a time, where nothing else is known."""

PAGE_BYTES = 4096
"""Bytes within which hardware prefetches, and by which a core first compares a load with the stores
before it: a load waits for a store whose address has the same rest (4K aliasing)."""

FMA_PER_CYCLE = 2
"""Multiply-adds that a core is assumed to begin in a cycle."""

GBYTES_PER_CORE = 10.0
"""The bandwidth of memory that one core is assumed to have, in GB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A processor.

    `vector_bits` is the width of vectors, 0 where there are none. The units that compute, load and
    store are `unit_bits` wide, and take wider vectors in several passes (0: units are as wide as
    vectors). `fma` says whether vectors have a fused multiply-add, `exponents` whether vectors have
    instructions for the exponents of floats (as AVX-512's scalef, getexp and getmant). In a cycle a
    core begins `fma_per_cycle` multiply-adds of a unit's width; the result of a multiply-add is
    there after `fma_latency` cycles.

    Sizes of caches are in bytes: `l1` and `l2` of one core, `l3` of one cache that several cores
    share (0: there is none, or its size is not known), of which there are `l3_caches`. Caches
    exchange `line` bytes at a time, and hardware prefetches within `page` bytes; a core reads
    `l2_bytes_per_cycle` from the second cache, `l3_bytes_per_cycle` from the third, and
    `memory_bytes_per_cycle` from memory. `threads` is the number of threads that run at the same
    time.

    `gflops` (float32, all threads) and `gbytes` (per second, from memory) are for estimates only,
    and decide nothing, so devices that differ only in these are equal; 0 where a speed is not
    known.

    >>> import tc
    >>> tc.Device(vector_bits=512).lanes(32), tc.Device(vector_bits=0).lanes(32)
    (16, 1)
    """

    vector_bits: int = 128
    unit_bits: int = 0
    vector_registers: int = 16
    fma: bool = True
    exponents: bool = False
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    l3_caches: int = 1
    line: int = LINE_BYTES
    page: int = PAGE_BYTES
    l2_bytes_per_cycle: float = L2_BYTES_PER_CYCLE
    l3_bytes_per_cycle: float = 24.0
    memory_bytes_per_cycle: float = 6.0
    fma_per_cycle: int = FMA_PER_CYCLE
    fma_latency: int = 4
    threads: int = 1
    gflops: float = field(default=0.0, repr=False, compare=False)
    gbytes: float = field(default=0.0, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = "at least 0" if each.name in _MAY_BE_ZERO else "more than 0"
            if not isinstance(value, int | float) or value < 0 or (value == 0 and "more" in least):
                raise BackendError(
                    f"Device({each.name}={value!r}): it is a number, {least}",
                    repair=f"Device({each.name}={each.default!r})",
                )

    def lanes(self, bits: int) -> int:
        """The number of elements of `bits` bits in a vector; 1 without vectors."""
        return max(1, self.vector_bits // bits)

    def passes(self, bits: int) -> int:
        """The number of passes in which the units take a vector of `bits` bits.

        >>> import tc
        >>> zen4, other = tc.Device(vector_bits=512, unit_bits=256), tc.Device(vector_bits=512)
        >>> [zen4.passes(bits) for bits in (512, 256, 128)], other.passes(512)
        ([2, 1, 1], 1)
        """
        return max(1, bits // self.unit_bits) if self.unit_bits else 1

    def levels(self, cores: int = 1) -> tuple[tuple[float, float], ...]:
        """Of each level of memory behind the first cache, the nearest first: the bytes that the
        level holds of what so many cores share evenly, and the bytes that a core reads from it in
        a cycle."""
        return (
            (self.l2 * cores, self.l2_bytes_per_cycle),
            (self.l3, self.l3_bytes_per_cycle),
            (inf, self.memory_bytes_per_cycle),
        )

    def read_rate(self, size: float) -> float:
        """The bytes that a core reads in a cycle of data of `size` bytes, from the nearest level
        that holds all of the data: of third caches a core reads one.

        >>> import tc
        >>> device = tc.Device(l2=1 << 20, l3=8 << 20)
        >>> [device.read_rate(size) for size in (1 << 20, 8 << 20, 9 << 20)]
        [48.0, 24.0, 6.0]
        """
        return next(rate for held, rate in self.levels() if size <= held)

    @property
    def shared_cache(self) -> int:
        """The bytes that all caches before memory hold together."""
        return self.l3 * self.l3_caches


@cache
def host() -> Device:
    """The processor that runs this process; unknown properties have their defaults. The speed is
    assumed from the clock and the cores, not measured."""
    bits, units, cores = vector_bits(), unit_bits(), _cores()
    return Device(
        vector_bits=bits,
        unit_bits=units,
        vector_registers=32 if bits == 512 else 16,
        fma=has_fma(),
        exponents=has_exponents(),
        l1=_cache_bytes(1, 32 << 10),
        l2=_cache_bytes(2, 512 << 10),
        l3=_cache_bytes(3, 0),
        l3_caches=_shared_caches(),
        l2_bytes_per_cycle=L2_BYTES_PER_CYCLE / 2 if units else L2_BYTES_PER_CYCLE,
        threads=default_threads(len(_available())),
        gflops=_clock() / 1e9 * max(1, (units or bits) // 32) * 2 * FMA_PER_CYCLE * cores,
        gbytes=GBYTES_PER_CORE * cores,
    )


def _cores() -> int:
    """The number of cores that the available processors belong to: two threads of one core share
    its units."""
    cores = set()
    for number in _available():
        siblings = _PROCESSORS / f"cpu{number}/topology/thread_siblings_list"
        try:
            cores.add(siblings.read_text().strip())
        except OSError:
            return len(_available())
    return len(cores)


def _clock() -> float:
    """Cycles per second, as Linux tells them; 0 where it does not."""
    try:
        return int(_MAX_CLOCK.read_text()) * 1e3
    except (OSError, ValueError):
        pass
    try:
        lines = _PROCESSOR_INFO.read_text(errors="replace").splitlines()
        return max(float(x.partition(":")[2]) * 1e6 for x in lines if x.startswith("cpu MHz"))
    except (OSError, ValueError):
        return 0.0


def vector_bits() -> int:
    """The width of the vectors to compute with, 0 where nothing is known of the machine."""
    return vector_bits_of(platform.machine().lower(), _features())


def unit_bits() -> int:
    """The width of the units that vectors are computed with, 0 where they are as wide as vectors,
    or nothing is known of them."""
    return unit_bits_of(processor_name(), vector_bits())


def unit_bits_of(name: str, bits: int) -> int:
    """The width of the units of a processor, by LLVM's name, with vectors of `bits` bits; 0 where
    the units are as wide as the vectors.

    >>> unit_bits_of("znver4", 512), unit_bits_of("znver4", 256), unit_bits_of("znver5", 512)
    (256, 0, 0)
    """
    units = UNIT_BITS.get(name, 0)
    return units if units < bits else 0


def has_fma() -> bool:
    """Whether x * y + z rounded once is an instruction, and not a slow function."""
    return platform.machine().lower() in _ARM or _features().get("fma", False)


def has_exponents() -> bool:
    """Whether vectors of all widths have AVX-512's instructions for the exponents of floats."""
    return all(_features().get(name, False) for name in ("avx512f", "avx512vl"))


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


@cache
def _features() -> Mapping[str, bool]:
    binding = load("llvmlite.binding")  # `import tc` must not load it
    try:
        with step():
            return allowed_features(dict(binding.get_host_cpu_features()), processor_name())
    except RuntimeError:  # LLVM does not tell on this kind of machine
        return allowed_features({})


@cache
def processor_name() -> str:
    """The name of the processor in LLVM, or of the processor that numba is told to compile for."""
    if name := os.environ.get("NUMBA_CPU_NAME"):
        return name
    binding = load("llvmlite.binding")
    with step():
        return str(binding.get_host_cpu_name())


def _cache_bytes(level: int, default: int) -> int:
    """The size of the data cache of a level, as Linux tells it."""
    for index in _data_caches(_CACHES, level):
        try:
            size = (index / "size").read_text().strip()
            if size.endswith("K"):
                return int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return default


def _shared_caches() -> int:
    """How many third-level caches there are for the processors that may run this process."""
    sharers = set()
    for number in _available():
        for index in _data_caches(_PROCESSORS / f"cpu{number}/cache", 3):
            try:
                sharers.add((index / "shared_cpu_list").read_text().strip())
            except OSError:
                continue
    return max(1, len(sharers))


def _data_caches(caches: Path, level: int) -> Iterator[Path]:
    """Where Linux describes the data caches of a level."""
    for index in sorted(caches.glob("index*")) if caches.is_dir() else ():
        try:
            kind = (index / "type").read_text().strip()
            found = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        if found == level and kind != "Instruction":
            yield index
