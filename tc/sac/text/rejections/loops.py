"""Errors of comprehensions and with-loops: patterns, generators and operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from tc.errors import ParseError
from tc.frontend.token_cursor import Parsed, describe
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text.cursor import Cursor
from tc.sac.text.printer import printed
from tc.sac.text.rejections.pasting import Parser, parsed, pasted
from tc.sac.text.rejections.unsupported import unsupported
from tc.sac.text.tokens import RELATIONS, STRENGTH
from tc.source import Edit

Side: TypeAlias = "Parsed[ast.Expr] | ast.Dot"
"""A side of a generator."""


def no_pattern(cursor: Cursor) -> ParseError:
    """The error where the index of a comprehension or of a generator is due."""
    if cursor.at("}"):
        return cursor.error(
            "expected an index and a body, found '}'; an empty vector is '[]'",
            idiom="{ iv -> a[iv] }",
        )
    count = 1
    while cursor.ahead(count).kind is Kind.NAME and cursor.ahead(count + 1).text == ",":
        count += 2
    if cursor.at("(") and cursor.ahead(count).kind is Kind.NAME:
        closing, arrow = cursor.ahead(count + 1), cursor.ahead(count + 2)
        if (closing.text, arrow.text) == (")", "->"):
            cause = f"expected an index: iv, or [i,j], found {describe(cursor.token)}"
            return _bare_names(cursor, cause, cursor.token.start, closing.end)
    return cursor.unexpected("an index: iv, or [i,j]", idiom="{ iv -> a[iv] }, { [i,j] -> a[j,i] }")


def _bare_names(cursor: Cursor, cause: str, start: int, end: int) -> ParseError:
    """The error for the names of a pattern, from `start` to `end`, that stand in no brackets."""
    span = cursor.span(start, end)
    names = ",".join(re.findall(r"\w+", span.text))
    return cursor.error(cause, span=span, paste=f"[{names}]")


def dot_in_index(cursor: Cursor, dot: ast.Dot | ast.Dots) -> ParseError:
    """The error for a dot in the index of a generator."""
    return cursor.error(
        f"'{dot.span.text}' stands in patterns before '->' only: a generator's index has none",
        span=dot.span,
        repair="write a name here",
    )


def doubled_index(cursor: Cursor, name: ast.Name, opening: Token) -> ParseError:
    """The error for a name that stands twice in a pattern (C3)."""
    return cursor.error(
        f"'{name.text}' stands twice in a pattern",
        rule="C3",
        span=cursor.span(opening.start, name.span.end),
        idiom="{ [i] -> m[i,i] }, for a diagonal; else a name of its own for each index",
    )


def no_index(cursor: Cursor) -> ParseError:
    """The error for what stands in a pattern and is no name."""
    if cursor.token.kind is Kind.NUMBER:
        return cursor.error(
            f"a pattern binds names: '{cursor.token.text}' is a number",
            idiom="{ [i,j] -> x | [0,0] <= [i,j] < [1,n] }, for one value of i",
        )
    return cursor.unexpected("an index: a name, '.' or '...'", repair="write a name here")


def no_arrow(cursor: Cursor) -> ParseError:
    """The error where the `->` of a partition is due."""
    cause = f"expected '->', found {describe(cursor.token)}"
    if cursor.at_word("in"):
        name = cursor.tokens[cursor.index - 1].text
        source = cursor.ahead(1).text if cursor.ahead(1).kind is Kind.NAME else "a"
        return cursor.error(cause, idiom=f"{{ [{name}] -> {source}[{name}] }}, for all elements")
    if any(cursor.at(sign) for sign in (":", "=>", "=", "-", ">", "<")):
        return cursor.error(cause, paste="->")
    count = 0
    while cursor.ahead(count).text == "," and cursor.ahead(count + 1).kind is Kind.NAME:
        count += 2
    before = cursor.tokens[cursor.index - 1]
    if count and cursor.ahead(count).text == "->" and before.kind is Kind.NAME:
        return _bare_names(cursor, cause, before.start, cursor.ahead(count - 1).end)
    if cursor.at("[") and before.text == "]" and cursor.ahead(1).kind is Kind.NAME:
        between = cursor.span(before.start, cursor.token.end)
        return cursor.error(cause, span=between, paste=",")
    if cursor.at("|") or cursor.at("}") or cursor.at(";") or cursor.at(","):
        return cursor.error(cause, idiom="{ iv -> a[iv] }, { [i,j] -> a[j,i] }")
    at = cursor.previous_end
    if cursor.at_end:
        return cursor.error(cause, repair="write '->' and the body here")
    return cursor.error(cause, edits=(Edit(cursor.span(at, at), " ->"),))


def refuse_empty_generator(cursor: Cursor, bar: Token) -> None:
    """Raise where nothing stands behind the `|` of a partition."""
    if cursor.at("}") or cursor.at(";"):
        raise cursor.error(
            f"expected a bound or an index after '|', found {describe(cursor.token)}",
            span=cursor.span_of(bar),
            paste="",
        )


def refuse_dots_in_index(cursor: Cursor, pattern: ast.Pattern, index: ast.Pattern) -> None:
    """Raise for a generator whose index has the dots of the pattern (C3)."""
    count, has_dots = 0, False
    while cursor.ahead(count).text in ("[", ",", ".", "...") or (
        count and cursor.ahead(count).kind is Kind.NAME
    ):
        has_dots |= cursor.ahead(count).text in (".", "...")
        count += 1
    if cursor.at("[") and has_dots and cursor.ahead(count).text == "]":
        raise cursor.error(
            f"a generator of the pattern {printed(pattern)} bounds {printed(index)}",
            rule="C3",
            span=cursor.span(cursor.token.start, cursor.ahead(count).end),
            paste=printed(index),
        )


def no_generator(
    cursor: Cursor,
    pattern: ast.Pattern,
    index: ast.Pattern,
    sides: Sequence[Side],
    relations: Sequence[Token],
) -> ParseError:
    """The error for a generator that bounds another index than the pattern's (C3), or none."""
    if not relations:
        return _one_sided(cursor, index, sides[0])
    due = printed(index)
    cause = f"a generator of the pattern {printed(pattern)} bounds {due}"
    names = (
        {index.name.text}
        if isinstance(index, ast.VectorPattern)
        else {name.text for name in index.names}
    )
    places = (1,) if len(sides) == 3 else (0, 1)
    if cursor.at(",") or cursor.at("&&"):
        zeros = ",".join("0" for _ in names)
        return cursor.error(
            cause,
            rule="C3",
            span=sides[0].span.to(sides[-1].span),
            idiom=f"[{zeros}] <= {due} < shape(a), one bound for all",
        )
    found = [at for at in places if _names_of(sides[at]) and _names_of(sides[at]) <= names]
    for at in found or [at for at in places if _names_of(sides[at])]:
        side = sides[at]
        bare = isinstance(side, Parsed) and side.span == side.expr.span
        if not found and not bare:
            continue
        edits = _renamed(side, [s for k, s in enumerate(sides) if k != at], index)
        if edits:
            return cursor.error(cause, rule="C3", span=side.span, edits=edits)
        return cursor.error(cause, rule="C3", span=side.span, idiom=f"{due} < shape(a)")
    span = sides[0].span.to(sides[-1].span)
    return cursor.error(cause, rule="C3", span=span, idiom=f"{due} < shape(a)")


