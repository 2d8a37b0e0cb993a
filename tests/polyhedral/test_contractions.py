"""Generated contractions: groups of loops in each operand, sums, batches, in all layouts, by the
plans that the chooser makes for caches so small that packs, digits and steps decide, and by
decisions taken at random. Arrays end at, or begin after, pages that nobody may touch."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import numpy as np
import pytest

import tc
from tc.device import Device, host
from tc.pipeline import target_of
from tc.plan import Plan
from tc.polyhedral.cpu import buffers, register_tiles
from tc.polyhedral.lowering import trace_lowering
from tc.polyhedral.schedule import to_text
from tc.polyhedral.target import Decisions
from tests.support.bounds import assert_computes
from tests.support.guarded import Array, copy_at_edge
from tests.support.pipeline import checked, shaped
from tests.support.sizes_of_call import shape

TINY = Device(vector_bits=256, l1=1 << 10, l2=12 << 10, l3=64 << 10, threads=2)
ZEN4 = Device(
    vector_bits=512, unit_bits=256, vector_registers=32, l2=1 << 20, l3=32 << 20, threads=2,
    l2_bytes_per_cycle=24.0,
)  # fmt: skip
MOST_INSTANCES, MOST_ELEMENTS = 1 << 21, 1 << 18


class Contraction:
    """A sum of products of two operands, whose loops are drawn: some in the result and one operand,
    some summed, some in all three."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        counts = [
            rng.choice((0, 1, 1, 2, 2, 3, 4)),
            rng.choice((0, 1, 1, 2, 3)),
            rng.choice((0, 1, 1, 2)),
        ]
        batch = rng.choice((0, 0, 1))
        names = iter("abcdefghijklmn")
        left, right, summed, both = ([next(names) for _ in range(n)] for n in (*counts, batch))
        self.sizes = {n: rng.randint(1, 70) for n in (*left, *right, *summed, *both)}
        operands = {"X": left + summed + both, "Y": right + summed + both, "O": left + right + both}
        while self._is_large(operands):
            name = max(self.sizes, key=lambda n: (self.sizes[n], rng.random()))
            self.sizes[name] = rng.randint(1, self.sizes[name] - 1)
        self.loops = {t: rng.sample(own, len(own)) for t, own in operands.items()}
        dtype = rng.choice(("float", "float", "double"))
        self.dtype = {"float": np.float32, "double": np.float64}[dtype]
        op = "+=!" if summed or rng.random() < 0.7 else "="
        a, b, c = (f"{t}({','.join(self.loops[t])})" for t in "XYO")
        factors = [a, b] if rng.random() < 0.5 else [b, a]
        declared = ", ".join(
            f"{dtype}({','.join(n.upper() for n in self.loops[t])}) {t}" for t in "XY"
        )
        self.text = f"def f({declared}) -> (O) {{ {c} {op} {' * '.join(factors)} }}"
        self.edge = rng.choice(("ends", "begins"))
        self.rng = rng

    def _is_large(self, operands: dict[str, list[str]]) -> bool:
        elements = [prod(self.sizes[n] for n in own) for own in operands.values()]
        return prod(self.sizes.values()) > MOST_INSTANCES or max(elements) > MOST_ELEMENTS

    def inputs(self) -> list[Array]:
        rng = np.random.default_rng(self.rng.randint(0, 1 << 30))
        shapes = ([self.sizes[n] for n in self.loops[t]] for t in "XY")
        return [copy_at_edge(rng.standard_normal(s).astype(self.dtype), self.edge) for s in shapes]

    def plan(self, device: Device, wanted: dict[str, str]) -> tuple[Plan, Decisions]:
        """The plan for a device, with these decisions; statements are rewritten as for the host,
        so that the plan has its names."""
        decisions = Decisions(wanted)
        rewriting = target_of(host()).rewriting
        target = replace(target_of(device), decider=decisions, rewriting=rewriting)
        shape = {t: tuple(self.sizes[n] for n in self.loops[t]) for t in "XY"}
        program = checked(self.text, "f")
        arrays = {t: np.empty(s, self.dtype) for t, s in shape.items()}
        how = {"initial": frozenset[str](), "check": True}
        return trace_lowering(shaped(program, arrays), {}, target, **how).mapped.plan, decisions

    def drawn(self, device: Device) -> Plan:
        """A plan for decisions at random, each of those that follow from the others."""
        wanted: dict[str, str] = {}
        for _ in range(3):
            _, decisions = self.plan(device, wanted)
            for name, asked in decisions.asked.items():
                if self.rng.random() < 0.5:
                    wanted.setdefault(name, self.rng.choice(asked.values))
        return self.plan(device, wanted)[0]

    def check(self, plan: Plan) -> None:
        """Fails unless the compiled plan computes what numpy does, within the bound."""
        inputs = self.inputs()
        equation = ",".join("".join(self.loops[t]) for t in "XY") + "->" + "".join(self.loops["O"])
        wanted = np.einsum(equation, *(x.astype(np.float64) for x in inputs), optimize=True)
        out = copy_at_edge(np.full(wanted.shape, np.nan, self.dtype), self.edge)
        tc.compile(self.text, options=tc.Options(plan=plan, threads=2))(*inputs, outputs={"O": out})
        assert_computes(self.text, inputs, out, wanted)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(60))
