"""Overlapped tiles: chains of stencils are computed one strip of rows after the other.

`d(i,j) = x(i+1,j) - x(i,j)  o(i,j) = d(i+1,j) - d(i,j)` stores all of d before o reads d, so that
d goes through memory where the caches do not hold it. For a tile of 16 rows of o, `d.tile0(t,i,j)`
has the 17 rows that the tile reads: the statements then share the loop over tiles, and d lies in a
small buffer that stays in the cache. Rows at the edges of tiles are computed twice (Halide's
`compute_at`, Ragan-Kelley et al. 2013, section 2). A temporary that is inlined is the case of tiles
of one element (`inlining`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TypeAlias

from tc.affine.forms import Form
from tc.polyhedral.rewrite.rewriting import (
    REST,
    Rewriting,
    operations_of,
    rewrite,
    unused_name,
    without,
    writes_all,
)
from tc.polyhedral.rewrite.simplifying import linear_expression
from tc.polyhedral.rewrite.thresholds import MOST_FUSED, Thresholds
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.size_values import KnownSizes

TILE = "tile"
"""Behind the names of statements and temporaries: what is of a tile."""

LEAST_TILES = 16
"""A chain has at least so many tiles, which threads share."""


def tile_chains(shaped: ShapedProgram, limits: Thresholds) -> ShapedProgram:
    """The program with chains of stencils cut into overlapped tiles of rows, where this takes less
    time than to store their temporaries and to read them again; the very same where there are none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "{ d(i,j) = x(i+1,j) - x(i,j)  o(i,j) = d(i+1,j) - d(i,j) }"
    >>> program = check(parse(Source(f"def f(float(N,M) x) -> (o) {text}")))
    >>> shaped = infer_ranges(program, {"x": (322, 8)}, {})
    >>> limits = Thresholds(stored=((1 << 8, 1.0), (1 << 20, 9.0)), tile_bytes=544)
    >>> for s in tile_chains(shaped, limits).statements:
    ...     print(s.statement.text)
    d.tile0(i_tile, i, j) = x(16 * i_tile + i + 1, j) - x(16 * i_tile + i, j)
    o(16 * i_tile + i, j) = d.tile0(i_tile, i + 1, j) - d.tile0(i_tile, i, j)
    """
    if not limits.tile_bytes:
        return shaped
    finder, rewriting = _Finder(shaped, limits), Rewriting(shaped, "tiled")
    made: dict[int, list[ShapedStatement]] = {}
    gone: set[str] = set()
    for chain in finder.chains():
        made |= {id(shaped.statements[place]): [] for place in chain.rows}
        made[id(shaped.statements[max(chain.rows)])] = _tiled(chain, rewriting, finder)
        gone |= chain.temporaries
    return without(gone, rewriting.program(lambda old: made.get(id(old)))) if made else shaped


def is_of_tile(name: str) -> bool:
    """Whether a statement computes the temporary of a tile, by its name.

    >>> is_of_tile("S0.tile"), is_of_tile("S0.rest"), is_of_tile("S0")
    (True, False, False)
    """
    return name.endswith(f".{TILE}")


@dataclass(frozen=True)
class _Rows:
    """The rows in which a statement's `variable` counts: of a tile of n rows that begins b rows
    behind the first one, those from b + `low` to b + n + `high`. The variable is the subscript of
    dimension `axis` of the target."""

    variable: str
    axis: int
    low: int
    high: int

    @property
    def overlap(self) -> int:
        """The rows of a tile that its neighbours compute, too."""
        return self.high - self.low


@dataclass(frozen=True)
class _Chain:
    """The statements of a chain by their places, which write the `temporaries` that no others
    touch, and `extent` rows of what is left. Tiles of `size` rows lie between `first` and `end`,
    where they read no row of a temporary that is not there; conditions guard such reads."""

    rows: Mapping[int, _Rows]
    temporaries: frozenset[str]
    extent: int
    first: int = 0
    end: int = 0
    size: int = 0

    def parts(self, block: str) -> Iterator[tuple[str, _Part]]:
        """The rows before the tiles, those of the tiles, which `block` counts, and those behind
        them, with what each part is called."""
        number = (self.end - self.first) // self.size
        behind = self.first + number * self.size
        if self.first:
            yield "head", _Part(Form(0, {}), self.first)
        yield TILE, _Part(Form(self.first, {block: self.size}), self.size, number)
        if behind < self.extent:
            yield REST, _Part(Form(behind, {}), self.extent - behind)


@dataclass(frozen=True)
class _Part:
    """`size` rows behind row `begin` of a chain, which is that of one of so many `tiles`, or, with
    0, a number."""

    begin: Form[str, int]
    size: int
    tiles: int = 0

    def rows(self, own: _Rows, most: int | None) -> tuple[Form[str, int], int]:
        """The first one of the rows that a statement computes for the part, and their number; of a
        temporary, which has `most` rows, those that are there."""
        if self.tiles or most is None:
            return self.begin.plus(Form(own.low, {})), self.size + own.overlap
        low = min(max(0, self.begin.constant + own.low), most - 1)
        high = min(self.begin.constant + self.size + own.high, most)
        return Form(low, {}), max(1, high - low)


_Subscripts: TypeAlias = list[tuple[set[str], "Form[str, int] | None"]]
"""The index variables in each subscript of a read, and its linear form; None where it has none."""


class _Finder:
    """Finds the chains of a program."""

    def __init__(self, shaped: ShapedProgram, limits: Thresholds) -> None:
        self._shaped, self._limits = shaped, limits
        self.known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
        self._writers: dict[str, list[int]] = defaultdict(list)
        self._readers: dict[str, set[int]] = defaultdict(set)
        self._sources = [_tensors(each) for each in shaped.statements]
        for place, each in enumerate(shaped.statements):
            self._writers[each.statement.target].append(place)
            for tensor in self._sources[place]:
                self._readers[tensor].add(place)
        # what the chains that end in other statements ask again
        self._operations = cache(
            lambda place: operations_of(shaped.statements[place].statement.rhs)
        )
        self._asked = cache(self._reads)
        self._ends = [self._may_end(place) for place in range(len(shaped.statements))]

    def chains(self) -> Iterator[_Chain]:
        """Those that pay, the last one first; none has a statement of another."""
        met: set[int] = set()
        for last in reversed(range(len(self._shaped.statements))):
            if last in met or not self._ends[last]:
                continue
            statement = self._shaped.statements[last].statement
            axes = range(max(1, len(statement.subscripts) - 1))  # rows stay whole
            found = [c for axis in axes if (c := self._chain(last, axis, met)) is not None]
            best = max(found, key=self._gain, default=None)
            if best is not None and self._gain(best) > 0:
                met |= best.rows.keys()
                yield best

    def _may_end(self, place: int) -> bool:
        """Whether a statement may be cut into tiles at all: it writes each element at the place of
        its indices, once, from other tensors, element by element."""
        each = self._shaped.statements[place]
        statement = each.statement
        names = [s.name for s in statement.subscripts if isinstance(s, p.Index)]
        is_plain = statement.op == "=" and not statement.reduction and bool(names)
        is_whole = len({*names}) == len(statement.subscripts) == len(statement.outer)
        nodes = list(p.walk(statement.rhs))
        subscripts = (s for node in nodes if isinstance(node, p.Read) for s in node.subscripts)
        gathers = any(isinstance(part, p.Read) for s in subscripts for part in p.walk(s))
        is_plain &= not gathers and statement.target not in self._sources[place]
        return is_plain and is_whole and not (each.checked or each.is_empty)

    def _chain(self, last: int, axis: int, met: set[int]) -> _Chain | None:
        """The chain that ends in a statement, in tiles along a dimension of the target; None where
        none ends there."""
        rows: dict[int, _Rows] = {}
        temporaries: set[str] = set()
        variable, span = self._along(last, axis)
        rows[last] = _Rows(variable, axis, span.begin, span.begin)
        for place in reversed(range(last)):
            if len(rows) == MOST_FUSED:
                break  # more would share no loop over tiles
            if place in met or not self._ends[place] or not self._may_wait(place, last, rows):
                continue
            target = self._shaped.statements[place].statement.target
            if self._readers[target] <= rows.keys() and self._is_temporary(target, place):
                found = self._demanded(target, place, rows)
                if found:
                    rows[place] = found
                    temporaries.add(target)
                continue
            if self._is_beside(place, axis, span.extent, rows):
                variable, own = self._along(place, axis)
                rows[place] = _Rows(variable, axis, own.begin, own.begin)
        if not any(each.overlap for each in rows.values()):
            return None
        chain = _Chain(rows, frozenset(temporaries), span.extent)
        return self._sized(chain)

    def _along(self, place: int, axis: int) -> tuple[str, p.Range]:
        each = self._shaped.statements[place]
        subscript = each.statement.subscripts[axis]
        assert isinstance(subscript, p.Index)
        return subscript.name, each.ranges[subscript.name]

    def _may_wait(self, place: int, last: int, rows: Mapping[int, _Rows]) -> bool:
        """Whether a statement may run where the last one does: none between that is not of the
        chain touches what the statement writes, or writes what the statement reads."""
        each = self._shaped.statements[place]
        target, sources = each.statement.target, self._sources[place]
        written = any(place < n <= last for t in sources for n in self._writers[t] if n not in rows)
        others = {*self._readers[target], *self._writers[target]} - {place} - rows.keys()
        inside = any(
            n in rows and not self._is_temporary(t, n) for t in sources for n in self._writers[t]
        )
        return not (written or inside or any(place < n <= last for n in others))

    def _is_temporary(self, tensor: str, place: int) -> bool:
        """Whether a statement alone writes a temporary, all of it, in the temporary's type."""
        program, each = self._shaped.program, self._shaped.statements[place]
        return (
            tensor in program.temporaries
            and self._writers[tensor] == [place]
            and each.statement.rhs.dtype == program.tensors[tensor].dtype
            and writes_all(each, self._shaped)
        )

    def _is_beside(self, place: int, axis: int, extent: int, rows: Mapping[int, _Rows]) -> bool:
        """Whether a statement writes as many rows of another tensor, from a temporary that the
        chain reads."""
        each = self._shaped.statements[place]
        if len(each.statement.subscripts) <= axis or self._along(place, axis)[1].extent != extent:
            return False
        target = each.statement.target
        touched = {t for n in rows for t in self._sources[n]}
        written = {self._shaped.statements[n].statement.target for n in rows}
        if target in touched | written:
            return False
        temporaries = set(self._shaped.program.temporaries)
        return not (touched & self._sources[place]).isdisjoint(temporaries)

    def _reads(self, place: int, tensor: str) -> list[_Subscripts] | None:
        """The subscripts of a statement's reads of a tensor; None where it asks for sizes, too."""
        nodes = list(p.walk(self._shaped.statements[place].statement.rhs))
        if any(isinstance(node, p.Extent) and node.tensor == tensor for node in nodes):
            return None
        return [
            [(_indices(s), linear_form(s, self.known, exact=True)) for s in node.subscripts]
            for node in nodes
            if isinstance(node, p.Read) and node.tensor == tensor
        ]

    def _demanded(self, tensor: str, place: int, rows: Mapping[int, _Rows]) -> _Rows | None:
        """The rows of a temporary that statements of the chain read; None where they are not
        known."""
        axes: set[int] = set()
        lows: list[int] = []
        highs: list[int] = []
        for reader in self._readers[tensor]:
            own, reads = rows[reader], self._asked(reader, tensor)
            if reads is None:
                return None
            for read in reads:
                moving = [d for d, (names, _) in enumerate(read) if own.variable in names]
                if len(moving) != 1:
                    return None
                form = read[moving[0]][1]
                if form is None or dict(form.terms) != {own.variable: 1}:
                    return None
                axes.add(moving[0])
                lows.append(form.constant + own.low)
                highs.append(form.constant + own.high)
        if len(axes) != 1:
            return None
        axis = axes.pop()
        return _Rows(self._along(place, axis)[0], axis, min(lows), max(highs))

    def _sized(self, chain: _Chain) -> _Chain | None:
        """The chain with the rows of its tiles: as many as the cache holds, or fewer, if no rows
        are left then."""
        held = [
            (self._row_bytes(n, chain.rows[n]), chain.rows[n].overlap) for n in self._moved(chain)
        ]
        written = [(each, self.target(n)) for n, each in chain.rows.items()]
        inside = [(each, self.size(t, each)) for each, t in written if t in chain.temporaries]
        first = max(0, *(-each.low for each, _ in inside))
        end = min(chain.extent, *(size - each.high for each, size in inside))
        room = self._limits.tile_bytes - sum(row * overlap for row, overlap in held)
        most = min(room // sum(row for row, _ in held), (end - first) // LEAST_TILES)
        if most < 1:
            return None
        sizes = range(most, most * 3 // 4, -1)
        size = min(sizes, key=lambda n: ((end - first) % n > 0, -n))
        return replace(chain, first=first, end=end, size=size)

    def target(self, place: int) -> str:
        return self._shaped.statements[place].statement.target

    def size(self, tensor: str, rows: _Rows) -> int:
        """How many rows a tensor has."""
        return self._shaped.shapes[tensor][rows.axis]

    def _moved(self, chain: _Chain) -> list[int]:
        """The places of the temporaries that a buffer holds: another statement reads them at
        another place than that of its own indices."""
        found = []
        for place in chain.rows:
            target = self._shaped.statements[place].statement.target
            if target in chain.temporaries and any(
                read.subscripts != self._shaped.statements[n].statement.subscripts
                for n in self._readers[target]
                for read in p.walk(self._shaped.statements[n].statement.rhs)
                if isinstance(read, p.Read) and read.tensor == target
            ):
                found.append(place)
        return found

    def _row_bytes(self, place: int, rows: _Rows) -> int:
        target = self._shaped.statements[place].statement.target
        shape = self._shaped.shapes[target]
        others = prod(size for d, size in enumerate(shape) if d != rows.axis)
        return max(1, others * self._shaped.program.tensors[target].dtype.bytes)

    def _gain(self, chain: _Chain) -> float:
        """The operations in the time of which the temporaries of a chain are stored and read again,
        less those that are computed twice."""
        shapes, tensors = self._shaped.shapes, self._shaped.program.tensors
        touched = {t for n in chain.rows for t in (self.target(n), *self._sources[n])}
        size = sum(prod(shapes[t]) * tensors[t].dtype.bytes for t in touched)
        stored = self._limits.stored_operations(size) - self._limits.stored_operations(0)
        moved, gain = set(self._moved(chain)), 0.0
        for place, rows in chain.rows.items():
            each = self._shaped.statements[place]
            elements = prod(r.extent for r in each.ranges.values())
            again = self._operations(place) * rows.overlap / chain.size
            gain += elements * ((stored if place in moved else 0.0) - again)
        return gain


def _tiled(chain: _Chain, rewriting: Rewriting, finder: _Finder) -> list[ShapedStatement]:
    """The statements of a chain over the rows before its tiles, over the tiles, and over the rows
    that are left."""
    shaped = rewriting.shaped
    variables = {v for n in chain.rows for v in shaped.statements[n].statement.variables}
    block = unused_name(
        f"{chain.rows[max(chain.rows)].variable}_tile", {*variables, *shaped.program.tensors}
    )
    ends: dict[int, list[tuple[p.Statement, dict[str, p.Range]]]] = defaultdict(list)
    made: list[list[ShapedStatement]] = []
    for kind, part in chain.parts(block):
        reads: dict[str, _Held] = {}
        statements: list[ShapedStatement] = []
        for place in sorted(chain.rows):
            old, rows, target = shaped.statements[place], chain.rows[place], finder.target(place)
            is_held = target in chain.temporaries
            begin, number = part.rows(rows, finder.size(target, rows) if is_held else None)
            at = begin.plus(Form(0, {rows.variable: 1}))
            ranges = {**old.ranges, rows.variable: p.Range(0, number)}
            outer = old.statement.outer
            if part.tiles:
                ranges, outer = {**ranges, block: p.Range(0, part.tiles)}, (block, *outer)
            rhs = _moved_reads(old.statement.rhs, rows.variable, at, reads, finder.known)
            if is_held:
                each = replace(old, ranges=ranges)
                own = rewriting.again(rhs) if made else rhs
                new, read = rewriting.store(each, own, outer, name=kind, kind=kind)
                reads[target] = _Held(read.tensor, rows.axis, begin)
                statements.append(new)
                continue
            subscripts = list(old.statement.subscripts)
            subscripts[rows.axis] = linear_expression(at, subscripts[rows.axis])
            cut = replace(
                old.statement, rhs=rhs, subscripts=tuple(subscripts), outer=outer, variables=outer
            )
            ends[place].append((cut, ranges))
            statements.append(old)
        made.append(statements)
    pieces = {
        id(shaped.statements[n]): _in_pieces(n, found, rewriting) for n, found in ends.items()
    }
    return [
        pieces[id(each)][part] if id(each) in pieces else each
        for part, statements in enumerate(made)
        for each in statements
    ]


@dataclass(frozen=True)
class _Held:
    """The rows of a temporary behind the row `begin`, along the dimension `axis`, in a tensor."""

    tensor: str
    axis: int
    begin: Form[str, int]


def _in_pieces(
    place: int, found: Sequence[tuple[p.Statement, dict[str, p.Range]]], rewriting: Rewriting
) -> list[ShapedStatement]:
    """What a statement that writes no temporary has become, over the tiles and over the rest."""
    old = rewriting.shaped.statements[place]
    if len(found) == 1:
        return [rewriting.changed(*found[0], old)]
    return rewriting.pieces(old, found)


def _moved_reads(
    rhs: p.Expr,
    variable: str,
    at: Form[str, int],
    reads: Mapping[str, _Held],
    known: KnownSizes,
) -> p.Expr:
    """An expression with `at` in place of the variable of rows, that reads of temporaries the rows
    which are held."""

    def moved(node: p.Expr) -> p.Expr:
        if isinstance(node, p.Index) and node.name == variable:
            return linear_expression(at, node)
        if not isinstance(node, p.Read):
            return node
        forms = [linear_form(s, known, exact=True) for s in node.subscripts]
        if node.tensor not in reads:
            whole = zip(forms, node.subscripts, strict=True)
            return replace(
                node,
                subscripts=tuple(s if f is None else linear_expression(f, s) for f, s in whole),
            )
        held = reads[node.tensor]
        subscripts, form = list(node.subscripts), forms[held.axis]
        assert form is not None
        subscripts[held.axis] = linear_expression(form.plus(held.begin, -1), subscripts[held.axis])
        tiles = [p.Index(name, span=node.span) for name in held.begin.terms]
        return replace(node, tensor=held.tensor, subscripts=(*tiles, *subscripts))

    return rewrite(rhs, moved)


def _indices(subscript: p.Expr) -> set[str]:
    return {node.name for node in p.walk(subscript) if isinstance(node, p.Index)}


def _tensors(each: ShapedStatement) -> set[str]:
    return {node.tensor for node in p.walk(each.statement.rhs) if isinstance(node, p.Read)}
