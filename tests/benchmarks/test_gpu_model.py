"""The model of a multiprocessor: machine code by hand, whose cycles are known, and what is
published or was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import tc
from bench import gpu_static, public_products
from bench.gpu_counts import Memory, block_counts
from bench.gpu_kernels import KERNELS
from bench.gpu_launches import placed
from bench.gpu_machines import CONSTANTS, MACHINES
from bench.gpu_model import work_of
from bench.gpu_static import counted_launches, is_as_counted, kernel_row
from bench.multiprocessor import Cost, Found, Work, run
from bench.public_products import OUT, TABLES, agreement, seconds_of, text_of
from bench.suites.contraction import Contraction
from tc.backends import nvrtc, sass
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import functions_of
from tc.backends.geometry import LaunchText
from tc.backends.sass import Control, Instruction
from tests.support.ptx.machine import Launch
from tests.support.ptx.memory import GlobalMemory
from tests.support.ptx.parse import parse

H200 = MACHINES["H200"]
END = Instruction(0, "", "EXIT", "", None, 0, Control(1))


def needs_nvdisasm() -> None:
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")


def code_of(*ops: tuple[str, Control]) -> list[Instruction]:
    return [*(Instruction(0, "", op, "", None, 0, control) for op, control in ops), END]


def cycles(
    code: Sequence[Instruction], warps: int = 1, costs: dict[int, Cost] | None = None,
    blocks: int = 1, resident: int = 1, active: int = 132,
) -> Found:  # fmt: skip
    trips, skips = np.ones((warps, 0), np.int64), np.zeros((warps, len(code)), bool)
    return run(Work(code, (), trips, skips, costs or {}), H200, resident, blocks, active)


def repeated(op: str, count: int, **control: int) -> list[Instruction]:
    return code_of(*[(op, Control(**control))] * count)


def test_stall_counts() -> None:
    """A warp waits as many cycles as ptxas says; four of a partition fill its scheduler."""
    code = repeated("FFMA", 100, stall=4)
    assert cycles(code).cycles == 401
    assert cycles(code, warps=4).cycles == 401  # each in a partition of its own
    found = cycles(code, warps=16)
    assert 400 < found.cycles < 420
    assert found.issue == pytest.approx(1, abs=0.05)
    assert found.floats == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("op", "each"), [("FFMA", 1), ("IADD3", 2), ("IMAD", 2), ("DFMA", 2), ("S2R", 1)]
)
def test_pipes_are_taken(op: str, each: int) -> None:
    """16 warps issue 100 instructions each, 400 in a partition."""
    assert cycles(repeated(op, 100, stall=1), warps=16).cycles == pytest.approx(
        400 * each, rel=0.05
    )


def test_scoreboards() -> None:
    """What waits for a load is issued when the load is there."""
    waits = Control(1, waits=1)
    code = code_of(("LDS", Control(2, result=0)), ("FADD", waits))
    assert cycles(code, costs={0: Cost(1.0)}).cycles == pytest.approx(H200.shared_cycles, abs=3)
    conflict = cycles(code, costs={0: Cost(32.0)}).cycles
    assert conflict == pytest.approx(32 + H200.shared_cycles - 32, abs=6)
    far = code_of(("LDG", Control(2, result=0)), ("FADD", waits))
    near = cycles(far, costs={0: Cost(1.0)}).cycles
    assert near == pytest.approx(H200.first_cache_cycles, abs=4)
    second = cycles(far, costs={0: Cost(1.0, 1.0, 128)}).cycles
    assert second == pytest.approx(H200.second_cache_cycles, abs=8)
    memory = cycles(far, costs={0: Cost(1.0, 1.0, 128, 1.0)}).cycles
    assert memory == pytest.approx(H200.memory_cycles, abs=16)


def test_accesses_of_a_line_miss_in_turn() -> None:
    """Where one of eight neighbouring reads misses, each trip of a loop waits for one."""
    load, wait = Control(1, result=0), Control(1, waits=1)
    code = code_of(*[("LDG", load)] * 8, ("FADD", wait), ("BRA", Control(1)))
    loop = sass.Loop(0, 9, {})
    costs = dict.fromkeys(range(8), Cost(1.0, 1 / 8, 32.0))
    work = Work(code, (loop,), np.array([[80]]), np.zeros((1, len(code)), bool), costs)
    found = run(work, H200, 1, 1, 1).cycles
    assert found == pytest.approx(80 * H200.second_cache_cycles, rel=0.25)


def test_shared_memory_is_taken_by_wavefronts() -> None:
    code = repeated("LDS", 100, stall=1)
    found = cycles(code, warps=8, costs=dict.fromkeys(range(100), Cost(4.0)))
    assert found.cycles == pytest.approx(8 * 100 * 4, rel=0.02)
    assert found.shared == pytest.approx(1, abs=0.02)


def test_rates_are_shared_by_multiprocessors() -> None:
    """One multiprocessor alone has 64 bytes of the second cache in a cycle, all together less."""
    costs = dict.fromkeys(range(100), Cost(1.0, 1.0, 512.0))
    code = repeated("LDG", 100, stall=1)
    alone = cycles(code, warps=8, costs=costs, active=1).cycles
    assert alone == pytest.approx(8 * 100 * 512 / 64, rel=0.1)
    together = cycles(code, warps=8, costs=costs).cycles
    share = H200.second_cache_rate / H200.clock_hz / 132
    assert together == pytest.approx(8 * 100 * 512 / share, rel=0.1)


def test_barriers_and_blocks() -> None:
    """A barrier waits for the last warp; blocks beyond those that are resident come after them."""
    slow = code_of(*[("FADD", Control(4))] * 50, ("BAR", Control(1)))
    found = cycles(slow, warps=8)
    assert found.cycles == pytest.approx(200 + H200.barrier_cycles, abs=20)
    code = repeated("FFMA", 100, stall=4)
    one = cycles(code).cycles
    assert cycles(code, blocks=4).cycles == pytest.approx(4 * one, rel=0.1)
    assert cycles(code, blocks=4, resident=4).cycles == one


def test_loops_and_branches() -> None:
    """An inner loop of 5 trips in an outer one of 3; a branch ahead that one of two warps takes."""
    listing = """
