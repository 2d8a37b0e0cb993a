"""What the mapping makes of well-known programs at real sizes, for one fixed processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel.ir import Load, Store, expressions, statements
from tc.options import MappingOptions, Options
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import Node, to_text
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, evaluate_kernel

DEVICE = Device(vector_bits=512, vector_registers=32, l2=1 << 20, threads=2)
EXPECTED = Path(__file__).parent.parent / "expected" / "mapping"

SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "tmm": {"A": (128, 1024), "B": (1024, 1024)},
    "mm": {"A": (512, 4096), "B": (4096, 512)},
    "tbmm": {"X": (500, 26, 72), "Y": (500, 26, 72)},
    "conv2d": {"in": (8, 64, 56, 56), "weight": (64, 64, 3, 3)},
    "gconv": {"I": (32, 32, 16, 14, 14), "W": (32, 16, 16, 3, 3), "B": (32, 16)},
    "maxpool2x2": {"in": (32, 64, 112, 112)},
    "stable_softmax": {"I": (512, 4096)},
    "1LUT": {"LUT1": (1000000, 64), "I1": (128, 50)},
}
TRANSPOSE = "def transpose(float(A,B,C) x) -> (y) { y(c,b,a) = x(a,b,c) }"
PADDED = """
def padded(float(N,C,H,W) x, float(M,C,3,3) w) -> (y) {
  y(n,m,h,v) +=! pad(x(n,c,h+i-1,v+j-1), 0) * w(m,c,i,j) where h in 0:H, v in 0:W
}"""
WEIGHTS = """
def weights(float(N,C,H,W) x, float(N,F,H,W) d) -> (w) {
  w(f,c,i,j) +=! d(n,f,h,v) * pad(x(n,c,h+i-1,v+j-1), 0) where i in 0:3, j in 0:3
}"""
ROWS = "def rows(float(N,K) x, float(M,K) w) -> (y) { y(n,m) +=! x(n,k) * w(m,k) }"
LAYERS = """
def layers(float(B,N) x, float(O,N) v, float(P,O) w) -> (h, y) {
  h(b,o) +=! x(b,n) * v(o,n)
  h(b,o) = fmaxf(h(b,o), 0)
  y(b,p) +=! h(b,o) * w(p,o)
}"""
DOT = "def dot(float(M,K) x, float(M,K) y) -> (s) { s +=! x(i,j) * y(i,j) }"


def trace(text: str, options: Options | None = None, **shapes: tuple[int, ...]) -> Lowering:
    return trace_for(DEVICE, text, options, shapes)


def trace_for(
    device: Device, text: str, options: Options | None, shapes: dict[str, tuple[int, ...]]
) -> Lowering:
    program = checked(text)
    by_name = {n: shapes[n] for n in program.inputs}
    shaped = infer_ranges(program, by_name, {})
    return trace_lowering(
        shaped, {}, initial=frozenset(), check=True, options=options, device=device
    )


def text_of(name: str) -> str:
    folder = Path(__file__).parent.parent / "programs"
    return (folder / f"{name}.tc").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SIZES)
def test_whole_tree(name: str, golden: Callable[[Path, str], None]) -> None:
    mapped = trace(text_of(name), **SIZES[name]).mapped
    golden(EXPECTED / f"{name}.txt", "\n".join((*mapped.notes, to_text(mapped.tree))) + "\n")


def left(lowering: Lowering) -> set[str]:
    """The buffers that the kernel reads or writes."""
    stmts = [s for region in lowering.kernel.regions for s in statements(region)]
    loads = {e.buffer for s in stmts for e in expressions(s) if isinstance(e, Load)}
    return loads | {s.buffer for s in stmts if isinstance(s, Store)}


@pytest.mark.parametrize("name", ["tmm", "mm", "tbmm", "conv2d", "gconv", "maxpool2x2", "1LUT"])
def test_accumulators_are_locals(name: str) -> None:
    assert not any("_acc" in buffer for buffer in left(trace(text_of(name), **SIZES[name])))


def test_temporaries_of_a_row_are_small() -> None:
    kernel = trace(text_of("stable_softmax"), I=(512, 4096)).kernel
    assert [b.name for b in kernel.buffers if b.role == "temporary"] == []
    assert {b.shape for b in kernel.buffers if b.role == "scratch"} <= {(1,), (1, 4096)}


def test_transposes_go_through_blocks() -> None:
    text = tree_of(TRANSPOSE, x=(64, 64, 64))
    assert "promote x to scratch x_block[1x16x16] (copied in)" in text


@pytest.mark.parametrize(
    ("l1", "loops"),
    [
        (32 << 10, "c div 256, a div 16, c mod 256 div 16]"),
        (16 << 10, "c div 128, a div 16, c mod 128 div 16]"),
        (0, "c div 16, a div 16]"),
    ],
)
def test_transposes_run_in_strips(l1: int, loops: str) -> None:
    """Each block of the target takes several blocks of the source: as many as begin lines that fill
    half of the first cache."""
    shaped = infer_ranges(checked(TRANSPOSE), {"x": (64, 64, 1000)}, {})
    device = replace(DEVICE, l1=l1)
    lowering = trace_lowering(shaped, {}, initial=frozenset(), check=True, device=device)
    text = to_text(lowering.mapped.tree).replace(" parallel", "").replace(" *", "")
    assert loops in text


@pytest.mark.parametrize("size", [992, 1000])
def test_reductions_over_transposed_blocks_accumulate_in_registers(size: int) -> None:
    shapes = {"x": (size, size), "y": (size, size)}
    lowering = trace(
        "def f(float(M,K) x, float(K,M) y) -> (s) { s(i) +=! x(i,k) * y(k,i) }", **shapes
    )
    assert "promote y to scratch y_block[16x16] (copied in)" in to_text(lowering.mapped.tree)
    assert [b.name for b in lowering.kernel.buffers if b.role == "scratch"] == ["y_block"]


@pytest.mark.parametrize(
    ("x", "window", "copied"),
    [
        ((8, 64, 56, 56), 14, "1x64x16x64"),  # a quarter of the cache; rows of whole vectors
        ((8, 64, 9, 56), 9, "1x64x11x64"),  # a whole image
        ((1, 64, 56, 56), 7, "1x64x9x64"),  # eight windows for two threads
        ((8, 256, 56, 56), 2, "1x256x4x64"),  # more planes, fewer rows
        ((8, 64, 56, 40), 14, "1x64x16x42"),  # whole vectors would be too long
    ],
)
def test_padding_is_copied_once_for_several_rows(
    x: tuple[int, ...], window: int, copied: str
) -> None:
    text = tree_of(PADDED, x=x, w=(64, x[1], 3, 3))
    assert f"promote x to scratch x_padded[{copied}]" in text
    assert f"h mod {window} *" in text


def test_windows_are_found_as_fast_for_any_number_of_images_and_rows() -> None:
    """In 0.02 s; the best of several, as others use the machine."""
    for x in ((1 << 18, 4, 224, 56), (1, 4, 1 << 21, 56)):
        tries = (trace(PADDED, x=x, w=(64, 4, 3, 3)).seconds["map"] for _ in range(10))
        assert any(seconds < 1.0 for seconds in tries)


def test_padding_is_copied_for_each_row_that_stands_alone() -> None:
    text = tree_of(PADDED, x=(8, 64, 1, 56), w=(64, 64, 3, 3))
    assert "promote x to scratch x_padded[1x64x3x64]" in text
    kernel = trace(PADDED, x=(8, 64, 56, 56), w=(64, 64, 3, 3)).kernel
    (copy,) = (b for b in kernel.buffers if b.name == "x_padded")
    assert copy.shape[1] == 64


def test_padding_of_a_step_of_a_sum_is_copied() -> None:
    """The gradient of the weights of a padded convolution, where a panel of d does not fit into the
    cache: steps along h, whose rows of x, with those beside them, are copied with their padding."""
    text = tree_of(WEIGHTS, x=(8, 64, 56, 56), d=(8, 64, 56, 56))
    steps = text.index("band [h div 2]\n")
    assert steps < text.index("promote x to scratch x_padded[8x32x4x64] (copied in)")
    assert steps < text.index("promote d to scratch d_packed[1x8x2x56x64] (copied in)")


def test_sums_whose_padding_does_not_fit_have_no_steps() -> None:
    text = tree_of(WEIGHTS, x=(8, 256, 56, 56), d=(8, 64, 56, 56))
    assert "h div" not in text


def test_what_is_packed_keeps_its_padding() -> None:
    """Packed panels hold no padding; a padded copy of them would have zeros for it."""
    text = """
