"""Extrema that start with the value that changes nothing start with their first term instead."""

from __future__ import annotations

import math

from tc.kernel import ir
from tc.kernel.rebuild import Stmts, map_blocks, map_regions, same_or
from tc.kernel.walk import assigned_in, names_in


def start_with_first_terms(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without the first steps of minima and maxima of floats that start with an
    infinity, where these steps are in straight-line code: what is left is their term, NaN or not.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> x = ir.Var("x", FLOAT32)
    >>> def step(place):
    ...     term = ir.Load("a", (ir.Const(place, INT64),), FLOAT32)
    ...     return ir.Set("x", ir.Binary("max", x, term, FLOAT32))
    >>> stmts = ir.Let("x", ir.Const(-math.inf, FLOAT32)), step(0), step(1), ir.Store("o", (), x)
    >>> print(to_text(start_with_first_terms(ir.Kernel("f", (), (stmts,)))))
    kernel f
    region
      let x: float32 = a[0]
      x = max(x, a[1])
      o[] = x
    """
    return map_regions(kernel, _block)


def _block(stmts: Stmts) -> Stmts:
    out: list[ir.Stmt | None] = []
    starts: dict[str, int] = {}  # the places of locals that nothing has used yet
    for stmt in stmts:
        out.append(map_blocks(stmt, _block))
        used = _names(stmt) if starts else set()
        if isinstance(stmt, ir.Set) and stmt.var in starts:
            start = out[starts[stmt.var]]
            term = _first_term(start, stmt)
            if term is not None:
                out[starts[stmt.var]], out[-1] = None, ir.Let(stmt.var, term)
        for name in used & starts.keys():
            del starts[name]
        if isinstance(stmt, ir.Let) and _infinity(stmt.value):
            starts[stmt.var] = len(out) - 1
    return same_or(stmts, (stmt for stmt in out if stmt is not None))


def _first_term(start: ir.Stmt | None, step: ir.Set) -> ir.Expr | None:
    """What a local is after a step, if that takes its start and one other value."""
    match start, step.value:
        case ir.Let(var=var, value=value), ir.Binary(op=op, left=ir.Var(name=name), right=term):
            neutral = {"max": -math.inf, "min": math.inf}.get(op, 0.0)
            if name == var and _infinity(value) == neutral and var not in names_in(term):
                return term
    return None


def _infinity(value: ir.Expr) -> float:
    """The infinite constant, 0.0 for all else."""
    match value:
        case ir.Const(value=number, dtype=dtype) if dtype.is_float and math.isinf(number):
            return float(number)
        case _:
            return 0.0


def _names(stmt: ir.Stmt) -> set[str]:
    """The locals that a statement or one in it uses or sets."""
    inside = tuple(ir.statements((stmt,)))
    used = {name for s in inside for e in ir.own_expressions(s) for name in names_in(e)}
    return used | assigned_in(inside)
