"""Gradients of gathers: which forms are recognised, and what is told of others (1.1)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

V, N, K, D, B, H = 40, 50, 3, 9, 4, 12
NUMBERS = np.random.default_rng(2)
INDEX = NUMBERS.integers(0, V, (B, N, K)).astype(np.int32)
ROW, COLUMN = (NUMBERS.integers(0, H, (B, N)).astype(np.int32) for _ in range(2))
GIVEN = NUMBERS.standard_normal((B, N, D)).astype(np.float32)
TABLE = NUMBERS.standard_normal((B, V, D)).astype(np.float32)


def scattered(shape: tuple[int, ...], places: Any, values: Any) -> Any:
    made = np.zeros(shape)
    np.add.at(made, tuple(places), values)
    return made


BATCH = np.broadcast_to(np.arange(B)[:, None, None], INDEX.shape)
FORMS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "rows": (
        "def f(float(V,D) T, int(N) I) -> (o) { o(n,d) = T(I(n),d) }",
        {"T": TABLE[0], "I": INDEX[0, :, 0], "d_o": GIVEN[0]},
        scattered((V, D), [INDEX[0, :, 0]], GIVEN[0]),
    ),
    "a batch": (
        "def f(float(B,V,D) h, int(B,N,K) nbr) -> (o) { o(b,n,d) +=! h(b,nbr(b,n,k),d) }",
        {"h": TABLE, "nbr": INDEX, "d_o": GIVEN},
        scattered((B, V, D), [BATCH, INDEX], np.repeat(GIVEN[:, :, None], K, 2)),
    ),
    "a function of elements": (
        "def f(float(V,D) r, int(N,K) I) -> (o) { o(n,d) +=! exp(r(I(n,k),d)) }",
        {"r": TABLE[0], "I": INDEX[0], "d_o": GIVEN[0]},
        scattered((V, D), [INDEX[0]], GIVEN[0][:, None] * np.exp(TABLE[0])[INDEX[0]]),
    ),
    "two index tensors": (
        "def f(float(B,D,H,W) v, int(B,N) iy, int(B,N) ix) -> (o)"
        " { o(b,d,n) = v(b,d,iy(b,n),ix(b,n)) }",
        {
            "v": np.zeros((B, D, H, H), np.float32),
            "iy": ROW,
            "ix": COLUMN,
            "d_o": GIVEN.transpose(0, 2, 1).copy(),
        },
        scattered(
            (B, H, H, D), [np.broadcast_to(np.arange(B)[:, None], ROW.shape), ROW, COLUMN], GIVEN
        ).transpose(0, 3, 1, 2),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_are_recognised(form: str) -> None:
    """1.1: each term is added where it belongs, and nothing is told."""
    text, given, wanted = FORMS[form]
    gradient = tc.grad(text, next(iter(given)))
    for backend in ("interpret", "numba", "c"):
        for threads in (1, 2):
            function = tc.compile(gradient, backend=backend, options=tc.Options(threads=threads))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                inputs = {n: given[n] for n in function.program.inputs}
                found = function(inputs)
            assert_computes(gradient, inputs, found, wanted)
    told = str(tc.explain(gradient, {n: given[n] for n in function.program.inputs}))
    assert "each term is added where it belongs" in told


SELECTION = "d_T(x,d) +=! I(n) == x ? d_o(n,d) * W(J(n)) : 0 where n in 0:N"
WARNING = f"""\
warning [D13]: S0, {SELECTION}, compares \
each of 3,000 places with all terms, 27,000,000 comparisons in all, 3,000 times as many as there \
are terms: its terms have tests of their own, of places or divisors that data decide
 --> <string>:2:3
  |
2 |   {SELECTION}
  |   {"^" * len(SELECTION)}
repair: check=False, which leaves out the tests"""


def test_a_form_that_is_not_recognised_is_told_with_its_cost() -> None:
    """1.1: the first call warns, with the number of comparisons; its repair is right."""
    inputs_of = "float(V,D) T, float(M) W, int(N) I, int(N) J, float(N,D) d_o"
    gradient = f"def f({inputs_of}) -> (float(V,D) d_T) {{\n  {SELECTION}\n}}"
    given = {
        "T": np.zeros((3000, 3), np.float32),
        "W": NUMBERS.standard_normal(7).astype(np.float32),
        "I": NUMBERS.integers(0, 3000, 3000).astype(np.int32),
        "J": NUMBERS.integers(0, 7, 3000).astype(np.int32),
        "d_o": NUMBERS.standard_normal((3000, 3)).astype(np.float32),
    }
    wanted = scattered((3000, 3), [given["I"]], given["d_o"] * given["W"][given["J"]][:, None])
    function = tc.compile(gradient)
    inputs = {n: given[n] for n in function.program.inputs}
    with pytest.warns(tc.TCWarning) as told:
        assert_computes(gradient, inputs, function(inputs), wanted)
    (only,) = told
    message = "\n".join(
        line.split(", given at ")[0] if line.startswith(" --> ") else line
        for line in str(only.message).splitlines()
    )
    assert message == WARNING
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(inputs)  # once
        unchecked = tc.compile(gradient, check=False)
        assert_computes(gradient, inputs, unchecked(inputs), wanted)
    told_of_unchecked = str(tc.explain(gradient, inputs, check=False))
    assert "each term is added where it belongs" in told_of_unchecked
