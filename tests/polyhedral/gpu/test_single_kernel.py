"""Programs as one launch, in which all blocks wait for each other where they must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import GRID, Barrier, Grid, Kernel
from tc.polyhedral.gpu.resident_blocks import fewer_blocks
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import Band, Leaf, Sequence, tiles, to_text
from tests.support.bounds import assert_within
from tests.support.launch_trees import member
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_arrays, as_buffers, checked, evaluate_kernel, shaped
from tests.support.programs import CASES, Case
from tests.support.scops import scop_of
from tests.test_programs import copies, expected_and_bounds, fresh

EXPECTED = Path(__file__).parents[2] / "expected" / "gpu_mapping"
FEW = tc.Gpu(processors=1, processor_threads=4 * 32)
"""That runs four blocks of a warp at a time."""

BACK = """def back(float(N) a) -> (b, c) {
  b(i) = a(i) + 1
  c(i) = b(N - 1 - i) * 2 where i in 0:N
}"""
SWEEPS = """def sweeps(float(N,M) a) -> (rows, columns, o) {
  rows(i) max=! a(i,j)
  columns(j) max=! a(i,j) - rows(i)
  o(i,j) = a(i,j) - rows(i) - columns(j)
}"""

CHAIN = """def chain(float(M,K) A, float(N,K) B) -> (C, D) {
  C(m,n) +=! A(m,k) * B(n,k)
  D(m,n) +=! C(m,k) * B(n,k)
}"""


def options(**given: Any) -> tc.Options:
    schedule = tc.ScheduleOptions(fusion="min", rewrite=False)
    return tc.Options(schedule=schedule, gpu=tc.GpuOptions(single_kernel=True, **given))


def traced(text: str, arrays: dict[str, Any], gpu: tc.Gpu, wanted: tc.Options) -> Lowering:
    program = checked(text)
    shape = shaped(program, as_arrays(program, arrays))
    given = {"initial": frozenset[str](), "check": False, "options": wanted}
    return trace_lowering(shape, {}, device=gpu, **given)


def lowered(text: str, gpu: tc.Gpu, /, *, plan: tc.Plan | None = None, **given: Any) -> Lowering:
    """Of two shapes: 9 rows and 10 columns, or 1000 elements."""
    shape = (1000,) if text == BACK else (9, 10)
    wanted = replace(options(**given), plan=plan)
    return traced(text, {"a": np.ones(shape, np.float32)}, gpu, wanted)


def grids(kernel: Kernel) -> list[Grid]:
    return [stmt for region in kernel.regions for stmt in region if isinstance(stmt, Grid)]


def blocks(grid: Grid) -> int:
    return prod(index.count for index in grid.blocks)


def barriers(grid: Grid) -> int:
    """Of the grid."""
    return sum(isinstance(stmt, Barrier) and stmt.scope == GRID for stmt in grid.body)


# --- programs -------------------------------------------------------------------------------------

WAITING = {"MLP3", "hash_words", "int4_layer", "layernorm", "prodModel", "softmax"}
WAITING |= {"stable_softmax", "stencil", "word_bits"}
WAITING |= {"compact", "coo_matrix", "counting_sort", "edge_softmax", "k_means_step"}
WAITING |= {"max_pool_places", "mean_messages", "mixture_of_experts", "padded_to_ragged"}
WAITING |= {"pair_energy", "permute_rows", "scale_selected", "scatter_argmax", "sort_by_rank"}
"""Programs of the table in which blocks wait for each other, if each does little."""


@pytest.mark.drawn(8)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("gpu", [tc.Gpu(), FEW], ids=["", "few at a time"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_table(case: Case, gpu: tc.Gpu) -> None:
    """Right where each statement has loops of its own, a block for every few elements."""
    wanted = options(tile=(2, 2), threads=(4,))
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    how: dict[str, Any] = {"options": wanted, "device": gpu, "entry": case.def_name}
    results = evaluate_kernel(case.text, inputs, outputs=copies(outputs), **how)
    for result, value, bound in zip(results.values(), expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)
    explained = tc.explain(
        case.text, inputs, entry=case.def_name, backend="cuda", options=wanted, device=gpu
    )
    assert explained.trace is not None
    (grid,) = grids(explained.trace.kernel)
    assert (barriers(grid) > 0) == (case.name in WAITING)
    if barriers(grid) and gpu is FEW:
        assert 1 < blocks(grid) <= 4


@pytest.mark.parametrize("gpu", [tc.Gpu(), FEW], ids=["", "few at a time"])
def test_each_barrier_of_the_grid_is_needed(gpu: tc.Gpu) -> None:
    """Without it, blocks are in each other's way."""
    kernel = lowered(SWEEPS, gpu, tile=(2, 2), threads=(2, 2)).kernel
    (grid,) = grids(kernel)
    # in turns, blocks read just the columns that they have written
    assert barriers(grid) == (1 if gpu is FEW else 2)
    given = np.random.default_rng(0).integers(-9, 10, (9, 10)).astype(np.float32)
    rows = given.max(1)
    columns = (given - rows[:, None]).max(0)

    def run(body: tuple[Any, ...]) -> dict[str, Any]:
        found = {n: np.zeros(s, np.float32) for n, s in (("rows", 9), ("columns", 10))}
        found["o"] = np.zeros((9, 10), np.float32)
        changed = replace(kernel, regions=((replace(grid, body=body),),))
        assert evaluate(changed, as_buffers(changed, {"a": given, **found})) is None
        return found

    found = run(grid.body)
    np.testing.assert_array_equal(found["rows"], rows)
    np.testing.assert_array_equal(found["columns"], columns)
    np.testing.assert_array_equal(found["o"], given - rows[:, None] - columns)
    for place, stmt in enumerate(grid.body):
        if isinstance(stmt, Barrier) and stmt.scope == GRID:
            with pytest.raises(InternalError, match=r": race at .* block \(.*\) writes it$"):
                run((*grid.body[:place], Barrier(), *grid.body[place + 1 :]))


