"""Fusion: which statements share loops, found bottom-up from the dependences.

A cluster is some neighbours in text order with the columns that they share. A column gives each
statement a value (a left-hand variable plus an offset), so that the values are equal in every
dependence within the cluster: the columns are coincident by construction, and the statements may
run one after the other inside of them. At first each statement is a cluster with its left-hand
variables as columns. Two neighbours may merge if a column of each has equal values in every
dependence between them; columns without a partner stay inside.

1. Clusters that write one tensor (its start, updates and epilogue) merge where no column is lost.
2. All strategies but "min" merge what loses no column.
3. "max" then merges where one column of more than one iteration survives, "preserve3coincident"
   where min(3, as many as there were) survive.

Inside of the shared columns the same happens again to the columns that are left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import relate
from tc.polyhedral.scop.scop import Scop

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


@dataclass(frozen=True, slots=True)
class Cluster:
    """Statements in text order and the columns that they share, inside of the columns `outer`."""

    statements: tuple[str, ...]
    columns: tuple[Column, ...]
    outer: tuple[Column, ...] = ()


Accept: TypeAlias = Callable[[Cluster, Cluster, tuple[Column, ...]], bool]
"""Whether two neighbours may merge on these columns; asked for every legal merge in steps 2 and
3."""

Match: TypeAlias = tuple[int, int, int]
"""A column of the first cluster, one of the second, and what is added to the values of that."""


class Fusion:
    """How to fuse. A column may be a reduction variable of some statements (the caller puts it in
    a cluster); such a column is only shared where the elements behind it are: with statements
    that compute them, or that read them too."""

    def __init__(
        self, scop: Scop, dependences: Dependences, strategy: str, accept: Accept | None = None
    ) -> None:
        self.statements = {s.name: s for s in scop.statements}
        self.dependences = dependences
        self.strategy = strategy
        self.accept = accept

    def clusters(
        self, clusters: list[Cluster], outer: tuple[Column, ...] = ()
    ) -> tuple[Cluster, ...]:
        """Merges neighbours in the given list, which stand inside of the columns `outer`."""
        work = [_Work(list(c.statements), list(c.columns), outer) for c in clusters]

        def same_tensor(a: _Work, b: _Work, matches: list[Match]) -> bool:
            return self._target(a) == self._target(b) and self._keeps_all(a, b, matches)

        work = self._merge(work, same_tensor)
        if self.strategy != MIN:
            work = self._merge(work, self._is_lossless)
            parts = self._components(work)
            work = self._merge(work, lambda a, b, m: self._is_worthwhile(a, b, m, parts))
        return tuple(w.cluster() for w in work)

    def _merge(
        self, work: list[_Work], allowed: Callable[[_Work, _Work, list[Match]], bool]
    ) -> list[_Work]:
        """One pass from left to right: each cluster joins the one before where that is allowed."""
        merged: list[_Work] = []
        for cluster in work:
            if merged:
                matches = self._matches(merged[-1], cluster)
                if matches and allowed(merged[-1], cluster, matches):
                    merged[-1].absorb(cluster, matches)
                    continue
            merged.append(cluster)
        return merged

    def _is_lossless(self, a: _Work, b: _Work, matches: list[Match]) -> bool:
        if not self._keeps_all(a, b, matches) or not _extents(a, matches):
            return False
        return self._is_accepted(a, b, matches)

    def _is_worthwhile(
        self, a: _Work, b: _Work, matches: list[Match], parts: Mapping[str, int]
    ) -> bool:
        if parts[a.statements[0]] != parts[b.statements[0]]:
            return False
        kept = len(_extents(a, matches))
        if self.strategy == PRESERVE:
            around = sum(column.extent > 1 for column in a.outer)
            had = max(sum(column.extent > 1 for column in w.columns) for w in (a, b))
            if kept + around < min(3, had + around):
                return False
        return kept > 0 and self._is_accepted(a, b, matches)

    def _is_accepted(self, a: _Work, b: _Work, matches: list[Match]) -> bool:
        if self.accept is None:
            return True
        return self.accept(a.cluster(), b.cluster(), tuple(a.shared(b, matches)))

    def _components(self, work: list[_Work]) -> dict[str, int]:
        """The parts of the clusters that dependences connect, as a number for each statement.

        Clusters of different parts gain nothing from a merge that loses columns.
        """
        part = {name: i for i, w in enumerate(work) for name in w.statements}
        root = list(range(len(work)))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        for dependence in self.dependences.between(part, part):
            root[find(part[dependence.sink])] = find(part[dependence.source])
        return {name: find(i) for name, i in part.items()}

    def _keeps_all(self, a: _Work, b: _Work, matches: list[Match]) -> bool:
        """Whether no column is lost; reductions that stay inside are no loss."""
        kept = [{p for p, _, _ in matches}, {q for _, q, _ in matches}]
        return all(
            place in places or self._reduces(column)
            for work, places in zip((a, b), kept, strict=True)
            for place, column in enumerate(work.columns)
        )

    def _target(self, work: _Work) -> str:
        return self.statements[work.statements[0]].write.tensor

    # --- which columns are equal ----------------------------------------------------------------

    def _matches(self, a: _Work, b: _Work) -> list[Match]:
        """The columns of two neighbours that may be shared, each used once."""
        found: dict[tuple[int, int], int] | None = None
        for dependence in self.dependences.between(a.members, b.statements):
            pairs = self._equal(a, b, dependence)
            if found is None:
                found = pairs
            else:
                found = {key: by for key, by in found.items() if pairs.get(key) == by}
        if found is None:
            return self._unrelated(a, b)
        matches, used = [], set()
        for p in range(len(a.columns)):
            for q in range(len(b.columns)):
                if (p, q) in found and q not in used:
                    used.add(q)
                    matches.append((p, q, found[p, q]))
                    break
        return matches

    def _equal(self, a: _Work, b: _Work, dependence: Dependence) -> dict[tuple[int, int], int]:
        """The columns that are equal in a dependence once something is added to the second."""
        result = {}
        for p, first in enumerate(a.columns):
            for q, second in enumerate(b.columns):
                value = first.values[dependence.source]
                shift = dependence.relation.shift(value, second.values[dependence.sink])
                if shift is not None:
                    result[p, q] = -shift
        return result

    def _unrelated(self, a: _Work, b: _Work) -> list[Match]:
        """Columns of clusters without a dependence: the first ones, as long as extents agree."""
        matches = []
        for place, (first, second) in enumerate(zip(a.columns, b.columns, strict=False)):
            if first.extent != second.extent:
                break
            if not (self._reduces(first) or self._reduces(second)):
                matches.append((place, place, first.begin - second.begin))
            elif self._share_reads(a, first, b, second):
                matches.append((place, place, 0))
        return matches

    def _reduces(self, column: Column) -> bool:
        """Whether the column is a reduction variable of a statement."""
        return any(
            value.variable in self.statements[name].reduction
            for name, value in column.values.items()
        )

    def _share_reads(self, a: _Work, first: Column, b: _Work, second: Column) -> bool:
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


@dataclass
class _Work:
    """A cluster that grows."""

    statements: list[str]
    columns: list[Column]
    outer: tuple[Column, ...]
    members: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.members = set(self.statements)

    def cluster(self) -> Cluster:
        return Cluster(tuple(self.statements), tuple(self.columns), self.outer)

    def shared(self, other: _Work, matches: list[Match]) -> Iterator[Column]:
        for p, q, by in matches:
            first, second = self.columns[p], other.columns[q]
            moved = {n: Value(v.variable, v.offset + by) for n, v in second.values.items()}
            begin, end = second.begin + by, second.end + by
            yield Column({**first.values, **moved}, min(first.begin, begin), max(first.end, end))

    def absorb(self, other: _Work, matches: list[Match]) -> None:
        self.columns = list(self.shared(other, matches))
        self.statements += other.statements
        self.members |= other.members


def _extents(a: _Work, matches: list[Match]) -> list[int]:
    """The extents of the shared columns that have more than one iteration."""
    extents = (a.columns[p].extent for p, _, _ in matches)
    return [extent for extent in extents if extent > 1]
