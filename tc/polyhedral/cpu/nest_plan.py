"""The plan of one nest: the point loops of its register tile sink below the reductions, so that
accumulators stay in registers (Vasilache et al. 2018, arXiv:1802.04730, section 5.3); around go
loops over tiles, packed operands, padded inputs and staged outputs; threads share the outermost
parallel loops.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from math import prod

from tc.errors import InternalError
from tc.options import MappingOptions
from tc.plan import PARALLEL, SERIAL, UNROLL, VECTOR, Promote, Split
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import Move
from tc.polyhedral.cpu.analysis import NestItem, ParallelNest, iterations, whole_of
from tc.polyhedral.cpu.buffers import LEAST_STEPS, MIN_PARTS, Digits, NestBuffers
from tc.polyhedral.cpu.costs import SHORT, TileCosts, device_of
from tc.polyhedral.cpu.nest_promotions import LoopsOfTile, NestPromoter, ReductionSteps
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.cpu.transposes import transpose_blocking
from tc.polyhedral.footprint import extent
from tc.polyhedral.schedule import Member, count

MOST_STEPS = 64
"""Steps of a reduction beyond which nobody would unroll it."""

UNROLLED = 4
"""Steps that code takes at a time where a reduction is a loop: long parts leave no rest."""


@dataclass
class NestPlanner:
    """Writes the actions of one nest into a draft.

    The cluster of the nest writes the tensors `written`. Other nests of the cluster read the
    tensors `within`, too, so that these are only packed inside of the loops around the nest,
    `around`.
    """

    draft: Draft
    options: MappingOptions
    costs: TileCosts
    nest: ParallelNest
    chosen: RegisterTile | None
    written: frozenset[str]
    within: frozenset[str]
    around: tuple[Member, ...]
    outermost: bool
    points: list[Member] = field(default_factory=list)
    outer: dict[str, Member] = field(default_factory=dict)
    inside: list[Member] = field(default_factory=list)
    digits: Digits = ()
    steps: ReductionSteps | None = None
    _innermost: Member | None = None
    _reduction: Member | None = None

    def plan(self) -> None:
        """Writes all actions of the nest."""
        self._tile()
        self._put_inside()
        self.steps = self._reduction_steps()
        loops = self._decided(self._loops())
        self._innermost = loops.last(self.around, len(loops.all))
        self.draft.order((*loops.all, *self.points), self.nest.names)
        if self.points:
            self.draft.sink(self.points, self.nest.names)
        for item in self.nest.items:
            self._reduce(item)
        if self.steps is not None:
            self._step(loops.rows)
        buffers = None if self.chosen is None else self.buffers
        NestPromoter(
            self.draft,
            self.nest,
            buffers,
            self.around,
            loops,
            self.steps,
            self._reduction,
            self._staged,
        ).promote()
        for move in self._rows_packed:
            self.draft.promote(move.action, None, ())
        self._bind(loops.shared)

    @cached_property
    def buffers(self) -> NestBuffers:
        """The buffers of the nest, which only a nest with a register tile has."""
        if self.chosen is None:
            raise InternalError("a nest without a register tile has no buffers")
        return NestBuffers(
            self.draft,
            self.costs,
            self.nest,
            self.chosen,
            self.written,
            self.around,
            tuple(self.points),
        )

    @property
    def _rows_packed(self) -> list[Move]:
        may_pack = self.chosen is not None and self.options.pack is not False
        return self.buffers.rows_packed if may_pack else []

    def _name(self, member: Member) -> str:
        return self.draft.name(member, self.nest.names)

    # --- tiles ----------------------------------------------------------------------------------

    def _tile(self) -> None:
        """Makes the loops of the register tile: its points, and the loops around tiles, `outer`."""
        chosen = self.chosen
        if chosen is None:
            return
        if chosen.row is not None and chosen.rows > 1:
            usual = chosen.reduced or not chosen.blocked
            unrolled = self.draft.decide_whether("rows unrolled", self.nest.names, default=usual)
            self.outer[chosen.row.name] = self._split(
                chosen.row, (chosen.rows,), (UNROLL if unrolled else SERIAL,), self.nest.names
            )
        if chosen.column is not None:
            self.outer[chosen.column.name] = self._split(
                chosen.column, (chosen.columns,), (UNROLL,), self.nest.names
            )
        if not chosen.reduced:
            self.outer[chosen.vector.name] = self._vector(chosen.vector, chosen, self.nest.names)

    def _vector(self, member: Member, chosen: RegisterTile, names: tuple[str, ...]) -> Member:
        """Tiles a member by the vectors of a tile, and these by their lanes. Returns the loop over
        tiles."""
        if chosen.vectors == 1:
            return self._split(member, (chosen.lanes,), (VECTOR,), names)
        sizes = (chosen.lanes * chosen.vectors, chosen.lanes)
        return self._split(member, sizes, (UNROLL, VECTOR), names)

    def _split(
        self, member: Member, sizes: tuple[int, ...], roles: tuple[str, ...], names: tuple[str, ...]
    ) -> Member:
        """Tiles a loop. The loops inside of tiles get roles, and become points. Returns the loop
        over tiles."""
        outer, *digits = self.draft.tile(member, sizes, names)
        for digit, role in zip(digits, roles, strict=True):
            bound = (digit,) if role == SERIAL else self.draft.bind([digit], role, names)
            self.points += bound
        return outer

    def _put_inside(self) -> None:
        """Makes the loops that run inside of packs, `inside`, digits of loops that packs use."""
        if not (self._accumulates and self.outermost and self.buffers.packs):
            return
        u_outer, _, others = self._row_and_others()
        buffers, names = self.buffers, self.nest.names
        used = [m for m in others if buffers.moves_packs(m)]
        if u_outer is not None and buffers.moves_packs(u_outer):
            return
        in_steps = self._runs_in_steps and self.options.reduction_tile is None
        if not in_steps and not buffers.packs_locally(used):
            return
        line = self._line_loop if self._staged else None
        given = () if line not in used else ((line.name, self.nest.extent(line)),)
        digits = dict(buffers.digits(used, given, in_steps=in_steps))
        for member in used:
            whole, own = self.nest.extent(member), digits.get(member.name, 1)
            sizes = [*(2**n for n in range(10) if 2**n < whole), whole]
            what, size = f"{self._name(member)} in a pack", own
            if member is not line:
                size = self.draft.decide(what, names, own, partial(iter, sizes))
            if size >= whole:
                self.inside.append(member)
            elif size > 1:
                self.outer[member.name], point = self.draft.tile(member, (size,), names)
                self.inside.append(point)
            self.digits += ((member.name, size),) if size > 1 else ()

    # --- reductions -----------------------------------------------------------------------------

    def _reduce(self, item: NestItem) -> None:
        """Makes the loops of an item's reduction: vectors along a reduction, straight-line code."""
        name, own = item.statement.name, (item.statement.name,)
        members = list(item.reduction)
        if self.steps is not None and item is self.nest.main:
            members = [self.steps.inner if m == self.steps.whole else m for m in members]
        vector = self._reduced_vector(item)
        if vector is not None and self.chosen is not None:
            points = self.points
            self.points = []
            outer = self._vector(vector, self.chosen, own)
            digits, self.points = self.points, points
            members = [*(m for m in members if m != vector), outer]
            self.draft.order((*members, *digits), own)
            self.draft.sink(digits, own)
            # the accumulators live as long as all of the reduction runs
            inside, _ = self.draft.scope(self._innermost, own)
            self.draft.do(Split(name, self.draft.names(digits, own), inside))
        if item is self.nest.main and members:
            self._reduction = members[-1]
        if members and self._is_short(members, item):
            self.draft.bind(members, UNROLL, own)

    def _reduced_vector(self, item: NestItem) -> Member | None:
        """The member of an item's reduction along which its vectors are, where vectors are along
        reductions: along that member most reads are contiguous, and none is irregular."""
        if self.chosen is None or not self.chosen.reduced or not item.reduction:
            return None
        if item is self.nest.main:
            return self.chosen.vector
        best, most, info = None, 0, self.nest.info
        for member in item.reduction:
            variable = member.values[item.statement.name].variable
            steps = [info.stride(a, variable) for a in item.statement.reads if a.site >= 0]
            is_tested = variable in info.tested(item.statement)
            if not is_tested and set(steps) <= {0, 1} and steps.count(1) > most:
                best, most = member, steps.count(1)
        return best

    def _is_short(self, members: Several[Member], item: NestItem) -> bool:
        """Whether a reduction is unrolled: by default a short one over a small tile."""
        if self.chosen is None:
            return False
        steps = [count(m, extent(whole_of(m), item.statement)) for m in members]
        if prod(steps) > MOST_STEPS:
            return False
        own = (item.statement.name,)
        return self.draft.decide_whether("reduction unrolled", own, default=self._is_small(steps))

    def _is_small(self, steps: Several[int]) -> bool:
        """Whether the tile of the nest, for all steps of a reduction, is few statements."""
        assert self.chosen is not None
        accumulators = prod(m.span // m.step for m in self.points if m.span and m.role == UNROLL)
        if self.chosen.reduced:
            accumulators *= self.chosen.vectors
        return prod(steps) <= SHORT and accumulators * prod(steps) <= 32

    @property
    def _accumulates(self) -> bool:
        """Whether the vectors of a tile are accumulators of a reduction."""
        return bool(self.chosen and not self.chosen.reduced and self.nest.main.reduction)

    @property
    def _runs_in_steps(self) -> bool:
        """Whether a reduction may run in steps, between which the target holds what it sums."""
        if self.chosen is None or self.chosen.blocked or not self._accumulates:
            return False
        target = self.nest.main.statement.write.tensor
        dtype = self.nest.info.scop.shaped.program.tensors[target].dtype
        return not dtype.is_storage and not self._staged

    def _reduction_steps(self) -> ReductionSteps | None:
        """Tiles a reduction, so that accumulators are loaded and stored after so many steps: where
        options say so, and where a panel for the whole reduction would not stay in the cache."""
        if not self._runs_in_steps:
            return None
        main, extent = self.nest.main, self.nest.extent
        device, panel = device_of(self.draft), self.buffers.panel_bytes(self.digits)
        room, line = device.l2 // 2, device.line // self.nest.element
        reads = [a for a in main.statement.reads if a.site >= 0]

        def in_order(m: Member) -> tuple[bool, int]:  # parts of lines would be fetched again
            is_whole = extent(m) * (room // 2) // panel >= line if panel else True
            is_whole |= all(self.nest.stride(a, m) != 1 for a in reads)
            return extent(m) > 1 and is_whole, extent(m)

        member = max(main.reduction, key=in_order)
        size, wanted = self.nest.extent(member), self.options.reduction_tile
        if wanted is None:
            whole = size
            if self.outermost and panel > room:
                others = prod(self.nest.extent(m) for m in main.reduction if m is not member)
                most = max(-(-LEAST_STEPS // others), size * (room // 2) // panel)
                whole = -(-size // -(-size // most))  # in even parts, the last of which is full
                whole = whole if whole < 2 * UNROLLED else -(-whole // UNROLLED) * UNROLLED
            sizes = (32 << n for n in range(8) if 32 << n < size)
            wanted = self.draft.decide(
                "reduction steps", self.nest.names, whole, lambda: (size, *sizes)
            )
        if wanted >= size:
            return None
        is_asked = self.options.reduction_tile is not None
        return self.draft.attempt(
            partial(self._in_steps, member, wanted),
            lambda steps: is_asked or self._holds_copies(steps),
        )

    def _in_steps(self, member: Member, size: int) -> ReductionSteps:
        """Tiles a reduction for `size` steps at a time."""
        outer, inner = self.draft.tile(member, (size,), (self.nest.main.statement.name,))
        around, rows = self._panel_loops()
        return ReductionSteps(member, outer, inner, size, around, rows)

    def _holds_copies(self, steps: ReductionSteps) -> bool:
        """Whether padded copies for the steps of a tiled reduction stay in the cache."""
        outer, inner = [*steps.around, steps.outer], [*steps.rows, steps.inner]
        copies = self.buffers.padded(outer, inner)
        return all(prod(sizes) <= self.buffers.room for _, sizes in copies)

    # --- the loops around -----------------------------------------------------------------------

    def _members(self) -> list[Member]:
        """The loops of the nest that are left around its tile."""
        return [self.outer.get(m.name, m) for m in self.nest.members if m not in self.inside]

    def _row_and_others(self) -> tuple[Member | None, Member, list[Member]]:
        """The loop over rows, the loop over vectors, and all others."""
        assert self.chosen is not None
        row = self.chosen.row
        u_outer = None if row is None else self.outer.get(row.name, row)
        v_outer = self.outer[self.chosen.vector.name]
        return u_outer, v_outer, [m for m in self._members() if m not in (v_outer, u_outer)]

    @cached_property
    def _staged(self) -> Promote | None:
        """How the target lies in a buffer, contiguous along the vectors."""
        if self.chosen is None or self.chosen.reduced or not self.nest.main.reduction:
            return None
        line, members = self._line_loop, (*self._members(), *self.inside)
        move = self.buffers.staged([m for m in members if m is not line], line)
        return move.action if move and self.draft.wants(move, self.nest.names) else None

    @property
    def _line_loop(self) -> Member | None:
        """The loop inside of a staged target: along it the lines lie to which the target goes."""
        along = None if self.chosen is None else self.chosen.along
        return along and self.outer.get(along.name, along)

    def _loops(self) -> LoopsOfTile:
        """The loops around the tile, outermost first, and between which of them buffers lie."""
        chosen, members = self.chosen, self._members()
        if chosen is None or chosen.reduced or not self.nest.main.reduction:
            if chosen is not None and chosen.blocked and not chosen.reduced:
                return self._strips(chosen)
            order = self._as_read(members)
            if chosen is not None and chosen.column is not None:
                order = self._smallest_inside(members)
            return LoopsOfTile(order, order, whole=chosen is not None and chosen.reduced)
        buffers = self.buffers
        u_outer, v_outer, others = self._row_and_others()
        used = [m for m in others if buffers.moves_packs(m)]
        inner = [] if u_outer is None else [u_outer]
        if self.steps is not None:
            around, rows = self.steps.around, self.steps.rows
            return LoopsOfTile([*around, *rows], around, rows=rows)
        if u_outer is not None and buffers.moves_packs(u_outer):
            local = False  # one panel serves all rows
        else:
            local = buffers.packs_locally((*self.around, *used), self.digits)
        if any(access.tensor in self.within for access in buffers.packs):
            local = True
        elif buffers.packs and not (u_outer is not None and buffers.moves_packs(u_outer)):
            what = "packed for each thread"
            local = self.draft.decide_whether(what, self.nest.names, default=local)
        first, last = ([*used, v_outer], inner) if local else ([], [v_outer, *inner])
        if u_outer is not None and not local and self._writes_most():
            last.reverse()
        if self._staged and self._line_loop is not u_outer:
            inner = [m for m in (self._line_loop,) if m is not None]
            last, first = [*last, *inner], [m for m in first if m not in inner]
        others = [*self.inside, *others] if local else [*others, *self.inside]
        others = [m for m in others if m not in (*first, *last)]
        if local and buffers.panel_bytes() <= device_of(self.draft).l1:
            places = [m.name for m in self.nest.members]  # the order in which the target lies
            others.sort(key=lambda m: places.index(m.name))
        others, window = self._window(first, others, last, shared=not local)
        order = [*first, *others, *window, *last]
        padded = len(first) + len(others)
        staged = len(order) - len(inner) if self._staged else None
        if local:
            return LoopsOfTile(order, first, packed=len(first), padded=padded, staged=staged)
        shared = others if buffers.pads else order[:staged]
        if staged is not None and not buffers.pads:
            shared, inner = self._in_parts(shared, inner)
            order, staged = [*shared, *inner], len(shared)
        return LoopsOfTile(order, shared, whole=True, padded=padded, staged=staged)

    def _writes_most(self) -> bool:
        """Whether a nest writes whole lines, more than the second cache holds, and all that its
        panels read fits there: lines are then written from end to end, one tile of rows after the
        other, rather than panel by panel."""
        nest, chosen, room = self.nest, self.chosen, device_of(self.draft).l2
        assert chosen is not None
        assert chosen.row is not None  # there is a loop over rows
        panels, row = nest.extent(chosen.vector), nest.extent(chosen.row)
        depth = prod(map(nest.extent, nest.main.reduction))
        return (
            not self.buffers.packs
            and not self.buffers.pads
            and nest.stride(nest.main.statement.write, chosen.vector) == 1
            and depth * panels * nest.element <= room // 2
            and row * panels * nest.element > room
        )

    def _panel_loops(self) -> tuple[list[Member], list[Member]]:
        """The loops around panels that a thread packs for itself, and those over the rows of a
        panel, where a reduction runs in steps."""
        _, v_outer, _ = self._row_and_others()
        others = [m for m in self._members() if m != v_outer]
        used = [m for m in others if self.buffers.moves_packs(m)]
        rows = [*self.inside, *(m for m in others if m not in used)]
        return self._in_parts([*used, v_outer], rows)

    def _in_parts(
        self, around: list[Member], rows: list[Member]
    ) -> tuple[list[Member], list[Member]]:
        """The loops around panels, and those over the rows of a panel: where there are too few
        panels for all threads, each thread takes a part of the rows."""
        if not (self.outermost and self.options.parallel):
            return around, rows
        panels, threads = iterations(around, self.nest), device_of(self.draft).threads
        parts = next(
            p for p in range(1, threads + 1)
            if panels * p >= MIN_PARTS or panels * p % threads == 0
        )  # fmt: skip
        shared = [m for m in rows if m.coincident and m not in self.inside]
        trips = [(m, self.draft.trips(m, self.nest.names)) for m in shared]
        found = [(m, count) for m, count in trips if count >= parts]
        if parts == 1 or not found:
            return around, rows
        member, count = min(found, key=lambda row: -(-row[1] // parts) * parts / row[1])
        part, point = self.draft.tile(member, (-(-count // parts),), self.nest.names)
        return [*around, part], [point if m is member else m for m in rows]

    def _decided(self, loops: LoopsOfTile) -> LoopsOfTile:
        """The loops around the tile in another order, or in tiles, where that was decided."""
        if not self.draft.target.decider.searches or self.steps is not None:
            return loops
        names, order, shared = self.nest.names, list(loops.all), list(loops.shared)
        if order == shared:
            order = shared = [*self.draft.decide_order("order", order, names)]
        points = []
        for place, member in enumerate(order):
            trips = self.draft.trips(member, names)
            is_whole = sum(other.name == member.name for other in order) == 1
            whole = trips if is_whole and member.span is None else 0
            sizes = [2**n for n in range(1, 10) if 2**n < whole]
            size = self.draft.decide(
                f"tiles of {self._name(member)}", names, 0, partial(iter, sizes)
            )
            if size:
                order[place], point = self.draft.tile(member, (size,), names)
                shared = [order[place] if m is member else m for m in shared]
                points.append(point)
        return replace(loops, all=[*order, *points], shared=shared)

    def _window(
        self, first: list[Member], others: list[Member], inner: list[Member], *, shared: bool
    ) -> tuple[list[Member], list[Member]]:
        """The loops around padded copies, one of which is tiled where tiles are of use, and the
        loop inside of such tiles."""
        found = self.buffers.window([*first, *others], inner, shared=shared)
        if found is None or found[0] in first:
            return others, []
        member, size = found
        trips = self.draft.trips(member, self.nest.names)
        sizes = [2**n for n in range(9) if 2**n < trips]
        size = self.draft.decide(
            f"window of {self._name(member)}", self.nest.names, size, partial(iter, sizes)
        )
        if size == 1:
            return others, []
        tiles, point = self.draft.tile(member, (size,), self.nest.names)
        return [tiles if m is member else m for m in others], [point]

    def _strips(self, chosen: RegisterTile) -> LoopsOfTile:
        """The loops around a transpose block by block."""
        row, vector, others = self._row_and_others()
        assert row is not None  # of a block
        device = device_of(self.draft, self.options)
        found = transpose_blocking(self.nest, chosen, device, row, vector)
        around, inside = [row], [vector]
        rows, columns = self._strip(row, found.row), self._strip(vector, found.vector)
        if rows is not None:
            strip, within = self.draft.tile(row, (rows,), self.nest.names)
            around, inside = [strip], [vector, within]
        if columns is not None:
            piece, vector = self.draft.tile(vector, (columns,), self.nest.names)
            around, inside = [*around, piece], [vector, *inside[1:]]
        first = [*others, *around]
        order = [*first, *inside]
        return (
            LoopsOfTile(order, first, lines=len(first))
            if found.buffered
            else LoopsOfTile(order, order)
        )

    def _strip(self, member: Member, default: int | None) -> int | None:
        """How many blocks along a member are a strip."""
        trips = self.draft.trips(member, self.nest.names)
        if default is None or default >= trips:
            return default
        sizes = [2**n for n in range(1, 9) if 2**n < trips]
        what = f"blocks of {self._name(member)} in a strip"
        return self.draft.decide(what, self.nest.names, default, partial(iter, sizes))

    def _smallest_inside(self, members: list[Member]) -> list[Member]:
        """The members in an order in which what is read again and again is the least: inside of a
        loop that moves one operand, those that it does not move stay in a cache."""
        reads = {a.tensor: a for a in self.nest.main.statement.reads if a.site >= 0}.values()

        def left(member: Member) -> int:
            own = (a for a in reads if not self.nest.uses(a, member))
            return sum(prod(self.nest.info.scop.shape(access.tensor)) for access in own)

        return sorted(members, key=left)

    def _as_read(self, members: list[Member]) -> list[Member]:
        """The members of a nest; of one that copies a tensor in whole lines, in the order of the
        lines that are read. Lines may be written in any order, but hardware prefetches lines that
        are read one after the other."""
        statement, chosen = self.nest.main.statement, self.chosen
        reads = [a for a in statement.reads if a.site >= 0]
        if chosen is None or chosen.reduced or len(self.nest.items) > 1 or len(reads) != 1:
            return members
        both = (reads[0], statement.write)
        contiguous = all(self.nest.stride(a, chosen.vector) == 1 for a in both)
        row = self.nest.extent(chosen.vector) * self.nest.element
        steps = [self.nest.stride(reads[0], m) for m in members]
        known = [abs(step) for step in steps if step is not None]
        if not contiguous or row < device_of(self.draft).line or len(known) < len(steps):
            return members
        order = sorted(zip(known, members, strict=True), key=lambda pair: -pair[0])
        return [member for _, member in order]

    def _step(self, rows: list[Member]) -> None:
        """Puts the loop over steps of a reduction outside of the loops over rows, between the
        statements that start the targets and the statements that follow the sum."""
        assert self.steps is not None
        main = (self.nest.main.statement.name,)
        if rows and len(self.nest.names) > 1:
            self.draft.separate(rows, self.nest.names, main)
        steps = self.steps
        reduction = [steps.inner if m == steps.whole else m for m in self.nest.main.reduction]
        self.draft.order((steps.outer, *rows, *reduction), main)

    def _bind(self, members: list[Member]) -> None:
        """Shares the leading loops among threads, as far as their iterations are independent."""
        if not self.outermost or not self.options.parallel:
            return
        parallel: list[Member] = []
        enough = 64 * device_of(self.draft).threads
        for m in members:
            if not m.coincident or iterations(parallel, self.nest) >= enough:
                break
            parallel.append(m)
        coincident = list(takewhile(lambda m: m.coincident and m.span is None, members))
        number = self.draft.decide(
            "loops for threads", self.nest.names, len(parallel), lambda: range(len(coincident) + 1)
        )
        self.draft.bind(members[:number], PARALLEL, self.nest.names)

    # --- in words -------------------------------------------------------------------------------

    def note(self) -> str:
        """What was chosen for the nest, and why."""
        names = ", ".join(self.nest.names)
        chosen = self.chosen
        if chosen is None:
            return f"{names}: plain loops; nothing can be a vector, or the processor has none."
        along = f"{chosen.vector.name}, a reduction" if chosen.reduced else chosen.vector.name
        text = f"{names}: vectors of {chosen.lanes} along {along}"
        column, columns = chosen.column, chosen.columns
        held = chosen.rows * chosen.vectors * columns
        if chosen.row is not None and chosen.rows > 1:
            share = "all " if column and columns == self.nest.extent(column) else ""
            across = f" x {share}{columns} {column.name}" if column else ""
            text += f"; a register tile of {chosen.rows} {chosen.row.name}{across} x"
            text += f" {chosen.vectors} vectors"
            text += f", {held} accumulators." if self._accumulates or chosen.reduced else "."
        else:
            text += f", {chosen.vectors} at a time."
        for access in self.buffers.packs:
            text += f" {access.tensor} is packed in the order of the vectors, as it is used again."
        for access in chosen.blocked:
            text += f" {access.tensor} is transposed block by block, in registers."
        for move in self._rows_packed:
            text += f" {move.action.tensor} is packed in the order of the rows of a tile."
        for access, fill in self.buffers.pads if not chosen.reduced else ():
            text += (
                f" {access.tensor} is copied with its padding ({fill}), so no loop tests for it."
            )
        if self.steps is not None:
            text += f" {self.steps.size} steps of {self.steps.whole.name} at a time, so that panels"
            text += " stay in the cache."
        return text
