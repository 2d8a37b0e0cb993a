"""Reductions of which one loop stays serial, as the loop says where terms are: rows of as many
terms as data say (X6), and prefixes, of which each has the terms of the one before (X3).

Everything else runs across threads and lanes. The pass "loop splitting" ends the loops over terms
where the rows end, and the pass "prefix sums" makes recurrences of prefixes.
"""

from __future__ import annotations

from tc.options import MappingOptions
from tc.plan import PARALLEL, REGISTER, UNROLL, VECTOR, Promote
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.cpu.costs import device_of
from tc.polyhedral.cpu.one_hot_sums import contiguous_member, lanes_along
from tc.polyhedral.schedule import Member
from tc.semantics import program as p
from tc.semantics.bounded_sums import (
    bounding_variables,
    data_bounded,
    prefixes,
    spread_by_data,
)
from tc.semantics.size_values import KnownSizes

MOST_VECTORS = 4
"""Vectors of sums that are held in registers at once."""


def serial_members(nest: ParallelNest) -> tuple[Member, ...] | None:
    """The loops of a nest that must stay serial around its reduction: those of prefixes, none of
    rows that data bound; None where the nest is neither."""
    statement = _statement(nest)
    sums = [item for item in nest.items if item.reduction]
    if statement is None or len(sums) != 1 or nest.main is not sums[0]:
        return None
    if data_bounded(statement) or spread_by_data(statement):
        return ()
    shaped = nest.info.scop.shaped
    found = prefixes(statement, KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars))
    members = tuple(m for m in nest.members if nest.variable(m) in found)
    return members[:1] or None


def _statement(nest: ParallelNest) -> p.Statement | None:
    main = nest.main.statement
    if main.kind != "update" or not main.reduction:
        return None
    return nest.info.scop.shaped.program.statements[main.position]


def plan_serial_sums(
    draft: Draft, options: MappingOptions, nest: ParallelNest, serial: tuple[Member, ...]
) -> str:
    """Writes the actions of a nest whose loops `serial` stand around its reduction, one iteration
    after the other. Returns what was done, in words."""
    names = nest.names
    inner = _spread(nest)
    if inner:
        return _plan_spread(draft, options, nest, inner)
    outer = [m for m in nest.members if m not in serial]
    points: list[Member] = []
    statement = _statement(nest)
    unlike = frozenset() if statement is None else bounding_variables(statement)
    vector = contiguous_member(nest, [m for m in outer if nest.variable(m) not in unlike])
    note = f"{', '.join(names)}: terms are taken one after the other"
    lanes = 1
    if vector is not None and (lanes := lanes_along(draft, options, nest, vector)) > 1:
        count = min(MOST_VECTORS, -(-nest.extent(vector) // lanes))
        outer.remove(vector)
        if count > 1:
            around, blocks, lane = draft.tile(vector, (count * lanes, lanes), names)
            points += [*draft.bind([blocks], UNROLL, names), *draft.bind([lane], VECTOR, names)]
        else:
            around, lane = draft.tile(vector, (lanes,), names)
            points += draft.bind([lane], VECTOR, names)
        outer.append(around)
        note += f"; vectors of {lanes} along {vector.name}"
    draft.order((*outer, *serial, *points), names)
    if points:
        draft.sink(points, names)
    inside = (*outer, *serial)[-1] if (*outer, *serial) else None
    held = Promote(nest.main.statement.write.tensor, REGISTER, lanes=lanes)
    draft.promote(held, inside, names)
    if options.parallel and outer and device_of(draft).threads > 1:
        draft.bind(outer, PARALLEL, names)
    return f"{note}."


def _spread(nest: ParallelNest) -> tuple[Member, ...]:
    """The loops over elements between bounds that data say for each term."""
    statement = _statement(nest)
    found = frozenset() if statement is None else spread_by_data(statement)
    return tuple(m for m in nest.members if nest.variable(m) in found)


def _plan_spread(
    draft: Draft, options: MappingOptions, nest: ParallelNest, inner: tuple[Member, ...]
) -> str:
    """Writes the actions of a nest whose terms are gone through once, each with its elements."""
    names = nest.names
    outer = [m for m in nest.members if m not in inner]
    draft.order((*outer, *inner), names)
    draft.sink(inner, names)
    if options.parallel and outer and device_of(draft).threads > 1:
        draft.bind(outer[:1], PARALLEL, names)
    loops = ", ".join(m.name for m in inner)
    return f"{', '.join(names)}: each row of terms goes to its own elements, along {loops}."
