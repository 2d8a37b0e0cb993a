"""When rewriting a program pays: numbers of a target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tc.polyhedral.rewrite.product_order import OrderCosts

MOST_FUSED = 64
"""Statements that share loops, starts of sums among them. The programs, gradients and layers of
tests and benchmarks have nests of up to about forty."""

SHORT = 9
"""The most terms of a sum that shares loops with the sums of other elements of the tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSplits:
    """How a reduction of `long` steps or more is split over blocks. A block computes many elements
    that read the same: parts make so many that there are `products` in all. Of reductions that
    read for each element what no other reads, a block computes one where neighbours in memory are
    in one reduction: parts make `rows` of these; and some where neighbours in memory are in
    neighbouring reductions: parts make `columns` of them. Each part has `steps` or more, of rows
    `row_steps`, of columns `column_steps`. Parts are outermost where the innermost variable of the
    elements has `near` values or more."""

    products: int
    rows: int
    columns: int
    long: int
    steps: int
    row_steps: int
    column_steps: int
    near: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SortCosts:
    """What it costs to sort the terms of a scatter, in comparisons of a term with a place. All of
    it takes `launches`, about half of which are for each pass but the first. A pass takes for each
    term what is `moved` through memory, and two comparisons with each term of its chunk, which has
    one of the lengths `chunks`; and for each digit of a chunk what is `counted`. Counts are summed
    in parts of `summed`."""

    launches: int
    moved: int = 128
    counted: int = 96
    chunks: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    summed: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicCosts:
    """What it costs to have the terms of a scatter meet in memory, in comparisons of a term with a
    place: one more launch takes `launch`, and each term as much as comparisons with a `term`. Only
    elements of so many `bits` are updated in one step. The targets of a block take at most `shared`
    bytes; so that there are `blocks`, terms are in parts of `least` or more, and of `filled` or
    more for each byte of the targets."""

    launch: int
    shared: int
    blocks: int
    bits: tuple[int, ...] = (32, 64)
    term: int = 16
    least: int = 1024
    filled: int = 1

    def cost(self, terms: int) -> int:
        return self.launch + self.term * terms

    def parts(self, terms: int, batch: int, size: int) -> int:
        """The number of parts of so many terms, of each element of a batch, where targets take
        `size` bytes."""
        if size > self.shared:
            return 1
        length = max(self.least, self.filled * size)
        return max(1, min(-(-self.blocks // batch), terms // length))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCosts:
    """Prefixes of `terms` instances or more are summed in chunks of `chunk` terms, where there are
    `least` chunks or more: of fewer, the launches would take longer."""

    terms: int
    chunk: int = 64
    least: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """`order` prices the orders of a sum of products. A reduction of `long` steps to at most `few`
    elements, or `shared` ones that read the same elements, is split into `parts` or more partial
    ones, of `left` steps or more each; where no variable gives these, one is cut into `strips` or
    more, whose lengths are multiples of `strip`; with `blocks`, as these say instead. Parts of a
    scatter have `filled` terms or more for each of its places. Statements
    that go over a matrix of `rows` bytes or more do so together, row by row; where each element
    serves several rows of results, the sums of a block take at most `sums` bytes. For linear
    subscripts, a range is cut into at most `pieces` (0: no statement is changed for that), or into
    periods of at least `period`; or a statement becomes up to `classes`, one for each residue by
    periods of at most `residues`. Sums of at most `short` terms may share loops with others. A sum
    whose indices may be swapped becomes up to `mirrored` strips and copies. What a sum of `across`
    steps or more in all (0: none) reads across its rows is transposed where it is `smaller` by such
    a factor than what the sum reads along rows. `stored` has numbers of bytes, least first, and the
    operations in the time of which an element among so much data is stored and read again. In a
    tile, the temporaries of a chain of stencils take at most `tile_bytes` (0: there are no tiles).
    A register tile reads at most `tile_rows` rows of tensors side by side. A sum of `read_steps`
    terms or more (0: none) is computed in the order of what it reads, where rows of that have fewer
    than `read_row` bytes. The terms of a scatter are sorted where that costs less than to
    compare each with all places, by what `sorting` says; without, they never are.
    Terms that are integers meet in memory as `atomics` says; without, they do not.
    Prefixes are summed in chunks as `scans` says; without, as they are."""

    order: OrderCosts = field(default_factory=OrderCosts)
    few: int = 8
    shared: int = 1 << 14
    rows: int = 0
    sums: int = 0
    parts: int = 16
    left: int = 32
    long: int = 1 << 15
    strips: int = 64
    strip: int = 64
    filled: int = 8
    blocks: BlockSplits | None = None
    pieces: int = 4
    period: int = 16
    residues: int = 4
    classes: int = 32
    short: int = SHORT
    mirrored: int = 0
    across: int = 0
    smaller: int = 8
    stored: tuple[tuple[float, float], ...] = ()
    tile_bytes: int = 0
    tile_rows: int = 0
    read_steps: int = 0
    sorting: SortCosts | None = None
    atomics: AtomicCosts | None = None
    scans: ScanCosts | None = None
    read_row: int = 0

    def stored_operations(self, size: int) -> float:
        """The operations in the time of which an element is stored and read again, where that
        touches `size` bytes in all; none where nothing is known of it."""
        return next((operations for most, operations in self.stored if size <= most), 0.0)

    def factoring_all(self) -> Thresholds:
        """The thresholds by which a sum is factored wherever this saves operations."""
        return replace(self, order=replace(self.order, gain=1.0, moved=0.0, statement=0.0))

    def splitting_all(self) -> Thresholds:
        """Those by which each reduction is split that has parts, as long as these are not more
        than a cache holds."""
        return replace(self, few=1 << 12, parts=2, left=2, long=4, filled=0, blocks=None)
