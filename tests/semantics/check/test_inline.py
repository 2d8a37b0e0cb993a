"""Calls of one def by another, and concat (N3, N4, R3, R4, T4)."""

from __future__ import annotations

import pytest

from tc.errors import CheckError
from tests.semantics.check_support import show, show_program
from tests.support.pipeline import checked

SCALE = "def scale(float b, float(N) A) -> (o) { o(i) = b * A(i) }\n"


def test_outputs_of_a_call_are_the_callers_tensors() -> None:  # N4
    program = checked(SCALE + "def f(float b, float(M) x) -> (y) { y = scale(b, x) }", "f")
    assert show_program(program) == ["y(i) = (b() * x(i))"]
    assert list(program.tensors) == ["b", "x", "y"]
    assert {n: [show(e) for e in s.extents] for n, s in program.sizes.items()} == {
        "M": ["x.0"],
        "scale.N": ["x.0"],
    }


def test_both_spellings_and_a_later_def() -> None:  # N4: order in the text does not matter
    text = """
    def f(float(N) x) -> (a, b, c, d) {
      a, b = g(x)
      (c, d) = g(a)
    }
    def g(float(N) x) -> (o, p) {
      t(i) = x(i) + 1
      o(i) = t(i) * 2
      p(i) = t(i) * 3
    }"""
    program = checked(text, "f")
    assert show_program(program) == [
        "g.t(i) = (x(i) + 1.0:f32)",
        "a(i) = (g.t(i) * 2.0:f32)",
        "b(i) = (g.t(i) * 3.0:f32)",
        "g#2.t(i) = (a(i) + 1.0:f32)",
        "c(i) = (g#2.t(i) * 2.0:f32)",
        "d(i) = (g#2.t(i) * 3.0:f32)",
    ]
    assert program.temporaries == ("g.t", "g#2.t")
    assert [show(e) for e in program.sizes["g#2.N"].extents] == ["a.0"]


def test_nested_calls() -> None:  # N4
    text = """
    def h(float(N) x) -> (o) { t(i) = x(i)  o(i) = t(i) * N }
    def g(float(N) x) -> (o) { u = h(x)  o = h(u) }
    def f(float(N) x) -> (o) { v = g(x)  o = h(v) }"""
    program = checked(text, "f")
    assert show_program(program) == [
        "h.t(i) = x(i)",
        "g.u(i) = (h.t(i) * f32(h.N))",
        "h#2.t(i) = g.u(i)",
        "v(i) = (h#2.t(i) * f32(h#2.N))",
        "h#3.t(i) = v(i)",
        "o(i) = (h#3.t(i) * f32(h#3.N))",
    ]
    assert set(program.sizes) == {"N", "g.N", "h.N", "h#2.N", "h#3.N"}
    assert [s.span.text for s in program.statements[:2]] == ["t(i) = x(i)", "o(i) = t(i) * N"]


def test_one_tensor_for_two_parameters() -> None:  # N4
    text = """
    def g(float(N) x, float(M) y) -> (o) { o(i,j) = x(i) * y(j) }
    def f(float(N) x) -> (o) { o = g(x, x) }"""
    assert show_program(checked(text, "f")) == ["o(i, j) = (x(i) * x(j))"]


def test_the_caller_is_that_of_the_api() -> None:  # R3 R4
    text = """
    def add(float(N) A) -> (C) { C(i) += A(i) }
    def twice(float(N) A) -> (C) { C(i) = 2 * C(i) + A(i) }
    def f(float(N) A) -> (o) { o = add(A) }
    def g(float(N) A) -> (o) { t = add(A)  o(i) = t(i) }
    def h(float(N) A) -> (o) { o = twice(A) }"""
    assert show_program(checked(text, "f")) == ["o(i) + A(i) [caller]"]
    assert show_program(checked(text, "g")) == ["t(i) + A(i) [nothing]", "o(i) = t(i)"]
    initial = checked(text, "h").needs_initial
    assert {name: span.text for name, span in initial.items()} == {"o": "C(i)"}


