"""What code is generated for: a frozen value that the stages of the compiler take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.device import Device
from tc.options import MappingOptions
from tc.plan import Part
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Node


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """A memory in which tiles of tensors may be held, and the bytes that one of them may have."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan of a part, why it is so, a sentence or two a note, and the tree that it makes."""

    part: Part
    notes: tuple[str, ...]
    tree: Node


Choose: TypeAlias = "Callable[[Node, Facts, Target, MappingOptions], Iterable[Chosen]]"
"""Plans for the parts of a tree, one after the other, for a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device with what its kind of code has: `roles` that loops can take, memory `scopes`, the
    most `lanes` that a loop of role "vector" may have, and what chooses plans."""

    device: Device
    roles: tuple[str, ...]
    scopes: tuple[MemoryScope, ...]
    lanes: int
    choose: Choose = field(repr=False)

    def room(self, scope: str) -> int | None:
        """The bytes that a tile in a scope may have; None where there is no such scope."""
        return next((s.bytes for s in self.scopes if s.name == scope), None)
