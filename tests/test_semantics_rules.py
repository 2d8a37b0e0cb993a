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


# --- T5: annotations --------------------------------------------------------------------------


def test_rule_t5_a_statement_has_one_annotation() -> None:
    text = "def f(float(N) a) -> (o) { o(i) = a(i) <=> g(a) }"
    assert tc.interpret(text, [np.ones(2, np.float32)]).tolist() == [1, 1]
    with pytest.raises(tc.ParseError) as caught:
        tc.compile(text.replace("g(a)", "g(a) <=> h(a)"))
    assert caught.value.rule == "T5"


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


# --- R5: bounds for any order -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "expected"),
    [([np.inf, 1, 2], 0), ([np.inf, -3e38, -3e38], np.inf), ([np.inf, 3e38, -np.inf], 0)],
)
def test_rule_r5_infinities_in_a_sum(terms: list[float], expected: float) -> None:
    """Infinite where the order counts: inf - 3e38 - 3e38 is inf from left to right, and
    -3e38 - 3e38 is -inf in float32, which with inf is NaN. The last sum is NaN in every order."""
    text = "def f(float(N) a) -> (o) { o +=! a(i) }"
    bound = tc.error_bound(text, [np.array(terms, np.float32)])
    assert float(bound) == expected


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


def test_rule_g2_concat_is_no_meeting_of_two_sizes() -> None:
    """The target of concat is larger than each source, as it should be: no warning."""
    text = "def f(float(N) a, float(M) b) -> (o, p) { o = concat(a, b)  p = concat(b, a, b) }"
    shaped = shape(text, N=3, M=5)
    assert shaped.shapes["o"] == (8,)
    assert shaped.shapes["p"] == (13,)
    assert shaped.warnings == ()


# --- G3: who fixes a shape --------------------------------------------------------------------


def test_rule_g3_a_statement_does_not_wait_for_its_own_target() -> None:
    """The first statement reads C, which has no shape yet, and fixes it all the same: text order
    counts, so that the second statement gets the lesser range."""
    text = "def f(float(N) a, float(M) b) -> (C) { C(i) = C(i) + a(i)  C(i) = b(i) }"
    shaped = shape(text, N=3, M=5)
    assert shaped.shapes["C"] == (3,)
    assert ranges(shaped, 1) == {"i": (0, 3)}


# --- G6: preconditions behind guards ----------------------------------------------------------


