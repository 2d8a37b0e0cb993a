"""Plans of the tuning database where programs are compiled: which are used, which are passed over,
and why."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import host
from tc.tuning import lookup
from tc.tuning.database import TuningDatabase
from tc.tuning.machines import device_value
from tests.support import processes
from tests.support.bounds import assert_within
from tests.support.processes import ended_well, run_python
from tests.support.tunings import MM, SIZES, measurement_of, operands, problem_of, tiled

Keep = Callable[..., TuningDatabase]
WHY = "the only plan measured for these sizes: 1 s on 2023-11-14"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TC_TUNE_DB", str(tmp_path / "tuned.db"))
    monkeypatch.setattr(lookup, "_WARNED", set())
    return tmp_path / "tuned.db"


def kept(
    path: Path,
    options: tc.Options,
    *seconds: float,
    text: str = MM,
    sizes: object = SIZES,
    **how: Any,
) -> TuningDatabase:
    """A database with a plan for the sizes of a program, as a search leaves it that has ended."""
    backend = how.pop("backend", "numba")
    own = {name: how.pop(name) for name in ("check", "given") if name in how}
    problem = problem_of(text, sizes, backend=backend, **own)
    found = {"device": device_value(host(), backend), "confirmed": True, **how}
    database = TuningDatabase(path)
    database.add([measurement_of(problem, options, *(seconds or (1.0,)), **found)])
    return database


@pytest.fixture
def keep(path: Path) -> Keep:
    return partial(kept, path)


def plan_of(explanation: tc.Explanation) -> tc.Plan | None:
    assert explanation.trace is not None
    return explanation.trace.options.plan


def told(explanation: tc.Explanation) -> tuple[str, ...]:
    assert explanation.trace is not None
    return explanation.trace.told


def assert_right(f: tc.Compiled, *inputs: Any) -> None:
    expected, bound = tc.interpret(MM, *inputs), tc.error_bound(MM, *inputs)
    assert_within(f(*inputs), expected, bound)
    out = np.full_like(expected, np.nan)
    assert f(*inputs, outputs=out) is out
    assert_within(out, expected, bound)


def test_a_plan_for_these_sizes_is_used(keep: Keep, path: Path) -> None:
    keep(tiled("i", 16))
    f = tc.compile(MM)
    explanation = f.explain(**SIZES)
    assert plan_of(explanation) == tiled("i", 16).plan
    text = " ".join(str(explanation).split())
    assert f"From {path}: {WHY}. What is chosen for" in text
    assert "S0.init, S0: as the plan says." in text
    assert explanation.stages["plan"] == str(tiled("i", 16).plan)
    assert_right(f, *operands())
    assert f.source(**SIZES) == tc.compile(MM, options=tiled("i", 16)).source(**SIZES)
    assert f.source(**SIZES) != tc.compile(MM, options=tc.Options(plan=tc.Plan())).source(**SIZES)
    assert plan_of(tc.explain(MM, SIZES)) == tiled("i", 16).plan


def test_names_do_not_matter(keep: Keep) -> None:
    keep(tiled("i", 16))
    other = "def dot(float(P,Q) a, float(Q,R) i) -> (o) { o(x,y) +=! a(x,z) * i(z,y) }"
    assert plan_of(tc.explain(other, P=64, Q=48, R=40)) == tiled("x", 16).plan
    f = tc.compile(other)
    assert_within(f(*operands()), tc.interpret(MM, *operands()), tc.error_bound(MM, *operands()))


def test_types_strides_and_checks_do(keep: Keep) -> None:
    keep(tiled("i", 16))
    assert plan_of(tc.explain(MM.replace("float", "double"), SIZES)) is None
    a, b = operands()
    assert plan_of(tc.explain(MM, np.asfortranarray(a), b)) is None
    assert plan_of(tc.explain(MM, SIZES, backend="c")) is None
    gather = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
    keep(tiled("i", 4), text=gather, sizes={"N": 8, "M": 9})
    assert plan_of(tc.explain(gather, N=8, M=9)) == tiled("i", 4).plan
    assert plan_of(tc.explain(gather, N=8, M=9, check=False)) is None


def test_emit_looks_too(keep: Keep) -> None:
    keep(tiled("i", 16), backend="c")
    found = str(tc.emit(MM, SIZES))
    assert found == str(tc.emit(MM, SIZES, options=tiled("i", 16)))
    assert found != str(tc.emit(MM, SIZES, options=tc.Options(plan=tc.Plan())))
    other = tc.Device(vector_bits=128, threads=3)
    own = tc.Options(plan=tc.Plan())
    assert str(tc.emit(MM, SIZES, device=other)) == str(
        tc.emit(MM, SIZES, device=other, options=own)
    )


def test_near_sizes_have_no_tile_beyond_their_dimension(keep: Keep) -> None:
    keep(tiled("i", 48))
    explanation = tc.explain(MM, M=30, K=48, N=40)
    assert plan_of(explanation) == tiled("i", 30).plan
    (why,) = told(explanation)
    assert "the only plan measured for A(64, 48), B(48, 40), the nearest sizes" in why
    assert_right(tc.compile(MM), *operands(30))
    assert plan_of(tc.explain(MM, M=7, K=48, N=40)) is None  # too far


def test_the_users_options_win(keep: Keep) -> None:
    keep(tiled("i", 16))
    own = tc.Options(plan=tc.Plan())
    assert plan_of(tc.explain(MM, SIZES, options=own)) == tc.Plan()
    for options in (
        tc.Options(mapping=tc.MappingOptions(rows=2)),
        tc.Options(schedule=tc.ScheduleOptions(rewrite=False)),
        tc.Options(match_library=True),
    ):
        assert plan_of(tc.explain(MM, SIZES, options=options)) is None
    rows = tc.Options(mapping=tc.MappingOptions(rows=2))
    keep(tiled("i", 8), base=rows)
    assert plan_of(tc.explain(MM, SIZES, options=rows)) == tiled("i", 8).plan
    assert plan_of(tc.explain(MM, SIZES)) == tiled("i", 16).plan


def test_calls_have_the_threads_that_were_found(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tc.Options(plan=tiled("i", 16).plan, threads=1)
    keep(one)
    f = tc.compile(MM)
    f(*operands())
    (special,) = f._specialiser.made.values()
    given: list[int | None] = []
    run = type(special.runner).run

    def counted(runner: Any, addresses: Any, *, threads: int | None = None) -> Any:
        given.append(threads)
        return run(runner, addresses, threads=threads)

    monkeypatch.setattr(type(special.runner), "run", counted)
    f(*operands())
    assert given == [1]


def test_no_more_threads_than_the_user_allows(keep: Keep) -> None:
    """A line that was imported may say anything."""
    one = tc.Options(threads=1)
    keep(tc.Options(plan=tiled("i", 16).plan, threads=64), base=one)
    explanation = tc.explain(MM, SIZES, options=one)
    assert plan_of(explanation) == tiled("i", 16).plan
    assert explanation.trace is not None
    assert explanation.trace.options.threads == 1


def test_what_was_not_measured_twice_is_not_used(keep: Keep) -> None:
    keep(tiled("i", 16), confirmed=False)
    explanation = tc.explain(MM, SIZES)
    assert (plan_of(explanation), told(explanation)) == (None, ())


def test_where_nothing_was_faster_tc_chooses(keep: Keep, path: Path) -> None:
    keep(tiled("i", 16), 2.0, confirmed=False)
    keep(tc.Options(), 1.0)
    explanation = tc.explain(MM, SIZES)
    assert plan_of(explanation) is None
    why = "what tc chooses itself, the only plan measured for these sizes: 1 s on 2023-11-14"
    assert told(explanation) == (f"From {path}: {why}.",)
    near = tc.explain(MM, M=60, K=48, N=40)
    assert plan_of(near) is None
    assert "what tc chooses itself" in told(near)[0]
    keep(tiled("i", 8), 3.0)  # another search found one, on a slower day
    assert plan_of(tc.explain(MM, SIZES)) == tiled("i", 8).plan


def test_a_plan_that_cannot_be_done_is_passed_over(keep: Keep, path: Path) -> None:
    keep(tiled("q", 8), 0.5)
    keep(tiled("i", 16), 1.0)
    explanation = tc.explain(MM, SIZES)
    assert plan_of(explanation) == tiled("i", 16).plan
    first, second = told(explanation)
    assert first.startswith(
        f"Passed over in {path}: the fastest of 2 plans measured for these sizes: 500 ms on "
        "2023-11-14. It cannot be done: action 1 of the part S0.init, S0, "
    )
    assert "no loop 'q'" in first
    assert second.startswith("From ")
    assert first.split(". ")[1][:20] in " ".join(str(explanation).split())
    assert_right(tc.compile(MM), *operands())


def test_without_a_plan_that_can_be_done_tc_chooses(keep: Keep) -> None:
    keep(tiled("q", 8))
    explanation = tc.explain(MM, SIZES)
    assert plan_of(explanation) is None
    assert len(told(explanation)) == 1
    assert_right(tc.compile(MM), *operands())


def test_a_plan_of_another_version_is_passed_over(keep: Keep, path: Path) -> None:
    keep(tiled("i", 16))
    with sqlite3.connect(path) as connection:
        changed = """replace(text, '"version": 1', '"version": 2')"""
        connection.execute(f"UPDATE texts SET text = {changed}")
    connection.close()
    explanation = tc.explain(MM, SIZES)
    assert plan_of(explanation) is None
    assert "It cannot be done: the plan has version 2, and this tc reads version 1" in " ".join(
        told(explanation)
    )


def test_a_fault_of_tc_in_a_plan_is_passed_over(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tiled("i", 16))
    whole = tc.backends  # keeps the package loaded
    assert whole is not None
    from tc.tuning.lookup import with_tuned_plan

    f = tc.compile(MM)
    sizes = f._sizes((), SIZES)
    request = f._specialiser.request(sizes, frozenset())
    shaped = f.explain(**SIZES).shaped

    def make(options: tc.Options) -> str:
        if options.plan is not None:
            raise KeyError("no loop")
        return "chosen"

    monkeypatch.setenv("TC_STRICT", "0")
    made = with_tuned_plan(make, request, shaped, host())
    assert made.value == "chosen"
    assert "It cannot be done: KeyError('no loop')" in made.told[0]
    monkeypatch.setenv("TC_STRICT", "1")
    with pytest.raises(KeyError):
        with_tuned_plan(make, request, shaped, host())


def test_lookup_can_be_turned_off(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tiled("i", 16))
    monkeypatch.setenv("TC_TUNE", "0")
    assert plan_of(tc.explain(MM, SIZES)) is None
    monkeypatch.setenv("TC_TUNE", "")
    assert plan_of(tc.explain(MM, SIZES)) == tiled("i", 16).plan


def test_only_first_calls_look(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tiled("i", 16))
    looked: list[Path] = []
    reading = lookup.reading

    def counted(path: Path, **how: Any) -> Any:
        looked.append(path)
        return reading(path, **how)

    monkeypatch.setattr(lookup, "reading", counted)
    f = tc.compile(MM)
    for _ in range(3):
        f(*operands())
    assert len(looked) == 1
    keep(tiled("i", 8), 0.5)  # what is compiled stays as it is
    before = f.source(**SIZES)
    f(*operands())
    assert len(looked) == 1
    assert tc.compile(MM).source(**SIZES) != before == f.source(**SIZES)


def test_without_a_file_nothing_is_loaded_and_none_is_made(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['sqlite3'] = sys.modules['_sqlite3'] = None\n"
        f"import tc; tc.emit({MM!r}, {SIZES!r}); tc.explain({MM!r}, {SIZES!r}, backend='c')\n"
        "print(sorted(name for name in sys.modules if name.startswith('tc.tuning.')))"
    )
    there = {**os.environ, "TC_TUNE_DB": str(tmp_path / "none" / "tuned.db")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=there
    )
    assert done.stdout == "['tc.tuning.database_file', 'tc.tuning.lookup']\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["damaged", "newer", "foreign"])
def test_a_file_that_cannot_be_read_is_told_of_once(keep: Keep, path: Path, how: str) -> None:
    keep(tiled("i", 16))
    if how == "damaged":
        path.write_bytes(b"no database, or not any more" * 400)
    else:
        with sqlite3.connect(path) as connection:
            name = "user_version" if how == "newer" else "application_id"
            connection.execute(f"PRAGMA {name}=99")
        connection.close()
    before = path.read_bytes()
    told_of = {
        "damaged": "is damaged, and stays as it is",
        "newer": "was written by a newer tc: it has version 99",
        "foreign": "is a database of another program, and stays as it is",
    }[how]
    with pytest.warns(tc.TCWarning, match=told_of) as caught:
        explanation = tc.explain(MM, SIZES)
    (warning,) = caught
    assert str(warning.message).startswith("tune: plans that were tuned are not looked up, as ")
    assert "\nrepair: " in str(warning.message)
    assert warning.filename == __file__
    assert plan_of(explanation) is None
    assert told_of in told(explanation)[0]
    assert_right(tc.compile(MM), *operands())  # and no warning
    assert path.read_bytes() == before


def test_several_threads_look_at_once(keep: Keep) -> None:
    keep(tiled("i", 16))
    functions = [tc.compile(MM) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda f: assert_right(f, *operands()), functions))
    assert {f.source(**SIZES) for f in functions} == {
        tc.compile(MM, options=tiled("i", 16)).source(**SIZES)
    }


FORKS = """
import os
from pathlib import Path
import tc
from tc.process import forks
from tests.tuning.test_lookup import MM, kept, operands, plan_of, tiled

