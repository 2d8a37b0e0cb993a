"""The pipeline as a whole: what must become vectors and locals does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.errors import InternalError
from tc.kernel.folding import binary
from tc.kernel.ir import (
    Binary,
    Buffer,
    Compare,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Reduce,
    Select,
    Set,
    Store,
    Var,
)
from tc.kernel.pass_manager import Pass, PassContext, run_passes, trace_passes
from tc.kernel.passes.pass_list import PASSES
from tests.kernel.marked import (
    NAMES,
    UNMARKING,
    all_expressions,
    all_statements,
    assert_same,
    finish,
    lines,
    loops,
    run,
    tiled_matmul,
)
from tests.kernel.marked_strategies import marked_kernels
from tests.support.build import add, dense, loop, times, var
from tests.support.work import calls

F32 = FLOAT32
finish_512 = partial(finish, lanes_bits=512)


def test_matmul_becomes_vectors_and_locals() -> None:
    kernel = tiled_matmul(16, 3, 64)
    finished = assert_same(kernel, finish_512)
    assert [b.name for b in finished.buffers] == ["A", "B", "C"]
    assert loops(finished) == ["i0", "j0", "k"]
    accumulators = {f"acc_{row}_{vector}" for row in range(8) for vector in range(2)}
    assert accumulators == {
        stmt.var
        for stmt in all_statements(finished)
        if isinstance(stmt, Set) and stmt.value.dtype == F32.vector(16)
    }
    lets = {s.var: s.value for s in all_statements(finished) if isinstance(s, Let)}
    assert all(lets[name] == Const(0.0, F32.vector(16)) for name in accumulators)
    stores = [stmt for stmt in all_statements(finished) if isinstance(stmt, Store)]
    assert len(stores) == 16
    assert all(isinstance(s.value, Var) and s.mask is None for s in stores)


def test_matmul_with_tails() -> None:
    """Full columns of vectors are found by the bounds of the loops, rows and lanes guarded."""
    finished = assert_same(tiled_matmul(19, 3, 50), finish_512)
    assert loops(finished) == ["i0", "j0", "k"]
    stores = [stmt for stmt in all_statements(finished) if isinstance(stmt, Store)]
    assert all(isinstance(s.value, Var) for s in stores)
    text = lines(finished)
    first = text.index("    C[i0 * 8, j0 * 32:j0 * 32 + 16] = acc_0_0")
    tail = "j0 * 32 + 16:j0 * 32 + 32 if m16"
    assert text[first : first + 4] == [
        "    C[i0 * 8, j0 * 32:j0 * 32 + 16] = acc_0_0",
        "    let m16: boolx16 = int64x16.ramp(j0 * 32 + 16, 1) < int64x16(50)",
        f"    C[i0 * 8, {tail}] = acc_0_1",
        "    C[i0 * 8 + 1, j0 * 32:j0 * 32 + 16] = acc_1_0",
    ]
    assert text[-3:] == [
        "    if i0 * 8 < 12",
        "      C[i0 * 8 + 7, j0 * 32:j0 * 32 + 16] = acc_7_0",
        f"      C[i0 * 8 + 7, {tail}] = acc_7_1",
    ]


def test_what_rows_have_in_common_is_read_once() -> None:
    finished = assert_same(tiled_matmul(4, 3, 32, height=2), finish_512)
    text = lines(finished)
    assert text[text.index("    for k in 0:3") :][:9] == [
        "    for k in 0:3",
        "      let A_1: float32x16 = float32x16(A[i0 * 2, k])",
        "      let B_1: float32x16 = B[k, j0 * 32:j0 * 32 + 16]",
        "      acc_0_0 = acc_0_0 + A_1 * B_1",
        "      let B_2: float32x16 = B[k, j0 * 32 + 16:j0 * 32 + 32]",
        "      acc_0_1 = acc_0_1 + A_1 * B_2",
        "      let A_2: float32x16 = float32x16(A[i0 * 2 + 1, k])",
        "      acc_1_0 = acc_1_0 + A_2 * B_1",
        "      acc_1_1 = acc_1_1 + A_2 * B_2",
    ]


def test_matmul_of_vectors_that_are_no_power_of_two() -> None:
    """The tail of the lanes is no reason to keep the values of before: each local is set once."""
    finished = assert_same(tiled_matmul(4, 3, 13, height=2, vectors=1, lanes=13), finish_512)
    text = lines(finished)
    assert "    let acc_0_0: float32x16 = float32x16(0.0)" in text
    sets = [stmt for stmt in all_statements(finished) if isinstance(stmt, Set)]
    assert all(isinstance(s.value, Binary) for s in sets)


def row_sum(rows: int, columns: int) -> Kernel:
    """Four accumulators of 16 lanes, combined at the end."""
    u, l, k = var("u"), var("l"), var("k")  # noqa: E741
    place = add(times(k, 64), times(u, 16), l)
    cell = Load("acc", (u, l), F32)
    total = Load("acc", (Const(0, INT64), l), F32)
    for n in range(1, 4):
        total = binary("+", total, Load("acc", (Const(n, INT64), l), F32))  # type: ignore[assignment]

    def each(stmt: Store | If) -> For:
        return loop("u", 4, loop("l", 16, stmt, mark="vector"), mark="unroll")

    element = Load("x", (var("i"), place), F32)
    body = (
        each(Store("acc", (u, l), Const(0.0, F32))),
        loop("k", columns // 64, each(Store("acc", (u, l), Binary("+", cell, element, F32)))),
        Let("s", Const(0.0, F32)),
        loop("l", 16, Set("s", Binary("+", Var("s", F32), total, F32)), mark="vector"),
        Store("o", (var("i"),), Var("s", F32)),
    )
    buffers = (
        dense("x", F32, (rows, columns), "input"),
        dense("o", F32, (rows,), "output"),
        dense("acc", F32, (4, 16), "register"),
    )
    return Kernel("sum", buffers, ((loop("i", rows, *body, parallel=True),),))


def test_row_sum() -> None:
    finished = assert_same(row_sum(3, 128), finish_512)
    assert lines(finished) == [
        "parallel for i in 0:3",
        *(f"  let acc_{n}_0: float32x16 = float32x16(0.0)" for n in range(4)),
        "  for k in 0:2",
        "    acc_0_0 = acc_0_0 + x[i, k * 64:k * 64 + 16]",
        "    acc_1_0 = acc_1_0 + x[i, k * 64 + 16:k * 64 + 32]",
        "    acc_2_0 = acc_2_0 + x[i, k * 64 + 32:k * 64 + 48]",
        "    acc_3_0 = acc_3_0 + x[i, k * 64 + 48:k * 64 + 64]",
        "  let s: float32 = 0.0f",
        "  s = s + reduce(+, acc_0_0 + acc_1_0 + acc_2_0 + acc_3_0)",
        "  o[i] = s",
    ]
    assert sum(isinstance(e, Reduce) for e in all_expressions(finished)) == 1


@pytest.mark.parametrize("bits", [0, 128, 256, 512])
def test_any_width(bits: int) -> None:
    for kernel in (tiled_matmul(9, 2, 37, height=4), row_sum(2, 64)):
        finished = assert_same(kernel, partial(finish, lanes_bits=bits))
        has_vectors = any(e.dtype.lanes > 1 for e in all_expressions(finished))
        assert has_vectors == (bits > 0)


def test_registers_are_scratch_where_loops_stay() -> None:
    """Without vectors, or beyond the limit of unrolling."""
    for change in (
        partial(finish, lanes_bits=0),
        partial(finish, lanes_bits=512, unroll_limit=7),
    ):
        finished = assert_same(tiled_matmul(8, 2, 32), change)
        assert [b.role for b in finished.buffers if b.name == "acc"] == ["scratch"]


def test_each_result_of_a_pass_does_the_same() -> None:
    kernel = tiled_matmul(8, 2, 32)
    context = PassContext(lanes_bits=512, fma=True)
    found = list(trace_passes(kernel, context, UNMARKING))
    assert [result.of for result in found] == [p for p in UNMARKING if p.when(context)]
    assert found[-1].kernel == finish(kernel, lanes_bits=512)
    for before, result in zip([kernel, *(r.kernel for r in found)], found, strict=False):
        assert result.before is before
        assert result.is_changed == (result.kernel is not before)
        assert_same(kernel, lambda _, result=result: result.kernel)  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_pass_breaks_is_found_behind_it(name: str) -> None:
    """The kernel is verified after each pass that changes something."""
    before, wrong = dense("x", FLOAT32, (3,), "input"), Set("no", Const(0.0, F32))
    kernel = Kernel("k", (before,), ((loop("i", 3),),))
    broken = Pass(name, "", lambda made, _: replace(made, regions=((wrong,),)))
    passes = [broken if each.name == name else each for each in PASSES]
    context = PassContext(lanes_bits=512, fma=True)
    with pytest.raises(InternalError, match="'no' is not declared here"):
        run_passes(kernel, context, passes)


@pytest.mark.parametrize("bits", [0, 512])
def test_finished_kernels_stay_the_same_object(bits: int) -> None:
    """An unchanged kernel stays the same object, so it is not verified again, and shown as
    unchanged."""
    context = PassContext(lanes_bits=bits, fma=True)
    done = run_passes(tiled_matmul(19, 3, 50), context, PASSES)
    again = [result.of.name for result in trace_passes(done, context, PASSES) if result.is_changed]
    assert not again


def test_a_kernel_without_marks_stays() -> None:
    x = Load("x", (var("i"),), BOOL)
    body = Store("o", (var("i"),), x)
    buffers = (dense("x", BOOL, (3,), "input"), dense("o", BOOL, (3,), "output"))
    kernel = Kernel("copy", buffers, ((loop("i", 3, body, parallel=True),),))
    assert finish(kernel, lanes_bits=512) is kernel
    run(kernel)


def test_passes_work_in_proportion() -> None:
    """Four times the statements take about four times the work."""
    work = {}
    for height in (6, 24):
        kernel = tiled_matmul(48, 64, 96, height=height)
        work[height] = calls(lambda kernel=kernel: finish(kernel, lanes_bits=512))  # type: ignore[misc]
    assert work[24] < 5 * work[6]


# --- Finished kernels do what the marked ones do: random nests, every width of vectors.


@given(
    made=marked_kernels(),
    bits=st.sampled_from([128, 256, 512]),
    limit=st.sampled_from([4096, 4096, 12]),
)
def test_finished_kernels_give_the_same(
    made: tuple[Kernel, tuple[str, ...]], bits: int, limit: int
) -> None:
    kernel, lanes = made
    finished = assert_same(kernel, partial(finish, lanes_bits=bits, unroll_limit=limit))
    assert not set(loops(finished)) & set(lanes)
    if limit == 4096:
        assert not any(buffer.role == "register" for buffer in finished.buffers)


@given(made=marked_kernels())
def test_without_vectors(made: tuple[Kernel, tuple[str, ...]]) -> None:
    assert_same(made[0], partial(finish, lanes_bits=0))


def test_sums_of_loops_without_vectors_may_have_locals() -> None:
    """A load that stands in a term twice is a local of the loop, which is marked no more."""
    zero, x, load = Const(0, INT64), Var("x", INT64), Load("a", (Const(3, INT64),), INT64)
    term = Binary("+", load, load, INT64)
    lanes = For("l", zero, Const(4, INT64), (Set("x", Binary("+", x, term, INT64)),), mark="vector")
    loop = For("c", zero, Const(3, INT64), (lanes,))
    buffers = (Buffer("a", INT64, (5,), (1,), "input"), Buffer("o", INT64, (1,), (1,), "output"))
    kernel = Kernel("sums", buffers, ((Let("x", zero), loop, Store("o", (zero,), x)),))
    assert_same(kernel, partial(finish, lanes_bits=0))


def test_terms_that_a_guard_makes_0_are_gone() -> None:
    """To set a local to itself is no sum of the lanes of a vector."""
    zero, i, x = Const(0, INT64), Var("i", INT64), Var("x", INT64)
    term = Select(Compare("<", i, Const(3, INT64), BOOL), zero, i, INT64)
    lanes = For("l", zero, Const(1, INT64), (Set("x", Binary("+", x, term, INT64)),), mark="vector")
    loop = For("c", zero, Const(3, INT64), (lanes,))
    body = (Let("x", zero), loop, Store("o", (i,), x))
    kernel = Kernel(
        "sums",
        (Buffer("o", INT64, (4,), (1,), "output"),),
        ((For("i", zero, Const(4, INT64), body),),),
    )
    assert_same(kernel, partial(finish, lanes_bits=128))


@pytest.mark.slow
@settings(max_examples=3000)
@given(made=marked_kernels())
def test_every_stage_gives_the_same(made: tuple[Kernel, tuple[str, ...]]) -> None:
    kernel, _ = made
    failure, outputs = run(kernel)
    for result in trace_passes(kernel, PassContext(lanes_bits=512, fma=True), UNMARKING):
        other, found = run(result.kernel)
        assert other == failure
        for name, output in outputs.items():
            assert found[name].tobytes() == output.tobytes()
