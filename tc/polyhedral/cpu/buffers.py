"""What a tiled nest has in buffers: operands packed in the order of its vectors or of its rows,
inputs with their padding, targets that are strided along the vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import gcd, inf, prod
from typing import TypeAlias

from tc.device import Device
from tc.plan import PACKED, SCRATCH, Promote
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import Move
from tc.polyhedral.cpu.analysis import ParallelNest, iterations
from tc.polyhedral.cpu.costs import TileCosts, device_of, fullest_set, staged_size
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.promotion import EnclosingLoop, Footprint, is_rounded_between, transfer
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access, ScopStatement

PARTS = 4
"""Windows for each thread, at least: threads do not begin together."""

WIDENED = 8
"""Rows of padded copies become whole vectors where that adds no more than this part of them."""

PACKED_PARTS = range(1, 9)
"""In so many parts loops run whose digits are in packs, of those that are tried."""

LEAST_STEPS = 64
"""Steps of a reduction between loads and stores of its accumulators, at least."""

MIN_PARTS = 8
"""A parallel loop of fewer iterations is shared unevenly: more loops join it."""

Digits: TypeAlias = "tuple[tuple[str, int], ...]"
"""The names of loops of which digits run inside of packs, and how many iterations a digit has."""


@dataclass(frozen=True)
class NestBuffers:
    """What a nest with a register tile has in buffers, and when.

    The cluster of the nest writes the tensors `written`. The members `around` are loops around the
    nest, the members `points` loops within its tile.
    """

    draft: Draft
    costs: TileCosts
    nest: ParallelNest
    tile: RegisterTile
    written: frozenset[str]
    around: tuple[Member, ...]
    points: tuple[Member, ...]

    @property
    def device(self) -> Device:
        return device_of(self.draft)

    def footprint_in(self, outer: Sequence[Member], inner: Sequence[Member]) -> Footprint:
        """What the statements of the nest touch inside of the loops `outer`, where the loops
        `inner` run, those of the tile, and reductions of which no loop is named."""
        around = tuple(EnclosingLoop(m, tuple(m.values)) for m in self.around)
        names = self.nest.names
        own = [EnclosingLoop(m, tuple(n for n in names if n in m.values)) for m in outer]
        cut = {m.name for m in (*outer, *inner)}  # a reduction may run in steps
        inside = {}
        for item in self.nest.items:
            name, whole = item.statement.name, [m for m in item.reduction if m.name not in cut]
            inside[name] = (*(m for m in (*inner, *self.points) if name in m.values), *whole)
        return Footprint(self.nest.info.scop, (*around, *own), inside)

    # --- packing --------------------------------------------------------------------------------

    @cached_property
    def packs(self) -> tuple[Access, ...]:
        """The reads to pack, one a tensor: all reads of a tensor that is packed are alike."""
        found: dict[str, Access] = {}
        for access in self.tile.packed:
            found.setdefault(access.tensor, access)
        return tuple(found.values())

    def panels(self, access: Access) -> tuple[tuple[int, int], ...]:
        """The axes of a packed read: panels as wide as the vectors of a tile, in the order of the
        reduction's loops, so that a tile reads a panel from one end to the other."""
        return self._panels(access, self.tile.vector, self.tile.lanes * self.tile.vectors)

    def _panels(self, access: Access, member: Member, width: int) -> tuple[tuple[int, int], ...]:
        nest, v = self.nest, self.nest.variable(member)
        reduction = [m.values[nest.main.statement.name].variable for m in nest.main.reduction]
        terms = [set() if s is None else set(s.terms) for s in access.subscripts]
        panel = next(d for d, own in enumerate(terms) if v in own)
        reduced = [d for d, own in enumerate(terms) if d != panel and own & set(reduction)]
        reduced.sort(key=lambda d: max(reduction.index(x) for x in terms[d] if x in reduction))
        others = [d for d in range(len(terms)) if d not in reduced]
        steps = element_steps(access)
        outer = [(d, width if d == panel else steps[d]) for d in others]
        return (*outer, *((d, steps[d]) for d in reduced), (panel, 1))

    def moves_packs(self, member: Member) -> bool:
        """Whether some packed read depends on a member."""
        return any(self.nest.uses(access, member) for access in self.packs)

    def packs_locally(self, used: Sequence[Member], inside: Digits = ()) -> bool:
        """Whether each thread may pack its own panels: all packed reads depend on the loops `used`,
        which stand around the pack with that of panels, these loops have iterations for all
        threads, and the panels of one pack, for the digits `inside` of it, stay in the cache."""
        if not self.packs or not all(self.nest.uses(a, m) for m in used for a in self.packs):
            return False
        parts = iterations(used, self.nest) * self._panel_count
        even = parts >= MIN_PARTS or parts % self.device.threads == 0
        return even and self.panel_bytes(inside) <= self.device.l2 * 3 // 4

    @property
    def _panel_count(self) -> int:
        return -(-self.nest.extent(self.tile.vector) // (self.tile.lanes * self.tile.vectors))

    def digits(self, used: Sequence[Member], given: Digits, *, in_steps: bool) -> Digits:
        """The loops, of those `used`, of which digits run inside of packs, with their iterations:
        so that what a pack reads, and what is written of the target while the pack is used, lies
        side by side. A line is fetched as often as packs use part of the line. The digits `given`
        are among them. A reduction may run `in_steps` where the panels do not stay in the cache."""
        write = self.nest.main.statement.write
        found: list[dict[str, int]] = [dict(given)]
        for access in (*self.packs, write):
            own = list(map(dict, self._digits_of(access, used)))
            found += [{**one, **other, **dict(given)} for one in found for other in own]
        key = partial(self._cycles, used, in_steps=in_steps)
        return min((tuple(each.items()) for each in found), key=key)

    def _digits_of(self, access: Access, used: Sequence[Member]) -> Iterator[Digits]:
        """The digits inside of a pack by which what is read or written of a tensor grows in one
        piece, until the piece is a line."""
        line = self.device.line // self._bytes(access.tensor)
        length = 1
        inside: Digits = ()
        for step, member in self._walk(access):
            if step != length or length >= line:
                return
            size = self._iterations(member, used, ())
            if member in used:
                extent, unit = self.nest.extent(member), max(1, line // length)
                sizes = {-(-extent // (parts * unit)) * unit for parts in PACKED_PARTS}
                for size in sorted({unit, *sizes}):
                    yield (*inside, (member.name, min(size, extent)))
                size, inside = extent, (*inside, (member.name, extent))
            length *= size

    def _walk(self, access: Access) -> list[tuple[int, Member]]:
        """The loops along which an access moves, the nearest elements first, with steps."""
        loops = (*self.nest.members, *self.nest.main.reduction)
        steps = [(abs(self.nest.stride(access, m) or 0), m) for m in loops]
        return sorted(((step, m) for step, m in steps if step), key=lambda pair: pair[0])

    def _iterations(self, member: Member, used: Sequence[Member], inside: Digits) -> int:
        """How many iterations of a loop run while a pack is used."""
        if member == self.tile.vector and not self.tile.reduced:
            return min(self.tile.lanes * self.tile.vectors, self.nest.extent(member))
        return dict(inside).get(member.name, 1 if member in used else self.nest.extent(member))

    def _bytes(self, tensor: str) -> int:
        return self.nest.info.scop.shaped.program.tensors[tensor].dtype.bytes

    def _cycles(self, used: Sequence[Member], inside: Digits, *, in_steps: bool) -> float:
        """The cycles of the busiest thread with digits inside of packs: of the tile, and of the
        lines that are fetched."""
        nest, device, digits = self.nest, self.device, dict(inside)
        sizes = [(nest.extent(m), digits.get(m.name, 1)) for m in used]
        parts = prod(-(-extent // size) for extent, size in sizes) * self._panel_count
        steps = self._steps(inside, in_steps=in_steps)
        if not steps or (inside and parts < MIN_PARTS and parts % device.threads):
            return inf
        slots = self.tile.cost + self._line_slots(self.packs, used, inside, steps)
        return slots * nest.main.instances * -(-parts // device.threads) / parts

    def _steps(self, inside: Digits, *, in_steps: bool) -> int:
        """In how many steps a reduction runs for the sake of digits inside of packs; 0 where no
        number of steps lets the panels stay in the cache."""
        device, held = self.device, self.panel_bytes(inside)
        if not inside or held <= (device.l2 // 2 if in_steps else device.l2 * 3 // 4):
            return 1
        depth = prod(map(self.nest.extent, self.nest.main.reduction))
        fits = in_steps and held * min(1.0, LEAST_STEPS / depth) <= device.l2 * 3 // 4
        return min(-(-held // (device.l2 // 4)), max(1, depth // LEAST_STEPS)) if fits else 0

    @cached_property
    def line_slots(self) -> float:
        """The slots of an instance in which lines are fetched. Each thread makes its own packs with
        the best digits inside; else, for one place of the loops around vectors and rows, around the
        staged tile, or around a tile with vectors along a sum, a piece of each tensor is used.
        Windows read their lines again soon: where a read has some, nothing is counted."""
        nest, row = self.nest, self.tile.row
        reads = [access for access in nest.main.statement.reads if access.site >= 0]
        if any(s is None or len(s.terms) > 1 for access in reads for s in access.subscripts):
            return 0.0
        if self.tile.reduced:
            sizes = ((row, self.tile.rows), (self.tile.column, self.tile.columns))
            own = tuple((member.name, size) for member, size in sizes if member is not None)
            slots = self._line_slots(reads, nest.members, own, 1)
            return slots + sum(self._waiting_slots(access, own) for access in reads)
        others = [m for m in nest.members if m not in (self.tile.vector, row)]
        used = [m for m in others if self.moves_packs(m)]
        in_steps = self.tile.along is None
        digits: Digits = ()
        if not self.packs or (row is not None and self.moves_packs(row)):
            used = [m for m in others if m != self.tile.along]
        elif in_steps or self.packs_locally(used):
            digits = self.digits(used, (), in_steps=in_steps)
        return self._line_slots(reads, used, digits, self._steps(digits, in_steps=in_steps))

    def _waiting_slots(self, access: Access, own: Digits) -> float:
        """The slots of an instance in which a tile with its vectors along a sum, which has `own`
        iterations of loops, waits for lines that others fetch while they compute: of several tiles,
        one after the other, that read the same, only the first one fetches."""
        sizes = dict(own)
        again = (m for m in self.nest.members if not self.nest.uses(access, m))
        tiles = prod(-(-self.nest.extent(m) // sizes.get(m.name, 1)) for m in again)
        fetching = self._fetching_cycles(access, self.nest.members, own)
        fetching /= self.device.passes(self.device.vector_bits) * self.nest.main.instances
        return min(self.tile.cost, fetching) - min(self.tile.cost / tiles, fetching)

    def _line_slots(
        self, reads: Iterable[Access], used: Sequence[Member], inside: Digits, steps: int
    ) -> float:
        """The slots of an instance in which the lines of some reads and of the target are fetched,
        where a reduction runs in steps."""
        nest, device, write = self.nest, self.device, self.nest.main.statement.write
        cycles = sum(self._fetching_cycles(access, used, inside) for access in reads)
        cycles += 2 * steps * self._fetching_cycles(write, used, inside)  # and written back
        slots = cycles / device.passes(device.vector_bits)
        if nest.stride(write, self.tile.vector) != 1:
            elements = prod(nest.info.scop.shape(write.tensor))
            slots += 2 * (steps - 1) * elements * self.costs.scattered_slots
        return slots / nest.main.instances

    def _fetching_cycles(self, access: Access, used: Sequence[Member], inside: Digits) -> float:
        """The cycles in which the lines of a tensor are fetched: the first line of each piece of
        memory that is used together with one pack is not prefetched. Lines are fetched once, and
        then read from the second cache, where this holds those of one place of the outermost
        loop."""
        device, element = self.device, self._bytes(access.tensor)
        around = [m for m in used if self.nest.uses(access, m)][:1]
        length, held, is_even = 1, 1, True
        walk = self._walk(access)
        gap = next((step for step, _ in walk if step * element < device.line), 1)
        for step, member in walk:
            if step == length * gap:  # elements of a strided array share lines, too
                length *= self._iterations(member, used, inside)
            else:
                is_even &= step * element % device.line == 0
            held *= self._iterations(member, around, inside)
        size = prod(self.nest.info.scop.shape(access.tensor)) * element
        piece = length * element
        split = 0 if is_even and piece % device.line == 0 else device.line - element
        if held // length * (piece + split) <= device.l2 // 2:
            again = size / piece * (piece + split) - size
            return size / device.read_rate(size) + again / device.l2_bytes_per_cycle
        lines = (piece + split) / device.line
        if access not in self.tile.blocked:  # else, the rows of a block are loaded side by side
            lines += self.costs.unprefetched_factor - 1
        return size / piece * lines * device.line / device.read_rate(size)

    def panel_bytes(self, inside: Digits = ()) -> int:
        """The bytes of the packed reads for one tile of vectors and the digits `inside`."""
        return sum(self._panel_elements(a, inside) for a in self.packs) * self.nest.element

    def _panel_elements(self, access: Access, inside: Digits) -> int:
        statement, row = self.nest.main.statement, self.tile.row
        width = self.tile.lanes * self.tile.vectors
        reach = {v: end - begin for v, (begin, end) in statement.ranges.items()}
        reach = {v: n if v in statement.reduction else 1 for v, n in reach.items()}
        reach[str(self.nest.variable(self.tile.vector))] = width
        if row is not None:
            reach[str(self.nest.variable(row))] = self.tile.rows
        named = {m.name: str(self.nest.variable(m)) for m in self.nest.members}
        reach |= {named[name]: size for name, size in inside}
        forms = (s.terms.items() for s in access.subscripts if s is not None)
        return prod(1 + sum(abs(c) * (reach[v] - 1) for v, c in form) for form in forms)

    # --- padded reads and staged writes -----------------------------------------------------------

    @cached_property
    def pads(self) -> list[tuple[Access, int | float | bool]]:
        """The padded reads of the main statement, with the constants of the pads, that come from a
        buffer which holds the padding, too, so that no loop tests for it: each element is read at
        least once to be copied. Tensors that are packed, or read otherwise, too, are not copied."""
        nest, packed = self.nest, {access.tensor for access in self.packs}
        found = []
        for access, fill in nest.info.padded(nest.main.statement):
            tensor, shape = access.tensor, nest.info.scop.shape(access.tensor)
            is_copied = Promote(tensor, SCRATCH, padded=True)
            what, reads = f"{tensor} copied with its padding", nest.main.instances
            if (
                tensor not in self.written | packed
                and all(a == access for a in nest.reads(tensor))
                and self.draft.wants(Move(what, is_copied, shape, reads, prod(shape)), nest.names)
            ):
                found.append((access, fill))
        return found

    def window(
        self, outer: list[Member], inner: list[Member], *, shared: bool
    ) -> tuple[Member, int] | None:
        """The member of the loops `outer` around a padded copy that is tiled, and the size of the
        tiles; `inner` are the loops inside of the copy. Windows that overlap use most of a copy
        again. The loops are `shared` among threads, or each thread runs all of them."""
        reduced = set(self.nest.main.statement.reduction)
        subscripts = [x for access, _ in self.pads for x in access.subscripts if x is not None]
        for m in reversed(outer):
            v = self.nest.variable(m)
            if m.span is None and any(v in x.terms and reduced & set(x.terms) for x in subscripts):
                size = self._window(m, outer, inner, self.device.threads if shared else 1)
                if size > 1:
                    return m, size
        return None

    def _window(
        self, member: Member, outer: list[Member], inner: list[Member], threads: int
    ) -> int:
        """How many iterations of a member share a copy: of the numbers that leave room for the copy
        in the cache, the one for which the last thread to end ends first."""
        extent = self.nest.extent(member)
        others = iterations([x for x in outer if x is not member], self.nest)
        work = self.nest.main.instances / (extent * others)
        one, two = (self._copied(member, size, outer, inner) for size in (1, 2))
        room = self.device.l2 // 4 // self.nest.element
        most = min(extent, 1 + (room - one) // max(1, two - one))
        enough = 1 if threads == 1 else PARTS * threads

        def time(size: int) -> float:  # of the busiest thread
            windows = -(-extent // size) * others
            copying = (one + (two - one) * (size - 1)) * self.costs.copying_multiply_adds
            return -(-windows // threads) * (size * work + copying)

        sizes = (n for n in range(most, 0, -1) if -(-extent // n) * others >= enough)
        return min(sizes, key=time, default=1)

    def _copied(self, member: Member, size: int, outer: list[Member], inner: list[Member]) -> int:
        tiles, point = self.draft.would_tile(member, size, self.nest.names)
        around = [tiles if x is member else x for x in outer]
        return sum(prod(sizes) for _, sizes in self.padded(around, [point, *inner]))

    def padded(
        self, outer: Sequence[Member], inner: Sequence[Member]
    ) -> list[tuple[Access, tuple[int, ...]]]:
        """The padded reads with the sizes of their copies inside of the loops `outer`. A row of a
        copy becomes whole vectors where that adds little."""
        below, lanes, found = self.footprint_in(outer, inner), self.lanes, []
        for access, _ in self.pads:
            box = below.box(access.tensor, tails=True)
            if box is not None:
                *others, last = box.sizes
                whole = -(-last // lanes) * lanes
                row = whole if whole - last <= last // WIDENED else last
                found.append((access, (*others, row)))
        return found

    @property
    def lanes(self) -> int:
        """The lanes of vectors that copy."""
        return self.device.lanes(self.nest.element * 8)

    @property
    def room(self) -> int:
        """How many elements a padded copy may have."""
        return self.device.l2 // 2 // self.nest.element

    def staged(self, outer: Sequence[Member], inner: Member | None) -> Move | None:
        """The move of the target, strided along the vector, to a buffer inside of the loops
        `outer`: it has all iterations of one panel for the loop `inner`, along which the target is
        contiguous, lies with the vectors' dimension innermost, and is transposed on the way out.
        Else, each element of a vector is an access of its own."""
        nest, write = self.nest, self.nest.main.statement.write
        if self.tile.along is None:
            return None
        tensor, users = write.tensor, nest.users(write.tensor)
        if is_rounded_between(tensor, users, nest.info.scop):
            return None
        below = self.footprint_in(outer, () if inner is None else (inner,))
        found, last = below.box(tensor), vector_dimension(self.tile, tensor, users)
        if found is None or last is None or isinstance(transfer(tensor, below), str):
            return None
        size, lanes = prod(found.sizes), self.tile.lanes
        if size * 4 > staged_size(self.device):
            return None
        action = Promote(tensor, SCRATCH, axes=dimension_order(write, last), lanes=lanes)
        return Move("target staged", action, found.sizes, size, size / lanes)

    # --- operands whose rows lie side by side -----------------------------------------------------

    @cached_property
    def rows_packed(self) -> list[Move]:
        """The moves of reads that are packed in the order of a tile's rows."""
        padded = {access.tensor for access, _ in self.pads}
        return [m for m in self._row_packs(padded) if self.draft.wants(m, self.nest.names)]

    @property
    def row_packing_slots(self) -> float:
        """The slots of an instance in which reads are packed in the order of rows, where that pays:
        elements are read, and written to lines that are read before."""
        cycles, nest = 0.0, self.nest
        padded = {access.tensor for access, _ in nest.info.padded(nest.main.statement)}
        for move in self._row_packs(padded):
            if move.pays:
                size = prod(move.counts) * nest.element
                cycles += 3 * size / self.device.read_rate(size)
                cycles += self.costs.packing_slots * prod(move.counts) / self.tile.lanes
        return cycles / self.device.passes(self.device.vector_bits) / nest.main.instances

    def _row_packs(self, padded: set[str]) -> list[Move]:
        """The moves of reads that may be packed in the order of a tile's rows, as of `A(k,i)` or
        `A(i,m,j,n)` with rows along i: where the first cache does not hold the lines that a tile
        reads until another tile reads them again. Tensors that are `padded`, or touched elsewhere,
        are not packed."""
        nest, tile = self.nest, self.tile
        found: list[Move] = []
        if tile.row is None or tile.rows == 1 or tile.reduced or tile.blocked:
            return found
        others = [nest.info.scop.statement(n) for n in {*self.draft.statements} - {*nest.names}]
        touched = self.written | {a.tensor for s in others for a in s.accesses}
        touched |= padded
        panels = -(-nest.extent(tile.vector) // (tile.lanes * tile.vectors))
        for access in nest.main.statement.reads:
            tensor = access.tensor
            if (
                access.site >= 0
                and tensor not in touched
                and _moves_with_rows(access, nest, tile)
                and len(nest.reads(tensor)) == 1
                and not self._stays(access)
            ):
                axes = self._panels(access, tile.row, tile.rows)
                again = [m for m in nest.members if m != tile.vector and not nest.uses(access, m)]
                shape = nest.info.scop.shape(tensor)
                size, action = prod(shape), Promote(tensor, PACKED, axes=axes, lanes=tile.lanes)
                before = panels * prod(map(nest.extent, again)) * size * self._apart(access)
                after = self.costs.packing_reads * size
                found.append(Move(f"{tensor} packed for rows", action, shape, before, after))
        return found

    def _apart(self, access: Access) -> float:
        """The part of a read's elements that come from another line than those of the step of the
        reduction before."""
        uses = (m for m in reversed(self.nest.main.reduction) if self.nest.uses(access, m))
        step = abs(self.nest.stride(access, next(uses)) or 0)
        return min(1.0, step * self._bytes(access.tensor) / self.device.line)

    def _stays(self, access: Access) -> bool:
        """Whether the first cache holds twice the lines that a tile of rows reads in a sum, in each
        of its sets: a page has a line for each."""
        nest, row, device = self.nest, self.tile.row, self.device
        sums = [(m, nest.extent(m)) for m in nest.main.reduction if nest.uses(access, m)]
        if not sums or row is None:
            return True
        loops = [
            (abs(nest.stride(access, m) or 0) * self._bytes(access.tensor), extent)
            for m, extent in (*sums, (row, self.tile.rows))
        ]
        if any(extent * min(step, device.line) > device.l1 for step, extent in loops):
            return False
        return 2 * fullest_set(device, loops) <= device.l1 // device.page


def vector_dimension(tile: RegisterTile, tensor: str, users: Iterable[ScopStatement]) -> int | None:
    """The dimension of a target along the vectors of a tile."""
    for s in users:
        variable = tile.vector.values[s.name].variable
        if s.write.tensor == tensor:
            for d, subscript in enumerate(s.write.subscripts):
                if subscript is not None and variable in subscript.terms:
                    return d
    return None


def dimension_order(access: Access, last: int | None) -> tuple[tuple[int, int], ...]:
    """The axes of a buffer for what an access touches, in which the dimension `last` comes last; no
    axes where the dimension does so anyway.

    >>> from tc.affine.forms import Form
    >>> i, j, k = (Form(0, {v: c}) for v, c in (("i", 1), ("j", 2), ("k", 1)))
    >>> access = Access("t", (i, j, k), ((0, 9),) * 3)
    >>> dimension_order(access, 0), dimension_order(access, 2)
    (((1, 2), (2, 1), (0, 1)), ())
    """
    steps = element_steps(access)
    if last is None or last == len(steps) - 1:
        return ()
    return (*((d, step) for d, step in enumerate(steps) if d != last), (last, steps[last]))


def element_steps(access: Access) -> list[int]:
    """The distance between elements that an access may touch, in each dimension."""
    return [1 if s is None else gcd(*s.terms.values()) or 1 for s in access.subscripts]


def _moves_with_rows(access: Access, nest: ParallelNest, tile: RegisterTile) -> bool:
    """Whether a read moves along one dimension of its tensor with the rows of a tile, from each row
    to the next place, and does not move with the vectors."""
    assert tile.row is not None
    forms = [dict(s.terms) for s in access.subscripts if s is not None]
    u = nest.variable(tile.row)
    whole = len(forms) == len(access.subscripts) and all(len(form) <= 1 for form in forms)
    rows = [form for form in forms if u in form]
    return whole and rows == [{u: 1}] and not nest.uses(access, tile.vector)
