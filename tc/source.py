"""Source texts and the spans in them: where every node, and so every error, points. Repairs are
made of edits of a source text, so that a repair can be tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TAB_WIDTH = 4
MAX_EXCERPT_COLUMNS = 120
"""The length of the longest part of a source line that an underlined excerpt shows."""

UNNAMED = "<string>"
ENCODING = "utf-8-sig"
"""Of files with texts: UTF-8, with or without the mark that editors put at its front."""


_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)
"""What a terminal does not show but obeys, or what turns the order of what it shows: control
characters but for the ends of lines and tabs, marks of direction, and no characters at all."""


def visible(text: str) -> str:
    """A text for a terminal, whatever a file or its name holds: what is not shown is escaped.

    >>> visible("a\\x1b[2J\\x07b\\tc")
    'a\\\\x1b[2J\\\\x07b\\tc'
    """
    return re.sub(_UNSEEN, lambda found: ascii(found[0])[1:-1], text)


class Origin(NamedTuple):
    """Where a text was given to tc: the Python file and line of the call, and in `found` the line,
    and the characters before it in that line, at which the text begins in this file, if it does."""

    file: str
    line: int
    found: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a tensor comprehension and the name that errors print for it.

    `origin` is where a text without a name comes from; errors then name that file and its lines.
    """

    text: str
    name: str = UNNAMED
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1.

        >>> import tc
        >>> tc.Source("ab\\ncd").position(4)
        (2, 2)
        """
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of line `number`, counted from 1, without the newline."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""

    def place(self, line: int, column: int) -> str:
        """A line and column of the text as messages name them.

        >>> from tc.source import Origin, Source
        >>> Source("ab\\ncd", origin=Origin("f.py", 9, (7, 4))).place(2, 1)
        'f.py:8:1'
        >>> Source("ab\\ncd", origin=Origin("f.py", 9, None)).place(2, 1)
        '<string>:2:1, given at f.py:9'
        """
        origin = self.origin if self.name == UNNAMED else None
        if origin is None:
            return f"{self.name}:{line}:{column}"
        if origin.found is None:
            return f"{self.name}:{line}:{column}, given at {origin.file}:{origin.line}"
        before = origin.found[1] if line == 1 else 0
        return f"{origin.file}:{self.shown(line)}:{column + before}"

    def shown(self, line: int) -> int:
        """The number of a line of the text in the file that `place` names."""
        origin = self.origin if self.name == UNNAMED else None
        return line if origin is None or origin.found is None else origin.found[0] + line - 1


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters of a source."""

    source: Source
    start: int
    end: int

    def __str__(self) -> str:
        return self.source.place(*self.source.position(self.start))

    @property
    def in_text(self) -> str:
        """The place as lines of the text alone, whatever file that stands in."""
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> str:
        """The text on one line."""
        return " ".join(self.text.split())

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of the other."""
        return Span(self.source, self.start, max(self.end, other.end))

    def underline(self) -> str:
        """The first source line of the span with carets below the spanned part.

        >>> print(Span(Source("C(i) = a(j)"), 7, 11).underline())
          |
        1 | C(i) = a(j)
          |        ^^^^
        """
        number, column = self.source.position(self.start)
        line = self.source.line(number)
        width = max(1, min(self.end - self.start, len(line) - column + 1))
        parts = (line[: column - 1], line[: column - 1 + width], line)
        before, marked, whole = (visible(part).expandtabs(TAB_WIDTH) for part in parts)
        text, begin, end = _excerpt(whole, len(before), len(marked))
        number = self.source.shown(number)
        gutter = " " * len(str(number))
        return "\n".join(
            (
                f"{gutter} |",
                f"{number} | {text}",
                f"{gutter} | {' ' * begin}{'^' * max(1, end - begin)}",
            )
        )


def _excerpt(line: str, begin: int, end: int) -> tuple[str, int, int]:
    """At most `MAX_EXCERPT_COLUMNS` characters of a line around the part from `begin` to `end`, and
    where this part stands in them.

    >>> _excerpt("a" * 300, 200, 203)[1:]
    (60, 63)
    """
    if len(line) <= MAX_EXCERPT_COLUMNS:
        return line, begin, end
    first = max(0, min(begin - MAX_EXCERPT_COLUMNS // 2, len(line) - MAX_EXCERPT_COLUMNS))
    text = line[first : first + MAX_EXCERPT_COLUMNS]
    if first > 0:
        text = "..." + text[3:]
    if first + MAX_EXCERPT_COLUMNS < len(line):
        text = text[:-3] + "..."
    return text, begin - first, min(end - first, MAX_EXCERPT_COLUMNS)


class ShownText(str):
    """A text that Python's shell shows as it is printed, not escaped on one line, and notebooks in
    colours.

    >>> ShownText("def f(float x) -> (y) {\\n  y = x\\n}")
    def f(float x) -> (y) {
      y = x
    }
    """

    __slots__ = ("_language",)
    _language: str

    def __new__(cls, text: str, language: str = "tc") -> ShownText:
        """The text; `language` is the name of its language for Pygments."""
        shown = super().__new__(cls, text)
        shown._language = language
        return shown

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(self, self._language)


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What a text is in HTML: Python's own module for it takes as long to load as all of this one."""

