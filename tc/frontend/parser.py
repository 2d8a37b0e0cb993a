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

import itertools
from collections.abc import Iterator

from tc.edits import Edit
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
    Number,
    RangeClause,
    Statement,
)
from tc.frontend.conditions import condition, old_range
from tc.frontend.constructs import continued, operator_word, statement_word, stray_sign
from tc.frontend.cursor import Cursor, describe
from tc.frontend.expressions import (
    Part,
    close_bracket,
    parse_arguments,
    parse_part,
    reject_brackets,
)
from tc.frontend.foreign import Names, kind_of, written
from tc.frontend.left_sides import left_side, walk
from tc.frontend.repairs import PYTHON_WORDS, joined_clauses, reduction_written
from tc.frontend.signatures import parse_params, parse_returns
from tc.frontend.tokens import ASSIGNMENTS, FOREIGN, Kind, Token
from tc.source import Source

_AROUND = "statements stand in a def, such as def f(float(N) A) -> (C) { C(i) = A(i) }"


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
            idiom=_AROUND,
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
            raise cursor.error("this '}' closes nothing", paste="")
        raise cursor.unexpected("'def'", idiom=_AROUND)
    start = cursor.step().start
    name = cursor.name("a def")
    params = parse_params(cursor, name)
    returns = parse_returns(cursor, name)
    cursor.names = Names(
        {param.name.text: param.type for param in params},
        frozenset(_written(cursor)) | {result.name.text for result in returns},
    )
    opening = cursor.expect("{", f"before the statements of '{name.text}'")
    body: list[Statement] = []
    while not cursor.at("}"):
        if cursor.at_end or cursor.at("def"):
            raise _not_closed(cursor, name, opening)
        body.append(_statement(cursor))
    end = cursor.step().end
    return Def(name, params, returns, tuple(body), span=cursor.span(start, end))


def _written(cursor: Cursor) -> Iterator[str]:
    """The names that an assignment follows in what is left of the def: those of its tensors."""
    before: list[str] = []
    for count in itertools.count():
        token = cursor.ahead(count)
        if token.kind is Kind.END or token.text == "def":
            return
        assigned = cursor.ahead(count + 1).text in ASSIGNMENTS
        if token.text == "(":
            before.append(cursor.ahead(count - 1).text)
        elif token.text == ")" and before:
            name = before.pop()
            if assigned:
                yield name
        elif assigned and token.kind is Kind.NAME:
            yield token.text


def _statement(cursor: Cursor) -> Statement:
    start = cursor.token.start
    statement_word(cursor)
    if cursor.at("("):
        if (error := continued(cursor)) is not None:
            raise error
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
    operator = _assignment(cursor, target, indices or (), start)
    cursor.statement = start, operator
    rhs = parse_part(cursor)
    where, annotation = _trailers(cursor, rhs)
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
        named = token.kind is Kind.NAME and after in (",", ")", *ASSIGNMENTS)
        if not named and token.kind in (Kind.NAME, Kind.NUMBER):
            raise left_side(cursor, target, names, opening)
        names.append(cursor.name("an index variable"))
        if not cursor.accept(","):
            break
    close_bracket(cursor, opening, "',' or ')'")
    return tuple(names)


def _assignment(cursor: Cursor, target: Name, indices: tuple[Name, ...], start: int) -> Token:
    token = cursor.token
    if token.kind is Kind.SIGN and token.text in ASSIGNMENTS:
        cursor.step()
        plus = cursor.token
        if token.text == "=" and plus.text == "+" and plus.start == token.end:
            raise cursor.error(
                "'=+' is no operator: a sum is '+=', a plain value with a sign '= +'",
                span=cursor.span(token.start, plus.end),
                idiom="s += A(i), for a sum",
            )
        return token
    left = _one_line(cursor.span(start, cursor.previous_end).text)
    if cursor.at("["):
        raise reject_brackets(cursor, target)
    if token.kind is Kind.SIGN and token.text in ("-=", "/=", "%="):
        raise _no_reduction(cursor, indices, start)
    if cursor.at("=="):
        raise cursor.error("'==' compares; a statement assigns with '='", paste="=")
    slip = reduction_written(cursor.tokens, cursor.index)
    if slip is not None:
        raise _misspelt_reduction(cursor, *slip)
    other = operator_word(cursor, target, start)
    if other is not None:
        raise other
    before = cursor.source.text[:start].rstrip(" \t")
    previous = next(t for t in reversed(cursor.tokens[: cursor.index]) if t.end <= start)
    cause = (
        f"expected '=' or a reduction (+= *= min= max=, with ! to initialise) after '{left}', "
        f"found {describe(token)}"
    )
    span = cursor.span(start, cursor.previous_end)
    if before[-1:] in ("\n", "{"):
        raise cursor.error(cause, span=span, repair=f"{left} = ...")
    cause += f"; if '{left}' belongs to the expression before it, an operator is missing"
    if previous.kind is Kind.NUMBER:  # a product, as it is written by hand
        whole = cursor.span(previous.start, cursor.previous_end)
        raise cursor.error(cause, span=span, edits=(Edit(whole, f"{previous.text} * {left}"),))
    raise cursor.error(cause, span=span, idiom=f"* {left}, if a product is meant")


