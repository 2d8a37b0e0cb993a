"""Kernels with vectors, and how numba's results are compared with those of the definition."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tc.backends.numba.backend import NumbaBackend, NumbaKernel
from tc.backends.numba.objects import compile_regions
from tc.backends.numba.objects import load as load_code
from tc.backends.numba.tracing import VectorRegion
from tc.dtypes import INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Expr, Failure, Kernel, Ramp
from tc.runtime.object_files import parse_module
from tests.support.build import integer
from tests.support.kernels import Array, address, load

BACKEND = NumbaBackend()


def ramp(base: Expr, lanes: int, step: int = 1) -> Expr:
    return Ramp(base, step, INT64.vector(lanes)) if lanes > 1 else base


def times(expr: Expr, factor: int) -> Expr:
    return Binary("*", expr, integer(factor), INT64)


def plus(left: Expr, right: Expr | int) -> Expr:
    return Binary("+", left, integer(right) if isinstance(right, int) else right, INT64)


def arrays_of(kernel: Kernel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {
        b.name: inputs[b.name] if b.name in inputs else np.ones(b.shape, b.dtype.numpy)
        for b in kernel.arguments
    }


def compile_kernel(kernel: Kernel) -> NumbaKernel:
    compiled = load(BACKEND, kernel)
    assert isinstance(compiled, NumbaKernel)
    return compiled


def run(
    compiled: NumbaKernel, arrays: Mapping[str, Array], threads: int | None = 1
) -> Failure | None:
    places = [address(arrays[b.name]) for b in compiled.kernel.arguments]
    return compiled.run(places, threads=threads)


def results(
    kernel: Kernel, inputs: Mapping[str, Array], threads: int | None = 1
) -> tuple[dict[str, Array], dict[str, Array]]:
    found, expected = arrays_of(kernel, inputs), arrays_of(kernel, inputs)
    failure = run(compile_kernel(kernel), found, threads)
    assert failure == evaluate(kernel, expected)
    return found, expected


def check(kernel: Kernel, inputs: Mapping[str, Array], threads: int | None = 1) -> dict[str, Array]:
    """Runs a kernel and its definition; the outputs agree to the bit."""
    found, expected = results(kernel, inputs, threads)
    for buffer in kernel.arguments:
        np.testing.assert_array_equal(found[buffer.name], expected[buffer.name], buffer.name)
    return found


def assembly(kernel: Kernel) -> list[str]:
    """The instructions of the only region of a kernel, for this machine."""
    module: dict[str, Any] = {"__name__": "assembly"}
    exec(BACKEND.emit(kernel).source, module)
    (region,) = module["REGIONS"]
    parsed = parse_module(region.traced("region").module())
    machine = llvm.Target.from_triple(parsed.triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(parsed, passes)
    return [line.strip() for line in machine.emit_assembly(parsed).splitlines()]


def traced(function: Callable[..., None], *arrays: Array) -> None:
    """Runs a function `(m, arguments, failure, part, parts)` on arrays, by tracing it."""
    code = load_code(compile_regions([VectorRegion(function)]))
    assert code is not None
    words = np.array([address(array) for array in arrays], np.int64)
    signature: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    signature(code.addresses[0])(address(words), 0, 0, 1)
