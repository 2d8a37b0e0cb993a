"""tc.explain and Compiled.explain: the stages as text, for a device given as data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import device as devices
from tc.backends import nvrtc, sass
from tc.backends.clike import backend as clike
from tc.backends.numba import backend as numba
from tc.explanation import STAGES, SUMMARY, Explanation
from tc.kernel.analysis.estimate import estimate
from tc.kernel.pass_manager import PassContext
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.printer import to_text
from tc.polyhedral.legality import check_schedule
from tc.polyhedral.narrative import text_order
from tests.support.pipeline import timeless
from tests.support.programs import CASES, TEXTS, Case

EXPECTED = Path(__file__).parent.parent / "expected"
MM = (TEXTS / "mm.tc").read_text(encoding="utf-8")
SIZES = {"X": 128, "Y": 1024, "Z": 1024}
SMALL = {"X": 2, "Y": 3, "Z": 4}
DEVICE = tc.Device(vector_bits=256, l2=1 << 20, l3=32 << 20, threads=2, gflops=200.0, gbytes=20.0)


def explained(case: Case, **how: Any) -> Explanation:
    inputs = case.inputs(np.random.default_rng(0))
    how.setdefault("device", DEVICE)
    return tc.explain(case.text, inputs, entry=case.def_name, **how)


def test_mm_reads_as_a_tutorial(golden: Callable[[Path, str], None]) -> None:
    text = str(tc.explain(tc.Source(MM, "mm.tc"), SIZES, device=DEVICE))
    golden(EXPECTED / "mm" / "explain.txt", text)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_text_order_is_legal(case: Case) -> None:
    """The order of the text that is shown respects the dependences."""
    explanation = explained(case, options=tc.Options.preset("naive"))
    assert explanation.trace is not None
    made = explanation.trace.lowering
    if made.scop.statements:
        check_schedule(text_order(made.scop), made.dependences)


def test_str_is_the_stage_asked_for() -> None:
    every = tc.explain(MM, SMALL, device=DEVICE)
    for stage in STAGES:
        asked = replace(every, stage=stage)
        assert str(asked) == every.stages[stage]
        assert timeless(tc.explain(MM, SMALL, stage=stage, device=DEVICE)) == timeless(asked)
    summary, whole = str(every), str(replace(every, stage="all"))
    for stage in STAGES:
        assert every.stages[stage] in whole
        assert (every.stages[stage] in summary) == (stage in SUMMARY)
    with pytest.raises(tc.InputError, match=r"stage='magic': there are 'ranges', .*, 'all'"):
        tc.explain(MM, SMALL, stage="magic")
    with pytest.raises(KeyError):
        every.stages["magic"]


def test_a_device_given_is_all_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> tc.Device:
        raise AssertionError("the host was asked")

    before = tc.explain(MM, SIZES, stage="all", device=DEVICE, backend="c")
    for module in (clike, devices, numba):
        monkeypatch.setattr(module, "host", asked)
    after = tc.explain(MM, SIZES, stage="all", device=DEVICE, backend="c")
    assert timeless(before) == timeless(after)
    emitted = tc.emit(MM, SIZES, device=DEVICE, check=True)
    assert str(emitted).rstrip("\n") == after.stages["source"]
    with pytest.raises(AssertionError, match="the host was asked"):
        tc.explain(MM, SIZES)


def test_passes_are_told_one_by_one() -> None:
    """Each pass is shown with its changes, shortened where they are long."""
    explanation = tc.explain(MM, SIZES, device=DEVICE)
    assert explanation.trace is not None
    results = explanation.trace.lowering.passes
    text = explanation.stages["passes"]
    parts = re.split(r"^(?=\S.*\(\d+\.\d ms, )", text, flags=re.M)[1:]
    context = PassContext(lanes_bits=256, fma=True)
    assert [result.of for result in results] == [p for p in PASSES if p.when(context)]
    assert len(parts) == len(results)
    for part, result in zip(parts, results, strict=True):
        assert part.startswith(f"{result.of.name}: {result.of.summary} (")
        assert ("ms, unchanged)" in part) == (not result.is_changed)
        assert len(part.splitlines()) <= 26
    unrolling = next(p for p in parts if p.startswith("unrolling"))
    assert re.search(r"^  - +unroll for ", unrolling, re.M)
    assert re.search(r"^  [+] +R_acc\[0, 0:8\] = ", unrolling, re.M)
    kernels = [to_text(result.kernel) for result in results]
    assert kernels[-1] in explanation.stages["kernel"]


def test_widths_of_vectors() -> None:
    for bits, lanes in ((128, 4), (256, 8), (512, 16)):
        code = str(tc.emit(MM, SIZES, device=tc.Device(vector_bits=bits)))
        assert f"float32x{lanes}" in code
        assert f"float32x{2 * lanes}" not in code
    assert "float32x" not in str(tc.emit(MM, SIZES, device=tc.Device(vector_bits=0)))


def test_options_and_device_are_checked() -> None:
    wide = tc.Options(mapping=tc.MappingOptions(vector_bits=512))
    with pytest.raises(tc.BackendError, match="the processor has vectors of 256 bits"):
        tc.explain(MM, SMALL, device=DEVICE, options=wide)
    for call in (tc.explain, tc.emit):
        with pytest.raises(
            tc.BackendError, match=r"device= is a tc\.Device or a tc\.Gpu, .* of type str"
        ):
            call(MM, SMALL, device="epyc")  # type: ignore[operator]


def test_options_are_told() -> None:
    options = tc.Options(
        schedule=tc.ScheduleOptions(fusion="min"), mapping=tc.MappingOptions(rows=2, vectors=3)
    )
    stages = tc.explain(MM, SIZES, device=DEVICE, options=options).stages
    assert 'Fusion "min"' in stages["schedule"]
    assert "with MappingOptions(rows=2, vectors=3)" in stages["mapping"]
    assert "6 accumulators" in stages["mapping"]


def test_buffers_hold_halves_as_floats() -> None:
    tmm = "def tmm(half(M,K) A, half(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    sizes, tiles = {"M": 32, "N": 32, "K": 32}, tc.Options(gpu=tc.GpuOptions(tile=(32, 32)))
    text = tc.explain(tmm, sizes, backend="cuda", options=tiles).stages["mapping"]
    held = (
        f"32 x 33 of A, {32 * 33 * 4 / 1024:.3g} KiB, in memory that the threads of a block share"
    )
    assert f"- A_shared: {held}" in text


def test_nothing_to_run() -> None:
    stages = tc.explain("def f(float(N) a) -> (o) { o(i) = a(i) }", {"N": 0}).stages
    assert stages["schedule"] == "There is nothing to run."


@pytest.mark.parametrize(
    ("gflops", "gbytes", "limit"), [(1.0, 1e3, "arithmetic"), (1e6, 1.0, "memory")]
)
def test_the_longer_time_is_the_limit(gflops: float, gbytes: float, limit: str) -> None:
    device = tc.Device(vector_bits=256, gflops=gflops, gbytes=gbytes)
    explanation = tc.explain(MM, SIZES, device=device)
    assert explanation.trace is not None
    text = explanation.stages["estimate"]
    flops, moved = estimate(explanation.trace.kernel).flops, 4 * (2 * 128 * 1024 + 1024 * 1024)
    seconds = max(flops / gflops / 1e9, moved / gbytes / 1e9)
    assert f"{limit} is the limit" in text
    assert f"at best      {seconds * 1e3:.3g} ms" in text
    unknown = tc.explain(MM, SIZES, device=tc.Device()).stages["estimate"]
    assert "unknown" in unknown


def test_doubles_take_twice_as_long() -> None:
    sums = "def f({0}(N,M) X) -> (o) {{ o(i) +=! X(i,j) }}"
    for dtype, rate in (("float", "200 GFLOP/s (float32)"), ("double", "100 GFLOP/s (float64)")):
        text = tc.explain(sums.format(dtype), {"N": 9, "M": 9}, device=DEVICE).stages["estimate"]
        assert rate in text


@pytest.mark.parametrize("missing", [(), ("nvrtc", "sass"), ("sass",)], ids=str)
def test_estimates_tell_machine_code(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a text for GPUs: what its functions need, and their hottest loops, or which package is
    missing to say so."""
    for name in missing:
        module = {"nvrtc": nvrtc, "sass": sass}[name]
        monkeypatch.setattr(module, "is_installed", lambda: False)
    gpu = tc.Gpu.named("sm_90")
    text = tc.explain(MM, SIZES, backend="cuda", device=gpu).stages["estimate"]
    told = " ".join(text[text.index("machine code") :].split())
    if not nvrtc.is_installed():
        expected = "machine code unknown: NVRTC is missing (pip install nvidia-cuda-nvrtc)"
        assert told == expected
        return
    name = MM.split()[1].partition("(")[0]
    assert re.match(rf"machine code {name}_0 for sm_90: \d+ registers, ", told)
    if not sass.is_installed():
        assert told.endswith("nvdisasm is missing (pip install nvidia-cuda-nvdisasm)")
    else:
        assert re.search(r"hottest loop of \d+ instructions: .*\d+ FFMA", told)
    assert "machine code" not in tc.explain(MM, SIZES, device=DEVICE).stages["estimate"]


