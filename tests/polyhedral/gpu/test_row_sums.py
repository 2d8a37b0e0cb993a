"""Rows whose reductions threads share, as tc chooses: right on the machine of blocks and threads,
for rows of many lengths and GPUs of many sizes; and where they are not chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.kernel.evaluate import evaluate
from tc.plan import Split
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import to_text
from tests.polyhedral.gpu.test_gpu_mapping import SOFTMAX
from tests.support.bounds import as_tuple, assert_computes
from tests.support.pipeline import checked

DOWN = """def down(float(N,M) x) -> (o) {
  m(j) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(j))
  s(j) +=! e(i,j)
  o(i,j) = e(i,j) / s(j)
}"""
NORM = """def norm(float(N,M) x, float(M) gamma) -> (o, mean) {
  mean(i) +=! x(i,j) / M
  v(i) +=! (x(i,j) - mean(i)) * (x(i,j) - mean(i)) / M
  o(i,j) = (x(i,j) - mean(i)) * rsqrt(v(i) + 0.01) * gamma(j)
}"""
GROUPS = """def groups(float(N,G,M,W) x, float(G,M) gamma) -> (o) {
  mean(n,g) +=! x(n,g,d,w) / (M * W)
  v(n,g) +=! (x(n,g,d,w) - mean(n,g)) * (x(n,g,d,w) - mean(n,g))
  o(n,g,d,w) = (x(n,g,d,w) - mean(n,g)) * rsqrt(v(n,g) / (M * W) + 0.01) * gamma(g,d)
}"""
PLACE = """def place(float(N,M) x) -> (m, k) {
  m(i) max=! x(i,j)
  k(i) max=! x(i,j) == m(i) ? j : -1
}"""
MIRROR = """def mirror(float(N,M) x) -> (o) {
  s(i) +=! x(i,j)
  e(i,j) = x(i,j) - s(i)
  o(i,j) = e(i, M - 1 - j)
}"""
MIDDLE = """def middle(float(N,G,M) x) -> (o) {
  s(i,k) +=! x(i,j,k)
  o(i,j,k) = x(i,j,k) / (1 + s(i,k) * s(i,k))
}"""
KEPT = """def kept(float(N,M) x) -> (m, e, s, o) {
  m(i) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(i))
  s(i) +=! e(i,j)
  o(i,j) = e(i,j) / s(i)
}"""
ROW, BOTH = ("NM",), ("NM", "NM")
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rows": ("def f(float(N,M) x) -> (o) { o(i) +=! x(i,j) }", ROW),
    "columns": ("def f(float(N,M) x) -> (o) { o(j) +=! x(i,j) }", ROW),
    "total": ("def f(float(N,M) x) -> (o) { o +=! x(i,j) }", ROW),
    "matrix and vector": (
        "def f(float(N,M) x, float(M) y) -> (o) { o(i) +=! x(i,j) * y(j) }",
        ("NM", "M"),
    ),
    "vector and matrix": (
        "def f(float(N,M) x, float(N) y) -> (o) { o(j) +=! x(i,j) * y(i) }",
        ("NM", "N"),
    ),
    "halves": ("def f(half(N,M) x) -> (o) { o(i) +=! x(i,j) }", ROW),
    "least": ("def f(int8(N,M) x) -> (o) { o(i) min=! x(i,j) }", ROW),
    "product": ("def f(double(N,M) x) -> (o) { o(i) *=! x(i,j) }", ROW),
    "all": ("def f(bool(N,M) x) -> (o) { o(i) min=! x(i,j) }", ROW),
    "a start": (
        "def f(float(N,M) x, float(N) y) -> (o) { o(i) = y(i)  o(i) += x(i,j) }",
        ("NM", "N"),
    ),
    "distances": (
        "def f(float(N,M) x, float(N,M) y) -> (o) { o(i) +=! fabs(x(i,j) - y(i,j)) }",
        BOTH,
    ),
    "both ways": (
        "def f(float(N,M) x) -> (p, q) { p(i) +=! x(i,j)  q(j) +=! x(i,j) * p(i) }",
        ROW,
    ),
    "least and greatest": (
        "def f(float(N,M) x) -> (p, q) { p(i) min=! x(i,j)  q(i) max=! x(i,j) }",
        ROW,
    ),
    "softmax": (SOFTMAX, ROW),
    "softmax of columns": (DOWN, ROW),
    "norm": (NORM, ("NM", "M")),
    "group norm": (GROUPS, ("NGMW", "GM")),
    "greatest and where": (PLACE, ROW),
    "mirror": (MIRROR, ROW),
    "in the middle": (MIDDLE, ("NGM",)),
    "all kept": (KEPT, ROW),
    "columns stored across": (
        "def f(float(G,N,M) x, float(N,G) y) -> (o) { o(j,k) +=! x(k,i,j) * y(i,k) }",
        ("GNM", "NG"),
    ),
    "columns of two loops": ("def f(float(N,M,W) x) -> (o) { o(k,j) +=! x(i,j,k) }", ("NMW",)),
    "columns both ways": (
        "def f(float(N,G,M) x) -> (p, q) { p(j,k) +=! x(i,k,j)  q(k,j) max=! x(i,k,j) }",
        ("NGM",),
    ),
}
GPUS = (
    tc.Gpu(),
    tc.Gpu(processors=1),
    tc.Gpu(processors=2, threads=64),
    tc.Gpu(processors=8, threads=128, thread_limits=(64, 32, 4), shared=256),
    tc.Gpu(processors=2, threads=24, thread_limits=(3, 16, 4)),
)
LENGTHS = (1, 7, 8, 9, 31, 32, 33, 37, 64, 100, 127, 257, 400)


def drawn(number: int) -> dict[str, int]:
    rng = np.random.default_rng(number)
    long, short = rng.choice(LENGTHS, 2), rng.choice((1, 2, 3, 5, 8, 33), 3)
    n, m = (int(long[0]), int(short[0])) if number % 3 == 0 else (int(short[0]), int(long[0]))
    return {"N": n, "M": m, "G": int(short[1]), "W": int(short[2])}


def given(name: str, sizes: dict[str, int]) -> list[Any]:
    text, inputs = PROGRAMS[name]
    rng, tensors = np.random.default_rng(0), checked(text).tensors
    return [
        (rng.normal(size=[sizes[letter] for letter in letters]) * 9).astype(t.dtype.numpy)
        for letters, t in zip(inputs, tensors.values(), strict=False)
    ]


def lowered(name: str, arrays: list[Any], gpu: tc.Gpu, **gpu_options: Any) -> Lowering:
    options = tc.Options(gpu=tc.GpuOptions(**gpu_options))
    trace = tc.explain(PROGRAMS[name][0], arrays, backend="cuda", device=gpu, options=options).trace
    lowering: Lowering = trace.lowering
    return lowering


@pytest.mark.drawn(2)
@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, number: int) -> None:
    """Of some sizes and a GPU, once in one launch where blocks may wait for each other."""
    text, gpu = PROGRAMS[name][0], GPUS[number % len(GPUS)]
    arrays = given(name, drawn(number))
    program = checked(text)
    for single in (False, True):
        kernel = lowered(name, arrays, gpu, single_kernel=single).kernel
        buffers = {
            b.name: np.full(b.shape, 1, b.dtype.numpy)
            for b in kernel.arguments
            if b.role != "input"
        }
        for input_, array in zip(program.inputs, arrays, strict=True):
            buffers[input_] = array.reshape(kernel.buffer(input_).shape)
        assert evaluate(kernel, buffers) is None
        shapes = [np.shape(each) for each in as_tuple(tc.interpret(text, arrays))]
        pairs = zip(program.outputs, shapes, strict=True)
        assert_computes(text, arrays, tuple(buffers[o].reshape(shape) for o, shape in pairs))


def tree(name: str, gpu: tc.Gpu | None = None, **sizes: int) -> str:
    arrays = given(name, sizes)
    return to_text(lowered(name, arrays, gpu or tc.Gpu.named("sm_90")).mapped.tree)


def test_a_block_for_each_row() -> None:
    """What is read and computed of a row is in registers, nothing of it in memory."""
    assert tree("softmax", N=512, M=4096) == (
        "band [i block x *] permutable\n"
        "  promote x to register x_acc[1x16] (copied in)\n"
        "  promote e to register e_acc[1x16]\n"
        "  promote s to register s_acc[1]\n"
        "  promote m to register m_acc[1]\n"
        "    sequence\n"
        "      S0.init\n"
        "      accumulate S0 in m_partial for each j mod 256\n"
        "        band [j div 256 unroll, j mod 256 thread x] permutable\n"
        "          S0\n"
        "      band [j div 256 unroll *, j mod 256 thread x *] permutable\n"
        "        S1\n"
        "      S2.init\n"
        "      accumulate S2 in s_partial for each j mod 256\n"
        "        band [j div 256 unroll, j mod 256 thread x] permutable\n"
        "          S2\n"
        "      band [j div 256 unroll *, j mod 256 thread x *] permutable\n"
        "        S3"
    )


def shares(name: str, gpu: tc.Gpu | None = None, **sizes: int) -> bool:
    """Whether threads share reductions."""
    lowering = lowered(name, given(name, sizes), gpu or tc.Gpu.named("sm_90"))
    return any(isinstance(a, Split) for part in lowering.mapped.plan.parts for a in part.actions)


def test_where_one_thread_is_enough() -> None:
    """Short rows, and columns that are enough for all threads."""
    one = tc.Gpu(processors=1)
    found = {length: shares("rows", N=100, M=length) for length in (7, 8)}
    assert found == {7: False, 8: True}
    found = {width: shares("columns", one, N=99, M=width) for width in (7, 8, 1000, 2000)}
    assert found == {7: False, 8: True, 1000: True, 2000: False}


@pytest.mark.parametrize(
    ("text", "sizes", "band"),
    [
        (
            "def f(float(N,G,M) x) -> (o) { o(j,k) +=! x(i,k,j) }",
            {"N": 999, "G": 5, "M": 70},
            "k block y *, j div 35 block x *, j mod 35 thread x *",
        ),
        (
            "def f(float(N,M,W) x) -> (o) { o(k,j) +=! x(i,j,k) }",
            {"N": 999, "M": 200, "W": 7},
            "j div 5 block x *, j mod 5 thread x *, k thread x *",
        ),
    ],
)
def test_threads_along_x_run_columns(text: str, sizes: dict[str, int], band: str) -> None:
    """Those that lie side by side in what is read, wherever their sums are stored, and of two loops
    where one has too few."""
    tree = tc.explain(text, sizes, backend="cuda", device=tc.Gpu.named("sm_90")).trace.lowering
    assert f"band [{band}] permutable" in to_text(tree.mapped.tree)


def test_a_statement_of_one_row() -> None:
    """Along rows of which a statement has one, nothing that it reads goes on: no columns are sought
    without an end."""
    text = "def f(float(N) x, float(M) y) -> (o) { o(i) = x(i)  o(j) max= y(j + 2) }"
    arrays = [np.arange(7, dtype=np.float32), np.float32([1, 2, 3])]
    trace = tc.explain(text, arrays, backend="cuda", device=tc.Gpu()).trace
    kernel = trace.lowering.kernel
    buffers = {"x": arrays[0], "y": arrays[1], "o": np.zeros(7, np.float32)}
    assert evaluate(kernel, buffers) is None
    assert buffers["o"].tolist() == [3, 1, 2, 3, 4, 5, 6]


def test_products_of_matrices_are_none() -> None:
    """Several rows read the same, so tiles of them share what is read."""
    text = "def mm(float(N,M) a, float(M,K) b) -> (c) { c(i,j) +=! a(i,k) * b(k,j) }"
    lowering = tc.explain(text, {"N": 64, "M": 256, "K": 64}, backend="cuda").trace.lowering
    assert "accumulate" not in to_text(lowering.mapped.tree)


def test_options_of_loops_are_followed() -> None:
    arrays = given("softmax", {"N": 64, "M": 1000})
    for options in ({"tile": [1]}, {"threads": [64]}, {"blocks": [4]}, {"private": False}):
        mapped = lowered("softmax", arrays, tc.Gpu(), **options).mapped
        assert "accumulate" not in to_text(mapped.tree)
