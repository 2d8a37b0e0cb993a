"""Loads that GCC must not turn into wider ones.

For AVX-512, GCC before 14 (12.4 and 13.2 are mended) makes one masked load of a loop over a load
under a condition, and where the mask is a constant, as in `for (i < 16) if (i < 7) ... a[i]`, a
load of all lanes: past the end of the array. It does so after it has joined both sides of a
condition in a loop, which a pragma forbids.

In loops that read every other element backwards, as `a[i * -2]`, GCC (12.2; others were not tried)
makes one load of a whole vector, which begins an element before the last that is read: it may be
before the array.
"""

from __future__ import annotations

from tc.dtypes import BOOL
from tc.kernel import ir
from tc.kernel.ir import own_expressions

PRAGMA = """\
#if defined(__AVX512VL__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
// or these versions read beyond the ends of arrays
#pragma GCC optimize ("no-tree-loop-if-convert")
#endif"""


BACKWARDS_PRAGMA = """\
#if defined(__GNUC__) && !defined(__clang__)
// or elements before arrays are read that are read backwards
#pragma GCC optimize ("no-tree-loop-vectorize")
#endif"""


def reads_backwards(kernel: ir.Kernel) -> bool:
    """Whether an argument has its elements backwards in memory, with gaps between them."""
    return any(stride < -1 for buffer in kernel.arguments for stride in buffer.strides)


def guards_loads(kernel: ir.Kernel) -> bool:
    """Whether a loop has loads of single elements under a condition on its indices."""
    loops = (s for region in kernel.regions for s in ir.statements(region) if isinstance(s, ir.For))
    inside = {id(stmt): stmt for loop in loops for stmt in ir.statements(loop.body)}
    return any(map(_has_guarded_load, inside.values()))


def _has_guarded_load(stmt: ir.Stmt) -> bool:
    if isinstance(stmt, ir.If) and _is_of_indices(stmt.condition):
        branches = (*ir.statements(stmt.then), *ir.statements(stmt.otherwise))
        if any(_loads(expr) for inner in branches for expr in _expressions(inner)):
            return True
    return any(_guards(expr) for own in _expressions(stmt) for expr in ir.walk(own))


def _guards(expr: ir.Expr) -> bool:
    """Whether an operand is a load and is evaluated only under a condition on indices."""
    match expr:
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            sides: tuple[ir.Expr, ...] = (then, otherwise)
        case ir.Logical(op="&&" | "||", operands=(condition, *rest)):
            sides = tuple(rest)
        case _:
            return False
    return _is_of_indices(condition) and any(map(_loads, sides))


def _loads(expr: ir.Expr) -> bool:
    return any(isinstance(part, ir.Load) and part.dtype.lanes == 1 for part in ir.walk(expr))


def _is_of_indices(condition: ir.Expr) -> bool:
    """Whether it may be known before the loop runs; locals are taken to be."""
    if condition.dtype.lanes > 1:
        return False
    for part in ir.walk(condition):
        match part:
            case ir.Compare() if not any(isinstance(inner, ir.Load) for inner in ir.walk(part)):
                return True
            case ir.Var(dtype=dtype) if dtype == BOOL:
                return True
    return False


def _expressions(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    return own_expressions(stmt) if isinstance(stmt, ir.Store | ir.Let | ir.Set | ir.If) else ()
