# ruff: noqa: ARG001
"""Errors for what SaC has and this language has not (C27), for what other languages write, and for
slips: each with what serves instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tc.edits import Edit
from tc.errors import ParseError
from tc.frontend.operator_parser import OperatorParser, Pending
from tc.frontend.token_cursor import Parsed, describe
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text.cursor import Cursor
from tc.sac.text.printer import printed
from tc.sac.text.tokens import FOREIGN, STRENGTH

Parser: TypeAlias = OperatorParser[Cursor, ast.Expr]
Side: TypeAlias = "Parsed[ast.Expr] | ast.Dot"
"""A side of a generator."""

LOOP_IDIOM = "{ [i] -> f(a[i]) | [i] < [n] }, for all i; a loop whose steps build on each other \
stands in Python, around calls"

UNSUPPORTED = {
    "use": ("'use': all functions stand in one text", "f(x), of a function in this text"),
    "import": ("'import': all functions stand in one text", "f(x), of a function in this text"),
    "export": ("'export'; every function of a text may be its entry", "entry='f', in Python"),
    "provide": ("'provide'; every function of a text may be its entry", "entry='f', in Python"),
    "module": ("'module': all functions stand in one text", "entry='f', in Python"),
    "class": ("'class'", "float[*] f(float[*] re, float[*] im), of arrays"),
    "struct": ("structs", "float[*] f(float[*] re, float[*] im), an array for each field"),
    "typedef": ("type definitions", "float[3] f(float[3] point), of the type itself"),
    "external": ("functions of other languages", "def f(...), of tc, called from Python"),
    "inline": ("'inline': calls are always inlined", "float[*] f(float[*] x) { return x; }"),
    "noinline": ("'noinline': calls are always inlined", "float[*] f(float[*] x) { return x; }"),
    "specialize": ("'specialize': every call's shapes are", "float[*] f(float[*] x)"),
    "thread": ("'thread'", "float[*] f(float[*] x) { return x; }"),
    "void": ("functions without a result", "float[*] f(float[*] x) { return x; }"),
}


def unsupported(cursor: Cursor, what: str, idiom: str, count: int = 1) -> ParseError:
    """The error for what SaC has and this language has not (C27), at the next `count` tokens."""
    end = cursor.ahead(count - 1).end
    return cursor.error(
        f"not supported: {what}", span=cursor.span(cursor.token.start, end), idiom=idiom
    )


def refuse_unsupported(cursor: Cursor) -> None:
    """Raise for `use`, `inline` and the like, where a definition or a text may begin."""
    token = cursor.token
    if token.kind is not Kind.NAME or token.text not in UNSUPPORTED:
        return
    after = cursor.ahead(1)
    if after.kind in (Kind.NAME, Kind.KEYWORD):
        raise unsupported(cursor, *UNSUPPORTED[token.text])


def refuse_statement(cursor: Cursor) -> None:
    token = cursor.token
    if token.kind is Kind.KEYWORD and token.text in ("for", "while", "do"):
        raise unsupported(cursor, f"loops ('{token.text}')", LOOP_IDIOM)


def no_definition(cursor: Cursor) -> ParseError:
    return cursor.unexpected("a function, which begins with its type", idiom="int f(int n) {}")


def refuse_operator_definition(cursor: Cursor) -> None:
    if cursor.token.kind is Kind.SIGN and cursor.token.text in {*STRENGTH, "!"}:
        raise unsupported(
            cursor, "definitions of operators", "float[*] plus(float[*] a, float[*] b), a name"
        )


def refuse_constraint(cursor: Cursor) -> None:
    if cursor.at("|"):
        raise unsupported(
            cursor, "constraints of types", "float[n] f(float[n] a, float[n] b), one name for both"
        )


def behind_return(cursor: Cursor, name: ast.Name, brace: Token) -> ParseError:
    note = (cursor.span_of(brace), "the '{' is here")
    return cursor.missing(
        f"'}}' after the return of '{name.text}'", repair="write '}' here", notes=(note,)
    )


def result_count(
    cursor: Cursor, name: ast.Name, types: Sequence[ast.Type], results: Sequence[ast.Expr]
) -> ParseError:
    span = results[0].span.to(results[-1].span)
    return cursor.error(
        f"'{name.text}' is declared with {len(types)} results, its return has {len(results)}",
        span=span,
        repair="give each result its type, and each type its result",
        notes=((types[0].span.to(types[-1].span), "the types are here"),),
    )


def no_type(cursor: Cursor) -> ParseError:
    return cursor.unexpected("the type of a parameter", repair="write a type here, as float[*]")


def no_size(cursor: Cursor) -> ParseError:
    return cursor.unexpected("a size: a number, a name or '.'", repair="write '.' for any size")


def early_return(cursor: Cursor) -> ParseError:
    return cursor.error(
        "a 'return' ends a function and stands in no block",
        idiom="if (c) { r = a; } else { r = b; } return r;",
    )


def no_end(cursor: Cursor, wanted: str, strength: Mapping[str, int]) -> ParseError:
    return cursor.missing(wanted, repair="write ';' here")


def no_return(cursor: Cursor, name: ast.Name, brace: Token) -> ParseError:
    note = (cursor.span_of(brace), "the '{' is here")
    return cursor.unexpected(
        f"a statement or the 'return' of '{name.text}'",
        repair="write return and the result here",
        notes=(note,),
    )


def results_without_parentheses(cursor: Cursor, first: Parsed[ast.Expr]) -> ParseError:
    return cursor.error("several results stand in parentheses", idiom="return (a, b);")


def return_without_function(cursor: Cursor) -> ParseError:
    return cursor.error("a text that is an expression has no 'return'", paste="")


def no_result(cursor: Cursor, statements: Sequence[ast.Statement]) -> ParseError:
    if not statements:
        return cursor.error(
            "the text is empty", span=cursor.span(0, 0), idiom="{ iv -> a[iv] + 1 }"
        )
    return cursor.unexpected(
        "an expression after the statements", repair="write the result here, as x"
    )


def behind_expression(
    cursor: Cursor, result: Parsed[ast.Expr], strength: Mapping[str, int]
) -> ParseError:
    return cursor.missing("an operator or the end of the text", repair="write ';' here")


def no_expression(cursor: Cursor) -> ParseError:
    return cursor.missing("an expression", repair="write a number, a name or '(' here")


def refuse_member(cursor: Cursor, found: Parsed[ast.Expr]) -> None:
    """Raise for `np.sum(x)` and `x.shape`."""
    if cursor.at(".") and cursor.ahead(1).kind is Kind.NAME:
        raise cursor.error("there are no modules and no members", idiom="sum(x), shape(x)")


def refuse_word(cursor: Cursor) -> None:
    """Raise for `not x`."""
    after = cursor.ahead(1)
    if cursor.is_foreign() and after.kind in (Kind.NAME, Kind.NUMBER, Kind.KEYWORD):
        error = cursor.foreign_token()
        assert error is not None
        raise error


def named_argument(cursor: Cursor, name: ast.Name, parts: Sequence[Parsed[ast.Expr]]) -> ParseError:
    return cursor.error("arguments have no names", idiom=f"{name.text}(x)")


def word_in_expression(cursor: Cursor) -> ParseError:
    refuse_statement(cursor)
    if cursor.at("if"):
        return cursor.error(
            "an 'if' is a statement; a choice is written 'c ? a : b'", idiom="c ? a : b"
        )
    return cursor.no_name("a value")


def no_cast(cursor: Cursor, spelling: Token) -> ParseError:
    return cursor.unexpected(
        f"'(' after the type '{spelling.text}', which is a cast here",
        repair=f"{spelling.text}(x)",
    )


def refuse_dot_in_row(cursor: Cursor) -> None:
    if cursor.at(".") or cursor.at("..."):
        raise cursor.error(
            f"'{cursor.token.text}' stands in patterns, selections and bounds, not in an array",
            repair="write a value here",
        )


def refuse_list_comprehension(
    cursor: Cursor, opening: Token, parts: Sequence[Parsed[ast.Expr]]
) -> None:
    if cursor.at("for"):
        raise cursor.error(
            "a comprehension is written in braces", idiom="{ [i] -> f(i) | [i] < [n] }"
        )


def refuse_spaced_dots(cursor: Cursor, dot: ast.Dot | ast.Dots) -> None:
    """Raise for `. . .`."""
    count = 0
    while cursor.ahead(count).text == ".":
        count += 1
    if count:
        end = cursor.ahead(count - 1).end
        span = cursor.span(dot.span.start, end)
        whole = isinstance(dot, ast.Dot) and count == 2
        raise cursor.error(
            f"expected ',' or ']', found '{cursor.token.text}'",
            span=span,
            paste="..." if whole else None,
            idiom=None if whole else "'...' for any number of axes, or '., .' for two",
        )


def a_slice(cursor: Cursor, array: Parsed[ast.Expr], opening: Token, parser: Parser) -> ParseError:
    return cursor.error("there are no slices", idiom="take([2], drop([1], a)), for a[1:3]")


def foreign_operator(
    cursor: Cursor,
    operands: list[Parsed[ast.Expr]],
    pending: list[Pending[ast.Expr]],
    nesting: int,
    parser: Parser,
) -> ParseError | None:
    if cursor.token.text in FOREIGN:
        return cursor.foreign_token()
    return None


def refuse_several_bodies(cursor: Cursor) -> None:
    if cursor.at(","):
        raise unsupported(
            cursor, "several results of one comprehension", "a comprehension for each result"
        )


def no_arrow(cursor: Cursor) -> ParseError:
    token = cursor.token
    cause = f"expected '->', found {describe(token)}"
    if cursor.at_end:
        return cursor.error(cause, repair="write '->' and the body here")
    at = cursor.previous_end
    if cursor.at(":") or cursor.at("=>") or cursor.at("-") or cursor.at("="):
        return cursor.error(cause, paste="->")
    if cursor.at("|") or cursor.at("}") or cursor.at(";"):
        return cursor.error(cause, repair="write '->' and the body here")
    span = cursor.span(at, at)
    return cursor.error(cause, edits=(Edit(span, " ->"),))


def no_generator(
    cursor: Cursor,
    pattern: ast.Pattern,
    index: ast.Pattern,
    sides: Sequence[Side],
    relations: Sequence[Token],
) -> ParseError:
    if not relations:
        return cursor.missing("'<' or '<=' in the generator", repair="write '<' here")
    cause = f"a generator of the pattern {printed(pattern)} bounds {printed(index)}"
    at = 1 if len(sides) == 3 else 0
    return cursor.error(cause, rule="C3", span=sides[at].span, repair=f"write {printed(index)}")


def refuse_strict_dots(
    cursor: Cursor,
    lower: ast.Bound | None,
    upper: ast.Bound | None,
    relations: Sequence[Token],
) -> None:
    """Raise for `. <` and `< .` (C18)."""
    for bound, token, whole in ((lower, relations[0], ". <="), (upper, relations[-1], "<= .")):
        if bound is not None and isinstance(bound.value, ast.Dot) and bound.strict:
            first, last = sorted((bound.value.span.start, token.start))
            raise cursor.error(
                f"'<' beside '.': write '{whole}' (or no bound) for all, or '< shape - 1'",
                rule="C18",
                span=cursor.span(first, last + 1),
                idiom=f"'{whole}', for all",
            )


def refuse_more_than_a_box(cursor: Cursor) -> None:
    if cursor.at_word("step", "width"):
        raise unsupported(
            cursor, f"'{cursor.token.text}'", "{ [i] -> a[2 * i] | [i] < shape(a) / 2 }"
        )
    if cursor.at("&&") or cursor.at("||") or cursor.at(","):
        raise unsupported(
            cursor,
            "ranges that are no boxes",
            "{ [i,j] -> j < i ? a[i,j] : 0 | [i,j] < shape(a) }",
        )


def refuse_other_relations(
    cursor: Cursor,
    sides: Sequence[Side],
    relations: Sequence[Token],
    nesting: int,
    parser: Parser,
) -> None:
    """Raise for `iv > 0`."""
    if cursor.at(">") or cursor.at(">=") or cursor.at("==") or cursor.at("!="):
        raise cursor.error(
            "an index is bounded by '<' and '<=', the lower bound on its left",
            idiom="[1] <= [i] < [5]",
        )


def no_loop_part(cursor: Cursor, opening: Token, parts: Sequence[ast.LoopPart]) -> ParseError:
    note = (cursor.span_of(opening), "the '{' is here")
    return cursor.missing(
        "';', '(' or '}' of the with-loop", repair="write '}' here", notes=(note,)
    )


def no_relation(cursor: Cursor, what: str) -> ParseError:
    return cursor.unexpected(f"'<' or '<=' after {what}", repair="write '<=' or '<' here")


def no_operation(cursor: Cursor) -> ParseError:
    return cursor.unexpected(
        "genarray(shape, default), modarray(array) or fold(op, neutral)",
        repair="write one of them here",
    )


def operands_of(cursor: Cursor, name: Token, count: int) -> ParseError:
    due = {"genarray": "a shape and a default", "modarray": "one array"}.get(
        name.text, "an operation and a neutral element"
    )
    return cursor.error(
        f"'{name.text}' of a with-loop takes {due}",
        span=cursor.span(name.start, cursor.previous_end),
        repair=f"give it {due}",
    )


def no_fold_operator(cursor: Cursor, folds: Sequence[str]) -> ParseError:
    return cursor.error(
        f"expected one of {' '.join(folds)} to fold with, found {describe(cursor.token)}",
        repair="write one of them here",
    )


def no_pattern(cursor: Cursor) -> ParseError:
    return cursor.unexpected("an index: iv, or [i, j]", repair="write an index here")


def dot_in_index(cursor: Cursor, dot: ast.Dot | ast.Dots) -> ParseError:
    return cursor.error(
        f"'{dot.span.text}' stands in patterns before '->' only", repair="write a name here"
    )


def doubled_index(cursor: Cursor, entry: ast.Name, opening: Token) -> ParseError:
    return cursor.error(
        f"'{entry.text}' stands twice in a pattern",
        rule="C3",
        span=entry.span,
        repair="give each index a name of its own",
    )


def no_index(cursor: Cursor) -> ParseError:
    return cursor.unexpected("an index: a name, '.' or '...'", repair="write a name here")
