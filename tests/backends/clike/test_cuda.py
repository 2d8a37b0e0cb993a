"""The dialect CUDA C++: NVRTC compiles it without a warning, where there is no GPU either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import nvrtc, sass
from tc.backends.base import KernelText
from tc.backends.clike.backend import CBackend
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.opencl_dialect import OPENCL
from tc.backends.clike.printer import plain_name, print_kernel
from tc.backends.cuda import CudaBackend, CudaText
from tc.backends.geometry import LaunchGeometry
from tc.backends.nvrtc import Usage
from tc.builtins import BUILTINS
from tc.dtypes import FLOAT32, FLOAT64, INT64, DType
from tc.errors import BackendError
from tc.gpu import DATA_SHEETS
from tc.kernel.ir import Binary, Call, Cast, Expr, Kernel, Let, Load, Store
from tc.options import PRESETS
from tc.runtime.loaded import CompiledKernel
from tests.backends.clike.test_opencl import MORE, OPERATIONS
from tests.backends.clike.test_printer import every_statement
from tests.backends.numba import test_arithmetic as operations
from tests.backends.numba import test_backend as shared
from tests.kernel.grids import T0, grid, launches, tmm
from tests.support.build import I, dense, integer, loop
from tests.support.grid_cases import AT_ONCE, GRIDS, GridCase, failing, failing_at_once
from tests.support.kernels import elementwise
from tests.support.opencl import one_thread
from tests.support.programs import CASES, Case
from tests.test_programs import fresh as arguments_of

BACKEND = CudaBackend()
EXPECTED = Path(__file__).parents[2] / "expected"
needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_installed(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc"
)


def assert_compiles(text: CudaText) -> None:
    """NVRTC compiles a text without a warning for all architectures that tc has data sheets of, and
    says what each launch uses."""
    for arch in DATA_SHEETS:
        log = nvrtc.compiler_log(text.source, arch)
        if "warning" in log.lower():
            pytest.fail(f"{log[:4000]}\n{text.source[:4000]}")
        assert set(nvrtc.usage_in(log)) == {launch.function for launch in text.launches}


@dataclass(frozen=True, slots=True)
class CompiledElsewhere(CBackend):
    """Has NVRTC compile a kernel in CUDA C++, and then runs it as C."""

    def load(self, text: KernelText) -> CompiledKernel:
        assert_compiles(BACKEND.emit(one_thread(text.kernel)))
        return CBackend.load(self, text)


# --- programs, operations, blocks and threads ---------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("case", [*GRIDS, *AT_ONCE], ids=str)
def test_grids(case: GridCase) -> None:
    assert_compiles(BACKEND.emit(case.kernel))


@needs_nvrtc
@pytest.mark.parametrize("kernel", [failing(), failing_at_once()], ids=["", "all at once"])
def test_failing_grids(kernel: Kernel) -> None:
    assert_compiles(BACKEND.emit(kernel))


@pytest.mark.drawn(8)
@needs_nvrtc
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("preset", ["default", "naive"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_programs(case: Case, preset: str, check: bool) -> None:
    """Without a warning, and by default without a spill."""
    options = PRESETS.get(preset, tc.Options())
    inputs, _ = arguments_of(case)
    text = tc.emit(
        case.text, inputs, entry=case.def_name, backend="cuda", options=options, check=check
    )
    assert isinstance(text, CudaText)
    assert_compiles(text)
    for arch in DATA_SHEETS:
        usage = text.usage(arch)
        assert usage is not None
        assert preset != "default" or not any(used.spills for used in usage.values())


ONE_LAUNCH = tc.Options(
    schedule=tc.ScheduleOptions(fusion="min"), gpu=tc.GpuOptions(single_kernel=True)
)


@pytest.mark.drawn(6)
@needs_nvrtc
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_programs_of_one_launch(case: Case) -> None:
    """Each statement has loops of its own; some wait for those of all blocks before."""
    inputs, _ = arguments_of(case)
    text = tc.emit(case.text, inputs, entry=case.def_name, backend="cuda", options=ONE_LAUNCH)
    assert isinstance(text, CudaText)
    assert_compiles(text)
    (launch,) = text.launches
    assert launch.cooperative == ("tc_wait_for_grid(tc_arrivals);" in text.source)
    for arch in DATA_SHEETS:
        usage = text.usage(arch)
        assert usage is not None
        assert not any(used.spills for used in usage.values())


@needs_nvrtc
@pytest.mark.parametrize("arch", DATA_SHEETS)
def test_threads_of_many_sums_leave_room_for_another_block(arch: str) -> None:
    """Each thread has 64 sums; 512 threads fit on a multiprocessor. What does not fit into their
    registers, four at most, is stored and read outside of the hottest loop."""
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    sizes = {"M": 2048, "N": 2048, "K": 2048}
    found = tc.emit(text, sizes, backend="cuda", device=tc.Gpu.named(arch))
    assert isinstance(found, CudaText)
    (launch,), usage = found.launches, found.usage()
    assert usage is not None
    assert 512 // launch.threads <= launch.blocks
    assert f"__launch_bounds__({launch.threads}, {512 // launch.threads})" in str(found)
    assert usage[launch.function].registers <= 128
    assert usage[launch.function].spills <= (0 if arch == "sm_90" else 16)
    if sass.is_installed():
        code = sass.disassembled(nvrtc.compiled(str(found), arch, lines=True).cubin)
        kinds = sass.hottest(code[launch.function]).counts
        assert not any(kind.startswith(("LDL", "STL")) for kind in kinds)


@needs_nvrtc
@pytest.mark.parametrize("arch", DATA_SHEETS)
def test_compilers_leave_room_for_blocks_that_wait(arch: str) -> None:
    """For several on each multiprocessor, and without a spill."""
    text = """def chain(float(M,K) A, float(N,K) B) -> (C, D) {
      C(m,n) +=! A(m,k) * B(n,k)
      D(m,n) +=! C(m,k) * B(n,k)
    }"""
    gpu = tc.Gpu.named(arch)
    tiles = tc.GpuOptions(single_kernel=True, tile=(32, 32, 32), threads=(8, 32))
    how: dict[str, Any] = {"backend": "cuda", "options": tc.Options(gpu=tiles), "device": gpu}
    found = tc.emit(text, {"M": 1024, "N": 1024, "K": 1024}, **how)
    assert isinstance(found, CudaText)
    (launch,), usage = found.launches, found.usage()
    assert usage is not None
    used = usage[launch.function]
    at_once = gpu.blocks_at_once(launch.threads, launch.shared, used.registers)
    assert gpu.processors * 2 < launch.blocks <= at_once
    assert used.spills == 0


@pytest.mark.drawn(3)
@needs_nvrtc
@pytest.mark.parametrize(
    ("test", "args"), OPERATIONS, ids=lambda p: p.__name__ if callable(p) else "-".join(map(str, p))
)
def test_operations(
    test: Callable[..., None], args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "BACKEND", CompiledElsewhere())
    monkeypatch.setattr(operations, "BACKEND", CompiledElsewhere())
    test(*args)


BY_DOUBLES = ["j0", "j1", "y0", "y1"]
"""Functions that CUDA has less exactly than the table says: helpers compute them, in double."""


@needs_nvrtc
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_functions_y7(dtype: DType) -> None:
    calls = [
        Call(n, tuple(Load(v, (I,), dtype) for v in "xyzw"[: BUILTINS[n].arity]), dtype)
        for n in BUILTINS
        if dtype == FLOAT64 or n not in BY_DOUBLES
    ]
    given = {v: np.zeros(3, dtype.numpy) for v in "xyzw"}
    text = BACKEND.emit(one_thread(elementwise(calls, given, 3)))
    assert_compiles(text)
    assert ("double" in text.source) == (dtype == FLOAT64)


@needs_nvrtc
@pytest.mark.parametrize("name", BY_DOUBLES)
def test_bessel_functions_of_floats_are_exact_ones_of_doubles(name: str) -> None:
    call = Call(name, (Load("x", (I,), FLOAT32),), FLOAT32)
    text = BACKEND.emit(one_thread(elementwise([call], {"x": np.zeros(3, np.float32)}, 3)))
    assert_compiles(text)
    assert f"return (float)tc_{name}((double)x);" in text.source


# --- texts ------------------------------------------------------------------------------------

NAMES = sorted(
    {*CUDA.reserved.words, *OPENCL.reserved.words, *MORE, "threadIdx", "tc_arena", "long4", "cuda"}
)


@needs_nvrtc
def test_no_name_clashes() -> None:
    """Neither as a tensor, a variable or a program, beside calls of functions of the language."""
    buffers = tuple(dense(name, FLOAT32, (), "input") for name in NAMES)
    given = Load("half", (), FLOAT32)
    value: Expr = given
    for name in ("exp", "sinpi", "rsqrt", "rcbrt", "tgamma"):
        double = Cast(Call(name, (Cast(given, FLOAT64),), FLOAT64), FLOAT32)
        value = Binary("+", value, Call(name, (given,), FLOAT32), FLOAT32)
        value = Binary("+", value, double, FLOAT32)
    stores = (
        Store("o", (integer(0),), value),
        *(Store("o", (integer(0),), Load(name, (), FLOAT32)) for name in NAMES),
    )
    outputs = dense("o", FLOAT32, (1,), "output")
    assert_compiles(BACKEND.emit(one_thread(Kernel("kernel", (*buffers, outputs), (stores,)))))
    every = sorted({*CUDA.reserved.functions, *NAMES})
    lets = tuple(Let(name, integer(1)) for name in every)
    assert_compiles(BACKEND.emit(one_thread(Kernel("threadIdx", (outputs,), (lets,)))))


@pytest.mark.parametrize("name", ["class", "threadIdx", "float4", "warpSize", "expf", "template"])
def test_words_are_reserved(name: str) -> None:
    assert plain_name(name, CUDA.reserved.words, CUDA.reserved.forms) == f"v_{name}"


def test_every_statement(golden: Callable[[Path, str], None]) -> None:
    kernel = one_thread(every_statement())
    golden(EXPECTED / "statements" / "kernel.cu", print_kernel(kernel, CUDA))


def test_no_header_is_needed() -> None:
    for case in (*GRIDS, *AT_ONCE):
        assert "#include" not in BACKEND.emit(case.kernel).source


# --- what a text tells --------------------------------------------------------------------------


@needs_nvrtc
def test_registers_and_spills() -> None:
    usage = BACKEND.emit(tmm()).usage("sm_90")
    assert usage is not None
    assert usage.keys() == {"k_0"}
    assert 16 <= usage["k_0"].registers <= 128
    assert (usage["k_0"].spills, usage["k_0"].stack) == (0, 0)
    # an array whose indices no compiler knows lies in memory
    at = Load("p", (T0,), INT64)
    body = (
        loop("i", 64, Store("r", (I,), Load("a", (I,), FLOAT64))),
        Store("o", (T0,), Load("r", (at,), FLOAT64)),
    )
    buffers = (
        dense("a", FLOAT64, (64,), "input"),
        dense("p", INT64, (32,), "input"),
        dense("o", FLOAT64, (32,), "output"),
        dense("r", FLOAT64, (64,), "register"),
    )
    usage = BACKEND.emit(launches(grid((), (32,), *body), buffers=buffers)).usage()
    assert usage is not None
    assert usage["k_0"].stack == 64 * 8


def test_a_text_tells_its_launches() -> None:
    text = BACKEND.emit(tmm())
    assert isinstance(text, CudaText)
    assert text.launches == (LaunchGeometry("k_0", (8, 32, 1), (32, 1, 1), 4752),)
    assert str(text) == text.source == print_kernel(tmm(), CUDA)


@pytest.mark.parametrize("arch", DATA_SHEETS)
def test_usage_is_that_on_the_device_of_a_text(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another one is asked for."""
    asked: list[str] = []
    monkeypatch.setattr(nvrtc, "is_installed", lambda: True)
    monkeypatch.setattr(nvrtc, "compiler_log", lambda _, arch: asked.append(arch) or "")
    text = tc.emit(
        "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }",
        N=9, backend="cuda", device=tc.Gpu.named(arch),
    )  # fmt: skip
    assert isinstance(text, CudaText)
    text.usage()
    text.usage("sm_75")
    BACKEND.emit(tmm()).usage()
    assert asked == [arch, "sm_75", tc.Gpu().arch]


