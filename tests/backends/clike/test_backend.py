"""Kernels as C: the operations that numba's tests check, checked for C too, and how it is run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import registry
from tc.backends.clike import backend as c_backend
from tc.backends.clike.backend import CBackend
from tc.builtins import BUILTINS
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from tc.errors import BackendError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Store,
    Var,
)
from tests.backends.numba import test_arithmetic as operations
from tests.backends.numba import test_backend as shared
from tests.support.bounds import assert_computes
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import MATMUL, address, elementwise, fresh, load, matmul, run
from tests.support.programs import CASES

BACKEND = CBackend()
EXPECTED = Path(__file__).parents[2] / "expected"
needs_compiler = pytest.mark.skipif(BACKEND.usable() is not None, reason=str(BACKEND.usable()))
TYPES = [d for d in DTYPES.values() if d.is_in_numpy and d != FLOAT16]
OPERATIONS: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
    *((operations.test_integers_wrap_and_divide_downward, (d,)) for d in operations.INTEGERS),
    *((operations.test_comparisons, (d,)) for d in TYPES),
    (operations.test_comparison_of_what_wraps, ()),
    *((operations.test_float_arithmetic_is_ieee, (d,)) for d in operations.FLOATS),
    (operations.test_nothing_is_contracted_or_reordered, ()),
    (operations.test_bool_operations, ()),
    (operations.test_bool_arrays_may_hold_any_byte, ()),
    *((operations.test_casts, (d,)) for d in TYPES),
    (operations.test_large_integers_round_once_to_float32, ()),
    *((operations.test_to_half_rounds_to_nearest_even, (d,)) for d in (FLOAT32, FLOAT64, INT32)),
    (operations.test_all_halves_to_float32_and_back, ()),
    (shared.test_only_the_branch_taken_is_evaluated, ()),
    (shared.test_layouts_of_inputs, (5,)),
    (shared.test_locals_regions_and_temporaries, ()),
    (shared.test_empty_ranges_and_buffers, ()),
]


@pytest.fixture
def on_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(shared, "BACKEND", BACKEND)
    monkeypatch.setattr(operations, "BACKEND", BACKEND)
    return


@needs_compiler
@pytest.mark.usefixtures("on_c")
@pytest.mark.parametrize(
    ("test", "args"), OPERATIONS, ids=lambda p: p.__name__ if callable(p) else "-".join(map(str, p))
)
def test_as_on_numba(test: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Rules Y2, Y4, Y5, Y6, Y8 and N2."""
    test(*args)


# --- functions --------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("dtype", operations.INTEGERS, ids=str)
def test_abs_of_integers(dtype: Any) -> None:
    x = operations.samples(dtype)
    (found,) = _compute([Call("abs", (Load("a", (I,), dtype),), dtype)], a=x)
    operations.check(found, operations.wrapped([abs(int(v)) for v in x], dtype), "abs")


def _compute(exprs: list[Any], **inputs: Any) -> list[Any]:
    kernel = elementwise(exprs, inputs, len(next(iter(inputs.values()))))
    failure, arrays = run(load(BACKEND, kernel), inputs)
    assert failure is None
    return [arrays[f"o{n}"] for n in range(len(exprs))]


# --- statements -------------------------------------------------------------------------------


@needs_compiler
def test_the_end_of_a_loop_is_evaluated_once() -> None:
    """The body changes the local and the element that the end is made of."""
    n = Var("n", INT64)
    count = Store("o", (integer(0),), tc_sum(Load("o", (integer(0),), INT64), 1))
    grow = Set("n", tc_sum(n, 5))
    inner = For("j", integer(0), Load("o", (integer(0),), INT64), (count,))
    kernel = Kernel(
        "k",
        (dense("o", INT64, (1,), "output"),),
        (
            (
                Store("o", (integer(0),), integer(2)),
                Let("n", integer(3)),
                For("i", integer(0), n, (grow, inner)),
            ),
        ),
    )
    arrays = {"o": np.zeros(1, np.int64)}
    load(BACKEND, kernel).run([address(arrays["o"])])
    expected = fresh(kernel, {})
    evaluate(kernel, expected)
    assert arrays["o"].tolist() == expected["o"].tolist() == [16]


