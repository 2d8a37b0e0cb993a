"""Every term of the chooser's cost model decides: without it, some program has another plan.

A term is taken out by a value under which it says nothing. The devices are fixed, so that plans are
the same on any machine.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from bench.cpu_kernels.table import BY_NAME
from tc.api import explain
from tc.device import Device
from tc.options import Options
from tc.plan import Plan
from tc.polyhedral import lowering
from tc.polyhedral.cpu import (
    buffers,
    chooser,
    costs,
    nest_plan,
    register_tiles,
    transposes,
)  # fmt: skip
from tc.polyhedral.cpu.cpu_target import CpuTarget, cpu_target
from tc.polyhedral.rewrite import inlining, overlapped_tiles, row_blocks, zero_factors
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.target import Decisions
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.sizes_of_call import program_of, shape

WIDE = Device(
    vector_bits=512, vector_registers=32, exponents=True, l1=48 << 10, l2=2 << 20, l3=32 << 20,
    threads=8,
)  # fmt: skip
NARROW_UNITS = replace(
    WIDE, unit_bits=256, l2_bytes_per_cycle=24.0, l1=32 << 10, l2=1 << 20, l3_caches=2, threads=2
)
WIDE_UNITS = replace(WIDE, l2_bytes_per_cycle=48.0, l2=1 << 20, threads=2)
SIXTEEN_REGISTERS = Device(vector_bits=256, l2=256 << 10, threads=4)
LARGE_L2 = Device(vector_bits=256, l2=1 << 20, l3=32 << 20, threads=2)
SMALL = Device(vector_bits=128, fma=False, l3=0)

MM = "def mm(float(128,1024) A, float(1024,1024) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
MM_OF_4 = "def mm(float(99,500) A, float(500,4) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
PRODUCT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TRANSPOSE = "def t(float(N,M) x) -> (o) { o(j,i) = x(i,j) }"
SHUFFLED = """def shuffled(float(68,145) x, float(58,5) y) -> (z) {
  z(i,j) = x(i / 58, j % 5 * 29 + j / 5) * y(i % 58, j % 5) where i in 0:3944, j in 0:145
}"""
WEIGHTS = """def weights(float(N,C,H,W) X, float(N,F,OH,OW) Y) -> (K) {
  K(f,c,i,j) +=! Y(n,f,h,w) * X(n,c,h+i,w+j) where i in 0:3, j in 0:3
}"""
WEIGHTS_SIZES = {"N": 8, "C": 64, "H": 56, "W": 56, "F": 64, "OH": 54, "OW": 54}
ROW_PAIRS = """def pairs(float(B,N,K) X, float(B,M,K) Y) -> (O) {
  O(b,i,j) +=! X(b,i,k) * Y(b,j,k)
}"""
SIDE_BY_SIDE = "def s(float(K,M) A, float(K,N) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }"
SIDE_SIZES = {"K": 500, "M": 500, "N": 600}
SIDE_BY_500 = "def s(float(500,500) A, float(500,600) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }"
CHOICE = """def c(float(500,500) X, float(500,500) Y) -> (o) {
  o(h,w) = w % 2 == 0 ? X(h,w/2) : Y(h,w/2) where w in 0:1000
}"""
FIVE = """def s(double(150,152) a) -> (o) {
  o(i,j) = a(i,j+1) + a(i+1,j) + a(i+1,j+1) + a(i+1,j+2) + a(i+2,j+1)
}"""
REVERSED = "def r(float(71,34,14,12) x) -> (o) { o(d,c,b,a) = x(a,b,c,d) }"
COLUMNS = "def m(float(1500,5000) x) -> (o) { o(j) max=! x(i,j) }"
STRIPES = """def s(float(102,7,1104) X, float(81,102) Y) -> (o) {
  o(a,g,c) +=! X(h,c,g) * Y(a,h)
}"""
SIX_LOOPS = """def s(float(24,12,24,24) X, float(24,12,12,12) Y) -> (o) {
  o(a,b,c,i,j,k) +=! X(i,j,m,a) * Y(m,k,b,c)
}"""
CLOSE = """def s(float(22,24,25,21,26) X, float(21,24) Y) -> (o) {
  o(a,c,d) +=! X(a,b,c,j,d) * Y(j,b)
}"""
APART = """def s(float(20,24,20,20,24) X, float(20,24) Y) -> (o) {
  o(d,c,j,b,a) +=! X(c,a,b,k,d) * Y(k,j)
}"""
NO_L3 = replace(NARROW_UNITS, l3=0)
_NINE = " + ".join(f"{n}.5 * a(i+{n % 3},j+{n})" for n in range(9))
TWO_SUMS = f"""def f(float(N,M) x) -> (o) {{
  a(i,j) = x(i,j) * x(i,j+1) - x(i,j+2) * x(i,j+3)  o(i,j) = {_NINE}
}}"""

LONG_COLUMNS = "def f(float(A,I,J) X, float(A,I) p) -> (y) { y(j) +=! X(a,i,j) * p(a,i) }"
BOTH_WAYS = """def f(float(I,J) A, float(J) p, float(I) q) -> (x, y) {
  x(i) +=! A(i,j) * p(j)
  y(j) +=! A(i,j) * q(i)
}"""
EVERY_OTHER = """def f(float(N,8,H,H) x, float(8,8,3,3) w) -> (r) {
  r(n,o,y,z) +=! ((y+1-k) % 2 == 0 && (z+1-l) % 2 == 0 ? pad(x(n,c,(y+1-k)/2,(z+1-l)/2), 0) : 0)
    * w(c,o,k,l) where y in 0:2*H, z in 0:2*H
}"""
BLURRED = """def f(float(N,N) x) -> (o) {
  a(i,j) = x(i,j) + x(i,j+1) + x(i,j+2)
  b(i,j) = a(i,j) + a(i+1,j) + a(i+2,j)
  o(i,j) = b(i,j) + b(i+1,j) + b(i,j+1) + b(i+1,j+1)
}"""
PLACES = " + ".join(f"d(i+1,j+2,k+3,l+{n})" for n in range(40))
MANY_PLACES = f"""def f(float(N,N,N,N) x) -> (o) {{
  d(i,j,k,l) = x(i+1,j+1,k+1,l+1) - x(i,j,k,l)
  o(i,j,k,l) = {PLACES}
}}"""
TRANSPOSES = "def t(float(B,N,M) x) -> (o) { o(b,j,i) = x(b,i,j) }"


def plan(program: str, target: CpuTarget, **sizes: int) -> Plan:
    """The plan of a text, or of a kernel of the bench by its name."""
    kernel = BY_NAME.get(program)
    if kernel is None:
        shaped = shape(program, None, **sizes)
    else:
        shapes = {name: dims for name, dims in kernel.shapes.items() if name not in kernel.scalars}
        shaped = infer_ranges(program_of(kernel.text), shapes, kernel.scalars)
    how: dict[str, Any] = {"initial": frozenset(), "check": True, "options": Options()}
    return lowering.plan_for(shaped, {}, target, **how)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("term", "nothing", "program", "device"),
    [
        ("issue_slots", 0.0, "tmm 128x32x256", WIDE),
        ("masked_factor", 1.0, "maxpool2x2 32x64x112x112", NARROW_UNITS),
        ("masked_gather_factor", 1.1, REVERSED, NARROW_UNITS),
        ("packing_slots", 0.1, "tmm 128x1024x1024", WIDE),
        ("transposing_slots", 100.0, "sum_log 1000x1000", WIDE),
        ("staged_slots", 0.0, "tmm 128x32x256", WIDE),
        ("scattered_slots", 2.0, SHUFFLED, WIDE),
        ("regrouped_slots", 100.0, STRIPES, WIDE),
        ("split_line_cycles", 0.0, FIVE, WIDE_UNITS),
        ("stream_switch_slots", 0.0, COLUMNS, WIDE),
        ("unprefetched_factor", 1.0, MM, LARGE_L2),
        ("lines_factor", 1.0, CLOSE, NARROW_UNITS),
        ("combining_slots", 0.0, "tmm 128x1024x1024", WIDE),
        ("spilled_factor", 1.0, "MLP1 127x1999x131", SIXTEEN_REGISTERS),
        ("tie_factor", 1.0, "conv2d_pad 8x64x56x56,64x64x3x3", WIDE),
        ("packing_span_bytes", 0, "outerProductMM 64x16x32x32x64", WIDE),
        ("interleaved_factor", 1.0, CHOICE, WIDE),
        ("packing_reads", 1e9, SIDE_BY_500, NARROW_UNITS),
        ("copying_multiply_adds", 0.0, "conv2d_pad 3x13x53x53,17x13x3x3", SIXTEEN_REGISTERS),
    ],
)
def test_costs(term: str, nothing: float, program: str, device: Device) -> None:
    target = cpu_target(device)
    without = replace(target, costs=replace(target.costs, **{term: nothing}))
    assert plan(program, without) != plan(program, target)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("term", "times", "program", "device"),
    [
        ("issue_slots", 4, "tmm 128x32x256", WIDE),
        ("issue_slots", 1 / 4, "tmm 128x32x256", WIDE),
        ("masked_factor", 1 / 4, "c3 128x1024x1000", SMALL),
        ("masked_gather_factor", 1 / 4, REVERSED, NARROW_UNITS),
        ("packing_slots", 4, "MLP1 127x1999x131", SMALL),
        ("packing_slots", 1 / 4, "tmm 128x1024x1024", WIDE),
        ("transposing_slots", 4, "sum_log 1000x1000", WIDE),
        ("staged_slots", 4, "conv2d 8x64x56x56,64x64x3x3", SMALL),
        ("staged_slots", 1 / 4, "tmm 128x32x256", WIDE),
        ("scattered_slots", 1 / 4, SHUFFLED, WIDE),
        ("regrouped_slots", 4, STRIPES, WIDE),
        ("regrouped_slots", 1 / 4, SIX_LOOPS, WIDE),
        ("split_line_cycles", 1 / 4, FIVE, WIDE_UNITS),
        ("lines_factor", 4, APART, NARROW_UNITS),
        ("lines_factor", 1 / 4, CLOSE, NARROW_UNITS),
        ("combining_slots", 1 / 4, "tmm 128x1024x1024", WIDE),
        ("spilled_factor", 1 / 4, "MLP1 127x1999x131", SIXTEEN_REGISTERS),
        ("tie_factor", 4, "MLP1 127x1999x131", WIDE),
        ("tie_factor", 1 / 4, "conv2d_pad 8x64x56x56,64x64x3x3", WIDE),
        ("interleaved_factor", 4, CHOICE, WIDE),
        ("unprefetched_factor", 1 / 4, MM, LARGE_L2),
        ("stream_switch_slots", 0.25, COLUMNS, WIDE),
        ("packing_reads", 4, SIDE_BY_500, NARROW_UNITS),
        ("copying_multiply_adds", 1 / 4, "conv2d_pad 3x13x53x53,17x13x3x3", SIXTEEN_REGISTERS),
    ],
)
def test_four_times_the_cost(term: str, times: float, program: str, device: Device) -> None:
    """Or a quarter of it."""
    target = cpu_target(device)
    changed = replace(target.costs, **{term: times * getattr(target.costs, term)})
    assert plan(program, replace(target, costs=changed)) != plan(program, target)


@pytest.mark.parametrize(
    ("field", "other", "program", "device"),
    [
        ("l2_bytes_per_cycle", 1e9, "bmm_rev 31x67x61x71", SMALL),
        ("l3_bytes_per_cycle", 1e9, "tmm 128x1024x1024", SIXTEEN_REGISTERS),
        ("memory_bytes_per_cycle", 24.0, "gconv 32x32x16x16x14x14", SMALL),
        ("fma_latency", 1, "gconv 32x32x8x8x28x28", SIXTEEN_REGISTERS),
        ("fma_per_cycle", 1, "bmm_rev 31x67x61x71", SMALL),
        ("page", 1 << 40, MM, LARGE_L2),
        ("line", 128, "layernorm 1021x1019", WIDE),
        ("unit_bits", 0, "gconv 32x32x8x8x28x28", NARROW_UNITS),
        ("vector_registers", 64, "tmm 128x32x256", WIDE),
    ],
)
def test_what_a_device_says(field: str, other: float, program: str, device: Device) -> None:
    changed = replace(device, **{field: other})  # type: ignore[arg-type]
    assert plan(program, cpu_target(changed)) != plan(program, cpu_target(device))


@pytest.mark.parametrize(
    ("module", "name", "other", "program", "device", "sizes"),
    [
        (register_tiles, "MAX_VECTORS", 4, "bmm_rev 31x67x61x71", WIDE, {}),
        (register_tiles, "MAX_COLUMNS", 1, MM_OF_4, WIDE, {}),
        (register_tiles, "COMBINED", 1, PRODUCT, WIDE, {"M": 500, "K": 64, "N": 5}),
        (register_tiles, "MAX_ROWS", 2, "tmm 128x32x256", WIDE, {}),
        (register_tiles, "FEW_TILES", 16, PRODUCT, WIDE, {"M": 300, "K": 200, "N": 30}),
        (register_tiles, "FEW_TILES", 1, PRODUCT, WIDE, {"M": 17, "K": 1000, "N": 4}),
        (costs, "SHORT", 0, "conv2d 8x64x56x56,64x64x3x3", WIDE, {}),
        (nest_plan, "SHORT", 0, "maxpool2x2 32x64x112x112", WIDE, {}),
        (nest_plan, "LEAST_STEPS", 1 << 40, WEIGHTS, WIDE, WEIGHTS_SIZES),
        (buffers, "PARTS", 1, "conv2d_pad 3x13x53x53,17x13x3x3", WIDE, {}),
        (buffers, "WIDENED", 1, "conv2d_pad 3x13x53x53,17x13x3x3", WIDE, {}),
        (buffers, "MIN_PARTS", 1, "tmm 128x32x256", WIDE, {}),
        (chooser, "MIN_PARTS", 1 << 40, "mttkrp 128x128x128x32", WIDE, {}),
        (chooser, "NEST_ROWS", 8, "MLP3 128x128x64x32x2", NARROW_UNITS, {}),
        (chooser, "NEST_WIDTH", 16, "mttkrp 128x128x128x32", WIDE, {}),
        (transposes, "READ", 1 << 40, TRANSPOSE, WIDE, {"N": 61, "M": 600007}),
        (transposes, "WRITTEN", 1 << 40, TRANSPOSE, WIDE, {"N": 6007, "M": 6011}),
        (transposes, "MIN_STRETCH_LINES", 0, TRANSPOSES, WIDE, {"B": 100003, "N": 5, "M": 19}),
        # four times as many, and a quarter
        (register_tiles, "MAX_VECTORS", 32, "layernorm 1021x1019", WIDE, {}),
        (register_tiles, "COMBINED", 16, PRODUCT, WIDE, {"M": 500, "K": 64, "N": 4}),
        (
            register_tiles,
            "MIN_VECTORS_BEFORE_SHORT",
            16,
            PRODUCT,
            NARROW_UNITS,
            {"M": 64, "K": 64, "N": 52},
        ),
        (
            register_tiles,
            "MIN_VECTORS_BEFORE_SHORT",
            1,
            PRODUCT,
            NARROW_UNITS,
            {"M": 64, "K": 64, "N": 34},
        ),
        (buffers, "PARTS", 16, "conv2d_pad 3x13x53x53,17x13x3x3", WIDE, {}),
        (buffers, "WIDENED", 32, "conv2d_pad 8x64x56x56,64x64x3x3", WIDE, {}),
        (buffers, "WIDENED", 2, "conv2d_pad 3x13x53x53,17x13x3x3", WIDE, {}),
        (buffers, "MIN_PARTS", 2, "tmm 128x32x256", WIDE, {}),
        (chooser, "NEST_ROWS", 64, "MLP3 128x128x64x32x2", NARROW_UNITS, {}),
        (chooser, "NEST_ROWS", 4, "MLP3 128x128x64x32x2", NARROW_UNITS, {}),
        (chooser, "MOST_ROWS", 32, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (chooser, "MOST_ROWS", 2, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (chooser, "UNEVEN", 1, LONG_COLUMNS, NARROW_UNITS, {"A": 286, "I": 156, "J": 156}),
        (chooser, "UNEVEN", 8, LONG_COLUMNS, NARROW_UNITS, {"A": 286, "I": 154, "J": 156}),
        (transposes, "READ", 1 << 14, TRANSPOSE, WIDE, {"N": 61, "M": 600007}),
        (transposes, "READ", 1 << 10, TRANSPOSE, WIDE, {"N": 61, "M": 600007}),
        (transposes, "WRITTEN", 1 << 13, TRANSPOSE, WIDE, {"N": 6007, "M": 6011}),
        (transposes, "WRITTEN", 1 << 9, TRANSPOSE, WIDE, {"N": 6007, "M": 6011}),
        (transposes, "MIN_STRETCH_LINES", 64, TRANSPOSE, WIDE, {"N": 6007, "M": 6011}),
        (row_blocks, "BLOCKS", 128, BOTH_WAYS, WIDE, {"I": 60000, "J": 500}),
        (row_blocks, "BLOCKS", 8, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (row_blocks, "LEAST_ROWS", 256, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (row_blocks, "LEAST_ROWS", 16, BOTH_WAYS, NARROW_UNITS, {"I": 700, "J": 3000}),
        (row_blocks, "LEAST_BLOCKS", 32, BOTH_WAYS, NARROW_UNITS, {"I": 700, "J": 3000}),
        (row_blocks, "LEAST_BLOCKS", 2, BOTH_WAYS, NARROW_UNITS, {"I": 400, "J": 3000}),
        (row_blocks, "STEP", 32, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (row_blocks, "STEP", 2, BOTH_WAYS, WIDE, {"I": 5500, "J": 5500}),
        (zero_factors, "LEAST_SHARE", 32, EVERY_OTHER, WIDE, {"N": 1, "H": 4}),
        (zero_factors, "LEAST_SHARE", 2, EVERY_OTHER, WIDE, {"N": 1, "H": 2}),
        (inlining, "MAX_NODES", 1 << 8, BLURRED, WIDE, {"N": 4000}),
        (inlining, "MAX_NODES", 1 << 12, MANY_PLACES, WIDE, {"N": 80}),
        (overlapped_tiles, "LEAST_TILES", 64, TWO_SUMS, NO_L3, {"N": 50, "M": 20000}),
        (overlapped_tiles, "LEAST_TILES", 4, TWO_SUMS, NO_L3, {"N": 14, "M": 20000}),
    ],
)
def test_limits(
    module: ModuleType,
    name: str,
    other: int,
    program: str,
    device: Device,
    sizes: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = plan(program, cpu_target(device), **sizes)
    monkeypatch.setattr(module, name, other)
    assert plan(program, cpu_target(device), **sizes) != before


@pytest.mark.parametrize(("steps", "may_be"), [(64, True), (65, False)])
def test_sums_that_a_search_may_unroll(steps: int, may_be: bool) -> None:
    decisions = Decisions({})
    plan(PRODUCT, replace(cpu_target(WIDE), decider=decisions), M=64, K=steps, N=64)
    assert any("reduction unrolled" in name for name in decisions.asked) == may_be


def test_rows_that_read_the_same_places_share_them() -> None:
    """Of a transposed convolution, as it is written, each second row reads the same elements of K:
    the rows are along w. Vectors along w would gather them."""
    text = """def f(float(N,C,H,W) X, float(C,M,2,2) K) -> (O) {
      O(n,m,h,w) +=! X(n,c,h/2,w/2) * K(c,m,h%2,w%2) where h in 0:H*2, w in 0:W*2
    }"""
    target = replace(cpu_target(NARROW_UNITS), rewriting=Thresholds(residues=0))
    found = str(plan(text, target, N=1, C=46, H=67, W=44, M=39))
    assert '"bind": "m mod 16", "role": "vector"' in found
    assert '"bind": "w mod 16", "role": "unroll"' in found


@pytest.mark.parametrize(
    ("device", "other"),
    [
        (SIXTEEN_REGISTERS, replace(SIXTEEN_REGISTERS, l1=1 << 40)),
        (SIXTEEN_REGISTERS, replace(SIXTEEN_REGISTERS, l3_bytes_per_cycle=48.0)),
    ],
)
def test_what_reductions_read_comes_from_afar(device: Device, other: Device) -> None:
    """Along a reduction, each tile reads all of it again: where no cache near has it, vectors are
    along j, for which Y is packed; else along k."""
    sizes = {"B": 16, "N": 16, "K": 9000, "M": 28}
    plans = [plan(ROW_PAIRS, cpu_target(each), **sizes).to_json() for each in (device, other)]
    vectors = [re.findall('"bind": "(.) [^"]*", "role": "vector"', text) for text in plans]
    assert vectors == [["j"], ["k"]]


def test_long_sums_over_several_loops_are_cut() -> None:
    """The panels of Y, 6 MB in all, are packed and read in parts that stay in the cache. Where
    there are few panels, each thread has part of the rows."""
    found = str(plan(WEIGHTS, cpu_target(NARROW_UNITS), **WEIGHTS_SIZES))
    assert '{"tile": "h", "sizes": [2]}' in found
    assert '"scope": "scratch", "inside": "h div 2"' in found
    assert [found.count(f'"{x}", "role": "parallel"') for x in ("f div 64", "c div 32")] == [1, 1]


def test_rows_are_not_cut_where_panels_suffice() -> None:
    """Each of two threads has one panel of two."""
    found = str(plan(WEIGHTS, cpu_target(NARROW_UNITS), **(WEIGHTS_SIZES | {"F": 128})))
    assert '"f div 64", "role": "parallel"' in found
    assert '"c div 4", "sizes"' not in found


def test_tiles_of_shared_loops_are_even() -> None:
    """Of 65 iterations a tile of 64 would leave one, for which as much is computed."""
    text = """def f(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
      state(b,d,e) +=! K(b,u,d) * V(b,u,e)
      O(b,t,e) +=! Q(b,t,d) * state(b,d,e)
    }"""
    found = str(plan(text, cpu_target(NARROW_UNITS), B=16, T=460, S=572, D=53, E=65))
    assert '{"tile": "e", "sizes": [80]}' in found


PACKED_ROWS = '{"promote": "A", "scope": "temporary", "axes": [[1, '


def packs_rows(device: Device, text: str = SIDE_BY_SIDE, **sizes: int) -> bool:
    return PACKED_ROWS in str(plan(text, cpu_target(device), **(SIDE_SIZES | sizes)))


def test_rows_side_by_side_are_packed() -> None:
    """Each of 500 steps reads a line of A of its own, and 512 are all that 32 KiB hold."""
    assert packs_rows(NARROW_UNITS)
    assert not packs_rows(replace(NARROW_UNITS, l1=1 << 20))


@pytest.mark.parametrize("order", ["float(500,4) B", "float(4,500) B"])
def test_all_of_a_short_loop_is_in_a_tile(order: str) -> None:
    """Along k, a vector of A serves all columns of C, and a vector of B all rows of a tile; B is
    packed where k is not contiguous in B."""
    subscripts = "k,j" if order.startswith("float(500") else "j,k"
    text = f"def f(float(99,500) A, {order}) -> (C) {{ C(i,j) +=! A(i,k) * B({subscripts}) }}"
    found = str(plan(text, cpu_target(WIDE)))
    assert '"bind": "j mod 4", "role": "unroll"' in found
    assert '"bind": "k mod 16", "role": "vector"' in found
    assert ('"promote": "B", "scope": "temporary"' in found) == (subscripts == "k,j")


BY_ROWS = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(i,j) +=! A(i,k) * B(j,k) }"


def test_some_of_a_longer_loop_are_columns() -> None:
    """Both lie along k: of tiles with rows alone, each vector of A would be loaded for a few rows
    of B. A is smaller, so its loop stands inside: what is read of B stays in a cache."""
    found = str(plan(BY_ROWS, cpu_target(NARROW_UNITS), M=17, K=2000, N=640))
    assert '"tile": "i", "sizes": [6]' in found
    assert '"tile": "j", "sizes": [4]' in found
    assert '"reorder": ["j div 4", "i div 6"' in found
    exchanged = str(plan(BY_ROWS, cpu_target(NARROW_UNITS), M=640, K=2000, N=17))
    assert '"reorder": ["i div 4", "j div 6"' in exchanged


@pytest.mark.parametrize("name", ["the size of what is read again", "lines that share sets"])
def test_what_tiles_with_columns_cost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller operand is read once more for each tile of the other: from where all of it lies.
    And rows of 16 KiB lie in the same sets of the first cache: 11 of them are too many for 8."""
    k, m, n = (2000, 100, 640) if name.startswith("the size") else (4096, 31, 33)
    assert '"bind": "k mod 16"' not in str(plan(BY_ROWS, cpu_target(NARROW_UNITS), M=m, K=k, N=n))
    if name.startswith("the size"):
        monkeypatch.setattr(register_tiles._Model, "_size", lambda *_: 0)
    else:
        monkeypatch.setattr(costs, "fullest_set", lambda *_: 0)
    assert '"bind": "k mod 16"' in str(plan(BY_ROWS, cpu_target(NARROW_UNITS), M=m, K=k, N=n))


