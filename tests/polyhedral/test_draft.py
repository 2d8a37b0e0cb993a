"""A draft gives handles of the loops that its actions make, and finds loops by their handles."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tc
from tc.plan import PARALLEL, VECTOR, Reorder, Tile
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.loops import LoopName, loop_name
from tc.polyhedral.schedule import members, members_below
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Decisions
from tests.polyhedral.test_actions import MM_SCOP, STEPS_SCOP, TARGET, tree_of


def draft_of(scop: Scop) -> Draft:
    return Draft(tree_of(scop), AccessInfo(scop, {}, True), TARGET)


def test_an_action_gives_the_loops_that_it_made() -> None:
    draft = draft_of(MM_SCOP)
    made = draft.do(Tile("j", (16, 4)))
    assert list(map(str, made)) == ["j div 16 *", "j mod 16 div 4 *", "j mod 4 *"]
    assert [m for m in members(draft.tree) if m.name == "j"] == list(made)
    assert draft.do(Reorder(("j mod 4", "i"))) == ()


def test_loops_of_several_places_are_those_of_the_first() -> None:
    draft = draft_of(STEPS_SCOP)
    i, j = list(members(draft.tree))[:2]
    draft.separate([j], draft.statements, ("S1",))
    lanes = draft.do(Tile("j", (4,)))[1]
    found = members_below(draft.tree)
    assert all(lanes in found[name] for name in ("S0", "S1", "S2"))
    assert draft.name(lanes, ("S1",)) == "S1.j mod 4"
    assert draft.name(i, draft.statements) == "i"


def test_a_handle_is_good_after_other_actions() -> None:
    draft, names = draft_of(MM_SCOP), ("S0.init", "S0")
    i, j = list(members(draft.tree))[:2]
    outer, points = draft.tile(j, (8,), names)
    draft.order([outer, i, points], names)
    draft.sink([points], names)
    (lanes,) = draft.bind([points], VECTOR, names)
    assert str(lanes) == "j mod 8 vector *"
    assert members_below(draft.tree)["S0"][-1] == lanes
    assert [str(m) for m in draft.bind([i], PARALLEL, names)] == ["i parallel *"]


def test_what_is_only_tried_leaves_a_draft_as_it_is() -> None:
    draft, names = draft_of(MM_SCOP), ("S0.init", "S0")
    i = next(members(draft.tree))
    before = draft.state
    tried = draft.would_tile(i, 5, names)
    assert draft.state == before == (draft.tree, ())
    assert draft.tile(i, (5,), names) == tried
    assert draft.state != before
    draft.restore(before)
    assert (draft.tree, draft.chosen().part.actions) == before
    assert draft.attempt(lambda: draft.tile(i, (5,), names), lambda loops: len(loops) > 2) is None
    assert draft.state == before
    assert draft.attempt(lambda: draft.tile(i, (5,), names), lambda loops: len(loops) == 2) == tried
    assert draft.state != before


def test_loops_that_already_stand_so_are_not_reordered() -> None:
    draft, names = draft_of(MM_SCOP), ("S0.init", "S0")
    i, j = list(members(draft.tree))[:2]
    draft.order([i, j], names)
    assert draft.actions == ()
    draft.order([j, i], names)
    assert draft.actions == (Reorder(("j", "i")),)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("i", LoopName(None, "i", None, 1)),
        ("i_j div 32", LoopName(None, "i_j", None, 32)),
        ("i mod 32", LoopName(None, "i", 32, 1)),
        ("S0.init.i mod 32 div 8", LoopName("S0.init", "i", 32, 8)),
        ("(i-3) div 8", LoopName(None, "i", None, 8)),
        ("(i+3) mod 8", LoopName(None, "i", 8, 1)),
    ],
)
def test_names_of_loops(text: str, name: LoopName) -> None:
    assert loop_name(text) == name
    if "(" not in text:
        assert str(name) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", "i/4", ".i", "S0.", "i mod", "i mod 0", "i mod -8", "i mod 08", "i div 8 mod 32",
     "i mod 8 mod 4", "i div x", "a b.i", "(i) div 8", "(i-j) div 8", "(-3)", "i  mod 8",
     "i mod 8 "],
)  # fmt: skip
def test_what_names_no_loop(text: str) -> None:
    with pytest.raises(tc.BackendError, match="does not name a loop"):
        loop_name(text)


def test_orders_that_are_decided_keep_loops_over_tiles_outside() -> None:
    name = "S0.init, S0: order"
    decisions = Decisions({name: "j div 8, i, j mod 8"})
    target = replace(TARGET, decider=decisions)
    draft, names = Draft(tree_of(MM_SCOP), AccessInfo(MM_SCOP, {}, True), target), ("S0.init", "S0")
    i, j = list(members(draft.tree))[:2]
    outer, inner = draft.tile(j, (8,), names)
    assert draft.decide_order("order", [i, outer, inner], names) == (outer, i, inner)
    assert set(decisions.asked[name].values) == {
        "i, j div 8, j mod 8",
        "j div 8, i, j mod 8",
        "j div 8, j mod 8, i",
    }
    assert draft.decide_order("one loop", [i], names) == (i,)
    assert list(decisions.asked) == [name]


def test_without_a_search_nothing_is_asked() -> None:
    draft, names = draft_of(MM_SCOP), ("S0.init", "S0")
    i, j = list(members(draft.tree))[:2]
    assert draft.decide_order("order", [i, j], names) == (i, j)
    assert draft.decide_whether("packed", names)
    assert not draft.decide_whether("packed", names, default=False)
