"""Gradients as texts that people read: what rules of simplification leave of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.dtypes import INT64
from tc.gradient import terms
from tc.gradient.def_text import printed
from tc.semantics import program as p
from tests.gradient.campaign import assert_transposed
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs_of_rules import PAIRS
from tests.support.programs import CASES

BODIES = {
    # signs stand at the first factor, two of them nowhere
    "def f(float(N) x) -> (o) { o(i) = 1 / (1 + exp(-x(i))) }": [
        "d_x(i) = d_o(i) * o(i) / (1 + exp(-x(i))) * exp(-x(i))"
    ],
    "def f(float(N) x, float(N) y) -> (o) { o +=! (x(i) - y(i)) * (x(i) - y(i)) / N }": [
        "d_x(i) = 2 * d_o / N * (x(i) - y(i))",
        "d_y(i) = -2 * d_o / N * (x(i) - y(i))",
    ],
    # equal terms are one, and terms that cancel none
    "def f(float(N) x) -> (o) { o(i) = x(i) * x(i) * x(i) + 2 * (x(i) * x(i)) }": [
        "d_x(i) = 3 * d_o(i) * x(i) * x(i) + 4 * d_o(i) * x(i)"
    ],
    "def f(float(N) x, float(N) y) -> (o) { o(i) = x(i) * y(i) - y(i) * x(i) + x(i) }": [
        "d_x(i) = d_o(i)",
        "d_y(i) = 0",
    ],
    # what numbers decide is decided
    "def f(float(N) x) -> (o) { o(i) = pow(x(i), 2) }": ["d_x(i) = d_o(i) * 2 * x(i)"],
    "def f(float(N) x) -> (o) { o(i) = pow(x(i), 3.5) }": [
        "d_x(i) = d_o(i) * 3.5 * pow(x(i), 2.5)"
    ],
    "def f(float(N) x) -> (o) { o(i) = log(x(i)) }": ["d_x(i) = d_o(i) / x(i)"],
    # a cotangent is copied and added to in one statement, with the names of the program
    "def f(float(N,K) x) -> (t, o) { t(n,k) = x(n,k) * 3  o(n,k) = t(n,k) * t(n,k) }": [
        "b_t(n, k) = d_t(n, k) + 2 * d_o(n, k) * t(n, k)",
        "d_x(n, k) = b_t(n, k) * 3",
    ],
    # a part is a range and no condition
    "def f(float(N) A) -> (O) { O(i) = A(i)  O(i) = A(i) * A(i) where i in 2:N }": [
        "b_O_1(i) = d_O(i)",
        "b_O_1(i) = 0 where i in 2:N",
        "d_A(i) = 2 <= i ? 2 * d_O(i) * A(i) : 0",
        "d_A(i) += b_O_1(i)",
    ],
    # what is read again at the place of the element, and conditions that always hold
    "def f(float(H) I) -> (O) { O(i) max=! I(2*i+p) where p in 0:3 }": [
        "n_O(i) +=! I(2 * i + p) == O(i) ? 1 : 0 where p in 0:3",
        "d_I(x) +=! 2 * q + x % 2 < 3 ? pad(I(x) == O(x / 2 - q) ? d_O(x / 2 - q)"
        " / n_O(x / 2 - q) : 0, 0) : 0 where q in 0:2",
    ],
    "def f(float(W) I) -> (O) { O(i) max=! I(2*i+p) where p in 0:2 }": [
        "n_O(i) +=! I(2 * i + p) == O(i) ? 1 : 0 where p in 0:2",
        "d_I(x) = pad(I(x) == O(x / 2) ? d_O(x / 2) / n_O(x / 2) : 0, 0)",
    ],
    # quotients and remainders of what was solved for, and pad in pad
    "def f(float(W) A, float(K) F, float(V) d) -> (o) {"
    " o(x) +=! pad(d(x/2-p) * F(2*p+x%2), 0) where x in 0:W, p in 0:(K+1)/2 }": [
        "d_d(y) +=! pad(d_o(2 * y + r + 2 * p) * F(2 * p + r), 0)"
        " where p in 0 : (K + 1) / 2, r in 0:2",
        "d_F(y) +=! y / 2 < (K + 1) / 2 ? pad(d_o(y % 2 + 2 * q) * d(q - y / 2), 0) : 0"
        " where q in 0 : (W - 1) / 2 + 1",
        "d_A(i) = 0",
    ],
    # a letter that is free
    "def f(float(V,D) T, int(N) I) -> (O) { O(n,d) = T(2*I(n), d) where d in 0:D }": [
        "d_T(2 * I(n), d) +=! d_O(n, d)",
    ],
    "def f(float(N) x, int(M) j) -> (o) { o(i) = x(j(i)) }": [
        "d_x(j(i)) +=! d_o(i)",
    ],
    # parts of concat
    "def f(float(P) A, float(Q) B) -> (O) { O = concat(A, B) }": [
        "d_B(x) = d_O(P + x)",
        "d_A(i0) = d_O(i0) where i0 in 0:P",
    ],
}


@pytest.mark.parametrize("text", BODIES)
def test_a_body_reads_as_one_would_write_it(text: str) -> None:
    made = tc.grad(text)
    body = re.sub(r"\s+", " ", made.split("{\n")[1].removesuffix("}\n")).strip()
    assert body == " ".join(BODIES[text])


def test_ranges_are_left_out_only_where_they_follow_at_all_sizes() -> None:
    """At the sizes that are tried, each of these clauses changes nothing."""
    pool = """def f(float(B,C,H,W) I) -> (O) {
      O(b,c,i,j) max=! I(b,c,2*i+p,2*j+q) where p in 0:3, q in 0:3
    }"""
    assert "? 1 : 0\n      where p in 0:3, q in 0:3" in tc.grad(pool)
    text = """def f(double(S) g, double(17,R) h) -> (o, p) {
      o(m) +=! g(k) * h(m,k)
      p(j,i) = g(i) + 1 where j in R-1:S+1, i in S-1:S
      p(j,i) = p(j,i) * 2
    }"""
    known = {"g": np.arange(5.0), "h": np.ones((17, 3))}
    outputs = forward(text, known)
    given = cotangents(outputs, np.random.default_rng(1))
    gradients = forward(tc.grad(text), {**known, **outputs, **given})
    for difference, slope in along_directions(text, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-7)


CLUTTER = {
    "times 1": r"\* 1(?![\d.])",
    "divided by 1": r"/ 1(?![\d.])",
    "plus 0": r"[+-] 0(?![\d.x])",
    "times 0": r"\* 0(?![\d.])",
    "two signs": r"-\(?-|[+-] -",
    "not not": r"!\(?!",
    "a sign in front of a product": r"-\(\w+(\([^()]*\))? [*/]",
    "numbers compared": r"(?<![-+*/%] )(?<![\w.])\d+ (==|<|>|<=|>=) \d+(?![\w.])",
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [pair.name for pair in PAIRS] + [case.name for case in CASES])
def test_no_text_has_clutter(name: str) -> None:
    forward = next(
        (pair.forward, None) if isinstance(pair, type(PAIRS[0])) else (pair.text, pair.entry)
        for pair in (*PAIRS, *CASES)
        if pair.name == name
    )
    try:
        made = tc.grad(forward[0], entry=forward[1])
    except tc.GradError:
        return
    for what, pattern in CLUTTER.items():
        assert not re.search(pattern, made), (what, made)
    program = _program(made, None)
    for statement in program.statements:
        for node in p.walk(statement.rhs):
            if isinstance(node, p.Select) and not node.padded:
                conditions = p.conjuncts(node.condition)
                assert len(set(conditions)) == len(conditions), made
    inner = [node for s in program.statements for expr in s.expressions for node in p.walk(expr)]
    read = {node.tensor for node in inner if isinstance(node, p.Read)}
    for statement in program.statements:
        assert read.union(program.outputs).intersection(statement.targets), made


def test_a_program_has_one_text() -> None:
    """Whatever the order of sets."""
    code = (
        "import tc\nfrom tests.gradient.pairs_of_rules import PAIRS\n"
        "for pair in PAIRS[:24]:\n    print(tc.grad(pair.forward), tc.vjp(pair.forward))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert len(texts.pop()) > 10_000


LAYER = """def layer(float(B,N) X, float(O,N) W) -> (Y) {
  Y(b,o) +=! X(b,n) * W(o,n)
  Y(b,o) = %s
}"""


@pytest.mark.parametrize(
    ("last", "condition"),
    [
        ("fmaxf(Y(b,o), 0)", "Y(b, o) > 0"),
        ("max(0, Y(b,o))", "Y(b, o) > 0"),
        ("min(Y(b,o), 6)", "Y(b, o) < 6"),
        ("fmin(Y(b,o), B * 1.5)", "Y(b, o) < B * 1.5 || B * 1.5 != B * 1.5"),
    ],
)
def test_results_tell_which_was_larger(last: str, condition: str) -> None:
    """The product need not be computed again to know its sign: what is written last holds it."""
    text = tc.grad(LAYER % last)
    assert f"{condition} ? d_Y(b, o) : 0" in " ".join(text.split())
    assert "X(b, n) * W(o, n)" not in text


@pytest.mark.parametrize(
    "last", ["max(Y(b,o), 0) + 1", "max(2 * Y(b,o), X(b,0))", "2 * max(Y(b,o), 0)"]
)
def test_results_that_do_not_tell(last: str) -> None:
    assert "+= X(b, n) * W(o, n)" in tc.grad(LAYER % last, "W").replace("+=!", "+=")


@pytest.mark.parametrize("kind", ["int", "uint8", "int64"])
@pytest.mark.parametrize("function", ["fmin", "fmax"])
def test_an_integer_is_no_nan(function: str, kind: str) -> None:
    """A scalar of integers, of which alone a condition were, would decide a range."""
    text = f"def f(float(N) a, {kind} b) -> (o) {{ o(i) = {function}(a(i), b) }}"
    assert "!=" not in tc.grad(text)
    a = np.array([-1.0, 0.5, 3.0], np.float32)
    found = tc.interpret(tc.grad(text), {"a": a, "b": 1, "d_o": np.float32([2, 3, 4])})
    wanted = {"fmin": [2, 3, 0], "fmax": [0, 0, 4]}[function]
    assert np.asarray(found).tolist() == wanted


def test_nothing_is_held_where_nothing_is_saved() -> None:
    assert "X(b, n) * W(o, n)" in tc.grad(LAYER % "max(Y(b,o), 0)", save="none")


def test_what_never_holds_is_left_out() -> None:
    """D4, D7: for sizes that are known, and for all where it shows."""
    text = "def f(float(N) A) -> (O) { O(i) = A(i) + (i > 10 ? A(i) * A(i) : 0) }"
    assert tc.grad(text, sizes={"N": 7}) == (
        "def f_grad(float(7) d_O) -> (float(7) d_A) {\n  d_A(i) = d_O(i)\n}\n"
    )
    for condition in ("i > 10", "10 < i", "i >= 11", "i == 11", "12 <= i + 1"):
        both = text.replace("i > 10", condition)
        assert tc.grad(both, sizes={"N": 11}) == tc.grad(text, sizes={"N": 7}).replace("7", "11")
        assert tc.grad(both, sizes={"N": 12}).count("d_A") == 3
    assert tc.grad(text.replace("i > 10", "i > N - 1")) == (
        "def f_grad(float(N) d_O) -> (float(N) d_A) {\n  d_A(i) = d_O(i)\n}\n"
    )


ONE_SIZE_IN_ALL_SAMPLES = """
def f(double(N,M,K) a, double(M,L,L) b, double(P) c, double(Q) d, int(R) e, int64(R) g, int h)
    -> (o, o3, o2) {
  o(j,m,l) +=! a(j, k, (3 * l) + q) * b(m, k, q) where j in 0:N
  o1(w,j) = ((j < 1) ? d(j) : 1) + c(w + 2) where j in 0:6
  o(i,w,m) = exp(o(i, w, m)) where w in N - 2:3
  o2(i) = (7 / e(5)) * o1(i / 2, g(i)) where i in Q - 1:h
  o3(w,l) = ((-o1(4, w)) * o1(w, l)) * ((L <= 0) ? 1 : w) where l in 0:6
}"""


@pytest.mark.parametrize("size", [8, 11, 42])
def test_ranges_that_are_one_at_the_samples_alone(size: int) -> None:
    """All samples had P = 7, where `min(5, P - 2)` is `P - 2`; a range was left out for that."""
    numbers = np.random.default_rng(size)
    a, b = numbers.uniform(-1, 1, (2, 3, 24)), numbers.uniform(-1, 1, (3, 3, 3))
    c, d = numbers.uniform(-1, 1, size), numbers.uniform(-1, 1, 1)
    e, g = np.full(7, 3, "int32"), numbers.integers(0, min(6, size - 2), 7)
    known = {"a": a, "b": b, "c": c, "d": d, "e": e, "g": g, "h": np.int32(3)}
    gradient = tc.grad(ONE_SIZE_IN_ALL_SAMPLES)
    results = forward(ONE_SIZE_IN_ALL_SAMPLES, known, "f")
    weights = {f"d_{name}": numbers.uniform(-1, 1, value.shape) for name, value in results.items()}
    assert_transposed(ONE_SIZE_IN_ALL_SAMPLES, gradient, known, weights, "f")


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("sqrt(w)", np.sqrt),
        ("(w * 0.1)", lambda w: w * 0.1),
        ("sin(w / 3)", lambda w: np.sin(w // 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["double", "float"])
def test_what_stands_for_an_index_takes_its_type(
    term: str, expected: Callable[[np.ndarray], np.ndarray], dtype: str
) -> None:
    """An index is weak, and a function of it is computed in double; so it is where the element
    `x / a` stands for the index, though an int64 alone would give float32."""
    text = f"def f(int64 a, {dtype}(N) b) -> (o) {{ o(w) = b(a * w) * {term} }}"
    a, d_o = np.int64(3), np.linspace(1, 2, 5).astype("float64" if dtype == "double" else "float32")
    d_b = np.zeros(13, d_o.dtype)
    d_b[::3] = d_o * expected(np.arange(5)).astype(d_o.dtype)
    found = tc.interpret(tc.grad(text), a=a, b=np.ones(13, d_o.dtype), d_o=d_o)
    np.testing.assert_allclose(found, d_b, rtol=4 * np.finfo(d_o.dtype).eps)


def test_the_sign_of_a_quotient_of_integers_stays_outside() -> None:
    """`-(S / 2)` rounds down before the sign; `-S / 2` would be -1 for S = 1."""
    half = terms.binary("/", p.Size("S", INT64, span=terms.NO_SPAN), terms.number(2))
    assert printed(terms.with_signs(terms.negative(half))) == "-(S / 2)"


def test_a_second_derivative_where_a_range_begins_at_a_quotient() -> None:
    text = """
