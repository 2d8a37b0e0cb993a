"""Long sums with few results are split over blocks: partial sums, then the sums of these."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.support.pipeline import evaluate_kernel

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
MLP1 = """def MLP1(float(B,M) I, float(O,M) W1, float(O) B1) -> (O1) {
  O1(b,n) = B1(n)
  O1(b,n) += I(b,m) * W1(n,m)
  O1(b,n) = fmaxf(O1(b,n), 0)
}"""
H100 = tc.Gpu.named("sm_90")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (TMM, {"M": 128, "N": 1024, "K": 1024}),
        (TMM, {"M": 127, "N": 1021, "K": 1009}),
        (MLP1, {"B": 128, "M": 2000, "O": 128}),
    ],
)
def test_all_multiprocessors_have_work(text: str, sizes: dict[str, int]) -> None:
    launches = tc.emit(text, sizes, backend="cuda", device=H100).launches
    assert len(launches) > 1
    assert max(launch.blocks for launch in launches) >= 120


@pytest.mark.parametrize(
    "sizes",
    [
        {"M": 1024, "N": 1024, "K": 1024},  # there are blocks enough
        {"M": 128, "N": 1024, "K": 500},  # parts would be short
    ],
)
def test_other_sums_are_one_launch(sizes: dict[str, int]) -> None:
    assert len(tc.emit(TMM, sizes, backend="cuda", device=H100).launches) == 1


@pytest.mark.parametrize("steps", [512, 601, 1000])
def test_sums_are_right(steps: int) -> None:
    """With steps that are left behind the last part, too."""
    rng = np.random.default_rng(steps)
    inputs = {
        "I": rng.random((7, steps), np.float32),
        "W1": rng.random((5, steps), np.float32) - np.float32(0.5),
        "B1": rng.random(5, np.float32),
    }
    (found,) = evaluate_kernel(MLP1, inputs, device=tc.Gpu(processors=2)).values()
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    expected = np.maximum(wide["I"] @ wide["W1"].T + wide["B1"], 0)
    bound = tc.error_bound(MLP1, *inputs.values())
    assert (abs(found - expected) <= bound).all()


LUT = "def LUT(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"


@pytest.mark.parametrize("rows", [61, 128, 1000])
def test_gathered_rows_are_for_all_multiprocessors(rows: int) -> None:
    """A block has fewer rows of results where blocks of more would be few."""
    inputs = [np.zeros((1000, 64), np.float32), np.zeros((rows, 50), np.int32)]
    (launch,) = tc.emit(LUT, inputs, backend="cuda", device=H100).launches
    assert launch.blocks >= min(2 * rows, H100.processors)
