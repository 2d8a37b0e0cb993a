"""The benchmark MG of NAS: a Poisson equation on a periodic cube, by a multigrid method.

The operators are functions of SaC, the cycle is Python. After four cycles, the norm of the residual
is what the benchmark publishes. `python multigrid.py` solves the classes S and W, `python
multigrid.py A` another one.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)
CYCLES = 4
FLOPS_OF_A_POINT = 58
"""Operations of a cycle for each point of the finest grid, as the benchmark counts them."""


class Class(NamedTuple):
    """A size of the benchmark, and the norm after four cycles that it publishes."""

    size: int
    norm: float


CLASSES = {
    "S": Class(32, 0.5307707005734e-04),
    "W": Class(128, 0.6467329375339e-05),
    "A": Class(256, 0.2433365309069e-05),
}


# --- the right side -------------------------------------------------------------------------------


def random_numbers(count: int, seed: int = 314159265, factor: int = 5**13) -> Any:
    """The numbers of the benchmark: x = factor * x modulo 2**46, divided by 2**46."""
    mask = np.uint64(2**46 - 1)
    found = np.array([seed * factor % 2**46], np.uint64)
    while len(found) < count:  # the next ones are those before, times a power of the factor
        power = np.uint64(pow(factor, len(found), 2**46))
        found = np.concatenate([found, (found * power) & mask])
    return found[:count] / 2.0**46


def right_side(size: int) -> Any:
    """-1 at the places of the ten least random numbers, 1 at those of the ten greatest, else 0."""
    order = np.argsort(random_numbers(size**3))
    v = np.zeros(size**3)
    v[order[:10]], v[order[-10:]] = -1, 1
    return v.reshape(size, size, size)


# --- operators by numpy ---------------------------------------------------------------------------

NUMPY_WEIGHTS = {
    "residual": (-8 / 3, 0, 1 / 6, 1 / 12),
    "smooth": (-3 / 8, 1 / 32, -1 / 64, 0),
    "coarser": (1 / 2, 1 / 4, 1 / 8, 1 / 16),
}


def with_roll(x: Any, weights: tuple[float, ...]) -> Any:
    """The sum of all neighbours, those of each distance times their weight."""
    axes = tuple(range(x.ndim))
    total = np.zeros_like(x)
    for shift in itertools.product((-1, 0, 1), repeat=x.ndim):
        if weight := weights[sum(map(abs, shift))]:
            total += weight * np.roll(x, shift, axes)
    return total


class ByNumpy:
    """The operators as one writes them with `np.roll`."""

    def residual(self, v: Any, u: Any) -> Any:
        return v - with_roll(u, NUMPY_WEIGHTS["residual"])

    def smooth(self, u: Any, r: Any) -> Any:
        return u + with_roll(r, NUMPY_WEIGHTS["smooth"])

    def coarser(self, r: Any) -> Any:
        return with_roll(r, NUMPY_WEIGHTS["coarser"])[(slice(1, None, 2),) * r.ndim].copy()

    def corrected(self, u: Any, z: Any) -> Any:
        fine = np.zeros_like(u)
        fine[(slice(1, None, 2),) * z.ndim] = z
        return u + with_roll(fine, tuple(0.5**k for k in range(4)))


# --- the method -----------------------------------------------------------------------------------


def cycle(operators: Any, v: Any, u: Any, r: Any) -> Any:
    """A better solution than `u`, of which `r` is the residual; coarser grids correct it."""
    residuals = [r]
    while len(residuals[-1]) > 2:
        residuals.append(operators.coarser(residuals[-1]))
    r = residuals.pop()
    z = operators.smooth(np.zeros_like(r), r)
    while residuals:
        r = residuals.pop()
        is_finest = not residuals
        z = operators.corrected(u if is_finest else np.zeros_like(r), z)
        z = operators.smooth(z, operators.residual(v if is_finest else r, z))
    return z


def solve(operators: Any, v: Any, cycles: int = CYCLES) -> float:
    """The norm of the residual after some cycles from zero."""
    u = np.zeros_like(v)
    r = operators.residual(v, u)
    for _ in range(cycles):
        u = cycle(operators, v, u, r)
        r = operators.residual(v, u)
    return float(np.sqrt(np.mean(r * r)))


def verify(name: str) -> None:
    """Solves a class, and raises SystemExit where the norm is not what the benchmark publishes."""
    size, due = CLASSES[name]
    v, operators = right_side(size), tc.sac.define(TEXT)
    solve(operators, v, 1)  # compiles
    begin = time.perf_counter()
    norm = solve(operators, v)
    seconds = time.perf_counter() - begin
    if not abs(norm - due) <= 1e-8 * due:
        raise SystemExit(f"multigrid, class {name}: the norm is {norm!r}, {due!r} is due")
    rate = FLOPS_OF_A_POINT * size**3 * CYCLES / seconds / 1e9
    print(f"multigrid, class {name}: norm {norm:.13e}, {seconds:.3g} s, {rate:.3g} Gflop/s")


def small() -> None:
    rng, by_numpy = np.random.default_rng(0), ByNumpy()
    cubes = [tuple(rng.random((2, *shape))) for shape in ((4, 4, 4), (6, 8, 2), (4, 6))]
    check(TEXT, "residual", cubes, by_numpy.residual)
    check(TEXT, "smooth", cubes, by_numpy.smooth)
    check(TEXT, "coarser", [cube[:1] for cube in cubes], by_numpy.coarser)
    halves = [(fine, fine[(slice(1, None, 2),) * fine.ndim].copy()) for fine, _ in cubes]
    check(TEXT, "corrected", halves, by_numpy.corrected)
    verify("S")


def large() -> None:
    verify("W")
    v, operators = right_side(CLASSES["W"].size), tc.sac.define(TEXT)
    own, numpy = (lambda: solve(operators, v)), (lambda: solve(ByNumpy(), v))
    compare_times("multigrid, class W", own, {"numpy": numpy})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        verify(sys.argv[1])
    else:
        small()
        large()
