"""From tokens to the syntax tree: recursive descent over defs and statements (rules T1 to T5).

module    ::= def+
def       ::= 'def' NAME ['<' variable,+ '>'] '(' params ')' '->' '(' returns ')'
              '{' statement* '}'
variable  ::= NAME [':' TYPE ('|' TYPE)*]
param     ::= type NAME              return ::= [type] NAME
type      ::= (TYPE | NAME) ['(' (NAME | NUMBER),* ')']
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

from tc.errors import ParseError
from tc.frontend import ast
from tc.frontend.constructs import continued, operator_word, statement_word, stray_sign
from tc.frontend.cursor import Cursor, DeclaredNames
from tc.frontend.expression_parser import parse_apply, parse_part
from tc.frontend.foreign import kind_of
from tc.frontend.left_sides import left_side
from tc.frontend.rejections import reject_brackets
from tc.frontend.repairs import PYTHON_WORDS, one_line, reduction_written
from tc.frontend.scanning import Scan
from tc.frontend.signatures import no_variables, parse_params, parse_returns, parse_variables
from tc.frontend.token_cursor import describe
from tc.frontend.tokens import ASSIGNMENTS, FOREIGN, REDUCTION_SIGNS, Kind, Token
from tc.frontend.trailers import parse_trailers
from tc.source import Edit, Source

_AROUND = "statements stand in a def, such as def f(float(N) A) -> (C) { C(i) = A(i) }"


def parse(source: Source, found: Scan | None = None) -> ast.Module:
    """The syntax tree of a text with one or more defs; `found` has its tokens, where they are
    known.

    Raises ParseError with rule, place, cause and repair for any other text, in time linear in
    its length.

    >>> module = parse(Source("def f(float(N) A) -> (o) { o +=! A(i) }"))
    >>> module.defs[0].body[0].op
    '+=!'
    """
    cursor = Cursor(source, found)
    defs: list[ast.Def] = []
    while not cursor.at_end:
        defs.append(_definition(cursor, bool(defs)))
    cursor.finish()
    if not defs:
        raise cursor.error("the text has no def", span=cursor.span(0, 0), idiom=_AROUND)
    return ast.Module(tuple(defs), span=cursor.span(0, len(source.text)))


def _definition(cursor: Cursor, follows: bool) -> ast.Def:
    if not cursor.at("def"):
        if follows and cursor.at("}"):
            raise cursor.error("this '}' closes nothing", paste="")
        raise cursor.unexpected("'def'", idiom=_AROUND)
    start = cursor.step().start
    name = cursor.name("a def")
    cursor.variables, listed = frozenset(), None
    variables: tuple[ast.TypeVariable, ...] = ()
    if cursor.at("<>"):
        raise no_variables(cursor, name)
    if cursor.at("<"):
        begin = cursor.token.start
        variables = parse_variables(cursor, name)
        cursor.variables = frozenset(variable.name.text for variable in variables)
        listed = cursor.span(begin, cursor.previous_end)
    params = parse_params(cursor, name)
    returns = parse_returns(cursor, name)
    cursor.targets = tuple(_targets(cursor))
    written = {*(token.text for token in cursor.targets), *(r.name.text for r in returns)}
    types = {param.name.text: param.type for param in params}
    cursor.names = DeclaredNames(types, frozenset(written))
    opening = cursor.expect("{", f"before the statements of '{name.text}'")
    body: list[ast.Statement] = []
    while not cursor.at("}"):
        if cursor.at_end or cursor.at("def"):
            raise _not_closed(cursor, name, opening)
        body.append(_statement(cursor))
    end = cursor.step().end
    span = cursor.span(start, end)
    return ast.Def(name, params, returns, tuple(body), variables, listed, span=span)


def _targets(cursor: Cursor) -> Iterator[Token]:
    """The names that are assigned to in the rest of the def."""
    before: list[Token] = []
    for count in itertools.count():
        token = cursor.ahead(count)
        if token.kind is Kind.END or token.text == "def":
            return
        assigned = cursor.ahead(count + 1).text in ASSIGNMENTS
        if token.text == "(":
            before.append(cursor.ahead(count - 1))
        elif token.text == ")" and before:
            name = before.pop()
            if assigned:
                yield name
        elif assigned and token.kind is Kind.NAME:
            yield token


def _statement(cursor: Cursor) -> ast.Statement:
    start = cursor.token.start
    statement_word(cursor)
    if cursor.at("("):
        if (error := continued(cursor)) is not None:
            raise error
        opening = cursor.step()
        targets = _targets_of_call(cursor)
        cursor.close_bracket(opening, "',' or ')'")
        return _call(cursor, start, targets)
    if cursor.token.kind is not Kind.NAME:
        raise _no_statement(cursor)
    _no_python_word(cursor)
    target = cursor.name("a target")
    if cursor.accept(","):
        return _call(cursor, start, (target, *_targets_of_call(cursor)))
    indices = _indices(cursor, target) if cursor.at("(") else None
    operator = _assignment(cursor, target, indices or (), start)
    cursor.statement = start, operator
    rhs = parse_part(cursor)
    where, annotation = parse_trailers(cursor, rhs)
    return ast.Comprehension(
        target,
        indices,
        operator.text,
        cursor.span_of(operator),
        rhs.expr,
        where,
        annotation,
        span=cursor.span(start, cursor.previous_end),
    )


def _targets_of_call(cursor: Cursor) -> tuple[ast.Name, ...]:
    names = [cursor.name("a target of the call")]
    while cursor.accept(","):
        names.append(cursor.name("a target of the call"))
    return tuple(names)


def _indices(cursor: Cursor, target: ast.Name) -> tuple[ast.Name, ...]:
    opening = cursor.step()
    names: list[ast.Name] = []
    while not cursor.at(")") or names:
        token = cursor.token
        after = cursor.ahead(1).text
        named = token.kind is Kind.NAME and after in (",", ")", *ASSIGNMENTS)
        if not named and token.kind in (Kind.NAME, Kind.NUMBER):
            raise left_side(cursor, target, names, opening)
        names.append(cursor.name("an index variable"))
        if not cursor.accept(","):
            break
    cursor.close_bracket(opening, "',' or ')'")
    return tuple(names)


def _assignment(
    cursor: Cursor, target: ast.Name, indices: tuple[ast.Name, ...], start: int
) -> Token:
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
    left = one_line(cursor.span(start, cursor.previous_end).text)
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
        f"expected '=' or a reduction ({REDUCTION_SIGNS}, with ! to initialise) after '{left}', "
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


def _call(cursor: Cursor, start: int, targets: tuple[ast.Name, ...]) -> ast.CallStatement:
    cursor.expect("=", "after the targets of a call")
    callee = cursor.name("the def that is called")
    call = parse_apply(cursor, callee, f"the arguments of '{callee.text}'")
    if cursor.at("where") or cursor.at("<=>"):
        raise cursor.error(
            f"a call of a def takes no '{cursor.token.text}'",
            rule="T5",
            idiom=f"t = {callee.text}(...), and then o(i) = t(i) where i in 0:2",
        )
    span = cursor.span(start, cursor.previous_end)
    return ast.CallStatement(targets, callee, call.args, span=span)


def _not_closed(cursor: Cursor, name: ast.Name, opening: Token) -> ParseError:
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
    if cursor.ahead(1).text == "(":  # of a target, these hold names alone
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


def _no_reduction(cursor: Cursor, names: tuple[ast.Name, ...], start: int) -> ParseError:
    """The error for `-=`, `/=` and `%=`."""
    left = cursor.span(start, cursor.previous_end).line
    token = cursor.step()
    fresh = cursor.at("!") and cursor.token.start == token.end
    mark = cursor.step().text if fresh else ""
    span = cursor.span(token.start, cursor.previous_end)
    cause = f"there is no reduction '{token.text}{mark}'; the operators are {REDUCTION_SIGNS}"
    begin = cursor.token.start
    try:
        part = parse_part(cursor)
    except ParseError:
        return cursor.error(cause, span=span, idiom=FOREIGN[token.text][1])
    value = part.span.line
    if "#" in cursor.span(begin, part.end).text or len(value) > 120:
        return cursor.error(cause, span=span, idiom=FOREIGN[token.text][1])
    mentioned = {node.text for node in ast.walk(part.expr) if isinstance(node, ast.Name)}
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
    names = cursor.names
    return text in names.sizes() or text in names.params or text in names.written


def _misspelt_reduction(cursor: Cursor, meant: str, count: int) -> ParseError:
    start, end = cursor.token.start, cursor.token.end
    for _ in range(count):
        end = cursor.step().end
    span = cursor.span(start, end)
    spaced = ", without a space" if " " in one_line(span.text) else ""
    return cursor.error(
        f"'{one_line(span.text)}' is no operator; it is written '{meant}'{spaced}",
        span=span,
        paste=meant,
    )
