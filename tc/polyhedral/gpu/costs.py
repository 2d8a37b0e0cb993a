"""What a tile of a reduction costs on a multiprocessor: cycles, by a formula over digits.

The threads of a block compute a tile of the results of a sum, each thread some of them, for some
steps of the reduction at a time. What they read is copied to shared memory once for these steps.
The four schedulers of a multiprocessor begin an instruction each in a cycle, shared memory serves
128 bytes in a cycle, and blocks that are there at once hide each other's waiting.
(Volkov, Better performance at lower occupancy, 2010; Jia et al., Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking, 2018.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

from tc.dtypes import DType
from tc.gpu import Gpu, bytes_in_shared
from tc.kernel.verify import COPIED_BYTES
from tc.plan import ASYNC_BYTES, AXES
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.gpu.shared_banks import Lanes, odd_pitch, places_of, wavefronts
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access, ScopStatement
from tc.semantics import program as p


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiprocessorCosts:
    """Costs in cycles of a multiprocessor.

    Each of these decides the plan of some program (`tests/polyhedral/gpu/test_tile_costs.py`)."""

    waiting: float = 900.0
    """From the first copy for some steps to the first step: a read of memory, a store to shared
    memory, two barriers."""

    meeting: float = 150.0
    """A barrier, and the first reads of shared memory behind it."""

    shared_waiting: float = 30.0
    direct_waiting: float = 250.0
    """From a read of shared memory, or of the second cache, to its first use."""

    copy_instructions: float = 4.0
    """Instructions with which a thread copies an element: a read, a store, the places of both."""

    fetched_bytes: float = 20.0
    """Bytes that come from the second cache in a cycle."""

    matrix_cycles: float = 8.0
    """In which a tensor core multiplies 16 rows and 8 columns of 16 halves."""


COSTS = MultiprocessorCosts()

BESIDE_RESULTS = 40
"""Registers of a thread beside its results and the operands of a step."""

SCHEDULERS = 4
LINE_WORDS, SECTOR_WORDS = 32, 8
LEAST_READ_CYCLES = 2
"""Words of a line of the first cache, and the cycles that a read of it takes at least."""

MOST_AT_ONCE, MOST_STATEMENTS = 9, 512
"""Steps, and statements, that stand in the text of a thread without a loop at most."""

STEPS_AHEAD = 4
"""Steps of a reduction whose operands are read before the first of them is computed."""

WIDE = 4
"""Words that one instruction reads of shared memory at most."""


@dataclass(frozen=True)
class ThreadTile:
    """How the threads of a block share a tile. Along each parallel loop there are so many
    `threads`, each of which has `own` iterations, as many iterations apart as there are threads;
    the loops of the reduction run `steps` iterations at a time. With several `stages`, operands of
    the next steps are copied meanwhile."""

    threads: tuple[int, ...]
    own: tuple[int, ...]
    steps: tuple[int, ...]
    stages: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The iterations of the tile along each parallel loop.

        >>> ThreadTile((8, 32), (4, 1), (16,)).sizes
        (32, 32)
        """
        return tuple(t * o for t, o in zip(self.threads, self.own, strict=True))


