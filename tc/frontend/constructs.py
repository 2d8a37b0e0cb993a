"""Statements and headers of other languages: loops, branches, declarations, types behind names.

What they mean here is said where their text tells it, and otherwise the idiom is shown.
"""

from __future__ import annotations

import itertools
import re

from tc.builtins import lookup
from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.ast import Name, TensorType
from tc.frontend.cursor import Cursor
from tc.frontend.expression_parser import parse_part, starts_call_targets, starts_targets
from tc.frontend.repairs import PYTHON_WORDS, from_python, one_line
from tc.frontend.tokens import ASSIGNMENTS, REDUCTION_SIGNS, Kind, Token
from tc.source import Edit
from tc.wording import closest

_LOOP = (
    "there are no loops: an index variable runs over its range by itself",
    "C(i) = 2 * A(i) for every i; s +=! A(i) sums over i; where i in 1:N gives the range",
)
_BRANCH = (
    "there is no 'if' statement: a choice is an expression",
    "C(i) = A(i) > 0 ? A(i) : 0",
)
_WORDS = {
    "for": _LOOP,
    "foreach": _LOOP,
    "forall": _LOOP,
    "while": _LOOP,
    "do": _LOOP,
    "parallel": _LOOP,
    "if": _BRANCH,
    "elif": _BRANCH,
    "else": _BRANCH,
    "switch": _BRANCH,
    "print": ("nothing is printed: a def computes its returns", "return the tensor to look at it"),
    "import": (
        "nothing is imported: functions such as exp(x) are there already",
        "C(i) = exp(A(i))",
    ),
}
_DECLARING = frozenset(("let", "var", "auto", "const", "static", "val"))


def statement_word(cursor: Cursor) -> None:
    """Raise where the name or type here begins a statement of another language."""
    token, after = cursor.token, cursor.ahead(1)
    if token.kind is Kind.KEYWORD:
        if token.text in SPELLINGS and after.kind is Kind.NAME:
            raise _declaration(cursor)
        return
    if token.kind is not Kind.NAME or after.text in (*ASSIGNMENTS, ","):
        return
    if token.text in _DECLARING and after.kind in (Kind.NAME, Kind.KEYWORD):
        raise cursor.error(
            "names are not declared: a statement that writes a name makes it", paste=""
        )
    if token.text == "return":
        raise _return(cursor)
    if token.text in _WORDS and not starts_targets(cursor, 0) and not _is_choice(cursor):
        cause, idiom = _WORDS[token.text]
        raise cursor.error(cause, idiom=idiom)


def _is_choice(cursor: Cursor) -> bool:
    """Whether the word here is one of `x if c else y`."""
    word = cursor.token.text
    return word in PYTHON_WORDS and from_python(cursor.tokens, cursor.index) is not None


def _declaration(cursor: Cursor) -> ParseError:
    """The error for `float t = 3`."""
    spelling = cursor.step()
    name = cursor.name("a target")
    span = cursor.span(spelling.start, name.span.end)
    cause = (
        "names are not declared: a statement that writes a name makes it, of the type of its value"
    )
    plain = cursor.error(cause, span=span, idiom=f"{name.text} = {spelling.text}(...)")
    cursor.skip_brackets("(")
    if cursor.token.kind is not Kind.SIGN or cursor.step().text not in ASSIGNMENTS:
        return plain
    try:
        part = parse_part(cursor)
    except ParseError:
        return plain
    cast = Edit(part.span, f"{spelling.text}({part.span.line})")
    bare = Edit(cursor.span(spelling.start, name.span.start), "")
    return cursor.error(cause, span=span, edits=(bare, cast))


def _return(cursor: Cursor) -> ParseError:
    cause = "there is no 'return': a def returns what its header names"
    name, ends = cursor.ahead(1), cursor.ahead(2).text in ("}", ";")
    if ends and name.kind is Kind.NAME and name.text in cursor.names.written:
        return cursor.error(cause, span=cursor.span(cursor.token.start, name.end), paste="")
    return cursor.error(cause, idiom="-> (C) { C(i) = 2 * A(i) }")


