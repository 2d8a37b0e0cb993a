"""Rules of rewriting say the same on both sides, and are used for their forms alone."""

from __future__ import annotations

import ast
from itertools import product

import pytest

from tc.dtypes import FLOAT32
from tc.errors import InternalError
from tc.kernel.ir import Binary, Call, Expr, Unary, Var
from tc.kernel.passes.contraction import RULES
from tc.kernel.rules import Rule, expression, rewritten, rule

A, B, C = (Var(name, FLOAT32) for name in "abc")


def times(left: Expr, right: Expr) -> Expr:
    return Binary("*", left, right, FLOAT32)


def minus(left: Expr, right: Expr) -> Expr:
    return Binary("-", left, right, FLOAT32)


@pytest.mark.parametrize("each", RULES, ids=lambda each: ast.unparse(each.pattern))
def test_both_sides_of_a_rule_are_equal(each: Rule) -> None:
    """For whole numbers, as Python computes them."""
    functions = {"fma": lambda a, b, c: a * b + c}
    sides = [compile(ast.Expression(side), "rule", "eval") for side in (each.pattern, each.result)]
    for a, b, c in product((-3, 0, 2, 5), repeat=3):
        before, after = (eval(side, functions, {"a": a, "b": b, "c": c}) for side in sides)
        assert before == after


def test_the_first_rule_that_fits_is_used() -> None:
    rules = rule("c - a * b", "fma(-a, b, c)"), rule("a * b - c", "fma(a, b, -c)")
    both = minus(times(A, B), times(B, C))
    assert rewritten(both, rules) == Call("fma", (Unary("-", B, FLOAT32), C, times(A, B)), FLOAT32)
    assert rewritten(both, rules[::-1]) == Call(
        "fma", (A, B, Unary("-", times(B, C), FLOAT32)), FLOAT32
    )
    assert rewritten(times(A, B), rules) == times(A, B)


def test_a_name_stands_for_equal_operands() -> None:
    square = rule("a * a", "pow2(a)")
    assert rewritten(times(A, Var("a", FLOAT32)), [square]) == Call("pow2", (A,), FLOAT32)
    assert rewritten(times(A, B), [square]) == times(A, B)


def test_negatives_of_negatives() -> None:
    negative = Unary("-", A, FLOAT32)
    assert expression("-x", FLOAT32, x=negative) == A
    assert expression("-x", FLOAT32, x=A) == negative


def test_other_forms_are_refused() -> None:
    with pytest.raises(InternalError, match="no form of a rule: x if y else z"):
        expression("x if y else z", FLOAT32, x=A, y=B, z=C)
