"""Products of matrices by the threads of a warp: what they give, where they are refused, which
loops become one, and the same on a machine for PTX and without tensor cores."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tc.backends import nvrtc
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.opencl_dialect import OPENCL
from tc.backends.clike.printer import launches_of, print_kernel
from tc.backends.geometry import LaunchText
from tc.dtypes import FLOAT32, UINT16, UINT32
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Binary,
    Bits,
    Cast,
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
    WarpMultiply,
)
from tc.kernel.matrix_products import (
    F16,
    PRODUCT_OF_MARK,
    PRODUCTS,
    TF32,
    MatrixProduct,
    rounded_to_tf32,
)
from tc.kernel.passes.warp_products import multiply_by_threads, multiply_by_warps
from tc.kernel.printer import to_text
from tc.kernel.storage import kernel_of, rows_of
from tc.kernel.verify import verify
from tc.kernel.walk import every_statement
from tests.kernel.grids import B0, BARRIER, grid, launches
from tests.support.build import add, dense, less, loop, times, var
from tests.support.ptx.texts import run_text

LANE, WARP = add(times(var("t1"), 4), var("t2")), var("t0")
SHAPES = [(1, 1), (2, 1), (1, 2), (2, 3)]
LAYOUTS = [(0, 1), (1, 0)]
"""The dimensions of rows and of steps in a tile."""

needs_nvrtc = pytest.mark.skipif(not nvrtc.is_installed(), reason="NVRTC is not installed")


both = pytest.mark.parametrize("kind", PRODUCTS.values(), ids=PRODUCTS)


def filled(name: str, shape: tuple[int, int], kind: MatrixProduct) -> tuple[Stmt, ...]:
    """Copies a matrix of 128 columns at most to shared memory, by 64 threads."""
    number = add(times(WARP, 32), LANE)
    row, column = var(f"row_{name}"), add(times(number, 2), var(f"column_{name}"))
    bits = UINT16 if kind is F16 else UINT32
    moved = Bits(Bits(Load(name, (row, column), kind.dtype), bits), kind.dtype)
    store = Store(f"{name}_shared", (row, column), moved)
    inside = If(less(column, shape[1]), (store,))
    return (loop(f"row_{name}", shape[0], loop(f"column_{name}", 2, inside)),)


def product_of(
    tiles: tuple[int, int],
    left: tuple[int, int] = (0, 1),
    right: tuple[int, int] = (0, 1),
    multiply: Any = None,
    kind: MatrixProduct = F16,
) -> Kernel:
    """o = a b' + 1 for 16 rows of a and 8 of b in each tile, of 32 steps. Two warps compute the
    same, each its own outputs; `multiply` makes the statements for some steps."""
    rows, columns, steps = 16 * tiles[0], 8 * tiles[1], 32
    names = [f"x{n}" for n in range(4 * tiles[0] * tiles[1])]
    step = times(var("k"), kind.steps)
    a = tuple(
        Load("a_shared", placed(left, integer(16 * n), step), kind.dtype) for n in range(tiles[0])
    )
    b = tuple(
        Load("b_shared", placed(right, integer(8 * n), step), kind.dtype) for n in range(tiles[1])
    )
    statement = WarpMultiply(tuple(names), a, b, left, right, kind.name)
    once = (statement,) if multiply is None else multiply(names, tiles, step, left, right)
    body: list[Stmt] = [
        *filled("a", shape_of(left, rows, steps), kind),
        *filled("b", shape_of(right, columns, steps), kind),
    ]
    body += [BARRIER, *(Let(name, Const(1.0, FLOAT32)) for name in names)]
    body.append(loop("k", steps // kind.steps, *once))
    for at, name in enumerate(names):
        tile, z = divmod(at, 4)
        i, j = divmod(tile, tiles[1])
        row = add(var("t1"), integer(16 * i + 8 * (z // 2)))
        column = add(times(var("t2"), 2), integer(8 * j + z % 2))
        body.append(Store("o", (WARP, row, column), Var(name, FLOAT32)))
    buffers = (
        dense("a", kind.dtype, shape_of(left, rows, steps), "input"),
        dense("b", kind.dtype, shape_of(right, columns, steps), "input"),
        dense("o", FLOAT32, (2, rows, columns), "output"),
        dense("a_shared", kind.dtype, held(shape_of(left, rows, steps)), "shared"),
        dense("b_shared", kind.dtype, held(shape_of(right, columns, steps)), "shared"),
    )
    return launches(grid((), (2, 8, 4), *body), buffers=buffers)


def placed(axes: tuple[int, int], row: Expr, step: Expr) -> tuple[Expr, ...]:
    return (row, step) if axes == (0, 1) else (step, row)


def shape_of(axes: tuple[int, int], rows: int, steps: int) -> tuple[int, int]:
    return (rows, steps) if axes == (0, 1) else (steps, rows)


def held(shape: tuple[int, int]) -> tuple[int, int]:
    return shape[0], shape[1] + 8


def arrays_of(kernel: Kernel) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    made = {b.name: rng.integers(-9, 10, b.shape).astype(b.dtype.numpy) for b in kernel.arguments}
    made["o"][...] = np.nan
    return made


def expected(kernel: Kernel, left: tuple[int, int], right: tuple[int, int]) -> np.ndarray[Any, Any]:
    """By numpy's product, in double."""
    arrays = arrays_of(kernel)
    a, b = (arrays[n].astype(np.float64) for n in "ab")
    product = (a if left == (0, 1) else a.T) @ (b.T if right == (0, 1) else b)
    return np.stack([product + 1] * 2).astype(np.float32)


