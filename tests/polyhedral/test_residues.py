"""Quotients in subscripts that become linear: what is cut, what is not, and the same bits."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

from tc.device import Device
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Kernel
from tc.kernel.printer import to_text
from tc.polyhedral.rewrite.residues import linearise
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import Binary, ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.lowering import lower
from tests.support.rewrites import (
    assert_consistent,
    changed_of_table,
    reshaped,
    run_kernel,
    runnable,
    texts_with_ranges,
)
from tests.support.sizes_of_call import shape

EAGER = Thresholds(period=2, residues=0)


def assert_same_bits(program: ShapedProgram, found: ShapedProgram, arrays: Any) -> None:
    assert_consistent(found)
    results = [run_kernel(found, reshaped(found, arrays), {})]
    if not any(isinstance(n, Binary) for s in found.program.statements for n in s.subscripts):
        results.append(interpret(found, arrays, {}))
    for name, want in interpret(program, arrays, {}).items():
        for got in results:
            np.testing.assert_array_equal(got[name].reshape(want.shape), want)


CUT = {
    "a rotation by half": (
        "def f(float(T,D) x) -> (o) { o(t,d) = d < D/2 ? -x(t,(d + D/2) % D) : x(t,(d + D/2) % D)"
        " where t in 0:T, d in 0:D }",
        [
            "S0.piece0: o(t, d) = -x(t, d + 10) t in 0:3, d in 0:10",
            "S0: o(t, d) = x(t, d - 10) t in 0:3, d in 10:20",
        ],
    ),
    "a Kronecker product": (
        "def f(float(A) x, float(T) y) -> (z) { z(i) = x(i/T) * y(i%T) where i in 0:A*T }",
        ["S0: z(3 * i_div + i) = x(i_div) * y(i) i_div in 0:8, i in 0:3"],
    ),
    "backwards": (
        "def f(float(D) x) -> (o) { o(d) = x((2*D - 1 - d) % D) where d in 0:D }",
        ["S0: o(d) = x(-d + 19) d in 0:20"],
    ),
    "with a step": (
        "def f(float(D) x) -> (o) { o(d) = x((2*d) % D) where d in 0:D }",
        ["S0.piece0: o(d) = x(2 * d) d in 0:10", "S0: o(d) = x(2 * d - 20) d in 10:20"],
    ),
    "in a sum": (
        "def f(float(T,D) x, float(D) w) -> (s) { s(t) +=! x(t,d) * w((d + 5) % D) }",
        [
            "S0.piece0: s(t) +=! x(t, d) * w(d + 5) t in 0:3, d in 0:15",
            "S0: s(t) += x(t, d) * w(d - 15) t in 0:3, d in 15:20",
        ],
    ),
    "with another variable": (
        "def f(float(A,T) x) -> (o) { o(a,i) = x(a, (T*a + i) % T) where a in 0:A, i in 0:T }",
        ["S0: o(a, i) = x(a, i) a in 0:8, i in 0:3"],
    ),
    "beyond the edges": (
        "def f(float(D) x) -> (o) { o(d) = x(min(max(d - 1, 0), D - 1)) where d in 0:D+2 }",
        [
            "S0.piece0: o(d) = x(0) d in 0:1",
            "S0.piece1: o(d) = x(d - 1) d in 1:20",
            "S0: o(d) = x(D - 1) d in 20:22",
        ],
    ),
    "a mirror image": (
        "def f(float(D) x) -> (o) { o(d) = x(min(max(d - 1, 1 - d), 2*D - 2 - max(d - 1, 1 - d)))"
        " where d in 0:D+2 }",
        [
            "S0.piece0: o(d) = x(1 - d) d in 0:1",
            "S0.piece1: o(d) = x(d - 1) d in 1:20",
            "S0: o(d) = x(2 * D - 2 - (d - 1)) d in 20:22",
        ],
    ),
    "a mirror image of a sum": (
        "def f(float(T,D) x, float(T) w) -> (o) { o(t,d) +=! w(k) * x(t, max(d - k, k - d))"
        " where d in 0:D }",
        [
            "S0.piece0: o(t, d) +=! w(k) * x(t, max(d - k, k - d)) t in 0:3, d in 0:2, k in 0:3",
            "S0: o(t, d) +=! w(k) * x(t, d - k) t in 0:3, d in 2:20, k in 0:3",
        ],
    ),
    "comparisons": (
        "def f(float(D) x) -> (o) { o(d) = d >= 7 ? x((d + 13) % D) : 0.0 where d in 0:D }",
        ["S0.piece0: o(d) = 0.0 d in 0:7", "S0: o(d) = x(d - 7) d in 7:20"],
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_cut(name: str) -> None:
    text, expected = CUT[name]
    program = shape(text, T=3, D=20, A=8)
    found = linearise(program, EAGER)
    assert texts_with_ranges(found) == expected
    rng = np.random.default_rng(3)
    inputs = program.program.inputs
    arrays = {n: rng.integers(-9, 9, program.shapes[n]).astype(np.float32) for n in inputs}
    assert_same_bits(program, found, arrays)


NOT_CUT = {
    "no quotient": "def f(float(D) x) -> (o) { o(d) = x(d) }",
    "too many pieces": "def f(float(D) x) -> (o) { o(d) = x(7*d % D) where d in 0:D }",
    "reads its target": "def f(float(D) x) -> (o) { o(d) = x(d)  o(d) = o(d) + x((d + D/2) % D) }",
    "no piece is most of the range": "def f(float(D) x) -> (o) { o(d) = x(max(d - 10, 10 - d))"
    " where d in 0:D }",
    "edges of short rows": "def f(float(A) x) -> (o) { o(a) = x(min(a + 1, A - 1))"
    " where a in 0:A }",
    "edges of columns": "def f(float(D,T) x) -> (o) { o(d,t) = x(max(d - 1, 0), t)"
    " where d in 0:D }",
    "not along a last subscript": "def f(float(D,T) x) -> (o) { o(d,t) = x((d + 10) % D, t)"
    " where d in 0:D }",
    "checked": "def f(float(D) x, int(D) i) -> (o) { o(d) = x(i(d)) * x((d + 10) % D) }",
    "of data": "def f(float(D) x, int32 k) -> (o) { o(d) = x((d + k) % D) where d in 0:D }",
}


@pytest.mark.parametrize("name", NOT_CUT)
def test_not_cut(name: str) -> None:
    sizes: dict[str, Any] = {"D": 20, "T": 3, "A": 8}
    if name == "of data":
        program, _ = shaped_with(NOT_CUT[name], {"x": np.zeros(20, np.float32), "k": np.int32(27)})
        assert len(linearise(program, EAGER).statements) == 2  # what is known is a constant
        return
    program = shape(NOT_CUT[name], **sizes)
    assert linearise(program, EAGER) is program


def drawn_subscript(rng: random.Random, size: int, depth: int = 2) -> str:
    """A subscript of `min`, `max` and `abs` of sums of i and k."""
    if depth == 0:
        factor = rng.choice(("i", "i", "2*i", "-i", "3", "i + k", "k", f"{size} - i"))
        return f"({factor} + {rng.randint(-4, 4)})"
    one, other = (drawn_subscript(rng, size, rng.randrange(depth)) for _ in range(2))
    form = rng.choice(("min({}, {})", "max({}, {})", "({} - {})", "max({}, -{})", "abs({} - {})"))
    return form.format(one, other)


@pytest.mark.parametrize("seed", range(60))
def test_edges_of_generated_subscripts(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(18, 40)
    inner = " + ".join(
        f"x(j, min(max({drawn_subscript(rng, size)}, 0), N - 1))" for _ in range(rng.randint(1, 2))
    )
    op = rng.choice(("+=!", "max=!", "min=!"))
    text = f"def f(float(M,N) x) -> (o) {{ o(j,i) {op} {inner} where i in 0:{size}, k in 0:3 }}"
    program = shape(text, M=2, N=rng.randint(15, 40))
    found = linearise(program, EAGER)
    arrays = {"x": np.random.default_rng(seed).integers(-9, 9, program.shapes["x"]).astype("f")}
    assert_same_bits(program, found, arrays)


def test_some_generated_subscripts_are_cut() -> None:
    """The test before this one tests something."""
    found = []
    for seed in range(60):
        rng = random.Random(seed)
        inner = drawn_subscript(rng, 30)
        text = (
            f"def f(float(N) x) -> (o) {{ o(i) +=! x(min(max({inner}, 0), N - 1)) where k in 0:3 }}"
        )
        text = text.replace("where", "where i in 0:30,")
        program = shape(text, N=25)
        found.append(linearise(program, EAGER) is not program)
    assert sum(found) > 10


HEAD = "def f(float(A,B) x, float(N,N) y, float(T) t) -> (z)"


@pytest.mark.parametrize(
    ("text", "least"),
    [
        (CUT["a Kronecker product"][0], 2),
        (f"{HEAD} {{ z(n,i) = x(n/3, i/T) where n in 0:9, i in 0:B*T }}", 2),
        (f"{HEAD} {{ z(i) +=! x(k, i/T) * t(i % T) where i in 0:B*T }}", 16),
        (f"{HEAD} {{ z(n,i) = y(n, i % T * A + i / T) where i in 0:A*T }}", 16),
        (f"{HEAD} {{ z(n,i) = y(i % T * A + i / T, n) where i in 0:A*T }}", 16),
    ],
)
def test_short_periods_stay(text: str, least: int) -> None:
    """Short periods stay, except the periods whose vectors are one load each."""
    for period in (2, 3, 15, 16):
        program = shape(text, T=period, A=8, B=32, N=160)
        found = linearise(program, Thresholds(residues=0))
        assert (found is not program) == (period >= least)
        assert linearise(program, Thresholds(pieces=0)) is program


def test_halves_are_summed_in_one_piece() -> None:
    """What is stored between would be rounded (Y8)."""
    text = CUT["in a sum"][0].replace("float(", "half(").replace("-> (s)", "-> (half(T) s)")
    program = shape(text, T=3, D=20)
    assert linearise(program, EAGER) is program


def drawn(rng: random.Random) -> tuple[str, dict[str, np.ndarray]]:
    """A program with quotients of one or two variables, all within range."""
    m, n = rng.choice((3, 4, 5, 8, 12)), rng.choice((1, 2, 3, 4))
    extent = rng.choice((m * n, m * n + 1, 7))

    def index() -> str:
        factor, shift = (
            rng.choice((1, 1, 1, 1, 2, -1)),
            rng.choice((0, 0, 0, rng.randrange(-9, 30))),
        )
        inner = f"{factor}*i + {shift}" + rng.choice(("", "", "", "", f" + {2 * m}*j", " + j"))
        return rng.choice((f"({inner}) % {m}", f"(({inner}) / {m}) % 8", f"({inner}) % {2 * m}"))

    condition = (
        f"i {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {rng.randrange(-1, extent + 1)}"
    )
    value = f"x({index()}) + y(j, {index()})"
    value = f"{condition} ? {value} : x({index()})" if rng.random() < 0.5 else value
    left, op = rng.choice((("o(j,i)", "="), ("o(i)", "+=!"), ("o(j)", "max=!"), ("o(j)", "+=!")))
    begin = rng.choice((0, 0, 0, 2))
    text = f"where i in {begin}:{begin + extent}, j in 0:3"
    rng_data = np.random.default_rng(rng.randrange(1 << 30))
    arrays = {
        "x": rng_data.integers(-9, 9, 40).astype(np.float32),
        "y": rng_data.integers(-9, 9, (3, 40)).astype(np.float32),
    }
    return f"def f(float(40) x, float(3,40) y) -> (o) {{ {left} {op} {value} {text} }}", arrays


@pytest.mark.parametrize("seed", range(40))
def test_random_quotients(seed: int) -> None:
    """Sums of small whole numbers are exact in any order."""
    text, given = drawn(random.Random(seed))
    program, arrays = shaped_with(text, given)
    assert_same_bits(program, linearise(program, EAGER), arrays)


def test_random_quotients_are_cut() -> None:
    cut = 0
    for seed in range(40):
        text, given = drawn(random.Random(seed))
        program, _ = shaped_with(text, given)
        cut += linearise(program, EAGER) is not program
    assert cut > 12


def test_table_of_programs() -> None:
    changed_of_table(lambda program: linearise(program, EAGER))


def test_periods_shorter_than_vectors_are_stored_by_themselves() -> None:
    """j becomes 2*j_div + j, and shares a parallel loop by j_div with the sum: vectors along j have
    lanes of the next j_div, so no tile that is written back whole holds them."""
    text = """def f(double(N) g, double(L,I,K) h) -> (o, s) {
      o(i,m,l) +=! g(m) * h(l,i,k)
      s(m,j) += h(m, m % 2, min(m,4)) - o(min(m,1), min(m,3), j / 2) where j in 0:32
    }"""
    rng = np.random.default_rng(5)
    given = {"g": rng.integers(-9, 9, 4), "h": rng.integers(-9, 9, (17, 2, 5))}
    program, arrays = shaped_with(text, {n: a.astype(float) for n, a in given.items()})
    found = linearise(program, EAGER)
    assert any("2 * j_div + j" in line for line in texts_with_ranges(found))
    g, h = given.values()
    o, m, j = np.einsum("m,lik->iml", g, h), np.arange(17)[:, None], np.arange(32)
    expected = h[m, m % 2, np.minimum(m, 4)] - o[np.minimum(m, 1), np.minimum(m, 3), j // 2]
    got = run_kernel(found, arrays, {})
    np.testing.assert_array_equal(got["o"], o)
    np.testing.assert_array_equal(got["s"], expected)


@pytest.mark.parametrize("bits", [0, 128, 256, 512])
@pytest.mark.parametrize(
    ("period", "periods", "terms"), [(18, 8, 5), (20, 16, 5), (16, 9, 5), (33, 5, 5), (17, 5, 100)]
)
@pytest.mark.parametrize("op", ["+", "max"])
def test_sums_over_periods(op: str, period: int, periods: int, terms: int, bits: int) -> None:
    """i becomes period*i_div + i: a register tile of some of both has gaps, which are elements of
    other tiles, and one of 9 of 17 has the first ones of the next period (with vectors along k).
    They were written too, and the results were wrong."""
    text = f"""def f(double(A,K) x, double(B,K) y) -> (o) {{
      o(i) {op}=! x(i / B, k) * y(i % B, k) where i in 0:A*B
    }}"""
    rng = np.random.default_rng(period)
    shapes = {"x": (periods, terms), "y": (period, terms)}
    given = {name: rng.integers(-9, 9, shape).astype(float) for name, shape in shapes.items()}
    program, arrays = shaped_with(text, given)
    products = given["x"][:, None] * given["y"]
    expected = products.sum(-1) if op == "+" else products.max(-1)
    for threads in (1, 4):
        device = Device(vector_bits=bits, vector_registers=32, threads=threads)
        kernel = lower(program, {}, initial=frozenset(), check=True, device=device)
        buffers = {b.name: np.full(b.shape, 77, b.dtype.numpy) for b in kernel.buffers}
        for name, array in arrays.items():
            buffers[name][...] = np.reshape(array, buffers[name].shape)
        assert evaluate(kernel, buffers) is None
        np.testing.assert_array_equal(buffers["o"].reshape(expected.shape), expected)


def reads(kernel: Kernel) -> str:
    return " ".join(re.findall(r"x\[[^]]*", to_text(kernel)))


def test_lowering_makes_subscripts_linear() -> None:
    """In the whole pipeline: without it, `%` would be in the kernel."""
    program = shape(CUT["a rotation by half"][0], T=3, D=40)
    with_it, without = (
        reads(lower(program, {}, initial=frozenset(), check=True, rewriting=Thresholds(pieces=n)))
        for n in (4, 0)
    )
    assert ["%" in kernel for kernel in (with_it, without)] == [False, True]


@settings(suppress_health_check=list(HealthCheck))
@given(calls())
def test_generated_programs(case: Call) -> None:
    program, arrays = runnable(case)
    expected = interpret(program, arrays, {})
    found = linearise(program, EAGER)
    event("left as written" if found is program else "cut")
    if found is program:
        return
    assert_consistent(found)
    got = run_kernel(found, arrays, {})
    bounds = error_bound(program, arrays, {})
    for name, want in expected.items():
        assert_within(got[name].reshape(want.shape), want, bounds[name])
