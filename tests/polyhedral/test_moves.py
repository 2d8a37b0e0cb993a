"""What a move saves: accesses of memory beyond the buffer, counted by hand."""

from __future__ import annotations

import pytest

from tc.plan import Promote
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import Move, held_target
from tc.polyhedral.schedule import members
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import build_scop
from tc.polyhedral.strategies.scheduler import schedule
from tests.polyhedral.test_actions import TARGET
from tests.support.sizes_of_call import shape

N, M, K = 5, 7, 11
PRODUCT = "C(i,j) +=! A(i,k) * B(k,j)"


def draft_of(body: str, *initial: str) -> Draft:
    text = f"def f(float({N},{K}) A, float({K},{M}) B, float({N}) x) -> (C) {{ {body} }}"
    scop = build_scop(shape(text), frozenset(initial))
    tree = schedule(scop, compute_dependences(scop), "max")
    return Draft(tree, AccessInfo(scop, {}, True), TARGET)


def costs(draft: Draft, tensor: str, loop: str | None) -> Move:
    inside = None if loop is None else next(m for m in members(draft.tree) if m.name == loop)
    below = draft.footprint_in(inside, draft.statements)
    move = held_target(f"{tensor} held", Promote(tensor, "scratch"), below)
    assert move is not None
    return move


@pytest.mark.parametrize(
    ("loop", "elements"),
    [(None, N * M), ("i", M), ("j", 1)],
)
def test_accumulators(loop: str | None, elements: int) -> None:
    """Each is written once at first, then read and written in each step; and copied once after."""
    move = costs(draft_of(PRODUCT), "C", loop)
    assert (move.before, move.after) == (elements * (1 + 2 * K), elements)
    assert move.pays


@pytest.mark.parametrize(
    ("body", "initial", "tensor", "before", "after"),
    [
        ("C(i) = x(i)", (), "C", 1, 1),  # written, or copied
        ("C(i) += x(i)", ("C",), "C", 2, 2),  # read and written, or copied to and fro
        ("T(i) = x(i) C(i) = T(i) * T(i)", (), "T", 2, 0),  # nobody else has it
        ("C(i) = x(i) C(i) = C(i) * 2", (), "C", 3, 1),
    ],
)
def test_pointwise(
    body: str, initial: tuple[str, ...], tensor: str, before: int, after: int
) -> None:
    move = costs(draft_of(body, *initial), tensor, "i")
    assert (move.before, move.after) == (before, after)
    assert move.pays is (after < before)
