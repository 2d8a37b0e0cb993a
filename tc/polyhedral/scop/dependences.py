"""Dependences: pairs of instances whose order matters, since both touch an element that one of
them writes.

All are memory-based. In text order every instance of a statement runs before all of the next, so
the dependences between two statements are the pairs for which two accesses meet
(`tc.polyhedral.scop.relations`). A statement depends on itself only through its accumulator: P1
rejects every other read of what another instance writes. Reductions may be reordered (R5), so
these dependences are *relaxed*: they forbid to run instances at once, not to swap them.

Left out is what follows from others: where a statement surely writes all that an earlier access
touches, later ones depend on the statement, and through it on the access. Thus the number of
dependences grows with that of statements, not with its square.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tc.polyhedral.scop.relations import Relation, relate
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement


@dataclass(frozen=True, eq=False)
class Dependence:
    """The instances of `source` and `sink` that touch one element of `tensor`: the source's run
    before the sink's.

    `kind` is "flow" (the sink reads what the source writes), "anti" (it writes what the source
    reads), "output" (both write) or "reduction" (one statement, through its accumulator), the
    first that applies where accesses agree. Only the last is `relaxed`.
    """

    source: str
    sink: str
    tensor: str
    kind: str
    relation: Relation = field(repr=False)

    @property
    def relaxed(self) -> bool:
        return self.kind == "reduction"


@dataclass(frozen=True, eq=False)
class Dependences:
    """The dependences of a scop, in the text order of their sinks."""

    scop: Scop
    all: tuple[Dependence, ...]
    _into: Mapping[str, tuple[Dependence, ...]] = field(repr=False)

    @property
    def order(self) -> Iterator[Dependence]:
        """The dependences that a schedule must respect: all but the relaxed ones."""
        return (d for d in self.all if not d.relaxed)

    def into(self, sink: str) -> tuple[Dependence, ...]:
        """The dependences of one sink, relaxed dependences included."""
        return self._into.get(sink, ())

    def between(self, sources: Container[str], sinks: Iterable[str]) -> Iterator[Dependence]:
        """The dependences from some statements to others, but for relaxed ones."""
        for sink in sinks:
            for dependence in self.into(sink):
                if dependence.source in sources and not dependence.relaxed:
                    yield dependence


@dataclass(frozen=True, slots=True)
class _Touch:
    statement: ScopStatement
    access: Access
    writes: bool


def compute_dependences(scop: Scop) -> Dependences:
    """The dependences of a scop."""
    live: dict[str, list[_Touch]] = {}
    into: dict[str, tuple[Dependence, ...]] = {}
    for statement in scop.statements:
        own = _touches(statement)
        found: list[Dependence] = []
        for touch in own:
            found += _on(live.get(touch.access.tensor, ()), touch)
        for check in statement.waits_for:
            found += _on(live.get(check.tensor, ()), _Touch(statement, check, False))
        found += _reduction(statement)
        if found:
            into[statement.name] = tuple(found)
        covered = statement.write
        live[covered.tensor] = [
            touch for touch in live.get(covered.tensor, ()) if not _covers(covered, touch.access)
        ]
        for touch in own:
            live.setdefault(touch.access.tensor, []).append(touch)
    return Dependences(scop, tuple(d for found in into.values() for d in found), into)


def _touches(statement: ScopStatement) -> list[_Touch]:
    """The accesses of a statement, the write first; equal accesses are one."""
    found: list[_Touch] = []
    for access in (statement.write, *statement.reads):
        if not any(access.touches_as(touch.access) for touch in found):
            found.append(_Touch(statement, access, not found))
    return found


def _on(earlier: Iterable[_Touch], touch: _Touch) -> list[Dependence]:
    """The dependences of an access on earlier ones.

    A read at the place of the write is merged with it (`_touches`), and then gives its kind.
    """
    reads_too = any(map(touch.access.touches_as, touch.statement.reads))
    result = []
    for before in earlier:
        if not (before.writes or touch.writes):
            continue
        if before.writes and (reads_too or not touch.writes):
            kind = "flow"
        else:
            kind = "output" if before.writes else "anti"
        relation = relate(before.statement, before.access, touch.statement, touch.access)
        if relation is not None:
            source, sink = before.statement.name, touch.statement.name
            result.append(Dependence(source, sink, touch.access.tensor, kind, relation))
    return result


def _reduction(statement: ScopStatement) -> Iterator[Dependence]:
    """The pairs of instances that share an accumulator, in both orders."""
    if any(end - begin > 1 for begin, end in (statement.ranges[v] for v in statement.reduction)):
        relation = relate(statement, statement.write, statement, statement.write)
        if relation is not None:
            name = statement.name
            yield Dependence(name, name, statement.write.tensor, "reduction", relation)


def _covers(write: Access, access: Access) -> bool:
    """Whether a write surely reaches all that an access may touch."""
    for ((begin, end), step), ((low, high), apart) in zip(write.places, access.places, strict=True):
        if not begin <= low or not high <= end:
            return False
        is_between = high - low > 1 and (not step or apart == 0 or apart % step)
        if step != 1 and (is_between or not step or (low - begin) % step):
            return False
    return True