@both
@pytest.mark.parametrize("right", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("left", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("tiles", SHAPES, ids=str)
def test_products(
    tiles: tuple[int, int], left: tuple[int, int], right: tuple[int, int], kind: MatrixProduct
) -> None:
    """On evaluate, without tensor cores, and, by the tables of lanes in the PTX manual, as a text
    on the machine for PTX."""
    kernel = product_of(tiles, left, right, kind=kind)
    verify(kernel)
    plain = multiply_by_threads(kernel)
    verify(plain)
    assert not any(isinstance(stmt, WarpMultiply) for stmt in every_statement(plain))
    for each in (kernel, plain):
        arrays = arrays_of(kernel)
        assert evaluate(each, arrays) is None
        np.testing.assert_array_equal(arrays["o"], expected(kernel, left, right))
    assert kernel_of(rows_of(kernel)) == kernel


@needs_nvrtc
@both
@pytest.mark.parametrize("right", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("left", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("tiles", SHAPES, ids=str)
def test_texts(
    tiles: tuple[int, int], left: tuple[int, int], right: tuple[int, int], kind: MatrixProduct
) -> None:
    kernel = product_of(tiles, left, right, kind=kind)
    source = print_kernel(kernel, CUDA)
    assert len(re.findall(r"^ +tc_multiply\w*\(", source, re.MULTILINE)) == tiles[0] * tiles[1]
    text = LaunchText(kernel, "cuda", source, launches=launches_of(kernel, CUDA))
    _, found = run_text(text, arrays_of(kernel))
    np.testing.assert_array_equal(found["o"], expected(kernel, left, right))


# --- factors that are rounded -----------------------------------------------------------------

EDGES = np.array(
    [0.0, -0.0, 2.0**-149, 2.0**-137, 2.0**-136, 3 * 2.0**-137, 2.0**-126, 1 + 2.0**-11,
     1 + 2.0**-10, 1 + 3 * 2.0**-11, 1 + 2.0**-11 - 2.0**-23, 2 - 2.0**-23, 3.4028e38, 3.40e38,
     np.inf, np.nan],
    np.float32,
)  # fmt: skip


def to_tf32(value: float) -> float:
    """By fractions."""
    if not math.isfinite(value) or value == 0:
        return value
    step = Fraction(2) ** (max(math.frexp(value)[1], -125) - 11)
    whole = math.floor(abs(Fraction(value)) / step + Fraction(1, 2)) * step
    rounded = float(whole) if whole < Fraction(2) ** 128 else math.inf
    return math.copysign(rounded, value)


def test_rounding() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    for values in (EDGES, -EDGES, bits.view(np.float32)):
        found = rounded_to_tf32(values)
        assert found.dtype == np.float32
        wanted = np.array([to_tf32(float(value)) for value in values])
        np.testing.assert_array_equal(found, wanted.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(values))


@needs_nvrtc
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("right", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("left", LAYOUTS, ids=["straight", "across"])
def test_rounded_factors(left: tuple[int, int], right: tuple[int, int]) -> None:
    """One product for each result, so that its bits tell how each factor was rounded: the same by
    numpy, evaluate, without tensor cores and on the machine for PTX."""
    kernel = product_of((2, 3), left, right, kind=TF32)
    arrays, rng = arrays_of(kernel), np.random.default_rng(1)
    a, b = np.zeros((32, 32), np.float32), np.zeros((24, 32), np.float32)
    picked = rng.integers(0, 32, 32)
    values = rng.standard_normal(32).astype(np.float32)
    values[:16] = np.where(np.isfinite(EDGES), EDGES, 3)
    a[np.arange(32), picked] = values
    b[...] = rng.standard_normal(b.shape)
    arrays["a"], arrays["b"] = (x if axes == (0, 1) else x.T.copy() for x, axes in
                                ((a, left), (b, right)))  # fmt: skip
    factors = [np.array([[to_tf32(float(v)) for v in row] for row in x]) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        products = factors[0].astype(np.float64)[np.arange(32), picked, None] * factors[1].T[picked]
    wanted = np.stack([(products + 1).astype(np.float32)] * 2)
    text = print_kernel(kernel, CUDA)
    _, by_text = run_text(
        LaunchText(kernel, "cuda", text, launches=launches_of(kernel, CUDA)), arrays
    )
    np.testing.assert_array_equal(by_text["o"], wanted)
    for each in (kernel, multiply_by_threads(kernel)):
        given = {name: array.copy() for name, array in arrays.items()}
        assert evaluate(each, given) is None
        np.testing.assert_array_equal(given["o"], wanted)


def test_opencl_has_none() -> None:
    with pytest.raises(InternalError, match="OpenCL C has no products of a warp"):
        print_kernel(product_of((1, 1)), OPENCL)


def test_text_of_the_statement() -> None:
    lines = to_text(product_of((1, 1))).splitlines()
    assert [line.strip() for line in lines if "+=" in line] == [
        "x0, x1, x2, x3 += products of rows of a_shared[0, k * 16] by rows of b_shared[0, k * 16]"
    ]


# --- loops that become one --------------------------------------------------------------------


def sums(
    names: list[str],
    tiles: tuple[int, int],
    step: Expr,
    left: tuple[int, int],
    right: tuple[int, int],
    *,
    steps: int | None = None,
    mirrored: bool = False,
    kind: MatrixProduct = F16,
) -> tuple[Stmt, ...]:
    """What a thread adds up, one step after the other."""
    own = add(step, var("s"))
    body: list[Stmt] = []
    for n in range(2 * tiles[0]):
        place = placed(left, add(var("t1"), integer(8 * n)), own)
        body.append(Let(f"a{n}", read("a_shared", place, kind)))
    for n in range(2 * tiles[1]):
        column = add(times(var("t2"), 2), integer(n // 2 * 8 + n % 2))
        body.append(Let(f"b{n}", read("b_shared", placed(right, column, own), kind)))
    for at, name in enumerate(names):
        tile, z = divmod(at, 4)
        i, j = divmod(tile, tiles[1])
        factors = Var(f"a{2 * i + z // 2}", FLOAT32), Var(f"b{2 * j + z % 2}", FLOAT32)
        product = Binary("*", *(factors[::-1] if mirrored else factors), FLOAT32)
        body.append(Set(name, Binary("+", Var(name, FLOAT32), product, FLOAT32)))
    return (loop("s", kind.steps if steps is None else steps, *body, mark=kind.mark),)


def read(name: str, place: tuple[Expr, ...], kind: MatrixProduct) -> Expr:
    load = Load(name, place, kind.dtype)
    return Cast(load, FLOAT32) if kind is F16 else load


def multiplications(kernel: Kernel) -> list[WarpMultiply]:
    return [stmt for stmt in every_statement(kernel) if isinstance(stmt, WarpMultiply)]


@both
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("right", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("left", LAYOUTS, ids=["straight", "across"])
@pytest.mark.parametrize("tiles", SHAPES, ids=str)
def test_loops(
    tiles: tuple[int, int],
    left: tuple[int, int],
    right: tuple[int, int],
    mirrored: bool,
    kind: MatrixProduct,
) -> None:
    """A marked loop is the statement by hand, and means the same."""

    def marked(*arguments: Any) -> tuple[Stmt, ...]:
        return sums(*arguments, mirrored=mirrored, kind=kind)

    kernel = product_of(tiles, left, right, marked, kind)
    verify(kernel)
    made = multiply_by_warps(kernel)
    assert made == product_of(tiles, left, right, kind=kind)
    arrays = arrays_of(kernel)
    evaluate(kernel, arrays)
    np.testing.assert_array_equal(arrays["o"], expected(kernel, left, right))


def changed(kernel: Kernel, change: Any) -> Kernel:
    """The kernel with another body of its loops marked "mma"."""

    def each(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.mark in PRODUCT_OF_MARK:
            return change(stmt)
        return replace(stmt, body=tuple(map(each, stmt.body))) if hasattr(stmt, "body") else stmt

    (region,) = kernel.regions
    return replace(kernel, regions=(tuple(map(each, region)),))


def shared_as(kernel: Kernel, name: str, shape: tuple[int, int]) -> Kernel:
    buffers = (
        dense(b.name, b.dtype, shape, b.role) if b.name == name else b for b in kernel.buffers
    )
    return replace(kernel, buffers=tuple(buffers))


def at_another_step(stmt: For, step: Expr) -> For:
    """The loop, which reads the left tile at other steps."""

    def moved(inner: Stmt) -> Stmt:
        match inner:
            case Let(value=Cast(operand=Load(buffer="a_shared") as load)):
                place = load.indices[0], add(load.indices[1], step)
                return replace(inner, value=Cast(replace(load, indices=place), FLOAT32))
        return inner

    return replace(stmt, body=tuple(map(moved, stmt.body)))


def test_loops_that_stay() -> None:
    """Whatever is not as in the hardware stays a loop, without a mark."""
    plain = product_of((1, 1), multiply=sums)
    fewer = product_of((1, 1), multiply=lambda *a: sums(*a, steps=15))
    x0 = Set("x0", Const(0.0, FLOAT32))
    of_floats = product_of((1, 1), multiply=lambda *a: sums(*a, kind=TF32), kind=TF32)
    kernels = {
        "fifteen steps": fewer,
        "floats that may not be rounded": changed(of_floats, lambda f: replace(f, mark="mma")),
        "lines at two floats": shared_as(of_floats, "a_shared", (16, 38)),
        "a sum less": changed(plain, lambda f: replace(f, body=f.body[:-1])),
        "a sum twice": changed(plain, lambda f: replace(f, body=(*f.body, f.body[-1]))),
        "another statement": changed(plain, lambda f: replace(f, body=(*f.body, x0))),
        "odd lines": shared_as(plain, "a_shared", (16, 36)),
        "some threads": changed(plain, lambda f: If(less(var("t1"), 9), (f,))),
        "another tile for each thread": changed(
            plain, lambda f: loop("q", add(var("t2"), integer(1)), f)
        ),
    }
    for what, kernel in kernels.items():
        verify(kernel)
        made = multiply_by_warps(kernel)
        assert not multiplications(made), what
        assert not any(isinstance(s, For) and s.mark for s in every_statement(made)), what
    part = If(less(var("t1"), 4), (Set("tile", integer(1)),))
    moving = changed(
        plain,
        lambda f: If(
            less(integer(0), 1),
            (Let("tile", integer(0)), part, at_another_step(f, times(var("tile"), 16))),
        ),
    )
    verify(moving)
    assert not multiplications(multiply_by_warps(moving))
    whole_warps = changed(plain, lambda f: If(less(WARP, 1), (f,)))
    assert multiplications(multiply_by_warps(whole_warps))


# --- the rules --------------------------------------------------------------------------------


def with_statement(change: Any, tiles: tuple[int, int] = (1, 1)) -> Kernel:
    kernel = product_of(tiles)
    (statement,) = multiplications(kernel)

    def each(stmt: Stmt) -> Stmt:
        if stmt is statement:
            return change(statement)
        return replace(stmt, body=tuple(map(each, stmt.body))) if hasattr(stmt, "body") else stmt

    (region,) = kernel.regions
    return replace(kernel, regions=(tuple(map(each, region)),))


ILL_FORMED = {
    "no local": (lambda s: replace(s, sums=("x0", "x1", "x2", "y")), "'y' is no local of float32"),
    "twice": (lambda s: replace(s, sums=("x0", "x1", "x2", "x2")), "two of its sums are one local"),
    "few": (lambda s: replace(s, sums=s.sums[:3]), "3 sums of 4 results"),
    "no tile": (lambda s: replace(s, left=()), "4 sums of 0 results"),
    "float": (
        lambda s: replace(s, left=(Load("o", (B0, B0, B0), FLOAT32),)),
        "'o[b0, b0, b0]' is no element of float16",
    ),
    "no shared memory": (
        lambda s: replace(s, right=(replace(s.right[0], buffer="b"),)),
        "a tile is in no shared memory",
    ),
    "no product": (lambda s: replace(s, factors="bf16"), "no product is called 'bf16'"),
    "halves as floats": (
        lambda s: replace(s, factors="tf32"),
        "'a_shared[0, k * 16]' is no element of float32",
    ),
    "axes": (lambda s: replace(s, right_axes=(1, 1)), "no tile of 'b_shared' has the axes (1, 1)"),
}


@pytest.mark.parametrize("name", ILL_FORMED)
def test_ill_formed(name: str) -> None:
    change, reason = ILL_FORMED[name]
    with pytest.raises(InternalError) as caught:
        verify(with_statement(change))
    assert caught.value.cause.endswith(reason)


def test_ill_formed_around() -> None:
    kernel = product_of((1, 1))
    with pytest.raises(InternalError, match=r"lines of 'a_shared' are \[36\] elements apart"):
        verify(shared_as(kernel, "a_shared", (16, 36)))
    ((launch,),) = kernel.regions
    few = replace(kernel, regions=((replace(launch, threads=launch.threads[1:]),),))
    few = replace(
        few, regions=((replace(few.regions[0][0], threads=grid((), (2, 8, 3)).threads),),)
    )
    with pytest.raises(InternalError, match="no whole warps of 32"):
        verify(few)


def broken(kernel: Kernel) -> str:
    with pytest.raises(InternalError) as caught:
        evaluate(kernel, arrays_of(kernel))
    return caught.value.cause.partition(": in ")[2].partition("': ")[2]


def moved(index: Expr) -> Any:
    return lambda s: replace(s, left=(replace(s.left[0], indices=(s.left[0].indices[0], index)),))


def test_broken_promises() -> None:
    part = changed_statement(lambda s: If(less(var("t1"), 4), (s,)))
    assert "thread (0, 0, 0) multiplies here, this one does not" in broken(part)
    other = with_statement(moved(times(var("t1"), 8)))
    assert broken(other) == "threads of a warp differ in the tile a_shared[0, t1 * 8]"
    assert (
        broken(with_statement(moved(integer(4))))
        == "a line of the tile a_shared[0, 4] is not aligned"
    )
    assert "is outside of shape" in broken(with_statement(moved(integer(40))))
    assert "reads a_shared[0, 32] before any write" in broken(with_statement(moved(integer(24))))


def changed_statement(change: Any) -> Kernel:
    return with_statement(change)
