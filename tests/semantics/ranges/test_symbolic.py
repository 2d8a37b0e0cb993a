"""Ranges as expressions of the sizes: their text, and that they have the inferred value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tc.errors import RangeError
from tc.semantics.program import ShapedProgram
from tc.semantics.ranges.symbolic import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tests.support.sizes_of_call import attempt, program_of, range_texts, shape

CONV = """def conv2d(float(B,IP,H,W) in, float(OP,IP,KH,KW) weight) -> (out) {
  out(b,op,h,w) +=! in(b,ip, h + kh, w + kw) * weight(op,ip,kh,kw) }"""
SCONV = """def sconv2d(int sh, int sw, float(N,C,H,W) I, float(F,C,KH,KW) W, float(F) B) -> (O) {
  O(n,f,h,w) = B(f)
  O(n,f,h,w) += I(n,c, sh * h + kh, sw * w + kw) * W(f,c,kh,kw) }"""


def test_convolution() -> None:
    texts = range_texts(shape(CONV, B=1, IP=2, H=9, W=8, OP=3, KH=3, KW=2))
    assert texts["h"] == "0:H - KH + 1"
    assert texts["kw"] == "0:KW"


def test_strided_convolution() -> None:
    shaped = shape(SCONV, sh=2, sw=1, N=1, C=1, H=9, W=8, F=1, KH=3, KW=2)
    for statement in (0, 1):
        assert range_texts(shaped, statement)["h"] == "0:(H - KH) / sh + 1"
    assert [to_text(e) for e in shaped.symbolic_shapes["O"] if e is not None] == [
        "N", "F", "(H - KH) / sh + 1", "(W - KW) / sw + 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rhs", "where", "expected"),
    [
        ("a(i) + b(i+c(0))", "", None),
        ("a(i) * b(i+1)", "", "0:min(N, M - 1)"),
        ("a(2*i+1)", "", "0:(N - 2) / 2 + 1"),
        ("a(i) * a(i)", "", "0:N"),
        ("a(i) * a(i+1) * a(i+3)", "", "0:N - 3"),
        ("a(2*i) * a(2*i+1)", "", "0:(N - 2) / 2 + 1"),
        ("a(N-1-i)", "", "0:N"),
        ("a(2*N-1-2*i)", "where i in N/2:N", "N / 2:N"),
        ("a(i/2)", "", "0:2 * N"),
        ("a((i+1)/2)", "", "0:2 * N - 1"),
        ("a(N-1-i/3)", "", "0:3 * N"),
        ("a(i/M)", "", "0:M * N"),
        ("a(max(i - 2, 0))", "", "0:N + 2"),
        ("a(i/2 + 5/3)", "", "0:2 * N - 2"),
        ("a(i+N-3)", "", "0:3"),
        ("a((i+1)*2 - 2)", "", "0:(N - 1) / 2 + 1"),
        ("b(i)", "where i in 2*M-M:3+M-1", "M:M + 2"),
        ("a(i)", "where i in min(N,3)-1:max(4,5)", "min(N, 3) - 1:5"),
        ("a(i+b.0)", "", "0:N - M"),
        ("a(i+3*M-3*M)", "", "0:N"),
    ],
)
def test_texts(rhs: str, where: str, expected: str | None) -> None:
    text = f"""def f(float(N) a, float(M) b, int32(1) c) -> (o) {{
      o +=! {rhs} {where or "where exists a(0)"}
    }}"""
    shaped = attempt(text, N=12, M=7)
    if isinstance(shaped, RangeError):  # a wrong range for the read: its expression is looked at
        assert where
        assert shaped.rule == "G6"
        shaped = shape(text.replace(rhs, "1"), N=12, M=7)
    if expected is not None:
        assert range_texts(shaped) == {"i": expected}
    elif "c(0)" not in rhs:
        assert range_texts(shaped) == {"i": None}


def test_shapes_of_results_are_followed() -> None:
    text = """def f(float(N) a, float(K) k) -> (b, c) {
      b(i) +=! a(i+x) * k(x)
      c(i) +=! b(i+x) * k(x)
    }"""
    assert range_texts(shape(text, N=20, K=3), 1)["i"] == "0:N - 2 * K + 2"


def test_sizes_of_inlined_defs_become_those_of_the_entry() -> None:
    text = """
    def g(float(P) x) -> (y) { y(i) = x(i+1) where i in 0:P-1 }
    def f(float(N) a) -> (c) { b(i) = a(i+2)  c = g(b) }"""
    assert range_texts(shape(text, N=9), 1)["i"] == "0:N - 3"


def test_concat_adds_sizes() -> None:
    text = """def f(float(N,D) a, float(N,E) b) -> (c, d) {
      c = concat(a, b, a)
      d(i,j) = c(i,j)
    }"""
    shaped = shape(text, N=2, D=3, E=4)
    assert range_texts(shaped, 3)["j"] == "0:2 * D + E"
    assert range_texts(shaped, 0) == {"i0": "0:N", "i1": "0:D"}


def test_a_size_of_0_that_the_expression_misses() -> None:
    """a(N-5-i) with N = 0 gives an empty range (G5), and N - 4 is not 0."""
    text = "def f(float(N) a) -> (o) { o(i) = a(N-5-i) }"
    assert range_texts(shape(text, N=0)) == {"i": None}
    assert range_texts(shape(text, N=7)) == {"i": "0:N - 4"}


def assert_values(shaped: ShapedProgram) -> None:
    """Each expression has the value inferred."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    for statement in shaped.statements:
        for found in statement.ranges.values():
            for expr, value in ((found.symbolic_begin, found.begin),
                                (found.symbolic_end, found.end)):  # fmt: skip
                assert expr is None or evaluate(expr, known) == value, to_text(expr)
    for name, dims in shaped.symbolic_shapes.items():
        for expr, extent in zip(dims, shaped.shapes[name], strict=True):
            assert expr is None or evaluate(expr, known) == extent