def f(float(N,C,H,V) x, float(M,C,K,L) w) -> (y) {
  y(n,m,h,v) +=! pad(x(n,c,3*h+2*i-3,v+3*j-3), 1.5) * w(m,c,i,j) where h in 0:1, v in 0:1
}"""
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (16, 2, 4, 2)), ("w", (7, 2, 4, 3)))
    }
    assert "promote x to temporary x_packed" in tree_of(text, x=(16, 2, 4, 2), w=(7, 2, 4, 3))
    found = evaluate_kernel(text, inputs, device=DEVICE)["y"]
    assert_within(found, tc.interpret(text, inputs), tc.error_bound(text, inputs))


def test_panels_are_packed_by_the_thread_that_uses_them() -> None:
    """Where there are as many panels as threads, or a multiple; else once for all."""
    for panels, kind in ((2, "scratch"), (3, "temporary"), (4, "scratch"), (5, "temporary")):
        options = Options(mapping=MappingOptions(rows=3, vectors=4))
        lowering = trace(ROWS, options, x=(9, 200), w=(64 * panels, 200))
        text = to_text(lowering.mapped.tree)
        assert f"promote w to {kind} w_packed" in text


def test_panels_that_each_iteration_needs_for_itself_are_packed_inside() -> None:
    """What the first layer reads of a batch is its own; the weights of the second are shared."""
    text = tree_of(LAYERS, x=(128, 128), v=(64, 128), w=(32, 64))
    lines = text.splitlines()
    loop = next(i for i, line in enumerate(lines) if "b div 16 parallel" in line)
    (own,) = (i for i, line in enumerate(lines) if "promote x to scratch x_packed" in line)
    (shared,) = (i for i, line in enumerate(lines) if "promote w to temporary w_packed" in line)
    assert shared < loop < own


def test_panels_that_others_read_too_are_packed_inside() -> None:
    """K is read along both of its dimensions: packed for s, in each iteration of b, alone."""
    text = tree_of(
        """def scores(float(B,T,D) Q, float(B,U,D) K) -> (s, m, q) {
          s(b,t,u) +=! Q(b,t,d) * K(b,u,d)
          m(b,u) max=! s(b,t,u)
          q(b,t,d) +=! s(b,t,u) * K(b,u,d)
        }""",
        Q=(8, 96, 64),
        K=(8, 96, 64),
    )
    assert text.startswith("band [b parallel *]")
    assert text.count("K_packed") == 1
    assert "promote K to scratch K_packed" in text


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_what_pieces_of_a_range_read_apart_is_not_packed(lanes: int) -> None:
    """The quotient cuts j at 2: the pieces share loops, in which the second is two elements ahead,
    in the middle of a panel of more."""
    text = """def f(double(J,T,L) c, double(L,I,T) d, double(Q) o) -> (o1) {
      o1(l,i,j) +=! c(j,t,l) * d(l,i,t) * o(j / 2)
    }"""
    device = replace(DEVICE, vector_bits=64 * lanes if lanes > 1 else 0)
    rng = np.random.default_rng(0)
    shapes = {"c": (4, 5, 33), "d": (33, 7, 5), "o": (4,)}
    inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    c, d, o = inputs.values()
    expected = np.einsum("jtl,lit,j->lij", c, d, o[np.arange(4) // 2])
    found = evaluate_kernel(text, inputs, device=device)["o1"]
    assert_within(found, expected, tc.error_bound(text, inputs))


NARROW = replace(DEVICE, unit_bits=256, l2_bytes_per_cycle=24.0)
GROUPED = """
def grouped(float(N,G,C,H,V) x, float(G,F,C,K,L) w) -> (y) {
  y(n,g,f,i,j) +=! x(n,g,c,i+k,j+l) * w(g,f,c,k,l)
}"""
BATCHED = "def batched(float(B,M,K) x, float(B,K,N) w) -> (y) { y(b,m,n) +=! x(b,m,k) * w(b,k,n) }"
REVERSED = (
    "def reversed(float(M,K,B) x, float(N,B,K) w) -> (y) { y(b,m,n) +=! x(m,k,b) * w(n,b,k) }"
)


def lanes_of(text: str, device: Device, **shapes: tuple[int, ...]) -> str:
    """The vectors of the only block, as its note tells."""
    (note,) = trace_for(device, text, None, shapes).mapped.notes
    return note.split("vectors of ")[1].split(";")[0]


@pytest.mark.parametrize(
    ("features", "wide", "narrow"), [(8, "16 along j", "8 along f"), (16, *["16 along f"] * 2)]
)
def test_half_wide_vectors_where_units_are_narrow(features: int, wide: str, narrow: str) -> None:
    """Rows of 26 waste lanes of wide vectors; 16 features do not."""
    shapes = {"x": (32, 32, 8, 28, 28), "w": (32, features, 8, 3, 3)}
    assert lanes_of(GROUPED, DEVICE, **shapes) == wide
    assert lanes_of(GROUPED, NARROW, **shapes) == narrow


@pytest.mark.parametrize(("width", "lanes"), [(8, 8), (24, 8), (40, 8), (52, 16), (64, 16)])
def test_half_wide_vectors_only_against_waste(width: int, lanes: int) -> None:
    """Of many vectors of a row, only the last is shortened."""
    shapes = {"x": (64, 48, 64), "w": (64, 64, width)}
    assert lanes_of(BATCHED, NARROW, **shapes) == f"{lanes} along n"
    assert lanes_of(BATCHED, DEVICE, **shapes).startswith("16 along ")


def test_rows_that_lie_apart_come_from_the_second_cache() -> None:
    """Each element of x is on a line of its own; all these lines are too many for the first cache,
    so that x is packed rather than read row by row."""
    shapes = {"x": (72, 72, 32), "w": (24, 32, 72)}
    assert lanes_of(REVERSED, NARROW, **shapes).endswith(" along m")
    assert not lanes_of(REVERSED, replace(NARROW, l1=1 << 20), **shapes).endswith(" along m")


def test_packed_reads_that_move_with_the_rows() -> None:
    """A panel then holds the elements for one row, so all panels are packed before the loops."""
    options = Options(mapping=MappingOptions(rows=12, vectors=1))
    lowering = trace(REVERSED, options, x=(5, 64, 64), w=(24, 64, 64))
    assert "a register tile of 12 n x 1 vectors" in lowering.mapped.notes[0]
    assert "promote w to temporary w_packed[24x4x64x16]" in to_text(lowering.mapped.tree)


def test_targets_that_would_be_scattered_decide_the_vectors() -> None:
    """Rows of 509 would waste fewer lanes than those of 503; but c, which is read and written
    around the product, is contiguous along j only, which it calls i1."""
    text = """
