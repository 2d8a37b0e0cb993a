"""What the rules may say of a program: arrays, errors, both, or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = dict[str, int]
Place: TypeAlias = tuple[int, ...]
Ranges: TypeAlias = Mapping[str, tuple[int, int]]

AT_RUN_TIME = frozenset({"AccessError"})
BEFORE = frozenset({"RangeError"})
EITHER = AT_RUN_TIME | BEFORE
UNTYPED = frozenset({"CheckError"})
REFUSED = frozenset({"CheckError", "RangeError"})


class Open(Exception):
    """The rules do not say what the program means."""


class Fails(Exception):
    """The program is an error of one of the classes."""

    def __init__(self, rule: str, classes: frozenset[str], why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule, self.classes = rule, classes


class OutOfBounds(Fails):
    """A read outside of its tensor, which `pad` catches (G9)."""


@dataclass(frozen=True)
class Reading:
    """What the rules say twice. `starts_plain`: `op=!` without a reduction variable starts its
    range where it has conditions (W1), and is `=` otherwise (R2). `starts_hull`: what starts is the
    hull of a dependent left-hand variable, not the part of it that has points. `starts_fresh`: what
    `op=` without `!` starts in a fresh tensor (R3) is what `op=!` would, not the places alone that
    have an instance."""

    starts_plain: bool = True
    starts_hull: bool = True
    starts_fresh: bool = True


READINGS = tuple(
    Reading(plain, hull, fresh) for fresh, plain, hull in itertools.product((True, False), repeat=3)
)


@dataclass(frozen=True)
class Outcome:
    """`arrays` are the outputs by name, None where the program is an error; `classes` are those of
    errors that may be raised; `exact` says that no order of computation gives other numbers;
    `doubts` are the rules by which both may happen; `decided_by` are the fields of `Reading` that
    were looked at: another reading that has the same there gives the same."""

    arrays: dict[str, Array] | None
    classes: frozenset[str] = frozenset()
    rule: str = ""
    exact: bool = True
    doubts: tuple[str, ...] = ()
    decided_by: frozenset[str] = field(default=frozenset(), compare=False)


def inside(place: Place, shape: Place) -> bool:
    return len(place) == len(shape) and all(0 <= x < n for x, n in zip(place, shape, strict=True))
