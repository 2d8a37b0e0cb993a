"""Small operands that a long sum reads across their rows are stored anew, with these rows.

Threads of a GPU that share `o(i) +=! A(i,j,k) * B(k,j)` along the rows of A read neighbours of A,
and elements of B that are a row apart: each of these takes a whole sector of memory. Where B is
small beside A, `t(j,k) = B(k,j)` costs little, and the sum reads neighbours in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tc.polyhedral.rewrite.rewriting import Rewriting, bare_variables, rewrite
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import (
    Expr,
    Read,
    ShapedProgram,
    ShapedStatement,
    walk,
)

_ACROSS = "across"


def is_transposed(statement: str) -> bool:
    """Whether a statement of that name copies an operand.

    >>> is_transposed("S0.across1"), is_transposed("S0")
    (True, False)
    """
    return statement.rpartition(".")[2].startswith(_ACROSS)


def transpose_operands(
    shaped: ShapedProgram, limits: Thresholds, strides: Mapping[str, tuple[int, ...]]
) -> ShapedProgram:
    """The program with copies of operands in the order of what is read along rows, as temporaries
    named after the target ("o.a0"), where sums of at least `limits.across` steps in all (0: none)
    read them across their rows, and they are smaller by a factor of `limits.smaller` at least than
    what is read along rows; the very same where there are none. `strides` has the inputs that are
    not row-major, which stay. So do the operands of statements with checks.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N,J,K) A, float(K,J) B) -> (o) { o(i) +=! A(i,j,k) * B(k,j) }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"A": (50, 64, 64), "B": (64, 64)}, {})
    >>> transposed = transpose_operands(shaped, Thresholds(across=100_000), {})
    >>> [statement.text for statement in transposed.program.statements]
    ['o.a0(j, k) = B(k, j)', 'o(i) +=! A(i, j, k) * o.a0(j, k)']
    >>> transpose_operands(shaped, Thresholds(across=1_000_000), {}) is shaped
    True
    """
    rewriting = Rewriting(shaped, "transposed")

    def change(old: ShapedStatement) -> list[ShapedStatement] | None:
        return _transposed(old, rewriting, limits, strides)

    return rewriting.program(change) if limits.across else shaped


def _transposed(
    old: ShapedStatement,
    rewriting: Rewriting,
    limits: Thresholds,
    strides: Mapping[str, tuple[int, ...]],
) -> list[ShapedStatement] | None:
    statement = old.statement
    if statement.op == "=" or old.checked or old.is_empty or old.walk is not None:
        return None
    reads = [node for node in walk(statement.rhs) if isinstance(node, Read) and node.subscripts]
    near = _near(old, reads)
    if near is None or prod(r.extent for r in old.ranges.values()) < limits.across:
        return None
    order, largest = near
    along = order[-1]
    made: list[ShapedStatement] = []
    others: dict[int, Read] = {}
    for read in reads:
        names = bare_variables(read.subscripts) or ()
        if along not in names[:-1] or read.tensor in (*strides, statement.target):
            continue
        shape = rewriting.shaped.shapes[read.tensor]
        is_there = all(
            old.ranges[v].begin == 0 and old.ranges[v].end <= size
            for v, size in zip(names, shape, strict=True)
        )
        if is_there and {*names} <= {*order} and _elements(names, old) * limits.smaller <= largest:
            outer = tuple(v for v in order if v in names)
            copied, others[read.site] = rewriting.store(
                old, rewriting.again(read), outer, name=f"{_ACROSS}{len(made)}", kind="a"
            )
            made.append(copied)
    if not made:
        return None

    def other(node: Expr) -> Expr:
        return others.get(node.site, node) if isinstance(node, Read) else node

    rhs = rewrite(statement.rhs, other)
    return [*made, rewriting.remaining(old, rhs, statement.variables)]


def _near(old: ShapedStatement, reads: list[Read]) -> tuple[tuple[str, ...], int] | None:
    """The variables of the largest operand of which each element of the target reads its own, in
    the order of its dimensions, where neighbours are along one of the reduction; and the elements
    of this operand; None where there is none."""
    outer = {*old.statement.outer}
    found = (bare_variables(read.subscripts) for read in reads)
    own = [names for names in found if names and outer.issubset(names)]
    if not own or not outer:
        return None
    order = max(own, key=lambda names: _elements(names, old))
    return None if order[-1] in outer else (order, _elements(order, old))


def _elements(variables: tuple[str, ...], old: ShapedStatement) -> int:
    return prod(old.ranges[v].extent for v in variables)
