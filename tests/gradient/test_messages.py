"""Whole messages of what is refused (D1, D4, D10, D16): statement, read, rule, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tc

MESSAGES = Path(__file__).parent / "messages"
LAYER = """def layer(float(N) A, int(N) I, float s) -> (O) {
  t(i) = A(i) * I(i)
  O(i) = t(i) * s
}"""
GAMMA = """def f(float(N) A) -> (O) {
  t(i) = A(i) + 1
  O(i) = 2 * lgamma(t(i))
}"""
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "wrt_integer": (LAYER, {"wrt": "I"}),
    "wrt_temporary": (LAYER, {"wrt": ["A", "t"]}),
    "wrt_output": (LAYER, {"wrt": "O"}),
    "wrt_unknown": (LAYER, {"wrt": "B"}),
    "wrt_twice": (LAYER, {"wrt": ["A", "A"]}),
    "nothing_floating": ("def f(int(N) A) -> (O) { O(i) = A(i) + 1 }", {}),
    "constant_unknown": (LAYER, {"constant": ["u"]}),
    "ties": (LAYER, {"ties": "last"}),
    "save": (LAYER, {"save": "inputs"}),
    "no_derivative": (GAMMA, {}),
    "no_expression": ("def f(float(N) A) -> (O) { O(i) = A(2*i + i%2) }", {}),
    "no_sizes": ("def f(float(N) A) -> (o) { o = A(N) }", {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_message(name: str, golden: Callable[[Path, str], None]) -> None:
    text, options = REFUSED[name]
    with pytest.raises(tc.GradError) as caught:
        tc.grad(tc.Source(text), **options)
    assert caught.value.repair is not None or name == "nothing_floating"
    golden(MESSAGES / f"{name}.txt", str(caught.value))


@pytest.mark.parametrize("name", ["wrt_unknown", "constant_unknown", "no_expression"])
def test_messages_of_vjp_are_the_same(name: str) -> None:
    text, options = REFUSED[name]
    with pytest.raises(tc.GradError) as caught:
        tc.vjp(tc.Source(text), **options)
    assert str(caught.value) == (MESSAGES / f"{name}.txt").read_text().rstrip("\n")


def test_messages_name_the_line_of_a_text_that_stands_in_a_file() -> None:
    """As those of `tc.compile` do."""
    with pytest.raises(tc.GradError) as caught:
        tc.grad(LAYER, "I")
    assert f"\n --> {__file__}:14:12\n" in str(caught.value)
