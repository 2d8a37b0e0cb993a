"""What texts with the spellings of other languages, or with slips, were meant to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tc.frontend.ast import Clause, Expr, Number, RangeClause
from tc.frontend.tokens import Kind, Token, is_assignment

PYTHON_WORDS = {"and": "&&", "or": "||", "not": "!", "if": "?", "else": ":"}
"""Operators that Python spells as words, with their spellings here."""

_MAX_BRACKET_DEPTH = 50
_INSIDE = frozenset("?:,)]")
_ENDS = _INSIDE | {"}", "where", "<=>"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class Rewritten(NamedTuple):
    """An expression of Python rewritten in this language, and its first and last token."""

    text: str
    first: Token
    last: Token


class _NotPython(Exception):
    """The tokens are no expression with Python's operators."""


# --- ranges -----------------------------------------------------------------------------------


def intersection(first: RangeClause, second: RangeClause) -> str | None:
    """The range clause for the values in both of two ranges of one variable; None if it is
    empty."""
    begin = _extreme("max", first.begin, second.begin)
    end = _extreme("min", first.end, second.end)
    if begin.isdecimal() and end.isdecimal() and int(begin) >= int(end):
        return None  # they have nothing in common
    return f"{first.variable.text} in {begin}:{end}"


def joined_clauses(clauses: Sequence[Clause]) -> str | None:
    """Clauses as one `where`, the ranges of one variable intersected, if they can be."""
    texts: dict[object, str | None] = {}
    ranges: dict[str, RangeClause] = {}
    for clause in clauses:
        text: str | None = one_line(clause.span.text)
        key: object = id(clause)
        if isinstance(clause, RangeClause):
            key = clause.variable.text
            first = ranges.setdefault(clause.variable.text, clause)
            text = text if first is clause else intersection(first, clause)
        texts[key] = text
    known = [text for text in texts.values() if text not in (None, "...")]
    return "where " + ", ".join(known) if len(known) == len(texts) else None


def _extreme(function: str, first: Expr, second: Expr) -> str:
    a, b = first.span.line, second.span.line
    if a == b:
        return a
    if isinstance(first, Number) and isinstance(second, Number):
        return (min if function == "min" else max)((first.value, a), (second.value, b))[1]
    return f"{function}({a}, {b})"


def one_line(text: str) -> str:
    """A text on one line; dots stand for a text with a comment or of more than 80 characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= 80 and "#" not in joined else "..."


# --- operators --------------------------------------------------------------------------------


def reduction_written(tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
    """The reduction operator meant by `max! =`, `max =` or `+! =`, and how many tokens it has."""
    text = ""
    for count, token in enumerate(tokens[at : at + 3], 1):
        text += token.text
        head = text.rstrip("!=")
        if head in ("+", "*", "min", "max") and text[len(head) :] in ("=", "!="):
            return head + ("=!" if "!" in text else "="), count
    return None


def from_python(tokens: Sequence[Token], at: int) -> Rewritten | None:
    """The expression around the token `at`, with `and or not if else` in the spelling of this
    language.

    None where no assignment and no `where` stands before the token, or the tokens are no expression
    of Python.
    """
    start = at
    while start > 0 and not is_assignment(tokens[start - 1]) and not _is_where(tokens[start - 1]):
        start -= 1
    if start == 0:
        return None
    if _is_where(tokens[start - 1]):
        start = _clause_at(tokens, start, at)
    try:
        rewritten, end = _Rewriter(tokens).choice(start, 0)
    except _NotPython:
        return None
    if end <= at or tokens[end].text in _INSIDE or len(rewritten) > 160:
        return None
    return Rewritten(" ".join(rewritten.split()), tokens[start], tokens[end - 1])


def _is_where(token: Token) -> bool:
    return token.kind is Kind.KEYWORD and token.text == "where"


def _clause_at(tokens: Sequence[Token], start: int, at: int) -> int:
    """Where the clause begins that has the token `at`; the first one begins at `start`."""
    depth = 0
    for index in range(start, at):
        text = tokens[index].text
        depth += (text in _OPENING) - (text in _CLOSING)
        if text == "," and not depth:
            start = index + 1
    return start


class _Rewriter:
    """Python's precedence of its words, from the loosest on; each method takes and gives a place
    in the tokens, and gives the text up to there."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def choice(self, at: int, depth: int) -> tuple[str, int]:
        if depth > _MAX_BRACKET_DEPTH:
            raise _NotPython
        first, at = self.joined(at, depth, "or", "and")
        if self._is(at, "if"):
            then = first
            condition, at = self.joined(at + 1, depth, "or", "and")
            if not self._is(at, "else"):
                raise _NotPython  # what stands otherwise is not said
        elif self.tokens[at].text == "?":
            condition = first
            then, at = self.choice(at + 1, depth + 1)
            if self.tokens[at].text != ":":
                raise _NotPython
        else:
            return first, at
        otherwise, at = self.choice(at + 1, depth + 1)
        return f"{condition} ? {then} : {otherwise}", at

    def joined(self, at: int, depth: int, word: str, *tighter: str) -> tuple[str, int]:
        """Parse operands joined by `word`; each operand is one of `tighter`, or a negation."""
        texts: list[str] = []
        at -= 1
        while not texts or self._is(at, word):
            part = self.joined(at + 1, depth, *tighter) if tighter else self.negation(at + 1, depth)
            texts.append(part[0])
            at = part[1]
        return f" {PYTHON_WORDS[word]} ".join(texts), at

    def negation(self, at: int, depth: int) -> tuple[str, int]:
        count = 0
        while self._is(at, "not"):
            at, count = at + 1, count + 1
        is_named = self.tokens[at].kind in (Kind.NAME, Kind.KEYWORD)
        pieces, at = self.operand(at, depth)
        is_call = is_named and len(pieces) == 2 and pieces[1].lstrip().startswith("(")
        text = "".join(pieces)
        if count and len(pieces) > 1 and not is_call:
            text = f"({text})"
        return "!" * count + text, at

    def operand(self, at: int, depth: int) -> tuple[list[str], int]:
        """The longest run of tokens without a word of Python outside of its brackets."""
        pieces: list[str] = []
        done = False
        while True:
            token = self.tokens[at]
            is_value = token.kind in (Kind.NAME, Kind.NUMBER, Kind.KEYWORD)
            ends = token.kind is Kind.END or token.text in _ENDS
            if ends or (is_value and (done or token.text in PYTHON_WORDS)):
                break  # the next statement begins, or a word
            if is_assignment(token):
                raise _NotPython
            gap = " " if pieces and token.start > self.tokens[at - 1].end else ""
            if token.text in _OPENING:
                text, at = self.bracket(at, depth)
                done = True
            else:
                text, at = token.text, at + 1
                done = is_value or token.kind is Kind.DIM
            pieces.append(gap + text)
        if not pieces:
            raise _NotPython
        return pieces, at

    def bracket(self, at: int, depth: int) -> tuple[str, int]:
        """A list in brackets."""
        opening, at = self.tokens[at].text, at + 1
        parts: list[str] = []
        while self.tokens[at].text not in _CLOSING:
            part, at = self.choice(at, depth + 1)
            parts.append(part)
            if self.tokens[at].text == ",":
                at += 1
            elif self.tokens[at].text not in _CLOSING:
                raise _NotPython
        return f"{opening}{', '.join(parts)}{self.tokens[at].text}", at + 1

    def _is(self, at: int, word: str) -> bool:
        return self.tokens[at].kind is Kind.NAME and self.tokens[at].text == word
