"""The benchmark of SaC's notation compares programs that compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tc.sac
from bench import sac
from bench.sac_cases import CASES, Case


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loops_compute_what_numpy_does(case: Case) -> None:
    inputs = case.inputs(np.random.default_rng(1))
    sac.agree(case, case.loops(*inputs), case.with_numpy(*inputs))


@pytest.mark.parametrize("name", ["padding", "softmax", "matrix product, dots"])
def test_texts_compute_what_numpy_does(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    inputs = case.inputs(np.random.default_rng(1))
    sac.agree(case, sac.compiled(case.text, case.entry)(*inputs), case.with_numpy(*inputs))
    if case.text_of_tc:
        sac.agree(case, tc.compile(case.text_of_tc)(*inputs), case.with_numpy(*inputs))


def test_a_wrong_result_ends_the_benchmark() -> None:
    case = next(case for case in CASES if case.name == "padding")
    inputs = case.inputs(np.random.default_rng(1))
    with pytest.raises(SystemExit, match="padding: results differ"):
        sac.agree(case, case.loops(*inputs) + 1, case.with_numpy(*inputs))


def test_sizes_are_those_of_the_seed() -> None:
    for case in CASES:
        first, again, other = (
            sac.shapes_of(case.inputs(np.random.default_rng(seed))) for seed in (1, 1, 2)
        )
        assert first == again != other


def test_rows_of_others_that_are_slower_have_ratios_above_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = next(case for case in CASES if case.name == "padding")
    numbers = {"sac": 2.0, "numba": 3.0, "numpy": 1.0}
    monkeypatch.setattr(sac, "CASES", [replace(case, text_of_tc=None)])
    monkeypatch.setattr(sac, "measured", lambda runs, _: {name: numbers[name] for name in runs})
    rows = sac.steady(1, 0.1)
    assert [row[2:] for row in rows] == [[2e3, 3e3, 1e3, None, 1.5, 0.5, None]] * sac.SIZES


def test_a_chain_of_relaxations_is_one_text() -> None:
    a = np.random.default_rng(0).random((5, 6), np.float32)
    wanted = CASES[0].with_numpy(CASES[0].with_numpy(a))
    found = tc.sac.interpret(sac.chain(2), a, entry="chain")
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
