"""The tiles of sums that tensor cores compute: the cheapest of some, by cycles of a multiprocessor.

Warps share the rows and columns of a block's tile; each has some tiles of 16 rows and some of 8
columns, whose results are in registers, and reads operands of some steps at a time from shared
memory: 16 of halves, 8 of floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import TypeAlias

from tc.dtypes import FLOAT32
from tc.gpu import Gpu, bytes_in_shared
from tc.kernel.ir import LEFT_ROWS, RESULTS, RIGHT_ROWS
from tc.kernel.matrix_products import F16, LINE_BYTES, MatrixProduct
from tc.kernel.passes.loads_ahead import MOST_BYTES_AHEAD
from tc.plan import ASYNC, SHARED, Promote
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.footprint import Box
from tc.polyhedral.gpu.costs import (
    BESIDE_RESULTS,
    COSTS,
    SCHEDULERS,
    MultiprocessorCosts,
    cycles_of,
)
from tc.polyhedral.gpu.tensor_cores import (
    COLUMN_DIGITS,
    ROW_DIGITS,
    dimension_of,
    factors_of,
    moves_with,
)
from tc.polyhedral.promotion import Footprint
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access, ScopStatement

ROW_OF_BANKS = 128
"""Bytes that shared memory serves in a cycle."""

SECTOR_BYTES = 32
"""Bytes that come from memory together: what lies farther apart is not copied to lines."""

FRAGMENT_CYCLES, COPY_CYCLES = 4, 3
"""For which shared memory is busy with four fragments of 8 lines of a warp, and, with the cache
before it, with what is copied for each cycle in which that is stored."""

WORDS_AT_ONCE = 4
"""Words of fragments that one instruction loads; where floats lie across lines, it loads one."""

ROUNDING_INSTRUCTIONS = 2
"""Instructions in which a thread rounds a float to tf32."""

MOST_WARPS = 8


@dataclass(frozen=True)
class MatrixSum:
    """A statement that adds up products: the `extents` of its loops over rows and columns of
    results and over steps, and the variables of the three loops; how many such sums there are
    (`batch`), and how often the steps run (`outer_steps`). Of each operand, `across` says whether
    its lines are not of steps.

    The loops of `windows` run inside of a tile: of them, of which there are `window_steps`
    iterations, an operand has so many `rows_beside` those of the tile, and so many `planes`. Where
    the steps are a part of a dimension (`is_part`), what lies behind them is of another sum, so
    that tiles have no steps beyond the last."""

    statement: str
    extents: tuple[int, int, int]
    variables: tuple[str, str, str]
    batch: int
    outer_steps: int
    product: MatrixProduct = F16
    across: tuple[bool, bool] = (False, False)
    windows: tuple[str, ...] = ()
    window_steps: int = 1
    rows_beside: tuple[int, int] = (0, 0)
    planes: tuple[int, int] = (1, 1)
    is_part: bool = False


@dataclass(frozen=True)
class WarpTile:
    """How the warps of a block share a tile: so many `warps` along rows and columns, so many tiles
    of 16 rows and of 8 columns for each, and `steps` at a time, of which there is room for as many
    `stages`."""

    warps: tuple[int, int]
    own: tuple[int, int]
    steps: int
    stages: int = 1

    @property
    def sizes(self) -> tuple[int, int]:
        """The rows and columns of the block's tile.

        >>> WarpTile((2, 2), (4, 8), 64).sizes
        (128, 128)
        """
        rows, columns = self.own
        return self.warps[0] * rows * LEFT_ROWS, self.warps[1] * columns * RIGHT_ROWS

    def shared(self, operand: int, found: MatrixSum) -> int:
        """Bytes of shared memory of the left or the right operand, whichever way it lies."""
        made_of, count = found.product, self.sizes[operand] + found.rows_beside[operand]
        lines = (count, self.steps, False), (self.steps, count, True)
        return found.planes[operand] * max(
            made_of.dtype.bytes * n * pitch_of(length, made_of, across=across)
            for n, length, across in lines
        )

    def copied(self, found: MatrixSum) -> int:
        """Bytes that are copied to shared memory for some steps."""
        rows = sum(
            planes * (size + beside)
            for planes, size, beside in zip(
                found.planes, self.sizes, found.rows_beside, strict=True
            )
        )
        return found.product.dtype.bytes * rows * self.steps


def pitch_of(length: int, product: MatrixProduct = F16, *, across: bool = False) -> int:
    """The room for a line of a tile, in elements: an odd number of groups, so that what threads
    read at once lies in different banks. A group is a line of 16 bytes of which eight threads read
    one each or, where threads read words across lines (`reads_words`), the eight words in each of
    four lines.

    >>> pitch_of(64), pitch_of(72), pitch_of(128)
    (72, 72, 136)
    >>> from tc.kernel.matrix_products import TF32
    >>> pitch_of(64, TF32), pitch_of(64, TF32, across=True)
    (68, 72)
    """
    group = RIGHT_ROWS if reads_words(product, across) else product.line
    groups = -(-length // group)
    return (groups + (groups % 2 == 0)) * group


def reads_words(product: MatrixProduct, across: bool) -> bool:
    """Whether threads read the words of a fragment one by one: what ldmatrix turns around are
    halves."""
    return across and product.dtype.bytes > 2


def matrix_sums(
    statement: ScopStatement, loops: tuple[Member, ...], steps: tuple[Member, ...], info: AccessInfo
) -> Iterator[MatrixSum]:
    """What a statement in parallel loops and loops of its reduction adds up, with windows inside of
    a tile, and without; nothing where tensor cores cannot: where an operand has no lines of rows or
    of steps in memory, or no whole tile."""
    factors = factors_of(statement, info.scop)
    name = statement.name
    parallel = [m.values[name].variable for m in loops]
    summed = [m.values[name].variable for m in steps]
    if factors is None or None in parallel or None in summed:
        return
    extents = {v: end - begin for v, (begin, end) in statement.ranges.items()}
    made_of, several = factors.product, prod(extents[v] for v in summed if v)
    left, right = factors.reads
    rows, columns = (_own(one, other, parallel) for one, other in ((left, right), (right, left)))
    for step, row, column in product(reversed(summed), reversed(rows), reversed(columns)):
        if not step or not row or not column:
            continue
        found = extents[row], extents[column], extents[step]
        least = (LEFT_ROWS, RIGHT_ROWS, made_of.steps)
        if any(extent < size for extent, size in zip(found, least, strict=True)):
            continue
        batch = prod(extents[v] for v in parallel if v) // (found[0] * found[1])
        plain = MatrixSum(name, found, (row, column, step), batch, several // found[2], made_of)
        operands = (left, row), (right, column)
        ways = [
            way
            for inside in dict.fromkeys((_windows(operands, summed, step, parallel), ()))
            if (way := _with_windows(plain, operands, inside, extents, info)) is not None
        ]
        yield from ways
        if ways:
            return


_Operands: TypeAlias = "tuple[tuple[Access, str], tuple[Access, str]]"
"""Both factors, each with the variable of its rows or columns."""


def _windows(
    operands: _Operands, summed: list[str | None], step: str, parallel: list[str | None]
) -> tuple[str, ...]:
    """The variables of loops of a sum that move an operand along with a parallel loop."""
    return tuple(
        v
        for v in summed
        if v and v != step and any(_is_window(access, v, step, parallel) for access, _ in operands)
    )


def _with_windows(
    plain: MatrixSum,
    operands: _Operands,
    inside: tuple[str, ...],
    extents: Mapping[str, int],
    info: AccessInfo,
) -> MatrixSum | None:
    """The sum with some loops inside of its tiles; None where an operand lies in no lines."""
    _, _, step = plain.variables
    beside, planes = zip(*(_grown(a, v, inside, extents) for a, v in operands), strict=True)
    for (access, variable), count in zip(operands, planes, strict=True):
        if not _is_in_lines(access, variable, step, count, info):
            return None
    across = [_line_dimension(a, v, step, inside) != dimension_of(a, step, v) for a, v in operands]
    forms = (a.subscripts[dimension_of(a, step, v) or 0] for a, v in operands)
    return replace(
        plain,
        across=(across[0], across[1]),
        windows=inside,
        window_steps=prod(extents[v] for v in inside),
        rows_beside=beside,
        planes=planes,
        is_part=any(form is not None and len(form.terms) > 1 for form in forms),
    )


def _is_window(access: Access, variable: str, step: str, parallel: list[str | None]) -> bool:
    """Whether a variable moves an access along with one of a parallel loop, and not with steps."""
    forms = [form.terms for form in access.subscripts if form and variable in form.terms]
    return any(v in terms for terms in forms for v in parallel) and not any(
        step in terms for terms in forms
    )


def _grown(
    access: Access, own: str, inside: tuple[str, ...], extents: Mapping[str, int]
) -> tuple[int, int]:
    """How many rows a tile has beside its own, and how many such planes, of loops inside of it."""
    beside, planes = 0, 1
    for form in access.subscripts:
        terms = {v: c for v, c in form.terms.items() if v in inside} if form else {}
        if form and own in form.terms:
            beside += sum(abs(c) * (extents[v] - 1) for v, c in terms.items())
        else:
            planes *= prod(extents[v] for v in terms)
    return beside, planes


def _own(access: Access, other: Access, parallel: list[str | None]) -> list[str]:
    """The variables along which one factor moves and the other does not."""
    return [v for v in parallel if v and moves_with(access, v) and not moves_with(other, v)]


def _is_in_lines(access: Access, variable: str, step: str, planes: int, info: AccessInfo) -> bool:
    """Whether elements along a variable, or along the steps, lie near each other in memory, or with
    nothing between them but the elements of other planes, and each counts the elements of a
    dimension that the other does not move along."""
    if None in (dimension_of(access, variable, step), dimension_of(access, step, variable)):
        return False
    strides = [info.stride(access, v) for v in (variable, step)]
    near = SECTOR_BYTES // info.scop.dtype(access.tensor).bytes
    return any(stride is not None and 0 < stride <= max(near, planes) for stride in strides)


def _line_dimension(access: Access, variable: str, step: str, inside: tuple[str, ...]) -> int:
    """The dimension along which lines of a tile lie: the last, or that of the steps where neither
    moves along the last, or a loop inside of the tile does, so that lines begin anywhere."""
    last = len(access.subscripts) - 1
    own, of_steps = dimension_of(access, variable, step), dimension_of(access, step, variable)
    assert of_steps is not None
    form = access.subscripts[last]
    is_moved = form is not None and any(v in form.terms for v in inside)
    return last if last in (own, of_steps) and not is_moved else of_steps


# --- the cheapest ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def best_warp_tile(
    found: MatrixSum, gpu: Gpu, most_results: int, costs: MultiprocessorCosts = COSTS
) -> WarpTile | None:
    """The cheapest tile of which a thread holds no more than `most_results` bytes of results."""
    return next(warp_tiles(found, gpu, most_results, costs), None)


def warp_tiles(
    found: MatrixSum, gpu: Gpu, most_results: int, costs: MultiprocessorCosts = COSTS
) -> Iterator[WarpTile]:
    """The tiles that a block can have, the cheapest first."""
    priced = [(_cost(tile, found, gpu, most_results, costs), tile) for tile in _tiles(found)]
    able = [(cost, tile) for cost, tile in priced if cost is not None]
    return (tile for _, tile in sorted(able, key=lambda pair: pair[0]))


def _tiles(found: MatrixSum) -> Iterator[WarpTile]:
    """The lattice of tiles, none of which is twice as long as the loop that it tiles."""
    every = product((1, 2, 4), (1, 2, 4), (1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2))
    for along_rows, along_columns, rows, columns, times, stages in every:
        steps = times * found.product.steps
        tile = WarpTile((along_rows, along_columns), (rows, columns), steps, stages)
        sizes = (*tile.sizes, steps)
        fits = all(size < 2 * n for size, n in zip(sizes, found.extents, strict=True))
        fits = fits and (stages - 1) * steps < found.extents[2]
        fits = fits and not (found.is_part and found.extents[2] % steps)
        if prod(tile.warps) <= MOST_WARPS and fits and _has_whole_fragments(tile, found):
            yield tile


def _has_whole_fragments(tile: WarpTile, found: MatrixSum) -> bool:
    """Whether no thread lacks some results of a fragment: where one block has a whole loop, results
    beyond its end that no warp has are left out of the text."""
    digits = (LEFT_ROWS, *ROW_DIGITS[1]), (RIGHT_ROWS, *COLUMN_DIGITS[1])
    sides = zip(tile.sizes, tile.own, found.extents, digits, strict=False)
    return all(
        extent > size or extent >= own * rows or (extent - 1) % rows >= step
        for size, own, extent, (rows, _, step) in sides
    )


def _cost(
    tile: WarpTile, found: MatrixSum, gpu: Gpu, most_results: int, costs: MultiprocessorCosts
) -> float | None:
    """Cycles in all; None where a block cannot have the tile."""
    warps, (rows, columns) = prod(tile.warps), tile.own
    threads, made_of = warps * gpu.warp, found.product
    results = rows * columns * RESULTS
    copied = tile.copied(found)
    groups = copied / LINE_BYTES / threads
    registers = results + 4 * rows + 2 * columns + BESIDE_RESULTS
    shared = tile.stages * sum(bytes_in_shared(tile.shared(operand, found)) for operand in (0, 1))
    if 4 * results > most_results or registers > gpu.thread_registers:
        return None
    if threads > gpu.threads or shared > gpu.shared:
        return None
    times = tile.steps // made_of.steps * found.window_steps
    fragments = rows, -(-columns // 2)
    loads = sum(
        n * (WORDS_AT_ONCE if reads_words(made_of, across) else 1)
        for n, across in zip(fragments, found.across, strict=True)
    )
    if made_of.rounds:
        loads += sum(fragments) * WORDS_AT_ONCE * ROUNDING_INSTRUCTIONS
    multiplied = warps * rows * columns * times * costs.matrix_cycles / SCHEDULERS
    issued = (
        warps * (times * (rows * columns + loads) + groups * costs.copy_instructions) / SCHEDULERS
    )
    memory = warps * times * sum(fragments) * FRAGMENT_CYCLES + copied / ROW_OF_BANKS * COPY_CYCLES
    busy = max(multiplied, issued, memory)
    blocks = found.batch * prod(
        -(-extent // size) for extent, size in zip(found.extents, tile.sizes, strict=False)
    )
    turns = found.outer_steps // found.window_steps * -(-found.extents[2] // tile.steps)
    chain = max(busy, times * (costs.shared_waiting + rows * columns * costs.matrix_cycles))
    if tile.stages == 1:
        chain += copied / costs.fetched_bytes / 2  # the last comes when nothing else is left to do
        chain += (copied / threads // MOST_BYTES_AHEAD) * costs.direct_waiting
    fitting = gpu.blocks_at_once(threads, shared, registers) // gpu.processors
    each = -(-blocks // gpu.processors)
    return turns * cycles_of(each, fitting, busy, chain, copied, tile.stages, costs)


# --- the plan -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixDigits:
    """The loops into which rows and columns are tiled: those over the tiles of blocks, those that
    warps run, those that the threads of a warp run along y and x, and those of each thread."""

    outer: tuple[Member, ...]
    warps: tuple[Member, ...]
    lanes: tuple[Member, Member]
    own: tuple[Member, ...]


@dataclass(frozen=True)
class TileOfMatrices:
    """The tile of a part whose sum of products tensor cores compute, in so many `cycles` of a
    multiprocessor."""

    sum: MatrixSum
    tile: WarpTile
    cycles: float

    def digits(
        self, loops: tuple[Member, ...], names: tuple[str, ...], draft: Draft
    ) -> MatrixDigits:
        """Tiles the parallel loops, and puts them in order."""
        row, column, _ = self.sum.variables
        (rows, columns), (own_rows, own_columns) = self.tile.sizes, self.tile.own
        wanted = {
            row: (rows, own_rows * LEFT_ROWS, LEFT_ROWS, *(step for _, step in ROW_DIGITS[1:])),
            column: (columns, own_columns * RIGHT_ROWS, RIGHT_ROWS, COLUMN_DIGITS[0][1]),
        }
        outer, warps, own = [], [], []
        lanes: dict[str, Member] = {}
        for loop in loops:
            variable = loop.values[self.sum.statement].variable
            if variable not in wanted:
                outer.append(loop)
                continue
            sizes = wanted[variable]
            lane = ROW_DIGITS[0] if variable == row else COLUMN_DIGITS[0]
            first, *inner = draft.tile(loop, tuple(dict.fromkeys(sizes)), names)
            outer.append(first)
            for digit in inner:
                if (digit.span, digit.step) == lane:
                    lanes[variable] = digit
                elif (digit.span, digit.step) == sizes[:2]:
                    warps.append(digit)
                else:
                    own.append(digit)
        both = lanes[row], lanes[column]
        draft.order((*outer, *warps, *both, *own), names)
        return MatrixDigits(tuple(outer), tuple(warps), both, tuple(own))

    def hold(
        self, steps: tuple[Member, ...], names: tuple[str, ...], info: AccessInfo, draft: Draft
    ) -> list[str]:
        """Gives the loops of the reduction to tensor cores, and promotes operands to shared memory.
        Returns notes; none where an operand cannot be promoted."""
        _, _, step = self.sum.variables
        named = {m.values[self.sum.statement].variable: m for m in steps}
        loop = named.pop(step)
        inside = [m for v, m in named.items() if v in self.sum.windows]
        others = [m for m in named.values() if m not in inside]
        draft.order((*others, loop, *inside), names)
        made_of = self.sum.product
        sizes = tuple(dict.fromkeys((self.tile.steps, made_of.steps)))
        first, *middle, last = draft.tile(loop, sizes, names)
        draft.order((*others, first, *inside, *middle, last), names)
        draft.bind([last], made_of.mark, names)
        told = []
        statement = info.scop.statement(self.sum.statement)
        factors = factors_of(statement, info.scop)
        below = draft.footprint_in(first, names).of(SHARED)
        actions = [
            self._promoted(access, v, across, below, info)
            for access, v, across in zip(
                factors.reads if factors else (), self.sum.variables, self.sum.across, strict=False
            )
        ]
        stages = self.tile.stages if all(a and a.through == ASYNC for a in actions) else 1
        for action in actions:
            if action is None or not draft.promote(replace(action, stages=stages), first, names):
                return []
            box = below.box(action.tensor, tails=True) or below.box(action.tensor)
            shape = " x ".join(map(str, box.counts if box else ()))
            ahead = f", {stages - 1} ahead" if stages > 1 else ""
            kept = " as it is stored" if action.as_stored else ""
            told.append(
                f"{action.tensor} in shared memory{kept}, {shape} elements at a time{ahead}"
            )
        return told

    def _promoted(
        self, access: Access, own: str, across: bool, below: Footprint, info: AccessInfo
    ) -> Promote | None:
        """The tile of an operand in shared memory, with lines last; None where there is none."""
        made_of, (_, _, step) = self.sum.product, self.sum.variables
        box = below.box(access.tensor, tails=True) or below.box(access.tensor)
        if box is None:
            return None
        statement = info.scop.statement(self.sum.statement)
        padded = info.fill(access.tensor, [statement]) is not None
        line, last = _line_dimension(access, own, step, self.sum.windows), len(box.counts) - 1
        action = Promote(
            access.tensor,
            SHARED,
            axes=() if line == last else _with_lines_last(box, line),
            padded=padded,
            pitch=pitch_of(box.counts[line], made_of, across=across),
            unroll=True,
            as_stored=made_of.dtype != FLOAT32,
        )
        if box.counts[line] % made_of.line == 0 and not padded and line == last:
            action = replace(action, lanes=made_of.line, through=ASYNC)
        return action

    def __str__(self) -> str:
        (rows, columns), (own_rows, own_columns) = self.tile.sizes, self.tile.own
        warps = prod(self.tile.warps)
        rounded = " what is rounded to tf32" if self.sum.product.rounds else ""
        return (
            f"tensor cores multiply{rounded}: a block has {rows} x {columns} results, "
            f"{f'{warps} warps' if warps > 1 else 'a warp'} of {own_rows * LEFT_ROWS} x "
            f"{own_columns * RIGHT_ROWS}, for {self.tile.steps} steps at a time"
        )


def _with_lines_last(box: Box, line: int) -> tuple[tuple[int, int], ...]:
    """The axes of a tile of which one dimension comes last."""
    steps = [step or 1 for step in box.steps]
    return tuple((d, steps[d]) for d in (*(d for d in range(len(steps)) if d != line), line))


def cheapest_sum(every: Iterable[MatrixSum], gpu: Gpu, most_results: int) -> TileOfMatrices | None:
    """The cheapest of some ways to add up the same; None where a block has room for no tile."""
    found = []
    for each in every:
        tile = best_warp_tile(each, gpu, most_results)
        cost = None if tile is None else _cost(tile, each, gpu, most_results, COSTS)
        if tile is not None and cost is not None:
            found.append(TileOfMatrices(each, tile, cost))
    return min(found, key=lambda tile: tile.cycles, default=None)


NO_MATRICES = (
    f"tensor cores do not add up its products, as they take {LEFT_ROWS} rows, {RIGHT_ROWS} columns "
    "and 16 steps (8 of floats) or more: of loops over elements of one factor, of the other and of "
    "both, each along a dimension of its own, where those of steps or the others are near each "
    "other in memory"
)
"""What is told of a sum of products of tensors that has no tile."""
