"""Statements for each residue class: what they are, when there are none, and the same values."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Ramp, Store
from tc.kernel.walk import every_statement, loads_in
from tc.options import MappingOptions, Options, ScheduleOptions
from tc.polyhedral.rewrite.residues import linearise
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import build_scop
from tc.semantics.program import Binary, walk
from tc.semantics.reference.interpreter import interpret
from tests.support.interpreting import shaped_with
from tests.support.lowering import lower
from tests.support.residue_programs import drawn
from tests.support.rewrites import assert_consistent, reshaped, run_kernel, texts_with_ranges
from tests.support.sizes_of_call import shape

STRIDED = """def f(float(F,W) d, float(F,C,K) k, float(C,X) e) -> (float(C,X) o) {
  o(c,x) +=! pad(d(f,x/2-p) * k(f,c,2*p+x%2), 0) where p in 0:(K+1)/2
}"""
POOLING = """def f(float(N,W,X) x, float(N,H,V) y, float(N,H,V) d) -> (float(N,W,X) o) {
  n(c,h,w) +=! x(c,2*h+i,2*w+j) == y(c,h,w) ? 1 : 0 where i in 0:2, j in 0:2
  o(c,h,w) = pad(x(c,h,w) == y(c,h/2,w/2) ? d(c,h/2,w/2) / n(c,h/2,w/2) : 0, 0)
}"""


CLASSES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a gradient of a strided convolution: 2 and 1 of 3 terms": (
        STRIDED,
        {"F": 5, "W": 9, "C": 2, "K": 3, "X": 19},
        [
            "S0.piece0: o(c, 2 * x_div) +=! 0 <= x_div - p && x_div - p < d.1"
            " ? d(f, x_div - p) * k(f, c, 2 * p) : 0.0"
            " c in 0:2, x_div in 0:10, f in 0:5, p in 0:2",
            "S0: o(c, 2 * x_div + 1) +=! d(f, x_div) * k(f, c, 1) c in 0:2, x_div in 0:9, f in 0:5",
        ],
    ),
    "no term at all": (
        STRIDED,
        {"F": 12, "W": 9, "C": 2, "K": 1, "X": 17},
        [
            "S0.piece0: o(c, 2 * x_div) +=! d(f, x_div) * k(f, c, 0)"
            " c in 0:2, x_div in 0:9, f in 0:12",
            "S0: o(c, 2 * x_div + 1) = 0 c in 0:2, x_div in 0:8",
        ],
    ),
    "what is behind the last window": (
        STRIDED,
        {"F": 5, "W": 5, "C": 2, "K": 2, "X": 12},
        [
            "S0.piece0: o(c, 2 * x_div) +=! d(f, x_div) * k(f, c, 0)"
            " c in 0:2, x_div in 0:5, f in 0:5",
            "S0.piece1: o(c, 2 * x_div + 1) +=! d(f, x_div) * k(f, c, 1)"
            " c in 0:2, x_div in 0:5, f in 0:5",
            "S0.piece2: o(c, 2 * x_div) = 0 c in 0:2, x_div in 5:6",
            "S0: o(c, 2 * x_div + 1) = 0 c in 0:2, x_div in 5:6",
        ],
    ),
    "few terms: the same ranges for all, and the rest": (
        "def f(float(W) d) -> (o) { o(x) = d(x/2) where x in 0:2*W-1 }",
        {"W": 9},
        [
            "S0.piece0: o(2 * x_div) = d(x_div) x_div in 0:8",
            "S0.piece1: o(2 * x_div + 1) = d(x_div) x_div in 0:8",
            "S0: o(2 * x_div) = d(x_div) x_div in 8:9",
        ],
    ),
    "from another element on": (
        "def f(float(W) d, float(V) e) -> (float(V) o) { o(x) = d(x/3) where x in 4:22 }",
        {"W": 9, "V": 30},
        [
            "S0.piece0: o(3 * x_div) = d(x_div) x_div in 2:7",
            "S0.piece1: o(3 * x_div + 1) = d(x_div) x_div in 2:7",
            "S0.piece2: o(3 * x_div + 2) = d(x_div) x_div in 2:7",
            "S0.piece3: o(3 * x_div + 1) = d(x_div) x_div in 1:2",
            "S0.piece4: o(3 * x_div + 2) = d(x_div) x_div in 1:2",
            "S0: o(3 * x_div) = d(x_div) x_div in 7:8",
        ],
    ),
    "a guard, of which one class of the terms is left": (
        "def f(float(W) d, float(K) k) -> (o) {"
        " o(x) +=! (x - i) % 2 == 0 ? d((x - i)/2 + 3) * k(i) : 0 where x in 0:10, i in 0:K }",
        {"W": 9, "K": 5},
        [
            "S0.piece0: o(2 * x_div) +=! d(x_div - i_div + 3) * k(2 * i_div)"
            " x_div in 0:5, i_div in 0:3",
            "S0: o(2 * x_div + 1) +=! d(x_div - i_div + 3) * k(2 * i_div + 1)"
            " x_div in 0:5, i_div in 0:2",
        ],
    ),
    "sums that go on from another statement start from its values plus 0: -0 + 0 is 0": (
        "def f(float(W) d) -> (o) {\n o(x) = 0-d(0) where x in 0:10\n"
        " o(x) += 2*p + x%2 < 3 ? d(x/2 + p) : 0 where p in 0:2\n}",
        {"W": 9},
        [
            "S0.piece0: o(2 * x_div) = 0.0 - d(0) + 0 x_div in 0:5",
            "S1.piece0: o(2 * x_div) += d(x_div + p) x_div in 0:5, p in 0:2",
            "S0: o(2 * x_div + 1) = 0.0 - d(0) + 0 x_div in 0:5",
            "S1: o(2 * x_div + 1) += d(x_div + p) x_div in 0:5, p in 0:1",
        ],
    ),
    "sums that go on from anything else keep their zeros": (
        "def f(float(W) d) -> (o) {\n o(x) = 0-d(0) where x in 0:10  o(x) = o(x) * 2\n"
        " o(x) += 2*p + x%2 < 3 ? d(x/2 + p) : 0 where p in 0:2\n}",
        {"W": 9},
        [
            "S0: o(x) = 0-d(0) where x in 0:10 x in 0:10",
            "S1: o(x) = o(x) * 2 x in 0:10",
            "S2.piece0: o(2 * x_div) += d(x_div + p) x_div in 0:5, p in 0:2",
            "S2: o(2 * x_div + 1) += 2 * p + 1 < 3 ? d(x_div + p) : 0.0 x_div in 0:5, p in 0:2",
        ],
    ),
    "the last one of a sum's variables stays: 0 + -0 is 0": (
        "def f(float(W) d) -> (o) { o(x) +=! 2*p + x%2 < 2 ? d(x/2 + p) : 0"
        " where x in 0:10, p in 0:2 }",
        {"W": 9},
        [
            "S0.piece0: o(2 * x_div) +=! d(x_div + p) x_div in 0:5, p in 0:1",
            "S0: o(2 * x_div + 1) +=! d(x_div + p) x_div in 0:5, p in 0:1",
        ],
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    text, sizes, expected = CLASSES[name]
    program = shape(text, **sizes)
    found = linearise(program, Thresholds(period=99))
    assert [line.split(" where ")[0] for line in texts_with_ranges(found)] == [
        line.split(" where ")[0] for line in expected
    ]
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {
        n: rng.integers(-9, 9, program.shapes[n]).astype(np.float32) for n in program.program.inputs
    }
    assert_consistent(found)
    results = run_kernel(found, reshaped(found, arrays), {})
    for output, want in interpret(program, arrays, {}).items():
        np.testing.assert_array_equal(results[output].reshape(want.shape), want)


STAY = {
    "a long period": "def f(float(W) d) -> (o) { o(x) = d(x/5) where x in 0:40 }",
    "few values": "def f(float(W) d) -> (o) { o(x,y) = d(x/2) where x in 0:3, y in 0:9 }",
    "not along memory": "def f(float(W,V) d) -> (o) { o(x,y) = d(x/2,y) where x in 0:W*2 }",
    "of a sum": "def f(float(W) d, float(W) e) -> (o) {"
    " o(y) +=! d(x/2) * e(x%2 + y) where x in 0:8, y in 0:4 }",
    "with checks": "def f(float(W) d, int(W) i) -> (o) { o(x) = d(i(x/2)) where x in 0:2*W }",
    "of its own": "def f(float(W) d) -> (o) { o(x) = d(x) where x in 0:8  o(x) = o(x) + d(x/2) }",
    "a quotient that stays": "def f(float(W) d) -> (o) {"
    " o(x) +=! d((x + i)/2) where x in 0:8, i in 0:3 }",
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    program = shape(STAY[name], W=20, V=5)
    found = linearise(program, Thresholds(pieces=1))
    assert not any("piece" in s.name for s in found.program.statements)


def test_no_more_than_some() -> None:
    text = "def f(float(W) d) -> (o) { o(x,y) = d(x/3 + y/3) where x in 0:24, y in 0:24 }"
    program = shape(text, W=20)
    assert len(linearise(program, Thresholds(classes=9)).statements) == 9
    for limits in ({"classes": 8}, {"residues": 2}, {"residues": 0}):
        found = linearise(program, Thresholds(**limits))
        assert not any("piece" in s.name for s in found.program.statements)


def test_periods_of_whole_vectors_are_one_statement() -> None:
    """But where registers could give a value from one statement to the next."""
    head, tail = "def f(float(A) x, float(4) y) -> (z) {", "where i in 0:4*A }"
    program = shape(f"{head} z(i) = x(i/4) * y(i%4) {tail}", A=9)
    assert texts_with_ranges(linearise(program, Thresholds())) == [
        "S0: z(4 * i_div + i) = x(i_div) * y(i) i_div in 0:9, i in 0:4"
    ]
    program = shape(f"{head} t(a) = 2 * x(a)  z(i) = t(i/4) * y(i%4) {tail}", A=9)
    assert len(linearise(program, Thresholds()).statements) == 5
    program = shape(f"{head} z(i) = x(i/2) * y(i%2) where i in 0:2*A }}", A=9)
    assert len(linearise(program, Thresholds()).statements) == 2


# --- what becomes of them ---------------------------------------------------------------------

DEVICES = [Device(vector_bits=bits, threads=2) for bits in (128, 256, 512)]


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: str(d.vector_bits))
@pytest.mark.parametrize("extra", [0, 1])
def test_a_gradient_of_pooling_is_one_loop(device: Device, extra: int) -> None:
    """With its counts in registers, and whole vectors stored."""
    program = shape(POOLING, N=3, H=16, V=32, W=32 + extra, X=64 + extra)
    kernel = lower(program, {}, initial=frozenset(), check=True, device=device)
    assert [b.name for b in kernel.buffers] == ["x", "y", "d", "o"]
    main, *rest = kernel.regions
    vectors = [s for s in every_statement(kernel) if isinstance(s, Store)]
    inside = [s for s in vectors if any(isinstance(i, Ramp) for i in s.indices[-1:])]
    assert {s.indices[-1].step for s in inside if isinstance(s.indices[-1], Ramp)} == {1}
    assert len(main) - sum(type(s).__name__ == "Comment" for s in main) == 1
    assert len(rest) == 2 * extra
    reads = {load.buffer for load in loads_in(tuple(every_statement(kernel)))}
    assert reads == {"x", "y", "d"}


@pytest.mark.parametrize(("filters", "is_shared"), [(1, True), (3, True), (5, False)])
def test_longer_sums_have_loops_of_their_own(filters: int, is_shared: bool) -> None:
    """Sums of few terms share one loop, so that whole vectors are stored."""
    program = shape(STRIDED, F=filters, W=20, C=2, K=4, X=42)
    kernel = lower(program, {}, initial=frozenset(), check=True, device=Device(vector_bits=256))
    stores = [s for s in every_statement(kernel) if isinstance(s, Store)]
    steps = {s.indices[-1].step for s in stores if isinstance(s.indices[-1], Ramp)}
    assert steps == ({1} if is_shared else {2})


def test_what_reads_all_waits_for_each_class() -> None:
    """Though the last of them writes from the first element to the last."""
    text = f"{STRIDED.rstrip().removesuffix('}')} z(c) +=! o(c,x) where x in 1:18 }}".replace(
        "(o)", "(o, z)"
    )
    text = text.replace("-> (float(C,X) o)", "-> (float(C,X) o, z)")
    scop = build_scop(linearise(shape(text, F=5, W=9, C=2, K=3, X=19), Thresholds()), frozenset())
    found = compute_dependences(scop).between({"S0", "S0.piece0"}, ["S1"])
    assert {d.source for d in found} == {"S0", "S0.piece0"}


def test_sums_are_in_registers() -> None:
    """Though several statements write the target in turns: none of it is read."""
    text = """def f(float(N,W) d, float(N,K) k, float(N,X) e) -> (float(N,X) o) {
      o(c,x) +=! pad(d(c,x/2-p) * k(c,2*p+x%2), 0) where p in 0:(K+1)/2
    }"""
    program = shape(text, N=5, W=40, K=4, X=82)
    kernel = lower(program, {}, initial=frozenset(), check=True, device=Device(vector_bits=256))
    reads = {load.buffer for load in loads_in(tuple(every_statement(kernel)))}
    assert reads == {"d", "k"}


def test_explain_tells() -> None:
    told = tc.explain(STRIDED, F=5, W=9, C=2, K=3, X=19).stages["rewrite"]
    assert "o(c, 2 * x_div + 1) +=! d(f, x_div) * k(f, c, 1)" in told


# --- values -----------------------------------------------------------------------------------

HOW = (
    Options(),
    Options(),
    Options(schedule=ScheduleOptions(fusion="min")),
    Options(schedule=ScheduleOptions(fusion="preserve3coincident")),
    Options(mapping=MappingOptions(rows=2, vectors=1)),
    Options(mapping=MappingOptions(rows=3, vectors=2)),
    Options(mapping=MappingOptions(reduction_tile=2)),
    Options(mapping=MappingOptions(pack=False, parallel=False)),
    Options.preset("naive"),
)


def assert_same_values(seed: int) -> bool:
    """Whether there are classes in a program, which computes what is written."""
    text, given = drawn(seed)
    program, arrays = shaped_with(text, given)
    want, rng = interpret(program, arrays, {}), random.Random(seed)
    device = Device(
        vector_bits=rng.choice((0, 128, 256, 512)),
        vector_registers=rng.choice((16, 32)),
        threads=rng.choice((1, 4)),
    )
    kernel = lower(
        program,
        {},
        device=device,
        initial=frozenset(),
        check=rng.random() < 0.5,
        options=rng.choice(HOW),
    )
    buffers = {b.name: np.full(b.shape, 77, b.dtype.numpy) for b in kernel.buffers}
    for name, array in arrays.items():
        buffers[name][...] = np.reshape(array, buffers[name].shape)
    assert evaluate(kernel, buffers) is None
    for name, expected in want.items():
        np.testing.assert_array_equal(buffers[name].reshape(expected.shape), expected)
    found = linearise(program, Thresholds())
    assert_consistent(found)
    return found is not program


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(50))
def test_random_programs(seed: int) -> None:
    assert_same_values(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_more_random_programs(first: int) -> None:
    assert sum(map(assert_same_values, range(first, first + 100))) > 70


@pytest.mark.parametrize("backend", [b for b in ("numba", "c") if b in tc.backends()])
@pytest.mark.parametrize("seed", range(60, 66))
def test_backends(backend: str, seed: int) -> None:
    """With inputs that are not contiguous."""
    text, given = drawn(seed)
    program, arrays = shaped_with(text, given)
    strided = {}
    for name, array in given.items():
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        strided[name] = wide[..., ::2]
    got = tc.compile(text, backend=backend)(*strided.values())
    got = got if isinstance(got, tuple) else (got,)
    for result, want in zip(got, interpret(program, arrays, {}).values(), strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_gradients_of_convolutions(step: int, kernel: int) -> None:
    """Against a sum over all windows, in float64, at all sizes around multiples of the step."""
    text = f"""def f(float(N,C,X) x, float(F,C,K) k) -> (y) {{
      y(n,f,i) +=! x(n,c,{step}*i+j) * k(f,c,j)
    }}"""
    gradient = tc.compile(tc.grad(text, wrt="x"))
    rng = np.random.default_rng(step * 10 + kernel)
    k = rng.integers(-4, 5, (3, 2, kernel)).astype(np.float32)
    for size in range(kernel, kernel + 2 * step + 1):
        windows = (size - kernel) // step + 1
        x = np.zeros((2, 2, size), np.float32)
        d = rng.integers(-4, 5, (2, 3, windows)).astype(np.float32)
        want = np.zeros(x.shape)
        for i in range(windows):
            want[..., step * i : step * i + kernel] += np.einsum("nf,fcj->ncj", d[..., i], k)
        given = {"x": x, "k": k, "d_y": d}
        found = gradient(*(given[name] for name in gradient.program.inputs))
        np.testing.assert_array_equal(found, want)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sizes", [*pairwise(range(2, 12)), (17, 34), (35, 33)])
def test_gradients_of_pooling(sizes: tuple[int, int]) -> None:
    """Each window's gradient is shared evenly by its largest elements."""
    text = """def pool(float(N,H,W) x) -> (y) {
      y(n,h,w) max=! x(n,2*h+i,2*w+j) where i in 0:2, j in 0:2
    }"""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (3, *sizes)).astype(np.float32)
    h, w = (n // 2 for n in sizes)
    blocks = x[:, : 2 * h, : 2 * w].reshape(3, h, 2, w, 2)
    y = blocks.max((2, 4))
    d = rng.integers(-4, 5, y.shape).astype(np.float32) * 12
    largest = blocks == y[:, :, None, :, None]
    shared = largest * (d / largest.sum((2, 4)))[:, :, None, :, None]
    want = np.zeros(x.shape)
    want[:, : 2 * h, : 2 * w] = shared.reshape(3, 2 * h, 2 * w)
    gradient = tc.compile(tc.grad(text))
    given = {"x": x, "y": y, "d_y": d}
    np.testing.assert_array_equal(gradient(*(given[n] for n in gradient.program.inputs)), want)


def test_sites_are_those_of_the_text() -> None:
    program = linearise(shape(POOLING, N=3, H=6, V=8, W=13, X=17), Thresholds())
    quotients = [
        n
        for s in program.program.statements
        for n in walk(s.rhs)
        if isinstance(n, Binary) and n.op in "/%" and n.dtype.is_integer
    ]
    assert not quotients
