"""Sums whose terms say where they belong: `T(x, d) +=! I(n) == x ? A(n, d) : 0`.

Read literally, each element looks at all terms. Instead the terms are gone through once, and each
is added where it belongs (the pass "loop splitting" makes of the loop over x the one iteration that
is selected), in the order of the text. Nothing is scattered between threads: where a batch, or a
part of a long sum, has places of its own, each thread has some of these; of wide rows, each thread
owns a part, goes through all terms, and adds those that are its own. Else one thread adds all.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tc.options import MappingOptions
from tc.plan import PARALLEL, VECTOR
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.cpu.analysis import NestItem, ParallelNest
from tc.polyhedral.cpu.costs import device_of
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import ScopStatement
from tc.semantics.bounded_sums import rows_of_data
from tc.semantics.selected_sums import MIN_SELECTED_EXTENT, selected_variables

PER_THREAD = 4
"""Batches that each thread has at least: of fewer, one thread may have twice as many as another."""

OWNED = 16
"""Elements of a term from which on each thread goes through all terms for those of its own: whose a
term is cannot be foreseen, and of single elements, 1,000,000 into 20,000 take 4.7 ms so with two
threads, and 0.7 with one (an Intel Xeon)."""


def one_hot_members(nest: ParallelNest) -> tuple[Member, ...]:
    """The loops of a nest of which each term of the nest's sums selects one iteration."""
    sums = [item for item in nest.items if item.reduction]
    return tuple(
        member
        for member in nest.members
        if sums
        and nest.extent(member) >= MIN_SELECTED_EXTENT
        and all(_selects(i, member, nest) for i in sums)
    )


def _selects(item: NestItem, member: Member, nest: ParallelNest) -> bool:
    statement = item.statement
    variable = member.values[statement.name].variable
    if nest.info.tested(statement):  # tests stand in the way
        return False
    return variable in _selected(nest, statement)


def _selected(nest: ParallelNest, statement: ScopStatement) -> Mapping[str, frozenset[str]]:
    """The variables of which each term of a statement selects one value."""
    if statement.kind != "update":
        return {}
    return selected_variables(nest.info.scop.shaped.program.statements[statement.position])


def _batches(nest: ParallelNest, selected: tuple[Member, ...]) -> list[Member]:
    """The loops on which the places of terms depend, or the ends of rows of terms: each element of
    a batch has its own places, or terms."""
    batches: list[Member] = []
    statements = nest.info.scop.shaped.program.statements
    for member in (m for m in nest.members if m not in selected):
        for item in (item for item in nest.items if item.reduction):
            variable = member.values[item.statement.name].variable
            places = _selected(nest, item.statement).values()
            rows = rows_of_data(statements[item.statement.position]).values()
            if member not in batches and any(variable in own for own in (*places, *rows)):
                batches.append(member)
    return batches


def plan_one_hot_sums(
    draft: Draft,
    options: MappingOptions,
    nest: ParallelNest,
    selected: tuple[Member, ...],
) -> str:
    """Writes the actions of a nest of one-hot sums: each thread has some batches, or owns a part of
    the elements; inside run the terms, then the elements of one term, in vectors. Returns what was
    done, in words."""
    names, owner = nest.names, selected[0]
    threads = device_of(draft).threads if options.parallel else 1
    batches, form = _batches(nest, selected), _form(draft, nest)
    if form == "serial":
        threads = 1
    elif form == "owners":
        batches = []
    outer: list[Member] = []
    points = [*selected, *(m for m in nest.members if m not in (*selected, *batches))]
    size = -(-nest.extent(owner) // threads)
    if threads > 1 and batches and nest.extent(batches[0]) >= PER_THREAD * threads:
        outer.append(batches.pop(0))
    elif (
        threads > 1
        and size > 1
        and (form == "owners" or _width(nest, points[len(selected) :]) >= OWNED)
    ):
        part, points[0] = draft.tile(owner, (size,), names)
        outer.append(part)
    note = f"{', '.join(names)}: each term is added where it belongs, along {owner.name}"
    vector = contiguous_member(nest, points[len(selected) :])
    if vector is not None:
        lanes = lanes_along(draft, options, nest, vector)
        if lanes > 1:
            around, lane = draft.tile(vector, (lanes,), names)
            points.remove(vector)
            points += [around, *draft.bind([lane], VECTOR, names)]
            note += f"; vectors of {lanes} along {vector.name}"
    draft.order((*outer, *batches, *points), names)
    draft.sink(points, names)
    draft.bind(outer, PARALLEL, names)
    return f"{note}."


def _form(draft: Draft, nest: ParallelNest) -> str | None:
    """The form that a plan asks for."""
    names = (item.statement.name for item in nest.items if item.reduction)
    return next((found for name in names if (found := draft.target.scatters.get(name))), None)


def _width(nest: ParallelNest, members: list[Member]) -> int:
    """How many elements a term has along some loops."""
    return prod(map(nest.extent, members))


def contiguous_member(nest: ParallelNest, members: list[Member]) -> Member | None:
    """The loop along which all elements that are read and written lie side by side."""
    statement = nest.main.statement
    for member in members:
        steps = {nest.stride(a, member) for a in statement.reads if a.site >= 0}
        if (
            nest.stride(statement.write, member) == 1
            and steps <= {0, 1}
            and not nest.is_tested(member)
        ):
            return member
    return None


def lanes_along(draft: Draft, options: MappingOptions, nest: ParallelNest, vector: Member) -> int:
    lanes = device_of(draft, options).lanes(nest.info.bits(nest.main.statement))
    while lanes > 1 and lanes // 2 >= nest.extent(vector):
        lanes //= 2
    return lanes
