"""What no gradient is derived of is refused, with the rule."""

from __future__ import annotations

import pytest

import tc

REFUSED = {
    "D4": "def f(float(N) A) -> (o) { o = A(N) }",
    "D10": "def f(float(N) A) -> (O) { O(i) = tgamma(A(i)) }",
    "D16": "def f(int(N) A) -> (O) { O(i) = A(i) }",
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


@pytest.mark.parametrize("option", [{"ties": "last"}, {"save": "inputs"}])
def test_options_are_those_that_there_are(option: dict[str, str]) -> None:
    """D1."""
    with pytest.raises(tc.GradError) as caught:
        tc.grad("def f(float(N) A) -> (O) { O(i) = A(i) }", **option)
    assert caught.value.rule == "D1"
    (name,) = option
    assert caught.value.repair.startswith(f"{name}=")


def test_names_of_constants_are_those_of_tensors() -> None:
    with pytest.raises(tc.GradError, match="'m'") as caught:
        tc.grad("def f(float(N) A) -> (O) { O(i) = A(i) }", constant="m")
    assert caught.value.rule == "D16"


def test_what_a_gather_reads_is_a_condition() -> None:
    """D13: the other dimension is solved for."""
    text = "def f(float(V,D) T, int(N) I) -> (O) { O(n,d) = T(2*I(n), d) where d in 0:D }"
    body = tc.grad(text, "T").splitlines()[1].strip()
    assert body == "d_T(x, d) +=! 2 * int64(I(n)) == x ? d_O(n, d) : 0"
