"""Options of schedules that say more than a strategy: statements kept apart, factoring, splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.pipeline import target_of
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.polyhedral.schedule import in_order, leaves
from tests.support.bounds import assert_computes
from tests.support.pipeline import checked, shaped

CHAIN = """def f(float(N,M) A, float(M) x) -> (C, D, s) {
  C(n) +=! A(n,m) * x(m)
  D(n) = fmax(C(n), 0.0)
  s +=! D(n)
}"""
TRIPLE = "def g(float(I,J,K) X, float(J) b, float(K) c) -> (O) { O(i) +=! X(i,j,k) * b(j) * c(k) }"
SUM = "def h(float(I,J) X) -> (s) { s +=! X(i,j) }"
SECOND = """def q(float(N,K) A, float(K,L) B, float(L) x) -> (z, y) {
  z(k) = 2 * x(k)
  y(i) +=! A(i,k) * B(k,l) * x(l)
}"""
SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    CHAIN: {"A": (24, 30), "x": (30,)},
    TRIPLE: {"X": (12, 20, 40), "b": (20,), "c": (40,)},
    SECOND: {"A": (50, 60), "B": (60, 60), "x": (60,)},
    SUM: {"X": (12, 20)},
}


def arrays_of(text: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES[text].items()}


def lowered(text: str, how: Mapping[str, Any]) -> Lowering:
    options = tc.Options(schedule=tc.ScheduleOptions(**how))
    target = target_of(Device(vector_bits=256, vector_registers=16, threads=2))
    shape = shaped(checked(text, None), arrays_of(text))
    return trace_lowering(shape, {}, target, initial=frozenset(), check=True, options=options)


def parts(text: str, **how: Any) -> list[tuple[str, ...]]:
    return [tuple(leaves(node)) for node in in_order(lowered(text, how).tree)]


def statements(text: str, **how: Any) -> list[str]:
    return [s.text for s in lowered(text, how).shaped.program.statements]


def test_statements_kept_apart_share_no_loops() -> None:
    last = [("S2.init",), ("S2",)]
    assert parts(CHAIN) == [("S0.init", "S0", "S1"), *last]
    assert parts(CHAIN, apart=["S1"]) == [("S0.init", "S0"), ("S1",), *last]
    assert parts(CHAIN, fusion="max", apart=("S1", "S2")) == parts(CHAIN, apart=("S1",))


def test_what_stands_for_a_statement_is_kept_apart_too() -> None:
    """A rewrite puts S1.a before S1: both are what S1 was."""
    how = {"factor": True, "fusion": "max"}
    last = ("S1.init", "S1")
    assert parts(SECOND, **how) == [("S0", "S1.a.init", "S1.a"), last]
    assert parts(SECOND, **how, apart=("S1",)) == [("S0",), ("S1.a.init", "S1.a"), last]


def test_sums_are_factored_where_that_is_wanted() -> None:
    written = ["O(i) +=! X(i,j,k) * b(j) * c(k)"]
    factored = ["O.t0(j, i) +=! X(i, j, k) * c(k)", "O(i) +=! O.t0(j, i) * b(j)"]
    assert statements(TRIPLE) == statements(TRIPLE, factor=False) == written
    assert statements(TRIPLE, factor=True) == factored


def test_sums_are_split_where_that_is_wanted() -> None:
    assert statements(SUM) == statements(SUM, split=False) == ["s +=! X(i,j)"]
    assert statements(SUM, split=True) == ["s.p0(i) +=! X(i, j)", "s +=! s.p0(i)"]
    assert statements(SUM, split=True, rewrite=False) == ["s +=! X(i,j)"]


@pytest.mark.parametrize("how", [{"apart": ("S1",)}, {"factor": True}, {"split": True}], ids=str)
@pytest.mark.parametrize("text", [CHAIN, TRIPLE, SUM], ids=["chain", "triple", "sum"])
def test_right_however_wanted(text: str, how: Mapping[str, Any]) -> None:
    arrays = arrays_of(text)
    if "S1" in how.get("apart", ()) and text is not CHAIN:
        with pytest.raises(tc.BackendError, match="there is no statement 'S1'; there are S0"):
            lowered(text, how)
        return
    options = tc.Options(schedule=tc.ScheduleOptions(**how))
    assert tc.Options.from_json(options.to_json()) == options
    found = tc.compile(text, options=options)(*arrays.values())
    wide = {name: array.astype(float) for name, array in arrays.items()}
    expected: Any
    if text is TRIPLE:
        expected = np.einsum("ijk,j,k->i", *wide.values())
    elif text is SUM:
        expected = wide["X"].sum()
    else:
        product = wide["A"] @ wide["x"]
        cut = np.maximum(product, 0)
        expected = product, cut, cut.sum()
    assert_computes(text, arrays, found, expected)


def test_names_are_a_list() -> None:
    with pytest.raises(tc.BackendError) as caught:
        tc.ScheduleOptions(apart="S1")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "BackendError: apart='S1': it is a list of names of statements\n"
        'repair: ScheduleOptions(apart=("S1",))'
    )
    with pytest.raises(tc.BackendError, match="no statement 'S22'"):
        lowered(CHAIN, {"apart": ("S22",)})
