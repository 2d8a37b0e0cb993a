"""Errors for what SaC has and this language has not (C27), for what other languages write, and for
slips: each with what serves instead.

A function named `refuse_...` raises where the cursor stands at something to be refused; the others
give the error for a place where the parser cannot go on. Long because each is short, and all are
told in one tone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.operator_parser import MAX_NESTING, OperatorParser, Pending
from tc.frontend.token_cursor import Parsed, describe
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text import foreign
from tc.sac.text.cursor import Cursor
from tc.sac.text.printer import printed
from tc.sac.text.tokens import (
    ASSIGNMENTS,
    FOREIGN,
    PREFIX_STRENGTH,
    RELATIONS,
    STRENGTH,
)
from tc.source import Edit, Span

Parser: TypeAlias = OperatorParser[Cursor, ast.Expr]
Side: TypeAlias = "Parsed[ast.Expr] | ast.Dot"
"""A side of a generator."""

MAX_PASTED_CHARACTERS = 160
MAX_PASTED_NESTING = 8
MAX_REFUSALS = 4


def _parsed(cursor: Cursor, parser: Parser, binding: int | None = None) -> Parsed[ast.Expr]:
    """An operand of what is refused, for the text to paste; ParseError where it nests deeply, as
    refusals within refusals do."""
    if cursor.refusals >= MAX_REFUSALS:
        raise cursor.error("refused within what is refused", repair="simplify the text")
    cursor.refusals += 1
    try:
        return parser.parse(cursor, MAX_NESTING - MAX_PASTED_NESTING, binding)
    finally:
        cursor.refusals -= 1


# --- what SaC has, and this language has not (C27) -----------------------------------------------

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

_LOOPS = frozenset(("for", "while", "do"))
_LOOP_IDIOM = (
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
    if token.kind is Kind.KEYWORD and token.text in _LOOPS:
        raise unsupported(cursor, f"loops ('{token.text}')", _LOOP_IDIOM)
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
        target = _parsed(cursor, parser, PREFIX_STRENGTH)
        operator = cursor.step()
        value = _parsed(cursor, parser)
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
    return _pasted(
        cursor,
        cause,
        span,
        f"{name} = modarray({name}, {index}, {new})",
        "a = modarray(a, [i], x);",
    )


def _pasted(cursor: Cursor, cause: str, span: Span, text: str, idiom: str) -> ParseError:
    """The error with a text to paste, or with an idiom where the text is too long for that."""
    if len(text) > MAX_PASTED_CHARACTERS or "//" in text or "/*" in text:
        return cursor.error(cause, span=span, idiom=idiom)
    return cursor.error(cause, span=span, paste=text)


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


# --- functions and statements --------------------------------------------------------------------


def no_definition(cursor: Cursor) -> ParseError:
    """The error for what stands behind a function and is none."""
    if cursor.at("}"):
        return cursor.error("this '}' closes nothing", paste="")
    return cursor.unexpected(
        "a function, which begins with its type",
        idiom="int f(int n) { return n + 1; }; a text of functions has nothing outside of them",
    )


def no_type(cursor: Cursor) -> ParseError:
    """The error where a type is due, as of a parameter."""
    token = cursor.token
    if token.kind is Kind.NAME and token.text in foreign.TYPES:
        meant = foreign.TYPES[token.text]
        return cursor.error(f"there is no type '{token.text}'", paste=meant)
    if token.kind is Kind.NAME and cursor.ahead(1).text in (",", ")"):
        return cursor.error(
            f"the parameter '{token.text}' has no type", paste=f"float[*] {token.text}"
        )
    if token.kind is Kind.NAME:
        return cursor.error(
            f"there is no type '{token.text}'",
            idiom="float[*]; types are bool, int8 to int64, uint8 to uint64, half, float, double",
        )
    return cursor.unexpected("a type", repair="write a type such as float[*] here")


def no_size(cursor: Cursor) -> ParseError:
    """The error where a size is due between the brackets of a type."""
    if cursor.at("]"):
        return cursor.error(
            "a type without sizes has no brackets, one of any shape '[*]'", paste="*]"
        )
    if cursor.at("..."):
        return cursor.error("any number of axes is '*' in a type, or '+'", paste="*")
    return cursor.unexpected("a size: a number, a name or '.'", repair="write '.' for any size")


def behind_return(cursor: Cursor, name: ast.Name, brace: Token) -> ParseError:
    """The error where a function goes on behind its return."""
    return cursor.missing(
        f"'}}' after the return of '{name.text}'",
        repair="write '}' here",
        notes=((cursor.span_of(brace), "the '{' is here"),),
    )


def result_count(
    cursor: Cursor, name: ast.Name, types: Sequence[ast.Type], results: Sequence[ast.Expr]
) -> ParseError:
    """The error where a return has more or fewer results than types are declared."""
    kinds, found = len(types), len(results)
    return cursor.error(
        f"'{name.text}' has {kinds} {'type' if kinds == 1 else 'types'} of results, its return "
        f"{found} {'result' if found == 1 else 'results'}",
        span=results[0].span.to(results[-1].span),
        repair="give each result its type, and each type its result",
        notes=((types[0].span.to(types[-1].span), "the types are here"),),
    )


def early_return(cursor: Cursor) -> ParseError:
    """The error for a `return` in a block."""
    return cursor.error(
        "a 'return' ends a function, and stands in no block",
        idiom="if (c) { r = a; } else { r = b; } return r;",
    )


def no_end(cursor: Cursor, wanted: str) -> ParseError:
    """The error where the `;` of a statement is due."""
    return _divided(cursor) or _ended(cursor, cursor.missing(wanted, repair="write ';' here"))


def _ended(cursor: Cursor, error: ParseError) -> ParseError:
    """The error with the `;` as an edit, where another statement or the end stands here."""
    token = cursor.token
    later = "\n" in cursor.source.text[cursor.previous_end : token.start]
    follows = later or token.kind is Kind.END or token.text in ("}", "return")
    if error.repair and error.repair == "write ';' here" and follows and not error.edits:
        at = cursor.previous_end
        return cursor.error(error.cause, span=error.span, edits=(Edit(cursor.span(at, at), ";"),))
    return error


def _divided(cursor: Cursor) -> ParseError | None:
    """The error for `a // b`, Python's division, which begins a comment here."""
    start = cursor.previous_end
    found = re.match(r"[ \t]*(//)[ \t]*[\w(][^\n]*", cursor.source.text[start:])
    if found is None or start == 0:
        return None
    span = cursor.span(start + found.start(1), start + found.end(1))
    return cursor.error(
        "'//' begins a comment, and an operand or a ';' is missing before it",
        span=span,
        idiom="a / b, which rounds down where both are integers; a; // a comment",
    )


