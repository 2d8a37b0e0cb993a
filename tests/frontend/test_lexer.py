"""Words, numbers, signs and comments: rules T1 and T2, promise language-G5."""

from __future__ import annotations

import pytest

from tc.errors import ParseError
from tc.frontend.lexer import number_value, scan
from tc.frontend.tokens import Kind
from tc.source import Source
from tests.support.syntax import tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind.value, token.text) for token in tokenize(Source(text))][:-1]


@pytest.mark.parametrize("text", ["2LUT", "2f", "2F", "0x", "0xg", "1e", "_", "0_", "012a", "1u2"])
def test_rule_T1_identifiers_may_begin_with_digits(text: str) -> None:  # language-G5
    assert kinds(text) == [("name", text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("7", 7),
        ("2u", 2),
        ("2UL", 2),
        ("0x1F", 31),
        ("0XfFu", 255),
        ("1e5", 1e5),
        ("1e5f", 1e5),
        ("1E+5", 1e5),
        ("25e-1", 2.5),
        ("2.5", 2.5),
        ("2.", 2.0),
        (".5", 0.5),
        ("0.5F", 0.5),
        ("1.f", 1.0),
        ("1.5e3l", 1500.0),
        ("0e0", 0.0),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_rule_T1_numbers_are_c_literals(text: str, value: float) -> None:  # language-G5
    assert kinds(text) == [("number", text)]
    found = number_value(text)
    assert found == value
    assert type(found) is type(value)


def test_rule_T1_the_longest_match_wins() -> None:
    assert kinds("2e-x 1e-5 a<=>b a<=b") == [
        ("name", "2e"),
        ("sign", "-"),
        ("name", "x"),
        ("number", "1e-5"),
        ("name", "a"),
        ("sign", "<=>"),
        ("name", "b"),
        ("name", "a"),
        ("sign", "<="),
        ("name", "b"),
    ]


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("o+=!x", ["+=!"]),
        ("o += !x", ["+=", "!"]),
        ("o min=!x", ["min=!"]),
        ("o min= !x", ["min=", "!"]),
        ("o max=x", ["max="]),
        ("max==x", ["=="]),
        ("xmax=x", ["="]),
        ("max =x", ["="]),
        ("o*=x", ["*="]),
        ("a!=b", ["!="]),
        ("a--b", ["-", "-"]),
        ("a->b", ["->"]),
    ],
)
def test_operators(text: str, signs: list[str]) -> None:
    assert [shown for kind, shown in kinds(text) if kind == "sign"] == signs


def test_rule_T2_a_dot_and_digits_after_an_identifier_are_a_size() -> None:
    assert kinds("T.1 2f.10 1.5 x(.5)") == [
        ("name", "T"),
        ("dim", ".1"),
        ("name", "2f"),
        ("dim", ".10"),
        ("number", "1.5"),
        ("name", "x"),
        ("sign", "("),
        ("number", ".5"),
        ("sign", ")"),
    ]
    assert kinds("T .1") == [("name", "T"), ("number", ".1")]


def test_rule_T2_comments_run_to_the_end_of_the_line_and_are_kept_apart() -> None:
    found = scan(Source("a # one  \n#two\r\nb#"))
    assert [token.text for token in found.tokens] == ["a", "b", ""]
    assert [comment.text for comment in found.comments] == ["# one", "#two", "#"]


@pytest.mark.parametrize(
    "word", ["def", "where", "exists", "bool", "byte", "half", "float", "uint8"]
)
def test_rule_T2_reserved_words(word: str) -> None:
    assert kinds(word) == [("keyword", word)]
    assert kinds("in min max pad concat exp") == [
        ("name", word) for word in ("in", "min", "max", "pad", "concat", "exp")
    ]


@pytest.mark.parametrize(
    "text",
    ["012", "00", "00.5", "08", "01e5", "0777u", "012.5"],
)
def test_rule_T1_a_leading_zero_before_other_digits_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match=r"\[T1\].* begins with a zero"):
        tokenize(Source(text))


@pytest.mark.parametrize("text", ["1.0u", "1.2.3", "1.0x", "2.x", "0..2", "0x1.8", "1e5.1"])
def test_rule_T1_what_looks_like_a_number_and_is_none(text: str) -> None:
    with pytest.raises(ParseError, match=r"\[T1\].* is neither a number nor a name"):
        tokenize(Source(text))


@pytest.mark.parametrize("text", ["T.01", "T.1x", "T.1.2", "T.", "T.1e5", "T.1234567890", "T.f"])
def test_rule_T2_malformed_sizes(text: str) -> None:
    with pytest.raises(ParseError, match=r"\[T2\].* is not a size"):
        tokenize(Source(text))


@pytest.mark.parametrize("text", ["9" * 5000, "1e999", "0x" + "F" * 9999, "9" * 400 + ".0"])
def test_numbers_of_no_type_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"\[Y1\].* fits no type"):
        tokenize(Source(text))


@pytest.mark.parametrize("text", ["$", "é", "\0", "→", "\ud800", "'", '"', "\\", "\ufeff", "२"])
def test_unknown_characters(text: str) -> None:
    with pytest.raises(ParseError, match=r"\[T1\].* is not of the language"):
        tokenize(Source("a " + text))


def test_a_scan_stops_at_the_first_error_and_keeps_it() -> None:
    found = scan(Source("a b $ c"))
    assert [token.kind for token in found.tokens] == [Kind.NAME, Kind.NAME, Kind.END]
    assert found.tokens[-1].start == 4
    assert isinstance(found.error, ParseError)
