"""What plans of GPUs may not do, and what they may: each found by random plans or random programs
(`tests/fuzz/plans`)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tc
from tc.kernel.evaluate import evaluate
from tc.plan import Plan
from tc.polyhedral.promotion import Footprint, Transfer, transfer
from tc.polyhedral.schedule import to_text
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_buffers, checked, shaped
from tests.support.scops import scop_of

COPY = "def f(float(N) a) -> (o) { o(i) = a(i) }"
SCALE = "def f(float(N) a, float(K) b) -> (o) { o(i) +=! a(i) * b(k) }"
GPU = tc.Gpu()
FUSED = """def f(float(N) a) -> (o, p) {
  o(i) = 2 * a(i) where i in 0:8
  p(j) = o(3) + a(j) where j in 5:8
}"""


def bind(loop: str, role: str, axis: str, count: int | None = None) -> dict[str, Any]:
    action = {"bind": loop, "role": role, "axis": axis}
    return action if count is None else {**action, "count": count}


def promote(tensor: str, scope: str, inside: str | None, **more: Any) -> dict[str, Any]:
    return {"promote": tensor, "scope": scope, "inside": inside, **more}


def run(
    text: str, statements: list[str], *actions: dict[str, Any], plan: Plan | None = None
) -> str:
    """The tree of a plan for a launch; its kernels give what the interpreter does, exactly: of
    small integers."""
    parts = [{"statements": statements, "actions": actions}]
    plan = plan or Plan.from_json(json.dumps({"version": 1, "parts": parts}))
    program = checked(text)
    shapes = {name: (8,) * program.tensors[name].rank for name in program.inputs}
    arrays = {n: np.arange(np.prod(s)).reshape(s).astype(np.float32) for n, s in shapes.items()}
    shape = shaped(program, arrays)
    options = tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False))
    traced = trace_lowering(
        shape, {}, initial=frozenset(), check=False, device=GPU, options=options
    )
    expected = tc.interpret(text, arrays)
    results = expected if isinstance(expected, tuple) else (expected,)
    for kernel in (traced.marked, traced.kernel):
        held = {name: np.full_like(a, 99) for name, a in zip(program.outputs, results, strict=True)}
        assert evaluate(kernel, as_buffers(kernel, {**arrays, **held})) is None
        for name, result in zip(program.outputs, results, strict=True):
            np.testing.assert_array_equal(held[name], result)
    return to_text(traced.mapped.tree)


def refused(reason: str, text: str, statements: list[str], *actions: dict[str, Any]) -> None:
    """The last of some actions is refused for a reason, and the repair is right."""
    with pytest.raises(tc.BackendError) as error:
        run(text, statements, *actions)
    part = f"action {len(actions)} of the part {', '.join(statements)}"
    assert error.value.cause == f"{part}, {json.dumps(actions[-1])}: {reason}"
    assert error.value.repair is not None
    run(text, statements, plan=Plan.from_json(error.value.repair))


def test_what_threads_write_in_turns_is_not_shared() -> None:
    """What the threads of later turns have not written yet was copied."""
    refused(
        "o cannot be promoted inside of i: it is written in turns: fewer threads than iterations "
        "run i",
        COPY,
        ["S0"],
        bind("i", "thread", "x", 3),
        promote("o", "shared", "i"),
    )
    refused(
        "o cannot lie in o_shared there: it is written in turns: fewer threads than iterations "
        "run i",
        COPY,
        ["S0"],
        bind("i", "thread", "x"),
        promote("o", "shared", "i"),
        bind("i", "thread", "x", 3),
    )


def test_what_threads_read_in_turns_is_shared() -> None:
    text = "def f(float(N) a) -> (o) { o(i) = a(7 - i) where i in 0:8 }"
    tree = run(text, ["S0"], bind("i", "thread", "x", 3), promote("a", "shared", "i"))
    assert tree.splitlines()[1:] == [
        "  sequence",
        "    promote a to shared a_shared[8] (copied in)",
        "      sequence",
        "        barrier",
        "        S0",
        "    barrier",
    ]


def test_shared_memory_is_not_inside_of_registers() -> None:
    """Each thread fetched what others had in registers from its own."""
    refused(
        "o_shared, which threads share, holds elements of o_acc, of which each thread has its own",
        SCALE,
        ["S0.init", "S0"],
        bind("i", "thread", "x"),
        promote("o", "register", "i"),
        promote("o", "shared", "k"),
    )
    registers = promote("o", "register", "k")
    run(SCALE, ["S0.init", "S0"], bind("i", "thread", "x"), promote("o", "shared", "i"), registers)


def test_of_every_other_element_those_between_are_not_copied() -> None:
    """They are another thread's."""
    actions = (
        {"tile": "i", "sizes": [2]},
        {"reorder": ["i mod 2", "i div 2"]},
        bind("i mod 2", "thread", "x"),
        {"sink": ["i div 2"]},
    )
    names = ["S0.init", "S0"]
    refused(
        "o cannot be promoted inside of k: elements between those touched would be copied, and "
        "others write them",
        SCALE,
        names,
        *actions,
        promote("o", "register", "k", axes=[[0, 1]]),
    )
    tree = run(SCALE, names, *actions, promote("o", "register", "k"))
    assert "promote o to register o_acc[4] (copied in and out)" in tree


