"""Each pass of the list is there for something that can be seen from outside of it.

For each there is a program, lowered for a device, and what holds for its kernel with the whole
list, and no longer where this one pass is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pytest

from tc.device import Device
from tc.dtypes import BOOL
from tc.kernel import ir
from tc.kernel.analysis.estimate import estimate
from tc.kernel.ir import (
    Binary,
    Call,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Load,
    Prefetch,
    Ramp,
    Set,
    Shuffle,
    Stmt,
    Store,
    expressions,
    walk,
)
from tc.kernel.pass_manager import run_passes
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.walk import every_statement
from tc.options import MappingOptions, Options
from tc.polyhedral.cpu.cpu_target import cpu_target
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, shaped_by

AVX2 = Device(vector_bits=256, l2=256 << 10, l3=8 << 20, threads=2)
WIDE = Device(
    vector_bits=512, vector_registers=32, exponents=True, l2=1 << 20, l3=32 << 20, threads=2
)
Shapes = Mapping[str, tuple[int, ...]]
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
PERMUTED = "def t(float(N,C,H,W) A) -> (O) { O(n,h,w,c) = A(n,c,h,w) }"
NARROW = "def n(bfloat16(N,M) a) -> (o) { o(i,j) = 2 * a(i,j) }"
SCALED = "def s(float(N,M) a, float(M) b) -> (o) { o(i,j) = a(i,j) * b(j) }"
POOLED = "def m(float(N,H,W) I) -> (O) { O(n,h,w) max=! I(n,2*h+i,2*w+j) where i in 0:2, j in 0:2 }"
PREFIX = "def p(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }"
TAKEN = "def t(float(N) x, int(M) p) -> (o) { o(i) = exp(x(p(i))) }"
COUNTED = "def c(int(N) x) -> (int(7) h) { h(x(i)) +=! 1 }"
LOWER = "def l(float(N,N) A, float(N,M) B) -> (C) { C(i,j) +=! k <= i ? A(i,k) * B(k,j) : 0 }"
SPREAD = """def spread(float(N,F,H,W) Y, float(F,C,KH,KW) K) -> (X) {
  X(n,c,x,y) +=! pad(Y(n,f,x-i,y-j) * K(f,c,i,j), 0) where x in 0:H+KH-1, y in 0:W+KW-1
}"""
SPREAD_SIZES = {"Y": (8, 64, 54, 54), "K": (64, 64, 3, 3)}
NORM = """def norm(float(N,D) I) -> (O, m) {
    m(n) +=! I(n,d) * I(n,d)
    O(n,d) = I(n,d) * rsqrt(m(n))
}"""
BAGS = "def bags(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"
SOFTMAX = """def softmax(float(N,D) I) -> (O, m, e, t) {
    m(n) max=! I(n,d)
    e(n,d) = exp(I(n,d) - m(n))
    t(n) +=! e(n,d)
    O(n,d) = e(n,d) / t(n)
}"""
CONV = """def conv(float(N,C,H,W) I, float(O,C,KH,KW) W1) -> (O1) {
    O1(n,o,h,w) +=! I(n,c,h+kh,w+kw) * W1(o,c,kh,kw)
}"""
DOUBLED = "def d(float(N,M) a) -> (o) { o(i,j) = a(i,j/2) where j in 0:2*M }"
SMALL = {"A": (128, 64), "B": (64, 96)}
ROWS = {"I": (4096, 1024)}
TABLE = {"T": (100_000, 64), "I": (128, 50)}
LARGE = {"A": (128, 4096), "B": (16384, 4096)}
IMAGES = {"I": (8, 64, 56, 56), "W1": (64, 64, 3, 3)}

# --- what can be seen ---------------------------------------------------------------------------


def executed(kernel: Kernel) -> Iterator[tuple[Stmt, int]]:
    """Each statement, and how often it runs; loops whose bounds are not constant run once."""
    waiting = [(stmt, 1) for region in kernel.regions for stmt in region]
    while waiting:
        stmt, times = waiting.pop()
        yield stmt, times
        match stmt:
            case For(begin=Const(value=begin), end=Const(value=end), body=body):
                waiting += [(inner, times * max(0, int(end) - int(begin))) for inner in body]
            case For(body=body):
                waiting += [(inner, times) for inner in body]
            case If(then=then, otherwise=otherwise):
                waiting += [(inner, times) for inner in then + otherwise]


def evaluated(kernel: Kernel, is_meant: Callable[[Expr], bool]) -> int:
    """How often such expressions are evaluated."""
    return sum(times * sum(map(is_meant, expressions(stmt))) for stmt, times in executed(kernel))


def loads_of(kernel: Kernel, *buffers: str) -> int:
    return evaluated(kernel, lambda e: isinstance(e, Load) and e.buffer in buffers)


def calls_of(kernel: Kernel, function: str) -> int:
    return evaluated(kernel, lambda e: isinstance(e, Call) and e.function == function)


def operations(kernel: Kernel, *ops: str) -> int:
    return evaluated(kernel, lambda e: isinstance(e, Binary) and e.dtype.is_float and e.op in ops)


def stores(kernel: Kernel) -> list[tuple[Store, int]]:
    return [(stmt, times) for stmt, times in executed(kernel) if isinstance(stmt, Store)]


def marks(kernel: Kernel) -> set[str]:
    return {s.mark for s in every_statement(kernel) if isinstance(s, For)} - {""}


def hints(kernel: Kernel) -> Counter[str]:
    """The elements that are asked for, by buffer."""
    found = Counter[str]()
    for stmt, times in executed(kernel):
        if isinstance(stmt, Prefetch):
            found[stmt.buffer] += times * stmt.lanes
    return found


# --- what each pass is there for ----------------------------------------------------------------


def stores_past_the_caches(kernel: Kernel) -> bool:
    """All of an output but for the ends of rows."""
    past = sum(s.value.dtype.lanes * times for s, times in stores(kernel) if s.non_temporal)
    return past > 0.9 * sum(b.bytes // b.dtype.bytes for b in kernel.buffers if b.role == "output")


def stores_lines_past_the_caches(kernel: Kernel) -> bool:
    return any(store.non_temporal for store, _ in stores(kernel)) and not marks(kernel)


def copies_by_vectors(kernel: Kernel) -> bool:
    """Whether A, whose columns are packed as rows, is read by vectors alone and shuffled."""
    loads = [e for s in every_statement(kernel) for e in expressions(s) if isinstance(e, Load)]
    shuffles = evaluated(kernel, lambda e: isinstance(e, Shuffle))
    return all(e.dtype.lanes > 1 for e in loads if e.buffer == "A") and shuffles > 0


def masks_once_a_row(kernel: Kernel) -> bool:
    return sum(times for store, times in stores(kernel) if store.mask is not None) == 1021


def computes_with_vectors(kernel: Kernel) -> bool:
    """16 products at once."""
    return calls_of(kernel, "fma") == 128 * 64 * 96 // 16


def adds_without_conditions(kernel: Kernel) -> bool:
    """Below the diagonal, in a loop that ends there."""
    loops = [stmt for stmt in every_statement(kernel) if isinstance(stmt, For)]
    plain = (loop for loop in loops if not any(isinstance(s, For | If) for s in loop.body))
    nodes = (e for loop in plain for stmt in loop.body for e in expressions(stmt))
    return any(isinstance(e, Call) and e.function == "fma" for e in nodes)


def fuses_products_under_guards(kernel: Kernel) -> bool:
    """Also in the iterations in which the diagonal runs through a tile that ends beyond C."""
    return calls_of(kernel, "fma") > 0 == operations(kernel, "*", "+")


def has_tests_at_ends(kernel: Kernel) -> bool:
    """In the 12 of 14 tiles of a row that have no edge, what is multiplied is just added."""
    return calls_of(kernel, "fma") > 6 * operations(kernel, "*")


def adds_each_term_once(kernel: Kernel) -> bool:
    """There is no loop over the terms of each element."""
    return sum(isinstance(stmt, For) for stmt in every_statement(kernel)) == 1


def adds_vectors_of_prefixes(kernel: Kernel) -> bool:
    """Five additions for eight elements."""
    return operations(kernel, "+") == 1000 // 8 * 5


def has_no_marks(kernel: Kernel) -> bool:
    return not marks(kernel)


def accumulates_in_locals(kernel: Kernel) -> bool:
    """No backend has registers, and what scratch becomes is memory."""
    names = {b.name for b in kernel.buffers}
    return names == {"A", "B", "C"} and sum(times for _, times in stores(kernel)) == 128 * 96 // 16


def has_one_test_of_rows(kernel: Kernel) -> bool:
    """The third row of a tile is beyond the last one of C, or all three vectors of it are."""
    inside = [stmt for stmt in every_statement(kernel) if isinstance(stmt, If)]
    return [len(stmt.then) for stmt in inside] == [3]


def takes_three_maxima_of_four(kernel: Kernel) -> bool:
    return operations(kernel, "max") * 8 == 3 * 8 * 32 * 32


def computes_few_lanes_beyond(kernel: Kernel) -> bool:
    """26 columns are three vectors of 8 lanes and one of 4, not of 8."""
    return estimate(kernel).flops == 2 * 128 * 64 * 28


def takes_a_root_of_each_row(kernel: Kernel) -> bool:
    return calls_of(kernel, "sqrt") == 4096


def reads_each_operand_once(kernel: Kernel) -> bool:
    """Of 43 * 4 tiles, in a step along k, 3 rows of A and 3 vectors of B for 9 products."""
    return loads_of(kernel, "A", "B") == 64 * 43 * 4 * (3 + 3)


def checks_each_row_once(kernel: Kernel) -> bool:
    """In each of two steps along the row, not for each of its vectors."""
    checks = sum(times for stmt, times in executed(kernel) if isinstance(stmt, Fail))
    return checks == 128 * 50 * 2


def fuses_products_and_sums(kernel: Kernel) -> bool:
    return operations(kernel, "*", "+") == 0


def calls_no_function_on_vectors(kernel: Kernel) -> bool:
    """No backend has an exponential of vectors."""
    return evaluated(kernel, lambda e: isinstance(e, Call) and e.function == "exp") <= 16


def asks_for_the_next_row(kernel: Kernel) -> bool:
    """Of I, each line once."""
    return hints(kernel)["I"] == 4096 * 1024 // 16


def asks_for_rows_of_the_table(kernel: Kernel) -> bool:
    """The half of each in two lines, or three where it starts inside of one."""
    return hints(kernel)["T"] == 128 * 50 * 2 * 3


def adds_up_blocks(kernel: Kernel) -> bool:
    """No loop adds 4096 terms to a local, one after the other."""
    sums = [(stmt, times) for stmt, times in executed(kernel) if isinstance(stmt, Set)]
    rows = 4096 * 64 * 64 // 8  # of lanes
    return sum(times for _, times in sums) < rows


def divides_once_a_row(kernel: Kernel) -> bool:
    """But in the branch that is seldom taken."""
    usual = [
        times * sum(isinstance(e, Binary) and e.op == "/" and e.dtype.is_float for e in walk(value))
        for stmt, times in executed(kernel)
        for value in ([stmt.value] if isinstance(stmt, Store) else [])
    ]
    rare = any(isinstance(stmt, If) and stmt.rare for stmt in every_statement(kernel))
    return rare and sum(usual) <= 512 * 4096 // 8


def stores_each_element_beside_the_next(kernel: Kernel) -> bool:
    stores = (s for s in every_statement(kernel) if isinstance(s, Store))
    return {s.indices[-1].step for s in stores if isinstance(s.indices[-1], Ramp)} == {1}


@dataclass(frozen=True)
class Row:
    name: str
    text: str
    shapes: Shapes
    device: Device
    holds: Callable[[Kernel], bool]


def takes_vectors_where_sure(kernel: Kernel) -> bool:
    """Rows of what is computed are stored as vectors, which no check has branches for."""
    wide = [s for s in every_statement(kernel) if isinstance(s, Store) and s.value.dtype.lanes > 1]
    return any(isinstance(s.indices[-1], Ramp) and s.mask is None for s in wide)


def has_no_branches_in_tests(kernel: Kernel) -> bool:
    """Each failure is recorded in a loop that is run where a block has one."""
    found = [s for s in every_statement(kernel) if isinstance(s, If) and s.rare]
    return any(isinstance(f, ir.Fail) for s in found for f in ir.statements(s.then))


def converts_by_bits(kernel: Kernel) -> bool:
    """No conversion to a type, or from one, that numpy does not have is left to the compiler."""
    every = (e for s in every_statement(kernel) for e in expressions(s))
    casts = [e for e in every if isinstance(e, ir.Cast)]
    return all(e.dtype.is_in_numpy and e.operand.dtype.is_in_numpy for e in casts)


TABLE_OF_PASSES = (
    Row("copies", PERMUTED, {"A": (61, 59, 67, 71)}, AVX2, stores_lines_past_the_caches),
    Row("copies", TMM, {"A": (128, 1024), "B": (500, 1024)}, AVX2, copies_by_vectors),
    Row("loop splitting", SCALED, {"a": (1021, 1019), "b": (1019,)}, AVX2, masks_once_a_row),
    Row("loop splitting", LOWER, {"A": (96, 96), "B": (96, 64)}, AVX2, adds_without_conditions),
    Row("loop splitting", LOWER, {"A": (61, 61), "B": (61, 45)}, AVX2, fuses_products_under_guards),
    Row("loop splitting", SPREAD, SPREAD_SIZES, WIDE, has_tests_at_ends),
    Row("checked loops", TAKEN, {"x": (9000,), "p": (20_011,)}, AVX2, takes_vectors_where_sure),
    Row("prefix sums", PREFIX, {"x": (1000,)}, AVX2, adds_each_term_once),
    Row("prefix vectors", PREFIX, {"x": (1000,)}, AVX2, adds_vectors_of_prefixes),
    Row("vectorization", MM, SMALL, WIDE, computes_with_vectors),
    Row("unrolling", MM, SMALL, WIDE, has_no_marks),
    Row("scalar replacement", MM, SMALL, WIDE, accumulates_in_locals),
    Row("dead code elimination", MM, SMALL, AVX2, has_one_test_of_rows),
    Row("dead code elimination", POOLED, {"I": (8, 64, 64)}, AVX2, takes_three_maxima_of_four),
    Row("check blocks", COUNTED, {"x": (20_011,)}, AVX2, has_no_branches_in_tests),
    Row("demanded lanes", MM, {"A": (128, 64), "B": (64, 26)}, AVX2, computes_few_lanes_beyond),
    Row("stores", DOUBLED, {"a": (64, 64)}, AVX2, stores_each_element_beside_the_next),
    Row("stores", NORM, ROWS, AVX2, stores_past_the_caches),
    Row("value numbering", BAGS, TABLE, AVX2, checks_each_row_once),
    Row("value numbering", NORM, ROWS, AVX2, takes_a_root_of_each_row),
    Row("value numbering", MM, SMALL, AVX2, reads_each_operand_once),
    Row("contraction", MM, SMALL, AVX2, fuses_products_and_sums),
    Row("vector functions", SOFTMAX, {"I": (512, 4096)}, AVX2, calls_no_function_on_vectors),
    Row("prefetch", NORM, ROWS, AVX2, asks_for_the_next_row),
    Row("prefetch", BAGS, TABLE, AVX2, asks_for_rows_of_the_table),
    Row("blocked sums", MM, {"A": (64, 4096), "B": (4096, 64)}, AVX2, adds_up_blocks),
    Row("reciprocal division", SOFTMAX, {"I": (512, 4096)}, AVX2, divides_once_a_row),
    Row("narrow floats", NARROW, {"a": (64, 64)}, AVX2, converts_by_bits),
)


def marked_and_finished(row: Row) -> tuple[Kernel, Kernel]:
    shape = shaped_by(checked(row.text), row.shapes)
    made = trace_lowering(shape, {}, initial=frozenset(), check=True, device=row.device)
    return made.marked, made.kernel


@pytest.mark.parametrize("row", TABLE_OF_PASSES, ids=lambda row: row.name)
def test_without_a_pass_something_is_missed(row: Row) -> None:
    marked, finished = marked_and_finished(row)
    context = cpu_target(row.device).context(Options())
    assert row.holds(finished)
    others = [each for each in PASSES if each.name != row.name]
    assert len(others) == len(PASSES) - 1
    assert not row.holds(run_passes(marked, context, others))


@pytest.mark.parametrize(("rows", "vectors"), [(6, 2), (4, 2)])
def test_edges_of_tiles_that_end_beyond_a_row(rows: int, vectors: int) -> None:
    """Of 56 elements: what is multiplied is just added, inside of the image and at its edges, where
    steps of the short sums are straight-line code."""
    options = Options(mapping=MappingOptions(rows=rows, vectors=vectors))
    shape = shaped_by(checked(SPREAD), SPREAD_SIZES)
    made = trace_lowering(
        shape, {}, initial=frozenset(), check=True, device=AVX2, options=options
    ).kernel
    assert calls_of(made, "fma") > 0 == operations(made, "*")
    tests = [s for s in every_statement(made) if isinstance(s, If) and s.condition.dtype == BOOL]
    assert all(any(isinstance(s, Store) for s in ir.statements(test.then)) for test in tests)


def test_each_pass_has_a_row() -> None:
    """The table has one row for each thing that a pass does, in the order of the passes."""
    assert [name for name, _ in groupby(row.name for row in TABLE_OF_PASSES)] == [
        each.name for each in PASSES
    ]
