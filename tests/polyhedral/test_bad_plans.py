"""Plans that cannot be done: whole messages, and repairs that work when they are pasted.

The messages stand in tests/expected/plans; `--accept` writes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, evaluate_kernel, shaped_by

EXPECTED = Path(__file__).parent.parent / "expected" / "plans"
DEVICE = tc.Device(vector_bits=256, vector_registers=16, threads=2)
GPU = tc.Gpu(
    threads=64,
    thread_limits=(32, 16, 2),
    grid_limits=(1000, 10, 5),
    shared=256,
    thread_registers=16,
)
PASTES = 3

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TWO = "def two(float(N,M) a) -> (x, y) { x(i) +=! a(i,j)  y(i,j) = 2 * a(i,j) }"
CHAIN = "def chain(float(N) a) -> (b, c) { b(i) = 2 * a(i)  c(i) = b(i+1) where i in 0:N-1 }"

HH = "def hh(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
FF = "def ff(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RAGGED = """def ragged(int(R) at, int(P) off, float(E) x) -> (o) {
  o(r) +=! x(e) where e in off(at(r)):off(at(r)+1)
}"""
TENSOR_CORES = replace(GPU, shared=8192, thread_registers=128)

SHAPES = {
    HH: {"A": (32, 32), "B": (32, 16)},
    FF: {"A": (32, 32), "B": (32, 16)},
    MM: {"A": (12, 10), "B": (10, 16)},
    TWO: {"a": (6, 20)},
    CHAIN: {"a": (9,)},
    RAGGED: {"at": (4,), "off": (6,), "x": (7,)},
}
CHECKED = ("S0.o.range.init", "S0.o.range", "S0.init", "S0")
TILED = {"tile": "i", "sizes": [4]}


def part(*actions: Any, statements: Any = ("S0.init", "S0")) -> dict[str, Any]:
    return {"statements": list(statements), "actions": list(actions)}


def plan(*parts: Any, **others: Any) -> str:
    return json.dumps({"version": 1, "parts": list(parts), **others})


def actions(*found: Any) -> str:
    return plan(part(*found))


@dataclass(frozen=True)
class Bad:
    plan: str
    text: str = MM
    fusion: str = "min"
    device: tc.Device | tc.Gpu = DEVICE
    tf32: bool = False

    @property
    def options(self) -> tc.Options:
        return tc.Options(
            schedule=tc.ScheduleOptions(fusion=self.fusion), gpu=tc.GpuOptions(tf32=self.tf32)
        )


def bind(loop: str, role: str, axis: str | None = None, **others: int) -> dict[str, Any]:
    return {"bind": loop, "role": role, **({"axis": axis} if axis else {}), **others}


def on_gpu(*found: Any) -> Bad:
    """A plan for a small GPU."""
    return Bad(actions(*found), device=GPU)


def by_warps(change: Callable[[Any], Any] = lambda action: action, **gpu: bool) -> Bad:
    """A plan for tensor cores, of which each action is changed; None leaves it out."""
    own = ("i mod 32 div 16", "i mod 16 div 8", "j mod 2")
    threads = bind("i mod 8", "thread", "y"), bind("j mod 8 div 2", "thread", "x")
    shared = {"scope": "shared", "inside": "k div 32", "as_stored": True}
    planned = (
        {"tile": "i", "sizes": [32, 16, 8]},
        {"tile": "j", "sizes": [8, 2]},
        {"reorder": ["i div 32", "j div 8", "i mod 8", "j mod 8 div 2", *own]},
        {"sink": [*own]},
        bind("j div 8", "block", "x"),
        *threads,
        *(bind(loop, "unroll") for loop in own),
        {"promote": "C.s0", "scope": "register", "inside": "j mod 8 div 2"},
        {"tile": "k", "sizes": [32, 16]},
        {"promote": "A", **shared, "pitch": 40},
        {"promote": "B", **shared},
        bind("k mod 16", "mma"),
    )
    found = [made for action in planned if (made := change(action)) is not None]
    statements = ("S0.init", "S0", "S0.rounded")
    device = replace(TENSOR_CORES, **gpu)  # type: ignore[arg-type]
    return Bad(plan(part(*found, statements=statements)), HH, "auto", device)


def by_rounding(change: Callable[[Any], Any] = lambda action: action, tf32: bool = True) -> Bad:
    """A plan for tensor cores that round floats, of which each action is changed."""
    kept = {"promote": "C.s0"}, {"role": "mma"}, {"tile": "k"}, {"promote": "A"}, {"promote": "B"}
    others = (
        {"promote": "C", "scope": "register", "inside": "j mod 8 div 2"},
        bind("k mod 8", "mma_tf32"),
        {"tile": "k", "sizes": [32, 8]},
        {"promote": "A", "scope": "shared", "inside": "k div 32", "pitch": 36},
        {"promote": "B", "scope": "shared", "inside": "k div 32", "pitch": 24},
    )

    def changed(action: Any) -> Any:
        for fields, other in zip(kept, others, strict=True):
            if fields.items() <= action.items():
                return change(other)
        return change(action)

    found = json.loads(by_warps(changed).plan)
    found["parts"][0]["statements"] = ["S0.init", "S0"]
    return Bad(json.dumps(found), FF, "auto", TENSOR_CORES, tf32)


def without(**fields: Any) -> Callable[[Any], Any]:
    """Leaves out the action that has such fields."""
    return lambda action: None if fields.items() <= action.items() else action


def with_field(key: str, value: str, **fields: Any) -> Callable[[Any], Any]:
    """Gives other fields to the action that has such a one."""
    return lambda action: {**action, **fields} if action.get(key) == value else action


BAD = {
    # a check of ranges, and statements that go through these
    "check_fused": Bad(
        plan(part({"fuse": ["S0.o.range.r", "S0.init.r"]}, statements=CHECKED)), RAGGED
    ),
    "check_below_a_buffer": Bad(
        plan(part({"promote": "o", "scope": "scratch"}, statements=CHECKED)), RAGGED
    ),
    # what is no plan
    "no_json": Bad("tile i by 4"),
    "python": Bad(str({"version": 1, "parts": [part(TILED)]})),
    "nested": Bad("[" * 100_000),
    "version": Bad(json.dumps({"version": 2, "parts": [part(TILED)]})),
    "key_twice": Bad(actions(TILED).replace('"sizes"', '"sizes": [8], "sizes"')),
    "nan": Bad(actions({"tile": "i", "sizes": [4]}).replace("[4]", "[NaN]")),
    "huge": Bad(actions({"tile": "i", "sizes": [10**40]})),
    "zero": Bad(actions(TILED, {"tile": "j", "sizes": [0]})),
    "fraction": Bad(actions({"promote": "A", "scope": "scratch", "inside": "i", "lanes": 4.0})),
    "verb": Bad(actions({"titel": "i", "sizes": [4]})),
    "key": Bad(actions({"tile": "i", "size": [4]})),
    "lacks": Bad(actions({"bind": "i"})),
    "type": Bad(actions({"tile": "i", "sizes": 4})),
    "many": Bad(actions(*[TILED] * 100_000)),
    # parts
    "statement": Bad(plan(part(TILED, statements=("S0.init", "SO")))),
    "statement_unknown": Bad(plan(part(TILED, statements=("sum",)))),
    "part_of_a_part": Bad(plan(part(TILED, statements=("S0",)))),
    "part_twice": Bad(plan(part(TILED), part(TILED))),
    "parts_in_another_order": Bad(plan(part(TILED, statements=("S1",)), part(TILED)), TWO),
    # loops, sizes, tensors, memory
    "loop": Bad(actions({"tile": "row", "sizes": [4]})),
    "loop_after_its_size_was_changed": Bad(
        actions(
            {"tile": "j", "sizes": [8]},
            {"sink": ["j mod 4"]},
            {"bind": "j mod 4", "role": "vector"},
        )
    ),
    "no_name_of_a_loop": Bad(actions({"bind": "i/4", "role": "parallel"})),
    "does_not_divide": Bad(actions({"tile": "i", "sizes": [8]}, {"tile": "i mod 8", "sizes": [3]})),
    "sizes_do_not_divide": Bad(actions({"tile": "k", "sizes": [8, 3]})),
    "larger_than_any": Bad(
        actions({"tile": "i", "sizes": [2**30]}, {"tile": "i div 1073741824", "sizes": [4]})
    ),
    "tensor": Bad(actions({"promote": "D", "scope": "scratch", "inside": "i"})),
    "scope": Bad(actions({"promote": "A", "scope": "shared", "inside": "i"})),
    "too_large": Bad(actions({"promote": "A", "scope": "register", "align": 4096})),
    "written_is_not_packed": Bad(actions({"promote": "C", "scope": "temporary"})),
    "axes": Bad(
        actions({"promote": "B", "scope": "scratch", "inside": "i", "axes": [[1, 4], [0, 1]]})
    ),
    "not_padded": Bad(actions({"promote": "B", "scope": "scratch", "inside": "i", "padded": True})),
    "pitch_of_registers": Bad(
        actions({"promote": "C", "scope": "register", "inside": "j", "pitch": 3, "unroll": True})
    ),
    "unrolled_copies": Bad(
        actions({"promote": "B", "scope": "scratch", "inside": "i", "pitch": 17, "unroll": True})
    ),
    "deep": Bad(actions({"tile": "i", "sizes": [1] * 100})),
    # roles and order
    "role": Bad(actions({"bind": "i", "role": "block"})),
    "parallel_reduction": Bad(actions({"bind": "k", "role": "parallel"})),
    "vector_not_innermost": Bad(
        actions({"tile": "j", "sizes": [8]}, {"bind": "j mod 8", "role": "vector"})
    ),
    "inside_of_its_own_tiles": Bad(
        actions(TILED, {"reorder": ["i mod 4", "i div 4"]}, {"bind": "i div 4", "role": "parallel"})
    ),
    "fused_against_a_dependence": Bad(
        plan(part({"fuse": ["S0.i", "S1.i"]}, statements=("S0", "S1"))), CHAIN
    ),
    "axis_on_a_processor": Bad(actions(bind("i", "parallel", "x"))),
    # blocks, threads and memory of a GPU
    "gpu_role": on_gpu(bind("i", "parallel")),
    "gpu_scope": on_gpu({"promote": "A", "scope": "temporary"}),
    "gpu_no_axis": on_gpu(bind("i", "thread")),
    "gpu_axis": on_gpu(bind("i", "block", "w")),
    "gpu_axis_of_an_unrolled_loop": on_gpu(bind("i", "unroll", "x")),
    "gpu_threads_along_one_axis": on_gpu(bind("i", "thread", "x"), bind("j", "thread", "x")),
    "gpu_count": on_gpu(bind("i", "thread", "x", count=0)),
    "gpu_threads": on_gpu(bind("i", "thread", "y"), bind("j", "thread", "x")),
    "gpu_threads_along_z": on_gpu(bind("i", "thread", "z", count=4)),
    "gpu_blocks": on_gpu(bind("i", "block", "y", count=20)),
    "gpu_blocks_of_a_reduction": on_gpu(bind("i", "block", "y", count=10), bind("k", "block", "x")),
    "gpu_threads_of_a_reduction": on_gpu(bind("k", "thread", "x")),
    "gpu_shared": on_gpu(
        bind("i", "block", "x"), {"promote": "B", "scope": "shared", "inside": "i"}
    ),
    "gpu_shared_together": on_gpu(  # 252 bytes, but each tile begins at a multiple of 16
        bind("i", "block", "x"),
        {"promote": "A", "scope": "shared", "inside": "i", "pitch": 53},
        {"promote": "B", "scope": "shared", "inside": "j"},
    ),
    "gpu_registers": on_gpu(
        bind("i", "block", "x"), {"promote": "B", "scope": "register", "inside": "i"}
    ),
    "gpu_pitch": on_gpu(
        bind("i", "block", "x"), {"promote": "A", "scope": "shared", "inside": "i", "pitch": 3}
    ),
    "gpu_unrolled_registers": on_gpu(
        bind("i", "block", "x"),
        {"promote": "C", "scope": "register", "inside": "j", "unroll": True},
    ),
    # tensor cores
    "mma_of_floats": on_gpu({"tile": "k", "sizes": [16]}, bind("k mod 16", "mma")),
    "mma_without_tensor_cores": by_warps(tensor_cores=False),
    "mma_of_few_steps": by_warps(
        lambda action: {
            "tile": {**action, "sizes": [32, 8]} if action.get("tile") == "k" else action,
            "bind": {**action, "bind": "k mod 8"} if action.get("role") == "mma" else action,
        }.get(next(iter(action)), action)
    ),
    "mma_of_a_whole_loop": by_warps(
        lambda action: {**action, "bind": "k div 32"} if action.get("role") == "mma" else action
    ),
    "mma_with_other_threads": by_warps(
        lambda action: (
            {**action, "axis": {"x": "y", "y": "x"}[action["axis"]]}
            if action.get("role") == "thread"
            else action
        )
    ),
    "mma_without_its_own_columns": by_warps(without(bind="j mod 2")),
    "mma_without_registers": by_warps(without(promote="C.s0")),
    "mma_from_memory": by_warps(without(promote="A")),
    "mma_of_what_was_converted": by_warps(with_field("promote", "B", as_stored=False)),
    "mma_with_odd_lines": by_warps(with_field("promote", "A", pitch=36)),
    "mma_tf32_without_the_option": by_rounding(tf32=False),
    "mma_tf32_of_sixteen_steps": by_rounding(
        lambda action: {
            "tile": {**action, "sizes": [32, 16]} if action.get("tile") == "k" else action,
            "bind": {**action, "bind": "k mod 16"} if "tf32" in str(action) else action,
        }.get(next(iter(action)), action)
    ),
    "mma_tf32_with_odd_lines": by_rounding(with_field("promote", "A", pitch=35)),
    "mma_tf32_as_halves": by_rounding(with_field("role", "mma_tf32", role="mma")),
    "mma_tf32_of_halves": replace(
        by_warps(
            lambda action: {**action, "role": "mma_tf32"} if action.get("role") == "mma" else action
        ),
        tf32=True,
    ),
    "as_stored_in_registers": by_warps(with_field("promote", "C.s0", as_stored=True)),
}


def explained(bad: Bad, given: tc.Plan) -> None:
    shaped = shaped_by(checked(bad.text), SHAPES[bad.text])
    options = replace(bad.options, plan=given)
    trace_lowering(shaped, {}, initial=frozenset(), check=True, options=options, device=bad.device)


def refused(bad: Bad, text: str) -> tc.BackendError | tc.Plan:
    """The error that a plan's text ends with; the plan, where it works."""
    try:
        given = tc.Plan.from_json(text)
        explained(bad, given)
    except tc.BackendError as error:
        return error
    return given


