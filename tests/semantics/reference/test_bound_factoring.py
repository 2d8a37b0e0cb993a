"""The bound of sums of products (R5), whatever is factored, beside all ways to contract them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tc.semantics.factors import redistributed
from tests.support.bounds import assert_within
from tests.support.interpreting import bound, run, shaped_with

CHAIN = (
    "def f(float(I,K) a, float(K,L) b, float(L,J) c) -> (o) { o(i,j) +=! a(i,k) * b(k,l) * c(l,j) }"
)
INF = float("inf")

Operand = tuple[str, Any]


def contractions(operands: tuple[Operand, ...], kept: str) -> Iterator[Any]:
    """The sum of products, computed two factors at a time in every order, each product summed as
    soon as nothing else needs a variable."""
    if len(operands) == 1:
        names, array = summed(operands[0], kept)
        array = array.transpose([names.index(v) for v in kept if v in names])
        yield array[tuple(slice(None) if v in names else None for v in kept)]
        return
    for first, second in combinations(range(len(operands)), 2):
        rest = tuple(o for n, o in enumerate(operands) if n not in (first, second))
        needed = set(kept).union(*(names for names, _ in rest))
        for one, two in ((first, second), (second, first)):
            product = times(operands[one], operands[two])
            yield from contractions((summed(product, needed), *rest), kept)


def times(first: Operand, second: Operand) -> Operand:
    names = "".join(dict.fromkeys(first[0] + second[0]))

    def spread(operand: Operand) -> Any:
        own, array = operand
        order = [own.index(v) for v in names if v in own]
        return array.transpose(order)[tuple(slice(None) if v in own else None for v in names)]

    return names, spread(first) * spread(second)


def summed(operand: Operand, needed: Any) -> Operand:
    names, array = operand
    for v in names:
        if v not in needed:
            axis = names.index(v)
            total = np.zeros((), array.dtype)
            for part in range(array.shape[axis]):
                total = total + array.take(part, axis)
            names, array = names.replace(v, ""), total
    return names, array


def assert_every_way_is_within(
    text: str, kept: str, operands: tuple[Operand, ...], arrays: dict[str, Any]
) -> None:
    """Fails unless each way to contract stays within the bound of the interpreter's result."""
    (statement,) = shaped_with(text, arrays)[0].statements
    assume(redistributed(statement))
    want, limit = run(text, **arrays), bound(text, **arrays)
    event("all open" if np.isinf(limit).all() else "bounded")
    with np.errstate(all="ignore"):
        alone = tuple(
            summed(o, set(kept).union(*(p[0] for m, p in enumerate(operands) if m != n)))
            for n, o in enumerate(operands)
        )
        for found in (*contractions(operands, kept), *contractions(alone, kept)):
            assert_within(np.broadcast_to(found, want.shape), want, limit)


