"""The names whose elements a text uses as conditions, as of `c[i] ? a : b` and `any(c)`."""

from __future__ import annotations

from collections.abc import Iterator

from tc.sac import ast
from tc.sac.trees import children, operands


def used_as_conditions(body: ast.Body) -> frozenset[str]:
    """The names whose elements are conditions in a body: as inputs, whose text declares no type,
    they are taken for bools."""
    return frozenset().union(*map(_conditions, body.results), *_in_statements(body))


def _in_statements(body: ast.Body) -> Iterator[set[str]]:
    """The names that statements use as conditions, for each value and condition."""
    stack = list(body.statements)
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.Assign):
            yield _conditions(statement.value)
        else:
            yield _conditions(statement.condition) | _tested(statement.condition)
            stack += [*statement.then, *statement.otherwise]


def _conditions(expr: ast.Expr) -> set[str]:
    """The names of an expression whose elements are conditions, as of `c[i] ? a : b` and `any(c)`:
    as inputs they are taken for bools, whose text declares no type."""
    below = [*children(expr)]
    if isinstance(expr, ast.Comprehension | ast.WithLoop):
        below = [*operands(expr), *(part.body for part in expr.parts)]
    found = set[str]().union(*map(_conditions, below))
    match expr:
        case ast.Conditional(condition=tested):
            found |= _tested(tested)
        case ast.Binary(op="&&" | "||", left=left, right=right):
            found |= _tested(left) | _tested(right)
        case ast.Unary(op="!", operand=tested):
            found |= _tested(tested)
        case ast.Call(function=ast.Name(text="any" | "all"), args=(tested,)):
            found |= _tested(tested)
    return found


def _tested(expr: ast.Expr) -> set[str]:
    """The name of which an element, or all elements, are a condition."""
    while isinstance(expr, ast.Select):
        expr = expr.array
    return {expr.text} if isinstance(expr, ast.Name) else set()
