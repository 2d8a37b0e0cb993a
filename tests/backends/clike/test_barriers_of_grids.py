"""Where all blocks of a launch wait for each other: as CUDA C++, and what others say of it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tc.backends.clike.backend import COMPILERS
from tc.backends.clike.c import C99
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.opencl_dialect import OPENCL
from tc.backends.clike.printer import functions_of, launches_of, print_kernel
from tc.backends.cuda import CudaBackend
from tc.backends.geometry import LaunchGeometry
from tc.errors import BackendError
from tc.gpu import Gpu
from tests.support.grid_cases import failing_at_once, largest_of_all

EXPECTED = Path(__file__).parents[2] / "expected" / "launches"


def test_text(golden: Callable[[Path, str], None]) -> None:
    golden(EXPECTED / "largest_of_all.cu", print_kernel(largest_of_all(), CUDA))


def test_launches() -> None:
    (launch,) = launches_of(largest_of_all(), CUDA)
    assert launch == LaunchGeometry("k_0", (6, 1, 1), (8, 1, 1), 32, cooperative=True)
    assert str(launch) == (
        "k_0: 6 x 1 x 1 blocks of 8 x 1 x 1 threads (x, y, z), 32 bytes of shared memory, "
        "all at once"
    )


@pytest.mark.parametrize(("processors", "bounds"), [(1, "8, 6"), (4, "8, 2"), (6, "8")])
def test_registers_leave_room_for_all_blocks(processors: int, bounds: str) -> None:
    """Six blocks of eight threads; only where they wait for each other."""
    gpu = Gpu(processors=processors)
    assert (
        f"__launch_bounds__({bounds}) k_0(" in CudaBackend().emit(largest_of_all(), gpu=gpu).source
    )
    source = CudaBackend().emit(failing_at_once(), gpu=gpu).source
    assert re.findall(r"__launch_bounds__\(\d+\) k_1\(", source)


def test_arguments() -> None:
    """The word that counts who waits comes last, behind the record of failures, and only where a
    function takes it."""
    kernel = failing_at_once()
    assert [launch.cooperative for launch in launches_of(kernel, CUDA)] == [True, False]
    assert [function.waits for function in functions_of(kernel, CUDA)] == [True, False]
    heads = re.findall(r"(k_\d)\(([^)]*)\)\s*{", print_kernel(kernel, CUDA))
    taken = {name: [part.split()[-1] for part in given.split(",")] for name, given in heads}
    assert taken == {"k_0": ["a", "p", "o", "status", "tc_arrivals"], "k_1": ["o", "q"]}


def test_opencl_has_none() -> None:
    with pytest.raises(BackendError) as caught:
        print_kernel(largest_of_all(), OPENCL)
    assert str(caught.value) == (
        "BackendError: OpenCL C has no barrier where all blocks of a launch wait for each other\n"
        'repair: GpuOptions(single_kernel=False), or backend="cuda"'
    )


def test_processors_have_none() -> None:
    with pytest.raises(BackendError) as caught:
        print_kernel(largest_of_all(), C99)
    assert caught.value.cause == "blocks and threads of a GPU are not printed in C"


# --- the function that waits, by threads of a processor, each of which is a block -----------------

SHIM = """
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#define __device__
typedef struct { unsigned int x, y, z; } uint3;
static const uint3 gridDim = { 3, 2, 2 }, threadIdx = { 0, 0, 0 };
static __thread uint3 blockIdx;
static void __syncthreads(void) { sched_yield(); }
static void __threadfence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static unsigned int atomicAdd(unsigned int* word, unsigned int more)
{
    return __atomic_fetch_add(word, more, __ATOMIC_RELAXED);
}
"""

BLOCKS, ROUNDS = 12, 50
RUNS = f"""
static unsigned int word, late;
static int rounds[{BLOCKS}];
static void* block(void* given)
{{
    const int number = (int)(long)given;
    blockIdx = (uint3){{ number % 3, number / 3 % 2, number / 6 }};
    for (int round = 1; round <= {ROUNDS}; round++) {{
        __atomic_store_n(&rounds[number], round, __ATOMIC_RELAXED);
        tc_wait_for_grid(&word);
        for (int other = 0; other < {BLOCKS}; other++)
            if (__atomic_load_n(&rounds[other], __ATOMIC_RELAXED) != round)
                __atomic_fetch_add(&late, 1, __ATOMIC_RELAXED);
        tc_wait_for_grid(&word);
    }}
    return NULL;
}}
void run(unsigned int* found)
{{
    pthread_t threads[{BLOCKS}];
    for (long n = 0; n < {BLOCKS}; n++)
        pthread_create(&threads[n], NULL, block, (void*)n);
    for (int n = 0; n < {BLOCKS}; n++)
        pthread_join(threads[n], NULL);
    found[0] = word;
    found[1] = late;
}}
"""


def waiting_function() -> str:
    text = print_kernel(largest_of_all(), CUDA)
    return text[text.index("static __device__ void tc_wait_for_grid") : text.index('extern "C"')]


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no C compiler")
def test_all_blocks_wait(tmp_path: Path) -> None:
    """For all that come, an even number of times, so that the word is as at first."""
    source, library = tmp_path / "barrier.c", tmp_path / "barrier.so"
    source.write_text(SHIM + waiting_function() + RUNS)
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    flags = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread")
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    found = np.full(2, 7, np.uint32)
    ctypes.CDLL(str(library)).run(ctypes.c_void_p(found.ctypes.data))
    assert found.tolist() == [0, 0]
