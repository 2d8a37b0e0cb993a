"""How errors pass through built-in functions: the bounds hold, and are not needlessly wide (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.builtins import BUILTINS

Array = np.ndarray[Any, Any]
COUNT, MOVES = 600, 40
TINY = 1e-12


def samples(arity: int, seed: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Arguments and errors of many sizes, some of them zero."""
    rng = np.random.default_rng(seed)
    args, errors = [], []
    for _ in range(arity):
        x = np.concatenate((rng.uniform(-6, 6, COUNT // 2), rng.integers(-8, 8, COUNT // 2) / 2))
        size = 10.0 ** rng.uniform(-10, 0.5, COUNT)
        args.append(rng.permutation(x))
        errors.append(np.where(rng.uniform(size=COUNT) < 0.3, 0.0, size))
    return tuple(args), tuple(errors)


@pytest.mark.parametrize("name", BUILTINS)
def test_no_move_within_the_errors_exceeds_the_spread_r5(name: str) -> None:
    builtin = BUILTINS[name]
    args, errors = samples(builtin.arity, seed=len(name))
    spread = builtin.spread(args, errors)
    value = builtin.numpy(*args)
    assert spread.shape == value.shape
    assert not np.isnan(spread).any()
    assert np.isfinite(spread).sum() > COUNT // 20
    assert (spread >= 0).all()
    rng = np.random.default_rng(1)
    corner = (-1.0, 1.0, 0.0)
    for move in range(MOVES):
        steps = [rng.choice(corner, COUNT) if move % 2 else rng.uniform(-1, 1, COUNT) for _ in args]
        moved = tuple(a + e * s for a, e, s in zip(args, errors, steps, strict=True))
        found = builtin.numpy(*moved)
        same = (found == value) | (np.isnan(found) & np.isnan(value))
        with np.errstate(all="ignore"):
            distance = np.where(same, 0.0, np.abs(found - value))
            # what evaluating the function, and moving the argument, round themselves
            rounding = TINY * (1 + np.abs(found) + np.abs(value) + sum(map(np.abs, args)))
        limit = np.where(spread > 0, spread + rounding, np.where(sum(errors) == 0, 0.0, rounding))
        bad = ~(same | (distance <= limit) | np.isinf(spread))
        at = int(np.argmax(bad))
        assert not bad.any(), ([a[at] for a in args], [e[at] for e in errors], found[at], value[at])


SMOOTH = sorted(set(BUILTINS) - {
    "ceil", "floor", "trunc", "round", "logb", "fmod", "remainder", "nextafter", "copysign",
})  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_small_errors_have_small_spreads_r5(name: str) -> None:
    """Inside of the domain the spread of a small error is a small multiple of it."""
    builtin = BUILTINS[name]
    rng = np.random.default_rng(2)
    low = 1.1 if name == "acosh" else 0.1
    args = tuple(rng.uniform(low, low + 0.8, COUNT) for _ in range(builtin.arity))
    errors = tuple(np.full(COUNT, 1e-7) for _ in args)
    spread = builtin.spread(args, errors)
    assert (spread >= 1e-10).all() or name in ("fdim", "fmax", "fmin")
    assert (spread <= 1e-3).all()


POLES: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("log", (0.5,), (0.6,)),
    ("sqrt", (0.5,), (0.6,)),
    ("rsqrt", (0.0,), (1e-9,)),
    ("rcbrt", (1e-3,), (1e-2,)),
    ("fdivide", (1.0, 1e-3), (0.0, 1e-2)),
    ("tan", (1.57,), (0.01,)),
    ("tan", (1e9,), (1e-3,)),
    ("tgamma", (0.5,), (0.6,)),
    ("tgamma", (-1.5,), (0.1,)),
    ("lgamma", (-1.5,), (0.1,)),
    ("y0", (0.5,), (0.5,)),
    ("y1", (0.5,), (0.6,)),
    ("pow", (0.1, 0.5), (0.2, 0.0)),
    ("pow", (0.1, -1.0), (0.2, 0.0)),
    ("pow", (-2.0, 3.0), (0.1, 0.1)),
    ("acos", (0.9,), (0.2,)),
    ("atanh", (0.9,), (0.2,)),
    ("rhypot", (0.1, 0.1), (0.2, 0.2)),
]


@pytest.mark.parametrize(("name", "args", "errors"), POLES)
def test_no_bound_across_a_pole_or_an_edge_r5(
    name: str, args: tuple[float, ...], errors: tuple[float, ...]
) -> None:
    arrays = tuple(np.array([a]) for a in args)
    assert np.isinf(BUILTINS[name].spread(arrays, tuple(np.array([e]) for e in errors))).all()
    exact = tuple(np.zeros(1) for _ in args)
    assert (BUILTINS[name].spread(arrays, exact) == 0).all()


def test_a_branch_cut_is_a_full_turn_r5() -> None:
    spread = BUILTINS["atan2"].spread((np.array([1e-9]), np.array([-1.0])), (np.array([1e-6]),) * 2)
    assert spread[0] == pytest.approx(2 * np.pi)
