"""What a nest has in buffers, as actions of its plan: targets in registers, and around them panels,
padded copies, staged targets, blocks to be transposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from math import prod

from tc.errors import BackendError
from tc.plan import PACKED, REGISTER, SCRATCH, Promote
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import held_target
from tc.polyhedral.cpu.analysis import NestItem, ParallelNest, places
from tc.polyhedral.cpu.buffers import NestBuffers, dimension_order, vector_dimension
from tc.polyhedral.promotion import touches
from tc.polyhedral.schedule import Member, tiles
from tc.polyhedral.scop.scop import ScopStatement


@dataclass(frozen=True)
class LoopsOfTile:
    """The loops around the tile of a nest: `all`, outermost first; those that threads may share,
    `shared`; and the `rows` inside of a reduction that runs in steps. The other fields say after
    how many of the loops buffers lie: `packed` panels, `padded` copies, `staged` targets, and
    `lines` that are written back. `whole`: operands are packed before the part begins."""

    all: list[Member]
    shared: list[Member]
    rows: list[Member] = field(default_factory=list)
    packed: int | None = None
    padded: int | None = None
    staged: int | None = None
    lines: int | None = None
    whole: bool = False

    def last(self, around: tuple[Member, ...], number: int) -> Member | None:
        """The innermost of the loops around a nest, and the first ones of it."""
        members = (*around, *self.all[:number])
        return members[-1] if members else None


@dataclass(frozen=True)
class ReductionSteps:
    """A reduction that runs in steps: its loop before that, `whole`, the loop over steps, `outer`,
    and the loop in each step, `inner`, which has `size` iterations. Panels of operands are packed
    inside of the loops `around`, and serve all of the loops over `rows`."""

    whole: Member
    outer: Member
    inner: Member
    size: int
    around: list[Member]
    rows: list[Member]


@dataclass
class NestPromoter:
    """Writes the promotions of one nest into a draft, whose loops stand already; `reduction` is the
    innermost loop of the main statement's reduction, `staged` the promotion of a staged target."""

    draft: Draft
    nest: ParallelNest
    buffers: NestBuffers | None
    around: tuple[Member, ...]
    loops: LoopsOfTile
    steps: ReductionSteps | None
    reduction: Member | None
    staged: Promote | None

    def promote(self) -> None:
        """Promotes what the nest has in buffers; where several lie at one place, the last one
        promoted is copied first."""
        items, loops, after = self.nest.items, self.loops, self._last(len(self.loops.all))
        if self.steps is None:
            self._hold_items(items, after)
        else:
            place = items.index(self.nest.main)
            outer, inner = self.steps.outer, self.steps.inner
            main = NestItem(self.nest.main.statement, (self.steps.whole,))
            self._hold_item(main, set(), loops.rows[-1] if loops.rows else outer)
            for group in (items[:place], items[place + 1 :]):
                self._hold_items(group, after)
            own = (main.statement.name,)
            self._pad([*loops.shared, outer], [*loops.rows, inner], outer, own)
            self._pack(SCRATCH, outer, own)
        if loops.staged is not None:
            assert self.staged is not None
            self.draft.promote(self.staged, self._last(loops.staged), self.nest.names)
        if loops.lines is not None:
            tensor = self.nest.main.statement.write.tensor
            inside = self._last(loops.lines)
            self.draft.promote(Promote(tensor, SCRATCH, lines=True), inside, self.nest.names)
        if loops.padded is not None:
            number, names = loops.padded, self.nest.names
            self._pad(loops.all[:number], loops.all[number:], self._last(number), names)
        if loops.packed is not None:
            self._pack(SCRATCH, self._last(loops.packed), self.nest.names)
        if loops.whole:
            self._pack(PACKED, None, ())

    def _last(self, number: int) -> Member | None:
        return self.loops.last(self.around, number)

    def _pack(self, scope: str, inside: Member | None, names: tuple[str, ...]) -> None:
        assert self.buffers is not None
        there = {t.tensor for t in tiles(self.draft.tree) if t.scope == scope == PACKED}
        packs, lanes = self.buffers.packs, self.buffers.tile.lanes
        for access in packs if scope == PACKED else reversed(packs):
            if access.tensor not in there:
                axes = self.buffers.panels(access)
                packed = Promote(access.tensor, scope, axes=axes, lanes=lanes)
                self.draft.promote(packed, inside, names)

    def _pad(
        self,
        outer: list[Member],
        inner: list[Member],
        inside: Member | None,
        names: tuple[str, ...],
    ) -> None:
        """Padded reads come from a buffer that holds the padding too: between the loops `outer` and
        the loops `inner`, for what runs `inside` of the last of those around it."""
        assert self.buffers is not None
        found, lanes = self.buffers.padded(outer, inner), self.buffers.lanes
        for access, sizes in reversed(found):
            if prod(sizes) <= self.buffers.room:
                align = lanes if sizes[-1] % lanes == 0 else 1
                copied = Promote(access.tensor, SCRATCH, lanes=lanes, align=align, padded=True)
                self.draft.promote(copied, inside, names)

    def _hold_items(self, items: Several[NestItem], inside: Member | None) -> None:
        """The targets of items in registers: for all of them, or for those that touch the same
        elements, or else for each reduction."""
        held = self._hold_together(items, inside)
        for group in self._alike([i for i in items if i.statement.write.tensor not in held]):
            if self._hold_together(group, inside):
                held |= {item.statement.name for item in group}
        for item in items:
            self._hold_item(item, held, inside)
            if item is self.nest.main:
                self._transpose(item, inside)

    def _hold_item(self, item: NestItem, held: set[str], inside: Member | None) -> None:
        """The accumulators of an item, where they are not held for several."""
        statement = item.statement
        tensor = statement.write.tensor
        is_held = not held.isdisjoint((tensor, statement.name))
        if not is_held and item.reduction and self._moves_as_one(tensor, [statement]):
            self._accumulate(tensor, [statement], inside, (statement.name,))

    def _alike(self, items: Several[NestItem]) -> list[list[NestItem]]:
        """The items, each with those next to it that write the same elements as it does."""
        found: list[list[NestItem]] = []
        for item in items:
            tensor = item.statement.write.tensor
            last = [i.statement for i in found[-1]] if found else []
            if [s.write.tensor for s in last[:1]] == [tensor] and self._moves_as_one(
                tensor, [*last, item.statement]
            ):
                found[-1].append(item)
            else:
                found.append([item])
        return [group for group in found if len(group) > 1 and len(found) > 1]

    def _hold_together(self, items: Several[NestItem], inside: Member | None) -> set[str]:
        """Promotes the targets of items to registers for all of them; those that could be."""
        held: set[str] = set()
        statements = [item.statement for item in items]
        names = tuple(s.name for s in statements)
        for tensor in reversed(list(dict.fromkeys(s.write.tensor for s in statements))):
            users = [s for s in statements if touches(s, tensor)]
            whole = all(self._is_whole(item) for item in items if item.statement in users)
            is_one = whole and self._moves_as_one(tensor, users)
            if is_one and self._accumulate(tensor, users, inside, names):
                held.add(tensor)
        return held

    def _is_whole(self, item: NestItem) -> bool:
        """Whether a reduction runs inside of the nest, all of it: none of its members, and no
        loop in which the statement has but one value, is outside."""
        own = {m.values[item.statement.name].variable for m in item.reduction}
        fixed = (m.values[item.statement.name] for m in self._all_around)
        return own >= set(item.statement.reduction) and all(v.variable for v in fixed)

    def _accumulate(
        self,
        tensor: str,
        users: list[ScopStatement],
        inside: Member | None,
        names: tuple[str, ...],
    ) -> bool:
        """Promotes a target that is read again to registers, in vectors along the dimension that
        has them. Returns whether that is done."""
        last, lanes = None, 1
        if self.buffers is not None and not self.buffers.tile.reduced:
            last = vector_dimension(self.buffers.tile, tensor, users)
            lanes = 1 if last is None else self.buffers.tile.lanes
        axes = dimension_order(users[0].write, last)
        action = Promote(tensor, REGISTER, axes=axes, lanes=lanes)
        try:
            below = self.draft.footprint_in(inside, names)
        except BackendError:  # other statements run there
            return False
        move = held_target(f"{tensor} in registers", action, below)
        return move is not None and move.pays and self.draft.promote(action, inside, names)

    def _transpose(self, item: NestItem, inside: Member | None) -> None:
        """Reads that are transposed block by block: the vectors' dimension becomes innermost."""
        if self.buffers is None:
            return
        chosen, names = self.buffers.tile, (item.statement.name,)
        v, inside = self.nest.variable(chosen.vector), self.reduction or inside
        for access in reversed(chosen.blocked):
            last = next(d for d, s in enumerate(access.subscripts) if s and v in s.terms)
            axes = dimension_order(access, last)
            turned = Promote(access.tensor, SCRATCH, axes=axes, lanes=chosen.lanes)
            self.draft.promote(turned, inside, names)

    @property
    def _all_around(self) -> tuple[Member, ...]:
        return (*self.around, *self.nest.members)

    def _moves_as_one(self, tensor: str, users: Iterable[ScopStatement]) -> bool:
        """Whether all accesses of a tensor touch the same element in the same iteration."""
        found = places(tensor, users, self._all_around)
        is_known = all(form is not None and not form[2] for place in found for form in place)
        return len(found) == 1 and is_known
