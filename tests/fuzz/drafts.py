"""Statements under construction: targets, ranges, and the reads that fix them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fuzz.brute import Unknown, breaks_p1
from tests.fuzz.model import Expr, Statement, reads, walk
from tests.fuzz.scope import LENGTHS, SHORT, Scope, Tensor, Variable

OUTER = ("i", "j", "l", "m", "w")
INNER = ("k", "r", "q", "t")
MOST_INSTANCES = 12_000


@dataclass
class Body:
    """The statements so far, with what the model knows of them."""

    scope: Scope
    statements: list[Statement] = field(default_factory=list)
    ranges: list[tuple[tuple[str, int, int], ...]] = field(default_factory=list)
    needs_outputs: set[str] = field(default_factory=set)
    refused: str | None = ""
    instances: int = 0

    @property
    def defined(self) -> list[str]:
        """The tensors that statements write, but for those that no other may go on with."""
        return [n for n, t in self.scope.tensors.items() if not t.is_input and t.kind != "bits"]

    def fresh_name(self) -> str:
        taken = sum(not t.is_input for t in self.scope.tensors.values())
        return f"o{taken}" if taken else "o"


@dataclass
class Draft:
    """A statement under construction."""

    target: str
    outer: list[Variable]
    inner: list[Variable] = field(default_factory=list)
    op: str = "="
    covered: list[Variable] = field(default_factory=list)

    @property
    def variables(self) -> list[Variable]:
        return [*self.outer, *self.inner]


# --- choosing targets and ranges ------------------------------------------------------------------


def length(scope: Scope, budget: int) -> int:
    lengths = [n for n in (LENGTHS if budget > 60 else SHORT) if n <= max(budget, 1)]
    return scope.rng.choice(lengths or [1])


def new_variable(scope: Scope, name: str, size: int, later: float = 0.2) -> Variable:
    """A variable that goes up to a size; from a later start with a probability."""
    low = scope.rng.randint(1, min(size - 1, 5)) if size > 1 and scope.chance(later) else 0
    inferred = low == 0 and scope.chance(0.75)
    return Variable(name, low, size, inferred)


def names_of(scope: Scope, pool: tuple[str, ...], count: int) -> list[str]:
    return scope.rng.sample(pool, count)


def draft_new(body: Body, rank: int | None = None, later: float = 0.15, most: int = 0) -> Draft:
    scope = body.scope
    rank = scope.rng.choice((0, 1, 1, 1, 2, 2, 2, 3)) if rank is None else rank
    budget = most or 1200
    outer = []
    for name in names_of(scope, OUTER, rank):
        size = length(scope, budget)
        budget //= max(1, size)
        outer.append(new_variable(scope, name, size, later))
    return Draft(body.fresh_name(), outer)


def draft_old(body: Body, target: str, later: float = 0.35) -> Draft:
    """Of a tensor that is defined already: all of it, or a part."""
    scope = body.scope
    outer, covered = [], []
    shape = scope.tensors[target].shape
    for name, size in zip(names_of(scope, OUTER, len(shape)), shape, strict=True):
        if scope.chance(later) and size > 1:
            low = scope.rng.choice((0, 0, 1, scope.rng.randrange(size)))
            v = Variable(name, low, scope.rng.randint(low + 1, size), False)
        else:
            v = Variable(name, 0, size, True)
            covered.append(v)  # the left side is an access too
        outer.append(v)
    return Draft(target, outer, covered=covered)


def add_inner(body: Body, draft: Draft, count: int, later: float = 0.2) -> None:
    scope = body.scope
    budget = MOST_INSTANCES // max(1, math.prod(map(len, draft.outer)))
    for name in names_of(scope, INNER, count):
        size = length(scope, min(budget, 70))
        budget //= max(1, size)
        draft.inner.append(new_variable(scope, name, size, later))


def cover(body: Body, draft: Draft, but: str) -> list[Expr]:
    """Reads that fix the ranges of all variables without a `where`."""
    missing = [v for v in draft.variables if v.inferred and v not in draft.covered]
    draft.covered += [v for v in draft.variables if not v.inferred]
    leaves = []
    while missing:
        if body.scope.full and not _coverable(body.scope, missing[0], but):
            missing.pop(0)  # gets a where in `finish`
            continue
        leaves.append(body.scope.covering(missing, draft.covered, but))
    return leaves


def _coverable(scope: Scope, v: Variable, but: str) -> bool:
    return any(v.high in scope.tensors[n].shape for n in scope.readable(but))


def finish(body: Body, draft: Draft, rhs: Expr) -> None:
    """Adds the statement, with a `where` for each variable that no read fixes."""
    scope = body.scope
    used = {e[1] for e in walk(rhs) if e[0] == "var"}
    where = []
    variables = [v for v in draft.variables if v in draft.outer or v.name in used or not v.inferred]
    for v in variables:
        if not v.inferred or v not in draft.covered or scope.chance(0.05):
            where.append((v.name, scope.literal_of(v.low), scope.literal_of(v.high)))
    op = draft.op
    if not any(v in draft.inner for v in variables) and op not in ("=", "+=", "*=", "max=", "min="):
        op = scope.rng.choice(("=", op))
    statement = Statement(draft.target, tuple(v.name for v in draft.outer), op, rhs, tuple(where))
    add(body, statement, variables)


def add(body: Body, statement: Statement, variables: list[Variable]) -> None:
    scope = body.scope
    order = [*statement.indices, *(v.name for v in variables if v.name not in statement.indices)]
    by_name = {v.name: v for v in variables}
    spans: Mapping[str, range] = {n: range(by_name[n].low, by_name[n].high) for n in order}
    name = statement.target
    self_read = any(e[1] == name for e in reads(statement.rhs))
    if self_read:
        try:
            if breaks_p1(statement, spans, {**scope.sizes, **scope.scalars}):
                body.refused = "P1"
        except Unknown:
            body.refused = None
        if name not in scope.tensors:
            body.needs_outputs.add(name)
    kind = "f"
    if name not in scope.tensors:
        shape = tuple(by_name[i].high for i in statement.indices)
        scope.tensors[name] = Tensor(shape, kind)
    body.statements.append(statement)
    body.ranges.append(tuple((n, s.start, s.stop) for n, s in spans.items()))
    body.instances += math.prod(map(len, spans.values()))


def target_of(body: Body, old: float, rank: int | None = None) -> Draft:
    candidates = [
        n for n in body.defined if rank is None or len(body.scope.tensors[n].shape) == rank
    ]
    if candidates and body.scope.chance(old):
        return draft_old(body, body.scope.rng.choice(candidates))
    return draft_new(body, rank)