def no_return(cursor: Cursor, name: ast.Name, brace: Token) -> ParseError:
    """The error where neither a statement nor the return of a function stands."""
    notes = ((cursor.span_of(brace), "the '{' is here"),)
    if cursor.at("}"):
        return cursor.error(
            f"'{name.text}' has no 'return'", repair="write 'return x;' here", notes=notes
        )
    if cursor.token.kind in (Kind.NAME, Kind.NUMBER) or cursor.at("{") or cursor.at("with"):
        at = cursor.span(cursor.token.start, cursor.token.start)
        return cursor.error(
            f"expected a statement or the 'return' of '{name.text}', found "
            f"{describe(cursor.token)}",
            edits=(Edit(at, "return "),),
        )
    return cursor.unexpected(
        f"a statement or the 'return' of '{name.text}'",
        repair="write 'return x;' here",
        notes=notes,
    )


def results_without_parentheses(
    cursor: Cursor, first: Parsed[ast.Expr], parser: Parser
) -> ParseError:
    """The error for `return a, b;`, from the comma on."""
    cause = "several results stand in parentheses"
    parts = [first]
    try:
        while cursor.accept(","):
            parts.append(_parsed(cursor, parser))
    except ParseError:
        return cursor.error(cause, span=first.span, idiom="return (a, b);")
    text = ", ".join(part.span.line for part in parts)
    span = first.span.to(parts[-1].span)
    return _pasted(cursor, cause, span, f"({text})", "return (a, b);")


def return_without_function(cursor: Cursor) -> ParseError:
    """The error for a `return` in a text that is an expression."""
    after = cursor.ahead(1)
    span = cursor.span(cursor.token.start, max(cursor.token.end, after.start))
    return cursor.error("a text that is an expression has no 'return'", span=span, paste="")


