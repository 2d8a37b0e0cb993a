"""Stores past the caches on numba: what they become, and that results stay the same."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc import device
from tc.backends.numba.printer import print_kernel
from tc.dtypes import BOOL, FLOAT32, FLOAT64, UINT8, DType
from tc.kernel.ir import Kernel, Load, Store
from tc.kernel.walk import has_non_temporal_stores
from tests.support.build import I, dense, loop
from tests.support.guarded import at_edge
from tests.support.kernels import Array, address
from tests.support.lowering import compile_for
from tests.support.programs import CASES, normal
from tests.support.vectors import assembly, check, compile_kernel, plus, ramp, run, times

X86 = platform.machine().lower() in ("x86_64", "amd64")
COUNT = 40  # vectors
LEAVING = ("vzeroupper", "pop", "leaq", "movq\t%rbp", ".cfi")
"""How instructions begin that may stand between the last of a function's work and its return."""


def copying(
    dtype: DType, lanes: int, *, start: int = 0, non_temporal: bool = True, parallel: bool = False
) -> Kernel:
    """o[start:start + 40 * lanes] = a[0:40 * lanes], as vectors; `start` more elements first."""
    size, vector = COUNT * lanes, dtype.vector(lanes)
    load = Load("a", (ramp(times(I, lanes), lanes),), vector)
    store = Store(
        "o", (ramp(plus(times(I, lanes), start), lanes),), load, non_temporal=non_temporal
    )
    buffers = (dense("a", dtype, (size,), "input"), dense("o", dtype, (start + size,), "output"))
    initial = frozenset("o") if start else frozenset()
    body = loop("i", COUNT, store, parallel=parallel)
    return Kernel("k", buffers, ((body,),), initial=initial)


def numbers(dtype: DType, size: int) -> Array:
    return (np.arange(size) % 101 > 40 if dtype == BOOL else np.arange(size) % 101).astype(
        dtype.numpy
    )


KINDS = [(FLOAT32, 16), (FLOAT32, 8), (FLOAT64, 8), (FLOAT64, 16), (UINT8, 64), (BOOL, 32)]


@pytest.mark.parametrize(("dtype", "lanes"), KINDS, ids=str)
@pytest.mark.parametrize("beyond", [0, 1, 4])
def test_any_alignment_of_the_output(dtype: DType, lanes: int, beyond: int) -> None:
    """At the edges of memory, which aligned stores do not touch either."""
    kernel = copying(dtype, lanes, parallel=True)
    a = numbers(dtype, COUNT * lanes)
    for before in (False, True):
        memory = at_edge((a.size + 64,), a.dtype, before=before, alignment=64)
        assert address(memory) % 64 == 0
        memory[...] = 0
        o = memory[beyond : beyond + a.size]
        assert run(compile_kernel(kernel), {"a": a, "o": o}, threads=2) is None
        np.testing.assert_array_equal(o, a)
        assert not memory[:beyond].any()
        assert not memory[beyond + a.size :].any()


@pytest.mark.parametrize("before", [False, True])
def test_outputs_at_the_edge_of_memory(before: bool) -> None:
    kernel, a = copying(FLOAT32, 16), numbers(FLOAT32, COUNT * 16)
    o = at_edge(a.shape, a.dtype, before=before, alignment=64)
    assert run(compile_kernel(kernel), {"a": a, "o": o}) is None
    np.testing.assert_array_equal(o, a)


