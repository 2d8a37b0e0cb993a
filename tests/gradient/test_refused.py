"""What no gradient is derived of is refused, with the rule."""

from __future__ import annotations

import pytest

import tc

REFUSED = {
    "D4": "def f(float(N) A) -> (o) { o = A(N) }",
    "D9": "def f(float(N) A) -> (O) { O(i) = A(i)  O(i) = A(i) * 2 where i in 1:N }",
    "D10": "def f(float(N) A) -> (O) { O(i) = tgamma(A(i)) }",
    "D11": "def f(float(N,K) A) -> (O) { O(i) max=! A(i,k) where i in 1:N }",
    "D12": "def f(float(N,K) A) -> (O) { O(i) *=! A(i,k) where i in 1:N }",
    "D16": "def f(int(N) A) -> (O) { O(i) = A(i) }",
    "D17": "def f(half(N) A) -> (O) { O(i) = A(i) }",
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_is_not_derived_is_refused(rule: str) -> None:
    with pytest.raises(tc.GradError) as caught:
        tc.grad(REFUSED[rule])
    assert caught.value.rule == rule
    assert caught.value.span is not None


@pytest.mark.parametrize("name", ["I", "t", "unknown"])
def test_wrt_is_a_floating_input(name: str) -> None:
    text = "def f(float(N) A, int(N) I) -> (O) { t(i) = A(i) * I(i)  O(i) = t(i) }"
    with pytest.raises(tc.GradError, match=f"'{name}'") as caught:
        tc.grad(text, wrt=name)
    assert caught.value.repair == "wrt=['A']"
