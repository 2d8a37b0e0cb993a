"""Candidates are compiled, checked and timed in other processes; the best is what was faster than
the default in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from tc.backends import registry
from tc.backends.base import Backend
from tc.errors import AccessError
from tc.options import MappingOptions, Options
from tc.pipeline import check_module, parse_source, shape_program
from tc.runtime.sizes import CallSizes
from tc.semantics.index_values import IndexValues, index_values
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.interpreter import interpret
from tc.source import Source
from tc.tuning.measure import Limits, Measurer
from tc.tuning.measuring.references import KINDS, POSITIVE, SIGNED, WHOLE, drawn_inputs
from tc.tuning.problem import Problem
from tests.support.faulty_backend import FaultyBackend, while_running

TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
LIMITS = Limits(compile_seconds=30, run_seconds=30, timing_seconds=0.02, memory=1 << 30)


def problem_of(text: str, backend: Backend, **shapes: tuple[int, ...]) -> Problem:
    program = check_module(parse_source(Source(text)), None)
    return Problem.of(program, CallSizes(shapes, {}), backend, check=True)


@pytest.fixture(scope="module")
def twice() -> Iterator[Measurer]:
    backend = FaultyBackend()
    problem = problem_of(TWICE, backend, x=(40,))
    with Measurer(problem, backend, limits=LIMITS, workers=1) as measurer:
        yield measurer


def test_the_default_is_measured_first(twice: Measurer) -> None:
    assert twice.default.failure is None
    assert twice.default.options == Options()
    assert twice.default.time == 0.002


def test_a_faster_candidate_becomes_the_best(twice: Measurer) -> None:
    fast, slow = while_running("be_fast"), while_running("be_slow")
    trials = {trial.options: trial for trial in twice.measure([slow, fast])}
    assert trials[slow].seconds == (0.04,)  # and not repeated
    assert set(trials[fast].seconds) == {0.001}
    assert len(trials[fast].seconds) > 1
    assert twice.best == trials[fast]
    assert twice.confirm() == trials[fast]


def test_what_is_slower_does_not(twice: Measurer) -> None:
    before = twice.best
    (trial,) = twice.measure([Options()])
    assert trial == twice.default
    assert twice.best == before


def test_what_is_sometimes_faster_does_not() -> None:
    backend = FaultyBackend()
    problem = problem_of(TWICE, backend, x=(40,))
    with Measurer(problem, backend, limits=LIMITS, workers=1) as measurer:
        alike, moved = measurer.measure([while_running("be_alike"), while_running("move_clock")])
        assert alike.failure is None
        assert len(set(alike.seconds)) > 1
        assert moved.time == 0.002
        assert measurer.best == measurer.default


def test_a_winner_is_checked_in_turns_too(twice: Measurer) -> None:
    """It is wrong after more calls than its own timing takes."""
    (trial,) = twice.measure([while_running("be_fast_and_wrong_later")])
    assert trial.failure is not None
    assert trial.failure.startswith("it is wrong: y")
    assert twice.best.options != trial.options


def test_what_cannot_be_compiled_is_told(twice: Measurer) -> None:
    (trial,) = twice.measure([Options(mapping=MappingOptions(rows=99))])
    assert trial.failure == (
        "it cannot be compiled: rows=99 times vectors=1 are 99 accumulators, but of 16 vector "
        "registers 14 can be accumulators"
    )


def test_time_ends_it(twice: Measurer) -> None:
    """Trials come as long as there is time; one that is under way is dropped."""
    begin = time.perf_counter()
    many = (Options(mapping=MappingOptions(unroll=n)) for n in range(1, 4000))
    found = list(twice.measure(many, until=begin + 1))
    assert time.perf_counter() - begin < 5
    assert len(found) < 1000


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["numba", "c"])
def test_a_product_of_matrices(name: str) -> None:
    backend = registry.get(name)
    assert isinstance(backend, Backend)
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    problem = problem_of(text, backend, A=(60, 70), B=(70, 50))
    with Measurer(problem, backend, limits=LIMITS) as measurer:
        naive = Options.preset("naive")
        (trial,) = measurer.measure([naive])
        assert trial.failure is None
        assert trial.time > measurer.default.time
        assert measurer.confirm() == measurer.default


def test_real_inputs_that_fail() -> None:
    backend = FaultyBackend()
    text = "def g(float(N) x, int(M) at) -> (y) { y(i) = x(at(i)) }"
    problem = problem_of(text, backend, x=(10,), at=(3,))
    inputs = {"x": np.zeros(10, np.float32), "at": np.array([0, 10, 0], np.int32)}
    with (
        pytest.raises(AccessError, match=r"reads x\(10\), but x has shape"),
        Measurer(problem, backend, limits=LIMITS, inputs=inputs),
    ):
        pass


def test_a_pool_of_processes_compiles() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert_best_of(pool)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_cluster_of_dask_compiles() -> None:
    """Whose workers are processes of their own, as on other machines."""
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
        assert_best_of(client.get_executor(pure=False))


def assert_best_of(executor: Executor) -> None:
    """A candidate that an executor compiled is measured, and is the best."""
    backend = FaultyBackend()
    problem = problem_of(TWICE, backend, x=(40,))
    with Measurer(problem, backend, limits=LIMITS, executor=executor) as measurer:
        (trial,) = measurer.measure([while_running("be_fast")])
        assert trial.failure is None
        assert trial.time == 0.001
        assert measurer.best == trial


# --- Inputs that are drawn: the program can run on them.


def shaped_of(text: str, **shapes: tuple[int, ...]) -> ShapedProgram:
    program = check_module(parse_source(Source(text)), None)
    return shape_program(program, CallSizes(shapes, {}))


@pytest.mark.parametrize(
    ("subscript", "limits"),
    [
        ("at(i)", (0, 9)),
        ("at(i) + 3", (-3, 6)),
        ("2 * at(i) - 1", (1, 5)),
        ("4 - at(i)", (-5, 4)),
        ("at(i) - i", (39, 9)),  # none does for all i
        ("int64(at(i)) + k", (0, 7)),
    ],
)
def test_places_to_read_at(subscript: str, limits: tuple[int, int]) -> None:
    text = f"def g(float(N) x, int(M) at) -> (y) {{ y(i) +=! x({subscript}) * k where k in 0:3 }}"
    found = index_values(shaped_of(text, x=(10,), at=(40,)))
    assert found == {"at": IndexValues(*limits)}


def test_the_strictest_of_several_reads_counts() -> None:
    text = """def g(float(N) x, float(N,K) T, int(M) at) -> (y) {
        y(i,k) = T(at(i), k) + x(at(i) + 2) + x(at(i) - 1)
    }"""
    shaped = shaped_of(text, x=(10,), T=(10, 4), at=(200,))
    assert index_values(shaped) == {"at": IndexValues(1, 7)}
    at = drawn_inputs(shaped, SIGNED, 0)["at"]
    assert set(at.tolist()) == set(range(1, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_bags_can_be_interpreted(kind: str) -> None:
    text = "def bag(float(V,D) T, uint8(B,L) at) -> (y) { y(b,d) +=! T(at(b,l), d) }"
    shaped = shaped_of(text, T=(300, 4), at=(5, 9))
    inputs = drawn_inputs(shaped, kind, 1)
    expected = inputs["T"][inputs["at"]].sum(1, dtype=np.float64)
    found = interpret(shaped, inputs, {})["y"]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_kinds_of_numbers() -> None:
    text = """def f(float(N) a, half(N) b, int8(N) c, bool(N) d, double s) -> (y) {
        y(i) = a(i) + b(i) + c(i) + (d(i) ? s : 0)
    }"""
    shaped = shaped_of(text, a=(400,), b=(400,), c=(400,), d=(400,), s=())
    signed, positive, whole = (drawn_inputs(shaped, kind, 0) for kind in (SIGNED, POSITIVE, WHOLE))
    for name in ("a", "b"):
        assert set(np.sign(signed[name]).tolist()) == {-1, 1}
        assert np.abs(signed[name]).min() >= 0.25
        assert positive[name].min() >= 0.25
        assert set(whole[name].tolist()) == {-2, -1, 1, 2}
    assert [a.dtype for a in signed.values()] == ["float32", "float16", "int8", "bool", "float64"]
    assert set(signed["c"].tolist()) == {1, 2, 3, 4}
    assert set(signed["d"].tolist()) == {False, True}
    assert signed["s"].shape == ()


def test_a_seed_draws_the_same() -> None:
    shaped = shaped_of("def f(float(N) a) -> (y) { y(i) = a(i) }", a=(40,))
    first, again, other = (drawn_inputs(shaped, SIGNED, seed)["a"] for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
