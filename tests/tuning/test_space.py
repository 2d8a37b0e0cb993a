"""Candidates of programs: points at random are kernels, or refused with a reason."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tc
from tc.backends import registry
from tc.backends.base import Backend
from tc.pipeline import trace
from tc.runtime.sizes import CallSizes, resolve_sizes
from tc.tuning.measuring import profiling
from tc.tuning.measuring.profiling import difference
from tc.tuning.problem import Problem
from tc.tuning.search import FAILED, SEARCHES, Search, fitted, search_named
from tc.tuning.space import KNOWN, NAMES, Candidate, RefusedPoint, SearchSpace
from tests.support.bounds import is_within
from tests.support.pipeline import checked
from tests.support.tunings import tiled

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
ROW_SUM = "def rows(float(N,M) x) -> (s) { s(i) +=! x(i,j) }"
NUMBA = "numba"


def backend_of(name: str) -> Backend:
    found = registry.get(name)
    assert isinstance(found, Backend)
    return found


def space_of(text: str = MM, backend: str = NUMBA, **sizes: int) -> SearchSpace:
    program = checked(text)
    wanted = {"M": 70, "K": 50, "N": 90} if text == MM else sizes
    found: CallSizes = resolve_sizes(program, wanted)
    own = backend_of(backend)
    return SearchSpace(Problem.of(program, found, own, check=False), own)


def row_sums() -> SearchSpace:
    return space_of(ROW_SUM, N=60, M=300)


def tried(search: Search, number: int) -> list[Candidate]:
    """Candidates of a search that is told times, the faster the fewer vector loads there are."""
    found = []
    for _ in range(number):
        candidate = search.ask()
        if candidate is None:
            break
        found.append(candidate)
        loads = candidate.features[NAMES.index("vector loads")]
        failed = "option threads" in candidate.point and len(found) % 2
        search.tell(candidate, FAILED if failed else 1e-3 * (1 + loads))
    return found


def test_the_default_is_what_tc_chooses() -> None:
    space = space_of()
    backend = backend_of(NUMBA)
    sizes = space.problem.sizes
    own = trace(checked(MM).source, "mm", lambda _: sizes, backend, tc.Options(), check=False)
    assert space.default.options == tc.Options(plan=own.lowering.mapped.plan)
    assert space.make({}) is space.default
    assert {"option fusion", "S0.init, S0: vectors along", "S0.init, S0: rows"} < {*space.genes}
    assert space.size > 10_000


def test_points_that_differ_in_nothing_are_one_candidate() -> None:
    space = space_of()
    same = space.make({"S0.init, S0: no such loop": "7", "option fusion": "max"})
    assert same == space.default
    other = space.make({"S0.init, S0: rows": "2"})
    assert isinstance(other, Candidate)
    assert other != space.default
    assert other.options.plan != space.default.options.plan


def test_what_the_device_has_no_room_for_is_refused() -> None:
    """All candidates of processors are kernels; on GPUs resources are bounded."""
    space = space_of(backend="cuda")
    given = tc.Options(gpu=tc.GpuOptions(threads=(2048,)))
    refused = SearchSpace(space.problem, space.backend, given).make({})
    assert isinstance(refused, RefusedPoint)
    assert "2048" in refused.reason
    with pytest.raises(tc.BackendError, match="2048"):
        _ = SearchSpace(space.problem, space.backend, given).default


@pytest.mark.parametrize("backend", ["numba", "c", "opencl", "cuda"])
def test_any_point_is_a_candidate(backend: str) -> None:
    space, rng = space_of(ROW_SUM, backend, N=60, M=300), random.Random(backend)
    for _ in range(12):
        point = {n: rng.choice(v) for n, v in sorted(space.genes.items()) if rng.random() < 0.4}
        found = space.make(point)
        assert isinstance(found, Candidate)
        assert found.options.plan is not None


def decisive(space: SearchSpace) -> set[str]:
    """The decisions of a default of which some other value gives another kernel."""
    default, found = space.default, set()
    for name, values in dict(space.genes).items():
        others = [space.make({name: value}) for value in values[1:3] + values[-1:]]
        if any(isinstance(o, Candidate) and o.digest != default.digest for o in others):
            found.add(name.split(": ")[-1])
    return found


def test_what_is_decided_for_gpus() -> None:
    """The parameters of the paper are among them: tiles, blocks, threads, both memories, copies
    unrolled, the unrolling and the fusion."""
    assert decisive(space_of(backend="cuda")) >= {
        "order of blocks",
        "tile of m",
        "tile of n",
        "blocks along x",
        "blocks along y",
        "threads along x run",
        "threads along x",
        "threads along y",
        "C in registers",
        "steps at a time",
        "stages",
        "A in shared memory",
        "B in shared memory",
        "rows of A odd",
        "option unroll",
    }
    assert {"option unroll_copies", "option fusion"} < {*space_of(backend="cuda").genes}


def test_what_is_decided_for_convolutions() -> None:
    text = """def conv(float(C,H,W) I, float(M,C,3,3) K) -> (O) {
      O(m,h,w) +=! pad(I(c,h+kh-1,w+kw-1), 0) * K(m,c,kh,kw) where h in 0:H, w in 0:W
    }"""
    assert decisive(space_of(text, C=8, H=30, W=30, M=8)) >= {
        "order of the sum",
        "I copied with its padding",
        "rows unrolled",
    }


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_are_reproducible(name: str) -> None:
    runs = [tried(search_named(name, row_sums(), seed), 12) for seed in (3, 3, 4)]
    first, again, other = ([c.digest for c in run] for run in runs)
    assert first == again
    assert first != other
    assert len({*first}) == len(first) == 12
    assert first[0] == other[0] == row_sums().default.digest


@pytest.mark.parametrize("name", SEARCHES)
def test_the_best_is_what_ran_fastest(name: str) -> None:
    search = search_named(name, row_sums(), 1)
    assert search.best is None
    found = tried(search, 10)
    times = {c.digest: search.times[c.digest] for c in found}
    assert search.best is not None
    assert times[search.best.digest] == min(times.values()) < FAILED
    ranked = [times[candidate.digest] for candidate in search.ranked()]
    assert ranked == sorted(time for time in times.values() if time < FAILED)


def test_a_program_without_a_choice_ends() -> None:
    text = "def one(float a) -> (b) { b = a + 1 }"
    search = search_named("random", space_of(text), 0)
    assert len(tried(search, 9)) < 9
    assert search.ask() is None


def test_unknown_searches_are_refused() -> None:
    with pytest.raises(tc.BackendError) as caught:
        search_named("annealing", space_of(), 0)
    assert str(caught.value) == (
        "BackendError: no search 'annealing'; there are 'genetic', 'guided', 'random'\n"
        'repair: search="guided"'
    )


def test_the_model_orders_what_it_has_seen() -> None:
    """Times that are a product of powers of counts are found again."""
    rng = random.Random(0)
    points = [tuple(rng.random() for _ in range(3)) for _ in range(30)]
    model = fitted({p: 2.7**(2 * p[0] - p[1]) for p in points}, ridge=1e-6)  # fmt: skip
    ordered = sorted(points, key=model)
    assert ordered == sorted(points, key=lambda p: 2 * p[0] - p[1])


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_searches_begin_with_the_plans_that_are_known(name: str) -> None:
    plain = space_of()
    wrong, other = tiled("q", 4), replace(tiled("m", 5), mapping=tc.MappingOptions(unroll=64))
    same = plain.default.options
    known = (same, wrong, tiled("m", 7), other)
    search = search_named(name, SearchSpace(plain.problem, plain.backend, known=known), 1)
    first, second, third, fourth = tried(search, 4)
    assert first.options == same
    assert second.options == tiled("m", 7)
    assert third.options == other
    assert fourth.point != third.point
    assert KNOWN not in search.space.genes
    assert isinstance(search.space.make(search.space.seeds[1]), RefusedPoint)
    more = search.space.make({**second.point, "option unroll": "64", "rows": "3"})
    assert isinstance(more, Candidate)
    assert more.options == replace(tiled("m", 7), mapping=tc.MappingOptions(unroll=64))


# --- Results are compared as tests do, and what differs is told.


SHAPE = (3, 4)


@given(st.data(), st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]))
def test_agrees_with_the_comparison_of_tests(data: st.DataObject, dtype: str) -> None:
    actual = data.draw(arrays(dtype, SHAPE))
    expected = data.draw(st.one_of(st.just(actual), arrays(dtype, SHAPE)))
    bounds = data.draw(arrays("float64", SHAPE, elements=st.floats(0, allow_nan=False)))
    found = profiling.is_within(actual, expected, bounds)
    assert (found == is_within(actual, expected, bounds)).all()
    wrong = difference("y", actual, expected, bounds)
    assert (wrong is None) == bool(found.all())


def test_large_arrays_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "_BLOCK_ELEMENTS", 5)
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    actual = expected.copy()
    actual[1, 3], actual[2, 2] = np.nan, 11
    assert difference("y", actual, expected, np.zeros(())) == (
        "y(1, 3) is nan, and has to be within 0 of 7.0 (2 of 12 elements are wrong)"
    )
