"""The canonical layout of a SaC text: what `tc fmt` writes, and what printed trees look like.

Only white space changes: every token, parentheses included, and every comment stays, in its
order, so the tree is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tc.dtypes import SPELLINGS
from tc.frontend.layout import Piece, open_item, pieces_of, wrapped
from tc.frontend.tokens import Kind
from tc.sac import ast
from tc.sac.text.parser import parse
from tc.sac.text.printer import module_text
from tc.sac.text.tokens import ASSIGNMENTS, PREFIX_STRENGTH, PREFIXES, STRENGTH, scan
from tc.source import Source

INDENT = 2
CONTINUATION_INDENT = 4

_LINE_ENDS = re.compile(r"[ \t\r\f\v]+(?=\n|$)")


def format_source(source: Source) -> str:
    """The text in its canonical layout: a statement and a partition of a with-loop per line, lines
    of at most 100 columns where names allow it, all comments kept. Formatting twice changes nothing
    more.

    Raises ParseError where the text is not of the language.

    >>> print(format_source(Source("int f(int a){b=a+1; // more\\nreturn(b);}")), end="")
    int f(int a) {
      b = a + 1;  // more
      return (b);
    }
    """
    parse(source)
    return _laid_out(source)


def print_module(module: ast.Module) -> str:
    """The text of a tree, in the canonical layout; it parses back to the same tree.

    >>> print(print_module(parse(Source("with{(.<=iv<=.):1;}:genarray([2],0)"))), end="")
    with {
      (. <= iv <= .) : 1;
    } : genarray([2], 0)
    """
    return _laid_out(Source(module_text(module)))


def _laid_out(source: Source) -> str:
    found = scan(source)
    comments = [c._replace(text=_LINE_ENDS.sub("", c.text)) for c in found.comments]
    pieces = list(pieces_of(source, found.tokens, comments))
    lines: list[str] = []
    for line, depth in _lines(_spaced(pieces[:-1])):
        first = line[0]
        is_closing = first.token.text == "}"
        after_opening = not lines or (lines[-1].endswith("{") and depth > 0)
        open_item(
            lines,
            replace(first, after_blank=first.after_blank and not is_closing),
            indent=INDENT * (depth + is_closing),
            first=after_opening,
            apart=depth == 0 and bool(lines) and lines[-1] == "}" and not is_closing,
        )
        rest = [replace(first, comments=()), *line[1:]]
        indent = INDENT * depth
        lines += wrapped([rest], indent, indent + CONTINUATION_INDENT)
    open_item(lines, replace(pieces[-1], after_blank=False), indent=0, first=False)
    while lines and lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


def _lines(pieces: Sequence[Piece]) -> Iterator[tuple[list[Piece], int]]:
    """The pieces of each line before long ones are wrapped, and in how many blocks they stand.

    A block is what stands between the braces of a function, an `if`, a with-loop or a partition's
    statements, and no comprehension.
    """
    line: list[Piece] = []
    blocks: list[bool] = []
    depth = 0
    for at, piece in enumerate(pieces):
        text = piece.token.text
        if text in "([{":
            is_block = text == "{" and _opens_block(pieces, at)
            blocks.append(is_block)
            line.append(piece)
            if is_block:
                yield line, depth
                line, depth = [], depth + 1
        elif text in ")]}":
            is_block = blocks.pop()
            if is_block:
                if line:
                    yield line, depth
                line, depth = [], depth - 1
            line.append(piece)
            if is_block and not _goes_on(pieces, at):
                yield line, depth
                line = []
        else:
            line.append(piece)
            if text == ";" and (not blocks or blocks[-1]):
                yield line, depth
                line = []
    if line:
        yield line, depth


def _opens_block(pieces: Sequence[Piece], at: int) -> bool:
    return at > 0 and pieces[at - 1].token.text in (")", "else", "with")


def _goes_on(pieces: Sequence[Piece], at: int) -> bool:
    """Whether what stands behind the `}` of a block is on its line: `} else {`, `} : body`."""
    return at + 1 < len(pieces) and pieces[at + 1].token.text in ("else", ":")


def _spaced(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with the space before each and the ranks of line breaks there."""
    laid: list[Piece] = []
    tight = _tight_brackets(pieces)
    brackets: list[bool] = []  # of each open one, whether it is tight
    glued = True  # no space after the previous token
    operand = False  # the previous token ends an operand
    for at, piece in enumerate(pieces):
        token, text = piece.token, piece.token.text
        sign = token.kind is Kind.SIGN
        before = pieces[at - 1].token if at else token
        space = not glued and text not in (")", "]", ",", ";")
        rank = _rank(len(brackets), -1) if before.text in (",", ";") else None
        if before.text == "->":
            rank = _rank(len(brackets), 0)
        glued = False
        if sign and text in ("(", "["):
            called = before.kind is Kind.NAME or before.text in (*SPELLINGS, ")", "]", "}")
            space = space and not (operand and called)
            glued = True
            brackets.append(at in tight)
        elif sign and text == "{":
            brackets.append(False)
        elif sign and text in (")", "]", "}"):
            brackets.pop()
        elif brackets and brackets[-1]:
            space, glued, rank = False, True, None
        elif sign and text in PREFIXES and not operand:
            glued = True
        elif sign and (text in ("|", "?") or (text == ":" and before.text != "}")):
            rank = _rank(len(brackets), 0)
        elif sign and text in STRENGTH and operand:
            rank = _rank(len(brackets), STRENGTH[text])
        elif before.text in ASSIGNMENTS and before.kind is Kind.SIGN:
            rank = _rank(len(brackets), PREFIX_STRENGTH)
        laid.append(replace(piece, space=space, rank=rank))
        operand = text in (")", "]", "}") or (not sign and text not in ("return", "if", "with"))
    return laid


def _tight_brackets(pieces: Sequence[Piece]) -> frozenset[int]:
    """The places of each `[` between which and its `]` no spaces are: of types, and where each item
    is one token."""
    found = set()
    for at, piece in enumerate(pieces):
        if piece.token.text != "[":
            continue
        end = at + 1
        while pieces[end].token.text not in ("[", "]", "(", "{"):
            end += 1
        is_type = at > 0 and pieces[at - 1].token.text in SPELLINGS
        commas = all(inside.token.text == "," for inside in pieces[at + 2 : end : 2])
        signs = any(inside.token.text in PREFIXES for inside in pieces[at + 1 : end])
        if pieces[end].token.text == "]" and (is_type or (commas and not signs)):
            found.add(at)
    return frozenset(found)


def _rank(depth: int, precedence: int) -> int:
    return 16 * depth + precedence + 2
