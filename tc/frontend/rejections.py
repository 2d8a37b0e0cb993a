"""Errors about constructs of other languages, such as `x[i]`, raised once their parts are
parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tc.errors import ParseError
from tc.frontend import foreign
from tc.frontend.ast import Conditional, Name
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.tokens import Kind
from tc.source import Edit, Span


def reject_slice(cursor: Cursor) -> None:
    """Raise for `x(i:i+2)` and `sum(x, axis=1)`, which are of other languages."""
    if cursor.at(":"):
        raise cursor.error(
            "there are no slices: a subscript is one element, and index variables run over many",
            idiom="s(i) +=! x(i + k) where k in 0:2, for the sum of x(i:i+2); x(i, j), with j in "
            "no other place of the right side, for x(i, :)",
        )
    if cursor.at("="):
        raise cursor.error(
            "arguments have no names; a sum over one axis is a reduction over the index that "
            "is not on the left",
            idiom="o(i) +=! x(i, j)",
        )


def reject_brackets(cursor: Cursor, name: Name) -> ParseError:
    """The error for `A[i][j]`, from its `[` on."""
    cursor.skip_brackets("[")
    span = cursor.span(name.span.start, cursor.previous_end)
    written = span.text
    inside = re.sub(r"\]\s*\[", ", ", written[len(name.text) :])
    simple = written[-1] == "]" and len(written) <= 80 and not set(written) & set("\n:#")
    return cursor.error(
        "subscripts are written in parentheses",
        span=span,
        paste=name.text + inside.strip().replace("[", "(").replace("]", ")") if simple else None,
        repair=None if simple else f"{name.text}(i, j)",
    )


def matrix_product(cursor: Cursor, left: ParsedExpr, right: ParsedExpr, span: Span) -> ParseError:
    """The error for `C = A @ B`, whole matrices, or vectors."""
    cause = "there is no operator '@': a product sums over an index that is not on the left"
    idiom = "C(i,j) +=! A(i,k) * B(k,j)"
    if cursor.statement is None:  # it stands on a left side
        return cursor.error(cause, span=span, idiom=idiom)
    start, operator = cursor.statement
    ranks = []
    for part in (left, right):
        type_ = cursor.names.params.get(part.expr.span.text)
        ranks.append(len(type_.dims or ()) if type_ and isinstance(part.expr, Name) else 0)
    target = cursor.source.text[start : operator.start].strip()
    before = cursor.source.text[operator.end : left.start].strip()
    follows = cursor.token.kind is Kind.SIGN and cursor.token.text != "}"
    known = foreign.MATRIX_PRODUCTS.get((ranks[0], ranks[1]))
    if known is None or before or follows or not target.isidentifier() or operator.text != "=":
        return cursor.error(cause, span=span, idiom=idiom)
    names = [f"({','.join(letters)})" if letters else "" for letters in known]
    first, second = left.expr.span.text, right.expr.span.text
    text = f"{target}{names[0]} +=! {first}{names[1]} * {second}{names[2]}"
    return cursor.error(cause, span=span, edits=(Edit(cursor.span(start, right.end), text),))


def choice_text(parts: Sequence[ParsedExpr]) -> str:
    texts = [part.span.line for part in parts]
    first = parts[0]
    if isinstance(first.expr, Conditional) and first.start == first.expr.span.start:
        texts[0] = f"({texts[0]})"
    return f"({texts[0]} ? {texts[1]} : {texts[2]})"
