"""Edits of a source text: repairs are made of edits, so that a repair can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tc.source import Span

MAX_SHOWN_CHARACTERS = 400
"""The length of the longest text that a repair shows whole."""


@dataclass(frozen=True, slots=True)
class Edit:
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
