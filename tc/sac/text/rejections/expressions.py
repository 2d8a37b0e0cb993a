"""Errors of expressions and selections: slips, and what Python, numpy and C write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.operator_parser import Pending
from tc.frontend.token_cursor import Parsed
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text import foreign
from tc.sac.text.cursor import Cursor
from tc.sac.text.rejections.pasting import MAX_PASTED_CHARACTERS, Parser, parsed, pasted
from tc.sac.text.rejections.unsupported import LOOP_IDIOM, LOOPS, unsupported
from tc.sac.text.tokens import FOREIGN, PREFIX_STRENGTH, STRENGTH
from tc.source import Edit


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


_NUMPY_TYPES = {"float": "double", "float_": "double"}
"""Types of `astype` that are not those of their names here: Python's `float` is a double."""


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
    idiom = foreign.IDIOMS.get(path)
    if not is_module and path == "astype" and cursor.ahead(2).text == ")":
        kind = _NUMPY_TYPES.get(cursor.ahead(1).text, cursor.ahead(1).text)
        if kind in SPELLINGS:
            span = cursor.span(found.start, cursor.ahead(2).end)
            cause = "arrays have no members: a cast is a call of the type"
            raise pasted(cursor, cause, span, f"{kind}({args[0]})", "double(x)")
    text: str | None = None
    if cursor.at("("):
        given = _arguments(cursor, parser)
        if given is None:
            idiom = idiom or "sum(x), shape(x)"
            if cursor.at("=") and not is_module:
                idiom = f"{{ [.,j] -> {path}({args[0]}[.,j]) }}, over the first axis of a matrix"
            raise cursor.error(cause, span=cursor.span(found.start, end), idiom=idiom)
        end = cursor.previous_end
        args += [each.text for each in given]
        if is_module and path in foreign.JOINS and given and given[0].row:
            text = f"({' ++ '.join(given[0].row)})"
        elif path == "reshape" and len(args) > 1:
            text = f"reshape({args[1] if len(args) == 2 else _row_of(args[1:])}, {args[0]})"
    elif is_module:
        text = foreign.CONSTANTS.get(path, path)
        cause = f"there are no modules: '{path}' stands without one"
        if text != path:
            cause = f"there are no modules, and no constant '{path}'"
        raise cursor.error(cause, span=cursor.span(found.start, end), paste=text)
    span = cursor.span(found.start, end)
    text = text or foreign.formula(path, args)
    if is_module and (idiom or text) and not (text or "").startswith(f"{path}("):
        cause = f"there are no modules, and no function '{path}'"
    if text is None and idiom:
        raise cursor.error(cause, span=span, idiom=idiom)
    text = text or f"{path}({', '.join(args)})"
    raise pasted(cursor, cause, span, text, idiom or "sum(x), shape(x)")