def scaled(float a, float(M,K) x, float(K,N) w) -> (c) {
  c(i,j) = a * c(i,j)
  c(i,j) += a * x(i,k) * w(k,j)
}"""
    shapes = {"a": (), "x": (509, 521), "w": (521, 503)}
    assert lanes_of(text, NARROW, **shapes) == "16 along i1"


def test_copies_run_in_the_order_of_what_they_read() -> None:
    """Where both sides have whole lines; else the target's order stays."""
    swapped = "def swapped(float(A,B,C,D) x) -> (y) { y(a,c,b,d) = x(a,b,c,d) }"
    assert "[a parallel *, b parallel *, c *" in tree_of(swapped, x=(16, 16, 64, 64))
    assert "[a parallel *, c parallel *, b" in tree_of(swapped, x=(16, 16, 64, 8))
    two = "def two(float(A,B,C) x, float(B,A,C) z) -> (y) { y(b,a,c) = x(a,b,c) + z(b,a,c) }"
    assert "[b parallel *, a" in tree_of(two, x=(64, 64, 64), z=(64, 64, 64))


def test_long_reductions_to_one_element_are_split() -> None:
    lowering = trace(DOT, x=(1000, 1000), y=(1000, 1000))
    assert [s.name for s in lowering.shaped.program.statements] == ["S0.part", "S0"]
    assert "parallel" in to_text(lowering.mapped.tree)


