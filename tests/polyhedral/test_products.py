"""The search for the cheapest order of a sum of products."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.polyhedral.rewrite.product_order import Factor, OrderCosts, PartialSum, best_order

COUNTED = OrderCosts(gain=1.0, moved=0.0, statement=0.0, strided=1.0)


def factor(variables: str, operations: float = 0.0, *, is_product: bool = False) -> Factor:
    return Factor(frozenset(variables), operations, frozenset(variables[-1:]), is_product)


def order(
    *factors: Factor, kept: str = "", costs: OrderCosts = COUNTED, **extents: int
) -> PartialSum:
    return best_order(factors, kept, extents, tuple(extents), largest=10**9, costs=costs)


def shown(of: PartialSum) -> str:
    operands = (shown(o) if isinstance(o, PartialSum) else str(o) for o in of.operands)
    return f"({' '.join(operands)} -> {''.join(sorted(of.kept))})"


@given(st.lists(st.integers(2, 12), min_size=4, max_size=7))
def test_matrix_chains_as_by_the_textbook(sizes: list[int]) -> None:
    @cache
    def cheapest(first: int, last: int) -> int:
        """Of the product of the matrices from first to before last."""
        if last - first == 1:
            return 0
        return min(
            cheapest(first, cut) + cheapest(cut, last) + 2 * sizes[first] * sizes[cut] * sizes[last]
            for cut in range(first + 1, last)
        )

    names = "abcdefg"[: len(sizes)]
    matrices = [factor(u + v) for u, v in pairwise(names)]
    extents = dict(zip(names, sizes, strict=True))
    found = order(*matrices, kept=names[0] + names[-1], **extents)
    assert found.cost == cheapest(0, len(matrices))


def test_plain_costs_are_counted() -> None:
    """For each of 5 * 7 instances one multiplication, one addition, and 3 operations inside."""
    found = order(factor("ik", 3), factor("ik"), kept="i", i=5, k=7)
    assert found.is_plain
    assert found.cost == 5 * 7 * (1 + 1 + 3)


def test_stored_sums_are_charged() -> None:
    costs = OrderCosts(gain=1.0, moved=7.0, statement=1000.0, strided=1.0)
    found = order(factor("i"), factor("ik"), kept="i", costs=costs, i=100, k=1000)
    assert shown(found) == "(0 (1 -> i) -> i)"
    assert found.cost == 100 * 1000 + 7 * 100 + 1000 + 100


@pytest.mark.parametrize(("gain", "is_plain"), [(1.9, False), (2.1, True)])
def test_gain(gain: float, is_plain: bool) -> None:
    costs = OrderCosts(gain=gain, moved=0.0, statement=0.0)
    assert order(factor("i"), factor("ik"), kept="i", costs=costs, i=1, k=1000).is_plain == is_plain


@pytest.mark.parametrize(("largest", "is_plain"), [(100, False), (99, True)])
def test_largest(largest: int, is_plain: bool) -> None:
    found = best_order(
        (factor("i"), factor("ik")), "i", {"i": 100, "k": 100}, "ik", largest=largest, costs=COUNTED
    )
    assert found.is_plain == is_plain


def test_storable() -> None:
    factors = (factor("i"), factor("ik"))
    extents = {"i": 100, "k": 100}
    assert best_order(factors, "i", extents, "k", largest=1000, costs=COUNTED).is_plain
    # the summed variable is none of the temporary's
    assert not best_order(factors, "i", extents, "i", largest=1000, costs=COUNTED).is_plain


def test_outer_products_are_not_stored() -> None:
    """That of 1 and 2 would be as large as 0, and save a third; {1, 0} likewise sums nothing."""
    found = order(factor("ijk"), factor("jr"), factor("kr"), kept="ijkr", i=9, j=9, k=9, r=9)
    assert found.is_plain


def test_products_of_like_factors_are_stored() -> None:
    two = factor("k", 1.0, is_product=True)
    assert shown(order(two, factor("ik"), kept="i", i=9, k=9)) == "((0 -> k) 1 -> i)"
    one = factor("k", 1.0)
    assert order(one, factor("ik"), kept="i", i=9, k=9).is_plain


def test_strided_sums_cost_more() -> None:
    """Of two orders with equal counts, that whose sums run along last subscripts."""
    costs = OrderCosts(gain=1.0, moved=0.0, statement=0.0, strided=1.1)
    small = factor("jr"), factor("kr")
    extents = {"i": 9, "j": 9, "k": 9, "r": 9}
    assert shown(order(factor("ijk"), *small, kept="ir", costs=costs, **extents)) == (
        "((0 2 -> ijr) 1 -> ir)"
    )
    assert shown(order(factor("ikj"), *small, kept="ir", costs=costs, **extents)) == (
        "((0 1 -> ikr) 2 -> ir)"
    )
