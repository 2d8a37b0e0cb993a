"""Errors of compiled code in the words of SaC, without a run of the whole reference: what failed is
sought at the index values that the error carries, and at the ends of ranges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tc.dtypes import Array
from tc.errors import AccessError, Facts, TCError
from tc.sac.arguments import GivenInput
from tc.sac.levels.array_functions import outside
from tc.sac.levels.element_types import rounded_to
from tc.sac.levels.expressions import evaluate, execute
from tc.sac.levels.loops import FoldLoop, LoopValue
from tc.sac.levels.partitions import Partition, is_empty
from tc.sac.levels.parts import part_of
from tc.sac.levels.values import Context, Shape, Value, elements
from tc.sac.program import Program, issue_warnings, traced
from tc.sac.reference import check_instance, compute_loop
from tc.source import Span

MAX_WORK = 5000
"""The most instances, and elements by themselves, that are computed in search of an error."""

MAX_CORNERS = 4
"""Axes of a range whose both ends are tried."""


class OutOfWork(Exception):
    """The search has computed as much as it may."""


@dataclass
class _Search(Context):
    """Computes elements as the reference does, but of each loop first the instances at which an
    error is likely."""

    hints: Sequence[int] = ()
    limit: int = MAX_WORK
    work: int = 0
    tried: set[tuple[Value, Partition, Shape]] = field(default_factory=set)

    def spend(self) -> None:
        self.work += 1
        if self.work > self.limit:
            raise OutOfWork

    def searched(self, loop: Value, at: Mapping[int, int] = MappingProxyType({}), /) -> Array:
        """The elements of a loop, likely errors first."""
        assert isinstance(loop, LoopValue)
        _ = loop.shape  # what is wrong with it comes first, as in the reference
        for part in loop.parts:
            for index in self.likely(loop, part, at):
                key = loop, part, index
                if key not in self.tried:
                    self.tried.add(key)
                    check_instance(loop, part, index)
        return compute_loop(loop, at)

    def likely(self, loop: LoopValue, part: Partition, at: Mapping[int, int]) -> Iterator[Shape]:
        """Indices of a partition that no earlier one covers: runs of the hints, and corners."""
        (lower, upper), axes = _range(loop, part), _axes(loop, part)
        is_array = not isinstance(loop, FoldLoop)
        if is_empty(lower, upper) or (is_array and 0 in part.room(loop.shape)):
            return
        count = len(lower)
        runs = [tuple(self.hints[k : k + count]) for k in range(len(self.hints) - count + 1)]
        ends = [
            (k, n - 1) if axis < MAX_CORNERS else (k,)
            for axis, (k, n) in enumerate(zip(lower, upper, strict=True))
        ]
        for index in dict.fromkeys((*runs, *itertools.product(*ends))):
            placed = tuple(at.get(axis, k) for axis, k in zip(axes, index, strict=True))
            inside = all(k <= x < n for k, x, n in zip(lower, placed, upper, strict=True))
            if inside and not _is_covered(loop, part, placed, axes):
                yield placed


def _axes(loop: LoopValue, part: Partition) -> Shape:
    """The axes of the result that an index takes; of a fold, numbers of its own."""
    if isinstance(loop, FoldLoop):
        return tuple(range(len(part.lower)))
    return part.axes(len(loop.shape))


def _range(loop: LoopValue, part: Partition) -> tuple[Shape, Shape]:
    return (part.lower, part.upper) if isinstance(loop, FoldLoop) else part.range


def _is_covered(loop: LoopValue, part: Partition, index: Shape, axes: Shape) -> bool:
    """Whether an earlier partition covers the place of an index as a whole."""
    place = dict(zip(axes, index, strict=True))
    for earlier in itertools.takewhile(lambda each: each is not part, loop.parts):
        bounds = zip(_axes(loop, earlier), *_range(loop, earlier), strict=True)
        if all(axis in place and k <= place[axis] < n for axis, k, n in bounds):
            return True
    return False


def told(
    program: Program, given: list[GivenInput], failed: TCError, limit: int = MAX_WORK
) -> tuple[Array, ...] | None:
    """Raises the error of compiled code in the words of the program, if one of its instances is
    found to fail. Else returns the results, where none fails and they take little work, or None.

    Raises the error in words of its own, where more work is needed and `failed` carries facts."""
    hints = tuple(value for _, value in failed.facts.indices) if failed.facts else ()
    functions = {d.name.text: d for d in program.module.definitions}

    def work() -> tuple[tuple[Array, ...], Context]:
        search = _Search(functions, evaluate, execute, compute_loop, hints=hints, limit=limit)
        search.loops, search.part_of = search.searched, part_of
        results = program.values(given, search)
        for value in results:
            if (
                hints
                and len(hints) >= len(value.shape)
                and all(0 <= k < n for k, n in zip(hints, value.shape, strict=False))
            ):
                part_of(value, dict(enumerate(hints[: value.rank])))
        found = [(elements(value, value.type.alone), value.type.alone) for value in results]
        return tuple(rounded_to(array, dtype) for array, dtype in found), search

    try:
        results, context = traced(work)
    except OutOfWork:
        if failed.facts is None:
            return None
        raise _by_facts(program, failed.facts) from None
    except TCError as error:
        error.facts = error.facts or failed.facts
        raise
    issue_warnings(context)
    return results


def _by_facts(program: Program, facts: Facts) -> TCError:
    """The error by what compiled code knows of it."""
    first, last = program.results[0].span, program.results[-1].span
    span = Span(first.source, first.start, last.end)
    at = ", ".join(f"{name} = {value}" for name, value in facts.indices)
    where = f", at {at} of the statements that the program is lowered to" if at else ""
    if facts.kind == "division":
        return AccessError(f"integer division by zero{where}", rule="Y4", span=span, facts=facts)
    axis = next((a for a, k in enumerate(facts.place) if not 0 <= k < facts.shape[a]), 0)
    return AccessError(
        outside(facts.place[axis], axis, facts.shape) + where,
        rule="C8",
        span=span,
        facts=facts,
    )
