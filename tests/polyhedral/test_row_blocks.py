"""Statements that go over one matrix, cut into blocks of rows: what is cut, what shares loops then,
and the results (R5)."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite import row_blocks
from tc.polyhedral.rewrite.row_blocks import share_rows
from tc.polyhedral.rewrite.thresholds import Thresholds
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.rewrites import assert_consistent, run_kernel, texts
from tests.support.sizes_of_call import shape

LARGE = Thresholds(rows=1 << 11)
"""Every matrix counts as large, but none has enough columns for a lone sum."""

INPUTS = "float(I,J) A, float(J) p, float(I) q"

CUT = {
    "rows and columns": "x(i) +=! A(i,j) * p(j)  y(j) +=! A(i,j) * q(i)",
    "columns and rows": "y(j) +=! A(i,j) * q(i)  x(i) +=! A(i,j) * p(j)",
    "the row's sum is in the columns' sum": "x(i) +=! A(i,j) * p(j)  y(j) +=! A(i,j) * x(i)",
    "two sums of columns": "x(j) +=! A(i,j)  y(j) max=! A(i,j) * q(i)",
    "a product of columns": "x(i) min=! A(i,j)  y(j) *=! A(i,j)",
    "what is written": "x(i,j) = A(i,j) * q(i)  y(j) +=! x(i,j)",
    "a sum that goes on": "y(j) = p(j)  y(j) += A(i,j)  x(i) +=! A(i,j)",
    "another statement between": "x(i) +=! A(i,j)  z(j) = p(j) * 2  y(j) +=! A(i,j) * q(i)",
}
ALONE = Thresholds(rows=1, few=6)
"""Lone sums are cut, too."""

KEPT = {
    "rows alone": "x(i) +=! A(i,j) * p(j)  y(i) +=! A(i,j) * q(i)",
    "a sum of columns alone": "x(j) +=! A(i,j)  y(i) = q(i)",
    "a part of the rows": "x(i) +=! A(i,j)  y(j) +=! A(i,j) where i in 0:I-1",
    "the columns' sum is in the rows' sum": "y(j) +=! A(i,j) * q(i)  x(i) +=! A(i,j) * y(j)",
    "by way of another": "y(j) +=! A(i,j)  z(j) = y(j) * 2  x(i) +=! A(i,j) * z(j)",
    "sums of all rows": "x(i) +=! A(i,j)  s +=! x(i)  y(j) +=! A(i,j) * s",
    "another row's sum": "x(i) +=! A(i,j)  y(j) +=! A(i,j) * x(I-1-i)",
    "others use a row's sum": "x(i) +=! A(i,j)  y(j) +=! A(i,j) * q(i)  z(i) = x(i) / 2",
    "others give rows factors": "z(i) = q(i) / 2  x(i) +=! A(i,j)  y(j) +=! A(i,j) * z(i)",
}


def program(statements: str, rows: int = 520, columns: int = 7) -> tuple[Any, dict[str, Any]]:
    outputs = [name for name in "xyzs" if f"{name}(" in statements or f" {name} " in statements]
    rng = np.random.default_rng(rows)
    arrays = {
        "A": rng.uniform(-1, 1, (rows, columns)).astype(np.float32),
        "p": rng.uniform(-1, 1, columns).astype(np.float32),
        "q": rng.uniform(-1, 1, rows).astype(np.float32),
    }
    text = f"def f({INPUTS}) -> ({', '.join(outputs)}) {{ {statements} }}"
    return shaped_with(text, arrays)


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("rows", [512, 523])
def test_statements_over_one_matrix_are_cut(name: str, rows: int) -> None:
    shaped, _ = program(CUT[name], rows)
    found = share_rows(shaped, LARGE)
    assert found is not shaped
    assert_consistent(found)


@pytest.mark.parametrize("name", KEPT)
def test_others_are_not(name: str) -> None:
    shaped, _ = program(KEPT[name])
    assert share_rows(shaped, LARGE) is shaped


def test_what_is_cut() -> None:
    """64 rows a block leave few of 523; what is left of each statement stands behind."""
    shaped, _ = program(CUT["rows and columns"], 523)
    assert texts(share_rows(shaped, LARGE)) == [
        "S0.piece0: x(64 * i_block + i) +=! A(64 * i_block + i, j) * p(j)",
        "S0: x(i) +=! A(i, j) * p(j)",
        "S1.part: y.p0(i_block, j) +=! A(64 * i_block + i, j) * q(64 * i_block + i)",
        "S1: y(j) +=! y.p0(i_block, j)",
        "S1.rest: y(j) += A(i, j) * q(i)",
    ]


def test_only_large_row_major_matrices_are_cut() -> None:
    shaped, _ = program(CUT["rows and columns"])
    size = 520 * 7 * 4
    assert share_rows(shaped, Thresholds(rows=size)) is not shaped
    assert share_rows(shaped, Thresholds(rows=size + 1)) is shaped
    assert share_rows(shaped, Thresholds()) is shaped
    assert share_rows(shaped, LARGE, {"A"}) is shaped


def test_a_lone_sum_of_columns() -> None:
    """A lone sum is cut where its matrix is large, also where others read the sums; not that of few
    columns, and not where others compute the terms, or read the sums and the matrix."""
    size = 520 * 7 * 4
    for limits, is_cut in (
        (Thresholds(rows=size, few=6), True),
        (Thresholds(rows=size, few=7), False),
        (Thresholds(rows=size + 1, few=6), False),
    ):
        shaped, _ = program("x(j) +=! A(i,j) * q(i)")
        assert (share_rows(shaped, limits) is not shaped) == is_cut
    for statements, is_cut in (
        ("x(j) +=! A(i,j)  y(j) = x(j) / 2", True),
        ("x(j) +=! A(i,j)  y(i,j) = A(i,j) - x(j)", False),
        ("y(j,i) = A(i,j)  x(j) +=! y(j,i)", False),
    ):
        shaped, _ = program(statements)
        assert (share_rows(shaped, Thresholds(rows=1, few=6)) is not shaped) == is_cut


PRODUCT = "def f(float(N,I) p, float(I,J) A) -> (x) { x(n,j) +=! p(n,i) * A(i,j) }"
OF_ROWS = "x.p0(i_block, n, j) +=! p(n, 64 * i_block + i) * A(64 * i_block + i, j)"


def test_few_rows_times_a_matrix() -> None:
    """A sum with up to 16 rows of results is cut where its columns are many and the sums of a block
    fit; what may share the rows of the matrix with others has one row of results."""
    wide, most = Thresholds(rows=1, sums=16 * 161 * 4), Thresholds(rows=1, sums=16 * 161 * 4 - 1)
    for limits, rows, columns, is_cut in (
        (wide, 16, 161, True),
        (wide, 17, 150, False),
        (wide, 16, 160, False),
        (most, 16, 161, False),
        (most, 1, 5000, True),
        (wide, 2, 161, True),
    ):
        shaped = shape(PRODUCT, N=rows, I=520, J=columns)
        found = share_rows(shaped, limits)
        assert (found is not shaped) == is_cut, (rows, columns)
        if is_cut:
            assert OF_ROWS in texts(found)[0]
    both = PRODUCT.replace("(x)", "(x, y)").replace("}", "y(i) +=! A(i,j) }")
    shaped = shape(both, N=2, I=520, J=161)
    assert share_rows(shaped, Thresholds(rows=1)) is shaped


@pytest.mark.parametrize("layout", ["p(n,i)", "p(i,n)"])
@pytest.mark.parametrize(("rows", "columns"), [(2, 161), (7, 163), (16, 195)])
def test_products_of_few_rows(
    layout: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terms follow an epilogue's start, and the sums one; the matrix is walked row by row.
    Eight blocks of 16 rows leave 3 of 131."""
    monkeypatch.setattr(row_blocks, "LEAST_ROWS", 16)
    sizes = "float(N,I) p" if layout == "p(n,i)" else "float(I,N) p"
    body = f"x(n,j) = b(j)  x(n,j) += {layout} * A(i,j)  x(n,j) = max(x(n,j), 0)"
    text = f"def f({sizes}, float(I,J) A, float(J) b) -> (x) {{ {body} }}"
    rng = np.random.default_rng(rows)
    shapes = {"p": (rows, 131) if layout == "p(n,i)" else (131, rows), "A": (131, columns)}
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    arrays["b"] = rng.normal(size=columns).astype(np.float32)
    shaped, _ = shaped_with(text, arrays)
    shared = share_rows(shaped, Thresholds(rows=1, sums=1 << 14))
    assert "x.p0" in shared.program.temporaries
    assert "16 * i_block + i" in texts(shared)[1]
    found = run_kernel(shaped, arrays, {}, Thresholds(rows=1, sums=1 << 14))
    exact, bounds = (f(text, **arrays) for f in (tc.interpret, tc.error_bound))
    assert_within(found["x"], exact, bounds)