def f(double(M) b, double(P,Q,R) e, double(S,1) f, double(N) a) -> (o, o2) {
  o(j) = b(j) * a(0)
  o2(m,i,w) max=! e(i, m, k) * f(w, k) where m in 4:9, i in 2:9, w in M - 1:1, k in S / 2:M
}"""
    numbers = np.random.default_rng(1)
    e, f = numbers.normal(size=(9, 12, 1)), numbers.normal(size=(1, 1))
    gradient = tc.grad(text)
    second = tc.grad(gradient, save="none")
    d_d_e, d_d_f = numbers.normal(size=e.shape), numbers.normal(size=f.shape)
    given = {"a": np.ones(1), "b": np.ones(1), "e": e, "f": f, "d_d_e": d_d_e, "d_d_f": d_d_f}
    program = _program(second, None)
    shapes = {
        "o2": (9, 9, 1),
        "d_o2": (9, 9, 1),
        "o": (1,),
        "d_o": (1,),
        "d_d_a": (1,),
        "d_d_b": (1,),
    }
    given |= {n: np.zeros(s) for n, s in shapes.items() if n not in given}
    given["o2"][4:, 2:, 0] = (e[2:, 4:9, 0] * f[0, 0]).T
    found = forward(second, {n: given[n] for n in program.inputs})
    expected = np.zeros((9, 9, 1))
    expected[4:, 2:, 0] = (d_d_e[2:, 4:9, 0] * f[0, 0] + d_d_f[0, 0] * e[2:, 4:9, 0]).T
    np.testing.assert_allclose(found["d_d_o2"], expected, rtol=1e-12, atol=1e-12)


def test_a_gradient_of_a_concat_that_a_later_statement_widens() -> None:
    text = """