def _trailers(cursor: Cursor, rhs: Part) -> tuple[tuple[Clause, ...], Annotation | None]:
    where: tuple[Clause, ...] = ()
    annotation = None
    while cursor.at("where") or cursor.at("<=>"):
        if cursor.at("where"):
            if where:
                raise _second_where(cursor, where, rhs)
            cursor.step()
            where = _clauses(cursor, rhs)
        else:
            if annotation is not None:
                raise cursor.error(
                    "a statement has one '<=>' annotation",
                    rule="T5",
                    repair="delete one of the two",
                )
            annotation = _annotation(cursor)
    return where, annotation


def _clauses(cursor: Cursor, rhs: Part) -> tuple[Clause, ...]:
    clauses = [_clause(cursor, rhs, 0)]
    while cursor.accept(","):
        clauses.append(_clause(cursor, rhs, len(clauses)))
    if cursor.token.text in ("and", "&&") and cursor.ahead(2).text in ("in", "="):
        raise cursor.error("the clauses of a 'where' are separated by commas", rule="T5", paste=",")
    return tuple(clauses)


def _clause(cursor: Cursor, rhs: Part, count: int) -> Clause:
    start = cursor.token.start
    if cursor.token.text == "for" and cursor.ahead(1).kind is Kind.NAME:
        raise cursor.error("a range begins with its index variable", rule="T5", paste="")
    if cursor.accept("exists"):
        tensor = cursor.name("a tensor after 'exists'")
        read = _apply(cursor, tensor, f"the subscripts of '{tensor.text}'")
        return Exists(read, span=cursor.span(start, cursor.previous_end))
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
        if cursor.at(":"):
            cursor.step()
            end = parse_part(cursor)
            texts = [written(cursor.span(part.start, part.end).text) for part in (value, end)]
            raise cursor.error(
                f"a range is written '{name.text} in begin:end'",
                rule="T5",
                span=cursor.span(start, end.end),
                paste=f"{name.text} in {':'.join(texts)}",
            )
        return Binding(name, value.expr, span=cursor.span(start, value.end))
    raise condition(cursor, rhs, count, name)


def _range(cursor: Cursor, name: Name) -> RangeClause:
    if cursor.at("["):
        raise old_range(cursor, name)
    begin = parse_part(cursor)
    if not cursor.at(":"):
        raise _no_range_end(cursor, name, begin)
    cursor.step()
    end = parse_part(cursor)
    if cursor.at(":"):
        raise cursor.error(
            "a range has no step",
            rule="T5",
            idiom=f"A(2*{name.text}) where {name.text} in 0:N/2, for every second element",
        )
    span = cursor.span(name.span.start, end.end)
    return RangeClause(name, begin.expr, end.expr, span=span)


def _no_range_end(cursor: Cursor, name: Name, begin: Part) -> ParseError:
    """The error for a range without its `:`, such as `k in range(2)` or `k in 3`."""
    span = cursor.span(begin.start, begin.end)
    cause = f"the range of '{name.text}' is written 'begin:end'"
    match begin.expr:
        case Apply(name=Name(text="range" | "arange" | "prange"), args=args) if args:
            texts = [written(arg.span.text) for arg in args]
            if len(args) == 1:
                return cursor.error(cause, span=span, paste=f"0:{texts[0]}")
            if len(args) == 2:
                return cursor.error(cause, span=span, paste=f"{texts[0]}:{texts[1]}")
            return cursor.error(
                cause + ", and has no step",
                span=span,
                idiom=f"A(2*{name.text}) where {name.text} in 0:N/2, for every second element",
            )
        case Number(value=int() as value) if value:
            return cursor.error(cause, span=span, paste=f"0:{value}")
    return cursor.missing(
        f"':' and the end of the range of '{name.text}'",
        repair=f"write both ends, for example {name.text} in 0:2",
    )


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
            idiom=f"t = {callee.text}(...), and then o(i) = t(i) where i in 0:2",
        )
    span = cursor.span(start, cursor.previous_end)
    return CallStatement(targets, callee, call.args, span=span)


