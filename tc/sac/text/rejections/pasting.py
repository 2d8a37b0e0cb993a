"""Texts to paste: the operands of what is refused, and errors with a text in its place."""

from __future__ import annotations

from typing import TypeAlias

from tc.errors import ParseError
from tc.frontend.operator_parser import MAX_NESTING, OperatorParser
from tc.frontend.token_cursor import Parsed
from tc.sac import ast
from tc.sac.text.cursor import Cursor
from tc.source import Span

Parser: TypeAlias = OperatorParser[Cursor, ast.Expr]

MAX_PASTED_CHARACTERS = 160
MAX_PASTED_NESTING = 8
MAX_REFUSALS = 4


def parsed(cursor: Cursor, parser: Parser, binding: int | None = None) -> Parsed[ast.Expr]:
    """An operand of what is refused, for the text to paste; ParseError where it nests deeply, as
    refusals within refusals do."""
    if cursor.refusals >= MAX_REFUSALS:
        raise cursor.error("refused within what is refused", repair="simplify the text")
    cursor.refusals += 1
    try:
        return parser.parse(cursor, MAX_NESTING - MAX_PASTED_NESTING, binding)
    finally:
        cursor.refusals -= 1


def pasted(cursor: Cursor, cause: str, span: Span, text: str, idiom: str) -> ParseError:
    """The error with a text to paste, or with an idiom where the text is too long for that."""
    if len(text) > MAX_PASTED_CHARACTERS or "//" in text or "/*" in text:
        return cursor.error(cause, span=span, idiom=idiom)
    return cursor.error(cause, span=span, paste=text)