def tc_sum(left: Any, right: int) -> Any:
    return Binary("+", left, integer(right), INT64)


@needs_compiler
def test_first_failure_g7() -> None:
    """Rule G7: the first in sequential order, each run on its own, on many threads at once."""
    kernel = shared.gather(300)
    compiled = load(BACKEND, kernel)
    places = np.arange(300)
    places[[120, 121, 299]] = [-5, 300, 1 << 60]
    right = np.full(300, 3)
    good, bad = {"a": np.ones(300), "p": right}, {"a": np.ones(300), "p": places}
    assert run(compiled, bad)[0] == evaluate(kernel, fresh(kernel, bad)) == Failure(0, (120, -5))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: run(compiled, bad if k % 2 else good)[0], range(200)))
    assert found == [Failure(1, (299,)), Failure(0, (120, -5))] * 100


@needs_compiler
def test_matmul_against_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    _, arrays = run(load(BACKEND, matmul(32, 32, 32)), {"A": a, "B": b}, threads=4)
    assert_computes(MATMUL, [a, b], arrays["C"], a.astype("float64") @ b)


# --- texts that compilers do not doubt --------------------------------------------------------


def compile_strictly(source: str, folder: Path) -> None:
    """Fails the test at any warning, and where the text defines more than its one function."""
    path = folder / "kernel.c"
    path.write_text(source, encoding="utf-8")
    compiler = c_backend.compiler()
    assert compiler is not None
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    for more in ([], ["-std=gnu11", "-fsyntax-only"]):  # what is optimised is the same in both
        done = subprocess.run(
            [compiler, *flags, *more, "-c", "kernel.c", "-o", "kernel.o"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.drawn(6)
@needs_compiler
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_programs_compile_without_warnings(case: Any, tmp_path: Path) -> None:
    inputs = case.inputs(np.random.default_rng(0))
    text = tc.emit(case.text, inputs, entry=case.def_name, backend="c")
    compile_strictly(str(text), tmp_path)


@needs_compiler
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_operations_compile_without_warnings(dtype: Any, tmp_path: Path) -> None:
    """Comparisons that the type decides, unused locals, conversions of all kinds."""
    a, b = Load("a", (I,), dtype), Load("b", (I,), dtype)
    zero, one = (Const(dtype.numpy.type(v).item(), dtype) for v in (0, 1))
    compare = [
        Compare(op, left, right)
        for op in operations.RELATIONS
        for left, right in ((a, zero), (zero, a), (a, a), (a, b), (a, one))
    ]
    casts = [Cast(a, t) for t in DTYPES.values() if t.is_in_numpy and t not in (dtype, FLOAT16)]
    arithmetic = [
        Binary(op, left, right, dtype)
        for op in (("min", "max") if dtype == BOOL else ("+", "-", "*", "/", "%", "min", "max"))
        for left, right in ((a, b), (a, one), (one, one))
    ]
    nested = [
        Compare("==", compare[3], compare[-1]),
        Logical("||", (Logical("&&", (compare[3], compare[4])), compare[-1])),
        Compare("!=", Logical("!", (compare[3],)), compare[-1]),
        Select(compare[3], Select(compare[4], a, b, dtype), one, dtype),
    ]
    exprs = [*compare, *casts, *arithmetic, *nested]
    given = {"a": np.ones(9, dtype.numpy), "b": np.ones(9, dtype.numpy)}
    kernel = elementwise(exprs, given, 9)
    unused = (Let("unused", one), Let("given", one), Set("given", zero), If(compare[0], ()))
    kernel = Kernel("k", kernel.buffers, (*kernel.regions, (loop("i", 9, *unused),), unused[:1]))
    compile_strictly(str(BACKEND.emit(kernel)), tmp_path)


@needs_compiler
@pytest.mark.parametrize("path", sorted(EXPECTED.glob("*/kernel.c")), ids=lambda p: p.parent.name)
def test_expected_texts_compile_without_warnings(path: Path, tmp_path: Path) -> None:
    compile_strictly(path.read_text(encoding="utf-8"), tmp_path)


@needs_compiler
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_functions_compile_without_warnings(dtype: Any, tmp_path: Path) -> None:
    given = {name: np.ones(3, dtype.numpy) for name in "abcd"}
    calls = [
        Call(n, tuple(Load(v, (I,), dtype) for v in "abcd"[: b.arity]), dtype)
        for n, b in BUILTINS.items()
    ]
    compile_strictly(str(BACKEND.emit(elementwise(calls, given, 3))), tmp_path)


# --- the compiler -----------------------------------------------------------------------------


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_backend, "COMPILERS", ("no-such-compiler",))
    reason = "there is no C compiler (none of no-such-compiler is on the PATH)"
    assert BACKEND.usable() == reason
    assert "c" not in registry.usable_names()
    text = BACKEND.emit(matmul(2, 2, 2))  # needs no compiler
    with pytest.raises(BackendError) as caught:
        BACKEND.load(text)
    assert str(caught.value) == (
        f"BackendError: backend 'c': {reason}\n"
        'repair: install one (Debian: apt install gcc), or use backend="numba"'
    )


def fake_compiler(folder: Path, script: str) -> str:
    path = folder / "fake-cc"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_failing_compiler_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 40 ]; do echo line $i >&2; i=$((i+1)); done; exit 3"
    path = fake_compiler(tmp_path, script)
    monkeypatch.setattr(c_backend, "COMPILERS", (path,))
    with pytest.raises(BackendError) as caught:
        BACKEND.load(BACKEND.emit(matmul(2, 2, 2)))
    tail = "\n".join(f"line {i}" for i in range(28, 40))
    assert str(caught.value) == (
        f"BackendError: backend 'c': {path} failed with status 3:\n{tail}\n"
        'repair: repair the compiler, or use backend="numba"'
    )


