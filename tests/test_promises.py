"""What the documents that define the language promise, line by line (spec/promises.md)."""

from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

SPEC = Path(__file__).parent.parent / "spec"
BACKENDS = ("interpret", "numba", "c")
F32 = np.float32
F64 = np.float64


def run(text: str, *inputs: Any, outputs: Any = None, entry: str | None = None) -> Any:
    """The result of the interpreter, after all backends gave results within its bound (R5)."""
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        for backend in BACKENDS:
            copy = [o.copy() for o in outputs] if outputs is not None else None
            results.append(tc.compile(text, backend=backend, entry=entry)(*inputs, outputs=copy))
            assert_computes(text, inputs, results[-1], results[0], entry=entry, outputs=outputs)
    return results[0]


def rule_of(text: str, *inputs: Any, outputs: Any = None) -> str | None:
    """The rule of the error that the text and inputs give."""
    with pytest.raises(tc.TCError) as caught:
        tc.interpret(text, list(inputs), outputs=outputs)
    assert caught.value.repair or caught.value.idiom or caught.value.notes
    return caught.value.rule


def vec(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


def test_language_t1_tensors_and_rank_0() -> None:
    """language-T1, language-G9"""
    assert run("def f(double x, float(N) a) -> (o) { o(i) = x * a(i) }", 2.0, vec(3)).dtype == F64
    for name, dtype in (("half", "f2"), ("byte", "u1"), ("uint32", "u4"), ("int32", "i4")):
        array = np.array([1, 2], dtype)
        assert run(f"def f({name}(N) a) -> (o) {{ o(i) = a(i) }}", array).dtype == array.dtype


def test_language_t2_repeated_sizes_must_agree() -> None:
    """language-T2: the error names both places"""
    text = "def f(float(N) a, float(M,N) b) -> (o) { o(i) = a(i) * b(0,i) }"
    with pytest.raises(tc.TCError) as caught:
        tc.interpret(text, [vec(3), vec(2, 4)])
    assert caught.value.cause == ("size N is 3 in dimension 0 of a, but 4 in dimension 1 of b")


def test_language_t3_sizes_are_values() -> None:
    """language-T3"""
    assert np.array_equal(run("def f(float(N) a) -> (o) { o(i) = a(i) / N }", vec(4)), vec(4) / 4)


def test_language_t4_output_types_are_inferred() -> None:
    """language-T4"""
    assert (
        run(
            "def f(int8(N) a, double(N) b) -> (o) { o(i) = a(i) + b(i) }", np.int8([1]), np.ones(1)
        ).dtype
        == F64
    )


def test_language_t5_row_major() -> None:
    """language-T5"""
    result = run("def f(float(N,M) a) -> (o) { o(j,i) = a(i,j) }", vec(2, 3))
    assert result.flags.c_contiguous
    assert np.array_equal(result, vec(2, 3).T)


def test_language_s1_one_name_space() -> None:
    """language-S1: a tensor's name is no index variable"""
    assert rule_of("def f(float(N) a) -> (o) { o(a) = a(0) }", vec(2)) is not None


def test_language_s2_indices_belong_to_one_statement() -> None:
    """language-S2"""
    p, q = run("def f(float(N,M) A) -> (p, q) { p(i) +=! A(i,j)  q(j) = A(0,j) * j }", vec(2, 3))
    assert np.array_equal(p, vec(2, 3).sum(1))
    assert np.array_equal(q, vec(2, 3)[0] * np.arange(3))


def test_language_s3_half_open_ranges() -> None:
    """language-S3"""
    assert run("def f() -> (o) { o +=! k where k in 2:5 }") == 2 + 3 + 4


def test_language_r1_reduction_needs_operator() -> None:
    """language-R1"""
    assert rule_of("def f(float(N,M) A) -> (o) { o(i) = A(i,j) }", vec(2, 2)) == "R1"


def test_language_r2_operators() -> None:
    """language-R2, introduction-1"""
    a = F32([3, -1, 2])
    for op, expected in (("+", 4), ("*", -6), ("min", -1), ("max", 3)):
        assert run(f"def f(float(N) a) -> (o) {{ o {op}=! a(i) }}", a) == expected


def test_language_r3_and_r4_initialise_or_accumulate() -> None:
    """language-R3, language-R4: without ! the sum goes on in the very tensor passed"""
    a, o = F32([1, 2]), np.array(10, F32)
    for backend in BACKENDS:
        given = o.copy()
        f = tc.compile("def f(float(N) a) -> (o) { o += a(i) }", backend=backend)
        assert f(a, outputs=[given]) is given
        assert given == 13
        g = tc.compile("def f(float(N) a) -> (o) { o +=! a(i) }", backend=backend)
        assert g(a, outputs=[given]) == 3


def test_language_z_size_expressions() -> None:
    """language-Z1, language-Z2: sizes, integral scalars, T.k; what reads data, or other indices, is
    more than the promise (W2, W3)"""
    text = "def f(float(N,M) A, int s) -> (o) { o(i) = A(i,0) where i in s:min(A.0, M*2-1) }"
    assert run(text, vec(5, 2), 1).shape == (3,)
    data = "def f(float(N) a, int(M) b) -> (o) { o +=! a(i) where i in 0:b(0) }"
    assert run(data, vec(3), np.int32([2])) == vec(3)[:2].sum()
    triangle = "def f(float(N) a) -> (o) { o(i) +=! a(k) where i in 0:N, k in 0:i }"
    assert np.array_equal(run(triangle, vec(3)), np.cumsum([0, *vec(2)]))
    floats = "def f(float(N) a, float s) -> (o) { o +=! a(i) where i in 0:s }"
    assert rule_of(floats, vec(2), 1.0) == "G8"


def test_language_g1_left_side_lists_indices() -> None:
    """language-G1; what is not an index is a place (S1)"""
    a = vec(6).reshape(2, 3)
    assert np.array_equal(run("def f(float(N,M) a) -> (o) { o(j,i) = a(i,j) }", a), a.T)
    places = "def f(float(N) a) -> (o) { o(i+1) = a(i) where o.0 = N + 1 }"
    assert np.array_equal(run(places, vec(3)), [0, *vec(3)])


def test_language_g2_plain_assignment() -> None:
    """language-G2"""
    assert np.array_equal(run("def f(float(N) a) -> (o) { o(i) = a(i) }", vec(3)), vec(3))


def test_language_g3_builtins_and_any_subscript() -> None:
    """language-G3"""
    x = vec(9) + 1
    text = "def f(float(N) x) -> (o) { o(i) = log(x(i * i)) where i in 0:3 }"
    assert_computes(text, [x], run(text, x), np.log(x[[0, 1, 4]]))


def test_language_g4_out_of_range_reads_are_caught() -> None:
    """language-G4: undefined in the original language; here an error where checked (G7)"""
    assert rule_of("def f(float(N) x) -> (o) { o(i) = x(i * i) where i in 0:4 }", vec(9)) == "G7"


def test_language_g5_numbers_and_names() -> None:
    """language-G5"""
    assert run("def 2f() -> (1o) { 1o = 0x10 + 1e1 + .5f }") == 26.5


def test_language_g6_operators() -> None:
    """language-G6"""
    a = np.int32([-7, 0, 7])
    text = "def f(int(N) a) -> (o) { o(i) = a(i) % 4 != 1 && !(a(i) == 0) ? -a(i) : a.0 }"
    assert np.array_equal(run(text, a), np.where((a % 4 != 1) & (a != 0), -a, 3))


def test_language_g7_where() -> None:
    """language-G7: a non-empty list"""
    with pytest.raises(tc.ParseError):
        tc.compile("def f(float(N) a) -> (o) { o(i) = a(i) where }")


def test_language_g8_and_g10_calls_and_returns() -> None:
    """language-G8, language-G10: statements separated by white space only"""
    text = (
        "def g(float(N) a) -> (p,q) { p(i)=a(i) q(i)=2*a(i) }"
        "def f(float(N) a) -> (p,q) { p,q=g(a) }"
    )
    p, q = run(text, vec(3), entry="f")
    assert np.array_equal(q, 2 * p)


def test_introduction_2_mv_is_the_double_loop() -> None:
    """introduction-2, introduction-3, paper-3.1"""
    A, B = vec(3, 4), vec(4)
    expected = np.zeros(3, F32)
    for i in range(3):
        for j in range(4):
            expected[i] += A[i, j] * B[j]
    for body in (
        "o(i) +=! A(i,j) * B(j)",
        "o(i) += A(i,j) * B(j)",
        "o(i) = 0  o(i) += A(i,j) * B(j)",
    ):
        assert np.array_equal(
            run(f"def mv(float(R,C) A, float(C) B) -> (o) {{ {body} }}", A, B), expected
        )


def test_position_1_and_2_one_function_everything_returned() -> None:
    """position-1, position-2: softmax returns its sum"""
    x = vec(2, 3) / 3
    text = """def softmax(float(N, D) I) -> (O, expsum) {
      expsum(n) +=! exp(I(n, d))
      O(n, d) = exp(I(n, d)) / expsum(n)
    }"""
    powers = np.exp(x.astype(F64))
    expected = powers / powers.sum(1, keepdims=True), powers.sum(1)
    assert_computes(text, [x], run(text, x), expected)


def test_position_3_and_4_calls_and_c() -> None:
    """position-3, position-4: simple C comes out"""
    text = str(tc.emit("def f(float(N) a) -> (o) { o(i) = a(i) }", {"N": 3}))
    assert "void f(const float* restrict a, float* restrict o)\n{\n    // o(i) = a(i)\n" in text
    compiled = ("cc", "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-")
    if "c" in tc.backends():
        subprocess.run(compiled, input=text, text=True, check=True)


def test_position_5_boxes() -> None:
    """position-5, position-6: triangles are selected within a box"""
    A = vec(3, 3)
    text = "def tril(float(N,N) A) -> (o) { o(i) +=! j <= i ? A(i,j) : 0 }"
    assert np.array_equal(run(text, A), np.tril(A).sum(1))


def test_paper_3_2_in_place() -> None:
    """paper-3.2"""
    assert (
        rule_of("def f(float(N,N) b) -> (a) { a(i,j) = b(i,j) a(i,j) = a(j,i) }", vec(2, 2)) == "P1"
    )
    one = run("def f(float(N,N) b) -> (a) { a(i,j) = b(i,j) a(i,j) = a(j,i) }", vec(1, 1) + 4)
    assert one == 4


def test_paper_3_3_sgemm() -> None:
    """paper-3.3"""
    A, B, C = vec(2, 3), vec(3, 4), vec(2, 4)
    text = """
    def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
      C(i,j) = b * C(i,j)
      C(i,j) += a * A(i,k) * B(k,j)
    }"""
    assert np.array_equal(run(text, 2.0, 3.0, A, B, outputs=[C]), 3 * C + 2 * (A @ B))


def test_paper_3_4_fcrelu() -> None:
    """paper-3.4"""
    x, w, b = vec(2, 3) - 2, vec(4, 3) - 5, vec(4)
    text = """
    def fcrelu(float(B,I) in, float(O,I) weight, float(O) bias) -> (out) {
      out(b,o) = bias(o)  out(b,o) += in(b,i)*weight(o,i)  out(b,o) = fmaxf(out(b,o), 0)
    }"""
    assert np.array_equal(run(text, x, w, b), np.maximum(x @ w.T + b, 0))


def test_paper_3_5_missing_where() -> None:
    """paper-3.5, paper-3.13"""
    assert (
        rule_of("def f(float(H,W) in) -> (out) { out(i,j) max=! in(2*i+kw, 2*j+kh) }", vec(4, 4))
        == "G5"
    )


def test_paper_3_6_gather() -> None:
    """paper-3.6"""
    X, rows = vec(5), np.int32([[4, 0], [1, 1]])
    assert np.array_equal(
        run("def gather(float(N) X, int(A,B) I) -> (Z) { Z(i,j) = X(I(i,j)) }", X, rows), X[rows]
    )


def test_paper_3_7_strides_are_parameters() -> None:
    """paper-3.7, paper-3.8: scalars specialise; arguments by name"""
    f = tc.compile("def f(int s, float(N) I, float(K) W1) -> (O) { O(i) +=! I(s * i + k) * W1(k) }")
    signal, kernel = vec(11), vec(3)
    for s in (1, 2, 3):
        assert np.array_equal(f(I=signal, W1=kernel, s=s), np.correlate(signal, kernel)[::s])


def test_paper_3_9_to_12_rounds() -> None:
    """paper-3.9, paper-3.10, paper-3.11, paper-3.12: 0 to M-N inclusive, for all x"""
    text = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i + x) }"
    for m in range(5):
        for n in range(1, m + 2):
            assert tc.compile(text).infer(M=m, N=n)["O"].shape == (m - n + 1,)


