"""What stands behind the right side of a statement: its `where` and its annotation (T5, G8)."""

from __future__ import annotations

from collections.abc import Sequence

from tc.errors import ParseError
from tc.frontend import ast
from tc.frontend.conditions import (
    clause_slip,
    comparison_chain,
    misspelt_exists,
    old_range,
    unfinished_clause,
)
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import parse_apply, parse_part, starts_targets
from tc.frontend.repairs import joined_clauses
from tc.frontend.tokens import Kind
from tc.source import Edit

_STEP = "A(2*{0}) where {0} in 0:N/2, for every second element"


def parse_trailers(
    cursor: Cursor, values: Sequence[ParsedExpr]
) -> tuple[tuple[ast.Clause, ...], ast.Annotation | None]:
    """The clauses and the annotation of a statement, from behind its values on."""
    where: tuple[ast.Clause, ...] = ()
    annotation = None
    while cursor.at("where") or cursor.at("<=>"):
        if cursor.at("where"):
            if where:
                raise _second_where(cursor, where, values)
            cursor.step()
            where = _clauses(cursor, values)
        else:
            if annotation is not None:
                cause = "a statement has one '<=>' annotation"
                raise cursor.error(cause, rule="T5", repair="delete one of the two")
            annotation = _annotation(cursor)
    return where, annotation


def _annotation(cursor: Cursor) -> ast.Annotation:
    start = cursor.step().start
    name = cursor.name("an annotation after '<=>'")
    read = parse_apply(cursor, name, f"the arguments of '{name.text}'")
    return ast.Annotation(name, read.args, span=cursor.span(start, cursor.previous_end))


def _clauses(cursor: Cursor, values: Sequence[ParsedExpr]) -> tuple[ast.Clause, ...]:
    clauses = [_clause(cursor, values)]
    while cursor.accept(","):
        clauses.append(_clause(cursor, values))
    if (error := unfinished_clause(cursor, clauses[-1])) is not None:
        raise error
    return tuple(clauses)


def _clause(cursor: Cursor, values: Sequence[ParsedExpr]) -> ast.Clause:
    token, after = cursor.token, cursor.ahead(1)
    start = token.start
    if (error := clause_slip(cursor)) is not None:
        raise error
    if cursor.accept("exists"):
        tensor = cursor.name("a tensor after 'exists'")
        read = parse_apply(cursor, tensor, f"the subscripts of '{tensor.text}'")
        return ast.Exists(read, span=cursor.span(start, cursor.previous_end))
    if token.kind is Kind.NAME:
        if after.kind is Kind.NAME and after.text == "in" and not starts_targets(cursor, 1):
            return _range(cursor)
        if after.kind is Kind.SIGN and after.text == "=":
            return _binding(cursor)
        if after.kind is Kind.DIM and cursor.ahead(2).text == "=":
            return _size(cursor)
        if (error := misspelt_exists(cursor)) is not None:
            raise error
    part = parse_part(cursor)
    if (error := comparison_chain(cursor, values, part)) is not None:
        raise error
    return ast.Condition(part.expr, span=part.span)


def _range(cursor: Cursor) -> ast.RangeClause:
    name = cursor.name("an index variable")
    cursor.step()
    if cursor.at("["):
        raise old_range(cursor, name)
    begin = parse_part(cursor)
    if not cursor.accept(":"):
        raise _no_range_end(cursor, name, begin)
    end = parse_part(cursor)
    if cursor.at(":"):
        raise cursor.error("a range has no step", rule="T5", idiom=_STEP.format(name.text))
    span = cursor.span(name.span.start, end.end)
    return ast.RangeClause(name, begin.expr, end.expr, span=span)


def _binding(cursor: Cursor) -> ast.Binding:
    name = cursor.name("a binding")
    cursor.step()
    if cursor.at("["):
        raise old_range(cursor, name)
    value = parse_part(cursor)
    if cursor.accept(":"):
        end = parse_part(cursor)
        raise cursor.error(
            f"a range is written '{name.text} in begin:end'",
            rule="T5",
            span=cursor.span(name.span.start, end.end),
            paste=f"{name.text} in {value.span.line}:{end.span.line}",
        )
    return ast.Binding(name, value.expr, span=cursor.span(name.span.start, value.end))


def _size(cursor: Cursor) -> ast.SizeClause:
    tensor, dim = cursor.name("a target"), cursor.step()
    cursor.step()
    value = parse_part(cursor)
    span = cursor.span(tensor.span.start, value.end)
    return ast.SizeClause(tensor, int(dim.text[1:]), value.expr, span=span)


def _no_range_end(cursor: Cursor, name: ast.Name, begin: ParsedExpr) -> ParseError:
    """The error for a range without its `:`, such as `k in range(2)` or `k in 3`."""
    span = begin.span
    cause = f"the range of '{name.text}' is written 'begin:end'"
    match begin.expr:
        case ast.Apply(name=ast.Name(text="range" | "arange" | "prange"), args=args) if args:
            texts = [arg.span.line for arg in args]
            if len(args) <= 2:
                return cursor.error(cause, span=span, paste=":".join(("0", *texts)[-2:]))
            idiom = _STEP.format(name.text)
            return cursor.error(cause + ", and has no step", span=span, idiom=idiom)
        case ast.Number(value=int() as value) if value:
            return cursor.error(cause, span=span, paste=f"0:{value}")
    return cursor.missing(
        f"':' and the end of the range of '{name.text}'",
        repair=f"write both ends, for example {name.text} in 0:2",
    )


def _second_where(
    cursor: Cursor, where: tuple[ast.Clause, ...], values: Sequence[ParsedExpr]
) -> ParseError:
    span = cursor.span_of(cursor.step())
    more = _clauses(cursor, values)
    joined = joined_clauses((*where, *more))
    cause = "a statement has one 'where'; its clauses are separated by commas"
    if joined is None:
        return cursor.error(cause, rule="T5", span=span, idiom="where i in 0:2, j in 0:3")
    before = cursor.source.text.rfind("where", 0, where[0].span.start)
    edit = Edit(cursor.span(before, more[-1].span.end), joined)
    return cursor.error(cause, rule="T5", span=span, edits=(edit,))
