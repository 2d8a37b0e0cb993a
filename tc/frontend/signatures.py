"""The header of a def: parameters, returns and their types (rules T3, T4)."""

from __future__ import annotations

import difflib

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.ast import Name, Number, Param, Return, TensorType
from tc.frontend.cursor import Cursor
from tc.frontend.expressions import close_bracket
from tc.frontend.lexer import number_value
from tc.frontend.tokens import Kind

_FOREIGN_TYPES = {
    "char": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "unsigned": "uint32",
    "uint": "uint32",
    "size_t": "uint64",
    "real": "float32",
    "single": "float32",
    "bfloat16": "float16",
    "boolean": "bool",
}


def parse_params(cursor: Cursor, name: Name) -> tuple[Param, ...]:
    """`(float(N) A, int k)`, from its `(` on."""
    opening = cursor.expect("(", f"before the parameters of '{name.text}'")
    params: list[Param] = []
    while not cursor.at(")") or params:
        params.append(_param(cursor))
        if not cursor.accept(","):
            break
    close_bracket(cursor, opening, "',' or ')' after the parameter")
    return tuple(params)


def parse_returns(cursor: Cursor, name: Name) -> tuple[Return, ...]:
    """`-> (C, float(N) D)`, from its `->` on."""
    if not cursor.at("->"):
        repair = "-> (C)"
        if cursor.at("("):
            repair = "write '->' here"
        raise cursor.unexpected(f"'->' and the returns of '{name.text}'", repair=repair)
    cursor.step()
    if not cursor.at("("):
        raise _no_parentheses(cursor, name)
    opening = cursor.step()
    if cursor.at(")"):
        raise cursor.error(
            f"'{name.text}' returns nothing; a def computes at least one tensor",
            span=cursor.span(opening.start, cursor.token.end),
            repair="-> (C)",
        )
    returns = [_return(cursor)]
    while cursor.accept(","):
        returns.append(_return(cursor))
    close_bracket(cursor, opening, "',' or ')' after the return")
    return tuple(returns)


def _param(cursor: Cursor) -> Param:
    start = cursor.token.start
    token, after = cursor.token, cursor.ahead(1)
    if token.kind is Kind.NAME and after.kind is Kind.SIGN and after.text in (",", ")"):
        raise cursor.error(
            f"the parameter '{token.text}' has no type",
            rule="T3",
            repair=f"float(N) {token.text}",
        )
    type_ = _type(cursor, "a parameter")
    name = cursor.name("a parameter")
    return Param(type_, name, span=cursor.span(start, name.span.end))


def _return(cursor: Cursor) -> Return:
    start = cursor.token.start
    after = cursor.ahead(1)
    typed = cursor.token.kind is Kind.KEYWORD or (
        cursor.token.kind is Kind.NAME and (after.text == "(" or after.kind is Kind.NAME)
    )
    type_ = _type(cursor, "a return") if typed else None
    name = cursor.name("a return")
    return Return(type_, name, span=cursor.span(start, name.span.end))


def _type(cursor: Cursor, what: str) -> TensorType:
    token = cursor.token
    if token.kind is not Kind.KEYWORD or token.text not in SPELLINGS:
        raise _no_type(cursor, what)
    spelling = cursor.step()
    dims = _dims(cursor) if cursor.at("(") else None
    return TensorType(spelling.text, dims, span=cursor.span(spelling.start, cursor.previous_end))


def _dims(cursor: Cursor) -> tuple[Name | Number, ...]:
    opening = cursor.step()
    dims: list[Name | Number] = []
    while not cursor.at(")") or dims:
        dims.append(_dim(cursor))
        if not cursor.accept(","):
            break
    close_bracket(cursor, opening, "',' or ')' after the dimension")
    return tuple(dims)


def _dim(cursor: Cursor) -> Name | Number:
    token = cursor.token
    if token.kind is not Kind.NUMBER:
        return cursor.name("a size")
    value = number_value(token.text)
    if isinstance(value, float):
        raise cursor.error(
            f"a dimension is a whole number or a name, and '{token.text}' is neither",
            repair=str(int(value)) if value < 1e15 else "N",
        )
    cursor.step()
    return Number(token.text, value, span=cursor.span_of(token))


def _no_type(cursor: Cursor, what: str) -> ParseError:
    token = cursor.token
    if token.kind is not Kind.NAME:
        return cursor.unexpected(f"the type of {what}", rule="T3", repair="float(N) A")
    near = difflib.get_close_matches(token.text.lower()[:40], SPELLINGS, n=1)
    known = _FOREIGN_TYPES.get(token.text.lower()) or (near[0] if near else None)
    return cursor.error(
        f"'{token.text}' is not a type",
        rule="T3",
        repair=known or "write one of " + ", ".join(SPELLINGS),
    )


def _no_parentheses(cursor: Cursor, name: Name) -> ParseError:
    """The error for `-> C {`."""
    first = cursor.token
    while cursor.token.text not in ("{", "}", "=") and not cursor.at_end:
        cursor.step()
    span = cursor.span(first.start, max(cursor.previous_end, first.end))
    written = " ".join(span.text.split())
    known = cursor.at("{") and first.kind in (Kind.NAME, Kind.KEYWORD) and len(written) <= 80
    return cursor.error(
        f"the returns of '{name.text}' are written in parentheses",
        span=span,
        repair=f"-> ({written if known else 'C'})",
    )
