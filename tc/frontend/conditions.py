"""Clauses of a `where` that are none of the language: chains of comparisons, ranges as other
languages write them, conditions with one `=`, clauses without a comma (T5, G8, W1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tc.errors import ParseError
from tc.frontend.ast import (
    Apply,
    Binary,
    Binding,
    Clause,
    Condition,
    Conditional,
    Dim,
    Expr,
    Name,
    Number,
    walk,
)
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import parse_part, starts_call_targets, starts_targets
from tc.frontend.repairs import PYTHON_WORDS
from tc.frontend.token_cursor import describe
from tc.frontend.tokens import FOREIGN, PRECEDENCE, PREFIXES, Kind
from tc.source import Edit, Span

_RELATIONS = frozenset(("<", "<=", ">", ">="))
_COMPARING = _RELATIONS | {"==", "!="}
_EXISTS = frozenset(("exist", "exits", "existing"))
_CLAUSES = "where k in 0:2 gives a range; where x(i) > 0 selects"
_COMMAS = "the clauses of a 'where' are separated by commas"


def clause_slip(cursor: Cursor) -> ParseError | None:
    """The error for what begins no clause, at the first token of one."""
    token, after = cursor.token, cursor.ahead(1)
    if token.text == "for" and after.kind is Kind.NAME and cursor.ahead(2).text == "in":
        return cursor.error("a range begins with its index variable", rule="T5", paste="")
    if token.kind is Kind.KEYWORD:
        begins = token.text == "exists" or after.text == "("
        return None if begins else cursor.no_name("an index variable or a binding of the 'where'")
    begins = token.kind is not Kind.SIGN or token.text in (*PREFIXES, *FOREIGN, "(", "|")
    if token.kind is Kind.END or not begins:
        return cursor.unexpected("a clause of the 'where'", rule="T5", idiom=_CLAUSES)
    return None


def misspelt_exists(cursor: Cursor) -> ParseError | None:
    """The error for `exist x(i)`, at its first word."""
    token = cursor.token
    reads = cursor.ahead(1).kind is Kind.NAME and cursor.ahead(2).text == "("
    if token.text.lower() not in _EXISTS or not reads or starts_targets(cursor, 1):
        return None
    return cursor.error(
        f"there is no '{token.text}' in a 'where'; what gives a range and is not read is "
        "written 'exists x(i)'",
        rule="T5",
        paste="exists",
    )


# --- where a clause ends ----------------------------------------------------------------------


def unfinished_clause(cursor: Cursor, last: Clause) -> ParseError | None:
    """The error where the last clause goes on as none does, behind it."""
    token, expr = cursor.token, last.test if isinstance(last, Condition) else None
    if token.kind in (Kind.END, Kind.KEYWORD) or token.text in ("}", "<=>"):
        return None
    if token.kind is Kind.NAME:
        return None if starts_targets(cursor, 0) else _at_name(cursor, last)
    if token.text == "(" and starts_call_targets(cursor, 0):
        return None
    if expr is None or token.text in FOREIGN:
        return None
    if token.text == "=":
        cause = "'=' gives a name its value; a comparison is '=='"
        return cursor.error(cause, rule="T5", paste="==")
    if isinstance(expr, Name) and not token.text.startswith("."):
        return _bare_name(cursor, expr)
    if isinstance(expr, Dim):
        return _no_size(cursor, expr)
    if token.text == ":":
        cause = "a range begins with its index variable and 'in'"
        return cursor.error(cause, rule="T5", span=expr.span, idiom=_CLAUSES)
    return None


def _at_name(cursor: Cursor, last: Clause) -> ParseError | None:
    """The error for a clause behind which a name stands that begins no statement."""
    token, expr = cursor.token, last.test if isinstance(last, Condition) else None
    if token.text == "in":
        return _stray_in(cursor, last)
    ends = not isinstance(last, Binding | Condition) or cursor.ahead(2).text in ("in", "=")
    if token.text == "and" and ends:
        return cursor.error(_COMMAS, rule="T5", paste=",")
    if isinstance(expr, Name) and expr.text == "not":
        return cursor.python_word(cursor.index - 1)
    if token.text in PYTHON_WORDS:
        return None
    count = 1 + (cursor.ahead(1).kind is Kind.DIM)
    behind = cursor.behind(count) if cursor.ahead(count).text == "(" else cursor.ahead(count)
    if behind.text in _COMPARING or (count == 1 and behind.text == "in") or behind.text == "=":
        end = cursor.previous_end
        return cursor.error(_COMMAS, rule="T5", span=cursor.span(end, end), paste=",")
    if isinstance(expr, Name):
        return _bare_name(cursor, expr)
    return _no_size(cursor, expr) if isinstance(expr, Dim) else None


def _bare_name(cursor: Cursor, name: Name) -> ParseError:
    """The error for `i from 0 to 3`, behind its first name."""
    cause = f"expected 'in' or '=' after '{name.text}' in the 'where', found "
    return cursor.error(cause + describe(cursor.token), rule="T5", idiom=_CLAUSES)


def _no_size(cursor: Cursor, dim: Dim) -> ParseError:
    """The error for `o.0: N` and `o.0 N`, behind the size."""
    size = dim.span.text
    begin = cursor.token
    if cursor.accept(":") or cursor.token.kind is Kind.NUMBER or cursor.token.kind is Kind.NAME:
        try:
            value = parse_part(cursor)
        except ParseError:
            pass
        else:
            span = cursor.span(dim.span.start, value.end)
            paste = f"{size} = {value.span.line}"
            cause = f"the size '{size}' is given by '='"
            return cursor.error(cause, rule="T5", span=span, paste=paste)
    cause = f"expected '=' after '{size}' in the 'where', found {describe(begin)}"
    return cursor.error(cause, rule="T5", span=cursor.span_of(begin), idiom=f"{size} = 8")


def _stray_in(cursor: Cursor, last: Clause) -> ParseError | None:
    """The error for `2 * i in 0:3`, `o.0 in 0:3` and `i in 0:2 && j in 0:3`, at an `in`."""
    before, joined, name = cursor.tokens[cursor.index - 3 : cursor.index]
    if joined.text == "&&" and name.kind is Kind.NAME:
        span = cursor.span(before.end, name.start)
        return cursor.error(_COMMAS, rule="T5", span=span, paste=", ")
    if not isinstance(last, Condition):
        return None
    cursor.step()
    what = _operand(last.test)
    try:
        begin = parse_part(cursor)
        cursor.expect(":", "in the range")
        end_of = parse_part(cursor)
    except ParseError:
        cause = f"'{what}' is no index variable, and has no range"
        return cursor.error(cause, rule="T5", span=last.span, idiom=_CLAUSES)
    span = cursor.span(last.span.start, end_of.end)
    if isinstance(last.test, Dim):
        cause = f"'{what}' is a size, and has a value instead of a range"
        return cursor.error(cause, rule="T5", span=span, paste=f"{what} = {end_of.span.line}")
    first, second = _operand(begin.expr), _operand(end_of.expr)
    cause = f"'{what}' is no index variable; which of its values count is told by conditions"
    return cursor.error(cause, rule="T5", span=span, paste=f"{first} <= {what}, {what} < {second}")


def _operand(expr: Expr) -> str:
    """The text of an expression as an operand of a comparison."""
    loose = isinstance(expr, Binary) and PRECEDENCE[expr.op] <= PRECEDENCE["<"]
    return f"({expr.span.line})" if loose or isinstance(expr, Conditional) else expr.span.line


# --- chains of comparisons --------------------------------------------------------------------


def comparison_chain(
    cursor: Cursor, values: Sequence[ParsedExpr], part: ParsedExpr
) -> ParseError | None:
    """The error for the condition `0 <= i < 3`; None for one without a chain."""
    conjuncts = _conjuncts(part.expr)
    chain = next((conjunct for conjunct in conjuncts if _inner(conjunct)), None)
    if chain is None:
        return None
    links = [link for conjunct in conjuncts for link in _links(conjunct)]
    if (ranges := _ranges(cursor, values, links)) is not None:
        cause = "a range is written 'k in begin:end'"
        return cursor.error(cause, rule="T5", span=part.span, paste=", ".join(ranges))
    assert isinstance(chain, Binary)
    cause = (
        f"'{chain.span.line}' compares '{chain.right.span.line}' with what "
        f"'{chain.left.span.line}' is, which is 0 or 1"
    )
    paste = ", ".join(link.span.line for link in links)
    if "#" in part.span.text or len(paste) > 160:
        return cursor.error(cause, rule="T5", span=part.span, idiom="0 <= x(i), x(i) < 2")
    return cursor.error(cause, rule="T5", span=part.span, paste=paste)


def _conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The operands of the `&&` outside of all other operators."""
    found: list[Expr] = []
    while isinstance(expr, Binary) and expr.op == "&&":
        found = [expr.right, *found]
        expr = expr.left
    return (expr, *found)