def no_result(cursor: Cursor, statements: Sequence[ast.Statement]) -> ParseError:
    """The error for a text that ends before its expression."""
    if not statements:
        span = cursor.span(0, 0)
        return cursor.error("the text is empty", span=span, idiom="{ iv -> a[iv] + 1 }")
    last = statements[-1]
    if isinstance(last, ast.Assign):
        at = cursor.span(last.span.end, last.span.end)
        name = last.targets[0].text
        return cursor.error(
            "the text has statements and no expression behind them, which is its result",
            edits=(Edit(at, f" {name}"),),
        )
    return cursor.error(
        "the text has statements and no expression behind them, which is its result",
        repair="write the result here",
    )


def behind_expression(cursor: Cursor) -> ParseError:
    """The error for what stands behind the expression of a text."""
    before = cursor.tokens[cursor.index - 1]
    if before.text == ";":
        return cursor.error(
            f"expected the end of the text after its expression, found {describe(cursor.token)}",
            span=cursor.span_of(cursor.token),
            idiom="x = a + 1; { iv -> x[iv] }, for a value that is used further on",
        )
    error = cursor.missing("an operator or the end of the text", repair="write an operator here")
    if cursor.at("="):
        return cursor.error(
            "only variables are assigned to; a comparison is '=='", idiom="x = a; or x == a"
        )
    return _divided(cursor) or error


# --- expressions ---------------------------------------------------------------------------------


def no_expression(cursor: Cursor) -> ParseError:
    """The error where an expression is due."""
    if cursor.at("+"):
        return cursor.error("there is no sign '+' before an operand", paste="")
    if cursor.at(".") or cursor.at("..."):
        return cursor.error(
            f"'{cursor.token.text}' stands in patterns and selections only, and '.' beside '<='",
            repair="write a value here",
        )
    return cursor.missing("an expression", repair="write a number, a name or '(' here")


def refuse_member(cursor: Cursor, found: Parsed[ast.Expr], parser: Parser) -> None:
    """Raise for `np.sum(x)`, `x.shape` and `x.sum()`, behind the name before the dot."""
    if not cursor.at(".") or cursor.ahead(1).kind is not Kind.NAME:
        return
    is_module = isinstance(found.expr, ast.Name) and found.expr.text in foreign.MODULES
    path = ""
    while cursor.at(".") and cursor.ahead(1).kind is Kind.NAME:
        cursor.step()
        path = cursor.step().text
    end = cursor.previous_end
    cause = "there are no modules" if is_module else "arrays have no members"
    cause += f": '{path}' is " + ("a function here" if is_module else "written as a function")
    args = [] if is_module else [found.span.line]
    if cursor.at("("):
        given = _arguments(cursor, parser)
        if given is None:
            raise cursor.error(cause, span=cursor.span(found.start, end), idiom="sum(x), shape(x)")
        args += given
        end = cursor.previous_end
    elif is_module:
        text = foreign.CONSTANTS.get(path, path)
        cause = f"there are no modules: '{path}' stands without one"
        if text != path:
            cause = f"there are no modules, and no constant '{path}'"
        raise cursor.error(cause, span=cursor.span(found.start, end), paste=text)
    span = cursor.span(found.start, end)
    if idiom := foreign.IDIOMS.get(path):
        raise cursor.error(cause, span=span, idiom=idiom)
    text = foreign.formula(path, args) or f"{path}({', '.join(args)})"
    raise _pasted(cursor, cause, span, text, "sum(x), shape(x)")


def _arguments(cursor: Cursor, parser: Parser) -> list[str] | None:
    """The texts of a list in parentheses; None where it has names or does not close."""
    cursor.step()
    parts: list[str] = []
    try:
        while not cursor.at(")") or parts:
            parts.append(_parsed(cursor, parser).span.line)
            if not cursor.accept(","):
                break
    except ParseError:
        return None
    return parts if cursor.accept(")") else None


def refuse_word(cursor: Cursor, parser: Parser) -> None:
    """Raise for `not x`, where an operand may begin."""
    after = cursor.ahead(1)
    if not cursor.at_word("not") or after.kind not in (Kind.NAME, Kind.NUMBER, Kind.KEYWORD):
        return
    start = cursor.step()
    cause = "there is no operator 'not'; it is written '!'"
    try:
        operand = _parsed(cursor, parser, STRENGTH["=="])
    except ParseError:
        raise cursor.error(cause, span=cursor.span_of(start), paste="!") from None
    text = operand.span.line
    bare = isinstance(operand.expr, ast.Name | ast.Call | ast.Select | ast.Bool)
    span = cursor.span(start.start, operand.end)
    raise _pasted(cursor, cause, span, f"!{text}" if bare else f"!({text})", "!x")


