"""Any text gives a tree or a ParseError, never another exception, in bounded time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tc.errors import ParseError
from tc.frontend.ast import Module
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.frontend.tokens import FOREIGN, RESERVED, SIGNS
from tc.source import Source
from tests.support.ast_strategies import modules
from tests.support.syntax import to_text

PROGRAMS = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "programs").glob("*.tc"))
]
WORDS = sorted(
    {*SIGNS, *FOREIGN, *RESERVED, "min=", "max=!", "in", "a", "f(x)", "C(i)", "T.1", "T.", "2f"}
    | {"where ", "o.0 =", "C(i + 1)", ", D(0)", "x(i) > 0", "and", "float a = -1"}
    | {"1", "012", "1.5", "0x1", "1..2", "# c\n", "\n", " ", "[0, 2[", "->", "é", ".", "$"}
)
LENGTH = 100_000
SECONDS = 20.0
"""Of the processor, for what takes one on a loaded machine; minutes if it grew with the square."""


def check(text: str) -> Module | None:
    """The tree, or None; the error has rule, place, cause and repair, and can be shown."""
    try:
        module = parse(Source(text))
    except ParseError as error:
        check_error(text, error)
        return None
    assert parse(Source(to_text(module))) == module
    assert parse(Source(format_source(Source(text)))) == module
    return module


def check_error(text: str, error: ParseError) -> None:
    assert error.rule in {"T1", "T2", "T3", "T4", "T5", "Y1", "N2"}
    assert error.span is not None
    assert 0 <= error.span.start <= error.span.end <= len(text)
    assert error.cause
    assert error.repair or error.idiom
    assert len(error.cause) < 500
    assert len(error.repair or "") < 500
    assert len(error.idiom or "") < 500
    if error.edits:
        assert error.repaired() != text
    assert str(error).startswith(f"ParseError [{error.rule}]: ")


@given(st.text(max_size=60))
@example("\0")
@example("\xa0")
@example("\ud800")
@example("def f() -> (o) { o = 1 }\r")
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from(["", " "]))
def test_soup_of_tokens(words: list[str], between: str) -> None:
    check(between.join(words))


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "]))
def test_soup_of_tokens_as_a_body(words: list[str], between: str) -> None:
    check("def f(float(N) A) -> (o) { o(i) = " + between.join(words) + " }")


@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(PROGRAMS) | modules().map(to_text))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        word = data.draw(st.just("") | st.sampled_from(WORDS) | st.text(max_size=2))
        text = text[:start] + word + text[end:]
    check(text)


@given(st.data())
def test_every_beginning_of_a_program(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(PROGRAMS))
    check(text[: data.draw(st.integers(0, len(text)))])


UNITS = [
    *["(", "f(", "f(x,", "a?", "a?b:", "-", "a+", "a[", "[", "a]", "a(", ")", "int(", "a^", "a**"],
    *["0", "9", "1.", ".1", "a.1", "0x", "1e", "_", "# ", "#\n", "\n", " ", "é", "\r", "min="],
    *["a ", "a b ", "a,", "o = a ", "o = c (p, q) ", "(a, ", "(a) = f() ", "a(i) -= ", "o = [0, "],
    *["def ", "def f", "float(", "}", "{", "-> ", "where ", "k in ", "k in 0:2, ", "exists T("],
    *["x = ", "x = [", "x = [0, 1[, ", "<=>", "T .1 ", ";", "a&", "a == ", "o(i) = A[", "C(0) "],
    *["a(i), ", "a, b = ", "(a(i), ", "a(b(i), ", "0 < ", "0 < a && ", "o.0 = 1, ", "o.0: 2, "],
    *["x(i) > 0, ", "a in(b), ", "a in ", "not ", "and(", "2*k in 0:1 ", "float a = ", "a = -"],
]
PREFIXES = [
    "",
    "def f(",
    "def f(float(",
    "def f() -> (",
    "def f() -> ",
    "def f() -> (o) { ",
    "def f() -> (o) { o = ",
    "def f() -> (o) { o = x where ",
    "def f() -> (o) { o = x where k in ",
    "def f() -> (o) { o(",
    "def f() -> (o) { o(i), p(",
    "def f() -> (o) { o, p = ",
    "def f(float a = ",
]


def check_long_text(prefix: str, unit: str, length: int) -> None:
    text = prefix + unit * (length // len(unit))
    start = time.process_time()
    with pytest.raises(ParseError) as raised:
        parse(Source(text))
    assert time.process_time() - start < SECONDS
    check_error(text, raised.value)


@pytest.mark.parametrize("unit", UNITS)
def test_long_texts_give_an_error(unit: str) -> None:
    for prefix in PREFIXES:
        check_long_text(prefix, unit, LENGTH // 40)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("unit", ["(", "f(", "a?", "a+", "-", "[", "a[", "9", "0x", "a(", "o = a "])
def test_very_long_expressions_take_bounded_time(unit: str) -> None:
    check_long_text("def f() -> (o) { o = ", unit, LENGTH)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_very_long_texts_take_bounded_time(unit: str) -> None:
    for prefix in PREFIXES:
        check_long_text(prefix, unit, LENGTH)


def test_a_long_program_takes_bounded_time() -> None:
    line = "  C(i) +=! A(i + k) * 2.5 - min(A(i), 3) where k in 0:2 # sum\n"
    text = "def f(float(N) A) -> (C) {\n" + line * (LENGTH // len(line)) + "}\n"
    start = time.process_time()
    assert len(parse(Source(text)).defs[0].body) == LENGTH // len(line)
    format_source(Source(text))
    assert time.process_time() - start < SECONDS


def test_a_wide_program_takes_bounded_time() -> None:
    names = ", ".join(f"a{n}" for n in range(LENGTH // 40))
    text = f"def f(float({names}) A) -> ({names}) {{ ({names}) = f({names}) o({names}) = A }}"
    start = time.process_time()
    check(text)
    assert time.process_time() - start < SECONDS
