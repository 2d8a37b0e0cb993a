"""Choosing a plan for processors: what each part of a schedule becomes, and why.

Each part of the outermost sequence is planned on its own. It is a *nest* (see `analysis`), for
which `nest_plan` has the actions, or a cluster of nests: loops that they share stay outside,
temporaries become small buffers, and each nest is planned within.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tc.options import MappingOptions
from tc.plan import PARALLEL, SCRATCH, Promote
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import held_target
from tc.polyhedral.cpu.analysis import NestItem, ParallelNest, groups, nest_of
from tc.polyhedral.cpu.buffers import MIN_PARTS, NestBuffers
from tc.polyhedral.cpu.costs import TileCosts, device_of
from tc.polyhedral.cpu.nest_plan import NestPlanner
from tc.polyhedral.cpu.one_hot_sums import one_hot_members, plan_one_hot_sums
from tc.polyhedral.cpu.register_tiles import RegisterTile, choose_tile
from tc.polyhedral.cpu.serial_sums import plan_serial_sums, serial_members
from tc.polyhedral.footprint import extent
from tc.polyhedral.promotion import touches
from tc.polyhedral.schedule import (
    Band,
    Member,
    Node,
    in_order,
    leading_coincident,
    leaves,
)
from tc.polyhedral.target import PartPlan, Target

NEST_ROWS, NEST_WIDTH = 16, 64
"""Iterations of the last shared loop that are given to the nests of a cluster: rows of operands
that they reuse, or, where other loops are shared too, the width of what they compute."""

MOST_ROWS = 8
"""Rows of a matrix that nests go over one after the other: the sums of its columns are loaded and
stored once for so many."""

UNEVEN = 2.5
"""So many times as many rows at once have to be, where fewer are left for the last time: a loop of
as many rows as there are is not unrolled. Of 156 rows of 156 floats, 4 at once take 0.9 ms where 8
take 2.3 (Zen 4)."""


def choose(
    tree: Node, info: AccessInfo, target: Target, options: MappingOptions, costs: TileCosts
) -> Iterator[PartPlan]:
    """Plans for the parts of a tree, neighbours that start, update and finish one tensor being
    one part."""
    for node in groups(tree, info):
        draft = Draft(node, info, target)
        _Chooser(draft, options, costs).cluster(node)
        yield draft.chosen()


@dataclass
class _Chooser:
    """Chooses the actions of one cluster. `around` are the loops around the nest that is
    planned."""

    draft: Draft
    options: MappingOptions
    costs: TileCosts
    around: tuple[Member, ...] = ()

    @property
    def info(self) -> AccessInfo:
        return self.draft.info

    def cluster(self, node: Node) -> None:
        members, child = leading_coincident(node, of_one_band=True)
        nest = nest_of(members, child, self.info)
        if nest is None:
            self._shared(members, child)
        else:
            self._nest(nest, outermost=True)

    def _nest(self, nest: ParallelNest, *, outermost: bool = False) -> None:
        scop, inside = self.info.scop, self.draft.statements
        written = frozenset(scop.statement(n).write.tensor for n in inside)
        others = set(inside) - {item.statement.name for item in nest.items}
        elsewhere = frozenset(a.tensor for n in others for a in scop.statement(n).reads)
        within = {t for t in elsewhere if self.around and self._moves_with_all(t, nest)}
        nest = replace(nest, items=tuple(map(self._reordered, nest.items)))
        selected = one_hot_members(nest) if outermost else ()  # else loops are of several bands
        if self._places_terms(nest, selected):
            self.draft.notes.append(plan_one_hot_sums(self.draft, self.options, nest, selected))
            return
        serial = serial_members(nest) if outermost else None
        if serial is not None and self.draft.decide_whether("terms in their order", nest.names):
            self.draft.notes.append(plan_serial_sums(self.draft, self.options, nest, serial))
            return

        def buffer_slots(tile: RegisterTile) -> tuple[float, float]:
            if not outermost or not nest.main.reduction:
                return 0.0, 0.0
            args = (self.draft, self.costs, nest, tile, written, self.around, ())
            buffers = NestBuffers(*args)
            return buffers.row_packing_slots, buffers.line_slots

        chosen = choose_tile(
            nest,
            self.draft,
            self.options,
            self.costs,
            written,
            elsewhere - within,
            buffer_slots,
            shared=outermost,
        )
        planner = NestPlanner(
            self.draft,
            self.options,
            self.costs,
            nest,
            chosen,
            written,
            frozenset(within),
            self.around,
            outermost,
        )
        planner.plan()
        self.draft.notes.append(planner.note())

    def _moves_with_all(self, tensor: str, nest: ParallelNest) -> bool:
        """Whether each iteration of the loops around a nest reads other elements of a tensor, so
        that nothing is packed twice inside of these loops."""
        reads = nest.reads(tensor)
        return all(nest.uses(access, m) for access in reads for m in self.around)

    def _places_terms(self, nest: ParallelNest, selected: tuple[Member, ...]) -> bool:
        """Whether each term of one-hot sums is added to the one element that it selects."""
        if not selected:
            return False
        return self.draft.decide_whether("terms at their places", nest.names)

    def _reordered(self, item: NestItem) -> NestItem:
        """An item with the loops of its reduction in the order that was decided."""
        own = (item.statement.name,)
        order = self.draft.decide_order("order of the sum", item.reduction, own)
        if order == item.reduction:
            return item
        self.draft.order(order, own)
        return replace(item, reduction=order)

    def _shared(self, members: tuple[Member, ...], child: Node) -> None:
        """Plans nests that share loops. The last of these loops is tiled, and its points are given
        to the nests, where the nests use operands again along the loop."""
        points: tuple[Member, ...] = ()
        statements = tuple(leaves(child))
        loops = ", ".join(m.name for m in members) or "no loops"
        note = (
            f"{', '.join(statements)} share {loops}; what one gives to the next stays in the cache."
        )
        size = self._shared_points(members, child, statements)
        if members and size:
            outer, point = self.draft.tile(members[-1], (size,), statements)
            note += f" {size} iterations of {point.name} at a time, to use operands again."
            members, points = (*members[:-1], outer), (point,)
        self.draft.notes.append(note)
        if self.options.parallel:
            self.draft.bind(members, PARALLEL, statements)
        self._parts(members, child, points)

    def _shared_points(
        self, members: tuple[Member, ...], child: Node, statements: tuple[str, ...]
    ) -> int:
        """Iterations of the last shared loop that are given to the nests; 0 for none."""
        if not members or _walks_rows(child, self.info):
            return 0
        reuses, default = self._reuses(members[-1], child), 0
        if reuses or self._is_alone_contiguous(members[-1], child):
            default = self._points(members, child, reuses=reuses)
        extent = self.draft.trips(members[-1], statements)
        sizes = (2**n for n in range(8) if 2**n < extent)
        return self.draft.decide("shared points", statements, default, lambda: (0, *sizes))

    def _parts(self, members: tuple[Member, ...], child: Node, points: tuple[Member, ...]) -> None:
        """Plans the nests inside of shared loops, and the temporaries that live there."""
        statements = tuple(leaves(child))
        if not members and isinstance(child, Band):  # iterations that depend on each other
            members, child = child.members, child.child
            if rows := self._rows_at_once(members, child):
                outer, point = self.draft.tile(members[-1], (rows,), statements)
                members, points = (*members[:-1], outer), (*points, point)
        if points:
            self.draft.order((*members, *points), statements)
        parts = groups(child, self.info)
        before, self.around = self.around, (*self.around, *members)
        for part in parts[:-1] if points else ():  # the last one is what is left
            self.draft.separate(points, statements, tuple(leaves(part)))
        for part in parts:
            self._part(part, points)
        if members:
            self._hold_temporaries(members[-1], statements)
        self.around = before

    def _part(self, node: Node, points: tuple[Member, ...]) -> None:
        members, child = leading_coincident(node, of_one_band=True)
        names = list(leaves(node))
        own = tuple(m for m in points if all(m.values[n].variable for n in names))
        mixed = tuple(
            m for m in points if m not in own and any(m.values[n].variable for n in names)
        )
        if mixed:  # statements that run along these, and others that run once
            self._parts(mixed, node, own)
            return
        statements = [self.info.scop.statement(name) for name in names]
        summed = [
            m for m in own if any(m.values[s.name].variable in s.reduction for s in statements)
        ]
        if summed:  # sums go on in each step of a loop outside
            self.draft.order((*members, *summed), tuple(names))
            own = tuple(m for m in own if m not in summed)
            child = Band(tuple(summed), True, child)
        nest = nest_of((*own, *members), child, self.info)
        if nest is not None:
            self._nest(nest)
        else:
            self._parts(members, child, own)

    def _hold_temporaries(self, inside: Member, statements: tuple[str, ...]) -> None:
        """Puts temporaries that no statement outside of a loop touches into small buffers."""
        program, below = self.info.scop.shaped.program, self.draft.footprint_in(inside, statements)
        for tensor in reversed(program.temporaries):
            users = below.users(tensor)
            everywhere = self.info.scop.users(tensor)
            if not users or len(users) < len(everywhere):
                continue
            move = held_target(f"{tensor} in a buffer", Promote(tensor, SCRATCH), below)
            element = program.tensors[tensor].dtype.computed.bytes
            if (
                move is not None
                and move.after == 0  # nothing is copied
                and prod(move.counts) * element <= device_of(self.draft).l2 // 2
                and self.draft.wants(move, statements)
            ):
                self.draft.promote(move.action, inside, statements)

    def _rows_at_once(self, members: tuple[Member, ...], child: Node) -> int:
        """How many iterations of the last of some loops, which nests share and some of them sum
        over, are given to each nest: then so many terms are added to a sum that lies in memory at
        a time. 0 for none. What a nest touches in these iterations is in the cache for the next.
        Where statements that touch one tensor do not stand in the order of the text, as isl may
        have them, nests depend on earlier iterations of later ones."""
        statements, parts = tuple(leaves(child)), groups(child, self.info)
        if not self._stand_in_order(statements) or len(parts) == 1 < len(statements):
            return 0
        around, most = (*self.around, *members), 1
        for statement in map(self.info.scop.statement, statements):
            outside = {m.values[statement.name].variable for m in around}
            inside = (e - b for v, (b, e) in statement.ranges.items() if v not in outside)
            most = max(most, prod(inside) * self.info.bits(statement) // 8)
        trips, room = self.draft.trips(members[-1], statements), device_of(self.draft).l2 // 2
        steps = self.options.reduction_tile or 1
        sizes = [  # tiles of nests divide these, and so do steps of sums
            2**n for n in range(1, 6) if 2**n < trips and 2**n % steps == 0
        ]
        fitting = (n for n in sizes if n <= MOST_ROWS and n * most <= room)
        default = max(fitting, key=lambda n: n / (1 if trips % n == 0 else UNEVEN), default=0)
        return self.draft.decide("rows at once", statements, default, lambda: (0, *sizes))

    def _stand_in_order(self, names: Sequence[str]) -> bool:
        """Whether of two statements of which one touches what the other writes, the one that is
        first in the text is first here."""
        in_text = [s for s in self.info.scop.statements if s.name in names]
        return not any(
            names.index(later.name) < names.index(one.name)
            and (touches(one, later.write.tensor) or touches(later, one.write.tensor))
            for place, one in enumerate(in_text)
            for later in in_text[place + 1 :]
        )

    def _reuses(self, member: Member, child: Node) -> bool:
        """Whether a reduction below reads a tensor along which the member does not move."""
        found, uses = False, self.info.uses
        for name in leaves(child):
            statement = self.info.scop.statement(name)
            variable = member.values[name].variable
            if self.info.tested(statement):
                return False
            parallel = [v for v in statement.outer if v != variable]
            if statement.accumulates and parallel and statement.reduction:
                free = (access for access in statement.reads if not uses(access, variable))
                found |= any(uses(access, v) for access in free for v in statement.reduction)
        return found

    def _is_alone_contiguous(self, member: Member, child: Node) -> bool:
        """Whether elements that statements below touch lie side by side along the member, and along
        no other variable: without points of the member, vectors would be strided."""
        info, found = self.info, False
        for name in leaves(child):
            statement = info.scop.statement(name)
            variable = member.values[name].variable
            others = [v for v in statement.ranges if v != variable]
            if variable in info.tested(statement):
                return False
            for access in statement.accesses:
                if info.stride(access, variable) == 1:
                    found |= bool(others)
                elif any(info.stride(access, v) in (1, None) for v in others):
                    return False
        return found

    def _points(self, members: tuple[Member, ...], child: Node, *, reuses: bool) -> int:
        """How many iterations of the last shared loop are given to the nests, which use operands
        again there, or else need their vectors along the loop: then at least a vector, and no more
        than leave room for the temporaries in the cache."""
        device, program = device_of(self.draft), self.info.scop.shaped.program
        statements = [self.info.scop.statement(n) for n in leaves(child)]
        *others, size = (max(extent(m, s) for s in statements) for m in members)
        around, lanes = prod(others), device.lanes(max(map(self.info.bits, statements)))
        if reuses and others and around >= MIN_PARTS:
            return evenly(size, NEST_WIDTH, lanes)
        parts = [[self.info.scop.statement(n) for n in leaves(p)] for p in groups(child, self.info)]
        kept = [  # what one nest alone touches is in registers
            t
            for t in program.temporaries
            if sum(any(touches(s, t) for s in part) for part in parts) > 1
        ]
        shape = self.info.scop.shape
        sizes = (prod(shape(t)) * program.tensors[t].dtype.computed.bytes for t in kept)
        held = 0 if reuses else sum(sizes) // (around * size)
        points, least = (NEST_ROWS, 4) if reuses else (NEST_WIDTH, lanes)
        while points > least and (
            points * held > device.l2 // 2 or around * size // points < 2 * device.threads
        ):
            points //= 2
        return min(points, size)


def _walks_rows(child: Node, info: AccessInfo) -> bool:
    """Whether statements have loops of their own in one whose iterations depend on each other."""
    return any(
        isinstance(part, Band)
        and not all(m.coincident for m in part.members)
        and nest_of((), part, info) is None
        for part in in_order(child)
    )


def evenly(size: int, about: int, lanes: int) -> int:
    """The size of tiles of about so many iterations: whole vectors, and the last tile is about as
    large as the others. Of a last tile that is much smaller, most of the work is for nothing.

    >>> evenly(128, 64, 16), evenly(65, 64, 16), evenly(130, 64, 16), evenly(10, 64, 16)
    (64, 80, 80, 10)
    """
    parts = round(size / about)
    return size if size <= about else -(-size // (parts * lanes)) * lanes
