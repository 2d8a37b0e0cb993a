"""Sizes of a call against the declarations: language-T2, T4, and the arguments of infer_ranges."""

from __future__ import annotations

import pytest

from tc.dtypes import INT32, INT64, UINT8
from tc.errors import InputError, RangeError, TCError
from tc.semantics.program import Binary, Convert, Expr, Extent, Literal, Size
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.size_values import KnownSizes, evaluate, why_unknown
from tc.source import Source, Span
from tests.support.sizes_of_call import program_of, shape

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SPAN = Span(Source("x"), 0, 1)


def refused(text: str, shapes: dict[str, tuple[int, ...]], **scalars: int) -> TCError:
    with pytest.raises(InputError) as caught:
        infer_ranges(program_of(text), shapes, scalars)
    return caught.value


def test_a_repeated_size_forces_equality() -> None:  # language-T2
    error = refused(MM, {"A": (2, 3), "B": (4, 5)})
    assert error.cause == "size K is 3 in dimension 1 of A, but 4 in dimension 0 of B"
    assert error.span is not None
    assert error.notes[0][1] == "here K is 3"
    assert error.span.start > error.notes[0][0].start


def test_a_size_twice_in_one_parameter() -> None:  # language-T2
    error = refused("def f(float(N,N) A) -> (o) { o +=! A(i,i) }", {"A": (2, 3)})
    assert error.cause == "size N is 2 in dimension 0 of A, but 3 in dimension 1 of A"


def test_a_literal_dimension() -> None:  # T4
    text = "def f(float(3,N) A) -> (o) { o +=! A(i,j) }"
    assert "declared as 3" in refused(text, {"A": (4, 2)}).cause
    assert infer_ranges(program_of(text), {"A": (3, 2)}, {}).sizes == {"N": 2}


@pytest.mark.parametrize(
    ("shapes", "part"),
    [
        ({"A": (2, 3)}, "'B' is missing"),
        ({"A": (2, 3), "B": (3,)}, "'B' has rank 2, but the argument has rank 1"),
        ({"A": (2, 3), "B": (3, -1)}, "no size can be negative"),
    ],
)
def test_wrong_shapes(shapes: dict[str, tuple[int, ...]], part: str) -> None:
    error = refused(MM, shapes)
    assert part in error.cause
    assert error.span is not None


def test_scalars_that_ranges_depend_on() -> None:  # rule G2
    text = "def f(int8 s, float(N) a) -> (o) { o(i) = a(i*s) }"
    assert "is missing" in refused(text, {"a": (5,)}).cause
    assert "does not fit int8" in refused(text, {"a": (5,)}, s=200).cause
    assert infer_ranges(program_of(text), {"a": (5,), "s": ()}, {"s": 2}).shapes["o"] == (3,)


def test_shapes_of_rank_0_may_be_left_out() -> None:
    shaped = infer_ranges(program_of("def f(float s) -> (o) { o = s }"), {}, {})
    assert shaped.shapes == {"s": (), "o": ()}


def test_annotated_results_take_the_sizes() -> None:  # rule T4
    text = "def f(float(N) a, float(M) b) -> (float(M,2) o) { o(i,j) = a(i) }"
    shaped = shape(text, N=3, M=5)
    assert shaped.shapes["o"] == (5, 2)
    assert shaped.statements[0].ranges["i"].end == 3


def test_sizes_of_an_inlined_def_agree() -> None:  # language-T2, N4
    text = """
    def g(float(N) x, float(N) y) -> (z) { z(i) = x(i) * y(i) }
    def f(float(A) a, float(B) b) -> (r) { t(i) = a(i)  r = g(t, b) }"""
    assert shape(text, A=3, B=3).shapes["r"] == (3,)
    with pytest.raises(RangeError) as caught:
        shape(text, A=3, B=4)
    assert caught.value.rule == "T4"
    assert "3" in caught.value.cause
    assert "4" in caught.value.cause


def test_concat_needs_equal_leading_dimensions() -> None:  # rule N4
    text = "def f(float(N,M) a, float(K,L) b) -> (c) { c = concat(a, b) }"
    assert shape(text, N=2, M=3, K=2, L=4).shapes["c"] == (2, 7)
    assert shape(text, N=2, M=0, K=2, L=0).shapes["c"] == (2, 0)
    with pytest.raises(InputError, match="they are 2 and 3"):
        shape(text, N=2, M=3, K=3, L=4)


def size(name: str) -> Expr:
    return Size(name, span=SPAN)


def number(value: int) -> Expr:
    return Literal(value, INT64, span=SPAN)


def of(op: str, left: Expr, right: Expr) -> Expr:
    return Binary(op, left, right, INT64, span=SPAN)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (of("/", number(-7), number(2)), -4),
        (of("%", number(-7), number(2)), 1),
        (of("/", number(7), number(-2)), -4),
        (of("min", size("N"), number(3)), 3),
        (of("max", size("N"), number(3)), 5),
        (of("/", size("N"), number(0)), None),
        (of("*", number(2**62), number(2)), None),
        (Convert(number(300), UINT8, span=SPAN), 44),
        (Convert(number(2**31), INT32, span=SPAN), -(2**31)),
        (Extent("A", 1, span=SPAN), 7),
        (Extent("B", 0, span=SPAN), None),
        (size("M"), None),
    ],
)
def test_values_of_size_expressions(expr: Expr, value: int | None) -> None:  # rule Y4, Y9
    assert evaluate(expr, KnownSizes({"N": 5}, {"A": (6, 7)}, {})) == value


def test_why_a_size_is_not_known() -> None:
    known = KnownSizes({}, {}, {})
    assert why_unknown(of("+", size("N"), number(1)), known) == "the size N is not known"
    assert "the shape of A" in why_unknown(Extent("A", 0, span=SPAN), known)
    assert "divides by zero" in why_unknown(of("%", number(1), number(0)), known)
    assert "does not fit int64" in why_unknown(of("*", number(2**62), number(2)), known)


def test_a_product_of_sizes_beyond_its_type_is_a_warning() -> None:  # rule Y1
    text = "def f(float(N) a) -> (o) { o = N * (N - 1) / 2 }"
    (warning,) = shape(text, N=100_000).warnings
    assert warning.rule == "Y1"
    assert warning.message.startswith("'N * (N - 1) / 2' is 4999950000, which int32")
    assert warning.message.endswith("does not hold: it becomes 704982704")
    assert warning.repair == "int64(N * (N - 1) / 2)"
    repaired = text.replace("N * (N - 1) / 2", warning.repair)
    for meant in (repaired, text.replace("N * (N - 1) / 2", "int(N * N)"), text.replace("/", "*")):
        assert not shape(meant, N=100).warnings
    assert not shape(repaired, N=100_000).warnings
    assert not shape(text.replace("N * (N - 1) / 2", "int(N * N)"), N=100_000).warnings
    assert not shape(text, N=1000).warnings


def test_a_size_beside_integers_and_floats() -> None:  # rule Y1
    (warning,) = shape(
        "def f(int(K) x, float(N) a) -> (o) { o(i) = x(i) * N * N }", K=1, N=2**31
    ).warnings
    assert warning.repair == "int64(N)"
    assert not shape("def f(float(N) a) -> (o) { o(i) = a(i) / (N * N) }", N=2**20).warnings
