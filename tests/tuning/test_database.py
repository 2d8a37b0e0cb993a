"""The tuning database: what is kept, what is found again, by whom, and in which order."""

from __future__ import annotations

import os
import time
from math import log2
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.device import Device, host, processor_name
from tc.tuning.canonical import CanonicalCall
from tc.tuning.database import TuningDatabase
from tc.tuning.known_plans import StoredPlan, _distances
from tc.tuning.problem import Problem, Trial
from tests.support.tunings import DEVICE, MM, SIZES, measurement_of, problem_of, tiled


@pytest.fixture
def database(tmp_path: Path) -> TuningDatabase:
    return TuningDatabase(tmp_path / "made" / "tuned.db")


def sizes_of(found: StoredPlan | None) -> tuple[int, ...] | None:
    """The sizes of the one tiled loop in a plan made by `tiled`."""
    if found is None:
        return None
    assert found.options.plan is not None
    (part,) = found.options.plan.parts
    (action,) = part.actions
    assert isinstance(action, tc.plan.Tile)
    return action.sizes


def tiles(
    database: TuningDatabase, problem: Problem, device: Device = DEVICE
) -> list[tuple[int, ...] | None]:
    return [sizes_of(found) for found in database.plans(problem, device)]


def test_what_is_recorded_is_found(database: TuningDatabase) -> None:
    problem = problem_of()
    assert not database.exists
    assert database.best(problem, host()) is None
    assert not database.path.parent.exists()  # reading makes nothing
    before = time.time()
    trial = Trial(tiled("i", 8), (0.25, 0.5, 0.75))
    assert database.record(problem, host(), trial, search="genetic", seed=2**70, confirmed=True)
    (kept,) = database.measurements()
    assert (kept.problem, kept.trial, kept.search) == (problem, trial, "genetic")
    assert (kept.seed, kept.confirmed) == (2**70, True)
    assert before <= kept.at <= time.time()
    assert kept.versions.keys() == {"tc", "numpy", "numba", "llvmlite", "islpy", "compiler"}
    assert kept.versions["numpy"] == np.__version__
    assert kept.device["kind"] == "processor"
    assert kept.device["name"] == processor_name()
    assert kept.device["threads"] == host().threads
    best = database.best(problem, host())
    assert best is not None
    assert best.options == trial.options


def test_only_the_user_may_look(database: TuningDatabase) -> None:
    before = os.umask(0)
    try:
        database.add([measurement_of(None, None, 1.0)])
    finally:
        os.umask(before)
    modes = [oct(p.stat().st_mode & 0o777) for p in (database.path.parent, database.path)]
    assert modes == ["0o700", "0o600"]


def test_the_fastest_comes_first_and_failures_never(database: TuningDatabase) -> None:
    problem = problem_of()
    database.add(
        [
            measurement_of(problem, tiled("i", 4), 3.0, 2.0, 100.0),
            measurement_of(problem, tiled("i", 8), 1.0, 2.0, 2.5),
            measurement_of(problem, tiled("i", 16), failure="killed after 5 s"),
            measurement_of(problem, tiled("i", 2), 0.5, at=1.0),
            measurement_of(problem, tiled("i", 2), failure="is wrong", at=2.0),
        ]
    )
    assert tiles(database, problem) == [(8,), (4,)]


def test_what_was_measured_twice_counts_by_its_mean(database: TuningDatabase) -> None:
    problem = problem_of()
    database.add(
        [
            measurement_of(problem, tiled("i", 8), 1.0, at=1.0),
            measurement_of(problem, tiled("i", 8), 3.0, at=2.0),
            measurement_of(problem, tiled("i", 4), 1.9, at=3.0),
        ]
    )
    assert tiles(database, problem) == [(4,), (8,)]


def test_confirmed_plans_come_first_by_their_confirmed_times(database: TuningDatabase) -> None:
    problem = problem_of()
    database.add(
        [
            measurement_of(problem, tiled("i", 2), 0.5),
            measurement_of(problem, tiled("i", 4), 0.6),
            measurement_of(problem, tiled("i", 8), 0.7),
            measurement_of(problem, tiled("i", 4), 1.1, confirmed=True),
            measurement_of(problem, tiled("i", 8), 1.0, confirmed=True),
        ]
    )
    assert tiles(database, problem) == [(8,), (4,), (2,)]


def test_the_same_measurement_is_kept_once(database: TuningDatabase) -> None:
    one, other = measurement_of(None, None, 1.0), measurement_of(None, None, 1.0, at=3.0)
    assert database.add([one, one]) == 1
    assert database.add([one, other]) == 1
    assert list(database.measurements()) == [one, other]


@pytest.mark.parametrize(
    "other",
    [
        problem_of(MM.replace("float", "double")),
        problem_of(MM.replace("+=!", "max=!")),
        problem_of(MM.replace("B(k,j)", "B(k,j) + 1")),
        problem_of(MM.replace("* B(k,j)", "* B(k,j) * 2")),
        problem_of(MM.replace("B(k,j)", "B(k,j) where k in 0:K")),
        problem_of("def mm(float(K,M) A, float(K,N) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }"),
        problem_of(backend="c"),
        problem_of(MM, [np.ones((64, 48), np.float32, order="F"), np.ones((48, 40), np.float32)]),
        problem_of(MM, {**SIZES, "N": 40 * 5}),
    ],
    ids=[
        "type",
        "op",
        "term",
        "factor",
        "where",
        "transposed",
        "backend",
        "strides",
        "far",
    ],
)
def test_what_differs_is_not_found(database: TuningDatabase, other: Problem) -> None:
    database.add([measurement_of(problem_of(), tiled("i", 8), 1.0)])
    assert tiles(database, problem_of()) == [(8,)]
    assert tiles(database, other) == []