def test_a_temporary_cannot_have_the_callers_contents() -> None:  # R4
    text = """
    def twice(float(N) A) -> (C) { C(i) = 2 * C(i) + A(i) }
    def h(float(N) A) -> (o) { t = twice(A)  o(i) = t(i) }"""
    with pytest.raises(CheckError) as caught:
        checked(text, "twice")  # an error in a def that is not called is an error (N2)
    assert caught.value.rule == "R4"
    assert [span.text for span, _ in caught.value.notes] == ["t = twice(A)"]


def test_literal_dimensions_of_the_callee() -> None:  # N4
    text = """
    def g(float(3, N) A) -> (o) { o(i) = A(0, i) + A(2, i) }
    def f(float(M, N) A) -> (o) { o = g(A) }"""
    (equality,) = checked(text, "f").equalities
    assert (show(equality.left), show(equality.right)) == ("A.0", "3:i64")
    assert equality.reason == (
        "dimension 0 of parameter 'A' of 'g' is declared as 3, and 'f' calls it in 'o = g(A)'"
    )


def test_annotated_returns_fix_the_callers_tensor() -> None:  # T4
    text = """
    def g(float(N, M) A) -> (double(M) o) { o(j) +=! A(i,j) }
    def f(float(N, M) A) -> (p) { t = g(A)  p(j) = t(j) / t.0 }
    def h(float(N, M) A) -> (double(M) p) { p = g(A) }"""
    program = checked(text, "f")
    t = program.tensors["t"]
    assert (str(t.dtype), t.role) == ("float64", "temporary")
    assert [show(dim) for dim in t.shape or ()] == ["g.M"]
    program = checked(text, "h")
    assert [show(dim) for dim in program.tensors["p"].shape or ()] == ["M"]
    assert [(show(e.left), show(e.right)) for e in program.equalities] == [("M", "g.M")]


def test_argument_that_the_caller_gives() -> None:  # R4: an output read through a call
    text = (
        SCALE
        + """
    def f(float b, float(N) x) -> (y, z) {
      z = scale(b, y)
      y(i) = x(i)
    }"""
    )
    program = checked(text, "f")
    assert list(program.needs_initial) == ["y"]
    assert [show(e) for e in program.sizes["scale.N"].extents] == ["y.0"]


def test_static_scalars_reach_the_callee() -> None:  # G2 G8
    text = """
    def g(float(N) A, int n) -> (o) { o +=! A(i) where i in 0:n }
    def f(float(N) A, int k) -> (o) { o = g(A, k) }"""
    program = checked(text, "f")
    assert program.static_scalars == {"k"}
    assert show_program(program) == ["o() +! A(i) where i in 0:i64:i64(k()) over i"]


def test_a_computed_scalar_subscripts_in_the_callee() -> None:  # G7: data-dependent there
    text = """
    def g(float(N) A, int n) -> (o) { o = A(n) }
    def f(float(N) A, int(M) B) -> (o) { m max=! B(i)  o = g(A, m) }"""
    program = checked(text, "f")
    assert not program.static_scalars
    assert show_program(program)[1] == "o() = A(i64(m()))"
    assert checked(text, "g").static_scalars == {"n"}


def test_a_tensor_or_def_hides_a_builtin() -> None:  # Y7
    text = """
    def exp(float(N) x) -> (o) { o(i) = x(i) * 2 }
    def f(float(N) x) -> (o) { o = exp(x) }"""
    assert show_program(checked(text, "f")) == ["o(i) = (x(i) * 2.0:f32)"]
    text = "def f(float(N) exp, float(N) pad, float(N,N) max) -> (o) { o(i) = exp(i) + pad(i) }"
    assert show_program(checked(text)) == ["o(i) = (exp(i) + pad(i))"]
    text = "def f(float(N) exp, float(N) x) -> (o) { o(i) = exp(x(i)) }"
    with pytest.raises(CheckError, match="is float32, and only integers subscript"):
        checked(text)
    # a size or an index variable of the name does not hide it
    text = "def f(float(exp) x) -> (o) { o(log) = exp(x(log)) + log(x(log)) * exp }"
    assert show_program(checked(text)) == [
        "o(log) = (exp(x(log)) + (log(x(log)) * f32(exp)))",
    ]


