"""Subscripts with `min`, `max` or `?:`: one statement for each branch, with the branch's condition
(D14)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tc.gradient import terms as e
from tc.gradient.adjoints import Contribution
from tc.semantics import program as p

MAX_BRANCHES = 16
"""Branches of one read; where there are more, its subscripts stay conditions on the element."""


def branches(found: Contribution) -> list[Contribution]:
    """The contributions to a read, one for each branch of its subscripts. The outermost `min`,
    `max` or `?:` is decided first, and each further one under the conditions that hold so far."""
    made: list[Contribution] = []
    for each in _branches(found):
        made.append(each)
        if len(made) > MAX_BRANCHES:
            return [found]
    return made


def _branches(found: Contribution) -> Iterator[Contribution]:
    choice = _choice(found.read)
    if choice is None:
        yield found
        return
    match choice:
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            parts = [(condition, then), (e.negation(condition), otherwise)]
        case p.Binary(op=op, left=left, right=right):
            sign = "<=" if op == "min" else ">="
            is_left = e.compare(sign, left, right)
            is_right = e.compare("<" if op == "min" else ">", right, left)
            parts = [(is_left, left), (is_right, right)]
        case _:
            raise AssertionError(choice)
    for condition, value in parts:
        read = _with_branch(found.read, choice, value)
        conditions = (*found.conditions, condition)
        yield from _branches(replace(found, read=read, conditions=conditions))


def _with_branch(read: p.Read, choice: p.Expr, value: p.Expr) -> p.Read:
    rebuilt = e.rebuilt(read, lambda node: value if node is choice else None)
    assert isinstance(rebuilt, p.Read)
    return rebuilt


def _choice(read: p.Read) -> p.Expr | None:
    """The first `min`, `max` or `?:` in the subscripts of a read, outermost first, that depends on
    an index variable."""
    for subscript in read.subscripts:
        for node in p.walk(subscript):
            is_choice = isinstance(node, p.Select) or (
                isinstance(node, p.Binary) and node.op in ("min", "max")
            )
            if is_choice and p.index_names(node):
                return node
    return None
