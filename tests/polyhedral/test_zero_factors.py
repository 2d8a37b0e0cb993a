"""Sums with factors that are 0 unless remainders are 0: transposed convolutions compute the terms
that are there, and what the others add where a weight is no number."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel.ir import If
from tc.kernel.walk import every_statement
from tc.polyhedral.rewrite.residues import linearise
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import in_order, leaves
from tc.semantics.program import Compare, walk
from tests.support.interpreting import shaped_with
from tests.support.lowering import lower
from tests.support.rewrites import assert_consistent, texts
from tests.support.sizes_of_call import shape
from tests.support.transposed_convolutions import Transposed, drawn

HALF = "((y + 1 - k) % 2 == 0 ? pad(x(n,c,(y + 1 - k)/2), 0) : 0) * w(c,o,k) where y in 0:2*H"
HEAD = "def f(float(N,C,H) x, float(C,O,K) w, float(O) b) -> (r)"
SIZES = {"N": 4, "C": 3, "H": 16, "O": 6, "K": 3}


def test_classes_of_a_transposed_convolution() -> None:
    found = linearise(shape(f"{HEAD} {{ r(n,o,y) +=! {HALF} }}", **SIZES), Thresholds())
    assert texts(found) == [
        "S0.zeros: r.z0(o, y_mod) +=! (y_mod + 1 - k) % 2 == 0 ? 0 : 0 * w(c, o, k)",
        "S0.start.piece0: r(n, o, 2 * y_div) = r.z0(o, 0)",
        "S0.piece0: r(n, o, 2 * y_div) += x(n, c, y_div) * w(c, o, 1)",
        "S0.start: r(n, o, 2 * y_div + 1) = r.z0(o, 1)",
        "S0: r(n, o, 2 * y_div + 1) += (y_div - k_div + 1 < x.2 ? x(n, c, y_div - k_div + 1) : 0.0)"
        " * w(c, o, 2 * k_div)",
    ]


def test_a_start_becomes_classes_too() -> None:
    """As a bias does: its classes have the variables of the sum's."""
    text = f"{HEAD} {{ r(i,j,z) = b(j) where z in 0:2*H, i in 0:N  r(n,o,y) += {HALF} }}"
    found = linearise(shape(text, **SIZES), Thresholds())
    assert texts(found)[1::2] == [
        "S0.piece0: r(n, o, 2 * y_div) = b(o) + r.z0(o, 0)",
        "S0: r(n, o, 2 * y_div + 1) = b(o) + r.z0(o, 1)",
    ]


def test_of_integers_nothing_is_added() -> None:
    text = HEAD.replace("float", "int") + f" {{ r(n,o,y) +=! {HALF} }}"
    assert [
        line.split(":")[0] for line in texts(linearise(shape(text, **SIZES), Thresholds()))
    ] == [
        "S0.piece0",
        "S0",
    ]


