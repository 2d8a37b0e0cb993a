"""Errors for what SaC has, and this language has not (C27), each with what serves instead."""

from __future__ import annotations

from collections.abc import Sequence

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.tokens import Kind
from tc.sac import ast
from tc.sac.text.cursor import Cursor
from tc.sac.text.rejections.pasting import Parser, parsed, pasted
from tc.sac.text.rejections.statements import no_type
from tc.sac.text.tokens import ASSIGNMENTS, PREFIX_STRENGTH, STRENGTH
from tc.source import Span

_ONE_TEXT = "all functions stand in one text"
_INLINED = "calls are always inlined"
_FIELDS = "float[*] f(float[*] re, float[*] im), an array for each field"
UNSUPPORTED = {
    "use": (f"'use': {_ONE_TEXT}", "float[*] f(float[*] x) { return x; }, in this text"),
    "import": (f"'import': {_ONE_TEXT}", "float[*] f(float[*] x) { return x; }, in this text"),
    "export": ("'export': any function may be the entry", "tc.sac.compile(text, entry='f')"),
    "provide": ("'provide': any function may be the entry", "tc.sac.compile(text, entry='f')"),
    "module": (f"'module': {_ONE_TEXT}", "tc.sac.compile(text, entry='f')"),
    "class": ("classes", _FIELDS),
    "struct": ("structs", _FIELDS),
    "typedef": ("definitions of types", "float[3] f(float[3] p), the type itself"),
    "external": ("functions of other languages", "a parameter that holds what they give"),
    "inline": (f"'inline': {_INLINED}", "float[*] f(float[*] x) { return x; }"),
    "noinline": (f"'noinline': {_INLINED}", "float[*] f(float[*] x) { return x; }"),
    "specialize": ("'specialize': every call is specialised", "float[*] f(float[*] x)"),
    "thread": ("'thread'", "float[*] f(float[*] x) { return x; }"),
    "void": ("functions without a result", "float[*] f(float[*] x) { return x; }"),
}
_DROPPED = frozenset(("inline", "noinline", "thread", "export", "provide"))
"""Words before a definition that mean nothing here."""

LOOPS = frozenset(("for", "while", "do"))
LOOP_IDIOM = (
    "{ [i] -> f(a[i]) | [i] < [n] }, for all i; steps that build on each other are calls in a "
    "loop of Python"
)


def unsupported(cursor: Cursor, what: str, idiom: str, span: Span | None = None) -> ParseError:
    """The error for what SaC has and this language has not (C27)."""
    return cursor.error(f"not supported: {what}", span=span, idiom=idiom)


def refuse_unsupported(cursor: Cursor) -> None:
    """Raise for `use`, `inline` and the like, and for unknown types, where a definition begins."""
    token, after = cursor.token, cursor.ahead(1)
    if token.kind is not Kind.NAME:
        return
    if token.text in UNSUPPORTED and after.kind in (Kind.NAME, Kind.KEYWORD):
        what, idiom = UNSUPPORTED[token.text]
        if token.text in _DROPPED and after.kind is Kind.KEYWORD:
            span = cursor.span(token.start, after.start)
            raise cursor.error(f"not supported: {what}", span=span, paste="")
        raise unsupported(cursor, what, idiom)
    if token.text == "def" and after.kind is Kind.NAME:
        raise cursor.error(
            "'def' begins a text of tc's own notation",
            idiom="tc.compile(text), for a text of defs; tc.sac.compile(text) for one of SaC's",
        )
    named = after if after.text != "[" else cursor.behind(1)
    if named.kind is Kind.NAME and (after.text == "[" or cursor.ahead(2).text == "("):
        raise no_type(cursor)


def refuse_statement(cursor: Cursor, parser: Parser) -> None:
    """Raise for loops, declarations, `x++;` and `a[i] = e;`, where a statement may begin."""
    token, after = cursor.token, cursor.ahead(1)
    if token.kind is Kind.KEYWORD and token.text in LOOPS:
        raise unsupported(cursor, f"loops ('{token.text}')", LOOP_IDIOM)
    if token.kind is Kind.KEYWORD and token.text in SPELLINGS and after.text != "(":
        raise _declaration(cursor)
    if token.kind is not Kind.NAME:
        return
    if after.text == "[" and cursor.behind(1).text in ASSIGNMENTS:
        raise _element_assigned(cursor, parser)
    doubled = after.text == "++" or (after.text == "-" and cursor.ahead(2).text == "-")
    last = cursor.ahead(1 if after.text == "++" else 2)
    if doubled and cursor.ahead(2 if after.text == "++" else 3).text == ";":
        raise cursor.error(
            f"there is no operator '{after.text[0] * 2}' behind a variable",
            span=cursor.span(token.start, last.end),
            paste=f"{token.text} {after.text[0]}= 1",
        )