@pytest.mark.parametrize("name", BAD)
def test_message(name: str, golden: Callable[[Path, str], None]) -> None:
    error = refused(BAD[name], BAD[name].plan)
    assert isinstance(error, tc.BackendError)
    golden(EXPECTED / f"{name}.txt", str(error))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BAD)
def test_the_repair_works(name: str) -> None:
    bad, found = BAD[name], refused(BAD[name], BAD[name].plan)
    for _ in range(PASTES):
        if isinstance(found, tc.BackendError):
            assert found.repair is not None
            found = refused(bad, found.repair)
    assert isinstance(found, tc.Plan)
    rng = np.random.default_rng(0)
    tensors = checked(bad.text).tensors
    inputs = {
        n: rng.random(shape).astype(tensors[n].dtype.numpy) for n, shape in SHAPES[bad.text].items()
    }
    options = replace(bad.options, plan=found)
    results = evaluate_kernel(bad.text, inputs, options=options, device=bad.device)
    expected = tc.interpret(bad.text, inputs)
    bounds = tc.error_bound(bad.text, inputs, options=bad.options)
    many = isinstance(expected, tuple)
    for result, value, bound in zip(
        results.values(),
        expected if many else (expected,),
        bounds if many else (bounds,),
        strict=True,
    ):
        assert_within(result, value, bound)


def test_all_messages_are_of_a_plan() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == set(BAD)
    assert len(BAD) >= 25
