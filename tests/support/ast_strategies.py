"""Hypothesis strategies for syntax trees, and for ragged texts with comments of a given tree.

The trees follow the grammar and no other rule: names are mostly unknown, ranks disagree. Each
strategy is made once, as Hypothesis takes longer to check a new one than to draw from it.
"""

from __future__ import annotations

import re
import string
from functools import cache
from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from tc.dtypes import SPELLINGS
from tc.frontend.ast import (
    Annotation,
    Apply,
    Binary,
    Binding,
    CallStatement,
    Cast,
    Clause,
    Comprehension,
    Condition,
    Conditional,
    Def,
    Dim,
    Exists,
    Expr,
    Module,
    Name,
    Number,
    Param,
    RangeClause,
    Return,
    SizeClause,
    Statement,
    Target,
    TensorType,
    Unary,
)
from tc.frontend.tokens import Kind
from tc.source import Source, Span
from tests.support.syntax import to_text, tokenize

NO_SPAN = Span(Source(""), 0, 0)

OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||"]
OPERATORS += ["&", "|", "<<", ">>"]
ASSIGNMENTS = ["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"]
ASSIGNMENTS += ["&=", "|=", "^=", "&=!", "|=!", "^=!"]
RESERVED = {"def", "where", "exists", "return", *SPELLINGS}
"""Words that name nothing, and `return`, which before a parenthesis is one of other languages."""

_NUMBER_LIKE = re.compile(r"0[xX][0-9a-fA-F]+[uUlL]*|[0-9]+[eE][0-9]+[fFlL]?|[0-9]+[uUlL]*")
_ODD_NAMES = ["in", "min", "max", "2LUT", "2f", "_", "0_", "0x", "1e", "x1", "pad", "concat", "exp"]


def is_name(text: str) -> bool:
    return text not in RESERVED and not _NUMBER_LIKE.fullmatch(text)


@cache
def identifiers() -> st.SearchStrategy[str]:
    """Identifiers of T1: some begin with digits, none is a number or a reserved word."""
    word = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=6)
    lettered = word.filter(lambda text: not text.isdigit() and is_name(text))
    return st.sampled_from([*"abcijkABC", *_ODD_NAMES]) | lettered


@cache
def names() -> st.SearchStrategy[Name]:
    return identifiers().map(lambda text: Name(text, span=NO_SPAN))


@cache
def integers() -> st.SearchStrategy[Number]:
    suffix = st.sampled_from(["", "", "u", "UL", "l", "LL"])
    value = st.integers(0, 20) | st.integers(0, 2**64)
    decimal = st.builds(lambda n, s: Number(f"{n}{s}", n, span=NO_SPAN), value, suffix)
    hexadecimal = st.builds(lambda n, s: Number(f"0x{n:X}{s}", n, span=NO_SPAN), value, suffix)
    return decimal | hexadecimal


@cache
def floats() -> st.SearchStrategy[Number]:
    """Floating literals in all their spellings; the value is computed from its parts."""

    def build(whole: int | None, digits: str, exponent: int | None, suffix: str) -> Number:
        text = f"{'' if whole is None else whole}.{digits}"
        if whole is None and not digits:
            text = "0."
        power = 0 if exponent is None else exponent
        mantissa = int((text.replace(".", "")) or "0")
        value = float(f"{mantissa}e{power - len(text.partition('.')[2])}")
        written = "" if exponent is None else f"e{exponent:+d}"
        return Number(text + written + suffix, value, span=NO_SPAN)

    return st.builds(
        build,
        st.none() | st.integers(0, 1000),
        st.text("0123456789", max_size=4),
        st.none() | st.integers(-30, 30),
        st.sampled_from(["", "f", "F", "l"]),
    )


@cache
def leaves() -> st.SearchStrategy[Expr]:
    dim = st.builds(lambda n, k: Dim(n, k, span=NO_SPAN), names(), st.integers(0, 12))
    return names() | integers() | floats() | dim


def _word(inner: Expr) -> Expr:
    return Cast("int", inner, span=NO_SPAN)


@cache
def expressions(max_leaves: int = 8) -> st.SearchStrategy[Expr]:
    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        args = st.lists(inner, max_size=3).map(tuple)
        operator, spelling = st.sampled_from(OPERATORS), st.sampled_from(sorted(SPELLINGS))
        return st.one_of(
            st.builds(lambda o, a, b: Binary(o, a, b, span=NO_SPAN), operator, inner, inner),
            st.builds(lambda o, a: Unary(o, a, span=NO_SPAN), st.sampled_from("-+!~"), inner),
            # beside floats it is a power of another language
            st.builds(lambda a, b: Binary("^", _word(a), _word(b), span=NO_SPAN), inner, inner),
            st.builds(lambda a, b, c: Conditional(a, b, c, span=NO_SPAN), inner, inner, inner),
            st.builds(lambda f, a: Apply(f, a, span=NO_SPAN), names(), args),
            st.builds(lambda t, a: Cast(t, a, span=NO_SPAN), spelling, inner),
        )

    return st.recursive(leaves(), extend, max_leaves=max_leaves)


@cache
def applies() -> st.SearchStrategy[Apply]:
    args = st.lists(expressions(3), max_size=3).map(tuple)
    return st.builds(lambda f, a: Apply(f, a, span=NO_SPAN), names(), args)


