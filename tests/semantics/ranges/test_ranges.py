"""Range inference, rule by rule: G1 to G4."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import tc
from tests.support.sizes_of_call import ranges, refused, shape

ROOT = Path(__file__).parents[3]


# --- G1: from 0, as large as possible ---------------------------------------------------------


def test_matrix_vector_product() -> None:  # rule G1, paper-3.9, paper-3.10
    text = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    shaped = shape(text, M=4, K=3)
    assert ranges(shaped) == {"i": (0, 4), "k": (0, 3)}
    assert shaped.shapes["C"] == (4,)


def test_writes_bound_too() -> None:  # rule G1
    text = "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i)  O(i) = B(i) }"
    shaped = shape(text, N=3, M=5)
    assert ranges(shaped, 1) == {"i": (0, 3)}


def test_a_variable_in_one_tensor_twice() -> None:  # rule G1
    assert ranges(shape("def f(float(N,M) A) -> (o) { o(i) = A(i,i) }", N=3, M=5)) == {"i": (0, 3)}


# --- G2: rounds -------------------------------------------------------------------------------


def test_convolution_resolves_the_kernel_first() -> None:  # rule G2, paper-3.11, paper-3.12
    text = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i+x) }"
    shaped = shape(text, M=10, N=3)
    assert ranges(shaped) == {"i": (0, 8), "x": (0, 3)}
    assert shaped.statements[0].ranges["x"].round == 1
    assert shaped.statements[0].ranges["i"].round == 2
    assert [s.text for s in shaped.statements[0].ranges["i"].fixed_by] == ["I(i+x)"]


def test_strided_convolution_with_scalars() -> None:  # rule G2, paper-3.7
    text = """def f(int sh, float(H) I, float(KH) W) -> (O) { O(h) +=! I(sh * h + k) * W(k) }"""
    assert ranges(shape(text, sh=2, H=10, KH=3))["h"] == (0, 4)
    assert ranges(shape(text, sh=3, H=10, KH=3))["h"] == (0, 3)


FACTORS = list(permutations(("A(i)", "B(j)", "C(i+j)", "D(k+i+j)", "E(k)")))[::5]


@pytest.mark.parametrize("factors", FACTORS)
def test_order_of_factors_does_not_matter(factors: tuple[str, ...]) -> None:  # rule G2
    """k has two constraints, of different rounds: only those of the first bound it."""
    text = (
        "def f(float(3) A, float(4) B, float(9) C, float(12) D, float(7) E) -> (o) "
        f"{{ o +=! {' * '.join(factors)} }}"
    )
    shaped = shape(text)
    assert ranges(shaped) == {"i": (0, 3), "j": (0, 4), "k": (0, 7)}
    assert {p.text for p in shaped.preconditions} == {"C(i+j)", "D(k+i+j)"}


def test_constraints_of_one_round_are_intersected() -> None:  # rule G2
    text = "def f(float(N) A, float(M) B, float(K) C) -> (o) { o(i) = A(i) + B(i+1) + C(2*i) }"
    assert ranges(shape(text, N=9, M=9, K=9)) == {"i": (0, 5)}
    assert ranges(shape(text, N=9, M=4, K=9)) == {"i": (0, 3)}


def test_lesser_of_two_sizes_with_a_warning() -> None:  # rule G2
    text = "def f(float(N) A, float(M) B) -> (o) { o +=! A(i) * B(i) }"
    shaped = shape(text, N=3, M=5)
    assert ranges(shaped) == {"i": (0, 3)}
    (warning,) = shaped.warnings
    assert warning.rule == "G2"
    assert warning.message == (
        "'i' indexes 'A(i)', of size N = 3 in dimension 0, and 'B(i)', of size M = 5 in "
        "dimension 0: its range is 0:3"
    )
    assert shape(text, N=4, M=4).warnings == ()


@pytest.mark.parametrize(
    ("first", "place", "lost", "size"),
    [
        ("o(2*i) = a(i)", "2*i+1", "i = 3", "2 * N"),
        ("o(i) = a(i)", "N+i", "i = 0 to 3", "2 * N"),
        ("o(i) = a(i)", "i+1", "i = 3", "N + 1"),
        ("o(i) = a(i)", "3*i", "i = 2 to 3", "3 * N - 2"),
        ("o(i) = a(i)", "i + N/2", "i = 2 to 3", "N / 2 + N"),
    ],
)
def test_what_a_place_leaves_out_is_told(first: str, place: str, lost: str, size: str) -> None:
    """The repair, where it says, writes all that is read."""
    text = f"def f(float(N) a, float(N) b) -> (o) {{ {first}  o({place}) = b(i) }}"
    (warning,) = shape(text, N=4).warnings
    length = 7 if first.startswith("o(2") else 4
    assert warning.rule == "G2"
    assert warning.message == (
        f"nothing is written for {lost}: 'b(i)' has 4 elements in dimension 0, and 'o({place})' "
        f"must be below {length}, which is the size of dimension 0 of o by '{first}'"
    )
    assert warning.repair == f"say the size in '{first}': where o.0 = {size}"
    repaired = shape(text.replace(first, f"{first} where o.0 = {size}"), N=4)
    assert repaired.warnings == ()
    assert ranges(repaired, 1) == {"i": (0, 4)}


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N) a, float(N) b) -> (o) { o(2*i) = a(i) where o.0 = 2*N  o(2*i+1) = b(i) }",
        "def f(float(N) a, float(N) b) -> (float(N) o) { o(i) = a(i)  o(i+1) = b(i) }",
        "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i)  o(i+1) += b(i) }",
        "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i)  o(i+1) = b(i) where i in 0:N-1 }",
        "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i)  o(N-1-i) = b(i) }",
    ],
)
def test_places_that_leave_nothing_out_or_are_meant_to(text: str) -> None:
    assert shape(text, N=4).warnings == ()


@pytest.mark.parametrize("end", ["N+1-i", "N+1-i/2"])
def test_a_dependent_range_that_falls_from_beyond(end: str) -> None:  # rules G5, W2
    """As `x(N-i)` does; nothing is computed for less than all without a word."""
    text = f"def f(float(N) x) -> (o) {{ o(i) +=! x(j) where j in 0:{end} }}"
    with pytest.raises(tc.errors.RangeError) as raised:
        shape(text, N=5)
    cause = "'i' cannot start at 0: at i = 0 subscript 0 of 'x(j)' is 5, but x.0 is N = 5"
    assert raised.value.cause == cause
    repair = str(raised.value.repair)
    assert repair.startswith("say which values 'i' takes: where ")
    where = repair.partition(": where ")[2]
    assert ranges(shape(text.replace(f"j in 0:{end}", where), N=5))["i"][0] in (1, 2)
    assert ranges(shape(text, N=0))["i"] == (0, 0)


def test_a_size_of_1_is_no_range() -> None:  # rule G2
    """The repair is the broadcast written out, and means what other languages compute."""
    a, b = np.arange(1, 3, dtype=np.float32)[:, None], np.arange(3, dtype=np.float32)
    text = "def f(float(N,K) A, float(M) b) -> (o) { o(i,j) = A(i, j) * b(j) }"
    (warning,) = shape(text, N=2, K=1, M=3).warnings
    assert warning.rule == "G2"
    assert warning.repair == "A(i,0) for A(i, j), which takes that element for all 'j'"
    with pytest.warns(tc.TCWarning, match=r"repair: A\(i,0\) for"):
        tc.interpret(text, [a, b])
    assert warning.repair is not None
    repaired = text.replace("A(i, j)", warning.repair.partition(" for ")[0])
    np.testing.assert_array_equal(tc.interpret(repaired, [a, b]), a * b)
    bounded = text.replace("b(j)", "b(j) where j in 0:M")
    with pytest.raises(tc.RangeError, match=r"repair: A\(i,0\) for A\(i, j\)"):
        tc.interpret(bounded, [a, b])


def test_the_lesser_of_a_left_side_is_no_broadcast() -> None:  # rule G2
    text = "def f(float(N) A, float(M) b) -> (float(N) o) { o(i) = b(i) }"
    (warning,) = shape(text, N=1, M=3).warnings
    assert warning.repair == "declare both with one size, or add: where i in 0:1"


def test_only_bare_subscripts_are_warned_of() -> None:  # rule G2
    text = "def f(float(N) A, float(M) B) -> (o) { o +=! A(i) * B(i+1) }"
    assert shape(text, N=3, M=9).warnings == ()


QUASI_AFFINE = [
    ("a(i/2)", 20),
    ("a(3*i/2)", 7),  # 3*6/2 = 9
    ("a(max(i, 4))", 10),
    ("a(max(i - 3, 0))", 13),
    ("a(min(i, 2*i - 0))", 10),
    ("a(min(i, 12) + 1)", 9),
    ("a(i < 5 ? 0 : i)", 10),
    ("a(i % 2 == 0 ? i : 0)", 10),
    ("a(int32(i) + 2)", 8),
    ("a(int8(i))", 10),
    ("a(i + i%3)", 8),  # 8 + 8%3 = 10
    ("a(9 - i)", 10),
    ("a(9 - i/2)", 20),
    ("a((i+1)*2)", 4),
    ("a(i*N/N + 0*i)", 10),
]


@pytest.mark.parametrize(("read", "end"), QUASI_AFFINE, ids=lambda value: str(value))
def test_quasi_affine_subscripts_bound(read: str, end: int) -> None:  # rule G2
    assert ranges(shape(f"def f(float(N) a) -> (o) {{ o(i) = {read} }}", N=10)) == {"i": (0, end)}


@pytest.mark.parametrize("read", ["a(i % 3)", "a(min(i, 2))", "a(i < 3 ? i : 0)", "a(0*i)"])
def test_what_never_leaves_does_not_bound(read: str) -> None:  # rule G2
    error = refused(f"def f(float(N) a) -> (o) {{ o(i) = {read} }}", N=10)
    assert error.rule == "G5"
    assert "'i'" in error.cause


def test_a_variable_only_under_remainder_is_bounded_elsewhere() -> None:  # rule G2
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i % 3) * b(i) }"
    shaped = shape(text, N=3, M=7)
    assert ranges(shaped) == {"i": (0, 7)}
    assert [p.text for p in shaped.preconditions] == ["a(i % 3)"]


def test_a_remainder_never_bounds() -> None:  # rule G2
    """a(i % 3) leaves a tensor of size 2 at i = 2, which is an error and no bound."""
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i % 3) * b(i) }"
    assert refused(text, N=2, M=7).rule == "G6"
    assert ranges(shape(text, N=2, M=2)) == {"i": (0, 2)}
    text = "def f(float(N) a) -> (o) { o(i) = a(i % 3) }"
    assert "only under %" in refused(text, N=2).cause


@pytest.mark.parametrize("divisor", ["(0-2)", "(N-N)", "i"])
@pytest.mark.parametrize("op", ["/", "%"])
def test_only_division_by_a_positive_constant_is_affine(op: str, divisor: str) -> None:  # rule G2
    error = refused(f"def f(float(N) a) -> (o) {{ o(i) = a(4 + i {op} {divisor}) }}", N=6)
    assert "is not affine" in error.cause


def test_a_remainder_counts_as_a_variable_of_its_subscript() -> None:  # rule G2
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) +=! a(i + j % 3) * b(j) }"
    assert ranges(shape(text, N=10, M=7)) == {"i": (0, 8), "j": (0, 7)}


def test_variables_that_cancel_are_variables_of_the_subscript() -> None:  # rule G2
    text = "def f(float(N) a, float(M) b) -> (o) { o +=! a(i + j - j) * b(j) }"
    shaped = shape(text, N=4, M=6)
    assert shaped.statements[0].ranges["i"].round == 2
    error = refused("def f(float(N) a) -> (o) { o +=! a(i + j - j) }", N=4)
    assert "leaves i and j open" in error.cause


def test_products_with_index_variables_are_not_affine() -> None:  # rule G2, paper-3.6
    text = "def f(float(N) a, float(M) b) -> (o) { o +=! a(i*j) * b(i) * b(j) }"
    assert ranges(shape(text, N=40, M=6)) == {"i": (0, 6), "j": (0, 6)}


def test_an_empty_variable_that_leaves_another_open() -> None:  # rule G2
    text = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i+x) }"
    error = refused(text, M=5, N=0)
    assert error.rule == "G5"
    assert "'x' has the empty range 0:0" in error.cause
    assert "'I(i+x)' does not bound 'i'" in error.cause


def test_exists_bounds_and_is_not_checked() -> None:  # rule G2, T5
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i/2) where exists b(i) }"
    shaped = shape(text, N=9, M=4)
    assert ranges(shaped) == {"i": (0, 4)}
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i) where i in 0:N, exists b(i) }"
    assert ranges(shape(text, N=9, M=4)) == {"i": (0, 9)}


# --- G3: over the whole function --------------------------------------------------------------


def test_an_initialisation_waits_for_the_shape() -> None:  # rule G3
    text = """
    def mv(float(M,K) A, float(K) x) -> (C) {
      C(i) = 0
      C(i) += A(i,k) * x(k)
    }"""
    shaped = shape(text, M=4, K=3)
    assert ranges(shaped, 0) == {"i": (0, 4)}
    assert shaped.shape_fixed_by["C"].text == "C(i) += A(i,k) * x(k)"


def test_a_broadcast_waits_for_the_shape() -> None:  # rule G3
    text = """
    def MLP1(float(B,M) I, float(O,M) W1, float(O) B1) -> (O1) {
      O1(b,n) = B1(n)
      O1(b,n) += I(b,m) * W1(n,m)
      O1(b,n) = fmaxf(O1(b,n), 0)
    }"""
    shaped = shape(text, B=2, M=3, O=4)
    assert [ranges(shaped, s)["b"] for s in range(3)] == [(0, 2)] * 3


def test_an_annotation_fixes_the_shape() -> None:  # rule G3, T4
    text = "def f(float(N) a) -> (float(N,N) o) { o(i,j) = a(0) }"
    shaped = shape(text, N=3)
    assert shaped.shapes["o"] == (3, 3)
    assert ranges(shaped) == {"i": (0, 3), "j": (0, 3)}


def test_scaling_the_target_waits() -> None:  # rule G3, paper-3.3
    text = """
    def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
      C(i,j) = b * C(i,j)
      C(i,j) += a * A(i,k) * B(k,j)
    }"""
    assert shape(text, N=2, M=3, K=4).shapes["C"] == (2, 4)


def test_a_temporary_read_before_it_is_shaped() -> None:  # rule G3
    """S0 reads b, whose shape S1 fixes only after S2 has fixed that of c."""
    text = """
    def f(float(N) x) -> (a, b, c) {
      a(i) = b(i) + x(0)
      b(i) = c(i+1)
      c(i) = x(i+1)
    }"""
    shaped = shape(text, N=9)
    assert {n: shaped.shapes[n] for n in "abc"} == {"a": (7,), "b": (7,), "c": (8,)}


def test_a_statement_waits_for_what_it_reads() -> None:  # rule G3
    """x alone would let a begin with 9 elements, but b, shaped later, has only 8."""
    text = "def f(float(N) x) -> (a, b) { a(i) = b(i) + x(i)  b(i) = x(i+1) }"
    assert shape(text, N=9).shapes["a"] == (8,)


def test_going_on_with_what_is_known() -> None:  # rule G3
    """a and b wait for each other; a goes on, bounded by x alone, and then b by a."""
    text = """
    def f(float(N) x) -> (a, b) {
      a(i) = b(i) + x(i)
      b(i) = a(i)
    }"""
    shaped = shape(text, N=4)
    assert shaped.shapes["a"] == shaped.shapes["b"] == (4,)
    assert [p.text for p in shaped.preconditions if p.statement == "S0"] == ["b(i)"]


def test_the_first_statement_that_can_fixes_the_shape() -> None:  # rule G3
    text = "def f(float(N) x, float(M) y) -> (o) { o(i) = x(i)  o(i) += y(i) }"
    shaped = shape(text, N=3, M=5)
    assert shaped.shapes["o"] == (3,)
    assert [d.rule for d in shaped.warnings] == ["G2"]
    assert shape(text, N=5, M=3).shapes["o"] == (5,)


def test_a_statement_that_cannot_start_at_0_leaves_the_shape_to_another() -> None:  # rule G3
    text = """
    def f(float(N) x) -> (o) {
      o(i) = i >= 1 ? x(i-1) : 0
      o(i) += x(i)
    }"""
    error = refused(text, N=3)  # Y6: both branches are used, so i cannot start at 0
    assert error.rule == "G5"
    assert "'i' cannot start at 0" in error.cause


def test_a_statement_without_a_feasible_range_waits_for_another() -> None:  # rule G3
    """Alone, S0 bounds i by a(i-k) in round 2, and 0 is not feasible; once S1 has fixed the
    shape of o, o(i) bounds i in round 1, and a(i-k) is a precondition that its guard keeps."""
    text = """
    def f(float(N) a, float(K) b) -> (o) {
      o(i) +=! i >= k ? a(i-k) * b(k) : 0
      o(i) += a(i)
    }"""
    shaped = shape(text, N=6, K=3)
    assert shaped.shape_fixed_by["o"].text == "o(i) += a(i)"
    assert ranges(shaped, 0) == {"i": (0, 6), "k": (0, 3)}
    assert "a(i-k)" in {p.text for p in shaped.preconditions}
    assert refused(text.replace("o(i) += a(i)", ""), N=6, K=3).rule == "G5"


def test_a_later_statement_that_does_not_fit() -> None:  # rule G3
    text = "def f(float(N) x, float(M) y) -> (o) { o(i) = x(i)  o(i) += y(i) where i in 0:M }"
    error = refused(text, N=3, M=5)
    assert error.rule == "G3"
    assert error.notes[0][0].text == "o(i) = x(i)"
    assert error.notes[0][1] == "the shape of o, (3,), is fixed here"


def test_nothing_fixes_the_shape() -> None:  # rule G3, G5
    error = refused("def f(float(N) x) -> (o) { o(i,j) = x(j) }", N=3)
    assert error.rule == "G5"
    assert "'i'" in error.cause
    assert "where i in" in error.repair


def test_the_statement_to_blame_is_the_one_that_bounds_too_little() -> None:  # rule G3
    text = "def f(float(N) x) -> (o) { o(i) = 0  o(i) += x(i+j) }"
    assert "'x(i+j)'" in refused(text, N=3).cause


# --- G4: shapes -------------------------------------------------------------------------------


def test_a_shape_is_the_end_of_the_range() -> None:  # rule G4
    text = "def f(float(N) x) -> (o) { o(i) = x(i) where i in 2:5 }"
    assert shape(text, N=9).shapes["o"] == (5,)


def test_an_unaddressable_shape_is_refused() -> None:  # rule G4
    error = refused("def f(float(N) x) -> (o) { o(i,j) = x(0) where i in 0:10000000000, "
                    "j in 0:10000000000 }", N=1)  # fmt: skip
    assert error.rule == "G4"


# --- isl ---------------------------------------------------------------------------------------


def test_linear_programs_need_no_isl() -> None:
    """Most programs have linear subscripts only; for them isl is not even loaded."""
    script = (
        "import sys\n"
        "from tests.support.sizes_of_call import shape\n"
        "text = 'def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(2*i+x) }'\n"
        "shape(text, M=9, N=3)\n"
        "print('islpy' in sys.modules)\n"
        "shape(text.replace('2*i', 'i/2'), M=9, N=3)\n"
        "print('islpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["False", "True"]