def test_some_columns_of_what_is_packed() -> None:
    """B is read across its rows, and packed once, along k, for all tiles: those of some columns of
    a longer loop read it from a cache, which a larger B leaves."""
    rows_beside_columns = '"tile": "i"'
    assert rows_beside_columns in product(WIDE_UNITS, 129, 1000, 17)
    assert rows_beside_columns not in product(replace(WIDE_UNITS, l2=64 << 10), 129, 1000, 17)


def test_tiles_that_wait_for_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comes from memory. Of two tiles of columns one fetches the rows of A, and the other one
    finds them: vectors along j, with all columns in a tile, fetch while they compute."""
    sizes = (WIDE_UNITS, 4096, 4096, 16)
    assert '"bind": "j mod 16", "role": "vector"' in product(*sizes)
    monkeypatch.setattr(buffers.NestBuffers, "_waiting_slots", lambda *_: 0.0)
    assert '"bind": "k mod 16", "role": "vector"' in product(*sizes)


def product(device: Device, m: int, k: int, n: int) -> str:
    """The plan of a product of two matrices."""
    return str(plan(PRODUCT, cpu_target(device), M=m, K=k, N=n))


def test_targets_that_are_not_staged_are_scattered() -> None:
    """Vectors along i need a place for 64 rows of C, of which 1 MB of cache does not hold any."""
    assert '"bind": "j mod 16", "role": "vector"' in product(NARROW_UNITS, 64, 64, 4096)
    large = replace(NARROW_UNITS, l2=8 << 20)
    assert '"bind": "i mod 16", "role": "vector"' in product(large, 64, 64, 4096)


def test_targets_of_short_sums_are_written_from_end_to_end() -> None:
    """The loop over panels is inside of that over rows where C is larger than the second cache,
    which holds B."""
    rows = '"reorder": ["i div 6", "j div 64"'
    assert rows in product(NARROW_UNITS, 2048, 17, 2048)
    assert rows not in product(NARROW_UNITS, 100, 17, 2048)  # C is 0.8 MB
    assert rows not in product(replace(NARROW_UNITS, l2=256 << 10), 2048, 17, 2048)


def test_rows_of_one_set() -> None:
    """Rows of A that are a page apart lie in one set of the first cache, which holds eight lines of
    each. Rows of 4000 floats lie in 32 sets."""
    assert '{"tile": "i", "sizes": [8]}' in product(NARROW_UNITS, 64, 4096, 16)
    assert '{"tile": "i", "sizes": [16]}' in product(NARROW_UNITS, 64, 4000, 16)
    more = replace(NARROW_UNITS, l1=64 << 10)
    assert '{"tile": "i", "sizes": [16]}' in product(more, 64, 4096, 16)


def test_a_tile_of_rows_that_reads_what_would_be_packed() -> None:
    """One tile of 16 rows, or two of 9, read B a few times: it is packed only where its rows are a
    page apart."""
    packed = '"promote": "B"'
    assert packed not in product(NARROW_UNITS, 18, 4096, 129)
    assert packed in product(replace(NARROW_UNITS, page=512), 18, 4096, 129)
    assert packed in product(NARROW_UNITS, 18, 4096, 1024)
    assert packed not in product(replace(NARROW_UNITS, page=8192), 18, 4096, 1024)


def test_lines_a_page_apart_beyond_the_second_cache() -> None:
    """With vectors along i, each step of a tile reads a line of B in another page."""
    assert '"bind": "j mod 16", "role": "vector"' in product(NARROW_UNITS, 64, 4096, 1024)
    large = replace(NARROW_UNITS, l2=32 << 20)
    assert '"bind": "i mod 16", "role": "vector"' in product(large, 64, 4096, 1024)


def test_lines_of_few_sets() -> None:
    """Rows of 2 KiB begin in two of 64 sets, of which the cache has 16 lines."""
    assert packs_rows(NARROW_UNITS, K=64, M=512, N=1024)
    assert not packs_rows(NARROW_UNITS, K=64, M=500, N=1024)
    assert not packs_rows(replace(NARROW_UNITS, page=64), K=64, M=512, N=1024)


def test_rows_that_few_panels_read() -> None:
    assert not packs_rows(NARROW_UNITS, N=64)


def test_rows_that_would_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles with vectors along i and along j are as good, but B is packed for rows of j in a pass
    of its own: 1024 x 4096 x 2048 takes 62 ms so, and 52 with vectors along j (an Intel Xeon)."""
    device = replace(WIDE_UNITS, l2=2 << 20, l3=260 << 20, l3_bytes_per_cycle=24.0)
    sizes = {"M": 1024, "K": 4096, "N": 2048}

    def packed() -> bool:
        notes = explain(PRODUCT, sizes, device=device).stages["mapping"]
        return "B is packed in the order of the rows" in notes

    assert not packed()
    monkeypatch.setattr(buffers.NestBuffers, "row_packing_slots", 0.0)
    assert packed()