def _declaration(cursor: Cursor) -> ParseError:
    """The error for `int n = 3;`."""
    start = cursor.step()
    if cursor.at("["):
        cursor.skip_brackets("[")
    cause = "a variable is not declared: it has the type of its value"
    if cursor.token.kind is not Kind.NAME:
        return cursor.error(cause, span=cursor.span_of(start), idiom="n = 3;")
    return cursor.error(cause, span=cursor.span(start.start, cursor.token.start), paste="")


def declared_variable(cursor: Cursor, types: Sequence[ast.Type], name: ast.Name) -> ParseError:
    """The error for a text that begins as `int n = 3;`, from the `=` on."""
    return cursor.error(
        "a variable is not declared: it has the type of its value",
        span=cursor.span(types[0].span.start, name.span.start),
        paste="",
    )


def _element_assigned(cursor: Cursor, parser: Parser) -> ParseError:
    """The error for `a[i] = e;`: arrays are values."""
    start = cursor.token
    cause = "an element cannot be assigned to: arrays are values"
    try:
        target = parsed(cursor, parser, PREFIX_STRENGTH)
        operator = cursor.step()
        value = parsed(cursor, parser)
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(start), idiom="a = modarray(a, [i], x);")
    node = target.expr
    span = cursor.span(start.start, value.end)
    if not isinstance(node, ast.Select) or not isinstance(node.array, ast.Name):
        return cursor.error(cause, span=span, idiom="a = modarray(a, [i], x);")
    exprs = [item for item in node.items if not isinstance(item, ast.Dot | ast.Dots)]
    if len(exprs) < len(node.items):
        return cursor.error(cause, span=span, idiom="a = { [i] -> x; iv -> a[iv] };")
    single = len(exprs) == 1 and isinstance(exprs[0], ast.Row)
    index = exprs[0].span.line if single else f"[{', '.join(e.span.line for e in exprs)}]"
    new = value.span.line
    if operator.text != "=":
        new = f"{target.span.line} {operator.text[:-1]} ({new})"
    name = node.array.text
    return pasted(
        cursor,
        cause,
        span,
        f"{name} = modarray({name}, {index}, {new})",
        "a = modarray(a, [i], x);",
    )


def refuse_operator_definition(cursor: Cursor) -> None:
    """Raise where an operator is defined: `int[*] + (int[*] a, int[*] b)`."""
    if cursor.token.kind is Kind.SIGN and cursor.token.text in {*STRENGTH, "!"}:
        raise unsupported(
            cursor, "definitions of operators", "float[*] plus(float[*] a, float[*] b), a name"
        )


def refuse_constraint(cursor: Cursor) -> None:
    """Raise for a constraint of types behind the parameters, `| n == m`."""
    if cursor.at("|"):
        raise unsupported(
            cursor, "constraints of types", "float f(float[n] a, float[n] b), one name for both"
        )


def refuse_several_bodies(cursor: Cursor) -> None:
    """Raise for `{ iv -> a[iv], b[iv] }`."""
    if cursor.at(","):
        raise unsupported(
            cursor,
            "several results of one comprehension",
            "a = { iv -> x[iv] }; b = { iv -> y[iv] };, one for each",
        )


def refuse_more_than_a_box(cursor: Cursor) -> None:
    """Raise for `step`, `width` and further conditions behind a generator."""
    if cursor.at_word("step", "width"):
        idiom = "{ [i] -> a[2 * i] | [i] < (shape(a) + 1) / 2 }, or a condition in the body"
        raise unsupported(cursor, f"'{cursor.token.text}'", idiom)
    if cursor.at("&&") or cursor.at("||") or cursor.at(","):
        raise unsupported(
            cursor,
            "a range that is no box",
            "{ [i,j] -> j < i ? a[i,j] : 0 | [i,j] < shape(a) }",
        )
