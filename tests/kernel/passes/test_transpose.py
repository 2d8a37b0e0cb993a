"""Nests marked "transpose" become shuffles between loads and stores of vectors."""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce
from itertools import product

import pytest

from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT64, UINT8, DType
from tc.kernel.folding import FALSE, integer, logical_and, select
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Shuffle,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.copies import transpose
from tc.kernel.verify import verify
from tests.kernel.marked import all_expressions, all_statements, assert_same, lines, loops
from tests.support.build import add, dense, less, loop, times, var

I, J, K = var("i"), var("j"), var("k")  # noqa: E741


def block(
    rows: int,
    columns: int,
    dtype: DType = FLOAT32,
    *,
    height: int | None = None,
    width: int | None = None,
) -> Kernel:
    """o[j, i] = a[i, j] for a block of i and j, the tensor being smaller where guarded."""
    height, width = height or rows, width or columns
    stmt: Stmt = Store("o", (J, I), Load("a", (I, J), dtype))
    tests = [less(v, n) for v, n, m in ((I, height, rows), (J, width, columns)) if n < m]
    if tests:
        stmt = If(reduce(logical_and, tests), (stmt,))
    nest = loop("i", rows, loop("j", columns, stmt), mark="transpose")
    buffers = (
        dense("a", dtype, (height, width), "input"),
        dense("o", dtype, (width, height), "output"),
    )
    return Kernel("k", buffers, ((nest,),))


def transposed(kernel: Kernel, bits: int = 512) -> Kernel:
    return assert_same(kernel, partial(transpose, lanes_bits=bits))


def count(kernel: Kernel, kind: type) -> int:
    lets = [stmt.value for stmt in all_statements(kernel) if isinstance(stmt, Let)]
    return sum(isinstance(value, kind) for value in lets)


@pytest.mark.parametrize(
    ("size", "dtype", "bits", "shuffles"),
    [
        (16, FLOAT32, 512, 64),
        (8, FLOAT64, 512, 24),
        (8, FLOAT32, 256, 24),
        (4, FLOAT64, 256, 8),
        (4, FLOAT32, 128, 8),
        (2, INT64, 128, 2),
        (16, UINT8, 128, 64),
        (16, UINT8, 512, 64),
        (32, DTYPES["int16"], 512, 160),
        (16, BOOL, 128, 64),
    ],
    ids=str,
)
def test_square_blocks(size: int, dtype: DType, bits: int, shuffles: int) -> None:
    changed = transposed(block(size, size, dtype), bits)
    assert count(changed, Shuffle) == shuffles
    assert not loops(changed)
    stores = [stmt for stmt in all_statements(changed) if isinstance(stmt, Store)]
    assert len(stores) == size
    assert all(store.mask is None for store in stores)


@pytest.mark.parametrize("source", [FLOAT16, FLOAT32])
def test_halves_are_exchanged_as_floats(source: DType) -> None:
    target = FLOAT32 if source == FLOAT16 else FLOAT16
    stmt = Store("o", (J, I), Cast(Load("a", (I, J), source), target))
    nest = loop("i", 4, loop("j", 4, stmt), mark="transpose")
    buffers = (dense("a", source, (4, 4), "input"), dense("o", target, (4, 4), "output"))
    changed = transposed(Kernel("k", buffers, ((nest,),)))
    shuffles = [e.dtype for e in all_expressions(changed) if isinstance(e, Shuffle)]
    assert shuffles == [FLOAT32.vector(4)] * 8


@pytest.mark.parametrize("shape", list(product((1, 2, 3, 5, 8), repeat=2)), ids=str)
def test_blocks_of_any_shape(shape: tuple[int, int]) -> None:
    changed = transposed(block(*shape), 256)
    assert bool(loops(changed)) == (shape == (1, 1))  # that is no vector


def test_large_blocks_become_several() -> None:
    changed = transposed(block(9, 7), 128)
    assert not loops(changed)
    assert {e.dtype.lanes for e in all_expressions(changed) if isinstance(e, Shuffle)} == {4}
    assert loops(transposed(block(33, 32), 128)) == ["i", "j"]  # too many


def test_without_vectors() -> None:
    changed = transposed(block(4, 4), 0)
    assert lines(changed) == ["for i in 0:4", "  for j in 0:4", "    o[j, i] = a[i, j]"]


