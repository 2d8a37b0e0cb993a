"""The programs of spec/programs.md as checked programs, statement by statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from tc.frontend.parser import parse
from tc.semantics.check.checker import check, check_all
from tc.semantics.program import Program
from tc.source import Source
from tests.semantics.check_support import show, show_program
from tests.support.pipeline import checked

PROGRAMS = Path(__file__).parents[2] / "programs"


def program(name: str, entry: str | None = None) -> Program:
    text = (PROGRAMS / f"{name}.tc").read_text(encoding="utf-8")
    return check(parse(Source(text)), entry)


EXPECTED = {
    # paper-3.1: mv in two statements
    """def mv(float(M,K) A, float(K) x) -> (C) {
      C(i) = 0
      C(i) += A(i,k) * x(k)
    }""": [
        "C(i) = 0.0:f32",
        "C(i) + (A(i, k) * x(k)) over k [written]",
    ],
    # introduction-3: without "!" the caller's values count (R3)
    """def mm(float(X,Y) A, float(Y,Z) B) -> (R) {
      R(i,j) += A(i,k) * B(k,j)
    }""": [
        "R(i, j) + (A(i, k) * B(k, j)) over k [caller]",
    ],
    # paper-3.3
    """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
      C(i,j) = b * C(i,j)  # initialization
      C(i,j) += a * A(i,k) * B(k,j)  # accumulation
    }""": [
        "C(i, j) = (b() * C(i, j))",
        "C(i, j) + ((a() * A(i, k)) * B(k, j)) over k [written]",
    ],
    # paper-3.4
    """def fcrelu(float(B,I) in, float(O,I) weight, float(O) bias) -> (out) {
      out(b,o) = bias(o)
      out(b,o) += in(b,i) * weight(o,i)
      out(b,o) = fmaxf(out(b,o), 0)
    }""": [
        "out(b, o) = bias(o)",
        "out(b, o) + (in(b, i) * weight(o, i)) over i [written]",
        "out(b, o) = fmax(out(b, o), 0.0:f32)",
    ],
    # paper-3.5
    """def conv2d(float(B,IP,H,W) in, float(OP,IP,KH,KW) weight) -> (out) {
      out(b,op,h,w) +=! in(b,ip, h + kh, w + kw) * weight(op,ip,kh,kw) }""": [
        "out(b, op, h, w) +! (in(b, ip, (h + kh), (w + kw)) * weight(op, ip, kh, kw)) "
        "over ip, kh, kw",
    ],
    """def maxpool2x2(float(B,C,H,W) in) -> (out) {
      out(b,c,i,j) max=! in(b,c, 2 * i + kw, 2 * j + kh)
        where kw in 0:2, kh in 0:2
    }""": [
        "out(b, c, i, j) max! in(b, c, ((2:i64 * i) + kw), ((2:i64 * j) + kh)) "
        "where kw in 0:i64:2:i64, kh in 0:i64:2:i64 over kw, kh",
    ],
    # paper-3.6
    """def gather(float(N) X, int(A,B) I) -> (Z) {
      Z(i,j) = X(I(i,j))
    }""": ["Z(i, j) = X(i64(I(i, j)))"],
    # paper-3.7
    """def sconv2d(int sh, int sw, float(N,C,H,W) I, float(F,C,KH,KW) W, float(F) B) -> (O) {
      O(n,f,h,w) = B(f)
      O(n,f,h,w) += I(n,c, sh * h + kh, sw * w + kw) * W(f,c,kh,kw)
    }""": [
        "O(n, f, h, w) = B(f)",
        "O(n, f, h, w) + (I(n, c, ((i64(sh()) * h) + kh), ((i64(sw()) * w) + kw)) * "
        "W(f, c, kh, kw)) over c, kh, kw [written]",
    ],
    # position-2
    """def softmax(float(N, D) I) -> (O, expsum) {
      expsum(n) +=! exp(I(n, d))
      O(n, d) = exp(I(n, d)) / expsum(n)
    }""": [
        "expsum(n) +! exp(I(n, d)) over d",
        "O(n, d) = (exp(I(n, d)) / expsum(n))",
    ],
    """def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1,O2) {
      O1(i,j) +=! LUT1(I1(i,k),j)
      O2(i,j) +=! LUT2(I2(i,k),j)
    }""": [
        "O1(i, j) +! LUT1(i64(I1(i, k)), j) over k",
        "O2(i, j) +! LUT2(i64(I2(i, k)), j) over k",
    ],
}


@pytest.mark.parametrize("text", EXPECTED, ids=lambda text: text.split("(")[0])
def test_statements_in_print(text: str) -> None:
    assert show_program(checked(text)) == EXPECTED[text]


def test_sgemm_needs_the_callers_tensor() -> None:  # R4
    sgemm = program("sgemm")
    assert list(sgemm.needs_initial) == ["C"]
    assert sgemm.needs_initial["C"].text.replace(" ", "") == "C(i,j)"
    assert not program("mv").needs_initial
    assert not program("fcrelu").needs_initial


def test_sconv2d_has_a_size_and_a_tensor_of_one_name() -> None:  # N1
    sconv2d = program("sconv2d")
    assert sconv2d.static_scalars == {"sh", "sw"}
    (warning,) = sconv2d.warnings
    assert warning.rule == "N1"
    assert "'W'" in warning.message
    text = "def f(float(W) I, float(W) W) -> (o) { o(i) = I(i) * W(i) * W + W.0 }"
    assert show_program(checked(text)) == ["o(i) = (((I(i) * W(i)) * f32(W)) + f32(W.0))"]


def test_sizes_come_from_the_parameters() -> None:  # language-T2
    sizes = program("tmm").sizes
    assert {name: [show(e) for e in size.extents] for name, size in sizes.items()} == {
        "M": ["A.0"],
        "K": ["A.1", "B.1"],
        "N": ["B.0"],
    }


def test_literal_dimensions_are_equalities() -> None:  # T4
    fixed = checked("def f(float(3, N) A) -> (float(N, 3) o) { o(i,j) = A(j,i) }")
    (equality,) = fixed.equalities
    assert (show(equality.left), show(equality.right)) == ("A.0", "3:i64")
    assert equality.reason == "dimension 0 of parameter 'A' of 'f' is declared as 3"
    assert [show(dim) for dim in fixed.tensors["A"].shape or ()] == ["3:i64", "N"]
    assert [show(dim) for dim in fixed.tensors["o"].shape or ()] == ["N", "3:i64"]


def test_maxpool_mlp_and_the_whole_model() -> None:  # N4
    model = program("prodModel", "prodModel")
    assert show_program(model) == [
        "C1(i, j) +! LUT1(i64(I1(i, k)), j) over k",
        "C2(i, j) +! LUT2(i64(I2(i, k)), j) over k",
        "C3(b, wy) +! (I3(b, wxx) * W(wy, wxx)) over wxx",
        "I(i0, i1) = C1(i0, i1)",
        "I(i0, (i1 + C1.1)) = C2(i0, i1)",
        "I(i0, ((i1 + C1.1) + C2.1)) = C3(i0, i1)",
        "O1(b, n) = B1(n)",
        "O1(b, n) + (I(b, m) * W1(n, m)) over m [written]",
        "O1(b, n) = fmax(O1(b, n), 0.0:f32)",
        "O2(b, o) = B2(o)",
        "O2(b, o) + (O1(b, n) * W2(o, n)) over n [written]",
        "O2(b, o) = fmax(O2(b, o), 0.0:f32)",
        "O3(b, p) = B3(p)",
        "O3(b, p) + (O2(b, o) * W3(p, o)) over o [written]",
        "O3(b, p) = fmax(O3(b, p), 0.0:f32)",
        "O4(b, q) = B4(q)",
        "O4(b, q) + (O3(b, p) * W4(q, p)) over p [written]",
        "O4(b, q) = fmax(O4(b, q), 0.0:f32)",
    ]
    assert model.outputs == ("C1", "C2", "C3", "I", "O1", "O2", "O3", "O4")
    assert not model.temporaries
    assert not model.needs_initial
    assert [show(dim) for dim in model.tensors["I"].shape or ()] == [
        "C1.0",
        "((C1.1 + C2.1) + C3.1)",
    ]
    joined = [(show(e.left), show(e.right)) for e in model.equalities]
    assert joined == [("C1.0", "C2.0"), ("C1.0", "C3.0")]
    assert [show(e) for e in model.sizes["MLP1.M"].extents] == ["I.1", "W1.1"]
    assert [show(e) for e in model.sizes["MLP3.B"].extents] == ["O1.0"]


def test_figure_15_as_printed_is_an_error() -> None:  # N4: MLP3 reads an O1 it is never given
    text = """
    def MLP3(float(B,M) I, float(O,N) W2, float(O) B2) -> (O1,O2) {
      O2(b,o) = B2(o)
      O2(b,o) += O1(b,n) * W2(o,n)
    }"""
    with pytest.raises(Exception, match="no statement of 'MLP3' defines its return 'O1'"):
        checked(text)


def test_all_defs_are_returned_in_text_order() -> None:
    text = (PROGRAMS / "prodModel.tc").read_text(encoding="utf-8")
    programs = check_all(parse(Source(text)))
    assert list(programs) == ["2LUT", "MLP1", "MLP3", "prodModel"]
    assert [p.name for p in programs.values()] == list(programs)


def test_temporaries() -> None:  # N3
    stable = program("stable_softmax")
    temporaries = {name: stable.tensors[name] for name in stable.temporaries}
    assert stable.outputs == ("O",)
    assert all(t.role == "temporary" and t.shape is None for t in temporaries.values())
    assert set(temporaries) == {"m", "e", "s"}


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("o(i) +=! x(2i) where i in 0:3", ["2 * i"]),
        ("o(i) max=! x(i) + x(2N) * x(3s)", ["2 * N", "3 * s"]),
        ("o(i) +=! x(i) * x(2i) where 2i in 0:4", []),
        ("o(i) +=! x(i) * x(2k)", []),
        ("o(2i) = x(2i)", []),
    ],
)
def test_names_that_look_like_products(body: str, meant: list[str]) -> None:  # rule T1
    """Where the name stands alone, or has a range, it is meant as it is."""
    warnings = checked(f"def f(float(N) x, int s) -> (o) {{ {body} }}").warnings
    assert [warning.repair for warning in warnings] == meant
    assert {warning.rule for warning in warnings} <= {"T1"}
    assert all(warning.span and warning.span.text in body for warning in warnings)
