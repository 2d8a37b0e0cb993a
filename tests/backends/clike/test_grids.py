"""Kernels of blocks and threads: as OpenCL C, run by PoCL, and as CUDA C++."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tc.backends.clike.c import C99
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.dialect import Dialect
from tc.backends.clike.opencl_dialect import OPENCL
from tc.backends.clike.printer import launches_of, print_kernel
from tc.backends.geometry import LaunchGeometry
from tc.backends.opencl import OpenCLBackend
from tc.dtypes import INT8, INT64, UINT8
from tc.errors import BackendError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, integer
from tc.kernel.ir import Buffer, Comment, Failure, Grid, Kernel, Let, Load, Store
from tc.kernel.verify import verify
from tests.kernel.grids import B0, T0, grid, launches, tmm
from tests.kernel.marked import Array
from tests.support.build import dense, loop, times, var
from tests.support.grid_cases import AT_ONCE, GRIDS, GridCase, failing
from tests.support.kernels import load, run
from tests.support.opencl import on_pocl

EXPECTED = Path(__file__).parents[2] / "expected" / "launches"
BACKEND = OpenCLBackend()
DIALECTS = {"cl": OPENCL, "cu": CUDA}


def fresh(kernel: Kernel, given: dict[str, Array]) -> dict[str, Array]:
    """The inputs with outputs that hold something."""
    outputs = [b for b in kernel.arguments if b.role != "input"]
    return {**given, **{b.name: np.full(b.shape, 3, b.dtype.numpy) for b in outputs}}


def results(kernel: Kernel, given: dict[str, Array]) -> dict[str, Array]:
    failure, arrays = run(load(BACKEND, kernel), fresh(kernel, given))
    assert failure is None
    return arrays


@pytest.mark.parametrize("number", range(len(GRIDS)), ids=[case.name for case in GRIDS])
@on_pocl
def test_results(number: int) -> None:
    case = GRIDS[number]
    given = case.inputs(np.random.default_rng(number))
    found = results(case.kernel, given)
    for name, expected in case.formula(given).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("case", [*GRIDS, *AT_ONCE], ids=str)
def test_kernels_keep_their_promises(case: GridCase) -> None:
    """`evaluate` finds no fault, so that these kernels are well defined."""
    verify(case.kernel)
    given = case.inputs(np.random.default_rng(0))
    arrays = {b.name: np.full(b.shape, 3, b.dtype.numpy) for b in case.kernel.arguments}
    arrays |= given
    passed = {name: a for name, a in arrays.items() if case.kernel.buffer(name).role != "temporary"}
    assert evaluate(case.kernel, passed) is None
    for name, expected in case.formula(given).items():
        np.testing.assert_array_equal(arrays[name], expected)


# --- failed checks ----------------------------------------------------------------------------


@on_pocl
def test_failures_g7() -> None:
    """One failure is recorded, of whichever thread came first; all other results are right."""
    kernel, a = failing(), np.arange(10, 15, dtype=np.float32)
    compiled = load(BACKEND, kernel)
    for wrong in ({}, {17: -2}, {17: -2, 39: -9, 0: 5}, {3: 1 << 40}, {}):
        places = np.arange(40) % 5
        places[list(wrong)] = list(wrong.values())
        failure, arrays = run(compiled, fresh(kernel, {"a": a, "p": places}))
        possible = {Failure(0, (n, p)) if p < 0 else Failure(1, (n,)) for n, p in wrong.items()}
        assert failure in possible if wrong else failure is None
        outside = (places < 0) | (places >= 5)
        expected = np.where(outside, 7, a[np.where(outside, 0, places)])
        np.testing.assert_array_equal(arrays["o"], expected)
        np.testing.assert_array_equal(arrays["q"], 2 * expected)


# --- memory -----------------------------------------------------------------------------------


@on_pocl
def test_no_elements() -> None:
    """Buffers without elements have no memory; where nothing is to be done nothing is launched."""
    body = loop("i", 0, Store("o", (var("i"),), Load("a", (var("i"), T0), INT64)))
    kernel = launches(
        grid((), (2,), body, Store("p", (T0,), T0)),
        buffers=(
            dense("a", INT64, (0, 3), "input"),
            dense("o", INT64, (0,), "output"),
            dense("p", INT64, (2,), "output"),
        ),
    )
    assert results(kernel, {"a": np.zeros((0, 3), np.int64)})["p"].tolist() == [0, 1]
    none = (dense("o", INT64, (0,), "output"),)
    for regions in ((), ((Comment("nothing"),),)):
        assert results(Kernel("none", none, regions), {})["o"].size == 0


# --- texts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", DIALECTS)
@pytest.mark.parametrize("name", ["tmm", "exchanged", "reversed_input", "much_shared", "halves"])
def test_texts(name: str, language: str, golden: Callable[[Path, str], None]) -> None:
    kernel = next(case.kernel for case in GRIDS if case.name == name)
    golden(EXPECTED / f"{name}.{language}", print_kernel(kernel, DIALECTS[language]))


@pytest.mark.parametrize("language", DIALECTS)
def test_text_of_failures(language: str, golden: Callable[[Path, str], None]) -> None:
    golden(EXPECTED / f"failing.{language}", print_kernel(failing(), DIALECTS[language]))


@pytest.mark.parametrize("language", DIALECTS)
def test_offsets_past_2_to_31(language: str) -> None:
    """They are computed from numbers of 64 bits, and so are constants."""
    long, far = {"cl": "long", "cu": "long long"}[language], (1 << 31) + 5
    kernel = launches(
        grid((3,), (4,), Store("o", (B0, T0), Load("a", (B0, integer(7)), UINT8))),
        buffers=(
            Buffer("a", UINT8, (3, far), (-far, 1), "input"),
            dense("o", UINT8, (3, far), "output"),
        ),
    )
    text = print_kernel(kernel, DIALECTS[language])
    assert f"const {long} b0 = " in text
    assert f" a = tc_lowest_a + {2 * far};" in text
    assert f"o[b0 * {far} + t0] = a[b0 * -{far} + 7];" in text


def test_geometry() -> None:
    assert launches_of(tmm(), OPENCL) == launches_of(tmm(), CUDA)
    (launch,) = launches_of(tmm(), CUDA)
    assert launch == LaunchGeometry("k_0", (8, 32, 1), (32, 1, 1), 4752)
    assert launch.threads == 32
    much = next(case.kernel for case in GRIDS if case.name == "much_shared")
    size = 124 * 129 * 4 + 128
    assert launches_of(much, CUDA) == (LaunchGeometry("k_0", (1, 1, 1), (124, 1, 1), size, size),)
    assert launches_of(much, OPENCL)[0].dynamic == 0
    assert launches_of(tmm(), C99) == ()


def test_unused_numbers_are_left_out() -> None:
    kernel = launches(
        grid((3, 2), (4,), Let("x", integer(1)), Store("o", (), var("x"))),
        buffers=(dense("o", INT64, (), "output"), dense("s", INT8, (4,), "shared")),
    )
    assert print_kernel(kernel, CUDA).split("{\n")[1] == (
        "    long long x = 1;\n    o[0] = x;\n}\n"
    )


@pytest.mark.parametrize(
    ("region", "dialect", "cause"),
    [
        (
            (Store("o", (), integer(1)),),
            OPENCL,
            "OpenCL C has launches of blocks and threads alone, and 'k' has loops beside them",
        ),
        (
            (Let("x", integer(1)), Grid((), (), ())),
            CUDA,
            "CUDA C++ has launches of blocks and threads alone, and 'k' has loops beside them",
        ),
        ((Grid((), (), ()),), C99, "blocks and threads of a GPU are not printed in C"),
        (
            (Grid((), (), (Grid((), (), ()),)),),
            CUDA,
            "blocks and threads of a GPU are not printed in CUDA C++",
        ),
    ],
)
def test_regions_that_have_no_text(region: Any, dialect: Dialect, cause: str) -> None:
    kernel = Kernel("k", (dense("o", INT64, (), "output"),), (region,))
    with pytest.raises(BackendError) as caught:
        print_kernel(kernel, dialect)
    repair = 'tc.compile(source, backend="numba"), or "c"'
    assert str(caught.value) == f"BackendError: {cause}\nrepair: {repair}"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_bounds_of_numbers_are_known(dialect: Dialect) -> None:
    """What is computed of them cannot leave its type, nor be negative: it needs no helper."""
    n = binary("+", times(B0, 4), T0)
    value = binary("+", binary("/", n, integer(3)), binary("%", n, integer(3)))
    kernel = launches(
        grid((8,), (4,), Store("o", (B0, T0), value)),
        buffers=(dense("o", INT64, (8, 4), "output"),),
    )
    text = "o[b0 * 4 + t0] = (b0 * 4 + t0) / 3 + (b0 * 4 + t0) % 3;"
    assert text in print_kernel(kernel, dialect)
