"""The machine code of regions with vectors on numba: registers and instructions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import tc
from tc import cache, device
from tc.backends import registry
from tc.backends.numba.backend import NumbaBackend
from tc.backends.numba.objects import _target
from tc.backends.numba.tracing import VectorRegion
from tc.device import has_exponents, vector_bits
from tc.dtypes import FLOAT32, INT64
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Const,
    Expr,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.contraction import contract
from tc.kernel.passes.reciprocal_division import divide_by_reciprocals
from tc.kernel.passes.vector_functions import expand_vector_functions
from tc.kernel.walk import has_non_temporal_stores
from tc.runtime.object_files import parse_module
from tests.support.build import dense, integer, loop
from tests.support.guarded import at_edge
from tests.support.lowering import compile_for
from tests.support.vectors import compile_kernel, ramp, run

F16 = FLOAT32.vector(16)
K = Var("k", INT64)
ZERO = Const(0.0, F16)


def tile(rows: int, columns: int, depth: int) -> Kernel:
    """C(rows, 16 * columns) += A B with an accumulator for each row and vector."""
    lets: list[Stmt] = []
    body: list[Stmt] = [
        Let(f"b{j}", Load("B", (K, ramp(integer(16 * j), 16)), F16)) for j in range(columns)
    ]
    stores: list[Stmt] = []
    for i in range(rows):
        body.append(Let(f"a{i}", Broadcast(Load("A", (integer(i), K), FLOAT32), F16)))
        for j in range(columns):
            sum_ = Var(f"c{i}_{j}", F16)
            product = Binary("*", Var(f"a{i}", F16), Var(f"b{j}", F16), F16)
            lets.append(Let(sum_.name, ZERO))
            body.append(Set(sum_.name, Binary("+", sum_, product, F16)))
            stores.append(Store("C", (integer(i), ramp(integer(16 * j), 16)), sum_))
    buffers = (
        dense("A", FLOAT32, (rows, depth), "input"),
        dense("B", FLOAT32, (depth, 16 * columns), "input"),
        dense("C", FLOAT32, (rows, 16 * columns), "output"),
    )
    return Kernel("k", buffers, ((*lets, loop("k", depth, *body), *stores),))


@pytest.mark.parametrize(("rows", "columns"), [(8, 2), (8, 3), (12, 2)])
def test_accumulators_stay_in_registers(rows: int, columns: int) -> None:
    kernel = contract(tile(rows, columns, 64))
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (rows, 64)).astype(np.float32)
    b = rng.integers(-9, 9, (64, 16 * columns)).astype(np.float32)
    arrays = {"A": a, "B": b, "C": np.zeros((rows, 16 * columns), np.float32)}
    run(compile_kernel(kernel), arrays)
    np.testing.assert_array_equal(arrays["C"], a @ b)
    if vector_bits() < 512:
        pytest.skip("needs 32 registers of 512 bits")
    lines = assembly(kernel)
    fused = [line for line in lines if line.startswith("vfmadd")]
    assert len(fused) >= rows * columns
    assert all("zmm" in line for line in fused)
    assert not [line for line in lines if "rsp" in line and "zmm" in line]


def test_vectors_on_the_stack_are_aligned() -> None:
    """One across two cache lines is slow to read back, by luck of where the stack is."""
    if vector_bits() < 512:
        pytest.skip("needs registers of 512 bits")
    lines = assembly(contract(tile(9, 4, 64)))  # more accumulators than registers
    kept = [line for line in lines if "rsp" in line and "zmm" in line]
    assert kept
    assert all("vmovap" in line or "vfmadd" in line for line in kept), kept
    assert any(line.startswith("andq\t$-64, %rsp") for line in lines)


def assembly(kernel: Kernel) -> list[str]:
    """The instructions of the only region of a kernel."""
    import llvmlite.binding as llvm

    module: dict[str, object] = {"__name__": "assembly"}
    exec(NumbaBackend().emit(kernel).source, module)
    (region,) = module["REGIONS"]  # type: ignore[misc]
    assert isinstance(region, VectorRegion)
    parsed = parse_module(region.traced("region").module())
    target = _target()
    machine = llvm.Target.from_triple(parsed.triple).create_target_machine(
        cpu=target.processor, features=target.features, opt=3
    )
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(parsed, passes)
    return [line.strip() for line in machine.emit_assembly(parsed).splitlines()]


def test_extrema_take_few_instructions() -> None:
    """One where an operand is known to be no NaN, and three elsewhere."""
    if vector_bits() < 512:
        pytest.skip("counts instructions of AVX-512")

    def count(right: Expr) -> int:
        loaded = Load("a", (ramp(integer(0), 16),), F16)
        store = Store("o", (ramp(integer(0), 16),), Binary("max", loaded, right, F16))
        buffers = (
            dense("a", FLOAT32, (16,), "input"),
            dense("b", FLOAT32, (16,), "input"),
            dense("o", FLOAT32, (16,), "output"),
        )
        lines = assembly(Kernel("k", buffers, ((store,),)))
        return len([x for x in lines if x.startswith(("vmax", "vcmp", "vblend", "vmova"))])

    assert count(Const(0.0, F16)) == 1
    assert count(Load("b", (ramp(integer(0), 16),), F16)) <= 3


@pytest.mark.parametrize(
    ("function", "wanted"), [("exp", {"vscalefps"}), ("log", {"vgetexpps", "vgetmantps"})]
)
def test_exponents_are_instructions(function: str, wanted: set[str]) -> None:
    if not has_exponents():
        pytest.skip("looks for instructions of AVX-512")
    lanes = ramp(integer(0), 16)
    store = Store("o", (lanes,), Call(function, (Load("a", (lanes,), F16),), F16))
    buffers = (dense("a", FLOAT32, (16,), "input"), dense("o", FLOAT32, (16,), "output"))
    kernel = expand_vector_functions(Kernel("k", buffers, ((store,),)), exponents=True)
    words = [line.split()[0] for line in assembly(kernel) if line]
    assert wanted <= set(words)
    assert sum(word.startswith("v") for word in words) < 40  # constants, too


def test_what_is_rare_is_not_computed_beforehand() -> None:
    """Vectors that may not be multiplied instead of divided: found at once, divided elsewhere."""
    if vector_bits() < 512:
        pytest.skip("looks for instructions of AVX-512")
    divisor = Let("v", Broadcast(Load("y", (integer(0),), FLOAT32), F16))
    lanes = [ramp(integer(16 * number), 16) for number in range(4)]
    quotients = [Binary("/", Load("x", (at,), F16), Var("v", F16), F16) for at in lanes]
    stores = [Store("o", (at,), value) for at, value in zip(lanes, quotients, strict=True)]
    buffers = (
        dense("x", FLOAT32, (64,), "input"),
        dense("y", FLOAT32, (1,), "input"),
        dense("o", FLOAT32, (64,), "output"),
    )
    kernel = divide_by_reciprocals(Kernel("k", buffers, ((divisor, *stores),)))
    words = [line.split()[0] for line in assembly(kernel) if line]
    assert words.count("vdivps") == 4
    assert words.index("vdivps") > words.index("vmulps")
    assert not any(word.startswith("kshift") for word in words)


# --- Transposes of outputs too large for the caches, compiled: what they write, and where.


BACKENDS = [name for name in ("numba", "c") if name in registry.usable_names()]
LAST = "O(a,c,b) = I(a,b,c)"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, with caches that hold little. What is printed for it must not be found
    later, for the real one."""
    small = replace(device.host(), l2=64 << 10, l3=1 << 10)
    compile_for(small, monkeypatch)
    monkeypatch.setattr(cache, "_enabled", False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("shape", "ctype"),
    [
        ((3, 59, 301), "float"),
        ((2, 37, 1100), "double"),
        ((3, 1001, 19), "float"),
        ((2, 77, 403), "uint8"),
        ((2, 77, 403), "int16"),
    ],
)
def test_nothing_beyond_the_arrays(shape: tuple[int, int, int], ctype: str, backend: str) -> None:
    """Arrays lie at forbidden pages. Outputs may start anywhere in a line: then nothing is
    streamed, and all the same they are right."""
    text = f"def f({ctype}(A,B,C) I) -> (O) {{ {LAST} }}"
    dtype = np.dtype({"float": "f4", "double": "f8"}.get(ctype, ctype))
    a, b, c = shape
    values = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    function = tc.compile(text, backend=backend)
    trace = function.explain(values).trace
    assert trace is not None
    kernel = trace.lowering.kernel
    if ctype != "double" or device.vector_bits() == 512:  # elsewhere not in lines
        assert any(buffer.name == "O_lines" for buffer in kernel.buffers)
        assert has_non_temporal_stores(kernel)
    for before, alignment in product((False, True), (1, 64)):
        x = at_edge(shape, dtype, before=before)
        x[...] = values
        o = at_edge((a, c, b), dtype, before=before, alignment=alignment)
        function(x, outputs=o)
        np.testing.assert_array_equal(o, values.transpose(0, 2, 1))