.text.f:
.L_x_1:
        /*0000*/                   FADD R0, R0, R0 ;
.L_x_0:
        /*0010*/                   FFMA R0, R8, R9, R0 ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
        /*0030*/              @!P1 BRA `(.L_x_1) ;
        /*0040*/               @P2 BRA `(.L_x_2) ;
        /*0050*/                   FMUL R0, R0, R0 ;
.L_x_2:
        /*0060*/                   EXIT ;
"""
    code = sass.instructions_of(listing)["f"]
    loops = sass.loops_of(code)
    assert [(loop.first, loop.last) for loop in loops] == [(0, 3), (1, 2)]
    skips = np.zeros((2, len(code)), bool)
    skips[1, 4] = True
    work = Work(code, loops, np.array([[3, 5], [3, 5]]), skips, {})
    of_loops = 3 * (1 + 5 * 2 + 1)
    assert run(work, H200, 1, 1, 1).instructions == 2 * of_loops + 3 + 2
    never = Work(code, loops, np.array([[3, 0], [3, 0]]), skips, {})
    assert run(never, H200, 1, 1, 1).instructions == 2 * 3 * 2 + 3 + 2


def test_constants_have_sources() -> None:
    assert all(len(constant.sources) > 10 for constant in CONSTANTS.values())


# --- published kernels ------------------------------------------------------------------------

RECORDED = json.loads(OUT.read_text())


@pytest.mark.parametrize(("table", "least"), [("siboehm", 0.9), ("Lei Mao", 0.75)])
def test_ranks_of_published_kernels(table: str, least: float) -> None:
    """The recorded numbers, which the test below compares with the model as it is."""
    own = [row for row in RECORDED["rows"] if row["table"] == table]
    assert {row["kernel"] for row in own} == set(TABLES[table][1])
    ranks, factor, right = agreement(own)
    assert ranks >= least
    assert factor <= 1.6
    assert right >= 0.9


PRODUCTS = [(table, name) for table, (_, products) in TABLES.items() for name in products]


@pytest.mark.drawn(11)
@pytest.mark.parametrize(("table", "name"), PRODUCTS)
def test_published_kernels(table: str, name: str) -> None:
    """The text is a product, by the PTX machine, and the model says what is recorded."""
    needs_nvdisasm()
    machine, products = TABLES[table]
    product, rng = products[name], np.random.default_rng(5)
    size, depth = max(product.rows, product.columns), 32
    a, b, c = (rng.integers(-4, 5, (size, size)).astype(np.float32) for _ in range(3))
    memory = GlobalMemory()
    addresses = [memory.add(n, x) for n, x in zip("abc", (a, b, c), strict=True)]
    numbers = [int(np.float32(x).view(np.int32)) for x in (2, 3)]
    function = parse(nvrtc.compiled(text_of(product), "sm_86").ptx)["product"]
    grid = (size // product.columns, size // product.rows, 1)
    Launch(
        function, grid, (product.threads, 1, 1), [*addresses, depth, size, *numbers], memory
    ).run()
    expected = 2 * a[:, :depth] @ b[:depth] + 3 * c
    np.testing.assert_array_equal(memory.array(addresses[2], c), expected)

    if RECORDED["nvrtc"] != nvrtc.version():
        return
    recorded = next(r for r in RECORDED["rows"] if (r["table"], r["kernel"]) == (table, name))
    tflops = 2 * public_products.N**3 / seconds_of(product, MACHINES[machine]) / 1e12
    assert tflops == pytest.approx(recorded["model"], rel=0.01)


# --- kernels that were counted ----------------------------------------------------------------


def test_ranks_of_counted_kernels() -> None:
    """The recorded numbers, of launches that an H200 has run as they were recorded. No constant was
    fitted to them."""
    own = gpu_static.beside_counters(json.loads(gpu_static.OUT.read_text()))
    if len(own) < gpu_static.LEAST_COUNTED:
        pytest.skip("the GPU has counted for another text")
    ranks, factor, right = agreement(own)
    assert ranks >= 0.9
    assert factor <= 1.3
    assert right >= 0.95


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", ["tmm 128x1024x1024", "gconv 32x32x16x16x14x14",
    "MLP3 128x128x64x32x2", "layernorm 4096x1024", "transpose4d 64x64x64x64"])  # fmt: skip
def test_instructions_are_those_of_a_gpu(name: str) -> None:
    """Loops of machine code have the right trips: warps issue as many instructions as an H200 has
    counted, for code of another NVRTC; and its time is within a factor of 1.6."""
    needs_nvdisasm()
    launch, *others = kernel_row(KERNELS[name])["launches"]
    counted = counted_launches().get((name, launch["function"]))
    if others or counted is None or not is_as_counted(launch, counted):
        pytest.skip("the GPU has counted for another text")
    warps = counted["blocks"] * -(-counted["threads"] // 32)
    issued = launch["model"]["instructions per warp"]
    assert issued == pytest.approx(counted["instructions"] / warps, rel=0.03)
    assert 1 / 1.6 < launch["model"]["us"] * 1000 / counted["nanoseconds"] < 1.6


@pytest.mark.drawn(3)
def drawn_text(left: str, right: str, result: str, sizes: str) -> LaunchText:
    extents = {part[0]: int(part[1:]) for part in sizes.split()}
    found = Contraction(left, right, result, extents)
    shapes = {n: tuple(extents[i] for i in t) for n, t in (("A_", left), ("B_", right))}
    text = tc.emit(found.text, shapes, backend="cuda", device=H200.gpu)
    assert isinstance(text, LaunchText)
    return text


TEXTS: Mapping[str, Callable[[], LaunchText]] = {
    **{
        name: lambda name=name: gpu_static.emitted(gpu_static.ALL[name])  # type: ignore[misc]
        for name in ("tmm 127x1021x509", "conv2d 3x31x29x29,37x31x3x3",
                     "gconv 17x13x7x11x19x23", "MLP1 127x1999x131")
    },
    "a loop that is entered in its middle": lambda: drawn_text(
        "jgied", "dijc", "gec", "c89 d94 e61 g2 i76 j8"
    ),
    "two loops that are alike": lambda: drawn_text(
        "hgfdi", "gai", "adfh", "a24 d22 f25 g24 h23 i26"
    ),
    "copies ahead in a loop": lambda: drawn_text(
        "ihfe", "chfe", "ci", "c53 e57 f65 h38 i56"
    ),
    "loops around loops alone": lambda: drawn_text(
        "ebdjc", "cdigj", "eigb", "b5 c229 d2 e193 g43 i7 j5"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_multiply_adds_are_those_of_ptx(name: str) -> None:
    """However ptxas unrolled loops, and whatever it left over: it drops none and adds none."""
    needs_nvdisasm()
    text, memory = TEXTS[name](), Memory()
    compiled = nvrtc.compiled(str(text), "sm_90", lines=True)
    functions, codes = parse(compiled.ptx), sass.disassembled(compiled.cubin)
    addresses = {b.name: placed(b, memory, 1) for b in text.kernel.arguments}
    printed = functions_of(text.kernel, CUDA)
    for one, geometry in zip(printed, text.launches, strict=True):
        function, code = functions[geometry.function], codes[geometry.function]
        given = [addresses[buffer.name] for buffer in one.arguments]
        launch = Launch(function, geometry.grid, geometry.block, given, memory, geometry.dynamic)
        counts = block_counts(launch, (0, 0, 0), memory)
        times = work_of(code, counts, {}, 1.0).times()
        of_ptx = sum(counts.times[n] for n, i in enumerate(function.code) if i.name == "fma")
        of_code = sum(times[:, n] for n, i in enumerate(code) if i.kind == "FFMA")
        np.testing.assert_array_equal(of_code, of_ptx)


# --- what is missing --------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "package"), [(nvrtc, "nvrtc"), (sass, "nvdisasm")])
def test_missing_packages(
    module: object,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert gpu_static.main([]) == 1
    assert f"pip install nvidia-cuda-{package}" in capsys.readouterr().out
