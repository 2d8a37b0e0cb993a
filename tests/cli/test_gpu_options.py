"""GPUs on the command line: options as JSON and in files, and what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import tc
from tc.cli import main

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(i,j) +=! A(i,k) * B(j,k) }"
SIZES = ["M=128", "K=32", "N=256"]
CHOSEN = {"tile": [4, 32], "blocks": [64, 128], "threads": [1, 32]}


@pytest.fixture
def tmm(tmp_path: Path) -> str:
    path = tmp_path / "tmm.tc"
    path.write_text(TMM)
    return str(path)


@pytest.mark.parametrize("backend", ["cuda", "opencl"])
def test_options_are_json(
    backend: str, tmm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"gpu": CHOSEN})
    (tmp_path / "options.json").write_text(text)
    gpu = tc.GpuOptions(tile=(4, 32), blocks=(64, 128), threads=(1, 32))
    sizes = {"M": 128, "K": 32, "N": 256}
    emitted = tc.emit(TMM, sizes, backend=backend, options=tc.Options(gpu=gpu))
    for given in (text, str(tmp_path / "options.json")):
        assert main(["emit", tmm, *SIZES, "--backend", backend, "--options", given]) == 0
        assert capsys.readouterr().out == f"{emitted}\n"
        words = ["explain", tmm, *SIZES, "--backend", backend, "--options", given]
        assert main([*words, "--stage", "mapping"]) == 0
        told = capsys.readouterr().out
        assert "i div 4 is run by 32 blocks along y, j div 32 is run by 8 blocks along x." in told


@pytest.mark.parametrize(
    ("given", "said", "repair"),
    [
        ({"threads": [8, 2048]}, "threads=(8, 2048) are 2048 along x, but the GPU has at most "
         "1024 there", {"threads": [1, 1024]}),
        ({"threads": [64, 32]}, "threads=(64, 32) are 2048 threads in all, but the GPU has at most "
         "1024", {"threads": [32, 32]}),
        ({"blocks": [70000, 1]}, "blocks=(70000, 1) are 70000 along y, but the GPU has at most "
         "65535 there", {"blocks": [65535, 1]}),
        ({"tile": []}, "tile=(): it has a size for at least one loop", {"tile": None}),
        ({"unroll": 0}, "unroll=0: it is an integer of at least 1, or None", {"unroll": 1}),
    ],
)  # fmt: skip
def test_repairs_are_options(
    given: object, said: str, repair: object, tmm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["emit", tmm, *SIZES, "--backend", "cuda"]
    assert main([*words, "--options", json.dumps({"gpu": given})]) == 1
    pasted = f"--options '{json.dumps({'gpu': repair})}'"
    assert capsys.readouterr().err == f"BackendError: {said}\nrepair: {pasted}\n"
    assert main([*words, *shlex.split(pasted)]) == 0


def test_misspelt_options(tmm: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["emit", tmm, *SIZES, "--backend", "cuda"]
    assert main([*words, "--options", '{"gpu": {"tiles": [4]}}']) == 1
    assert capsys.readouterr().err == (
        "BackendError: the options of 'gpu' have no 'tiles'; there are tile, blocks, threads, "
        "shared, private, unroll, unroll_copies, single_kernel, tf32\n"
        """repair: --options '{"gpu": {"tile": [4]}}'\n"""
    )


def test_options_nested_too_deeply(
    tmm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert main(["emit", tmm, *SIZES, "--options", str(tmp_path / "deep.json")]) == 1
    assert capsys.readouterr().err == (
        "BackendError: the options are no JSON: they are nested too deeply\n"
        """repair: --options '{"threads": 2}'\n"""
    )
