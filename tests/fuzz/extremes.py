"""Maxima and minima of what is computed: of terms that are rounded, of sums that statements before
have stored, of several statements, and statements that read them beside their terms."""

from __future__ import annotations

from tests.fuzz import expressions
from tests.fuzz.drafts import Body, Draft, add_inner, cover, draft_new, draft_old, finish
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import Scope, Variable

FUNCTIONS = ("exp", "tanh", "sin", "abs", "fabs", "atan")
MOST_STATEMENTS = 6


def extremes(body: Body) -> None:
    """A maximum or minimum, perhaps of a sum, and perhaps others that go on from it or read it."""
    scope = body.scope
    rng = scope.rng
    if body.defined and scope.chance(0.2):
        draft = draft_old(body, rng.choice(body.defined))
    else:
        draft = draft_new(body, rng.choice((0, 1, 1, 1, 2)), later=0.15, most=40)
    if scope.chance(0.3):
        _of_sum(body, draft)
    else:
        if scope.chance(0.9):
            add_inner(body, draft, rng.choice((1, 1, 2)))
        _extreme(body, draft, cover(body, draft, draft.target))
    while len(body.statements) < MOST_STATEMENTS and scope.chance(0.3):
        again = draft_old(body, draft.target, later=0.15)
        if scope.chance(0.7):
            add_inner(body, again, 1)
        _extreme(body, again, cover(body, again, again.target))
    if scope.chance(0.35):
        _reader(body, draft.target)


def _extreme(body: Body, draft: Draft, leaves: list[Expr]) -> None:
    rng = body.scope.rng
    is_old = draft.target in body.defined
    draft.op = rng.choice(("max=", "min=", "max=", "min=!") if is_old else ("max=!", "min=!"))
    finish(body, draft, _term(body.scope, leaves, draft.variables, draft.target))


def _of_sum(body: Body, draft: Draft) -> None:
    """The largest or least of sums that a statement before stores."""
    scope = body.scope
    add_inner(body, draft, 1, later=0.1)
    sums = Draft(body.fresh_name(), [Variable(v.name, 0, v.high, True) for v in draft.variables])
    add_inner(body, sums, 1, later=0.0)
    taken = {v.name for v in sums.outer}
    sums.inner = [v for v in sums.inner if v.name not in taken]
    sums.op = "+=!"
    leaves = cover(body, sums, sums.target)
    finish(body, sums, _term(scope, leaves, sums.variables, sums.target))
    if draft.target == sums.target:
        draft.target = body.fresh_name()
    draft.covered += [v for v in draft.variables if v.inferred]
    stored = read(sums.target, *(var(v.name) for v in draft.variables))
    if scope.chance(0.5):
        draft.op = scope.rng.choice(("max=!", "min=!"))
        finish(body, draft, stored)
    else:
        _extreme(body, draft, [stored])


def _term(scope: Scope, leaves: list[Expr], variables: list[Variable], but: str) -> Expr:
    """Products and sums of all the leaves and others, in most cases rounded."""
    rng = scope.rng
    leaves = list(leaves)
    while len(leaves) < 2 or scope.chance(0.3):
        leaves.append(expressions.leaf(scope, variables, but))
    rng.shuffle(leaves)
    term = leaves[0]
    for each in leaves[1:]:
        other = ("call", rng.choice(FUNCTIONS), (each,)) if scope.chance(0.15) else each
        if scope.chance(0.08):
            term = ("call", rng.choice(("min", "max")), (term, other))
        else:
            term = binary(rng.choice("**+-"), term, other)
    if scope.chance(0.1):
        below = binary("+", ("call", "abs", (expressions.leaf(scope, variables, but),)), num("2"))
        term = binary("/", term, below)
    if scope.chance(0.08):
        term = ("if", expressions.condition(scope, variables, but), term, num("0.1"))
    return term


def _reader(body: Body, name: str) -> None:
    """A statement that reads an extreme, perhaps of each of its elements with another factor."""
    scope = body.scope
    shape = scope.tensors[name].shape
    if 0 in shape or len(shape) > 2:
        return
    letters = scope.rng.sample(("i", "j", "l"), len(shape))
    own = [Variable(v, 0, size, True) for v, size in zip(letters, shape, strict=True)]
    draft = Draft(body.fresh_name(), own, covered=list(own))
    if scope.chance(0.5):
        add_inner(body, draft, 1)
        draft.op = scope.rng.choice(("+=!", "max=!"))
    leaves = cover(body, draft, draft.target)
    stored = read(name, *(var(v.name) for v in own))
    finish(body, draft, _term(scope, [stored, *leaves], draft.variables, draft.target))