path = Path(os.environ["TC_TUNE_DB"])
kept(path, tiled("i", 16))
tc.compile(MM)(*operands())
child = os.fork()
if child == 0:
    status = 1
    try:
        kept(path, tiled("i", 4), sizes={"M": 20, "K": 48, "N": 40})
        found = plan_of(tc.explain(MM, M=20, K=48, N=40))
        status = 0 if found == tiled("i", 4).plan and not forks.is_blocked() else 2
    finally:
        os._exit(status)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert plan_of(tc.explain(MM, M=20, K=48, N=40)) == tiled("i", 4).plan
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.usefixtures("path")
def test_forked_children_look() -> None:
    """In a process of its own: what other tests have imported may warn of forks."""
    done = run_python(FORKS)
    assert ended_well(done), processes.told(done)


def test_searches_begin_with_what_is_known(keep: Keep) -> None:
    """Of the nearest sizes, and the fastest of these."""
    keep(tiled("i", 48))
    keep(tiled("i", 4), sizes={"M": 30, "K": 48, "N": 40}, confirmed=False)
    _, result = tc.autotune(
        MM, M=30, K=48, N=40, search="random", max_candidates=2, max_seconds=120
    )
    tried = [trial.options.plan for trial in result.trials]
    assert tried == [tiled("i", 4).plan, tiled("i", 30).plan]


