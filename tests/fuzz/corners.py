"""Reads that conditions on indices keep inside of a tensor."""

from __future__ import annotations

from tests.fuzz import expressions
from tests.fuzz.drafts import Body, cover, draft_new, finish
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import Scope, Variable


def edges(body: Body) -> None:
    """A range longer than a tensor, of which a condition or a pad leaves what there is."""
    scope = body.scope
    rng = scope.rng
    draft = draft_new(body, rng.choice((1, 1, 2, 2)), later=0.2)
    at = rng.randrange(len(draft.outer))
    v = draft.outer[at]
    if scope.chance(0.5):
        v = Variable(v.name, 0, rng.choice((4, 7, 8, 12, 15, 16)), False)
    else:
        v = Variable(v.name, v.low, v.high + rng.choice((0, 1, 1, 3)), False)
    if scope.chance(0.3):
        del draft.outer[at]
        draft.inner, draft.op = [v], rng.choice(("+=!", "+=!", "max=!", "+="))
    else:
        draft.outer[at] = v
    leaves = cover(body, draft, draft.target)
    kept = _kept_inside(scope, v, [w for w in draft.outer if w != v and scope.chance(0.5)])
    for x in leaves:
        kept = binary(rng.choice("*+"), kept, x)
    finish(body, draft, kept)


def _kept_inside(scope: Scope, v: Variable, others: list[Variable]) -> Expr:
    """A read of a tensor with fewer places than a variable has values."""
    rng, x = scope.rng, var(v.name)
    if scope.full:
        return num(1)
    form = rng.choice(("below", "from", "every other", "and", "pad before", "pad after"))
    size = max(1, v.high - rng.choice((1, 1, 2, 3, 5, v.high // 2)))
    if form == "every other":
        size = (v.high + 1) // 2
    start = v.high - size if form in ("from", "pad before") else 0
    place = binary("-", x, num(start)) if start else x
    place = binary("/", x, num(2)) if form == "every other" else place
    name = scope.new_input((*(w.high for w in others), size))
    inside = read(name, *(var(w.name) for w in others), place)
    other = rng.choice((num(0), num(1), num("0.5"), expressions.leaf_of_scalar(scope)))
    match form:
        case "below":
            return ("if", binary("<", x, num(size)), inside, other)
        case "from":
            return ("if", binary("<", x, num(start)), other, inside)
        case "every other":
            return ("if", binary("==", binary("%", x, num(2)), num(0)), inside, other)
        case "and":
            return binary("&&", binary("<", x, num(size)), inside)
        case _:
            return ("pad", inside, other)
