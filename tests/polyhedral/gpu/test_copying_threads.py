"""Copies to shared memory by the threads of a block, along their x, y and z or by their numbers."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc.backends.geometry import LaunchText
from tc.dtypes import FLOAT32
from tc.polyhedral.codegen.copying_threads import copied_along, thread_digits
from tc.polyhedral.schedule import Axis
from tests.support.bounds import assert_within
from tests.support.pipeline import evaluate_kernel
from tests.support.ptx.texts import run_text

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
BATCH = """def batch(float(P,Q,R) a) -> (o) {
  o(r,q,p) = 2 * a(p,q,r)
}"""


def plan_of(statements: list[str], *actions: dict[str, Any]) -> tc.Options:
    parts = [{"statements": statements, "actions": actions}]
    plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
    return tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False))


def bind(loop: str, role: str, axis: str) -> dict[str, Any]:
    return {"bind": loop, "role": role, "axis": axis}


def shared(tensor: str, inside: str, **more: Any) -> dict[str, Any]:
    return {"promote": tensor, "scope": "shared", "inside": inside, "statements": ["S0"], **more}


def product(rows: int, columns: int, steps: int, each: int = 1, **copies: Any) -> tc.Options:
    """Blocks of rows x columns threads, with `each` rows a thread; operands in steps along k."""
    own = f"m mod {each * rows} div {rows}"
    return plan_of(
        ["S0.init", "S0"],
        {"tile": "m", "sizes": [each * rows, rows]},
        {"tile": "n", "sizes": [columns]},
        {"tile": "k", "sizes": [steps]},
        {
            "reorder": [
                f"m div {each * rows}",
                f"n div {columns}",
                f"m mod {rows}",
                f"n mod {columns}",
                own,
            ]
        },
        bind(f"m div {each * rows}", "block", "y"),
        bind(f"n div {columns}", "block", "x"),
        bind(f"m mod {rows}", "thread", "y"),
        bind(f"n mod {columns}", "thread", "x"),
        {"sink": [own]},
        {"promote": "C", "scope": "register", "inside": f"n mod {columns}"},
        shared("A", f"k div {steps}", **copies),
        shared("B", f"k div {steps}"),
    )


def emitted(text: str, inputs: dict[str, Any], options: tc.Options) -> LaunchText:
    found = tc.emit(text, inputs, backend="cuda", device=tc.Gpu(), options=options)
    assert isinstance(found, LaunchText)
    return found


def random(**shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def test_no_thread_is_idle_where_rows_are_short() -> None:
    """Of 16 x 16 threads, 8 copy a row of 8 elements while the others copy other rows."""
    inputs = random(A=(256, 64), B=(64, 64))
    lines = str(emitted(TMM, inputs, product(16, 16, 8, 8, unroll=True))).splitlines()
    first = next(i for i, line in enumerate(lines) if "for (long long k0" in line)
    assert "\n".join(line.strip() for line in lines[first + 1 : first + 8]) == (
        "long long t0 = tx % 8;\n"
        "long long t1 = tx / 8;\n"
        "long long t2 = ty * 2 + t1;\n"
        "float A_1 = A[(by * 128 + t2) * 64 + k0 * 8 + t0];\n"
        "float A_2 = A[(by * 128 + t2 + 32) * 64 + k0 * 8 + t0];\n"
        "float A_3 = A[(by * 128 + t2 + 64) * 64 + k0 * 8 + t0];\n"
        "float A_4 = A[(by * 128 + t2 + 96) * 64 + k0 * 8 + t0];"
    )


sizes = st.integers(1, 40)


@given(st.lists(sizes, min_size=1, max_size=4), st.lists(st.integers(2, 20), max_size=3))
def test_numbers_take_no_more_turns(lengths: list[int], threads: list[int]) -> None:
    layout = tuple(Axis(d, 1, size) for d, size in enumerate(lengths))
    rows = len(layout) - 1
    widths = thread_digits(layout, rows, tuple(threads), FLOAT32.bytes)
    along = [layout[axis].size for axis in copied_along(layout, rows)]

    def turns(widths: list[int]) -> int:
        own = [*widths, *(1 for _ in along)]
        return prod(-(-size // width) for size, width in zip(along, own, strict=False))

    if widths is None:
        assert turns(threads) <= max(1, 2 * prod(lengths) // max(1, prod(threads))) * 2 ** len(
            along
        )
        return
    assert prod(widths) <= prod(threads)
    assert all(width <= size for width, size in zip(widths, along, strict=True))
    assert turns(list(widths)) <= turns(threads)
    assert widths[0] == along[0] or widths[0] % 8 == 0 or widths[0] == prod(threads)


@pytest.mark.parametrize("axes", [(), ((1, 1), (0, 1))], ids=["by rows", "by columns"])
@pytest.mark.parametrize(
    "tile", [(16, 16, 8, 2), (5, 7, 3, 1), (3, 20, 33, 3), (13, 4, 9, 1), (2, 33, 2, 7)]
)
def test_products(tile: tuple[int, int, int, int], axes: tuple[tuple[int, int], ...]) -> None:
    """Right for tiles and sizes that divide nothing, by the interpreter of threads, which looks for
    races and bounds, and by machine code."""
    inputs = random(A=(37, 19), B=(53, 19))
    options = product(*tile, axes=[list(axis) for axis in axes])
    expected, bound = tc.interpret(TMM, inputs), tc.error_bound(TMM, inputs)
    (result,) = evaluate_kernel(TMM, inputs, device=tc.Gpu(), options=options).values()
    assert_within(result, expected, bound)
    _, found = run_text(emitted(TMM, inputs, options), inputs)
    assert_within(found["C"], expected, bound)


@pytest.mark.parametrize("tile", [(3, 5, 7), (2, 4, 6), (1, 3, 12), (8, 2, 2)])
def test_three_dimensions(tile: tuple[int, int, int]) -> None:
    """Of a tile that is read with its dimensions turned around, and of the last tile along each."""
    inputs = random(a=(7, 11, 13))
    sizes = dict(zip("pqr", tile, strict=True))
    loops = [f"{name} mod {size}" for name, size in sizes.items()]
    blocks = [f"{name} div {size}" for name, size in sizes.items()]
    options = plan_of(
        ["S0"],
        *({"tile": name, "sizes": [size]} for name, size in sizes.items()),
        {"reorder": [*blocks, *loops]},
        *(bind(loop, "block", axis) for loop, axis in zip(blocks, "zyx", strict=True)),
        *(bind(loop, "thread", axis) for loop, axis in zip(loops, "xyz", strict=True)),
        {"promote": "a", "scope": "shared", "inside": blocks[-1]},
    )
    expected = tc.interpret(BATCH, inputs)
    (result,) = evaluate_kernel(BATCH, inputs, device=tc.Gpu(), options=options).values()
    np.testing.assert_array_equal(result, expected)
    _, found = run_text(emitted(BATCH, inputs, options), inputs)
    np.testing.assert_array_equal(found["o"], expected)


def test_a_tile_that_is_written_back() -> None:
    """By the threads that fetched it, at the same places."""
    text = "def f(float(N,M) a) -> (o) { o(j,i) = a(i,j) }"
    inputs = random(a=(19, 23))
    options = plan_of(
        ["S0"],
        {"tile": "i", "sizes": [3]},
        {"tile": "j", "sizes": [7]},
        {"reorder": ["i div 3", "j div 7", "i mod 3", "j mod 7"]},
        bind("i div 3", "block", "x"),
        bind("j div 7", "block", "y"),
        bind("i mod 3", "thread", "y"),
        bind("j mod 7", "thread", "x"),
        {"promote": "o", "scope": "shared", "inside": "j div 7"},
    )
    (result,) = evaluate_kernel(text, inputs, device=tc.Gpu(), options=options).values()
    np.testing.assert_array_equal(result, inputs["a"].T)
    _, found = run_text(emitted(text, inputs, options), inputs)
    np.testing.assert_array_equal(found["o"], inputs["a"].T)