def test_the_process_that_tunes_sees_what_it_found(path: Path) -> None:
    before = tc.compile(MM)
    before(*operands())
    function, result = tc.autotune(MM, SIZES, search="random", max_candidates=2, max_seconds=60)
    assert path.exists()
    explanation = tc.explain(MM, SIZES)
    assert "measured for these sizes" in told(explanation)[-1]
    if result.best != result.default:
        assert plan_of(explanation) == function.options.plan
    else:
        assert plan_of(explanation) is None
    assert_right(tc.compile(MM), *operands())


def test_plans_of_dimensions_that_are_joined(keep: Keep) -> None:
    """Found under other names and at other sizes, and passed over where nothing can be joined."""
    text = "def f(float(N,C) x) -> (o) { o(n,c) = 2 * x(n,c) }"
    keep(tiled("n_c", 64), text=text, sizes={"N": 40, "C": 3})
    assert plan_of(tc.explain(text, N=40, C=3)) == tiled("n_c", 64).plan
    assert plan_of(tc.explain(text, N=15, C=3)) == tiled("n_c", 45).plan
    other = "def g(float(A,B) y) -> (r) { r(i,a_b) = 2 * y(i,a_b) }"
    assert plan_of(tc.explain(other, A=40, B=3)) == tiled("i_a_b", 64).plan
    wide = np.arange(240, dtype=np.float32).reshape(40, 6)
    apart = tc.explain(text, wide[:, ::2])
    assert plan_of(apart) is None
    for x in (wide[:, ::2], np.ascontiguousarray(wide[:, :3]), np.asfortranarray(wide[:, :3])):
        np.testing.assert_array_equal(tc.compile(text)(x), 2 * x)