def test_long_sums_along_one_variable_are_shared_by_threads() -> None:
    row = "def row(float(N) x, float(N) y) -> (s) { s +=! x(i) * y(i) }"
    lowering = trace(row, x=(100_001,), y=(100_001,))
    assert "band [i_part div 5 parallel *]" in to_text(lowering.mapped.tree)


SUMS = """
def sums(float(K,N,D) x, float(N,K,D) y, float(N) m) -> (s, t) {
  s(d) +=! x(k,n,d) * (y(n,k,d) - m(n))
  t(d) +=! y(n,k,d)
}"""


def test_sums_of_long_columns_run_through_rows() -> None:
    """Of more memory than the second caches hold, by threads that each have some rows; of less, a
    strip of columns at a time, whose sums are in registers."""
    device = Device(vector_bits=256, l1=32 << 10, l2=512 << 10, l3=8 << 20, threads=2)
    for rows, columns, by_rows in (
        (4096, 512, True),
        (500, 512, False),
        (4000, 64, False),
        (40_000, 64, True),
        (512, 4096, False),
    ):
        half = rows // 2
        shapes = {"x": (2, half, columns), "y": (half, 2, columns), "m": (half,)}
        mapped = trace_for(device, SUMS, None, shapes).mapped
        text = to_text(mapped.tree)
        assert ("band [n_block parallel *" in text) is by_rows, (rows, columns)
        assert mapped.notes[0].startswith("S0.part.init, S1.part.init, S0.part, S1.part") is by_rows