def named_argument(cursor: Cursor, name: ast.Name, parts: Sequence[Parsed[ast.Expr]]) -> ParseError:
    """The error for `sum(a, axis=0)`, from the `=` on."""
    cause = "arguments have no names, and functions work on whole arrays"
    if parts and isinstance(parts[-1].expr, ast.Name) and parts[-1].expr.text in ("axis", "dim"):
        array = parts[0].span.line
        return cursor.error(
            cause,
            idiom=f"{{ [.,j] -> {name.text}({array}[.,j]) }}, over the first axis of a matrix",
        )
    return cursor.error(cause, idiom=f"{name.text}(x), the arguments in their order")


def word_in_expression(cursor: Cursor) -> ParseError:
    """The error for a reserved word where an expression is due."""
    word = cursor.token.text
    if word in _LOOPS:
        return unsupported(cursor, f"loops ('{word}')", _LOOP_IDIOM)
    if word in ("if", "else"):
        return cursor.error(
            f"'{word}' is of statements; a choice is written 'c ? a : b'", idiom="c ? a : b"
        )
    if word == "return":
        return cursor.error("expected an expression, found the reserved word 'return'", paste="")
    return cursor.no_name("a value")


def no_cast(cursor: Cursor, spelling: Token, parser: Parser) -> ParseError:
    """The error for a type that begins no cast."""
    before = cursor.tokens[max(cursor.index - 2, 0)]
    if before.text == "(" and cursor.at(")"):
        cause = f"the value of the cast '{spelling.text}' stands in parentheses, the type does not"
        cursor.step()
        try:
            operand = _parsed(cursor, parser, PREFIX_STRENGTH)
        except ParseError:
            return cursor.error(cause, idiom=f"{spelling.text}(x)")
        span = cursor.span(before.start, operand.end)
        return _pasted(
            cursor, cause, span, f"{spelling.text}({operand.span.line})", f"{spelling.text}(x)"
        )
    return cursor.unexpected(
        f"'(' after the type '{spelling.text}', which is a cast here",
        repair=f"{spelling.text}(x)",
    )


def refuse_dot_in_row(cursor: Cursor) -> None:
    """Raise for a dot among the elements of an array."""
    if cursor.at(".") or cursor.at("..."):
        raise cursor.error(
            f"'{cursor.token.text}' stands in patterns, selections and bounds, not in an array",
            repair="write a value here",
        )


def refuse_list_comprehension(
    cursor: Cursor, opening: Token, parts: Sequence[Parsed[ast.Expr]], parser: Parser
) -> None:
    """Raise for `[f(i) for i in range(n)]`, from its `for` on."""
    if not cursor.at("for"):
        return
    cause = "a comprehension stands in braces, its index first"
    idiom = "{ [i] -> f(i) | [i] < [n] }"
    start = cursor.step()
    index, word = cursor.token, cursor.ahead(1).text
    if len(parts) != 1 or index.kind is not Kind.NAME or word != "in":
        raise cursor.error(cause, span=cursor.span_of(start), idiom=idiom)
    cursor.step()
    cursor.step()
    try:
        source = _parsed(cursor, parser)
    except ParseError:
        raise cursor.error(cause, span=cursor.span_of(start), idiom=idiom) from None
    whole = cursor.span(opening.start, cursor.token.end if cursor.at("]") else source.end)
    call = source.expr
    is_range = isinstance(call, ast.Call) and call.function.text in ("range", "iota")
    if isinstance(call, ast.Call) and is_range and len(call.args) == 1 and cursor.at("]"):
        text = f"{{ [{index.text}] -> {parts[0].span.line} | [{index.text}] < "
        raise _pasted(cursor, cause, whole, f"{text}[{call.args[0].span.line}] }}", idiom)
    raise cursor.error(cause, span=whole, idiom=idiom)


