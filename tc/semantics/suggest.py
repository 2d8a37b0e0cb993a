"""Text to paste in repairs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Mapping

from tc.source import Edit, Span

MAX_PASTED_CHARACTERS = 160

_WRITTEN = (
    (re.compile(r"[0-9]+(?:_[0-9]+)+"), lambda text: text.replace("_", "")),
    (re.compile(r"[0-9]+[dD][0-9]+"), lambda text: re.sub("[dD]", "e", text)),
    (re.compile(r"0[bB][01]+"), lambda text: str(int(text, 2))),
    (re.compile(r"0[oO][0-7]+"), lambda text: str(int(text, 8))),
)
_FLOATS = (
    (re.compile(r"[0-9]+[fF]"), lambda text: f"{text[:-1].lstrip('0') or '0'}.0"),
    (re.compile(r"0[xX][0-9a-fA-F]{1,6}[pP][0-9]{1,2}"), lambda text: repr(float.fromhex(text))),
)


def unused(name: str, span: Span) -> str:
    """A name like this one that the text of the span's source does not have.

    >>> from tc.source import Source
    >>> unused("a_old", Span(Source("a_old(i) = a(i)"), 0, 1))
    'a_old2'
    """
    words = set(re.findall(r"\w+", span.source.text))
    numbered = (name if n == 1 else f"{name}{n}" for n in itertools.count(1))
    return next(candidate for candidate in numbered if candidate not in words)


def one_line(span: Span, instead: str = "...") -> str:
    """The text of a span on one line, or `instead` where it is too long to paste."""
    text = span.line
    return text if len(text) <= MAX_PASTED_CHARACTERS and "#" not in text else instead


def indices(rank: int) -> tuple[str, ...]:
    """Names of index variables for a repair.

    >>> indices(2)
    ('i', 'j')
    """
    return tuple("ijklmn"[:rank]) if rank <= 6 else tuple(f"i{axis}" for axis in range(rank))


def element(tensor: str, rank: int) -> str:
    """How a repair writes an element of a tensor.

    >>> element("A", 2), element("a", 0)
    ('A(i, j)', 'a')
    """
    return f"{tensor}({', '.join(indices(rank))})" if rank else tensor


def before(statement: Span, text: str) -> Edit:
    """The insertion of a statement before another one, on a line of its own.

    >>> from tc.source import apply
    >>> from tc.source import Source
    >>> print(apply([before(Span(Source("{\\n  o(i) = t(i)\\n}"), 4, 15), "t = g(x)")]))
    {
      t = g(x)
      o(i) = t(i)
    }
    """
    text_before = statement.source.text[: statement.start]
    line = text_before.rpartition("\n")[2]
    gap = "\n" + line if "\n" in text_before and not line.strip() else " "
    return Edit(Span(statement.source, statement.start, statement.start), text + gap)


def renamed_index(statement: Span, name: str) -> tuple[str, tuple[Edit, ...]]:
    """Another name for an index variable of a statement, and the edits that give it: those of the
    name where it is neither called nor a tensor's size.

    >>> from tc.source import apply
    >>> from tc.source import Source
    >>> new, edits = renamed_index(Span(Source("o(k) = k(k) + k.0"), 0, 17), "k")
    >>> new, apply(edits)
    ('i', 'o(i) = k(i) + k.0')
    """
    new = next((c for c in "ijklmnpq" if unused(c, statement) == c), unused(f"{name}_", statement))
    places = re.finditer(rf"(?<![\w.]){re.escape(name)}(?![\w.]|\s*\()", statement.text)
    start, source = statement.start, statement.source
    return new, tuple(Edit(Span(source, start + m.start(), start + m.end()), new) for m in places)


def number_written(name: str, known: Container[str], loose: bool = False) -> str | None:
    """What a name that begins with digits was meant to be: `1_000`, `1d0`, or `2i`.

    >>> number_written("1_000", ()), number_written("0b11", ()), number_written("2i", {"i"})
    ('1000', '3', '2 * i')
    >>> number_written("2i", ())

    A `loose` name, which no subscript has, may also be meant for a float: `2f`, `0x1p3`.

    >>> number_written("2f", (), loose=True), number_written("0x1p3", (), loose=True)
    ('2.0', '8.0')
    """
    for pattern, value in _WRITTEN + _FLOATS if loose else _WRITTEN:
        if pattern.fullmatch(name):
            return value(name)
    product = product_written(name)
    return " * ".join(product) if product and product[1] in known else None


def product_written(name: str) -> tuple[str, str] | None:
    """The number and the name whose product a name may be meant for.

    >>> product_written("2i"), product_written("i2")
    (('2', 'i'), None)
    """
    product = re.fullmatch(r"([0-9]+)([A-Za-z_]\w*)", name)
    return (product[1], product[2]) if product else None


def respelled(span: Span, texts: Mapping[str, str]) -> tuple[Edit, ...]:
    """The edits that put texts in the place of names, wherever they stand in a span."""
    return tuple(
        Edit(Span(span.source, span.start + m.start(), span.start + m.end()), text)
        for name, text in texts.items()
        for m in re.finditer(rf"(?<![\w.]){name}(?!\w)", span.text)
    )