def test_offsets_that_are_no_multiple_are_stored_as_usual() -> None:
    """The hint promises nothing about where a vector lies."""
    for start in (0, 16, 1, 8):
        kernel = copying(FLOAT32, 16, start=start)
        assert ("m.stream(" in print_kernel(kernel)) is (start % 16 == 0)
        o = np.zeros(start + COUNT * 16 + 16, np.float32)
        o = o[-address(o) % 64 // 4 :][: start + COUNT * 16]
        a = numbers(FLOAT32, COUNT * 16)
        assert run(compile_kernel(kernel), {"a": a, "o": o}) is None
        np.testing.assert_array_equal(o[start:], a)


def test_definition_ignores_the_hint() -> None:
    a = numbers(FLOAT32, COUNT * 16)
    found = check(copying(FLOAT32, 16), {"a": a})
    np.testing.assert_array_equal(found["o"], a)


@pytest.mark.skipif(not X86, reason="the instructions are those of x86")
@pytest.mark.parametrize(("dtype", "lanes"), KINDS, ids=str)
def test_whole_vectors_past_the_caches_and_a_fence(dtype: DType, lanes: int) -> None:
    if device.vector_bits() < 256:
        pytest.skip("needs vectors of 256 bits")
    lines = assembly(copying(dtype, lanes))
    past = [line for line in lines if line.startswith(("movnt", "vmovnt"))]
    assert past
    # one by one, they would be written from scalar registers
    assert all("ymm" in line or "zmm" in line for line in past)
    returns = [n for n, line in enumerate(lines) if line.startswith("ret")]
    assert returns
    for place in returns:
        before = (line for line in reversed(lines[:place]) if not line.startswith(LEAVING))
        assert next(before) == "sfence"
    usual = assembly(copying(dtype, lanes, non_temporal=False))
    assert not any("movnt" in line or line == "sfence" for line in usual)


# --- whole programs ---------------------------------------------------------------------------

TWICE = "def twice(float(N,M) I) -> (O) { O(n,m) = 2 * I(n,m) }"
TURNED = "def turned(float(A,B,C,D) I) -> (O) { O(a,c,b,d) = I(a,b,c,d) }"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, with a last cache that anything is too large for."""
    small = replace(device.host(), vector_bits=512, vector_registers=32, l3=64, l3_caches=1)
    compile_for(small, monkeypatch)


def kernel_of(function: tc.Compiled, *inputs: Array) -> Kernel:
    trace = function.explain(*inputs).trace
    assert trace is not None
    return trace.lowering.kernel


@pytest.mark.skipif(device.vector_bits() < 128, reason="needs vectors")
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("beyond", [0, 1, 4])
def test_programs_stream(beyond: int) -> None:
    for text, shape in (TWICE, (24, 64)), (TURNED, (3, 5, 4, 32)):
        function = tc.compile(text)
        inputs = np.random.default_rng(0).random(shape, np.float32)
        expected = 2 * inputs if text is TWICE else inputs.transpose(0, 2, 1, 3)
        assert has_non_temporal_stores(kernel_of(function, inputs))
        memory = np.zeros(inputs.size + 32, np.float32)
        begin = -address(memory) % 64 // 4 + beyond
        o = memory[begin : begin + inputs.size].reshape(expected.shape)
        np.testing.assert_array_equal(function(inputs, outputs=o), expected)
        np.testing.assert_array_equal(function(inputs), expected)
        assert np.count_nonzero(memory) == np.count_nonzero(expected)


WHOLE_LINES: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "mm": normal(A=(37, 32), B=(32, 64)),
    "tmm": normal(A=(37, 32), B=(64, 32)),
    "layernorm": lambda rng: {**normal(I=(5, 256), gamma=(256,), beta=(256,))(rng), "eps": 1e-5},
    "maxpool2x2": normal(**{"in": (2, 3, 14, 96)}),
    "conv2d": normal(**{"in": (2, 5, 12, 34), "weight": (19, 5, 3, 3)}),
    "conv1d": normal(I=(211,), K=(4,)),
}


@pytest.mark.drawn(3)
@pytest.mark.skipif(device.vector_bits() < 128, reason="needs vectors")
@pytest.mark.parametrize("name", WHOLE_LINES)
def test_streaming_changes_no_result(name: str, request: pytest.FixtureRequest) -> None:
    case = next(case for case in CASES if case.name == name)
    inputs = WHOLE_LINES[name](np.random.default_rng(0))
    usual = tc.compile(case.text, entry=case.def_name)(**inputs)
    request.getfixturevalue("tiny")
    function = tc.compile(case.text, entry=case.def_name)
    trace = function.explain(**inputs).trace
    assert trace is not None
    assert has_non_temporal_stores(trace.lowering.kernel)
    memory = np.full(usual.size + 16, np.nan, np.float32)
    begin = -address(memory) % 64 // 4
    o = memory[begin : begin + usual.size].reshape(usual.shape)
    function(**inputs, outputs=o)
    # small caches change more than the stores: sums may be made in another order
    bound = tc.error_bound(case.text, inputs, entry=case.def_name)
    assert (np.abs(o.astype(np.float64) - usual) <= 2 * bound).all()


@pytest.mark.usefixtures("tiny")
def test_explain_says_why() -> None:
    inputs = np.zeros((24, 64), np.float32)
    text = tc.compile(TWICE).explain(inputs).stages["kernel"]
    assert "stream O[" in text
    assert "go past the caches: 64 B are too few" in " ".join(text.split())


def test_small_programs_do_not_stream() -> None:
    inputs = np.zeros((24, 64), np.float32)
    assert not has_non_temporal_stores(kernel_of(tc.compile(TWICE), inputs))
    assert "stream" not in tc.compile(TWICE).explain(inputs).stages["kernel"]
