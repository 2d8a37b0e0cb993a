"""In-place updates: P1, with random subscripts against trying all pairs of instances."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.errors import RangeError
from tests.support.brute_ranges import Subscript, conditions, linear_subscripts, subscripts
from tests.support.interpreting import run
from tests.support.sizes_of_call import attempt, program_of, ranges, shape


def refusal(text: str, **sizes: int) -> RangeError:
    with pytest.raises(RangeError) as caught:
        shape(text, **sizes)
    assert caught.value.rule == "P1"
    return caught.value


TRANSPOSE = "def f(float(N,M) b) -> (a) { a(i,j) = b(i,j)  a(i,j) = a(j,i) }"


def test_transposing_in_place_is_rejected() -> None:  # rule P1, paper-3.2
    error = refusal(TRANSPOSE, N=3, M=3)
    assert error.cause == (
        "'a(j,i)' reads a(1, 0) in the instance i = 0, j = 1, and the instance i = 1, j = 0 "
        "writes it"
    )
    assert error.repair == ("a_old(i, j) = a(i, j), before this statement, and read a_old here")


@pytest.mark.parametrize(("n", "m"), [(1, 1), (0, 0), (0, 3)])
def test_one_instance_or_none_is_accepted(n: int, m: int) -> None:  # rule P1, paper-3.2
    if n == m:
        assert shape(TRANSPOSE, N=n, M=m).shapes["a"] == (n, m)
    text = "def f(float(N,M) b) -> (a) { a(i,j) = b(i,j)  a(i,j) += a(i,j) * b(i,j) * b(i,k) }"
    assert ranges(shape(text, N=n, M=m), 1) == {"i": (0, n), "j": (0, m), "k": (0, m)}


def test_two_instances_may_conflict() -> None:  # rule P1
    text = "def f(float(N) b) -> (a) { a(i) = b(i)  a(i) = a(N-1-i) }"
    refusal(text, N=2)
    assert ranges(shape(text, N=1), 1) == {"i": (0, 1)}


def test_transposing_another_tensor_is_accepted() -> None:  # rule P1, paper-3.2
    shaped = shape("def f(float(N,M) b) -> (a) { a(i,j) = b(j,i) }", N=3, M=4)
    assert shaped.shapes["a"] == (4, 3)


@pytest.mark.parametrize(
    ("rhs", "accepted"),
    [
        ("a(i) + 1", True),
        ("a(0)", False),
        ("a(N-1-i)", True),
        ("a(2-i)", False),
        ("i < 1 ? a(i+1) : 0", False),
        ("a(i + 3)", True),
        ("a(i + 1)", False),
        ("i < 3 ? a(i + 3) : 0", True),
        ("a(i/2)", False),
        ("a(i*1)", True),
        ("i == 0 ? a(0) : 0", True),
        ("i == 0 ? a(1) : 0", False),
        ("i > 5 ? a(0) : b(i)", True),
        ("b(i) > 0 ? a(i + 1) : 0", False),
        ("b(i) > 0 ? a(i) : 0", True),
        ("b(i) > 0 && i > 5 ? a(0) : 0", True),
        ("i > 5 && 0.5 ? a(0) : 0", True),
        ("i < 5 && 0.5 ? a(0) : 0", False),
        ("i < 5 && !0.5 ? a(0) : 0", True),
        ("i > 5 || 0.0 ? a(0) : 0", True),
        ("a(i % 3)", True),
        ("a(i*i)", False),
        ("a(int32(c(i)))", False),
        ("a(max(i, 0))", True),
        ("a(min(i, 1))", False),
    ],
)
def test_self_reads(rhs: str, accepted: bool) -> None:  # rule P1
    text = f"""def f(float(N) b, int32(N) c) -> (a) {{
      a(i) = b(i)
      a(i) = {rhs} where i in 0:3
    }}"""
    if accepted:
        assert ranges(shape(text, N=6), 1) == {"i": (0, 3)}
    else:
        refusal(text, N=6)


def test_reduction_variables_count_as_part_of_the_instance() -> None:  # rule P1
    text = "def f(float(N,K) b) -> (a) { a(i) = b(i,0)  a(i) += a(i) * b(i,k) }"
    error = refusal(text, N=3, K=2)
    assert "i = 0, k = 0, and the instance i = 0, k = 1" in error.cause
    assert ranges(shape(text, N=3, K=1), 1) == {"i": (0, 3), "k": (0, 1)}


SCALARS = {
    "a sum": ("s = a(0)  s += s * a(i)", "i = 0, and the instance i = 1"),
    "a maximum": ("s = a(0)  s max= a(i) - s", "i = 0, and the instance i = 1"),
    "under a condition on values": (
        "s = a(0)  s min= a(i) > s ? 0 : a(i)",
        "i = 0, and the instance i = 1",
    ),
    "under a condition on the index": (
        "s = a(0)  s += i == 2 ? s : a(i)",
        "i = 2, and the instance i = 0",
    ),
    "in a pad": ("s = a(0)  s += pad(s * a(i), 0)", "i = 0, and the instance i = 1"),
    "over several": ("s = a(0)  s *= s + a(i) * a(j)", "i = 0, j = 0, and the instance i = 1"),
    "what the caller passes": ("s += a(i) * s", "i = 0, and the instance i = 1"),
    "of a temporary": ("t = a(0)  t += a(i) * t  s = t", "i = 0, and the instance i = 1"),
}


@pytest.mark.parametrize("name", SCALARS)
def test_rank_0_is_no_exception(name: str) -> None:  # rule P1
    body, pair = SCALARS[name]
    text = f"def f(float(N) a) -> (s) {{ {body} }}"
    error = refusal(text, N=3)
    target = "t" if "temporary" in name else "s"
    assert error.cause.startswith(f"'{target}' reads {target} in the instance {pair}")
    assert error.repair is None  # the loop that was meant may be a recurrence
    assert error.idiom is not None
    assert f"{target}_old = {target}, before this statement, and {target}_old here" in error.idiom
    assert shape(text, N=1).shapes[target] == ()


def test_the_repair_at_rank_0_means_the_old_value() -> None:  # rule P1
    text = "def f(float(N) a) -> (s) { s = a(0)  s_old = s  s += s_old * a(i) }"
    assert run(text, a=[1, 2, 3]) == 1 + 1 * (1 + 2 + 3)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("s = a(0)  s = s * 2", 4),
        ("s = a(0)  s += s", 4),
        ("s = a(0)  s += i > N ? s : a(i)", 2 + (2 + 5 + 1)),
        ("s max=! a(i)", 5),
    ],
)
def test_scalars_that_no_other_instance_writes(body: str, result: int) -> None:  # rule P1
    assert run(f"def f(float(N) a) -> (s) {{ {body} }}", a=[2, 5, 1]) == result


def test_contractions_and_pointwise_updates_are_accepted() -> None:  # rule P1, paper-3.3
    text = """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
      C(i,j) = b * C(i,j)
      C(i,j) += a * A(i,k) * B(k,j)
      C(i,j) = fmaxf(C(i,j), 0)
    }"""
    shaped = shape(text, N=3, M=4, K=5)
    assert [ranges(shaped, n) for n in range(3)] == [
        {"i": (0, 3), "j": (0, 5)},
        {"i": (0, 3), "k": (0, 4), "j": (0, 5)},
        {"i": (0, 3), "j": (0, 5)},
    ]


def test_a_self_read_that_is_not_affine() -> None:  # rule P1
    text = "def f(float(N) b, int32(N) c) -> (a) { a(i) = b(i)  a(i) = a(c(i)) }"
    assert "not affine" in refusal(text, N=3).cause
    assert ranges(shape(text, N=1), 1) == {"i": (0, 1)}


def test_the_names_of_an_inlined_def_are_its_own() -> None:  # rule P1, N4
    text = """
    def g(float(N) x) -> (y) { t(i) = x(i)  t(i) = t(N-1-i)  y(i) = t(i) }
    def f(float(N) x) -> (z) { z = g(x) }"""
    error = refusal(text, N=4)
    assert "reads t(3)" in error.cause
    assert error.idiom is not None
    assert "t_old" in error.idiom


EXTENT = 6


@st.composite
def updates(draw: Any, kind: Any) -> tuple[list[Subscript], Subscript, bool, list[int], bool]:
    reads = [draw(kind(("i", "j"))) for _ in range(2)]
    guard = draw(conditions(("i", "j")))
    ends = [draw(st.integers(0, 3)), draw(st.integers(0, 3))]
    return reads, guard, draw(st.booleans()), ends, draw(st.booleans())


def compare(
    reads: list[Subscript], guard: Subscript, is_then: bool, ends: list[int], reduces: bool
) -> None:
    """Each instance (i, j) writes (i, j), or (i, 0) where it reduces over j."""
    read = f"a({reads[0].text}, {reads[1].text})"
    rhs = f"({guard.text}) ? {read} : 0" if is_then else f"({guard.text}) ? 0 : {read}"
    target = "a(i, z) += " if reduces else "a(i, j) = "
    where = f"where i in 0:{ends[0]}, j in 0:{ends[1]}" + (", z in 0:1" if reduces else "")
    text = f"""def f(float({EXTENT},{EXTENT}) b) -> (a) {{
      a(i,j) = b(i,j)
      {target} {rhs} {where}
    }}"""
    points = [{"i": i, "j": j} for i, j in product(range(ends[0]), range(ends[1]))]

    def written(p: dict[str, int]) -> tuple[int, int]:
        return (p["i"], 0) if reduces else (p["i"], p["j"])

    reading = [
        (p, (reads[0].code(p), reads[1].code(p))) for p in points if guard.code(p) == is_then
    ]
    leaves = any(not (0 <= k < EXTENT) for _, place in reading for k in place)
    conflicts = any(place == written(q) and p != q for p, place in reading for q in points)
    result = attempt(text)
    if isinstance(result, RangeError):
        assert result.rule == ("G6" if leaves else "P1"), (text, str(result))
        assert leaves or conflicts, (text, str(result))
    else:
        assert not leaves, text
        assert not conflicts, text


@given(updates(linear_subscripts))
def test_linear_self_reads_against_all_pairs(update: Any) -> None:
    """rule P1"""
    compare(*update)


@given(updates(subscripts))
def test_quasi_affine_self_reads_against_all_pairs(update: Any) -> None:
    """rule P1"""
    compare(*update)


@pytest.mark.parametrize("statement", ["a(i) = b(int32(a(i)))", "a(i) +=! a(i) * b(k)"])
def test_what_is_wrong_whatever_the_sizes_is_an_error_of_the_text(statement: str) -> None:
    """rule P1, paper-3.15"""
    with pytest.raises(Exception, match="P1"):
        program_of(f"def f(float(N) b) -> (a) {{ a(i) = b(i)  {statement} }}")
