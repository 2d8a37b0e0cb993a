"""Texts that errors give to paste: an expression as an operand, applied to rows or to elements, or
padded to the largest of several shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from tc.errors import ParseError, TCError
from tc.sac import ast
from tc.sac.levels.values import Shape, shown
from tc.sac.text.parser import parse
from tc.source import Edit, Source, Span, described

INDEX_NAMES = (*"ijkpqr", *(f"i{k}" for k in range(16)))
"""Names for the indices of a text to paste."""

VECTOR_NAMES = ("iv", "jv", "kv", *(f"iv{k}" for k in range(16)))
"""Names for the index vector of a text to paste."""

_POSTFIX = (
    ast.Number, ast.Bool, ast.Name, ast.Row, ast.Select, ast.Call, ast.Cast, ast.Comprehension,
)  # fmt: skip
"""What may stand beside any operator, and before the bracket of a selection."""


def repaired_by(error: TCError, *edits: Edit) -> TCError:
    """The error with a repair by edits; unchanged where an edit holds a comment, which would hide
    what follows it on its line."""
    if edits and not any("//" in edit.text or "/*" in edit.text for edit in edits):
        error.edits, error.repair = edits, described(edits)
    return error


def as_operand(text: str) -> str:
    """The text of an expression as an operand of any operator, or as an array that is selected
    from: in parentheses where it needs them.

    >>> as_operand("m[i]"), as_operand("v + w[0]")
    ('m[i]', '(v + w[0])')
    """
    try:
        body = parse(Source(text)).body
    except ParseError:
        return f"({text})"
    is_tight = body is not None and not body.statements and isinstance(body.results[0], _POSTFIX)
    return text if is_tight else f"({text})"


def in_place_of(span: Span, text: str) -> str:
    """The text of `a ++ b` in the place of a literal: in parentheses where an operator or the
    bracket of a selection stands beside it.

    >>> in_place_of(Span(Source("[v, 1][2]"), 0, 6), "v ++ [1]")
    '(v ++ [1])'
    """
    before = span.source.text[: span.start].rstrip()[-1:]
    after = span.source.text[span.end :].lstrip()[:1]
    is_free = before in "=([,;:?>{}" or span.source.text[: span.start].rstrip().endswith("return")
    return text if is_free and after in ";,)]}|:?" else f"({text})"


def free_names(names: Iterable[str], texts: Sequence[str]) -> list[str]:
    """The names that stand in none of the texts."""
    used = set(re.findall(r"\w+", " ".join(texts)))
    return [name for name in names if name not in used]


def rows_of(shapes: Sequence[Shape]) -> list[tuple[int, ...] | None] | None:
    """The axes of a comprehension that each operand is selected by, None for an operand that stands
    as a whole, where two shapes of several ranks differ, and the shorter one begins or ends the
    longer one; None where they differ otherwise.

    >>> rows_of([(3, 4), (4,)]), rows_of([(3, 4), (3,)]), rows_of([(3, 4), (2,)])
    ([(0,), None], [(0,), (0,)], None)
    """
    longest = max(shapes, key=len)
    first = next(shape for shape in shapes if shape)
    other = next(shape for shape in shapes if shape not in ((), first))
    shorter = other if longest == first else first
    if len(shorter) == len(longest) or any(s not in ((), longest, shorter) for s in shapes):
        return None
    surplus = len(longest) - len(shorter)
    if longest[surplus:] == shorter:
        taken = tuple(range(surplus))
        return [taken if shape == longest else None for shape in shapes]
    if longest[: len(shorter)] == shorter:
        return [tuple(range(len(shorter))) if shape else None for shape in shapes]
    return None


def spread_axes(shapes: Sequence[Shape]) -> list[tuple[int | None, ...] | None] | None:
    """The axes of a comprehension over all elements that each operand is selected by, as numpy
    spreads axes of one element, for which None stands; None for an operand that is a scalar, and
    where numpy refuses the shapes.

    >>> spread_axes([(3, 4), (3, 1), ()])
    [(0, 1), (0, None), None]
    """
    try:
        whole = np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    found: list[tuple[int | None, ...] | None] = []
    for shape in shapes:
        axes = range(len(whole) - len(shape), len(whole))
        taken = tuple(
            axis if n == whole[axis] else None for axis, n in zip(axes, shape, strict=True)
        )
        found.append(taken or None)
    return found


def selected(text: str, axes: tuple[int | None, ...] | None, names: Sequence[str]) -> str:
    """The text of an operand selected by the names of these axes, 0 for an axis of one element."""
    if axes is None:
        return text
    items = ",".join("0" if axis is None else names[axis] for axis in axes)
    return f"{as_operand(text)}[{items}]"


def joined_rows(texts: Sequence[str], shapes: Sequence[Shape]) -> str | None:
    """The text of the rows of an array, of which some are arrays of such rows, joined by `++`; None
    where this joins nothing.

    >>> joined_rows(["v", "1", "2"], [(4,), (), ()])
    'v ++ [1, 2]'
    """
    longest = max(shapes, key=len)
    if not longest or any(s not in (longest[1:], (*s[:1], *longest[1:])) for s in shapes):
        return None
    parts: list[str] = []
    rows: list[str] = []
    for text, shape in zip(texts, shapes, strict=True):
        if len(shape) < len(longest):
            rows.append(text)
            continue
        if rows:
            parts.append(f"[{', '.join(rows)}]")
            rows = []
        parts.append(as_operand(text))
    if rows:
        parts.append(f"[{', '.join(rows)}]")
    return " ++ ".join(parts)


def spread_text(scalar: Span, shape: Shape) -> str:
    """The text of an array of this shape that has a scalar for all elements."""
    return f"genarray({shown(shape)}, {scalar.line})"


def padded(body: Span, shape: Shape, zero: str) -> str:
    """The text of an expression, of which instances have several shapes, with zeros up to one that
    has room for all.

    >>> padded(Span(Source("take([i], v)"), 0, 12), (3,), "0")
    '{ iv -> take([i], v)[iv]; iv -> 0 | iv < [3] }'
    """
    text = body.line
    index = free_names(VECTOR_NAMES, [body.source.text])[0]
    rest = f"{index} -> {zero} | {index} < {shown(shape)}"
    return f"{{ {index} -> {as_operand(text)}[{index}]; {rest} }}"
