"""What a rewrite may compute once, elsewhere, or over fewer variables: copies, tensors with the
statements of another one, sums that become another tensor, and sums of which a condition leaves
one value of a variable. Beside each, now and then, stands what forbids that: a statement in between
that writes again, or a read of what is not whole yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.fuzz import expressions
from tests.fuzz.drafts import (
    INNER,
    OUTER,
    Body,
    Draft,
    add,
    add_inner,
    cover,
    draft_new,
    finish,
    names_of,
)
from tests.fuzz.model import Expr, Statement, binary, num, read, reads, var
from tests.fuzz.scope import SHORT, Variable

_MOST_STATEMENTS = 7


def repeats(body: Body) -> None:
    """Draws one of these groups of statements, and a statement that reads what they store."""
    body.scope.rng.choice((copied, again, again, becoming, becoming, lone))(body)


def copied(body: Body) -> None:
    """All or a part of a tensor under another name."""
    scope = body.scope
    names = [name for name in scope.readable() if scope.tensors[name].shape]
    if not names:
        return becoming(body)
    name = scope.rng.choice(names)
    draft = _like(body, name)
    if scope.chance(0.3):
        k = scope.rng.randrange(len(draft.outer))
        v = draft.outer[k]
        draft.outer[k] = replace(v, high=scope.rng.randint(1, v.high), inferred=False)
    draft.covered = [v for v in draft.outer if v.inferred]
    finish(body, draft, _own(draft, name))
    _change(body, name, 0.25)
    return _read_both(body, draft.target, name)


def again(body: Body) -> None:
    """Another tensor with the statements of one that is written from the start."""
    scope = body.scope
    rng = scope.rng
    targets = [n for n in dict.fromkeys(s.target for s in body.statements) if _is_whole(body, n)]
    if not targets:
        return becoming(body)
    name = rng.choice(targets)
    if scope.chance(0.25):
        sources = [e[1] for s in body.statements if s.target == name for e in reads(s.rhs)]
        _change(body, rng.choice([*sources, name]), 1.0)
    made = body.fresh_name()
    for k in [k for k, s in enumerate(body.statements) if s.target == name]:
        _repeat(body, k, made)
        if len(body.statements) >= _MOST_STATEMENTS:
            break
        if scope.chance(0.1):  # before it is whole
            reader = _like(body, made)
            finish(body, reader, _own(reader, made))
    return _read_both(body, made, name)


def becoming(body: Body) -> None:
    """A sum, and a tensor of the same shape that is made of the sum."""
    scope = body.scope
    rng = scope.rng
    draft = draft_new(body, rng.choice((0, 1, 1, 2, 2)), later=0.05)
    add_inner(body, draft, rng.choice((1, 1, 2)))
    draft.op = rng.choice(("+=!", "+=!", "+=!", "*=!", "max=!", "min=!"))
    leaves = cover(body, draft, draft.target)
    finish(body, draft, expressions.embed(scope, leaves, draft.variables, draft.target))
    name = draft.target
    if 0 in scope.tensors[name].shape:
        return
    _change(body, name, 0.25)
    made = _like(body, name)
    own = _own(made, name)
    if scope.chance(0.35):
        made.outer = [replace(v, inferred=False) for v in made.outer]
        if scope.chance(0.5):
            own = ("pad", own, num(rng.choice((0, 1))))
        else:  # not each element from that at its place
            own = scope.read_inside(name, made.outer)
    finish(body, made, expressions.embed(scope, [own], made.outer, made.target))
    _change(body, name, 0.2)
    if scope.chance(0.2):
        _read_both(body, made.target, name)


def lone(body: Body) -> None:
    """A sum over several variables, of which a condition determines one by others."""
    scope = body.scope
    rng = scope.rng
    (z,) = (Variable(n, 0, rng.choice(SHORT), False) for n in names_of(scope, OUTER, 1))
    sizes = (rng.choice((z.high, z.high, *SHORT)), rng.choice(SHORT))
    inner = [
        Variable(n, 0, size, False)
        for n, size in zip(names_of(scope, INNER, 2), sizes, strict=True)
    ]
    p, k = inner
    draft = Draft(body.fresh_name(), [z], inner, rng.choice(("+=!", "+=!", "+=!", "+=", "max=!")))
    apart = binary("-", var(z.name), var(p.name))
    if scope.chance(0.5):
        apart = binary(rng.choice("+-"), apart, num(rng.choice((1, 2))))
    elif scope.chance(0.3):
        apart = binary("-", binary("+", var(z.name), var(p.name)), num(rng.choice((1, 3, 4))))
    factors = [scope.covering([v, k], [], draft.target) for v in rng.sample((z, p), 2)]
    product = binary("*", *factors)
    if scope.full or scope.chance(0.5):
        form = rng.randrange(3)
        condition = binary("==", apart, num(0))
        if form == 1:
            condition = binary("==", var(p.name), binary("+", var(z.name), num(rng.choice((0, 1)))))
        elif form == 2:
            condition = binary("&&", binary("<=", num(0), apart), binary("<", apart, num(1)))
        if scope.chance(0.3):
            condition = binary("&&", condition, binary("<", var(k.name), num(rng.choice((1, 3)))))
        return finish(body, draft, ("if", condition, product, num(rng.choice((0, 0, 0, 1)))))
    single = read(scope.new_input((1,)), apart)
    return finish(body, draft, ("pad", binary("*", single, product), num(rng.choice((0, 0, 0, 1)))))


def _like(body: Body, name: str) -> Draft:
    """A statement of a new tensor, with the shape of another one."""
    shape = body.scope.tensors[name].shape
    names = names_of(body.scope, OUTER, len(shape))
    outer = [Variable(n, 0, size, True) for n, size in zip(names, shape, strict=True)]
    return Draft(body.fresh_name(), outer, covered=list(outer))


def _own(draft: Draft, name: str) -> Expr:
    """The element of a tensor at the place of the one that a statement writes."""
    return read(name, *(var(v.name) for v in draft.outer))


def _is_whole(body: Body, name: str) -> bool:
    """Whether the statements of a tensor start from nothing, and none is a concat."""
    own = [s for s in body.statements if s.target == name]
    is_start = own[0].op == "=" or own[0].op.endswith("!")
    return (
        is_start
        and all(s.rhs[0] != "concat" for s in own)
        and not any(e[1] == name for e in reads(own[0].rhs))
        and 0 not in body.scope.tensors[name].shape
    )


def _repeat(body: Body, place: int, target: str) -> None:
    """A statement as another one, of another tensor and with other names for variables."""
    rng = body.scope.rng
    old, spans = body.statements[place], body.ranges[place]
    outer = names_of(body.scope, OUTER, len(old.indices))
    left = [n for n, _, _ in spans if n not in old.indices]
    free = [n for n in (*INNER, *OUTER) if n not in outer]
    new = dict(zip((*old.indices, *left), (*outer, *rng.sample(free, len(left))), strict=True))

    def renamed(e: Expr) -> Expr:
        if e[0] == "var":
            return ("var", new.get(e[1], e[1]))
        name = target if e[0] == "read" and e[1] == old.target else e[1]
        items = (e[0], name, *e[2:]) if e[0] == "read" else e
        return tuple(_within(item, renamed) for item in items)

    where = tuple((new[n], renamed(low), renamed(high)) for n, low, high in old.where)
    bounded = {n for n, _, _ in old.where}
    statement = Statement(
        target, tuple(new[n] for n in old.indices), old.op, renamed(old.rhs), where
    )
    add(body, statement, [Variable(new[n], a, b, n not in bounded) for n, a, b in spans])


def _within(item: Any, change: Callable[[Expr], Expr]) -> Any:
    """A part of an expression: an operand, several of them, or a name."""
    if not isinstance(item, tuple):
        return item
    if item and isinstance(item[0], tuple):
        return tuple(_within(each, change) for each in item)
    return change(item) if item else item


def _change(body: Body, name: str, probability: float) -> None:
    """Writes a tensor again, unless it is an input."""
    scope = body.scope
    if scope.tensors[name].is_input or not scope.chance(probability):
        return
    draft = replace(_like(body, name), target=name)
    op, rhs = scope.rng.choice((("=", binary("*", _own(draft, name), num(2))), ("+=", num(1))))
    draft.op = op
    finish(body, draft, rhs)


def _read_both(body: Body, one: str, other: str) -> None:
    """A statement of a new tensor from two stored ones."""
    draft = _like(body, one)
    scope = body.scope
    if 0 in scope.tensors[one].shape or 0 in scope.tensors[other].shape:
        return
    leaves = [_own(draft, one), scope.read_inside(other, draft.outer)]
    finish(body, draft, expressions.embed(scope, leaves, draft.outer, draft.target))
