"""From text to tokens, whatever the notation: white space and comments between tokens, and the
first error of a text kept for the parser to report in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.errors import ParseError
from tc.frontend.tokens import Kind, Token
from tc.source import Source, Span

MAX_DIGITS = 300
"""Longer numbers are of no type; Python itself refuses to convert very long ones."""

_SPACE = re.compile(r"[ \t\r\n\f\v]*")


@dataclass(frozen=True, slots=True)
class Scan:
    """The tokens of a text, an END token last, and its comments.

    Where the text is of no token, `error` says why and the tokens end there, so that a parser
    can report what is wrong before that place first.
    """

    tokens: tuple[Token, ...]
    comments: tuple[Token, ...]
    error: ParseError | None


def scan_tokens(
    source: Source,
    comment: re.Pattern[str],
    read_token: Callable[[Source, int, Token | None], Token],
) -> Scan:
    """All tokens up to the first error, if any; never raises.

    `comment` matches a whole comment. `read_token` gives the token at an offset, whose third
    argument is the token before it, or raises ParseError.
    """
    tokens: list[Token] = []
    comments: list[Token] = []
    text = source.text
    previous = error = None
    at = _behind_space(text, 0)
    while at < len(text):
        if found := comment.match(text, at):
            comments.append(Token(Kind.COMMENT, found.group().rstrip(), at, found.end()))
            at = found.end()
        else:
            try:
                previous = read_token(source, at, previous)
            except ParseError as raised:
                error = raised
                break
            tokens.append(previous)
            at = previous.end
        at = _behind_space(text, at)
    tokens.append(Token(Kind.END, "", at, at))
    return Scan(tuple(tokens), tuple(comments), error)


def _behind_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


LOOKALIKES = {
    "→": "->",
    "⟶": "->",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "*",
    "·": "*",
    "⋅": "*",
    "∗": "*",
    "−": "-",
    "–": "-",
    "÷": "/",
    "∕": "/",
    "∧": "&&",
    "∨": "||",
    "¬": "!",
    "½": "0.5",
    "（": "(",
    "）": ")",
    "，": ",",
    "\u00a0": " ",
    "\u2009": " ",
    "\u202f": " ",
    "\u200b": "",
    "\ufeff": "",
}
"""Characters by the signs of every notation that they stand for."""


def unknown_character(
    source: Source,
    at: int,
    *,
    rule: str,
    idioms: Mapping[str, str],
    lookalikes: Mapping[str, str] = LOOKALIKES,
) -> ParseError:
    """The error for a character that begins no token: what it was meant to be, where known."""
    character = source.text[at]
    shown = character if character.isprintable() else ascii(character)[1:-1]
    idiom, paste = idioms.get(character), lookalikes.get(character)
    is_known = idiom is not None or paste is not None
    return ParseError(
        f"the character '{shown}' (U+{ord(character):04X}) is not of the language",
        rule=rule,
        span=Span(source, at, at + 1),
        paste=paste,
        idiom=idiom,
        repair=None if is_known else "outside comments a text is plain ASCII",
    )