def test_generated(seed: int) -> None:
    found = Contraction(seed)
    found.check(found.drawn(TINY) if seed % 2 else found.plan(TINY, {})[0])


# --- what lies inside of a pack -------------------------------------------------------------------


def tree(text: str, device: Device = ZEN4, vectors: str = "", rows: str = "", **sizes: int) -> str:
    """The loops that a device is given for a text, with the `vectors` and `rows` of a tile along a
    loop, if given."""
    wanted = {"S0.init, S0: vectors along": vectors} if vectors else {}
    wanted |= {"S0.init, S0: rows along": rows} if rows else {}
    target = replace(target_of(device), decider=Decisions(wanted))
    how = {"initial": frozenset[str](), "check": True}
    return to_text(trace_lowering(shape(text, None, **sizes), {}, target, **how).mapped.tree)


OUTERMOST = "def f(float(A,K,B,C) X, float(J,K) Y) -> (O) { O(c,j,b,a) +=! X(a,k,b,c) * Y(j,k) }"
SIZES = {"A": 48, "B": 44, "C": 48, "J": 24, "K": 48}


def test_the_loop_along_the_memory_of_a_pack_is_inside() -> None:
    """c is contiguous in X, and outermost in O: with one c in a pack, each line of X would be
    fetched for each of 16 packs."""
    found = tree(OUTERMOST, **SIZES)
    assert "promote X to scratch X_packed[1x1x48x48x48]" in found
    assert "band [c *, j div" in found


def test_digits_of_a_long_loop_are_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_tiles, "MOST_REGROUPED", 0)
    found = tree(OUTERMOST.replace("B,C", "C").replace("b,c", "c").replace("j,b,a", "j,a"),
                 vectors="a in 16", A=168, C=168, J=24, K=168)  # fmt: skip
    digit = int(found.split("c div ")[1].split()[0])
    assert digit % 16 == 0
    assert digit < 168


def test_short_loops_are_inside_with_the_next_ones() -> None:
    """4 floats are no line: b, which is next to c in X, is inside, too."""
    found = tree(OUTERMOST, **(SIZES | {"C": 4}))
    assert "X_packed[1x4x48x48x48]" in found or "band [c *, b mod" in found


def test_a_pack_that_the_second_cache_does_not_hold_has_one_place_of_each_loop() -> None:
    device = replace(ZEN4, l2=24 << 10)
    found = tree(OUTERMOST, device, vectors="a in 16", rows="j", **SIZES)
    assert "promote X to scratch X_packed[1x1x1x48x48]" in found


SHORT_SUM = """def f(float(I,K,M,B) X, float(M,J,A,C) Y) -> (O) {
  O(a,b,c,i,j,k) +=! X(i,k,m,b) * Y(m,j,a,c)
}"""
SHORT_SIZES = {"A": 24, "B": 12, "C": 12, "I": 24, "J": 12, "K": 12, "M": 24}


def test_the_target_is_written_in_whole_lines() -> None:
    """Rows of k are 48 bytes: with one j in a pack, each line of O would be written for each of
    two packs. Inside, loops run in the order in which O lies."""
    found = tree(SHORT_SUM, **SHORT_SIZES)
    assert "promote Y to scratch Y_packed[12x" in found
    assert "band [b *, i *, j *]" in found


