"""What factoring may do to the value of a sum of products (rule R5).

Each term stays a product of the same factors, rounded as often, and meets no more additions: the
bound of the sum as written holds, as long as no product of some factors, and no sum of such,
leaves the range of its type where the terms as written do not. Here such sums are bounded from
above by the sum over all terms of the largest product of any of their factors, and what products
lose in underflow by a subnormal step times the factors that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tc.dtypes import Array, DType
from tc.semantics.reference.arithmetic import reduce_block
from tc.semantics.reference.uncertain import SLACK, Uncertain, largest, roundoff, tiny, widened


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over all terms met: `reach` of the largest product of any factors of each; `lost` of
    what such products lose where they underflow; `felt` of that for terms which, as written, do
    not."""

    count: int
    reach: Array
    lost: Array
    felt: Array


NONE = Products(0, np.zeros(()), np.zeros(()), np.zeros(()))


def with_terms(
    products: Products,
    factors: Iterable[Uncertain],
    term: Uncertain,
    shape: Sequence[int],
    kept: int,
    dtype: DType,
) -> Products:
    """Takes in the terms of a block: what is stored apart are products of some of `factors`."""
    reach, least, count = np.ones(()), np.ones(()), 0
    is_zero = np.zeros((), np.bool_)
    for factor in factors:
        magnitude = np.abs(widened(factor.value))
        highest = magnitude + factor.error
        reach = reach * np.maximum(highest, 1.0)
        is_zero = is_zero | (highest == 0)
        least = least * np.where(magnitude == 0, 1.0, np.minimum(magnitude, 1.0))
        count += 1
    reach = np.where(np.isnan(reach), np.inf, reach)
    smallest = float(np.finfo(dtype.name).smallest_normal)
    loses = (least < smallest) & ~is_zero if count > 1 else np.zeros((), np.bool_)
    lost = np.where(loses, count * tiny(dtype) * reach, 0.0)
    felt = np.where(np.abs(widened(term.value)) >= smallest, lost, 0.0)

    def total(array: Array) -> Array:
        return reduce_block("+", array, shape, kept)

    return Products(
        products.count + int(np.prod(shape[kept:], dtype=np.int64)),
        products.reach + total(reach),
        products.lost + (total(lost) if loses.any() else 0.0),
        products.felt + (total(felt) if loses.any() else 0.0),
    )


def factored_error(products: Products, total: Array, error: Array, dtype: DType) -> Array:
    """The error of a sum, given that of the sum as written: infinite where that is NaN or
    infinite, where a factored sum may overflow, and where the loss in underflow would be felt."""
    gamma = (products.count + 1) * roundoff(dtype)
    fits = products.reach * (1 + SLACK) * (1 + gamma) <= largest(dtype)
    lost = products.lost * (1 + SLACK)
    known = np.isfinite(total) & fits & (products.felt * (1 + SLACK) <= error)
    return np.where(known, error + lost, np.inf)