def test_paper_3_14_temporaries() -> None:
    """paper-3.14: temporaries and their shapes are inferred"""
    shaped = tc.explain(
        "def f(float(N,M) a) -> (o) { t(i) max=! a(i,j)  o +=! t(i) }", {"N": 3, "M": 2}
    ).shaped
    assert shaped.program.temporaries == ("t",)
    assert shaped.shapes["t"] == (3,)


def test_paper_3_15_and_16_no_recurrence() -> None:
    """paper-3.15, paper-3.16"""
    assert (
        rule_of("def f(int(N) x) -> (a) { a(i) = x(i)  a(i) = x(a(i)) }", np.int32([0, 0])) == "P1"
    )
    assert (
        rule_of(
            "def scan(float(N) x) -> (a) { a(i) = x(i)  a(i) = a(i-1) + x(i) where i in 1:N }",
            vec(4),
        )
        == "P1"
    )


def test_paper_3_17_layouts() -> None:
    """paper-3.17: n-D transposition and tiling"""
    x = vec(2, 3, 4)
    assert np.array_equal(
        run("def t(float(A,B,C) x) -> (o) { o(k,i,j) = x(i,j,k) }", x), x.transpose(2, 0, 1)
    )
    assert np.array_equal(
        run("def t(float(N) x) -> (o) { o(i,p) = x(3*i+p) where p in 0:3 }", vec(12)),
        vec(12).reshape(4, 3),
    )


def test_every_promise_of_the_spec_has_a_test() -> None:
    page = (SPEC / "promises.md").read_text(encoding="utf-8")
    promised = re.findall(r"^\| ([a-z]+-[A-Z0-9.]+) \|", page, re.MULTILINE)
    files = (Path(__file__), Path(__file__).parent / "sac" / "test_promises.py")
    own = "".join(path.read_text(encoding="utf-8") for path in files)
    assert len(promised) > 60
    missing = [p for p in promised if not _named(p, own)]
    assert missing == []


def _named(promise: str, text: str) -> bool:
    """Whether the docstring of a test names the promise."""
    return re.search(rf"{re.escape(promise)}(?![0-9])", text) is not None
