"""Polynomials over dynamic sizes: their values, floors and remainders, and that bounds hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tc.extents.polynomials import Polynomial, constant, of_dimension, quotient, remainder

RANGES = {"N": (2, 60, 1), "M": (4, 64, 4)}
SIZES = st.fixed_dictionaries(
    {
        name: st.integers(low // by, high // by).map(by.__mul__)
        for name, (low, high, by) in RANGES.items()
    }
)


def names() -> st.SearchStrategy[Polynomial]:
    return st.sampled_from(
        [of_dimension(n, (low, high), by) for n, (low, high, by) in RANGES.items()]
    )


def grown(inner: st.SearchStrategy[Polynomial]) -> st.SearchStrategy[Polynomial]:
    divisors = st.integers(-9, 9).filter(bool).map(constant)
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(quotient, inner, divisors),
        st.builds(remainder, inner, divisors),
        st.builds(quotient, inner, names()),
        st.builds(remainder, inner, names()),
    )


POLYNOMIALS = st.recursive(
    st.one_of(names(), st.integers(-40, 40).map(constant)), grown, max_leaves=6
)


@given(POLYNOMIALS, POLYNOMIALS, SIZES)
def test_arithmetic(a: Polynomial, b: Polynomial, sizes: dict[str, int]) -> None:
    x, y = a.value(sizes), b.value(sizes)
    assert ((a + b).value(sizes), (a - b).value(sizes), (a * b).value(sizes)) == (
        x + y,
        x - y,
        x * y,
    )
    if y:
        assert (quotient(a, b).value(sizes), remainder(a, b).value(sizes)) == divmod(x, y)


@given(POLYNOMIALS, SIZES)
def test_bounds_hold(a: Polynomial, sizes: dict[str, int]) -> None:
    low, high = a.bounds()
    assert low <= a.value(sizes) <= high


@given(st.integers(1, 64), st.integers(-64, 64))
def test_ceilings_have_one_form(by: int, shift: int) -> None:
    """-(-(N + k) / d) is (N + k + d - 1) / d, so that the two cancel."""
    n = of_dimension("N", (2, 4096)).shifted(shift)
    ceiling = quotient(n.times(-1), constant(by)).times(-1)
    assert ceiling == quotient(n.shifted(by - 1), constant(by))


@given(st.integers(1, 64))
def test_tiles_without_the_last_one(by: int) -> None:
    """What whole tiles have in all is at most N, and above N - d: terms cancel in the bounds."""
    n = of_dimension("N", (2, 4096))
    whole = quotient(n, constant(by)).times(by)
    assert (whole - n).bounds() == (1 - by, 0)
    tiles = quotient(n.shifted(by - 1), constant(by))
    assert (tiles - quotient(n, constant(by))).bounds() == (0, 0 if by == 1 else 1)


def test_texts() -> None:
    n, m = (of_dimension(name, (2, 4096)) for name in "NM")
    tiles = quotient(n.shifted(15), constant(16))
    assert str(n * m - tiles.times(3).shifted(1)) == "M*N - 3*((N + 15) / 16) - 1"
    assert str(quotient(n * m, m.shifted(1))) == "(M*N / (M + 1))"
    assert sorted((n * m - tiles).names()) == ["M", "N"]
