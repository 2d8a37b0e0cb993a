"""Ranges of guards against each iteration, one by one, and selected values likewise."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tc.affine.intervals import Interval
from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.guard_ranges import guard_range, selected_value
from tc.kernel.folding import integer

OUTER: dict[str, Interval] = {"i": (0, 3), "j": (-2, 1)}
INNER: dict[str, Interval] = {"r": (0, 2), "s": (-1, 1)}
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a // b, "min": min, "max": max,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
}  # fmt: skip


def value_of(expr: ir.Expr, values: dict[str, int]) -> Any:
    match expr:
        case ir.Const(value=value):
            return value
        case ir.Var(name=name) | ir.Load(buffer=name):
            return values[name]
        case ir.Unary(operand=operand):
            return -value_of(operand, values)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            return value_of(then if value_of(condition, values) else otherwise, values)
        case ir.Binary(op=op, left=left, right=right) | ir.Compare(op=op, left=left, right=right):
            return OPERATORS[op](value_of(left, values), value_of(right, values))
    raise AssertionError(expr)


def expressions(names: str) -> st.SearchStrategy[ir.Expr]:
    leaves = st.sampled_from([ir.Var(name, INT64) for name in names])

    def larger(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        def joined(op: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
            return ir.Binary(op, left, right, INT64)

        factors, divisors = (st.integers(low, 4).map(integer) for low in (-3, 1))
        return st.one_of(
            st.builds(joined, st.sampled_from(["+", "-", "min", "max"]), inner, inner),
            st.builds(joined, st.just("*"), inner, factors),
            st.builds(joined, st.just("/"), inner, divisors),
            inner.map(lambda operand: ir.Unary("-", operand, INT64)),
        )

    return st.recursive(leaves | st.integers(-5, 9).map(integer), larger, max_leaves=5)


@given(
    st.builds(
        ir.Compare,
        st.sampled_from(["<", "<=", ">", ">="]),
        expressions("kijrs"),
        expressions("kijr"),
    ),
    st.integers(-3, 2),
    st.integers(6, 9),
)
def test_ranges_of_guards(test: ir.Compare, begin: int, end: int) -> None:
    loop = ir.For("k", integer(begin), integer(end), ())
    found = guard_range(test, loop, INNER, OUTER)
    if found is None:
        return
    for i, j in product(range(4), range(-2, 2)):
        around = {"i": i, "j": j}
        first, last = (value_of(each, around) for each in found.certain)
        low, high = (value_of(each, around) for each in found.possible)
        assert first == begin if found.falls else last == end
        for k in range(begin, end):
            holds = [
                value_of(test, {**around, "k": k, "r": r, "s": s})
                for r, s in product(range(3), range(-1, 2))
            ]
            assert all(holds) or not first <= k < last
            assert not any(holds) or low <= k < high


@given(
    st.sampled_from(["<", "<=", ">", ">="]),
    st.booleans(),
    st.integers(-4, 12) | st.sampled_from([-(2**63), 1 - 2**63, 2**63 - 2, 2**63 - 1]),
    st.integers(-3, 2),
    st.integers(2, 9),
)
def test_loaded_numbers_of_64_bits(
    op: str, turned: bool, loaded: int, begin: int, end: int
) -> None:
    """They may be any, and nothing wraps around."""
    sides = (ir.Var("k", INT64), ir.Load("row", (), INT64))
    test = ir.Compare(op, *(sides[::-1] if turned else sides))
    found = guard_range(test, ir.For("k", integer(begin), integer(end), ()), {}, {})
    assert found is not None
    assert found.certain == found.possible
    parts = (part for each in found.certain for part in ir.walk(each))
    assert all(-(2**63) <= value_of(part, {"row": loaded}) < 2**63 for part in parts)
    first, last = (value_of(each, {"row": loaded}) for each in found.certain)
    holds = [k for k in range(begin, end) if value_of(test, {"k": k, "row": loaded})]
    assert [*range(first, last)] == holds


def test_terms_of_both_sides_that_cancel_are_gone() -> None:
    k, i, r = (ir.Var(name, INT64) for name in "kir")
    both = ir.Compare("<=", ir.Binary("+", k, r, INT64), ir.Binary("+", i, r, INT64))
    found = guard_range(both, ir.For("k", integer(0), integer(9), ()), INNER, OUTER)
    assert found is not None
    assert found.certain == found.possible == (integer(0), ir.Binary("+", i, integer(1), INT64))


@given(expressions("kij"), expressions("ij"))
def test_selected_values(left: ir.Expr, right: ir.Expr) -> None:
    test = ir.Compare("==", left, right)
    found = selected_value(test, "k", {**OUTER, "k": (0, 5)})
    for i, j, k in product(range(4), range(-2, 2), range(6)) if found is not None else ():
        values = {"i": i, "j": j}
        assert value_of(test, {**values, "k": k}) == (value_of(found, values) == k)
