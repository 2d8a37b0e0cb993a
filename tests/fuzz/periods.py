"""Statements over several periods, as a Kronecker product or a repetition has them: some subscripts
are the number of the period, others the place in it."""

from __future__ import annotations

from tests.fuzz import expressions
from tests.fuzz.drafts import INNER, OUTER, Body, Draft, finish, names_of
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import SHORT, Scope, Variable

LENGTHS = (2, 4, 7, 15, 16, 16, 17, 18, 18, 20, 20, 22, 24, 25, 30, 33)
COUNTS = (1, 2, 3, 4, 5, 8, 9, 16)
MOST_ELEMENTS, MOST_INSTANCES = 330, 2500
REDUCTIONS = ("+=!", "+=!", "+=!", "+=", "max=!", "min=!", "*=!")


def periods(body: Body) -> None:
    """A value, or a reduction, of reads by quotients and by remainders of one variable."""
    scope = body.scope
    rng = scope.rng
    if len(scope.params) > 5:
        return
    period = rng.choice(LENGTHS)
    count = rng.choice([n for n in COUNTS if n * period <= MOST_ELEMENTS])
    name, *others = names_of(scope, OUTER, 2)
    cut = rng.randrange(period) if scope.chance(0.2) else 0
    begin = rng.randrange(1, period) if scope.chance(0.15) and count > 1 else 0
    along = Variable(name, begin, period * count - cut, False)
    draft = Draft(body.fresh_name(), [along])
    left = MOST_INSTANCES // len(along)
    if scope.chance(0.4) and left > 2:
        size = rng.choice([n for n in SHORT if n <= left])
        draft.outer.insert(rng.randrange(2), Variable(others[0], 0, size, True))
        left //= size
    if scope.chance(0.7):
        size = rng.choice([n for n in (1, 2, 3, 5, 8, 9, 16, 17) if n <= max(left, 1)])
        draft.inner = [Variable(rng.choice(INNER), 0, size, True)]
        draft.op = rng.choice(REDUCTIONS)
    else:
        draft.op = rng.choice(("=", "=", "+=", "max="))
    free = [v for v in draft.variables if v != along]
    whole = scope.literal_of(period)
    number = binary("/", var(name), whole)
    place = binary("%", var(name), whole)
    value = _read(scope, number, count, free)
    value = binary(rng.choice("**+-"), value, _read(scope, place, period, free))
    if scope.chance(0.25):
        value = binary(
            rng.choice("*+"), value, expressions.leaf(scope, draft.variables, draft.target)
        )
    draft.covered = list(draft.variables)
    finish(body, draft, value)


def _read(scope: Scope, place: Expr, size: int, free: list[Variable]) -> Expr:
    """A read of a new tensor by a place, and bare variables in some order."""
    places = [(place, size), *((var(v.name), v.high) for v in free)]
    if scope.chance(0.4):
        scope.rng.shuffle(places)
    if scope.chance(0.1):
        places.insert(0, (num(0), 2))
    name = scope.new_input(tuple(size for _, size in places))
    return read(name, *(subscript for subscript, _ in places))
