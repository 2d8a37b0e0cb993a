"""The trees that `respects` accepts, and the reasons with which it rejects others."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tc import sets
from tc.errors import InternalError
from tc.plan import BLOCK, PARALLEL, THREAD, UNROLL, VECTOR
from tc.polyhedral import legality
from tc.polyhedral.legality import annotated, check_schedule, respects
from tc.polyhedral.schedule import (
    ArrayTile,
    Axis,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
    tile,
)
from tc.polyhedral.scop import relations
from tc.polyhedral.scop.dependences import Dependences, compute_dependences
from tc.polyhedral.strategies.scheduler import schedule
from tests.support.scops import PROGRAMS, Small, dependences_of, program, scop_of
from tests.support.tree_edits import sunk, tiled
from tests.support.tree_order import faults

DIAGONAL = """def diagonal(float(N,M) a) -> (b, d) {
  b(i,j) = a(i,j)
  d(i,j) = b(i+1,j) + b(i,j+1)
}"""
"""Fused with i of d one later, b reaches d at (0,0) and at (1,-1): in order, not permutable."""


def mm() -> Dependences:
    return compute_dependences(program("mm").scop())


def member(name: str, *, coincident: bool = False, **values: str | int) -> Member:
    """A whole loop; names of statements have _ for a dot."""
    found = {
        statement.replace("_", "."): Value(None, v) if isinstance(v, int) else Value(v)
        for statement, v in values.items()
    }
    return Member(name, found, coincident)


def mm_tree(
    *,
    first: str = "S0.init",
    coincident: bool = False,
    role: str = "serial",
    axis: str | None = None,
) -> Node:
    both = [
        member(v, coincident=True, S0_init=v, S0=v) for v in ("i", "j")
    ]  # fmt: skip
    k = replace(member("k", coincident=coincident, S0="k"), role=role, axis=axis)
    parts: list[Node] = [Leaf("S0.init"), Band((k,), True, Leaf("S0"))]
    if first == "S0":
        parts.reverse()
    return Band(tuple(both), True, Sequence(tuple(parts)))


# --- what is right --------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize("small", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("strategy", ["max", "min", "preserve3coincident"])
@pytest.mark.parametrize("share", [False, True])
def test_strategies_and_tilings_are_legal(small: Small, strategy: str, share: bool) -> None:
    """Checked, and run by brute force: whole, tiled, and tiled with the points sunk."""
    scop = small.scop()
    dependences = compute_dependences(scop)
    tree = schedule(scop, dependences, strategy, share_reductions=share)
    for candidate in (tree, tiled(tree, 2), sunk(tiled(tree, 3)), tiled(tiled(tree, 4), 2)):
        assert respects(candidate, dependences) is None
        assert faults(candidate, scop) == []
    assert annotated(tree, dependences) == tree


def test_reductions_may_be_reordered() -> None:
    """rule R5: the loop of a reduction may be the outermost after the start"""
    k = member("k", S0="k")
    rest = tuple(member(v, coincident=True, S0=v) for v in ("i", "j"))
    start = tuple(member(v, coincident=True, S0_init=v) for v in ("i", "j"))
    tree = Sequence((Band(start, True, Leaf("S0.init")), Band((k, *rest), True, Leaf("S0"))))
    assert respects(tree, mm()) is None


def test_constants_place_a_statement_in_one_iteration() -> None:
    both = tuple(member(v, coincident=True, S0_init=v, S0=v) for v in ("i", "j"))
    for at, reason in ((0, None), (1, "in the wrong order along [k]")):
        k = member("k", S0_init=at, S0="k")
        tree = Band((*both, k), True, Sequence((Leaf("S0.init"), Leaf("S0"))))
        found = respects(tree, mm())
        assert found is None if reason is None else reason in (found or "")


def test_promotions_change_nothing() -> None:
    buffer = ArrayTile("R", "r", "register", (1, 1), (Axis(0, 1, 1),), True, True)
    tree = mm_tree()
    assert isinstance(tree, Band)
    promoted = replace(tree, child=Promotion((buffer,), tree.child))
    assert respects(promoted, mm()) is None
    swapped = mm_tree(first="S0")
    assert isinstance(swapped, Band)
    assert respects(replace(swapped, child=Promotion((buffer,), swapped.child)), mm()) is not None


# --- the order ------------------------------------------------------------------------------------


def test_a_swapped_sequence() -> None:
    reason = respects(mm_tree(first="S0"), mm())
    assert reason == (
        "S0.init(i=0, j=0) and S0(i=0, j=0, k=0), which touch one element of R, run in the wrong "
        "order of a sequence"
    )


def test_an_overfused_softmax() -> None:
    scop = program("softmax").scop()
    dependences = compute_dependences(scop)
    n = member("n", coincident=True, S0_init="n", S0="n", S1="n")
    d = member("d", S0="d", S1="d")
    inner = Band((d,), True, Sequence((Leaf("S0"), Leaf("S1"))))
    tree = Band((n,), True, Sequence((Leaf("S0.init"), inner)))
    reason = respects(tree, dependences)
    assert reason == (
        "S0(n=0, d=1) and S1(n=0, d=0), which touch one element of expsum, run in the wrong order "
        "along [d]"
    )
    assert faults(tree, scop) != []


def test_a_tiled_band_that_is_not_permutable() -> None:
    dependences = dependences_of(DIAGONAL, N=5, M=5)
    i = Member("i", {"S0": Value("i"), "S1": Value("i", 1)}, False)
    j = member("j", coincident=True, S0="j", S1="j")
    whole = Band((i, j), False, Sequence((Leaf("S0"), Leaf("S1"))))
    assert respects(whole, dependences) is None
    assert annotated(whole, dependences) == whole
    claimed = replace(whole, permutable=True)
    assert "once it is the outermost of its band, said to be permutable" in str(
        respects(claimed, dependences)
    )
    outer, inner = zip(tile(i, 2), tile(replace(j, coincident=False), 2), strict=True)
    broken = Band(outer, False, Band(inner, False, whole.child))
    assert respects(broken, dependences) == (
        "S0(i=0, j=2) and S1(i=0, j=1), which touch one element of b, run in the wrong order along "
        "[j div 2]"
    )
    assert faults(broken, dependences.scop) != []


def test_a_shift_in_the_wrong_direction() -> None:
    dependences = compute_dependences(program("shifted").scop())
    for offset, is_legal in ((0, False), (1, True), (2, True)):
        member_ = Member("i", {"S0": Value("i"), "S1": Value("i", offset)}, False)
        tree = Band((member_,), True, Sequence((Leaf("S0"), Leaf("S1"))))
        reason = respects(tree, dependences)
        assert (reason is None) == is_legal
        assert (faults(tree, dependences.scop) == []) == is_legal
        coincident = annotated(tree, dependences)
        assert isinstance(coincident, Band)
        assert coincident.members[0].coincident == (offset == 1)


# --- flags and roles ------------------------------------------------------------------------------


def test_a_reduction_is_not_coincident() -> None:
    reason = respects(mm_tree(coincident=True), mm())
    assert reason == (
        "S0(i=0, j=0, k=0) and S0(i=0, j=0, k=1), which touch one element of R, run in two "
        "iterations of [k *], said to be coincident"
    )


@pytest.mark.parametrize("role", [BLOCK, THREAD])
def test_a_reduction_among_blocks_or_threads(role: str) -> None:
    tree = mm_tree(role=role, axis="x")
    reason = respects(tree, mm())
    needed = ", which needs a split of S0" if role == THREAD else ""
    assert reason == (
        "S0(i=0, j=0, k=0) and S0(i=0, j=0, k=1), which touch one element of R, run in two "
        f"iterations of [k {role} x], said to be fit to be {role}{needed}"
    )
    assert respects(tree, mm(), expanded=True) == reason


def test_a_parallel_reduction() -> None:
    tree = mm_tree(role=PARALLEL)
    reason = respects(tree, mm())
    assert reason is not None
    assert reason.endswith("run in two iterations of [k parallel], said to be fit to be parallel")
    assert respects(tree, mm(), expanded=True) is None


@pytest.mark.parametrize("role", [VECTOR, UNROLL])
def test_lanes_and_straight_lines_of_a_reduction(role: str) -> None:
    """rule R5"""
    assert respects(mm_tree(role=role), mm()) is None


def test_parallel_loops_that_are_not_coincident() -> None:
    dependences = dependences_of(DIAGONAL, N=5, M=5)
    for role, is_legal in ((PARALLEL, False), (VECTOR, False), (UNROLL, True), ("serial", True)):
        i = Member("i", {"S0": Value("i"), "S1": Value("i", 1)}, False, role=role)
        j = member("j", S0="j", S1="j")
        tree = Band((i, j), False, Sequence((Leaf("S0"), Leaf("S1"))))
        reason = respects(tree, dependences, expanded=True)
        assert (reason is None) == is_legal, reason
        assert (faults(tree, dependences.scop) == []) == is_legal


def test_accumulators_stand_apart_from_nothing_else() -> None:
    lanes = replace(member("k", S0="k"), span=2, role=VECTOR)
    outer = replace(member("k", S0="k"), step=2)
    update = Band((outer,), False, Band((lanes,), False, Leaf("S0")))
    both = tuple(member(v, coincident=True, S0_init=v, S0=v) for v in ("i", "j"))
    inside = Expansion("S0", "acc", (lanes,), update)
    assert respects(Band(both, True, Sequence((Leaf("S0.init"), inside))), mm()) is None
    around = Expansion("S0", "acc", (lanes,), Sequence((Leaf("S0.init"), update)))
    assert respects(Band(both, True, around), mm()) == (
        "S0.init touches R while S0 accumulates apart from it"
    )


# --- each instance once ---------------------------------------------------------------------------


def test_every_statement_has_one_leaf() -> None:
    i, j = (member(v, coincident=True, S0_init=v) for v in ("i", "j"))
    assert respects(Band((i, j), True, Leaf("S0.init")), mm()) == "S0 has 0 leaves"
    twice = Band((i, j), True, Sequence((Leaf("S0.init"), Leaf("S0.init"))))
    assert respects(twice, mm()) == "S0.init has 2 leaves"
    other = Sequence((mm_tree(), Leaf("S7")))
    assert respects(other, mm()) == "S7 has 1 leaves, which the scop does not have"


NO_DIGIT = "is no digit: its step, span or role makes no sense"


def copies(**changes: object) -> Node:
    """One statement with one loop, changed."""
    one = Member("i", {"S0": Value("i")}, True)
    return Band((replace(one, **changes),), True, Leaf("S0"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (Leaf("S0"), "no member runs along i of S0"),
        (copies(values={}), "[i *] gives S0 no value"),
        (copies(values={"S0": Value("q")}), "[i *] runs along q, which S0 does not have"),
        (copies(values={"S0": Value("i", -1)}), "[i *] begins after S0 does, at -1"),
        (copies(origin=1), "[(i-1) *] begins after S0 does, at 0"),
        (copies(step=2), "the digits [i div 2 *] do not make up i of S0"),
        (copies(span=8), "the digits [i mod 8 *] do not make up i of S0"),
        (copies(span=9), "the digits [i mod 9 *] do not make up i of S0"),
        (copies(span=3, step=2), f"[i mod 3 div 2 *] {NO_DIGIT}"),
        (copies(step=0), f"[i *] {NO_DIGIT}"),
        (copies(role="threads"), f"[i threads *] {NO_DIGIT}"),
        (copies(role=THREAD), f"[i thread *] {NO_DIGIT}"),
        (copies(role=THREAD, axis="w"), f"[i thread w *] {NO_DIGIT}"),
        (copies(role=BLOCK, axis="x", count=0), f"[i block x of 0 *] {NO_DIGIT}"),
        (copies(axis="x"), f"[i serial x *] {NO_DIGIT}"),
        (copies(role=BLOCK, axis="x"), None),
        (copies(role=THREAD, axis="z", count=3), None),
        (copies(span=10), None),
        (copies(), None),
    ],
)  # fmt: skip
def test_digits(tree: Node, reason: str | None) -> None:
    dependences = dependences_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=10)
    assert respects(tree, dependences) == reason
    if reason is None:
        assert faults(tree, dependences.scop) == []


def test_loops_of_one_axis() -> None:
    """Each is a digit of the number of a thread."""
    dependences = dependences_of("def f(float(N,M) a) -> (b) { b(i,j) = a(i,j) }", N=4, M=3)
    i, j = (
        replace(member(v, coincident=True, S0=v), role=THREAD, axis=axis)
        for v, axis in (("i", "y"), ("j", "x"))
    )
    assert respects(Band((i, j), True, Leaf("S0")), dependences) is None
    assert (
        respects(Band((i, replace(j, role=BLOCK, axis="y")), True, Leaf("S0")), dependences) is None
    )
    assert respects(Band((i, replace(j, axis="y")), True, Leaf("S0")), dependences) is None


def test_digits_of_several_levels() -> None:
    dependences = dependences_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=10)
    one = Member("i", {"S0": Value("i")}, True)
    outer, inner = tile(one, 6)
    middle, point = tile(inner, 2)
    for members in ((outer, middle, point), (point, outer, middle)):
        tree = Band(members, True, Leaf("S0"))
        assert respects(tree, dependences) is None
        assert faults(tree, dependences.scop) == []
    for members in ((outer, middle), (outer, point), (middle, point)):
        tree = Band(members, True, Leaf("S0"))
        assert "do not make up i of S0" in str(respects(tree, dependences))
        assert faults(tree, dependences.scop) != []
    single = Band((outer, *tile(inner, 6)), True, Leaf("S0"))
    assert respects(single, dependences) is None
    assert faults(single, dependences.scop) == []
    redundant = Band((outer, inner, point), True, Leaf("S0"))
    assert "do not make up i of S0" in str(respects(redundant, dependences))
    apart = Band((outer, replace(inner, origin=-1)), True, Leaf("S0"))
    assert respects(apart, dependences) == "the digits of i of S0 have different origins"


def test_a_variable_of_one_value_needs_no_member() -> None:
    dependences = dependences_of("def f(float(N,M) a) -> (b) { b(i,j) = a(i,j) }", N=1, M=3)
    tree = Band((member("j", S0="j"),), True, Leaf("S0"))
    assert respects(tree, dependences) is None


# --- the error and the cost -----------------------------------------------------------------------


def test_check_schedule_shows_the_tree() -> None:
    check_schedule(mm_tree(), mm())
    with pytest.raises(InternalError) as caught:
        check_schedule(mm_tree(first="S0"), mm())
    assert caught.value.cause == "\n".join(
        [
            "a schedule is not legal: S0.init(i=0, j=0) and S0(i=0, j=0, k=0), which touch one "
            "element of R, run in the wrong order of a sequence",
            "  band [i *, j *] permutable",
            "    sequence",
            "      band [k] permutable",
            "        S0",
            "      S0.init",
        ]
    )


def test_what_isl_cannot_tell_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "QUOTA", 1)
    assert respects(mm_tree(first="S0"), mm()) == (
        "the dependence of S0 on S0.init through R is too complex to be checked"
    )


def test_ordinary_programs_need_no_isl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused at distance zero, whole or tiled: substitution alone tells that all is well."""

    def refuse(*_: object) -> None:
        raise AssertionError("isl was asked")

    monkeypatch.setattr(sets.Space, "__init__", refuse)
    for small in PROGRAMS:
        if small.name in ("upsample", "chain", "conv_pad"):
            continue
        scop = small.scop()
        dependences = compute_dependences(scop)
        tree = schedule(scop, dependences, "max")
        for candidate in (tree, tiled(tree, 2), sunk(tiled(tree, 2))):
            assert respects(candidate, dependences) is None


def test_respects_is_fast() -> None:
    """Under 5 ms for 21 statements, tiled (0.6 where nothing else runs): of this thread alone, and
    the best of many, as others use the machine."""
    scop = program("prodModel").scop()
    dependences = compute_dependences(scop)
    tree = sunk(tiled(schedule(scop, dependences, "max"), 2))

    def seconds() -> float:
        start = time.thread_time()
        assert legality.respects(tree, dependences) is None
        return time.thread_time() - start

    assert any(seconds() < 0.005 for _ in range(200))


def test_scop_without_statements() -> None:
    scop = scop_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=0)
    dependences = compute_dependences(scop)
    tree = schedule(scop, dependences, "max")
    assert tree == Sequence(())
    assert respects(tree, dependences) is None