@cache
def clauses() -> st.SearchStrategy[Clause]:
    bound = expressions(4)
    return st.one_of(
        st.builds(lambda v, a, b: RangeClause(v, a, b, span=NO_SPAN), names(), bound, bound),
        st.builds(lambda v, a: Binding(v, a, span=NO_SPAN), names(), bound),
        applies().map(lambda read: Exists(read, span=NO_SPAN)),
        bound.map(lambda test: Condition(test, span=NO_SPAN)),
        st.builds(
            lambda t, k, v: SizeClause(t, k, v, span=NO_SPAN), names(), st.integers(0, 12), bound
        ),
    )


@cache
def targets() -> st.SearchStrategy[Target]:
    """Targets with bare variables, with any expressions, and without subscripts."""
    bare = st.lists(names(), max_size=3).map(tuple)
    computed = st.lists(expressions(4), max_size=3).map(tuple)
    subscripts = st.none() | bare | computed
    return st.builds(lambda n, s: Target(n, s, span=NO_SPAN), names(), subscripts)


@cache
def comprehensions() -> st.SearchStrategy[Comprehension]:
    """Statements of one target, and of several, each with a value."""
    annotation = applies().map(lambda a: Annotation(a.name, a.args, span=NO_SPAN))
    written = st.lists(st.tuples(targets(), expressions()), min_size=1, max_size=3)
    return st.builds(
        lambda written, op, where, note: Comprehension(
            tuple(target for target, _ in written),
            op,
            NO_SPAN,
            tuple(value for _, value in written),
            where,
            note,
            span=NO_SPAN,
        ),
        st.tuples(st.tuples(targets(), expressions())) | written,
        st.sampled_from(ASSIGNMENTS),
        st.lists(clauses(), max_size=3).map(tuple),
        st.none() | annotation,
    )


@cache
def statements() -> st.SearchStrategy[Statement]:
    called = st.lists(names(), min_size=1, max_size=3).map(tuple)
    args = st.lists(names() | expressions(3), max_size=3).map(tuple)
    call = st.builds(lambda t, f, a: CallStatement(t, f, a, span=NO_SPAN), called, names(), args)
    return comprehensions() | call


@cache
def tensor_types() -> st.SearchStrategy[TensorType]:
    dims = st.none() | st.lists(names() | integers(), max_size=4).map(tuple)
    spelling = st.sampled_from(sorted(SPELLINGS))
    return st.builds(lambda s, d: TensorType(s, d, span=NO_SPAN), spelling, dims)


@cache
def params() -> st.SearchStrategy[Param]:
    """Parameters, some of those of rank 0 with a default."""
    literal = integers() | floats()
    signed = st.builds(lambda o, a: Unary(o, a, span=NO_SPAN), st.sampled_from("-+"), literal)
    return st.builds(
        lambda t, n, d: Param(t, n, None if t.dims else d, span=NO_SPAN),
        tensor_types(),
        names(),
        st.none() | literal | signed,
    )


@cache
def defs() -> st.SearchStrategy[Def]:
    return_ = st.builds(
        lambda t, n: Return(t, n, span=NO_SPAN), st.none() | tensor_types(), names()
    )
    return st.builds(
        lambda n, p, r, b: Def(n, tuple(p), tuple(r), tuple(b), span=NO_SPAN),
        names(),
        st.lists(params(), max_size=4),
        st.lists(return_, min_size=1, max_size=3),
        st.lists(statements(), max_size=5),
    )


@cache
def modules() -> st.SearchStrategy[Module]:
    """Syntax trees of whole texts; all spans are `NO_SPAN`."""
    return st.lists(defs(), min_size=1, max_size=2).map(lambda d: Module(tuple(d), span=NO_SPAN))


@st.composite
def ragged_texts(draw: st.DrawFn, module: Module) -> tuple[str, list[str]]:
    """A text of this tree with odd white space and comments between its tokens, and the comments.

    No token is changed; the comments are told apart by their numbers. All white space comes from
    one number: to draw each piece would take ten times as long.
    """
    choice = Random(draw(st.integers(0, 2**32 - 1))).choice
    printed = to_text(module)
    tokens = tokenize(Source(printed))[:-1]
    comments: list[str] = []

    def comment() -> str:
        text = f"#{choice(['', ' ', '# '])}{len(comments)}"
        text += choice(["", "", " x = (", " }", " ä # \t|", " def where"])
        comments.append(text)
        return text + choice(["\n", "  \n", "\r\n"])

    def gap() -> str:
        blank = choice(["", "", "", " ", "\n", "\n\n", "\t", " \n \n\n"])
        marks = choice([0] * 12 + [1, 1, 2])
        return blank + "".join(comment() + choice(["", "  ", "\n", "\n\n"]) for _ in range(marks))

    text = gap()
    for before, token in pairwise((None, *tokens)):
        assert token is not None
        between = "" if token.kind is Kind.DIM else gap()
        brackets = before is None or token.text in "(),{}" or before.text in "(),{}"
        if before is not None and token.text == "(" and "\n" in printed[before.end : token.start]:
            brackets = False  # of a call statement: directly behind a name, they are its subscripts
        if not between and not brackets and token.kind is not Kind.DIM:
            between = " "
        text += between + token.text
    text += gap()
    return text, comments
