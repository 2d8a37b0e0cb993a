"""What texts with the spellings of other languages, or with slips, were meant to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tc.frontend.ast import Clause, Expr, Number, RangeClause
from tc.frontend.tokens import ASSIGNMENTS, Kind, Token

PYTHON_WORDS = {"and": "&&", "or": "||", "not": "!", "if": "?", "else": ":"}
"""Python's operators that are words, by what they are here."""

_MAX_DEPTH = 50
_INSIDE = frozenset("?:,)]")
_ENDS = _INSIDE | {"}", "where", "<=>"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class Rewritten(NamedTuple):
    """An expression of Python in the language, and the tokens that it spans."""

    text: str
    first: Token
    last: Token


class _NotPython(Exception):
    """The tokens are no expression with Python's operators."""


# --- ranges -----------------------------------------------------------------------------------


def intersection(first: RangeClause, second: RangeClause) -> str | None:
    """The range clause that says what two for one variable say together, if there is one.

    >>> from tc.frontend.parser import parse
    >>> from tc.source import Source
    >>> text = "def f(float(N) A) -> (o) { o +=! A(i) where i in 0:N, i in 1:4 }"
    >>> first, second = parse(Source(text)).defs[0].body[0].where
    >>> intersection(first, second)
    'i in 1:min(N, 4)'
    """
    begin = _extreme("max", first.begin, second.begin)
    end = _extreme("min", first.end, second.end)
    if begin.isdecimal() and end.isdecimal() and int(begin) >= int(end):
        return None  # they have nothing in common
    return f"{first.variable.text} in {begin}:{end}"


def joined_clauses(clauses: Sequence[Clause]) -> str | None:
    """Clauses as one `where`, the ranges of one variable intersected, if they can be."""
    texts: dict[str, str] = {}
    ranges: dict[str, RangeClause] = {}
    for position, clause in enumerate(clauses):
        key = str(position)
        texts[key] = one_line(clause.span.text)
        if isinstance(clause, RangeClause):
            del texts[key]
            key = f"range of {clause.variable.text}"
            first = ranges.setdefault(key, clause)
            both = one_line(clause.span.text) if first is clause else intersection(first, clause)
            if both is None:
                return None
            texts[key] = both
    return None if "..." in texts.values() else "where " + ", ".join(texts.values())


def _extreme(function: str, first: Expr, second: Expr) -> str:
    a, b = first.span.line, second.span.line
    if a == b:
        return a
    if isinstance(first, Number) and isinstance(second, Number):
        return (min if function == "min" else max)((first.value, a), (second.value, b))[1]
    return f"{function}({a}, {b})"


def one_line(text: str) -> str:
    """A text on one line; dots for a long one, and for one with a comment."""
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
    """The expression around the token `at`, its `and or not if else` written as here.

    None where no assignment stands before it, or its tokens are no such expression.
    """
    start = at
    while start > 0 and not _assigns(tokens[start - 1]):
        start -= 1
    if start == 0:
        return None
    try:
        rewritten, end = _Rewriter(tokens).choice(start, 0)
    except _NotPython:
        return None
    if end <= at or tokens[end].text in _INSIDE or len(rewritten) > 160:
        return None
    return Rewritten(" ".join(rewritten.split()), tokens[start], tokens[end - 1])


def _assigns(token: Token) -> bool:
    return token.kind is Kind.SIGN and token.text in ASSIGNMENTS


class _Rewriter:
    """Python's precedence of its words, from the loosest on; each method takes and gives a place
    in the tokens, and gives the text up to there."""

    __slots__ = ("tokens",)

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def choice(self, at: int, depth: int) -> tuple[str, int]:
        if depth > _MAX_DEPTH:
            raise _NotPython
        first, at = self.disjunction(at, depth)
        if self._is(at, "if"):
            then = first
            condition, at = self.disjunction(at + 1, depth)
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

    def disjunction(self, at: int, depth: int) -> tuple[str, int]:
        left, at = self.conjunction(at, depth)
        while self._is(at, "or"):
            right, at = self.conjunction(at + 1, depth)
            left = f"{left} || {right}"
        return left, at

    def conjunction(self, at: int, depth: int) -> tuple[str, int]:
        left, at = self.negation(at, depth)
        while self._is(at, "and"):
            right, at = self.negation(at + 1, depth)
            left = f"{left} && {right}"
        return left, at

    def negation(self, at: int, depth: int) -> tuple[str, int]:
        count = 0
        while self._is(at, "not"):
            at, count = at + 1, count + 1
        start = at
        text, at = self.operand(at, depth)
        opening = start + (self.tokens[start].kind in (Kind.NAME, Kind.KEYWORD))
        simple = at == start + 1 or self._closing(opening) == at - 1
        if count and not simple:
            text = f"({text})"
        return "!" * count + text, at

    def operand(self, at: int, depth: int) -> tuple[str, int]:
        """The longest run of tokens without a word of Python outside of its brackets."""
        start, pieces, done = at, "", False
        while True:
            token = self.tokens[at]
            is_value = token.kind in (Kind.NAME, Kind.NUMBER, Kind.KEYWORD)
            if token.kind is Kind.END or token.text in _ENDS:
                break
            if _assigns(token):
                raise _NotPython
            if is_value and (done or token.text in PYTHON_WORDS):
                break  # the next statement begins, or a word
            pieces += self._gap(at, start)
            if token.text in _OPENING:
                inside, at = self.bracket(at, depth)
                pieces += inside
                done = True
            else:
                pieces += token.text
                done = is_value or token.kind is Kind.DIM
                at += 1
        if at == start:
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

    def _closing(self, at: int) -> int:
        """Where the bracket closes that opens here; -1 where none opens."""
        depth = 0
        while self.tokens[at].kind is not Kind.END:
            depth += {"(": 1, ")": -1}.get(self.tokens[at].text, 0)
            if depth == 0:
                return at if self.tokens[at].text == ")" else -1
            at += 1
        return -1

    def _gap(self, at: int, start: int) -> str:
        if at == start:
            return ""
        return " " if self.tokens[at].start > self.tokens[at - 1].end else ""

    def _is(self, at: int, word: str) -> bool:
        token = self.tokens[at]
        return token.kind is Kind.NAME and token.text == word
