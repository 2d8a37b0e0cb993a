"""Cutting statements that go over one matrix into blocks of its rows, so that it is read once.

`x(i) +=! A(i,j) * p(j)  y(j) +=! A(i,j) * q(i)` goes over A twice, along its rows and down its
columns. Of a block of rows, `y.p0(b,j)` is the sum down the columns: the statements then share a
loop over blocks, and inside of a block one over its rows. The blocks are the same for any number of
threads, so the bits of the result are too; R5 allows the order, as it allows any.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from tc.affine.forms import Form
from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.rewriting import Rewriting, bare_variables, unused_name
from tc.polyhedral.rewrite.simplifying import substituted
from tc.polyhedral.rewrite.splitting import partials, partials_first
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import (
    Index,
    Range,
    Read,
    RowWalk,
    ShapedProgram,
    ShapedStatement,
    Statement,
    index_names,
    walk,
)

BLOCKS = 32
"""About so many blocks has a matrix: enough for threads, and what is kept for each is little. Of
64, two threads took 76 us where of 32 they took 53, for a row of 4096 times 8 MB (Zen 4)."""

LEAST_ROWS = 64
"""A block has about so many rows, or more: of the memory that they take, a row is little."""

MOST_ROWS = 256
"""A block of a lone sum has about so many rows at most: each of its sums is a chain of as many
terms, whose error grows with their number (`kernel.passes.blocked_sums`). Loops of up to twice as
many rows are a block as they are."""

LEAST_BLOCKS = 8

MOST_TIMES = 16
"""A lone sum has so many rows of results at most: a register tile reads a row of the matrix once
for all of them. Of more, packed panels do. 16 rows times 16,000 x 500 take 9.9 ms in strips of
columns and 3.6 row by row, 32 rows times 4096 x 1024 3.4 and 6.3 (one thread of a Zen 4)."""

NARROW = 160
"""A lone sum with several rows of results has more columns: strips of fewer leave little between.
8 rows times 16,000 x 128, 160 and 256 take 0.32, 0.43 and 0.89 ms in strips, and 0.46, 0.43 and
0.69 row by row (Zen 4)."""

LEAST_COLUMNS = 16
"""Rows of so many elements, a line of floats, or more are walked from end to end in a lone sum: of
fewer, 300 x 200 rows of 12 take 38 us in place of 129 (one thread of a Zen 4)."""

STEP = 8
"""A multiple of so many rows is a block: some of these are walked at a time."""


def share_rows(
    shaped: ShapedProgram, limits: Thresholds, strided: Container[str] = ()
) -> ShapedProgram:
    """The program with statements that go over a matrix of `limits.rows` bytes or more cut into
    blocks of its rows, where one of them sums its columns, and nothing hinders them from going over
    a row one after the other; so is a lone sum of more than a few columns. Inputs that are
    `strided` are not row-major.

    The temporaries are new, named after the target ("y.p0"). A program in which nothing is cut is
    returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "{ x(i) +=! A(i,j) * p(j)  y(j) +=! A(i,j) * q(i) }"
    >>> source = Source(f"def f(float(I,J) A, float(J) p, float(I) q) -> (x, y) {text}")
    >>> shaped = infer_ranges(check(parse(source)), {"A": (640, 9), "p": (9,), "q": (640,)}, {})
    >>> for s in share_rows(shaped, Thresholds(rows=1 << 10)).statements:
    ...     print(s.statement.text)
    x(64 * i_block + i) +=! A(64 * i_block + i, j) * p(j)
    y.p0(i_block, j) +=! A(64 * i_block + i, j) * q(64 * i_block + i)
    y(j) +=! y.p0(i_block, j)
    """
    if not limits.rows:
        return shaped
    rewriting = Rewriting(shaped, "split")
    found = {id(each.shaped): each for each in _shared(shaped, limits, strided)}
    return rewriting.program(
        lambda old: _in_blocks(found[id(old)], rewriting) if id(old) in found else None,
        partials_first,
    )


@dataclass(frozen=True)
class _Walk:
    """A statement that goes over a `matrix`, in whose rows the statement's variables `rows` count,
    the first of which is `row`: one variable, but for sums of columns, in each row of which
    `columns` count. Each instance touches another element, or one for each value of the `others`,
    which count rows of results of a sum. The statement has a matrix `alone`, or goes over blocks
    along `row` as others do."""

    shaped: ShapedStatement
    matrix: str
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    alone: bool = False

    @property
    def row(self) -> str:
        return self.rows[0]

    @property
    def sums_columns(self) -> bool:
        return self.row in self.shaped.statement.reduction

    @property
    def reads(self) -> Iterator[Read]:
        return (n for n in walk(self.shaped.statement.rhs) if isinstance(n, Read))

    def count(self, variables: Iterable[str]) -> int:
        """How many values some variables have together."""
        return prod(self.shaped.ranges[v].extent for v in variables)

    def places(self, read: Read) -> list[int]:
        """The dimensions that a read subscripts by the row."""
        return [d for d, s in enumerate(read.subscripts) if _is_index(s, self.row)]

    def touches(self, target: str, others: Container[str]) -> bool:
        """Whether this writes one of some tensors, or touches the one that a statement writes."""
        read = any(node.tensor == target for node in self.reads)
        return read or self.shaped.statement.target in others

    def may_precede(self, other: _Walk) -> bool:
        """Whether this may go over a row, and the other one then, before both go over the next:
        what the other one reads of this is there, and neither writes what the other one has."""
        one, two = self.shaped.statement, other.shaped.statement
        if one.target == two.target or any(n.tensor == two.target for n in self.reads):
            return False
        places = [d for d, s in enumerate(one.subscripts) if _is_index(s, self.row)]
        return all(
            any(d in other.places(read) for d in places)
            for read in other.reads
            if read.tensor == one.target
        )


def _is_index(expr: object, name: str) -> bool:
    return isinstance(expr, Index) and expr.name == name


def _shared(shaped: ShapedProgram, limits: Thresholds, strided: Container[str]) -> Iterator[_Walk]:
    """The statements that are to go over a matrix together, each over one matrix; then those that
    sum the columns of a matrix alone."""
    met: set[int] = set()
    large = [
        tensor
        for tensor, shape in shaped.shapes.items()
        if len(shape) > 1
        and tensor not in strided
        # what shares a strip of columns keeps a temporary in the cache
        and tensor not in shaped.program.temporaries
        and at_hint(prod(shape)) * shaped.program.tensors[tensor].dtype.bytes >= limits.rows
    ]
    for tensor in large:
        group = _group(tensor, shaped, met)
        if len(group) > 1 and any(each.sums_columns for each in group):
            met |= {id(each.shaped) for each in group}
            yield from group
    for tensor in large:
        for old in shaped.statements:
            each = None if id(old) in met else _walk(old, tensor, shaped)
            if each is not None and _is_lone_sum(each, shaped, limits, strided):
                met.add(id(old))
                yield replace(each, alone=True)


def _is_lone_sum(
    each: _Walk, shaped: ShapedProgram, limits: Thresholds, strided: Container[str]
) -> bool:
    """Whether a statement sums columns of row-major inputs, each of whose elements is read once, or
    for few rows of results, and reads else only what is the same for all columns, or for all
    terms. Statements that read the sums read no such input: strips of its columns stay in the cache
    for them."""
    ranges, width, times = each.shaped.ranges, each.count(each.columns), each.count(each.others)
    element = shaped.program.tensors[each.shaped.statement.target].dtype.bytes
    if not each.sums_columns or width <= limits.few:
        return False
    if times > 1 and (width <= NARROW or times * width * element > limits.sums):
        return False
    whole = {v for v in (*each.rows, *each.columns) if ranges[v].extent > 1}
    tensors = [_reads(s) for s in shaped.program.statements if s is not each.shaped.statement]
    later = set().union(*(t for t in tensors if each.shaped.statement.target in t))
    for read in each.reads:
        used = {*index_names(read)} & whole
        if used == whole:
            last = read.subscripts[-1]
            if not (isinstance(last, Index) and last.name in each.columns):
                return False
            if read.tensor not in {*shaped.program.inputs} - later or read.tensor in strided:
                return False
        elif not (used.isdisjoint(each.columns) or used.isdisjoint(each.rows)):
            return False
    return True


def _reads(statement: Statement) -> set[str]:
    return {node.tensor for node in walk(statement.rhs) if isinstance(node, Read)}


def _group(tensor: str, shaped: ShapedProgram, met: Container[int]) -> list[_Walk]:
    """The statements, but for some, that may go over the rows of a matrix together; none where
    others share loops over the rows with them, as these would not any more."""
    group: list[_Walk] = []
    late: set[str] = set()
    """Tensors written by statements that run when all rows are done."""
    before: set[tuple[str, int]] = set()
    """The dimensions of tensors that statements before have written by a variable of theirs."""
    for old in shaped.statements:
        statement = old.statement
        found = None if id(old) in met else _walk(old, tensor, shaped)
        found = None if found and found.count(found.others) > 1 else found
        reads = [node for node in walk(statement.rhs) if isinstance(node, Read)]
        touched = {statement.target, *(read.tensor for read in reads)}
        is_late = not late.isdisjoint(touched)
        if found and not is_late and all(each.may_precede(found) for each in group):
            if any((n.tensor, d) in before for n in found.reads for d in found.places(n)):
                return []
            group.append(found)
            continue
        is_tied = any(each.touches(statement.target, touched) for each in group)
        if is_tied and not is_late:
            rows = (_Walk(old, tensor, (v,)) for v in statement.outer)
            if any(all(each.may_precede(row) for each in group) for row in rows):
                return []
        if is_tied or is_late:
            late.add(statement.target)
        before |= {(statement.target, d) for d in range(len(statement.subscripts))}
    return group


def _walk(old: ShapedStatement, tensor: str, shaped: ShapedProgram) -> _Walk | None:
    """How a statement goes over all of a matrix; None where it does not, or is to stay."""
    statement, shape = old.statement, shaped.shapes[tensor]
    if old.checked or old.is_empty or any(r.begin for r in old.ranges.values()):
        return None
    touched: list[tuple[object, ...]] = [
        node.subscripts
        for node in walk(statement.rhs)
        if isinstance(node, Read) and node.tensor == tensor
    ]
    touched += [statement.subscripts] if statement.target == tensor else []
    names = [bare_variables(subscripts) for subscripts in touched]
    if not names or any(n is None or n != names[0] for n in names):
        return None
    variables = names[0]
    assert variables is not None
    extents = tuple(old.ranges[v].extent for v in variables)
    others = tuple(v for v in statement.variables if v not in variables)
    times = prod(old.ranges[v].extent for v in others)
    if at_hint(times) > MOST_TIMES or extents != shape:
        return None
    if variables[0] in statement.outer:
        return _Walk(old, tensor, variables[:1]) if times == 1 else None
    rows = tuple(takewhile(lambda v: v in statement.reduction, variables))
    is_rounded = shaped.program.tensors[statement.target].dtype != statement.rhs.dtype
    if {*rows} != {*statement.reduction} or is_rounded:
        return None
    return _Walk(old, tensor, rows, variables[len(rows) :], others)


def _in_blocks(each: _Walk, rewriting: Rewriting) -> list[ShapedStatement] | None:
    """A statement over blocks of rows, which says so, and what is left of it behind the last of
    them."""
    old, names = each.shaped, {*each.shaped.statement.variables, *rewriting.shaped.program.tensors}
    inside = (*each.others, *each.columns)  # what lies side by side is the last
    place, length = _cut_loop([old.ranges[v].extent for v in each.rows], alone=each.alone)
    row, before = each.rows[place], each.rows[:place]
    extent = old.ranges[row].extent
    number, end = extent // length, extent // length * length
    if number * prod(old.ranges[v].extent for v in before) < LEAST_BLOCKS:
        return None
    block, statement, ranges = row, old.statement, old.ranges
    if length > 1 or not each.sums_columns:
        block = unused_name(f"{row}_block", names)
        statement = substituted(statement, {row: Form(0, {block: length, row: 1})})
        ranges = {**ranges, block: Range(0, number), row: Range(0, length)}
    left = {**old.ranges, row: Range(end, extent)}
    if each.sums_columns:
        of_block = replace(old, statement=statement, ranges=ranges)
        made = partials(of_block, rewriting, (*before, block, *inside))
        made += [rewriting.apart(old, left)] if end < extent else []
    elif end == extent:
        made = [rewriting.changed(statement, ranges, old)]
    else:
        made = rewriting.pieces(old, [(statement, ranges), (old.statement, left)])
    if not each.alone or each.count(each.columns) >= LEAST_COLUMNS:
        rows = dict.fromkeys((*before, block, *each.rows[place:]))
        made[0] = replace(made[0], walk=RowWalk(each.matrix, tuple(rows)))
    return made


def _cut_loop(extents: Sequence[int], *, alone: bool) -> tuple[int, int]:
    """Which of the loops over rows is cut into blocks, and the length of these: the first one; of
    those of a lone sum, the innermost one inside of which too few rows are left for a block."""
    if not alone:
        return 0, block_rows(extents[0], extents[0] // BLOCKS)
    place, inside = len(extents) - 1, 1
    while place and inside * extents[place] <= 2 * MOST_ROWS:
        inside, place = inside * extents[place], place - 1
    return place, block_rows(extents[place], min(prod(extents) // BLOCKS, MOST_ROWS), inside)


def block_rows(extent: int, about: int, inside: int = 1) -> int:
    """How many iterations of a loop, with `inside` rows in each, are a block of `about` so many
    rows: as many as leave the fewest behind the last block.

    >>> block_rows(4096, 128), block_rows(5500, 171), block_rows(1_000_000, 256)
    (128, 152, 288)
    >>> block_rows(25, 256, 16), block_rows(25, 256, 400)
    (12, 1)
    """
    step = STEP if inside == 1 else 1
    usual = max(1, max(LEAST_ROWS, about) // (step * inside))
    sizes = range(step * max(1, usual * 3 // 4), step * (usual * 5 // 4) + 1, step)
    return min(sizes, key=lambda size: (extent % size * 4 // size, abs(size - step * usual)))