def test_rows_that_lie_apart() -> None:
    """Sums along rows of A read lines from end to end."""
    text = SIDE_BY_SIDE.replace("float(K,M) A", "float(M,K) A").replace("A(k,i)", "A(i,k)")
    assert not packs_rows(NARROW_UNITS, text)


def rows_of_stencil(text: str, device: Device, **sizes: int) -> int:
    """How many rows the register tile of the last statement has."""
    mapping = explain(text, sizes, device=device).stages["mapping"]
    found = re.findall(r"a register tile of (\d+) i x", mapping)
    return int(found[-1]) if found else 1


CROSS = "a(i,j+1) + a(i+1,j) + a(i+1,j+1) + a(i+1,j+2) + a(i+2,j+1)"


@pytest.mark.parametrize(
    ("body", "l1", "rows"),
    [
        (CROSS, 32 << 10, 6),  # 8 rows are read, and a page has 8 lines for each set
        (CROSS, 48 << 10, 5),  # of two vectors
        (CROSS, 16 << 10, 2),
        (CROSS, 8 << 10, 1),
        ("a(i,j) + a(i,j+1) + a(i,j+2)", 32 << 10, 1),  # no other row reads these
        ("a(i,j) + b(j)", 32 << 10, 1),
        ("a(i,j) + (i > 3 ? a(i+1,j) : 0)", 32 << 10, 1),  # which not all rows read
    ],
)
def test_rows_of_a_stencil_share_what_they_read(body: str, l1: int, rows: int) -> None:
    where = " where i in 0:600" if "?" in body else ""
    head = "float(N,M) a, float(M) b" if "b" in body else "float(N,M) a"
    text = f"def f({head}) -> (o) {{ o(i,j) = {body}{where} }}"
    device = replace(NARROW_UNITS, l1=l1)
    assert rows_of_stencil(text, device, N=602, M=640) == rows


