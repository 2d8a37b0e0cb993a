"""find-shapes: the bounds that the selections of a body give the variables of its pattern (C15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tc.errors import TCError
from tc.sac import ast
from tc.sac.levels.builtins import SELECTION
from tc.sac.levels.values import (
    Environment,
    Level,
    NeedsIndexTerm,
    Shape,
    Value,
    needs_unknown_index,
)

if TYPE_CHECKING:
    from tc.sac.levels.partitions import Partition


class FoundBound:
    """A selection that bounds a variable: by the size of one axis of an array, or, for an index
    vector, by the whole shape.

    `axis` counts from the front, or from the end where it is negative; it is None for a vector.
    The array may be any whose shape is told without the values of the variables: `rank` is None for
    others. A shape that an outer index of a lowering decides is a bound, too (C26)."""

    def __init__(self, name: str, array: Value, axis: int | None, array_text: str) -> None:
        self.name = name
        self.array = array
        self.axis = axis
        self.array_text = array_text

    @cached_property
    def rank(self) -> int | None:
        """The rank of the array, or None where the selection bounds nothing. Level D."""
        try:
            rank = self.array.rank
            _ = self.array.shape
        except TCError:
            return None
        except NeedsIndexTerm:
            if needs_unknown_index(self.array, Level.S):
                raise
            rank = self.array.rank
        if self.axis is not None and not -rank <= self.axis < rank:
            return None
        return rank

    @property
    def sizes(self) -> Shape:
        """The sizes that bound the variable. Level S."""
        shape = self.array.shape
        return shape if self.axis is None else (shape[self.axis],)

    @property
    def text(self) -> str:
        """The bound as it is written: `shape(a)[0]`."""
        whole = f"shape({self.array_text})"
        if self.axis is None:
            return whole
        if self.axis >= 0:
            return f"{whole}[{self.axis}]"
        return f"{whole}[dim({self.array_text})-{-self.axis}]"


def find_bounds(
    statements: Sequence[ast.Statement],
    body: ast.Expr,
    names: frozenset[str],
    env: Environment,
) -> Iterator[FoundBound]:
    """The bounds of variables in the statements and the body of a partition, in text order."""
    yield from _in_block(statements, (body,), names, env)


def _in_block(
    statements: Sequence[ast.Statement],
    results: Sequence[ast.Expr],
    names: frozenset[str],
    env: Environment,
) -> Iterator[FoundBound]:
    for statement in statements:
        yield from _in_statement(statement, names, env)
        env = env.context.execute((statement,), env)
        names = names - _assigned(statement)
    for result in results:
        yield from _in_expr(result, names, env)


def _in_statement(
    statement: ast.Statement, names: frozenset[str], env: Environment
) -> Iterator[FoundBound]:
    match statement:
        case ast.Assign(value=value):
            yield from _in_expr(value, names, env)
        case ast.If(condition=condition, then=then, otherwise=otherwise):
            yield from _in_expr(condition, names, env)
            yield from _in_block(then, (), names, env)
            yield from _in_block(otherwise, (), names, env)


def _assigned(statement: ast.Statement) -> frozenset[str]:
    match statement:
        case ast.Assign(targets=targets):
            return frozenset(target.text for target in targets)
        case ast.If(then=then, otherwise=otherwise):
            return frozenset(name for inner in (*then, *otherwise) for name in _assigned(inner))


def _in_expr(expr: ast.Expr, names: frozenset[str], env: Environment) -> Iterator[FoundBound]:
    if not names:
        return
    match expr:
        case ast.Select(array=array, items=items):
            yield from _of_selection(array, items, names, env)
            yield from _in_expr(array, names, env)
            for item in items:
                if not isinstance(item, ast.Dot | ast.Dots):
                    yield from _in_expr(item, names, env)
        case ast.Call(function=function, args=args):
            is_selection = function.text == SELECTION and len(args) == 2
            if is_selection and SELECTION not in env.context.functions:
                yield from _of_selection(args[1], args[:1], names, env)
            for arg in args:
                yield from _in_expr(arg, names, env)
        case ast.Row(items=rows):
            for row in rows:
                yield from _in_expr(row, names, env)
        case ast.Unary(operand=operand) | ast.Cast(operand=operand):
            yield from _in_expr(operand, names, env)
        case ast.Binary(left=left, right=right):
            yield from _in_expr(left, names, env)
            yield from _in_expr(right, names, env)
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            for part in (condition, then, otherwise):
                yield from _in_expr(part, names, env)
        case ast.Comprehension() | ast.WithLoop():
            yield from _in_loop(expr, names, env)


def _in_loop(
    expr: ast.Comprehension | ast.WithLoop, names: frozenset[str], env: Environment
) -> Iterator[FoundBound]:
    """In bounds and bodies of a nested comprehension, whose own variables hide outer ones."""
    loop = env.context.evaluate(expr, env)
    for part in cast("tuple[Partition, ...]", loop.parts):  # type: ignore[attr-defined]
        generator = part.generator
        for bound in (generator.lower, generator.upper) if generator else ():
            if bound is not None and not isinstance(bound.value, ast.Dot):
                yield from _in_expr(bound.value, names, env)
        inner = env.bind(dict(zip(part.names, part.unknown_index(), strict=True)))
        visible = names - frozenset(part.names)
        yield from _in_block(part.statements, (part.body,), visible, inner)
    if isinstance(expr, ast.WithLoop):
        match expr.operation:
            case ast.Genarray(shape=shape, default=default):
                yield from _in_expr(shape, names, env)
                yield from _in_expr(default, names, env)
            case ast.Modarray(array=array):
                yield from _in_expr(array, names, env)
            case ast.Fold(neutral=neutral):
                yield from _in_expr(neutral, names, env)


def _of_selection(
    array: ast.Expr,
    items: Sequence[ast.Expr | ast.Dot | ast.Dots],
    names: frozenset[str],
    env: Environment,
) -> Iterator[FoundBound]:
    if len(items) == 1 and isinstance(items[0], ast.Row):
        items = items[0].items
    dots = next((k for k, item in enumerate(items) if isinstance(item, ast.Dots)), len(items))
    for k, item in enumerate(items):
        if not isinstance(item, ast.Name) or item.text not in names:
            continue
        value, text = env.names[item.text], array.span.line
        if value.rank == 0:
            axis = k if k < dots else k - len(items)
            yield FoundBound(item.text, env.context.evaluate(array, env), axis, text)
        elif len(items) == 1:
            yield FoundBound(item.text, env.context.evaluate(array, env), None, text)