_PRE = "font-family: monospace; white-space: pre"


def as_html(text: str, language: str | None = None) -> str:
    """A text in columns, for notebooks and what converts them, which may have a font of its own
    for `<pre>`; in the colours of `language` where Pygments is there, as in every notebook.

    >>> as_html("a < b")
    '<pre style="font-family: monospace; white-space: pre">a &lt; b</pre>'
    """
    return f'<pre style="{_PRE}">{_coloured(text, language) or text.translate(_ESCAPED)}</pre>'


def _coloured(text: str, language: str | None) -> str | None:
    """The text as HTML with colours; None without Pygments, or where Pygments does not know the
    language, as it does not know "tc" where tc is not installed but only on the path."""
    if language is None:
        return None
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return None
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    found: str = highlight(text, lexer, HtmlFormatter(nowrap=True, noclasses=True))
    return found


MAX_SHOWN_CHARACTERS = 400
"""The length of the longest text that a repair shows whole."""


class Edit(NamedTuple):
    """A replacement of the text of a span; an empty span is an insertion, empty text a deletion.

    >>> from tc.source import Source
    >>> apply([Edit(Span(Source("o(i) = x"), 7, 8), "x(i)")])
    'o(i) = x(i)'
    """

    span: Span
    text: str


def apply(edits: Sequence[Edit]) -> str:
    """The whole text with all edits made; they are of one source and do not overlap."""
    text = edits[0].span.source.text
    end = len(text)
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end), reverse=True):
        if edit.span.end > end:
            raise ValueError("edits overlap")
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        end = edit.span.start
    return text


def described(edits: Sequence[Edit]) -> str:
    """The edits in words: the text as it is with them, from the first one to the last.

    >>> from tc.source import Source
    >>> source = Source("def f(float(N) x) -> (o) {\\n  o = x + x\\n}")
    >>> edits = [Edit(Span(source, at, at + 1), new) for at, new in ((29, "o(i)"), (33, "x(i)"))]
    >>> described(edits)
    'o(i) = x(i)'
    >>> described([Edit(Span(source, 33, 34), "")])
    "delete 'x'"
    """
    first = edits[0]
    if len(edits) == 1 and not first.text:
        old = first.span.line
        return f"delete '{old if len(old) <= MAX_SHOWN_CHARACTERS else old[:40] + ' ...'}'"
    if len(edits) == 1 and first.span.start == first.span.end and "\n" not in first.text:
        return f"write '{first.text.strip()}' here"
    text = "\n".join(line.strip() for line in merged(edits).text.split("\n")).strip()
    if not text:  # blanks for what is no blank here, such as a no-break space
        return "write a space"
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS // 2]} ..."


def merged(edits: Sequence[Edit]) -> Edit:
    """One edit that does all."""
    source = edits[0].span.source
    start = min(edit.span.start for edit in edits)
    end = max(edit.span.end for edit in edits)
    new = apply(edits)
    return Edit(Span(source, start, end), new[start : len(new) - (len(source.text) - end)])


def within(span: Span, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits as one edit of a whole span, so that errors show the whole span as it is after the
    edits.

    >>> from tc.source import Source
    >>> source = Source("o(i) = y(i) where y in 0:2")
    >>> within(Span(source, 0, 11), [Edit(Span(source, 5, 6), "+=!")])[0].text
    'o(i) +=! y(i)'
    """
    if not edits:
        return ()
    source = span.source
    ends = (Span(source, span.start, span.start), Span(source, span.end, span.end))
    new = [
        Edit(end, "")
        for end in ends
        if not any(e.span.start <= end.start <= e.span.end for e in edits)
    ]
    return (merged((*edits, *new)),)
