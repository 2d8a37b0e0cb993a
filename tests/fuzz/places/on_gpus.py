"""Cases on the machine of blocks and threads, which finds races, for GPUs of many sizes; with terms
of scatters compared with all places, or sorted, in passes of all kinds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import tc
from tc.gpu import Gpu
from tc.kernel.evaluate import evaluate
from tc.polyhedral.gpu.gpu_target import GpuTarget, gpu_target
from tc.polyhedral.lowering import trace_lowering
from tc.polyhedral.rewrite.thresholds import AtomicCosts, SortCosts
from tc.semantics.ranges.range_inference import infer_ranges
from tests.fuzz.gpu import random_gpu, random_gpu_options
from tests.support.pipeline import as_arrays, as_buffers, checked

Arrays = Mapping[str, Any]

ALWAYS = SortCosts(launches=0, moved=-(1 << 40))
"""Whatever can be sorted is."""


def sorting(target: GpuTarget, costs: SortCosts | None = ALWAYS) -> GpuTarget:
    return replace(target, rewriting=replace(target.rewriting, sorting=costs))


def meeting(target: GpuTarget, rng: random.Random) -> GpuTarget:
    """Integers that may meet in memory do, in few parts or many, where blocks have room for their
    targets, or none."""
    costs = AtomicCosts(
        launch=-(1 << 40),
        shared=rng.choice((0, 8, target.device.shared)),
        blocks=rng.choice((1, 2, 64)),
        least=rng.choice((1, 3, 64)),
        filled=0,
    )
    return replace(target, rewriting=replace(target.rewriting, atomics=costs))


def options_of(seed: int, gpu: Gpu) -> tc.Options:
    """Options, by default those of half of the cases."""
    rng = random.Random(seed)
    chosen = random_gpu_options(rng, gpu, may_round=False)
    return (
        tc.Options(gpu=replace(chosen, single_kernel=False)) if rng.random() < 0.5 else tc.Options()
    )


def target_of(seed: int) -> GpuTarget:
    """A GPU, and how it sorts."""
    rng = random.Random(seed)
    fields = random_gpu(rng)
    target = gpu_target(Gpu(**fields))
    chunks = (rng.choice((1, 2, 3, 8, 64)),)
    counted = rng.choice((-(1 << 20), 1 << 20))  # few long digits, or many short ones
    costs = replace(ALWAYS, chunks=chunks, counted=counted, summed=rng.choice((2, 3, 64)))
    target = sorting(target, rng.choice((None, costs, costs)))
    return meeting(target, rng) if rng.random() < 0.5 else target


def evaluated_on_gpu(
    text: str,
    inputs: Arrays,
    outputs: Arrays | None,
    target: GpuTarget,
    options: tc.Options | None = None,
    entry: str | None = None,
) -> dict[str, Any]:
    """The outputs, for data that break no rule."""
    program = checked(text, entry)
    arrays = {n: np.array(a, order="C") for n, a in as_arrays(program, inputs).items()}
    given = {name: array.copy() for name, array in (outputs or {}).items()}
    scalars = {name: int(arrays[name]) for name in program.static_scalars}
    shapes, passed = ({n: np.shape(a) for n, a in d.items()} for d in (arrays, given))
    shaped = infer_ranges(program, {n: shapes[n] for n in program.inputs}, scalars, passed)
    for name in program.outputs:
        dtype = program.tensors[name].dtype.numpy
        arrays[name] = given.get(name, np.empty(shaped.shapes[name], dtype))
    initial = frozenset(given)
    found = trace_lowering(shaped, {}, target, initial=initial, check=False, options=options)
    assert evaluate(found.kernel, as_buffers(found.kernel, arrays)) is None
    return {name: arrays[name] for name in program.outputs}
