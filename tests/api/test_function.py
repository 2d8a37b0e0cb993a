"""tc.compile: what is compiled when, what is remembered, threads, pickles, infer and prepare."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tc
from tc import call_times
from tc.specialiser import MAX_SPECIALISATIONS
from tests.api.evaluating import NEEDS_C, EvaluateBackend
from tests.support.processes import run_python, told

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
COPY = "def copy(float(N) x) -> (y) { y(i) = x(i) }"
SUM = "def sum(float(N) x) -> (s) { s += x(i) }"
SGEMM = """
def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
    C(i,j) = b * C(i,j)
    C(i,j) += a * A(i,k) * B(k,j)
}"""
HEAD = """
def head(float(N) x, int n, int unused, float a) -> (y) {
    y(i) = a * x(i) + unused where i in 0:n
}"""
GATHER = "def gather(float(N) x, int32(M) I) -> (o) { o(i) = x(I(i)) }"
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(12, dtype=np.float32).reshape(3, 4)

Counting = type[EvaluateBackend]


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


# --- what is compiled when --------------------------------------------------------------------


def test_compiles_once_per_shape_and_layout(evaluating: Counting) -> None:
    mm = tc.compile(MM, backend="evaluate")
    assert len(evaluating.loaded) == 0
    for a, count in ((A, 1), (A + 1, 1), (A[:1], 2), (np.asfortranarray(A), 3), (A[::-1], 4)):
        for _ in range(2):
            np.testing.assert_array_equal(mm(a, B), a @ B)
        assert len(evaluating.loaded) == count


def test_strides_of_single_elements_do_not_matter(evaluating: Counting) -> None:
    mm = tc.compile(MM, backend="evaluate")
    wide = ones(1, 9)
    for a in (ones(1, 3), wide[:, :3], wide[::-1, 3:6]):
        assert (mm(a, B) == B.sum(0)).all()
    assert len(evaluating.loaded) == 1


def test_other_scalars_do_not_compile_again(evaluating: Counting) -> None:
    """Rule G2: only integers in subscripts, where clauses and affine conditions do."""
    head = tc.compile(HEAD, backend="evaluate")
    x = ones(5)
    for n, unused, a, count in ((3, 0, 1.0, 1), (3, 7, 2.0, 1), (4, 7, 2.0, 2), (3, 9, 3, 2)):
        result = head(x, n, unused, a)
        np.testing.assert_array_equal(result, np.full(n, a + unused, np.float32))
        assert len(evaluating.loaded) == count
    for number in (3, np.int32(3), np.array(3, np.int32)):
        assert head(x, number, 1, 1).shape == (3,)
    assert len(evaluating.loaded) == 2


def test_outputs_share_the_code_of_fresh_results(evaluating: Counting) -> None:
    """Rule R4: mm writes all of C either way; what continues or leaves gaps does not (R3, G4)."""
    mm = tc.compile(MM, backend="evaluate")
    assert mm(A, B) is not mm(A, B, outputs=ones(2, 4))
    assert len(evaluating.loaded) == 1
    gaps = tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) where i in 1:2 }", backend="evaluate")
    np.testing.assert_array_equal(gaps(ones(3)), [0, 1])
    np.testing.assert_array_equal(gaps(ones(3), outputs=np.full(2, 7, np.float32)), [7, 1])
    assert len(evaluating.loaded) == 3


def test_the_last_used_are_remembered(evaluating: Counting) -> None:
    function = tc.compile(COPY, backend="evaluate")
    for n in range(1, MAX_SPECIALISATIONS + 1):
        function(ones(n))
    function(ones(1))
    function(ones(MAX_SPECIALISATIONS + 1))
    assert len(evaluating.loaded) == MAX_SPECIALISATIONS + 1
    function(ones(1))
    assert len(evaluating.loaded) == MAX_SPECIALISATIONS + 1
    function(ones(2))
    assert len(evaluating.loaded) == MAX_SPECIALISATIONS + 2
    assert len(function._specialiser.made) == MAX_SPECIALISATIONS


def test_odd_strides_reach_the_kernel_as_a_copy(evaluating: Counting) -> None:
    odd = np.zeros(3, np.dtype([("x", np.float32), ("pad", np.uint8)]))["x"]
    odd[...] = 1, 2, 3
    function = tc.compile(COPY, backend="evaluate")
    np.testing.assert_array_equal(function(odd.copy()), [1, 2, 3])
    np.testing.assert_array_equal(function(odd), [1, 2, 3])
    assert len(evaluating.loaded) == 1


def test_options_reach_the_backend(evaluating: Counting) -> None:
    options = tc.Options(threads=3)
    function = tc.compile(COPY, backend="evaluate", options=options)
    function(ones(2))
    assert evaluating.threads_seen == [3]
    assert function.source(ones(2)) == f"evaluated with {options}"


def test_check(evaluating: Counting) -> None:
    """Rule G7."""
    indices = np.zeros(2, np.int32)
    for check, sites in ((None, 1), (True, 1), (False, 0)):
        tc.compile(GATHER, backend="evaluate", check=check)(ones(3), indices)
        assert len(evaluating.loaded.pop().sites) == sites


# --- infer, prepare, source -------------------------------------------------------------------


def test_infer(evaluating: Counting) -> None:
    mm = tc.compile(MM, backend="evaluate")
    wanted = {"C": tc.TensorInfo((2, 4), np.dtype(np.float32))}
    assert mm.infer(A, B) == wanted
    assert mm.infer(M=2, K=3, N=4) == wanted
    assert mm.infer({"M": 2, "K": 3, "N": 4}) == wanted
    assert mm.infer(A, N=4) == wanted
    assert mm.infer(A=(2, 3), B=B) == wanted
    assert mm.infer((2, 3), (3, 4)) == wanted
    assert str(mm.infer(M=10**6, K=1, N=0)["C"]) == "float32(1000000, 0)"
    assert len(evaluating.loaded) == 0
    assert tc.compile(HEAD).infer(N=9, n=2)["y"].shape == (2,)
    assert tc.compile(SGEMM).infer(N=2, M=3, K=4)["C"].shape == (2, 4)


def test_prepare_compiles_ahead(evaluating: Counting) -> None:
    mm = tc.compile(MM, backend="evaluate")
    mm.prepare(M=2, K=3, N=4)
    assert len(evaluating.loaded) == 1
    mm(A, B)
    mm(A, B, outputs=ones(2, 4))
    assert len(evaluating.loaded) == 1
    mm.prepare(np.asfortranarray(A), B)
    assert len(evaluating.loaded) == 2
    mm(np.asfortranarray(A), B)
    assert len(evaluating.loaded) == 2
    sgemm = tc.compile(SGEMM, backend="evaluate")
    sgemm.prepare(A=A, K=4)
    assert len(evaluating.loaded) == 3
    sgemm(1, 1, A, B, outputs=ones(2, 4))
    assert len(evaluating.loaded) == 3


@pytest.mark.usefixtures("evaluating")
def test_prepare_warns_of_nothing_that_a_call_would() -> None:
    """Rule R3: the first such call warns, also when its code was there before."""
    function = tc.compile(SUM, backend="evaluate")
    function.prepare(N=3)
    with pytest.warns(tc.TCWarning, match="R3") as caught:
        function(ones(3))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(ones(3)) == 3
        assert function(ones(4)) == 4


@pytest.mark.usefixtures("evaluating")
def test_temporaries_that_continue_from_nothing() -> None:
    """Rule R3."""
    function = tc.compile("def f(float(N) x) -> (s) { t += x(i)  s = 2 * t }", backend="evaluate")
    with pytest.warns(tc.TCWarning, match="nothing was written to it before: it starts at 0"):
        assert function(ones(3)) == 6


def test_source(evaluating: Counting) -> None:
    mm = tc.compile(MM, backend="evaluate")
    assert mm.source(A, B) == mm.source(M=2, K=3, N=4) == f"evaluated with {tc.Options()}"
    assert len(evaluating.loaded) == 1
    assert tc.compile(SGEMM, backend="evaluate").source(N=2, M=3, K=4)


def test_static_scalars_must_be_given() -> None:
    with pytest.raises(tc.InputError, match="n does not follow"):
        tc.compile(HEAD).infer(N=9)


# --- the function as an object ----------------------------------------------------------------


def test_repr() -> None:
    assert repr(tc.compile(HEAD)) == (
        "<tc head(float32(N) x, int32 n, int32 unused, float32 a) -> (y), backend numba>"
    )
    assert tc.compile(HEAD).__name__ == "head"


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_pickle(backend: str) -> None:
    source = tc.Source(MM + COPY, "both.tc")
    function = tc.compile(
        source, entry="mm", backend=backend, options=tc.Options(threads=1), check=False
    )
    function(A, B)
    for twin in (pickle.loads(pickle.dumps(function)), copy.deepcopy(function)):
        assert repr(twin) == repr(function)
        assert (twin.options, twin.check, twin.program.source) == (
            function.options,
            function.check,
            source,
        )
        np.testing.assert_array_equal(twin(A, B), A @ B)


def test_pickles_do_not_warn_again() -> None:
    """Rule N1."""
    with pytest.warns(tc.TCWarning, match="N1"):
        function = tc.compile("def f(float(W) W) -> (o) { o(i) = W(i) * W }", backend="interpret")
    pickle.loads(pickle.dumps(function))


def test_warnings_point_at_the_caller() -> None:
    """Rule N1."""
    with pytest.warns(tc.TCWarning, match=r"warning \[N1\]") as caught:
        tc.compile("def f(float(W) W) -> (o) { o(i) = W(i) * W }", backend="interpret")
    assert caught[0].filename == __file__


def test_inputs_called_self_and_inputs() -> None:
    text = "def f(float self, float inputs, float named) -> (o) { o = self + inputs * named }"
    function = tc.compile(text, backend="interpret")
    assert function(self=1, inputs=2, named=3) == 7
    assert function.infer(self=1, inputs=2, named=3)["o"].shape == ()


# --- failures of checked code -----------------------------------------------------------------


@pytest.mark.usefixtures("evaluating")
@pytest.mark.parametrize("backend", ["evaluate", "numba", NEEDS_C])
@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (GATHER, [ones(3), np.array([0, 2, 3, 9], np.int32)]),
        (
            "def f(float(N,M) x, int(K) I) -> (o) { o(a,b) +=! x(I(a), I(b) - j) where j in 0:2 }",
            [ones(3, 3), np.array([2, 1, 0], np.int32)],
        ),
        (
            "def f(int32(N) a, int32(N) b) -> (o) { o(i) = a(i) / b(i) }",
            [np.arange(3, dtype=np.int32), np.array([1, 0, 2], np.int32)],
        ),
        ("def f(int a, int b) -> (o) { o = a % b }", [1, 0]),
    ],
)
def test_failures_read_as_the_interpreter_has_them(text: str, inputs: Any, backend: str) -> None:
    """Rule G7."""
    with pytest.raises(tc.AccessError) as expected:
        tc.interpret(text, inputs)
    with pytest.raises(tc.AccessError) as caught:
        tc.compile(text, backend=backend)(*inputs)
    assert str(caught.value) == str(expected.value)


@pytest.mark.usefixtures("evaluating")
@pytest.mark.parametrize("backend", ["interpret", "evaluate"])
def test_absurd_sizes(backend: str) -> None:
    x = np.broadcast_to(np.float32(1), (2**31,))
    outer = "def f(float(N) a, float(M) b, float(K) c) -> (o) { o(i,j,k) = a(i) * b(j) * c(k) }"
    with pytest.raises(tc.RangeError, match=r"o would have the shape \(2147483648, "):
        tc.compile(outer, backend=backend)(x, x, x)


@pytest.mark.usefixtures("evaluating")
def test_out_of_memory() -> None:
    x = np.broadcast_to(np.float32(1), (2**27,))
    outer = "def f(float(N) a, float(M) b) -> (o) { o(i,j) = a(i) * b(j) }"
    with pytest.raises(tc.BackendError, match="not enough memory"):
        tc.compile(outer, backend="evaluate")(x, x)


# --- many threads -----------------------------------------------------------------------------


def test_threads_compile_once(evaluating: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    load = EvaluateBackend.load

    def slow(self: Any, text: Any) -> Any:
        time.sleep(0.05)
        return load(self, text)

    monkeypatch.setattr(EvaluateBackend, "load", slow)
    mm = tc.compile(MM, backend="evaluate")
    start = threading.Barrier(8)

    def call(_: int) -> Any:
        start.wait()
        return mm(A, B)

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(call, range(8)):
            np.testing.assert_array_equal(result, A @ B)
    assert len(evaluating.loaded) == 1


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_many_threads_many_shapes(backend: str) -> None:
    mm = tc.compile(MM, backend=backend)
    shapes = [(m, k) for m in (1, 5) for k in (1, 6)]

    def call(number: int) -> bool:
        m, k = shapes[number % len(shapes)]
        a, b = np.full((m, k), number, np.float32), ones(k, 3)
        out = np.empty((m, 3), np.float32)
        assert mm(a, b, outputs=out) is out
        return bool((out == number * k).all() and (mm(a, b) == number * k).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(64)))


# --- the package ------------------------------------------------------------------------------


def test_public_names() -> None:
    for name in tc.__all__:
        assert getattr(tc, name) is not None
        assert name in dir(tc)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tc.nothing  # noqa: B018


@pytest.mark.parametrize(
    "first", ["tc.backends.registry", "tc.api", "tc.backends.base", "tc.backends"]
)
def test_functions_win_over_modules_of_their_name(first: str) -> None:
    """`tc.backends` is a package too, and can be called whatever came first."""
    script = (
        f"import {first}, tc; print('interpret' in tc.backends()); "
        "print(tc.explain('def f() -> (o) { o() = 1 }', []).total.operations); "
        "import tc.backends.registry as r; print(r.names is tc.backends.registry.names)"
    )
    done = run_python(script)
    assert done.stdout.split() == ["True", "0", "True"], told(done)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    """Another thread may be compiling while the process forks; its lock is held in the child."""
    script = """
