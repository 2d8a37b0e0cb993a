"""Rules of the language, one section each: what no other test would notice if it were wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.support.sizes_of_call import ranges, shape

BACKENDS = [
    "interpret",
    "numba",
    pytest.param(
        "c", marks=pytest.mark.skipif("c" not in tc.backends(), reason="there is no C compiler")
    ),
]


def refused(text: str, *inputs: object, outputs: object = None) -> tc.TCError:
    with pytest.raises(tc.TCError) as caught:
        tc.interpret(text, list(inputs), outputs=outputs)
    return caught.value


# --- Y1: weak values --------------------------------------------------------------------------


@pytest.mark.parametrize(("tiny", "factor"), [("1e-300", 2), ("1e-200 * 1e-200", 4)])
def test_rule_y1_a_weak_condition_counts_in_float64(tiny: str, factor: int) -> None:
    """Beside half too: 3e-300 is 0 in float32 alone, 3e-400 in float64 as well."""
    text = f"def f(half(N) h) -> (o) {{ o(i) = h(i) * (2 * (N * {tiny} ? 1 : 2)) }}"
    h = np.array([1, 2, 3], np.float16)
    assert np.array_equal(tc.interpret(text, [h]), factor * h)


# --- Y3: Python's numbers ---------------------------------------------------------------------


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_rule_y3_python_integers_up_to_the_ends_of_their_type(kind: str, bits: int) -> None:
    text = f"def f({kind}{bits} x) -> (o) {{ o = x }}"
    least = -(2 ** (bits - 1)) if kind == "int" else 0
    largest = 2 ** (bits - 1) - 1 if kind == "int" else 2**bits - 1
    for value in (least, largest):
        assert int(tc.interpret(text, [value])) == value
    for value in (least - 1, largest + 1):
        error = refused(text, value)
        assert error.rule == "Y3"
        assert f"holds {least} to {largest}" in str(error)


# --- Y4: conversions --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", ["float", "double"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_rule_y4_floats_in_the_upper_half_of_unsigned_types(
    bits: int, source: str, backend: str
) -> None:
    """What is in range for unsigned types is out of range for signed ones of the same width."""
    whole = [3 * 2 ** (bits - 2), 2**bits - 2 ** max(0, bits - 24), 2 ** (bits - 1), 3, 0]
    x = np.array([*(float(n) for n in whole), -0.75], "f4" if source == "float" else "f8")
    f = tc.compile(f"def f({source}(N) x) -> (o) {{ o(i) = uint{bits}(x(i)) }}", backend=backend)
    assert [int(n) for n in f(x)] == [*whole, 0]


# --- Y7: built-in names -----------------------------------------------------------------------


def test_rule_y7_a_def_hides_the_builtin_within_expressions() -> None:
    text = """
    def exp(float(N) a) -> (o) { o(i) = a(i) }
    def f(float(N) a) -> (o) { o(i) = exp(a(i)) }"""
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(text, entry="f")
    assert caught.value.rule == "N4"


# --- N2 and N3: inputs are no temporaries -----------------------------------------------------


def test_rule_n2_an_input_written_after_it_was_read() -> None:
    """Not the error of a temporary that is read too early (R4, N3)."""
    error = refused("def f(float(N) a) -> (o) { o(i) = a(i)  a(i) = 1 }", np.ones(2, np.float32))
    assert error.rule == "N2"
    assert "'a' is an input of 'f'" in str(error)


# --- R4: outputs that the caller must give ----------------------------------------------------


def test_rule_r4_each_output_that_is_read_must_be_given() -> None:
    """Here p is given, and q, which is read too, is not."""
    a, p = np.ones(2, np.float32), np.ones(2, np.float32)
    text = "def f(float(N) a) -> (p, q) { p(i) = 2 * p(i) + a(i)  q(i) = q(i) * a(i) }"
    error = refused(text, a, outputs={"p": p})
    assert error.rule == "R4"
    assert "q is read before any statement defines it" in str(error)
    assert np.array_equal(p, a)


# --- G2: differently named sizes --------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_rule_g2_a_call_warns_where_two_sizes_meet(backend: str) -> None:
    """Once per function, with both places; sizes that agree give no warning."""
    f = tc.compile("def f(float(N) a, float(M) b) -> (o) { o(i) = a(i) + b(i) }", backend=backend)
    a, b = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)
    f(a, a)
    with pytest.warns(tc.TCWarning, match=r"\[G2\]") as caught:
        assert np.array_equal(f(a, b), 2 * a)
    message = str(caught[0].message)
    assert "'a(i)', of size N = 3 in dimension 0" in message
    assert "'b(i)', of size M = 5 in dimension 0" in message
    assert len(caught) == 1
    f(a, b)


# --- G3: who fixes a shape --------------------------------------------------------------------


def test_rule_g3_a_statement_does_not_wait_for_its_own_target() -> None:
    """The first statement reads C, which has no shape yet, and fixes it all the same: text order
    counts, so that the second statement gets the lesser range."""
    text = "def f(float(N) a, float(M) b) -> (C) { C(i) = C(i) + a(i)  C(i) = b(i) }"
    shaped = shape(text, N=3, M=5)
    assert shaped.shapes["C"] == (3,)
    assert ranges(shaped, 1) == {"i": (0, 3)}


# --- G8: where clauses ------------------------------------------------------------------------


def test_rule_g8_a_where_alone_gives_the_range_of_its_variable() -> None:
    """The range of k is 0:t.0, and t gets its shape from o: w(k) must not stand in for it."""
    text = """
    def f(float(N) a, float(K) w) -> (o, t) {
      t(j) = 0
      o(i) +=! a(i + k) * w(k) where k in 0:t.0
      t(j) = o(j)
    }"""
    with pytest.raises(tc.RangeError) as caught:
        shape(text, N=9, K=3)
    assert caught.value.rule == "G5"
