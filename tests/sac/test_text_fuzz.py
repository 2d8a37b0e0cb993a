"""Any text gives a tree of SaC's notation or a ParseError, never another exception, in bounded
time."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tc.errors import ParseError
from tc.sac import ast
from tc.sac.text.format import format_source
from tc.sac.text.parser import parse
from tc.sac.text.printer import module_text
from tc.sac.text.tokens import RESERVED, SIGNS
from tc.source import Source
from tests.support.sac_strategies import modules

PROGRAMS = [
    "{ iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }",
    "{ [i, ..., j, .] -> a[i,.,j] | [0,1] <= [i,j] < [2,3]; iv -> 0f | . <= iv <= . }",
    "with { ([1] <= [i] < shape(v)-1) { t = v[i]; } : t + 1; } : modarray( v);",
    "x = a; x += 1; if (k > 0) { y = -x; } else if (b) { y = x; } else { y, z = f(x); } y ++ [1]",
    "float[n,3], int f(float[n,3] p, int[d:s,2:t] m, int[+] k, double[.,4] q)\n"
    "{ u = p * 2.0e1; return (u ? p : a[..., 1], with { } : fold(min, 0x1F)); }",
]
WORDS = sorted(
    {*SIGNS, *RESERVED, "a", "iv", "f(x)", "a[i]", "[i,j]", "{ iv -> ", "| iv < ", ". <= ", "\n"}
    | {
        "step",
        "not",
        "and",
        "np.sum(",
        "1:3",
        "1.5",
        "1.5i",
        ".5",
        "2d",
        "0x1",
        "// c\n",
        "/* c */",
    }
    | {" ", "é", "$", "fold(", "genarray(", "int[", "return ", "with {", "[i] < ", "a.shape", "."}
)
LENGTH = 100_000
SECONDS = 20.0
"""Of the processor, for what takes one on a loaded machine; minutes if it grew with the square."""


def check(text: str) -> ast.Module | None:
    """The tree, or None; the error has rule, place, cause and repair, and can be shown."""
    try:
        module = parse(Source(text))
    except ParseError as error:
        check_error(text, error)
        return None
    assert parse(Source(module_text(module))) == module
    assert parse(Source(format_source(Source(text)))) == module
    return module


def check_error(text: str, error: ParseError) -> None:
    assert error.rule in {"C1", "C2", "C3", "C18"}
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
@example("/*")
@example("1" * 400)
@example("1" * 400 + "e1")
@example("²")
@example("0²")
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from(["", " "]))
def test_soup_of_tokens(words: list[str], between: str) -> None:
    check(between.join(words))


@given(
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.sampled_from(["", " "]),
    st.sampled_from(["{ iv -> ", "{ [i] -> a | ", "with { (", "int f(", "a[", "int f() { ", "[a "]),
)
def test_soup_of_tokens_in_a_place(words: list[str], between: str, before: str) -> None:
    check(before + between.join(words))


@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(PROGRAMS) | modules().map(module_text))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        word = data.draw(st.just("") | st.sampled_from(WORDS) | st.text(max_size=2))
        text = text[:start] + word + text[end:]
    check(text)


@pytest.mark.parametrize("text", PROGRAMS)
def test_every_beginning_of_a_program(text: str) -> None:
    assert check(text) is not None
    for end in range(len(text)):
        check(text[:end])


UNITS = [
    *[
        "(",
        "f(",
        "f(x,",
        "a?",
        "a?b:",
        "-",
        "!",
        "a+",
        "a[",
        "[",
        "]",
        "a]",
        "a(",
        ")",
        "int(",
        "}",
    ],
    *["0", "9", "1.", ".1", "a.", "a.b", "0x", "1e", "_", "//", "// \n", "/*", "\n", " ", "é", "."],
    *["{", "{iv->", "{[i]->", "{[i]->a|", "{[", "[.,", "{[.,", "{[...,", "{i->a;", "{i->a|i<", "|"],
    *["with{", "with{(", "with{(.<=", "with{(.<=iv<=.):", "with{(.<=iv<=.){", "a++", "a<", "->"],
    *[
        "a=",
        "a=1;",
        "a,",
        "a,b=",
        "if(a){",
        "if(a){}else ",
        "return ",
        "for",
        "int a",
        "int[",
        "int ",
    ],
    *[
        "int f(",
        "int f(){",
        "int f(){return 1;}",
        "int f(int a,",
        "a**",
        "a@",
        "a[1:",
        "not ",
        "a.b(",
    ],
    *["[a for i in ", "a[i]=", "a and ", "a if ", "...", "a>", "{i->a|a>", "fold(", "use a", "'"],
]
PREFIXES = [
    "",
    "{ iv -> ",
    "{ iv -> a | ",
    "int f(",
    "int f() { ",
    "int f() { return ",
    "with { (",
    "a[",
]


def check_long_text(prefix: str, unit: str, length: int) -> None:
    text = prefix + unit * (length // len(unit))
    start = time.process_time()
    try:
        parse(Source(text))
    except ParseError as error:
        check_error(text, error)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("unit", UNITS)
def test_long_texts_take_bounded_time(unit: str) -> None:
    for prefix in PREFIXES:
        check_long_text(prefix, unit, LENGTH // 40)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("unit", UNITS)
def test_very_long_texts_take_bounded_time(unit: str) -> None:
    check_long_text("", unit, LENGTH)
