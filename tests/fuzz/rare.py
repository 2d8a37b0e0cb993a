"""What programs seldom have: dimensions without an element, sums from below 0, names for values,
conversions to every type, every function, numbers of every form, and subscripts that choose."""

from __future__ import annotations

from tests.fuzz import expressions
from tests.fuzz.drafts import Body, Draft, add_inner, cover, draft_new, finish, target_of
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import FLOATS, INTEGERS, Variable

FUNCTIONS = (
    *("exp", "expf", "tanh", "sin", "cos", "atan", "erf", "floor", "ceil", "trunc", "round"),
    *("fabs", "abs", "cbrt", "sqrt", "log1p", "rsqrt"),
)
BINARY_FUNCTIONS = ("fmaxf", "fmin", "hypot", "copysign", "fdim", "pow")
NO_NUMBER = "007e1"
"""What T1 refuses, before any other rule is looked at: a program that has it breaks no other."""

NUMBERS = ("0x1F", "1e-3", "1.", "3.0", "0x0", NO_NUMBER)
REDUCTIONS = ("+=!", "max=!", "min=!", "*=!", "+=", "max=", "min=", "*=")


def add_rare(body: Body) -> None:
    scope = body.scope
    scope.rng.choice((empty, named, named, converted, called, chosen))(body)


def _statement(body: Body) -> tuple[Draft, Expr]:
    """A statement of a new tensor or a part of one, with or without a reduction, and what it
    reads."""
    draft = target_of(body, 0.3)
    if body.scope.chance(0.4):
        add_inner(body, draft, 1)
        draft.op = body.scope.rng.choice(REDUCTIONS)
        if body.scope.chance(0.3):  # from below 0
            v = draft.inner[0]
            draft.inner[0] = Variable(v.name, body.scope.rng.choice((-1, -2)), v.high, False)
    leaves = cover(body, draft, draft.target)
    return draft, expressions.embed(body.scope, leaves, draft.variables, draft.target)


def empty(body: Body) -> None:
    """Draws a statement with an empty range, and a second statement that reads its target."""
    scope = body.scope
    rng = scope.rng
    if scope.full:
        return named(body)
    draft = draft_new(body, rng.choice((1, 1, 2)), later=0.0, most=200)
    draft.outer = [Variable(v.name, 0, v.high, True) for v in draft.outer]
    if scope.chance(0.6):
        draft.inner = [Variable("k", 0, rng.choice((0, 0, 3)), True)]
        draft.op = rng.choice(REDUCTIONS)
    variables = draft.variables
    if all(map(len, variables)):
        at = rng.randrange(len(draft.outer))
        draft.outer[at] = Variable(draft.outer[at].name, 0, 0, True)
    order = rng.sample(draft.variables, len(draft.variables))
    name = scope.new_input(tuple(v.high for v in order))
    draft.covered = draft.variables
    rhs = read(name, *(var(v.name) for v in order))
    if scope.chance(0.5):
        rhs = binary(rng.choice("+*"), rhs, num(rng.choice(("2", "0.5"))))
    finish(body, draft, rhs)
    if scope.chance(0.5):
        again = Draft(body.fresh_name(), list(draft.outer), covered=list(draft.outer))
        own = read(draft.target, *(var(v.name) for v in draft.outer))
        finish(body, again, binary("+", own, num(1)))
    return None


def named(body: Body) -> None:
    """A value with a name, used once or more often, perhaps inside of another one."""
    scope = body.scope
    draft, rhs = _statement(body)
    value = expressions.value(scope, draft.variables, draft.target, 1)
    first: Expr = ("let", "z", value)
    if scope.chance(0.4):
        first = ("let", "z1", binary(scope.rng.choice("+*-"), first, first))
    for _ in range(scope.rng.choice((1, 1, 2))):
        rhs = expressions.join(scope, rhs, first, draft.variables, draft.target)
    finish(body, draft, rhs)


def converted(body: Body) -> None:
    """Values of small numbers as another type, and back in arithmetic."""
    scope = body.scope
    draft, rhs = _statement(body)
    types = (*FLOATS, *INTEGERS, "bool")
    small = ("call", "min", (("call", "max", (rhs, num(0))), num(9)))
    cast: Expr = ("cast", scope.rng.choice(types), small)
    if scope.chance(0.5):
        cast = ("cast", scope.rng.choice(types), binary("+", cast, num(1)))
    finish(body, draft, binary(scope.rng.choice("+*"), cast, num(scope.rng.choice((1, 2)))))


def called(body: Body) -> None:
    scope = body.scope
    rng = scope.rng
    draft, rhs = _statement(body)
    if scope.chance(0.35):
        other = expressions.leaf(scope, draft.variables, draft.target)
        rhs = ("call", rng.choice(BINARY_FUNCTIONS), (rhs, other))
    else:
        rhs = ("call", rng.choice(FUNCTIONS), (rhs,))
    number = rng.choice(NUMBERS) if scope.chance(0.4) else ""
    if number:
        rhs = binary(rng.choice("+*-"), rhs, num(number))
    finish(body, draft, rhs)
    if number == NO_NUMBER:
        body.refused = "T1"


def chosen(body: Body) -> None:
    """A read whose place depends on a condition, or on numbers from arrays of two dimensions."""
    scope = body.scope
    rng = scope.rng
    if scope.full:
        return named(body)
    draft, rhs = _statement(body)
    variables = [v for v in draft.variables if v.low >= 0 and v.high > 0]
    if not variables:
        return finish(body, draft, rhs)
    v, w = rng.choice(variables), rng.choice(variables)
    low = rng.choice((1, 2, 3))
    place: Expr = ("if", binary("<", var(v.name), num(low)), var(v.name), num(0))
    size = max(1, min(low, v.high))
    if scope.chance(0.3) and len(scope.params) + 2 <= 8 and v != w:
        size = rng.choice((1, 3, 7))
        table = scope.new_input((v.high, w.high), "int", f"index {size}")
        place = read(table, var(v.name), var(w.name))
    name = scope.new_input((size,))
    return finish(body, draft, binary(rng.choice("+*-"), rhs, read(name, place)))
