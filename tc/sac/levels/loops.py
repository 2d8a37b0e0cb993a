"""Comprehensions and with-loops as values: which partitions they have, their shapes and types (C11,
C21). Their elements come from the context's `loops`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tc.dtypes import Array
from tc.errors import CheckError, TCError
from tc.sac import ast
from tc.sac.levels.applications import check_sizes, index_vector, index_vector_length
from tc.sac.levels.array_functions import as_array, fold_type
from tc.sac.levels.element_types import ElementType, check_fit, joined
from tc.sac.levels.partitions import Partition
from tc.sac.levels.values import Environment, Level, Needs, Shape, Value
from tc.source import Span

D, S, F = Level.D, Level.S, Level.F


class LoopValue(Value):
    """A comprehension or a with-loop."""

    parts: tuple[Partition, ...] = ()

    @property
    def edge(self) -> Shape:
        """The shape of the result, whose axes `.` and C12 speak of."""
        return self.shape

    @property
    def index_rank(self) -> int:
        """The length of an index whose partition has no bound but `.` (C17)."""
        raise NotImplementedError

    def refuse_dot(self, partition: Partition, dot: ast.Dot) -> TCError | None:
        """The error of a dot as a bound of a partition; None where the result has an edge."""
        raise NotImplementedError

    @cached_property
    def value(self) -> Array:
        return self.env.context.loops(self)

    def body_types(self) -> list[ElementType]:
        """The types of all bodies, of empty partitions too (C5)."""
        return [part.symbolic.type for part in self.parts]


class ComprehensionValue(LoopValue):
    """`{ part; part }`: the last partition gives the shape, and what no partition covers is zero
    (C11)."""

    def __init__(self, parts: Sequence[ast.Part], span: Span, env: Environment) -> None:
        super().__init__(span, env)
        last = len(parts) - 1
        self.parts = tuple(
            Partition(self, part.pattern, part.generator, (), part.body, is_last=k == last)
            for k, part in enumerate(parts)
        )

    @cached_property
    def type(self) -> ElementType:
        return as_array(joined(self.body_types()))

    @cached_property
    def rank(self) -> int:
        return self.parts[-1].result_rank

    @cached_property
    def shape(self) -> Shape:
        return self.parts[-1].result_shape

    @property
    def index_rank(self) -> int:
        return self.parts[-1].positions

    def refuse_dot(self, partition: Partition, dot: ast.Dot) -> TCError | None:
        if not partition.is_last:
            return None
        return self.fault(
            CheckError,
            "C17",
            "'.' cannot bound the last partition, which gives the result its shape",
            span=dot.span,
        )

    def needs(self, level: Level) -> Needs:
        found = list(self.parts[-1].needs(level))
        if level == F:
            for part in self.parts[:-1]:
                found += [*part.bound_needs(), (part.symbolic, F)]
        return found


class ArrayLoop(LoopValue):
    """`with { ... } : genarray(shape, default)` and `with { ... } : modarray(array)` (C21).

    `sizes` is the shape of genarray, None for modarray; `default` gives the elements that no
    partition covers: an element of genarray, or the array of modarray."""

    def __init__(
        self,
        parts: Sequence[ast.LoopPart],
        sizes: tuple[Value, Span] | None,
        default: Value,
        span: Span,
        env: Environment,
    ) -> None:
        super().__init__(span, env)
        self.sizes: Value | None = None if sizes is None else sizes[0]
        self.sizes_span = span if sizes is None else sizes[1]
        self.default = default
        self.parts = _loop_parts(self, parts)

    @cached_property
    def type(self) -> ElementType:
        return as_array(joined([*self.body_types(), self.default.type]))

    @cached_property
    def rank(self) -> int:
        if self.sizes is None:
            return self.default.rank
        return self.index_rank + self.default.rank

    @cached_property
    def shape(self) -> Shape:
        if self.sizes is None:
            return self.default.shape
        leading = index_vector(self.sizes, "C14", "the shape of genarray", self.sizes_span)
        return (*check_sizes(leading, self.sizes, self.sizes_span), *self.default.shape)

    @property
    def index_rank(self) -> int:
        if self.sizes is None:
            return self.default.rank
        return index_vector_length(self.sizes, "C14", "the shape of genarray", self.sizes_span)

    def refuse_dot(self, partition: Partition, dot: ast.Dot) -> TCError | None:  # noqa: ARG002
        return None

    def needs(self, level: Level) -> Needs:
        found: list[tuple[Value, Level]] = [(self.default, level)]
        if self.sizes is not None:
            found.append((self.sizes, S if level == D else F))
        if level == F:
            for part in self.parts:
                found += [*part.bound_needs(), (part.symbolic, F)]
        return found


class FoldLoop(LoopValue):
    """`with { ... } : fold(op, neutral)`: all bodies joined by an operator (C21)."""

    def __init__(
        self,
        parts: Sequence[ast.LoopPart],
        op: str,
        neutral: tuple[Value, Span],
        span: Span,
        env: Environment,
    ) -> None:
        super().__init__(span, env)
        self.op = op
        self.neutral, self.neutral_span = neutral
        self.parts = _loop_parts(self, parts)

    @cached_property
    def type(self) -> ElementType:
        found = fold_type(self.op, [*self.body_types(), self.neutral.type])
        if self.op in ("&&", "||"):
            return found
        literals = joined([*self.body_types(), self.neutral.type])
        adapting = literals.adapting if found.is_weak else ()
        return ElementType(found.dtype, None, adapting, found.is_large)

    def check_fit(self) -> None:
        """Raises Y1 where a literal does not fit the type of the result; `&&` and `||` take any
        number as a condition."""
        if self.op not in ("&&", "||"):
            for found in (*self.body_types(), self.neutral.type):
                check_fit(found, self.type.dtype)

    @cached_property
    def rank(self) -> int:
        return self.neutral.rank

    @cached_property
    def shape(self) -> Shape:
        return self.neutral.shape

    @property
    def index_rank(self) -> int:
        raise NotImplementedError

    def refuse_dot(self, partition: Partition, dot: ast.Dot) -> TCError | None:  # noqa: ARG002
        return self.fault(
            CheckError, "C21", "a dot bounds a fold, which has no shape", span=dot.span
        )

    def needs(self, level: Level) -> Needs:
        found: list[tuple[Value, Level]] = [(self.neutral, level)]
        if level == F:
            for part in self.parts:
                found += [*part.bound_needs(), (part.symbolic, F)]
        return found


def _loop_parts(loop: LoopValue, parts: Sequence[ast.LoopPart]) -> tuple[Partition, ...]:
    return tuple(
        Partition(
            loop, part.generator.index, part.generator, part.statements, part.body, is_last=False
        )
        for part in parts
    )
