"""From tokens to the syntax tree: recursive descent over defs and statements (rules T1 to T5).

module    ::= def+
def       ::= 'def' NAME '(' params ')' '->' '(' returns ')' '{' statement* '}'
param     ::= type NAME              return ::= [type] NAME
type      ::= TYPE ['(' (NAME | NUMBER),* ')']
statement ::= NAME ['(' NAME,* ')'] operator expression trailer*
            | NAME ',' NAME,+ '=' NAME '(' expression,* ')'
            | '(' NAME,+ ')' '=' NAME '(' expression,* ')'
trailer   ::= 'where' clause,+ | '<=>' NAME '(' expression,* ')'
clause    ::= NAME 'in' expression ':' expression | NAME '=' expression
            | 'exists' NAME '(' expression,* ')'
"""

from __future__ import annotations

from tc.errors import ParseError
from tc.frontend.ast import (
    Annotation,
    Apply,
    Binding,
    CallStatement,
    Clause,
    Comprehension,
    Def,
    Exists,
    Expr,
    Module,
    Name,
    RangeClause,
    Statement,
)
from tc.frontend.cursor import Cursor, describe
from tc.frontend.expressions import (
    close_bracket,
    parse_arguments,
    parse_part,
    reject_brackets,
)
from tc.frontend.lexer import number_value
from tc.frontend.repairs import PYTHON_WORDS, joined_clauses, reduction_written
from tc.frontend.signatures import parse_params, parse_returns
from tc.frontend.tokens import ASSIGNMENTS, Kind, Token
from tc.source import Source


def parse(source: Source) -> Module:
    """The syntax tree of a text with one or more defs.

    Raises ParseError with rule, place, cause and repair for any other text, in time linear in
    its length.

    >>> module = parse(Source("def f(float(N) A) -> (o) { o +=! A(i) }"))
    >>> module.defs[0].body[0].op
    '+=!'
    """
    cursor = Cursor(source)
    defs: list[Def] = []
    while not cursor.at_end:
        defs.append(_definition(cursor, bool(defs)))
    cursor.finish()
    if not defs:
        raise cursor.error(
            "the text has no def",
            span=cursor.span(0, 0),
            repair="def f(float(N) A) -> (C) { C(i) = A(i) }",
        )
    return Module(tuple(defs), span=cursor.span(0, len(source.text)))


def parse_expression(source: Source) -> Expr:
    """The tree of a text that is one expression.

    >>> parse_expression(Source("a - b - c")).left.op
    '-'
    """
    cursor = Cursor(source)
    part = parse_part(cursor)
    if not cursor.at_end:
        raise cursor.unexpected("the end of the expression", repair="delete the rest")
    cursor.finish()
    return part.expr


def _definition(cursor: Cursor, follows: bool) -> Def:
    if not cursor.at("def"):
        if follows and cursor.at("}"):
            raise cursor.error("this '}' closes nothing", repair="delete it")
        raise cursor.unexpected("'def'", repair="def f(float(N) A) -> (C) { C(i) = A(i) }")
    start = cursor.step().start
    name = cursor.name("a def")
    params = parse_params(cursor, name)
    returns = parse_returns(cursor, name)
    opening = cursor.expect("{", f"before the statements of '{name.text}'")
    body: list[Statement] = []
    while not cursor.at("}"):
        if cursor.at_end or cursor.at("def"):
            raise _not_closed(cursor, name, opening)
        body.append(_statement(cursor))
    end = cursor.step().end
    return Def(name, params, returns, tuple(body), span=cursor.span(start, end))


