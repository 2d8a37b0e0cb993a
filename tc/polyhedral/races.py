"""Which events of a launch race: some instances of them, run by different threads of one block,
touch one element, and one writes.

In memory that is an element of the tensor; in a buffer that threads share it is a place in the
buffer, which holds other elements in other iterations around it. The order of a tree is taken to be
legal: what touches an element of a tensor does so in the order of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc import sets
from tc.affine.forms import Form, LinearForm, constant_form, variable_form
from tc.plan import BLOCK, SHARED, THREAD
from tc.polyhedral.instance_pairs import Condition, Digit, InstancePair, compared, find
from tc.polyhedral.launch_events import MEMORY, Event, LaunchEvents, common_loops
from tc.polyhedral.launch_loops import LaunchLoop, Numbered, is_pinned
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.relations import SINK, SOURCE, Relation, relate
from tc.polyhedral.scop.scop import Access

Conditions: TypeAlias = "tuple[Condition, ...]"

Related: TypeAlias = "tuple[Relation, Conditions]"
"""Pairs of instances, and the further conditions on each pair."""

_ANYWHERE = (-(2**62), 2**62)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event, in the first iteration only, or in the last, of some loops around it."""

    event: Event
    edges: frozenset[LaunchLoop] = frozenset()

    def at_edge(self, loop: LaunchLoop) -> Occurrence:
        return replace(self, edges=self.edges | {loop}) if loop.is_full else self


@dataclass(frozen=True, slots=True)
class Race:
    """Two instances that race; None where the instances are not known."""

    pair: InstancePair | None


class Races:
    """The races between events of one launch, each looked for once."""

    def __init__(self, events: LaunchEvents) -> None:
        self.events = events
        self._position = {s.name: number for number, s in enumerate(events.scop.statements)}
        self._relations: dict[tuple[object, ...], Related | None] = {}
        self._quiet: dict[Event, bool] = {}
        self._found: dict[tuple[object, ...], Race | None] = {}

    def of(
        self,
        first: Occurrence,
        second: Occurrence,
        ahead: LaunchLoop | None = None,
        *,
        next_only: bool = False,
    ) -> Race | None:
        """How two events race of which the first runs before the second: in the same iteration of
        all loops around both; or the second in a later one (or the next only) of `ahead`, and any
        of loops inside of it."""
        a, b = first.event, second.event
        if (
            a.storage is not b.storage
            or not (a.writes or b.writes)
            or self.events.loops.threads == 1
        ):
            return None
        if a.storage.scope not in (MEMORY, SHARED):
            return None
        key = (first, second, ahead, next_only)
        if key not in self._found:
            self._found[key] = self._race(first, second, ahead, next_only=next_only)
        return self._found[key]

    def _race(
        self, first: Occurrence, second: Occurrence, ahead: LaunchLoop | None, *, next_only: bool
    ) -> Race | None:
        times = tuple(_times(first, second, ahead, next_only=next_only))
        return self._example(first.event, second.event, ahead, times)

    def _example(
        self,
        a: Event,
        b: Event,
        ahead: LaunchLoop | None,
        times: Conditions,
        role: str = THREAD,
    ) -> Race | None:
        """How two events race in different threads of a block, or in different blocks."""
        if not any(True for _ in self._by_different(role, a, b, ahead)):
            return None
        related = self._related(a, b, ahead)
        if related is None:
            return None
        relation, conditions = related
        conditions += times
        if role == THREAD:
            conditions += tuple(self._same_block(a, b))
        return self.related(relation, a, b, role, conditions, ahead)

    def related(
        self,
        relation: Relation,
        a: Event,
        b: Event,
        role: str,
        conditions: Conditions,
        ahead: LaunchLoop | None = None,
    ) -> Race | None:
        """How two events race in instances of a relation that meet conditions, where different
        threads, or blocks, run them."""
        for different in self._by_different(role, a, b, ahead):
            try:
                pair = find(relation, (*different, *conditions))
            except sets.TooComplex:
                return Race(None)
            if pair is not None:
                return Race(pair)
        return None

    def across_blocks(self, a: Event, b: Event) -> Race | None:
        """How two events touch one element in memory in two blocks."""
        if a.storage.scope != MEMORY:
            return None
        return self._example(a, b, None, (), BLOCK)

    def cannot_race(self, event: Event) -> bool:
        """Whether an event races with no other, whenever both run."""
        if event not in self._quiet:
            others = [other for other in self.events.all if other.storage is event.storage]
            self._quiet[event] = not any(self._ever(event, other) for other in others)
        return self._quiet[event]

    def _ever(self, a: Event, b: Event) -> bool:
        if not (a.writes or b.writes) or a.storage.scope not in (MEMORY, SHARED):
            return False
        ahead = next((loop for loop in a.storage.loops if loop.turns > 1), None)
        return any(
            self._example(first, second, ahead, ()) is not None
            for first, second in ((a, b), (b, a))
        )

    # --- who runs them ---

    def _by_different(
        self, role: str, a: Event, b: Event, ahead: LaunchLoop | None
    ) -> Iterator[Conditions]:
        """Conditions of which one is met where different threads, or blocks, run two events."""
        if role == THREAD and ahead is None and a.is_exchange and a is b:
            return  # each thread has a place of its own
        is_one_copy = a.tile is not None and a.tile is b.tile and a.free_axes == b.free_axes
        if role == THREAD and is_one_copy and (ahead is None or a.storage.tile is a.tile):
            return  # the same thread moves what is at the same place
        for key in self.events.loops.axes(role):
            if a.storage is b.storage and key in a.storage.replicated:
                continue  # each thread has what it asks for itself
            if key in a.free_axes or key in b.free_axes:
                yield ()
            elif any(key in e.executing_loops or key in e.copying_threads for e in (a, b)):
                yield (Condition("!=", runner(a, key, SOURCE) - runner(b, key, SINK)),)

    def _same_block(self, a: Event, b: Event) -> Iterator[Condition]:
        for key in self.events.loops.axes(BLOCK):
            if key not in a.free_axes and key not in b.free_axes:
                yield Condition("==", runner(a, key, SOURCE) - runner(b, key, SINK))

    # --- what they touch ---

    def _related(self, a: Event, b: Event, ahead: LaunchLoop | None) -> Related | None:
        """The pairs of instances that touch one element, or one place of a buffer that is filled
        anew; None where there are none."""
        anew = ahead is not None and ahead in a.storage.loops
        if not anew and a.tile is None and b.tile is None:
            # a statement reads nothing that it writes in other instances, but its accumulator (P1)
            before, after = self._position[a.statement], self._position[b.statement]
            if before == after and self.events.scop.statement(a.statement).scatters:
                return None
            if before > after or (before == after and not (a.writes and b.writes)):
                return None
        key = (id(a.domain), id(a.access), id(b.domain), id(b.access), anew and a.storage)
        if key not in self._relations:
            places = self._places(a, b) if anew else (_in_buffer(a), _in_buffer(b), ())
            self._relations[key] = self._relation(a, b, *places)
        return self._relations[key]

    def _relation(
        self, a: Event, b: Event, first: Access, second: Access, conditions: Conditions
    ) -> Related | None:
        relation = relate(a.domain, first, b.domain, second)
        return None if relation is None else (relation, conditions)

    def _places(self, a: Event, b: Event) -> tuple[Access, Access, Conditions]:
        """What is touched in a buffer: elements without what loops around the buffer fix of them.
        Where they fix some digits of a variable, what is left is a condition."""
        subscripts: tuple[list[LinearForm | None], list[LinearForm | None]] = ([], [])
        conditions: list[Condition] = []
        for left, right in zip(a.access.subscripts, b.access.subscripts, strict=True):
            own: tuple[LinearForm | None, LinearForm | None] = (None, None)
            if left is not None and right is not None:
                source, digits = self._place(SOURCE, a, left)
                sink, others = self._place(SINK, b, right)
                if digits.terms or others.terms:
                    condition = _of_variables(SOURCE, source) + digits
                    condition -= _of_variables(SINK, sink) + others
                    conditions.append(Condition("==", condition))
                else:
                    own = source, sink
            for forms, form in zip(subscripts, own, strict=True):
                forms.append(form)
        bounds = (_ANYWHERE,) * len(a.access.subscripts)
        source_place, sink_place = (
            replace(a.access, subscripts=tuple(forms), bounds=bounds) for forms in subscripts
        )
        return source_place, sink_place, tuple(conditions)

    def _place(
        self, side: int, event: Event, form: LinearForm
    ) -> tuple[LinearForm, Form[Digit, int]]:
        """A subscript without what the loops around the buffer fix: of variables of which these fix
        nothing, and the digits that they leave of others."""
        whole: LinearForm = constant_form(form.constant)
        digits: Form[Digit, int] = constant_form(0)
        for name, factor in form.terms.items():
            fixed, free = self.events.loops.split(
                event.statement, name, event.storage.loops, SHARED
            )
            if not fixed:
                whole += variable_form(name, factor)
                continue
            whole = whole.shifted(factor * self.events.loops.origin(event.statement, name))
            for each in free:
                digits += variable_form(each.digit(side, event.statement), factor * each.step)
        return whole, digits