@given(st.integers(0, 9), st.integers(0, 4), st.integers(1, 3))
def test_convolution_at_all_sizes(height: int, kernel: int, stride: int) -> None:
    sizes = dict.fromkeys(("N", "C", "F", "KW", "sw"), 1)
    shaped = attempt(SCONV, sh=stride, H=height, W=4, KH=kernel, **sizes)
    assume(isinstance(shaped, ShapedProgram))
    assert isinstance(shaped, ShapedProgram)
    assert_values(shaped)
    assert range_texts(shaped)["h"] == "0:(H - KH) / sh + 1"


@st.composite
def linear_programs(draw: Any) -> str:
    """Reads with symbolic coefficients and offsets in one to three variables."""
    names = ("i", "j", "k")
    reads = []
    for _ in range(draw(st.integers(1, 3))):
        terms = [
            f"{draw(st.sampled_from(('', '', '2 * ', 's * ', '(s+1) * ')))}{name}"
            for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        ]
        offset = draw(st.sampled_from(("", "", " + 1", " + N - N", " + K", " + M / 2", " - 0")))
        reads.append(f"a({' + '.join(terms)}{offset})")
    falling = draw(st.sampled_from(("", " * a(N-1-i)", " * a(2*N-2*i-2)", " * a(N-M+1-i+j)")))
    return f"""def f(int s, float(N) a, float(M) b, float(K) c) -> (t, o) {{
      t(i) = b(i) * c(i+1)
      o +=! ({" + ".join(reads)}) * t(j) * c(k){falling}
    }}"""


@given(linear_programs(), st.integers(0, 40), st.integers(0, 5), st.integers(1, 4),
       st.integers(1, 3))  # fmt: skip
def test_expressions_have_the_inferred_values(text: str, n: int, m: int, k: int, s: int) -> None:
    program_of(text)
    shaped = attempt(text, N=n, M=m, K=k, s=s)
    if isinstance(shaped, ShapedProgram):
        assert_values(shaped)
