"""What users read where CUDA cannot do what is asked: whole messages, by a driver that stands
in."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.backends import cuda_driver, nvrtc, registry
from tc.backends.cuda import CudaBackend
from tc.backends.cuda_driver import CudaDriver, DriverError
from tests.support.grid_cases import AT_ONCE as ONE_LAUNCH
from tests.support.grid_cases import failing_at_once, largest_of_all
from tests.support.kernels import load, run
from tests.support.processes import ended_well, run_python, told
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in, use

__all__ = ["stand_in"]

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TILED = tc.Options(gpu=tc.GpuOptions(tile=[4, 32]))
ONES = np.ones((64, 64), np.float32)
OPTIONS = "GpuOptions(tile=(4, 32))"
LAUNCH = (
    "'mm' (mm_0: 2 x 16 x 1 blocks of 32 x 4 x 1 threads (x, y, z), 1040 bytes of shared memory; "
    f"{OPTIONS})"
)
SHAPES = ", ".join(f"{name} of shape (64, 64) and dtype float32" for name in "ABC")
ELSEWHERE = (
    'pip install "tensor-comprehensions[cuda]" where there is a GPU of NVIDIA; elsewhere '
    'backend="opencl" or "numba" runs the program, and tc.emit shows its code'
)
OTHER_COMPILER = (
    "install a newer driver of NVIDIA's, or an older NVRTC: pip uninstall nvidia-cuda-nvrtc; pip "
    'install nvidia-cuda-nvrtc-cu12; backend="opencl" or "numba" runs it, tc.emit shows the code'
)
OLDER_COMPILER = OTHER_COMPILER.partition("NVRTC: ")[2]
NEWER_COMPILER = (
    'pip install --upgrade nvidia-cuda-nvrtc; backend="opencl" or "numba" runs it, tc.emit shows '
    "the code"
)
CRASHED = (
    " The context of CUDA device 0 is lost with all that is in its memory: later calls in this "
    "process fail"
)
CHECK = (
    "tc.compile(..., check=True) in a new process, which finds reads and divisions that are not "
    "allowed"
)


def launched() -> None:
    tc.compile(MM, backend="cuda", options=TILED)(DeviceVector(ONES), DeviceVector(ONES))


def message(error: tc.TCError) -> tuple[str, str | None]:
    return error.cause, error.repair


@pytest.mark.parametrize(
    ("method", "code", "cause", "repair"),
    [
        (
            "launch",
            "OUT_OF_MEMORY: out of memory",
            f"{LAUNCH}: there is not enough memory on CUDA device 0 for {SHAPES}: {{error}}",
            "call it with smaller inputs",
        ),
        (
            "launch",
            "ILLEGAL_ADDRESS: an illegal memory access was encountered",
            f"{LAUNCH}, or what ran before it on CUDA device 0, has crashed: {{error}}.{CRASHED}",
            CHECK,
        ),
        (
            "launch",
            "MISALIGNED_ADDRESS: misaligned address",
            f"{LAUNCH}, or what ran before it on CUDA device 0, has crashed: {{error}}.{CRASHED}",
            CHECK,
        ),
        (
            "launch",
            "LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
            f"{LAUNCH} needs more than CUDA device 0 has for 128 threads, with 32 registers "
            "each: {error}",
            "GpuOptions(threads=(2, 32))",
        ),
        (
            "launch",
            "CONTEXT_IS_DESTROYED: context is destroyed",
            f"{LAUNCH} cannot be run, as the context of CUDA device 0 is gone, which was reset or "
            "destroyed: {error}",
            "start a new process, and do not reset the device in it",
        ),
        (
            "load",
            "NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
            f"'mm' ({OPTIONS}), compiled by NVRTC 0.0, cannot be loaded on CUDA device 0, whose "
            "driver runs programs of CUDA 13.0 and older: {error}",
            OTHER_COMPILER,
        ),
        (
            "launch",
            "STREAM_CAPTURE_UNSUPPORTED: operation not permitted when stream is capturing",
            f"{LAUNCH} cannot be run on CUDA device 0 while its stream is captured to a graph: "
            "{error}",
            "call it once with such arrays before the capture",
        ),
        (
            "launcher",
            "NOT_FOUND: named symbol not found",
            f"{LAUNCH} cannot be run on CUDA device 0: {{error}}",
            'use backend="numba"',
        ),
        (
            "gpu",
            "INVALID_VALUE: invalid argument",
            "CUDA device 0 cannot be used: {error}",
            'backend="opencl" or "numba"',
        ),
    ],
    ids=lambda value: value.partition(":")[0] if ":" in value else None,
)
def test_what_the_driver_reports(
    method: str, code: str, cause: str, repair: str, stand_in: StandInDriver
) -> None:
    name, _, text = code.partition(": ")
    stand_in.faults[method] = DriverError(f"CUDA_ERROR_{name}", text)
    with pytest.raises(tc.BackendError) as caught:
        launched()
    assert message(caught.value) == (cause.format(error=f"CUDA_ERROR_{code}"), repair)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
def test_no_memory_for_arrays_of_the_processor(stand_in: StandInDriver) -> None:
    stand_in.faults["allocate"] = DriverError("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
    with pytest.raises(tc.BackendError) as caught:
        tc.compile(MM, backend="cuda", options=TILED)(ONES, ONES)
    assert caught.value.cause == (
        f"'mm' ({OPTIONS}): there is not enough memory on CUDA device 0 for {SHAPES}: "
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    )


# --- limits, before there is a launch ---------------------------------------------------------

SMALL = tc.Gpu(threads=64, thread_limits=(64, 2, 1))
"""A device with lower limits than the device that a text is for."""


@pytest.mark.parametrize(
    ("gpu", "cause", "repair"),
    [
        (
            SMALL,
            f"{LAUNCH} has 128 threads in a block, and CUDA device 0 has at most 64, and "
            "64 x 2 x 1 along x, y and z",
            "GpuOptions(threads=(2, 32))",
        ),
        (
            tc.Gpu(grid_limits=(2, 4, 1)),
            f"{LAUNCH} has more blocks than CUDA device 0, which has at most 2 x 4 x 1 along x, y "
            "and z",
            "GpuOptions(blocks=(4, 2))",
        ),
        (
            tc.Gpu(shared=1024),
            f"{LAUNCH} has 1040 bytes of shared memory, and CUDA device 0 has at most 1024",
            "choose smaller tiles, or GpuOptions(shared=False)",
        ),
        (
            tc.Gpu(registers=4000),
            f"{LAUNCH} needs 32 registers for each of 128 threads of a block, and CUDA device 0 "
            "has 4000",
            "GpuOptions(threads=(3, 32))",
        ),
    ],
)
def test_limits(gpu: tc.Gpu, cause: str, repair: str, stand_in: StandInDriver) -> None:
    text = tc.emit(MM, {"M": 64, "K": 64, "N": 64}, backend="cuda", options=TILED)
    stand_in.gpus = (gpu,)
    with pytest.raises(tc.BackendError) as caught:
        CudaBackend().load(text)
    assert message(caught.value) == (cause, repair)
    assert "launch" not in stand_in.names()


AT_ONCE = (
    "'k' (k_0: 6 x 1 x 1 blocks of 8 x 1 x 1 threads (x, y, z), 32 bytes of shared memory, all at "
    "once; default options)"
)


def test_blocks_that_wait_have_a_word(stand_in: StandInDriver) -> None:
    """Behind the arguments, and the record of failures: the stand-in sees that it is 0."""
    (case,) = ONE_LAUNCH
    given = case.inputs(np.random.default_rng(3))
    _, found = run(load(CudaBackend(), case.kernel), given)
    np.testing.assert_array_equal(found["o"], case.formula(given)["o"])
    assert ("launcher", "k_0", 4) in stand_in.calls  # a, o, w and the word
    kernel = load(CudaBackend(), failing_at_once())
    given = {"a": np.zeros(5, np.float32), "p": np.full(40, -1, np.int64)}
    failure, _ = run(kernel, given)
    assert failure is not None
    assert ("launcher", "k_0", 5) in stand_in.calls  # the same and the record


def test_blocks_that_wait_need_another_library_than_pycuda(stand_in: StandInDriver) -> None:
    stand_in.name, stand_in.cooperates = "PyCUDA 2026.1", False
    with pytest.raises(tc.BackendError) as caught:
        load(CudaBackend(), largest_of_all())
    assert message(caught.value) == (
        f"{AT_ONCE} is a cooperative launch, as its blocks wait for each other, and PyCUDA 2026.1 "
        "has none; cuda.core's cuda-bindings have",
        'pip uninstall pycuda; pip install "tensor-comprehensions[cuda]", or '
        "GpuOptions(single_kernel=False)",
    )


def test_blocks_that_wait_have_to_run_at_the_same_time(stand_in: StandInDriver) -> None:
    stand_in.at_once = 4
    with pytest.raises(tc.BackendError) as caught:
        load(CudaBackend(), largest_of_all())
    assert message(caught.value) == (
        f"{AT_ONCE} has 6 blocks that wait for each other, and CUDA device 0 runs 4 of them at a "
        "time",
        "GpuOptions(blocks=(4,)), or GpuOptions(single_kernel=False)",
    )


# --- what is not there ------------------------------------------------------------------------


def refused() -> tuple[str, str | None]:
    """The error of `tc.compile`, with which all else that asks agrees."""
    with pytest.raises(tc.BackendError) as caught:
        tc.compile(MM, backend="cuda")
    assert registry.get("cuda").usable() == caught.value.cause
    assert registry.reason_unusable("cuda") == caught.value.cause
    assert "cuda" not in tc.backends()
    assert "__global__" in str(tc.emit(MM, {"M": 4, "K": 4, "N": 4}, backend="cuda"))
    return message(caught.value)


def opening(monkeypatch: pytest.MonkeyPatch, driver: CudaDriver | None) -> None:
    """The driver is looked for again, and this one is found."""
    monkeypatch.setattr(cuda_driver.OPENED, "made", [])
    if driver is not None:
        monkeypatch.setattr(cuda_driver, "_find", lambda: driver)


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    opening(monkeypatch, None)
    monkeypatch.setattr(cuda_driver, "_DRIVERS", (("absent_one", "A"), ("absent_two", "B")))
    assert refused() == (
        "neither PyCUDA nor cuda.core's cuda-bindings can be imported: No module named "
        "'absent_one'; No module named 'absent_two'",
        ELSEWHERE,
    )


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = DriverError("CUDA_ERROR_NOT_FOUND", "libcuda is not there")
    driver = StandInDriver()
    opening(monkeypatch, driver)
    monkeypatch.setattr(driver, "count", lambda: (_ for _ in ()).throw(fault))
    assert refused() == (
        "CUDA's driver cannot be used: CUDA_ERROR_NOT_FOUND: libcuda is not there",
        ELSEWHERE,
    )


@pytest.mark.parametrize("fails", [False, True])
def test_no_gpu(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Drivers count none, or fail to start."""
    driver = StandInDriver(gpus=())
    opening(monkeypatch, driver)
    if fails:
        fault = DriverError("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected")
        monkeypatch.setattr(driver, "count", lambda: (_ for _ in ()).throw(fault))
    assert refused() == ("there is no GPU that CUDA can use", ELSEWHERE)


