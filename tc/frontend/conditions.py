"""Conditions in a `where`: of an index variable they are ranges, otherwise guards (T5, G8).

`where i > 0` says which values `i` takes; `where x(i) > 0` selects by what a tensor holds, which
the right side says here: `x(i) > 0 ? ... : 0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tc.errors import ParseError
from tc.frontend.ast import Apply, Binary, Dim, Expr, Name, Number, walk
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import parse_part
from tc.frontend.left_sides import sizes_at
from tc.frontend.token_cursor import describe
from tc.frontend.tokens import Kind
from tc.source import Edit, Span

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_IDENTITIES = {"+=": "0", "*=": "1"}
_EXISTS = frozenset(("exist", "exits", "existing"))


@dataclass
class _Bounds:
    """The bounds that comparisons give to one index variable, and the texts of these
    comparisons."""

    begin: str | None = None
    end: str | None = None
    texts: list[str] = field(default_factory=list)


def condition(
    cursor: Cursor, rhs: ParsedExpr, clauses_before: int, name: Name | None
) -> ParseError:
    """The error for a condition in a `where`, from its first token on; of its first name, if the
    cursor has stepped over that."""
    first = cursor.tokens[cursor.index - 1] if name else cursor.token
    found = describe(cursor.token)
    if name is not None:
        cursor.index -= 1
        cursor.token = first
    plain = cursor.error(
        f"expected 'in' or '=' after '{name.text}' in the 'where', found {found}"
        if name
        else f"expected a range, a value or a read in the 'where', found {found}",
        rule="T5",
        idiom="where k in 0:2 gives a range; x(i) > 0 ? x(i) : 0, on the right side, selects",
    )
    if name is not None and name.text.lower() in _EXISTS and cursor.ahead(2).text == "(":
        return cursor.error(
            f"there is no '{name.text}' in a 'where'; what gives a range and is not read is "
            "written 'exists x(i)'",
            rule="T5",
            paste="exists",
        )
    try:
        part = parse_part(cursor)
        parts = [part]
        while cursor.at(",") and not _is_clause(cursor):
            cursor.step()
            parts.append(parse_part(cursor))
    except ParseError:
        return plain
    conditions = [c for part in parts for c in _conjuncts(part.expr)]
    span = cursor.span(first.start, parts[-1].end)
    if not all(isinstance(c, Binary) for c in conditions) and len(conditions) > 1:
        return plain
    if isinstance(parts[0].expr, Name):  # as in `i from 0 to 3`
        return plain
    ranges = _ranges(cursor, rhs, conditions)
    if ranges is not None:
        return cursor.error(
            "a range is written 'k in begin:end'", rule="T5", span=span, paste=", ".join(ranges)
        )
    return _guard(cursor, rhs, parts, clauses_before)


def _is_clause(cursor: Cursor) -> bool:
    """Whether a clause of the language follows the comma here."""
    after = cursor.ahead(2)
    return cursor.ahead(1).text == "exists" or after.text in ("in", "=")


def _conjuncts(expr: Expr) -> Iterable[Expr]:
    if isinstance(expr, Binary) and expr.op == "&&":
        return (*_conjuncts(expr.left), *_conjuncts(expr.right))
    return (expr,)


def _ranges(cursor: Cursor, rhs: ParsedExpr, conditions: list[Expr]) -> list[str] | None:
    """The range clauses that comparisons of index variables with sizes say."""
    bounds: dict[str, _Bounds] = {}
    for expr in conditions:
        if not isinstance(expr, Binary) or not _take_bound(cursor, expr, bounds):
            return None
    clauses = []
    for name, found in bounds.items():
        sizes = sizes_at(cursor, rhs.expr, name)
        end = found.end or (sizes[0] if len(sizes) == 1 else None)
        if end is None:
            return None
        clauses.append(f"{name} in {found.begin or 0}:{end}")
    return clauses


def _take_bound(cursor: Cursor, expr: Binary, bounds: dict[str, _Bounds]) -> bool:
    """Take the bound from `k < 2`, `2 > k`, `k == 2` or `0 <= k < 2`; False where it is none."""
    op, left, right = expr.op, expr.left, expr.right
    if isinstance(left, Binary) and left.op in _MIRRORED and op in _MIRRORED:
        middle = Binary(op, left.right, right, span=expr.span)
        return _take_bound(cursor, left, bounds) and _take_bound(cursor, middle, bounds)
    if isinstance(right, Name) and _is_size(cursor, left) and op in _MIRRORED:
        op, left, right = _MIRRORED[op], right, left
    if not isinstance(left, Name) or not _is_index(cursor, left) or not _is_size(cursor, right):
        return False
    text = right.span.line
    found = bounds.setdefault(left.text, _Bounds())
    after = str(right.value + 1) if isinstance(right, Number) else f"{text} + 1"
    begin, end = {
        "<": (None, text),
        "<=": (None, after),
        ">": (after, None),
        ">=": (text, None),
        "==": (text, after),
    }.get(op, (None, None))
    if (begin and found.begin) or (end and found.end) or not (begin or end):
        return False
    found.begin, found.end = begin or found.begin, end or found.end
    return True


def _is_index(cursor: Cursor, name: Name) -> bool:
    return name.text not in cursor.names.params and name.text not in cursor.names.sizes()


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


def _guard(
    cursor: Cursor, rhs: ParsedExpr, parts: list[ParsedExpr], clauses_before: int
) -> ParseError:
    """The error for a condition that no range says."""
    span = cursor.span(parts[0].start, parts[-1].end)
    assert cursor.statement is not None
    operator = cursor.statement[1].text.rstrip("!")
    texts = [part.span.line for part in parts]
    if len(texts) > 1:
        texts = [f"({t})" if "||" in t or "?" in t else t for t in texts]
    test = " && ".join(texts)
    value = rhs.span.line
    other = _IDENTITIES.get(operator, "0")
    guarded = f"{f'({test})' if '?' in test else test} ? {value} : {other}"
    cause = (
        f"'{test}' gives no index variable a range: a 'where' says which values index variables "
        "take, and a condition on data is a choice on the right side, c ? x : y"
    )
    if "#" in cursor.span(rhs.start, span.end).text or len(guarded) > 160:
        return cursor.error(cause, rule="T5", span=span, idiom="x(i) > 0 ? x(i) : 0")
    start = cursor.statement[0]
    left = cursor.span(start, rhs.start).text
    guard = Edit(cursor.span(start, rhs.end), left + guarded)
    edits = (guard, Edit(_with_its_comma(cursor, parts, clauses_before), ""))
    if operator in _IDENTITIES:
        return cursor.error(cause, rule="T5", span=span, edits=edits)
    return cursor.error(
        cause,
        rule="T5",
        span=span,
        idiom=f"with what stands where it does not hold in place of {other},"
        if not isinstance(parts[0].expr, Apply)
        else f"where exists {test}, for the range of '{parts[0].expr.name.text}'; as a condition,",
        example=edits,
    )


def _with_its_comma(cursor: Cursor, parts: list[ParsedExpr], clauses_before: int) -> Span:
    """The span to delete with a clause: the clause and its comma, or its `where` if no other clause
    stands there."""
    start, end = parts[0].start, parts[-1].end
    follows = cursor.at(",") and cursor.token.kind is Kind.SIGN
    if not clauses_before and follows:
        return cursor.span(start, cursor.ahead(1).start)
    before = max(
        (token for token in cursor.tokens if token.end <= start), key=lambda token: token.end
    )
    text = cursor.source.text
    begin = before.start
    while text[begin - 1].isspace():
        begin -= 1
    return cursor.span(begin, end)


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
