"""Hints on backends: what they become, and that results, errors and memory stay the same."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import cache, device
from tc.backends import registry
from tc.backends.clike import backend as clike
from tc.backends.clike.backend import CBackend
from tc.backends.numba import backend as numba
from tc.backends.numba.printer import print_kernel
from tc.dtypes import FLOAT32, INT64, DType
from tc.kernel.ir import Binary, Kernel, Load, Prefetch, Store
from tc.kernel.walk import has_prefetches
from tests.support.build import I, dense, integer, loop
from tests.support.guarded import at_edge
from tests.support.kernels import Array
from tests.support.lowering import compile_for
from tests.support.vectors import assembly, check, ramp, times

X86 = platform.machine().lower() in ("x86_64", "amd64")
ROOT = Path(__file__).parents[3]
BACKENDS = [name for name in ("numba", "c") if name in registry.usable_names()]

BAGS = "def bags(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"
ROWS = "def rows(float(E,D) T, int(B) I) -> (O) { O(i,j) = T(I(i),j) }"
PAIRS = "def pairs(float(E,F) T, int(B,L) I) -> (O) { O(i) +=! T(I(i,k), 2*I(i,k)+1) }"
SCALED = (
    "def scaled(float(E,D) T, uint8(B,L) I, float(B,L) W)"
    " -> (O) { O(i,j) +=! W(i,k) * T(I(i,k),j) }"
)
TEXTS = {"bags": BAGS, "rows": ROWS, "scaled": SCALED, "pairs": PAIRS}


def inputs_of(name: str, columns: int = 64) -> list[Array]:
    rng = np.random.default_rng(0)
    table = rng.random((99, 200 if name == "pairs" else columns), np.float32)
    count: tuple[int, ...] = (37,) if name == "rows" else (7, 23)
    indices = rng.integers(0, 99, count).astype(np.uint8 if name == "scaled" else np.int32)
    more = [rng.random(count, np.float32)] if name == "scaled" else []
    return [table, indices, *more]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, with a second cache that anything is too large for. What is printed for it
    must not be found later, for the real one."""
    small = replace(device.host(), l2=64)
    compile_for(small, monkeypatch)
    monkeypatch.setattr(cache, "_enabled", False)


