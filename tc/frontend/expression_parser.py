"""Expressions of the language: their operands, and the errors for operators of other languages
(T4)."""

from __future__ import annotations

from tc.errors import ParseError
from tc.frontend import foreign
from tc.frontend.ast import Apply, Binary, Cast, Conditional, Dim, Expr, Name, Number, Unary
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.lexer import number_value
from tc.frontend.long_chains import in_a_row, regrouped
from tc.frontend.operator_parser import MAX_HEIGHT, OperatorParser, Pending
from tc.frontend.rejections import choice_text, matrix_product, reject_brackets, reject_slice
from tc.frontend.token_cursor import NESTS, Parsed
from tc.frontend.tokens import (
    COMPARISONS,
    FOREIGN,
    PRECEDENCE,
    PREFIX_PRECEDENCE,
    PREFIXES,
    TERNARY_PRECEDENCE,
    Kind,
    Token,
    is_assignment,
)
from tc.source import Source


class _Expressions(OperatorParser[Cursor, Expr]):
    STRENGTH = PRECEDENCE
    TERNARY_STRENGTH = TERNARY_PRECEDENCE
    PREFIX_STRENGTH = PREFIX_PRECEDENCE
    PREFIXES = PREFIXES

    def primary(self, cursor: Cursor, nesting: int) -> ParsedExpr:
        token = cursor.token
        if token.kind is Kind.NUMBER:
            cursor.step()
            span = cursor.span_of(token)
            return _leaf(Number(token.text, number_value(token.text), span=span))
        if cursor.is_type(token):
            return _cast(cursor, nesting)
        if token.kind is Kind.NAME:
            return _named(cursor, nesting)
        if token.kind is Kind.SIGN and token.text == "(":
            cursor.step()
            inner = parse_part(cursor, _nested(cursor, nesting))
            closing = cursor.close_bracket(token, "')'")
            return Parsed(inner.expr, cursor.span(token.start, closing.end), inner.height)
        if token.kind is Kind.KEYWORD:
            if token.text == "where" and cursor.ahead(1).text == "(":
                raise _choice_as_function(cursor, nesting)
            raise cursor.no_name("a value")
        if token.kind is Kind.SIGN and token.text == "|":
            raise _magnitude(cursor, nesting)
        raise cursor.missing("an expression", repair="write a number, a name or '(' here")

    def unary(self, op: Token, operand: ParsedExpr, cursor: Cursor) -> Expr:
        return Unary(op.text, operand.expr, span=cursor.span(op.start, operand.end))

    def binary(self, left: ParsedExpr, op: Token, right: ParsedExpr) -> Expr:
        return Binary(op.text, left.expr, right.expr, span=left.span.to(right.span))

    def conditional(self, condition: ParsedExpr, then: ParsedExpr, otherwise: ParsedExpr) -> Expr:
        span = condition.span.to(otherwise.span)
        return Conditional(condition.expr, then.expr, otherwise.expr, span=span)

    def is_another(self, cursor: Cursor, left: ParsedExpr) -> bool:
        return cursor.token.text == "^" and _is_power(cursor, left)

    def foreign_operator(
        self,
        cursor: Cursor,
        operands: list[ParsedExpr],
        pending: list[Pending[Expr]],
        nesting: int,
    ) -> ParseError | None:
        if cursor.token.text not in FOREIGN and not self.is_another(cursor, operands[-1]):
            return None
        return _foreign_operator(cursor, operands, pending, nesting)

    def regrouped(self, cursor: Cursor, left: ParsedExpr, op: str) -> ParsedExpr | None:
        return regrouped(left, op, cursor.names)

    def too_deep(self, expr: Expr) -> str:
        if isinstance(expr, Binary) and in_a_row(expr) >= MAX_HEIGHT:
            return (
                f"more than {MAX_HEIGHT} operations stand in a row, each on the result of the "
                "operation before; only sums of floats are taken apart"
            )
        return f"the expression is more than {MAX_HEIGHT} operations deep"


_EXPRESSIONS = _Expressions()


parse_part = _EXPRESSIONS.parse
"""Parse one expression from the current token on."""


def parse_arguments(cursor: Cursor, nesting: int, what: str) -> tuple[ParsedExpr, ...]:
    """A list in parentheses, perhaps empty, from its `(` on."""
    opening = cursor.expect("(", f"before {what}")
    inside = _nested(cursor, nesting)
    parts: list[ParsedExpr] = []
    while not cursor.at(")") or parts:
        reject_slice(cursor)
        parts.append(parse_part(cursor, inside))
        reject_slice(cursor)
        if not cursor.accept(","):
            break
    cursor.close_bracket(opening, "',' or ')'")
    return tuple(parts)


