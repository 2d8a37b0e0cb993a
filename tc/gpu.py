"""A GPU as code generation sees it, as data: what a block and a grid may have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU. `threads`: the most of a block; `thread_limits` and `grid_limits`: the most along x,
    y and z, of the threads of a block and of the blocks of a grid. `shared`: bytes of shared memory
    that a block may have; `registers`: 32-bit registers of a multiprocessor, of which there are
    `processors`; `thread_registers`: the most that one thread may have. `warp`: threads that run
    in step. `gbytes`: memory bandwidth in 1e9 bytes per second. `arch`: what NVRTC calls it."""

    arch: str = "sm_80"
    processors: int = 108
    threads: int = 1024
    thread_limits: tuple[int, int, int] = (1024, 1024, 64)
    grid_limits: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    warp: int = 32
    shared: int = 48 << 10
    registers: int = 65536
    thread_registers: int = 255
    gbytes: float = 1555.0