def _in_buffer(event: Event) -> Access:
    """What an event touches; a buffer that is padded is touched outside of the tensor, too."""
    tile, access = event.storage.tile, event.access
    if tile is None or tile.copy.fill is None:
        return access
    return replace(access, bounds=(_ANYWHERE,) * len(access.bounds))


def _of_variables(side: int, form: LinearForm) -> Form[Digit, int]:
    return form.renamed(lambda name: Digit(side, Value(name)))


def runner(event: Event, key: Numbered, side: int) -> Form[Digit, int]:
    """The number along an axis of who runs an event."""
    if key in event.copying_threads:
        return variable_form(Digit(side, *event.copying_threads[key]))
    number: Form[Digit, int] = constant_form(0)
    for loop in event.executing_loops.get(key, ()):
        number += variable_form(loop.runner(side, event.statement), loop.inside)
    return number


def _times(
    first: Occurrence, second: Occurrence, ahead: LaunchLoop | None, *, next_only: bool
) -> Iterator[Condition]:
    """What holds of the iterations in which two events run."""
    a, b = first.event, second.event
    for loop in common_loops(a, b):
        is_known = not any(_runs_in_all(e, loop) for e in (a, b))
        turns = loop.turn(SINK, b.statement), loop.turn(SOURCE, a.statement)
        if loop is ahead:
            if is_known:
                yield compared("==" if next_only else ">", *turns, int(next_only))
            break
        if is_known and loop.turns > 1:
            yield compared("==", *turns)
    for side, at, occurrence in ((SOURCE, -1, first), (SINK, 0, second)):
        event = occurrence.event
        for loop in occurrence.edges:
            if not _runs_in_all(event, loop):
                yield Condition(
                    "==", Form(-(at % loop.turns), {loop.turn(side, event.statement): 1})
                )


def _runs_in_all(event: Event, loop: LaunchLoop) -> bool:
    """Whether an event is a copy that runs in all turns of a loop, not just those of the instances
    for which it stands: these are pinned there, or it is done for all threads in each turn."""
    if event.tile is None:
        return False
    return is_pinned(loop, event.statement) or (
        event.tile.scope == SHARED and loop.member.role == THREAD
    )
