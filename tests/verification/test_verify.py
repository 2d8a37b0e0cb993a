"""What `tc.verify` says of kernels that are right, and of such that are wrong in one way each."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import tc
from tc.cli import main
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
    verdict = tc.verify(kernel, text)
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

    before = open_files()
    for kernel in (product, crashing, hanging):
        tc.verify(kernel, MM, seconds=2)
    assert open_files() <= before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


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


# --- how kernels are called ---------------------------------------------------------------------


class Layer:
    def forward(self, x: Any, b: Any) -> Any:
        return np.fmax(x + b, 0)

    def __call__(self, *arrays: Any) -> Any:
        return self.forward(*arrays)


def into(A: Any, B: Any, C: Any) -> None:
    np.matmul(A, B, out=C)


def into_without_start(A: Any, B: Any, C: Any) -> None:
    C += A @ B


def by_names(C: Any, B: Any, A: Any, N: int, M: int) -> None:
    C[...] = (A @ B).reshape(M, N)


@numba.cfunc("void(CPointer(float32), CPointer(float32), CPointer(float32), int64, int64, int64)")
def in_c(A: Any, B: Any, C: Any, M: int, K: int, N: int) -> None:
    for i in range(M):
        for j in range(N):
            total = np.float32(0)
            for k in range(K):
                total += A[i * K + k] * B[k * N + j]
            C[i * N + j] = total


def test_forms_of_kernels() -> None:
    assert tc.verify(Layer(), BIAS)
    assert tc.verify(into, MM)
    assert tc.verify(by_names, MM)
    assert tc.verify(in_c.ctypes, MM)
    assert tc.verify(partial(lambda scale, A, B: scale * (A @ B), np.float32(1)), MM)
    assert tc.verify(
        numba.njit(lambda x: x * np.float32(2)), "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    )
    finding = tc.verify(into_without_start, MM).findings[0]
    assert finding.diagnosis.endswith(": memory is read that nobody has written")


def test_given_sizes_and_inputs() -> None:
    seen: set[tuple[int, ...]] = set()

    def noting(A: Any, B: Any) -> Any:
        seen.add((*A.shape, B.shape[1]))
        return A @ B

    assert tc.verify(noting, MM, sizes=[{"M": 16, "K": 8, "N": 24}], isolate=False)
    assert seen == {(16, 8, 24)}
    seen.clear()
    assert tc.verify(noting, MM, sizes={"K": range(16, 65, 16), "M": 4}, isolate=False)
    assert {k for _, k, _ in seen} == {16, 32, 48, 64}
    assert {m for m, _, _ in seen} == {4}
    row = np.array([0, 2, 2, 3], np.int32)
    inputs = [row, np.array([1, 0, 2], np.int32), *np.ones((2, 3), np.float32)]
    assert tc.verify(sparse, CSR, inputs=inputs)

    def unsorted(row: Any, col: Any, v: Any, x: Any) -> Any:
        return sparse(row, col, v, x)[::-1].copy()

    finding = tc.verify(unsorted, CSR, inputs=inputs).findings[0]
    assert finding.diagnosis.endswith("y is reversed along r")


def test_coarser_types() -> None:
    text = "def dot(double(N) x, double(N) y) -> (s) { s +=! x(i) * y(i) }"

    def single(x: Any, y: Any) -> Any:
        return np.float64(np.dot(x.astype(np.float32), y.astype(np.float32)))

    assert not tc.verify(single, text)
    assert not tc.verify(half_sums, MM)
    assert not tc.verify(half_sums, MM, compute="tf32")


def test_same_bits() -> None:
    def in_any_order(x: Any, state: list[int] = []) -> Any:  # noqa: B006
        state.append(1)
        return x.sum(1) if len(state) % 2 else np.add.reduce(x[:, ::-1].copy(), 1)

    text = "def rows(float(N,D) x) -> (o) { o(n) +=! x(n,d) }"
    assert tc.verify(in_any_order, text)
    finding = tc.verify(in_any_order, text, same_bits=True).findings[0]
    assert finding.cause.endswith("gives other bits than the first")


# --- what is told -----------------------------------------------------------------------------


def test_a_verdict_in_json_and_html() -> None:
    def lost(x: Any) -> Any:
        return np.fmax.reduce(x, 1, initial=-np.inf)

    verdict = tc.verify(lost, MOST)
    value = json.loads(verdict.to_json(), parse_constant=pytest.fail)
    assert value["right"] is False
    assert value["findings"][0]["kind"] == "value"
    assert "most: WRONG" in verdict._repr_html_()
    assert "<script" not in tc.verify(lambda x: x.max(1, initial=-np.inf), MOST)._repr_html_()
    assert repr(verdict) == "<verdict on most: WRONG>"


def test_the_script_repeats_the_finding(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("def short(A, B):\n    return A[:, :-1] @ B[:-1]\n")
    (tmp_path / "mm.tc").write_text(MM)
    again = tmp_path / "again.py"
    words = ["verify", str(tmp_path / "kernels.py:short"), str(tmp_path / "mm.tc")]
    command = "import sys; from tc.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run_python(command, *words, "--script", str(again))
    assert done.returncode == 1
    assert "C is wrong: the last term is missing, k = K - 1" in done.stdout
    repeated = run_python(
        again.read_text(),
        cwd=tmp_path,
        environment={"PYTHONPATH": f"{tmp_path}:{Path(tc.__file__).parents[1]}"},
    )
    assert "the last term is missing, k = K - 1" in repeated.stdout, repeated.stderr


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels, text = tmp_path / "kernels_of_command.py", tmp_path / "mm.tc"
    kernels.write_text("product = lambda A, B: A @ B\nvalue = 3\n")
    text.write_text(MM)
    assert main(["verify", f"{kernels}:product", str(text), "--seconds", "2"]) == 0
    assert "mm: right in all that was tried" in capsys.readouterr().out
    assert (
        main(["verify", f"{kernels}:product", str(text), "--json", "--sizes", "M=3,K=4,N=5"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["right"] is True
    for name, message in (
        (f"{kernels}:prodct", "has no prodct; did you mean product?"),
        (f"{kernels}:value", "is a value of the type int, and no kernel"),
        ("kernels.py", "a kernel is FILE.py:NAME, or MODULE:NAME"),
        (f"{tmp_path}/other.py:f", "there is no such file"),
        ("no_such_module:f", "ModuleNotFoundError"),
    ):
        assert main(["verify", name, str(text)]) == 2
        assert message in capsys.readouterr().err


def test_the_fixture(tmp_path: Path) -> None:
    test = tmp_path / "test_kernels.py"
    test.write_text(f"""
