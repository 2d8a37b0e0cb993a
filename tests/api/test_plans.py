"""Plans as users have them: values, JSON, options, explanations, stored kernels."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tc
from tc import cache
from tc.plan import (
    ACTIONS,
    Bind,
    Fuse,
    Part,
    Promote,
    Reorder,
    Scatter,
    Separate,
    Sink,
    Split,
    Tile,
)
from tests.support.tunings import assert_multiplies, operands

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SIZES = {"M": 64, "K": 48, "N": 40}
DEVICE = tc.Device(vector_bits=256, threads=2)
EVERY = (
    Tile("i", (32, 8)),
    Reorder(("j", "i")),
    Sink(("i mod 32",)),
    Separate(("i",), ("S0",)),
    Fuse(("S0.i", "S1.i")),
    Split("S0", ("k mod 8",), "i"),
    Promote("x", "scratch", "i div 32", ("S0",), ((1, 8), (0, 1), (1, 1)), 8, 8, True, True),
    Promote("x", "register"),
    Bind("i", "parallel"),
    Scatter("S0", "sorted"),
)
TILED = tc.Plan((Part(("S0.init", "S0"), (Tile("i", (16,)), Bind("i div 16", "parallel"))),))


# --- values -----------------------------------------------------------------------------------


def test_every_action_is_read_back() -> None:
    assert {type(action) for action in EVERY} == set(ACTIONS)
    plan = tc.Plan((Part(("S0", "S1"), EVERY), Part(("S2",))))
    assert tc.Plan.from_json(str(plan)) == plan
    assert tc.Plan.from_json(json.dumps(json.loads(str(plan)), indent=4)) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert hash(tc.Plan.from_json(str(plan))) == hash(plan)
    assert tc.Plan.from_json(str(tc.Plan())) == tc.Plan()


def test_lists_are_tuples_at_once() -> None:
    listed = Part(["S0"], [Tile("i", [8]), Promote("x", "scratch", axes=[[0, 1]])])  # type: ignore
    assert listed == Part(("S0",), (Tile("i", (8,)), Promote("x", "scratch", axes=((0, 1),))))
    assert tc.Plan([listed]) == tc.Plan((listed,))  # type: ignore[arg-type]


def test_repr_is_short() -> None:
    assert repr(TILED) == "<tc plan: S0.init, S0 by 2 actions>"
    assert repr(tc.Plan()) == "<tc plan: all is chosen>"
    long = tc.Plan(tuple(Part((f"S{n}",), EVERY[-1:]) for n in range(100)))
    assert len(repr(long)) < 120
    assert "S0.init, S0 by 2 actions" in repr(tc.Options(plan=TILED))


WRONG = {
    "sizes": (lambda: Tile("i", 32), r"'sizes' of 'tile': a list of integers, and not 32"),
    "zero": (lambda: Tile("i", (0,)), r"'sizes' of 'tile': 0 is no integer from 1 to 2147483647"),
    "huge": (lambda: Tile("i", (2**31,)), r"2147483648 is no integer from 1"),
    "bool": (lambda: Tile("i", (True,)), r"True is no integer"),
    "nan": (lambda: Promote("x", "scratch", lanes=float("nan")), r"nan is no integer"),
    "name": (lambda: Bind(3, "parallel"), r"'loop' of 'bind' is a name, and not 3"),
    "names": (lambda: Reorder("ij"), r"'loops' of 'reorder': a list of names, and not 'ij'"),
    "axes": (lambda: Promote("x", "scratch", axes=((0,),)), r"an axis is \[dimension, step\]"),
    "flag": (lambda: Promote("x", "scratch", padded=1), r"'padded' of 'promote' is true or false"),
    "statements": (lambda: Part("S0"), r"a list of names, and not 'S0'"),
    "no statement": (lambda: Part(()), r"a part names no statement"),
    "twice": (lambda: Part(("S0", "S0")), r"names the statement S0 twice"),
    "action": (lambda: Part(("S0",), ("tile",)), r"an action is one of Tile, Reorder, .* 'tile'"),
    "part": (lambda: tc.Plan(("S0",)), r"a part of a plan is a tc.plan.Part, and not 'S0'"),
    "parts": (lambda: tc.Plan((Part(("S0",)), Part(("S1", "S0")))), r"S0 is in two parts"),
    "many": (lambda: tc.Plan((Part(("S0",), EVERY[-1:] * 10_001),)), r"10001 actions, .* 10000"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_at_once(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(tc.BackendError, match=message):
        make()


# --- options ----------------------------------------------------------------------------------


def test_options_with_a_plan() -> None:
    options = tc.Options(plan=TILED, threads=2)
    assert tc.Options.from_json(options.to_json()) == options
    assert pickle.loads(pickle.dumps(options)) == options
    assert options != tc.Options(threads=2)
    assert tc.Options.from_json('{"plan": null}') == tc.Options()
    with pytest.raises(tc.BackendError, match="version 2"):
        tc.Options.from_json('{"plan": {"version": 2}}')


@pytest.mark.parametrize(
    ("given", "repair"),
    [
        (str(TILED), "Options(plan=tc.Plan.from_json(text))"),
        (Path("plan.json"), "Options(plan=tc.Plan.from_json(path.read_text()))"),
        (json.loads(str(TILED)), "Options(plan=tc.Plan.from_json(json.dumps(value)))"),
    ],
)
def test_what_is_no_plan_yet(given: Any, repair: str) -> None:
    with pytest.raises(tc.BackendError, match=r"plan= is a tc\.Plan, and not of type") as caught:
        tc.Options(plan=given)
    assert caught.value.repair == repair
    namespace = {"text": given, "path": given, "value": given, "json": json, "tc": tc}
    if not isinstance(given, Path):
        assert eval(f"tc.{repair}", namespace) == tc.Options(plan=TILED)


def test_a_call_is_left_to_a_library_or_planned() -> None:
    with pytest.raises(tc.BackendError, match="no loops for a plan"):
        tc.Options(plan=TILED, match_library=True)
    assert tc.Options(plan=tc.Plan(), match_library=True).match_library


# --- where a plan holds -------------------------------------------------------------------------


def test_every_way_in_takes_it() -> None:
    options, a = tc.Options(plan=TILED), operands()
    compiled = tc.compile(MM, options=options)
    defined = tc.define(MM, options=options).mm
    assert_multiplies(compiled, *a)
    assert_multiplies(defined, *a)
    shown = str(tc.explain(MM, SIZES, options=options, stage="source"))
    assert compiled.source(*a).rstrip("\n") == shown != str(tc.explain(MM, SIZES, stage="source"))
    assert compiled.explain(*a).stages["plan"] == str(TILED)
    emitted = tc.emit(MM, SIZES, options=options, backend="numba")
    assert str(emitted) != str(tc.emit(MM, SIZES, backend="numba"))
    assert_multiplies(pickle.loads(pickle.dumps(compiled)), *a)


def test_the_interpreter_takes_no_notice() -> None:
    nonsense = tc.Options(plan=tc.Plan((Part(("S7",)),)))
    assert_multiplies(tc.compile(MM, backend="interpret", options=nonsense), *operands())


def test_one_plan_at_every_size() -> None:
    f = tc.compile(MM, options=tc.Options(plan=TILED))
    for m, k, n in ((64, 48, 40), (1, 1, 1), (17, 5, 3), (16, 300, 16)):
        assert_multiplies(f, *operands(m, k, n))
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        assert_multiplies(f, *operands(m, k, n))


def test_a_size_at_which_it_cannot_be_done() -> None:
    whole = Part(("S0.init", "S0"), (Promote("C", "register"),))
    f = tc.compile(MM, options=tc.Options(plan=tc.Plan((whole,))))
    assert_multiplies(f, *operands(8, 5, 8))
    with pytest.raises(tc.BackendError, match=r"64 x 128 elements, 32768 bytes"):
        f(*operands(64, 5, 128))
    assert_multiplies(f, *operands(8, 7, 8))


def test_plans_have_kernels_of_their_own(tmp_path: Path) -> None:
    """In memory and on disk."""
    cache.enable(tmp_path)
    try:
        texts = [
            tc.compile(MM, options=options).source(**SIZES)
            for options in (tc.Options(), tc.Options(plan=TILED), tc.Options())
        ]
    finally:
        cache.disable()
    assert texts[0] == texts[2] != texts[1]


# --- what explain prints --------------------------------------------------------------------------


def test_the_stage_is_the_plan_alone() -> None:
    explanation = tc.explain(MM, SIZES, stage="plan", device=DEVICE)
    plan = tc.Plan.from_json(str(explanation))
    assert plan.parts[0].statements == ("S0.init", "S0")
    assert str(plan) == str(explanation) == explanation.stages["plan"]
    given = tc.explain(MM, SIZES, options=tc.Options(plan=TILED), stage="plan", device=DEVICE)
    assert str(given) == str(TILED)
    nothing = tc.explain(MM, M=0, K=2, N=3, stage="plan")
    assert str(nothing) == str(tc.Plan())


def test_parts_that_are_left_out_are_chosen() -> None:
    two = "def f(float(N,M) a) -> (x, y) { x(i) +=! a(i,j)  y(i,j) = 2 * a(i,j) }"
    options = tc.Options(schedule=tc.ScheduleOptions(fusion="min"))
    sizes = {"N": 30, "M": 70}
    every = tc.Plan.from_json(tc.explain(two, sizes, options=options, device=DEVICE).stages["plan"])
    first, second = every.parts
    for kept in (first, second):
        asked = replace(options, plan=tc.Plan((kept,)))
        assert tc.explain(two, sizes, options=asked, device=DEVICE).stages["plan"] == str(every)
    plain = tc.Plan((Part(second.statements),))
    shown = tc.explain(two, sizes, options=replace(options, plan=plain), device=DEVICE).stages
    assert tc.Plan.from_json(shown["plan"]).parts == (first, *plain.parts)
    assert "S1: as the plan says." in shown["mapping"]
