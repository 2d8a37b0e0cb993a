"""How errors add up in a reduction, whatever order it runs in (rule R5).

For n terms, summing them in any order rounds each at most n - 1 times, so that two orders differ
by at most 2 (n - 1) u sum|terms|, to first order; the error of each term counts once. Products
work likewise with relative errors; a minimum or maximum moves by at most its terms' largest
error.

Factoring a sum of products keeps that bound: each term stays a product of the same factors, rounded
as often, and meets no more additions, as long as no product of some factors, and no sum of such,
leaves the range of its type where the terms as written do not. Such sums are bounded from above by
the sum over all terms of the largest product of any of their factors, and what products lose in
underflow by a subnormal step times the factors that follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tc.builtins.operators import BITWISE
from tc.dtypes import FLOAT32, Array, DType
from tc.semantics.reference import uncertain
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.folds import BoxFold, Fold
from tc.semantics.reference.uncertain import (
    SLACK,
    ZERO,
    DyadicGrid,
    Uncertain,
    roundoff,
    tiny,
    widened,
)

_NAN, _PLUS, _MINUS = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over all terms met: `reach` of the largest product of any factors of each; `lost` of
    what such products lose where they underflow; `felt` of that for terms which, as written, do
    not."""

    count: int
    reach: Array
    lost: Array
    felt: Array


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction under way, with the shape of the target's block.

    `error` adds (min, max: takes the largest of) the errors of finite terms; `specials` are the
    bits of the NaNs and infinities met that every implementation meets. For sums, `magnitude` is
    the sum of |terms|. For products it is that of |term| + error, `relative` the sum of
    log(1 + error / |term|), and `greatest` a bound on every partial product. `products` tells
    what factoring the terms met may do.
    """

    op: str
    dtype: DType
    total: Array
    count: int
    grid: DyadicGrid | None
    error: Array
    specials: Array
    magnitude: Array
    relative: Array
    greatest: Array
    products: Products = Products(0, np.zeros(()), np.zeros(()), np.zeros(()))


def start(op: str, value: Uncertain | None, shape: Sequence[int], dtype: DType) -> Reduction:
    """A reduction that has taken in one value, or no value yet (`value` None)."""
    _, total = PLAIN.start(op, None, shape, dtype)
    zeros = np.zeros(())
    neutral = DyadicGrid(0, {"*": 1.0, "&": 2.0**dtype.bits}.get(op, 0.0))
    begun = Reduction(
        op, dtype, total, 0, neutral, ZERO, np.zeros((), np.int8), zeros, zeros, np.ones(())
    )
    if op == "*":
        begun = replace(begun, magnitude=np.ones(()))
    return begun if value is None else accumulate(begun, value, BoxFold(tuple(shape), len(shape)))


def accumulate(reduction: Reduction, term: Uncertain, fold: Fold) -> Reduction:
    """Takes in the terms of a block, as `Arithmetic.accumulate` does."""
    op, dtype = reduction.op, reduction.dtype
    _, total = PLAIN.accumulate((op, reduction.total), term.value, fold)
    count = fold.count
    grid = _grid(reduction, term, count)
    reduction = replace(reduction, total=total, count=reduction.count + count, grid=grid)
    if not dtype.is_float and term.is_exact:
        return reduction

    if op in BITWISE:
        unsure = np.where(term.error > 0, np.inf, 0.0)
        return replace(reduction, error=fold.into("max", reduction.error, unsure))
    if op in ("min", "max"):
        if not term.is_exact:
            error = fold.into("max", reduction.error, term.error)
            reduction = replace(reduction, error=error)
        return _with_specials(reduction, term, fold)
    finite = np.abs(widened(term.value))
    is_finite = np.isfinite(finite)
    if op == "+":
        error = reduction.error
        if not term.is_exact:
            error = fold.into("+", error, term.error)
        if not is_finite.all():
            reduction = _with_specials(reduction, term, fold)
            finite = np.where(is_finite, finite, 0.0)
        magnitude = fold.into("+", reduction.magnitude, finite)
        return replace(reduction, error=error, magnitude=magnitude)
    reduction = _with_specials(reduction, term, fold)
    finite = np.where(is_finite, finite, 1.0)
    error = reduction.error
    if not term.is_exact:
        error = fold.into("max", error, term.error)
    ratio = term.error / np.where(finite == 0, 1.0, finite)
    reach = finite + term.error
    grown = np.where(finite == 0, 0.0, np.log1p(ratio))
    return replace(
        reduction,
        error=error,
        magnitude=fold.into("*", reduction.magnitude, reach),
        relative=fold.into("+", reduction.relative, grown),
        greatest=fold.into("*", reduction.greatest, np.maximum(reach, 1.0)),
    )


def redistribute_of_tf32(
    reduction: Reduction, factors: Iterable[Uncertain], term: Uncertain, fold: Fold
) -> Reduction:
    """As `redistribute`, where factors of float32, and what is stored apart, may be rounded to
    tf32."""
    if reduction.dtype != FLOAT32:
        return redistribute(reduction, factors, term, fold)
    rounded = map(uncertain.as_factor_of_tf32, factors)
    return _redistributed(reduction, rounded, term, fold, uncertain.TF32_STEP)


def redistribute(
    reduction: Reduction, factors: Iterable[Uncertain], term: Uncertain, fold: Fold
) -> Reduction:
    """Takes in the terms of a block: what is stored apart are products of some of `factors`."""
    return _redistributed(reduction, factors, term, fold, tiny(reduction.dtype))


def _redistributed(
    reduction: Reduction,
    factors: Iterable[Uncertain],
    term: Uncertain,
    fold: Fold,
    step: float,
) -> Reduction:
    """The reduction, where a product that underflows loses a `step` at most."""
    dtype, products = reduction.dtype, reduction.products
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
    smallest = dtype.format.smallest_normal
    loses = (least < smallest) & ~is_zero if count > 1 else np.zeros((), np.bool_)
    lost = np.where(loses, count * step * reach, 0.0)
    felt = np.where(np.abs(widened(term.value)) >= smallest, lost, 0.0)

    products = Products(
        products.count + fold.count,
        fold.into("+", products.reach, reach),
        fold.into("+", products.lost, lost) if loses.any() else products.lost,
        fold.into("+", products.felt, felt) if loses.any() else products.felt,
    )
    return replace(reduction, products=products)


def finish(reduction: Reduction) -> Uncertain:
    found = _finished(reduction)
    if not reduction.products.count:
        return found
    error = _factored_error(reduction, found)
    return Uncertain(found.value, error) if error.any() else found


def _factored_error(reduction: Reduction, found: Uncertain) -> Array:
    """The error of a sum, given that of the sum as written: infinite where that is NaN or
    infinite, where a factored sum may overflow, and where the loss in underflow would be felt."""
    products, dtype = reduction.products, reduction.dtype
    gamma = (products.count + 1) * roundoff(dtype)
    fits = products.reach * (1 + SLACK) * (1 + gamma) <= uncertain.largest(dtype)
    is_unfelt = products.felt * (1 + SLACK) <= found.error
    known = np.isfinite(found.value) & fits & is_unfelt
    return np.where(known, found.error + products.lost * (1 + SLACK), np.inf)


def _finished(reduction: Reduction) -> Uncertain:
    total, grid = reduction.total, reduction.grid
    if not reduction.dtype.is_float:
        return Uncertain(total, _integer_error(reduction), grid)
    match reduction.op:
        case "min" | "max":
            error = reduction.error
        case _ if reduction.error is ZERO and grid is not None:
            return Uncertain(total, ZERO, grid)
        case "+":
            error = _sum_error(reduction)
        case _:
            error = _product_error(reduction)
    if reduction.specials.any():
        error = _special_error(reduction, error)
    is_on_grid = error is ZERO and bool(np.isfinite(total).all())
    return Uncertain(total, error, grid if is_on_grid else None)


def _grid(reduction: Reduction, term: Uncertain, count: int) -> DyadicGrid | None:
    """The grid of all partial results, where every order computes them without rounding."""
    if reduction.grid is None or term.grid is None or not term.is_exact:
        return None
    match reduction.op:
        case "&" | "|" | "^":
            return DyadicGrid(0, 2.0**reduction.dtype.bits)
        case "+":
            magnitude = reduction.grid.magnitude + count * term.grid.magnitude
            grid = DyadicGrid(min(reduction.grid.exponent, term.grid.exponent), magnitude)
        case "*":
            # partial products leave out any of the factors
            factor = max(term.grid.magnitude, 1.0)
            if count * math.log2(factor) > 1000:
                return None
            exponent = min(term.grid.exponent, 0)
            grid = DyadicGrid(
                reduction.grid.exponent + count * exponent,
                reduction.grid.magnitude * factor**count,
            )
        case _:
            is_first = reduction.count == 0
            return term.grid if is_first else uncertain.joined(reduction.grid, term.grid)
    return uncertain.exact_grid(grid, reduction.dtype)


def _with_specials(reduction: Reduction, term: Uncertain, fold: Fold) -> Reduction:
    """Notes the NaNs and infinities that every implementation meets."""
    if term.value.dtype.kind != "f" or np.isfinite(term.value).all():
        return reduction
    certain = term.error == 0
    bits = np.where(np.isnan(term.value) & certain, np.int8(_NAN), np.int8(0))
    bits |= np.where((term.value == np.inf) & certain, np.int8(_PLUS), np.int8(0))
    bits |= np.where((term.value == -np.inf) & certain, np.int8(_MINUS), np.int8(0))
    return replace(reduction, specials=fold.into("|", reduction.specials, bits))


def _sum_error(reduction: Reduction) -> Array:
    """Roundings of both orders; infinite where partial sums may overflow."""
    error = reduction.error * (1 + SLACK)
    gamma = max(reduction.count - 1, 0) * roundoff(reduction.dtype)
    magnitude = reduction.magnitude * (1 + SLACK)
    reach = (magnitude + error) * (1 + gamma)
    spread = error + gamma * (magnitude + error)
    return np.where(reach <= uncertain.largest(reduction.dtype), spread, np.inf)


def _product_error(reduction: Reduction) -> Array:
    """From the relative errors where no factor is 0; otherwise from the largest the product may
    be. Partial products that underflow lose up to a subnormal step, times what follows."""
    dtype = reduction.dtype
    roundings = reduction.count * roundoff(dtype)
    growth = np.expm1((reduction.relative + roundings) * (1 + SLACK))
    product = np.abs(widened(reduction.total))
    by_ratio = product * growth
    # where the product vanishes or underflows, all of what it may be is its error
    whole = reduction.magnitude * (1 + roundings) * (1 + SLACK)
    underflow = reduction.count * tiny(dtype) * reduction.greatest * (1 + SLACK)
    vanishes = product <= np.maximum(2 * underflow, dtype.format.smallest_normal)
    error = np.where(vanishes, product + whole, by_ratio) + underflow
    error = np.where(np.isnan(error), np.inf, error)
    return np.where(reduction.greatest * (1 + roundings) <= uncertain.largest(dtype), error, np.inf)


def _special_error(reduction: Reduction, error: Array) -> Array:
    """Where infinities or NaNs are among the terms: 0 if every order gives the same."""
    specials, total = reduction.specials, reduction.total
    nan = (specials & _NAN) != 0
    plus, minus = (specials & _PLUS) != 0, (specials & _MINUS) != 0
    match reduction.op:
        case "+":
            # finite partial sums never overflow, else the error would be infinite
            certain = (plus | minus) & (error < np.inf)
        case "*":
            # a 0 or an underflow among the factors may meet the infinity first, or not
            error = np.where(plus | minus, np.inf, error)
            certain = np.zeros((), np.bool_)
        case _:
            certain = np.isinf(total) & (error < np.inf)
    return np.where(nan | certain, 0.0, error)


def _integer_error(reduction: Reduction) -> Array:
    """Integers are exact unless a term is not, such as a condition that may flip."""
    if reduction.error is ZERO:
        return ZERO
    if reduction.op == "*" or (reduction.op in BITWISE and reduction.dtype.kind != "bool"):
        return np.where(reduction.error > 0, np.inf, 0.0)
    if reduction.dtype.kind == "bool":
        return np.where(reduction.error > 0, 1.0, 0.0)
    return uncertain.within_integers(
        reduction.total, reduction.error * (1 + SLACK), reduction.dtype
    )
