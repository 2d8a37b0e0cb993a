"""Fusion: which statements share loops, found bottom-up from the dependences.

A cluster is some neighbours in text order with the columns that they share. A column gives each
statement a value (a left-hand variable plus an offset), so that the values are equal in every
dependence within the cluster: the columns are coincident by construction, and the statements may
run one after the other inside of them. At first each statement is a cluster with its left-hand
variables as columns. Two neighbours may merge if a column of each has equal values in every
dependence between them; columns without a partner stay inside.

1. Clusters that write one tensor (its start, updates and epilogue) merge where no column is lost.
2. All strategies but "min" merge what loses no column. From here on a cluster may join the last one
   that it depends on, over others between, which then follow it.
3. "max" then merges where one column of more than one iteration survives, "preserve3coincident"
   where min(3, as many as there were) survive.

Inside of the shared columns the same happens again to the columns that are left.

No cluster has more than `MOST_FUSED` statements. What is decided of a nest asks for all of its
statements about each of them, so that the time of a first call would grow with the square of the
statements of a program, all of which are one nest where they are element-wise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TypeAlias

from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.overlapped_tiles import is_of_tile
from tc.polyhedral.rewrite.thresholds import MOST_FUSED, SHORT
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import relate
from tc.polyhedral.scop.scop import Scop, ScopStatement

MAX, MIN, PRESERVE = "max", "min", "preserve3coincident"


@dataclass(frozen=True, slots=True)
class Column:
    """A loop that statements share: the value of each, and the range that covers them all."""

    values: Mapping[str, Value]
    begin: int
    end: int

    @property
    def extent(self) -> int:
        return self.end - self.begin


Match: TypeAlias = tuple[int, int, int]
"""A column of the first cluster, one of the second, and what is added to the values of that."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Statements in text order and the columns that they share, inside of the columns `outer`."""

    statements: tuple[str, ...]
    columns: tuple[Column, ...]
    outer: tuple[Column, ...] = ()

    def shared(self, other: Cluster, matches: list[Match]) -> tuple[Column, ...]:
        """The columns that are left in a merge with the next cluster."""
        found = []
        for p, q, by in matches:
            first, second = self.columns[p], other.columns[q]
            moved = {n: Value(v.variable, v.offset + by) for n, v in second.values.items()}
            begin, end = min(first.begin, second.begin + by), max(first.end, second.end + by)
            found.append(Column({**first.values, **moved}, begin, end))
        return tuple(found)


Accept: TypeAlias = Callable[[Cluster, Cluster, tuple[Column, ...]], bool]
"""Whether two neighbours may merge on these columns; asked for every legal merge in steps 2 and
3."""