_REDUCTIONS = {
    **dict.fromkeys(("sum", "add", "plus"), "+"),
    "xor": "^",
    **dict.fromkeys(("prod", "product", "mul"), "*"),
    **dict.fromkeys(("maximum", "maxi", "amax", "fmax"), "max"),
    **dict.fromkeys(("minimum", "mini", "amin", "fmin"), "min"),
}
_OF_SEVERAL = {
    "argmax": "m, at max=! A(i), i, the greatest with its first place",
    "argmin": "m, at min=! A(i), i, the least with its first place",
    "mean": "m +=! A(i) / N, a mean of floats",
    "avg": "m +=! A(i) / N, a mean of floats",
    "any": "any max=! A(i) > 0, whether one is",
    "all": "all min=! A(i) > 0, whether all are",
    "or": "any max=! A(i) > 0, whether one is",
    "and": "all min=! A(i) > 0, whether all are",
}


def _reduction_word(cursor: Cursor) -> ParseError | None:
    """The error for `o argmax=! x(i)` and `o sum=! x(i)`, words before the mark of a reduction."""
    token = cursor.token
    written = re.match(r"=\s*!?|!\s*=", cursor.source.text[token.end :])
    if written is None:
        return None
    word, marked = token.text.lower(), "!" in written[0]
    if not marked and word not in (*_REDUCTIONS, *_OF_SEVERAL):
        return None
    span = cursor.span(token.start, token.end + written.end())
    cause = f"there is no reduction '{one_line(span.text)}'; the operators are {REDUCTION_SIGNS}"
    if word in _OF_SEVERAL:
        return cursor.error(cause, span=span, idiom=_OF_SEVERAL[word])
    meant = _REDUCTIONS.get(word) or closest(word, ("min", "max"), cutoff=0.75)
    if meant is None:
        return cursor.error(cause, span=span)
    return cursor.error(cause, span=span, paste=f"{meant}={'!' if marked else ''}")


def operator_word(cursor: Cursor, target: Name, start: int) -> ParseError | None:
    """The error for `x(i) mod 2`, `o(i)++`, `o(i) := x(i)` and the like, where an assignment
    should stand behind a target; None where it is something else."""
    token, after = cursor.token, cursor.ahead(1)
    left = cursor.span(start, cursor.previous_end).line
    joined = token.text + after.text if token.end == after.start else token.text
    if joined in ("++", "--") and token.kind is Kind.SIGN:
        return cursor.error(
            f"there is no operator '{joined}'",
            span=cursor.span(start, after.end),
            paste=f"{left} += {'1' if joined == '++' else '-1'}",
        )
    if joined in (":=", "<-", "=="):
        return cursor.error(
            f"'{joined}' assigns nothing; a statement assigns with '='",
            span=cursor.span(token.start, token.end if joined == "==" else after.end),
            paste="=",
        )
    if token.kind is Kind.NAME and (word := _reduction_word(cursor)) is not None:
        return word
    if target.text in ("mod", "div") and target.span.start == start:
        sign = {"mod": "%", "div": "/"}[target.text]
        return cursor.error(
            f"there is no operator '{target.text}'; it is written '{sign}', which rounds down",
            span=target.span,
            idiom=f"a {sign} b",
        )
    before = _before(cursor, target)
    if before.kind is Kind.NAME and before.end < start and _is_function(cursor, before.text):
        return cursor.error(
            f"the argument of '{before.text}' stands in parentheses",
            span=cursor.span(before.start, cursor.previous_end),
            paste=f"{before.text}({left})",
        )
    is_clause = token.kind is Kind.NAME and token.text == "in" and target.span.start == start
    if is_clause and before.end < start:
        span = cursor.span(before.end, before.end)
        cause = "the clauses of a 'where' are separated by commas"
        return cursor.error(cause, rule="T5", span=span, paste=",")
    return None


def _is_function(cursor: Cursor, name: str) -> bool:
    is_tensor = name in cursor.names.params or name in cursor.names.written
    return not is_tensor and lookup(name) is not None


