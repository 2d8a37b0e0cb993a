"""Kernels on numba: memory, failures, and how they are run."""

from __future__ import annotations

import gc
import itertools
import math
import subprocess
import sys
import weakref

import numba
import numpy as np
import pytest
import scipy.special

import tc
from tc.backends import registry
from tc.backends.numba import backend
from tc.backends.numba.backend import NumbaBackend
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from tc.kernel.analysis.estimate import estimate
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Fail,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.runtime.thread_pool import ThreadPool
from tests.support.bounds import assert_computes
from tests.support.build import I, dense, integer, loop
from tests.support.exact import check
from tests.support.kernels import MATMUL, address, fresh, input_like, load, matmul, run

BACKEND = NumbaBackend()


# --- laziness and memory ----------------------------------------------------------------------


def test_only_the_branch_taken_is_evaluated() -> None:
    """Rule Y6: reads far outside of memory stand behind each kind of guard."""
    x = np.arange(8, dtype=np.float32)
    inside = Compare("<", I, integer(8))
    far = Binary("*", I, integer(1 << 40), INT64)
    wild = Load("a", (Binary("+", far, integer(-(1 << 60)), INT64),), FLOAT32)
    near = Load("a", (I,), FLOAT32)
    big = Compare(">", wild, Const(0.0, FLOAT32))
    outputs = (dense("s", FLOAT32, (8,), "output"), dense("c", BOOL, (8,), "output"))
    never = Compare("<", near, Const(-1.0, FLOAT32))  # known only when it runs
    body: tuple[Stmt, ...] = (
        Store("s", (I,), Select(never, wild, near, FLOAT32)),
        Store("c", (I,), Logical("&&", (inside, Logical("||", (Logical("!", (never,)), big))))),
        If(Logical("&&", (never, big)), (Store("s", (I,), wild),)),
    )
    kernel = Kernel("k", (input_like("a", x), *outputs), ((loop("i", 8, *body, parallel=True),),))
    _, arrays = run(load(BACKEND, kernel), {"a": x})
    check(arrays["s"], x, "select")
    assert arrays["c"].all()


@pytest.mark.parametrize("extent", [1, 5, 64])
def test_layouts_of_inputs(extent: int) -> None:
    """Rule N2: reversed, broadcast and transposed inputs are read in place."""
    base = np.arange(4 * extent, dtype=np.float64).reshape(4, extent)
    views = {
        "reversed": base[::-1, ::-1],
        "every second": base[::2],
        "broadcast": np.broadcast_to(base[1], (3, extent)),
        "transposed": np.ascontiguousarray(base.T).T,
    }
    j = Var("j", INT64)
    for name, view in views.items():
        rows = view.shape[0]
        body = loop("j", extent, Store("o", (I, j), Load("a", (I, j), FLOAT64)))
        buffers = (input_like("a", view), dense("o", FLOAT64, (rows, extent), "output"))
        kernel = Kernel("k", buffers, ((loop("i", rows, body, parallel=True),),))
        _, arrays = run(load(BACKEND, kernel), {"a": view})
        check(arrays["o"], np.ascontiguousarray(view), name)


def test_locals_regions_and_temporaries() -> None:
    """Let, Set and If, a value handed from region to region, and bounds from a Let."""
    x = np.arange(12, dtype=np.int32).reshape(3, 4) - 5
    j = Var("j", INT64)
    total = Var("total", INT32)
    cell = Load("a", (I, j), INT32)
    body = (
        Let("total", Const(0, INT32)),
        For(
            "j",
            integer(0),
            Binary("+", I, integer(2), INT64),
            (
                If(
                    Compare("<", cell, Const(0, INT32)),
                    (Set("total", Binary("-", total, cell, INT32)),),
                    (Set("total", Binary("+", total, cell, INT32)),),
                ),
            ),
        ),
        Store("t", (I,), total),
    )
    extent = Let("n", Cast(Load("n0", (), INT32), INT64))
    copy = Store("o", (I,), Binary("*", Load("t", (I,), INT32), Const(2, INT32), INT32))
    kernel = Kernel(
        "k",
        (
            input_like("a", x),
            Buffer("n0", INT32, (), (), "input"),
            dense("o", INT32, (3,), "output"),
            dense("t", INT32, (3,), "temporary"),
        ),
        (
            (loop("i", 3, *body, parallel=True),),
            (extent, For("i", integer(0), Var("n", INT64), (copy,), parallel=True)),
        ),
    )
    _, arrays = run(load(BACKEND, kernel), {"a": x, "n0": np.array(3, np.int32)})
    assert arrays["o"].tolist() == [2 * int(np.abs(x[i, : i + 2]).sum()) for i in range(3)]


