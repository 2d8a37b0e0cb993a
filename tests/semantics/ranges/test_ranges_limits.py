"""Range inference at its limits: no ranges, empty ones (G5), and those of a where (G8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tc.errors import RangeError
from tests.support.sizes_of_call import range_texts, ranges, refused, shape
from tests.test_errors import sizes_of

# --- G5: ranges that cannot be ----------------------------------------------------------------


def test_0_is_not_feasible() -> None:  # rule G5
    error = refused("def f(float(N) I) -> (O) { O(i) = I(i-1) }", N=5)
    assert error.rule == "G5"
    assert "'i' cannot start at 0: at i = 0 subscript 0 of 'I(i-1)' is -1" in error.cause
    assert error.repair.endswith("where i in 1:N+1")
    shaped = shape("def f(float(N) I) -> (O) { O(i) = I(i-1) where i in 1:N+1 }", N=5)
    assert shaped.shapes["O"] == (6,)


@pytest.mark.parametrize(
    ("read", "repair"),
    [
        ("I(N-i)", "1:N+1"),
        ("I(2*i-3)", "2:(N - 1 + 3) / 2 + 1"),
        ("I(i-K+1)", "K-1:N+K-1"),
        ("I(i/2-1)", "2:"),
    ],
)
def test_the_repair_of_an_infeasible_start(read: str, repair: str) -> None:  # rule G5
    text = "def f(float(N) I, float(K) J) -> (O) {{ O(i) = {} {} }}"
    error = refused(text.format(read, ""), N=6, K=3)
    said = error.repair or error.idiom
    clause = said[said.index("where") :].split(",")[0]
    assert shape(text.format(read, clause), N=6, K=3).statements[0].ranges["i"].extent > 0
    assert clause.startswith("where i in " + repair.split(":")[0])


def test_unresolved_variables_are_named() -> None:  # rule G5, paper-3.5, paper-3.13
    text = """def maxpool2x2(float(B,C,H,W) in) -> (out) {{
      out(b,c,i,j) max=! in(b,c, 2*i + kw, 2*j + kh) {}
    }}"""
    error = refused(text.format(""), B=1, C=1, H=6, W=8)
    for name in ("i", "j", "kw", "kh"):
        assert f"'{name}'" in error.cause
    assert "leaves i and kw open" in error.cause
    clause = error.repair[error.repair.index("where") :]
    assert clause == "where kw in 0:2, kh in 0:2"
    assert shape(text.format(clause), B=1, C=1, H=6, W=8).shapes["out"] == (1, 1, 3, 4)


def test_a_variable_that_nothing_mentions() -> None:  # rule G5
    error = refused("def f(float(N) x) -> (o) { o +=! x(i*i) }", N=4)
    assert "is not affine" in error.cause


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [(5, 5, 1, 1), (4, 5, 1, 0), (3, 5, 1, None), (4, 5, 2, 0), (3, 5, 2, None), (0, 1, 3, 0)],
)
def test_kernel_longer_than_image(
    size: int, kernel: int, stride: int, expected: int | None
) -> None:  # rule G5
    """One longer gives an empty range, two longer an error, whatever the stride."""
    text = f"def f(float(M) I, float(N) K) -> (O) {{ O(i) +=! K(x) * I({stride}*i + x) }}"
    if expected is None:
        error = refused(text, M=size, N=kernel)
        assert error.rule == "G5"
        assert "size below 0" in error.cause
        assert "'I(" in error.cause
        clause = error.repair[error.repair.index("where") :]
        assert shape(text.replace(" }", f" {clause} }}"), M=size, N=kernel)
    else:
        assert shape(text, M=size, N=kernel).shapes["O"] == (expected,)


@pytest.mark.parametrize(
    ("read", "size"), [("a(i)", 0), ("a(i+N)", 4), ("a(i+N)", 0), ("a(N-1-i)", 0),
                       ("a(i/2 + N)", 3), ("a(N+max(i,0))", 3), ("a(0*i+N)", 3)]
)  # fmt: skip
def test_empty_ranges(read: str, size: int) -> None:  # rule G5
    shaped = shape(f"def f(float(N) a) -> (o) {{ o(i) = {read} }}", N=size)
    assert shaped.shapes["o"] == (0,)
    assert shaped.statements[0].is_empty


@pytest.mark.parametrize(
    ("read", "size"), [("a(N-i)", 3), ("a(i+N+1)", 3), ("a(i-1)", 0), ("a(N-2-i)", 1),
                       ("a(N-i/2)", 3), ("a(0*i-1)", 3), ("a(N + i%2 + (0-i))", 3),
                       ("a(min(i,N-1))", 0)]
)  # fmt: skip
def test_no_empty_ranges(read: str, size: int) -> None:  # rule G5
    assert refused(f"def f(float(N) a) -> (o) {{ o(i) = {read} }}", N=size).rule == "G5"


def test_a_falling_subscript_into_an_empty_tensor_with_other_variables() -> None:  # rule G5
    text = "def f(float(N) a, float(M) b) -> (o) { o(i) +=! a(N-1-i-j) * b(j) }"
    assert shape(text, N=0, M=2).shapes["o"] == (0,)
    assert refused(text, N=1, M=2).rule == "G5"


def test_a_negative_size() -> None:  # rule G5
    error = refused("def f(float(N) a) -> (o) { o(i) = a(i) where i in N:1 }", N=3)
    assert error.rule == "G5"
    assert "the range of 'i' is 3:1, a size below 0" in error.cause


def test_a_huge_inferred_range() -> None:  # rule G5
    error = refused("def f(float(N) a) -> (o) { o +=! a(i / 4611686018427387904) }", N=3)
    assert "2**62" in error.cause


# --- G8: where --------------------------------------------------------------------------------


def test_where_is_half_open_and_comes_first() -> None:  # rule G8, language-S3, language-Z1
    text = "def f(float(N) a, int s) -> (o) { o(i) +=! a(i + k) where k in s:min(N, 2*s) }"
    assert ranges(shape(text, N=10, s=2)) == {"i": (0, 7), "k": (2, 4)}


def test_a_reduction_variable_may_start_below_0() -> None:  # rule G8
    text = "def f(float(N) a) -> (o) { o(i) +=! a(i + k) where k in -1:2, i in 1:N-1 }"
    assert ranges(shape(text, N=10)) == {"i": (1, 9), "k": (-1, 2)}
    error = refused("def f(float(N) a) -> (o) { o(i) = a(i+1) where i in -1:N-1 }", N=10)
    assert error.rule == "G8"
    assert "-1:9" in error.cause


def test_bounds_may_use_extents_of_results() -> None:  # rule G8, language-Z1
    text = "def f(float(N) a) -> (o, p) { o(i) = a(i+1)  p(i) = o(0) where i in 0:2*o.0 }"
    shaped = shape(text, N=5)
    assert shaped.shapes["p"] == (8,)
    assert range_texts(shaped, 1) == {"i": "0:2 * N - 2"}


@pytest.mark.parametrize("bound", ["N / M", "N % M", "1 + 2 / (M * N)"])
def test_division_by_zero_in_a_bound(bound: str) -> None:  # rule G8, Y4
    error = refused(f"def f(float(N) a, float(M) b) -> (o) {{ o +=! a(0) where i in 0:{bound} }}",
                    N=5, M=0)  # fmt: skip
    assert error.rule == "G8"
    assert "divides by zero" in error.cause


@pytest.mark.parametrize("bound", ["N*N*N*N*N*N*N", "4611686018427387904 + 1"])
def test_a_huge_bound(bound: str) -> None:  # rule G8
    assert refused(f"def f(float(N) a) -> (o) {{ o +=! a(0) where i in 0:{bound} }}",
                   N=1_000_000).rule == "G8"  # fmt: skip


def test_an_empty_where() -> None:  # rule G8, R1
    shaped = shape("def f() -> (o) { o +=! 1 where k in 3:3 }")
    assert ranges(shaped) == {"k": (3, 3)}
    assert shaped.statements[0].is_empty


# --- The `where` that an error of range inference suggests settles it (G5, G6, G8).


ERRORS = Path(__file__).parents[2] / "errors"
FILES = sorted(p for p in ERRORS.glob("range_*.tc") if not re.match(r".*\.", p.read_text()))


def pasted(text: str, error: RangeError, clauses: str) -> str:
    """The text with the clauses added to the statement at fault, one per line; a clause for the
    same variable is replaced."""
    assert error.span is not None
    number = error.span.source.position(error.span.start)[0] - 1
    lines = text.split("\n")
    for clause in clauses.split(", "):
        name = clause.split()[0]
        line = lines[number]
        if re.search(rf"\b{name} in ", line):
            lines[number] = re.sub(rf"\b{name} in [^,]*", clause, line)
        else:
            lines[number] = line + (", " if " where " in line else " where ") + clause
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_suggested_where_settles_the_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    sizes = sizes_of(text) or {}
    with pytest.raises(Exception, match=r"repair|idiom") as caught:
        shape(text, **sizes)
    error = caught.value
    if not isinstance(error, RangeError) or "where " not in (error.repair or ""):
        return
    assert error.repair is not None
    if " before: " in error.repair or " as input" in error.repair:  # more than a `where`
        repaired = error.repaired()
        assert repaired is not None
        shape(repaired, **{**dict.fromkeys(re.findall(r"int (\w+)", error.repair), 3), **sizes})
        return
    whole = error.repaired() or error.exemplified()
    clauses = error.repair.rpartition("where ")[2]
    shape(whole or pasted(text, error, clauses), **sizes)