def continued(cursor: Cursor) -> ParseError | None:
    """The error for `A(i)(j)` and `o(i) = x(i) = 2`, from the parenthesis on that goes on with
    what is before it; None where it begins the targets of a call."""
    before = cursor.tokens[cursor.index - 1]
    if before.end != cursor.token.start:
        return None
    is_call = starts_call_targets(cursor, 0)
    if before.text == ")" and not is_call:
        return _subscripts_apart(cursor)
    if before.kind is not Kind.NAME or not is_call:
        return None
    count = next(n for n in itertools.count() if cursor.ahead(n).text == "=")
    value, sign = cursor.ahead(count + 1), cursor.ahead(count)
    known = (*cursor.names.params, *cursor.names.written)
    if value.kind is Kind.NAME and value.text not in known:
        return None
    return cursor.error(
        "a statement has one '=', behind its target; a comparison is '=='",
        span=cursor.span_of(sign),
        paste="==",
    )


def _subscripts_apart(cursor: Cursor) -> ParseError:
    cause = "all subscripts stand in one pair of parentheses"
    middle, index = cursor.index, cursor.index - 2
    depth = 1
    while depth and index:
        depth += {")": 1, "(": -1}.get(cursor.tokens[index].text, 0)
        index -= 1
    cursor.step()
    try:
        part = parse_part(cursor)
    except ParseError:
        return cursor.error(cause, idiom="A(i, j)")
    name = cursor.tokens[index]
    if not cursor.at(")") or name.kind is not Kind.NAME:
        return cursor.error(cause, idiom="A(i, j)")
    first = cursor.span(name.start, cursor.tokens[middle - 1].start).line
    span = cursor.span(name.start, cursor.step().end)
    return cursor.error(cause, span=span, paste=f"{first}, {part.span.line})")


def stray_sign(cursor: Cursor) -> ParseError | None:
    """The error for `i!` and `1,000`, at a sign where a statement should begin."""
    before, token = cursor.tokens[cursor.index - 1], cursor.token
    if token.text == "!" and token.kind is Kind.SIGN:
        return cursor.error(
            "there is no operator '!' behind a value",
            idiom="tgamma(x + 1), for the factorial of x; !x, for a negation",
        )
    digits = re.compile(r"(,\d{3})+(?![\w.])").match(cursor.source.text, token.start)
    if before.kind is Kind.NUMBER and digits is not None:
        span = cursor.span(before.start, digits.end())
        return cursor.error("a number has no commas", span=span, paste=span.text.replace(",", ""))
    return None


def _before(cursor: Cursor, name: Name) -> Token:
    return max(
        (token for token in cursor.tokens if token.end <= name.span.start),
        key=lambda token: token.end,
    )


# --- headers ----------------------------------------------------------------------------------


def dims_behind(cursor: Cursor, type_: TensorType, name: Name) -> ParseError:
    """The error for `float A(N)` and `float A[N][M]`, from the bracket on."""
    first = cursor.index
    cursor.skip_brackets("([")
    tokens = cursor.tokens[first : cursor.index]
    pieces = [token.text for token in tokens if token.kind in (Kind.NAME, Kind.NUMBER)]
    span = cursor.span(type_.span.start, cursor.previous_end)
    inside = cursor.span(tokens[0].start, cursor.previous_end).text
    cause = "the sizes stand behind the type, before the name"
    if set(inside) & set("+-*/:?.") or not pieces or type_.dims:
        return cursor.error(cause, rule="T3", span=span, idiom=f"{type_.spelling}(N) {name.text}")
    paste = f"{type_.spelling}({', '.join(pieces)}) {name.text}"
    return cursor.error(cause, rule="T3", span=span, paste=paste)


def name_before_type(cursor: Cursor) -> ParseError | None:
    """The error for `A: float(N)`, if this is one."""
    name, colon = cursor.token, cursor.ahead(1)
    type_ = cursor.ahead(2)
    if colon.text != ":" or type_.text not in SPELLINGS:
        return None
    for _ in range(3):
        cursor.step()
    cursor.skip_brackets("(")
    span = cursor.span(name.start, cursor.previous_end)
    text = cursor.span(type_.start, cursor.previous_end).line
    return cursor.error(
        "the type stands before the name", rule="T3", span=span, paste=f"{text} {name.text}"
    )
