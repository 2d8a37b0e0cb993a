"""tc.batch against a loop over the batch, and against numpy (D18)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tc.gradient.batching import batched_outputs
from tc.semantics import program as p
from tests.gradient.differences import Arrays, forward
from tests.gradient.pairs import as_double
from tests.support.bounds import assert_computes
from tests.support.programs import CASES

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")

SIZE = 3


def elements(known: Arrays, batched: Iterable[str]) -> list[dict[str, Any]]:
    """The inputs for each element of a batch, of which the first has these; other elements have
    others for those that are `batched`."""
    numbers = np.random.default_rng(6)
    made = [dict(known)]
    for _ in range(SIZE - 1):
        other = dict(known)
        for name in batched:
            value = np.asarray(known[name])
            other[name] = numbers.permutation(value.reshape(-1)).reshape(value.shape)
            if value.dtype.kind == "f":
                other[name] = numbers.uniform(0.9, 1.1, value.shape) * other[name]
        made.append(other)
    return made


def assert_loop(text: str, known: Arrays, axes: dict[str, int], entry: str | None = None) -> None:
    program = _program(text, entry)
    bounds = (b for s in program.statements for w in s.where for b in (w.begin, w.end))
    rows = {n.tensor for b in bounds for n in p.walk(b) if isinstance(n, p.Read)}
    each = elements(known, [name for name in axes if name not in rows])  # rows do not fall (W3)
    named = batched_outputs(text, axes, entry=entry)
    whole = dict(known)
    for name, axis in axes.items():
        whole[name] = np.stack([element[name] for element in each], axis)
    for name in program.needs_initial:
        if name in named:
            whole[f"{name}_0"] = np.stack([element[f"{name}_0"] for element in each])
    found = forward(tc.batch(text, axes, entry=entry), whole)
    loop = [forward(text, element, entry) for element in each]
    for name, value in found.items():
        wanted = np.stack([one[name] for one in loop]) if name in named else loop[0][name]
        assert value.dtype == wanted.dtype
        assert value.shape == wanted.shape
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12, err_msg=name)


KNOWN: dict[str, Any] = {
    "a": np.float64(0.7),
    "n": np.int32(2),
    "A": np.linspace(-1, 2, 6),
    "B": np.linspace(2, 5, 6),
    "M": np.sin(np.arange(12.0)).reshape(2, 6),
    "I": np.array([3, 0, 5, 1], np.int32),
}
PARAMS = "double a, int n, double(N) A, double(N) B, double(P,N) M, int(Q) I"
CHANGED = {
    "a fill": "O(i) = 1  O(i) += A(i) * a",
    "a part": "O(i) = A(i)  O(i) = B(i) * a where i in 1:4  O(i) *= M(1,i)",
    "extremes": "O(i) max=! M(p,i)  O(i) min= a * A(i)  P min=! A(i) * M(p,i)",
    "products": "O(i) = a  O(i) *= M(p,i) where p in 0:2  P *=! A(i)",
    "extents": "T(i,j) = M(i,j) * a  O = T.1 * A.0 + T.0 * 10  P(i) = T(0,i) where i in 0:T.0",
    "concat": "T(i) = B(i) * a  O = concat(A, T, A)  T(i) = B(i)  P = concat(T, B)",
    "gathers": "O(q) = A(I(q)) * M(0, I(q) / 2)  P(v) +=! I(q) == v ? A(q) : 0 where v in 0:7",
    "padding": "O(i) = pad(A(i-1), a) + pad(M(0,i+1) * B(i), A(i)) where i in 0:N",
    "places": "O(i) = A(i + n) where i in 0:3  P(i) = pad(B(i+n), 0) where i in 0:N",
    "conditions": "O(i) = i + 2*n < 7 ? A(i) : B(i)  P(i) = n > 1 && a < A(i) ? i : n",
    "a binding": "O(i) = s * s + t where s = A(i) + a, t = n * s",
    "like another": "O(i) = a * n where exists M(n, i)  P(i) = A.0 where i in 0:I.0",
}


@pytest.mark.parametrize("name", CHANGED)
def test_whatever_is_batched(name: str) -> None:
    returns = "O, P" if "P" in CHANGED[name] and " P" in CHANGED[name] else "O"
    text = f"def f({PARAMS}) -> ({returns}) {{ {CHANGED[name]} }}"
    program = _program(text, None)
    ranges = {"n"} if name == "like another" else set()
    some = [n for n in KNOWN if n not in ranges and n in f"{CHANGED[name]}"]
    assert_loop(text, KNOWN, dict.fromkeys(some, 0))
    for one in some:
        assert_loop(text, KNOWN, {one: program.tensors[one].rank})
        assert_loop(text, KNOWN, {one: -1})


def test_products_of_matrices_are_those_of_numpy() -> None:
    mm = "def mm(float(M,K) A, float(K,N) X) -> (float(M,N) C) { C(i,j) +=! A(i,k) * X(k,j) }"
    numbers = np.random.default_rng(1)
    a, b = numbers.random((4, 2, 3), "float32"), numbers.random((3, 5, 4), "float32")
    derived = tc.batch(mm, {"A": 0, "X": 2})
    assert "-> (float(B, M, N) C)" in derived
    expected = np.einsum("bik,kjb->bij", a.astype("float64"), b)
    assert_computes(derived, [a, b], tc.compile(derived)(a, b), expected)
    assert format_source(tc.Source(derived)) == derived
    empty = tc.interpret(derived, a[:0], b[:, :, :0])
    assert empty.shape == (0, 2, 5)


def test_ways_to_say_which() -> None:
    text = "def f(float(N) A, float(N) B) -> (o) { o(i) = A(i) * B(i) }"
    assert tc.batch(text, [0, None]) == tc.batch(text, {"A": 0, "B": None})
    assert tc.batch(text, (None, 0)) == tc.batch(text, {"B": 0})
    assert tc.batch(text, 0) == tc.batch(text, {"B": 0, "A": -2})


def test_what_depends_on_nothing_batched_stays() -> None:
    text = (
        "def f(float(N) A, float(N) B) -> (o, p) { t(i) = A(i)  o(i) = t(i)  p(i) = t(i) * B(i) }"
    )
    assert batched_outputs(text, {"B": 0}) == ("p",)
    assert batched_outputs(text, {"A": 0}) == ("o", "p")
    body = tc.batch(text, {"B": 0}).splitlines()[1:-1]
    assert [line.strip() for line in body] == [
        "t(i) = A(i)",
        "o(i) = t(i)",
        "p(b, i) = t(i) * B(b, i)",
    ]


def test_what_the_caller_gives_is_batched() -> None:
    """R4: an output that is read first."""
    sgemm = next(case for case in CASES if case.name == "sgemm")
    numbers = np.random.default_rng(1)
    a, b = numbers.random((3, 4)), numbers.random((4, 5))
    some, held = numbers.random(2), numbers.random((2, 3, 5))
    wanted = 0.5 * held + np.einsum("b,ik,kj->bij", some, a, b)
    derived = tc.batch(as_double(sgemm.text), {"a": 0})
    found = tc.interpret(derived, some, 0.5, a, b, outputs=held)
    assert_computes(derived, [some, 0.5, a, b], found, wanted, outputs=held)


def test_a_batched_number_is_computed_as_in_a_condition() -> None:
    """Y9: in int64, where it would wrap around in its own type."""
    text = "def f(int n, int(N) A) -> (o) { o(i) = i + 2*n > 5 ? A(i) : 0 }"
    n, a = np.array([2**30, 2, 1], np.int32), np.arange(1, 4, dtype=np.int32)
    found = tc.interpret(tc.batch(text, {"n": 0}), n, a)
    np.testing.assert_array_equal(found, [[1, 2, 3], [0, 0, 3], [0, 0, 0]])


def test_it_goes_with_the_other_texts() -> None:
    text = "def f(double(N) A, double(N) B) -> (o) { o +=! sin(A(i)) * B(i) }"
    numbers = np.random.default_rng(1)
    a, b, t = numbers.random((3, 4)), numbers.random(4), numbers.random((3, 4))
    tangents = tc.batch(tc.jvp(text, "A"), {"A": 0, "t_A": 0})
    expected = (np.sin(a) * b).sum(1), (np.cos(a) * b * t).sum(1)
    assert_computes(tangents, [a, b, t], tc.interpret(tangents, a, b, t), expected)
    derived = tc.grad(tc.batch(text, {"A": 0}), "B")
    given = {"A": a, "d_o": np.array([1.0, 2.0, 3.0])}
    assert_computes(derived, given, forward(derived, given)["d_B"], given["d_o"] @ np.sin(a))


def test_taken_names_are_numbered() -> None:
    """D2."""
    text = "def f(float(B) b, float(B,B_2) f_batch) -> (O) { O(i) +=! b(i) * f_batch(i,b_2) }"
    assert tc.batch(text, {"b": 0}).startswith("def f_batch_2(float(B_3, B) b, float(B, B_2) f_")


SIZES = {
    "a range": "o(i) = A(i) where i in 0:n",
    "a place": "o(i) = A(i + n)",
    "a stride": "o(i) +=! A(n*i + k) where k in 0:2",
    "a place that exists": "o(i) = i where exists A(i + n)",
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_from_a_batched_number_is_refused(name: str) -> None:
    text = f"def f(int n, float(N) A) -> (o) {{ {SIZES[name]} }}"
    with pytest.raises(tc.GradError, match="the range of 'i' depends on 'n'") as caught:
        tc.batch(text, {"n": 0, "A": 1})
    assert caught.value.rule == "D18"
    assert caught.value.span is not None
    assert caught.value.span.text == "n"
    assert caught.value.repair == "in_axes={'A': 1}"
    tc.batch(text, {"A": 1})
    with pytest.raises(tc.GradError) as caught:
        tc.batch(text, {"n": 0})
    assert caught.value.repair == "[f(n, A) for n in n]"


@pytest.mark.parametrize(
    ("in_axes", "cause", "repair"),
    [
        ({"Q": 0}, "'Q', which is no input of 'f'", "in_axes={'A': 0}"),
        ({"A": 3}, "3 for 'A', which has rank 2", "in_axes={'A': 2}"),
        ({"s": True}, "True for 's', which has rank 0", "in_axes={'s': 0}"),
        ({"A": "0"}, "'0' for 'A'", "in_axes={'A': 0}"),
        ([1], "has 1 element, and 'f' has 2 inputs", "in_axes={'A': 1}"),
        ([1, None, 0], "has 3 elements, and 'f' has 2", "in_axes={'A': 1, 's': None}"),
        ([], "has 0 elements, and 'f' has 2 inputs", "in_axes={'A': 0}"),
        (1, "1 for 's', which has rank 0", "in_axes={'A': 1, 's': 0}"),
        (-2, "-2 for 's', which has rank 0", "in_axes={'A': -2, 's': -1}"),
        ({"s": 3, "A": 1}, "3 for 's', which has rank 0", "in_axes={'s': 0, 'A': 1}"),
        ({"a": 1, "s": 0}, "did you mean 'A'", "in_axes={'s': 0, 'A': 1}"),
        ("s", "in_axes is 's'", "in_axes={'s': 0}"),
        (np.ones(2), "in_axes is array", "in_axes={'A': 0}"),
        ([None, None], "no input of 'f' a batch", "in_axes={'A': 0}"),
        ({}, "no input of 'f' a batch", "in_axes={'A': 0}"),
        ("A", "in_axes is 'A'", "in_axes={'A': 0}"),
    ],
)
def test_axes_are_dimensions_of_inputs(in_axes: Any, cause: str, repair: str) -> None:
    text = "def f(float(N,M) A, float s) -> (o) { o(i) = A(i,0) * s }"
    with pytest.raises(tc.GradError, match=cause) as caught:
        tc.batch(text, in_axes)
    assert caught.value.rule == "D18"
    assert caught.value.repair == repair
    assert "f_batch" in tc.batch(text, **eval(f"dict({repair})"))


def test_integers_of_numpy_are_axes() -> None:
    text = "def f(float(N) A) -> (o) { o(i) = A(i) }"
    assert tc.batch(text, np.int64(1)) == tc.batch(text, 1)  # type: ignore[arg-type]