def _renamed(written: Side, bounds: Sequence[Side], index: ast.Pattern) -> tuple[Edit, ...]:
    """The edit that gives a generator the index of its pattern; none where a bound has another
    length than that."""
    rows = [bound.expr for bound in bounds if isinstance(bound, Parsed)]
    if isinstance(index, ast.ScalarPattern) and any(
        isinstance(row, ast.Row) and len(row.items) != len(index.names) for row in rows
    ):
        return ()
    return (Edit(written.span, printed(index)),)


def _one_sided(cursor: Cursor, index: ast.Pattern, side: Side) -> ParseError:
    """The error for `| shape(a)`."""
    due = printed(index)
    cause = f"expected '<' or '<=' in the generator, found {describe(cursor.token)}"
    if cursor.is_foreign():
        return cursor.unexpected("'<' or '<='")
    if isinstance(side, Parsed) and not _names_of(side):
        return cursor.error(cause, span=side.span, idiom=f"{due} < {side.span.line[:60]}")
    return cursor.error(cause, idiom=f"{due} < shape(a)")


def _names_of(side: Side) -> set[str]:
    """The names of a side that is a name, or a row of names."""
    if isinstance(side, ast.Dot):
        return set()
    if isinstance(side.expr, ast.Name):
        return {side.expr.text}
    if isinstance(side.expr, ast.Row):
        names = {item.text for item in side.expr.items if isinstance(item, ast.Name)}
        return names if len(names) == len(side.expr.items) else set()
    return set()


def refuse_strict_dots(
    cursor: Cursor,
    lower: ast.Bound | None,
    upper: ast.Bound | None,
    relations: Sequence[Token],
) -> None:
    """Raise for `. <` and `< .` (C18)."""
    for bound, token, whole in ((lower, relations[0], ". <="), (upper, relations[-1], "<= .")):
        if bound is not None and isinstance(bound.value, ast.Dot) and bound.strict:
            dot = bound.value.span
            is_last = bound is upper and cursor.token.text == "}"
            raise cursor.error(
                f"'<' beside '.': write '{whole}' (or no bound) for all, or '< shape - 1'",
                rule="C18",
                span=cursor.span(min(dot.start, token.start), max(dot.end, token.end)),
                paste=None if is_last else whole,
                idiom="no bound of the last partition, as its selections give it"
                if is_last
                else None,
            )


_MIRRORED = {">": "<", ">=": "<="}


