"""Special functions to some forty digits, by their series in `decimal`: slow, short, and sharing
nothing with what they test."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

DIGITS = 60
GAMMA = Decimal("0.577215664901532860606512090082402431042159335939923598805767234884867726777665")
"""Euler's constant."""


@contextmanager
def digits(count: int) -> Iterator[None]:
    with localcontext() as context:
        context.prec = count
        context.Emax, context.Emin = 10**9, -(10**9)
        yield


@functools.cache
def pi(precision: int) -> Decimal:
    """By Machin's formula."""
    with digits(precision + 5):
        return 4 * (4 * _arctan_of_inverse(5) - _arctan_of_inverse(239))


def _arctan_of_inverse(n: int) -> Decimal:
    power, total, k = Decimal(1) / n, Decimal(0), 0
    while abs(power) > Decimal(10) ** -(getcontext().prec + 2):
        total += power / (2 * k + 1)
        power, k = -power / (n * n), k + 1
    return total


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """The sum of terms from their first and the ratio of term k to term k - 1."""
    term, total, k = first, first, 0
    while term != 0 and (abs(term) > abs(total) * Decimal(10) ** -getcontext().prec or k < 5):
        k += 1
        term *= ratio(k)
        total += term
        if k > 20000:
            raise ArithmeticError("no convergence")
    return total


def _erf(x: Decimal) -> Decimal:
    root = pi(getcontext().prec).sqrt()
    return 2 / root * x * _series(Decimal(1), lambda k: -x * x * (2 * k - 1) / (k * (2 * k + 1)))


def _with_room(x: Decimal) -> int:
    """Digits that the alternating series of erf needs at x for erfc to keep DIGITS."""
    return DIGITS + int(x * x) + 20


def erf(x: Decimal) -> Decimal:
    with digits(_with_room(x)):
        return _erf(x)


def erfc(x: Decimal) -> Decimal:
    with digits(_with_room(x)):
        return 1 - _erf(x)


def erfcx(x: Decimal) -> Decimal:
    with digits(_with_room(x)):
        return (x * x).exp() * (1 - _erf(x))


def normcdf(x: Decimal) -> Decimal:
    with digits(_with_room(x)):
        return (1 - _erf(-x / Decimal(2).sqrt())) / 2


@functools.cache
def _bernoulli(n: int) -> tuple[int, int]:
    """B(2n) as a fraction, by Akiyama and Tanigawa."""
    row = [Fraction(0)] * (2 * n + 1)
    for m in range(2 * n + 1):
        row[m] = Fraction(1, m + 1)
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
    return row[0].numerator, row[0].denominator


def _stirling(x: Decimal) -> Decimal:
    total = (x - Decimal("0.5")) * x.ln() - x + (2 * pi(getcontext().prec)).ln() / 2
    for n in range(1, 30):
        numerator, denominator = _bernoulli(n)
        total += Decimal(numerator) / denominator / (2 * n * (2 * n - 1) * x ** (2 * n - 1))
    return total


def tgamma(x: Decimal) -> Decimal:
    with digits(DIGITS + 20):
        factor, shifted = Decimal(1), x
        while shifted < 60:
            factor *= shifted
            shifted += 1
        return _stirling(shifted).exp() / factor


def lgamma(x: Decimal) -> Decimal:
    with digits(DIGITS + 20):
        if x > 60:
            return _stirling(x)
        return abs(tgamma(x)).ln()


def _bessel(x: Decimal, order: int, sign: int) -> Decimal:
    quarter = x * x / 4
    return (x / 2) ** order * _series(Decimal(1), lambda k: sign * quarter / (k * (k + order)))


def j0(x: Decimal) -> Decimal:
    with digits(DIGITS + 2 * abs(int(x))):
        return _bessel(x, 0, -1)


def j1(x: Decimal) -> Decimal:
    with digits(DIGITS + 2 * abs(int(x))):
        return _bessel(x, 1, -1) if x else Decimal(0)


def i0(x: Decimal) -> Decimal:
    with digits(DIGITS):
        return _bessel(x, 0, 1)


def i1(x: Decimal) -> Decimal:
    with digits(DIGITS):
        return _bessel(x, 1, 1) if x else Decimal(0)


def y0(x: Decimal) -> Decimal:
    """DLMF 10.8.2; as precise as the constant of Euler, for x up to 40 or so."""
    with digits(DIGITS + 20):
        quarter, term, total, harmonic = x * x / 4, Decimal(1), Decimal(0), Decimal(0)
        for k in range(1, 400):
            term *= -quarter / (k * k)
            harmonic += Decimal(1) / k
            total -= harmonic * term
        return 2 / pi(DIGITS + 20) * (((x / 2).ln() + GAMMA) * _bessel(x, 0, -1) + total)


def y1(x: Decimal) -> Decimal:
    """From y0 by the Wronskian J1 Y0 - J0 Y1 = 2 / (pi x), where J0 is not small."""
    with digits(DIGITS + 20):
        return (j1(x) * y0(x) - 2 / (pi(DIGITS + 20) * x)) / j0(x)


def _half_turns(x: Decimal) -> tuple[int, Decimal]:
    """x as a multiple of one half, modulo 4 of them, and a rest, times pi."""
    halves = int((2 * x).to_integral_value())
    return halves % 4, pi(DIGITS + 20) * (x - Decimal(halves) / 2)


def _sine(x: Decimal) -> Decimal:
    return x * _series(Decimal(1), lambda k: -x * x / (2 * k * (2 * k + 1)))


def _cosine(x: Decimal) -> Decimal:
    return _series(Decimal(1), lambda k: -x * x / (2 * k * (2 * k - 1)))


def sinpi(x: Decimal) -> Decimal:
    with digits(DIGITS + 20):
        quarter, angle = _half_turns(x)
        return (1, 1, -1, -1)[quarter] * (_cosine if quarter % 2 else _sine)(angle)


def cospi(x: Decimal) -> Decimal:
    with digits(DIGITS + 20):
        quarter, angle = _half_turns(x)
        return (1, -1, -1, 1)[quarter] * (_sine if quarter % 2 else _cosine)(angle)


def in_ulps(found: float, exact: Decimal, dtype: type[np.floating[Any]]) -> float:
    """The error of a number in units in the last place of its type at the exact value."""
    if not math.isfinite(found):
        return math.inf
    with digits(DIGITS):
        size = max(float(abs(exact)), float(np.finfo(dtype).tiny))
        return float(abs(Decimal(float(found)) - exact) / Decimal(float(np.spacing(dtype(size)))))
