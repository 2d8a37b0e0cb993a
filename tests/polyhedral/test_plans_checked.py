"""What plans may not do, and what they may: each found by random plans (`tests/fuzz/plans`)."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel.evaluate import evaluate
from tc.options import Options
from tc.plan import Plan
from tc.polyhedral.schedule import to_text
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_arrays, as_buffers, checked, shaped

DEVICE = Device(vector_bits=256, vector_registers=16)
SUM = "def f(float(N,K) a) -> (o) { o(i) +=! a(i,k) }"
MATMUL = "def f(float(N,K) a, float(K,M) b) -> (o) { o(i,j) +=! a(i,k) * b(k,j) }"
COPY = "def f(float(N) a) -> (o) { o(i) = a(i) }"


def planned(statements: list[str], *actions: dict[str, Any]) -> Plan:
    parts = [{"statements": statements, "actions": actions}]
    return Plan.from_json(json.dumps({"version": 1, "parts": parts}))


def run(text: str, plan: Plan, *shapes: tuple[int, ...]) -> str:
    """The tree of a plan, whose kernel gives what the interpreter does."""
    program = checked(text)
    rng = np.random.default_rng(1)
    inputs = {n: rng.random(s) for n, s in zip(program.inputs, shapes, strict=True)}
    arrays = as_arrays(program, inputs)
    shape = shaped(program, arrays)
    traced = trace_lowering(
        shape, {}, initial=frozenset(), check=True, device=DEVICE, options=Options(plan=plan)
    )
    tree = to_text(traced.mapped.tree)
    for kernel in (traced.marked, traced.kernel):
        held = {**arrays}
        for name in program.outputs:
            held[name] = np.full(shape.shapes[name], 99, program.tensors[name].dtype.numpy)
        assert evaluate(kernel, as_buffers(kernel, held)) is None
        wants, bounds = tc.interpret(text, arrays), tc.error_bound(text, arrays)
        if len(program.outputs) == 1:
            wants, bounds = (wants,), (bounds,)
        for name, want, bound in zip(program.outputs, wants, bounds, strict=True):
            assert_within(held[name], want, bound)
    return tree


def refused(text: str, plan: Plan, reason: str, *shapes: tuple[int, ...]) -> None:
    """A plan is refused for a reason, and its repair is right."""
    with pytest.raises(tc.BackendError, match=re.escape(reason)) as error:
        run(text, plan, *shapes)
    assert error.value.repair is not None
    run(text, Plan.from_json(error.value.repair), *shapes)


def test_registers_whose_rows_are_not_whole_vectors() -> None:
    """The rest of a row was not copied."""
    promote = {"promote": "o", "scope": "register", "inside": "i div 4", "lanes": 8}
    plan = planned(["S0.init", "S0"], {"tile": "i", "sizes": [4]}, promote)
    run(MATMUL, plan, (6, 3), (3, 11))


def test_a_tile_of_a_single_element() -> None:
    total = "def f(float(K) a) -> (o) { o +=! a(k) }"
    plan = planned(
        ["S0.init", "S0"],
        {"promote": "o", "scope": "scratch"},
        {"promote": "o", "scope": "register", "lanes": 4},
    )
    run(total, plan, (9,))


def test_panels_across_tiles() -> None:
    plan = planned(
        ["S0"],
        {"tile": "i", "sizes": [3]},
        {"promote": "a", "scope": "temporary", "axes": [[0, 4], [0, 1]]},
    )
    refused(COPY, plan, "the panels of 4 elements of a_packed do not fit its accesses", (10,))


def test_what_is_written_back_is_what_is_touched() -> None:
    """Alignment made a tile write elements of the next."""
    promote = {"promote": "o", "scope": "scratch", "inside": "i div 4", "align": 8}
    plan = planned(["S0"], {"tile": "i", "sizes": [4]}, promote)
    refused(COPY, plan, "8 elements would be copied where 4 are touched", (16,))
    aligned = {"promote": "a", "scope": "scratch", "inside": "i div 4", "align": 8}
    run(COPY, planned(["S0"], {"tile": "i", "sizes": [4]}, aligned), (16,))


@pytest.mark.parametrize(
    ("statements", "size", "reason"),
    [
        (["S0"], 5, "elements between those touched would be copied, and others write them"),
        (["S0.init", "S0"], 5, "elements between those touched would be copied, and"),
        (["S0"], 7, "its last elements are of other iterations where the tiles of loops are not"),
    ],
)
def test_tiles_of_periods(statements: list[str], size: int, reason: str) -> None:
    """Of o(20*i_div + i), tiles of i."""
    text = """def f(float(A,K) x, float(20,K) y) -> (o) {
      o(i) +=! x(i / 20, k) * y(i % 20, k) where i in 0:20*A
    }"""
    tiles = f"i div {size}"
    plan = planned(
        ["S0.init", "S0"],
        {"tile": "i", "sizes": [size]},
        {"reorder": [tiles, "i_div", f"i mod {size}"]},
        {"sink": ["i_div", f"i mod {size}"]},
        {"promote": "o", "scope": "scratch", "inside": tiles, "statements": statements},
    )
    refused(text, plan, reason, (6, 4), (20, 4))


@pytest.mark.parametrize(
    ("text", "lines", "reason", "shapes"),
    [
        ("def f(float(K) a) -> (o) { o +=! a(k) }", {}, "a single element has no cache", [(9,)]),
        (MATMUL, {"axes": [[1, 1], [0, 1]]}, "laid out as the tensor is", [(4, 3), (3, 8)]),
        ("def f(half(N) a) -> (o) { o(i) = a(i) }", {}, "cache lines of float16", [(40,)]),
    ],
)
def test_cache_lines(text: str, lines: Any, reason: str, shapes: list[tuple[int, ...]]) -> None:
    names = ["S0.init", "S0"] if "+=!" in text else ["S0"]
    plan = planned(names, {"promote": "o", "scope": "scratch", "lines": True, **lines})
    refused(text, plan, reason, *shapes)


def test_cache_lines_inside_of_a_buffer() -> None:
    lines = {"promote": "o", "scope": "scratch", "inside": "i div 4", "lines": True}
    plan = planned(["S0"], {"tile": "i", "sizes": [4]}, lines, {"promote": "o", "scope": "scratch"})
    refused(COPY, plan, "in cache lines, and inside of another buffer", (16,))


def test_a_tile_larger_than_its_tensor_inside_of_a_buffer() -> None:
    plan = planned(
        ["S0.init", "S0"],
        {"tile": "i", "sizes": [8]},
        {"promote": "o", "scope": "register", "inside": "S0.init.i div 8"},
        {"promote": "o", "scope": "scratch"},
    )
    run(SUM, plan, (5, 3))


def test_a_digit_outside_of_its_tiles_is_no_place() -> None:
    plan = planned(
        ["S0"],
        {"tile": "i", "sizes": [4]},
        {"reorder": ["i mod 4", "i div 4"]},
        {"promote": "a", "scope": "scratch", "inside": "i mod 4"},
    )
    refused(COPY, plan, "is outside of the tiles that it divides", (10,))


def test_lanes_of_a_sum_need_accumulators() -> None:
    tile, bind = {"tile": "S0.k", "sizes": [8]}, {"bind": "S0.k mod 8", "role": "vector"}
    names = ["S0.init", "S0"]
    refused(SUM, planned(names, tile, bind), "the lanes of k mod 8 would add to one", (5, 19))
    split = {"split": "S0", "loops": ["S0.k mod 8"]}
    run(SUM, planned(names, tile, {**split, "inside": "S0.i"}, bind), (5, 19))


def test_loops_of_a_split_that_are_changed() -> None:
    plan = planned(
        ["S0.init", "S0"],
        {"tile": "S0.k", "sizes": [8]},
        {"split": "S0", "loops": ["S0.k mod 8"], "inside": "S0.i"},
        {"tile": "S0.k mod 8", "sizes": [2]},
    )
    refused(SUM, plan, "by which S0 is split, is not there any more", (5, 19))


def test_loops_around_a_tile_that_are_changed() -> None:
    """The elements to copy follow from the loops around, which change after the promotion."""
    names = ["S0.init", "S0"]
    promote = {"promote": "o", "scope": "scratch", "inside": "S0.i"}
    run(SUM, planned(names, promote), (6, 3))
    plan = planned(names, promote, {"tile": "S0.i", "sizes": [2]})
    run(SUM, plan, (6, 3))


def test_unrolled_loops_begin_where_their_statements_do() -> None:
    """What runs at 1 ran at 0, too."""
    text = "def f() -> (o) { o(m) = 1 where m in 1:2  o(m) = o(m) }"
    plan = planned(
        ["o.zero", "S0", "S1"],
        {"bind": "S1.m", "role": "unroll"},
        {"promote": "o", "scope": "register"},
    )
    run(text, plan)


def test_accumulators_of_a_split_outside_of_tiles() -> None:
    """Tails of the tiles had no accumulators."""
    plan = planned(
        ["S0.init", "S0"],
        {"separate": ["i"], "statements": ["S0"]},
        {"tile": "i", "sizes": [8]},
        {"bind": "S0.i mod 8", "role": "unroll"},
        {"tile": "S0.k", "sizes": [4]},
        {"split": "S0", "loops": ["S0.k mod 4"]},
    )
    run(SUM, plan, (5, 7))


def test_tails_that_only_vectors_compute() -> None:
    plan = planned(
        ["S0.init", "S0"],
        {"tile": "S0.i", "sizes": [4]},
        {"sink": ["S0.i mod 4"]},
        {"bind": "S0.i mod 4", "role": "vector"},
        {"promote": "o", "scope": "register", "inside": "S0.i div 4"},
    )
    run(SUM, plan, (3, 7))


def test_what_others_write_is_not_read_ahead() -> None:
    text = "def f(float(N) a) -> (o, p) { o(i) = a(i)  p(i) = o(i) }"
    promote = {"promote": "o", "scope": "register", "inside": "i", "statements": ["S1"]}
    names = ["S0", "S1"]
    run(text, planned(names, promote), (9,))
    plan = planned(names, {**promote, "align": 8})
    refused(text, plan, "8 elements would be copied where 1 are touched, and others write", (9,))


def test_what_others_write_is_fetched_where_it_is_read() -> None:
    """Where p is not written yet, element 3 of o was not either."""
    text = """def f(float(N) a) -> (o, p) {
  o(i) = 2 * a(i) where i in 0:8
  p(j) = o(3) + a(j) where j in 5:8
}"""
    promote = {"promote": "o", "scope": "scratch", "inside": "i", "statements": ["S1"]}
    plan = planned(["S0", "p.zero", "S1"], {"fuse": ["i", "p.zero.i0"]}, promote)
    reason = "others write it in the loops around, where its own statements do not always run"
    refused(text, plan, reason, (8,))


def test_a_tensor_that_is_packed_twice() -> None:
    text = "def f(float(N,M) a, int64(N,K) b) -> (o) { o(i,p) +=! a(min(b(i,j), 0), p) }"
    pack = {"promote": "b", "scope": "temporary"}
    run(text, planned(["S0.init", "S0"], pack, pack), (4, 5), (4, 3))


def test_repairs_keep_the_sums_of_halves() -> None:
    text = "def f(half(N,K) a) -> (o) { o(i) +=! a(i,k) }"
    tile = {"tile": "S0.k", "sizes": [8]}
    parts = ["S0.init", "S0", "S0.rounded"]
    plan = planned(parts, tile, {"promote": "q", "scope": "register"})
    refused(text, plan, "nothing touches a tensor 'q' there", (5, 70))


def test_a_loop_in_which_all_statements_run_once_has_a_name() -> None:
    """What tc chose for this was an iterator at its end."""
    text = """def f(float(K,M) b, float(M,L,P) c, float(Q,R) d, float(R,2) f) -> (o2) {
  o(j,i) +=! b(j, i) where k in 0:2
  o1(n) +=! pad(c(1, q, q), 0)
  o2(m,w) = (d(m, m) * f(w, w)) + pad(o1(w + m), 1)
  o1(w) = o(w, w)
}"""
    program = checked(text)
    shapes = ((2, 1), (1, 2, 2), (2, 2), (2, 2))
    arrays = {n: np.ones(s, np.float32) for n, s in zip(program.inputs, shapes, strict=True)}
    options = Options(schedule=tc.ScheduleOptions(fusion="isl"))
    device = Device(vector_bits=256, vector_registers=8, l2=1 << 20)
    shape = shaped(program, arrays)
    trace_lowering(shape, {}, initial=frozenset(), check=True, device=device, options=options)
