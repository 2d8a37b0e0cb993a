"""Rule T4: precedence is C's. The expected trees come from a table of C's levels, by splitting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.frontend.ast import Binary, Conditional, Expr, Name, Unary
from tc.source import Source
from tests.support.syntax import parse_expression

# C11 6.5.5 to 6.5.14, from the weakest to the strongest
C_LEVELS = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]
ALL = [op for level in C_LEVELS for op in level]


def shape(expr: Expr) -> str:
    """The tree with all parentheses."""
    match expr:
        case Name(text=text):
            return text
        case Unary(op=op, operand=operand):
            return f"{op}[{shape(operand)}]"
        case Binary(op=op, left=left, right=right):
            return f"[{shape(left)}{op}{shape(right)}]"
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return f"[{shape(condition)}?{shape(then)}:{shape(otherwise)}]"
    raise AssertionError(expr)


def by_splitting(items: list[str]) -> str:
    """The expected tree: split at the weakest operator, the last one of equal ones.

    The whole of `? :` is weaker than all, and right associative: split at the first `?`.
    """
    if "?" in items:
        first = items.index("?")
        depth = 0
        for at in range(first, len(items)):
            depth += {"?": 1, ":": -1}.get(items[at], 0)
            if depth == 0:
                parts = items[:first], items[first + 1 : at], items[at + 1 :]
                return "[{}?{}:{}]".format(*map(by_splitting, parts))
    for level in C_LEVELS:
        # an operator right after another one is a prefix
        at = [i for i in range(1, len(items)) if items[i] in level and items[i - 1].isalpha()]
        if at:
            left, right = items[: at[-1]], items[at[-1] + 1 :]
            return f"[{by_splitting(left)}{items[at[-1]]}{by_splitting(right)}]"
    return items[0] if len(items) == 1 else f"{items[0]}[{by_splitting(items[1:])}]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a == b < c", "[a==[b<c]]"),
        ("a < b == c", "[[a<b]==c]"),
        ("a - b - c", "[[a-b]-c]"),
        ("a - (b - c)", "[a-[b-c]]"),
        ("a / b * c % d", "[[[a/b]*c]%d]"),
        ("-a * b", "[-[a]*b]"),
        ("-a - -b", "[-[a]--[b]]"),
        ("!a == b", "[![a]==b]"),
        ("- - + a", "-[-[+[a]]]"),
        ("a || b && c", "[a||[b&&c]]"),
        ("a ? b : c ? d : e", "[a?b:[c?d:e]]"),
        ("a ? b ? c : d : e", "[a?[b?c:d]:e]"),
        ("a || b ? c + d : e + f", "[[a||b]?[c+d]:[e+f]]"),
        ("(a ? b : c) + d", "[[a?b:c]+d]"),
        ("a < b < c", "[[a<b]<c]"),
    ],
)
def test_rule_T4_precedence(text: str, expected: str) -> None:
    assert shape(parse_expression(Source(text))) == expected


@pytest.mark.parametrize("first", ALL)
@pytest.mark.parametrize("second", ALL)
def test_rule_T4_every_pair_of_operators(first: str, second: str) -> None:
    levels = {op: n for n, level in enumerate(C_LEVELS) for op in level}
    left = levels[first] >= levels[second]
    expected = f"[[a{first}b]{second}c]" if left else f"[a{first}[b{second}c]]"
    assert shape(parse_expression(Source(f"a {first} b {second} c"))) == expected


@given(st.data())
def test_rule_T4_long_chains_with_prefixes_and_conditionals(data: st.DataObject) -> None:
    def chain(conditionals: int) -> list[str]:
        items: list[str] = []
        for n in range(data.draw(st.integers(1, 6))):
            items += [data.draw(st.sampled_from(ALL))] if n else []
            items += data.draw(st.lists(st.sampled_from("-+!"), max_size=2))
            items += [data.draw(st.sampled_from("abc"))]
        if conditionals and data.draw(st.booleans()):
            items = [*items, "?", *chain(conditionals - 1), ":", *chain(conditionals - 1)]
        return items

    items = chain(2)
    assert shape(parse_expression(Source(" ".join(items)))) == by_splitting(items)
