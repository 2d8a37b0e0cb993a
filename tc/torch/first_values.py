"""Start values of parameters, chosen by the way in which a program uses each parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from tc.semantics import program as p

Start = Callable[[Any], Any]
"""What gives a tensor its first values."""


def first_values(program: p.Program, name: str) -> Start:
    """As torch has it for its own layers: uniform up to 1 / sqrt(terms) where a program sums over
    dimensions of a tensor, normal where it gathers from it; else 1 for a factor, 0 for a term."""
    uses = list(_uses(program, name))
    summed = {axis for use in uses for axis in use.summed}
    if summed:
        return partial(_uniform, axes=tuple(sorted(summed)))
    if any(use.gathered for use in uses):
        return partial(torch.nn.init.normal_, mean=0.0, std=1.0)
    if any(use.factor for use in uses):
        return torch.nn.init.ones_  # type: ignore[no-any-return]
    return torch.nn.init.zeros_  # type: ignore[no-any-return]


class _Use:
    """One read of a tensor: the dimensions that are summed over, whether data choose the elements,
    and whether the read is a factor of a product."""

    def __init__(self, read: p.Read, statement: p.Statement, factor: bool) -> None:
        reduced = set(statement.reduction)
        self.summed = [
            axis
            for axis, subscript in enumerate(read.subscripts)
            if reduced.intersection(p.index_names(subscript))
        ]
        inside = (node for subscript in read.subscripts for node in p.walk(subscript))
        self.gathered = any(isinstance(node, p.Read) and node.subscripts for node in inside)
        self.factor = factor


def _uses(program: p.Program, name: str) -> Iterator[_Use]:
    for statement in program.statements:
        for read, factor in _reads(statement.rhs, factor=False):
            if read.tensor == name:
                yield _Use(read, statement, factor)


def _reads(expr: p.Expr, *, factor: bool) -> Iterator[tuple[p.Read, bool]]:
    """The reads of an expression, with whether each is a factor of a product or quotient."""
    match expr:
        case p.Read():
            yield expr, factor
        case p.Binary(op="*" | "/"):
            factor = True
        case p.Convert() | p.Unary():
            pass
        case _:
            factor = False
    for child in p.children(expr):
        yield from _reads(child, factor=factor)


def _uniform(tensor: Any, axes: tuple[int, ...]) -> Any:
    terms = math.prod(tensor.shape[axis] for axis in axes)
    bound = 1 / math.sqrt(max(terms, 1))
    return torch.nn.init.uniform_(tensor, -bound, bound)
