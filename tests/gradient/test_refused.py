"""What no gradient is derived of is refused, with the rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tc
from tests.gradient.differences import along_directions, cotangents, forward

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


NO_EXPRESSION = {
    "a minimum": "O(i) = A(min(i, M-i)) * B(i/2)",
    "a minimum with a number": "O(i) = A(min(2*i, 7)) * B(0)",
    "a maximum": "O(i) = A(max(i, 2*i - 3)) * B(0)",
    "a remainder": "O(i) = A(2*i + i%2) * B(0)",
    "a choice": "O(i) = A(i > 2 ? 2*i : i) * B(0)",
}


@pytest.mark.parametrize("name", NO_EXPRESSION)
def test_ranges_without_expressions_ask_for_sizes(name: str) -> None:
    """D4: what the repair says, pasted, is a gradient."""
    text = f"def f(double(N) A, double(M) B) -> (O) {{ {NO_EXPRESSION[name]} }}"
    with pytest.raises(tc.GradError, match="the range of 'i' has no expression") as caught:
        tc.grad(text)
    assert caught.value.rule == "D4"
    assert caught.value.span is not None
    found = eval(f"dict({caught.value.repair})")
    derived = tc.grad(text, **found)
    numbers = np.random.default_rng(1)
    sizes = found["sizes"]
    known = {n: numbers.uniform(1, 2, sizes[s]) for n, s in (("A", "N"), ("B", "M"))}
    given = cotangents(forward(text, known), numbers)
    gradients = forward(derived, {**known, **forward(text, known), **given})
    for difference, slope in along_directions(text, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7), derived


def test_ranges_that_there_are_at_no_sizes_are_an_error_of_the_program() -> None:
    with pytest.raises(
        tc.GradError, match=r"where all are 8, subscript 0 of 'A.N.' is 8"
    ) as caught:
        tc.grad(REFUSED["D4"])
    assert caught.value.repair == "sizes={'N': 8}"


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


@pytest.mark.parametrize(
    ("asked", "cause", "repair"),
    [
        ({"wrt": 3}, "wrt is of int: it is a name, or a sequence of names", "wrt=['A', 'B']"),
        ({"wrt": ()}, "wrt names no input of 'f'", "wrt=['A', 'B']"),
        ({"constant": None}, "constant is of NoneType: it is a name", "constant=['O']"),
        ({"constant": 2.5}, "constant is of float: it is a name", "constant=['O']"),
        ({"constant": ["B", "u"]}, "constant names 'u', which is no tensor", "constant=['B']"),
        ({"constant": "AA"}, "constant names 'AA', which is no tensor", "constant=['O']"),
        ({"constant": "A", "wrt": ()}, "wrt names no input of 'f'", "wrt=['B']"),
        ({"constant": "A", "wrt": "C"}, "wrt names 'C', which is no input", "wrt=['B']"),
        ({"constant": "A", "wrt": ["A", "B"]}, "wrt names 'A', and so does", "wrt=['B']"),
        ({"constant": {"B", "O"}, "wrt": "B"}, "wrt names 'B', and so does", "constant=['O']"),
        ({"constant": "A", "wrt": "A"}, "wrt names 'A', and so does constant", "constant=[]"),
        ({"constant": list("AB")}, "all floating inputs of 'f' are constant", "constant=[]"),
        ({"wrt": [3, "A"]}, "wrt has 3, which is of int: it is a name", "wrt=['A', 'B']"),
        ({"wrt": {"B", None}}, "wrt has None, which is of NoneType", "wrt=['A', 'B']"),
        ({"constant": [["A"]]}, "constant has ['A'], which is of list", "constant=['O']"),
    ],
)
def test_names_that_are_none(asked: dict[str, object], cause: str, repair: str) -> None:
    text = "def f(double(N) A, double(N) B) -> (O) { O(i) = A(i) * B(i) }"
    with pytest.raises(tc.GradError, match=re.escape(cause)) as caught:
        tc.grad(text, **asked)  # type: ignore[arg-type]
    assert caught.value.repair == repair
    tc.grad(text, **{**asked, **eval(f"dict({repair})")})


@pytest.mark.parametrize("derive", [tc.grad, tc.vjp, tc.jvp])
def test_a_set_of_names_has_the_order_of_the_def(derive: Callable[..., object]) -> None:
    """D1: and not that of hashes, which differ from run to run."""
    names = list("EACDB")
    inputs, factors = (
        ", ".join(f"float(N) {n}" for n in names),
        " * ".join(f"{n}(i)" for n in names),
    )
    text = f"def f({inputs}) -> (O) {{ O(i) = {factors} }}"
    assert derive(text, set(names)) == derive(text, names)
    assert derive(text, frozenset("DE")) == derive(text, ["E", "D"])
    with pytest.raises(tc.GradError, match="wrt names 'X', which is no input of 'f'"):
        derive(text, {"X", "Y", "E"})


FUNCTIONS: list[Callable[..., object]] = [
    tc.grad,
    tc.vjp,
    tc.jvp,
    lambda src, **how: tc.batch(src, 0, **how),
]


@pytest.mark.parametrize("derive", FUNCTIONS)
def test_what_is_no_program(derive: Callable[..., object]) -> None:
    file = 'pathlib.Path("f.tc")'
    for given, repair in ((None, file), (3, file), (b"def", "text.decode()")):
        with pytest.raises(tc.InputError) as caught:
            derive(given)
        assert str(caught.value) == (
            "InputError: the program is text, the path of a file with it, or a tc.Source, and not "
            f"of type {type(given).__name__}\n"
            f"repair: {repair}"
        )
    with pytest.raises(tc.InputError) as caught:
        derive("f.tc")
    assert caught.value.repair == "pathlib.Path('f.tc')"
    with pytest.raises(tc.InputError) as caught:
        derive("def f(float(N) A) -> (O) { O(i) = A(i) }", entry=3)
    assert str(caught.value) == (
        "InputError [N4]: entry= is the name of a def, and not of type int; the text has 'f'\n"
        "repair: entry='f'"
    )


@pytest.mark.parametrize("derive", FUNCTIONS)
def test_functions_and_files_are_programs(derive: Callable[..., object], tmp_path: Path) -> None:
    one = "def one(float(N) A) -> (O) { O(i) = A(i) * A(i) }"
    text = f"{one}\ndef two(float(N) A) -> (O) {{ O(i) = 2 * A(i) }}"
    function = tc.compile(text, entry="two", backend="interpret")
    assert derive(function) == derive(text, entry="two")
    assert derive(function, entry="one") == derive(one)
    file = tmp_path / "one.tc"
    file.write_text(one)
    assert derive(file) == derive(one)


GAMMA = """def f(double(N) A, double(N) B) -> (O, Q) {
  t(i) = A(i) + 1
  O(i) = 2 * lgamma(t(i)) * B(i)
  Q(i) = A(i) * B(i)
}"""


@pytest.mark.parametrize("derive", [tc.grad, tc.vjp, tc.jvp])
@pytest.mark.parametrize(
    ("asked", "repair"),
    [
        ({}, "wrt=['B']"),
        ({"wrt": "A"}, "constant=['t']"),
        ({"wrt": ("A",), "constant": "Q"}, "constant=['Q', 't']"),
    ],
)
def test_functions_without_a_derivative(
    derive: Callable[..., object], asked: dict[str, object], repair: str
) -> None:
    """D10: what they do not depend on has a gradient, and so has all where nothing flows on."""
    with pytest.raises(tc.GradError) as caught:
        derive(GAMMA, **asked)
    assert caught.value.rule == "D10"
    assert caught.value.span is not None
    assert caught.value.span.text == "lgamma(t(i))"
    assert caught.value.repair == repair
    derive(GAMMA, **{**asked, **eval(f"dict({repair})")})


def test_nothing_flows_through_a_function_without_a_derivative() -> None:
    of_b, of_both = tc.grad(GAMMA, "B"), tc.grad(GAMMA, constant="O")
    assert of_b.endswith(
        "{\n  t(i) = A(i) + 1\n  d_B(i) = d_Q(i) * A(i) + 2 * d_O(i) * lgamma(t(i))\n}\n"
    )
    assert of_both.endswith("{\n  d_A(i) = d_Q(i) * B(i)\n  d_B(i) = d_Q(i) * A(i)\n}\n")


def test_a_function_without_a_derivative_of_an_input() -> None:
    text = "def f(float(N) A) -> (O) { O(i) = tgamma(A(i)) }"
    for derive in (tc.grad, tc.jvp):
        with pytest.raises(tc.GradError) as caught:
            derive(text)
        assert caught.value.repair == "constant=['O']"
        derive(text, constant=["O"])


@pytest.mark.parametrize("derive", [tc.grad, tc.vjp, tc.jvp])
def test_constants_have_no_derivative_of_their_own(derive: Callable[..., object]) -> None:
    """D16: rather than one of zeros."""
    text = "def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) * B(i) }"
    assert derive(text, constant="A") == derive(text, "B")
    with pytest.raises(tc.GradError) as caught:
        derive(tc.Source(text), ["B", "A"], constant="A")
    assert str(caught.value) == (
        "GradError [D16]: wrt names 'A', and so does constant: nothing would flow through it, and "
        "its derivative would be 0\n"
        " --> <string>:1:1\n"
        "  |\n"
        f"1 | {text}\n"
        f"  | {'^' * len(text)}\n"
        "repair: wrt=['B']"
    )