BLUR = """
def blur(float(M,N) x) -> (y) {
  rows(i,j) +=! x(i,j+k) where k in 0:3
  y(i,j) +=! rows(i+k,j) where k in 0:3
}"""
COLUMNS = """
def columns(float(N,D) x) -> (y) {
  m(d) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(d))
  z(d) +=! e(n,d)
  y(n,d) = e(n,d) / z(d)
}"""


@pytest.mark.parametrize(("text", "along"), [(BLUR, "j"), (COLUMNS, "d")])
def test_a_shared_loop_along_the_lines_gives_its_points_to_vectors(text: str, along: str) -> None:
    """What the statements touch lies side by side along the loop that they share: vectors along the
    other would be strided. Fewer points where the temporaries of more would leave the cache, and
    where threads would have nothing to do."""
    for shape, width in (((300, 1000), 64), ((9000, 1000), 16), ((300, 70), 16)):
        mapped = trace(text, x=shape).mapped
        assert f"{width} iterations of {along} at a time" in mapped.notes[0]
        assert all(f" along {along}" in note for note in mapped.notes[1:])
        assert f"{along} div {width} parallel" in to_text(mapped.tree)


def test_temporaries_of_one_nest_take_no_cache_from_a_shared_loop() -> None:
    """The sums that are divided once are in registers; with them, 64 iterations would not fit."""
    divided = BLUR.replace("x(i,j+k)", "x(i,j+k) / 3").replace("rows(i+k,j)", "rows(i+k,j) / 3")
    notes = trace(divided, x=(1800, 2000)).mapped.notes
    assert "64 iterations of j at a time" in notes[0]


def test_a_shared_loop_across_the_lines_is_not_tiled() -> None:
    rows = COLUMNS.replace("m(d)", "m(n)").replace("z(d)", "z(n)")
    assert "[n parallel *] " in tree_of(rows, x=(300, 1000))


def test_options_decide() -> None:
    mapping = MappingOptions(rows=5, vectors=2, pack=False, reduction_tile=100)
    options = Options(mapping=mapping)
    text = to_text(trace(text_of("mm"), options, **SIZES["mm"]).mapped.tree)
    assert "n mod 5 unroll" in text or "i mod 5 unroll" in text
    assert "div 100" in text
    assert "packed" not in text


def tree_of(text: str, **shapes: tuple[int, ...]) -> str:
    node: Node = trace(text, **shapes).mapped.tree
    return to_text(node)
