"""tc.Gpu and tc.GpuOptions: data sheets, JSON, and what is refused, by whole messages whose repairs
work when they are pasted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import tc
from tc.backends.cuda import CudaBackend
from tc.backends.opencl import OpenCLBackend
from tc.options import GpuOptions, check_options
from tc.pipeline import device_for
from tests.fuzz.gpu import gpus, gpus_with_options

SMALL = tc.Gpu(threads=64, thread_limits=(32, 16, 2), grid_limits=(1000, 10, 5))
WHERE = {"Gpu": tc.Gpu, "GpuOptions": GpuOptions}


def refused(make: Callable[[], Any], said: str, repair: str) -> Any:
    """Whether this is refused in these words; what the repair gives."""
    with pytest.raises(tc.BackendError) as caught:
        make()
    assert str(caught.value) == f"BackendError: {said}\nrepair: {repair}"
    return eval(repair, dict(WHERE))


def test_data_sheets() -> None:
    a100, h100 = tc.Gpu.named("sm_80"), tc.Gpu.named("sm_90")
    assert (a100.arch, a100.processors, a100.gflops, a100.gbytes) == ("sm_80", 108, 19_500, 1555)
    assert (h100.arch, h100.processors, h100.gflops, h100.gbytes) == ("sm_90", 132, 66_900, 3350)
    assert (tc.Gpu().shared, a100.shared, h100.shared) == (49_152, 166_912, 232_448)
    for gpu in (a100, h100):
        assert (gpu.threads, gpu.warp, gpu.registers, gpu.thread_registers) == (
            1024, 32, 65536, 255,
        )  # fmt: skip
        assert gpu.thread_limits == (1024, 1024, 64)
        assert gpu.grid_limits == (2147483647, 65535, 65535)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sm_86", "sm_80"), ("sm_90a", "sm_90"), ("sm_100", "sm_90"), ("compute_75", "sm_80"),
        ("sm90", "sm_90"), ("SM_90", "sm_90"), ("sm_9O", "sm_90"), (80, "sm_80"), (None, "sm_90"),
    ],
)  # fmt: skip
def test_a_gpu_that_tc_knows_nothing_of(name: Any, nearest: str) -> None:
    said = f"no data sheet of a GPU {name!r}; there are 'sm_80', 'sm_90'"
    found = refused(lambda: tc.Gpu.named(name), said, f"Gpu.named({nearest!r})")
    assert found == tc.Gpu.named(nearest)


def test_speeds_of_a_gpu_decide_nothing() -> None:
    assert tc.Gpu(gbytes=1.0, gflops=1.0) == tc.Gpu()
    assert repr(tc.Gpu(gbytes=1.0)) == repr(tc.Gpu())
    assert tc.Gpu(shared=1024) != tc.Gpu()
    assert tc.Gpu(grid_limits=[1, 2, 3]).grid_limits == (1, 2, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("threads", "shared", "registers", "expected"),
    [
        (256, 0, 255, 1),  # 256 threads of 256 registers are all that there are
        (257, 0, 255, 1),  # as launch bounds see to it that one block can run
        (1024, 0, 255, 1),
        (96, 0, 255, 2),  # two warps in each of the four parts
        (1024, 0, 32, 2),  # 2048 threads
        (1000, 0, 32, 2),
        (32, 0, 32, 32),  # blocks
        (32, 0, 168, 12),  # three warps of 168 registers in each part
        (128, 0, 33, 12),  # 12 warps of 40 registers in each part
        (32, 40 << 10, 32, 4),  # 41 KB of 164
        (32, (40 << 10) + 1, 32, 3),
        (32, 163 << 10, 32, 1),
    ],
)
def test_blocks_that_run_at_a_time(
    threads: int, shared: int, registers: int, expected: int
) -> None:
    gpu = dataclasses.replace(tc.Gpu.named("sm_80"), thread_registers=registers)
    assert gpu.blocks_at_once(threads, shared) == 108 * expected
    assert dataclasses.replace(gpu, processors=1).blocks_at_once(threads, shared) == expected


@pytest.mark.parametrize(
    ("field", "value", "kind", "default"),
    [
        ("arch", 80, "a name", "'sm_80'"),
        ("threads", 0, "an integer of at least 1", "1024"),
        ("warp", 32.0, "an integer of at least 1", "32"),
        ("shared", True, "an integer of at least 1", "49152"),
        ("thread_limits", (1024, 1024), "three integers of at least 1, along x, y and z",
         "(1024, 1024, 64)"),
        ("grid_limits", (1, 0, 1), "three integers of at least 1, along x, y and z",
         "(2147483647, 65535, 65535)"),
        ("cooperative", 1, "True or False", "True"),
        ("gbytes", -1.0, "a number of at least 0", "0.0"),
        ("gflops", float("nan"), "a number of at least 0", "0.0"),
    ],
)  # fmt: skip
def test_what_no_gpu_has(field: str, value: Any, kind: str, default: str) -> None:
    said, repair = f"Gpu({field}={value!r}): it is {kind}", f"Gpu({field}={default})"
    assert refused(lambda: tc.Gpu(**{field: value}), said, repair) == tc.Gpu()


@pytest.mark.parametrize(
    ("field", "value", "said", "mended"),
    [
        ("threads", (), "threads=(): it has a size for at least one loop", None),
        ("tile", [], "tile=(): it has a size for at least one loop", None),
        ("blocks", (2, 3, 4, 5), "blocks=(2, 3, 4, 5) are 4 sizes, but there are 3 axes",
         (3, 4, 5)),
        ("threads", [1, 1, 1, 0], "threads=(1, 1, 1, 0) are 4 sizes, but there are 3 axes",
         (1, 1, 1)),
        ("threads", (0, 32), "threads=(0, 32): its sizes are integers from 1 to 2147483647",
         (1, 32)),
        ("tile", [-4, 8, 2**40], "tile=(-4, 8, 1099511627776): its sizes are integers from 1 to "
         "2147483647", (1, 8, 2147483647)),
        ("blocks", (True, 8.0, 2.5, ), "blocks=(True, 8.0, 2.5): its sizes are integers from 1 to "
         "2147483647", (1, 8, 1)),
        ("threads", 256, "threads=256: it is a list of integers, outermost first, or None",
         (256,)),
        ("tile", "32", "tile='32': it is a list of integers, outermost first, or None", (1,)),
        ("unroll", 0, "unroll=0: it is an integer of at least 1, or None", 1),
        ("shared", 1, "shared=1: it is True, False or None", True),
        ("private", "no", "private='no': it is True, False or None", True),
        ("unroll_copies", 0, "unroll_copies=0: it is True, False or None", True),
        ("single_kernel", None, "single_kernel=None: it is True or False", True),
        ("tf32", 1, "tf32=1: it is True or False", True),
    ],
)  # fmt: skip
def test_options_that_no_gpu_has(field: str, value: Any, said: str, mended: Any) -> None:
    repair = f"GpuOptions({field}={mended!r})"
    found = refused(lambda: GpuOptions(**{field: value}), said, repair)
    assert getattr(found, field) == mended


@pytest.mark.parametrize(
    ("field", "value", "said", "mended"),
    [
        ("threads", (3, 1, 1), "are 3 along z, but the GPU has at most 2 there", (2, 1, 1)),
        ("threads", (40,), "are 40 along x, but the GPU has at most 32 there", (32,)),
        ("threads", (8, 16), "are 128 threads in all, but the GPU has at most 64", (4, 16)),
        ("threads", (2, 16, 32), "are 1024 threads in all, but the GPU has at most 64",
         (1, 2, 32)),
        ("threads", (9, 99, 999), "are 999 along x, but the GPU has at most 32 there", (1, 2, 32)),
        ("blocks", (6, 10, 1000), "are 6 along z, but the GPU has at most 5 there", (5, 10, 1000)),
        ("blocks", (11, 1), "are 11 along y, but the GPU has at most 10 there", (10, 1)),
    ],
)  # fmt: skip
def test_launches_that_a_gpu_has_no_room_for(
    field: str, value: tuple[int, ...], said: str, mended: tuple[int, ...]
) -> None:
    options = tc.Options(gpu=GpuOptions(**{field: value}))
    repair = f"GpuOptions({field}={mended!r})"
    found = refused(lambda: check_options(options, SMALL), f"{field}={value!r} {said}", repair)
    assert getattr(found, field) == mended
    check_options(tc.Options(gpu=found), SMALL)
    check_options(options, tc.Device())  # which takes no notice of it


@pytest.mark.parametrize("blocks", [(65536, 1), (65536, 1, 1)])
def test_a_grid_is_short_along_y_and_z(blocks: tuple[int, ...]) -> None:
    axis = "y" if len(blocks) == 2 else "z"
    said = f"blocks={blocks} are 65536 along {axis}, but the GPU has at most 65535 there"
    mended = (65535, *blocks[1:])
    options = tc.Options(gpu=GpuOptions(blocks=blocks))
    refused(
        lambda: check_options(options, tc.Gpu.named("sm_90")), said, f"GpuOptions(blocks={mended})"
    )
    check_options(tc.Options(gpu=GpuOptions(blocks=(2**31 - 1,))), tc.Gpu.named("sm_90"))


@pytest.mark.parametrize(
    ("gpu", "has"),
    [
        (tc.Gpu(arch="sm_75", tensor_cores=False), "no tensor cores"),
        (tc.Gpu(tensor_cores=False, warp=64), "no tensor cores"),
        (tc.Gpu(warp=64), "warps of 64 threads"),
    ],
    ids=str,
)
def test_no_tensor_cores_round(gpu: tc.Gpu, has: str) -> None:
    options = tc.Options(gpu=GpuOptions(tf32=True))
    said = (
        f"tf32=True, but the GPU has {has}: factors are rounded for tensor cores that multiply for "
        "warps of 32 threads, as NVIDIA has since sm_80"
    )
    found = refused(lambda: check_options(options, gpu), said, "GpuOptions(tf32=False)")
    check_options(tc.Options(gpu=found), gpu)
    check_options(options, tc.Gpu.named("sm_80"))
    refused(
        lambda: tc.emit(MM, SIZES, backend="cuda", device=gpu, options=options),
        said,
        "GpuOptions(tf32=False)",
    )


def test_opencl_rounds_nothing() -> None:
    """Whether the GPU has tensor cores or not."""
    options = tc.Options(gpu=GpuOptions(tf32=True))
    with pytest.raises(tc.BackendError) as caught:
        tc.emit(MM, SIZES, backend="opencl", device=tc.Gpu.named("sm_90"), options=options)
    assert str(caught.value) == (
        "BackendError: tf32=True, but OpenCL C has no tensor cores\n"
        'repair: GpuOptions(tf32=False), or backend="cuda"'
    )
    assert tc.emit(MM, SIZES, backend="cuda", options=options).backend == "cuda"
    with pytest.raises(tc.BackendError, match="tf32=True, but the GPU has no tensor cores"):
        tc.emit(MM, SIZES, backend="opencl", options=options)


def test_options_of_processors_are_not_for_gpus() -> None:
    options = tc.Options(mapping=tc.MappingOptions(vector_bits=512, rows=99), threads=3)
    check_options(options, SMALL)
    with pytest.raises(tc.BackendError):
        check_options(options, tc.Device())


@given(gpus_with_options())
def test_options_are_given_back(drawn: tuple[tc.Gpu, GpuOptions]) -> None:
    gpu, chosen = drawn
    options = tc.Options(gpu=chosen, threads=2)
    assert tc.Options.from_json(options.to_json()) == options
    for name in ("single_kernel", "tf32"):
        other = dataclasses.replace(chosen, **{name: not getattr(chosen, name)})
        assert options != dataclasses.replace(options, gpu=other)
    check_options(options, gpu)


@given(gpus())
def test_a_gpu_is_what_its_text_says(gpu: tc.Gpu) -> None:
    assert eval(repr(gpu), dict(WHERE)) == gpu


@pytest.mark.parametrize(
    ("text", "said", "repair"),
    [
        ('{"gpu": {"tiles": [4]}}',
         """the options '{"tiles": [4]}' are not an object with the keys tile, blocks, threads, """
         "shared, private, unroll, unroll_copies, single_kernel, tf32",
         '{"tile": null, "blocks": null, "threads": null, "shared": null, "private": null, '
         '"unroll": null, "unroll_copies": null, "single_kernel": false, "tf32": false}'),
        ('{"gpu": {"threads": [0]}}', "threads=(0,): its sizes are integers from 1 to 2147483647",
         "GpuOptions(threads=(1,))"),
        ("[" * 100_000, "the options are no JSON: they are nested too deeply", "{}"),
    ],
)  # fmt: skip
def test_json_that_is_refused(text: str, said: str, repair: str) -> None:
    with pytest.raises(tc.BackendError) as caught:
        tc.Options.from_json(text)
    assert str(caught.value) == f"BackendError: {said}\nrepair: {repair}"


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("gpu", GpuOptions(tile=(4, 32))),
        ("mapping", tc.MappingOptions(rows=2)),
        ("schedule", tc.ScheduleOptions(fusion="min")),
        ("plan", tc.Plan()),
    ],
)
def test_a_part_of_options(part: str, options: Any) -> None:
    with pytest.raises(tc.BackendError) as caught:
        tc.emit(MM, SIZES, backend="c", options=options)
    kind = type(options).__name__
    assert caught.value.cause == f"options= is a tc.Options, and not of type {kind}"
    assert caught.value.repair == f"tc.Options({part}=options)"
    assert getattr(eval(caught.value.repair), part) == options


def test_what_is_no_gpu_options() -> None:
    with pytest.raises(tc.BackendError) as caught:
        tc.Options(gpu={"threads": (32,)})  # type: ignore[arg-type]
    assert str(caught.value) == (
        "BackendError: gpu= is a tc.GpuOptions, and not of type dict\n"
        "repair: Options(gpu=tc.GpuOptions())"
    )


# --- devices and backends -------------------------------------------------------------------------

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SIZES = {"M": 8, "K": 8, "N": 8}


@pytest.mark.parametrize("call", [tc.emit, tc.explain])
@pytest.mark.parametrize("backend", ["c", "numba"])
def test_a_gpu_is_no_processor(call: Callable[..., Any], backend: str) -> None:
    with pytest.raises(tc.BackendError) as caught:
        call(MM, SIZES, backend=backend, device=tc.Gpu.named("sm_90"))
    assert str(caught.value) == (
        f"BackendError: device= is a GPU, and backend {backend!r} is for processors\n"
        'repair: backend="cuda"'
    )
    assert "__global__" in str(tc.emit(MM, SIZES, backend="cuda", device=tc.Gpu.named("sm_90")))


def test_options_of_processors_are_ignored_for_gpus() -> None:
    options = tc.Options(mapping=tc.MappingOptions(vector_bits=512, rows=99), threads=3)
    plain, given = (
        tc.explain(MM, SIZES, backend="cuda", options=o).stages["mapping"]
        for o in (tc.Options(), options)
    )
    ignored = "MappingOptions(vector_bits=512, rows=99) and Options(threads=3)"
    assert given == f"{plain}\n\nIgnored, as for processors: {ignored}."


@pytest.mark.parametrize("backend", ["c", "cuda"])
def test_what_is_no_device(backend: str) -> None:
    given: Any = "sm_90"
    with pytest.raises(tc.BackendError) as caught:
        tc.emit(MM, SIZES, backend=backend, device=given)
    fits = "tc.Device(vector_bits=256)" if backend == "c" else 'tc.Gpu.named("sm_80")'
    assert str(caught.value) == (
        "BackendError: device= is a tc.Device or a tc.Gpu, and not of type str\n"
        f"repair: device={fits}"
    )
    assert tc.emit(MM, SIZES, backend=backend, device=eval(fits)).backend == backend


def test_options_of_gpus_are_ignored_for_processors() -> None:
    device = tc.Device(vector_bits=256)
    chosen = GpuOptions(threads=(4096, 4096), single_kernel=True, tf32=True)
    options = tc.Options(gpu=chosen)
    plain, given = (
        tc.explain(MM, SIZES, device=device, options=o).stages["mapping"]
        for o in (tc.Options(), options)
    )
    ignored = (
        "Ignored, as for GPUs: GpuOptions(threads=(4096, 4096), single_kernel=True, tf32=True)."
    )
    assert given == f"{plain}\n\n{ignored}"
    naive = tc.explain(MM, SIZES, device=device, options=tc.Options.preset("naive"))
    assert "Ignored" not in str(naive)  # nobody asked for it
    texts = [str(tc.emit(MM, SIZES, device=device, options=o)) for o in (None, options)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("backend", [CudaBackend(), OpenCLBackend()], ids=lambda b: b.name)
def test_a_processor_is_no_gpu(backend: CudaBackend | OpenCLBackend) -> None:
    said = f"device= is a processor, and backend {backend.name!r} is for GPUs"
    with pytest.raises(tc.BackendError) as caught:
        device_for(backend, tc.Device())
    repair = 'device=tc.Gpu.named("sm_80")'
    assert str(caught.value) == f"BackendError: {said}\nrepair: {repair}"
    chosen = eval(repair.removeprefix("device="))
    assert device_for(backend, chosen) is chosen
    assert isinstance(device_for(backend, None), tc.Gpu)


def test_why_there_are_tiles_and_barriers() -> None:
    explained = tc.explain(MM.replace("B(k,j)", "B(j,k)"), SIZES, backend="cuda")
    text = " ".join(explained.stages["mapping"].split())
    assert "In shared memory are tiles of what a block uses again, or gathers, and the" in text
    assert "wait for each other, as one may need what another wrote, or write what" in text
    plain = tc.explain("def f(float(N) a) -> (o) { o(i) = a(i) }", {"N": 8}, backend="cuda")
    assert "In shared memory" not in plain.stages["mapping"]
