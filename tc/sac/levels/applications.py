"""Built-in functions and operators applied to values, and the form of a row of the table (C9).

The functions of a row take the application, whose `args` are values with parts by demand; they ask
for no more of an argument than the levels of the row say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tc.dtypes import BOOL, Array, Weak
from tc.errors import CheckError
from tc.sac.levels.element_types import ElementType
from tc.sac.levels.values import Environment, Level, Needs, Shape, Value, blamed, shown
from tc.source import Span

N, D, S, F = Level.N, Level.D, Level.S, Level.F


def common_rank(ranks: Sequence[int | None]) -> int | None:
    """The largest rank, where all are known."""
    known = [rank for rank in ranks if rank is not None]
    return max(known, default=0) if len(known) == len(ranks) else None


@dataclass(frozen=True, slots=True)
class Row:
    """A built-in function or operator.

    `at_value`, `at_shape` and `at_rank` are the levels of the arguments that the value, the shape
    and the rank need; `known_rank` is the rank where the ranks of the arguments give it, as far as
    these are known (C24)."""

    name: str
    arity: int
    type: Callable[[Application], ElementType]
    rank: Callable[[Application], int]
    shape: Callable[[Application], Shape]
    value: Callable[[Application], Array]
    at_value: tuple[Level, ...]
    at_shape: tuple[Level, ...]
    at_rank: tuple[Level, ...]
    known_rank: Callable[[Sequence[int | None]], int | None]
    is_elementwise: bool = False

    def levels(self, level: Level) -> tuple[Level, ...]:
        """What a level of the result needs of each argument."""
        return {
            F: self.at_value, S: self.at_shape, D: self.at_rank, N: (N,) * self.arity
        }[level]  # fmt: skip


class Application(Value):
    """A built-in function or operator applied to values."""

    def __init__(
        self,
        row: Row,
        args: tuple[Value, ...],
        spans: tuple[Span, ...],
        span: Span,
        env: Environment,
    ) -> None:
        super().__init__(span, env)
        self.row = row
        self.args = args
        self.spans = spans

    @cached_property
    def identity(self) -> object:
        return self.identified_by(self.row.name, *(arg.identity for arg in self.args))

    @cached_property
    def type(self) -> ElementType:
        return self.row.type(self)

    @cached_property
    def rank(self) -> int:
        return self.row.rank(self)

    @cached_property
    def shape(self) -> Shape:
        return self.row.shape(self)

    @cached_property
    def value(self) -> Array:
        return self.row.value(self)

    def needs(self, level: Level) -> Needs:
        return [
            (arg, at) for arg, at in zip(self.args, self.row.levels(level), strict=True) if at != N
        ]


# --- vectors of integers ------------------------------------------------------------------------


def index_vector_length(value: Value, rule: str, what: str, span: Span) -> int:
    """The length of a vector where an index, shape or bound vector is due: a scalar n stands for
    [n] (C9). Level S."""
    if value.rank > 1:
        raise value.fault(
            blamed((value, D)),
            rule,
            f"{what} has shape {shown(value.shape)}; it is a vector of integers or one integer",
            span=span,
        )
    return value.shape[0] if value.rank else 1


def check_integers(value: Value, rule: str, what: str, span: Span) -> None:
    """Raises where the elements of a vector are no integers; an empty one may be of any type."""
    if not value.type.is_integer and 0 not in value.shape:
        text = span.line
        raise value.fault(
            CheckError,
            rule,
            f"{what} is of {_told(value.type)}, and only integers count positions",
            span=span,
            paste=f"toi({text})" if value.type.dtype != BOOL else f"int({text})",
        )


def index_vector(value: Value, rule: str, what: str, span: Span) -> Shape:
    """The integers of an index, shape or bound vector: level F."""
    index_vector_length(value, rule, what, span)
    check_integers(value, rule, what, span)
    if 0 in value.shape:
        return ()
    return value.env.context.integers(value)


def check_sizes(sizes: Shape, value: Value, span: Span) -> Shape:
    """Sizes, none of which may be negative (C14)."""
    if any(n < 0 for n in sizes):
        raise value.fault(
            blamed((value, F)),
            "C14",
            f"the shape {shown(sizes)} has a negative size",
            span=span,
        )
    return sizes


def _told(found: ElementType) -> str:
    if found.dtype is Weak.FLOAT:
        return "floating type"
    return f"type {found}"
