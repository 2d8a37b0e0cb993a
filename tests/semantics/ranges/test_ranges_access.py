"""Preconditions, run-time checks and pad: G6, G7, G9, and the lazy operators of Y6."""

from __future__ import annotations

import re

import pytest

from tc.errors import RangeError
from tests.support.sizes_of_call import checked_texts, ranges, shape


def texts(source: str, **sizes: int) -> set[str]:
    return {p.text for p in shape(source, **sizes).preconditions}


# --- G6: preconditions ------------------------------------------------------------------------


def test_an_access_that_took_no_part_is_a_precondition() -> None:  # rule G6
    text = "def f(float(N) B, float(K) C, float(M) D) -> (A) { A(i,j) = B(i)*C(i+j)*D(j) }"
    assert texts(text, N=3, M=4, K=6) == {"C(i+j)"}
    with pytest.raises(RangeError) as caught:
        shape(text, N=3, M=4, K=5)
    error = caught.value
    assert error.rule == "G6"
    assert error.cause == "at i = 2, j = 3 subscript 0 of 'C(i+j)' is 5, but C.0 is K = 5"
    assert error.repair == "let the index stay in bounds: where j in 0:K-N+1"


WINDOWS = {
    "the centre first": (
        "def f(float(N) I, float(K) k) -> (o) { o(y) +=! I(y+K/2) * I(y+i) * k(i) @ }",
        "y in 0:N-K+1",
    ),
    "two dimensions at once": (
        "def f(float(N,M) I, float(K,L) k) -> (o)"
        " { o(y,x) +=! (I(y+K/2,x+L/2) - I(y+i,x+j)) * k(i,j) @ }",
        "y in 0:N-K+1, x in 0:M-L+1",
    ),
    "one before": (
        "def f(float(N) I, float(K) k) -> (o) { o(y) +=! I(y) * I(y-i) * k(i) @ }",
        "y in K-1:N",
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_repair_of_a_window_keeps_all_of_its_terms(name: str) -> None:  # rule G6
    text, where = WINDOWS[name]
    sizes = {"N": 20, "M": 17, "K": 5, "L": 3}
    sizes = {size: value for size, value in sizes.items() if re.search(rf"\b{size}\b", text)}
    with pytest.raises(RangeError) as caught:
        shape(text.replace("@", ""), **sizes)
    assert caught.value.rule == "G6"
    assert caught.value.repair == f"let the index stay in bounds: where {where}"
    (statement,) = shape(text.replace("@", f"where {where}"), **sizes).statements
    assert statement.ranges["i"].extent == 5
    assert statement.ranges["y"].extent == 16


def test_a_constant_subscript_is_a_precondition() -> None:  # rule G6
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i) * b(N-1) }"
    assert texts(text, N=3, M=3) == {"b(N-1)"}
    with pytest.raises(RangeError, match=r"'b\(N-1\)' is 2, but b\.0 is M = 2"):
        shape(text, N=3, M=2)


@pytest.mark.parametrize(
    "rhs", ["s > 0 ? a(5) : 1", "s <= 0 ? 1 : a(5)", "s > 0 ? 1 / (s - 1) : 1"]
)
def test_a_statement_without_indices_counts_its_guards(rhs: str) -> None:  # rule G6, Y6
    text = f"def f(int(N) a, int s) -> (o) {{ o = {rhs} }}"
    assert shape(text, N=3, s=0).shapes["o"] == ()
    if "a(5)" in rhs:
        with pytest.raises(RangeError, match=r"'a\(5\)' is 5, but a\.0 is N = 3"):
            shape(text, N=3, s=1)


def test_nothing_is_violated_where_nothing_runs() -> None:  # rule G6
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = a(i) * b(5) }"
    assert shape(text, N=0, M=1).shapes["o"] == (0,)


def test_the_initialisation_runs_where_the_reduction_is_empty() -> None:  # rule G6, R2
    text = "def f(float(N) a) -> (float(3) o) { o(i) +=! a(k) where i in 0:5 }"
    with pytest.raises(RangeError) as caught:
        shape(text, N=0)
    assert caught.value.rule == "G3"
    assert shape(text.replace("+=!", "+="), N=0).statements[0].is_empty


