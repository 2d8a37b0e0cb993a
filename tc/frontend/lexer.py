"""From text to tokens: longest match wins, comments are kept apart (rules T1, T2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tc.errors import ParseError
from tc.frontend.tokens import RESERVED, SIGNS, Kind, Token
from tc.source import Source, Span

MAX_DIGITS = 300
"""Longer numbers are of no type; Python itself refuses to convert very long ones."""

_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[0-9]*[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(
    r"""0[xX][0-9a-fA-F]+[uUlL]*
      | (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [fFlL]?
      | [0-9]+[eE][+-]?[0-9]+[fFlL]?
      | [0-9]+[uUlL]*""",
    re.VERBOSE,
)
_DIM = re.compile(r"\.[0-9]+")
_REDUCTION = re.compile(r"=!?(?!=)")
_SIGN = re.compile("|".join(re.escape(sign) for sign in SIGNS))
_RUN = re.compile(r"[A-Za-z0-9_.]+")
_LEADING_ZERO = re.compile(r"0[0-9]")

_LOOKALIKES = {
    "→": "->",
    "⟶": "->",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "*",
    "·": "*",
    "−": "-",
    "÷": "/",
    "∧": "&&",
    "∨": "||",
    "¬": "!",
    "（": "(",
    "）": ")",
    "，": ",",
}


@dataclass(frozen=True, slots=True)
class Scan:
    """The tokens of a text, an END token last, and its comments.

    Where the text is of no token, `error` says why and the tokens end there, so that a parser
    can report what is wrong before that place first.
    """

    tokens: tuple[Token, ...]
    comments: tuple[Token, ...]
    error: ParseError | None


def tokenize(source: Source) -> tuple[Token, ...]:
    """The tokens of a text without comments, an END token last.

    Raises ParseError (T1, T2) for characters and numbers that are not of the language.

    >>> [token.text for token in tokenize(Source("2f(i) min=! T.1 * 1e5 # sum"))]
    ['2f', '(', 'i', ')', 'min=!', 'T', '.1', '*', '1e5', '']
    """
    found = scan(source)
    if found.error is not None:
        raise found.error
    return found.tokens


def scan(source: Source) -> Scan:
    """All tokens up to the first error, if any; never raises."""
    tokens: list[Token] = []
    comments: list[Token] = []
    text = source.text
    at = 0
    error = None
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
        elif comment := _COMMENT.match(text, at):
            comments.append(Token(Kind.COMMENT, comment.group().rstrip(), at, comment.end()))
            at = comment.end()
        else:
            previous = tokens[-1] if tokens else None
            try:
                tokens.append(_token(source, at, previous))
            except ParseError as found:
                error = found
                break
            at = tokens[-1].end
    tokens.append(Token(Kind.END, "", at, at))
    return Scan(tuple(tokens), tuple(comments), error)


def number_value(text: str) -> int | float:
    """The value of a number's text; suffixes are ignored (T1).

    >>> number_value("0x1F"), number_value("2ul"), number_value("1e5f"), number_value(".5")
    (31, 2, 100000.0, 0.5)
    """
    if text[:2] in ("0x", "0X"):
        return int(text.rstrip("uUlL"), 16)
    digits = text.rstrip("uUlLfF")
    return int(digits) if digits.isdecimal() else float(digits)


def _token(source: Source, at: int, previous: Token | None) -> Token:
    text = source.text
    if text[at] == "." and previous and previous.kind is Kind.NAME and previous.end == at:
        return _dim(source, at, previous)
    name = _NAME.match(text, at)
    number = _NUMBER.match(text, at)
    if number and (name is None or number.end() >= name.end()):
        return _number(source, number)
    if name:
        return _word(text, name)
    if sign := _SIGN.match(text, at):
        return Token(Kind.SIGN, sign.group(), at, sign.end())
    raise _unknown_character(source, at)


def _word(text: str, name: re.Match[str]) -> Token:
    word, start, end = name.group(), name.start(), name.end()
    if word in ("min", "max") and (reduction := _REDUCTION.match(text, end)):
        return Token(Kind.SIGN, word + reduction.group(), start, reduction.end())
    kind = Kind.KEYWORD if word in RESERVED else Kind.NAME
    return Token(kind, word, start, end)


def _number(source: Source, number: re.Match[str]) -> Token:
    text, start = number.group(), number.start()
    run = _RUN.match(source.text, start)
    assert run is not None
    whole = source.text[start : max(run.end(), number.end())]
    if _LEADING_ZERO.match(text):
        stripped = whole.lstrip("0")
        shown = stripped if stripped[:1].isdecimal() else "0" + stripped
        raise ParseError(
            f"the number '{_shortened(whole)}' begins with a zero before other digits",
            rule="T1",
            span=Span(source, start, start + len(whole)),
            repair=_shortened(shown),
        )
    if len(whole) > len(text):
        first, dots, rest = whole.partition("..")
        raise ParseError(
            f"'{_shortened(whole)}' is neither a number nor a name",
            rule="T1",
            span=Span(source, start, start + len(whole)),
            repair=_shortened(f"{first}:{rest}" if dots else text),
        )
    value = number_value(text) if len(text) <= MAX_DIGITS else float("inf")
    if value == float("inf"):
        raise ParseError(
            f"the number '{_shortened(text)}' fits no type",
            rule="Y1",
            span=Span(source, start, number.end()),
            repair="write a number below 1e308",
        )
    return Token(Kind.NUMBER, text, start, number.end())


def _dim(source: Source, at: int, tensor: Token) -> Token:
    dim = _DIM.match(source.text, at)
    run = _RUN.match(source.text, at)
    assert run is not None
    plain = dim is not None and dim.end() == run.end() and not _LEADING_ZERO.match(run.group()[1:])
    if dim is None or not plain or len(run.group()) > 9:
        raise ParseError(
            f"'{_shortened(tensor.text + run.group())}' is not a size: a plain dimension number, "
            f"counted from 0, follows the dot",
            rule="T2",
            span=Span(source, tensor.start, run.end()),
            repair=f"{_shortened(tensor.text)}.0",
        )
    return Token(Kind.DIM, dim.group(), at, dim.end())


def _unknown_character(source: Source, at: int) -> ParseError:
    character = source.text[at]
    span = Span(source, at, at + 1)
    if character == ".":
        return ParseError(
            "a dot stands only in numbers and in sizes such as T.1, without space around it",
            rule="T2",
            span=span,
            repair="T.1",
        )
    shown = character if character.isprintable() else ascii(character)[1:-1]
    lookalike = _LOOKALIKES.get(character)
    return ParseError(
        f"the character '{shown}' (U+{ord(character):04X}) is not of the language",
        rule="T1",
        span=span,
        repair=lookalike or "delete it; outside comments a text is plain ASCII",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"
