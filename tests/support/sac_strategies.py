"""Hypothesis strategies for trees of SaC's notation: they follow the grammar (C1 to C3) and no
other rule, so names are mostly unknown and ranks disagree."""

from __future__ import annotations

import string
from functools import cache
from random import Random

from hypothesis import strategies as st

from tc.dtypes import SPELLINGS
from tc.sac import ast
from tc.source import Source, Span

NO_SOURCE = Source("")
NO_SPAN = Span(NO_SOURCE, 0, 0)

OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "++"]
RESERVED = {"with", "return", "if", "else", "true", "false", "for", "while", "do", *SPELLINGS}
FOREIGN = {"and", "or", "not", "step", "width"}
UNSUPPORTED = {"use", "import", "module", "struct", "inline", "class", "void"}


@cache
def names() -> st.SearchStrategy[ast.Name]:
    letters = string.ascii_letters + "_"
    word = st.builds(
        lambda first, rest: first + rest,
        st.sampled_from(letters),
        st.text(letters + string.digits, max_size=5),
    ).filter(lambda text: text not in RESERVED | FOREIGN | UNSUPPORTED)
    common = st.sampled_from([*"abijkx", "iv", "shape", "fold", "genarray", "min"])
    return (common | word).map(lambda text: ast.Name(text, span=NO_SPAN))


@cache
def numbers() -> st.SearchStrategy[ast.Number]:
    """Numbers in all their spellings (C2); the value is computed from the parts."""

    def whole(value: int, suffix: str) -> ast.Number:
        is_float = suffix in ("f", "d")
        return ast.Number(f"{value}{suffix}", float(value) if is_float else value, span=NO_SPAN)

    def fraction(a: int, digits: str, exponent: int | None, suffix: str) -> ast.Number:
        written = "" if exponent is None else f"e{exponent:+d}"
        power = (exponent or 0) - len(digits)
        value = float(f"{int(f'{a}{digits}')}e{power}")
        return ast.Number(f"{a}.{digits}{written}{suffix}", value, span=NO_SPAN)

    def scientific(a: int, exponent: int, suffix: str) -> ast.Number:
        return ast.Number(f"{a}E{exponent}{suffix}", float(f"{a}e{exponent}"), span=NO_SPAN)

    small = st.integers(0, 20)
    return st.one_of(
        st.builds(whole, small | st.integers(0, 2**63 - 1), st.sampled_from(["", "", *"ilfd"])),
        st.builds(lambda n: ast.Number(f"0x{n:X}", n, span=NO_SPAN), st.integers(0, 2**63 - 1)),
        st.builds(
            fraction,
            small,
            st.text("0123456789", min_size=1, max_size=4),
            st.none() | st.integers(-30, 30),
            st.sampled_from(["", "", "f", "d"]),
        ),
        st.builds(scientific, small, st.integers(0, 30), st.sampled_from(["", "f", "d"])),
    )


@cache
def leaves() -> st.SearchStrategy[ast.Expr]:
    return names() | numbers() | st.booleans().map(lambda value: ast.Bool(value, span=NO_SPAN))


DOT, DOTS = ast.Dot(span=NO_SPAN), ast.Dots(span=NO_SPAN)


def _one_dots(items: list[ast.Name | ast.Dot | ast.Dots]) -> bool:
    """Whether the items have at most one `...` and no name twice (C3)."""
    texts = [item.text for item in items if isinstance(item, ast.Name)]
    return len(set(texts)) == len(texts) and sum(isinstance(i, ast.Dots) for i in items) < 2


@cache
def patterns() -> st.SearchStrategy[ast.Pattern]:
    entry = names() | names() | st.sampled_from([DOT, DOTS])
    return st.one_of(
        names().map(lambda name: ast.VectorPattern(name, span=NO_SPAN)),
        st.lists(entry, max_size=4)
        .filter(_one_dots)
        .map(lambda entries: ast.ScalarPattern(tuple(entries), span=NO_SPAN)),
    )


def without_dots(pattern: ast.Pattern) -> ast.Pattern:
    if isinstance(pattern, ast.VectorPattern):
        return pattern
    entries = tuple(entry for entry in pattern.entries if isinstance(entry, ast.Name))
    return ast.ScalarPattern(entries, span=NO_SPAN)


@st.composite
def bounds(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr], *, upper: bool) -> ast.Bound:
    del upper
    if draw(st.integers(0, 4)) == 0:
        return ast.Bound(DOT, False, span=NO_SPAN)  # C18
    return ast.Bound(draw(inner), draw(st.booleans()), span=NO_SPAN)


@st.composite
def generators(
    draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr], index: ast.Pattern, whole: bool
) -> ast.Generator:
    given = 3 if whole else draw(st.integers(1, 3))
    if draw(st.integers(0, 9)) == 0 and isinstance(index, ast.VectorPattern):
        inner = st.just(index.name)  # `iv < iv`
    lower = draw(bounds(inner, upper=False)) if given & 1 else None
    upper = draw(bounds(inner, upper=True)) if given & 2 else None
    return ast.Generator(lower, index, upper, span=NO_SPAN)


@st.composite
def comprehensions(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr]) -> ast.Comprehension:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        pattern = draw(patterns())
        generator = None
        if draw(st.booleans()):
            generator = draw(generators(inner, without_dots(pattern), False))
        parts.append(ast.Part(pattern, draw(inner), generator, span=NO_SPAN))
    return ast.Comprehension(tuple(parts), span=NO_SPAN)


