"""What is printed parses back to the same tree, with no parenthesis too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.errors import ParseError
from tc.frontend.ast import Binary, Conditional, Expr, Module, Name, Unary
from tc.frontend.parser import parse
from tc.source import Source
from tests.support.ast_strategies import expressions, modules
from tests.support.syntax import parse_expression, to_text


@given(modules())
def test_a_printed_module_parses_to_the_same_tree(module: Module) -> None:
    text = to_text(module)
    assert parse(Source(text)) == module
    assert to_text(parse(Source(text))) == text


@given(expressions(12))
def test_a_printed_expression_parses_to_the_same_tree(expr: Expr) -> None:
    assert parse_expression(Source(to_text(expr))) == expr


@given(expressions(12))
def test_no_pair_of_parentheses_can_go(expr: Expr) -> None:
    text = to_text(expr)
    opened: list[int] = []
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")":
            start = opened.pop()
            if start and (text[start - 1].isalnum() or text[start - 1] == "_"):
                continue  # the parentheses of a read or a cast
            less = text[:start] + text[start + 1 : at] + text[at + 1 :]
            try:
                assert parse_expression(Source(less)) != expr
            except ParseError:
                continue


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)",
        "a - b - c",
        "a + (b + c)",
        "(a + b) * c",
        "a * (b / c)",
        "-(a + b)",
        "--a",
        "a - -b",
        "!(a == b)",
        "!a == b",
        "(a == b) < c",
        "a == b < c",
        "(a ? b : c) ? d : e",
        "a ? b ? c : d : e",
        "a ? b : c ? d : e",
        "(a ? b : c) + 1",
        "int32(a ? b : c)",
        "f(a ? b : c, (a), -b)".replace("(a)", "a"),
        "2f.0 % 0x1Fu - 1.5e-3f / .5",
    ],
)
def test_expressions_print_as_written(text: str) -> None:
    assert to_text(parse_expression(Source(text))) == text


@pytest.mark.parametrize(
    "text",
    [
        "o(i) = x",
        "o = x",
        "o() = x",
        "o(i, j) max=! A(i, j + k) where k in 0:2",
        "o(i) += A(k) where k in 0 : N - 1, l in a:b <=> gemm(A, 2)",
        "o = x where k in (a ? b : c) : d, l in -1:2, m in A.0:A.1, y = a ? b : c, exists T(i)",
        "(a, b) = f(x, y)",
        "(a) = f()",
        "a, b = b, a",
        "a(0), b(i + 1, I(n)), c = x, -y ? 1 : 2, f(z)",
        "m(n), at(n) max=! x(n, d), -d where x(n, d) > 0, d in 0 : n + 1, m.0 = N <=> g(A)",
        "o(i) = x where k, !k, (a < b) < c, a && (b <= c) > d, a || b < c < d, o.1 = a ? b : c",
    ],
)
def test_statements_print_as_written(text: str) -> None:
    (statement,) = parse(Source(f"def f() -> (o) {{ {text} }}")).defs[0].body
    assert to_text(statement) == text


def test_a_module_prints_as_written() -> None:
    text = """\
def 2LUT(float(3, N) A, int k = -3, bool() b = 1) -> (float(N) O1, O2) {
  k = c
  (p, q) = f(a)
}

def g() -> (o) {
}
"""
    assert to_text(parse(Source(text))) == text


# --- Rule T4: precedence is C's. The expected trees come from a table of C's levels, by splitting.


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
