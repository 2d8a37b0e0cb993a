"""What stands behind the right side of a statement: its `where` and its annotation (T5, G8)."""

from __future__ import annotations

from tc.errors import ParseError
from tc.frontend import ast
from tc.frontend.conditions import condition, old_range
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import parse_apply, parse_part
from tc.frontend.repairs import joined_clauses
from tc.frontend.tokens import Kind
from tc.source import Edit

_STEP = "A(2*{0}) where {0} in 0:N/2, for every second element"


def parse_trailers(
    cursor: Cursor, rhs: ParsedExpr
) -> tuple[tuple[ast.Clause, ...], ast.Annotation | None]:
    where: tuple[ast.Clause, ...] = ()
    annotation = None
    while cursor.at("where") or cursor.at("<=>"):
        if cursor.at("where"):
            if where:
                raise _second_where(cursor, where, rhs)
            cursor.step()
            where = _clauses(cursor, rhs)
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


def _clauses(cursor: Cursor, rhs: ParsedExpr) -> tuple[ast.Clause, ...]:
    clauses = [_clause(cursor, rhs, 0)]
    while cursor.accept(","):
        clauses.append(_clause(cursor, rhs, len(clauses)))
    if cursor.token.text in ("and", "&&") and cursor.ahead(2).text in ("in", "="):
        raise cursor.error("the clauses of a 'where' are separated by commas", rule="T5", paste=",")
    return tuple(clauses)


def _clause(cursor: Cursor, rhs: ParsedExpr, count: int) -> ast.Clause:
    start = cursor.token.start
    if cursor.token.text == "for" and cursor.ahead(1).kind is Kind.NAME:
        raise cursor.error("a range begins with its index variable", rule="T5", paste="")
    if cursor.accept("exists"):
        tensor = cursor.name("a tensor after 'exists'")
        read = parse_apply(cursor, tensor, f"the subscripts of '{tensor.text}'")
        return ast.Exists(read, span=cursor.span(start, cursor.previous_end))
    is_cast = cursor.token.kind is Kind.KEYWORD and cursor.ahead(1).text == "("
    begins = cursor.token.kind in (Kind.NUMBER, Kind.SIGN) and not cursor.at("}")
    if is_cast or begins:
        raise condition(cursor, rhs, count, None)
    name = cursor.name("an index variable or a binding of the 'where'")
    if cursor.token.kind is Kind.NAME and cursor.token.text == "in":
        cursor.step()
        return _range(cursor, name)
    if cursor.accept("="):
        if cursor.at("["):
            raise old_range(cursor, name)
        value = parse_part(cursor)
        if cursor.accept(":"):
            end = parse_part(cursor)
            raise cursor.error(
                f"a range is written '{name.text} in begin:end'",
                rule="T5",
                span=cursor.span(start, end.end),
                paste=f"{name.text} in {value.span.line}:{end.span.line}",
            )
        return ast.Binding(name, value.expr, span=cursor.span(start, value.end))
    raise condition(cursor, rhs, count, name)


def _range(cursor: Cursor, name: ast.Name) -> ast.RangeClause:
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


def _second_where(cursor: Cursor, where: tuple[ast.Clause, ...], rhs: ParsedExpr) -> ParseError:
    span = cursor.span_of(cursor.step())
    more = _clauses(cursor, rhs)
    joined = joined_clauses((*where, *more))
    cause = "a statement has one 'where'; its clauses are separated by commas"
    if joined is None:
        return cursor.error(cause, rule="T5", span=span, idiom="where i in 0:2, j in 0:3")
    before = cursor.source.text.rfind("where", 0, where[0].span.start)
    edit = Edit(cursor.span(before, more[-1].span.end), joined)
    return cursor.error(cause, rule="T5", span=span, edits=(edit,))