@dataclass(frozen=True)
class Operand:
    """What a statement reads of a tensor: for each dimension by how many elements a step of each
    loop moves, parallel loops first, and by how many elements of memory (`strides`); an element has
    so many `words` of 32 bits. Of what is read in two ways, as A(i,k) and A(j,k), no box holds all
    (`has_box`). Elements that tiles hold as they are in memory may be copied ahead (`is_plain`)."""

    tensor: str
    moves: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    words: int
    has_box: bool = True
    is_plain: bool = True

    def elements(self, counts: Sequence[int], apart: Sequence[int]) -> int:
        """How many elements so many iterations of each loop touch at most, which are so far apart:
        in each dimension, no more than a box around them has.

        >>> image = Operand("I", ((1, 1),), (1, 1), 1)  # I(w+kw)
        >>> image.elements((8, 3), (1, 1)), image.elements((2, 1), (16, 1))
        (10, 2)
        """
        total = 1
        for dimension in self.moves:
            moves = [
                (abs(m) * a, n - 1)
                for m, n, a in zip(dimension, counts, apart, strict=True)
                if m and n > 1
            ]
            if moves:
                step = gcd(*(m for m, _ in moves))
                box = 1 + sum(m * n for m, n in moves) // step
                total *= min(box, prod(n + 1 for _, n in moves))
        return total

    def goes_along_last(self, loop: int, tile: ThreadTile) -> bool:
        """Whether a loop goes on by one element along the last dimension, and no other loop that
        has several iterations in a tile moves along it.

        >>> part = Operand("A", ((0, 0, 0), (128, 0, 1)), (128, 0, 1), 1)  # A(m, 128*part + k)
        >>> part.goes_along_last(2, ThreadTile((1, 8), (1, 4), (16,)))
        True
        >>> part.goes_along_last(2, ThreadTile((2, 8), (1, 4), (16,)))
        False
        """
        last = self.moves[-1] if self.moves else ()
        counts = (*tile.sizes, *tile.steps)
        moving = [n for n, move in enumerate(last) if move and counts[n] > 1]
        return len(moving) == 1 and moving[0] == loop % len(last) and last[loop] == 1

    def row(self, counts: Sequence[int]) -> int:
        """How many neighbours in memory so many iterations of each loop touch."""
        last = self.moves[-1] if self.moves else ()
        return 1 + sum(abs(m) * (n - 1) for m, n in zip(last, counts, strict=False))

    def moves_with(self, loop: int) -> bool:
        return any(dimension[loop] for dimension in self.moves)

    def crosses_rows(self, tile: ThreadTile) -> bool:
        """Whether neighbours among the threads read other rows."""
        loops = [n for n, count in enumerate(tile.threads) if count > 1]
        return any(dimension[loop] for dimension in self.moves[:-1] for loop in loops)

    def held_strides(self, tile: ThreadTile, together: int) -> tuple[int, ...]:
        """By how many words a step of each loop moves in the buffer of a tile, whose rows have an
        odd pitch, in groups of elements that are read `together`, where threads cross rows.

        >>> rows = Operand("A", ((1, 0), (0, 1)), (100, 1), 1)  # A(i,k)
        >>> rows.held_strides(ThreadTile((8,), (1,), (16,)), 4)
        (20, 1)
        """
        counts = (*tile.sizes, *tile.steps)
        strides, step = [0] * len(counts), self.words
        for number, dimension in enumerate(reversed(self.moves)):
            moves = [abs(m) if n > 1 else 0 for m, n in zip(dimension, counts, strict=True)]
            unit = gcd(*moves) or 1
            for loop, move in enumerate(moves):
                strides[loop] += step * (move // unit)
            held = 1 + sum(m * (n - 1) for m, n in zip(moves, counts, strict=True)) // unit
            if number == 0 and self.crosses_rows(tile):
                held = odd_pitch(held, together) or held
            step *= held
        return tuple(strides)


@dataclass(frozen=True)
class Reduction:
    """A statement that reduces: the `extents` of its parallel loops and, after `parallel` of them,
    of those of the reduction; its `result` and its `operands`; and for each of its instances so
    many `operations` that the schedulers begin."""

    extents: tuple[int, ...]
    parallel: int
    result: Operand
    operands: tuple[Operand, ...]
    operations: int

    @property
    def reads_again(self) -> bool:
        """Whether several results need each element that is read: what a block copies is of use to
        several of its threads."""
        loops = [loop for loop in range(self.parallel) if self.extents[loop] > 1]
        return all(
            self.windows or any(not operand.moves_with(loop) for loop in loops)
            for operand in self.operands
        )

    @cached_property
    def windows(self) -> frozenset[int]:
        """The parallel loops that move along one dimension with loops of the reduction, and by no
        more than these, as the rows of an image with those of a filter: neighbours read some of the
        same elements."""
        steps = self.extents[self.parallel :]
        return frozenset(
            loop
            for operand in self.operands
            for dimension in operand.moves
            for loop in range(self.parallel)
            if dimension[loop]
            and abs(dimension[loop])
            <= sum(
                abs(move) * (extent - 1)
                for move, extent in zip(dimension[self.parallel :], steps, strict=True)
            )
        )

    def apart(self, tile: ThreadTile) -> tuple[int, ...]:
        """How far the iterations of a thread are apart, along each parallel loop."""
        return tuple(
            1 if loop in self.windows else count for loop, count in enumerate(tile.threads)
        )

    def fours(self, tile: ThreadTile) -> frozenset[int]:
        """The parallel loops of which a thread has iterations in fours, next to each other in the
        rows of what it reads."""
        return frozenset(
            loop
            for loop in range(self.parallel)
            if tile.own[loop] % WIDE == 0
            and loop not in self.windows
            and any(operand.goes_along_last(loop, tile) for operand in self.operands)
        )

    def fills(self, step: int) -> bool:
        """Whether steps of a loop of the reduction beyond its end would read beyond a tensor, where
        buffers hold zeros, and not what another loop reads."""
        loop = self.parallel + step
        return any(
            dimension[loop] and sum(map(bool, dimension)) == 1
            for operand in self.operands
            for dimension in operand.moves
        )

    def at_once(self, tile: ThreadTile) -> tuple[int, ...]:
        """How many steps of each loop of the reduction stand in the text of a thread, one after the
        other: all of small loops, for which no element is read twice, or some that read neighbours
        in memory at once."""
        found: tuple[int, ...] = ()
        room = MOST_STATEMENTS // prod(tile.own)
        for count in reversed(tile.steps):
            if prod(found) * count > min(MOST_AT_ONCE, room) or (found and found[0] == 1):
                count = WIDE if not found and count % WIDE == 0 and room >= WIDE else 1
            found = (count, *found)
        return found

    def reads_wide(self, operand: Operand, tile: ThreadTile) -> bool:
        """Whether a thread reads several steps of an operand at once."""
        return self.at_once(tile)[-1] % WIDE == 0 and operand.goes_along_last(-1, tile)

    def reads_of(self, operand: Operand, tile: ThreadTile) -> tuple[float, int]:
        """How many elements of an operand a thread reads for a step, and how many of them all
        threads read for the steps of a tile."""
        together, ones = self.at_once(tile), (1,) * len(tile.steps)
        own = operand.elements((*tile.own, *together), (*self.apart(tile), *ones))
        held = operand.elements((*tile.sizes, *tile.steps), (1,) * len(self.extents))
        return own / prod(together), held

    def is_held(self, operand: Operand, tile: ThreadTile) -> bool:
        """Whether a block holds the elements of an operand in shared memory: where half of what its
        threads read, or more, others have read, too."""
        own, held = self.reads_of(operand, tile)
        return operand.has_box and 2 * held <= prod(tile.threads) * prod(tile.steps) * own

    def next_ones(self, tile: ThreadTile) -> tuple[int, ...]:
        """How far on the next thread along each parallel loop begins."""
        fours = self.fours(tile)
        return tuple(
            own if loop in self.windows else WIDE if loop in fours else 1
            for loop, own in enumerate(tile.own)
        )

    @cached_property
    def by_stride(self) -> tuple[int, ...]:
        """The parallel loops, first those along which the result has neighbours in memory."""
        loops = range(self.parallel)
        return tuple(sorted(loops, key=lambda n: (abs(self.result.strides[n]) or 1 << 62, -n)))


@dataclass(frozen=True)
class TileOfSums:
    """The tile of a part, made for one of its statements."""

    statement: str
    variables: tuple[str | None, ...]
    reduction: Reduction
    tile: ThreadTile

    def crosses_rows(self, tensor: str) -> bool:
        """Whether neighbours among the threads read other rows of a tensor."""
        own = (o for o in self.reduction.operands if o.tensor == tensor)
        return any(operand.crosses_rows(self.tile) for operand in own)

    def is_held(self, tensor: str) -> bool | None:
        """Whether a block holds elements of a tensor in shared memory; None of what is no operand
        of the sum."""
        own = [o for o in self.reduction.operands if o.tensor == tensor]
        return any(self.reduction.is_held(o, self.tile) for o in own) if own else None

    def neighbours(self, member: Member, own: int) -> int:
        """How many of its `own` iterations of a loop a thread has next to each other."""
        loop = self.variables.index(member.values[self.statement].variable)
        if loop in self.reduction.windows:
            return own
        is_in_fours = loop in self.reduction.fours(self.tile) and own % WIDE == 0
        return WIDE if is_in_fours else 1

    def reads_wide(self, tensor: str) -> bool:
        """Whether a thread reads several steps of a tensor at once."""
        own = (o for o in self.reduction.operands if o.tensor == tensor)
        return any(self.reduction.reads_wide(operand, self.tile) for operand in own)


def reduction_of(
    statement: ScopStatement, loops: Sequence[Member], steps: Sequence[Member], info: AccessInfo
) -> Reduction | None:
    """What a statement does in parallel loops and loops of its reduction; None where it reads what
    has no linear place."""
    variables = [member.values[statement.name].variable for member in (*loops, *steps)]
    reads = [a for a in statement.reads if a.tensor != statement.write.tensor]
    if statement.gathers or None in variables or any(None in a.subscripts for a in reads):
        return None
    extents = [end - begin for begin, end in (statement.ranges[v] for v in variables if v)]
    found: dict[tuple[str, tuple[tuple[int, ...], ...]], Operand] = {}
    for access in reads:
        operand = _operand(access, variables, info)
        found.setdefault((operand.tensor, operand.moves), operand)
    ways = Counter(operand.tensor for operand in found.values())
    update = info.scop.shaped.program.statements[statement.position].rhs
    return Reduction(
        tuple(extents),
        len(loops),
        _operand(statement.write, variables, info),
        tuple(replace(operand, has_box=ways[operand.tensor] == 1) for operand in found.values()),
        max(1, _operations(update)) * (info.bits(statement) // 32),
    )


def _operations(expr: p.Expr) -> int:
    """What of an expression is computed, beside the subscripts of what it reads."""
    if isinstance(expr, p.Read):
        return 0
    own = isinstance(expr, p.Binary | p.Unary | p.Call | p.Compare | p.Select)
    return own + sum(map(_operations, p.children(expr)))


def is_copied_async(dtype: DType) -> bool:
    """Whether memory can be told to copy elements to shared memory, which holds them in the type of
    computation.

    >>> from tc.dtypes import FLOAT16, FLOAT32, INT8
    >>> [is_copied_async(dtype) for dtype in (FLOAT32, FLOAT16, INT8)]
    [True, False, False]
    """
    return not dtype.is_storage and min(COPIED_BYTES) <= dtype.bytes <= max(ASYNC_BYTES)


def _operand(access: Access, variables: Sequence[str | None], info: AccessInfo) -> Operand:
    dtype = info.scop.dtype(access.tensor).computed
    return Operand(
        access.tensor,
        tuple(
            tuple(form.terms.get(v, 0) if v else 0 for v in variables)
            for form in access.subscripts
            if form is not None
        ),
        tuple(info.stride(access, v) or 0 for v in variables),
        max(1, dtype.bytes // 4),
        is_plain=is_copied_async(info.scop.dtype(access.tensor)),
    )


@dataclass(frozen=True)
class TileCost:
    """What a tile takes: `cycles` of a multiprocessor in all, `registers` of a thread, bytes of
    `shared` memory of a block."""

    cycles: float
    registers: int
    shared: int


def cost_of(
    tile: ThreadTile,
    reduction: Reduction,
    gpu: Gpu,
    most_results: int,
    costs: MultiprocessorCosts = COSTS,
) -> TileCost | None:
    """What a tile costs; None where a block cannot have it."""
    work = _BlockWork(tile, reduction, gpu)
    results = 4 * work.own * reduction.result.words
    if results > most_results or work.registers > gpu.thread_registers or work.shared > gpu.shared:
        return None
    fitting = gpu.blocks_at_once(work.threads, work.shared, work.registers) // gpu.processors
    blocks, serial = work.blocks
    each = -(-blocks // gpu.processors)
    busy = work.busy(costs)
    chain, fetched = max(busy, work.chain(costs)), 4 * work.copied_words
    turns = work.turns * serial
    cycles = turns * cycles_of(each, fitting, busy, chain, fetched, tile.stages, costs)
    return TileCost(
        cycles + each * work.results_cycles(costs) * serial, work.registers, work.shared
    )


def cycles_of(
    blocks: int,
    fitting: int,
    busy: float,
    chain: float,
    fetched: float,
    stages: int,
    costs: MultiprocessorCosts,
) -> float:
    """Cycles of a multiprocessor for some steps of the reduction in so many `blocks`, of which
    `fitting` run at a time: each is `busy` for some cycles, takes the cycles of the `chain` where
    it is alone, and copies `fetched` bytes, ahead where these have several `stages`."""
    rounds, rest = divmod(blocks, fitting)
    alone = chain + costs.waiting if stages == 1 else max(chain, costs.waiting) + costs.meeting
    time = rounds * _together(fitting * busy, alone) + (
        _together(rest * busy, alone) if rest else 0
    )
    return _together(time, blocks * fetched / costs.fetched_bytes)


class _BlockWork:
    """What a block does for some steps of a reduction, and how often."""

    def __init__(self, tile: ThreadTile, reduction: Reduction, gpu: Gpu) -> None:
        self.tile, self.reduction, self.gpu = tile, reduction, gpu
        own, steps = tile.own, tile.steps
        self.threads = prod(tile.threads)
        self.warps = -(-self.threads // gpu.warp)
        self.steps = prod(steps)
        self.own = prod(own)
        ones = (1,) * len(steps)
        apart = (*reduction.apart(tile), *ones)
        fours = reduction.fours(tile)
        self.reads = self.wavefronts = self.direct = self.direct_cycles = 0.0
        self.copies = self.copy_cycles = 0.0
        self.copied_words = self.shared = near = 0
        for operand in reduction.operands:
            each, held = reduction.reads_of(operand, tile)
            near += operand.elements((*own, *ones), apart) * operand.words
            if reduction.is_held(operand, tile):
                steps_at_once = WIDE if reduction.reads_wide(operand, tile) else 1
                strides = operand.held_strides(tile, steps_at_once)
                wide = {*fours, -1} if steps_at_once > 1 else fours
                is_wide = any(operand.goes_along_last(loop, tile) for loop in wide)
                is_wide = is_wide and not any(n % WIDE for n in strides if n > WIDE)
                width = WIDE if is_wide else operand.words
                reads = each * operand.words / width
                self.reads += reads
                self.wavefronts += reads * wavefronts(self._lanes(strides), width, gpu.warp)
                self.copied_words += held * operand.words
                self.shared += bytes_in_shared(4 * held * operand.words)
                copies = -(-held // self.threads) * operand.words
                row = operand.row((*tile.sizes, *steps)) * operand.words
                self.copies += copies
                self.copy_cycles += copies * (
                    1 + (row < gpu.warp) + max(LEAST_READ_CYCLES, gpu.warp / row)
                )
            else:
                self.direct += each * operand.words
                lines = max(LEAST_READ_CYCLES, self._lines(operand))
                self.direct_cycles += each * operand.words * lines
        self.shared *= tile.stages
        self.registers = self.own * reduction.result.words + near + BESIDE_RESULTS

    def _lanes(self, strides: Sequence[int]) -> Lanes:
        """The lanes of a warp, where a step of each loop moves by so many words."""
        far = self.reduction.next_ones(self.tile)
        return tuple(
            (self.tile.threads[loop], far[loop] * strides[loop])
            for loop in self.reduction.by_stride
            if self.tile.threads[loop] > 1
        )

    def _lines(self, operand: Operand) -> int:
        """Lines of 128 bytes that a warp touches where each lane accesses an element."""
        return self._parts(operand, LINE_WORDS)

    def _parts(self, operand: Operand, words: int) -> int:
        """Parts of so many words that a warp touches where each lane accesses an element."""
        lanes = self._lanes([abs(stride) * operand.words for stride in operand.strides])
        return len({at // words for at in places_of(lanes, self.gpu.warp)})

    @property
    def blocks(self) -> tuple[int, int]:
        """How many blocks there are, and how many tiles each of these has: three axes have
        numbers."""
        loops = zip(self.reduction.extents, self.tile.sizes, strict=False)
        counts = sorted((-(-extent // size) for extent, size in loops), reverse=True)
        return prod(counts[: len(AXES)]), prod(counts[len(AXES) :])

    @property
    def turns(self) -> int:
        extents = self.reduction.extents[self.reduction.parallel :]
        return prod(-(-n // size) for n, size in zip(extents, self.tile.steps, strict=True))

    def busy(self, costs: MultiprocessorCosts) -> float:
        """Cycles of the block for some steps, if nobody waits."""
        of_a_step = self.own * self.reduction.operations + self.reads + self.direct + 1
        instructions = self.steps * of_a_step + self.copies * costs.copy_instructions
        issued = self.warps * instructions / SCHEDULERS
        memory = self.steps * (self.wavefronts + self.direct_cycles) + self.copy_cycles
        return _together(issued, self.warps * memory)

    def chain(self, costs: MultiprocessorCosts) -> float:
        """Cycles for which a warp that is alone runs some steps."""
        begun = 2 * self.own * self.reduction.operations + self.reads + self.direct
        waits = costs.shared_waiting * bool(self.reads) / STEPS_AHEAD
        waits += costs.direct_waiting * bool(self.direct)
        return self.steps * (begun + waits)

    def results_cycles(self, costs: MultiprocessorCosts) -> float:
        """For the results of a block: neighbours that a thread has are stored at once."""
        result = self.reduction.result
        sent = self._parts(result, SECTOR_WORDS) * 4 * SECTOR_WORDS / costs.fetched_bytes
        cycles = max(LEAST_READ_CYCLES, self._lines(result), sent)
        at_once = any(abs(result.strides[n]) == 1 for n in self.reduction.fours(self.tile))
        return self.warps * self.own * result.words * cycles / (WIDE if at_once else 1)


def _together(one: float, other: float) -> float:
    """The time of two that overlap in part: a little more than the longer one's.

    >>> _together(4.0, 4.0), _together(8.0, 0.0)
    (5.0, 8.0)
    """
    longer, shorter = max(one, other), min(one, other)
    return longer + shorter * (shorter / longer) ** 2 / 4 if longer else 0.0