def test_a_tensor_hides_a_def() -> None:  # N4
    text = SCALE + "def f(float(N) scale) -> (o) { o = scale(0) }"
    assert show_program(checked(text, "f")) == ["o() = scale(0:i64)"]


def test_concat() -> None:  # N4
    text = """
    def f(float(N, M) A, float(N, K) B, float(N, M) C) -> (o) {
      o = concat(A, B, C)
      o(i,j) = o(i,j) * 2
    }"""
    program = checked(text)
    assert show_program(program) == [
        "o(i0, i1) = A(i0, i1)",
        "o(i0, (i1 + A.1)) = B(i0, i1)",
        "o(i0, ((i1 + A.1) + B.1)) = C(i0, i1)",
        "o(i, j) = (o(i, j) * 2.0:f32)",
    ]
    assert [show(d) for d in program.tensors["o"].shape or ()] == ["A.0", "((A.1 + B.1) + C.1)"]
    assert [(show(e.left), show(e.right)) for e in program.equalities] == [
        ("A.0", "B.0"),
        ("A.0", "C.0"),
    ]
    assert {s.outer for s in program.statements[:3]} == {("i0", "i1")}


def test_concat_of_one_rank_1_with_taken_names() -> None:  # N4
    program = checked("def f(float(i0) A, int i_0) -> (o) { (o) = concat(A) }")
    assert show_program(program) == ["o(i__0) = A(i__0)"]


def test_concat_into_a_declared_output() -> None:  # N4 T4
    text = "def f(float(N) A, float(M) B, float(K) C) -> (float(K) o) { o = concat(A, B) }"
    program = checked(text)
    assert [show(dim) for dim in program.tensors["o"].shape or ()] == ["K"]
    assert [(show(e.left), show(e.right)) for e in program.equalities] == [("K", "(A.0 + B.0)")]


def test_concat_yields_to_a_def() -> None:  # N4
    text = """
    def concat(float(N) A, float(N) B) -> (o) { o(i) = A(i) + B(i) }
    def f(float(N) A) -> (o) { o = concat(A, A) }"""
    assert show_program(checked(text, "f")) == ["o(i) = (A(i) + A(i))"]


def test_concat_in_a_callee_and_of_results() -> None:  # N4
    text = """
    def both(float(N) A, float(M) B) -> (o) { o = concat(A, B) }
    def f(float(N) A) -> (o) { t = both(A, A)  o = both(t, A) }"""
    program = checked(text, "f")
    assert show_program(program) == [
        "t(i0) = A(i0)",
        "t((i0 + A.0)) = A(i0)",
        "o(i0) = t(i0)",
        "o((i0 + t.0)) = A(i0)",
    ]


def test_warnings_of_a_callee_are_said_once() -> None:  # N1 Y1
    text = """
    def g(float(N) A, float(N) N) -> (o) { o(i) = A(i) * N(i) * (1 / 2) }
    def f(float(N) A, float(N) B) -> (o, p) { o = g(A, B)  p = g(B, A) }"""
    assert sorted(warning.rule for warning in checked(text, "f").warnings) == ["N1", "Y1"]


def test_annotations_are_ignored() -> None:  # T5
    text = SCALE + "def f(float b, float(N) x) -> (y) { y = scale(b, x) <=> fast(unknown(3)) }"
    assert show_program(checked(text, "f")) == ["y(i) = (b() * x(i))"]


def test_a_tensor_argument_may_share_its_name_with_a_size() -> None:  # N1 N4
    text = """
    def g(float(N) A, float(M) B) -> (o) { o(i,j) = A(i) * B(j) }
    def f(float(W) I, float(V) W) -> (o) { o = g(I, W) }"""
    assert show_program(checked(text, "f")) == ["o(i, j) = (I(i) * W(j))"]
