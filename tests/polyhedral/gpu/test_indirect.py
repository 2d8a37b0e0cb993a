"""Gathered reads in shared memory: what is promoted, what is refused, and that nothing is read but
what the program reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc.kernel.printer import to_text as kernel_text
from tc.options import GpuOptions, Options
from tc.plan import Bind, Part, Promote
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.promotion import promotion_fault
from tc.polyhedral.schedule import tiles, to_text
from tests.fuzz.gpu import gpus_with_options
from tests.polyhedral.gpu.gatherings import (
    AS_WRITTEN,
    PROGRAMS,
    SIZES,
    Gathering,
    check_results,
    gathered,
    lowered,
)
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, shaped, shaped_by
from tests.support.programs import TEXTS

PAPER = GpuOptions(
    tile=(4, 32), blocks=(100, 100), threads=(1, 32), unroll_copies=True, unroll=1024
)


def test_rows_of_a_table() -> None:
    """Appendix A.4 of the paper, for one table."""
    text = (TEXTS / "1LUT.tc").read_text(encoding="utf-8")
    shapes = {"LUT1": (10_000, 64), "I1": (128, 50)}
    lowering = trace_lowering(
        shaped_by(checked(text), shapes),
        {},
        device=tc.Gpu(),
        initial=frozenset(),
        check=False,
        options=Options(schedule=AS_WRITTEN, gpu=PAPER),
    )
    assert to_text(lowering.mapped.tree) == (
        "band [i div 4 block y *, j div 32 block x *, j mod 32 thread x *] permutable\n"
        "  promote O1 to register O1_acc[4x1] (copied out)\n"
        "    sequence\n"
        "      band [i mod 4 unroll *] permutable\n"
        "        S0.init\n"
        "      promote LUT1(I1(d0, d1), d2) to shared LUT1_shared[4x50x33] (copied in)\n"
        "        sequence\n"
        "          barrier\n"
        "          band [k] permutable\n"
        "            band [i mod 4 unroll *] permutable\n"
        "              S0"
    )
    assert kernel_text(lowering.marked) == (
        "kernel 1LUT\n"
        "  input LUT1: float32[10000, 64]\n"
        "  input I1: int32[128, 50]\n"
        "  output O1: float32[128, 64]\n"
        "  register O1_acc: float32[4, 1]\n"
        "  shared LUT1_shared: float32[4, 50, 33]\n"
        "region\n"
        "  # O1(i,j) +=! LUT1(I1(i,k),j)\n"
        "  blocks by in 0:32, bx in 0:2 of threads tx in 0:32\n"
        "    unroll for i0 in 0:4\n"
        "      O1_acc[i0, 0] = 0.0f\n"
        "    unroll for c2 in 0:4\n"
        "      unroll for c1 in 0:50\n"
        "        LUT1_shared[c2, c1, tx] = LUT1[int64(I1[by * 4 + c2, c1]), bx * 32 + tx]\n"
        "    barrier\n"
        "    for k in 0:50\n"
        "      unroll for i1 in 0:4\n"
        "        O1_acc[i1, 0] = O1_acc[i1, 0] + LUT1_shared[i1, k, tx]\n"
        "    unroll for c0 in 0:4\n"
        "      O1[by * 4 + c0, bx * 32 + tx] = O1_acc[c0, 0]"
    )


@pytest.mark.parametrize(
    ("shared", "held"),
    [
        (48 << 10, ["LUT1(I1(d0, d1), d2)", "I2"]),  # the other table's rows do not fit
        (100 << 10, ["LUT1(I1(d0, d1), d2)", "LUT2(I2(d0, d1), d2)"]),
    ],
)
def test_rows_of_two_tables(shared: int, held: list[str]) -> None:
    text = (TEXTS / "2LUT.tc").read_text(encoding="utf-8")
    rng = np.random.default_rng(0)
    arrays = {
        "LUT1": rng.integers(-4, 5, (10_000, 64)).astype(np.float32),
        "I1": rng.integers(0, 10_000, (128, 50)).astype(np.int32),
        "LUT2": rng.integers(-4, 5, (10_000, 64)).astype(np.float32),
        "I2": rng.integers(0, 10_000, (128, 50)).astype(np.int32),
    }
    lowering = lowered(text, arrays, PAPER, tc.Gpu(shared=shared))
    found = [tile.tensor for tile in tiles(lowering.mapped.tree) if tile.scope == "shared"]
    assert found == held
    program = Gathering(
        text, lambda a: (a["LUT1"][a["I1"]].sum(1), a["LUT2"][a["I2"]].sum(1)), below={}
    )
    check_results(program, lowering, arrays)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_held(name: str) -> None:
    program = PROGRAMS[name]
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays)
    assert gathered(lowering) == program.held
    check_results(program, lowering, arrays)


def test_nothing_is_held_on_demand() -> None:
    program = PROGRAMS["rows"]
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays, GpuOptions(shared=False))
    assert list(tiles(lowering.mapped.tree)) == [
        tile for tile in tiles(lowering.mapped.tree) if tile.scope == "register"
    ]
    check_results(program, lowering, arrays)


def test_reads_that_are_tested_stay_in_memory() -> None:
    program = PROGRAMS["rows"]
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays, check=True)
    assert gathered(lowering) == ()
    check_results(program, lowering, arrays)


def test_reads_that_are_proven_need_no_test() -> None:
    text = "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k) % E,j) }"
    program = Gathering(text, lambda a: a["T"][a["I"]].sum(1))
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays, check=True)
    assert gathered(lowering) == ("T(I(d0, d1) % 21, d2)",)
    check_results(program, lowering, arrays)


def test_what_an_earlier_launch_wrote_is_held() -> None:
    program = PROGRAMS["written in the same launch"]
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays, fusion="min")
    assert gathered(lowering) == ("T(J(d0, d1), d2)",)
    check_results(program, lowering, arrays)


def test_copies_follow_memory() -> None:
    """Of tensors whose columns are contiguous, each of four threads finds another place, in as many
    columns as there are threads for."""
    program = PROGRAMS["rows"]
    every = Options(schedule=AS_WRITTEN, gpu=GpuOptions(tile=(4, 32)))
    lowering = trace_lowering(
        shaped(checked(program.text), program.arrays(SIZES)),
        {"T": (1, SIZES["E"]), "I": (1, SIZES["B"])},
        device=tc.Gpu(),
        initial=frozenset(),
        check=False,
        options=every,
    )
    assert gathered(lowering) == program.held
    assert _copy(lowering) == (
        "T_shared[t0, c0, t2] = by * 4 + t0 < 9 && bx * 32 + t2 < 33 ? "
        "T[int64(I[by * 4 + t0, c0]), bx * 32 + t2] : 0.0f"
    )


def _copy(lowering: Lowering) -> str:
    (line,) = (t for t in kernel_text(lowering.marked).split("\n") if " = " in t and " T[" in t)
    return line.strip()


def test_places_of_what_does_not_fit_are_held() -> None:
    program = PROGRAMS["nested"]
    arrays = program.arrays(SIZES)
    lowering = lowered(program.text, arrays, GpuOptions(tile=(4, 32)), tc.Gpu(shared=512))
    assert gathered(lowering) == ("J(I(d0, d1))",)
    check_results(program, lowering, arrays)


def test_beyond_the_range_nothing_is_taken_for_a_place() -> None:
    """The tile of I has rows that the program does not read."""
    program = PROGRAMS["edges"]
    arrays = program.arrays({**SIZES, "B": 10})
    options = GpuOptions(tile=(3, 8), threads=(1, 8))
    lowering = lowered(program.text, arrays, options, tc.Gpu(shared=64))
    found = [tile.tensor for tile in tiles(lowering.mapped.tree) if tile.scope == "shared"]
    assert found == ["I"]
    check_results(program, lowering, arrays)


@given(st.sampled_from(list(PROGRAMS)), gpus_with_options(), st.integers(0, 99))
def test_any_options(name: str, device: tuple[tc.Gpu, GpuOptions], seed: int) -> None:
    program, (gpu, options) = PROGRAMS[name], device
    rng = np.random.default_rng(seed)
    sizes = {size: int(rng.integers(5, 12)) for size in SIZES}
    sizes["D"] += sizes["L"]
    arrays = program.arrays(sizes, seed)
    options = replace(options, single_kernel=False)  # which some of them cannot be
    check_results(program, lowered(program.text, arrays, options, gpu), arrays)


# --- plans --------------------------------------------------------------------------------------

ROWS = PROGRAMS["rows"].text
WRITTEN = PROGRAMS["written in the same launch"].text
BRANCH = PROGRAMS["in a branch"].text
APART = (
    "def f(float(E,D) T, int32(B,B) I) -> (O) { O(i,j) +=! T(I(i,i+k),j) where k in 0:3, i in 0:4 }"
)
GAPS = (
    "def f(float(E,D) T, int32(B) I) -> (O) "
    "{ O(i,j) +=! T(I(i),j) * T(I(i+5),j) where i in 0:3, k in 0:2 }"
)


def test_a_plan_holds_what_is_gathered() -> None:
    promote = Promote("T(I(d0, d1), d2)", "shared", "i", axes=[[2, 1], [0, 1], [1, 1]], pitch=9)
    program = PROGRAMS["rows"]
    arrays = program.arrays(SIZES)
    actions = (Bind("i", "block", "x"), Bind("j", "thread", "x"), promote)
    plan = tc.Plan([Part(("S0.init", "S0"), actions)])
    lowering = lowered(program.text, arrays, plan)
    assert lowering.mapped.plan == tc.Plan.from_json(str(plan)) == plan
    assert _copy(lowering) == "T_shared[tx, 0, c0] = T[int64(I[bx, c0]), tx]"
    check_results(program, lowering, arrays)


HOLD = Promote("T(I(d0, d1), d2)", "shared", "i")
UNREAD = "in between are elements that the program does not read, at places that may be none"
REFUSED = {
    "in registers": (
        ROWS,
        replace(HOLD, scope="register"),
        "what is gathered lies in shared memory alone",
    ),
    "in a branch": (
        BRANCH,
        replace(HOLD, tensor="T(I(d0, d1) + 1, d2)"),
        "a branch of ?:, && or || may leave it out",
    ),
    "apart": (APART, HOLD, UNREAD),
    "gaps": (GAPS, replace(HOLD, tensor="T(I(d0), d1)"), UNREAD),
    "written": (
        WRITTEN,
        replace(HOLD, tensor="T(J(d0, d1), d2)"),
        "S0, of the same part, writes J",
    ),
}


def refusal(text: str, promote: Promote, *, check: bool = False) -> tc.BackendError:
    """The error, whose repair works, of a plan for a program of one part."""
    program = Gathering(text, lambda a: a)
    arrays = program.arrays(SIZES)
    (part,) = lowered(text, arrays).mapped.plan.parts
    with pytest.raises(tc.BackendError) as refused:
        lowered(text, arrays, tc.Plan([replace(part, actions=(promote,))]), check=check)
    assert refused.value.repair is not None
    lowered(text, arrays, tc.Plan.from_json(refused.value.repair), check=check)
    return refused.value


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_is_refused(name: str) -> None:
    text, promote, reason = REFUSED[name]
    error = refusal(text, promote)
    assert error.cause.endswith(f"{promote.tensor} cannot be promoted inside of i: {reason}")


def test_reads_that_are_tested_are_not_held() -> None:
    error = refusal(ROWS, HOLD, check=True)
    assert error.cause == (
        'action 1 of the part S0.init, S0, {"promote": "T(I(d0, d1), d2)", "scope": "shared", '
        '"inside": "i"}: T(I(d0, d1), d2) cannot be promoted inside of i: whether it is in bounds '
        "is tested at each read (G7)"
    )


def test_what_is_gathered_has_a_name() -> None:
    error = refusal(ROWS, replace(HOLD, tensor="T(I(i,k),j)"))
    assert error.cause == (
        'action 1 of the part S0.init, S0, {"promote": "T(I(i,k),j)", "scope": "shared", '
        '"inside": "i"}: nothing touches a tensor \'T(I(i,k),j)\' there; there are I, O, T, '
        "T(I(d0, d1), d2)"
    )
    assert error.repair == str(tc.Plan([Part(("S0.init", "S0"), (HOLD,))]))


def test_a_tree_that_holds_what_its_launch_writes_is_at_fault() -> None:
    program = PROGRAMS["rows"]
    lowering = lowered(program.text, program.arrays(SIZES))
    scop = lowering.scop
    target = scop.gathers["T(I(d0, d1), d2)"]
    written = replace(target, value=replace(target.value, tensor="O"))
    other = replace(scop, gathers={"T(I(d0, d1), d2)": written})
    assert promotion_fault(lowering.mapped.tree, scop) is None
    assert promotion_fault(lowering.mapped.tree, other) == (
        "T(I(d0, d1), d2) cannot lie in T_shared there: S0.init, of the same part, writes O"
    )