def _inner(expr: Expr) -> Binary | None:
    """The comparison without parentheses of which a comparison compares the outcome."""
    if not isinstance(expr, Binary) or not isinstance(expr.left, Binary):
        return None
    inner, compares = expr.left, expr.op in _RELATIONS and expr.left.op in _RELATIONS
    return inner if compares and inner.span.start == expr.span.start else None


def _links(expr: Expr) -> tuple[Expr, ...]:
    """The comparisons of neighbours that a chain is read as elsewhere; else the expression."""
    found: list[Expr] = []
    while (inner := _inner(expr)) is not None:
        assert isinstance(expr, Binary)
        source, end = expr.span.source, inner.left.span.end
        start = source.text.find(inner.op, end) + len(inner.op)
        while source.text[start].isspace():
            start += 1
        span = Span(source, start, expr.span.end)
        found.append(Binary(expr.op, inner.right, expr.right, span=span))
        expr = inner
    return (expr, *reversed(found))


class _Bounds(NamedTuple):
    """The bounds that comparisons give to one index variable, as far as they are known."""

    begin: str | None = None
    end: str | None = None


def _ranges(
    cursor: Cursor, values: Sequence[ParsedExpr], comparisons: Sequence[Expr]
) -> list[str] | None:
    """The range clauses that comparisons of index variables with sizes say."""
    bounds: dict[str, _Bounds] = {}
    for expr in comparisons:
        found = _bound(cursor, expr)
        if found is None:
            return None
        name, bound = found
        known = bounds.get(name, _Bounds())
        if (known.begin and bound.begin) or (known.end and bound.end):
            return None
        bounds[name] = _Bounds(known.begin or bound.begin, known.end or bound.end)
    clauses = []
    for name, (begin, end) in bounds.items():
        sizes = [size for value in values for size in _sizes_at(cursor, value.expr, name)]
        end = end or (sizes[0] if len(set(sizes)) == 1 else None)
        if end is None:
            return None
        clauses.append(f"{name} in {begin or 0}:{end}")
    return clauses


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _bound(cursor: Cursor, expr: Expr) -> tuple[str, _Bounds] | None:
    """The index variable and its bounds of `k < 2`, `2 > k` and `k == 2`; None where it is another
    expression."""
    if not isinstance(expr, Binary):
        return None
    op, left, right = expr.op, expr.left, expr.right
    if isinstance(right, Name) and _is_size(cursor, left) and op in _MIRRORED:
        op, left, right = _MIRRORED[op], right, left
    if not isinstance(left, Name) or not _is_index(cursor, left) or not _is_size(cursor, right):
        return None
    text = right.span.line
    after = str(right.value + 1) if isinstance(right, Number) else f"{text} + 1"
    bounds = {
        "<": _Bounds(None, text),
        "<=": _Bounds(None, after),
        ">": _Bounds(after),
        ">=": _Bounds(text),
        "==": _Bounds(text, after),
    }
    return (left.text, bounds[op]) if op in bounds else None


