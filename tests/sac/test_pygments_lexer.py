"""Texts of SaC's notation in colours: each character is in one token, whatever the text."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pygments")

from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, Whitespace

from tc.sac.pygments_lexer import SacLexer
from tests.sac.rule_table import CASES


def coloured(text: str) -> list[tuple[object, str]]:
    return [(kind, value) for _, kind, value in SacLexer().get_tokens_unprocessed(text)]


def test_no_character_of_a_program_is_lost_or_an_error() -> None:
    for case in CASES:
        found = coloured(case.src)
        assert "".join(value for _, value in found) == case.src
        assert case.error or Error not in {kind for kind, _ in found}


@given(st.text())
def test_no_character_of_any_text_is_lost(text: str) -> None:
    assert "".join(value for _, value in coloured(text)) == text


def test_what_is_what() -> None:
    text = "float[*] f(float[*] x) { return { [i,.] -> sum(x[i]) | [i] < 3 }; /* more */ } // end"
    found = [(kind, value) for kind, value in coloured(text) if kind is not Whitespace]
    for kind, value in [
        (Keyword.Type, "float"),
        (Name.Function, "f"),
        (Keyword, "return"),
        (Operator.Word, "->"),
        (Name.Builtin, "sum"),
        (Name, "x"),
        (Name.Variable, "."),
        (Punctuation, "|"),
        (Operator, "<"),
        (Number, "3"),
        (Comment.Multiline, "/* more */"),
        (Comment.Single, "// end"),
    ]:
        assert (kind, value) in found
    assert SacLexer.analyse_text(text) > 0.5
    assert SacLexer.analyse_text("def f(float(N) x) -> (y) { y(i) = x(i) }") == 0


def test_the_package_names_the_lexer() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    pages = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    module, _, name = tomllib.loads(pages)["project"]["entry-points"]["pygments.lexers"][
        "sac"
    ].partition(":")
    assert getattr(import_module(module), name) is SacLexer