def test_without_nvrtc_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_LOADED", lambda: None)
    assert BACKEND.emit(tmm()).usage() is None
    with pytest.raises(BackendError) as caught:
        nvrtc.compiled.__wrapped__("", "sm_80")
    assert str(caught.value) == (
        "BackendError: there is no NVRTC\n"
        'repair: pip install nvidia-cuda-nvrtc; backend="opencl" or "numba" needs none'
    )


@needs_nvrtc
def test_what_nvrtc_refuses() -> None:
    with pytest.raises(BackendError) as caught:
        nvrtc.compiler_log("__device__ int f() { return g; }", "sm_80")
    assert caught.value.cause.startswith(
        "NVRTC failed with status 6 (--gpu-architecture=sm_80 --ptxas-options=-v):\n"
        'kernel.cu(1): error: identifier "g" is undefined\n'
    )
    with pytest.raises(BackendError, match="invalid value for --gpu-architecture"):
        nvrtc.compiler_log("", "sm_1")


def test_usage_of_several_functions() -> None:
    text = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k_1' for 'sm_80'
ptxas info    : Function properties for k_1
ptxas         .     24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 24 bytes cumulative stack size
ptxas info    : Compiling entry function 'k_0' for 'sm_80'
ptxas info    : Function properties for k_0
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""
    assert nvrtc.usage_in(text) == {"k_1": Usage(255, 36, 24), "k_0": Usage(8, 0, 0)}


@needs_nvrtc
def test_architectures_are_those_that_it_compiles_for() -> None:
    source, known = 'extern "C" __global__ void f() {}', nvrtc.architectures()
    assert {"sm_80", "sm_90"} < {*known}
    for arch in (known[0], known[-1]):
        assert nvrtc.compiled(source, arch).cubin
    for number in (35, 999):
        assert f"sm_{number}" not in known
        with pytest.raises(tc.BackendError, match="NVRTC failed"):
            nvrtc.compiled(source, f"sm_{number}")
