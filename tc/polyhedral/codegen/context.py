"""The state of the walk that lowers a schedule tree (`tc.polyhedral.lowering`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, count
from typing import TypeAlias

from tc.affine.forms import LinearForm, split
from tc.affine.intervals import Interval, surely
from tc.dtypes import INT64, DType
from tc.kernel.folding import binary, compare, integer, logical_and, of_form
from tc.kernel.ir import Buffer, Expr, If, LaunchIndex, Load, Site, Stmt, row_major
from tc.plan import AXES
from tc.polyhedral.codegen.thread_sums import Axes, Replicas
from tc.polyhedral.footprint import Box, Position, Steps, span, whole
from tc.polyhedral.schedule import ArrayTile, Member
from tc.polyhedral.scop.scop import HalfOpen, Scop


class LoweringError(Exception):
    """Why no kernel can be made of a tree that is legal."""


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A promoted tile with its place: the offset of its box in the tensor. All threads along the
    axes `replicated` have the same elements in it; each of the first `threads` along other axes has
    elements of its own."""

    tile: ArrayTile
    box: Box
    replicated: Axes = frozenset()
    threads: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrivateAccumulators:
    """The accumulators of an expanded reduction: a box of the target, then one axis for each digit
    that no threads run. Threads combine theirs along the axes `combined`."""

    buffer: str
    box: Box
    digits: tuple[Member, ...]
    combined: Axes = frozenset()


LaunchAxis: TypeAlias = "tuple[str, str]"
"""A role, "block" or "thread", and an axis."""


@dataclass(frozen=True, slots=True)
class Number:
    """The number of a block or of a thread, or what loops around leave of it, below `count`: a form
    of one variable at most."""

    value: LinearForm
    count: int


@dataclass(frozen=True, slots=True)
class LaunchIndices:
    """The numbers of blocks and threads in a launch, the tensors that it writes, and what its
    threads have alike."""

    indices: Mapping[LaunchAxis, LaunchIndex]
    written: frozenset[str]
    replicas: Replicas

    def along(self, role: str) -> tuple[LaunchIndex, ...]:
        """Those of blocks, or of threads, outermost first; the last is x."""
        found = [self.indices[role, axis] for axis in AXES]
        while found and found[-1].count == 1:
            found.pop()
        return tuple(reversed(found))


@dataclass
class KernelContext:
    """What is the same throughout a kernel; `buffers` and `sites` grow."""

    scop: Scop
    names: NameSupply
    checks: bool
    buffers: dict[str, Buffer] = field(default_factory=dict)
    sites: dict[tuple[int, int], Site] = field(default_factory=dict)
    launch: LaunchIndices | None = None

    def dtype(self, tensor: str) -> DType:
        return self.scop.dtype(tensor)

    def add_buffer(
        self,
        wanted: str,
        kind: str,
        dtype: DType,
        shape: tuple[int, ...],
        *,
        local: bool = False,
        stages: int = 1,
    ) -> str:
        """Adds a private buffer, under the wanted name or the next free one. Tails of tiles read
        what they do not use of one that is `local`: what is not written is not copied either. Of
        several `stages` the shape has the number first."""
        wanted = re.sub("[^A-Za-z0-9_]", "_", wanted)
        numbered = (f"{wanted}_{number}" for number in count(2))
        name = next(n for n in chain((wanted,), numbered) if n not in self.buffers)
        self.buffers[name] = Buffer(
            name, dtype, shape, row_major(shape), kind, drops_unwritten=local, stages=stages
        )
        return name


