"""1.2: a choice between functions on a variable of the left-hand side computes one side of it."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.backends import registry
from tc.kernel import ir
from tc.kernel.walk import every_statement
from tests.support.bounds import assert_computes

WIDE = tc.Device(vector_bits=512, vector_registers=32)
P, H = 24, 40
SIN, COS, EXP = "sin(t(p) * w(h))", "cos(t(p) * w(h))", "exp(t(p) * w(h))"
CHOICES = {
    "last": f"o(p,h,k) = k == 0 ? {SIN} : {COS} where k in 0:2",
    "between": f"o(p,k,h) = k == 0 ? {SIN} : {COS} where k in 0:2",
    "first": f"o(k,p,h) = k != 1 ? {SIN} : {COS} where k in 0:2",
    "three": f"o(p,h,k) = k == 0 ? {SIN} : k < 2 ? {COS} : {EXP} where k in 0:3",
    "half": f"o(p,h) = h < {H // 2} ? {SIN} : {COS}",
    "a part of a term": f"o(p,h,k) = t(p) + w(h) * (k > 0 ? {SIN} : {COS}) where k in 0:2",
    "odd": f"o(p,d) = d % 2 == 0 ? {SIN} : {COS} where d in 0:2*H".replace("w(h)", "w(d/2)"),
    "shifted": f"o(p,k) = k < H ? {SIN} : {COS} where k in 0:2*H".replace("(h)", "(k%H)"),
}
SIGNATURE = "def f(float(P) t, float(H) w) -> (o)"


def due(name: str, t: np.ndarray, w: np.ndarray) -> np.ndarray:
    """By numpy, in doubles."""
    x = t.astype(float)[:, None] * w.astype(float)
    sin, cos = np.sin(x), np.cos(x)
    match name:
        case "last":
            return np.stack([sin, cos], -1)
        case "between":
            return np.stack([sin, cos], 1)
        case "first":
            return np.stack([sin, cos], 0)
        case "three":
            return np.stack([sin, cos, np.exp(x)], -1)
        case "half":
            return np.where(np.arange(H) < H // 2, sin, cos)
        case "a part of a term":
            pair = np.stack([cos, sin], -1)
            return t.astype(float)[:, None, None] + w.astype(float)[:, None] * pair
        case "odd":
            return np.stack([sin, cos], -1).reshape(P, 2 * H)
        case _:
            return np.concatenate([sin, cos], -1)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["numba", "c", "interpret"])
@pytest.mark.parametrize("name", CHOICES)
def test_each_side_where_it_is_chosen(name: str, backend: str) -> None:
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    numbers = np.random.default_rng(0)
    t, w = (numbers.standard_normal(n).astype(np.float32) for n in (P, H))
    text = f"{SIGNATURE} {{ {CHOICES[name]} }}"
    found = tc.compile(text, backend=backend)(t, w)
    assert_computes(text, [t, w], found, due(name, t.astype("float64"), w))


@pytest.mark.parametrize("name", CHOICES)
def test_no_element_is_computed_twice(name: str) -> None:
    """No statement is left that has both functions."""
    trace = tc.explain(f"{SIGNATURE} {{ {CHOICES[name]} }}", P=P, H=H)
    text = str(trace.stages["rewrite"])
    lines = [line for line in text.splitlines() if "sin(" in line or "cos(" in line]
    assert lines, text
    assert not [line for line in lines if "sin(" in line and "cos(" in line]


def stores(text: str, **sizes: int) -> list[ir.Store]:
    kernel = tc.emit(text, sizes, device=WIDE).kernel
    return [s for s in every_statement(kernel) if isinstance(s, ir.Store) and s.buffer == "o"]


@pytest.mark.parametrize("name", ["last", "three", "odd"])
def test_elements_next_to_each_other_are_stored_together(name: str) -> None:
    """What two or three statements compute for every second or third element are whole vectors."""
    found = stores(f"{SIGNATURE} {{ {CHOICES[name]} }}", P=P, H=64)
    assert found
    for store in found:
        index = store.indices[-1]
        assert isinstance(index, ir.Ramp)
        assert index.step == 1


@pytest.mark.parametrize(
    "line",
    [
        "o(i) = i == 0 ? t(i) : t(i) - 1",  # cheap sides: loops of the kernel are cut
        "o(i) = i < 5 ? 0 : exp(t(i))",  # one side: nothing is computed twice
        "o(i) = t(i) < 0 ? exp(t(i)) : log(t(i))",  # of what is read
    ],
)
def test_other_choices_are_left_as_they_are(line: str) -> None:
    trace = tc.explain(f"def f(float(P) t) -> (o) {{ {line} }}", P=64)
    assert "The program is taken as written." in str(trace.stages["rewrite"])