@pytest.mark.parametrize(
    "rhs",
    [
        "i >= 1 ? a(i-1) : 0",
        "i < 1 ? 0 : a(i-1)",
        "!(i < 1) ? a(i-1) : 0",
        "i >= 1 && i < 9 ? a(i-1) : 0",
        "i < 1 || i > 100 ? 0 : a(i-1)",
        "i > 0 && a(i-1) > 0 ? 1 : 0",
        "i == 0 || a(i-1) > 0 ? 1 : 0",
        "(i > 0) == (i >= 1) ? (i > 0 ? a(i-1) : 0) : a(0-5)",
        "i ? a(i-1) : 0",
        "(i > 0 ? i > 0 : i > 100) ? a(i-1) : 0",
        "min(i > 0, i > 0) ? a(i-1) : 0",
        "max(i > 0, i > 5) ? a(i-1) : 0",
        "i > 0 && 0.5 ? a(i-1) : 0",
        "i > 0 || 0.0 ? a(i-1) : 0",
    ],
)
def test_affine_guards_count(rhs: str) -> None:  # rule G6, Y6
    text = "def f(float(N) a) -> (o) {{ o(i) = {} where i in 0:N }}"
    shaped = shape(text.format(rhs), N=4)
    assert not shaped.statements[0].checked
    assert "a(i-1)" in {p.text for p in shaped.preconditions}
    unguarded = rhs.replace("a(i-1)", "a(i-2)")
    with pytest.raises(RangeError) as caught:
        shape(text.format(unguarded), N=4)
    assert caught.value.rule == "G6"
    assert "at i = 1 subscript 0 of 'a(i-2)' is -1" in caught.value.cause


def test_range_inference_uses_both_branches() -> None:  # rule Y6, G6
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = i < 2 ? a(i) : b(i) }"
    assert ranges(shape(text, N=3, M=5)) == {"i": (0, 3)}


def test_two_dimensions_are_checked_apart() -> None:  # rule G6
    text = "def f(float(N,M) a, int32(N) I) -> (o) { o(i) = a(I(i), i+2) }"
    shaped = shape(text, N=3, M=9)
    assert ranges(shaped) == {"i": (0, 3)}
    assert checked_texts(shaped) == {"a(I(i), i+2)"}
    with pytest.raises(RangeError, match="subscript 1 of 'a"):
        shape("def f(float(N,M) a, int32(N) I) -> (o) { o(i) = a(I(i), i+2) where i in 0:N }",
              N=3, M=4)  # fmt: skip


def test_a_result_read_out_of_bounds_names_the_statement_that_shaped_it() -> None:  # rule G6
    text = "def f(float(N) a) -> (b, c) { b(i) = a(i+2)  c(i) = b(i+1) where i in 0:N }"
    with pytest.raises(RangeError) as caught:
        shape(text, N=5)
    assert caught.value.notes[0][0].text == "b(i) = a(i+2)"
    assert "b.0 is N - 2 = 3" in caught.value.cause


# --- G7: checks at run time -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rhs", "checked"),
    [
        ("X(I(i))", {"X(I(i))"}),
        ("X(I(i) % 4)", set()),
        ("X(I(i) % N)", set()),
        ("X(I(i) % 9)", {"X(I(i) % 9)"}),
        ("X(max(0, min(I(i), N-1)))", set()),
        ("X(max(0, min(I(i), N)))", {"X(max(0, min(I(i), N)))"}),
        ("X(U(i) / 64)", set()),
        ("X(U(i) / 16)", {"X(U(i) / 16)"}),
        ("X(abs(I(i)) % N)", set()),
        ("X(i*i % N)", set()),
        ("X(i*i / 4)", {"X(i*i / 4)"}),
        ("X(i*i / 5)", set()),
        ("X(i*i)", {"X(i*i)"}),
        ("X(I(i) > 0 ? I(i) % N : 0)", set()),
        ("I(i) >= 0 && I(i) < N ? X(I(i)) : 0", set()),
        ("I(i) < 0 || N <= I(i) ? 0 : X(I(i))", set()),
        ("I(i) >= 0 && I(i) <= N ? X(I(i)) : 0", {"X(I(i))"}),
        ("I(i) == 3 ? X(I(i)) : 0", set()),
        ("I(i) != 3 ? X(I(i)) : 0", {"X(I(i))"}),
        ("I(i) > 0 ? X(i-1) : 0", {"X(i-1)"}),
        ("I(i) > 0 ? X(i) : 0", {"X(i)"}),
        ("I(i) > 0 ? X(i/2) : 0", set()),
        ("I(i) > 0 && i >= 1 ? X(i-1) : 0", set()),
        ("X(I(i) > 0 ? i : i-1)", {"X(I(i) > 0 ? i : i-1)"}),
    ],
)
def test_what_is_checked_at_run_time(rhs: str, checked: set[str]) -> None:  # rule G7
    text = f"""def f(float(N) X, int32(M) I, uint8(M) U) -> (o) {{
      o(i) = {rhs} where i in 0:5, exists I(i)
    }}"""
    assert checked_texts(shape(text, N=4 if "i-1" not in rhs else 5, M=5)) == checked


def test_indirect_and_nonaffine_subscripts_constrain_nothing() -> None:  # rule G7, paper-3.6
    text = "def gather(float(N) X, int(A,B) I) -> (Z) { Z(i,j) = X(I(i,j)) }"
    shaped = shape(text, N=2, A=3, B=4)
    assert shaped.shapes["Z"] == (3, 4)
    assert checked_texts(shaped) == {"X(I(i,j))"}


