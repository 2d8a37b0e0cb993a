"""How far errors of arguments move the value of a built-in function, soundly (rule R5).

A rule takes the function, its arguments and bounds on the errors of these (float64 arrays of one
shape, the bounds at least 0), and gives a bound on |f(x + d) - f(x)| over all |d| <= errors. It is
infinite where no bound is known: across a pole, a branch cut or the edge of the domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tc.builtins.formulas import special
from tc.dtypes import Array

Args: TypeAlias = tuple[Array, ...]
Spread: TypeAlias = Callable[[Callable[..., Array], Args, Args], Array]

_ROUNDING = 16 * 2.0**-53  # of evaluating f itself at the corners
_MINIMUM = 1.4616321449  # of gamma and its logarithm


def lipschitz(*constants: float) -> Spread:
    """For |df/dx_k| <= constants[k] everywhere; one constant serves all arguments."""

    def rule(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
        factors = constants if len(constants) == len(args) else constants * len(args)
        return sum((c * e for c, e in zip(factors, errors, strict=True)), np.zeros(()))

    return rule


def corners(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """For functions that are monotone in each argument between `args - errors` and
    `args + errors`: the extremes are at the corners of that box."""
    return _within(f, args, [(a - e, a + e) for a, e in zip(args, errors, strict=True)], errors)


def even(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """For functions that are monotone in the magnitude of each argument."""
    ranges = [
        (np.maximum(np.abs(a) - e, 0.0), np.abs(a) + e) for a, e in zip(args, errors, strict=True)
    ]
    return _within(f, args, ranges, errors)


def pole_at_zero(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """Monotone on either side of a pole where the last argument is 0."""
    return np.where(np.abs(args[-1]) > errors[-1], corners(f, args, errors), _unknown(errors))


def tangent(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    low, high = ((args[0] + s * errors[0]) / np.pi + 0.5 for s in (-1, 1))
    # the quotients are off by few units, which a margin covers while they are small
    margin = 1e-6
    is_one_branch = (np.floor(low - margin) == np.floor(high + margin)) & (np.abs(args[0]) < 1e8)
    return np.where(is_one_branch, corners(f, args, errors), _unknown(errors))


def angle(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """atan2: the angle that the box of errors, as a disk, covers from the origin."""
    (y, x), (y_error, x_error) = args, errors
    reach, distance = np.hypot(y_error, x_error), np.hypot(y, x)
    covered = np.arcsin(np.minimum(reach / distance, 1.0)) * (1 + 1e-15)
    is_cut = (np.abs(y) <= y_error) & (x - x_error <= 0)
    return np.where((reach >= distance) | is_cut, np.where(reach == 0, 0.0, 2 * np.pi), covered)


def power(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y), (x_error, y_error) = args, errors
    at_corners = corners(f, args, errors)
    is_whole = (np.floor(y) == y) & (y_error == 0)
    through_zero = np.maximum(at_corners, np.abs(f(x, y) - f(np.zeros_like(x), y)))
    return np.select(
        (x > x_error, is_whole & (np.abs(x) > x_error), is_whole & (y >= 0)),
        (at_corners, at_corners, through_zero),
        _unknown(errors),
    )


def multiply_add(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y, _), (x_error, y_error, z_error) = args, errors
    return np.asarray(np.abs(x) * y_error + np.abs(y) * x_error + x_error * y_error + z_error)


def modulo(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """fmod and remainder: they jump by |y| where the quotient changes."""
    (_, y), (x_error, y_error) = args, errors
    moved = x_error + y_error > 0
    farthest = np.where(np.abs(y) > y_error, 2 * (np.abs(y) + y_error), np.inf)
    return np.where(moved, np.maximum(x_error, farthest), 0.0)


def sign_of_second(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y), (x_error, y_error) = args, errors
    flips = (np.abs(y) <= y_error) & (y_error > 0)
    return np.where(flips, 2 * np.abs(x) + x_error, x_error)


def bessel_y(order: int) -> Spread:
    """y0 and y1: |y0'| = |y1| and |y1'| <= |y0| + |y1| / x, each below its falling envelope."""

    def rule(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
        low = args[0] - errors[0]
        start = np.where(low > 0, low, 1.0)
        module: Any = special()
        first = np.hypot(module.j1(start), module.y1(start))
        slope = (
            first if order == 0 else np.hypot(module.j0(start), module.y0(start)) + first / start
        )
        return np.where(low > 0, slope * errors[0] * (1 + 1e-12), _unknown(errors))

    return rule


def step(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """nextafter: one step to either side."""
    (x, _), (x_error, _) = args, errors
    moved = sum(errors, np.zeros(())) > 0
    return np.where(moved, x_error + 2 * np.abs(f(x, np.full_like(x, np.inf)) - x), 0.0)


def _within(
    f: Callable[..., Array], args: Args, ranges: list[tuple[Array, Array]], errors: Args
) -> Array:
    value = f(*args)
    widest = np.zeros(np.shape(value))
    points = list(itertools.product(*ranges))
    if len(ranges) == 1:  # a box may hold a whole domain; each bounded one of the table holds 0.5
        points.append((np.clip(0.5, *ranges[0]),))
    for point in points:
        at_corner = f(*point)
        same = (at_corner == value) | (np.isnan(at_corner) & np.isnan(value))
        moved = np.abs(at_corner - value) + _ROUNDING * np.maximum(np.abs(at_corner), np.abs(value))
        moved = np.where(same, 0.0, np.where(np.isnan(moved), np.inf, moved))
        widest = np.maximum(widest, moved)
    return np.where(_unknown(errors) == 0, 0.0, widest)


def _convex(least: float) -> Spread:
    """On the positive axis, where gamma and its logarithm are convex with one minimum."""

    def rule(f: Callable[..., Array], args: Args, errors: Args) -> Array:
        x, error = args[0], errors[0]
        ends = corners(f, args, errors)
        dips = (x - error < _MINIMUM) & (x + error > _MINIMUM)
        found = np.where(dips, np.maximum(ends, np.abs(f(x) - least) + 1e-9), ends)
        return np.where(x > error, found, _unknown(errors))

    return rule


gamma, log_gamma = _convex(0.8856031944), _convex(-0.1214862906)


def _unknown(errors: Args) -> Array:
    """No bound, but where the arguments are exact."""
    return np.where(sum(errors, np.zeros(())) > 0, np.inf, 0.0)