def refuse_spaced_dots(cursor: Cursor, dot: ast.Dot | ast.Dots) -> None:
    """Raise for `. . .`, behind its first dot."""
    count = 0
    while cursor.ahead(count).text == ".":
        count += 1
    if not count:
        return
    cause = "expected ',' or ']', found '.'"
    span = cursor.span(dot.span.start, cursor.ahead(count - 1).end)
    if isinstance(dot, ast.Dot) and count == 2:
        raise cursor.error(cause + "; any number of axes is '...'", span=span, paste="...")
    raise cursor.error(cause, span=span, idiom="'...', for any number of axes; '.,.' for two")


def second_dots(cursor: Cursor, dots: ast.Dots, what: str) -> ParseError:
    """The error for a `...` in a pattern or a selection that has one (C3)."""
    return cursor.error(
        f"two '...' in a {what}",
        rule="C3",
        span=dots.span,
        idiom="'.', for one axis, wherever the second one stands",
    )


def empty_selection(cursor: Cursor, opening: Token) -> ParseError:
    """The error for `a[]`, at its `]`."""
    return cursor.error(
        "a selection has at least one index; all is selected by an empty vector",
        span=cursor.span(opening.start, cursor.token.end),
        paste="[[]]",
    )


def a_slice(cursor: Cursor, array: Parsed[ast.Expr], opening: Token, parser: Parser) -> ParseError:
    """The error for `a[1:3]`, Python's slices."""
    cause = "there are no slices"
    idiom = "drop([1], take([3], a)), for a[1:3]; a[.,i], for a[:,i]"
    cursor.index = cursor.tokens.index(opening) + 1
    cursor.token = cursor.tokens[cursor.index]
    items: list[_Item] = []
    try:
        while True:
            items.append(_item(cursor, parser))
            if not cursor.accept(","):
                break
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(cursor.token), idiom=idiom)
    end = cursor.token.end if cursor.at("]") else cursor.previous_end
    span = cursor.span(array.start, end)
    text = _sliced(array.span.line, items) if cursor.at("]") else None
    if text is None:
        return cursor.error(cause, span=span, idiom=idiom)
    return _pasted(cursor, cause, span, text, idiom)


_Item: TypeAlias = "tuple[str | None, str | None, str | None] | str"
"""The texts of begin, end and step of a slice, or the text of an index."""


def _item(cursor: Cursor, parser: Parser) -> _Item:
    parts: list[str | None] = []
    while True:
        if cursor.at(":") or cursor.at(",") or cursor.at("]"):
            parts.append(None)
        elif cursor.at(".") or cursor.at("..."):
            parts.append(cursor.step().text)
        else:
            parts.append(_parsed(cursor, parser).span.line)
        if len(parts) == 3 or not cursor.accept(":"):
            break
    if len(parts) == 1:
        return parts[0] or "."
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None


def _sliced(array: str, items: Sequence[_Item]) -> str | None:
    """The text of slices of an array, by selections, `take` and `drop`; None where steps are."""
    slices = [item for item in items if not isinstance(item, str)]
    if len(items) == 1 and slices and slices[0][2] is not None:
        begin, end, step = slices[0]
        if begin is None and end is None and step == "-1":
            return f"reverse({array})"
        if begin is None and end is None and step is not None and step.isdecimal() and int(step):
            count = f"(shape({array})[0] + {int(step) - 1}) / {step}"
            return f"{{ [i] -> {array}[{step} * i] | [i] < [{count}] }}"
    if any(item[2] is not None for item in slices):
        return None
    text = array
    if len(slices) < len(items):
        kept = [item if isinstance(item, str) else "." for item in items]
        text = f"{array}[{','.join(kept)}]"
    counted = re.compile(r"-\s*[0-9]+")
    taken: list[str] = []
    dropped: list[str] = []
    from_end: list[str] = []
    for axis, (begin, end, _) in enumerate(slices):
        last = bool(begin and counted.fullmatch(begin))
        if last and end is not None:
            return None
        taken.append(f"shape({text})[{axis}]")
        dropped.append("0")
        from_end.append("0")
        if begin is not None and last:
            taken[-1] = begin
        elif begin is not None:
            dropped[-1] = begin
        if end is not None and counted.fullmatch(end):
            from_end[-1] = end
        elif end is not None:
            taken[-1] = end
    whole = text
    for function, amounts in (("take", taken), ("drop", from_end), ("drop", dropped)):
        while amounts and amounts[-1] in ("0", f"shape({whole})[{len(amounts) - 1}]"):
            amounts.pop()
        if amounts:
            text = f"{function}([{', '.join(amounts)}], {text})"
    return text


