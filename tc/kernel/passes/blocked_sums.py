"""Long sums of floats are added up in blocks.

A sum of n terms that are added one after the other has an error that grows with n. Where blocks of
terms are summed each for itself, and then these sums, it grows with the square root of n at the
best (Higham, "The accuracy of floating point summation", 1993, section 3). R5 leaves the order of a
reduction free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tc.dtypes import INT64, DType
from tc.extents.sizes import at_hint
from tc.kernel import ir
from tc.kernel.folding import binary, constant, integer
from tc.kernel.intervals import loop_interval
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_each,
    map_regions,
    substitute,
)
from tc.kernel.walk import assigned, iterations

BLOCK = 128
"""Terms of a block: enough that what each block costs, a sum and a constant for each of the loop's
accumulators, is little beside its terms."""

GROUP = 32
"""Blocks whose sums are added up for themselves, from twice as many on: there a chain of as many
sums adds about as much to the error as the chains of the blocks."""


def sum_in_blocks(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops that add many terms to locals as loops over blocks of their iterations.

    A block begins its own locals at zero, and adds them at its end to those that were there; many
    blocks are in groups, which do the same. Where
    a local continues a sum that is held in memory, as that of the steps of a packed panel does, the
    blocks of the loop are a sum of their own, which is added to it. What is reported of checks, and
    all that is no sum, stays as it is.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> x, k = ir.Var("x", FLOAT32), ir.Var("k", INT64)
    >>> step = ir.Set("x", ir.Binary("+", x, ir.Load("a", (k,), FLOAT32), FLOAT32))
    >>> loop = ir.For("k", constant(0, INT64), constant(1000, INT64), (step,))
    >>> stmts = ir.Let("x", constant(0.0, FLOAT32)), loop, ir.Store("o", (), x)
    >>> print(to_text(sum_in_blocks(ir.Kernel("f", (), (stmts,)))))
    kernel f
    region
      let x: float32 = 0.0f
      for k_block in 0:8
        let x_block: float32 = 0.0f
        for k in k_block * 128:min(k_block * 128 + 128, 1000)
          x_block = x_block + a[k]
        x = x + x_block
      o[] = x
    """
    names, scope = LocalNames(kernel), Scope(assigned(kernel))

    def each(stmt: ir.Stmt) -> Stmts:
        new = scope.map_inside(stmt, each)
        return _in_blocks(new, names, scope, BLOCK) if isinstance(new, ir.For) else (new,)

    return map_regions(kernel, lambda region: scope.map(region, each))


def _in_blocks(loop: ir.For, names: LocalNames, scope: Scope, size: int = BLOCK) -> Stmts:
    """The loop, whose inner loops are done, over blocks of its iterations if it may add many
    terms: at least two times `size`, those of a block. Many blocks are in groups."""
    sums = accumulators(loop.body)
    terms = max((_additions(loop.body, name) for name in sums), default=0)
    first, last = loop_interval(loop.begin, loop.end, scope.bounds)
    if loop.parallel or loop.mark or at_hint(last - first + 1) * terms < 2 * size:
        return (loop,)
    length = -(-size // terms)
    what = "block" if size == BLOCK else "group"
    number = ir.Var(names.fresh(f"{loop.var.removesuffix('_block')}_{what}"), INT64)
    begin = binary("+", loop.begin, binary("*", number, integer(length)))
    end = binary("min", binary("+", begin, integer(length)), loop.end)

    def locals_for(what: str, sums: Mapping[str, DType]) -> dict[str, ir.Var]:
        return {n: ir.Var(names.fresh(f"{n}_{what}"), dtype) for n, dtype in sums.items()}

    whole = {name: ir.Var(name, dtype) for name, dtype in sums.items()}
    continued = {n: t for n, t in sums.items() if isinstance(scope.values.get(n), ir.Load)}
    of_loop = locals_for("sum", continued)
    around, parts = whole | of_loop, locals_for(what, sums)
    block = changed(loop, begin=begin, end=end, body=_renamed(loop.body, parts))
    count = binary("+", binary("-", loop.end, loop.begin), integer(length - 1))
    blocks = ir.For(
        number.name,
        integer(0),
        binary("/", count, integer(length)),
        _added((block,), parts, around),
    )
    return _added(_in_blocks(blocks, names, scope, GROUP), of_loop, whole)


def _added(stmts: Stmts, own: Mapping[str, ir.Var], around: Mapping[str, ir.Var]) -> Stmts:
    """Statements that add to locals of their own, which are then added to those around."""
    return (
        *(ir.Let(part.name, constant(0.0, part.dtype)) for part in own.values()),
        *stmts,
        *(
            ir.Set(around[name].name, ir.Binary("+", around[name], part, part.dtype))
            for name, part in own.items()
        ),
    )


def accumulators(body: Stmts) -> dict[str, DType]:
    """The locals of floats, declared outside of a body, to which the body adds terms, and which it
    reads nowhere else; with their types."""
    found: dict[str, DType] = {}
    inside = tuple(ir.statements(body))
    declared = {stmt.var for stmt in inside if isinstance(stmt, ir.Let | ir.For)}
    reads = Counter(
        e.name for stmt in inside for e in ir.expressions(stmt) if isinstance(e, ir.Var)
    )
    steps = Counter(stmt.var for stmt in inside if isinstance(stmt, ir.Set))
    others = {s.var for s in inside if isinstance(s, ir.Set) and not _is_addition(s)}
    for stmt in inside:
        if isinstance(stmt, ir.Set) and stmt.var not in declared | others:
            found[stmt.var] = stmt.value.dtype
    return {name: dtype for name, dtype in found.items() if reads[name] == steps[name]}


def _is_addition(stmt: ir.Set) -> bool:
    """Whether a statement adds something to a local of floats."""
    if not stmt.value.dtype.scalar.is_float:
        return False
    match stmt.value:
        case ir.Binary(op="+", left=ir.Var(name=name)):
            return name == stmt.var
        case ir.Call(function="fma", args=(_, _, ir.Var(name=name))):
            return name == stmt.var
    return False


def _additions(body: Stmts, name: str) -> int:
    """The most terms that a body may add to a local; loops whose bounds are not constants count as
    one iteration."""
    count = 0
    for stmt in body:
        match stmt:
            case ir.Set(var=var):
                count += var == name
            case ir.For(body=inner):
                count += max(1, len(iterations(stmt))) * _additions(inner, name)
            case ir.If(then=then, otherwise=otherwise):
                count += max(_additions(then, name), _additions(otherwise, name))
    return count


def _renamed(body: Stmts, parts: Mapping[str, ir.Var]) -> Stmts:
    """The body with other locals in the place of those that it adds to."""

    def each(stmt: ir.Stmt) -> tuple[ir.Stmt]:
        if isinstance(stmt, ir.Set) and stmt.var in parts:
            part = parts[stmt.var]
            return (ir.Set(part.name, substitute(stmt.value, {stmt.var: part}, {})),)
        return (stmt,)

    return map_each(body, each)
