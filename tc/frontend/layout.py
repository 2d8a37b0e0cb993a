"""Lines of tokens with their comments, whatever the notation: what a formatter of one builds on.

Only white space changes: every token and every comment stays, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tc.frontend.tokens import Token
from tc.source import Source

MAX_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: at the end of a line of tokens, or on its own, perhaps after a blank line."""

    text: str
    trailing: bool
    after_blank: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A token, the comments before it, and how it may be laid out.

    `rank` is None where no line may end before the token; a break of lesser rank is better.
    """

    token: Token
    comments: tuple[Comment, ...] = ()
    after_blank: bool = False
    space: bool = False
    rank: int | None = None


def pieces_of(
    source: Source, tokens: Sequence[Token], comments: Sequence[Token]
) -> Iterator[Piece]:
    """The tokens, each with the comments and the blank lines before it."""
    waiting = iter(comments)
    comment = next(waiting, None)
    end = 0
    for token in tokens:
        before: list[Comment] = []
        while comment is not None and comment.start < token.start:
            between = source.text[end : comment.start]
            trailing = end > 0 and "\n" not in between and not before
            before.append(Comment(comment.text, trailing, between.count("\n") > 1))
            end = comment.end
            comment = next(waiting, None)
        blank = source.text[end : token.start].count("\n") > 1
        yield Piece(token, tuple(before), blank)
        end = token.end


def open_item(
    lines: list[str], piece: Piece, *, indent: int, first: bool, apart: bool = False
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


def wrapped(sections: Sequence[Sequence[Piece]], indent: int, continuation: int) -> list[str]:
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
                open_item(lines, piece, indent=continuation, first=True)
                start = at
        lines += _filled(section[start:], continuation if lines else indent, continuation)
    return lines


def _filled(pieces: Sequence[Piece], indent: int, continuation: int) -> list[str]:
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


def _joined(pieces: Sequence[Piece]) -> str:
    text = "".join(" " * piece.space + piece.token.text for piece in pieces[1:])
    return (pieces[0].token.text if pieces else "") + text