def foreign_operator(
    cursor: Cursor,
    operands: list[Parsed[ast.Expr]],
    pending: list[Pending[ast.Expr]],
    parser: Parser,
) -> ParseError | None:
    """The error for `**`, `@` and other operators that this language has not, behind an operand."""
    sign = cursor.token.text
    if sign in ("**", "^"):
        return _power(cursor, operands[-1], parser)
    if sign == "@":
        parser.reduce(cursor, operands, pending, STRENGTH["*"])
        return _matrix_product(cursor, operands[-1], parser)
    return cursor.foreign_token() if sign in FOREIGN else None


def _power(cursor: Cursor, base: Parsed[ast.Expr], parser: Parser) -> ParseError:
    token = cursor.step()
    cause = f"there is no operator '{token.text}'"
    try:
        exponent = _parsed(cursor, parser, PREFIX_STRENGTH)
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(token), idiom="pow(x, y)")
    span = base.span.to(exponent.span)
    if exponent.expr == ast.Number("2", 2, span=span) and isinstance(base.expr, ast.Name):
        return cursor.error(cause, span=span, paste=f"({base.span.line} * {base.span.line})")
    text = f"pow({base.expr.span.line}, {exponent.expr.span.line})"
    return _pasted(cursor, cause, span, text, "pow(x, y)")


def _matrix_product(cursor: Cursor, left: Parsed[ast.Expr], parser: Parser) -> ParseError:
    token = cursor.step()
    cause = f"there is no operator '{token.text}'"
    idiom = "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }, of matrices"
    try:
        right = _parsed(cursor, parser, PREFIX_STRENGTH)
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(token), idiom=idiom)
    span = left.span.to(right.span)
    simple = (ast.Name, ast.Call, ast.Select)
    if not isinstance(left.expr, simple) or not isinstance(right.expr, simple):
        return cursor.error(cause, span=span, idiom=idiom)
    text = foreign.formula("matmul", [left.span.line, right.span.line])
    example = (Edit(span, text),) if text and len(text) <= MAX_PASTED_CHARACTERS else ()
    return cursor.error(cause, span=span, idiom=idiom, example=example)


# --- comprehensions and with-loops ---------------------------------------------------------------


def no_pattern(cursor: Cursor) -> ParseError:
    """The error where the index of a comprehension or of a generator is due."""
    if cursor.at("}"):
        return cursor.error(
            "expected an index and a body, found '}'; an empty vector is '[]'",
            idiom="{ iv -> a[iv] }",
        )
    return cursor.unexpected("an index: iv, or [i,j]", idiom="{ iv -> a[iv] }, { [i,j] -> a[j,i] }")


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
    if any(cursor.at(sign) for sign in (":", "=>", "=", "-", ">", "<")):
        return cursor.error(cause, paste="->")
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
    found = [at for at in places if _names_of(sides[at]) and _names_of(sides[at]) <= names]
    for at in found or [at for at in places if _names_of(sides[at])]:
        side = sides[at]
        bare = isinstance(side, Parsed) and side.span == side.expr.span
        if not found and not bare:
            continue
        return cursor.error(cause, rule="C3", span=side.span, paste=due)
    span = sides[0].span.to(sides[-1].span)
    return cursor.error(cause, rule="C3", span=span, idiom=f"{due} < shape(a)")


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
                texts.append(_parsed(cursor, parser, STRENGTH["++"]).span.line)
    except ParseError:
        raise cursor.error(cause, span=span, idiom=idiom) from None
    if not signs or cursor.token.text in (*_MIRRORED, *RELATIONS):
        raise cursor.error(cause, span=span, idiom=idiom)
    text = texts[-1]
    for sign, other in zip(reversed(signs), reversed(texts[:-1]), strict=True):
        text += f" {sign} {other}"
    whole = cursor.span(sides[0].span.start, cursor.previous_end)
    raise _pasted(cursor, cause, whole, text, idiom)


def no_loop_part(cursor: Cursor, opening: Token) -> ParseError:
    """The error for what stands in a with-loop and is no partition."""
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
