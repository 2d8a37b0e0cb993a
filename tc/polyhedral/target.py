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
    """A memory that holds tiles of tensors, and the bytes that one tile may have."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PartPlan:
    """The plan of a part, notes that say why in a sentence or two, and the tree after the plan."""

    part: Part
    notes: tuple[str, ...]
    tree: Node


@dataclass(frozen=True, kw_only=True)
class Target(ABC):
    """A device with what its kind of code has.

    Loops can take the `roles`, tiles lie in the memories `scopes`, and a loop of role "vector" has
    at most `lanes` iterations. Programs are rewritten by the thresholds `rewriting`. Statements are
    fused where the tensors that they read again have at most `fusion_bytes`. The `passes` turn a
    kernel into the kernel that is printed; with `launches`, each part of a kernel is a launch. The
    chooser of the target leaves its decisions to `decider`.
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
        """The tree of parts that are done, one after the other. A single part that is a launch
        stays a part, though it is a sequence itself."""
        alone = len(parts) == 1 and not (self.launches and isinstance(parts[0], Sequence))
        return parts[0] if alone else Sequence(parts)

    def refusal(self, part: Node, scop: Scop) -> str | None:  # noqa: ARG002
        """Why the device cannot run a part; None where it can."""
        return None
