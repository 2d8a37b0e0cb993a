"""Right-hand sides: random expressions around the reads that fix the ranges of variables."""

from __future__ import annotations

from tests.fuzz import bits
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import Scope, Variable

UNARY = (
    "exp",
    "tanh",
    "fabs",
    "abs",
    "sin",
    "cos",
    "sqrt",
    "floor",
    "ceil",
    "atan",
    "erf",
    "log1p",
)
BINARY = ("fmaxf", "fmin", "hypot", "copysign", "fdim")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CASTS = ("float", "double", "half", "float", "double", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def embed(scope: Scope, leaves: list[Expr], variables: list[Variable], but: str) -> Expr:
    """An expression that evaluates all the leaves."""
    rng = scope.rng
    if not leaves or scope.chance(0.5):
        leaves = [*leaves, leaf(scope, variables, but)]
    if scope.chance(0.3):
        leaves.append(value(scope, variables, but, 1))
    rng.shuffle(leaves)
    leaves = [wrap(scope, x, variables, but) if scope.chance(0.2) else x for x in leaves]
    while len(leaves) > 1:
        left, right = leaves.pop(), leaves.pop(rng.randrange(len(leaves)))
        leaves.append(join(scope, left, right, variables, but))
    return leaves[0]


def join(scope: Scope, left: Expr, right: Expr, variables: list[Variable], but: str) -> Expr:
    rng = scope.rng
    kind = rng.randrange(20)
    if kind < 14:
        return binary(rng.choice(("+", "*", "*", "-")), left, right)
    if kind < 16:
        return ("call", rng.choice(("min", "max")), (left, right))
    if kind == 16:
        return ("if", condition(scope, variables, but), left, right)
    if kind == 17:
        return binary(rng.choice(("&&", "||")), left, right)
    if kind == 18:
        return binary(rng.choice(COMPARISONS), left, right)
    return ("call", rng.choice(BINARY), (left, right))


def wrap(scope: Scope, x: Expr, variables: list[Variable], but: str) -> Expr:
    rng = scope.rng
    kind = rng.randrange(7)
    if kind <= 1:
        return ("call", rng.choice(UNARY), (x,))
    if kind == 2:
        return ("cast", rng.choice(CASTS), x)
    if kind == 3:
        return ("un", rng.choice("-!"), x)
    if kind == 4:
        return ("if", condition(scope, variables, but), x, leaf(scope, variables, but))
    if kind == 5:
        return binary(rng.choice("+*-"), x, num(rng.choice(("1", "2", "0.5", "3"))))
    return ("call", rng.choice(("min", "max")), (x, num(rng.choice(("0", "1")))))


def condition(scope: Scope, variables: list[Variable], but: str) -> Expr:
    rng = scope.rng
    if variables and scope.chance(0.5):
        v = rng.choice(variables)
        right = num(rng.choice((0, 1, 2, max(0, v.high - 1))))
        if len(variables) > 1 and scope.chance(0.3):
            right = var(rng.choice(variables).name)
        return binary(rng.choice(COMPARISONS), var(v.name), right)
    left = leaf(scope, variables, but)
    compared = binary(rng.choice(COMPARISONS), left, num(rng.choice(("0", "1", "0.5"))))
    if scope.chance(0.3):
        other = leaf(scope, variables, but)
        return binary(rng.choice(("&&", "||")), compared, other)
    return compared


def value(scope: Scope, variables: list[Variable], but: str, depth: int) -> Expr:
    rng = scope.rng
    if depth == 0 or scope.chance(0.4):
        return leaf(scope, variables, but)
    kind = rng.randrange(9)
    if kind < 3:
        left, right = (value(scope, variables, but, depth - 1) for _ in range(2))
        return join(scope, left, right, variables, but)
    if kind < 5:
        return wrap(scope, value(scope, variables, but, depth - 1), variables, but)
    if kind == 5:
        return padded(scope, variables, but)
    if kind == 6:
        return quotient(scope, variables, but)
    if kind == 7:
        return bits.value(scope, variables)
    return lazy(scope, variables, but)


def leaf(scope: Scope, variables: list[Variable], but: str) -> Expr:
    rng = scope.rng
    kind = rng.randrange(10)
    names = [n for n in scope.readable(but) if not is_index(scope, n)]
    if kind < 6 and names:
        return scope.read_inside(rng.choice(names), variables)
    if kind == 6 and variables:
        return var(rng.choice(variables).name)
    if kind == 7 and scope.sizes:
        return ("size", rng.choice(sorted({**scope.sizes, **scope.scalars})))
    if kind == 8 and not scope.full:
        return read(scope.new_input(()))
    return num(rng.choice(("0", "1", "2", "0.5", "3.0", "7", "0.25")))


def is_index(scope: Scope, name: str) -> bool:
    return any(p.name == name and p.values.split()[0] in ("index", "beyond") for p in scope.params)


def padded(scope: Scope, variables: list[Variable], but: str, rank: int | None = None) -> Expr:
    """A pad of any rank: of reads that leave their tensor, of diagonals, of scalars."""
    rng = scope.rng
    names = [n for n in scope.readable(but) if not is_index(scope, n)]
    if rank is not None:
        names = [n for n in names if len(scope.tensors[n].shape) == rank]
    if not names or (not scope.full and scope.chance(0.2)):
        if scope.full:
            return num(1)
        shape = tuple(
            rng.choice([v.high for v in variables if v.high > 0] or [3])
            for _ in range(rng.choice((0, 1, 1, 2, 3)) if rank is None else rank)
        )
        names = [scope.new_input(shape)]
    name = rng.choice(names)
    shape = scope.tensors[name].shape
    usable = [v for v in variables if not v.inferred or all(v.high <= n for n in shape)]
    if len(shape) > 1 and usable and scope.chance(0.35):
        v = rng.choice(usable)  # along a diagonal, perhaps in one plane that there is or is not
        subscripts = [var(v.name) for _ in shape]
        if len(shape) > 2 or scope.chance(0.2):
            subscripts[0] = num(rng.choice((0, 1, 2)))
    else:
        subscripts = [scope.near(n, variables) for n in shape]
    inner = read(name, *subscripts)
    if scope.chance(0.15):
        inner = binary(rng.choice("+*"), inner, leaf_of_scalar(scope))
    other = rng.choice((num(0), num(1), num("0.5"), leaf_of_scalar(scope)))
    return ("pad", inner, other)


def leaf_of_scalar(scope: Scope) -> Expr:
    names = [n for n, t in scope.tensors.items() if not t.shape and t.is_input]
    return read(scope.rng.choice(names)) if names else num(2)


def quotient(scope: Scope, variables: list[Variable], but: str) -> Expr:
    """A division whose divisor is never 0."""
    rng = scope.rng
    held = [p.name for p in scope.params if p.values == "nonzero" and p.dims]
    if not held:
        if scope.full or not variables:
            return binary("/", leaf(scope, variables, but), num(rng.choice((2, 3))))
        longest = max(v.high for v in variables)
        type = rng.choice(("int", "int", "uint8", "int64", "float", *scope.types))
        if type == "bool":
            type = "int"
        held = [scope.new_input((max(longest, 1) + rng.choice((0, 0, 1, 4)),), type, "nonzero")]
    divisor = scope.read_inside(rng.choice(held), variables)
    return binary(rng.choice("/%"), rng.choice((num(7), leaf(scope, variables, but))), divisor)


def lazy(scope: Scope, variables: list[Variable], but: str) -> Expr:
    """A choice, && or || whose other side cannot be evaluated where it is not asked for."""
    rng = scope.rng
    bounded = [v for v in variables if not v.inferred and v.low >= 0 and v.high > 0]
    if not bounded or scope.full:
        return leaf(scope, variables, but)
    v = rng.choice(bounded)
    guard = [p.name for p in scope.params if p.values == "positive" and p.dims]
    fitting = [n for n in guard if scope.tensors[n].shape == (v.high,)]
    name = rng.choice(fitting) if fitting else scope.new_input((v.high,), None, "positive")
    if any(p.name == name and p.type == "bool" for p in scope.params):
        return leaf(scope, variables, but)
    is_true = binary(">", read(name, var(v.name)), num(0))
    is_false = binary("<=", read(name, var(v.name)), num(0))
    vectors = [n for n in scope.readable(but) if len(scope.tensors[n].shape) == 1]
    if not vectors or (scope.chance(0.5) and not scope.full):
        vectors = [scope.new_input((rng.choice(SHORT_LENGTHS),))]
    beyond = rng.choice(vectors)
    size = scope.tensors[beyond].shape[0]
    place = rng.choice((num(size), num(size + 4), binary("+", var(v.name), num(size))))
    bad = read(beyond, place)
    form = rng.randrange(5)
    if form < 2:
        return ("if", is_true, leaf(scope, variables, but), bad)
    if form == 2:
        return ("if", is_false, bad, leaf(scope, variables, but))
    return binary("||", is_true, bad) if form == 3 else binary("&&", is_false, bad)


SHORT_LENGTHS = (1, 2, 3, 4)
