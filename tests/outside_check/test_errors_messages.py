"""2.2: messages that misled now offer the text that was meant, or no repair."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.build import refusal_of

TWICE = "def f(float(N) x) -> (o) { o(i) = 2 * x(i) }"
ONES = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("backend", "repair"),
    [
        ("cpu", "numba"),
        ("CPU", "numba"),
        ("llvm", "numba"),
        ("gpu", "cuda"),
        ("cuda:0", "cuda"),
        ("gcc", "c"),
        ("c++", "c"),
        ("Numba", "numba"),
        ("interpreter", "interpret"),
        ("opencl:cpu", "opencl"),
        ("metal", None),
        ("torch", None),
        ("xyz", None),
    ],
)
def test_names_of_backends(backend: str, repair: str | None) -> None:
    """2.2: "cpu" got `backend="cuda"`."""
    error = refusal_of(lambda: tc.compile(TWICE, backend=backend))
    assert str(error) == (
        f"BackendError: there is no backend '{backend}'; there are numba, c, opencl, cuda, "
        "interpret" + (f'\nrepair: backend="{repair}"' if repair else "")
    )


ORDER = "def f(float(N,K) W, float(K) x) -> (o) { o(n) +=! W(n,k) * x(k) }"


def test_arguments_in_another_order() -> None:
    """2.2: a repair was `W.reshape((1, 4))`."""
    f = tc.compile(tc.Source(ORDER, "f.tc"), backend="interpret")
    error = refusal_of(lambda: f(ONES[0], ONES))
    assert str(error) == (
        "InputError: f: W has rank 1 and shape (4,), but float32(N, K) W asks for rank 2\n"
        " --> f.tc:1:18\n"
        "  |\n"
        f"1 | {ORDER}\n"
        "  |                  ^\n"
        "repair: the order of the parameters, f(W, x): what is given for x fits W; what is given "
        "for W fits x"
    )
    assert (f(ONES, ONES[0]) == 4).all()


@pytest.mark.parametrize(
    ("params", "right", "given", "said"),
    [
        ("float(N,K) A, int(N) I", "A(i,0) * I(i)", [np.int32([1, 2, 3]), ONES], "for I fits A"),
        ("float(N) x, float a", "a * x(i)", [2.0, ONES[0]], "for a fits x"),
        ("float(N,K) A, float(K,N) B", "A(i,0) + B(0,i)", [ONES, ONES], None),
        ("float(N,K) A, float(K,3) B", "A(i,0) + B(0,0)", [ONES.T, ONES], "for B fits A"),
        ("float(2,K) A, float(K,3) B", "A(i,0) + B(0,0)", [ONES.T, ONES[:2]], "for B fits A"),
        ("float(N) x, float(N) y", "x(i) * y(i)", [ONES[0], ONES], None),
    ],
)
def test_an_order_is_named_where_just_one_fits(
    params: str, right: str, given: list[Any], said: str | None
) -> None:
    """2.2, with other types, numbers, and sizes that do not agree."""
    f = tc.compile(f"def f({params}) -> (o) {{ o(i) = {right} }}", backend="interpret")
    repair = refusal_of(lambda: f(*given)).repair or ""
    assert ("the order of the parameters" in repair) is (said is not None)
    assert said is None or said in repair


def test_options_and_presets() -> None:
    """2.2: what is near, or nothing."""
    assert str(refusal_of(lambda: tc.Options(thread=2))) == (  # type: ignore[call-arg]
        "BackendError: Options has no option 'thread'; it has schedule, mapping, gpu, threads, "
        "match_library, plan\n"
        "repair: Options(threads=...)"
    )
    assert refusal_of(lambda: tc.Options(quick=True)).repair is None  # type: ignore[call-arg]
    assert refusal_of(lambda: tc.MappingOptions(row=2)).repair == (  # type: ignore[call-arg]
        "MappingOptions(rows=...)"
    )
    assert refusal_of(lambda: tc.Options.preset("fast")).repair is None
    assert refusal_of(lambda: tc.Options.preset("contractions")).repair == (
        "Options.preset('contraction')"
    )
    given: Any = "pointwise"
    error = refusal_of(lambda: tc.compile(TWICE, options=given))
    assert error.repair == "tc.Options.preset('pointwise')"


class Series:
    """What pandas has: an array of numpy behind `__array__`."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


def test_what_turns_into_an_array_says_so() -> None:
    """2.2: a Series got no repair."""
    f = tc.compile(TWICE, backend="interpret")
    series = Series([1, 2])
    assert refusal_of(lambda: f(series)).repair == "np.asarray(x, np.float32)"
    np.testing.assert_array_equal(f(np.asarray(series, np.float32)), [2, 4])
    assert refusal_of(lambda: f(object())).repair is None


def test_a_decorator_is_told_that_programs_are_text() -> None:
    """2.2: `@tc.compile` above a function of Python."""

    def twice(x: Any) -> Any:
        return 2 * x

    given: Any = twice
    error = refusal_of(lambda: tc.compile(given))
    assert str(error) == (
        "InputError: the program is text, the path of a file with it, or a tc.Source, and not of "
        "type function: nothing of tc is a decorator, and no function of Python is translated\n"
        'repair: twice = tc.compile("def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }")'
    )
    assert error.repair is not None
    scope: dict[str, Any] = {"tc": tc}
    exec(error.repair, scope)
    np.testing.assert_array_equal(scope["twice"](np.float32([1, 2])), [2, 4])
    reserved: Any = float  # the name of a type
    assert refusal_of(lambda: tc.compile(reserved)).repair == (
        'f = tc.compile("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")'
    )


def warned(text: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tc.compile(tc.Source(text, "f.tc"))
    return [str(w.message) for w in caught]


def test_an_index_that_is_probably_another_is_told_of() -> None:
    """2.2: `A(i,j) * b(jj)` was a silent double sum."""
    text = "def f(float(N,M) A, float(M) b) -> (o) { o(i) +=! A(i,j) * b(jj) }"
    assert warned(text) == [
        "warning [R1]: 'jj' stands once, beside 'j' with a dimension of the same size: the "
        "statement reduces over it by itself, over all pairs of 'jj' and 'j'\n"
        " --> f.tc:1:62\n"
        "  |\n"
        f"1 | {text}\n"
        "  |                                                              ^^\n"
        "repair: j for jj, if one index is meant; otherwise a name that is less like 'j'"
    ]


@pytest.mark.parametrize(
    ("params", "statement", "count"),
    [
        ("float(N,M) A, float(M) b", "o(row) +=! A(row,col) * b(cols)", 1),
        ("float(N) a, float(N) b", "o(i) +=! a(i) * b(ii)", 1),
        ("float(N,M) A, float(M) b", "o(i) +=! A(i,j) * b(k)", 0),
        ("float(N,M) A, float(K) b", "o(i) +=! A(i,j) * b(jj)", 0),
        ("float(N,M) A, float(M) b", "o(i) +=! A(i,j) * b(jj) where jj in 0:M", 0),
        ("float(N,N) A", "o(i) +=! A(i,ii)", 0),
        ("float(N,M) A, float(M) b", "o(i,jj) = A(i,jj) * b(jj)", 0),
        ("float(N) x, float(M) k", "o(i) +=! x(i+ii) * k(ii)", 0),
    ],
)
def test_indices_that_are_meant_are_not_told_of(params: str, statement: str, count: int) -> None:
    """2.2: other names, other sizes, ranges of their own, places in one read."""
    assert len(warned(f"def f({params}) -> (o) {{ {statement} }}")) == count