STAY = {
    "what the zeros add takes as long as the sum": f"r(n,o,y) +=! {HALF}, n in 0:1".replace(
        "2*H", "4"
    ),
    "weights that move with the result": "r(n,o,y) +=! ((y - k) % 2 == 0 ? x(n,c,k) : 0) * w(c,o,y)"
    " where y in 0:K",
    "other tests": "r(n,o,y) +=! (y - k < 2 ? x(n,c,k) : 0) * w(c,o,k) where y in 0:H",
    "a start of more elements": f"r(n,o,y) = b(o) where y in 0:3*H, n in 0:N  r(n,o,y) += {HALF}",
    "a start that reads what it starts": "r(n,o,y) = b(o) where y in 0:2*H, n in 0:N"
    f"  r(n,o,y) = r(n,o,y) + 1  r(n,o,y) += {HALF}",
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    found = linearise(shape(f"{HEAD} {{ {STAY[name]} }}", **SIZES), Thresholds())
    assert not any("zeros" in s.name for s in found.program.statements)
    assert not any("z0" in name for name in found.program.tensors)


def test_the_kernel_tests_no_remainder() -> None:
    """In its main loops, which are as long as the terms that are there."""
    text = f"{HEAD} {{ r(n,o,y) = b(o) where y in 0:2*H, n in 0:N  r(n,o,y) += {HALF} }}"
    program = shape(text, N=8, C=32, H=64, O=32, K=4)
    kernel = lower(program, {}, initial=frozenset(), check=True, device=Device(vector_bits=256))
    assert not any(isinstance(s, If) for s in every_statement(kernel))
    found = linearise(program, Thresholds())
    sums = [s for s in found.statements if s.statement.op == "+" and s.statement.target == "r"]
    assert [s.ranges["k_div"].extent for s in sums] == [2, 2]
    assert not [
        n for s in sums for n in walk(s.statement.rhs) if isinstance(n, Compare) and n.op == "=="
    ]


def test_a_stride_of_more_than_four_has_classes() -> None:
    """As many as there are, at most, whatever the stride: terms are fewer by it. What the zeros add
    shares no loops with them."""
    text = HALF.replace("+ 1 - k", "- k").replace("2", "5")
    program = shape(f"{HEAD} {{ r(n,o,y) +=! {text} }}", N=4, C=32, H=16, O=32, K=5)
    found = linearise(program, Thresholds())
    assert sum(s.op == "+" and s.target == "r" for s in found.program.statements) == 5
    assert linearise(program, Thresholds(classes=4)) is program
    trace = tc.explain(f"{HEAD} {{ r(n,o,y) +=! {text} }}", N=4, C=32, H=16, O=32, K=5).trace
    first = in_order(trace.lowering.mapped.tree)[0]
    assert {*leaves(first)} == {"S0.zeros.init", "S0.zeros"}


def test_no_zeros_are_stored_before_a_start() -> None:
    """Though a class goes on from its start before all of the target is written."""
    text = f"{HEAD} {{ r(n,o,y) +=! {HALF} }}"
    trace = tc.explain(text, {"N": 4, "C": 32, "H": 64, "O": 32, "K": 4}).trace
    assert all(s.kind != "zero" for s in trace.lowering.scop.statements)


# --- values -----------------------------------------------------------------------------------


def backend_of(seed: int) -> str:
    return random.Random(seed).choice([b for b in ("numba", "c") if b in tc.backends()])


def assert_right(case: Transposed, seed: int) -> None:
    found = tc.compile(case.text, backend=backend_of(seed))(*case.inputs)
    np.testing.assert_array_equal(found, case.expected())
    program, _ = shaped_with(case.text, dict(zip(("x", "w", "b"), case.inputs, strict=False)))
    assert_consistent(linearise(program, Thresholds()))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(40))
def test_drawn(seed: int) -> None:
    assert_right(drawn(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_more_drawn(first: int) -> None:
    for seed in range(first, first + 100):
        assert_right(drawn(seed), seed)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_weight_that_is_no_number_spoils_what_it_would(value: float, bias: bool) -> None:
    """0 times it is NaN, for each output for which the program has such a term: all outputs of its
    channel but those that an input reaches by it, which are its product."""
    rng = np.random.default_rng(3)
    x: Any = rng.integers(1, 5, (2, 3, 7)).astype(np.float32)
    w: Any = rng.integers(1, 5, (3, 4, 3)).astype(np.float32)
    w[1, 2, 0] = value
    b = np.float32([1, 2, 3, 4]) if bias else None
    case = Transposed((2,), (0,), (1,), (1,), x, w, b)
    found = tc.compile(case.text)(*case.inputs)
    spoiled = np.full(16, np.nan)
    spoiled[:14:2] = value  # y = 2 * h + k with k = 0
    w[1, 2, 0] = 0
    want = case.expected()
    want[:, 2] = spoiled
    np.testing.assert_array_equal(found, want)