def parse_apply(cursor: Cursor, name: Name, what: str) -> Apply:
    """A name with its list in parentheses, from the `(` on."""
    parts = parse_arguments(cursor, 0, what)
    span = cursor.span(name.span.start, cursor.previous_end)
    return Apply(name, tuple(part.expr for part in parts), span=span)


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


def starts_targets(cursor: Cursor, count: int) -> bool:
    """Whether the targets of a statement, and an assignment, stand `count` tokens ahead."""
    behind = behind_targets(cursor, count)
    return behind is not None and is_assignment(cursor.ahead(behind))


def behind_targets(cursor: Cursor, count: int) -> int | None:
    """How many tokens ahead the first one behind a list of targets is, which begins `count` tokens
    ahead; None where none begins there."""
    while cursor.ahead(count).kind is Kind.NAME:
        count += 1
        depth = int(cursor.ahead(count).text == "(")
        count += depth
        while depth and cursor.ahead(count).kind is not Kind.END:
            depth += NESTS.get(cursor.ahead(count).text, 0)
            count += 1
        if cursor.ahead(count).text != ",":
            return count
        count += 1
    return None


def _named(cursor: Cursor, nesting: int) -> ParsedExpr:
    if cursor.token.text == "if" and nesting == 0 and (error := _choice_in_words(cursor)):
        raise error
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
    args = tuple(part.expr for part in parts)
    expr = Apply(name, args, span=cursor.span(name.span.start, cursor.previous_end))
    return _checked(cursor, expr, *parts)


def _cast(cursor: Cursor, nesting: int) -> ParsedExpr:
    spelling = cursor.step()
    if cursor.at(")"):
        raise _cast_before(cursor, spelling, nesting)
    if not cursor.at("("):
        raise cursor.unexpected(
            f"'(' after the type '{spelling.text}', which is a cast here",
            rule="T3",
            repair=f"{spelling.text}(x)",
        )
    parts = parse_arguments(cursor, nesting, "the value to cast")
    span = cursor.span(spelling.start, cursor.previous_end)
    if len(parts) != 1:
        value = parts[0].expr.span.text if parts else "x"
        raise cursor.error(
            f"the cast '{spelling.text}' takes one value and is given {len(parts)}",
            rule="T3",
            span=span,
            repair=f"give it one value: {spelling.text}({value})",
        )
    expr = Cast(spelling.text, parts[0].expr, span=span)
    return _checked(cursor, expr, parts[0])


def _leaf(expr: Expr) -> ParsedExpr:
    return Parsed(expr, expr.span, 0)


def _checked(cursor: Cursor, expr: Expr, *parts: ParsedExpr) -> ParsedExpr:
    return _EXPRESSIONS.checked(cursor, expr, expr.span, *parts)


def _nested(cursor: Cursor, nesting: int) -> int:
    return _EXPRESSIONS.nested(cursor, nesting)


# --- operators of other languages ---------------------------------------------------------------

_ARITHMETIC = PRECEDENCE["+"]


def _foreign_operator(
    cursor: Cursor, operands: list[ParsedExpr], pending: list[Pending[Expr]], nesting: int
) -> ParseError:
    token = cursor.token
    if token.text in ("**", "^"):
        return _power(cursor, operands[-1], nesting)
    if token.text == "//" and not _is_division(cursor):
        return cursor.unexpected("an operator")
    if token.text in ("//", "@"):
        _EXPRESSIONS.reduce(cursor, operands, pending, PRECEDENCE["*"])
        return _quotient(cursor, operands[-1], nesting)
    if token.text in COMPARISONS:
        return cursor.error(FOREIGN[token.text][0], paste=COMPARISONS[token.text])
    return cursor.unexpected("an operator")


def _power(cursor: Cursor, base: ParsedExpr, nesting: int) -> ParseError:
    token = cursor.step()
    cause = f"there is no operator '{token.text}'"
    try:
        exponent = _exponent(cursor, nesting)
    except ParseError:
        span, paste = cursor.span(base.start, token.end), ""
    else:
        span = base.span.to(exponent.span)
        paste = foreign.power(base, exponent, cursor.names)
    if not paste or len(paste) > 160 or "\n" in paste:
        return cursor.error(cause, span=span, idiom="a power is written pow(x, y)")
    return cursor.error(cause, span=span, paste=paste)


def _exponent(cursor: Cursor, nesting: int) -> ParsedExpr:
    """What stands behind `**`: an operand with its signs, or another power."""
    first = cursor.token
    while cursor.token.kind is Kind.SIGN and cursor.token.text in PREFIXES:
        cursor.step()
    operand = _EXPRESSIONS.primary(cursor, nesting)
    if cursor.at("**") or cursor.at("^"):
        raise cursor.unexpected("an operator")  # which of the two is first, is not said by all
    if first.start == operand.start or first.text == "(":
        return operand
    span = cursor.span(first.start, operand.end)
    return Parsed(Unary(first.text, operand.expr, span=span), span, 1)


