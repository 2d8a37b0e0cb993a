"""Which loops ask for their next block, and for which elements: each condition alone decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.prefetch.input_blocks import (
    BLOCKS,
    DISTANCE,
    LINES,
    MOST,
    PART,
    WASTE,
    WORK,
    prefetch_blocks,
)
from tests.kernel.hinted import hints_of
from tests.support.kernels import dense, integer, loop
from tests.support.vectors import plus, ramp

N, C, H, R, T = (Var(name, INT64) for name in "nchrt")
VECTOR = FLOAT32.vector(16)
LANES = ramp(integer(0), 16)
IMAGES, PLANES, ROWS, COLUMNS, WINDOW = 6, LINES + 1, 20, 30, 3
HEIGHT = ROWS - WINDOW + 1
CACHE = PLANES * ROWS * COLUMNS * 4 * PART


def row(*at: Expr) -> Load:
    return Load("x", (*at, LANES), VECTOR)


def sums(term: Expr, count: int = WORK) -> tuple[Stmt, ...]:
    return (Set("s", Binary("+", Var("s", VECTOR), term, VECTOR)),) * count


def total(*body: Stmt, at: Expr = H) -> tuple[Stmt, ...]:
    """The sum that statements make, stored as row `at` of output `n`."""
    return Let("s", Const(0.0, VECTOR)), *body, Store("o", (N, at, LANES), Var("s", VECTOR))


def image(*body: Stmt, planes: int = PLANES) -> For:
    """For each row `h`, a total over the planes `c`."""
    return loop("h", HEIGHT, *total(loop("c", planes, *body)))


def window(*body: Stmt) -> For:
    return loop("r", WINDOW, *body)


IMAGE = image(window(*sums(row(N, C, plus(H, R)))))
HINT = "c: x[min(n + 1, 5), c, 0, h * 34:h * 34 + 34:17]"


def kernel_of(
    *body: Stmt, planes: int = PLANES, rows: int = ROWS, columns: int = COLUMNS
) -> Kernel:
    x = dense("x", FLOAT32, (IMAGES, planes, rows, columns), "input")
    o = dense("o", FLOAT32, (IMAGES, HEIGHT, 16), "output")
    table = dense("table", INT64, (ROWS,), "input")
    return Kernel("k", (x, table, o), ((loop("n", IMAGES, *body, parallel=True),),))


def hints(kernel: Kernel, cache: int = CACHE) -> list[str]:
    return hints_of(kernel, lambda each: prefetch_blocks(each, cache))


def test_rows_of_a_plane_are_shared_evenly() -> None:
    """Those of the first window too, of which there are more than in later iterations."""
    assert hints(kernel_of(IMAGE)) == [HINT]
    kernel = kernel_of(IMAGE, columns=16)
    found = hints(kernel, PLANES * ROWS * 16 * 4 * PART)
    assert found == ["c: x[min(n + 1, 5), c, 0, h * 18]"]


@pytest.mark.parametrize("columns", [16, 17, 19, COLUMNS])
def test_the_lines_of_a_plane(columns: int) -> None:
    """Few of them are left out, and few are asked for twice."""
    (hint,) = hints(kernel_of(IMAGE, columns=columns), (ROWS * columns + 32) * 4 * PLANES * PART)
    place = hint.removesuffix("]").split(", ")[-1].replace("h", "{0}").split(":")
    asked: list[int] = []
    for h in range(HEIGHT):
        first, *rest = (eval(part.format(h)) for part in place)
        asked += range(first, *rest) if rest else [first]
    plane = range(0, ROWS * columns - columns + 16, 16)
    lines_asked = [at // 16 for at in asked]
    assert len(set(lines_asked) & {at // 16 for at in plane}) >= len(plane) * 7 // 8
    assert len(lines_asked) <= 2 * len(plane)


def test_a_window_in_both_dimensions() -> None:
    """Tiles of a row do not overlap by much, but rows do: both go over the plane."""
    x = Load("x", (N, C, plus(H, R), ramp(Binary("*", T, integer(14), INT64), 16)), VECTOR)
    tiles = loop("t", 2, *total(loop("c", PLANES, window(*sums(x)))))
    found = hints(kernel_of(loop("h", HEIGHT, tiles)), CACHE + 1000 * PART)
    assert found == ["c: x[min(n + 1, 5), c, 0, (h * 2 + t) * 17]"]


def test_planes_that_hardly_overlap() -> None:
    """As where lanes behind the end of a row are in the next plane: each plane is on its own."""
    assert hints(kernel_of(IMAGE, columns=15), PLANES * ROWS * 16 * 4 * PART) == [
        "c: x[min(n + 1, 5), c, 0, h * 17]"
    ]


def test_columns_of_several_rows() -> None:
    """Tiles between those of other rows read nothing again."""
    x = Load("x", (N, C, R, ramp(Binary("*", T, integer(16), INT64), 16)), VECTOR)
    body = total(loop("c", PLANES, loop("t", 3, window(*sums(x, 2 * WORK)))), at=integer(0))
    found = hints(kernel_of(*body, columns=64), PLANES * ROWS * 64 * 4 * PART)
    assert [hint.split(", ")[-2] for hint in found] == ["0", "1", "2"]


@pytest.mark.parametrize("blocks", [BLOCKS - 1, BLOCKS])
def test_rows_side_by_side(blocks: int) -> None:
    """As a product reads them, an element of each at a time: each line is asked for twice."""
    elements = (Load("x", (N, C, integer(row), T), FLOAT32) for row in range(8))
    reads = [sums(Broadcast(x, VECTOR), WORK // 4) for x in elements]
    columns = loop("t", 32, *(stmt for stmts in reads for stmt in stmts))
    body = loop("c", blocks, *total(columns, at=integer(0)))
    found = hints(kernel_of(body, planes=blocks, rows=8, columns=32), 8 * 32 * 4 * PART)
    assert found == ([] if blocks < BLOCKS else ["t: x[n, min(c + 1, 7), 0, t * 8]"])


def test_rows_with_gaps_between_them() -> None:
    """Of wide rows of which only a part is read, those are asked for that are new."""
    found = hints(kernel_of(IMAGE, columns=100))
    assert found == ["c: x[min(n + 1, 5), c, h + 2, 0:30:15]"]


def test_results_stay() -> None:
    whole = kernel_of(IMAGE)
    ((images,),) = whole.regions
    assert isinstance(images, For)
    x, table, _ = whole.buffers
    buffers = (x, table, dense("o", FLOAT32, (2, HEIGHT, 16), "output"))
    kernel = replace(whole, buffers=buffers, regions=((replace(images, end=integer(2)),),))
    assert hints(kernel)
    data = np.random.default_rng(0).random((IMAGES, PLANES, ROWS, COLUMNS), np.float32)
    outputs = []
    for each in kernel, prefetch_blocks(kernel, CACHE):
        o = np.zeros((2, HEIGHT, 16), np.float32)
        assert evaluate(each, {"x": data, "table": np.zeros(ROWS, np.int64), "o": o}) is None
        outputs.append(o)
    assert outputs[0].any()
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_only_inputs_larger_than_the_cache() -> None:
    size = IMAGES * PLANES * ROWS * COLUMNS * 4
    assert hints(kernel_of(IMAGE), size - 1)
    assert not hints(kernel_of(IMAGE), size)
    assert not hints(kernel_of(IMAGE), 0)  # nothing is known of the cache


def test_only_buffers_that_are_not_written() -> None:
    write = Store("x", (N, integer(0), integer(0), LANES), Const(0.0, VECTOR))
    kernel = kernel_of(IMAGE, write)
    x, table, o = kernel.buffers
    assert not hints(replace(kernel, buffers=(table, replace(x, role="output"), o)))


def test_blocks_fit_beside_each_other() -> None:
    """As many lines as a plane is long."""
    size = -(-((ROWS - 1) * COLUMNS + 16) // 16) * 64 * PLANES
    assert hints(kernel_of(IMAGE), size * PART)
    assert not hints(kernel_of(IMAGE), size * PART - PART)


def test_rows_without_gaps_are_foreseen() -> None:
    for planes_between, expected in (0, False), (2, True):
        body = total(loop("c", PLANES, *sums(row(N, C, integer(0)), 4 * WORK)), at=integer(0))
        kernel = kernel_of(*body, rows=1 + planes_between, columns=16)
        assert bool(hints(kernel, 2 * 64 * PLANES * PART)) is expected


@pytest.mark.parametrize(("columns", "lines_asked"), [(16, 1), (COLUMNS, 2)])
def test_hints_are_little_work(columns: int, lines_asked: int) -> None:
    for count in WORK * lines_asked, WORK * lines_asked - 1:
        body = image(*sums(row(N, C, H), count))
        kernel = kernel_of(body, columns=columns)
        assert bool(hints(kernel, PLANES * ROWS * columns * 4 * PART)) is (
            count == WORK * lines_asked
        )


def test_hints_come_early_enough() -> None:
    """A block is another one after so many statements."""
    for planes in DISTANCE // (2 * WORK), DISTANCE // (2 * WORK) - 1:
        body = loop("c", planes, *sums(row(N, C, integer(0)), 2 * WORK))
        kernel = kernel_of(*total(body, at=integer(0)), planes=planes)
        found = hints(kernel, planes * 2 * 64 * PART)
        assert bool(found) is (2 * WORK * planes == DISTANCE)


def test_blocks_overlap() -> None:
    """The next row of an image is no other block: where there is one image, there is no next."""
    first = window(*sums(row(integer(0), C, plus(H, R))))
    rows = loop("h", HEIGHT, *total(loop("c", PLANES, first)))
    assert not hints(kernel_of(rows))
    apart = window(*sums(row(integer(0), C, plus(Binary("*", H, integer(5), INT64), R)), 2 * WORK))
    rows = loop("h", HEIGHT, *total(loop("c", PLANES, apart)))
    assert all("min(h + 1, 17)" in hint for hint in hints(kernel_of(rows, rows=100)))
    assert hints(kernel_of(rows, rows=100))


def test_no_line_is_asked_for_often() -> None:
    """As in a loop around that reads the same block each time."""
    for times in int(WASTE), int(WASTE) + 1:
        kernel = kernel_of(loop("t", times, IMAGE))
        assert bool(hints(kernel)) is (times == WASTE)


def test_a_loop_joined_of_two() -> None:
    """It does not always go as far, so all rows of the window may be new."""
    joined, height = Var("b", INT64), integer(HEIGHT)
    lets = (
        Let("n", Binary("/", joined, height, INT64)),
        Let("h", Binary("%", joined, height, INT64)),
    )
    (sum_up,) = IMAGE.body[1:2]
    many = replace(loop("c", PLANES, window(*sums(row(N, C, plus(H, R)), 2 * WORK))))
    assert isinstance(sum_up, For)
    body = loop("b", IMAGES * HEIGHT, *lets, *total(many), parallel=True)
    found = hints(replace(kernel_of(), regions=((body,),)))
    at = f"min(b + 1, {IMAGES * HEIGHT - 1})"
    image_at, row_at = f"{at} / {HEIGHT}", f"{at} % {HEIGHT}"
    assert found == [
        f"c: x[{image_at}, c, {row_at}, 0]",
        f"c: x[{image_at}, c, {row_at} + 1, 0]",
        f"c: x[{image_at}, c, {row_at} + 2, 0:30:15]",
    ]


def test_few_lines() -> None:
    """One more is for the end of the last row."""
    for rows in LINES - 1, LINES:
        body = [s for r in range(rows) for s in sums(row(N, C, integer(2 * r)), 2 * WORK)]
        kernel = kernel_of(*total(loop("c", PLANES, *body), at=integer(0)), columns=16)
        assert bool(hints(kernel, 2 * PLANES * LINES * 64 * PART)) is (rows < LINES)


def test_few_reads() -> None:
    for count in MOST, MOST + 1:
        kernel = kernel_of(image(*sums(row(N, C, H), count)))
        assert bool(hints(kernel)) is (count == MOST)


def test_places_that_are_not_known_before() -> None:
    """Those that are loaded, and those of variables that change; locals of others are known."""
    fixed = Let("q", plus(H, 1))
    for let, expected in (fixed, True), (Let("q", Load("table", (H,), INT64)), False):
        kernel = kernel_of(image(let, *sums(row(N, C, Var("q", INT64)), 2 * WORK)))
        assert bool(hints(kernel)) is expected
    body = image(fixed, *sums(row(N, C, Var("q", INT64)), 2 * WORK), Set("q", integer(2)))
    assert not hints(kernel_of(body))
    place = Load("table", (H,), INT64)
    kernel = kernel_of(image(*sums(row(N, C, place), 2 * WORK)))
    assert not hints(kernel)


def test_indices_in_vectors() -> None:
    """A constant in all lanes is known; sums of vectors are left alone."""
    first = Const(0, LANES.dtype)
    read = sums(Load("x", (N, C, first, LANES), VECTOR), 4 * WORK)
    kernel = kernel_of(*total(loop("c", PLANES, *read), at=integer(0)))
    assert hints(kernel) == ["c: x[min(n + 1, 5), c, 0, 0:30:15]"]
    uneven = Binary("+", LANES, LANES, LANES.dtype)
    kernel = kernel_of(image(*sums(Load("x", (N, C, H, uneven), VECTOR), 2 * WORK)))
    assert not hints(kernel)


def test_only_what_is_always_read() -> None:
    read = sums(row(N, C, plus(H, R)))
    condition = Compare("<", H, integer(3), BOOL)
    assert not hints(kernel_of(image(window(If(condition, read, ())))))
    assert hints(kernel_of(image(window(*read, If(condition, read, ()))))) == [HINT]


def test_loops_of_unknown_length() -> None:
    planes = replace(loop("c", PLANES, window(*sums(row(N, C, plus(H, R))))), end=plus(T, 1))
    kernel = kernel_of(loop("h", HEIGHT, *total(planes)))
    body = Let("t", Load("table", (integer(0),), INT64)), *kernel.regions[0]
    assert not hints(replace(kernel, regions=(body,)))
