"""Walks over trees of the notation: free names, operands, names with expressions in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tc.sac import ast


def free_in(expr: ast.Expr) -> tuple[str, ...]:
    """The free names of an expression, in text order."""
    return tuple(dict.fromkeys(_in_expr(expr, frozenset())))


def assigned_names(statements: Iterable[ast.Statement]) -> Iterator[str]:
    """The names that statements set, in branches too."""
    for statement in statements:
        if isinstance(statement, ast.Assign):
            yield from (target.text for target in statement.targets)
        else:
            yield from assigned_names((*statement.then, *statement.otherwise))


def _in_block(
    statements: Sequence[ast.Statement], results: Sequence[ast.Expr], bound: frozenset[str]
) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.Assign):
            if statement.op:
                yield from _in_expr(statement.targets[0], bound)
            yield from _in_expr(statement.value, bound)
            bound |= {target.text for target in statement.targets}
        else:
            yield from _in_expr(statement.condition, bound)
            yield from _in_block(statement.then, (), bound)
            yield from _in_block(statement.otherwise, (), bound)
            both = set(assigned_names(statement.then)) & set(assigned_names(statement.otherwise))
            bound |= both
    for result in results:
        yield from _in_expr(result, bound)


def _in_expr(expr: ast.Expr | ast.Dot | ast.Dots, bound: frozenset[str]) -> Iterator[str]:
    match expr:
        case ast.Name(text=text):
            if text not in bound:
                yield text
        case ast.Row(items=items):
            for item in items:
                yield from _in_expr(item, bound)
        case ast.Select(array=array, items=items):
            for each in (array, *items):
                yield from _in_expr(each, bound)
        case ast.Call(args=args):
            for arg in args:
                yield from _in_expr(arg, bound)
        case ast.Cast(operand=operand) | ast.Unary(operand=operand):
            yield from _in_expr(operand, bound)
        case ast.Binary(left=left, right=right):
            yield from _in_expr(left, bound)
            yield from _in_expr(right, bound)
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            for operand in (condition, then, otherwise):
                yield from _in_expr(operand, bound)
        case ast.Comprehension(parts=parts):
            for part in parts:
                yield from _of_generator(part.generator, bound)
                yield from _in_expr(part.body, bound | pattern_names(part.pattern))
        case ast.WithLoop(parts=loop_parts, operation=operation):
            for loop_part in loop_parts:
                yield from _of_generator(loop_part.generator, bound)
                inner = bound | pattern_names(loop_part.generator.index)
                yield from _in_block(loop_part.statements, (loop_part.body,), inner)
            match operation:
                case ast.Genarray(shape=shape, default=default):
                    yield from _in_expr(shape, bound)
                    yield from _in_expr(default, bound)
                case ast.Modarray(array=array):
                    yield from _in_expr(array, bound)
                case ast.Fold(neutral=neutral):
                    yield from _in_expr(neutral, bound)


def pattern_names(pattern: ast.Pattern) -> frozenset[str]:
    """The variables of a pattern."""
    if isinstance(pattern, ast.VectorPattern):
        return frozenset((pattern.name.text,))
    return frozenset(name.text for name in pattern.names)


def _of_generator(generator: ast.Generator | None, bound: frozenset[str]) -> Iterator[str]:
    if generator is not None:
        for side in (generator.lower, generator.upper):
            if side is not None and not isinstance(side.value, ast.Dot):
                yield from _in_expr(side.value, bound)


def children(expr: ast.Expr) -> Sequence[ast.Expr]:
    """The operands of an expression that is no comprehension or with-loop."""
    found: list[ast.Expr] = []

    def noted(child: ast.Expr) -> ast.Expr:
        found.append(child)
        return child

    mapped(expr, noted)
    return found


def has_loop(expr: ast.Expr) -> bool:
    """Whether a comprehension or a with-loop is in an expression."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Comprehension | ast.WithLoop):
            return True
        stack += children(node)
    return False


def operands(loop: ast.Comprehension | ast.WithLoop) -> Sequence[ast.Expr]:
    """The expressions of a loop outside of its partitions."""
    if isinstance(loop, ast.Comprehension):
        return ()
    match loop.operation:
        case ast.Genarray(shape=shape, default=default):
            return (shape, default)
        case ast.Modarray(array=array):
            return (array,)
        case ast.Fold(neutral=neutral):
            return (neutral,)


SHORT = 24
"""The most nodes of an expression that is written again wherever it is used."""


def is_short(expr: ast.Expr) -> bool:
    """Whether an expression has few nodes and no comprehension or with-loop among them."""
    stack, count = [expr], 0
    while stack:
        node = stack.pop()
        count += 1
        if count > SHORT or isinstance(node, ast.Comprehension | ast.WithLoop):
            return False
        stack += children(node)
    return True


def mapped(expr: ast.Expr, change: Callable[[ast.Expr], ast.Expr]) -> ast.Expr:
    """An expression with its operands changed; comprehensions and with-loops stay as they are."""
    match expr:
        case ast.Row(items=rows):
            return replace(expr, items=tuple(change(row) for row in rows))
        case ast.Select(array=array, items=items):
            changed = tuple(
                item if isinstance(item, ast.Dot | ast.Dots) else change(item) for item in items
            )
            return replace(expr, array=change(array), items=changed)
        case ast.Call(args=args):
            return replace(expr, args=tuple(change(arg) for arg in args))
        case ast.Cast(operand=operand) | ast.Unary(operand=operand):
            return replace(expr, operand=change(operand))
        case ast.Binary(left=left, right=right):
            return replace(expr, left=change(left), right=change(right))
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            return replace(
                expr, condition=change(condition), then=change(then), otherwise=change(otherwise)
            )
    return expr
