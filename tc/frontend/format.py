"""The canonical layout of a text: what `tc fmt` writes.

Only white space changes: every token, parentheses included, and every comment stays, in its
order, so the tree is the same. Where nothing is long and no parenthesis is superfluous, the
layout is one that the tree alone gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tc.dtypes import SPELLINGS
from tc.frontend.ast import Binary, Comprehension, Conditional, Def, Expr, RangeClause, Statement
from tc.frontend.lexer import scan
from tc.frontend.parser import parse
from tc.frontend.tokens import ASSIGNMENTS, PRECEDENCE, PREFIX_PRECEDENCE, PREFIXES, Kind, Token
from tc.source import Source

MAX_COLUMNS = 100
BODY_INDENT = 2
CONTINUATION_INDENT = 6
MAX_ALIGNMENT = 40


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment: at the end of a line of tokens, or on its own, perhaps after a blank line."""

    text: str
    trailing: bool
    after_blank: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token, the comments before it, and how it may be laid out.

    `rank` is None where no line may end before the token; a break of lesser rank is better.
    """

    token: Token
    comments: tuple[_Comment, ...] = ()
    after_blank: bool = False
    space: bool = False
    rank: int | None = None


def format_source(source: Source) -> str:
    """The text in its canonical layout: one statement per line, lines of at most 100 columns
    where names allow it, all comments kept. Formatting twice changes nothing more.

    Raises ParseError where the text is not of the language.

    >>> print(format_source(Source("def f(float(N)A)->(C){C(i)=A(i) # copy\\n}")), end="")
    def f(float(N) A) -> (C) {
      C(i) = A(i)  # copy
    }
    """
    module = parse(source)
    found = scan(source)
    pieces = iter(_pieces(source, found.tokens, found.comments))
    upcoming = next(pieces)
    lines: list[str] = []
    for definition in module.defs:
        tokens: list[_Piece] = []
        while upcoming.token.start < definition.span.end:
            tokens.append(upcoming)
            upcoming = next(pieces)
        _open_item(lines, tokens[0], indent=0, first=not lines, apart=True)
        lines += _definition(definition, tokens)
    _open_item(lines, upcoming, indent=0, first=False, apart=True)
    while lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


def _pieces(source: Source, tokens: Sequence[Token], comments: Sequence[Token]) -> Iterator[_Piece]:
    """The tokens, each with the comments and the blank lines before it."""
    waiting = iter(comments)
    comment = next(waiting, None)
    end = 0
    for token in tokens:
        before: list[_Comment] = []
        while comment is not None and comment.start < token.start:
            between = source.text[end : comment.start]
            trailing = end > 0 and "\n" not in between and not before
            before.append(_Comment(comment.text, trailing, between.count("\n") > 1))
            end = comment.end
            comment = next(waiting, None)
        blank = source.text[end : token.start].count("\n") > 1
        yield _Piece(token, tuple(before), blank)
        end = token.end


def _open_item(
    lines: list[str], piece: _Piece, *, indent: int, first: bool, apart: bool = False
) -> None:
    """Write the comments before a def, a statement or a `}`, and the blank lines.

    `first`: nothing to be separated stands above; `apart`: what stands above is a def.
    """
    own = [comment for comment in piece.comments if not comment.trailing]
    if len(own) < len(piece.comments) and lines:
        lines[-1] += "  " + piece.comments[0].text
    for comment in own:
        if not first and (apart or comment.after_blank):
            lines.append("")
        lines.append(" " * indent + comment.text)
        first = apart = False
    if not first and (apart or piece.after_blank):
        lines.append("")


def _definition(definition: Def, pieces: Sequence[_Piece]) -> list[str]:
    opening = next(i for i, piece in enumerate(pieces) if piece.token.text == "{") + 1
    lines = _header(pieces[:opening])
    at = opening
    for statement in definition.body:
        begin = at
        while pieces[at].token.start < statement.span.end:
            at += 1
        _open_item(lines, pieces[begin], indent=BODY_INDENT, first=begin == opening)
        lines += _statement(statement, pieces[begin:at])
    closing = replace(pieces[-1], after_blank=False)
    _open_item(lines, closing, indent=BODY_INDENT, first=at == opening)
    return [*lines, "}"]


def _header(pieces: Sequence[_Piece]) -> list[str]:
    laid = _spaced(pieces, ())
    arrow_rank = _rank(1, -2)
    laid = [replace(p, rank=arrow_rank) if p.token.text == "->" else p for p in laid]
    alignment = len("def ") + len(pieces[1].token.text) + 1
    return _wrapped([laid], 0, alignment if alignment <= MAX_ALIGNMENT else CONTINUATION_INDENT)


def _statement(statement: Statement, pieces: Sequence[_Piece]) -> list[str]:
    tight: tuple[bool, ...] = ()
    if isinstance(statement, Comprehension):
        ranges = [clause for clause in statement.where if isinstance(clause, RangeClause)]
        tight = tuple(not any(map(is_composite, (r.begin, r.end))) for r in ranges)
    sections: list[list[_Piece]] = [[]]
    for piece in _spaced(pieces, tight):
        if piece.token.text in ("where", "<=>"):
            sections.append([])
        sections[-1].append(piece)
    return _wrapped(sections, BODY_INDENT, CONTINUATION_INDENT)


def is_composite(bound: Expr) -> bool:
    """Whether a bound of a range is printed with spaces, so that the `:` beside it gets spaces
    too."""
    return isinstance(bound, Binary | Conditional)


def _spaced(pieces: Sequence[_Piece], tight: tuple[bool, ...]) -> list[_Piece]:
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
        operand = text == ")" or (not sign and not keyword)
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


def _wrapped(sections: Sequence[Sequence[_Piece]], indent: int, continuation: int) -> list[str]:
    """One line if all fits and no comment stands inside, otherwise a new line per section."""
    pieces = [piece for section in sections for piece in section]
    line = " " * indent + _joined(pieces)
    if len(line) <= MAX_COLUMNS and not any(piece.comments for piece in pieces):
        return [line]
    lines: list[str] = []
    for section in sections:
        start = 0
        for at, piece in enumerate(section):
            if piece.comments:
                lines += _filled(section[start:at], continuation if lines else indent, continuation)
                _open_item(lines, piece, indent=continuation, first=True)
                start = at
        lines += _filled(section[start:], continuation if lines else indent, continuation)
    return lines


def _filled(pieces: Sequence[_Piece], indent: int, continuation: int) -> list[str]:
    """The lines of pieces, each line broken at the best place that fits; of equal places, at the
    last."""
    lines: list[str] = []
    start = 0
    while start < len(pieces):
        column = indent
        best: int | None = None
        at = start
        while at < len(pieces):
            piece = pieces[at]
            if at > start:
                rank, least = piece.rank, None if best is None else pieces[best].rank
                if rank is not None and (least is None or rank <= least):
                    best = at
                column += piece.space
            column += len(piece.token.text)
            if column > MAX_COLUMNS and best is not None:
                break
            at += 1
        stop = len(pieces) if at == len(pieces) or best is None else best
        lines.append(" " * indent + _joined(pieces[start:stop]))
        start, indent = stop, continuation
    return lines


def _joined(pieces: Sequence[_Piece]) -> str:
    text = "".join(" " * piece.space + piece.token.text for piece in pieces[1:])
    return (pieces[0].token.text if pieces else "") + text
