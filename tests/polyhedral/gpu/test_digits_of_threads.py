"""Threads that own several digits of a loop, as rows r1*8 + thread*2 + r0: their elements in
registers, and in shared memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.geometry import LaunchText
from tc.errors import BackendError
from tc.polyhedral.schedule import tiles, to_text
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_arrays, checked, evaluate_kernel, shaped
from tests.support.ptx.texts import run_text

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CHAIN = """def chain(float(M,K) A, float(K,N) B, float(N) b) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
  C(i,j) = fmaxf(C(i,j) + b(j), 0)
}"""
CONV = """def conv(float(C,W) a, float(F,C,KW) w) -> (o) { o(f,v) +=! a(c,v+q) * w(f,c,q) }"""
ROWS = ["i mod 16 div 8", "i mod 2"]
COLUMNS = ["j mod 8 div 4", "j mod 2"]
OWN = [*ROWS, *COLUMNS]
THREADS = ["i mod 8 div 2", "j mod 4 div 2"]


def action(**found: Any) -> dict[str, Any]:
    return found


def bind(loop: str, role: str, axis: str) -> dict[str, Any]:
    return {"bind": loop, "role": role, "axis": axis}


def shared(tensor: str, **more: Any) -> dict[str, Any]:
    where = {"scope": "shared", "inside": "k div 3", "statements": ["S0"]}
    return {"promote": tensor, **where, **more}


TILED = (
    action(tile="i", sizes=[16, 8, 2]),
    action(tile="j", sizes=[8, 4, 2]),
    action(reorder=["i div 16", "j div 8", *THREADS, *OWN]),
    bind("i div 16", "block", "y"),
    bind("j div 8", "block", "x"),
    bind(THREADS[0], "thread", "y"),
    bind(THREADS[1], "thread", "x"),
    action(sink=OWN),
    *(action(bind=loop, role="unroll") for loop in OWN),
)
HELD = action(promote="C", scope="register", inside=THREADS[1])
STEPS = action(tile="k", sizes=[3])


def options(
    *actions: dict[str, Any], statements: tuple[str, ...] = ("S0.init", "S0")
) -> tc.Options:
    parts = [{"statements": statements, "actions": actions}]
    plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
    return tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False, fusion="max"))


def random(**shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def check(text: str, inputs: dict[str, Any], wanted: tc.Options) -> None:
    """Right by the machine of threads, which looks for races and bounds, and by machine code."""
    expected, bound = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    (result,) = evaluate_kernel(text, inputs, device=tc.Gpu(), options=wanted).values()
    assert_within(result, expected, bound)
    emitted = tc.emit(text, inputs, backend="cuda", device=tc.Gpu(), options=wanted)
    assert isinstance(emitted, LaunchText)
    _, found = run_text(emitted, inputs)
    (name,) = (b.name for b in emitted.kernel.arguments if b.role == "output")
    assert_within(found[name], expected, bound)


def tree_of(text: str, inputs: dict[str, Any], wanted: tc.Options) -> Any:
    program = checked(text)
    shape = shaped(program, as_arrays(program, inputs))
    how: Any = {"initial": frozenset(), "check": False, "options": wanted}
    return trace_lowering(shape, {}, device=tc.Gpu(), **how).mapped.tree


def test_the_tile_has_an_axis_for_each_digit() -> None:
    tree = tree_of(MM, random(A=(32, 6), B=(6, 16)), options(*TILED, HELD))
    blocks, threads = "i div 16 block y *, j div 8 block x *", "i mod 8 div 2 thread y *"
    own = "i mod 16 div 8 unroll *, i mod 2 unroll *, j mod 8 div 4 unroll *, j mod 2 unroll *"
    assert to_text(tree).splitlines() == [
        f"band [{blocks}, {threads}, j mod 4 div 2 thread x *] permutable",
        "  promote C to register C_acc[2x2x2x2] (copied out)",
        "    sequence",
        f"      band [{own}] permutable",
        "        S0.init",
        "      band [k] permutable",
        f"        band [{own}] permutable",
        "          S0",
    ]


PLANS = {
    "results": [*TILED, HELD],
    "operands in shared memory": [
        *TILED, HELD, STEPS, shared("A", axes=[[1, 1], [0, 1]], pitch=17, unroll=True), shared("B"),
    ],
    "operands in registers": [
        *TILED, HELD, STEPS, shared("A"), shared("B"),
        action(promote="A", scope="register", inside="k mod 3", statements=["S0"]),
        action(promote="B", scope="register", inside="k mod 3", statements=["S0"]),
    ],
    "axes in another order": [
        *TILED, {**HELD, "axes": [[1, 4], [0, 8], [1, 1], [0, 1]]},
    ],
    "results in shared memory": [
        *TILED,
        action(promote="C", scope="shared", inside="j div 8"),
        HELD,
    ],
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(32, 6, 16), (37, 7, 19), (5, 3, 2), (1, 1, 1)])
@pytest.mark.parametrize("name", PLANS)
def test_products(name: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    check(MM, random(A=(m, k), B=(k, n)), options(*PLANS[name]))


def test_sums_in_accumulators_of_their_own() -> None:
    """Which are of a thread's elements alone: those between are of other threads."""
    actions = [
        *TILED,
        action(tile="k", sizes=[2]),
        action(split="S0", loops=["k mod 2"], inside=THREADS[1]),
    ]
    check(MM, random(A=(37, 7), B=(7, 19)), options(*actions))


