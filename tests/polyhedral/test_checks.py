"""What tests at run time depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel.evaluate import evaluate
from tc.options import Options
from tc.plan import Bind, Part, Plan, Promote, Tile
from tc.polyhedral.scop.checked_variables import checked_variables, guarding_variables
from tc.polyhedral.scop.scop import build_scop
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_arrays, checked, shaped, shaped_by

INPUTS = {"a": np.ones((5, 7)), "b": np.ones(3), "I": np.zeros((5, 7)), "T": np.ones((4, 9))}


@pytest.mark.parametrize(
    ("statement", "variables"),
    [
        ("o(i) +=! a(i,k)", ""),
        # the subscript that may leave its tensor, not the one that cannot
        ("o(i,d) +=! T(I(i,k), d)", "ik"),
        # a read on a path not taken: the condition decides whether it is tested (Y6)
        ("o(i) +=! a(i,k) > 0 ? 2.0 : b(7)", "ik"),
        ("o(i) = a(i,0) > 0 && b(I(0,i)) > 0", "i"),
        ("o(i,k) = I(i,0) > 0 ? T(I(0,0), 0) : a(i,k)", "i"),
        # an integer division (Y4)
        ("o(i,k) = a(i,k) + 7 / I(i,0)", "i"),
        ("o(i,k) = a(i,k) / a(0,k)", ""),
    ],
)
def test_checked_variables(statement: str, variables: str) -> None:
    text = (
        "def f(float(N,K) a, float(M) b, int(N,K) I, float(E,D) T) -> (o) "
        f"{{ {statement} where i in 0:5, k in 0:7 }}"
    )
    if "k" not in statement.split("=")[0] + statement.split("=")[-1]:
        text = text.replace(", k in 0:7", "")
    program = checked(text)
    scop = build_scop(shaped(program, as_arrays(program, INPUTS)), frozenset())
    assert checked_variables(scop.statement("S0"), scop) == frozenset(variables)


@pytest.mark.parametrize(
    ("expression", "variables"),
    [
        ("a(i,k) > 0 ? 2.0 : b(7)", "ik"),
        ("a(i,k) > 0 ? 2.0 : b(1)", ""),
        ("I(i,k) > 3 ? 2.0 : b(7)", ""),
        ("I(i,0) > 0 ? (a(0,k) > 0 ? 1 : b(7)) : 0", "k"),
        ("b(1) > 0 ? b(I(i,k)) : 1", ""),
    ],
)
def test_guarding_variables(expression: str, variables: str) -> None:
    """Of conditions that read a, and say whether what may fail is evaluated."""
    text = (
        "def f(float(N,K) a, float(M) b, int(N,K) I) -> (o) "
        f"{{ o(i) +=! {expression} where i in 0:5, k in 0:7 }}"
    )
    program = checked(text)
    scop = build_scop(shaped(program, as_arrays(program, INPUTS)), frozenset())
    found = guarding_variables(scop.statement("S0"), scop, {"a"})
    assert found == frozenset(variables)


GUARDED = "def f(float(N) b, float(K) c) -> (o) { o(l) = (b(l) > 0) ? 1 : c(4) where l in 0:N }"
HELD = (Tile("l", (8,)), Promote("b", "scratch", "l div 8"), Promote("o", "register", "l div 8"))
OF_THREADS = (
    Tile("l", (8,)),
    Bind("l mod 8", "thread", "x"),
    Promote("b", "shared", "l mod 8"),
    Promote("o", "register", "l mod 8"),
)


@pytest.mark.parametrize(
    ("device", "actions"),
    [
        (Device(vector_bits=256), (*HELD, Bind("l mod 8", "unroll"))),
        (Device(vector_bits=256), (Tile("l", (8,)), HELD[2], Bind("l mod 8", "vector"))),
        (tc.Gpu(), OF_THREADS),
    ],
    ids=["buffers", "lanes", "threads"],
)
def test_what_stands_in_for_values_decides_nothing(device: Any, actions: Any) -> None:
    """No element of b makes this read c(4), which is not there; the zeros past its end did."""
    plan = Plan([Part(["S0"], actions)])
    lowering = trace_lowering(
        shaped_by(checked(GUARDED), {"b": (15,), "c": (4,)}),
        {},
        initial=frozenset(),
        check=False,
        options=Options(plan=plan),
        device=device,
    )
    for kernel in (lowering.marked, lowering.kernel):
        o = np.zeros(15, np.float32)
        arrays = {"b": np.full(15, 2, np.float32), "c": np.ones(4, np.float32), "o": o}
        assert evaluate(kernel, arrays) is None
        np.testing.assert_array_equal(o, np.ones(15, np.float32))


@pytest.mark.parametrize("width", [16, 31, 100])
def test_a_row_that_is_gathered_is_tested_once_for_each_vector(width: int) -> None:
    """And its elements are copied as vectors; what fails is told as the interpreter does."""
    text = "def rows(float(E,D) T, int(M) I) -> (o) { o(m,d) = T(I(m),d) }"
    table = np.arange(50 * width, dtype=np.float32).reshape(50, width)
    rows = np.array([3, 49, 0, 7], np.int32)
    program = shaped(checked(text), {"T": table, "I": rows})
    device = Device(vector_bits=512, vector_registers=32)
    lowering = trace_lowering(program, {}, initial=frozenset(), check=True, device=device)
    assert "for d" not in str(lowering.kernel)
    assert np.array_equal(tc.compile(text)(table, rows), table[rows])
    rows[2] = 50
    with pytest.raises(tc.TCError) as wanted:
        tc.interpret(text, table, rows)
    with pytest.raises(tc.TCError) as found:
        tc.compile(text)(table, rows)
    assert str(found.value).split("-->")[0] == str(wanted.value).split("-->")[0]
