"""The scop: which statements, domains and accesses a program has at given sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tc.polyhedral.scop.scop import Access
from tc.polyhedral.scop.text import dependences_text, scop_text
from tests.support.scops import PROGRAMS, Small, dependences_of, program, scop_of
from tests.support.tree_order import points, touches_of


def accesses(statement: object) -> list[tuple[str, list[tuple[int, dict[str, int]] | None]]]:
    return [
        (a.tensor, [f and (f.constant, dict(f.terms)) for f in a.subscripts])
        for a in statement.accesses  # type: ignore[attr-defined]
    ]


def test_statements_are_found_without_a_search() -> None:
    """Each pass asks for each statement of a block, so that a search makes them cubic."""
    lines = " ".join(f"a{n + 1}(i) = a{n}(i) * 2" for n in range(50))
    scop = scop_of(f"def f(float(N) a0) -> (o) {{ {lines} o(i) = a50(i) }}", N=3)
    seen = Counted(scop.statements)
    counting = replace(scop, statements=seen)
    assert [counting.statement(s.name) for s in scop.statements] == [*scop.statements]
    assert seen.passes <= 1


class Counted(tuple):  # type: ignore[type-arg]  # of statements
    """Counts how often it is gone through."""

    passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return super().__iter__()


def test_a_reduction_is_its_start_and_its_updates() -> None:
    """rule R2"""
    start, updates = scop_of(
        "def f(float(N,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }", N=3, K=4
    ).statements
    assert (start.name, start.kind, start.op, start.variables) == ("S0.init", "init", "+", ("i",))
    assert start.ranges == {"i": (0, 3)}
    assert accesses(start) == [("y", [(0, {"i": 1})])]
    assert not start.accumulates
    assert (updates.name, updates.kind, updates.variables) == ("S0", "update", ("i", "k"))
    assert (updates.outer, updates.reduction, updates.accumulates) == (("i",), ("k",), True)
    assert updates.ranges == {"i": (0, 3), "k": (0, 4)}
    assert accesses(updates) == [
        ("y", [(0, {"i": 1})]),
        ("y", [(0, {"i": 1})]),
        ("A", [(0, {"i": 1}), (0, {"k": 1})]),
        ("x", [(0, {"k": 1})]),
    ]
    assert [a.site for a in updates.reads] == [-1, 0, 1]


def test_an_empty_reduction_only_starts() -> None:
    """rule R2"""
    text = "def f(float(N,K) A) -> (y) { y(i) +=! A(i,k) }"
    assert [s.name for s in scop_of(text, N=3, K=0).statements] == ["S0.init"]
    assert scop_of(text, N=0, K=3).statements == ()


def test_a_reduction_that_continues_has_no_start() -> None:
    """rule R3"""
    text = "def f(float(N,K) A) -> (y) { y(i) += A(i,k) }"
    assert [s.name for s in scop_of(text, N=3, K=2).statements] == ["S0.init", "S0"]
    given = scop_of(text, frozenset({"y"}), N=3, K=2)
    assert [s.name for s in given.statements] == ["S0"]
    assert given.initial == {"y"}
    assert scop_of(text, frozenset({"y"}), N=3, K=0).statements == ()
    both = scop_of("def f(float(N,K) A) -> (y) { y(i) = 0 y(i) += A(i,k) }", N=3, K=2)
    assert [(s.name, s.accumulates) for s in both.statements] == [("S0", False), ("S1", True)]


def test_zeros_come_before_what_needs_them() -> None:
    """rule G4"""
    zero, first, second = scop_of(
        "def f(float(N) a) -> (b, c) { b(i) = a(i) where i in 1:3 c(i) = b(i) }", N=5
    ).statements
    assert (zero.name, zero.kind, zero.position, zero.op) == ("b.zero", "zero", 0, "=")
    assert zero.ranges == {"i0": (0, 3)}
    assert zero.write == Access("b", zero.write.subscripts, ((0, 3),))
    assert (first.name, first.ranges) == ("S0", {"i": (1, 3)})
    assert second.name == "S1"


def test_zeros_for_a_read_before_the_last_write() -> None:
    """rule G4: b is whole at the end, but c reads it before"""
    names = [
        s.name
        for s in scop_of(
            "def f(float(N) a) -> (b, c) { b(i) = a(i) where i in 1:N c(i) = b(i) b(i) = a(i) }",
            N=5,
        ).statements
    ]
    assert names == ["b.zero", "S0", "S1", "S2"]
    later = scop_of(
        "def f(float(N) a) -> (b, c) { b(i) = a(i) where i in 1:N b(i) = a(i) c(i) = b(i) }", N=5
    )
    assert [s.name for s in later.statements] == ["S0", "S1", "S2"]


def test_static_scalars_are_no_accesses() -> None:
    """rule G2"""
    (statement,) = scop_of(
        "def f(int s, float t, float(N) a) -> (b) { b(i) = a(i + s) * t where i in 0:2 }",
        N=5,
        s=2,
    ).statements
    assert [a.tensor for a in statement.reads] == ["a", "t"]
    assert accesses(statement)[1:] == [("a", [(2, {"i": 1})]), ("t", [])]


def test_accesses_that_are_not_linear_have_bounds() -> None:
    """rule G7"""
    (statement,) = scop_of(
        "def f(float(N) a, int(M) I) -> (b) "
        "{ b(i) = a(I(i)) + a(i / 2) + a(min(i, 3) + 2) + a(i * i % 3 + 1) }",
        N=9,
        M=5,
    ).statements
    reads = [(a.tensor, a.subscripts[0] is None, a.bounds) for a in statement.reads]
    assert reads == [
        ("a", True, ((0, 9),)),
        ("I", False, ((0, 5),)),
        ("a", True, ((0, 3),)),
        ("a", True, ((2, 6),)),
        ("a", True, ((1, 4),)),
    ]


def test_bounds_are_those_of_what_can_be_read() -> None:
    """rule G9: a guarded read may leave the tensor on paper, never in fact"""
    (statement,) = scop_of(
        "def f(float(N) a) -> (b) { b(i) = pad(a(i - 2), 0) where i in 0:N+4 }", N=5
    ).statements
    (read,) = statement.reads
    assert read.guarded
    assert read.bounds == ((0, 5),)
    assert read.subscripts[0] is not None
    assert statement.write.bounds == ((0, 9),)


def test_a_form_that_wraps_is_not_linear() -> None:
    (statement,) = scop_of(
        "def f(float(N) a) -> (b) { b(i) = a(uint8(i * 100)) where i in 0:4 }", N=300
    ).statements
    assert statement.reads[0].subscripts == (None,)
    assert statement.reads[0].bounds == ((0, 256),)


def test_guards() -> None:
    """rule Y6"""
    (statement,) = scop_of(
        "def f(float(N) a, float(N) b, float(N) c, float(N) d) -> (o) "
        "{ o(i) = a(i) > 0 && b(i) > 0 ? c(i) : d(i) }",
        N=5,
    ).statements
    guarded = {a.tensor: a.guarded for a in statement.reads}
    assert guarded == {"a": False, "b": True, "c": True, "d": True}


@pytest.mark.parametrize("small", PROGRAMS, ids=lambda p: p.name)
def test_accesses_contain_what_instances_touch(small: Small) -> None:
    """Evaluated subscripts, guards included, lie within the access relations of the scop."""
    scop = small.scop()
    for statement in scop.statements:
        for point in points(statement):
            for touch in touches_of(scop, statement.name, point):
                tensor, place = touch.element
                candidates = [statement.write] if touch.writes else statement.reads
                assert any(
                    access.tensor == tensor and contains(access, place, point)
                    for access in candidates
                ), (statement.name, point, touch.element)


def contains(access: Access, place: tuple[int, ...], point: dict[str, int]) -> bool:
    """Whether an access may touch an element: exactly where linear, else by its bounds."""
    return all(
        begin <= index < end
        and (
            form is None
            or index == form.constant + sum(f * point[v] for v, f in form.terms.items())
        )
        for index, form, (begin, end) in zip(place, access.subscripts, access.bounds, strict=True)
    )


# --- texts --------------------------------------------------------------------------------------


def test_scop_text() -> None:
    text = scop_text(program("stencil").scop())
    assert text.split("\n")[6:] == [
        "D.zero: zeros, as some elements are never written (G4), before "
        "D(t,i) = B(t,i+1) - B(t,i) where i in 1:5",
        "  domain { D.zero[i0, i1] : 0 <= i0 < 2 and 0 <= i1 < 5 }",
        "  writes { D.zero[i0, i1] -> D[i0, i1] }",
        "S1: D(t,i) = B(t,i+1) - B(t,i) where i in 1:5",
        "  domain { S1[t, i] : 0 <= t < 2 and 1 <= i < 5 }",
        "  writes { S1[t, i] -> D[t, i] }",
        "  reads { S1[t, i] -> B[t, i + 1] }",
        "  reads { S1[t, i] -> B[t, i] }",
    ]


def test_scop_text_of_may_accesses() -> None:
    lines = scop_text(program("2LUT").scop()).split("\n")
    assert "  may read { S0[i, j, k] -> LUT1[x0, j] : 0 <= x0 < 5 }" in lines
    assert "  reads { S0[i, j, k] -> O1[i, j] }, the accumulator of +=" in lines
    padded = scop_text(program("conv_pad").scop())
    assert (
        "  may read { S0[n, m, h, w, c, kh, kw] -> I[n, c, h + kh - 1, w + kw - 1] }, in a branch"
        in padded
    )


def test_dependences_text() -> None:
    text = dependences_text(
        dependences_of(
            "def f(float(N,K) A) -> (y, z) { y(i) += A(i,k) z(i) = y(i+1) where i in 0:2 }",
            frozenset({"y"}),
            N=4,
            K=3,
        )
    )
    assert text == "\n".join(
        [
            "memory-based, without those that follow from others:",
            "  reduction through y, in any order (R5): { S0[i, k] -> S0[i, k'] }",
            "  flow through y: { S0[i, k] -> S1[i - 1] }",
            "value-based, the last write before each read:",
            "  y as the caller passed it: { S0[i, k = 0] -> y[x0 = i] : 0 <= i <= 3 }",
            "  y: { S0[i, k] -> S0[i' = i, k' = 1 + k] : 0 <= i <= 3 and 0 <= k <= 1 }",
            "  y: { S0[i, k = 2] -> S1[i' = -1 + i] : 0 < i <= 2 }",
        ]
    )


def test_dependences_text_without_any() -> None:
    text = dependences_text(dependences_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=3))
    assert text.count("none") == 2


def test_dependences_text_with_constraints() -> None:
    """What variables of the source and the sink have to meet stands behind the colon."""
    text = dependences_text(
        dependences_of(
            "def f(float(N) a) -> (b, c) { b(i) = a(i) c(i) = b(2*i+1) + b(3) where i in 0:3 "
            "c(i) += b(i+k) where k in 0:2 }",
            N=8,
        )
    )
    lines = text.split("\n")
    assert "  flow through b: { S0[i] -> S1[i'] : i - 2*i' - 1 = 0 }" in lines
    assert "  flow through b: { S0[i] -> S1[i'] : i = 3 }" in lines
    assert "  flow through b: { S0[i] -> S2[i', k'] : i - i' - k' = 0 }" in lines
