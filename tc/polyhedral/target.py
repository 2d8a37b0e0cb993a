"""What code is generated for: a frozen value that the stages of the compiler take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tc.device import Device
from tc.gpu import Gpu
from tc.kernel.pass_manager import Pass, PassContext
from tc.options import Options
from tc.plan import Part
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import Node, Sequence
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop

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
    fused where the tensors that they read again have at most `fusion_bytes`, and products of
    `whole_products` steps (0: none) with all of their parallel loops or none. The `passes` turn a
    kernel into the kernel that is printed; with `launches`, each part of a kernel is a launch. The
    chooser of the target leaves its decisions to `decider`; `scatters` are the forms of scatters
    that a plan asks for, by statement.
    """

    device: Device | Gpu
    roles: tuple[str, ...]
    scopes: tuple[MemoryScope, ...]
    lanes: int
    rewriting: Thresholds
    fusion_bytes: int
    whole_products: int = 0
    passes: tuple[Pass, ...]
    launches: bool = False
    decider: Decider = BY_DEFAULT
    scatters: Mapping[str, str] = field(default_factory=dict)

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