@pytest.mark.parametrize(
    ("name", "other"), [("PACKED_PARTS", range(1, 2)), ("LEAST_STEPS", 256), ("LEAST_STEPS", 16)]
)
def test_limits(name: str, other: object, monkeypatch: pytest.MonkeyPatch) -> None:
    text = OUTERMOST.replace("B,C", "C").replace("b,c", "c").replace("j,b,a", "j,a")
    sizes = {"A": 168, "C": 168, "J": 200, "K": 168}
    monkeypatch.setattr(register_tiles, "MOST_REGROUPED", 0)
    before = tree(text, vectors="a in 16", **sizes)
    monkeypatch.setattr(buffers, name, other)
    assert tree(text, vectors="a in 16", **sizes) != before


STRIPES = "def f(float(H,C,G) X, float(A,H) Y) -> (O) { O(a,g,c) +=! X(h,c,g) * Y(a,h) }"
STRIPES_SIZES = {"A": 81, "C": 7, "G": 1104, "H": 102}


def test_targets_are_staged_for_a_loop_that_rows_have_not() -> None:
    """c is contiguous in O, and too short for vectors: those along g are stored by way of a tile
    that has all c, as the pack of X has."""
    found = tree(STRIPES, **STRIPES_SIZES)
    assert "promote X to scratch X_packed[7x1x102x48]" in found
    staged = found.split("promote O to scratch O_tile[9x7x48]")[1]
    assert staged.index("band [c *]") < staged.index("promote O to register")


@pytest.mark.parametrize(
    ("text", "sizes", "device"),
    [
        (STRIPES, STRIPES_SIZES | {"H": 520}, ZEN4),  # stores are a small part of long sums
        (STRIPES, STRIPES_SIZES, replace(ZEN4, l2=8 << 10)),  # no room for packs of all c
        (STRIPES.replace("A,H) Y", "A,C,H) Y").replace("Y(a,h)", "Y(a,c,h)"),  # both have c
         STRIPES_SIZES, replace(ZEN4, l2=24 << 10)),
    ],
)  # fmt: skip
def test_targets_that_are_not_staged_for_such_a_loop(
    text: str, sizes: dict[str, int], device: Device
) -> None:
    assert "[c *]" not in tree(text, device, **sizes)


@pytest.mark.parametrize("sizes", [(5, 7, 50, 9), (31, 3, 70, 1), (9, 13, 17, 33), (1, 2, 64, 70)])
@pytest.mark.parametrize("threads", [1, 2])
def test_targets_staged_for_another_loop_than_the_rows(
    sizes: tuple[int, ...], threads: int
) -> None:
    a, c, g, h = sizes
    rng = np.random.default_rng(0)
    x = rng.standard_normal((h, c, g), np.float32)
    y = rng.standard_normal((a, h), np.float32)
    wanted = np.einsum("hcg,ah->agc", x.astype(np.float64), y)
    out = np.full(wanted.shape, np.nan, np.float32)
    tc.compile(STRIPES, options=tc.Options(threads=threads))(x, y, outputs={"O": out})
    assert_computes(STRIPES, [x, y], out, wanted)


