"""Stores of every n-th element become whole vectors, where nothing comes in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, INT32, DType
from tc.kernel.folding import binary, broadcast, cast, compare, constant, integer, ramp
from tc.kernel.ir import (
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Select,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.stores import store_whole_lines
from tests.kernel.marked import all_statements, assert_same, lines
from tests.support.build import add, dense, loop, times, var

I, J = var("i"), var("j")  # noqa: E741


def joined(kernel: Kernel) -> Kernel:
    return store_whole_lines(kernel, 0)


def vector(base: Expr, step: int, lanes: int) -> Expr:
    return ramp(base, step, lanes)


def stores_of(
    step: int, lanes: int, dtype: DType = FLOAT32, *, valid: int | None = None, first: int = 0
) -> list[Store]:
    """o[i, step * l + r] = a[r, i, l] for each r, and all lanes l; of which `valid` are stored."""
    wide = dtype.vector(lanes)
    mask = None
    if valid is not None:
        last = broadcast(integer(valid), lanes)
        mask = compare("<", vector(integer(0), 1, lanes), last, {})
    found = []
    for r in range(step):
        value: Expr = Load("a", (integer(r), I, vector(integer(0), 1, lanes)), wide)
        if dtype == FLOAT16:
            value = cast(cast(value, FLOAT32.vector(lanes)), wide)
        place = (I, vector(integer(first + r), step, lanes))
        found.append(Store("o", place, value, mask))
    return found


def kernel_of(
    body: list[Stmt] | list[Store], step: int, lanes: int, dtype: DType = FLOAT32, *, rows: int = 3
) -> Kernel:
    buffers = (
        dense("a", dtype, (step, rows, lanes), "input"),
        dense("o", dtype, (rows, step * lanes + 1), "output"),
    )
    whole = frozenset(("o",))
    return Kernel("k", buffers, ((loop("i", rows, *body),),), initial=whole)


def steps(kernel: Kernel) -> set[int]:
    """How far apart lanes of stores are."""
    indices = [s.indices[-1] for s in all_statements(kernel) if isinstance(s, Store)]
    return {index.step for index in indices if hasattr(index, "step")}


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_in_numpy and d != BOOL])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_all_residues(step: int, lanes: int, dtype: DType) -> None:
    kernel = kernel_of(stores_of(step, lanes, dtype), step, lanes, dtype)
    assert steps(kernel) == {step}
    assert steps(assert_same(kernel, joined)) == {1}


def along_the_row(step: int, lanes: int, *beside: Stmt) -> Kernel:
    """o[i, l, r] = a[r, i, l] for each r, and all lanes l."""
    body = []
    for r in range(step):
        value = Load("a", (integer(r), I, vector(integer(0), 1, lanes)), FLOAT32.vector(lanes))
        body.append(Store("o", (I, vector(integer(0), 1, lanes), integer(r)), value))
    buffers = (
        dense("a", FLOAT32, (step, 3, lanes), "input"),
        dense("o", FLOAT32, (3, lanes, step), "output"),
        dense("s", FLOAT32, (3,), "output"),
    )
    whole = frozenset(("o", "s"))
    return Kernel("k", buffers, ((loop("i", 3, *body, *beside),),), initial=whole)


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_elements_along_a_dimension_of_their_own(step: int, lanes: int) -> None:
    """The buffer has one dimension then, and other stores to it have their places in that."""
    beside = Store("o", (I, integer(lanes - 1), integer(0)), constant(5.0, FLOAT32))
    for others in ((), (beside,)):
        found = assert_same(along_the_row(step, lanes, *others), joined)
        assert steps(found) == {1}
        assert [len(b.shape) for b in found.buffers] == [3, 1, 1]


def test_a_buffer_that_is_read_has_its_dimensions() -> None:
    load = Load("o", (I, integer(0), integer(1)), FLOAT32)
    kernel = along_the_row(2, 8, Store("s", (I,), load))
    assert joined(kernel) is kernel


def test_a_buffer_that_is_no_better_for_it_has_its_dimensions() -> None:
    """One of two stores is missing."""
    kernel = along_the_row(2, 8)
    [region] = kernel.regions
    [each] = region
    assert isinstance(each, For)
    alone = replace(kernel, regions=((replace(each, body=each.body[:1]),),))
    assert joined(alone) is alone


@pytest.mark.parametrize("valid", [1, 3, 7])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_masks(step: int, valid: int) -> None:
    kernel = kernel_of(stores_of(step, 8, valid=valid), step, 8)
    assert steps(assert_same(kernel, joined)) == {1}


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_masks_of_their_own(whole: int) -> None:
    """As at the end of a row that ends between them; one has none."""
    body = []
    for r, store in enumerate(stores_of(3, 8)):
        last = broadcast(integer(15 + r), 8)
        mask = compare("<", vector(integer(r), 3, 8), last, {})
        body.append(Store("o", store.indices, store.value, None if r == whole else mask))
    assert steps(assert_same(kernel_of(body, 3, 8), joined)) == {1}


def test_in_any_order_and_beside_others() -> None:
    one, other = stores_of(2, 8)
    beside = Store("o", (I, integer(16)), constant(5.0, FLOAT32))
    found = assert_same(kernel_of([other, beside, one], 2, 8), joined)
    assert lines(found) == [
        "for i in 0:3",
        "  let part_1: float32x8 = a[1, i, 0:8]",
        "  o[i, 16] = 5.0f",
        "  let part: float32x8 = a[0, i, 0:8]",
        "  o[i, 0:8] = shuffle(part, part_1, [0, 8, 1, 9, 2, 10, 3, 11])",
        "  o[i, 8:16] = shuffle(part, part_1, [4, 12, 5, 13, 6, 14, 7, 15])",
    ]


def test_values_stay_where_they_were() -> None:
    """What a value is read from may change before the last store."""
    one, other = stores_of(2, 8)
    buffers = (
        dense("a", FLOAT32, (2, 3, 8), "input"),
        dense("b", FLOAT32, (8,), "output"),
        dense("o", FLOAT32, (3, 17), "output"),
    )
    lanes = (vector(integer(0), 1, 8),)
    wide = FLOAT32.vector(8)
    first = Store("o", one.indices, Load("b", lanes, wide))
    total = Var("t", wide)
    later = Store("b", lanes, binary("+", Load("b", lanes, wide), other.value))
    second = Store("o", other.indices, total)
    body = (Let("t", other.value), first, later, Set("t", Load("b", lanes, wide)), second)
    kernel = Kernel("k", buffers, ((loop("i", 3, *body),),), initial=frozenset(("b", "o")))
    assert steps(assert_same(kernel, joined)) == {1}


def stays(body: list[Stmt], step: int = 2, lanes: int = 8) -> None:
    kernel = kernel_of(body, step, lanes)
    assert assert_same(kernel, joined) is kernel


ROW = stores_of(2, 8)


@pytest.mark.parametrize(
    "between",
    [
        # reads, or writes, what the first has written
        Store("o", (I, integer(16)), Load("o", (I, integer(0)), FLOAT32)),
        Store("o", (I, integer(4)), constant(1.0, FLOAT32)),
        Store("o", (J, integer(2)), constant(1.0, FLOAT32)),
        For("n", integer(0), integer(1), (Store("o", (I, integer(2)), constant(1.0, FLOAT32)),)),
        Let("x", Load("o", (I, integer(2)), FLOAT32)),
    ],
)
def test_something_in_between(between: Stmt) -> None:
    stays([Let("j", integer(0)), ROW[0], between, ROW[1]])


def test_not_all_residues_or_others() -> None:
    one, other = ROW
    stays([one])
    stays(list(stores_of(3, 8)[::2]), 3)
    data = compare("<", one.value, constant(1.0, FLOAT32.vector(8)), {})
    stays([one, Store("o", other.indices, other.value, data)])
    stays([Let("j", integer(0)), one, Store("o", (J, other.indices[1]), other.value)])
    far = (I, vector(integer(5), 2, 4))
    stays([Store("o", far, constant(1.0, FLOAT32.vector(4))), one])


def test_another_row_in_between() -> None:
    """Rows of one block, each interleaved for itself."""
    body: list[Stmt] = []
    for r in range(2):
        for row in range(2):
            place = (add(times(I, 2), integer(row)), vector(integer(r), 2, 4))
            value = Load("a", (integer(r), I, vector(integer(row * 4), 1, 4)), FLOAT32.vector(4))
            body.append(Store("o", place, value))
    buffers = (
        dense("a", FLOAT32, (2, 3, 8), "input"),
        dense("o", FLOAT32, (6, 8), "output"),
    )
    kernel = Kernel("k", buffers, ((loop("i", 3, *body),),))
    assert steps(assert_same(kernel, joined)) == {1}


def test_another_dimension_is_contiguous() -> None:
    """Lanes far from each other in memory are no whole vectors."""
    buffers = (
        dense("a", FLOAT32, (2, 3, 8), "input"),
        dense("o", FLOAT32, (17, 3), "output"),
    )
    body = [Store("o", s.indices[::-1], s.value) for s in ROW]
    kernel = Kernel("k", buffers, ((loop("i", 3, *body),),), initial=frozenset(("o",)))
    assert assert_same(kernel, joined) is kernel


def test_places_that_move() -> None:
    """An index that changes in between is another place."""
    one, other = ROW
    at = var("t")
    first = Store("o", (at, one.indices[1]), one.value)
    second = Store("o", (at, other.indices[1]), other.value)
    stays([Let("t", integer(0)), first, Set("t", I), second])


def test_integers_and_choices() -> None:
    wide = INT32.vector(8)
    test = compare("<", vector(integer(0), 1, 8), broadcast(integer(3), 8), {})
    body = [
        Store("o", s.indices, Select(test, s.value, Const(7, wide), wide))
        for s in stores_of(2, 8, INT32)
    ]
    assert steps(assert_same(kernel_of(body, 2, 8, INT32), joined)) == {1}
