"""What the form of a statement lets an implementation factor or divide last (R5)."""

from __future__ import annotations

import pytest

from tc.semantics.factors import redistributed
from tc.semantics.ranges.symbolic_text import to_text
from tests.support.sizes_of_call import shape

SIZES = {"I": 3, "J": 4, "K": 5, "L": 6}
HEAD = (
    "def f(float(I) s, float(I,K) A, float(K,J) B, float(J,L) C, float(K) u, float(K) v,"
    " int(I,K) g, int(K) h) -> (o)"
)

FORMS: dict[str, tuple[str, list[str]]] = {
    "a product of matrices": ("o(i,j) +=! A(i,k) * B(k,j)", []),
    "a chain": ("o(i,l) +=! A(i,k) * B(k,j) * C(j,l)", ["A(i, k)", "B(k, j)", "C(j, l)"]),
    "in parentheses": ("o(i,l) +=! A(i,k) * (B(k,j) * C(j,l))", ["A(i, k)", "B(k, j)", "C(j, l)"]),
    "a factor of the sum": ("o(i) +=! s(i) * A(i,k)", ["s(i)", "A(i, k)"]),
    "a constant": ("o(i,j) +=! 0.5 * A(i,k) * B(k,j)", ["0.5", "A(i, k)", "B(k, j)"]),
    "continued": ("o(i) = s(i)  o(i) += s(i) * A(i,k)", ["s(i)", "A(i, k)"]),
    "two of one variable": ("o(i) +=! A(i,k) * u(k) * v(k)", ["A(i, k)", "u(k)", "v(k)"]),
    "all of one variable": ("o +=! u(k) * v(k)", []),
    "sums inside": ("o(i) +=! (s(i) + 1) * (A(i,k) - u(k))", ["s(i) + 1.0", "A(i, k) - u(k)"]),
    "a square": ("o(i) +=! (A(i,k) - u(k)) * (A(i,k) - u(k))", []),
    "what follows": ("o(i) +=! s(i) * A(i,k) + 1", []),
    "a quotient": ("o(i) +=! A(i,k) / s(i)", ["A(i, k)"]),
    "a quotient of a product": ("o(i) +=! A(i,k) * u(k) / s(i)", ["A(i, k) * u(k)"]),
    "a quotient by what is summed": ("o(i) +=! s(i) / u(k)", []),
    "a quotient of two of the terms": ("o(i) +=! A(i,k) / u(k)", []),
    "a maximum": ("o(i) max=! s(i) * A(i,k)", []),
    "a product of products": ("o(i) *=! s(i) * A(i,k)", []),
    "no reduction": ("o(i,k) = s(i) * A(i,k) * u(k)", []),
    "integers": ("o(i) +=! g(i,k) * h(k) * g(i,j) where j in 0:K", []),
    "checked": ("o(i) +=! s(i) * u(g(i,k))", []),
    "a variable in no factor": ("o(i) +=! s(i) * A(i,k) where r in 0:3", []),
    "no terms": ("o(i) +=! s(i) * A(i,k) where k in 0:0", []),
}


@pytest.mark.parametrize("name", FORMS)
def test_rule_R5_forms(name: str) -> None:
    text, expected = FORMS[name]
    statement = shape(f"{HEAD} {{ {text} }}", **SIZES).statements[-1]
    assert [to_text(expr) for expr in redistributed(statement)] == expected