def _is_index(cursor: Cursor, name: Name) -> bool:
    names = cursor.names
    return not any(name.text in known for known in (names.params, names.sizes(), names.written))


def _is_size(cursor: Cursor, expr: Expr) -> bool:
    """Whether an expression is of sizes, integers and integer parameters alone."""
    scalars = (name for name, type_ in cursor.names.params.items() if not type_.dims)
    known = cursor.names.sizes().union(scalars)
    for node in walk(expr):
        if isinstance(node, Name) and node.text not in known:
            return False
        if not isinstance(node, Name | Number | Dim | Binary) or (
            isinstance(node, Number) and isinstance(node.value, float)
        ):
            return False
        if isinstance(node, Binary) and node.op not in ("+", "-", "*", "/", "%"):
            return False
    return True


def _sizes_at(cursor: Cursor, expr: Expr, index: str) -> list[str | None]:
    """The sizes of the dimensions at which an expression reads tensors by an index variable alone;
    None for those that the text does not tell."""
    found = (
        _size_text(cursor, node.name.text, axis)
        for node in walk(expr)
        if isinstance(node, Apply)
        for axis, arg in enumerate(node.args)
        if isinstance(arg, Name) and arg.text == index
    )
    return list(dict.fromkeys(found))


def _size_text(cursor: Cursor, tensor: str, axis: int) -> str | None:
    """The size of a dimension of a parameter, as the text names it."""
    type_ = cursor.names.params.get(tensor)
    dims = (type_.dims or ()) if type_ else ()
    if axis >= len(dims):
        return None
    dim = dims[axis]
    return dim.text if isinstance(dim, Name) else str(dim.value)


# --- ranges of other languages ----------------------------------------------------------------


def old_range(cursor: Cursor, name: Name) -> ParseError:
    """The error for `k = [0, 2[`, the old spelling of a range, from its `[` on."""
    opening = cursor.step()
    start = opening.start
    begin, end = "", ""
    try:
        first = parse_part(cursor)
        cursor.expect(",", "in the range")
        # the closing '[' may look like a subscript of the last name
        stop = cursor.token.start
        cursor.skip_to("[", "]", ")")
        if cursor.token.text in ("[", "]", ")"):
            begin = cursor.span(first.start, first.end).line
            end = cursor.span(stop, cursor.previous_end).line
            if cursor.step().text == "]":
                end = _next(end)
    except ParseError:
        pass
    span = cursor.span(start, cursor.previous_end)
    cause = "a range is written 'begin:end'"
    if len(span.text) <= 80:
        cause += f", not '{span.line}'"
    if not begin or "#" in span.text:
        return cursor.error(cause, span=span, idiom=f"where {name.text} in 0:2")
    whole = cursor.span(name.span.start, span.end)
    edits = (Edit(whole, f"{name.text} in {begin}:{end}"),)
    return cursor.error(cause, span=span, edits=edits)


def _next(end: str) -> str:
    """The `end` of a range `begin:end` whose last value is given.

    >>> _next("2"), _next("N - 1"), _next("N")
    ('3', 'N', 'N + 1')
    """
    if end.isdecimal():
        return str(int(end) + 1)
    before = re.fullmatch(r"([\w.]+) *- *1", end)
    return before[1] if before else f"{end} + 1"
