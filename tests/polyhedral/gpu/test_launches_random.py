"""Trees mapped at random: with their barriers they may be launches, and run on `evaluate`; with any
one of these taken away they may not. What is chosen fails on `evaluate`, too."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tc.errors import InternalError
from tc.gpu import Gpu
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import BLOCK, GRID
from tc.options import GpuOptions, Options
from tc.plan import REGISTER
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import fault
from tc.polyhedral.codegen.context import LoweringError
from tc.polyhedral.codegen.generate import lower_schedule
from tc.polyhedral.gpu.barriers import place_barriers
from tc.polyhedral.gpu.gpu_target import gpu_target
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import respects
from tc.polyhedral.mapping import map_schedule
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import (
    ArrayTile,
    Node,
    Promotion,
    Sequence,
    Sync,
    in_order,
    nodes,
    to_text,
)
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.strategies.scheduler import schedule
from tests.fuzz.legal import Call
from tests.fuzz.strategies import SEEDS, calls
from tests.polyhedral.test_trees_random import is_exact, scop_or_none
from tests.support.launch_trees import mapped, without_each_barrier
from tests.support.pipeline import as_arrays
from tests.support.scops import PROGRAMS, Small
from tests.support.tree_edits import sunk, tiled

FEW = Gpu(processors=1, registers=4 * 32 * 256)
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FUSIONS = ("max", "min", "preserve3coincident")
NOT_ONE_LAUNCH = (
    "two blocks of one launch",
    "each with a buffer of its own",
    "of which each thread has its own",
)


def run(scop: Scop, tree: Node, inputs: Mapping[str, Any]) -> None:
    """Runs the kernel of a tree; InternalError where threads are in each other's way."""
    kernel = lower_schedule(scop, tree, {}, check=True, launches=True)
    arrays = {name: np.array(array, order="C") for name, array in inputs.items()}
    for buffer in kernel.buffers:
        if buffer.role == "output" or buffer.name in scop.initial:
            arrays.setdefault(buffer.name, np.ones(buffer.shape, buffer.dtype.numpy))
    evaluate(kernel, arrays)


def run_drawn(scop: Scop, tree: Node, inputs: Mapping[str, Any]) -> None:
    """As `run`. Threads without an instance fill their registers, too, with what they then drop:
    where others write that, no barrier is known to be needed."""
    try:
        run(scop, tree, inputs)
    except InternalError as error:
        held = {t.tensor for node in nodes(tree) for t in tiles_of(node) if t.scope == REGISTER}
        raced = re.search(r"race at (\w+)\[", str(error))
        if raced is None or raced[1] not in held:
            raise
        event("registers that are dropped")


def tiles_of(node: Node) -> tuple[ArrayTile, ...]:
    return node.tiles if isinstance(node, Promotion) else ()


def inputs_of(scop: Scop) -> dict[str, Any]:
    """Inputs of zeros and ones, which are in range wherever they index."""
    program, rng = scop.shaped.program, np.random.default_rng(0)
    return {
        name: rng.integers(0, 2, scop.shaped.shapes[name]).astype(program.tensors[name].dtype.numpy)
        for name in program.inputs
    }


def check_random(scop: Scop, inputs: Mapping[str, Any], rng: random.Random) -> None:
    dependences = compute_dependences(scop)
    tree = schedule(scop, dependences, rng.choice(FUSIONS), share_reductions=rng.random() < 0.5)
    size = rng.choice((None, 2, 3))
    if size is not None:
        tree = tiled(tree, size)
        tree = sunk(tree) if rng.random() < 0.5 else tree
    tree = mapped(tree, scop, rng)
    reason = respects(tree, dependences) or promotion_fault(tree, scop)
    assert reason is None, reason
    at_once = rng.random() < 0.4
    parts = (tree,) if at_once or rng.random() < 0.3 else in_order(tree)
    done = (place_barriers(part, dependences, of_grids=at_once) for part in parts)
    placed = Sequence(tuple(done))
    reason = launch_fault(placed, dependences)
    if reason is not None:
        assert reason.endswith(NOT_ONE_LAUNCH), f"{reason}\n{to_text(placed)}"
        event(reason[-24:])
        return
    barriers = [node.scope for node in nodes(placed) if isinstance(node, Sync)]
    event(f"{barriers.count(BLOCK)} barriers")
    event(f"{barriers.count(GRID)} barriers of a grid")
    for scope, less in zip(barriers, without_each_barrier(placed), strict=True):
        missing = "no barrier between" if scope == BLOCK else "two blocks of one launch"
        assert missing in str(launch_fault(less, dependences)), to_text(less)
    try:
        run_drawn(scop, placed, inputs)
    except LoweringError:
        event("no kernel")


@settings(suppress_health_check=QUIET)
@given(calls(100), SEEDS)
def test_generated_programs(case: Call, seed: int) -> None:
    scop = scop_or_none(case, given_outputs=False)
    if scop is not None:
        inputs = as_arrays(scop.shaped.program, case.inputs)
        check_random(scop, inputs, random.Random(seed))


@settings(suppress_health_check=QUIET)
@given(st.sampled_from(PROGRAMS), SEEDS)
def test_programs_of_the_table(small: Small, seed: int) -> None:
    scop = small.scop()
    check_random(scop, inputs_of(scop), random.Random(seed))


def sizes(most: int, *values: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    return st.none() | st.lists(st.sampled_from(values), min_size=1, max_size=most).map(tuple)


OPTIONS = st.builds(
    GpuOptions,
    tile=sizes(4, 1, 2, 3, 4, 8),
    blocks=sizes(3, 1, 2, 3, 8),
    threads=sizes(3, 1, 2, 3, 4, 8),
    shared=st.booleans(),
    private=st.booleans(),
    single_kernel=st.booleans(),
)


@settings(suppress_health_check=QUIET)
@given(st.sampled_from(PROGRAMS), OPTIONS, st.sampled_from([Gpu(), FEW]))
def test_chosen_mappings_need_each_barrier(small: Small, options: GpuOptions, gpu: Gpu) -> None:
    scop, wanted = small.scop(), Options(gpu=options)
    target = gpu_target(gpu).wanted(wanted)
    dependences, inputs = compute_dependences(scop), inputs_of(scop)
    tree = schedule(scop, dependences, "min" if options.single_kernel else "max")
    info = AccessInfo(scop, {}, check=True)
    placed = map_schedule(tree, info, dependences, target, wanted).tree
    assert fault(placed, dependences, target) is None, to_text(placed)
    run(scop, placed, inputs)
    barriers = [node.scope for node in nodes(placed) if isinstance(node, Sync)]
    event(f"{barriers.count(GRID)} barriers of a grid")
    every = zip(barriers, without_each_barrier(placed), strict=True)
    for scope, less in every if is_exact(scop) else ():
        if scope == BLOCK and options.single_kernel:
            continue  # which thread copies what another statement has written is not always known
        missing = "with no barrier between" if scope == BLOCK else "race at"
        with pytest.raises(InternalError, match=missing):
            run(scop, less, inputs)
