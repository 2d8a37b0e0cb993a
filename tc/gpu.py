"""A GPU as code generation sees it, as data: what a block and a grid may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tc.errors import BackendError
from tc.wording import closest

MULTIPLYING_THREADS = 32
"""The threads of a warp for which tensor cores multiply matrices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU. `threads`: the most threads of a block; `thread_limits` and `grid_limits`: the most
    threads of a block, and blocks of a grid, along x, y and z. `shared`: bytes of shared memory
    that a block may have; `registers`: 32-bit registers of a multiprocessor; `processors`: the
    number of multiprocessors; `thread_registers`: the most registers of one thread.
    `processor_threads`, `processor_blocks`, `processor_shared`: the most threads and blocks that a
    multiprocessor runs at a time, and the bytes of shared memory of all these blocks together.
    `cooperative`: blocks of a launch may wait for each other. `tensor_cores`: the threads of a warp
    multiply matrices of halves, or of floats rounded to tf32, together (mma.sync of PTX, m16n8k16
    and m16n8k8). `wide_atomics`: threads update integers of 64 bits in one step, and not only those
    of 32 bits. `warp`: the number of threads that run in step. `arch`: the name of the
    architecture for NVRTC.

    `gflops` (float32, all multiprocessors) and `gbytes` (per second, from memory) are for estimates
    only, and decide nothing, so GPUs that differ only in these are equal; 0 where a speed is not
    known.

    >>> import tc
    >>> tc.Gpu(threads=256, shared=16 << 10).shared
    16384
    """

    arch: str = "sm_80"
    processors: int = 108
    threads: int = 1024
    thread_limits: tuple[int, int, int] = (1024, 1024, 64)
    grid_limits: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    warp: int = 32
    shared: int = 48 << 10
    registers: int = 65536
    thread_registers: int = 255
    processor_threads: int = 1024
    processor_blocks: int = 16
    processor_shared: int = 64 << 10
    cooperative: bool = True
    tensor_cores: bool = True
    wide_atomics: bool = True
    gflops: float = field(default=0.0, repr=False, compare=False)
    gbytes: float = field(default=0.0, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), list):
                object.__setattr__(self, each.name, value := tuple(value))
            kind, is_allowed = _KINDS[str(each.type)]
            if not is_allowed(value):
                raise BackendError(
                    f"Gpu({each.name}={value!r}): it is {kind}",
                    repair=f"Gpu({each.name}={each.default!r})",
                )

    @classmethod
    def named(cls, name: object) -> Gpu:
        """The GPU of NVIDIA's data sheet for an architecture: "sm_80" is the A100 with 40 GB,
        "sm_90" the H100 SXM. BackendError for an architecture that tc knows nothing of.

        >>> import tc
        >>> tc.Gpu.named("sm_90").processors
        132
        """
        if not isinstance(name, str) or name not in DATA_SHEETS:
            raise BackendError(
                f"no data sheet of a GPU {name!r}; there are {', '.join(map(repr, DATA_SHEETS))}",
                repair=f"Gpu.named({_nearest(name)!r})",
            )
        return DATA_SHEETS[name]

    @property
    def multiplies_matrices(self) -> bool:
        """Whether warps have tensor cores: those of MULTIPLYING_THREADS threads do."""
        return self.tensor_cores and self.warp == MULTIPLYING_THREADS

    def blocks_at_once(self, threads: int, shared: int, registers: int | None = None) -> int:
        """The number of blocks that certainly run at a time, where each block has `threads` threads
        and `shared` bytes of shared memory, and each thread `registers` registers, by default the
        most that a thread may have.

        >>> import tc
        >>> tc.Gpu.named("sm_80").blocks_at_once(threads=64, shared=0) // 108
        4
        >>> tc.Gpu.named("sm_80").blocks_at_once(threads=64, shared=80 << 10) // 108
        2
        >>> tc.Gpu.named("sm_80").blocks_at_once(threads=64, shared=0, registers=64) // 108
        16
        """
        warps = -(-threads // self.warp)
        each = self.thread_registers if registers is None else registers
        of_a_warp = -(-each // _EACH_OF_A_WARP) * _EACH_OF_A_WARP * self.warp
        held = self.registers // _PARTS // of_a_warp * _PARTS
        most = min(
            self.processor_threads // (warps * self.warp),
            self.processor_blocks,
            held // warps,
            self.processor_shared // (bytes_in_shared(shared) + _SYSTEM_SHARED_BYTES),
        )
        return self.processors * max(1, most)


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _are_counts(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(map(_is_count, value))


def _is_speed(value: object) -> bool:
    return type(value) in (int, float) and value >= 0  # type: ignore[operator]


_KINDS: Mapping[str, tuple[str, Any]] = {
    "str": ("a name", lambda value: isinstance(value, str)),
    "int": ("an integer of at least 1", _is_count),
    "tuple[int, int, int]": ("three integers of at least 1, along x, y and z", _are_counts),
    "bool": ("True or False", lambda value: type(value) is bool),
    "float": ("a number of at least 0", _is_speed),
}
"""What the fields can hold, by their types."""


def _nearest(name: object) -> str:
    """The data sheet of the last architecture before this, or of the name most like this."""
    if found := re.fullmatch(r"(?:sm|compute)_?(\d{2,3})[a-z]?", str(name), re.IGNORECASE):
        older = [known for known in DATA_SHEETS if int(known[3:]) <= int(found[1])]
        return older[-1] if older else next(iter(DATA_SHEETS))
    return closest(str(name), DATA_SHEETS, cutoff=0) or next(iter(DATA_SHEETS))


DATA_SHEETS: Mapping[str, Gpu] = {
    "sm_80": Gpu(
        arch="sm_80",
        processors=108,
        shared=163 << 10,
        processor_threads=2048,
        processor_blocks=32,
        processor_shared=164 << 10,
        gflops=19_500.0,
        gbytes=1555.0,
    ),
    "sm_90": Gpu(
        arch="sm_90",
        processors=132,
        shared=227 << 10,
        processor_threads=2048,
        processor_blocks=32,
        processor_shared=228 << 10,
        gflops=66_900.0,
        gbytes=3350.0,
    ),
}
"""What differs from the defaults, which have the shared memory that every GPU of NVIDIA gives to a
block, and what each of its multiprocessors can run at a time since sm_75 ("Technical Specifications
per Compute Capability" in the CUDA C++ Programming Guide)."""

_SYSTEM_SHARED_BYTES = 1 << 10
"""Bytes of shared memory that CUDA keeps for itself in each block, since sm_80."""

_EACH_OF_A_WARP, _PARTS = 8, 4
"""How many registers of each thread of a warp come together, and in how many equal parts the
registers of a multiprocessor lie, of which a warp has one."""

REGISTERS_BESIDE = 64
"""Registers that a thread is given beside those in which it holds tiles and sums: without spills,
the programs of the table need up to 62 (NVRTC 13, sm_90)."""

SHARED_ALIGNMENT_BYTES = 16
"""Bytes to which arrays in shared memory are aligned: the widest load of a thread."""


def bytes_in_shared(size: int) -> int:
    """The bytes of shared memory that an array of `size` bytes takes with the gap behind it, so
    that the next array is aligned.

    >>> bytes_in_shared(20)
    32
    """
    return -(-size // SHARED_ALIGNMENT_BYTES) * SHARED_ALIGNMENT_BYTES
