"""Recorded results and the printed tables, spec/measured.md, README and means agree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tc
from bench import cpu, demo
from bench.cpu_kernels.kernel import TEXTS
from bench.cpu_report import geometric_mean
from bench.timing import milliseconds

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
RECORDED = sorted(RESULTS.glob("cpu-*.json"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "spec" / "measured.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_tables_are_those_of_the_recorded_data(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    cpu.main(["--tables-of", str(tmp_path / path.name)])
    for suffix in (".json", ".md"):
        made = (tmp_path / path.name).with_suffix(suffix).read_text(encoding="utf-8")
        assert made == path.with_suffix(suffix).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_ratio_is_the_quotient_of_the_times_beside_it(path: Path) -> None:
    for kernel in json.loads(path.read_text(encoding="utf-8"))["kernels"]:
        seconds = kernel["seconds"]
        assert kernel["ratio"] == pytest.approx(seconds[kernel["fastest"]] / seconds["tc"])


def recorded(part: str) -> dict[str, dict[str, object]]:
    text = (RESULTS / f"cpu-amd-epyc-25-17-2cores{part}.json").read_text(encoding="utf-8")
    return {kernel["kernel"]: kernel for kernel in json.loads(text)["kernels"]}


def test_rows_of_the_page_are_recorded() -> None:
    kernels = recorded("")
    block = MEASURED.split("kernel  ")[1].split("```")[0].splitlines()[2:]
    assert len(block) == 10
    for line in block:
        kernel = next(k for name, k in kernels.items() if line.startswith(f"{name} "))
        times = {n: milliseconds(s) for n, s in kernel["seconds"].items()}  # type: ignore[attr-defined]
        fastest = str(kernel["fastest"])
        said = [times["tc"], fastest, times[fastest], f"{kernel['ratio']:.2f}"]
        assert line.removeprefix(str(kernel["kernel"])).split() == " ".join(said).split()


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("", "over all thirty is {mean}, the least {least}"),
        ("-odd-sizes", "it is {mean}, the least {least}"),
    ],
)
def test_means_of_the_page_are_over_whole_tables(part: str, said: str) -> None:
    ratios = [float(str(k["ratio"])) for k in recorded(part).values()]
    text = said.format(mean=f"{geometric_mean(ratios):.2f}", least=f"{min(ratios):.2f}")
    assert text in " ".join(MEASURED.split())


def test_what_the_page_shows_of_the_demo_is_what_it_prints() -> None:
    """The page shows all but times and errors, which belong to one run."""
    text = (TEXTS / "conv_relu.tc").read_text(encoding="utf-8")
    assert f"\n\n{text}\n{tc.explain(text, demo.CONV_SHAPES, stage='ranges')}\n" in MEASURED
    text = (TEXTS / "prodModel.tc").read_text(encoding="utf-8")
    told = tc.explain(text, demo.MODEL_SHAPES, entry="prodModel", stage="ranges")
    assert f"```\n{str(told).splitlines()[-1]}\n" in MEASURED
    count = sum(1 for _ in told.shaped.statements)
    assert f"({count} statements, three calls and" in " ".join(MEASURED.split())


def test_times_of_the_compiler_are_those_of_the_file() -> None:
    table = (RESULTS / "compile_time.txt").read_text(encoding="utf-8").partition("\n")[2]
    assert f"```\n{table}```" in MEASURED


def test_the_readme_says_what_the_page_says() -> None:
    ratios = [float(str(k["ratio"])) for k in recorded("").values()]
    said = f"was {geometric_mean(ratios):.2f} over thirty kernels"
    assert said in " ".join(README.split())
    assert f"the least {min(ratios):.2f}" in README


def test_faster_kernels_on_a_gpu_are_counted_right() -> None:
    """By the first table: tc's median beside those of torch and torch.compile."""
    lines = (RESULTS / "gpu-nvidia-h200.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ")][1:21]
    seconds = [[_seconds(row[column]) for column in (1, 5, 7)] for row in rows]
    faster = sum(ours < min(others) for ours, *others in seconds)
    assert f"{faster} of {len(rows)} kernels were faster than torch" in " ".join(README.split())
    assert f"{faster} of {len(rows)} are faster than both" in MEASURED


def _seconds(cell: str) -> float:
    number, unit = cell.replace("*", "").split()
    return float(number) * {"us": 1e-6, "ms": 1e-3}[unit]
