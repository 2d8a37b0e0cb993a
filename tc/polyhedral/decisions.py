"""Where a chooser decides, others may: each decision has a name, a default and its alternatives.

A chooser asks its `Decider` at each of them. The usual one gives the default, at no cost. One that
searches gives what it wants to try, and keeps what was asked, so that the decisions of a program
are found by running its chooser: those of a candidate depend on what was decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class Decider:
    """Takes the decisions of a chooser as the chooser itself would."""

    @property
    def searches(self) -> bool:
        """Whether alternatives are asked for."""
        return False

    def pick(
        self,
        name: str,  # noqa: ARG002
        default: T,
        alternatives: Callable[[], Iterable[T]],  # noqa: ARG002
    ) -> T:
        """One of the alternatives: each has a text of its own (`str`), the same in each run."""
        return default


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision as it was taken: the texts of all values, the default first, and of that taken."""

    values: tuple[str, ...]
    taken: str


@dataclass
class Decisions(Decider):
    """Takes decisions as they are `wanted`, by name; others, and those whose wanted value is none
    of the alternatives, by default. `asked` is what was asked, in order."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    asked: dict[str, Decision] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        return True

    def pick(
        self,
        name: str,
        default: T,
        alternatives: Callable[[], Iterable[T]],
    ) -> T:
        """As `Decider.pick`.

        >>> decisions = Decisions({"rows": "3"})
        >>> decisions.pick("rows", 1, lambda: (1, 2, 3)), decisions.pick("lanes", 8, lambda: (4,))
        (3, 8)
        >>> decisions.asked["rows"]
        Decision(values=('1', '2', '3'), taken='3')
        """
        values = {str(default): default}
        for value in alternatives():
            values.setdefault(str(value), value)
        number = 1
        unique = name
        while unique in self.asked:
            number += 1
            unique = f"{name} ({number})"
        wanted = self.wanted.get(unique, str(default))
        taken = wanted if wanted in values else str(default)
        self.asked[unique] = Decision(tuple(values), taken)
        return values[taken]


BY_DEFAULT = Decider()
