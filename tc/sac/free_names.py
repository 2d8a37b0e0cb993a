"""The free names of an expression: its inputs (C1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tc.sac import ast


def free_names(module: ast.Module) -> tuple[str, ...]:
    """The inputs of a text of statements and an expression, in text order."""
    assert module.body is not None
    return tuple(dict.fromkeys(_in_block(module.body.statements, module.body.results, frozenset())))


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
