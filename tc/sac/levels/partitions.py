"""Partitions of comprehensions and with-loops: bounds, given or inferred (C14 to C18), the axes of
the result that an index takes (C19), and the shape of a body without an instance (C23)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tc.dtypes import BOOL
from tc.errors import CheckError, RangeError, TCError
from tc.sac import ast
from tc.sac.levels.applications import check_sizes, index_vector, index_vector_length
from tc.sac.levels.element_types import SIZE_TYPE
from tc.sac.levels.farthest import farthest_generator
from tc.sac.levels.found_bounds import FoundBound, find_bounds
from tc.sac.levels.pasting import VECTOR_NAMES, free_names, padded, repaired_by, spread_text
from tc.sac.levels.selections import Choice
from tc.sac.levels.values import (
    Constant,
    Environment,
    Index,
    Instance,
    Level,
    Needs,
    NeedsIndexTerm,
    NeedsIndexValue,
    Shape,
    Value,
    blamed,
    shown,
)
from tc.source import Edit, Span

D, S, F = Level.D, Level.S, Level.F

MAX_SHAPES = 256
"""The most instances that are asked for their shapes, for a repair."""

if TYPE_CHECKING:
    from tc.sac.levels.loops import LoopValue


class Loop(Protocol):
    """What a partition belongs to."""

    parts: tuple[Partition, ...]
    span: Span
    env: Environment

    @property
    def edge(self) -> Shape:
        """The shape of the result, whose axes `.` and C12 speak of."""

    @property
    def edge_rank(self) -> int:
        """The rank of the result."""

    @property
    def index_rank(self) -> int:
        """The length of an index whose partition has no bound but `.` (C17)."""

    def refuse_dot(self, partition: Partition, dot: ast.Expr | ast.Dot) -> TCError | None:
        """The error of a dot as a bound of this partition; None where the result has an edge."""


class Partition:
    """One partition: its pattern, its bounds, and its body by instance.

    `is_last` says that the partition gives a comprehension its shape."""

    def __init__(
        self,
        loop: LoopValue,
        pattern: ast.Pattern,
        generator: ast.Generator | None,
        statements: Sequence[ast.Statement],
        body: ast.Expr,
        *,
        is_last: bool,
    ) -> None:
        self.loop = loop
        self.env = loop.env
        self.pattern = pattern
        self.generator = generator
        self.statements = tuple(statements)
        self.body = body
        self.is_last = is_last
        self.span = pattern.span
        self.names: tuple[str, ...] = (
            (pattern.name.text,)
            if isinstance(pattern, ast.VectorPattern)
            else tuple(name.text for name in pattern.names)
        )

    # --- the pattern ------------------------------------------------------------------------------

    @property
    def is_vector(self) -> bool:
        """Whether the index is one vector."""
        return isinstance(self.pattern, ast.VectorPattern)

    @property
    def index_text(self) -> str:
        """The pattern without its dots."""
        return self.names[0] if self.is_vector else f"[{','.join(self.names)}]"

    @property
    def pattern_text(self) -> str:
        if isinstance(self.pattern, ast.VectorPattern):
            return self.names[0]
        texts = {ast.Dot: ".", ast.Dots: "..."}
        entries = self.pattern.entries
        return f"[{','.join(texts.get(type(e)) or _text(e) for e in entries)}]"

    @cached_property
    def dots(self) -> int:
        """The number of `.` in the pattern."""
        if isinstance(self.pattern, ast.VectorPattern):
            return 0
        return sum(isinstance(entry, ast.Dot) for entry in self.pattern.entries)

    @cached_property
    def has_dots(self) -> bool:
        """Whether the pattern has a `...`."""
        return not isinstance(self.pattern, ast.VectorPattern) and any(
            isinstance(entry, ast.Dots) for entry in self.pattern.entries
        )

    @cached_property
    def positions(self) -> int:
        """How many axes of the result the pattern names, `...` counted as the axes it stands for
        (C17)."""
        if self.has_dots:
            return self.length + self.body_rank
        return self.length + self.dots

    def axes(self, rank: int) -> Shape:
        """The axes of a result of this rank that the index takes, in the order of the index."""
        if self.length + self.dots > rank:
            raise self.loop.fault(
                RangeError,
                "C13",
                f"the pattern {self.pattern_text} has {self.length + self.dots} positions, the "
                f"result {rank} axes",
                span=self.span,
            )
        if isinstance(self.pattern, ast.VectorPattern):
            return tuple(range(self.length))
        found, axis = [], 0
        for entry in self.pattern.entries:
            if isinstance(entry, ast.Name):
                found.append(axis)
            axis += rank - self.length - self.dots if isinstance(entry, ast.Dots) else 1
        return tuple(found)

    def room(self, shape: Shape) -> Shape:
        """The axes of a result that the index leaves over: the shape of an instance (C13)."""
        taken = set(self.axes(len(shape)))
        return tuple(n for axis, n in enumerate(shape) if axis not in taken)

    # --- instances --------------------------------------------------------------------------------

    def environment(self, index: Sequence[Value], env: Environment | None = None) -> Environment:
        """What names mean in the body, the statements before it included; `env` is the environment
        of an instance, if the index is that of one."""
        env = (env or self.env).bind(dict(zip(self.names, index, strict=True)))
        return env.context.execute(self.statements, env) if self.statements else env

    def instance(self, index: Shape) -> Value:
        """The body at an index."""
        self.env.context.spend()
        env = self.env.within(Instance(self.index_text, index))
        whole: Sequence[Any] = [index] if self.is_vector else index
        needs = self.bound_needs
        values = [Constant(np.array(k, np.int64), SIZE_TYPE, self.span, env, needs) for k in whole]
        return env.context.evaluate(self.body, self.environment(values, env))

    def unknown_index(self, *, is_length_known: bool = True) -> list[Value]:
        """The index without a value; of a vector whose bound is to be inferred, without a length
        too."""
        names = (
            [self.pattern.name]
            if isinstance(self.pattern, ast.VectorPattern)
            else list(self.pattern.names)
        )
        found: list[Value] = []
        for k, name in enumerate(names):
            index = Index(name.text, self, k, None, name.span, self.env)
            if self.is_vector:
                index = Index(name.text, self, k, self._length, name.span, self.env)
                if not is_length_known and self.upper_value is self.lower_value is None:
                    index.length = index.refuse
            found.append(index)
        return found

    @cached_property
    def symbolic(self) -> Value:
        """The body whose index has a shape but no value (C23)."""
        env = self.environment(self.unknown_index())
        return env.context.evaluate(self.body, env)

    @cached_property
    def body_shape(self) -> Shape:
        """The shape of the body, found without an instance (C23)."""
        try:
            return self.symbolic.shape
        except NeedsIndexValue as error:
            raise self._depends(error) from None

    @cached_property
    def body_rank(self) -> int:
        try:
            return self.symbolic.rank
        except NeedsIndexValue as error:
            raise self._depends(error) from None

    def _depends(self, error: NeedsIndexValue) -> TCError:
        if error.index.owner is not self:
            return error
        span = self.body.span
        fault = self.loop.fault(
            CheckError,
            "C23",
            f"the shape of the last partition's body depends on the value of {error.index.name}: "
            "give the shape by a further partition",
            span=span,
            repair=f"end with a partition that has the shape of '{span.line}', as in "
            f"'; {self.index_text} -> genarray(shape, 0) | {self.index_text} < ...'",
        )
        try:
            return repaired_by(fault, *self._with_room())
        except (TCError, NeedsIndexTerm):
            return fault

    def _with_room(self) -> tuple[Edit, ...]:
        """The edit that gives instances of several shapes room: a further partition of the shape of
        all, or, where they differ, a body with zeros up to the largest; none where instances are
        too many to be asked for their shapes, or differ in their ranks."""
        lower, upper = self.lower, self.upper
        count = prod(max(0, n - k) for k, n in zip(lower, upper, strict=True))
        if not 0 < count <= MAX_SHAPES or self.dots or self.has_dots or self.statements:
            return ()
        bodies = [self.instance(index) for index in indices(lower, upper)]
        shapes = {body.shape for body in bodies}
        zero = "false" if bodies[0].type.dtype == BOOL else "0"
        if len(shapes) == 1:
            whole = (*check_sizes(upper, self.loop, self.span), *shapes.pop())
            generator = self.generator
            end = generator.span.end if generator else self.body.span.end
            name = free_names(VECTOR_NAMES, [self.span.source.text])[0]
            after = f"; {name} -> {zero} | {name} < {shown(whole)}"
            return (Edit(Span(self.span.source, end, end), after),)
        if len(shapes) == 2 and () in shapes:
            return self._spread_branch(max(shapes))
        if len({len(shape) for shape in shapes}) > 1 or () in shapes:
            return ()
        room = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        return (Edit(self.body.span, padded(self.body.span, room, zero)),)

    def _spread_branch(self, shape: Shape) -> tuple[Edit, ...]:
        """The edit that gives the scalar branch of a choice the shape of the other branch."""
        choice = self.symbolic
        if not isinstance(choice, Choice) or len(choice.spans) != 3:
            return ()
        branches = zip((choice.then, choice.otherwise), choice.spans[1:], strict=True)
        return tuple(Edit(at, spread_text(at, shape)) for each, at in branches if not each.rank)

    # --- bounds -----------------------------------------------------------------------------------

    @cached_property
    def lower_value(self) -> Value | None:
        """The lower bound as it is written; None for `.` or none."""
        return self._bound_value(self.generator.lower if self.generator else None)

    @cached_property
    def upper_value(self) -> Value | None:
        """The upper bound as it is written; None for `.` or none."""
        return self._bound_value(self.generator.upper if self.generator else None)

    def _bound_value(self, bound: ast.Bound | None) -> Value | None:
        if bound is None:
            return None
        if isinstance(bound.value, ast.Dot):
            refused = self.loop.refuse_dot(self, bound.value)
            if refused is not None and bound is not self._harmless_dot:
                raise refused
            return None
        return self.env.context.evaluate(bound.value, self.env)

    @property
    def _harmless_dot(self) -> ast.Bound | None:
        """The lower bound of the last partition of a comprehension, where `.` is 0."""
        return self.generator.lower if self.is_last and self.generator else None

    @property
    def has_upper(self) -> bool:
        """Whether an upper bound is written, `.` included."""
        return self.generator is not None and self.generator.upper is not None

    @cached_property
    def found(self) -> tuple[FoundBound, ...]:
        """The bounds that selections in the body give the index (C15)."""
        index = self.unknown_index(is_length_known=False)
        env = self.env.bind(dict(zip(self.names, index, strict=True)))
        return tuple(find_bounds(self.statements, self.body, frozenset(self.names), env))

    @cached_property
    def unbounded(self) -> tuple[str, ...]:
        """The variables of the pattern that no selection bounds: empty where C15 is complete."""
        bounded = {bound.name for bound in self.found if bound.rank is not None}
        return tuple(name for name in self.names if name not in bounded)

    @property
    def is_inferred(self) -> bool:
        """Whether the upper bound follows from the selections in the body (C16)."""
        return not self.has_upper and not self.unbounded

    @cached_property
    def length(self) -> int:
        """The length of the index: level S."""
        if not self.is_vector:
            return len(self.names)
        if self.upper_value is not None:
            return index_vector_length(
                self.upper_value, "C14", "the upper bound", self._bound_span("upper")
            )
        if self.lower_value is not None:
            return index_vector_length(
                self.lower_value, "C14", "the lower bound", self._bound_span("lower")
            )
        if self.is_inferred:
            return min(bound.rank for bound in self.found if bound.rank is not None)
        if self.is_last:
            raise self._unknown_bound()
        return self.loop.index_rank

    def _bound_span(self, side: str) -> Span:
        """Where a bound stands, or the pattern of a partition without it."""
        generator = self.generator
        bound = generator and (generator.lower if side == "lower" else generator.upper)
        return bound.value.span if bound else self.span

    def _length(self) -> int:
        return self.length

    @cached_property
    def lower(self) -> Shape:
        """The first index: level F."""
        value = self.lower_value
        if value is None:
            return (0,) * self.length
        assert self.generator is not None
        assert self.generator.lower is not None
        step = int(self.generator.lower.strict)
        return tuple(k + step for k in self._integers(value, "lower"))

    @cached_property
    def upper(self) -> Shape:
        """The end of the index: level F."""
        value = self.upper_value
        if value is not None:
            assert self.generator is not None
            assert self.generator.upper is not None
            step = int(not self.generator.upper.strict)
            return tuple(k + step for k in self._integers(value, "upper"))
        if self.is_inferred:
            inferred = self.inferred
            if self.is_last:
                return inferred
            edge = self.loop.edge
            return tuple(
                min(n, edge[axis]) for n, axis in zip(inferred, self.axes(len(edge)), strict=True)
            )
        if self.is_last:
            raise self._unknown_bound()
        edge = self.loop.edge
        return tuple(edge[axis] for axis in self.axes(len(edge)))

    def _integers(self, value: Value, side: str) -> Shape:
        found = index_vector(value, "C14", f"the {side} bound", self._bound_span(side))
        if len(found) != self.length:
            raise value.fault(
                blamed((value, S)) if not self.is_vector else RangeError,
                "C14",
                f"the {side} bound {shown(found)} has {len(found)} elements, the index "
                f"{self.index_text} {self.length}",
                span=self._bound_span(side),
                paste=f"[{', '.join([self._bound_span(side).line] * self.length)}]"
                if value.rank == 0 and not self.is_vector
                else None,
            )
        return found

    @cached_property
    def inferred(self) -> Shape:
        """The upper bound that the selections in the body give, where it is complete (C15)."""
        known = [bound for bound in self.found if bound.rank is not None]
        if self.is_vector:
            rank = min(bound.rank for bound in known if bound.rank is not None)
            if self.lower_value is not None:
                if self.length > rank:
                    raise self.lower_value.fault(
                        RangeError,
                        "C14",
                        f"the lower bound has {self.length} elements, the inferred upper bound "
                        f"{shown(known[0].sizes)} has {rank}",
                        span=self._bound_span("lower"),
                    )
                rank = self.length
            return tuple(
                self._least([(bound.sizes[axis], bound) for bound in known], axis)
                for axis in range(rank)
            )
        return tuple(
            self._least([(bound.sizes[0], bound) for bound in known if bound.name == name], None)
            for name in self.names
        )

    def _least(self, bounds: list[tuple[int, FoundBound]], axis: int | None) -> int:
        """The least of the sizes that bound a variable; a warning names two that differ (C15)."""
        least = min(bounds, key=lambda pair: pair[0])
        most = max(bounds, key=lambda pair: pair[0])
        if least[0] != most[0]:
            told = [
                f"{bound.text if axis is None else f'{bound.text}[{axis}]'} = {size}"
                for size, bound in (most, least)
            ]
            self.env.context.warn(
                self.span,
                least[1].name,
                f"'{least[1].name}' is bounded by {told[0]} and by {told[1]}, which differ; the "
                "lesser one counts",
            )
        return least[0]

    @cached_property
    def range(self) -> tuple[Shape, Shape]:
        """The index range, first and end; one that is not empty lies in the result (C12)."""
        lower, upper = self.lower, self.upper
        edge = self.loop.edge
        axes = self.axes(len(edge))
        if not is_empty(lower, upper):
            sizes = [edge[axis] for axis in axes]
            if any(k < 0 for k in lower) or any(k > n for k, n in zip(upper, sizes, strict=True)):
                causes = [(self.loop, S), *self.bound_needs()]
                raise self.loop.fault(
                    blamed(*causes),
                    "C12",
                    f"the range {shown(lower)} <= {self.index_text} < {shown(upper)} leaves the "
                    f"result, shape {shown(edge)}",
                    span=self.generator.span if self.generator else self.span,
                    paste=self._as_far_as_the_edge(lower, upper, sizes),
                )
        return lower, upper

    def _as_far_as_the_edge(self, lower: Shape, upper: Shape, sizes: Sequence[int]) -> str | None:
        """The generator with dots where it leaves a result of these sizes; None where a dot would
        change other axes too."""
        generator, text = self.generator, self.index_text
        if generator is None:
            return None
        if generator.lower is not None:
            bound = generator.lower
            sign = "<" if bound.strict else "<="
            kept = f"{bound.value.span.line} {sign} {text}"
            text = f". <= {text}" if all(k <= 0 for k in lower) and min(lower) < 0 else kept
        if generator.upper is not None:
            bound = generator.upper
            sign = "<" if bound.strict else "<="
            is_beyond = all(n >= k for n, k in zip(upper, sizes, strict=True))
            leaves = any(n > k for n, k in zip(upper, sizes, strict=True))
            kept = f"{text} {sign} {bound.value.span.line}"
            text = f"{text} <= ." if is_beyond and leaves and not self.is_last else kept
        return text if text.count(".") > generator.span.line.count(".") else None

    def bound_needs(self) -> list[tuple[Value, Level]]:
        """The values that the bounds follow from."""
        found: list[tuple[Value, Level]] = []
        for value in (self.lower_value, self.upper_value):
            if value is not None:
                found.append((value, F))
        if not self.has_upper:
            found += [(bound.array, S) for bound in self.found]
        return found

    def _unknown_bound(self) -> TCError:
        names = self.unbounded
        sizes = ["..."] * len(self.names)
        if not self.is_vector:
            for k, name in enumerate(self.names):
                known = [bound for bound in self.found if bound.name == name and bound.rank]
                if known:
                    sizes[k] = known[0].text
        bound = "..." if self.is_vector else f"[{', '.join(sizes)}]"
        cause = f"no upper bound for {names[0]} can be inferred in the last partition: "
        beyond = None if self.is_vector else self._missing_axis()
        if beyond is not None:
            return self.loop.fault(CheckError, "C16", cause + beyond.cause, span=beyond.span)
        error = self.loop.fault(
            CheckError,
            "C16",
            f"{cause}add one, '| {self.index_text} < ...'",
            span=self.span,
            repair=f"| {self.index_text} < {bound}",
        )
        return repaired_by(error, *farthest_generator(self))

    def _missing_axis(self) -> TCError | None:
        """What is wrong with a selection of the body that has more indices than its array axes."""
        try:
            _ = self.body_rank
        except RangeError as error:
            return error if error.rule == "C8" else None
        except TCError:
            return None
        return None

    # --- the result of a comprehension ------------------------------------------------------------

    @cached_property
    def result_rank(self) -> int:
        """The rank of the comprehension that this partition, its last one, gives the shape."""
        rank = self.length + self.body_rank
        self._check_dots(self.body_rank)
        return rank

    @cached_property
    def result_shape(self) -> Shape:
        """The shape of the comprehension that this partition, its last one, gives: the upper bound
        and the body's shape, with dots at their positions (C11, C19)."""
        bound = self.upper_value or self.loop
        sizes = check_sizes(self.upper, bound, self._bound_span("upper"))
        body = self.body_shape
        self._check_dots(len(body))
        rank = len(sizes) + len(body)
        placed = dict(zip(self.axes(rank), sizes, strict=True))
        rest = iter(body)
        return tuple(placed[axis] if axis in placed else next(rest) for axis in range(rank))

    def _check_dots(self, rank: int) -> None:
        if self.dots > rank:
            raise self.too_many_dots(rank)

    def too_many_dots(self, rank: int) -> TCError:
        """The error of a pattern with more dots than its body has axes (C19)."""
        return self.loop.fault(
            blamed((self.symbolic, D)),
            "C19",
            f"the pattern {self.pattern_text} has {self.dots} dots, the body {rank} axes",
            span=self.span,
            paste=self.index_text if rank == 0 else None,
        )

    def needs(self, level: Level) -> Needs:
        """What a level of the comprehension needs of this partition, its last one."""
        if level == F:
            return [*self.bound_needs(), (self.symbolic, F)]
        found: list[tuple[Value, Level]] = [(self.symbolic, level)]
        if self.upper_value is not None:
            found.append((self.upper_value, F if level == S else S))
        elif not self.has_upper:
            found += [(bound.array, level) for bound in self.found]
        return found


def indices(lower: Shape, upper: Shape) -> itertools.product[Shape]:
    """All index vectors from `lower` to before `upper`, the last axis fastest."""
    return itertools.product(*(range(k, n) for k, n in zip(lower, upper, strict=True)))


def is_empty(lower: Shape, upper: Shape) -> bool:
    """Whether a range of index vectors holds none."""
    return any(end <= first for first, end in zip(lower, upper, strict=True))


def _text(entry: ast.Name | ast.Dot | ast.Dots) -> str:
    return entry.text if isinstance(entry, ast.Name) else "."