def test_nothing_to_do() -> None:
    text = "def f(float(N) a) -> (o) { o(i) = a(i) }"
    assert traced(text, {"a": np.ones(0, np.float32)}, tc.Gpu(), options()).kernel.regions == ()


# --- how many blocks ------------------------------------------------------------------------------


def test_blocks_are_cut_to_those_that_run_at_a_time() -> None:
    """But only where they wait for each other."""
    (grid,) = grids(lowered(BACK, replace(tc.Gpu(), processors=20), tile=(1,)).kernel)
    assert blocks(grid) == 20 * 16
    (grid,) = grids(lowered(BACK, replace(FEW, processors=3), tile=(5,)).kernel)
    assert blocks(grid) == 12
    (grid,) = grids(lowered(BACK, FEW, tile=(5,), blocks=(3,)).kernel)
    assert blocks(grid) == 3
    alone = BACK.replace("N - 1 - i", "i")
    (grid,) = grids(traced(alone, {"a": np.ones(1000, np.float32)}, FEW, options(tile=(5,))).kernel)
    assert (blocks(grid), barriers(grid)) == (200, 0)


def test_blocks_by_threads_and_shared_memory() -> None:
    """Of two warps half as many run at a time; what all parts hold counts for each block."""
    (grid,) = grids(lowered(BACK, FEW, tile=(64,), threads=(64,)).kernel)
    assert blocks(grid) == 2
    held = tc.Gpu(processors=1, processor_shared=40 << 10, registers=1 << 20)
    given = {name: np.ones((64, 64), np.float32) for name in "AB"}
    kernel = traced(CHAIN, given, held, options(tile=(16, 16), threads=(16, 16))).kernel
    size = sum(prod(b.shape) * 4 for b in kernel.buffers if b.role == "shared")
    (grid,) = grids(kernel)
    assert blocks(grid) == (40 << 10) // (size + 1024)
    assert 1 < blocks(grid) < 16


def test_blocks_by_registers() -> None:
    """64 for each thread, and those of its tiles; a part of four has room for 256."""
    gpu = tc.Gpu(
        processors=1, registers=4 * 32 * 256, processor_threads=2048, processor_shared=1 << 20
    )
    (grid,) = grids(lowered(BACK, gpu, tile=(5,)).kernel)
    assert blocks(grid) == 4 * 4
    given = {"A": np.ones((48, 64), np.float32), "B": np.ones((64, 64), np.float32)}
    tiled = traced(CHAIN, given, gpu, options(tile=(16, 16), threads=(4, 4)))
    assert {t.shape for t in tiles(tiled.mapped.tree) if t.scope == "register"} == {(4, 4)}
    (grid,) = grids(tiled.kernel)
    assert blocks(grid) == 4 * 3
    narrow = replace(gpu, thread_registers=32)
    (grid,) = grids(lowered(BACK, narrow, tile=(5,)).kernel)
    assert blocks(grid) == 16  # blocks of a multiprocessor