def _is_power(cursor: Cursor, base: ParsedExpr) -> bool:
    """Whether `^` can only be a power: of bits, both sides would be integers."""
    after = cursor.ahead(1)
    is_float = after.kind is Kind.NUMBER and isinstance(number_value(after.text), float)
    return is_float or foreign.kind_of(base.expr, cursor.names) == "float"


def _is_division(cursor: Cursor) -> bool:
    """Whether `//` stands between operands, as in Python, and begins no comment."""
    line = cursor.source.text[cursor.token.end :].partition("\n")[0]
    text, another, _ = line.partition("#")[0].partition("//")
    try:
        rest = Cursor(Source(text))
        while rest.token.kind is Kind.SIGN and rest.token.text in (*PREFIXES, "("):
            rest.step()
        operand = parse_part(rest).expr
    except ParseError:
        return False
    if another if rest.at_end else rest.token.text not in (")", ",", "}", "where", ":", "?"):
        return False
    is_word = isinstance(operand, Name) and len(operand.text) > 2
    return not is_word or operand.span.text in {*cursor.names.sizes(), *cursor.names.params}


def _quotient(cursor: Cursor, left: ParsedExpr, nesting: int) -> ParseError:
    """The error for `a // b` and `A @ B`."""
    token = cursor.step()
    right = parse_part(cursor, nesting, PREFIX_PRECEDENCE)
    span = left.span.to(right.span)
    if token.text == "@":
        return matrix_product(cursor, left, right, span)
    first, second = left.span.line, right.span.line
    paste, idiom = foreign.floor_division(left.expr, first, right.expr, second, cursor.names)
    cause = "there is no operator '//': comments begin with '#', and '/' of integers rounds down"
    return cursor.error(cause, rule="T2", span=span, paste=paste, idiom=idiom)


def _choice_as_function(cursor: Cursor, nesting: int) -> ParseError:
    """The error for numpy's `where(c, a, b)`, from its `where` on."""
    start = cursor.step().start
    cause = "'where' gives the range of an index variable; a choice is written 'c ? a : b'"
    parts = parse_arguments(cursor, nesting, "the arguments of 'where'")
    span = cursor.span(start, cursor.previous_end)
    if len(parts) != 3:
        return cursor.error(cause, span=span, idiom="c ? a : b")
    return cursor.error(cause, span=span, paste=choice_text(parts))


def _choice_in_words(cursor: Cursor) -> ParseError | None:
    """The error for `if (c) a else b` and `if c then a else b`; None where a tensor is called so.

    Not tried again within its own parts, so that the time does not double with each of them.
    """
    index, token = cursor.index, cursor.step()
    parts: list[ParsedExpr] = []
    try:
        for word in ("then", "else", ""):
            braces = bool(parts) and cursor.accept("{")
            parts.append(parse_part(cursor, 1))
            if braces:
                cursor.expect("}", "after the choice")
            if cursor.token.text == word:
                cursor.step()
            elif word == "else":
                break
    except ParseError:
        pass
    if len(parts) < 3:
        cursor.index, cursor.token = index, token
        return None
    return cursor.error(
        "there is no 'if': a choice is written 'c ? a : b'",
        span=cursor.span(token.start, cursor.previous_end),
        paste=choice_text(parts),
    )


def _magnitude(cursor: Cursor, nesting: int) -> ParseError:
    """The error for `|x|`, from its first `|` on."""
    start = cursor.step().start
    cause = "'|' stands between two operands: the absolute value of x is abs(x)"
    inside = parse_part(cursor, _nested(cursor, nesting), _ARITHMETIC)
    if not cursor.accept("|"):
        return cursor.error(cause, span=cursor.span(start, inside.end), idiom="abs(x)")
    span = cursor.span(start, cursor.previous_end)
    return cursor.error(cause, span=span, paste=f"abs({inside.span.line})")


def _cast_before(cursor: Cursor, spelling: Token, nesting: int) -> ParseError:
    """The error for `(int) x`, C's cast, from its `)` on."""
    opening = cursor.tokens[cursor.index - 2]
    cause = f"the value of the cast '{spelling.text}' stands in parentheses, and the type does not"
    cursor.step()
    try:
        operand = parse_part(cursor, nesting, PREFIX_PRECEDENCE)
    except ParseError:
        return cursor.error(cause, rule="T3", idiom=f"{spelling.text}(x)")
    span = cursor.span(opening.start, operand.end)
    paste = f"{spelling.text}({operand.span.line})"
    return cursor.error(cause, rule="T3", span=span, paste=paste)
