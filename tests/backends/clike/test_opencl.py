"""The dialect OpenCL C: operations, functions, statements and names, built and run by PoCL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tc.backends.clike.c import C99
from tc.backends.clike.opencl_dialect import OPENCL
from tc.backends.clike.printer import plain_name, print_kernel
from tc.builtins import BUILTINS
from tc.dtypes import DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from tc.errors import BackendError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Call, Failure, For, Kernel, Let, Load, Prefetch, Set, Store, Var
from tests.backends.clike.test_printer import every_statement
from tests.backends.numba import test_arithmetic as operations
from tests.backends.numba import test_backend as shared
from tests.backends.test_builtins_compiled import points
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import elementwise, fresh, load, run
from tests.support.opencl import OneThreadBackend, on_pocl, one_thread

BACKEND = OneThreadBackend()
EXPECTED = Path(__file__).parents[2] / "expected"


# --- operations -------------------------------------------------------------------------------

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


@on_pocl
@pytest.mark.parametrize(
    ("test", "args"), OPERATIONS, ids=lambda p: p.__name__ if callable(p) else "-".join(map(str, p))
)
def test_as_on_numba(test: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Rules Y2, Y4, Y5, Y6, Y8 and N2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "BACKEND", BACKEND)
        patch.setattr(operations, "BACKEND", BACKEND)
        test(*args)


@on_pocl
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_functions_y7(dtype: DType) -> None:
    """Within the ulps of the table, as far as OpenCL promises as much."""
    names = list(BUILTINS)
    given = {v: points(dtype.numpy.type, k, 30.0) for k, v in enumerate("xyzw")}
    calls = [
        Call(n, tuple(Load(v, (I,), dtype) for v in "xyzw"[: BUILTINS[n].arity]), dtype)
        for n in names
    ]
    _, arrays = run(load(BACKEND, elementwise(calls, given, len(given["x"]))), given)
    wrong = []
    for number, name in enumerate(names):
        builtin = BUILTINS[name]
        args = tuple(given[v] for v in "xyzw"[: builtin.arity])
        expected, found = builtin.numpy(*args), arrays[f"o{number}"]
        info = np.finfo(dtype.numpy.type)
        with np.errstate(all="ignore"):
            unit = np.spacing(np.maximum(np.abs(expected), info.tiny)).astype(np.float64)
            bound = (2 * builtin.ulps + 0.5) * unit + 2 * builtin.absolute * float(info.eps)
            near = np.abs(expected.astype(np.float64) - found) <= bound
        bad = ~(near | (expected == found) | (np.isnan(expected) & np.isnan(found)))
        if bad.any():
            at = int(bad.argmax())
            wrong.append((name, int(bad.sum()), [a[at] for a in args], found[at], expected[at]))
    assert not wrong


# --- statements -------------------------------------------------------------------------------


@on_pocl
def test_failures_g7() -> None:
    kernel = shared.gather(300)
    compiled = load(BACKEND, kernel)
    places = np.arange(300)
    places[[120, 121, 299]] = [-5, 300, 1 << 60]
    given = {"a": np.ones(300), "p": places}
    failure, _ = run(compiled, given)
    assert failure == evaluate(kernel, fresh(kernel, given)) == Failure(0, (120, -5))
    assert run(compiled, {**given, "p": np.full(300, 3)})[0] == Failure(1, (299,))


@on_pocl
def test_ends_of_loops_and_hints() -> None:
    """The end is evaluated once, and hints change nothing."""
    first = Binary("-", integer(2), Load("n", (), INT64), INT64)
    body = (Prefetch("o", (integer(1 << 40),)), Store("o", (I,), Binary("*", I, I, INT64)))
    main = For("i", first, Binary("+", Var("m", INT64), integer(1), INT64), body, parallel=True)
    buffers = (dense("n", INT64, (), "input"), dense("o", INT64, (9,), "output"))
    kernel = Kernel("k", buffers, ((Let("m", integer(7)), main),))
    _, arrays = run(load(BACKEND, kernel), {"n": np.array(1)})
    assert arrays["o"].tolist() == [1, 1, 4, 9, 16, 25, 36, 49, 1]


# --- texts ------------------------------------------------------------------------------------

MORE = ["half4", "float4", "uchar16", "half_exp", "atomic_add",
         "convert_int", "vload_half", "CLK_LOCAL_MEM_FENCE", "M_PI_F", "INT_MAX", "tc_div_int64",
         "int64_t", "cl_khr_fp16", "as_uint", "2LUT", "a.b"]  # fmt: skip
NAMES = sorted({*OPENCL.reserved.words - C99.reserved.functions, *MORE})


@on_pocl
def test_no_name_clashes() -> None:
    """Neither as a tensor, a variable or a program, beside calls of functions of the language."""
    buffers = tuple(dense(name, FLOAT32, (), "input") for name in NAMES)
    outputs = dense("o", FLOAT32, (1,), "output")
    total = Load("half", (), FLOAT32)
    calls = [Call(f, (total,), FLOAT32) for f in ("exp", "sinpi", "rsqrt", "rcbrt")]
    value = calls[0]
    for call in calls[1:]:
        value = Binary("+", value, call, FLOAT32)
    stores = tuple(
        Store("o", (integer(0),), Binary("+", Load(name, (), FLOAT32), value, FLOAT32))
        for name in NAMES
    )
    every = sorted(OPENCL.reserved.functions)
    tensors = Kernel("kernel", (*buffers, outputs), (stores,))
    variables = Kernel("half", (outputs,), (tuple(Let(name, integer(1)) for name in every),))
    for kernel in (tensors, variables):
        assert run(load(BACKEND, kernel), {})[0] is None
    for name in ("kernel", "half", "global", "local", "constant", "float4", "get_global_id"):
        reserved = OPENCL.reserved
        assert plain_name(name, reserved.words, reserved.forms) == f"v_{name}"


@on_pocl
@pytest.mark.parametrize("name", ["main", "kernel", "half", "dot", "sincos", "barrier", "x"])
def test_names_of_programs(name: str) -> None:
    kernel = Kernel(name, (dense("o", INT64, (1,), "output"),), ((Store("o", (integer(0),), I),),))
    body = (loop("i", 3, Store("o", (integer(0),), I)),)
    kernel = Kernel(name, kernel.buffers, (body,))
    assert run(load(BACKEND, kernel), {})[1]["o"].tolist() == [2]


def test_every_statement(golden: Callable[[Path, str], None]) -> None:
    kernel = one_thread(every_statement())
    golden(EXPECTED / "statements" / "kernel.cl", print_kernel(kernel, OPENCL))


def test_vectors_are_refused() -> None:
    vector = FLOAT32.vector(4)
    body = (Let("x", Load("a", (integer(0),), FLOAT32)), Set("x", Load("a", (I,), vector)))
    kernel = Kernel("k", (dense("a", FLOAT32, (4,), "input"),), ((loop("i", 1, *body),),))
    with pytest.raises(BackendError) as caught:
        print_kernel(one_thread(kernel), OPENCL)
    assert str(caught.value) == (
        "BackendError: vectors are not printed in OpenCL C\n"
        "repair: lower the kernel without vectors, as by the preset 'naive'"
    )
