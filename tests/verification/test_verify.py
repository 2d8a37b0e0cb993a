"""What `tc.verify` says of kernels that are right, and of such that are wrong in one way each."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.processes import run_python

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
CONV = "def conv(float(N) x, float(K) w) -> (o) { o(i) +=! x(i+k) * w(k) }"
BIAS = "def layer(float(N,D) x, float(D) b) -> (o) { o(n,d) = fmax(x(n,d) + b(d), 0) }"
EDGE = "def edge(float(N) x) -> (o) { o(i) = i > 0 ? x(i-1) : 7 where i in 0:N }"
ROWS = "def rows(float(N,D) x) -> (o) { o(n) +=! x(n,d) }"
MOST = "def most(float(N,D) x) -> (o) { o(n) max=! x(n,d) }"
PLACE = "def place(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }"
GATHER = "def gather(float(R,D) t, int(N) i) -> (o) { o(n,d) = t(i(n),d) }"
CSR = """def csr(int(M) row, int(E) col, float(E) v, float(C) x) -> (y) {
  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
}"""
COPY = "def copy(float(N) x) -> (y) { y(i) = x(i) }"
CLAMP = "def clamp(float(N) x) -> (y) { y(i) = x(i) > 100 ? 100 : x(i) }"
ABOVE = "def above(float(N) x) -> (y) { y(i) = x(i) > 6 ? x(i) : 0 }"
HALF = "def halves(half(N,D) x) -> (o) { o(n) +=! x(n,d) }"
COUNT = "def count(int8(N) x) -> (int32 s) { s +=! int32(x(i)) }"


def product(A: Any, B: Any) -> Any:
    return A @ B


def windows(x: Any, w: Any) -> Any:
    count = max(x.size - w.size + 1, 0)
    if not w.size:
        return np.zeros(x.size + 1, np.float32)
    return np.array([x[i : i + w.size] @ w for i in range(count)], np.float32)


def sparse(row: Any, col: Any, v: Any, x: Any) -> Any:
    y = np.zeros(max(row.size - 1, 0), np.float32)
    for r in range(y.size):
        for e in range(row[r], row[r + 1]):
            y[r] += v[e] * x[col[e]]
    return y


def first_of_most(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return x.max(1, initial=-np.inf), x.argmax(1).astype(np.int32)


RIGHT: dict[str, tuple[str, Callable[..., Any]]] = {
    "product": (MM, product),
    "window": (CONV, windows),
    "bias": (BIAS, lambda x, b: np.fmax(x + b, 0)),
    "edge": (EDGE, lambda x: np.concatenate([np.float32([7]), x[:-1]]) if x.size else x.copy()),
    "rows": (ROWS, lambda x: x.sum(1)),
    "maxima": (MOST, lambda x: x.max(1, initial=-np.inf)),
    "places": (PLACE, first_of_most),
    "gather": (GATHER, lambda t, i: t[i]),
    "sparse": (CSR, sparse),
    "halves": (HALF, lambda x: x.sum(1, dtype=np.float32).astype(np.float16)),
    "count": (COUNT, lambda x: x.sum(dtype=np.int32)),
    "dict": (PLACE, lambda x: dict(zip(("m", "at"), first_of_most(x), strict=True))),
    "list": (PLACE, lambda x: [*first_of_most(x)]),
    "number": (COUNT, lambda x: int(x.sum(dtype=np.int32))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels(name: str) -> None:
    text, kernel = RIGHT[name]
    verdict = tc.verify(kernel, text, seconds=1)
    assert verdict, str(verdict)
    assert verdict.is_right
    assert verdict.findings == ()
    assert f"{text.split()[1].partition('(')[0]}: right in all that was tried" in str(verdict)


def without_last(A: Any, B: Any) -> Any:
    return A[:, :-1] @ B[:-1]


def without_first(A: Any, B: Any) -> Any:
    return A[:, 1:] @ B[1:]


def in_blocks(A: Any, B: Any) -> Any:
    end = A.shape[1] // 8 * 8
    return A[:, :end] @ B[:end]


def half_sums(A: Any, B: Any) -> Any:
    return np.matmul(A.astype(np.float16), B.astype(np.float16)).astype(np.float32)


def turned_where_square(A: Any, B: Any) -> Any:
    return (A @ B).T.copy() if len({*A.shape, *B.shape}) == 1 else A @ B


def last_column_later(A: Any, B: Any, state: dict[str, Any] = {}) -> Any:  # noqa: B006
    C = A @ B
    state["calls"] = state.get("calls", 0) + 1
    if state["calls"] % 5 == 0:
        C[:, -1:] = 0
    return C


def kept(A: Any, B: Any, state: dict[Any, Any] = {}) -> Any:  # noqa: B006
    return state.setdefault((A.shape, B.shape), A @ B)


def kept_by_identity(A: Any, B: Any, state: dict[Any, Any] = {}) -> Any:  # noqa: B006
    return state.setdefault((id(A), id(B)), (A, B, A @ B))[2]


def contiguous_at_most(A: Any, B: Any) -> Any:
    flat = np.lib.stride_tricks.as_strided(A, (A.size,), (A.itemsize,))
    return flat.reshape(A.shape) @ B


def touching(A: Any, B: Any) -> Any:
    A[:1] = A[:1] + 1
    return A @ B


def wrong_with_several_tiles(A: Any, B: Any) -> Any:
    C = A @ B
    if min(*A.shape, *B.shape) > 128:
        C[-1, -1] += 1
    return C


def into_one_buffer(A: Any, B: Any, buffers: dict[Any, Any] = {}) -> Any:  # noqa: B006
    shape = len(A), B.shape[1]
    return np.matmul(A, B, out=buffers.setdefault(shape, np.empty(shape, np.float32)))


def last_of_most(x: Any) -> Any:
    m, at = first_of_most(x)
    if x.shape[1]:
        at = (x.shape[1] - 1 - x[:, ::-1].argmax(1)).astype(np.int32)
    return m, at


WRONG: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "last term": (MM, without_last, "value", "C is wrong: the last term is missing, k = K - 1"),
    "first term": (MM, without_first, "value", "C is wrong: the first term is missing, k = 0"),
    "blocks": (MM, in_blocks, "value", "C is wrong everywhere: all elements are equal"),
    "halves": (
        MM, half_sums, "value",
        "C is wrong: as if computed in half precision, which compute='float16' allows",
    ),
    "transposed": (
        MM, turned_where_square, "value", "C is wrong in 2 of 4 elements: C is transposed",
    ),
    "now and then": (MM, last_column_later, "value", ""),
    "kept": (
        MM, kept, "value",
        "C is wrong everywhere: it is the result of an earlier call, with other inputs",
    ),
    "kept by identity": (MM, kept_by_identity, "varies", ""),
    "zeros": (
        MM, lambda A, B: np.zeros((len(A), B.shape[1]), np.float32), "value",
        "C is wrong everywhere: all elements are equal",
    ),
    "mean": (
        MM, lambda A, B: np.full((len(A), B.shape[1]), (A @ B).mean(), np.float32), "value",
        "C is wrong everywhere: all elements are equal",
    ),
    "strides": (MM, contiguous_at_most, "value", ""),
    "inputs": (MM, touching, "changes inputs", ""),
    "no bias": (
        BIAS, lambda x, b: np.fmax(x, 0) + 0 * b, "value", "o is wrong: + b(d) is missing",
    ),
    "twice": (MM, lambda A, B: 2 * (A @ B), "value", ""),
    "NaN": (BIAS, lambda x, b: np.maximum(x + b, 0), "value", ""),
    "edge": (EDGE, lambda x: np.roll(x, 1), "value", "o is wrong where i = 0"),
    "NaN of maxima": (
        MOST, lambda x: np.fmax.reduce(x, 1, initial=-np.inf), "value",
        "o is wrong: NaN of an input is lost",
    ),
    "ties": (PLACE, last_of_most, "value", ""),
    "wrapped": (GATHER, lambda t, i: t[np.minimum(i, len(t) - 2)], "value", ""),
    "float64": (MM, lambda A, B: A.astype(np.float64) @ B, "type", ""),
    "shape": (ROWS, lambda x: x.sum(1, keepdims=True), "shape", ""),
    "narrow": (COUNT, lambda x: x.sum(dtype=np.int8).astype(np.int32), "value", ""),
    "large": (COPY, lambda x: np.where(np.arange(x.size) < 40_000, x, 0), "value", ""),
    "several tiles": (MM, wrong_with_several_tiles, "value", ""),
    "threshold": (
        CLAMP, lambda x: np.where(x > 101, np.float32(100), x), "value",
        "",
    ),
    "equality": (ABOVE, lambda x: np.where(x >= 6, x, np.float32(0)), "value", ""),
    "one buffer": (MM, into_one_buffer, "overwrites a result", ""),
    "a fraction for an integer": (COUNT, lambda x: x.sum(dtype=np.int32) + 0.7, "type", ""),
    "a large number": (COUNT, lambda x: 2**70 + int(x.sum()), "type", ""),
    "None": (MM, lambda A, B: None, "no result", ""),  # noqa: ARG005
    "a tuple": (MM, lambda A, B: (A, B), "no result", ""),
    "one of two": (PLACE, lambda x: x.max(1), "no result", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels(name: str) -> None:
    text, kernel, kind, diagnosis = WRONG[name]
    verdict = tc.verify(kernel, text)
    assert not verdict
    (finding,) = verdict.findings
    assert finding.kind == kind
    if diagnosis:
        assert finding.diagnosis == diagnosis
    with pytest.raises(tc.VerificationError, match="the kernel is not what the text says"):
        verdict.raise_if_wrong()


def test_elements_are_told_in_variables_of_the_text() -> None:
    def missing(A: Any, B: Any) -> Any:
        C = A @ B
        C[16:, -1:] = 0
        return C

    finding = tc.verify(missing, MM).findings[0]
    assert finding.diagnosis == "C is wrong where m = M - 1 and n = N - 1" or (
        finding.diagnosis == "C is wrong where m = M - 1"
    )
    assert finding.sizes == {"M": 17, "K": 1, "N": 1}
    assert (finding.got, finding.bound) == (0, 0)


# --- crashes, and others ----------------------------------------------------------------------


def hanging(A: Any, B: Any) -> Any:
    while len(A) > 3:
        pass
    return A @ B


def crashing(A: Any, B: Any) -> Any:
    if len(A) == 1:
        ctypes.string_at(0)
    return A @ B


def raising(A: Any, B: Any) -> Any:
    if A.shape[1] == 3:
        raise ValueError("no threes")
    return A @ B


def raising_at_one_size(A: Any, B: Any) -> Any:
    """Such sizes are tried in arrays at edges of pages, where exceptions may be meant."""
    if len(A) == 129:
        raise ValueError("no 129")
    return A @ B


def leaving(_A: Any, _B: Any) -> Any:
    os._exit(7)


def leaving_by_name(_A: Any, _B: Any) -> Any:
    sys.exit(3)


def beyond(A: Any, B: Any) -> Any:
    return A @ B + 0 * np.lib.stride_tricks.as_strided(B, (B.size + 1,), (4,)).sum()


def before(A: Any, B: Any) -> Any:
    address = A.ctypes.data - 4
    ctypes.c_float.from_address(address).value  # noqa: B018
    return A @ B


def writing_around(A: Any, B: Any) -> Any:
    ctypes.c_float.from_address(A.ctypes.data - 4).value = 1
    return A @ B


ENDED: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "hangs": (hanging, "hangs", "the kernel has not returned after", ""),
    "crashes": (crashing, "ends", "the kernel ends its process, SIGSEGV", ""),
    "raises": (raising, "raises", "the kernel raises ValueError: no threes", ""),
    "raises at one size": (raising_at_one_size, "raises", "raises ValueError: no 129", ""),
    "exits": (leaving, "ends", "the kernel ends its process, with the status 7", ""),
    "sys.exit": (leaving_by_name, "raises", "the kernel raises SystemExit: 3", ""),
    "beyond": (
        beyond,
        "ends",
        "ends its process, SIGSEGV",
        "memory behind the end of B is touched",
    ),
    "before": (before, "ends", "SIGSEGV", "memory before the beginning of A is touched"),
    "writes": (writing_around, "writes around", "the kernel writes outside of A", ""),
}


@pytest.mark.parametrize("name", ENDED)
def test_kernels_that_end(name: str) -> None:
    kernel, kind, cause, diagnosis = ENDED[name]
    begin = time.monotonic()
    finding = tc.verify(kernel, MM, seconds=6).findings[0]
    assert time.monotonic() - begin < 12
    assert finding.kind == kind
    assert cause in finding.cause
    assert finding.diagnosis == diagnosis
    if name == "raises":
        assert 'raise ValueError("no threes")' in finding.traceback
        assert "tc/verification" not in finding.traceback


def test_empty_and_strided_arrays_may_be_refused() -> None:
    def strict(A: Any, B: Any) -> Any:
        if not (A.size and B.size and A.flags.c_contiguous and B.flags.c_contiguous):
            raise ValueError("dense arrays alone")
        return A @ B

    verdict = tc.verify(strict, MM)
    assert verdict
    assert "transposed arrays: ValueError: dense arrays alone" in verdict.refused
    assert any("= 0" in refused for refused in verdict.refused)


def test_nothing_is_left_behind() -> None:
    def open_files() -> set[str]:
        return {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{n}")}  # fmt: skip

    def children() -> set[str]:
        tasks = Path("/proc/self/task").glob("*/children")
        return {child for task in tasks for child in task.read_text().split()}

    before, others = open_files(), children()
    for kernel in (product, crashing, hanging):
        tc.verify(kernel, MM, seconds=1)
    assert open_files() <= before
    assert children() <= others


def test_children_of_a_kernel_end_with_it() -> None:
    def starting(A: Any, B: Any) -> Any:
        if len(A) == 1:
            subprocess.Popen(["sleep", "3071"])
            while True:
                pass
        return A @ B

    assert tc.verify(starting, MM, seconds=4).findings[0].kind == "hangs"
    assert b"sleep\x003071" not in {
        path.read_bytes().rstrip(b"\0") for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    }  # fmt: skip


def test_a_kernel_in_this_process() -> None:
    seen: set[int] = set()

    def noting(A: Any, B: Any) -> Any:
        seen.add(os.getpid())
        return A @ B

    assert tc.verify(noting, MM, isolate=False, seconds=2)
    assert seen == {os.getpid()}


def test_threads_that_a_fork_would_lack() -> None:
    """A kernel of numba's threads runs in a fresh process, once these are started here."""
    script = """
import numba, numpy as np, tc
@numba.njit(parallel=True)
def kernel(x):
    y = np.empty_like(x)
    for i in numba.prange(x.size):
        y[i] = 2 * x[i]
    return y
kernel(np.ones(9, np.float32))
verdict = tc.verify(kernel, "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
print(bool(verdict), verdict.not_tried)
"""
    assert run_python(script).stdout == "True ()\n"
