"""Generated contractions and convolutions on generated GPUs: the plans that tc chooses are right on
the machine of blocks and threads, which finds races, and as machine code; decisions break none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.kernel.evaluate import evaluate
from tc.pipeline import target_of
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.polyhedral.target import Decisions
from tests.fuzz.contractions import Contraction, contraction
from tests.fuzz.gpu import random_gpu
from tests.support.bounds import as_tuple, assert_computes
from tests.support.pipeline import as_arrays, checked, shaped
from tests.support.ptx.texts import run_text

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
LARGE = (tc.Gpu(), tc.Gpu.named("sm_90"))


def drawn_gpu(rng: random.Random) -> tc.Gpu:
    """Large, of few multiprocessors with small blocks, or of any limits."""
    kind = rng.randrange(5)
    if kind < 2:
        return rng.choice(LARGE)
    if kind == 2:
        return tc.Gpu(**random_gpu(rng))
    threads, shared = rng.choice((16, 64, 128, 256)), rng.choice((256, 2048, 16384, 49152))
    return tc.Gpu(processors=rng.choice((1, 2, 8)), threads=threads, shared=shared)


def options_of(single_kernel: bool) -> tc.Options:
    if not single_kernel:
        return tc.Options()
    return tc.Options(
        gpu=tc.GpuOptions(single_kernel=True), schedule=tc.ScheduleOptions(fusion="min")
    )


def lowered(
    case: Contraction, gpu: tc.Gpu, wanted: dict[str, str], options: tc.Options
) -> tuple[Decisions, Lowering]:
    program, decisions = checked(case.text), Decisions(wanted)
    shape = shaped(program, as_arrays(program, dict(case.arrays)))
    target = replace(target_of(gpu), decider=decisions) if wanted else target_of(gpu)
    return decisions, trace_lowering(
        shape, {}, target, initial=frozenset(), check=True, options=options
    )


def check(case: Contraction, lowering: Lowering) -> None:
    """Runs the kernel on the machine of blocks and threads."""
    kernel = lowering.kernel
    buffers: dict[str, Any] = {
        b.name: case.arrays[b.name].reshape(b.shape)
        if b.role == "input"
        else np.ones(b.shape, b.dtype.numpy)
        for b in kernel.arguments
    }
    assert evaluate(kernel, buffers) is None
    assert_results(case, buffers)


def assert_results(case: Contraction, buffers: dict[str, Any]) -> None:
    arrays = list(case.arrays.values())
    shapes = [np.shape(each) for each in as_tuple(tc.interpret(case.text, arrays))]
    outputs = zip(checked(case.text).outputs, shapes, strict=True)
    assert_computes(case.text, arrays, tuple(buffers[o].reshape(shape) for o, shape in outputs))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(90))
def test_default_plans(seed: int) -> None:
    case, rng = contraction(seed, 3000), random.Random(seed)
    gpu = drawn_gpu(rng)
    single_kernel = gpu.cooperative and rng.random() < 0.25
    _, lowering = lowered(case, gpu, {}, options_of(single_kernel))
    check(case, lowering)


def test_threads_share_no_rows_where_their_sums_have_no_room() -> None:
    """Of S1, 5 threads along y run w, and so the 16 threads along x that share a row of S0 need
    space for 5 times as many sums."""
    case, gpu = contraction(1490, 3000), drawn_gpu(random.Random(1490))
    _, lowering = lowered(case, gpu, {}, options_of(single_kernel=True))
    assert any("threads share no rows: 320 bytes" in note for note in lowering.mapped.notes)
    check(case, lowering)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_machine_code(seed: int) -> None:
    """Of texts for arrays at multiples of 16 bytes."""
    case = contraction(seed, 1000)
    text = tc.emit(case.text, list(case.arrays.values()), backend="cuda", device=tc.Gpu())
    failure, found = run_text(text, case.arrays)
    assert failure is None
    assert_results(case, found)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(2000, 2030))
def test_decisions(seed: int) -> None:
    """Each of those that others lead to, taken at random."""
    case, rng = contraction(seed, 2000), random.Random(seed)
    gpu, options = drawn_gpu(rng), tc.Options()
    wanted = {"none": "0"}
    for _ in range(3):
        decisions, lowering = lowered(case, gpu, wanted, options)
        for name, asked in decisions.asked.items():
            if rng.random() < 0.4:
                wanted.setdefault(name, rng.choice(asked.values))
    _, lowering = lowered(case, gpu, wanted, options)
    check(case, lowering)


def case_of(text: str, **shapes: tuple[int, ...]) -> Contraction:
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return Contraction(text, arrays)


@pytest.mark.parametrize("ones", ["k", "l", "m", "kl", "km", "lm", "klm", ""])
def test_steps_of_one_iteration(ones: str) -> None:
    """Loops of a reduction with one iteration are parallel, and have no part in tiles of steps."""
    k, *window = (1 if name in ones else 3 for name in "klm")
    text = """def f(float(K,H,W) I, float(K,L,M) F) -> (O) {
  O(h,w) +=! I(k, h + l, w + m) * F(k,l,m)
}"""
    case = case_of(text, I=(k, 8 + window[0], 39 + window[1]), F=(k, *window))
    for gpu in LARGE:
        check(case, lowered(case, gpu, {}, tc.Options())[1])


@pytest.mark.parametrize("threads", [16, 64, 256])
@pytest.mark.parametrize("shape", [(3, 5, 6, 7), (2, 23, 4, 17), (5, 4, 4, 4)])
def test_threads_of_several_loops_of_a_launch(
    threads: int, shape: tuple[int, int, int, int]
) -> None:
    """A block has as many threads along each axis as one of the loops that it runs needs."""
    text = """def f(float(N,H,W,M) A, float(M,G) B, float(G,U) D) -> (C, P, O) {
  C(n,h,w,g) +=! A(n,h,w,m) * B(m,g)
  P(n,w,h,g) = C(n,h,w,g) + 1
  O(n,h,w,u) +=! C(n,h,w,g) * D(g,u)
}"""
    n, h, w, g = shape
    case = case_of(text, A=(n, h, w, 5), B=(5, g), D=(g, 11))
    gpu = tc.Gpu(processors=1, threads=threads)
    check(case, lowered(case, gpu, {}, options_of(True))[1])
