"""What code is generated for: a frozen value that the stages of the compiler take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from tc.device import Device
from tc.gpu import Gpu
from tc.kernel.pass_manager import Pass, PassContext
from tc.options import Options
from tc.plan import Part
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.decisions import BY_DEFAULT, Decider
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import Node, Sequence
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """A memory in which tiles of tensors may be held, and the bytes that one of them may have."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PartPlan:
    """The plan of a part, why it is so, a sentence or two a note, and the tree that it makes."""

    part: Part
    notes: tuple[str, ...]
    tree: Node


@dataclass(frozen=True, kw_only=True)
class Target(ABC):
    """A device with what its kind of code has.

    `roles` are those that loops can take, `scopes` the memories of tiles, and `lanes` the most that
    a loop of role "vector" may have. Programs are rewritten by the thresholds `rewriting`, and
    statements fused where what they read again has at most `fusion_bytes`. `passes` make of a
    kernel what is printed, in which with `launches` each part is one. Its chooser asks `decider`.
    """

    device: Device | Gpu
    roles: tuple[str, ...]
    scopes: tuple[MemoryScope, ...]
    lanes: int
    rewriting: Thresholds
    fusion_bytes: int
    passes: tuple[Pass, ...]
    launches: bool = False
    decider: Decider = BY_DEFAULT

    def room(self, scope: str) -> int | None:
        """The bytes that a tile in a scope may have; None where there is no such scope."""
        return next((s.bytes for s in self.scopes if s.name == scope), None)

    @abstractmethod
    def context(self, options: Options) -> PassContext:
        """What the passes know."""

    @abstractmethod
    def choose(
        self, tree: Node, info: AccessInfo, dependences: Dependences, options: Options
    ) -> Iterator[PartPlan]:
        """Plans for the parts of a tree, one after the other."""

    def wanted(self, options: Options) -> Target:  # noqa: ARG002
        """The target with what options say of all parts."""
        return self

    def finish(self, part: Node, dependences: Dependences) -> Node:  # noqa: ARG002
        """A part once its plan is done: with what follows from the plan, such as barriers."""
        return part

    def joined(self, parts: tuple[Node, ...]) -> Node:
        """The tree of parts that are done, one after the other; one that is a launch stays one,
        though it is a sequence itself."""
        alone = len(parts) == 1 and not (self.launches and isinstance(parts[0], Sequence))
        return parts[0] if alone else Sequence(parts)

    def refusal(self, part: Node, scop: Scop) -> str | None:  # noqa: ARG002
        """Why the device cannot run a part; None where it can."""
        return None
