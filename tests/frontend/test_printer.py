"""What is printed parses back to the same tree, with no parenthesis too many."""

from __future__ import annotations

import pytest
from hypothesis import given

from tc.errors import ParseError
from tc.frontend.ast import Expr, Module
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
    ],
)
def test_statements_print_as_written(text: str) -> None:
    (statement,) = parse(Source(f"def f() -> (o) {{ {text} }}")).defs[0].body
    assert to_text(statement) == text


def test_a_module_prints_as_written() -> None:
    text = """\
def 2LUT(float(3, N) A, int k, bool() b) -> (float(N) O1, O2) {
  k = c
  (p, q) = f(a)
}

def g() -> (o) {
}
"""
    assert to_text(parse(Source(text))) == text