def test_empty_ranges_and_buffers() -> None:
    body = Store("o", (I,), Load("a", (I,), FLOAT32))
    empty = np.zeros((0,), np.float32)
    buffers = (input_like("a", empty), dense("o", FLOAT32, (0,), "output"))
    backwards = For("i", integer(3), integer(-3), (body,), parallel=True)
    kernel = Kernel("k", buffers, ((loop("i", 0, body, parallel=True),), (backwards,), ()))
    compiled = load(BACKEND, kernel)
    assert compiled.run([0, 0]) is None


# --- failures (G7) ----------------------------------------------------------------------------


def gather(extent: int, parallel_work: int = 1) -> Kernel:
    """o(i) = a(p(i)), and 7 where p(i) is outside, after `parallel_work` rounds of additions."""
    place = Load("p", (I,), INT64)
    outside = Logical(
        "||", (Compare("<", place, integer(0)), Compare(">=", place, integer(extent)))
    )
    value = Var("value", FLOAT64)
    work = loop("w", parallel_work, Set("value", Binary("+", value, Const(0.5, FLOAT64), FLOAT64)))
    body = (
        Let("value", Const(0.0, FLOAT64)),
        work,
        If(
            outside,
            (Fail(0, (I, place)), Set("value", Const(7.0, FLOAT64))),
            (Set("value", Load("a", (place,), FLOAT64)),),
        ),
        Store("o", (I,), value),
    )
    divided = If(Compare("==", I, integer(extent - 1)), (Fail(1, (I,)),))
    return Kernel(
        "gather",
        (
            dense("a", FLOAT64, (extent,), "input"),
            dense("p", INT64, (extent,), "input"),
            dense("o", FLOAT64, (extent,), "output"),
        ),
        ((loop("i", extent, *body, parallel=True),), (loop("i", extent, divided, parallel=True),)),
        (Site("read", 0, 0, ("i",)), Site("division", 1, 1, ("i",))),
    )


def test_first_failure_in_the_order_of_the_loops() -> None:
    """Rule G7: the same failure on any number of threads, and none left for the next call."""
    extent = 300
    kernel = gather(extent, parallel_work=1000)
    assert estimate(kernel).flops > 1 << 16
    compiled = load(BACKEND, kernel)
    places = np.arange(extent)
    places[[120, 121, 299]] = [-5, 300, 1 << 60]
    given = {"a": np.ones(extent), "p": places}
    for threads in (None, 1, 2, 7):
        failure, _ = run(compiled, given, threads)
        assert failure == Failure(0, (120, -5))
    places[:] = 3
    for threads in (None, 1):
        failure, arrays = run(compiled, given, threads)
        assert failure == Failure(1, (extent - 1,))  # of the second region, with one value
        assert (arrays["o"] == 1.0).all()
    assert failure == evaluate(kernel, fresh(kernel, given))


# --- how kernels are run ----------------------------------------------------------------------


def test_same_bits_whatever_the_threads() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    compiled = load(BACKEND, matmul(96, 96, 96))
    results = [
        run(compiled, {"A": a, "B": b}, threads)[1]["C"] for threads in (1, 2, 3, None, None)
    ]
    for one, other in itertools.pairwise(results):
        np.testing.assert_array_equal(one, other)
    assert_computes(MATMUL, [a, b], results[0], a.astype("float64") @ b)


