"""Vectors in C: kernels drawn at random, and accesses at the edges of memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tc.backends.clike import backend as c_backend
from tc.backends.clike.backend import CBackend
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, UINT8, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Broadcast, Cast, Compare, Expr, Kernel, Load, Logical, Store
from tests.support.build import I, dense, integer, loop
from tests.support.guarded import guarded
from tests.support.kernels import address, load
from tests.support.lanewise import check, first, ramp, splat
from tests.support.vector_strategies import Generated, vector_kernels

BACKEND = CBackend()
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(BACKEND.usable() is not None, reason=str(BACKEND.usable()))
QUIET = list(HealthCheck)


@settings(max_examples=25, suppress_health_check=QUIET)
@given(vector_kernels())
def test_random_kernels(generated: Generated) -> None:
    check(BACKEND, generated.kernel, generated.arrays)


@pytest.mark.slow
@settings(max_examples=2000, suppress_health_check=QUIET)
@given(vector_kernels())
def test_many_random_kernels(generated: Generated) -> None:
    check(BACKEND, generated.kernel, generated.arrays)


# --- guard pages ------------------------------------------------------------------------------

EDGE_TYPES = (BOOL, UINT8, FLOAT16, FLOAT32, FLOAT64)
EDGE_LANES = (4, 16)
CHILD = "from tests.backends.clike.test_vectors_random import run_at_edges; run_at_edges({native})"


@pytest.mark.parametrize("native", [True, False], ids=["native", "any machine"])
def test_nothing_is_touched_beyond_the_edges(native: bool) -> None:
    """In a process of its own, which a touch would end."""
    command = [sys.executable, "-c", CHILD.format(native=native)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def run_at_edges(native: bool) -> None:
    if not native:
        c_backend.NATIVE = "-O3"
    for dtype, lanes in itertools.product(EDGE_TYPES, EDGE_LANES if native else EDGE_LANES[:1]):
        kernel = edge_kernel(dtype, lanes)
        compiled = load(BACKEND, kernel)
        for before in (False, True):
            print(f"{dtype} x {lanes}, {'before' if before else 'behind'}", flush=True)
            run_guarded(kernel, compiled, before=before)


def run_guarded(kernel: Kernel, compiled: c_backend.CKernel, *, before: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = {b.name: rng.integers(0, 2, b.shape).astype(b.dtype.numpy) for b in kernel.arguments}
    size = arrays["p"].size
    arrays["p"] = np.append(np.arange(size - 1, 0, -2), np.arange(0, size, 2))[:size]
    expected = {name: array.copy() for name, array in arrays.items()}
    assert evaluate(kernel, expected) is None
    with ExitStack() as stack:
        found = {n: stack.enter_context(guarded(a, before=before)) for n, a in arrays.items()}
        assert compiled.run([address(found[b.name]) for b in kernel.arguments]) is None
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
        found.clear()


def edge_kernel(dtype: DType, lanes: int) -> Kernel:
    """Vectors that begin and end with a buffer, and masks that leave out what is outside."""
    size = 3 * lanes - 2
    vector, bools = INT64.vector(lanes), BOOL.vector(lanes)
    at = Load("p", (ramp(0, 1, lanes),), vector)
    row = Binary("*", I, integer(lanes), INT64)
    whole: list[tuple[Expr, Expr | None]] = [
        *((ramp(base, 1, lanes), None) for base in (0, size - lanes)),
        *((ramp(base, -1, lanes), None) for base in (lanes - 1, size - 1)),
        *((ramp(base, 2, lanes), None) for base in (0, size - 2 * lanes + 1)),
        *((ramp(base, -2, lanes), None) for base in (2 * lanes - 2, size - 1)),
        (ramp(0, 3, lanes), None),
        (ramp(size - 1, -3, lanes), None),
        (at, None),
    ]
    masked = [
        (ramp(row, 1, lanes), first(Binary("-", integer(size), row, INT64), lanes)),
        (ramp(-3, 1, lanes), Logical("!", (first(3, lanes),), bools)),
        (ramp(size - 1, 1, lanes), first(1, lanes)),
        (ramp(size - 1, lanes, lanes), first(1, lanes)),
        (ramp(2, -1, lanes), first(3, lanes)),
        *((ramp(size - 1 - step, step, lanes), first(2, lanes)) for step in (2, 3, 4)),
        *((ramp(step, -step, lanes), first(2, lanes)) for step in (2, 3, 4)),
        (ramp(10**9, 1, lanes), splat(False, BOOL, lanes)),
        (
            Binary("-", at, splat(size - lanes, INT64, lanes), vector),
            Compare(">=", at, splat(size - lanes, INT64, lanes), bools),
        ),
    ]
    alike = [(Broadcast(integer(end), vector), None) for end in (0, size - 1)]
    loads = [*whole, *masked, *alike]
    stores = [
        Store("o", (ramp(lanes * number, 1, lanes),), loaded(dtype, place, mask))
        for number, (place, mask) in enumerate(loads)
    ]
    value = loaded(dtype, ramp(0, 1, lanes))
    stores += [Store("b", (place,), value, mask) for place, mask in whole + masked]
    buffers = (
        dense("a", dtype, (size,), "input"),
        dense("p", INT64, (size,), "input"),
        dense("o", dtype, (len(loads) * lanes,), "output"),
        dense("b", dtype, (size,), "output"),
    )
    return Kernel("k", buffers, ((loop("i", 3, *stores),),), initial=frozenset(("b",)))


def loaded(dtype: DType, place: Expr, mask: Expr | None = None) -> Expr:
    load = Load("a", (place,), dtype.vector(place.dtype.lanes), mask)
    if dtype != FLOAT16:
        return load
    return Cast(Cast(load, FLOAT32.vector(place.dtype.lanes)), load.dtype)
