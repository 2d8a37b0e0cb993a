"""Long sums with few results are split over blocks: partial sums, then the sums of these."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

import tc
from tc.kernel.evaluate import evaluate
from tc.polyhedral.gpu.gpu_target import gpu_target
from tc.polyhedral.lowering import trace_lowering
from tests.support.bounds import assert_computes
from tests.support.pipeline import as_buffers, evaluate_kernel, shaped

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


# --- by values of loops, by strips ----------------------------------------------------------------


def einsum(left: str, right: str, result: str) -> str:
    a, b, c = (",".join(indices) for indices in (left, right, result))
    return (
        f"def f(float({a.upper()}) A_, float({b.upper()}) B_) -> (C_)"
        f" {{ C_({c}) +=! A_({a}) * B_({b}) }}"
    )


FEW = {
    "several loops": ("gba", "abge", "e", "a59 b60 e67 g35"),
    "values of two loops": ("ihfe", "chfe", "ci", "c53 e57 f65 h38 i56"),
    "few results": ("dfh", "fad", "ha", "a8 d1701 f56 h16"),
    "columns": ("b", "cba", "ca", "a136 b11348 c1"),
    "batches": ("aci", "ca", "ia", "a3 c22840 i167"),
}


@pytest.mark.parametrize("name", FEW)
def test_sums_of_several_loops_are_for_all_multiprocessors(name: str) -> None:
    left, right, result, sizes = FEW[name]
    extents = {part[0].upper(): int(part[1:]) for part in sizes.split()}
    launches = tc.emit(einsum(left, right, result), extents, backend="cuda", device=H100).launches
    assert max(launch.blocks for launch in launches) >= 80


def test_long_rests_of_strips_have_parts_too() -> None:
    """Of 113 values of h, 16 strips of 7 leave one, which has 16470 terms for each result."""
    sizes = {"E": 122, "C": 2, "H": 113, "B": 135, "J": 2}
    text = einsum("echbj", "jehb", "jc")
    trace = tc.explain(text, sizes, backend="cuda", device=H100).trace
    shaped_program = trace.lowering.shaped
    assert [shape for name, shape in shaped_program.shapes.items() if ".p" in name] == [
        (2, 2, 122, 16),
        (2, 2, 30),
        (2, 2),
    ]
    elements = [
        prod(s.ranges[v].extent for v in s.statement.reduction) for s in shaped_program.statements
    ]
    assert max(elements) == 122 * 16  # of what adds up the parts


DEEP = {
    "products": einsum("dfh", "fad", "ha"),
    "rests": einsum("dfah", "hdfa", "h"),
    "rows": "def f(float(H,D,F) A_) -> (C_) { C_(h) +=! A_(h,d,f) }",
    "columns": "def f(float(D,F,H) A_) -> (C_) { C_(h) max=! A_(d,f,h) }",
    "all": "def f(float(D,F) A_, float(D,F) B_) -> (C_) { C_ +=! A_(d,f) * B_(d,f) }",
    "after all": """def f(float(D,F) A_, float(D,F) B_) -> (s, C_) {
      s +=! A_(d,f) * B_(d,f)
      C_(f) = B_(0,f) / (2 + s)
    }""",
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("steps", [1, 2, 13, 29, 64])
def test_parts_are_right(name: str, steps: int) -> None:
    """Of small parts, too: with steps left over by strips, and without."""
    rng = np.random.default_rng(steps)
    letters = {"A": 3, "D": steps, "F": 11, "H": 5}
    program = tc.compile(DEEP[name]).program
    gpu = tc.Gpu(processors=40)
    target = gpu_target(gpu)
    blocks = target.rewriting.blocks
    assert blocks is not None
    small = replace(blocks, long=4, steps=3, row_steps=5, column_steps=4)
    target = replace(target, rewriting=replace(target.rewriting, blocks=small))
    inputs = {}
    for tensor in program.inputs:
        sizes = dims_of(DEEP[name], tensor)
        inputs[tensor] = rng.random([letters[size] for size in sizes]).astype(np.float32)
    shaped_program = shaped(program, inputs)
    lowering = trace_lowering(shaped_program, {}, target, initial=frozenset(), check=False)
    if steps > 8:
        assert any(".part" in s.statement.name for s in lowering.shaped.statements)
    outputs = {o: np.empty(shaped_program.shapes[o], np.float32) for o in program.outputs}
    assert evaluate(lowering.kernel, as_buffers(lowering.kernel, inputs | outputs)) is None
    found = tuple(outputs.values())
    assert_computes(DEEP[name], list(inputs.values()), found if len(found) > 1 else found[0])


def dims_of(text: str, tensor: str) -> list[str]:
    return text.partition(f") {tensor}")[0].rpartition("(")[2].split(",")


def test_what_follows_a_sum_of_all_is_one_launch() -> None:
    text = "def f(float(M,N) X) -> (o) { s +=! X(i,j) * X(i,j)  o = sqrt(s) }"
    parts, last = tc.emit(text, {"M": 1523, "N": 9106}, backend="cuda", device=H100).launches
    assert parts.blocks >= 4 * H100.processors
    assert last.blocks == 1
    assert last.threads >= 32


def test_gathered_elements_do_not_keep_threads_from_a_sum() -> None:
    text = "def f(float(N,C) X, int(N) t) -> (o) { o +=! X(n,t(n)) * X(n,0) }"
    inputs = [np.zeros((418, 9), np.float32), np.zeros(418, np.int32)]
    (launch,) = tc.emit(text, inputs, backend="cuda", device=H100).launches
    assert launch.threads >= 64
    rng = np.random.default_rng(2)
    given = {"X": rng.random((418, 9), np.float32), "t": rng.integers(0, 9, 418, np.int32)}
    (found,) = evaluate_kernel(text, given, device=H100).values()
    assert_computes(text, list(given.values()), found)


# --- what shares a launch -------------------------------------------------------------------------

LINEAR = """def linear(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
  state(b,d,e) +=! K(b,u,d) * V(b,u,e)
  O(b,t,e) +=! Q(b,t,d) * state(b,d,e)
}"""
BLUR = """def blur(float(M,N) X) -> (O) {
  rows(i,j) +=! X(i,j+k) where k in 0:3
  O(i,j) +=! rows(i+k,j) where k in 0:3
}"""


def test_large_products_keep_their_tiles() -> None:
    sizes = {"B": 16, "T": 2048, "S": 400, "D": 128, "E": 64}
    launches = tc.emit(LINEAR, sizes, backend="cuda", device=H100).launches
    assert len(launches) == 2
    small = {"B": 100, "T": 8, "S": 8, "D": 8, "E": 8}
    assert len(tc.emit(LINEAR, small, backend="cuda", device=H100).launches) == 1


def test_neighbours_in_memory_stay_in_one_block() -> None:
    launches = tc.emit(BLUR, {"M": 800, "N": 900}, backend="cuda", device=H100).launches
    assert len(launches) == 2