def test_checks_matter_where_there_are_any(database: TuningDatabase) -> None:
    gather = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
    for text, sizes in ((MM, SIZES), (gather, {"N": 8, "M": 9})):
        database.add([measurement_of(problem_of(text, sizes), tiled("i", 8), 1.0)])
    assert tiles(database, problem_of(check=False)) == [(8,)]
    assert tiles(database, problem_of(gather, {"N": 8, "M": 9})) == [(8,)]
    assert tiles(database, problem_of(gather, {"N": 8, "M": 9}, check=False)) == []


def test_plans_measured_with_the_same_outputs_come_first(database: TuningDatabase) -> None:
    passed = problem_of(given=frozenset({"C"}))
    database.add(
        [
            measurement_of(problem_of(), tiled("i", 8), 1.0),
            measurement_of(passed, tiled("i", 4), 2.0),
        ]
    )
    assert tiles(database, problem_of()) == [(8,), (4,)]
    assert tiles(database, passed) == [(4,), (8,)]


def test_options_have_plans_of_their_own(database: TuningDatabase) -> None:
    one = tc.Options(threads=1)
    device = Device(vector_bits=256, threads=2)
    database.add([measurement_of(None, tiled("i", 8), 1.0, base=one)])
    assert database.best(problem_of(), device) is None
    assert sizes_of(database.best(problem_of(), device, one)) == (8,)
    (kept,) = database.measurements()
    assert kept.base == one
    assert database.record(problem_of(), device, Trial(tiled("i", 4), (0.5,)), base=one)
    assert sizes_of(database.best(problem_of(), device, one)) == (4,)
    tc.set_threads(1)  # is the same, and no options say otherwise
    try:
        assert sizes_of(database.best(problem_of(), device)) == (4,)
    finally:
        tc.set_threads(None)
    gpus = tc.Options(gpu=tc.GpuOptions(threads=(32,)), threads=2)  # makes no difference here
    assert database.record(problem_of(), device, Trial(tiled("i", 2), (0.5,)), base=gpus)
    assert sizes_of(database.best(problem_of(), device)) == (2,)


@pytest.mark.parametrize(
    "device",
    [
        Device(vector_bits=512, threads=2),
        Device(vector_bits=256, threads=4),
        Device(vector_bits=256, threads=2, l2=1 << 20),
        tc.Gpu(),
    ],
)
def test_devices_of_another_kind_have_plans_of_their_own(
    database: TuningDatabase, device: Device
) -> None:
    database.add([measurement_of(problem_of(), tiled("i", 8), 1.0)])
    assert tiles(database, problem_of(), Device(vector_bits=256, threads=2, gflops=9.0)) == [(8,)]
    assert tiles(database, problem_of(), device) == []


def test_distances_are_those_of_the_extents_one_by_one() -> None:
    generator = np.random.default_rng(3)
    shapes = generator.integers(0, 9, (200, 4)).tolist()
    call = CanonicalCall("", "numba", False, ((4, 3), (3, 5)), (), (), ())
    found = list(_distances(call, [(shape[:2], shape[2:]) for shape in shapes]))
    for shape, far in zip(shapes, found, strict=True):
        pairs = list(zip(shape, (4, 3, 3, 5), strict=True))
        if all(there and 1 / 4 <= there / own <= 4 for there, own in pairs):
            assert far == pytest.approx(sum(abs(log2(there / own)) for there, own in pairs))
        else:
            assert far is None
    assert 20 < found.count(None) < 180


def test_the_nearest_sizes_come_after_the_same(database: TuningDatabase) -> None:
    def problem(n: int, m: int = 64) -> Problem:
        return problem_of(MM, {"M": m, "K": 48, "N": n})

    database.add(
        [
            measurement_of(problem(150), tiled("i", 2), 1.0),
            measurement_of(problem(80), tiled("i", 4), 1.0),
            measurement_of(problem(80), tiled("i", 5), 0.9),
            measurement_of(problem(160), tiled("i", 8), 9.0),
            measurement_of(problem(160), tiled("i", 9), 8.0),
            measurement_of(problem(100), tiled("i", 16), failure="crashed"),
            measurement_of(problem(120, 128), tiled("i", 32), 0.1),
        ]
    )
    assert tiles(database, problem(160)) == [(9,), (8,), (2,), (5,), (32,)]
    why = [found.why for found in database.plans(problem(160), DEVICE)]
    assert why == [
        "the fastest of 2 plans measured for these sizes: 8 s on 2023-11-14",
        "the fastest of 2 plans measured for these sizes: 9 s on 2023-11-14",
        "the only plan measured for A(64, 48), B(48, 150), the nearest sizes that were tuned: "
        "1 s on 2023-11-14 there",
        "the fastest of 2 plans measured for A(64, 48), B(48, 80), the nearest sizes that were "
        "tuned: 900 ms on 2023-11-14 there",
        "the only plan measured for A(128, 48), B(48, 120), the nearest sizes that were tuned: "
        "100 ms on 2023-11-14 there",
    ]
    assert tiles(database, problem(20)) == [(5,)]  # 160 is eight times as many
    assert tiles(database, problem(0)) == []
    assert tiles(database, problem(1300)) == []