def _second_where(cursor: Cursor, where: tuple[Clause, ...], rhs: Part) -> ParseError:
    span = cursor.span_of(cursor.step())
    more = _clauses(cursor, rhs)
    joined = joined_clauses((*where, *more))
    cause = "a statement has one 'where'; its clauses are separated by commas"
    if joined is None:
        return cursor.error(cause, rule="T5", span=span, idiom="where i in 0:2, j in 0:3")
    before = cursor.source.text.rfind("where", 0, where[0].span.start)
    edit = Edit(cursor.span(before, more[-1].span.end), joined)
    return cursor.error(cause, rule="T5", span=span, edits=(edit,))


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
        cause = "no space stands around the dot of a size"
        if before.kind is not Kind.NAME:
            return cursor.error(cause, rule="T2", idiom="T.0")
        edit = Edit(cursor.span(before.start, token.end), before.text + token.text)
        return cursor.error(cause, rule="T2", edits=(edit,))
    if (stray := stray_sign(cursor)) is not None:
        return stray
    if token.kind is Kind.SIGN and token.text != "-" and token.text[:4] not in ("min=", "max="):
        return cursor.unexpected("a statement or '}'", repair="C(i) = ...")
    return cursor.no_name("a target of a statement")


def _no_reduction(cursor: Cursor, names: tuple[Name, ...], start: int) -> ParseError:
    """The error for `-=`, `/=` and `%=`."""
    left = written(cursor.span(start, cursor.previous_end).text)
    token = cursor.step()
    fresh = cursor.at("!") and cursor.token.start == token.end
    mark = cursor.step().text if fresh else ""
    span = cursor.span(token.start, cursor.previous_end)
    cause = f"there is no reduction '{token.text}{mark}'; the operators are += *= min= max="
    begin = cursor.token.start
    try:
        part = parse_part(cursor)
    except ParseError:
        return cursor.error(cause, span=span, idiom=FOREIGN[token.text][1])
    value = written(cursor.span(part.start, part.end).text)
    if "#" in cursor.span(begin, part.end).text or len(value) > 120:
        return cursor.error(cause, span=span, idiom=FOREIGN[token.text][1])
    mentioned = {node.text for node in walk(part.expr) if isinstance(node, Name)}
    indices = {name.text for name in names}
    reduces = any(text not in indices and not _is_known(cursor, text) for text in mentioned)
    whole = cursor.span(start, part.end)
    if token.text == "-=":
        return cursor.error(cause, span=span, edits=(Edit(whole, f"{left} +={mark} -({value})"),))
    if not reduces and not fresh:
        text = f"{left} = {left} {token.text[0]} ({value})"
        return cursor.error(cause, span=span, edits=(Edit(whole, text),))
    if token.text == "/=" and kind_of(part.expr, cursor.names) == "float":
        return cursor.error(
            cause, span=span, edits=(Edit(whole, f"{left} *={mark} 1.0 / ({value})"),)
        )
    return cursor.error(cause, span=span, idiom="s *= 1.0 / A(i), for s /= A(i) over all i")


def _is_known(cursor: Cursor, text: str) -> bool:
    """Whether a name is a size or a tensor, and no index variable."""
    types = cursor.names.params.values()
    sizes = {dim.text for type_ in types for dim in type_.dims or () if isinstance(dim, Name)}
    return text in sizes or text in cursor.names.params or text in cursor.names.written


def _misspelt_reduction(cursor: Cursor, meant: str, count: int) -> ParseError:
    start, end = cursor.token.start, cursor.token.end
    for _ in range(count):
        end = cursor.step().end
    span = cursor.span(start, end)
    spaced = ", without a space" if " " in _one_line(span.text) else ""
    return cursor.error(
        f"'{_one_line(span.text)}' is no operator; it is written '{meant}'{spaced}",
        span=span,
        paste=meant,
    )


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 80 and "#" not in joined else "..."
