"""Several loops on one axis: each is a digit of the numbers of its blocks or threads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.geometry import LaunchText
from tests.support.bounds import assert_within
from tests.support.pipeline import evaluate_kernel
from tests.support.ptx.texts import run_text

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
LAYERS = """def layers(float(B,N) x, float(M,N) v, float(K,M) w) -> (y, z) {
  y(b,m) +=! x(b,n) * v(m,n)
  y(b,m) = fmaxf(y(b,m), 0)
  z(b,k) +=! y(b,m) * w(k,m)
}"""
ONE = ["S0.init", "S0"]
ALL = [*ONE, "S1", "S2.init", "S2"]


def action(**found: Any) -> dict[str, Any]:
    return found


def bind(loop: str, role: str, count: int | None = None, axis: str = "x") -> dict[str, Any]:
    found = {"bind": loop, "role": role, "axis": axis}
    return found if count is None else {**found, "count": count}


def options(statements: list[str], *actions: dict[str, Any]) -> tc.Options:
    parts = [{"statements": statements, "actions": actions}]
    plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
    return tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False, fusion="max"))


def random(**shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def emitted(text: str, inputs: dict[str, Any], wanted: tc.Options) -> LaunchText:
    found = tc.emit(text, inputs, backend="cuda", device=tc.Gpu(), options=wanted)
    assert isinstance(found, LaunchText)
    return found


def check(text: str, inputs: dict[str, Any], wanted: tc.Options) -> None:
    """Right by the machine of threads, which looks for races and bounds, and by machine code."""
    expected, bounds = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    results = evaluate_kernel(text, inputs, device=tc.Gpu(), options=wanted)
    _, found = run_text(emitted(text, inputs, wanted), inputs)
    several = expected if isinstance(expected, tuple) else (expected,)
    for name, value, bound in zip(
        results, several, bounds if isinstance(bounds, tuple) else (bounds,), strict=True
    ):
        assert_within(results[name], value, bound)
        assert_within(found[name].reshape(np.shape(value)), value, bound)


TILED = (
    action(tile="i", sizes=[12, 4]),
    action(tile="j", sizes=[8]),
    action(tile="k", sizes=[3]),
    action(reorder=["i div 12", "j div 8", "i mod 12 div 4", "i mod 4", "j mod 8"]),
)
GROUPS = [bind(loop, "block") for loop in ("i div 12", "j div 8", "i mod 12 div 4")]
SHARED = [
    action(promote=tensor, scope="shared", inside="k div 3", statements=["S0"]) for tensor in "AB"
]


def test_numbers_of_blocks_in_groups() -> None:
    """Three blocks along i have the same columns, before the next ones do."""
    actions = [*TILED, *GROUPS, bind("i mod 4", "thread"), bind("j mod 8", "thread")]
    lines = str(emitted(MM, random(A=(24, 6), B=(6, 32)), options(ONE, *actions))).splitlines()
    assert any("24 x 1 x 1 blocks of 32 x 1 x 1 threads" in line for line in lines)
    first = next(i for i, line in enumerate(lines) if "t0 =" in line)
    assert "\n".join(line.strip() for line in lines[first : first + 7]) == (
        "long long t0 = bx % 12;\n"
        "long long t1 = bx / 12;\n"
        "long long t2 = t0 % 3;\n"
        "long long t3 = t0 / 3;\n"
        "long long t4 = tx % 8;\n"
        "long long t5 = tx / 8;\n"
        "C[(t1 * 12 + t2 * 4 + t5) * 32 + t3 * 8 + t4] = 0.0f;"
    )


PLANS: dict[str, list[dict[str, Any]]] = {
    "threads": [*TILED, *GROUPS[:1], bind("i mod 4", "thread"), bind("j mod 8", "thread")],
    "blocks in groups, shared operands": [
        *TILED, *GROUPS, bind("i mod 4", "thread"), bind("j mod 8", "thread"),
        action(promote="C", scope="register", inside="j mod 8"), *SHARED,
    ],
    "turns in each digit": [
        *TILED, bind("i div 12", "block", 2), bind("j div 8", "block", 3),
        bind("i mod 4", "thread", 3), bind("j mod 8", "thread", 5), *SHARED,
    ],
    "a lane map: digits of both loops in a warp": [
        action(tile="i", sizes=[8, 2]), action(tile="j", sizes=[8, 4]),
        action(reorder=[
            "i div 8", "j div 8", "i mod 8 div 2", "j mod 8 div 4", "i mod 2", "j mod 4"
        ]),
        bind("i div 8", "block"), bind("j div 8", "block"),
        *(bind(loop, "thread") for loop in
          ("i mod 8 div 2", "j mod 8 div 4", "i mod 2", "j mod 4")),
        action(promote="C", scope="register", inside="j mod 4"),
        action(tile="k", sizes=[3]), *SHARED,
    ],
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(24, 6, 16), (37, 7, 19), (5, 3, 2), (1, 1, 1)])
@pytest.mark.parametrize("name", PLANS)
def test_products(name: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    check(MM, random(A=(m, k), B=(k, n)), options(ONE, *PLANS[name]))


@pytest.mark.parametrize("count", [None, 4])
@pytest.mark.parametrize("sizes", [(5, 9, 7, 20), (2, 3, 40, 2), (3, 1, 1, 1)])
def test_branches_that_have_different_digits(
    sizes: tuple[int, int, int, int], count: int | None
) -> None:
    """Rows are the first digit in all branches; the last has as many values as the longest branch
    needs, and threads of others wait at its barriers."""
    b, n, m, k = sizes
    wanted = options(
        ALL,
        action(tile="b", sizes=[2]),
        bind("b div 2", "block"),
        bind("b mod 2", "thread"),
        bind("S0.m", "thread", count),
        bind("S2.k", "thread"),
        action(promote="y", scope="shared", inside="b mod 2"),
    )
    check(LAYERS, random(x=(b, n), v=(m, n), w=(k, m)), wanted)
