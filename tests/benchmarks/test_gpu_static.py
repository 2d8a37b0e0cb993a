"""What `bench.gpu_static` counts, against what a text says, and machine code by hand."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tc
from bench.gpu_counts import sectors, wavefronts
from bench.gpu_kernels import KERNELS
from bench.gpu_launches import counts_of
from bench.gpu_static import emitted, is_as_counted, lines_of
from bench.public_products import SIBOEHM, text_of
from tc.backends import nvrtc, sass
from tc.errors import BackendError

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(i,j) +=! A(i,k) * B(j,k) }"
OPTIONS = tc.Options(gpu=tc.GpuOptions(tile=[4, 32], threads=[1, 32]))

LISTING = """
.text.f:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E R2, [R4.64] ;
.L_x_0:
        /*0020*/                   LDS.128 R8, [R3] ;
        /*0030*/                   FFMA R0, R8, R9, R0 ;
        /*0040*/                   FFMA R0, R10, R11, R0 ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
        /*0060*/              @!P1 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
        /*0090*/                   NOP;
"""


def test_loops_of_machine_code() -> None:
    code = sass.instructions_of(LISTING)["f"]
    outer, inner = sass.loops_of(code)
    assert (outer.first, outer.last, outer.counts) == (1, 6, {"LDG.32": 1, "BRA": 1})
    assert inner.counts == {"LDS.128": 1, "FFMA": 2, "BRA": 1}
    assert sass.hottest(code) == inner
    assert inner.share("FFMA") == 0.5
    assert sass.hottest(code[:2]).counts == {"MOV": 1, "LDG.32": 1}


def test_without_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "_program", lambda: None)
    with pytest.raises(BackendError, match="there is no nvdisasm\nrepair: pip install nvidia-cuda"):
        sass.disassembled(b"")


def test_machine_code_of_a_text() -> None:
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    text = tc.emit(TMM, {"M": 128, "K": 32, "N": 256}, backend="cuda", options=OPTIONS)
    code = sass.disassembled(nvrtc.compiled(str(text), "sm_90").cubin)
    assert set(code) == {"tmm_0"}
    assert sum(i.kind == "FFMA" for i in code["tmm_0"]) % 4 == 0
    assert sass.hottest(code["tmm_0"]).counts["FFMA"] > 0


def test_lines_change_no_instruction() -> None:
    """The code that says of which lines of the text it is is the same code."""
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    for text in (
        str(tc.emit(TMM, {"M": 128, "K": 32, "N": 256}, backend="cuda", options=OPTIONS)),
        text_of(SIBOEHM["4 1D tile 64x64x8, 8 rows a thread"]),
    ):
        codes = [
            [
                (i.address, i.guard, i.op, i.operands, i.target, i.control)
                for function in sass.disassembled(compiled.cubin).values()
                for i in function
            ]
            for compiled in (
                nvrtc.compiled(text, "sm_90"),
                nvrtc.compiled(text, "sm_90", lines=True),
            )
        ]
        assert codes[0] == codes[1]


def test_machine_code_by_lines() -> None:
    """Multiply-adds are of the line of the update, loads to shared memory of the copies."""
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    kernel = KERNELS["tmm 128x32x256"]
    text = str(emitted(kernel)).splitlines()
    lines = list(lines_of(kernel))
    assert [line for line in lines if not line.startswith("        //")] == text
    of_kind: dict[str, list[str]] = {}
    for line, below in itertools.pairwise(lines):
        for kind in ("FFMA", "STG", "LDGSTS", "BAR"):
            if below.startswith("        //") and re.search(rf"\d {kind}\b", below):
                of_kind.setdefault(kind, []).append(line)
    assert all("+=" in line for line in of_kind["FFMA"])
    assert all("_shared" in line for line in of_kind["LDGSTS"])
    assert all("syncthreads" in line for line in of_kind["BAR"])
    assert all("C[" in line for line in of_kind["STG"])


def test_counts_of_a_block() -> None:
    """A block computes 4 x 32 of C: reads 4 and 32 rows of 32 numbers, and writes its tile."""
    text = tc.emit(TMM, {"M": 128, "K": 32, "N": 256}, backend="cuda", options=OPTIONS)
    (row,) = counts_of(text, tc.Gpu.named("sm_90"))
    assert (row["blocks"], row["threads"], row["spills"], row["stack"]) == (256, 32, 0, 0)
    for block in (row["interior block"], row["last block"]):
        assert block["barriers"] == 1
        assert block["bytes first touched"] == (4 * 32 + 32 * 32 + 4 * 32) * 4
        loads = block["accesses"]["global loads, 32 bits"]
        assert (loads["warps"], loads["parts"], loads["least"]) == (36, 144, 144)
        stores = block["accesses"]["shared stores, 32 bits"]
        assert stores["parts"] == stores["least"] == 36


def test_accesses_of_warps() -> None:
    """Columns of rows of 33 words lie in different banks, of 32 in one; half a warp has less."""
    lanes = np.arange(64)
    assert wavefronts(33 * 4 * lanes, 4, lanes)[0] == 2
    assert wavefronts(32 * 4 * lanes, 4, lanes)[0] == 64
    assert wavefronts(8 * lanes, 8, lanes) == (4, 4)
    assert sectors(4 * lanes + 4, 4, lanes) == (10, 8)
    assert sectors(16 * lanes[:16], 16, lanes[:16]) == (8, 8)


COUNTERS = Path(__file__).parents[2] / "bench" / "results" / "gpu-counters-nvidia-h200.json"


@pytest.mark.parametrize("name", ["tmm 128x32x256", "MLP3 128x128x64x32x2"])
def test_counts_are_those_of_a_gpu(name: str) -> None:
    """All blocks of these kernels do the same, so one stands for all."""
    (row,) = counts_of(emitted(KERNELS[name]), tc.Gpu.named("sm_90"))
    counted = next(
        launch
        for launch in json.loads(COUNTERS.read_text())["launches"]
        if (launch["kernel"], launch["by"], launch["options"]) == (name, "tc", "defaults")
    )
    if not is_as_counted(row, counted):
        pytest.skip("the GPU has counted for another text")
    parts = {"global read sectors": 0, "global write sectors": 0, "shared read wavefronts": 0}
    for access, found in row["interior block"]["accesses"].items():
        memory, kind, *_ = access.replace(",", "").split()
        part = "sectors" if memory == "global" else "wavefronts"
        key = f"{memory} {'read' if kind == 'loads' else 'write'} {part}"
        parts[key] = parts.get(key, 0) + found["parts"] * row["blocks"]
    for key in parts:
        assert parts[key] == counted[key], key


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("kind", "share"), [("half", 0.3), ("float", 0.15)])
@pytest.mark.parametrize(
    ("sizes", "layouts"),
    [
        ((2048, 2048, 2048), "A(i,k) * B(k,j)"),
        ((512, 1024, 768), "A(i,k) * B(j,k)"),
        ((1000, 520, 1160), "A(k,i) * B(k,j)"),
    ],
    ids=str,
)
def test_products(sizes: tuple[int, int, int], kind: str, share: float, layouts: str) -> None:
    """On tensor cores: their share of the loop, lines of tiles in different banks, wide copies.
    Each float that is read is rounded by two instructions."""
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    shapes = layouts.upper().translate(str.maketrans("IJ", "MN")).split(" * ")
    inputs = ", ".join(f"{kind}{shape[1:]} {shape[0]}" for shape in shapes)
    text = f"def mm({inputs}) -> (C) {{ C(i,j) +=! {layouts} }}"
    given, gpu = dict(zip("MKN", sizes, strict=True)), tc.Gpu.named("sm_90")
    schedule = tc.ScheduleOptions(split=False)
    options = tc.Options(gpu=tc.GpuOptions(tf32=kind == "float"), schedule=schedule)
    made = tc.emit(text, given, backend="cuda", device=gpu, options=options)
    (row,) = counts_of(made, gpu)
    assert row["spills"] == row["stack"] == 0
    assert row["share of HMMA"] >= share
    kinds = {name.partition(".")[0] for name in row["hottest loop"]}
    assert kinds >= {"HMMA", "LDSM" if kind == "half" or "B(j,k)" in layouts else "LDS"}
    assert not kinds & {"LDG", "STS", "FFMA"}
    accesses = row["last block"]["accesses"]
    shared = {name: found for name, found in accesses.items() if name.startswith("shared")}
    assert shared
    for name, found in shared.items():
        assert found["parts"] == found["least"], name
    assert {name for name in accesses if "global loads" in name} == {"global loads, 128 bits"}