@pytest.mark.parametrize(
    ("rhs", "checked"),
    [
        ("a(i) / b(i)", {"a(i) / b(i)"}),
        ("a(i) % b(i)", {"a(i) % b(i)"}),
        ("a(i) / 3", set()),
        ("a(i) / N", set()),
        ("a(i) / (i - 2)", {"a(i) / (i - 2)"}),
        ("a(i) / (i + 1)", set()),
        ("a(i) / (2*i - 3)", set()),
        ("b(i) != 0 ? a(i) / b(i) : 0", set()),
        ("b(i) == 0 ? 0 : a(i) / b(i)", set()),
        ("b(i) > 0 ? a(i) / b(i) : 0", set()),
        ("b(i) ? a(i) / b(i) : 0", set()),
        ("b(i) >= 0 ? a(i) / b(i) : 0", {"a(i) / b(i)"}),
        ("i > 2 ? a(i) / (i - 2) : 0", set()),
        ("a(i) / (b(i) * b(i) + 1)", {"a(i) / (b(i) * b(i) + 1)"}),
        ("a(i) / (u(i) + 1)", {"a(i) / (u(i) + 1)"}),  # 255 + 1 wraps
        ("a(i) / (u(i) / 2 + 1)", set()),
        ("float(a(i)) / b(i)", set()),
    ],
)
def test_divisions(rhs: str, checked: set[str]) -> None:  # rule G7, Y4
    text = f"def f(int32(N) a, int32(N) b, uint8(N) u) -> (o) {{ o(i) = {rhs} }}"
    assert checked_texts(shape(text, N=5)) == checked


def test_casts_that_may_wrap_are_checked() -> None:  # rule G7, Y9
    text = "def f(float(N) a) -> (o) { o +=! a(uint8(i)) }"
    assert checked_texts(shape(text, N=256)) == set()
    shaped = shape(text, N=300)
    assert ranges(shaped) == {"i": (0, 300)}  # G2: a cast counts as the identity
    assert checked_texts(shaped) == set()  # whatever uint8 gives is in bounds
    text = "def f(float(N) a) -> (o) { o +=! a(int8(i)) }"
    assert checked_texts(shape(text, N=128)) == set()
    assert checked_texts(shape(text, N=129)) == {"a(int8(i))"}


def test_products_that_may_overflow_are_checked() -> None:  # rule G7, Y4
    text = "def f(float(N) a) -> (o) { o +=! a(i * 4611686018427387904 / 4611686018427387904) }"
    shaped = shape(text, N=9)
    assert ranges(shaped) == {"i": (0, 9)}
    assert checked_texts(shaped) != set()


def test_an_empty_statement_checks_nothing() -> None:  # rule G7
    text = "def f(float(N) X, int32(M) I) -> (o) { o(i) = X(I(i)) }"
    assert checked_texts(shape(text, N=2, M=0)) == set()


# --- G9: pad ----------------------------------------------------------------------------------


def test_reads_in_pad_bound_only_where_bare() -> None:  # rule G9
    text = "def f(float(C,N) a) -> (o) {{ o(c,i) = pad(a(c, i-1), 0) {} }}"
    with pytest.raises(RangeError) as caught:
        shape(text.format(""), C=2, N=5)
    assert "inside pad" in caught.value.cause
    assert caught.value.repair is not None
    clause = caught.value.repair[caught.value.repair.index("where") :]
    assert clause == "where i in 0:N"
    shaped = shape(text.format("where i in 0:N+2"), C=2, N=5)
    assert shaped.shapes["o"] == (2, 7)
    assert not shaped.statements[0].checked


def test_the_padding_bounds_as_usual() -> None:  # rule G9
    text = "def f(float(N) a) -> (o) { o(i) = pad(a(i-1), a(i)) }"
    assert ranges(shape(text, N=5)) == {"i": (0, 5)}


def test_the_padding_is_checked_at_run_time() -> None:  # rule G9, G7
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = pad(a(i-1), b(2)) where i in 0:N }"
    assert checked_texts(shape(text, N=5, M=3)) == set()
    assert checked_texts(shape(text, N=5, M=2)) == {"b(2)"}
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) = pad(a(i+2), b(i-1)) where i in 1:N }"
    assert checked_texts(shape(text, N=5, M=3)) == {"b(i-1)"}
    assert checked_texts(shape(text, N=5, M=4)) == set()


def test_a_gather_in_pad_needs_no_check() -> None:  # rule G9
    text = "def f(float(N) a, int32(M) I) -> (o) { o(i) = pad(a(I(i+1)), 0) where i in 0:M }"
    assert checked_texts(shape(text, N=5, M=3)) == set()
