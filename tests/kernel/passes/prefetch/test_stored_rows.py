"""Which long loops ask for what is stored behind them: each condition alone decides."""

from __future__ import annotations

import numpy as np

from tc.dtypes import FLOAT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Const, Expr, For, Kernel, Let, Set, Store, Var
from tc.kernel.passes.prefetch.stored_rows import BURST, FEWEST, MOST, PART, WORK, prefetch_outputs
from tc.kernel.verify import verify
from tests.kernel.hinted import lines
from tests.support.kernels import dense, integer, loop
from tests.support.vectors import ramp

B, K = Var("b", INT64), Var("k", INT64)
VECTOR = FLOAT32.vector(16)
LANES = ramp(integer(0), 16)
IMAGES, ROWS, TRIPS = 9, 60, 20


def add() -> Set:
    return Set("s", Binary("+", Var("s", VECTOR), Const(1.0, VECTOR), VECTOR))


def kernel_of(
    *,
    rows: int = ROWS,
    work: int = 3 * WORK,
    at: tuple[Expr, ...] = (K, B),
    non_temporal: bool = False,
) -> Kernel:
    store = Store("o", (*at, LANES), Var("s", VECTOR), non_temporal=non_temporal)
    long = loop("i", TRIPS, *(add() for _ in range(work)))
    body = (Let("s", Const(0.0, VECTOR)), long, loop("k", rows, store))
    sizes = {"k": rows, "b": IMAGES}
    shape = tuple(sizes[index.name] for index in at if isinstance(index, Var))
    output = dense("o", FLOAT32, (*shape, 16), "output")
    return Kernel("f", (output,), ((loop("b", IMAGES, *body, parallel=True),),))


def hints(kernel: Kernel, cache: int | None = None) -> list[str]:
    """The hints; all else stays."""
    verify(kernel)
    found = prefetch_outputs(kernel, kernel.buffers[0].bytes - 1 if cache is None else cache)
    verify(found)
    before, after = ([*lines(each)] for each in (kernel, found))
    made = [line for line in after if line.startswith(("prefetch", "let part"))]
    assert [line for line in after if line not in made] == before
    return made


def test_each_iteration_of_the_long_loop_asks_for_its_part() -> None:
    assert hints(kernel_of()) == [
        "let part: int64 = min(i * 3, 59)",
        "prefetch o[part, b, 15]",
        "let part_1: int64 = min(i * 3 + 1, 59)",
        "prefetch o[part_1, b, 15]",
        "let part_2: int64 = min(i * 3 + 2, 59)",
        "prefetch o[part_2, b, 15]",
    ]


def test_rows_are_asked_for_from_their_ends() -> None:
    """Rows of 20 that follow each other end in lines in which the next ones begin."""
    store = Store("o", (K, B, ramp(integer(0), 20)), Const(0.0, FLOAT32.vector(20)))
    long = loop("i", TRIPS, *(add() for _ in range(6 * WORK)))
    body = (Let("s", Const(0.0, VECTOR)), long, loop("k", ROWS, store))
    output = dense("o", FLOAT32, (ROWS, IMAGES, 20), "output")
    kernel = Kernel("f", (output,), ((loop("b", IMAGES, *body, parallel=True),),))
    found = [line for line in hints(kernel) if line.startswith("prefetch")]
    assert found[0] == "prefetch o[part, b, 3:35:16]"


def test_all_rows_are_asked_for() -> None:
    found = hints(kernel_of())[::2]
    shifts = [int(line.split("i * 3")[1].split(",")[0].replace("+", "") or 0) for line in found]
    assert {min(i * 3 + s, ROWS - 1) for i in range(TRIPS) for s in shifts} == {*range(ROWS)}


def test_only_outputs_larger_than_the_cache() -> None:
    assert hints(kernel_of(), IMAGES * ROWS * 64 - 1)
    assert not hints(kernel_of(), IMAGES * ROWS * 64)
    assert not hints(kernel_of(), 0)


def test_what_is_stored_stays_in_the_cache() -> None:
    assert hints(kernel_of(), ROWS * 64 * PART)
    assert not hints(kernel_of(), ROWS * 64 * PART - 1)


def test_few_lines_are_not_waited_for() -> None:
    assert hints(kernel_of(rows=FEWEST))
    assert not hints(kernel_of(rows=FEWEST - 1))


def test_the_work_hides_the_hints() -> None:
    assert hints(kernel_of(work=3 * WORK))
    assert not hints(kernel_of(work=3 * WORK - 1))


def test_rows_that_follow_each_other_are_foreseen() -> None:
    assert not hints(kernel_of(at=(B, K)))


def test_streamed_stores_read_no_lines() -> None:
    assert not hints(kernel_of(non_temporal=True))


def test_nothing_is_asked_for_in_a_loop_behind_the_stores() -> None:
    kernel = kernel_of()
    (outer,) = kernel.regions[0]
    assert isinstance(outer, For)
    start, long, stored = outer.body
    swapped = For(outer.var, outer.begin, outer.end, (start, stored, long), parallel=True)
    assert not hints(Kernel("f", kernel.buffers, ((swapped,),)))


def unrolled(rows: int, *, work: int = 2 * WORK, from_: int = 0, to: int = MOST) -> Kernel:
    """Stores one behind the other instead of in a loop, at first the long loop."""
    kernel = kernel_of(rows=rows, work=work)
    (outer,) = kernel.regions[0]
    assert isinstance(outer, For)
    stores = [Store("o", (integer(row), B, LANES), Var("s", VECTOR)) for row in range(rows)]
    body = (*outer.body[:-1], *stores[from_:to])
    return Kernel("f", kernel.buffers, ((loop("b", IMAGES, *body, parallel=True),),))


def test_statements_behind_the_long_loop_are_asked_for_before_it() -> None:
    kernel = unrolled(FEWEST)
    assert hints(kernel) == [f"prefetch o[{row}, b, 15]" for row in range(FEWEST)]
    found = lines(prefetch_outputs(kernel, 1 << 10))
    assert found.index("prefetch o[0, b, 15]") < found.index(f"for i in 0:{TRIPS}")


def test_statements_with_few_lines_are_not_waited_for() -> None:
    assert not hints(unrolled(FEWEST, from_=1))


def test_more_statements_than_a_core_waits_for() -> None:
    assert hints(unrolled(BURST + 1, to=BURST))
    assert not hints(unrolled(BURST + 1))


def test_short_loops_do_not_hide_hints_before_them() -> None:
    assert FEWEST * WORK > TRIPS * WORK // 2
    assert hints(unrolled(FEWEST, work=-(-FEWEST * WORK // TRIPS)))
    assert not hints(unrolled(FEWEST, work=-(-FEWEST * WORK // TRIPS) - 1))


def test_results_stay() -> None:
    kernel = kernel_of()
    outputs = []
    for each in kernel, prefetch_outputs(kernel, kernel.buffers[0].bytes - 1):
        o = np.zeros((ROWS, IMAGES, 16), np.float32)
        assert evaluate(each, {"o": o}) is None
        outputs.append(o)
    assert (outputs[0] == TRIPS * 3 * WORK).all()
    np.testing.assert_array_equal(outputs[0], outputs[1])