def _statement(cursor: Cursor) -> Statement:
    start = cursor.token.start
    if cursor.at("("):
        opening = cursor.step()
        targets = _names(cursor, "a target of the call")
        close_bracket(cursor, opening, "',' or ')'")
        return _call(cursor, start, targets)
    if cursor.token.kind is not Kind.NAME:
        raise _no_statement(cursor)
    _no_python_word(cursor)
    target = cursor.name("a target")
    if cursor.accept(","):
        return _call(cursor, start, (target, *_names(cursor, "a target of the call")))
    indices = _indices(cursor, target) if cursor.at("(") else None
    operator = _assignment(cursor, target, start)
    rhs = parse_part(cursor)
    where, annotation = _trailers(cursor)
    return Comprehension(
        target,
        indices,
        operator.text,
        cursor.span_of(operator),
        rhs.expr,
        where,
        annotation,
        span=cursor.span(start, cursor.previous_end),
    )


def _names(cursor: Cursor, what: str) -> tuple[Name, ...]:
    names = [cursor.name(what)]
    while cursor.accept(","):
        names.append(cursor.name(what))
    return tuple(names)


def _indices(cursor: Cursor, target: Name) -> tuple[Name, ...]:
    opening = cursor.step()
    names: list[Name] = []
    while not cursor.at(")") or names:
        token = cursor.token
        after = cursor.ahead(1).text
        named = token.kind is Kind.NAME and after in (",", ")")
        if not named and token.kind in (Kind.NAME, Kind.NUMBER):
            raise _no_index(cursor, target)
        names.append(cursor.name("an index variable"))
        if not cursor.accept(","):
            break
    close_bracket(cursor, opening, "',' or ')'")
    return tuple(names)


def _assignment(cursor: Cursor, target: Name, start: int) -> Token:
    token = cursor.token
    if token.kind is Kind.SIGN and token.text in ASSIGNMENTS:
        cursor.step()
        plus = cursor.token
        if token.text == "=" and plus.text == "+" and plus.start == token.end:
            written = cursor.span(start, token.start).text
            raise cursor.error(
                "'=+' is no operator: a sum is '+=', a plain value with a sign '= +'",
                span=cursor.span(token.start, plus.end),
                repair=f"{_one_line(written)} += ...",
            )
        return token
    written = _one_line(cursor.span(start, cursor.previous_end).text)
    if cursor.at("["):
        raise reject_brackets(cursor, target)
    if token.kind is Kind.SIGN and token.text in ("-=", "/=", "%="):
        raise _no_reduction(cursor, written)
    if cursor.at("=="):
        raise cursor.error("'==' compares; a statement assigns with '='", repair=f"{written} = ...")
    slip = reduction_written(cursor.tokens, cursor.index)
    if slip is not None:
        raise _misspelt_reduction(cursor, written, *slip)
    before = cursor.source.text[:start].rstrip(" \t")
    raise cursor.error(
        f"expected '=' or a reduction (+= *= min= max=, with ! to initialise) after '{written}', "
        f"found {describe(token)}; if '{written}' belongs to the expression before it, an operator "
        "is missing between them",
        span=cursor.span(start, cursor.previous_end),
        repair=f"{written} = ..." if before[-1:] in ("\n", "{") else f"* {written}",
    )


def _trailers(cursor: Cursor) -> tuple[tuple[Clause, ...], Annotation | None]:
    where: tuple[Clause, ...] = ()
    annotation = None
    while cursor.at("where") or cursor.at("<=>"):
        if cursor.at("where"):
            if where:
                raise _second_where(cursor, where)
            cursor.step()
            where = _clauses(cursor)
        else:
            if annotation is not None:
                raise cursor.error(
                    "a statement has one '<=>' annotation", rule="T5", repair="delete it"
                )
            annotation = _annotation(cursor)
    return where, annotation


def _clauses(cursor: Cursor) -> tuple[Clause, ...]:
    clauses = [_clause(cursor)]
    while cursor.accept(","):
        clauses.append(_clause(cursor))
    return tuple(clauses)


