"""How many instances a statement has: the points of its box at which its conditions hold, and its
ranges that use other index variables do (W1, W2)."""

from __future__ import annotations

import math

import numpy as np

from tc.dtypes import Array
from tc.semantics import program as p
from tc.semantics.reference.arithmetic import PLAIN
from tc.semantics.reference.block_evaluation import BlockEvaluation, both, evaluate
from tc.semantics.reference.listed_blocks import ListedBlock, listed_blocks, listed_variables

MOST_POINTS = 1 << 24
"""The most points of a box that are looked at."""

_POINTS_AT_ONCE = 1 << 16


def count_instances(shaped: p.ShapedProgram, each: p.ShapedStatement) -> int | None:
    """The number of instances of a statement; None where data decide, or there are too many points
    to look at.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1, j % 2 == 0 }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"x": (4,)}, {})
    >>> count_instances(shaped, shaped.statements[0])
    6
    """
    statement = each.statement
    box = math.prod(r.extent for r in each.ranges.values())
    if statement.has_box:
        return box
    exprs = (*statement.conditions, *(b for c in statement.where for b in (c.begin, c.end)))
    nodes = [node for expr in exprs for node in p.walk(expr)]
    reads = {node.tensor for node in nodes if isinstance(node, p.Read)}
    if not reads <= shaped.scalars.keys() or box > MOST_POINTS:
        return None
    scalars: dict[str, Array] = {
        name: np.array(value, shaped.program.tensors[name].dtype.numpy)
        for name, value in shaped.scalars.items()
    }

    def values(block: ListedBlock) -> BlockEvaluation[Array, tuple[str, Array]]:
        return BlockEvaluation(shaped, statement, PLAIN, scalars, block)

    def bounds(block: ListedBlock, clause: p.WhereRange) -> tuple[Array, Array]:
        begin, end = (evaluate(b, values(block), None) for b in (clause.begin, clause.end))
        return np.broadcast_to(begin, block.shape), np.broadcast_to(end, block.shape)

    listed = listed_variables(statement)
    rest = [name for name in statement.variables if name not in listed]
    total = 0
    with np.errstate(all="ignore"):
        for block in listed_blocks(each, rest, _POINTS_AT_ONCE, bounds):
            exists: Array = np.ones((1,) * len(block.shape), np.bool_)
            for test in statement.conditions:
                exists = both(exists, evaluate(test, values(block), exists))
            total += int(np.broadcast_to(exists, block.shape).sum())
    return total
