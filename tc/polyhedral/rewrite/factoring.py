"""Factoring: a sum of products computed through smaller sums, where that takes fewer operations.

`O(i,r) +=! X(i,j,k) * B(j,r) * C(k,r)` multiplies twice and adds for each i, j, k and r. As B does
not depend on k, `T(i,j,r) +=! X(i,j,k) * C(k,r)` and `O(i,r) +=! T(i,j,r) * B(j,r)` give the same
with a third less. Likewise a chain of matrix products is computed two by two, and a factor
without reduction variables is applied once, to the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from string import ascii_lowercase

from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.product_order import Factor, OrderCosts, PartialSum, best_order
from tc.polyhedral.rewrite.rewriting import Rewriting, operations_of
from tc.semantics import program as p
from tc.semantics.factors import Group, groups_of, quotient_of
from tc.semantics.program import ShapedProgram, ShapedStatement


def factor(shaped: p.ShapedProgram, costs: OrderCosts | None = None) -> p.ShapedProgram:
    """The program with sums of products factored where that is legal and cheaper.

    A statement `target += product` or `target +=! product` over reduction variables, without
    checks, is replaced by statements that store smaller sums in new temporaries, and a last one
    in its place, which starts from what the first started from (R2, R3). Which sums, is what
    `best_order` finds; contractions in several statements stay as they are, for the user named
    their results. The temporaries have the type that the sum is computed in, so `half` is still
    rounded once (Y8). A program in which nothing is factored is returned as it is.

    Within R5: every term of the sum written is still a product of the same factors, rounded as
    often, for a multiplication spares others but takes none; on its way into the result it meets
    at most as many additions, since the sums of m and then n terms add m + n - 2 times, and the
    one of m n terms, m n - 1 times. And |s| * sum |a| = sum |s a|, so magnitudes are those of the
    terms as written. Hence the error stays below terms * roundoff * sum of magnitudes. Integers
    wrap around, and form a ring: the results are the same bits. Minimum and maximum stay, and so
    do sums within factors, such as (a-b) * (a-b).

    Where a smaller sum, or a product of some factors, leaves the range of its type (overflow, or
    lost digits in underflow) though no term as written does, or where the sum as written is NaN or
    infinite (inf * 1 + inf * -2 may become inf * (1 - 2)), R5 leaves the value open;
    `semantics.factors` says of which statements, for this pass and the error bound alike.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> head = "def f(float(N,K) A, float(K,L) B, float(L) x) -> (y)"
    >>> source = Source(head + "{ y(i) +=! A(i,k) * B(k,l) * x(l) }")
    >>> shapes = {"A": (100, 100), "B": (100, 100), "x": (100,)}
    >>> factored = factor(infer_ranges(check(parse(source)), shapes, {}))
    >>> for statement in factored.program.statements:
    ...     print(statement.name, statement.text)
    S0.a y.t0(k) +=! B(k, l) * x(l)
    S0 y(i) +=! A(i, k) * y.t0(k)
    """
    rewriting = Rewriting(shaped, "factored")

    def factored(old: p.ShapedStatement) -> list[p.ShapedStatement] | None:
        found = _find_order(old, shaped, costs or OrderCosts())
        return None if found is None else _Factored(rewriting, old, *found).made()

    return rewriting.program(factored)


# --- what can be factored ---------------------------------------------------------------------


def _factor_of(group: Group) -> Factor:
    operations = sum(operations_of(expr) for _, expr in group.exprs) + len(group.exprs) - 1
    contiguous = (v for _, expr in group.exprs for v in _contiguous(expr))
    return Factor(group.variables, operations, frozenset(contiguous), group.is_product)


def _find_order(
    shaped_statement: p.ShapedStatement, shaped: p.ShapedProgram, costs: OrderCosts
) -> tuple[PartialSum, tuple[Group, ...]] | None:
    """A better order for a statement, and the factors that it speaks of."""
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    groups = groups_of(shaped_statement)
    if not groups:
        return None
    tensors = {n.tensor for n in p.walk(statement.rhs) if isinstance(n, p.Read)}
    of_program = shaped.program.tensors
    sizes = (
        math.prod(map(at_hint, shaped.shapes[t])) * of_program[t].dtype.bytes
        for t in {statement.target, *tensors}
    )
    order = best_order(
        tuple(map(_factor_of, groups)),
        statement.outer,
        {v: at_hint(r.extent) for v, r in ranges.items()},
        # a temporary has its elements from 0, and all must be written
        [v for v, r in ranges.items() if r.begin == 0],
        largest=int(max(costs.growth * max(sizes), costs.cache)) // statement.rhs.dtype.bytes,
        costs=costs,
    )
    return None if order.is_plain else (order, groups)


def _contiguous(expr: p.Expr) -> Iterator[str]:
    """The variables in last subscripts."""
    for read in p.walk(expr):
        if isinstance(read, p.Read) and read.subscripts:
            yield from (n.name for n in p.walk(read.subscripts[-1]) if isinstance(n, p.Index))


# --- the factored program ---------------------------------------------------------------------


@dataclass
class _Factored:
    """A statement whose sum gets an order, its factors, and the statements put before it."""

    rewriting: Rewriting
    old: p.ShapedStatement
    order: PartialSum
    groups: tuple[Group, ...]
    before: list[p.ShapedStatement] = field(default_factory=list)

    def made(self) -> list[p.ShapedStatement]:
        """The statements that store smaller sums, and the last one, which has the old name."""
        rhs = self._product(self.order)
        return [*self.before, self.rewriting.remaining(self.old, rhs, self.order.variables)]

    def _product(self, order: PartialSum) -> p.Expr:
        """The product of the operands of a sum, in text order, once smaller sums are stored."""
        operands: list[tuple[int, p.Expr]] = []
        for operand in order.operands:
            if isinstance(operand, PartialSum):
                first = min(self.groups[n].exprs[0][0] for n in operand.factors())
                operands.append((first, self._store(operand)))
            else:
                operands += self.groups[operand].exprs
        operands.sort(key=lambda operand: operand[0])
        statement = self.old.statement
        return reduce(
            lambda left, right: p.Binary(
                "*", left, right, statement.rhs.dtype, span=statement.span
            ),
            (expr for _, expr in operands),
        )

    def _store(self, order: PartialSum) -> p.Read:
        """Adds a statement that stores a sum in a new temporary; a read of that."""
        statement, rhs = self.old.statement, self._product(order)
        summed = tuple(v for v in statement.variables if v in order.variables - order.kept)
        new, read = self.rewriting.store(
            self.old,
            rhs,
            _dimensions(order, rhs, statement),
            summed,
            name=ascii_lowercase[len(self.before)],
            kind="t",
        )
        self.before.append(new)
        return read


def _dimensions(order: PartialSum, rhs: p.Expr, old: p.Statement) -> tuple[str, ...]:
    """The variables of a temporary, in the order in which its factors are read, so that it can be
    written as they lie; but one along which the target is contiguous comes last, as then all
    statements can run along it."""
    read = dict.fromkeys(n.name for n in p.walk(rhs) if isinstance(n, p.Index))
    last = old.outer[-1:]
    return tuple(sorted((v for v in read if v in order.kept), key=lambda v: v in last))


# --- division ---------------------------------------------------------------------------------


def divide_last(shaped: ShapedProgram) -> ShapedProgram:
    """The program with quotients by what does not depend on the sum taken out of sums.

    The temporaries are named after the target ("m.q0"); the statement that divides keeps its
    name. A program in which nothing is divided is returned as it is.

    Where the sum may overflow though the quotients do not, or is NaN or infinite as written, R5
    leaves the value open, as it does for `factor`.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(N,D) x) -> (m) { m(n) +=! x(n,d) / D }")
    >>> divided = divide_last(infer_ranges(check(parse(source)), {"x": (10, 20)}, {}))
    >>> [statement.text for statement in divided.program.statements]
    ['m.q0(n) +=! x(n, d)', 'm(n) = m.q0(n) / D']
    """
    rewriting = Rewriting(shaped, "divided")
    return rewriting.program(lambda old: _divided(old, rewriting))


def _divided(old: ShapedStatement, rewriting: Rewriting) -> list[ShapedStatement] | None:
    outer, reduction = old.statement.outer, old.statement.reduction
    quotient = quotient_of(old)
    if quotient is None or prod(old.ranges[v].extent for v in reduction) < 2:
        return None
    total, read = rewriting.store(old, quotient.left, outer, reduction, name="sum", kind="q")
    return [total, rewriting.remaining(old, replace(quotient, left=read), outer)]