class Fusion:
    """How to fuse. A column may be a reduction variable of some statements (the caller puts it in
    a cluster); such a column is only shared where the elements behind it are: with statements
    that compute them, or that read them too. Statements that go over the rows of one matrix are
    `related`."""

    def __init__(
        self,
        scop: Scop,
        dependences: Dependences,
        strategy: str,
        accept: Accept | None = None,
    ) -> None:
        self.statements = {s.name: s for s in scop.statements}
        self.dependences = dependences
        self.strategy = strategy
        self.accept = accept
        self.related: dict[str, list[str]] = {}
        for s in scop.statements:
            if s.walk is not None and s.kind == "update":
                self.related.setdefault(s.walk.matrix, []).append(s.name)

    def clusters(self, clusters: list[Cluster]) -> list[Cluster]:
        """Merges neighbours in the given list."""

        def same_tensor(a: Cluster, b: Cluster, matches: list[Match]) -> bool:
            return self._target(a) == self._target(b) and self._keeps_all(a, b, matches)

        clusters = self._merge(clusters, same_tensor, lambda _places, _cluster: None)
        if self.strategy != MIN:
            clusters = self._merge(clusters, self._is_lossless, self._last_source)
            parts = self._components(clusters)
            clusters = self._merge(
                clusters, lambda a, b, m: self._is_worthwhile(a, b, m, parts), self._last_source
            )
        return clusters

    def _merge(
        self,
        clusters: list[Cluster],
        allowed: Callable[[Cluster, Cluster, list[Match]], bool],
        partners: Callable[[Mapping[str, int], Cluster], int | None],
    ) -> list[Cluster]:
        """One pass from left to right: each cluster joins its partner, a place in the list so far
        that `partners` finds by those of all statements, or the last one, where that is
        allowed."""
        merged: list[Cluster] = []
        places: dict[str, int] = {}
        for cluster in clusters:
            found = (partners(places, cluster), len(merged) - 1 if merged else None)
            for place in dict.fromkeys(place for place in found if place is not None):
                before = merged[place]
                if len(before.statements) + len(cluster.statements) > MOST_FUSED:
                    continue
                matches = self._matches(before, cluster)
                if any(map(is_of_tile, before.statements)) and not allowed(
                    before, cluster, matches
                ):
                    matches = matches[:1]  # the loop over tiles
                if matches and self._are_classes_of_sums(before, cluster):
                    continue
                if matches and self._are_two_products(before, cluster):
                    continue
                if matches and allowed(before, cluster, matches):
                    names = before.statements + cluster.statements
                    columns = before.shared(cluster, matches)
                    merged[place] = Cluster(names, columns, before.outer)
                    break
            else:
                place = len(merged)
                merged.append(cluster)
            places.update(dict.fromkeys(cluster.statements, place))
        return merged

    def _last_source(self, places: Mapping[str, int], cluster: Cluster) -> int | None:
        """The place of the last one that a cluster depends on, which it may join, as nothing
        between matters to it; or of one behind that, to which the cluster is related."""
        between = self.dependences.between(places, cluster.statements)
        found = [places[dependence.source] for dependence in between]
        for names in self.related.values():
            if not set(cluster.statements).isdisjoint(names):
                found += (places[name] for name in names if name in places)
        return max(found, default=None)

    def _is_lossless(self, a: Cluster, b: Cluster, matches: list[Match]) -> bool:
        return self._keeps_all(a, b, matches) and self._is_accepted(a, b, matches)

    def _is_worthwhile(
        self, a: Cluster, b: Cluster, matches: list[Match], parts: Mapping[str, int]
    ) -> bool:
        if parts[a.statements[0]] != parts[b.statements[0]]:
            return False
        if self.strategy == PRESERVE:
            around = _loops(a.outer)
            had = max(_loops(a.columns), _loops(b.columns))
            if _loops(a.columns[p] for p, _, _ in matches) + around < min(3, had + around):
                return False
        return self._is_accepted(a, b, matches)

    def _is_accepted(self, a: Cluster, b: Cluster, matches: list[Match]) -> bool:
        """Whether a loop is shared, and the merge not vetoed."""
        if not _loops(a.columns[p] for p, _, _ in matches):
            return False
        return self.accept is None or self.accept(a, b, a.shared(b, matches))

    def _components(self, clusters: list[Cluster]) -> dict[str, int]:
        """The parts of the clusters that dependences, or relations, connect, as a number for each
        statement.

        Clusters of different parts gain nothing from a merge that loses columns.
        """
        part = {name: i for i, c in enumerate(clusters) for name in c.statements}
        root = list(range(len(clusters)))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        for dependence in self.dependences.between(part, part):
            root[find(part[dependence.sink])] = find(part[dependence.source])
        for names in self.related.values():
            found = [part[name] for name in names if name in part]
            for one, other in pairwise(found):
                root[find(one)] = find(other)
        return {name: find(i) for name, i in part.items()}

    def _keeps_all(self, a: Cluster, b: Cluster, matches: list[Match]) -> bool:
        """Whether no column is lost; reductions that stay inside are no loss."""
        kept = [{p for p, _, _ in matches}, {q for _, q, _ in matches}]
        return all(
            place in places or self.reduces(column)
            for cluster, places in zip((a, b), kept, strict=True)
            for place, column in enumerate(cluster.columns)
        )

    def _are_classes_of_sums(self, a: Cluster, b: Cluster) -> bool:
        """Whether they compute different elements of one tensor as longer sums: each has loops that
        suit it, of its own."""
        written = [{self.statements[n].write.tensor for n in c.statements} for c in (a, b)]
        between = self.dependences.between(set(a.statements), b.statements)
        if written[0] != written[1] or any(True for _ in between):
            return False
        return any(_is_long(self.statements[n]) for n in (*a.statements, *b.statements))

    def _are_two_products(self, a: Cluster, b: Cluster) -> bool:
        """Whether both add long products of matrices to one tensor: operands of one product only
        are packed in a nest, and its vectors may be strided in those of the other."""
        if self._target(a) != self._target(b):
            return False
        parts = ([self.statements[n] for n in c.statements] for c in (a, b))
        return all(any(map(is_product, part)) for part in parts)

    def _target(self, cluster: Cluster) -> str:
        return self.statements[cluster.statements[0]].write.tensor

    # --- which columns are equal ----------------------------------------------------------------

    def _matches(self, a: Cluster, b: Cluster) -> list[Match]:
        """The columns of two neighbours that may be shared, each used once."""
        between = self.dependences.between(set(a.statements), b.statements)
        equal = [set(self._equal(a, b, dependence).items()) for dependence in between]
        if not equal:
            return self._unrelated(a, b)
        found = dict(set.intersection(*equal))
        matches: list[Match] = []
        for (p, q), by in sorted(found.items()):
            if all(p != first and q != second for first, second, _ in matches):
                matches.append((p, q, by))
        return matches

    def _equal(self, a: Cluster, b: Cluster, dependence: Dependence) -> dict[tuple[int, int], int]:
        """The columns that are equal in a dependence once something is added to the second."""
        result = {}
        for p, first in enumerate(a.columns):
            for q, second in enumerate(b.columns):
                value = first.values[dependence.source]
                shift = dependence.relation.shift(value, second.values[dependence.sink])
                if shift is not None:
                    result[p, q] = -shift
        return result

    def _unrelated(self, a: Cluster, b: Cluster) -> list[Match]:
        """Columns of clusters without a dependence: the first ones, as long as extents agree."""
        matches = []
        for place, (first, second) in enumerate(zip(a.columns, b.columns, strict=False)):
            if first.extent != second.extent:
                break
            if not (self.reduces(first) or self.reduces(second)):
                matches.append((place, place, first.begin - second.begin))
            elif self._share_reads(a, first, b, second):
                matches.append((place, place, 0))
        return matches

    def reduces(self, column: Column) -> bool:
        """Whether the column is a reduction variable of a statement."""
        return any(
            value.variable in self.statements[name].reduction
            for name, value in column.values.items()
        )

    def _share_reads(self, a: Cluster, first: Column, b: Cluster, second: Column) -> bool:
        """Whether equal values of two columns read the same elements of some tensor."""
        for one, other in itertools.product(a.statements, b.statements):
            source, sink = self.statements[one], self.statements[other]
            for read, again in itertools.product(source.reads, sink.reads):
                if read.tensor != again.tensor:
                    continue
                relation = relate(source, read, sink, again)
                if relation and relation.shift(first.values[one], second.values[other]) == 0:
                    return True
        return False


def is_product(statement: ScopStatement) -> bool:
    """Whether a statement adds up more than a few products of operands, each of which serves all
    values of some variable of the target."""
    if not _is_long(statement):
        return False
    used = [
        {v for subscript in read.subscripts if subscript for v in subscript.terms}
        for read in statement.reads
        if read.tensor != statement.write.tensor
    ]
    moving = [names for names in used if names & set(statement.reduction)]
    long = {v for v in statement.outer if statement.ranges[v][1] - statement.ranges[v][0] > 1}
    return len(moving) > 1 and all(long - names for names in moving)


def _is_long(statement: ScopStatement) -> bool:
    """Whether a statement adds up more than a few terms."""
    ranges = (statement.ranges[v] for v in statement.reduction)
    return statement.accumulates and at_hint(prod(end - begin for begin, end in ranges)) > SHORT


def _loops(columns: Iterable[Column]) -> int:
    """How many columns have more than one iteration."""
    return sum(column.extent > 1 for column in columns)
