"""Dimensions that become two where sums divide subscripts: which do, and that values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.dtypes import INT64
from tc.polyhedral.rewrite.dimensions import divide_dimensions
from tc.semantics.program import Extent, walk
from tests.support.bounds import as_tuple, assert_computes
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked
from tests.support.ptx.texts import run_text
from tests.support.residue_programs import drawn
from tests.support.rewrites import (
    assert_same_results,
    changed_of_table,
    texts_with_ranges,
)
from tests.support.sizes_of_call import shape

GROUPED = "def f(float(H,T,D) q, float(G,U,D) k) -> (s) { s(h,t,u) +=! q(h,t,d) * k(h/3,u,d) }"
TRANSPOSED = """def f(float(C,X,Y) a, float(C,M,2,3) k) -> (o) {
  o(m,x,y) +=! a(c,x/2,y/3) * k(c,m,x%2,y%3) where x in 0:2*X, y in 0:3*Y
}"""
FOLLOWED = """def f(float(H,D) q, float(G,U,D) k, float(H) w) -> (float(H,U) s, m, e) {
  s(h,u) +=! q(h,d) * k(h/3,u,d)
  m(a) max=! s(a,u)
  e(a,u) = exp(s(a,u) - m(a)) * w(a)
}"""
SHAPES: dict[str, tuple[str, dict[str, int], list[str], dict[str, tuple[int, ...]]]] = {
    "a dimension of an output": (
        GROUPED,
        {"H": 12, "T": 5, "D": 7, "G": 4, "U": 6},
        [
            "S0: s(h_div, h, t, u) +=! q(3 * h_div + h, t, d) * k(h_div, u, d)"
            " h_div in 0:4, h in 0:3, t in 0:5, u in 0:6, d in 0:7",
        ],
        {"q": (12, 5, 7), "k": (4, 6, 7), "s": (4, 3, 5, 6)},
    ),
    "two dimensions, by quotients and remainders": (
        TRANSPOSED,
        {"C": 3, "X": 4, "Y": 5, "M": 2},
        [
            "S0: o(m, x_div, x, y_div, y) +=! a(c, x_div, y_div) * k(c, m, x, y)"
            " m in 0:2, x_div in 0:4, x in 0:2, y_div in 0:5, y in 0:3, c in 0:3",
        ],
        {"a": (3, 4, 5), "k": (3, 2, 2, 3), "o": (2, 4, 2, 5, 3)},
    ),
    "what else touches it": (
        FOLLOWED,
        {"H": 12, "D": 7, "G": 4, "U": 6},
        [
            "S0: s(h_div, h, u) +=! q(3 * h_div + h, d) * k(h_div, u, d)"
            " h_div in 0:4, h in 0:3, u in 0:6, d in 0:7",
            "S1: m(a_div, a) max=! s(a_div, a, u) a_div in 0:4, a in 0:3, u in 0:6",
            "S2: e(a_div, a, u) = exp(s(a_div, a, u) - m(a_div, a)) * w(3 * a_div + a)"
            " a_div in 0:4, a in 0:3, u in 0:6",
        ],
        {"q": (12, 7), "k": (4, 6, 7), "w": (12,), "s": (4, 3, 6), "m": (4, 3), "e": (4, 3, 6)},
    ),
    "a variable of the sum": (
        "def f(float(X,M) a, float(2) k) -> (o) { o(m) +=! a(x/2,m) * k(x%2) where x in 0:2*X }",
        {"X": 5, "M": 3},
        ["S0: o(m) +=! a(x_div, m) * k(x) m in 0:3, x_div in 0:5, x in 0:2"],
        {"a": (5, 3), "k": (2,), "o": (3,)},
    ),
}
STAY = {
    "no sum": "def f(float(G,U) k) -> (s) { s(h,u) = k(h/3,u) where h in 0:12 }",
    "a range that is no multiple": (
        "def f(float(G,D) k) -> (s) { s(h) +=! k(h/3,d) where h in 0:11 }"
    ),
    "a range that begins elsewhere": (
        "def f(float(G,D) k) -> (float(12) s) { s(h) +=! k(h/3,d) where h in 1:12 }"
    ),
    "one period alone": "def f(float(G,D) k) -> (s) { s(h) +=! k(h/3,d) where h in 0:3 }",
    "a dimension that is no multiple": (
        "def f(float(G,D) k) -> (float(13) s) { s(h) +=! k(h/3,d) where h in 0:12 }"
    ),
    "quotients that are left": (
        "def f(float(G,D) k, float(4) w) -> (s) { s(h) +=! k(h/3,d) * w(h/3%2) where h in 0:12 }"
    ),
    "a dimension that is read between": (
        "def f(float(G,D) k) -> (s, t) {\n"
        "  s(h) +=! k(h/3,d) where h in 0:12\n"
        "  t(i) = s(i+1) where i in 0:11\n}"
    ),
    "only a condition divides": (
        "def f(float(12,D) k) -> (s) { s(h) +=! h % 3 == 0 ? k(h,d) : 0.0 }"
    ),
}


def inputs_of(name: str) -> dict[str, Any]:
    text, sizes, _, _ = SHAPES[name]
    rng, program, shapes = np.random.default_rng(0), checked(text), shape(text, **sizes).shapes
    return {
        each: rng.normal(size=shapes[each]).astype(program.tensors[each].dtype.numpy)
        for each in program.inputs
    }


@pytest.mark.parametrize("name", SHAPES)
def test_what_becomes_two(name: str) -> None:
    text, sizes, statements, shapes = SHAPES[name]
    found = divide_dimensions(shape(text, **sizes))
    assert texts_with_ranges(found) == statements
    assert found.shapes == shapes
    original, given = shaped_with(text, inputs_of(name))
    assert_same_results(original, found, given)


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    program = shape(STAY[name], G=4, D=5, U=6)
    assert divide_dimensions(program) is program


def test_what_is_tested_at_run_time_stays() -> None:  # rule G7
    text = "def f(float(G,D) k, int32(D) i) -> (s) { s(h) +=! k(h/3,i(d)) where h in 0:12 }"
    program = shape(text, G=4, D=5)
    assert program.statements[0].checked
    assert divide_dimensions(program) is program


def test_extents_of_tensors_in_other_dimensions_are_numbers() -> None:
    text = """def f(float(H,D) q, float(G,D) k) -> (s, t) {
      s(h) +=! q(h,d) * k(h/3,d)
      t(i) = pad(s(i), 0) where i in 0:12
    }"""
    program = shape(text, H=12, D=3, G=4)
    extents = [n for s in program.program.statements for n in walk(s.rhs) if isinstance(n, Extent)]
    assert extents == [Extent("s", 0, INT64, span=extents[0].span)]
    found = divide_dimensions(program)
    assert found.shapes["t"] == (4, 3)
    assert not any(isinstance(n, Extent) for s in found.program.statements for n in walk(s.rhs))
    arrays = {"q": np.ones((12, 3), np.float32), "k": np.ones((4, 3), np.float32)}
    original, given = shaped_with(text, arrays)
    assert_same_results(original, divide_dimensions(original), given)


def test_programs_of_the_table() -> None:
    assert set(changed_of_table(divide_dimensions)) <= {"upsampled"}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    text, given = drawn(seed)
    program, arrays = shaped_with(text, given)
    found = divide_dimensions(program)
    if found is not program:
        assert_same_results(program, found, arrays)


@pytest.mark.parametrize("name", SHAPES)
def test_on_the_machine(name: str) -> None:
    text, inputs = SHAPES[name][0], inputs_of(name)
    found = tc.emit(text, list(inputs.values()), backend="cuda", device=tc.Gpu.named("sm_90"))
    failure, arrays = run_text(found, inputs)
    assert failure is None
    expected = as_tuple(tc.interpret(text, list(inputs.values())))
    outputs = zip(checked(text).outputs, expected, strict=True)
    assert_computes(
        text, list(inputs.values()), tuple(arrays[o].reshape(e.shape) for o, e in outputs)
    )
