"""What a GPU holds near: tiles in shared memory and accumulators in registers.

A tensor is promoted to shared memory where its tile has a fixed size, elements are used again, and
some access is not coalesced: the next thread along x does not touch the next element of memory.
What only one thread touches goes to registers. In a tile that was made for a sum (`TileOfSums`) an
operand is promoted where half of what threads read, or more, is what others have read, too, as the
costs of the tile count it.

A thread that gathers waits for the place, then for the element; all threads together fetch many of
both at once. So all threads of a block fill tiles of what is gathered, T(I(i,k), j): where elements
are used again, as of any tensor, and where the steps of a reduction gather one after the other,
with places that several threads use, whether elements are used again or not, and whether reads are
coalesced or not.
(Vasilache et al. 2018, arXiv:1802.04730, section 5.5 and appendix A.3.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tc.gpu import bytes_in_shared
from tc.options import GpuOptions
from tc.plan import ASYNC, REGISTER, SERIAL, SHARED, THREAD, UNROLL, Promote
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.actions.moves import Move, held_target
from tc.polyhedral.codegen.launches import launch_sizes
from tc.polyhedral.footprint import Box
from tc.polyhedral.gpu.costs import WIDE, TileOfSums, is_copied_async
from tc.polyhedral.gpu.matrix_tiles import TileOfMatrices
from tc.polyhedral.gpu.shared_banks import odd_pitch
from tc.polyhedral.gpu.thread_exchanges import exchanged_bytes
from tc.polyhedral.gpu.warp_sectors import SECTOR_BYTES
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.promotion import Footprint, promotion_fault, touches
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Member,
    Node,
    Promotion,
    children,
    in_order,
    leaves,
    tiles,
)
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Gather, Scop, ScopStatement
from tc.semantics import program as p

REDUCTION_TILES = (32, 16, 8, 4)
"""Steps of a reduction for which operands are held at once: the first for which they fit, but all
if a thread copies `FEW_COPIES` elements of them at most."""
FEW_COPIES = 4


@dataclass
class Promoter:
    """Promotes what statements touch that blocks and threads run, in the loops `around`. The loop
    of the threads along x is `lane`, if there is one. Reductions have tiles of `sizes`, where
    options say so. A promoter that tries sizes does not ask for decisions (`asks`). Operands of the
    sum for which a tile was found have so many `stages`."""

    draft: Draft
    options: GpuOptions
    dependences: Dependences
    around: tuple[Member, ...]
    lane: Member | None
    sizes: tuple[int, ...] | None = None
    found: TileOfSums | None = None
    matrices: TileOfMatrices | None = None
    asks: bool = True
    stages: int = 1

    def promote(self, inside: Node, names: tuple[str, ...]) -> list[str]:
        """Promotes what pays. Returns notes."""
        told: list[str] = []
        if self.options.private is not False:
            told += self._to_registers(names)
        if self.lane is not None:
            for branch in in_order(inside):
                told += self._branch(branch)
        return told

    def _to_registers(self, names: tuple[str, ...]) -> Iterator[str]:
        """Promotes targets that statements touch again to registers. Gives notes."""
        inside = self.around[-1] if self.around else None
        below = self.draft.footprint_in(inside, names)
        moves = []
        for tensor in dict.fromkeys(s.write.tensor for s in self._statements(names)):
            move = held_target(f"{tensor} in registers", Promote(tensor, REGISTER), below)
            if move is None or _is_scattered(tensor, below) or self._waits(tensor, names):
                continue
            if any(
                a.meets for s in self._statements(names) for a in s.accesses if a.tensor == tensor
            ):
                continue
            moves.append(move)
        for move in sorted(moves, key=lambda move: move.after - move.before):
            if self._wants(move, names) and self._done(move.action, inside, names):
                yield move.what

    def hold_met(self, names: tuple[str, ...]) -> Iterator[str]:
        """Promotes targets whose terms meet in one step each to the memory that a block shares.
        Gives notes."""
        inside = self.around[-1] if self.around else None
        for tensor in dict.fromkeys(s.write.tensor for s in self._statements(names) if s.meets):
            below = self.draft.footprint_in(inside, names).of(SHARED)
            what = f"{tensor} in shared memory"
            move = held_target(what, Promote(tensor, SHARED), below)
            if move is None or not self._wants(move, names):
                continue
            if self._done(move.action, inside, names):
                yield f"{what}, where terms meet"

    def _waits(self, tensor: str, names: tuple[str, ...]) -> bool:
        """Whether what statements give each other by a tensor would be in registers while a sum
        runs, for which the tile of the part was made, and which has nothing to do with it: as of
        b * C(i,j) before a product is added."""
        if self.found is None and self.matrices is None:
            return False
        users = [s for s in self._statements(names) if touches(s, tensor)]
        sums = [s for s in self._statements(names) if s.accumulates and s.reduction]
        return bool(sums) and not any(s in users for s in sums)

    def _done(self, action: Promote, inside: Member | None, names: tuple[str, ...]) -> bool:
        """Promotes a tensor, if that can be done, there is room for it, and no others have elements
        that it writes."""
        draft, scop = self.draft, self.draft.info.scop
        held_bytes = {REGISTER: register_bytes, SHARED: shared_bytes}[action.scope]

        def fits(done: bool) -> bool:
            room = draft.target.room(action.scope) or 0
            has_room = done and held_bytes(draft.tree, scop) <= room
            if not has_room or promotion_fault(draft.tree, scop) is not None:
                return False
            if action.scope != SHARED or action.tensor not in self._written(names):
                return True
            waiting = draft.target.finish(draft.tree, self.dependences)
            return launch_fault(waiting, self.dependences) is None

        promote: Callable[[], bool] = partial(draft.promote, action, inside, names)
        return draft.attempt(promote, fits) is True

    def _branch(self, branch: Node) -> list[str]:
        """Promotes operands of the statements of a branch, for some steps of the reduction at a
        time. Returns notes."""
        names = tuple(leaves(branch))
        steps = branch.members if isinstance(branch, Band) else ()
        if self.found is not None and self._is_found(names):
            return self._as_found(self.found, steps, names)
        if self.matrices is not None and self.matrices.sum.statement in names:
            return self.matrices.hold(steps, names, self.draft.info, self.draft)
        steps = tuple(m for m in steps if not m.coincident)
        if self.sizes is not None or not steps:
            inside, _ = self._tiled(steps, self.sizes or (), names)
            return self._to_shared(inside, names)[0]
        before = self.draft.state

        def held(size: int) -> tuple[list[str], bool]:
            self.draft.restore(before)
            inside, _ = self._tiled(steps, (size,), names)
            return self._to_shared(inside, names)

        chosen, own = REDUCTION_TILES[-1], self.asks
        self.asks = False
        whole = self.draft.trips(steps[0], names)
        for size in (*([whole] if whole > REDUCTION_TILES[0] else []), *REDUCTION_TILES):
            told, has_all = held(size)
            if has_all and (size <= REDUCTION_TILES[0] or self._is_copied_soon(names)):
                chosen = size
                break
        self.asks = own
        if self.draft.target.decider.searches:
            sizes = [2**n for n in range(1, 9) if 2**n <= self.draft.trips(steps[0], names)]
            chosen = self.draft.decide("steps at a time", names, chosen, partial(iter, sizes))
            told, _ = held(chosen)
        if not told:
            self.draft.restore(before)
        return told

    def _is_copied_soon(self, names: tuple[str, ...]) -> bool:
        """Whether each thread copies few elements to the tiles of some statements: all of them are
        on their way at the same time."""
        tree, scop = self.draft.tree, self.draft.info.scop
        mine = self._held(names)
        held = sum(prod(t.shape) for t in tiles(tree) if t.scope == SHARED and t.tensor in mine)
        sizes = launch_sizes(tree, scop)
        threads = prod(count for (role, _), count in sizes.items() if role == THREAD)
        return held <= FEW_COPIES * threads

    def _is_found(self, names: tuple[str, ...]) -> bool:
        """Whether the tile of the part was made for one of these statements."""
        return self.found is not None and self.found.statement in names

    def _as_found(
        self, found: TileOfSums, steps: tuple[Member, ...], names: tuple[str, ...]
    ) -> list[str]:
        """Promotes operands for as many steps at a time as the tile of a part has."""
        first, *others = found.tile.steps
        sizes = [2**n for n in range(1, 9) if 2**n <= self.draft.trips(steps[0], names)]
        first = self.draft.decide("steps at a time", names, first, partial(iter, sizes))
        tile = replace(found.tile, steps=(first, *others))
        self.stages = self.draft.decide("stages", names, found.tile.stages, lambda: iter((1, 2, 3)))
        inside, points = self._tiled(steps, tile.steps, names)
        told, _ = self._to_shared(inside, names)
        trips = [self.draft.trips(step, names) for step in steps]
        counts = zip(found.reduction.at_once(tile), tile.steps, trips, strict=True)
        at_once = [count for count, size, most in counts if size > 1 or size >= most]
        for loop, count in reversed([*zip(points, at_once, strict=True)]):
            if 1 < count < self.draft.trips(loop, names):
                _, loop = self.draft.tile(loop, (count,), names)
            if count > 1:
                self.draft.bind([loop], UNROLL, names)
        return told

    def _tiled(
        self, steps: tuple[Member, ...], sizes: tuple[int, ...], names: tuple[str, ...]
    ) -> tuple[Member | None, tuple[Member, ...]]:
        """The innermost loop over tiles of a reduction, once its loops are tiled, and the loops in
        these."""
        found = (
            sizes[place] if place < len(sizes) else self.draft.trips(member, names)
            for place, member in enumerate(steps)
        )
        outer, points = self.draft.tiled(steps, found, names)
        around = outer or self.around
        return around[-1] if around else None, points

    # --- shared memory ----------------------------------------------------------------------

    def _to_shared(self, inside: Member | None, names: tuple[str, ...]) -> tuple[list[str], bool]:
        """Promotes operands to shared memory. Returns notes, and whether there is room for all
        operands. What is gathered comes last; where there is no room for it, the tensors of the
        places from which it is gathered are promoted."""
        if inside is None:
            return [], True
        moves = [m for m in self._moves(inside, names) if self._wants(m, names)]
        info, statements = self.draft.info, self._statements(names)
        wanted = without_places(moves, {m.action.tensor for m in moves}, statements, info)
        if self.options.shared is False:
            return [], not wanted
        told = list(self._hold(wanted, inside, names))
        if len(told) == len(wanted):
            return told, True
        left = without_places(moves, self._held(names), statements, info)
        others = [move for move in left if move not in wanted]
        return [*told, *self._hold(others, inside, names)], False

    def _hold(self, moves: Iterable[Move], inside: Member, names: tuple[str, ...]) -> Iterator[str]:
        """Does moves as long as there is room. Gives notes."""
        for move in moves:
            action = move.action
            if action.pitch and not self._decided(f"rows of {action.tensor} odd", names):
                action = replace(action, pitch=None)
            if self._done(action, inside, names):
                shape = " x ".join(map(str, move.counts))
                ahead = f", {action.stages - 1} ahead" if action.stages > 1 else ""
                yield f"{move.what}, {shape} elements at a time{ahead}"

    def _wants(self, move: Move, names: tuple[str, ...]) -> bool:
        return self.draft.wants(move, names) if self.asks else move.pays

    def _decided(self, what: str, names: tuple[str, ...]) -> bool:
        return not self.asks or self.draft.decide_whether(what, names)

    def _statements(self, names: tuple[str, ...]) -> list[ScopStatement]:
        return [self.draft.info.scop.statement(name) for name in names]

    def _moves(self, inside: Member, names: tuple[str, ...]) -> Iterator[Move]:
        """The moves to shared memory of what is read again: of tensors, then of what is gathered.
        Reads side by side along x are not counted."""
        scop, statements = self.draft.info.scop, self._statements(names)
        below, held = self.draft.footprint_in(inside, names).of(SHARED), self._held(names)
        is_repeated = inside.role == SERIAL and self.draft.trips(inside, names) > 1
        for tensor in dict.fromkeys(a.tensor for s in statements for a in s.reads):
            found = below.box(tensor) if scop.shaped.shapes[tensor] else None
            users = [s for s in statements if touches(s, tensor)]
            if found is None or tensor in held or any(s.write.meets for s in users):
                continue
            reads, copied = sum(map(below.instances, users)), prod(found.counts)
            own = self.found if self._is_found(names) else None
            is_shared = None if own is None else own.is_held(tensor)
            if is_shared is None:
                is_shared = not self._is_coalesced(tensor, users)
            counted = reads if is_shared else 0
            if copied <= reads and self._is_turned(tensor, users, found):
                yield self._move(tensor, below, WIDE * reads, copied, statements)
            elif copied < reads:
                yield self._move(
                    tensor, below, counted, copied, statements, is_repeated=is_repeated
                )
        for name in dict.fromkeys(a.tensor for s in statements for a in s.gathers):
            waits = waits_of_gathered(name, statements, below, self.draft.info)
            found = below.box(name)
            if found is not None and waits is not None and waits[1] < waits[0]:
                yield self._move(name, below, *waits, statements)

    def _move(
        self,
        tensor: str,
        below: Footprint,
        before: int,
        after: int,
        statements: Sequence[ScopStatement],
        *,
        is_repeated: bool = False,
    ) -> Move:
        """The move of a tensor to shared memory, where rows have an odd pitch: rows with what lies
        beyond the ends of ranges, for which the buffer has room, too."""
        found = below.box(tensor)
        assert found is not None
        counts, pitch = found.counts, None
        whole = below.box(tensor, tails=True) or found
        held = whole.counts
        if prod(held[:-1]) > 1 and (self.found is None or self.found.crosses_rows(tensor)):
            is_wide = self.found is not None and self.found.reads_wide(tensor)
            pitch = odd_pitch(held[-1], WIDE if is_wide else 1)
        padded = self.draft.info.fill(tensor, statements) is not None
        wanted = self.options.unroll_copies
        unroll = self.found is not None if wanted is None else wanted
        action = Promote(tensor, SHARED, padded=padded, pitch=pitch, unroll=unroll)
        if self.found is not None and not padded and self._may_copy_async(tensor):
            lanes = self._lanes(tensor, whole, pitch or held[-1])
            stages = self.stages if is_repeated else 1
            action = replace(action, through=ASYNC, lanes=lanes, stages=stages)
        return Move(f"{tensor} in shared memory", action, counts, before, after)

    def _may_copy_async(self, tensor: str) -> bool:
        """Whether memory can be told to copy elements of a tensor as they are."""
        scop = self.draft.info.scop
        return tensor not in scop.gathers and is_copied_async(scop.dtype(tensor))

    def _lanes(self, tensor: str, held: Box, pitch: int) -> int:
        """How many neighbours of a row one copy takes: 16 bytes, where tiles and rows of memory and
        of the buffer begin at multiples of as many, or fewer."""
        info = self.draft.info
        steps = info.steps(tensor)
        lanes = 16 // info.scop.dtype(tensor).bytes
        last = held.offsets[-1]
        numbers = [pitch, held.sizes[-1], last.constant, *last.terms.values()]
        numbers += [info.scop.shape(tensor)[-1], *steps[:-1]]
        while lanes > 1 and (steps[-1] != 1 or any(number % lanes for number in numbers)):
            lanes //= 2
        return lanes

    def _held(self, names: tuple[str, ...]) -> set[str]:
        """The tensors of which a tile is promoted already, in the children of the part that run
        some statements."""
        children = in_order(self.draft.tree)
        own = (child for child in children if not set(leaves(child)).isdisjoint(names))
        return {tile.tensor for child in own for tile in tiles(child)}

    def _written(self, names: tuple[str, ...]) -> set[str]:
        """The tensors that the child of the part writes that runs some statements: a block may read
        only those of their elements that it writes itself."""
        children = in_order(self.draft.tree)
        own = (leaves(child) for child in children if not set(leaves(child)).isdisjoint(names))
        return {s.write.tensor for found in own for s in self._statements(tuple(found))}

    def _is_turned(self, tensor: str, users: list[ScopStatement], held: Box) -> bool:
        """Whether threads along x, of statements that sum nothing, go across the rows of a tensor
        of which the tile has whole sectors: each would ask for a line of memory of its own, where
        threads that copy the tile go along its rows."""
        lane, info = self.lane, self.draft.info
        row = held.counts[-1] * info.scop.dtype(tensor).bytes
        if lane is None or row < SECTOR_BYTES or info.steps(tensor)[-1] != 1 or len(users) > 1:
            return False
        strides = [
            info.stride(access, lane.values[s.name].variable)
            for s in users
            for access in s.reads
            if access.tensor == tensor and not s.accumulates
        ]
        few = SECTOR_BYTES // info.scop.dtype(tensor).bytes
        return bool(strides) and all(
            stride is not None and abs(stride) >= few for stride in strides
        )

    def _is_coalesced(self, tensor: str, users: list[ScopStatement]) -> bool:
        """Whether all accesses step through memory with the threads along x."""
        lane, info = self.lane, self.draft.info
        return lane is not None and all(
            info.stride(access, lane.values[s.name].variable) == 1
            for s in users
            for access in s.accesses
            if access.tensor == tensor
        )


# --- what is gathered ---------------------------------------------------------------------------


def waits_of_gathered(
    name: str, statements: Sequence[ScopStatement], below: Footprint, info: AccessInfo
) -> tuple[int, int] | None:
    """How often threads wait for what some statements gather, `name`, from memory, and in copies to
    shared memory; None where it is not copied. Steps of a reduction that gather wait one after the
    other; in a copy all threads ask for elements at once, and wait once for each place from which
    elements are gathered."""
    gather, found = info.scop.gathers[name], below.box(name, tails=True) or below.box(name)
    if found is None or (info.check and gather.is_checked):
        return None
    users = [s for s in statements for a in s.gathers if a.tensor == name]
    in_steps = any(s.accumulates for s in users)
    waits = _dimensions_of_places(gather) if in_steps else range(len(found.counts))
    return sum(map(below.instances, users)), prod(found.counts[d] for d in waits)


def _dimensions_of_places(gather: Gather) -> set[int]:
    """The dimensions along which the tensors are read that hold places."""
    inside = (
        index
        for subscript in gather.value.subscripts
        for read in p.walk(subscript)
        if isinstance(read, p.Read)
        for index in p.index_names(read)
    )
    numbers = {own.name: number for number, own in enumerate(gather.dimensions)}
    return {numbers[name] for name in inside}


def without_places(
    moves: Iterable[Move],
    held: Collection[str],
    statements: Sequence[ScopStatement],
    info: AccessInfo,
) -> list[Move]:
    """The moves but for those of tensors that statements read only for the places from which
    tensors that are `held` are gathered."""
    places = {
        read.site
        for s in statements
        for access in s.gathers
        if access.tensor in held
        for subscript in info.reads[access.site].subscripts
        for read in p.walk(subscript)
        if isinstance(read, p.Read)
    }
    return [
        move
        for move in moves
        if not places.issuperset(
            a.site for s in statements for a in s.promotable if a.tensor == move.action.tensor
        )
    ]


# --- registers ----------------------------------------------------------------------------------


def _is_scattered(tensor: str, below: Footprint) -> bool:
    """Whether reads and writes at several distances, as of x(i) and x(i+2), leave elements between
    the elements of a tile. Other blocks or threads have those, and that such tiles are disjoint is
    seldom proven."""
    accesses = [a for s in below.users(tensor) for a in s.accesses if a.tensor == tensor]
    shifts = {tuple(x and x.constant for x in access.subscripts) for access in accesses}
    box = below.box(tensor) if below.around and len(shifts) > 1 else None
    return box is not None and any(step > 1 for step in box.steps)


# --- how much is held ---------------------------------------------------------------------------


def shared_bytes(node: Node, scop: Scop) -> int:
    """The bytes of shared memory that the tiles of a tree take, and its exchanges of
    accumulators."""
    held = sum(bytes_in_shared(_bytes(tile, scop)) for tile in tiles(node) if tile.scope == SHARED)
    return held + exchanged_bytes(node, scop)


def register_bytes(node: Node, scop: Scop) -> int:
    """The bytes of registers that a thread holds at once, at most: of tiles inside of each
    other."""
    own = node.tiles if isinstance(node, Promotion) else ()
    held = sum(_bytes(tile, scop) for tile in own if tile.scope == REGISTER)
    return held + max((register_bytes(child, scop) for child in children(node)), default=0)


def _bytes(tile: ArrayTile, scop: Scop) -> int:
    return prod(tile.shape) * tile.held_type(scop.dtype(tile.tensor)).bytes
