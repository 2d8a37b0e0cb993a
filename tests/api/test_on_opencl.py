"""Calls of functions that are compiled for OpenCL: arrays as they come, checks, threads."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.geometry import LaunchText
from tc.backends.opencl_device import opencl_device
from tc.kernel.ir import Kernel
from tc.kernel.pass_manager import PassContext, PassResult
from tc.polyhedral import lowering
from tests.support.bounds import assert_within
from tests.support.opencl import on_pocl
from tests.support.threads import run_at_once

MM = "def mm(float(N,K) A, float(K,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def f(float(N) a, int32(M) p) -> (o) { o(i) = a(p(i)) }"
DIVIDED = "def f(int32(N) a, int32(N) b) -> (o) { o(i) = a(i) / b(i) }"


def whole(seed: int, *shape: int) -> Any:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda a: a[::-1, ::-1],
    "transposed": lambda a: np.array(a.T, order="C").T,
    "every other": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
    "not aligned": lambda a: (
        np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape)
    ),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("layout", LAYOUTS)
@on_pocl
def test_layouts(layout: str) -> None:
    a, b = LAYOUTS[layout](whole(0, 33, 20)), LAYOUTS[layout](whole(1, 20, 17))
    np.testing.assert_array_equal(tc.compile(MM, backend="opencl")(a, b), a @ b)


@on_pocl
def test_turns_of_blocks() -> None:
    """Block 1 has nothing to do in its last turn, in which all wait at barriers (PoCL 3 loses
    threads at barriers in a branch of a loop)."""
    text = """def mlp(float(B,K) x, float(N,K) w, float(N) b, float(P,N) v) -> (h, o) {
      h(i,j) = b(j)
      h(i,j) += x(i,k) * w(j,k)
      h(i,j) = max(h(i,j), 0)
      o(i,p) +=! h(i,j) * v(p,j)
    }"""
    options = tc.Options(gpu=tc.GpuOptions(blocks=(2, 2)))
    x, w, b, v = whole(0, 19, 23), whole(1, 41, 23), whole(2, 41), whole(3, 5, 41)
    h, o = tc.compile(text, backend="opencl", options=options)(x, w, b, v)
    np.testing.assert_array_equal(h, np.maximum(x @ w.T + b, 0))
    np.testing.assert_array_equal(o, h @ v.T)


@on_pocl
def test_turns_of_a_loop_with_barriers() -> None:
    """Block 2 has one of four rows, and as many turns as others (PoCL 3 loses what one thread does
    between barriers of a loop that may have no turn)."""
    text = """def attend(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
      s(b,t,u) +=! Q(b,t,d) * K(b,u,d) / sqrt(D)
      m(b,t) max=! s(b,t,u)
      p(b,t,u) = exp(s(b,t,u) - m(b,t))
      z(b,t) +=! p(b,t,u)
      O(b,t,e) +=! p(b,t,u) * V(b,u,e) / z(b,t)
    }"""
    gpu = tc.GpuOptions(tile=(4,), threads=(5,), shared=False, single_kernel=True)
    q, k, v = whole(0, 9, 1, 4), whole(1, 9, 3, 4), whole(2, 9, 3, 1)
    found = tc.compile(text, backend="opencl", options=tc.Options(gpu=gpu))(q, k, v)
    scores = np.exp(np.einsum("btd,bud->btu", q, k, dtype=np.float64) / 2)
    expected = scores / scores.sum(axis=-1, keepdims=True) @ v
    bound = tc.error_bound(text, {"Q": q, "K": k, "V": v})
    assert_within(found, expected.astype(np.float32), bound)


@on_pocl
def test_one_array_for_two_inputs() -> None:
    a = whole(0, 24, 24)
    mm = tc.compile(MM, backend="opencl")
    np.testing.assert_array_equal(mm(a, a), a @ a)
    np.testing.assert_array_equal(mm(a[1:, :-1], a[:-1, 1:]), a[1:, :-1] @ a[:-1, 1:])


@on_pocl
def test_outputs_of_the_caller() -> None:
    text = "def f(float(N) a) -> (o) { o(i) += a(i) where i in 2:N }"
    a, o = whole(0, 9), whole(1, 9)
    expected = o + np.where(np.arange(9) >= 2, a, 0)
    assert tc.compile(text, backend="opencl")(a, outputs=o) is o
    np.testing.assert_array_equal(o, expected)


@on_pocl
def test_no_elements() -> None:
    mm = tc.compile(MM, backend="opencl")
    assert mm(whole(0, 0, 3), whole(0, 3, 4)).shape == (0, 4)
    np.testing.assert_array_equal(mm(whole(0, 2, 0), whole(0, 0, 4)), np.zeros((2, 4)))


@on_pocl
def test_offsets_past_2_to_31() -> None:
    """Of two gigabytes, of which but three pages are ever touched."""
    if opencl_device().device.max_mem_alloc_size <= 2**31:
        pytest.skip("the OpenCL device takes no arrays of more than two gigabytes")
    a = np.zeros(2**31 + 1, np.int8)
    a[:: 2**30] = 3, 5, 7
    more = tc.compile("def more(int8(N) a) -> (o) { o(i) = a(i) + 1 }", backend="opencl")
    assert more(a[:: 2**30]).tolist() == [4, 6, 8]
    assert more(a[:: -(2**30)]).tolist() == [8, 6, 4]


@on_pocl
def test_same_call_same_bits() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64)).astype(np.float32) for _ in "ab")
    mm = tc.compile(MM, backend="opencl")
    first = mm(a, b).tobytes()
    assert all(mm(a, b).tobytes() == first for _ in range(20))


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        (GATHER, (np.ones(5, np.float32), np.array([1, 5, 0], np.int32))),
        (DIVIDED, (np.ones(3, np.int32), np.array([2, 1, 0], np.int32))),
    ],
)
@on_pocl
def test_checks_g7(text: str, arrays: tuple[Any, ...]) -> None:
    """The message is that of other backends; nothing is left of it in the next call."""
    said = []
    for backend in ("numba", "opencl"):
        checked = tc.compile(text, backend=backend, check=True)
        for _ in range(2):
            with pytest.raises(tc.AccessError) as caught:
                checked(*arrays)
            said.append(str(caught.value))
        right = arrays[0], np.ones_like(arrays[1])
        np.testing.assert_array_equal(checked(*right), arrays[0][: len(right[1])])
    assert len(set(said)) == 1


@on_pocl
def test_checks_are_off_by_default_g7() -> None:
    """Divisions by zero give any number then."""
    a, b = np.ones(3, np.int32), np.array([1, 1, 0], np.int32)
    assert tc.compile(DIVIDED, backend="opencl")(a, b)[:2].tolist() == [1, 1]
    assert "status" not in str(tc.emit(DIVIDED, N=3, backend="opencl"))


@on_pocl
def test_threads() -> None:
    mm = tc.compile(MM, backend="opencl")

    def work(seed: int) -> None:
        for n in (16, 40):
            a, b = whole(seed, n, n), whole(seed + 1, n, n)
            for _ in range(5):
                np.testing.assert_array_equal(mm(a, b), a @ b)

    run_at_once(partial(work, seed) for seed in range(6))


@on_pocl
def test_naive_code_stands_in() -> None:
    """Where a pass breaks its contract, as on processors."""
    right = lowering.trace_passes

    calls: list[Kernel] = []

    def wrong(kernel: Kernel, context: PassContext, *passes: Any) -> Iterator[PassResult]:
        calls.append(kernel)
        if len(calls) == 1:
            raise KeyError(-1)
        return right(kernel, context, *passes)

    a, b = whole(0, 5, 6), whole(1, 6, 7)
    mm = tc.compile(MM, backend="opencl")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.delenv("TC_STRICT")
        patch.setattr(lowering, "trace_passes", wrong)
        np.testing.assert_array_equal(mm(a, b), a @ b)
    (warning,) = caught
    assert "mm is run by plain code" in str(warning.message)
    naive = tc.compile(MM, backend="opencl", options=tc.Options.preset("naive"))
    assert mm.source(a, b) == naive.source(a, b)


@on_pocl
def test_texts_are_stored() -> None:
    """What is read back is launched as what was printed, and lowered no second time."""
    a, b = whole(0, 40, 8), whole(1, 8, 50)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        tc.cache.enable(folder)
        try:
            np.testing.assert_array_equal(tc.compile(MM, backend="opencl")(a, b), a @ b)
            patch.delattr(lowering, "trace_lowering")
            np.testing.assert_array_equal(tc.compile(MM, backend="opencl")(a, b), a @ b)
        finally:
            tc.cache.disable()


@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_a_stored_text_has_its_launches(backend: str) -> None:
    text = tc.emit(MM, {"A": (40, 8), "B": (8, 50)}, backend=backend)
    again = pickle.loads(pickle.dumps(text))
    assert isinstance(again, LaunchText)
    assert again == text
    assert [launch.function for launch in again.launches] == ["mm_0"]
    assert again.launches[0].threads > 1