def test_even_parts_of_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 168 steps parts of 64 would leave one of 40, with tests in the copies of its packs."""
    monkeypatch.setattr(register_tiles, "MOST_REGROUPED", 0)
    text = "def f(float(K,B,A) X, float(J,K) Y) -> (O) { O(a,j,b) +=! X(k,b,a) * Y(j,k) }"
    assert "band [k div 56]" in tree(text, A=168, B=160, J=24, K=168)
    text = "def f(float(I,L,M,K) X, float(M,J,L) Y) -> (O) { O(i,j,k) +=! X(i,l,m,k) * Y(m,j,l) }"
    assert "m mod 16" in tree(text, I=72, J=64, K=64, L=64, M=72)  # code takes 4 steps at a time


def test_steps_leave_lines_whole() -> None:
    """A sum of l and k runs in steps of k: l is contiguous in Y, whose lines 4 places of l would
    read in parts."""
    text = "def f(float(L,K,I) X, float(K,J,L) Y) -> (O) { O(j,i) +=! X(l,k,i) * Y(k,j,l) }"
    found = tree(text, I=168, J=160, K=160, L=168)
    assert "k div 4" in found
    assert "l div" not in found


def test_scattered_targets_are_not_read_again_and_again() -> None:
    """Elements of a vector lie pages apart in O: sums do not run in steps for the sake of digits of
    l, which is contiguous in X and in O."""
    text = """def f(float(M,I,N,L) X, float(N,J,M,K) Y) -> (O) {
      O(i,j,k,l) +=! X(m,i,n,l) * Y(n,j,m,k)
    }"""
    found = tree(text, I=48, J=44, K=44, L=44, M=48, N=48)
    assert "m div" not in found


FAR_APART = """def f(float(M,I,N,L) X, float(N,J,M,K) Y) -> (O) {
  O(i,j,k,l) +=! X(m,i,n,l) * Y(n,j,m,k)
}"""
FAR_SIZES = {"I": 48, "J": 44, "K": 44, "L": 44, "M": 48, "N": 48}


def test_vectors_are_along_the_lines_of_the_target() -> None:
    """i has whole vectors, but for each l, which is contiguous in X and O, vectors along i fetch
    all lines of X, and of O, again. 44 of the 48 lanes of a tile along l are of use."""
    assert "l mod 16 vector" in tree(FAR_APART, **FAR_SIZES)
    assert "i mod 16 vector" in tree(FAR_APART, replace(ZEN4, l3_bytes_per_cycle=1e9), **FAR_SIZES)


def test_lines_that_the_second_cache_holds_are_fetched_once() -> None:
    """With 64 MiB, no line is fetched again."""
    assert "i mod 16 vector" in tree(FAR_APART, replace(ZEN4, l2=64 << 20), **FAR_SIZES)


FAR_ROWS = "def f(double(H,A,F,C) X, double(F,H) Y) -> (O) { O(a,c) +=! X(h,a,f,c) * Y(f,h) }"
DOTS = "def f(double(B,I,J,D) X, double(I,D,J,B) Y) -> (O) { O(j) +=! X(b,i,j,d) * Y(i,d,j,b) }"


def test_tiles_along_sums_read_parts_of_lines() -> None:
    """Vectors along f or h, beside columns of c, would take a line of each row of X at a time, of
    which there are 28,704."""
    assert "c mod 8 vector" in tree(FAR_ROWS, A=6, C=273, F=16, H=299)


def test_rows_of_a_block_are_loaded_side_by_side() -> None:
    """Blocks of Y take two lines of each of its rows, which lie apart, and are transposed."""
    found = tree(DOTS, B=211, D=98, I=175, J=2)
    assert "promote Y to scratch Y_block" in found
    assert "d mod 8 vector" in found


def test_rows_that_move_a_pack_read_it_anew() -> None:
    """Y moves with k and with a: rows along k would read another panel in each tile, from the
    second cache, where rows along i and j use one panel again."""
    text = """def f(float(C,M,J,I) X, float(B,A,K,M) Y) -> (O) {
      O(k,j,i,c,b,a) +=! X(c,m,j,i) * Y(b,a,k,m)
    }"""
    sizes = {"A": 24, "B": 12, "C": 12, "I": 24, "J": 12, "K": 12, "M": 24}
    assert "j_i mod 4 unroll" in tree(text, **sizes)


def test_packed_vectors_have_no_masks() -> None:
    """56 columns of G leave a part of a vector, but panels of Y are filled up to whole vectors."""
    text = "def f(float(D,H,F,A) X, float(G,F) Y) -> (O) { O(a,d,h,g) +=! X(d,h,f,a) * Y(g,f) }"
    assert "g mod 16 vector" in tree(text, A=48, D=48, F=51, G=56, H=56)


def test_tiles_that_divide_a_loop_are_preferred() -> None:
    """Tiles of 6 vectors, for which rows are read less often, cost as much as tiles of 4."""
    text = "def f(float(P,A) X, float(P,Q) Y) -> (O) { O(a,q) +=! X(p,a) * Y(p,q) }"
    assert "q mod 64 div 16 unroll" in tree(text, A=48, P=48, Q=85184)


# --- rows of operands ----------------------------------------------------------------------------

ROWS = "def f(float(L,N,I,M) X, float(K,M,J,N) Y) -> (O) { O(l,k,j,i) +=! X(l,n,i,m) * Y(k,m,j,n) }"
ROW_SIZES = {"I": 48, "J": 44, "K": 44, "L": 44, "M": 48, "N": 48}


ROW_SUMS = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"


@pytest.mark.parametrize(("steps", "rows"), [(4096, 8), (4100, 8), (4112, 14)])
def test_rows_of_a_sum_stay_in_the_first_cache(steps: int, rows: int) -> None:
    """Lines of rows that lie 16 KiB apart, or little more, are in one set, of eight ways."""
    assert f"band [i div {rows} parallel *]" in tree(ROW_SUMS, M=500, K=steps)


def test_short_rows_are_summed_along() -> None:
    """Vectors across 4096 rows of 17 would be gathered; those of several rows are combined while
    others are summed."""
    assert "band [k div 24 unroll]" in tree(ROW_SUMS, M=4096, K=17)


def test_threads_share_the_rows_of_few_panels() -> None:
    """One panel of 64 columns, whose target is staged: each of two threads has half of the rows."""
    found = tree(
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        M=64,
        K=500,
        N=500,
    )
    assert "band [i div 64 parallel *, j div 250 parallel *]" in found
    assert "promote C to scratch C_tile[250x64]" in found


def test_rows_far_apart_are_packed() -> None:
    """Rows of Y along k are 99 pages apart, and each step of m reads another page: no set of the
    first cache holds 9 rows."""
    assert "promote Y to temporary Y_packed" in tree(ROWS, **ROW_SIZES)


def test_rows_that_few_tiles_read_are_not_packed() -> None:
    assert "Y_packed" not in tree(ROWS, **(ROW_SIZES | {"L": 4}))


def test_rows_that_stay_in_the_first_cache_are_not_packed() -> None:
    assert "Y_packed" not in tree(ROWS, replace(ZEN4, l1=4 << 20), **ROW_SIZES)
    assert "Y_packed" not in tree(ROWS, **(ROW_SIZES | {"M": 3, "N": 8}))


def test_rows_along_which_sums_run_are_read_where_they_are() -> None:
    """Of 16 steps one reads another line."""
    text = ROWS.replace("N,I,M", "M,I,N").replace("n,i,m", "m,i,n")
    assert "Y_packed" not in tree(text, **ROW_SIZES)


def test_sums_that_share_an_operand_are_tiled_each_on_its_own() -> None:
    """Vectors are along k in the sum that is planned first alone: the other one reads b where it
    is, not in panels of a vector."""
    text = """def f(int(2,12,6) x, int(2,12,6) z, int(12,4) b) -> (o) {
      o(i,j) +=! b(k,0) * x(i,k,j)
      o(i,j) += b(k,0) * z(i,k,j)
    }"""
    rng = np.random.default_rng(5)
    wide = (rng.integers(-9, 9, (2, 12, 12)).astype(np.int32)[..., ::2] for _ in range(2))
    inputs = [*wide, rng.integers(-9, 9, (12, 4)).astype(np.int32)]
    device = Device(vector_bits=128, l1=1 << 12, l2=4 << 10, l3=16 << 10, threads=4)
    program = checked(text, "f")
    whole = shaped(program, dict(zip(program.inputs, inputs, strict=True)))
    strides = dict.fromkeys("xz", (144, 12, 2))
    how = {"initial": frozenset[str](), "check": True}
    found = trace_lowering(whole, strides, target_of(device), **how).mapped
    assert "accumulate S0 in o_partial" in to_text(found.tree)
    plan = tc.Options(plan=found.plan)
    assert_computes(text, inputs, tc.compile(text, options=plan)(*inputs))


def test_an_operand_that_is_strided_along_a_sum_is_packed() -> None:
    """X has its rows along the sum, and Y does not: of each line of Y, a vector would read one
    element, for each tile of rows."""
    text = "def f(double(F,I,A,C) X, double(C,I) Y) -> (O) { O(f,a) +=! X(f,i,a,c) * Y(c,i) }"
    found = tree(text, F=36, I=38, A=38, C=152)
    assert "promote Y to temporary Y_packed[19x38x8]" in found
    assert "c div 8" in found
    assert "Y_packed" not in tree(text, F=1, I=38, A=2, C=152)  # used by two rows