def test_rule_g6_a_negative_guard_is_true() -> None:
    """`i - 2 ? ...` reads at i = 0 too, where i - 2 is -2."""
    text = "def f(float(N) a) -> (o) { o(i) = i - 2 ? a(2*i - BEFORE) : 0 where i in 0:4 }"
    assert shape(text.replace("BEFORE", "0"), N=7).shapes["o"] == (4,)
    with pytest.raises(tc.RangeError) as caught:
        shape(text.replace("BEFORE", "1"), N=7)
    assert caught.value.rule == "G6"
    assert shape("def f(float(N) a) -> (o) { o(i) = i ? a(i - 1) : 0 where i in 0:4 }", N=3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rule_g6_a_guard_on_a_narrower_value_proves_nothing(backend: str) -> None:
    """int8(256) is 0, within X, and 256 is not; a guard of the value itself does."""
    text = """def f(float(N) X, int(M) I) -> (o) {
      o(i) = CAST(I(i)) >= 0 && CAST(I(i)) < N ? X(I(i)) : 9
    }"""
    X, rows = np.arange(3, dtype=np.float32), np.array([2, 256], np.int32)
    guarded = tc.compile(text.replace("CAST", "int64"), backend=backend)
    assert guarded(X, rows).tolist() == [2, 9]
    with pytest.raises(tc.AccessError) as caught:
        tc.compile(text.replace("CAST", "int8"), backend=backend)(X, rows)
    assert caught.value.rule == "G7"
    assert "256" in str(caught.value)


# --- G7: what is checked at run time ----------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "is_checked"),
    [
        ("I(i) >= 0 && I(i) < N ? X(I(i)) : 9", False),
        ("I(i) >= 0 && I(i) <= N ? X(I(i)) : 9", True),
        ("I(i) >= -1 && I(i) < N ? X(I(i)) : 9", True),
        ("I(i) > -1 && N > I(i) ? X(I(i)) : 9", False),
        ("I(i) > -2 && N > I(i) ? X(I(i)) : 9", True),
        ("0 <= I(i) && N - 1 >= I(i) ? X(I(i)) : 9", False),
        ("0 <= I(i) && N >= I(i) ? X(I(i)) : 9", True),
        ("I(i) < 0 || I(i) >= N ? 9 : X(I(i))", False),
        ("I(i) < -1 || I(i) >= N ? 9 : X(I(i))", True),
        ("I(i) < 0 || I(i) > N ? 9 : X(I(i))", True),
        ("I(i) <= -1 || I(i) > N - 1 ? 9 : X(I(i))", False),
        ("I(i) <= -2 || I(i) > N - 1 ? 9 : X(I(i))", True),
        ("0 > I(i) || N <= I(i) ? 9 : X(I(i))", False),
        ("-1 > I(i) || N <= I(i) ? 9 : X(I(i))", True),
        ("0 >= I(i) + 1 || N < I(i) + 1 ? 9 : X(I(i))", True),
        ("I(i) == 2 ? X(I(i)) : 9", False),
        ("I(i) == 3 ? X(I(i)) : 9", True),
        ("I(i) != 2 ? 9 : X(I(i))", False),
        ("I(i) != 2 ? X(I(i)) : 9", True),
        ("!(I(i) >= 0 && I(i) < N) ? 9 : X(I(i))", False),
        ("!(I(i) >= 0 && I(i) < N) ? X(I(i)) : 9", True),
        ("X(I(i) % 3)", False),
        ("X(I(i) % 4)", True),
    ],
)
def test_rule_g7_a_guard_saves_the_check_only_where_it_proves_the_read(
    value: str, is_checked: bool
) -> None:
    """X has the elements 0, 1 and 2."""
    shaped = shape(f"def f(float(N) X, int(M) I) -> (o) {{ o(i) = {value} }}", N=3, M=4)
    assert bool(shaped.statements[0].checked) is is_checked


@pytest.mark.parametrize(("elements", "is_checked"), [(4, False), (3, True), (1, True)])
def test_rule_g7_a_remainder_goes_up_to_its_greatest_divisor(
    elements: int, is_checked: bool
) -> None:
    """With j in 0:4 the divisor is at most 4 and the remainder at most 3."""
    text = "def f(float(N) X, int(M) I) -> (o) { o(i,j) = X(I(i) % (j + 1)) where j in 0:4 }"
    assert bool(shape(text, N=elements, M=2).statements[0].checked) is is_checked


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


# --- P1: reads of the target ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "first", "second"),
    [
        (
            "i > 0 ? a(i - 1) : 0",
            "reads a(0) in the instance i = 1",
            "the instance i = 0 writes it",
        ),
        (
            "i < 3 ? a(i + 1) : 0",
            "reads a(1) in the instance i = 0",
            "the instance i = 1 writes it",
        ),
    ],
)
def test_rule_p1_the_error_says_who_reads_and_who_writes(
    read: str, first: str, second: str
) -> None:
    text = f"def f(float(N) x) -> (a) {{ a(i) = x(i)  a(i) = {read} where i in 0:4 }}"
    with pytest.raises(tc.RangeError) as caught:
        shape(text, N=4)
    assert caught.value.rule == "P1"
    assert f"{first}, and {second}" in str(caught.value)


def test_rule_p1_no_subscript_of_exists_reads_the_target() -> None:
    text = "def f(int(N) x) -> (a) { a(i) = x(i)  a(i) = 2 * x(i) where exists x(a(i)) }"
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(text)
    assert caught.value.rule == "P1"
    assert "a subscript reads 'a', which this statement writes" in str(caught.value)
