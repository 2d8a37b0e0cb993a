"""Products under signs and quotients, of functions, powers, choices and what statements before have
stored, and then other statements that read them beside their own factors.

A derivative often is such a product again, times or over something: what is known of a stored value
(its sign, its factors) shows there alone.
"""

from __future__ import annotations

from tests.fuzz import expressions
from tests.fuzz.drafts import Body, Draft, add_inner, cover, draft_new, finish, target_of
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import Scope, Variable

NUMBERS = ("0.5", "2", "3.0", "0.25")
MOST_EXPONENT = "2.0"
"""Of exp: products of a few such factors stay small."""


def products(body: Body) -> None:
    """Draws a product, and perhaps statements that divide by, sum or multiply with the product."""
    scope = body.scope
    rng = scope.rng
    draft = target_of(body, 0.15) if body.defined else draft_new(body, later=0.1)
    if scope.chance(0.35):
        add_inner(body, draft, 1, later=0.1)
        draft.op = rng.choice(("+=!", "+=!", "+=!", "+=", "max=!"))
    leaves = cover(body, draft, draft.target)
    finish(body, draft, product(scope, leaves, draft.variables, draft.target))
    for _ in range(rng.choice((0, 1, 1, 2))):
        _reader(body, draft.target)


def _reader(body: Body, name: str) -> None:
    """Draws a statement with a stored value as a factor: a sum of the value, the value over such a
    sum, or the value times a factor."""
    scope = body.scope
    rng = scope.rng
    shape = scope.tensors[name].shape
    if 0 in shape or len(body.statements) > 7:
        return
    letters = rng.sample(("i", "j", "l", "m", "w"), len(shape))
    own = [Variable(v, 0, size, True) for v, size in zip(letters, shape, strict=True)]
    stored = read(name, *(var(v.name) for v in own))
    kept = [v for v in own if scope.chance(0.6)]
    inner = [v for v in own if v not in kept]
    draft = Draft(body.fresh_name(), kept, inner, "+=!" if inner else "=", covered=list(own))
    rhs = product(scope, [stored], own, draft.target, divisors=scope.chance(0.7))
    finish(body, draft, rhs)
    if inner and scope.chance(0.5):  # over its sum, as a softmax is
        over = Draft(body.fresh_name(), own, covered=list(own))
        total = read(draft.target, *(var(v.name) for v in kept))
        finish(body, over, signed(scope, binary("/", stored, away_from_zero(scope, total))))


def product(
    scope: Scope, leaves: list[Expr], variables: list[Variable], but: str, divisors: bool = True
) -> Expr:
    """A product of all leaves and some others, some of them functions, under signs and with
    divisors that are not 0."""
    rng = scope.rng
    factors = [factor(scope, x, variables, but) if scope.chance(0.5) else x for x in leaves]
    for _ in range(rng.choice((0, 1, 1, 2))):
        factors.append(factor(scope, expressions.leaf(scope, variables, but), variables, but))
    if scope.chance(0.25):
        factors.append(num(rng.choice(NUMBERS)))
    factors = factors or [num(1)]
    rng.shuffle(factors)
    total = signed(scope, factors[0])
    for x in factors[1:]:
        pair = (total, signed(scope, x)) if scope.chance(0.7) else (signed(scope, x), total)
        total = signed(scope, binary("*", *pair))
    for _ in range(rng.choice((0, 1, 1, 2)) if divisors else 0):
        total = signed(scope, binary("/", total, divisor(scope, variables, but)))
    return total


def signed(scope: Scope, x: Expr) -> Expr:
    return ("un", "-", x) if scope.chance(0.25) else x


def factor(scope: Scope, x: Expr, variables: list[Variable], but: str) -> Expr:
    """A function, a power or a choice of a value."""
    rng = scope.rng
    match rng.randrange(8):
        case 0:
            return ("call", "exp", (signed(scope, x),))
        case 1:
            return ("call", "exp", (small(signed(scope, x)),))
        case 2:
            return ("call", rng.choice(("tanh", "sin", "atan")), (x,))
        case 3:
            return ("call", "pow", (x, num(rng.choice((2, 3)))))
        case 4:
            base = away_from_zero(scope, x)
            return ("call", "pow", (base, num(rng.choice(("0.5", "-1.0", "1.5")))))
        case 5:
            other = expressions.leaf(scope, variables, but)
            return ("if", expressions.condition(scope, variables, but), x, signed(scope, other))
        case 6:
            return ("call", rng.choice(("min", "max")), (x, signed(scope, num("0.5"))))
    return ("call", "abs", (x,))


def small(x: Expr) -> Expr:
    """A value that is not far from 0."""
    below = ("call", "min", (x, num(MOST_EXPONENT)))
    return ("call", "max", (below, ("un", "-", num(MOST_EXPONENT))))


def away_from_zero(scope: Scope, x: Expr) -> Expr:
    """A positive expression: x * x + 1, or the exponential of a small value of x."""
    if scope.chance(0.5):
        return binary("+", binary("*", x, x), num(1))
    return ("call", "exp", (small(x),))


def divisor(scope: Scope, variables: list[Variable], but: str) -> Expr:
    """What is not 0: a positive input, or a function of anything."""
    rng = scope.rng
    held = [q.name for q in scope.params if q.values == "positive" and q.type != "bool"]
    if not held and not scope.full and scope.chance(0.8):
        longest = [v.high for v in variables if v.high > 0 and v.low >= 0]
        shape = (rng.choice(longest),) if longest and scope.chance(0.6) else ()
        type = rng.choice([t for t in scope.types if t != "bool"] or ["float"])
        held = [scope.new_input(shape, type, "positive")]
    if not held or scope.chance(0.3):
        return away_from_zero(scope, expressions.leaf(scope, variables, but))
    return signed(scope, scope.read_inside(rng.choice(held), variables))