@st.composite
def with_loops(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr]) -> ast.WithLoop:
    parts = []
    for _ in range(draw(st.integers(0, 2))):
        generator = draw(generators(inner, without_dots(draw(patterns())), True))
        block = draw(st.lists(assigns(inner), max_size=2).map(tuple))
        parts.append(ast.LoopPart(generator, block, draw(inner), span=NO_SPAN))
    operation = draw(
        st.one_of(
            st.builds(lambda s, d: ast.Genarray(s, d, span=NO_SPAN), inner, inner),
            inner.map(lambda a: ast.Modarray(a, span=NO_SPAN)),
            st.builds(
                lambda op, n: ast.Fold(op, n, span=NO_SPAN),
                st.sampled_from(["+", "*", "min", "max", "&&", "||"]),
                inner,
            ),
        )
    )
    return ast.WithLoop(tuple(parts), operation, span=NO_SPAN)


@st.composite
def selections(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr]) -> ast.Select:
    items: list[ast.Expr | ast.Dot | ast.Dots] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 4))
        if kind == 0:
            items.append(DOT)
        elif kind == 1 and DOTS not in items:
            items.append(DOTS)
        else:
            items.append(draw(inner))
    return ast.Select(draw(inner), tuple(items), span=NO_SPAN)


@cache
def expressions(max_leaves: int = 8) -> st.SearchStrategy[ast.Expr]:
    def extend(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
        items = st.lists(inner, max_size=3).map(tuple)
        operator, spelling = st.sampled_from(OPERATORS), st.sampled_from(sorted(SPELLINGS))
        return st.one_of(
            st.builds(lambda o, a, b: ast.Binary(o, a, b, span=NO_SPAN), operator, inner, inner),
            st.builds(lambda o, a: ast.Unary(o, a, span=NO_SPAN), st.sampled_from("-!"), inner),
            st.builds(lambda a, b, c: ast.Conditional(a, b, c, span=NO_SPAN), inner, inner, inner),
            st.builds(lambda f, a: ast.Call(f, a, span=NO_SPAN), names(), items),
            st.builds(lambda t, a: ast.Cast(t, a, span=NO_SPAN), spelling, inner),
            items.map(lambda row: ast.Row(row, span=NO_SPAN)),
            selections(inner),
            comprehensions(inner),
            with_loops(inner),
        )

    return st.recursive(leaves(), extend, max_leaves=max_leaves)


@st.composite
def assigns(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr]) -> ast.Assign:
    targets = tuple(draw(st.lists(names(), min_size=1, max_size=3)))
    op = draw(st.sampled_from(["", "", *"+-*/%"])) if len(targets) == 1 else ""
    return ast.Assign(targets, op, draw(inner), span=NO_SPAN)


@cache
def statements(depth: int = 2) -> st.SearchStrategy[ast.Statement]:
    if depth == 0:
        return assigns(expressions(4))
    block = st.lists(statements(depth - 1), max_size=2).map(tuple)
    choice = st.builds(lambda c, a, b: ast.If(c, a, b, span=NO_SPAN), expressions(4), block, block)
    return st.one_of(assigns(expressions(4)), assigns(expressions(4)), choice)


@cache
def types() -> st.SearchStrategy[ast.Type]:
    count = st.integers(0, 9) | names()
    size = st.builds(lambda c, n: ast.Size(c, n, span=NO_SPAN), count, st.none() | names())
    sizes = st.lists(size | st.just(ast.Size(None, None, span=NO_SPAN)), max_size=3).map(tuple)
    return st.builds(
        lambda element, entries: ast.Type(element, entries, span=NO_SPAN),
        st.sampled_from(sorted(SPELLINGS)),
        st.sampled_from("*+") | sizes,
    )


@cache
def bodies(results: int = 1) -> st.SearchStrategy[ast.Body]:
    return st.builds(
        lambda s, r: ast.Body(tuple(s), tuple(r), span=NO_SPAN),
        st.lists(statements(), max_size=3),
        st.lists(expressions(), min_size=results, max_size=results),
    )


@st.composite
def definitions(draw: st.DrawFn) -> ast.Definition:
    results = tuple(draw(st.lists(types(), min_size=1, max_size=2)))
    parameter = st.builds(lambda t, n: ast.Parameter(t, n, span=NO_SPAN), types(), names())
    parameters = tuple(draw(st.lists(parameter, max_size=3)))
    body = draw(bodies(len(results)))
    return ast.Definition(results, draw(names()), parameters, body, span=NO_SPAN)


@cache
def modules() -> st.SearchStrategy[ast.Module]:
    return st.one_of(
        bodies().map(lambda body: ast.Module(NO_SOURCE, (), body)),
        st.lists(definitions(), min_size=1, max_size=2).map(
            lambda found: ast.Module(NO_SOURCE, tuple(found), None)
        ),
    )


def ragged(tokens: list[str], random: Random) -> tuple[str, list[str]]:
    """A text of the tokens with any white space and comments between them, and the comments."""
    text, comments = "", []
    for token in tokens:
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            comment = random.choice(("// more", "/* a */", "/* two\n   lines */", "//"))
            comments.append(comment)
            text += f" {comment}\n" if comment.startswith("//") else f" {comment}"
            text += random.choice(("", " ", "\n", "\n\n\n"))
        text += random.choice((" ", "  ", "\n", "\t")) + token
    return text + random.choice(("", "\n", "  ")), comments
