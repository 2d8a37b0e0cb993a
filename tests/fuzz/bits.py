"""Bits (Y11, Y12): operators and functions on integers of all types and on the bits of floats, and
reductions of words and of conditions."""

from __future__ import annotations

from tests.fuzz.drafts import Body, add_inner, cover, draft_new, finish
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import FLOATS, INTEGERS, Scope, Tensor, Variable

OPERATORS = ("&", "|", "^")
SHIFTS = ("<<", ">>")
COUNTS = (0, 1, 3, 5, 7)
"""Counts that every type has room for."""


def word(scope: Scope, variables: list[Variable], depth: int = 2) -> Expr:
    """An integer made of bits."""
    rng = scope.rng
    kind = rng.randrange(9) if depth else 8
    if kind < 3:
        left, right = (word(scope, variables, depth - 1) for _ in range(2))
        return binary(rng.choice(OPERATORS), left, right)
    left = word(scope, variables, depth - 1) if depth else num(0)
    match kind:
        case 3:
            return binary(rng.choice(SHIFTS), left, num(rng.choice(COUNTS)))
        case 4:  # by what data say, also out of range
            count = word(scope, variables, 0)
            known = count[0] == "num"
            return binary(rng.choice(SHIFTS), left, num(rng.choice(COUNTS)) if known else count)
        case 5:
            return ("un", "~", left)
        case 6:
            return ("call", rng.choice(("popc", "clz")), (left,))
        case 7:
            kind_of = rng.choice([t for t in INTEGERS if t != "uint64"])
            return ("cast", kind_of, binary(rng.choice("+*-"), left, num(rng.choice((1, 2, 3)))))
        case _:
            return _leaf(scope, variables)


def _leaf(scope: Scope, variables: list[Variable]) -> Expr:
    rng = scope.rng
    kind = rng.randrange(6)
    held = [p for p in scope.params if not p.values.startswith("is ")]
    words = [p.name for p in held if p.type in INTEGERS and 0 not in scope.tensors[p.name].shape]
    floats = [p.name for p in held if p.type in FLOATS and 0 not in scope.tensors[p.name].shape]
    if kind < 3 and words:
        return scope.read_inside(rng.choice(words), variables)
    if kind < 3 and not scope.full and variables:
        longest = max(1, *(v.high for v in variables))
        type_ = rng.choice([t for t in INTEGERS if t != "uint64"])
        name = scope.new_input((longest,), type_, rng.choice(("wide", "integers")))
        return scope.read_inside(name, variables)
    if kind == 3 and floats:
        return ("call", "bits", (scope.read_inside(rng.choice(floats), variables),))
    if kind == 4 and variables:
        return var(rng.choice(variables).name)
    return num(rng.choice(("0", "1", "3", "0x55", "15", "127")))


def value(scope: Scope, variables: list[Variable]) -> Expr:
    """A number made of bits: an integer, or the float that has them."""
    rng = scope.rng
    kind = rng.randrange(6)
    made = word(scope, variables)
    if kind == 0:  # from 1 to 2, whatever the bits
        one = binary("|", binary("&", ("cast", "uint32", made), num("0x7FFFFF")), num("0x3F800000"))
        return ("call", "float32_of", (one,))
    if kind == 1:
        one = binary("|", binary("&", ("cast", "uint16", made), num("0x3FF")), num("0x3C00"))
        return ("call", "half_of", (one,))
    if kind == 2:  # so small that sums of it are exact in all types
        return binary("&", ("cast", "int", made), num(rng.choice((1, 3, 7))))
    return made


def words(body: Body) -> None:
    """A statement of integers."""
    draft = draft_new(body)
    leaves = cover(body, draft, draft.target)
    made = word(body.scope, draft.variables, 3)
    for leaf in leaves:
        made = binary(body.scope.rng.choice(OPERATORS), made, _as_word(body.scope, leaf))
    finish(body, draft, made)


def _as_word(scope: Scope, leaf: Expr) -> Expr:
    """A read as an integer, whatever its type."""
    if scope.chance(0.3):
        return ("if", binary(">", leaf, num(0)), num(1), num(6))
    return ("cast", scope.rng.choice(("int", "int64", "uint8")), leaf)


def reductions(body: Body) -> None:
    """A reduction of words or of conditions, and a statement that reads it."""
    scope = body.scope
    rng = scope.rng
    draft = draft_new(body, rng.choice((0, 1, 1, 2)), most=200)
    add_inner(body, draft, rng.choice((1, 1, 2)))
    draft.op = rng.choice(("&=!", "|=!", "^=!"))
    leaves = cover(body, draft, draft.target)
    if scope.chance(0.4):
        tests: list[Expr] = [binary(rng.choice((">", "==")), leaf, num(1)) for leaf in leaves]
        made = tests[0] if tests else binary("==", word(scope, draft.variables, 1), num(1))
        for other in tests[1:]:
            made = binary(rng.choice(OPERATORS), made, other)
    else:
        made = word(scope, draft.variables)
        for leaf in leaves:
            made = binary(rng.choice(OPERATORS), made, _as_word(scope, leaf))
    finish(body, draft, made)
    target = scope.tensors[draft.target]
    # no statement goes on with it, which might make it a float
    scope.tensors[draft.target] = Tensor(target.shape, "bits")
    reader = draft_new(body, 0)
    reader.outer = [Variable(v.name, 0, v.high, True) for v in draft.outer]
    reader.covered = [*reader.outer]
    own = read(draft.target, *(var(v.name) for v in reader.outer))
    finish(body, reader, binary(rng.choice("+*"), own, num(1)))
