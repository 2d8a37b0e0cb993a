"""What a program has to do at given sizes, however it is compiled: operations and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tc.semantics import program as p


@dataclass(frozen=True)
class Work:
    """Arithmetic operations (functions count as one) and compulsory traffic in bytes: each
    element touched counted once."""

    operations: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes if self.bytes else math.inf

    def __str__(self) -> str:
        return (
            f"{scaled(self.operations)}flop, {scaled(self.bytes)}B, "
            f"{self.intensity:.3g} flop per byte"
        )


_PREFIXES = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "u": 1e-6}


def scaled(number: float) -> str:
    """A count with three digits and a decimal prefix.

    >>> scaled(925_000_000), scaled(12), scaled(0.00135)
    ('925 M', '12 ', '1.35 m')
    """
    for prefix, factor in _PREFIXES.items():
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number * 1e9:.3g} n" if number else "0 "


def statement_work(shaped: p.ShapedProgram, statement: p.ShapedStatement) -> Work:
    """Operations over all instances, and the bytes of the tensors that it touches: an element
    read or written counts once, and no more elements than instances."""
    instances = _instances(statement)
    stmt = statement.statement
    nodes = (node for value in stmt.values for node in _values(value))
    operations = sum(isinstance(node, p.Binary | p.Unary | p.Call) for node in nodes)
    per_instance = operations + (stmt.op != "=") * len(stmt.targets)
    traffic = sum(
        min(math.prod(shaped.shapes[name]), instances) * shaped.program.tensors[name].dtype.bytes
        for name in _touched(stmt)
    )
    return Work(per_instance * instances, traffic)


def program_work(shaped: p.ShapedProgram) -> Work:
    """Operations of all statements; bytes of inputs and outputs, each element that can be
    touched counted once."""
    return Work(
        sum(statement_work(shaped, s).operations for s in shaped.statements),
        sum(_traffic(shaped).values()),
    )


def _instances(each: p.ShapedStatement) -> int:
    """The points of the box; where data decide the ranges of rows, each element is in one row."""
    rows = {v for c in each.statement.where if c.kind == p.DATA for v in c.depends_on}
    return math.prod(r.extent for name, r in each.ranges.items() if name not in rows)


def _touched(statement: p.Statement) -> set[str]:
    nodes = (node for expr in statement.expressions for node in p.walk(expr))
    return {*statement.targets, *(node.tensor for node in nodes if isinstance(node, p.Read))}


def _traffic(shaped: p.ShapedProgram) -> dict[str, int]:
    """Bytes of each input and output that the statements touch, no more than it has."""
    program = shaped.program
    touched = dict.fromkeys((*program.inputs, *program.outputs), 0)
    for statement in shaped.statements:
        for name in touched.keys() & _touched(statement.statement):
            touched[name] += _instances(statement)
    return {
        name: min(math.prod(shaped.shapes[name]), count) * program.tensors[name].dtype.bytes
        for name, count in touched.items()
    }


def _values(expr: p.Expr) -> Iterator[p.Expr]:
    """The expression without what only computes subscripts."""
    yield expr
    if not isinstance(expr, p.Read):
        for child in p.children(expr):
            yield from _values(child)