def test_turns_are_few() -> None:
    """Of all ways to share blocks among axes: the fewest turns, one part after the other."""
    text = """def f(float(N,M) a, float(N) b) -> (c, d) {
      c(i,j) = a(i,j)
      d(i) = b(i)
    }"""
    scop = scop_of(text, N=60, M=32)
    first = [member(name, "S0", role="block", axis=axis) for name, axis in (("i", "y"), ("j", "x"))]
    second = member("i", "S1", role="block", axis="y")
    tree = Sequence((Band(tuple(first), True, Leaf("S0")), Band((second,), True, Leaf("S1"))))
    for most in (1, 2, 7, 31, 60, 64, 108, 1000, 10**6):
        found = fewer_blocks(tree, scop, most)

        def turns(y: int, x: int) -> int:
            return -(-60 // y) * -(-32 // x) + -(-60 // y)

        best = min(turns(y, x) for y in range(1, 61) for x in range(1, 33) if y * x <= most)
        assert found["x"] * found["y"] <= most
        assert turns(found["y"], found["x"]) == best


# --- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sweeps", "sweeps_in_turns"])
def test_tree(name: str, golden: Callable[[Path, str], None]) -> None:
    gpu = tc.Gpu() if name == "sweeps" else FEW
    mapped = lowered(SWEEPS, gpu, tile=(2, 2), threads=(2, 2)).mapped
    notes = "".join(f"\n{note}" for note in mapped.notes)
    golden(EXPECTED / f"{name}.txt", f"{to_text(mapped.tree)}\n{notes}\n")


def test_launches_tell_of_it() -> None:
    (launch,) = tc.emit(BACK, {"N": 1000}, backend="cuda", options=options()).launches  # type: ignore[attr-defined]
    assert str(launch) == ("back_0: 4 x 1 x 1 blocks of 256 x 1 x 1 threads (x, y, z), all at once")


# --- plans ----------------------------------------------------------------------------------------


def test_the_plan_given_back() -> None:
    for gpu in (tc.Gpu(), FEW):
        chosen = lowered(SWEEPS, gpu, tile=(2, 2), threads=(2, 2))
        again = tc.Plan.from_json(str(chosen.mapped.plan))
        assert lowered(SWEEPS, gpu, plan=again).kernel == chosen.kernel


def bound(count: int | None) -> tc.Plan:
    actions = (tc.plan.Bind("S0.i", "block", "x", count), tc.plan.Bind("S1.i", "block", "x", count))
    return tc.Plan((tc.plan.Part(("S0", "S1"), actions),))


def test_a_plan_with_too_many_blocks() -> None:
    (grid,) = grids(lowered(BACK, FEW, plan=bound(4)).kernel)
    assert (blocks(grid), barriers(grid)) == (4, 1)
    with pytest.raises(tc.BackendError) as caught:
        lowered(BACK, FEW, plan=bound(None))
    assert caught.value.cause == (
        'action 1 of the part S0, S1, {"bind": "S0.i", "role": "block", "axis": "x"}: '
        "1000 blocks that wait for each other, where the GPU runs 4 at a time"
    )
    repaired = lowered(BACK, FEW, plan=tc.Plan.from_json(caught.value.repair or ""))
    assert len(grids(repaired.kernel)) == 1


def test_a_plan_of_one_part_is_one_launch() -> None:
    """Without the option its blocks do not wait for each other, and it is refused."""
    plan = bound(4)
    wanted = replace(options(), plan=plan, gpu=tc.GpuOptions())
    with pytest.raises(tc.BackendError) as caught:
        traced(BACK, {"a": np.ones(1000, np.float32)}, tc.Gpu(), wanted)
    assert caught.value.cause.endswith(
        "S0(i=999) and S1(i=0), which touch one element of b, run in two blocks of one launch"
    )


def test_parts_of_a_plan_are_launches() -> None:
    plan = tc.Plan((tc.plan.Part(("S0",)), tc.plan.Part(("S1",))))
    with pytest.raises(tc.BackendError) as caught:
        lowered(BACK, tc.Gpu(), plan=plan)
    assert str(caught.value) == (
        "BackendError: single_kernel=True, but the program needs several launches: "
        "S0 and S1 are parts of the plan\n"
        "repair: GpuOptions(single_kernel=False)"
    )


# --- where blocks cannot wait ---------------------------------------------------------------------


def test_one_block_needs_no_other() -> None:
    for gpu in (tc.Gpu(), tc.Gpu(cooperative=False)):
        alone = lowered(BACK, gpu, blocks=(1,))
        (grid,) = grids(alone.kernel)
        assert (blocks(grid), barriers(grid)) == (1, 0)
        assert to_text(alone.mapped.tree).count("barrier") == 1


def test_a_gpu_whose_blocks_cannot_wait() -> None:
    with pytest.raises(tc.BackendError) as caught:
        lowered(BACK, tc.Gpu(cooperative=False))
    assert str(caught.value) == (
        "BackendError: single_kernel=True, but the program needs several launches: S0(i=0) and "
        "S1(i=999), which touch one element of b, run in two blocks of one launch\n"
        'repair: GpuOptions(single_kernel=False), or backend="cuda"'
    )


def test_opencl() -> None:
    """No device can, whichever there is."""
    with pytest.raises(tc.BackendError) as caught:
        tc.emit(BACK, {"N": 1000}, backend="opencl", options=options())
    assert caught.value.repair == 'GpuOptions(single_kernel=False), or backend="cuda"'
