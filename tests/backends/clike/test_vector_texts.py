"""The C text of kernels with vectors, marks and private buffers, on any compiler there is."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tc.backends.clike import backend as c_backend
from tc.backends.clike import lane_helpers
from tc.backends.clike.backend import CBackend
from tc.backends.clike.c import C99
from tc.backends.clike.printer import print_kernel as print_in
from tc.backends.clike.printer import spell
from tc.device import vector_bits
from tc.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Reduce,
    Select,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.verify import verify
from tests.backends.clike import test_vectors as shared
from tests.support.bounds import assert_computes
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import MATMUL, address, load
from tests.support.lanewise import arguments, block, check, first, ramp, run, splat, taken

BACKEND = CBackend()
EXPECTED = Path(__file__).parents[2] / "expected"
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
needs_compiler = pytest.mark.skipif(BACKEND.usable() is not None, reason=str(BACKEND.usable()))
F16, J = FLOAT32.vector(16), Var("j", INT64)


# --- whole texts ------------------------------------------------------------------------------


def print_kernel(kernel: Kernel) -> str:
    return print_in(kernel, C99)


def matmul_tile() -> Kernel:
    """relu(A(3,20) * B(20,27)): B packed to scratch, all rows at once, the last columns masked."""
    k, row = Var("k", INT64), Var("r", INT64)
    column = Binary("*", J, integer(16), INT64)
    inside = Var("inside", BOOL.vector(16))
    tail = first(Binary("-", integer(27), column, INT64), 16)
    part = ramp(column, 1, 16)
    packed = Load("packed", (k, ramp(0, 1, 16)), F16)
    total = Load("total", (row, ramp(0, 1, 16)), F16)
    factor = Broadcast(Load("A", (row, k), FLOAT32), F16)
    zero = Const(0.0, F16)
    every = (integer(0), integer(3))
    body: tuple[Stmt, ...] = (
        Let("inside", tail),
        loop("k", 20, Store("packed", (k, ramp(0, 1, 16)), Load("B", (k, part), F16, inside))),
        For("r", *every, (Store("total", (row, ramp(0, 1, 16)), zero),), mark="unroll"),
        loop(
            "k",
            20,
            For(
                "r",
                *every,
                (Store("total", (row, ramp(0, 1, 16)), Call("fma", (factor, packed, total), F16)),),
                mark="unroll",
            ),
        ),
        For(
            "r",
            *every,
            (Store("C", (row, part), Binary("max", total, zero, F16), inside),),
            mark="unroll",
        ),
    )
    buffers = (
        dense("A", FLOAT32, (3, 20), "input"),
        dense("B", FLOAT32, (20, 27), "input"),
        dense("C", FLOAT32, (3, 27), "output"),
        dense("packed", FLOAT32, (20, 16), "scratch"),
        dense("total", FLOAT32, (3, 16), "register"),
    )
    return Kernel("tile", buffers, ((loop("j", 2, *body, parallel=True),),))


def test_whole_matmul(golden: Callable[[Path, str], None]) -> None:
    verify(matmul_tile())
    golden(EXPECTED / "vectors" / "kernel.c", print_kernel(matmul_tile()))


@needs_compiler
def test_matmul_is_right() -> None:
    rng = np.random.default_rng(0)
    given = {"A": rng.standard_normal((3, 20)), "B": rng.standard_normal((20, 27))}
    given = {name: array.astype(np.float32) for name, array in given.items()}
    found = check(BACKEND, matmul_tile(), given)
    product = given["A"].astype("float64") @ given["B"]
    assert_computes(MATMUL, given, np.maximum(found["C"], 0), np.maximum(product, 0))


def test_equal_kernels_give_equal_texts() -> None:
    assert print_kernel(matmul_tile()) == print_kernel(matmul_tile())


def test_kernels_without_vectors_are_plain_c99() -> None:
    scalar = Kernel("k", (dense("o", INT64, (4,), "output"),), ((loop("i", 4, store(I)),),))
    assert not re.search("pragma|attribute|builtin|workspace", print_kernel(scalar))


def store(value: Expr) -> Store:
    return Store("o", (I,), value)


def line(expr: Expr) -> str:
    """The line that stores a vector of 16 made of inputs x (float32), n (int32), q (bool)."""
    inputs = [
        dense(n, d, (64,), "input")
        for n, d in zip("xnqz", (FLOAT32, INT32, BOOL, INT64), strict=True)
    ]
    kernel = Kernel(
        "k",
        (*inputs, dense("o", expr.dtype.scalar, (64,), "output")),
        ((loop("i", 4, Store("o", (ramp(Binary("*", I, integer(16), INT64), 1, 16),), expr)),),),
    )
    verify(kernel)
    found = next(text for text in print_kernel(kernel).splitlines() if "&o[i * 16]" in text)
    return found.strip().removesuffix(");").split("(&o[i * 16], ")[1]


X, N = (Load(n, (ramp(0, 1, 16),), d.vector(16)) for n, d in (("x", FLOAT32), ("n", INT32)))
Q = Load("q", (ramp(0, 1, 16),), BOOL.vector(16))
LX, LN, LQ = "tc_load_float32x16(&x[0])", "tc_load_int32x16(&n[0])", "tc_load_uint8x16(&q[0])"


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Binary("*", Binary("+", X, X, F16), X, F16), f"({LX} + {LX}) * {LX}"),
        (Binary("+", N, Binary("*", N, N, N.dtype), N.dtype),
         f"(int32x16)((uint32x16){LN} + (uint32x16){LN} * (uint32x16){LN})"),
        (Binary("&", N, Binary(">>", N, splat(3, INT32, 16), N.dtype), N.dtype),
         f"{LN} & ({LN} >> tc_broadcast_int32x16(3))"),
        (splat(0.0, FLOAT32, 16), "(float32x16){0}"),
        (splat(-0.0, FLOAT32, 16), "tc_broadcast_float32x16(-0.0f)"),
        (Call("sqrt", (X,), F16), f"tc_sqrt_float32x16({LX})"),
        (Call("fma", (X, X, X), F16), f"tc_fma_float32x16({LX}, {LX}, {LX})"),
        (Select(Compare("<", X, X, BOOL.vector(16)), X, X, F16),
         f"tc_select_float32x16((int32x16)({LX} < {LX}), {LX}, {LX})"),
        (Select(Q, X, X, F16),
         f"tc_select_float32x16(__builtin_convertvector((int8x16)({LQ} != (uint8x16){{0}}), "
         f"int32x16), {LX}, {LX})"),
        (Cast(Compare("<", X, X, BOOL.vector(16)), INT32.vector(16)), f"-(int32x16)({LX} < {LX})"),
        (Cast(X, N.dtype), f"tc_to_int32x16_float32({LX})"),
        (Cast(N, FLOAT64.vector(16)), f"__builtin_convertvector({LN}, float64x16)"),
        (Load("x", (ramp(I, 2, 16),), F16), "tc_load_every2_float32x16(&x[i])"),
        (Load("x", (ramp(I, -1, 16),), F16), "tc_load_backward_float32x16(&x[i])"),
        (Load("x", (ramp(I, 5, 16),), F16), "tc_load_strided_float32x16(&x[i], 5)"),
        (Load("x", (Broadcast(I, INT64.vector(16)),), F16), "tc_broadcast_float32x16(x[i])"),
        (Load("x", (ramp(I, 1, 16),), F16, first(I, 16)),
         "tc_load_masked_float32x16(&x[i], "
         "(int32x16)(tc_ramp_int32x16(0, 1) < tc_nearest_int32x16(i)))"),
        (Load("x", (Load("z", (ramp(0, 1, 16),), INT64.vector(16)),), F16),
         "tc_gather_float32x16(&x[0], tc_load_int64x16(&z[0]))"),
        (Broadcast(Reduce("+", X, FLOAT32), F16),
         f"tc_broadcast_float32x16(tc_sum_float32x16({LX}))"),
    ],
)  # fmt: skip
def test_expressions(expr: Expr, expected: str) -> None:
    assert line(expr) == expected


def test_names_of_vectors_are_not_taken() -> None:
    names = ("float32x16", "int8x4", "workspace", "uint64x2", "floatx2")
    buffers = tuple(Buffer(name, FLOAT32, (), (), "input") for name in names)
    spelt = spell(Kernel("k", buffers, ()), C99).buffers
    assert [spelt[name].startswith("v_") for name in names] == [True] * 4 + [False]


# --- marks, locals and private buffers --------------------------------------------------------


@needs_compiler
def test_masks_as_locals() -> None:
    """Masks are kept in the width of their first use, and used in others."""
    given = {"x": shared.samples(FLOAT32, 64), "d": shared.samples(FLOAT64, 64)}
    x, d = taken("x", FLOAT32, 16), taken("d", FLOAT64, 16)
    bools = BOOL.vector(16)
    m, n = Var("m", bools), Var("n", bools)
    more = Logical("||", (m, Compare("<", d, splat(0.5, FLOAT64, 16), bools)), bools)
    body = (
        Let("m", Compare("<", ramp(I, 1, 16), splat(9, INT64, 16), bools)),
        Let("n", Compare("<", x, splat(0.0, FLOAT32, 16), bools)),
        If(Reduce("min", n, BOOL), (Set("n", splat(False, BOOL, 16)),)),
        If(Compare("<", I, integer(2)), (Set("n", Logical("!", (more,), bools)), Set("m", n))),
        Store("o", (block(16),), Select(n, x, Cast(m, F16), F16), more),
        Store("e", (block(16),), d, m),
    )
    outputs = (dense("o", FLOAT32, (64,), "output"), dense("e", FLOAT64, (64,), "output"))
    inputs = tuple(dense(name, DTYPES[a.dtype.name], (64,), "input") for name, a in given.items())
    kernel = Kernel(
        "k", (*inputs, *outputs), ((loop("i", 4, *body),),), initial=frozenset(("o", "e"))
    )
    check(BACKEND, kernel, given)
    text = print_kernel(kernel)
    assert "int64x16 m = " in text
    assert "int32x16 n = " in text


def test_unrolled_loops_are_marked() -> None:
    def lines(end: int, mark: str) -> list[str]:
        body = (For("i", integer(2), integer(end), (store(I),), mark=mark),)
        kernel = Kernel("k", (dense("o", INT64, (end,), "output"),), (body,))
        text = print_kernel(kernel).splitlines()
        return [part.strip() for part in text if "pragma" in part or "for (" in part]

    header = "for (int64_t i = 2; i < {}; i++) {{"
    assert lines(6, "unroll") == ["#pragma GCC unroll 4", header.format(6)]
    for end, mark in ((6, ""), (6, "vector"), (3, "unroll"), (10**6, "unroll")):
        assert lines(end, mark) == [header.format(end)]


def private(size: int) -> Kernel:
    """o[i] = the sum of i * x over an x that goes through scratch and registers."""
    value = Binary("*", Load("x", (J,), FLOAT32), Cast(I, FLOAT32), FLOAT32)
    kept, tail = Load("s", (J,), FLOAT32), Load("r", (integer(0),), FLOAT32)
    body = (
        loop("j", size, Store("s", (J,), value)),
        Store("r", (integer(0),), Const(0.0, FLOAT32)),
        loop("j", size, Store("r", (integer(0),), Binary("+", tail, kept, FLOAT32))),
        store(tail),
    )
    buffers = (
        dense("x", FLOAT32, (size,), "input"),
        dense("o", FLOAT32, (50,), "output"),
        dense("s", FLOAT32, (size,), "scratch"),
        dense("bytes", DTYPES["int8"], (3, 5), "scratch"),
        dense("r", FLOAT32, (1,), "register"),
        dense("unused", FLOAT32, (7,), "register"),
    )
    return Kernel("k", buffers, ((loop("i", 50, *body, parallel=True),),))


@needs_compiler
def test_each_call_has_its_own_scratch() -> None:
    """Calls at the same time do not disturb each other, and later ones allocate nothing."""
    kernel = private(5000)
    compiled = load(BACKEND, kernel)
    inputs = [{"x": np.full(5000, n, np.float32)} for n in range(4)]
    calls = [arguments(kernel, inputs[k % 4]) for k in range(64)]
    with ThreadPoolExecutor(8) as pool:
        addresses = [[address(array) for array in arrays.values()] for arrays in calls]
        assert list(pool.map(compiled.run, addresses)) == [None] * 64
    for k, arrays in enumerate(calls):
        expected = np.arange(50, dtype=np.float32) * (k % 4) * 5000
        np.testing.assert_array_equal(arrays["o"], expected)
    pieces = len(compiled.memory.idle)
    assert 1 <= pieces <= 8
    compiled.run(addresses[0])
    assert len(compiled.memory.idle) == pieces
    assert all(
        piece.words[len(compiled.kernel.arguments)] % 64 == 0 for piece in compiled.memory.idle
    )


@needs_compiler
def test_private_buffers() -> None:
    x = np.arange(16, dtype=np.float32)
    expected = arguments(private(16), {"x": x})
    assert evaluate(private(16), expected) is None
    assert run(BACKEND, private(16), {"x": x})["o"].tolist() == expected["o"].tolist()
    text = print_kernel(private(16))
    assert "(const float* restrict x, float* restrict o, unsigned char* restrict workspace)" in text
    assert "    float* restrict s = (float*)(workspace + 0);\n" in text
    assert "unused" not in text.split("void k(")[1]


# --- compilers --------------------------------------------------------------------------------

TEXTS: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
    (shared.test_arithmetic, (FLOAT32, 16)),
    (shared.test_arithmetic, (DTYPES["int8"], 64)),
    (shared.test_comparisons_and_choices, (FLOAT64, 16)),
    (shared.test_comparisons_and_choices, (DTYPES["uint16"], 2)),
    (shared.test_bool, (16,)),
    (shared.test_casts, (FLOAT32, 16)),
    (shared.test_floats_truncate_to_integers, (FLOAT64,)),
    (shared.test_reductions, (INT32, 16)),
    (shared.test_shuffles, (FLOAT32,)),
    (shared.test_loads, (FLOAT32, "rows")),
    (shared.test_stores, (BOOL,)),
    (shared.test_functions, (FLOAT32,)),
    (shared.test_halves, ()),
]
MACHINES = {"native": ("-O2", "-march=native"), "debug": ("-O0", "-std=gnu11")}


@pytest.fixture(params=["gcc", "clang"])
def compiler(request: pytest.FixtureRequest) -> str:
    path = shutil.which(request.param)
    if path is None:
        pytest.skip(f"there is no {request.param}")
    return path


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the kernels that the tests in TEXTS would run."""
    found: list[str] = []

    def keep(backend: CBackend, kernel: Kernel, _: object, **options: object) -> None:
        del options
        found.append(str(backend.emit(kernel)))

    monkeypatch.setattr(shared, "check", keep)
    monkeypatch.setattr(shared, "run", keep)
    for test, args in TEXTS:
        test(*args)
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_texts_compile_without_warnings(
    compiler: str, machine: str, texts: list[str], tmp_path: Path
) -> None:
    for number, text in enumerate([*texts, print_kernel(matmul_tile()), print_kernel(private(9))]):
        (tmp_path / f"k{number}.c").write_text(text, encoding="utf-8")
    sources = [f"k{number}.c" for number in range(len(texts) + 2)]
    command = [compiler, *STRICT, *MACHINES[machine], "-c", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.drawn(3)
@pytest.mark.parametrize("native", ["-march=native", "-march=haswell", "-O3"])
def test_results_on_each_compiler(
    compiler: str, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the widest vectors of this machine, with those of many others, and without; no text
    makes the compiler warn."""
    usual = c_backend.compiler()
    if native == c_backend.NATIVE and usual and os.path.samefile(usual, compiler):
        pytest.skip("test_vectors.py runs these")
    if native == "-march=haswell" and not (platform.machine() == "x86_64" and vector_bits() > 128):
        pytest.skip("this machine runs no code for haswell")
    monkeypatch.setattr(c_backend, "COMPILERS", (compiler,))
    monkeypatch.setattr(c_backend, "NATIVE", native)
    # with the machine among them, as what fails is compiled again for any machine
    monkeypatch.setattr(c_backend, "FLAGS", (*c_backend.FLAGS, *STRICT, native))
    monkeypatch.setattr(c_backend, "VECTOR_FLAGS", ())  # Clang knows them not
    for test, args in TEXTS:
        test(*args)


@needs_compiler
def test_shuffles_on_older_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that lack the function for them."""
    monkeypatch.setattr(lane_helpers, "HAS_SHUFFLES", "0")
    shared.test_shuffles(FLOAT32)
    shared.test_reductions(FLOAT64, 8)