def test_each_step_is_one_instruction() -> None:
    """Neighbours are interleaved within 128 bits, then sections of that size change places."""
    changed = transposed(block(16, 16))
    orders = Counter(
        stmt.value.lanes
        for stmt in all_statements(changed)
        if isinstance(stmt, Let) and isinstance(stmt.value, Shuffle)
    )

    def sections(order: list[int]) -> tuple[int, ...]:
        return tuple(order[n % 4] + 4 * (n // 4) for n in range(16))

    even = tuple(lane for start in (0, 8, 16, 24) for lane in range(start, start + 4))
    assert orders == {
        sections([0, 16, 1, 17]): 8,
        sections([2, 18, 3, 19]): 8,
        sections([0, 1, 16, 17]): 8,
        sections([2, 3, 18, 19]): 8,
        even: 16,
        tuple(lane + 4 for lane in even): 16,
    }


# --- tails ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(3, 4), (4, 3), (3, 2), (1, 4)])
def test_guards_become_masks(height: int, width: int) -> None:
    changed = transposed(block(4, 4, height=height, width=width))
    assert not loops(changed)


def tiled(height: int, width: int, size: int, *, fill: bool) -> Kernel:
    """Blocks of a matrix; with a fill, into panels that are larger than it."""
    i, j = add(times(var("i0"), size), I), add(times(var("j0"), size), J)
    rows, columns = -(-height // size), -(-width // size)
    test = logical_and(less(i, height), less(j, width))
    load: Expr = Load("a", (i, j), FLOAT32)
    if fill:
        stmt: Stmt = Store("o", (j, i), select(test, load, Const(2.0, FLOAT32)))
        shape = columns * size, rows * size
    else:
        stmt = If(test, (Store("o", (j, i), load),))
        shape = width, height
    nest = loop("i", size, loop("j", size, stmt), mark="transpose")
    whole = loop("i0", rows, loop("j0", columns, nest), parallel=True)
    buffers = (dense("a", FLOAT32, (height, width), "input"), dense("o", FLOAT32, shape, "output"))
    return Kernel("k", buffers, ((whole,),))


@pytest.mark.parametrize("fill", [True, False])
def test_tails_of_tiles(fill: bool) -> None:
    changed = transposed(tiled(7, 10, 4, fill=fill))
    assert loops(changed) == ["i0", "j0"]
    rows = [line.strip() for line in lines(changed) if "let row" in line]
    tail = "int64x4.ramp(j0 * 4, 1) < int64x4(10)"
    assert rows[0].startswith("let row: float32x4 = ")
    assert f"a[i0 * 4, j0 * 4:j0 * 4 + 4 if {tail}]" in rows[0]
    stores = [stmt for stmt in all_statements(changed) if isinstance(stmt, Store)]
    assert all((store.mask is None) == fill for store in stores)


def test_full_tiles_have_no_masks() -> None:
    changed = transposed(tiled(8, 12, 4, fill=False))
    assert not any(isinstance(e, Load) and e.mask is not None for e in all_expressions(changed))
    assert not any(isinstance(stmt, If) for stmt in all_statements(changed))


def test_the_guard_may_stand_between_the_loops() -> None:
    stmt = If(less(J, 3), (Store("o", (J, I), Load("a", (I, J), FLOAT32)),))
    inner = loop("j", 4, Comment("turned"), stmt)
    nest = loop("i", 4, If(less(I, 2), (inner,)), mark="transpose")
    buffers = (dense("a", FLOAT32, (2, 3), "input"), dense("o", FLOAT32, (3, 2), "output"))
    changed = transpose(Kernel("k", buffers, ((nest,),)), lanes_bits=512)
    assert not loops(changed)


def test_a_block_of_padding_alone_stays_loops() -> None:
    two = Const(2.0, FLOAT32)
    stmt = Store("o", (J, I), select(FALSE, Load("a", (I, J), FLOAT32), two))
    assert stmt.value == two
    nest = loop("i", 4, loop("j", 4, stmt), mark="transpose")
    buffers = (dense("a", FLOAT32, (2, 3), "input"), dense("o", FLOAT32, (4, 4), "output"))
    kernel = Kernel("k", buffers, ((nest,),))
    verify(kernel)
    changed = transposed(kernel)
    assert loops(changed) == ["i", "j"]
    assert all(s.mark == "" for s in all_statements(changed) if isinstance(s, For))


def test_a_condition_on_what_is_read() -> None:
    """Nothing of b is read where a is not positive: also not by the other rows."""
    test = logical_and(less(I, 3), less(Load("b", (I,), INT64), 1))
    stmt = If(test, (Store("o", (J, I), Load("a", (I, J), FLOAT32)),))
    nest = loop("i", 4, loop("j", 4, stmt), mark="transpose")
    buffers = (
        dense("a", FLOAT32, (3, 4), "input"),
        dense("b", INT64, (3,), "input"),
        dense("o", FLOAT32, (4, 3), "output"),
    )
    kernel = Kernel("k", buffers, ((nest,),), (), frozenset("o"))
    assert not loops(transposed(kernel))


# --- which loop is which ----------------------------------------------------------------------


def test_either_loop_may_be_contiguous() -> None:
    stmt = Store("o", (I, J), Load("a", (J, I), FLOAT32))
    nest = loop("i", 4, loop("j", 3, stmt), mark="transpose")
    buffers = (dense("a", FLOAT32, (3, 4), "input"), dense("o", FLOAT32, (4, 3), "output"))
    changed = transposed(Kernel("k", buffers, ((nest,),)))
    assert [line for line in lines(changed) if "let row" in line] == [
        f"let row{suffix}: float32x4 = a[{n}, 0:4]" for n, suffix in enumerate(("", "_1", "_2"))
    ]


def test_strides_say_what_is_contiguous() -> None:
    """A matrix that is stored by columns is copied along these."""
    stmt = Store("o", (I, J), Load("a", (I, J), FLOAT32))
    nest = loop("i", 4, loop("j", 4, stmt), mark="transpose")
    out = dense("o", FLOAT32, (4, 4), "output")
    turned = Buffer("a", FLOAT32, (4, 4), (1, 4), "input")
    changed = transposed(Kernel("k", (turned, out), ((nest,),)))
    assert "let row: float32x4 = a[0:4, 0]" in lines(changed)
    plain = dense("a", FLOAT32, (4, 4), "input")
    assert loops(transposed(Kernel("k", (plain, out), ((nest,),)))) == ["i", "j"]
    apart = Buffer("a", FLOAT32, (4, 4), (2, 8), "input")
    assert loops(transposed(Kernel("k", (apart, out), ((nest,),)))) == ["i", "j"]


def test_begins_and_offsets() -> None:
    stmt = Store("o", (add(J, integer(-2)), I), Load("a", (I, add(J, K)), FLOAT32))
    inner = For("j", integer(2), integer(5), (stmt,))
    nest = For("i", integer(1), integer(4), (inner,), mark="transpose")
    buffers = (dense("a", FLOAT32, (4, 8), "input"), dense("o", FLOAT32, (3, 4), "output"))
    kernel = Kernel("k", buffers, ((loop("k", 2, nest),),), (), frozenset("o"))
    changed = transposed(kernel)
    assert loops(changed) == ["k"]
    assert "  let row: float32x4 = a[1, k + 2:k + 6 if int64x4.ramp(0, 1) < int64x4(3)]" in lines(
        changed
    )


# --- what stays loops -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stmt",
    [
        Store("o", (J, I), Load("o", (I, J), FLOAT32)),
        If(
            Compare("<", Load("o", (J, I), FLOAT32), Const(1.0, FLOAT32)),
            (Store("o", (J, I), Load("a", (I, J), FLOAT32)),),
        ),
        Store("o", (J, I), Const(1.0, FLOAT32)),
        Store("o", (J, I), Load("a", (I, times(J, 2)), FLOAT32)),
        Store("o", (J, I), Load("a", (J, J), FLOAT32)),
        Store("o", (J, I), Load("a", (I, Binary("%", J, integer(3), INT64)), FLOAT32)),
    ],
)
def test_what_stays_loops(stmt: Stmt) -> None:
    nest = loop("i", 4, loop("j", 4, stmt), mark="transpose")
    buffers = (dense("a", FLOAT32, (8, 8), "input"), dense("o", FLOAT32, (4, 4), "output"))
    changed = transpose(Kernel("k", buffers, ((nest,),), (), frozenset("o")), lanes_bits=512)
    assert loops(changed) == ["i", "j"]
    assert all(not loop.mark for loop in all_statements(changed) if isinstance(loop, For))


@pytest.mark.parametrize(
    "body",
    [
        (Let("x", Load("a", (I, J), FLOAT32)), Store("o", (J, I), Var("x", FLOAT32))),
        (loop("k", 2, Store("o", (J, I), Load("a", (I, J), FLOAT32))),),
        (If(less(I, 2), (), (Store("o", (J, I), Load("a", (I, J), FLOAT32)),)),),
        (For("k", integer(0), I, (Store("o", (J, I), Load("a", (I, J), FLOAT32)),)),),
        (Set("y", Load("a", (I, J), FLOAT32)),),
    ],
)
def test_other_nests_stay_loops(body: tuple[Stmt, ...]) -> None:
    nest = loop("i", 4, loop("j", 4, *body), mark="transpose")
    buffers = (dense("a", FLOAT32, (4, 4), "input"), dense("o", FLOAT32, (4, 4), "output"))
    changed = transpose(Kernel("k", buffers, ((nest,),)), lanes_bits=512)
    assert loops(changed)[:2] == ["i", "j"]


def test_names_of_two_blocks_differ() -> None:
    kernel = block(4, 4)
    twice = Kernel("k", kernel.buffers, (kernel.regions[0] * 2,))
    names = [stmt.var for stmt in all_statements(transposed(twice)) if isinstance(stmt, Let)]
    assert len(names) == len(set(names)) == 2 * (4 + 8)
