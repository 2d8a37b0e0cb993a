"""What becomes of loops on a GPU: trees and the reasons told, as texts that are compared whole."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import launches_of
from tc.kernel.ir import (
    Compare,
    Const,
    For,
    Grid,
    LaunchIndex,
    Select,
    Set,
    expressions,
    statements,
)
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import tiles, to_text
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, evaluate_kernel, shaped_by

EXPECTED = Path(__file__).parents[2] / "expected" / "gpu_mapping"

POINTS = "def points(float(N) a) -> (o) { o(i) = 2 * a(i) }"
TRANSPOSE = "def transpose(float(N,M) a) -> (o) { o(j,i) = a(i,j) }"
TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
TOTAL = "def total(float(N) a) -> (o) { o +=! a(i) }"
ROWS = "def rows(float(N,M) a) -> (o) { o(i) max=! a(i,j) }"
SOFTMAX = """def softmax(float(N,M) x) -> (o) {
  m(i) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(i))
  s(i) +=! e(i,j)
  o(i,j) = e(i,j) / s(i)
}"""
GCONV = """def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1) -> (O) {
  O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * W1(g,f,c,kh,kw)
}"""
STEPS = """def steps(float(N,M) a) -> (b, c) {
  b(i,j) = a(i,j) + 1
  c(i,j) = b(i,j) * b(i,0)
}"""

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "points": (POINTS, {"a": (1000,)}, {}),
    "few_points": (POINTS, {"a": (100,)}, {}),
    "blocks_take_turns": (
        POINTS, {"a": (1000,)}, {"tile": (64,), "threads": (16,), "blocks": (3,)},
    ),
    "threads_take_turns": (POINTS, {"a": (1000,)}, {"tile": (30,), "threads": (16,)}),
    "tiles_of_one": (POINTS, {"a": (1000,)}, {"tile": (1,)}),
    "transpose": (TRANSPOSE, {"a": (130, 70)}, {}),
    "tmm": (TMM, {"A": (130, 37), "B": (100, 37)}, {}),
    "tmm_in_turns": (
        TMM,
        {"A": (64, 8), "B": (96, 8)},
        {"tile": (16, 16, 4), "blocks": (1, 2), "threads": (4, 16), "unroll_copies": True},
    ),
    "tmm_near_nothing": (
        TMM,
        {"A": (64, 8), "B": (96, 8)},
        {"tile": (8, 8, 8, 8), "threads": (2, 2, 4), "shared": False, "private": False},
    ),
    "total": (TOTAL, {"a": (1000,)}, {}),
    "rows": (ROWS, {"a": (100, 50)}, {}),
    "softmax": (SOFTMAX, {"x": (30, 500)}, {}),
    "softmax_in_tiles": (SOFTMAX, {"x": (30, 500)}, {"tile": (4,)}),
    "gconv": (GCONV, {"I": (4, 3, 8, 20, 20), "W1": (3, 6, 8, 3, 3)}, {}),
    "gconv_of_the_paper": (
        GCONV,
        {"I": (4, 3, 8, 9, 9), "W1": (3, 6, 8, 3, 3)},
        {"tile": (1, 1), "blocks": (32, 32, 3), "threads": (8, 7, 7), "private": False},
    ),
    "steps": (STEPS, {"a": (40, 50)}, {}),
}  # fmt: skip


def lowered(
    text: str, shapes: dict[str, tuple[int, ...]], gpu: tc.Gpu | None = None, **options: Any
) -> Lowering:
    """The lowering without rewriting, so that tiles are tiles of the loops of the text."""
    wanted = tc.Options(schedule=tc.ScheduleOptions(rewrite=False), gpu=tc.GpuOptions(**options))
    shaped = shaped_by(checked(text), shapes)
    given = {"initial": frozenset[str](), "check": False, "options": wanted}
    return trace_lowering(shaped, {}, device=gpu or tc.Gpu(), **given)


@pytest.mark.parametrize("name", CASES)
def test_tree(name: str, golden: Callable[[Path, str], None]) -> None:
    text, shapes, options = CASES[name]
    mapped = lowered(text, shapes, **options).mapped
    notes = "".join(f"\n{note}" for note in mapped.notes)
    golden(EXPECTED / f"{name}.txt", f"{to_text(mapped.tree)}\n{notes}\n")


def grids(lowering: Lowering) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The blocks and threads of each launch."""

    def counts(indices: tuple[LaunchIndex, ...]) -> tuple[int, ...]:
        return tuple(index.count for index in indices)

    found = [stmt for region in lowering.kernel.regions for stmt in region]
    return [(counts(s.blocks), counts(s.threads)) for s in found if isinstance(s, Grid)]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("threads", [(1,), (7,), (32,), (100,), (3, 5), (2, 3, 4), (64, 16)])