def f(float(N) b, double(M) c) -> (o) {
  o = concat(b, b)
  o(i) max= 2 * c(i) where i in 0:3
}"""
    given = {
        "b": np.array([1, -3, 4], np.float32),
        "c": np.array([0.7, 2, 1]),
        "d_o": np.arange(1.0, 7),
    }
    d_b, d_c = tc.interpret(tc.grad(text), **given)
    np.testing.assert_array_equal(d_b, np.array([4, 5, 3 + 6], np.float32))  # o: c c b b b b
    np.testing.assert_array_equal(d_c, [2, 4, 0])


@pytest.mark.parametrize(
    "text",
    [
        "def f(double(N) a, double(M) b) -> (o) { o = concat(a, b) }",
        """
def f(double(N) a, double(M) b) -> (o) {
  o(i) = 0 where i in 0:2*N
  o(i) = a(i) where i in 0:N
  o(i) max= b(i) where i in 0:3
}""",
    ],
)
def test_a_gradient_warns_of_no_sizes_where_its_program_does_not(text: str) -> None:
    a, b = np.array([1.0, -3, 4]), np.array([0.7, 2, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.TCWarning)
        o = tc.interpret(text, [a, b])
        known = {"a": a, "b": b, "o": o, "d_o": np.arange(1.0, len(o) + 1)}
        gradient = tc.grad(text)
        needed = _program(gradient, None).inputs
        d_a, d_b = tc.interpret(gradient, **{name: known[name] for name in needed})
    from_a, from_b = ([1, 2, 3], [4, 5, 6]) if "concat" in text else ([1, 0, 3], [0, 2, 0])
    np.testing.assert_array_equal(d_a, from_a)
    np.testing.assert_array_equal(d_b, from_b)