def _row_of(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


@dataclass(frozen=True)
class _Given:
    """The text of an argument, and of the items of an argument that is a list or a tuple."""

    text: str
    row: tuple[str, ...] = ()


def _arguments(cursor: Cursor, parser: Parser) -> list[_Given] | None:
    """The arguments of a list in parentheses; None where it has names or does not close."""
    cursor.step()
    parts: list[_Given] = []
    try:
        while not cursor.at(")") or parts:
            parts.append(_argument(cursor, parser))
            if not cursor.accept(","):
                break
    except ParseError:
        return None
    return parts if cursor.accept(")") else None


def _argument(cursor: Cursor, parser: Parser) -> _Given:
    """One argument of another library's function; a tuple is a list there."""
    if not (cursor.at("(") and cursor.behind(0).text in (",", ")")):
        found = parsed(cursor, parser)
        row = found.expr.items if isinstance(found.expr, ast.Row) else ()
        return _Given(found.span.line, tuple(item.span.line for item in row))
    cursor.step()
    items: list[str] = []
    is_tuple = False
    while not cursor.at(")"):
        items.append(parsed(cursor, parser).span.line)
        if not cursor.accept(","):
            break
        is_tuple = True
    if not cursor.accept(")"):
        raise cursor.error("the list does not close")
    if not is_tuple and len(items) == 1:
        return _Given(f"({items[0]})")
    return _Given(_row_of(items), tuple(items))


def refuse_word(cursor: Cursor, parser: Parser) -> None:
    """Raise for `not x`, where an operand may begin."""
    after = cursor.ahead(1)
    if not cursor.at_word("not") or after.kind not in (Kind.NAME, Kind.NUMBER, Kind.KEYWORD):
        return
    start = cursor.step()
    cause = "there is no operator 'not'; it is written '!'"
    try:
        operand = parsed(cursor, parser, STRENGTH["=="])
    except ParseError:
        raise cursor.error(cause, span=cursor.span_of(start), paste="!") from None
    text = operand.span.line
    bare = isinstance(operand.expr, ast.Name | ast.Call | ast.Select | ast.Bool)
    span = cursor.span(start.start, operand.end)
    raise pasted(cursor, cause, span, f"!{text}" if bare else f"!({text})", "!x")


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
    if word in LOOPS:
        return unsupported(cursor, f"loops ('{word}')", LOOP_IDIOM)
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
            operand = parsed(cursor, parser, PREFIX_STRENGTH)
        except ParseError:
            return cursor.error(cause, idiom=f"{spelling.text}(x)")
        span = cursor.span(before.start, operand.end)
        return pasted(
            cursor, cause, span, f"{spelling.text}({operand.span.line})", f"{spelling.text}(x)"
        )
    return cursor.unexpected(
        f"'(' after the type '{spelling.text}', which is a cast here",
        repair=f"{spelling.text}(x)",
    )


def refuse_tuple(cursor: Cursor, opening: Token, first: Parsed[ast.Expr], parser: Parser) -> None:
    """Raise for `(3, 4)`, Python's tuples, behind its first element."""
    if not cursor.at(","):
        return
    cause, idiom = "a vector stands in brackets", "[3, 4]"
    parts = [first.span.line]
    try:
        while cursor.accept(",") and not cursor.at(")"):
            parts.append(parsed(cursor, parser).span.line)
    except ParseError:
        raise cursor.error(cause, span=cursor.span_of(opening), idiom=idiom) from None
    if not cursor.at(")"):
        raise cursor.error(cause, span=cursor.span_of(opening), idiom=idiom)
    span = cursor.span(opening.start, cursor.step().end)
    raise pasted(cursor, cause, span, _row_of(parts), idiom)


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
    """Raise for `[f(i) for i in range(n)]` and `sum(f(i) for i in range(n))`, from the `for` on."""
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
        source = parsed(cursor, parser)
    except ParseError:
        raise cursor.error(cause, span=cursor.span_of(start), idiom=idiom) from None
    is_list = opening.text == "["
    is_closed = cursor.at("]" if is_list else ")")
    start_at = opening.start if is_list else parts[0].start
    whole = cursor.span(start_at, cursor.token.end if is_list and is_closed else source.end)
    call = source.expr
    is_range = isinstance(call, ast.Call) and call.function.text in ("range", "iota")
    if isinstance(call, ast.Call) and is_range and len(call.args) == 1 and is_closed:
        text = f"{{ [{index.text}] -> {parts[0].span.line} | [{index.text}] < "
        raise pasted(cursor, cause, whole, f"{text}[{call.args[0].span.line}] }}", idiom)
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
    return pasted(cursor, cause, span, text, idiom)


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
            parts.append(parsed(cursor, parser).span.line)
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
        exponent = parsed(cursor, parser, PREFIX_STRENGTH)
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(token), idiom="pow(x, y)")
    span = base.span.to(exponent.span)
    if exponent.expr == ast.Number("2", 2, span=span) and isinstance(base.expr, ast.Name):
        return cursor.error(cause, span=span, paste=f"({base.span.line} * {base.span.line})")
    text = f"pow({base.expr.span.line}, {exponent.expr.span.line})"
    return pasted(cursor, cause, span, text, "pow(x, y)")


def _matrix_product(cursor: Cursor, left: Parsed[ast.Expr], parser: Parser) -> ParseError:
    token = cursor.step()
    cause = f"there is no operator '{token.text}'"
    idiom = "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }, of matrices"
    try:
        right = parsed(cursor, parser, PREFIX_STRENGTH)
    except ParseError:
        return cursor.error(cause, span=cursor.span_of(token), idiom=idiom)
    span = left.span.to(right.span)
    simple = (ast.Name, ast.Call, ast.Select)
    if not isinstance(left.expr, simple) or not isinstance(right.expr, simple):
        return cursor.error(cause, span=span, idiom=idiom)
    text = foreign.formula("matmul", [left.span.line, right.span.line])
    example = (Edit(span, text),) if text and len(text) <= MAX_PASTED_CHARACTERS else ()
    return cursor.error(cause, span=span, idiom=idiom, example=example)