@dataclass(frozen=True)
class EmitScope:
    """`positions`: where each statement below stands. `loops`: what digits of members (by name
    and step) are now. `bounds`: inclusive bounds of loop variables. `tiles`: promotions around,
    innermost last, by tensor. `expanded`: reductions with several accumulators. `pins`: under
    which conditions a statement runs at all, as it has one value in a loop that runs several.

    In a launch, `block` is where statements stand but for what the number of a thread fixes:
    `unbound` has the numbers (of blocks and of threads) along the axes to which no loop around is
    bound, and what loops around leave of others, `pending` tests of the numbers of blocks and
    threads, by role, that are still to be made, and `varying` the variables that differ between the
    threads of a block."""

    kernel: KernelContext
    positions: Mapping[str, Position]
    loops: Mapping[tuple[str, int], LinearForm] = field(default_factory=dict)
    bounds: Mapping[str, Interval] = field(default_factory=dict)
    tiles: Mapping[str, tuple[PlacedTile, ...]] = field(default_factory=dict)
    expanded: Mapping[str, PrivateAccumulators] = field(default_factory=dict)
    pins: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    block: Mapping[str, Position] = field(default_factory=dict)
    unbound: Mapping[LaunchAxis, Number] = field(default_factory=dict)
    pending: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()

    def bound(self, name: str, low: int, high: int) -> EmitScope:
        return replace(self, bounds={**self.bounds, name: (low, high)})

    def tests(self, *roles: str) -> tuple[Expr, ...]:
        """The tests of blocks, or of threads, that are still to be made."""
        return tuple(test for role in roles for test in self.pending.get(role, ()))

    def inside(self, placed: PlacedTile) -> EmitScope:
        tensor = placed.tile.tensor
        return replace(self, tiles={**self.tiles, tensor: (*self.tiles.get(tensor, ()), placed)})

    def outside(self, placed: PlacedTile) -> EmitScope:
        """The state in which a tile is copied: that of the promotions around it."""
        tensor = placed.tile.tensor
        around = self.tiles[tensor][: self.tiles[tensor].index(placed)]
        return replace(self, tiles={**self.tiles, tensor: around})

    # --- places in memory -----------------------------------------------------------------------

    def innermost(self, tensor: str) -> PlacedTile | None:
        around = self.tiles.get(tensor, ())
        return around[-1] if around else None

    def place(self, tensor: str, element: tuple[LinearForm, ...]) -> tuple[str, tuple[Expr, ...]]:
        """The buffer that holds an element of a tensor here, and the indices in it."""
        placed = self.innermost(tensor)
        if placed is None:
            return tensor, tuple(map(of_form, element))
        return placed.tile.buffer, self.indices(placed, element)

    def indices(self, placed: PlacedTile, element: tuple[LinearForm, ...]) -> tuple[Expr, ...]:
        left = [e - o for e, o in zip(element, placed.box.offsets, strict=True)]
        indices: list[Expr] = [integer(0)] if placed.tile.copy.stages > 1 else []
        for axis in placed.tile.layout:
            form, left[axis.dimension] = self._split(left[axis.dimension], axis.step, placed)
            indices.append(of_form(form))
        return tuple(indices)

    def fits(self, placed: PlacedTile, element: tuple[LinearForm, ...]) -> bool:
        """Whether an element is in the box of a tile, whatever the loops around."""
        return not any(True for _ in self._beyond(placed, element))

    def _beyond(self, placed: PlacedTile, element: tuple[LinearForm, ...]) -> Iterator[Expr]:
        """The conditions, those not certain, that an element is in the box of a tile."""
        for e, o, digits in zip(element, placed.box.offsets, placed.box.digits, strict=True):
            yield from self.between(e - o, (0, span(digits)))
            if len(digits) > 1:
                yield from self._between_digits(e - o, digits)

    def _between_digits(self, form: LinearForm, digits: Steps) -> Iterator[Expr]:
        """The conditions, those not certain, that a number within the span of digits is one of
        their sums, or a multiple of the last step less."""
        for place, (step, most) in enumerate(digits):
            found = split(form, step, self.bounds)
            if found is None:
                yield from self._between_values(of_form(form), digits[place:])
                return
            digit, form = found
            yield from self.between(digit, (0, most))

    def _between_values(self, number: Expr, digits: Steps) -> Iterator[Expr]:
        """`_between_digits` of a number whose digits are no forms."""
        for step, most in digits:
            digit = binary("/", number, integer(step), self.bounds)
            yield compare("<", digit, integer(most), self.bounds)
            number = binary("%", number, integer(step), self.bounds)

    def _split(
        self, form: LinearForm, step: int, placed: PlacedTile
    ) -> tuple[LinearForm, LinearForm]:
        found = split(form, step, self.bounds)
        if found is None:
            raise LoweringError(
                f"the panels of {step} elements of {placed.tile.buffer} do not fit its accesses: "
                "loops step over them in other tiles"
            )
        return found

    def load(self, tensor: str, element: tuple[LinearForm, ...]) -> Expr:
        """An element in the type of the buffer that holds it."""
        buffer, indices = self.place(tensor, element)
        return Load(buffer, indices, self.element_dtype(tensor))

    def element_dtype(self, tensor: str) -> DType:
        dtype, placed = self.kernel.dtype(tensor), self.innermost(tensor)
        return dtype if placed is None else placed.tile.held_type(dtype)

    def within(
        self,
        element: tuple[LinearForm, ...],
        tensor: str,
        limits: tuple[HalfOpen, ...] | None = None,
    ) -> Iterator[Expr]:
        """The conditions, those not certain, that an element is one that `place` finds, and within
        limits, if there are any."""
        placed = self.innermost(tensor)
        if placed is not None:
            yield from self._beyond(placed, element)
        elif limits is None:
            limits = whole(tensor, self.kernel.scop)
        for form, within in zip(element, limits or (), strict=limits is not None):
            yield from self.between(form, within)

    def between(self, form: LinearForm, limits: HalfOpen) -> Iterator[Expr]:
        """The conditions, those not certain, that the values of a form are within limits."""
        (low, high), (begin, end) = form.interval(self.bounds), limits
        if not surely(low, ">=", begin):
            yield compare(">=", of_form(form), integer(begin), {})
        if not surely(high, "<", end):
            yield compare("<", of_form(form), integer(end), {})


def guarded(tests: Iterable[Expr], stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements that run where conditions hold, if there are any."""
    found = list(tests)
    return (If(reduce(logical_and, found), stmts),) if found else stmts


class NameSupply:
    """The names given so far. Regions may use the same names, as their variables end with them.

    A local that would clash with a buffer, or with an index variable of another type, gets a
    number, or the next one.

    >>> from tc.dtypes import FLOAT32
    >>> names = NameSupply(buffers=["A"], indices=["i", "acc"])
    >>> names.fresh("acc", FLOAT32), names.fresh("t0", INT64)
    ('acc1', 't0')
    """

    def __init__(self, buffers: Iterable[str], indices: Iterable[str]) -> None:
        self._buffers = frozenset(buffers)
        self._dtypes: dict[str, DType] = dict.fromkeys(indices, INT64)
        self._taken: set[str] = set()

    def start_region(self) -> None:
        """Frees the names of the region before."""
        self._taken = set()

    def fresh(self, prefix: str, dtype: DType) -> str:
        """A new name: the prefix, or the prefix (without its digit, if it ends so) and a number."""
        stem = prefix.rstrip("0123456789") or prefix
        candidates = chain((prefix,), (f"{stem}{number}" for number in count(1)))
        name = next(
            name
            for name in candidates
            if name not in self._taken | self._buffers and self._dtypes.get(name, dtype) == dtype
        )
        self._taken.add(name)
        self._dtypes.setdefault(name, dtype)
        return name
