"""The strategy "isl": isl's own scheduler in a process, and what is done where it is no use."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import islpy as isl
import pytest

from tc import BackendError, Options, Plan, ScheduleOptions, TCWarning
from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import Band, Sequence, to_text
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.strategies import isl as isl_strategy
from tc.polyhedral.strategies import isl_worker
from tc.polyhedral.strategies.isl import isl_tree
from tc.polyhedral.strategies.scheduler import schedule
from tests.support.lowering import trace_lowering
from tests.support.scops import program, scop_of
from tests.support.sizes_of_call import shape
from tests.support.tree_order import faults

ROOT = Path(isl_strategy.__file__).parents[3]
LONG = 600  # seconds, for what takes one, on a machine that has other work as well


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    isl_strategy._ask.cache_clear()


def isl_text(scop: Scop) -> str:
    """The tree that isl finds, checked; or why there is none."""
    dependences = compute_dependences(scop)
    tree = isl_tree(dependences, LONG)
    if isinstance(tree, str):
        return tree
    assert respects(tree, dependences) is None
    assert faults(tree, scop) == []
    return to_text(tree)


def test_matmul_starts_at_the_first_step() -> None:
    """isl puts the start into the loop of the reduction; the strategy moves it before."""
    scop = program("mm").scop()
    dependences = compute_dependences(scop)
    tree = isl_tree(dependences, LONG)
    assert isinstance(tree, Band)
    assert to_text(tree) == "\n".join(
        ["band [c0 *, c1 *, c2] permutable", "  sequence", "    S0.init", "    S0"]
    )
    assert [str(tree.members[2].values[s]) for s in ("S0.init", "S0")] == ["0", "k"]
    assert respects(tree, dependences) is None
    assert faults(tree, scop) == []
    moved = schedule(scop, dependences, "isl", seconds=LONG)
    assert to_text(moved) == "\n".join(
        [
            "band [c0 *, c1 *] permutable",
            "  sequence",
            "    S0.init",
            "    band [c2] permutable",
            "      S0",
        ]
    )
    assert respects(moved, dependences) is None
    assert faults(moved, scop) == []


@pytest.mark.parametrize("name", ["fcrelu", "2LUT", "maxpool2x2", "outer_sum"])
def test_trees_are_legal(name: str) -> None:
    text = isl_text(program(name).scop())
    assert "band" in text


def test_ranges_that_do_not_begin_at_0() -> None:
    """The start runs at 0, where the updates have not begun; no sequence orders the two."""
    text = isl_text(scop_of("def f(float(N) a) -> (b) { b +=! a(i) where i in 2:5 }", N=6))
    assert text == "\n".join(["band [c0] permutable", "  sequence", "    S0.init", "    S0"])


def test_nothing_to_schedule() -> None:
    scop = scop_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=0)
    assert isl_tree(compute_dependences(scop), LONG) == Sequence(())


def test_a_schedule_that_reverses_falls_back() -> None:
    scop = program("softmax").scop()
    dependences = compute_dependences(scop)
    with pytest.warns(TCWarning) as caught:
        tree = schedule(scop, dependences, "isl", seconds=LONG)
    (warning,) = caught
    assert str(warning.message) == (
        "warning: isl's scheduler was asked for, but it runs S0 along -1 d, which is reversed; the "
        'strategy "max" is used\nrepair: ScheduleOptions(fusion="max")'
    )
    assert warning.filename == __file__
    assert tree == schedule(scop, dependences, "max")


def test_a_time_limit() -> None:
    """isl does not schedule the whole production model in any useful time; it is killed."""
    sizes = {"E1": 13, "D": 6, "B": 5, "L1": 7, "E2": 9, "L2": 3, "WX": 8, "WY": 10}
    layers = {"N": 7, "M": 22, "O": 6, "P": 4, "Q": 2}
    small = replace(program("prodModel"), sizes={**sizes, **layers})
    scop = small.scop()
    dependences = compute_dependences(scop)
    start = time.monotonic()
    with pytest.warns(TCWarning, match=r'it did not end in 1 s; the strategy "max" is used'):
        tree = schedule(scop, dependences, "isl", seconds=1)
    assert time.monotonic() - start < 300  # for hours, if nobody ended it
    assert tree == schedule(scop, dependences, "max")


def test_the_names_of_loops_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other work, isl may end in time at one call and not at another. The plan
    that was the repair of another one was refused then, with that as its repair."""
    run, busy = isl_strategy.run_program, []

    def run_program(*arguments: Any, **named: Any) -> Any:
        busy.append(True)
        if len(busy) % 2:
            raise subprocess.TimeoutExpired("isl", named["seconds"])
        return run(*arguments, **named)

    monkeypatch.setattr(isl_strategy, "run_program", run_program)
    program = shape("def f(float(N) a) -> (o) { o +=! a(j) }", N=20)
    own = Options(schedule=ScheduleOptions(fusion="isl", seconds=LONG))

    def lowered(plan: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TCWarning)
            options = replace(own, plan=Plan.from_json(plan))
            trace_lowering(program, {}, initial=frozenset(), check=False, options=options)

    part = {"statements": ["S0.init", "S0"], "actions": [{"tile": "c0", "sizes": [4]}]}
    with pytest.raises(BackendError) as refused:
        lowered(json.dumps({"version": 1, "parts": [part]}))
    assert refused.value.repair is not None
    assert '"tile": "j"' in refused.value.repair
    lowered(refused.value.repair)
    assert len(busy) == 1