def test_a_driver_older_than_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StandInDriver()
    use(driver, monkeypatch)
    opening(monkeypatch, driver)
    monkeypatch.setattr(driver, "version", lambda: (12, 4))
    monkeypatch.setattr(nvrtc, "version", lambda: "13.5")
    assert refused() == (
        "the driver runs programs of CUDA 12.4 and older, and NVRTC 13.5 compiles for newer ones",
        OTHER_COMPILER,
    )


@pytest.mark.parametrize(
    ("arch", "repair"),
    [("sm_70", OLDER_COMPILER), ("sm_86", NEWER_COMPILER), ("sm_120", NEWER_COMPILER)],
)
def test_a_gpu_that_the_compiler_does_not_know(
    arch: str, repair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too old for it, or too new: that is told before a call."""
    use(StandInDriver(gpus=(tc.Gpu(arch=arch),)), monkeypatch)
    assert refused() == (
        f"CUDA device 0 is of architecture {arch}, and NVRTC 0.0 compiles for sm_80, sm_90",
        repair,
    )


@pytest.mark.parametrize("old", [0, 1])
def test_one_of_two_gpus_that_the_compiler_does_not_know(
    old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = [tc.Gpu(), tc.Gpu()]
    gpus[old] = tc.Gpu(arch="sm_70")
    driver = StandInDriver(gpus=tuple(gpus))
    use(driver, monkeypatch)
    assert "cuda" in tc.backends()
    function = tc.compile(MM, backend="cuda")
    function.prepare(*2 * [DeviceVector(ONES, device=1 - old)])
    assert ("load", 1 - old) in driver.calls
    with pytest.raises(tc.BackendError, match=f"CUDA device {old} is of architecture sm_70"):
        function.prepare(*2 * [DeviceVector(ONES, device=old)])


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    opening(monkeypatch, StandInDriver())
    monkeypatch.setattr(nvrtc._LOADED, "made", [None])
    assert refused() == (
        "there is no NVRTC",
        'pip install nvidia-cuda-nvrtc; backend="opencl" or "numba" needs none',
    )


def test_a_device_that_is_not_there(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    with pytest.raises(tc.BackendError) as caught:
        function(DeviceVector(ONES, device=7), DeviceVector(ONES, device=7))
    assert message(caught.value) == (
        "CUDA device 7 cannot be used: CUDA_ERROR_INVALID_DEVICE: invalid device ordinal",
        'backend="opencl" or "numba"',
    )
    assert stand_in.current() is None


# --- forks ------------------------------------------------------------------------------------

FORKS = """
import os, sys
import numpy as np, pytest, tc
from tests.support.stand_in import DeviceVector, StandInDriver, use

patch = pytest.MonkeyPatch()
use(StandInDriver(), patch)
text = "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
called, compiled = (tc.compile(text, backend="cuda") for _ in range(2))
x, on_host = DeviceVector(np.ones(3, np.float32)), np.ones(3, np.float32)
for _ in range(3):
    called(x)

def tried(work):
    try:
        print("ran", work())
    except tc.TCError as error:
        print(error)

sys.stdout.flush()
pid = os.fork()
if pid == 0:
    for work in (
        lambda: called(x), lambda: called(on_host), lambda: compiled(x), lambda: compiled(on_host),
        lambda: tc.compile(text, backend="cuda"), lambda: "cuda" in tc.backends(),
    ):
        tried(work)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
tried(lambda: called(x).values)
"""


def test_forked_children_are_told() -> None:
    """Also where the parent has only compiled; the parent goes on."""
    done = run_python(FORKS, flags=["-W", "ignore"], limit=120)
    assert ended_well(done), told(done)
    refused = (
        "BackendError: this process was forked from one that has used CUDA, and CUDA's contexts "
        'are not in it\nrepair: multiprocessing.get_context("spawn"), or use backend="numba"'
    )
    assert done.stdout == "".join(
        f"{line}\n" for line in (*[refused] * 5, "ran False", "ran [2. 2. 2.]")
    )
