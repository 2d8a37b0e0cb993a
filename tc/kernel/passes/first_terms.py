"""Extrema that start with the value that changes nothing start with their first term instead."""

from __future__ import annotations

import math

from tc.kernel.ir import Binary, Const, Expr, Kernel, Let, Set, Stmt, Var, expressions, statements
from tc.kernel.rebuild import Stmts, map_blocks, map_regions, same_or
from tc.kernel.walk import assigned_in, names_in


def start_with_first_terms(kernel: Kernel) -> Kernel:
    """The kernel without the first steps of minima and maxima of floats that start with an
    infinity, where these steps are in straight-line code: what is left is their term, NaN or not.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.ir import Buffer, Load, Store
    >>> from tc.kernel.printer import to_text
    >>> x = Var("x", FLOAT32)
    >>> def step(place):
    ...     return Set("x", Binary("max", x, Load("a", (Const(place, INT64),), FLOAT32), FLOAT32))
    >>> stmts = Let("x", Const(-math.inf, FLOAT32)), step(0), step(1), Store("o", (), x)
    >>> a, o = Buffer("a", FLOAT32, (2,), (1,), "input"), Buffer("o", FLOAT32, (), (), "output")
    >>> print(to_text(start_with_first_terms(Kernel("f", (a, o), (stmts,)))))
    kernel f
      input a: float32[2]
      output o: float32[]
    region
      let x: float32 = a[0]
      x = max(x, a[1])
      o[] = x
    """
    return map_regions(kernel, _block)


def _block(stmts: Stmts) -> Stmts:
    out: list[Stmt | None] = []
    starts: dict[str, int] = {}  # the places of locals that nothing has used yet
    for stmt in stmts:
        out.append(map_blocks(stmt, _block))
        used = _names(stmt) if starts else set()
        if isinstance(stmt, Set) and stmt.var in starts:
            start = out[starts[stmt.var]]
            term = _first_term(start, stmt)
            if term is not None:
                out[starts[stmt.var]], out[-1] = None, Let(stmt.var, term)
        for name in used & starts.keys():
            del starts[name]
        if isinstance(stmt, Let) and _infinity(stmt.value):
            starts[stmt.var] = len(out) - 1
    return same_or(stmts, (stmt for stmt in out if stmt is not None))


def _first_term(start: Stmt | None, step: Set) -> Expr | None:
    """What a local is after a step, if that takes its start and one other value."""
    match start, step.value:
        case Let(var=var, value=value), Binary(op=op, left=Var(name=name), right=term):
            neutral = {"max": -math.inf, "min": math.inf}.get(op, 0.0)
            if name == var and _infinity(value) == neutral and var not in names_in(term):
                return term
    return None


def _infinity(value: Expr) -> float:
    """The infinite constant, 0.0 for all else."""
    match value:
        case Const(value=number, dtype=dtype) if dtype.is_float and math.isinf(number):
            return float(number)
        case _:
            return 0.0


def _names(stmt: Stmt) -> set[str]:
    """The locals that a statement or one in it uses or sets."""
    inside = tuple(statements((stmt,)))
    used = {e.name for s in inside for e in expressions(s) if isinstance(e, Var)}
    return used | assigned_in(inside)