def _clause(cursor: Cursor) -> Clause:
    start = cursor.token.start
    if cursor.accept("exists"):
        tensor = cursor.name("a tensor after 'exists'")
        read = _apply(cursor, tensor, f"the subscripts of '{tensor.text}'")
        return Exists(read, span=cursor.span(start, cursor.previous_end))
    name = cursor.name("an index variable or a binding of the 'where'")
    if cursor.token.kind is Kind.NAME and cursor.token.text == "in":
        cursor.step()
        return _range(cursor, name)
    if cursor.accept("="):
        if cursor.at("["):
            raise _old_range(cursor, name)
        value = parse_part(cursor)
        return Binding(name, value.expr, span=cursor.span(start, value.end))
    if cursor.at("("):
        raise cursor.error(
            f"a read in a 'where' stands after 'exists': '{name.text}' is neither given a range "
            "nor a value",
            rule="T5",
            repair=f"where exists {name.text}(i)",
        )
    end = "2"
    if cursor.at("<") or cursor.at("<="):
        bound = cursor.ahead(1)
        offset = "" if cursor.at("<") else " + 1"
        end = bound.text + offset if bound.kind in (Kind.NAME, Kind.NUMBER) else "N"
    raise cursor.unexpected(
        f"'in' or '=' after '{name.text}' in the 'where'",
        rule="T5",
        repair=f"where {name.text} in 0:{end}",
    )


def _range(cursor: Cursor, name: Name) -> RangeClause:
    if cursor.at("["):
        raise _old_range(cursor, name)
    begin = parse_part(cursor)
    if not cursor.at(":"):
        written = _one_line(cursor.span(begin.start, begin.end).text)
        raise cursor.missing(
            f"':' and the end of the range of '{name.text}'",
            repair=f"where {name.text} in 0:{written if written != '0' else 'N'}",
        )
    cursor.step()
    end = parse_part(cursor)
    span = cursor.span(name.span.start, end.end)
    return RangeClause(name, begin.expr, end.expr, span=span)


def _annotation(cursor: Cursor) -> Annotation:
    start = cursor.step().start
    name = cursor.name("an annotation after '<=>'")
    read = _apply(cursor, name, f"the arguments of '{name.text}'")
    return Annotation(name, read.args, span=cursor.span(start, cursor.previous_end))


def _apply(cursor: Cursor, name: Name, what: str) -> Apply:
    parts = parse_arguments(cursor, 0, what)
    span = cursor.span(name.span.start, cursor.previous_end)
    return Apply(name, tuple(part.expr for part in parts), span=span)


def _call(cursor: Cursor, start: int, targets: tuple[Name, ...]) -> CallStatement:
    cursor.expect("=", "after the targets of a call")
    callee = cursor.name("the def that is called")
    call = _apply(cursor, callee, f"the arguments of '{callee.text}'")
    if cursor.at("where") or cursor.at("<=>"):
        raise cursor.error(
            f"a call of a def takes no '{cursor.token.text}'",
            rule="T5",
            repair="delete it",
        )
    span = cursor.span(start, cursor.previous_end)
    return CallStatement(targets, callee, call.args, span=span)


def _second_where(cursor: Cursor, where: tuple[Clause, ...]) -> ParseError:
    span = cursor.span_of(cursor.step())
    more = _clauses(cursor)
    return cursor.error(
        "a statement has one 'where'; its clauses are separated by commas",
        rule="T5",
        span=span,
        repair=joined_clauses((*where, *more)),
    )


def _not_closed(cursor: Cursor, name: Name, opening: Token) -> ParseError:
    found = "the text ends" if cursor.at_end else "another def begins"
    where = "at the end" if cursor.at_end else "before this def"
    return cursor.error(
        f"the body of '{name.text}' is not closed: {found} before its '}}'",
        repair=f"write '}}' {where}",
        notes=((cursor.span_of(opening), "the '{' is here"),),
    )


def _no_python_word(cursor: Cursor) -> None:
    """Raise where the name here goes on with the expression before it, as in Python."""
    before = cursor.tokens[cursor.index - 1]
    negated = before.kind is Kind.NAME and before.text == "not"
    if not negated and cursor.token.text not in PYTHON_WORDS:
        return
    count = 1
    if cursor.ahead(1).text == "(":
        while cursor.ahead(count).kind is not Kind.END and cursor.ahead(count).text != ")":
            count += 1
        count += 1
    after = cursor.ahead(count)
    if after.text != "," and after.text not in ASSIGNMENTS:
        raise cursor.python_word(cursor.index - negated)


