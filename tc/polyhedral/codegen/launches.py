"""Launches: which numbers of blocks and threads run what of a part, on a GPU.

A member of role "block" or "thread" makes no loop: the number of a block, or of a thread, is its
digit, or, of several members inside of each other, their digits; where there are fewer of them than
iterations, they take turns. Where no loop is bound to an axis, number 0 of it runs. Tests of both
stand around what holds no barrier: all threads of a block must meet these, and PoCL 3 loses threads
at barriers in branches of a loop, though all take one. So it does in loops of which it does not
know that they have a turn: with a barrier in it, a loop has as many turns in all blocks.
(Vasilache et al. 2018, arXiv:1802.04730, section 5.4.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tc.affine.forms import Form, LinearForm, constant_form, split
from tc.dtypes import INT64
from tc.kernel.folding import binary, compare, integer, of_form
from tc.kernel.ir import Expr, For, LaunchIndex, Let, Stmt, Var
from tc.plan import AXES, BLOCK, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.codegen.context import (
    EmitScope,
    LaunchAxis,
    LaunchIndices,
    NameSupply,
    Number,
)
from tc.polyhedral.codegen.thread_sums import combines, replicas_of
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.schedule import Band, Member, Node, Promotion, Sync
from tc.polyhedral.scop.scop import Scop


def launch_sizes(part: Node, scop: Scop) -> Mapping[LaunchAxis, int]:
    """How many blocks and threads there are along each axis that loops of a part are bound to: no
    more than have work."""
    sizes: dict[LaunchAxis, int] = {}
    for child in schedule.children(part):
        for key, size in launch_sizes(child, scop).items():
            sizes[key] = max(sizes.get(key, 1), size)
    if isinstance(part, Band) and any(member.axis is not None for member in part.members):
        statements = [scop.statement(name) for name in schedule.leaves(part)]
        for member in part.members:
            if member.axis is not None:
                key = member.role, member.axis
                used = used_of(member, trips_of(member, statements))
                sizes[key] = sizes.get(key, 1) * used
    return sizes


def used_of(member: Member, trips: int) -> int:
    """How many blocks, or threads, run a member."""
    return trips if member.count is None else min(member.count, trips)


def launch_of(part: Node, scop: Scop, names: NameSupply) -> LaunchIndices:
    """The launch of a part, with new names."""
    sizes = launch_sizes(part, scop)
    written = frozenset(scop.statement(name).write.tensor for name in schedule.leaves(part))
    return LaunchIndices(
        {
            (role, axis): LaunchIndex(
                names.fresh(f"{role[0]}{axis}", INT64), sizes.get((role, axis), 1)
            )
            for role in (BLOCK, THREAD)
            for axis in AXES
        },
        written,
        replicas_of(part, scop),
    )


def entered(launch: LaunchIndices, state: EmitScope) -> EmitScope:
    """The state at the beginning of a launch, where nothing is bound yet."""
    several = {key: index for key, index in launch.indices.items() if index.count > 1}
    for index in several.values():
        state = state.bound(index.var, 0, index.count - 1)
    threads = (index.var for (role, _), index in several.items() if role == THREAD)
    unbound = {key: Number(Form(0, {i.var: 1}), i.count) for key, i in several.items()}
    return replace(state, unbound=unbound, varying=frozenset(threads))


def has_barrier(node: Node) -> bool:
    """Whether threads wait for each other, or exchange what they have, somewhere in a tree."""
    return any(
        isinstance(n, Sync)
        or combines(n)
        or (isinstance(n, Promotion) and any(t.scope == SHARED for t in n.tiles))
        for n in schedule.nodes(node)
    )


def pinned(node: Node, state: EmitScope) -> tuple[list[Expr], EmitScope]:
    """The tests that a node needs, as no loop in it is bound to some axes, and the state in it."""
    if isinstance(node, Sync) or not (state.unbound or state.tests(BLOCK, THREAD)):
        return [], state  # all threads of all blocks wait
    bound = {(m.role, m.axis) for m in schedule.members(node)}
    launch = state.kernel.launch
    alike = {} if launch is None else launch.replicas.leaves
    everywhere = (alike.get(name, ()) for name in schedule.leaves(node))
    bound.update((THREAD, axis) for axes in everywhere for axis in axes)
    free = sorted(key for key in state.unbound if key not in bound)
    tests = {role: list(state.tests(role)) for role in (BLOCK, THREAD)}
    for key in free:
        number = of_form(state.unbound[key].value)
        tests[key[0]].append(compare("==", number, integer(0), {}))
    here: list[Expr] = []
    if not has_barrier(node):
        here, tests = [*tests[BLOCK], *tests[THREAD]], {}
    pending = {role: tuple(found) for role, found in tests.items()}
    unbound = {key: number for key, number in state.unbound.items() if key in bound}
    return here, replace(state, unbound=unbound, pending=pending)


@dataclass(frozen=True)
class Turns:
    """How a member that is bound is run: its digit, in a state in which it is known; in loops, if
    several turns are taken. The locals `numbers` stand around these."""

    digit: LinearForm
    state: EmitScope
    numbers: tuple[Stmt, ...]
    loop: str | None
    turns: int
    lets: tuple[Let, ...]

    def around(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        body = (*self.lets, *body)
        if self.loop is not None:
            body = (For(self.loop, integer(0), integer(self.turns), body),)
        return (*self.numbers, *body)


def bound_member(member: Member, trips: int, inside: int, state: EmitScope) -> Turns:
    """How blocks or threads run a member of `trips` iterations; the loops of its axis inside of it
    have `inside` numbers."""
    assert member.axis is not None
    key = member.role, member.axis
    number = state.unbound.get(key, Number(constant_form(0), 1))
    used, known = used_of(member, trips), number.value
    turns = -(-trips // used)
    unbound = {other: left for other, left in state.unbound.items() if other != key}
    numbers: tuple[Stmt, ...] = ()
    if inside > 1:
        (rest, known), numbers, state = divided(known, inside, state)
        unbound[key] = Number(rest, inside)
    state = replace(state, unbound=unbound)
    tests: list[Expr] = []
    if used < -(-number.count // inside):
        tests.append(compare("<", of_form(known), integer(used), {}))
    for name in known.terms:
        state = state.bound(name, 0, used - 1)
    digit = constant_form(0) if used == 1 else known
    loop, lets = None, list[Let]()
    if turns > 1:
        names, stem = state.kernel.names, f"{member.name}0"
        loop = names.fresh(stem, INT64)
        state = state.bound(loop, 0, turns - 1)
        digit = Form(0, {**digit.terms, loop: used})
        if used > 1:
            own = names.fresh(stem, INT64)
            lets.append(Let(own, of_form(digit)))
            state = state.bound(own, 0, trips - 1)
            digit = Form(0, {own: 1})
            if used * turns > trips:
                tests.append(compare("<", Var(own, INT64), integer(trips), {}))
    if member.role == THREAD:
        own_names = (stmt.var for stmt in (*numbers, *lets) if isinstance(stmt, Let))
        state = replace(state, varying=state.varying.union(own_names))
    pending = {**state.pending, member.role: (*state.tests(member.role), *tests)}
    return Turns(digit, replace(state, pending=pending), numbers, loop, turns, tuple(lets))


def numbered(
    threads: Sequence[LaunchIndex], widths: Sequence[int], state: EmitScope
) -> tuple[tuple[Stmt, ...], list[Expr], list[LaunchIndex], EmitScope]:
    """The digits of the numbers of all threads, which run along x first, as locals: `widths` says
    how many values each digit has, and the last is the rest; and tests where that is more."""
    number, count = constant_form(0), 1
    for index in threads:
        number, count = number + Form(0, {index.var: count}), count * index.count
    lets: list[Stmt] = []
    tests: list[Expr] = []
    digits: list[LaunchIndex] = []
    for width in widths:
        digit = number
        if len(digits) < len(widths) - 1:
            (digit, number), own, state = divided(number, width, state)
            lets += own
        name = next(iter(digit.terms), "")
        if name and digit != Form(0, {name: 1}):
            name = state.kernel.names.fresh("t0", INT64)
            lets.append(Let(name, of_form(digit)))
            state = state.bound(name, *digit.interval(state.bounds))
        digits.append(LaunchIndex(name, width))
        count = -(-count // width)
    if count > 1:  # there are more threads than digits have values
        tests.append(compare("<", Var(name, INT64), integer(width), {}))
        state = state.bound(name, 0, width - 1)
    return tuple(lets), tests, digits, state


def divided(
    number: LinearForm, by: int, state: EmitScope
) -> tuple[tuple[LinearForm, LinearForm], tuple[Stmt, ...], EmitScope]:
    """The remainder and the quotient of a number, at least 0, as forms, with the locals that these
    need and the state in which the locals are known: what divides evenly needs none."""
    found = split(number, by, state.bounds)
    if found is not None:
        return (found[1], found[0]), (), state
    whole = Form(
        number.constant // by, {n: c // by for n, c in number.terms.items() if c % by == 0}
    )
    rest = number.plus(whole, -by)
    forms, lets = [], []
    for op, high in (("%", by - 1), ("/", rest.interval(state.bounds)[1] // by)):
        name = state.kernel.names.fresh("t0", INT64)
        lets.append(Let(name, binary(op, of_form(rest), integer(by), state.bounds)))
        state = state.bound(name, 0, high)
        forms.append(Form(0, {name: 1}))
    return (forms[0], whole + forms[1]), tuple(lets), state