OF_LOOPS = {
    "of two tensors, and what is the same for all columns": (
        "def f(float(A,N) X, float(A,N) Y, float(A) m) -> (s) { s(j) +=! Y(i,j) * (X(i,j)-m(i)) }",
        {"A": 523, "N": 17},
        [
            "S0.part: s.p0(i_block, j) +=! Y(64 * i_block + i, j) * (X(64 * i_block + i, j) - "
            "m(64 * i_block + i))",
            "S0: s(j) +=! s.p0(i_block, j)",
            "S0.rest: s(j) += Y(i, j) * (X(i, j) - m(i))",
        ],
    ),
    "loops of many rows are blocks": (
        "def f(float(A,B,C,N) X, float(B,C,A) p) -> (s) { s(j) +=! X(a,b,c,j) * p(b,c,a) }",
        {"A": 9, "B": 20, "C": 24, "N": 17},
        [
            "S0.part: s.p0(a, j) +=! X(a, b, c, j) * p(b, c, a)",
            "S0: s(j) +=! s.p0(a, j)",
        ],
    ),
    "loops of too many rows are cut": (
        "def f(float(A,B,N) X, float(B,A) p) -> (s) { s(j) max=! X(a,b,j) * p(b,a) }",
        {"A": 13, "B": 779, "N": 17},
        [
            "S0.part: s.p0(a, b_block, j) max=! X(a, 256 * b_block + b, j) * "
            "p(256 * b_block + b, a)",
            "S0: s(j) max=! s.p0(a, b_block, j)",
            "S0.rest: s(j) max= X(a, b, j) * p(b, a)",
        ],
    ),
    "those of few rows are cut with what is inside": (
        "def f(float(A,B,M,N) X) -> (s) { s(k,j) +=! X(a,b,k,j) }",
        {"A": 203, "B": 60, "M": 3, "N": 17},
        [
            "S0.part: s.p0(a_block, k, j) +=! X(3 * a_block + a, b, k, j)",
            "S0: s(k, j) +=! s.p0(a_block, k, j)",
            "S0.rest: s(k, j) += X(a, b, k, j)",
        ],
    ),
    "a column's sum that goes on": (
        "def f(float(A,B,N) X, float(N) z) -> (s) { s(j) = z(j)  s(j) += X(a,b,j) }",
        {"A": 12, "B": 200, "N": 17},
        ["S0: s(j) = z(j)", "S1.part: s.p0(a, j) +=! X(a, b, j)", "S1: s(j) += s.p0(a, j)"],
    ),
    "not a sum of the last loop": (
        "def f(float(A,N,B) X) -> (s) { s(j) +=! X(a,j,b) }",
        {"A": 700, "N": 17, "B": 3},
        ["S0: s(j) +=! X(a,j,b)"],
    ),
    "every second column": (
        "def f(float(A,B,N) X) -> (s) { s(j) +=! X(a,b,2*j) where j in 0:20 }",
        {"A": 70, "N": 40, "B": 30},
        ["S0: s(j) +=! X(a,b,2*j) where j in 0:20"],
    ),
}


