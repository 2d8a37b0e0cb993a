"""Left sides of other languages, where any expression may stand: written as reads instead (N2).

`C(i + 1) = A(i)` says of each element where it goes; `C(i) = A(i - 1)` says where it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tc.affine.forms import Form
from tc.errors import ParseError
from tc.frontend.ast import Apply, Binary, Conditional, Expr, Name, Number, walk
from tc.frontend.cursor import Cursor, ParsedExpr
from tc.frontend.expression_parser import parse_part
from tc.frontend.lexer import number_value
from tc.frontend.tokens import ASSIGNMENTS, Kind, Token
from tc.source import Edit

_NO_SCATTER = (
    "there is no scatter: each element says of what it is made; with the number of elements for "
    "10, this is"
)


class _Left(NamedTuple):
    """A statement with a subscript on its left, `wrong`, that is no index variable."""

    cursor: Cursor
    target: Name
    subscripts: tuple[Expr, ...]
    wrong: Expr
    operator: Token
    rhs: ParsedExpr
    start: int

    def with_index(self, name: str) -> str:
        texts = [name if s is self.wrong else s.span.line for s in self.subscripts]
        return f"{self.target.text}({', '.join(texts)})"

    def whole(self, text: str) -> tuple[Edit, ...]:
        """The edit that replaces the whole statement by a text."""
        return (Edit(self.cursor.span(self.start, self.rhs.end), text),)


def left_side(cursor: Cursor, target: Name, names: Sequence[Name], opening: Token) -> ParseError:
    """The error for a subscript on the left that is no name, from it on."""
    token = cursor.token
    shown = f"an expression with '{token.text}'"
    if token.kind is Kind.NUMBER:
        shown = f"'{int(number_value(token.text))}'"
    cause = f"the left side of a statement lists index variables, and {shown} is not one"
    idiom = "C(i) = A(i - 1) where i in 1:N, for C(i + 1) = A(i): the right side says where an "
    idiom += "element comes from"
    plain = cursor.error(cause, rule="N2", idiom=idiom)
    try:
        left = _statement(cursor, target, names, opening)
    except ParseError:
        return plain
    span = cursor.span_of(token)
    if left and (found := _scattered(left)):
        return cursor.error(cause, rule="N2", span=span, idiom=_NO_SCATTER, example=found)
    if left and (found := _gathered(left)):
        return cursor.error(cause, rule="N2", span=span, edits=found)
    return plain


def _statement(cursor: Cursor, target: Name, names: Sequence[Name], opening: Token) -> _Left | None:
    """The statement; None if it has a `where`, or more than one subscript that is no name."""
    parts = [parse_part(cursor)]
    while cursor.accept(","):
        parts.append(parse_part(cursor))
    cursor.close_bracket(opening, "',' or ')'")
    operator = cursor.token
    if operator.kind is not Kind.SIGN or operator.text not in ASSIGNMENTS:
        return None
    cursor.step()
    rhs = parse_part(cursor)
    subscripts = (*names, *(part.expr for part in parts))
    wrong = [s for s in subscripts if not isinstance(s, Name)]
    if len(wrong) != 1 or cursor.at("where") or cursor.at("<=>"):
        return None
    if "#" in cursor.span(target.span.start, rhs.end).text:
        return None
    return _Left(cursor, target, subscripts, wrong[0], operator, rhs, target.span.start)


def _scattered(left: _Left) -> tuple[Edit, ...] | None:
    """A sum over the elements that would go to each place."""
    reads = any(isinstance(node, Apply) for node in walk(left.wrong))
    if not reads or left.operator.text not in ("+=", "+=!"):
        return None
    place = fresh(left.cursor, "b")
    return left.whole(
        f"{left.with_index(place)} {left.operator.text} {left.wrong.span.line} == {place} ? "
        f"{_text(left.rhs)} : 0 where {place} in 0:10"
    )


def _gathered(left: _Left) -> tuple[Edit, ...] | None:
    cursor, wrong, op = left.cursor, left.wrong, left.operator.text
    first = _is_first(left)
    if isinstance(wrong, Number) and isinstance(wrong.value, int):
        once = [t.text for t in cursor.targets].count(left.target.text) == 1
        if not (first and once) and not _is_declared(left):
            return None
        name = fresh(cursor, *"ijklmn")
        rhs = _text(left.rhs)
        clause = f"where {name} in {wrong.value}:{wrong.value + 1}"
        return left.whole(f"{left.with_index(name)} {op} {rhs} {clause}")
    if not isinstance(wrong, Binary):
        return None
    if wrong.op == "+" and isinstance(wrong.left, Name) and isinstance(wrong.right, Name):
        return _convolved(left, wrong.left.text, wrong.right.text)
    form = _form(wrong)
    if form is None or len(form.terms) != 1:
        return None
    ((index, factor),), offset = form.terms.items(), form.constant
    if factor < 1:
        return None
    if any(isinstance(s, Name) and s.text == index for s in left.subscripts):
        return None
    size = _size_of(left, index)
    if factor == 1 and offset < 0:
        rhs = _with(left, index, f"{index} + {-offset}")
        return left.whole(f"{left.with_index(index)} {op} {rhs}")
    if size is None:
        return None
    if factor == 1:
        rhs = _with(left, index, f"{index} - {offset}")
        end = str(int(size) + offset) if size.isdecimal() else f"{size} + {offset}"
        return left.whole(f"{left.with_index(index)} {op} {rhs} where {index} in {offset}:{end}")
    if not 0 <= offset < factor or op.rstrip("!") not in ("=", "+="):
        return None
    other = "0" if first or op != "=" else left.with_index(index)
    rhs = _with(left, index, f"{index} / {factor}")
    return left.whole(
        f"{left.with_index(index)} {op} {index} % {factor} == {offset} ? {rhs} : {other} "
        f"where {index} in 0:{factor} * {size}"
    )


def _convolved(left: _Left, first: str, second: str) -> tuple[Edit, ...] | None:
    """`C(i + k) += A(i) * B(k)`."""
    sizes = _size_of(left, first), _size_of(left, second)
    named = any(isinstance(s, Name) and s.text in (first, second) for s in left.subscripts)
    if None in sizes or named or first == second or left.operator.text not in ("+=", "+=!"):
        return None
    rhs = _with(left, first, f"{first} - {second}")
    return left.whole(
        f"{left.with_index(first)} {left.operator.text} pad({rhs}, 0) "
        f"where {first} in 0:{sizes[0]} + {sizes[1]} - 1"
    )


def _form(expr: Expr) -> Form[str, int] | None:
    """The affine form of a subscript, None where it has none."""
    match expr:
        case Name(text=text):
            return Form(0, {text: 1})
        case Number(value=int() as value):
            return Form(value, {})
        case Binary(op="+" | "-" as op, left=left, right=right):
            one, other = _form(left), _form(right)
            return one and other and one.plus(other, 1 if op == "+" else -1)
        case Binary(op="*", left=Number(value=int() as factor), right=operand):
            form = _form(operand)
            return form and form.times(factor)
        case Binary(op="*", left=operand, right=Number(value=int() as factor)):
            form = _form(operand)
            return form and form.times(factor)
    return None


# --- the rest of the text ---------------------------------------------------------------------


def _is_first(left: _Left) -> bool:
    """Whether no statement before this one writes the target."""
    return all(t.start >= left.start for t in left.cursor.targets if t.text == left.target.text)


def _is_declared(left: _Left) -> bool:
    """Whether the target is a return whose type gives its shape."""
    for first, second in zip(left.cursor.tokens, left.cursor.tokens[1:], strict=False):
        if first.text == ")" and second.text == left.target.text and second.start < left.start:
            return True
    return False


def _size_of(left: _Left, index: str) -> str | None:
    """The size of an index variable, from the reads that have the variable alone as a subscript;
    None where the text does not tell it."""
    sizes = sizes_at(left.cursor, left.rhs.expr, index, left.target.text)
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or len(known) > 2:
        return None
    return f"min({known[0]}, {known[1]})" if len(known) == 2 else "".join(known) or None


def sizes_at(cursor: Cursor, expr: Expr, index: str, target: str = "") -> list[str | None]:
    """The sizes of the dimensions at which an expression reads tensors, other than the target, by
    an index variable alone; None for those that the text does not tell."""
    found = (
        size_text(cursor, node.name.text, axis)
        for node in walk(expr)
        if isinstance(node, Apply) and node.name.text != target
        for axis, arg in enumerate(node.args)
        if isinstance(arg, Name) and arg.text == index
    )
    return list(dict.fromkeys(found))


def size_text(cursor: Cursor, tensor: str, axis: int) -> str | None:
    """The size of a dimension of a parameter, as the text names it."""
    type_ = cursor.names.params.get(tensor)
    dims = (type_.dims or ()) if type_ else ()
    if axis >= len(dims):
        return None
    dim = dims[axis]
    return dim.text if isinstance(dim, Name) else str(dim.value)


def _with(left: _Left, index: str, instead: str) -> str:
    """The right side with an index variable replaced."""
    cursor = left.cursor
    pieces, at = "", left.rhs.start
    for position, token in enumerate(cursor.tokens):
        if token.start < left.rhs.start or token.end > left.rhs.end:
            continue
        if token.kind is not Kind.NAME or token.text != index:
            continue
        around = cursor.tokens[position - 1].text, cursor.tokens[position + 1].text
        bare = around[0] in ("(", ",") and around[1] in (")", ",")
        pieces += cursor.source.text[at : token.start] + (instead if bare else f"({instead})")
        at = token.end
    return " ".join((pieces + cursor.source.text[at : left.rhs.end]).split())


def _text(part: ParsedExpr) -> str:
    text = part.span.line
    return f"({text})" if isinstance(part.expr, Conditional) and text[0] != "(" else text


def fresh(cursor: Cursor, *names: str) -> str:
    """The first of some names, or the first one numbered, that the text does not have."""
    words = {token.text for token in cursor.tokens}
    numbered = (f"{names[0]}{count}" for count in range(2, len(words) + 3))
    return next(name for name in (*names, *numbered) if name not in words)