def test_registers_around_loops_of_threads() -> None:
    """Each thread has the elements of its own iterations of the loop inside, too."""
    inputs = random(A=(37, 7), B=(7, 19))
    check(MM, inputs, options(*TILED, {**HELD, "inside": THREADS[0]}))


def test_an_epilogue() -> None:
    """The tile holds what three statements write."""
    names = ("S0.init", "S0", "S1")
    inputs = random(A=(37, 7), B=(7, 19), b=(19,))
    check(CHAIN, inputs, options(*TILED, HELD, statements=names))


def test_neighbours_of_what_is_owned() -> None:
    """Of a convolution, elements v+q in registers: digits that overlap are one, others are not."""
    own = ["v mod 16 div 8", "v mod 2"]
    for window, shape in ((2, "2x3"), (6, "2x7"), (7, "16"), (9, "18")):
        actions = [
            action(tile="v", sizes=[16, 8, 2]),
            action(reorder=["f", "v div 16", "v mod 8 div 2", *own]),
            bind("f", "block", "y"),
            bind("v div 16", "block", "x"),
            bind("v mod 8 div 2", "thread", "x"),
            action(sink=own),
            action(promote="o", scope="register", inside="v mod 8 div 2"),
            action(promote="a", scope="register", inside="c", statements=["S0"]),
        ]
        inputs, wanted = random(a=(3, 41), w=(2, 3, window)), options(*actions)
        held = {tile.tensor: tile for tile in tiles(tree_of(CONV, inputs, wanted))}
        assert "x".join(map(str, held["a"].shape)) == f"1x{shape}"
        check(CONV, inputs, wanted)


REFUSED = {
    "C cannot be promoted inside of j mod 4 div 2: elements between those touched would be copied, "
    "and others write them": {**HELD, "axes": [[0, 1], [1, 1]]},
    "C cannot be promoted inside of j mod 4 div 2: elements between those touched would be copied, "
    "and others write them ": {**HELD, "axes": [[0, 2], [0, 1], [1, 4], [1, 1]]},
    "the axes [[0, 8], [1, 4], [1, 1]] do not reach each element of C: each dimension ends with a "
    "step of 1": {**HELD, "axes": [[0, 8], [1, 4], [1, 1]]},
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    """With the reason, and a plan that can be done as repair."""
    inputs = random(A=(32, 6), B=(6, 16))
    with pytest.raises(BackendError) as caught:
        evaluate_kernel(MM, inputs, device=tc.Gpu(), options=options(*TILED, REFUSED[reason]))
    assert caught.value.cause.endswith(f": {reason.rstrip()}")
    assert caught.value.repair is not None
    repaired = tc.Options(plan=tc.Plan.from_json(caught.value.repair))
    check(MM, inputs, repaired)