@needs_compiler
def test_a_compiler_that_knows_no_native_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = c_backend.compiler()
    refuse = 'for a in "$@"; do [ "$a" = -march=native ] && exit 1; done'
    monkeypatch.setattr(
        c_backend, "COMPILERS", (fake_compiler(tmp_path, f'{refuse}; exec {real} "$@"'),)
    )
    given = {"A": np.ones((2, 2), np.float32), "B": np.ones((2, 2), np.float32)}
    assert (run(load(BACKEND, matmul(2, 2, 2)), given)[1]["C"] == 2).all()


def test_what_is_no_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = fake_compiler(tmp_path, "echo nonsense > kernel.so")
    monkeypatch.setattr(c_backend, "COMPILERS", (path,))
    with pytest.raises(BackendError, match=r"cannot be loaded: .*kernel\.so"):
        BACKEND.load(BACKEND.emit(matmul(2, 2, 2)))


@needs_compiler
def test_nothing_is_left_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(c_backend.tempfile, "tempdir", str(tmp_path))
    load(BACKEND, matmul(2, 2, 2))
    assert list(tmp_path.iterdir()) == []


def test_the_text_of_a_kernel_text() -> None:
    text = BACKEND.emit(matmul(2, 3, 4))
    assert str(text) == text.source
    assert re.search(r"^void mm\(", str(text), re.MULTILINE)
    assert text.backend == "c"


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # the sums wrap around
@pytest.mark.parametrize("n", [33_000, 70_000, 270_000])
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
def test_long_sums_of_integers(n: int, dtype: str) -> None:
    """GCC 12 makes wrong vectors of the loop that combines their parts."""
    numbers = np.random.default_rng(n)
    a, m = (numbers.integers(0, 6, shape).astype(dtype) for shape in ((3, n), (n,)))
    text = f"def f({dtype}(D,N) a, {dtype}(N) m) -> (s) {{ s(d) +=! a(d,n) * m(n) }}"
    wanted = (a.astype(np.int64) * m).sum(1).astype(dtype)
    assert tc.compile(text, backend="c")(a, m).tolist() == wanted.tolist()
