"""Contraction: products that are added to something become one operation, in vectors of floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from tc.kernel import ir, rebuild
from tc.kernel.rules import rewritten, rule
from tc.kernel.walk import mentioned

RULES = (
    rule("c + a * b", "fma(a, b, c)"),
    rule("c - a * b", "fma(-a, b, c)"),
    rule("c + -(a * b)", "fma(-a, b, c)"),
    rule("c - -(a * b)", "fma(a, b, c)"),
    rule("a * b + c", "fma(a, b, c)"),
    rule("a * b - c", "fma(a, b, -c)"),
    rule("-(a * b) + c", "fma(-a, b, c)"),
    rule("-(a * b) - c", "fma(-a, b, -c)"),
)
"""Of two products the second one is contracted."""


def contract(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with sums a * b + c of vectors of floats as fma(a, b, c), and differences alike.

    The product is then not rounded, which R5 allows; all lanes and threads compute alike. Worth it
    only where that is an instruction, and to be run before functions are expanded to formulas
    that rely on how each operation rounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import statement_lines
    >>> dtype = FLOAT32.vector(4)
    >>> a = ir.Load("a", (ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(4)),), dtype)
    >>> sum = ir.Let("s", ir.Binary("+", ir.Binary("*", a, a, dtype), a, dtype))
    >>> buffers = (ir.Buffer("a", FLOAT32, (4,), (1,), "input"),)
    >>> print(*statement_lines(contract(ir.Kernel("k", buffers, ((sum,),))).regions[0][0]))
    let s: float32x4 = fma(a[0:4], a[0:4], a[0:4])
    """
    return rebuild.map_regions(kernel, _block)


def _block(block: rebuild.Stmts) -> rebuild.Stmts:
    return rebuild.map_statements(
        _inlined(block),
        lambda s: (rebuild.map_expressions(rebuild.map_blocks(s, _block), _contracted),),
    )


def _inlined(block: rebuild.Stmts) -> rebuild.Stmts:
    """The block with products of vectors in the place of locals that only the next statement
    reads, once."""
    if not any(isinstance(stmt, ir.Let) and _is_product(stmt) for stmt in block):
        return block
    times = Counter(mentioned(block))
    out: list[ir.Stmt] = []
    for stmt in block:
        before = out[-1] if out else None
        if isinstance(before, ir.Let) and _is_product(before):
            reads = sum(e == ir.Var(before.var, before.dtype) for e in ir.expressions(stmt))
            if reads == 1 and times[before.var] == 2:  # where it is declared, and here
                out.pop()
                product = partial(_substituted, values={before.var: before.value})
                stmt = rebuild.map_expressions(stmt, product)
        out.append(stmt)
    return rebuild.same_or(block, out)


def _substituted(expr: ir.Expr, values: Mapping[str, ir.Expr]) -> ir.Expr:
    return rebuild.substitute(expr, values, {})


def _is_product(local: ir.Let) -> bool:
    """Whether a local is a product of vectors of floats, or the negative of one."""
    match local.value:
        case ir.Binary(op="*") | ir.Unary(operand=ir.Binary(op="*")):
            return local.dtype.lanes > 1 and local.dtype.is_float
        case _:
            return False


def _contracted(expr: ir.Expr) -> ir.Expr:
    if isinstance(expr, ir.Const | ir.Var):
        return expr
    result = rebuild.map_operands(expr, _contracted)
    is_sum = isinstance(result, ir.Binary) and result.op in ("+", "-")
    is_vector = result.dtype.lanes > 1 and result.dtype.is_float
    return rewritten(result, RULES) if is_sum and is_vector else result