class Recorder(ThreadPool):
    """Notes the numbers of parts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[int] = []

    def launch(self, *args: int) -> bool:
        self.parts.append(args[4])
        return super().launch(*args)


def test_threads_only_where_they_pay_and_never_more(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(backend, "pool", lambda: recorder)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 6)
    given = {"A": np.ones((96, 96), np.float32), "B": np.ones((96, 96), np.float32)}
    large = load(BACKEND, matmul(96, 96, 96))
    for threads in (None, 1, 2, 100):
        _, arrays = run(large, given, threads)
        assert (arrays["C"] == 96).all()
    assert recorder.parts == [6, 2, 6]
    run(load(BACKEND, matmul(4, 4, 4)), {n: a[:4, :4].copy() for n, a in given.items()})
    assert len(recorder.parts) == 3


def test_where_no_pool_can_be_made_kernels_run_serially(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked child that cannot compile."""

    def refuse() -> ThreadPool:
        raise tc.BackendError("stranded")

    monkeypatch.setattr(backend, "pool", refuse)
    given = {"A": np.ones((96, 96), np.float32), "B": np.ones((96, 96), np.float32)}
    assert (run(load(BACKEND, matmul(96, 96, 96)), given)[1]["C"] == 96).all()


def test_parts_cover_a_loop_once() -> None:
    """Each number of parts of each extent, also more parts than iterations."""
    for extent in (1, 2, 7):
        o = dense("o", INT64, (extent,), "output")
        once = Store("o", (I,), Binary("+", Load("o", (I,), INT64), integer(1), INT64))
        kernel = Kernel("k", (o,), ((loop("i", extent, once, parallel=True),),))
        compiled = BACKEND.load(BACKEND.emit(kernel))
        ((function, _, _),) = compiled.regions.steps
        for parts in range(1, 10):
            counts = np.zeros(extent, np.int64)
            arguments = np.array([address(counts)])
            for part in range(parts):
                function(address(arguments), 0, part, parts)
            assert (counts == 1).all()


def test_kernels_can_be_collected() -> None:
    compiled = load(BACKEND, matmul(2, 3, 4))
    kernel = weakref.ref(compiled)
    owner = weakref.ref(compiled.code.machine.owner)  # type: ignore[attr-defined]  # of numba
    del compiled
    gc.collect()
    assert kernel() is None
    assert owner() is None


def test_a_kernel_without_helpers_imports_none() -> None:
    """tc.backends.numba.math compiles with numba, which would add to each program's first call."""
    assert "math" not in str(BACKEND.emit(matmul(2, 3, 4)))


FIRST_CALL = """
import sys
import numpy as np
import tc
print(*tc.compile({text!r})(np.ones(40, np.float32))[:2])
print(*[name for name in ("tc.backends.numba.math", "scipy.special") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("2 * x(i)", ""),
        ("remainder(x(i), 4.0)", "tc.backends.numba.math"),
        ("erfcx(x(i))", "tc.backends.numba.math scipy.special"),
    ],
)
def test_a_first_call_imports_what_its_functions_need(text: str, loaded: str) -> None:
    """scipy takes 0.1 s to import, and few programs have a function that it computes."""
    given = FIRST_CALL.format(text=f"def f(float(N) x) -> (o) {{ o(i) = {text} }}")
    done = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, check=True)
    first, modules = done.stdout.splitlines()
    expected = {"2": 2.0, "r": math.remainder(1.0, 4.0), "e": scipy.special.erfcx(1.0)}[text[0]]
    assert [float(number) for number in first.split()] == pytest.approx([expected] * 2, rel=1e-6)
    assert modules == loaded


def test_the_registry_knows_it() -> None:
    backend = registry.get("numba")
    assert isinstance(backend, NumbaBackend)
    assert backend.usable() is None
    assert backend.checks_by_default
    assert "numba" in sys.modules