@pytest.mark.parametrize("blocks", [(1,), (2, 3), (5, 1, 7), (1000, 1000)])
@pytest.mark.parametrize("tile", [(1, 1), (5, 30), (32, 32), (64, 128)])
def test_sizes_of_launches(
    threads: tuple[int, ...], blocks: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    """As asked for, whatever the tiles and extents; less where there is less work."""
    extents = (70, 90)
    given = {"tile": tile, "blocks": blocks, "threads": threads}
    ((blocks_found, threads_found),) = grids(lowered(TRANSPOSE, {"a": extents[::-1]}, **given))
    tiles = [-(-extent // size) for extent, size in zip(extents, tile, strict=True)]
    inside = [min(size, extent) for extent, size in zip(extents, tile, strict=True)]
    many = [(n, most) for n, most in zip(tiles, blocks, strict=False) if n > 1]
    assert prod(blocks_found) == prod(min(n, most) for n, most in many)
    wanted = threads[-2:]
    within = inside[len(inside) - len(wanted) :]
    assert prod(threads_found) == prod(min(n, m) for n, m in zip(within, wanted, strict=True))


@pytest.mark.parametrize("blocks", [(3,), (3, 5), (3, 5, 7)])
@pytest.mark.parametrize("threads", [(16,), (2, 16), (4, 2, 16)])
def test_more_sizes_than_loops(blocks: tuple[int, ...], threads: tuple[int, ...]) -> None:
    """Blocks share the outermost loops, threads the innermost."""
    given = {"tile": (32,), "blocks": blocks, "threads": threads}
    assert grids(lowered(POINTS, {"a": (1000,)}, **given)) == [((3,), (16,))]


def test_limits_of_the_gpu_hold() -> None:
    """Where options say nothing, blocks and threads are as many as the GPU can have."""
    gpu = tc.Gpu(threads=24, thread_limits=(8, 4, 1), grid_limits=(5, 3, 2), shared=600)
    lowering = lowered(TMM, {"A": (640, 37), "B": (960, 37)}, gpu)
    ((blocks, threads),) = grids(lowering)
    assert all(n <= most for n, most in zip(blocks[::-1], gpu.grid_limits, strict=False))
    assert all(n <= most for n, most in zip(threads[::-1], gpu.thread_limits, strict=False))
    assert prod(threads) <= 24
    shared = [b for b in lowering.kernel.buffers if b.role == "shared"]
    assert sum(prod(b.shape) * b.dtype.bytes for b in shared) <= 600


@pytest.mark.parametrize("shared", [224, 239, 240])
def test_tiles_are_aligned_within_shared_memory(shared: int) -> None:
    """Those of 3 x 7 and 5 x 7 elements are 224 bytes, but take 96 and 144."""
    lowering = lowered(
        TMM, {"A": (64, 64), "B": (64, 64)}, tc.Gpu(shared=shared), tile=(3, 5, 7), threads=(2, 3)
    )
    held = [b.name for b in lowering.kernel.buffers if b.role == "shared"]
    assert held == (["A_shared", "B_shared"] if shared == 240 else ["A_shared"])
    (launch,) = launches_of(lowering.kernel, CUDA)
    assert launch.shared <= shared


def test_accumulators_fit_into_registers_together() -> None:
    """Each thread has 128 or 64 elements of each, and room for 128 numbers."""
    text = """def both(float(M,K) A, float(N,K) B) -> (C, D) {
  C(m,n) +=! A(m,k) * B(n,k)
  D(m,n) max=! A(m,k) + B(n,k)
}"""
    shapes = {"A": (256, 64), "B": (256, 64)}
    for threads, held in (((4, 8), ["C"]), ((8, 8), ["C", "D"])):
        lowering = lowered(text, shapes, tile=(64, 64), threads=threads)
        found = [tile.tensor for tile in tiles(lowering.mapped.tree) if tile.scope == "register"]
        assert sorted(found) == held


def registers(lowering: Lowering) -> set[tuple[str, tuple[int, ...]]]:
    """The tensors in registers, with the elements that a thread holds."""
    found = tiles(lowering.mapped.tree)
    return {(tile.tensor, tile.shape) for tile in found if tile.scope == "register"}


@pytest.mark.parametrize("threads", [None, (1,), (7,)])
@pytest.mark.parametrize("tile", [2, 5, 30])
def test_accumulators_are_those_of_one_point(tile: int, threads: tuple[int, ...] | None) -> None:
    """Where loops inside of those over points go to threads, or would: however large tiles are."""
    text = """def deep(float(B,N,M) a, float(B,K) w) -> (s, o) {
  s(b,n) +=! a(b,n,m)
  o(b,k) max=! w(b,k) * s(b,n)
}"""
    shapes = {"a": (30, 4, 5), "w": (30, 6)}
    found, points = (
        registers(lowered(text, shapes, tile=(size,), threads=threads)) for size in (tile, 1)
    )
    assert found == points
    assert found


def innermost(lowering: Lowering) -> list[For]:
    """The loops with no loop in them that accumulate."""
    stmts = [s for region in lowering.kernel.regions for s in statements(region)]
    loops = [s for s in stmts if isinstance(s, For) and any(isinstance(t, Set) for t in s.body)]
    return [s for s in loops if not any(isinstance(t, For) for t in s.body)]


def edge_tests(loop: For) -> int:
    """How many conditions, and bounds that are no constants, a loop has."""
    found = [e for s in statements(loop.body) for e in expressions(s)]
    conditions = sum(isinstance(e, Select | Compare) for e in found)
    return conditions + (not isinstance(loop.end, Const))


@pytest.mark.parametrize("op", ["+=!", "max=!"])
def test_no_edge_tests_loops_over_tiles(op: str) -> None:
    """At no edge: neither of operands, nor of targets, nor of a sum of products; a maximum of
    products would take the zeros for terms."""
    text = TMM.replace("+=!", op)
    (loop,) = innermost(lowered(text, {"A": (130, 37), "B": (100, 37)}, tile=(32, 32, 32)))
    assert (edge_tests(loop) == 0) == (op == "+=!")


def test_zeros_are_no_terms_where_a_tensor_goes_on() -> None:
    """Steps beyond the range find what the tensor has there, not zeros."""
    text = TMM.replace("B(n,k) }", "B(n,k) where k in 0:37 }")
    (loop,) = innermost(lowered(text, {"A": (130, 50), "B": (100, 50)}, tile=(32, 32, 32)))
    assert edge_tests(loop) > 0


@pytest.mark.parametrize("fill", ["0", "1.5"])
def test_what_pads_a_tensor_is_in_shared_memory(fill: str) -> None:
    """Where all reads of a tensor are padded alike; else each has a test."""
    text = f"""def rows(float(N,M) a, float(K) w) -> (o) {{
  o(i,j) +=! pad(a(j + k - 1, i), {fill}) * w(k) where i in 0:M, j in 0:N
}}"""
    shapes = {"a": (100, 70), "w": (3,)}
    (loop,) = innermost(lowered(text, shapes, tile=(32, 32)))
    assert edge_tests(loop) == 0
    inputs = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    (o,) = evaluate_kernel(text, inputs, device=tc.Gpu()).values()
    assert o[:, 1:-1].tolist() == [[3.0] * 98] * 70
    assert o[:, [0, -1]].tolist() == [[2 + float(fill)] * 2] * 70
    (loop,) = innermost(lowered(text.replace("w(k)", "w(k) * a(j, i)"), shapes, tile=(32, 32)))
    assert edge_tests(loop) > 0


UNLIKE = """def f(float(B,N) a, float(B,M,K) c) -> (h, s, o) {
  h(b,n) = a(b,n) * 2
  s(b) +=! h(b,n)
  o(b,m,k) = c(b,k,m) + s(b)
}"""


@pytest.mark.parametrize("gpu", [tc.Gpu(), tc.Gpu(threads=64, thread_limits=(64, 3, 1))])
@pytest.mark.parametrize("sizes", [(4, 300, 50, 60), (4, 5, 50, 60), (4, 300, 3, 2)])
@pytest.mark.parametrize("single_kernel", [False, True])
def test_threads_of_unlike_loops(
    sizes: tuple[int, ...], gpu: tc.Gpu, *, single_kernel: bool
) -> None:
    """A block has as many threads along x as one branch wants, and along y as another does."""
    b, n, m, k = sizes
    lowering = lowered(UNLIKE, {"a": (b, n), "c": (b, k, m)}, gpu, single_kernel=single_kernel)
    for blocks, threads in grids(lowering):
        assert prod(blocks) == b
        assert prod(threads) <= min(256, gpu.threads)


def test_registers_that_threads_would_write_back_for_each_other() -> None:
    """Each thread has one element of o, but touches two, which are the caller's at first."""
    text = """def f(float(N) a) -> (o1, o) {
  o(i) = a(i)
  o1(i) +=! pad(o(i + w - 2), 0) where i in 0:2, w in 0:2
  o(m) = a(m) + 1
}"""
    given = {"initial": frozenset(("o",)), "check": False, "device": tc.Gpu()}
    lowering = trace_lowering(shaped_by(checked(text), {"a": (2,)}), {}, **given)
    promoted = [tile.tensor for tile in tiles(lowering.mapped.tree) if tile.scope == "register"]
    assert promoted == ["o1"]


def test_variables_of_one_value_move_no_copy() -> None:
    """Each block copies the element of t that it has written itself: k is always 0."""
    text = """def f(float(K) b, float(N) c) -> (o, t) {
  t(j) = c(j)
  o(w,j) +=! b(k) * pad(t(j + k), 0) where w in 0:5, j in 0:40
}"""
    gpu = tc.Gpu(threads=6, thread_limits=(32, 8, 1), grid_limits=(2, 64, 2))
    lowering = lowered(text, {"b": (1,), "c": (7,)}, gpu, shared=True)
    assert "promote t to shared t_shared[1] (copied in)" in to_text(lowering.mapped.tree)
    inputs = {"b": np.full(1, 2, np.float32), "c": np.arange(7, dtype=np.float32)}
    options = tc.Options(gpu=tc.GpuOptions(shared=True))
    found = evaluate_kernel(text, inputs, device=gpu, options=options)
    assert found["o"].tolist() == [[2.0 * j if j < 7 else 0.0 for j in range(40)]] * 5


@pytest.mark.parametrize(("steps", "held"), [(96, 96), (256, 256), (257, 32), (300, 32)])
def test_few_elements_are_copied_whole(steps: int, held: int) -> None:
    """By 64 threads, four each at most; longer rows come 32 steps at a time."""
    text = """def layers(float(B,N) x, float(M,N) v, float(K,M) w) -> (y, z) {
      y(b,m) +=! x(b,n) * v(m,n)
      z(b,k) +=! y(b,m) * w(k,m)
    }"""
    sizes = {"B": 128, "N": steps, "M": 64, "K": 32}
    explained = tc.explain(text, sizes, backend="cuda", device=tc.Gpu.named("sm_90"))
    found = tiles(explained.trace.lowering.mapped.tree)
    assert {t.tensor: t.shape for t in found if t.scope == "shared"} == {"x": (1, held)}


@pytest.mark.parametrize(
    ("text", "along_x"),
    [
        ("o(j,i) +=! a(k,i,j)", "j mod 32"),
        ("o(j,i) +=! a(k,i,j) * b(k,i)", "j mod 32"),
        ("o(j,i) +=! a(k,j,i) * b(k,i)", "i mod 32"),
        ("o(j,i) = a(0,i,j) * a(1,i,j)", "i mod 32"),
    ],
)
def test_threads_along_x_run_what_a_warp_reads_in_few_sectors(text: str, along_x: str) -> None:
    """Of sums of few steps: neighbours in what is read, though sums are stored across; what a warp
    shares is no reason. What is no sum is tiled, and keeps its loops."""
    sizes = {"K": 6, "M": 640, "N": 640}
    whole = f"def f(float(K,M,N) a, float(K,M) b) -> (o) {{ {text} }}"
    told = tc.explain(whole, sizes, backend="cuda", device=tc.Gpu.named("sm_90"))
    assert f"{along_x} thread x" in to_text(told.trace.lowering.mapped.tree)


@pytest.mark.parametrize("dtype", ["float", "half", "byte", "double"])
@pytest.mark.parametrize(
    ("subscripts", "read"), [("j,i", "i,j"), ("k,j,i", "i,j,k"), ("i,k,j", "k,j,i")]
)
def test_what_is_turned_around_is_in_shared_memory(subscripts: str, read: str, dtype: str) -> None:
    """Neighbours among threads would each ask for a row of their own; the tile has whole sectors
    along both."""
    dims = ",".join(read.upper().split(","))
    text = f"def f({dtype}({dims}) x) -> (o) {{ o({subscripts}) = x({read}) + x({read}) }}"
    sizes = dict(zip("IJK", (100, 70, 90), strict=True))
    if "k" not in read:
        del sizes["K"]
    gpu = tc.Gpu.named("sm_90")
    tree = tc.explain(text, sizes, backend="cuda", device=gpu).trace.lowering.mapped.tree
    (held,) = tiles(tree)
    assert held.scope == "shared"
    assert held.shape[-1] >= 32
    assert max(held.shape[:-1]) == 32


def test_what_lies_along_threads_is_not_in_shared_memory() -> None:
    for text in (
        "def f(float(M,N) x) -> (o) { o(i,j) = x(i,j) }",
        "def f(float(M,K,N) x) -> (o) { o(i,k,j) = x(k,i,j) }",
    ):
        sizes = {"M": 100, "N": 70} | ({"K": 9} if "K" in text else {})
        tree = tc.explain(text, sizes, backend="cuda", device=tc.Gpu.named("sm_90"))
        assert not [*tiles(tree.trace.lowering.mapped.tree)]
