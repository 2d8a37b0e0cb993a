"""The peers by name: where each is defined and what its process needs in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bench.peers.peer import Peer


@dataclass(frozen=True)
class Entry:
    """A peer's module and class, the packages it needs, and settings of its process."""

    module: str
    name: str
    packages: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    threaded: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def make(self, threads: int) -> Peer:
        """Imports the library: only in the peer's own process."""
        kind = getattr(import_module(f"bench.peers.{self.module}"), self.name)
        arguments = {**self.arguments, **({"threads": threads} if self.threaded else {})}
        peer: Peer = kind(**arguments)
        return peer


SUBJECT = "tc"
"""What the others are compared with."""

PEERS: Mapping[str, Entry] = {
    "numpy": Entry("numpy_peer", "NumpyPeer", ("numpy",), threaded=False),
    "torch": Entry("torch_peer", "TorchPeer", ("torch",), {"compiled": False}),
    "compile": Entry(
        "torch_peer",
        "TorchPeer",
        ("torch",),
        {"compiled": True},
        environment={"TORCHINDUCTOR_COMPILE_THREADS": "1"},
    ),
    "jax": Entry(
        "jax_peer",
        "JaxPeer",
        ("jax", "jaxlib"),
        threaded=False,
        environment={"JAX_PLATFORMS": "cpu"},
    ),
    "halide": Entry("halide_peer", "HalidePeer", ("halide",), {"tuned": False}),
    "halide-tuned": Entry("halide_peer", "HalidePeer", ("halide",), {"tuned": True}),
    "numba": Entry(
        "numba_peer", "NumbaPeer", ("numba",), environment={"NUMBA_THREADING_LAYER": "omp"}
    ),
    SUBJECT: Entry("tc_peer", "TcPeer", ("numba", "islpy"), {"backend": "numba"}, threaded=False),
    "tc-c": Entry("tc_peer", "TcPeer", ("islpy",), {"backend": "c"}, threaded=False),
}

DEFAULT = tuple(name for name in PEERS if name not in ("halide-tuned", "tc-c"))

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "HL_NUM_THREADS",
)
PLACES = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
"""OpenMP's threads spin while they wait: two on one core take a time slice per barrier."""

ALLOCATION = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Big blocks are kept and reused: else each new output costs its page faults."""


def environment(name: str, threads: int) -> dict[str, str]:
    """Of a worker's process.

    >>> environment("jax", 2)["OMP_NUM_THREADS"]
    '2'
    """
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        **PLACES,
        **ALLOCATION,
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={threads}",
        **PEERS[name].environment,
    }