def test_compiled_explains_its_calls() -> None:
    """With its own backend, options and checks, for arrays or sizes."""
    options = tc.Options(mapping=tc.MappingOptions(rows=2))
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    mm = tc.compile(MM, backend="c", options=options)
    wanted = timeless(tc.explain(MM, [a, b], backend="c", options=options, stage="all"))
    for explanation in (mm.explain(a, b), mm.explain(**SMALL), mm.explain(a, B=b)):
        for stage, text in explanation.stages.items():
            assert timeless(text) in wanted, stage
    turned = mm.explain(np.asfortranarray(a), b)
    assert turned.stages["source"] != mm.explain(a, b).stages["source"]
    gather = "def g(float(N) x, int(M) I) -> (o) { o(i) = x(I(i)) }"
    kernels = [tc.compile(gather, check=c).explain(N=5, M=6).trace for c in (True, False)]
    assert [len(trace.kernel.sites) for trace in kernels if trace is not None] == [1, 0]


def test_the_interpreter_has_ranges_only() -> None:
    for explanation in (
        tc.compile(MM, backend="interpret").explain(**SMALL),
        tc.explain(MM, SMALL, backend="interpret"),
        tc.explain(MM, SMALL, backend="interpret", stage="all"),
    ):
        assert list(explanation.stages) == ["ranges"]
        assert str(explanation) == explanation.stages["ranges"]
        assert explanation.trace is None
    with pytest.raises(tc.BackendError, match="runs the text itself"):
        tc.explain(MM, SMALL, backend="interpret", stage="schedule")