def decades(exponent: float, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return ((1 + rng.random(shape)) * 10.0**exponent).astype("f4")


# --- where the bound is infinite --------------------------------------------------------------

OPEN: dict[str, tuple[tuple[float, float, float], bool]] = {
    "moderate": ((0, 0, 0), False),
    "two large": ((-30, 20, 20), True),
    "two large, apart": ((20, -30, 20), True),
    "a large result": ((10, 10, 10), False),
    "two small": ((-30, 30, -30), True),
    "a small result": ((-10, -10, -10), False),
    "the first two": ((25, 25, -30), True),
    "small terms that count on nothing": ((-1, -20, 3), False),
}


@pytest.mark.parametrize("name", OPEN)
def test_rule_R5_a_product_of_some_factors(name: str) -> None:
    exponents, is_open = OPEN[name]
    a, b, c = (decades(e, *s) for e, s in zip(exponents, ((2, 5), (5, 4), (4, 3)), strict=True))
    limit = bound(CHAIN, a=a, b=b, c=c)
    assert np.isinf(limit).all() == np.isinf(limit).any() == is_open
    if not is_open:
        want = np.einsum("ik,kl,lj->ij", *(x.astype("f8") for x in (a, b, c)))
        assert (limit <= 20 * 2e-7 * want * 4).all()


def test_rule_R5_a_sum_that_overflows_though_the_terms_do_not() -> None:
    text = "def f(float s, float(K) a) -> (o) { o +=! s * a(k) }"
    a = np.full(20, 3e37, "f4")
    assert run(text, s=0.01, a=a) == pytest.approx(6e36)
    assert bound(text, s=0.01, a=a) == INF
    assert bound(text, s=0.01, a=a[:5]) < 1e31
    mean = "def f(float(K) a) -> (o) { o +=! a(k) / K }"
    assert bound(mean, a=a) == INF
    assert bound(mean, a=a[:5]) < 1e33


@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
def test_rule_R5_a_sum_that_is_not_finite_as_written(value: float) -> None:
    a, b, c = (decades(0, *s) for s in ((2, 5), (5, 4), (4, 3)))
    a[1, 2] = value
    assert np.isinf(bound(CHAIN, a=a, b=b, c=c)).tolist() == [[False] * 3, [True] * 3]
    product = "def f(float(I,K) a, float(K,L) b) -> (o) { o(i,l) +=! a(i,k) * b(k,l) }"
    limit = bound(product, a=a, b=b)  # computed as written: certain
    assert (limit[1] == 0).all()


def test_rule_R5_zeros_lose_nothing() -> None:
    a, b, c = (decades(e, *s) for e, s in ((-30, (2, 5)), (-20, (5, 4)), (10, (4, 3))))
    a[:], b[0] = 0, 1
    assert (bound(CHAIN, a=a, b=b, c=c) < 1e-20).all()


def test_rule_R5_a_loss_below_the_roundings_is_part_of_the_bound() -> None:
    """One term has products that underflow, and is too small to be seen beside the other terms."""
    a, b, c = (decades(0, *s) for s in ((2, 5), (5, 4), (4, 3)))
    a[0, 0], b[0] = 1e-30, 1e-12
    c[:] *= 1e5
    limit = bound(CHAIN, a=a, b=b, c=c)
    assert (limit < 1e-6 * run(CHAIN, a=a, b=b, c=c) * 20).all()


def test_whole_numbers_stay_exact() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-5, 6, s).astype("f4") for s in ((2, 5), (5, 4), (4, 3)))
    assert (bound(CHAIN, a=a, b=b, c=c) == 0).all()


# --- any way to contract is within the bound ----------------------------------------------------

SPECIAL = (0.0, 1.0, -1.0, INF, -INF, float("nan"), 1e-44, 3e38)


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, str, tuple[Operand, ...], dict[str, Any]]:
    names = "ijkl"[: draw(st.integers(2, 4))]
    extents = {v: draw(st.integers(1, 3)) for v in names}
    kept = names[: draw(st.integers(0, min(2, len(names) - 1)))]
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    operands, missing = [], set(names)
    count = draw(st.integers(2, 4))
    for position in range(count):
        last = position == count - 1
        own = "".join(v for v in names if draw(st.booleans()) or (last and v in missing))
        missing -= set(own)
        shape = [extents[v] for v in own]
        kind = draw(st.integers(0, 9))
        if kind < 6:
            array = rng.normal(size=shape) * 10.0 ** draw(st.integers(-38, 38))
        elif kind < 8:
            array = rng.integers(-9, 10, shape)
        else:
            array = 10.0 ** rng.uniform(-44, 38, shape) * rng.choice((-1, 1), shape)
        array = np.asarray(array).astype("f4")
        if draw(st.integers(0, 5)) == 0:
            array.ravel()[:1] = draw(st.sampled_from(SPECIAL))
        operands.append((own, array))
    params = ", ".join(
        f"float({','.join(v.upper() for v in own)}) a{n}" if own else f"float a{n}"
        for n, (own, _) in enumerate(operands)
    )
    terms = " * ".join(
        f"a{n}({','.join(o)})" if o else f"a{n}" for n, (o, _) in enumerate(operands)
    )
    target = f"o({','.join(kept)})" if kept else "o"
    text = f"def f({params}) -> (o) {{ {target} +=! {terms} }}"
    return text, kept, tuple(operands), {f"a{n}": a for n, (_, a) in enumerate(operands)}


@given(chains())
def test_rule_R5_generated_chains(case: Any) -> None:
    assert_every_way_is_within(*case)
