"""Sums of halves are rounded once, at the end of the reduction, under every strategy (Y8)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure
from tc.options import FUSIONS, MappingOptions, Options, ScheduleOptions
from tc.plan import Plan
from tc.polyhedral import lowering
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.mapping import map_schedule
from tc.polyhedral.rewrite.half_sums import accumulate_in_float
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.lowering import trace_lowering
from tests.support.rewrites import assert_consistent, assert_same_results

RNG = np.random.default_rng(0)


def halves(*shape: int) -> Any:
    return (1 + RNG.random(shape)).astype("f2")


PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "convolution": (
        "def f(half(1,A,B,C) a, half(F,A,C,C) b) -> (o)"
        " { o(n,f,j) +=! a(n,0,2*i+3*x,j+y) * b(f,c,x,y) }",
        {"a": halves(1, 1, 13, 1), "b": np.full((2, 1, 1, 1), 3, "f2")},
    ),
    "sums of one tensor twice": (
        "def f(half(N,M) a) -> (o, p) { o(i) +=! a(i,j)  p(j) +=! a(i,j) * o(i) }",
        {"a": halves(5, 20)},
    ),
    "continued": (
        "def f(half(N,M) a) -> (o) { o(i) = a(i,0)  o(i) += a(i,j) * a(i,k) }",
        {"a": halves(3, 9)},
    ),
    "a product": (
        "def f(half(N,M) a) -> (o) { o(j) *=! a(i,j) where j in 1:5 }",
        {"a": halves(9, 5)},
    ),
    "sums kept in turn": (
        """def f(half(5) b, int c) -> (o2, o1, o) {
             o(i) +=! pad(b(3 * i + w - 2), 1) where i in 0:c, w in 0:3
             o1(i) = b(3 * i)
             o2(i) +=! pad(o1(i + w - 2), 0) where i in 0:2, w in 0:2
             o2(i) = 1 where i in 1:2
           }""",
        {"b": np.array([1730, 3, -1605, -2700, 29], "f2"), "c": 2},
    ),
    "to a scalar": ("def f(half(N,M) a) -> (s) { s +=! a(i,j) }", {"a": halves(4, 19)}),
}
MAPPINGS = (MappingOptions(), MappingOptions(vector_bits=0, unroll=1, parallel=False))


def lowered(text: str, inputs: Any, options: Options, initial: Any = frozenset()) -> Lowering:
    shaped, _ = shaped_with(text, inputs)
    return trace_lowering(shaped, {}, initial=initial, check=True, options=options)


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # what isl skews is left to "max"
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("fusion", FUSIONS)
def test_rule_Y8_every_strategy(name: str, fusion: str) -> None:
    text, inputs = PROGRAMS[name]
    shaped, arrays = shaped_with(text, inputs)
    want, limit = interpret(shaped, arrays, {}), error_bound(shaped, arrays, {})
    for rewrite, mapping in ((True, MAPPINGS[0]), (False, MAPPINGS[1])):
        schedule = ScheduleOptions(fusion=fusion, rewrite=rewrite)
        kernel = lowered(text, inputs, Options(schedule=schedule, mapping=mapping)).kernel
        buffers = {b.name: np.full(b.shape, 77, b.dtype.numpy) for b in kernel.buffers}
        for n, array in arrays.items():
            buffers[n][...] = np.reshape(array, buffers[n].shape)
        assert evaluate(kernel, buffers) is None
        for n, expected in want.items():
            assert_within(buffers[n].reshape(expected.shape), expected, limit[n])


def sums_kept(found: Lowering) -> set[str]:
    return {name.partition(".")[0] for name in found.shaped.program.temporaries}


@pytest.mark.parametrize("rewrite", [True, False])
def test_each_sum_is_kept_before_anything_is_scheduled(rewrite: bool) -> None:
    text, inputs = PROGRAMS["sums kept in turn"]
    found = lowered(text, inputs, Options(schedule=ScheduleOptions(rewrite=rewrite)))
    assert sums_kept(found) == {"o", "o2"}


def test_a_program_is_mapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a plan of the user or another strategy puts accumulators down on the way."""
    calls: list[int] = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return map_schedule(*arguments)

    monkeypatch.setattr(lowering, "map_schedule", counted)
    text, inputs = PROGRAMS["convolution"]
    plan = lowered(text, inputs, Options()).mapped.plan
    for options in (
        Options(),
        Options(plan=plan),
        Options(schedule=ScheduleOptions(fusion="isl", seconds=600)),
    ):
        calls.clear()
        lowered(text, inputs, options)
        assert len(calls) == 1


