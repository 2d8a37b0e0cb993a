"""Generated programs: every strategy's tree is legal, tiled too, and of trees edited at random
exactly those that brute force finds right are accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.legality import annotated, respects
from tc.polyhedral.schedule import Band, Node, Sequence, to_text
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import Scop, build_scop
from tc.polyhedral.strategies.scheduler import schedule
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.pipeline import as_arrays, checked, shaped
from tests.support.scops import CHAIN, PROGRAMS, SHIFTED, Small, scop_of
from tests.support.tree_edits import edited, sunk, tiled
from tests.support.tree_order import faults

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FUSIONS = st.sampled_from(("max", "min", "preserve3coincident"))


def scop_or_none(case: Call, given_outputs: bool) -> Scop | None:
    try:
        program = checked(case.text)
        shape = shaped(program, as_arrays(program, case.inputs))
    except tc.TCError as error:
        event(f"rejected: {type(error).__name__}")
        return None
    given_outputs = given_outputs or bool(program.needs_initial)
    return build_scop(shape, frozenset(program.outputs) if given_outputs else frozenset())


def is_exact(scop: Scop) -> bool:
    """Whether the accesses of the scop are those of the program, and not more."""
    return all(
        None not in access.subscripts and not access.guarded
        for statement in scop.statements
        for access in statement.reads
    )


@settings(suppress_health_check=QUIET)
@given(calls(100), st.booleans(), FUSIONS, st.booleans(), st.integers(2, 4), st.data())
def test_generated_programs(
    case: Call, given_outputs: bool, fusion: str, share: bool, size: int, data: st.DataObject
) -> None:
    scop = scop_or_none(case, given_outputs)
    if scop is None:
        return
    dependences = compute_dependences(scop)
    tree = schedule(scop, dependences, fusion, share_reductions=share)
    tiles = sunk(tiled(tree, size))
    for candidate in (tree, tiled(tree, size), tiles):
        assert respects(candidate, dependences) is None, to_text(candidate)
        assert faults(candidate, scop) == [], to_text(candidate)
    check_edited(data.draw(edited(data.draw(st.sampled_from((tree, tiles))), scop)), scop)


@settings(suppress_health_check=QUIET)
@given(st.sampled_from(PROGRAMS), FUSIONS, st.booleans(), st.data())
def test_edited_trees_of_the_table(
    small: Small, fusion: str, share: bool, data: st.DataObject
) -> None:
    scop = small.scop()
    tree = schedule(scop, compute_dependences(scop), fusion, share_reductions=share)
    check_edited(data.draw(edited(tree, scop)), scop)


@settings(suppress_health_check=QUIET)
@given(st.sampled_from((CHAIN, SHIFTED)), st.integers(2, 3), st.data())
def test_fused_and_tiled_stencils(text: str, size: int, data: st.DataObject) -> None:
    """Shifted at random, so that dependences run along the members, flags computed, then tiled."""
    scop = scop_of(text, N=4, M=6) if text is CHAIN else scop_of(text, N=6)
    dependences = compute_dependences(scop)
    tree = data.draw(edited(schedule(scop, dependences, "max"), scop))
    check_edited(tree, scop)
    if respects(without_claims(tree), dependences) is not None:
        return
    flagged = annotated(tree, dependences)
    assert faults(flagged, scop) == [] or has_roles(tree)
    tiles = tiled(flagged, size)
    if not has_roles(tree):
        assert respects(tiles, dependences) is None, to_text(tiles)
        assert faults(tiles, scop) == [], to_text(tiles)


def check_edited(tree: Node, scop: Scop) -> None:
    reason = respects(tree, compute_dependences(scop))
    found = faults(tree, scop)
    event("accepted" if reason is None else "rejected by " + " ".join(reason.split()[-6:]))
    if reason is None:
        assert found == [], to_text(tree)
    elif is_exact(scop) and not is_stricter(reason):
        assert found != [], f"{reason}\n{to_text(tree)}"


def is_stricter(reason: str) -> bool:
    """Digits must be of one origin and not redundant, though the order may be right all the
    same."""
    return "different origins" in reason or "do not make up" in reason or "begins after" in reason


def without_claims(node: Node) -> Node:
    match node:
        case Band(members=members, child=child):
            plain = tuple(replace(m, coincident=False, role="serial") for m in members)
            return Band(plain, False, without_claims(child))
        case Sequence(children=children):
            return Sequence(tuple(map(without_claims, children)))
        case _:
            return node


def has_roles(node: Node) -> bool:
    match node:
        case Band(members=members, child=child):
            return any(m.role in ("parallel", "vector") for m in members) or has_roles(child)
        case Sequence(children=children):
            return any(map(has_roles, children))
        case _:
            return False


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=QUIET)
@given(calls(100), st.booleans(), FUSIONS, st.data())
def test_many_generated_programs(
    case: Call, given_outputs: bool, fusion: str, data: st.DataObject
) -> None:
    scop = scop_or_none(case, given_outputs)
    if scop is not None:
        tree = schedule(scop, compute_dependences(scop), fusion)
        check_edited(data.draw(edited(sunk(tiled(tree, 2)), scop)), scop)