import os, signal, numpy as np, tc
f = tc.compile("def f(float(N) a) -> (o) { o(i) = 2 * a(i) }", backend="interpret")
f._specialiser.building.acquire()
pid = os.fork()
if pid == 0:
    signal.alarm(300)
    os._exit(int(f(np.ones(3, np.float32)).sum() != 6))
print(os.waitpid(pid, 0)[1])
"""
    done = run_python(script)
    assert done.stdout.strip() == "0", told(done)


def test_the_time_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6: of later calls, as often as there is time for, and of one at least."""
    function = tc.compile("def f(float(N) x) -> (y) { y(i) = y(i) + x(i) }")
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    found = function.time(x, outputs=y, seconds=0.0)
    assert found.measurements == 3
    assert 0 < found.fastest <= found.seconds == float(found)
    assert (y == y[0]).all()
    assert y[0] == 2 + found.measurements * found.calls  # after one to compile, and one to count by
    assert "s a call: the median of 3 measurements of " in str(found)

    clock = iter(range(1_000_000))
    monkeypatch.setattr(call_times.time, "perf_counter", lambda: float(next(clock)))
    slow = function.time(x, outputs=y, seconds=20.0)  # each look at the clock takes a second
    assert (slow.calls, slow.seconds, slow.fastest) == (1, 1.0, 1.0)
    assert 5 < slow.measurements < 10
    with pytest.raises(tc.InputError):
        function.time(x)
