"""The canonical layout of a text: what `tc fmt` writes.

Only white space changes: every token, parentheses included, and every comment stays, in its
order, so the tree is the same. Where nothing is long and no parenthesis is superfluous, the
layout is one that the tree alone gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tc.dtypes import SPELLINGS
from tc.frontend.ast import Binary, Comprehension, Conditional, Def, Expr, RangeClause, Statement
from tc.frontend.layout import Piece, open_item, pieces_of, wrapped
from tc.frontend.lexer import scan
from tc.frontend.parser import parse
from tc.frontend.tokens import ASSIGNMENTS, PRECEDENCE, PREFIX_PRECEDENCE, PREFIXES, Kind, Token
from tc.source import Source

BODY_INDENT_COLUMNS = 2
CONTINUATION_INDENT_COLUMNS = 6
MAX_ALIGNMENT_COLUMNS = 40


def format_source(source: Source) -> str:
    """The text in its canonical layout: one statement per line, lines of at most 100 columns
    where names allow it, all comments kept. Formatting twice changes nothing more.

    Raises ParseError where the text is not of the language.

    >>> print(format_source(Source("def f(float(N)A)->(C){C(i)=A(i) # copy\\n}")), end="")
    def f(float(N) A) -> (C) {
      C(i) = A(i)  # copy
    }
    """
    found = scan(source)
    module = parse(source, found)
    pieces = iter(pieces_of(source, found.tokens, found.comments))
    upcoming = next(pieces)
    lines: list[str] = []
    for definition in module.defs:
        tokens: list[Piece] = []
        while upcoming.token.start < definition.span.end:
            tokens.append(upcoming)
            upcoming = next(pieces)
        open_item(lines, tokens[0], indent=0, first=not lines, apart=True)
        lines += _definition(definition, tokens)
    open_item(lines, upcoming, indent=0, first=False, apart=True)
    while lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


def _definition(definition: Def, pieces: Sequence[Piece]) -> list[str]:
    opening = next(i for i, piece in enumerate(pieces) if piece.token.text == "{") + 1
    lines = _header(pieces[:opening])
    at = opening
    for statement in definition.body:
        begin = at
        while pieces[at].token.start < statement.span.end:
            at += 1
        open_item(lines, pieces[begin], indent=BODY_INDENT_COLUMNS, first=begin == opening)
        lines += _statement(statement, pieces[begin:at])
    closing = replace(pieces[-1], after_blank=False)
    open_item(lines, closing, indent=BODY_INDENT_COLUMNS, first=at == opening)
    return [*lines, "}"]


def _header(pieces: Sequence[Piece]) -> list[str]:
    laid = _spaced_header(pieces)
    arrow_rank = _rank(1, -2)
    laid = [replace(p, rank=arrow_rank) if p.token.text == "->" else p for p in laid]
    alignment = len("def ") + len(pieces[1].token.text) + 1
    if alignment > MAX_ALIGNMENT_COLUMNS:
        alignment = CONTINUATION_INDENT_COLUMNS
    return wrapped([laid], 0, alignment)


def _spaced_header(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of a header; type variables stand as in `f<T: half | float, U>(` (T6)."""
    if len(pieces) < 3 or pieces[2].token.text != "<":
        return _spaced(pieces, ())
    end = next(i for i, piece in enumerate(pieces) if piece.token.text == ">" and i > 2)
    laid = _spaced([*pieces[:2], *pieces[end + 1 :]], ())
    listed = []
    for before, piece in pairwise(pieces[1 : end + 1]):
        space = before.token.text in (",", ":", "|") or piece.token.text == "|"
        rank = _rank_after(before.token, 1) if space else None
        listed.append(replace(piece, space=space, rank=rank))
    return [*laid[:2], *listed, *laid[2:]]


def _statement(statement: Statement, pieces: Sequence[Piece]) -> list[str]:
    tight: tuple[bool, ...] = ()
    if isinstance(statement, Comprehension):
        ranges = [clause for clause in statement.where if isinstance(clause, RangeClause)]
        tight = tuple(not any(map(is_composite, (r.begin, r.end))) for r in ranges)
    sections: list[list[Piece]] = [[]]
    for piece in _spaced(pieces, tight):
        if piece.token.text in ("where", "<=>"):
            sections.append([])
        sections[-1].append(piece)
    return wrapped(sections, BODY_INDENT_COLUMNS, CONTINUATION_INDENT_COLUMNS)


def is_composite(bound: Expr) -> bool:
    """Whether a bound of a range is printed with spaces, so that the `:` beside it gets spaces
    too."""
    return isinstance(bound, Binary | Conditional)


def _spaced(pieces: Sequence[Piece], tight: tuple[bool, ...]) -> list[Piece]:
    """The pieces of a header or a statement with their spaces and ranks.

    `tight` tells for each range of the statement whether its `:` stands without spaces.
    """
    laid = [replace(pieces[0], comments=())]
    depth = ternaries = ranges = 0
    glued = pieces[0].token.text == "("  # no space after the previous token
    operand = True  # the previous token ends an operand
    for before, piece in pairwise(pieces):
        token, text, previous = piece.token, piece.token.text, before.token
        sign = token.kind is Kind.SIGN
        space = not glued and token.kind is not Kind.DIM and text not in (")", ",")
        glued = False
        rank = _rank_after(previous, depth)
        # a name after a name is the `in` of a range
        keyword = token.kind is Kind.NAME and previous.kind is Kind.NAME and operand
        if text == "(":
            called = previous.kind is Kind.NAME or previous.text in SPELLINGS
            space = space and not (called and operand)
            glued = True
            depth += 1
        elif text == ")":
            depth -= 1
        elif sign and text in PREFIXES and not operand:
            glued = True
        elif sign and text in PRECEDENCE:
            rank = _rank(depth, PRECEDENCE[text])
        elif text == "?":
            rank = _rank(depth, 0)
            ternaries += 1
        elif text == ":" and ternaries:
            rank = _rank(depth, 0)
            ternaries -= 1
        elif text == ":":
            glued = tight[ranges]
            space = not glued
            ranges += 1
        word = token.kind is Kind.KEYWORD and text not in SPELLINGS
        operand = text == ")" or not (sign or keyword or word)
        laid.append(replace(piece, space=space, rank=rank))
    return laid


def _rank_after(token: Token, depth: int) -> int | None:
    """How good a break after this token is: before the right side is worse than inside it."""
    if token.text == ",":
        return _rank(depth, -1)
    if token.text in ASSIGNMENTS and token.kind is Kind.SIGN:
        return _rank(depth, PREFIX_PRECEDENCE)
    return None


def _rank(depth: int, precedence: int) -> int:
    return 16 * depth + precedence + 2