def test_an_illegal_schedule_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {s: [None, 0] for s in ("S0.init", "S0")}
    loops = [{s: [v, 0] for s in rows} for v in ("i", "j")]
    answer = {
        "kind": "band",
        "depth": 0,
        "members": loops,
        "child": {
            "kind": "sequence",
            "children": [
                [["S0"], {"kind": "band", "depth": 2, "members": [{"S0": ["k", 0]}],
                          "child": {"kind": "leaf"}}],
                [["S0.init"], {"kind": "leaf"}],
            ],
        },
    }  # fmt: skip
    monkeypatch.setattr(isl_strategy, "_ask", lambda *_: answer)
    found = isl_tree(compute_dependences(program("mm").scop()), 1)
    assert isinstance(found, str)
    assert found.startswith("its schedule is not legal: S0.init(i=0, j=0) and S0(i=0, j=0, k=0)")


@pytest.mark.parametrize(
    ("executable", "reason"),
    [
        ("", "there is no Python to run it in a process of its own"),
        ("/nowhere/python", "its process did not start: "),
        ("/bin/false", "its process failed with 1: "),
    ],
)
def test_processes_that_fail(executable: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    found = isl_tree(compute_dependences(program("mm").scop()), LONG)
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_scripts_need_no_guard(tmp_path: Path) -> None:
    """A script that runs at top level, elsewhere, finding tc by a path that it sets itself."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n"
        "from tests.support.scops import program\n"
        "from tc.polyhedral.scop.dependences import compute_dependences\n"
        "from tc.polyhedral.strategies.isl import isl_tree\n"
        "print(type(isl_tree(compute_dependences(program('mm').scop()), 600)).__name__)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "Band\n"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("v0", ("i", 0)),
        ("v1 - 3", ("j", -3)),
        ("5", (None, 5)),
        ("v0 + v1", "it runs S0 along i + j, which is skewed"),
        ("v0 + 2v1", "it runs S0 along i + 2 j, which is skewed"),
        ("-v0 + 7", "it runs S0 along -1 i, which is reversed"),
        ("2v1", "it runs S0 along 2 j, which is stretched"),
        ("floor(v0/2)", "it runs S0 along { s0[v0, v1] -> [(floor((v0)/2))] }, which is skewed"),
    ],
)
def test_rows(row: str, found: object) -> None:
    """What a member of isl's is in our trees, or why it is nothing there."""
    context = isl.Context()
    function = isl.MultiUnionPwAff(f"[{{ s0[v0, v1] -> [({row})] }}]", context).get_at(0)
    names = {"s0": ["S0", "i", "j"]}
    if isinstance(found, str):
        with pytest.raises(isl_worker.Unsayable) as caught:
            isl_worker._row(function, names)
        assert str(caught.value) == found
    else:
        assert isl_worker._row(function, names) == {"S0": found}


def test_pieces_are_no_row() -> None:
    text = "[{ s0[v0] -> [(v0)] : v0 > 3; s0[v0] -> [(2v0)] : v0 <= 3 }]"
    function = isl.MultiUnionPwAff(text, isl.Context()).get_at(0)
    with pytest.raises(isl_worker.Unsayable, match="along a function of 2 pieces"):
        isl_worker._row(function, {"s0": ["S0", "i"]})


def test_the_answer_of_the_worker() -> None:
    question = {
        "names": {"s0": ["S0", "i"], "s1": ["S1", "i"]},
        "domain": "{ s0[v0] : 0 <= v0 < 8; s1[v0] : 0 <= v0 < 8 }",
        "validity": "{ s0[v0] -> s1[v0] }",
        "proximity": "{ s0[v0] -> s1[v0] }",
    }
    assert isl_worker.answer(question)["tree"] == {
        "kind": "band",
        "depth": 0,
        "members": [{"S0": ("i", 0), "S1": ("i", 0)}],
        "child": {
            "kind": "sequence",
            "children": [(["S0"], {"kind": "leaf"}), (["S1"], {"kind": "leaf"})],
        },
    }


def test_isl_schedules_what_is_shaped() -> None:
    """Larger sizes: the time grows with them, the tree is the same."""
    from tc.polyhedral.scop.scop import build_scop

    text = program("mm").text
    scop = build_scop(shape(text, X=128, Y=1024, Z=256), frozenset())
    tree = isl_tree(compute_dependences(scop), LONG)
    assert isinstance(tree, Band)
    assert len(tree.members) == 3
