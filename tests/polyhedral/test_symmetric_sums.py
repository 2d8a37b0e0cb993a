"""Sums of which two indices may be swapped: half of the elements are computed, half copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.polyhedral.cpu.cpu_target import cpu_target
from tc.polyhedral.rewrite.symmetric_sums import halve, is_mirrored
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import in_order, leaves
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.rewrites import assert_consistent, assert_same_results, texts, texts_with_ranges
from tests.support.sizes_of_call import shape

HEAD = "def f(float(K,N) A, float(K,N) B, float(K) w, float(B_,K,N) T, float(K,K) S) -> (C)"
PRODUCT = "C(i,j) +=! A(k,i) * A(k,j)"
SIZES = {"N": 256, "K": 512, "B_": 2}
TWO = Thresholds(mirrored=2)
SMALL = Thresholds(
    mirrored=3, strip=2, order=replace(TWO.order, gain=1.0, moved=0.0, statement=0.0)
)
"""Strips wherever these save a product."""

SYMMETRIC = {
    "rows": PRODUCT,
    "columns": "C(i,j) +=! S(i,k) * S(j,k)",
    "exchanged": "C(i,j) +=! A(k,j) * A(k,i)",
    "a common factor": "C(i,j) +=! w(k) * (A(k,i) * A(k,j))",
    "a sum of two": "C(i,j) +=! A(k,i) * B(k,j) + B(k,i) * A(k,j)",
    "distances": "C(i,j) +=! abs(A(k,i) * A(k,j)) * (A(k,i) + A(k,j))",
    "a batch": "C(b,i,j) +=! T(b,k,i) * T(b,k,j)",
    "a batch between": "C(i,b,j) +=! T(b,k,i) * T(b,k,j)",
    "the diagonal": "C(i,j) +=! i == j ? 0.0 : A(k,i) * A(k,j)",
    "a maximum": "C(i,j) max=! A(k,i) * A(k,j)",
}

STAY = {
    "two tensors": "C(i,j) +=! A(k,i) * B(k,j)",
    "a difference": "C(i,j) +=! A(k,i) - A(k,j)",
    "a factor at one side": "C(i,j) +=! A(k,i) * w(k) * A(k,j)",
    "another index": "C(i,j) +=! A(k,i) * A(k,j) * (i < j ? 1.0 : 2.0)",
    "a value that it goes on from": "C(i,j) = A(0,i) where j in 0:N  C(i,j) += A(k,i) * A(k,j)",
    "half of the elements": "C(i,j) +=! A(k,i) * A(k,j) where i in 0:128",
    "few terms": "C(i,j) +=! A(k,i) * A(k,j) where k in 0:4",
    "no sum": "C(i,j) = A(0,i) * A(0,j)",
}


def mirrored(found: Any) -> list[str]:
    return [s.name for s in found.program.statements if is_mirrored(s.name)]


def test_strips_and_copies() -> None:
    found = halve(shape(f"{HEAD} {{ {PRODUCT} }}", **SIZES), TWO)
    assert texts_with_ranges(found) == [
        "S0.piece0: C(i, j) +=! A(k, i) * A(k, j) i in 0:128, j in 0:256, k in 0:512",
        "S0: C(i, j) +=! A(k, i) * A(k, j) i in 128:256, j in 128:256, k in 0:512",
        "S0.mirrored0: C(i, j) = C(j, i) i in 128:256, j in 0:128",
    ]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_what_is_symmetric(name: str) -> None:
    found = halve(shape(f"{HEAD} {{ {SYMMETRIC[name]} }}", **SIZES), TWO)
    assert mirrored(found) == ["S0.mirrored0"]
    assert_consistent(found)


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    shaped = shape(f"{HEAD} {{ {STAY[name]} }}", **SIZES)
    assert halve(shaped, TWO) is shaped
    shaped = shape(f"{HEAD} {{ {PRODUCT} }}", **SIZES)
    assert halve(shaped, Thresholds()) is shaped


def test_sums_of_halves_stay() -> None:
    shaped = shape(f"{HEAD.replace('float', 'half')} {{ {PRODUCT} }}", **SIZES)
    assert halve(shaped, TWO) is shaped


def test_an_epilogue_is_part_of_the_strips() -> None:
    text = f"{HEAD} {{ t(i,j) +=! A(k,i) * A(k,j)  C(x,y) = x == y ? 1.0 : t(x,y) / K }}"
    found = halve(shape(text, **SIZES), TWO)
    epilogue = "C(x, y) = x == y ? 1.0 : C(x, y) / K"
    assert texts(found) == [
        "S0.piece0: C(i, j) +=! A(k, i) * A(k, j)",
        f"S1.piece0: {epilogue}",
        "S0: C(i, j) +=! A(k, i) * A(k, j)",
        f"S1: {epilogue}",
        "S1.mirrored0: C(x, y) = C(y, x)",
    ]


@pytest.mark.parametrize("epilogue", ["t(x,y) * A(0,x)", "x < y ? t(x,y) : 0", "t(x,y) - t(y,x)"])
def test_other_epilogues_follow_the_copies(epilogue: str) -> None:
    text = f"{HEAD} {{ t(i,j) +=! A(k,i) * A(k,j)  C(x,y) = {epilogue} }}"
    found = halve(shape(text, **SIZES), TWO)
    names = [s.name for s in found.program.statements]
    assert names == ["S0.piece0", "S0", "S0.mirrored0", "S1"]


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    """Normal numbers, some of which are infinities, NaN and zeros of both signs."""
    found = rng.standard_normal(shape, dtype=np.float32)
    odd = rng.integers(0, 40, shape)
    for value, number in enumerate((np.inf, -np.inf, np.nan, 0.0, -0.0)):
        found[odd == value] = number
    return found


@pytest.mark.parametrize("name", SYMMETRIC)
def test_results_are_those_of_the_program(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for extent in (3, 6, 7):
        shaped = shape(f"{HEAD} {{ {SYMMETRIC[name]} }}", N=extent, K=6, B_=2)
        found = halve(shaped, SMALL)
        assert mirrored(found)
        sizes = {"A": (6, extent), "B": (6, extent), "w": (6,), "T": (2, 6, extent), "S": (6, 6)}
        arrays = {n: numbers(rng, *own) for n, own in sizes.items()}
        assert_same_results(shaped, found, arrays)


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("extent", [257, 320])
def test_calls(backend: Any, extent: int) -> None:
    """The result is symmetric to the bit, and within the bound of the interpreter's."""
    text = "def f(float(K,N) A) -> (C) { t(i,j) +=! A(k,i) * A(k,j)  C(i,j) = t(i,j) / K }"
    a = np.random.default_rng(1).standard_normal((300, extent), dtype=np.float32)
    a[0, 3], a[1, 5], a[:, 7] = np.inf, np.nan, -0.0
    compiled = tc.compile(text, backend=backend)
    found = np.asarray(compiled(a))
    assert found.tobytes() == np.ascontiguousarray(found.T).tobytes()
    assert_within(found, tc.interpret(text, a), tc.error_bound(text, a))


def test_copies_share_no_loops_and_nothing_is_filled() -> None:
    text = "def f(float(K,N) A) -> (C) { t(i,j) +=! A(k,i) * A(k,j)  C(i,j) = t(i,j) / K }"
    lowering = trace_lowering(
        shape(text, N=512, K=600), {}, device=Device(threads=2), initial=frozenset(), check=False
    )
    parts = [[*leaves(part)] for part in in_order(lowering.mapped.tree)]
    copies = [names for names in parts if any(map(is_mirrored, names))]
    assert [len(names) for names in copies] == [1, 1, 1]
    assert not any(name.endswith(".zero") for names in parts for name in names)


def test_processors_have_strips() -> None:
    assert cpu_target(Device()).rewriting.mirrored == 4
