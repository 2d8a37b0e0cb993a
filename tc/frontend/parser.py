"""From tokens to the syntax tree: recursive descent over defs and statements (rules T1 to T5).

module    ::= def+
def       ::= 'def' NAME ['<' variable,+ '>'] '(' params ')' '->' '(' returns ')'
              '{' statement* '}'
variable  ::= NAME [':' TYPE ('|' TYPE)*]
param     ::= type NAME ['=' ['+' | '-'] NUMBER]         return ::= [type] NAME
type      ::= (TYPE | NAME) ['(' (NAME | NUMBER),* ')']
statement ::= target,+ operator expression,+ trailer*           as many expressions as targets
            | NAME ',' NAME,+ '=' NAME '(' expression,* ')'
            | '(' NAME,+ ')' '=' NAME '(' expression,* ')'
target    ::= NAME ['(' expression,* ')']
trailer   ::= 'where' clause,+ | '<=>' NAME '(' expression,* ')'
clause    ::= NAME 'in' expression ':' expression | NAME '=' expression
            | 'exists' NAME '(' expression,* ')' | NAME DIM '=' expression | expression
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tc.errors import ParseError
from tc.frontend import ast
from tc.frontend.constructs import continued, operator_word, statement_word, stray_sign
from tc.frontend.cursor import Cursor, DeclaredNames
from tc.frontend.expression_parser import (
    parse_apply,
    parse_part,
    starts_call_targets,
    starts_targets,
)
from tc.frontend.foreign import kind_of
from tc.frontend.left_sides import (
    reject_left_side,
    targets_in_parentheses,
    too_few_values,
    too_many_values,
)
from tc.frontend.rejections import reject_brackets
from tc.frontend.repairs import PYTHON_WORDS, one_line, reduction_written
from tc.frontend.scanning import Scan
from tc.frontend.signatures import no_variables, parse_params, parse_returns, parse_variables
from tc.frontend.token_cursor import describe
from tc.frontend.tokens import (
    ASSIGNMENTS,
    FOREIGN,
    PRECEDENCE,
    REDUCTION_SIGNS,
    Kind,
    Token,
)
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
    written = {*_targets(cursor), *(returned.name.text for returned in returns)}
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


def _targets(cursor: Cursor) -> Iterator[str]:
    """The names that are assigned to in the rest of the def, bindings of a `where` among them."""
    opened: list[int] = []
    opening_of: dict[int, int] = {}
    for count in itertools.count():
        token = cursor.ahead(count)
        if token.kind is Kind.END or token.text == "def":
            return
        if token.text == "(":
            opened.append(count)
        elif token.text == ")" and opened:
            opening_of[count] = opened.pop()
        if cursor.ahead(count + 1).text in ASSIGNMENTS:
            yield from _targets_before(cursor, count, opening_of)


def _targets_before(cursor: Cursor, last: int, opening_of: Mapping[int, int]) -> Sequence[str]:
    """The names of the targets that end with the token `last` places ahead; `opening_of` tells
    for each bracket that closes before there where it opens."""
    names: list[str] = []
    while True:
        at = opening_of[last] - 1 if last in opening_of else last
        if at < 0 or cursor.ahead(at).kind is not Kind.NAME:
            return names[:1]  # those before are clauses or arguments
        names.append(cursor.ahead(at).text)
        if at == 0:
            return names[:1]
        before = cursor.ahead(at - 1)
        if before.text != ",":
            return names if _ends_statement(before) else names[:1]
        last = at - 2


def _ends_statement(token: Token) -> bool:
    """Whether the token may be the one before a statement."""
    if token.kind is Kind.SIGN:
        return token.text in ("{", ")")
    return token.kind is not Kind.KEYWORD


def _statement(cursor: Cursor) -> ast.Statement:
    start = cursor.token.start
    cursor.statement = None
    statement_word(cursor)
    if cursor.at("("):
        return _call_in_parentheses(cursor, start)
    if cursor.token.kind is not Kind.NAME:
        raise _no_statement(cursor)
    _no_python_word(cursor)
    targets = [_target(cursor, "a target")]
    while cursor.accept(","):
        targets.append(_target(cursor, "a target of the statement"))
    operator = _assignment(cursor, targets, start)
    plain = all(target.subscripts is None for target in targets)
    if len(targets) > 1 and plain and operator.text == "=" and _is_call(cursor):
        return _call(cursor, start, tuple(target.name for target in targets))
    cursor.statement = start, operator
    values = [parse_part(cursor)]
    while cursor.at(","):
        if len(values) == len(targets):
            raise too_many_values(cursor, targets, values)
        cursor.step()
        values.append(parse_part(cursor))
    if len(values) < len(targets):
        raise too_few_values(cursor, targets, operator, values)
    where, annotation = parse_trailers(cursor, values)
    return ast.Comprehension(
        tuple(targets),
        operator.text,
        cursor.span_of(operator),
        tuple(value.expr for value in values),
        where,
        annotation,
        span=cursor.span(start, cursor.previous_end),
    )


def _target(cursor: Cursor, what: str) -> ast.Target:
    name = cursor.name(what)
    if not cursor.at("("):
        return ast.Target(name, None, span=name.span)
    opening = cursor.step()
    subscripts: list[ast.Expr] = []
    while not cursor.at(")") or subscripts:
        reject_left_side(cursor)
        subscripts.append(parse_part(cursor, 1).expr)
        reject_left_side(cursor)
        if not cursor.accept(","):
            break
    cursor.close_bracket(opening, "',' or ')'")
    span = cursor.span(name.span.start, cursor.previous_end)
    return ast.Target(name, tuple(subscripts), span=span)


def _is_call(cursor: Cursor) -> bool:
    """Whether one call and nothing else is the value here."""
    if cursor.token.kind is not Kind.NAME or cursor.ahead(1).text != "(":
        return False
    behind = cursor.behind(1).text
    goes_on = behind in PRECEDENCE or behind in FOREIGN or behind in ("?", ",")
    return not goes_on and not starts_call_targets(cursor, 1)


def _call_in_parentheses(cursor: Cursor, start: int) -> ast.CallStatement:
    if (error := continued(cursor)) is not None:
        raise error
    if (error := targets_in_parentheses(cursor)) is not None:
        raise error
    opening = cursor.step()
    targets = [cursor.name("a target of the call")]
    while cursor.accept(","):
        targets.append(cursor.name("a target of the call"))
    cursor.close_bracket(opening, "',' or ')'")
    cursor.expect("=", "after the targets of a call")
    return _call(cursor, start, tuple(targets))


def _assignment(cursor: Cursor, targets: Sequence[ast.Target], start: int) -> Token:
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
        raise reject_brackets(cursor, targets[-1].name)
    if token.kind is Kind.SIGN and token.text in ("-=", "/=", "%="):
        raise _no_reduction(cursor, targets, start)
    if cursor.at("=="):
        raise cursor.error("'==' compares; a statement assigns with '='", paste="=")
    slip = reduction_written(cursor.tokens, cursor.index)
    if slip is not None:
        raise _misspelt_reduction(cursor, *slip)
    other = operator_word(cursor, targets[-1].name, start)
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
        dots = ", ".join(["..."] * len(targets))
        raise cursor.error(cause, span=span, repair=f"{left} = {dots}")
    cause += f"; if '{left}' belongs to the expression before it, an operator is missing"
    if previous.kind is Kind.NUMBER:  # a product, as it is written by hand
        whole = cursor.span(previous.start, cursor.previous_end)
        raise cursor.error(cause, span=span, edits=(Edit(whole, f"{previous.text} * {left}"),))
    raise cursor.error(cause, span=span, idiom=f"* {left}, if a product is meant")


def _call(cursor: Cursor, start: int, targets: tuple[ast.Name, ...]) -> ast.CallStatement:
    """A call, from the name of the def on."""
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
    if not starts_targets(cursor, 0) or _is_operator(cursor, before):
        raise cursor.python_word(cursor.index - negated)


def _is_operator(cursor: Cursor, before: Token) -> bool:
    """Whether `and` of `o(i) = a(i) and (b(i)) = c(i)` is no target: the word stands behind an
    expression, before subscripts that are no names, and nowhere else in the text."""
    word = cursor.token
    count = 2
    while cursor.ahead(count).kind is Kind.NAME or cursor.ahead(count).text == ",":
        count += 1
    if cursor.ahead(1).text != "(" or cursor.ahead(count).text == ")":
        return False
    apart = before.text == "{" or "\n" in cursor.source.text[before.end : word.start]
    return not apart and not any(t.text == word.text and t != word for t in cursor.tokens)


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


def _no_reduction(cursor: Cursor, targets: Sequence[ast.Target], start: int) -> ParseError:
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
    several = len(targets) > 1 or "#" in cursor.span(begin, part.end).text
    if several or len(value) > 120:
        return cursor.error(cause, span=span, idiom=FOREIGN[token.text][1])
    mentioned = {node.text for node in ast.walk(part.expr) if isinstance(node, ast.Name)}
    subscripts = targets[0].subscripts or ()
    indices = {subscript.text for subscript in subscripts if isinstance(subscript, ast.Name)}
    # several instances may meet at a computed place
    reduces = len(indices) < len(subscripts) or any(
        text not in indices and not _is_known(cursor, text) for text in mentioned
    )
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
