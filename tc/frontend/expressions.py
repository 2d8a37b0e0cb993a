"""Expressions: operator precedence with explicit stacks (T4).

The parser recurses only where brackets and `? :` nest, so the depth of its own recursion is
bounded by `MAX_NESTING`, whatever the text. The height of the trees is bounded by `MAX_HEIGHT`,
so that later passes may recurse over them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.ast import Apply, Binary, Cast, Conditional, Dim, Expr, Name, Number, Unary
from tc.frontend.cursor import Cursor
from tc.frontend.lexer import number_value
from tc.frontend.tokens import (
    FOREIGN,
    PRECEDENCE,
    PREFIX_PRECEDENCE,
    PREFIXES,
    TERNARY_PRECEDENCE,
    Kind,
    Token,
)

MAX_NESTING = 100
MAX_HEIGHT = 200

_SPLIT = "split the expression into several statements"


class Part(NamedTuple):
    """An expression, its extent with the parentheses around it, and its height as a tree."""

    expr: Expr
    start: int
    end: int
    height: int


class _Pending(NamedTuple):
    """An operator whose right operand is not complete yet; `then` is the middle of `? :`."""

    token: Token
    binding: int
    then: Part | None = None


def parse_part(cursor: Cursor, nesting: int = 0) -> Part:
    """One expression, as long as it goes, from the current token on."""
    operands: list[Part] = []
    pending: list[_Pending] = []
    while True:
        while cursor.token.kind is Kind.SIGN and cursor.token.text in PREFIXES:
            pending.append(_Pending(cursor.step(), PREFIX_PRECEDENCE))
        operands.append(_primary(cursor, nesting))
        token = cursor.token
        if token.kind is not Kind.SIGN:
            break
        if token.text in PRECEDENCE:
            binding = PRECEDENCE[token.text]
            _reduce(cursor, operands, pending, binding)
            pending.append(_Pending(cursor.step(), binding))
        elif token.text == "?":
            _reduce(cursor, operands, pending, TERNARY_PRECEDENCE + 1)
            cursor.step()
            then = parse_part(cursor, _nested(cursor, nesting))
            note = (cursor.span_of(token), "the '?' is here")
            cursor.expect(":", "of the conditional", notes=(note,))
            pending.append(_Pending(token, TERNARY_PRECEDENCE, then))
        elif token.text in FOREIGN:
            raise _foreign_operator(cursor, operands[-1], nesting)
        else:
            break
    _reduce(cursor, operands, pending, TERNARY_PRECEDENCE)
    return operands[0]


def parse_arguments(cursor: Cursor, nesting: int, what: str) -> tuple[Part, ...]:
    """A list in parentheses, perhaps empty, from its `(` on."""
    opening = cursor.expect("(", f"before {what}")
    inside = _nested(cursor, nesting)
    parts: list[Part] = []
    while not cursor.at(")") or parts:
        parts.append(parse_part(cursor, inside))
        if not cursor.accept(","):
            break
    close_bracket(cursor, opening, "',' or ')'")
    return tuple(parts)


def close_bracket(cursor: Cursor, opening: Token, wanted: str) -> Token:
    """Step over the `)` that closes a list, or raise with a note where the list opens."""
    if not cursor.at(")"):
        raise cursor.missing(
            wanted,
            repair=f"write {wanted} here",
            notes=((cursor.span_of(opening), "the '(' is here"),),
        )
    return cursor.step()


def starts_call_targets(cursor: Cursor, count: int) -> bool:
    """Whether `( names ) =` stands `count` tokens ahead: the targets of a call statement (T2)."""
    if cursor.ahead(count).text != "(":
        return False
    while True:
        if cursor.ahead(count + 1).kind is not Kind.NAME:
            return False
        count += 2
        if cursor.ahead(count).text != ",":
            break
    after = cursor.ahead(count + 1)
    return cursor.ahead(count).text == ")" and after.text == "=" and after.kind is Kind.SIGN


def reject_brackets(cursor: Cursor, name: Name) -> ParseError:
    """The error for `A[i][j]`, from its `[` on."""
    end = cursor.previous_end
    depth = 0
    while not cursor.at_end:
        if depth == 0 and not cursor.at("["):
            break
        token = cursor.step()
        depth += {"[": 1, "]": -1}.get(token.text, 0)
        end = token.end
    span = cursor.span(name.span.start, end)
    written = span.text
    inside = re.sub(r"\]\s*\[", ", ", written[len(name.text) :])
    readable = depth == 0 and len(written) <= 80 and "\n" not in written
    return cursor.error(
        "subscripts are written in parentheses",
        span=span,
        repair=name.text + inside.strip().replace("[", "(").replace("]", ")")
        if readable
        else f"{name.text}(i, j)",
    )


def _primary(cursor: Cursor, nesting: int) -> Part:
    token = cursor.token
    if token.kind is Kind.NUMBER:
        cursor.step()
        span = cursor.span_of(token)
        return _leaf(Number(token.text, number_value(token.text), span=span))
    if token.kind is Kind.NAME:
        return _named(cursor, nesting)
    if token.kind is Kind.KEYWORD and token.text in SPELLINGS:
        return _cast(cursor, nesting)
    if token.kind is Kind.SIGN and token.text == "(":
        cursor.step()
        inner = parse_part(cursor, _nested(cursor, nesting))
        closing = close_bracket(cursor, token, "')'")
        return inner._replace(start=token.start, end=closing.end)
    if token.kind is Kind.KEYWORD:
        raise cursor.no_name("a value")
    raise cursor.missing("an expression", repair="write a number, a name or '(' here")


def _named(cursor: Cursor, nesting: int) -> Part:
    name = cursor.name("a value")
    if cursor.token.kind is Kind.DIM:
        dim = cursor.step()
        span = cursor.span(name.span.start, dim.end)
        return _leaf(Dim(name, int(dim.text[1:]), span=span))
    if cursor.at("["):
        raise reject_brackets(cursor, name)
    if not cursor.at("(") or starts_call_targets(cursor, 0):
        return _leaf(name)
    parts = parse_arguments(cursor, nesting, f"the arguments of '{name.text}'")
    start, end = name.span.start, cursor.previous_end
    args = tuple(part.expr for part in parts)
    expr = Apply(name, args, span=cursor.span(start, end))
    return _checked(cursor, expr, start, end, *parts)


def _cast(cursor: Cursor, nesting: int) -> Part:
    spelling = cursor.step()
    if not cursor.at("("):
        raise cursor.unexpected(
            f"'(' after the type '{spelling.text}', which is a cast here",
            rule="T3",
            repair=f"{spelling.text}(x)",
        )
    parts = parse_arguments(cursor, nesting, "the value to cast")
    start, end = spelling.start, cursor.previous_end
    if len(parts) != 1:
        raise cursor.error(
            f"the cast '{spelling.text}' takes one value and is given {len(parts)}",
            rule="T3",
            span=cursor.span(start, end),
            repair=f"{spelling.text}({parts[0].expr.span.text if parts else 'x'})",
        )
    expr = Cast(spelling.text, parts[0].expr, span=cursor.span(start, end))
    return _checked(cursor, expr, start, end, parts[0])


def _reduce(cursor: Cursor, operands: list[Part], pending: list[_Pending], binding: int) -> None:
    """Apply the pending operators that bind at least so strongly, the last one first."""
    while pending and pending[-1].binding >= binding:
        token, strength, then = pending.pop()
        right = operands.pop()
        if strength == PREFIX_PRECEDENCE:
            span = cursor.span(token.start, right.end)
            unary = Unary(token.text, right.expr, span=span)
            operands.append(_checked(cursor, unary, token.start, right.end, right))
            continue
        left = operands.pop()
        span = cursor.span(left.start, right.end)
        if then is None:
            expr: Expr = Binary(token.text, left.expr, right.expr, span=span)
            parts: tuple[Part, ...] = (left, right)
        else:
            expr = Conditional(left.expr, then.expr, right.expr, span=span)
            parts = (left, then, right)
        operands.append(_checked(cursor, expr, left.start, right.end, *parts))


def _leaf(expr: Expr) -> Part:
    return Part(expr, expr.span.start, expr.span.end, 0)


def _checked(cursor: Cursor, expr: Expr, start: int, end: int, *parts: Part) -> Part:
    height = 1 + max((part.height for part in parts), default=0)
    if height > MAX_HEIGHT:
        raise cursor.error(
            f"the expression is more than {MAX_HEIGHT} operations deep",
            span=cursor.span(start, end),
            repair=_SPLIT,
        )
    return Part(expr, start, end, height)


def _nested(cursor: Cursor, nesting: int) -> int:
    if nesting >= MAX_NESTING:
        raise cursor.error(
            f"brackets and '? :' are nested more than {MAX_NESTING} deep",
            span=cursor.span(cursor.previous_end - 1, cursor.previous_end),
            repair=_SPLIT,
        )
    return nesting + 1


def _foreign_operator(cursor: Cursor, left: Part, nesting: int) -> ParseError:
    token = cursor.token
    if token.text not in ("^", "**"):
        return cursor.unexpected("an operator")
    cursor.step()
    try:
        right = _primary(cursor, nesting)
        end, exponent = right.end, right.expr.span.text
    except ParseError:
        end, exponent = token.end, "y"
    base = left.expr.span.text
    short = len(base) + len(exponent) <= 80 and "\n" not in base + exponent
    return cursor.error(
        f"there is no operator '{token.text}'",
        span=cursor.span(left.start, end),
        repair=f"pow({base}, {exponent})" if short else "pow(x, y)",
    )