@pytest.mark.parametrize("name", OF_LOOPS)
def test_sums_along_several_loops(name: str) -> None:
    text, sizes, expected = OF_LOOPS[name]
    program = shape(text, **sizes)
    found = share_rows(program, ALONE)
    assert texts(found) == expected
    assert_consistent(found)
    rng = np.random.default_rng(9)
    arrays = {
        n: rng.normal(size=program.shapes[n]).astype(np.float32) for n in program.program.inputs
    }
    results = run_kernel(program, arrays, {}, ALONE)
    exact, bounds = (f(text, **arrays) for f in (tc.interpret, tc.error_bound))
    assert_within(results["s"].reshape(exact.shape), exact, bounds)


def test_rows_of_several_loops_are_walked_from_end_to_end() -> None:
    """A block is an a and a d: of its 156 rows, 4 at once leave none for a last time."""
    text = "def f(float(J,A,D) A_, float(A,D,J,G) B) -> (C) { C(g) +=! A_(j,a,d) * B(a,d,j,g) }"
    found = tc.explain(text, {"A": 13, "D": 22, "G": 156, "J": 156}, device=DEVICE)
    lines = [line.strip() for line in found.stages["mapping"].split("Mapped.")[1].splitlines()]
    assert "band [a_d parallel *] permutable" in lines
    assert any(line.startswith("band [j div 4, g div ") for line in lines)


