"""What tests at run time depend on."""

from __future__ import annotations

import numpy as np
import pytest

from tc.polyhedral.scop.checked_variables import checked_variables
from tc.polyhedral.scop.scop import build_scop
from tests.support.pipeline import as_arrays, checked, shaped

INPUTS = {"a": np.ones((5, 7)), "b": np.ones(3), "I": np.zeros((5, 7)), "T": np.ones((4, 9))}


@pytest.mark.parametrize(
    ("statement", "variables"),
    [
        ("o(i) +=! a(i,k)", ""),
        # the subscript that may leave its tensor, not the one that cannot
        ("o(i,d) +=! T(I(i,k), d)", "ik"),
        # a read on a path not taken: the condition decides whether it is tested (Y6)
        ("o(i) +=! a(i,k) > 0 ? 2.0 : b(7)", "ik"),
        ("o(i) = a(i,0) > 0 && b(I(0,i)) > 0", "i"),
        ("o(i,k) = I(i,0) > 0 ? T(I(0,0), 0) : a(i,k)", "i"),
        # an integer division (Y4)
        ("o(i,k) = a(i,k) + 7 / I(i,0)", "i"),
        ("o(i,k) = a(i,k) / a(0,k)", ""),
    ],
)
def test_checked_variables(statement: str, variables: str) -> None:
    text = (
        "def f(float(N,K) a, float(M) b, int(N,K) I, float(E,D) T) -> (o) "
        f"{{ {statement} where i in 0:5, k in 0:7 }}"
    )
    if "k" not in statement.split("=")[0] + statement.split("=")[-1]:
        text = text.replace(", k in 0:7", "")
    program = checked(text)
    scop = build_scop(shaped(program, as_arrays(program, INPUTS)), frozenset())
    assert checked_variables(scop.statement("S0"), scop) == frozenset(variables)
