"""Statements of every kind, made to be legal: what they read is defined, what they write fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.fuzz import expressions
from tests.fuzz.bits import reductions, words
from tests.fuzz.chains import add_chain
from tests.fuzz.corners import edges
from tests.fuzz.drafts import (
    INNER,
    OUTER,
    Body,
    Draft,
    add_inner,
    cover,
    draft_new,
    draft_old,
    finish,
    length,
    names_of,
    new_variable,
    target_of,
)
from tests.fuzz.extremes import extremes
from tests.fuzz.model import Expr, Statement, binary, num, read, reads, var
from tests.fuzz.periods import periods
from tests.fuzz.products import products
from tests.fuzz.rare import add_rare
from tests.fuzz.repeats import repeats
from tests.fuzz.scope import SHORT, Scope, Tensor, Variable

Maker = Callable[[Body], None]
REDUCTIONS = ("+=!", "+=!", "+=!", "+=!", "+=", "+=", "*=!", "max=!", "min=!", "max=", "min=", "*=")


def pointwise(body: Body) -> None:
    draft = target_of(body, 0.3)
    draft.op = body.scope.rng.choice(("=", "=", "=", "+=", "max="))
    leaves = cover(body, draft, draft.target)
    if draft.target in body.scope.tensors and body.scope.chance(0.5):
        leaves.append(read(draft.target, *(var(v.name) for v in draft.outer)))
    finish(body, draft, expressions.embed(body.scope, leaves, draft.variables, draft.target))


def update(body: Body) -> None:
    """A tensor changed in place, as a scaling or an activation does."""
    if not body.defined:
        return contraction(body)
    draft = draft_old(body, body.scope.rng.choice(body.defined), later=0.2)
    own = read(draft.target, *(var(v.name) for v in draft.outer))
    cover(body, draft, draft.target)
    other = expressions.leaf(body.scope, draft.variables, draft.target)
    forms: list[Expr] = [
        ("call", "max", (own, num(0))),
        binary("*", own, other),
        binary("+", own, other),
        ("if", binary(">", own, num(0)), own, binary("*", num("0.5"), own)),
        ("call", "exp", (own,)),
    ]
    if body.scope.chance(0.25):
        draft.op = body.scope.rng.choice(("+=", "*=", "max="))
        return finish(body, draft, other)
    return finish(body, draft, body.scope.rng.choice(forms))


def reduction(body: Body) -> None:
    draft = target_of(body, 0.3)
    add_inner(body, draft, body.scope.rng.choice((1, 1, 2)))
    draft.op = body.scope.rng.choice(REDUCTIONS)
    leaves = cover(body, draft, draft.target)
    finish(body, draft, expressions.embed(body.scope, leaves, draft.variables, draft.target))


def contraction(body: Body) -> None:
    """A product of two or three reads, each of some of the variables in some order."""
    scope = body.scope
    rng = scope.rng
    if body.defined and scope.chance(0.2):
        draft = draft_old(body, rng.choice(body.defined))
    else:
        draft = draft_new(body, rng.choice((1, 2, 2, 2, 2, 3, 3)), later=0.25, most=1600)
    add_inner(body, draft, rng.choice((1, 1, 1, 2)), later=0.15)
    draft.op = rng.choice(("+=!",) * 6 + ("+=", "+=", "max=!", "*=!"))
    count = rng.choice((2, 2, 2, 3))
    _product(body, draft, count)


def _product(body: Body, draft: Draft, count: int) -> None:
    scope = body.scope
    groups: list[list[Variable]] = [[] for _ in range(count)]
    for v in draft.variables:
        take = scope.rng.sample(
            groups, min(count, 2 if v in draft.inner or scope.chance(0.3) else 1)
        )
        for group in take:
            group.append(v)
    factors = [factor(scope, group, draft.target) for group in groups if group]
    named = {e[2] for f in factors for e in reads(f)}
    bare = {x[1] for subscripts in named for x in subscripts if x[0] == "var"}
    draft.covered += [v for v in draft.variables if v.name in bare]
    rhs = factors[0]
    for f in factors[1:]:
        rhs = binary("*", rhs, f) if scope.chance(0.7) else binary("*", f, rhs)
    if scope.chance(0.12):
        rhs = binary("*", rhs, expressions.leaf(scope, draft.variables, draft.target))
    elif scope.chance(0.1):
        rhs = binary("+", rhs, expressions.leaf(scope, draft.variables, draft.target))
    return finish(body, draft, rhs)


def factor(scope: Scope, group: list[Variable], but: str) -> Expr:
    """A read with all of these variables bare, from a tensor that has such dimensions."""
    rng = scope.rng
    group = rng.sample(group, len(group))
    pieces: list[tuple[int, Expr]] = []
    for v in group:
        slack = 0 if v.inferred or scope.chance(0.5) else rng.choice((0, 3))
        pieces.append((v.high + slack, var(v.name)))
    if len(pieces) < 3 and scope.chance(0.15):
        pieces.insert(0, (rng.choice((1, 2, 3)), num(0)))
        if len(pieces) == 2 and scope.chance(0.5):
            pieces.insert(0, (rng.choice((1, 2)), num(0)))
    fitting = [
        n
        for n, t in scope.tensors.items()
        if n != but
        and t.shape == tuple(size for size, _ in pieces)
        and not expressions.is_index(scope, n)
    ]
    if fitting and (scope.full or scope.chance(0.3)):
        return read(rng.choice(fitting), *(s for _, s in pieces))
    if scope.full:
        return num(1)
    return read(scope.new_input(tuple(s for s, _ in pieces)), *(s for _, s in pieces))


def convolution(body: Body) -> None:
    """A sum over windows, with strides, of one, two or three dimensions."""
    scope = body.scope
    rng = scope.rng
    rank = rng.choice((1, 1, 2))
    outs = names_of(scope, OUTER, rank + 2)
    inner = names_of(scope, INNER, rank + 1)
    steps = [rng.choice((1, 1, 2, 3)) for _ in range(rank)]
    sizes = [rng.choice((1, 3, 5, 8, 13, 17)) for _ in range(rank)]
    windows = [rng.choice((1, 2, 3)) for _ in range(rank)]
    batch, filters, channels = (
        rng.choice((1, 2)),
        rng.choice((1, 3, 8, 15, 17)),
        rng.choice((1, 2, 3)),
    )
    shape = [batch, channels]
    image: list[Expr] = [var(outs[0]), var(inner[0])]
    weight: list[Expr] = [var(outs[1]), var(inner[0])]
    variables = [Variable(outs[0], 0, batch, True), Variable(outs[1], 0, filters, True)]
    reduced = [Variable(inner[0], 0, channels, True)]
    for axis, (step, size, window) in enumerate(zip(steps, sizes, windows, strict=True)):
        dilation = rng.choice((1, 1, 2, 3))
        shape.append(step * (size - 1) + dilation * (window - 1) + 1)
        i, k = outs[2 + axis], inner[1 + axis]
        scaled = var(i) if step == 1 else binary("*", num(step), var(i))
        dilated = var(k) if dilation == 1 else binary("*", num(dilation), var(k))
        image.append(binary("+", scaled, dilated))
        weight.append(var(k))
        variables.append(Variable(i, 0, size, True))
        reduced.append(Variable(k, 0, window, True))
    if len(scope.params) + 2 > 8:
        return reduction(body)
    if scope.chance(0.3):  # the range of one begins later
        at = rng.randrange(len(variables))
        v = variables[at]
        if v.high > 1:
            variables[at] = Variable(v.name, rng.randint(1, min(v.high - 1, 3)), v.high, False)
    a = scope.new_input(tuple(shape))
    b = scope.new_input((filters, channels, *windows))
    draft = Draft(body.fresh_name(), variables, reduced, "+=!", covered=[*variables, *reduced])
    return finish(body, draft, binary("*", read(a, *image), read(b, *weight)))


def restart(body: Body) -> None:
    """A reduction that begins anew in a part of a tensor that statements before have written."""
    if not body.defined:
        return pointwise(body)
    scope = body.scope
    target = scope.rng.choice(body.defined)
    draft = draft_old(body, target, later=0.8)
    add_inner(body, draft, scope.rng.choice((1, 1, 2)))
    draft.op = scope.rng.choice(("max=!", "+=!", "+=!", "*=!", "min=!", "+=", "max="))
    leaves = cover(body, draft, target)
    return finish(body, draft, expressions.embed(scope, leaves, draft.variables, target))


def partial(body: Body) -> None:
    """A tensor of which only a part is written, and perhaps more of it, or another, from that."""
    scope = body.scope
    draft = draft_new(body, scope.rng.choice((1, 1, 2)), later=0.9)
    leaves = cover(body, draft, draft.target)
    if not leaves or scope.chance(0.3):
        leaves.append(expressions.leaf(scope, draft.variables, draft.target))
    finish(body, draft, expressions.embed(scope, leaves, draft.variables, draft.target))
    if scope.chance(0.6):
        more = draft_old(body, draft.target, later=0.3)
        more.op = scope.rng.choice(("+=", "=", "+=", "max=", "*="))
        leaf = expressions.leaf(scope, more.variables, more.target)
        if more.op == "=" or scope.chance(0.2):
            own = read(more.target, *(var(v.name) for v in more.outer))
            more.op, leaf = "=", binary(scope.rng.choice("+*"), own, leaf)
        cover(body, more, more.target)
        finish(body, more, leaf)
    else:
        reader = draft_new(body, len(draft.outer))
        shape = scope.tensors[draft.target].shape
        reader.outer = [
            Variable(v.name, 0, size, True) for v, size in zip(reader.outer, shape, strict=True)
        ]
        reader.covered = list(reader.outer)
        own = read(draft.target, *(var(v.name) for v in reader.outer))
        finish(body, reader, binary("+", own, num(1)))


def concatenation(body: Body) -> None:
    scope = body.scope
    rank = scope.rng.choice((1, 1, 2, 2, 3, 3, 4))
    named = [n for n, t in scope.tensors.items() if len(t.shape) == rank]
    if not named and scope.full:
        return pointwise(body)
    first = (
        scope.rng.choice(named)
        if named and scope.chance(0.5)
        else scope.new_input(tuple(scope.rng.choice(SHORT[:5]) for _ in range(rank)))
        if not scope.full
        else scope.rng.choice(named)
    )
    lead = scope.tensors[first].shape[:-1]
    parts = [first]
    for _ in range(scope.rng.choice((1, 1, 2))):
        fitting = [
            n for n, t in scope.tensors.items() if len(t.shape) == rank and t.shape[:-1] == lead
        ]
        if scope.full or (fitting and scope.chance(0.4)):
            parts.append(scope.rng.choice(fitting))
        else:
            parts.append(scope.new_input((*lead, length(scope, 40))))
    name = body.fresh_name()
    total = sum(scope.tensors[n].shape[-1] for n in parts)
    scope.tensors[name] = Tensor((*lead, total), "f")
    body.statements.append(Statement(name, (), "=", ("concat", tuple(parts))))
    body.ranges.append(())
    body.instances += math.prod((*lead, total))
    return None


def padding(body: Body) -> None:
    """Pads of every rank beside other reads, summed or not."""
    scope = body.scope
    draft = target_of(body, 0.2)
    if scope.chance(0.6):
        add_inner(body, draft, 1)
        draft.op = scope.rng.choice(("+=!", "+=!", "max=!", "+="))
    leaves = cover(body, draft, draft.target)
    rank = scope.rng.choice((0, 0, 1, 2, 2, 3, None))
    pad = expressions.padded(scope, draft.variables, draft.target, rank)
    if leaves:
        rhs = leaves[0]
        for x in leaves[1:]:
            rhs = binary(scope.rng.choice("*+"), rhs, x)
        pad = binary(scope.rng.choice("++*"), rhs, pad)
    finish(body, draft, pad)


def diagonal(body: Body) -> None:
    """A sum over a padded diagonal of a plane, which there may or may not be."""
    scope = body.scope
    rng = scope.rng
    if scope.full:
        return padding(body)
    size = rng.choice(SHORT)
    planes = rng.choice((1, 1, 1, 2))
    shape = (planes, size, size) if scope.chance(0.7) else (size, size)
    name = scope.new_input(shape)
    draft = Draft(body.fresh_name(), [Variable("n", 0, rng.choice((1, 2, 5)), False)])
    inner = Variable("q", 0, size, scope.chance(0.7))
    draft.inner, draft.op = [inner], rng.choice(("+=!", "+=!", "max=!"))
    draft.covered = [inner] if inner.inferred else []
    plane = [num(rng.choice((0, 1, 1, 2)))] if len(shape) == 3 else []
    pad: Expr = ("pad", read(name, *plane, var("q"), var("q")), num(rng.choice((0, 1))))
    return finish(body, draft, pad)


def masked(body: Body) -> None:
    """Conditions joined by && and || under a reduction, one side a gathered vector."""
    scope = body.scope
    rng = scope.rng
    if len(scope.params) + 2 > 8:
        return reduction(body)
    draft = draft_new(body, rng.choice((1, 2, 2)), later=0.1, most=rng.choice((12, 12, 40, 400)))
    k = Variable("k", 0, rng.choice((3, 8, 17, 37, 37, 64)), False)
    draft.inner, draft.op = [k], rng.choice(("+=!", "+=!", "+=!", "max=!", "+="))
    modulus = rng.choice((2, 3, 8))
    subscripts: list[tuple[int, Expr]] = [(modulus, binary("%", var("k"), num(modulus)))]
    last = draft.outer[-1]
    subscripts.append((last.high, var(last.name)))
    if scope.chance(0.5):
        subscripts.append((rng.choice((1, 3, 31)), num(0)))
    if scope.chance(0.3):
        rng.shuffle(subscripts)
    a = scope.new_input(tuple(s for s, _ in subscripts))
    b = scope.new_input(tuple(v.high for v in draft.outer))
    draft.covered = list(draft.outer)
    left = read(a, *(s for _, s in subscripts))
    right = read(b, *(var(v.name) for v in draft.outer))
    if scope.chance(0.3):
        left = binary(rng.choice(("<", ">", "!=")), left, num(0))
    sides = [left, right] if scope.chance(0.7) else [right, left]
    return finish(body, draft, binary(rng.choice(("||", "&&")), *sides))


def chain_of_factors(body: Body) -> None:
    """A sum of products of three, as two contractions would compute it."""
    scope = body.scope
    if len(scope.params) + 3 > 8:
        return contraction(body)
    rng = scope.rng
    i, j = (
        new_variable(scope, n, rng.choice((1, 2, 5, 8, 16)), 0.1) for n in names_of(scope, OUTER, 2)
    )
    k, r = (Variable(n, 0, rng.choice((2, 5, 13, 17, 32)), True) for n in names_of(scope, INNER, 2))
    spread = rng.random() < 0.5
    infinite = rng.randrange(3) if not spread and scope.chance(0.4) else None
    # the last two multiplied by each other leave the range of floats, and all three do not
    scale = rng.choice(((-30, 20, 20), (-25, 14, 28), (30, -20, -25), (22, -24, -22)))
    groups = rng.choice(([[i, k], [k, r], [r, j]], [[i], [k, j], [r]], [[k], [i, j], [k, r]]))
    factors = []
    for at, (group, exponent) in enumerate(zip(groups, scale, strict=True)):
        values = f"magnitude {exponent}" if spread else "infinite" if at == infinite else None
        name = scope.new_input(tuple(v.high for v in group), "float" if spread else None, values)
        x: Expr = read(name, *(var(v.name) for v in group))
        if scope.chance(0.1):
            x = ("call", "exp", (x,))
        elif scope.chance(0.1):
            x = binary("-", num(1), x)
        factors.append(x)
    draft = Draft(
        body.fresh_name(), [v for v in (i, j) if any(v in g for g in groups)], [k, r], "+=!"
    )
    draft.inner = [v for v in (k, r) if any(v in g for g in groups)]
    draft.covered = [v for v in draft.variables if v.inferred]
    if scope.chance(0.3):
        factors.reverse()
    return finish(body, draft, binary("*", binary("*", factors[0], factors[1]), factors[2]))


def self_read(body: Body) -> None:
    """A target read where other instances write it, or nearly."""
    scope = body.scope
    rng = scope.rng
    if not body.defined:
        pointwise(body)
    target = rng.choice(body.defined)
    shape = scope.tensors[target].shape
    draft = draft_old(body, target, later=0.3)
    if not shape or scope.chance(0.4):
        add_inner(body, draft, 1)
        draft.op = rng.choice(("+=", "*=", "max="))
    leaves = cover(body, draft, target)
    own = scope.read_inside(target, draft.outer if scope.chance(0.6) else draft.variables)
    rhs = own
    for x in leaves:
        rhs = binary(rng.choice("*+"), rhs, x)
    if not leaves and draft.inner:
        rhs = binary("+", rhs, var(draft.inner[0].name))
    finish(body, draft, rhs)


def continued(body: Body) -> None:
    """A new output, which the caller passes: what it held, and what was computed for its place."""
    scope = body.scope
    if not body.defined or scope.chance(0.5):
        reduction(body)
    source = body.defined[-1]
    draft = replace(draft_old(body, source, later=0.1), target=body.fresh_name())
    names = [var(v.name) for v in draft.outer]
    own, held = read(draft.target, *names), read(source, *names)
    one, other = (own, held) if scope.chance(0.5) else (held, own)
    forms: list[Expr] = [
        binary(scope.rng.choice("*+-"), one, other),
        ("if", binary(">", one, num(0)), one, other),
        ("call", "max", (one, other)),
    ]
    finish(body, draft, scope.rng.choice(forms))


def sparse_product(body: Body) -> None:
    """A product whose second read alone has the reduction, in an order that does not suit it."""
    scope = body.scope
    if len(scope.params) + 2 > 8:
        return contraction(body)
    rng = scope.rng
    names = names_of(scope, OUTER, 3)
    b, i, j = names
    outer = [b, i, j] if scope.chance(0.5) else rng.sample(names, 3)
    few, many = (1, 2, 3, 4, 6, 8, 17), (1, 4, 8, 9, 16, 17)  # rows, and what vectors go along
    sizes = {n: rng.choice(many if n == outer[-1] else few) for n in names}
    k = Variable("k", 0, rng.choice((1, 2, 3, 5)), True)
    first = [num(0)] * rng.choice((0, 1, 2))
    a = scope.new_input((*(rng.choice((1, 2, 6)) for _ in first), sizes[i]))
    order = rng.sample(["k", j, b], 3)
    while order[-1] == outer[-1] and scope.chance(0.8):
        rng.shuffle(order)
    c = scope.new_input(tuple(k.high if n == "k" else sizes[n] for n in order))
    rhs = binary("*", read(a, *first, var(i)), read(c, *map(var, order)))
    variables = [Variable(n, 0, sizes[n], True) for n in outer]
    draft = Draft(body.fresh_name(), variables, [k], "+=!", covered=[*variables, k])
    return finish(body, draft, rhs)


def guarded(body: Body) -> None:
    """Divisions and reads that only happen inside of a range that begins and ends elsewhere."""
    scope = body.scope
    draft = draft_new(body, scope.rng.choice((1, 1, 2)), later=0.8)
    draft.outer = [Variable(v.name, v.low, v.high, False) for v in draft.outer]
    cover(body, draft, draft.target)
    maker = scope.rng.choice((expressions.quotient, expressions.lazy))
    rhs = maker(scope, draft.variables, draft.target)
    if scope.chance(0.3):
        rhs = binary(scope.rng.choice("+*"), rhs, expressions.leaf(scope, draft.variables, ""))
    finish(body, draft, rhs)


def gathering(body: Body) -> None:
    """Rows of a table, by indices of one or two dimensions, perhaps some outside."""
    scope = body.scope
    rng = scope.rng
    if len(scope.params) + 2 > 8:
        return reduction(body)
    rows, width = rng.choice((1, 3, 8)), length(scope, 40)
    table = scope.new_input((rows, width))
    rank = rng.choice((1, 1, 2))
    variables = [
        new_variable(scope, n, rng.choice((1, 3, 7, 17)), 0.1) for n in names_of(scope, OUTER, rank)
    ]
    beyond = "beyond" if scope.chance(0.06) else "index"
    indices = scope.new_input(
        tuple(v.high for v in variables), rng.choice(("int", "int64", "uint8")), f"{beyond} {rows}"
    )
    d = Variable("p", 0, width, True)
    if beyond == "beyond":
        body.refused = None
    rhs = read(table, read(indices, *(var(v.name) for v in variables)), var("p"))
    if rank == 2 and scope.chance(0.5):
        draft = Draft(body.fresh_name(), [variables[0], d], [variables[1]], "+=!")
    else:
        draft = Draft(body.fresh_name(), [*variables, d])
    draft.covered = [*variables, d]
    return finish(body, draft, rhs)


MAKERS: Mapping[Maker, int] = {
    pointwise: 8,
    update: 6,
    reduction: 7,
    contraction: 12,
    convolution: 8,
    restart: 10,
    partial: 9,
    concatenation: 4,
    padding: 7,
    diagonal: 10,
    masked: 10,
    chain_of_factors: 9,
    self_read: 4,
    continued: 6,
    sparse_product: 12,
    guarded: 7,
    gathering: 5,
    edges: 12,
    add_rare: 8,
    add_chain: 8,
    products: 14,
    extremes: 8,
    periods: 8,
    repeats: 12,
    words: 9,
    reductions: 5,
}