@pytest.mark.parametrize(
    ("device", "columns", "shares"),
    [
        (WIDE_UNITS, 150, False),
        (WIDE_UNITS, 20, True),  # the first cache holds what is written
        (NARROW_UNITS, 150, True),  # a vector is stored in two halves
        (replace(WIDE_UNITS, vector_bits=256), 150, True),  # two vectors are a line
    ],
)
def test_rows_whose_stores_wait_for_lines(device: Device, columns: int, shares: bool) -> None:
    """Sums of five doubles take 0.38 ns each row by row, and 0.62 in tiles of rows (an Intel Xeon
    with units as wide as its vectors, which are lines)."""
    text = FIVE.replace("double(150,152)", "double(N,M)")
    assert (rows_of_stencil(text, device, N=152, M=columns + 2) > 1) == shares


def test_registers_hold_what_a_row_of_a_stencil_reads() -> None:
    """25 vectors, for which 16 registers are too few."""
    terms = " + ".join(f"a(i+{n // 5},j+{n % 5})" for n in range(25))
    text = f"def f(float(N,M) a) -> (o) {{ o(i,j) = {terms} }}"
    many = replace(NARROW_UNITS, unit_bits=512)
    assert rows_of_stencil(text, many, N=604, M=644) > 1
    assert rows_of_stencil(text, replace(many, vector_registers=16), N=604, M=644) == 1


def test_rows_that_read_nothing_share_nothing() -> None:
    text = "def f(float(N,M) a) -> (o) { o(i,j) = 2 where i in 0:N, j in 0:M }"
    assert rows_of_stencil(text, NARROW_UNITS, N=600, M=640) == 1


@pytest.mark.parametrize(("where", "is_buffered"), [("0:N", True), ("1:N-3", False)])
def test_parts_of_a_transpose_have_no_tiles_for_a_buffer(where: str, is_buffered: bool) -> None:
    """What is not written keeps the caller's values: of 6007 x 6011 floats, all but four columns
    take 27 ms in strips and 30 in tiles for a buffer, which is refused (one thread of a Zen 4)."""
    text = "def t(float(N,M) x, float(M,N) d) -> (float(M,N) o) { o(j,i) = x(i,j) where i in "
    shaped = shape(f"{text}{where} }}", None, N=6007, M=6011)
    target, initial = cpu_target(WIDE), frozenset({"o"})
    found = lowering.trace_lowering(shaped, {}, target, initial=initial, check=True).mapped.plan
    assert ('{"tile": "i div 16", "sizes": [32]}' in str(found)) == is_buffered