def kernel_of(function: tc.Compiled, *inputs: Array) -> Kernel:
    trace = function.explain(*inputs).trace
    assert trace is not None
    return trace.lowering.kernel


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("columns", "backend"),
    [
        *((n, "numba") for n in (16, 61, 128, 300)),
        *((n, "c") for n in (61, 128) if "c" in BACKENDS),
    ],
)
@pytest.mark.parametrize("name", TEXTS)
def test_hints_change_no_result(
    name: str, columns: int, backend: str, request: pytest.FixtureRequest
) -> None:
    inputs = inputs_of(name, columns)
    usual = tc.compile(TEXTS[name], backend=backend)(*inputs)
    request.getfixturevalue("tiny")
    function = tc.compile(TEXTS[name], backend=backend)
    scalar = name == "rows" and columns == 300  # the last of some vectors would be empty: a loop
    assert has_prefetches(kernel_of(function, *inputs)) is not scalar
    np.testing.assert_array_equal(function(*inputs), usual)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [99, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("place", [(0, 0), (3, 11), (6, 22)])
@pytest.mark.usefixtures("tiny")
def test_errors_stay(backend: str, value: int, place: tuple[int, int]) -> None:
    """The first index out of bounds is told, be its row far from any memory."""
    table, indices = inputs_of("bags")
    indices[place] = value
    texts = []
    for name in (backend, "interpret"):
        with pytest.raises(tc.AccessError) as caught:
            tc.compile(BAGS, backend=name)(table, indices)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.usefixtures("tiny")
def test_explain_says_why() -> None:
    text = tc.compile(BAGS).explain(*inputs_of("bags")).stages["kernel"]
    assert "      prefetch T[int64(I[" in text
    assert "in tensors larger than 64 B" in " ".join(text.split())


def test_small_tables_have_no_hints() -> None:
    assert "prefetch" not in tc.compile(BAGS).explain(*inputs_of("bags")).stages["kernel"]


# --- memory -----------------------------------------------------------------------------------


def at_the_end(array: Array, *, before: bool) -> Array:
    copy = at_edge(array.shape, array.dtype, before=before)
    copy[...] = array
    return copy


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_beyond_arrays_is_read(backend: str) -> None:
    """In another process, as a touch ends it. One index is out of bounds: its row is nowhere."""
    code = f"from {__name__} import at_edges; at_edges({backend!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert done.stdout.split() == [*(f"{name}-{edge}" for name in TEXTS for edge in EDGES), "far"]


EDGES = ("behind", "before")


def at_edges(backend: str) -> None:
    small: Any = replace(device.host(), l2=64)
    for module in (clike, numba):
        vars(module)["host"] = lambda: small
    cache.disable()
    for name, text in TEXTS.items():
        inputs = inputs_of(name)
        function = tc.compile(text, backend=backend)
        assert has_prefetches(kernel_of(function, *inputs))
        expected = function(*inputs)
        for edge in EDGES:
            guarded = [at_the_end(array, before=edge == "before") for array in inputs]
            np.testing.assert_array_equal(function(*guarded), expected)
            print(f"{name}-{edge}", flush=True)
    function = tc.compile(BAGS, backend=backend)
    for edge in EDGES:
        table, indices = (at_the_end(a, before=edge == "before") for a in inputs_of("bags"))
        for value in (-(2**31), 2**31 - 1, 2**20):
            indices[3, 11] = value
            try:
                function(table, indices)
            except tc.AccessError:
                continue
            raise AssertionError(value)
    print("far", flush=True)


# --- what is printed --------------------------------------------------------------------------


def hinting(place: Any, *, dtype: DType = FLOAT32, lanes: int = 5) -> Kernel:
    """o[i, :] = x[i, :], with a hint at places of rows that n names."""
    copied = Load("x", (I, ramp(integer(0), 16)), dtype.vector(16))
    hint = Prefetch("x", (place, ramp(integer(-32), lanes, 16)))
    buffers = (
        dense("x", dtype, (4, 16), "input"),
        dense("n", INT64, (4,), "input"),
        dense("o", dtype, (4, 16), "output"),
    )
    body = (hint, Store("o", (I, ramp(integer(0), 16)), copied))
    return Kernel("k", buffers, ((loop("i", 4, *body, parallel=True),),))


NUMBER = Load("n", (I,), INT64)


@pytest.mark.parametrize("value", [0, 3, -1, 2**62, 2**63 - 1, -(2**63), 1234567890123])
def test_any_index(value: int) -> None:
    """Addresses wrap around."""
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((4, 16), np.float32), "n": np.full(4, value)}
    for place in (NUMBER, times(NUMBER, 2**60), Binary("-", integer(-5), NUMBER, INT64)):
        check(hinting(place), arrays)


def test_numba() -> None:
    kernel = hinting(NUMBER)
    assert "m.prefetch(x, n[i] * 16 - 32, range(0, 80, 16))" in print_kernel(kernel)
    assert print_kernel(hinting(NUMBER, lanes=1)).count("m.prefetch(x, n[i] * 16 - 32, (0,))") == 1
    if X86:
        found = [line for line in assembly(kernel) if line.startswith("prefetch")]
        assert len(found) >= 5
        assert all(line.startswith("prefetcht0") for line in found)


def test_regions_without_vectors_have_them_too() -> None:
    hint = Prefetch("x", (NUMBER, integer(0)))
    kernel = hinting(NUMBER)
    alone = replace(kernel, regions=((loop("i", 4, hint), loop("j", 4, hint)),))
    assert print_kernel(alone).count("m.prefetch(x, n[") == 2


def test_c() -> None:
    text = CBackend().emit(hinting(NUMBER)).source
    offset = f"(uint64_t)n[i] * 64 + UINT64_C({2**64 - 128})"
    assert f"uintptr_t tc_first = (uintptr_t)x + (uintptr_t)({offset});" in text
    calls = [line.strip() for line in text.splitlines() if line.strip().startswith("tc_prefetch(")]
    distances = ["", " + 64", " + 128", " + 192", " + 256"]
    assert calls == [f"tc_prefetch(tc_first{distance});" for distance in distances]
