"""Errors of functions and statements: slips, and what other languages write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.token_cursor import Parsed, describe
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text import foreign
from tc.sac.text.cursor import Cursor
from tc.sac.text.rejections.pasting import Parser, parsed, pasted
from tc.source import Edit


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
    if token.kind is Kind.NAME:
        return cursor.error(
            f"there is no type '{token.text}'",
            idiom="float[*]; types are bool, int8 to int64, uint8 to uint64, half, float, double",
        )
    return cursor.unexpected("a type", repair="write a type such as float[*] here")


def refuse_parameter_without_type(cursor: Cursor, element: str) -> None:
    """Raise for a parameter that is a name alone."""
    name = cursor.token.text
    if cursor.token.kind is Kind.NAME and cursor.ahead(1).text in (",", ")"):
        raise cursor.error(f"the parameter '{name}' has no type", paste=f"{element}[*] {name}")


def refuse_function_without_type(cursor: Cursor) -> None:
    """Raise for `f(int x) { return x; }`, where a text begins."""
    name, element, after = cursor.token, cursor.ahead(2), cursor.ahead(3)
    if name.kind is not Kind.NAME or cursor.ahead(1).text != "(":
        return
    if element.kind is Kind.KEYWORD and element.text in SPELLINGS and after.text != "(":
        raise cursor.error(
            f"the function '{name.text}' has no type of its result",
            paste=f"{element.text}[*] {name.text}",
        )


def refuse_type_as_variable(cursor: Cursor, types: Sequence[ast.Type]) -> None:
    """Raise for `float = 2;`."""
    if cursor.at("=") and len(types) == 1 and not types[0].sizes:
        name = types[0].element
        raise cursor.error(
            f"'{name}' is the name of a type, and of no variable",
            rule="C2",
            span=types[0].span,
            idiom=f"{name}_value = 2; {name}_value + 1",
        )


def refuse_sizes_beside(cursor: Cursor) -> None:
    """Raise for `[*,3]`, at the `*`."""
    sign = cursor.token.text
    if cursor.ahead(1).text == ",":
        raise cursor.error(
            f"'{sign}' stands alone in a type; beside sizes, 'd:shp' is any number of axes",
            paste="d:shp",
        )


def refuse_second_brackets(cursor: Cursor) -> None:
    """Raise for `int[n][m]`, at the second `[`."""
    if cursor.at("["):
        raise cursor.error(
            "the sizes of a type stand in one pair of brackets",
            span=cursor.span(cursor.previous_end - 1, cursor.token.end),
            paste=",",
        )


def no_size(cursor: Cursor) -> ParseError:
    """The error where a size is due between the brackets of a type."""
    if cursor.at("*") or cursor.at("+"):
        return cursor.error(
            f"'{cursor.token.text}' stands alone in a type; beside sizes, 'd:shp' is any number of "
            "axes",
            paste="d:shp",
        )
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
            parts.append(parsed(cursor, parser))
    except ParseError:
        return cursor.error(cause, span=first.span, idiom="return (a, b);")
    text = ", ".join(part.span.line for part in parts)
    span = first.span.to(parts[-1].span)
    return pasted(cursor, cause, span, f"({text})", "return (a, b);")


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
    if cursor.at("|"):
        return cursor.error("there is no operator '|'; it is written '||'", paste="||")
    if before.text == "lambda":
        return cursor.error(
            "there are no functions without a name",
            span=cursor.span_of(before),
            idiom="int[*] f(int[*] x) { return x + 1; }",
        )
    if cursor.at("="):
        return cursor.error(
            "only variables are assigned to; a comparison is '=='", idiom="x = a; or x == a"
        )
    return _divided(cursor) or error


def quotients_for_comment(cursor: Cursor) -> Iterator[tuple[Edit, ...]]:
    """Edits that write `/` for the `//` of a comment which follows a token on its line, before the
    place of an error: for the first one, and for all."""
    end = cursor.previous_end
    line = cursor.source.text[end:].partition("\n")[0]
    places = [found.start() for found in re.finditer(r"//", line)]
    if places and not line[: places[0]].strip() and re.match(r"//\s*[\w(\[-]", line[places[0] :]):
        edits = tuple(Edit(cursor.span(end + at, end + at + 2), "/") for at in places)
        yield edits[:1]
        yield edits


def comment_for_quotient(error: ParseError, edits: tuple[Edit, ...]) -> ParseError:
    """The error of a text that is one of the language with `/` in place of a comment's `//`."""
    return ParseError(
        "'//' begins a comment, up to the end of its line; '/' divides integers and rounds down",
        rule=error.rule,
        span=edits[0].span,
        edits=edits,
    )
