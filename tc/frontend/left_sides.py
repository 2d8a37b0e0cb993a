"""What stands before the operator of a statement and is not of the language: slices, parentheses
around the targets, more or fewer targets than values (T4).

A subscript on the left may be any expression; what it may mean is the checker's to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from tc.builtins import lookup
from tc.errors import ParseError
from tc.frontend.ast import Apply, Expr, Number, Target, Unary
from tc.frontend.constructs import stray_sign
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import behind_targets, parse_part, starts_targets
from tc.frontend.tokens import Kind, Token, is_assignment
from tc.wording import counted

_FORMS = frozenset(("pad", "concat"))
_SEVERAL = "m(n), at(n) max=! x(n, d), d"


def reject_left_side(cursor: Cursor) -> None:
    """Raise where a subscript on the left is, or goes on as, none of the language."""
    token = cursor.token
    if cursor.at(":"):
        raise cursor.error(
            "there are no slices: a subscript on the left is one place, for each value of its "
            "index variables",
            idiom="o(i) = x(i) where i in 0:3, for o(0:3); o(i, j) = x(i, j), for o(i, :)",
        )
    is_cast = cursor.is_type(token) and cursor.ahead(1).text == "("
    if token.kind is Kind.KEYWORD and not is_cast:
        raise cursor.no_name("an index variable")


def targets_in_parentheses(cursor: Cursor) -> ParseError | None:
    """The error for `(a, b) += x, y`, from the parenthesis on; None where it begins a call."""
    end = behind_targets(cursor, 1)
    if end is None or cursor.ahead(end).text != ")" or not is_assignment(cursor.ahead(end + 1)):
        return None
    value, behind = cursor.ahead(end + 2), cursor.ahead(end + 3)
    plain = all(cursor.ahead(n).text != "(" for n in range(1, end))
    is_value = value.kind is not Kind.NAME or behind.text == ","
    if plain and cursor.ahead(end + 1).text == "=" and not is_value:
        return None
    inside = cursor.span(cursor.ahead(1).start, cursor.ahead(end - 1).end)
    return cursor.error(
        "parentheses stand around the targets of a call of a def alone",
        span=cursor.span(cursor.token.start, cursor.ahead(end).end),
        paste=inside.text if "\n" not in inside.text else None,
        repair=None if "\n" not in inside.text else "write the targets without them",
    )


# --- as many values as targets ----------------------------------------------------------------


def too_many_values(
    cursor: Cursor, targets: Sequence[Target], values: Sequence[ParsedExpr]
) -> ParseError:
    """The error for `o(i) = x(i), y(i)`, from the comma on behind the last value that has a
    target."""
    if len(values) == 1 and (stray := stray_sign(cursor)) is not None:
        return stray
    if starts_targets(cursor, 1):
        return cursor.error("statements are separated by white space only", rule="T2", paste="")
    if cursor.ahead(1).kind is Kind.NAME and cursor.ahead(2).text == "in":
        return cursor.error("'where' stands before the ranges", rule="T5", paste=" where")
    count, start = len(values), values[0].start
    end = values[-1].end
    try:
        while cursor.accept(","):
            end = parse_part(cursor).end
            count += 1
    except ParseError:
        pass
    span = cursor.span(start, end)
    return cursor.error(_cause(targets, max(count, len(values) + 1)), span=span, idiom=_SEVERAL)


def too_few_values(
    cursor: Cursor, targets: Sequence[Target], operator: Token, values: Sequence[ParsedExpr]
) -> ParseError:
    """The error for `a(i), b(i) = x(i)`, behind the last value."""
    span = cursor.span(values[0].start, values[-1].end)
    cause = _cause(targets, len(values))
    value = values[0].expr
    if len(values) == 1 and _is_literal(value):
        paste = ", ".join([values[0].span.line] * len(targets))
        return cursor.error(cause, span=span, paste=paste)
    if len(values) == 1 and operator.text == "=" and _is_call(cursor, values[0]):
        cause += "; a call of a def writes whole tensors"
        left = cursor.span(targets[0].span.start, targets[-1].span.end)
        names = ", ".join(target.name.text for target in targets)
        return cursor.error(cause, span=left, paste=names if names != left.text else None)
    return cursor.error(cause, span=span, idiom=_SEVERAL)


def _cause(targets: Sequence[Target], values: int) -> str:
    return (
        f"{counted(len(targets), 'target')} and {counted(values, 'value')}: a statement has one "
        "value for each of its targets"
    )


def _is_literal(expr: Expr) -> bool:
    return isinstance(expr.operand if isinstance(expr, Unary) else expr, Number)


def _is_call(cursor: Cursor, value: ParsedExpr) -> bool:
    """Whether a value can only be a call of a def."""
    if not isinstance(value.expr, Apply) or value.start < value.expr.span.start:
        return False
    name = value.expr.name.text
    known = name in cursor.names.params or name in cursor.names.written
    return not known and lookup(name) is None and name not in _FORMS