def test_short_rows_are_not_walked_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of less than a line: 300 x 200 rows of 12 take 38 us in place of 129 (one thread of a
    Zen 4)."""
    text = "def f(float(A,B,J) X) -> (s) { s(j) +=! X(a,b,j) }"

    def plan(columns: int) -> str:
        sizes = {"A": 200, "B": 300, "J": columns}
        return tc.explain(text, sizes, device=DEVICE).stages["mapping"]

    short, long = plan(12), plan(17)
    monkeypatch.setattr(row_blocks, "LEAST_COLUMNS", 0)
    assert plan(12) != short
    assert plan(17) == long


def test_loops_that_are_no_blocks_stay() -> None:
    """The parts of a sum for each e are along j: what lies along e is no block of rows."""
    text = "def f(double(J,A) X, double(E,A,J) Y) -> (s) { s(e) +=! X(j,a) * Y(e,a,j) }"
    found = tc.explain(text, {"A": 11063, "E": 2, "J": 52}, device=DEVICE)
    assert "s.p0(j, e)" in found.stages["rewrite"]
    assert "band [e parallel *] permutable\n      sequence" not in found.stages["mapping"]


def test_sums_that_share_no_rows_are_cut_alone() -> None:
    """Others use what is summed along rows before the rows are read again: these stay."""
    statements = "x(i) +=! A(i,j)  z(i) = x(i) / 2  w(i,j) = A(i,j) - z(i)  y(j) +=! A(i,j) * q(i)"
    shaped, _ = program(statements.replace("w(", "s("))
    found = [s.statement.target for s in share_rows(shaped, ALONE).statements]
    assert found == ["x", "z", "s", "y.p0", "y", "y"]


def test_sums_of_columns_are_short_chains() -> None:
    """A lone sum of 100,000 rows has more blocks, each of at most about 256 rows."""
    shaped = share_rows(program("x(j) +=! A(i,j)", rows=100_000)[0], ALONE)
    sums = next(s for s in shaped.statements if s.statement.target == "x.p0")
    assert sums.ranges["i"].extent <= 320


def test_few_rows_are_not_cut() -> None:
    shaped, _ = program(CUT["rows and columns"], rows=383)
    assert share_rows(shaped, LARGE) is shaped


@pytest.mark.parametrize("name", [*CUT, "a sum of columns alone"])
@pytest.mark.parametrize("rows", [512, 523])
def test_kernels(name: str, rows: int) -> None:
    statements = {**CUT, **KEPT}[name]
    shaped, arrays = program(statements, rows)
    found = run_kernel(shaped, arrays, {}, ALONE)
    text = f"def f({INPUTS}) -> ({', '.join(found)}) {{ {statements} }}"
    expected, bounds = (f(text, **arrays) for f in (tc.interpret, tc.error_bound))
    for output, value in found.items():
        assert_within(value, getattr(expected, output), getattr(bounds, output))


SMALL = {"LEAST_BLOCKS": 2, "BLOCKS": 3, "MOST_ROWS": 4, "STEP": 2, "LEAST_ROWS": 2}
"""Few rows are blocks."""


def columns_of(rng: random.Random) -> str:
    """One to three statements that read one or two matrices: sums of columns over one to three
    loops of rows, for one or for several rows of results, sums of rows, and statements of all
    elements, with factors of rows, of columns and of none, in one order or another."""
    rows, columns = list("abc"[: rng.randint(1, 3)]), list("jk"[: rng.randint(1, 2)])
    whole = [*rows, *columns]
    sizes = {v: v.upper() for v in whole}
    inputs = {"X": whole, "Y": [*rng.sample(rows, len(rows)), *columns]}
    inputs |= {"q": rng.sample(rows, rng.randint(1, len(rows))), "p": columns}
    inputs |= {"w": rng.sample(["n", *rows], 1 + len(rows))}
    sizes["n"] = "N"
    known: dict[str, list[str]] = dict(inputs)
    statements: list[str] = []
    results: list[str] = []
    for target in "xyz"[: rng.randint(1, 3)]:
        left = rng.choice([columns, columns, rows, [rows[0], *columns], whole, []])
        left = rng.choice([left, ["n", *columns], [*columns, "n"]]) if rng.random() < 0.5 else left
        terms = ["X", *rng.choices(["X", "Y", "q", "p", *results], k=rng.randint(0, 2))]
        terms += ["w"] if "n" in left else []
        reads = [f"{n}({', '.join(known[n])})" if known[n] else n for n in terms]
        rng.shuffle(reads)
        is_whole = {*left}.issuperset(v for n in terms for v in known[n])
        op = "=" if is_whole else rng.choice(["+=!", "+=!", "max=!", "min=!"])
        place = f"({','.join(left)})" if left else ""
        statements.append(f"{target}{place} {op} {' * '.join(reads)}")
        results.append(target)
        known[target] = left
    declared = ", ".join(
        f"float({','.join(sizes[v] for v in own)}) {name}" for name, own in inputs.items()
    )
    return f"def f({declared}) -> ({', '.join(results)}) {{ {'  '.join(statements)} }}"


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**30))
def test_generated_sums_of_columns(seed: int) -> None:
    rng = random.Random(seed)
    text = columns_of(rng)
    sizes = {v: rng.choice([1, 2, 3, 5, 9, 14]) for v in "ABC"} | {"J": rng.randint(2, 9), "K": 3}
    sizes |= {"N": rng.choice([1, 2, 5, 17])}
    shaped = shape(text, **sizes)
    numbers = np.random.default_rng(seed)
    arrays = {
        n: numbers.uniform(-1, 1, shaped.shapes[n]).astype(np.float32)
        for n in shaped.program.inputs
    }
    limits = Thresholds(rows=1, few=0, sums=1 << 12)
    with mock.patch.multiple(row_blocks, **SMALL, NARROW=3, LEAST_COLUMNS=3):
        cut = share_rows(shaped, limits)
        event("left as written" if cut is shaped else "cut")
        assert_consistent(cut)
        found = run_kernel(shaped, arrays, {}, limits)
    expected, bounds = (f(text, **arrays) for f in (tc.interpret, tc.error_bound))
    for name, value in found.items():
        want = expected if len(found) == 1 else getattr(expected, name)
        bound = bounds if len(found) == 1 else getattr(bounds, name)
        assert_within(value.reshape(np.shape(want)), want, bound)


DEVICE = tc.Device(vector_bits=512, vector_registers=32, l2=1 << 14, threads=2)
"""A matrix of 64 KiB is more than the second caches hold."""


def mapping(statements: str) -> str:
    text = f"def f({INPUTS}) -> (x, y) {{ {statements} }}"
    stages = tc.explain(text, {"I": 640, "J": 100}, device=DEVICE).stages
    return stages["mapping"].split("Mapped.")[1]


def test_the_matrix_is_read_once() -> None:
    """Each of the threads goes over blocks, eight rows at a time: the sums of these rows, and then
    their terms in the sums of the columns."""
    for name in ("rows and columns", "the row's sum is in the columns' sum"):
        lines = [line.strip() for line in mapping(CUT[name]).splitlines()]
        blocks = lines.index("band [i_block parallel *] permutable")
        rows = lines.index("band [i div 8] permutable")
        assert blocks < lines.index("S1.part.init") < rows
        assert rows < lines.index("S0") < lines.index("S1.part")
        held = [line for line in lines[rows:] if line.startswith("promote y.p0 to register")]
        assert [line.endswith("(copied in and out)") for line in held] == [True]


def test_one_row_is_walked_once() -> None:
    """What is stored is added to the sums of columns in one loop over a row."""
    lines = [line.strip() for line in mapping(CUT["what is written"]).splitlines()]
    tail = lines[lines.index("band [i] permutable") : lines.index("S1.part")]
    assert [line for line in tail if line.startswith("band [j div")] == tail[1:2]


@pytest.mark.parametrize("name", ["rows and columns", "columns and rows"])
def test_rows_at_once_follow_the_second_cache(name: str) -> None:
    """Two rows of 1024 values are a half of 16 KiB; of more, one is walked at a time. Where the sum
    of the columns is first in the text, what starts the rows' sums stands before it all the same:
    5000 x 4000 doubles take 11.4 ms in place of 15.0 (one thread of an Intel Xeon)."""
    text = f"def f({INPUTS}) -> (x, y) {{ {CUT[name]} }}"
    for columns, loop in ((1024, "i div 2"), (1025, "i"), (256, "i div 8")):
        sizes = {"I": 640, "J": columns}
        found = tc.explain(text, sizes, device=DEVICE).stages["mapping"].split("Mapped.")[1]
        assert f"band [{loop}] permutable" in found


@pytest.mark.parametrize("steps", [4, 5, 16])
def test_rows_at_once_are_whole_steps_of_sums(steps: int) -> None:
    """Of sums that the caller wants in steps."""
    text = "def f(float(N,M) a, float(K,L,P) b) -> (o) { o(q) +=! a(s,2*t) * b(s,t,q) }"
    options = tc.Options(mapping=tc.MappingOptions(reduction_tile=steps, pack=False))
    sizes = {"N": 30, "M": 50, "K": 30, "L": 25, "P": 40}
    device = tc.Device(
        vector_bits=256, vector_registers=16, l1=512, l2=12288, l3=16384, threads=4, page=256
    )
    arrays = [np.ones((30, 50), np.float32), np.ones((30, 25, 40), np.float32)]
    assert tc.explain(text, sizes, device=device, options=options).stages["kernel"]
    found = tc.compile(text, options=options)(*arrays)
    assert (found == 750).all()


@pytest.mark.parametrize("name", ["rows and columns", "the row's sum is in the columns' sum"])
def test_plans_are_given_back(name: str) -> None:
    text = f"def f({INPUTS}) -> (x, y) {{ {CUT[name]} }}"
    sizes = {"I": 640, "J": 100}
    chosen = tc.explain(text, sizes, device=DEVICE)
    plan = tc.Plan.from_json(str(chosen.trace.lowering.mapped.plan))
    given = tc.explain(text, sizes, device=DEVICE, options=tc.Options(plan=plan))
    assert given.stages["kernel"] == chosen.stages["kernel"]


@pytest.mark.parametrize("name", CUT)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    rng = np.random.default_rng(3)
    arrays = {
        "A": rng.uniform(-1, 1, (1100, 513)).astype(np.float32),
        "p": rng.uniform(-1, 1, 513).astype(np.float32),
        "q": rng.uniform(-1, 1, 1100).astype(np.float32),
    }
    outputs = [output for output in "xyz" if f"{output}(" in CUT[name]]
    text = f"def f({INPUTS}) -> ({', '.join(outputs)}) {{ {CUT[name]} }}"
    alone, shared = (
        tc.compile(text, options=tc.Options(threads=threads))(**arrays) for threads in (1, 3)
    )
    for output in outputs:
        assert getattr(alone, output).tobytes() == getattr(shared, output).tobytes()


def test_a_row_times_a_matrix() -> None:
    """A product with one row is a sum of columns: two rows at a time, from end to end."""
    text = "def f(float(I,K) A, float(K,J) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    explained = tc.explain(text, {"I": 1, "K": 4096, "J": 1024}, device=DEVICE)
    found = explained.stages["mapping"].split("Mapped.")[1]
    lines = [line.strip() for line in found.splitlines()]
    assert "band [k_block parallel *] permutable" in lines
    assert any(line.startswith("band [k div 2, ") for line in lines)


def test_few_rows_are_walked_with_the_matrix() -> None:
    """A register tile has rows of results, and four rows of the matrix at a time."""
    device = tc.Device(vector_bits=512, vector_registers=32, l2=1 << 17, threads=2)
    found = tc.explain(PRODUCT, {"N": 8, "I": 4096, "J": 500}, device=device).stages["mapping"]
    lines = [line.strip() for line in found.split("Mapped.")[1].splitlines()]
    blocks = lines.index("band [i_block parallel *] permutable")
    assert any(line.startswith("band [i div 4, j div 64, n div 4]") for line in lines[blocks:])
