"""Selections (C8), rows of a literal (C7) and conditions (C10)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tc.dtypes import Array
from tc.errors import TCError
from tc.sac import ast
from tc.sac.levels.applications import (
    Application,
    check_integers,
    index_vector,
    index_vector_length,
)
from tc.sac.levels.array_functions import as_array, checked_index
from tc.sac.levels.element_types import ElementType, check_fit, joined, literal_type
from tc.sac.levels.pasting import as_operand, in_place_of, joined_rows, repaired_by
from tc.sac.levels.values import (
    Environment,
    Level,
    Needs,
    NeedsIndexTerm,
    Shape,
    Value,
    blamed,
    elements,
    shown,
)
from tc.source import Edit, Span

D, S, F = Level.D, Level.S, Level.F


class Selection(Value):
    """`a[iv]`, `a[i, j]`, `a[i, ., j]`: the elements, or the sub-array, at an index (C8).

    `is_direct` says that the array is a comprehension or a with-loop in the text of the selection,
    so that nothing else selects from it."""

    def __init__(
        self,
        array: Value,
        items: Sequence[Value | ast.Dot | ast.Dots],
        spans: tuple[Span, ...],
        span: Span,
        env: Environment,
        *,
        is_direct: bool = False,
    ) -> None:
        super().__init__(span, env)
        self.is_direct = is_direct
        self.array = array
        self.spans = spans
        self.items = tuple(items)
        self.indices = tuple(item for item in self.items if isinstance(item, Value))
        self.index_spans = tuple(
            at for at, item in zip(spans[1:], self.items, strict=True) if isinstance(item, Value)
        )

    @property
    def is_by_vector(self) -> bool:
        """Whether the only item may be an index vector."""
        return len(self.items) == 1 and len(self.indices) == 1

    @cached_property
    def count(self) -> int:
        """How many axes the index takes away."""
        if self.is_by_vector:
            return index_vector_length(self.indices[0], "C8", "the index", self.spans[1])
        for item, at in zip(self.indices, self.index_spans, strict=True):
            if item.rank:
                raise self._vector_among_scalars(item, at)
        return len(self.indices)

    @cached_property
    def axes(self) -> Shape:
        """The axis that each index counts along."""
        rank, count = self.array.rank, self.count
        dots = sum(isinstance(item, ast.Dot) for item in self.items)
        if count + dots > rank:
            causes = [(self.array, D), *((item, S) for item in self.indices)]
            told = f"{count + dots} indices for" if not dots else f"{len(self.items)} items for"
            raise self.fault(
                blamed(*causes), "C8", f"{told} {rank} axes, shape {shown(self.array.shape)}"
            )
        if self.is_by_vector:
            return tuple(range(count))
        found, axis = [], 0
        for item in self.items:
            if isinstance(item, Value):
                found.append(axis)
            axis += rank - count - dots if isinstance(item, ast.Dots) else 1
        return tuple(found)

    @cached_property
    def identity(self) -> object:
        items = (item.identity if isinstance(item, Value) else type(item) for item in self.items)
        return self.identified_by(self.array.identity, *items)

    @cached_property
    def type(self) -> ElementType:
        return as_array(self.array.type)

    @cached_property
    def rank(self) -> int:
        return self.array.rank - len(self.axes)

    @cached_property
    def shape(self) -> Shape:
        taken = set(self.axes)
        if len(taken) == self.array.rank:
            return ()  # whatever the sizes of the array
        return tuple(n for axis, n in enumerate(self.array.shape) if axis not in taken)

    @cached_property
    def index(self) -> Shape:
        """The integers of the index, which lie in the array."""
        axes = self.axes
        if self.is_by_vector:
            index = index_vector(self.indices[0], "C8", "the index", self.spans[1])
        else:
            for item, at in zip(self.indices, self.index_spans, strict=True):
                check_integers(item, "C8", "the index", at)
            integers = self.env.context.integers
            index = tuple(integers(item)[0] for item in self.indices)
        spans = self.index_spans
        if self.is_by_vector and isinstance(self.indices[0], RowOfValues):
            spans = self.indices[0].spans
        return checked_index(self, self.array, index, self.indices, axes, (self.spans[0], *spans))

    @cached_property
    def value(self) -> Array:
        at = dict(zip(self.axes, self.index, strict=True))
        if self.env.context.part_of is not None:
            return self.env.context.part_of(self.array, at)
        if self.is_direct and self.array.env.frame is self.env.frame:
            return self.env.context.loops(self.array, at)
        key = tuple(at.get(axis, slice(None)) for axis in range(self.array.rank))
        return np.asarray(self.array.value[key])

    def needs(self, level: Level) -> Needs:
        at = {F: F, S: S, D: S}[level]
        return [(self.array, level), *((item, at) for item in self.indices)]

    def _vector_among_scalars(self, vector: Value, at: Span) -> TCError:
        paste = None
        if len(self.items) == len(self.indices) and all(item.rank <= 1 for item in self.indices):
            parts = [
                f"[{place.line}]" if item.rank == 0 else place.line
                for item, place in zip(self.indices, self.index_spans, strict=True)
            ]
            paste = f"{as_operand(self.spans[0].line)}[{' ++ '.join(parts)}]"
        return self.fault(
            blamed((vector, D)),
            "C8",
            f"'{at.line}' among several items of a selection has shape "
            f"{shown(vector.shape)}, and each of them is a scalar",
            paste=paste,
        )


class RowOfValues(Value):
    """`[a, b]`: an array of rows of one shape; `[]` is an empty integer vector (C7)."""

    def __init__(
        self, items: Sequence[Value], spans: tuple[Span, ...], span: Span, env: Environment
    ) -> None:
        super().__init__(span, env)
        self.items = tuple(items)
        self.spans = spans

    @cached_property
    def identity(self) -> object:
        return self.identified_by(*(item.identity for item in self.items))

    @cached_property
    def type(self) -> ElementType:
        if not self.items:
            return ElementType(literal_type(0, None).dtype)
        return as_array(joined(item.type for item in self.items))

    @cached_property
    def rank(self) -> int:
        return 1 + self.items[0].rank if self.items else 1

    @cached_property
    def shape(self) -> Shape:
        if not self.items:
            return (0,)
        first = self.items[0].shape
        for item, at in zip(self.items[1:], self.spans[1:], strict=True):
            if item.shape != first:
                error = self.fault(
                    blamed((self.items[0], S), (item, S)),
                    "C7",
                    f"rows of shapes {shown(first)} and {shown(item.shape)} in one array",
                    span=at,
                )
                raise self._repaired_by_joining(error)
        return (len(self.items), *first)

    def _repaired_by_joining(self, error: TCError) -> TCError:
        """The error of rows of several shapes, which says `++` where some rows are arrays of such
        rows as the others are; where all are, other shapes may be meant."""
        shapes = [item.shape for item in self.items]
        text = joined_rows([at.line for at in self.spans], shapes)
        if text is None or self.span.text[:1] != "[":
            return error
        edit = Edit(self.span, in_place_of(self.span, text))
        if len(set(map(len, shapes))) > 1:
            return repaired_by(error, edit)
        error.idiom, error.example = f"{text}, the rows of all in one", (edit,)
        return error

    @cached_property
    def value(self) -> Array:
        dtype = self.type.dtype
        if not self.items:
            return np.zeros(0, np.int64)
        shape = self.shape
        rows = [elements(item, dtype) for item in self.items]
        return np.stack(rows).reshape(shape)

    def needs(self, level: Level) -> Needs:
        return [(item, level) for item in (self.items[:1] if level == D else self.items)]


class Choice(Value):
    """`c ? a : b`: lazy (C10). `spans` are those of the condition and of the branches, of an `if`
    that of the condition alone."""

    def __init__(
        self,
        condition: Value,
        then: Value,
        otherwise: Value,
        spans: tuple[Span, ...],
        span: Span,
        env: Environment,
    ) -> None:
        super().__init__(span, env)
        self.spans = spans
        self.condition_span = spans[0]
        self.condition = condition
        self.then = then
        self.otherwise = otherwise

    @cached_property
    def identity(self) -> object:
        parts = (self.condition, self.then, self.otherwise)
        return self.identified_by(*(part.identity for part in parts))

    @cached_property
    def chosen(self) -> Value:
        """The branch that the condition picks: level F of the condition."""
        try:
            holds = condition_holds(self.condition, self.condition_span)
        except TCError as error:
            if error.rule == "C10" and error.span is self.condition_span:
                self._repair_by_where(error)
            raise
        return self.then if holds else self.otherwise

    def _repair_by_where(self, error: TCError) -> None:
        """Has an error about a condition that is an array say `where`, if that gives an array of
        its shape."""
        shape = self.condition.shape
        shapes = {self._attempted(branch, S) for branch in (self.then, self.otherwise)}
        if len(self.spans) == 3 and shape in shapes and shapes <= {shape, ()}:
            texts = [span.text.strip() for span in self.spans]
            repaired_by(error, Edit(self.span, f"where({', '.join(texts)})"))

    @cached_property
    def type(self) -> ElementType:
        return as_array(joined((self.then.type, self.otherwise.type)))

    @cached_property
    def rank(self) -> int:
        ranks = [self._attempted(branch, D) for branch in (self.then, self.otherwise)]
        if ranks[0] is not None and ranks[0] == ranks[1]:
            return self.then.rank
        return self.chosen.rank

    @cached_property
    def has_common_shape(self) -> bool:
        """Whether the branches have one shape, which is then known without the condition (C22)."""
        shapes = [self._attempted(branch, S) for branch in (self.then, self.otherwise)]
        return shapes[0] is not None and shapes[0] == shapes[1]

    @cached_property
    def shape(self) -> Shape:
        return self.then.shape if self.has_common_shape else self.chosen.shape

    @cached_property
    def value(self) -> Array:
        dtype = self.type.dtype
        check_fit(self.then.type, dtype)
        check_fit(self.otherwise.type, dtype)
        return elements(self.chosen, dtype)

    def needs(self, level: Level) -> Needs:
        branches = [(self.then, level), (self.otherwise, level)]
        if level == F:
            return [(self.condition, F), *branches]
        return branches if self.has_common_shape else [(self.condition, F), (self.chosen, level)]

    @staticmethod
    def _attempted(branch: Value, level: Level) -> Shape | int | None:
        """The shape or rank of a branch; None where it has none."""
        try:
            return branch.shape if level == S else branch.rank
        except (TCError, NeedsIndexTerm):  # the branch that is taken asks again
            return None


def _is_equality(condition: Value) -> bool:
    """Whether a condition says that arrays are equal, which means all of their elements."""
    return isinstance(condition, Application) and condition.row.name == "=="


def condition_holds(condition: Value, span: Span) -> bool:
    """Whether a condition, which is a scalar, holds (C10)."""
    if condition.rank:
        raise condition.fault(
            blamed((condition, S)),
            "C10",
            f"a condition of shape {shown(condition.shape)}; reduce it with all or any",
            span=span,
            paste=f"{'all' if _is_equality(condition) else 'any'}({span.line})",
        )
    return condition.env.context.decides(condition)