TEXT = {MM!r}
def test_right(tc_verify):
    assert tc_verify(lambda A, B: A @ B, TEXT)
def test_wrong(tc_verify):
    tc_verify(lambda A, B: A[:, :-1] @ B[:-1], TEXT)
""")
    script = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    plugin = () if "tc_verify" in _fixtures() else ("-p", "tc.verification.pytest_plugin")
    done = run_python(script, "-q", *plugin, str(test), cwd=tmp_path,
                      environment={"PYTHONPATH": str(Path(tc.__file__).parents[1])})  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout
    assert "VerificationError: mm: the kernel is not what the text says" in done.stdout


def _fixtures() -> set[str]:
    from importlib.metadata import entry_points

    return {"tc_verify" for point in entry_points(group="pytest11") if point.name == "tc"}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no kernel": (
        lambda: tc.verify(3, MM),  # type: ignore[arg-type]
        "InputError: the kernel is int, which cannot be called\n"
        "repair: a function of the inputs of the text",
    ),
    "too few parameters": (
        lambda: tc.verify(lambda A: A, MM),
        "InputError: the kernel takes 1 argument (A), but mm has 2 inputs (A, B) and 1 output (C)\n"
        "repair: lambda A, B: kernel(...), which returns C",
    ),
    "like": (
        lambda: tc.verify(product, MM, like="cupy"),
        "InputError: like='cupy': kernels are called with arrays of 'numpy', 'torch' or 'jax'\n"
        'repair: like="torch"',
    ),
    "compute": (
        lambda: tc.verify(product, MM, compute="int4"),
        "InputError: compute='int4': a kernel may compute in float32, tf32, float16, bfloat16\n"
        'repair: compute="float32"',
    ),
    "seconds": (
        lambda: tc.verify(product, MM, seconds=0),
        "InputError: seconds=0: a verdict takes a positive number of seconds\nrepair: seconds=20",
    ),
    "size": (
        lambda: tc.verify(product, MM, sizes={"MM": 3}),
        "InputError: mm has no size 'MM'; there are M, K, N",
    ),
    "negative size": (
        lambda: tc.verify(product, MM, sizes={"M": -3}),
        "InputError: sizes: M is -3, but a size is an integer of at least 0, or several\n"
        "repair: M=64",
    ),
    "missing size": (
        lambda: tc.verify(product, MM, sizes=[{"M": 3}]),
        "InputError: sizes: {'M': 3} lacks K, N\nrepair: K=64",
    ),
    "sizes": (
        lambda: tc.verify(product, MM, sizes=3),
        "InputError: sizes=3: sizes are a dict, of numbers or ranges, or a list of dicts\n"
        "repair: sizes={'M': 64, 'K': 64}",
    ),
    "gradient": (
        lambda: tc.verify(product, MM, gradient=True),
        "InputError: gradient=True: a kernel of numpy has no gradient to compare\n"
        "repair: gradient=False, or the gradient as a kernel of the text str(tc.grad(text))",
    ),
    "sizes beside inputs": (
        lambda: tc.verify(product, MM, sizes={"M": 3}, inputs=np.ones((2, 2, 2), np.float32)),
        "InputError: inputs say the sizes, which are given as well\nrepair: sizes=None",
    ),
    "no sizes": (
        lambda: tc.verify(product, MM, sizes=[]),
        "InputError: sizes=[] are no sizes\nrepair: sizes=[{'M': 64, 'K': 64}]",
    ),
    "no memory": (
        lambda: tc.verify(product, MM, sizes=[{"M": 1 << 40, "K": 1 << 20, "N": 4}]),
        "InputError: no memory holds the arrays of M = 1099511627776, K = 1048576, N = 4\n"
        "repair: smaller sizes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(tc.InputError) as caught:
        call()
    assert str(caught.value) == message


def test_a_text_that_reads_its_output_first() -> None:
    text = "def f(float(N) x) -> (float(N) o) { t(i) = o(i) + x(i)  o(i) = 2 * t(i) }"
    with pytest.raises(tc.InputError, match="reads o before it writes it") as caught:
        tc.verify(lambda x: x, text)
    assert caught.value.rule == "R4"


# --- torch and JAX ----------------------------------------------------------------------------

LAYER = """def layer(float(N,D) x, float(D,M) w, float(M) b) -> (o) {
  o(n,m) +=! x(n,d) * w(d,m)
  o(n,m) = tanh(o(n,m) + b(m))
}"""


def test_gradients_of_torch() -> None:
    torch = pytest.importorskip("torch")

    def layer(x: Any, w: Any, b: Any) -> Any:
        return torch.tanh(x @ w + b)

    class Wrong(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.tanh(x)

        @staticmethod
        def backward(ctx: Any, d: Any) -> Any:
            (x,) = ctx.saved_tensors
            return d * (1 - torch.tanh(x))

    assert tc.verify(layer, LAYER)
    assert tc.verify(layer, LAYER, gradient=True)
    assert tc.verify(lambda x, w, b: Wrong.apply(x @ w + b), LAYER, like="torch")
    verdict = tc.verify(lambda x, w, b: Wrong.apply(x @ w + b), LAYER, like="torch", gradient=True)
    assert verdict.findings[0].kind == "value"


def test_canaries_around_tensors() -> None:
    torch = pytest.importorskip("torch")

    def kernel(A: Any, B: Any) -> Any:
        around = torch.as_strided(B, (B.numel() + 1,), (1,))
        if around.numel() > 1:
            around[-1] = 3
        return A @ B

    assert tc.verify(lambda A, B: torch.matmul(A, B), MM, like="torch:cpu")
    finding = tc.verify(kernel, MM, like="torch:cpu").findings[0]
    assert (finding.kind, finding.cause) == ("writes around", "the kernel writes outside of B")


def test_gradients_of_jax() -> None:
    jax = pytest.importorskip("jax")

    @jax.jit
    def layer(x: Any, w: Any, b: Any) -> Any:
        return jax.numpy.tanh(x @ w + b)

    assert tc.verify(layer, LAYER, seconds=10)
    assert tc.verify(layer, LAYER, gradient=True, seconds=10)


def kernel_of_a_pool(A: Any, B: Any) -> Any:
    return POOL.submit(lambda: A @ B).result()


POOL = ThreadPoolExecutor(1)


def test_kernels_that_wait_for_threads_of_the_caller() -> None:
    """A fork would lack the threads of the pool."""
    POOL.submit(abs, 1).result()
    verdict = tc.verify(kernel_of_a_pool, MM, seconds=8)
    assert verdict.is_right or verdict.not_tried


def test_texts_of_exceptions() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    def raising_odd(A: Any, B: Any) -> Any:  # noqa: ARG001
        raise Odd

    def raising_long(A: Any, B: Any) -> Any:  # noqa: ARG001
        raise ValueError("y" * 5_000_000)

    cause = tc.verify(raising_odd, MM).findings[0].cause
    assert cause == "the kernel raises Odd: an exception that cannot be printed"
    assert len(str(tc.verify(raising_long, MM))) < 10_000


def test_from_another_thread() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(tc.verify(product, MM, seconds=2)))
    thread.start()
    thread.join()
    assert found
    assert found[0]


def test_interrupted_verification_ends() -> None:
    script = f"""
import os, signal, threading, time, tc
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
def hang(A, B):
    while True: pass
try:
    tc.verify(hang, {MM!r}, seconds=60)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert signal.getsignal(signal.SIGINT) is not None
    assert run_python(script).stdout == "interrupted\n"