def _no_statement(cursor: Cursor) -> ParseError:
    token = cursor.token
    if cursor.at("where"):
        return cursor.error(
            "a 'where' follows the statement that it belongs to",
            rule="T5",
            repair="C(i) +=! A(i + k) where k in 0:2",
        )
    if token.kind is Kind.NUMBER and token.text.startswith("."):
        before = cursor.tokens[cursor.index - 1]
        repair = (before.text if before.kind is Kind.NAME else "T") + token.text
        return cursor.error("no space stands around the dot of a size", rule="T2", repair=repair)
    if token.kind is Kind.SIGN and token.text != "-" and token.text[:4] not in ("min=", "max="):
        return cursor.unexpected("a statement or '}'", repair="C(i) = ...")
    return cursor.no_name("a target of a statement")


def _no_index(cursor: Cursor, target: Name) -> ParseError:
    token = cursor.token
    shown, repair = f"an expression with '{token.text}'", f"{target.text}(i) = ..."
    if token.kind is Kind.NUMBER:
        value = int(number_value(token.text))
        shown, repair = f"'{token.text}'", f"{repair} where i in {value}:{value + 1}"
    return cursor.error(
        f"the left side of a statement lists index variables, and {shown} is not one",
        rule="N2",
        repair=repair,
    )


def _no_reduction(cursor: Cursor, written: str) -> ParseError:
    token = cursor.step()
    value = _value_here(cursor)
    repairs = {
        "-=": f"{written} += -({value})",
        "/=": f"{written} *= 1.0 / ({value})",
        "%=": f"{written} = {written} % ({value})",
    }
    return cursor.error(
        f"there is no reduction '{token.text}'; the operators are += *= min= max=",
        span=cursor.span_of(token),
        repair=repairs[token.text],
    )


def _misspelt_reduction(cursor: Cursor, written: str, meant: str, count: int) -> ParseError:
    start, end = cursor.token.start, cursor.token.end
    for _ in range(count):
        end = cursor.step().end
    span = cursor.span(start, end)
    spaced = ", without a space" if " " in _one_line(span.text) else ""
    return cursor.error(
        f"'{_one_line(span.text)}' is no operator; it is written '{meant}'{spaced}",
        span=span,
        repair=f"{written} {meant} {_value_here(cursor)}",
    )


def _value_here(cursor: Cursor) -> str:
    try:
        part = parse_part(cursor)
    except ParseError:
        return "..."
    return _one_line(cursor.span(part.start, part.end).text)


def _old_range(cursor: Cursor, name: Name) -> ParseError:
    """The error for `k = [0, 2[`, the old spelling of a range, from its `[` on."""
    start = cursor.step().start
    begin, end = "0", "N"
    try:
        first = parse_part(cursor)
        cursor.expect(",", "in the range")
        # the closing '[' may look like a subscript of the last name
        stop = cursor.token.start
        depth = 0
        while not cursor.at_end and (depth or cursor.token.text not in ("[", "]", ")")):
            depth += {"(": 1, ")": -1}.get(cursor.step().text, 0)
        if cursor.token.text in ("[", "]", ")"):
            begin = _one_line(cursor.span(first.start, first.end).text)
            end = _one_line(cursor.span(stop, cursor.previous_end).text)
            end += " + 1" if cursor.step().text == "]" else ""
    except ParseError:
        pass
    span = cursor.span(start, cursor.previous_end)
    written = _one_line(span.text)
    return cursor.error(
        f"a range is written 'begin:end', not '{written}'",
        span=span,
        repair=f"where {name.text} in {begin}:{end}",
    )


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 80 and "#" not in joined else "..."
