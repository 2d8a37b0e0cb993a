"""The kernels of "Tensor Comprehensions" in SaC's notation compute what their texts of tc do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tc
from bench import sac_kernels
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls

SMALL = [
    cs.tmm(5, 7, 3),
    cs.tbmm(2, 5, 7, 3),
    ls.gconv(2, 3, 2, 4, 5, 6),
    ls.lut1(10, 5, 3, 4),
    ls.lut2(10, 5, 3, 4),
    ls.mlp1(5, 7, 3),
    ls.mlp3(5, 7, 6, 4, 3),
]


def test_all_families_are_here() -> None:
    assert [kernel.family for kernel in SMALL] == list(sac_kernels.TEXTS)
    assert {kernel.family for kernel in sac_kernels.KERNELS} == set(sac_kernels.TEXTS)


@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_both_texts_compute_what_numpy_does(kernel: sac_kernels.Kernel) -> None:
    case = kernel.case()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)  # a size and a tensor of one name
        runs = sac_kernels.both(kernel, case)
    for run in runs.values():
        case.reset()
        run()
        sac_kernels.agree(kernel, case, case.expected())


def test_a_wrong_result_ends_the_benchmark() -> None:
    case = SMALL[0].case()
    sac_kernels.both(SMALL[0], case)["sac"]()
    case.outputs[0][0, 0] += 1
    with pytest.raises(SystemExit, match=r"tmm .*: results differ"):
        sac_kernels.agree(SMALL[0], case, case.expected())
    case.outputs[0][0, 0] = np.nan
    with pytest.raises(SystemExit, match="results differ"):
        sac_kernels.agree(SMALL[0], case, case.expected())


@pytest.mark.parametrize("kernel", [ls.mlp1(5, 7, 3), ls.gconv(2, 3, 2, 4, 5, 6)])
def test_sums_take_no_array_of_their_own(kernel: sac_kernels.Kernel) -> None:
    case = kernel.case()
    lowered = sac_kernels.function_of(kernel).lowered(*case.inputs)
    assert "total(" in lowered.text
    assert "total" not in lowered.source(*case.inputs)


@pytest.mark.parametrize("one_thread", [False, True])
def test_the_page_has_the_mean_of_the_ratios(
    one_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sac_kernels, "seconds_of_rounds", lambda *_, **__: {"sac": [2e-3], "tc": [1e-3]}
    )
    rows = sac_kernels.measured(0.1, one_thread=one_thread, kernels=SMALL[:2])
    assert [row[1:] for row in rows] == [[2.0, 1.0, 2.0]] * 2
    page = sac_kernels.page(sac_kernels.describe((), 2), rows, one_thread=one_thread)
    assert "Geometric mean of the ratios: 2.000; the largest: 2.000." in page
