"""tc.jvp against central differences, and against tc.grad by inner products (D18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tc.gradient.forward_mode import tangents_alone
from tests.gradient.differences import Arrays, along, cotangents, forward
from tests.gradient.pairs import as_double
from tests.gradient.table import distinct_inputs
from tests.gradient.tangents_of import assert_transposed, directions, tangents
from tests.gradient.test_versions import CHANGED
from tests.support.bounds import assert_computes
from tests.support.programs import CASES

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")


def assert_derivatives(text: str, known: Arrays, given: Arrays, entry: str | None = None) -> None:
    wanted = along(text, known, given, entry)
    found = tangents(text, known, given, entry)
    wrt = [name.removeprefix("t_") for name in given]
    alone = forward(tangents_alone(text, wrt, entry=entry), {**known, **given})
    for name, value in found.items():
        np.testing.assert_array_equal(alone[name], value)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == np.float64
        same = np.where(np.isfinite(value), found[name], value)  # a largest of no terms
        np.testing.assert_allclose(same, value, rtol=2e-6, atol=2e-6, err_msg=name)


PADDED = {
    "pad": "def f(float(N) A, float(M) B) -> (O) {"
    " O(i) = pad(A(i-1) * B(2*i), A(i)) * B(i) where i in 0:N }",
    "pad of a sum": "def f(float(N) A, float(M) B) -> (O) {"
    " O(i) = pad(A(i-1) + B(i-2), A(i) * B(i)) where i in 0:N }",
    "pad of a choice": "def f(float(N) A, float(N) B) -> (O) {"
    " O(i) = pad(A(i-1) > 1 ? B(i+1) : A(i-2), A(i)) }",
    "pad in pad": "def f(float(N) A, float(N) B) -> (O) { O(i) = pad(pad(A(i-1), B(i+1)), A(i)) }",
    "pad by data": "def f(float(N) A, float(N) B) -> (O) {"
    " O(i) = pad(A(int(2 * B(i)) - 1) * B(i), B(i)) }",
}
LESS = {
    "a lesser size": "def f(float(N) A, float(M) B) -> (O) { O(i) = B(i) + A(i) }",
    "a greater size": "def f(float(M) A, float(N) B) -> (O) { O(i) = B(i) + A(i) }",
    "a window": "def f(float(M) A, float(K) B) -> (O) { O(i) +=! A(i + k) + B(k) }",
    "a sum of either": "def f(float(N,K) A, float(N) B) -> (O, s) {"
    " O(i) = B(i)  O(i) += A(i,k)  O(i) += B(i) * B(i)  s +=! A(i,k) + B(i) }",
    "a start": "def f(float(N,K) A, float(K) B) -> (O) {"
    " O(i,j) = B(j)  O(i,j) += A(i,k) * A(i,j) }",
    "a diagonal": "def f(float(N,N) A, float(N) B) -> (O) { O(i) = B(i)  O(i) += B(i) * A(j,j) }",
    "a choice of either": "def f(float(N) A, float(K,K) B) -> (O) {"
    " O(w,l) = l <= w ? A(w) : B(l,l) }",
    "some of concat": "def f(float(N) A, float(M) B) -> (O) {"
    " t(i) = 2 * A(i)  r(i) = B(i) * B(i)  O = concat(t, r, A) }",
    "a part, from either": "def f(float(N) A, float(M) B) -> (O) {"
    " O(i) = A(i) * B(i)  O(i) = B(i) * B(i) where i in 1:3  O(i) += A(i) }",
    "an output of one": "def f(float(N) A, float(M) B) -> (O, P) { O(i) = sin(A(i))  P(i) = B(i) }",
    "largest of either": "def f(float(N,K) A, float(N) B) -> (O, P) {"
    " O(i) max=! A(i,k)  O(i) max= B(i) - k where k in 0:2  P(i) max=! B(i) + k where k in 0:2 }",
    "product of either": "def f(float(N,K) A, float(N) B) -> (O) {"
    " O(i) *=! A(i,k)  O(i) *= B(i) + k where k in 0:2  O(i) *= A(i,0) }",
    "called": "def g(float(P,Q) A, float(Q) B) -> (float(P,Q) C, float(Q,Q) D) {"
    " C(i,j) = A(i,j)  C(i,j) += A(i,k) * B(j)  D(i,i2) = B(i) * B(i2) }"
    " def f(float(N,K) A, float(K) B) -> (i) { j, D = g(A, B)  C, D2 = g(j, B)"
    " i(N2) +=! C(N2,p) * D(p,q) where q in 0:B.0 }",
}


def uniform_inputs(text: str, entry: str = "f") -> dict[str, Any]:
    program = _program(text, entry)
    numbers = np.random.default_rng(4)
    sizes = {"N": 5, "K": 3, "M": 9}
    shapes = {n: program.tensors[n].shape or () for n in program.inputs}
    return {n: numbers.uniform(0.3, 1.7, [sizes[d.name] for d in s]) for n, s in shapes.items()}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [*CHANGED, *PADDED, *LESS])
def test_whatever_has_a_tangent(name: str) -> None:
    """Each input alone as well: then some reads are gone, and ranges stay what they were."""
    text = as_double((CHANGED | PADDED | LESS)[name])
    known = uniform_inputs(text)
    given = directions(text, known, "f")
    for some in (given, *({name: value} for name, value in given.items())):
        assert_derivatives(text, known, some, "f")


@pytest.mark.parametrize("name", [name for name in LESS if name != "called"])
def test_the_transpose(name: str) -> None:
    """Those of other programs are tested where their gradients are."""
    text = as_double(LESS[name])
    known = uniform_inputs(text)
    results = forward(text, known, "f")
    weights = cotangents(results, np.random.default_rng(8))
    wrt = list(known)
    found = forward(tc.grad(text, wrt, entry="f"), {**known, **results, **weights})
    gradients = dict(zip((f"d_{name}" for name in wrt), found.values(), strict=True))
    assert_transposed(text, known, weights, gradients, "f")


def test_ranges_are_those_of_the_program() -> None:
    """A where clause for what all reads say, and exists for what they do together."""
    matmul = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) + B(k,j) }"
    assert "t_C(i, j) +=! t_A(i, k) where j in 0:N\n" in tc.jvp(matmul, "A")
    window = "def w(float(M) A, float(K) B) -> (O) { O(i) +=! A(i + k) + B(k) }"
    assert "t_O(i) +=! t_B(k) where exists A(i + k)\n" in tc.jvp(window, "B")


def test_ties_share_a_tangent() -> None:
    """D11: as torch.amax has it."""
    text = "def f(double(N,K) A, double(N) B) -> (O, P) {" \
        " O(i) max=! A(i,k)  P(i) = B(i)  P(i) max= A(i,k) }"  # fmt: skip
    known = {"A": np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), "B": np.array([3.0, 1.0])}
    given = {"t_A": np.array([[5.0, 1.0, 2.0], [3.0, 4.0, 8.0]]), "t_B": np.array([6.0, 7.0])}
    found = tangents(text, known, given)
    np.testing.assert_array_equal(found["t_O"], [1.5, 5])
    np.testing.assert_array_equal(found["t_P"], [3, 5])


def test_products_with_zeros_are_exact() -> None:
    """D12."""
    text = "def f(double(N,K) A) -> (P) { P(n) *=! A(n,k) }"
    known = {"A": np.array([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]])}
    found = tangents(text, known, {"t_A": np.array([[1.0, 10.0, 100.0]] * 3)})
    np.testing.assert_array_equal(found["t_P"], [12 + 80 + 600, 80, 0])


def test_what_a_guard_keeps_out_is_not_computed() -> None:
    """D7, D19."""
    text = "def f(double(N) A) -> (O, s) { O(i) = A(i) > 0 ? sqrt(A(i)) : 0  s +=! O(i) }"
    found = tangents(
        text.replace("/ A(i)", "* 1"), {"A": np.array([4.0, 0, -1])}, {"t_A": np.ones(3)}
    )
    np.testing.assert_array_equal(found["t_O"], [0.25, 0, 0])
    empty = tangents(text, {"A": np.zeros(0)}, {"t_A": np.zeros(0)})
    assert empty["t_O"].shape == (0,)
    assert empty["t_s"] == 0


def test_tangents_have_the_types_of_their_tensors() -> None:
    text = "def f(half(N) H, float(N) S, double(N) D, int(N) I) -> (o, p, q, r, n) {" \
        " o(i) = H(i) * H(i)  p(i) = float(H(i)) * S(i)  q(i) = double(S(i)) * S(i) * I(i)" \
        " r(i) = float(D(i) * S(i))  n(i) = I(i) }"  # fmt: skip
    program = _program(tc.jvp(text), None)
    types = [program.tensors[name].dtype.name for name in program.outputs[5:]]
    assert program.outputs == ("o", "p", "q", "r", "n", "t_o", "t_p", "t_q", "t_r")
    assert types == ["float16", "float32", "float64", "float32"]
    only = _program(tc.jvp(text, "S"), None)
    assert [only.tensors[name].dtype.name for name in only.outputs[5:]] == types


def test_a_product_of_floats_in_double_is_one() -> None:
    text = "def f(float(N) A, float(N) B) -> (o) { o(i) = double(A(i)) * B(i) }"
    values = np.random.default_rng(1).random((4, 6)).astype("float32")
    derived = tc.jvp(text)
    product, found = tc.interpret(derived, [*values])
    a, b, ta, tb = values.astype("float64")
    assert_computes(derived, [*values], (product, found), (a * b, ta * b + a * tb))


def test_nothing_flows_through_constants() -> None:
    """D16: the softmax of any shift is the same."""
    softmax = next(case for case in CASES if case.name == "stable_softmax")
    text, known = as_double(softmax.text), distinct_inputs(softmax)
    given = directions(text, known)
    derived = tc.jvp(text, constant="m")
    assert "t_m" not in derived
    assert len(derived.splitlines()) == len(tc.jvp(text).splitlines()) - 2
    wanted = along(text, known, given)["t_O"]
    np.testing.assert_allclose(forward(derived, {**known, **given})["t_O"], wanted, atol=1e-8)


def test_a_tensor_of_an_inlined_def_may_be_constant() -> None:
    text = (
        "def g(float(N) A) -> (B) { t(i) = A(i) * A(i)  B(i) = t(i) * A(i) }"
        " def f(float(N) A) -> (O) { O = g(A) }"
    )
    assert "t_O(i) = t_A(i) * g_t(i)\n" in tc.jvp(text, entry="f", constant="g.t")


def test_second_derivatives() -> None:
    """The tangent of a tangent, and that of a gradient: a Hessian times a vector."""
    text = "def f(double(N) x, double(N) y) -> (s) { s +=! sin(x(i)) * y(i) * y(i) }"
    known = {"x": np.array([0.3, 0.9, 2.0]), "y": np.array([1.5, 0.5, -1.0])}
    x, y, ones = known["x"], known["y"], np.ones(3)
    twice = tc.jvp(tc.jvp(text, "x"), "x")
    found = forward(twice, {**known, "t_x": ones, "t_x_2": ones, "t_t_x": 0 * ones})
    assert list(found) == ["s", "t_s", "t_s_2", "t_t_s"]
    assert found["t_t_s"] == pytest.approx(-np.sum(np.sin(x) * y * y))
    hessian = tc.jvp(tc.grad(text, "x", save="none"), ["x", "y"])
    found = forward(hessian, {**known, "d_s": 1.0, "t_x": ones, "t_y": 2 * ones})
    np.testing.assert_allclose(found["t_d_x"], -np.sin(x) * y * y + 2 * np.cos(x) * 2 * y)


def test_taken_names_are_numbered() -> None:
    """D2."""
    text = "def f(float(N) A, float(t_O) t_A) -> (O) { O(n_O) max=! A(n_O) * t_A(k) }"
    program = _program(tc.jvp(text), None)
    assert program.inputs == ("A", "t_A", "t_A_2", "t_t_A")
    assert program.outputs == ("O", "t_O_2")


def test_a_text_is_laid_out_already_and_compiled() -> None:
    pool = "def pool(float(N,W) I) -> (O) { O(n,i) max=! pad(I(n,2*i+p-1), 0) " \
        "where i in 0:W/2, p in 0:3 }"  # fmt: skip
    derived = tc.jvp(pool)
    assert format_source(tc.Source(derived)) == derived
    assert tc.jvp(pool) == derived
    values = np.random.default_rng(3).standard_normal((2, 4, 10)).astype("float32")
    assert_computes(derived, [*values], tc.compile(derived)(*values))


def test_a_function_without_a_derivative_is_refused_where_one_is_asked_for() -> None:
    text = "def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) * tgamma(B(i)) }"
    assert "t_O(i) = t_A(i) * tgamma(B(i))\n" in tc.jvp(text, "A")
    with pytest.raises(tc.GradError, match="tgamma") as caught:
        tc.jvp(text)
    assert caught.value.rule == "D10"


@pytest.mark.parametrize(
    ("options", "repair"),
    [
        ({"wrt": "I"}, "wrt=['A']"),
        ({"wrt": "t"}, "wrt=['A']"),
        ({"wrt": ["A", "unknown"]}, "wrt=['A']"),
        ({"constant": "u"}, "constant=['t']"),
    ],
)
def test_names_are_those_of_the_program(options: dict[str, Any], repair: str) -> None:
    text = "def f(float(N) A, int(N) I) -> (O) { t(i) = A(i) * I(i)  O(i) = t(i) }"
    with pytest.raises(tc.GradError) as caught:
        tc.jvp(text, **options)
    assert caught.value.rule == "D16"
    assert caught.value.repair == repair


@pytest.mark.parametrize("op", ["max", "min"])
def test_a_value_shares_with_a_constant_in_forward_mode_too(op: str) -> None:
    """D11: half of the tangent where both are the extreme, as the gradient has it."""
    text = f"def f(double(N,K) a) -> (o) {{ o(n,k) = a(n,k)  o(i,j) {op}= 2 where i in 1:N }}"
    a = np.array([[2.0, 9.0], [2.0, 3.0], [1.0, 2.0]])
    sign = 1 if op == "max" else -1
    expected = np.where(sign * a > sign * 2, 1.0, np.where(a == 2, 0.5, 0.0))
    expected[0] = 1.0  # the statement leaves the first row as it is
    ones = np.ones_like(a)
    tangent = tc.interpret(tc.jvp(text), {"a": a, "t_a": ones})[-1]
    np.testing.assert_array_equal(tangent, expected)
    gradient = tc.interpret(tc.grad(text), {"a": a, "o": tc.interpret(text, [a]), "d_o": ones})
    np.testing.assert_array_equal(gradient, expected)
