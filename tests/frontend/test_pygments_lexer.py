"""Texts in colours: each character is in one token, whatever the text, and tokens are those of the
language."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pygments")

from pygments.token import (
    Comment,
    Error,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from tc.frontend.pygments_lexer import PythonConsoleTcLexer, PythonTcLexer, TcLexer
from tests.support.programs import CASES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.tc"))
PAGES = sorted((ROOT / "spec").glob("*.md"))
SESSION = '''>>> text = """
... def layer(float(B,M) x) -> (y) {
...   y(b_) +=! exp(x(b_,m))  # sums
... }"""
>>> f("no text", 'it\\'s', x)
array([3., 12.])
'''


def whole(lexer: object, text: str) -> str:
    return "".join(value for _, _, value in lexer.get_tokens_unprocessed(text))  # type: ignore[attr-defined]


def tokens(lexer: object, text: str) -> list[tuple[object, str]]:
    found = lexer.get_tokens_unprocessed(text)  # type: ignore[attr-defined]
    return [(kind, value) for _, kind, value in found if kind is not Whitespace]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_no_character_of_an_example_is_lost_or_an_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert whole(TcLexer(), text) == text
    assert Error not in {kind for kind, _ in tokens(TcLexer(), text)}
    assert TcLexer.analyse_text(text) > 0.5


def test_no_character_of_a_program_of_the_tests_is_lost_or_an_error() -> None:
    for case in CASES:
        assert whole(TcLexer(), case.text) == case.text
        assert Error not in {kind for kind, _ in tokens(TcLexer(), case.text)}


@pytest.mark.parametrize("lexer", [PythonTcLexer(), PythonConsoleTcLexer()])
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_character_of_a_page_is_lost(path: Path, lexer: object) -> None:
    text = path.read_text(encoding="utf-8")
    assert whole(lexer, text) == text


@given(st.text(st.sampled_from("def (){}=+!.,:?01xN#$\"'\\\n\t \u2264->") | st.characters()))
def test_no_character_of_any_text_is_lost(text: str) -> None:
    for lexer in (TcLexer(), PythonTcLexer(), PythonConsoleTcLexer()):
        found = [*lexer.get_tokens_unprocessed(text)]
        if isinstance(lexer, TcLexer):
            assert [at for at, _, _ in found] == [
                sum(len(value) for _, _, value in found[:n]) for n in range(len(found))
            ]
            assert "".join(value for _, _, value in found) == text


def test_tokens_of_a_text() -> None:
    text = "def f(float(N) x) -> (s) { s +=! x(i) * exp(2.5) where i in 0:x.0 } # end"
    assert [found for found in tokens(TcLexer(), text) if found[0] not in (Operator,)] == [
        (Keyword, "def"), (Name.Function, "f"), (Punctuation, "("), (Keyword.Type, "float"),
        (Punctuation, "("), (Name.Constant, "N"), (Punctuation, ")"), (Name, "x"),
        (Punctuation, ")"), (Punctuation, "("), (Name, "s"), (Punctuation, ")"),
        (Punctuation, "{"), (Name, "s"), (Operator.Word, "+=!"), (Name, "x"), (Punctuation, "("),
        (Name.Variable, "i"), (Punctuation, ")"), (Name.Builtin, "exp"), (Punctuation, "("),
        (Number, "2.5"), (Punctuation, ")"), (Keyword, "where"), (Name, "i"), (Keyword, "in"),
        (Number, "0"), (Punctuation, ":"), (Name, "x"), (Name.Constant, ".0"), (Punctuation, "}"),
        (Comment.Single, "# end"),
    ]  # fmt: skip


def test_what_is_of_no_token_is_an_error_and_the_rest_goes_on() -> None:
    found = tokens(TcLexer(), "o(i) = $ x(i)")
    assert (Error, "$") in found
    assert found[-3:-1] == [(Punctuation, "("), (Name.Variable, "i")]


def test_strings_with_defs_are_texts_in_a_session() -> None:
    found = tokens(PythonConsoleTcLexer(), SESSION)
    assert (Keyword, "def") in found
    assert (Name.Function, "layer") in found
    assert (Operator.Word, "+=!") in found
    assert (Comment.Single, "# sums") in found
    prompts = [value for kind, value in found if kind in Generic.Prompt]
    assert prompts == [">>> ", "... ", "... ", "... ", ">>> "]
    strings = "".join(value for kind, value in found if kind in String)
    assert "no text" in strings
    assert (Generic.Output, "array([3., 12.])\n") in found


def test_strings_of_other_kinds_stay_strings() -> None:
    code = 'def f(x): return "def of nothing", "def g(float(N) x) -> (y) { y(i) = \\x }"'
    assert "def of nothing" in "".join(
        value for kind, value in tokens(PythonTcLexer(), code) if kind in String
    )
    assert Operator.Word not in {kind for kind, _ in tokens(PythonTcLexer(), "x = a + b")}