def refuse_other_relations(
    cursor: Cursor,
    sides: Sequence[Side],
    relations: Sequence[Token],
    parser: Parser,
) -> None:
    """Raise for `iv > 0` and `iv == 0`."""
    if cursor.at("==") or cursor.at("!="):
        raise cursor.error(
            "an index is bounded by '<' and '<='", idiom="[3] <= [i] < [4], for i == 3"
        )
    if cursor.token.text not in _MIRRORED:
        return
    cause = "an index is bounded by '<' and '<=', with the lower bound on its left"
    idiom = "[1] <= [i] < [5]"
    span = cursor.span_of(cursor.token)
    texts, signs = [side.span.line for side in sides], []
    try:
        while cursor.token.text in _MIRRORED and len(texts) < 3 and not relations:
            signs.append(_MIRRORED[cursor.step().text])
            if cursor.at("."):
                texts.append(cursor.step().text)
            else:
                texts.append(parsed(cursor, parser, STRENGTH["++"]).span.line)
    except ParseError:
        raise cursor.error(cause, span=span, idiom=idiom) from None
    if not signs or cursor.token.text in (*_MIRRORED, *RELATIONS):
        raise cursor.error(cause, span=span, idiom=idiom)
    text = texts[-1]
    for sign, other in zip(reversed(signs), reversed(texts[:-1]), strict=True):
        text += f" {sign} {other}"
    whole = cursor.span(sides[0].span.start, cursor.previous_end)
    raise pasted(cursor, cause, whole, text, idiom)


def no_loop_part(cursor: Cursor, opening: Token, parser: Parser) -> ParseError:
    """The error for what stands in a with-loop and is no partition."""
    before = cursor.tokens[cursor.index - 1].text
    if before in ("{", ";") and (
        cursor.at("[") or cursor.at(".") or cursor.token.kind is Kind.NAME
    ):
        start = cursor.token
        try:
            while not cursor.at(":"):
                if not cursor.accept("."):
                    parsed(cursor, parser, STRENGTH["++"])
                if cursor.token.text in RELATIONS:
                    cursor.step()
                elif not cursor.at(":"):
                    break
        except ParseError:
            pass
        if cursor.at(":") and cursor.previous_end > start.end:
            span = cursor.span(start.start, cursor.previous_end)
            return cursor.error(
                "a generator of a with-loop stands in parentheses",
                span=span,
                paste=f"({span.text})",
            )
        cursor.index = cursor.tokens.index(start)
        cursor.token = start
    if cursor.token.kind is Kind.NAME and cursor.ahead(1).text == "->":
        return cursor.error(
            "a with-loop has generators in parentheses, a comprehension has none",
            idiom="{ iv -> a[iv] + 1 }, without 'with'",
        )
    return cursor.missing(
        "'(' of a partition, ';' or '}' in the with-loop",
        repair="write '}' here",
        notes=((cursor.span_of(opening), "the '{' is here"),),
    )


def no_relation(cursor: Cursor, what: str, pattern: ast.Pattern | None) -> ParseError:
    """The error where `<` or `<=` is due in a with-loop, which has both bounds."""
    if cursor.at(")"):
        idiom = "(0 * shape(a) <= iv < shape(a)), (. <= iv <= .)"
        return cursor.error("a generator of a with-loop has both bounds", idiom=idiom)
    index = "iv" if pattern is None else printed(pattern)
    return cursor.unexpected(
        f"'<' or '<=' after {what}", idiom=f"(. <= {index} < shape(a)), with both bounds"
    )


def no_operation(cursor: Cursor) -> ParseError:
    """The error where the operation of a with-loop is due."""
    return cursor.unexpected(
        "genarray, modarray or fold after the partitions",
        idiom="with { (. <= iv <= .) : 1; } : genarray([3,4], 0)",
    )


def operands_of(cursor: Cursor, name: Token) -> ParseError:
    """The error for the wrong number of arguments of a with-loop's operation."""
    due, idiom = {
        "genarray": ("a shape and a default element", "genarray(shape(a), 0)"),
        "modarray": ("one array", "modarray(a)"),
        "fold": ("an operation and a neutral element", "fold(+, 0)"),
    }[name.text]
    span = cursor.span(name.start, cursor.previous_end)
    return cursor.error(f"'{name.text}' of a with-loop takes {due}", span=span, idiom=idiom)


def no_fold_operator(cursor: Cursor, folds: Sequence[str]) -> ParseError:
    """The error for another operation of a fold than those of the language (C27)."""
    token = cursor.token
    if token.kind is Kind.NAME:
        meant = {
            "add": "+",
            "plus": "+",
            "sum": "+",
            "mul": "*",
            "prod": "*",
            "and": "&&",
            "or": "||",
        }
        if token.text in meant:
            return cursor.error(f"a fold is with one of {' '.join(folds)}", paste=meant[token.text])
        return unsupported(
            cursor,
            f"folds with functions ('{token.text}'), other than {' '.join(folds)}",
            "sum(a), or a loop of Python around calls",
        )
    return cursor.error(
        f"expected one of {' '.join(folds)} to fold with, found {describe(token)}",
        idiom="fold(+, 0)",
    )


def refuse_where(cursor: Cursor) -> None:
    """Raise for `{ [i] -> e where [i] < [3] }`."""
    if cursor.at_word("where", "when", "such"):
        raise cursor.error(f"a generator stands behind '|', not '{cursor.token.text}'", paste="|")