@pytest.mark.parametrize("text", ["o(i) +=! a(i,k)", "o(i) *=! a(i,k)"])
@pytest.mark.parametrize(
    "actions", [[], [{"tile": "i", "sizes": [4]}], [{"tile": "k", "sizes": [8, 2]}]]
)
def test_no_plan_rounds_a_sum_on_the_way(text: str, actions: list[Any]) -> None:
    """The accumulator is put down after each term where nothing is promoted."""
    text = f"def f(half(N,M) a) -> (o) {{ {text} }}"
    inputs = {"a": (1 + RNG.random((5, 40)) / 32).astype("f2")}
    part = {"statements": ["S0.init", "S0", "S0.rounded"], "actions": actions}
    plan = Plan.from_json(json.dumps({"version": 1, "parts": [part]}))
    kernel = lowered(text, inputs, Options(plan=plan)).kernel
    buffers = {b.name: np.full(b.shape, 77, b.dtype.numpy) for b in kernel.buffers} | inputs
    assert evaluate(kernel, buffers) is None
    wide = inputs["a"].astype(np.float64)
    exact = wide.sum(1) if "+=" in text else wide.prod(1)
    apart = np.abs(buffers["o"].astype(np.float64) - exact)
    assert np.all(apart <= np.spacing(exact.astype("f2")).astype(np.float64))  # rounded once


def test_minima_and_maxima_stay() -> None:
    """Rounding does not change which is the largest."""
    text = "def f(half(N,M) a) -> (o, p) { o(i) max=! a(i,k)  p(i) min=! a(i,k) * a(i,k) }"
    shaped, _ = shaped_with(text, {"a": halves(3, 9)})
    assert accumulate_in_float(shaped) is shaped


def test_sums_of_floats_stay() -> None:
    text = "def f(half(N,M) a) -> (float(N) o) { o(i) +=! a(i,k) }"
    shaped, _ = shaped_with(text, {"a": halves(3, 9)})
    assert accumulate_in_float(shaped) is shaped


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_kept_apart(name: str) -> None:
    text, inputs = PROGRAMS[name]
    shaped, arrays = shaped_with(text, inputs)
    reductions = [s.name for s in shaped.program.statements if s.reduction]
    found = accumulate_in_float(shaped)
    assert_consistent(found)
    assert len(found.statements) == len(shaped.statements) + len(reductions)
    assert_same_results(shaped, found, arrays)


def test_the_callers_values_are_continued() -> None:
    text, inputs = "def f(half(N,M) a) -> (o) { o(i) += a(i,j) }", {"a": halves(3, 50)}
    shaped, arrays = shaped_with(text, inputs)
    found = accumulate_in_float(shaped)
    assert [s.text for s in found.program.statements] == ["o.s0(i) +=! a(i, j)", "o(i) += o.s0(i)"]
    assert_same_results(shaped, found, arrays, {"o": np.full(3, 0.1, "f2")})


def test_checks_keep_their_statement() -> None:
    text = "def f(half(N) a, int(M) g) -> (o) { o +=! a(g(j)) }"
    inputs = {"a": halves(4), "g": np.array([0, 1, 3, 2], np.int32)}
    shaped, arrays = shaped_with(text, inputs)
    found = accumulate_in_float(shaped)
    assert [s.name for s in found.program.statements] == ["S0", "S0.rounded"]
    assert found.statements[0].checked == shaped.statements[0].checked
    assert_same_results(shaped, found, arrays)
    kernel = lowered(text, inputs, Options()).kernel
    buffers = {b.name: np.zeros(b.shape, b.dtype.numpy) for b in kernel.buffers} | arrays
    buffers["g"] = np.array([0, 4, 3, 2], np.int32)
    assert isinstance(evaluate(kernel, buffers), Failure)
