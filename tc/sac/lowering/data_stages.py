"""Stages that compute the integers of data which a shape, a bound or a condition on them needs,
before the rest: only their values are keys of a specialisation (C26)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tc.sac.lowering.data_ranges import beyond, range_of
from tc.sac.lowering.terms import Term

Run: TypeAlias = Callable[[str], Sequence[Any]]
"""The elements of the result of a def, for the inputs of a call."""


@dataclass(frozen=True)
class ComputedStage:
    """A def whose result are the integers, or the condition."""

    text: str
    is_condition: bool

    def value(self, run: Run, arrays: Sequence[Any]) -> Any:  # noqa: ARG002
        """What decides a specialisation, for the inputs of a call."""
        found = run(self.text)
        return bool(found[0] != 0) if self.is_condition else tuple(map(int, found))


@dataclass(frozen=True)
class RangeStage:
    """The least (`side` 0) or the greatest (1) value of a term over the ranges of its indices, or
    whether it lies beyond a limit; `names` are the tensors of the inputs, in order. Stages of equal
    structure are equal."""

    term: Term = field(compare=False)
    side: int
    limit: int | None
    names: tuple[str, ...]
    structure: tuple[Any, ...]

    @classmethod
    def of(cls, term: Term, side: int, limit: int | None, names: Sequence[str]) -> RangeStage:
        return cls(term, side, limit, tuple(names), _structure(term))

    def value(self, run: Run, arrays: Sequence[Any]) -> Any:  # noqa: ARG002
        """What decides a specialisation, for the inputs of a call."""
        found = range_of(self.term, dict(zip(self.names, arrays, strict=True)))
        return beyond(found, self.side, self.limit)


DataStage: TypeAlias = ComputedStage | RangeStage


def _structure(term: Term) -> tuple[Any, ...]:
    """What is equal for terms that are computed in the same way: a row for each node, operands by
    the numbers of their rows."""
    numbers: dict[Term, int] = {}
    rows: list[Any] = []

    def visit(node: Term) -> int:
        if node not in numbers:
            below = [*node.args]
            match node.kind:
                case "index":
                    told: Any = node.data[0].begin, node.data[0].end, len(rows)
                case "read":
                    told = node.data.name
                case "use":
                    below += [*node.data.variables, node.data.term]
                    told = len(node.data.variables)
                case "fold":
                    op, bound, dtype = node.data
                    below += bound
                    told = op, len(bound), str(dtype)
                case "linear":
                    told = node.data.constant, tuple(node.data.terms.values())
                case _:
                    told = str(node.data)
            places = tuple(visit(each) for each in below)
            numbers[node] = len(rows)
            rows.append((node.kind, told, str(node.type), places))
        return numbers[node]

    visit(term)
    return tuple(rows)