def test_what_others_write_is_fetched_where_it_is_read() -> None:
    """Where p is not written yet, element 3 of o was not either; in memory it may be."""
    names = ["S0", "p.zero", "S1"]
    actions = ({"fuse": ["i", "p.zero.i0"]}, promote("o", "shared", "i", statements=["S1"]))
    refused(
        "o cannot be promoted inside of i: others write it in the loops around, where its own "
        "statements do not always run",
        FUSED,
        names,
        *actions,
    )


def test_blocks_that_a_loop_leaves_out_meet_no_barrier_too_few() -> None:
    """All blocks fill what is shared for the whole launch; only block 0 waited."""
    tree = run(
        "def f(float(N) a, float(K) b) -> (o) { o(i,j) = a(7 - i) * b(j) where i in 0:8 }",
        ["S0"],
        promote("a", "shared", None),
        bind("i", "thread", "x"),
        bind("j", "block", "x"),
    )
    assert tree.splitlines()[:3] == [
        "promote a to shared a_shared[8] (copied in)",
        "  sequence",
        "    barrier",
    ]


def test_elements_between_those_of_one_instance() -> None:
    """Threads of other statements stand between i = 2 and i + 4."""
    names = ["o.zero", "S0"]
    run(
        "def f(float(N) a) -> (o) { o(i) = a(i) + a(i + 4) where i in 2:3 }",
        names,
        bind("o.zero.i0", "thread", "x"),
        promote("a", "shared", "o.zero.i0"),
    )


def test_what_is_written_later_is_not_fetched() -> None:
    """All of p is made before o in the text, but o needs nothing of it, and may run before."""
    text = """def f(float(N) a) -> (p, o) {
  p(j) = a(j) where j in 0:4
  o(i) = a(i) + pad(p(i), 1) where i in 4:N
}"""
    found = transfer("p", Footprint(scop_of(text, N=8), (), {"S1": ()}))
    assert found == Transfer(fetch=True, write_back=False, limits=((4, 4),))


def test_padding_that_is_all_that_threads_share() -> None:
    """No element of a is touched, but the buffer that one thread fills is."""
    tree = run(
        "def f(float(N) a, float(K) b) -> (o) { o(i) +=! pad(a(k + 8), 1) * b(i) where k in 0:3 }",
        ["S0.init", "S0"],
        bind("i", "thread", "x"),
        promote("a", "shared", "k", padded=True),
    )
    assert tree.splitlines()[3:] == [
        "    band [k] permutable",
        "      sequence",
        "        promote a to shared a_shared[1] (copied in)",
        "          sequence",
        "            barrier",
        "            S0",
        "        barrier",
    ]


def test_accumulators_of_threads() -> None:
    """No vectors; and threads that have no work, as i has 5 iterations and j has 8, add nothing."""
    text = """def f(float(N) a, float(K) b) -> (o, p) {
  o(n,i) +=! a(k) * b(i + n) where i in 0:5, n in 0:2
  p(n,j) = a(j) where n in 0:2
}"""
    tree = run(
        text,
        ["S0.init", "S0", "S1"],
        {"fuse": ["S0.n", "S1.n"]},
        bind("i", "thread", "x"),
        bind("j", "thread", "x"),
        {"tile": "k", "sizes": [4]},
        {"split": "S0", "loops": ["k mod 4"], "inside": "i"},
        promote("a", "shared", "k div 4"),
    )
    assert "accumulate S0 in o_partial for each k mod 4" in tree


def test_tiles_beyond_the_range_of_what_reads_them() -> None:
    """The tile of b for i = 5 begins after i = 4, where an instance beyond the range read it."""
    text = """def f(float(N,N) b, float(K) a) -> (o) {
  o(m,i) +=! a(k) * b(m,i) where m in 1:2, i in 0:5
}"""
    run(
        text,
        ["o.zero", "S0.init", "S0"],
        {"tile": "i1", "sizes": [2]},
        {"reorder": ["i1 div 2", "i1 mod 2", "i0"]},
        {"sink": ["i0"]},
        bind("i1 mod 2", "block", "x"),
        promote("o", "register", "i1 mod 2"),
        promote("b", "shared", "k"),
        {"bind": "i0", "role": "unroll"},
    )
